// SPDX-License-Identifier: GPL-2.0
//! Pages that bounce between processors: detect, throttle, pin (`nvidia-uvm.md` 5.2).
//!
//! One [`BlockThrash`] sits in each block. The caller [`record`](BlockThrash::record)s every migration caused by a fault,
//! an access counter or prefetch, and every revocation of a mapping, and asks [`hint`](BlockThrash::hint) before it serves
//! a faulting page.
//!
//! - **Detect.** Nothing is tracked until two events towards different processors fall within one window. From then on pages
//!   count events that turn them round; the third in a row that follows its predecessor within the window makes them thrash.
//! - **Throttle.** One processor may go on for a nap; others wait, the host asleep, a GPU with its fault unserved. The
//!   turn passes to who waited.
//! - **Pin.** After ten naps in which somebody waited the page stays in one place for 150 ms, and the others map it there.
//! - **Atomics** count where they are done, and not every link has some: a page that somebody does atomics on is pinned only where
//!   all who fight for it can, and else throttled for as long as they fight.
//! - **Epoch.** After a second the statistics start anew, four times in a block's life; then they are kept.
//!
//! **What is not seen.** Evictions must not be recorded. One GPU that faults again and again for what was just evicted is
//! then never noticed, as in the driver described: bouncing for lack of capacity is not this file's matter.
//!
//! **What is different.** That driver keeps a record per 4 KiB page and allocates it when needed; here it is one per 64 KiB,
//! which is what a fault grows to, and part of the block, so nothing can fail. Two processors that use different pages of
//! one 64 KiB group in turn therefore count as thrashing here, and there only if prefetching moves the group.

mod window;

pub use window::{ThrashWindow, WINDOW_MAX};

use crate::config::{KnobId, Policy};
use crate::residency::Reach;
use crate::types::{Nanos, PageIndex, PageMask, Processor, ProcessorMask, PAGES_PER_BIG_PAGE};

/// 64 KiB regions of a block.
const REGIONS: usize = 32;

/// Bit of each region in a set of them.
const BITS: [u32; REGIONS] = {
    let mut bits = [1; REGIONS];
    let mut rest: &mut [u32] = &mut bits;
    let mut bit = 1;
    while let [first, tail @ ..] = rest {
        *first = bit;
        bit = bit.rotate_left(1);
        rest = tail;
    }
    bits
};

/// Longest throttling period. What waits in a GPU takes room there that others want. It is the longest that the driver of NVIDIA has
/// by itself: a window of 500 ms, its limit (`nvidia-uvm.md` 5.2).
const NAP_MAX: Nanos = Nanos::from_micros(500_000);

/// The knobs of thrashing, with the window in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThrashConfig {
    /// Whether any of it happens.
    pub enabled: bool,
    /// Longest time between two events that count.
    pub window: Nanos,
    /// Events that make a page thrash.
    pub threshold_events: u32,
    /// Throttling periods before a page is pinned.
    pub pin_threshold_periods: u32,
    /// Length of a throttling period.
    pub nap: Nanos,
    /// Time after which statistics are reset.
    pub epoch: Nanos,
    /// Time that a page stays pinned; `None` is for ever.
    pub pin: Option<Nanos>,
    /// Resets of a block's statistics.
    pub max_resets: u32,
}

impl ThrashConfig {
    /// As a policy has them. `window` is the address space's, which may have adapted; the other times are multiples of the
    /// window that the policy sets (`nvidia-uvm.md` 5.2: computed once).
    pub fn of(policy: &Policy, window: &ThrashWindow) -> Self {
        let base_us = policy.get(KnobId::ThrashWindow);
        let windows = |id| Nanos::from_micros(base_us.saturating_mul(policy.get(id)));
        Self {
            enabled: policy.is_on(KnobId::ThrashEnable),
            window: window.current(),
            threshold_events: policy.get_u32(KnobId::ThrashThreshold),
            pin_threshold_periods: policy.get_u32(KnobId::ThrashPinThreshold),
            nap: windows(KnobId::ThrashNap).min(NAP_MAX),
            epoch: windows(KnobId::ThrashEpoch),
            pin: policy
                .is_on(KnobId::ThrashPin)
                .then(|| windows(KnobId::ThrashPin)),
            max_resets: policy.get_u32(KnobId::ThrashMaxResets),
        }
    }
}

