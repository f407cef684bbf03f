// SPDX-License-Identifier: GPL-2.0
//! MMU fault rings (hw-interface 1.2 to 1.7).
//!
//! The device may show PUT before a packet is written, and finish packets out of order, so each packet's VALID is
//! waited for. VALID is cleared before GET passes the packet; the write of GET gives the slots back and makes the device
//! compare GET and PUT again.

use super::bringup::read;
use super::{counter, regs};
use crate::ids::GpuVa;
use crate::seam::{poll, set, Bar, DmaMem, Mmio, Wait};
use crate::{Error, Result};

/// Bytes of a fault packet.
pub const PACKET_BYTES: usize = 32;

const PTR: u32 = 0xf_ffff;
const CORRUPTED: u32 = 1 << 30;
const OVERFLOW: u32 = 1 << 31;
const SIZE_OVERFLOW_INTR: u32 = 1 << 29;
const SIZE_SET_DEFAULT: u32 = 1 << 30;
const SIZE_ENABLE: u32 = 1 << 31;
const STATUS_BUSY: u32 = 1 << 30;
const STATUS_DROPPED: u32 = 0xff;
/// FAULT_STATUS: there are packets in the replayable ring; in the other one.
const STATUS_REPLAYABLE: u32 = 1 << 8;
const STATUS_NON_REPLAYABLE: u32 = 1 << 9;
/// FAULT_BUFFER_LO: physical address, coherent system memory, volatile.
const LO_SYS: u32 = 1 | 2 << 1 | 1 << 3;
/// Offset of the packet's last dword.
const INFO: usize = 28;
const VALID: u32 = 1 << 31;

/// Which of the two rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingKind {
    /// Copy engines, host; and cancelled replayable faults.
    NonReplayable,
    /// Faults that wait in the MMU for a replay.
    Replayable,
}

/// What was wrong (hw-interface 1.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FaultType {
    /// Invalid directory entry: service.
    #[default]
    Pde,
    /// Invalid page entry: service.
    Pte,
    /// Write or atomic to a read-only page: service.
    RoViolation,
    /// Strong atomic to a page without atomics: service.
    AtomicViolation,
    /// Memory that failed: another copy may serve.
    Poisoned,
    /// Any other code: fatal for the client.
    Fatal(u8),
}

/// What the client wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessType {
    /// Load.
    #[default]
    Read,
    /// Store.
    Write,
    /// Atomic that needs atomic permission.
    AtomicStrong,
    /// Atomic for which write permission is enough.
    AtomicWeak,
    /// Prefetch.
    Prefetch,
    /// A physical access, or an unknown code.
    Other(u8),
}

/// A fault packet, parsed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    /// Instance block address; with the aperture it names the VA space.
    pub instance: u64,
    /// Instance block aperture: 0 vidmem, 2 and 3 system memory.
    pub instance_aperture: u8,
    /// Faulting page (4 KiB aligned).
    pub va: GpuVa,
    /// What was wrong.
    pub fault_type: FaultType,
    /// What the client wanted.
    pub access: AccessType,
    /// PTIMER, ns.
    pub timestamp_ns: u64,
    /// MMU engine id (64 + subcontext for workloads).
    pub engine: u16,
    /// Client number within the GPC or HUB.
    pub client: u8,
    /// GPC number, of GPC clients.
    pub gpc: Option<u8>,
    /// The request waits for a replay.
    pub replayable: bool,
    /// The instance has replay enabled.
    pub replay_enabled: bool,
}

impl FaultType {
    /// The type of a packet's code.
    pub const fn from_raw(code: u8) -> FaultType {
        match code {
            0x0 => FaultType::Pde,
            0x2 => FaultType::Pte,
            0x6 => FaultType::RoViolation,
            0xe => FaultType::Poisoned,
            0xf => FaultType::AtomicViolation,
            c => FaultType::Fatal(c),
        }
    }

    /// Whether no mapping can make the access succeed. (To memory that failed, one of another copy does.)
    pub const fn is_fatal(self) -> bool {
        matches!(self, FaultType::Fatal(_))
    }
}

impl AccessType {
    /// The access of a packet's code.
    pub const fn from_raw(code: u8) -> AccessType {
        match code {
            0 => AccessType::Read,
            1 => AccessType::Write,
            2 => AccessType::AtomicStrong,
            3 => AccessType::Prefetch,
            4 => AccessType::AtomicWeak,
            c => AccessType::Other(c),
        }
    }
}

