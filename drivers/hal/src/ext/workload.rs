// SPDX-License-Identifier: GPL-2.0
//! Workload engine: start, look, abort (device.md 2.3).

use super::{read, read_sane, read_wide, write};
use crate::ids::{GpuVa, SysAddr, Vector, Veid};
use crate::seam::{poll, Mmio, Wait};
use crate::{Error, Result};
use huvm_hw::ext::workload as hw;

/// Target code of a slot's instance block: coherent system memory.
const TARGET_SYS: u32 = 2;

/// State of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Never used.
    Idle,
    /// Running.
    Running,
    /// Ended well.
    Done,
    /// Ended by an error, `ERROR_*` of huvm_hw::ext::workload.
    Failed(u32),
    /// Ended by abort.
    Aborted,
}

/// How often a report is read until it is the same twice, if it looks as if something was not read.
const REPORT_TRIES: u32 = 4;
/// How often a launch is set up, and started, until the device shows that it has heard it; and looked at, until it is sure.
const START_TRIES: u32 = 4;

/// A slot's registers, read once. A running slot's counts move while they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// State.
    pub status: Status,
    /// Address of the failing access.
    pub error_va: GpuVa,
    /// Its fault type (code of the packet).
    pub fault_type: u8,
    /// Its access type (code of the packet).
    pub access_type: u8,
    /// Elements that CHECK found different.
    pub mismatches: u64,
    /// The first of them.
    pub mismatch_va: GpuVa,
    /// Blocks finished.
    pub blocks_done: u32,
    /// Blocks waiting for a replay.
    pub blocks_stalled: u32,
    /// Fault packets raised.
    pub faults: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// PTIMER at the start, ns.
    pub start_ns: u64,
    /// PTIMER at the end, ns.
    pub end_ns: u64,
}

impl Report {
    /// Registers that said all ones, as far as that shows: a bit each.
    fn ones(&self) -> u32 {
        let wide = [
            self.error_va.0,
            self.mismatches,
            self.mismatch_va.0,
            self.faults,
            self.bytes,
            self.start_ns,
            self.end_ns,
        ];
        // CAST: the halves.
        let halves = wide.into_iter().flat_map(|w| [w as u32, (w >> 32) as u32]);
        let info = match (self.fault_type, self.access_type) {
            (0x1f, 0xf) => u32::MAX,
            _ => 0,
        };
        halves
            .chain([self.blocks_done, self.blocks_stalled, info])
            .fold(0, |ones, word| ones << 1 | u32::from(word == u32::MAX))
    }
}

/// The workload engine of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Engine {
    /// Slots.
    pub slots: u32,
    /// Blocks resident at once.
    pub max_resident: u32,
    /// Vector pulsed at the end of a launch.
    pub vector: Vector,
}

impl Engine {
    pub(super) fn read<M: Mmio + ?Sized>(m: &M) -> Result<Engine> {
        let slots = read_sane(m, hw::SLOT_COUNT)?;
        let vector = read_sane(m, hw::INTR_VECTOR)?;
        if slots == 0 || slots > hw::SLOTS {
            return Err(Error::BadDevice("SLOT_COUNT", slots));
        }
        if vector >= 256 {
            return Err(Error::BadDevice("INTR_VECTOR", vector));
        }
        Ok(Engine {
            slots,
            max_resident: read_sane(m, hw::MAX_RESIDENT)?,
            // CAST: below 256.
            vector: Vector(vector as u16),
        })
    }

