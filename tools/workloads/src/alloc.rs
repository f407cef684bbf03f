// SPDX-License-Identifier: GPL-2.0
//! What a workload allocates.

use crate::rng::mix;
use crate::PAGE;
use std::sync::Arc;

/// What an allocation holds when the CPU has filled it, in words of 64 bits.
#[derive(Clone, Debug)]
pub enum Init {
    /// `first + add · i`, wrapping.
    Series {
        /// Word 0.
        first: u64,
        /// What each next one adds.
        add: u64,
    },
    /// A hash of `seed` and `i`, below `below`.
    Hashed {
        /// The seed.
        seed: u64,
        /// First value that does not occur; 0 counts as 1.
        below: u64,
    },
    /// These words, then zeroes.
    Words(Arc<[u64]>),
}

impl Init {
    /// Fills `out` with the words from word `at` on.
    pub fn fill(&self, at: u64, out: &mut [u64]) {
        for (i, word) in (at..).zip(out) {
            *word = self.word(i);
        }
    }

    /// Word `i`.
    pub fn word(&self, i: u64) -> u64 {
        match self {
            Init::Series { first, add } => first.wrapping_add(add.wrapping_mul(i)),
            Init::Hashed { seed, below } => mix(seed.wrapping_add(mix(i))) % (*below).max(1),
            Init::Words(words) => usize::try_from(i)
                .ok()
                .and_then(|i| words.get(i))
                .copied()
                .unwrap_or(0),
        }
    }
}

/// Who touches an allocation first.
#[derive(Clone, Debug)]
pub enum First {
    /// The GPU: it reads as zero.
    Gpu,
    /// The CPU fills it before the first step.
    Cpu(Init),
}

/// A managed range.
#[derive(Clone, Debug)]
pub struct Alloc {
    /// What it is.
    pub name: &'static str,
    /// Bytes, a multiple of 4 KiB.
    pub bytes: u64,
    /// Who touches it first.
    pub first: First,
}

impl Alloc {
    /// Pages of 4 KiB.
    pub fn pages(&self) -> u64 {
        self.bytes / PAGE
    }
}

/// A place in an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// Number of the allocation.
    pub alloc: u32,
    /// Bytes from its start.
    pub offset: u64,
}

impl At {
    /// The start of an allocation.
    pub const fn start(alloc: u32) -> At {
        At { alloc, offset: 0 }
    }

    /// So many bytes further.
    #[must_use]
    pub const fn plus(self, bytes: u64) -> At {
        At {
            alloc: self.alloc,
            offset: self.offset.saturating_add(bytes),
        }
    }
}
