// SPDX-License-Identifier: GPL-2.0
//! `trace record|report|replay`: events in a file, one JSON object a line.

use super::at_work::{self, AtWork};
use super::copies::{self, Copies};
use super::events::{self, Event};
use super::figures::Figures;
use super::gpu;
use super::policy;
use super::preset;
use crate::cli::TraceVerb;
use crate::exit::{Failure, Result};
use crate::out::Out;
use crate::row::{extra, field, Cell, Field, Row};
use crate::signals;
use crate::units::{self, BLOCK};
use libhuvm::{List, Places, Program, Scope, Touch};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// Accesses of a replay that are under way at a time, as those of a warp are.
const WARP: u32 = 32;
/// Lines of a report's last table.
const BUSIEST: usize = 10;
/// Standard input in place of a file, as with `--from`.
const STDIN: &str = "-";
/// How long a recorded command may go on after a signal that was for us; one from the terminal was for it as well.
const GRACE: Duration = Duration::from_secs(10);

/// The exit code, if nothing failed: that of a command that was recorded, else 0.
pub(super) fn run(out: &Out, verb: &TraceVerb) -> Result<u8> {
    match verb {
        TraceVerb::Record {
            output,
            count,
            seconds,
            command,
        } => return record(out, output, count.unwrap_or(u64::MAX), *seconds, command),
        TraceVerb::Report { file } => report(out, file.as_deref())?,
        TraceVerb::Replay { file, gpu, preset } => {
            replay(out, &load(out, file)?, gpu, preset.as_deref())?;
        }
    }
    Ok(0)
}

fn report(out: &Out, file: Option<&Path>) -> Result<()> {
    if out.offline() && file.is_some() {
        return Err(Failure::Usage("a recording or --from, not both".into()));
    }
    let saved = out.saved("trace.report")?.and_then(|mut all| all.pop());
    let report = match (saved, file) {
        (Some(last), _) => out.adopt(last),
        (None, Some(file)) => summarise(&load(out, file)?),
        (None, None) => {
            return Err(Failure::Usage(
                "a recording is wanted: 'uvmctl trace report FILE', or --from FILE".into(),
            ))
        }
    };
    out.show("trace.report", &report, &report.lines, || {
        paint(out, &report)
    })
}

/// What was recorded.
#[derive(Default, Serialize)]
pub(super) struct Recorded {
    events: u64,
    copies: u64,
    dropped: u64,
    file: String,
}

impl Row for Recorded {
    fn fields(&self) -> Vec<Field> {
        vec![
            field("events", "EVENTS", Cell::Count(self.events)),
            field("copies", "COPIES", Cell::Count(self.copies)),
            field("dropped", "DROPPED", Cell::Count(self.dropped)),
            field("file", "FILE", Cell::text(&self.file)),
        ]
    }
}

fn record(
    out: &Out,
    path: &Path,
    count: u64,
    seconds: Option<u32>,
    command: &[String],
) -> Result<u8> {
    if path.as_os_str() == STDIN {
        return Err(Failure::Usage(
            "'-' is standard input; a recording is written to a file ('./-' is one)".into(),
        ));
    }
    let device = out.device()?;
    // A file that is there stays as it is for who may not listen.
    events::listen(&device)?;
    let (file, (copies, mut subject)) = opened(path, || {
        signals::catch()?;
        Ok((Copies::begin(), Subject::begin(command)?))
    })?;
    let end = seconds.map(|s| Instant::now() + Duration::from_secs(s.into()));
    let mut recording = Recording::new(BufWriter::new(file), path);
    let over = || {
        let late = end.is_some_and(|e| Instant::now() >= e);
        let gone = match &mut subject {
            Some(s) => s.ended()?.is_some(),
            None => signals::came(),
        };
        Ok(late || gone)
    };
    let look = || events::next(&device, 100, 256);
    let told = events::follow(count, look, over, |raw| recording.line(&Event::new(raw)))?;
    let mut lost = told.lost;
    if told.events < count {
        lost = lost.max(events::dropped(&device)?);
    }
    let copies = copies.map(Copies::end).unwrap_or_default();
    for copy in &copies.copies {
        recording.line(copy)?;
    }
    recording.end()?;
    let done = Recorded {
        events: told.events,
        copies: copies.copies.len() as u64,
        dropped: lost.saturating_add(copies.lost),
        file: path.display().to_string(),
    };
    let status = subject.map(Subject::wait).transpose()?;
    if let Some(failed) = status.filter(|s| !s.success()) {
        out.warn(&format!("the recorded command ended with {failed}"));
    }
    let shown = out.show("trace.record", &done, std::slice::from_ref(&done), || {
        format!(
            "{} events and {} copies written to {}, {} lost\n",
            done.events, done.copies, done.file, done.dropped
        )
    });
    match shown {
        // Nobody is left to hear of it, but for the command's code.
        Ok(()) | Err(Failure::Closed) => {}
        Err(e) => return Err(e),
    }
    Ok(status.map_or(0, code_of))
}

