// SPDX-License-Identifier: GPL-2.0
//! `oversub`: one GPU, jobs that need more memory than it has, under each preset but `demand`, beside the time with memory enough.
//!
//! A job's data is the same at each ratio: it is the GPU's memory that is made smaller, by the driver's call for tests. So the
//! ideal, the same job with all of the memory, is the measure of each row.
//!
//! That memory, before it is made smaller, stands for one of 16 GiB, and what trains has the batch of that ([`Ask::full`]).
//!
//! Streams have an eighth of that memory ahead at most, under each preset (`drivers/policy/src/stream.rs`).
//!
//! `streaming`: what streams, on data of many GiB, as a GPU of today has. Where a GPU's data is phantom the CPU fills none: what the GPU touches
//! first is on the host from its first eviction on, before the measured passes, as if it had come from there.
//!
//! `zero-copy` looks better here than it is: a trace touches one word of a page, and a word is all that crosses the link then.

use super::super::expected::Expected;
use super::super::figures::{memory_of, Figures};
use super::super::inject::for_tests;
use super::super::job::{is_phantom, run_one, Bars, Job, Load, Plan, Seat};
use super::super::steps::Steps;
use super::super::sweep::{self, Spec};
use super::lineup::{Lend, Lineup, Machine, Policy, BASE, BEST, WHOLE};
use super::measured::{there_and_back, Measured};
use super::scene::full;
use super::targets::mean;
use super::BLOCKS;
use crate::catalog::{find, Found};
use crate::cli::{Bench, Experiment, Workload};
use crate::exit::{Failure, Result};
use crate::out::Out;
use crate::row::{field, Cell, Field, Row};
use crate::units::CHUNK;
use huvm_workloads::catalog::CATALOG;
use huvm_workloads::Ask;
use std::sync::Arc;

/// Their names in the rows.
pub(super) const NAME: &str = "oversub";
pub(super) const STREAMING: &str = "streaming";
/// The GPU.
const GPU: u32 = 0;
/// A job's data, as a share of all of the GPU's memory: it fits, with room for the guard and for page tables.
const FILLS: f64 = 0.85;
/// From what nearly fits to what is twice the memory.
const RATIOS: [f64; 5] = [1.1, 1.25, 1.5, 1.87, 2.0];
/// Everybody but `demand`, which is [`BASE`] without a slip of its driver.
const PRESETS: [&str; 7] = [
    BASE,
    "stock-460",
    "preef-host",
    "zero-copy",
    "random",
    WHOLE,
    BEST,
];

/// What goes over its data in order: all of `workloads.md` that is no more than that.
pub(super) const STREAMS: [&str; 7] = [
    "stream-triad",
    "add-vectors",
    "2dconv",
    "3dconv",
    "hotspot",
    "fdtd",
    "pathfinder",
];
/// Where a stream is to use its link.
const STREAM_RATIOS: [f64; 2] = [1.5, 2.0];
/// Those whose streams are prefetched, and what they are measured by.
const STREAM_PRESETS: [&str; 3] = [BASE, WHOLE, BEST];

/// Workloads at ratios that the whole of the experiment has.
pub(super) fn pairs(streaming: bool) -> usize {
    match streaming {
        true => STREAMS.len() * STREAM_RATIOS.len(),
        false => CATALOG.len() * RATIOS.len(),
    }
}

/// Of these, streams at a ratio of `from` and more.
pub(super) fn stream_pairs(streaming: bool, from: f64) -> usize {
    let ratios: &[f64] = if streaming { &STREAM_RATIOS } else { &RATIOS };
    STREAMS.len() * ratios.iter().filter(|r| **r >= from).count()
}

/// Whether a row is of one of these experiments.
pub(super) fn is_one(row: &Measured) -> bool {
    [NAME, STREAMING].contains(&row.experiment.as_str())
}

