// SPDX-License-Identifier: GPL-2.0
//! Interrupts: the top half does everything, which is clearing a bit and waking somebody.
//!
//! Fault vectors are masked until the service thread has emptied the rings ([`super::faults::FaultState::rearm`]).

use super::Gpu;
use crate::account::{self, counters::Counter};
use crate::kernel::irq::IrqHandler;
use crate::kernel::time;
use huvm_hal::ga100::{fault, irq};
use huvm_hal::ids::Vector;
use kernel::sync::atomic::Relaxed;
use kernel::{pr_warn, pr_warn_once};

/// MSI-X entries of the interrupt tree.
const TREE: u8 = 0xf;

impl IrqHandler for Gpu {
    fn interrupt(&self, entry: u8) {
        for v in irq::pending(self, entry) {
            self.irq_vector.store(u32::from(v.0), Relaxed);
            self.serve(v);
        }
        if let Some(seen) = self.irq_seen.get(usize::from(entry)) {
            seen.add(1, Relaxed);
        }
        self.irq_wait.wake_all();
        // The device looks again, and sends another message for what came meanwhile.
        irq::rearm(self, 1u8.checked_shl(entry.into()).unwrap_or(0) & TREE);
    }

    fn storm(&self, entry: u8, goes_on: bool) {
        account::count(Some(self), None, Counter::InterruptStorms, 1);
        if !goes_on {
            pr_warn!(
                "gpu {}: message interrupt {} comes without end: off for now and then\n",
                self.index(),
                entry
            );
        }
    }
}

impl Gpu {
    fn serve(&self, v: Vector) {
        let vectors = self.identity().vectors;
        if self.fault_vectors().contains(&v) {
            irq::mask(self, v);
            irq::clear(self, v);
            self.latencies().exposed.serving(time::now_ns());
            self.faults.ring();
            return;
        }
        irq::clear(self, v);
        if self.channels().interrupt(v) {
            return;
        }
        if self.workload_vector() == Some(v) {
            self.launches().wake_all();
        } else if v == vectors.info_fault {
            self.take_info_fault();
        }
    }

    /// Nobody can serve a fault outside both rings; but the device tells of no other one until this one is taken.
    fn take_info_fault(&self) {
        if let Ok(Some(info)) = fault::take_info(self) {
            pr_warn_once!(
                "gpu {}: fault outside both rings: {:x?}\n",
                self.index(),
                info
            );
        }
    }

    /// Vectors of the fault rings.
    pub(super) fn fault_vectors(&self) -> [Vector; 4] {
        let v = self.identity().vectors;
        [
            v.replayable,
            v.replayable_error,
            v.non_replayable,
            v.non_replayable_error,
        ]
    }

    fn workload_vector(&self) -> Option<Vector> {
        self.ext()
            .and_then(|e| e.workload.as_ref())
            .map(|w| w.vector)
    }

    /// Has the device send messages for what is pending. It sends one when that changes: where one was lost, nothing would ever
    /// come again.
    pub(super) fn ask_for_interrupts(&self) {
        self.unmask_others();
        irq::rearm(self, TREE);
    }

    /// Lets all vectors interrupt that the driver serves.
    pub(super) fn enable_interrupts(&self) {
        // Left by who had the device before.
        let _stale = fault::take_info(self);
        for v in self.fault_vectors() {
            irq::unmask(self, v);
        }
        self.unmask_others();
        irq::enable_top(self, TREE);
    }

    /// Those that are masked never. It may not have been heard before.
    fn unmask_others(&self) {
        irq::unmask(self, self.identity().vectors.info_fault);
        for v in self.channels().vectors() {
            irq::unmask(self, v);
        }
        if let Some(v) = self.workload_vector() {
            irq::unmask(self, v);
        }
    }
}
