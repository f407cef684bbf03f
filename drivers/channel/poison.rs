// SPDX-License-Identifier: GPL-2.0
//! Pages that copy engines could not read.
//!
//! A copy engine that meets memory that failed stands still. Its channel ([`super::lane`]) notes the page here, and the push, and
//! lets it go on behind the page. So the push ends, and whoever publishes its copy asks first what it lacks ([`left_out`]).
//! A page that failed stays so: later copies from it lack it too, and what is copied to it is not to be relied on ([`in_chunk`]).
//!
//! What a device says is noted if there is such a page. There is room for [`MAX`] pages of each GPU; a channel that stands at
//! one more is given up, as after any fault that does not end.

use super::Tracker;
use crate::kernel::global::{Global, Which};
use huvm_hal::channel::is_complete;
use huvm_hal::ids::ChannelId;
use huvm_policy::types::{ChunkId, PageIndex, PageMask, PAGES_PER_BLOCK};
use kernel::sync::atomic::{Atomic, Relaxed};

/// Pages of a GPU noted, at most.
pub(crate) const MAX: usize = 256;
/// GPUs, at most.
const GPUS: usize = crate::kernel::ffi::uapi::HUVM_MAX_GPUS as usize;

/// A page that a push left out.
#[derive(Clone, Copy)]
struct LeftOut {
    page: u32,
    channel: ChannelId,
    /// The first push of the channel that did.
    value: u32,
}

/// What is known of one GPU's memory.
struct Failed {
    /// Pages that it has; none for one that is not there.
    pages: u32,
    /// There was no room for one.
    short: bool,
    left_out: [Option<LeftOut>; MAX],
}

static TABLE: Global<[Failed; GPUS]> = Global::new(
    Which::Poison,
    [const {
        Failed {
            pages: 0,
            short: false,
            left_out: [None; MAX],
        }
    }; GPUS],
);

/// How many are noted: nothing is looked for where there is nothing.
static NOTED: Atomic<u32> = Atomic::new(0);
/// How many were.
static NOTES: Atomic<u32> = Atomic::new(0);

/// A GPU that tells of memory that failed comes, with `pages` pages.
pub(crate) fn arrives(gpu: u8, pages: u32) {
    if let Some(f) = TABLE.lock().get_mut(usize::from(gpu)) {
        f.pages = pages;
    }
}

/// It left, and every copy from and to it was published.
pub(crate) fn leaves(gpu: u8) {
    let mut t = TABLE.lock();
    let Some(f) = t.get_mut(usize::from(gpu)) else {
        return;
    };
    f.pages = 0;
    f.short = false;
    for slot in f.left_out.iter_mut() {
        if slot.take().is_some() {
            NOTED.fetch_sub(1u32, Relaxed);
        }
    }
}

/// Whether a GPU tells of memory that failed.
pub(super) fn is_told_by(gpu: u8) -> bool {
    let t = TABLE.lock();
    t.get(usize::from(gpu)).is_some_and(|f| f.pages != 0)
}

/// Push `value` of `channel` lacks a page of a GPU's memory. `false`: there is no such page, or no room to note it.
pub(super) fn note(gpu: u8, page: u32, channel: ChannelId, value: u32) -> bool {
    let mut t = TABLE.lock();
    let Some(f) = t.get_mut(usize::from(gpu)).filter(|f| page < f.pages) else {
        return false;
    };
    let mut free = None;
    for slot in f.left_out.iter_mut() {
        match slot {
            // Later pushes lack it too.
            Some(l) if (l.page, l.channel) == (page, channel) => return true,
            None if free.is_none() => free = Some(slot),
            _ => {}
        }
    }
    let Some(slot) = free else {
        f.short = true;
        return false;
    };
    *slot = Some(LeftOut {
        page,
        channel,
        value,
    });
    NOTED.add(1, Relaxed);
    NOTES.add(1, Relaxed);
    true
}

/// How many were noted so far, a number that wraps: who sees another one than before has news to look at.
pub(crate) fn notes() -> u32 {
    NOTES.load(Relaxed)
}

/// The pages of chunk `id` of a GPU for which `is` says so.
fn of_chunk(gpu: u8, id: ChunkId, is: impl Fn(&LeftOut) -> bool) -> PageMask {
    let mut pages = PageMask::EMPTY;
    if NOTED.load(Relaxed) == 0 {
        return pages;
    }
    let t = TABLE.lock();
    let all = t.get(usize::from(gpu)).map(|f| f.left_out.iter().flatten());
    for l in all.into_iter().flatten() {
        if chunk_of(l.page) == id && is(l) {
            // CAST: below 512.
            if let Some(page) = PageIndex::new((l.page % u32::from(PAGES_PER_BLOCK)) as u16) {
                pages.set(page);
            }
        }
    }
    pages
}

/// The chunk that a page lies in.
pub(crate) fn chunk_of(page: u32) -> ChunkId {
    ChunkId(page / u32::from(PAGES_PER_BLOCK))
}

/// Pages of chunk `id` of a GPU that the copies of `tracker`, which are over, did not read.
pub(crate) fn left_out(tracker: &Tracker, gpu: u8, id: ChunkId) -> PageMask {
    of_chunk(gpu, id, |l| {
        tracker
            .iter()
            .any(|(channel, value)| channel == l.channel && is_complete(value, l.value))
    })
}

/// Whether a copy engine met a page of a GPU's that is not noted, for want of room.
pub(crate) fn is_short(gpu: u8) -> bool {
    let t = TABLE.lock();
    t.get(usize::from(gpu)).is_some_and(|f| f.short)
}

/// Pages of chunk `id` of a GPU that copy engines met.
pub(crate) fn in_chunk(gpu: u8, id: ChunkId) -> PageMask {
    of_chunk(gpu, id, |_| true)
}

/// The page of the `at`-th note about a GPU, of [`MAX`].
pub(crate) fn nth(gpu: u8, at: usize) -> Option<u32> {
    if NOTED.load(Relaxed) == 0 {
        return None;
    }
    let t = TABLE.lock();
    let noted = t
        .get(usize::from(gpu))?
        .left_out
        .get(at)
        .copied()
        .flatten()?;
    Some(noted.page)
}
