// SPDX-License-Identifier: GPL-2.0
//! The part of `kernel::sync::atomic` that this crate uses, on loom's atomics.
//!
//! Loom's memory is that of C11. The kernel's is stronger in places (dependencies order, for one), so what holds here holds there.
//! An operation that is [`Full`] in the kernel has a full barrier on both sides, and so it has here.

use loom::sync::atomic::{fence, AtomicU64, Ordering};
use std::marker::PhantomData;
use std::sync::OnceLock;

/// Orders nothing.
pub(crate) struct Relaxed;
/// What comes after stays after.
pub(crate) struct Acquire;
/// What comes before stays before.
pub(crate) struct Release;
/// A full barrier before and after.
pub(crate) struct Full;

/// What a load may be.
pub(crate) trait OfLoad {
    const ORDER: Ordering;
}
/// What a store may be.
pub(crate) trait OfStore {
    const ORDER: Ordering;
}
/// What an operation that reads and writes may be.
pub(crate) trait OfBoth {
    const ORDER: Ordering;
    const FULL: bool = false;
}

impl OfLoad for Relaxed {
    const ORDER: Ordering = Ordering::Relaxed;
}
impl OfLoad for Acquire {
    const ORDER: Ordering = Ordering::Acquire;
}
impl OfStore for Relaxed {
    const ORDER: Ordering = Ordering::Relaxed;
}
impl OfStore for Release {
    const ORDER: Ordering = Ordering::Release;
}
impl OfBoth for Relaxed {
    const ORDER: Ordering = Ordering::Relaxed;
}
impl OfBoth for Full {
    const ORDER: Ordering = Ordering::AcqRel;
    const FULL: bool = true;
}

/// What fits in a word.
pub(crate) trait Word: Copy {
    fn to(self) -> u64;
    fn from(word: u64) -> Self;
}
impl Word for u64 {
    fn to(self) -> u64 {
        self
    }
    fn from(word: u64) -> u64 {
        word
    }
}
impl Word for u32 {
    fn to(self) -> u64 {
        self.into()
    }
    fn from(word: u64) -> u32 {
        word as u32
    }
}
impl Word for bool {
    fn to(self) -> u64 {
        self.into()
    }
    fn from(word: u64) -> bool {
        word != 0
    }
}

/// An atomic word. Loom's cannot be made in a constant, so it is made when it is first used: in tests by who makes it
/// ([`Self::made`]), before others have it.
pub(crate) struct Atomic<T> {
    word: OnceLock<AtomicU64>,
    first: u64,
    what: PhantomData<T>,
}

impl Atomic<u64> {
    pub(crate) const fn new(first: u64) -> Self {
        Self::of(first)
    }
}
impl Atomic<u32> {
    pub(crate) const fn new(first: u32) -> Self {
        Self::of(first as u64)
    }
}
impl Atomic<bool> {
    pub(crate) const fn new(first: bool) -> Self {
        Self::of(first as u64)
    }
}

impl<T> Atomic<T> {
    const fn of(first: u64) -> Self {
        Atomic {
            word: OnceLock::new(),
            first,
            what: PhantomData,
        }
    }
}

impl<T: Word> Atomic<T> {
    fn word(&self) -> &AtomicU64 {
        self.word.get_or_init(|| AtomicU64::new(self.first))
    }

    #[cfg(test)]
    pub(crate) fn made(&self) {
        self.word();
    }

    fn both<O: OfBoth, R>(&self, f: impl FnOnce(&AtomicU64, Ordering) -> R) -> R {
        let full = || {
            if O::FULL {
                fence(Ordering::SeqCst);
            }
        };
        full();
        let r = f(self.word(), O::ORDER);
        full();
        r
    }

    pub(crate) fn load<O: OfLoad>(&self, _: O) -> T {
        T::from(self.word().load(O::ORDER))
    }

    pub(crate) fn store<O: OfStore>(&self, v: T, _: O) {
        self.word().store(v.to(), O::ORDER);
    }

    pub(crate) fn xchg<O: OfBoth>(&self, v: T, _: O) -> T {
        T::from(self.both::<O, _>(|w, o| w.swap(v.to(), o)))
    }

    pub(crate) fn cmpxchg<O: OfBoth>(&self, old: T, new: T, _: O) -> Result<T, T> {
        self.both::<O, _>(|w, o| w.compare_exchange(old.to(), new.to(), o, Ordering::Relaxed))
            .map(T::from)
            .map_err(T::from)
    }

    pub(crate) fn fetch_add<O: OfBoth>(&self, v: T, _: O) -> T {
        T::from(self.both::<O, _>(|w, o| w.fetch_add(v.to(), o)))
    }
}
