// SPDX-License-Identifier: GPL-2.0
//! What the rows of an experiment are to reach, and what they reach.

use super::flat::{spread, Cost, AXES};
use super::lineup::{BASE, BEST, WHOLE};
use super::measured::Measured;
use super::oversub;
use super::paper::{self, BORROWER, LENDER, PART};
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

/// A case of `inter-job`: what `memharvester` reaches in the paper (Figure 6) over `stock-460` and over `preef-host`, for each
/// borrower, the slowest first.
type Reached = (&'static str, &'static [f64], &'static [f64]);

const INTER_JOB: [Reached; 4] = [
    ("case-1", &[3.53], &[1.31]),
    ("case-2", &[3.52], &[2.1]),
    ("case-3", &[3.21, 3.83], &[2.67, 2.71]),
    ("case-4", &[2.1, 2.36], &[1.3, 1.4]),
];
/// What it reaches over `preef-host` within a job (Figure 10).
const INTRA_JOB: [(&str, f64); 4] = [
    ("gnmt16", 1.5),
    ("gnmt8", 2.16),
    ("resnet50", 1.5),
    ("vgg16", 1.24),
];
/// By how much a lender may be slower, as a part of its time alone: the paper's 9 %.
const LENDER_SLOWER: f64 = 0.09;
/// What the default preset is to be over the paper's, over all cases.
const BEST_OVER_WHOLE: f64 = 1.5;

/// Times of a preset in a case, of the jobs of a role, by GPU.
fn times_of(rows: &[Measured], case: &str, preset: &str, role: &str) -> Vec<u64> {
    let rows = rows.iter();
    let those = rows.filter(|r| r.case == case && r.preset == preset && r.role == role);
    those.map(|r| r.time_ns).collect()
}

/// How much faster each job of a role is under a preset than under another, the least first. Parts of a job take the same time, so its
/// first one speaks for it.
fn speedups(rows: &[Measured], case: &str, role: &str, preset: &str, over: &str) -> Vec<f64> {
    let time = |gpu: u32, preset: &str| {
        let row = rows.iter().find(|r| {
            (r.case.as_str(), r.preset.as_str()) == (case, preset)
                && (r.role.as_str(), r.gpu) == (role, gpu)
        });
        row.map(|r| r.time_ns)
    };
    let first = paper::first_gpus(case, role);
    let each = first.into_iter();
    let each = each.filter_map(|gpu| Some(times(time(gpu, over)?, time(gpu, preset)?)));
    let mut all: Vec<f64> = each.collect();
    all.sort_by(f64::total_cmp);
    all
}

/// A target of `all` of something, of which `got` were measured: met by nothing less, missed by one of them.
fn of_all(mut target: Target, got: usize, all: usize, what: &str) -> Target {
    if got < all && target.met.is_some() {
        target.measured += &format!(" ({got} of {all} {what})");
        target.met = target.met.filter(|met| !met);
    }
    target
}

/// The speed-up of each of `jobs` beside what it is to be at least. A job that the paper has several figures of is to reach all of them.
fn at_least(what: &str, measured: &[f64], jobs: usize, least: &[f64]) -> Target {
    let list = |all: &[f64]| {
        let text: Vec<String> = all.iter().map(|x| format!("{x:.2}")).collect();
        text.join(" and ")
    };
    let pairs = least.iter().enumerate();
    let mut pairs = pairs.filter_map(|(n, l)| Some((measured.get(n).or(measured.last())?, l)));
    let met = pairs.all(|(m, l)| m >= l);
    let t = target(
        what,
        &format!("{} times faster", list(least)),
        (!measured.is_empty()).then(|| (format!("{} times", list(measured)), met)),
    );
    of_all(t, measured.len(), jobs, "jobs")
}

/// By how much the slowest lender of a case is slower than alone.
fn slowest_lender(rows: &[Measured], case: &str, preset: &str) -> Target {
    let rows = rows
        .iter()
        .filter(|r| r.case == case && r.preset == preset && r.role == LENDER);
    let slower = rows.filter_map(|r| Some(difference(r.ideal_ns?, r.time_ns)));
    let most = slower.max_by(f64::total_cmp);
    target(
        &format!("{case}: the slowest lender under {preset}, against alone"),
        "at most 9 % slower",
        most.map(|s| (percent(s), s <= LENDER_SLOWER)),
    )
}

/// Geometric mean.
pub(super) fn mean(all: &[f64]) -> Option<f64> {
    let logs: f64 = all.iter().map(|x| x.ln()).sum();
    (!all.is_empty()).then(|| (logs / all.len() as f64).exp())
}

/// Each target of one of the paper's experiments; none where the paper has a curve alone.
pub(super) fn of_paper(rows: &[Measured]) -> Vec<Target> {
    let mut all = Vec::new();
    match rows.first().map_or("", |r| r.experiment.as_str()) {
        "inter-job" => {
            let mut best = Vec::new();
            for (case, stock, prior) in INTER_JOB {
                let jobs = paper::first_gpus(case, BORROWER).len();
                for (over, least) in [("stock-460", stock), ("preef-host", prior)] {
                    let what = format!("{case}: {WHOLE} against {over}");
                    let got = speedups(rows, case, BORROWER, WHOLE, over);
                    all.push(at_least(&what, &got, jobs, least));
                }
                all.extend([WHOLE, BEST].map(|p| slowest_lender(rows, case, p)));
                let got = speedups(rows, case, BORROWER, BEST, WHOLE);
                let what = format!("{case}: {BEST} against {WHOLE}");
                all.push(at_least(&what, &got, jobs, &vec![1.0; jobs]));
                best.extend(mean(&got));
            }
            let got: Vec<f64> = mean(&best).into_iter().collect();
            let what = format!("{BEST} against {WHOLE}, geometric mean of the cases");
            let t = at_least(&what, &got, 1, &[BEST_OVER_WHOLE]);
            all.push(of_all(t, best.len(), INTER_JOB.len(), "cases"));
        }
        "intra-job" => {
            for (case, least) in INTRA_JOB {
                for (preset, over, least) in [(WHOLE, "preef-host", least), (BEST, WHOLE, 1.0)] {
                    let got = speedups(rows, case, PART, preset, over);
                    let what = format!("{case}: {preset} against {over}");
                    all.push(at_least(&what, &got, 1, &[least]));
                }
            }
        }
        "interference" => {
            for case in ["borrowers-1", "borrowers-3"] {
                all.extend([WHOLE, BEST].map(|p| slowest_lender(rows, case, p)));
            }
        }
        "spare-size" => {
            let stock = times_of(rows, "spare-0", "stock-460", BORROWER);
            let little = times_of(rows, "spare-5", WHOLE, BORROWER);
            let pair = stock.first().zip(little.first());
            let got: Vec<f64> = pair.iter().map(|(s, f)| times(**s, **f)).collect();
            let what = format!("spare for 5 %: {WHOLE} against stock-460");
            all.push(at_least(&what, &got, 1, &[2.0]));
        }
        _ => {}
    }
    // Of phantom data there is nothing to say.
    all.extend(Some(of_data(rows)).filter(|t| t.met.is_some()));
    all
}

/// By how much a cost may differ between the smallest machine and the largest.
const FLAT: f64 = 0.1;

/// Each target of `scaling`: flat, whatever grows. Costs are CPU time.
pub(super) fn of_costs(costs: &[Cost]) -> Vec<Target> {
    let mut presets: Vec<&str> = Vec::new();
    for c in costs {
        if !presets.contains(&c.preset.as_str()) {
            presets.push(&c.preset);
        }
    }
    type Of = fn(&Cost) -> Option<u64>;
    let kinds: [(&str, Of); 2] = [("a fault", |c| c.fault), ("an eviction", |c| c.evict)];
    let mut all = Vec::new();
    for axis in AXES {
        for preset in &presets {
            for (what, of) in kinds {
                let got = spread(costs, axis, preset, of);
                all.push(target(
                    &format!("{axis}: cost of {what} under {preset}"),
                    "flat within 10 %",
                    got.map(|(least, most, s)| {
                        (format!("{least} to {most} ns, {}", percent(s)), s <= FLAT)
                    }),
                ));
            }
        }
    }
    all
}

/// The sum; numbers of a file may be any.
fn all(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

/// What the CPU found wrong.
fn of_data(rows: &[Measured]) -> Target {
    let checked = rows.iter().filter(|r| r.mismatches.is_some()).count();
    let wrong = all(rows.iter().filter_map(|r| r.mismatches));
    target(
        "elements that the CPU found wrong",
        "none",
        (checked != 0).then(|| (format!("{wrong} in {checked} rows"), wrong == 0)),
    )
}

/// Each target of `harvest`. `policy`, of whom they speak, is that of the reclaims: the whole of what there is.
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
    for (preset, percent) in [(whole, 85.0), (BEST, 95.0)] {
        let steady = rows
            .iter()
            .find(|r| r.case == "steady" && r.preset == preset);
        let peer = steady.and_then(|r| r.peer_efficiency).map(|p| p * 100.0);
        all.push(target(
            &format!("steady: {preset}, use of the link to the neighbour"),
            &format!("over {percent} %"),
            peer.map(|p| (format!("{p:.1} %"), p > percent)),
        ));
    }
    let best = rows
        .iter()
        .filter(|r| r.case == "steady" && r.preset == BEST);
    all.push(of_driver("steady", best));
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
        ["computing-alone", "computing-shared"],
        "at half of its memory's bandwidth",
    ));
    all.push(of_lender(
        rows,
        ["lender-alone", "lender-shared"],
        "at all of it",
    ));
    all.extend(of_off(rows));
    all.push(of_data(rows));
    all
}

