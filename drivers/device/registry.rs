// SPDX-License-Identifier: GPL-2.0
//! The GPUs of the machine, by index.

use super::Gpu;
use crate::kernel::global::{Global, Which};
use kernel::pci;
use kernel::prelude::*;
use kernel::sync::Arc;

/// GPUs of a machine, at most (`HUVM_MAX_GPUS`).
pub(crate) const MAX_GPUS: usize = 16;

/// Who has an index.
enum Slot {
    Free,
    /// It is ready for use.
    In(Arc<Gpu>),
    /// It is being unbound, and still makes copies. Nobody else has its index meanwhile.
    Leaving(Arc<Gpu>),
}

impl Slot {
    /// The GPU, if it is ready for use.
    fn get(&self) -> Option<&Arc<Gpu>> {
        match self {
            Slot::In(gpu) => Some(gpu),
            Slot::Free | Slot::Leaving(_) => None,
        }
    }
}

static GPUS: Global<[Slot; MAX_GPUS]> = Global::new(Which::Gpus, [const { Slot::Free }; MAX_GPUS]);

/// Adds a GPU that is ready for use.
///
/// # Errors
/// `EEXIST` if there is one with its index, `EINVAL` for an index out of range.
pub(super) fn add(gpu: &Arc<Gpu>) -> Result {
    let mut gpus = GPUS.lock();
    match gpus.get_mut(usize::from(gpu.index())) {
        None => Err(EINVAL),
        Some(slot @ Slot::Free) => {
            *slot = Slot::In(gpu.clone());
            Ok(())
        }
        Some(_) => Err(EEXIST),
    }
}

/// A GPU, which was added, leaves: from here on only [`of_channel`] finds it.
pub(super) fn leaves(gpu: &Arc<Gpu>) {
    set(gpu, Slot::Leaving(gpu.clone()));
}

/// It makes no copies any more.
pub(super) fn has_left(gpu: &Arc<Gpu>) {
    set(gpu, Slot::Free);
}

/// What becomes of the slot of a GPU, if it has one.
fn set(gpu: &Arc<Gpu>, to: Slot) {
    let mut old = None;
    if let Some(slot) = GPUS.lock().get_mut(usize::from(gpu.index())) {
        if matches!(slot, Slot::In(g) | Slot::Leaving(g) if Arc::ptr_eq(g, gpu)) {
            old = Some(core::mem::replace(slot, to));
        }
    }
    drop(old);
}

/// The GPU with this index, though it may be about to leave.
pub(super) fn of_channel(index: u8) -> Option<Arc<Gpu>> {
    match GPUS.lock().get(usize::from(index)) {
        Some(Slot::In(gpu) | Slot::Leaving(gpu)) => Some(gpu.clone()),
        _ => None,
    }
}

/// A free index, for a device that does not name its own.
pub(super) fn free_index() -> Option<u8> {
    let is_free = |slot: &Slot| matches!(slot, Slot::Free);
    u8::try_from(GPUS.lock().iter().position(is_free)?).ok()
}

/// The GPU with this index. One that was lost but is still bound is there.
pub(crate) fn gpu(index: u32) -> Option<Arc<Gpu>> {
    let at = usize::try_from(index).ok()?;
    GPUS.lock().get(at).and_then(Slot::get).cloned()
}

/// Shows all GPUs, by index, to `f`, which takes no lock and does not sleep. How many places there are with a GPU in the last one.
pub(crate) fn look(mut f: impl FnMut(usize, &Gpu)) -> usize {
    let gpus = GPUS.lock();
    let mut there = 0;
    for (i, slot) in gpus.iter().enumerate() {
        if let Some(gpu) = slot.get() {
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
        .filter_map(Slot::get)
        .find(|g| core::ptr::eq(&*g.pdev, pdev));
    found.cloned()
}

/// Highest index in use plus one.
pub(crate) fn count() -> u32 {
    let gpus = GPUS.lock();
    let last = gpus.iter().rposition(|slot| slot.get().is_some());
    // CAST: below 16.
    last.map_or(0, |i| i as u32 + 1)
}

/// All GPUs, in order of index.
///
/// # Errors
/// `ENOMEM`.
pub(crate) fn snapshot() -> Result<KVec<Arc<Gpu>>> {
    let mut all = KVec::with_capacity(MAX_GPUS, GFP_KERNEL)?;
    for gpu in GPUS.lock().iter().filter_map(Slot::get) {
        all.push(gpu.clone(), GFP_KERNEL)?;
    }
    Ok(all)
}
