// SPDX-License-Identifier: GPL-2.0
//! Jobs: each has data of its own and makes passes over it on a GPU. Several run at once.

use super::figures::Figures;
use super::landed::landed;
use super::policy;
use crate::exit::{Failure, Result};
use crate::out::Out;
use crate::signals;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use libhuvm::{uapi, Device, Scope, Threads};

/// Bit of `device_flags`: copies move no bytes.
const PHANTOM: u32 = 1 << 1;

/// Whether a GPU's data has no contents.
pub(crate) fn is_phantom(gpu: &uapi::huvm_gpu_info) -> bool {
    gpu.device_flags & PHANTOM != 0
}

/// What a job does. Its data is there when it is made.
pub(crate) trait Load: Send {
    /// Bytes of its data.
    fn bytes(&self) -> u64;

    /// Does what the CPU can do for the first `passes` before the first begins; for how many of them it has.
    ///
    /// # Errors
    /// No memory; interrupted.
    fn ready(&mut self, _at: &Seat, passes: u32) -> Result<u32> {
        Ok(passes)
    }

    /// Makes pass `nr`.
    ///
    /// # Errors
    /// A launch failed.
    fn pass(&mut self, at: &Seat, nr: u32) -> Result<()>;

    /// Why this machine cannot check its data.
    fn uncheckable(&self) -> Option<String> {
        None
    }

    /// Words that the CPU finds wrong after so many passes.
    ///
    /// # Errors
    /// What they should be cannot be computed.
    fn wrong(&self, passes: u32) -> Result<u64>;
}

/// Where a job runs, and how it tells how far it is.
pub(crate) struct Seat {
    pub(crate) device: Device,
    pub(crate) gpu: u32,
    pub(crate) bar: ProgressBar,
}

/// What is asked of a job.
pub(crate) struct Plan {
    pub(crate) workload: String,
    pub(crate) gpu: u32,
    /// Bytes asked for, as a share of the GPU's memory.
    pub(crate) ratio: f64,
    /// Passes that are measured.
    pub(crate) iterations: u32,
    /// Passes before these.
    pub(crate) warmup: u32,
    pub(crate) verify: bool,
    pub(crate) preset: Option<String>,
}

impl Plan {
    /// Passes in all.
    pub(crate) fn passes(&self) -> u32 {
        self.warmup.saturating_add(self.iterations)
    }
}

/// A job, ready to run.
pub(crate) struct Job {
    plan: Plan,
    seat: Seat,
    load: Box<dyn Load>,
    /// Passes that were ready before the first began.
    ready: u32,
}

/// Bars of progress, one a job; only where people read along.
pub(crate) struct Bars(MultiProgress);

impl Bars {
    pub(crate) fn new(out: &Out) -> Bars {
        Bars(match out.talks() {
            true => MultiProgress::new(),
            false => MultiProgress::with_draw_target(ProgressDrawTarget::hidden()),
        })
    }

    fn add(&self, plan: &Plan) -> ProgressBar {
        let style = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len}  {msg}");
        let length = u64::from(plan.passes()) + u64::from(plan.verify);
        let bar = ProgressBar::new(length)
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
            .with_prefix(format!("{} on GPU {}", plan.workload, plan.gpu));
        self.0.add(bar)
    }
}

impl Job {
    /// Opens the driver for it and makes its data with `load`.
    ///
    /// # Errors
    /// No such preset or GPU, no memory.
    pub(crate) fn new(
        out: &Out,
        bars: &Bars,
        plan: Plan,
        load: impl FnOnce(&Seat, &Plan) -> Result<Box<dyn Load>>,
    ) -> Result<Job> {
        let seat = Seat {
            device: out.device()?,
            gpu: plan.gpu,
            bar: bars.add(&plan),
        };
        if let Some(p) = &plan.preset {
            policy::choose(&seat.device, Scope::Space, p)?;
        }
        seat.device.register(plan.gpu)?;
        seat.bar.set_message("filling");
        let load = load(&seat, &plan)?;
        Ok(Job {
            plan,
            seat,
            load,
            ready: 0,
        })
    }

    /// Makes all passes. Their time is all of that between the readings of the counters: what one pass has on its way for the next is
    /// copied between the two. How well links were used is told up to where all has landed.
    fn measure(&mut self) -> Result<Figures> {
        let Seat { device, gpu, bar } = &self.seat;
        let (device, gpu) = (device, *gpu);
        let info = device.gpu_info(gpu)?;
        let mut before = None;
        let threads = Threads::of(gpu);
        let spent = || threads.as_ref().and_then(Threads::spent);
        let mut driver = None;
        let passes = self.plan.passes();
        self.ready = self.load.ready(&self.seat, passes)?;
        bar.set_message("");
        for nr in 0..passes {
            if nr == self.plan.warmup {
                before = Some(device.counters(Scope::Gpu(gpu))?);
                driver = spent();
            }
            signals::check()?;
            self.load.pass(&self.seat, nr)?;
            bar.inc(1);
        }
        let after = device.counters(Scope::Gpu(gpu))?;
        let spent = spent();
        let phantom = is_phantom(&info);
        let before = before.as_ref().unwrap_or(&after);
        let moved = Figures::between(before, &landed(device, gpu, &after)?);
        // Before the CPU takes the data: what lends now lent before.
        let figures = Figures::between(before, &after)
            .on_links(device, &info, &moved)?
            .driven(driver, spent);
        Ok(Figures {
            workload: self.plan.workload.clone(),
            gpu,
            preset: device.preset(Scope::Space)?,
            gpu_preset: device.preset(Scope::Gpu(gpu))?,
            ratio: self.plan.ratio,
            bytes: self.load.bytes(),
            passes: self.plan.iterations,
            data: if phantom { "phantom" } else { "real" }.into(),
            ..figures
        })
    }

