// SPDX-License-Identifier: GPL-2.0
//! Access-counter notifications (hw-interface section 3): enable, drain, disable.
//!
//! The ring's address is one of the BAR2 space; with BAR2 in physical mode, as this driver leaves it, that is an offset
//! in VRAM. So [`DmaMem::dma_addr`] of the memory handed in here is a VRAM offset, and its accesses go through BAR3.

use super::bringup::read;
use super::regs;
use crate::ids::GpuVa;
use crate::seam::{poll, Bar, DmaMem, Mmio, Wait};
use crate::{Error, Result};

/// Bytes of a notification.
pub const PACKET_BYTES: usize = 32;

pub(super) const EN: u32 = 1 << 0;
const PTR: u32 = 0xfff;
const INFO_PUSHED: u32 = 1 << 1;
const VALID: u32 = 1 << 31;
/// Offset of the packet's last dword.
const LAST: usize = 28;

/// A region that was accessed more often than the threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notice {
    /// This GPU's accesses to remote memory (MIMC); else accesses of others to this GPU's memory.
    pub outbound: bool,
    /// `addr` is a virtual address; else a physical one.
    pub is_virtual: bool,
    /// Address of the region, 64 KiB aligned when virtual.
    pub addr: GpuVa,
    /// Instance block address.
    pub instance: u64,
    /// MMU engine id.
    pub engine: u16,
    /// The counter's value, saturating.
    pub count: u16,
    /// Bit i: part i of 32 of the region was accessed; only above 64 KiB granularity.
    pub sub_granularity: u32,
    /// Names the counter, for a targeted clear: bank.
    pub bank: u8,
    /// Names the counter: tag.
    pub tag: u32,
}

/// The notification ring.
#[derive(Debug)]
pub struct CounterRing<D> {
    mem: D,
    entries: u32,
    get: u32,
}

impl<D: DmaMem> CounterRing<D> {
    /// Entries that the device uses; the memory must hold all of them.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::BadDevice`].
    pub fn device_entries<M: Mmio + ?Sized>(m: &M) -> Result<u32> {
        let n = read(m, regs::COUNTER_SIZE)?;
        if (2..=PTR + 1).contains(&n) {
            Ok(n)
        } else {
            Err(Error::BadDevice("NOTIFY_BUFFER_SIZE", n))
        }
    }

    /// A ring over `mem` (4 KiB aligned in BAR2 space).
    ///
    /// # Errors
    /// [`Error::TooSmall`], [`Error::BadAddress`], and those of [`Self::device_entries`].
    pub fn new<M: Mmio + ?Sized>(m: &M, mem: D) -> Result<Self> {
        let entries = Self::device_entries(m)?;
        // CAST: at most 4096.
        let need = entries as usize * PACKET_BYTES;
        if mem.len() < need {
            return Err(Error::TooSmall("access counter ring", need));
        }
        if mem.dma_addr() % 4096 != 0 {
            return Err(Error::BadAddress(mem.dma_addr()));
        }
        Ok(CounterRing {
            mem,
            entries,
            get: 0,
        })
    }

    /// Enables notifications at `threshold` accesses of a 64 KiB region, by virtual address.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::BadDevice`].
    pub fn enable<M: Mmio + ?Sized>(&mut self, m: &M, threshold: u16) -> Result<()> {
        for i in 0..self.entries {
            self.mem.write32(self.offset(i) + LAST, 0);
        }
        m.wmb();
        let addr = self.mem.dma_addr();
        // GVA_NOTIFY; granularities 64 KiB.
        let config = u32::from(threshold) | 1 << 20;
        m.write32(Bar::Regs, regs::COUNTER_CONFIG, config);
        self.get = self.put(m)?;
        self.write_get(m);
        // CAST: the two halves.
        m.write32(Bar::Regs, regs::COUNTER_HI, (addr >> 32) as u32);
        m.write32(Bar::Regs, regs::COUNTER_LO, addr as u32 | EN);
        Ok(())
    }

    /// Disables notifications and waits until none is on its way.
    ///
    /// # Errors
    /// [`Error::Timeout`], [`Error::Gone`].
    pub fn disable<M: Mmio + ?Sized>(&mut self, m: &M, wait: &mut Wait<'_>) -> Result<()> {
        m.write32(Bar::Regs, regs::COUNTER_LO, 0);
        poll(wait, "access counter idle", || {
            match read(m, regs::COUNTER_INFO) {
                Ok(v) if v & INFO_PUSHED == 0 => None,
                other => Some(other.map(|_| ())),
            }
        })?
    }

    /// Reads up to `out.len()` notices and gives their slots back. A notice that is not valid yet ends the batch: it is
    /// a hint, not worth waiting for.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::BadDevice`].
    pub fn drain<M: Mmio + ?Sized>(&mut self, m: &M, out: &mut [Notice]) -> Result<usize> {
        let put = self.put(m)?;
        let mut n = 0;
        for slot in out.iter_mut() {
            let off = self.offset(self.get);
            if self.get == put || self.mem.read32(off + LAST) & VALID == 0 {
                break;
            }
            m.rmb();
            *slot = self.parse(off);
            self.mem.write32(off + LAST, 0);
            self.get += 1;
            if self.get >= self.entries {
                self.get = 0;
            }
            n += 1;
        }
        m.wmb();
        self.write_get(m);
        Ok(n)
    }

    /// Gives the memory back (disable first).
    pub fn into_mem(self) -> D {
        self.mem
    }

    fn parse(&self, off: usize) -> Notice {
        let dw = |i: usize| self.mem.read32(off + 4 * i);
        let wide = |i: usize| u64::from(dw(i)) | u64::from(dw(i + 1)) << 32;
        // CAST: each field is masked to its width.
        Notice {
            outbound: dw(0) & 1 != 0,
            is_virtual: dw(0) & 2 == 0,
            addr: GpuVa(wide(2)),
            instance: wide(0) & !0xfff,
            engine: (dw(7) >> 20 & 0x1ff) as u16,
            count: (dw(6) & 0xffff) as u16,
            sub_granularity: dw(4),
            bank: (dw(0) >> 2 & 0xf) as u8,
            tag: dw(5) & 0xf_ffff,
        }
    }

    fn put<M: Mmio + ?Sized>(&self, m: &M) -> Result<u32> {
        let put = read(m, regs::COUNTER_PUT)?;
        if put & PTR >= self.entries {
            return Err(Error::BadDevice("NOTIFY_BUFFER_PUT", put));
        }
        Ok(put & PTR)
    }

    fn write_get<M: Mmio + ?Sized>(&self, m: &M) {
        m.write32(Bar::Regs, regs::COUNTER_GET, self.get);
    }

    fn offset(&self, entry: u32) -> usize {
        // CAST: at most 4096 entries.
        entry as usize * PACKET_BYTES
    }
}
