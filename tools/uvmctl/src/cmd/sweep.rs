// SPDX-License-Identifier: GPL-2.0
//! Sweeps: fill by the CPU, one program a pass, check by the CPU against a formula.

use super::figures::Figures;
use super::job::{run_one, Bars, Job, Load, Plan, Seat};
use crate::cli::Workload;
use crate::exit::{Failure, Result};
use crate::host;
use crate::out::Out;
use crate::units::CHUNK;
use clap::ValueEnum;
use huvm_workloads::rng::mix;
use libhuvm::work::PIECE;
use libhuvm::{Device, Managed, Program};

/// What to run.
pub(crate) struct Spec {
    pub(crate) workload: Workload,
    pub(crate) gpu: u32,
    pub(crate) bytes: u64,
    pub(crate) ratio: f64,
    pub(crate) iterations: u32,
    pub(crate) warmup: u32,
    pub(crate) blocks: u32,
    pub(crate) verify: bool,
    pub(crate) preset: Option<String>,
    /// What a block computes for each 64 KiB of its result, ns.
    pub(crate) compute_ns: u64,
}

/// A sweep with its memory.
pub(crate) struct Sweep {
    workload: Workload,
    arrays: Vec<Managed>,
    blocks: u32,
    compute_ns: u64,
}

impl Sweep {
    /// Allocates and fills `bytes` in all. A block computes for `compute_ns` for each 64 KiB of its result.
    ///
    /// # Errors
    /// As [`host::has_room`]; no memory.
    pub(crate) fn new(
        device: &Device,
        workload: Workload,
        bytes: u64,
        blocks: u32,
        compute_ns: u64,
    ) -> Result<Sweep> {
        host::has_room(bytes)?;
        let count = arrays_of(workload);
        let each = size_of_each(bytes, count, blocks)?;
        let mut arrays = Vec::new();
        for (k, of) in (0..count).zip(SERIES) {
            // A stencil reads two elements beyond its result.
            let margin = if workload == Workload::Stencil && k == 0 {
                MARGIN
            } else {
                0
            };
            let mut m = device.alloc(each + margin)?;
            let n = each / 8;
            if matches!(workload, Workload::Gather | Workload::Random) && k == 1 {
                for (i, w) in (0..).zip(m.as_mut_slice()) {
                    *w = index_of(workload, i, n);
                }
            } else {
                let mut v = of.0;
                for w in m.as_mut_slice() {
                    *w = v;
                    v = v.wrapping_add(of.1);
                }
            }
            arrays.push(m);
        }
        Ok(Sweep {
            workload,
            arrays,
            blocks,
            compute_ns,
        })
    }
}

impl Load for Sweep {
    fn bytes(&self) -> u64 {
        // The margin of a stencil is no data.
        let each = self.arrays.last().map_or(0, Managed::bytes);
        each * self.arrays.len() as u64
    }

    fn pass(&mut self, at: &Seat, _nr: u32) -> Result<()> {
        let program = program(self.workload, &mut self.arrays, self.blocks)?;
        let program = program.computing(self.compute_ns);
        at.device.launch(at.gpu, &program)?.wait_done()?;
        Ok(())
    }

    fn wrong(&self, passes: u32) -> Result<u64> {
        Ok(count_wrong(self.workload, &self.arrays, passes.into()))
    }
}

/// Runs one.
///
/// # Errors
/// As [`Job::new`]; a launch failed.
pub(crate) fn run(out: &Out, spec: &Spec) -> Result<Figures> {
    let plan = Plan {
        workload: name(spec.workload),
        gpu: spec.gpu,
        ratio: spec.ratio,
        iterations: spec.iterations,
        warmup: spec.warmup,
        verify: spec.verify,
        preset: spec.preset.clone(),
    };
    let job = Job::new(out, &Bars::new(out), plan, |at, _| {
        let (bytes, blocks, ns) = (spec.bytes, spec.blocks, spec.compute_ns);
        let sweep = Sweep::new(&at.device, spec.workload, bytes, blocks, ns)?;
        Ok(Box::new(sweep))
    })?;
    run_one(out, job)
}

/// Name of a sweep.
pub(crate) fn name(w: Workload) -> String {
    w.to_possible_value()
        .map_or_else(String::new, |v| v.get_name().to_owned())
}

fn arrays_of(w: Workload) -> u64 {
    match w {
        Workload::Scan => 1,
        Workload::Stencil => 2,
        _ => 3,
    }
}

/// Words that a stencil reads beyond its result, in bytes: a page.
const MARGIN: u64 = 4096;

