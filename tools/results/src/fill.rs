// SPDX-License-Identifier: GPL-2.0
//! Belady's bytes for rows that have none: computed offline, from what the row says it ran.

use crate::failure::{Failure, Result};
use crate::replay::{policy::Min, replay, Act, Trace};
use crate::rows::{File, Row};
use crate::units::CHUNK;
use huvm_workloads::{catalog, Ask};
use std::collections::BTreeMap;

/// Passes before the measured ones, where a row does not say: `uvmctl run`'s and `bench`'s.
const WARMUP: u64 = 1;
/// Experiments whose jobs are recorded first repeat so many passes (`uvmctl`'s tapes).
const PERIOD: u32 = 2;

/// What decides a trace and a memory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ran {
    workload: String,
    bytes: u64,
    /// What these stand for; older rows stand for themselves.
    full: Option<u64>,
    seed: u64,
    warmup: u32,
    passes: u32,
    /// Chunks.
    room: usize,
    /// It repeats its first passes.
    repeats: bool,
}

/// What a row ran, if it can be known. An owner's memory is lent in part, so its room is not.
fn ran(file: &File, row: &Row) -> Option<Ran> {
    let bytes = row.count("bytes").filter(|b| *b != 0)?;
    let passes = u32::try_from(row.count("passes")?).ok()?;
    if row.role == "owner" || passes == 0 || row.ratio <= 0.0 {
        return None;
    }
    let meta = file.meta.as_ref();
    let vram = meta.and_then(|m| m.configuration.get("vram_mib")?.as_u64());
    let vram = vram.and_then(|mib| mib.checked_mul(1 << 20));
    let memory = memory(row, bytes, vram);
    Some(Ran {
        workload: row.workload.clone(),
        bytes,
        full: row.count("full_bytes"),
        seed: row
            .count("seed")
            .or_else(|| meta.and_then(|m| m.seed))
            .unwrap_or(1),
        warmup: u32::try_from(row.count("warmup").unwrap_or(WARMUP)).ok()?,
        passes,
        room: usize::try_from(memory / CHUNK).ok()?,
        repeats: row.count("passes_made").is_some(),
    })
}

/// The memory that a row's job had: what the row says; else what its ratio says, which some experiments make smaller than the GPU's;
/// else, where the two differ by no more than what the driver keeps for itself, all of it.
fn memory(row: &Row, bytes: u64, vram: Option<u64>) -> u64 {
    if let Some(said) = row.count("memory_bytes") {
        return said;
    }
    // A part of a chunk is a whole one, as where `uvmctl` made it small. CAST: saturates.
    let by_ratio = (bytes as f64 / row.ratio).round() as u64;
    let by_ratio = by_ratio.div_ceil(CHUNK).saturating_mul(CHUNK);
    match vram {
        Some(all) if by_ratio.saturating_mul(4) >= all.saturating_mul(3) => all,
        _ => by_ratio,
    }
}

/// Bytes in and out under MIN. `None`: nobody knows that workload.
fn belady(r: &Ran) -> Result<Option<u64>> {
    let passes = r.warmup.saturating_add(r.passes);
    let trace = match catalog::find(&r.workload) {
        Some(entry) => {
            let ask = Ask {
                bytes: r.bytes,
                full: r.full,
                seed: r.seed,
                // One that repeats has no last pass, which could give back what the next one reads.
                passes: Some(if r.repeats { u32::MAX } else { passes }),
            };
            let workload = entry.make(&ask);
            let workload = workload.map_err(|e| Failure::Check(e.to_string()))?;
            let period = if r.repeats { PERIOD } else { u32::MAX };
            Trace::of_passes(&workload, CHUNK, (0..passes).map(|n| n % period))?
        }
        // Reads and writes all of its data in turn.
        None if r.workload == "scan" => {
            let chunks = u32::try_from(r.bytes.div_ceil(CHUNK)).unwrap_or(u32::MAX);
            Trace::cycle(chunks, CHUNK, passes, Act::Write)
        }
        None => return Ok(None),
    };
    let traffic = replay(&trace, r.room, &mut Min::default(), r.warmup);
    Ok(Some(traffic.bytes()))
}

