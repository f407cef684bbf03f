// SPDX-License-Identifier: GPL-2.0
//! Errors of the tool and their exit codes, which match nvidia-smi's where the meaning is the same.

use libhuvm::Error;
use std::path::Path;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The library said so.
    Huvm(Error),
    /// Bad usage.
    Usage(String),
    /// Bad usage of which more is known than that there is `--help`: what to do.
    Advised(String, String),
    /// No such GPU, client, process, range or knob.
    NotFound(String, String),
    /// The driver, the device or the scope cannot do it, and what can.
    NotSupported(String, String),
    /// A check failed: wrong data.
    Wrong(String),
    /// Something else went wrong, and what to do.
    Failed(String, String),
    /// Checks of `doctor` failed, each of which says what to do.
    Checks(usize),
    /// A file could not be read or written.
    File(String),
    /// Some of it was done before this happened.
    Partly(Box<Failure>),
    /// The reader of our output went away: the end, and all is well.
    Closed,
}

/// What `--help` and the man pages say about exit codes; a test holds them and [`Failure::code`] together.
pub(crate) const CODES: &[(u8, &str, &str)] = &[
    (
        0,
        "done",
        "done; also when the reader of the output went away",
    ),
    (
        1,
        "failed",
        "failed, none of the below: wrong data, a file, a failed check of doctor",
    ),
    (
        2,
        "usage",
        "bad usage: unknown option or field, value out of range",
    ),
    (3, "not-supported", "not supported by this driver or device"),
    (4, "not-permitted", "not permitted"),
    (
        5,
        "partly-done",
        "partly done: what was done is in the output",
    ),
    (
        6,
        "not-found",
        "no such GPU, client, process, range, knob, preset or workload",
    ),
    (7, "timed-out", "timed out"),
    (9, "not-loaded", "driver not loaded"),
    (
        13,
        "abi-mismatch",
        "tool and driver speak different interface versions",
    ),
    (15, "device-lost", "device lost"),
];

/// Result with [`Failure`].
pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        Failure::Huvm(e)
    }
}

impl Failure {
    /// A file, and what is wrong with it.
    pub(crate) fn file(path: &Path, e: impl std::fmt::Display) -> Self {
        Failure::File(format!("{}: {e}", path.display()))
    }

