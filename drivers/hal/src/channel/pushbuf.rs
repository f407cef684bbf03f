// SPDX-License-Identifier: GPL-2.0
//! Pushes: commands for a copy engine and its host.
//!
//! Each method of [`Push`] appends whole commands or none: space is checked first, and values are checked against the
//! width of their field, so a push cannot hold an illegal method.

use super::methods as m;
use super::{Channel, Interrupt, SubmitFlags};
use crate::ga100::counter::Notice;
use crate::ga100::invalidate::{CancelAccess, ReplayKind};
use crate::ids::{GpuVa, Loc, SysAddr, Veid};
use crate::pagetable::Invalidate;
use crate::seam::{DmaMem, Mmio};
use crate::{Error, Result};

/// Longest launch: a multiple of a page, so that pieces stay aligned (the field holds 2^32 − 1).
const MAX_LAUNCH_BYTES: u64 = 0xffff_f000;
/// MMU engine id of subcontext 0.
const ENGINE_GRAPHICS: u32 = 64;

/// Dwords of one [`Push::copy`] or [`Push::fill`], at most, for up to 4 GiB.
pub const COPY_DWORDS: u32 = 13;
/// Dwords of [`Push::acquire`].
pub const ACQUIRE_DWORDS: u32 = 6;
/// Dwords of an invalidate, replay, cancel.
pub const MEM_OP_DWORDS: u32 = 5;

/// How a copy or fill runs beside others of its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyFlags {
    /// May overlap earlier copies of this channel. Off for the first copy that depends on earlier ones.
    pub pipelined: bool,
}

/// The element that a fill repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// One byte.
    U8(u8),
    /// Four bytes, little-endian.
    U32(u32),
    /// Eight bytes, little-endian.
    U64(u64),
}

/// How far a memory barrier reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemBar {
    /// CPU and peers see earlier writes.
    System,
    /// This GPU's engines see them.
    Gpu,
}

/// A push that is being written. Dropped without [`Push::submit`], it never happened.
#[derive(Debug)]
pub struct Push<'a, D: DmaMem> {
    channel: &'a mut Channel<D>,
    /// First dword in the pushbuffer.
    start: u32,
    /// Next dword.
    at: u32,
    /// First dword that is not the commands' any more; the end of push goes behind it.
    end: u32,
    /// SRC and DST_PHYS_MODE as set in this push.
    modes: Option<(u32, u32)>,
}

impl<'a, D: DmaMem> Push<'a, D> {
    /// Dwords that [`Self::submit`] adds.
    pub(super) const END_DWORDS: u32 = 10;

    pub(super) fn new(channel: &'a mut Channel<D>, start: u32, end: u32) -> Self {
        Push {
            channel,
            start,
            at: start,
            end,
            modes: None,
        }
    }

    /// Dwords that still fit.
    pub fn room(&self) -> u32 {
        self.end.saturating_sub(self.at)
    }

    /// Whether nothing was appended.
    pub fn is_empty(&self) -> bool {
        self.at == self.start
    }

    /// Waits, on the GPU, until the tracking semaphore at `sem` (in this GPU's channel address space) has reached `value`.
    ///
    /// # Errors
    /// [`Error::Busy`] when it does not fit (like every method here), [`Error::BadAddress`].
    pub fn acquire(&mut self, sem: GpuVa, value: u32) -> Result<()> {
        let (lo, hi) = host_address(sem, 4)?;
        let execute = m::SEM_ACQ_CIRC_GEQ | m::SEM_SWITCH_TSG;
        self.emit(&[m::inc(m::SEM_ADDR_LO, 5), lo, hi, value, 0, execute])
    }

    /// Copies `bytes` from `src` to `dst` by physical address; splits at 4 GiB.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::BadAddress`], [`Error::OutOfRange`] for 0 bytes or a peer id.
    pub fn copy(&mut self, src: Loc, dst: Loc, bytes: u64, flags: CopyFlags) -> Result<()> {
        let modes = (phys_mode(src)?, phys_mode(dst)?);
        check_span(src.raw(), bytes)?;
        check_span(dst.raw(), bytes)?;
        self.fits(3 + 9 * pieces(bytes))?;
        self.set_modes(modes)?;
        let launch = m::LAUNCH_PITCH | m::LAUNCH_SRC_PHYS | m::LAUNCH_DST_PHYS;
        self.copy_pieces(src.raw(), dst.raw(), bytes, launch, flags)
    }

