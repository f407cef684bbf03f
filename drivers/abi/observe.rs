// SPDX-License-Identifier: GPL-2.0
//! Calls that look: version, GPUs, links, memory, counters, events, clients, ranges.

use super::ioctl::{argument, gpu, owner_only, put_text, zero};
use crate::account;
use crate::account::counters::{Counter, COUNT};
use crate::account::events::Stream;
use crate::device::registry;
use crate::kernel::ffi::uapi;
use crate::kernel::{task, time, user};
use crate::memory::block::{Block, State};
use crate::memory::space::Space;
use crate::memory::{registry as spaces, Place, BLOCK_BYTES, PAGE_BYTES};
use crate::service::harvest;
use huvm_hal::ext::topology::{self, LinkType};
use huvm_policy::chunk::ChunkState;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Blocks that one range call returns at most.
const RANGE_MAX: u32 = 4096;
/// Records of an event ring: smallest, largest, default.
const RECORDS: (u32, u32, u32) = (16, 65536, 4096);

#[inline(never)] // stack
pub(super) fn version(arg: usize) -> Result {
    let mut a: uapi::huvm_version = argument(arg, 0)?;
    a.abi_major = uapi::HUVM_ABI_MAJOR;
    a.abi_minor = uapi::HUVM_ABI_MINOR;
    a.caps = u64::from(uapi::HUVM_CAP_WORKLOAD | uapi::HUVM_CAP_EVENTS | uapi::HUVM_CAP_PEER);
    if super::testing::enabled() {
        a.caps |= u64::from(uapi::HUVM_CAP_TEST);
    }
    a.gpu_count = registry::count();
    a.nr_knobs = u32::try_from(huvm_policy::config::KNOB_COUNT)?;
    a.nr_counters = u32::try_from(COUNT)?;
    a.page_bytes = u32::try_from(PAGE_BYTES)?;
    a.chunk_bytes = BLOCK_BYTES;
    put_text(&mut a.driver, crate::VERSION);
    user::copy_out(arg, &a)
}

#[inline(never)] // stack
pub(super) fn gpu_info(arg: usize) -> Result {
    let asked: uapi::huvm_gpu_info = argument(arg, 0)?;
    let gpu = gpu(asked.gpu)?;
    // What the caller had in fields that are the driver's to fill is no answer: a GPU may have no extension, or no topology.
    let mut a = uapi::huvm_gpu_info {
        size: asked.size,
        gpu: asked.gpu,
        ..Default::default()
    };
    a.state = if gpu.is_lost() {
        uapi::HUVM_GPU_LOST
    } else {
        uapi::HUVM_GPU_OK
    };
    put_text(&mut a.pci, gpu.name());
    let id = gpu.identity();
    a.chip_id = id.chip.into();
    a.vram_bytes = id.vram_bytes;
    a.chunk_count = gpu.chunks().count();
    a.ce_count = u32::try_from(id.engines.iter().flatten().count())?;
    a.registered_clients = gpu.clients().count();
    if let Some(e) = gpu.ext() {
        a.uuid = e.uuid;
        a.device_flags =
            u32::from(e.timing) | u32::from(e.phantom) << 1 | u32::from(e.realism) << 2;
        a.profile_id = e.profile_id;
        if let Some(t) = &e.topology {
            a.link_count = t.links;
            a.host_h2d_mbps = t.host_h2d_mbps;
            a.host_d2h_mbps = t.host_d2h_mbps;
            a.host_latency_ns = t.host_latency_ns;
        }
    }
    user::copy_out(arg, &a)
}

#[inline(never)] // stack
pub(super) fn link_info(arg: usize) -> Result {
    let mut a: uapi::huvm_link_info = argument(arg, 0)?;
    zero(a.reserved)?;
    let gpu = gpu(a.gpu)?;
    gpu.check()?;
    let links = gpu
        .ext()
        .and_then(|e| e.topology.as_ref())
        .map_or(0, |t| t.links);
    if a.index >= links {
        return Err(ENOENT);
    }
    let l = gpu.hal(topology::link(&*gpu, a.index))?;
    a.peer = l.peer;
    a.type_ = match l.kind {
        LinkType::Pcie => uapi::HUVM_LINK_PCIE,
        LinkType::NvLink => uapi::HUVM_LINK_NVLINK,
    };
    a.mbps = l.mbps;
    a.latency_ns = l.latency_ns;
    a.up = l.up.into();
    user::copy_out(arg, &a)
}

