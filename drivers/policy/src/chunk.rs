// SPDX-License-Identifier: GPL-2.0
//! The chunks of one GPU: state, lists, victims.
//!
//! A chunk is 2 MiB of a GPU's memory and in exactly one [`ChunkState`]. The memory manager owns one [`ChunkEntry`] per
//! chunk and one [`ChunkLists`] per GPU, keeps both under its lock, and lends them to a [`ChunkTable`] for the length
//! of an operation. The lists run through the entries as indices, so nothing is allocated and every operation but
//! [`ChunkTable::format`] takes a constant number of steps, however many chunks there are.
//!
//! ```text
//!              alloc                activate              begin_evict
//!     Free ------------> Pinned -----------------> Used ---------------> Evicting
//!      ^                 |    ^                  (touch,                 |  |  |
//!      |      free       |    |        pin        mark_unused,           |  |  |
//!      +-----------------+    +------------------ mark_discarded)  <-----+  |  |
//!      |                 ^                                 abort_evict      |  |
//!      |                 +--------------------------------------------------+  |
//!      |                           hand_over (victim to requester)             |
//!      +-----------------------------------------------------------------------+
//!                                  finish_evict
//!
//!             lend          begin_write_back           end_write_back(copied)
//!     Pinned ------> LentOnly ------------> LentOnly* -----------------------> LentRemovable
//!        |              ^                   |  |   |                            ^  ^
//!        |              +-------------------+  |   | begin_evict                |  |
//!        |       end_write_back(not copied)    |   v                            |  |
//!        |                                free |  Evicting* --> Evicting        |  |
//!        |                                     |   |     end_write_back         |  |
//!        |                                     v   v finish_evict               |  |
//!        |           Free <------------------ Pinned*                           |  |
//!        |                 end_write_back                         set_removable |  |
//!        |                                          LentOnly <------------------+  |
//!        +-------------------------------------------------------------------------+
//!                                    lend_prefetched
//! ```
//!
//! begin_evict and free also take a chunk from either lent state: the borrower fetches it, the owner wants it back, or
//! the borrower is gone.
//!
//! **The star** is a copy to the host in flight (write-back). It is not a state but a mark beside it: whatever becomes
//! of the chunk meanwhile, its memory is no one else's until [`end_write_back`](ChunkTable::end_write_back). A chunk
//! claimed by [`begin_evict`](ChunkTable::begin_evict) waits for that before it is handed over, and then knows whether
//! a copy is still owed ([`evict_need`](ChunkTable::evict_need)); one that nobody wants is free by itself afterwards.
//! [`lend`] has the order in which lent chunks are written back and reclaimed.
//!
//! **A chunk whose memory failed** is condemned ([`ChunkTable::condemn`]): a mark beside its state, for good. Its owner may keep it
//! for now, but every road that leads to Free ends in Retired instead, out of which there is none.
//!
//! **What is in flight is on no list** (Pinned, Evicting), so nobody else can pick it. Whoever put a chunk there must
//! bring it back; [`token`] has these states as values that say so at compile time. Chunks with a copy in flight that
//! nobody has claimed are on two lists of their own, LentOnly* and Pinned*, for those who wait.
//!
//! **Order.** [`ChunkState::Used`] is a list with the chunk migrated to longest ago at its head
//! (`nvidia-uvm.md` 4.5). Its last chunks may be a list of their own, the *young*: no more than the guard
//! ([`ChunkTable::steer`]), so that [`VictimOrder::Recent`] finds the youngest of the others at once; one of these that is to stay
//! ([`ChunkTable::keep`]) sends the oldest in its place, unless one that was looked at comes back later than it ([`Reuse`]). A third list has
//! those that an order chose and that were passed over, as their owner has no more than its share
//! ([`ChunkTable::pick_fair_victim`]): the *deferred*. Before it, victims come from the chunks with no resident page and then from those
//! with discarded pages only (4.4).
//!
//! **The hard case** is a table whose entries do not match its lists: the slices are the caller's, and may be the wrong
//! ones. Each operation therefore checks every entry that it is about to write, and answers
//! [`ChunkError::Corrupt`] before it has written anything.
//!
//! Rejected: an intrusive list of kernel objects, which cannot be tested on the host; a tree by time, which costs a
//! logarithm for an order that a list already has.

