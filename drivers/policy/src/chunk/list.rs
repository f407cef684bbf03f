// SPDX-License-Identifier: GPL-2.0
//! The lists through the entries of a chunk table: doubly linked by index, ends kept beside the table.
//!
//! All writing goes through [`ChunkTable::shift`], which first looks at every entry that it will write.

use super::{ChunkEntry, ChunkError, ChunkState, ChunkTable};
use crate::types::ChunkId;

/// No entry: the link past either end of a list.
pub(super) const NONE: u32 = u32::MAX;

/// First and last entry of a list, [`NONE`] if it is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    head: u32,
    tail: u32,
}

impl Ends {
    /// An empty list.
    pub(super) const EMPTY: Self = Self {
        head: NONE,
        tail: NONE,
    };
}

impl ChunkTable<'_> {
    /// The entry of a chunk.
    pub(super) fn entry(&self, id: ChunkId) -> Option<&ChunkEntry> {
        self.entries.get(id.as_usize())
    }

    /// The entry of a chunk, to be changed.
    pub(super) fn entry_mut(&mut self, id: ChunkId) -> Option<&mut ChunkEntry> {
        self.entries.get_mut(id.as_usize())
    }

    /// Ends of a state's list.
    fn ends(&self, state: ChunkState) -> Ends {
        self.lists
            .ends
            .get(state.index())
            .copied()
            .unwrap_or(Ends::EMPTY)
    }

    /// The chunk at the head of a state's list; `None` if the list is empty, or the head is not in that state.
    pub(super) fn first(&self, state: ChunkState) -> Option<ChunkId> {
        let id = ChunkId(self.ends(state).head);
        (self.state(id) == Some(state)).then_some(id)
    }

    /// Moves a chunk from its state to `to`, at the tail of `to`'s list if it has one. Everything is checked before
    /// anything is written.
    pub(super) fn shift(&mut self, id: ChunkId, to: ChunkState) -> Result<(), ChunkError> {
        let from = self.state(id).ok_or(ChunkError::NoSuchChunk { id })?;
        if from.is_listed() {
            self.check_unlink(id, from)?;
        }
        if to.is_listed() {
            self.check_append(id, to)?;
        }
        if from.is_listed() {
            self.unlink(id, from);
        }
        self.set_state(id, from, to);
        if to.is_listed() {
            self.append(id, to);
        }
        Ok(())
    }

    /// Can `id` be taken off the list of `state`? Both neighbours, or the ends in their place, must point to it.
    fn check_unlink(&self, id: ChunkId, state: ChunkState) -> Result<(), ChunkError> {
        let ends = self.ends(state);
        let ok = self.entry(id).is_some_and(|e| {
            let before = match e.prev {
                NONE => ends.head == id.0,
                prev => self.is_at(prev, state, |p| p.next == id.0),
            };
            let after = match e.next {
                NONE => ends.tail == id.0,
                next => self.is_at(next, state, |n| n.prev == id.0),
            };
            before && after
        });
        ok.then_some(()).ok_or(ChunkError::Corrupt { id })
    }

    /// Can `id` be put at the tail of the list of `state`? The tail must be in that state and have nothing after it.
    fn check_append(&self, id: ChunkId, state: ChunkState) -> Result<(), ChunkError> {
        let ends = self.ends(state);
        let ok = match ends.tail {
            NONE => ends.head == NONE,
            tail => ends.head != NONE && self.is_at(tail, state, |t| t.next == NONE),
        };
        ok.then_some(()).ok_or(ChunkError::Corrupt { id })
    }

    /// True if entry `index` is there, in `state`, and satisfies `test`.
    fn is_at(&self, index: u32, state: ChunkState, test: impl Fn(&ChunkEntry) -> bool) -> bool {
        self.entry(ChunkId(index))
            .is_some_and(|e| e.state == state && test(e))
    }

    /// Takes `id` off the list of `state`; [`check_unlink`](Self::check_unlink) has passed.
    fn unlink(&mut self, id: ChunkId, state: ChunkState) {
        let Some(e) = self.entry_mut(id) else { return };
        let (prev, next) = (e.prev, e.next);
        (e.prev, e.next) = (NONE, NONE);
        if let Some(p) = self.entry_mut(ChunkId(prev)) {
            p.next = next;
        }
        if let Some(n) = self.entry_mut(ChunkId(next)) {
            n.prev = prev;
        }
        if let Some(ends) = self.lists.ends.get_mut(state.index()) {
            if prev == NONE {
                ends.head = next;
            }
            if next == NONE {
                ends.tail = prev;
            }
        }
    }

    /// Puts `id` at the tail of the list of `state`; [`check_append`](Self::check_append) has passed and `id` is on no list.
    fn append(&mut self, id: ChunkId, state: ChunkState) {
        let Some(ends) = self.lists.ends.get_mut(state.index()) else {
            return;
        };
        let tail = ends.tail;
        ends.tail = id.0;
        if tail == NONE {
            ends.head = id.0;
        }
        if let Some(t) = self.entry_mut(ChunkId(tail)) {
            t.next = id.0;
        }
        if let Some(e) = self.entry_mut(id) {
            (e.prev, e.next) = (tail, NONE);
        }
    }

    /// Notes the new state in the entry and in the counts.
    fn set_state(&mut self, id: ChunkId, from: ChunkState, to: ChunkState) {
        if let Some(e) = self.entry_mut(id) {
            e.state = to;
        }
        // Saturating: entries that were never counted start as Unusable.
        if let Some(n) = self.lists.counts.get_mut(from.index()) {
            *n = n.saturating_sub(1);
        }
        if let Some(n) = self.lists.counts.get_mut(to.index()) {
            *n = n.saturating_add(1);
        }
    }
}

/// Iterator over a list, see [`ChunkTable::iter`]. Ends after as many steps as the table has chunks, even if the links
/// form a ring.
#[derive(Clone, Debug)]
pub struct ChunkIter<'t> {
    entries: &'t [ChunkEntry],
    state: ChunkState,
    next: u32,
    steps_left: u32,
}

impl<'t> ChunkIter<'t> {
    /// The list of `state`.
    pub(super) fn new(table: &'t ChunkTable<'_>, state: ChunkState) -> Self {
        Self {
            entries: table.entries,
            state,
            next: table.ends(state).head,
            steps_left: table.len(),
        }
    }
}

impl Iterator for ChunkIter<'_> {
    type Item = ChunkId;

    fn next(&mut self) -> Option<ChunkId> {
        self.steps_left = self.steps_left.checked_sub(1)?;
        let id = ChunkId(self.next);
        let entry = self.entries.get(id.as_usize())?;
        if entry.state != self.state {
            return None;
        }
        self.next = entry.next;
        Some(id)
    }
}
