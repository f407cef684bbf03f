// SPDX-License-Identifier: GPL-2.0
//! `bench`: experiments in which policies meet on the same machine, in the same run.
//!
//! `harvest` (two GPUs or more): GPU 0 borrows, the others lend. Four cases:
//!
//! | case | what runs | what counts |
//! | --- | --- | --- |
//! | `steady` | the borrower streams over 1.5 times its memory, the neighbours idle | time under each policy |
//! | `spare-5` | the same, with spare memory for 5 % of its data | time |
//! | `reclaim` | the owner wants its memory back, all that is lent has been written back | time of each reclaim |
//! | `lender` | the owner's own job fits; without a borrower, then with one | the owner's time |
//!
//! Policies are set for the GPUs, in rows that each add one technique to the row before.

use super::run::judge;
use super::workload::{self, Figures, Spec};
use crate::cli::{Bench, Experiment, Workload};
use crate::exit::{Failure, Result};
use crate::out::Out;
use crate::row::{extra, field, Cell, Field, Row};
use libhuvm::{uapi, Device, Program, Scope};
use serde::{Deserialize, Serialize};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The borrower's working set, as a share of its memory.
const RATIO: f64 = 1.5;
/// The lender's own job, as a share of its memory.
const OWN: f64 = 0.5;
/// What the owner of `reclaim` wants, as a share of its memory: more than is free.
const ALL: f64 = 1.0;
/// How long lent chunks may take to be written back.
const WRITE_BACK: Duration = Duration::from_secs(20);

/// A policy: a preset and what is changed.
struct Policy {
    name: &'static str,
    preset: &'static str,
    knobs: &'static [(&'static str, u64)],
}

const H: (&str, u64) = ("harvest_borrow", 1);
const PE_ON: (&str, u64) = ("pre_evict", 1);
const PE_SHARE: (&str, u64) = ("pre_evict_share_percent", 15);
const PF: (&str, u64) = ("stream_prefetch", 1);

/// The ladder of `steady`.
const LADDER: [Policy; 6] = [
    Policy {
        name: "stock-460",
        preset: "stock-460",
        knobs: &[],
    },
    Policy {
        name: "stock-595",
        preset: "stock-595",
        knobs: &[],
    },
    Policy {
        name: "LPF",
        preset: "stock-595",
        knobs: &[PF],
    },
    Policy {
        name: "H",
        preset: "stock-595",
        knobs: &[H],
    },
    Policy {
        name: "H+PE",
        preset: "stock-595",
        knobs: &[H, PE_ON, PE_SHARE],
    },
    BEST,
];

/// All that there is.
const BEST: Policy = Policy {
    name: "H+PE+LPF",
    preset: "stock-595",
    knobs: &[H, PE_ON, PE_SHARE, PF],
};

/// One result.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Measured {
    experiment: String,
    case: String,
    workload: String,
    preset: String,
    gpu: u32,
    role: String,
    ratio: f64,
    /// Spare memory, as a share of the borrower's data.
    spare_ratio: f64,
    time_ns: u64,
    h2d_bytes: u64,
    d2h_bytes: u64,
    p2p_bytes: u64,
    faults: u64,
    evictions: u64,
    link_efficiency: Option<f64>,
    /// Time that the bytes fetched back need on the link to one neighbour at its full bandwidth, over the time taken.
    peer_efficiency: Option<f64>,
    reclaims: u64,
    reclaims_copied: u64,
    reclaim_p50_ns: Option<u64>,
    reclaim_max_ns: Option<u64>,
    mismatches: Option<u64>,
}

impl Row for Measured {
    fn fields(&self) -> Vec<Field> {
        let share = |s: Option<f64>| s.map_or(Cell::None, Cell::Share);
        let nanos = |n: Option<u64>| n.map_or(Cell::None, Cell::Nanos);
        vec![
            field("case", "CASE", Cell::text(&self.case)),
            field("preset", "POLICY", Cell::text(&self.preset)),
            field("gpu", "GPU", Cell::count(self.gpu)),
            field("role", "ROLE", Cell::text(&self.role)),
            field("ratio", "RATIO", Cell::Ratio(self.ratio)),
            field("spare_ratio", "SPARE", Cell::Ratio(self.spare_ratio)),
            field("time_ns", "TIME", Cell::Nanos(self.time_ns)),
            field("faults", "FAULTS", Cell::Count(self.faults)),
            field("h2d_bytes", "TO-GPU", Cell::Bytes(self.h2d_bytes)),
            field("d2h_bytes", "TO-HOST", Cell::Bytes(self.d2h_bytes)),
            field("p2p_bytes", "PEER", Cell::Bytes(self.p2p_bytes)),
            field("link_efficiency", "LINK-EFF", share(self.link_efficiency)),
            field("peer_efficiency", "PEER-EFF", share(self.peer_efficiency)),
            field("reclaims", "RECLAIMS", Cell::Count(self.reclaims)),
            field("reclaim_p50_ns", "P50", nanos(self.reclaim_p50_ns)),
            field("reclaim_max_ns", "MAX", nanos(self.reclaim_max_ns)),
            field(
                "mismatches",
                "MISMATCHES",
                self.mismatches.map_or(Cell::None, Cell::Count),
            ),
            extra("experiment", Cell::text(&self.experiment)),
            extra("workload", Cell::text(&self.workload)),
            extra("evictions", Cell::Count(self.evictions)),
            extra("reclaims_copied", Cell::Count(self.reclaims_copied)),
        ]
    }
}

