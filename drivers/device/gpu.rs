// SPDX-License-Identifier: GPL-2.0
//! One GPU.

use super::bell::Bell;
use super::faults::Packets;
use super::loss::Loss;
use super::registry::{self, MAX_GPUS};
use crate::account;
use crate::account::counters::{Counter, Counters};
use crate::account::events;
use crate::account::latency::Latencies;
use crate::account::policy::GpuPolicy;
use crate::account::waits::{Listed, What};
use crate::channel::{self, poison, Ce, Engine, Pool, Tracker};
use crate::kernel::dma::{DmaBuf, DmaDev, DmaMapping};
use crate::kernel::ffi::uapi;
use crate::kernel::hostpage::HostPages;
use crate::kernel::memcg::{For, MemCg, CHARGED};
use crate::kernel::mmio::{Bars, VramWindow};
use crate::kernel::pci::{clear_master, insist};
use crate::kernel::wait::WaitQueue;
use crate::memory::chunk::ChunkPool;
use crate::memory::clients::Clients;
use crate::memory::gpu_space::SpaceGpu;
use crate::memory::host_pool::HostPool;
use crate::memory::reserve;
use crate::memory::PageMask;
use crate::service::fair::Activity;
use crate::service::launch::Slots;
use crate::service::prefetch;
use huvm_hal::ext::discover::Extension;
use huvm_hal::ga100::bringup::{self, Identity};
use huvm_hal::ga100::invalidate::{self, CancelAccess, ReplayKind};
use huvm_hal::ids::{GpuVa, SysAddr};
use huvm_hal::pagetable::Invalidate;
use huvm_hal::seam::{Bar, Fence, Mmio};
use huvm_hw::ext::ident::FEATURE_STATS;
use huvm_lockless::cause::Cause;
use huvm_policy::chunk::ChunkState;
use huvm_policy::spare::{LinkFacts, SpareCursor};
use huvm_policy::types::ChunkId;
use kernel::pci;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_mutex, new_spinlock, Arc, Mutex, SpinLock};

/// How long an invalidate or a replay may take. The device completes them in microseconds of its time.
const COMMAND_NS: u64 = 2_000_000_000;
/// NV_PMC_BOOT_0: never all ones.
const BOOT_0: u32 = 0;
/// NV_PBUS_BAR1_BLOCK (hw-interface.md 7.2); 0: BAR1 is the GPU's memory as it is. Bit 31: by way of page tables.
const BAR1_BLOCK: u32 = 0x1704;
const BAR1_VIRTUAL: u32 = 1 << 31;
/// No peer id.
pub(super) const NO_PEER: u32 = u32::MAX;

