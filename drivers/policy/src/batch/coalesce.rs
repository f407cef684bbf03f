// SPDX-License-Identifier: GPL-2.0
//! Merging while fetching: a look back of one (`nvidia-uvm.md` 3.3 step 2).

use super::Fault;

/// What became of a fault offered to a [`Coalescer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coalesced {
    /// It was added to the batch.
    Added,
    /// An earlier fault of the batch stands for it now.
    Merged,
    /// The batch is full; the fault was not taken.
    Full,
}

/// No fault of this uTLB yet.
const NONE: u16 = u16::MAX;

/// Fills a batch with faults in the order of fetching and merges neighbours.
///
/// A fault is merged in exactly two cases: it is on the page of the last fault of its own uTLB, whatever the access;
/// or on the page of the very last fault, with an access that is not more intrusive. Fatal faults never are.
#[derive(Debug)]
pub struct Coalescer<'a> {
    batch: &'a mut [Fault],
    /// By uTLB: place of its last fault in the batch.
    last_of_utlb: &'a mut [u16],
    len: usize,
    raw: u32,
    enabled: bool,
}

impl<'a> Coalescer<'a> {
    /// An empty batch. It holds at most `batch.len()` faults, and never more than 65535. `last_of_utlb` has a place for
    /// each uTLB of the GPU and is overwritten; a uTLB beyond it is only compared with the very last fault. Without
    /// `enabled` (the knob `fault_coalesce`) nothing is merged.
    pub fn new(batch: &'a mut [Fault], last_of_utlb: &'a mut [u16], enabled: bool) -> Self {
        last_of_utlb.fill(NONE);
        Self {
            batch,
            last_of_utlb,
            len: 0,
            raw: 0,
            enabled,
        }
    }

    /// Takes one fault. Its [`Fault::seq`] is set here.
    pub fn push(&mut self, mut fault: Fault) -> Coalesced {
        if self.enabled && !fault.is_fatal && self.merge(&fault) {
            self.raw = self.raw.saturating_add(1);
            return Coalesced::Merged;
        }
        let Some(seq) = u16::try_from(self.len).ok().filter(|&s| s != NONE) else {
            return Coalesced::Full;
        };
        let Some(slot) = self.batch.get_mut(self.len) else {
            return Coalesced::Full;
        };
        fault.seq = seq;
        *slot = fault;
        if let Some(last) = self.last_of_utlb.get_mut(usize::from(fault.utlb)) {
            // A fatal fault is not merged into either.
            *last = if fault.is_fatal { NONE } else { seq };
        }
        // Below 65535, as `seq` exists.
        self.len += 1;
        self.raw = self.raw.saturating_add(1);
        Coalesced::Added
    }

    /// Merges `fault` into one of the two it may go into; false if it fits to neither.
    fn merge(&mut self, fault: &Fault) -> bool {
        let of_utlb = self
            .last_of_utlb
            .get(usize::from(fault.utlb))
            .copied()
            .filter(|&i| i != NONE)
            .map(usize::from);
        let very_last = self.len.checked_sub(1);
        for (place, any_access) in [(of_utlb, true), (very_last, false)] {
            let Some(earlier) = place.and_then(|i| self.batch.get_mut(i)) else {
                continue;
            };
            let access_fits = any_access || fault.access <= earlier.access;
            if access_fits && !earlier.is_fatal && earlier.same_page(fault) {
                earlier.absorb(fault);
                return true;
            }
        }
        false
    }

    /// Number of faults in the batch.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True before the first fault.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of packets taken, merged ones included: what the limit `fault_batch_max` counts.
    pub fn raw(&self) -> u32 {
        self.raw
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Access, AccessMask};
    use std::vec;

    const PAGE: u64 = 0x20_0000;

    fn fault(utlb: u16, va: u64, access: Access) -> Fault {
        Fault {
            utlb,
            ..Fault::new(1, va, access)
        }
    }

