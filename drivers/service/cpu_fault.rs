// SPDX-License-Identifier: GPL-2.0
//! CPU faults: bring pages home and map them.

use super::evict::Room;
use super::migrate::{self, Move, Stop};
use super::thrash;
use crate::account::{self, counters::Counter, events, policy};
use crate::kernel::ffi::uapi;
use crate::kernel::vma::{Inserter, Outcome};
use crate::kernel::{memcg, task, time};
use crate::memory::backing::SIZE_2M;
use crate::memory::block::{Others, State};
use crate::memory::space::Space;
use crate::memory::{block_base, PageIndex, PageMask, PageRegion, Place, BLOCK_BYTES, PAGE_BYTES};
use huvm_policy::config::KnobId;
use huvm_policy::thrash::ThrashHint;
use huvm_policy::types::Processor;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Turns of one fault; each is a copy that somebody else's fault undid.
const TRIES: u32 = 64;
/// Longest sleep of a turn whose page is throttled, microseconds: the CPU then looks for signals and asks again.
const NAP_US: u64 = 2000;

/// Serves a fault on one page.
pub(crate) fn page(space: &Arc<Space>, va: u64, write: bool, ins: &mut Inserter<'_>) -> Outcome {
    serve(space, va, write, ins, false)
}

/// Serves a fault with one 2 MiB mapping, or says [`Outcome::Fallback`] before anything was done.
pub(crate) fn huge(space: &Arc<Space>, va: u64, write: bool, ins: &mut Inserter<'_>) -> Outcome {
    match serve(space, va, write, ins, true) {
        // The kernel goes on with the page's own fault, and with page tables.
        Outcome::Fallback if !memcg::has_room_for_tables() => Outcome::Oom,
        other => other,
    }
}

fn serve(space: &Arc<Space>, va: u64, write: bool, ins: &mut Inserter<'_>, huge: bool) -> Outcome {
    let block = match space.block_at(va) {
        Ok(b) => b,
        Err(e) if e == EFAULT => return Outcome::Sigbus,
        Err(_) => return Outcome::Oom,
    };
    let page = PageIndex::of_va(va);
    let p = policy::in_force(space, None);
    let mut room = Room::empty();
    // Not what is around the page: some of that is gone.
    let mut alone = false;
    for turn in 0..TRIES {
        if turn != 0 && task::fatal_signal_pending() {
            return Outcome::Retry;
        }
        let mut s = block.settled();
        // Of a fault of the whole block nobody knows which page is wanted.
        if s.dead || !s.managed.test(page) || (!huge && s.lost.test(page)) {
            return Outcome::Sigbus;
        }
        let alike = s.advice.same_as(page);
        if huge && (!can_be_huge(&s, va) || thrash::is_thrashing(&s, &p) || !alike.is_full()) {
            return Outcome::Fallback;
        }
        if huge && !has_huge(space, &mut s, p.get(KnobId::HostChunkSizes)) {
            // The fault of one page brings no more than is around it.
            return Outcome::Fallback;
        }
        if thrash::is_thrashing(&s, &p) {
            let said = thrash::hint(space, None, &mut s, page, Processor::Cpu, false, &p);
            if let ThrashHint::Throttle { until } = said {
                drop(s);
                let left = until.0.saturating_sub(time::now_ns()) / 1000;
                time::sleep_us(left.clamp(1, NAP_US));
                continue;
            }
        }
        let want = if huge {
            PageMask::FULL
        } else if alone {
            PageMask::from_page(page)
        } else {
            region(&s, page, &alike)
        };
        let duplicate = s.advice.of(page).read_mostly && !write;
        let ready = s.host_valid.and(&want);
        let blocked = if write {
            s.on_gpus().and(&want)
        } else {
            PageMask::EMPTY
        };
        if ready.and_not(&blocked).test(page) && (!huge || ready.and_not(&blocked).is_full()) {
            let shared = s.on_gpus();
            return insert(&block, &mut s, page, huge, write, &shared, ins);
        }
        let m = Move {
            pages: want,
            dst: Place::Host,
            others: if duplicate { Others::Stay } else { Others::Go },
            cause: uapi::HUVM_CAUSE_CPU_FAULT,
        };
        // A write takes from GPUs what they read, though nothing is copied. What is to be in several places is not fought over.
        let taken = blocked.and_not(&s.advice.read_mostly());
        let moves = want.and_not(&s.host_valid).or(&taken);
        match migrate::start(&block, &mut s, None, &mut room, &m) {
            Ok(()) => thrash::note(space, &mut s, &moves, Place::Host, &p),
            Err(Stop::Failed(e)) if huge && (e == ENOMEM || e == EIO) => return Outcome::Fallback,
            Err(Stop::Failed(e)) if e == ENOMEM => return Outcome::Oom,
            Err(Stop::Failed(e)) if e == EAGAIN => {}
            Err(Stop::Failed(e)) if e == EIO && !alone => alone = true,
            Err(_) => return Outcome::Sigbus,
        }
    }
    // Others took the page away each time; the CPU asks again, which is when signals are taken.
    Outcome::Retry
}

