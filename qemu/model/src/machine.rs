// SPDX-License-Identifier: GPL-2.0
//! The machine: all GPUs, what links them, and the one queue of events.
//!
//! The entry points are those of a PCI device: an access to a BAR, the timer, a reset. Each does a
//! bounded amount of work: an access runs at most [`ACCESS`] of due events, the timer at most
//! [`TIMER`]. Work that is left keeps its place in the queue, and [`Machine::next_deadline`] then
//! lies in the past, so that the caller comes back soon.
//!
//! **The model may be slower than the clock.** A launch that streams through local memory takes
//! hundreds of times longer to emulate than to happen. Its events would fall behind the clock for
//! good, and everything asked for later, being later in the queue, would wait for ever longer: a
//! doorbell rung one second into such a launch would be seen minutes after. So an event never
//! happens more than [`LAG_NS`] before the present: what is late takes place late, and what
//! follows from it follows from then.

use huvm_hw::ext;

use crate::config::{GpuConfig, Profile, CES_MAX, CES_MIN, VRAM_MAX_BYTES, VRAM_MIN_BYTES};
use crate::ext::inject::fall;
use crate::fabric::Fabric;
use crate::gpu::{Cx, Gpu};
use crate::host::Host;
use crate::queue::Queue;

/// How much one call may do: it ends when either is used up.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Events.
    pub events: usize,
    /// Bytes moved by them; the last event may go past it.
    pub bytes: u64,
}

/// What one access may run: it holds up a processor of the guest.
pub const ACCESS: Budget = Budget {
    events: 64,
    bytes: 256 << 10,
};
/// What one call of the timer may run: it holds up all of them that make an access.
pub const TIMER: Budget = Budget {
    events: 512,
    bytes: 4 << 20,
};
/// How far behind the clock an event may happen, ns. On a machine that keeps up (under `-icount`
/// the clock waits for the model) no event is that late.
pub const LAG_NS: u64 = 20_000;

/// All GPUs of a machine.
pub struct Machine {
    gpus: Vec<Option<Gpu>>,
    fabric: Fabric,
    queue: Queue,
    epochs: u64,
    /// Bytes moved by the call that runs.
    moved: u64,
}

impl Machine {
    /// A machine without GPUs.
    ///
    /// # Errors
    ///
    /// What is wrong with the profile.
    pub fn new(profile: Profile) -> Result<Self, String> {
        profile.check()?;
        Ok(Machine {
            gpus: (0..ext::MAX_GPUS).map(|_| None).collect(),
            fabric: Fabric::new(profile),
            queue: Queue::default(),
            epochs: 0,
            moved: 0,
        })
    }

    /// The timing profile.
    pub fn profile(&self) -> &Profile {
        &self.fabric.profile
    }

    /// Adds a GPU and returns its index.
    ///
    /// # Errors
    ///
    /// Which option is out of range, or that the index is taken.
    pub fn add_gpu(&mut self, config: GpuConfig) -> Result<usize, String> {
        if !(VRAM_MIN_BYTES..=VRAM_MAX_BYTES).contains(&config.vram_bytes)
            || config.vram_bytes % (1 << 20) != 0
        {
            return Err(format!(
                "VRAM of {} bytes: must be whole MiB, 64 MiB to 128 GiB",
                config.vram_bytes
            ));
        }
        let ces = config.ces.unwrap_or(self.fabric.profile.ce_count);
        if !(CES_MIN..=CES_MAX).contains(&ces) {
            return Err(format!(
                "{ces} copy engines: must be {CES_MIN} to {CES_MAX}"
            ));
        }
        let free = self.gpus.iter().position(Option::is_none);
        let index = config.index.or(free).ok_or("no free GPU index")?;
        let slot = self
            .gpus
            .get_mut(index)
            .ok_or_else(|| format!("GPU index {index}: must be below {}", ext::MAX_GPUS))?;
        if slot.is_some() {
            return Err(format!("GPU index {index} is taken"));
        }
        self.fabric.add(index, config.vram_bytes);
        self.epochs = self.epochs.wrapping_add(1);
        *slot = Some(Gpu::new(
            config,
            ces,
            self.epochs,
            self.fabric.profile.fault_entries,
        ));
        Ok(index)
    }

