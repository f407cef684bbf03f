// SPDX-License-Identifier: GPL-2.0
//! The ranges and blocks of a space, by address.
//!
//! A range is what one `mmap` gave and `munmap` has left. Partial `munmap` only trims ranges and clears pages of
//! blocks, so a split VMA needs no bookkeeping of its own.

use super::block::Block;
use super::{block_base, pages_between, PageMask, BLOCK_BYTES};
use crate::kernel::inject::Point;
use crate::kernel::memcg::{CHARGED, CHARGED_BEYOND};
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNodeReservation};
use kernel::sync::Arc;

/// A managed range `start..end`.
#[derive(Clone, Copy)]
pub(crate) struct Range {
    pub(crate) end: u64,
    /// GPUs may write (the mapping was writable when it was made).
    pub(crate) writable: bool,
}

/// Ranges and blocks of one space, under the space's layout lock.
pub(crate) struct Layout {
    ranges: RBTree<u64, Range>,
    blocks: RBTree<u64, Arc<Block>>,
    bytes: u64,
    /// For the second half of a range cut in the middle, should memory be short then.
    spare: Option<RangePlace>,
}

/// Room for one range more.
pub(crate) type RangePlace = RBTreeNodeReservation<u64, Range>;

/// Room for one block more.
pub(crate) type BlockPlace = RBTreeNodeReservation<u64, Arc<Block>>;

/// Pages of one block that ranges cover.
#[derive(Clone, Copy)]
pub(crate) struct Cover {
    pub(crate) managed: PageMask,
    pub(crate) writable: PageMask,
}

impl Layout {
    /// Nothing yet.
    pub(crate) fn new() -> Self {
        Layout {
            ranges: RBTree::new(),
            blocks: RBTree::new(),
            bytes: 0,
            spare: None,
        }
    }

    /// Bytes in ranges.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A place for a range. The caller says whom it is charged to.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn range_place() -> Result<RangePlace> {
        RBTreeNodeReservation::new(CHARGED)
    }

    /// Adds a range. Takes `spare` if it needs that.
    ///
    /// # Errors
    /// `EEXIST` if it lies over another (the kernel never hands out such an address).
    pub(crate) fn add_range(
        &mut self,
        place: RangePlace,
        spare: &mut Option<RangePlace>,
        start: u64,
        r: Range,
    ) -> Result {
        if self.first_overlap(start, r.end).is_some() {
            return Err(EEXIST);
        }
        if self.spare.is_none() {
            self.spare = spare.take();
        }
        self.ranges.insert(place.into_node(start, r));
        self.bytes += r.end - start;
        Ok(())
    }

    /// First range (start, range) that meets `start..end`.
    fn first_overlap(&self, start: u64, end: u64) -> Option<(u64, Range)> {
        let hit = |s: u64, r: Range| (s < end && r.end > start).then_some((s, r));
        match self.ranges.cursor_lower_bound(&start) {
            Some(c) => {
                if let Some((s, r)) = c.peek_prev() {
                    if let Some(found) = hit(*s, *r) {
                        return Some(found);
                    }
                }
                let (s, r) = c.current();
                hit(*s, *r)
            }
            None => {
                let c = self.ranges.cursor_back()?;
                let (s, r) = c.current();
                hit(*s, *r)
            }
        }
    }

    /// Start and end of the range that `va` lies in.
    pub(crate) fn range_at(&self, va: u64) -> Option<(u64, u64)> {
        self.first_overlap(va, va.checked_add(1)?)
            .map(|(s, r)| (s, r.end))
    }

    /// Whether `start..end` cuts a range in the middle: it becomes two.
    pub(crate) fn is_cut_by(&self, start: u64, end: u64) -> bool {
        self.range_at(start)
            .is_some_and(|(s, e)| s < start && end < e)
    }

    /// A place for what is behind such a cut, if there is memory. The caller says whom it is charged to.
    pub(crate) fn tail_place() -> Option<RangePlace> {
        if Point::Tail.fails() {
            return None;
        }
        RBTreeNodeReservation::new(CHARGED_BEYOND)
            .or_else(|_| RBTreeNodeReservation::new(GFP_KERNEL))
            .ok()
    }

    /// Takes `start..end` out of the ranges. A range cut in the middle needs one place more: `tail`, else the
    /// spare one is used. Only when both are gone (two such cuts with no memory) the tail is lost as a range: its
    /// data stays in the blocks it has, new blocks there fault.
    pub(crate) fn remove_range(&mut self, start: u64, end: u64, mut tail: Option<RangePlace>) {
        while let Some((s, r)) = self.first_overlap(start, end) {
            let Some(node) = self.ranges.remove_node(&s) else {
                return;
            };
            self.bytes -= r.end - s;
            let mut free = Some(node.into_reservation());
            let before = (s, r.end.min(start));
            let behind = (s.max(end), r.end);
            for (from, to) in [before, behind] {
                if from < to {
                    let others = || tail.take().or_else(|| self.spare.take());
                    let Some(place) = free.take().or_else(others) else {
                        continue;
                    };
                    self.ranges
                        .insert(place.into_node(from, Range { end: to, ..r }));
                    self.bytes += to - from;
                }
            }
        }
    }

    /// How far ranges cover `start..end` from its start on, as far as `many` of them reach. `start` itself: there is none.
    pub(crate) fn covered(&self, start: u64, end: u64, many: usize) -> u64 {
        let mut at = start;
        for _ in 0..many {
            if at >= end {
                break;
            }
            match self.range_at(at) {
                Some((_, to)) => at = to,
                None => break,
            }
        }
        at
    }

    /// Pages of the block at `base` that ranges cover.
    pub(crate) fn cover(&self, base: u64) -> Cover {
        let mut c = Cover {
            managed: PageMask::EMPTY,
            writable: PageMask::EMPTY,
        };
        let (mut at, end) = (base, base + BLOCK_BYTES);
        while let Some((s, r)) = self.first_overlap(at, end) {
            let pages = pages_between(base, s.max(base), r.end.min(end));
            c.managed |= pages;
            if r.writable {
                c.writable |= pages;
            }
            at = r.end;
            if at >= end {
                break;
            }
        }
        c
    }

    /// The block that `va` lies in, if it exists.
    pub(crate) fn block(&self, va: u64) -> Option<Arc<Block>> {
        self.blocks.get(&block_base(va)).cloned()
    }

    /// A place for a block. The caller says whom it is charged to.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn place() -> Result<BlockPlace> {
        RBTreeNodeReservation::new(CHARGED)
    }

    /// Adds a block where there is none.
    pub(crate) fn add_block(&mut self, place: BlockPlace, block: Arc<Block>) {
        self.blocks.insert(place.into_node(block.va(), block));
    }

    /// Takes a block out, if it is the one at its address.
    pub(crate) fn remove_block(&mut self, block: &Arc<Block>) -> Option<Arc<Block>> {
        match self.blocks.get(&block.va()) {
            Some(found) if Arc::ptr_eq(found, block) => self.blocks.remove(&block.va()),
            _ => None,
        }
    }

    /// First block at or after `va`.
    pub(crate) fn next_block(&self, va: u64) -> Option<Arc<Block>> {
        let c = self.blocks.cursor_lower_bound(&block_base(va))?;
        Some(c.current().1.clone())
    }
}
