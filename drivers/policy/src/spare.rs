// SPDX-License-Identifier: GPL-2.0
//! Which neighbour keeps a chunk: the choice of a GPU with spare memory.
//!
//! The memory manager lends one row of facts per GPU, by GPU number, as seen from one borrower, and one [`SpareCursor`]
//! per borrower or per machine. [`SpareCursor::choose`] names the GPU and says what to take there. It looks at each row
//! once, sixteen at most.
//!
//! A GPU is asked if it lends, is reached over a fast link, and either has a free chunk beyond what it keeps for itself
//! and has not reached its limit, or, for an eviction only, keeps a lent chunk that the host has a copy of: such a chunk
//! is dropped and overwritten. Free chunks anywhere go before removable ones. So an eviction finds room that prefetch
//! filled, and never the other way round; while evictions wait, prefetch gets nothing. (A block that only passes through on
//! its way to the borrower is no such prefetch: it may have a removable chunk's place while no eviction waits; see
//! [`path`](crate::path).)
//!
//! **The order** among those GPUs is a [`SpareSelect`]. Round robin is the HUVM paper's. Whatever the order, equals are
//! taken in turn, so that a machine of equal neighbours is filled evenly.
//!
//! **The hard case** is stale facts: a row is read without its GPU's lock, and the chunk may be gone when it is asked
//! for. The caller then clears the row's `free` (or `removable`) and asks again: at most two rounds per GPU.
//!
//! Rejected: a list of GPUs ordered by spare memory, to be kept current by every allocation of every GPU; sixteen
//! comparisons cost less than one list operation under a foreign lock.

use crate::config::{KnobId, Policy};
use crate::pace::Pace;
use crate::pre_evict::share_of;
use crate::types::{GpuId, BLOCK_BYTES};

/// GPUs that are looked at. Rows beyond are ignored.
pub const SPARE_GPUS_MAX: usize = 16;

/// A link as a policy sees it: how fast it is and how much waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkFacts {
    /// Bandwidth in MB/s (10^6 bytes); 0 for a link that is down or not there.
    pub mb_per_s: u32,
    /// Chunk-sized copies that run on it or wait for it.
    pub queued: u32,
}

impl LinkFacts {
    /// No link.
    pub const DOWN: Self = Self {
        mb_per_s: 0,
        queued: 0,
    };

    /// True if anything can be sent over it.
    pub const fn is_up(self) -> bool {
        self.mb_per_s != 0
    }

    /// Nanoseconds until one more chunk has crossed the link, if the ones before it are served first; `None` over a link
    /// that is down.
    pub const fn chunk_ns(self) -> Option<u64> {
        // Below 2^21 * 10^3 * 2^32, which is 2^63.
        let work = (self.queued as u64)
            .saturating_add(1)
            .saturating_mul(BLOCK_BYTES * 1_000);
        work.checked_div(self.mb_per_s as u64)
    }
}

/// One GPU as a possible lender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpareFacts {
    /// The GPU lends (knob `harvest_lend`) and is in working order.
    pub lends: bool,
    /// Free chunks.
    pub free: u32,
    /// Of those, how many it keeps for itself (knob `lend_reserve_chunks`, made smaller for small memories).
    pub keep: u32,
    /// Chunks lent whose contents the host has too: [`ChunkState::LentRemovable`](crate::chunk::ChunkState). 0 for a borrower
    /// that replaces none (knob `spare_replace`).
    pub removable: u32,
    /// Chunks lent in all, to any borrower.
    pub lent: u32,
    /// Chunks it lends at most, see [`LendConfig`].
    pub limit: u32,
    /// Link between the borrower and this GPU.
    pub link: LinkFacts,
}

impl SpareFacts {
    /// Free chunks that it would lend now.
    pub const fn lendable(&self) -> u32 {
        if self.lends {
            lendable(self.free, self.keep, self.lent, self.limit)
        } else {
            0
        }
    }

    /// Lent chunks that another block may have now. None while more is lent than the limit allows, or less free than the
    /// GPU keeps for itself: what is too much is to come back.
    pub const fn replaceable(&self) -> u32 {
        if self.lends && self.lent <= self.limit && self.free >= self.keep {
            self.removable
        } else {
            0
        }
    }