    /// Exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Huvm(Error::NotLoaded) => 9,
            Failure::Huvm(Error::NotPermitted) => 4,
            Failure::Huvm(Error::Abi { .. }) => 13,
            Failure::Huvm(Error::Argument(_)) | Failure::Usage(_) | Failure::Advised(..) => 2,
            Failure::NotFound(..) => 6,
            Failure::NotSupported(..) => 3,
            Failure::Huvm(e) => match e.errno() {
                Some(1 | 13) => 4,     // EPERM, EACCES
                Some(2 | 3 | 19) => 6, // ENOENT, ESRCH, ENODEV
                Some(5) => 15,         // EIO
                Some(34) => 2,         // ERANGE
                Some(25 | 95) => 3,    // ENOTTY, EOPNOTSUPP
                Some(110) => 7,        // ETIMEDOUT
                _ => 1,
            },
            Failure::Wrong(_) | Failure::Failed(..) | Failure::Checks(_) | Failure::File(_) => 1,
            Failure::Partly(_) => 5,
            Failure::Closed => 0,
        }
    }

    /// A word for programs.
    pub(crate) fn name(&self) -> &'static str {
        let code = self.code();
        let known = CODES.iter().find(|(c, ..)| *c == code);
        known.map_or("failed", |(_, name, _)| name)
    }

    /// What to do next, for who called `command`: its words, such as `uvmctl policy set`.
    pub(crate) fn hint(&self, command: &str) -> Option<String> {
        Some(match self {
            Failure::Huvm(Error::Argument(_)) | Failure::Usage(_) => {
                format!("see '{command} --help'")
            }
            Failure::Huvm(e) => e.hint()?.into(),
            Failure::NotFound(_, hint)
            | Failure::NotSupported(_, hint)
            | Failure::Advised(_, hint)
            | Failure::Failed(_, hint) => hint.clone(),
            Failure::Wrong(_) => {
                "try it again; 'uvmctl doctor' and the kernel's log (dmesg) may say why".into()
            }
            Failure::Checks(_) => "the line of each says what to do".into(),
            Failure::File(_) => "see that it is there and whole, and that you may use it".into(),
            Failure::Partly(e) => return e.hint(command),
            Failure::Closed => return None,
        })
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Huvm(e) => e.fmt(f),
            Failure::Usage(t)
            | Failure::Advised(t, _)
            | Failure::NotFound(t, _)
            | Failure::NotSupported(t, _)
            | Failure::Failed(t, _)
            | Failure::Wrong(t)
            | Failure::File(t) => f.write_str(t),
            Failure::Checks(1) => f.write_str("1 check failed"),
            Failure::Checks(n) => write!(f, "{n} checks failed"),
            Failure::Partly(e) => write!(f, "only partly done: {e}"),
            Failure::Closed => f.write_str("the reader of the output went away"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn os(errno: i32) -> Failure {
        Failure::Huvm(Error::Os {
            what: "asking".into(),
            errno,
        })
    }

    #[test]
    fn every_failure_has_its_code_and_name() {
        let abi = Error::Abi {
            driver: 2,
            library: 1,
        };
        for (failure, code, name) in [
            (Failure::Closed, 0, "done"),
            (Failure::Wrong("x".into()), 1, "failed"),
            (Failure::Failed("x".into(), "y".into()), 1, "failed"),
            (Failure::Checks(2), 1, "failed"),
            (Failure::File("x".into()), 1, "failed"),
            (Failure::Huvm(Error::Launch("x".into())), 1, "failed"),
            (os(12), 1, "failed"),
            (Failure::Usage("x".into()), 2, "usage"),
            (Failure::Advised("x".into(), "y".into()), 2, "usage"),
            (Failure::Huvm(Error::Argument("x".into())), 2, "usage"),
            (os(34), 2, "usage"),
            (os(25), 3, "not-supported"),
            (os(95), 3, "not-supported"),
            (Failure::Huvm(Error::NotPermitted), 4, "not-permitted"),
            (os(1), 4, "not-permitted"),
            (Failure::Partly(Box::new(os(1))), 5, "partly-done"),
            (
                Failure::NotSupported("x".into(), "y".into()),
                3,
                "not-supported",
            ),
            (Failure::NotFound("x".into(), "y".into()), 6, "not-found"),
            (os(3), 6, "not-found"),
            (os(19), 6, "not-found"),
            (os(110), 7, "timed-out"),
            (Failure::Huvm(Error::NotLoaded), 9, "not-loaded"),
            (Failure::Huvm(abi), 13, "abi-mismatch"),
            (os(5), 15, "device-lost"),
            (Failure::Huvm(Error::GpuLost), 15, "device-lost"),
        ] {
            assert_eq!((failure.code(), failure.name()), (code, name), "{failure}");
        }
    }

    #[test]
    fn a_failure_says_what_to_do_next() {
        let hint = |f: Failure| f.hint("uvmctl policy set");
        assert_eq!(hint(Failure::Closed), None);
        let help = Some("see 'uvmctl policy set --help'".to_owned());
        assert_eq!(hint(Failure::Usage("x".into())), help);
        assert_eq!(hint(Failure::Huvm(Error::Argument("x".into()))), help);
        for failure in [
            Failure::Wrong("x".into()),
            Failure::Failed("x".into(), "y".into()),
            Failure::Advised("x".into(), "y".into()),
            Failure::Checks(1),
            Failure::File("x".into()),
            Failure::Huvm(Error::Launch("x".into())),
            Failure::Huvm(Error::Fatal(0x7000)),
            Failure::Huvm(Error::Ecc(0x7000)),
            os(25),
            os(95),
            Failure::Huvm(Error::NoRoom),
            Failure::Huvm(Error::GpuLost),
            Failure::Partly(Box::new(os(1))),
        ] {
            let text = failure.to_string();
            assert!(hint(failure).is_some_and(|h| !h.is_empty()), "{text}");
        }
        // Nobody knows of every errno.
        assert_eq!(hint(os(4)), None);
    }
}
