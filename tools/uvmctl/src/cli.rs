// SPDX-License-Identifier: GPL-2.0
//! The grammar: help, completion and man pages come from it.

use crate::catalog::{JobName, JobNames};
use crate::cmd::events::TYPES;
use crate::exit::CODES;
use crate::units::parse_bytes;
use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Examples and exit codes, below the options.
fn more_help() -> String {
    let mut text = String::from(
        "Examples:
  uvmctl                                 GPUs, memory, clients
  uvmctl run scan --ratio 1.5 --verify   a pass over 1.5 times the GPU's memory
  uvmctl run pagerank:0 vgg16:1 -r 1.25  two jobs at once; 'uvmctl run --list' has the names
  uvmctl stat --gpu 0 -l 1               counters, each second
  uvmctl topo                            GPUs, links, who lends to whom
  uvmctl policy set --pid 71 harvest_borrow=on
  uvmctl client list --csv --fields pid,managed_bytes
  uvmctl gpu list --json > gpus.json; uvmctl gpu list --from gpus.json

Exit codes:
",
    );
    for (code, _, meaning) in CODES {
        text.push_str(&format!("  {code:<3} {meaning}\n"));
    }
    text
}

/// Shows and drives huvm: one address space over several GPUs and the host.
///
/// Without a command: an overview, which changes nothing.
#[derive(Parser, Debug)]
#[command(version, after_help = more_help())]
pub(crate) struct Cli {
    /// JSON for programs, with a schema number
    #[arg(short, long, global = true, conflicts_with_all = ["csv", "fields"])]
    pub(crate) json: bool,
    /// Rows for scripts: values in base units, separated by commas
    #[arg(long, global = true)]
    pub(crate) csv: bool,
    /// Columns of the table or of --csv, in this order; 'help' lists them
    #[arg(long, global = true, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) fields: Option<Vec<String>>,
    /// Read a saved --json document instead of the driver ('-' is standard input)
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// Exact numbers of bytes in tables
    #[arg(long, global = true)]
    pub(crate) bytes: bool,
    /// Tables without their first line
    #[arg(long, global = true)]
    pub(crate) no_header: bool,
    /// Colours in tables: where they go to a terminal, always, or never. Without it NO_COLOR counts too
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = When::Auto)]
    pub(crate) color: When,
    /// No progress, no hints, no report of what was changed; failures are told
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Every column of a table
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// When to use colours.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// On a terminal, unless NO_COLOR is set or TERM is 'dumb'
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// GPUs, memory, clients on one screen; also without any command
    Status,
    /// GPUs
    #[command(subcommand)]
    Gpu(GpuVerb),
    /// Links between GPUs
    Topo,
    /// Memory of GPUs
    #[command(subcommand)]
    Mem(MemVerb),
    /// Processes that use huvm
    #[command(subcommand)]
    Client(ClientVerb),
    /// Where the pages of a client are
    #[command(subcommand)]
    Range(RangeVerb),
    /// Knobs and presets
    #[command(subcommand)]
    Policy(PolicyVerb),
    /// What GPUs lend at most, and lend now
    #[command(subcommand)]
    Quota(QuotaVerb),
    /// Counters; with --latency, how long things took
    Stat(Stat),
    /// Faults, migrations, evictions as they happen, one line (or JSON object) each
    Events(Events),
    /// Live view on a terminal ('?' shows the keys), else plain blocks
    Top(Top),
    /// Record events, summarise them, run their page accesses again
    #[command(subcommand)]
    Trace(TraceVerb),
    /// Run workloads on GPUs
    Run(Run),
    /// Working sets of 0.8, 1.5 and 3 times the GPU's memory, every byte verified
    Demo(Demo),
    /// Experiments in which policies meet on the same machine
    Bench(Bench),
    /// Let an emulated GPU fail (the module must be loaded with test=1)
    Inject(Inject),
    /// Look for what is wrong with this machine's set-up
    Doctor,
    /// Versions of tool, driver and interface
    Version,
    /// Completion script for a shell
    Completion {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the man pages (section 8) to a folder
    Man {
        /// The folder
        dir: PathBuf,
    },
}

