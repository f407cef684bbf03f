// SPDX-License-Identifier: GPL-2.0
//! Mappings of a block: GPU page tables and CPU page tables.
//!
//! A mapping is taken away before the copy it shows moves, and made after a copy is valid or submitted. Callers hold
//! the block's lock.

use crate::account::{self, counters::Counter};
use crate::device::Loss;
use crate::memory::block::{Block, Part, State};
use crate::memory::{PageIndex, PageMask, PAGE_BYTES};
use huvm_hal::ids::{self, Loc, SysAddr, VidAddr};
use huvm_hal::pagetable::{MapFlags, Prot};
use kernel::prelude::*;

/// A mask in the hardware crate's type.
pub(crate) fn hal_mask(m: &PageMask) -> ids::PageMask {
    ids::PageMask(*m.words())
}

/// Takes `pages` from the GPU of `part`, and waits until it uses none of them. One that does not acknowledge is lost, and uses
/// none either.
#[inline(never)] // stack
pub(crate) fn unmap_part(part: &mut Part, pages: &PageMask) {
    let gone = part.mapped.and(pages);
    if gone.is_empty() {
        return;
    }
    let mask = hal_mask(&gone);
    let sg = part.sg.clone();
    if sg.gpu.is_lost() {
        // It was kept from all memory but its own before anybody knew ([`Gpu::mark_lost`](crate::device::Gpu)). What it still does
        // there nobody reads.
        forget(part, &gone);
        return;
    }
    let mut all = false;
    let did = sg.change(&mut part.tables, |t, gpu, pde0| t.unmap(gpu, pde0, &mask));
    let did = match did {
        // No memory for the tables of a split: take everything. What else was mapped faults again.
        Err(e) if e == ENOMEM => {
            all = true;
            sg.change(&mut part.tables, |t, gpu, pde0| Ok(t.unmap_all(gpu, pde0)))
        }
        other => other,
    };
    // A GPU that does not answer is lost, so that nothing can go through the old mapping any more.
    if did.is_err() {
        sg.gpu.mark_lost(Loss::Invalidate);
    }
    let gone = if all { part.mapped } else { gone };
    forget(part, &gone);
    account::count(Some(&sg.gpu), None, Counter::TlbInvalidates, 1);
}

/// The GPU has `gone` not mapped any more.
fn forget(part: &mut Part, gone: &PageMask) {
    part.mapped = part.mapped.and_not(gone);
    part.remote = part.remote.and_not(gone);
    part.read_only = part.read_only.and_not(gone);
}

/// Takes `pages` from every GPU.
#[inline(never)] // stack
pub(crate) fn unmap_gpus(s: &mut State, pages: &PageMask) {
    for part in s.parts.iter_mut() {
        unmap_part(part, pages);
    }
}

/// Takes from every GPU those of `pages` that it has mapped elsewhere: why it had them there holds no more.
pub(crate) fn unmap_remote(s: &mut State, pages: &PageMask) {
    let remote = s.parts.iter().fold(PageMask::EMPTY, |m, p| m.or(&p.remote));
    let gone = remote.and(pages);
    if !gone.is_empty() {
        unmap_gpus(s, &gone);
    }
}

/// Takes `pages` from the CPUs.
#[inline(never)] // stack
pub(crate) fn unmap_cpu(block: &Block, s: &mut State, pages: &PageMask) {
    let gone = s.cpu_mapped.and(pages);
    if gone.is_empty() {
        return;
    }
    // One call for the span: a page beside it that goes too only faults again.
    let span = gone.span();
    let (from, len) = (u64::from(span.start()), u64::from(span.len().get()));
    block
        .space()
        .mapping
        .zap(block.va() + from * PAGE_BYTES, len * PAGE_BYTES);
    let gone = PageMask::from_region(span);
    s.cpu_mapped = s.cpu_mapped.and_not(&gone);
    s.cpu_read_only = s.cpu_read_only.and_not(&gone);
}

