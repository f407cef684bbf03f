// SPDX-License-Identifier: GPL-2.0
//! The experiments of the HUVM paper (Choi et al., "Memory Harvesting in Multi-GPU Systems with Hierarchical Unified Virtual
//! Memory", USENIX ATC 2022), on four GPUs.
//!
//! Of its Table 2 are the jobs' sizes: borrowers PageRank 1.87, WCC 1.77, BFS 1.70 (a social graph) and 1.51 (a web graph, two GPUs),
//! Louvain 1.47 times their memory; the others VGG16 0.96, MobileNet 0.91, WCC 0.79, PageRank (a web graph) 0.74, ResNet101 0.67 to
//! 0.74. Who runs beside whom is that of its authors' scripts (github.com/casys-kaist/HUVM, scripts/fig6). Which of the two sizes
//! ResNet101 has in which case they do not say.
//!
//! | experiment | figure | what runs |
//! | --- | --- | --- |
//! | `inter-job` | 6 | the four cases under each preset |
//! | `ladder` | 7 | case 1, the techniques on top of each other |
//! | `prefetch-size` | 8 | case 1 under `memharvester`, amount, mode and stride of prefetch |
//! | `spare-size` | 9 | case 1's borrower, idle neighbours that lend 5 to 60 % of its data |
//! | `interference` | Table 3 | a vector addition beside one borrower and three |
//! | `intra-job` | 10 | one job over four GPUs, two of them over capacity |
//! | `recorded-jobs` | 6, 10 | of these two what differs most from the paper, recorded while it runs, to see why |

use super::super::inject::for_tests;
use super::corun::made;
use super::lineup::{all_found, Lend, Lineup, Policy, BASE, BEST, WHOLE};
use super::measured::{there_and_back, Measured};
use super::recorded::kept;
use super::scene::{size, Case, JobOf, PartOf, Stage};
use super::tape::Tape;
use crate::cli::{Bench, Experiment};
use crate::exit::{Failure, Result};
use crate::out::Out;
use crate::units::CHUNK;
use clap::ValueEnum;
use std::path::Path;

/// GPUs of the machine.
const GPUS: usize = 4;
/// Roles of the rows.
pub(super) const BORROWER: &str = "borrower";
pub(super) const LENDER: &str = "lender";
/// A part of a job over several GPUs.
pub(super) const PART: &str = "part";

/// Passes before the measured ones, and measured: of a job whose pass is a sweep, the default preset learns in the first ones.
const SWEEPS: (u32, u32) = (2, 2);
/// Of a job whose pass is a whole algorithm of many sweeps.
const ALGORITHM: (u32, u32) = (1, 1);

const fn borrower(parts: &'static [PartOf]) -> JobOf {
    JobOf {
        role: BORROWER,
        parts,
    }
}

const fn lender(parts: &'static [PartOf]) -> JobOf {
    JobOf {
        role: LENDER,
        parts,
    }
}

/// `inter-job`. Free beside the borrowers: 29, 42, 52, 26 % of a GPU.
pub(super) const INTER_JOB: [Case; 4] = [
    Case {
        name: "case-1",
        passes: SWEEPS,
        idle_lend: false,
        jobs: &[
            borrower(&[(0, "pagerank", 1.87)]),
            lender(&[(1, "vgg16", 0.96)]),
            lender(&[(2, "vgg16", 0.96)]),
            lender(&[(3, "wcc", 0.79)]),
        ],
    },
    Case {
        name: "case-2",
        passes: ALGORITHM,
        idle_lend: false,
        jobs: &[
            borrower(&[(0, "bfs-web", 1.51), (1, "bfs-web", 1.51)]),
            lender(&[(2, "mobilenet", 0.91)]),
            lender(&[(3, "resnet101", 0.67)]),
        ],
    },
    Case {
        name: "case-3",
        passes: ALGORITHM,
        idle_lend: false,
        jobs: &[
            borrower(&[(0, "wcc", 1.77)]),
            borrower(&[(1, "bfs", 1.70)]),
            lender(&[(2, "pagerank-web", 0.74), (3, "pagerank-web", 0.74)]),
        ],
    },
    Case {
        name: "case-4",
        passes: ALGORITHM,
        idle_lend: false,
        jobs: &[
            borrower(&[(0, "wcc", 1.77)]),
            borrower(&[(1, "louvain-web", 1.47), (2, "louvain-web", 1.47)]),
            lender(&[(3, "resnet101", 0.74)]),
        ],
    },
];

