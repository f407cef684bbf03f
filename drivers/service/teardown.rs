// SPDX-License-Identifier: GPL-2.0
//! Taking things away: pages at munmap, a GPU at unregister, close or loss.

use super::pool::Need;
use super::{evict, harvest, map, pool, thrash};
use crate::account::waits::{self, Listed, Waiting, What};
use crate::channel::Tracker;
use crate::device::{Gpu, Loss};
use crate::kernel::ffi::uapi;
use crate::kernel::{thread, time};
use crate::memory::block::{Block, State};
use crate::memory::clients::Client;
use crate::memory::gpu_space::SpaceGpu;
use crate::memory::space::Space;
use crate::memory::{registry, PageMask, Place, BLOCK_BYTES};
use core::cell::Cell;
use huvm_policy::chunk::ChunkState;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Forgets pages of a block: no mapping, no copy stays. `true` if that was all of it: the block is dead then and its
/// space lets go of it.
///
/// CPU mappings are the caller's affair: the kernel takes them away before it tells of a munmap.
pub(crate) fn drop_pages(block: &Arc<Block>, pages: &PageMask) -> bool {
    let mut s = block.settled();
    map::unmap_gpus(&mut s, pages);
    s.managed = s.managed.and_not(pages);
    s.writable = s.writable.and_not(pages);
    s.host_valid = s.host_valid.and_not(pages);
    s.cpu_mapped = s.cpu_mapped.and_not(pages);
    s.cpu_read_only = s.cpu_read_only.and_not(pages);
    s.forget_lost(pages);
    if !s.advice.is_none() {
        // Who is about to map them for it has to ask again.
        s.advised = s.advised.wrapping_add(1);
        s.advice.forget(pages);
    }
    thrash::reset(&mut s, pages);
    s.forget_beside(Place::Host, pages);
    s.release_empty_chunks();
    let keep = s.managed;
    s.host.release_all_but(&keep);
    if !keep.is_empty() {
        return false;
    }
    s.dead = true;
    while let Some(mut part) = s.parts.pop() {
        clear_tables(&mut part);
    }
    true
}

/// Takes the directory entry to the block's tables away, so that they can be freed.
fn clear_tables(part: &mut crate::memory::block::Part) {
    let sg = part.sg.clone();
    if sg.gpu.is_lost() {
        return;
    }
    let did = sg.change(&mut part.tables, |t, gpu, pde0| Ok(t.unmap_all(gpu, pde0)));
    if did.is_err() {
        sg.gpu.mark_lost(Loss::Invalidate);
    }
}

/// Ends a space's use of a GPU, which the caller took out of its table: launches end, nothing of it stays there. Pages whose
/// only copy is there are lost (who wants them brings them home first).
pub(crate) fn stop_gpu(space: &Arc<Space>, sg: &Arc<SpaceGpu>) {
    let g = sg.gpu.index();
    sg.stop();
    // As long as it runs something the GPU's own end finds it among the clients, and ends that.
    space.launches.abort_gpu(space, &sg.gpu);
    sg.gpu.clients().withdraw(sg.veid);
    let mut at = 0;
    while let Some(block) = space.next_block(at) {
        // One that has nothing there is not waited for: its copies may follow each other without end.
        if block.lock().part(g).is_some() {
            drop_part(&mut block.settled(), g);
        }
        at = block.va() + BLOCK_BYTES;
    }
    if sg.invalidate_all().is_err() && !sg.gpu.is_lost() {
        sg.gpu.mark_lost(Loss::Invalidate);
    }
    sg.gpu.clients().unreserve(sg.veid);
    space.has_left(g);
}

/// Takes a GPU out of a block.
fn drop_part(s: &mut State, g: u8) {
    let Some(at) = s.parts.iter().position(|p| p.gpu() == g) else {
        return;
    };
    if let Some(part) = s.parts.get_mut(at) {
        map::unmap_part(part, &PageMask::FULL);
    }
    let Ok(mut part) = s.parts.remove(at) else {
        return;
    };
    clear_tables(&mut part);
    let only_here = part.valid.and_not(&s.resident());
    s.lost |= only_here;
    if let Some(id) = part.chunk.take() {
        let _who_has_it = part.sg.gpu.chunks().release(id);
        s.left(g);
    }
    s.host.unmap_gpu(g);
}

