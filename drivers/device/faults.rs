// SPDX-License-Identifier: GPL-2.0
//! The fault rings of a GPU, and the thread that serves them.

use super::{Gpu, Loss};
use crate::account::waits::{Listed, What, TELL_PACKETS_NS};
use crate::account::{self, counters::Counter};
use crate::channel::{self, poison};
use crate::kernel::dma::DmaBuf;
use crate::kernel::mmio::Bars;
use crate::kernel::pci::keep_off_bus;
use crate::kernel::thread;
use crate::kernel::time;
use crate::service::ecc;
use crate::service::gpu_fault::Service;
use crate::service::launch;
use huvm_hal::ga100::fault::{self, Fault, FaultRing, FaultType, RingKind, PACKET_BYTES};
use huvm_hal::ga100::irq;
use huvm_hal::seam::Wait;
use huvm_lockless::pause::Pause;
use kernel::pci;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::Arc;

/// How long a packet may take to become valid; the device says at most 1 ms (Documentation/device.md 2.6).
const VALID_NS: u64 = 100_000_000;
/// How long the flags of faults may come after the packets of a look at the ring.
pub(super) const FLAG_NS: u64 = 100_000;
/// A ring that gives nothing but errors for so long does not work, nor does its GPU.
const ILL_NS: u64 = 1_000_000_000;
/// And so many of them: the thread that looks may be away for longer.
const ILL_ERRORS: u32 = 5;
/// The thread looks at the rings this often when a client may be stalled, so that a lost interrupt costs time only.
const LOOK_NS: u64 = 20_000_000;
/// And so often when there are no clients.
const IDLE_NS: u64 = 1_000_000_000;
/// The device is asked this often, at least, to send again what is pending.
const ASK_NS: u64 = 100_000_000;
/// Entries of a ring: the device's recommendation, within these bounds.
const ENTRIES: (u32, u32) = (256, 16384);
/// Packets of the non-replayable ring that are read at once, and how often: the largest ring.
const OTHER_BATCH: usize = 32;
const OTHER_ROUNDS: usize = 16384 / OTHER_BATCH;

/// A packet of the replayable ring, with its number ([`next_packet`]).
pub(crate) type Packet = (u64, Fault);

/// Both rings. Belongs to the service thread; disabled when dropped.
pub(crate) struct FaultState {
    /// Index of the GPU.
    gpu: u8,
    bars: Arc<Bars>,
    pdev: ARef<pci::Device>,
    replayable: FaultRing<DmaBuf>,
    other: FaultRing<DmaBuf>,
    replayable_health: Health,
    other_health: Health,
}

/// For a packet of GPU `gpu`.
fn patience(gpu: u8) -> Listed {
    Listed::new(What::Packet, gpu, 0, VALID_NS)
}

/// How far the thread that reads the replayable ring is, for others.
pub(crate) struct Packets {
    passed: Atomic<u64>,
    /// Entries of the ring; 0: there is none yet.
    entries: Atomic<u32>,
}

impl Packets {
    /// No ring.
    pub(super) const fn new() -> Self {
        Packets {
            passed: Atomic::new(0),
            entries: Atomic::new(0),
        }
    }
}

/// The number of the next packet that a GPU writes: those before it are of somebody who was there before. 0 if it does not say.
pub(crate) fn next_packet(gpu: &Gpu) -> u64 {
    // Before PUT: the ring is read meanwhile.
    let passed = gpu.packets.passed.load(Relaxed);
    let entries = gpu.packets.entries.load(Relaxed);
    fault::next_packet(gpu, RingKind::Replayable, entries, passed).unwrap_or(0)
}

/// How a ring does.
#[derive(Default)]
struct Health {
    /// Since when there were errors and no packet, ns; 0: there were none.
    ill_since: u64,
    /// Errors since then.
    errors: u32,
    /// When the first of a row was told.
    told: Pause,
    /// There was an error since [`Self::looked`].
    failed: bool,
}

