// SPDX-License-Identifier: GPL-2.0
//! Chunks in order of a key.

use std::collections::BTreeSet;

/// Chunks, each with a key that can change; the one with the least key is found in O(log n).
#[derive(Clone, Debug, Default)]
pub struct Order {
    sorted: BTreeSet<(i64, u32)>,
    keys: Vec<Option<i64>>,
}

impl Order {
    /// Puts a chunk in, or gives it another key.
    pub fn put(&mut self, chunk: u32, key: i64) {
        let at = chunk as usize;
        if self.keys.len() <= at {
            self.keys.resize(at + 1, None);
        }
        if let Some(slot) = self.keys.get_mut(at) {
            if let Some(old) = slot.replace(key) {
                self.sorted.remove(&(old, chunk));
            }
        }
        self.sorted.insert((key, chunk));
    }

    /// Takes a chunk out, if it is in.
    pub fn remove(&mut self, chunk: u32) {
        let slot = self.keys.get_mut(chunk as usize);
        if let Some(old) = slot.and_then(Option::take) {
            self.sorted.remove(&(old, chunk));
        }
    }

    /// Takes out the chunk with the least key; the lower number, of two with the same.
    pub fn pop(&mut self) -> Option<u32> {
        let (_, chunk) = self.sorted.pop_first()?;
        if let Some(slot) = self.keys.get_mut(chunk as usize) {
            *slot = None;
        }
        Some(chunk)
    }

    /// Chunks in it.
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }
}
