// SPDX-License-Identifier: GPL-2.0
//! uvmctl: shows and drives huvm.
#![forbid(unsafe_code)]

mod cli;
mod cmd;
mod exit;
mod out;
mod units;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = cli::Cli::parse();
    let out = out::Out::new(&args);
    match cmd::run(&args, &out) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            out.error(&e);
            ExitCode::from(e.code())
        }
    }
}