pub mod lend;
mod list;
pub mod token;

use crate::evict::{SplitMix64, VictimOrder};
use crate::reuse::Reuse;
use crate::types::ChunkId;

pub use lend::{EvictNeed, Reclaim, WriteBackEnd};
pub use list::ChunkIter;
pub use token::{EvictingChunk, FairVictim, FreeChunk, WritingChunk};

/// What a chunk is in use for. The discriminants are the order of [`ChunkLists`]' tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ChunkState {
    /// Not to be used: not there, reserved by firmware, or retired after an error. Every entry starts so.
    #[default]
    Unusable = 0,
    /// Holds nothing; old contents not scrubbed.
    Free = 1,
    /// Held by an operation, or for good by the driver itself (page tables). Never a victim.
    Pinned = 2,
    /// Backs a block that has pages resident in it.
    Used = 3,
    /// Backs a block, but no page is resident in it any more: a victim that costs no copy.
    Unused = 4,
    /// Backs a block all of whose resident pages were discarded: a victim that costs no copy.
    Discarded = 5,
    /// Being emptied by whoever called [`ChunkTable::begin_evict`].
    Evicting = 6,
    /// Lent to another GPU and holds the only copy of its pages: must be moved before the owner can have it. Under
    /// write-back it stays in this state until the copy is complete.
    LentOnly = 7,
    /// Lent to another GPU, and the host has a copy as good: the owner can have it at once.
    LentRemovable = 8,
    /// Its memory failed and nobody has it: out of service for good.
    Retired = 9,
}

/// Number of states.
const STATES: usize = 10;

impl ChunkState {
    /// True if chunks in this state are on a list.
    const fn is_listed(self) -> bool {
        !matches!(
            self,
            Self::Unusable | Self::Pinned | Self::Evicting | Self::Retired
        )
    }

    /// True for the states of a chunk that backs a block on its own GPU and may be evicted.
    pub const fn is_evictable(self) -> bool {
        matches!(self, Self::Used | Self::Unused | Self::Discarded)
    }

    /// True for both lent states.
    pub const fn is_lent(self) -> bool {
        matches!(self, Self::LentOnly | Self::LentRemovable)
    }

    /// The state as a subscript.
    const fn index(self) -> usize {
        // CAST: widening.
        self as usize
    }
}

/// The states that an operation takes a chunk from.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StateSet(u16);

impl StateSet {
    /// These states.
    const fn of(states: &[ChunkState]) -> Self {
        let mut bits = 0;
        let mut rest = states;
        while let [first, tail @ ..] = rest {
            bits |= 1 << first.index();
            rest = tail;
        }
        Self(bits)
    }

    /// True if `state` is one of them.
    pub const fn contains(self, state: ChunkState) -> bool {
        self.0 & (1 << state.index()) != 0
    }
}

impl core::fmt::Debug for StateSet {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_set()
            .entries(ALL_STATES.iter().filter(|s| self.contains(**s)))
            .finish()
    }
}

/// Every state once.
pub const ALL_STATES: [ChunkState; STATES] = [
    ChunkState::Unusable,
    ChunkState::Free,
    ChunkState::Pinned,
    ChunkState::Used,
    ChunkState::Unused,
    ChunkState::Discarded,
    ChunkState::Evicting,
    ChunkState::LentOnly,
    ChunkState::LentRemovable,
    ChunkState::Retired,
];

/// States of a chunk that backs a block and may become a victim.
const EVICTABLE: StateSet =
    StateSet::of(&[ChunkState::Used, ChunkState::Unused, ChunkState::Discarded]);