/// How long a GPU that leaves waits, in all, for host memory for what it alone holds. Then each chunk has one try.
const LEAVE_NS: u64 = 2_000_000_000;
/// Between two tries, microseconds.
const LEAVE_NAP_US: u64 = 10_000;

/// The patience of a GPU that leaves: what cannot be brought home now is lost with it, so it tries again.
pub(super) struct Leaving<'a> {
    gpu: &'a Arc<Gpu>,
    /// Naps that it has left; what copies take is not its patience.
    naps: Cell<u64>,
}

impl<'a> Leaving<'a> {
    /// Starts now.
    pub(super) fn new(gpu: &'a Arc<Gpu>) -> Self {
        Leaving {
            gpu,
            naps: Cell::new(LEAVE_NS / (LEAVE_NAP_US * 1000)),
        }
    }

    /// Calls `f` until there is memory for it, or time is up; or what failed fails for good, as copies do whose channel was given up.
    pub(super) fn insist<T>(&self, mut f: impl FnMut() -> Result<T>) -> Result<T> {
        loop {
            // Listed while it naps, not for what a try takes.
            let mut waiting = None;
            match f() {
                Err(e) if pool::may_pass(self.gpu, e) => {
                    if self.gpu.is_lost() {
                        return Err(e);
                    }
                    if !self.nap(&mut waiting, What::Memory) {
                        waits::tell();
                        return Err(e);
                    }
                }
                did => return did,
            }
        }
    }

    /// Waits until no chunk is in the hands of somebody who empties it: he may put it back, full. Whether there was one, or one of these
    /// `states` is there: he may have done so since it was looked for.
    pub(super) fn may_find_more(&self, states: &[ChunkState]) -> bool {
        let mut waiting = None;
        loop {
            let (evicting, there) = self.gpu.chunks().evicting_and(states);
            if evicting == 0 {
                return waiting.is_some() || there;
            }
            if !self.nap(&mut waiting, What::Chunk) {
                waits::tell();
                return there;
            }
        }
    }

    /// `false` when its patience is at an end.
    fn nap(&self, waiting: &mut Option<Waiting>, what: What) -> bool {
        let Some(left) = self.naps.get().checked_sub(1) else {
            return false;
        };
        self.naps.set(left);
        waiting.get_or_insert_with(|| Waiting::on(what, self.gpu.index(), 0, LEAVE_NS));
        time::sleep_us(LEAVE_NAP_US);
        true
    }
}

/// A GPU leaves the machine in good order: everything it holds goes to the host while it still answers.
/// Returns the chunks that could not be emptied; pages only in them are lost with the GPU.
pub(crate) fn evacuate(gpu: &Arc<Gpu>) -> u32 {
    let pool = gpu.chunks();
    let leaving = Leaving::new(gpu);
    // Each turn empties chunks, or finds one that cannot be emptied, which goes to the end of the line.
    let mut in_vain = 0;
    for _ in 0..pool.count().saturating_mul(2) {
        match leaving.insist(|| evict::some(gpu, u32::MAX)) {
            Ok(0) if !leaving.may_find_more(&[ChunkState::Used]) => break,
            Ok(_) => in_vain = 0,
            Err(_) => in_vain += 1,
        }
        if gpu.is_lost() || in_vain > pool.in_state(ChunkState::Used) {
            break;
        }
    }
    if gpu.is_lost() {
        return pool.in_state(ChunkState::Used);
    }
    let of_blocks = [
        ChunkState::Used,
        ChunkState::LentOnly,
        ChunkState::LentRemovable,
    ];
    match pool.evicting_and(&of_blocks) {
        (0, false) => 0,
        _ => empty_blocks(gpu),
    }
}

