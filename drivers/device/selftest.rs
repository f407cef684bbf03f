// SPDX-License-Identifier: GPL-2.0
//! Self tests (`enum huvm_selftest`): the device does what the driver relies on.
//!
//! [`check`] runs at probe. [`run`] is for tests; a failed one says at which step, in the order in which steps are written.

use super::faults::FLAG_NS;
use super::{driver, registry, Gpu};
use crate::account::waits::{Waiting, What};
use crate::channel::{self, Engine, Push, Tracker};
use crate::kernel::dma::DmaBuf;
use crate::kernel::ffi::uapi;
use crate::kernel::mmio::VramWindow;
use crate::kernel::{task, time};
use huvm_hal::channel::{CopyFlags, Fill};
use huvm_hal::ga100::{bringup, irq};
use huvm_hal::ids::{GpuVa, Loc, SysAddr, Vector, VidAddr};
use huvm_hal::pagetable::Invalidate;
use huvm_hal::seam::{Bar, DmaMem, Mmio};
use huvm_policy::chunk::FreeChunk;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

/// How long an interrupt or a fault packet may take.
const EVENT_NS: u64 = 2_000_000_000;
/// Probe asks for an interrupt that does not come so often meanwhile.
const ASKED: u64 = 20;
/// Bytes that may be copied: a chunk.
const COPY_MAX: u64 = 2 << 20;
/// Copies from here on move no bytes with phantom data (Documentation/device.md 3).
const PHANTOM_BYTES: u64 = 4096;
/// NV_PBUS_BAR0_WINDOW and the window itself (hw-interface.md 7.2).
const BAR0_WINDOW: u32 = 0x1700;
const WINDOW: u32 = 0x70_0000;
/// BAR3 shows this much of VRAM (Documentation/device.md 1).
const BAR3_BYTES: u64 = 32 << 20;

/// Longest test of the watch over waits, ms.
const WATCH_MS: u64 = 60_000;

const FIRST: CopyFlags = CopyFlags { pipelined: false };

/// A test that failed: the step, and what to tell the caller.
struct Failed {
    step: u64,
    error: Error,
}

type Steps<T = u64> = core::result::Result<T, Failed>;

/// Names the step of an error.
trait At<T> {
    fn at(self, step: u64) -> Steps<T>;
}

impl<T> At<T> for Result<T> {
    fn at(self, step: u64) -> Steps<T> {
        self.map_err(|error| Failed { step, error })
    }
}

fn must(ok: bool, step: u64) -> Steps<()> {
    if ok {
        Ok(())
    } else {
        Err(Failed { step, error: EIO })
    }
}

/// What probe checks: a fill of host memory arrives, and its interrupt too.
///
/// # Errors
/// `EIO` when either does not.
pub(super) fn check(gpu: &Gpu) -> Result {
    let buf = gpu.dma_alloc(4096)?;
    let seen = || gpu.irq_seen.first().map_or(0, |n| n.load(Relaxed));
    let before = seen();
    let mut pushes = Pushes::new();
    let fill = pushes.push(gpu, Engine::DeviceToHost, &Tracker::EMPTY, |p| {
        p.fill(
            Loc::Sys(SysAddr(buf.dma_addr())),
            Fill::U32(0x4855_564d),
            64,
            FIRST,
        )
    })?;
    channel::wait(&fill)?;
    if (0..16).any(|i| buf.read32(4 * i) != 0x4855_564d) || buf.read32(64) != 0 {
        pr_err!("gpu {}: a fill did not arrive\n", gpu.index());
        return Err(EIO);
    }
    let waits = Waiting::on(What::Step, gpu.index(), 0, EVENT_NS);
    // One that was lost does not come again by itself.
    let came = (0..ASKED).any(|_| {
        let came = gpu
            .irq_wait
            .wait_timeout(EVENT_NS / ASKED, || seen() != before);
        if !came {
            gpu.ask_for_interrupts();
        }
        came
    });
    drop(waits);
    if !came {
        pr_err!("gpu {}: no interrupt\n", gpu.index());
        return Err(EIO);
    }
    Ok(())
}