/// What FAULT_STATUS says of faults that went into no ring: of the aperture BARs, of physical accesses, or while the
/// ring was off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InfoFault {
    /// The first of them. It has no time.
    pub fault: Option<Fault>,
    /// DROPPED bits: who had one while the registers still held another. Pairs of physical and virtual of BAR1, BAR2,
    /// IFB, others, from bit 0 on.
    pub dropped: u8,
}

/// Takes the fault that went into no ring, if there is one: reads the FAULT_* registers, then clears STATUS.VALID, so that
/// the next can be told (hw-interface 1.8).
///
/// # Errors
/// [`Error::Gone`].
pub fn take_info<M: Mmio + ?Sized>(m: &M) -> Result<Option<InfoFault>> {
    let seen = read(m, regs::FAULT_STATUS)? & (VALID | STATUS_DROPPED);
    if seen == 0 {
        return Ok(None);
    }
    let fault = if seen & VALID != 0 {
        let wide = |lo, hi| -> Result<u64> {
            Ok(u64::from(read(m, lo)?) | u64::from(m.read32(Bar::Regs, hi)) << 32)
        };
        let inst = wide(regs::FAULT_INST_LO, regs::FAULT_INST_HI)?;
        let addr = wide(regs::FAULT_ADDR_LO, regs::FAULT_ADDR_HI)?;
        // CAST: masked to its width.
        let engine = (inst & 0x1ff) as u16;
        Some(Fault {
            instance: inst & !0xfff,
            instance_aperture: (inst >> 10 & 3) as u8,
            va: GpuVa(addr & !0xfff),
            engine,
            ..Fault::of_info(read(m, regs::FAULT_INFO)?)
        })
    } else {
        None
    };
    m.write32(Bar::Regs, regs::FAULT_STATUS, seen);
    Ok(Some(InfoFault {
        fault,
        // CAST: 8 bits.
        dropped: (seen & STATUS_DROPPED) as u8,
    }))
}

/// Disables both rings, and that of the access counters, whoever has them: for a device that must fall silent at once. What is in them
/// is lost.
///
/// # Errors
/// [`Error::Gone`], [`Error::BadState`] for the first that is not disabled; the others are all the same.
pub fn disable_all<M: Mmio + ?Sized>(m: &M) -> Result<()> {
    let counters = (Bar::Regs, regs::COUNTER_LO);
    let counters = set(m, "NOTIFY_BUFFER_LO", counters, 0, counter::EN);
    let faults = [RingKind::NonReplayable, RingKind::Replayable].map(|kind| {
        let size = kind.at(regs::FAULT_SIZE);
        set(m, "FAULT_BUFFER_SIZE", size, 0, SIZE_ENABLE)
    });
    faults.into_iter().fold(counters, Result::and)
}

/// Address of the instance block of the packet at byte `off` of a ring.
fn instance<D: DmaMem + ?Sized>(mem: &D, off: usize) -> u64 {
    mem.read64(off) & !0xfff
}

impl Fault {
    /// What FAULT_INFO, or dword 7 of a packet, says.
    fn of_info(info: u32) -> Fault {
        // CAST: each field is masked to its width.
        Fault {
            fault_type: FaultType::from_raw((info & 0x1f) as u8),
            access: AccessType::from_raw((info >> 16 & 0xf) as u8),
            client: (info >> 8 & 0x7f) as u8,
            gpc: (info & 1 << 20 == 0).then_some((info >> 24 & 0x1f) as u8),
            replayable: info & 1 << 7 != 0,
            replay_enabled: info & 1 << 30 != 0,
            ..Fault::default()
        }
    }

    /// Parses the packet at byte `off` of a ring.
    fn parse<D: DmaMem + ?Sized>(mem: &D, off: usize) -> Fault {
        let wide = |i: usize| mem.read64(off + 4 * i);
        let (inst, addr, end) = (wide(0), wide(2), wide(6));
        // CAST: the two halves.
        let (engine, info) = (end as u32, (end >> 32) as u32);
        // CAST: each field is masked to its width.
        Fault {
            instance: inst & !0xfff,
            instance_aperture: (inst >> 8 & 3) as u8,
            va: GpuVa(addr & !0xfff),
            timestamp_ns: wide(4),
            engine: (engine & 0x1ff) as u16,
            ..Fault::of_info(info)
        }
    }
}

impl RingKind {
    /// Base of the ring's registers.
    const fn base(self) -> u32 {
        match self {
            RingKind::NonReplayable => regs::FAULT_BUFFER,
            RingKind::Replayable => regs::FAULT_BUFFER + regs::FAULT_STRIDE,
        }
    }

    /// The ring's register at byte `off`.
    const fn at(self, off: u32) -> (Bar, u32) {
        (Bar::Regs, self.base() + off)
    }

