// SPDX-License-Identifier: GPL-2.0
//! Peer ids: how GPUs name each other's memory.
//!
//! Ids are each GPU's own (0..7). A pair gets ids when the second of the two comes, in both directions, where a link that
//! can be read and written joins them.

use super::gpu::NO_PEER;
use super::{registry, Gpu};
use huvm_hal::ext::topology;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

/// Peer ids of a GPU.
const IDS: u8 = 8;

/// Gives `gpu` and every other GPU names for each other.
pub(super) fn connect(gpu: &Arc<Gpu>) -> Result {
    for other in registry::snapshot()?.iter() {
        if Arc::ptr_eq(gpu, other) || other.is_lost() {
            continue;
        }
        for (from, to) in [(gpu, other), (other, gpu)] {
            if let Some(mbps) = linked(from, to) {
                name(from, to, mbps);
            }
        }
    }
    Ok(())
}

/// Takes the names back.
pub(super) fn disconnect(gpu: &Arc<Gpu>) {
    let Ok(others) = registry::snapshot() else {
        return;
    };
    for other in others.iter() {
        if !Arc::ptr_eq(gpu, other) {
            forget(other, gpu);
            forget(gpu, other);
        }
    }
}

/// Bandwidth of a usable link from one GPU to another, MB/s.
fn linked(from: &Gpu, to: &Gpu) -> Option<u32> {
    let links = from
        .ext()
        .and_then(|e| e.topology.as_ref())
        .map_or(0, |t| t.links);
    (0..links).find_map(|i| {
        topology::link(from, i)
            .ok()
            .filter(|l| l.peer == u32::from(to.index()) && l.up && l.read && l.write)
            .map(|l| l.mbps)
    })
}

fn name(from: &Gpu, to: &Gpu, mbps: u32) {
    let taken = |id: u8| from.peers.iter().any(|p| p.load(Relaxed) == u32::from(id));
    let Some(id) = (0..IDS).find(|id| !taken(*id)) else {
        pr_warn!("huvm: gpu {} has no peer id left\n", from.index());
        return;
    };
    match topology::set_peer(from, id, Some(to.index().into())) {
        Ok(()) => {
            if let Some(m) = from.peer_mbps.get(usize::from(to.index())) {
                m.store(mbps, Relaxed);
            }
            if let Some(p) = from.peers.get(usize::from(to.index())) {
                p.store(id.into(), Relaxed);
            }
        }
        Err(e) => pr_warn!(
            "huvm: gpu {} cannot name gpu {}: {:?}\n",
            from.index(),
            to.index(),
            e
        ),
    }
}

fn forget(from: &Gpu, to: &Gpu) {
    let Some(p) = from.peers.get(usize::from(to.index())) else {
        return;
    };
    let Ok(id) = u8::try_from(p.xchg(NO_PEER, Relaxed)) else {
        return;
    };
    // A GPU that is gone has no names to take back.
    let _gone = topology::set_peer(from, id, None);
}
