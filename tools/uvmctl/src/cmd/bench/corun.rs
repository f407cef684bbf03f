// SPDX-License-Identifier: GPL-2.0
//! Several jobs at the same time, each on a GPU or, pass by pass together, on several.
//!
//! All jobs run until each has its measured passes, so that what is measured is always beside all the others: first every
//! job makes its warm-up passes, or more; passes that begin after that count, as many as fit until the slowest job has
//! its number. The figures of a job that made more are scaled to that number.

use super::super::figures::Figures;
use super::super::job::{is_phantom, Load, Seat};
use super::tape::{Player, Tape};
use crate::catalog::{find, Found};
use crate::exit::{Failure, Result};
use crate::out::Out;
use huvm_workloads::{Ask, Workload};
use indicatif::ProgressBar;
use libhuvm::device::Counters;
use libhuvm::{Scope, Spent, Threads};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Longest wait of a job's part for the others' same pass.
const TOGETHER: Duration = Duration::from_secs(120);

/// Blocks of a job that fits and touches of each at once: few events.
const FITS: (u32, u32) = (16, 32);
/// Those of one that does not fit: 320 touches wait at the same time, each for 64 KiB.
const FAULTS: (u32, u32) = (40, 8);

/// How much data a job has.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) bytes: u64,
    /// What it stands for ([`Ask::full`]).
    pub(super) full: Option<u64>,
}

/// A part of a job: what runs on one of its GPUs.
pub(super) struct Part {
    pub(super) gpu: u32,
    pub(super) workload: &'static str,
    pub(super) size: Size,
    pub(super) tape: Arc<Tape>,
    /// Blocks that make its touches, and how many each makes at once.
    pub(super) blocks: u32,
    pub(super) lanes: u32,
}

impl Part {
    /// With so much data; its tape may be in `tapes`. `fits`: it fits its GPU.
    pub(super) fn new(
        gpu: u32,
        workload: &'static str,
        size: Size,
        fits: bool,
        tapes: Option<&Path>,
    ) -> Result<Part> {
        let (blocks, lanes) = if fits { FITS } else { FAULTS };
        let tape = Tape::load(made(workload, size)?, size.full, fits, tapes)?;
        Ok(Part {
            gpu,
            workload,
            size,
            blocks,
            lanes,
            tape: Arc::new(tape),
        })
    }
}

/// A workload of the catalog with so much data.
pub(super) fn made(workload: &str, size: Size) -> Result<Workload> {
    let Found::Entry(entry) = find(workload)? else {
        return Err(Failure::Usage(format!("'{workload}' has no steps")));
    };
    // A job has no last pass, after which it would give back what it reads in the next one.
    let ask = Ask {
        bytes: size.bytes,
        full: size.full,
        seed: 1,
        passes: Some(u32::MAX),
    };
    let made = entry.make(&ask);
    made.map_err(|e| Failure::Usage(e.to_string()))
}

/// A job: parts that begin each pass together.
pub(super) struct Task {
    pub(super) role: &'static str,
    pub(super) parts: Vec<Part>,
}

/// How long to run.
#[derive(Clone, Copy)]
pub(super) struct Passes {
    pub(super) warmup: u32,
    pub(super) measured: u32,
    /// The CPU checks the data afterwards, if there is any.
    pub(super) verify: bool,
}

/// What a part did: figures of the measured passes, scaled to their number, and how many it really made of them.
#[derive(Clone)]
pub(super) struct Did {
    pub(super) role: &'static str,
    pub(super) figures: Figures,
    pub(super) made: u32,
    /// What its data stands for.
    pub(super) full: Option<u64>,
}