/// What streams under the default preset: the driver's part of the critical path, the largest.
fn of_driver<'a>(what: &str, rows: impl Iterator<Item = &'a Measured>) -> Target {
    let share = |r: &Measured| Some(r.exposed_ns? as f64 / r.time_ns.max(1) as f64);
    let most = rows.filter_map(share).max_by(f64::total_cmp);
    target(
        &format!("{what}: {BEST}, the driver's share of the critical path"),
        "under 3 %",
        most.map(|s| (format!("{:.1} %", s * 100.0), s < 0.03)),
    )
}

/// From what ratio on a stream is to use its link.
const STREAM_FROM: f64 = 1.5;

/// Each target of `oversub`, or of `streaming`, all of which streams.
pub(super) fn of_oversub(rows: &[Measured]) -> Vec<Target> {
    let with = |r: &Measured, preset: &str| {
        let same =
            |o: &&Measured| o.preset == preset && o.workload == r.workload && o.ratio == r.ratio;
        rows.iter().find(same).map(|o| o.time_ns)
    };
    let best = || rows.iter().filter(|r| r.preset == BEST);
    // How many times the default's time each takes under another preset, and which it is.
    let over = |preset: &str| -> Vec<(f64, String)> {
        best()
            .filter_map(|r| {
                let x = times(with(r, preset)?, r.time_ns);
                Some((x, format!("{} at {}", r.workload, r.ratio)))
            })
            .collect()
    };
    let all = rows.iter().all(|r| r.experiment == oversub::STREAMING);
    let least = |all: &[(f64, String)], least: f64| {
        let worst = all.iter().min_by(|a, b| a.0.total_cmp(&b.0));
        worst.map(|(x, which)| (format!("{x:.2} times, {which}"), *x >= least))
    };
    let pairs = oversub::pairs(all);
    let of_whole = |what: &str, wanted: &str, rows: usize, got: Option<(String, bool)>| {
        let t = target(&format!("{BEST} against {what}"), wanted, got);
        of_all(t, rows, pairs, "rows")
    };
    let (base, whole) = (over(BASE), over(WHOLE));
    let over_whole: Vec<f64> = whole.iter().map(|(x, _)| *x).collect();
    let streams = || {
        best().filter(|r| oversub::STREAMS.contains(&r.workload.as_str()) && r.ratio >= STREAM_FROM)
    };
    let of_streams = |t: Target, has: fn(&Measured) -> bool| {
        let wanted = oversub::stream_pairs(all, STREAM_FROM);
        of_all(t, streams().filter(|r| has(r)).count(), wanted, "rows")
    };
    let link = streams()
        .filter_map(|r| Some((r.link_efficiency? * 100.0, r)))
        .min_by(|a, b| a.0.total_cmp(&b.0));
    let what = format!("each stream at {STREAM_FROM} and more");
    vec![
        of_whole(
            &format!("{BASE}, the least"),
            "at most 2 % slower",
            base.len(),
            least(&base, 1.0 / 1.02),
        ),
        of_whole(
            &format!("{WHOLE}, the least"),
            "1.00 times faster",
            whole.len(),
            least(&whole, 1.0),
        ),
        of_whole(
            &format!("{WHOLE}, geometric mean"),
            "1.00 times faster",
            whole.len(),
            mean(&over_whole).map(|x| (format!("{x:.2} times"), x >= 1.0)),
        ),
        of_streams(
            target(
                &format!("{what}: {BEST}, use of the link to the host"),
                "over 95 %",
                link.map(|(e, r)| (format!("{e:.1} %, {} at {}", r.workload, r.ratio), e > 95.0)),
            ),
            |r| r.link_efficiency.is_some(),
        ),
        of_streams(of_driver(&what, streams()), |r| r.exposed_ns.is_some()),
        of_data(rows),
    ]
}

