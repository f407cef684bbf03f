// SPDX-License-Identifier: GPL-2.0
//! Workloads whose lists are all written before the clock starts, so that the CPU is the driver's while jobs run side by side.
//!
//! A tape has a workload's passes with fewer touches: of what a stretch of about 128 MiB touches in one piece of 64 KiB, the
//! first read and the first write; of what fits its GPU, one touch of each piece in a pass, a write if there was one. All are of
//! the piece's first page, so that a page that was there once does not look new. What the GPU computes meanwhile stays. A driver that serves a fault brings 64 KiB at least (16 pages, the big page of every preset),
//! so what is left out are touches that find their page, or that fault beside one that does. Blocks touch several pages at
//! once, as warps do. All that is for the emulator: each touch is an event of its clock, which a job that fits makes millions of.

use super::super::expected::{count_wrong, memory_after};
use super::super::job::{Load, Seat};
use super::super::steps::{self, play, prepare, Ready};
use super::corun::Part;
use crate::exit::{Failure, Result};
use crate::host;
use huvm_workloads::{First, Step, Touch, Trace, Workload};
use libhuvm::{Device, Managed, Places};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Pages of a piece: 64 KiB.
const PIECE: u32 = 16;
/// Touches of a launch at most: few launches, yet a launch is a small part of a pass.
const TOUCHES: usize = 16_384;
/// Passes that differ: an algorithm that swaps two arrays repeats every other pass.
pub(super) const PERIOD: u32 = 2;

/// Passes of a workload, to be repeated.
pub(super) struct Tape {
    pub(super) workload: Workload,
    passes: Vec<Vec<Step>>,
}

impl Tape {
    /// Of a workload; `fits`: one that fits its GPU.
    pub(super) fn of(workload: Workload, fits: bool) -> Tape {
        let mut passes: Vec<Vec<Step>> = Vec::new();
        for nr in 0..PERIOD {
            let pass = if fits {
                once(workload.pass(nr))
            } else {
                joined(workload.pass(nr).map(thinned))
            };
            if !passes.contains(&pass) {
                passes.push(pass);
            }
        }
        Tape { workload, passes }
    }

    /// Of a workload of the catalog whose data stands for `full`, from a folder where [`Tape::record`] left it, if it is there: to draw
    /// the edges of a large graph takes an emulated CPU minutes.
    ///
    /// # Errors
    /// The file is none of ours.
    pub(super) fn load(
        workload: Workload,
        full: Option<u64>,
        fits: bool,
        folder: Option<&Path>,
    ) -> Result<Tape> {
        let Some(path) = folder.map(|f| f.join(file_name(&workload, full, fits))) else {
            return Ok(Tape::of(workload, fits));
        };
        match std::fs::read(&path) {
            Ok(bytes) => {
                let passes = decode(&bytes);
                let passes = passes.ok_or_else(|| Failure::file(&path, "no tape"))?;
                Ok(Tape { workload, passes })
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Tape::of(workload, fits)),
            Err(e) => Err(Failure::file(&path, e)),
        }
    }

    /// Writes a workload's tape to a folder where it is not there yet; its name. `None` for one that is not of touches alone,
    /// and made at once.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn record(
        workload: Workload,
        full: Option<u64>,
        fits: bool,
        folder: &Path,
    ) -> Result<Option<String>> {
        let name = file_name(&workload, full, fits);
        let path = folder.join(&name);
        if !path.exists() {
            let tape = Tape::of(workload, fits);
            let Some(bytes) = encode(&tape.passes) else {
                return Ok(None);
            };
            std::fs::write(&path, bytes).map_err(|e| Failure::file(&path, e))?;
        }
        Ok(Some(name))
    }

    /// Steps of pass `nr`.
    fn pass(&self, nr: u32) -> &[Step] {
        let nr = nr as usize % self.passes.len().max(1);
        self.passes.get(nr).map_or(&[], Vec::as_slice)
    }
}