/// One GPU. See the module's description for how long it lives.
#[pin_data]
pub(crate) struct Gpu {
    index: u8,
    name: [u8; 32],
    identity: Identity,
    ext: Option<Extension>,
    pub(super) pdev: ARef<pci::Device>,
    pub(super) bars: Arc<Bars>,
    pub(super) dma: Arc<DmaDev>,
    /// Why it is lost, as [`Loss::pack`] has it; 0 while it is not.
    lost: Cause,
    /// Chunks that it lent to GPUs that may still write them though they are lost.
    forfeited: Atomic<u32>,
    /// GPUs whose chunks it may still write though it is lost.
    may_write: [Atomic<bool>; MAX_GPUS],
    /// Peer id of each GPU, or [`NO_PEER`].
    pub(super) peers: [Atomic<u32>; MAX_GPUS],
    /// Bandwidth of the link to each GPU that has a peer id, MB/s.
    pub(super) peer_mbps: [Atomic<u32>; MAX_GPUS],
    /// Links that were up when they were looked at last, a bitmap. At first all are taken to be, as they are when they are named.
    pub(super) links_up: Atomic<u64>,
    /// Peer ids are given and taken one at a time.
    #[pin]
    pub(super) naming: Mutex<()>,
    /// Whose turn it is to keep a chunk for this GPU.
    #[pin]
    spare: SpinLock<SpareCursor>,
    /// The thread that looks after what this GPU lends.
    #[pin]
    pub(crate) lend: Bell,
    /// The thread that evicts ahead of demand.
    #[pin]
    pub(crate) pre_evict: Bell,
    /// The thread that fetches ahead, and what waits for it.
    #[pin]
    pub(crate) prefetch: Bell,
    #[pin]
    pub(crate) prefetch_queue: prefetch::Queue,
    /// The thread that keeps host memory ready, and that memory.
    #[pin]
    pub(crate) refill: Bell,
    host_pool: Arc<HostPool>,
    /// Fewer free chunks than this wake pre-eviction.
    pub(crate) pre_evict_low: Atomic<u32>,
    /// Blocks fetched ahead to here of which nobody knows yet whether they are used.
    pub(crate) ahead: Atomic<u32>,
    /// Blocks that a batch of faults is about: the most of late.
    pub(crate) front: Atomic<u32>,
    /// Faults that wait for a chunk.
    pub(crate) demand: Atomic<u32>,
    /// 1 while a batch of faults is served that is about more blocks than there are chunks, else 0.
    pub(crate) crowded: Atomic<bool>,
    /// Until when some who got no further take turns ([`Turns`](huvm_policy::standstill::Turns)), ns; and victims are chosen by chance in this one.
    pub(crate) turns_until: Atomic<u64>,
    pub(crate) turn_by_chance: Atomic<bool>,
    /// Of its faults.
    pub(super) packets: Packets,
    /// Which spaces use it.
    pub(crate) activity: Activity,
    /// The invalidate registers take one command at a time. An invalidate that nobody waits for may be under way.
    #[pin]
    commands: Mutex<bool>,
    #[pin]
    channels: Pool,
    #[pin]
    chunks: ChunkPool,
    #[pin]
    clients: Clients,
    counters: Counters,
    latencies: Arc<Latencies>,
    #[pin]
    policy: GpuPolicy,
    #[pin]
    launches: Slots,
    /// The thread that serves faults, and whether it is to look at what is said of the memory.
    #[pin]
    pub(super) faults: Bell,
    called: Atomic<bool>,
    /// Reports of memory that failed are taken one at a time, and known before the next one is.
    #[pin]
    pub(crate) reports: Mutex<()>,
    /// Interrupts by MSI-X entry and the last vector, for self tests.
    pub(super) irq_seen: [Atomic<u32>; 4],
    pub(super) irq_vector: Atomic<u32>,
    #[pin]
    pub(super) irq_wait: WaitQueue,
    /// The last fault of a copy engine, for self tests.
    #[pin]
    pub(super) ce_fault: SpinLock<Option<huvm_hal::ga100::fault::Fault>>,
    /// A self test looks after copy-engine faults itself.
    pub(super) ce_fault_held: Atomic<bool>,
    /// One self test at a time.
    #[pin]
    pub(super) selftest: Mutex<()>,
}

/// What a GPU is made from.
pub(super) struct Parts {
    pub(super) index: u8,
    pub(super) name: [u8; 32],
    pub(super) identity: Identity,
    pub(super) ext: Option<Extension>,
    pub(super) pdev: ARef<pci::Device>,
    pub(super) bars: Arc<Bars>,
    pub(super) dma: Arc<DmaDev>,
}

impl Gpu {
    pub(super) fn new(p: Parts) -> Result<Arc<Gpu>> {
        let Parts {
            index,
            name,
            identity,
            ext,
            pdev,
            bars,
            dma,
        } = p;
        let chunks = ChunkPool::new(identity.vram_bytes)?;
        let clients = Clients::new()?;
        let queue = prefetch::Queue::new()?;
        let host_pool = HostPool::new()?;
        let launches = Slots::new()?;
        let latencies = Arc::new(Latencies::new(), GFP_KERNEL)?;
        Arc::pin_init(
            try_pin_init!(Gpu {
                index,
                name,
                identity,
                ext,
                pdev,
                bars,
                dma,
                lost: Cause::new(),
                forfeited: Atomic::new(0),
                may_write: [const { Atomic::new(false) }; MAX_GPUS],
                peers: [const { Atomic::new(NO_PEER) }; MAX_GPUS],
                peer_mbps: [const { Atomic::new(0) }; MAX_GPUS],
                links_up: Atomic::new(u64::MAX),
                naming <- new_mutex!((), "huvm_peer_names"),
                spare <- new_spinlock!(SpareCursor::new(), "huvm_spare_cursor"),
                lend <- Bell::new(),
                pre_evict <- Bell::new(),
                prefetch <- Bell::new(),
                prefetch_queue <- queue,
                refill <- Bell::new(),
                host_pool,
                pre_evict_low: Atomic::new(0),
                ahead: Atomic::new(0),
                front: Atomic::new(0),
                demand: Atomic::new(0),
                crowded: Atomic::new(false),
                turns_until: Atomic::new(0),
                turn_by_chance: Atomic::new(false),
                packets: Packets::new(),
                activity <- Activity::init(),
                commands <- new_mutex!(false, "huvm_gpu_commands"),
                channels <- Pool::new(),
                chunks <- chunks,
                clients <- clients,
                counters <- Counters::init(),
                latencies,
                policy <- GpuPolicy::new(CHARGED, true)?,
                launches <- launches,
                faults <- Bell::new(),
                called: Atomic::new(false),
                reports <- new_mutex!((), "huvm_ecc_reports"),
                irq_seen: [const { Atomic::new(0) }; 4],
                irq_vector: Atomic::new(0),
                irq_wait <- WaitQueue::new(),
                ce_fault <- new_spinlock!(None, "huvm_ce_fault"),
                ce_fault_held: Atomic::new(false),
                selftest <- new_mutex!((), "huvm_selftest"),
            }? Error),
            GFP_KERNEL,
        )
    }

