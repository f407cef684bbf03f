// SPDX-License-Identifier: GPL-2.0
//! The fault rings of a GPU, and the thread that serves them.

use super::Gpu;
use crate::account::{self, counters::Counter};
use crate::kernel::dma::DmaBuf;
use crate::kernel::mmio::Bars;
use crate::kernel::thread;
use crate::kernel::time::Patience;
use crate::service::ecc;
use crate::service::gpu_fault::Service;
use huvm_hal::ga100::fault::{Fault, FaultRing, FaultType, RingKind, PACKET_BYTES};
use huvm_hal::ga100::irq;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Relaxed};
use kernel::sync::Arc;

/// How long a packet may take to become valid; the device says at most 1 ms (Documentation/device.md 2.6).
const VALID_NS: u64 = 100_000_000;
/// The thread looks at the rings this often when a client may be stalled, so that a lost interrupt costs time only.
const LOOK_NS: u64 = 20_000_000;
/// And so often when there are no clients.
const IDLE_NS: u64 = 1_000_000_000;
/// Entries of a ring: the device's recommendation, within these bounds.
const ENTRIES: (u32, u32) = (256, 16384);
/// Packets of the non-replayable ring that are read at once.
const OTHER_BATCH: usize = 32;

/// Both rings. Belongs to the service thread; disabled when dropped.
pub(crate) struct FaultState {
    bars: Arc<Bars>,
    replayable: FaultRing<DmaBuf>,
    other: FaultRing<DmaBuf>,
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
            bars: gpu.bars.clone(),
            replayable: ring(gpu, RingKind::Replayable)?,
            other: ring(gpu, RingKind::NonReplayable)?,
        };
        gpu.hal(rings.replayable.enable(gpu))?;
        gpu.hal(rings.other.enable(gpu))?;
        Ok(rings)
    }

    /// Reads up to `max` packets of the replayable ring into `out`, which is overwritten. 0: the ring was empty. How many there
    /// are is read once: what comes meanwhile is the next batch's, and the run ends when there was none.
    ///
    /// # Errors
    /// `EIO` when a packet does not become valid or the GPU is lost, `ENOMEM`.
    pub(crate) fn drain(&mut self, gpu: &Gpu, out: &mut KVVec<Fault>, max: usize) -> Result<usize> {
        out.clear();
        let n = u32::try_from(max)?;
        // There is room already, for the largest batch.
        out.reserve(max, GFP_KERNEL)?;
        let mut patience = Patience::new(VALID_NS);
        let got = self
            .replayable
            .drain_each(gpu, n, &mut || patience.again(), |f| {
                let _has_room = out.push_within_capacity(f);
            });
        gpu.hal(got)?;
        Ok(out.len())
    }

    /// Drops what is in the replayable ring; a replay must follow. Returns how many.
    ///
    /// # Errors
    /// `EIO`.
    pub(crate) fn flush(&mut self, gpu: &Gpu) -> Result<u32> {
        let mut patience = Patience::new(VALID_NS);
        gpu.hal(self.replayable.flush(gpu, &mut || patience.again()))
    }

    /// Lets the replayable ring go on after an overflow; `true` if there was one, and a replay must follow.
    ///
    /// # Errors
    /// `EIO`.
    pub(crate) fn recover(&mut self, gpu: &Gpu) -> Result<bool> {
        if !gpu.hal(self.replayable.overflowed(gpu))? {
            return Ok(false);
        }
        gpu.hal(self.replayable.recover(gpu))?;
        Ok(true)
    }

    /// Reads the non-replayable ring: faults of copy engines, and cancelled accesses reported again. Whether an engine met memory
    /// that failed.
    fn serve_other(&mut self, gpu: &Gpu) -> Result<bool> {
        let mut poisoned = false;
        let mut batch = [Fault::default(); OTHER_BATCH];
        loop {
            let mut patience = Patience::new(VALID_NS);
            let n = gpu.hal(self.other.drain(gpu, &mut batch, &mut || patience.again()))?;
            for f in batch.iter().take(n) {
                one_other(gpu, f);
                poisoned |= f.fault_type == FaultType::Poisoned && gpu.is_copy_engine(f.engine);
            }
            if n < batch.len() {
                break;
            }
        }
        if gpu.hal(self.other.overflowed(gpu))? {
            // Packets were lost with it; a copy engine among them is found by the bound on waits for its channel.
            account::count(Some(gpu), None, Counter::Overflows, 1);
            gpu.hal(self.other.recover(gpu))?;
        }
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

impl Drop for FaultState {
    fn drop(&mut self) {
        for ring in [&mut self.replayable, &mut self.other] {
            let mut patience = Patience::new(VALID_NS);
            match ring.disable(&*self.bars, &mut || patience.again()) {
                Ok(()) | Err(huvm_hal::Error::Gone) => {}
                Err(e) => pr_err!("fault ring not disabled: {:?}\n", e),
            }
        }
    }
}

/// A non-replayable packet. A copy engine's launch waits for its channel to be cleared: it tries again, a few times.
fn one_other(gpu: &Gpu, f: &Fault) {
    account::count(Some(gpu), None, Counter::NonReplayable, 1);
    if !gpu.is_copy_engine(f.engine) {
        return;
    }
    account::count(Some(gpu), None, Counter::CeErrors, 1);
    *gpu.ce_fault.lock() = Some(*f);
    gpu.irq_wait.wake_all();
    if !gpu.ce_fault_held.load(Relaxed) {
        let _gave_up_said_so = gpu.channels().restart(f.engine);
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
pub(super) fn serve(gpu: &Arc<Gpu>, mut rings: FaultState, mut service: Service) {
    while !thread::should_stop() {
        let look = if gpu.clients().count() != 0 {
            LOOK_NS
        } else {
            IDLE_NS
        };
        gpu.fault_wait.wait_idle(look, || {
            thread::should_stop() || gpu.fault_pending.load(Acquire)
        });
        if thread::should_stop() {
            break;
        }
        gpu.fault_pending.store(false, Relaxed);
        if gpu.is_lost() {
            continue;
        }
        match rings.serve_other(gpu) {
            // The engine goes on already.
            Ok(true) => {
                let _news = ecc::attend();
            }
            Ok(false) => {}
            Err(e) => gpu.complain("non-replayable fault ring", e),
        }
        service.run(gpu, &mut rings);
        rings.rearm(gpu);
    }
}
