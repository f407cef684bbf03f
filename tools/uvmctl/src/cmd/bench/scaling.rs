// SPDX-License-Identifier: GPL-2.0
//! `scaling`: what a fault and an eviction cost with more chunks, more GPUs, more clients.
//!
//! | case | what grows |
//! | --- | --- |
//! | `chunks-1k` to `chunks-64k` | chunks of GPU 0, nearly all of them in use; one client |
//! | `gpus-1` to `gpus-16` | GPUs with 1 K chunks each, one client on all of them; all of one machine, as many evictions of each GPU |
//! | `full-1` to `full-16` | the same GPUs, lending on: one is measured, the others' memory is full, so that it asks and nobody lends |
//! | `clients-1` to `clients-64` | clients on GPU 0, which has 1 K chunks |
//!
//! Each has two rows: `fault`, blocks touched one at a time while there are free chunks, and `evict`, the same when there are none.
//! GPUs and clients take turns, so that every fault comes alone: what is shared by the faults of a batch would hide what grows.
//! What works in the background has time to end before a measurement begins; what it does after the last fault is not counted.
//! The cost is what the driver's threads spend; on a machine with one CPU of one instruction a nanosecond these are instructions.

use super::super::inject::for_tests;
use super::flat::AXES;
use super::lineup::{deploy, Lend, Lineup, Policy, BASE, BEST};
use super::measured::Measured;
use super::scene::limit;
use super::toucher::{Toucher, STEP};
use crate::cli::Bench;
use crate::exit::{Failure, Result};
use crate::out::Out;
use crate::units::CHUNK;
use libhuvm::device::Counters;
use libhuvm::{uapi, Device, Scope, Spent, Threads};
use std::time::Duration;

/// Its name in the rows.
pub(super) const NAME: &str = "scaling";
/// Roles of the rows.
pub(super) const FAULT: &str = "fault";
pub(super) const EVICT: &str = "evict";
/// Faults of a row: for each pass that is asked for; where GPUs are what grows, on each that is measured, whatever is asked for. An
/// evicted block takes 2 MiB of host memory.
const SAMPLE: u64 = 128;
const OF_EACH: u64 = 128;
/// And where they are full: evictions are begun several at a time, and more or fewer of them fall into the time that is measured.
const OF_FULL: u64 = 512;
/// How long what works in the background is waited for. The driver's threads look at their policy each 100 ms.
const SETTLED: Duration = Duration::from_millis(150);
/// Chunks of a GPU where chunks are not what grows.
const CHUNKS: u32 = 1024;
/// Blocks touched beyond the memory before evictions are measured.
const BEYOND: u64 = 8;
/// Blocks that a full neighbour touches beyond those, at most, until it has nothing to lend: pre-eviction leaves it some that are free, and
/// now and then one more than it keeps for itself.
const FULLER: u64 = 64;
/// Who is measured: demand alone, and everything that there is.
const PRESETS: [&str; 2] = [BASE, BEST];

/// A case.
#[derive(Clone, Debug, PartialEq)]
struct Point {
    /// What grows.
    axis: &'static str,
    case: String,
    chunks: u32,
    /// Those that are measured.
    gpus: u32,
    clients: u32,
    /// Others, whose memory is full and which would lend.
    full: u32,
}

impl Point {
    fn new(axis: &'static str, n: impl std::fmt::Display, chunks: u32) -> Point {
        Point {
            axis,
            case: format!("{axis}-{n}"),
            chunks,
            gpus: 1,
            clients: 1,
            full: 0,
        }
    }

    /// Faults on each GPU, of `sample` where they are not fixed.
    fn of_each(&self, sample: u64) -> u64 {
        let [_, of_gpus, of_full, _] = AXES;
        match self.axis {
            axis if axis == of_gpus => OF_EACH,
            axis if axis == of_full => OF_FULL,
            _ => sample,
        }
    }
}

/// All cases of a machine with so many GPUs of so many chunks. A GPU keeps some of its memory for itself.
fn points(gpus: u32, chunks: u32) -> Vec<Point> {
    let [of_chunks, of_gpus, of_full, of_clients] = AXES;
    let mut all = Vec::new();
    for k in [1u32, 4, 16, 64] {
        let wanted = k * 1024;
        if chunks >= wanted - wanted / 64 {
            all.push(Point::new(of_chunks, format!("{k}k"), wanted.min(chunks)));
        }
    }
    let few = CHUNKS.min(chunks);
    let some = [1u32, 2, 4, 8, 16];
    all.extend(some.iter().filter(|n| **n <= gpus).map(|n| Point {
        gpus: *n,
        ..Point::new(of_gpus, n, few)
    }));
    let neighbours = |n: &&u32| gpus > 1 && **n <= gpus;
    all.extend([1u32, 4, 16].iter().filter(neighbours).map(|n| Point {
        full: n - 1,
        ..Point::new(of_full, n, few)
    }));
    all.extend([1u32, 4, 16, 64].iter().map(|n| Point {
        clients: *n,
        ..Point::new(of_clients, n, few)
    }));
    all
}

