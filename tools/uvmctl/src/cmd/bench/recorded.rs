// SPDX-License-Identifier: GPL-2.0
//! `timeline`: a few telling jobs, each recorded from its first fault to the end of its last launch, for pictures. (`recorded-jobs` does that
//! with several on four GPUs: [`super::paper`].)
//!
//! GPU 0 works on 1.5 times its memory, the GPUs that it is linked with idle and lend what is free. The rows are there to say what
//! the pictures are of, and that the data was right; the other experiments measure.
//!
//! Events are taken out of the driver's ring while the job runs, by a thread that does nothing else, and written when it is over.

use super::super::copies::Copies;
use super::super::events::{self, Event};
use super::super::figures::memory_of;
use super::super::trace;
use super::lineup::{Lend, Lineup, Machine, BASE, BEST, WHOLE};
use super::measured::{compare, Measured};
use super::oversub::{self, Subject};
use crate::catalog::find;
use crate::cli::Bench;
use crate::exit::{Failure, Result};
use crate::out::Out;
use crate::signals;
use libhuvm::{uapi, Device};
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Its name in the rows.
pub(super) const NAME: &str = "timeline";
/// The GPU that works.
const GPU: u32 = 0;
/// Its data, as a share of its memory.
const RATIO: f64 = 1.5;
/// How long the thread waits for events before it looks whether it is to end, ms.
const LOOK_MS: u32 = 20;
/// Most events of a recording: 64 MiB of them.
const MOST: usize = 1 << 20;

/// A case: what runs, and under what.
struct Case {
    /// Also its workload.
    name: &'static str,
    presets: &'static [&'static str],
}

/// One that streams, and one that jumps.
const CASES: [Case; 2] = [
    Case {
        name: "scan",
        presets: &[BASE, WHOLE, BEST],
    },
    Case {
        name: "pagerank",
        presets: &[BASE, BEST],
    },
];

/// Runs all of it.
pub(super) fn run(out: &Out, args: &Bench) -> Result<Vec<Measured>> {
    let names = CASES.map(|c| c.name);
    if let Some(none) = args.cases.iter().find(|c| !names.contains(&c.as_str())) {
        let names = names.join(", ");
        return Err(Failure::Usage(format!(
            "there is no case '{none}', but {names}"
        )));
    }
    let device = out.device()?;
    let lineup = Lineup::of(&device)?;
    let machine = Machine::around(&device, GPU)?;
    let memory = memory_of(&device, GPU)?;
    let mut rows = Vec::new();
    for case in &CASES {
        if !args.cases.is_empty() && args.cases.iter().all(|c| c != case.name) {
            continue;
        }
        let found = find(case.name)?;
        let subject = Subject::new(args, case.name, &found, (memory, RATIO))?;
        for policy in &lineup.chosen(case.presets, &args.presets)? {
            out.note(&format!("{}: {}", case.name, policy.name));
            machine.choose(&device, policy, Lend::Free)?;
            let name = format!("{NAME}-{}-{}", case.name, policy.name);
            let into = args.recordings.as_deref();
            let f = kept(out, into, &name, || oversub::job(out, args, &subject))?;
            let mut row = Measured::of(case.name, policy, GPU, "borrower", &f);
            row.experiment = NAME.into();
            row.full_bytes = subject.full;
            // CAST: at most 16.
            row.gpus = machine.gpus().count() as u32;
            rows.push(row);
        }
    }
    compare(&mut rows);
    Ok(rows)
}

/// What happened while something ran.
#[derive(Default)]
struct Recording {
    events: Vec<Event>,
    lost: u64,
}

/// Does `work`, and records what the driver tells meanwhile: in a file of that name in a folder, which is made, if there is to be any.
///
/// # Errors
/// Those of the work; the file's.
pub(super) fn kept<T>(
    out: &Out,
    dir: Option<&Path>,
    name: &str,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    if let Some(dir) = dir {
        std::fs::create_dir_all(dir).map_err(|e| Failure::file(dir, e))?;
    }
    let (did, recording) = recorded(work)?;
    if recording.lost != 0 {
        let lost = recording.lost;
        out.warn(&format!("{name}: {lost} events are not in the recording"));
    }
    if let Some(dir) = dir {
        recording.write(&dir.join(format!("{name}.jsonl")))?;
    }
    Ok(did)
}

