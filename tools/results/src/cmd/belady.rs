// SPDX-License-Identifier: GPL-2.0
//! `belady`.

use crate::cli::Belady;
use huvm_results::failure::{Failure, Result};
use huvm_results::replay::{by_name, replay, Act, Trace, Traffic, POLICIES};
use huvm_results::table::Table;
use huvm_results::units;
use huvm_workloads::{catalog, Ask};
use serde::Serialize;

/// A row: what one policy would have moved.
#[derive(Serialize)]
struct Line {
    workload: String,
    policy: &'static str,
    footprint_bytes: u64,
    memory_bytes: u64,
    chunk_bytes: u64,
    passes: u32,
    warmup: u32,
    seed: u64,
    #[serde(flatten)]
    traffic: Traffic,
}

pub(super) fn run(args: &Belady) -> Result<String> {
    let policies = chosen(&args.policies)?;
    let bytes = match (args.bytes, args.ratio) {
        (Some(bytes), _) => bytes,
        (None, Some(r)) if r > 0.0 && r <= 64.0 => (args.memory as f64 * r) as u64,
        _ => return usage("a ratio must be above 0 and at most 64"),
    };
    let chunk = args.chunk.max(1);
    // CAST: saturates, and a memory larger than all chunks is as good as one that holds all.
    let room = usize::try_from(args.memory / chunk).unwrap_or(usize::MAX);
    if room == 0 {
        return usage("the memory is smaller than a chunk");
    }
    let trace = trace(args, bytes)?;
    // CAST: passes are counted in 32 bits.
    let passes = trace.passes() as u32;
    if args.warmup >= passes {
        return usage(&format!(
            "of {passes} passes at most {} can be warm-up",
            passes.saturating_sub(1)
        ));
    }
    let lines = policies.into_iter().filter_map(|policy| {
        let mut p = by_name(policy, args.seed)?;
        Some(Line {
            workload: args.workload.clone(),
            policy,
            footprint_bytes: trace.footprint(),
            memory_bytes: args.memory,
            chunk_bytes: chunk,
            passes,
            warmup: args.warmup,
            seed: args.seed,
            traffic: replay(&trace, room, p.as_mut(), args.warmup),
        })
    });
    let lines: Vec<Line> = lines.collect();
    if args.json {
        return super::json(&lines);
    }
    Ok(paint(&lines))
}

fn usage<T>(text: &str) -> Result<T> {
    Err(Failure::Usage(text.to_owned()))
}

/// The policies of these names, each once, in the order of [`POLICIES`].
fn chosen(names: &[String]) -> Result<Vec<&'static str>> {
    let known = || POLICIES.iter().map(|(n, ..)| *n);
    if let Some(bad) = names
        .iter()
        .find(|n| *n != "all" && known().all(|k| k != **n))
    {
        let known: Vec<&str> = known().collect();
        return usage(&format!(
            "there is no policy '{bad}'; there are: all, {}",
            known.join(", ")
        ));
    }
    let wanted = |name: &&str| names.iter().any(|n| n == "all" || n == name);
    Ok(known().filter(wanted).collect())
}

fn trace(args: &Belady, bytes: u64) -> Result<Trace> {
    if args.workload == "cycle" {
        let chunk = args.chunk.max(4096);
        let chunks = u32::try_from(bytes.div_ceil(chunk)).unwrap_or(u32::MAX);
        let passes = args.passes.unwrap_or(12);
        if u64::from(chunks) * u64::from(passes) > 1 << 28 {
            return usage("the trace is too long; ask for fewer passes or fewer bytes");
        }
        return Ok(Trace::cycle(chunks, chunk, passes, Act::Write));
    }
    let Some(entry) = catalog::find(&args.workload) else {
        let names: Vec<&str> = catalog::CATALOG.iter().map(|e| e.name).collect();
        return usage(&format!(
            "there is no workload '{}'; there are: cycle, {}",
            args.workload,
            names.join(", ")
        ));
    };
    let ask = Ask {
        bytes,
        full: args.full,
        seed: args.seed,
        passes: args.passes,
    };
    let workload = entry
        .make(&ask)
        .map_err(|e| Failure::Usage(e.to_string()))?;
    Trace::of(&workload, args.chunk)
}

fn paint(lines: &[Line]) -> String {
    let head = [
        "policy",
        "in",
        "out",
        "in+out",
        "per byte",
        "touches",
        "misses",
        "zero fills",
        "evictions",
    ];
    let mut table = Table::new(1, &head);
    for l in lines {
        let t = &l.traffic;
        let share = t.bytes() as f64 / l.footprint_bytes.max(1) as f64;
        table.row([
            l.policy.to_owned(),
            units::bytes(t.in_bytes),
            units::bytes(t.out_bytes),
            units::bytes(t.bytes()),
            format!("{share:.2}"),
            t.touches.to_string(),
            t.misses.to_string(),
            t.zero_fills.to_string(),
            t.evictions.to_string(),
        ]);
    }
    let about = lines.first().map_or(String::new(), |l| {
        format!(
            "{}: {} in chunks of {}, memory of {}, {} passes, the first {} not counted, seed {}\n\n",
            l.workload,
            units::bytes(l.footprint_bytes),
            units::bytes(l.chunk_bytes),
            units::bytes(l.memory_bytes),
            l.passes,
            l.warmup,
            l.seed
        )
    });
    about + &table.text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Verb};
    use clap::Parser;

    fn ask(line: &str) -> Result<String> {
        let args = ["huvm-results"].into_iter().chain(line.split(' '));
        match Cli::try_parse_from(args) {
            Ok(Cli {
                verb: Verb::Belady(a),
            }) => run(&a),
            _ => panic!("{line}"),
        }
    }

    /// Catches a column that moved, and a policy that is left out.
    #[test]
    fn all_policies_are_told() {
        let text = ask("belady --workload cycle --ratio 1.5 --memory 32M --passes 3 --policy all")
            .unwrap();
        let firsts: Vec<&str> = text
            .lines()
            .filter_map(|l| l.split_whitespace().next())
            .collect();
        assert_eq!(
            firsts,
            ["cycle:", "POLICY", "min", "lru", "lrm", "random", "bip"]
        );
        let lru = text.lines().find(|l| l.starts_with("lru")).unwrap();
        // 24 chunks through 16: 72 misses, 56 of them with an eviction.
        assert!(lru.contains("144.0 MiB  112.0 MiB  256.0 MiB"), "{lru}");
    }

    #[test]
    fn bad_questions_are_refused() {
        for line in [
            "belady --workload nonsense --bytes 8M --memory 4M",
            "belady --workload cycle --bytes 8M --memory 1M",
            "belady --workload cycle --bytes 8M --memory 4M --policy best",
            "belady --workload cycle --bytes 8M --memory 4M --passes 2 --warmup 2",
            "belady --workload cycle --ratio NaN --memory 4M",
            "belady --workload vgg16 --bytes 1M --memory 4M",
            "belady --workload vgg16 --bytes 8M --memory 4M --chunk 1000",
            "belady --workload vgg16 --bytes 8M --memory 4M --chunk 0",
            "belady --workload cycle --bytes 1024T --memory 4M --chunk 1",
        ] {
            assert!(matches!(ask(line), Err(Failure::Usage(_))), "{line}");
        }
    }
}