fn of_reclaims(rows: &[&Measured]) -> [Target; 3] {
    let reclaims = all(rows.iter().map(|r| r.reclaims));
    let copied = all(rows.iter().map(|r| r.reclaims_copied));
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
            (reclaims != 0).then(|| (format!("{copied} of {reclaims}"), copied == 0)),
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

/// A job without a borrower and beside one, by the names of these cases.
fn of_lender(rows: &[Measured], [alone, beside]: [&str; 2], which: &str) -> Target {
    let alone = rows.iter().filter(|r| r.case == alone);
    let alone = alone.map(|r| r.time_ns).min();
    let shared = |r: &&Measured| r.case == beside && r.role == "owner";
    let beside = rows.iter().find(shared);
    let slower = alone.zip(beside).map(|(a, b)| difference(a, b.time_ns));
    let preset = beside.map_or(WHOLE, |r| &r.preset);
    target(
        &format!("a lender's own job {which}, beside a borrower, {preset}"),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn row(case: &str, preset: &str, role: &str, gpu: u32, time_ns: u64) -> Measured {
        Measured {
            experiment: "inter-job".into(),
            case: case.into(),
            preset: preset.into(),
            role: role.into(),
            gpu,
            time_ns,
            ideal_ns: Some(100),
            ..Measured::default()
        }
    }

    fn met(all: &[Target], what: &str) -> Option<bool> {
        all.iter().find(|t| t.what == what).and_then(|t| t.met)
    }

    /// Catches a cost that grows taken for flat, because another preset's or another axis's does not.
    #[test]
    fn a_cost_that_grows_is_missed() {
        let cost = |case: &str, preset: &str, fault| Cost {
            case: case.into(),
            preset: preset.into(),
            fault: Some(fault),
            ..Cost::default()
        };
        let mut costs = vec![
            cost("chunks-1k", BASE, 100),
            cost("chunks-64k", BASE, 109),
            cost("chunks-1k", BEST, 100),
            cost("chunks-64k", BEST, 111),
            cost("gpus-1", BASE, 300),
        ];
        let what = |axis: &str, preset: &str| format!("{axis}: cost of a fault under {preset}");
        assert_eq!(met(&of_costs(&costs), &what("chunks", BASE)), Some(true));
        assert_eq!(met(&of_costs(&costs), &what("chunks", BEST)), Some(false));
        assert_eq!(met(&of_costs(&costs), &what("gpus", BASE)), None);
        // Cheaper is not flat either: something else was measured.
        costs.push(cost("gpus-16", BASE, 200));
        assert_eq!(met(&of_costs(&costs), &what("gpus", BASE)), Some(false));
    }

    /// Catches a job that got slower behind others that got faster, rows of other ratios compared, and the wrong job taken for the
    /// stream.
    #[test]
    fn one_job_that_got_slower_is_a_miss() {
        let of = |workload: &str, ratio, preset: &str, time_ns| Measured {
            workload: workload.into(),
            ratio,
            link_efficiency: Some(0.96),
            exposed_ns: Some(time_ns / 50),
            mismatches: Some(0),
            ..row("", preset, "job", 0, time_ns)
        };
        let mut rows = vec![
            of("stream-triad", 1.25, BASE, 50),
            of("stream-triad", 1.25, BEST, 50),
            of("stream-triad", 1.5, BASE, 1000),
            of("stream-triad", 1.5, BEST, 500),
            of("bfs", 1.5, BASE, 1000),
            of("bfs", 1.5, BEST, 1020),
        ];
        let slower = format!("{BEST} against {BASE}, the least");
        let link = format!("each stream at 1.5 and more: {BEST}, use of the link to the host");
        let driver =
            format!("each stream at 1.5 and more: {BEST}, the driver's share of the critical path");
        assert!(of_oversub(&rows).iter().all(|t| t.met != Some(false)));
        // Of three rows nothing is said of the whole table, but what is wrong with them.
        assert_eq!(met(&of_oversub(&rows), &slower), None);
        let whole: Vec<Measured> = (0..oversub::pairs(false))
            .flat_map(|n| [BASE, BEST].map(|p| of(&n.to_string(), 1.1, p, 100)))
            .collect();
        assert_eq!(met(&of_oversub(&whole), &slower), Some(true));
        assert_eq!(met(&of_oversub(&whole[2..]), &slower), None);
        // Nor is a mean of a part one of the whole.
        let mean = format!("{BEST} against {WHOLE}, geometric mean");
        let both = |ns| [of("bfs", 1.5, WHOLE, ns), of("bfs", 1.5, BEST, 100)];
        assert_eq!(met(&of_oversub(&both(100)), &mean), None);
        assert_eq!(met(&of_oversub(&both(99)), &mean), Some(false));
        rows[5].time_ns = 1021;
        rows[5].link_efficiency = Some(0.1);
        rows[1].exposed_ns = Some(49);
        assert_eq!(met(&of_oversub(&rows), &slower), Some(false));
        assert_eq!(met(&of_oversub(&rows), &link), None);
        assert_eq!(met(&of_oversub(&rows), &driver), None);
        rows[3].exposed_ns = Some(15);
        rows[3].link_efficiency = Some(0.95);
        assert_eq!(met(&of_oversub(&rows), &link), Some(false));
        assert_eq!(met(&of_oversub(&rows), &driver), Some(false));
    }

    /// Catches one that streams badly behind one that does well, and what is said of each where one is not there.
    #[test]
    fn of_what_streams_each_counts() {
        let of = |workload: &str, ratio| Measured {
            experiment: oversub::STREAMING.into(),
            workload: workload.into(),
            ratio,
            link_efficiency: Some(0.96),
            exposed_ns: Some(29),
            ..row("", BEST, "job", 0, 1000)
        };
        let link = format!("each stream at 1.5 and more: {BEST}, use of the link to the host");
        let driver =
            format!("each stream at 1.5 and more: {BEST}, the driver's share of the critical path");
        let both = |rows: &[Measured]| {
            let all = of_oversub(rows);
            (met(&all, &link), met(&all, &driver))
        };
        let mut rows: Vec<Measured> = oversub::STREAMS
            .iter()
            .flat_map(|w| [1.5, 2.0].map(|r| of(w, r)))
            .collect();
        assert_eq!(both(&rows), (Some(true), Some(true)));
        assert_eq!(both(&rows[1..]), (None, None));
        rows[0].exposed_ns = None;
        rows[1].link_efficiency = Some(0.95);
        assert_eq!(both(&rows), (Some(false), None));
        assert_eq!(both(&rows[1..]), (Some(false), None));
    }

    /// Catches a borrower that hides behind a faster one, a lender's slowdown that is not seen, and a target met without rows.
    #[test]
    fn each_borrower_and_the_slowest_lender_count() {
        let mut rows = vec![
            row("case-3", "stock-460", BORROWER, 0, 4000),
            row("case-3", "stock-460", BORROWER, 1, 4000),
            row("case-3", WHOLE, BORROWER, 0, 1000),
            row("case-3", WHOLE, BORROWER, 1, 1240),
            row("case-3", WHOLE, LENDER, 2, 108),
            row("case-3", WHOLE, LENDER, 3, 101),
        ];
        let what = format!("case-3: {WHOLE} against stock-460");
        let lender = format!("case-3: the slowest lender under {WHOLE}, against alone");
        // 4 and 3.23 times.
        assert_eq!(met(&of_paper(&rows), &what), Some(true));
        assert_eq!(met(&of_paper(&rows), &lender), Some(true));
        rows[3].time_ns = 1250;
        rows[4].time_ns = 110;
        assert_eq!(met(&of_paper(&rows), &what), Some(false));
        assert_eq!(met(&of_paper(&rows), &lender), Some(false));
        // A job over two GPUs is one, and the mean is of the cases: 3 times in one, 2 and 4.5 in the other.
        let best: Vec<Measured> = [
            ("case-3", 0, 200),
            ("case-3", 1, 450),
            ("case-2", 0, 300),
            ("case-2", 1, 300),
        ]
        .into_iter()
        .flat_map(|(case, gpu, time_ns)| {
            [(WHOLE, time_ns), (BEST, 100)].map(|(p, ns)| row(case, p, BORROWER, gpu, ns))
        })
        .collect();
        let of = |what: &str| {
            of_paper(&best)
                .into_iter()
                .find(|t| t.what == what)
                .unwrap()
                .measured
        };
        assert_eq!(
            of("huvm against memharvester, geometric mean of the cases"),
            "3.00 times (2 of 4 cases)"
        );
        assert_eq!(of("case-2: huvm against memharvester"), "3.00 times");
        assert_eq!(
            of("case-3: huvm against memharvester"),
            "2.00 and 4.50 times"
        );
        // One of two jobs can miss a target, not meet it.
        let one = |ns| {
            of_paper(&[
                row("case-4", "preef-host", BORROWER, 0, ns),
                row("case-4", WHOLE, BORROWER, 0, 100),
            ])
        };
        let what = format!("case-4: {WHOLE} against preef-host");
        assert_eq!(met(&one(135), &what), Some(false));
        assert_eq!(met(&one(140), &what), None);
        let other = format!("case-1: {WHOLE} against stock-460");
        assert_eq!(met(&of_paper(&rows), &other), None);
    }
}
