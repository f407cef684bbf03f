// SPDX-License-Identifier: GPL-2.0
//! Fault injection (device.md 2.6), for tests.

use super::{read_sane, write};
use crate::seam::Mmio;
use crate::{Error, Result};
use huvm_hw::ext::inject as hw;

/// A thing to go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Injection {
    /// A fault packet's VALID appears this many ns after PUT; at most 1 ms.
    ValidDelayNs(u32),
    /// Chance that two neighbouring packets become valid in the other order, per mille.
    ReorderPermille(u32),
    /// Chance that a packet is written twice, per mille.
    DuplicatePermille(u32),
    /// The next n replayable packets meet a full ring.
    Overflow(u32),
    /// The n-th copy-engine launch from now faults; 0 off.
    CeFault(u32),
    /// The n-th copy-engine launch from now hangs until this is written 0; 0 off.
    CeHang(u32),
    /// The n-th invalidate or replay by register from now hangs until this is written 0; 0 off.
    CommandHang(u32),
    /// The first piece of the n-th copy-engine launch from now is on its way until this is written 0, and no preempt ends that; 0 off.
    CeStall(u32),
    /// Bitmap of links that are down.
    LinkDown(u32),
    /// The device is gone until it is reset.
    Gone,
    /// The next n interrupt messages are lost.
    DropInterrupts(u32),
    /// Invalid translations are cached.
    NegativeTlb(bool),
    /// Seed of the generator behind the chances.
    Seed(u32),
    /// Added to each copy-engine launch, ns.
    LatencyNs(u32),
}

impl Injection {
    /// Register and value.
    fn encode(self) -> Result<(u32, u32)> {
        let permille = |n| match n {
            0..=1000 => Ok(n),
            _ => Err(Error::OutOfRange("per mille", u64::from(n))),
        };
        Ok(match self {
            Injection::ValidDelayNs(n) if n > hw::VALID_DELAY_MAX_NS => {
                return Err(Error::OutOfRange("VALID delay", u64::from(n)))
            }
            Injection::ValidDelayNs(n) => (hw::VALID_DELAY_NS, n),
            Injection::ReorderPermille(n) => (hw::REORDER_PERMILLE, permille(n)?),
            Injection::DuplicatePermille(n) => (hw::DUPLICATE_PERMILLE, permille(n)?),
            Injection::Overflow(n) => (hw::OVERFLOW_COUNT, n),
            Injection::CeFault(n) => (hw::CE_FAULT, n),
            Injection::CeHang(n) => (hw::CE_HANG, n),
            Injection::CommandHang(n) => (hw::COMMAND_HANG, n),
            Injection::CeStall(n) => (hw::CE_STALL, n),
            Injection::LinkDown(mask) => (hw::LINK_DOWN, mask),
            Injection::Gone => (hw::GONE, hw::GONE_KEY),
            Injection::DropInterrupts(n) => (hw::DROP_INTR, n),
            Injection::NegativeTlb(on) => (hw::NEG_TLB, u32::from(on)),
            Injection::Seed(s) => (hw::SEED, s),
            Injection::LatencyNs(n) => (hw::LATENCY_NS, n),
        })
    }
}

/// Sets one injection.
///
/// # Errors
/// [`Error::OutOfRange`].
pub fn inject<M: Mmio + ?Sized>(m: &M, what: Injection) -> Result<()> {
    let (off, val) = what.encode()?;
    write(m, off, val);
    Ok(())
}

/// Copy-engine launches until the injected fault; 0 when it has happened or was never asked for.
///
/// # Errors
/// [`Error::Gone`].
pub fn ce_fault_left<M: Mmio + ?Sized>(m: &M) -> Result<u32> {
    read_sane(m, hw::CE_FAULT)
}