#[inline(never)] // stack
pub(super) fn mem_info(arg: usize) -> Result {
    let mut a: uapi::huvm_mem_info = argument(arg, 0)?;
    zero(a.retired)?;
    let gpu = gpu(a.gpu)?;
    let states = [
        ChunkState::Free,
        ChunkState::Used,
        ChunkState::Unused,
        ChunkState::Discarded,
        ChunkState::Evicting,
        ChunkState::LentOnly,
        ChunkState::LentRemovable,
        ChunkState::Pinned,
        ChunkState::Unusable,
        ChunkState::Retired,
    ];
    let mut n = [0; 10];
    gpu.chunks().counts(&states, &mut n);
    let [.., retired] = n;
    let [free, used, unused, discarded, evicting, only, removable, pinned, unusable, _] =
        n.map(u64::from);
    a.free = free;
    a.used = used + unused + discarded;
    a.evicting = evicting;
    a.lent_only = only;
    a.lent_removable = removable;
    a.pinned = pinned;
    a.unusable = unusable;
    a.retired = retired;
    user::copy_out(arg, &a)
}

#[inline(never)] // stack
pub(super) fn lend_info(arg: usize) -> Result {
    let mut a: uapi::huvm_lend_info = argument(arg, 0)?;
    let gpu = gpu(a.gpu)?;
    let config = harvest::lend_config(&gpu);
    a.lends = config.enabled.into();
    a.limit_chunks = config.limit.into();
    a.keep_chunks = config.keep.into();
    a.lent_chunks = gpu.chunks().lent_to().map(u64::from);
    user::copy_out(arg, &a)
}

#[inline(never)] // stack
pub(super) fn gpu_health(arg: usize) -> Result {
    let mut a: uapi::huvm_gpu_health = argument(arg, 0)?;
    zero(a.reserved)?;
    let gpu = gpu(a.gpu)?;
    a.given_up = gpu.channels().given_up();
    (a.lost, a.lost_named) = gpu.loss();
    if a.lost != uapi::HUVM_LOST_NONE {
        // All of its channels are broken then.
        a.given_up = 0;
    }
    a.forfeited = gpu.forfeited();
    user::copy_out(arg, &a)
}

#[inline(never)] // stack
pub(super) fn counters(space: &Arc<Space>, arg: usize) -> Result {
    let mut a: uapi::huvm_counters = argument(arg, 0)?;
    zero(a.reserved)?;
    let mut values = [0u64; COUNT];
    match a.scope {
        uapi::HUVM_SCOPE_GLOBAL => {
            zero(a.gpu)?;
            account::global().add_to(&mut values);
        }
        uapi::HUVM_SCOPE_GPU => gpu(a.gpu)?.counters().add_to(&mut values),
        uapi::HUVM_SCOPE_SPACE => {
            zero(a.gpu)?;
            owner_only(space)?;
            space.counters.add_to(&mut values);
        }
        uapi::HUVM_SCOPE_PROCESS => {
            for space in spaces::of_process(a.gpu)?.iter() {
                if !task::is_admin() {
                    owner_only(space)?;
                }
                space.counters.add_to(&mut values);
            }
        }
        _ => return Err(EINVAL),
    }
    let n = usize::try_from(a.nr)?.min(COUNT);
    user::write_slice(a.values, values.get(..n).ok_or(EINVAL)?)?;
    a.nr = u32::try_from(n)?;
    a.time_ns = time::now_ns();
    user::copy_out(arg, &a)
}

#[inline(never)] // stack
pub(super) fn latency(arg: usize) -> Result {
    let mut a: uapi::huvm_latency = argument(arg, 0)?;
    zero(a.reserved)?;
    let f = match a.scope {
        uapi::HUVM_SCOPE_GLOBAL => {
            zero(a.gpu)?;
            account::latency::global().read(a.kind)
        }
        uapi::HUVM_SCOPE_GPU => gpu(a.gpu)?.latencies().read(a.kind),
        _ => return Err(EINVAL),
    }
    .ok_or(ENOENT)?;
    a.count = f.count;
    a.sum_ns = f.sum_ns;
    a.max_ns = f.max_ns;
    a.buckets = f.buckets;
    a.time_ns = time::now_ns();
    user::copy_out(arg, &a)
}

