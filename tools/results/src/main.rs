// SPDX-License-Identifier: GPL-2.0
//! huvm-results: what is made of results.
#![forbid(unsafe_code)]

mod cli;
mod cmd;

use clap::Parser;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let failure = match cmd::run(&cli) {
        Ok(done) => {
            // A reader that went away is no failure of ours.
            let _closed = std::io::stdout().write_all(done.text.as_bytes());
            done.failure
        }
        Err(e) => Some(e),
    };
    match failure {
        None => ExitCode::SUCCESS,
        Some(e) => {
            eprintln!("huvm-results: {e}");
            ExitCode::from(e.code())
        }
    }
}
