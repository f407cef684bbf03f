// SPDX-License-Identifier: GPL-2.0
//! Memory that fails (ECC).
//!
//! A page of a GPU's memory that fails is met by a launch, as a replayable fault, or by a copy engine, which stands still; either way
//! the fault thread comes here. The chunk is condemned: it is never put to use again, whoever has it. Then it is emptied as by an
//! eviction, and the copy engine says which of its pages cannot be read: those are lost, if nobody else has them. So a number that a
//! device reports costs at most a chunk, never data; what is lost is decided by the copies alone
//! ([`memory::block`](crate::memory::block), [`channel::poison`](crate::channel::poison)). But where the CPU copies in place of an engine
//! ([`super::aperture`]), the numbers are all that there is to go by.
//!
//! A chunk that is in somebody's hands is left to them: it is retired when they let go of it. The hard case is one that changes
//! owner: its new block may get it while the copy out of it still runs and before that meets the page. What was copied to such a page
//! has not arrived, and stays where it was.

use super::pool::Need;
use super::{evict, harvest};
use crate::account::{self, counters::Counter, events};
use crate::channel::{poison, Tracker};
use crate::device::{registry, Gpu};
use crate::kernel::ffi::uapi;
use crate::kernel::thread;
use crate::memory::block::Block;
use crate::memory::chunk::Victim;
use crate::memory::clients::Client;
use crate::memory::{PageIndex, PageMask, Place, BLOCK_BYTES, BLOCK_PAGES, PAGE_BYTES};
use huvm_hal::ext::ecc;
use huvm_policy::types::ChunkId;
use kernel::prelude::*;
use kernel::sync::Arc;

/// What became of a chunk.
struct Done {
    /// Nobody knew that its memory failed.
    is_new: bool,
    /// It is empty, or there is no such chunk, or somebody else has it in hand; or why its block still has it.
    left: Result,
}

/// Takes the chunks of `gpu` out of service whose memory failed, as it or its copy engines said, and has others see to theirs. Those
/// that could not be emptied before, too. Bounded. Whether there was one that nobody knew of. By its service thread.
#[inline(never)] // stack
pub(crate) fn attend(gpu: &Arc<Gpu>) -> bool {
    for i in 0..registry::count() {
        if let Some(other) = registry::gpu(i) {
            if other.index() != gpu.index() && other.hal(hear(&other)) == Ok(true) {
                other.call_for_service();
            }
        }
    }
    let _lost_is_known = gpu.hal(hear(gpu));
    let mut news = false;
    let said = (0..).map_while(|at| gpu.chunks().suspect(at));
    let said = said.filter_map(|(id, page)| number(id, page));
    let met = (0..poison::MAX).filter_map(|at| poison::nth(gpu.index(), at));
    for page in Iterator::chain(said, met) {
        if thread::should_stop() {
            break;
        }
        news |= condemn(gpu, page).is_new;
    }
    news
}

/// Takes what a GPU says of its memory. All of it is known before the first chunk is emptied: another page may lie there too.
/// Whether there was anything.
///
/// # Errors
/// The GPU does not answer.
#[inline(never)] // stack
pub(super) fn hear(gpu: &Gpu) -> huvm_hal::Result<bool> {
    if gpu.is_lost() || !gpu.ext().is_some_and(|e| e.ecc) {
        return Ok(false);
    }
    let _one_at_a_time = gpu.reports.lock();
    let (reports, overflow) = ecc::look(gpu)?;
    if overflow {
        // What it had no room for is found again by the next who reads it, but for the CPU.
        gpu.chunks().note_missed();
        pr_warn!(
            "gpu {}: more memory errors than it can report\n",
            gpu.index()
        );
    }
    for _ in 0..reports {
        match ecc::take_report(gpu) {
            Ok(Some(page)) => note(gpu, page),
            Ok(None) => break,
            Err(e) => {
                // It may have been taken.
                gpu.chunks().note_missed();
                return Err(e);
            }
        }
    }
    Ok(reports != 0)
}

/// The number of a page of a chunk in the GPU's memory.
fn number(id: ChunkId, page: PageIndex) -> Option<u32> {
    let first = id.0.checked_mul(BLOCK_PAGES.into())?;
    first.checked_add(page.get().into())
}

