// SPDX-License-Identifier: GPL-2.0
//! Copies out of a GPU's memory by the CPU, through the GPU's aperture (BAR1).
//!
//! A last resort, where the copy engine for it was given up: what only the GPU has can still be had, at some ten to some hundred MB/s. The
//! caller has the block's lock meanwhile, and nothing is waited for.

use super::ecc;
use crate::device::Gpu;
use crate::kernel::task;
use crate::memory::backing::Backing;
use crate::memory::{PageMask, BLOCK_BYTES};
use huvm_policy::types::ChunkId;
use kernel::prelude::*;

/// Reads `pages` of a chunk to a block's host memory `host`, which is there, but those whose memory is known to have failed: there the CPU
/// would read anything. Returns these, which have not arrived. May take some hundred milliseconds.
///
/// # Errors
/// `EIO` if the GPU is lost, its aperture does not reach that far, or more memory failed than anybody knows which; `EAGAIN` if it does
/// not answer for a moment; `ENOMEM`.
pub(super) fn copy(
    gpu: &Gpu,
    host: &mut Backing,
    chunk: ChunkId,
    pages: &PageMask,
) -> Result<PageMask> {
    // No engine comes by here, which would say so for itself.
    let failed = || {
        match ecc::hear(gpu) {
            // Its thread takes the chunks out of service.
            Ok(true) => gpu.call_for_service(),
            Ok(false) => {}
            Err(_) => return gpu.check().and(Err(EAGAIN)),
        }
        match gpu.has_unknown_failures() {
            true => Err(EIO),
            false => Ok(pages.and(&gpu.known_to_fail(chunk))),
        }
    };
    // All ones are read of one that is gone, if only for a moment, and anything of one that was reset.
    let heard = || match gpu.answers() {
        true => Ok(()),
        false => gpu.check().and(Err(EAGAIN)),
    };
    heard()?;
    // CAST: 2 MiB.
    let window = gpu.window(chunk.byte_offset().get(), BLOCK_BYTES as usize);
    let window = window.map_err(|e| if e == EINVAL { EIO } else { e })?;
    for page in pages.and_not(&failed()?).iter() {
        if !host.read_from(page, &window) {
            return Err(EIO);
        }
        heard()?;
    }
    drop(window);
    task::give_way();
    gpu.check()?;
    // Some may have failed meanwhile.
    failed()
}
