// SPDX-License-Identifier: GPL-2.0
//! The one error type of this crate; each variant carries the value that failed.

use crate::pagetable::Need;

/// Why a duty was not done. Nothing was changed unless the function says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The device reads all ones: it was removed, or lost its link.
    Gone,
    /// The device did not reach a state before the caller's wait ended; the text names the state.
    Timeout(&'static str),
    /// PMC_BOOT_0 names a chip that this crate does not drive.
    UnknownChip(u32),
    /// A register or packet of the device holds a value with no meaning: which one, and the value.
    BadDevice(&'static str, u32),
    /// A buffer is shorter than the duty needs: what, bytes needed.
    TooSmall(&'static str, usize),
    /// An address is not aligned as its use requires, or out of the range that the format can hold.
    BadAddress(u64),
    /// A length, count or index is out of its range: what, value.
    OutOfRange(&'static str, u64),
    /// The caller's memory has no room to note a page table. Nothing was changed.
    NoRoom,
    /// No room in the ring or pushbuffer until earlier work completes: dwords or entries wanted.
    Busy(u32),
    /// Page tables are missing; supply them and call again. Nothing was changed.
    NeedTables(Need),
    /// The table or directory entry for this address does not exist.
    NoTable(u64),
    /// A directory entry is there already.
    Exists(u64),
    /// A workload descriptor breaks a rule: the field, its value.
    BadProgram(&'static str, u64),
    /// A slot, channel or engine is not in the state that the call needs: what, its state.
    BadState(&'static str, u32),
    /// The device has no such optional block: its id.
    Absent(u16),
    /// A fault ring was not read to the end because a packet did not become valid: its index.
    Stuck(u32),
}

/// Result with [`Error`].
pub type Result<T> = core::result::Result<T, Error>;
