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
mod signals;

use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use cli::Cli;
use exit::Failure;
use huvm_workloads::units;
use std::ffi::OsString;
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

/// The words of a command: `uvmctl policy set`.
fn words(parsed: &ArgMatches) -> String {
    let mut words = String::from("uvmctl");
    let mut at = parsed;
    while let Some((name, inner)) = at.subcommand() {
        words.push(' ');
        words.push_str(name);
        at = inner;
    }
    words
}

/// The words of the command that was meant by a line which is wrong.
fn meant(line: impl Iterator<Item = OsString>) -> String {
    let partly = Cli::command().ignore_errors(true);
    let parsed = partly.try_get_matches_from(line);
    parsed.map_or_else(|_| "uvmctl".into(), |p| words(&p))
}

/// What is wrong with a line, in one.
fn told(e: &clap::Error) -> String {
    if e.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "a subcommand is wanted".into();
    }
    let text = e.render().to_string();
    // Then come hints, and how it is used.
    let said: Vec<&str> = text
        .lines()
        .map(str::trim)
        .take_while(|l| !l.is_empty())
        .collect();
    said.join(" ").trim_start_matches("error: ").into()
}

/// Help and version are for stdout and no failure; the rest is bad usage.
fn refused(e: &clap::Error) -> ExitCode {
    if !e.use_stderr() {
        // A reader that went away is no failure of ours.
        return match e.print() {
            Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
            _ => ExitCode::SUCCESS,
        };
    }
    if wants_json(std::env::args().skip(1)) {
        let usage = Failure::Usage(told(e));
        let out = out::Out::bare(true).of(meant(std::env::args_os()));
        out.error(&usage);
    } else {
        let _closed = e.print();
    }
    ExitCode::from(2)
}

/// The tool: reads the command line, and says how it went.
pub fn main() -> ExitCode {
    let parsed = Cli::command().try_get_matches();
    let read = parsed.and_then(|p| Ok((Cli::from_arg_matches(&p)?, words(&p))));
    let (args, command) = match read {
        Ok(read) => read,
        Err(e) => return refused(&e),
    };
    let out = out::Out::new(&args).of(command);
    match cmd::run(&args, &out) {
        Ok(code) => ExitCode::from(code),
        Err(Failure::Closed) => ExitCode::SUCCESS,
        Err(e) => {
            out.error(&e);
            // What a signal ended is told, and put in order.
            signals::obey();
            ExitCode::from(e.code())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{meant, wants_json};

    #[test]
    fn a_line_that_is_wrong_is_of_some_command() {
        for (line, command) in [
            ("uvmctl", "uvmctl"),
            ("uvmctl nonsense -j", "uvmctl"),
            ("uvmctl gpu lisst -j", "uvmctl gpu"),
            ("uvmctl policy set -j", "uvmctl policy set"),
            ("uvmctl bench --iterations many", "uvmctl bench"),
            ("uvmctl stat -j --nope", "uvmctl stat"),
            // A value is no command.
            ("uvmctl --from run top -x", "uvmctl top"),
        ] {
            let line_of = line.split(' ').map(Into::into);
            assert_eq!(meant(line_of), command, "{line}");
        }
    }

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
