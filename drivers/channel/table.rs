// SPDX-License-Identifier: GPL-2.0
//! All channels of all GPUs by number, and what became of those that are gone.

use super::lane::Lane;
use crate::kernel::global::{Global, Which};
use huvm_hal::ids::ChannelId;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Channels that are gone and still known. More than trackers can name for long; older ones count as failed.
const RETIRED_MAX: usize = 256;

/// A channel that is gone.
#[derive(Clone, Copy)]
struct Retired {
    id: ChannelId,
    completed: u64,
}

struct Table {
    next: u16,
    /// By number: who waits for a copy looks one up, and machines have a hundred.
    live: KVec<(ChannelId, Arc<Lane>)>,
    retired: KVec<Retired>,
}

impl Table {
    /// Where a channel is, or would be.
    fn place(&self, id: ChannelId) -> core::result::Result<usize, usize> {
        self.live.binary_search_by_key(&id, |l| l.0)
    }
}

static TABLE: Global<Table> = Global::new(
    Which::Channels,
    Table {
        next: 1,
        live: KVec::new(),
        retired: KVec::new(),
    },
);

/// A channel that a tracker names.
pub(super) enum Found {
    /// It can be waited for.
    Live(Arc<Lane>),
    /// It is gone, and had completed this.
    Gone(u64),
    /// It is gone so long that nothing is known.
    Unknown,
}

impl Found {
    pub(super) fn poll(&self, number: u64) -> Option<bool> {
        match self {
            Found::Live(lane) => lane.poll(number),
            Found::Gone(completed) => Some(*completed >= number),
            Found::Unknown => Some(false),
        }
    }

    pub(super) fn wait(&self, number: u64) -> Result {
        match self {
            Found::Live(lane) => lane.wait(number),
            other if other.poll(number) == Some(true) => Ok(()),
            _ => Err(EIO),
        }
    }

    /// As [`Self::wait`], for one who holds a lock that a rescue may want: `EAGAIN` when there is one.
    pub(super) fn wait_holding(&self, number: u64) -> Result {
        match self {
            Found::Live(lane) => lane.wait_holding(number),
            other => other.wait(number),
        }
    }

    /// Whether it can reach no memory any more. What is gone was off before.
    pub(super) fn is_off(&self) -> bool {
        match self {
            Found::Live(lane) => lane.is_off(),
            Found::Gone(_) | Found::Unknown => true,
        }
    }

    /// Whether it was given up and is off its engine. What is gone was before.
    pub(super) fn is_stopped(&self) -> bool {
        match self {
            Found::Live(lane) => lane.is_stopped(),
            Found::Gone(_) | Found::Unknown => true,
        }
    }

    /// Whose engine may go on with it although it failed.
    pub(super) fn goes_on(&self) -> Option<u8> {
        match self {
            Found::Live(lane) => lane.goes_on(),
            Found::Gone(_) | Found::Unknown => None,
        }
    }
}

/// A number for a new channel. Numbers come back after 65535 channels, but for those that are still known.
pub(super) fn next_id() -> ChannelId {
    let mut t = TABLE.lock();
    // Bounded: far fewer are known than there are.
    loop {
        let id = ChannelId(t.next);
        t.next = t.next.wrapping_add(1).max(1);
        let is_known = t.place(id).is_ok() || t.retired.iter().any(|r| r.id == id);
        if !is_known {
            return id;
        }
    }
}

/// Makes a lane known.
///
/// # Errors
/// `ENOMEM`.
pub(super) fn add(lane: Arc<Lane>) -> Result {
    let mut t = TABLE.lock();
    t.retired.reserve(1, GFP_KERNEL)?;
    // No number is there twice.
    let (Ok(at) | Err(at)) = t.place(lane.id());
    t.live.push((lane.id(), lane), GFP_KERNEL)?;
    if let Some(behind) = t.live.get_mut(at..) {
        behind.rotate_right(1);
    }
    Ok(())
}

/// A lane is gone, its memory will be.
pub(super) fn retire(id: ChannelId, completed: u64) {
    let mut gone = None;
    {
        let mut t = TABLE.lock();
        if let Ok(at) = t.place(id) {
            gone = t.live.remove(at).ok();
        }
        if t.retired.len() >= RETIRED_MAX {
            let _oldest = t.retired.remove(0);
        }
        // Without memory for the note the channel is unknown, which counts as failed.
        let _ = t.retired.push(Retired { id, completed }, GFP_KERNEL);
    }
    drop(gone);
}

pub(super) fn find(id: ChannelId) -> Found {
    let t = TABLE.lock();
    if let Some((_, lane)) = t.place(id).ok().and_then(|at| t.live.get(at)) {
        return Found::Live(lane.clone());
    }
    match t.retired.iter().rev().find(|r| r.id == id) {
        Some(r) => Found::Gone(r.completed),
        None => Found::Unknown,
    }
}

/// Lets the channels of a GPU in which a copy engine stopped try again, and those go on that wait for one that was given up.
pub(super) fn see_to_all(gpu: u8) {
    let mut at = ChannelId(0);
    while let Some(lane) = lane_of(gpu, at) {
        lane.see_to_it();
        at = lane.id();
    }
}

/// The first lane of a GPU behind that with this number. Numbers begin with 1.
fn lane_of(gpu: u8, after: ChannelId) -> Option<Arc<Lane>> {
    let t = TABLE.lock();
    let (_, lane) = t
        .live
        .iter()
        .find(|(id, l)| *id > after && l.gpu() == gpu)?;
    Some(lane.clone())
}

/// Gives the table's memory back, when the module goes.
pub(crate) fn forget_all() {
    let (live, retired) = {
        let mut t = TABLE.lock();
        (
            core::mem::replace(&mut t.live, KVec::new()),
            core::mem::replace(&mut t.retired, KVec::new()),
        )
    };
    if !live.is_empty() {
        pr_err!("BUG: {} channels outlive their GPUs\n", live.len());
    }
    drop((live, retired));
}