/// Runs all of it.
pub(super) fn run(out: &Out, args: &Bench) -> Result<Vec<Measured>> {
    let streaming = args.experiment == Experiment::Streaming;
    let experiment = if streaming { STREAMING } else { NAME };
    let names: Vec<&str> = match args.workloads.as_slice() {
        [] if streaming => STREAMS.to_vec(),
        [] => CATALOG.iter().map(|e| e.name).collect(),
        some => some.iter().map(String::as_str).collect(),
    };
    let ratios = match args.ratios.as_slice() {
        [] if streaming => STREAM_RATIOS.to_vec(),
        [] => RATIOS.to_vec(),
        some => some.to_vec(),
    };
    let presets = if streaming {
        STREAM_PRESETS.as_slice()
    } else {
        &PRESETS
    };
    if ratios.iter().any(|r| !(*r > 1.0 && *r <= 16.0)) {
        return Err(Failure::Usage("a ratio is above 1, at most 16".into()));
    }
    // Names are looked at before anything is done.
    let found: Vec<(&str, Found)> = names
        .iter()
        .map(|n| Ok((*n, find(n)?)))
        .collect::<Result<_>>()?;
    let device = out.device()?;
    for_tests(&device)?;
    let memory = memory_of(&device, GPU)?;
    let lineup = Lineup::of(&device)?;
    let machine = Machine::around(&device, GPU)?;
    let policies = lineup.chosen(presets, &args.presets)?;
    let phantom = is_phantom(&device.gpu_info(GPU)?);
    let mut rows = Vec::new();
    let done = (|| {
        for (name, found) in &found {
            device.limit_chunks(GPU, 0)?;
            // With memory enough it is all the same which.
            if let Some(first) = policies.first() {
                machine.choose(&device, first, Lend::Nothing)?;
            }
            out.note(&format!("{name}: with memory enough"));
            let subject = Subject::new(args, name, found, (memory, FILLS))?;
            let subject = subject.contents(!(streaming && phantom));
            let ideal = job(out, args, &subject)?;
            for ratio in &ratios {
                let chunks = limit(ideal.bytes, *ratio);
                let once = |policy: &Policy| -> Result<Measured> {
                    out.note(&format!("{name}, {ratio}: {}", policy.name));
                    machine.choose(&device, policy, Lend::Nothing)?;
                    device.limit_chunks(GPU, chunks)?;
                    let f = job(out, args, &subject)?;
                    let row = row(&f, policy, (*ratio, chunks), ideal.time_ns);
                    Ok(Measured {
                        experiment: experiment.into(),
                        full_bytes: subject.full,
                        ..row
                    })
                };
                rows.extend(there_and_back(&policies, args.again, |p| {
                    Ok(vec![once(p)?])
                })?);
            }
        }
        Ok(rows)
    })();
    // Whatever happened, the GPU has its memory again.
    device.limit_chunks(GPU, 0)?;
    done
}

/// Chunks of a memory that `bytes` are `ratio` times of.
fn limit(bytes: u64, ratio: f64) -> u32 {
    // CAST: a ratio above 1 makes it smaller; a GPU has fewer than 2^32 chunks.
    ((bytes as f64 / CHUNK as f64 / ratio).ceil() as u32).max(1)
}

fn row(f: &Figures, policy: &Policy, (ratio, chunks): (f64, u32), ideal_ns: u64) -> Measured {
    Measured {
        gpus: 1,
        ratio,
        memory_bytes: Some(u64::from(chunks) * CHUNK),
        ideal_ns: Some(ideal_ns),
        // How near it comes to memory enough.
        speedup: super::super::figures::speedup(ideal_ns, f.time_ns),
        ..Measured::of(&f.workload, policy, GPU, "job", f)
    }
}

/// What a job runs, and on how much data: bytes, what share of the GPU's memory that is, and what they stand for ([`Ask::full`]).
pub(super) struct Subject<'n> {
    name: &'n str,
    runs: Runs,
    bytes: u64,
    ratio: f64,
    pub(super) full: Option<u64>,
    /// Its data has contents, which the CPU fills in and checks.
    contents: bool,
}

enum Runs {
    Sweep(Workload),
    Entry(Arc<Expected>),
}

/// Passes of a job before the measured ones.
const WARMUP: u32 = 1;

impl<'n> Subject<'n> {
    /// On data that is `ratio` times a GPU's memory.
    ///
    /// # Errors
    /// Usage: the catalog has none of that size.
    pub(super) fn new(
        args: &Bench,
        name: &'n str,
        found: &Found,
        (memory, ratio): (u64, f64),
    ) -> Result<Subject<'n>> {
        let bytes = (memory as f64 * ratio) as u64;
        let full = full(bytes, memory);
        let runs = match found {
            Found::Sweep(w) => Runs::Sweep(*w),
            Found::Entry(entry) => {
                let ask = Ask {
                    bytes,
                    full,
                    seed: 1,
                    passes: Some(args.iterations.saturating_add(WARMUP)),
                };
                let made = entry.make(&ask);
                Runs::Entry(Expected::of_many(
                    made.map_err(|e| Failure::Usage(e.to_string()))?,
                ))
            }
        };
        Ok(Subject {
            name,
            runs,
            bytes,
            ratio,
            full,
            contents: true,
        })
    }

    fn contents(self, contents: bool) -> Self {
        Subject { contents, ..self }
    }
}