    /// Index of the GPU in the machine, 0..15.
    pub(crate) fn index(&self) -> u8 {
        self.index
    }

    /// "0000:00:02.0".
    pub(crate) fn name(&self) -> &str {
        let len = self.name.iter().position(|b| *b == 0).unwrap_or(0);
        let name = self.name.get(..len).unwrap_or(&[]);
        core::str::from_utf8(name).unwrap_or("?")
    }

    /// What bring-up found.
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// What the extension says, if there is one.
    pub(crate) fn ext(&self) -> Option<&Extension> {
        self.ext.as_ref()
    }

    /// Its channels.
    pub(crate) fn channels(&self) -> &Pool {
        &self.channels
    }

    /// Its memory.
    pub(crate) fn chunks(&self) -> &ChunkPool {
        &self.chunks
    }

    /// Host memory ready for its evictions.
    pub(crate) fn host_pool(&self) -> &Arc<HostPool> {
        &self.host_pool
    }

    /// The spaces that use it.
    pub(crate) fn clients(&self) -> &Clients {
        &self.clients
    }

    /// Its counters.
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How long things take on it.
    pub(crate) fn latencies(&self) -> &Arc<Latencies> {
        &self.latencies
    }

    /// Its policy.
    pub(crate) fn policy(&self) -> &GpuPolicy {
        &self.policy
    }

    /// Its launches.
    pub(crate) fn launches(&self) -> &Slots {
        &self.launches
    }

