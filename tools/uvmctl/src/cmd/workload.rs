// SPDX-License-Identifier: GPL-2.0
//! Workloads: fill by the CPU, passes by the GPU, check by the CPU; and the figures of the passes.

use super::policy;
use crate::cli::Workload;
use crate::exit::{Failure, Result};
use crate::out::Out;
use crate::row::{extra, field, Cell, Field, Row};
use crate::units::CHUNK;
use indicatif::{ProgressBar, ProgressDrawTarget};
use libhuvm::device::Counters;
use libhuvm::{uapi, work::PIECE, Device, Managed, Program, Scope};
use serde::{Deserialize, Serialize};

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

/// Figures of the measured passes.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Figures {
    pub(crate) workload: String,
    pub(crate) preset: String,
    pub(crate) ratio: f64,
    pub(crate) time_ns: u64,
    pub(crate) faults: u64,
    pub(crate) h2d_bytes: u64,
    pub(crate) d2h_bytes: u64,
    pub(crate) evictions: u64,
    /// Time that the moved bytes need on the busiest direction of the GPU's busiest link (to the host, or those to lending
    /// neighbours together) at its full bandwidth, over the time taken.
    pub(crate) link_efficiency: Option<f64>,
    /// Elements that the CPU found wrong; unknown without verification.
    pub(crate) mismatches: Option<u64>,
    pub(crate) bytes: u64,
    pub(crate) passes: u32,
    pub(crate) service_ns: u64,
    pub(crate) fault_batches: u64,
    pub(crate) data: String,
    /// Bytes over links between GPUs, both directions.
    #[serde(default)]
    pub(crate) p2p_bytes: u64,
    /// Of these, bytes fetched back from neighbours' memory.
    #[serde(default)]
    pub(crate) spare_hit_bytes: u64,
    /// As `link_efficiency`, for the bytes fetched back from neighbours alone.
    #[serde(default)]
    pub(crate) peer_efficiency: Option<f64>,
}

impl Figures {
    /// What a GPU's counters gained between two readings, in the time between them.
    pub(crate) fn between(before: &Counters, after: &Counters) -> Self {
        let added = after.since(before);
        let p2p_bytes = added.get(uapi::HUVM_CNT_BYTES_P2P);
        Figures {
            time_ns: added.time_ns,
            faults: added.get(uapi::HUVM_CNT_FAULTS),
            h2d_bytes: added.get(uapi::HUVM_CNT_BYTES_H2D),
            d2h_bytes: added.get(uapi::HUVM_CNT_BYTES_D2H),
            evictions: added.get(uapi::HUVM_CNT_EVICTIONS),
            service_ns: added.get(uapi::HUVM_CNT_SERVICE_NS),
            fault_batches: added.get(uapi::HUVM_CNT_FAULT_BATCHES),
            p2p_bytes,
            // A part of them; the counters are not read all at one moment.
            spare_hit_bytes: added.get(uapi::HUVM_CNT_SPARE_HIT_BYTES).min(p2p_bytes),
            ..Figures::default()
        }
    }
}

/// Times faster than a first run, to three decimals.
pub(crate) fn speedup(first_ns: u64, ns: u64) -> Option<f64> {
    (ns != 0).then(|| (first_ns as f64 / ns as f64 * 1e3).round() / 1e3)
}

impl Row for Figures {
    fn fields(&self) -> Vec<Field> {
        vec![
            field("workload", "WORKLOAD", Cell::text(&self.workload)),
            field("preset", "PRESET", Cell::text(&self.preset)),
            field("ratio", "RATIO", Cell::Ratio(self.ratio)),
            field("bytes", "SIZE", Cell::Bytes(self.bytes)),
            field("time_ns", "TIME", Cell::Nanos(self.time_ns)),
            field("faults", "FAULTS", Cell::Count(self.faults)),
            field("h2d_bytes", "TO-GPU", Cell::Bytes(self.h2d_bytes)),
            field("d2h_bytes", "TO-HOST", Cell::Bytes(self.d2h_bytes)),
            field("evictions", "EVICTIONS", Cell::Count(self.evictions)),
            field(
                "link_efficiency",
                "LINK-EFF",
                self.link_efficiency.map_or(Cell::None, Cell::Share),
            ),
            field(
                "mismatches",
                "MISMATCHES",
                self.mismatches.map_or(Cell::None, Cell::Count),
            ),
            extra("passes", Cell::count(self.passes)),
            extra("service_ns", Cell::Nanos(self.service_ns)),
            extra("fault_batches", Cell::Count(self.fault_batches)),
            extra("data", Cell::text(&self.data)),
            extra("p2p_bytes", Cell::Bytes(self.p2p_bytes)),
            extra("spare_hit_bytes", Cell::Bytes(self.spare_hit_bytes)),
            extra(
                "peer_efficiency",
                self.peer_efficiency.map_or(Cell::None, Cell::Share),
            ),
        ]
    }
}

