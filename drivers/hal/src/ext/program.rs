// SPDX-License-Identifier: GPL-2.0
//! Workload programs: the descriptor, built or checked.

use crate::seam::DmaMem;
use crate::Result;

/// What a checked descriptor asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Blocks.
    pub blocks: u32,
    /// Instructions.
    pub ninstr: u32,
    /// Iterations.
    pub iterations: u32,
    /// Bytes of an element, 4 or 8.
    pub elem_bytes: u32,
    /// Bytes of the descriptor.
    pub bytes: usize,
}

/// Checks a descriptor in `mem` (not writable by the user any more) against every rule of device.md section 2.3.
///
/// # Errors
/// [`crate::Error::BadProgram`] with the field, [`crate::Error::TooSmall`].
pub fn check<D: DmaMem + ?Sized>(mem: &D) -> Result<Program> {
    let _ = mem;
    Err(crate::Error::BadProgram("magic", 0))
}
