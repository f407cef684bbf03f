// SPDX-License-Identifier: GPL-2.0
//! The page.

use super::notes::{Notes, Section, Seen};
use super::paper::{Figure, Paper, ALLOWED};
use crate::failure::{Failure, Result};
use crate::plot::bars::{base_of, BASELINE};
use crate::rows::{File, Row};
use crate::table::Table;
use crate::units;

/// Makes the page. Its pictures are `plots/NAME.svg`.
///
/// # Errors
/// Results without a section, sections without results, and figures that need an explanation and have none: all that is
/// missing, at once.
pub fn page(files: &[File], notes: &Notes, paper: &Paper) -> Result<String> {
    let mut missing = Vec::new();
    for s in &notes.experiments {
        if s.kept.is_empty() && files.iter().all(|f| f.name != s.name) {
            missing.push(format!("no results of '{}': run '{}'", s.name, s.command));
        }
    }
    for f in files {
        match notes.experiments.iter().find(|s| s.name == f.name) {
            Some(s) => missing.extend(unseen(s, f)),
            None => missing.push(format!("'{}' has no section in the notes", f.name)),
        }
    }
    for e in &notes.explanations {
        if paper.figures.iter().all(|f| f.id != e.figure) {
            missing.push(format!("there is no figure '{}' to explain", e.figure));
        }
    }
    let beside = beside(files, notes, paper, &mut missing);
    if !missing.is_empty() {
        return Err(Failure::Check(missing.join("\n  ")));
    }
    let mut text = format!(
        "<!-- Made by 'make results' from Documentation/results, tools/results/paper.toml and Documentation/results-notes.toml. -->\n\
         # Results\n\n{}\n",
        notes.intro.trim()
    );
    for s in &notes.experiments {
        if let Some(file) = files.iter().find(|f| f.name == s.name) {
            text.push_str(&section(s, file));
        } else {
            let (lead, kept, below) = (paragraph(&s.lead), paragraph(&s.kept), paragraph(&s.text));
            text.push_str(&format!("\n## {}\n{lead}{kept}{below}", s.title));
        }
    }
    text.push_str(&beside);
    if !notes.end.trim().is_empty() {
        text.push_str(&format!("\n{}\n", notes.end.trim()));
    }
    Ok(text)
}

fn paragraph(text: &str) -> String {
    match text.trim() {
        "" => String::new(),
        text => format!("\n{text}\n"),
    }
}

/// Recordings that nobody wrote about, and the other way round.
fn unseen(s: &Section, f: &File) -> Vec<String> {
    let name = |seen: &Seen| format!("{}-{}", s.name, seen.name);
    let silent = f.recordings.iter().filter(|r| {
        let mut all = s.recordings.iter();
        all.all(|seen| name(seen) != **r)
    });
    let silent = silent.map(|r| format!("the recording '{r}' has no text in the notes"));
    let lost = s
        .recordings
        .iter()
        .map(name)
        .filter(|n| !f.recordings.contains(n));
    let lost = lost.map(|n| format!("there is no recording '{n}'; '{}' makes it", s.command));
    silent.chain(lost).collect()
}

/// Pictures of a recording, as `timeline` makes them: their names' ends, and what they show.
const PICTURES: [(&str, &str); 3] = [
    ("timeline", "links, copy engines and the driver over time"),
    ("residency", "where blocks are over time"),
    ("access", "faults of blocks over time"),
];

fn section(s: &Section, file: &File) -> String {
    let commit = file.commit();
    let of = commit.map_or("at a commit that is not known".into(), |c| {
        format!("at commit `{c}`")
    });
    let machine = file.meta.as_ref().map_or(String::new(), |m| {
        let plain = |v: &serde_json::Value| v.to_string().replace('"', "");
        // What each guest ran is in the file itself.
        let all = m.configuration.iter().filter(|(k, _)| *k != "guests");
        let all: Vec<String> = all.map(|(k, v)| format!("{k} {}", plain(v))).collect();
        format!("; {}", all.join(", "))
    });
    let mut text = format!(
        "\n## {}\n\n`{}` (`Documentation/results/{}.json`), {of}{machine}.\n",
        s.title, s.command, s.name
    );
    text.push_str(&paragraph(&s.lead));
    let rows = match file.rows.len() > MANY {
        true => by_preset(file),
        false => table(file),
    };
    text.push_str(&format!("\n{}", rows.markdown()));
    text.push_str(&format!(
        "\n![{}: times as fast as the baseline](plots/{}.svg)\n",
        s.title, s.name
    ));
    if let Some(targets) = &file.targets {
        text.push_str(&format!("\n```\n{}\n```\n", targets.trim_end()));
    }
    text.push_str(&paragraph(&s.text));
    for seen in &s.recordings {
        text.push_str(&format!("\n### {}\n", seen.name));
        text.push_str(&paragraph(&seen.text));
        for (end, what) in PICTURES {
            let (of, name) = (&seen.name, &s.name);
            text.push_str(&format!("\n![{of}: {what}](plots/{name}-{of}-{end}.svg)\n"));
        }
    }
    text
}

