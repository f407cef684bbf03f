// SPDX-License-Identifier: GPL-2.0
//! Peer ids: how GPUs name each other's memory.
//!
//! Ids are each GPU's own (0..7). A pair gets ids when the second of the two comes, in both directions, where a link that
//! can be read and written joins them. A link may go down, and come up again: [`refresh`] takes and gives the ids then.

use super::gpu::NO_PEER;
use super::{registry, Gpu};
use crate::kernel::ffi::uapi;
use huvm_hal::ext::topology::{self, Link};
use huvm_hw::ext::topology::LINK_MAX;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

/// Peer ids of a GPU.
const IDS: u8 = 8;
/// Set in a peer's entry: the id is still the peer's, for copies under way, and nobody begins another.
const CLOSED: u32 = 0x100;
/// In `links_up`: no look at the links says so, and the next one finds a change.
const LOOK_AGAIN: u64 = topology::UNREAD;

/// The links of a GPU by number; without those that make no sense.
type Table = [Option<Link>; LINK_MAX as usize];

/// Gives `gpu` and every other GPU names for each other.
pub(super) fn connect(gpu: &Arc<Gpu>) -> Result {
    let own = table(gpu);
    for other in registry::snapshot()?.iter() {
        if Arc::ptr_eq(gpu, other) || other.is_lost() {
            continue;
        }
        for (from, table, to) in [(gpu, &own, other), (other, &table(other), gpu)] {
            if let Some(mbps) = table.as_ref().ok().and_then(|links| linked(links, to)) {
                name(from, to, mbps, true);
            }
            // It did not answer; or a link has changed since it was read, and who saw that found no name to take away yet.
            look_again(from);
        }
    }
    Ok(())
}

/// Lets no new copy go between `gpu`, which leaves, and others. Those under way still find each other.
pub(super) fn close(gpu: &Arc<Gpu>) {
    let Ok(others) = registry::snapshot() else {
        return;
    };
    for other in others.iter() {
        shut(gpu, other);
        shut(other, gpu);
    }
}

/// Lets no new copy go from one GPU to another.
fn shut(from: &Gpu, to: &Gpu) {
    let _one = from.naming.lock();
    if let Some(p) = from.peers.get(usize::from(to.index())) {
        p.store(p.load(Relaxed) | CLOSED, Relaxed);
    }
}

/// Takes the names back, when no copy is under way between `gpu` and others.
pub(super) fn disconnect(gpu: &Arc<Gpu>) {
    let Ok(others) = registry::snapshot() else {
        return;
    };
    for other in others.iter() {
        if !Arc::ptr_eq(gpu, other) {
            forget(other, gpu);
            forget(gpu, other);
            // There may be one that had no id left.
            look_again(other);
        }
    }
}

/// Looks whether a link of `gpu` went down or came up, and gives and takes its names accordingly. One register a link, and
/// nothing else when nothing has changed.
pub(crate) fn refresh(gpu: &Arc<Gpu>) {
    let mut up = 0u64;
    for i in 0..links(gpu) {
        match gpu.hal(topology::link_is_up(&**gpu, i)) {
            Ok(true) => up |= 1u64.checked_shl(i).unwrap_or(0),
            Ok(false) => {}
            // It does not answer, and is lost.
            Err(_) => return,
        }
    }
    if gpu.links_up.load(Relaxed) == up {
        return;
    }
    let Ok(links) = gpu.hal(table(gpu)) else {
        return;
    };
    // What is acted on below: a link may have changed since it was looked at above.
    let up = topology::up_of(listed(gpu, &links), gpu.links_up.load(Relaxed));
    // Before it is seen who is there: whoever comes later and cannot read it has it looked at again.
    let was = gpu.links_up.xchg(up, Relaxed);
    let Ok(others) = registry::snapshot() else {
        // Looked at again next time.
        gpu.links_up.store(was, Relaxed);
        return;
    };
    announce(gpu, &links, was, up);
    // One that makes no sense is looked at again and again; what follows from that was told.
    let tells = was & LOOK_AGAIN == 0;
    for other in others.iter() {
        if Arc::ptr_eq(gpu, other) || other.is_lost() {
            continue;
        }
        match linked(&links, other) {
            Some(mbps) => name(gpu, other, mbps, tells),
            // The id stays the peer's: copies under way name it.
            None => shut(gpu, other),
        }
    }
}