/// Pages brought along with one page: the rest of its 64 KiB, as far as managed and advised about like it.
fn region(s: &State, page: PageIndex, alike: &PageMask) -> PageMask {
    let first = page.get() & !15;
    let around = PageMask::from_region(PageRegion::from_bounds(first, first + 16));
    let mut want = around.and(&s.managed).and(alike).and_not(&s.lost);
    want.set(page);
    want
}

/// Whether all of the block can be mapped at once: all managed, none lost, and in one host piece (or none yet).
fn can_be_huge(s: &State, va: u64) -> bool {
    debug_assert!(block_base(va) + BLOCK_BYTES > va);
    s.managed.is_full()
        && s.lost.is_empty()
        && (s.host.huge_pfn().is_some() || s.host.present().is_empty())
        // A page table is there already if pages are mapped one by one.
        && (s.cpu_mapped.is_empty() || s.cpu_mapped.is_full())
}

/// Whether a block that [`can_be_huge`] is in one host piece, which it is given if it has none yet and `sizes` has it.
fn has_huge(space: &Space, s: &mut State, sizes: u64) -> bool {
    if s.host.huge_pfn().is_some() {
        return true;
    }
    if sizes & SIZE_2M == 0 {
        return false;
    }
    let did = space.memory.charged(|| s.host.ensure_huge());
    did.report(|c, n| account::count(None, Some(space), c, n));
    s.host.huge_pfn().is_some()
}

fn insert(
    block: &crate::memory::block::Block,
    s: &mut State,
    page: PageIndex,
    huge: bool,
    write: bool,
    shared: &PageMask,
    ins: &mut Inserter<'_>,
) -> Outcome {
    let space = block.space();
    let (pages, pfn) = if huge {
        (PageMask::FULL, s.host.huge_pfn())
    } else {
        (PageMask::from_page(page), s.host.pfn(page))
    };
    let Some(pfn) = pfn else {
        // The 2 MiB piece was not to be had.
        return if huge {
            Outcome::Fallback
        } else {
            Outcome::Sigbus
        };
    };
    let read_only = pages.intersects(shared);
    if write && s.cpu_read_only.intersects(&pages) {
        // The kernel keeps an entry that it finds, so the read-only one has to go first.
        super::map::unmap_cpu(block, s, &pages);
    }
    let outcome = if huge {
        ins.huge(pfn, !read_only)
    } else {
        ins.page(pfn, !read_only)
    };
    if outcome.is_mapped() {
        s.cpu_mapped |= pages;
        s.cpu_read_only = if read_only {
            s.cpu_read_only.or(&pages)
        } else {
            s.cpu_read_only.and_not(&pages)
        };
        account::count(None, Some(space), Counter::CpuFaults, 1);
        if huge {
            account::count(None, Some(space), Counter::CpuFaults2m, 1);
        }
        events::emit(
            Some(space),
            &events::Event {
                kind: uapi::HUVM_EVENT_CPU_FAULT,
                cause: uapi::HUVM_CAUSE_CPU_FAULT,
                gpu: uapi::HUVM_PLACE_HOST,
                va: block.va() + page.byte_offset().get(),
                length: u64::from(pages.count().get()) * PAGE_BYTES,
                arg0: u64::from(write),
                arg1: 0,
            },
        );
    }
    outcome
}

/// Copies between managed memory and a kernel buffer, as ptrace and `/proc/pid/mem` want. Returns the bytes done.
///
/// # Errors
/// `EFAULT` when the first page cannot be served.
pub(crate) fn access(space: &Arc<Space>, va: u64, buf: &mut [u8], write: bool) -> Result<usize> {
    let mut done = 0;
    let mut turns = 0;
    while done < buf.len() && turns < TRIES {
        let at = va.checked_add(u64::try_from(done)?).ok_or(EFAULT)?;
        let Ok(block) = space.block_at(at) else {
            break;
        };
        let page = PageIndex::of_va(at);
        let m = Move {
            pages: PageMask::from_page(page),
            dst: Place::Host,
            others: Others::Go,
            cause: uapi::HUVM_CAUSE_CPU_FAULT,
        };
        if migrate::finish(&block, None, &m).is_err() {
            break;
        }
        let mut s = block.settled();
        if !s.host_valid.test(page) || (write && s.on_gpus().test(page)) {
            // A GPU took it back in between, or has a copy by now; once more.
            turns += 1;
            continue;
        }
        let offset = usize::try_from(at % PAGE_BYTES)?;
        let Some(rest) = buf.get_mut(done..) else {
            break;
        };
        let n = s.host.peek(page, offset, rest, write);
        if n == 0 {
            break;
        }
        done += n;
        turns = 0;
    }
    if done == 0 && !buf.is_empty() {
        return Err(EFAULT);
    }
    Ok(done)
}
