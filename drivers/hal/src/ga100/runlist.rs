// SPDX-License-Identifier: GPL-2.0
//! Runlists: which channels the host scheduler runs.

use crate::ids::{Chid, SysAddr};
use crate::seam::{DmaMem, Mmio, Wait};
use crate::Result;

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

/// A channel of a runlist, for [`submit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Channel number.
    pub chid: Chid,
    /// Instance block, in system memory.
    pub instance: SysAddr,
    /// USERD, in system memory.
    pub userd: SysAddr,
}

/// Bytes that [`submit`] writes for `channels` channels.
pub const fn runlist_bytes(channels: usize) -> usize {
    // One TSG header an entry; 16 bytes each.
    channels.saturating_mul(32)
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
    /// Doorbell token of a channel.
    pub fn token(&self, chid: Chid) -> u32 {
        u32::from(chid.0 & 0xfff) | (u32::from(self.doorbell_id & 0x7f) << 16)
    }

    /// Lets doorbells take effect and takes an empty list. Once, at probe.
    ///
    /// # Errors
    /// [`crate::Error::Timeout`], [`crate::Error::Gone`].
    pub fn init<M: Mmio + ?Sized>(&self, m: &M, wait: &mut Wait<'_>) -> Result<()> {
        let _ = (m, wait);
        Ok(())
    }

    /// Writes `entries` to `list` (each channel in a TSG of its own), submits it and waits until it is taken.
    ///
    /// # Errors
    /// [`crate::Error::TooSmall`], [`crate::Error::Timeout`], [`crate::Error::Gone`].
    pub fn submit<M: Mmio + ?Sized, D: DmaMem + ?Sized>(
        &self,
        m: &M,
        list: &D,
        entries: &[Entry],
        wait: &mut Wait<'_>,
    ) -> Result<()> {
        let _ = (m, list, entries, wait);
        Ok(())
    }

    /// Lets the scheduler run a channel, and rings its doorbell once.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`].
    pub fn enable<M: Mmio + ?Sized>(&self, m: &M, chid: Chid) -> Result<()> {
        let _ = (m, chid);
        Ok(())
    }

    /// Keeps the scheduler from running a channel; what runs is not stopped.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`].
    pub fn disable<M: Mmio + ?Sized>(&self, m: &M, chid: Chid) -> Result<()> {
        let _ = (m, chid);
        Ok(())
    }

    /// Takes the whole runlist off its engine and waits.
    ///
    /// # Errors
    /// [`crate::Error::Timeout`], [`crate::Error::Gone`].
    pub fn preempt<M: Mmio + ?Sized>(&self, m: &M, wait: &mut Wait<'_>) -> Result<()> {
        let _ = (m, wait);
        Ok(())
    }

    /// A channel's state.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`], [`crate::Error::Gone`].
    pub fn state<M: Mmio + ?Sized>(&self, m: &M, chid: Chid) -> Result<ChannelState> {
        let _ = (m, chid);
        Err(crate::Error::Gone)
    }

    /// Clears the faulted flags of a channel and rings its doorbell: the faulting method runs again.
    /// Returns whether a flag was set.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`], [`crate::Error::Gone`].
    pub fn clear_faulted<M: Mmio + ?Sized>(&self, m: &M, chid: Chid) -> Result<bool> {
        let _ = (m, chid);
        Err(crate::Error::Gone)
    }
}