    /// Starts the descriptor at `desc` in `slot`, with the instance block at `instance` (system memory). The device
    /// has copied the descriptor and the page directory's address when this returns.
    ///
    /// A write that the device did not hear shows here. Else the launch could have another client's page directory, or the slot's
    /// last result could be taken for this one's.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::BadState`] when the slot runs, [`Error::BadAddress`]: not started. [`Error::Timeout`] when it
    /// does not say that it has heard, [`Error::Gone`]: it may have been started all the same.
    pub fn start<M: Mmio + ?Sized>(
        &self,
        m: &M,
        slot: u32,
        desc: SysAddr,
        instance: SysAddr,
        veid: Veid,
    ) -> Result<()> {
        let base = self.base(slot)?;
        if veid.0 >= 64 {
            return Err(Error::OutOfRange("subcontext", u64::from(veid.0)));
        }
        if desc.0 % 64 != 0 {
            return Err(Error::BadAddress(desc.0));
        }
        if instance.0 % 4096 != 0 {
            return Err(Error::BadAddress(instance.0));
        }
        let before = self.sure(m, base)?;
        if before.0 == hw::STATUS_RUNNING {
            return Err(Error::BadState("slot", before.0));
        }
        // CAST: the two halves of each address.
        let setting = [
            (hw::DESC_LO, desc.0 as u32),
            (hw::DESC_HI, (desc.0 >> 32) as u32),
            (hw::INST_LO, instance.0 as u32 | TARGET_SYS),
            (hw::INST_HI, (instance.0 >> 32) as u32),
            (hw::VEID, u32::from(veid.0)),
        ];
        let is_set = (0..START_TRIES).any(|_| {
            for (at, value) in setting {
                write(m, base + at, value);
            }
            setting
                .iter()
                .all(|&(at, value)| read(m, base + at) == value)
        });
        if !is_set {
            return Err(Error::Timeout("launch to be set up"));
        }
        // A launch that has ended by now began at another time than the one before. What is not sure says neither: one that has begun
        // may not begin again.
        for _ in 0..START_TRIES {
            m.wmb();
            write(m, base + hw::CTRL, hw::CTRL_START);
            if self.sure(m, base)? != before {
                return Ok(());
            }
        }
        Err(Error::Timeout("launch to start"))
    }

    /// State of the slot at `base` and when its launch began, which say the same twice in a row.
    fn sure<M: Mmio + ?Sized>(&self, m: &M, base: u32) -> Result<(u32, u64)> {
        let look = || {
            let status = read(m, base + hw::STATUS);
            let start_ns = read_wide(m, base + hw::START_NS_LO, base + hw::START_NS_HI);
            (status, start_ns)
        };
        let mut last = look();
        for _ in 0..START_TRIES {
            let now = look();
            if now == last && now.0 <= hw::STATUS_ABORTED {
                return Ok(now);
            }
            last = now;
        }
        Err(match last.0 {
            u32::MAX => Error::Gone,
            _ => Error::Timeout("state of a slot"),
        })
    }