/// Opens a file to write to, and then begins. What the file had is gone only when that went well.
fn opened<T>(path: &Path, begin: impl FnOnce() -> Result<T>) -> Result<(File, T)> {
    let failed = |e| Failure::file(path, e);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    let file = options.open(path).map_err(failed)?;
    let begun = begin()?;
    // A pipe or a device has nothing that could go.
    if file.metadata().map_err(failed)?.is_file() {
        file.set_len(0).map_err(failed)?;
    }
    Ok((file, begun))
}

/// A command's exit code as a shell has it: that of one that was killed is the signal's number and 128.
fn code_of(status: ExitStatus) -> u8 {
    let killed = status.signal().and_then(|s| s.checked_add(128));
    let code = status.code().or(killed);
    code.and_then(|c| u8::try_from(c).ok()).unwrap_or(1)
}

/// The command that is recorded. It does not outlive its recording, however that ends.
struct Subject {
    child: Child,
    /// When it is ended, if a signal came to us.
    until: Option<Instant>,
}

impl Subject {
    /// Starts it, if there is one.
    fn begin(command: &[String]) -> Result<Option<Subject>> {
        let [program, args @ ..] = command else {
            return Ok(None);
        };
        let child = Command::new(program).args(args).spawn();
        let child = child.map_err(|e| Failure::File(format!("cannot run {program}: {e}")))?;
        Ok(Some(Subject { child, until: None }))
    }

    /// How it ended, if it has.
    fn ended(&mut self) -> Result<Option<ExitStatus>> {
        if signals::came() {
            let now = Instant::now();
            if now >= *self.until.get_or_insert(now + GRACE) {
                let _gone_already = self.child.kill();
            }
        }
        let ended = self.child.try_wait();
        ended.map_err(|e| Failure::File(format!("the recorded command: {e}")))
    }

    /// Waits for its end.
    fn wait(mut self) -> Result<ExitStatus> {
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        let _gone_already = self.child.kill();
        let _status = self.child.wait();
    }
}

/// A recording that is being written.
pub(super) struct Recording<'a, W: Write> {
    file: W,
    path: &'a Path,
}

impl<'a, W: Write> Recording<'a, W> {
    pub(super) fn new(file: W, path: &'a Path) -> Self {
        Recording { file, path }
    }

    pub(super) fn line(&mut self, event: &Event) -> Result<()> {
        let line = serde_json::to_string(event).unwrap_or_default();
        writeln!(self.file, "{line}").map_err(|e| Failure::file(self.path, e))
    }

    /// Writes all that is not in the file yet.
    pub(super) fn end(mut self) -> Result<()> {
        let failed = |e| Failure::file(self.path, e);
        self.file.flush().map_err(failed)
    }
}

/// A line of what `events --json` wrote; a recording has the events alone.
#[derive(Deserialize)]
struct Document {
    data: Event,
}

fn load(out: &Out, path: &Path) -> Result<Vec<Event>> {
    if path.as_os_str() == STDIN {
        return read(out, std::io::stdin().lock(), path);
    }
    let file = File::open(path).map_err(|e| Failure::file(path, e))?;
    read(out, BufReader::new(file), path)
}

/// What a recording makes of a report and of a replay: for who gives it anything.
pub(crate) fn given(out: &Out, text: &str) -> Result<()> {
    let events = read(out, text.as_bytes(), Path::new("-"))?;
    let report = summarise(&events);
    let (list, blocks) = accesses(&events);
    debug_assert!(list.iter().all(|(at, _)| at / BLOCK < blocks));
    out.show("trace.report", &report, &report.lines, || {
        paint(out, &report)
    })
}

