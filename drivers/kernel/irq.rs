// SPDX-License-Identifier: GPL-2.0
//! MSI-X vectors. Handlers run in hard-interrupt context and hand longer work to somebody they wake.
//!
//! A device may send messages without end. One whose handler takes more than a quarter of a CPU for long is a storm ([`Meter`]): its
//! vector is off for [`OFF_NS`], then tried again. Nobody waits for a message alone (each who waits looks by himself), so that a storm
//! costs time.

use super::ffi::c;
use super::pci::{raw, Function};
use super::time;
use core::ffi::c_void;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::pci;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::Arc;

/// Serves the messages of MSI-X entries.
pub(crate) trait IrqHandler: Send + Sync + 'static {
    /// A message of `entry` came. In hard-interrupt context: short, no sleeping, no lock that is taken with interrupts on.
    fn interrupt(&self, entry: u8);
    /// Messages of `entry` come without end, and its vector is off for a while; `goes_on`: as it was just before. In the same context.
    fn storm(&self, entry: u8, goes_on: bool);
}

/// How long the vector of a storm is off.
const OFF_NS: u64 = 400_000_000;
/// The time that the handler takes is taken of one message in so many; which, no device can tell before, or that one alone would cost little;
const SAMPLE: u32 = 64;
/// it is judged each so many; behind a storm, where it is likely, sooner.
const LONG: u32 = 4096;
const SHORT: u32 = 256;
/// This part of a CPU is a storm; and this one a storm that goes on.
const PART: u64 = 4;
const PART_AGAIN: u64 = 16;

/// What the messages of a vector cost. The handler of one vector runs on one CPU at a time.
struct Meter {
    count: Atomic<u32>,
    /// The message whose time is taken next.
    next: Atomic<u32>,
    /// What that is chosen by.
    chance: Atomic<u64>,
    /// Since when it counts, ns; 0: from the next message on, which is one whose time is taken.
    since: Atomic<u64>,
    /// What the messages took whose time was taken, ns.
    took: Atomic<u64>,
    /// How many those were.
    timed: Atomic<u32>,
    /// It was a storm when it was judged last.
    storm: Atomic<bool>,
}

impl Meter {
    fn new() -> Self {
        Meter {
            count: Atomic::new(0),
            next: Atomic::new(SAMPLE),
            chance: Atomic::new(0),
            since: Atomic::new(time::now_ns()),
            took: Atomic::new(0),
            timed: Atomic::new(0),
            storm: Atomic::new(false),
        }
    }

    /// Handles a message by `f`. What it is when there are enough of them: a storm, which may go on.
    #[inline]
    fn handle(&self, f: impl FnOnce()) -> Option<bool> {
        let n = self.count.load(Relaxed).wrapping_add(1);
        self.count.store(n, Relaxed);
        if n < self.next.load(Relaxed) {
            f();
            return None;
        }
        let began = time::now_ns();
        f();
        let now = time::now_ns();
        self.next.store(n.wrapping_add(self.step(now)), Relaxed);
        if self.since.load(Relaxed) == 0 {
            self.since.store(began, Relaxed);
            return None;
        }
        let took = now.saturating_sub(began);
        self.took
            .store(self.took.load(Relaxed).saturating_add(took), Relaxed);
        self.timed
            .store(self.timed.load(Relaxed).saturating_add(1), Relaxed);
        self.judge(n, now)
    }

    /// How many messages on the next one is whose time is taken: [`SAMPLE`] in the mean. By all the times so far, to the nanosecond.
    fn step(&self, now: u64) -> u32 {
        let chance = self.chance.load(Relaxed) ^ now;
        // The upper half of the product depends on all bits of it.
        let chance = chance.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
        self.chance.store(chance, Relaxed);
        // CAST: the low half.
        1 + chance as u32 % (2 * SAMPLE - 1)
    }

    fn judge(&self, n: u32, now: u64) -> Option<bool> {
        let before = self.storm.load(Relaxed);
        let (enough, part) = if before {
            (SHORT, PART_AGAIN)
        } else {
            (LONG, PART)
        };
        if n < enough {
            return None;
        }
        let timed = u64::from(self.timed.load(Relaxed)).max(1);
        let took = self.took.load(Relaxed).saturating_mul(n.into()) / timed;
        let storm = took.saturating_mul(part) > now.saturating_sub(self.since.load(Relaxed));
        // What is judged next begins now, or when the vector is on again.
        let (since, next) = if storm { (0, 1) } else { (now, self.step(now)) };
        self.since.store(since, Relaxed);
        self.count.store(0, Relaxed);
        self.next.store(next, Relaxed);
        self.took.store(0, Relaxed);
        self.timed.store(0, Relaxed);
        self.storm.store(storm, Relaxed);
        storm.then_some(before)
    }
}

/// An interrupt that can be off for a while.
struct Line(NonNull<c::huvm_irq_line>);

