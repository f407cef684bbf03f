// SPDX-License-Identifier: GPL-2.0
//! The lists through the entries of a chunk table: doubly linked by index, ends kept beside the table.
//!
//! All writing goes through [`ChunkTable::shift`], which first looks at every entry that it will write.

use super::{ChunkEntry, ChunkError, ChunkState, ChunkTable, STATES};
use crate::types::ChunkId;

/// No entry: the link past either end of a list.
pub(super) const NONE: u32 = u32::MAX;

/// Number of lists: one per state, of which some are never used, two for chunks with a copy in flight, one for the young, one for
/// the deferred.
pub(super) const LISTS: usize = STATES + 4;
/// List of the chunks in LentOnly*.
const WRITING: usize = STATES;
/// List of the chunks in Pinned*.
const DRAINING: usize = STATES + 1;
/// List of the chunks in use that the guard holds.
const YOUNG: usize = STATES + 2;
/// List of the chunks in use that were passed over.
const DEFERRED: usize = STATES + 3;

/// Where a chunk is: its state and the marks beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) state: ChunkState,
    /// A copy to the host is in flight.
    pub(super) copying: bool,
    /// In use, and in the guard.
    young: bool,
    /// In use, and passed over once.
    deferred: bool,
}

impl Place {
    /// The lent chunks under write-back.
    pub(super) const WRITING: Self = Self::new(ChunkState::LentOnly, true);
    /// The chunks that nobody wants, but for the copy out of them.
    pub(super) const DRAINING: Self = Self::new(ChunkState::Pinned, true);
    /// The chunks in use that the guard holds.
    pub(super) const YOUNG: Self = Self {
        state: ChunkState::Used,
        copying: false,
        young: true,
        deferred: false,
    };
    /// The chunks in use that were passed over.
    pub(super) const DEFERRED: Self = Self {
        state: ChunkState::Used,
        copying: false,
        young: false,
        deferred: true,
    };

    /// This state with or without the mark.
    pub(super) const fn new(state: ChunkState, copying: bool) -> Self {
        Self {
            state,
            copying,
            young: false,
            deferred: false,
        }
    }

    /// This state without the mark.
    pub(super) const fn of(state: ChunkState) -> Self {
        Self::new(state, false)
    }

    /// The place of a chunk.
    const fn of_entry(e: &ChunkEntry) -> Self {
        Self {
            state: e.state,
            copying: e.copying,
            young: e.young,
            deferred: e.deferred,
        }
    }

