// SPDX-License-Identifier: GPL-2.0
//! `events`: the stream of all clients.

use super::client::{cause, place};
use super::{latency, loss};
use crate::cli::Events;
use crate::exit::{Failure, Result};
use crate::out::Out;
use crate::row::{extra, field, Cell, Field, Row};
use crate::units;
use libhuvm::{uapi, Device, Scope};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use serde::{Deserialize, Serialize};
use std::os::fd::AsFd;

/// How long `events` waits before it looks whether anybody still reads what it prints, ms.
const LOOK_MS: u32 = 200;
/// Looks for what is left when it is over: enough to empty the driver's ring. Whoever else is at work fills it again.
const LAST_LOOKS: u32 = 256;

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

    /// What happened to a GPU as a whole, in words; nobody's memory is concerned.
    fn of_gpu(&self) -> Option<String> {
        Some(match self.r#type.as_str() {
            "gpu-lost" => loss::why(self.arg0, self.arg1),
            "channel-lost" => format!(
                "{} copies: {}",
                latency::kind(self.arg0),
                loss::channel_end(self.arg1)
            ),
            "link" if self.arg1 != 0 => format!("to gpu{} is up again", self.arg0),
            "link" => format!("to gpu{} is down", self.arg0),
            "forfeit" => format!(
                "{} chunks that gpu{} borrowed, which is lost and may still write them",
                self.arg1, self.arg0
            ),
            _ => return None,
        })
    }

    /// What only this type of event has, in words.
    fn more(&self) -> String {
        match self.r#type.as_str() {
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
        2 => uapi::HUVM_EVENT_RETIRED,
        _ => uapi::HUVM_EVENT_FORFEIT,
    };
    (1 << (last + 1)) - 2
}

/// Listens to all events of all clients.
pub(super) fn listen(device: &Device) -> Result<()> {
    Ok(device.listen(mask(device.version()?.abi_minor), true)?)
}

/// Events that the stream of this file has dropped. Those behind the last one that there was room for leave no gap.
pub(super) fn dropped(device: &Device) -> Result<u64> {
    let counters = device.counters(Scope::Space)?;
    Ok(counters.get(uapi::HUVM_CNT_EVENTS_DROPPED))
}

/// The next events, `most` of them; `None` if none come within `wait_ms`.
pub(super) fn next(
    device: &Device,
    wait_ms: u32,
    most: usize,
) -> Result<Option<Vec<uapi::huvm_event>>> {
    match device.has_events(wait_ms)? {
        true => Ok(Some(device.events(most)?)),
        false => Ok(None),
    }
}

/// What was followed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Followed {
    pub(super) events: u64,
    /// Those that are missing between them.
    pub(super) lost: u64,
}

/// Gives `each` the events that `look` finds, `count` at most, until it is over and nothing is left. `look` says `None` where there
/// are none.
pub(super) fn follow(
    count: u64,
    mut look: impl FnMut() -> Result<Option<Vec<uapi::huvm_event>>>,
    mut over: impl FnMut() -> Result<bool>,
    mut each: impl FnMut(&uapi::huvm_event) -> Result<()>,
) -> Result<Followed> {
    let (mut f, mut next, mut last_looks) = (Followed::default(), None, LAST_LOOKS);
    while f.events < count && last_looks != 0 {
        // Asked before the look for events, so that those of the last moment are still taken.
        let is_over = over()?;
        let Some(some) = look()? else {
            if is_over {
                break;
            }
            continue;
        };
        last_looks -= u32::from(is_over);
        for raw in some {
            if f.events == count {
                break;
            }
            let lost = next.map_or(0, |n| raw.seq.saturating_sub(n));
            f.lost = f.lost.saturating_add(lost);
            next = raw.seq.checked_add(1);
            each(&raw)?;
            f.events += 1;
        }
    }
    Ok(f)
}

