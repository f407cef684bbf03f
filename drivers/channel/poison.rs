// SPDX-License-Identifier: GPL-2.0
//! Pages that copy engines could not read.
//!
//! A copy engine that meets memory that failed stands still. Its channel ([`super::lane`]) notes the page here, and the push, and
//! lets it go on behind the page. So the push ends, and whoever publishes its copy asks first what it lacks ([`left_out`]).
//! A page that failed stays so: later copies from it lack it too, and what is copied to it is not to be relied on ([`in_chunk`]).
//!
//! What a device says is noted if there is such a page. There is room for [`MAX`] pages; a channel that stands at one more is
//! given up, as after any fault that does not end.

use super::Tracker;
use crate::kernel::global::{Global, Which};
use huvm_hal::channel::is_complete;
use huvm_hal::ids::ChannelId;
use huvm_policy::types::{ChunkId, PageIndex, PageMask, PAGES_PER_BLOCK};
use kernel::sync::atomic::{Atomic, Relaxed};

/// Pages noted, at most.
pub(crate) const MAX: usize = 256;
/// GPUs, at most.
const GPUS: usize = crate::kernel::ffi::uapi::HUVM_MAX_GPUS as usize;

/// A page that a push left out.
#[derive(Clone, Copy)]
struct LeftOut {
    /// Whose memory.
    gpu: u8,
    page: u32,
    channel: ChannelId,
    /// The first push of the channel that did.
    value: u32,
}

struct Table {
    /// Pages that each GPU has; none for one that is not there.
    pages: [u32; GPUS],
    left_out: [Option<LeftOut>; MAX],
}

static TABLE: Global<Table> = Global::new(
    Which::Poison,
    Table {
        pages: [0; GPUS],
        left_out: [None; MAX],
    },
);

/// How many are noted: nothing is looked for where there is nothing.
static NOTED: Atomic<u32> = Atomic::new(0);
/// How many were.
static NOTES: Atomic<u32> = Atomic::new(0);

/// A GPU that tells of memory that failed comes, with `pages` pages.
pub(crate) fn arrives(gpu: u8, pages: u32) {
    if let Some(n) = TABLE.lock().pages.get_mut(usize::from(gpu)) {
        *n = pages;
    }
}

/// It left, and every copy from and to it was published.
pub(crate) fn leaves(gpu: u8) {
    let mut t = TABLE.lock();
    if let Some(n) = t.pages.get_mut(usize::from(gpu)) {
        *n = 0;
    }
    for slot in t.left_out.iter_mut() {
        if slot.take_if(|l| l.gpu == gpu).is_some() {
            NOTED.fetch_sub(1u32, Relaxed);
        }
    }
}

/// Whether a GPU tells of memory that failed.
pub(super) fn is_told_by(gpu: u8) -> bool {
    let t = TABLE.lock();
    t.pages.get(usize::from(gpu)).is_some_and(|n| *n != 0)
}

/// Push `value` of `channel` lacks a page of a GPU's memory. `false`: there is no such page, or no room to note it.
pub(super) fn note(gpu: u8, page: u32, channel: ChannelId, value: u32) -> bool {
    let mut t = TABLE.lock();
    let there = t.pages.get(usize::from(gpu)).copied().unwrap_or(0);
    if page >= there {
        return false;
    }
    let mut free = None;
    for slot in t.left_out.iter_mut() {
        match slot {
            // Later pushes lack it too.
            Some(l) if (l.gpu, l.page, l.channel) == (gpu, page, channel) => return true,
            None if free.is_none() => free = Some(slot),
            _ => {}
        }
    }
    let Some(slot) = free else {
        return false;
    };
    *slot = Some(LeftOut {
        gpu,
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
    for l in TABLE.lock().left_out.iter().flatten() {
        if l.gpu == gpu && chunk_of(l.page) == id && is(l) {
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

/// Whether there is no room to note any more.
pub(crate) fn is_full() -> bool {
    // CAST: some hundred.
    NOTED.load(Relaxed) as usize >= MAX
}

/// Page `page` of a GPU's memory is said to have failed. A copy engine that meets it says so for itself; but the CPU, which may copy in its
/// place, would not notice.
pub(crate) fn note_told(gpu: u8, page: u32) {
    // No channel has that number.
    let _no_room = note(gpu, page, ChannelId(0), 0);
}

/// Pages of chunk `id` of a GPU that are known to have failed.
pub(crate) fn in_chunk(gpu: u8, id: ChunkId) -> PageMask {
    of_chunk(gpu, id, |_| true)
}

/// The `at`-th note, of [`MAX`]: whose memory, and which page.
pub(crate) fn nth(at: usize) -> Option<(u8, u32)> {
    let noted = TABLE.lock().left_out.get(at).copied().flatten()?;
    Some((noted.gpu, noted.page))
}
