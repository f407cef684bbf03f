// SPDX-License-Identifier: GPL-2.0
//! Whether what is evicted comes back: the switch of [`VictimOrder::Adaptive`].
//!
//! A job that goes over more than the memory holds, again and again, never finds under least-recently-migrated what it needs
//! next: each chunk leaves just before its turn. Then the best is to keep a part and to let the rest pass
//! ([`VictimOrder::Recent`]), which comes close to Belady's optimum. A job whose data fits, phase by phase, wants the
//! opposite: the old phase has to go. A driver sees faults, not accesses, so it tells the two apart by what faults bring in:
//! chunks that were evicted not long ago (*refaults*), or others.
//!
//! Each GPU counts its evictions, and a block keeps the number of its last one ([`Refaults::evicted`]). Over a window of
//! chunks brought in, a majority of refaults turns the switch on; over a shorter one, a minority turns it off, as a phase
//! that is over should be forgotten quickly. No list of ghosts, nothing to search: 8 bytes a block.
//!
//! **The hard case** is a phase that fits, and returns: while it is loaded, it looks like a cycle. A window of twice the memory
//! (`evict_window_percent` 200) does not take it for one, as it is loaded by then; but it lets a cycle miss everything twice
//! more. The default, a quarter, is for cycles; tests/evict_order.rs has both in figures.
//!
//! **What is wanted at once.** A job that touches a little more than the memory, anywhere in it, wants back what was evicted just now, whatever
//! that was. Then any victim is as good as another of which no more is known, but one that pages are filled into just now costs most, and that is what
//! [`VictimOrder::Recent`] takes; and what is evicted ahead is evicted in vain. So once most of what is brought in left no more
//! evictions ago than pre-eviction is ahead by, victims are chosen by chance ([`Refaults::is_near`]), and pre-eviction holds off.
//! (RA at 72 chunks, a table as large as the memory and an input that goes by, under stock-595: 1293 evictions, and 4741 with
//! pre-eviction.) A cycle that almost fits looks the same, but what streams fetch ahead was not wanted yet, and does not count; where they
//! do not see it, it misses no more by chance than through a guard.
//!
//! Rejected: to unmap old chunks and see whether they fault, which tells phases from cycles. Simulated, it cost
//! forward-backward patterns more than it gained on phases.

use crate::chunk::{ChunkError, ChunkTable};
use crate::config::{KnobId, Policy};
use crate::evict::VictimOrder;
use crate::pre_evict::PreEvictConfig;
use crate::reuse::Reuse;
use crate::stream::StreamConfig;
use crate::types::ChunkId;

/// Evictions, in memories, within which a chunk that comes back counts as a refault. A cycle of so many times the memory is
/// still seen; there is hardly anything to gain beyond.
const SPAN_MEMORIES: u64 = 8;
/// The window that turns the switch off is shorter by this.
const OFF_SHORTER: u32 = 4;
/// [`Refaults::is_near`] is over once so much of what is brought in, or less, was wanted at once.
const NEAR_OVER_PART: u32 = 4;
/// The guard takes no more than this part of the memory, whatever was fetched ahead.
const GUARD_PART: u32 = 2;
/// Of [`VictimOrder::Adaptive`], beside what was fetched ahead, no more than this part: on a small memory most of it shall be left
/// to keep.
const LEAST_PART: u32 = 8;
/// With fewer chunks than that, [`VictimOrder::Adaptive`] adapts only if the knob's guard is this part of them or less: too little
/// would be left to keep.
const ADAPT_CHUNKS: u32 = 48;
const ADAPT_PART: u32 = 4;

/// Parts of a chunk in which the guard's width is kept.
const PARTS: u32 = 256;
/// What a chunk that comes back too soon adds to it, as a part of the widest; but half a chunk at least: a small memory has too few of
/// them in a pass to find its width otherwise. (Stencils, srad, lavaMD and MobileNet at 1.25, 1.5 and 2 times 87, 72 and 54 chunks, sums over the seven: 100, 147 and 224 ms
/// without that, 110, 128 and 200 with it, 114, 127 and 204 with a whole chunk.)
const WIDER_PART: u32 = 352;
const WIDER_LEAST: u32 = PARTS / 2;
/// A distance counts for so much of the mean of those that are not short.
const CYCLE_PART: u64 = 16;

