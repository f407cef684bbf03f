// SPDX-License-Identifier: GPL-2.0
//! The cases of `bench harvest`: what is run, and what is read off.

use super::super::figures::{lent_to, memory_of, Figures};
use super::super::sweep::{self, Spec};
use super::lineup::{Lend, Lineup, Machine, Policy, BASE, BEST, WHOLE};
use super::measured::{compare, Measured};
use super::BLOCKS;
use crate::cli::{Bench, Workload};
use crate::exit::{Failure, Result};
use crate::host;
use crate::out::Out;
use crate::signals;
use crate::units::CHUNK;
use libhuvm::{uapi, Device, Program, Scope};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The borrower's data, as a share of its memory.
const RATIO: f64 = 1.5;
/// Spare memory of `spare-5`, as a share of the borrower's data.
const FIVE_PERCENT: f64 = 0.05;
/// The lender's own job, as a share of its memory.
const OWN: f64 = 0.5;
/// Passes of that job for each of the others' passes: one is short, and all of them must meet many of the borrower's.
const OWN_PASSES: u32 = 40;
/// What a block of the lender's computing job computes for each 64 KiB that it reads and writes, ns: twice as long as these take
/// when 80 blocks share 900 GB/s. All 80 together use half of the memory's bandwidth then.
const OWN_COMPUTE_NS: u64 = 23_300;
/// What the owner of `reclaim` wants, as a share of its memory: more than is free.
const ALL: f64 = 1.0;
/// The borrower's data in `reclaim`, as a share of its memory: most of the neighbour's is lent.
const LENT_MOST: f64 = 1.85;
/// What the neighbour lends in the smaller run of `reclaim`, MiB.
const LENT_FEW_MIB: u64 = 16;
/// Passes of `off` for each of the others' passes: one percent is to be seen.
const OFF_PASSES: u32 = 4;
/// Longest wait for something that goes on in the background.
const BACKGROUND: Duration = Duration::from_secs(20);

/// A lender's own job.
struct OwnJob {
    /// Cases: without a borrower, beside one.
    alone: &'static str,
    shared: &'static str,
    compute_ns: u64,
}

/// It takes all of its memory's bandwidth, so whatever a borrower moves through that memory slows it down: with [`PACE`] that is little.
const BOUND: OwnJob = OwnJob {
    alone: "lender-alone",
    shared: "lender-shared",
    compute_ns: 0,
};
/// It uses half of that bandwidth.
const COMPUTING: OwnJob = OwnJob {
    alone: "computing-alone",
    shared: "computing-shared",
    compute_ns: OWN_COMPUTE_NS,
};

/// The first without a limit to what its GPU takes in meanwhile: the whole, as it is.
const UNPACED: OwnJob = OwnJob {
    shared: "unpaced-shared",
    ..BOUND
};
/// That limit, as the default preset has it.
const PACE: (&str, u64) = ("lend_slowdown_percent", 2);

/// The whole with it, by name.
fn paced() -> String {
    format!("{WHOLE}:{}={}", PACE.0, PACE.1)
}

/// What all cases need.
struct Setting<'a> {
    out: &'a Out,
    args: &'a Bench,
    device: Device,
    machine: Machine,
    memory: u64,
}

/// Runs all cases that this machine allows: with a GPU that has no neighbours, that is `off` alone.
pub(super) fn run(out: &Out, args: &Bench) -> Result<Vec<Measured>> {
    let device = out.device()?;
    let lineup = Lineup::of(&device)?;
    let s = Setting {
        out,
        args,
        memory: memory_of(&device, 0)?,
        machine: Machine::around(&device, 0)?,
        device,
    };
    let mut rows = Vec::new();
    let base = lineup.preset(BASE).ok_or_else(|| {
        Failure::NotFound(
            format!("the driver has no preset '{BASE}'"),
            "load the module that came with this uvmctl".into(),
        )
    })?;
    rows.push(s.off("off", &base)?);
    if let Some(owner) = s.machine.lenders.first().copied() {
        s.steady(&lineup, &base, &mut rows)?;
        s.little_spare(&lineup, &base, &mut rows)?;
        let whole = lineup.whole();
        for (lend, ratio) in [
            (Lend::Nothing, LENT_MOST),
            (Lend::UpTo(LENT_FEW_MIB), RATIO),
            (Lend::Free, LENT_MOST),
        ] {
            rows.push(s.reclaim(&whole, owner, lend, ratio)?);
        }
        let paced = whole.clone().with(&paced(), PACE.0, PACE.1);
        for job in [BOUND, COMPUTING] {
            rows.push(s.alone(&job, &base, owner)?);
            rows.push(s.alone(&job, &paced, owner)?);
            rows.extend(s.shared(&job, &paced, owner)?);
        }
        rows.extend(s.shared(&UNPACED, &whole, owner)?);
        rows.push(s.off("off-again", &base)?);
    }
    for row in &mut rows {
        // CAST: at most 16.
        row.gpus = s.machine.gpus().count() as u32;
    }
    compare(&mut rows);
    Ok(rows)
}

