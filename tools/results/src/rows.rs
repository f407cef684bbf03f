// SPDX-License-Identifier: GPL-2.0
//! Results on disk: `build/results/NAME.json`, an array of rows, and beside it `NAME.meta.json`, what they are of.
//!
//! The array has rows alone, for whoever reads it with a program of three lines; what is true of all of them (commit, versions,
//! configuration, seed) stands beside. `NAME.targets.txt`, where there is one, has the targets as the bench judged them.
//! What is no result is refused with the file, the row and the reason: a broken file, a field that is missing, wrong data.

use crate::failure::{Failure, Result};
use crate::units;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A result: sums of the measured passes, on one GPU. What is not known is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The experiment; if the file does not say, the file's name.
    #[serde(default)]
    pub experiment: String,
    /// Case of the experiment.
    #[serde(default)]
    pub case: String,
    /// Workload by name.
    pub workload: String,
    /// Preset, or techniques that are switched on.
    pub preset: String,
    /// Index of the GPU.
    #[serde(default)]
    pub gpu: u32,
    /// `borrower`, `owner`, or nothing.
    #[serde(default)]
    pub role: String,
    /// Footprint over the GPU's memory.
    pub ratio: f64,
    /// Virtual time from the begin of the first measured pass to the end of the last. Before [`SCHEMA`] not all of it: [`OLD`].
    pub time_ns: u64,
    /// Time with unlimited memory.
    #[serde(default)]
    pub ideal_ns: Option<u64>,
    /// Bytes from the host.
    pub h2d_bytes: u64,
    /// Bytes to the host.
    pub d2h_bytes: u64,
    /// Bytes to and from other GPUs.
    pub p2p_bytes: u64,
    /// Bytes, in and out, that Belady's MIN moves on the same trace ([`crate::replay`]).
    #[serde(default)]
    pub belady_bytes: Option<u64>,
    /// Faults of the GPU.
    pub faults: u64,
    /// Instructions of the driver.
    #[serde(default)]
    pub driver_insns: Option<u64>,
    /// Time that the bytes need on the busiest link over the time taken.
    #[serde(default)]
    pub link_efficiency: Option<f64>,
    /// Whatever else the experiment wrote.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Fields beyond the common ones that tell rows of one case apart.
const TELLING: [&str; 6] = [
    "gpus",
    "lenders",
    "spare_ratio",
    "passes",
    "bytes",
    "memory_bytes",
];

impl Row {
    /// A number that only some experiments write.
    pub fn number(&self, field: &str) -> Option<f64> {
        self.more.get(field).and_then(Value::as_f64)
    }

    /// A count that only some experiments write.
    pub fn count(&self, field: &str) -> Option<u64> {
        self.more.get(field).and_then(Value::as_u64)
    }

    /// What the row is of, whatever it measured.
    pub fn key(&self) -> Key {
        let telling = TELLING.iter().filter_map(|f| Some((*f, self.number(f)?)));
        Key {
            experiment: self.experiment.clone(),
            case: self.case.clone(),
            workload: self.workload.clone(),
            preset: self.preset.clone(),
            gpu: self.gpu,
            role: self.role.clone(),
            ratio: short(self.ratio),
            telling: telling.map(|(f, n)| (f.to_owned(), short(n))).collect(),
            nth: 0,
        }
    }

    /// What is wrong with it, if it is no result; `most`: what a link may seem to have carried of what it can.
    fn check(&self, most: f64) -> std::result::Result<(), String> {
        let inside = |what: &str, n: f64, most: f64| match n >= 0.0 && n <= most {
            true => Ok(()),
            false => Err(format!("{what} is {n}")),
        };
        inside("ratio", self.ratio, 1e6)?;
        inside("link_efficiency", self.link_efficiency.unwrap_or(0.0), most)?;
        if self.time_ns == 0 {
            return Err("time_ns is 0".into());
        }
        match self.more.get("mismatches").and_then(Value::as_u64) {
            Some(n) if n != 0 => Err(format!("{n} elements had a wrong value: this is no result")),
            _ => Ok(()),
        }
    }
}

