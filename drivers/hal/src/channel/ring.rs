// SPDX-License-Identifier: GPL-2.0
//! One copy-engine channel: pushbuffer, GPFIFO, USERD, tracking semaphore and doorbell.
//!
//! All of it is in one contiguous buffer: USERD and the semaphore in the first page, the GPFIFO in the second, the
//! pushbuffer behind. One push is one GPFIFO entry and one contiguous piece of the pushbuffer. The tracking semaphore counts
//! pushes, so the entry of the oldest push that is not done says where the used part of the pushbuffer begins; no other
//! book is kept.

use super::tracker::{is_complete, is_possible};
use super::Push;
use crate::ga100::instance::ChannelInstance;
use crate::ga100::regs::DOORBELL;
use crate::ids::{ChannelId, Chid, GpuVa, SysAddr, Vector, VidAddr, PAGE_BYTES};
use crate::seam::{Bar, DmaMem, Mmio};
use crate::{Error, Result};

/// USERD.GP_PUT (hw-interface 6.4).
const USERD_GP_PUT: usize = 0x8c;
/// The tracking semaphore, in the first page behind USERD.
const SEMAPHORE: usize = 0x400;
const GPFIFO: usize = 0x1000;
const PUSHBUF: usize = 0x2000;
/// Longest pushbuffer: LENGTH of a GPFIFO entry has 21 bits of dwords.
const PUSHBUF_MAX: u32 = 4 << 20;
/// Dwords that bind the class, in the first push.
const BIND_DWORDS: u32 = 2;

/// Who raises the interrupt at the end of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// The host, on the channel's non-stall vector: it first waits until the engine is done, and the next push waits with it.
    Host,
    /// The engine, on its own non-stall vector: the next push may begin before this one has arrived.
    Engine,
}

/// How a push ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubmitFlags {
    /// Raise an interrupt when done.
    pub interrupt: Option<Interrupt>,
    /// The tracking semaphore does not wait for copies to be visible to the CPU.
    pub no_flush: bool,
}

/// What is where in a channel's memory: one contiguous buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// log2 of GPFIFO entries, 1..=9.
    pub gpfifo_log2: u8,
    /// Bytes of pushbuffer, a multiple of 4 KiB, up to 4 MiB.
    pub pushbuf_bytes: u32,
}

impl Layout {
    /// 512 entries and 128 KiB.
    pub const DEFAULT: Layout = Layout {
        gpfifo_log2: 9,
        pushbuf_bytes: 128 << 10,
    };

    /// GPFIFO entries, a power of two; one of them is never used.
    pub const fn entries(&self) -> u32 {
        1 << self.gpfifo_log2
    }

    /// Bytes of memory that a channel with this layout needs; 4 KiB aligned.
    pub const fn bytes(&self) -> usize {
        PUSHBUF.saturating_add(self.pushbuf_bytes as usize)
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
    /// Pushes handed to the GPU, modulo 2^32: the last one's value.
    submitted: u32,
    /// Next free dword of the pushbuffer.
    free: u32,
    /// The class is bound.
    bound: bool,
}

impl<D: DmaMem> Channel<D> {
    /// A channel over `mem` ([`Layout::bytes`]), which the GPU sees at `va`. `token` is the doorbell token
    /// ([`crate::ga100::runlist::Runlist::token`]).
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
        if !(1..=9).contains(&layout.gpfifo_log2) {
            return Err(Error::OutOfRange(
                "GPFIFO log2",
                u64::from(layout.gpfifo_log2),
            ));
        }
        let bytes = layout.pushbuf_bytes;
        if bytes == 0 || bytes > PUSHBUF_MAX || u64::from(bytes) % PAGE_BYTES != 0 {
            return Err(Error::OutOfRange("pushbuffer bytes", u64::from(bytes)));
        }
        if mem.len() < layout.bytes() {
            return Err(Error::TooSmall("channel", layout.bytes()));
        }
        for addr in [mem.dma_addr(), va.0] {
            if addr % PAGE_BYTES != 0 || addr >= (1 << 40) - layout.bytes() as u64 {
                return Err(Error::BadAddress(addr));
            }
        }
        crate::seam::zero(&mem, PUSHBUF);
        Ok(Channel {
            id,
            chid,
            token,
            mem,
            va,
            layout,
            submitted: 0,
            free: 0,
            bound: false,
        })
    }

    /// Counts its pushes from `last` on, or from somewhat before it, where its GPFIFO begins anew. Before the first of them.
    pub fn counting_from(mut self, last: u32) -> Self {
        self.submitted = last & !(self.entries() - 1);
        self.mem.write32(SEMAPHORE, self.submitted);
        self
    }

