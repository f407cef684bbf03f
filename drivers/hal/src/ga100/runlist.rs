// SPDX-License-Identifier: GPL-2.0
//! Runlists: which channels the host scheduler runs (hw-interface 6.7).

use super::bringup::read;
use super::regs;
use crate::ids::{Chid, SysAddr};
use crate::seam::{poll, set, Bar, DmaMem, Mmio, Wait};
use crate::{Error, Result};

// Offsets in a runlist's register block.
const CHANNEL_CONFIG: u32 = 0x004;
const DOORBELL_CONFIG: u32 = 0x008;
const SUBMIT_BASE_LO: u32 = 0x080;
const SUBMIT_BASE_HI: u32 = 0x084;
const SUBMIT: u32 = 0x088;
const SUBMIT_INFO: u32 = 0x08c;
const INTERNAL_DOORBELL: u32 = 0x090;
const PREEMPT: u32 = 0x098;
const VIRTUAL_CHANNEL_CFG: u32 = 0x300;

const SUBMIT_PENDING: u32 = 1 << 15;
const PREEMPT_TSG_PENDING: u32 = 1 << 20;
const PREEMPT_RUNLIST_PENDING: u32 = 1 << 21;
const PENDING_ENABLE: u32 = 1 << 31;
/// Target code of runlist registers and entries: coherent system memory.
const TARGET_SYS: u32 = 2;
/// Bits of SUBMIT_BASE_LO and _HI that hold something.
const BASE_LO: u32 = 0xffff_f003;
const BASE_HI: u32 = 0xff;

// Channel RAM word: bit 0 says whether the 1-bits above are set or cleared.
const CHRAM_ENABLE: u32 = 0x2;
const CHRAM_DISABLE: u32 = 0x3;
const CHRAM_CLEAR_PBDMA: u32 = 0x11;
const CHRAM_CLEAR_ENGINE: u32 = 0x21;
const CHRAM_RESET: u32 = u32::MAX;

/// Timeslice of a channel's group: 128 << 3 units of 1024 ns, the reset default.
const TSG_HEADER: u32 = 1 | 3 << 16 | 128 << 24;
/// Bytes of a runlist entry.
const ENTRY_BYTES: usize = 16;

/// A runlist's register block, as the device-info table names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runlist {
    /// Offset of its registers in BAR0.
    pub base: u32,
    /// Offset of its channel RAM in BAR0.
    pub chram: u32,
    /// Channels it can have.
    pub channels: u32,
    /// Id in doorbell tokens.
    pub doorbell_id: u16,
}

/// A channel of a runlist, for [`Runlist::submit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Channel number.
    pub chid: Chid,
    /// Instance block, in system memory, 4 KiB aligned.
    pub instance: SysAddr,
    /// USERD, in system memory, 512-byte aligned.
    pub userd: SysAddr,
}

/// Bytes that [`Runlist::submit`] writes for `channels` channels.
pub const fn runlist_bytes(channels: usize) -> usize {
    // A group header and a channel entry each.
    channels.saturating_mul(2 * ENTRY_BYTES)
}

/// State of a channel, from channel RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelState {
    /// The scheduler may run it.
    pub enabled: bool,
    /// It has work or runs.
    pub busy: bool,
    /// Its PBDMA met a fault.
    pub pbdma_faulted: bool,
    /// Its engine met a fault.
    pub engine_faulted: bool,
}

impl Runlist {
    /// Reads the read-only part of the register block at `base`.
    pub(super) fn discover<M: Mmio + ?Sized>(m: &M, base: u32) -> Result<Runlist> {
        let channels = read(m, base.wrapping_add(CHANNEL_CONFIG))?;
        let doorbell = read(m, base.wrapping_add(DOORBELL_CONFIG))?;
        let log2 = channels & 0xf;
        if !(1..=12).contains(&log2) {
            return Err(Error::BadDevice("CHANNEL_CONFIG", channels));
        }
        Ok(Runlist {
            base,
            chram: channels & !0xf,
            channels: 1 << log2,
            // CAST: sixteen bits.
            doorbell_id: (doorbell >> 16) as u16,
        })
    }

    /// Doorbell token of a channel.
    pub fn token(&self, chid: Chid) -> u32 {
        u32::from(chid.0 & 0xfff) | (u32::from(self.doorbell_id & 0x7f) << 16)
    }