    /// The bit of FAULT_STATUS that says that it has packets.
    const fn status(self) -> u32 {
        match self {
            RingKind::NonReplayable => STATUS_NON_REPLAYABLE,
            RingKind::Replayable => STATUS_REPLAYABLE,
        }
    }
}

/// One fault ring: its memory and the next entry to read.
#[derive(Debug)]
pub struct FaultRing<D> {
    kind: RingKind,
    mem: D,
    entries: u32,
    /// Entries that were passed, counted so that GET is the rest of it by `entries`.
    passed: u64,
}

/// PUT of a ring of `entries`, checked.
fn put<M: Mmio + ?Sized>(m: &M, kind: RingKind, entries: u32) -> Result<u32> {
    let raw = read(m, kind.base() + regs::FAULT_PUT)?;
    let put = raw & PTR;
    if put >= entries {
        return Err(Error::BadDevice("FAULT_BUFFER_PUT", raw));
    }
    Ok(put)
}

/// The number of the packet that a ring of `entries` gets next, as [`FaultRing::passed`] counts them, which said `passed` a moment ago. For
/// who has not the ring: what came before it is of times before now.
///
/// # Errors
/// [`Error::Gone`], [`Error::BadDevice`].
pub fn next_packet<M: Mmio + ?Sized>(
    m: &M,
    kind: RingKind,
    entries: u32,
    passed: u64,
) -> Result<u64> {
    let put = u64::from(put(m, kind, entries)?);
    // Not 0: PUT is less.
    let entries = u64::from(entries);
    let unread = (put + entries - passed % entries) % entries;
    Ok(passed.saturating_add(unread))
}