impl Measured {
    fn of(case: &str, policy: &Policy, gpu: u32, role: &str, f: &Figures) -> Self {
        Measured {
            experiment: "harvest".into(),
            case: case.into(),
            workload: f.workload.clone(),
            preset: policy.name.into(),
            gpu,
            role: role.into(),
            ratio: f.ratio,
            time_ns: f.time_ns,
            h2d_bytes: f.h2d_bytes,
            d2h_bytes: f.d2h_bytes,
            p2p_bytes: f.p2p_bytes,
            faults: f.faults,
            evictions: f.evictions,
            link_efficiency: f.link_efficiency,
            mismatches: f.mismatches,
            ..Measured::default()
        }
    }
}

/// What all cases need.
struct Setting<'a> {
    out: &'a Out,
    args: &'a Bench,
    device: Device,
    lenders: Vec<u32>,
    memory: u64,
    /// Fastest link from the borrower to a lender, MB/s.
    peer_mbps: u32,
}

impl Setting<'_> {
    /// Puts a policy in force on every GPU. The others lend up to `lend_mib` MiB each (0: what is free).
    fn choose(&self, policy: &Policy, lends: bool, lend_mib: u64) -> Result<()> {
        for gpu in [0].iter().chain(&self.lenders) {
            self.device
                .set_preset(Scope::Gpu(*gpu), policy.preset)
                .map_err(Failure::from)?;
            for (name, value) in policy.knobs {
                workload::set(&self.device, Scope::Gpu(*gpu), name, *value)?;
            }
        }
        for gpu in &self.lenders {
            workload::set(&self.device, Scope::Gpu(*gpu), "harvest_borrow", 0)?;
            workload::set(&self.device, Scope::Gpu(*gpu), "harvest_lend", lends.into())?;
            workload::set(&self.device, Scope::Gpu(*gpu), "lend_limit_mib", lend_mib)?;
        }
        Ok(())
    }

    fn spec(&self, gpu: u32, ratio: f64, iterations: u32) -> Spec {
        Spec {
            workload: Workload::Scan,
            gpu,
            bytes: (self.memory as f64 * ratio) as u64,
            ratio,
            iterations,
            warmup: 1,
            blocks: self.args.blocks,
            verify: true,
            preset: None,
            knobs: Vec::new(),
        }
    }

    /// The borrower streams under a policy.
    fn stream(&self, case: &str, policy: &Policy, lends: bool, lend_mib: u64) -> Result<Measured> {
        self.choose(policy, lends, lend_mib)?;
        let f = workload::run(self.out, &self.spec(0, RATIO, self.args.iterations))?;
        let mut m = Measured::of(case, policy, 0, "borrower", &f);
        let spare = if lends { self.spare(lend_mib) } else { 0 };
        m.spare_ratio = spare as f64 / f.bytes.max(1) as f64;
        if f.spare_hit_bytes != 0 && self.peer_mbps != 0 {
            // 10^6 bytes a second are 10^-3 bytes a nanosecond.
            let need = f.spare_hit_bytes as f64 * 1000.0 / f64::from(self.peer_mbps);
            m.peer_efficiency = Some((need / f.time_ns.max(1) as f64 * 1e4).round() / 1e4);
        }
        Ok(m)
    }

    /// Bytes that the neighbours lend at most.
    fn spare(&self, lend_mib: u64) -> u64 {
        let each = if lend_mib == 0 {
            self.memory
        } else {
            self.memory.min(lend_mib << 20)
        };
        each * self.lenders.len() as u64
    }

    /// The owner takes back memory whose contents the host has.
    fn reclaim(&self) -> Result<Measured> {
        self.choose(&BEST, true, 0)?;
        let owner = *self.lenders.first().unwrap_or(&1);
        let borrower = Device::open()?;
        borrower.register(0)?;
        let mut data = borrower.alloc((self.memory as f64 * RATIO) as u64)?;
        for (i, w) in (0u64..).zip(data.as_mut_slice()) {
            *w = 6u64.wrapping_add(i.wrapping_mul(3));
        }
        let program = Program::scale(&mut data, 1, 1, 16)?;
        borrower.launch(0, &program)?.wait_done()?;
        drop(program);
        let began = std::time::Instant::now();
        while self.device.mem_info(owner)?.lent_only != 0 {
            if began.elapsed() > WRITE_BACK {
                return Err(Failure::Wrong("lent chunks are not written back".into()));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let listener = Device::open()?;
        listener.listen(1 << uapi::HUVM_EVENT_RECLAIM, true)?;
        let before = self.device.counters(Scope::Gpu(owner))?;
        let f = workload::run(self.out, &self.spec(owner, ALL, 1))?;
        let after = self.device.counters(Scope::Gpu(owner))?;
        let mut times = Vec::new();
        while listener.has_events(0)? {
            let some = listener.events(256)?;
            times.extend(some.iter().filter(|e| e.gpu == owner).map(|e| e.arg1));
        }
        times.sort_unstable();
        let added = |c| after.get(c).wrapping_sub(before.get(c));
        let mut m = Measured::of("reclaim", &BEST, owner, "owner", &f);
        m.reclaims = added(uapi::HUVM_CNT_RECLAIMS);
        m.reclaims_copied = added(uapi::HUVM_CNT_RECLAIMS_COPIED);
        m.reclaim_p50_ns = times.get(times.len() / 2).copied();
        m.reclaim_max_ns = times.last().copied();
        // The borrower's data came through it.
        let wrong = (0u64..)
            .zip(data.as_slice())
            .filter(|(i, v)| **v != 7u64.wrapping_add(i.wrapping_mul(3)))
            .count() as u64;
        m.mismatches = m.mismatches.map(|n| n.saturating_add(wrong));
        Ok(m)
    }

    /// The owner's job, alone and beside a borrower.
    fn lender(&self) -> Result<Vec<Measured>> {
        let owner = *self.lenders.first().unwrap_or(&1);
        let mut rows = Vec::new();
        for beside in [false, true] {
            self.choose(&BEST, true, 0)?;
            let mut borrower = beside.then(|| self.start_borrower()).transpose()?;
            let f = workload::run(self.out, &self.spec(owner, OWN, 40));
            if let Some(child) = borrower.as_mut() {
                // It streams until it is stopped.
                let still = child.try_wait().is_ok_and(|s| s.is_none());
                let _gone = child.kill();
                let _status = child.wait();
                if !still {
                    return Err(Failure::Wrong("the borrower ended before the owner".into()));
                }
            }
            let case = if beside {
                "lender-shared"
            } else {
                "lender-alone"
            };
            rows.push(Measured::of(case, &BEST, owner, "owner", &f?));
        }
        Ok(rows)
    }

    fn start_borrower(&self) -> Result<Child> {
        let me = std::env::current_exe().map_err(|e| Failure::File(e.to_string()))?;
        let child = Command::new(me)
            .args(["run", "scan", "--gpu", "0", "--warmup", "0"])
            .args(["--iterations", "1000", "--ratio", &RATIO.to_string()])
            .args(["--blocks", &self.args.blocks.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| Failure::File(e.to_string()))?;
        // It has to be borrowing before the owner starts.
        let began = std::time::Instant::now();
        loop {
            let mut lent = 0;
            for gpu in &self.lenders {
                let m = self.device.mem_info(*gpu)?;
                lent += m.lent_only + m.lent_removable;
            }
            if lent != 0 {
                return Ok(child);
            }
            if began.elapsed() > WRITE_BACK {
                return Err(Failure::Wrong("the borrower does not borrow".into()));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

pub(super) fn run(out: &Out, b: &Bench) -> Result<()> {
    let Experiment::Harvest = b.experiment;
    let device = out.device()?;
    let memory = workload::memory_of(&device, 0)?;
    let links = device.links(0)?;
    let lenders: Vec<u32> = device
        .gpus()?
        .iter()
        .map(|g| g.gpu)
        .filter(|g| links.iter().any(|l| l.peer == *g && l.up != 0))
        .collect();
    if lenders.is_empty() {
        return Err(Failure::NotFound(
            "GPU 0 has no neighbour that it is linked with".into(),
            "start the guest with GPUS=2 or more".into(),
        ));
    }
    let peer_mbps = links.iter().map(|l| l.mbps).max().unwrap_or(0);
    let s = Setting {
        out,
        args: b,
        device,
        lenders,
        memory,
        peer_mbps,
    };
    let mut rows = Vec::new();
    for policy in &LADDER {
        eprintln!("steady: {}", policy.name);
        rows.push(s.stream("steady", policy, true, 0)?);
    }
    // Whole chunks, among the lenders.
    let five = (memory as f64 * RATIO * 0.05 / s.lenders.len() as f64) as u64 >> 20;
    let [stock, ..] = &LADDER;
    for policy in [stock, &BEST] {
        eprintln!("spare-5: {}", policy.name);
        rows.push(s.stream("spare-5", policy, true, five.max(2))?);
    }
    eprintln!("reclaim");
    rows.push(s.reclaim()?);
    eprintln!("lender");
    rows.extend(s.lender()?);
    if let Some(path) = &b.output {
        let text = serde_json::to_string_pretty(&rows).unwrap_or_default() + "\n";
        std::fs::write(path, text)
            .map_err(|e| Failure::File(format!("{}: {e}", path.display())))?;
    }
    let wrong = rows.iter().filter_map(|r| r.mismatches).sum::<u64>();
    let failure = judge(&[Figures {
        mismatches: Some(wrong),
        ..Figures::default()
    }]);
    out.list_failed("bench", &rows, failure)
}
