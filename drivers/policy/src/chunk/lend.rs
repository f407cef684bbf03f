// SPDX-License-Identifier: GPL-2.0
//! Lent chunks: in which order they are written back and reclaimed.
//!
//! **Write-back** takes the chunk lent longest ago that has no copy on the host ([`ChunkTable::pick_write_back`]). One
//! whose copy failed goes to the end of the line, so that it does not hold up the others.
//!
//! **Reclaim** ([`ChunkTable::pick_reclaim`]) takes, in this order: the oldest removable chunk, without any copy; else it
//! waits for a chunk that is free as soon as a copy ends; else for the oldest chunk under write-back; else it writes back
//! the oldest itself. Whoever claims a chunk takes it off its list, so several reclaimers never wait for the same one.
//! Each step takes constant time, however many chunks are lent.
//!
//! What else may happen to a chunk under write-back:
//!
//! | meanwhile | then | at the end of the copy |
//! | --- | --- | --- |
//! | its owner reclaims it | claimed, waits | copied: handed over; failed: the reclaimer copies |
//! | its borrower fetches it over the peer link | claimed, the fetch goes on beside the copy | free, if the fetch is done |
//! | the borrower exits, or discards it | waits, nobody's | free |
//! | the borrower writes to it | nothing | the caller reports it as not copied |
//!
//! So a fetch never waits for a write-back, and no chunk is handed to anybody before the last copy out of it.

use super::list::Place;
use super::{ChunkError, ChunkIter, ChunkState, ChunkTable, StateSet, LENT};
use crate::types::ChunkId;

/// How an owner gets a lent chunk back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaim {
    /// Removable: evict it and hand it over, there is nothing to copy.
    Removable(ChunkId),
    /// Will be free when the copy out of it ends: wait, then allocate.
    Draining(ChunkId),
    /// Under write-back: evict it, wait for the copy, hand it over.
    WritingBack(ChunkId),
    /// The only copy, and nobody is writing it back: evict it, copy it, hand it over.
    Only(ChunkId),
}

/// What the holder of a chunk being evicted has to do before [`ChunkTable::hand_over`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictNeed {
    /// Nothing: what is in it is on the host too, or not wanted.
    Nothing,
    /// Copy its pages out.
    Copy,
    /// Wait for the end of the write-back, and ask again.
    Wait,
}

/// What became of a chunk when its write-back ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteBackEnd {
    /// The host has a copy: LentRemovable.
    Removable,
    /// The copy is not good: LentOnly, at the end of the line.
    StillOnly,
    /// Somebody claimed the chunk meanwhile, and may wait for this.
    Claimed,
    /// Nobody wanted it any more: Free.
    Freed,
}