    /// Ends a launch; nothing happens when the slot is not running.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn abort<M: Mmio + ?Sized>(&self, m: &M, slot: u32) -> Result<()> {
        write(m, self.base(slot)? + hw::CTRL, hw::CTRL_ABORT);
        Ok(())
    }

    /// Ends whatever runs: what a driver before this one started, and did not end. For bring-up, before the device may reach
    /// host memory. Waits as long as `wait` says, for each slot that runs.
    ///
    /// # Errors
    /// [`Error::Timeout`] when a slot goes on, [`Error::Gone`], [`Error::BadDevice`].
    pub fn silence<M: Mmio + ?Sized>(&self, m: &M, wait: &mut Wait<'_>) -> Result<()> {
        for slot in 0..self.slots {
            if self.status(m, slot)? != Status::Running {
                continue;
            }
            self.abort(m, slot)?;
            poll(wait, "launch to end", || {
                let status = self.status(m, slot);
                (status != Ok(Status::Running)).then_some(status)
            })??;
        }
        Ok(())
    }

    /// Finished slots (bit = slot), cleared by this call.
    ///
    /// # Errors
    /// [`Error::Gone`].
    pub fn take_done<M: Mmio + ?Sized>(&self, m: &M) -> Result<u64> {
        let lo = read(m, hw::DONE_LO);
        let hi = read(m, hw::DONE_HI);
        // All 64 slots done at once is possible; a device that is gone shows in another register.
        if lo == u32::MAX && hi == u32::MAX {
            read_sane(m, hw::SLOT_COUNT)?;
        }
        if lo != 0 {
            write(m, hw::DONE_LO, lo);
        }
        if hi != 0 {
            write(m, hw::DONE_HI, hi);
        }
        Ok(u64::from(lo) | u64::from(hi) << 32)
    }

    /// State of a slot alone.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Gone`], [`Error::BadDevice`].
    pub fn status<M: Mmio + ?Sized>(&self, m: &M, slot: u32) -> Result<Status> {
        let base = self.base(slot)?;
        Ok(match read_sane(m, base + hw::STATUS)? {
            hw::STATUS_IDLE => Status::Idle,
            hw::STATUS_RUNNING => Status::Running,
            hw::STATUS_DONE => Status::Done,
            hw::STATUS_FAILED => Status::Failed(read_sane(m, base + hw::ERROR)?),
            hw::STATUS_ABORTED => Status::Aborted,
            other => return Err(Error::BadDevice("slot status", other)),
        })
    }

    /// State and results of a slot.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Gone`], [`Error::BadDevice`].
    pub fn report<M: Mmio + ?Sized>(&self, m: &M, slot: u32) -> Result<Report> {
        let mut last: Option<Report> = None;
        // It answers: each status was read.
        let mut why = Error::BadDevice("report of slot", slot);
        for _ in 0..REPORT_TRIES {
            let report = match self.read_report(m, slot) {
                Ok(report) => report,
                // Maybe it was only read wrong.
                Err(e @ Error::BadDevice(..)) => {
                    why = e;
                    continue;
                }
                Err(e) => return Err(e),
            };
            // What says all ones may not have been read; or a client has counted so far, and what else it counts goes on.
            let ones = report.ones();
            if ones == 0 || last.is_some_and(|l| l.ones() == ones) {
                return Ok(report);
            }
            last = Some(report);
        }
        // The device says that it runs, and no client has a GPU lost by its counts.
        match last {
            Some(report) if report.status == Status::Running => Ok(report),
            _ => Err(why),
        }
    }

    fn read_report<M: Mmio + ?Sized>(&self, m: &M, slot: u32) -> Result<Report> {
        let status = self.status(m, slot)?;
        let base = self.base(slot)?;
        let wide = |lo, hi| read_wide(m, base + lo, base + hi);
        let info = read(m, base + hw::ERR_INFO);
        let report = Report {
            status,
            error_va: GpuVa(wide(hw::ERR_VA_LO, hw::ERR_VA_HI)),
            // CAST: masked to the field.
            fault_type: (info & 0x1f) as u8,
            access_type: (info >> 16 & 0xf) as u8,
            mismatches: wide(hw::MISMATCHES_LO, hw::MISMATCHES_HI),
            mismatch_va: GpuVa(wide(hw::MISMATCH_VA_LO, hw::MISMATCH_VA_HI)),
            blocks_done: read(m, base + hw::BLOCKS_DONE),
            blocks_stalled: read(m, base + hw::BLOCKS_STALLED),
            faults: wide(hw::FAULTS_LO, hw::FAULTS_HI),
            bytes: wide(hw::BYTES_LO, hw::BYTES_HI),
            start_ns: wide(hw::START_NS_LO, hw::START_NS_HI),
            end_ns: wide(hw::END_NS_LO, hw::END_NS_HI),
        };
        // If it went away between, the numbers are worthless.
        read_sane(m, base + hw::STATUS)?;
        Ok(report)
    }

    fn base(&self, slot: u32) -> Result<u32> {
        if slot >= self.slots {
            return Err(Error::OutOfRange("slot", u64::from(slot)));
        }
        Ok(hw::SLOT0 + hw::SLOT_STRIDE * slot)
    }
}
