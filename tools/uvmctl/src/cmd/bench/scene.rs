// SPDX-License-Identifier: GPL-2.0
//! Cases in which jobs meet, under one policy after the other.
//!
//! Each GPU's memory is made small by the driver's call for tests, so that the same jobs with memory enough, each alone, are the
//! measure of every row.

use super::super::figures::memory_of;
use super::corun::{self, Did, Part, Passes, Size, Task};
use super::lineup::{deploy, Lend, Policy};
use super::measured::Measured;
use super::tape::PERIOD;
use crate::cli::Bench;
use crate::exit::{Failure, Result};
use crate::out::Out;
use crate::signals;
use crate::units::CHUNK;
use libhuvm::Device;
use std::path::PathBuf;

/// All of a GPU's chunks are so many times those that it has here: the largest job of [`super::paper`] needs 1.87 times as many,
/// and its GPU some for page tables and the guard.
const MOST: f64 = 2.05;

/// Memory of the paper's GPUs, four V100 of 16 GiB (Choi et al., USENIX ATC 2022): a smaller one stands for it here.
const FULL: u64 = 16 << 30;

/// Bounds that the driver has in chunks, and within a share of a small memory (5 % as users have it), keep the part of memory that they
/// are of the paper's GPUs: 50 chunks of 16 GiB are 0.6 %, in whole percents 1. With 5 % a job that fills 96 % of its GPU is
/// evicted ahead of demand all the time, which no GPU of that size would see. The same under every policy, as is what streams have ahead,
/// of which the driver sees to itself (`drivers/policy/src/stream.rs`).
const SHARE: (&str, u64) = ("pre_evict_share_percent", 1);

/// A part of a job: GPU, workload, times its GPU's memory.
pub(super) type PartOf = (u32, &'static str, f64);

/// A job of a case. Parts begin each pass together.
#[derive(Clone, Copy)]
pub(super) struct JobOf {
    pub(super) role: &'static str,
    pub(super) parts: &'static [PartOf],
}

/// Jobs that run at the same time.
#[derive(Clone, Copy)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) jobs: &'static [JobOf],
    /// Passes before the measured ones, and those measured at most: a pass of an algorithm with many sweeps is long.
    pub(super) passes: (u32, u32),
    /// GPUs without a job lend too.
    pub(super) idle_lend: bool,
}

impl Case {
    /// Whether a GPU has a job.
    fn has(&self, gpu: u32) -> bool {
        let mut parts = self.jobs.iter().flat_map(|j| j.parts);
        parts.any(|(of, _, _)| *of == gpu)
    }

    /// Chunks that GPUs with so many each have to spare for a job on `gpu`: what the others' jobs leave, of which each lends what `lend`
    /// allows, shared by those whose data is more than their memory.
    fn spare(&self, gpus: &[u32], chunks: u32, gpu: u32, lend: Lend) -> f64 {
        let most = match lend {
            Lend::Nothing => 0.0,
            // CAST: less than 2^53.
            Lend::UpTo(mib) => (mib / (CHUNK >> 20)) as f64,
            Lend::Free => f64::INFINITY,
        };
        let parts = || self.jobs.iter().flat_map(|j| j.parts);
        let of = |gpu: u32| parts().find(|(of, _, _)| *of == gpu).map(|(_, _, r)| *r);
        let lends = |g: &&u32| **g != gpu && (self.idle_lend || self.has(**g));
        let left = |g: &u32| (1.0 - of(*g).unwrap_or(0.0)).max(0.0) * f64::from(chunks);
        let all: f64 = gpus.iter().filter(lends).map(|g| left(g).min(most)).sum();
        let borrowers = parts().filter(|(_, _, ratio)| *ratio > 1.0).count();
        match of(gpu) {
            Some(ratio) if ratio > 1.0 => all / borrowers.max(1) as f64,
            _ => 0.0,
        }
    }
}

/// The machine that the cases run on.
pub(super) struct Stage<'a> {
    pub(super) out: &'a Out,
    experiment: &'static str,
    device: Device,
    gpus: Vec<u32>,
    /// Chunks that each GPU has.
    pub(super) chunks: u32,
    /// Chunks that each has when a job is alone.
    all: u32,
    iterations: u32,
    tapes: Option<PathBuf>,
}

/// Data that is so many times a memory of so many chunks.
pub(super) fn size(chunks: u32, ratio: f64) -> Size {
    let bytes = (f64::from(chunks) * ratio * CHUNK as f64) as u64;
    let full = full(bytes, u64::from(chunks) * CHUNK);
    Size { bytes, full }
}

/// What data of so many bytes stands for on a GPU with so much memory: as many times [`FULL`], if that is more.
pub(super) fn full(bytes: u64, memory: u64) -> Option<u64> {
    let full = u128::from(bytes) * u128::from(FULL) / u128::from(memory.max(1));
    u64::try_from(full).ok().filter(|full| *full > bytes)
}

