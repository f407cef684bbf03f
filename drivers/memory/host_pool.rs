// SPDX-License-Identifier: GPL-2.0
//! Host memory kept ready for evictions of one GPU: 2 MiB pieces, mapped for DMA to it, as whole [`Backing`]s.
//!
//! To take one is to move a struct: no allocation, no mapping. Filling and shedding is the GPU's thread's affair
//! (`service/pool.rs`), as is the freeing of what a piece replaced, which takes a while where it was 512 pages.
//!
//! The bytes of a piece are whatever was there before. That is safe as it is for every piece: a page becomes valid only
//! when a copy, or zeroes, have overwritten it. Pieces are allocated by a kernel thread and so charged to no memory cgroup, as
//! is everything that the fault service thread allocates.

use super::backing::Backing;
use super::BLOCK_PAGES;
use crate::kernel::shrinker::Shrink;
use crate::kernel::time;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Full, Relaxed};
use kernel::sync::{new_mutex, Arc, Mutex};

/// Backings that wait to be freed, at most; beyond that whoever replaced one frees it.
const OLD_MAX: usize = 64;

struct Held {
    ready: KVVec<Backing>,
    old: KVec<Backing>,
    /// Nothing comes in any more.
    closed: bool,
}

/// The pool of one GPU.
#[pin_data]
pub(crate) struct HostPool {
    #[pin]
    held: Mutex<Held>,
    /// When a piece was last asked for, ns; 0: never.
    asked: Atomic<u64>,
    /// Memory reclaim took some since anybody asked.
    shrunk: Atomic<bool>,
    /// Pieces in a full pool, as its thread last read it.
    pub(crate) target: Atomic<u32>,
}

/// A piece taken.
pub(crate) struct Taken {
    /// The piece.
    pub(crate) backing: Backing,
    /// Half of the pool or more is gone: its thread should look.
    pub(crate) low: bool,
}

impl HostPool {
    /// An empty pool.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let held = Held {
            ready: KVVec::new(),
            old: KVec::with_capacity(OLD_MAX, GFP_KERNEL)?,
            closed: false,
        };
        let init = pin_init!(Self {
            held <- new_mutex!(held, "huvm_host_pool"),
            asked: Atomic::new(0),
            shrunk: Atomic::new(false),
            target: Atomic::new(0),
        });
        Arc::pin_init(init, GFP_KERNEL)
    }

    /// Takes a piece; `None` if there is none. Either way the request is noted.
    pub(crate) fn take(&self) -> Option<Taken> {
        self.asked.store(time::now_ns(), Relaxed);
        let (backing, left) = {
            let mut held = self.held.lock();
            (held.ready.pop()?, held.ready.len())
        };
        let half = usize::try_from(self.target.load(Relaxed) / 2).unwrap_or(0);
        Some(Taken {
            backing,
            low: left <= half,
        })
    }

    /// When a piece was last asked for, ns.
    pub(crate) fn asked(&self) -> Option<u64> {
        Some(self.asked.load(Relaxed)).filter(|t| *t != 0)
    }

    /// Whether pieces went since the last call because memory is short.
    pub(crate) fn was_shrunk(&self) -> bool {
        self.shrunk.load(Relaxed) && self.shrunk.xchg(false, Full)
    }

    /// Pieces in it.
    pub(crate) fn len(&self) -> usize {
        self.held.lock().ready.len()
    }

    /// Adds a piece.
    ///
    /// # Errors
    /// `ENOMEM`; `ENODEV` when the GPU is going. The piece is freed then.
    pub(crate) fn put(&self, piece: Backing) -> Result {
        let mut held = self.held.lock();
        if held.closed {
            return Err(ENODEV);
        }
        held.ready.push(piece, GFP_KERNEL)?;
        Ok(())
    }

    /// Frees up to `n` pieces. Returns how many it were.
    pub(crate) fn shed(&self, n: usize) -> usize {
        (0..n).take_while(|_| self.shed_one()).count()
    }

    /// Frees all, as memory is short. Returns how many pieces it were.
    pub(crate) fn give_way(&self) -> usize {
        // As many as there are now: others may come as these go.
        let n = self.shed(self.len());
        if n != 0 {
            self.shrunk.store(true, Relaxed);
        }
        n
    }

    fn shed_one(&self) -> bool {
        // Freed without the lock.
        let piece = self.held.lock().ready.pop();
        piece.is_some()
    }

    /// Takes what a piece replaced, to be freed by the pool's thread. Nothing uses it any more. `true`: the thread should look.
    pub(crate) fn discard(&self, old: Backing) -> bool {
        if old.present().is_empty() {
            return false;
        }
        // What is too much is freed here, without the lock.
        let too_much = {
            let mut held = self.held.lock();
            if held.closed {
                Some(old)
            } else {
                held.old.push_within_capacity(old).err().map(|e| e.0)
            }
        };
        too_much.is_none()
    }

    /// Frees what pieces replaced.
    pub(crate) fn sweep(&self) {
        for _ in 0..OLD_MAX {
            let old = self.held.lock().old.pop();
            if old.is_none() {
                break;
            }
        }
    }

    /// Empties it for good: the GPU leaves.
    pub(crate) fn close(&self) {
        let (ready, old) = {
            let mut held = self.held.lock();
            held.closed = true;
            (
                core::mem::replace(&mut held.ready, KVVec::new()),
                core::mem::replace(&mut held.old, KVec::new()),
            )
        };
        drop((ready, old));
    }
}

/// Reclaim finds the lock free but for moments; unmapping and freeing a piece takes no other lock that allocates.
impl Shrink for HostPool {
    fn pages(&self) -> usize {
        let held = self.held.try_lock();
        held.map_or(0, |h| h.ready.len().saturating_mul(BLOCK_PAGES.into()))
    }

    fn shrink(&self, pages: usize) -> Option<usize> {
        let mut done = 0usize;
        while done < pages {
            // Freed without the lock.
            let piece = self.held.try_lock()?.ready.pop();
            if piece.is_none() {
                break;
            }
            self.shrunk.store(true, Relaxed);
            done = done.saturating_add(BLOCK_PAGES.into());
        }
        Some(done)
    }
}
