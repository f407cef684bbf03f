// SPDX-License-Identifier: GPL-2.0
//! Whose packets a flush must not drop.
//!
//! What is dropped from the ring before a replay comes again with it: behind the packets of who is replayed first. A GPU has an order for
//! that, and who is late in it, behind a job that fills a batch each time, is dropped each time: it waits for as long as that one
//! runs, and nobody is told. So of each client that a batch had nothing of some packets are served all the same, beside the
//! batch.
//!
//! A client is known by its instance block here: that is what a packet has.

/// Clients that are told apart: as many as a GPU has subcontexts. Others are not looked at before some of these have nothing to be dropped.
const CLIENTS: usize = 64;
/// Packets of each that are kept: one would be enough to go on by, and costs a batch each time.
const KEPT: u8 = 4;

/// The clients of one batch and of the flush behind it.
#[derive(Debug)]
pub struct LeftOut {
    /// Of each, how many packets may still be kept.
    seen: [(u64, u8); CLIENTS],
    clients: usize,
    /// Where the last one is: mostly the next packet is of the same.
    last: usize,
}

impl Default for LeftOut {
    fn default() -> Self {
        Self::new()
    }
}

impl LeftOut {
    /// Nobody yet.
    pub const fn new() -> Self {
        Self {
            seen: [(0, 0); CLIENTS],
            clients: 0,
            last: 0,
        }
    }

    /// A batch begins.
    pub fn clear(&mut self) {
        (self.clients, self.last) = (0, 0);
    }

    /// The batch has a packet of that one.
    pub fn served(&mut self, instance: u64) {
        if let Some(left) = self.left(instance, 0) {
            *left = 0;
        }
    }

    /// Whether a packet of that one, which is about to be dropped, is to be kept. Behind all of [`Self::served`].
    pub fn keeps(&mut self, instance: u64) -> bool {
        let Some(left) = self.left(instance, KEPT).filter(|left| **left != 0) else {
            return false;
        };
        *left -= 1;
        true
    }

    /// What is left of a client's packets; `new`, if it was not seen yet. `None`: there are too many.
    fn left(&mut self, instance: u64, new: u8) -> Option<&mut u8> {
        let known = self.seen.get(..self.clients)?;
        if known.get(self.last).is_none_or(|(i, _)| *i != instance) {
            self.last = match known.iter().position(|(i, _)| *i == instance) {
                Some(at) => at,
                None => {
                    *self.seen.get_mut(self.clients)? = (instance, new);
                    self.clients += 1;
                    self.clients - 1
                }
            };
        }
        self.seen.get_mut(self.last).map(|(_, left)| left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a client that the batch had packets of kept as well, one that is kept without end, and a batch that is not forgotten.
    #[test]
    fn some_are_kept_of_who_was_not_served() {
        let mut l = LeftOut::new();
        for _ in 0..2 {
            l.clear();
            for _ in 0..256 {
                l.served(7);
            }
            let kept = [7, 8, 8, 9, 7, 8, 8, 8, 9, 9, 9, 9].map(|i| l.keeps(i));
            let (yes, no) = (true, false);
            assert_eq!(
                kept,
                [no, yes, yes, yes, no, yes, yes, no, yes, yes, yes, no]
            );
        }
        // Who was kept once is the next one's.
        l.clear();
        l.served(8);
        assert!(l.keeps(7) && !l.keeps(8));
    }

    /// Catches names that make it write beside its table: a device may say any.
    #[test]
    fn more_clients_than_there_can_be_are_not_kept() {
        let mut l = LeftOut::new();
        l.served(u64::MAX);
        let kept = (0..1000u64).filter(|i| l.keeps(*i)).count();
        assert_eq!(kept, CLIENTS - 1);
        assert!(!l.keeps(u64::MAX) && l.keeps(0) && !l.keeps(999));
        let all = (0..100_000u64).filter(|i| l.keeps(i % 70)).count();
        assert!(kept + 1 + all <= CLIENTS * usize::from(KEPT));
        assert!(!l.keeps(0));
    }

    /// An instance block may be at 0: nothing is known of it before it is seen.
    #[test]
    fn nobody_is_known_at_first() {
        assert!(LeftOut::default().keeps(0));
    }
}