/// Leaves so many chunks of each GPU, 0 for all: of every one, also where another is lost.
pub(super) fn limit(device: &Device, gpus: &[u32], chunks: u32) -> Result<()> {
    let each = gpus.iter().map(|gpu| device.limit_chunks(*gpu, chunks));
    let each: Vec<libhuvm::Result<()>> = each.collect();
    Ok(each.into_iter().collect::<libhuvm::Result<()>>()?)
}

/// A case's jobs with their tapes, and the time of each part alone.
pub(super) struct Cast {
    pub(super) tasks: Vec<Task>,
    /// For each part of each task, in their order.
    alone: Vec<Did>,
}

impl<'a> Stage<'a> {
    /// The first `gpus` GPUs of this machine.
    pub(super) fn new(
        out: &'a Out,
        args: &Bench,
        experiment: &'static str,
        gpus: usize,
    ) -> Result<Stage<'a>> {
        let device = out.device()?;
        let here: Vec<u32> = device.gpus()?.iter().map(|g| g.gpu).take(gpus).collect();
        if here.len() < gpus {
            return Err(Failure::NotSupported(
                format!("{experiment} needs {gpus} GPUs, there are {}", here.len()),
                format!("leave the guest, and start one with 'make run GPUS={gpus}'"),
            ));
        }
        let mut least = u64::MAX;
        for gpu in &here {
            least = least.min(memory_of(&device, *gpu)? / CHUNK);
        }
        // CAST: a GPU has fewer than 2^32 chunks.
        let most = (least as f64 / MOST) as u32;
        let chunks = args.chunks.unwrap_or(most).max(1);
        if chunks > most.max(1) {
            return Err(Failure::Usage(format!(
                "--chunks {chunks}: at most {most} here, for alone each job is to fit into all {least} of a GPU"
            )));
        }
        Ok(Stage {
            out,
            experiment,
            device,
            gpus: here,
            chunks,
            all: u32::try_from(least).unwrap_or(u32::MAX),
            tapes: args.tapes.clone(),
            iterations: args.iterations,
        })
    }

    fn passes(&self, case: &Case) -> Passes {
        let (warmup, most) = case.passes;
        Passes {
            warmup,
            measured: self.iterations.min(most),
            verify: true,
        }
    }

    /// Passes of a job alone before the measured ones: a period more, so that it knows the job, and then the same passes of the tape are
    /// measured as in the case.
    fn warmup_alone(case: &Case) -> u32 {
        PERIOD.saturating_add(case.passes.0 % PERIOD)
    }

    fn limit(&self, chunks: u32) -> Result<()> {
        limit(&self.device, &self.gpus, chunks)
    }

    /// Makes the jobs, and runs each alone with memory enough, under `first`.
    pub(super) fn cast(&self, case: &Case, first: &Policy) -> Result<Cast> {
        let mut tasks = Vec::new();
        for job in case.jobs {
            let part = |(gpu, name, ratio): &PartOf| {
                // A tape may take long.
                signals::check()?;
                let size = size(self.chunks, *ratio);
                Part::new(*gpu, name, size, *ratio <= 1.0, self.tapes.as_deref())
            };
            tasks.push(Task {
                role: job.role,
                parts: job.parts.iter().map(part).collect::<Result<_>>()?,
            });
        }
        self.limit(0)?;
        deploy(&self.device, &self.gpus, first, Lend::Nothing)?;
        let mut alone: Vec<Did> = Vec::new();
        let mut seen: Vec<(Vec<PartOf>, Vec<Did>)> = Vec::new();
        for (task, of) in tasks.iter().zip(case.jobs) {
            // Two jobs that differ only in their GPUs take the same time.
            let same = |(parts, _): &&(Vec<PartOf>, _)| {
                let each = parts.iter().zip(of.parts);
                parts.len() == of.parts.len() && each.clone().all(|(a, b)| (a.1, a.2) == (b.1, b.2))
            };
            let mut did = match seen.iter().find(same) {
                Some((_, did)) => did.clone(),
                None => {
                    let names: Vec<_> = task.parts.iter().map(|p| p.workload).collect();
                    self.out
                        .note(&format!("{}: {} alone", case.name, names.join(", ")));
                    let passes = Passes {
                        warmup: Self::warmup_alone(case),
                        ..self.passes(case)
                    };
                    corun::run(self.out, &[task], passes)?
                }
            };
            for (d, part) in did.iter_mut().zip(&task.parts) {
                d.figures.gpu = part.gpu;
            }
            seen.push((of.parts.to_vec(), did.clone()));
            alone.extend(did);
        }
        Ok(Cast { tasks, alone })
    }

    /// Rows of the jobs alone.
    pub(super) fn alone(&self, case: &Case, cast: &Cast, first: &Policy) -> Vec<Measured> {
        let name = format!("{}-alone", case.name);
        let row = |d| Measured {
            memory_bytes: Some(u64::from(self.all) * CHUNK),
            warmup: Some(Self::warmup_alone(case)),
            ..self.row(&name, first, d, d)
        };
        cast.alone.iter().map(row).collect()
    }

    /// All jobs of a case at once, under a policy; `name`: the case of the rows.
    pub(super) fn together(
        &self,
        case: &Case,
        name: &str,
        cast: &Cast,
        policy: &Policy,
        lend: Lend,
    ) -> Result<Vec<Measured>> {
        self.out.note(&format!("{name}: {}", policy.name));
        let policy = &policy.clone().with(&policy.name, SHARE.0, SHARE.1);
        deploy(&self.device, &self.gpus, policy, lend)?;
        let idle = self.gpus.iter().filter(|gpu| !case.has(**gpu));
        let idle: Vec<u32> = idle.filter(|_| !case.idle_lend).copied().collect();
        deploy(&self.device, &idle, policy, Lend::Nothing)?;
        self.limit(self.chunks)?;
        let tasks: Vec<&Task> = cast.tasks.iter().collect();
        let did = corun::run(self.out, &tasks, self.passes(case))?;
        let pairs = did.iter().zip(&cast.alone);
        let row = |(d, alone): (&Did, _)| {
            let data = d.figures.bytes.max(1) as f64 / CHUNK as f64;
            let spare = case.spare(&self.gpus, self.chunks, d.figures.gpu, lend);
            Measured {
                warmup: Some(case.passes.0),
                spare_ratio: (spare / data * 1e4).round() / 1e4,
                ..self.row(name, policy, d, alone)
            }
        };
        Ok(pairs.map(row).collect())
    }

    fn row(&self, case: &str, policy: &Policy, did: &Did, alone: &Did) -> Measured {
        let f = &did.figures;
        let memory = f64::from(self.chunks) * CHUNK as f64;
        Measured {
            experiment: self.experiment.into(),
            // CAST: at most 16.
            gpus: self.gpus.len() as u32,
            ratio: (f.bytes as f64 / memory * 1e4).round() / 1e4,
            memory_bytes: Some(u64::from(self.chunks) * CHUNK),
            ideal_ns: Some(alone.figures.time_ns),
            passes_made: Some(did.made),
            full_bytes: did.full,
            ..Measured::of(case, policy, f.gpu, did.role, f)
        }
    }

    /// Gives every GPU its memory back.
    pub(super) fn leave(&self) -> Result<()> {
        self.limit(0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::paper::{INTERFERENCE, INTER_JOB, SPARE};
    use super::*;

    /// Catches a large memory that stands for a smaller one, and what is lost between the two sizes.
    #[test]
    fn a_small_memory_stands_for_the_papers() {
        let at = size(352, 1.5);
        assert_eq!((at.bytes, at.full), (1056 << 20, Some(24 << 30)));
        assert_eq!(size(352, 0.5).full, Some(8 << 30));
        assert_eq!(full(3 << 30, 16 << 30), None);
        assert_eq!(full(3 << 30, 64 << 30), None);
    }

    /// Catches memory of idle GPUs that nobody counts, that of one's own, and a limit of each lender taken for one of all.
    #[test]
    fn what_is_spare_is_what_the_others_leave() {
        let of = |case: &Case, gpu, lend| {
            let chunks = case.spare(&[0, 1, 2, 3], 1000, gpu, lend);
            chunks.round()
        };
        let [one, _, three, four] = &INTER_JOB;
        assert_eq!(of(one, 0, Lend::Free), 290.0);
        assert_eq!(of(one, 1, Lend::Free), 0.0);
        assert_eq!(of(one, 0, Lend::Nothing), 0.0);
        assert_eq!(of(one, 0, Lend::UpTo(100)), 130.0);
        assert_eq!(
            (of(three, 0, Lend::Free), of(three, 1, Lend::Free)),
            (260.0, 260.0)
        );
        // Of three parts that want it, two are of one job.
        assert_eq!(of(four, 1, Lend::Free), 87.0);
        assert_eq!(of(&SPARE, 0, Lend::UpTo(200)), 300.0);
        // Idle neighbours lend nothing where one lender is to be measured.
        let [alone, beside] = &INTERFERENCE;
        assert_eq!(of(alone, 0, Lend::Free), 500.0);
        assert_eq!(of(beside, 2, Lend::Free).round(), 167.0);
    }

    /// Catches a measure that is of another pass than what is measured by it: each pass of BFS has a root of its own.
    #[test]
    fn alone_and_together_are_of_the_same_passes() {
        for case in &INTER_JOB {
            let alone = Stage::warmup_alone(case);
            assert!(
                alone >= PERIOD && alone % PERIOD == case.passes.0 % PERIOD,
                "{}",
                case.name
            );
        }
    }
}
