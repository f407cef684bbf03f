// SPDX-License-Identifier: GPL-2.0
//! The GPUs of the machine, by index.

use super::Gpu;
use crate::account::policy;
use crate::kernel::global::{Global, Which};
use kernel::pci;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::Arc;

/// GPUs of a machine, at most (`HUVM_MAX_GPUS`).
pub(crate) const MAX_GPUS: usize = 16;

/// Who has an index.
enum Slot {
    Free,
    /// A GPU that is being looked at.
    Reserved,
    /// One that is being started or unbound: it may make copies, and is not for use.
    Hidden(Arc<Gpu>),
    /// It is ready for use.
    In(Arc<Gpu>),
}

impl Slot {
    /// The GPU, if it is ready for use.
    fn get(&self) -> Option<&Arc<Gpu>> {
        match self {
            Slot::In(gpu) => Some(gpu),
            _ => None,
        }
    }

    /// The GPU, be it for use or not.
    fn bound(&self) -> Option<&Arc<Gpu>> {
        match self {
            Slot::In(gpu) | Slot::Hidden(gpu) => Some(gpu),
            Slot::Free | Slot::Reserved => None,
        }
    }
}

static GPUS: Global<[Slot; MAX_GPUS]> = Global::new(Which::Gpus, [const { Slot::Free }; MAX_GPUS]);

/// GPUs that left and could not be reset, and may still write memory of the GPU of an index: by that index, a bitmap of theirs.
static WRITERS: [Atomic<u32>; MAX_GPUS] = [const { Atomic::new(0) }; MAX_GPUS];

/// An index, and all that goes by it. Nobody else has it until this is dropped.
pub(super) struct Place(u8);

impl Place {
    /// Takes `index`, or one that is free for a device that does not name its own. Nothing runs on that device any more.
    ///
    /// # Errors
    /// `EEXIST` if it is taken, `EINVAL` if it is out of range, `ENOSPC` if none is free. `EBUSY`: a lost GPU may write what the GPU of
    /// this index lent to it.
    pub(super) fn take(index: Option<u8>) -> Result<Place> {
        let mut gpus = GPUS.lock();
        let writer = |at: u8| {
            let mut bound = gpus.iter().filter_map(Slot::bound);
            bound.find(|g| g.may_write(at)).map(|g| g.index())
        };
        let at = match index {
            Some(index) => {
                if matches!(gpus.get(usize::from(index)), Some(Slot::Free)) {
                    // It is the one that had left.
                    for writers in &WRITERS {
                        writers.store(writers.load(Relaxed) & !bit(index), Relaxed);
                    }
                }
                index
            }
            None => {
                // CAST: 16.
                let mut free = (0..MAX_GPUS as u8).zip(gpus.iter()).filter(|(at, s)| {
                    matches!(s, Slot::Free) && writer(*at).is_none() && writers(*at) == 0
                });
                free.next().map(|(at, _)| at).ok_or(ENOSPC)?
            }
        };
        if let Some(by) = writer(at) {
            pr_err!(
                "gpu {at}: gpu {by} was lost and may still write what it borrowed: unbind that first\n"
            );
            return Err(EBUSY);
        }
        if writers(at) != 0 {
            pr_err!(
                "gpu {at}: gpu {} was lost, could not be reset, and may still write what it borrowed: bind that first, or load huvm anew when it is switched off\n",
                writers(at).trailing_zeros()
            );
            return Err(EBUSY);
        }
        match gpus.get_mut(usize::from(at)) {
            None => Err(EINVAL),
            Some(slot @ Slot::Free) => {
                *slot = Slot::Reserved;
                Ok(Place(at))
            }
            Some(_) => Err(EEXIST),
        }
    }

    /// The index.
    pub(super) fn index(&self) -> u8 {
        self.0
    }

    /// The GPU that has it is there; only [`bound`] finds it.
    pub(super) fn hide(&self, gpu: &Arc<Gpu>) {
        self.set(Slot::Hidden(gpu.clone()));
    }

    /// The GPU that has it is ready for use.
    pub(super) fn show(&self, gpu: &Arc<Gpu>) {
        self.set(Slot::In(gpu.clone()));
    }

    /// The GPU that has it leaves, and may go on writing memory of others, as long as it was not reset: `writes` says whose.
    pub(super) fn leaves_writing(&self, writes: impl Fn(u8) -> bool) {
        let _one_at_a_time = GPUS.lock();
        // CAST: 16.
        for (lender, writers) in (0..MAX_GPUS as u8).zip(&WRITERS) {
            if writes(lender) {
                writers.store(writers.load(Relaxed) | bit(self.0), Relaxed);
            }
        }
    }

    fn set(&self, to: Slot) {
        let mut gpus = GPUS.lock();
        let slot = gpus.get_mut(usize::from(self.0));
        let old = slot.map(|slot| core::mem::replace(slot, to));
        drop(gpus);
        drop(old);
        // What is set for a GPU comes and goes with it.
        policy::note_change();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.set(Slot::Free);
    }
}

fn bit(gpu: u8) -> u32 {
    1u32.checked_shl(gpu.into()).unwrap_or(0)
}

fn writers(lender: u8) -> u32 {
    let writers = WRITERS.get(usize::from(lender));
    writers.map_or(0, |w| w.load(Relaxed))
}

/// The GPU with this index, though it may not be ready for use yet, or not any more.
pub(super) fn bound(index: u8) -> Option<Arc<Gpu>> {
    GPUS.lock().get(usize::from(index))?.bound().cloned()
}

/// The GPU with this index. One that was lost but is still bound is there.
pub(crate) fn gpu(index: u32) -> Option<Arc<Gpu>> {
    let at = usize::try_from(index).ok()?;
    GPUS.lock().get(at).and_then(Slot::get).cloned()
}

/// Shows those GPUs of a bitmap that there are, by index, to `f`, which takes no lock and does not sleep. How many places there are with
/// one in the last.
pub(crate) fn look(at: u64, mut f: impl FnMut(usize, &Gpu)) -> usize {
    let gpus = GPUS.lock();
    let mut there = 0;
    for (i, slot) in gpus.iter().enumerate() {
        if at >> i & 1 == 0 {
            continue;
        }
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