/// Runs all of it.
pub(super) fn run(out: &Out, args: &Bench) -> Result<Vec<Measured>> {
    let device = out.device()?;
    for_tests(&device)?;
    let gpus: Vec<u32> = device.gpus()?.iter().map(|g| g.gpu).collect();
    let mut chunks = u32::MAX;
    for gpu in &gpus {
        chunks = chunks.min(device.gpu_info(*gpu)?.chunk_count);
    }
    // CAST: at most 16 GPUs.
    let all = points(gpus.len() as u32, chunks);
    let names: Vec<&str> = all.iter().map(|p| p.case.as_str()).collect();
    if let Some(none) = args.cases.iter().find(|c| !names.contains(&c.as_str())) {
        let names = names.join(", ");
        return Err(Failure::Usage(format!(
            "this machine has no case '{none}', but {names}"
        )));
    }
    let lineup = Lineup::of(&device)?;
    let policies = lineup.chosen(&PRESETS, &args.presets)?;
    let bench = Scaling {
        out,
        device,
        gpus,
        chunks,
        sample: SAMPLE.saturating_mul(args.iterations.into()),
    };
    let done = (|| {
        let mut rows = Vec::new();
        for point in &all {
            if !args.cases.is_empty() && !args.cases.contains(&point.case) {
                continue;
            }
            for policy in &policies {
                rows.extend(bench.point(point, policy)?);
            }
        }
        Ok(rows)
    })();
    // Whatever happened, the GPUs have their memory again.
    bench.limit(0)?;
    done
}

struct Scaling<'a> {
    out: &'a Out,
    device: Device,
    gpus: Vec<u32>,
    /// Chunks of each.
    chunks: u32,
    /// Faults of a row.
    sample: u64,
}

impl Scaling<'_> {
    fn limit(&self, chunks: u32) -> Result<()> {
        // All of them is no limit.
        let chunks = if chunks == self.chunks { 0 } else { chunks };
        limit(&self.device, &self.gpus, chunks)
    }

    /// Goes on until a GPU of which so many blocks were touched has nothing to lend, and nothing is being evicted that would be free soon.
    fn fill_up(&self, t: &mut Toucher, touched: u64) -> Result<()> {
        for more in 0..=FULLER {
            t.fill(touched + more)?;
            std::thread::sleep(SETTLED);
            let (mem, lend) = (self.device.mem_info(t.gpu)?, self.device.lend_info(t.gpu)?);
            if mem.free <= lend.keep_chunks {
                return Ok(());
            }
        }
        Err(Failure::Wrong(format!("GPU {} does not get full", t.gpu)))
    }

    fn point(&self, p: &Point, policy: &Policy) -> Result<[Measured; 2]> {
        self.out.note(&format!("{}: {}", p.case, policy.name));
        deploy(&self.device, &self.gpus, policy, Lend::Nothing)?;
        self.limit(p.chunks)?;
        // CAST: at most 16.
        let (gpus, others) = (p.gpus as usize, p.full as usize);
        let gpus = self.gpus.get(..gpus).unwrap_or(&self.gpus);
        let others = self.gpus.iter().skip(gpus.len()).take(others);
        let others: Vec<u32> = others.copied().collect();
        let clients = u64::from(p.clients.max(1));
        let chunks = u64::from(p.chunks) / clients;
        // Whole turns of all, in half of the memory at most.
        let turns = p.of_each(self.sample).div_ceil(STEP * clients);
        let turns = turns.min(chunks / 2 / STEP).max(1);
        let each = turns * STEP;
        // Room for what is measured, and more than pre-eviction keeps free.
        let part = chunks.saturating_sub(chunks / 8).saturating_sub(each);
        let full = chunks.saturating_add(BEYOND.div_ceil(clients));
        // None of them may lend before it is full.
        let mut beside = Vec::new();
        for gpu in &others {
            let device = self.out.device()?;
            device.register(*gpu)?;
            beside.push(Toucher::new(&device, *gpu, full + FULLER)?);
        }
        fill(&mut beside, full)?;
        let [_, _, of_full, _] = AXES;
        if p.axis == of_full {
            let all: Vec<u32> = gpus.iter().copied().chain(others).collect();
            deploy(&self.device, &all, policy, Lend::Free)?;
            beside.iter_mut().try_for_each(|t| self.fill_up(t, full))?;
        }
        let mut touchers = Vec::new();
        for _ in 0..p.clients {
            let device = self.out.device()?;
            for gpu in gpus {
                device.register(*gpu)?;
            }
            for gpu in gpus {
                touchers.push(Toucher::new(&device, *gpu, full + each)?);
            }
        }
        let around = |role: &str, touchers: &mut [Toucher]| -> Result<Measured> {
            std::thread::sleep(SETTLED);
            let before = Reading::of(&self.device, gpus)?;
            let time_ns = steps(touchers, turns)?;
            let after = Reading::of(&self.device, gpus)?;
            let added = after.since(&before);
            Ok(Measured {
                workload: "touches".into(),
                gpus: self.gpus.len() as u32,
                clients: Some(p.clients),
                memory_bytes: Some(u64::from(p.chunks) * CHUNK),
                ratio: (full as f64 / chunks.max(1) as f64 * 1e4).round() / 1e4,
                passes: 1,
                time_ns,
                case: p.case.clone(),
                role: role.into(),
                preset: policy.name.clone(),
                recipe: policy.recipe(),
                ..added
            })
        };
        fill(&mut touchers, part)?;
        let fault = around(FAULT, &mut touchers)?;
        fill(&mut touchers, full)?;
        let evict = around(EVICT, &mut touchers)?;
        Ok([fault, evict])
    }
}