/// Empties the chunks that blocks still have on a GPU that leaves, whoever has them in hand: he may wait for long, or not be run, and what
/// is there stands in the block. Takes nothing in any more, so that nobody else gets them meanwhile. Returns how many could not be.
#[inline(never)] // stack
fn empty_blocks(gpu: &Arc<Gpu>) -> u32 {
    let leaving = Leaving::new(gpu);
    let mut left = 0u32;
    registry::each_block(|block| {
        let has = |s: &State| {
            let part = s.part(gpu.index()).filter(|p| Arc::ptr_eq(&p.sg.gpu, gpu));
            let spare = s.spare.as_ref().filter(|s| Arc::ptr_eq(&s.gpu, gpu));
            (part.and_then(|p| p.chunk), spare.map(|s| s.chunk))
        };
        // As in `stop_gpu`.
        if has(&block.lock()) == (None, None) {
            return;
        }
        let (used, lent) = has(&block.settled());
        let mut comes_home = |id, home: &mut dyn FnMut(&mut Tracker) -> Result| {
            if leaving.insist(|| home(&mut { Tracker::EMPTY })).is_err() {
                left = left.saturating_add(1);
                return;
            }
            // Its copies are over. Who had it in hand finds that the block let go of it.
            let _s = block.settled();
            let _who_has_it = gpu.chunks().release(id);
        };
        if let Some(id) = used {
            comes_home(id, &mut |after| {
                evict::empty(gpu, block, id, Need::Owner, false, after)
            });
        }
        if let Some(id) = lent {
            comes_home(id, &mut |after| {
                harvest::take_back(gpu, block, id, after).map(drop)
            });
        }
    });
    left
}

/// Takes back every DMA mapping that host memory of any space has for a GPU: one that lent has some in blocks of spaces
/// that it does not know. For a GPU that leaves; its copies are over.
pub(crate) fn unmap_host(gpu: &Gpu) {
    let g = gpu.index();
    registry::each_block(|block| {
        // As in `stop_gpu`. What a copy under way uses is mapped before it begins, or was given to be copied by the CPU.
        let is_used = {
            let s = block.lock();
            let given = s.inflight.as_ref().and_then(|i| i.given.as_ref());
            s.host.is_mapped_for(g) || given.is_some_and(|(of, _)| of.index() == g)
        };
        if is_used {
            block.settled().host.unmap_gpu(g);
        }
    });
    // What was replaced in a block is with whoever replaced it.
    for other in 0..uapi::HUVM_MAX_GPUS {
        if let Some(other) = crate::device::registry::gpu(other) {
            other.host_pool().sweep();
        }
    }
}

/// Lets go of a GPU for those whose process is gone while somebody else has the file: nobody may end their launches, nor give
/// back their places, and whoever has the file may keep it for ever. Nothing more begins for them, since nobody runs there who could begin it;
/// what they had mapped is gone, or goes, by itself.
pub(crate) fn release_orphans(gpu: &Arc<Gpu>) {
    let mut from = 0;
    while let Some((veid, client)) = gpu.clients().orphan(from) {
        from = veid.saturating_add(1);
        release(&client);
        if thread::should_stop() {
            break;
        }
    }
}

/// A client lets go of its GPU, unless it does so already by itself: its file is being closed, say.
fn release(client: &Client) {
    if client.space.forget_gpu(&client.sg) {
        stop_gpu(&client.space, &client.sg);
    }
}

/// A GPU is gone, in good order or not: every space lets go of it.
pub(crate) fn release_clients(gpu: &Arc<Gpu>) {
    for veid in 0..crate::memory::clients::SUBCONTEXTS {
        let Some(client) = u8::try_from(veid).ok().and_then(|v| gpu.clients().get(v)) else {
            continue;
        };
        release(&client);
    }
    // Who was about to let go of it by himself.
    let mut wait = Listed::new(What::Clients, gpu.index(), 0, CLIENTS_NS);
    while gpu.clients().are_there() {
        if !wait.again() {
            pr_err!("gpu {}: a client does not let go of it\n", gpu.index());
            break;
        }
    }
}

/// How long a client may take that lets go of a GPU by itself: it waits for the copies of all its blocks.
const CLIENTS_NS: u64 = 30_000_000_000;