/// A launch met memory that failed at `va`, and [`attend`] was called since. Whether the fault can be served like any other: by
/// another copy, or as the access to a page that is lost. `blindly`: also a chunk of which nothing was reported is taken out of
/// service, for the launch would meet it for ever. Else it is good: the packet was late, and the block has a new one since.
#[inline(never)] // stack
pub(super) fn relieve(gpu: &Arc<Gpu>, client: &Client, va: u64, blindly: bool) -> bool {
    let Ok(block) = client.space.block_at(va) else {
        // No address of the client's.
        return true;
    };
    let page = PageIndex::of_va(va);
    let chunk = {
        let s = block.settled();
        match s.part(gpu.index()) {
            // Memory of the host: nothing can be done about that.
            Some(p) if p.remote.test(page) => return !blindly,
            Some(p) if p.valid.test(page) => p.chunk,
            // It is gone from there already.
            _ => return true,
        }
    };
    let bad = chunk.filter(|id| blindly || gpu.chunks().is_condemned(*id));
    let vram = bad.and_then(|id| number(id, page));
    vram.is_none_or(|page| {
        note(gpu, page);
        condemn(gpu, page).left.is_ok()
    })
}

/// Remembers a page that was told, not met by a copy engine.
fn note(gpu: &Gpu, page: u32) {
    gpu.chunks()
        .note_failed(poison::chunk_of(page), poison::index_of(page));
}

/// Sees to it that `block` has no chunk on `gpu` in which some of `pages`, which are not there, cannot be: nothing that is written to
/// such a page tells of it. It is empty then, or in the hands of somebody who empties it. With no block locked.
///
/// # Errors
/// `ENOMEM`, `EIO`: it still has it. `EAGAIN`: it has, but a road that was there is gone, or a GPU was silent for a moment.
#[inline(never)] // stack
pub(super) fn make_way(gpu: &Arc<Gpu>, block: &Block, pages: &PageMask) -> Result {
    let here = Place::Gpu(gpu.index());
    let chunk = {
        let s = block.settled();
        let missing = pages
            .and(&s.managed)
            .and_not(&s.gone())
            .and_not(&s.valid_at(here));
        let part = s.part(gpu.index());
        part.filter(|_| s.cannot_be(here, &missing))
            .and_then(|p| p.chunk)
    };
    let first = chunk.and_then(|id| number(id, PageIndex::FIRST));
    match first.map_or(Ok(()), |page| condemn(gpu, page).left) {
        Err(e) if e == EXDEV => Err(EAGAIN),
        did => did,
    }
}

/// Page `page` of a GPU's memory failed, it is said.
#[inline(never)] // stack
fn condemn(gpu: &Arc<Gpu>, page: u32) -> Done {
    let id = poison::chunk_of(page);
    let mut done = Done {
        is_new: false,
        left: Ok(()),
    };
    let Some(condemned) = gpu.chunks().condemn(id) else {
        return done;
    };
    done.is_new = condemned.is_new;
    let (mut lost, mut owner) = (0, None);
    if let Some(victim) = condemned.victim {
        owner = victim.owner.clone();
        match empty(gpu, victim) {
            Ok(n) => lost = n,
            Err(e) => done.left = Err(e),
        }
    }
    if !done.is_new {
        return done;
    }
    account::count(Some(gpu), None, Counter::ChunksRetired, 1);
    pr_warn!(
        "gpu {}: memory failed at {:#x}; chunk {} is out of service, {} pages lost\n",
        gpu.index(),
        u64::from(page) * PAGE_BYTES,
        id.0,
        lost
    );
    events::emit(
        owner.as_ref().map(|b| &**b.space()),
        &events::Event {
            kind: uapi::HUVM_EVENT_RETIRED,
            cause: uapi::HUVM_CAUSE_NONE,
            gpu: u32::from(gpu.index()),
            va: owner.as_ref().map_or(0, |b| b.va()),
            length: BLOCK_BYTES,
            arg0: page.into(),
            arg1: lost.into(),
        },
    );
    done
}

/// Empties a condemned chunk, which is then retired. Returns how many pages of its block are lost that were in it: by that, or by the copy that
/// met them before.
///
/// # Errors
/// `ENOMEM`, `EIO`: the block still has it.
#[inline(never)] // stack
fn empty(gpu: &Arc<Gpu>, victim: Victim) -> Result<u32> {
    let Victim { chunk, owner, .. } = victim;
    let pool = gpu.chunks();
    let id: ChunkId = chunk.id();
    let Some(block) = owner else {
        // Its block lets go of it right now.
        pool.abort(chunk);
        return Ok(0);
    };
    let is_lent = {
        let s = block.settled();
        s.spare.as_ref().is_some_and(|s| s.is(gpu, id))
    };
    let mut after = Tracker::EMPTY;
    let did = if is_lent {
        harvest::take_back(gpu, &block, id, &mut after).map(drop)
    } else {
        evict::empty(gpu, &block, id, Need::Owner, false, &mut after)
    };
    if let Err(e) = did {
        harvest::leave(gpu, &block, chunk);
        return Err(e);
    }
    // Published: what its engine met by then is known.
    let lost = block.settled().lost;
    let lost = lost.and(&gpu.known_to_fail(id)).count().get();
    if let Ok(free) = pool.hand_over(chunk) {
        pool.give_back(free);
    }
    Ok(lost)
}
