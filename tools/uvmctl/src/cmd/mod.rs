// SPDX-License-Identifier: GPL-2.0
//! One file per noun: arguments, request, model, table.

mod at_work;
pub(crate) mod bench;
pub(crate) mod client;
mod copies;
mod counters;
mod demo;
pub(crate) mod doctor;
pub(crate) mod events;
mod expected;
mod figures;
mod gpu;
mod inject;
mod job;
mod landed;
mod latency;
mod loss;
mod man;
mod mem;
mod overview;
pub(crate) mod policy;
mod preset;
pub(crate) mod quota;
mod run;
mod stat;
mod steps;
mod sweep;
mod top;
mod topo;
pub(crate) mod trace;

use crate::catalog;
use crate::cli::Cli;
use crate::cli::{ClientVerb, Command, GpuVerb, PolicyVerb, QuotaVerb, TraceVerb};
use crate::exit::{Failure, Result};
use crate::out::Out;
use crate::row::names;

/// What a command offers beside its text.
struct Abilities {
    /// Fields of its rows; none if it has no table.
    fields: Vec<&'static str>,
    /// It can read a saved document.
    offline: bool,
}

fn abilities(command: Option<&Command>) -> Abilities {
    let reads = |fields| Abilities {
        fields,
        offline: true,
    };
    let acts = |fields| Abilities {
        fields,
        offline: false,
    };
    let Some(command) = command else {
        return reads(names::<overview::Line>());
    };
    match command {
        Command::Status => reads(names::<overview::Line>()),
        Command::Gpu(GpuVerb::List | GpuVerb::Show { .. }) => reads(names::<gpu::Gpu>()),
        Command::Topo => reads(names::<topo::Link>()),
        Command::Mem(_) => reads(names::<mem::Mem>()),
        Command::Client(ClientVerb::List | ClientVerb::Show { .. }) => {
            reads(names::<client::Client>())
        }
        Command::Range(_) => reads(names::<client::Block>()),
        Command::Policy(PolicyVerb::List) => reads(names::<policy::Described>()),
        Command::Policy(PolicyVerb::Show(_)) => reads(names::<policy::Value>()),
        Command::Policy(PolicyVerb::Set { .. } | PolicyVerb::Reset { .. }) => {
            acts(names::<policy::Change>())
        }
        Command::Quota(QuotaVerb::Show { .. }) => reads(names::<quota::Quota>()),
        Command::Quota(QuotaVerb::Set(_)) => acts(names::<policy::Change>()),
        Command::Inject(_) => acts(names::<policy::Change>()),
        Command::Stat(s) if s.latency => reads(names::<latency::Path>()),
        Command::Stat(_) => reads(names::<stat::Sample>()),
        Command::Events(_) => reads(names::<events::Event>()),
        Command::Top(_) => reads(names::<top::Gpu>()),
        Command::Trace(TraceVerb::Record { .. }) => acts(names::<trace::Recorded>()),
        Command::Trace(TraceVerb::Report { .. }) => reads(names::<trace::Line>()),
        Command::Trace(TraceVerb::Replay { .. }) => acts(names::<trace::Replayed>()),
        Command::Run(r) if r.list => reads(names::<catalog::Listed>()),
        Command::Run(_) => reads(names::<figures::Figures>()),
        Command::Demo(_) => reads(names::<demo::Shown>()),
        Command::Bench(_) => reads(names::<bench::Measured>()),
        Command::Doctor => reads(names::<doctor::Check>()),
        Command::Version => reads(names::<overview::Versions>()),
        Command::Completion { .. } | Command::Man { .. } => acts(Vec::new()),
    }
}

/// Looks at the global options before anything is done. `true`: they asked for nothing more than the fields' names.
fn prepared(command: Option<&Command>, out: &Out) -> Result<bool> {
    let can = abilities(command);
    if out.offline() && !can.offline {
        return Err(Failure::Usage(
            "this command acts; it cannot read a saved document".into(),
        ));
    }
    let Some(wanted) = out.fields() else {
        return Ok(false);
    };
    if can.fields.is_empty() {
        return Err(Failure::Usage("this command has no fields".into()));
    }
    if wanted == ["help"] {
        out.text(&(can.fields.join("\n") + "\n"))?;
        return Ok(true);
    }
    match wanted.iter().find(|w| !can.fields.contains(&w.as_str())) {
        None => Ok(false),
        Some(w) => Err(Failure::Advised(
            format!("there is no field '{w}'"),
            format!("there are: {}", can.fields.join(", ")),
        )),
    }
}

/// Runs the command. Its exit code, if nothing failed.
pub(crate) fn run(args: &Cli, out: &Out) -> Result<u8> {
    let command = args.command.as_ref();
    if prepared(command, out)? {
        return Ok(0);
    }
    let Some(command) = command else {
        return overview::show(out).map(|()| 0);
    };
    let done = match command {
        Command::Status => overview::show(out),
        Command::Gpu(GpuVerb::List) => gpu::list(out),
        Command::Gpu(GpuVerb::Show { gpu }) => gpu::show(out, gpu),
        Command::Topo => topo::show(out),
        Command::Mem(_) => mem::show(out),
        Command::Client(v) => client::run(out, v),
        Command::Range(v) => client::range(out, v),
        Command::Policy(v) => policy::run(out, v),
        Command::Quota(v) => quota::run(out, v),
        Command::Inject(i) => inject::run(out, i),
        Command::Stat(s) => stat::run(out, s),
        Command::Events(e) => events::run(out, e),
        Command::Top(t) => top::run(out, t),
        Command::Trace(v) => return trace::run(out, v),
        Command::Run(r) => run::run(out, r),
        Command::Demo(d) => demo::run(out, d),
        Command::Bench(b) => bench::run(out, b),
        Command::Doctor => doctor::run(out),
        Command::Version => overview::version(out),
        Command::Completion { shell } => man::completion(out, *shell),
        Command::Man { dir } => man::pages(dir),
    };
    done.map(|()| 0)
}
