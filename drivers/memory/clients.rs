// SPDX-License-Identifier: GPL-2.0
//! The spaces that use one GPU, by subcontext and by instance block.

use super::gpu_space::SpaceGpu;
use super::space::Space;
use huvm_policy::share::{self, Owner};
use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};

/// Subcontexts of a GPU (Documentation/device.md section 2.4).
pub(crate) const SUBCONTEXTS: usize = 64;

/// A registered space.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) instance: u64,
    pub(crate) space: Arc<Space>,
    pub(crate) sg: Arc<SpaceGpu>,
}

enum Slot {
    Free,
    Reserved(Owner),
    Used(Client),
}

impl Slot {
    fn owner(&self) -> Option<Owner> {
        match self {
            Slot::Free => None,
            Slot::Reserved(owner) => Some(*owner),
            Slot::Used(client) => Some(client.space.owner()),
        }
    }
}

/// What the lock protects.
struct Table {
    slots: KVec<Slot>,
    /// The GPU leaves: who has not come yet does not.
    closed: bool,
}

/// The table of one GPU.
#[pin_data]
pub(crate) struct Clients {
    #[pin]
    table: Mutex<Table>,
}

impl Clients {
    /// An empty table.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<impl PinInit<Self, Error>> {
        let mut slots = KVec::with_capacity(SUBCONTEXTS, GFP_KERNEL)?;
        for _ in 0..SUBCONTEXTS {
            slots.push(Slot::Free, GFP_KERNEL)?;
        }
        Ok(try_pin_init!(Self {
            table <- new_mutex!(Table { slots, closed: false }, "huvm_clients"),
        }))
    }

    /// Takes a subcontext for a space of `owner`.
    ///
    /// # Errors
    /// `ENOSPC`: all are taken, or as many as one process or user may have ([`share::may_take`]).
    pub(crate) fn reserve(&self, owner: Owner) -> Result<u8> {
        let mut table = self.table.lock();
        let slots = &mut table.slots;
        let held = slots.iter().filter_map(Slot::owner);
        if !share::may_take(&owner, SUBCONTEXTS, held) {
            return Err(ENOSPC);
        }
        for (i, slot) in slots.iter_mut().enumerate() {
            if matches!(slot, Slot::Free) {
                *slot = Slot::Reserved(owner);
                return u8::try_from(i).map_err(|_| ENOSPC);
            }
        }
        Err(ENOSPC)
    }

    /// Faults of this subcontext, which the caller reserved, can be served from now on.
    ///
    /// # Errors
    /// `ENODEV`: the GPU leaves.
    pub(crate) fn publish(&self, veid: u8, space: Arc<Space>, sg: Arc<SpaceGpu>) -> Result {
        let instance = sg.instance();
        let mut table = self.table.lock();
        if table.closed {
            return Err(ENODEV);
        }
        match table.slots.get_mut(usize::from(veid)) {
            Some(slot @ Slot::Reserved(_)) => {
                *slot = Slot::Used(Client {
                    instance,
                    space,
                    sg,
                });
                Ok(())
            }
            _ => Err(ENODEV),
        }
    }

    /// The GPU leaves: nobody is published from here on. Who was can be found, and is withdrawn one by one.
    pub(crate) fn close(&self) {
        self.table.lock().closed = true;
    }

    /// Faults of this subcontext are not served any more; it stays taken.
    pub(crate) fn withdraw(&self, veid: u8) {
        let mut table = self.table.lock();
        let old = table.slots.get_mut(usize::from(veid)).and_then(|s| {
            let owner = s.owner()?;
            Some(core::mem::replace(s, Slot::Reserved(owner)))
        });
        drop(table);
        drop(old);
    }

    /// The subcontext may be given out again.
    pub(crate) fn unreserve(&self, veid: u8) {
        let mut table = self.table.lock();
        let slot = table.slots.get_mut(usize::from(veid));
        let old = slot.map(|s| core::mem::replace(s, Slot::Free));
        drop(table);
        drop(old);
    }

    /// The client whose instance block this is, with its subcontext.
    pub(crate) fn by_instance(&self, instance: u64) -> Option<(u8, Client)> {
        let table = self.table.lock();
        table.slots.iter().enumerate().find_map(|(i, s)| match s {
            Slot::Used(c) if c.instance == instance => Some((u8::try_from(i).ok()?, c.clone())),
            _ => None,
        })
    }

    /// The client of a subcontext.
    pub(crate) fn get(&self, veid: u8) -> Option<Client> {
        match self.table.lock().slots.get(usize::from(veid)) {
            Some(Slot::Used(c)) => Some(c.clone()),
            _ => None,
        }
    }

    /// The first client from subcontext `from` on whose process is gone, and that subcontext.
    pub(crate) fn orphan(&self, from: u8) -> Option<(u8, Client)> {
        let table = self.table.lock();
        let slots = (0u8..).zip(table.slots.iter());
        slots.skip(from.into()).find_map(|(veid, s)| match s {
            Slot::Used(c) if c.space.is_orphan() => Some((veid, c.clone())),
            _ => None,
        })
    }

    /// Each client's subcontext and owner.
    pub(crate) fn each(&self, mut f: impl FnMut(u8, Owner)) {
        for (veid, slot) in (0u8..).zip(self.table.lock().slots.iter()) {
            if let Slot::Used(client) = slot {
                f(veid, client.space.owner());
            }
        }
    }

    /// Whether somebody has a subcontext, or has not let go of it.
    pub(crate) fn are_there(&self) -> bool {
        let table = self.table.lock();
        table.slots.iter().any(|s| !matches!(s, Slot::Free))
    }

    /// Clients now.
    pub(crate) fn count(&self) -> u32 {
        let table = self.table.lock();
        let slots = table.slots.iter();
        slots.fold(0, |n, s| n + u32::from(matches!(s, Slot::Used(_))))
    }
}