/// The borrower of `spare-size`, alone.
pub(super) const SPARE: Case = Case {
    name: "spare",
    passes: SWEEPS,
    idle_lend: true,
    jobs: &[borrower(&[(0, "pagerank", 1.87)])],
};
/// Spare memory, % of the borrower's data (Figure 9).
const SPARES: [u32; 7] = [5, 10, 20, 30, 40, 50, 60];

/// `interference`: Table 3's vector addition, here over half of its GPU's memory. Where there is one borrower the other two GPUs idle and
/// lend nothing: it is the addition's memory that is borrowed.
pub(super) const INTERFERENCE: [Case; 2] = [
    Case {
        name: "borrowers-1",
        passes: SWEEPS,
        idle_lend: false,
        jobs: &[
            borrower(&[(0, "pagerank", 1.87)]),
            lender(&[(3, "add-vectors", 0.5)]),
        ],
    },
    Case {
        name: "borrowers-3",
        passes: SWEEPS,
        idle_lend: false,
        jobs: &[
            borrower(&[(0, "pagerank", 1.87)]),
            borrower(&[(1, "pagerank", 1.87)]),
            borrower(&[(2, "pagerank", 1.87)]),
            lender(&[(3, "add-vectors", 0.5)]),
        ],
    },
];

const fn job(parts: &'static [PartOf]) -> JobOf {
    JobOf { role: PART, parts }
}

/// `intra-job`. Stages of a pipeline keep the fewer batches the later they are: of four, activations of 4, 3, 2 and 1 and a gradient
/// each. With stage 0 at 1.5 times its memory that is 1.5, 1.2, 0.9, 0.6: two stages are over capacity. How the paper divides
/// its networks is not known; ResNet50 and VGG16 have no stages here, each GPU trains a batch of that size instead.
const INTRA_JOB: [Case; 4] = [
    Case {
        name: "gnmt16",
        passes: SWEEPS,
        idle_lend: false,
        jobs: &[job(&[
            (0, "gnmt16-0", 1.5),
            (1, "gnmt16-1", 1.2),
            (2, "gnmt16-2", 0.9),
            (3, "gnmt16-3", 0.6),
        ])],
    },
    Case {
        name: "gnmt8",
        passes: SWEEPS,
        idle_lend: false,
        jobs: &[job(&[
            (0, "gnmt8-0", 1.5),
            (1, "gnmt8-1", 1.2),
            (2, "gnmt8-2", 0.9),
            (3, "gnmt8-3", 0.6),
        ])],
    },
    Case {
        name: "resnet50",
        passes: SWEEPS,
        idle_lend: false,
        jobs: &[job(&[
            (0, "resnet50", 1.5),
            (1, "resnet50", 1.2),
            (2, "resnet50", 0.9),
            (3, "resnet50", 0.6),
        ])],
    },
    Case {
        name: "vgg16",
        passes: SWEEPS,
        idle_lend: false,
        jobs: &[job(&[
            (0, "vgg16", 1.5),
            (1, "vgg16", 1.2),
            (2, "vgg16", 0.9),
            (3, "vgg16", 0.6),
        ])],
    },
];

/// `recorded-jobs`. A listener takes the events meanwhile, so that its rows are no measurement beside those of the same cases.
const RECORDED: [Case; 6] = [
    INTER_JOB[0],
    INTER_JOB[1],
    INTER_JOB[2],
    INTER_JOB[3],
    INTRA_JOB[1],
    INTRA_JOB[2],
];

/// Who meets in the cases.
const PRESETS: [&str; 5] = ["stock-460", BASE, "preef-host", WHOLE, BEST];

/// Who is recorded: the rivals whose figures differ from the paper's.
const RIVALS: [&str; 3] = ["stock-460", "preef-host", WHOLE];

/// Modes and amounts of `prefetch-size`, MiB; the value of a mode is that of `stream_prefetch`.
const MODES: [(&str, u64); 2] = [("stride", 2), ("next-line", 1)];
const AMOUNTS: [u64; 5] = [2, 4, 8, 16, 32];
/// Steps from block to block of next-line prefetch, MiB, with as much ahead as the preset has: `next-line-32` is that of 2.
const STEPS: [u64; 4] = [4, 8, 16, 32];

