// SPDX-License-Identifier: GPL-2.0
//! `stat --latency`: how long copies, reclaims and faults took.

use super::gpu::Named;
use super::stat::{self, framed, Readings, Scoped};
use crate::cli::Stat;
use crate::exit::Result;
use crate::out::Out;
use crate::row::{extra, field, Cell, Field, Row};
use crate::units;
use libhuvm::{uapi, Device, Scope};
use serde::{Deserialize, Serialize};

/// Words of `enum huvm_latency_kind`, in its order.
const KINDS: [&str; uapi::HUVM_LATENCY_COUNT as usize] = [
    "host-to-gpu",
    "gpu-to-host",
    "peer-out",
    "peer-in",
    "local",
    "write-back",
    "reclaim",
    "fault",
];

/// The word for a kind.
pub(super) fn kind(k: u64) -> &'static str {
    let at = usize::try_from(k).ok();
    at.and_then(|at| KINDS.get(at)).copied().unwrap_or("other")
}

/// A bucket that is not empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Bucket {
    /// Its shortest...
    from_ns: u64,
    /// ...and what is longer than its longest; `null` for the last one, which has no end.
    below_ns: Option<u64>,
    count: u64,
}

/// A histogram.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Path {
    scope: String,
    /// Both are the sample's; its rows have them too.
    #[serde(skip)]
    time_ns: u64,
    #[serde(skip)]
    interval_ns: Option<u64>,
    path: String,
    count: u64,
    mean_ns: Option<u64>,
    /// Percentiles are the ends of their buckets, so at most twice what they stand for.
    p50_ns: Option<u64>,
    p90_ns: Option<u64>,
    p99_ns: Option<u64>,
    /// The longest since the module was loaded; unknown of an interval.
    max_ns: Option<u64>,
    buckets: Vec<Bucket>,
}

impl Row for Path {
    fn fields(&self) -> Vec<Field> {
        let nanos = |n: Option<u64>| n.map_or(Cell::None, Cell::Nanos);
        vec![
            extra("scope", Cell::text(&self.scope)),
            extra("time_ns", Cell::Count(self.time_ns)),
            extra(
                "interval_ns",
                self.interval_ns.map_or(Cell::None, Cell::Count),
            ),
            field("path", "PATH", Cell::text(&self.path)),
            field("count", "COUNT", Cell::Count(self.count)),
            field("mean_ns", "MEAN", nanos(self.mean_ns)),
            field("p50_ns", "P50", nanos(self.p50_ns)),
            field("p90_ns", "P90", nanos(self.p90_ns)),
            field("p99_ns", "P99", nanos(self.p99_ns)),
            field("max_ns", "MAX", nanos(self.max_ns)),
        ]
    }
}

/// The histograms of a scope.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Sample {
    scope: String,
    time_ns: u64,
    /// Since the reading before; without one they count from the start.
    interval_ns: Option<u64>,
    paths: Vec<Path>,
}

impl Scoped for Sample {
    fn scope(&self) -> &str {
        &self.scope
    }
}

/// End of bucket `i`; the last has none.
fn end(i: usize) -> Option<u64> {
    let next = u32::try_from(i).ok()?.checked_add(1)?;
    (next < uapi::HUVM_LATENCY_BUCKETS).then(|| 1 << next)
}

/// Where bucket `i` begins.
fn start(i: usize) -> u64 {
    match u32::try_from(i) {
        Ok(i) if i != 0 => 1u64.checked_shl(i).unwrap_or(u64::MAX),
        _ => 0,
    }
}

/// What `now` has more than `before`; nothing, where that is less, as a GPU was bound again.
fn path(
    scope: &str,
    now: &uapi::huvm_latency,
    before: Option<&uapi::huvm_latency>,
    name: &str,
) -> Path {
    let mut counts = now.buckets;
    let mut sum = now.sum_ns;
    if let Some(b) = before {
        for (n, old) in counts.iter_mut().zip(b.buckets) {
            *n = n.saturating_sub(old);
        }
        sum = sum.saturating_sub(b.sum_ns);
    }
    let count = counts.iter().copied().fold(0, u64::saturating_add);
    // No bucket ends later than the longest of all.
    let percentile = |percent: u64| {
        let rank = count.saturating_mul(percent).div_ceil(100).max(1);
        let mut seen = 0u64;
        counts.iter().enumerate().find_map(|(i, n)| {
            seen = seen.saturating_add(*n);
            (seen >= rank).then(|| end(i).map_or(now.max_ns, |e| (e - 1).min(now.max_ns)))
        })
    };
    let some = count != 0;
    Path {
        scope: scope.into(),
        path: name.into(),
        count,
        mean_ns: sum.checked_div(count),
        p50_ns: some.then(|| percentile(50)).flatten(),
        p90_ns: some.then(|| percentile(90)).flatten(),
        p99_ns: some.then(|| percentile(99)).flatten(),
        max_ns: (some && before.is_none()).then_some(now.max_ns),
        buckets: counts
            .iter()
            .enumerate()
            .filter(|(_, n)| **n != 0)
            .map(|(i, n)| Bucket {
                from_ns: start(i),
                below_ns: end(i),
                count: *n,
            })
            .collect(),
        ..Path::default()
    }
}

/// What a scope had at a reading: its histograms, in the order of [`KINDS`].
type Reading = Vec<uapi::huvm_latency>;

fn read(device: &Device, scope: Scope) -> Result<Reading> {
    let kinds = 0..uapi::HUVM_LATENCY_COUNT;
    Ok(kinds
        .map(|kind| device.latency(scope, kind))
        .collect::<libhuvm::Result<_>>()?)
}