/// Runs a test of `enum huvm_selftest`. Returns how it went, and its result or the step that failed.
pub(crate) fn run(gpu: &Arc<Gpu>, test: u32, arg: u64) -> (Result, u64) {
    let _one = gpu.selftest.lock();
    let did = match test {
        uapi::HUVM_SELFTEST_IDENT => ident(gpu),
        uapi::HUVM_SELFTEST_INTERRUPT => interrupt(gpu, arg),
        uapi::HUVM_SELFTEST_WINDOWS => windows(gpu),
        uapi::HUVM_SELFTEST_COPY => copy(gpu, arg),
        uapi::HUVM_SELFTEST_MEMSET => memset(gpu),
        uapi::HUVM_SELFTEST_SEMAPHORE => semaphore(gpu),
        uapi::HUVM_SELFTEST_CE_FAULT => ce_fault(gpu),
        uapi::HUVM_SELFTEST_PEER => peer(gpu, arg),
        uapi::HUVM_SELFTEST_WATCH => watch(gpu, arg),
        _ => Err(EINVAL).at(0),
    };
    match did {
        Ok(result) => (Ok(()), result),
        Err(f) => (Err(f.error), f.step),
    }
}

/// Pushes of a test; waited for when dropped, so that what they use, which is declared before, outlives them on every way out.
struct Pushes(Tracker);

impl Pushes {
    fn new() -> Self {
        Pushes(Tracker::EMPTY)
    }

    /// Hands one over; gives what to wait for.
    fn push(
        &mut self,
        gpu: &Gpu,
        engine: Engine,
        after: &Tracker,
        f: impl FnOnce(&mut Push<'_>) -> huvm_hal::Result<()>,
    ) -> Result<Tracker> {
        gpu.check()?;
        let fence = gpu.channels().submit(engine, after, f)?;
        channel::add(&mut self.0, fence);
        let mut done = Tracker::EMPTY;
        channel::add(&mut done, fence);
        Ok(done)
    }
}

impl Drop for Pushes {
    fn drop(&mut self) {
        // Who wants to know how they ended has waited before.
        let _known = channel::wait(&self.0);
    }
}

/// Maps a buffer into the channels' address space for good. Returns its address.
fn map(gpu: &Gpu, mem: &Arc<DmaBuf>) -> Result<GpuVa> {
    let mapped = gpu.channels().map(&gpu.bars, mem)?;
    // Waited for: the next copy is not to meet a miss that was cached.
    let stale = Invalidate {
        downgrade: true,
        ..mapped.stale
    };
    gpu.tlb_invalidate(mapped.root, &stale)?;
    Ok(mapped.va)
}

/// A chunk of VRAM for a test; given back when dropped.
struct Scratch<'a> {
    gpu: &'a Gpu,
    chunk: Option<FreeChunk>,
    addr: u64,
}

impl<'a> Scratch<'a> {
    fn take(gpu: &'a Gpu) -> Result<Self> {
        let chunk = gpu.chunks().take_free().ok_or(EBUSY)?;
        let addr = chunk.id().byte_offset().get();
        Ok(Scratch {
            gpu,
            chunk: Some(chunk),
            addr,
        })
    }

    fn loc(&self) -> Loc {
        Loc::Vid(VidAddr(self.addr))
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        if let Some(chunk) = self.chunk.take() {
            self.gpu.chunks().give_back(chunk);
        }
    }
}

fn sys(buf: &DmaBuf) -> Loc {
    Loc::Sys(SysAddr(buf.dma_addr()))
}

/// Word `i` of a test pattern.
fn pattern(i: u64, seed: u32) -> u32 {
    // CAST: mixes the low bits.
    (i as u32).wrapping_mul(0x9e37_79b9) ^ seed
}

fn fill_pattern(buf: &DmaBuf, bytes: u64, seed: u32) {
    for i in 0..bytes / 4 {
        // CAST: inside a buffer.
        buf.write32(4 * i as usize, pattern(i, seed));
    }
}

fn has_pattern(buf: &DmaBuf, bytes: u64, seed: u32) -> bool {
    // CAST: inside a buffer.
    (0..bytes / 4).all(|i| buf.read32(4 * i as usize) == pattern(i, seed))
}

