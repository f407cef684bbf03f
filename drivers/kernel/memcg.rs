// SPDX-License-Identifier: GPL-2.0
//! Whom host memory is charged to.

use super::ffi::c;
use super::time;
use core::ffi::c_void;
use core::mem::transmute;
use kernel::alloc::Flags;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};

/// For what a client makes the kernel keep: charged ([`MemCg::charged`]; else to the caller's cgroup, a kernel thread's to
/// nobody), and it fails rather than that anything is killed for it.
pub(crate) const CHARGED: Flags = {
    // SAFETY: `Flags` is its raw word and nothing else, and every word is one.
    unsafe { transmute::<c::gfp_t, Flags>(c::HUVM_GFP_SMALL) }
};

/// The same for what an open file needs from the start. It is opened under a lock of all misc devices' (`misc_mtx`), for which others
/// wait: so the kernel looks once for memory where there is none, and not over and over.
pub(crate) const CHARGED_IN_OPEN: Flags = {
    // SAFETY: as above.
    unsafe { transmute::<c::gfp_t, Flags>(c::HUVM_GFP_OPEN) }
};

/// For the lists of all open files, which are no client's: not charged, and fought for as little.
pub(crate) const LISTED: Flags = {
    // SAFETY: as above.
    unsafe { transmute::<c::gfp_t, Flags>(c::HUVM_GFP_LIST) }
};

/// [`CHARGED`] for what is left when a client gives a part of something back, which may not fail for its limit: charged beyond that.
pub(crate) const CHARGED_BEYOND: Flags = {
    // SAFETY: as above.
    unsafe { transmute::<c::gfp_t, Flags>(c::HUVM_GFP_LEFT) }
};

/// A memory cgroup, of one client; it stands for none on a kernel without them.
pub(crate) struct MemCg {
    cgroup: *mut c_void,
    /// By [`For`].
    pauses: [Pause; 4],
}

/// What a client's memory is for. Each is asked for in pauses of its own ([`MemCg::asked`]).
#[derive(Clone, Copy)]
pub(crate) enum For {
    /// Records and page tables without which it does not get on.
    Records,
    /// Its data, for its own sake.
    Data,
    /// Its data, for another's sake.
    Others,
    /// What can be done without.
    Ahead,
}

// SAFETY: a counted reference to an object with its own locking; any thread may use and drop it.
unsafe impl Send for MemCg {}
// SAFETY: as above; what is changed through `&self` is atomic.
unsafe impl Sync for MemCg {}

impl MemCg {
    /// The one that the caller is in.
    pub(crate) fn of_current() -> MemCg {
        // SAFETY: no preconditions; gives a reference, or null.
        let cgroup = unsafe { c::huvm_memcg_of_current() };
        MemCg {
            cgroup,
            pauses: [const { Pause::new() }; 4],
        }
    }

    /// Whether both are the same.
    pub(crate) fn is(&self, other: &MemCg) -> bool {
        self.cgroup == other.cgroup
    }

    /// Whether it, or one that it is in, has a limit, be it one that its processes are slowed down at.
    pub(crate) fn is_limited(&self) -> bool {
        // SAFETY: we hold a reference, and one that has children stays.
        unsafe { c::huvm_memcg_limits(self.cgroup) != 0 }
    }

    /// What `f` allocates with [`CHARGED`], and as pages and buffers of a client, is charged to it, whichever thread this is.
    pub(crate) fn charged<R>(&self, f: impl FnOnce() -> R) -> R {
        // SAFETY: we hold a reference until `f` is over; process context, as every allocation of this room.
        at_once(|| unsafe { within(self.cgroup, f) })
    }

    /// As [`Self::charged`]. A thread of the driver, which serves all, asks in pauses, and so does who works for another.
    ///
    /// # Errors
    /// Those of `f`; `ENOMEM` while a pause lasts.
    pub(crate) fn asked<T>(&self, what: For, f: impl FnOnce() -> Result<T>) -> Result<T> {
        // SAFETY: no preconditions.
        let serves = matches!(what, For::Others) || unsafe { c::huvm_is_kthread() };
        match self.pauses.get(what as usize) {
            Some(pause) if serves => pause.ask(self, f),
            _ => self.charged(f),
        }
    }
}

/// Longest pause, ns.
const PAUSE_MAX_NS: u64 = 5_000_000_000;

/// Of the time that passes, one part in so many goes into finding out that there is no memory; twice, as a pause begins with the
/// second refusal in a row.
const PAUSE_TIMES: u64 = 20;

/// Times in which no memory is asked for on behalf of a client that was refused some. To find out that there is none may take the
/// kernel long, and threads that serve all spend a tenth of their time on that at most.
struct Pause {
    until_ns: Atomic<u64>,
    /// Refusals since there was some: one alone may be a hiccup.
    refused: Atomic<u32>,
}

impl Pause {
    const fn new() -> Self {
        Pause {
            until_ns: Atomic::new(0),
            refused: Atomic::new(0),
        }
    }

