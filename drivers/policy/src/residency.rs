// SPDX-License-Identifier: GPL-2.0
//! Where a faulting page should live (`nvidia-uvm.md` 5.4).
//!
//! [`decide`] answers for one page: the first rule that fits wins. With no advice a page goes to whoever touches it, on
//! the first touch and later. [`Reach`] says who can map whose memory; [`nearest_copy`] which of several copies to read.
//!
//! Of the driver described, left out are: memory shared with the kernel's own page tables (HMM), processors without
//! memory, the choice of a host NUMA node, and the test switch that forces host memory.

use crate::config::{KnobId, Policy};
use crate::types::{Access, Processor, ProcessorMask};

/// Who can use whose memory: one row per processor, by [`Processor::index`]. A row that is missing means nobody but the
/// processor itself, whose own bit need not be set.
#[derive(Clone, Copy, Debug)]
pub struct Reach<'a> {
    /// Row of a processor: who can map its memory.
    pub mappable_by: &'a [ProcessorMask],
    /// Row of a processor: who reaches its memory over a fast link (NVLink). A subset of `mappable_by`.
    pub fast_from: &'a [ProcessorMask],
    /// Row of a processor: who can do atomics on its memory over the link. A subset of `mappable_by`.
    pub atomics_from: &'a [ProcessorMask],
}

impl Reach<'_> {
    /// Nobody can map anything but its own memory.
    pub const NONE: Reach<'static> = Reach {
        mappable_by: &[],
        fast_from: &[],
        atomics_from: &[],
    };

    /// Can `who` map memory of `owner`?
    pub fn can_map(&self, who: Processor, owner: Processor) -> bool {
        row(self.mappable_by, owner).contains(who)
    }

    /// Can each of `all` map memory of `owner`?
    pub fn all_can_map(&self, all: ProcessorMask, owner: Processor) -> bool {
        all.is_subset_of(row(self.mappable_by, owner))
    }

    /// Does each of `all` reach memory of `owner` over a fast link, or own it?
    pub fn all_fast(&self, all: ProcessorMask, owner: Processor) -> bool {
        all.is_subset_of(row(self.fast_from, owner))
    }

    /// Can `who` do atomics on memory of `owner`?
    pub fn can_do_atomics(&self, who: Processor, owner: Processor) -> bool {
        row(self.atomics_from, owner).contains(who)
    }

    /// Can each of `all` do atomics on memory of `owner`?
    pub fn all_can_do_atomics(&self, all: ProcessorMask, owner: Processor) -> bool {
        all.is_subset_of(row(self.atomics_from, owner))
    }
}

/// The row of `owner`, and `owner` itself.
fn row(rows: &[ProcessorMask], owner: Processor) -> ProcessorMask {
    rows.get(usize::from(owner.index()))
        .copied()
        .unwrap_or(ProcessorMask::EMPTY)
        .with(owner)
}

/// The copy that `reader` gets at best: its own, one over a fast link, a peer's, the host's, else any (`nvidia-uvm.md`
/// 6.2 step 3). `None` if there is none.
pub fn nearest_copy(
    copies: ProcessorMask,
    reader: Processor,
    reach: &Reach<'_>,
) -> Option<Processor> {
    if copies.contains(reader) {
        return Some(reader);
    }
    let gpu = |test: &dyn Fn(Processor) -> bool| copies.iter().find(|&p| p.is_gpu() && test(p));
    gpu(&|p| row(reach.fast_from, p).contains(reader))
        .or_else(|| gpu(&|p| reach.can_map(reader, p)))
        .or_else(|| copies.first())
}

/// What a range allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Nothing.
    None,
    /// Loads.
    ReadOnly,
    /// Loads, stores and atomics.
    ReadWrite,
}

impl Protection {
    /// True if `access` is allowed.
    pub const fn allows(self, access: Access) -> bool {
        match self {
            Self::None => false,
            Self::ReadOnly => !access.is_write(),
            Self::ReadWrite => true,
        }
    }
}

/// The user's advice for a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Advice {
    /// Where it should live.
    pub preferred: Option<Processor>,
    /// Who keeps a mapping of it, wherever it is.
    pub accessed_by: ProcessorMask,
    /// Readers get copies of their own; a write leaves one.
    pub read_mostly: bool,
}

/// The knobs of placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResidencyConfig {
    /// A GPU fault maps host memory and moves nothing.
    pub zero_copy: bool,
    /// An atomic stays where the page is, if the link can do it.
    pub remote_atomics: bool,
}

impl ResidencyConfig {
    /// As a policy has them.
    pub fn of(policy: &Policy) -> Self {
        Self {
            zero_copy: policy.is_on(KnobId::ZeroCopy),
            remote_atomics: policy.is_on(KnobId::RemoteAtomics),
        }
    }
}

