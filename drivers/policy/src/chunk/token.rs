// SPDX-License-Identifier: GPL-2.0
//! What is in flight, as values.
//!
//! A [`FreeChunk`] is a chunk that its holder took and has not put to use yet, an [`EvictingChunk`] one that its holder
//! is emptying, a [`WritingChunk`] a lent one that its holder copies to the host. Each can be used up once, by a method that names what became of the chunk; it cannot be copied, and
//! the compiler warns when one is dropped on the floor. On the fault path, which holds chunks in flight across waits
//! and error returns, this turns "activated twice" and "evicted, then forgotten" into compile-time messages. A method
//! that fails gives the token back with the error, so the chunk is not lost.
//!
//! ```
//! # use huvm_policy::chunk::*;
//! # use huvm_policy::evict::VictimOrder;
//! # let (mut e, mut l) = (vec![ChunkEntry::new(); 1], ChunkLists::new());
//! # let mut table = ChunkTable::new(&mut e, &mut l);
//! # table.format();
//! let chunk = table.take_free().unwrap();
//! // ... copy pages into the chunk ...
//! let id = chunk.activate(&mut table).unwrap();
//!
//! let victim = table.take_victim(VictimOrder::LeastRecentlyMigrated, 0).unwrap();
//! assert_eq!(victim.id(), id);
//! // ... copy pages out of it ...
//! let again: FreeChunk = victim.hand_over(&mut table).unwrap();
//! # again.give_back(&mut table).unwrap();
//! ```
//!
//! A token can be used once only:
//!
//! ```compile_fail,E0382
//! # use huvm_policy::chunk::*;
//! fn twice(chunk: FreeChunk, table: &mut ChunkTable<'_>) {
//!     let _ = chunk.activate(table);
//!     let _ = chunk.activate(table);
//! }
//! ```
//!
//! and a chunk that is being emptied cannot be put to use:
//!
//! ```compile_fail,E0599
//! # use huvm_policy::chunk::*;
//! fn wrong_road(victim: EvictingChunk, table: &mut ChunkTable<'_>) {
//!     let _ = victim.activate(table);
//! }
//! ```

use super::{ChunkError, ChunkTable, EvictNeed, WriteBackEnd};
use crate::evict::VictimOrder;
use crate::types::ChunkId;

/// A chunk taken from the free list, or straight from a victim, and not in use yet. Its state is
/// [`Pinned`](super::ChunkState::Pinned).
///
/// Must end in [`activate`](Self::activate), [`give_back`](Self::give_back) or [`keep_pinned`](Self::keep_pinned);
/// dropped, the chunk stays pinned for ever.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a chunk dropped here stays pinned for ever"]
pub struct FreeChunk(ChunkId);

/// A chunk being emptied by the holder of this value. Its state is [`Evicting`](super::ChunkState::Evicting).
///
/// Must end in [`finish`](Self::finish), [`hand_over`](Self::hand_over) or [`abort`](Self::abort); dropped, the chunk
/// is lost to everybody.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a chunk dropped here is never free again"]
pub struct EvictingChunk(ChunkId);

/// A victim, and how it was chosen.
#[derive(Debug, PartialEq, Eq)]
pub struct FairVictim {
    /// The chunk.
    pub chunk: EvictingChunk,
    /// As a recent one ([`ChunkTable::is_recent`]).
    pub recent: bool,
    /// So many were passed over for their owners' shares.
    pub passed: u32,
}

/// A lent chunk that the holder of this value copies to the host. The chunk is not his: it may be claimed or freed
/// meanwhile, and [`end`](Self::end) tells him.
///
/// Must end in [`end`](Self::end); dropped, the chunk's memory is never anybody's again.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a chunk dropped here is never free again"]
pub struct WritingChunk(ChunkId);

impl ChunkTable<'_> {
    /// [`alloc`](Self::alloc) with a token.
    pub fn take_free(&mut self) -> Option<FreeChunk> {
        self.alloc().map(FreeChunk)
    }

    /// [`pick_victim`](Self::pick_victim) and [`begin_evict`](Self::begin_evict) in one step.
    pub fn take_victim(&mut self, order: VictimOrder, rng_seed: u64) -> Option<EvictingChunk> {
        let id = self.pick_victim(order, rng_seed)?;
        self.evict_chunk(id).ok()
    }

    /// [`pick_fair_victim`](Self::pick_fair_victim) and [`begin_evict`](Self::begin_evict) in one step.
    pub fn take_fair_victim(
        &mut self,
        order: VictimOrder,
        rng_seed: u64,
        defers: impl Fn(ChunkId) -> bool,
    ) -> Option<FairVictim> {
        let (id, passed) = self.pick_fair_victim(order, rng_seed, defers)?;
        let recent = self.is_recent(order, id);
        Some(FairVictim {
            chunk: self.evict_chunk(id).ok()?,
            recent,
            passed,
        })
    }

    /// [`pick_write_back`](Self::pick_write_back) and [`begin_write_back`](Self::begin_write_back) in one step.
    pub fn take_write_back(&mut self) -> Option<WritingChunk> {
        let id = self.pick_write_back()?;
        self.begin_write_back(id).ok()?;
        Some(WritingChunk(id))
    }

    /// [`begin_evict`](Self::begin_evict) of a chosen chunk, with a token.
    pub fn evict_chunk(&mut self, id: ChunkId) -> Result<EvictingChunk, ChunkError> {
        self.begin_evict(id)?;
        Ok(EvictingChunk(id))
    }
}

