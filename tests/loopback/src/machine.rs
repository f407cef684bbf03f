// SPDX-License-Identifier: GPL-2.0
//! The seam of huvm_hal over the device model.

use huvm_hal::seam::{Bar, DmaMem, Fence, Mmio};
use huvm_model::config::{GpuConfig, Profile};
use huvm_model::host::Host;
use huvm_model::machine::Machine;
use huvm_model::mem_host::MemHost;
use std::cell::RefCell;
use std::rc::Rc;

/// Bytes of system memory; sparse.
const SYS_BYTES: u64 = 64 << 30;
/// Looks that a wait makes before it gives up.
const WAIT_LOOKS: u32 = 200_000;
/// How far time moves when nothing is going to happen, ns.
const IDLE_STEP_NS: u64 = 1000;

struct Inner {
    machine: Machine,
    host: MemHost,
    next: u64,
}

/// A machine: GPUs, memory, clock.
#[derive(Clone)]
pub struct Loop(Rc<RefCell<Inner>>);

impl Loop {
    /// A machine with the GPUs of `configs` and the built-in profile.
    ///
    /// # Panics
    /// When the model refuses a configuration.
    pub fn new(configs: &[GpuConfig]) -> Loop {
        Loop::with_profile(configs, Profile::default())
    }

    /// As [`Loop::new`], with another timing profile.
    ///
    /// # Panics
    /// When the model refuses a configuration.
    #[allow(clippy::expect_used, reason = "a test harness")]
    pub fn with_profile(configs: &[GpuConfig], profile: Profile) -> Loop {
        let mut machine = Machine::new(profile).expect("profile");
        let vram: Vec<u64> = configs.iter().map(|c| c.vram_bytes).collect();
        for c in configs {
            machine.add_gpu(c.clone()).expect("GPU");
        }
        Loop(Rc::new(RefCell::new(Inner {
            machine,
            host: MemHost::new(SYS_BYTES, &vram),
            // Above 4 GiB, so that an address cut to 32 bits shows.
            next: 0x1_2340_0000,
        })))
    }

    /// One GPU without realism switches and with time: what most tests want.
    pub fn one() -> Loop {
        Loop::new(&[GpuConfig {
            realism: false,
            ..GpuConfig::default()
        }])
    }

    /// The registers of GPU `index`.
    pub fn gpu(&self, index: usize) -> Gpu {
        Gpu {
            machine: self.clone(),
            index,
        }
    }

    /// A zeroed DMA buffer of `bytes`, aligned to 4 KiB.
    pub fn alloc(&self, bytes: usize) -> Mem {
        self.alloc_aligned(bytes, 4096)
    }

    /// A zeroed DMA buffer, aligned to `align` (a power of two).
    pub fn alloc_aligned(&self, bytes: usize, align: u64) -> Mem {
        let mut i = self.0.borrow_mut();
        let addr = (i.next + align - 1) & !(align - 1);
        i.next = addr + (bytes as u64).div_ceil(256) * 256;
        Mem {
            machine: self.clone(),
            addr,
            len: bytes,
        }
    }

    /// VRAM of GPU `index` as a buffer (what the kernel does through BAR3).
    pub fn vram(&self, index: usize, offset: u64, bytes: usize) -> Vram {
        Vram {
            machine: self.clone(),
            index,
            offset,
            len: bytes,
        }
    }

    /// The clock, ns.
    pub fn now_ns(&self) -> u64 {
        self.0.borrow().host.now
    }

    /// Lets the next event happen; when there is none, a microsecond pass. `false` then.
    pub fn step(&self) -> bool {
        let i = &mut *self.0.borrow_mut();
        let next = i.machine.next_deadline();
        let to = next.unwrap_or(i.host.now + IDLE_STEP_NS);
        i.host.now = i.host.now.max(to);
        i.machine.timer(&mut i.host);
        next.is_some()
    }

    /// Lets everything happen that is going to.
    ///
    /// # Panics
    /// When the model never comes to rest.
    #[allow(clippy::panic, reason = "a test harness")]
    pub fn settle(&self) {
        for _ in 0..1_000_000 {
            if !self.step() {
                return;
            }
        }
        panic!("the model does not come to rest");
    }

    /// Lets time pass up to `ns` from now.
    pub fn pass_ns(&self, ns: u64) {
        let end = self.now_ns() + ns;
        while self
            .0
            .borrow()
            .machine
            .next_deadline()
            .is_some_and(|d| d <= end)
        {
            self.step();
        }
        self.0.borrow_mut().host.now = end;
        self.step();
    }

    /// A wait for huvm_hal: each look lets one event happen; ends after many.
    pub fn wait(&self) -> impl FnMut() -> bool + '_ {
        let mut left = WAIT_LOOKS;
        move || {
            self.step();
            left = left.saturating_sub(1);
            left > 0
        }
    }

    /// Message interrupts sent since the last call: (GPU, MSI-X entry).
    pub fn take_messages(&self) -> Vec<(usize, u32)> {
        self.0.borrow_mut().host.take_messages()
    }

    /// What the model calls guest errors, since the last call.
    pub fn take_errors(&self) -> Vec<(usize, String)> {
        std::mem::take(&mut self.0.borrow_mut().host.errors)
    }
}

