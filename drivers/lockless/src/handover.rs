// SPDX-License-Identifier: GPL-2.0
//! Who settles something that goes wrong: a thread that listens for it, if there is one, else whoever it went wrong for.
//!
//! It is settled by exactly one of them, also when the thread is just leaving.

use crate::atomic::{Acquire, Atomic, Full, Relaxed};

/// Nobody is there.
const NOBODY: u32 = 0;
/// Somebody listens.
const LISTENS: u32 = 1;
/// It was called.
const CALLED: u32 = 2;
/// It came.
const CAME: u32 = 3;

/// Whether somebody listens, and is called.
pub struct Handover(Atomic<u32>);

impl Handover {
    /// Nobody listens.
    pub const fn new() -> Self {
        Handover(Atomic::<u32>::new(NOBODY))
    }

    /// The caller listens from now on. `false`: somebody does, or did.
    #[must_use]
    pub fn listen(&self) -> bool {
        self.0.cmpxchg(NOBODY, LISTENS, Full).is_ok()
    }

    /// Whether somebody listens, and was not called yet.
    pub fn is_attended(&self) -> bool {
        self.0.load(Relaxed) == LISTENS
    }

    /// Calls, once. Whether somebody comes; otherwise the caller settles it.
    #[must_use]
    pub fn call(&self) -> bool {
        self.0.cmpxchg(LISTENS, CALLED, Full).is_ok()
    }

    /// Whether who listens was called and did not come yet: what it waits for.
    pub fn is_called(&self) -> bool {
        self.0.load(Relaxed) == CALLED
    }

    /// Whether who listens was called, be it that it has come. Then the caller sees what was done before the call.
    pub fn was_called(&self) -> bool {
        self.0.load(Acquire) >= CALLED
    }

    /// Who listens comes if it was called. `true`: it settles it.
    #[must_use]
    pub fn come(&self) -> bool {
        self.0.cmpxchg(CALLED, CAME, Full).is_ok()
    }

    /// Who listens leaves. `true`: it was called meanwhile, has come, and settles it first.
    #[must_use]
    pub fn leave(&self) -> bool {
        self.0.cmpxchg(LISTENS, NOBODY, Full).is_err() && self.come()
    }
}

impl Default for Handover {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loom::sync::atomic::{AtomicU64, Ordering};
    use loom::sync::Arc;
    use loom::thread;

    /// Something that goes wrong once, and how often it was settled.
    struct Case {
        hand: Handover,
        what: AtomicU64,
        settled: AtomicU64,
    }

    impl Case {
        fn new() -> Self {
            let case = Case {
                hand: Handover::new(),
                what: AtomicU64::new(0),
                settled: AtomicU64::new(0),
            };
            case.hand.0.made();
            case
        }

        fn goes_wrong(&self) {
            self.what.store(7, Ordering::Relaxed);
            if !self.hand.call() {
                self.settle();
            }
        }

        fn settle(&self) {
            assert_eq!(self.what.load(Ordering::Relaxed), 7);
            self.settled.fetch_add(1, Ordering::Relaxed);
        }

        /// A thread that listens, looks so many times, and leaves.
        fn attend(&self, looks: u32) {
            if !self.hand.listen() {
                return;
            }
            for _ in 0..looks {
                if self.hand.is_called() && self.hand.come() {
                    self.settle();
                }
            }
            if self.hand.leave() {
                self.settle();
            }
        }
    }

    fn settled_once(looks: u32, threads: usize) {
        loom::model(move || {
            let case = Arc::new(Case::new());
            let all: Vec<_> = (0..threads)
                .map(|_| {
                    let case = case.clone();
                    thread::spawn(move || case.attend(looks))
                })
                .collect();
            case.goes_wrong();
            for t in all {
                t.join().unwrap();
            }
            assert_eq!(case.settled.load(Ordering::Relaxed), 1);
        });
    }

    #[test]
    fn settled_once_by_who_listens_or_by_who_calls() {
        settled_once(1, 1);
        settled_once(2, 1);
    }

    #[test]
    fn settled_once_by_who_is_leaving() {
        settled_once(0, 1);
    }

    #[test]
    fn who_sees_that_it_was_called_sees_why() {
        loom::model(|| {
            let case = Arc::new(Case::new());
            let with = |f: fn(&Case)| {
                let case = case.clone();
                thread::spawn(move || f(&case))
            };
            let listens = with(|c| c.attend(1));
            let looks = with(|c| {
                if c.hand.was_called() {
                    assert_eq!(c.what.load(Ordering::Relaxed), 7);
                }
            });
            case.goes_wrong();
            listens.join().unwrap();
            looks.join().unwrap();
            assert_eq!(case.settled.load(Ordering::Relaxed), 1);
        });
    }

    #[test]
    fn one_listens() {
        settled_once(1, 2);
    }
}