fn sample(scope: &str, now: &Reading, before: Option<&Reading>) -> Sample {
    let time = |r: &Reading| r.first().map_or(0, |l| l.time_ns);
    Sample {
        scope: scope.into(),
        time_ns: time(now),
        interval_ns: before.map(|b| time(now).saturating_sub(time(b))),
        paths: now
            .iter()
            .zip(KINDS)
            .enumerate()
            .map(|(i, (l, name))| path(scope, l, before.and_then(|b| b.get(i)), name))
            .collect(),
    }
}

/// Widest bar of a histogram.
const BAR: u64 = 40;

/// The buckets of a path as bars.
fn bars(p: &Path) -> String {
    let most = p.buckets.iter().map(|b| b.count).max().unwrap_or(1).max(1);
    let mut text = format!("\n{}\n", p.path);
    for b in &p.buckets {
        let below = b
            .below_ns
            .map_or_else(|| "longer".into(), |n| format!("below {}", units::time(n)));
        // Not nothing, where there is something.
        let len = b.count.saturating_mul(BAR).div_ceil(most);
        let bar = "#".repeat(usize::try_from(len).unwrap_or(0));
        text.push_str(&format!("  {below:<16}{:>10}  {bar}\n", b.count));
    }
    text
}

fn print(out: &Out, s: &Stat, shown: &Sample, several: bool) -> Result<()> {
    let rows: Vec<Path> = shown
        .paths
        .iter()
        .filter(|p| s.all || p.count != 0)
        .map(|p| Path {
            time_ns: shown.time_ns,
            interval_ns: shown.interval_ns,
            ..p.clone()
        })
        .collect();
    let human = || {
        let mut text = String::new();
        if rows.is_empty() {
            text.push_str("nothing took time yet\n");
        } else {
            text.push_str(&out.render(&rows));
            if out.verbose {
                text.extend(rows.iter().map(bars));
            }
        }
        framed(&shown.scope, shown.interval_ns, several, text)
    };
    if several {
        out.stream("stat.latency", shown, &rows, human)
    } else {
        out.show("stat.latency", shown, &rows, human)
    }
}

/// Saved samples.
pub(super) fn replay(out: &Out, s: &Stat, most: usize) -> Result<bool> {
    stat::replay(out, "stat.latency", s, most, |one, several| {
        print(out, s, one, several)
    })
}

/// Prints what the scopes have, and what was added since the turn before; `before` becomes this turn.
pub(super) fn turn(
    out: &Out,
    s: &Stat,
    device: &Device,
    scopes: &[Named],
    before: &mut Readings<Vec<uapi::huvm_latency>>,
    several: bool,
) -> Result<()> {
    *before = stat::readings(
        s,
        scopes,
        |scope| read(device, scope),
        |name, now| print(out, s, &sample(name, now, before.get(name)), several),
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(buckets: &[(usize, u64)], sum_ns: u64, max_ns: u64) -> uapi::huvm_latency {
        let mut l = uapi::huvm_latency {
            sum_ns,
            max_ns,
            ..Default::default()
        };
        for (i, n) in buckets {
            l.buckets[*i] = *n;
            l.count += n;
        }
        l
    }

    #[test]
    fn percentiles_are_the_ends_of_their_buckets() {
        // 98 of 64 to 127 ns, one of 1024 to 2047, one of 4096 and more.
        let l = of(&[(6, 98), (10, 1), (12, 1)], 20_000, 5000);
        let p = path("global", &l, None, "reclaim");
        assert_eq!((p.count, p.mean_ns), (100, Some(200)));
        assert_eq!((p.p50_ns, p.p90_ns), (Some(127), Some(127)));
        // The 99th is the one in the middle; nothing is longer than the longest.
        assert_eq!((p.p99_ns, p.max_ns), (Some(2047), Some(5000)));
        let one = path("global", &of(&[(12, 1)], 5000, 5000), None, "fault");
        assert_eq!((one.p50_ns, one.p99_ns), (Some(5000), Some(5000)));
        assert_eq!(path("global", &of(&[], 0, 0), None, "x").p50_ns, None);
    }

    #[test]
    fn an_interval_has_what_was_added() {
        let before = of(&[(6, 98), (10, 1)], 8_000, 1500);
        let now = of(&[(6, 100), (10, 1)], 8_200, 1500);
        let p = path("gpu1", &now, Some(&before), "peer-in");
        assert_eq!((p.count, p.mean_ns, p.p50_ns), (2, Some(100), Some(127)));
        assert_eq!(p.max_ns, None);
        assert_eq!(p.buckets.len(), 1);
    }

    #[test]
    fn the_last_bucket_has_no_end() {
        let l = of(&[(31, 1)], 1 << 40, 1 << 40);
        let p = path("global", &l, None, "fault");
        assert_eq!(p.buckets[0].below_ns, None);
        assert_eq!(p.p50_ns, Some(1 << 40));
        assert_eq!((start(0), end(0)), (0, Some(2)));
        assert_eq!((start(1), end(1)), (2, Some(4)));
    }

    #[test]
    fn bars_show_every_bucket() {
        let l = of(&[(6, 1000), (20, 1)], 0, 1 << 20);
        let text = bars(&path("global", &l, None, "fault"));
        assert!(
            text.contains(&"#".repeat(40)) && text.trim_end().ends_with("  #"),
            "{text}"
        );
    }
}