/// Name of a workload.
pub(crate) fn name(w: Workload) -> &'static str {
    match w {
        Workload::Scan => "scan",
        Workload::VectorAdd => "vector-add",
        Workload::Triad => "triad",
        Workload::Stencil => "stencil",
        Workload::Gather => "gather",
        Workload::Random => "random",
    }
}

fn arrays_of(w: Workload) -> u64 {
    match w {
        Workload::Scan => 1,
        Workload::Stencil => 2,
        _ => 3,
    }
}

/// Bytes of the GPU's chunks.
pub(crate) fn memory_of(device: &Device, gpu: u32) -> Result<u64> {
    Ok(u64::from(device.gpu_info(gpu)?.chunk_count) * CHUNK)
}

/// Chunks that a GPU has lent to another one.
pub(crate) fn lent_to(lender: &uapi::huvm_lend_info, borrower: u32) -> u64 {
    let borrower = usize::try_from(borrower).ok();
    let chunks = borrower.and_then(|b| lender.lent_chunks.get(b));
    chunks.copied().unwrap_or(0)
}

/// Bandwidth of the links to the GPUs that lend to this one now, MB/s.
fn lenders_mbps(device: &Device, gpu: u32) -> Result<u32> {
    // A link may lead to a GPU that this machine does not have, and a driver older than interface 1.1 does not tell.
    let lends = |peer| device.lend_info(peer).is_ok_and(|l| lent_to(&l, gpu) != 0);
    let links = device.links(gpu)?;
    let used = links.iter().filter(|l| l.up != 0 && lends(l.peer));
    Ok(used.fold(0, |sum, l| sum.saturating_add(l.mbps)))
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

/// Where element `i` of a random gather comes from: the finaliser of SplitMix64 (Steele et al. 2014) over `i`.
fn scattered(i: u64, n: u64) -> u64 {
    let mut z = i.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) % n.max(1)
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

/// Runs it.
pub(crate) fn run(out: &Out, spec: &Spec) -> Result<Figures> {
    let count = arrays_of(spec.workload);
    let each = size_of_each(spec.bytes, count, spec.blocks)?;
    let device = out.device()?;
    let info = device.gpu_info(spec.gpu)?;
    if let Some(p) = &spec.preset {
        policy::choose(&device, Scope::Space, p)?;
    }
    device.register(spec.gpu)?;
    let passes = u64::from(spec.warmup) + u64::from(spec.iterations);
    let bar = ProgressBar::new(passes + count + u64::from(spec.verify));
    if !out.talks() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let mut arrays = Vec::new();
    for (k, of) in (0..count).zip(SERIES) {
        // A stencil reads two elements beyond its result.
        let margin = if spec.workload == Workload::Stencil && k == 0 {
            MARGIN
        } else {
            0
        };
        let mut m = device.alloc(each + margin)?;
        let n = each / 8;
        if matches!(spec.workload, Workload::Gather | Workload::Random) && k == 1 {
            for (i, w) in (0..).zip(m.as_mut_slice()) {
                *w = index_of(spec.workload, i, n);
            }
        } else {
            let mut v = of.0;
            for w in m.as_mut_slice() {
                *w = v;
                v = v.wrapping_add(of.1);
            }
        }
        arrays.push(m);
        bar.inc(1);
    }
    let program = program(spec.workload, &mut arrays, spec.blocks)?.computing(spec.compute_ns);
    for _ in 0..spec.warmup {
        device.launch(spec.gpu, &program)?.wait_done()?;
        bar.inc(1);
    }
    let before = device.counters(Scope::Gpu(spec.gpu))?;
    let mut time_ns = 0;
    for _ in 0..spec.iterations {
        time_ns += device.launch(spec.gpu, &program)?.wait_done()?.time_ns();
        bar.inc(1);
    }
    let after = device.counters(Scope::Gpu(spec.gpu))?;
    // Before the CPU takes the data.
    let peers_mbps = lenders_mbps(&device, spec.gpu)?;
    let phantom = info.device_flags & 2 != 0;
    let mismatches = (spec.verify && !phantom).then(|| count_wrong(spec.workload, &arrays, passes));
    bar.finish_and_clear();
    let moved = Figures::between(&before, &after);
    let host = efficiency(
        (moved.h2d_bytes, info.host_h2d_mbps),
        (moved.d2h_bytes, info.host_d2h_mbps),
        time_ns,
    );
    let back = moved.spare_hit_bytes;
    let away = moved.p2p_bytes.saturating_sub(back);
    let peer_in = efficiency((back, peers_mbps), (0, 0), time_ns);
    let peer_out = efficiency((0, 0), (away, peers_mbps), time_ns);
    let busiest = [host, peer_in, peer_out].into_iter().flatten();
    Ok(Figures {
        workload: name(spec.workload).into(),
        preset: device.preset(Scope::Space)?,
        ratio: spec.ratio,
        time_ns,
        link_efficiency: busiest.max_by(f64::total_cmp),
        mismatches,
        bytes: each * count,
        passes: spec.iterations,
        data: if phantom { "phantom" } else { "real" }.into(),
        peer_efficiency: peer_in,
        ..moved
    })
}

/// Of one link: bytes and bandwidth of each direction. `None` when nothing moved or nothing is known.
fn efficiency(to: (u64, u32), from: (u64, u32), time_ns: u64) -> Option<f64> {
    // 10^6 bytes a second are 10^-3 bytes a nanosecond.
    let need = |(bytes, mbps): (u64, u32)| {
        if mbps == 0 {
            0.0
        } else {
            bytes as f64 * 1000.0 / f64::from(mbps)
        }
    };
    let busier = need(to).max(need(from));
    (busier > 0.0 && time_ns != 0).then(|| (busier / time_ns as f64 * 1e4).round() / 1e4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busier_direction_counts() {
        // 12.3 MB at 12300 MB/s are 1 ms.
        assert_eq!(
            efficiency((12_300_000, 12300), (1000, 12300), 2_000_000),
            Some(0.5)
        );
        assert_eq!(
            efficiency((0, 12300), (24_600_000, 12300), 2_000_000),
            Some(1.0)
        );
        assert_eq!(efficiency((0, 12300), (0, 12300), 5), None);
        assert_eq!(efficiency((5, 0), (5, 0), 5), None);
    }

    #[test]
    fn figures_are_what_was_added() {
        let reading = |time_ns, set: &[(u32, u64)]| {
            let mut values = vec![0; uapi::HUVM_CNT_COUNT as usize];
            for (counter, n) in set {
                values[*counter as usize] = *n;
            }
            Counters { values, time_ns }
        };
        let (faults, p2p, back) = (
            uapi::HUVM_CNT_FAULTS,
            uapi::HUVM_CNT_BYTES_P2P,
            uapi::HUVM_CNT_SPARE_HIT_BYTES,
        );
        let before = reading(100, &[(faults, 7), (p2p, 4096), (back, 0)]);
        let after = reading(350, &[(faults, 9), (p2p, 12288), (back, 65536)]);
        let f = Figures::between(&before, &after);
        assert_eq!((f.time_ns, f.faults, f.h2d_bytes), (250, 2, 0));
        // What came back is a part of what went over the links.
        assert_eq!((f.p2p_bytes, f.spare_hit_bytes), (8192, 8192));
    }

    #[test]
    fn a_lender_counts_for_those_it_lends_to() {
        let mut l = uapi::huvm_lend_info::default();
        l.lent_chunks[2] = 5;
        assert_eq!([1, 2, 99].map(|g| lent_to(&l, g)), [0, 5, 0]);
    }

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
    fn a_run_without_time_has_no_speed_up() {
        assert_eq!(speedup(3000, 2000), Some(1.5));
        assert_eq!(speedup(1000, 3000), Some(0.333));
        assert_eq!(speedup(1000, 0), None);
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
