// SPDX-License-Identifier: GPL-2.0
//! A host in memory, for tests: sparse system memory and VRAM, a clock set by hand, a log.
//!
//! Every access outside a memory is an error that is also counted in
//! [`MemHost::out_of_bounds`], so a fuzzer can assert that the model tells the difference between
//! a refused access and one that should never have been made.

use std::collections::BTreeMap;

use crate::host::{DmaError, Host};

/// Bytes of a backing page.
const PAGE: u64 = 4096;

/// A memory of which only the pages written exist; the rest reads zero.
#[derive(Clone, Debug, Default)]
pub struct Sparse {
    size: u64,
    pages: BTreeMap<u64, Box<[u8]>>,
}

impl Sparse {
    /// An empty memory of `size` bytes.
    pub fn new(size: u64) -> Self {
        Sparse {
            size,
            pages: BTreeMap::new(),
        }
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Backing pages that exist.
    pub fn resident_pages(&self) -> usize {
        self.pages.len()
    }

    fn check(&self, at: u64, len: usize) -> Result<(), DmaError> {
        let end = at.checked_add(len as u64).ok_or(DmaError)?;
        if end > self.size {
            return Err(DmaError);
        }
        Ok(())
    }

    /// Reads `buf.len()` bytes at `at`.
    pub fn read(&self, at: u64, buf: &mut [u8]) -> Result<(), DmaError> {
        self.check(at, buf.len())?;
        let mut pos = at;
        let mut rest = buf;
        while !rest.is_empty() {
            let within = (pos % PAGE) as usize;
            let n = rest.len().min(PAGE as usize - within);
            let (now, later) = rest.split_at_mut(n);
            match self
                .pages
                .get(&(pos / PAGE))
                .and_then(|p| p.get(within..within + n))
            {
                Some(from) => now.copy_from_slice(from),
                None => now.fill(0),
            }
            rest = later;
            pos += n as u64;
        }
        Ok(())
    }

    /// Writes `buf` at `at`.
    pub fn write(&mut self, at: u64, buf: &[u8]) -> Result<(), DmaError> {
        self.check(at, buf.len())?;
        let mut pos = at;
        let mut rest = buf;
        while !rest.is_empty() {
            let within = (pos % PAGE) as usize;
            let n = rest.len().min(PAGE as usize - within);
            let (now, later) = rest.split_at(n);
            let page = self
                .pages
                .entry(pos / PAGE)
                .or_insert_with(|| vec![0; PAGE as usize].into_boxed_slice());
            if let Some(to) = page.get_mut(within..within + n) {
                to.copy_from_slice(now);
            }
            rest = later;
            pos += n as u64;
        }
        Ok(())
    }
}

/// The host of the tests.
#[derive(Clone, Debug, Default)]
pub struct MemHost {
    /// System memory; bus addresses start at 0.
    pub sys: Sparse,
    /// VRAM of each GPU.
    pub vram: Vec<Sparse>,
    /// The clock, ns.
    pub now: u64,
    /// Message interrupts sent: (GPU, vector), in order.
    pub messages: Vec<(usize, u32)>,
    /// Guest errors logged: (GPU, text).
    pub errors: Vec<(usize, String)>,
    /// BAR mode changes: (GPU, BAR, virtual).
    pub bar_modes: Vec<(usize, u32, bool)>,
    /// VRAM accesses that were out of bounds: the model checks VRAM itself, so this stays 0.
    pub out_of_bounds: u64,
    /// System-memory accesses that were refused.
    pub refused: u64,
    /// Memory accesses made.
    pub accesses: u64,
}

impl MemHost {
    /// A host with `sys_bytes` of system memory and a VRAM of `vram_bytes` for each GPU.
    pub fn new(sys_bytes: u64, vram_bytes: &[u64]) -> Self {
        MemHost {
            sys: Sparse::new(sys_bytes),
            vram: vram_bytes.iter().map(|&b| Sparse::new(b)).collect(),
            ..MemHost::default()
        }
    }

    /// Takes the messages sent so far.
    pub fn take_messages(&mut self) -> Vec<(usize, u32)> {
        core::mem::take(&mut self.messages)
    }

    /// Reads a u32 of system memory; 0 outside of it.
    pub fn sys_u32(&self, at: u64) -> u32 {
        let mut b = [0; 4];
        let _ = self.sys.read(at, &mut b);
        u32::from_le_bytes(b)
    }

    /// Reads a u64 of system memory; 0 outside of it.
    pub fn sys_u64(&self, at: u64) -> u64 {
        let mut b = [0; 8];
        let _ = self.sys.read(at, &mut b);
        u64::from_le_bytes(b)
    }
}

impl Host for MemHost {
    fn now_ns(&mut self) -> u64 {
        self.now
    }

    fn dma_read(&mut self, _gpu: usize, addr: u64, buf: &mut [u8]) -> Result<(), DmaError> {
        self.accesses += 1;
        let result = self.sys.read(addr, buf);
        self.refused += u64::from(result.is_err());
        result
    }

    fn dma_write(&mut self, _gpu: usize, addr: u64, buf: &[u8]) -> Result<(), DmaError> {
        self.accesses += 1;
        let result = self.sys.write(addr, buf);
        self.refused += u64::from(result.is_err());
        result
    }

    fn vram_read(&mut self, gpu: usize, offset: u64, buf: &mut [u8]) -> Result<(), DmaError> {
        self.accesses += 1;
        let result = self
            .vram
            .get(gpu)
            .ok_or(DmaError)
            .and_then(|v| v.read(offset, buf));
        self.out_of_bounds += u64::from(result.is_err());
        result
    }

    fn vram_write(&mut self, gpu: usize, offset: u64, buf: &[u8]) -> Result<(), DmaError> {
        self.accesses += 1;
        let result = self
            .vram
            .get_mut(gpu)
            .ok_or(DmaError)
            .and_then(|v| v.write(offset, buf));
        self.out_of_bounds += u64::from(result.is_err());
        result
    }

    fn msix(&mut self, gpu: usize, vector: u32) {
        self.messages.push((gpu, vector));
    }

    fn bar_virtual(&mut self, gpu: usize, bar: u32, on: bool) {
        self.bar_modes.push((gpu, bar, on));
    }

    fn guest_error(&mut self, gpu: usize, what: &str) {
        if self.errors.len() < 1000 {
            self.errors.push((gpu, what.to_owned()));
        }
    }
}