fn file_name(workload: &Workload, full: Option<u64>, fits: bool) -> String {
    let full = full.map_or(String::new(), |full| format!("-of-{full}"));
    let fits = if fits { "-fits" } else { "" };
    format!(
        "{}-{}{full}{fits}.tape",
        workload.name,
        workload.footprint()
    )
}

/// Passes in little-endian words of 32 bits: how many; of each, how many steps; of each step its computing time (low, high), how
/// many touches; of each touch twice the allocation plus 1 for a write, then the page. Instead of so many touches `u32::MAX`:
/// the allocation in the first word is dead. `None` if there is another step.
pub(crate) fn encode(passes: &[Vec<Step>]) -> Option<Vec<u8>> {
    let mut words = vec![u32::try_from(passes.len()).ok()?];
    for pass in passes {
        words.push(u32::try_from(pass.len()).ok()?);
        for step in pass {
            let t = match step {
                Step::Trace(t) => t,
                Step::Discard { alloc } => {
                    words.extend([*alloc, 0, u32::MAX]);
                    continue;
                }
                _ => return None,
            };
            // CAST: low and high half.
            words.extend([t.compute_ns as u32, (t.compute_ns >> 32) as u32]);
            words.push(u32::try_from(t.touches.len()).ok()?);
            for t in &t.touches {
                words.extend([t.alloc.checked_mul(2)? | u32::from(t.write), t.page]);
            }
        }
    }
    Some(words.into_iter().flat_map(u32::to_le_bytes).collect())
}

/// What [`encode`] made.
pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<Vec<Step>>> {
    let mut words = bytes.chunks_exact(4).map(|w| {
        let w: [u8; 4] = w.try_into().unwrap_or_default();
        u32::from_le_bytes(w)
    });
    let mut passes = Vec::new();
    for _ in 0..words.next()? {
        let mut pass = Vec::new();
        for _ in 0..words.next()? {
            let (low, high, count) = (words.next()?, words.next()?, words.next()?);
            if count == u32::MAX {
                pass.push(Step::Discard { alloc: low });
                continue;
            }
            let compute_ns = u64::from(low) | u64::from(high) << 32;
            let mut touches = Vec::new();
            for _ in 0..count {
                let (alloc, page) = (words.next()?, words.next()?);
                touches.push(Touch {
                    alloc: alloc >> 1,
                    page,
                    write: alloc & 1 != 0,
                });
            }
            pass.push(Step::Trace(Trace {
                touches,
                compute_ns,
            }));
        }
        passes.push(pass);
    }
    // Nothing behind it, and something in it.
    (words.next().is_none() && bytes.len() % 4 == 0 && !passes.is_empty()).then_some(passes)
}

fn to_first_page(touch: &mut Touch) {
    touch.page -= touch.page % PIECE;
}

/// A step without the touches of pieces that it touched before.
fn thinned(step: Step) -> Step {
    match step {
        Step::Trace(Trace {
            mut touches,
            compute_ns,
        }) => {
            let mut seen = HashSet::new();
            touches.iter_mut().for_each(to_first_page);
            touches.retain(|t: &Touch| seen.insert((t.alloc, t.page, t.write)));
            Step::Trace(Trace {
                touches,
                compute_ns,
            })
        }
        other => other,
    }
}

/// A pass that touches each piece once, where it did so first; a write if it ever wrote there. What stands between traces
/// parts them.
fn once(steps: impl Iterator<Item = Step>) -> Vec<Step> {
    let mut out = Vec::new();
    let (mut all, mut seen) = (Trace::default(), HashMap::new());
    for step in steps {
        match step {
            Step::Trace(t) => {
                all.compute_ns = all.compute_ns.saturating_add(t.compute_ns);
                for mut touch in t.touches {
                    to_first_page(&mut touch);
                    let next = all.touches.len();
                    let nr = *seen.entry((touch.alloc, touch.page)).or_insert(next);
                    match all.touches.get_mut(nr) {
                        Some(t) => t.write |= touch.write,
                        None => all.touches.push(touch),
                    }
                }
            }
            other => {
                seen.clear();
                out.extend(taken(&mut all));
                out.push(other);
            }
        }
    }
    out.extend(taken(&mut all));
    out
}