impl<D: DmaMem> FaultRing<D> {
    /// Entries that the device recommends for this ring. Changes SIZE, so only before [`Self::enable`].
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::BadDevice`].
    pub fn default_entries<M: Mmio + ?Sized>(m: &M, kind: RingKind) -> Result<u32> {
        let size = kind.base() + regs::FAULT_SIZE;
        m.write32(Bar::Regs, size, SIZE_SET_DEFAULT);
        let raw = read(m, size)?;
        match raw & PTR {
            0 | 1 => Err(Error::BadDevice("FAULT_BUFFER_SIZE", raw)),
            n => Ok(n),
        }
    }

    /// A ring over all of `mem` (4 KiB aligned, at least 2 packets), disabled yet.
    ///
    /// # Errors
    /// [`Error::TooSmall`], [`Error::BadAddress`].
    pub fn new(kind: RingKind, mem: D) -> Result<Self> {
        let entries = (mem.len() / PACKET_BYTES).min(PTR as usize);
        if entries < 2 {
            return Err(Error::TooSmall("fault ring", 2 * PACKET_BYTES));
        }
        if mem.dma_addr() % 4096 != 0 {
            return Err(Error::BadAddress(mem.dma_addr()));
        }
        Ok(FaultRing {
            kind,
            mem,
            // CAST: at most 20 bits.
            entries: entries as u32,
            passed: 0,
        })
    }

    /// Packets that were passed so far, and some that never were: the number of the next one.
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// Programs and enables the ring, empty. What it is told is read back: a ring that is elsewhere, or off, would never say so.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::BadDevice`]; [`Error::BadState`] when a register does not take what is written.
    pub fn enable<M: Mmio + ?Sized>(&mut self, m: &M) -> Result<()> {
        for i in 0..self.entries {
            self.mem.write32(self.offset(i) + INFO, 0);
        }
        m.wmb();
        let addr = self.mem.dma_addr();
        // CAST: the two halves.
        self.write(m, regs::FAULT_SIZE, self.entries);
        let (kind, low, high) = (self.kind, addr as u32 | LO_SYS, (addr >> 32) as u32);
        set(m, "FAULT_BUFFER_HI", kind.at(regs::FAULT_HI), high, !0)?;
        set(m, "FAULT_BUFFER_LO", kind.at(regs::FAULT_LO), low, !0)?;
        // Whether pointers survive a disable is not published: a ring that was in use before is made empty, and GET
        // read back once the ring is enabled.
        let put = read(m, self.kind.base() + regs::FAULT_PUT)? & PTR;
        let get = if put < self.entries { put } else { 0 };
        set(m, "FAULT_BUFFER_GET", kind.at(regs::FAULT_GET), get, PTR)?;
        self.write(m, regs::FAULT_GET, get | OVERFLOW | CORRUPTED);
        // Only the ring that loses packets when it overflows has to tell.
        let intr = match self.kind {
            RingKind::NonReplayable => SIZE_OVERFLOW_INTR,
            RingKind::Replayable => 0,
        };
        let size = self.entries | intr | SIZE_ENABLE;
        set(m, "FAULT_BUFFER_SIZE", kind.at(regs::FAULT_SIZE), size, !0)?;
        let get = read(m, self.kind.base() + regs::FAULT_GET)?;
        if get & PTR >= self.entries {
            return Err(Error::BadDevice("FAULT_BUFFER_GET", get));
        }
        self.passed = u64::from(get & PTR);
        self.pending(m).map(|_| ())
    }

    /// Waits until the MMU is idle, then disables the ring.
    ///
    /// # Errors
    /// [`Error::Timeout`], [`Error::Gone`]; the ring is disabled even so, if the device is there. [`Error::BadState`]: it is not.
    pub fn disable<M: Mmio + ?Sized>(&mut self, m: &M, wait: &mut Wait<'_>) -> Result<()> {
        let idle = poll(wait, "fault buffer idle", || {
            match read(m, regs::FAULT_STATUS) {
                Ok(v) if v & STATUS_BUSY != 0 => None,
                other => Some(other.map(|_| ())),
            }
        });
        let at = self.kind.at(regs::FAULT_SIZE);
        set(m, "FAULT_BUFFER_SIZE", at, self.entries, SIZE_ENABLE)?;
        idle?
    }

    /// Entries in the ring now.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::BadDevice`].
    pub fn pending<M: Mmio + ?Sized>(&self, m: &M) -> Result<u32> {
        let next = next_packet(m, self.kind, self.entries, self.passed)?;
        // CAST: fewer than there are entries.
        Ok(next.saturating_sub(self.passed) as u32)
    }

    /// Reads up to `out.len()` packets, clears their VALID and gives the slots back (GET), which also re-arms the
    /// interrupt. Returns how many; 0 means the ring was empty, and nothing was written. Waits for each packet's VALID.
    ///
    /// # Errors
    /// [`Error::Stuck`] when the first packet does not become valid (a later one ends the batch early),
    /// [`Error::Gone`], [`Error::BadDevice`].
    pub fn drain<M: Mmio + ?Sized>(
        &mut self,
        m: &M,
        out: &mut [Fault],
        wait: &mut Wait<'_>,
    ) -> Result<usize> {
        let mut slots = out.iter_mut();
        let max = u32::try_from(slots.len()).unwrap_or(u32::MAX);
        let n = self.drain_each(m, max, wait, |f| {
            if let Some(slot) = slots.next() {
                *slot = f;
            }
        })?;
        // CAST: at most 20 bits.
        Ok(n as usize)
    }

    /// As [`Self::drain`], one packet after the other, `max` at most.
    ///
    /// # Errors
    /// As [`Self::drain`].
    pub fn drain_each<M: Mmio + ?Sized>(
        &mut self,
        m: &M,
        max: u32,
        wait: &mut Wait<'_>,
        mut each: impl FnMut(Fault),
    ) -> Result<u32> {
        self.consume(m, max, wait, |mem, off| each(Fault::parse(mem, off)))
    }

    /// Drops what is in the ring now (waiting for each VALID), and returns how many. A replay must follow, which
    /// reports live requests again.
    ///
    /// # Errors
    /// As [`Self::drain`].
    pub fn flush<M: Mmio + ?Sized>(&mut self, m: &M, wait: &mut Wait<'_>) -> Result<u32> {
        self.flush_but(m, wait, |_| false, |_, _| {})
    }

    /// As [`Self::flush`], but `each` has those packets that `keeps` says yes to for their instance block's address, with their numbers
    /// (see [`Self::passed`]). They are dropped from the ring like the others, and counted.
    ///
    /// # Errors
    /// As [`Self::drain`].
    pub fn flush_but<M: Mmio + ?Sized>(
        &mut self,
        m: &M,
        wait: &mut Wait<'_>,
        mut keeps: impl FnMut(u64) -> bool,
        mut each: impl FnMut(u64, Fault),
    ) -> Result<u32> {
        let mut number = self.passed;
        self.consume(m, u32::MAX, wait, |mem, off| {
            if keeps(instance(mem, off)) {
                each(number, Fault::parse(mem, off));
            }
            number = number.wrapping_add(1);
        })
    }

    /// Passes the packet for which [`Self::drain`] waited in vain ([`Error::Stuck`]), as if it had been read; a replay must follow. If it
    /// becomes valid after all, it is read when the ring comes round to its place: a fault that was reported twice. `false`: there is none,
    /// and nothing was passed. PUT alone is not believed: one that went behind GET makes an empty ring look full, and a GET that passed the
    /// true PUT would never meet a packet again.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::BadDevice`].
    pub fn skip<M: Mmio + ?Sized>(&mut self, m: &M) -> Result<bool> {
        if !self.is_there(m)? || self.pending(m)? == 0 {
            return Ok(false);
        }
        self.mem.write32(self.offset(self.get()) + INFO, 0);
        self.step();
        m.wmb();
        self.rearm(m);
        Ok(true)
    }

    /// Whether there is a packet, and PUT says that there is none: [`Self::drain`] would never meet it. One look may be at a moment's
    /// mistake; a ring that hides its packets for long does not work.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::BadDevice`].
    pub fn hides<M: Mmio + ?Sized>(&self, m: &M) -> Result<bool> {
        // In this order: what comes in between is no contradiction.
        Ok(self.is_there(m)? && self.pending(m)? == 0)
    }

    /// What FAULT_STATUS says of the ring: there is a packet.
    fn is_there<M: Mmio + ?Sized>(&self, m: &M) -> Result<bool> {
        Ok(read(m, regs::FAULT_STATUS)? & self.kind.status() != 0)
    }

    fn step(&mut self) {
        self.passed = self.passed.wrapping_add(1);
    }

    /// The next entry to read.
    fn get(&self) -> u32 {
        // CAST: less than `entries`, of which there are two at least.
        (self.passed % u64::from(self.entries)) as u32
    }

    /// Hands up to `max` packets to `each`, as the ring's memory and an offset in it.
    fn consume<M: Mmio + ?Sized>(
        &mut self,
        m: &M,
        max: u32,
        wait: &mut Wait<'_>,
        mut each: impl FnMut(&D, usize),
    ) -> Result<u32> {
        let want = self.pending(m)?.min(max);
        if want == 0 {
            return Ok(0);
        }
        let mut done = 0;
        while done < want {
            let off = self.offset(self.get());
            if !self.wait_valid(off, wait) {
                break;
            }
            // The rest of the packet is read after VALID.
            m.rmb();
            each(&self.mem, off);
            self.mem.write32(off + INFO, 0);
            self.step();
            done += 1;
        }
        if done == 0 {
            // Gone, or a packet that never came?
            put(m, self.kind, self.entries)?;
            return Err(Error::Stuck(self.get()));
        }
        m.wmb();
        self.rearm(m);
        Ok(done)
    }

    fn wait_valid(&self, off: usize, wait: &mut Wait<'_>) -> bool {
        let valid = || (self.mem.read32(off + INFO) & VALID != 0).then_some(());
        poll(wait, "VALID", valid).is_ok()
    }

    /// Writes GET unchanged: the device compares GET and PUT and pulses again if entries remain. After the leaf was
    /// cleared and the vector unmasked, this closes the race with a packet that came in between.
    pub fn rearm<M: Mmio + ?Sized>(&self, m: &M) {
        self.write(m, regs::FAULT_GET, self.get());
    }

    /// Whether the ring overflowed or its GET is corrupted; nothing is reported until [`Self::recover`].
    ///
    /// # Errors
    /// [`Error::Gone`].
    pub fn overflowed<M: Mmio + ?Sized>(&self, m: &M) -> Result<bool> {
        let put = read(m, self.kind.base() + regs::FAULT_PUT)?;
        Ok(put & (OVERFLOW | CORRUPTED) != 0)
    }

    /// Clears overflow and corrupted GET by the two writes that the hardware needs. Call after [`Self::drain`] made
    /// room; for the replayable ring a replay must follow. Where packets came meanwhile it may have overflowed again, which the next
    /// look sees.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::BadState`] when a flag stays though the ring is empty.
    pub fn recover<M: Mmio + ?Sized>(&mut self, m: &M) -> Result<()> {
        self.rearm(m);
        self.write(m, regs::FAULT_GET, self.get() | OVERFLOW | CORRUPTED);
        let put = read(m, self.kind.base() + regs::FAULT_PUT)?;
        if put & (OVERFLOW | CORRUPTED) != 0 && put & PTR == self.get() {
            return Err(Error::BadState("fault ring", put));
        }
        Ok(())
    }

    /// Entries that the ring has; one of them is never used.
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// Gives the memory back (disable first).
    pub fn into_mem(self) -> D {
        self.mem
    }

    fn write<M: Mmio + ?Sized>(&self, m: &M, off: u32, val: u32) {
        let (bar, at) = self.kind.at(off);
        m.write32(bar, at, val);
    }

    fn offset(&self, entry: u32) -> usize {
        // CAST: an entry has at most 20 bits.
        entry as usize * PACKET_BYTES
    }
}