/// One job, from its filling to its check.
pub(super) fn job(out: &Out, args: &Bench, subject: &Subject<'_>) -> Result<Figures> {
    let (iterations, warmup, ratio) = (args.iterations, WARMUP, subject.ratio);
    match &subject.runs {
        Runs::Sweep(w) => sweep::run(
            out,
            &Spec {
                workload: *w,
                gpu: GPU,
                bytes: subject.bytes,
                ratio,
                iterations,
                warmup,
                // Arrays are whole rows of blocks: few, so that three of them are about as large as was asked for.
                blocks: args.blocks.unwrap_or(BLOCKS).min(64),
                verify: subject.contents,
                preset: None,
                compute_ns: 0,
            },
        ),
        Runs::Entry(shared) => {
            let plan = Plan {
                workload: subject.name.into(),
                gpu: GPU,
                ratio,
                iterations,
                warmup,
                verify: subject.contents,
                preset: None,
            };
            let make = |at: &Seat, _: &Plan| {
                let steps = Steps::new(&at.device, shared.clone(), subject.contents)?;
                Ok(Box::new(steps) as Box<dyn Load>)
            };
            run_one(out, Job::new(out, &Bars::new(out), plan, make)?)
        }
    }
}

/// A preset over all rows of it.
#[derive(Default)]
pub(super) struct Mean {
    preset: String,
    rows: u64,
    /// Geometric mean of time over the ideal's.
    slower: f64,
    /// The same of the worst row.
    worst: f64,
    /// Bytes to and from the host, over those of the first preset.
    traffic: Option<f64>,
}

impl Row for Mean {
    fn fields(&self) -> Vec<Field> {
        vec![
            field("preset", "PRESET", Cell::text(&self.preset)),
            field("rows", "ROWS", Cell::Count(self.rows)),
            field("slower", "TIMES-IDEAL", Cell::Ratio(self.slower)),
            field("worst", "WORST", Cell::Ratio(self.worst)),
            field(
                "traffic",
                "TRAFFIC",
                self.traffic.map_or(Cell::None, Cell::Ratio),
            ),
        ]
    }
}

/// The presets, in the order of their first rows.
pub(super) fn summary(rows: &[Measured]) -> Vec<Mean> {
    let mut presets: Vec<&str> = Vec::new();
    for r in rows {
        if !presets.contains(&r.preset.as_str()) {
            presets.push(&r.preset);
        }
    }
    let moved = |preset: &str| -> u64 {
        let of = rows.iter().filter(|r| r.preset == preset);
        of.fold(0u64, |sum, r| {
            sum.saturating_add(r.h2d_bytes).saturating_add(r.d2h_bytes)
        })
    };
    let first = presets.first().map_or(0, |p| moved(p));
    let of = |preset: &&str| {
        let times: Vec<f64> = rows
            .iter()
            .filter(|r| r.preset == *preset)
            .filter_map(|r| Some(r.time_ns as f64 / r.ideal_ns.filter(|n| *n != 0)? as f64))
            .collect();
        Mean {
            preset: (*preset).into(),
            rows: times.len() as u64,
            slower: mean(&times).unwrap_or(1.0),
            worst: times.iter().copied().fold(0.0, f64::max),
            traffic: (first != 0).then(|| moved(preset) as f64 / first as f64),
        }
    };
    presets.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(preset: &str, time_ns: u64, ideal_ns: u64, h2d_bytes: u64) -> Measured {
        Measured {
            preset: preset.into(),
            time_ns,
            ideal_ns: Some(ideal_ns),
            h2d_bytes,
            ..Measured::default()
        }
    }

    #[test]
    fn a_preset_is_the_geometric_mean_of_its_rows() {
        let rows = [
            measured("a", 20, 10, 100),
            measured("b", 10, 10, 30),
            measured("a", 80, 10, 100),
            measured("b", 40, 10, 20),
        ];
        let all = summary(&rows);
        let text: Vec<_> = all
            .iter()
            .map(|m| {
                (
                    m.preset.as_str(),
                    m.rows,
                    m.slower.round(),
                    m.worst,
                    m.traffic,
                )
            })
            .collect();
        assert_eq!(
            text,
            [
                ("a", 2, 4.0, 8.0, Some(1.0)),
                ("b", 2, 2.0, 4.0, Some(0.25))
            ]
        );
    }

    /// Catches a stream that `make bench` leaves out: it has a guest for each.
    #[test]
    fn make_bench_has_the_same_streams() {
        let script = include_str!("../../../../build/bench.sh");
        assert!(script.contains(&STREAMS.join(" ")));
    }

    #[test]
    fn the_memory_is_the_data_over_the_ratio() {
        assert_eq!(limit(60 * CHUNK, 1.5), 40);
        assert_eq!(limit(CHUNK, 16.0), 1);
    }
}
