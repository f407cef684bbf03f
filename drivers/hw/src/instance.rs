// SPDX-License-Identifier: GPL-2.0
//! Instance block: RAMIN (hw-interface 4.6) and RAMFC (6.6). The word is the dword index in the block.

use crate::aperture::MemTarget;
use crate::bits::{join, split};

/// Bytes of an instance block; also its alignment.
pub const BYTES: usize = 4096;
/// Subcontexts.
pub const SUBCONTEXTS: usize = 64;

/// RAMIN.
pub mod ramin {
    crate::bits::fields32! {
        PAGE_DIR_BASE_TARGET = (128, 1, 0);
        PAGE_DIR_BASE_VOL = (128, 2, 2);
        FAULT_REPLAY_TEX = (128, 4, 4);
        FAULT_REPLAY_GCC = (128, 5, 5);
        USE_VER2_PT_FORMAT = (128, 10, 10);
        BIG_PAGE_SIZE = (128, 11, 11);
        PAGE_DIR_BASE_LO = (128, 31, 12);
        PAGE_DIR_BASE_HI = (129, 31, 0);
        ENGINE_WFI_TARGET = (132, 1, 0);
        ENGINE_WFI_MODE = (132, 2, 2);
        ENGINE_WFI_PTR_LO = (132, 31, 12);
        ENGINE_WFI_PTR_HI = (133, 7, 0);
        ENGINE_WFI_VEID = (134, 5, 0);
        PASID = (135, 19, 0);
        ENABLE_ATS = (135, 31, 31);
        ENG_METHOD_BUFFER_ADDR_LO = (136, 31, 0);
        ENG_METHOD_BUFFER_ADDR_HI = (137, 16, 0);
        SC_PDB_VALID_0 = (166, 31, 0);
        SC_PDB_VALID_1 = (167, 31, 0);
        SC_PAGE_DIR_BASE_0 = (168, 31, 0);
        SC_PAGE_DIR_BASE_HI_0 = (169, 31, 0);
        SC_PAGE_DIR_BASE_63 = (420, 31, 0);
        SC_PAGE_DIR_BASE_HI_63 = (421, 31, 0);
    }
}

/// RAMFC.
pub mod ramfc {
    crate::bits::fields32! {
        SIGNATURE = (4, 31, 0);
        ACQUIRE = (12, 31, 0);
        GP_BASE_OFFSET = (18, 31, 3);
        GP_BASE_HI_OFFSET = (19, 7, 0);
        GP_BASE_HI_LIMIT2 = (19, 20, 16);
        PB_HEADER = (33, 31, 0);
        SUBDEVICE = (37, 31, 0);
        TARGET_ENG_CTX_VALID = (43, 16, 16);
        TARGET_CE_CTX_VALID = (43, 17, 17);
        HCE_CTRL_PRIVILEGED = (57, 5, 5);
        CHANNEL_ID = (58, 31, 0);
        CONFIG_CE_SPLIT = (61, 4, 4);
        CONFIG_CE_THROTTLE = (61, 5, 5);
        CONFIG_AUTH_LEVEL = (61, 8, 8);
        CONFIG_USERD_WRITEBACK = (61, 12, 12);
        INTR_NOTIFY_VECTOR = (62, 11, 0);
        INTR_NOTIFY_GSP = (62, 30, 30);
        INTR_NOTIFY_CPU = (62, 31, 31);
        SET_CHANNEL_INFO_SCG = (63, 0, 0);
        SET_CHANNEL_INFO_VEID = (63, 13, 8);
    }

    /// SIGNATURE: what nouveau writes.
    pub const SIGNATURE_VALUE: u32 = 0xface;
    /// ACQUIRE: what nouveau writes.
    pub const ACQUIRE_VALUE: u32 = 0x7fff_f902;
    /// PB_HEADER: what nouveau writes.
    pub const PB_HEADER_VALUE: u32 = 0x2040_0000;
    /// SUBDEVICE: what nouveau writes.
    pub const SUBDEVICE_VALUE: u32 = 0x3000_0fff;
}

/// Byte offset of the page directory words of subcontext `veid`, `None` from 64 on.
pub const fn sc_page_dir_base(veid: usize) -> Option<usize> {
    if veid >= SUBCONTEXTS {
        return None;
    }
    Some(0x2a0usize.wrapping_add(veid.wrapping_mul(0x10)))
}

/// The two page-directory words: dwords 128 and 129, and those of each subcontext.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageDirBase {
    /// Where the root is.
    pub target: MemTarget,
    /// Its address, 4 KiB aligned.
    pub addr: u64,
    /// Not cached.
    pub vol: bool,
    /// Texture clients may wait for a replay.
    pub replay_tex: bool,
    /// Constant caches may wait for a replay.
    pub replay_gcc: bool,
}

/// The page-directory words are not usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPageDir {
    /// Target 1: the subcontext has none.
    NoTarget,
    /// Not the version-2 format.
    Version,
    /// Not 64 KiB big pages.
    BigPageSize,
}

impl PageDirBase {
    /// The two words, version 2, 64 KiB big pages; `None` for an unaligned address.
    pub const fn pack(&self) -> Option<[u32; 2]> {
        if self.addr & 0xfff != 0 {
            return None;
        }
        let (lo, hi) = split(self.addr);
        Some([
            ramin::PAGE_DIR_BASE_TARGET.of(self.target.raw())
                | ramin::PAGE_DIR_BASE_VOL.of(self.vol as u32)
                | ramin::FAULT_REPLAY_TEX.of(self.replay_tex as u32)
                | ramin::FAULT_REPLAY_GCC.of(self.replay_gcc as u32)
                | ramin::USE_VER2_PT_FORMAT.of(1)
                | ramin::BIG_PAGE_SIZE.of(1)
                | lo,
            hi,
        ])
    }

    /// The meaning of the two words.
    ///
    /// # Errors
    /// [`BadPageDir`].
    pub const fn unpack(w: [u32; 2]) -> Result<PageDirBase, BadPageDir> {
        let [lo, hi] = w;
        let Some(target) = MemTarget::from_raw(ramin::PAGE_DIR_BASE_TARGET.get(lo)) else {
            return Err(BadPageDir::NoTarget);
        };
        if !ramin::USE_VER2_PT_FORMAT.is_set(lo) {
            return Err(BadPageDir::Version);
        }
        if !ramin::BIG_PAGE_SIZE.is_set(lo) {
            return Err(BadPageDir::BigPageSize);
        }
        Ok(PageDirBase {
            target,
            addr: join(lo & ramin::PAGE_DIR_BASE_LO.of(u32::MAX), hi),
            vol: ramin::PAGE_DIR_BASE_VOL.is_set(lo),
            replay_tex: ramin::FAULT_REPLAY_TEX.is_set(lo),
            replay_gcc: ramin::FAULT_REPLAY_GCC.is_set(lo),
        })
    }
}