/// The events of a recording. Blank lines are none; who was killed while it wrote left a last line that is cut, which is told.
fn read(out: &Out, mut file: impl BufRead, path: &Path) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    let mut line = Vec::new();
    for n in 1u64.. {
        line.clear();
        let bytes = file.read_until(b'\n', &mut line);
        if bytes.map_err(|e| Failure::file(path, e))? == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&line);
        if text.trim().is_empty() {
            continue;
        }
        match parse(&text) {
            Ok(event) => events.push(event),
            // What begins so is no recording.
            Err(_) if !text.ends_with('\n') && !events.is_empty() => {
                let name = path.display();
                out.warn(&format!("{name}:{n}: the last line is cut, and left out"));
            }
            Err(e) => return Err(Failure::File(format!("{}:{n}: {e}", path.display()))),
        }
    }
    Ok(events)
}

/// A line of a recording, or of what `events --json` wrote.
fn parse(line: &str) -> serde_json::Result<Event> {
    match line.contains("\"data\"") {
        true => serde_json::from_str::<Document>(line).map(|d| d.data),
        false => serde_json::from_str(line),
    }
}

/// Address of an event, 0 if the file has none that can be read.
fn va(e: &Event) -> u64 {
    u64::from_str_radix(e.va.trim_start_matches("0x"), 16).unwrap_or(0)
}

/// Events of one type and cause.
#[derive(Default, Serialize, Deserialize, Debug, PartialEq, Eq)]
pub(super) struct Line {
    r#type: String,
    cause: String,
    events: u64,
    /// Where events of this type say how many.
    bytes: Option<u64>,
}