#[inline(never)] // stack
pub(super) fn events(space: &Arc<Space>, arg: usize) -> Result {
    let a: uapi::huvm_events = argument(arg, uapi::HUVM_EVENTS_ALL)?;
    let all = a.flags & uapi::HUVM_EVENTS_ALL != 0;
    if all && !task::is_admin() {
        return Err(EPERM);
    }
    let (least, most, usual) = RECORDS;
    let records = match a.records {
        0 => usual,
        n if n <= most => n.max(least).next_power_of_two(),
        _ => return Err(EINVAL),
    };
    let known = (1 << (uapi::HUVM_EVENT_FORFEIT + 1)) - 2;
    if a.mask & !known != 0 {
        return Err(EINVAL);
    }
    let records = usize::try_from(records)?;
    space
        .memory
        .charged(|| Stream::configure(space, a.mask, all, records))
}

#[inline(never)] // stack
pub(super) fn client_info(arg: usize) -> Result {
    let mut a: uapi::huvm_client_info = argument(arg, 0)?;
    let space = spaces::next_space(a.client).ok_or(ENOENT)?;
    a = uapi::huvm_client_info {
        size: a.size,
        client: space.id(),
        pid: space.pid(),
        ..Default::default()
    };
    for (to, from) in a.comm.iter_mut().zip(space.comm()) {
        // CAST: the byte as it is.
        *to = from as kernel::ffi::c_char;
    }
    if space.is_owner() || task::is_admin() {
        let u = space.usage();
        a.gpu_mask = u.gpu_mask;
        a.managed_bytes = u.managed_bytes;
        a.host_bytes = u.host_bytes;
        a.gpu_bytes = u.gpu_bytes;
        a.faults = space.counters.get(Counter::Faults);
        a.evictions = space.counters.get(Counter::Evictions);
        a.launches = space.counters.get(Counter::Launches);
    }
    user::copy_out(arg, &a)
}

#[inline(never)] // stack
pub(super) fn range_info(own: &Arc<Space>, arg: usize) -> Result {
    let mut a: uapi::huvm_range_info = argument(arg, 0)?;
    zero(a.reserved)?;
    if a.nr > RANGE_MAX {
        return Err(EINVAL);
    }
    let space = if a.client == 0 {
        owner_only(own)?;
        own.clone()
    } else {
        let found = spaces::next_space(a.client)
            .filter(|s| s.id() == a.client)
            .ok_or(ENOENT)?;
        if !found.is_owner() && !task::is_admin() {
            return Err(EPERM);
        }
        found
    };
    let room = u64::from(a.nr);
    let (mut done, mut at) = (0u64, a.va);
    while done < room {
        let Some(block) = space.next_block(at) else {
            break;
        };
        let to = a
            .blocks
            .checked_add(done * core::mem::size_of::<uapi::huvm_block_info>() as u64)
            .ok_or(EFAULT)?;
        user::write_slice(to, &[describe(&block)])?;
        done += 1;
        at = block.va() + BLOCK_BYTES;
    }
    a.va = at;
    a.nr = u32::try_from(done)?;
    user::copy_out(arg, &a)
}

/// The place that all pages of a block should live at, if there is one.
fn preferred(s: &State) -> u32 {
    let page = s.managed.first();
    let place = page.and_then(|p| s.advice.of(p).preferred);
    let alike = match place {
        Some(p) => s.managed.is_subset_of(&s.advice.prefer(p)),
        None => !s.managed.intersects(&s.advice.prefer_another(Place::Spare)),
    };
    match place {
        _ if !alike => uapi::HUVM_PLACE_MIXED,
        Some(p) => p.to_uapi(),
        None => uapi::HUVM_PLACE_NONE,
    }
}

fn describe(block: &Block) -> uapi::huvm_block_info {
    let s = block.settled();
    let mut b = uapi::huvm_block_info {
        va: block.va(),
        managed_pages: s.managed.count().get(),
        host_pages: s.host_valid.count().get(),
        cpu_mapped: u32::from(!s.cpu_mapped.is_empty()),
        last_cause: s.last_cause,
        preferred: preferred(&s),
        read_mostly: s.advice.read_mostly().count().get(),
        // CAST: at most 2048.
        host_piece_kib: (s.host.largest_piece_bytes(&s.host_valid) >> 10) as u32,
        ..Default::default()
    };
    let count = |m: &crate::memory::PageMask| u16::try_from(m.count().get()).unwrap_or(0);
    for p in s.parts.iter() {
        let at = usize::from(p.gpu());
        if let (Some(pages), Some(mapped)) = (b.gpu_pages.get_mut(at), b.gpu_mapped.get_mut(at)) {
            *pages = count(&p.valid);
            *mapped = count(&p.mapped);
        }
    }
    b
}
