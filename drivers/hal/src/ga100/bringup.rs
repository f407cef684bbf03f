// SPDX-License-Identifier: GPL-2.0
//! Bring-up: who is this GPU, how much memory, which engines, which vectors.

use super::regs;
use super::runlist::Runlist;
use crate::ids::Vector;
use crate::seam::{set, Bar, Mmio};
use crate::{Error, Result};

/// Copy engines that a GA100-class chip can have.
pub const MAX_COPY_ENGINES: usize = 10;
/// Chip id of GA100 (hw-interface 7.3).
pub const CHIP_GA100: u16 = 0x170;
/// DEVICE_INFO2 type of a logical copy engine (hw-interface 7.7).
const TYPE_LCE: u32 = 0x13;
/// Rows that the device-info table can have: NUM_ROWS is 12 bits, the window less.
const MAX_ROWS: u32 = 512;
/// BAR2_BLOCK: by way of page tables (hw-interface 7.2).
const BAR2_VIRTUAL: u32 = 1 << 31;
// Bits of a copy engine's INTR_EN and INTR_STATUS (hw-interface 5.6).
const CE_NONBLOCKPIPE: u32 = 1 << 1;
const CE_LAUNCHERR: u32 = 1 << 2;
const CE_INVALID_CONFIG: u32 = 1 << 3;
const CE_MTHD_BUFFER_FAULT: u32 = 1 << 4;
/// All of them; the first, BLOCKPIPE, is of launches that this driver does not make.
const CE_BITS: u32 = 0x1f;
const CE_REFUSALS: u32 = CE_LAUNCHERR | CE_INVALID_CONFIG | CE_MTHD_BUFFER_FAULT;
const CE_SERVED: u32 = CE_NONBLOCKPIPE | CE_REFUSALS;
/// Access-counter notification (hw-interface 7.4); no register names it.
const ACCESS_COUNTER_VECTOR: u16 = 72;

/// A copy engine that the device-info table names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyEngine {
    /// Instance: CE number.
    pub number: u8,
    /// MMU engine id in fault packets.
    pub fault_id: u16,
    /// The runlist that feeds it.
    pub runlist: Runlist,
}

impl CopyEngine {
    /// Its register, of which the first engine's is at `first`.
    const fn at(&self, first: u32) -> u32 {
        first + regs::CE_STRIDE * self.number as u32
    }
}

/// Vectors of the interrupt tree that the driver serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vectors {
    /// Replayable fault packets arrived (pulse).
    pub replayable: Vector,
    /// Replayable ring overflow or corrupted GET.
    pub replayable_error: Vector,
    /// Non-replayable fault packets arrived.
    pub non_replayable: Vector,
    /// Non-replayable ring overflow or corrupted GET.
    pub non_replayable_error: Vector,
    /// Fault outside both rings (BAR accesses, physical faults).
    pub info_fault: Vector,
    /// Access-counter notifications arrived (pulse).
    pub access_counter: Vector,
}

/// What [`identify`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// PMC_BOOT_0.
    pub boot0: u32,
    /// PMC_BOOT_42.
    pub boot42: u32,
    /// Chip id, 0x170 for GA100.
    pub chip: u16,
    /// Bytes of the GPU's own memory.
    pub vram_bytes: u64,
    /// Copy engines, in table order; `None` after the last.
    pub engines: [Option<CopyEngine>; MAX_COPY_ENGINES],
    /// Interrupt vectors.
    pub vectors: Vectors,
}

/// Reads ids, memory size, device-info table and vector numbers.
///
/// # Errors
/// [`Error::Gone`], [`Error::UnknownChip`], [`Error::BadDevice`].
pub fn identify<M: Mmio + ?Sized>(m: &M) -> Result<Identity> {
    let boot0 = read(m, regs::BOOT_0)?;
    let boot42 = read(m, regs::BOOT_42)?;
    // CAST: nine bits.
    let chip = (boot42 >> 20 & 0x1ff) as u16;
    if chip != CHIP_GA100 {
        return Err(Error::UnknownChip(boot42));
    }
    let range = read(m, regs::LOCAL_MEMORY_RANGE)?;
    let vram_bytes = u64::from(range >> 4 & 0x3f)
        .checked_shl((range & 0xf) + 20)
        .filter(|b| *b != 0)
        .ok_or(Error::BadDevice("LOCAL_MEMORY_RANGE", range))?;
    Ok(Identity {
        boot0,
        boot42,
        chip,
        vram_bytes,
        engines: engines(m)?,
        vectors: vectors(m)?,
    })
}

/// Walks the device-info table for copy engines.
fn engines<M: Mmio + ?Sized>(m: &M) -> Result<[Option<CopyEngine>; MAX_COPY_ENGINES]> {
    let cfg = read(m, regs::DEVICE_INFO_CFG)?;
    if cfg & 0xf != 2 || cfg >> 16 & 0xf != 3 {
        return Err(Error::BadDevice("DEVICE_INFO_CFG", cfg));
    }
    let mut found = [None; MAX_COPY_ENGINES];
    let mut slots = found.iter_mut();
    let mut rows = [0u32; 3];
    let mut n = 0;
    for i in 0..(cfg >> 20).min(MAX_ROWS) {
        let row = read(m, regs::DEVICE_INFO2 + 4 * i)?;
        if n == 0 && row == 0 {
            continue;
        }
        if let Some(r) = rows.get_mut(n) {
            *r = row & !(1 << 31);
        }
        n += 1;
        if row >> 31 != 0 {
            continue;
        }
        let [info, _, runlist] = rows;
        if n == 3 && info >> 24 & 0x7f == TYPE_LCE {
            let slot = slots
                .next()
                .ok_or(Error::BadDevice("DEVICE_INFO2: copy engines", i))?;
            *slot = Some(CopyEngine {
                // CAST: eight bits.
                number: (info >> 16) as u8,
                fault_id: (info & 0x7ff) as u16,
                runlist: Runlist::discover(m, runlist & 0x03ff_fc00)?,
            });
        }
        n = 0;
        rows = [0; 3];
    }
    Ok(found)
}

