// SPDX-License-Identifier: GPL-2.0
//! All open spaces, by id.

use super::block::Block;
use super::space::Space;
use super::BLOCK_BYTES;
use crate::kernel::global::{Global, Which};
use crate::kernel::memcg::{CHARGED, LISTED};
use crate::kernel::task;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::Arc;

struct Spaces {
    next: u64,
    /// In ascending order of id.
    all: KVVec<Arc<Space>>,
    /// Those whose event streams want the events of all, in that order too: few, however many there are.
    listeners: KVVec<Arc<Space>>,
}

static SPACES: Global<Spaces> = Global::new(
    Which::Spaces,
    Spaces {
        next: 1,
        all: KVVec::new(),
        listeners: KVVec::new(),
    },
);

/// How many listen to all. To be read without the lock.
static LISTENERS: Atomic<usize> = Atomic::new(0);

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
    put(&mut SPACES.lock().all, space)
}

/// Where a space with this id is, or would be.
fn place(of: &[Arc<Space>], id: u64) -> usize {
    of.partition_point(|o| o.id() < id)
}

fn put(to: &mut KVVec<Arc<Space>>, space: Arc<Space>) -> Result {
    let at = place(to, space.id());
    to.reserve(1, LISTED)?;
    to.insert_within_capacity(at, space).map_err(|_| ENOMEM)
}

fn take(from: &mut KVVec<Arc<Space>>, id: u64) -> Option<Arc<Space>> {
    let at = place(from, id);
    from.get(at).filter(|o| o.id() == id)?;
    let old = from.remove(at).ok();
    if from.is_empty() {
        // The static is never dropped, so it keeps no memory when the module goes.
        *from = KVVec::new();
    }
    old
}

/// Takes a space out.
pub(crate) fn remove(id: u64) {
    let old = {
        let mut s = SPACES.lock();
        let s = &mut *s;
        let old = [take(&mut s.all, id), take(&mut s.listeners, id)];
        LISTENERS.store(s.listeners.len(), Relaxed);
        old
    };
    drop(old);
}

/// The space with the smallest id from `id` on.
pub(crate) fn next_space(id: u64) -> Option<Arc<Space>> {
    let s = SPACES.lock();
    s.all.get(place(&s.all, id)).cloned()
}

/// Calls `f` for every block of every space that is there now: files may be opened without end meanwhile.
pub(crate) fn each_block(mut f: impl FnMut(&Arc<Block>)) {
    let (mut id, end) = (0, SPACES.lock().next);
    while let Some(space) = next_space(id).filter(|space| space.id() < end) {
        let mut at = 0;
        while let Some(block) = space.next_block(at) {
            f(&block);
            at = block.va().saturating_add(BLOCK_BYTES);
        }
        id = space.id().saturating_add(1);
    }
}

/// The spaces that a process opened. Numbers of processes are used again, and files go to others: for one that is no administrator its
/// own alone.
///
/// # Errors
/// `ESRCH` if there is none, `EPERM` if there are others' alone, `ENOMEM`.
pub(crate) fn of_process(pid: u32) -> Result<KVVec<Arc<Space>>> {
    let (mut found, mut others) = (KVVec::new(), false);
    let mut id = 0;
    while let Some(space) = next_space(id) {
        id = space.id().saturating_add(1);
        if space.pid() == pid {
            match task::is_admin() || space.is_owner() {
                true => found.push(space, CHARGED)?,
                false => others = true,
            }
        }
        task::give_way();
    }
    match found.is_empty() {
        true => Err(if others { EPERM } else { ESRCH }),
        false => Ok(found),
    }
}

/// The event stream of an open file changes, as `change` does it under the registry's lock: it listens to all, or does
/// not.
///
/// # Errors
/// `ENOMEM`; nothing was changed.
pub(crate) fn listens(space: &Arc<Space>, to_all: bool, change: impl FnOnce()) -> Result {
    let mut s = SPACES.lock();
    let listeners = &mut s.listeners;
    let is_there = listeners.iter().any(|o| o.id() == space.id());
    if to_all && !is_there {
        put(listeners, space.clone())?;
    }
    // Whoever listens to all is open, so that this is not the last reference.
    let old = if to_all {
        None
    } else {
        take(listeners, space.id())
    };
    LISTENERS.store(listeners.len(), Relaxed);
    change();
    drop(s);
    drop(old);
    Ok(())
}

/// Calls `f` for each space that listens to all, under the registry's lock; `f` must not sleep for long nor open or close spaces. Costs
/// a load where there is none.
pub(crate) fn each_listener(mut f: impl FnMut(&Space)) {
    if LISTENERS.load(Relaxed) == 0 {
        return;
    }
    for space in SPACES.lock().listeners.iter() {
        f(space);
    }
}