    /// Asks by `f` for memory that is charged to `memory`. A pause begins where that has a limit: elsewhere there is none for others
    /// either.
    ///
    /// # Errors
    /// Those of `f`; `ENOMEM` while the pause lasts.
    fn ask<T>(&self, memory: &MemCg, f: impl FnOnce() -> Result<T>) -> Result<T> {
        let asked = time::now_ns();
        if asked < self.until_ns.load(Relaxed) {
            return Err(ENOMEM);
        }
        let did = memory.charged(f);
        if !did.as_ref().is_err_and(|e| *e == ENOMEM) {
            if self.refused.load(Relaxed) != 0 {
                self.refused.store(0, Relaxed);
            }
        } else if memory.is_limited() && self.refused.xchg(1, Relaxed) != 0 {
            let now = time::now_ns();
            let long = now.saturating_sub(asked).saturating_mul(PAUSE_TIMES);
            let until = now.saturating_add(long.min(PAUSE_MAX_NS));
            self.refused.store(0, Relaxed);
            self.until_ns.store(until, Relaxed);
        }
        did
    }
}

/// What `f` allocates is charged to nobody, whichever thread this is: not to the cgroup of its process either.
pub(crate) fn uncharged<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: the root is always there; process context, as every allocation of this room.
    unsafe { within(c::huvm_memcg_root(), f) }
}

/// Runs `f` with `memcg` in the place of the thread's own.
///
/// # Safety
///
/// Process context, and `memcg`, or null, stays until `f` is over.
unsafe fn within<R>(memcg: *mut c_void, f: impl FnOnce() -> R) -> R {
    // SAFETY: as the caller says.
    let before = unsafe { c::huvm_memcg_enter(memcg) };
    let r = f();
    // SAFETY: what this thread had before.
    unsafe { c::huvm_memcg_enter(before) };
    r
}

/// Runs `f`, of which no charge puts the thread to sleep, if it is one charge and for a batch of 64 pages at most.
///
/// A charge beyond `memory.high` is noted with the thread that makes it, and one for which more than a batch is noted sleeps, up to
/// two seconds. Others may wait for what the thread has locked here. So what was noted before is put aside meanwhile. The thread of
/// a process pays for all of it where it holds nothing ([`pay`], or on its way back to user space); a kernel thread, which serves
/// everybody, for none.
pub(crate) fn at_once<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: no preconditions.
    let noted = unsafe { c::huvm_memcg_take_high() };
    let r = f();
    // SAFETY: no preconditions.
    unsafe { c::huvm_memcg_add_high(noted) };
    r
}

/// Pages that are noted at most before a charge sleeps: the kernel's batch.
const BATCH: usize = 64;

/// The thread of a process pays now, if there is more to pay than one charge may be; it sleeps up to two seconds then. For walks that
/// a client makes long, between two steps, with nothing locked.
pub(crate) fn pay() {
    // SAFETY: no preconditions.
    let noted = unsafe { c::huvm_memcg_take_high() };
    // SAFETY: no preconditions.
    unsafe { c::huvm_memcg_add_high(noted) };
    if noted as usize <= BATCH {
        return;
    }
    // A charge sleeps, and with so many at once one is made: a batch is all that a CPU may have charged ahead.
    let _paid = takes::<{ BATCH + 1 }>();
}

/// Page tables that the kernel makes for one CPU fault: one ahead, and one where the first entry is made.
const TABLES: usize = 2;

/// Whether there is room for the page tables of a CPU fault of this thread. The kernel, which makes them, kills a process of the cgroup
/// where there is none. What a CPU has charged ahead is used first: so what is charged here and given back is theirs, nearly always.
pub(crate) fn has_room_for_tables() -> bool {
    at_once(takes::<TABLES>)
}

/// Whether `N` pages are to be had at once, charged as [`CHARGED`] says; they are given back.
fn takes<const N: usize>() -> bool {
    let mut pages = [core::ptr::null_mut(); N];
    for page in &mut pages {
        // SAFETY: process context, as every caller of this room.
        *page = unsafe { c::huvm_alloc_pages(c::HUVM_GFP_SMALL, 0) };
        if page.is_null() {
            break;
        }
    }
    let mut all = true;
    for page in pages {
        if page.is_null() {
            all = false;
        } else {
            // SAFETY: just allocated with this order, and used by nobody.
            unsafe { c::huvm_free_pages(page, 0) };
        }
    }
    all
}

/// Adds room for `n` more to `v`, charged as [`CHARGED`] says, and [`at_once`].
///
/// # Errors
/// `ENOMEM`.
pub(crate) fn reserve<T>(v: &mut KVec<T>, n: usize) -> Result {
    Ok(at_once(|| v.reserve(n, CHARGED))?)
}

/// Whether what the thread charges goes to one with `memory.high`: it would sleep for a charge of more than a batch of pages.
pub(super) fn is_slow() -> bool {
    // SAFETY: the cgroup that this thread has entered, if any: whoever entered it holds a reference ([`MemCg::charged`]).
    unsafe { c::huvm_memcg_limits(c::huvm_memcg_active()) & c::HUVM_MEMCG_HIGH != 0 }
}

impl Drop for MemCg {
    fn drop(&mut self) {
        // SAFETY: gives back the reference that `of_current` took.
        unsafe { c::huvm_memcg_put(self.cgroup) }
    }
}