    /// Lets doorbells take effect and takes an empty list. Once, at probe.
    ///
    /// # Errors
    /// [`Error::Timeout`], [`Error::Gone`], [`Error::BadState`] when a register does not take what is written.
    pub fn init<M: Mmio + ?Sized>(&self, m: &M, wait: &mut Wait<'_>) -> Result<()> {
        let (config, on) = (self.at(VIRTUAL_CHANNEL_CFG), PENDING_ENABLE);
        set(m, "VIRTUAL_CHANNEL_CFG", config, on, on)?;
        self.take(m, SysAddr(0), 0, wait)
    }

    /// Writes `entries` to `list` (each channel in a group of its own, with the default timeslice), submits it and waits
    /// until it is taken. `list` stays the device's until the next submission.
    ///
    /// # Errors
    /// [`Error::TooSmall`], [`Error::BadAddress`], [`Error::OutOfRange`], [`Error::Timeout`], [`Error::Gone`], [`Error::BadState`] when a
    /// register does not take what is written.
    pub fn submit<M: Mmio + ?Sized, D: DmaMem + ?Sized>(
        &self,
        m: &M,
        list: &D,
        entries: &[Entry],
        wait: &mut Wait<'_>,
    ) -> Result<()> {
        let need = runlist_bytes(entries.len());
        if list.len() < need {
            return Err(Error::TooSmall("runlist", need));
        }
        let length = u32::try_from(entries.len() * 2)
            .ok()
            .filter(|l| *l <= 0xffff)
            .ok_or(Error::OutOfRange("runlist entries", entries.len() as u64))?;
        for (e, at) in entries.iter().zip((0..need).step_by(2 * ENTRY_BYTES)) {
            self.check(e.chid)?;
            check_address(e.instance, 4096)?;
            check_address(e.userd, 512)?;
            let (inst, userd) = (split(e.instance), split(e.userd));
            let chid = u32::from(e.chid.0);
            let words = [
                TSG_HEADER,
                1,
                chid,
                0,
                TARGET_SYS << 4 | TARGET_SYS << 6 | userd.0,
                userd.1,
                chid | inst.0,
                inst.1,
            ];
            for (w, off) in words.iter().zip((at..).step_by(4)) {
                list.write32(off, *w);
            }
        }
        m.wmb();
        self.take(m, SysAddr(list.dma_addr()), length, wait)
    }

    /// Submits `length` entries at `base` and waits until the host took them.
    fn take<M: Mmio + ?Sized>(
        &self,
        m: &M,
        base: SysAddr,
        length: u32,
        wait: &mut Wait<'_>,
    ) -> Result<()> {
        check_address(base, 4096)?;
        let (lo, hi) = split(base);
        // A list of an earlier owner, or none at all, would be run otherwise.
        let base = TARGET_SYS | lo;
        set(m, "SUBMIT_BASE_LO", self.at(SUBMIT_BASE_LO), base, BASE_LO)?;
        set(m, "SUBMIT_BASE_HI", self.at(SUBMIT_BASE_HI), hi, BASE_HI)?;
        set(m, "SUBMIT", self.at(SUBMIT), length, u32::MAX)?;
        self.settle(m, SUBMIT_INFO, SUBMIT_PENDING, "runlist submit", wait)
    }

    /// Lets the scheduler run a channel, and rings its doorbell once.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Gone`], [`Error::BadState`] when it is not enabled then.
    pub fn enable<M: Mmio + ?Sized>(&self, m: &M, chid: Chid) -> Result<()> {
        let word = (Bar::Regs, self.check(chid)?);
        set(m, "channel to be enabled", word, CHRAM_ENABLE, CHRAM_ENABLE)?;
        self.write(m, INTERNAL_DOORBELL, u32::from(chid.0));
        Ok(())
    }

    /// Rings a channel's doorbell: its engine looks whether there is something to do.
    pub fn ring<M: Mmio + ?Sized>(&self, m: &M, chid: Chid) {
        m.write32(Bar::Regs, regs::DOORBELL, self.token(chid));
    }