/// An experiment's name and cases; `None` for one that is none of these.
fn cases_of(experiment: Experiment) -> Option<(&'static str, &'static [Case])> {
    let first = INTER_JOB.get(..1).unwrap_or(&[]);
    Some(match experiment {
        Experiment::InterJob => ("inter-job", &INTER_JOB),
        Experiment::Ladder => ("ladder", first),
        Experiment::PrefetchSize => ("prefetch-size", first),
        Experiment::SpareSize => ("spare-size", std::slice::from_ref(&SPARE)),
        Experiment::Interference => ("interference", &INTERFERENCE),
        Experiment::IntraJob => ("intra-job", &INTRA_JOB),
        Experiment::RecordedJobs => ("recorded-jobs", &RECORDED),
        _ => return None,
    })
}

/// GPUs of the first parts of a case's jobs of a role.
pub(super) fn first_gpus(case: &str, role: &str) -> Vec<u32> {
    let all = INTER_JOB.iter().chain(&INTRA_JOB).chain(&INTERFERENCE);
    let jobs = all.filter(|c| c.name == case).flat_map(|c| c.jobs);
    let first = jobs
        .filter(|j| j.role == role)
        .filter_map(|j| j.parts.first());
    first.map(|(gpu, _, _)| *gpu).collect()
}