/// Does `work`, and records what the driver tells meanwhile.
fn recorded<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, Recording)> {
    let listener = Device::open()?;
    events::listen(&listener)?;
    let copies = Copies::begin();
    let over = AtomicBool::new(false);
    let (did, taken) = std::thread::scope(|s| {
        let taker = s.spawn(|| take(&listener, &over));
        let end = AtLast(&over);
        let did = work();
        drop(end);
        let taken = taker.join();
        (did, taken.unwrap_or_else(|p| std::panic::resume_unwind(p)))
    });
    let copies = copies.map(Copies::end).unwrap_or_default();
    let (did, (raw, lost)) = (did?, taken?);
    let mut events: Vec<Event> = raw.iter().map(Event::new).collect();
    events.extend(copies.copies);
    Ok((
        did,
        Recording {
            events: at_work(events),
            lost: lost.saturating_add(copies.lost),
        },
    ))
}

/// Says that it is over, however the work ends: the taker goes on until then.
struct AtLast<'a>(&'a AtomicBool);

impl Drop for AtLast<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Takes events until there are none and it is over. How many were lost, beside.
fn take(listener: &Device, over: &AtomicBool) -> Result<(Vec<uapi::huvm_event>, u64)> {
    let (mut all, mut beyond) = (Vec::new(), 0u64);
    // The work ends at a signal as well; what it did is not told then.
    let over = || signals::check().map(|()| over.load(Ordering::Relaxed));
    let look = || events::next(listener, LOOK_MS, 1024);
    let told = events::follow(u64::MAX, look, over, |raw| {
        match all.len() < MOST {
            true => all.push(*raw),
            false => beyond = beyond.saturating_add(1),
        }
        Ok(())
    })?;
    let lost = told.lost.max(events::dropped(listener)?);
    Ok((all, lost.saturating_add(beyond)))
}

/// From the first fault of a GPU to the end of the last launch: without what the CPU does before and after.
fn at_work(mut events: Vec<Event>) -> Vec<Event> {
    let of = |kind: &'static str| {
        let kinds = events.iter().filter(move |e| e.r#type == kind);
        kinds.map(|e| e.time_ns)
    };
    let (first, last) = (of("fault").min(), of("launch-end").max());
    let (first, last) = (first.unwrap_or(0), last.unwrap_or(u64::MAX));
    events.retain(|e| (first..=last).contains(&e.time_ns));
    events
}

impl Recording {
    /// As `trace record` does.
    fn write(&self, path: &Path) -> Result<()> {
        let file = File::create(path).map_err(|e| Failure::file(path, e))?;
        let mut recording = trace::Recording::new(BufWriter::new(file), path);
        for e in &self.events {
            recording.line(e)?;
        }
        recording.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, time_ns: u64) -> Event {
        Event {
            r#type: kind.into(),
            time_ns,
            ..Event::default()
        }
    }

    /// Catches a taker that is waited for until it hears an end that nobody tells it of.
    #[test]
    fn it_is_over_when_the_work_panics() {
        let over = AtomicBool::new(false);
        let work = || {
            let _end = AtLast(&over);
            assert!(!over.load(Ordering::Relaxed));
            std::panic::resume_unwind(Box::new(()))
        };
        let ended: std::thread::Result<()> = std::panic::catch_unwind(work);
        assert!(ended.is_err() && over.load(Ordering::Relaxed));
    }

    /// Catches the filling and the check of the data taken for what the GPU does.
    #[test]
    fn a_recording_is_of_the_gpu_at_work() {
        let all = vec![
            event("cpu-fault", 1),
            event("fault", 5),
            event("launch-end", 9),
            event("fault", 12),
            event("launch-end", 20),
            event("migrate", 21),
            event("copy", 4),
            event("copy", 6),
        ];
        let left: Vec<u64> = at_work(all).iter().map(|e| e.time_ns).collect();
        assert_eq!(left, [5, 9, 12, 20, 6]);
        // Without either end all of it stays.
        assert_eq!(at_work(vec![event("migrate", 3)]).len(), 1);
    }
}
