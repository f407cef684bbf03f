// SPDX-License-Identifier: GPL-2.0
//! What the model needs from whoever carries it: time, memory, interrupts.
//!
//! QEMU's glue implements [`Host`] through `qemu/model-ffi`; tests use
//! [`MemHost`](crate::mem_host::MemHost). The model owns no memory: VRAM belongs to the host, so
//! 128 GiB of it cost nothing here.

/// A memory access that the machine refused (bus error, outside a memory).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaError;

/// A place in one of the machine's memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Byte offset in the VRAM of a GPU.
    Vram {
        /// Index of the GPU.
        gpu: usize,
        /// Offset in bytes.
        offset: u64,
    },
    /// Bus address in system memory, reached through the PCI function of a GPU.
    Sys {
        /// Index of the GPU that makes the access.
        gpu: usize,
        /// Bus address.
        addr: u64,
    },
}

impl Place {
    /// The place `bytes` further on; `None` on overflow.
    pub fn checked_add(self, bytes: u64) -> Option<Place> {
        Some(match self {
            Place::Vram { gpu, offset } => Place::Vram {
                gpu,
                offset: offset.checked_add(bytes)?,
            },
            Place::Sys { gpu, addr } => Place::Sys {
                gpu,
                addr: addr.checked_add(bytes)?,
            },
        })
    }
}

/// Bytes that the default `copy` and `fill` move at a time.
const BOUNCE_BYTES: usize = 4096;

/// The machine around the GPUs.
pub trait Host {
    /// The clock, nanoseconds; never goes back.
    fn now_ns(&mut self) -> u64;

    /// Reads system memory at bus address `addr` through GPU `gpu`'s PCI function.
    fn dma_read(&mut self, gpu: usize, addr: u64, buf: &mut [u8]) -> Result<(), DmaError>;

    /// Writes system memory.
    fn dma_write(&mut self, gpu: usize, addr: u64, buf: &[u8]) -> Result<(), DmaError>;

    /// Reads VRAM of GPU `gpu`.
    fn vram_read(&mut self, gpu: usize, offset: u64, buf: &mut [u8]) -> Result<(), DmaError>;

    /// Writes VRAM.
    fn vram_write(&mut self, gpu: usize, offset: u64, buf: &[u8]) -> Result<(), DmaError>;

    /// Sends message interrupt `vector` of GPU `gpu`.
    fn msix(&mut self, gpu: usize, vector: u32);

    /// BAR `bar` (1 or 3) of the GPU now goes through page tables, or nowhere (`on`: the model is asked), or maps VRAM directly.
    fn bar_virtual(&mut self, gpu: usize, bar: u32, on: bool) {
        let _ = (gpu, bar, on);
    }

    /// Whose bus addresses a GPU's are: GPUs with the same number reach the same memory at the same address.
    fn bus_domain(&mut self, gpu: usize) -> usize {
        let _ = gpu;
        0
    }

    /// The guest did something that the specification does not allow.
    fn guest_error(&mut self, gpu: usize, what: &str) {
        let _ = (gpu, what);
    }

    /// Reads from either memory.
    fn read(&mut self, from: Place, buf: &mut [u8]) -> Result<(), DmaError> {
        match from {
            Place::Vram { gpu, offset } => self.vram_read(gpu, offset, buf),
            Place::Sys { gpu, addr } => self.dma_read(gpu, addr, buf),
        }
    }

    /// Writes to either memory.
    fn write(&mut self, to: Place, buf: &[u8]) -> Result<(), DmaError> {
        match to {
            Place::Vram { gpu, offset } => self.vram_write(gpu, offset, buf),
            Place::Sys { gpu, addr } => self.dma_write(gpu, addr, buf),
        }
    }

    /// Copies `len` bytes. Places that overlap give undefined contents.
    fn copy(&mut self, src: Place, dst: Place, len: u64) -> Result<(), DmaError> {
        let mut bounce = [0u8; BOUNCE_BYTES];
        let mut done = 0u64;
        while done < len {
            let n = (len - done).min(BOUNCE_BYTES as u64);
            let part = bounce.get_mut(..n as usize).ok_or(DmaError)?;
            self.read(src.checked_add(done).ok_or(DmaError)?, part)?;
            self.write(dst.checked_add(done).ok_or(DmaError)?, part)?;
            done += n;
        }
        Ok(())
    }

    /// Fills `len` bytes with `pattern` repeated, its first byte at `dst`.
    fn fill(&mut self, dst: Place, pattern: &[u8], len: u64) -> Result<(), DmaError> {
        if pattern.is_empty() || pattern.len() > BOUNCE_BYTES {
            return Err(DmaError);
        }
        let mut bounce = [0u8; BOUNCE_BYTES];
        // Whole repeats only, so that each part starts in phase.
        let whole = BOUNCE_BYTES - BOUNCE_BYTES % pattern.len();
        for (at, byte) in bounce.iter_mut().zip(pattern.iter().cycle()) {
            *at = *byte;
        }
        let mut done = 0u64;
        while done < len {
            let n = (len - done).min(whole as u64);
            let part = bounce.get(..n as usize).ok_or(DmaError)?;
            self.write(dst.checked_add(done).ok_or(DmaError)?, part)?;
            done += n;
        }
        Ok(())
    }
}
