// SPDX-License-Identifier: GPL-2.0
//! A place in a list that anybody writes and anybody reads, without a lock and in any context.
//!
//! A place has one user at a time. A reader sees the words of one user, all of them, or nothing: it reads since when the place is used
//! before and after the words, and the two have to be the same.

use crate::atomic::{Acquire, Atomic, Full, Relaxed, Release};

/// Nobody uses it.
const FREE: u64 = 0;
/// Its user is writing.
const WRITING: u64 = u64::MAX;
/// A reader tries so often: the place of a user that [gets on](Place::renew) is not empty.
const TRIES: usize = 4;

/// A place with `N` words.
pub struct Place<const N: usize> {
    /// Since when, by the user's clock, [`FREE`] or [`WRITING`].
    since: Atomic<u64>,
    words: [Atomic<u64>; N],
    /// [`Self::since`] of the last user of whom was told.
    told: Atomic<u64>,
}

/// What a reader saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen<const N: usize> {
    /// Since when, or since when it last got on.
    pub since: u64,
    /// The user's words.
    pub words: [u64; N],
}

/// A time that means a time.
const fn time(now: u64) -> u64 {
    match now {
        FREE => FREE + 1,
        WRITING => WRITING - 1,
        _ => now,
    }
}

impl<const N: usize> Place<N> {
    /// Free.
    pub const fn new() -> Self {
        Place {
            since: Atomic::<u64>::new(FREE),
            words: [const { Atomic::<u64>::new(0) }; N],
            told: Atomic::<u64>::new(FREE),
        }
    }

    /// Takes it, if it is free, from `now` on. `now` is no time at which an earlier user took it or got on.
    #[must_use]
    pub fn take(&self, now: u64, words: [u64; N]) -> bool {
        if self.since.load(Relaxed) != FREE || self.since.cmpxchg(FREE, WRITING, Full).is_err() {
            return false;
        }
        for (to, word) in self.words.iter().zip(words) {
            // Who reads it sees that the last user is gone.
            to.store(word, Release);
        }
        self.since.store(time(now), Release);
        true
    }

    /// Its user got on.
    pub fn renew(&self, now: u64) {
        self.since.store(time(now), Release);
    }

    /// Its user lets go of it.
    pub fn leave(&self) {
        self.since.store(FREE, Release);
    }

    /// What its user wrote; `None`: nobody uses it, or it is changing hands.
    pub fn read(&self) -> Option<Seen<N>> {
        for _ in 0..TRIES {
            let since = self.since.load(Acquire);
            if since == FREE || since == WRITING {
                return None;
            }
            let mut words = [0; N];
            for (to, word) in words.iter_mut().zip(&self.words) {
                *to = word.load(Acquire);
            }
            if self.since.load(Relaxed) == since {
                return Some(Seen { since, words });
            }
        }
        None
    }

    /// Whether nobody was told of what was seen: the caller is to tell.
    #[must_use]
    pub fn is_first_to_tell(&self, seen: &Seen<N>) -> bool {
        self.told.xchg(seen.since, Full) != seen.since
    }
}

impl<const N: usize> Default for Place<N> {
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

    fn new() -> Place<2> {
        let place = Place::new();
        place.since.made();
        place.words.iter().for_each(Atomic::made);
        place.told.made();
        place
    }

    /// A user whose words tell since when it is there.
    fn uses(place: &Place<2>, now: u64) -> bool {
        place.take(now, [now + 1, now + 2])
    }

    fn is_whole(seen: &Seen<2>) -> bool {
        seen.words == [seen.since + 1, seen.since + 2]
    }

    #[test]
    fn what_is_read_is_of_one_user() {
        loom::model(|| {
            let place = Arc::new(new());
            assert!(uses(&place, 10));
            let reads = {
                let place = place.clone();
                thread::spawn(move || {
                    if let Some(seen) = place.read() {
                        assert!(is_whole(&seen), "{seen:?}");
                    }
                })
            };
            place.leave();
            assert!(uses(&place, 20));
            reads.join().unwrap();
            assert!(place.read().is_some_and(|s| is_whole(&s) && s.since == 20));
            place.leave();
            assert_eq!(place.read(), None);
        });
    }

    #[test]
    fn one_has_it_at_a_time() {
        loom::model(|| {
            let place = Arc::new(new());
            let users = [10, 20].map(|now| {
                let place = place.clone();
                thread::spawn(move || {
                    let has = uses(&place, now);
                    if has {
                        // Nobody else leaves or takes it.
                        assert!(place.read().is_some_and(|s| is_whole(&s) && s.since == now));
                    }
                    has
                })
            });
            let had: Vec<bool> = users.map(|u| u.join().unwrap()).into();
            assert_eq!(had.iter().filter(|h| **h).count(), 1);
        });
    }

    #[test]
    fn one_that_gets_on_is_seen_with_its_words() {
        loom::model(|| {
            let place = Arc::new(new());
            assert!(place.take(10, [1, 2]));
            let reads = {
                let place = place.clone();
                thread::spawn(move || place.read())
            };
            place.renew(0);
            place.renew(u64::MAX);
            let seen = reads.join().unwrap();
            assert!(
                seen.is_some_and(|s| s.words == [1, 2] && s.since != FREE && s.since != WRITING)
            );
        });
    }

    #[test]
    fn told_once_of_each_user() {
        loom::model(|| {
            let place = Arc::new(new());
            let told = Arc::new(AtomicU64::new(0));
            assert!(uses(&place, 1));
            let look = |place: &Place<2>, told: &AtomicU64| {
                if let Some(seen) = place.read().filter(|s| place.is_first_to_tell(s)) {
                    told.fetch_add(seen.since, Ordering::Relaxed);
                }
            };
            let looks = [0, 1].map(|_| {
                let (place, told) = (place.clone(), told.clone());
                thread::spawn(move || look(&place, &told))
            });
            for l in looks {
                l.join().unwrap();
            }
            assert_eq!(told.load(Ordering::Relaxed), 1);
            place.leave();
            assert!(uses(&place, 100));
            look(&place, &told);
            look(&place, &told);
            assert_eq!(told.load(Ordering::Relaxed), 101);
        });
    }
}
