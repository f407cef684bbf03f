// SPDX-License-Identifier: GPL-2.0
//! Bars: each group is a case of an experiment, each bar a preset, its length how many times faster than a baseline in the
//! same group. They lie, so that each bears its name, however many there are.

use super::{EDGE, WIDE};
use crate::draw::{self, palette, Anchor, Colour, Scene, BLACK, GREY, LIGHT, LINE};
use crate::rows::{File, Row};
use std::collections::BTreeSet;

/// What bars are measured by, if nothing else is asked for.
pub const BASELINE: &str = "stock-595";

/// Presets that have a colour of their own in all pictures.
const KNOWN: [&str; 8] = [
    "stock-595",
    "stock-460",
    "preef-host",
    "memharvester",
    "huvm",
    "zero-copy",
    "random",
    "H",
];

/// Presets with what they reached.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The case, and what tells it from others.
    pub name: String,
    /// What its bars are measured by.
    pub baseline: String,
    /// Name, speed-up over the baseline, time in ns.
    pub bars: Vec<(String, f64, u64)>,
}

/// A part of a group's name, of a row.
type Part = (&'static str, fn(&Row) -> String);

fn of_field(row: &Row, field: &str) -> String {
    row.number(field)
        .map_or(String::new(), |n| format!("{n:.2}"))
}

/// What tells groups of one case apart, if it differs between them.
const PARTS: [Part; 6] = [
    ("", |r| r.workload.clone()),
    ("", |r| r.role.clone()),
    ("gpu", |r| r.gpu.to_string()),
    ("ratio", |r| format!("{:.2}", r.ratio)),
    ("spare", |r| of_field(r, "spare_ratio")),
    ("GPUs", |r| {
        r.count("gpus").map_or(String::new(), |n| n.to_string())
    }),
];

fn identity(row: &Row) -> Vec<String> {
    let mut id = vec![row.case.clone()];
    id.extend(PARTS.iter().map(|(_, part)| part(row)));
    id
}

/// What a row is measured by: the baseline in its group, or the group's first row.
pub fn base_of<'a>(file: &'a File, row: &'a Row, baseline: &str) -> &'a Row {
    let id = identity(row);
    let rows = || file.rows.iter().filter(|r| identity(r) == id);
    let base = rows().find(|r| r.preset == baseline);
    base.or_else(|| rows().next()).unwrap_or(row)
}

/// The groups of a file, in its order.
pub fn groups(file: &File, baseline: &str) -> Vec<Group> {
    let mut ids: Vec<Vec<String>> = Vec::new();
    for row in &file.rows {
        let id = identity(row);
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    let group = |id: &Vec<String>| {
        let rows = || file.rows.iter().filter(|r| identity(r) == *id);
        let base = base_of(file, rows().next()?, baseline);
        let bar = |r: &Row| {
            let faster = base.time_ns as f64 / r.time_ns.max(1) as f64;
            (r.preset.clone(), faster, r.time_ns)
        };
        Some(Group {
            name: name(id, &ids, &file.name),
            baseline: base.preset.clone(),
            bars: rows().map(bar).collect(),
        })
    };
    let all: Vec<Group> = ids.iter().filter_map(group).collect();
    match all.len() > MANY {
        true => means(&all, file, &ids),
        false => all,
    }
}

/// More groups than these make no picture.
const MANY: usize = 60;

/// A group for each workload: of each preset the geometric mean of its speed-ups, and of its times.
fn means(all: &[Group], file: &File, ids: &[Vec<String>]) -> Vec<Group> {
    let mut workloads: Vec<&str> = Vec::new();
    for r in &file.rows {
        if !workloads.contains(&r.workload.as_str()) {
            workloads.push(&r.workload);
        }
    }
    let of = |workload: &str| {
        // An identity is the case, and then PARTS, of which the workload is the first.
        let is = |id: &Vec<String>| id.get(1).is_some_and(|w| w == workload);
        let groups: Vec<&Group> = all
            .iter()
            .zip(ids)
            .filter(|(_, id)| is(id))
            .map(|(g, _)| g)
            .collect();
        let first = groups.first()?;
        let mean = |preset: &str| {
            let bars = groups
                .iter()
                .flat_map(|g| &g.bars)
                .filter(|b| b.0 == preset);
            let (mut faster, mut time, mut n) = (0.0, 0.0, 0.0f64);
            for b in bars {
                faster += b.1.ln();
                time += (b.2.max(1) as f64).ln();
                n += 1.0;
            }
            // CAST: a mean of times.
            (
                preset.to_owned(),
                (faster / n).exp(),
                (time / n).exp() as u64,
            )
        };
        Some(Group {
            name: format!("{workload}, mean of {} ratios", groups.len()),
            baseline: first.baseline.clone(),
            bars: first.bars.iter().map(|b| mean(&b.0)).collect(),
        })
    };
    workloads.iter().filter_map(|w| of(w)).collect()
}

/// The case, and those parts that differ between groups of the same case.
fn name(id: &[String], all: &[Vec<String>], file: &str) -> String {
    let case = id.first().map_or("", String::as_str);
    let mut name = if case.is_empty() { file } else { case }.to_owned();
    for (i, (word, _)) in PARTS.iter().enumerate() {
        let at = i + 1;
        let same_case = all.iter().filter(|o| o.first() == id.first());
        let values: BTreeSet<_> = same_case.filter_map(|o| o.get(at)).collect();
        let own = id.get(at).filter(|v| !v.is_empty());
        if let (true, Some(own)) = (values.len() > 1, own) {
            let blank = if word.is_empty() { "" } else { " " };
            name.push_str(&format!(", {word}{blank}{own}"));
        }
    }
    name
}

/// A step for a scale up to `most`: 1, 2 or 5 times a power of ten, at most eight of them.
fn step(most: f64) -> f64 {
    let mut step = 0.1;
    loop {
        for factor in [1.0, 2.0, 5.0] {
            if most / (step * factor) <= 8.0 {
                return step * factor;
            }
        }
        step *= 10.0;
    }
}

/// Draws the groups of an experiment. `title` says what it is of.
pub fn draw(title: &str, groups: &[Group]) -> Scene {
    let bars = || groups.iter().flat_map(|g| &g.bars);
    let names = bars().map(|b| draw::width(&b.0)).max().unwrap_or(0);
    let most = bars().map(|b| b.1).fold(1.0, f64::max).min(1e6);
    let left = EDGE + names + 12;
    // CAST: within the picture; a bar that is longer ends with it.
    let at = |x: f64| left + (x.min(most) / most * f64::from(WIDE)) as i32;
    let colours = colours(groups);
    let mut s = Scene::new();
    s.text(EDGE, EDGE, Anchor::Start, BLACK, title);
    s.text(
        EDGE,
        EDGE + LINE,
        Anchor::Start,
        GREY,
        "times as fast as the group's baseline",
    );
    let top = EDGE + 3 * LINE;
    // Lines first: bars cover them.
    let lines: i32 = groups.iter().map(|g| count(g.bars.len()) + 2).sum();
    let bottom = top + lines * (LINE + 4);
    let step = step(most);
    let mut tick = 0.0;
    let mut nr = 0u32;
    while tick <= most * 1.0001 {
        s.rect(at(tick), top, 1, bottom - top, LIGHT);
        s.text(at(tick), bottom + 4, Anchor::Middle, GREY, &trimmed(tick));
        nr += 1;
        tick = f64::from(nr) * step;
    }
    let mut y = top;
    for g in groups {
        let head = format!("{} (baseline {})", g.name, g.baseline);
        s.text(EDGE, y, Anchor::Start, BLACK, &head);
        y += LINE + 4;
        for (preset, faster, time) in &g.bars {
            let known = colours.iter().find(|(p, _)| p == preset);
            let colour = known.map_or(GREY, |(_, c)| *c);
            s.text(left - 8, y, Anchor::End, BLACK, preset);
            s.rect(left, y + 1, (at(*faster) - left).max(1), LINE - 2, colour);
            let value = format!("{faster:.2}  {}", crate::units::time(*time));
            s.text(at(*faster) + 6, y, Anchor::Start, BLACK, &value);
            y += LINE + 4;
        }
        y += LINE + 4;
    }
    // The baseline.
    s.rect(at(1.0), top, 1, bottom - top, BLACK);
    s.margin(EDGE);
    s
}

fn count(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX / 1024)
}

fn trimmed(x: f64) -> String {
    let text = format!("{x:.1}");
    text.trim_end_matches(".0").to_owned()
}

/// A colour for each preset: that of its own, or the next in order of appearance.
fn colours(groups: &[Group]) -> Vec<(String, Colour)> {
    let mut next = KNOWN.len();
    let mut all: Vec<(String, Colour)> = Vec::new();
    for (preset, ..) in groups.iter().flat_map(|g| &g.bars) {
        if all.iter().all(|(p, _)| p != preset) {
            let nr = KNOWN.iter().position(|k| k == preset).unwrap_or_else(|| {
                next += 1;
                next - 1
            });
            all.push((preset.clone(), palette(nr)));
        }
    }
    all
}