/// Types of events and their words.
pub(crate) const TYPES: [(u32, &str); 16] = [
    (uapi::HUVM_EVENT_FAULT, "fault"),
    (uapi::HUVM_EVENT_MIGRATE, "migrate"),
    (uapi::HUVM_EVENT_EVICT, "evict"),
    (uapi::HUVM_EVENT_REPLAY, "replay"),
    (uapi::HUVM_EVENT_FATAL, "fatal"),
    (uapi::HUVM_EVENT_CPU_FAULT, "cpu-fault"),
    (uapi::HUVM_EVENT_GPU_LOST, "gpu-lost"),
    (uapi::HUVM_EVENT_LAUNCH_END, "launch-end"),
    (uapi::HUVM_EVENT_RECLAIM, "reclaim"),
    (uapi::HUVM_EVENT_LEND, "lend"),
    (uapi::HUVM_EVENT_WRITE_BACK, "write-back"),
    (uapi::HUVM_EVENT_PREFETCH, "prefetch"),
    (uapi::HUVM_EVENT_RETIRED, "retired"),
    (uapi::HUVM_EVENT_CHANNEL_LOST, "channel-lost"),
    (uapi::HUVM_EVENT_LINK, "link"),
    (uapi::HUVM_EVENT_FORFEIT, "forfeit"),
];

fn kind(t: u16) -> &'static str {
    let known = TYPES.iter().find(|(n, _)| *n == u32::from(t));
    known.map_or("unknown", |(_, word)| word)
}

/// The types that are asked for, of those that a driver of this interface has; all without a list.
///
/// # Errors
/// [`Failure::NotSupported`] for one that the driver does not have.
fn wanted(types: Option<&[String]>, abi_minor: u32) -> Result<u32> {
    let has = mask(abi_minor);
    let Some(types) = types else {
        return Ok(has);
    };
    let mut asked = TYPES
        .iter()
        .filter(|(_, word)| types.iter().any(|t| t == word));
    asked.try_fold(0, |all, (n, word)| match has & 1 << n {
        0 => Err(Failure::NotSupported(
            format!("this driver has no events of type '{word}'"),
            "load the module that came with this uvmctl".into(),
        )),
        bit => Ok(all | bit),
    })
}

fn print(out: &Out, event: &Event) -> Result<()> {
    out.stream("event", event, std::slice::from_ref(event), || {
        let what = event.of_gpu().unwrap_or_else(|| {
            format!(
                "pid {:<6} {} {} {}{}",
                event.pid,
                event.va,
                out.bytes(event.length_bytes),
                event.cause,
                event.more()
            )
        });
        format!(
            "{:>12.6}  {:<12} {:<5} {what}\n",
            event.time_ns as f64 / 1e9,
            event.r#type,
            event.place,
        )
    })
}

/// Whether nobody reads any more what is written to a pipe or a socket.
fn unread(output: impl AsFd) -> bool {
    let mut fd = [PollFd::new(&output, PollFlags::empty())];
    // Of what did not answer it is not known: the next write tells.
    let answered = poll(&mut fd, Some(&Timespec::default())).is_ok();
    let gone = PollFlags::ERR | PollFlags::HUP;
    answered && fd.iter().any(|f| f.revents().intersects(gone))
}

/// Waits until there is something to print, or nobody to print it for: it may be long until a write would tell.
fn wait(mut there: impl FnMut() -> Result<bool>, mut unread: impl FnMut() -> bool) -> Result<()> {
    while !there()? {
        if unread() {
            return Err(Failure::Closed);
        }
    }
    Ok(())
}