impl Health {
    /// An error. The first of a row is told, unless one was lately: packets that are good may come in between without end. One that
    /// lasts costs the GPU.
    #[cold]
    fn fails(&mut self, gpu: &Gpu, what: &str, e: Error) {
        self.failed = true;
        self.errors = self.errors.saturating_add(1);
        let now = time::now_ns();
        if self.ill_since == 0 {
            self.ill_since = now.max(1);
            if self.told.is_over(now, TELL_PACKETS_NS) {
                gpu.complain(what, e);
            }
        } else if now.saturating_sub(self.ill_since) >= ILL_NS && self.errors >= ILL_ERRORS {
            gpu.mark_lost(Loss::FaultRing);
        }
    }

    /// A packet came.
    fn works(&mut self) {
        (self.ill_since, self.errors) = (0, 0);
    }

    /// All was looked at: without an error it is well, also if it was empty.
    fn looked(&mut self) {
        if !core::mem::take(&mut self.failed) {
            self.works();
        }
    }
}

/// Reads a ring by `drain`. A packet that does not become valid is passed, and is an error; what was read before comes first.
fn read<T>(
    gpu: &Gpu,
    ring: &mut FaultRing<DmaBuf>,
    health: &mut Health,
    drain: impl FnOnce(&mut FaultRing<DmaBuf>, &mut Listed) -> huvm_hal::Result<T>,
) -> Result<T> {
    let got = drain(ring, &mut patience(gpu.index()));
    let e = match got {
        Ok(got) => return Ok(got),
        Err(e) => e,
    };
    let failed = gpu.hal(Err(e));
    if matches!(e, huvm_hal::Error::Stuck(_)) && gpu.hal(ring.skip(gpu)) == Ok(true) {
        account::count(Some(gpu), None, Counter::PacketsGivenUp, 1);
    }
    if e != huvm_hal::Error::Gone {
        health.fails(gpu, "a fault ring is not read", channel::errno(e));
    }
    failed
}

fn ring(gpu: &Gpu, kind: RingKind) -> Result<FaultRing<DmaBuf>> {
    let entries = gpu.hal(FaultRing::<DmaBuf>::default_entries(gpu, kind))?;
    let entries = entries.clamp(ENTRIES.0, ENTRIES.1) as usize;
    // A whole number of pages: both bounds are multiples of 128 packets.
    let bytes = (entries & !127) * PACKET_BYTES;
    gpu.hal(FaultRing::new(kind, gpu.dma_alloc(bytes)?))
}

impl FaultState {
    /// Makes and enables the rings.
    ///
    /// # Errors
    /// `ENOMEM`, `EIO`.
    pub(super) fn new(gpu: &Gpu) -> Result<Self> {
        let mut rings = FaultState {
            gpu: gpu.index(),
            bars: gpu.bars.clone(),
            pdev: gpu.pdev.clone(),
            replayable: ring(gpu, RingKind::Replayable)?,
            other: ring(gpu, RingKind::NonReplayable)?,
            replayable_health: Health::default(),
            other_health: Health::default(),
        };
        gpu.hal(rings.replayable.enable(gpu))?;
        gpu.hal(rings.other.enable(gpu))?;
        gpu.packets.passed.store(rings.replayable.passed(), Relaxed);
        let entries = rings.replayable.entries();
        gpu.packets.entries.store(entries, Relaxed);
        Ok(rings)
    }

    /// Reads up to `max` packets of the replayable ring into `out`, which is overwritten. 0: the ring was empty. How many there
    /// are is read once: what comes meanwhile is the next batch's, and the run ends when there was none.
    ///
    /// # Errors
    /// `EIO` when a packet did not become valid, and was passed, when the ring's registers make no sense, or the GPU is lost: a
    /// replay must follow. `ENOMEM`.
    #[inline(never)] // stack
    pub(crate) fn drain(
        &mut self,
        gpu: &Gpu,
        out: &mut KVVec<Packet>,
        max: usize,
    ) -> Result<usize> {
        out.clear();
        let n = u32::try_from(max)?;
        // There is room already, for the largest batch.
        out.reserve(max, GFP_KERNEL)?;
        let mut number = self.replayable.passed();
        let got = self.read_replayable(gpu, |ring, patience| {
            ring.drain_each(gpu, n, &mut || patience.again(), |f| {
                let _has_room = out.push_within_capacity((number, f));
                number = number.wrapping_add(1);
            })
        })?;
        if got != 0 {
            self.replayable_health.works();
        }
        Ok(out.len())
    }

