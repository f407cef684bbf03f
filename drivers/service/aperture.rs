// SPDX-License-Identifier: GPL-2.0
//! Copies out of a GPU's memory by the CPU, through the GPU's aperture (BAR1).
//!
//! A last resort, where the copy engine for it was given up: what only the GPU has can still be had, some ten times slower. The
//! caller has the block's lock meanwhile; nothing is in flight, so nothing is waited for.

use crate::channel::poison;
use crate::device::Gpu;
use crate::kernel::task;
use crate::memory::backing::Backing;
use crate::memory::{PageMask, BLOCK_BYTES};
use huvm_policy::types::ChunkId;
use kernel::prelude::*;

/// Reads `pages` of a chunk to a block's host memory `host`, which is there. May take some ten milliseconds.
///
/// # Errors
/// `EIO` if the GPU does not answer, its aperture does not reach that far, or some of it is in memory that failed: what is read
/// there is anything.
pub(super) fn copy(gpu: &Gpu, host: &mut Backing, chunk: ChunkId, pages: &PageMask) -> Result {
    if pages.intersects(&poison::in_chunk(gpu.index(), chunk)) {
        return Err(EIO);
    }
    // CAST: 2 MiB.
    let window = gpu.window(chunk.byte_offset().get(), BLOCK_BYTES as usize);
    let window = window.map_err(|_| EIO)?;
    for page in pages.iter() {
        if !host.read_from(page, &window) {
            return Err(EIO);
        }
    }
    drop(window);
    task::give_way();
    // All ones were read of one that is gone.
    match gpu.answers() {
        true => Ok(()),
        false => Err(EIO),
    }
}
