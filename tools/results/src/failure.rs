// SPDX-License-Identifier: GPL-2.0
//! Errors of the tool.

use std::path::Path;

/// Why a command failed. The text says what was wrong and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Bad usage: exit code 2.
    Usage(String),
    /// A file is missing, or what is in it is no result: exit code 1.
    File(String),
    /// The check that was asked for failed: exit code 1.
    Check(String),
}

/// Result with [`Failure`].
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// A file, and what is wrong with it.
    pub fn file(path: &Path, e: impl std::fmt::Display) -> Failure {
        Failure::File(format!("{}: {e}", path.display()))
    }

    /// Exit code, as uvmctl's.
    pub fn code(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::File(_) | Failure::Check(_) => 1,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Usage(t) | Failure::File(t) | Failure::Check(t) => f.write_str(t),
        }
    }
}

impl std::error::Error for Failure {}