fn fill(touchers: &mut [Toucher], until: u64) -> Result<()> {
    touchers.iter_mut().try_for_each(|t| t.fill(until))
}

/// Each in its turn; the time of all, ns.
fn steps(touchers: &mut [Toucher], turns: u64) -> Result<u64> {
    let mut time_ns = 0u64;
    for _ in 0..turns {
        for t in touchers.iter_mut() {
            time_ns = time_ns.saturating_add(t.step()?);
        }
    }
    Ok(time_ns)
}

/// Counters of several GPUs, and what the driver's threads have spent on each.
struct Reading(Vec<(Counters, Option<Spent>)>);

impl Reading {
    fn of(device: &Device, gpus: &[u32]) -> Result<Reading> {
        let one = |gpu: &u32| -> Result<_> {
            let spent = Threads::of(*gpu).and_then(|t| t.spent());
            Ok((device.counters(Scope::Gpu(*gpu))?, spent))
        };
        Ok(Reading(gpus.iter().map(one).collect::<Result<_>>()?))
    }

    /// What was added, all GPUs together.
    fn since(&self, before: &Reading) -> Measured {
        let mut sum = Measured {
            experiment: NAME.into(),
            ..Measured::default()
        };
        let mut driver = Some(0u64);
        for ((now, spent), (old, had)) in self.0.iter().zip(&before.0) {
            let added = now.since(old);
            let plus = |to: &mut u64, what| *to = to.saturating_add(added.get(what));
            plus(&mut sum.faults, uapi::HUVM_CNT_FAULTS);
            plus(&mut sum.evictions, uapi::HUVM_CNT_EVICTIONS);
            plus(&mut sum.h2d_bytes, uapi::HUVM_CNT_BYTES_H2D);
            plus(&mut sum.d2h_bytes, uapi::HUVM_CNT_BYTES_D2H);
            plus(&mut sum.p2p_bytes, uapi::HUVM_CNT_BYTES_P2P);
            for (to, what) in [
                (&mut sum.served, uapi::HUVM_CNT_FAULTS_SERVED),
                (&mut sum.service_ns, uapi::HUVM_CNT_SERVICE_NS),
                (&mut sum.wait_ns, uapi::HUVM_CNT_WAIT_NS),
                (&mut sum.evict_ns, uapi::HUVM_CNT_EVICT_NS),
            ] {
                plus(to.get_or_insert(0), what);
            }
            let spent = spent.zip(*had).map(|(now, had)| now.since(had).all_ns);
            driver = driver.zip(spent).map(|(all, ns)| all.saturating_add(ns));
        }
        sum.driver_ns = driver;
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a case that the machine has no GPUs or chunks for, and a sweep that leaves its end out.
    #[test]
    fn a_machine_has_the_cases_that_it_can_run() {
        let names = |gpus, chunks| -> Vec<String> {
            points(gpus, chunks).into_iter().map(|p| p.case).collect()
        };
        let small = names(2, 1020);
        assert_eq!(
            small,
            [
                "chunks-1k",
                "gpus-1",
                "gpus-2",
                "full-1",
                "clients-1",
                "clients-4",
                "clients-16",
                "clients-64"
            ]
        );
        let large = names(16, 65535);
        assert!(large.contains(&"chunks-64k".into()) && large.contains(&"gpus-16".into()));
        let most = points(16, 65535);
        let fits = |p: &Point| p.chunks <= 65535 && p.gpus + p.full <= 16;
        assert!(most.iter().all(fits) && most.iter().any(|p| p.full == 15));
    }

    /// Catches a cost that is of fewer evictions on each GPU where there are more GPUs.
    #[test]
    fn where_gpus_grow_each_evicts_as_much() {
        for p in points(16, 65535) {
            let want = match p.case.split_once('-') {
                Some(("gpus", _)) => 128,
                Some(("full", _)) => 512,
                _ => 384,
            };
            assert_eq!(p.of_each(384), want, "{}", p.case);
        }
    }
}
