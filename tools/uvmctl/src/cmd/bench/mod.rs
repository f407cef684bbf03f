// SPDX-License-Identifier: GPL-2.0
//! `bench`: experiments in which policies meet on the same machine, in the same run.
//!
//! `harvest`: GPU 0 borrows, the others lend. Its cases:
//!
//! | case | what runs | what counts |
//! | --- | --- | --- |
//! | `off` | as `steady`, first of all, `stock-595` and all switches off | time; it is to be what a machine without neighbours takes |
//! | `steady` | the borrower streams over 1.5 times its memory, the neighbours idle | time under each policy |
//! | `spare-5` | the same, with spare memory for 5 % of its data | time |
//! | `reclaim` | the owner wants its memory back, all that is lent has been written back | time of each reclaim, few lent and many |
//! | `lender-alone` | the owner's own job, which fits, the others idle | time |
//! | `lender-shared` | the same beside a borrower, with the default's limit to what the lender takes in meanwhile (`lend_slowdown_percent`) | time |
//! | `unpaced-shared` | the same without it | time |
//! | `computing-alone`, `computing-shared` | the same for a job that uses half of its memory's bandwidth; the first takes all of it | time |
//! | `off-again` | as `off`, after all that | time |
//!
//! `oversub`: jobs on GPU 0 whose data is some times its memory, under each preset but `demand` ([`oversub`]). `streaming`: those that
//! stream, on more data.
//!
//! Several jobs at once, as in the HUVM paper: [`paper`].
//!
//! `scaling`: what a fault and an eviction cost on larger machines ([`scaling`]).
//!
//! `timeline`: some jobs, recorded for pictures ([`recorded`]); `recorded-jobs`: several at once.
//!
//! On a machine of one GPU there is `off` alone. The rows of both machines in one document, read with `--from`, give all
//! figures and what they are to be ([`targets`]).

pub(crate) mod lineup;

mod corun;
mod flat;
mod harvest;
mod measured;
mod oversub;
mod paper;
mod recorded;
mod scaling;
mod scene;
pub(crate) mod tape;
mod targets;
mod toucher;

use super::run::judge;
use crate::cli::{Bench, Experiment};
use crate::exit::{Failure, Result};
use crate::out::{can_save, save, Out};
use crate::signals;
pub(super) use measured::Measured;

pub(super) fn run(out: &Out, b: &Bench) -> Result<()> {
    if let Some(saved) = out.saved::<Vec<Measured>>("bench")? {
        for rows in saved {
            show(out, &whole(out.adopt(rows)), None)?;
        }
        return Ok(());
    }
    only_its_own(b)?;
    if let (true, Some(folder), Some(chunks)) = (b.record, &b.tapes, b.chunks) {
        return paper::record(out, b, folder, chunks);
    }
    // Not when all of it has run.
    can_save(b.output.as_deref())?;
    // Each step of an experiment looks for them, so that it ends as after a failure: GPUs have all of their memory, the machine has its
    // policy, and nothing runs on.
    signals::catch()?;
    let rows = lineup::Own::around(out, || match b.experiment {
        Experiment::Harvest => harvest::run(out, b),
        Experiment::Oversub | Experiment::Streaming => oversub::run(out, b),
        Experiment::Scaling => scaling::run(out, b),
        Experiment::Timeline => recorded::run(out, b),
        _ => paper::run(out, b),
    })?;
    show(out, &rows, save(b.output.as_deref(), &rows))
}

/// Blocks of a sweep's launch, if nobody says how many.
const BLOCKS: u32 = 1024;

