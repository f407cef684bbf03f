// SPDX-License-Identifier: GPL-2.0
//! The commands.

mod belady;
mod compare;
mod doc;
mod plot;

use crate::cli::{Cli, Verb};
use huvm_results::failure::{Failure, Result};
use serde::Serialize;

/// What a command prints, and the failure after that, if there is one.
pub(crate) struct Done {
    pub(crate) text: String,
    pub(crate) failure: Option<Failure>,
}

impl From<String> for Done {
    fn from(text: String) -> Done {
        Done {
            text,
            failure: None,
        }
    }
}

/// Runs a command.
pub(crate) fn run(cli: &Cli) -> Result<Done> {
    match &cli.verb {
        Verb::Belady(args) => belady::run(args).map(Done::from),
        Verb::Compare(args) => compare::run(args),
        Verb::Doc(args) => doc::doc(args).map(Done::from),
        Verb::Fill(args) => doc::run_fill(args).map(Done::from),
        Verb::Plot(args) => plot::plot(args).map(Done::from),
        Verb::Timeline(args) => plot::timeline(args).map(Done::from),
    }
}

/// As JSON, indented, with an end of line.
fn json(value: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(value).map_err(|e| Failure::File(e.to_string()))?;
    Ok(text + "\n")
}