fn ident(gpu: &Gpu) -> Steps {
    let again = gpu.hal(bringup::identify(gpu)).at(1)?;
    let known = gpu.identity();
    must(again.chip == known.chip && again.boot0 == known.boot0, 2)?;
    must(again.vram_bytes == known.vram_bytes, 3)?;
    if let Some(ext) = gpu.ext() {
        must(ext.vram_bytes == known.vram_bytes, 4)?;
    }
    // Fails where the kernel has no extended configuration space, as without CONFIG_PCI_MMCONFIG.
    must(driver::is_announced(gpu), 7)?;
    let before = gpu.ptimer_ns().at(5)?;
    time::sleep_us(1000);
    let after = gpu.ptimer_ns().at(5)?;
    must(after > before, 6)?;
    Ok(known.chip.into())
}

fn interrupt(gpu: &Gpu, arg: u64) -> Steps {
    let vector = u16::try_from(arg).ok().filter(|v| *v < 256);
    let v = Vector(vector.ok_or(EINVAL).at(0)?);
    let entry = usize::from(v.0 / 64);
    let seen = gpu.irq_seen.get(entry).ok_or(EINVAL).at(0)?;
    let before = seen.load(Relaxed);
    gpu.irq_vector.store(u32::MAX, Relaxed);
    irq::unmask(gpu, v);
    irq::trigger(gpu, v);
    let _waits = Waiting::on(What::Step, gpu.index(), 0, EVENT_NS);
    let came = gpu.irq_wait.wait_timeout(EVENT_NS, || {
        seen.load(Relaxed) != before && gpu.irq_vector.load(Relaxed) == u32::from(v.0)
    });
    if !gpu.serves(v) {
        irq::mask(gpu, v);
    }
    must(came, 1)?;
    // CAST: below 4.
    Ok(entry as u64)
}

fn windows(gpu: &Gpu) -> Steps {
    let s = Scratch::take(gpu).at(0)?;
    let base = s.addr & !0xffff;
    // CAST: VRAM ends below 2^37, the register holds the address in units of 64 KiB.
    gpu.write32(Bar::Regs, BAR0_WINDOW, (base >> 16) as u32);
    // CAST: below 64 KiB.
    let into = WINDOW + (s.addr & 0xffff) as u32;
    let bar1 = gpu.window(s.addr, 4096).at(1)?;
    gpu.write32(Bar::Regs, into, 0x1111_0001);
    gpu.write32(Bar::Regs, into + 4, 0x1111_0002);
    must(
        bar1.read32(0) == 0x1111_0001 && bar1.read32(4) == 0x1111_0002,
        2,
    )?;
    bar1.write32(8, 0x2222_0003);
    // A read brings the posted write home.
    must(bar1.read32(8) == 0x2222_0003, 3)?;
    must(gpu.read32(Bar::Regs, into + 8) == 0x2222_0003, 4)?;
    if s.addr < BAR3_BYTES {
        let bar3 = VramWindow::map(&gpu.pdev, 3, s.addr, 4096).at(5)?;
        must(
            bar3.read32(0) == 0x1111_0001 && bar3.read32(8) == 0x2222_0003,
            6,
        )?;
        bar3.write32(12, 0x3333_0004);
        must(
            bar3.read32(12) == 0x3333_0004 && bar1.read32(12) == 0x3333_0004,
            7,
        )?;
    }
    Ok(s.addr)
}

/// Whether a copy of `bytes` can be compared.
fn real(gpu: &Gpu, bytes: u64) -> Steps<()> {
    let phantom = gpu.ext().is_some_and(|e| e.phantom);
    if phantom && bytes >= PHANTOM_BYTES {
        return Err(EOPNOTSUPP).at(0);
    }
    Ok(())
}

fn copy(gpu: &Gpu, bytes: u64) -> Steps {
    if bytes == 0 || bytes > COPY_MAX || bytes & 3 != 0 {
        return Err(EINVAL).at(0);
    }
    real(gpu, bytes)?;
    // CAST: at most 2 MiB.
    let from = gpu.dma_alloc(bytes as usize).at(1)?;
    let to = gpu.dma_alloc(bytes as usize).at(1)?;
    let s = Scratch::take(gpu).at(2)?;
    fill_pattern(&from, bytes, 0x1234);
    let start = time::now_ns();
    let mut pushes = Pushes::new();
    let up = pushes
        .push(gpu, Engine::HostToDevice, &Tracker::EMPTY, |p| {
            p.copy(sys(&from), s.loc(), bytes, FIRST)
        })
        .at(3)?;
    let down = pushes
        .push(gpu, Engine::DeviceToHost, &up, |p| {
            p.copy(s.loc(), sys(&to), bytes, FIRST)
        })
        .at(4)?;
    channel::wait(&up).at(5)?;
    channel::wait(&down).at(6)?;
    let took = time::now_ns().saturating_sub(start);
    must(has_pattern(&to, bytes, 0x1234), 7)?;
    Ok(took)
}

