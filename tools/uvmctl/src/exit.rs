// SPDX-License-Identifier: GPL-2.0
//! Errors of the tool and their exit codes, which match nvidia-smi's where the meaning is the same.

use libhuvm::Error;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The library said so.
    Huvm(Error),
    /// Bad usage.
    Usage(String),
    /// No such GPU, client, range or knob.
    NotFound(String, String),
    /// A check failed: wrong data.
    Wrong(String),
    /// A file could not be read or written.
    File(String),
}

/// Result with [`Failure`].
pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        Failure::Huvm(e)
    }
}

impl Failure {
    /// Exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Huvm(Error::NotLoaded) => 9,
            Failure::Huvm(Error::NotPermitted) => 4,
            Failure::Huvm(Error::Abi { .. }) => 13,
            Failure::Huvm(Error::Argument(_)) | Failure::Usage(_) => 2,
            Failure::NotFound(..) => 6,
            Failure::Huvm(e) => match e.errno() {
                Some(1 | 13) => 4,  // EPERM, EACCES
                Some(2 | 19) => 6,  // ENOENT, ENODEV
                Some(5) => 15,      // EIO
                Some(34) => 2,      // ERANGE
                Some(25 | 95) => 3, // ENOTTY, EOPNOTSUPP
                Some(110) => 7,     // ETIMEDOUT
                _ => 1,
            },
            Failure::Wrong(_) | Failure::File(_) => 1,
        }
    }

    /// A word for programs.
    pub(crate) fn name(&self) -> &'static str {
        match self.code() {
            2 => "usage",
            3 => "not-supported",
            4 => "not-permitted",
            6 => "not-found",
            7 => "timed-out",
            9 => "not-loaded",
            13 => "abi-mismatch",
            15 => "device-lost",
            _ => "failed",
        }
    }

    /// What to do next.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Failure::Huvm(e) => e.hint().map(str::to_owned),
            Failure::NotFound(_, hint) => Some(hint.clone()),
            Failure::Usage(_) => Some("see 'uvmctl --help'".into()),
            _ => None,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Huvm(e) => e.fmt(f),
            Failure::Usage(t) | Failure::NotFound(t, _) | Failure::Wrong(t) | Failure::File(t) => {
                f.write_str(t)
            }
        }
    }
}