    /// Whether it was removed or is dead: every operation fails.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.is_declared()
    }

    /// Why it is lost, as `enum huvm_lost`, and what that names; (0, 0) while it is not.
    pub(crate) fn loss(&self) -> (u32, u32) {
        Loss::unpack(self.lost.why())
    }

    /// Chunks that it lent and does not use again, because the borrower was lost and may still write them.
    pub(crate) fn forfeited(&self) -> u32 {
        self.forfeited.load(Relaxed)
    }

    /// Whether an engine of it may write memory of the GPU of index `lender` at any time, though it is lost. Whoever has that index
    /// then knows nothing of it.
    pub(super) fn may_write(&self, lender: u8) -> bool {
        let lender = self.may_write.get(usize::from(lender));
        lender.is_some_and(|writes| writes.load(Relaxed))
    }

    /// # Errors
    /// `EIO` when it is lost.
    pub(crate) fn check(&self) -> Result {
        if self.is_lost() {
            return Err(EIO);
        }
        Ok(())
    }

    /// Marks it lost, says why (once), and wakes everybody who waits for it. May wait a second.
    ///
    /// It may live on. So it is kept from all memory but its own before anybody can know: who then frees or lends on what
    /// the GPU had mapped need not ask it to forget the translations. What an engine has on its way to a neighbour has arrived,
    /// or the neighbour never uses again what it lent to this GPU. One that does not answer may have an
    /// engine that copies, too; it is gone for good when it says nothing for a tenth of a second.
    pub(crate) fn mark_lost(&self, why: Loss) {
        if self.is_lost() {
            return;
        }
        let _gone_else = insist(|| self.cut_off());
        if !self.channels.are_silent(self.index) {
            self.forfeit();
        }
        self.lose(why);
    }

    /// Begins to take the channels off their engines, and keeps the GPU from the bus. `false` if it may not have heard that.
    fn cut_off(&self) -> bool {
        let mut is_off = true;
        self.channels.silence();
        self.bars.while_mapped(|| is_off = clear_master(&self.pdev));
        is_off
    }

    /// An engine may write what this GPU has borrowed at any time.
    fn forfeit(&self) {
        // CAST: 16.
        for i in 0..registry::MAX_GPUS as u8 {
            if let Some(lender) = registry::bound(i).filter(|l| l.index != self.index) {
                lender.forfeits(self.index, |chunks| chunks.condemn_lent(self.index));
            }
        }
    }

    /// GPU `by`, which was lost, may write chunks of this one at any time, if `condemn` finds any: so many as it puts out of service.
    /// Those that were so already count no more.
    pub(crate) fn forfeits(&self, by: u8, condemn: impl FnOnce(&ChunkPool) -> Option<u32>) {
        let Some(n) = condemn(&self.chunks) else {
            return;
        };
        let borrower = registry::bound(by);
        let at = usize::from(self.index);
        if let Some(writes) = borrower.as_ref().and_then(|b| b.may_write.get(at)) {
            writes.store(true, Relaxed);
        }
        if n == 0 {
            return;
        }
        account::count(Some(self), None, Counter::ChunksRetired, n.into());
        self.forfeited.fetch_add(n, Relaxed);
        self.announce(uapi::HUVM_EVENT_FORFEIT, by.into(), n.into());
        pr_err!(
            "gpu {}: {} chunks that gpu {} borrows are out of service: its engine does not stop\n",
            self.index,
            n,
            by
        );
    }

    fn lose(&self, why: Loss) {
        if !self.lost.declare(why.pack()) {
            return;
        }
        pr_err!("gpu {} ({}) lost: {}\n", self.index, self.name(), why);
        self.announce_loss();
    }

    /// Marks it lost because its driver is leaving in good order.
    pub(super) fn retire(&self) {
        if self.lost.declare(Loss::Unbound.pack()) {
            self.announce_loss();
        }
    }

    fn announce_loss(&self) {
        self.channels.fail();
        self.faults.ring();
        self.irq_wait.wake_all();
        self.launches.wake_all();
        self.lend.ring();
        self.pre_evict.ring();
        self.refill.ring();
        let (why, named) = self.loss();
        self.announce(uapi::HUVM_EVENT_GPU_LOST, why.into(), named.into());
    }

    /// An event of the GPU itself, of nobody's memory.
    pub(super) fn announce(&self, kind: u32, arg0: u64, arg1: u64) {
        events::emit(
            None,
            &events::Event {
                kind,
                cause: uapi::HUVM_CAUSE_NONE,
                gpu: u32::from(self.index),
                va: 0,
                length: 0,
                arg0,
                arg1,
            },
        );
    }

    /// Says that something went wrong that nobody asked for. Quiet when it is lost.
    pub(crate) fn complain(&self, what: &str, e: Error) {
        if !self.is_lost() {
            pr_err!("gpu {}: {}: {:?}\n", self.index, what, e);
        }
    }

    /// The kernel's error for one of the hardware crate; a device that is gone is marked lost, as by [`Self::mark_lost`].
    pub(crate) fn hal<T>(&self, r: huvm_hal::Result<T>) -> Result<T> {
        r.map_err(|e| {
            if e == huvm_hal::Error::Gone {
                self.mark_lost(Loss::Gone);
            }
            channel::errno(e)
        })
    }

    /// A coherent buffer for it, zeroed.
    ///
    /// # Errors
    /// `ENOMEM`; `ENODEV` when it is going.
    pub(crate) fn dma_alloc(&self, bytes: usize) -> Result<DmaBuf> {
        DmaBuf::new(&self.dma, bytes)
    }

    /// As [`Self::dma_alloc`], charged to `memory`.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn dma_alloc_for(&self, memory: &MemCg, bytes: usize) -> Result<DmaBuf> {
        memory.asked(For::Records, || DmaBuf::charged(&self.dma, bytes))
    }

    /// Maps host pages for it.
    ///
    /// # Errors
    /// `ENOMEM`; `ENODEV` when it is going.
    pub(crate) fn dma_map(&self, pages: &HostPages) -> Result<DmaMapping> {
        DmaMapping::new(&self.dma, pages)
    }

    /// Peer id by which it names GPU `gpu`; `None` if it cannot reach that: without a link, or when a copy over one failed for
    /// good.
    pub(crate) fn peer_id(&self, gpu: u8) -> Option<u8> {
        // Most of sixteen are not there.
        let id = u8::try_from(self.peers.get(usize::from(gpu))?.load(Relaxed)).ok()?;
        let works = self.channels.works(Engine::Peer) && self.channels.works(Engine::PeerIn);
        works.then_some(id)
    }

    /// The link to GPU `gpu`; `None` if it cannot reach that.
    pub(crate) fn link_to(&self, gpu: u8) -> Option<LinkFacts> {
        self.peer_id(gpu)?;
        Some(LinkFacts {
            mb_per_s: self.peer_mbps.get(usize::from(gpu))?.load(Relaxed),
            queued: 0,
        })
    }

    /// Bandwidth of its host link, the faster direction, MB/s; 0 if nobody says.
    pub(crate) fn host_mbps(&self) -> u32 {
        self.ext
            .as_ref()
            .and_then(|e| e.topology.as_ref())
            .map_or(0, |t| t.host_h2d_mbps.max(t.host_d2h_mbps))
    }

    /// Bandwidth of its memory, MB/s; 0 if nobody says, or counts who takes it.
    pub(crate) fn vram_mbps(&self) -> u32 {
        self.ext
            .as_ref()
            .filter(|e| e.has(FEATURE_STATS))
            .and_then(|e| e.topology.as_ref())
            .map_or(0, |t| t.vram_mbps)
    }

    /// Whose turn it is to keep a chunk for this GPU.
    pub(crate) fn spare_cursor<R>(&self, f: impl FnOnce(&mut SpareCursor) -> R) -> R {
        f(&mut self.spare.lock())
    }

    /// A chunk was taken: wakes pre-eviction if few are left.
    pub(crate) fn note_taken(&self) {
        let low = self.pre_evict_low.load(Relaxed);
        if low != 0 && self.chunks.in_state(ChunkState::Free) < low {
            self.pre_evict.ring();
        }
    }

    /// The GPU's clock, ns.
    ///
    /// # Errors
    /// `EIO`.
    pub(crate) fn ptimer_ns(&self) -> Result<u64> {
        self.hal(bringup::ptimer_ns(self))
    }

    /// Drops the translations that `inv` covers of the space with this root. Where a page lost something, waits until none is
    /// in use; else only misses are dropped, which cost a fault at worst, and the next command waits.
    ///
    /// # Errors
    /// `EIO` when it is lost, or is so from now on.
    pub(crate) fn tlb_invalidate(&self, root: SysAddr, inv: &Invalidate) -> Result {
        let mut posted = self.command()?;
        self.settle(&mut posted)?;
        self.hal(invalidate::post_va(self, root, inv))?;
        *posted = true;
        if inv.downgrade {
            self.settle(&mut posted)?;
        }
        Ok(())
    }

    /// The right to give a command. Whoever waited for it behind one that was not acknowledged does not wait for his own too.
    fn command(&self) -> Result<impl core::ops::DerefMut<Target = bool> + '_> {
        self.check()?;
        let posted = self.commands.lock();
        self.check()?;
        Ok(posted)
    }

    /// How long a command is waited for.
    fn patience(&self) -> Listed {
        Listed::new(What::Command, self.index, 0, COMMAND_NS)
    }

    /// Waits for the last invalidate if nobody did.
    fn settle(&self, posted: &mut bool) -> Result {
        if *posted {
            let mut patience = self.patience();
            let did = invalidate::settle_va(self, &mut || patience.again());
            self.acknowledged(did, Loss::Invalidate)?;
            *posted = false;
        }
        Ok(())
    }

    /// The end of a command. Without one nobody knows what the GPU still uses, or what it waits for: it is lost.
    fn acknowledged(&self, did: huvm_hal::Result<()>, why: Loss) -> Result {
        if matches!(did, Err(huvm_hal::Error::Timeout(_))) {
            self.mark_lost(why);
        }
        self.hal(did)
    }

    /// Lets the requests that wait for a page try again; with `wait`, until all were translated (or faulted again).
    ///
    /// # Errors
    /// As [`Self::tlb_invalidate`].
    pub(crate) fn replay(&self, wait: bool) -> Result {
        let kind = if wait {
            ReplayKind::StartAckAll
        } else {
            ReplayKind::Start
        };
        let mut posted = self.command()?;
        self.settle(&mut posted)?;
        let mut patience = self.patience();
        let did = invalidate::replay(self, kind, &mut || patience.again());
        self.acknowledged(did, Loss::Replay)
    }

    /// Fails the requests of one space for the page at `va`; everything else tries again.
    ///
    /// # Errors
    /// `EIO` when it is lost or the channel broken.
    pub(crate) fn cancel(&self, sg: &SpaceGpu, va: u64, access: CancelAccess) -> Result {
        self.check()?;
        let fence = self
            .channels
            .submit(Engine::Local, &Tracker::EMPTY, |push| {
                push.cancel_va(sg.root(), sg.veid(), GpuVa(va), access)
            })?;
        let mut done = Tracker::EMPTY;
        channel::add(&mut done, fence);
        channel::wait(&done)
    }

    /// `len` bytes of its memory from `at` on, as the CPU sees them. To be dropped before it leaves.
    ///
    /// # Errors
    /// `EINVAL` if its aperture does not reach that far, `EIO` if that shows something else, `EAGAIN` if the GPU does not answer, `ENOMEM`.
    pub(crate) fn window(&self, at: u64, len: usize) -> Result<VramWindow> {
        // An earlier owner may have had it so.
        self.write32(Bar::Regs, BAR1_BLOCK, 0);
        match self.read32(Bar::Regs, BAR1_BLOCK) {
            u32::MAX => return Err(EAGAIN),
            set if set & BAR1_VIRTUAL != 0 => return Err(EIO),
            _ => {}
        }
        VramWindow::map(&self.pdev, 1, at, len)
    }

    /// Pages of one of its chunks that are known to have failed: its copy engines met them, or it said so.
    pub(crate) fn known_to_fail(&self, id: ChunkId) -> PageMask {
        poison::met_at_home(self.index, id).or(&self.chunks.failed(id))
    }

    /// As [`Self::known_to_fail`], and what engines of others met there: what is copied to these pages is not to be relied on.
    pub(crate) fn unfit(&self, id: ChunkId) -> PageMask {
        poison::met(self.index, id).or(&self.chunks.failed(id))
    }

    /// Whether more of its memory failed than it could say, or its copy engines note.
    pub(crate) fn has_unknown_failures(&self) -> bool {
        poison::is_short(self.index) || self.chunks.has_missed()
    }

    /// Wakes its service thread, to see to what is said of its memory.
    pub(crate) fn call_for_service(&self) {
        self.called.store(true, Relaxed);
        self.faults.ring();
    }

    /// Whether somebody did, since the last look.
    pub(super) fn is_called(&self) -> bool {
        self.called.load(Relaxed) && self.called.xchg(false, Relaxed)
    }

    /// Whether it answers now.
    pub(crate) fn answers(&self) -> bool {
        self.read32(Bar::Regs, BOOT_0) != !0
    }

    /// Its copy engines.
    ///
    /// # Errors
    /// `ENOMEM`; `EINVAL` for more than there can be.
    pub(super) fn copy_engines(&self) -> Result<KVec<Ce>> {
        let mut all = KVec::new();
        for (n, engine) in self.identity.engines.iter().flatten().enumerate() {
            let vram = self.identity.vram_bytes;
            let caps = self
                .ext
                .as_ref()
                .and_then(|e| e.ce_caps.get(usize::from(engine.number)).copied().flatten());
            all.push(
                Ce {
                    engine: *engine,
                    caps,
                    method_buffer: reserve::method_buffer(vram, n).ok_or(EINVAL)?,
                },
                GFP_KERNEL,
            )?;
        }
        Ok(all)
    }
}

impl Fence for Gpu {
    fn wmb(&self) {
        self.bars.wmb()
    }
    fn rmb(&self) {
        self.bars.rmb()
    }
}

impl Mmio for Gpu {
    #[inline]
    fn read32(&self, bar: Bar, off: u32) -> u32 {
        self.bars.read32(bar, off)
    }
    #[inline]
    fn write32(&self, bar: Bar, off: u32, val: u32) {
        self.bars.write32(bar, off, val)
    }
}
