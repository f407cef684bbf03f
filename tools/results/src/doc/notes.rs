// SPDX-License-Identifier: GPL-2.0
//! What people wrote about the results.

use crate::failure::{Failure, Result};
use serde::Deserialize;
use std::path::Path;

/// The notes: Markdown, by place.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Notes {
    /// Below the title.
    pub intro: String,
    /// In the order of the page.
    #[serde(default, rename = "experiment")]
    pub experiments: Vec<Section>,
    /// Why a figure is not the paper's.
    #[serde(default, rename = "explain")]
    pub explanations: Vec<Explanation>,
    /// At the end.
    #[serde(default)]
    pub end: String,
}

/// About an experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// Its name: that of its file.
    pub name: String,
    /// Its title.
    pub title: String,
    /// What makes its results.
    pub command: String,
    /// Before its tables.
    #[serde(default)]
    pub lead: String,
    /// After them.
    #[serde(default)]
    pub text: String,
    /// Its tables as they were, where the rows are lost and not measured anew yet; of no use where there are rows.
    #[serde(default)]
    pub kept: String,
    /// What is seen in the pictures of its recordings, in the order of the page.
    #[serde(default, rename = "recording")]
    pub recordings: Vec<Seen>,
}

/// About the pictures of a recording.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seen {
    /// Its name, without the experiment's: case and preset.
    pub name: String,
    /// What one sees.
    pub text: String,
}

/// Why a figure is not the paper's.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explanation {
    /// Which one.
    pub figure: String,
    /// Why.
    pub text: String,
}

/// Reads a file of TOML.
///
/// # Errors
/// The file, the line and the reason.
pub fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T> {
    let text = std::fs::read_to_string(path).map_err(|e| Failure::file(path, e))?;
    parse(&text).map_err(|e| Failure::file(path, e))
}

/// What the text of such a file says.
///
/// # Errors
/// The line and the reason.
pub fn parse<T: for<'de> Deserialize<'de>>(text: &str) -> std::result::Result<T, toml::de::Error> {
    toml::from_str(text)
}