#[derive(Subcommand, Debug)]
pub(crate) enum GpuVerb {
    /// One line a GPU
    List,
    /// Everything about one GPU
    Show {
        /// Index, PCI address or UUID
        gpu: String,
    },
}

#[derive(Subcommand, Debug)]
pub(crate) enum MemVerb {
    /// Chunks of 2 MiB by state
    Show,
}

#[derive(Subcommand, Debug)]
pub(crate) enum ClientVerb {
    /// One line an open file
    List,
    /// One client
    Show {
        /// Process id
        pid: u32,
    },
}

#[derive(Subcommand, Debug)]
pub(crate) enum RangeVerb {
    /// Blocks of 2 MiB: which pages are where
    Show {
        /// Process id
        pid: u32,
        /// ADDR or ADDR-ADDR (hex): from there on, or from there to there
        #[arg(default_value = "0")]
        addr: String,
    },
}

#[derive(Args, Debug)]
pub(crate) struct PolicyScope {
    /// Of this GPU (index, PCI address or UUID); without it the global ones
    #[arg(short, long, value_name = "ID", conflicts_with = "pid")]
    pub(crate) gpu: Option<String>,
    /// Of this process: of every /dev/huvm that it opened
    #[arg(short, long)]
    pub(crate) pid: Option<u32>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum PolicyVerb {
    /// Presets, and every knob with its range
    List,
    /// Values in force
    Show(PolicyScope),
    /// Set knobs, or all of them by a preset
    Set {
        #[command(flatten)]
        scope: PolicyScope,
        /// Name of a preset
        #[arg(long)]
        preset: Option<String>,
        /// Check, and say what would change, but change nothing
        #[arg(short = 'n', long)]
        dry_run: bool,
        /// KNOB=VALUE
        #[arg(required_unless_present = "preset")]
        values: Vec<String>,
    },
    /// Forget what was set: then a GPU has the global values, a process those of its GPU, and globally the default preset
    /// counts
    Reset {
        #[command(flatten)]
        scope: PolicyScope,
        /// Check, and say what would change, but change nothing
        #[arg(short = 'n', long)]
        dry_run: bool,
        /// Names of knobs; without any, all of them
        knobs: Vec<String>,
    },
}

#[derive(Subcommand, Debug)]
pub(crate) enum QuotaVerb {
    /// What each GPU lends at most, and lends now
    Show {
        /// Of this GPU (index, PCI address or UUID)
        #[arg(short, long, value_name = "ID")]
        gpu: Option<String>,
    },
    /// Set what GPUs lend
    Set(QuotaSet),
}

#[derive(Args, Debug)]
#[command(group(clap::ArgGroup::new("what").required(true).multiple(true).args(["limit", "keep", "lend"])))]
pub(crate) struct QuotaSet {
    /// Of these GPUs (index, PCI address or UUID, separated by commas), or 'all'
    #[arg(short, long, value_name = "IDS", required = true)]
    pub(crate) gpu: String,
    /// Lend so much at most: a size (K, M, G), a share such as 25%, or 'none' for no limit
    #[arg(long)]
    pub(crate) limit: Option<String>,
    /// Keep so much free memory for its own jobs (K, M, G); no more than pre_evict_share_percent of its memory counts
    #[arg(long, value_parser = parse_bytes, value_name = "SIZE")]
    pub(crate) keep: Option<u64>,
    /// Lend at all
    #[arg(long, value_name = "ON|OFF", value_parser = ["on", "off"])]
    pub(crate) lend: Option<String>,
    /// Check, and say what would change, but change nothing
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
}

/// A fault that an emulated GPU can be told to have.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Injection {
    /// Fault packets are complete so many ns late (at most 1000000)
    FaultDelayNs,
    /// So many of 1000 fault packets change places
    FaultReorderPermille,
    /// So many of 1000 fault packets come twice
    FaultDuplicatePermille,
    /// The next so many fault packets meet a full ring
    FaultOverflow,
    /// The copy of this number from now faults; 0 is off
    CopyFault,
    /// The copy of this number from now hangs, until 0 is set
    CopyHang,
    /// Each copy takes so many ns longer
    CopyDelayNs,
    /// Links that are down: bit 0 is the first of 'uvmctl topo'
    LinksDown,
    /// The next so many interrupts are lost
    InterruptsLost,
    /// Translations that failed are cached: 1 or 0
    CacheMisses,
    /// Seed of the chances above
    Seed,
    /// The GPU falls off the bus, until the machine is reset; takes no value
    GpuGone,
    /// The memory page (of 4 KiB) of this number fails; 0xffffffff cures all. Reads how many have
    PageFails,
    /// A page of this number is reported as failed, whatever it is
    PageReported,
    /// The invalidate or replay of this number from now hangs, until 0 is set
    CommandHang,
    /// The copy of this number from now does not arrive and is not let go of, until 0 is set
    CopyStall,
    /// The next so many fault packets are lost (at most 65535; 0x80000000 more: those of copy engines)
    FaultLost,
    /// The next so many fault packets are wrong (as above; times 0x10000, 0: all, 1: whose, 2: where, 3: what)
    FaultBad,
    /// The next so many fault packets are never complete (as above)
    FaultNeverValid,
    /// The next so many fault packets of copy engines meet a full ring
    CopyFaultOverflow,
    /// The next so many writes of a fault ring's GET arrive damaged (as above)
    FaultGetCorrupt,
    /// The next so many ends of copies are not told
    SemaphoreLost,
    /// The next so many ends of copies tell of more than there were
    SemaphoreWrong,
    /// An interrupt each so many ns (times 0x10000000: the message's number, 0 to 3), until 0 is set
    InterruptStorm,
    /// Bitmap of copy engines whose copies fault each time
    CopyFaultEach,
    /// The next so many looks at a fault ring's PUT are told a lie (as above; 0: all ones, 1: its end, 2: behind GET, 3: none)
    FaultPutWrong,
    /// The next so many reads of registers say all ones, as if the GPU did not answer (plus 0x10000 for each that passes before)
    ReadsOnes,
    /// The next so many writes of registers are lost (as above)
    WritesLost,
    /// The next so many looks at whether a launch runs are told nonsense
    StatusWrong,
    /// Channels of copy engines stand at this page that failed, they say (Documentation/device.md 2.8)
    StandsSays,
    /// The next so many ends of copies tell of fewer than there were before
    SemaphoreBack,
    /// So many of 1000 flags of copy faults come after their packets
    FlagLatePermille,
    /// Invalidates of page tables take so many ns longer, and what they are to end may be used meanwhile (1000000 at most)
    InvalidateLateNs,
}

