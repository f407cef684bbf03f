// SPDX-License-Identifier: GPL-2.0
//! What an open file, its memory and its launches share: the descriptor, and which launches may still use which memory.
//!
//! The borrow checker keeps memory away from the CPU while a [`crate::Launch`] lives. A launch that was forgotten
//! (`mem::forget`, a cycle of references) ends its borrow and not its work, so the list here is asked as well before memory
//! is looked at or unmapped, and such a launch is ended then.

use crate::error::Result;
use crate::{sys, uapi};
use std::fs::File;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of HUVM_IOC_WAIT.
pub(crate) const WAIT: u32 = 0x15;
/// Number of HUVM_IOC_ABORT.
pub(crate) const ABORT: u32 = 0x16;
/// How long an abort may take before it is tried again, ns.
pub(crate) const ABORT_NS: u64 = 5_000_000_000;

/// Memory that a program uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    /// First address.
    pub(crate) start: u64,
    /// First address behind.
    pub(crate) end: u64,
    /// It is written.
    pub(crate) writes: bool,
}

impl Use {
    /// Whether `self`, what the CPU wants to do, must wait for `other`, what a GPU may still do.
    fn hindered_by(self, other: Use) -> bool {
        self.start < other.end && other.start < self.end && (self.writes || other.writes)
    }
}

#[derive(Debug)]
struct Running {
    id: u64,
    uses: Vec<Use>,
}

/// An open `/dev/huvm` with its launches.
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) file: File,
    running: Mutex<Vec<Running>>,
}

impl Space {
    pub(crate) fn new(file: File) -> Self {
        Space {
            file,
            running: Mutex::default(),
        }
    }

    fn running(&self) -> MutexGuard<'_, Vec<Running>> {
        // The list is whole after every change of it.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a launch that was started.
    pub(crate) fn started(&self, id: u64, uses: Vec<Use>) {
        self.running().push(Running { id, uses });
    }

    /// Waits for a launch with HUVM_IOC_WAIT or ends it with HUVM_IOC_ABORT. It is noted when it is over.
    pub(crate) fn finish(&self, id: u64, nr: u32, timeout_ns: u64) -> Result<uapi::huvm_wait> {
        let mut w = uapi::huvm_wait {
            launch: id,
            timeout_ns,
            ..Default::default()
        };
        // SAFETY: no address in the struct.
        let r = unsafe { sys::call_nr(&self.file, nr, &mut w, "waiting for the launch") };
        let over = match &r {
            Ok(()) => w.status != uapi::HUVM_LAUNCH_RUNNING,
            // The driver knows no such launch: it cannot be running.
            Err(e) => e.errno() == Some(libc::ENOENT),
        };
        if over {
            self.running().retain(|l| l.id != id);
        }
        r.map(|()| w)
    }

    /// Ends launches that were forgotten and that `wanted` must wait for. Does not come back before they are over.
    pub(crate) fn settle(&self, wanted: Use) {
        loop {
            // The lock is not held while the driver is asked.
            let next = self
                .running()
                .iter()
                .find(|l| l.uses.iter().any(|u| wanted.hindered_by(*u)))
                .map(|l| l.id);
            let Some(id) = next else {
                return;
            };
            match self.finish(id, ABORT, ABORT_NS).map_err(|e| e.errno()) {
                Ok(_) | Err(Some(libc::ETIMEDOUT | libc::EINTR | libc::EAGAIN | libc::EBUSY)) => {}
                // A driver that refuses to look at it will do so for ever.
                Err(_) => self.running().retain(|l| l.id != id),
            }
        }
    }

    /// How many launches may be running.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.running().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_write_on_one_side_hinders() {
        let of = |start, end, writes| Use { start, end, writes };
        let gpu = of(10, 20, true);
        for (cpu, hindered) in [
            (of(10, 20, false), true),
            (of(19, 30, false), true),
            (of(0, 11, true), true),
            (of(20, 30, true), false),
            (of(0, 10, true), false),
        ] {
            assert_eq!(cpu.hindered_by(gpu), hindered, "{cpu:?}");
        }
        let reads = of(10, 20, false);
        assert!(!of(10, 20, false).hindered_by(reads));
        assert!(of(10, 20, true).hindered_by(reads));
    }
}
