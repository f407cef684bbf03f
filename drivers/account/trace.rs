// SPDX-License-Identifier: GPL-2.0
//! Events and counters as tracepoints (`drivers/kernel/trace.h`), for tracefs and perf. Off, each is a `nop`.
//!
//! | event of `uapi/huvm.h` | tracepoint |
//! | --- | --- |
//! | `FAULT` | `huvm_gpu_fault` |
//! | `MIGRATE` | `huvm_migrate` |
//! | `EVICT` | `huvm_evict` |
//! | `REPLAY` | `huvm_fault_batch` |
//! | `FATAL` | `huvm_fault_fatal` |
//! | `CPU_FAULT` | `huvm_cpu_fault` |
//! | `GPU_LOST` | `huvm_gpu_lost` |
//! | `LAUNCH_END` | `huvm_launch_end` |
//! | `RECLAIM` | `huvm_reclaim` |
//! | `LEND` | `huvm_lend` |
//! | `WRITE_BACK` | `huvm_write_back` |
//! | `PREFETCH` | `huvm_prefetch` |
//! | `RETIRED` | `huvm_retired` |
//! | `CHANNEL_LOST` | `huvm_channel_lost` |
//! | `LINK` | `huvm_link` |
//! | `FORFEIT` | `huvm_forfeit` |
//! | a submission to a copy engine is over | `huvm_copy` |
//! | a counter grows | `huvm_count` |

use super::counters::Counter;
use super::events::Event;
use super::latency::Kind;
use crate::device::Gpu;
use crate::kernel::ffi::uapi;
use crate::kernel::trace;
use crate::memory::space::Space;

/// A place of the user interface as tracepoints have it: -1 is the host, -2 none.
fn place(p: u64) -> i32 {
    // CAST: 0..15, HUVM_PLACE_HOST, all ones, and HUVM_PLACE_NONE, one less; the low 32 bits carry all.
    p as u32 as i32
}

/// A small number that an event carries in 64 bits.
fn small(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// An event, whoever listens to the streams.
#[inline]
pub(super) fn event(space: Option<&Space>, e: &Event) {
    let gpu = place(e.gpu.into());
    let pid = space.map_or(0, Space::pid);
    match e.kind {
        uapi::HUVM_EVENT_FAULT => trace::gpu_fault(gpu, pid, e.va, small(e.arg0), small(e.arg1)),
        uapi::HUVM_EVENT_MIGRATE => {
            let (src, dst) = (place(e.arg0), place(e.arg1));
            trace::migrate(pid, e.va, e.length, src, dst, e.cause);
        }
        uapi::HUVM_EVENT_EVICT => {
            let chunk = small(e.arg0);
            trace::evict(gpu, pid, e.va, e.length, chunk, e.arg1 != 0);
        }
        uapi::HUVM_EVENT_REPLAY => trace::fault_batch(gpu, e.arg0, e.arg1),
        uapi::HUVM_EVENT_FATAL => {
            trace::fault_fatal(gpu, pid, e.va, small(e.arg0), small(e.arg1));
        }
        uapi::HUVM_EVENT_CPU_FAULT => trace::cpu_fault(pid, e.va, e.length, e.arg0 != 0),
        uapi::HUVM_EVENT_GPU_LOST => trace::gpu_lost(gpu, small(e.arg0), small(e.arg1)),
        uapi::HUVM_EVENT_RECLAIM => trace::reclaim(gpu, e.arg0 != 0, e.arg1),
        uapi::HUVM_EVENT_LEND => trace::lend(gpu, pid, e.va, place(e.arg0), small(e.arg1)),
        uapi::HUVM_EVENT_WRITE_BACK => trace::write_back(gpu, pid, e.va, e.arg0, e.arg1),
        uapi::HUVM_EVENT_PREFETCH => trace::prefetch(gpu, pid, e.va, small(e.arg0)),
        uapi::HUVM_EVENT_RETIRED => trace::retired(gpu, pid, e.va, e.arg0, e.arg1),
        uapi::HUVM_EVENT_CHANNEL_LOST => {
            trace::channel_lost(gpu, small(e.arg0), small(e.arg1));
        }
        uapi::HUVM_EVENT_LINK => trace::link(gpu, place(e.arg0), e.arg1 != 0),
        uapi::HUVM_EVENT_FORFEIT => trace::forfeit(gpu, place(e.arg0), e.arg1),
        uapi::HUVM_EVENT_LAUNCH_END => trace::launch_end(gpu, pid, e.arg0, small(e.arg1)),
        _ => {}
    }
}

/// A submission to a copy engine is over, which took so long from its beginning on. Any context, so the streams do not have it.
#[inline]
pub(crate) fn copy(gpu: u8, engine: u16, kind: Kind, began: u64, took: u64) {
    // CAST: a discriminant.
    trace::copy(gpu.into(), engine.into(), kind as u32, began, took);
}

/// A counter grows by `n`.
#[inline]
pub(super) fn count(gpu: Option<&Gpu>, space: Option<&Space>, counter: Counter, n: u64) {
    let gpu = gpu.map_or(-1, |g| i32::from(g.index()));
    let pid = space.map_or(0, Space::pid);
    // CAST: a discriminant.
    trace::count(gpu, pid, counter as u32, n);
}
