// SPDX-License-Identifier: GPL-2.0
//! Whether costs grow with the machine: rows of `scaling` as costs of one fault and one eviction.

use super::measured::Measured;
use super::scaling::{EVICT, FAULT};
use crate::row::{field, Cell, Field, Row};

/// What grows: the first parts of the cases' names.
pub(super) const AXES: [&str; 4] = ["chunks", "gpus", "full", "clients"];

/// A case under a preset. Times are of one fault that brought a page, or of one eviction.
#[derive(Clone, Default)]
pub(super) struct Cost {
    pub(super) case: String,
    pub(super) preset: String,
    /// A fault: what the driver's threads spend, and how long it takes them.
    pub(super) fault: Option<u64>,
    pub(super) fault_time: Option<u64>,
    /// What is spent more on a fault that evicts, for each eviction; and how long making room takes.
    pub(super) evict: Option<u64>,
    pub(super) evict_time: Option<u64>,
}

impl Row for Cost {
    fn fields(&self) -> Vec<Field> {
        let nanos = |n: Option<u64>| n.map_or(Cell::None, Cell::Nanos);
        vec![
            field("case", "CASE", Cell::text(&self.case)),
            field("preset", "POLICY", Cell::text(&self.preset)),
            field("fault_cpu_ns", "FAULT-CPU", nanos(self.fault)),
            field("fault_ns", "FAULT-TIME", nanos(self.fault_time)),
            field("evict_cpu_ns", "EVICTION-CPU", nanos(self.evict)),
            field("evict_ns", "EVICTION-TIME", nanos(self.evict_time)),
        ]
    }
}

/// `sum` of so many.
fn each(sum: Option<u64>, count: Option<u64>) -> Option<u64> {
    sum?.checked_div(count?)
}

/// The costs of each case under each preset, in the order of their rows.
pub(super) fn costs(rows: &[Measured]) -> Vec<Cost> {
    let faults = rows.iter().filter(|r| r.role == FAULT);
    let cost = |f: &Measured| {
        let same = |r: &&Measured| r.role == EVICT && r.case == f.case && r.preset == f.preset;
        let evict = rows.iter().find(same);
        let fault = each(f.driver_ns, f.served);
        let more = evict.and_then(|e| {
            let faults = fault?.saturating_mul(e.served?);
            let evictions = e.driver_ns?.saturating_sub(faults);
            each(Some(evictions), Some(e.evictions))
        });
        Cost {
            case: f.case.clone(),
            preset: f.preset.clone(),
            fault,
            fault_time: each(f.service_ns, f.served),
            evict: more,
            evict_time: evict.and_then(|e| each(e.evict_ns.filter(|n| *n != 0), Some(e.evictions))),
        }
    };
    faults.map(cost).collect()
}

/// How much a cost differs between the cases of an axis under a preset: the least, the most, and by how much that is above the
/// least. `None` with fewer than two.
pub(super) fn spread(
    costs: &[Cost],
    axis: &str,
    preset: &str,
    of: impl Fn(&Cost) -> Option<u64>,
) -> Option<(u64, u64, f64)> {
    let on = |c: &&Cost| {
        let name = c.case.strip_prefix(axis);
        c.preset == preset && name.is_some_and(|rest| rest.starts_with('-'))
    };
    let all: Vec<u64> = costs.iter().filter(on).filter_map(of).collect();
    let (least, most) = (*all.iter().min()?, *all.iter().max()?);
    (all.len() > 1).then(|| (least, most, most as f64 / least.max(1) as f64 - 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(case: &str, role: &str, driver_ns: u64, served: u64, evictions: u64) -> Measured {
        Measured {
            case: case.into(),
            preset: "p".into(),
            role: role.into(),
            driver_ns: Some(driver_ns),
            served: Some(served),
            evictions,
            ..Measured::default()
        }
    }

    /// Catches an eviction that is charged for its fault, a case of another axis, and one case taken for flat.
    #[test]
    fn an_eviction_costs_what_is_beyond_its_fault() {
        let rows = [
            row("chunks-1k", FAULT, 1000, 10, 0),
            row("chunks-1k", EVICT, 3000, 20, 10),
            row("chunks-4k", FAULT, 1090, 10, 0),
            row("chunks-4k", EVICT, 3380, 20, 10),
            row("gpus-1", FAULT, 9000, 10, 0),
        ];
        let all = costs(&rows);
        assert_eq!((all[0].fault, all[0].evict), (Some(100), Some(100)));
        assert_eq!((all[1].fault, all[1].evict), (Some(109), Some(120)));
        assert_eq!((all[2].fault, all[2].evict), (Some(900), None));
        let faults = spread(&all, "chunks", "p", |c| c.fault);
        assert!(faults.is_some_and(|(a, b, s)| (a, b) == (100, 109) && (s - 0.09).abs() < 1e-9));
        let evictions = spread(&all, "chunks", "p", |c| c.evict);
        assert!(evictions.is_some_and(|(_, _, s)| s > 0.19));
        assert!(spread(&all, "gpus", "p", |c| c.fault).is_none());
        assert!(spread(&all, "chunks", "q", |c| c.fault).is_none());
    }

    #[test]
    fn nothing_is_divided_by_nothing() {
        let all = costs(&[row("gpus-1", FAULT, 5, 0, 0)]);
        assert_eq!((all[0].fault, all[0].fault_time), (None, None));
    }
}
