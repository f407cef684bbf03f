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
        let text = fs::read_to_string(self.0.join("trace")).unwrap_or_default();
        Recorded {
            lost: text.lines().find_map(missing).unwrap_or(0),
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

/// Of the line that says how many there were: how many are not there.
fn missing(line: &str) -> Option<u64> {
    let counts = line.strip_prefix("# entries-in-buffer/entries-written: ")?;
    let (there, rest) = counts.split_once('/')?;
    let written = rest.split_whitespace().next()?;
    let of = |n: &str| n.parse::<u64>().ok();
    Some(of(written)?.saturating_sub(of(there)?))
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
        let line = "# entries-in-buffer/entries-written: 205/1205   #P:2";
        assert_eq!(missing(line), Some(1000));
        assert_eq!(missing("# tracer: nop"), None);
    }
}
