// SPDX-License-Identifier: GPL-2.0
//! TLB invalidate and replay by registers (hw-interface 2.4): no channel needed. For bring-up, teardown and
//! emergencies, and for replays from the fault bottom half; the data path pushes the same through a channel
//! ([`crate::channel::Push`]), and so does a cancel of one address, for which the registers have no engine id.

use super::bringup::read;
use super::regs;
use crate::ids::SysAddr;
use crate::pagetable::Invalidate;
use crate::seam::{poll, Bar, Mmio, Wait};
use crate::{Error, Result};

/// Which accesses a cancel fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelAccess {
    /// Every access.
    All,
    /// Stores and atomics; loads are retried.
    WriteAndAtomic,
}

/// How a replay is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayKind {
    /// When all retries are in flight.
    Start,
    /// When all retries were translated; those that fault again count.
    StartAckAll,
}

const ALL_VA: u32 = 1 << 0;
const SYS_MEMBAR: u32 = 1 << 6;
const ACK_GLOBALLY: u32 = 1 << 7;
const USE_SIZE: u32 = 1 << 22;
const TRIGGER: u32 = 1 << 31;
const REPLAY_SHIFT: u32 = 3;
const REPLAY_START: u32 = 1;
const REPLAY_START_ACK_ALL: u32 = 2;
const REPLAY_CANCEL_GLOBAL: u32 = 4;
const CACHE_LEVEL_SHIFT: u32 = 24;
const PTE_ONLY: u32 = 1;
/// INVALIDATE_PDB: system memory.
const PDB_SYS: u32 = 1 << 1;

/// Drops every translation of one page directory and waits for the acknowledge.
///
/// # Errors
/// [`Error::Timeout`], [`Error::Gone`], [`Error::BadAddress`].
pub fn invalidate_pdb<M: Mmio + ?Sized>(
    m: &M,
    page_dir: SysAddr,
    wait: &mut Wait<'_>,
) -> Result<()> {
    let (lo, hi) = pdb(page_dir)?;
    m.write32(Bar::Regs, regs::INVALIDATE_PDB, lo);
    m.write32(Bar::Regs, regs::INVALIDATE_UPPER_PDB, hi);
    trigger(
        m,
        regs::INVALIDATE,
        ALL_VA | SYS_MEMBAR | ACK_GLOBALLY,
        wait,
    )
}

/// Drops the translations that `inv` covers, and waits. Uses the block of the physical function, which alone has
/// address registers.
///
/// # Errors
/// [`Error::Timeout`], [`Error::Gone`], [`Error::BadAddress`].
pub fn invalidate_va<M: Mmio + ?Sized>(
    m: &M,
    page_dir: SysAddr,
    inv: &Invalidate,
    wait: &mut Wait<'_>,
) -> Result<()> {
    post_va(m, page_dir, inv)?;
    settle_va(m, wait)
}

/// Begins to drop the translations that `inv` covers. [`settle_va`] must come before the next command of any kind.
///
/// # Errors
/// [`Error::BadAddress`].
pub fn post_va<M: Mmio + ?Sized>(m: &M, page_dir: SysAddr, inv: &Invalidate) -> Result<()> {
    let (lo, hi) = pdb(page_dir)?;
    // CAST: 31:4 take address bits 39:12, the upper register the rest.
    let va = inv.va.0 >> 12;
    m.write32(Bar::Regs, regs::PF_PDB, lo);
    m.write32(Bar::Regs, regs::PF_UPPER_PDB, hi);
    m.write32(Bar::Regs, regs::PF_VADDR, (va as u32 & 0x0fff_ffff) << 4);
    m.write32(Bar::Regs, regs::PF_UPPER_VADDR, (va >> 28) as u32);
    m.write32(Bar::Regs, regs::PF_SIZE, u32::from(inv.log2_pages));
    let level = (inv.level as u32) << CACHE_LEVEL_SHIFT;
    let val = USE_SIZE | SYS_MEMBAR | ACK_GLOBALLY | level;
    m.wmb();
    m.write32(Bar::Regs, regs::PF_INVALIDATE, val | TRIGGER);
    Ok(())
}

/// Waits until what [`post_va`] began is acknowledged.
///
/// # Errors
/// [`Error::Timeout`], [`Error::Gone`].
pub fn settle_va<M: Mmio + ?Sized>(m: &M, wait: &mut Wait<'_>) -> Result<()> {
    settle(m, regs::PF_INVALIDATE, wait)
}

/// Retries all requests that wait in the replay buffer.
///
/// # Errors
/// [`Error::Timeout`], [`Error::Gone`].
pub fn replay<M: Mmio + ?Sized>(m: &M, kind: ReplayKind, wait: &mut Wait<'_>) -> Result<()> {
    let code = match kind {
        ReplayKind::Start => REPLAY_START,
        ReplayKind::StartAckAll => REPLAY_START_ACK_ALL,
    };
    replay_code(m, code, wait)
}

/// Fails every request that waits in the replay buffer, of all clients. For teardown and a device that is beyond help.
///
/// # Errors
/// [`Error::Timeout`], [`Error::Gone`].
pub fn cancel_all<M: Mmio + ?Sized>(m: &M, wait: &mut Wait<'_>) -> Result<()> {
    replay_code(m, REPLAY_CANCEL_GLOBAL, wait)
}

fn replay_code<M: Mmio + ?Sized>(m: &M, code: u32, wait: &mut Wait<'_>) -> Result<()> {
    // A page directory that nothing is bound to (ours are in system memory): the invalidate does nothing, and the
    // replay is forwarded all the same (hw-interface 2.2).
    m.write32(Bar::Regs, regs::INVALIDATE_PDB, 0);
    m.write32(Bar::Regs, regs::INVALIDATE_UPPER_PDB, 0);
    let val = ALL_VA | ACK_GLOBALLY | code << REPLAY_SHIFT | PTE_ONLY << CACHE_LEVEL_SHIFT;
    trigger(m, regs::INVALIDATE, val, wait)
}

/// Starts an invalidate and waits until TRIGGER reads 0.
fn trigger<M: Mmio + ?Sized>(m: &M, off: u32, val: u32, wait: &mut Wait<'_>) -> Result<()> {
    m.wmb();
    m.write32(Bar::Regs, off, val | TRIGGER);
    settle(m, off, wait)
}

/// Waits until TRIGGER reads 0.
fn settle<M: Mmio + ?Sized>(m: &M, off: u32, wait: &mut Wait<'_>) -> Result<()> {
    poll(wait, "invalidate", || match read(m, off) {
        Ok(v) if v & TRIGGER != 0 => None,
        other => Some(other.map(|_| ())),
    })?
}

/// The two page-directory registers.
fn pdb(page_dir: SysAddr) -> Result<(u32, u32)> {
    if page_dir.0 % 4096 != 0 || page_dir.0 >> 52 != 0 {
        return Err(Error::BadAddress(page_dir.0));
    }
    let page = page_dir.0 >> 12;
    // CAST: 31:4 take address bits 39:12, the upper register 51:40.
    Ok((
        (page as u32 & 0x0fff_ffff) << 4 | PDB_SYS,
        (page >> 28) as u32,
    ))
}
