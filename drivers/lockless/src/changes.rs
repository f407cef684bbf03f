// SPDX-License-Identifier: GPL-2.0
//! How often something has changed, for those who keep what they made of it.
//!
//! Who makes something reads the count first, then the values; who changes a value does so first, and counts then. So what was made
//! after as many changes as there are now has all of them, and once a change is over nobody takes what was made before.

use crate::atomic::{Acquire, Atomic, Full};

/// A count of changes.
pub struct Changes(Atomic<u64>);

impl Changes {
    /// None.
    pub const fn new() -> Self {
        Changes(Atomic::<u64>::new(0))
    }

    /// How many there were: before anything is read that may change.
    #[inline]
    pub fn now(&self) -> u64 {
        self.0.load(Acquire)
    }

    /// There was one more: what changed can be read.
    pub fn note(&self) {
        let _before = self.0.fetch_add(1, Full);
    }
}

impl Default for Changes {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use huvm_policy::scope::Scope;
    use loom::sync::atomic::{AtomicU64, Ordering};
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    /// A value of the machine's, and a scope that keeps what it made of it, as `account/policy.rs` does.
    struct Machine {
        changes: Changes,
        value: AtomicU64,
        scope: Mutex<Scope<u64, 1>>,
    }

    impl Machine {
        fn new() -> Self {
            let machine = Machine {
                changes: Changes::new(),
                value: AtomicU64::new(10),
                scope: Mutex::new(Scope::new(10)),
            };
            machine.changes.0.made();
            machine
        }

        fn set(&self, value: u64) {
            self.value.store(value, Ordering::Relaxed);
            self.changes.note();
        }

        fn in_force(&self) -> u64 {
            let after = self.changes.now();
            if let Some(now) = self.scope.lock().unwrap().current(0, after) {
                return now;
            }
            let made = self.value.load(Ordering::Relaxed);
            self.scope.lock().unwrap().put(0, after, made);
            made
        }
    }

    #[test]
    fn once_a_change_is_over_nobody_has_an_older_value() {
        loom::model(|| {
            let m = Arc::new(Machine::new());
            let asks = {
                let m = m.clone();
                thread::spawn(move || {
                    let (first, second) = (m.in_force(), m.in_force());
                    assert!(first <= second, "{second} after {first}");
                })
            };
            m.set(11);
            assert_eq!(m.in_force(), 11);
            m.set(12);
            assert_eq!(m.in_force(), 12);
            asks.join().unwrap();
            assert_eq!(m.in_force(), 12);
        });
    }

    #[test]
    fn who_is_told_of_a_change_has_its_value() {
        loom::model(|| {
            let m = Arc::new(Machine::new());
            let told = Arc::new(AtomicU64::new(0));
            let sets = {
                let (m, told) = (m.clone(), told.clone());
                thread::spawn(move || {
                    m.set(11);
                    told.store(1, Ordering::Release);
                })
            };
            let is_told = told.load(Ordering::Acquire) != 0;
            let has = m.in_force();
            assert!(!is_told || has == 11, "{has} after the change was over");
            sets.join().unwrap();
            assert_eq!(m.in_force(), 11);
        });
    }
}