/// States from which an eviction may begin: also a lent chunk is emptied, when its owner wants it back.
const CAN_EVICT: StateSet = StateSet::of(&[
    ChunkState::Used,
    ChunkState::Unused,
    ChunkState::Discarded,
    ChunkState::LentOnly,
    ChunkState::LentRemovable,
]);
/// States from which a chunk may be freed: all in which it holds something and nobody is emptying it.
const CAN_FREE: StateSet = StateSet::of(&[
    ChunkState::Pinned,
    ChunkState::Used,
    ChunkState::Unused,
    ChunkState::Discarded,
    ChunkState::LentOnly,
    ChunkState::LentRemovable,
]);
/// Both lent states.
const LENT: StateSet = StateSet::of(&[ChunkState::LentOnly, ChunkState::LentRemovable]);

/// Why an operation on a chunk was refused. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkError {
    /// The table has no such chunk.
    NoSuchChunk {
        /// The chunk asked for.
        id: ChunkId,
    },
    /// The chunk is not in a state that the operation takes it from.
    WrongState {
        /// The chunk asked for.
        id: ChunkId,
        /// Its state.
        have: ChunkState,
        /// The states that the operation wants.
        want: StateSet,
    },
    /// The entry's neighbours, or its list's ends, do not fit to it: wrong slice, or memory overwritten.
    Corrupt {
        /// The chunk at which it was noticed.
        id: ChunkId,
    },
    /// A copy out of the chunk is in flight, and the operation would give its memory away or forget the copy.
    CopyInFlight {
        /// The chunk asked for.
        id: ChunkId,
    },
    /// No copy out of the chunk is in flight.
    NoCopy {
        /// The chunk asked for.
        id: ChunkId,
    },
}

/// One chunk's place in the table. 20 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkEntry {
    prev: u32,
    next: u32,
    state: ChunkState,
    /// The state before [`ChunkState::Evicting`], for [`ChunkTable::abort_evict`]. Otherwise meaningless.
    before_evict: ChunkState,
    /// A copy to the host is in flight: the star of the diagram.
    copying: bool,
    /// In use, and in the guard ([`ChunkTable::steer`]).
    young: bool,
    /// Its memory failed.
    condemned: bool,
    /// Young, and to be kept when it is so no more ([`ChunkTable::keep`]).
    comes_back: bool,
    /// In use, and passed over once ([`ChunkTable::pick_fair_victim`]).
    deferred: bool,
    /// How soon it comes back ([`ChunkTable::set_reuse`]), and in which cycle that was said.
    reuse: Reuse,
    said_in: u16,
}

impl ChunkEntry {
    /// An entry as a table wants it before [`ChunkTable::format`] or [`ChunkTable::make_usable`]: unusable, on no list.
    pub const fn new() -> Self {
        Self {
            prev: list::NONE,
            next: list::NONE,
            state: ChunkState::Unusable,
            before_evict: ChunkState::Unusable,
            copying: false,
            young: false,
            condemned: false,
            comes_back: false,
            deferred: false,
            reuse: Reuse::UNKNOWN,
            said_in: 0,
        }
    }

    /// The chunk's state.
    pub const fn state(&self) -> ChunkState {
        self.state
    }

    /// True while a copy to the host is in flight.
    pub const fn is_copying(&self) -> bool {
        self.copying
    }

    /// Whether a victim chosen by chance may be this one.
    fn is_drawn(&self) -> bool {
        self.state == ChunkState::Used && !self.deferred
    }
}

impl Default for ChunkEntry {
    fn default() -> Self {
        Self::new()
    }
}

/// Ends of the lists, and how many chunks are in each state, of one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkLists {
    ends: [list::Ends; list::LISTS],
    counts: [u32; STATES],
    /// Chunks on the list LentOnly*.
    writing: u32,
    /// Chunks on the list Pinned*.
    draining: u32,
    /// Chunks in use that are young.
    young: u32,
    /// How many of these there may be.
    guard: u32,
    /// Chunks that are not young stay where they are when they are touched.
    keep_old: bool,
    /// Chunks that are kept though they came last: so many of those before them make way, the oldest if none comes back later.
    owed: u32,
    /// The cycle that it is, of those counted so far.
    cycle: u16,
    /// Chunks in use that were passed over.
    deferred: u32,
}

