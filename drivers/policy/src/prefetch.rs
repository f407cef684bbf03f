// SPDX-License-Identifier: GPL-2.0
//! Which pages of a block to bring along with those that faulted.
//!
//! [`plan`] is the whole decision for one operation on one block; [`tree`] is the predictor. A new predictor is a file
//! here, a [`PrefetchMode`] and a word of the `prefetch_mode` knob.
//!
//! The caller asks only if all pages of the operation go to one processor (`nvidia-uvm.md` 3.4, 5.1), and counts the
//! faults towards it with a [`FaultStreak`] in the block.

pub mod tree;

pub use tree::{tree_prefetch, TreeQuery};

use crate::config::{KnobId, Policy};
use crate::types::{PageMask, PageRegion, Processor};

/// The predictor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum PrefetchMode {
    /// Nothing is brought along.
    None = 0,
    /// NVIDIA's tree: [`tree`].
    #[default]
    Tree = 1,
}

/// The knobs of prefetching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefetchConfig {
    /// The predictor.
    pub mode: PrefetchMode,
    /// Share of a subtree, in percent, that must be exceeded.
    pub threshold_percent: u32,
    /// Pages faulted towards one processor before it prefetches.
    pub min_faults: u32,
}

impl PrefetchConfig {
    /// As a policy has them.
    pub fn of(policy: &Policy) -> Self {
        Self {
            mode: match policy.get(KnobId::PrefetchMode) {
                0 => PrefetchMode::None,
                _ => PrefetchMode::Tree,
            },
            threshold_percent: policy.get_u32(KnobId::PrefetchThreshold),
            min_faults: policy.get_u32(KnobId::PrefetchMinFaults),
        }
    }
}

/// Pages of a block faulted towards the same processor since the direction changed last. One per block; 8 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultStreak {
    to: Option<Processor>,
    pages: u32,
}

impl FaultStreak {
    /// No faults yet.
    pub const fn new() -> Self {
        Self { to: None, pages: 0 }
    }

    /// Notes that `faulted` goes to `to`, and returns the length of the streak, this operation included.
    pub fn note(&mut self, to: Processor, faulted: &PageMask) -> u32 {
        if self.to != Some(to) {
            *self = Self {
                to: Some(to),
                pages: 0,
            };
        }
        self.pages = self.pages.saturating_add(faulted.count().get());
        self.pages
    }
}

/// One operation on a block, as prefetching sees it.
#[derive(Clone, Copy, Debug)]
pub struct PrefetchInput<'a> {
    /// Where the faulted pages go.
    pub to: Processor,
    /// Preferred location of the range, if it has one.
    pub preferred: Option<Processor>,
    /// Pages that fault in this operation.
    pub faulted: &'a PageMask,
    /// Pages resident at `to`.
    pub resident: &'a PageMask,
    /// Pages resident anywhere.
    pub resident_anywhere: &'a PageMask,
    /// Pages that thrash: neither fetched, nor a reason to fetch others.
    pub thrashing: &'a PageMask,
    /// Pages that may be fetched. Left out: what the range group holds back; for the host, what it has mapped already.
    pub allowed: &'a PageMask,
    /// The part of the block that belongs to its range.
    pub max: PageRegion,
    /// [`FaultStreak::note`] of this operation.
    pub streak_pages: u32,
}

/// The pages to bring along: none that faulted, thrashes, is not allowed, or is at the destination already.
pub fn plan(input: &PrefetchInput<'_>, config: &PrefetchConfig) -> PageMask {
    if config.mode == PrefetchMode::None || input.streak_pages < config.min_faults {
        return PageMask::EMPTY;
    }
    match input.preferred {
        // First touch at the place where the pages are to stay: the whole block (5.1 step 2).
        Some(preferred) if preferred == input.to && input.resident_anywhere.is_empty() => {
            return PageMask::from_region(input.max)
                .and(input.allowed)
                .and_not(input.faulted)
                .and_not(input.thrashing);
        }
        // Away from it: only what must go (5.1 step 3).
        Some(preferred) if preferred != input.to => return PageMask::EMPTY,
        _ => {}
    }
    TreeQuery {
        resident: input.resident,
        faulted: input.faulted,
        thrashing: input.thrashing,
        allowed: input.allowed,
        max: input.max,
        threshold_percent: config.threshold_percent,
    }
    .pages()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{GpuId, PageIndex, Pages};

    const GPU: Processor = match GpuId::new(0) {
        Some(gpu) => Processor::Gpu(gpu),
        None => Processor::Cpu,
    };

    fn range(start: u16, len: u32) -> PageMask {
        PageMask::from_range(PageIndex::new(start).unwrap(), Pages(len))
    }

    fn config() -> PrefetchConfig {
        PrefetchConfig::of(&Policy::new())
    }

    /// A first fault of page 5 towards the GPU, nothing resident.
    fn input(faulted: &PageMask) -> PrefetchInput<'_> {
        PrefetchInput {
            to: GPU,
            preferred: None,
            faulted,
            resident: &PageMask::EMPTY,
            resident_anywhere: &PageMask::EMPTY,
            thrashing: &PageMask::EMPTY,
            allowed: &PageMask::FULL,
            max: PageRegion::BLOCK,
            streak_pages: faulted.count().get(),
        }
    }

    #[test]
    fn the_default_is_the_tree() {
        let f = range(5, 1);
        assert_eq!(plan(&input(&f), &config()), range(0, 16).and_not(&f));
    }

    #[test]
    fn switched_off_and_below_the_minimum_there_is_none() {
        let f = range(5, 1);
        let off = PrefetchConfig {
            mode: PrefetchMode::None,
            ..config()
        };
        assert!(plan(&input(&f), &off).is_empty());
        let patient = PrefetchConfig {
            min_faults: 2,
            ..config()
        };
        assert!(plan(&input(&f), &patient).is_empty());
        let two = range(5, 2);
        assert_eq!(plan(&input(&two), &patient), range(0, 16).and_not(&two));
    }

    #[test]
    fn the_preferred_location_gets_the_whole_untouched_block() {
        let f = range(5, 1);
        let there = PrefetchInput {
            preferred: Some(GPU),
            ..input(&f)
        };
        assert_eq!(plan(&there, &config()), f.not());
        let small = PrefetchInput {
            max: PageRegion::from_bounds(4, 40),
            ..there
        };
        assert_eq!(plan(&small, &config()), range(4, 36).and_not(&f));
        // Not any more once a page is somewhere.
        let touched = range(400, 1);
        let touched = PrefetchInput {
            resident_anywhere: &touched,
            ..there
        };
        assert_eq!(plan(&touched, &config()), range(0, 16).and_not(&f));
    }

    #[test]
    fn nothing_else_leaves_the_preferred_location() {
        let f = range(5, 1);
        let away = PrefetchInput {
            preferred: Some(Processor::Cpu),
            ..input(&f)
        };
        assert!(plan(&away, &config()).is_empty());
    }

    #[test]
    fn a_streak_ends_when_the_direction_changes() {
        let mut s = FaultStreak::new();
        assert_eq!(s.note(GPU, &range(0, 3)), 3);
        assert_eq!(s.note(GPU, &range(0, 3)), 6);
        assert_eq!(s.note(Processor::Cpu, &range(0, 1)), 1);
        assert_eq!(s.note(GPU, &range(0, 1)), 1);
        assert!(core::mem::size_of::<FaultStreak>() <= 8);
    }
}
