// SPDX-License-Identifier: GPL-2.0
//! MMU fault rings.

use crate::ids::GpuVa;
use crate::seam::{DmaMem, Mmio, Wait};
use crate::Result;

/// Bytes of a fault packet.
pub const PACKET_BYTES: usize = 32;

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

/// One fault ring: its memory and the next entry to read.
#[derive(Debug)]
pub struct FaultRing<D> {
    kind: RingKind,
    mem: D,
    entries: u32,
    get: u32,
}

impl<D: DmaMem> FaultRing<D> {
    /// Entries that the device recommends for this ring.
    ///
    /// # Errors
    /// [`crate::Error::Gone`], [`crate::Error::BadDevice`].
    pub fn default_entries<M: Mmio + ?Sized>(m: &M, kind: RingKind) -> Result<u32> {
        let _ = (m, kind);
        Err(crate::Error::Gone)
    }

    /// A ring over all of `mem` (4 KiB aligned, at least 2 packets), disabled yet.
    ///
    /// # Errors
    /// [`crate::Error::TooSmall`], [`crate::Error::BadAddress`].
    pub fn new(kind: RingKind, mem: D) -> Result<Self> {
        Ok(FaultRing {
            kind,
            entries: 0,
            mem,
            get: 0,
        })
    }

    /// Programs and enables the ring, empty.
    ///
    /// # Errors
    /// [`crate::Error::Gone`].
    pub fn enable<M: Mmio + ?Sized>(&mut self, m: &M) -> Result<()> {
        let _ = m;
        self.get = 0;
        Ok(())
    }

    /// Waits until the MMU is idle, then disables the ring.
    ///
    /// # Errors
    /// [`crate::Error::Timeout`], [`crate::Error::Gone`]; the ring is disabled even so, if the device is there.
    pub fn disable<M: Mmio + ?Sized>(&mut self, m: &M, wait: &mut Wait<'_>) -> Result<()> {
        let _ = (m, wait);
        Ok(())
    }

    /// Entries in the ring now.
    ///
    /// # Errors
    /// [`crate::Error::Gone`], [`crate::Error::BadDevice`].
    pub fn pending<M: Mmio + ?Sized>(&self, m: &M) -> Result<u32> {
        let _ = (m, self.entries, self.kind);
        Ok(0)
    }

    /// Reads up to `out.len()` packets, clears their VALID and gives the slots back (GET), which also re-arms the
    /// interrupt. Returns how many; 0 means the ring was empty. Waits for each packet's VALID.
    ///
    /// # Errors
    /// [`crate::Error::Stuck`] when the first packet does not become valid (later ones end the batch early),
    /// [`crate::Error::Gone`].
    pub fn drain<M: Mmio + ?Sized>(
        &mut self,
        m: &M,
        out: &mut [Fault],
        wait: &mut Wait<'_>,
    ) -> Result<usize> {
        let _ = (m, out, wait, &self.mem);
        Ok(0)
    }

    /// Drops what is in the ring now (waiting for each VALID), and returns how many. A replay must follow, which
    /// reports live requests again.
    ///
    /// # Errors
    /// As [`Self::drain`].
    pub fn flush<M: Mmio + ?Sized>(&mut self, m: &M, wait: &mut Wait<'_>) -> Result<u32> {
        let _ = (m, wait);
        Ok(0)
    }

    /// Writes GET unchanged: the device compares GET and PUT and pulses again if entries remain. After the leaf was
    /// cleared and the vector unmasked, this closes the race with a packet that came in between.
    pub fn rearm<M: Mmio + ?Sized>(&self, m: &M) {
        let _ = m;
    }

    /// Whether the ring overflowed or its GET is corrupted; nothing is reported until [`Self::recover`].
    ///
    /// # Errors
    /// [`crate::Error::Gone`].
    pub fn overflowed<M: Mmio + ?Sized>(&self, m: &M) -> Result<bool> {
        let _ = m;
        Ok(false)
    }

    /// Clears overflow and corrupted GET by the two writes that the hardware needs. Call after [`Self::drain`] made
    /// room; for the replayable ring a replay must follow.
    ///
    /// # Errors
    /// [`crate::Error::Gone`].
    pub fn recover<M: Mmio + ?Sized>(&mut self, m: &M) -> Result<()> {
        let _ = m;
        Ok(())
    }

    /// Gives the memory back (disable first).
    pub fn into_mem(self) -> D {
        self.mem
    }
}