/// A number as keys hold it: without digits that mean nothing.
fn short(n: f64) -> String {
    let text = format!("{n:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The same for people: bytes in their unit.
pub(crate) fn told(field: &str, value: &str) -> String {
    let bytes = (field == "bytes" || field.ends_with("_bytes")).then(|| value.parse().ok());
    bytes.flatten().map_or(value.to_owned(), units::bytes)
}

/// What a row is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[allow(missing_docs)]
pub struct Key {
    pub experiment: String,
    pub case: String,
    pub workload: String,
    pub preset: String,
    pub gpu: u32,
    pub role: String,
    pub ratio: String,
    #[serde(flatten)]
    pub telling: BTreeMap<String, String>,
    /// Of rows that are of the same, the number.
    #[serde(skip)]
    pub nth: u32,
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.experiment)?;
        for part in [&self.case, &self.workload, &self.preset, &self.role] {
            if !part.is_empty() {
                write!(f, " {part}")?;
            }
        }
        write!(f, " gpu {} ratio {}", self.gpu, self.ratio)?;
        for (name, value) in &self.telling {
            write!(f, " {name} {}", told(name, value))?;
        }
        Ok(())
    }
}

/// Schema of a [`Meta`]. The number rises when a key changes meaning.
pub const SCHEMA: &str = "huvm.results/3";

/// A schema of rows that are kept, and not made any more.
pub struct Old {
    /// Its name.
    pub schema: &'static str,
    /// What its times leave out.
    pub lacks: &'static str,
    /// As [`LINK`]: bytes were counted in all of the time.
    link: f64,
}

/// Those before [`SCHEMA`].
pub const OLD: [Old; 2] = [
    Old {
        schema: "huvm.results/1",
        lacks: "what passes between launches",
        link: 1.5,
    },
    Old {
        schema: "huvm.results/2",
        lacks: "what passes between passes",
        link: LINK,
    },
];

/// Which one before [`SCHEMA`] it is.
fn old(schema: &str) -> Option<&'static Old> {
    OLD.iter().find(|o| o.schema == schema)
}

/// No link carries more than it can; a little above 1 where the time was taken a moment earlier than the bytes.
const LINK: f64 = 1.005;

/// What the rows of a file are of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// [`SCHEMA`] or one of [`OLD`].
    pub schema: String,
    /// The experiment.
    pub experiment: String,
    /// Commit of the checkout.
    #[serde(default)]
    pub commit: Option<String>,
    /// Whether files differed from the commit.
    #[serde(default)]
    pub dirty: Option<bool>,
    /// Versions of driver, tool, compiler, QEMU, kernel.
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    /// The machine: GPUs, memory, profile.
    #[serde(default)]
    pub configuration: BTreeMap<String, Value>,
    /// Seed of what is random.
    #[serde(default)]
    pub seed: Option<u64>,
    /// What the run complained about. Such a run has no result.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// The results of one experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct File {
    /// The file's name without its end.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// At least one row.
    pub rows: Vec<Row>,
    /// What stands beside it.
    pub meta: Option<Meta>,
    /// The targets as the bench judged them.
    pub targets: Option<String>,
    /// What was recorded of its jobs: `NAME-WHAT.jsonl.gz` without its end, in order. Pictures have these names.
    pub recordings: Vec<String>,
}

impl File {
    /// Rows with their keys. Rows that are of the same are numbered.
    pub fn keyed(&self) -> Vec<(Key, &Row)> {
        let mut seen: BTreeMap<Key, u32> = BTreeMap::new();
        let mut number = |row: &Row| {
            let mut key = row.key();
            let n = seen.entry(key.clone()).or_default();
            key.nth = *n;
            *n += 1;
            key
        };
        self.rows.iter().map(|r| (number(r), r)).collect()
    }

    /// The commit, in short.
    pub fn commit(&self) -> Option<String> {
        let meta = self.meta.as_ref()?;
        let commit: String = meta.commit.as_ref()?.chars().take(12).collect();
        let more = if meta.dirty == Some(true) { "+" } else { "" };
        Some(commit + more)
    }
}

fn beside(path: &Path, name: &str, end: &str) -> PathBuf {
    path.with_file_name(format!("{name}.{end}"))
}

fn text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|e| Failure::file(path, e))
}