    /// The replayable ring gave nothing. If the device says that there is something all the same, and goes on so, it is ill.
    #[inline(never)] // stack
    pub(crate) fn look_for_hidden(&mut self, gpu: &Gpu) {
        // A PUT that is wrong was told by who reads the ring.
        if gpu.hal(self.replayable.hides(gpu)) == Ok(true) {
            self.replayable_health
                .fails(gpu, "a fault ring hides what it has", EIO);
        }
    }

    /// Drops what is in the replayable ring; a replay must follow. Returns how many. `out` has those of which `keeps` says so, by the
    /// address of their instance block, as far as there is room.
    ///
    /// # Errors
    /// As [`Self::drain`].
    #[inline(never)] // stack
    pub(crate) fn flush(
        &mut self,
        gpu: &Gpu,
        keeps: impl FnMut(u64) -> bool,
        out: &mut KVVec<Packet>,
    ) -> Result<u32> {
        out.clear();
        self.read_replayable(gpu, |ring, patience| {
            ring.flush_but(gpu, &mut || patience.again(), keeps, |number, f| {
                let _has_room = out.push_within_capacity((number, f));
            })
        })
    }

    /// As [`read`], and says how far the replayable ring was read.
    fn read_replayable<T>(
        &mut self,
        gpu: &Gpu,
        drain: impl FnOnce(&mut FaultRing<DmaBuf>, &mut Listed) -> huvm_hal::Result<T>,
    ) -> Result<T> {
        let (ring, health) = (&mut self.replayable, &mut self.replayable_health);
        let did = read(gpu, ring, health, drain);
        gpu.packets.passed.store(ring.passed(), Relaxed);
        did
    }

    /// At the end of a run: lets the replayable ring go on after an overflow, or when its GET was damaged on its way; `true` if
    /// that was so, and a replay must follow.
    ///
    /// # Errors
    /// `EIO`: it does not.
    #[inline(never)] // stack
    pub(crate) fn recover(&mut self, gpu: &Gpu) -> Result<bool> {
        let health = &mut self.replayable_health;
        let did = recover(gpu, &mut self.replayable, health);
        health.looked();
        did
    }

    /// Reads the non-replayable ring: faults of copy engines, and cancelled accesses reported again. Whether an engine met memory
    /// that failed.
    #[inline(never)] // stack
    fn serve_other(&mut self, gpu: &Gpu) -> Result<bool> {
        let mut poisoned = false;
        // One for all: packets whose faults somebody saw to already may come without end.
        let mut flags = None;
        let mut late = || {
            flags
                .get_or_insert_with(|| time::Patience::new(FLAG_NS))
                .again()
        };
        let mut batch = [Fault::default(); OTHER_BATCH];
        // No more than there may be in a ring: a device that goes on writing is not waited for.
        for _ in 0..OTHER_ROUNDS {
            let (ring, health) = (&mut self.other, &mut self.other_health);
            let got = read(gpu, ring, health, |ring, patience| {
                ring.drain(gpu, &mut batch, &mut || patience.again())
            });
            // What is behind one that was passed is for the next look, which comes at once.
            let n = got.unwrap_or(0);
            if n != 0 {
                self.other_health.works();
            }
            for f in batch.iter().take(n) {
                one_other(gpu, f, &mut late);
                poisoned |= f.fault_type == FaultType::Poisoned && gpu.is_copy_engine(f.engine);
            }
            if n < batch.len() {
                break;
            }
        }
        // Packets are lost with it. A copy engine that one told of is found by who waits for its channel.
        let health = &mut self.other_health;
        if recover(gpu, &mut self.other, health)? {
            account::count(Some(gpu), None, Counter::Overflows, 1);
        }
        health.looked();
        Ok(poisoned)
    }

