// SPDX-License-Identifier: GPL-2.0
//! The commands.

mod belady;

use crate::cli::{Cli, Verb};
use huvm_results::failure::{Failure, Result};
use serde::Serialize;

/// Runs a command; what it prints.
pub(crate) fn run(cli: &Cli) -> Result<String> {
    match &cli.verb {
        Verb::Belady(args) => belady::run(args),
    }
}

/// As JSON, indented, with an end of line.
fn json(value: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(value).map_err(|e| Failure::File(e.to_string()))?;
    Ok(text + "\n")
}