/// Bytes of each of `count` arrays: `bytes` in all, in whole rows of blocks and no less than a chunk.
fn size_of_each(bytes: u64, count: u64, blocks: u32) -> Result<u64> {
    let row = PIECE * u64::from(blocks);
    let unit = row.max(CHUNK).next_multiple_of(row);
    (bytes / count)
        .max(1)
        .checked_next_multiple_of(unit)
        .filter(|each| {
            each.checked_add(MARGIN)
                .and_then(|e| e.checked_mul(count))
                .is_some()
        })
        .ok_or_else(|| Failure::Usage(format!("{bytes} bytes are too many")))
}

/// First element of array `a`, and what each next one adds.
const SERIES: [(u64, u64); 3] = [(7, 3), (1000, 5), (0, 0)];

fn series(of: (u64, u64), i: u64) -> u64 {
    of.0.wrapping_add(of.1.wrapping_mul(i))
}

/// Where element `i` of a gather comes from: a fixed permutation of `n` elements.
fn permuted(i: u64, n: u64) -> u64 {
    // An odd multiplier permutes a power of two; otherwise the two halves of a row change places.
    if n.is_power_of_two() {
        i.wrapping_mul(0x9e37_79b1) & (n - 1)
    } else {
        (i + n / 2) % n
    }
}

/// Where element `i` of a random gather comes from.
fn scattered(i: u64, n: u64) -> u64 {
    mix(i) % n.max(1)
}

/// The index array's element `i`, for the workloads that have one.
fn index_of(w: Workload, i: u64, n: u64) -> u64 {
    match w {
        Workload::Random => scattered(i, n),
        _ => permuted(i, n),
    }
}

fn program(w: Workload, arrays: &mut [Managed], blocks: u32) -> Result<Program<'_>> {
    let p = match (w, arrays) {
        (Workload::Scan, [x]) => Program::scale(x, 1, 1, blocks),
        (Workload::VectorAdd, [x, y, z]) => Program::add(z, x, y, blocks),
        (Workload::Triad, [x, y, z]) => Program::triad(z, x, y, 3, blocks),
        (Workload::Stencil, [x, z]) => Program::stencil(z, x, blocks),
        (Workload::Gather | Workload::Random, [x, idx, z]) => Program::gather(z, x, idx, blocks),
        _ => return Err(Failure::Usage("wrong number of arrays".into())),
    };
    Ok(p?)
}

/// Elements of the result that differ from what they should be.
fn count_wrong(w: Workload, arrays: &[Managed], passes: u64) -> u64 {
    let (Some(result), [a, b, _]) = (arrays.last(), SERIES) else {
        return 0;
    };
    let words = result.as_slice();
    let n = words.len() as u64;
    let wrong = |want: &dyn Fn(u64) -> u64| {
        (0..).zip(words).filter(|(i, v)| **v != want(*i)).count() as u64
    };
    match w {
        // Kept apart, and without a call per element: it is the long one, on an emulated CPU.
        Workload::Scan => {
            let mut want = a.0.wrapping_add(passes);
            let mut bad = 0u64;
            for v in words {
                bad += u64::from(*v != want);
                want = want.wrapping_add(a.1);
            }
            bad
        }
        Workload::VectorAdd => wrong(&|i| series(a, i).wrapping_add(series(b, i))),
        Workload::Triad => wrong(&|i| series(a, i).wrapping_add(series(b, i).wrapping_mul(3))),
        // 1 + 2 + 1 times the element in the middle, for a series is straight.
        Workload::Stencil => wrong(&|i| series(a, i.wrapping_add(1)).wrapping_mul(4)),
        Workload::Gather | Workload::Random => wrong(&|i| series(a, index_of(w, i, n))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_whole_rows_or_refused() {
        let of = |bytes, count, blocks| size_of_each(bytes, count, blocks).map_err(|e| e.code());
        assert_eq!(of(1, 1, 16), Ok(CHUNK));
        assert_eq!(of(3 * CHUNK, 3, 32), Ok(CHUNK));
        // 80 blocks are a row of 5 MiB.
        assert_eq!(of(6 << 20, 1, 80), Ok(10 << 20));
        for (bytes, count) in [(u64::MAX, 1), (u64::MAX, 3), (u64::MAX - 4096, 1)] {
            assert_eq!(of(bytes, count, 80), Err(2), "{bytes} {count}");
        }
    }

    #[test]
    fn random_indices_stay_inside_and_spread() {
        let n = 1000u64;
        let seen: std::collections::BTreeSet<u64> = (0..n).map(|i| scattered(i, n)).collect();
        assert!(seen.iter().all(|i| *i < n));
        // Of n draws from n, about 63 % are distinct.
        assert!((550..720).contains(&seen.len()), "{}", seen.len());
    }

    #[test]
    fn gather_permutes() {
        for n in [8u64, 4096, 12, 6] {
            let mut seen: Vec<u64> = (0..n).map(|i| permuted(i, n)).collect();
            seen.sort_unstable();
            assert!(seen.iter().copied().eq(0..n), "{n}");
        }
    }
}