impl Row for Line {
    fn fields(&self) -> Vec<Field> {
        vec![
            field("type", "TYPE", Cell::text(&self.r#type)),
            field("cause", "CAUSE", Cell::text(&self.cause)),
            field("events", "EVENTS", Cell::Count(self.events)),
            field("bytes", "SIZE", self.bytes.map_or(Cell::None, Cell::Bytes)),
        ]
    }
}

#[derive(Default, Serialize, Deserialize, Debug, PartialEq, Eq)]
struct Busy {
    pid: u32,
    block: String,
    faults: u64,
}

impl Row for Busy {
    fn fields(&self) -> Vec<Field> {
        vec![
            field("pid", "PID", Cell::count(self.pid)),
            field("block", "BLOCK", Cell::text(&self.block)),
            field("faults", "FAULTS", Cell::Count(self.faults)),
        ]
    }
}

#[derive(Serialize, Deserialize, Debug)]
struct Report {
    events: u64,
    lost: u64,
    span_ns: u64,
    lines: Vec<Line>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gpus: Vec<AtWork>,
    busiest: Vec<Busy>,
}

fn summarise(events: &[Event]) -> Report {
    let mut lines: BTreeMap<(&str, &str), (u64, u64)> = BTreeMap::new();
    let mut blocks: BTreeMap<(u32, u64), u64> = BTreeMap::new();
    for e in events {
        let line = lines.entry((&e.r#type, &e.cause)).or_default();
        line.0 += 1;
        line.1 = line.1.saturating_add(e.length_bytes);
        if e.r#type == "fault" {
            *blocks.entry((e.pid, va(e) & !(BLOCK - 1))).or_default() += 1;
        }
    }
    let mut busiest: Vec<_> = blocks.into_iter().collect();
    // Stable: blocks with as many faults stay in order of address.
    busiest.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    // Copies are no part of the stream, and have no numbers.
    let numbered = || events.iter().filter(|e| e.r#type != copies::TYPE);
    let lost = numbered()
        .zip(numbered().skip(1))
        .map(|(a, b)| b.seq.saturating_sub(a.seq).saturating_sub(1))
        .fold(0u64, u64::saturating_add);
    let times = || events.iter().map(|e| e.time_ns);
    let first = times().min().unwrap_or(0);
    let span_ns = times().max().unwrap_or(0).saturating_sub(first);
    Report {
        events: events.len() as u64,
        lost,
        span_ns,
        gpus: at_work::of(events, span_ns),
        lines: lines
            .into_iter()
            .map(|((kind, cause), (events, bytes))| Line {
                r#type: kind.into(),
                cause: cause.into(),
                events,
                // An event of no bytes is of something else than memory.
                bytes: (bytes != 0).then_some(bytes),
            })
            .collect(),
        busiest: busiest
            .into_iter()
            .take(BUSIEST)
            .map(|((pid, block), faults)| Busy {
                pid,
                block: format!("{block:#x}"),
                faults,
            })
            .collect(),
    }
}

fn paint(out: &Out, r: &Report) -> String {
    let mut text = format!(
        "{} events over {}, {} lost\n\n",
        r.events,
        units::time(r.span_ns),
        r.lost
    );
    text.push_str(&out.render(&r.lines));
    if !r.gpus.is_empty() {
        text.push('\n');
        text.push_str(&out.render(&r.gpus));
    }
    if !r.busiest.is_empty() {
        text.push('\n');
        text.push_str(&out.render(&r.busiest));
    }
    text
}

/// The page accesses behind a recording's faults, with its blocks packed together in order of process and address: offset
/// of the page, and whether it was written. The second value is the number of blocks.
fn accesses(events: &[Event]) -> (Vec<(u64, bool)>, u64) {
    let faults = || events.iter().filter(|e| e.r#type == "fault");
    let mut blocks: BTreeMap<(u32, u64), u64> =
        faults().map(|e| ((e.pid, va(e) / BLOCK), 0)).collect();
    for (n, slot) in (0..).zip(blocks.values_mut()) {
        *slot = n;
    }
    let list = faults()
        .filter_map(|e| {
            let block = blocks.get(&(e.pid, va(e) / BLOCK))?;
            let page = (va(e) % BLOCK) & !0xfff;
            // Access types 1 and up but 3 (a prefetch) write: write, atomics.
            Some((block * BLOCK + page, !matches!(e.arg0, 0 | 3)))
        })
        .collect();
    (list, blocks.len() as u64)
}

/// Figures of a replay.
#[derive(Default, Serialize)]
pub(super) struct Replayed {
    accesses: u64,
    bytes: u64,
    preset: String,
    time_ns: u64,
    faults: u64,
    h2d_bytes: u64,
    d2h_bytes: u64,
    evictions: u64,
    /// Of the GPU as a whole.
    gpu_preset: String,
}

impl Row for Replayed {
    fn fields(&self) -> Vec<Field> {
        vec![
            field("accesses", "ACCESSES", Cell::Count(self.accesses)),
            field("bytes", "SIZE", Cell::Bytes(self.bytes)),
            field("preset", "PRESET", Cell::text(&self.preset)),
            field("time_ns", "TIME", Cell::Nanos(self.time_ns)),
            field("faults", "FAULTS", Cell::Count(self.faults)),
            field("h2d_bytes", "TO-GPU", Cell::Bytes(self.h2d_bytes)),
            field("d2h_bytes", "TO-HOST", Cell::Bytes(self.d2h_bytes)),
            field("evictions", "EVICTIONS", Cell::Count(self.evictions)),
            extra("gpu_preset", Cell::text(&self.gpu_preset)),
        ]
    }
}

fn replay(out: &Out, events: &[Event], id: &str, preset: Option<&str>) -> Result<()> {
    let (list, blocks) = accesses(events);
    if list.is_empty() {
        return Err(Failure::Failed(
            "the recording has no GPU faults".into(),
            "record while a GPU works: 'uvmctl trace record -o FILE -- uvmctl run scan -r 1.5'"
                .into(),
        ));
    }
    let device = out.device()?;
    let gpu = gpu::index(&device, id)?;
    if let Some(p) = preset {
        policy::choose(&device, Scope::Space, p)?;
        preset::tell(out, &device, &[gpu], p)?;
    }
    device.register(gpu)?;
    let mut ranges = [device.alloc(blocks * BLOCK)?];
    let mut records = List::new(&device, list.len(), WARP)?;
    let touch = |(offset, write): &(u64, bool)| Touch {
        range: 0,
        page: offset / 4096,
        write: *write,
    };
    let touches: Vec<Touch> = list.iter().map(touch).collect();
    records.fill(&Places::of(&ranges), &touches)?;
    let program = Program::replay(&mut ranges, &records, 0)?;
    let before = device.counters(Scope::Gpu(gpu))?;
    let report = device.launch(gpu, &program)?.wait_done()?;
    let after = device.counters(Scope::Gpu(gpu))?;
    let moved = Figures::between(&before, &after);
    let r = Replayed {
        accesses: touches.len() as u64,
        bytes: blocks * BLOCK,
        preset: device.preset(Scope::Space)?,
        gpu_preset: device.preset(Scope::Gpu(gpu))?,
        time_ns: report.time_ns(),
        faults: moved.faults,
        h2d_bytes: moved.h2d_bytes,
        d2h_bytes: moved.d2h_bytes,
        evictions: moved.evictions,
    };
    out.show("trace.replay", &r, std::slice::from_ref(&r), || {
        out.render(std::slice::from_ref(&r))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(seq: u64, kind: &str, pid: u32, va: u64, access: u64) -> Event {
        let line = format!(
            r#"{{"seq":{seq},"time_ns":{},"type":"{kind}","cause":"gpu-fault","pid":{pid},"place":"gpu0",
            "va":"{va:#x}","length_bytes":4096,"arg0":{access},"arg1":1,"dropped":0}}"#,
            seq * 10
        );
        serde_json::from_str(&line).unwrap()
    }

    fn sample() -> Vec<Event> {
        vec![
            event(5, "fault", 1, 0x7f00_0040_1000, 1),
            event(6, "fault", 1, 0x7f00_0000_3000, 0),
            event(9, "migrate", 1, 0x7f00_0000_0000, 0),
            event(10, "fault", 2, 0x7f00_0000_3000, 3),
            event(11, "fault", 1, 0x7f00_0040_2000, 2),
        ]
    }

    /// Catches an event that is not written, and a line that is cut.
    #[test]
    fn what_was_written_is_read() {
        let mut file = Vec::new();
        let mut recording = Recording::new(BufWriter::new(&mut file), Path::new("x"));
        for e in &sample() {
            recording.line(e).unwrap();
        }
        recording.end().unwrap();
        let seqs = |all: Vec<Event>| all.iter().map(|e| e.seq).collect::<Vec<_>>();
        let again = read(&Out::bare(false), file.as_slice(), Path::new("x")).unwrap();
        assert_eq!(seqs(again), seqs(sample()));
    }

    /// Catches an earlier recording that is lost to one which never begins, and its end behind that of a shorter one.
    #[test]
    fn a_file_is_emptied_when_the_recording_begins() {
        let path = std::env::temp_dir().join(format!("uvmctl-keep-{}", std::process::id()));
        std::fs::write(&path, "an earlier recording").unwrap();
        let kept = || std::fs::read_to_string(&path).unwrap();
        assert!(opened(&path, || Subject::begin(&["/nonexistent".into()])).is_err());
        assert_eq!(kept(), "an earlier recording");
        let (mut file, subject) = opened(&path, || Subject::begin(&["true".into()])).unwrap();
        assert_eq!(kept(), "");
        file.write_all(b"new").unwrap();
        assert_eq!(kept(), "new");
        assert!(subject.unwrap().wait().unwrap().success());
        std::fs::remove_file(&path).unwrap();
        // Nothing begins without a file; a device can be one.
        let begin = || -> Result<()> { unreachable!() };
        assert!(opened(Path::new("/nonexistent/x"), begin).is_err());
        assert!(opened(Path::new("/dev/null"), || Ok(())).is_ok());
    }

    /// Catches a command that goes on when its recording failed, and one whose exit code is lost.
    #[test]
    fn a_command_does_not_outlive_its_recording() {
        let begin = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|w| (*w).into()).collect();
            Subject::begin(&words)
        };
        let mut subject = begin(&["sleep", "1000"]).unwrap().unwrap();
        assert!(subject.ended().unwrap().is_none());
        let of_it = format!("/proc/{}", subject.child.id());
        assert!(Path::new(&of_it).exists());
        drop(subject);
        assert!(!Path::new(&of_it).exists());
        for (does, code) in [("true", 0), ("exit 7", 7), ("kill -9 $$", 137)] {
            let subject = begin(&["sh", "-c", does]).unwrap().unwrap();
            assert_eq!(code_of(subject.wait().unwrap()), code, "{does}");
        }
        assert!(begin(&[]).unwrap().is_none());
        assert!(begin(&["/nonexistent"]).is_err());
    }

    #[test]
    fn a_report_counts_and_sees_gaps() {
        let mut all = sample();
        all.insert(3, event(0, "copy", 0, 0, 3));
        let r = summarise(&all);
        assert_eq!((r.events, r.lost, r.lines.len()), (6, 2, 3));
        let r = summarise(&sample());
        assert_eq!((r.events, r.lost, r.span_ns), (5, 2, 60));
        assert_eq!(r.lines.len(), 2);
        assert_eq!((r.lines[0].events, r.lines[0].bytes), (4, Some(16384)));
        assert_eq!(r.busiest[0].block, "0x7f0000400000");
        assert_eq!(r.busiest[0].faults, 2);
        assert_eq!(summarise(&[]).events, 0);
    }

    #[test]
    fn blocks_are_packed_and_order_is_kept() {
        let (list, blocks) = accesses(&sample());
        assert_eq!(blocks, 3);
        assert_eq!(
            list,
            [
                (BLOCK + 0x1000, true),
                (0x3000, false),
                (2 * BLOCK + 0x3000, false),
                (BLOCK + 0x2000, true)
            ]
        );
    }
}
