// SPDX-License-Identifier: GPL-2.0
//! Order of a batch, one fault per page, groups by block (`nvidia-uvm.md` 3.3 step 3, 3.4).

use super::Fault;
use crate::types::Access;
use core::cmp::Reverse;

/// Sorts a batch by address space, page, access (most intrusive first) and place of fetching, and leaves one fault per page
/// of a space: the most intrusive, which stands for the others. Returns how many there are; they are the front of the
/// slice, in order. Behind them are the duplicates, in no order.
///
/// Fatal faults stay single and come before others on their page: each must be cancelled by itself.
///
/// In place, without allocation or recursion.
pub fn sort_and_dedup(faults: &mut [Fault]) -> usize {
    let apart = absorb_recent(faults);
    let faults = faults.get_mut(..apart).unwrap_or_default();
    if !faults.is_sorted_by_key(key) {
        sort(faults);
    }
    let mut kept: usize = 0;
    for i in 0..faults.len() {
        let Some(&fault) = faults.get(i) else { break };
        let last = kept.checked_sub(1).and_then(|last| faults.get_mut(last));
        match last {
            Some(last) if last.same_page(&fault) && !last.is_fatal && !fault.is_fatal => {
                last.absorb(&fault);
            }
            _ => {
                if let Some((front, rest)) = faults.split_at_mut_checked(i) {
                    if let (Some(a), Some(b)) = (front.get_mut(kept), rest.first_mut()) {
                        core::mem::swap(a, b);
                    }
                }
                kept = kept.saturating_add(1);
            }
        }
    }
    kept
}

/// Pages that [`absorb_recent`] remembers.
const SLOTS: usize = 128;

/// Merges faults on the same page as far as one look at a small table finds them, before the sort, which has to move what is
/// left: the threads of a launch fault on the same pages, so most packets go here. Returns how many are left; they are the
/// front of the slice.
fn absorb_recent(faults: &mut [Fault]) -> usize {
    let mut slots = [u16::MAX; SLOTS];
    let mut kept: usize = 0;
    for i in 0..faults.len() {
        let Some(&fault) = faults.get(i) else { break };
        // The golden ratio (Knuth, volume 3, section 6.4). CAST: 7 bits are left.
        let hash = ((fault.va >> 12) ^ u64::from(fault.space)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let Some(slot) = slots.get_mut((hash >> 57) as usize) else {
            break;
        };
        let before = usize::from(*slot);
        match faults.get_mut(before).filter(|_| before < kept) {
            Some(f) if f.same_page(&fault) && !f.is_fatal && !fault.is_fatal => {
                if key(&fault) < key(f) {
                    let weaker = core::mem::replace(f, fault);
                    f.absorb(&weaker);
                    if let Some(place) = faults.get_mut(i) {
                        *place = weaker;
                    }
                } else {
                    f.absorb(&fault);
                }
            }
            _ => {
                *slot = u16::try_from(kept).unwrap_or(u16::MAX);
                if kept != i {
                    faults.swap(kept, i);
                }
                kept = kept.saturating_add(1);
            }
        }
    }
    kept
}

/// The order of a batch.
fn key(f: &Fault) -> (u32, u64, Reverse<bool>, Reverse<Access>, u16) {
    (f.space, f.va, Reverse(f.is_fatal), Reverse(f.access), f.seq)
}

/// Gaps of the sort, the widest first (Ciura, "Best increments for the average case of Shellsort", 2001).
const GAPS: [usize; 9] = [1750, 701, 301, 132, 57, 23, 10, 4, 1];

/// Shellsort by the order of [`sort_and_dedup`]. The library's sort is a recursion with 2 KiB of scratch in each call, and
/// the order in which faults come, which decides its depth, is the GPU's: it ran a kernel thread out of its 16 KiB of stack.
/// This one needs none, and moves a fault by at most 66 places in its last pass, after those by 4 and 23.
fn sort(faults: &mut [Fault]) {
    for gap in GAPS {
        for i in gap..faults.len() {
            let Some(&fault) = faults.get(i) else { break };
            let this = key(&fault);
            let mut at = i;
            while let Some(before) = at.checked_sub(gap) {
                match faults.get(before) {
                    Some(&f) if key(&f) > this => {
                        if let Some(to) = faults.get_mut(at) {
                            *to = f;
                        }
                        at = before;
                    }
                    _ => break,
                }
            }
            if let Some(to) = faults.get_mut(at) {
                *to = fault;
            }
        }
    }
}

/// The faults of one 2 MiB block of one space, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group<'a> {
    /// Address space.
    pub space: u32,
    /// Address of the block, a multiple of 2 MiB.
    pub block_va: u64,
    /// The faults, in the order of the batch.
    pub faults: &'a [Fault],
}

/// Iterator over the groups of a batch, see [`groups`].
#[derive(Clone, Debug)]
pub struct Groups<'a> {
    rest: &'a [Fault],
}

/// Walks a sorted batch by block: each run of faults of the same space and block is a group. Give it the front that
/// [`sort_and_dedup`] left.
pub const fn groups(faults: &[Fault]) -> Groups<'_> {
    Groups { rest: faults }
}

impl<'a> Iterator for Groups<'a> {
    type Item = Group<'a>;

