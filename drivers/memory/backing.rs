// SPDX-License-Identifier: GPL-2.0
//! Host memory of one block.
//!
//! Pages come in pieces of 2 MiB, 64 KiB or 4 KiB: the largest that policy allows, that lies inside the managed
//! pages and over nothing already there, and that the kernel has (`nvidia-uvm.md` 4.7). A piece stays until the block
//! dies or its pages are unmapped, and is mapped for DMA once per GPU.

use super::{PageIndex, PageMask, PageRegion, Pages, PAGE_BYTES};
use crate::account::counters::Counter;
use crate::device::Gpu;
use crate::kernel::{dma::DmaMapping, hostpage::HostPages, memcg, mmio::VramWindow};
use kernel::prelude::*;

/// Bit of the knob `host_chunk_sizes`: 64 KiB pieces are allowed.
pub(crate) const SIZE_64K: u64 = 1 << 0;
/// Bit of the knob `host_chunk_sizes`: 2 MiB pieces are allowed.
pub(crate) const SIZE_2M: u64 = 1 << 1;

struct Piece {
    first: u16,
    // Before the pages: fields are dropped in this order, and a mapping ends before the memory that it maps is freed.
    maps: KVec<(u8, DmaMapping)>,
    pages: HostPages,
}

impl Piece {
    fn len(&self) -> u16 {
        1 << self.pages.order()
    }

    fn region(&self) -> PageRegion {
        // At most 512: no overflow.
        PageRegion::from_bounds(self.first, self.first + self.len())
    }
}

/// Host memory of one block: pieces in ascending order, none over another.
pub(crate) struct Backing {
    pieces: KVec<Piece>,
    present: PageMask,
}

/// What [`Backing::ensure`] allocated, for the counters.
#[derive(Clone, Copy, Default)]
pub(crate) struct Allocated {
    pub(crate) huge: u64,
    pub(crate) big: u64,
    pub(crate) small: u64,
    /// A larger size was wanted and not to be had.
    pub(crate) fallbacks: u64,
}

impl Allocated {
    /// Adds these figures to counters by way of `add`.
    pub(crate) fn report(&self, mut add: impl FnMut(Counter, u64)) {
        for (counter, n) in [
            (Counter::Host2m, self.huge),
            (Counter::Host64k, self.big),
            (Counter::Host4k, self.small),
            (Counter::HostFallbacks, self.fallbacks),
        ] {
            if n != 0 {
                add(counter, n);
            }
        }
    }
}

impl Backing {
    /// No memory yet.
    pub(crate) const fn new() -> Self {
        Backing {
            pieces: KVec::new(),
            present: PageMask::EMPTY,
        }
    }

    /// One 2 MiB piece for a whole block, mapped for `gpu`.
    ///
    /// # Errors
    /// `ENOMEM`; `ENODEV` when the GPU is going.
    pub(crate) fn ready(gpu: &Gpu) -> Result<Self> {
        let mut backing = Self::new();
        backing.add(0, 9)?;
        backing.dma(gpu, PageIndex::of_va(0), Pages(1))?;
        Ok(backing)
    }

    /// Gives a whole block that has no memory one 2 MiB piece, and nothing else if there is none to be had.
    pub(crate) fn ensure_huge(&mut self) -> Allocated {
        let mut done = Allocated::default();
        if self.pieces.is_empty() {
            match self.add(0, 9) {
                Ok(()) => done.huge = 1,
                Err(_) => done.fallbacks = 1,
            }
        }
        done
    }

    /// Pages that have memory.
    pub(crate) fn present(&self) -> &PageMask {
        &self.present
    }

    /// Gives memory to `want`, in pieces inside `limit` (the managed pages), of sizes in `sizes`. The
    /// memory is not zeroed: a page becomes valid only when a copy or [`Self::zero`] has overwritten it.
    ///
    /// # Errors
    /// `ENOMEM`; what was allocated until then stays and is not in use.
    #[inline(never)] // stack
    pub(crate) fn ensure(
        &mut self,
        want: &PageMask,
        limit: &PageMask,
        sizes: u64,
    ) -> Result<Allocated> {
        let mut done = Allocated::default();
        let mut missing = want.and_not(&self.present);
        if missing.is_empty() {
            return Ok(done);
        }
        if sizes & SIZE_2M != 0 && limit.is_full() {
            done = self.ensure_huge();
            missing = want.and_not(&self.present);
        }
        while let Some(page) = missing.first() {
            let group = PageRegion::from_bounds(page.get() & !15, (page.get() & !15) + 16);
            let big_fits = limit.contains_region(group) && !self.present.intersects_region(group);
            if sizes & SIZE_64K != 0 && big_fits {
                if self.add(group.start(), 4).is_ok() {
                    done.big += 1;
                    missing = missing.and_not(&self.present);
                    continue;
                }
                done.fallbacks += 1;
            }
            self.add(page.get(), 0)?;
            done.small += 1;
            missing.clear(page);
        }
        Ok(done)
    }

    fn add(&mut self, first: u16, order: u32) -> Result {
        memcg::reserve(&mut self.pieces, 1)?;
        let piece = Piece {
            first,
            pages: HostPages::alloc(order)?,
            maps: KVec::new(),
        };
        let region = piece.region();
        let at = self.pieces.partition_point(|p| p.first < first);
        self.pieces
            .insert_within_capacity(at, piece)
            .map_err(|_| ENOMEM)?;
        self.present.set_region(region);
        Ok(())
    }