/// A fault on one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFault {
    /// Who touched it.
    pub requester: Processor,
    /// How; the most intrusive access if there were several.
    pub access: Access,
    /// What its range allows.
    pub protection: Protection,
    /// Who has a valid copy.
    pub resident: ProcessorMask,
    /// The user's advice.
    pub advice: Advice,
    /// Where it is pinned because it thrashes (`ThrashHint::Pin`).
    pub pinned_at: Option<Processor>,
    /// True if a CPU of another process touched it (a debugger, a network card's driver).
    pub foreign: bool,
}

/// Why a fault cannot be served (`nvidia-uvm.md` 3.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FatalReason {
    /// No range there.
    InvalidAddress = 1,
    /// The range does not allow the access.
    Permissions = 2,
    /// The hardware's fault type is none that memory can cure.
    FaultType = 3,
    /// No memory, and none could be made free.
    OutOfMemory = 4,
    /// Something that should work did not.
    Internal = 5,
    /// The access is never possible (for example an atomic over a link that has none, on a page that may not move).
    InvalidOperation = 6,
}

/// What to do about a page. In each case but the last two the requester ends up with a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Make this processor's copy the only one: move it there, or on first touch create it there. If it is not the
    /// requester, the requester maps it there.
    Migrate(Processor),
    /// Leave the page where it is, and map the requester to the copy of this processor, which is not the requester. Where
    /// there are more copies the access is a read, and the mapping must be read-only.
    MapRemote(Processor),
    /// Give the requester a copy of its own, and let the others keep theirs; all read-only.
    Duplicate,
    /// A prefetch of a page that the requester has no right to: nothing, but count it.
    InvalidPrefetch,
    /// Cancel the access.
    Fatal(FatalReason),
}

/// What to do about a faulting page. The caller has seen that the requester does not have the permission already, and
/// that the page is not throttled. Whatever else is wanted, an atomic is done where the requester can do one.
pub fn decide(fault: &PageFault, reach: &Reach<'_>, config: &ResidencyConfig) -> Decision {
    let requester = fault.requester;
    match wanted(fault, reach, config) {
        Decision::Migrate(home) | Decision::MapRemote(home)
            if fault.access.is_atomic() && !reach.can_do_atomics(requester, home) =>
        {
            Decision::Migrate(requester)
        }
        decision => decision,
    }
}

/// What the rules say, the first that fits.
fn wanted(fault: &PageFault, reach: &Reach<'_>, config: &ResidencyConfig) -> Decision {
    let requester = fault.requester;
    let advice = &fault.advice;
    if !fault.protection.allows(fault.access) {
        return match fault.access {
            Access::Prefetch => Decision::InvalidPrefetch,
            _ => Decision::Fatal(FatalReason::Permissions),
        };
    }
    let nearest = nearest_copy(fault.resident, requester, reach);

    if config.zero_copy && requester.is_gpu() {
        let home = nearest.unwrap_or(Processor::Cpu);
        if reach.can_map(requester, home) {
            return place(fault, home);
        }
    }
    // 2. Readers of read-mostly pages get copies; a write, or the first touch, has a sole one.
    if advice.read_mostly {
        return if fault.access.is_write() || nearest.is_none() {
            Decision::Migrate(requester)
        } else {
            Decision::Duplicate
        };
    }
    // 3.
    if advice.preferred == Some(requester) {
        return Decision::Migrate(requester);
    }
    // 5.
    if let Some(pin) = fault.pinned_at.filter(|&p| reach.can_map(requester, p)) {
        return place(fault, pin);
    }
    let preferred = advice.preferred.filter(|&p| reach.can_map(requester, p));
    // 6.
    let Some(nearest) = nearest else {
        return Decision::Migrate(preferred.unwrap_or(requester));
    };
    // 7.
    if advice.accessed_by.contains(requester) && reach.can_map(requester, nearest) {
        return place(fault, nearest);
    }
    // 8.
    if config.remote_atomics && fault.access.is_atomic() && reach.can_do_atomics(requester, nearest)
    {
        return place(fault, nearest);
    }
    // 9.
    if let Some(preferred) = preferred.filter(|_| nearest != requester) {
        return place(fault, preferred);
    }
    // 10.
    if fault.foreign && requester == Processor::Cpu && reach.can_map(requester, nearest) {
        return place(fault, nearest);
    }
    // 11.
    Decision::Migrate(requester)
}

/// The page is to be at `home`, which the requester can map: what that takes.
fn place(fault: &PageFault, home: Processor) -> Decision {
    // A write must leave one copy, so with several it is a move even where the page already is.
    let sole = fault.resident.count() <= 1 || !fault.access.is_write();
    if home != fault.requester && fault.resident.contains(home) && sole {
        Decision::MapRemote(home)
    } else {
        Decision::Migrate(home)
    }
}