#[derive(Args, Debug)]
pub(crate) struct Inject {
    /// The fault
    #[arg(value_enum)]
    pub(crate) kind: Injection,
    /// Its value; without one, what it is now (gpu-gone has none: it acts)
    #[arg(value_parser = parse_number)]
    pub(crate) value: Option<u32>,
    /// GPU: index, PCI address or UUID
    #[arg(short, long, value_name = "ID")]
    pub(crate) gpu: String,
    /// Check, and say what would change, but change nothing
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
}

/// A number as people write it: 12, 0x1f.
pub(crate) fn parse_number(text: &str) -> Result<u32, String> {
    let number = match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => text.parse(),
    };
    number.map_err(|e| e.to_string())
}

#[derive(Args, Debug)]
pub(crate) struct Stat {
    /// Of these GPUs (index, PCI address or UUID, separated by commas), or 'all'; without it the global ones
    #[arg(short, long, value_name = "IDS", conflicts_with = "pid")]
    pub(crate) gpu: Option<String>,
    /// Of this process: the sum over what it opened
    #[arg(short, long, conflicts_with = "latency")]
    pub(crate) pid: Option<u32>,
    /// Repeat each so many seconds, and show what was added since
    #[arg(short, long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1")]
    pub(crate) r#loop: Option<f64>,
    /// End after so many
    #[arg(short, long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Counters that are zero too
    #[arg(short, long)]
    pub(crate) all: bool,
    /// How long copies of each path, reclaims and faults took; with -v as histograms
    #[arg(long)]
    pub(crate) latency: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Events {
    /// Only events of these types
    #[arg(
        short,
        long = "type",
        value_name = "TYPES",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(TYPES.map(|(_, word)| word))
    )]
    pub(crate) types: Option<Vec<String>>,
    /// End after so many
    #[arg(short, long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
}

