// SPDX-License-Identifier: GPL-2.0
//! uvmctl: shows and drives huvm. A library, so that what reads files and arguments can be given anything ([`given`]).
#![forbid(unsafe_code)]

mod catalog;
mod cli;
mod cmd;
mod exit;
pub mod given;
#[cfg(test)]
mod golden;
mod host;
mod out;
mod row;
mod units;

use clap::Parser;
use exit::Failure;
use std::process::ExitCode;

/// Whether a command line that clap refused asked for JSON. What stands behind `--` is another command's.
fn wants_json(args: impl Iterator<Item = String>) -> bool {
    args.take_while(|a| a != "--").any(|a| {
        a == "--json"
            || a.strip_prefix('-')
                .filter(|short| !short.starts_with('-'))
                // Flags in front of it; any other letter takes the rest of the word as its value.
                .is_some_and(|s| {
                    s.trim_start_matches(['a', 'b', 'n', 'q', 'v'])
                        .starts_with('j')
                })
    })
}

/// Help and version are for stdout and no failure; the rest is bad usage.
fn refused(e: &clap::Error) -> ExitCode {
    if !e.use_stderr() {
        // A reader that went away is no failure of ours.
        let _closed = e.print();
        return ExitCode::SUCCESS;
    }
    if wants_json(std::env::args().skip(1)) {
        let text = e.render().to_string();
        let first = text.lines().next().unwrap_or("bad usage");
        let usage = Failure::Usage(first.trim_start_matches("error: ").into());
        out::Out::bare(true).error(&usage);
    } else {
        let _closed = e.print();
    }
    ExitCode::from(2)
}

/// The tool: reads the command line, and says how it went.
pub fn main() -> ExitCode {
    let args = match cli::Cli::try_parse() {
        Ok(args) => args,
        Err(e) => return refused(&e),
    };
    let out = out::Out::new(&args);
    match cmd::run(&args, &out) {
        Ok(()) | Err(Failure::Closed) => ExitCode::SUCCESS,
        Err(e) => {
            out.error(&e);
            ExitCode::from(e.code())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::wants_json;

    #[test]
    fn json_is_seen_in_a_line_that_is_wrong() {
        let wants = |line: &str| wants_json(line.split(' ').map(str::to_owned));
        for yes in [
            "gpu lisst -j",
            "--json nonsense",
            "stat -aj --nope",
            "policy set -nqj",
            "-j -- x",
        ] {
            assert!(wants(yes), "{yes}");
        }
        for no in [
            "gpu lisst",
            "trace record -- ls -j",
            "stat -gj",
            "--jsonx",
            "j",
        ] {
            assert!(!wants(no), "{no}");
        }
    }
}
