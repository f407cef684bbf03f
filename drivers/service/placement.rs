// SPDX-License-Identifier: GPL-2.0
//! Where the faulted pages of a block go: `huvm_policy::residency`, page by page where advice, policy or thrashing has a
//! say, and at once where none has.

use super::thrash;
use crate::device::Gpu;
use crate::memory::advice::PageAdvice;
use crate::memory::block::{Others, State};
use crate::memory::space::Space;
use crate::memory::{PageIndex, PageMask, Place};
use huvm_policy::config::{KnobId, Policy};
use huvm_policy::residency::{self, Decision, PageFault, Protection, ResidencyConfig};
use huvm_policy::thrash::ThrashHint;
use huvm_policy::types::{Access, Nanos, Processor, ProcessorMask, MAX_GPUS};

/// What becomes of a GPU's faulted pages. No page is in two of the masks.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// Moved into the GPU's chunk.
    pub(crate) local: PageMask,
    /// Copied into it; the others keep their copies.
    pub(crate) copies: PageMask,
    /// To live on the host, and be mapped from there.
    pub(crate) remote: PageMask,
    /// Left for a later replay.
    pub(crate) throttled: PageMask,
    /// Of these, those that are pinned there.
    pub(crate) pinned: PageMask,
    /// [`State::advised`] when it was made.
    advised: u32,
    /// When the first pin of one ends, ns.
    pub(crate) unpin_ns: Option<u64>,
    /// Copies elsewhere of what is moved: all go, or the host keeps its own.
    pub(crate) others: Others,
}

impl Plan {
    /// Nothing to do.
    pub(crate) const NOTHING: Plan = Plan {
        local: PageMask::EMPTY,
        copies: PageMask::EMPTY,
        remote: PageMask::EMPTY,
        throttled: PageMask::EMPTY,
        pinned: PageMask::EMPTY,
        advised: 0,
        unpin_ns: None,
        others: Others::Go,
    };

    /// Pages that are to be mapped from the host for a reason that still holds.
    pub(crate) fn remote_now(&self, s: &State) -> PageMask {
        let over = self.pinned.and_not(&thrash::pinned(s));
        match self.advised == s.advised {
            true => self.remote.and_not(&over),
            false => self.remote.and(&self.pinned).and_not(&over),
        }
    }
}

/// Whether the host keeps its copy of a block that GPU `g` fetches (more of) now, to read it; `writes`: it comes with a stream that
/// writes. One that somebody has advised about, or that is fought over, is treated as they have it: it is not.
pub(super) fn keeps(s: &State, g: u8, writes: bool, p: &Policy) -> bool {
    if !p.is_on(KnobId::KeepHostCopy) || !s.advice.is_none() || thrash::is_thrashing(s, p) {
        return false;
    }
    if s.part(g).is_some_and(|p| !p.valid.is_empty()) {
        return s.writes.is_keeping();
    }
    !writes && s.writes.would_keep()
}

/// Pages of a block that a GPU faulted on, and for what.
pub(crate) struct Wanted<'a> {
    pub(crate) pages: PageMask,
    /// Of these, or of others, those that are to be written,
    pub(crate) write: &'a PageMask,
    /// and of these those atomically.
    pub(crate) atomic: &'a PageMask,
    /// They come with a stream that writes.
    pub(crate) writes: bool,
}

/// Decides for the faulted pages of a GPU.
pub(crate) fn plan(
    space: &Space,
    gpu: &Gpu,
    s: &mut State,
    wanted: &Wanted<'_>,
    p: &Policy,
) -> Plan {
    let Wanted {
        pages,
        write,
        atomic,
        writes,
    } = *wanted;
    let mut plan = Plan {
        advised: s.advised,
        ..Plan::NOTHING
    };
    let me = thrash::processor(Place::Gpu(gpu.index()));
    let config = ResidencyConfig::of(p);
    let thrashing = thrash::is_thrashing(s, p);
    if !thrashing && s.advice.is_none() && !config.zero_copy {
        plan.local = pages;
        if p.is_on(KnobId::KeepHostCopy) {
            keep(s, gpu.index(), write, writes, p, &mut plan);
        }
        return plan;
    }
    for page in pages.iter() {
        let mut pinned_at = None;
        if thrashing {
            match thrash::hint(space, Some(gpu), s, page, me, atomic.test(page), p) {
                ThrashHint::None => {}
                ThrashHint::Throttle { .. } => {
                    plan.throttled.set(page);
                    continue;
                }
                ThrashHint::Pin { at, until } => {
                    pinned_at = Some(at);
                    plan.pinned.set(page);
                    if let Some(Nanos(end)) = until {
                        plan.unpin_ns = Some(plan.unpin_ns.map_or(end, |u| u.min(end)));
                    }
                }
            }
        }
        let fault = PageFault {
            requester: me,
            access: match (atomic.test(page), write.test(page)) {
                (true, _) => Access::AtomicStrong,
                (false, true) => Access::Write,
                (false, false) => Access::Read,
            },
            // What is not allowed was sorted out before.
            protection: Protection::ReadWrite,
            resident: holders(s, page),
            advice: advice(s.advice.of(page)),
            pinned_at,
            foreign: false,
        };
        match residency::decide(&fault, &thrash::REACH, &config) {
            Decision::Migrate(Processor::Cpu) | Decision::MapRemote(Processor::Cpu) => {
                plan.remote.set(page)
            }
            Decision::Duplicate => plan.copies.set(page),
            // Another GPU's memory cannot be mapped, so a page that is to be there comes here.
            _ => plan.local.set(page),
        }
    }
    plan
}

/// Completes a plan that moves all: with or without the host's copies.
fn keep(s: &mut State, g: u8, write: &PageMask, writes: bool, p: &Policy, plan: &mut Plan) {
    let here = s.part(g).map_or(PageMask::EMPTY, |p| p.valid);
    if write.is_empty() {
        let keeps = keeps(s, g, writes, p);
        if keeps {
            plan.others = Others::GoButHost;
        }
        if here.is_empty() {
            s.writes.fetched(keeps);
        }
        return;
    }
    // One write is taken for all of it: else each page would fault once more.
    if s.writes.is_keeping() {
        plan.local |= here.and(&s.host_valid);
    }
    s.writes.wrote();
}

fn advice(a: PageAdvice) -> residency::Advice {
    let mut accessed_by = ProcessorMask::EMPTY;
    if a.accessed_by != 0 {
        for g in (0..MAX_GPUS).filter(|g| a.accessed_by >> g & 1 != 0) {
            accessed_by = accessed_by.with(thrash::processor(Place::Gpu(g)));
        }
    }
    residency::Advice {
        preferred: a.preferred.map(thrash::processor),
        accessed_by,
        read_mostly: a.read_mostly,
    }
}

/// Pages that nobody is to fetch to `here` unasked: advice wants them elsewhere, or has GPUs map them where they are.
pub(super) fn stays(s: &State, here: Place) -> PageMask {
    if s.advice.is_none() {
        return PageMask::EMPTY;
    }
    let mapped_there = s.advice.accessed().and(&s.valid_beside(here));
    s.advice.prefer_another(here).or(&mapped_there)
}

fn holders(s: &State, page: PageIndex) -> ProcessorMask {
    let mut who = ProcessorMask::EMPTY;
    if s.host_valid.test(page) {
        who = who.with(Processor::Cpu);
    }
    for part in s.parts.iter().filter(|p| p.valid.test(page)) {
        who = who.with(thrash::processor(Place::Gpu(part.gpu())));
    }
    who
}
