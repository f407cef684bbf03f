// SPDX-License-Identifier: GPL-2.0
//! Pages that copy engines could not read.
//!
//! A copy engine that meets memory that failed stands still. Its channel ([`super::lane`]) notes the page here, and the push, and
//! lets it go on behind the page. So the push ends, and whoever publishes its copy asks first what it lacks ([`left_out`]).
//! A page that failed stays so: later copies from it lack it too, and what is copied to it is not to be relied on ([`met`]).
//!
//! What a device says is noted if there is such a page, and where its own engines are. There is room for [`EACH_MAX`] of its own
//! pages and as many of others'; a channel that stands at one more is given up, as after any fault that does not end.

use super::Tracker;
use crate::kernel::global::{Global, Which};
use huvm_hal::ids::ChannelId;
use huvm_policy::types::{ChunkId, PageIndex, PageMask, PAGES_PER_BLOCK, PAGE_SHIFT};
use kernel::sync::atomic::{Atomic, Relaxed};

/// Pages noted for the engines of a GPU, at most: of its own memory, and as many of others'.
const EACH_MAX: usize = 256;
/// All of them.
pub(crate) const MAX: usize = 2 * EACH_MAX;
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
    number: u64,
}

/// What the engines of one GPU met, in its memory or in that of others.
struct Met {
    /// Pages that its own memory has; none for one that is not there.
    pages: u32,
    /// There was no room for one of them.
    short: bool,
    noted: u32,
    left_out: [Option<LeftOut>; MAX],
}

static TABLE: Global<[Met; GPUS]> = Global::new(
    Which::Poison,
    [const {
        Met {
            pages: 0,
            short: false,
            noted: 0,
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
    if let Some(met) = TABLE.lock().get_mut(usize::from(gpu)) {
        met.pages = pages;
    }
}

/// It left, and every copy from and to it was published.
pub(crate) fn leaves(gpu: u8) {
    for (by, met) in TABLE.lock().iter_mut().enumerate() {
        let is_its = by == usize::from(gpu);
        if is_its {
            met.pages = 0;
            met.short = false;
        }
        for slot in met.left_out.iter_mut() {
            if slot.take_if(|l| is_its || l.gpu == gpu).is_some() {
                met.noted = met.noted.saturating_sub(1);
                NOTED.fetch_sub(1u32, Relaxed);
            }
        }
    }
}

/// Whether a GPU tells of memory that failed.
pub(super) fn is_told_by(gpu: u8) -> bool {
    let t = TABLE.lock();
    t.get(usize::from(gpu)).is_some_and(|met| met.pages != 0)
}

/// Push `number` of `channel`, of GPU `by`, lacks page `page` of the memory of `gpu`. `false`: there is no such page, or no room to note it.
pub(super) fn note(by: u8, (gpu, page): (u8, u32), channel: ChannelId, number: u64) -> bool {
    let mut t = TABLE.lock();
    let pages = t.get(usize::from(gpu)).map_or(0, |met| met.pages);
    let Some(met) = t.get_mut(usize::from(by)).filter(|_| page < pages) else {
        return false;
    };
    let is_home = |of: u8| of == by;
    let (mut free, mut alike) = (None, 0);
    for slot in met.left_out.iter_mut() {
        match slot {
            // Later pushes lack it too.
            Some(l) if (l.gpu, l.page, l.channel) == (gpu, page, channel) => {
                l.number = l.number.min(number);
                return true;
            }
            Some(l) if is_home(l.gpu) == is_home(gpu) => alike += 1,
            None if free.is_none() => free = Some(slot),
            _ => {}
        }
    }
    let Some(slot) = free.filter(|_| alike < EACH_MAX) else {
        // Of its own memory another one says what failed.
        met.short |= is_home(gpu);
        return false;
    };
    *slot = Some(LeftOut {
        gpu,
        page,
        channel,
        number,
    });
    met.noted = met.noted.saturating_add(1);
    NOTED.add(1, Relaxed);
    NOTES.add(1, Relaxed);
    true
}

/// How many were noted so far, a number that wraps: who sees another one than before has news to look at.
pub(crate) fn notes() -> u32 {
    NOTES.load(Relaxed)
}

/// The pages of chunk `id` of a GPU for which `is` says so, of what the engines of GPU `by` met, or those of all.
fn of_chunk(by: Option<u8>, gpu: u8, id: ChunkId, is: impl Fn(&LeftOut) -> bool) -> PageMask {
    let mut pages = PageMask::EMPTY;
    if NOTED.load(Relaxed) == 0 {
        return pages;
    }
    for (g, met) in TABLE.lock().iter().enumerate() {
        if met.noted == 0 || by.is_some_and(|by| usize::from(by) != g) {
            continue;
        }
        for l in met.left_out.iter().flatten() {
            if l.gpu == gpu && chunk_of(l.page) == id && is(l) {
                pages.set(index_of(l.page));
            }
        }
    }
    pages
}

/// The chunk that a page lies in.
pub(crate) fn chunk_of(page: u32) -> ChunkId {
    ChunkId(page / u32::from(PAGES_PER_BLOCK))
}

/// Where in that chunk it lies.
pub(crate) fn index_of(page: u32) -> PageIndex {
    PageIndex::of_va(u64::from(page) << PAGE_SHIFT)
}

/// Pages of chunk `id` of a GPU that the copies of `tracker`, which are over, did not read.
pub(crate) fn left_out(tracker: &Tracker, gpu: u8, id: ChunkId) -> PageMask {
    of_chunk(None, gpu, id, |l| {
        tracker
            .iter()
            .any(|(channel, number)| channel == l.channel && number >= l.number)
    })
}

/// Whether copy engines of a GPU met a page of its own that is not noted, for want of room.
pub(crate) fn is_short(gpu: u8) -> bool {
    let t = TABLE.lock();
    t.get(usize::from(gpu)).is_some_and(|met| met.short)
}

/// Pages of chunk `id` of a GPU that copy engines met, whoever's.
pub(crate) fn met(gpu: u8, id: ChunkId) -> PageMask {
    of_chunk(None, gpu, id, |_| true)
}

/// Those that its own ones met: what others say of it costs no page.
pub(crate) fn met_at_home(gpu: u8, id: ChunkId) -> PageMask {
    of_chunk(Some(gpu), gpu, id, |_| true)
}

/// The page of the `at`-th note, of [`MAX`], if that is of a GPU's engine and of its own memory.
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
    (noted.gpu == gpu).then_some(noted.page)
}
