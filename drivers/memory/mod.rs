// SPDX-License-Identifier: GPL-2.0
//! What is where: spaces, ranges, 2 MiB blocks, chunks, host backing.
//!
//! A [`space::Space`] is one open file. It has ranges (one per `mmap`) and blocks ([`block::Block`]), made at first touch.
//! A block knows page by page where the valid copies are: in a [`chunk`] of a GPU, or in its [`backing::Backing`] on
//! the host. Nothing here decides and nothing here copies: that is `policy/` and `service/`.
//!
//! Locks: see `service/lock.rs`.

pub(crate) mod advice;
pub(crate) mod backing;
pub(crate) mod block;
pub(crate) mod chunk;
pub(crate) mod clients;
pub(crate) mod gpu_space;
pub(crate) mod host_pool;
pub(crate) mod layout;
pub(crate) mod offer;
pub(crate) mod registry;
pub(crate) mod reserve;
pub(crate) mod space;

pub(crate) use huvm_policy::types::{PageIndex, PageMask, PageRegion, Pages};

use crate::kernel::ffi::uapi;
use kernel::prelude::*;

/// Bytes of a page.
pub(crate) const PAGE_BYTES: u64 = 4096;
/// Bytes of a block and of a chunk.
pub(crate) const BLOCK_BYTES: u64 = 2 << 20;
/// Pages of a block.
pub(crate) const BLOCK_PAGES: u16 = 512;
/// First address that a GPU cannot name (49-bit virtual addresses).
pub(crate) const VA_LIMIT: u64 = 1 << 49;

/// The block that an address lies in.
pub(crate) const fn block_base(va: u64) -> u64 {
    va & !(BLOCK_BYTES - 1)
}

/// Where pages live, or should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Host memory.
    Host,
    /// Memory of the GPU with this index.
    Gpu(u8),
    /// The chunk that the block keeps in a neighbour's spare memory ([`block::Spare`]). Nobody asks for it by name.
    Spare,
}

impl Place {
    /// From a `HUVM_PLACE_*` value or a GPU index.
    ///
    /// # Errors
    /// `ENODEV` for an index that no machine has.
    pub(crate) fn from_uapi(raw: u32) -> Result<Place> {
        if raw == uapi::HUVM_PLACE_HOST {
            return Ok(Place::Host);
        }
        match u8::try_from(raw) {
            Ok(i) if u32::from(i) < uapi::HUVM_MAX_GPUS => Ok(Place::Gpu(i)),
            _ => Err(ENODEV),
        }
    }

    /// The value in `uapi/huvm.h`.
    pub(crate) fn to_uapi(self) -> u32 {
        match self {
            Place::Host => uapi::HUVM_PLACE_HOST,
            Place::Gpu(i) => u32::from(i),
            Place::Spare => uapi::HUVM_PLACE_NONE,
        }
    }
}

/// The pages of the block at `base` that lie in `start..end` (bytes).
pub(crate) fn pages_between(base: u64, start: u64, end: u64) -> PageMask {
    let first = start.saturating_sub(base) / PAGE_BYTES;
    let last = end.saturating_sub(base).div_ceil(PAGE_BYTES);
    let clip = |n: u64| u16::try_from(n.min(u64::from(BLOCK_PAGES))).unwrap_or(BLOCK_PAGES);
    PageMask::from_region(PageRegion::from_bounds(clip(first), clip(last)))
}
