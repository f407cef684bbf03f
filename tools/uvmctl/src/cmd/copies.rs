// SPDX-License-Identifier: GPL-2.0
//! Copies, out of the kernel's trace buffer: when each submission to a copy engine began and ended.
//!
//! The event stream has none of them, for an interrupt sees them end. The tracepoint `huvm_copy` is recorded in a buffer of our own,
//! beside whatever else is traced on the machine, and read when all is over.

use super::events::Event;
use std::fs;
use std::path::{Path, PathBuf};

/// Where buffers are made.
const INSTANCES: &str = "/sys/kernel/tracing/instances";
/// Room of each CPU's buffer, KiB: for some hundred thousand copies.
const ROOM_KIB: &str = "16384";

/// What a recording calls them; no type of the event stream.
pub(super) const TYPE: &str = "copy";

/// A buffer that copies are recorded in.
pub(super) struct Copies(PathBuf);

/// What was recorded.
#[derive(Default)]
pub(super) struct Recorded {
    pub(super) copies: Vec<Event>,
    /// For which there was no room.
    pub(super) lost: u64,
}

impl Copies {
    /// Begins; `None` on a kernel without trace buffers, for a user who may not have one, and for a driver that does not tell.
    pub(super) fn begin() -> Option<Copies> {
        let at = Path::new(INSTANCES).join(format!("uvmctl-{}", std::process::id()));
        fs::create_dir(&at).ok()?;
        // From here on it is removed, whatever happens.
        let copies = Copies(at);
        copies.put("options/overwrite", "0")?;
        copies.put("buffer_size_kb", ROOM_KIB)?;
        copies.put("events/huvm/huvm_copy/enable", "1")?;
        Some(copies)
    }

    fn put(&self, file: &str, text: &str) -> Option<()> {
        fs::write(self.0.join(file), text).ok()
    }

    /// Ends.
    pub(super) fn end(self) -> Recorded {
        let _goes_on_for_a_moment = self.put("tracing_on", "0");
        // A line begins with a task's name, which may be any bytes.
        let text = fs::read(self.0.join("trace")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let cpus = fs::read_dir(self.0.join("per_cpu"));
        let stats = cpus.into_iter().flatten().flatten();
        let stats = stats.filter_map(|cpu| fs::read_to_string(cpu.path().join("stats")).ok());
        Recorded {
            lost: stats.fold(0, |all, s| all.saturating_add(missing(&s))),
            copies: text.lines().filter_map(copy).collect(),
        }
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        let _ended = self.put("events/enable", "0");
        let _left_behind = fs::remove_dir(&self.0);
    }
}

/// Of the `stats` of a CPU's buffer: for how many there was no room. (Nothing is written over, so nothing is an `overrun`, which is all
/// that the head of `trace` would tell of.)
fn missing(stats: &str) -> u64 {
    let count = |l: &str| l.strip_prefix("dropped events: ")?.trim().parse().ok();
    stats.lines().find_map(count).unwrap_or(0)
}

/// A line of a copy as an event: its time is when it was over, `cause` what was copied, `arg0` the engine, `arg1` how long it took.
fn copy(line: &str) -> Option<Event> {
    let (_, fields) = line.split_once(": huvm_copy: ")?;
    let field = |name: &str| {
        let mut all = fields.split_whitespace();
        all.find_map(|f| f.strip_prefix(name)?.strip_prefix('='))
    };
    let number = |name: &str| field(name)?.parse::<u64>().ok();
    let (began, ns) = (number("began")?, number("ns")?);
    Some(Event {
        time_ns: began.saturating_add(ns),
        r#type: TYPE.into(),
        cause: field("copies")?.into(),
        place: format!("gpu{}", number("gpu")?),
        va: "0x0".into(),
        arg0: number("engine")?,
        arg1: ns,
        ..Event::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "     huvm-fault/0-88      [001] d.h1.    12.345678: huvm_copy: gpu=1 engine=17 copies=peer-in began=12000 ns=345";

    /// Catches an end taken for a beginning, and fields that are mixed up.
    #[test]
    fn a_line_is_a_copy() {
        let e = copy(LINE).unwrap();
        assert_eq!(
            (e.time_ns, e.arg0, e.arg1, e.place.as_str()),
            (12345, 17, 345, "gpu1")
        );
        assert_eq!((e.r#type.as_str(), e.cause.as_str()), (TYPE, "peer-in"));
        for other in [
            "# tracer: nop",
            "  x-1 [000] .....  1.0: huvm_count: gpu=0 pid=1 counter=faults n=1",
            &LINE.replace("ns=345", "ns=x"),
            &LINE.replace("engine=17 ", ""),
        ] {
            assert!(copy(other).is_none(), "{other}");
        }
    }

    #[test]
    fn what_had_no_room_is_counted() {
        let stats = "entries: 205\noverrun: 7\ncommit overrun: 0\nbytes: 6976\ndropped events: 1000\nread events: 0\n";
        assert_eq!(missing(stats), 1000);
        assert_eq!(missing("entries: 205\n"), 0);
    }
}
