// SPDX-License-Identifier: GPL-2.0
//! A row of results.

use super::super::figures::{speedup, Figures};
use super::lineup::Policy;
use crate::exit::Result;
use crate::row::{extra, field, Cell, Field, Row};
use serde::{Deserialize, Serialize};

/// One result. Sums of the measured passes, on one GPU.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(in crate::cmd) struct Measured {
    pub(super) experiment: String,
    pub(super) case: String,
    pub(super) workload: String,
    /// The policy's name: of a preset, or of techniques.
    pub(super) preset: String,
    /// The policy in full.
    pub(super) recipe: String,
    /// GPUs of the machine.
    pub(super) gpus: u32,
    pub(super) gpu: u32,
    pub(super) role: String,
    pub(super) ratio: f64,
    /// Memory that the neighbours may lend, as a share of the borrower's data.
    pub(super) spare_ratio: f64,
    pub(super) bytes: u64,
    pub(super) passes: u32,
    pub(super) time_ns: u64,
    /// Time of the same work with memory enough.
    #[serde(default)]
    pub(super) ideal_ns: Option<u64>,
    /// Time of the case's first row over this one's, for the same GPU and role.
    pub(super) speedup: Option<f64>,
    pub(super) h2d_bytes: u64,
    pub(super) d2h_bytes: u64,
    pub(super) p2p_bytes: u64,
    pub(super) spare_hit_bytes: u64,
    pub(super) faults: u64,
    pub(super) evictions: u64,
    /// Of the busiest direction of the busiest link, host or neighbours.
    pub(super) link_efficiency: Option<f64>,
    /// Of the links to the neighbours, for what was fetched back over them.
    pub(super) peer_efficiency: Option<f64>,
    /// Chunks of the owner that were lent, all with a copy on the host, when it began.
    pub(super) lent_chunks: Option<u64>,
    pub(super) reclaims: u64,
    pub(super) reclaims_copied: u64,
    pub(super) reclaim_p50_ns: Option<u64>,
    pub(super) reclaim_max_ns: Option<u64>,
    pub(super) mismatches: Option<u64>,
    /// Bytes of the GPU's memory, where it was made smaller.
    #[serde(default)]
    pub(super) memory_bytes: Option<u64>,
    /// Bytes of the data that this one stands for, where that is more: such a GPU's memory stands for one of 16 GiB.
    #[serde(default)]
    pub(super) full_bytes: Option<u64>,
    /// Passes that the figures were scaled from.
    #[serde(default)]
    pub(super) passes_made: Option<u32>,
    /// Time that the driver was at faults.
    #[serde(default)]
    pub(super) service_ns: Option<u64>,
    /// What Belady's MIN moves: computed afterwards (`huvm-results fill`).
    #[serde(default)]
    pub(super) belady_bytes: Option<u64>,
    /// Instructions of the driver's threads. Whoever runs the machine fills it in (`tools/build/bench.sh`): `driver_ns` by
    /// what a CPU executes in a nanosecond.
    #[serde(default)]
    pub(super) driver_insns: Option<u64>,
    /// CPU time of the driver's threads for the GPU.
    #[serde(default)]
    pub(super) driver_ns: Option<u64>,
    /// CPU time of the thread that serves faults, over the time taken.
    #[serde(default)]
    pub(super) driver_share: Option<f64>,
    /// Time in which a fault waited for the driver alone.
    #[serde(default)]
    pub(super) exposed_ns: Option<u64>,
    /// Time that faults waited for copies.
    #[serde(default)]
    pub(super) wait_ns: Option<u64>,
    /// Time that faults took to make room.
    #[serde(default)]
    pub(super) evict_ns: Option<u64>,
    /// Faults that brought a page: the others are duplicates, or came late.
    #[serde(default)]
    pub(super) served: Option<u64>,
    /// Processes, or who counts as one: open files.
    #[serde(default)]
    pub(super) clients: Option<u32>,
    /// Passes before the measured ones.
    #[serde(default)]
    pub(super) warmup: Option<u32>,
    /// The time of the same once more, behind the presets in the other order.
    #[serde(default)]
    pub(super) again_ns: Option<u64>,
}

