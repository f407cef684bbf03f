// SPDX-License-Identifier: GPL-2.0
//! `stat`: counters, or what was added to them since.

use super::counters::NAMES;
use super::gpu::Named;
use super::{gpu, latency};
use crate::cli::Stat;
use crate::exit::{Failure, Result};
use crate::out::Out;
use crate::row::{extra, field, Cell, Field, Row};
use crate::units;
use libhuvm::device::Counters;
use libhuvm::Scope;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// A reading of a scope's counters. As a row it is one line with a column per counter; for people, a list.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Sample {
    scope: String,
    time_ns: u64,
    /// Since the reading before; without one the counters are totals.
    interval_ns: Option<u64>,
    counters: BTreeMap<String, u64>,
}

impl Row for Sample {
    fn fields(&self) -> Vec<Field> {
        let mut all = vec![
            extra("scope", Cell::text(&self.scope)),
            extra("time_ns", Cell::Count(self.time_ns)),
            extra(
                "interval_ns",
                self.interval_ns.map_or(Cell::None, Cell::Count),
            ),
        ];
        all.extend(NAMES.iter().map(|name| {
            let cell = self.counters.get(*name);
            extra(name, cell.map_or(Cell::None, |v| value(name, *v)))
        }));
        all
    }
}

/// A counter, as its name says; times stay in the unit of the name.
fn value(name: &str, v: u64) -> Cell {
    if name.starts_with("bytes") || name.ends_with("bytes") {
        Cell::Bytes(v)
    } else {
        Cell::Count(v)
    }
}

/// A line of the list: of totals, or of what was added.
#[derive(Default)]
struct Line<const ADDED: bool> {
    name: String,
    cell: Option<Cell>,
}

impl<const ADDED: bool> Row for Line<ADDED> {
    fn fields(&self) -> Vec<Field> {
        let title = if ADDED { "ADDED" } else { "TOTAL" };
        let cell = self.cell.clone().unwrap_or(Cell::None);
        vec![
            field("counter", "COUNTER", Cell::text(&self.name)),
            field("value", title, cell),
        ]
    }
}

/// The list of a sample's counters; those that are zero only with `all`.
fn list<const ADDED: bool>(out: &Out, shown: &Sample, all: bool) -> String {
    let lines: Vec<Line<ADDED>> = NAMES
        .iter()
        .filter_map(|n| Some((n, *shown.counters.get(*n)?)))
        .filter(|(_, v)| all || *v != 0)
        .map(|(n, v)| Line {
            name: (*n).into(),
            cell: Some(value(n, v)),
        })
        .collect();
    out.render(&lines)
}

fn sample(scope: &str, now: &Counters, before: Option<&Counters>) -> Sample {
    let added = before.map_or_else(|| now.clone(), |b| now.since(b));
    let names = NAMES.iter().map(|n| (*n).to_owned());
    Sample {
        scope: scope.into(),
        time_ns: now.time_ns,
        interval_ns: before.map(|_| added.time_ns),
        counters: names.zip(added.values).collect(),
    }
}

/// A sample's text. Of several, each has a line above that says of what and over how long, and an empty one below.
pub(super) fn framed(scope: &str, interval_ns: Option<u64>, several: bool, body: String) -> String {
    if !several {
        return body;
    }
    let over = interval_ns.map_or_else(String::new, |ns| format!(", over {}", units::time(ns)));
    format!("{scope}{over}\n{body}\n")
}

/// A sample that is saved.
pub(super) trait Scoped {
    /// Of what it is.
    fn scope(&self) -> &str;
}

impl Scoped for Sample {
    fn scope(&self) -> &str {
        &self.scope
    }
}

/// Prints the saved samples that are chosen, so many at most; `false` if none are to be read. `print` is told whether there are several.
pub(super) fn replay<S: DeserializeOwned + Scoped>(
    out: &Out,
    schema: &str,
    s: &Stat,
    most: usize,
    print: impl Fn(&S, bool) -> Result<()>,
) -> Result<bool> {
    let Some(mut all) = out.saved::<S>(schema)? else {
        return Ok(false);
    };
    let has = all.iter().map(|one| one.model.scope().to_owned()).collect();
    let wanted = gpu::saved(s.gpu.as_deref(), s.pid, &has)?;
    all.retain(|one| wanted.contains(one.model.scope()));
    let several = all.len() > 1;
    for one in all.into_iter().take(most) {
        print(&out.adopt(one), several)?;
    }
    Ok(true)
}

