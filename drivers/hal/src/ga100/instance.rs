// SPDX-License-Identifier: GPL-2.0
//! Instance blocks: what a channel or a workload is bound to (hw-interface 4.6 and 6.6).

use crate::ids::{Chid, GpuVa, SysAddr, Vector, VidAddr};
use crate::seam::{zero, DmaMem};
use crate::{Error, Result};

/// Bytes of an instance block; 4 KiB aligned.
pub const INSTANCE_BYTES: usize = 4096;
/// Bytes of a method buffer: a page, which is what public nvgpu's ((9 + 1 + 3) * physical copy engines + 2) words come to.
pub const METHOD_BUFFER_BYTES: u64 = 4096;

// RAMFC fields, byte offsets.
const SIGNATURE: usize = 0x010;
const ACQUIRE: usize = 0x030;
const GP_BASE: usize = 0x048;
const GP_BASE_HI: usize = 0x04c;
const PB_HEADER: usize = 0x084;
const SUBDEVICE: usize = 0x094;
const TARGET: usize = 0x0ac;
const HCE_CTRL: usize = 0x0e4;
const CHANNEL_ID: usize = 0x0e8;
const CONFIG: usize = 0x0f4;
const INTR_NOTIFY: usize = 0x0f8;

// Page directory fields.
const PAGE_DIR_BASE: usize = 0x200;
const METHOD_BUFFER: usize = 0x220;
/// Bits of an address of BAR2, to which a method buffer's belongs.
const BAR2_BITS: u32 = 49;
const SC_PDB_VALID: usize = 0x298;
const SC_PAGE_DIR_BASE: usize = 0x2a0;
const SC_STRIDE: usize = 0x10;
/// Subcontexts.
const SUBCONTEXTS: usize = 64;

const TARGET_SYS: u32 = 2;
const VOL: u32 = 1 << 2;
const FAULT_REPLAY_TEX: u32 = 1 << 4;
const FAULT_REPLAY_GCC: u32 = 1 << 5;
const VER2_PT: u32 = 1 << 10;
const BIG_PAGE_64K: u32 = 1 << 11;

/// What a copy-engine channel's instance block says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelInstance {
    /// Root page directory, in system memory.
    pub page_dir: SysAddr,
    /// Channel number.
    pub chid: Chid,
    /// GPFIFO in the channel's address space, below 1 TiB, 8-byte aligned.
    pub gpfifo: GpuVa,
    /// log2 of GPFIFO entries, 1..=31.
    pub gpfifo_log2: u8,
    /// USERD (512-byte aligned), in system memory. It goes into the runlist entry.
    pub userd: SysAddr,
    /// Vector that NON_STALL_INT raises; `None` leaves it off.
    pub notify: Option<Vector>,
    /// Where the engine saves a launch in the middle of which it leaves the channel: [`METHOD_BUFFER_BYTES`] of nobody else's. Its
    /// address is one of BAR2, which is in physical mode ([`super::bringup::ready_copy_engine`]), so this is the VRAM that it says; not 0.
    pub method_buffer: VidAddr,
}

/// Fills `mem` for a privileged copy-engine channel: physical copies and MEM_OP invalidates allowed.
///
/// # Errors
/// [`Error::TooSmall`], [`Error::BadAddress`], [`Error::OutOfRange`].
pub fn fill_channel<D: DmaMem + ?Sized>(mem: &D, c: &ChannelInstance) -> Result<()> {
    let (dir_lo, dir_hi) = page_dir(mem, c.page_dir)?;
    if c.gpfifo.0 % 8 != 0 || c.gpfifo.0 >> 40 != 0 {
        return Err(Error::BadAddress(c.gpfifo.0));
    }
    if !(1..32).contains(&c.gpfifo_log2) {
        return Err(Error::OutOfRange("GPFIFO log2", u64::from(c.gpfifo_log2)));
    }
    let buffer = c.method_buffer.0;
    if buffer == 0 || buffer % METHOD_BUFFER_BYTES != 0 || buffer >> BAR2_BITS != 0 {
        return Err(Error::BadAddress(buffer));
    }
    zero(mem, INSTANCE_BYTES);
    // CAST: the halves of a 40-bit address.
    mem.write32(GP_BASE, c.gpfifo.0 as u32);
    mem.write32(
        GP_BASE_HI,
        (c.gpfifo.0 >> 32) as u32 | u32::from(c.gpfifo_log2) << 16,
    );
    // Start-up values of nouveau's GA100 channel (hw-interface 6.6).
    mem.write32(SIGNATURE, 0xface);
    mem.write32(ACQUIRE, 0x7fff_f902);
    mem.write32(PB_HEADER, 0x2040_0000);
    mem.write32(SUBDEVICE, 0x3000_0fff);
    // CE_CTX_VALID: there is a context to run it in, which is the method buffer.
    mem.write32(TARGET, 1 << 17);
    // CAST: the two halves.
    mem.write32(METHOD_BUFFER, buffer as u32);
    mem.write32(METHOD_BUFFER + 4, (buffer >> 32) as u32);
    // Privileged copy launches: physical addresses allowed.
    mem.write32(HCE_CTRL, 1 << 5);
    mem.write32(CHANNEL_ID, u32::from(c.chid.0));
    // AUTH_LEVEL privileged, USERD_WRITEBACK.
    mem.write32(CONFIG, 1 << 8 | 1 << 12);
    if let Some(v) = c.notify {
        mem.write32(INTR_NOTIFY, u32::from(v.0 & 0xfff) | 1 << 31);
    }
    mem.write32(PAGE_DIR_BASE, dir_lo);
    mem.write32(PAGE_DIR_BASE + 4, dir_hi);
    Ok(())
}

/// Fills `mem` for workloads: page directory for all subcontexts, replayable faults on.
///
/// # Errors
/// As [`fill_channel`].
pub fn fill_workload<D: DmaMem + ?Sized>(mem: &D, page_dir_base: SysAddr) -> Result<()> {
    let (lo, hi) = page_dir(mem, page_dir_base)?;
    let lo = lo | FAULT_REPLAY_TEX | FAULT_REPLAY_GCC;
    zero(mem, INSTANCE_BYTES);
    mem.write32(PAGE_DIR_BASE, lo);
    mem.write32(PAGE_DIR_BASE + 4, hi);
    for i in 0..SUBCONTEXTS {
        mem.write32(SC_PAGE_DIR_BASE + SC_STRIDE * i, lo);
        mem.write32(SC_PAGE_DIR_BASE + SC_STRIDE * i + 4, hi);
    }
    mem.write32(SC_PDB_VALID, u32::MAX);
    mem.write32(SC_PDB_VALID + 4, u32::MAX);
    Ok(())
}

/// The two page-directory words, replay off.
fn page_dir<D: DmaMem + ?Sized>(mem: &D, base: SysAddr) -> Result<(u32, u32)> {
    if mem.len() < INSTANCE_BYTES {
        return Err(Error::TooSmall("instance block", INSTANCE_BYTES));
    }
    if base.0 % 4096 != 0 || mem.dma_addr() % 4096 != 0 {
        return Err(Error::BadAddress(base.0));
    }
    // CAST: the two halves.
    let lo = base.0 as u32 | TARGET_SYS | VOL | VER2_PT | BIG_PAGE_64K;
    Ok((lo, (base.0 >> 32) as u32))
}
