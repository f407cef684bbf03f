// SPDX-License-Identifier: GPL-2.0
//! Pages that bounce between processors: what `huvm_policy::thrash` wants to be told, and asked.
//!
//! Told: every move that a fault caused ([`note`]). Asked: before a fault is served ([`hint`]). A page is pinned on the
//! host, which every GPU can map; however the pin ends, those mappings end with it. That its time is over is seen by the fault service
//! (`gpu_fault::Service`), which keeps a list of the blocks that have one.

use super::map;
use crate::account::{self, counters::Counter};
use crate::device::Gpu;
use crate::kernel::memcg::{For, CHARGED};
use crate::kernel::time;
use crate::memory::block::State;
use crate::memory::space::Space;
use crate::memory::{PageIndex, PageMask, Place};
use huvm_policy::config::{KnobId, Policy};
use huvm_policy::residency::Reach;
use huvm_policy::thrash::{BlockThrash, PinChoice, ThrashConfig, ThrashHint, ThrashWindow};
use huvm_policy::types::{GpuId, Nanos, Processor, ProcessorMask};
use kernel::prelude::*;
use kernel::sync::{new_spinlock, SpinLock};

/// Every GPU can map the host's memory, and do no atomics there, as the link to it is PCIe; nobody maps a GPU's.
pub(crate) const REACH: Reach<'static> = Reach {
    mappable_by: &[ProcessorMask::from_bits(u32::MAX)],
    fast_from: &[],
    atomics_from: &[],
};

/// The detection window of a space, which may adapt (`nvidia-uvm.md` 5.2).
#[pin_data]
pub(crate) struct Window {
    /// The knobs that it was made from, and the window: made anew when they change.
    #[pin]
    inner: SpinLock<Option<([u64; 2], ThrashWindow)>>,
}

impl Window {
    /// Made at the first use.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self { inner <- new_spinlock!(None, "huvm_thrash_window") })
    }

    fn with<R>(&self, p: &Policy, f: impl FnOnce(&mut ThrashWindow) -> R) -> R {
        let key = [p.get(KnobId::ThrashWindow), p.get(KnobId::ThrashWindowMode)];
        let mut inner = self.inner.lock();
        if inner.as_ref().is_none_or(|(k, _)| *k != key) {
            *inner = Some((key, ThrashWindow::new(p)));
        }
        match &mut *inner {
            Some((_, w)) => f(w),
            None => f(&mut ThrashWindow::new(p)),
        }
    }
}

/// The processor of a place.
pub(crate) fn processor(place: Place) -> Processor {
    match place {
        Place::Host | Place::Spare => Processor::Cpu,
        Place::Gpu(g) => GpuId::new(g).map_or(Processor::Cpu, Processor::Gpu),
    }
}

fn config(space: &Space, p: &Policy) -> ThrashConfig {
    space.thrash.with(p, |w| ThrashConfig::of(p, w))
}

/// Pages of a block moved to `to` because of a fault.
#[inline(never)] // stack
pub(crate) fn note(space: &Space, s: &mut State, pages: &PageMask, to: Place, p: &Policy) {
    if !p.is_on(KnobId::ThrashEnable) || pages.is_empty() {
        return;
    }
    if s.thrash.is_none() {
        // Without memory the block is not watched; it is served all the same.
        let made = || Ok(KBox::new(BlockThrash::new(), CHARGED)?);
        s.thrash = space.memory.asked(For::Ahead, made).ok();
    }
    let Some(t) = s.thrash.as_mut() else {
        return;
    };
    let c = config(space, p);
    if let Some(gap) = t.record(pages, processor(to), Nanos(time::now_ns()), &c) {
        space.thrash.with(p, |w| w.note_gap(gap));
    }
}

/// Whether [`hint`] has anything to say about a block.
pub(crate) fn is_thrashing(s: &State, p: &Policy) -> bool {
    !keep_off(s, p).is_empty()
}

/// Pages not to be prefetched. None while nobody asks for that: what a block remembers is as it was when the switch went off.
pub(crate) fn keep_off(s: &State, p: &Policy) -> PageMask {
    let known = s.thrash.as_ref().filter(|_| p.is_on(KnobId::ThrashEnable));
    known.map_or(PageMask::EMPTY, |t| t.thrashing_pages())
}

/// What to do about a fault of `who` on `page`, of an atomic or of another access. Counts what it says.
#[inline(never)] // stack
pub(crate) fn hint(
    space: &Space,
    gpu: Option<&Gpu>,
    s: &mut State,
    page: PageIndex,
    who: Processor,
    atomic: bool,
    p: &Policy,
) -> ThrashHint {
    let (preferred, current) = (s.advice.of(page).preferred.map(processor), holder(s, page));
    let Some(t) = s.thrash.as_mut() else {
        return ThrashHint::None;
    };
    let choice = PinChoice {
        preferred,
        current,
        reach: &REACH,
        atomic,
    };
    let pinned = t.pinned_pages();
    let c = config(space, p);
    let said = t.hint(page, who, &choice, Nanos(time::now_ns()), &c);
    unmap_ended(s, &pinned);
    match said {
        ThrashHint::Throttle { .. } => {
            account::count(gpu, Some(space), Counter::ThrashThrottles, 1)
        }
        ThrashHint::Pin { .. } if !pinned.test(page) => {
            account::count(gpu, Some(space), Counter::ThrashPins, 1)
        }
        _ => {}
    }
    said
}

fn holder(s: &State, page: PageIndex) -> Option<Processor> {
    if s.host_valid.test(page) {
        return Some(Processor::Cpu);
    }
    let part = s.parts.iter().find(|p| p.valid.test(page))?;
    Some(processor(Place::Gpu(part.gpu())))
}

/// Forgets what is known of `pages`: the user moved them, said where they belong, or unmapped them.
#[inline(never)] // stack
pub(crate) fn reset(s: &mut State, pages: &PageMask) {
    let Some(t) = s.thrash.as_mut() else {
        return;
    };
    let pinned = t.pinned_pages();
    t.reset(pages);
    unmap_ended(s, &pinned);
}

/// Ends the pins whose time is over at `now`. Returns when the next one is.
pub(crate) fn end_pins(s: &mut State, now: Nanos) -> Option<Nanos> {
    let t = s.thrash.as_mut()?;
    let pinned = t.pinned_pages();
    t.unpin_expired(now);
    let next = t.next_unpin();
    unmap_ended(s, &pinned);
    next
}

/// Of what was `pinned`, and is not any more, GPUs lose what they have mapped elsewhere: the next access faults, and moves the page.
fn unmap_ended(s: &mut State, pinned: &PageMask) {
    let still = self::pinned(s);
    map::unmap_remote(s, &pinned.and_not(&still));
}

/// Pages that are pinned.
pub(crate) fn pinned(s: &State) -> PageMask {
    s.thrash
        .as_ref()
        .map_or(PageMask::EMPTY, |t| t.pinned_pages())
}