    /// Says what the times have in them that is not the GPU's.
    fn caveat(&self, out: &Out) {
        let passes = self.plan.passes();
        if let Some(text) = unready(&self.plan.workload, self.ready, passes) {
            self.seat.bar.suspend(|| out.warn(&text));
        }
    }

    /// Words that the CPU finds wrong; `None` if it does not look, or cannot, of which there is a warning then.
    fn check(&self, out: &Out, figures: &Figures) -> Result<Option<u64>> {
        if !self.plan.verify {
            return Ok(None);
        }
        self.seat.bar.set_message("checking");
        if let Some(text) = unverified(figures, &*self.load) {
            self.seat.bar.suspend(|| out.warn(&text));
            return Ok(None);
        }
        let wrong = self.load.wrong(self.plan.passes())?;
        self.seat.bar.inc(1);
        Ok(Some(wrong))
    }
}

/// That there was no memory to have all passes ready; `None` if there was.
fn unready(name: &str, ready: u32, passes: u32) -> Option<String> {
    (ready < passes).then(|| {
        format!("{name}: there is no memory for the lists of {passes} passes, but of {ready}: the time of the others has their writing in it")
    })
}

/// That a job's data is not verified, and why; `None` if it can be.
fn unverified(figures: &Figures, load: &dyn Load) -> Option<String> {
    let phantom = (figures.data == "phantom").then(|| "the GPU's data is phantom".to_owned());
    let why = phantom.or_else(|| load.uncheckable())?;
    Some(format!("{} is not verified: {why}", figures.workload))
}

/// Runs a job.
///
/// # Errors
/// It failed.
pub(crate) fn run_one(out: &Out, mut job: Job) -> Result<Figures> {
    let mut figures = job.measure()?;
    job.caveat(out);
    figures.mismatches = job.check(out, &figures)?;
    job.seat.bar.finish_and_clear();
    Ok(figures)
}

/// Runs jobs at the same time. The CPU checks their data when all of them are over, so that it disturbs none. Figures of those
/// that ended well, and the first failure.
pub(crate) fn run_all(out: &Out, mut jobs: Vec<Job>) -> (Vec<Figures>, Option<Failure>) {
    let ended: Vec<Result<Figures>> = std::thread::scope(|s| {
        let threads: Vec<_> = jobs.iter_mut().map(|j| s.spawn(|| j.measure())).collect();
        let join = |t: std::thread::ScopedJoinHandle<'_, _>| {
            t.join().unwrap_or_else(|p| std::panic::resume_unwind(p))
        };
        threads.into_iter().map(join).collect()
    });
    let (mut rows, mut failure) = (Vec::new(), None);
    for (job, ended) in jobs.iter().zip(ended) {
        let checked = ended.and_then(|f| {
            job.caveat(out);
            let mismatches = job.check(out, &f)?;
            Ok(Figures { mismatches, ..f })
        });
        job.seat.bar.finish_and_clear();
        match checked {
            Ok(figures) => rows.push(figures),
            Err(e) => failure = failure.or(Some(e)),
        }
    }
    (rows, failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of which the machine says what it likes.
    struct Any(Option<&'static str>);

    impl Load for Any {
        fn bytes(&self) -> u64 {
            0
        }

        fn pass(&mut self, _at: &Seat, _nr: u32) -> Result<()> {
            Ok(())
        }

        fn uncheckable(&self) -> Option<String> {
            self.0.map(str::to_owned)
        }

        fn wrong(&self, _passes: u32) -> Result<u64> {
            Ok(0)
        }
    }

    #[test]
    fn passes_that_are_not_ready_are_said() {
        assert_eq!(unready("bfs", 4, 4), None);
        let said = unready("bfs", 3, 4).unwrap_or_default();
        assert!(said.contains("4 passes, but of 3"), "{said}");
    }

    #[test]
    fn what_cannot_be_verified_is_said_with_its_cause() {
        let of = |data: &str, load| {
            let figures = Figures {
                workload: "scan".into(),
                data: data.into(),
                ..Figures::default()
            };
            unverified(&figures, &Any(load))
        };
        assert_eq!(of("real", None), None);
        let said = |text: &str| Some(format!("scan is not verified: {text}"));
        assert_eq!(of("phantom", None), said("the GPU's data is phantom"));
        assert_eq!(of("real", Some("too little")), said("too little"));
    }
}
