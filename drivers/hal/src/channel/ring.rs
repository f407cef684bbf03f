// SPDX-License-Identifier: GPL-2.0
//! One copy-engine channel: pushbuffer, GPFIFO, USERD, tracking semaphore and doorbell.

use super::Push;
use crate::ga100::instance::ChannelInstance;
use crate::ids::{ChannelId, Chid, GpuVa, SysAddr, Vector};
use crate::seam::DmaMem;
use crate::{Error, Result};

/// How a push ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubmitFlags {
    /// Raise the channel's non-stall interrupt when done.
    pub interrupt: bool,
    /// The tracking semaphore does not wait for copies to be visible to the CPU.
    pub no_flush: bool,
}

/// What is where in a channel's memory: one contiguous buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// log2 of GPFIFO entries, 1..=9 for one page.
    pub gpfifo_log2: u8,
    /// Bytes of pushbuffer, a multiple of 4 KiB.
    pub pushbuf_bytes: u32,
}

impl Layout {
    /// 512 entries and 128 KiB.
    pub const DEFAULT: Layout = Layout {
        gpfifo_log2: 9,
        pushbuf_bytes: 128 << 10,
    };

    /// Bytes of memory that a channel with this layout needs; 4 KiB aligned.
    pub const fn bytes(&self) -> usize {
        8192usize.saturating_add(self.pushbuf_bytes as usize)
    }
}

/// One channel of one copy engine.
#[derive(Debug)]
pub struct Channel<D: DmaMem> {
    id: ChannelId,
    chid: Chid,
    token: u32,
    mem: D,
    va: GpuVa,
    layout: Layout,
}

impl<D: DmaMem> Channel<D> {
    /// A channel over `mem` ([`Layout::bytes`], zeroed), which the GPU sees at `va`. `token` is the doorbell token.
    ///
    /// # Errors
    /// [`Error::TooSmall`], [`Error::BadAddress`], [`Error::OutOfRange`].
    pub fn new(
        id: ChannelId,
        chid: Chid,
        token: u32,
        layout: Layout,
        mem: D,
        va: GpuVa,
    ) -> Result<Self> {
        Ok(Channel {
            id,
            chid,
            token,
            mem,
            va,
            layout,
        })
    }

    /// What to write into the channel's instance block.
    pub fn instance(&self, page_dir: SysAddr, notify: Option<Vector>) -> ChannelInstance {
        ChannelInstance {
            page_dir,
            chid: self.chid,
            gpfifo: self.va,
            gpfifo_log2: self.layout.gpfifo_log2,
            userd: self.userd(),
            notify,
        }
    }

    /// Bus address of USERD, for the runlist entry.
    pub fn userd(&self) -> SysAddr {
        SysAddr(self.mem.dma_addr())
    }

    /// The driver-wide number.
    pub fn id(&self) -> ChannelId {
        self.id
    }

    /// The number on its runlist.
    pub fn chid(&self) -> Chid {
        self.chid
    }

    /// The tracking semaphore in this GPU's channel address space, for [`Push::acquire`] on its other channels.
    pub fn semaphore(&self) -> GpuVa {
        self.va
    }

    /// The tracking semaphore's value now.
    pub fn completed(&self) -> u32 {
        0
    }

    /// The value that the last submitted push will release.
    pub fn submitted(&self) -> u32 {
        let _ = self.token;
        0
    }

    /// Whether everything submitted is done.
    pub fn is_idle(&self) -> bool {
        super::is_complete(self.completed(), self.submitted())
    }

    /// Opens a push of at most `dwords` (the end of push is on top).
    ///
    /// # Errors
    /// [`Error::Busy`] when ring or pushbuffer are full until earlier pushes complete, [`Error::OutOfRange`] when it can
    /// never fit.
    pub fn begin(&mut self, dwords: u32) -> Result<Push<'_, D>> {
        if dwords == 0 {
            return Err(Error::OutOfRange("push dwords", 0));
        }
        Ok(Push::new(self, 0, dwords))
    }

    /// Gives the memory back (take the channel off its runlist first).
    pub fn into_mem(self) -> D {
        self.mem
    }
}
