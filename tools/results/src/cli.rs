// SPDX-License-Identifier: GPL-2.0
//! The command line.

use clap::{Args, Parser, Subcommand};
use huvm_results::units::parse_bytes;
use std::path::PathBuf;

/// What is made of results.
#[derive(Parser)]
#[command(name = "huvm-results", version, about)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Subcommand)]
pub(crate) enum Verb {
    Belady(Belady),
    Compare(Compare),
    Doc(Doc),
    Fill(Fill),
    Plot(Plot),
    Timeline(Timeline),
}

/// What replacement policies would move on the trace of a workload, Belady's optimal one first
///
/// Memory holds whole chunks; a touch of one that is not there brings it, and when memory is full another one leaves, with its
/// bytes if it was written. MIN has the fewest misses possible, so IN of min is the least of all policies; the least sum
/// of IN and OUT lies between min's IN and min's IN + OUT.
#[derive(Args)]
#[command(after_help = "Examples:
  huvm-results belady --workload pagerank --bytes 24G --memory 16G
  huvm-results belady --workload hotspot --ratio 1.5 --memory 128M --policy all
  huvm-results belady --workload vgg16 --ratio 1.25 --memory 1G --warmup 1 --json")]
pub(crate) struct Belady {
    /// A workload of the catalog; 'cycle' reads and writes all chunks in turn
    #[arg(long, value_name = "NAME")]
    pub(crate) workload: String,
    /// Bytes of all its allocations together (K, M, G: powers of 1024)
    #[arg(long, value_parser = parse_bytes, required_unless_present = "ratio")]
    pub(crate) bytes: Option<u64>,
    /// The same as a multiple of the memory
    #[arg(long, conflicts_with = "bytes")]
    pub(crate) ratio: Option<f64>,
    /// Bytes that these stand for, as 'full_bytes' of a row: of what trains, the batch
    #[arg(long, value_parser = parse_bytes)]
    pub(crate) full: Option<u64>,
    /// Bytes of the GPU's memory
    #[arg(long, value_parser = parse_bytes)]
    pub(crate) memory: u64,
    /// Decides what is random in the workload and in a policy
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Passes; as many as the workload's reference has, if it is left out
    #[arg(long)]
    pub(crate) passes: Option<u32>,
    /// Of these, passes at the beginning that do not count
    #[arg(long, default_value_t = 0)]
    pub(crate) warmup: u32,
    /// What comes and goes at once; a multiple of 4 KiB
    #[arg(long, value_parser = parse_bytes, default_value = "2M")]
    pub(crate) chunk: u64,
    /// min, lru, lrm, random, bip, or all; may be given several times
    #[arg(long = "policy", value_name = "POLICY", default_value = "min")]
    pub(crate) policies: Vec<String>,
    /// Rows as JSON
    #[arg(long, short)]
    pub(crate) json: bool,
}

/// Two sets of results, row by row, with geometric means
///
/// A row is known by its experiment, case, workload, preset, GPU, role and ratio. Exit code 1 if nothing can be compared, or
/// with --threshold if a row of B is slower than that.
#[derive(Args)]
#[command(after_help = "Examples:
  huvm-results compare /tmp/before/results build/results
  huvm-results compare before.json after.json --threshold 2")]
pub(crate) struct Compare {
    /// A folder of results, or one file
    pub(crate) a: PathBuf,
    /// The same, to compare with it
    pub(crate) b: PathBuf,
    /// Fail if a row of B took so many percent longer
    #[arg(long, value_name = "PERCENT")]
    pub(crate) threshold: Option<f64>,
    /// As JSON
    #[arg(long, short)]
    pub(crate) json: bool,
}

/// Bars of each experiment, as SVG and PNG
///
/// Each group of bars is a case, each bar a preset, its length how many times faster than the baseline it was.
#[derive(Args)]
pub(crate) struct Plot {
    /// A folder of results, or one file
    #[arg(default_value = "build/results")]
    pub(crate) results: PathBuf,
    /// What bars are measured by; the group's first one, where it is not in the group
    #[arg(long, value_name = "PRESET", default_value = huvm_results::plot::bars::BASELINE)]
    pub(crate) baseline: String,
    /// Folder for the pictures
    #[arg(long, value_name = "DIR", default_value = "build/results/plots")]
    pub(crate) out: PathBuf,
}

/// Timeline of links, and heat maps of residency and of faults, from recorded events, as SVG and PNG
#[derive(Args)]
#[command(after_help = "Examples:
  uvmctl trace record -o scan.jsonl -- uvmctl run scan --ratio 1.5      (in the guest)
  huvm-results timeline scan.jsonl")]
pub(crate) struct Timeline {
    /// What 'uvmctl trace record' wrote, or 'uvmctl events --json'
    pub(crate) recording: PathBuf,
    /// Folder for the pictures
    #[arg(long, value_name = "DIR", default_value = "build/results/plots")]
    pub(crate) out: PathBuf,
}

/// The page of results, from the results, the papers' figures and the notes
///
/// Fails if a figure is more than a fifth away from the paper's and the notes do not say why.
#[derive(Args)]
pub(crate) struct Doc {
    /// A folder of results
    #[arg(default_value = "build/results")]
    pub(crate) results: PathBuf,
    /// What people wrote
    #[arg(
        long,
        value_name = "FILE",
        default_value = "Documentation/results-notes.toml"
    )]
    pub(crate) notes: PathBuf,
    /// The papers' figures
    #[arg(long, value_name = "FILE", default_value = "tools/results/paper.toml")]
    pub(crate) paper: PathBuf,
    /// The page; its pictures go to plots/ beside it
    #[arg(long, value_name = "FILE", default_value = "Documentation/results.md")]
    pub(crate) out: PathBuf,
}

/// Writes belady_bytes into rows that have none
///
/// Computed offline from the row's workload, bytes, passes and the GPU's memory, with as many passes before the measured ones as
/// the row says, or one. Rows of a role 'owner' are left as they are: their memory is lent in part.
#[derive(Args)]
pub(crate) struct Fill {
    /// A folder of results, or one file
    #[arg(default_value = "build/results")]
    pub(crate) results: PathBuf,
}
