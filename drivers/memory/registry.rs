// SPDX-License-Identifier: GPL-2.0
//! All open spaces, by id.

use super::space::Space;
use crate::kernel::global::{Global, Which};
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::Arc;

struct Spaces {
    next: u64,
    /// In ascending order of id.
    all: KVec<Arc<Space>>,
}

static SPACES: Global<Spaces> = Global::new(
    Which::Spaces,
    Spaces {
        next: 1,
        all: KVec::new(),
    },
);

/// Spaces that somebody has a reference to, in this list or not.
static LIVE: Atomic<i32> = Atomic::new(0);

/// One space, as long as it is there.
pub(super) struct Live;

impl Live {
    pub(super) fn new() -> Self {
        LIVE.add(1, Relaxed);
        Live
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        LIVE.add(-1, Relaxed);
    }
}

/// How many spaces are there.
pub(crate) fn live() -> i32 {
    LIVE.load(Relaxed)
}

/// A number that no space had.
pub(crate) fn next_id() -> u64 {
    let mut s = SPACES.lock();
    let id = s.next;
    s.next = s.next.wrapping_add(1);
    id
}

/// Adds a space.
///
/// # Errors
/// `ENOMEM`.
pub(crate) fn add(space: Arc<Space>) -> Result {
    let mut s = SPACES.lock();
    let at = s.all.partition_point(|o| o.id() < space.id());
    s.all.reserve(1, GFP_KERNEL)?;
    s.all.insert_within_capacity(at, space).map_err(|_| ENOMEM)
}

/// Takes a space out.
pub(crate) fn remove(id: u64) {
    let old = {
        let mut s = SPACES.lock();
        let at = s.all.iter().position(|o| o.id() == id);
        let old = at.and_then(|at| s.all.remove(at).ok());
        if s.all.is_empty() {
            // The static is never dropped, so it keeps no memory when the module goes.
            s.all = KVec::new();
        }
        old
    };
    drop(old);
}

/// The space with the smallest id from `id` on.
pub(crate) fn next_space(id: u64) -> Option<Arc<Space>> {
    let s = SPACES.lock();
    let at = s.all.partition_point(|o| o.id() < id);
    s.all.get(at).cloned()
}

/// The spaces that a process opened.
///
/// # Errors
/// `ESRCH` if there is none, `ENOMEM`.
pub(crate) fn of_process(pid: u32) -> Result<KVec<Arc<Space>>> {
    let mut found = KVec::new();
    let mut id = 0;
    while let Some(space) = next_space(id) {
        id = space.id().saturating_add(1);
        if space.pid() == pid {
            found.push(space, GFP_KERNEL)?;
        }
    }
    if found.is_empty() {
        return Err(ESRCH);
    }
    Ok(found)
}

/// Calls `f` for each space, under the registry's lock; `f` must not sleep for long nor open or close spaces.
pub(crate) fn each(mut f: impl FnMut(&Space)) {
    for space in SPACES.lock().all.iter() {
        f(space);
    }
}
