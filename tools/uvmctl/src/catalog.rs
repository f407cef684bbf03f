// SPDX-License-Identifier: GPL-2.0
//! What `run` can run, by name.

use crate::cli::Workload;
use crate::exit::Failure;
use crate::row::{extra, field, wrapped, Cell, Field, Row};
use clap::builder::{NonEmptyStringValueParser, PossibleValue, TypedValueParser};
use clap::ValueEnum;
use huvm_workloads::catalog::CATALOG;
use huvm_workloads::Entry;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;

/// A workload that there is.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Listed {
    name: String,
    family: String,
    does: String,
    source: String,
}

impl Row for Listed {
    fn fields(&self) -> Vec<Field> {
        vec![
            field("name", "NAME", Cell::text(&self.name)),
            field("family", "FAMILY", Cell::text(&self.family)),
            wrapped("does", "DOES", Cell::text(&self.does)),
            extra("source", Cell::text(&self.source)),
        ]
    }
}

/// All workloads: sweeps, then the catalog.
pub(crate) fn listed() -> Vec<Listed> {
    let sweep = |v: PossibleValue| Listed {
        name: v.get_name().into(),
        family: "sweep".into(),
        does: v.get_help().map(ToString::to_string).unwrap_or_default(),
        source: "its definition".into(),
    };
    let sweeps = Workload::value_variants().iter();
    let sweeps = sweeps.filter_map(|w| w.to_possible_value()).map(sweep);
    let others = CATALOG.iter().map(|e| Listed {
        name: e.name.into(),
        family: e.family.into(),
        does: e.doc.into(),
        source: e.source.into(),
    });
    sweeps.chain(others).collect()
}

/// A workload that was found by its name.
pub(crate) enum Found {
    /// A sweep.
    Sweep(Workload),
    /// One of the catalog.
    Entry(&'static Entry),
}

/// The workload of this name.
///
/// # Errors
/// There is none; the hint has the nearest names.
pub(crate) fn find(name: &str) -> Result<Found, Failure> {
    if let Ok(w) = Workload::from_str(name, false) {
        return Ok(Found::Sweep(w));
    }
    huvm_workloads::find(name).map(Found::Entry).ok_or_else(|| {
        let near = nearest(name, listed().into_iter().map(|l| l.name));
        let hint = match near.as_slice() {
            [] => "'uvmctl run --list' shows the workloads there are".into(),
            [one] => format!("there is '{one}'; 'uvmctl run --list' shows all"),
            some => format!(
                "there are '{}'; 'uvmctl run --list' shows all",
                some.join("', '")
            ),
        };
        Failure::NotFound(format!("there is no workload '{name}'"), hint)
    })
}

/// The names that one may have meant: up to three, the nearest first.
fn nearest(meant: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    let limit = (meant.chars().count() / 3).max(1);
    let mut near: Vec<(usize, String)> = names
        .filter_map(|n| {
            let begins = meant.len() > 1 && n.starts_with(meant);
            let d = if begins { 0 } else { distance(meant, &n) };
            (d <= limit).then_some((d, n))
        })
        .collect();
    // Stable: in the list's order where they are as near.
    near.sort_by_key(|(d, _)| *d);
    near.into_iter().take(3).map(|(_, n)| n).collect()
}

/// Letters to insert, drop or change to make one word of the other (Levenshtein, 1966).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in (1..).zip(a.chars()) {
        // Left, and above left.
        let (mut left, mut corner) = (i, i - 1);
        let mut next = vec![i];
        for (above, y) in row.iter().skip(1).zip(&b) {
            left = (left + 1).min(above + 1).min(corner + usize::from(x != *y));
            corner = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

/// A job as the command line names it: `NAME` or `NAME:GPU`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobName {
    pub(crate) workload: String,
    pub(crate) gpu: Option<String>,
}

/// Reads [`JobName`]s. Any name passes, for [`find`] to say which are near; completion knows those there are.
#[derive(Clone, Debug)]
pub(crate) struct JobNames;

impl TypedValueParser for JobNames {
    type Value = JobName;

    fn parse_ref(
        &self,
        cmd: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<JobName, clap::Error> {
        let text = NonEmptyStringValueParser::new().parse_ref(cmd, arg, value)?;
        // A PCI address has colons too.
        Ok(match text.split_once(':') {
            Some((workload, gpu)) => JobName {
                workload: workload.into(),
                gpu: Some(gpu.into()),
            },
            None => JobName {
                workload: text,
                gpu: None,
            },
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let sweeps = Workload::value_variants().iter();
        let sweeps = sweeps.filter_map(|w| w.to_possible_value());
        let others = CATALOG.iter();
        let others = others.map(|e| PossibleValue::new(e.name).help(e.doc));
        Some(Box::new(sweeps.chain(others)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden;

    #[test]
    fn names_are_told_apart_from_near_ones() {
        let near = |n: &str| nearest(n, listed().into_iter().map(|l| l.name));
        assert_eq!(near("pagernk"), ["pagerank"]);
        assert_eq!(near("resnet"), ["resnet50", "resnet101"]);
        assert_eq!(near("vgg19"), ["vgg16"]);
        assert_eq!(near("gnmt8"), ["gnmt8-0", "gnmt8-1", "gnmt8-2"]);
        assert!(near("something-else").is_empty());
        for (a, b, d) in [
            ("", "abc", 3),
            ("abc", "", 3),
            ("abc", "acb", 2),
            ("x", "x", 0),
        ] {
            assert_eq!(distance(a, b), d, "{a} {b}");
        }
    }

    #[test]
    fn every_listed_name_is_found_and_none_twice() {
        let mut names: Vec<String> = listed().into_iter().map(|l| l.name).collect();
        for n in &names {
            assert!(find(n).is_ok(), "{n}");
            // It would be taken for a GPU.
            assert!(!n.contains(':'), "{n}");
        }
        let all = names.len();
        assert_eq!(all, 6 + CATALOG.len());
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
        assert_eq!(find("pagernk").err().map(|e| e.code()), Some(6));
    }

    /// A workload that comes, goes or changes its name is a change that users see.
    #[test]
    fn the_list_is_as_recorded() {
        let text = serde_json::to_string_pretty(&listed()).unwrap() + "\n";
        golden::check("run-list.json", &text);
    }
}
