// SPDX-License-Identifier: GPL-2.0
//! Copies in flight in the whole machine, by the memory that they have.
//!
//! A launch is in flight from the issue of its first piece until it is complete: until then nothing is ordered behind it. Another one
//! that has the same memory, with one of the two writing it, gives whatever the hardware happens to do first.

/// Ranges kept of one launch, at most; of a longer one the oldest are forgotten.
const RANGES_MAX: usize = 2048;
/// Launches kept, at most; the oldest are forgotten.
const FLIGHTS_MAX: usize = 1024;

/// Whose addresses are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Space {
    /// Memory of this GPU.
    Vram(usize),
    /// Bus addresses of this domain ([`crate::host::Host::bus_domain`]).
    Sys(usize),
}

/// From the first to behind the last byte.
type Range = (Space, u64, u64);

/// Ranges in order, none of which touches the next.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges(Vec<Range>);

impl Ranges {
    /// Puts ranges in order.
    pub(crate) fn new(mut all: Vec<Range>) -> Self {
        all.sort_unstable();
        let mut out: Vec<Range> = Vec::with_capacity(all.len());
        for (space, start, end) in all {
            match out.last_mut() {
                Some(last) if last.0 == space && start <= last.2 => last.2 = last.2.max(end),
                _ => out.push((space, start, end)),
            }
        }
        Ranges(out)
    }

    fn meets(&self, other: &Ranges) -> bool {
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            if (x.0, x.2) <= (y.0, y.1) {
                a.next();
            } else if (y.0, y.2) <= (x.0, x.1) {
                b.next();
            } else {
                return true;
            }
        }
        false
    }

    fn add(&mut self, more: &Ranges) {
        let mut all = core::mem::take(&mut self.0);
        if all.len() + more.0.len() > RANGES_MAX {
            all.clear();
        }
        all.extend_from_slice(&more.0);
        *self = Ranges::new(all);
    }
}

/// Which launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) gpu: usize,
    pub(crate) runlist: usize,
    pub(crate) chid: u32,
    /// [`Flights::serial`].
    pub(crate) serial: u64,
}

#[derive(Debug)]
struct Flight {
    name: Name,
    reads: Ranges,
    writes: Ranges,
}

/// What is in flight.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    all: Vec<Flight>,
    serials: u64,
}

impl Flights {
    /// A number for a launch, unlike all others'.
    pub(crate) fn serial(&mut self) -> u64 {
        self.serials = self.serials.wrapping_add(1);
        self.serials
    }

    /// A piece of a launch is issued. Whether another launch has its memory.
    pub(crate) fn issue(&mut self, name: Name, reads: Vec<Range>, writes: Vec<Range>) -> bool {
        let (reads, writes) = (Ranges::new(reads), Ranges::new(writes));
        let clash =
            self.all.iter().filter(|f| f.name != name).any(|f| {
                writes.meets(&f.writes) || writes.meets(&f.reads) || reads.meets(&f.writes)
            });
        match self.all.iter_mut().find(|f| f.name == name) {
            Some(f) => {
                f.reads.add(&reads);
                f.writes.add(&writes);
            }
            None => {
                if self.all.len() >= FLIGHTS_MAX {
                    self.all.remove(0);
                }
                self.all.push(Flight {
                    name,
                    reads,
                    writes,
                });
            }
        }
        clash
    }

    /// Those are in flight no more.
    pub(crate) fn end(&mut self, which: impl Fn(&Name) -> bool) {
        self.all.retain(|f| !which(&f.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V: Space = Space::Vram(1);

    fn name(serial: u64) -> Name {
        Name {
            gpu: 0,
            runlist: 0,
            chid: 1,
            serial,
        }
    }

    #[test]
    fn ranges_that_touch_are_one() {
        let r = Ranges::new(vec![
            (V, 8, 12),
            (V, 0, 4),
            (V, 4, 8),
            (Space::Sys(0), 2, 3),
        ]);
        assert_eq!(r.0, [(V, 0, 12), (Space::Sys(0), 2, 3)]);
        assert!(r.meets(&Ranges::new(vec![(V, 11, 13)])));
        assert!(!r.meets(&Ranges::new(vec![(V, 12, 13), (Space::Vram(0), 0, 9)])));
    }

    #[test]
    fn a_writer_meets_both_and_readers_do_not_meet() {
        let mut f = Flights::default();
        assert!(!f.issue(name(1), vec![(V, 0, 4)], vec![(V, 8, 9)]));
        assert!(!f.issue(name(2), vec![(V, 0, 4)], vec![]));
        assert!(!f.issue(name(1), vec![(V, 8, 9)], vec![]), "its own");
        assert!(f.issue(name(3), vec![(V, 8, 9)], vec![]));
        assert!(f.issue(name(4), vec![], vec![(V, 3, 4)]));
        f.end(|n| n.serial <= 4);
        assert!(!f.issue(name(5), vec![], vec![(V, 3, 4)]));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut f = Flights::default();
        for n in 0..3 * FLIGHTS_MAX as u64 {
            f.issue(name(n), vec![(V, 0, 1)], vec![]);
        }
        assert_eq!(f.all.len(), FLIGHTS_MAX);
        for n in 0..3 * RANGES_MAX as u64 {
            f.issue(name(1 << 40), vec![(V, 2 * n, 2 * n + 1)], vec![]);
        }
        assert!(f.all.iter().all(|f| f.reads.0.len() <= RANGES_MAX));
    }
}
