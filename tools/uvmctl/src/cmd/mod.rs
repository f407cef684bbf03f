// SPDX-License-Identifier: GPL-2.0
//! One file per noun: arguments, request, model, table.

mod client;
mod counters;
mod demo;
mod doctor;
mod events;
mod gpu;
mod mem;
mod overview;
mod policy;
mod run;
mod stat;
mod top;
mod trace;
mod workload;

use crate::cli::{Cli, Command, GpuVerb};
use crate::exit::{Failure, Result};
use crate::out::Out;
use clap::CommandFactory;

/// Runs the command.
pub(crate) fn run(args: &Cli, out: &Out) -> Result<()> {
    match &args.command {
        None => overview::show(out),
        Some(Command::Gpu(GpuVerb::List)) => gpu::list(out),
        Some(Command::Gpu(GpuVerb::Show { gpu })) => gpu::show(out, gpu),
        Some(Command::Topo) => gpu::topo(out),
        Some(Command::Mem(_)) => mem::show(out),
        Some(Command::Client(v)) => client::run(out, v),
        Some(Command::Range(v)) => client::range(out, v),
        Some(Command::Policy(v)) => policy::run(out, v),
        Some(Command::Stat(s)) => stat::run(out, s),
        Some(Command::Events(e)) => events::run(out, e),
        Some(Command::Top(t)) => top::run(out, t),
        Some(Command::Trace(v)) => trace::run(out, v),
        Some(Command::Run(r)) => run::run(out, r),
        Some(Command::Demo(d)) => demo::run(out, d),
        Some(Command::Doctor) => doctor::run(out),
        Some(Command::Completion { shell }) => {
            clap_complete::generate(
                *shell,
                &mut Cli::command(),
                "uvmctl",
                &mut std::io::stdout(),
            );
            Ok(())
        }
        Some(Command::Man { dir }) => clap_mangen::generate_to(Cli::command(), dir)
            .map_err(|e| Failure::File(format!("{}: {e}", dir.display()))),
    }
}