/// Fills in what is missing; how many rows that were.
///
/// # Errors
/// A trace that cannot be made.
pub fn fill(file: &mut File) -> Result<u32> {
    let mut known: BTreeMap<Ran, Option<u64>> = BTreeMap::new();
    let asked: Vec<Option<Ran>> = file.rows.iter().map(|r| ran(file, r)).collect();
    let mut filled = 0;
    for (row, ran) in file.rows.iter_mut().zip(asked) {
        let (None, Some(ran)) = (row.belady_bytes, ran) else {
            continue;
        };
        let bytes = match known.get(&ran) {
            Some(bytes) => *bytes,
            None => {
                let bytes = belady(&ran)?;
                known.insert(ran, bytes);
                bytes
            }
        };
        row.belady_bytes = bytes;
        filled += u32::from(bytes.is_some());
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ratio: f64, memory: Option<u64>) -> Row {
        let mut row = Row {
            ratio,
            ..Row::default()
        };
        if let Some(n) = memory {
            row.more.insert("memory_bytes".into(), n.into());
        }
        row
    }

    /// Catches warm-up passes that are counted, and a job with memory enough that is charged for it.
    #[test]
    fn a_recorded_job_repeats_its_passes() {
        let ran = |warmup, passes, room| Ran {
            workload: "pagerank".into(),
            bytes: 64 << 20,
            full: None,
            seed: 1,
            warmup,
            passes,
            room,
            repeats: true,
        };
        let bytes = |r: Ran| belady(&r).unwrap().unwrap();
        let once = bytes(ran(2, 2, 16));
        assert!(once != 0);
        // Steady: four passes move about twice what two do.
        let twice = bytes(ran(2, 4, 16));
        let slack = once / 10;
        assert!(
            (2 * once - slack..=2 * once + slack).contains(&twice),
            "{once} {twice}"
        );
        assert_eq!(bytes(ran(2, 2, 64)), 0);
        assert!(bytes(ran(0, 2, 64)) != 0);
    }

    /// Catches the traffic of another network than the row's: one that stands for itself, as older rows do, is weights for the most part.
    #[test]
    fn what_data_stands_for_is_as_the_row_says() {
        let mut file = File::default();
        let numbers = [("bytes", 48 << 20), ("passes", 2), ("warmup", 1)];
        for full in [None, Some(24u64 << 30)] {
            let mut row = row(1.5, Some(32 << 20));
            row.workload = "vgg16".into();
            row.more.extend(numbers.map(|(k, n)| (k.into(), n.into())));
            row.more.insert("full_bytes".into(), full.into());
            file.rows.push(row);
        }
        let asked: Vec<_> = file.rows.iter().map(|r| ran(&file, r).unwrap()).collect();
        let full: Vec<_> = asked.iter().map(|r| r.full).collect();
        assert_eq!(full, [None, Some(24 << 30)]);
        assert_eq!(fill(&mut file).unwrap(), 2);
        let [own, large] = file.rows.as_slice() else {
            panic!()
        };
        assert!(own.belady_bytes > Some(0) && own.belady_bytes != large.belady_bytes);
    }

    /// Catches Belady's traffic of a memory that the job did not have: `oversub` makes it small, and the papers' experiments too.
    #[test]
    fn the_memory_is_that_of_the_job() {
        let all = Some(128 << 20);
        assert_eq!(memory(&row(1.5, None), 192 << 20, all), 128 << 20);
        // Rounded to blocks.
        assert_eq!(memory(&row(1.5, None), 186 << 20, all), 128 << 20);
        assert_eq!(memory(&row(2.0, None), 108 << 20, all), 54 << 20);
        assert_eq!(memory(&row(2.0, None), 108 << 20, None), 54 << 20);
        // 109 chunks over 1.5 are 72.7.
        assert_eq!(memory(&row(1.5, None), 218 << 20, None), 146 << 20);
        assert_eq!(memory(&row(1.87, Some(60 << 20)), 112 << 20, all), 60 << 20);
    }
}
