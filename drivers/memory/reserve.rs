// SPDX-License-Identifier: GPL-2.0
//! What the driver keeps of a GPU's memory for itself: the last whole chunk. Copy engines write there by themselves, so nobody is given
//! any of it.

use super::BLOCK_BYTES;
use huvm_hal::ga100::instance::METHOD_BUFFER_BYTES;
use huvm_hal::ids::VidAddr;

/// Chunks of `vram_bytes` of memory that anybody may have. What is beyond the last whole one is not used.
pub(crate) const fn chunks(vram_bytes: u64) -> u64 {
    (vram_bytes / BLOCK_BYTES).saturating_sub(1)
}

/// The method buffer for channels of the `n`-th copy engine; `None` if there is no room for so many.
pub(crate) fn method_buffer(vram_bytes: u64, n: usize) -> Option<VidAddr> {
    let at = u64::try_from(n).ok()?.checked_mul(METHOD_BUFFER_BYTES)?;
    let first = chunks(vram_bytes).checked_mul(BLOCK_BYTES)?;
    let at = first.checked_add(at).filter(|_| at < BLOCK_BYTES)?;
    Some(VidAddr(at))
}
