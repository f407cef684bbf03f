// SPDX-License-Identifier: GPL-2.0
//! `run`.

use super::gpu;
use super::workload::{self, Figures, Spec};
use crate::cli::Run;
use crate::exit::{Failure, Result};
use crate::out::Out;

/// The failure, when data was wrong: of the numbers of wrong elements; those that are not known say nothing.
pub(super) fn judge(mismatches: impl Iterator<Item = Option<u64>>) -> Option<Failure> {
    match mismatches.flatten().fold(0, u64::saturating_add) {
        0 => None,
        n => Some(Failure::Wrong(format!("{n} elements have a wrong value"))),
    }
}

pub(super) fn run(out: &Out, r: &Run) -> Result<()> {
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
    let device = out.device()?;
    let gpu = gpu::index(&device, &r.gpu)?;
    let memory = workload::memory_of(&device, gpu)?;
    let bytes = r.size.unwrap_or((memory as f64 * r.ratio) as u64);
    drop(device);
    let row = workload::run(
        out,
        &Spec {
            workload: r.workload,
            gpu,
            bytes,
            ratio: bytes as f64 / memory as f64,
            iterations: r.iterations,
            warmup: r.warmup,
            blocks: r.blocks,
            verify: r.verify,
            preset: r.preset.clone(),
            compute_ns: 0,
        },
    )?;
    let rows = [row];
    let failure = judge(rows.iter().map(|r| r.mismatches));
    out.list_failed("run", &rows, failure)
}
