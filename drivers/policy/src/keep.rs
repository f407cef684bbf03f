// SPDX-License-Identifier: GPL-2.0
//! Whether the host's copy of a block stays when a GPU fetches the block to read it.
//!
//! NVIDIA's driver moves: what comes to a GPU is dropped on the host, and goes back there in full, written or not
//! (`nvidia-uvm.md` 9.2: it keeps no mark of what was modified, and the GPU's page tables have none). Here a block that is fetched by reads is mapped for reading
//! alone, and the host keeps its copy. As long as nobody writes it, it leaves without a copy. The first write faults once more; then
//! the host's copy goes, for the whole block.
//!
//! That second fault is what it costs where a job writes what it has read. So a block that was written goes without for a number of
//! fetches, and for twice as many each time that it is written again ([`Writes`]): one that is written each time pays for it
//! once in [`WAIT_MAX`] fetches, in the end. And streams tell what to expect of blocks never seen
//! ([`Advice::writes`](crate::stream::Advice)).

/// Fetches without the host's copy, after the first write.
const WAIT_LEAST: u8 = 4;
/// And at most.
const WAIT_MAX: u8 = 64;

/// What is known about the writes to one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writes {
    /// The host's copy stayed when it was fetched last, and nobody wrote since.
    keeping: bool,
    /// Fetches to go without, after the next write to a kept one.
    wait: u8,
    /// Of these, still to come.
    left: u8,
}

impl Writes {
    /// Nothing: it is taken for one that is read.
    pub const UNKNOWN: Self = Self {
        keeping: false,
        wait: 0,
        left: 0,
    };

    /// Whether the host's copy is to stay if the block is fetched for reading now, where it is not yet.
    pub const fn would_keep(&self) -> bool {
        self.left == 0
    }

    /// It was fetched to where it was not; `keeps`: for reading, and the host's copy stays.
    pub fn fetched(&mut self, keeps: bool) {
        self.keeping = keeps;
        self.left = self.left.saturating_sub(1);
    }

    /// Whether what else is fetched of it leaves the host's copy.
    pub const fn is_keeping(&self) -> bool {
        self.keeping
    }

    /// A GPU writes it.
    pub fn wrote(&mut self) {
        if self.keeping || self.left == 0 {
            self.wait = self.wait.saturating_mul(2).clamp(WAIT_LEAST, WAIT_MAX);
        }
        (self.keeping, self.left) = (false, self.wait);
    }

    /// It leaves a GPU. One that was kept to the end is taken for one that is read again.
    pub fn left(&mut self) {
        if core::mem::take(&mut self.keeping) {
            self.wait = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fetches of a block that is written each time after it was read, of which the host's copy stayed.
    fn kept(fetches: u32) -> u32 {
        let (mut w, mut kept) = (Writes::UNKNOWN, 0);
        for _ in 0..fetches {
            let keeps = w.would_keep();
            w.fetched(keeps);
            kept += u32::from(keeps);
            if keeps {
                w.wrote();
            }
            w.left();
        }
        kept
    }

    /// Catches a block that pays for a second fault each time it is fetched.
    #[test]
    fn what_is_written_each_time_is_kept_ever_less() {
        assert_eq!(kept(1), 1);
        // 1, then 4, 8, 16, 32, 64, 64 without.
        assert_eq!([5, 6, 14, 15].map(kept), [1, 2, 2, 3]);
        assert_eq!(kept(1000), 19);
    }

    #[test]
    fn what_is_only_read_is_kept_and_one_write_is_forgotten() {
        let mut w = Writes::UNKNOWN;
        for _ in 0..10 {
            assert!(w.would_keep());
            w.fetched(true);
            assert!(w.is_keeping());
            w.left();
            assert!(!w.is_keeping());
        }
        // Written at once: nothing was kept.
        w.wrote();
        for _ in 0..WAIT_LEAST {
            assert!(!w.would_keep());
            w.fetched(false);
            w.left();
        }
        assert!(w.would_keep());
        w.fetched(true);
        w.left();
        // Begun anew, not with twice as many.
        w.fetched(true);
        w.wrote();
        assert!(!w.is_keeping());
        assert_eq!(w.left, WAIT_LEAST);
    }

    /// Catches writes of a block that is not kept, each counted as one that was not foreseen.
    #[test]
    fn further_writes_make_it_go_without_no_longer_than_one() {
        let mut w = Writes::UNKNOWN;
        w.fetched(true);
        w.wrote();
        w.fetched(false);
        for _ in 0..9 {
            w.wrote();
        }
        assert_eq!((w.wait, w.left), (WAIT_LEAST, WAIT_LEAST));
    }
}
