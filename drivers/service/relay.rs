// SPDX-License-Identifier: GPL-2.0
//! The way of pages over a lending GPU: from the host over *its* host link into its spare memory, and on from there over
//! the fast link between the two (HUVM, ATC'22: the lenders' half of PLF and MPF).
//!
//! Which way is the fastest is `huvm_policy::path`. Here the first half is begun ([`start`]); the second half is any
//! migration to the GPU, which finds the pages in spare memory. In between they are valid in both places, so the lender
//! takes its chunk back at any time without a copy, and a copy that fails loses nothing. Spare memory is only passed
//! through: when the pages have moved on, or will not ([`leave`]), the chunk is the lender's again. While evictions wait
//! there is none to be had.

use super::evict::Room;
use super::harvest;
use super::migrate::{self, Move, Stop};
use crate::channel::Engine;
use crate::device::{registry, Gpu};
use crate::memory::block::{Block, Others, State};
use crate::memory::{PageMask, Place};
use huvm_policy::config::Policy;
use huvm_policy::path::{choose_path, LenderPath, Path};
use huvm_policy::spare::{LinkFacts, SpareFacts, SPARE_GPUS_MAX};
use huvm_policy::types::GpuId;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

/// The ways from the host to one GPU, as they were when somebody looked.
pub(super) struct Ways {
    to: GpuId,
    local: LinkFacts,
    lenders: [LenderPath; SPARE_GPUS_MAX],
}

impl Ways {
    /// Looks. `None`: there is only the GPU's own link.
    #[inline(never)] // stack
    pub(super) fn to(gpu: &Gpu, p: &Policy) -> Option<Ways> {
        if gpu.demand.load(Relaxed) != 0 {
            return None;
        }
        let mut ways = Ways {
            to: GpuId::new(gpu.index())?,
            local: host_link(gpu),
            lenders: [LenderPath::default(); SPARE_GPUS_MAX],
        };
        let mut facts = [SpareFacts::default(); SPARE_GPUS_MAX];
        let _there = harvest::look_around(gpu, p, &mut facts);
        for ((i, facts), row) in (0u32..).zip(&facts).zip(ways.lenders.iter_mut()) {
            let fast = facts.link.mb_per_s > gpu.host_mbps();
            if !facts.has_room() || !fast {
                continue;
            }
            let Some(lender) = registry::gpu(i).filter(|l| l.demand.load(Relaxed) == 0) else {
                continue;
            };
            *row = LenderPath {
                has_spare: true,
                borrowers: borrowers(&lender, gpu),
                host: host_link(&lender),
                peer: LinkFacts {
                    queued: gpu.channels().pending(Engine::PeerIn),
                    ..facts.link
                },
            };
        }
        ways.lenders.iter().any(LenderPath::is_open).then_some(ways)
    }

    /// The way of the next block.
    pub(super) fn choose(&self) -> Path {
        choose_path(self.to, &self.local, &self.lenders)
    }

    /// The lenders that blocks can go over.
    pub(super) fn lenders(&self) -> impl Iterator<Item = GpuId> + '_ {
        (0u8..)
            .zip(&self.lenders)
            .filter(|(_, l)| l.is_open())
            .filter_map(|(i, _)| GpuId::new(i))
    }

    /// A block was sent this way.
    pub(super) fn sent(&mut self, path: Path) {
        let link = match path {
            Path::Local => Some(&mut self.local),
            Path::Via(id) => self.lenders.get_mut(id.as_usize()).map(|l| &mut l.host),
        };
        if let Some(link) = link {
            link.queued = link.queued.saturating_add(1);
        }
    }

    /// Nothing more goes over this lender.
    pub(super) fn close(&mut self, id: GpuId) {
        if let Some(l) = self.lenders.get_mut(id.as_usize()) {
            l.has_spare = false;
        }
    }
}

/// Sees to it that `lender` has a chunk for a block on its way to `gpu`; one that the host has a copy of makes way. The caller
/// holds no block. Whether there is one now.
pub(super) fn has_room(gpu: &Gpu, lender: GpuId, p: &Policy) -> bool {
    harvest::ask(gpu, lender.get().into(), p).is_some_and(|(lender, facts)| {
        facts.lendable() != 0 || (facts.replaceable() != 0 && harvest::make_way(&lender))
    })
}

/// GPUs that borrow from `lender`, with `gpu`, which is about to.
fn borrowers(lender: &Gpu, gpu: &Gpu) -> u32 {
    let lent = lender.chunks().lent_to();
    let who = lent.iter().zip(0u8..);
    // CAST: 16 at most.
    who.filter(|(n, i)| **n != 0 || *i == gpu.index()).count() as u32
}

/// A GPU's link from the host, and what waits on it.
fn host_link(gpu: &Gpu) -> LinkFacts {
    LinkFacts {
        mb_per_s: gpu.host_mbps(),
        queued: gpu.channels().pending_from_host(),
    }
}

/// Pages of `wanted` that can go over a lender to GPU `g`: those that the host alone has.
pub(super) fn can_go(s: &State, g: u8, wanted: &PageMask) -> PageMask {
    let elsewhere = s.valid_beside(Place::Host);
    if s.dead {
        return PageMask::EMPTY;
    }
    wanted
        .and(&s.host_valid)
        .and(&s.managed)
        .and_not(&s.lost)
        .and_not(&elsewhere)
        .and_not(&s.advice.read_mostly())
        .and_not(&s.advice.prefer_another(Place::Gpu(g)))
}

/// Begins the copy of `pages`, which [`can_go`] let pass to GPU `g`, to spare memory of GPU `via`. On success the block has them in
/// flight.
///
/// # Errors
/// `ENOSPC` when that GPU lends nothing (more); others as [`migrate::start`]. The pages are where they were.
#[inline(never)] // stack
pub(super) fn start(
    block: &Arc<Block>,
    s: &mut State,
    g: u8,
    via: GpuId,
    pages: &PageMask,
    cause: u32,
) -> Result {
    match s.spare.as_ref() {
        Some(spare) if spare.gpu.index() != via.get() || spare.is_condemned() => {
            return Err(EBUSY);
        }
        Some(spare) if !harvest::takes_in(spare) => return Err(ENOSPC),
        Some(_) => {}
        None => {
            let lender = registry::gpu(via.get().into()).ok_or(ENOSPC)?;
            if !harvest::lend(s, block, g, lender, true, cause) {
                return Err(ENOSPC);
            }
        }
    }
    let m = Move {
        pages: *pages,
        dst: Place::Spare,
        others: Others::Stay,
        cause,
    };
    let did = migrate::start(block, s, None, &mut Room::empty(), &m);
    if s.inflight.is_none() {
        // Not begun: nothing is in the chunk.
        s.release_empty_chunks();
    }
    did.map_err(|stop| match stop {
        Stop::Failed(e) => e,
        Stop::NeedChunk => ENOSPC,
    })
}

/// The pages of a block will not go on from spare memory: what the host has too is dropped there.
pub(super) fn leave(block: &Block) {
    let mut s = block.settled();
    let also_home = s.host_valid;
    if let Some(spare) = s.spare.as_mut() {
        spare.valid = spare.valid.and_not(&also_home);
        s.release_empty_chunks();
    }
}