    /// Copies by virtual address in the channel's own space.
    ///
    /// # Errors
    /// As [`Self::copy`].
    pub fn copy_virtual(
        &mut self,
        src: GpuVa,
        dst: GpuVa,
        bytes: u64,
        flags: CopyFlags,
    ) -> Result<()> {
        check_span(src.0, bytes)?;
        check_span(dst.0, bytes)?;
        self.fits(9 * pieces(bytes))?;
        self.copy_pieces(src.0, dst.0, bytes, m::LAUNCH_PITCH, flags)
    }

    fn copy_pieces(
        &mut self,
        src: u64,
        dst: u64,
        bytes: u64,
        launch: u32,
        flags: CopyFlags,
    ) -> Result<()> {
        let mut done = 0;
        while done < bytes {
            let n = (bytes - done).min(MAX_LAUNCH_BYTES);
            let (in_lo, in_hi) = split(src + done);
            let (out_lo, out_hi) = split(dst + done);
            self.emit(&[m::inc(m::OFFSET_IN_UPPER, 4), in_hi, in_lo, out_hi, out_lo])?;
            // CAST: at most MAX_LAUNCH_BYTES.
            self.launch(n as u32, launch, flags.pipelined || done > 0)?;
            done += n;
        }
        Ok(())
    }

    /// Fills `bytes` at `dst` by physical address; both multiples of the element.
    ///
    /// # Errors
    /// As [`Self::copy`].
    pub fn fill(&mut self, dst: Loc, fill: Fill, bytes: u64, flags: CopyFlags) -> Result<()> {
        let mode = phys_mode(dst)?;
        check_span(dst.raw(), bytes)?;
        let (elem, const_a, const_b, components) = remap(fill);
        if dst.raw() % elem != 0 {
            return Err(Error::BadAddress(dst.raw()));
        }
        if bytes % elem != 0 {
            return Err(Error::OutOfRange("fill bytes", bytes));
        }
        self.fits(3 + 4 + 7 * pieces(bytes))?;
        self.set_modes((self.modes.map_or(m::PHYS_LOCAL, |x| x.0), mode))?;
        self.emit(&[
            m::inc(m::SET_REMAP_CONST_A, 3),
            const_a,
            const_b,
            components,
        ])?;
        let launch = m::LAUNCH_PITCH | m::LAUNCH_DST_PHYS | m::LAUNCH_REMAP;
        let mut done = 0;
        while done < bytes {
            let n = (bytes - done).min(MAX_LAUNCH_BYTES);
            let (lo, hi) = split(dst.raw() + done);
            self.emit(&[m::inc(m::OFFSET_OUT_UPPER, 2), hi, lo])?;
            // CAST: at most MAX_LAUNCH_BYTES. With remap on, the line's length is in elements.
            self.launch((n / elem) as u32, launch, flags.pipelined || done > 0)?;
            done += n;
        }
        Ok(())
    }

    /// Line length and launch.
    fn launch(&mut self, length: u32, launch: u32, pipelined: bool) -> Result<()> {
        let transfer = if pipelined {
            m::LAUNCH_PIPELINED
        } else {
            m::LAUNCH_NON_PIPELINED
        };
        self.emit(&[
            m::inc(m::LINE_LENGTH_IN, 1),
            length,
            m::inc(m::LAUNCH_DMA, 1),
            launch | transfer,
        ])
    }

    fn set_modes(&mut self, modes: (u32, u32)) -> Result<()> {
        if self.modes != Some(modes) {
            self.emit(&[m::inc(m::SET_SRC_PHYS_MODE, 2), modes.0, modes.1])?;
            self.modes = Some(modes);
        }
        Ok(())
    }

    /// Waits until earlier copies of this channel are done (host WFI).
    ///
    /// # Errors
    /// [`Error::Busy`].
    pub fn wait_idle(&mut self) -> Result<()> {
        self.emit(&[m::inc(m::WFI, 1), 0])
    }

    /// Memory barrier, after earlier copies are done.
    ///
    /// # Errors
    /// [`Error::Busy`].
    pub fn membar(&mut self, bar: MemBar) -> Result<()> {
        let kind = match bar {
            MemBar::System => 0,
            MemBar::Gpu => 1,
        };
        self.fits(u64::from(2 + MEM_OP_DWORDS))?;
        self.wait_idle()?;
        self.mem_op([0, 0, kind, m::OP_MEMBAR << m::D_OP_SHIFT])
    }

    /// Invalidates `inv` of the space with root `page_dir`; later commands wait for it.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::BadAddress`].
    pub fn invalidate(&mut self, page_dir: SysAddr, inv: &Invalidate) -> Result<()> {
        let (pdb_lo, pdb_hi) = pdb(page_dir)?;
        let (lo, hi) = split(inv.va.0);
        let membar = if inv.downgrade { m::A_SYSMEMBAR } else { 0 };
        self.mem_op([
            u32::from(inv.log2_pages & 0x3f) | membar | lo & !0xfff,
            hi,
            m::C_ACK_GLOBALLY | (inv.level as u32) << m::C_LEVEL_SHIFT | m::C_PDB_SYS | pdb_lo,
            pdb_hi | m::OP_INVALIDATE_TARGETED << m::D_OP_SHIFT,
        ])
    }

