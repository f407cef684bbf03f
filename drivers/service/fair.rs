// SPDX-License-Identifier: GPL-2.0
//! Who uses a GPU, and what their shares of its memory are (`huvm_policy::share`; knob `fair_memory`).
//!
//! A space uses a GPU while it has launches that run, or that began or were collected within the last second, or has put a chunk to
//! use within that time: so one that moves data alone has no more than the others, and one that is idle gives its share up. The shares
//! are made anew by whoever evicts next, each 10 ms at most; with one space alone there are none.

use super::launch;
use crate::account::policy;
use crate::device::Gpu;
use crate::kernel::time;
use crate::memory::clients::SUBCONTEXTS;
use huvm_lockless::pause::Pause;
use huvm_policy::config::KnobId;
use huvm_policy::share::{self, Runner, Runners, CLIENTS};
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};

/// For so long after it did something a space uses the GPU.
const IDLE_NS: u64 = 1_000_000_000;
/// Shares are made anew this often.
const LOOK_NS: u64 = 10_000_000;
/// The device is asked this often which launches run.
const ASK_NS: u64 = IDLE_NS / 4;

const _: () = assert!(SUBCONTEXTS == CLIENTS);

/// When the spaces of one GPU used it, by subcontext.
pub(crate) struct Activity {
    /// Last, ns; 0: never.
    last: [Atomic<u64>; SUBCONTEXTS],
    /// When shares were made.
    looked: Pause,
    /// When the device was asked.
    asked: Pause,
}

impl Activity {
    /// Nobody used it.
    pub(crate) fn init() -> impl Init<Self> {
        init!(Activity {
            last <- pin_init::init_array_from_fn(|_| Atomic::new(0)),
            looked: Pause::new(),
            asked: Pause::new(),
        })
    }

    /// The space of this subcontext uses the GPU now.
    pub(crate) fn note(&self, veid: u8) {
        if let Some(last) = self.last.get(usize::from(veid)) {
            last.store(time::now_ns(), Relaxed);
        }
    }

    fn is_active(&self, veid: u8, now: u64) -> bool {
        let last = self.last.get(usize::from(veid));
        let last = last.map_or(0, |l| l.load(Relaxed));
        last != 0 && now.saturating_sub(last) < IDLE_NS
    }
}

/// Somebody is about to evict from the GPU: divides its memory anew, if it is time. No lock is held.
pub(super) fn look(gpu: &Gpu) {
    let now = time::now_ns();
    if gpu.activity.looked.is_over(now, LOOK_NS) {
        divide(gpu, now);
    }
}

/// Not inlined: what it has on the stack need not be there while somebody evicts.
#[inline(never)]
fn divide(gpu: &Gpu, now: u64) {
    let mut shares = [0; CLIENTS];
    if gpu.clients().count() > 1 && policy::of_gpu(gpu).is_on(KnobId::FairMemory) {
        if gpu.activity.asked.is_over(now, ASK_NS) {
            launch::each_running(gpu, |veid| gpu.activity.note(veid));
        }
        let mut users = Runners::new();
        gpu.clients().each(|veid, owner| {
            // What was noted after `now` is not long ago either.
            if gpu.activity.is_active(veid, now) {
                users.add(Runner { owner, veid });
            }
        });
        let chunks = gpu.chunks().usable();
        for me in users.all() {
            if let Some(share) = shares.get_mut(usize::from(me.veid)) {
                *share = share::chunks_of(me, &users, chunks).unwrap_or(0);
            }
        }
    }
    gpu.chunks().divide(&shares);
}