/// Names of its rows' cases where these are made of one by settings; else none.
fn subs_of(experiment: Experiment) -> Vec<String> {
    match experiment {
        Experiment::PrefetchSize => {
            let all = MODES.iter();
            let all = all.flat_map(|(mode, _)| AMOUNTS.map(|mib| format!("{mode}-{mib}")));
            all.chain(STEPS.map(|mib| format!("step-{mib}"))).collect()
        }
        Experiment::SpareSize => {
            let all = [0].into_iter().chain(SPARES);
            all.map(|percent| format!("spare-{percent}")).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether the command line wants a case.
fn meant(args: &Bench, name: &str) -> bool {
    args.cases.is_empty() || args.cases.iter().any(|w| w == name)
}

/// The cases asked for.
///
/// # Errors
/// Usage: the experiment is none of these, or has not all the cases.
fn wanted(args: &Bench) -> Result<(&'static str, Vec<&'static Case>)> {
    let (name, cases) = cases_of(args.experiment).ok_or_else(|| {
        let all = Experiment::value_variants().iter();
        let all: Vec<_> = all.filter_map(|e| Some(cases_of(*e)?.0)).collect();
        Failure::Usage(format!("--record is for {}", all.join(", ")))
    })?;
    let subs = subs_of(args.experiment);
    let names = match subs.is_empty() {
        true => cases.iter().map(|c| c.name.to_owned()).collect(),
        false => subs.clone(),
    };
    if let Some(none) = args.cases.iter().find(|c| !names.contains(c)) {
        let names = names.join(", ");
        return Err(Failure::Usage(format!(
            "{name} has no case '{none}', but {names}"
        )));
    }
    let has = |c: &&Case| !subs.is_empty() || meant(args, c.name);
    Ok((name, cases.iter().filter(has).collect()))
}

/// Leaves the tapes of an experiment in a folder, for [`Stage`]s of so many chunks, and prints their names. Needs no driver.
pub(super) fn record(out: &Out, args: &Bench, folder: &Path, chunks: u32) -> Result<()> {
    let (_, cases) = wanted(args)?;
    std::fs::create_dir_all(folder).map_err(|e| Failure::file(folder, e))?;
    let mut names = Vec::new();
    for (_, name, ratio) in cases.iter().flat_map(|c| c.jobs).flat_map(|j| j.parts) {
        let size = size(chunks, *ratio);
        let made = made(name, size)?;
        names.extend(Tape::record(made, size.full, *ratio <= 1.0, folder)?);
    }
    names.sort();
    names.dedup();
    let lines = names.iter().map(|n| format!("{n}\n"));
    out.text(&lines.collect::<String>())
}

/// Runs one of these experiments.
pub(super) fn run(out: &Out, args: &Bench) -> Result<Vec<Measured>> {
    // Names are looked at before anything is done.
    let (name, cases) = wanted(args)?;
    let device = out.device()?;
    for_tests(&device)?;
    let lineup = Lineup::of(&device)?;
    let some = |names: &[&'static str]| -> Vec<Policy> {
        names.iter().filter_map(|p| lineup.preset(p)).collect()
    };
    let base = lineup.preset(BASE).ok_or_else(|| {
        Failure::NotFound(
            format!("the driver has no preset '{BASE}'"),
            "load the module that came with this uvmctl".into(),
        )
    })?;
    let stage = Stage::new(out, args, name, GPUS)?;
    let free = |policies: Vec<Policy>| -> Vec<(String, Policy, Lend)> {
        let each = policies.into_iter();
        each.map(|p| (String::new(), p, Lend::Free)).collect()
    };
    let runs = match args.experiment {
        Experiment::Ladder => {
            let mut all = some(&["stock-460", BASE]);
            all.extend(lineup.alone().into_iter().take(1));
            all.extend(lineup.ladder());
            all.extend(some(&[WHOLE, BEST]));
            free(all)
        }
        Experiment::PrefetchSize => prefetches(&lineup),
        Experiment::SpareSize => spares(&lineup, &stage),
        Experiment::RecordedJobs => free(some(&RIVALS)),
        _ => free(some(&PRESETS)),
    };
    let there: Vec<String> = runs.iter().map(|(_, p, _)| p.name.clone()).collect();
    let mut asked = Vec::new();
    for (sub, policy, lend) in runs {
        let variants = policy.variants(&args.presets)?.into_iter();
        asked.extend(variants.map(|p| (sub.clone(), p, lend)));
    }
    all_found(&args.presets, asked.iter().map(|(_, p, _)| p), &there)?;
    // Of an experiment whose cases are no settings the names are empty.
    asked.retain(|(sub, _, _)| sub.is_empty() || meant(args, sub));
    let runs = asked;
    if runs.is_empty() {
        return Err(Failure::Usage(format!("nothing of {name} was asked for")));
    }
    let done = (|| {
        let mut rows = Vec::new();
        for case in cases {
            let cast = stage.cast(case, &base)?;
            rows.extend(stage.alone(case, &cast, &base));
            rows.extend(there_and_back(&runs, args.again, |(sub, policy, lend)| {
                let name = match sub.as_str() {
                    "" => case.name,
                    sub => sub,
                };
                let go = || stage.together(case, name, &cast, policy, *lend);
                match args.experiment {
                    Experiment::RecordedJobs => {
                        let of = format!("recorded-jobs-{name}-{}", policy.name);
                        kept(out, args.recordings.as_deref(), &of, go)
                    }
                    _ => go(),
                }
            })?);
        }
        super::measured::compare(&mut rows);
        Ok(rows)
    })();
    // Whatever happened, the GPUs have their memory again.
    stage.leave()?;
    done
}

/// `memharvester` with other amounts fetched ahead, by the step found and to the next block, and with other steps than to that.
fn prefetches(lineup: &Lineup) -> Vec<(String, Policy, Lend)> {
    let all = MODES.iter().flat_map(|(mode, value)| {
        AMOUNTS.iter().filter_map(move |mib| {
            let policy = lineup.preset(WHOLE)?;
            let policy = policy.with(WHOLE, "stream_prefetch", *value).with(
                WHOLE,
                "prefetch_amount_mib",
                *mib,
            );
            Some((format!("{mode}-{mib}"), policy, Lend::Free))
        })
    });
    let steps = STEPS.iter().filter_map(|mib| {
        let policy = lineup.preset(WHOLE)?;
        let policy =
            policy
                .with(WHOLE, "stream_prefetch", 1)
                .with(WHOLE, "prefetch_stride_mib", *mib);
        Some((format!("step-{mib}"), policy, Lend::Free))
    });
    all.chain(steps).collect()
}

/// The borrower without a neighbour's memory, then with more and more of it.
fn spares(lineup: &Lineup, stage: &Stage<'_>) -> Vec<(String, Policy, Lend)> {
    let data = f64::from(stage.chunks) * 1.87;
    let alone = ["stock-460", "preef-host"];
    let alone = alone.iter().filter_map(|p| lineup.preset(p));
    let mut all: Vec<_> = alone
        .map(|p| ("spare-0".to_owned(), p, Lend::Nothing))
        .collect();
    for percent in SPARES {
        // Of three neighbours each lends a third.
        let each = third(data, percent) * (CHUNK >> 20);
        for preset in [WHOLE, BEST] {
            let policy = lineup.preset(preset);
            all.extend(policy.map(|p| (format!("spare-{percent}"), p, Lend::UpTo(each))));
        }
    }
    all
}

/// A third of so many percent of `data`, in the whole chunks that are nearest.
fn third(data: f64, percent: u32) -> u64 {
    // CAST: saturates.
    ((data * f64::from(percent) / 300.0).round() as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::find;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    fn all() -> impl Iterator<Item = &'static Case> {
        let all = Experiment::value_variants().iter();
        all.filter_map(|e| cases_of(*e))
            .flat_map(|(_, cases)| cases)
    }

    /// What a command line asks for: names of cases, or what is wrong with it.
    fn ask(line: &str) -> std::result::Result<Vec<&'static str>, String> {
        let words = ["uvmctl", "bench"].into_iter().chain(line.split(' '));
        let Some(Command::Bench(args)) = Cli::try_parse_from(words).unwrap().command else {
            panic!("{line}")
        };
        let (_, cases) = wanted(&args).map_err(|e| e.to_string())?;
        Ok(cases.iter().map(|c| c.name).collect())
    }

    /// Catches a name that nobody has left out without a word, and one that a setting has taken for such.
    #[test]
    fn a_case_that_there_is_not_is_refused() {
        let all = ["case-1", "case-2", "case-3", "case-4"];
        assert_eq!(ask("inter-job"), Ok(all.to_vec()));
        assert_eq!(ask("inter-job --cases case-3"), Ok(vec!["case-3"]));
        assert_eq!(ask("prefetch-size --cases stride-2"), Ok(vec!["case-1"]));
        assert_eq!(
            ask("spare-size --cases spare-0,spare-60"),
            Ok(vec!["spare"])
        );
        for (line, has) in [
            ("inter-job --cases case-1,case-5", "case-1, case-2"),
            ("prefetch-size --cases case-1", "stride-2, stride-4"),
            ("spare-size --cases spare-5,spare-7", "spare-0, spare-5"),
        ] {
            let why = ask(line).unwrap_err();
            assert!(why.contains("has no case") && why.contains(has), "{why}");
        }
        // Of one that has no tapes, those that have.
        assert!(ask("harvest").unwrap_err().contains("inter-job, ladder"));
    }

    /// The names that are accepted are those that rows have.
    #[test]
    fn settings_have_the_names_of_their_cases() {
        let lineup = Lineup::from(vec![WHOLE.into()], |_| false);
        let names: Vec<String> = prefetches(&lineup).into_iter().map(|r| r.0).collect();
        assert_eq!(names, subs_of(Experiment::PrefetchSize));
        let of = |name: &str| {
            let mut all = prefetches(&lineup).into_iter();
            all.find(|r| r.0 == name).map(|r| r.1.recipe())
        };
        let step = "memharvester stream_prefetch=1 prefetch_stride_mib=16";
        assert_eq!(of("step-16").as_deref(), Some(step));
    }

    /// Catches a case of a workload that there is not, two jobs on a GPU, and more than the machine has.
    #[test]
    fn every_job_has_a_gpu_of_its_own() {
        for case in all() {
            let mut seen = Vec::new();
            for (gpu, name, ratio) in case.jobs.iter().flat_map(|j| j.parts) {
                assert!(find(name).is_ok(), "{name}");
                assert!((*gpu as usize) < GPUS && !seen.contains(gpu));
                assert!(*ratio > 0.0 && *ratio < 2.0);
                seen.push(*gpu);
            }
        }
    }

    /// Catches 4.6 % in a case that says 5: rounded down three times.
    #[test]
    fn what_is_spare_is_near_what_its_case_says() {
        let data = 352.0 * 1.87;
        for percent in SPARES {
            let spare = third(data, percent) as f64 * 300.0 / data;
            assert!(
                (spare - f64::from(percent)).abs() < 0.25,
                "{percent} {spare}"
            );
        }
    }

    /// The sums of the sizes that the paper's Table 2 has of those that are beside a borrower.
    #[test]
    fn borrowers_find_the_papers_spare_memory() {
        for (case, percent) in INTER_JOB.iter().zip([29, 42, 52, 26]) {
            let lenders = case.jobs.iter().filter(|j| j.role == LENDER);
            let free = lenders.flat_map(|j| j.parts).map(|(_, _, r)| 1.0 - r);
            assert_eq!((free.sum::<f64>() * 100.0).round() as u32, percent);
        }
    }
}
