// SPDX-License-Identifier: GPL-2.0
//! `events`: the stream of all clients.

use super::client::{cause, place};
use super::loss;
use crate::cli::Events;
use crate::exit::Result;
use crate::out::Out;
use crate::row::{extra, field, Cell, Field, Row};
use crate::units;
use libhuvm::{uapi, Device};
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
            place: place(raw.gpu),
            va: format!("{:#x}", raw.va),
            length_bytes: raw.length,
            arg0: raw.arg0,
            arg1: raw.arg1,
            dropped: raw.dropped,
        }
    }

    /// What only this type of event has, in words.
    fn more(&self) -> String {
        match self.r#type.as_str() {
            "gpu-lost" => format!(": {}", loss::why(self.arg0, self.arg1)),
            "lend" => format!(" to gpu{}", self.arg0),
            "write-back" => format!(" in {}", units::time(self.arg1)),
            "reclaim" if self.arg0 != 0 => format!(" with a copy in {}", units::time(self.arg1)),
            "reclaim" => format!(" in {}", units::time(self.arg1)),
            "retired" => format!(" page {:#x}, {} lost", self.arg0, self.arg1),
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

/// Mask of all types of event that a driver of this interface has. It refuses a mask with others.
fn mask(abi_minor: u32) -> u32 {
    let last = match abi_minor {
        0 => uapi::HUVM_EVENT_LAUNCH_END,
        1 => uapi::HUVM_EVENT_PREFETCH,
        _ => uapi::HUVM_EVENT_RETIRED,
    };
    (1 << (last + 1)) - 2
}

/// Listens to all events of all clients.
pub(super) fn listen(device: &Device) -> Result<()> {
    Ok(device.listen(mask(device.version()?.abi_minor), true)?)
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
        uapi::HUVM_EVENT_RECLAIM => "reclaim",
        uapi::HUVM_EVENT_LEND => "lend",
        uapi::HUVM_EVENT_WRITE_BACK => "write-back",
        uapi::HUVM_EVENT_PREFETCH => "prefetch",
        uapi::HUVM_EVENT_RETIRED => "retired",
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
    listen(&device)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_driver_is_asked_for_what_it_has() {
        // 1.0 had the types 1 to 8.
        assert_eq!(mask(0), 0b1_1111_1110);
        assert_eq!(mask(0) & 1 << uapi::HUVM_EVENT_RECLAIM, 0);
        assert_eq!(mask(1) & 1 << uapi::HUVM_EVENT_RETIRED, 0);
        // This one, and whatever comes after it, has all that this tool knows: each has a word.
        for minor in [uapi::HUVM_ABI_MINOR, 9] {
            let known = (1..32).filter(|t| kind(*t) != "unknown");
            assert_eq!(known.fold(0, |all, t| all | 1 << t), mask(minor), "{minor}");
        }
    }
}