#[derive(Args, Debug)]
pub(crate) struct Top {
    /// Seconds between two pictures
    #[arg(
        short = 'l',
        long = "loop",
        value_name = "SECONDS",
        default_value_t = 1.0
    )]
    pub(crate) period: f64,
    /// End after so many pictures
    #[arg(short, long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Plain blocks also on a terminal
    #[arg(short, long)]
    pub(crate) batch: bool,
}

#[derive(Subcommand, Debug)]
pub(crate) enum TraceVerb {
    /// Write the events of all clients to a file, one JSON object a line; Ctrl-C ends it
    Record {
        /// The file
        #[arg(short, long)]
        output: PathBuf,
        /// End after so many events
        #[arg(short, long, value_parser = clap::value_parser!(u64).range(1..))]
        count: Option<u64>,
        /// End after so many seconds
        #[arg(short, long, value_parser = clap::value_parser!(u32).range(1..=86400))]
        seconds: Option<u32>,
        /// Record while this command runs; the exit code is the command's
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// What a recording has: events by type and cause, bytes, how busy each GPU was, the busiest blocks
    Report {
        /// A recording, or what 'events --json' wrote ('-' is standard input); not with --from
        file: Option<PathBuf>,
    },
    /// Touch the pages of a recording's faults again, in its order, on a GPU
    Replay {
        /// A recording
        file: PathBuf,
        /// GPU: index, PCI address or UUID
        #[arg(short, long, value_name = "ID", default_value = "0")]
        gpu: String,
        /// Policy preset of this replay; knobs of the GPU as a whole stay as they are, as with 'run --preset'
        #[arg(short, long)]
        preset: Option<String>,
    },
}

/// Sweeps: workloads of one program, beside those of the catalog.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    /// x = x + 1: a streaming pass that reads and writes everything
    Scan,
    /// z = x + y
    VectorAdd,
    /// z = x + 3·y
    Triad,
    /// z[i] = x[i] + 2·x[i+1] + x[i+2]
    Stencil,
    /// z[i] = x[p(i)], p a permutation
    Gather,
    /// z[i] = x[r(i)], r pseudo-random: some elements often, some never
    Random,
}

#[derive(Args, Debug)]
pub(crate) struct Run {
    /// A name of 'uvmctl run --list'; with ':GPU' behind it on that GPU. Several run at the same time
    #[arg(value_name = "WORKLOAD[:GPU]", required_unless_present = "list", value_parser = JobNames, hide_possible_values = true)]
    pub(crate) workloads: Vec<JobName>,
    /// GPU of workloads without one of their own: index, PCI address or UUID; several, with commas: one job on each [default: 0]
    #[arg(short, long, value_name = "IDS", value_delimiter = ',')]
    pub(crate) gpu: Vec<String>,
    /// Tell which workloads there are
    #[arg(long, conflicts_with_all = ["workloads", "gpu", "ratio", "size", "iterations", "warmup", "seed", "verify", "preset", "blocks"])]
    pub(crate) list: bool,
    /// Working set of each job as a share of its GPU's memory
    #[arg(short, long, default_value_t = 0.5, conflicts_with = "size")]
    pub(crate) ratio: f64,
    /// Working set of each job (K, M, G)
    #[arg(short, long, value_parser = parse_bytes)]
    pub(crate) size: Option<u64>,
    /// Passes that are measured; without it 3 of a sweep, else as many as its reference has
    #[arg(short, long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) iterations: Option<u32>,
    /// Passes before that; without it 1 of a sweep, else none
    #[arg(short, long, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(crate) warmup: Option<u32>,
    /// Decides all that is random in a workload; not of sweeps, which have nothing to decide [default: 1]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// The CPU checks every element afterwards
    #[arg(long)]
    pub(crate) verify: bool,
    /// Policy preset of these jobs alone. Knobs of a GPU as a whole (pre_evict, fair_memory, lend_...) stay as the GPU has them:
    /// 'policy set --gpu ID --preset NAME' sets those
    #[arg(short, long)]
    pub(crate) preset: Option<String>,
    /// Blocks of a sweep's launch; other workloads have blocks of their own [default: 80]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) blocks: Option<u32>,
}