/// A column: its head, and what it shows of a row; nothing, where nothing is known.
type Column = (&'static str, fn(&File, &Row) -> String);

fn or_nothing<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or(String::new(), show)
}

fn moved(r: &Row) -> u64 {
    let host = r.h2d_bytes.saturating_add(r.d2h_bytes);
    host.saturating_add(r.p2p_bytes)
}

/// The driver's instructions for one of so many.
fn each(insns: Option<u64>, count: u64) -> Option<u64> {
    insns?.checked_div(count)
}

/// Whether a row is of the same job and policy as another one, and took nothing back.
fn is_without_reclaims(o: &Row, r: &Row) -> bool {
    o.count("reclaims") == Some(0)
        && o.case == r.case
        && o.preset == r.preset
        && o.role == r.role
        && o.gpu == r.gpu
}

/// Of these the first `WORDS` are words.
const COLUMNS: [Column; 21] = [
    ("case", |_, r| r.case.clone()),
    ("workload", |_, r| r.workload.clone()),
    ("policy", |_, r| r.preset.clone()),
    ("role", |_, r| r.role.clone()),
    ("GPUs", |_, r| {
        or_nothing(r.count("gpus"), |n| n.to_string())
    }),
    ("ratio", |_, r| format!("{:.2}", r.ratio)),
    ("spare", |_, r| {
        or_nothing(r.number("spare_ratio"), |n| format!("{n:.2}"))
    }),
    ("time", |_, r| units::time(r.time_ns)),
    ("ideal", |_, r| or_nothing(r.ideal_ns, units::time)),
    ("speed-up", |f, r| {
        let base = base_of(f, r, BASELINE);
        format!("{:.2}", base.time_ns as f64 / r.time_ns.max(1) as f64)
    }),
    ("faults", |_, r| r.faults.to_string()),
    ("from host", |_, r| units::bytes(r.h2d_bytes)),
    ("to host", |_, r| units::bytes(r.d2h_bytes)),
    ("peers", |_, r| units::bytes(r.p2p_bytes)),
    // Bytes moved over those of Belady's MIN.
    ("over Belady", |_, r| {
        or_nothing(r.belady_bytes.filter(|b| *b != 0), |b| {
            format!("{:.2}", moved(r) as f64 / b as f64)
        })
    }),
    ("insns/fault", |_, r| {
        or_nothing(each(r.driver_insns, r.faults), |n| n.to_string())
    }),
    ("insns/chunk moved", |_, r| {
        let chunks = moved(r) / units::CHUNK;
        or_nothing(each(r.driver_insns, chunks), |n| n.to_string())
    }),
    // What it takes more than the same job beside a neighbour that has nothing to give back.
    ("insns/reclaim", |f, r| {
        let without = f.rows.iter().find(|o| is_without_reclaims(o, r));
        let more = without.and_then(|o| r.driver_insns?.checked_sub(o.driver_insns?));
        or_nothing(each(more, r.count("reclaims").unwrap_or(0)), |n| {
            n.to_string()
        })
    }),
    // Its part of the critical path; up to 2026-11-22 only known to be no more than its thread's.
    ("driver", |_, r| {
        let most = r.number("driver_share").map(|s| ("≤ ", s));
        let alone = r.number("exposed_ns").filter(|_| r.faults != 0);
        let share = alone.map(|ns| ("", ns / r.time_ns.max(1) as f64));
        or_nothing(share.or(most), |(about, s)| {
            format!("{about}{:.1} %", s * 100.0)
        })
    }),
    // How far the same again was from it, after others ran before it.
    ("again", |_, r| {
        let of = |again: u64| (again as f64 / r.time_ns.max(1) as f64 - 1.0) * 100.0;
        or_nothing(r.count("again_ns").map(of), |p| format!("{p:+.1} %"))
    }),
    ("link", |_, r| {
        or_nothing(r.link_efficiency, |e| format!("{:.1} %", e * 100.0))
    }),
];
const WORDS: usize = 4;

/// The rows, in the columns in which any of them has something.
fn table(file: &File) -> Table {
    let shown: Vec<&Column> = COLUMNS
        .iter()
        .filter(|(_, show)| file.rows.iter().any(|r| !show(file, r).is_empty()))
        .collect();
    let words = COLUMNS.iter().take(WORDS).map(|(h, _)| *h);
    let words: Vec<&str> = words.collect();
    let left = shown.iter().filter(|(h, _)| words.contains(h)).count();
    let heads: Vec<&str> = shown.iter().map(|(h, _)| *h).collect();
    let mut table = Table::new(left, &heads);
    for row in &file.rows {
        let cell = |show: &fn(&File, &Row) -> String| match show(file, row) {
            empty if empty.is_empty() => "-".to_owned(),
            cell => cell,
        };
        table.row(shown.iter().map(|(_, show)| cell(show)));
    }
    table
}