impl ChunkLists {
    /// Lists of a table whose entries are all [`ChunkEntry::new`].
    pub const fn new() -> Self {
        Self {
            ends: [list::Ends::EMPTY; list::LISTS],
            counts: [0; STATES],
            writing: 0,
            draining: 0,
            young: 0,
            guard: 0,
            keep_old: false,
            owed: 0,
            cycle: 0,
            deferred: 0,
        }
    }

    /// Number of chunks in a state. [`ChunkState::Unusable`] counts those made so by [`ChunkTable::retire`] only, not
    /// those that never were anything else.
    pub fn count(&self, state: ChunkState) -> u32 {
        self.counts.get(state.index()).copied().unwrap_or(0)
    }

    /// Lent chunks under write-back that nobody has claimed. They count as [`ChunkState::LentOnly`] too.
    pub const fn writing_back(&self) -> u32 {
        self.writing
    }

    /// Chunks in use that the guard holds. They count as [`ChunkState::Used`] too.
    pub const fn young(&self) -> u32 {
        self.young
    }

    /// Chunks in use that were passed over. They count as [`ChunkState::Used`] too.
    pub const fn deferred(&self) -> u32 {
        self.deferred
    }

    /// Chunks that will be free when the copy out of them ends. They count as [`ChunkState::Pinned`] too.
    pub const fn draining(&self) -> u32 {
        self.draining
    }
}

impl Default for ChunkLists {
    fn default() -> Self {
        Self::new()
    }
}

/// The chunks of one GPU, lent by their owner for the length of an operation.
#[derive(Debug)]
pub struct ChunkTable<'a> {
    entries: &'a mut [ChunkEntry],
    lists: &'a mut ChunkLists,
}

/// How often [`VictimOrder::Random`] draws before it settles for the head of the list. With three of four chunks in use
/// (a GPU that must evict has nearly all) the chance of that is 1 in 2^64.
const RANDOM_DRAWS: u32 = 32;
/// Chunks of which the one that comes back last goes: under [`VictimOrder::Random`] of those in use, under [`VictimOrder::Recent`] of
/// all, and it has to come later than the youngest past the guard.
const REUSE_DRAWS: usize = 6;
/// One victim of this many is the oldest under [`VictimOrder::Recent`] (the bimodal throttle, Qureshi et al., ISCA'07).
const RECENT_OLDEST_OF: u32 = 32;
/// Chunks that [`ChunkTable::pick_fair_victim`] passes over, at most, before it takes the next one whoever has it.
pub const PASSES_MAX: u32 = 32;
/// Deferred chunks that it looks at once more, at most.
const DEFERRED_LOOKS: u32 = 2;

impl<'a> ChunkTable<'a> {
    /// The table over `entries`, whose lists are `lists`. Costs nothing; the two must always come together.
    pub fn new(entries: &'a mut [ChunkEntry], lists: &'a mut ChunkLists) -> Self {
        Self { entries, lists }
    }

    /// Makes every chunk free, in ascending order, whatever it was before. For a new table; takes time in proportion to
    /// the number of chunks.
    pub fn format(&mut self) {
        self.entries.fill(ChunkEntry::new());
        *self.lists = ChunkLists::new();
        for id in 0..self.len() {
            // Cannot fail: the entry is there, unusable, and all links are in order.
            let _ = self.make_usable(ChunkId(id));
        }
    }

    /// Number of chunks in the table, in any state.
    pub fn len(&self) -> u32 {
        u32::try_from(self.entries.len()).unwrap_or(list::NONE)
    }

    /// True without chunks.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of chunks in a state, see [`ChunkLists::count`].
    pub fn count(&self, state: ChunkState) -> u32 {
        self.lists.count(state)
    }