/// A trace, if it has touches, with nothing left behind.
fn taken(trace: &mut Trace) -> Option<Step> {
    let trace = std::mem::take(trace);
    (!trace.touches.is_empty()).then_some(Step::Trace(trace))
}

/// Steps with traces joined up to [`TOUCHES`].
fn joined(steps: impl Iterator<Item = Step>) -> Vec<Step> {
    let mut out: Vec<Step> = Vec::new();
    for step in steps {
        match (out.last_mut(), step) {
            (Some(Step::Trace(a)), Step::Trace(b))
                if a.touches.len() + b.touches.len() <= TOUCHES =>
            {
                a.touches.extend(b.touches);
                a.compute_ns = a.compute_ns.saturating_add(b.compute_ns);
            }
            (_, step) => out.push(step),
        }
    }
    out
}

/// A tape with memory, ready to be played.
pub(super) struct Player {
    tape: Arc<Tape>,
    ranges: Vec<Managed>,
    /// For each pass of the tape, its steps.
    ready: Vec<Vec<Ready>>,
    /// Set: the pass that is being made is of no use any more.
    stop: Arc<AtomicBool>,
}

impl Player {
    /// Allocates, fills what the CPU fills, writes all lists. `phantom`: there are no contents, so nothing is filled; what the
    /// GPU touches first is on the host from its first eviction on, as if it had come from there.
    ///
    /// # Errors
    /// As [`host::has_room`]; no memory.
    pub(super) fn new(
        device: &Device,
        part: &Part,
        phantom: bool,
        stop: &Arc<AtomicBool>,
    ) -> Result<Player> {
        let tape = &part.tape;
        if !phantom {
            host::has_room(steps::filled(&tape.workload))?;
        }
        let mut ranges = Vec::new();
        for a in &tape.workload.allocs {
            let mut range = device.alloc(a.bytes)?;
            match &a.first {
                First::Cpu(init) if !phantom => init.fill(0, range.as_mut_slice()),
                First::Cpu(_) | First::Gpu => {}
            }
            ranges.push(range);
        }
        let places = Places::of(&ranges);
        let mut ready = Vec::new();
        for pass in &tape.passes {
            let shape = (part.blocks, part.lanes);
            let steps = pass
                .iter()
                .map(|step| prepare((device, part.gpu), step.clone(), &places, shape));
            ready.push(steps.collect::<Result<Vec<_>>>()?);
        }
        Ok(Player {
            tape: tape.clone(),
            ranges,
            ready,
            stop: stop.clone(),
        })
    }
}

impl Load for Player {
    fn bytes(&self) -> u64 {
        self.tape.workload.footprint()
    }

    /// As that of `Steps`; cut short when nobody wants it any more.
    fn pass(&mut self, at: &Seat, nr: u32) -> Result<()> {
        let nr = nr as usize % self.ready.len().max(1);
        let steps = self.ready.get(nr).into_iter().flatten().map(Ok);
        let goes_on = || !self.stop.load(Ordering::Relaxed);
        play(at, &mut self.ranges, steps, goes_on)
    }

