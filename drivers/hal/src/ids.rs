// SPDX-License-Identifier: GPL-2.0
//! Addresses and numbers that must not be mixed up.

/// Bytes of the smallest page.
pub const PAGE_BYTES: u64 = 4096;
/// Bytes of a block: what a PDE0 entry covers, and the driver's unit.
pub const BLOCK_BYTES: u64 = 2 << 20;
/// 4 KiB pages of a block.
pub const BLOCK_PAGES: u16 = 512;

/// GPU virtual address (49 bits in page-table version 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GpuVa(pub u64);

/// Bus address of system memory, as the device sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SysAddr(pub u64);

/// Offset in a GPU's own memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct VidAddr(pub u64);

/// Where bytes are, as seen from one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loc {
    /// System memory (coherent).
    Sys(SysAddr),
    /// The GPU's own memory.
    Vid(VidAddr),
    /// A neighbour's memory.
    Peer {
        /// Peer id of this GPU's peer map, 0..7.
        id: u8,
        /// Offset in the neighbour's memory.
        addr: VidAddr,
    },
}

impl Loc {
    /// The address without its kind.
    pub const fn raw(self) -> u64 {
        match self {
            Loc::Sys(SysAddr(a)) | Loc::Vid(VidAddr(a)) => a,
            Loc::Peer {
                addr: VidAddr(a), ..
            } => a,
        }
    }

    /// This place, `bytes` further on; `None` past the end of 64 bits.
    pub const fn add(self, bytes: u64) -> Option<Loc> {
        let Some(a) = self.raw().checked_add(bytes) else {
            return None;
        };
        Some(match self {
            Loc::Sys(_) => Loc::Sys(SysAddr(a)),
            Loc::Vid(_) => Loc::Vid(VidAddr(a)),
            Loc::Peer { id, .. } => Loc::Peer {
                id,
                addr: VidAddr(a),
            },
        })
    }
}

/// Channel number on its runlist, 0..2047.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chid(pub u16);

/// Number of a channel that is unique in the driver (all GPUs); the key of a [`crate::channel::Tracker`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChannelId(pub u16);

/// Interrupt vector, 0..255.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Vector(pub u16);

/// Subcontext number, 0..63.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Veid(pub u8);

/// One bit for each 4 KiB page of a block; page `i` is bit `i % 64` of word `i / 64`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageMask(pub [u64; 8]);

impl PageMask {
    /// No page.
    pub const NONE: PageMask = PageMask([0; 8]);
    /// Every page.
    pub const ALL: PageMask = PageMask([u64::MAX; 8]);

    /// Whether page `i` is in the mask.
    #[inline]
    pub fn has(&self, i: u16) -> bool {
        self.0
            .get(usize::from(i / 64))
            .is_some_and(|w| w >> (i % 64) & 1 == 1)
    }
    /// Adds page `i`; one outside the block is ignored.
    #[inline]
    pub fn set(&mut self, i: u16) {
        if let Some(w) = self.0.get_mut(usize::from(i / 64)) {
            *w |= 1 << (i % 64);
        }
    }
    /// Removes page `i`.
    #[inline]
    pub fn clear(&mut self, i: u16) {
        if let Some(w) = self.0.get_mut(usize::from(i / 64)) {
            *w &= !(1 << (i % 64));
        }
    }
    /// The mask of `count` pages from `first`.
    pub fn range(first: u16, count: u16) -> PageMask {
        let mut m = PageMask::NONE;
        for i in first..first.saturating_add(count).min(BLOCK_PAGES) {
            m.set(i);
        }
        m
    }
    /// The 16 bits of 64 KiB region `r`, 0..31.
    #[inline]
    pub fn region(&self, r: u16) -> u16 {
        let w = self.0.get(usize::from(r / 4)).copied().unwrap_or(0);
        // CAST: keeps the low 16 bits, which are the region's.
        (w >> (16 * (r % 4))) as u16
    }
    /// Whether no page is in the mask.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 8]
    }
    /// Whether every page is.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.0 == [u64::MAX; 8]
    }
    /// Pages in the mask.
    #[inline]
    pub fn count(&self) -> u32 {
        self.0.iter().map(|w| w.count_ones()).sum()
    }
    /// Pages in either mask.
    #[inline]
    pub fn or(&self, o: &PageMask) -> PageMask {
        let mut m = *self;
        for (a, b) in m.0.iter_mut().zip(o.0) {
            *a |= b;
        }
        m
    }
    /// Pages in both masks.
    #[inline]
    pub fn and(&self, o: &PageMask) -> PageMask {
        let mut m = *self;
        for (a, b) in m.0.iter_mut().zip(o.0) {
            *a &= b;
        }
        m
    }
    /// Pages in this mask and not in `o`.
    #[inline]
    pub fn minus(&self, o: &PageMask) -> PageMask {
        let mut m = *self;
        for (a, b) in m.0.iter_mut().zip(o.0) {
            *a &= !b;
        }
        m
    }
    /// First and last page, if there is one.
    pub fn bounds(&self) -> Option<(u16, u16)> {
        let first = self.0.iter().position(|w| *w != 0)?;
        let last = self.0.iter().rposition(|w| *w != 0)?;
        let (low, high) = (self.0.get(first)?, self.0.get(last)?);
        // CAST: eight words of 64 bits; all below 512.
        Some((
            (first * 64) as u16 + low.trailing_zeros() as u16,
            (last * 64 + 63) as u16 - high.leading_zeros() as u16,
        ))
    }
}