pub(super) fn run(out: &Out, e: &Events) -> Result<()> {
    let mut left = e.count.unwrap_or(u64::MAX);
    if let Some(all) = out.saved::<Event>("event")? {
        for event in all {
            let event = out.adopt(event);
            if left == 0 {
                break;
            }
            if e.types.as_ref().is_none_or(|t| t.contains(&event.r#type)) {
                print(out, &event)?;
                left -= 1;
            }
        }
        return Ok(());
    }
    let device = out.device()?;
    let types = wanted(e.types.as_deref(), device.version()?.abi_minor)?;
    device.listen(types, true)?;
    let mut lost = 0;
    while left != 0 {
        wait(
            || Ok(device.has_events(LOOK_MS)?),
            || unread(std::io::stdout()),
        )?;
        for raw in device.events(256)? {
            if raw.dropped > lost {
                out.note(&format!(
                    "uvmctl: {} events were lost here",
                    raw.dropped - lost
                ));
                lost = raw.dropped;
            }
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
        assert_eq!(mask(2) & 1 << uapi::HUVM_EVENT_CHANNEL_LOST, 0);
        // This one, and whatever comes after it, has all that this tool knows: each has a word.
        for minor in [uapi::HUVM_ABI_MINOR, 9] {
            let known = (1..32).filter(|t| kind(*t) != "unknown");
            assert_eq!(known.fold(0, |all, t| all | 1 << t), mask(minor), "{minor}");
        }
    }

    /// Catches a wait that goes on when the reader left, a reader that is there taken for gone, and a file for a pipe without one.
    #[test]
    fn a_reader_that_leaves_ends_the_wait() {
        use std::process::{Command, Stdio};
        // A child that another test begins just then has the other end for a moment.
        fn left(output: impl AsFd) -> bool {
            let pause = || std::thread::sleep(std::time::Duration::from_millis(5));
            (0..1000).any(|_| {
                pause();
                unread(&output)
            })
        }
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pipe = child.stdin.take().unwrap();
        assert!(!unread(&pipe));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(left(&pipe));
        let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(!unread(&one));
        drop(other);
        assert!(left(&one));
        assert!(!unread(std::fs::File::open("/dev/null").unwrap()));
        let ended = wait(|| Ok(false), || unread(&pipe));
        assert!(matches!(ended, Err(Failure::Closed)), "{ended:?}");
        // What is there is printed first.
        assert!(wait(|| Ok(true), || true).is_ok());
        let mut looks = 0;
        let there = || {
            looks += 1;
            Ok(looks == 3)
        };
        assert!(wait(there, || false).is_ok());
        assert_eq!(looks, 3);
    }

    /// Events with these numbers.
    fn raw(seqs: std::ops::Range<u64>) -> Vec<uapi::huvm_event> {
        let of = |seq| uapi::huvm_event {
            seq,
            ..Default::default()
        };
        seqs.map(of).collect()
    }

    /// What is followed of these looks, and then of ones that always find something: events, lost ones. It is over before the second look.
    fn followed(looks: Vec<Option<Vec<uapi::huvm_event>>>, count: u64) -> (u64, u64) {
        let (mut looks, mut left, mut given) = (looks.into_iter(), 2, 0);
        let look = || Ok(looks.next().unwrap_or(Some(raw(0..1))));
        let over = || {
            left -= i32::from(left != 0);
            Ok(left == 0)
        };
        let each = |_: &_| {
            given += 1;
            Ok(())
        };
        let f = follow(count, look, over, each).unwrap();
        assert_eq!(f.events, given);
        (f.events, f.lost)
    }

    /// Catches events of the last moment that are left out, and an end that others at work put off for ever.
    #[test]
    fn it_ends_with_all_that_was_there() {
        assert_eq!(followed(vec![Some(raw(3..5)), None], u64::MAX), (2, 0));
        let last = vec![None, Some(raw(3..5)), Some(raw(7..8)), None];
        assert_eq!(followed(last, u64::MAX), (3, 2));
        let (events, _) = followed(Vec::new(), u64::MAX);
        assert_eq!(events, u64::from(LAST_LOOKS) + 1);
        assert_eq!(followed(vec![Some(raw(0..9))], 4), (4, 0));
        assert_eq!(followed(Vec::new(), 0), (0, 0));
    }

    #[test]
    fn only_what_is_asked_for() {
        let types = |words: &[&str]| -> Vec<String> { words.iter().map(|w| (*w).into()).collect() };
        let minor = uapi::HUVM_ABI_MINOR;
        assert_eq!(wanted(None, minor).unwrap(), mask(minor));
        assert_eq!(
            wanted(Some(&types(&["gpu-lost", "fault"])), minor).unwrap(),
            1 << uapi::HUVM_EVENT_GPU_LOST | 1 << uapi::HUVM_EVENT_FAULT
        );
        let older = wanted(Some(&types(&["fault", "link"])), 2).unwrap_err();
        assert!(older.to_string().contains("'link'"), "{older}");
    }
}