fn memset(gpu: &Gpu) -> Steps {
    let to = gpu.dma_alloc(4096).at(1)?;
    let s = Scratch::take(gpu).at(2)?;
    let mut pushes = Pushes::new();
    let fills = [
        (Fill::U8(0xa5), 0xa5a5_a5a5u32, 0xa5a5_a5a5u32),
        (Fill::U32(0x0102_0304), 0x0102_0304, 0x0102_0304),
        (Fill::U64(0x1122_3344_5566_7788), 0x5566_7788, 0x1122_3344),
    ];
    for (n, (fill, even, odd)) in (0u64..).zip(fills) {
        for word in 0..1024 {
            to.write32(4 * word, 0);
        }
        let set = pushes
            .push(gpu, Engine::Local, &Tracker::EMPTY, |p| {
                p.fill(s.loc(), fill, 2048, FIRST)
            })
            .at(10 * n + 3)?;
        let down = pushes
            .push(gpu, Engine::DeviceToHost, &set, |p| {
                p.copy(s.loc(), sys(&to), 2048, FIRST)
            })
            .at(10 * n + 4)?;
        channel::wait(&down).at(10 * n + 5)?;
        let good = (0..512).all(|i| to.read32(4 * i) == if i % 2 == 0 { even } else { odd });
        must(good && to.read32(2048) == 0, 10 * n + 6)?;
    }
    Ok(0)
}

fn semaphore(gpu: &Gpu) -> Steps {
    let (va, mem) = gpu.channels().scratch().ok_or(EIO).at(1)?;
    let s = Scratch::take(gpu).at(2)?;
    for word in 0..16 {
        mem.write32(4 * word, 0);
    }
    // The first channel is busy for a while, then stamps; the second waits for it, then stamps.
    let mut pushes = Pushes::new();
    let first = pushes
        .push(gpu, Engine::Local, &Tracker::EMPTY, |p| {
            p.fill(s.loc(), Fill::U32(7), COPY_MAX, FIRST)?;
            p.timestamp(va, 1)
        })
        .at(3)?;
    let second = pushes
        .push(gpu, Engine::DeviceToHost, &first, |p| {
            p.timestamp(GpuVa(va.0 + 16), 2)
        })
        .at(4)?;
    channel::wait(&second).at(5)?;
    must(channel::poll(&first).is_some(), 6)?;
    must(mem.read32(0) == 1 && mem.read32(16) == 2, 7)?;
    let (t1, t2) = (mem.read64(8), mem.read64(24));
    must(t1 != 0 && t2 >= t1, 8)?;
    let now = gpu.ptimer_ns().at(9)?;
    must(now >= t2 & !31, 10)?;
    Ok(t2.saturating_sub(t1))
}

fn ce_fault(gpu: &Gpu) -> Steps {
    let from = Arc::new(gpu.dma_alloc(4096).at(1)?, GFP_KERNEL)
        .map_err(Error::from)
        .at(1)?;
    let to = Arc::new(gpu.dma_alloc(4096).at(1)?, GFP_KERNEL)
        .map_err(Error::from)
        .at(1)?;
    fill_pattern(&from, 256, 0x77);
    let to_va = map(gpu, &to).at(2)?;
    // The next page of the window, which nothing is mapped to yet.
    let from_va = GpuVa(to_va.0 + 4096);
    *gpu.ce_fault.lock() = None;
    gpu.ce_fault_held.store(true, Relaxed);
    let did = faulting_copy(gpu, &from, from_va, to_va);
    gpu.ce_fault_held.store(false, Relaxed);
    did?;
    must(has_pattern(&to, 256, 0x77), 9)?;
    Ok(from_va.0)
}