    /// The list that chunks of this place are on, if they are on one.
    pub(super) const fn list(self) -> Option<usize> {
        match (self.state, self.copying) {
            (ChunkState::Used, false) if self.young => Some(YOUNG),
            (ChunkState::Used, false) if self.deferred => Some(DEFERRED),
            (ChunkState::LentOnly, true) => Some(WRITING),
            (ChunkState::Pinned, true) => Some(DRAINING),
            (_, true) => None,
            (state, false) if state.is_listed() => Some(state.index()),
            (_, false) => None,
        }
    }
}

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

    /// Ends of a list.
    fn ends(&self, list: usize) -> Ends {
        self.lists.ends.get(list).copied().unwrap_or(Ends::EMPTY)
    }

    /// The chunk at the head of a state's list; `None` if the list is empty, or the head is not in that state.
    pub(super) fn first(&self, state: ChunkState) -> Option<ChunkId> {
        self.first_of(Place::of(state))
    }

    /// The chunk at the head of a place's list; `None` if the list is empty, or the head does not belong there.
    pub(super) fn first_of(&self, place: Place) -> Option<ChunkId> {
        let list = place.list()?;
        let head = self.ends(list).head;
        self.is_at(head, list, |_| true).then_some(ChunkId(head))
    }

    /// The chunk at the tail of a state's list; as [`first`](Self::first).
    pub(super) fn last(&self, state: ChunkState) -> Option<ChunkId> {
        let list = Place::of(state).list()?;
        let tail = self.ends(list).tail;
        self.is_at(tail, list, |_| true).then_some(ChunkId(tail))
    }

    /// Where a chunk goes that comes into `state`. In use it is young first, if there is a guard or there are young ones.
    pub(super) fn place(&self, state: ChunkState, copying: bool) -> Place {
        let guarded = self.lists.guard != 0 || self.lists.young != 0;
        if state == ChunkState::Used && !copying && guarded {
            Place::YOUNG
        } else {
            Place::new(state, copying)
        }
    }

    /// Moves a chunk from where it is to `to`, without a copy in flight. The one way to the free list, which one that failed does
    /// not get to.
    pub(super) fn shift(&mut self, id: ChunkId, to: ChunkState) -> Result<(), ChunkError> {
        let to = match to {
            ChunkState::Free if self.is_condemned(id) => ChunkState::Retired,
            to => to,
        };
        self.shift_to(id, self.place(to, false))
    }

    /// What the guard does not hold is young no more. Two at most, one more than comes: so a guard that became smaller is kept
    /// before long, and no call takes long.
    fn age(&mut self) {
        for _ in 0..2 {
            if self.lists.young <= self.lists.guard {
                return;
            }
            let Some(id) = self.first_of(Place::YOUNG) else {
                return;
            };
            let stays = self.lists.keep_old && self.entry(id).is_some_and(|e| e.comes_back);
            // Fails for entries that do not fit to each other: then nothing has changed.
            let aged = self.shift_to(id, Place::of(ChunkState::Used));
            self.lists.owed = self
                .lists
                .owed
                .saturating_add(u32::from(stays && aged.is_ok()));
        }
    }

    /// Moves a chunk from where it is to `to`, at the tail of `to`'s list if it has one. Everything is checked before
    /// anything is written.
    pub(super) fn shift_to(&mut self, id: ChunkId, to: Place) -> Result<(), ChunkError> {
        let from = self.entry(id).map(Place::of_entry);
        let from = from.ok_or(ChunkError::NoSuchChunk { id })?;
        if let Some(list) = from.list() {
            self.check_unlink(id, list)?;
        }
        if let Some(list) = to.list() {
            self.check_append(id, list)?;
        }
        if let Some(list) = from.list() {
            self.unlink(id, list);
        }
        self.set_place(id, from, to);
        if let Some(list) = to.list() {
            self.append(id, list);
        }
        if to == Place::YOUNG {
            self.age();
        }
        Ok(())
    }

    /// Can `id` be taken off `list`? Both neighbours, or the ends in their place, must point to it.
    fn check_unlink(&self, id: ChunkId, list: usize) -> Result<(), ChunkError> {
        let ends = self.ends(list);
        let ok = self.entry(id).is_some_and(|e| {
            let before = match e.prev {
                NONE => ends.head == id.0,
                prev => self.is_at(prev, list, |p| p.next == id.0),
            };
            let after = match e.next {
                NONE => ends.tail == id.0,
                next => self.is_at(next, list, |n| n.prev == id.0),
            };
            before && after
        });
        ok.then_some(()).ok_or(ChunkError::Corrupt { id })
    }

    /// Can `id` be put at the tail of `list`? The tail must be on that list and have nothing after it.
    fn check_append(&self, id: ChunkId, list: usize) -> Result<(), ChunkError> {
        let ends = self.ends(list);
        let ok = match ends.tail {
            NONE => ends.head == NONE,
            tail => ends.head != NONE && self.is_at(tail, list, |t| t.next == NONE),
        };
        ok.then_some(()).ok_or(ChunkError::Corrupt { id })
    }

    /// True if entry `index` is there, belongs on `list`, and satisfies `test`.
    fn is_at(&self, index: u32, list: usize, test: impl Fn(&ChunkEntry) -> bool) -> bool {
        self.entry(ChunkId(index))
            .is_some_and(|e| Place::of_entry(e).list() == Some(list) && test(e))
    }

    /// Takes `id` off `list`; [`check_unlink`](Self::check_unlink) has passed.
    fn unlink(&mut self, id: ChunkId, list: usize) {
        let Some(e) = self.entry_mut(id) else { return };
        let (prev, next) = (e.prev, e.next);
        (e.prev, e.next) = (NONE, NONE);
        if let Some(p) = self.entry_mut(ChunkId(prev)) {
            p.next = next;
        }
        if let Some(n) = self.entry_mut(ChunkId(next)) {
            n.prev = prev;
        }
        if let Some(ends) = self.lists.ends.get_mut(list) {
            if prev == NONE {
                ends.head = next;
            }
            if next == NONE {
                ends.tail = prev;
            }
        }
    }

    /// Puts `id` at the tail of `list`; [`check_append`](Self::check_append) has passed and `id` is on no list.
    fn append(&mut self, id: ChunkId, list: usize) {
        let Some(ends) = self.lists.ends.get_mut(list) else {
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

    /// Notes the new place in the entry and in the counts.
    fn set_place(&mut self, id: ChunkId, from: Place, to: Place) {
        if let Some(e) = self.entry_mut(id) {
            (e.state, e.copying) = (to.state, to.copying);
            (e.young, e.deferred) = (to.young, to.deferred);
            // What is touched in the guard is still to be kept.
            e.comes_back &= from.young && to.young;
        }
        for (place, less) in [(from, true), (to, false)] {
            let extra = match place {
                Place::WRITING => Some(&mut self.lists.writing),
                Place::DRAINING => Some(&mut self.lists.draining),
                Place::YOUNG => Some(&mut self.lists.young),
                Place::DEFERRED => Some(&mut self.lists.deferred),
                _ => None,
            };
            let main = self.lists.counts.get_mut(place.state.index());
            for n in main.into_iter().chain(extra) {
                // Saturating: entries that were never counted start as Unusable.
                *n = if less {
                    n.saturating_sub(1)
                } else {
                    n.saturating_add(1)
                };
            }
        }
    }
}

/// Iterator over a list, see [`ChunkTable::iter`]. Ends after as many steps as the table has chunks, even if the links
/// form a ring.
#[derive(Clone, Debug)]
pub struct ChunkIter<'t> {
    entries: &'t [ChunkEntry],
    list: Option<usize>,
    next: u32,
    /// The lists that go on where this one ends, and their heads.
    then: [Option<(usize, u32)>; 2],
    steps_left: u32,
}

impl<'t> ChunkIter<'t> {
    /// This list, or none; and those after it.
    pub(super) fn new(
        table: &'t ChunkTable<'_>,
        list: Option<usize>,
        then: [Option<usize>; 2],
    ) -> Self {
        Self {
            entries: table.entries,
            list,
            next: list.map_or(NONE, |l| table.ends(l).head),
            then: then.map(|list| list.map(|l| (l, table.ends(l).head))),
            steps_left: table.len(),
        }
    }
}

impl Iterator for ChunkIter<'_> {
    type Item = ChunkId;

    fn next(&mut self) -> Option<ChunkId> {
        self.steps_left = self.steps_left.checked_sub(1)?;
        while self.next == NONE {
            let (list, head) = self.then.iter_mut().find_map(Option::take)?;
            (self.list, self.next) = (Some(list), head);
        }
        let id = ChunkId(self.next);
        let entry = self.entries.get(id.as_usize())?;
        if self.list.is_none() || Place::of_entry(entry).list() != self.list {
            return None;
        }
        self.next = entry.next;
        Some(id)
    }
}
