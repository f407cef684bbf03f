// SPDX-License-Identifier: GPL-2.0
//! `demo`: what the project is for, in a few rows: a GPU alone, and with `--neighbours` what their idle memory is good for.

use super::bench::lineup::{Lend, Lineup, Machine, Own, BASE};
use super::figures::{memory_of, speedup, Figures};
use super::gpu;
use super::preset;
use super::run::judge;
use super::sweep::{self, Spec};
use crate::cli::{Demo, Workload};
use crate::exit::{Failure, Result};
use crate::out::{can_save, save, Out};
use crate::row::{field, Cell, Field, Row};
use crate::signals;
use libhuvm::Device;
use serde::{Deserialize, Serialize};

/// Working sets as shares of the GPU's memory.
const RATIOS: [f64; 3] = [0.8, 1.5, 3.0];
/// Those of the part with neighbours: larger than a GPU's memory, smaller than that of all.
const SHARED_RATIOS: [f64; 2] = [1.5, 3.0];

/// A row: the figures, and who took part.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Shown {
    #[serde(flatten)]
    figures: Figures,
    /// GPUs of the machine.
    #[serde(default = "one")]
    gpus: u32,
    /// Of these, GPUs that lend their idle memory.
    #[serde(default)]
    lenders: u32,
    /// Time under the first policy over the time under this one, same machine and working set.
    #[serde(default)]
    speedup: Option<f64>,
}

fn one() -> u32 {
    1
}

impl Row for Shown {
    fn fields(&self) -> Vec<Field> {
        let speedup = self.speedup.map_or(Cell::None, Cell::Ratio);
        let mut all = Vec::new();
        for f in self.figures.fields() {
            match f.name {
                "ratio" => all.extend([
                    field("gpus", "GPUS", Cell::count(self.gpus)),
                    field("lenders", "LENDERS", Cell::count(self.lenders)),
                ]),
                "faults" => all.push(field("speedup", "SPEED-UP", speedup.clone())),
                // Here bytes between GPUs are worth a column.
                "evictions" => {
                    let cell = Cell::Bytes(self.figures.p2p_bytes);
                    all.push(field("p2p_bytes", "PEER", cell));
                }
                "p2p_bytes" => continue,
                // GPUS is the column.
                "gpu" => {
                    all.push(Field { head: "", ..f });
                    continue;
                }
                _ => {}
            }
            all.push(f);
        }
        all
    }
}

pub(super) fn run(out: &Out, d: &Demo) -> Result<()> {
    if let Some(saved) = out.saved::<Vec<Shown>>("demo")? {
        for rows in saved {
            out.list("demo", &out.adopt(rows))?;
        }
        return Ok(());
    }
    // Not when all of it has run.
    can_save(d.output.as_deref())?;
    let device = out.device()?;
    let gpu = gpu::index(&device, &d.gpu)?;
    let rows = if d.neighbours {
        Own::around(out, || shared(out, d, device, gpu))?
    } else {
        alone(out, d, device, gpu)?
    };
    let failure = judge(rows.iter().map(|r| r.figures.mismatches));
    let failure = failure.or(save(d.output.as_deref(), &rows));
    out.list_failed("demo", &rows, failure)
}

/// Says what comes, and what it will be.
fn spec(out: &Out, d: &Demo, gpu: u32, memory: u64, ratio: f64, policy: &str) -> Spec {
    let bytes = (memory as f64 * ratio) as u64;
    out.note(&format!(
        "{ratio} x the GPU's memory, {policy}: {} filled by the CPU, {} + 1 passes on GPU {gpu}, verified by the CPU",
        crate::units::bytes(bytes),
        d.iterations,
    ));
    Spec {
        workload: Workload::Scan,
        gpu,
        bytes,
        ratio,
        iterations: d.iterations,
        warmup: 1,
        blocks: d.blocks,
        verify: true,
        preset: None,
        compute_ns: 0,
    }
}

/// A GPU with nothing but the host's memory beside it.
fn alone(out: &Out, d: &Demo, device: Device, gpu: u32) -> Result<Vec<Shown>> {
    // CAST: at most 16 GPUs; their indices may have holes.
    let gpus = device.gpus()?.len() as u32;
    let memory = memory_of(&device, gpu)?;
    preset::tell(out, &device, &[gpu], &d.preset)?;
    drop(device);
    let row = |ratio: &f64| {
        let spec = Spec {
            preset: Some(d.preset.clone()),
            ..spec(out, d, gpu, memory, *ratio, &d.preset)
        };
        Ok(Shown {
            figures: sweep::run(out, &spec)?,
            gpus,
            ..Shown::default()
        })
    };
    RATIOS.iter().map(row).collect()
}

/// The same GPU when its neighbours idle: the stock driver beside the one that borrows their memory.
fn shared(out: &Out, d: &Demo, device: Device, gpu: u32) -> Result<Vec<Shown>> {
    let machine = Machine::around(&device, gpu)?;
    if machine.lenders.is_empty() {
        return Err(Failure::NotSupported(
            format!("GPU {gpu} has no neighbour that it is linked with"),
            "leave the guest, and start one with 'make run GPUS=2', or more".into(),
        ));
    }
    let lineup = Lineup::of(&device)?;
    let memory = memory_of(&device, gpu)?;
    let mut rows = Vec::new();
    // Between two rows the policy of all GPUs is whole.
    signals::catch()?;
    for ratio in SHARED_RATIOS {
        let mut first = None;
        for policy in lineup.preset(BASE).into_iter().chain([lineup.whole()]) {
            machine.choose(&device, &policy, Lend::Free)?;
            let mut figures = sweep::run(out, &spec(out, d, gpu, memory, ratio, &policy.name))?;
            figures.preset.clone_from(&policy.name);
            let time = figures.time_ns;
            let over = *first.get_or_insert(time);
            // CAST: at most 16 GPUs.
            let lenders = machine.lenders.len() as u32;
            rows.push(Shown {
                figures,
                gpus: lenders + 1,
                lenders: if policy.borrows() { lenders } else { 0 },
                speedup: speedup(over, time),
            });
        }
    }
    Ok(rows)
}
