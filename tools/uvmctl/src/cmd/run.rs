// SPDX-License-Identifier: GPL-2.0
//! `run`.

use super::workload::{self, Row, Spec};
use crate::cli::Run;
use crate::exit::{Failure, Result};
use crate::out::{Out, Table};
use crate::units;
use libhuvm::Device;

/// A table of results.
pub(super) fn table(out: &Out, rows: &[Row]) -> Table {
    let mut t = Table::new(&[
        "WORKLOAD",
        "PRESET",
        "RATIO",
        "SIZE",
        "TIME",
        "FAULTS",
        "TO-GPU",
        "TO-HOST",
        "EVICTIONS",
        "LINK-EFF",
        "MISMATCHES",
    ]);
    for r in rows {
        t.row(vec![
            r.workload.clone(),
            r.preset.clone(),
            format!("{:.2}", r.ratio),
            out.bytes(r.bytes),
            units::time(r.time_ns),
            r.faults.to_string(),
            out.bytes(r.h2d_bytes),
            out.bytes(r.d2h_bytes),
            r.evictions.to_string(),
            r.link_efficiency
                .map_or("-".into(), |e| format!("{:.1} %", e * 100.0)),
            r.mismatches.map_or("-".into(), |m| m.to_string()),
        ]);
    }
    t
}

/// Fails when data was wrong.
pub(super) fn judge(rows: &[Row]) -> Result<()> {
    match rows.iter().filter_map(|r| r.mismatches).sum::<u64>() {
        0 => Ok(()),
        n => Err(Failure::Wrong(format!("{n} elements have a wrong value"))),
    }
}

pub(super) fn run(out: &Out, r: &Run) -> Result<()> {
    let device = Device::open()?;
    let memory = workload::memory_of(&device, r.gpu)?;
    if !(r.ratio > 0.0 && r.ratio <= 64.0) {
        return Err(Failure::Usage(format!(
            "a ratio of {} is out of range: above 0, at most 64",
            r.ratio
        )));
    }
    let bytes = r.size.unwrap_or((memory as f64 * r.ratio) as u64);
    drop(device);
    let row = workload::run(
        out,
        &Spec {
            workload: r.workload,
            gpu: r.gpu,
            bytes,
            ratio: bytes as f64 / memory as f64,
            iterations: r.iterations,
            warmup: r.warmup,
            blocks: r.blocks,
            verify: r.verify,
            preset: r.preset.clone(),
        },
    )?;
    let rows = [row];
    out.table("run", &rows, || table(out, &rows));
    judge(&rows)
}