/// `several`: of more than one scope, or again and again.
fn print(out: &Out, s: &Stat, shown: &Sample, several: bool) -> Result<()> {
    let human = || {
        let list = match shown.interval_ns {
            Some(_) => list::<true>(out, shown, s.all),
            None => list::<false>(out, shown, s.all),
        };
        framed(&shown.scope, shown.interval_ns, several, list)
    };
    let rows = std::slice::from_ref(shown);
    if several {
        out.stream("stat", shown, rows, human)
    } else {
        out.show("stat", shown, rows, human)
    }
}

/// What `--gpu` takes for every GPU that there is, turn by turn.
const ALL: &str = "all";

/// Readings by the names of their scopes.
pub(super) type Readings<T> = BTreeMap<String, T>;

/// Reads each scope and tells of it. Of all GPUs one may leave meanwhile; one that was named may not.
pub(super) fn readings<T>(
    s: &Stat,
    scopes: &[Named],
    read: impl Fn(Scope) -> Result<T>,
    tell: impl Fn(&str, &T) -> Result<()>,
) -> Result<Readings<T>> {
    let all = s.gpu.as_deref() == Some(ALL);
    let mut now = BTreeMap::new();
    for (scope, name) in scopes {
        let reading = match read(*scope) {
            Err(Failure::Huvm(e)) if e.gpu_gone() && all => continue,
            did => did?,
        };
        tell(name, &reading)?;
        now.insert(name.clone(), reading);
    }
    Ok(now)
}

pub(super) fn run(out: &Out, s: &Stat) -> Result<()> {
    let pause = match s.r#loop {
        Some(p) if !(0.01..=86400.0).contains(&p) => {
            return Err(Failure::Usage(format!(
                "{p} s is no interval: 0.01 to 86400"
            )))
        }
        other => other.or(s.count.map(|_| 1.0)).map(Duration::from_secs_f64),
    };
    let count = s.count.unwrap_or(u64::MAX);
    let most = usize::try_from(count).unwrap_or(usize::MAX);
    let replayed = if s.latency {
        latency::replay(out, s, most)?
    } else {
        replay(out, "stat", s, most, |one, several| {
            print(out, s, one, several)
        })?
    };
    if replayed {
        return Ok(());
    }
    let device = out.device()?;
    let scopes = match s.pid {
        Some(pid) => vec![gpu::of_process(pid)],
        None => gpu::scopes(&device, s.gpu.as_deref())?,
    };
    let several = pause.is_some() || scopes.len() > 1;
    let mut before: Readings<Counters> = BTreeMap::new();
    let mut before_latency = BTreeMap::new();
    for turn in 0..count {
        let scopes = match s.gpu.as_deref() {
            // Later they may all have left, and come again.
            Some(ALL) if turn != 0 => gpu::every(&device)?,
            _ => scopes.clone(),
        };
        if s.latency {
            latency::turn(out, s, &device, &scopes, &mut before_latency, several)?;
        } else {
            let read = |scope| Ok(device.counters(scope)?);
            before = readings(s, &scopes, read, |name, now| {
                print(out, s, &sample(name, now, before.get(name)), several)
            })?;
        }
        let Some(pause) = pause else {
            break;
        };
        if turn.saturating_add(1) < count {
            std::thread::sleep(pause);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_what_was_added() {
        let c = |time_ns, values: &[u64]| Counters {
            values: values.to_vec(),
            time_ns,
        };
        let s = sample("global", &c(50, &[7, 9]), Some(&c(20, &[5, 9])));
        assert_eq!((s.interval_ns, s.time_ns), (Some(30), 50));
        assert_eq!(s.counters.get("fault_batches"), Some(&2));
        assert_eq!(s.counters.get("faults"), Some(&0));
        // A driver that knows fewer counters.
        assert_eq!(s.counters.len(), 2);
        assert_eq!(sample("gpu0", &c(50, &[7]), None).interval_ns, None);
    }
}