    /// Invalidates everything of the space with root `page_dir`.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::BadAddress`].
    pub fn invalidate_all(&mut self, page_dir: SysAddr) -> Result<()> {
        let (pdb_lo, pdb_hi) = pdb(page_dir)?;
        self.mem_op([
            m::A_SYSMEMBAR,
            0,
            m::C_ACK_GLOBALLY | m::C_PDB_SYS | pdb_lo,
            pdb_hi | m::OP_INVALIDATE << m::D_OP_SHIFT,
        ])
    }

    /// Replays waiting faults.
    ///
    /// # Errors
    /// [`Error::Busy`].
    pub fn replay(&mut self, kind: ReplayKind) -> Result<()> {
        let code = match kind {
            ReplayKind::Start => m::REPLAY_START,
            ReplayKind::StartAckAll => m::REPLAY_START_ACK_ALL,
        };
        // Address 0 of a page directory that nothing is bound to (hw-interface 2.2).
        self.mem_op([
            0,
            0,
            code << m::C_REPLAY_SHIFT | m::C_ACK_GLOBALLY | m::LEVEL_PTE_ONLY << m::C_LEVEL_SHIFT,
            m::OP_INVALIDATE_TARGETED << m::D_OP_SHIFT,
        ])
    }

    /// Fails the waiting requests of one subcontext for one page; everything else is retried.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::BadAddress`], [`Error::OutOfRange`].
    pub fn cancel_va(
        &mut self,
        page_dir: SysAddr,
        veid: Veid,
        va: GpuVa,
        access: CancelAccess,
    ) -> Result<()> {
        let (pdb_lo, pdb_hi) = pdb(page_dir)?;
        if veid.0 >= 64 {
            return Err(Error::OutOfRange("subcontext", u64::from(veid.0)));
        }
        let (lo, hi) = split(va.0);
        let access = match access {
            CancelAccess::All => m::ACCESS_ALL,
            CancelAccess::WriteAndAtomic => m::ACCESS_WRITE_AND_ATOMIC,
        };
        self.mem_op([
            (ENGINE_GRAPHICS + u32::from(veid.0)) | lo & !0xfff,
            hi,
            m::REPLAY_CANCEL_VA_GLOBAL << m::C_REPLAY_SHIFT
                | m::C_ACK_GLOBALLY
                | access << m::C_LEVEL_SHIFT
                | m::C_PDB_SYS
                | pdb_lo,
            pdb_hi | m::OP_INVALIDATE_TARGETED << m::D_OP_SHIFT,
        ])
    }

    /// Clears all access counters of outbound accesses, so that they can notify again.
    ///
    /// # Errors
    /// [`Error::Busy`].
    pub fn clear_counters(&mut self) -> Result<()> {
        let kind = m::COUNTER_MIMC;
        self.mem_op([0, 0, 0, m::OP_COUNTER_CLR << m::D_OP_SHIFT | kind])
    }

    /// Clears the counter of one notice.
    ///
    /// # Errors
    /// [`Error::Busy`].
    pub fn clear_counter(&mut self, notice: &Notice) -> Result<()> {
        let momc = if notice.outbound {
            0
        } else {
            m::COUNTER_TARGET_MOMC
        };
        let bank = u32::from(notice.bank & 0xf) << m::COUNTER_BANK_SHIFT;
        let d = m::OP_COUNTER_CLR << m::D_OP_SHIFT | m::COUNTER_TARGETED | momc | bank;
        self.mem_op([0, 0, notice.tag & 0xf_ffff, d])
    }

    fn mem_op(&mut self, abcd: [u32; 4]) -> Result<()> {
        let [a, b, c, d] = abcd;
        self.emit(&[m::inc(m::MEM_OP_A, 4), a, b, c, d])
    }

    /// Writes `payload` and, 8 bytes further on, the GPU's time in ns to the 16 bytes at `sem`, after earlier copies.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::BadAddress`].
    pub fn timestamp(&mut self, sem: GpuVa, payload: u32) -> Result<()> {
        let (lo, hi) = host_address(sem, 16)?;
        self.release(lo, hi, payload, m::LAUNCH_SEM_FOUR_WORDS | m::LAUNCH_FLUSH)
    }

    fn release(&mut self, lo: u32, hi: u32, payload: u32, launch: u32) -> Result<()> {
        self.emit(&[
            m::inc(m::SET_SEMAPHORE_A, 3),
            hi,
            lo,
            payload,
            m::inc(m::LAUNCH_DMA, 1),
            launch,
        ])
    }