    /// Takes a GPU out; its events become void, links to it go down.
    pub fn remove_gpu(&mut self, gpu: usize) {
        if let Some(slot) = self.gpus.get_mut(gpu) {
            *slot = None;
        }
        self.fabric.remove(gpu);
        self.queue.forget(gpu, |_| true);
        for other in self.gpus.iter_mut().flatten() {
            for entry in &mut other.peer_map {
                if *entry == Some(gpu) {
                    *entry = None;
                }
            }
        }
    }

    /// Puts a GPU back into its state after power-on. VRAM keeps its contents.
    pub fn reset(&mut self, gpu: usize, host: &mut dyn Host) {
        let Some(Some(old)) = self.gpus.get_mut(gpu) else {
            return;
        };
        self.epochs = self.epochs.wrapping_add(1);
        let entries = self.fabric.profile.fault_entries;
        *old = Gpu::new(old.config.clone(), old.ce_count(), self.epochs, entries);
        self.fabric.reset(gpu);
        self.queue.forget(gpu, |_| true);
        host.bar_virtual(gpu, 1, false);
        host.bar_virtual(gpu, 3, false);
    }

    /// Makes a GPU fall off the bus, as INJECT.GONE does: for a caller that cannot trust its state any more.
    pub fn mark_gone(&mut self, gpu: usize, host: &mut dyn Host) {
        if self.fabric.present(gpu) {
            self.fabric.fall(gpu);
            fall(gpu, host);
        }
    }

    /// Whether a GPU fell off the bus. One that is not there did.
    pub fn is_gone(&self, gpu: usize) -> bool {
        !self.fabric.present(gpu) || self.fabric.is_gone(gpu)
    }

    /// Reads `size` bytes (1, 2, 4 or 8) at `offset` of BAR `bar` (0, 1, 3 or 5).
    pub fn mmio_read(
        &mut self,
        gpu: usize,
        bar: u32,
        offset: u64,
        size: u32,
        host: &mut dyn Host,
    ) -> u64 {
        let now = host.now_ns();
        self.run_due(now, ACCESS, host);
        self.with(gpu, now, host, |g, cx| g.bar_read(bar, offset, size, cx))
            .unwrap_or_else(|| ones(size))
    }

    /// Writes `size` bytes at `offset` of a BAR.
    pub fn mmio_write(
        &mut self,
        gpu: usize,
        bar: u32,
        offset: u64,
        value: u64,
        size: u32,
        host: &mut dyn Host,
    ) {
        let now = host.now_ns();
        // What was due before the access happens before it, what it makes due at once, after.
        self.run_due(now, ACCESS, host);
        self.with(gpu, now, host, |g, cx| {
            g.bar_write(bar, offset, value, size, cx);
        });
        self.run_due(now, ACCESS, host);
    }

    /// Runs what is due.
    pub fn timer(&mut self, host: &mut dyn Host) {
        let now = host.now_ns();
        self.run_due(now, TIMER, host);
    }

    /// When [`Machine::timer`] wants to be called next, ns; may lie in the past.
    pub fn next_deadline(&self) -> Option<u64> {
        self.queue.next_ns()
    }

    fn run_due(&mut self, now: u64, budget: Budget, host: &mut dyn Host) {
        self.moved = 0;
        for _ in 0..budget.events {
            if self.moved >= budget.bytes {
                return;
            }
            let Some((at, gpu, epoch, event)) = self.queue.pop_due(now) else {
                return;
            };
            let at = at.max(now.saturating_sub(LAG_NS));
            self.with(gpu, at, host, |g, cx| {
                if g.epoch == epoch && !cx.fabric.is_gone(cx.gpu) {
                    g.event(event, cx);
                }
            });
        }
    }

    fn with<R>(
        &mut self,
        gpu: usize,
        now: u64,
        host: &mut dyn Host,
        f: impl FnOnce(&mut Gpu, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        let g = self.gpus.get_mut(gpu)?.as_mut()?;
        let mut cx = Cx {
            host,
            fabric: &mut self.fabric,
            queue: &mut self.queue,
            now,
            gpu,
            epoch: g.epoch,
            timing: g.config.timing,
            moved: &mut self.moved,
        };
        Some(f(g, &mut cx))
    }
}

/// What an absent device reads as.
pub(crate) fn ones(size: u32) -> u64 {
    match size {
        1 => 0xff,
        2 => 0xffff,
        4 => 0xffff_ffff,
        _ => u64::MAX,
    }
}
