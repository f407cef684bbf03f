// SPDX-License-Identifier: GPL-2.0
//! `demo`: what the project is for, in three rows.

use super::gpu;
use super::run::judge;
use super::workload::{self, Figures, Spec};
use crate::cli::{Demo, Workload};
use crate::exit::{Failure, Result};
use crate::out::Out;

/// Working sets as shares of the GPU's memory.
const RATIOS: [f64; 3] = [0.8, 1.5, 3.0];

pub(super) fn run(out: &Out, d: &Demo) -> Result<()> {
    if let Some(saved) = out.saved::<Vec<Figures>>("demo")? {
        for rows in saved {
            out.list("demo", &out.adopt(rows))?;
        }
        return Ok(());
    }
    let device = out.device()?;
    let gpu = gpu::index(&device, &d.gpu)?;
    let memory = workload::memory_of(&device, gpu)?;
    drop(device);
    let mut rows = Vec::new();
    for ratio in RATIOS {
        let bytes = (memory as f64 * ratio) as u64;
        eprintln!(
            "{ratio} x the GPU's memory: {} filled by the CPU, {} + 1 passes on GPU {gpu}, verified by the CPU",
            crate::units::bytes(bytes),
            d.iterations,
        );
        rows.push(workload::run(
            out,
            &Spec {
                workload: Workload::Scan,
                gpu,
                bytes,
                ratio,
                iterations: d.iterations,
                warmup: 1,
                blocks: d.blocks,
                verify: true,
                preset: Some(d.preset.clone()),
                knobs: Vec::new(),
            },
        )?);
    }
    let failure = judge(&rows);
    let shown = out.list_failed("demo", &rows, failure);
    if let Some(path) = &d.output {
        let text = serde_json::to_string_pretty(&rows).unwrap_or_default() + "\n";
        std::fs::write(path, text)
            .map_err(|e| Failure::File(format!("{}: {e}", path.display())))?;
    }
    shown
}