/// Maps `pages`, whose copies are in the chunk of GPU `g`, on that GPU.
///
/// # Errors
/// `ENOMEM`, `EIO`; what was mapped before stays.
#[inline(never)] // stack
pub(crate) fn map_local(s: &mut State, g: u8, pages: &PageMask, read_only: bool) -> Result {
    let part = s.part_mut(g).ok_or(EIO)?;
    let chunk = part.chunk.ok_or(EIO)?;
    let base = chunk.byte_offset().get();
    map_part(part, pages, read_only, Target::Run(Loc::Vid(VidAddr(base))))?;
    part.remote = part.remote.and_not(pages);
    Ok(())
}

/// Maps `pages`, which are valid on the host, on GPU `g` where they are. The link has no atomic operations: an atomic faults, and
/// brings its page ([`super::placement`]).
///
/// # Errors
/// `ENOMEM`, `EIO`; what was mapped before stays.
#[inline(never)] // stack
pub(crate) fn map_host(s: &mut State, g: u8, pages: &PageMask, read_only: bool) -> Result {
    let State { parts, host, .. } = s;
    let part = parts.iter_mut().find(|p| p.gpu() == g).ok_or(EIO)?;
    for page in pages.iter() {
        host.dma(&part.sg.gpu, page, crate::memory::Pages(1))?;
    }
    let host = &*host;
    let target = |i| {
        let addr = PageIndex::new(i).and_then(|p| host.dma_addr(g, p));
        // Every page was mapped for DMA just above; an unused address is refused by the table code.
        Loc::Sys(SysAddr(addr.unwrap_or(u64::MAX)))
    };
    map_part(part, pages, read_only, Target::Each(&target))?;
    part.remote |= *pages;
    let n = u64::from(pages.count().get());
    account::count(Some(&part.sg.gpu), None, Counter::MappedRemotePages, n);
    Ok(())
}

/// Where pages are mapped to.
#[derive(Clone, Copy)]
enum Target<'a> {
    /// The GPU's own memory: page `i` of the block is `i` pages behind this.
    Run(Loc),
    /// The host's, page by page.
    Each(&'a dyn Fn(u16) -> Loc),
}

fn map_part(part: &mut Part, pages: &PageMask, read_only: bool, target: Target<'_>) -> Result {
    let mask = hal_mask(pages);
    let flags = MapFlags {
        prot: match target {
            _ if read_only => Prot::Read,
            Target::Run(_) => Prot::ReadWriteAtomic,
            Target::Each(_) => Prot::ReadWrite,
        },
        cached: false,
    };
    let sg = part.sg.clone();
    let was_huge = part.tables.is_huge();
    let big_before = part.tables.big_regions();
    sg.change(&mut part.tables, |t, gpu, pde0| match target {
        Target::Run(base) => t.map_run(gpu, pde0, &mask, flags, base),
        Target::Each(of) => t.map(gpu, pde0, &mask, flags, of),
    })?;
    part.mapped |= *pages;
    if read_only {
        part.read_only |= *pages;
    } else {
        part.read_only = part.read_only.and_not(pages);
    }
    let add = |counter, n| account::count(Some(&sg.gpu), None, counter, n);
    match (was_huge, part.tables.is_huge()) {
        (false, true) => {
            add(Counter::Map2m, 1);
            if big_before != 0 {
                add(Counter::Merges, 1);
            }
        }
        (true, false) => add(Counter::Splits, 1),
        _ => {
            let big = part.tables.big_regions();
            let new_big = (big & !big_before).count_ones();
            add(Counter::Map64k, u64::from(new_big));
            let in_big: u32 = (0..32u16)
                .filter(|r| big & (1 << r) != 0)
                .map(|r| mask.region(r).count_ones())
                .sum();
            add(
                Counter::Map4k,
                u64::from(pages.count().get().saturating_sub(in_big)),
            );
        }
    }
    Ok(())
}
