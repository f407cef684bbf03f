// SPDX-License-Identifier: GPL-2.0
//! `events`: the stream of all clients.

use super::client::cause;
use crate::cli::Events;
use crate::exit::Result;
use crate::out::Out;
use crate::row::{extra, field, Cell, Field, Row};
use crate::units;
use libhuvm::uapi;
use serde::{Deserialize, Serialize};

/// An event, as `events` and `trace` write it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Event {
    pub(super) seq: u64,
    pub(super) time_ns: u64,
    pub(super) r#type: String,
    pub(super) cause: String,
    pub(super) pid: u32,
    pub(super) place: String,
    pub(super) va: String,
    pub(super) length_bytes: u64,
    pub(super) arg0: u64,
    pub(super) arg1: u64,
    pub(super) dropped: u32,
}

impl Row for Event {
    fn fields(&self) -> Vec<Field> {
        vec![
            extra("seq", Cell::Count(self.seq)),
            field("time_ns", "TIME-NS", Cell::Count(self.time_ns)),
            field("type", "TYPE", Cell::text(&self.r#type)),
            field("place", "PLACE", Cell::text(&self.place)),
            field("pid", "PID", Cell::count(self.pid)),
            field("va", "ADDRESS", Cell::text(&self.va)),
            field("length_bytes", "LENGTH", Cell::Bytes(self.length_bytes)),
            field("cause", "CAUSE", Cell::text(&self.cause)),
            extra("arg0", Cell::Count(self.arg0)),
            extra("arg1", Cell::Count(self.arg1)),
            extra("dropped", Cell::count(self.dropped)),
        ]
    }
}

impl Event {
    /// From the driver's record.
    pub(super) fn new(raw: &uapi::huvm_event) -> Self {
        Event {
            seq: raw.seq,
            time_ns: raw.time_ns,
            r#type: kind(raw.type_).into(),
            cause: cause(raw.cause.into()).into(),
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
        }
    }
}

impl Event {
    /// What only this type of event has, in words.
    fn more(&self) -> String {
        match self.r#type.as_str() {
            "lend" => format!(" to gpu{}", self.arg0),
            "write-back" => format!(" in {}", units::time(self.arg1)),
            "reclaim" if self.arg0 != 0 => format!(" with a copy in {}", units::time(self.arg1)),
            "reclaim" => format!(" in {}", units::time(self.arg1)),
            "prefetch" => match u32::try_from(self.arg0) {
                Ok(uapi::HUVM_PREFETCH_BEGUN) => " begun",
                Ok(uapi::HUVM_PREFETCH_USEFUL) => " useful",
                Ok(uapi::HUVM_PREFETCH_LATE) => " late",
                Ok(uapi::HUVM_PREFETCH_WASTED) => " wasted",
                _ => "",
            }
            .into(),
            _ => String::new(),
        }
    }
}

/// Mask of all types of event.
pub(super) const ALL: u32 = (1 << (uapi::HUVM_EVENT_PREFETCH + 1)) - 2;

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
        uapi::HUVM_EVENT_RECLAIM => "reclaim",
        uapi::HUVM_EVENT_LEND => "lend",
        uapi::HUVM_EVENT_WRITE_BACK => "write-back",
        uapi::HUVM_EVENT_PREFETCH => "prefetch",
        _ => "unknown",
    }
}

fn print(out: &Out, event: &Event) -> Result<()> {
    out.stream("event", event, std::slice::from_ref(event), || {
        format!(
            "{:>12.6}  {:<10} {:<5} pid {:<6} {} {} {}{}\n",
            event.time_ns as f64 / 1e9,
            event.r#type,
            event.place,
            event.pid,
            event.va,
            out.bytes(event.length_bytes),
            event.cause,
            event.more()
        )
    })
}

pub(super) fn run(out: &Out, e: &Events) -> Result<()> {
    let mut left = e.count.unwrap_or(u64::MAX);
    if let Some(all) = out.saved::<Event>("event")? {
        for event in all
            .into_iter()
            .take(usize::try_from(left).unwrap_or(usize::MAX))
        {
            let event = out.adopt(event);
            print(out, &event)?;
        }
        return Ok(());
    }
    let device = out.device()?;
    device.listen(ALL, true)?;
    while left != 0 {
        for raw in device.events(256)? {
            print(out, &Event::new(&raw))?;
            left -= 1;
            if left == 0 {
                break;
            }
        }
    }
    Ok(())
}