/// What thrashing has to say about a faulting page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThrashHint {
    /// Nothing: serve it as usual.
    None,
    /// Do not serve it before this time. The host sleeps until then; a GPU's fault is left for a later replay.
    Throttle {
        /// End of the throttling period.
        until: Nanos,
    },
    /// The page is, or is now to be, pinned: [`PageFault::pinned_at`](crate::residency::PageFault::pinned_at).
    Pin {
        /// Where.
        at: Processor,
        /// When to unpin it ([`BlockThrash::unpin_expired`]); `None` is never.
        until: Option<Nanos>,
    },
}

/// Where a page could be pinned.
#[derive(Clone, Copy, Debug)]
pub struct PinChoice<'a> {
    /// Preferred location of its range.
    pub preferred: Option<Processor>,
    /// Where it is now: the copy nearest to the requester.
    pub current: Option<Processor>,
    /// Who can map whose memory.
    pub reach: &'a Reach<'a>,
    /// The access that asks is an atomic.
    pub atomic: bool,
}

impl PinChoice<'_> {
    /// The place for a page that `involved` fight for, with `atomics` or without: the preferred location if all of them can map it;
    /// where it is now if all reach that over fast links; at the requester; at the host, or with any of them, where all can map it.
    /// `None` if there is no such place.
    pub fn choose(
        &self,
        requester: Processor,
        involved: ProcessorMask,
        atomics: bool,
    ) -> Option<Processor> {
        let involved = involved.with(requester);
        let counts = |p: Processor| !atomics || self.reach.all_can_do_atomics(involved, p);
        let common = |p: &Processor| self.reach.all_can_map(involved, *p) && counts(*p);
        self.preferred
            .filter(common)
            .or_else(|| {
                self.current
                    .filter(|&p| self.reach.all_fast(involved, p) && counts(p))
            })
            .or_else(|| Some(requester).filter(common))
            .or_else(|| Some(Processor::Cpu).filter(common))
            .or_else(|| involved.iter().find(common))
    }
}

/// No processor, where an index is kept.
const NOBODY: u8 = u8::MAX;

/// One 64 KiB region of a tracked block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Region {
    /// Time of the last event; says nothing while `involved` is empty.
    last_event: Nanos,
    /// End of the throttling period, or of the pin.
    until: Nanos,
    /// Who moved it here or asked for it.
    involved: ProcessorMask,
    /// Events in a row, each within the window.
    events: u8,
    /// Throttling periods in which somebody waited.
    periods: u8,
    /// Before the region thrashes: where its last event went. Then: whose turn the throttling period is, or where the region
    /// is pinned. A processor's index, or [`NOBODY`].
    turn: u8,
    /// Who waited first in this period: a processor's index, or [`NOBODY`].
    waiter: u8,
}

impl Region {
    const QUIET: Self = Self {
        last_event: Nanos(0),
        until: Nanos(0),
        involved: ProcessorMask::EMPTY,
        events: 0,
        periods: 0,
        turn: NOBODY,
        waiter: NOBODY,
    };
}

/// Thrashing state of one block, about 800 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockThrash {
    /// The block's last event and where it went.
    last: Option<(Nanos, Processor)>,
    epoch_start: Nanos,
    resets: u32,
    /// Two events towards different processors have been seen within a window.
    tracking: bool,
    /// Bit i: region i thrashes.
    thrashing: u32,
    /// Bit i: region i is pinned. A subset of `thrashing`.
    pinned: u32,
    /// Bit i: since region i thrashes, somebody has done atomics there. A subset of `thrashing`.
    atomics: u32,
    regions: [Region; REGIONS],
}

