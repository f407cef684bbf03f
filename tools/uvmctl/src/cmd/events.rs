// SPDX-License-Identifier: GPL-2.0
//! `events`: the stream of all clients.

use super::client::cause;
use crate::cli::Events;
use crate::exit::Result;
use crate::out::Out;
use libhuvm::{uapi, Device};
use serde::Serialize;

#[derive(Serialize)]
struct Event {
    seq: u64,
    time_ns: u64,
    r#type: &'static str,
    cause: &'static str,
    pid: u32,
    place: String,
    va: String,
    length_bytes: u64,
    arg0: u64,
    arg1: u64,
    dropped: u32,
}

fn kind(t: u16) -> &'static str {
    match u32::from(t) {
        uapi::HUVM_EVENT_FAULT => "fault",
        uapi::HUVM_EVENT_MIGRATE => "migrate",
        uapi::HUVM_EVENT_EVICT => "evict",
        uapi::HUVM_EVENT_REPLAY => "replay",
        uapi::HUVM_EVENT_FATAL => "fatal",
        uapi::HUVM_EVENT_CPU_FAULT => "cpu-fault",
        uapi::HUVM_EVENT_GPU_LOST => "gpu-lost",
        uapi::HUVM_EVENT_LAUNCH_END => "launch-end",
        _ => "unknown",
    }
}

pub(super) fn run(out: &Out, e: &Events) -> Result<()> {
    let device = Device::open()?;
    let all = (1u32 << (uapi::HUVM_EVENT_LAUNCH_END + 1)) - 2;
    device.listen(all, true)?;
    let mut left = e.count;
    while left != 0 {
        for raw in device.events(256)? {
            let event = Event {
                seq: raw.seq,
                time_ns: raw.time_ns,
                r#type: kind(raw.type_),
                cause: cause(raw.cause.into()),
                pid: raw.pid,
                place: match raw.gpu {
                    uapi::HUVM_PLACE_HOST => "host".into(),
                    g => format!("gpu{g}"),
                },
                va: format!("{:#x}", raw.va),
                length_bytes: raw.length,
                arg0: raw.arg0,
                arg1: raw.arg1,
                dropped: raw.dropped,
            };
            out.show("event", &event, || {
                format!(
                    "{:>12.6}  {:<10} {:<5} pid {:<6} {} {} {}\n",
                    event.time_ns as f64 / 1e9,
                    event.r#type,
                    event.place,
                    event.pid,
                    event.va,
                    out.bytes(event.length_bytes),
                    event.cause
                )
            });
            left -= 1;
            if left == 0 {
                break;
            }
        }
    }
    Ok(())
}
