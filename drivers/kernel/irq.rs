// SPDX-License-Identifier: GPL-2.0
//! MSI-X vectors. Handlers run in hard-interrupt context and hand longer work to somebody they wake.

use super::ffi::c;
use super::pci::{raw, Function};
use core::ffi::c_void;
use kernel::error::to_result;
use kernel::pci;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;

/// Serves the messages of MSI-X entries.
pub(crate) trait IrqHandler: Send + Sync + 'static {
    /// A message of `entry` came. In hard-interrupt context: short, no sleeping, no lock that is taken with interrupts on.
    fn interrupt(&self, entry: u8);
}

struct Context<H> {
    handler: Arc<H>,
    entry: u8,
    irq: u32,
}

/// # Safety
/// `arg` points to a live `Context<H>`.
unsafe extern "C" fn handle<H: IrqHandler>(
    _irq: kernel::ffi::c_int,
    arg: *mut c_void,
) -> c::irqreturn_t {
    // SAFETY: by the contract above.
    let ctx = unsafe { &*arg.cast::<Context<H>>() };
    ctx.handler.interrupt(ctx.entry);
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
            let arg = core::ptr::from_mut::<Context<H>>(ctx).cast::<c_void>();
            // SAFETY: requested by `new` with this argument; waits until no handler runs.
            unsafe { c::free_irq(irq, arg) };
        }
        // SAFETY: allocated by `new`; no handler is left.
        unsafe { c::pci_free_irq_vectors(raw(&self.pdev)) };
    }
}