/// Says which of the links of `gpu` went down or came up.
fn announce(gpu: &Gpu, links: &Table, was: u64, up: u64) {
    for (i, link) in (0..).zip(links) {
        let bit = 1u64.checked_shl(i).unwrap_or(0);
        let Some(link) = link.filter(|_| (was ^ up) & bit != 0) else {
            continue;
        };
        if registry::gpu(link.peer).is_none() {
            // Nobody is at its other end.
            continue;
        }
        let is_up = up & bit != 0;
        let state = if is_up { "up again" } else { "down" };
        pr_warn!(
            "gpu {}: its link to gpu {} is {}\n",
            gpu.index(),
            link.peer,
            state
        );
        gpu.announce(uapi::HUVM_EVENT_LINK, link.peer.into(), is_up.into());
    }
}

/// How many links a GPU has.
fn links(gpu: &Gpu) -> u32 {
    gpu.ext()
        .and_then(|e| e.topology.as_ref())
        .map_or(0, |t| t.links)
}

/// Of the table those that there are.
fn listed<'a>(gpu: &Gpu, table: &'a Table) -> &'a [Option<Link>] {
    // CAST: 32 at most.
    table.get(..links(gpu) as usize).unwrap_or(table)
}

/// What was found is not all: the next look acts, whatever it sees.
fn look_again(gpu: &Gpu) {
    gpu.links_up
        .store(gpu.links_up.load(Relaxed) | LOOK_AGAIN, Relaxed);
}

/// Reads them all: `Gone` if one was not read, for whoever goes by the others closes a good one.
fn table(gpu: &Gpu) -> huvm_hal::Result<Table> {
    let mut table = [None; LINK_MAX as usize];
    for (link, i) in table.iter_mut().zip(0..links(gpu)) {
        *link = match topology::link(gpu, i) {
            Err(e @ huvm_hal::Error::Gone) => return Err(e),
            read => read.ok(),
        };
    }
    Ok(table)
}

/// Bandwidth of a usable link to a GPU, MB/s.
fn linked(links: &Table, to: &Gpu) -> Option<u32> {
    links
        .iter()
        .flatten()
        .find(|l| l.peer == u32::from(to.index()) && l.up && l.read && l.write)
        .map(|l| l.mbps)
}

/// Lets copies go from one GPU to another; if not, `tells` why.
fn name(from: &Arc<Gpu>, to: &Arc<Gpu>, mbps: u32, tells: bool) {
    let _one = from.naming.lock();
    let at = usize::from(to.index());
    let (Some(named), Some(speed)) = (from.peers.get(at), from.peer_mbps.get(at)) else {
        return;
    };
    // One that leaves is closed for good.
    let stays = |gpu: &Arc<Gpu>| {
        registry::gpu(gpu.index().into()).is_some_and(|listed| Arc::ptr_eq(&listed, gpu))
    };
    if !stays(from) || !stays(to) {
        return;
    }
    let was = named.load(Relaxed);
    if was != NO_PEER {
        speed.store(mbps, Relaxed);
        named.store(was & !CLOSED, Relaxed);
        return;
    }
    let taken = |id: u8| {
        let is_it = |p: u32| p != NO_PEER && p & !CLOSED == u32::from(id);
        from.peers.iter().any(|p| is_it(p.load(Relaxed)))
    };
    let Some(id) = (0..IDS).find(|id| !taken(*id)) else {
        if tells {
            pr_notice!("gpu {} has no peer id left\n", from.index());
        }
        return;
    };
    match topology::set_peer(&**from, id, Some(to.index().into())) {
        Ok(()) => {
            speed.store(mbps, Relaxed);
            named.store(id.into(), Relaxed);
        }
        // It did not answer now.
        Err(huvm_hal::Error::Gone) => look_again(from),
        Err(e) if tells => pr_warn!(
            "gpu {} cannot name gpu {}: {:?}\n",
            from.index(),
            to.index(),
            e
        ),
        Err(_) => {}
    }
}

fn forget(from: &Gpu, to: &Gpu) {
    let _one = from.naming.lock();
    let Some(p) = from.peers.get(usize::from(to.index())) else {
        return;
    };
    let was = p.xchg(NO_PEER, Relaxed);
    if was == NO_PEER {
        return;
    }
    let Ok(id) = u8::try_from(was & !CLOSED) else {
        return;
    };
    // A GPU that is gone has no names to take back.
    let _gone = topology::set_peer(from, id, None);
}