// SAFETY: what the functions of the kernel do with it they do under locks of their own.
unsafe impl Send for Line {}
// SAFETY: as above.
unsafe impl Sync for Line {}

impl Line {
    fn new(irq: u32) -> Result<Line> {
        // SAFETY: no preconditions.
        let line = unsafe { c::huvm_irq_line_new(irq) };
        Ok(Line(NonNull::new(line).ok_or(ENOMEM)?))
    }

    /// Any context.
    fn off(&self, ns: u64) {
        // SAFETY: made by `new`; its interrupt was requested, as its handler is who calls.
        unsafe { c::huvm_irq_line_off(self.0.as_ptr(), ns) }
    }

    /// It is put on by nobody from here on.
    fn end(&self) {
        // SAFETY: made by `new`; in process context.
        unsafe { c::huvm_irq_line_end(self.0.as_ptr()) }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.end();
        // SAFETY: made by `new`; no timer is left, and no handler, whose context has it.
        unsafe { c::huvm_irq_line_free(self.0.as_ptr()) }
    }
}

struct Context<H> {
    handler: Arc<H>,
    entry: u8,
    irq: u32,
    meter: Meter,
    line: Line,
}

/// # Safety
/// `arg` points to a live `Context<H>`.
unsafe extern "C" fn handle<H: IrqHandler>(
    _irq: kernel::ffi::c_int,
    arg: *mut c_void,
) -> c::irqreturn_t {
    // SAFETY: by the contract above.
    let ctx = unsafe { &*arg.cast::<Context<H>>() };
    let storm = ctx.meter.handle(|| ctx.handler.interrupt(ctx.entry));
    if let Some(goes_on) = storm {
        ctx.line.off(OFF_NS);
        ctx.handler.storm(ctx.entry, goes_on);
    }
    // A message is nobody else's, even when its cause was served with another one's.
    c::irqreturn::IRQ_HANDLED
}

/// MSI-X vectors and their handlers; freed when dropped, which waits for handlers that run. Drop it before the driver
/// is unbound.
pub(crate) struct Irqs<H: IrqHandler> {
    pdev: ARef<pci::Device>,
    contexts: KVec<KBox<Context<H>>>,
}

impl<H: IrqHandler> Irqs<H> {
    /// Allocates up to `max` vectors (at least `min`) and gives each to `handler`.
    ///
    /// # Errors
    /// `ENOSPC` when there are not `min`, `ENOMEM`.
    pub(crate) fn new(f: &Function, min: u32, max: u32, handler: &Arc<H>) -> Result<Irqs<H>> {
        let pdev = f.device().clone();
        let p = raw(&pdev);
        // SAFETY: valid, enabled device; no affinity description.
        let n = unsafe {
            c::pci_alloc_irq_vectors_affinity(p, min, max, c::PCI_IRQ_MSIX, core::ptr::null_mut())
        };
        to_result(n.min(0))?;
        // From here on, dropping `irqs` undoes what was done.
        let mut irqs = Irqs {
            pdev,
            contexts: KVec::new(),
        };
        for entry in 0..u32::try_from(n)? {
            // SAFETY: an entry of this allocation.
            let irq = unsafe { c::pci_irq_vector(p, entry) };
            to_result(irq.min(0))?;
            let irq = u32::try_from(irq)?;
            irqs.contexts.reserve(1, GFP_KERNEL)?;
            let mut ctx = KBox::new(
                Context {
                    handler: handler.clone(),
                    entry: u8::try_from(entry)?,
                    irq,
                    meter: Meter::new(),
                    line: Line::new(irq)?,
                },
                GFP_KERNEL,
            )?;
            let arg = core::ptr::from_mut::<Context<H>>(&mut ctx).cast::<c_void>();
            // SAFETY: `arg` stays where it is (boxed) until `drop` has freed the interrupt; the name is static.
            to_result(unsafe {
                c::request_threaded_irq(irq, Some(handle::<H>), None, 0, c"huvm".as_char_ptr(), arg)
            })?;
            // Cannot fail: room was reserved, so `ctx` is not dropped here.
            irqs.contexts.push(ctx, GFP_KERNEL)?;
        }
        Ok(irqs)
    }
}

impl<H: IrqHandler> Drop for Irqs<H> {
    fn drop(&mut self) {
        for ctx in self.contexts.iter_mut() {
            let irq = ctx.irq;
            // Before the interrupt is another one's.
            ctx.line.end();
            let arg = core::ptr::from_mut::<Context<H>>(ctx).cast::<c_void>();
            // SAFETY: requested by `new` with this argument; waits until no handler runs.
            unsafe { c::free_irq(irq, arg) };
        }
        // SAFETY: allocated by `new`; no handler is left.
        unsafe { c::pci_free_irq_vectors(raw(&self.pdev)) };
    }
}
