// SPDX-License-Identifier: GPL-2.0
//! Recorded events: what `uvmctl trace record` wrote, or `uvmctl events --json`.

use crate::failure::{Failure, Result};
use serde::Deserialize;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Where pages are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A GPU, by index.
    Gpu(u32),
    /// The host.
    Host,
    /// No place: what reads as zero.
    Nowhere,
}

impl Place {
    /// Of a place's number (uapi/huvm.h: HUVM_PLACE_HOST is all ones, HUVM_PLACE_NONE one less).
    fn of(number: u64) -> Place {
        match u32::try_from(number) {
            Ok(u32::MAX) | Err(_) => Place::Host,
            Ok(n) if n == u32::MAX - 1 => Place::Nowhere,
            Ok(n) => Place::Gpu(n),
        }
    }

    /// Of its word.
    fn named(word: &str) -> Place {
        match word.strip_prefix("gpu").map(str::parse) {
            Some(Ok(n)) => Place::Gpu(n),
            _ => Place::Host,
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Host => f.write_str("host"),
            Place::Nowhere => f.write_str("nowhere"),
            Place::Gpu(n) => write!(f, "gpu{n}"),
        }
    }
}

/// An event, as the file has it.
#[derive(Clone, Debug, Deserialize)]
struct Raw {
    seq: u64,
    time_ns: u64,
    r#type: String,
    #[serde(default)]
    cause: String,
    pid: u32,
    #[serde(default)]
    place: String,
    va: String,
    length_bytes: u64,
    arg0: u64,
    arg1: u64,
}

/// A line of `events --json`.
#[derive(Deserialize)]
struct Document {
    data: Raw,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A GPU asked for a page.
    Fault,
    /// Pages go from a place to another; the copy begins.
    Migrate {
        /// From here.
        from: Place,
        /// To here.
        to: Place,
    },
    /// A block left its GPU.
    Evict {
        /// A GPU waited for it.
        in_fault: bool,
    },
    /// A chunk of the event's GPU was lent for the block.
    Lend {
        /// Which one.
        chunk: u64,
    },
    /// A lent block was copied to the host, which took so many ns.
    WriteBack(u64),
    /// A batch of faults was served, and the GPU told to try again.
    Replay,
    /// A submission to a copy engine of the event's GPU is over.
    Copy {
        /// The engine's id.
        engine: u64,
        /// What it copied.
        traffic: Traffic,
        /// How long it took: with the time behind others.
        ns: u64,
    },
    /// A launch ended.
    LaunchEnd,
    /// Something else.
    Other,
}

/// What a copy engine is given to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Traffic {
    FromHost,
    ToHost,
    ToPeers,
    FromPeers,
    Within,
}

impl Traffic {
    fn named(word: &str) -> Option<Traffic> {
        Some(match word {
            "h2d" => Traffic::FromHost,
            "d2h" => Traffic::ToHost,
            "peer-out" => Traffic::ToPeers,
            "peer-in" => Traffic::FromPeers,
            "local" => Traffic::Within,
            _ => return None,
        })
    }

    /// For people.
    pub fn word(self) -> &'static str {
        match self {
            Traffic::FromHost => "from host",
            Traffic::ToHost => "to host",
            Traffic::ToPeers => "to peers",
            Traffic::FromPeers => "from peers",
            Traffic::Within => "within",
        }
    }
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Number in its stream.
    pub seq: u64,
    /// Of the driver's clock.
    pub time_ns: u64,
    /// Process of the space.
    pub pid: u32,
    /// GPU that it is of.
    pub place: Place,
    /// First address.
    pub va: u64,
    /// Bytes from there on.
    pub bytes: u64,
    /// What happened.
    pub what: What,
}

/// Reads one line.
///
/// # Errors
/// What is wrong with it.
pub fn parse(line: &str) -> std::result::Result<Event, String> {
    let raw: Raw = if line.contains("\"data\"") {
        serde_json::from_str::<Document>(line).map(|d| d.data)
    } else {
        serde_json::from_str(line)
    }
    .map_err(|e| e.to_string())?;
    let digits = raw.va.trim_start_matches("0x");
    let va = u64::from_str_radix(digits, 16).map_err(|_| format!("'{}' is no address", raw.va))?;
    let what = match raw.r#type.as_str() {
        "fault" => What::Fault,
        "migrate" => What::Migrate {
            from: Place::of(raw.arg0),
            to: Place::of(raw.arg1),
        },
        "evict" => What::Evict {
            in_fault: raw.arg1 != 0,
        },
        "lend" => What::Lend { chunk: raw.arg1 },
        "replay" => What::Replay,
        "copy" => match Traffic::named(&raw.cause) {
            Some(traffic) => What::Copy {
                engine: raw.arg0,
                traffic,
                ns: raw.arg1,
            },
            None => return Err(format!("'{}' is nothing that is copied", raw.cause)),
        },
        "write-back" => What::WriteBack(raw.arg1),
        "launch-end" => What::LaunchEnd,
        _ => What::Other,
    };
    Ok(Event {
        seq: raw.seq,
        time_ns: raw.time_ns,
        pid: raw.pid,
        place: Place::named(&raw.place),
        va,
        // Of a write-back what was copied, which may be less than the block.
        bytes: match what {
            What::WriteBack(_) => raw.arg0,
            _ => raw.length_bytes,
        },
        what,
    })
}

/// Reads a recording, in order of its numbers.
///
/// # Errors
/// The line that is no event; a recording without events.
pub fn read(path: &Path) -> Result<Vec<Event>> {
    let file = std::fs::File::open(path).map_err(|e| Failure::file(path, e))?;
    let mut events = Vec::new();
    for (n, line) in (1..).zip(BufReader::new(file).lines()) {
        let failed = |e: String| Failure::File(format!("{}:{n}: {e}", path.display()));
        let line = line.map_err(|e| failed(e.to_string()))?;
        if !line.trim().is_empty() {
            events.push(parse(&line).map_err(failed)?);
        }
    }
    if events.is_empty() {
        return Err(Failure::file(path, "no events"));
    }
    events.sort_by_key(|e| e.seq);
    Ok(events)
}