/// A vector number as registers have it.
fn vector(raw: u32) -> Result<Vector> {
    let v = raw & 0xffff;
    if v < 256 {
        // CAST: below 256.
        Ok(Vector(v as u16))
    } else {
        Err(Error::BadDevice("vector", raw))
    }
}

/// The vector that a copy engine raises by itself, at the end of a launch.
///
/// # Errors
/// [`Error::Gone`]; [`Error::BadDevice`] for a number that is none.
pub fn copy_vector<M: Mmio + ?Sized>(m: &M, engine: &CopyEngine) -> Result<Vector> {
    vector(read(m, engine.at(regs::CE_NONSTALL_VECTOR))?)
}

/// The vector that a copy engine raises when it refuses to go on.
///
/// # Errors
/// As [`copy_vector`].
pub fn refusal_vector<M: Mmio + ?Sized>(m: &M, engine: &CopyEngine) -> Result<Vector> {
    vector(read(m, engine.at(regs::CE_STALL_VECTOR))?)
}

/// Readies an engine for channels of which it can save a launch, and lets it interrupt: at the end of pushes, and when it refuses.
/// Each reset undoes it. Before the engine's runlist is given any channel.
///
/// # Errors
/// [`Error::Gone`]; [`Error::BadState`] when a register does not take what is written.
pub fn ready_copy_engine<M: Mmio + ?Sized>(m: &M, engine: &CopyEngine) -> Result<()> {
    // An earlier owner may have had it otherwise: method buffers are where BAR2 says.
    let block = (Bar::Regs, regs::BAR2_BLOCK);
    set(m, "BAR2_BLOCK", block, 0, BAR2_VIRTUAL)?;
    // What that owner's launches left.
    m.write32(Bar::Regs, engine.at(regs::CE_INTR_STATUS), CE_SERVED);
    let enable = (Bar::Regs, engine.at(regs::CE_INTR_EN));
    set(m, "CE_INTR_EN", enable, CE_SERVED, CE_BITS)
}

/// Why a copy engine refused to go on with a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// A launch that it does not take, and the code of that.
    pub launch: Option<u32>,
    /// How it is set up makes no sense to it.
    pub config: bool,
    /// It could not save a launch, or not restore it.
    pub method_buffer: bool,
}

/// Takes what an engine says, so that its vector falls; `None` if it has not refused.
///
/// # Errors
/// [`Error::Gone`].
pub fn take_refusal<M: Mmio + ?Sized>(m: &M, engine: &CopyEngine) -> Result<Option<Refusal>> {
    let at = engine.at(regs::CE_INTR_STATUS);
    let status = read(m, at)? & CE_REFUSALS;
    if status == 0 {
        return Ok(None);
    }
    let launch = match status & CE_LAUNCHERR {
        0 => None,
        _ => Some(m.read32(Bar::Regs, engine.at(regs::CE_LAUNCHERR))),
    };
    m.write32(Bar::Regs, at, status);
    Ok(Some(Refusal {
        launch,
        config: status & CE_INVALID_CONFIG != 0,
        method_buffer: status & CE_MTHD_BUFFER_FAULT != 0,
    }))
}

/// Reads the vector numbers that the MMU publishes.
fn vectors<M: Mmio + ?Sized>(m: &M) -> Result<Vectors> {
    let non_replayable = read(m, regs::FAULT_VECTORS)?;
    let replayable = read(m, regs::FAULT_VECTORS + 4)?;
    Ok(Vectors {
        replayable: vector(replayable >> 16)?,
        replayable_error: vector(replayable)?,
        non_replayable: vector(non_replayable >> 16)?,
        non_replayable_error: vector(non_replayable)?,
        info_fault: vector(read(m, regs::INFO_FAULT_VECTOR)?)?,
        access_counter: Vector(ACCESS_COUNTER_VECTOR),
    })
}

/// PTIMER, nanoseconds (32 ns granularity).
///
/// # Errors
/// [`Error::Gone`]; [`Error::BadDevice`] when the high word never holds still.
pub fn ptimer_ns<M: Mmio + ?Sized>(m: &M) -> Result<u64> {
    let mut high = read(m, regs::TIME_1)?;
    // The high word changes every 4 s; four looks are plenty.
    for _ in 0..4 {
        let low = read(m, regs::TIME_0)?;
        let again = read(m, regs::TIME_1)?;
        if again == high {
            return Ok(u64::from(high & 0x1fff_ffff) << 32 | u64::from(low & !0x1f));
        }
        high = again;
    }
    Err(Error::BadDevice("TIME_1", high))
}

/// Reads a register of BAR0 that never holds all ones.
pub(super) fn read<M: Mmio + ?Sized>(m: &M, off: u32) -> Result<u32> {
    match m.read32(Bar::Regs, off) {
        u32::MAX => Err(Error::Gone),
        v => Ok(v),
    }
}