/// Runs jobs at the same time; for each part, in their order, what it did.
///
/// # Errors
/// The first failure.
pub(super) fn run(out: &Out, tasks: &[&Task], passes: Passes) -> Result<Vec<Did>> {
    let stop = Arc::new(AtomicBool::new(false));
    // Whether data is checked: then a pass is made whole.
    let cut = Arc::new(AtomicBool::new(false));
    let mut players = Vec::new();
    for (nr, task) in tasks.iter().enumerate() {
        for part in &task.parts {
            let device = out.device()?;
            device.register(part.gpu)?;
            let info = device.gpu_info(part.gpu)?;
            let phantom = is_phantom(&info);
            let stop = if phantom { &stop } else { &cut };
            let load = Player::new(&device, part, phantom, stop)?;
            let bar = ProgressBar::hidden();
            let gpu = part.gpu;
            let seat = Seat { device, gpu, bar };
            players.push((nr, task.role, part, seat, load, info));
        }
    }
    let board = Board::new(tasks.iter().map(|t| t.parts.len()), passes, &stop);
    let ended: Vec<Result<Ended>> = std::thread::scope(|s| {
        let threads: Vec<_> = players
            .iter_mut()
            .map(|(nr, _, _, seat, load, _)| {
                let board = &board;
                s.spawn(move || {
                    let ended = play(board, *nr, seat, load);
                    if ended.is_err() {
                        board.give_up();
                    }
                    ended
                })
            })
            .collect();
        let join = |t: std::thread::ScopedJoinHandle<'_, _>| {
            t.join().unwrap_or_else(|p| std::panic::resume_unwind(p))
        };
        threads.into_iter().map(join).collect()
    });
    let (mut readings, mut failure) = (Vec::new(), None);
    for e in ended {
        match e {
            Ok(e) => readings.push(e),
            // What failed says more than those that it stopped.
            Err(e) if matches!(&e, Failure::Wrong(w) if w == GIVEN_UP) => {
                failure = failure.or(Some(e));
            }
            Err(e) => failure = Some(e),
        }
    }
    if let Some(e) = failure {
        return Err(e);
    }
    let mut all = Vec::new();
    for ((_, role, part, seat, load, info), ended) in players.iter().zip(readings) {
        let figures = Figures::between(&ended.before, &ended.after);
        let moved = figures.clone();
        let figures = figures.on_links(&seat.device, info, &moved)?;
        let mut figures = figures.driven(ended.driver.0, ended.driver.1);
        figures.scale(ended.made, passes.measured);
        figures.workload = part.workload.into();
        figures.gpu = part.gpu;
        figures.bytes = load.bytes();
        let phantom = is_phantom(info);
        figures.data = if phantom { "phantom" } else { "real" }.into();
        if passes.verify && !phantom {
            figures.mismatches = Some(load.wrong(ended.passes)?);
        }
        all.push(Did {
            role,
            figures,
            made: ended.made,
            full: part.size.full,
        });
    }
    Ok(all)
}

/// Counters of a GPU, and what the driver's threads have spent on it.
type Reading = (Counters, Option<Spent>);

/// Readings of a part's GPU around its measured passes.
struct Ended {
    before: Counters,
    after: Counters,
    /// What the driver's threads had spent then.
    driver: (Option<Spent>, Option<Spent>),
    /// Measured passes.
    made: u32,
    /// All passes.
    passes: u32,
}

fn play(board: &Board, task: usize, seat: &Seat, load: &mut Player) -> Result<Ended> {
    let threads = Threads::of(seat.gpu);
    let read = || -> Result<Reading> {
        let counters = seat.device.counters(Scope::Gpu(seat.gpu))?;
        Ok((counters, threads.as_ref().and_then(Threads::spent)))
    };
    let (mut before, mut after, mut passes) = (None, None, 0u32);
    loop {
        load.pass(seat, passes)?;
        passes = passes.saturating_add(1);
        let next = board.arrive(task)?;
        if next.counted {
            after = Some(read()?);
        }
        if next.begin {
            before = Some(read()?);
        }
        if next.stop {
            break;
        }
    }
    let made = board.made(task);
    match (before, after) {
        (Some((before, began)), Some((after, ended))) => Ok(Ended {
            before,
            after,
            driver: (began, ended),
            made,
            passes,
        }),
        _ => Err(Failure::Wrong(GIVEN_UP.into())),
    }
}

/// What a part says that ended because another one did.
const GIVEN_UP: &str = "a job was stopped because another one failed";

/// How far all jobs are.
struct Board {
    state: Mutex<State>,
    changed: Condvar,
    passes: Passes,
    stop: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    tasks: Vec<Progress>,
    /// All have warmed up: passes that begin now count.
    open: bool,
    /// All have their passes.
    over: bool,
    failed: bool,
}

#[derive(Clone, Copy, Default)]
struct Progress {
    parts: usize,
    arrived: usize,
    passes: u32,
    /// The pass that is being made counts if it ends in time.
    measuring: bool,
    made: u32,
    last: Next,
}

/// What a part does after a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Next {
    /// The pass counted.
    counted: bool,
    /// From now on passes count.
    begin: bool,
    stop: bool,
}