/// A GPU's memory, as far as the order of eviction hangs on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Chunks that can be used.
    pub chunks: u32,
    /// Of these, fetched ahead and not used yet, as far as one knows.
    pub ahead: u32,
    /// Blocks that the GPU's threads fault on at a time: what it needs at once. A guard that holds fewer gives them up before they
    /// are used.
    pub front: u32,
}

/// How victims are chosen on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvictConfig {
    /// The order.
    pub order: VictimOrder,
    /// Youngest chunks that [`VictimOrder::Recent`] leaves alone, at least.
    pub guard: u32,
    /// And at most, see [`Refaults::guard`]. No less than `guard`.
    pub guard_max: u32,
    /// Chunks brought in, over which refaults are counted. At least 1.
    pub window: u32,
    /// Evictions within which a chunk that comes back is a refault.
    pub span: u64,
    /// Evictions within which a chunk that comes back was wanted at once ([`Refaults::is_near`]).
    pub near: u64,
    /// What comes back within this part of a cycle is kept, percent ([`Return::is_soon`]).
    pub soon_percent: u32,
    /// How soon a chunk comes back is learned ([`Return::reuse`]).
    pub by_reuse: bool,
}

/// How a chunk left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// The number of its eviction.
    pub number: u64,
    /// What was known of how soon it comes back.
    pub reuse: Reuse,
}

/// What a chunk that is brought in says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Return {
    /// It was evicted not long ago.
    pub is_refault: bool,
    /// It was evicted so short a time ago that it is wanted several times while the job goes over its data once, as the ranks of a
    /// graph's hubs are: worth more than one of those that are kept.
    pub is_soon: bool,
    /// How soon it comes back, beside others. Unknown if it is not learned, or never left.
    pub reuse: Reuse,
}

impl Return {
    /// Tells it of chunk `id`, which was brought in.
    ///
    /// # Errors
    /// If there is no such chunk.
    pub fn tell(&self, table: &mut ChunkTable<'_>, id: ChunkId) -> Result<(), ChunkError> {
        table.set_reuse(id, self.reuse)?;
        if self.is_soon {
            table.keep(id)?;
        }
        Ok(())
    }
}

impl EvictConfig {
    /// As a policy has it, for a GPU's memory as it is.
    pub fn of(policy: &Policy, memory: &Memory) -> Self {
        let &Memory {
            chunks,
            ahead,
            front,
        } = memory;
        let order = VictimOrder::from_u64(policy.get(KnobId::EvictOrder)).unwrap_or_default();
        // What streams fetched ahead must not pass through the guard before it is used. Of what they left there behind them, or
        // went astray with, nobody knows: no more is believed than they may have ahead.
        let ahead = ahead.min(StreamConfig::of(policy).on(chunks).ahead_max());
        let mut least = policy.get_u32(KnobId::EvictGuardChunks);
        let order = match order {
            VictimOrder::Adaptive => {
                let small = chunks < ADAPT_CHUNKS && least > chunks.div_ceil(ADAPT_PART);
                least = least.min(chunks / LEAST_PART).max(front);
                if small || least > chunks / GUARD_PART {
                    VictimOrder::LeastRecentlyMigrated
                } else {
                    VictimOrder::Adaptive
                }
            }
            order => order,
        };
        let widest = chunks / GUARD_PART;
        let guard = match order {
            VictimOrder::Recent | VictimOrder::Adaptive => least.saturating_add(ahead).min(widest),
            _ => 0,
        };
        let adapts = order == VictimOrder::Adaptive;
        let fits = adapts && policy.is_on(KnobId::EvictGuardFit);
        let soon = policy.get_u32(KnobId::EvictKeepSoon);
        let percent = policy.get(KnobId::EvictWindowPercent);
        let window = u64::from(chunks).saturating_mul(percent) / 100;
        Self {
            order,
            guard,
            guard_max: if fits { widest } else { guard },
            window: u32::try_from(window).unwrap_or(u32::MAX).max(1),
            span: u64::from(chunks).saturating_mul(SPAN_MEMORIES),
            near: PreEvictConfig::of(policy, chunks).ahead_max().into(),
            soon_percent: if adapts { soon } else { 0 },
            by_reuse: adapts && policy.is_on(KnobId::EvictByReuse),
        }
    }