/// Registers of a GPU.
#[derive(Clone)]
pub struct Gpu {
    machine: Loop,
    index: usize,
}

impl Gpu {
    /// The machine it is in.
    pub fn machine(&self) -> &Loop {
        &self.machine
    }

    /// Its index there.
    pub fn index(&self) -> usize {
        self.index
    }
}

impl Fence for Gpu {
    fn wmb(&self) {}
    fn rmb(&self) {}
}

fn bar_number(bar: Bar) -> u32 {
    match bar {
        Bar::Regs => 0,
        Bar::Ext => 5,
    }
}

impl Mmio for Gpu {
    fn read32(&self, bar: Bar, off: u32) -> u32 {
        let i = &mut *self.machine.0.borrow_mut();
        let v = i
            .machine
            .mmio_read(self.index, bar_number(bar), off.into(), 4, &mut i.host);
        v as u32
    }
    fn write32(&self, bar: Bar, off: u32, val: u32) {
        let i = &mut *self.machine.0.borrow_mut();
        i.machine.mmio_write(
            self.index,
            bar_number(bar),
            off.into(),
            val.into(),
            4,
            &mut i.host,
        );
    }
}

/// A buffer of system memory, whose bus address is its physical one.
#[derive(Clone)]
pub struct Mem {
    machine: Loop,
    addr: u64,
    len: usize,
}

impl Mem {
    /// `bytes` of this buffer from `off`.
    pub fn part(&self, off: usize, bytes: usize) -> Mem {
        assert!(off + bytes <= self.len);
        Mem {
            machine: self.machine.clone(),
            addr: self.addr + off as u64,
            len: bytes,
        }
    }

    /// Reads bytes.
    pub fn read(&self, off: usize, buf: &mut [u8]) {
        assert!(off + buf.len() <= self.len);
        let i = self.machine.0.borrow();
        let _ = i.host.sys.read(self.addr + off as u64, buf);
    }

    /// Writes bytes.
    pub fn write(&self, off: usize, buf: &[u8]) {
        assert!(off + buf.len() <= self.len);
        let i = &mut *self.machine.0.borrow_mut();
        let _ = i.host.sys.write(self.addr + off as u64, buf);
    }
}

impl DmaMem for Mem {
    fn dma_addr(&self) -> u64 {
        self.addr
    }
    fn len(&self) -> usize {
        self.len
    }
    fn read32(&self, off: usize) -> u32 {
        if off + 4 > self.len {
            return u32::MAX;
        }
        let mut b = [0; 4];
        self.read(off, &mut b);
        u32::from_le_bytes(b)
    }
    fn write32(&self, off: usize, val: u32) {
        if off + 4 <= self.len {
            self.write(off, &val.to_le_bytes());
        }
    }
    fn read64(&self, off: usize) -> u64 {
        if off + 8 > self.len {
            return u64::MAX;
        }
        let mut b = [0; 8];
        self.read(off, &mut b);
        u64::from_le_bytes(b)
    }
    fn write64(&self, off: usize, val: u64) {
        if off + 8 <= self.len {
            self.write(off, &val.to_le_bytes());
        }
    }
}

/// A buffer in a GPU's own memory; its "bus address" is the offset there.
#[derive(Clone)]
pub struct Vram {
    machine: Loop,
    index: usize,
    offset: u64,
    len: usize,
}

impl Vram {
    /// Reads bytes.
    pub fn read(&self, off: usize, buf: &mut [u8]) {
        assert!(off + buf.len() <= self.len);
        let i = &mut *self.machine.0.borrow_mut();
        let _ = i.host.vram_read(self.index, self.offset + off as u64, buf);
    }

    /// Writes bytes.
    pub fn write(&self, off: usize, buf: &[u8]) {
        assert!(off + buf.len() <= self.len);
        let i = &mut *self.machine.0.borrow_mut();
        let _ = i.host.vram_write(self.index, self.offset + off as u64, buf);
    }
}

impl DmaMem for Vram {
    fn dma_addr(&self) -> u64 {
        self.offset
    }
    fn len(&self) -> usize {
        self.len
    }
    fn read32(&self, off: usize) -> u32 {
        let mut b = [0xff; 4];
        if off + 4 <= self.len {
            self.read(off, &mut b);
        }
        u32::from_le_bytes(b)
    }
    fn write32(&self, off: usize, val: u32) {
        if off + 4 <= self.len {
            self.write(off, &val.to_le_bytes());
        }
    }
    fn read64(&self, off: usize) -> u64 {
        let mut b = [0xff; 8];
        if off + 8 <= self.len {
            self.read(off, &mut b);
        }
        u64::from_le_bytes(b)
    }
    fn write64(&self, off: usize, val: u64) {
        if off + 8 <= self.len {
            self.write(off, &val.to_le_bytes());
        }
    }
}
