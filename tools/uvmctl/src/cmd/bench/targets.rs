// SPDX-License-Identifier: GPL-2.0
//! What the rows of `harvest` are to reach, and what they reach.

use super::lineup::{BASE, BEST, WHOLE};
use super::measured::Measured;
use crate::row::{field, Cell, Field, Row};

/// A target and what was measured.
#[derive(Default)]
pub(super) struct Target {
    what: String,
    target: String,
    measured: String,
    /// `None`: there are no rows for it.
    met: Option<bool>,
}

impl Row for Target {
    fn fields(&self) -> Vec<Field> {
        let met = match self.met {
            None => "not measured",
            Some(true) => "yes",
            Some(false) => "MISSED",
        };
        vec![
            field("what", "WHAT", Cell::text(&self.what)),
            field("target", "TARGET", Cell::text(&self.target)),
            field("measured", "MEASURED", Cell::text(&self.measured)),
            field("met", "MET", Cell::text(met)),
        ]
    }
}

/// `measured`: what people read, and whether it is good enough.
fn target(what: &str, target: &str, measured: Option<(String, bool)>) -> Target {
    let (text, met) = measured.map_or((String::new(), None), |(t, m)| (t, Some(m)));
    Target {
        what: what.into(),
        target: target.into(),
        measured: text,
        met,
    }
}

/// How many are met, in a line.
pub(super) fn count(all: &[Target]) -> String {
    let of = |met| all.iter().filter(|t| t.met == met).count();
    let met = of(Some(true));
    let missed = of(Some(false));
    let missed = match missed {
        0 => "none missed".into(),
        n => format!("{n} MISSED"),
    };
    let unknown = match of(None) {
        0 => String::new(),
        n => format!(", {n} not measured"),
    };
    format!("{met} of {} targets met, {missed}{unknown}\n", all.len())
}

fn times(slow: u64, fast: u64) -> f64 {
    slow as f64 / fast.max(1) as f64
}

/// By how much `b` is off `a`, as a part of it.
fn difference(a: u64, b: u64) -> f64 {
    b as f64 / a.max(1) as f64 - 1.0
}

fn percent(part: f64) -> String {
    format!("{:+.2} %", part * 100.0)
}

/// A speed-up of `policy` over a case's row of `over`.
fn faster(
    rows: &[Measured],
    case: &str,
    policy: &str,
    over: &str,
    least: f64,
) -> Option<(String, bool)> {
    let time = |preset: &str| {
        let row = rows.iter().find(|r| r.case == case && r.preset == preset);
        row.map(|r| r.time_ns)
    };
    let x = times(time(over)?, time(policy)?);
    Some((format!("{x:.2} times"), x >= least))
}

/// Each target of the experiment. `policy`, of whom they speak, is that of the reclaims: the whole of what there is.
pub(super) fn of(rows: &[Measured]) -> Vec<Target> {
    let reclaims: Vec<&Measured> = rows
        .iter()
        .filter(|r| r.case == "reclaim" && r.reclaim_max_ns.is_some())
        .collect();
    let whole = reclaims.first().map_or(WHOLE, |r| r.preset.as_str());
    let mut all = vec![target(
        &format!("steady: {whole} against {BASE}"),
        "4 times faster",
        faster(rows, "steady", whole, BASE, 4.0),
    )];
    let steady = rows
        .iter()
        .find(|r| r.case == "steady" && r.preset == whole);
    let peer = steady.and_then(|r| r.peer_efficiency);
    all.push(target(
        &format!("steady: {whole}, use of the link to the neighbour"),
        "over 85 %",
        peer.map(|p| (format!("{:.1} %", p * 100.0), p > 0.85)),
    ));
    all.push(target(
        &format!("spare for 5 %: {whole} against stock-460"),
        "2 times faster",
        faster(rows, "spare-5", whole, "stock-460", 2.0),
    ));
    for (case, what) in [("steady", "steady"), ("spare-5", "spare for 5 %")] {
        all.push(target(
            &format!("{what}: {BEST} against {whole}"),
            "1.5 times faster",
            faster(rows, case, BEST, whole, 1.5),
        ));
    }
    all.extend(of_reclaims(&reclaims));
    all.push(of_lender(
        rows,
        whole,
        "computing",
        "at half of its memory's bandwidth",
    ));
    all.push(of_lender(rows, whole, "lender", "at all of it"));
    all.extend(of_off(rows));
    let checked = rows.iter().filter(|r| r.mismatches.is_some()).count();
    let wrong = rows.iter().filter_map(|r| r.mismatches).sum::<u64>();
    all.push(target(
        "elements that the CPU found wrong",
        "none",
        (checked != 0).then(|| (format!("{wrong} in {checked} rows"), wrong == 0)),
    ));
    all
}

fn of_reclaims(rows: &[&Measured]) -> [Target; 3] {
    let all: u64 = rows.iter().map(|r| r.reclaims).sum();
    let copied: u64 = rows.iter().map(|r| r.reclaims_copied).sum();
    let longest = rows.iter().filter_map(|r| r.reclaim_max_ns).max();
    let lent = |r: &&&Measured| r.lent_chunks;
    let few = rows.iter().min_by_key(lent);
    let many = rows.iter().max_by_key(lent);
    let grows = few.zip(many).and_then(|(few, many)| {
        let (of_few, of_many) = (few.reclaim_p50_ns?, many.reclaim_p50_ns?);
        let (n, m) = (few.lent_chunks?, many.lent_chunks?);
        let text = format!("p50 {of_few} ns of {n} lent, {of_many} ns of {m}");
        // More lent, and a time that does not follow: a tenth, for what a cache line costs.
        Some((n, m, text, difference(of_few, of_many) <= 0.1))
    });
    [
        target(
            "reclaim of a removable chunk: copies",
            "none",
            (all != 0).then(|| (format!("{copied} of {all}"), copied == 0)),
        ),
        target(
            "reclaim of a removable chunk: the longest",
            "under 20 us",
            longest.map(|ns| (format!("{ns} ns"), ns < 20_000)),
        ),
        target(
            "reclaim: independent of how many are lent",
            "p50 within 10 %",
            grows.and_then(|(n, m, text, met)| (n < m).then_some((text, met))),
        ),
    ]
}

fn of_lender(rows: &[Measured], whole: &str, job: &str, which: &str) -> Target {
    let (alone, beside) = (format!("{job}-alone"), format!("{job}-shared"));
    let alone = rows.iter().filter(|r| r.case == alone);
    let alone = alone.map(|r| r.time_ns).min();
    let shared = |r: &&Measured| r.case == beside && r.role == "owner";
    let beside = rows.iter().find(shared).map(|r| r.time_ns);
    let slower = alone.zip(beside).map(|(a, b)| difference(a, b));
    target(
        &format!("a lender's own job {which}, beside a borrower, {whole}"),
        "under 3 % slower",
        slower.map(|s| (percent(s), s < 0.03)),
    )
}

/// One GPU without neighbours is the measure.
fn of_off(rows: &[Measured]) -> [Target; 2] {
    let alone = rows.iter().find(|r| r.case == "off" && r.gpus == 1);
    let against = |case: &str| {
        let row = rows.iter().find(|r| r.case == case && r.gpus > 1);
        alone.zip(row).map(|(a, b)| {
            let d = difference(a.time_ns, b.time_ns);
            (percent(d), d.abs() <= 0.01)
        })
    };
    [
        target(
            &format!("all switches off: {BASE} beside neighbours, against one GPU"),
            "within 1 %",
            against("off"),
        ),
        target(
            "the same after everything was on",
            "within 1 %",
            against("off-again"),
        ),
    ]
}
