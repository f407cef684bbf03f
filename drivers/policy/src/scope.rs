// SPDX-License-Identifier: GPL-2.0
//! The values set in one scope, and what is in force there.
//!
//! [`Overrides`] lie over the values of the wider scope, knob by knob. Putting the two together takes memory in the driver,
//! and faults and evictions ask several times each. So a [`Scope`] keeps what was put together, by a handle of the caller's,
//! one for each place that it is asked for, until a value changes here, or in a wider scope: the caller counts those changes, and passes
//! the count.
//!
//! **The hard case** is that there is no memory to put values together. Then the youngest that were still hold
//! ([`Scope::best`]). There always are some, and they heed all that was set in this scope: whoever changes it brings them
//! along, or does not change it. What has changed in a wider scope meanwhile counts again when there is memory.
//!
//! Rejected: values by value instead of by handle. They need no memory, but each caller would have all of them on its stack.

use crate::config::{KnobError, KnobId, Policy, KNOBS, KNOB_COUNT};

/// Values set in one scope: a bit per knob that says whether the value counts here.
#[derive(Clone, Copy, Debug)]
pub struct Overrides {
    values: Policy,
    set: u128,
}

const _: () = assert!(KNOB_COUNT < 128);

/// Every knob's bit.
const ALL: u128 = (1 << KNOB_COUNT) - 1;

impl Overrides {
    /// Nothing set.
    pub const fn none() -> Self {
        Self {
            values: Policy::new(),
            set: 0,
        }
    }

    const fn bit(id: KnobId) -> u128 {
        1 << id.index()
    }

    /// Sets a knob here.
    ///
    /// # Errors
    /// [`KnobError::OutOfRange`]; nothing has changed.
    pub fn put(&mut self, id: KnobId, value: u64) -> Result<(), KnobError> {
        self.values.set(id, value)?;
        self.set |= Self::bit(id);
        Ok(())
    }

    /// Sets every knob here.
    pub const fn put_all(&mut self, values: &Policy) {
        self.values = *values;
        self.set = ALL;
    }

    /// Forgets what was set for a knob.
    pub const fn forget(&mut self, id: KnobId) {
        self.set &= !Self::bit(id);
    }

    /// True if nothing is set here.
    pub const fn is_empty(&self) -> bool {
        self.set == 0
    }

    /// True if the knob is set here.
    pub const fn has(&self, id: KnobId) -> bool {
        self.set & Self::bit(id) != 0
    }

    /// Puts these values into `p`, the policy below, where they are set.
    pub fn cover(&self, p: &mut Policy) {
        if self.set == ALL {
            *p = self.values;
        } else if self.set != 0 {
            self.put_into(p, |_| true);
        }
    }

    /// As [`Self::cover`], for the values of a process over those of a GPU: a preset may have put some of a GPU's knobs here, which
    /// no process has. Nor does a process keep the GPU's thread, which serves others too, with more tries than the GPU has.
    pub fn cover_gpu(&self, p: &mut Policy) {
        let tries = p.get(KnobId::EvictRetriesMax);
        self.put_into(p, |id| !id.is_of_gpu());
        let fewer = p.get(KnobId::EvictRetriesMax).min(tries);
        // Both were checked when they were set.
        let _in_range = p.set(KnobId::EvictRetriesMax, fewer);
    }

    fn put_into(&self, p: &mut Policy, which: impl Fn(KnobId) -> bool) {
        for k in KNOBS.iter().filter(|k| self.has(k.id) && which(k.id)) {
            // The value was checked when it was set.
            let _in_range = p.set(k.id, self.values.get(k.id));
        }
    }
}

/// Values put together, and after how many changes of wider scopes.
#[derive(Debug)]
struct Made<H> {
    /// `None`: this scope has changed since.
    after: Option<u64>,
    values: H,
}

/// The values of one scope, and those that were put together with the ones below for each of `N` places. `H` is a handle of
/// a [`Policy`]. What a method gives back is for the caller to drop when it holds no lock.
#[derive(Debug)]
pub struct Scope<H, const N: usize> {
    own: Overrides,
    /// Put together at the last change of this scope.
    base: Made<H>,
    made: [Option<Made<H>>; N],
}

impl<H: Clone, const N: usize> Scope<H, N> {
    /// Nothing set; `below` is what holds then.
    pub const fn new(below: H) -> Self {
        Self {
            own: Overrides::none(),
            base: Made {
                after: Some(0),
                values: below,
            },
            made: [const { None }; N],
        }
    }

    /// What is set here.
    pub const fn own(&self) -> &Overrides {
        &self.own
    }