    /// Ends the push with the release of the tracking semaphore, and hands it to the GPU. Returns the value to wait for.
    pub fn submit<M: Mmio + ?Sized>(mut self, mmio: &M, flags: SubmitFlags) -> u32 {
        let value = self.channel.submitted().wrapping_add(1);
        let (lo, hi) = split(self.channel.semaphore().0);
        let flush = if flags.no_flush { 0 } else { m::LAUNCH_FLUSH };
        // `begin` kept this room behind the commands' end; nothing here can fail.
        self.end = self.end.saturating_add(Self::END_DWORDS);
        let tell = match flags.interrupt {
            Some(Interrupt::Engine) => m::LAUNCH_INTERRUPT,
            _ => 0,
        };
        let _ = self.release(lo, hi, value, m::LAUNCH_SEM_ONE_WORD | flush | tell);
        if flags.interrupt == Some(Interrupt::Host) {
            // The host does not wait for the engine by itself.
            let _ = self.wait_idle();
            let _ = self.emit(&[m::inc(m::NON_STALL_INT, 1), 0]);
        }
        self.channel.publish(mmio, self.start, self.at, value);
        value
    }

    /// Binds subchannel 0 to the copy-engine class.
    pub(super) fn bind(&mut self) -> Result<()> {
        self.emit(&[m::inc(m::SET_OBJECT, 1), m::CLASS_CE])
    }

    fn fits(&self, dwords: u64) -> Result<()> {
        if dwords > u64::from(self.room()) {
            return Err(Error::Busy(u32::try_from(dwords).unwrap_or(u32::MAX)));
        }
        Ok(())
    }

    fn emit(&mut self, words: &[u32]) -> Result<()> {
        self.fits(words.len() as u64)?;
        for w in words {
            self.channel.write_dword(self.at, *w);
            self.at += 1;
        }
        Ok(())
    }
}

/// Launches that a transfer takes.
fn pieces(bytes: u64) -> u64 {
    bytes.div_ceil(MAX_LAUNCH_BYTES)
}

/// Low and high word.
fn split(addr: u64) -> (u32, u32) {
    // CAST: the two halves.
    (addr as u32, (addr >> 32) as u32)
}

/// SET_SRC/DST_PHYS_MODE of a place (codes of the copy engine, not of PTEs).
fn phys_mode(loc: Loc) -> Result<u32> {
    match loc {
        Loc::Vid(_) => Ok(m::PHYS_LOCAL),
        Loc::Sys(_) => Ok(m::PHYS_SYS),
        Loc::Peer { id, .. } if id < 8 => Ok(m::PHYS_PEER | u32::from(id) << m::PHYS_PEER_SHIFT),
        Loc::Peer { id, .. } => Err(Error::OutOfRange("peer id", u64::from(id))),
    }
}

/// Copy addresses have 49 bits.
fn check_span(addr: u64, bytes: u64) -> Result<()> {
    if bytes == 0 {
        return Err(Error::OutOfRange("bytes", 0));
    }
    match addr.checked_add(bytes) {
        Some(end) if end <= 1 << 49 => Ok(()),
        _ => Err(Error::BadAddress(addr)),
    }
}

/// A semaphore's address words: 40 bits, aligned.
fn host_address(va: GpuVa, align: u64) -> Result<(u32, u32)> {
    if va.0 % align != 0 || va.0 >> 40 != 0 {
        return Err(Error::BadAddress(va.0));
    }
    Ok(split(va.0))
}

/// A page directory's words for MEM_OP_C and D.
fn pdb(page_dir: SysAddr) -> Result<(u32, u32)> {
    if page_dir.0 % 4096 != 0 || page_dir.0 >> 59 != 0 {
        return Err(Error::BadAddress(page_dir.0));
    }
    Ok(split(page_dir.0))
}

/// Bytes of an element, the two constants and SET_REMAP_COMPONENTS of a fill (hw-interface 5.4).
fn remap(fill: Fill) -> (u64, u32, u32, u32) {
    let rest = m::REMAP_NONE << 8 | m::REMAP_NONE << 12;
    let one = m::REMAP_CONST_B | m::REMAP_NONE << 4 | rest;
    let two = m::REMAP_CONST_A | m::REMAP_CONST_B << 4 | rest;
    match fill {
        Fill::U8(v) => (1, 0, u32::from(v), one),
        Fill::U32(v) => (4, 0, v, one | 3 << 16),
        Fill::U64(v) => {
            let (lo, hi) = split(v);
            (8, lo, hi, two | 3 << 16 | 1 << 24)
        }
    }
}
