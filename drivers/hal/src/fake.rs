// SPDX-License-Identifier: GPL-2.0
//! Memory and fences for unit tests; the device itself is in tests/loopback.

use crate::seam::{Bar, DmaMem, Fence, Mmio};
use core::cell::{Cell, RefCell};
use core::ops::Range;
use std::rc::Rc;
use std::vec::Vec;

/// Every 64-bit write, in order: (bus address, value).
pub(crate) type Journal = Rc<RefCell<Vec<(u64, u64)>>>;

/// A buffer at a made-up bus address.
#[derive(Clone, Debug)]
pub(crate) struct FakeMem {
    pub(crate) addr: u64,
    pub(crate) words: Rc<RefCell<Vec<u32>>>,
    pub(crate) journal: Journal,
}

impl FakeMem {
    pub(crate) fn new(addr: u64, bytes: usize) -> Self {
        FakeMem {
            addr,
            // Garbage, so that a duty that relies on zeroed memory shows.
            words: Rc::new(RefCell::new(vec![0xdead_beef; bytes / 4])),
            journal: Journal::default(),
        }
    }
}

impl DmaMem for FakeMem {
    fn dma_addr(&self) -> u64 {
        self.addr
    }
    fn len(&self) -> usize {
        self.words.borrow().len() * 4
    }
    fn read32(&self, off: usize) -> u32 {
        assert_eq!(off % 4, 0);
        self.words.borrow().get(off / 4).copied().unwrap_or(!0)
    }
    fn write32(&self, off: usize, val: u32) {
        assert_eq!(off % 4, 0);
        if let Some(w) = self.words.borrow_mut().get_mut(off / 4) {
            *w = val;
        }
    }
    fn read64(&self, off: usize) -> u64 {
        assert_eq!(off % 8, 0);
        u64::from(self.read32(off)) | u64::from(self.read32(off + 4)) << 32
    }
    fn write64(&self, off: usize, val: u64) {
        assert_eq!(off % 8, 0);
        self.journal
            .borrow_mut()
            .push((self.addr + off as u64, val));
        self.write32(off, val as u32);
        self.write32(off + 4, (val >> 32) as u32);
    }
}

/// A device of plain registers: what is written is read back; `gone` reads all ones.
#[derive(Default)]
pub(crate) struct FakeRegs {
    pub(crate) regs: RefCell<std::collections::BTreeMap<(bool, u32), u32>>,
    pub(crate) writes: RefCell<Vec<(Bar, u32, u32)>>,
    pub(crate) gone: bool,
}

impl Fence for FakeRegs {
    fn wmb(&self) {}
    fn rmb(&self) {}
}

impl Mmio for FakeRegs {
    fn read32(&self, bar: Bar, off: u32) -> u32 {
        if self.gone {
            return !0;
        }
        let key = (bar == Bar::Ext, off);
        self.regs.borrow().get(&key).copied().unwrap_or(0)
    }
    fn write32(&self, bar: Bar, off: u32, val: u32) {
        self.writes.borrow_mut().push((bar, off, val));
        self.regs.borrow_mut().insert((bar == Bar::Ext, off), val);
    }
}

/// A device of which some reads are all ones, and some writes are lost: those of these numbers, counted from 0.
pub(crate) struct Flaky<'a> {
    regs: &'a FakeRegs,
    ones: Range<u32>,
    lost: Range<u32>,
    pub(crate) reads: Cell<u32>,
    pub(crate) writes: Cell<u32>,
}

impl<'a> Flaky<'a> {
    /// One that answers and hears.
    pub(crate) fn new(regs: &'a FakeRegs) -> Self {
        Flaky {
            regs,
            ones: 0..0,
            lost: 0..0,
            reads: Cell::new(0),
            writes: Cell::new(0),
        }
    }

    /// These reads are all ones.
    pub(crate) fn ones(self, ones: Range<u32>) -> Self {
        Flaky { ones, ..self }
    }

    /// These writes are lost.
    pub(crate) fn lost(self, lost: Range<u32>) -> Self {
        Flaky { lost, ..self }
    }
}

impl Fence for Flaky<'_> {
    fn wmb(&self) {}
    fn rmb(&self) {}
}

impl Mmio for Flaky<'_> {
    fn read32(&self, bar: Bar, off: u32) -> u32 {
        match self
            .ones
            .contains(&self.reads.replace(self.reads.get() + 1))
        {
            true => u32::MAX,
            false => self.regs.read32(bar, off),
        }
    }
    fn write32(&self, bar: Bar, off: u32, val: u32) {
        if !self
            .lost
            .contains(&self.writes.replace(self.writes.get() + 1))
        {
            self.regs.write32(bar, off, val);
        }
    }
}