impl Setting<'_> {
    fn spec(&self, gpu: u32, ratio: f64, passes: u32) -> Spec {
        Spec {
            workload: Workload::Scan,
            gpu,
            bytes: (self.memory as f64 * ratio) as u64,
            ratio,
            iterations: passes,
            warmup: 1,
            blocks: self.args.blocks.unwrap_or(BLOCKS),
            verify: true,
            preset: None,
            compute_ns: 0,
        }
    }

    fn choose(&self, policy: &Policy, lend: Lend) -> Result<()> {
        self.machine.choose(&self.device, policy, lend)
    }

    /// The borrower streams under a policy.
    fn stream(&self, case: &str, policy: &Policy, lend: Lend, passes: u32) -> Result<Measured> {
        self.out.note(&format!("{case}: {}", policy.name));
        self.choose(policy, lend)?;
        let f = sweep::run(self.out, &self.spec(0, RATIO, passes))?;
        let mut m = Measured::of(case, policy, 0, "borrower", &f);
        m.spare_ratio = self.spare(lend, f.bytes);
        Ok(m)
    }

    /// All switches off.
    fn off(&self, case: &str, base: &Policy) -> Result<Measured> {
        let passes = self.args.iterations.saturating_mul(OFF_PASSES);
        self.stream(case, base, Lend::Nothing, passes)
    }

    /// Stock, prior art, each technique alone, one on top of the other, the whole, the default.
    fn steady(&self, l: &Lineup, base: &Policy, rows: &mut Vec<Measured>) -> Result<()> {
        let stock = [base.clone()].into_iter();
        let policies = stock
            .chain(l.preset("stock-460"))
            .chain(l.preset("preef-host"))
            .chain(l.alone())
            .chain(l.ladder())
            .chain([l.whole()])
            .chain(l.preset(BEST));
        for policy in policies {
            rows.push(self.stream("steady", &policy, Lend::Free, self.args.iterations)?);
        }
        Ok(())
    }

    /// Spare memory for 5 % of the data, in whole chunks.
    fn little_spare(&self, l: &Lineup, base: &Policy, rows: &mut Vec<Measured>) -> Result<()> {
        let lenders = self.machine.lenders.len().max(1) as u64;
        let data = self.memory as f64 * RATIO;
        let chunks = ((data * FIVE_PERCENT) as u64 / CHUNK / lenders).max(1);
        let lend = Lend::UpTo(chunks * (CHUNK >> 20));
        let policies = l.preset("stock-460").into_iter();
        let policies = policies
            .chain([base.clone()])
            .chain(l.preset("preef-host"))
            .chain([l.whole()])
            .chain(l.preset(BEST));
        for policy in policies {
            rows.push(self.stream("spare-5", &policy, lend, self.args.iterations)?);
        }
        Ok(())
    }

    /// Share of `data` that the neighbours have room for.
    fn spare(&self, lend: Lend, data: u64) -> f64 {
        let each = match lend {
            Lend::Nothing => 0,
            Lend::UpTo(mib) => self.memory.min(mib << 20),
            Lend::Free => self.memory,
        };
        let all = each * self.machine.lenders.len() as u64;
        (all as f64 / data.max(1) as f64 * 1e4).round() / 1e4
    }

    /// The owner's first pass over memory that is lent, every lent chunk with a copy on the host.
    fn reclaim(&self, policy: &Policy, owner: u32, lend: Lend, ratio: f64) -> Result<Measured> {
        self.choose(policy, lend)?;
        let borrower = Device::open()?;
        borrower.register(0)?;
        let bytes = (self.memory as f64 * ratio) as u64;
        host::has_room(bytes)?;
        let mut data = borrower.alloc(bytes.next_multiple_of(CHUNK))?;
        let bytes = data.bytes();
        for (i, w) in (0u64..).zip(data.as_mut_slice()) {
            *w = 6u64.wrapping_add(i.wrapping_mul(3));
        }
        let program = Program::scale(&mut data, 1, 1, 16)?;
        borrower.launch(0, &program)?.wait_done()?;
        drop(program);
        let lent = self.written_back(owner)?;
        self.out.note(&format!("reclaim: {lent} chunks are lent"));
        let listener = Device::open()?;
        listener.listen(1 << uapi::HUVM_EVENT_RECLAIM, true)?;
        let before = self.device.counters(Scope::Gpu(owner))?;
        let spec = Spec {
            warmup: 0,
            ..self.spec(owner, ALL, 1)
        };
        let f = sweep::run(self.out, &spec)?;
        let after = self.device.counters(Scope::Gpu(owner))?;
        let mut times = Vec::new();
        while listener.has_events(0)? {
            let some = listener.events(256)?;
            times.extend(some.iter().filter(|e| e.gpu == owner).map(|e| e.arg1));
        }
        times.sort_unstable();
        let added = after.since(&before);
        let mut m = Measured::of("reclaim", policy, owner, "owner", &f);
        m.spare_ratio = self.spare(lend, bytes);
        m.lent_chunks = Some(lent);
        m.reclaims = added.get(uapi::HUVM_CNT_RECLAIMS);
        m.reclaims_copied = added.get(uapi::HUVM_CNT_RECLAIMS_COPIED);
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

    /// Waits until the host has a copy of every chunk lent by `owner`; how many that are.
    fn written_back(&self, owner: u32) -> Result<u64> {
        self.wait("lent chunks are not written back", || {
            let m = self.device.mem_info(owner)?;
            Ok((m.lent_only == 0).then_some(m.lent_removable))
        })
    }

    /// Asks until there is an answer.
    fn wait<T>(&self, failed: &str, ask: impl Fn() -> Result<Option<T>>) -> Result<T> {
        let began = Instant::now();
        loop {
            signals::check()?;
            if let Some(answer) = ask()? {
                return Ok(answer);
            }
            if began.elapsed() > BACKGROUND {
                return Err(Failure::Wrong(failed.into()));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The owner's own job, which fits.
    fn own_job(&self, job: &OwnJob, owner: u32) -> Result<Figures> {
        let passes = self.args.iterations.saturating_mul(OWN_PASSES);
        let spec = Spec {
            compute_ns: job.compute_ns,
            ..self.spec(owner, OWN, passes)
        };
        sweep::run(self.out, &spec)
    }

    fn alone(&self, job: &OwnJob, policy: &Policy, owner: u32) -> Result<Measured> {
        self.out.note(&format!("{}: {}", job.alone, policy.name));
        self.choose(policy, Lend::Free)?;
        let f = self.own_job(job, owner)?;
        Ok(Measured::of(job.alone, policy, owner, "owner", &f))
    }

    /// The owner's job beside a borrower that streams, and the borrower meanwhile.
    fn shared(&self, job: &OwnJob, policy: &Policy, owner: u32) -> Result<[Measured; 2]> {
        self.out.note(&format!("{}: {}", job.shared, policy.name));
        self.choose(policy, Lend::Free)?;
        let mut child = self.start_borrower()?;
        let of_borrower = || self.device.counters(Scope::Gpu(self.machine.borrower));
        let before = of_borrower();
        let figures = self.own_job(job, owner);
        let after = of_borrower();
        let still = child.try_wait().is_ok_and(|s| s.is_none());
        let _gone = child.kill();
        let _status = child.wait();
        // First: what ends this run, as a signal does, ends the borrower as well.
        let (f, before, after) = (figures?, before?, after?);
        if !still {
            return Err(Failure::Wrong("the borrower ended before the owner".into()));
        }
        let data = (self.memory as f64 * RATIO) as u64;
        let mut own = Measured::of(job.shared, policy, owner, "owner", &f);
        own.spare_ratio = self.spare(Lend::Free, data);
        // What it moved from before the owner filled its data until that was checked; it runs on after that, so there is
        // nothing of its own to check.
        let meanwhile = Figures {
            workload: f.workload,
            ratio: RATIO,
            bytes: data,
            ..Figures::between(&before, &after)
        };
        let mut other = Measured::of(job.shared, policy, 0, "borrower", &meanwhile);
        other.spare_ratio = own.spare_ratio;
        Ok([own, other])
    }

    fn start_borrower(&self) -> Result<Child> {
        let me = std::env::current_exe().map_err(|e| Failure::File(e.to_string()))?;
        let mut child = Command::new(me)
            .args(["run", "scan", "--gpu", "0", "--warmup", "0"])
            .args(["--iterations", "1000", "--ratio", &RATIO.to_string()])
            .args(["--blocks", &self.args.blocks.unwrap_or(BLOCKS).to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| Failure::File(e.to_string()))?;
        // It has to be borrowing before the owner starts.
        let lent = self.wait("the borrower does not borrow", || {
            let mut lent = 0;
            for gpu in &self.machine.lenders {
                lent += lent_to(&self.device.lend_info(*gpu)?, self.machine.borrower);
            }
            Ok((lent != 0).then_some(()))
        });
        if lent.is_err() {
            let _gone = child.kill();
            let _status = child.wait();
        }
        lent.map(|()| child)
    }
}
