// SPDX-License-Identifier: GPL-2.0
//! The GPUs of the machine, by index.

use super::Gpu;
use crate::kernel::global::{Global, Which};
use kernel::pci;
use kernel::prelude::*;
use kernel::sync::Arc;

/// GPUs of a machine, at most (`HUVM_MAX_GPUS`).
pub(crate) const MAX_GPUS: usize = 16;

static GPUS: Global<[Option<Arc<Gpu>>; MAX_GPUS]> =
    Global::new(Which::Gpus, [const { None }; MAX_GPUS]);

/// GPUs that are being unbound, until their channels are shut down.
static LEAVING: Global<[Option<Arc<Gpu>>; MAX_GPUS]> =
    Global::new(Which::Other, [const { None }; MAX_GPUS]);

/// Adds a GPU that is ready for use.
///
/// # Errors
/// `EEXIST` if there is one with its index, `EINVAL` for an index out of range.
pub(super) fn add(gpu: &Arc<Gpu>) -> Result {
    if is_leaving(gpu.index().into()) {
        return Err(EEXIST);
    }
    let mut gpus = GPUS.lock();
    match gpus.get_mut(usize::from(gpu.index())) {
        None => Err(EINVAL),
        Some(Some(_)) => Err(EEXIST),
        Some(slot) => {
            *slot = Some(gpu.clone());
            Ok(())
        }
    }
}

/// Takes a GPU out, if it is in.
pub(super) fn remove(gpu: &Arc<Gpu>) {
    let mut old = None;
    if let Some(slot) = GPUS.lock().get_mut(usize::from(gpu.index())) {
        if slot.as_ref().is_some_and(|g| Arc::ptr_eq(g, gpu)) {
            old = slot.take();
        }
    }
    drop(old);
}

/// A GPU that was taken out still makes copies: it can be found by [`of_channel`] until [`has_left`].
pub(super) fn leaves(gpu: &Arc<Gpu>) {
    if let Some(slot) = LEAVING.lock().get_mut(usize::from(gpu.index())) {
        *slot = Some(gpu.clone());
    }
}

/// Whether the one with this index is about to leave: nobody has its index meanwhile.
fn is_leaving(index: usize) -> bool {
    LEAVING.lock().get(index).is_some_and(Option::is_some)
}

/// It makes none any more.
pub(super) fn has_left(gpu: &Arc<Gpu>) {
    let mut old = None;
    if let Some(slot) = LEAVING.lock().get_mut(usize::from(gpu.index())) {
        if slot.as_ref().is_some_and(|g| Arc::ptr_eq(g, gpu)) {
            old = slot.take();
        }
    }
    drop(old);
}

/// The GPU with this index, though it may be about to leave.
pub(super) fn of_channel(index: u8) -> Option<Arc<Gpu>> {
    let leaving = LEAVING.lock().get(usize::from(index)).cloned().flatten();
    leaving.or_else(|| gpu(index.into()))
}

/// A free index, for a device that does not name its own.
pub(super) fn free_index() -> Option<u8> {
    let leaving: [bool; MAX_GPUS] = core::array::from_fn(is_leaving);
    let gpus = GPUS.lock();
    let mut free = gpus
        .iter()
        .zip(leaving)
        .map(|(gpu, leaves)| gpu.is_none() && !leaves);
    u8::try_from(free.position(|f| f)?).ok()
}

/// The GPU with this index. One that was lost but is still bound is there.
pub(crate) fn gpu(index: u32) -> Option<Arc<Gpu>> {
    let at = usize::try_from(index).ok()?;
    GPUS.lock().get(at).cloned().flatten()
}

/// Shows all GPUs, by index, to `f`, which takes no lock and does not sleep. How many places there are with a GPU in the last one.
pub(crate) fn look(mut f: impl FnMut(usize, &Gpu)) -> usize {
    let gpus = GPUS.lock();
    let mut there = 0;
    for (i, gpu) in gpus.iter().enumerate() {
        if let Some(gpu) = gpu {
            f(i, gpu);
            there = i.saturating_add(1);
        }
    }
    there
}

/// The GPU that a PCI function is.
pub(super) fn of_pci(pdev: &pci::Device) -> Option<Arc<Gpu>> {
    let gpus = GPUS.lock();
    let found = gpus
        .iter()
        .flatten()
        .find(|g| core::ptr::eq(&*g.pdev, pdev));
    found.cloned()
}

/// Highest index in use plus one.
pub(crate) fn count() -> u32 {
    let gpus = GPUS.lock();
    let last = gpus.iter().rposition(Option::is_some);
    // CAST: below 16.
    last.map_or(0, |i| i as u32 + 1)
}

/// All GPUs, in order of index.
///
/// # Errors
/// `ENOMEM`.
pub(crate) fn snapshot() -> Result<KVec<Arc<Gpu>>> {
    let mut all = KVec::with_capacity(MAX_GPUS, GFP_KERNEL)?;
    for gpu in GPUS.lock().iter().flatten() {
        all.push(gpu.clone(), GFP_KERNEL)?;
    }
    Ok(all)
}