    /// What was put together for a place, if nothing has changed since.
    pub fn current(&self, place: usize, changes: u64) -> Option<H> {
        let made = self.made.get(place)?.as_ref()?;
        (made.after == Some(changes)).then(|| made.values.clone())
    }

    /// Keeps what was put together for a place. `changes`: as many as there had been before the first value was read.
    pub fn put(&mut self, place: usize, changes: u64, values: H) -> Option<H> {
        let made = Made {
            after: Some(changes),
            values,
        };
        match self.made.get_mut(place) {
            Some(at) => at.replace(made).map(|old| old.values),
            None => Some(made.values),
        }
    }

    /// What holds at a place when nothing can be put together: the youngest of what was made for it, and for the last change
    /// of this scope.
    pub fn best(&self, place: usize) -> H {
        let made = self.made.get(place).and_then(Option::as_ref);
        let young = made.filter(|m| m.after >= self.base.after);
        young.unwrap_or(&self.base).values.clone()
    }

    /// Changes what is set here: nothing that was put together before counts any more. `values`: put together with it; `changes`: as many as
    /// there are now, without this one.
    pub fn change(&mut self, own: Overrides, changes: u64, values: H) -> H {
        self.own = own;
        for made in self.made.iter_mut().flatten() {
            made.after = None;
        }
        let base = Made {
            after: Some(changes),
            values,
        };
        core::mem::replace(&mut self.base, base).values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    /// Every knob as far from its default as can be, so that a value taken from the wrong scope shows.
    fn far() -> Policy {
        let mut p = Policy::new();
        for k in KNOBS {
            let value = if k.default == k.max { k.min } else { k.max };
            p.set(k.id, value).unwrap();
        }
        p
    }

    fn over(own: &Overrides, below: &Policy) -> Policy {
        let mut p = *below;
        own.cover(&mut p);
        p
    }

    #[test]
    fn what_is_set_covers_what_is_below_and_forgotten_uncovers_it() {
        let (low, high) = (Policy::new(), far());
        for k in KNOBS {
            let mut o = Overrides::none();
            assert!(o.is_empty() && !o.has(k.id));
            assert_eq!(over(&o, &low), low);
            o.put(k.id, high.get(k.id)).unwrap();
            assert!(!o.is_empty() && o.has(k.id));
            for (other, value) in over(&o, &low).iter() {
                let from = if other.id == k.id { &high } else { &low };
                assert_eq!(value, from.get(other.id), "{} under {}", other.name, k.name);
            }
            o.forget(k.id);
            assert!(o.is_empty());
            assert_eq!(over(&o, &low), low);
            o.put_all(&high);
            assert_eq!(over(&o, &low), high);
            o.forget(k.id);
            assert!(!o.has(k.id));
            for (other, value) in over(&o, &low).iter() {
                let from = if other.id == k.id { &low } else { &high };
                assert_eq!(
                    value,
                    from.get(other.id),
                    "{} without {}",
                    other.name,
                    k.name
                );
            }
        }
        let mut o = Overrides::none();
        o.put_all(&high);
        KNOBS.iter().for_each(|k| o.forget(k.id));
        assert!(o.is_empty());
    }

    #[test]
    fn a_process_has_no_value_of_a_gpus_knobs() {
        let (low, high) = (Policy::new(), far());
        let mut o = Overrides::none();
        o.put_all(&high);
        let mut p = low;
        o.cover_gpu(&mut p);
        for (k, value) in p.iter() {
            let fewer = k.id == KnobId::EvictRetriesMax;
            let from = if k.id.is_of_gpu() || fewer {
                &low
            } else {
                &high
            };
            assert_eq!(value, from.get(k.id), "{}", k.name);
        }
        // Fewer tries than the GPU has, a process may have.
        let mut p = high;
        o.put(KnobId::EvictRetriesMax, 2).unwrap();
        o.cover_gpu(&mut p);
        assert_eq!(p.get(KnobId::EvictRetriesMax), 2);
        assert!(KnobId::PreEvictHold.is_of_gpu() && !KnobId::HarvestBorrow.is_of_gpu());
    }

    #[test]
    fn what_was_put_together_counts_until_a_change_here_or_in_a_wider_scope() {
        let mut s: Scope<u32, 3> = Scope::new(1);
        assert_eq!((s.current(0, 5), s.best(0)), (None, 1));
        for place in 0..3 {
            assert_eq!(s.put(place, 5, 10), None);
            assert_eq!(s.current(place, 5), Some(10));
            assert_eq!(s.current(place, 6), None);
        }
        // The caller does not count a change of this scope: it is nobody else's.
        assert_eq!(s.change(Overrides::none(), 5, 2), 1);
        for place in 0..3 {
            assert_eq!((s.current(place, 5), s.best(place)), (None, 2));
        }
        assert_eq!(s.put(1, 5, 11), Some(10));
        assert_eq!((s.current(1, 5), s.current(2, 5)), (Some(11), None));
        // Made behind the change, be it after as many changes of wider scopes.
        assert_eq!((s.best(1), s.best(2)), (11, 2));
    }

    #[test]
    fn a_value_out_of_range_is_not_set() {
        let mut o = Overrides::none();
        assert!(o.put(KnobId::SpareReplace, 3).is_err());
        assert!(o.is_empty());
        o.put(KnobId::SpareReplace, 2).unwrap();
        assert!(o.put(KnobId::SpareReplace, 3).is_err());
        assert_eq!(over(&o, &Policy::new()).get(KnobId::SpareReplace), 2);
    }

    /// A scope over another's values, in a world that counts changes and may have no memory.
    struct World {
        changes: u64,
        memory: bool,
        below: Policy,
        scope: Scope<Rc<Policy>, 3>,
    }

    const KNOB: KnobId = KnobId::PreEvictLow;

    impl World {
        fn new() -> Self {
            let below = Policy::new();
            Self {
                changes: 0,
                memory: true,
                below,
                scope: Scope::new(Rc::new(below)),
            }
        }

        /// What the driver does when it is asked.
        fn ask(&mut self, place: usize) -> u64 {
            let now = self.scope.current(place, self.changes).unwrap_or_else(|| {
                if self.memory {
                    let made = Rc::new(over(self.scope.own(), &self.below));
                    self.scope.put(place, self.changes, made.clone());
                    made
                } else {
                    self.scope.best(place)
                }
            });
            now.get(KNOB)
        }

        /// What the driver does when a value is set, which fails without memory.
        fn set(&mut self, value: u64) {
            assert!(self.memory);
            let mut own = *self.scope.own();
            own.put(KNOB, value).unwrap();
            let made = Rc::new(over(&own, &self.below));
            self.scope.change(own, self.changes, made);
            self.changes += 1;
        }

        fn set_below(&mut self, value: u64) {
            self.below.set(KNOB, value).unwrap();
            self.changes += 1;
        }
    }

    #[test]
    fn what_was_set_is_heeded_without_memory() {
        let mut w = World::new();
        w.set(7);
        w.memory = false;
        // Never asked for before.
        assert_eq!((w.ask(0), w.ask(2)), (7, 7));
        w.memory = true;
        assert_eq!(w.ask(1), 7);
        w.set(8);
        w.memory = false;
        // Asked for before the change.
        assert_eq!((w.ask(0), w.ask(1)), (8, 8));
        // No such place.
        assert_eq!(w.ask(3), 8);
    }

    #[test]
    fn a_change_counts_at_once_and_below_when_there_is_memory() {
        let mut w = World::new();
        w.set_below(5);
        assert_eq!((w.ask(0), w.ask(1)), (5, 5));
        w.set_below(6);
        w.memory = false;
        assert_eq!((w.ask(0), w.ask(2)), (5, Policy::new().get(KNOB)));
        w.memory = true;
        assert_eq!((w.ask(0), w.ask(2)), (6, 6));
        w.set(7);
        w.set_below(9);
        assert_eq!((w.ask(0), w.ask(1)), (7, 7));
    }

    #[test]
    fn what_was_put_together_is_kept_until_a_change() {
        let mut s: Scope<Rc<u8>, 2> = Scope::new(Rc::new(0));
        assert_eq!(s.current(0, 0), None);
        let one = Rc::new(1);
        assert_eq!(s.put(0, 4, one.clone()), None);
        assert!(s.current(0, 4).is_some_and(|h| Rc::ptr_eq(&h, &one)));
        assert_eq!((s.current(0, 5), s.current(1, 4)), (None, None));
        // Old ones are given back, and one for no place.
        assert_eq!(s.put(0, 5, Rc::new(2)), Some(one));
        assert_eq!(s.put(2, 5, Rc::new(3)), Some(Rc::new(3)));
        assert_eq!(s.change(Overrides::none(), 5, Rc::new(4)), Rc::new(0));
        // Made before the change, or while it was made.
        assert_eq!((*s.best(0), *s.best(1)), (4, 4));
        s.put(0, 6, Rc::new(5));
        assert_eq!((*s.best(0), *s.best(1)), (5, 4));
    }
}
