// SPDX-License-Identifier: GPL-2.0
//! Instance blocks: what a channel or a workload is bound to.

use crate::ids::{Chid, GpuVa, SysAddr, Vector};
use crate::seam::DmaMem;
use crate::Result;

/// Bytes of an instance block; 4 KiB aligned.
pub const INSTANCE_BYTES: usize = 4096;

/// What a copy-engine channel's instance block says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelInstance {
    /// Root page directory, in system memory.
    pub page_dir: SysAddr,
    /// Channel number.
    pub chid: Chid,
    /// GPFIFO in the channel's address space, below 1 TiB, 8-byte aligned.
    pub gpfifo: GpuVa,
    /// log2 of GPFIFO entries.
    pub gpfifo_log2: u8,
    /// USERD (512-byte aligned), in system memory.
    pub userd: SysAddr,
    /// Vector that NON_STALL_INT raises; `None` leaves it off.
    pub notify: Option<Vector>,
}

/// Fills `mem` for a privileged copy-engine channel: physical copies and MEM_OP invalidates allowed.
///
/// # Errors
/// [`crate::Error::TooSmall`], [`crate::Error::BadAddress`], [`crate::Error::OutOfRange`].
pub fn fill_channel<D: DmaMem + ?Sized>(mem: &D, c: &ChannelInstance) -> Result<()> {
    let _ = (mem, c);
    Ok(())
}

/// Fills `mem` for workloads: page directory for all subcontexts, replayable faults on.
///
/// # Errors
/// As [`fill_channel`].
pub fn fill_workload<D: DmaMem + ?Sized>(mem: &D, page_dir: SysAddr) -> Result<()> {
    let _ = (mem, page_dir);
    Ok(())
}
