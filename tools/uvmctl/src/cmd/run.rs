// SPDX-License-Identifier: GPL-2.0
//! `run`: one workload or several at once, and the list of them.

use super::expected::Expected;
use super::figures::{memory_of, Figures};
use super::gpu;
use super::job::{run_all, Bars, Job, Plan};
use super::preset;
use super::steps::Steps;
use super::sweep::Sweep;
use crate::catalog::{find, listed, Found, Listed};
use crate::cli::Run;
use crate::exit::{Failure, Result};
use crate::out::Out;
use huvm_workloads::catalog::{LEAST, MOST};
use huvm_workloads::{Ask, Refused};

/// Passes of a sweep that are measured, and those before, where the command line does not say.
const SWEEP_PASSES: (u32, u32) = (3, 1);
/// Blocks of its launch, if nobody says how many.
const SWEEP_BLOCKS: u32 = 80;

/// The failure, when data was wrong: of the numbers of wrong elements; those that are not known say nothing.
pub(super) fn judge(mismatches: impl Iterator<Item = Option<u64>>) -> Option<Failure> {
    match mismatches.flatten().fold(0, u64::saturating_add) {
        0 => None,
        n => Some(Failure::Wrong(format!("{n} elements have a wrong value"))),
    }
}

pub(super) fn run(out: &Out, r: &Run) -> Result<()> {
    if r.list {
        return list(out);
    }
    if let Some(saved) = out.saved::<Vec<Figures>>("run")? {
        for rows in saved {
            out.list("run", &out.adopt(rows))?;
        }
        return Ok(());
    }
    if !(r.ratio > 0.0 && r.ratio <= 64.0) {
        return Err(Failure::Usage(format!(
            "a ratio of {} is out of range: above 0, at most 64",
            r.ratio
        )));
    }
    // Names are looked at before anything is done.
    let first = ["0".to_owned()];
    let others = match r.gpu.as_slice() {
        [] => first.as_slice(),
        some => some,
    };
    let mut wanted = Vec::new();
    for job in &r.workloads {
        let found = find(&job.workload)?;
        let gpus = job.gpu.as_ref().map_or(others, std::slice::from_ref);
        wanted.push((job.workload.as_str(), found, gpus));
    }
    only_what_counts(r, &wanted)?;
    if let Some(name) = &r.preset {
        let device = out.device()?;
        let ids = wanted.iter().flat_map(|(_, _, gpus)| gpus.iter());
        let gpus = ids.map(|id| gpu::index(&device, id));
        preset::tell(out, &device, &gpus.collect::<Result<Vec<_>>>()?, name)?;
    }
    let bars = Bars::new(out);
    let mut jobs = Vec::new();
    for (name, found, gpus) in &wanted {
        for id in *gpus {
            jobs.push(job(out, &bars, r, name, found, id)?);
        }
    }
    let (rows, failure) = run_all(out, jobs);
    let failure = failure.or_else(|| judge(rows.iter().map(|r| r.mismatches)));
    match failure {
        // There is nothing to show.
        Some(e) if rows.is_empty() => Err(e),
        failure => out.list_failed("run", &rows, failure),
    }
}

/// Refuses an option that says nothing of these workloads: who gave it would take the rows for what they are not.
fn only_what_counts(r: &Run, wanted: &[(&str, Found, &[String])]) -> Result<()> {
    let sweeps = wanted
        .iter()
        .filter(|(_, found, _)| matches!(found, Found::Sweep(_)))
        .count();
    let idle = [
        (
            !r.gpu.is_empty() && r.workloads.iter().all(|job| job.gpu.is_some()),
            "'--gpu' is of workloads without a GPU behind their name",
        ),
        (
            r.seed.is_some() && sweeps == wanted.len(),
            "'--seed' says nothing of a sweep, which has nothing to decide",
        ),
        (
            r.blocks.is_some() && sweeps == 0,
            "'--blocks' is of sweeps; other workloads have blocks of their own",
        ),
    ];
    let wrong = idle.into_iter().find(|(is_idle, _)| *is_idle);
    wrong.map_or(Ok(()), |(_, why)| Err(Failure::Usage(why.into())))
}

/// A job, with its data.
fn job(out: &Out, bars: &Bars, r: &Run, name: &str, found: &Found, id: &str) -> Result<Job> {
    let device = out.device()?;
    let gpu = gpu::index(&device, id)?;
    let memory = memory_of(&device, gpu)?;
    drop(device);
    let bytes = r.size.unwrap_or((memory as f64 * r.ratio) as u64);
    let plan = |(iterations, warmup): (u32, u32)| Plan {
        workload: name.into(),
        gpu,
        ratio: bytes as f64 / memory.max(1) as f64,
        iterations: r.iterations.unwrap_or(iterations),
        warmup: r.warmup.unwrap_or(warmup),
        verify: r.verify,
        preset: r.preset.clone(),
    };
    match found {
        Found::Sweep(w) => Job::new(out, bars, plan(SWEEP_PASSES), |at, _| {
            let sweep = Sweep::new(&at.device, *w, bytes, r.blocks.unwrap_or(SWEEP_BLOCKS), 0)?;
            Ok(Box::new(sweep))
        }),
        Found::Entry(entry) => {
            let make = |passes| {
                let ask = Ask {
                    bytes,
                    full: None,
                    seed: r.seed.unwrap_or(1),
                    passes,
                };
                entry.make(&ask).map_err(|Refused::Footprint(b)| {
                    let [b, least, most] = [b, LEAST, MOST].map(|b| out.bytes(b));
                    Failure::Usage(format!("{b} are out of range: {least} to {most}"))
                })
            };
            // As many passes as the reference has, if nobody says how many.
            let mut workload = make(r.iterations)?;
            let plan = plan((workload.passes, 0));
            if plan.passes() != workload.passes {
                workload = make(Some(plan.passes()))?;
            }
            Job::new(out, bars, plan, |at, _| {
                let shared = Expected::of(workload);
                Ok(Box::new(Steps::new(&at.device, shared, true)?))
            })
        }
    }
}

/// What there is to run. Needs no driver.
fn list(out: &Out) -> Result<()> {
    let mut rows = listed();
    for saved in out.saved::<Vec<Listed>>("run.list")?.into_iter().flatten() {
        rows = out.adopt(saved);
    }
    out.list("run.list", &rows)
}
