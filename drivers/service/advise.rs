// SPDX-License-Identifier: GPL-2.0
//! Advice about ranges (`struct huvm_advise`).

use super::{map, migrate, thrash};
use crate::account::{self, counters::Counter};
use crate::kernel::ffi::uapi;
use crate::kernel::{memcg, task};
use crate::memory::block::{Block, State};
use crate::memory::space::Space;
use crate::memory::{pages_between, PageMask, Place, BLOCK_BYTES};
use kernel::prelude::*;
use kernel::sync::Arc;

#[derive(Clone, Copy)]
enum Advice {
    Preferred(Option<Place>),
    AccessedBy(Place, bool),
    ReadMostly(bool),
    Discard,
}

impl Advice {
    fn parse(space: &Space, advice: u32, place: u32) -> Result<Advice> {
        let takes_place = matches!(
            advice,
            uapi::HUVM_ADVISE_PREFERRED
                | uapi::HUVM_ADVISE_ACCESSED_BY
                | uapi::HUVM_ADVISE_UNSET_ACCESSED_BY
        );
        let place = if takes_place {
            let p = Place::from_uapi(place)?;
            if let Place::Gpu(g) = p {
                space.on_gpu(g).ok_or(ENOENT)?;
            }
            p
        } else if place == 0 {
            Place::Host
        } else {
            return Err(EINVAL);
        };
        Ok(match advice {
            uapi::HUVM_ADVISE_PREFERRED => Advice::Preferred(Some(place)),
            uapi::HUVM_ADVISE_UNSET_PREFERRED => Advice::Preferred(None),
            uapi::HUVM_ADVISE_ACCESSED_BY => Advice::AccessedBy(place, true),
            uapi::HUVM_ADVISE_UNSET_ACCESSED_BY => Advice::AccessedBy(place, false),
            uapi::HUVM_ADVISE_READ_MOSTLY => Advice::ReadMostly(true),
            uapi::HUVM_ADVISE_UNSET_READ_MOSTLY => Advice::ReadMostly(false),
            uapi::HUVM_ADVISE_DISCARD => Advice::Discard,
            _ => return Err(EINVAL),
        })
    }

    /// Whether a page that nobody has touched or advised about is another one with it. Else there is nothing to make a block for.
    fn is_noted(self) -> bool {
        match self {
            Advice::Preferred(place) => place.is_some(),
            Advice::AccessedBy(place, on) => on && matches!(place, Place::Gpu(_)),
            Advice::ReadMostly(on) => on,
            Advice::Discard => false,
        }
    }
}

/// Applies advice to a range.
///
/// # Errors
/// `EINVAL`, `ENODEV`, `ENOENT` (GPU not registered), `ENOMEM` (holes, or memory short), `EINTR` (the caller is killed); after the last
/// two the blocks before have it.
pub(crate) fn range(space: &Arc<Space>, va: u64, len: u64, advice: u32, place: u32) -> Result {
    let advice = Advice::parse(space, advice, place)?;
    let end = space.check_range(va, len)?;
    let mut at = va;
    while at < end {
        if task::fatal_signal_pending() {
            return Err(EINTR);
        }
        let block = if advice.is_noted() {
            task::give_way();
            space
                .block_at(at)
                .map_err(|e| if e == EFAULT { ENOMEM } else { e })?
        } else {
            match space.next_block(at).filter(|b| b.va() < end) {
                Some(block) => block,
                None => break,
            }
        };
        let pages = pages_between(block.va(), at, end);
        space.memory.charged(|| apply(&block, advice, &pages))?;
        at = block.va() + BLOCK_BYTES;
        memcg::pay();
    }
    Ok(())
}

/// Who has `pages` mapped elsewhere, or is about to, asks again where they are to be.
fn ask_again(s: &mut State, pages: &PageMask) {
    s.advised = s.advised.wrapping_add(1);
    map::unmap_remote(s, pages);
}

fn apply(block: &Arc<Block>, advice: Advice, pages: &PageMask) -> Result {
    let mut s = block.settled();
    // One may have been unmapped meanwhile: what comes there next has no advice.
    let pages = &pages.and(&s.managed);
    if pages.is_empty() {
        return Ok(());
    }
    match advice {
        Advice::Preferred(p) => {
            s.advice.set_preferred(p, pages)?;
            thrash::reset(&mut s, pages);
            ask_again(&mut s, pages);
        }
        // The host always can map what it holds; there is nothing to keep for it.
        Advice::AccessedBy(Place::Host | Place::Spare, _) => {}
        Advice::AccessedBy(Place::Gpu(g), on) => {
            s.advice.set_accessed_by(g, on, pages)?;
            if !on {
                ask_again(&mut s, pages);
            }
        }
        Advice::ReadMostly(on) => {
            s.advice.set_read_mostly(on, pages)?;
            if !on {
                // One copy of each page stays: the host's, or that of one of the GPUs.
                let both = s.host_valid.and(pages);
                migrate::collapse(block, &mut s, Place::Host, &both)?;
                let mut n = 0;
                while let Some(part) = s.parts.get(n) {
                    n += 1;
                    // What a GPU that leaves has may find no memory on the host.
                    if part.sg.gpu.chunks().is_closed() {
                        continue;
                    }
                    let g = part.gpu();
                    let here = s.valid_at(Place::Gpu(g)).and(&s.on_gpus_beside(g));
                    // One that was lost, or whose memory failed: then another one's stays.
                    let _there_are_others =
                        migrate::collapse(block, &mut s, Place::Gpu(g), &here.and(pages));
                }
            }
        }
        Advice::Discard => {
            let gone = *pages;
            map::unmap_gpus(&mut s, &gone);
            map::unmap_cpu(block, &mut s, &gone);
            s.host_valid = s.host_valid.and_not(&gone);
            s.forget_beside(Place::Host, &gone);
            s.forget_lost(&gone);
            s.release_empty_chunks();
            let n = gone.count().get();
            account::count(None, Some(block.space()), Counter::DiscardedPages, n.into());
        }
    }
    Ok(())
}