/// Refuses an option that says nothing of the experiment: who gave it would take the rows for what they are not.
fn only_its_own(b: &Bench) -> Result<()> {
    let of = |also: &[Experiment]| also.contains(&b.experiment);
    let several = !of(&[
        Experiment::Harvest,
        Experiment::Oversub,
        Experiment::Streaming,
        Experiment::Scaling,
        Experiment::Timeline,
    ]);
    let alone = of(&[Experiment::Oversub, Experiment::Streaming]);
    let given = [
        ("workloads", !b.workloads.is_empty(), alone),
        ("ratios", !b.ratios.is_empty(), alone),
        (
            "presets",
            !b.presets.is_empty(),
            !of(&[Experiment::Harvest]),
        ),
        (
            "cases",
            !b.cases.is_empty(),
            several || of(&[Experiment::Scaling, Experiment::Timeline]),
        ),
        (
            "again",
            b.again,
            (several || alone) && !of(&[Experiment::RecordedJobs]),
        ),
        (
            "blocks",
            b.blocks.is_some(),
            alone || of(&[Experiment::Harvest]),
        ),
        // Who wants to record them is told of what.
        ("chunks", b.chunks.is_some() && !b.record, several),
        ("tapes", b.tapes.is_some() && !b.record, several),
        (
            "recordings",
            b.recordings.is_some(),
            of(&[Experiment::Timeline, Experiment::RecordedJobs]),
        ),
    ];
    let wrong = given.iter().find(|(_, given, its)| *given && !its);
    wrong.map_or(Ok(()), |(option, _, _)| {
        Err(Failure::Usage(format!(
            "'--{option}' is of other experiments than this one"
        )))
    })
}

/// Rows of one experiment out of several guests: jobs that ran alone in each of them are there once, and speed-ups are over the first
/// row of all.
fn whole(mut rows: Vec<Measured>) -> Vec<Measured> {
    if rows.first().is_none_or(is_single) {
        return rows;
    }
    let mut seen = Vec::new();
    rows.retain(|r| {
        let key = (r.case.clone(), r.preset.clone(), r.role.clone(), r.gpu);
        let new = !seen.contains(&key);
        seen.push(key);
        new
    });
    measured::compare(&mut rows);
    rows
}

/// Of an experiment whose guests have no row in common: of one job, or two machines that are compared.
fn is_single(row: &Measured) -> bool {
    row.memory_bytes.is_none() || oversub::is_one(row)
}

/// The rows, and below them what was to be reached. `unsaved`: why they are not in a file.
fn show(out: &Out, rows: &[Measured], unsaved: Option<Failure>) -> Result<()> {
    let failure = judge(rows.iter().map(|r| r.mismatches)).or(unsaved);
    out.list_failed_as("bench", rows, failure, || {
        if rows.first().is_some_and(oversub::is_one) {
            let summary = oversub::summary(rows);
            let targets = targets::of_oversub(rows);
            return format!(
                "{}\n{}\n{}{}",
                out.render(rows),
                out.render(&summary),
                out.render(&targets),
                targets::count(&targets)
            );
        }
        let (summary, costs) = match rows.first().map(|r| r.experiment.as_str()) {
            None | Some("harvest") => (targets::of(rows), Vec::new()),
            Some(scaling::NAME) => {
                let costs = flat::costs(rows);
                (targets::of_costs(&costs), costs)
            }
            _ => (targets::of_paper(rows), Vec::new()),
        };
        let costs = match costs.is_empty() {
            true => String::new(),
            false => format!("\n{}", out.render(&costs)),
        };
        if summary.is_empty() {
            return out.render(rows) + &costs;
        }
        format!(
            "{}{costs}\n{}{}",
            out.render(rows),
            out.render(&summary),
            targets::count(&summary)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(experiment: &str, case: &str, ratio: f64) -> Measured {
        Measured {
            experiment: experiment.into(),
            case: case.into(),
            ratio,
            memory_bytes: Some(1),
            ..Measured::default()
        }
    }

    /// Catches a ratio of `oversub` taken for the same row again, and a job alone that is there once for each guest.
    #[test]
    fn what_several_guests_ran_is_there_once() {
        let of = |name: &str| whole(vec![row(name, "a", 1.5), row(name, "a", 2.0)]).len();
        assert_eq!((of("inter-job"), of(oversub::NAME)), (1, 2));
        assert_eq!(of(oversub::STREAMING), 2);
    }
}
