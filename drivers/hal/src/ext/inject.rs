// SPDX-License-Identifier: GPL-2.0
//! Fault injection (device.md 2.6), for tests.

use super::{read_sane, write};
use crate::seam::Mmio;
use crate::{Error, Result};
use huvm_hw::ext::inject as hw;

/// Which fault ring.
pub use crate::ga100::fault::RingKind;

/// What is wrong with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPart {
    /// All of it.
    All,
    /// Whose it is.
    Instance,
    /// Where it was.
    Address,
    /// What it was: a type that does not exist.
    Type,
}

/// What a PUT says that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPut {
    /// All ones.
    Far,
    /// The ring's size: the first number that is none of its entries.
    End,
    /// One before GET: it went backwards, and the ring looks full.
    Behind,
    /// GET: the ring looks empty.
    Empty,
}

/// A thing to go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Injection {
    /// A fault packet's VALID appears this many ns after PUT; at most 1 ms.
    ValidDelayNs(u32),
    /// Chance that two neighbouring packets become valid in the other order, per mille.
    ReorderPermille(u32),
    /// Chance that a packet is written twice, per mille.
    DuplicatePermille(u32),
    /// Chance that the flag of a copy engine's fault comes some microseconds after its packet, per mille.
    FlagLatePermille(u32),
    /// An invalidate takes effect so many ns later, and completes then; at most 1 ms.
    InvalidateLateNs(u32),
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
    /// The next n packets of a ring are lost, without an overflow; at most 65535.
    PacketLost(RingKind, u32),
    /// The next n packets of a ring are written wrong; at most 65535.
    PacketBad(RingKind, BadPart, u32),
    /// The next n packets of a ring take their place and never become VALID; at most 65535.
    PacketNeverValid(RingKind, u32),
    /// The next n non-replayable packets meet a full ring.
    OtherOverflow(u32),
    /// The next n writes of GET of a ring are taken for one out of range; at most 65535.
    GetCorrupt(RingKind, u32),
    /// The next n reads of PUT of a ring say something else; at most 65535.
    PutWrong(RingKind, BadPut, u32),
    /// The next n semaphore releases write nothing.
    SemaphoreLost(u32),
    /// The next n semaphore releases write a value that is too high.
    SemaphoreWrong(u32),
    /// A message of an MSI-X entry (0..3) each so many ns (at most 2^28 - 1, taken for 2000 if less than that), whatever is pending; 0
    /// ns: none.
    InterruptStorm(u8, u32),
    /// Bitmap of copy engines whose launches fault whenever they are tried.
    CeFaultEach(u32),
    /// So many reads of registers pass, and the next n after them say all ones; at most 65535 each.
    ReadsOnes(u32, u32),
    /// So many writes of registers arrive, and the next n after them do not; at most 65535 each.
    WritesLost(u32, u32),
    /// The next n reads of the status of a slot say nothing that there is.
    StatusWrong(u32),
}

/// A count of packets of one ring.
fn packets(ring: RingKind, n: u32) -> Result<u32> {
    if n > hw::PACKETS {
        return Err(Error::OutOfRange("packets", u64::from(n)));
    }
    Ok(match ring {
        RingKind::Replayable => n,
        RingKind::NonReplayable => n | hw::OTHER_RING,
    })
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
            Injection::FlagLatePermille(n) => (hw::FLAG_LATE_PERMILLE, permille(n)?),
            Injection::InvalidateLateNs(n) if n > hw::INVALIDATE_LATE_MAX_NS => {
                return Err(Error::OutOfRange("an invalidate's delay", u64::from(n)))
            }
            Injection::InvalidateLateNs(n) => (hw::INVALIDATE_LATE_NS, n),
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
            Injection::PacketLost(ring, n) => (hw::PACKET_LOST, packets(ring, n)?),
            Injection::PacketBad(ring, what, n) => {
                let what = (what as u32) << hw::BAD_WHAT_SHIFT;
                (hw::PACKET_BAD, packets(ring, n)? | what)
            }
            Injection::PacketNeverValid(ring, n) => (hw::PACKET_NEVER_VALID, packets(ring, n)?),
            Injection::OtherOverflow(n) => (hw::OTHER_OVERFLOW, n),
            Injection::GetCorrupt(ring, n) => (hw::GET_CORRUPT, packets(ring, n)?),
            Injection::PutWrong(ring, what, n) => {
                let what = (what as u32) << hw::PUT_WRONG_SHIFT;
                (hw::PUT_WRONG, packets(ring, n)? | what)
            }
            Injection::SemaphoreLost(n) => (hw::SEM_LOST, n),
            Injection::SemaphoreWrong(n) => (hw::SEM_WRONG, n),
            Injection::InterruptStorm(entry @ 0..=3, ns @ 0..=hw::STORM_NS) => {
                (hw::INTR_STORM, u32::from(entry) << 28 | ns)
            }
            Injection::InterruptStorm(..) => {
                return Err(Error::OutOfRange("interrupt storm", 0));
            }
            Injection::CeFaultEach(engines) => (hw::CE_FAULT_EACH, engines),
            Injection::ReadsOnes(pass @ 0..=0xffff, n @ 0..=0xffff) => {
                (hw::READS_ONES, pass << hw::ONES_PASS_SHIFT | n)
            }
            Injection::WritesLost(pass @ 0..=0xffff, n @ 0..=0xffff) => {
                (hw::WRITES_LOST, pass << hw::ONES_PASS_SHIFT | n)
            }
            Injection::ReadsOnes(..) => return Err(Error::OutOfRange("reads", 0)),
            Injection::WritesLost(..) => return Err(Error::OutOfRange("writes", 0)),
            Injection::StatusWrong(n) => (hw::STATUS_WRONG, n),
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