    /// Least recently migrated.
    pub const LRM: Self = Self {
        order: VictimOrder::LeastRecentlyMigrated,
        guard: 0,
        guard_max: 0,
        window: 1,
        span: 0,
        near: 0,
        soon_percent: 0,
        by_reuse: false,
    };
}

/// Of the chunks brought in since it began, those of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Window {
    seen: u32,
    of_kind: u32,
}

impl Window {
    const fn new() -> Self {
        Self {
            seen: 0,
            of_kind: 0,
        }
    }

    /// Counts a chunk. With the last of `length` it begins anew, and says whether more than one in `part` was of the kind.
    fn note(&mut self, is_of_kind: bool, length: u32, part: u32) -> Option<bool> {
        self.seen = self.seen.saturating_add(1);
        self.of_kind = self.of_kind.saturating_add(is_of_kind.into());
        if self.seen < length {
            return None;
        }
        let Self { seen, of_kind } = core::mem::take(self);
        Some(of_kind > seen.checked_div(part).unwrap_or(0))
    }
}

/// The switch of one GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refaults {
    /// Evictions so far.
    evicted: u64,
    /// Chunks brought in so far that had been evicted.
    returned: u64,
    /// Of what is brought in, the refaults.
    again: Window,
    /// What is evicted comes back.
    cyclic: bool,
    /// Of what is brought in, what was wanted at once.
    at_once: Window,
    /// What is evicted is wanted at once.
    near: bool,
    /// By how much the guard is wider than asked for, in parts of a chunk.
    wider: u32,
    /// Evictions until a chunk comes back that is not needed at once, on the average, times [`CYCLE_PART`]; 0: not known.
    cycle: u64,
    /// Cycles so far: so old is what is known of how soon a chunk comes back. Goes on at 0 behind [`u16::MAX`]. And the eviction that the
    /// last one began with.
    cycles: u16,
    began: u64,
}

impl Refaults {
    /// Nothing evicted yet.
    pub const fn new() -> Self {
        Self {
            evicted: 0,
            returned: 0,
            again: Window::new(),
            cyclic: false,
            at_once: Window::new(),
            near: false,
            wider: 0,
            cycle: 0,
            cycles: 0,
            began: 0,
        }
    }

    /// A chunk was evicted. Its block keeps the number, for [`Self::brought_in`].
    pub fn evicted(&mut self) -> u64 {
        self.evicted = self.evicted.wrapping_add(1);
        let cycle = self.cycle();
        if cycle != 0 && self.evicted.wrapping_sub(self.began) >= cycle {
            (self.cycles, self.began) = (self.cycles.wrapping_add(1), self.evicted);
        }
        self.evicted
    }