    fn next(&mut self) -> Option<Group<'a>> {
        let first = self.rest.first()?;
        let (space, block_va) = (first.space, first.block_va());
        let len = self
            .rest
            .iter()
            .take_while(|f| f.space == space && f.block_va() == block_va)
            .count();
        let (faults, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(Group {
            space,
            block_va,
            faults,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_intrusive_access_of_a_page_is_served() {
        let mut batch = [
            Fault::new(1, 0x20_3000, Access::Read),
            Fault::new(1, 0x20_1000, Access::Prefetch),
            Fault::new(1, 0x20_1000, Access::AtomicStrong),
            Fault::new(1, 0x20_1000, Access::Write),
        ];
        for (i, f) in batch.iter_mut().enumerate() {
            f.seq = i as u16;
        }
        assert_eq!(sort_and_dedup(&mut batch), 2);
        let first = batch[0];
        assert_eq!(
            (first.va, first.access, first.instances, first.seq),
            (0x20_1000, Access::AtomicStrong, 3, 2)
        );
        // A write that is forbidden still leaves a read to serve (nvidia-uvm.md 3.4, permission check).
        assert!(first.accesses.has_read() && first.accesses.contains(Access::Write));
        assert_eq!(batch[1].va, 0x20_3000);
    }

    /// Against the library's sort, with orders that trouble sorts: descending, saw teeth, all equal, pseudo-random.
    #[test]
    fn the_sort_sorts_any_order() {
        let mut seed = 1u64;
        for n in [0, 1, 2, 5, 100, 256, 4096] {
            for shape in 0..5u64 {
                let mut batch = std::vec::Vec::new();
                for i in 0..n {
                    seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
                    let page = match shape {
                        0 => n - i,
                        1 => i % 17,
                        2 => 7,
                        3 => (i * 1750) % n,
                        _ => seed >> 50,
                    };
                    let mut f = Fault::new((seed >> 33) as u32 % 2, page << 12, Access::Read);
                    f.access = [Access::Read, Access::Write][(seed >> 40) as usize % 2];
                    f.seq = i as u16;
                    batch.push(f);
                }
                let mut want = batch.clone();
                want.sort_by_key(|f| {
                    (f.space, f.va, Reverse(f.is_fatal), Reverse(f.access), f.seq)
                });
                sort(&mut batch);
                assert_eq!(batch, want, "{n} faults of shape {shape}");
            }
        }
    }

    /// Against a plain merge of the sorted batch: batches with many faults on few pages, in every order, and with pages that
    /// share a slot of the table.
    #[test]
    fn what_is_merged_early_is_merged_alike() {
        let mut seed = 7u64;
        for round in 0..200u64 {
            let mut batch = std::vec::Vec::new();
            for i in 0..(round * 3) {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
                let page = (seed >> 40) % (1 + round);
                let mut f = Fault::new((seed >> 33) as u32 % 2, page << 12, Access::Read);
                f.access =
                    [Access::Read, Access::Write, Access::AtomicStrong][(seed >> 50) as usize % 3];
                f.accesses = crate::types::AccessMask::only(f.access);
                f.is_fatal = (seed >> 55) % 16 == 0;
                f.seq = if round % 2 == 0 { i } else { round * 3 - i } as u16;
                f.timestamp_ns = i;
                batch.push(f);
            }
            let mut want = batch.clone();
            want.sort_by_key(key);
            let mut merged: std::vec::Vec<Fault> = std::vec::Vec::new();
            for f in want {
                match merged.last_mut() {
                    Some(l) if l.same_page(&f) && !l.is_fatal && !f.is_fatal => l.absorb(&f),
                    _ => merged.push(f),
                }
            }
            let n = sort_and_dedup(&mut batch);
            assert_eq!(batch[..n], merged, "round {round}");
        }
    }

    #[test]
    fn fatal_faults_are_kept_one_by_one() {
        let fatal = Fault {
            is_fatal: true,
            ..Fault::new(1, 0x1000, Access::Read)
        };
        let mut batch = [Fault::new(1, 0x1000, Access::Write), fatal, fatal];
        assert_eq!(sort_and_dedup(&mut batch), 3);
        assert!(batch[0].is_fatal && batch[1].is_fatal && !batch[2].is_fatal);
    }

    #[test]
    fn groups_end_at_blocks_and_spaces() {
        let batch = [
            Fault::new(1, 0x20_0000, Access::Read),
            Fault::new(1, 0x3f_f000, Access::Read),
            Fault::new(1, 0x40_0000, Access::Read),
            Fault::new(2, 0x40_0000, Access::Read),
        ];
        let mut it = groups(&batch);
        let sizes: std::vec::Vec<_> = it
            .by_ref()
            .map(|g| (g.space, g.block_va, g.faults.len()))
            .collect();
        assert_eq!(
            sizes,
            [(1, 0x20_0000, 2), (1, 0x40_0000, 1), (2, 0x40_0000, 1)]
        );
        assert_eq!(it.next(), None);
        assert_eq!(groups(&[]).next(), None);
    }

    #[test]
    fn a_fault_is_small_enough_to_sort_on_a_kernel_stack() {
        // The standard sort keeps up to 48 elements on the stack.
        assert!(core::mem::size_of::<Fault>() <= 48);
    }
}
