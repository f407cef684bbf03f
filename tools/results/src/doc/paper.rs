// SPDX-License-Identifier: GPL-2.0
//! The papers' figures, and ours beside them.

use crate::rows::{File, Row};
use serde::Deserialize;

/// How far ours may be from a paper's without an explanation, as a share.
pub const ALLOWED: f64 = 0.2;

/// What papers report.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// In the order of the page.
    #[serde(default, rename = "figure")]
    pub figures: Vec<Figure>,
}

/// What a figure measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// The baseline's time over the preset's.
    Speedup,
    /// By how many percent the preset's time is longer than the baseline's.
    SlowerPercent,
}

/// A figure of a paper. With `low` alone it is a least, with `high` alone a most, with both a range.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// A name for explanations.
    pub id: String,
    /// What was measured, in words.
    pub what: String,
    /// Where that stands.
    pub source: String,
    /// What is divided by what.
    pub measure: Measure,
    /// Our experiment.
    pub experiment: String,
    /// Case of it.
    pub case: String,
    /// Role, if one of several is meant.
    #[serde(default)]
    pub role: Option<String>,
    /// Workload, if one of several is meant.
    #[serde(default)]
    pub workload: Option<String>,
    /// The preset.
    pub preset: String,
    /// What it is measured by; the same preset, if it is left out.
    #[serde(default)]
    pub baseline: Option<String>,
    /// Case of the baseline; the same, if it is left out.
    #[serde(default)]
    pub baseline_case: Option<String>,
    /// The paper's least.
    #[serde(default)]
    pub low: Option<f64>,
    /// The paper's most.
    #[serde(default)]
    pub high: Option<f64>,
}

impl Figure {
    /// Whether a row is one that it is about.
    fn is_of(&self, r: &Row) -> bool {
        r.experiment == self.experiment
            && r.case == self.case
            && r.preset == self.preset
            && self.role.as_ref().is_none_or(|role| r.role == *role)
            && self.workload.as_ref().is_none_or(|w| r.workload == *w)
    }

    /// Whether it is about a row without the one that this is to be compared with.
    pub fn has_no_base(&self, files: &[File]) -> bool {
        let rows = || files.iter().flat_map(|f| &f.rows);
        let mut ours = rows().filter(|r| self.is_of(r));
        ours.any(|r| !rows().any(|b| self.is_base(b, r)))
    }

    /// Ours: least and most over all rows that it is about. `None`: not measured.
    pub fn ours(&self, files: &[File]) -> Option<(f64, f64)> {
        let rows = || files.iter().flat_map(|f| &f.rows);
        let figures = rows().filter(|r| self.is_of(r)).filter_map(|row| {
            let base = rows().find(|b| self.is_base(b, row))?;
            let (time, base) = (row.time_ns as f64, base.time_ns as f64);
            Some(match self.measure {
                Measure::Speedup => base / time,
                Measure::SlowerPercent => (time / base - 1.0) * 100.0,
            })
        });
        figures.fold(None, |range: Option<(f64, f64)>, x| {
            let (low, high) = range.unwrap_or((x, x));
            Some((low.min(x), high.max(x)))
        })
    }

    fn is_base(&self, base: &Row, row: &Row) -> bool {
        let preset = self.baseline.as_ref().unwrap_or(&self.preset);
        let case = self.baseline_case.as_ref().unwrap_or(&self.case);
        // In another case neighbours may have more or less to spare.
        let same =
            self.baseline_case.is_some() || base.number("spare_ratio") == row.number("spare_ratio");
        base.experiment == row.experiment
            && base.case == *case
            && base.preset == *preset
            && base.workload == row.workload
            && (base.gpu, &base.role) == (row.gpu, &row.role)
            && base.ratio == row.ratio
            && base.count("gpus") == row.count("gpus")
            && same
    }

    /// By what share ours is off: above 0 it is more than the paper's most, below 0 less than its least.
    pub fn off(&self, (least, most): (f64, f64)) -> f64 {
        let share = |x: f64, of: f64| (x - of) / of.abs().max(1e-9);
        match (self.low, self.high) {
            // The whole of ours must reach a least, and stay below a most.
            (Some(low), None) if least < low => share(least, low),
            (None, Some(high)) if most > high => share(most, high),
            (Some(low), Some(high)) => {
                let (under, over) = (share(least, low), share(most, high));
                if under < 0.0 && -under >= over {
                    under
                } else {
                    over.max(0.0)
                }
            }
            _ => 0.0,
        }
    }

    /// The paper's, for people.
    pub fn theirs(&self) -> String {
        let of = |x: f64| self.number(x);
        match (self.low, self.high) {
            (Some(l), Some(h)) if l == h => of(l),
            (Some(l), Some(h)) => format!("{} to {}", of(l), of(h)),
            (Some(l), None) => format!("at least {}", of(l)),
            (None, Some(h)) => format!("at most {}", of(h)),
            (None, None) => "-".into(),
        }
    }

    /// A number of this figure, with its unit.
    pub fn number(&self, x: f64) -> String {
        match self.measure {
            Measure::Speedup => format!("{x:.2}x"),
            Measure::SlowerPercent => format!("{x:+.1} %"),
        }
    }
}