    /// Lets the fault vectors interrupt again. What came since the rings were read interrupts at once.
    fn rearm(&self, gpu: &Gpu) {
        for v in gpu.fault_vectors() {
            irq::unmask(gpu, v);
        }
        self.replayable.rearm(gpu);
        self.other.rearm(gpu);
    }
}

/// Lets a ring go on that overflowed, or whose GET was damaged; whether it was so.
fn recover(gpu: &Gpu, ring: &mut FaultRing<DmaBuf>, health: &mut Health) -> Result<bool> {
    if !gpu.hal(ring.overflowed(gpu))? {
        return Ok(false);
    }
    let did = gpu.hal(ring.recover(gpu));
    match did {
        Ok(()) => Ok(true),
        Err(e) => {
            health.fails(gpu, "a fault ring does not go on", e);
            Err(e)
        }
    }
}

impl Drop for FaultState {
    fn drop(&mut self) {
        let mut are_off = true;
        for ring in [&mut self.replayable, &mut self.other] {
            let mut patience = patience(self.gpu);
            let off = ring.disable(&*self.bars, &mut || patience.again());
            are_off &= off.is_ok();
            match off {
                Ok(()) | Err(huvm_hal::Error::Gone) => {}
                Err(e) => pr_err!("fault ring not disabled: {:?}\n", e),
            }
        }
        // Their memory is anybody's next. One that fails to come up ends here, and may only not have answered.
        if !are_off {
            keep_off_bus(&self.pdev);
        }
    }
}

/// A non-replayable packet. A copy engine's launch waits for its channel to be cleared: it tries again, a few times. The channel's flag
/// may come `late`.
fn one_other(gpu: &Gpu, f: &Fault, late: &mut Wait<'_>) {
    account::count(Some(gpu), None, Counter::NonReplayable, 1);
    if !gpu.is_copy_engine(f.engine) {
        return;
    }
    account::count(Some(gpu), None, Counter::CeErrors, 1);
    *gpu.ce_fault.lock() = Some(*f);
    gpu.irq_wait.wake_all();
    if !gpu.ce_fault_held.load(Relaxed) {
        let _gave_up_said_so = gpu.channels().restart(f.engine, late);
    }
}

impl Gpu {
    /// Whether `engine` of a fault packet is one of its copy engines.
    pub(super) fn is_copy_engine(&self, engine: u16) -> bool {
        self.identity()
            .engines
            .iter()
            .flatten()
            .any(|e| e.fault_id == engine)
    }
}

/// The service thread: serves both rings until it is asked to stop.
pub(super) fn serve(gpu: &Arc<Gpu>, rings: &mut FaultState, service: &mut Service) {
    let (mut noted, mut asked) = (poison::notes(), 0);
    while !thread::should_stop() {
        let look = if gpu.clients().count() != 0 {
            LOOK_NS
        } else {
            IDLE_NS
        };
        let told = gpu.faults.hears(look);
        if thread::should_stop() {
            break;
        }
        if gpu.is_lost() {
            service.forget_pins();
            continue;
        }
        // Also where faults go on coming: messages of other vectors may be lost.
        let now = time::now_ns();
        if !told || now.saturating_sub(asked) >= ASK_NS {
            asked = now;
            gpu.ask_for_interrupts();
        }
        // Errors were told. The engine goes on already; who waited for it may have seen to that, and its packet be lost.
        let met = rings.serve_other(gpu) == Ok(true);
        let notes = poison::notes();
        let has_news = notes != core::mem::replace(&mut noted, notes);
        if gpu.is_called() || has_news || met {
            let _news = ecc::attend(gpu);
        }
        // Nobody may be told of the end of a launch that no one waits for.
        launch::look_again(gpu);
        service.run(gpu, rings);
        rings.rearm(gpu);
    }
}
