// SPDX-License-Identifier: GPL-2.0
//! Two sets of results, row by row.

use crate::failure::{Failure, Result};
use crate::rows::{told, File, Key, Row, OLD};
use crate::table::Table;
use crate::units;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A row that both have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// What it is of.
    #[serde(flatten)]
    pub key: Key,
    /// Time in A.
    pub a_time_ns: u64,
    /// Time in B.
    pub b_time_ns: u64,
    /// Time in B over that in A: above 1, B is slower.
    pub ratio: f64,
}

/// The rows of a preset in an experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mean {
    /// The experiment.
    pub experiment: String,
    /// The preset.
    pub preset: String,
    /// Rows that both have.
    pub rows: u32,
    /// Geometric mean of their ratios.
    pub ratio: f64,
}

/// The comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Commits of A, as far as they are known.
    pub a_commits: Vec<String>,
    /// Commits of B.
    pub b_commits: Vec<String>,
    /// Rows of both, in the order of A.
    pub rows: Vec<Pair>,
    /// By experiment and preset.
    pub means: Vec<Mean>,
    /// Rows that B does not have.
    pub only_in_a: Vec<String>,
    /// Rows that A does not have.
    pub only_in_b: Vec<String>,
    /// Rows of A, of an experiment that B has others of.
    #[serde(skip)]
    pub lost: Vec<String>,
    /// Schemas of rows that one of the two has alone, with what their times leave out: those of the two do not mean the same.
    pub differ: Vec<String>,
}

fn commits(files: &[File]) -> Vec<String> {
    let mut all: Vec<String> = files.iter().filter_map(File::commit).collect();
    all.sort();
    all.dedup();
    all
}

/// Four decimals: the rest is the rounding of logarithms.
fn rounded(x: f64) -> f64 {
    (x * 1e4).round() / 1e4
}

/// Compares two sets.
///
/// # Errors
/// They have no row in common.
pub fn compare(a: &[File], b: &[File]) -> Result<Comparison> {
    let of_a: Vec<(Key, &Row)> = a.iter().flat_map(File::keyed).collect();
    let of_b: Vec<(Key, &Row)> = b.iter().flat_map(File::keyed).collect();
    let in_b: BTreeMap<&Key, &Row> = of_b.iter().map(|(k, r)| (k, *r)).collect();
    let in_a: BTreeMap<&Key, &Row> = of_a.iter().map(|(k, r)| (k, *r)).collect();
    let rows: Vec<Pair> = of_a
        .iter()
        .filter_map(|(key, row)| {
            let other = in_b.get(key)?;
            Some(Pair {
                key: key.clone(),
                a_time_ns: row.time_ns,
                b_time_ns: other.time_ns,
                ratio: rounded(other.time_ns as f64 / row.time_ns as f64),
            })
        })
        .collect();
    let old = |files: &[File]| -> BTreeSet<&str> {
        let all = files.iter().filter_map(|f| f.meta.as_ref());
        let schemas: BTreeSet<&str> = all.map(|m| m.schema.as_str()).collect();
        let old = OLD.iter().filter(|o| schemas.contains(o.schema));
        old.map(|o| o.schema).collect()
    };
    let alone: BTreeSet<&str> = &old(a) ^ &old(b);
    let differ = OLD.iter().filter(|o| alone.contains(o.schema));
    if rows.is_empty() {
        return Err(Failure::Check(
            "the two have no row in common: there is nothing to compare".into(),
        ));
    }
    let lacking = |of: &[(Key, &Row)], other: &BTreeMap<&Key, &Row>| -> Vec<String> {
        let missing = of.iter().filter(|(k, _)| !other.contains_key(k));
        missing.map(|(k, _)| k.to_string()).collect()
    };
    let shared = |k: &Key| rows.iter().any(|r| r.key.experiment == k.experiment);
    let lost = of_a.iter().filter(|(k, _)| !in_b.contains_key(k));
    let lost = lost.filter(|(k, _)| shared(k)).map(|(k, _)| k.to_string());
    Ok(Comparison {
        lost: lost.collect(),
        a_commits: commits(a),
        b_commits: commits(b),
        differ: differ
            .map(|o| format!("{}, without {}", o.schema, o.lacks))
            .collect(),
        means: means(&rows),
        only_in_a: lacking(&of_a, &in_b),
        only_in_b: lacking(&of_b, &in_a),
        rows,
    })
}