    /// Whether a chunk could be had there, free or in another block's place.
    pub const fn has_room(&self) -> bool {
        self.lendable() != 0 || self.replaceable() != 0
    }
}

/// How the GPU is chosen among those that have room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum SpareSelect {
    /// Each in turn: the HUVM paper's.
    #[default]
    RoundRobin = 0,
    /// The one with the most chunks to take.
    MostSpare = 1,
    /// The one whose link would have carried one more chunk first.
    LeastBusyLink = 2,
}

impl SpareSelect {
    /// The selection with this number (the value of the `spare_select` knob).
    pub const fn from_u64(value: u64) -> Option<Self> {
        match value {
            0 => Some(Self::RoundRobin),
            1 => Some(Self::MostSpare),
            2 => Some(Self::LeastBusyLink),
            _ => None,
        }
    }

    /// As a policy has it.
    pub fn of(policy: &Policy) -> Self {
        Self::from_u64(policy.get(KnobId::SpareSelect)).unwrap_or_default()
    }

    /// True if `a` is strictly better than `b`; each with the number of chunks to take there.
    fn prefers(self, a: (&SpareFacts, u32), b: (&SpareFacts, u32)) -> bool {
        match self {
            Self::RoundRobin => false,
            Self::MostSpare => a.1 > b.1,
            // Both links are up, so both times are there.
            Self::LeastBusyLink => a.0.link.chunk_ns() < b.0.link.chunk_ns(),
        }
    }
}

/// Whether an eviction that finds no spare memory free has the place of a chunk there that the host has too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum SpareReplace {
    /// Never, and a block on its way to the borrower has none either.
    Off = 0,
    /// While more than [`OWN_LINK`] evictions wait for the borrower's own link.
    #[default]
    WhenBusy = 1,
    /// Always.
    Always = 2,
}

/// Evictions that wait for a GPU's own link before others go into the place of what a lender keeps: one that is copied, one
/// ready. Fewer would take spare memory from blocks that are fetched by it, more would let the neighbour's link stand still.
pub const OWN_LINK: u32 = 2;

impl SpareReplace {
    /// The rule with this number (the value of the `spare_replace` knob).
    pub const fn from_u64(value: u64) -> Option<Self> {
        match value {
            0 => Some(Self::Off),
            1 => Some(Self::WhenBusy),
            2 => Some(Self::Always),
            _ => None,
        }
    }

    /// As a policy has it.
    pub fn of(policy: &Policy) -> Self {
        Self::from_u64(policy.get(KnobId::SpareReplace)).unwrap_or_default()
    }

    /// Whether anything is ever replaced.
    pub const fn is_on(self) -> bool {
        !matches!(self, Self::Off)
    }

    /// Whether an eviction may replace a chunk now. `own_link_queue`: copies to the host that run on the borrower's own
    /// link or wait for it.
    pub const fn allows(self, own_link_queue: u32) -> bool {
        match self {
            Self::Off => false,
            Self::WhenBusy => own_link_queue > OWN_LINK,
            Self::Always => true,
        }
    }
}

/// What spare memory is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpareUse {
    /// A chunk evicted from the borrower.
    Evict,
    /// Pages fetched ahead from the host.
    Prefetch {
        /// Evictions wait for spare memory: the prefetch gets none.
        evictions_wait: bool,
    },
}

/// One request for spare memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpareRequest {
    /// The GPU that wants it, which is never chosen.
    pub borrower: GpuId,
    /// What for.
    pub purpose: SpareUse,
    /// Slowest link, in MB/s, that is fast enough: a neighbour no faster than the borrower's own host link is no help.
    pub min_mb_per_s: u32,
    /// How to choose.
    pub select: SpareSelect,
}

/// What to take at the chosen GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpareFrom {
    /// A free chunk.
    Free,
    /// Its oldest removable chunk, whose contents are dropped: the host has them.
    Removable,
}