    fn wrong(&self, passes: u32) -> Result<u64> {
        let allocs = &self.tape.workload.allocs;
        let expected = memory_after(allocs, passes, |nr| Ok(self.tape.pass(nr)))?;
        Ok(count_wrong(&self.ranges, &expected))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use huvm_workloads::{find, Ask};

    fn touch(page: u32, write: bool) -> Touch {
        Touch {
            alloc: 0,
            page,
            write,
        }
    }

    fn trace(touches: Vec<Touch>) -> Step {
        Step::Trace(Trace {
            touches,
            compute_ns: 10,
        })
    }

    /// Catches a write that is lost behind a read of the same piece, and computing time that goes with the touches.
    #[test]
    fn of_a_piece_one_read_and_one_write_stay() {
        let all = vec![
            touch(3, false),
            touch(4, true),
            touch(5, true),
            touch(15, false),
            touch(16, false),
        ];
        let want = vec![touch(0, false), touch(0, true), touch(16, false)];
        assert_eq!(thinned(trace(all)), trace(want));
    }

    /// Catches a write that is lost behind a read, a piece that is there twice, and one of another allocation taken for it.
    #[test]
    fn what_fits_touches_a_piece_once() {
        let touch_of = |alloc, page| Touch {
            alloc,
            ..touch(page, false)
        };
        let cpu = Step::Discard { alloc: 0 };
        let steps = vec![
            trace(vec![touch(3, false), touch(17, true)]),
            trace(vec![touch(5, true), touch_of(1, 2)]),
            cpu.clone(),
            trace(vec![touch(3, false)]),
        ];
        let got = once(steps.into_iter());
        let first = Step::Trace(Trace {
            touches: vec![touch(0, true), touch(16, true), touch_of(1, 0)],
            compute_ns: 20,
        });
        assert_eq!(got, [first, cpu, trace(vec![touch(0, false)])]);
    }

    /// Catches traces joined across what the CPU does, or beyond what a launch holds.
    #[test]
    fn traces_are_joined_up_to_a_launch() {
        let long = |n: usize| trace(vec![touch(1, false); n]);
        let cpu = Step::Discard { alloc: 0 };
        let steps = vec![long(TOUCHES - 1), long(1), long(1), cpu.clone(), long(2)];
        let got = joined(steps.into_iter());
        let of = |s: &Step| match s {
            Step::Trace(t) => t.touches.len(),
            _ => 0,
        };
        assert_eq!(got.iter().map(of).collect::<Vec<_>>(), [TOUCHES, 1, 0, 2]);
        let Some(Step::Trace(t)) = got.first() else {
            panic!()
        };
        assert_eq!(t.compute_ns, 20);
    }

    /// Catches a field lost on the way to a file and back, and a file that is cut short taken for a whole one.
    #[test]
    fn a_tape_comes_back_from_its_file() {
        let long = Step::Trace(Trace {
            touches: vec![touch(7, true), touch(9, false)],
            compute_ns: 5 << 33,
        });
        let dead = Step::Discard { alloc: 3 };
        let passes = vec![vec![long, dead], vec![trace(vec![touch(1, false)])]];
        let bytes = encode(&passes).unwrap();
        assert_eq!(decode(&bytes), Some(passes));
        for n in 0..bytes.len() {
            assert_eq!(decode(&bytes[..n]), None, "{n}");
        }
        let cpu = Step::Cpu {
            at: huvm_workloads::At::start(0),
            bytes: 1,
            write: false,
        };
        assert_eq!(encode(&[vec![cpu]]), None);
    }

    /// Catches a tape of one size played for the same that stands for another one: their batches differ.
    #[test]
    fn each_size_that_is_stood_for_has_a_tape() {
        let dir = std::env::temp_dir().join(format!("uvmctl-tapes-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let made = |full| {
            let ask = Ask {
                full,
                ..Ask::bytes(8 << 20)
            };
            find("vgg16").unwrap().make(&ask).unwrap()
        };
        let fulls = [None, Some(1 << 30), Some(24 << 30)];
        let record = |full| Tape::record(made(full), full, true, &dir).unwrap();
        let names: HashSet<_> = fulls.map(record).into_iter().flatten().collect();
        let load = |full| Tape::load(made(full), full, true, Some(&dir)).unwrap();
        let all = fulls.map(load);
        for (full, tape) in fulls.into_iter().zip(&all) {
            assert!(tape.passes == Tape::of(made(full), true).passes);
        }
        let [own, one, large] = &all;
        assert!(own.passes != large.passes && one.passes != large.passes);
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(names.len(), 3);
    }

    /// Catches a tape that takes one of PageRank's two arrays for the other.
    #[test]
    fn a_tape_has_the_passes_that_differ() {
        let tape = |name: &str| {
            let made = find(name).and_then(|e| e.make(&Ask::bytes(16 << 20)).ok());
            made.map(|w| Tape::of(w, false).passes.len())
        };
        assert_eq!(tape("pagerank"), Some(2));
        assert_eq!(tape("resnet50"), Some(1));
    }
}