    /// A chunk was brought in, for a block that had been evicted from this GPU, if it was (`left`);
    /// `by_fault`: a GPU waits for it. Under another order than [`VictimOrder::Adaptive`] the switch stays as it is: jobs of both may share a GPU.
    /// Only that something is wanted at once ends under any: pre-eviction holds off for it, whatever the order.
    pub fn brought_in(
        &mut self,
        left: Option<Left>,
        by_fault: bool,
        config: &EvictConfig,
    ) -> Return {
        self.returned = self.returned.wrapping_add(u64::from(left.is_some()));
        let distance = left.map(|l| self.evicted.wrapping_sub(l.number));
        let refault = distance.is_some_and(|d| d < config.span);
        let mut back = Return {
            is_refault: refault,
            is_soon: false,
            // Whoever does not learn it for a moment leaves what was learned.
            reuse: left.map_or(Reuse::UNKNOWN, |l| l.reuse),
        };
        let adapts = config.order == VictimOrder::Adaptive;
        if adapts || self.near {
            let near = by_fault && distance.is_some_and(|d| d <= config.near);
            let part = if self.near { NEAR_OVER_PART } else { 2 };
            let at_once = self.at_once.note(near, config.window, part);
            self.near = at_once.unwrap_or(self.near);
        }
        if !adapts {
            return back;
        }
        if let (Some(left), Some(distance)) = (left, distance) {
            self.note_cycle(distance, config);
            let known = if config.by_reuse {
                left.reuse
            } else {
                Reuse::UNKNOWN
            };
            let reuse = known.comes_back(distance, self.cycle());
            back.reuse = if config.by_reuse {
                reuse
            } else {
                Reuse::UNKNOWN
            };
            if self.cyclic {
                self.fit_guard(distance, config);
                back.is_soon = reuse.is_within(config.soon_percent);
            }
        }
        let window = if self.cyclic {
            (config.window / OFF_SHORTER).max(1)
        } else {
            config.window
        };
        self.cyclic = self.again.note(refault, window, 2).unwrap_or(self.cyclic);
        back
    }

    /// Evictions of a cycle, on the average; 0: not known.
    const fn cycle(&self) -> u64 {
        self.cycle / CYCLE_PART
    }

    /// Whether what is evicted is wanted at once: by chance is as good as any order then, and ahead of need is in vain.
    pub const fn is_near(&self) -> bool {
        self.near
    }

    /// Youngest chunks to leave alone now.
    ///
    /// What the GPU needs at a time is told by what comes back: a chunk that returns after fewer evictions than the guard has
    /// chunks (a *short* return) was pushed through it too soon, and would be there with a guard twice as wide. But each chunk of
    /// the guard is one that is not kept, and misses once in a cycle. So in a cycle of `c` evictions a guard of `g` chunks more
    /// pays if more than `g` returns are short, of `c`: a short one widens the guard by a step, and each return narrows it by
    /// `g / c` of one. (The balance of ARC, Megiddo and Modha, FAST'03: there a hit in either of two lists of ghosts, here a
    /// distance.)
    pub fn guard(&self, config: &EvictConfig) -> u32 {
        let wider = self.wider / PARTS;
        config.guard.saturating_add(wider).min(config.guard_max)
    }

    /// A chunk came back after `distance` evictions.
    fn note_cycle(&mut self, distance: u64, config: &EvictConfig) {
        if distance <= self.guard(config).into() {
            return;
        }
        let distance = distance.min(config.span);
        self.cycle = match self.cycle() {
            0 => distance.saturating_mul(CYCLE_PART),
            known => self.cycle.saturating_sub(known).saturating_add(distance),
        };
    }

    fn fit_guard(&mut self, distance: u64, config: &EvictConfig) {
        let guard = self.guard(config);
        let short = distance <= guard.into();
        let widest = config.guard_max.saturating_mul(PARTS);
        let step = (widest / WIDER_PART).max(WIDER_LEAST);
        let wider = self.wider.saturating_add(if short { step } else { 0 });
        let less = u64::from(step).saturating_mul(guard.into());
        // As long as nobody knows: what the memory holds.
        let cycle = match self.cycle() {
            0 => config.span / SPAN_MEMORIES,
            known => known,
        };
        // Never more than a step, which is 32 bits.
        let less = less / cycle.max(guard.into()).max(1);
        let wider = wider.saturating_sub(u32::try_from(less).unwrap_or(step));
        let asked = config.guard.saturating_mul(PARTS);
        self.wider = wider.min(widest.saturating_sub(asked));
    }

    /// Chunks brought in so far that had been evicted, however long ago.
    pub const fn returned(&self) -> u64 {
        self.returned
    }

    /// Prepares `table` for the choice of a victim, in the order that this returns.
    pub fn steer(&self, table: &mut ChunkTable<'_>, config: &EvictConfig) -> VictimOrder {
        let order = self.order(config);
        table.steer(self.guard(config), order == VictimOrder::Recent);
        table.set_cycle(self.cycles);
        order
    }