impl Row for Measured {
    fn fields(&self) -> Vec<Field> {
        let share = |s: Option<f64>| s.map_or(Cell::None, Cell::Share);
        let nanos = |n: Option<u64>| n.map_or(Cell::None, Cell::Nanos);
        let count = |n: Option<u64>| n.map_or(Cell::None, Cell::Count);
        vec![
            field("case", "CASE", Cell::text(&self.case)),
            field("preset", "POLICY", Cell::text(&self.preset)),
            field("gpus", "GPUS", Cell::count(self.gpus)),
            field("role", "ROLE", Cell::text(&self.role)),
            field("ratio", "RATIO", Cell::Ratio(self.ratio)),
            field("spare_ratio", "SPARE", Cell::Ratio(self.spare_ratio)),
            field("time_ns", "TIME", Cell::Nanos(self.time_ns)),
            field(
                "speedup",
                "SPEED-UP",
                self.speedup.map_or(Cell::None, Cell::Ratio),
            ),
            field("faults", "FAULTS", Cell::Count(self.faults)),
            field("h2d_bytes", "TO-GPU", Cell::Bytes(self.h2d_bytes)),
            field("d2h_bytes", "TO-HOST", Cell::Bytes(self.d2h_bytes)),
            field("p2p_bytes", "PEER", Cell::Bytes(self.p2p_bytes)),
            field("link_efficiency", "LINK-EFF", share(self.link_efficiency)),
            field("reclaims", "RECLAIMS", Cell::Count(self.reclaims)),
            field("reclaim_p50_ns", "P50", nanos(self.reclaim_p50_ns)),
            field("reclaim_max_ns", "MAX", nanos(self.reclaim_max_ns)),
            field("mismatches", "MISMATCHES", count(self.mismatches)),
            extra("ideal_ns", nanos(self.ideal_ns)),
            extra("experiment", Cell::text(&self.experiment)),
            extra("workload", Cell::text(&self.workload)),
            extra("recipe", Cell::text(&self.recipe)),
            extra("gpu", Cell::count(self.gpu)),
            extra("bytes", Cell::Bytes(self.bytes)),
            extra("passes", Cell::count(self.passes)),
            extra("spare_hit_bytes", Cell::Bytes(self.spare_hit_bytes)),
            extra("evictions", Cell::Count(self.evictions)),
            extra("peer_efficiency", share(self.peer_efficiency)),
            extra("lent_chunks", count(self.lent_chunks)),
            extra("reclaims_copied", Cell::Count(self.reclaims_copied)),
            extra(
                "memory_bytes",
                self.memory_bytes.map_or(Cell::None, Cell::Bytes),
            ),
            extra(
                "passes_made",
                self.passes_made.map_or(Cell::None, Cell::count),
            ),
            extra("service_ns", nanos(self.service_ns)),
            extra(
                "belady_bytes",
                self.belady_bytes.map_or(Cell::None, Cell::Bytes),
            ),
            extra("driver_insns", count(self.driver_insns)),
            extra("driver_ns", nanos(self.driver_ns)),
            extra("driver_share", share(self.driver_share)),
            extra("exposed_ns", nanos(self.exposed_ns)),
            extra("wait_ns", nanos(self.wait_ns)),
            extra("evict_ns", nanos(self.evict_ns)),
            extra("served", count(self.served)),
            extra("clients", self.clients.map_or(Cell::None, Cell::count)),
            extra("warmup", self.warmup.map_or(Cell::None, Cell::count)),
            extra("again_ns", nanos(self.again_ns)),
            extra(
                "full_bytes",
                self.full_bytes.map_or(Cell::None, Cell::Bytes),
            ),
        ]
    }
}

impl Measured {
    /// A workload's figures as a row of a case.
    pub(super) fn of(case: &str, policy: &Policy, gpu: u32, role: &str, f: &Figures) -> Self {
        Measured {
            experiment: "harvest".into(),
            case: case.into(),
            workload: f.workload.clone(),
            preset: policy.name.clone(),
            recipe: policy.recipe(),
            gpu,
            role: role.into(),
            ratio: f.ratio,
            bytes: f.bytes,
            passes: f.passes,
            time_ns: f.time_ns,
            h2d_bytes: f.h2d_bytes,
            d2h_bytes: f.d2h_bytes,
            p2p_bytes: f.p2p_bytes,
            spare_hit_bytes: f.spare_hit_bytes,
            faults: f.faults,
            evictions: f.evictions,
            link_efficiency: f.link_efficiency,
            peer_efficiency: f.peer_efficiency,
            mismatches: f.mismatches,
            service_ns: Some(f.service_ns),
            driver_ns: f.driver_ns,
            driver_share: f.driver_share,
            exposed_ns: f.exposed_ns,
            ..Measured::default()
        }
    }
}

/// Rows of each of `all` in turn. With `again` all of it once more in the other order, for what else ran before a row in the same guest
/// moves it by some percent: the rows have both times.
pub(super) fn there_and_back<T>(
    all: &[T],
    again: bool,
    run: impl Fn(&T) -> Result<Vec<Measured>>,
) -> Result<Vec<Measured>> {
    let mut each: Vec<Vec<Measured>> = all.iter().map(&run).collect::<Result<_>>()?;
    if again {
        for (of, rows) in all.iter().zip(&mut each).rev() {
            for (row, other) in rows.iter_mut().zip(run(of)?) {
                row.again_ns = Some(other.time_ns);
                let wrong = row.mismatches.zip(other.mismatches);
                row.mismatches = wrong.map(|(a, b)| a.saturating_add(b));
            }
        }
    }
    Ok(each.into_iter().flatten().collect())
}

/// Rows of one case compare with its first one.
pub(super) fn compare(rows: &mut [Measured]) {
    let first: Vec<Option<u64>> = rows
        .iter()
        .map(|r| {
            let same = |o: &&Measured| o.case == r.case && o.role == r.role && o.gpu == r.gpu;
            rows.iter().find(same).map(|o| o.time_ns)
        })
        .collect();
    for (row, first) in rows.iter_mut().zip(first) {
        row.speedup = first.and_then(|t| speedup(t, row.time_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// Catches rows that are paired with another's second time, and what was wrong the second time alone.
    #[test]
    fn the_same_again_comes_in_the_other_order() {
        let order = RefCell::new(Vec::new());
        let run = |name: &&str| {
            let mut order = order.borrow_mut();
            order.push(name.to_string());
            Ok(vec![Measured {
                preset: name.to_string(),
                time_ns: order.len() as u64,
                mismatches: Some(u64::from(order.len() == 4)),
                ..Measured::default()
            }])
        };
        let rows = there_and_back(&["a", "b"], true, run).unwrap();
        assert_eq!(order.take(), ["a", "b", "b", "a"]);
        let of: Vec<_> = rows
            .iter()
            .map(|r| (r.preset.as_str(), r.time_ns, r.again_ns, r.mismatches))
            .collect();
        assert_eq!(of, [("a", 1, Some(4), Some(1)), ("b", 2, Some(3), Some(0))]);
        let once = there_and_back(&["a", "b"], false, run).unwrap();
        assert!(order.take().len() == 2 && once.iter().all(|r| r.again_ns.is_none()));
    }
}