    /// What to write into the channel's instance block.
    pub fn instance(
        &self,
        page_dir: SysAddr,
        notify: Option<Vector>,
        method_buffer: VidAddr,
    ) -> ChannelInstance {
        ChannelInstance {
            page_dir,
            chid: self.chid,
            gpfifo: GpuVa(self.va.0 + GPFIFO as u64),
            gpfifo_log2: self.layout.gpfifo_log2,
            userd: self.userd(),
            notify,
            method_buffer,
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
        GpuVa(self.va.0 + SEMAPHORE as u64)
    }

    /// The page that holds the tracking semaphore, and the offset in it: for mapping it on other GPUs.
    pub fn semaphore_page(&self) -> (SysAddr, u64) {
        (self.userd(), SEMAPHORE as u64)
    }

    /// The tracking semaphore's value now. What the GPU wrote before it is read after it only behind an `rmb`.
    pub fn completed(&self) -> u32 {
        self.mem.read32(SEMAPHORE)
    }

    /// The value that the last submitted push will release.
    pub fn submitted(&self) -> u32 {
        self.submitted
    }

    /// Whether a push is done.
    pub fn is_done(&self, value: u32) -> bool {
        is_complete(self.completed(), value)
    }

    /// Whether everything submitted is done.
    pub fn is_idle(&self) -> bool {
        self.is_done(self.submitted)
    }

    /// Declares everything submitted as done, for all who wait. Only for a channel that no longer runs (disabled and
    /// preempted, or its device gone): its copies may not have happened.
    pub fn abandon(&mut self) {
        self.mem.write32(SEMAPHORE, self.submitted);
    }

    /// Opens a push of at most `dwords` of commands.
    ///
    /// # Errors
    /// As [`Self::ready`].
    pub fn begin(&mut self, dwords: u32) -> Result<Push<'_, D>> {
        let (start, end) = self.place(dwords)?;
        let bind = !self.bound;
        let mut push = Push::new(self, start, end);
        if bind {
            push.bind()?;
        }
        Ok(push)
    }

    /// Whether [`Self::begin`] would succeed now: for a caller that waits for room.
    ///
    /// # Errors
    /// [`Error::Busy`] when ring or pushbuffer are full until earlier pushes complete, [`Error::OutOfRange`] when it can
    /// never fit, [`Error::BadDevice`] when the semaphore holds a value that was never submitted.
    pub fn ready(&self, dwords: u32) -> Result<()> {
        self.place(dwords).map(|_| ())
    }

    /// First dword of a push of `dwords`, and the first behind its commands.
    fn place(&self, dwords: u32) -> Result<(u32, u32)> {
        let bind = if self.bound { 0 } else { BIND_DWORDS };
        let need = dwords
            .checked_add(Push::<D>::END_DWORDS + bind)
            .filter(|n| dwords > 0 && *n < self.dwords())
            .ok_or(Error::OutOfRange("push dwords", u64::from(dwords)))?;
        let now = self.completed();
        if !is_possible(now, self.submitted, self.entries()) {
            return Err(Error::BadDevice("tracking semaphore", now));
        }
        let running = self.submitted.wrapping_sub(now);
        if running + 1 >= self.entries() {
            return Err(Error::Busy(1));
        }
        let start = if running == 0 {
            // Nothing in use: stay where we are, or begin anew.
            if self.dwords() - self.free >= need {
                self.free
            } else {
                0
            }
        } else {
            self.space(now, need)?
        };
        Ok((start, start + need - Push::<D>::END_DWORDS))
    }

    /// Where `need` dwords are free, beside pushes that still run.
    fn space(&self, now: u32, need: u32) -> Result<u32> {
        let oldest = self.entry_start(now)?;
        let start = if self.free > oldest {
            if self.dwords() - self.free >= need {
                return Ok(self.free);
            }
            0
        } else {
            self.free
        };
        // Never up to `oldest` itself, which would look like nothing in use.
        if start + need < oldest {
            Ok(start)
        } else {
            Err(Error::Busy(need))
        }
    }

    /// Where in the pushbuffer push `index` (its value less one) begins, from its GPFIFO entry.
    fn entry_start(&self, index: u32) -> Result<u32> {
        let raw = self.mem.read64(self.entry_offset(index));
        let base = self.va.0 + PUSHBUF as u64;
        let start = (raw & 0xff_ffff_fffc).wrapping_sub(base) / 4;
        u32::try_from(start)
            .ok()
            .filter(|s| *s < self.dwords())
            // CAST: the low word, to show.
            .ok_or(Error::BadDevice("GPFIFO entry", raw as u32))
    }

    /// Hands `start..end` of the pushbuffer to the GPU as push `value`.
    pub(super) fn publish<M: Mmio + ?Sized>(&mut self, m: &M, start: u32, end: u32, value: u32) {
        let addr = self.va.0 + PUSHBUF as u64 + 4 * u64::from(start);
        let length = u64::from(end - start);
        let index = value.wrapping_sub(1);
        self.mem
            .write64(self.entry_offset(index), addr | length << 42);
        m.wmb();
        self.mem.write32(USERD_GP_PUT, value & (self.entries() - 1));
        m.wmb();
        m.write32(Bar::Regs, DOORBELL, self.token);
        self.submitted = value;
        self.free = end;
        self.bound = true;
    }

    pub(super) fn write_dword(&self, at: u32, val: u32) {
        // CAST: at most 2^20.
        self.mem.write32(PUSHBUF + 4 * at as usize, val);
    }

    /// GPFIFO entries, a power of two.
    fn entries(&self) -> u32 {
        self.layout.entries()
    }

    /// Dwords of the pushbuffer.
    fn dwords(&self) -> u32 {
        self.layout.pushbuf_bytes / 4
    }

    fn entry_offset(&self, index: u32) -> usize {
        // CAST: below 512.
        GPFIFO + 8 * (index & (self.entries() - 1)) as usize
    }

    /// Gives the memory back (take the channel off its runlist first).
    pub fn into_mem(self) -> D {
        self.mem
    }
}