impl State {
    /// A part has made a pass. Whether it was its task's last one to do so.
    fn arrive(&mut self, task: usize, passes: Passes) -> bool {
        let open = self.open;
        let over = self.over;
        let Some(t) = self.tasks.get_mut(task) else {
            return true;
        };
        t.arrived += 1;
        if t.arrived < t.parts {
            return false;
        }
        let counted = t.measuring && !over;
        if counted {
            t.made = t.made.saturating_add(1);
        }
        t.passes = t.passes.saturating_add(1);
        t.arrived = 0;
        let warm = self.tasks.iter().all(|t| t.passes >= passes.warmup);
        self.open = open || warm;
        self.over = over || self.tasks.iter().all(|t| t.made >= passes.measured);
        if let Some(t) = self.tasks.get_mut(task) {
            let begin = self.open && !t.measuring;
            t.measuring |= begin;
            t.last = Next {
                counted,
                begin,
                stop: self.over,
            };
        }
        true
    }
}

impl Board {
    fn new(parts: impl Iterator<Item = usize>, passes: Passes, stop: &Arc<AtomicBool>) -> Board {
        let task = |parts| Progress {
            parts,
            ..Progress::default()
        };
        Board {
            state: Mutex::new(State {
                tasks: parts.map(task).collect(),
                ..State::default()
            }),
            changed: Condvar::new(),
            passes,
            stop: stop.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_up(&self) {
        self.lock().failed = true;
        self.stop.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// A part of a task has made a pass; waits for its other parts.
    fn arrive(&self, task: usize) -> Result<Next> {
        let mut state = self.lock();
        let passes_of = |s: &State| s.tasks.get(task).map_or(0, |t| t.passes);
        let mine = passes_of(&state);
        if state.arrive(task, self.passes) {
            if state.over {
                self.stop.store(true, Ordering::Relaxed);
            }
            self.changed.notify_all();
        } else {
            let waiting = |s: &mut State| passes_of(s) == mine && !s.failed;
            let woken = self.changed.wait_timeout_while(state, TOGETHER, waiting);
            let (guard, late) = woken.unwrap_or_else(PoisonError::into_inner);
            state = guard;
            if late.timed_out() {
                return Err(Failure::Wrong("a part of a job does not end".into()));
            }
        }
        if state.failed {
            return Err(Failure::Wrong(GIVEN_UP.into()));
        }
        Ok(state.tasks.get(task).map_or(Next::default(), |t| t.last))
    }

    /// Measured passes of a task.
    fn made(&self, task: usize) -> u32 {
        self.lock().tasks.get(task).map_or(0, |t| t.made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(parts: &[usize], warmup: u32, measured: u32) -> Board {
        let passes = Passes {
            warmup,
            measured,
            verify: false,
        };
        let stop = Arc::new(AtomicBool::new(false));
        Board::new(parts.iter().copied(), passes, &stop)
    }

    fn next(counted: bool, begin: bool, stop: bool) -> Next {
        Next {
            counted,
            begin,
            stop,
        }
    }

    /// Catches a window that opens before the slow job is warm, a pass counted that began before it, one counted after the
    /// end, and an end before the slow job has its passes.
    #[test]
    fn all_run_until_the_slowest_has_its_passes() {
        let b = board(&[1, 1], 1, 2);
        // The quick job makes many passes before the slow one has warmed up.
        assert_eq!(b.arrive(0).unwrap(), next(false, false, false));
        assert_eq!(b.arrive(0).unwrap(), next(false, false, false));
        assert_eq!(b.arrive(1).unwrap(), next(false, true, false));
        // This one began before.
        assert_eq!(b.arrive(0).unwrap(), next(false, true, false));
        for _ in 0..3 {
            assert_eq!(b.arrive(0).unwrap(), next(true, false, false));
        }
        assert_eq!(b.arrive(1).unwrap(), next(true, false, false));
        assert_eq!(b.arrive(1).unwrap(), next(true, false, true));
        assert!(b.stop.load(Ordering::Relaxed));
        assert_eq!(b.arrive(0).unwrap(), next(false, false, true));
        assert_eq!((b.made(0), b.made(1)), (3, 2));
    }

    /// Catches a part that goes on without the others.
    #[test]
    fn parts_of_a_job_pass_together() {
        let b = board(&[2], 0, 1);
        std::thread::scope(|s| {
            for _ in 0..2 {
                let b = &b;
                s.spawn(move || {
                    assert_eq!(b.arrive(0).unwrap(), next(false, true, false));
                    assert_eq!(b.arrive(0).unwrap(), next(true, false, true));
                });
            }
        });
        assert_eq!(b.made(0), 1);
    }

    /// Catches parts that wait for one that failed.
    #[test]
    fn a_failure_ends_all() {
        let b = board(&[2], 0, 1);
        std::thread::scope(|s| {
            let waits = s.spawn(|| b.arrive(0));
            b.give_up();
            assert!(waits.join().unwrap().is_err());
        });
    }
}