    /// The order now.
    pub fn order(&self, config: &EvictConfig) -> VictimOrder {
        match config.order {
            VictimOrder::Adaptive if self.near => VictimOrder::Random,
            VictimOrder::Adaptive if self.cyclic => VictimOrder::Recent,
            VictimOrder::Adaptive => VictimOrder::LeastRecentlyMigrated,
            fixed => fixed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Refaults {
        /// What left with this number, of which nothing else is known, is brought in.
        fn comes(&mut self, left: Option<u64>, by_fault: bool, config: &EvictConfig) -> Return {
            let left = left.map(|number| Left {
                number,
                reuse: Reuse::UNKNOWN,
            });
            self.brought_in(left, by_fault, config)
        }
    }

    fn config(window: u32, span: u64) -> EvictConfig {
        EvictConfig {
            order: VictimOrder::Adaptive,
            guard: 4,
            guard_max: 4,
            window,
            span,
            near: 0,
            soon_percent: 25,
            by_reuse: false,
        }
    }

    #[test]
    fn a_majority_of_refaults_turns_it_on_and_a_minority_off_sooner() {
        let (mut r, c) = (Refaults::new(), config(8, 100));
        let left = Some(r.evicted());
        for _ in 0..4 {
            assert!(!r.comes(None, false, &c).is_refault);
            assert!(r.comes(left, false, &c).is_refault);
        }
        // Half is no majority.
        assert_eq!(r.order(&c), VictimOrder::LeastRecentlyMigrated);
        for n in 0..8 {
            r.comes(left.filter(|_| n >= 3), false, &c);
        }
        assert_eq!(r.order(&c), VictimOrder::Recent);
        r.comes(None, false, &c);
        assert_eq!(r.order(&c), VictimOrder::Recent);
        r.comes(left, false, &c);
        assert_eq!(r.order(&c), VictimOrder::LeastRecentlyMigrated);
    }

    /// Brings in `n` chunks that left `distance` evictions ago, in a cycle.
    fn come_back(r: &mut Refaults, c: &EvictConfig, distance: u64, n: u32) {
        r.evicted = r.evicted.max(10_000);
        r.cyclic = true;
        for _ in 0..n {
            r.evicted();
            r.comes(Some(r.evicted - distance), false, c);
        }
    }

    fn fits() -> EvictConfig {
        EvictConfig {
            guard: 10,
            guard_max: 100,
            ..config(1 << 30, 5000)
        }
    }

    /// Catches cycles that are counted before anybody knows what one is, one that is counted with each eviction, and none.
    #[test]
    fn cycles_are_counted_by_what_comes_back() {
        let (mut r, c) = (Refaults::new(), fits());
        for _ in 0..1000 {
            r.evicted();
        }
        assert_eq!(r.cycles, 0);
        let left = Some(r.evicted - 400);
        r.comes(left, false, &c);
        let counted: std::vec::Vec<u16> = (0..4)
            .map(|_| {
                for _ in 0..400 {
                    r.evicted();
                }
                r.cycles
            })
            .collect();
        assert_eq!(counted, [1, 2, 3, 4]);
        r.cycles = u16::MAX;
        for _ in 0..400 {
            r.evicted();
        }
        assert_eq!(r.cycles, 0);
    }

    /// Catches a mean that only falls, as each remainder is dropped: what is usual looks late then.
    #[test]
    fn the_length_of_a_cycle_is_a_mean() {
        let (mut r, c) = (Refaults::new(), fits());
        for _ in 0..200 {
            come_back(&mut r, &c, 30, 1);
            come_back(&mut r, &c, 44, 1);
        }
        assert!((36..=38).contains(&r.cycle()), "{}", r.cycle());
    }

    /// Catches what was learned of a block that is forgotten as it comes back in a moment of another order.
    #[test]
    fn what_was_learned_outlasts_another_order() {
        let (mut r, mut c) = (Refaults::new(), fits());
        c.by_reuse = true;
        come_back(&mut r, &c, 400, 20);
        let left = |r: &mut Refaults, reuse| {
            let number = r.evicted();
            Some(Left { number, reuse })
        };
        let first = left(&mut r, Reuse::UNKNOWN);
        let known = r.brought_in(first, true, &c).reuse;
        assert_ne!(known, Reuse::UNKNOWN);
        for order in [VictimOrder::Random, VictimOrder::LeastRecentlyMigrated] {
            let again = left(&mut r, known);
            let other = EvictConfig { order, ..c };
            assert_eq!(r.brought_in(again, true, &other).reuse, known);
        }
        // But it is forgotten where it is not to be learned.
        let last = left(&mut r, known);
        c.by_reuse = false;
        assert_eq!(r.brought_in(last, true, &c).reuse, Reuse::UNKNOWN);
    }

    #[test]
    fn what_comes_back_within_a_part_of_a_cycle_is_soon() {
        let (mut r, mut c) = (Refaults::new(), fits());
        let soon = |r: &mut Refaults, c: &EvictConfig, distance| {
            r.evicted();
            r.comes(Some(r.evicted - distance), false, c).is_soon
        };
        // Nobody knows yet what a cycle is.
        r.evicted = 10_000;
        r.cyclic = true;
        assert!(!soon(&mut r, &c, 5));
        come_back(&mut r, &c, 400, 200);
        assert!(soon(&mut r, &c, 5));
        assert!(soon(&mut r, &c, 80));
        assert!(!soon(&mut r, &c, 120));
        c.soon_percent = 0;
        assert!(!soon(&mut r, &c, 0));
        // Nor out of a cycle, nor what never left.
        c.soon_percent = 25;
        assert!(!r.comes(None, false, &c).is_soon);
        r.cyclic = false;
        assert!(!soon(&mut r, &c, 5));
    }

    #[test]
    fn the_guard_widens_while_more_comes_back_at_once_than_it_costs() {
        let (mut r, c) = (Refaults::new(), fits());
        assert_eq!(r.guard(&c), 10);
        // A cycle of 400: nothing is short.
        come_back(&mut r, &c, 400, 200);
        assert_eq!(r.guard(&c), 10);
        assert!((399..=400).contains(&r.cycle()), "{}", r.cycle());
        // A third of what comes back was pushed out too soon: pays up to a guard of a third of the cycle, beyond the widest.
        for _ in 0..2000 {
            come_back(&mut r, &c, 400, 2);
            come_back(&mut r, &c, 5, 1);
        }
        assert_eq!(r.guard(&c), 100);
        // A tenth: pays up to a tenth of the cycle.
        for _ in 0..2000 {
            come_back(&mut r, &c, 400, 9);
            come_back(&mut r, &c, 5, 1);
        }
        let guard = r.guard(&c);
        assert!((30..50).contains(&guard), "{guard}");
        // None any more.
        come_back(&mut r, &c, 400, 20_000);
        assert_eq!(r.guard(&c), 10);
    }

    #[test]
    fn a_guard_that_does_not_fit_itself_stays() {
        let (mut r, mut c) = (Refaults::new(), fits());
        c.guard_max = c.guard;
        come_back(&mut r, &c, 5, 1000);
        assert_eq!(r.guard(&c), 10);
        // What was learned is of the widest that there may be: as soon as it is less, the guard is.
        c.guard_max = 100;
        come_back(&mut r, &c, 5, 1000);
        assert_eq!(r.guard(&c), 100);
        c.guard_max = 40;
        assert_eq!(r.guard(&c), 40);
        // Out of a cycle nothing is learned.
        let mut r = Refaults::new();
        let c = fits();
        for _ in 0..1000 {
            let left = r.evicted();
            r.cyclic = false;
            r.comes(Some(left), false, &c);
        }
        assert_eq!(r.guard(&c), 10);
    }

    #[test]
    fn the_numbers_at_their_ends_are_survived() {
        let c = EvictConfig {
            guard: u32::MAX,
            guard_max: u32::MAX,
            span: u64::MAX,
            ..config(1, 1)
        };
        let mut r = Refaults::new();
        for distance in [0, 1, u64::MAX / 2, u64::MAX] {
            r.cyclic = true;
            r.note_cycle(distance, &c);
            r.fit_guard(distance, &c);
            assert_eq!(r.guard(&c), u32::MAX);
        }
        r.fit_guard(u64::MAX, &EvictConfig::LRM);
        assert_eq!(r.guard(&EvictConfig::LRM), 0);
    }

    #[test]
    fn what_left_long_ago_is_no_refault() {
        let (mut r, c) = (Refaults::new(), config(8, 3));
        let left = Some(r.evicted());
        r.evicted();
        r.evicted();
        assert!(r.comes(left, false, &c).is_refault);
        r.evicted();
        assert!(!r.comes(left, false, &c).is_refault);
    }

    /// Catches a switch that turns at a few, one that goes on for ever, and a window that does not end.
    #[test]
    fn most_of_what_comes_back_at_once_makes_victims_be_chosen_by_chance() {
        let (mut r, mut c) = (Refaults::new(), config(8, 1000));
        c.near = 3;
        r.evicted = 100;
        let bring = |r: &mut Refaults, c: &EvictConfig, near: u32, by_fault| {
            for n in 0..8 {
                r.evicted();
                let distance = if n < near { 3 } else { 4 };
                let left = Some(r.evicted - distance);
                r.comes(left, by_fault, c);
            }
        };
        bring(&mut r, &c, 4, true);
        assert!(!r.is_near());
        assert_eq!(r.order(&c), VictimOrder::Recent);
        bring(&mut r, &c, 8, false);
        assert!(!r.is_near(), "it was foreseen");
        bring(&mut r, &c, 5, true);
        assert!(r.is_near());
        assert_eq!(r.order(&c), VictimOrder::Random);
        assert_eq!(
            r.order(&EvictConfig::LRM),
            VictimOrder::LeastRecentlyMigrated
        );
        bring(&mut r, &c, 3, true);
        assert!(r.is_near());
        bring(&mut r, &c, 2, true);
        assert!(!r.is_near());
        // Where nothing is kept free, what left is never near, but in the same moment.
        c.near = 0;
        bring(&mut r, &c, 8, true);
        assert!(!r.is_near());
    }

    /// Catches pre-eviction that is held off for ever because the order adapts no more, and one that is held off under an order that has
    /// no use for it.
    #[test]
    fn under_any_order_it_ends_that_something_is_wanted_at_once() {
        let mut adapts = config(8, 1000);
        adapts.near = 3;
        let bring = |r: &mut Refaults, c: &EvictConfig, distance| {
            for _ in 0..8 {
                r.evicted();
                r.comes(Some(r.evicted - distance), true, c);
            }
        };
        for order in [VictimOrder::LeastRecentlyMigrated, VictimOrder::Recent] {
            let fixed = EvictConfig { order, ..adapts };
            let mut r = Refaults::new();
            r.evicted = 100;
            bring(&mut r, &fixed, 3);
            assert!(!r.is_near());
            bring(&mut r, &adapts, 3);
            assert!(r.is_near());
            // While it is so, it stays.
            bring(&mut r, &fixed, 3);
            assert!(r.is_near());
            bring(&mut r, &fixed, 4);
            assert!(!r.is_near());
        }
    }

    #[test]
    fn what_is_near_is_what_pre_eviction_is_ahead_by() {
        let mut p = Policy::new();
        let near = |p: &Policy, chunks| {
            let memory = Memory {
                chunks,
                ..Memory::default()
            };
            EvictConfig::of(p, &memory).near
        };
        assert_eq!([8192, 72, 0].map(|n| near(&p, n)), [72, 6, 0]);
        p.set(KnobId::PreEvictHigh, 0).unwrap();
        p.set(KnobId::PreEvictLow, 0).unwrap();
        assert_eq!(near(&p, 8192), 0);
    }

    #[test]
    fn only_adaptive_adapts() {
        let mut r = Refaults::new();
        let mut c = config(1, 9);
        let left = Some(r.evicted());
        r.comes(left, false, &c);
        assert_eq!(r.order(&c), VictimOrder::Recent);
        c.order = VictimOrder::Random;
        assert_eq!(r.order(&c), VictimOrder::Random);
        // Nor does another order's job turn it off.
        assert!(!r.comes(None, false, &c).is_refault);
        c.order = VictimOrder::Adaptive;
        assert_eq!(r.order(&c), VictimOrder::Recent);
    }

    #[test]
    fn the_guard_holds_what_is_fetched_ahead_or_nothing_adapts() {
        use VictimOrder::*;
        let mut p = Policy::new();
        p.set(KnobId::EvictOrder, Adaptive as u64).unwrap();
        let of = |p: &Policy, n, ahead| {
            let c = EvictConfig::of(
                p,
                &Memory {
                    chunks: n,
                    ahead,
                    front: 0,
                },
            );
            (c.order, c.guard)
        };
        assert_eq!(of(&p, 8192, 9), (Adaptive, 32), "nothing fetches ahead");
        assert_eq!(of(&p, 256, 0), (Adaptive, 32));
        assert_eq!(of(&p, 128, 0), (Adaptive, 16));
        assert_eq!(of(&p, 48, 0), (Adaptive, 6));
        assert_eq!(of(&p, 47, 0), (LeastRecentlyMigrated, 0));
        p.set(KnobId::EvictGuardChunks, 8).unwrap();
        assert_eq!(of(&p, 29, 0), (Adaptive, 3));
        assert_eq!(of(&p, 28, 0), (LeastRecentlyMigrated, 0));
        p.set(KnobId::EvictGuardChunks, 32).unwrap();
        p.set(KnobId::StreamMode, 2).unwrap();
        assert_eq!(of(&p, 8192, 0), (Adaptive, 32));
        assert_eq!(of(&p, 8192, 50), (Adaptive, 82));
        // Sixteen streams, 32 MiB each.
        assert_eq!(of(&p, 8192, 1000), (Adaptive, 288));
        // Sixteen that they share in.
        assert_eq!(of(&p, 128, 50), (Adaptive, 32));
        // What the GPU needs at once is held, or nothing is kept.
        let front = |front| {
            let memory = Memory {
                chunks: 128,
                ahead: 0,
                front,
            };
            let c = EvictConfig::of(&p, &memory);
            (c.order, c.guard)
        };
        assert_eq!(front(12), (Adaptive, 16));
        assert_eq!(front(64), (Adaptive, 64));
        assert_eq!(front(65), (LeastRecentlyMigrated, 0));
        // How far it may widen.
        let most = |p: &Policy| {
            let memory = Memory {
                chunks: 800,
                ..Memory::default()
            };
            let c = EvictConfig::of(p, &memory);
            (c.guard, c.guard_max)
        };
        assert_eq!(most(&p), (32, 32));
        p.set(KnobId::EvictGuardFit, 1).unwrap();
        assert_eq!(most(&p), (32, 400));
        // What is asked for by name is done, as far as it goes.
        p.set(KnobId::EvictOrder, Recent as u64).unwrap();
        assert_eq!(most(&p), (32, 32));
        assert_eq!(of(&p, 62, 0), (Recent, 31));
        p.set(KnobId::EvictOrder, 0).unwrap();
        assert_eq!(of(&p, 8192, 50), (LeastRecentlyMigrated, 0));
    }

    #[test]
    fn the_window_and_the_span_are_shares_of_the_memory() {
        let mut p = Policy::new();
        let of = |p: &Policy, n| {
            let c = EvictConfig::of(
                p,
                &Memory {
                    chunks: n,
                    ..Memory::default()
                },
            );
            (c.window, c.span)
        };
        assert_eq!(of(&p, 8192), (2048, 65536));
        assert_eq!(of(&p, 3), (1, 24));
        p.set(KnobId::EvictWindowPercent, 250).unwrap();
        assert_eq!(of(&p, 64), (160, 512));
    }
}