    /// State of a chunk; `None` if there is no such chunk.
    pub fn state(&self, id: ChunkId) -> Option<ChunkState> {
        self.entry(id).map(|e| e.state)
    }

    /// The chunks of a listed state in list order, the next victim (or the next to be allocated) first. No chunks for a
    /// state whose chunks are on no list. Those under write-back are not among them
    /// ([`iter_writing_back`](Self::iter_writing_back)). For views and tests: takes time in proportion to the list.
    pub fn iter(&self, state: ChunkState) -> ChunkIter<'_> {
        let then = [list::Place::YOUNG, list::Place::DEFERRED]
            .map(|p| p.list().filter(|_| state == ChunkState::Used));
        ChunkIter::new(self, list::Place::of(state).list(), then)
    }

    /// Sets how many chunks the guard of [`VictimOrder::Recent`] holds, and whether a [`touch`](Self::touch) leaves a chunk
    /// past it where it is. Without a guard, as at first, chunks are in the order of their migration alone.
    pub fn steer(&mut self, guard: u32, keep_old: bool) {
        (self.lists.guard, self.lists.keep_old) = (guard, keep_old);
    }

    /// The cycle that it is, counted from anywhere, over [`u16::MAX`] back to 0: what is known of chunks that stay grows old by it.
    pub fn set_cycle(&mut self, cycle: u16) {
        self.lists.cycle = cycle;
    }

    /// Unusable → Free, at the end of the free list.
    ///
    /// # Errors
    /// As [`ChunkError`]; nothing changes then. The same holds for every operation below.
    pub fn make_usable(&mut self, id: ChunkId) -> Result<(), ChunkError> {
        self.check(id, StateSet::of(&[ChunkState::Unusable]))?;
        self.shift(id, ChunkState::Free)
    }

    /// Pinned or Free → Unusable: the chunk is taken out of service (memory that failed: [`Self::condemn`]).
    pub fn retire(&mut self, id: ChunkId) -> Result<(), ChunkError> {
        self.check(id, StateSet::of(&[ChunkState::Pinned, ChunkState::Free]))?;
        self.shift(id, ChunkState::Unusable)
    }

    /// The chunk's memory failed: it is never free again. One that is free is Retired at once, any other when it would be free.
    /// Returns whether that was not known.
    pub fn condemn(&mut self, id: ChunkId) -> Result<bool, ChunkError> {
        let e = self.entry_mut(id).ok_or(ChunkError::NoSuchChunk { id })?;
        let is_new = !core::mem::replace(&mut e.condemned, true);
        if self.state(id) == Some(ChunkState::Free) {
            self.shift(id, ChunkState::Free)?;
        }
        Ok(is_new)
    }

    /// True if the chunk's memory failed; false if there is no such chunk.
    pub fn is_condemned(&self, id: ChunkId) -> bool {
        self.entry(id).is_some_and(|e| e.condemned)
    }

    /// Takes the chunk that has been free longest: Free → Pinned. `None` if no chunk is free. The caller fills it and
    /// calls [`activate`](Self::activate), or gives it back with [`free`](Self::free).
    pub fn alloc(&mut self) -> Option<ChunkId> {
        let id = self.first(ChunkState::Free)?;
        self.shift(id, ChunkState::Pinned).ok()?;
        Some(id)
    }

    /// Pinned → Used, as the most recently migrated.
    pub fn activate(&mut self, id: ChunkId) -> Result<(), ChunkError> {
        self.check(id, StateSet::of(&[ChunkState::Pinned]))?;
        self.shift(id, ChunkState::Used)
    }

    /// Used, Unused or Discarded → Pinned: an operation works on the chunk, which must not become a victim meanwhile.
    /// [`activate`](Self::activate) ends it.
    pub fn pin(&mut self, id: ChunkId) -> Result<(), ChunkError> {
        self.check(id, EVICTABLE)?;
        self.shift(id, ChunkState::Pinned)
    }

    /// Used, Unused or Discarded → Used, as the most recently migrated: pages were moved into the chunk, or were asked
    /// for and already there (`nvidia-uvm.md` 4.5).
    /// One that [`steer`](Self::steer) keeps where it is stays there.
    pub fn touch(&mut self, id: ChunkId) -> Result<(), ChunkError> {
        self.check(id, EVICTABLE)?;
        if self.lists.keep_old && self.is_kept(id) {
            return Ok(());
        }
        self.shift(id, ChunkState::Used)
    }

    /// The chunk, if it is young, is among those that [`VictimOrder::Recent`] keeps when the guard lets go of it, and the oldest of
    /// them makes way: it is wanted more often than they are.
    pub fn keep(&mut self, id: ChunkId) -> Result<(), ChunkError> {
        let e = self.entry_mut(id).ok_or(ChunkError::NoSuchChunk { id })?;
        e.comes_back = e.young;
        Ok(())
    }

    /// How soon the chunk comes back, once it is evicted ([`pick_victim`](Self::pick_victim)). It stays with the chunk until it is said
    /// anew, whatever becomes of it.
    pub fn set_reuse(&mut self, id: ChunkId, reuse: Reuse) -> Result<(), ChunkError> {
        let cycle = self.lists.cycle;
        let e = self.entry_mut(id).ok_or(ChunkError::NoSuchChunk { id })?;
        (e.reuse, e.said_in) = (reuse, cycle);
        Ok(())
    }

    /// What [`set_reuse`](Self::set_reuse) said last; unknown if there is no such chunk.
    pub fn reuse(&self, id: ChunkId) -> Reuse {
        self.entry(id).map_or(Reuse::UNKNOWN, |e| e.reuse)
    }

    /// The same, as old as it is by now.
    fn reuse_now(&self, id: ChunkId) -> Reuse {
        self.entry(id).map_or(Reuse::UNKNOWN, |e| {
            e.reuse.after(self.lists.cycle.wrapping_sub(e.said_in))
        })
    }

    /// Used or Discarded → Unused: the last page that was resident in the chunk left it.
    pub fn mark_unused(&mut self, id: ChunkId) -> Result<(), ChunkError> {
        self.check(id, StateSet::of(&[ChunkState::Used, ChunkState::Discarded]))?;
        self.shift(id, ChunkState::Unused)
    }

    /// Used → Discarded: every page resident in the chunk was discarded. A later use is a [`touch`](Self::touch).
    pub fn mark_discarded(&mut self, id: ChunkId) -> Result<(), ChunkError> {
        self.check(id, StateSet::of(&[ChunkState::Used]))?;
        self.shift(id, ChunkState::Discarded)
    }

    /// The chunk to evict next; `None` if none can be evicted. Changes nothing: the caller tries the lock of the block
    /// that the chunk backs and then calls [`begin_evict`](Self::begin_evict).
    ///
    /// First a chunk without resident pages, then one with discarded pages only, then one in use by `order`.
    /// Draws are a bounded number from a generator started at `rng_seed`, which should differ from call
    /// to call ([`SplitMix64::next_u64`]). [`VictimOrder::Random`] takes the least recently migrated chunk if it never hits one in use.
    pub fn pick_victim(&self, order: VictimOrder, rng_seed: u64) -> Option<ChunkId> {
        if let Some(id) = self
            .first(ChunkState::Unused)
            .or_else(|| self.first(ChunkState::Discarded))
        {
            return Some(id);
        }
        let oldest = self
            .first(ChunkState::Used)
            .or_else(|| self.first_of(list::Place::YOUNG))
            .or_else(|| self.first_of(list::Place::DEFERRED))?;
        match order {
            // Whoever has it to adapt says which of the others it is now.
            VictimOrder::LeastRecentlyMigrated | VictimOrder::Adaptive => Some(oldest),
            VictimOrder::Recent => {
                let mut rng = SplitMix64::new(rng_seed);
                let turn = rng.below(RECENT_OLDEST_OF) == 0;
                let Some(recent) = self.last(ChunkState::Used).filter(|_| !turn) else {
                    return Some(oldest);
                };
                let drawn = (0..REUSE_DRAWS)
                    .map(|_| ChunkId(rng.below(self.len())))
                    .filter(|&id| self.is_kept(id));
                let latest = self
                    .latest(drawn)
                    .filter(|&id| self.reuse_now(id).is_later_than(self.reuse_now(recent)));
                let owed = self.lists.owed != 0;
                Some(latest.unwrap_or(if owed { oldest } else { recent }))
            }
            VictimOrder::Random => {
                let mut rng = SplitMix64::new(rng_seed);
                let drawn = (0..RANDOM_DRAWS)
                    .map(|_| ChunkId(rng.below(self.len())))
                    .filter(|&id| self.entry(id).is_some_and(ChunkEntry::is_drawn));
                Some(self.latest(drawn.take(REUSE_DRAWS)).unwrap_or(oldest))
            }
        }
    }

    /// Of these chunks the one that comes back last.
    fn latest(&self, of: impl Iterator<Item = ChunkId>) -> Option<ChunkId> {
        of.max_by_key(|&id| self.reuse_now(id).word())
    }

    /// Whether a chunk is in use, past the guard, and was not passed over.
    fn is_kept(&self, id: ChunkId) -> bool {
        self.entry(id).is_some_and(|e| e.is_drawn() && !e.young)
    }

    /// Whether a chunk that [`pick_victim`](Self::pick_victim) or [`pick_fair_victim`](Self::pick_fair_victim) named just now was named
    /// as the youngest past the guard of [`VictimOrder::Recent`], and is not the oldest as well, in whose turn it comes.
    pub fn is_recent(&self, order: VictimOrder, id: ChunkId) -> bool {
        order == VictimOrder::Recent
            && self.last(ChunkState::Used) == Some(id)
            && self.first(ChunkState::Used) != Some(id)
    }

    /// [`pick_victim`](Self::pick_victim), but a chunk that `defers` has a word for is passed over: what one has of its share, where
    /// others have more than theirs. Says too how many were.
    ///
    /// A chunk that was passed over is out of the order's sight until it is touched. It was chosen already, so it comes first once
    /// `defers` has nothing to say for it any more. A constant number of steps: with [`PASSES_MAX`] passed over, or nothing else in
    /// use, the order's choice stands, so nobody's progress hangs on it. While `defers` speaks for no chunk, and none is deferred,
    /// this is `pick_victim`.
    pub fn pick_fair_victim(
        &mut self,
        order: VictimOrder,
        rng_seed: u64,
        defers: impl Fn(ChunkId) -> bool,
    ) -> Option<(ChunkId, u32)> {
        let is_used = |t: &Self, id| t.state(id) == Some(ChunkState::Used);
        let mut next = self.pick_victim(order, rng_seed)?;
        if !is_used(self, next) {
            return Some((next, 0));
        }
        for _ in 0..DEFERRED_LOOKS {
            let Some(id) = self.first_of(list::Place::DEFERRED) else {
                break;
            };
            if !defers(id) {
                return Some((id, 0));
            }
            // To the end of its list. Fails for entries that do not fit to each other.
            if self.shift_to(id, list::Place::DEFERRED).is_err() {
                break;
            }
        }
        for passed in 0..PASSES_MAX {
            let is_deferred = self.entry(next).is_some_and(|e| e.deferred);
            if is_deferred || !defers(next) || self.shift_to(next, list::Place::DEFERRED).is_err() {
                return Some((next, passed));
            }
            next = self.pick_victim(order, rng_seed)?;
        }
        Some((next, PASSES_MAX))
    }

    /// Used, Unused, Discarded or lent → Evicting: off all lists, so that nobody else picks it. Ends with
    /// [`finish_evict`](Self::finish_evict), [`hand_over`](Self::hand_over) or [`abort_evict`](Self::abort_evict). A copy
    /// in flight goes on.
    pub fn begin_evict(&mut self, id: ChunkId) -> Result<(), ChunkError> {
        let have = self.check_state(id, CAN_EVICT)?;
        let copying = self.is_copying(id);
        // One of those that were kept.
        let makes_way = self.is_kept(id)
            && (self.last(ChunkState::Used) != Some(id)
                || self.first(ChunkState::Used) == Some(id));
        self.shift_to(id, list::Place::new(ChunkState::Evicting, copying))?;
        self.lists.owed = self.lists.owed.saturating_sub(makes_way.into());
        if let Some(e) = self.entry_mut(id) {
            e.before_evict = have;
        }
        Ok(())
    }

    /// Evicting → Free: nothing is in the chunk any more and the copies out of it that its evicter began are complete.
    /// If a write-back is still in flight the chunk is Pinned until that ends.
    pub fn finish_evict(&mut self, id: ChunkId) -> Result<(), ChunkError> {
        self.check_state(id, StateSet::of(&[ChunkState::Evicting]))?;
        self.let_go(id)
    }

    /// Evicting → Pinned: the chunk goes straight to who evicted it, past the free list, so that no third party can take
    /// it in between (`nvidia-uvm.md` 4.3 step 4). The new owner must still order its fill after the copies out of it.
    /// Refused with [`ChunkError::CopyInFlight`] while a write-back is.
    pub fn hand_over(&mut self, id: ChunkId) -> Result<(), ChunkError> {
        self.check(id, StateSet::of(&[ChunkState::Evicting]))?;
        self.shift(id, ChunkState::Pinned)
    }

    /// Evicting → the state before, at the end of its list: what could not be evicted now is not the next victim again.
    /// If a write-back ended meanwhile, the state is the one that it left.
    pub fn abort_evict(&mut self, id: ChunkId) -> Result<(), ChunkError> {
        self.check_state(id, StateSet::of(&[ChunkState::Evicting]))?;
        let back = self
            .entry(id)
            .map(|e| self.place(e.before_evict, e.copying))
            .filter(|p| CAN_EVICT.contains(p.state) && (!p.copying || p.list().is_some()))
            .ok_or(ChunkError::Corrupt { id })?;
        self.shift_to(id, back)
    }

    /// Any state in which the chunk holds something, except Evicting → Free: its contents are gone or not wanted. Under
    /// write-back it is Pinned until that ends.
    pub fn free(&mut self, id: ChunkId) -> Result<(), ChunkError> {
        if self.check_state(id, CAN_FREE)? == ChunkState::Pinned && self.is_copying(id) {
            return Err(ChunkError::CopyInFlight { id });
        }
        self.let_go(id)
    }

    /// To the free list, or to those that will be free when the copy in flight ends.
    fn let_go(&mut self, id: ChunkId) -> Result<(), ChunkError> {
        if self.is_copying(id) {
            self.shift_to(id, list::Place::new(ChunkState::Pinned, true))
        } else {
            self.shift(id, ChunkState::Free)
        }
    }

    /// True if a copy to the host is in flight; false if there is no such chunk.
    pub fn is_copying(&self, id: ChunkId) -> bool {
        self.entry(id).is_some_and(ChunkEntry::is_copying)
    }

    /// The chunk's state, if it is one of `want` and no copy out of it is in flight.
    fn check(&self, id: ChunkId, want: StateSet) -> Result<ChunkState, ChunkError> {
        let have = self.check_state(id, want)?;
        if self.is_copying(id) {
            return Err(ChunkError::CopyInFlight { id });
        }
        Ok(have)
    }

    /// The chunk's state, if it is one of `want`.
    fn check_state(&self, id: ChunkId, want: StateSet) -> Result<ChunkState, ChunkError> {
        let have = self.state(id).ok_or(ChunkError::NoSuchChunk { id })?;
        if want.contains(have) {
            Ok(have)
        } else {
            Err(ChunkError::WrongState { id, have, want })
        }
    }
}