impl ChunkTable<'_> {
    /// Pinned → LentOnly: a neighbour has filled the chunk, and its pages are nowhere else.
    ///
    /// # Errors
    /// As [`ChunkError`]; nothing changes then. The same holds for every operation below.
    pub fn lend(&mut self, id: ChunkId) -> Result<(), ChunkError> {
        self.check(id, StateSet::of(&[ChunkState::Pinned]))?;
        self.shift(id, ChunkState::LentOnly)
    }

    /// Pinned → LentRemovable: the chunk was filled from the host, which keeps its copy (prefetch to spare memory).
    pub fn lend_prefetched(&mut self, id: ChunkId) -> Result<(), ChunkError> {
        self.check(id, StateSet::of(&[ChunkState::Pinned]))?;
        self.shift(id, ChunkState::LentRemovable)
    }

    /// LentOnly or LentRemovable → LentRemovable (`copied`: the host has a copy of everything in it) or LentOnly (the
    /// copy is stale), at the end of the list. Refused under write-back, whose end says the same.
    pub fn set_removable(&mut self, id: ChunkId, copied: bool) -> Result<(), ChunkError> {
        self.check(id, LENT)?;
        self.shift(id, lent_state(copied))
    }

    /// The chunk to write back next, `None` if there is none. Changes nothing.
    pub fn pick_write_back(&self) -> Option<ChunkId> {
        self.first(ChunkState::LentOnly)
    }

    /// LentOnly → LentOnly with a copy in flight, at the end of those. [`end_write_back`](Self::end_write_back) ends it.
    pub fn begin_write_back(&mut self, id: ChunkId) -> Result<(), ChunkError> {
        self.check(id, StateSet::of(&[ChunkState::LentOnly]))?;
        self.shift_to(id, Place::WRITING)
    }

    /// The copy that [`begin_write_back`](Self::begin_write_back) announced is over: complete and published (`copied`),
    /// or failed or stale. The answer says where the chunk is now.
    pub fn end_write_back(
        &mut self,
        id: ChunkId,
        copied: bool,
    ) -> Result<WriteBackEnd, ChunkError> {
        let have = self.state(id).ok_or(ChunkError::NoSuchChunk { id })?;
        if !self.is_copying(id) {
            return Err(ChunkError::NoCopy { id });
        }
        match have {
            ChunkState::LentOnly => {
                self.shift(id, lent_state(copied))?;
                Ok(if copied {
                    WriteBackEnd::Removable
                } else {
                    WriteBackEnd::StillOnly
                })
            }
            ChunkState::Evicting => {
                self.shift(id, ChunkState::Evicting)?;
                if let Some(e) = self.entry_mut(id) {
                    e.before_evict = lent_state(copied);
                }
                Ok(WriteBackEnd::Claimed)
            }
            ChunkState::Pinned => {
                self.shift(id, ChunkState::Free)?;
                Ok(WriteBackEnd::Freed)
            }
            _ => Err(ChunkError::Corrupt { id }),
        }
    }

    /// How to get one lent chunk back; `None` if none is lent that nobody else is emptying. Changes nothing.
    pub fn pick_reclaim(&self) -> Option<Reclaim> {
        let removable = self.first(ChunkState::LentRemovable);
        removable
            .map(Reclaim::Removable)
            .or_else(|| self.first_of(Place::DRAINING).map(Reclaim::Draining))
            .or_else(|| self.first_of(Place::WRITING).map(Reclaim::WritingBack))
            .or_else(|| self.first(ChunkState::LentOnly).map(Reclaim::Only))
    }

    /// What is to be done before a chunk in Evicting can be handed over.
    pub fn evict_need(&self, id: ChunkId) -> Result<EvictNeed, ChunkError> {
        self.check_state(id, StateSet::of(&[ChunkState::Evicting]))?;
        let e = self.entry(id).ok_or(ChunkError::NoSuchChunk { id })?;
        Ok(match e.before_evict {
            _ if e.copying => EvictNeed::Wait,
            ChunkState::Unused | ChunkState::Discarded | ChunkState::LentRemovable => {
                EvictNeed::Nothing
            }
            _ => EvictNeed::Copy,
        })
    }

    /// Lent chunks under write-back that nobody has claimed, the one to wait for first. For views and tests.
    pub fn iter_writing_back(&self) -> ChunkIter<'_> {
        ChunkIter::new(self, Place::WRITING.list(), [None; 2])
    }

    /// Chunks that will be free when the copy out of them ends, the oldest first. For views and tests.
    pub fn iter_draining(&self) -> ChunkIter<'_> {
        ChunkIter::new(self, Place::DRAINING.list(), [None; 2])
    }
}

/// The lent state of a chunk that the host has a copy of, or has not.
const fn lent_state(copied: bool) -> ChunkState {
    if copied {
        ChunkState::LentRemovable
    } else {
        ChunkState::LentOnly
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::{ChunkEntry, ChunkLists};

    /// A chunk claimed under write-back came from LentOnly; an entry that says otherwise was overwritten.
    #[test]
    fn a_claim_that_cannot_have_come_from_a_write_back_is_corrupt() {
        let (mut e, mut l) = ([ChunkEntry::new(); 1], ChunkLists::new());
        let id = ChunkId(0);
        let mut t = ChunkTable::new(&mut e, &mut l);
        t.format();
        t.alloc().unwrap();
        t.lend(id).unwrap();
        t.begin_write_back(id).unwrap();
        t.begin_evict(id).unwrap();
        t.entry_mut(id).unwrap().before_evict = ChunkState::Used;
        assert_eq!(t.abort_evict(id), Err(ChunkError::Corrupt { id }));
        assert_eq!(t.state(id), Some(ChunkState::Evicting));
    }
}