    /// Keeps the scheduler from running a channel; what runs is not stopped.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn disable<M: Mmio + ?Sized>(&self, m: &M, chid: Chid) -> Result<()> {
        m.write32(Bar::Regs, self.check(chid)?, CHRAM_DISABLE);
        Ok(())
    }

    /// Forgets everything about a channel that is on no list any more, so that its number can be used again.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn reset_channel<M: Mmio + ?Sized>(&self, m: &M, chid: Chid) -> Result<()> {
        m.write32(Bar::Regs, self.check(chid)?, CHRAM_RESET);
        Ok(())
    }

    /// Takes the whole runlist off its engine and waits.
    ///
    /// # Errors
    /// [`Error::Timeout`], [`Error::Gone`].
    pub fn preempt<M: Mmio + ?Sized>(&self, m: &M, wait: &mut Wait<'_>) -> Result<()> {
        self.begin_preempt(m);
        self.preempted(m, wait)
    }

    /// Begins to take the whole runlist off its engine.
    pub fn begin_preempt<M: Mmio + ?Sized>(&self, m: &M) {
        self.write(m, PREEMPT, 0);
    }

    /// Waits until what [`Self::begin_preempt`] began is done: what the engine had on its way has arrived.
    ///
    /// # Errors
    /// [`Error::Timeout`], [`Error::Gone`].
    pub fn preempted<M: Mmio + ?Sized>(&self, m: &M, wait: &mut Wait<'_>) -> Result<()> {
        let pending = PREEMPT_TSG_PENDING | PREEMPT_RUNLIST_PENDING;
        self.settle(m, PREEMPT, pending, "preempt", wait)
    }

    /// A channel's state.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Gone`].
    pub fn state<M: Mmio + ?Sized>(&self, m: &M, chid: Chid) -> Result<ChannelState> {
        let w = read(m, self.check(chid)?)?;
        Ok(ChannelState {
            enabled: w & 1 << 1 != 0,
            busy: w & 1 << 3 != 0,
            pbdma_faulted: w & 1 << 4 != 0,
            engine_faulted: w & 1 << 5 != 0,
        })
    }

    /// Whether the engine met a fault in a channel, of which there is a packet: the flag may come after that. Looks until it is set or
    /// `wait` says no.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Gone`].
    pub fn engine_faulted<M: Mmio + ?Sized>(
        &self,
        m: &M,
        chid: Chid,
        wait: &mut Wait<'_>,
    ) -> Result<bool> {
        let flag = poll(wait, "flag of a fault", || match self.state(m, chid) {
            Ok(s) if !s.engine_faulted => None,
            other => Some(other.map(|_| true)),
        });
        flag.unwrap_or(Ok(false))
    }

    /// Clears the faulted flags of a channel and rings its doorbell: the faulting method runs again.
    /// Returns whether a flag was set.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Gone`].
    pub fn clear_faulted<M: Mmio + ?Sized>(&self, m: &M, chid: Chid) -> Result<bool> {
        let state = self.state(m, chid)?;
        let word = self.check(chid)?;
        if state.pbdma_faulted {
            m.write32(Bar::Regs, word, CHRAM_CLEAR_PBDMA);
        }
        if state.engine_faulted {
            m.write32(Bar::Regs, word, CHRAM_CLEAR_ENGINE);
        }
        let faulted = state.pbdma_faulted || state.engine_faulted;
        if faulted {
            self.ring(m, chid);
        }
        Ok(faulted)
    }

    /// Offset of a channel's word in BAR0.
    fn check(&self, chid: Chid) -> Result<u32> {
        if u32::from(chid.0) >= self.channels {
            return Err(Error::OutOfRange("channel", u64::from(chid.0)));
        }
        Ok(self.chram.wrapping_add(4 * u32::from(chid.0)))
    }

    fn write<M: Mmio + ?Sized>(&self, m: &M, off: u32, val: u32) {
        let (bar, at) = self.at(off);
        m.write32(bar, at, val);
    }

    /// The register at byte `off` of its block.
    const fn at(&self, off: u32) -> (Bar, u32) {
        (Bar::Regs, self.base.wrapping_add(off))
    }

    /// Waits until the bits of `pending` are clear.
    fn settle<M: Mmio + ?Sized>(
        &self,
        m: &M,
        off: u32,
        pending: u32,
        what: &'static str,
        wait: &mut Wait<'_>,
    ) -> Result<()> {
        poll(wait, what, || match read(m, self.base.wrapping_add(off)) {
            Ok(v) if v & pending != 0 => None,
            other => Some(other.map(|_| ())),
        })?
    }
}

/// Low (with its flag bits zero) and high word of an address.
fn split(a: SysAddr) -> (u32, u32) {
    // CAST: the two halves.
    (a.0 as u32, (a.0 >> 32) as u32)
}

/// Runlist and USERD addresses have 40 bits.
fn check_address(a: SysAddr, align: u64) -> Result<()> {
    if a.0 % align != 0 || a.0 >> 40 != 0 {
        return Err(Error::BadAddress(a.0));
    }
    Ok(())
}