/// More rows than these are shown with their presets side by side.
const MANY: usize = 150;

/// A line for each job and ratio: how long it takes with memory enough and under the baseline, and how many times as fast each of the
/// other presets is. The last one's link and traffic beside.
fn by_preset(file: &File) -> Table {
    let mut presets: Vec<&str> = Vec::new();
    let mut jobs: Vec<(&str, f64)> = Vec::new();
    for r in &file.rows {
        if !presets.contains(&r.preset.as_str()) {
            presets.push(&r.preset);
        }
        if !jobs.contains(&(r.workload.as_str(), r.ratio)) {
            jobs.push((&r.workload, r.ratio));
        }
    }
    presets.retain(|p| *p != BASELINE);
    let last = presets.last().copied().unwrap_or(BASELINE);
    let mut heads = vec!["workload", "ratio", "ideal", BASELINE];
    heads.extend(&presets);
    let beside = [
        format!("{last} over Belady"),
        format!("{last} link"),
        format!("{last} driver"),
    ];
    heads.extend(beside.iter().map(String::as_str));
    let mut table = Table::new(1, &heads);
    for (workload, ratio) in jobs {
        let find = |preset: &str| {
            let same = |r: &&Row| r.workload == workload && r.ratio == ratio && r.preset == preset;
            file.rows.iter().find(same)
        };
        let base = find(BASELINE);
        let time = |t: Option<u64>| or_nothing(t, units::time);
        let ideal = base.or_else(|| find(last)).and_then(|r| r.ideal_ns);
        let mut cells = vec![workload.to_owned(), format!("{ratio:.2}"), time(ideal)];
        cells.push(time(base.map(|r| r.time_ns)));
        cells.extend(presets.iter().map(|p| {
            let pair = base.zip(find(p));
            or_nothing(pair, |(b, r)| {
                format!("{:.2}", b.time_ns as f64 / r.time_ns.max(1) as f64)
            })
        }));
        let of_last = ["over Belady", "link", "driver"].map(|head| {
            let column = COLUMNS.iter().find(|(h, _)| *h == head);
            let shown = column.zip(find(last)).map(|((_, show), r)| show(file, r));
            shown.unwrap_or_default()
        });
        cells.extend(of_last);
        let or_dash = |c: String| if c.is_empty() { "-".to_owned() } else { c };
        table.row(cells.into_iter().map(or_dash));
    }
    table
}

fn beside(files: &[File], notes: &Notes, paper: &Paper, missing: &mut Vec<String>) -> String {
    let mut table = Table::new(2, &["what", "source", "paper", "ours", "off by"]);
    let mut why = String::new();
    let is_kept = |f: &Figure| {
        let sections = &notes.experiments;
        sections
            .iter()
            .any(|s| s.name == f.experiment && !s.kept.is_empty())
    };
    for figure in &paper.figures {
        let explained = notes.explanations.iter().find(|e| e.figure == figure.id);
        if figure.has_no_base(files) {
            missing.push(format!(
                "'{}': a row that it is about has none to be compared with",
                figure.id
            ));
        }
        let (ours, off) = match figure.ours(files) {
            None if is_kept(figure) => ("see the experiment".to_owned(), String::new()),
            None => ("not measured".to_owned(), String::new()),
            Some(range) => {
                let off = figure.off(range);
                if off.abs() > ALLOWED && explained.is_none() {
                    missing.push(needs(figure, range, off));
                }
                (shown(figure, range), percent(off))
            }
        };
        table.row([
            figure.what.clone(),
            figure.source.clone(),
            figure.theirs(),
            ours,
            off,
        ]);
        if let Some(e) = explained {
            why.push_str(&format!("\n- **{}**: {}", figure.what, e.text.trim()));
        }
    }
    if table.is_empty() {
        return String::new();
    }
    let why = match why.as_str() {
        "" => String::new(),
        why => format!("\nWhy they differ:\n{why}\n"),
    };
    format!(
        "\n## Beside the papers\n\nOff by: how far ours is outside of the paper's range. Above {:.0} % it needs an explanation.\n\n{}{why}",
        ALLOWED * 100.0,
        table.markdown()
    )
}

fn percent(off: f64) -> String {
    match off {
        0.0 => "-".into(),
        off => format!("{:+.0} %", off * 100.0),
    }
}

fn shown(figure: &Figure, (least, most): (f64, f64)) -> String {
    let (least, most) = (figure.number(least), figure.number(most));
    match least == most {
        true => least,
        false => format!("{least} to {most}"),
    }
}

fn needs(figure: &Figure, range: (f64, f64), off: f64) -> String {
    format!(
        "'{}' needs an explanation in the notes ([[explain]] figure = \"{}\"): the paper has {}, we {} ({})",
        figure.what,
        figure.id,
        figure.theirs(),
        shown(figure, range),
        percent(off)
    )
}