impl BlockThrash {
    /// A block that nothing has happened to.
    pub const fn new() -> Self {
        Self {
            last: None,
            epoch_start: Nanos(0),
            resets: 0,
            tracking: false,
            thrashing: 0,
            pinned: 0,
            atomics: 0,
            regions: [Region::QUIET; REGIONS],
        }
    }

    /// Notes that `pages` were migrated to `to`, or that `to` took mappings of them away from others. Returns the time since
    /// the event before it, for [`ThrashWindow::note_gap`]. Not to be called for evictions.
    pub fn record(
        &mut self,
        pages: &PageMask,
        to: Processor,
        now: Nanos,
        config: &ThrashConfig,
    ) -> Option<Nanos> {
        if !config.enabled || pages.is_empty() {
            return None;
        }
        self.turn_epoch(now, config);
        let before = self.last.replace((now, to));
        let gap = before.map(|(then, _)| now.since(then));
        self.tracking |=
            before.is_some_and(|(then, whose)| whose != to && now.since(then) <= config.window);
        if self.tracking {
            self.count(regions_of(pages), to, now, config);
        }
        gap
    }

    /// Counts an event in each of `regions`.
    fn count(&mut self, regions: u32, to: Processor, now: Nanos, config: &ThrashConfig) {
        for (bit, r) in BITS.iter().copied().zip(&mut self.regions) {
            if regions & bit == 0 {
                continue;
            }
            let close = !r.involved.is_empty() && now.since(r.last_event) <= config.window;
            r.last_event = now;
            r.involved = r.involved.with(to);
            if self.thrashing & bit != 0 {
                continue;
            }
            if !close {
                r.events = 0;
            } else if r.turn != to.index() {
                // More pages of the region on the same way are no event of their own: at this grain they would pass for
                // a page that came twice.
                r.events = r.events.saturating_add(1);
            }
            r.turn = to.index();
            if u32::from(r.events) >= config.threshold_events {
                self.thrashing |= bit;
                r.turn = NOBODY;
            }
        }
    }

    /// What to do about a fault of `requester` on `page`. A page that is not thrashing costs two comparisons.
    pub fn hint(
        &mut self,
        page: PageIndex,
        requester: Processor,
        choice: &PinChoice<'_>,
        now: Nanos,
        config: &ThrashConfig,
    ) -> ThrashHint {
        let place = page.as_usize() / usize::from(PAGES_PER_BIG_PAGE);
        let (Some(&bit), Some(r)) = (BITS.get(place), self.regions.get_mut(place)) else {
            return ThrashHint::None;
        };
        if !config.enabled || self.thrashing & bit == 0 {
            return ThrashHint::None;
        }
        if choice.atomic {
            self.atomics |= bit;
        }
        if self.pinned & bit != 0 {
            let until = config.pin.map(|_| r.until);
            let at = Processor::from_index(r.turn).filter(|_| until.is_none_or(|t| now < t));
            let Some(at) = at else {
                self.forget(bit);
                return ThrashHint::None;
            };
            if !choice.atomic || choice.reach.can_do_atomics(requester, at) {
                return ThrashHint::Pin { at, until };
            }
            // It is fought for again, and whose atomic it is has the turn.
            self.pinned &= !bit;
            (r.turn, r.waiter) = (NOBODY, NOBODY);
            r.until = now;
        }

        r.involved = r.involved.with(requester);
        let me = requester.index();
        if r.until <= now {
            // A new period. Who waited in the one before has the turn, else who asks first.
            r.turn = if r.waiter == NOBODY { me } else { r.waiter };
            r.waiter = NOBODY;
            r.until = now.after(config.nap);
        }
        if r.turn == me {
            return ThrashHint::None;
        }
        if r.waiter == NOBODY {
            if u32::from(r.periods) >= config.pin_threshold_periods {
                let atomics = self.atomics & bit != 0;
                if let Some(at) = choice.choose(requester, r.involved, atomics) {
                    r.turn = at.index();
                    r.until = config.pin.map_or(Nanos(u64::MAX), |len| now.after(len));
                    self.pinned |= bit;
                    return ThrashHint::Pin {
                        at,
                        until: config.pin.map(|_| r.until),
                    };
                }
            }
            r.periods = r.periods.saturating_add(1);
            r.waiter = me;
        }
        ThrashHint::Throttle { until: r.until }
    }