#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// GPU: index, PCI address or UUID
    #[arg(short, long, value_name = "ID", default_value = "0")]
    pub(crate) gpu: String,
    /// Policy preset; knobs of the GPU as a whole stay as they are, as with 'run --preset'
    #[arg(short, long, default_value = "stock-595")]
    pub(crate) preset: String,
    /// With the idle memory of the GPUs that it is linked with: stock-595 beside memharvester (root)
    #[arg(long, conflicts_with = "preset")]
    pub(crate) neighbours: bool,
    /// Measured passes per working set
    #[arg(short, long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) iterations: u32,
    /// Blocks of the launches
    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) blocks: u32,
    /// Also write the rows to this file, as a JSON array
    #[arg(short, long)]
    pub(crate) output: Option<PathBuf>,
}

/// An experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Experiment {
    /// A borrower on GPU 0, the others lend
    Harvest,
    /// Jobs on GPU 0 that need more memory than it has, under each preset but demand (the module must be loaded with test=1)
    Oversub,
    /// Those of them that stream, on more data: for a large GPU of phantom data (test=1)
    Streaming,
    /// Four GPUs, each with a job of its own: who borrows, who lends (test=1, as all below but timeline)
    InterJob,
    /// Its first case, one technique after the other
    Ladder,
    /// Its first case, more and less fetched ahead
    PrefetchSize,
    /// Its first borrower, more and more memory lent
    SpareSize,
    /// A vector addition beside one borrower and three
    Interference,
    /// One job over four GPUs
    IntraJob,
    /// What a fault and an eviction cost with more chunks, GPUs and clients
    Scaling,
    /// Jobs on GPU 0 that need 1.5 times its memory, the others lend: recorded, for pictures
    Timeline,
    /// Jobs of inter-job and intra-job on their four GPUs, recorded to see what they wait for (test=1)
    RecordedJobs,
}

#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// The experiment
    #[arg(value_enum)]
    pub(crate) experiment: Experiment,
    /// Of oversub and streaming: workloads, by names of 'run --list' [default: all but the sweeps; those that stream]
    #[arg(long, value_name = "NAME", num_args = 1.., value_delimiter = ',')]
    pub(crate) workloads: Vec<String>,
    /// Of the same: times more data than memory
    #[arg(long, value_name = "RATIO", num_args = 1.., value_delimiter = ',')]
    pub(crate) ratios: Vec<f64>,
    /// Of all but harvest: presets, by names of 'policy list', or techniques as the rows name them; NAME:KNOB=VALUE:... with other knobs [default: all that are compared]
    #[arg(long, value_name = "PRESET", num_args = 1.., value_delimiter = ',')]
    pub(crate) presets: Vec<String>,
    /// Of the experiments with several jobs, of scaling and of timeline: cases [default: all that the machine has]
    #[arg(long, value_name = "CASE", num_args = 1.., value_delimiter = ',')]
    pub(crate) cases: Vec<String>,
    /// Of those with several jobs: memory of a GPU, chunks of 2 MiB [default: less than half of what it has]
    #[arg(long, value_name = "CHUNKS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) chunks: Option<u32>,
    /// Of the same: folder with the touches of the jobs, where they are recorded
    #[arg(long, value_name = "DIR")]
    pub(crate) tapes: Option<PathBuf>,
    /// Record them in that folder, and run nothing; needs no driver
    #[arg(long, requires = "tapes", requires = "chunks")]
    pub(crate) record: bool,
    /// Of timeline and recorded-jobs: folder for the recordings
    #[arg(long, value_name = "DIR")]
    pub(crate) recordings: Option<PathBuf>,
    /// Measured passes per row; of scaling, 128 faults for each
    #[arg(short, long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) iterations: u32,
    /// Of oversub, streaming and those with several jobs: everything once more, presets in the other order; 'again_ns' of a row has the second time
    #[arg(long)]
    pub(crate) again: bool,
    /// Of harvest, oversub and streaming: blocks of a sweep's launch; many, so that those that run together walk through memory as a few streams [default: 1024]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) blocks: Option<u32>,
    /// Also write the rows to this file, as a JSON array
    #[arg(short, long)]
    pub(crate) output: Option<PathBuf>,
}
