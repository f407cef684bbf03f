// SPDX-License-Identifier: GPL-2.0
//! A VA space: one open file of `/dev/huvm`.
//!
//! The space and its blocks refer to each other; [`Space::close`], called when the file goes, breaks the circle.

use super::block::Block;
use super::gpu_space::SpaceGpu;
use super::layout::{Layout, Range};
use super::{block_base, PageMask, Place, BLOCK_BYTES, PAGE_BYTES, VA_LIMIT};
use crate::account::counters::Counters;
use crate::account::events::Stream;
use crate::account::policy::SpacePolicy;
use crate::device::Gpu;
use crate::kernel::file::Mapping;
use crate::kernel::memcg::{For, MemCg, CHARGED_IN_OPEN};
use crate::kernel::task::{self, MmToken};
use crate::kernel::time;
use crate::service;
use crate::service::launch::SpaceLaunches;
use huvm_policy::share::Owner;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_mutex, Arc, Mutex};

/// GPUs of a machine, at most.
pub(crate) const MAX_GPUS: usize = 16;

/// Ranges that are looked at in one hold of the layout's lock. There may be as many as the kernel lets a process map (65,530), and threads
/// that serve everybody wait for the lock.
const RANGES_AT_ONCE: usize = 64;

/// A process that ends closes its files next, and that ends everything, before anybody hears of it. One that is gone for so long has left
/// its file to somebody.
const ORPHAN_NS: u64 = 1_000_000_000;

/// A VA space.
#[pin_data]
pub(crate) struct Space {
    id: u64,
    pid: u32,
    comm: [u8; 32],
    owner: MmToken,
    /// The user that opened it, and whether as an administrator.
    user: u32,
    unbounded: bool,
    /// Whom its host memory is charged to: the memory cgroup of who opened it.
    pub(crate) memory: Arc<MemCg>,
    /// The CPU mappings of this file.
    pub(crate) mapping: Mapping,
    closed: Atomic<bool>,
    /// When the process that opened it was first seen to be gone, ns; 0: it was not.
    over_ns: Atomic<u64>,
    /// When something was unmapped last, ns.
    unmapped_ns: Atomic<u64>,
    /// Counters of this space.
    pub(crate) counters: Counters,
    /// Policy of this space.
    #[pin]
    pub(crate) policy: SpacePolicy,
    /// Event stream of this file.
    #[pin]
    pub(crate) events: Stream,
    /// Launches of this space.
    #[pin]
    pub(crate) launches: SpaceLaunches,
    /// Streams of faults.
    #[pin]
    pub(crate) streams: service::prefetch::Streams,
    /// Detection window of thrashing.
    #[pin]
    pub(crate) thrash: service::thrash::Window,
    #[pin]
    gpus: Mutex<[Use; MAX_GPUS]>,
    #[pin]
    layout: Mutex<Layout>,
    _live: super::registry::Live,
}

/// What a space has to do with a GPU.
enum Use {
    /// Nothing.
    No,
    /// It is registered.
    Of(Arc<SpaceGpu>),
    /// It was, and whoever took it out is about to take what is there out of the blocks ([`Space::has_left`]). Blocks know a GPU
    /// by its number alone, so that it is not registered again before.
    Ends,
}

/// Figures of a space.
#[derive(Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) managed_bytes: u64,
    pub(crate) host_bytes: u64,
    pub(crate) gpu_bytes: [u64; MAX_GPUS],
    pub(crate) gpu_mask: u32,
}

impl Space {
    /// A new space for the calling process, listed in [`super::registry`].
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn create(mapping: Mapping) -> Result<Arc<Self>> {
        let space = Arc::pin_init(
            try_pin_init!(Self {
                id: super::registry::next_id(),
                pid: task::pid(),
                comm: task::comm(),
                owner: MmToken::current().ok_or(EPERM)?,
                user: task::uid(),
                unbounded: task::may_have_more(),
                memory: Arc::new(MemCg::of_current(), CHARGED_IN_OPEN)?,
                mapping,
                closed: Atomic::new(false),
                over_ns: Atomic::new(0),
                unmapped_ns: Atomic::new(0),
                counters <- Counters::init(),
                policy <- SpacePolicy::new(CHARGED_IN_OPEN, false)?,
                events <- Stream::new(),
                launches <- SpaceLaunches::new(),
                streams <- service::prefetch::Streams::new()?,
                thrash <- service::thrash::Window::new(),
                gpus <- new_mutex!([const { Use::No }; MAX_GPUS], "huvm_space_gpus"),
                layout <- new_mutex!(Layout::new(), "huvm_layout"),
                _live: super::registry::Live::new(),
            }? Error),
            CHARGED_IN_OPEN,
        )?;
        super::registry::add(space.clone())?;
        Ok(space)
    }