/// The answer: where a chunk goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spare {
    /// The lending GPU.
    pub gpu: GpuId,
    /// What to take there.
    pub from: SpareFrom,
}

/// Where the next round of [`SpareCursor::choose`] begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpareCursor {
    next: u8,
}

impl SpareCursor {
    /// Begins at GPU 0.
    pub const fn new() -> Self {
        Self { next: 0 }
    }

    /// The GPU that keeps the chunk; `None` if none has room for it. `gpus[i]` is GPU i. The cursor moves past the GPU
    /// chosen, and stays if there is none.
    pub fn choose(&mut self, gpus: &[SpareFacts], request: &SpareRequest) -> Option<Spare> {
        let found = match request.purpose {
            SpareUse::Prefetch {
                evictions_wait: true,
            } => None,
            SpareUse::Prefetch { .. } => self.best(gpus, request, SpareFrom::Free),
            SpareUse::Evict => self
                .best(gpus, request, SpareFrom::Free)
                .or_else(|| self.best(gpus, request, SpareFrom::Removable)),
        };
        if let Some(spare) = found {
            // At most 16; the next round takes the remainder.
            self.next = spare.gpu.get().saturating_add(1);
        }
        found
    }

    /// The best GPU that has what `from` says.
    fn best(&self, gpus: &[SpareFacts], request: &SpareRequest, from: SpareFrom) -> Option<Spare> {
        let gpus = gpus.get(..SPARE_GPUS_MAX).unwrap_or(gpus);
        let start = usize::from(self.next).checked_rem(gpus.len())?;
        let mut best: Option<(usize, &SpareFacts, u32)> = None;
        let turn = gpus.iter().enumerate().cycle().skip(start);
        for (i, facts) in turn.take(gpus.len()) {
            let chunks = match from {
                SpareFrom::Free => facts.lendable(),
                SpareFrom::Removable => facts.replaceable(),
            };
            let fast = facts.link.is_up() && facts.link.mb_per_s >= request.min_mb_per_s;
            if chunks == 0 || !fast || i == request.borrower.as_usize() {
                continue;
            }
            if best.is_none_or(|(_, f, n)| request.select.prefers((facts, chunks), (f, n))) {
                best = Some((i, facts, chunks));
            }
        }
        let gpu = GpuId::new(u8::try_from(best?.0).ok()?)?;
        Some(Spare { gpu, from })
    }
}

/// Chunks that a lender has ready for borrowers before it leaves some for later: as many as one has on their way over it and
/// for evictions at once.
pub const READY: u32 = 8;

/// What a GPU's own policy says about lending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LendConfig {
    /// It lends at all.
    pub enabled: bool,
    /// Free chunks that it keeps for itself: [`SpareFacts::keep`].
    pub keep: u32,
    /// Chunks that it lends at most: [`SpareFacts::limit`].
    pub limit: u32,
    /// Lent chunks are copied to the host in the background.
    pub write_back: bool,
    /// So many at once.
    pub write_back_max: u32,
    /// Those that a stream comes to within so many blocks later.
    pub write_back_skip: u32,
    /// How fast chunks come in while it works for itself.
    pub pace: Pace,
}

impl LendConfig {
    /// As the lending GPU's policy has it, for its `chunks` chunks.
    pub fn of(policy: &Policy, chunks: u32) -> Self {
        let share = share_of(chunks, policy.get_u32(KnobId::PreEvictShare));
        Self {
            enabled: policy.is_on(KnobId::HarvestLend),
            keep: policy.get_u32(KnobId::LendReserve).min(share),
            limit: lend_limit(
                chunks,
                policy.get_u32(KnobId::LendLimitPercent),
                policy.get(KnobId::LendLimitSize),
            ),
            write_back: policy.is_on(KnobId::WriteBack),
            write_back_max: policy.get_u32(KnobId::WriteBackInFlight),
            write_back_skip: policy.get_u32(KnobId::WriteBackSkip),
            pace: Pace::of(policy),
        }
    }

