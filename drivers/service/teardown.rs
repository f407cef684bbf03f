// SPDX-License-Identifier: GPL-2.0
//! Taking things away: pages at munmap, a GPU at unregister, close or loss.

use super::{evict, map};
use crate::account::waits::{self, Waiting, What};
use crate::channel::Engine;
use crate::device::{Gpu, Loss};
use crate::kernel::time;
use crate::memory::block::{Block, State};
use crate::memory::gpu_space::SpaceGpu;
use crate::memory::space::Space;
use crate::memory::{PageMask, Place, BLOCK_BYTES};
use huvm_policy::chunk::ChunkState;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Forgets pages of a block: no mapping, no copy stays. `true` if that was all of it: the block is dead then and its
/// space lets go of it.
///
/// CPU mappings are the caller's affair: the kernel takes them away before it tells of a munmap.
pub(crate) fn drop_pages(block: &Arc<Block>, pages: &PageMask) -> bool {
    let mut s = block.settled();
    // A GPU that does not answer is lost by now, and can reach nothing any more.
    let _lost = map::unmap_gpus(&mut s, pages);
    s.managed = s.managed.and_not(pages);
    s.writable = s.writable.and_not(pages);
    s.host_valid = s.host_valid.and_not(pages);
    s.cpu_mapped = s.cpu_mapped.and_not(pages);
    s.cpu_read_only = s.cpu_read_only.and_not(pages);
    s.lost = s.lost.and_not(pages);
    s.advice.forget(pages);
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

/// Ends a space's use of a GPU, which the caller took out of its table: launches end, nothing of it stays there. Pages whose only copy is there are lost
/// (who wants them brings them home first).
pub(crate) fn stop_gpu(space: &Arc<Space>, sg: &Arc<SpaceGpu>) {
    let g = sg.gpu.index();
    sg.stop();
    sg.gpu.clients().withdraw(sg.veid);
    space.launches.abort_gpu(space, &sg.gpu);
    let mut at = 0;
    while let Some(block) = space.next_block(at) {
        drop_part(&mut block.settled(), g);
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
    let _lost = s
        .parts
        .get_mut(at)
        .map(|p| map::unmap_part(p, &PageMask::FULL));
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
    until: u64,
}

impl<'a> Leaving<'a> {
    /// Starts now.
    pub(super) fn new(gpu: &'a Arc<Gpu>) -> Self {
        Leaving {
            gpu,
            until: time::now_ns().saturating_add(LEAVE_NS),
        }
    }

    /// Calls `f` until there is memory for it, or time is up; or what failed fails for good, as copies do whose channel was given up.
    pub(super) fn insist<T>(&self, mut f: impl FnMut() -> Result<T>) -> Result<T> {
        let mut waiting = None;
        loop {
            match f() {
                Err(e) if e == ENOMEM || e == EAGAIN || (e == EIO && self.copies()) => {
                    if self.gpu.is_lost() {
                        return Err(e);
                    }
                    if time::now_ns() > self.until {
                        waits::tell();
                        return Err(e);
                    }
                    waiting.get_or_insert_with(|| {
                        Waiting::on(What::Memory, self.gpu.index(), 0, LEAVE_NS)
                    });
                    time::sleep_us(LEAVE_NAP_US);
                }
                did => return did,
            }
        }
    }

    /// Whether the GPU can still copy to the host.
    fn copies(&self) -> bool {
        self.gpu.channels().works(Engine::DeviceToHost)
    }
}

/// A GPU leaves the machine in good order: everything it holds goes to the host while it still answers.
/// Returns the chunks that could not be emptied; pages only in them are lost with the GPU.
pub(crate) fn evacuate(gpu: &Arc<Gpu>) -> u32 {
    let pool = gpu.chunks();
    let leaving = Leaving::new(gpu);
    // Each turn empties a chunk or ends; chunks in other hands come back within a few.
    for _ in 0..pool.count().saturating_add(16) {
        match leaving.insist(|| evict::some(gpu, u32::MAX)) {
            Ok(n) if n != 0 => {}
            _ => break,
        }
    }
    pool.in_state(ChunkState::Used)
}

/// Takes back every DMA mapping that host memory of any space has for a GPU: one that lent has some in blocks of spaces
/// that it does not know. For a GPU that leaves; its copies are over.
pub(crate) fn unmap_host(gpu: &Gpu) {
    let mut id = 0;
    while let Some(space) = crate::memory::registry::next_space(id) {
        let mut at = 0;
        while let Some(block) = space.next_block(at) {
            block.settled().host.unmap_gpu(gpu.index());
            at = block.va() + BLOCK_BYTES;
        }
        id = space.id() + 1;
    }
}

/// A GPU is gone, in good order or not: every space lets go of it.
pub(crate) fn release_clients(gpu: &Arc<Gpu>) {
    for veid in 0..crate::memory::clients::SUBCONTEXTS {
        let Some(client) = u8::try_from(veid).ok().and_then(|v| gpu.clients().get(v)) else {
            continue;
        };
        if client.space.forget_gpu(gpu.index()).is_some() {
            stop_gpu(&client.space, &client.sg);
        }
    }
}