    /// Number of the space, never used twice.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Process that opened it.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Name of that process, NUL-padded.
    pub(crate) fn comm(&self) -> [u8; 32] {
        self.comm
    }

    /// Whether the caller runs in the address space that opened the file.
    pub(crate) fn is_owner(&self) -> bool {
        self.owner.is_current()
    }

    /// Whether the process that opened the file is gone and somebody else still has that, for so long that it is not just being closed.
    pub(crate) fn is_orphan(&self) -> bool {
        if !self.owner.is_over() {
            return false;
        }
        let now = time::now_ns();
        let seen = self.over_ns.cmpxchg(0, now.max(1), Relaxed);
        seen.is_err_and(|since| now.saturating_sub(since) >= ORPHAN_NS)
    }

    /// Whose it is, where a GPU has few places.
    pub(crate) fn owner(&self) -> Owner {
        Owner {
            process: self.owner.number(),
            user: self.user,
            unbounded: self.unbounded,
        }
    }

    /// Whether the file was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    /// Ends the space: no launch, no page, no table stays. Called once, when the last reference to the file goes, so
    /// no VMA is left.
    pub(crate) fn close(self: &Arc<Self>) {
        self.closed.store(true, Relaxed);
        for i in 0..MAX_GPUS {
            if let Some(sg) = self.take_gpu(i, |_| true) {
                service::teardown::stop_gpu(self, &sg);
            }
        }
        self.drop_pages(0, VA_LIMIT);
        // Last: a GPU that leaves meanwhile takes its mappings out of all that are listed.
        super::registry::remove(self.id);
    }

    /// A range was mapped at `start..end`.
    ///
    /// # Errors
    /// `EPERM` for another process, `EINVAL` beyond what GPUs can address, `ENOMEM`.
    pub(crate) fn add_range(self: &Arc<Self>, start: u64, end: u64, writable: bool) -> Result {
        if !self.is_owner() || self.is_closed() {
            return Err(EPERM);
        }
        if end > VA_LIMIT {
            return Err(EINVAL);
        }
        // With nothing of the driver's locked, as in `block_at`.
        let places = || Ok::<_, Error>((Layout::range_place()?, Layout::range_place()?));
        let (place, spare) = self.memory.charged(places)?;
        let mut spare = Some(spare);
        let edges = {
            let mut layout = self.layout.lock();
            layout.add_range(place, &mut spare, start, Range { end, writable })?;
            // Blocks that exist already can only be the two at the ends: others lie in the new range.
            [layout.block(start), layout.block(end - 1)]
        };
        for block in edges.iter().flatten() {
            let cover = self.layout.lock().cover(block.va());
            block.settled().covered(cover);
        }
        Ok(())
    }

    /// When something was unmapped last, ns; 0: never. Who found nothing at an address sees when that was unmapped, or later.
    pub(crate) fn unmapped_ns(&self) -> u64 {
        self.unmapped_ns.load(Relaxed)
    }

    /// `start..end` was unmapped.
    #[inline(never)] // stack
    pub(crate) fn remove_range(self: &Arc<Self>, start: u64, end: u64) {
        // Meanwhile others may be unmapped, and that cuts none but where they are.
        let is_cut = self.layout.lock().is_cut_by(start, end);
        let tail = is_cut
            .then(|| self.memory.charged(Layout::tail_place))
            .flatten();
        {
            let mut layout = self.layout.lock();
            self.unmapped_ns.store(time::now_ns(), Relaxed);
            layout.remove_range(start, end, tail);
        }
        self.drop_pages(start, end);
    }

    /// Forgets the pages in `start..end`, block by block.
    fn drop_pages(self: &Arc<Self>, start: u64, end: u64) {
        let mut at = start;
        while at < end {
            let Some(block) = self.next_block(at) else {
                break;
            };
            if block.va() >= end {
                break;
            }
            let pages = super::pages_between(block.va(), start, end);
            if service::teardown::drop_pages(&block, &pages) {
                let gone = self.layout.lock().remove_block(&block);
                drop(gone);
            }
            at = block.va() + BLOCK_BYTES;
        }
    }

    /// Whether there is a page of a range at `va`.
    pub(crate) fn manages(&self, va: u64) -> bool {
        self.range_at(va).is_some()
    }