impl FreeChunk {
    /// The chunk.
    pub const fn id(&self) -> ChunkId {
        self.0
    }

    /// The chunk holds data now: Pinned → Used, as the most recently migrated.
    ///
    /// # Errors
    /// The token and the reason: the chunk is not in `table`, or somebody moved it by its id.
    pub fn activate(self, table: &mut ChunkTable<'_>) -> Result<ChunkId, (Self, ChunkError)> {
        match table.activate(self.0) {
            Ok(()) => Ok(self.0),
            Err(e) => Err((self, e)),
        }
    }

    /// A neighbour has filled the chunk: Pinned → LentOnly, or LentRemovable if the host has a copy as good (`copied`).
    ///
    /// # Errors
    /// As [`activate`](Self::activate).
    pub fn lend(
        self,
        table: &mut ChunkTable<'_>,
        copied: bool,
    ) -> Result<ChunkId, (Self, ChunkError)> {
        let lent = if copied {
            table.lend_prefetched(self.0)
        } else {
            table.lend(self.0)
        };
        match lent {
            Ok(()) => Ok(self.0),
            Err(e) => Err((self, e)),
        }
    }

    /// The chunk was not needed: Pinned → Free.
    ///
    /// # Errors
    /// As [`activate`](Self::activate).
    pub fn give_back(self, table: &mut ChunkTable<'_>) -> Result<(), (Self, ChunkError)> {
        table.free(self.0).map_err(|e| (self, e))
    }

    /// The chunk stays pinned from here on (page tables, rings); its holder frees it by its id.
    pub fn keep_pinned(self) -> ChunkId {
        self.0
    }
}

impl EvictingChunk {
    /// The chunk.
    pub const fn id(&self) -> ChunkId {
        self.0
    }

    /// What is to be done before the chunk can be handed over.
    ///
    /// # Errors
    /// The chunk is not in `table`, or somebody moved it by its id.
    pub fn need(&self, table: &ChunkTable<'_>) -> Result<EvictNeed, ChunkError> {
        table.evict_need(self.0)
    }

    /// The chunk is empty: Evicting → Free, at once or when a write-back in flight ends.
    ///
    /// # Errors
    /// The token and the reason: the chunk is not in `table`, or somebody moved it by its id.
    pub fn finish(self, table: &mut ChunkTable<'_>) -> Result<(), (Self, ChunkError)> {
        table.finish_evict(self.0).map_err(|e| (self, e))
    }

    /// The chunk is empty, or will be when its tracker is done, and goes to the holder: Evicting → Pinned.
    ///
    /// # Errors
    /// As [`finish`](Self::finish), and [`ChunkError::CopyInFlight`] while a write-back is.
    pub fn hand_over(self, table: &mut ChunkTable<'_>) -> Result<FreeChunk, (Self, ChunkError)> {
        match table.hand_over(self.0) {
            Ok(()) => Ok(FreeChunk(self.0)),
            Err(e) => Err((self, e)),
        }
    }

    /// The chunk could not be emptied and keeps what it has: back to its list, at the end.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn abort(self, table: &mut ChunkTable<'_>) -> Result<(), (Self, ChunkError)> {
        table.abort_evict(self.0).map_err(|e| (self, e))
    }
}

impl WritingChunk {
    /// The chunk.
    pub const fn id(&self) -> ChunkId {
        self.0
    }

    /// The copy is complete and published (`copied`), or has failed or is stale; see
    /// [`end_write_back`](ChunkTable::end_write_back).
    ///
    /// # Errors
    /// The token and the reason: the chunk is not in `table`, or somebody ended the copy by its id.
    pub fn end(
        self,
        table: &mut ChunkTable<'_>,
        copied: bool,
    ) -> Result<WriteBackEnd, (Self, ChunkError)> {
        table.end_write_back(self.0, copied).map_err(|e| (self, e))
    }
}