    /// How near a stream must be to a lent chunk that is not written back yet, with `free` chunks free, `only` lent and nowhere
    /// else, and `removable` lent and on the host too. With fewer than [`READY`] to give, all are written back in order: a
    /// borrower that gets nothing here goes to the host over its own link alone.
    pub const fn skips(&self, free: u32, only: u32, removable: u32) -> u32 {
        let lent = only.saturating_add(removable);
        if self.lendable(free, lent).saturating_add(removable) < READY {
            0
        } else {
            self.write_back_skip
        }
    }

    /// Chunks that it would lend now, with `free` free and `lent` lent.
    pub const fn lendable(&self, free: u32, lent: u32) -> u32 {
        if self.enabled {
            lendable(free, self.keep, lent, self.limit)
        } else {
            0
        }
    }
}

/// Free chunks beyond those that are kept, as far as the limit allows.
const fn lendable(free: u32, keep: u32, lent: u32, limit: u32) -> u32 {
    let beyond = free.saturating_sub(keep);
    let room = limit.saturating_sub(lent);
    if beyond < room {
        beyond
    } else {
        room
    }
}

/// Chunks that a GPU of `chunks` chunks lends at most, by its knobs: `percent` of them, and no more than `mib` MiB
/// unless that is zero. Part of a chunk is not lent.
pub const fn lend_limit(chunks: u32, percent: u32, mib: u64) -> u32 {
    let percent = if percent < 100 { percent } else { 100 };
    // CAST: widening, then back: not more than `chunks`.
    let share = (chunks as u64 * percent as u64 / 100) as u32;
    let by_size = mib / (BLOCK_BYTES >> 20);
    if mib == 0 || by_size >= share as u64 {
        share
    } else {
        // CAST: below `share`.
        by_size as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_the_smaller_of_share_and_size() {
        assert_eq!(lend_limit(8192, 100, 0), 8192);
        assert_eq!(lend_limit(8192, 25, 0), 2048);
        assert_eq!(lend_limit(8192, 100, 101), 50);
        assert_eq!(lend_limit(8192, 25, 1 << 40), 2048);
        assert_eq!(lend_limit(8192, 0, 64), 0);
        assert_eq!(lend_limit(8192, 100, 1), 0);
        assert_eq!(lend_limit(3, 50, 0), 1);
        assert_eq!(lend_limit(u32::MAX, 900, u64::MAX), u32::MAX);
    }

    #[test]
    fn a_small_memory_keeps_less_for_itself() {
        let mut p = Policy::new();
        let c = LendConfig::of(&p, 8192);
        assert_eq!((c.enabled, c.keep, c.limit), (false, 50, 8192));
        assert_eq!((c.write_back, c.write_back_max), (true, 2));
        p.set(KnobId::HarvestLend, 1).unwrap();
        p.set(KnobId::LendLimitPercent, 50).unwrap();
        p.set(KnobId::WriteBack, 0).unwrap();
        let c = LendConfig::of(&p, 64);
        assert_eq!((c.enabled, c.keep, c.limit), (true, 3, 32));
        assert!(!c.write_back);
        p.set(KnobId::LendLimitSize, 10).unwrap();
        assert_eq!(LendConfig::of(&p, 64).limit, 5);
        p.set(KnobId::LendReserve, 0).unwrap();
        assert_eq!(LendConfig::of(&p, 64).keep, 0);
        p.set(KnobId::LendRate, 20_000).unwrap();
        assert_eq!(LendConfig::of(&p, 64).pace, Pace::of(&p));
    }

    #[test]
    fn what_is_kept_or_over_the_limit_is_not_lent() {
        let c = LendConfig {
            enabled: true,
            keep: 3,
            limit: 5,
            write_back: true,
            write_back_max: 2,
            write_back_skip: 0,
            pace: Pace::NONE,
        };
        assert_eq!((c.lendable(3, 0), c.lendable(4, 0)), (0, 1));
        assert_eq!((c.lendable(99, 4), c.lendable(99, 5)), (1, 0));
        assert_eq!((c.lendable(0, 0), c.lendable(99, 6)), (0, 0));
        assert_eq!(c.lendable(u32::MAX, 0), 5);
        let off = LendConfig {
            enabled: false,
            ..c
        };
        assert_eq!(off.lendable(99, 0), 0);
        // The row that a borrower looks at says the same.
        for (free, lent) in [(3, 0), (4, 0), (99, 4), (99, 5), (0, 9)] {
            let f = SpareFacts {
                lends: true,
                free,
                keep: c.keep,
                lent,
                limit: c.limit,
                ..SpareFacts::default()
            };
            assert_eq!(f.lendable(), c.lendable(free, lent));
        }
    }

    #[test]
    fn with_nothing_to_give_all_is_written_back_in_order() {
        let c = LendConfig {
            enabled: true,
            keep: 3,
            limit: 40,
            write_back: true,
            write_back_max: 2,
            write_back_skip: 16,
            pace: Pace::NONE,
        };
        // Free beyond what it keeps, then what the host has too, then both; each one too few.
        for (free, only, removable) in [(3 + READY, 0, 0), (3, 9, READY), (4, 9, READY - 1)] {
            assert_eq!(c.skips(free, only, removable), 16);
        }
        for (free, only, removable) in [(2 + READY, 0, 0), (3, 9, READY - 1), (99, 40, 0)] {
            assert_eq!(c.skips(free, only, removable), 0);
        }
        let in_order = LendConfig {
            write_back_skip: 0,
            ..c
        };
        assert_eq!(in_order.skips(99, 0, 0), 0);
    }

    #[test]
    fn selections_have_the_numbers_of_the_knob() {
        let all = [
            SpareSelect::RoundRobin,
            SpareSelect::MostSpare,
            SpareSelect::LeastBusyLink,
        ];
        let knob = KnobId::SpareSelect.knob();
        assert_eq!(knob.max - knob.min + 1, all.len() as u64);
        for s in all {
            assert_eq!(SpareSelect::from_u64(s as u64), Some(s));
            let mut p = Policy::new();
            p.set(KnobId::SpareSelect, s as u64).unwrap();
            assert_eq!(SpareSelect::of(&p), s);
        }
        assert_eq!(SpareSelect::from_u64(3), None);
    }

    #[test]
    fn rules_of_replacement_have_the_numbers_of_the_knob() {
        let all = [
            SpareReplace::Off,
            SpareReplace::WhenBusy,
            SpareReplace::Always,
        ];
        let knob = KnobId::SpareReplace.knob();
        assert_eq!(knob.max - knob.min + 1, all.len() as u64);
        for r in all {
            assert_eq!(SpareReplace::from_u64(r as u64), Some(r));
            let mut p = Policy::new();
            p.set(KnobId::SpareReplace, r as u64).unwrap();
            assert_eq!(SpareReplace::of(&p), r);
            assert_eq!(r.is_on(), p.is_on(KnobId::SpareReplace));
        }
        assert_eq!(SpareReplace::from_u64(3), None);
        assert_eq!(SpareReplace::of(&Policy::new()), SpareReplace::default());
    }

    #[test]
    fn an_eviction_replaces_when_its_own_link_is_busy() {
        // One is copied and one is ready; the third would wait.
        let may = |r: SpareReplace| [0, 1, 2, 3, u32::MAX].map(|queue| r.allows(queue));
        assert_eq!(may(SpareReplace::Off), [false; 5]);
        assert_eq!(
            may(SpareReplace::WhenBusy),
            [false, false, false, true, true]
        );
        assert_eq!(may(SpareReplace::Always), [true; 5]);
    }

    #[test]
    fn a_chunk_takes_its_bytes_over_the_bandwidth() {
        let mut link = LinkFacts {
            mb_per_s: 12_300,
            queued: 0,
        };
        // 2 MiB at 12.3 GB/s.
        assert_eq!(link.chunk_ns(), Some(170_500));
        link.queued = 3;
        assert_eq!(link.chunk_ns(), Some(682_000));
        assert_eq!(LinkFacts::DOWN.chunk_ns(), None);
        link = LinkFacts {
            mb_per_s: 1,
            queued: u32::MAX,
        };
        assert_eq!(link.chunk_ns(), Some((1 << 32) * (1 << 21) * 1_000));
    }
}