/// Reads one file of results, with what stands beside it.
///
/// # Errors
/// The file, the row and the reason.
pub fn read_file(path: &Path) -> Result<File> {
    let name = path.file_stem().unwrap_or_default();
    let name = name.to_string_lossy().into_owned();
    let meta = beside(path, &name, "meta.json");
    let meta = meta.exists().then(|| read_meta(&meta)).transpose()?;
    let old = meta.as_ref().and_then(|m| old(&m.schema));
    let most = old.map_or(LINK, |o| o.link);
    let rows = checked(&text(path)?, most);
    let mut rows = rows.map_err(|e| Failure::file(path, e))?;
    for row in rows.iter_mut().filter(|r| r.experiment.is_empty()) {
        row.experiment.clone_from(&name);
    }
    let targets = beside(path, &name, "targets.txt");
    let targets = targets.exists().then(|| text(&targets)).transpose()?;
    Ok(File {
        recordings: recordings(path, &name)?,
        name,
        path: path.to_owned(),
        rows,
        meta,
        targets,
    })
}

/// Recordings beside a file of results.
fn recordings(path: &Path, name: &str) -> Result<Vec<String>> {
    let dir = path.parent().filter(|d| !d.as_os_str().is_empty());
    let dir = dir.unwrap_or(Path::new("."));
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(|e| Failure::file(dir, e))? {
        let file = entry.map_err(|e| Failure::file(dir, e))?.file_name();
        let file = file.to_string_lossy();
        let of = file.strip_suffix(RECORDED).filter(|stem| {
            let rest = stem.strip_prefix(name);
            rest.is_some_and(|r| r.starts_with('-'))
        });
        all.extend(of.map(str::to_owned));
    }
    all.sort();
    Ok(all)
}

/// The rows in a file's text.
///
/// # Errors
/// What is wrong with it, and with which row.
pub fn parse(text: &str) -> std::result::Result<Vec<Row>, String> {
    checked(text, LINK)
}

fn checked(text: &str, most: f64) -> std::result::Result<Vec<Row>, String> {
    let value: Value = serde_json::from_str(text).map_err(|e| format!("no JSON: {e}"))?;
    let Value::Array(list) = value else {
        return Err("results are an array of rows, this is something else".into());
    };
    if list.is_empty() {
        return Err("no rows".into());
    }
    let row = |(n, value): (usize, Value)| {
        let row: Row = serde_json::from_value(value).map_err(|e| format!("row {n}: {e}"))?;
        row.check(most).map_err(|e| format!("row {n}: {e}"))?;
        Ok(row)
    };
    (1..).zip(list).map(row).collect()
}

fn read_meta(path: &Path) -> Result<Meta> {
    parse_meta(&text(path)?).map_err(|e| Failure::file(path, e))
}

/// What stands beside a file of results.
///
/// # Errors
/// What is wrong with it.
pub fn parse_meta(text: &str) -> std::result::Result<Meta, String> {
    let meta: Meta = serde_json::from_str(text).map_err(|e| e.to_string())?;
    if meta.schema != SCHEMA && old(&meta.schema).is_none() {
        let known: Vec<&str> = OLD.iter().map(|o| o.schema).collect();
        return Err(format!(
            "schema '{}'; this tool knows {} and {SCHEMA}",
            meta.schema,
            known.join(", ")
        ));
    }
    match meta.warnings.first() {
        Some(first) => Err(format!(
            "the run complained, so there is no result: {first}"
        )),
        None => Ok(meta),
    }
}

/// End of a recording's name.
const RECORDED: &str = ".jsonl.gz";

/// Reads a file of results, or all that a folder has, in order of their names.
///
/// # Errors
/// As [`read_file`]; a folder without results.
pub fn read(path: &Path) -> Result<Vec<File>> {
    if !path.is_dir() {
        return Ok(vec![read_file(path)?]);
    }
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(path).map_err(|e| Failure::file(path, e))? {
        let entry = entry.map_err(|e| Failure::file(path, e))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.ends_with(".json") && !name.ends_with(".meta.json") {
            paths.push(entry.path());
        }
    }
    paths.sort();
    if paths.is_empty() {
        return Err(Failure::file(
            path,
            "no results here; 'make bench EXP=NAME' makes build/results/NAME.json",
        ));
    }
    paths.iter().map(|p| read_file(p)).collect()
}