    /// The block at `va`, made if ranges cover any of it.
    ///
    /// # Errors
    /// `EFAULT` if `va` is in no range, `ENOMEM`.
    #[inline(never)] // stack
    pub(crate) fn block_at(self: &Arc<Self>, va: u64) -> Result<Arc<Block>> {
        if self.is_closed() || va >= VA_LIMIT {
            return Err(EFAULT);
        }
        {
            let layout = self.layout.lock();
            if let Some(block) = layout.block(va) {
                return Ok(block);
            }
            if layout.range_at(va).is_none() {
                return Err(EFAULT);
            }
        }
        // With nothing locked: where the client's cgroup is at its limit the kernel looks for memory for long, and threads that serve
        // everybody want the lock.
        let base = block_base(va);
        let (block, place) = self.memory.asked(For::Records, || {
            Ok((Block::new(self.clone(), base)?, Layout::place()?))
        })?;
        let mut layout = self.layout.lock();
        if let Some(made_meanwhile) = layout.block(va) {
            return Ok(made_meanwhile);
        }
        let cover = layout.cover(base);
        if !cover.managed.test(super::PageIndex::of_va(va)) {
            return Err(EFAULT);
        }
        block.lock().covered(cover);
        layout.add_block(place, block.clone());
        Ok(block)
    }

    /// The block at `va`, for threads that serve all: one that is not there yet is made if `may_make`.
    ///
    /// # Errors
    /// As [`Self::block_at`].
    pub(crate) fn block_of_fault(self: &Arc<Self>, va: u64, may_make: bool) -> Result<Arc<Block>> {
        match self.existing_block(va) {
            Some(block) if !self.is_closed() => Ok(block),
            _ if !self.manages(va) => Err(EFAULT),
            _ if !may_make => Err(ENOMEM),
            _ => self.block_at(va),
        }
    }

    /// The block at `va`, if it exists.
    pub(crate) fn existing_block(&self, va: u64) -> Option<Arc<Block>> {
        self.layout.lock().block(va)
    }

    /// Start and end of the range that `va` lies in.
    pub(crate) fn range_at(&self, va: u64) -> Option<(u64, u64)> {
        self.layout.lock().range_at(va)
    }

    /// First existing block at or after `va`. A step of a walk through as many as the client made: others get the CPU meanwhile.
    pub(crate) fn next_block(&self, va: u64) -> Option<Arc<Block>> {
        task::give_way();
        self.layout.lock().next_block(va)
    }

    /// The space on a GPU, if registered.
    pub(crate) fn on_gpu(&self, gpu: u8) -> Option<Arc<SpaceGpu>> {
        match self.gpus.lock().get(usize::from(gpu)) {
            Some(Use::Of(sg)) => Some(sg.clone()),
            _ => None,
        }
    }

    /// Bit per registered GPU.
    pub(crate) fn gpu_mask(&self) -> u32 {
        let gpus = self.gpus.lock();
        (0u32..)
            .zip(gpus.iter())
            .fold(0, |m, (i, g)| m | (u32::from(matches!(g, Use::Of(_))) << i))
    }

    fn take_gpu(
        &self,
        index: usize,
        is: impl FnOnce(&Arc<SpaceGpu>) -> bool,
    ) -> Option<Arc<SpaceGpu>> {
        let mut gpus = self.gpus.lock();
        let slot = gpus.get_mut(index)?;
        match core::mem::replace(slot, Use::Ends) {
            Use::Of(sg) if is(&sg) => Some(sg),
            other => {
                *slot = other;
                None
            }
        }
    }

    /// Nothing of the space is on a GPU that was taken out any more: it can be registered again.
    pub(crate) fn has_left(&self, gpu: u8) {
        if let Some(slot) = self.gpus.lock().get_mut(usize::from(gpu)) {
            *slot = Use::No;
        }
    }

    /// Takes this registration of a GPU out of the table, if it is still there; the caller stops it. (There may be a later one of
    /// the same GPU, with pages of its own.)
    pub(crate) fn forget_gpu(&self, sg: &Arc<SpaceGpu>) -> bool {
        let taken = self.take_gpu(usize::from(sg.gpu.index()), |s| Arc::ptr_eq(s, sg));
        taken.is_some()
    }

    /// Registers a GPU.
    ///
    /// # Errors
    /// `EEXIST`, `EIO`, `ENODEV` if it leaves, `ENOMEM`, `ENOSPC` without a free subcontext, or with as many as its owner may have.
    #[inline(never)] // stack
    pub(crate) fn register_gpu(self: &Arc<Self>, gpu: &Arc<Gpu>) -> Result {
        if gpu.is_lost() {
            return Err(EIO);
        }
        // Who has it already is told so, also where there is no place for anybody.
        let index = usize::from(gpu.index());
        let is_used = |slot: &Use| !matches!(slot, Use::No);
        if self.gpus.lock().get(index).is_some_and(is_used) {
            return Err(EEXIST);
        }
        let veid = gpu.clients().reserve(self.owner())?;
        SpaceGpu::new(gpu.clone(), veid, self.memory.clone())
            .and_then(|sg| self.enter(sg))
            .inspect_err(|_| gpu.clients().unreserve(veid))
    }