/// Copies from `from_va`, to which `from` is mapped only after the copy has faulted.
fn faulting_copy(gpu: &Gpu, from: &Arc<DmaBuf>, from_va: GpuVa, to_va: GpuVa) -> Steps<()> {
    let mut pushes = Pushes::new();
    let copy = pushes
        .push(gpu, Engine::HostToDevice, &Tracker::EMPTY, |p| {
            p.copy_virtual(from_va, to_va, 256, FIRST)
        })
        .at(3)?;
    let waits = Waiting::on(What::Step, gpu.index(), 0, EVENT_NS);
    let came = gpu
        .irq_wait
        .wait_timeout(EVENT_NS, || gpu.ce_fault.lock().is_some() || gpu.is_lost());
    drop(waits);
    let fault = gpu.ce_fault.lock().take();
    // Whatever came, the copy must be able to end.
    let mapped = map(gpu, from).at(4);
    let restarted = match fault {
        Some(f) => {
            let mut late = time::Patience::new(FLAG_NS);
            gpu.channels().restart(f.engine, &mut || late.again())
        }
        None => None,
    };
    let ended = channel::wait(&copy).at(8);
    must(came, 5)?;
    let f = fault.ok_or(EIO).at(5)?;
    must(f.va == from_va && !f.replayable, 6)?;
    must(mapped? == from_va && restarted == Some(true), 7)?;
    ended
}

fn peer(gpu: &Gpu, arg: u64) -> Steps {
    const BYTES: u64 = 64 << 10;
    real(gpu, BYTES)?;
    let other = u32::try_from(arg).ok().and_then(registry::gpu);
    let other = other.ok_or(ENODEV).at(0)?;
    other.check().at(0)?;
    if core::ptr::eq(&*other, gpu) {
        return Err(EINVAL).at(0);
    }
    let id = gpu.peer_id(other.index()).ok_or(EOPNOTSUPP).at(0)?;
    // CAST: 64 KiB.
    let from = gpu.dma_alloc(BYTES as usize).at(1)?;
    let to = gpu.dma_alloc(BYTES as usize).at(1)?;
    let (here, there) = (Scratch::take(gpu).at(2)?, Scratch::take(&other).at(2)?);
    let far = Loc::Peer {
        id,
        addr: VidAddr(there.addr),
    };
    fill_pattern(&from, BYTES, 0xbeef);
    // Host, here, there, here again (another half of the chunk), host.
    let back = Loc::Vid(VidAddr(here.addr + COPY_MAX / 2));
    let steps = [
        (Engine::HostToDevice, sys(&from), here.loc()),
        (Engine::Peer, here.loc(), far),
        (Engine::Peer, far, back),
        (Engine::DeviceToHost, back, sys(&to)),
    ];
    let mut pushes = Pushes::new();
    let mut after = Tracker::EMPTY;
    for (n, (engine, src, dst)) in (0u64..).zip(steps) {
        after = pushes
            .push(gpu, engine, &after, |p| p.copy(src, dst, BYTES, FIRST))
            .at(n + 3)?;
    }
    channel::wait(&after).at(7)?;
    must(has_pattern(&to, BYTES, 0xbeef), 8)?;
    Ok(id.into())
}

impl Gpu {
    /// Whether the driver serves a vector itself.
    fn serves(&self, v: Vector) -> bool {
        self.fault_vectors().contains(&v)
            || self.channels().vectors().any(|c| c == v)
            || self.identity().vectors.info_fault == v
            || self
                .ext()
                .and_then(|e| e.workload.as_ref())
                .is_some_and(|w| w.vector == v)
    }
}

/// Waits `ms` milliseconds with a bound of one: whoever watches over waits is to find it, once.
fn watch(gpu: &Gpu, ms: u64) -> Steps {
    must(ms <= WATCH_MS, 1)?;
    let _late = Waiting::on(What::Step, gpu.index(), ms, 1_000_000);
    let until = time::now_ns().saturating_add(ms.saturating_mul(1_000_000));
    while time::now_ns() < until {
        if task::fatal_signal_pending() {
            return Err(EINTR).at(2);
        }
        time::sleep_us(10_000);
    }
    Ok(0)
}