    /// The batch that these faults make.
    fn fetch(faults: &[Fault]) -> vec::Vec<Fault> {
        let mut batch = vec![Fault::new(0, 0, Access::Read); 16];
        let mut utlbs = [7; 4];
        let mut c = Coalescer::new(&mut batch, &mut utlbs, true);
        for f in faults {
            assert_ne!(c.push(*f), Coalesced::Full);
        }
        assert_eq!(c.raw() as usize, faults.len());
        let len = c.len();
        batch.truncate(len);
        let total: usize = batch.iter().map(|f| usize::from(f.instances)).sum();
        assert_eq!(total, faults.len(), "a packet was lost or counted twice");
        batch
    }

    #[test]
    fn the_last_of_the_own_utlb_takes_any_access() {
        let got = fetch(&[
            fault(0, PAGE, Access::Read),
            fault(1, PAGE + 0x1000, Access::Read),
            fault(0, PAGE, Access::Write),
        ]);
        assert_eq!(got.len(), 2);
        assert_eq!((got[0].access, got[0].instances), (Access::Write, 2));
        assert!(got[0].accesses.contains(Access::Read));
        assert_eq!((got[1].seq, got[1].instances), (1, 1));
    }

    #[test]
    fn the_very_last_takes_a_lesser_access_only() {
        let lesser = fetch(&[fault(0, PAGE, Access::Write), fault(1, PAGE, Access::Read)]);
        assert_eq!(lesser.len(), 1);
        assert_eq!(lesser[0].access, Access::Write);
        let greater = fetch(&[fault(0, PAGE, Access::Read), fault(1, PAGE, Access::Write)]);
        assert_eq!(greater.len(), 2);
    }

    #[test]
    fn the_look_back_is_one() {
        // Page A is no more the last of uTLB 0 when it comes again.
        let got = fetch(&[
            fault(0, PAGE, Access::Read),
            fault(0, PAGE + 0x1000, Access::Read),
            fault(0, PAGE, Access::Read),
        ]);
        assert_eq!(got.len(), 3);
        assert_eq!(got[2].seq, 2);
    }

    #[test]
    fn fatal_faults_and_other_spaces_stay_apart() {
        let fatal = Fault {
            is_fatal: true,
            ..fault(0, PAGE, Access::Read)
        };
        assert_eq!(fetch(&[fatal, fatal]).len(), 2);
        assert_eq!(fetch(&[fatal, fault(0, PAGE, Access::Read)]).len(), 2);
        assert_eq!(fetch(&[fault(0, PAGE, Access::Read), fatal]).len(), 2);
        let elsewhere = Fault {
            space: 2,
            ..fault(0, PAGE, Access::Read)
        };
        assert_eq!(fetch(&[fault(0, PAGE, Access::Read), elsewhere]).len(), 2);
    }

    #[test]
    fn a_utlb_without_a_place_uses_the_very_last_only() {
        let got = fetch(&[
            fault(900, PAGE, Access::Read),
            fault(900, PAGE, Access::Read),
            fault(900, PAGE, Access::Write),
        ]);
        assert_eq!(got.len(), 2);
    }

    #[test]
    fn a_full_batch_still_merges_but_takes_nothing_new() {
        let mut batch = [Fault::new(0, 0, Access::Read); 1];
        let mut c = Coalescer::new(&mut batch, &mut [], true);
        assert!(c.is_empty());
        assert_eq!(c.push(fault(0, PAGE, Access::Read)), Coalesced::Added);
        assert!(!c.is_empty());
        assert_eq!(c.push(fault(0, PAGE, Access::Read)), Coalesced::Merged);
        assert_eq!(c.push(fault(0, 0, Access::Read)), Coalesced::Full);
        assert_eq!((c.len(), c.raw()), (1, 2));
    }

    #[test]
    fn switched_off_nothing_is_merged() {
        let mut batch = [Fault::new(0, 0, Access::Read); 4];
        let mut utlbs = [0; 1];
        let mut c = Coalescer::new(&mut batch, &mut utlbs, false);
        for _ in 0..4 {
            assert_eq!(c.push(fault(0, PAGE, Access::Read)), Coalesced::Added);
        }
        assert_eq!(batch[3].accesses, AccessMask::only(Access::Read));
    }
}