    /// Puts a GPU into the space's table and the space into the GPU's, in one step: who takes one out finds the other, too.
    fn enter(self: &Arc<Self>, sg: Arc<SpaceGpu>) -> Result {
        let mut gpus = self.gpus.lock();
        let slot = gpus.get_mut(usize::from(sg.gpu.index())).ok_or(EINVAL)?;
        if !matches!(slot, Use::No) {
            return Err(EEXIST);
        }
        let clients = sg.gpu.clients();
        clients.publish(sg.veid, self.clone(), sg.clone())?;
        *slot = Use::Of(sg);
        Ok(())
    }

    /// Takes a GPU out of the space: launches end, pages come to the host.
    ///
    /// # Errors
    /// `ENOENT` if it is not registered, `EBUSY` if another thread is about to do the same; `ENOMEM` if pages could not be brought
    /// back: it stays registered.
    #[inline(never)] // stack
    pub(crate) fn unregister_gpu(self: &Arc<Self>, gpu: u8) -> Result {
        let sg = self.on_gpu(gpu).ok_or(ENOENT)?;
        // First, so that nothing comes to the GPU behind the walk: faults, what is fetched ahead, other threads' calls.
        sg.leave()?;
        // Their results can be taken until it is out of the table, and after that if it stays.
        self.launches.stop(self, &sg.gpu);
        self.bring_home(gpu).inspect_err(|_| sg.stay())?;
        if self.forget_gpu(&sg) {
            service::teardown::stop_gpu(self, &sg);
        }
        Ok(())
    }

    /// Brings everything that GPU `gpu` holds to the host.
    fn bring_home(self: &Arc<Self>, gpu: u8) -> Result {
        let mut at = 0;
        while let Some(block) = self.next_block(at) {
            service::migrate::bring_home(&block, gpu)?;
            at = block.va() + BLOCK_BYTES;
        }
        Ok(())
    }

    /// Checks a range argument of a call. Nothing keeps it as it was found: pages may be unmapped meanwhile, and afterwards.
    ///
    /// # Errors
    /// `EINVAL` if it is empty, not page-aligned or too high, `ENOMEM` if it has holes, `EINTR` if the caller is killed.
    pub(crate) fn check_range(&self, va: u64, len: u64) -> Result<u64> {
        let end = va.checked_add(len).ok_or(EINVAL)?;
        if len == 0 || va % PAGE_BYTES != 0 || len % PAGE_BYTES != 0 || end > VA_LIMIT {
            return Err(EINVAL);
        }
        let mut at = va;
        while at < end {
            if task::fatal_signal_pending() {
                return Err(EINTR);
            }
            task::give_way();
            let to = self.layout.lock().covered(at, end, RANGES_AT_ONCE);
            if to == at {
                return Err(ENOMEM);
            }
            at = to;
        }
        Ok(end)
    }

    /// Moves pages now; see `struct huvm_migrate`.
    ///
    /// # Errors
    /// As there; `moved` counts what was done before.
    pub(crate) fn migrate(
        self: &Arc<Self>,
        va: u64,
        len: u64,
        dst: Place,
        moved: &mut u64,
    ) -> Result {
        service::migrate::range(self, va, len, dst, moved)
    }

    /// Gives advice; see `struct huvm_advise`.
    ///
    /// # Errors
    /// As there.
    #[inline(never)] // stack
    pub(crate) fn advise(self: &Arc<Self>, va: u64, len: u64, advice: u32, place: u32) -> Result {
        service::advise::range(self, va, len, advice, place)
    }

    /// Figures, gathered block by block.
    pub(crate) fn usage(&self) -> Usage {
        // Not in one statement: the lock would be held to its end.
        let managed_bytes = self.layout.lock().bytes();
        let mut u = Usage {
            managed_bytes,
            gpu_mask: self.gpu_mask(),
            ..Usage::default()
        };
        let bytes = |m: &PageMask| u64::from(m.count().get()) * PAGE_BYTES;
        let mut at = 0;
        while let Some(block) = self.next_block(at) {
            {
                let s = block.lock();
                u.host_bytes += bytes(&s.host_valid);
                for p in s.parts.iter() {
                    if let Some(b) = u.gpu_bytes.get_mut(usize::from(p.gpu())) {
                        *b += bytes(&p.valid);
                    }
                }
            }
            at = block.va() + BLOCK_BYTES;
        }
        u
    }
}