    /// Pages that thrash or are pinned: not to be prefetched.
    pub fn thrashing_pages(&self) -> PageMask {
        pages_of(self.thrashing)
    }

    /// Pages that are pinned.
    pub fn pinned_pages(&self) -> PageMask {
        pages_of(self.pinned)
    }

    /// When the first pin ends: when to call [`unpin_expired`](Self::unpin_expired). `None` without pins that end.
    pub fn next_unpin(&self) -> Option<Nanos> {
        self.pinned_regions()
            .map(|(_, r)| r.until)
            .min()
            .filter(|t| t.0 != u64::MAX)
    }

    /// Ends the pins whose time is over and returns their pages. The caller takes away remote mappings of them, so that the
    /// next access faults and moves the page.
    pub fn unpin_expired(&mut self, now: Nanos) -> PageMask {
        let over = self
            .pinned_regions()
            .filter(|(_, r)| r.until <= now)
            .fold(0, |bits, (bit, _)| bits | bit);
        self.forget(over);
        pages_of(over)
    }

    /// Forgets what is known of the regions that `pages` lie in: the user moved them, or their range changed.
    pub fn reset(&mut self, pages: &PageMask) {
        self.forget(regions_of(pages));
    }

    /// Pinned regions, each with its bit.
    fn pinned_regions(&self) -> impl Iterator<Item = (u32, &Region)> {
        BITS.iter()
            .copied()
            .zip(&self.regions)
            .filter(|(bit, _)| self.pinned & bit != 0)
    }

    /// Starts a new epoch if the old one is over and the block has resets left. Pins stay.
    fn turn_epoch(&mut self, now: Nanos, config: &ThrashConfig) {
        if self.last.is_none() {
            self.epoch_start = now;
        }
        if self.resets < config.max_resets && now.since(self.epoch_start) >= config.epoch {
            self.resets = self.resets.saturating_add(1);
            self.epoch_start = now;
            self.forget(!self.pinned);
        }
    }

    /// Sets regions back to quiet.
    fn forget(&mut self, regions: u32) {
        self.thrashing &= !regions;
        self.pinned &= !regions;
        self.atomics &= !regions;
        for (bit, r) in BITS.iter().zip(&mut self.regions) {
            if regions & bit != 0 {
                *r = Region::QUIET;
            }
        }
    }
}

impl Default for BlockThrash {
    fn default() -> Self {
        Self::new()
    }
}

/// Bit i: the mask has a page of 64 KiB region i.
fn regions_of(pages: &PageMask) -> u32 {
    let mut bits = 0;
    for (i, word) in (0u32..).zip(pages.words()) {
        for j in 0..4 {
            if (word >> (16 * j)) & 0xffff != 0 {
                // At most 7 * 4 + 3.
                bits |= 1 << (4 * i + j);
            }
        }
    }
    bits
}

/// The pages of the regions whose bits are set.
fn pages_of(regions: u32) -> PageMask {
    let word = |i: usize| {
        (0..4)
            .filter(|j| regions >> (4 * i + j) & 1 != 0)
            .fold(0u64, |word, j| word | 0xffff << (16 * j))
    };
    PageMask::from_words(core::array::from_fn(word))
}