    fn index_of(&self, page: PageIndex) -> Option<usize> {
        let at = self
            .pieces
            .partition_point(|p| p.first <= page.get())
            .checked_sub(1)?;
        self.pieces
            .get(at)
            .filter(|p| p.region().contains(page))
            .map(|_| at)
    }

    fn piece(&self, page: PageIndex) -> Option<&Piece> {
        self.pieces.get(self.index_of(page)?)
    }

    /// Page frame number of a page.
    pub(crate) fn pfn(&self, page: PageIndex) -> Option<usize> {
        let p = self.piece(page)?;
        Some(p.pages.pfn() + usize::from(page.get() - p.first))
    }

    /// Frame number of the first page, if one 2 MiB piece backs the block.
    pub(crate) fn huge_pfn(&self) -> Option<usize> {
        self.pieces
            .first()
            .filter(|p| p.pages.order() == 9)
            .map(|p| p.pages.pfn())
    }

    /// Whether some piece is mapped for a GPU.
    pub(crate) fn is_mapped_for(&self, gpu: u8) -> bool {
        let mut maps = self.pieces.iter().flat_map(|p| p.maps.iter());
        maps.any(|(of, _)| *of == gpu)
    }

    /// Bytes of the largest piece that has some of `pages`.
    pub(crate) fn largest_piece_bytes(&self, pages: &PageMask) -> u64 {
        self.pieces
            .iter()
            .filter(|p| pages.intersects_region(p.region()))
            .map(|p| u64::from(p.len()) * PAGE_BYTES)
            .max()
            .unwrap_or(0)
    }

    /// Bus address of `page` for `gpu`, and how many pages from there on (at most `max`) are contiguous on the bus.
    /// Maps the piece on its first use by this GPU.
    ///
    /// # Errors
    /// `EIO` if the page has no memory or the GPU is lost, `ENOMEM` if it cannot be mapped.
    #[inline(never)] // stack
    pub(crate) fn dma(&mut self, gpu: &Gpu, page: PageIndex, max: Pages) -> Result<(u64, Pages)> {
        let at = self.index_of(page).ok_or(EIO)?;
        let piece = self.pieces.get_mut(at).ok_or(EIO)?;
        let into = page.get() - piece.first;
        let left = u32::from(piece.len() - into).min(max.get());
        let base = match piece.maps.iter().find(|(g, _)| *g == gpu.index()) {
            Some((_, map)) => map.dma_addr(),
            None => {
                piece.maps.reserve(1, GFP_KERNEL)?;
                let map = gpu.dma_map(&piece.pages)?;
                let addr = map.dma_addr();
                piece.maps.push((gpu.index(), map), GFP_KERNEL)?;
                addr
            }
        };
        Ok((base + u64::from(into) * PAGE_BYTES, Pages(left)))
    }

    /// Bus address of a page for a GPU that has its piece mapped already.
    pub(crate) fn dma_addr(&self, gpu: u8, page: PageIndex) -> Option<u64> {
        let piece = self.piece(page)?;
        let (_, map) = piece.maps.iter().find(|(g, _)| *g == gpu)?;
        Some(map.dma_addr() + u64::from(page.get() - piece.first) * PAGE_BYTES)
    }

    /// Takes back every DMA mapping for a GPU. Its copies must be over.
    pub(crate) fn unmap_gpu(&mut self, gpu: u8) {
        for piece in self.pieces.iter_mut() {
            piece.maps.retain(|(g, _)| *g != gpu);
        }
    }

    /// Writes zeroes to pages that have memory.
    pub(crate) fn zero(&mut self, pages: &PageMask) {
        for page in pages.and(&self.present).iter() {
            if let Some(at) = self.index_of(page) {
                if let Some(p) = self.pieces.get_mut(at) {
                    let into = usize::from(page.get() - p.first);
                    p.pages
                        .zero(into * PAGE_BYTES as usize, PAGE_BYTES as usize);
                }
            }
        }
    }

    /// Copies between a page and a buffer (`/proc/pid/mem`, ptrace). Returns the bytes done; a page without memory ends it.
    pub(crate) fn peek(
        &mut self,
        page: PageIndex,
        offset: usize,
        buf: &mut [u8],
        write: bool,
    ) -> usize {
        let Some(at) = self.index_of(page) else {
            return 0;
        };
        let Some(p) = self.pieces.get_mut(at) else {
            return 0;
        };
        let from = usize::from(page.get() - p.first) * PAGE_BYTES as usize + offset;
        let len = buf.len().min((PAGE_BYTES as usize).saturating_sub(offset));
        let Some(buf) = buf.get_mut(..len) else {
            return 0;
        };
        if write {
            p.pages.write(from, buf);
        } else {
            p.pages.read(from, buf);
        }
        len
    }

    /// Reads a page of a chunk, which `window` begins with, by the CPU. `false` if it has no memory here, or lies beyond the window.
    pub(crate) fn read_from(&self, page: PageIndex, window: &VramWindow) -> bool {
        self.piece(page).is_some_and(|p| {
            let at = usize::from(page.get() - p.first) * PAGE_BYTES as usize;
            let from = usize::from(page.get()) * PAGE_BYTES as usize;
            p.pages.read_from(at, window, from, PAGE_BYTES as usize)
        })
    }

    /// Frees the pieces that hold none of `keep`. No mapping and no copy may use them.
    #[inline(never)] // stack
    pub(crate) fn release_all_but(&mut self, keep: &PageMask) {
        let present = &mut self.present;
        self.pieces.retain(|p| {
            let used = keep.intersects_region(p.region());
            if !used {
                present.clear_region(p.region());
            }
            used
        });
    }
}