fn means(rows: &[Pair]) -> Vec<Mean> {
    let mut sums: BTreeMap<(&str, &str), (u32, f64)> = BTreeMap::new();
    for r in rows {
        let of = (r.key.experiment.as_str(), r.key.preset.as_str());
        let sum = sums.entry(of).or_default();
        sum.0 += 1;
        sum.1 += (r.b_time_ns as f64 / r.a_time_ns as f64).ln();
    }
    let mean = |((experiment, preset), (rows, sum)): ((&str, &str), (u32, f64))| Mean {
        experiment: experiment.to_owned(),
        preset: preset.to_owned(),
        rows,
        ratio: rounded((sum / f64::from(rows)).exp()),
    };
    sums.into_iter().map(mean).collect()
}

impl Comparison {
    /// Rows of which B took more than `percent` longer.
    pub fn slower(&self, percent: f64) -> Vec<&Pair> {
        let most = 1.0 + percent / 100.0;
        let slower = |p: &&Pair| p.b_time_ns as f64 > p.a_time_ns as f64 * most;
        self.rows.iter().filter(slower).collect()
    }

    /// Why nothing can be said of how much slower B is: rows of an experiment that both have are not in it, or times mean something else.
    pub fn cannot_be_judged(&self) -> Option<String> {
        if let Some(schema) = self.differ.first() {
            return Some(format!(
                "times do not mean the same: one has rows of {schema}"
            ));
        }
        let first = self.lost.first()?;
        Some(format!("B lacks {} rows of A: {first}", self.lost.len()))
    }

    /// For people.
    pub fn text(&self) -> String {
        let of = |commits: &[String]| match commits {
            [] => "commit not known".to_owned(),
            some => format!("commit {}", some.join(", ")),
        };
        let mut text = format!(
            "A: {}\nB: {}\nB/A above 1: B is slower\n\n",
            of(&self.a_commits),
            of(&self.b_commits)
        );
        for schema in &self.differ {
            text.push_str(&format!(
                "Times do not mean the same: one has rows of {schema}.\n\n"
            ));
        }
        text.push_str(&self.table().text());
        text.push('\n');
        let mut means = Table::new(2, &["experiment", "preset", "rows", "mean B/A"]);
        for m in &self.means {
            means.row([
                m.experiment.clone(),
                m.preset.clone(),
                m.rows.to_string(),
                format!("{:.3}", m.ratio),
            ]);
        }
        text.push_str(&means.text());
        for (side, missing) in [("A", &self.only_in_a), ("B", &self.only_in_b)] {
            if !missing.is_empty() {
                text.push_str(&format!("\nonly in {side}:\n"));
                missing
                    .iter()
                    .for_each(|k| text.push_str(&format!("  {k}\n")));
            }
        }
        text
    }

    fn table(&self) -> Table {
        let head = [
            "experiment",
            "case",
            "workload",
            "preset",
            "role",
            "more",
            "gpu",
            "ratio",
            "A",
            "B",
            "B/A",
        ];
        let mut table = Table::new(6, &head);
        for r in &self.rows {
            let k = &r.key;
            let telling = k.telling.iter();
            let telling = telling.map(|(f, n)| format!("{f} {}", told(f, n)));
            table.row([
                k.experiment.clone(),
                k.case.clone(),
                k.workload.clone(),
                k.preset.clone(),
                k.role.clone(),
                telling.collect::<Vec<_>>().join(", "),
                k.gpu.to_string(),
                k.ratio.clone(),
                units::time(r.a_time_ns),
                units::time(r.b_time_ns),
                format!("{:.3}", r.ratio),
            ]);
        }
        table
    }
}
