// SPDX-License-Identifier: GPL-2.0
//! All that the tool reads of others, as functions of text: for tests that give it anything (`tests/fuzz/bodies/tool.rs`). Nothing here
//! opens a file or the driver.

use crate::cli::{self, Cli};
use crate::cmd::bench::{lineup, tape};
use crate::cmd::{self, client, doctor, policy, quota, trace};
use crate::out::Out;
use crate::{host, units};
use clap::Parser;
use libhuvm::device::Knob;

/// What a command prints of a saved document, as `uvmctl LINE --from FILE` does, and its exit code.
pub fn document(line: &str, text: &str) -> (u8, String) {
    // Without --from a command that acts would act.
    let words = line.split_whitespace().chain(["--from", "-"]);
    let args = match Cli::try_parse_from(["uvmctl"].into_iter().chain(words)) {
        Ok(args) => args,
        Err(e) => return (2, e.to_string()),
    };
    told(Out::given(&args, text), |out| cmd::run(&args, out))
}

/// What `trace report` prints of a recording, and its exit code; a replay's accesses are made of it as well.
pub fn recording(text: &str) -> (u8, String) {
    match Cli::try_parse_from(["uvmctl"]) {
        Ok(args) => told(Out::given(&args, ""), |out| {
            trace::given(out, text).map(|()| 0)
        }),
        Err(e) => (2, e.to_string()),
    }
}

fn told(out: Out, run: impl FnOnce(&Out) -> crate::exit::Result<u8>) -> (u8, String) {
    let code = match run(&out) {
        Ok(code) => code,
        Err(e) => {
            out.error(&e);
            e.code()
        }
    };
    (code, out.into_kept())
}

/// A command line, and each kind of value that stands in one. Nothing is done.
pub fn arguments(text: &str) {
    let _usage = Cli::try_parse_from(["uvmctl"].into_iter().chain(text.split_whitespace()));
    if let Ok((from, to)) = client::addresses(text) {
        assert!(from < to, "an empty range passed");
    }
    let _values = (
        cli::parse_number(text),
        quota::limit(text),
        lineup::assignment(text),
    );
    // One with words for its values, the least of which is not 0, and one without.
    let knob = |name: &str, choices: &[&str]| Knob {
        index: 0,
        name: name.into(),
        unit: String::new(),
        doc: String::new(),
        choices: choices.iter().map(|c| (*c).into()).collect(),
        min: 1,
        max: 2,
        default: 1,
        scopes: 0,
    };
    let knobs = [knob("k", &["off", "on"]), knob("n", &[])];
    if let Ok((knob, value)) = policy::assignment(&knobs, text) {
        assert!((knob.min..=knob.max).contains(&value), "out of range");
        assert_eq!(knob.parse(&knob.show(value)), Some(value));
    }
    if let Ok(n) = units::parse_bytes(text) {
        assert_eq!(units::parse_bytes(&n.to_string()), Ok(n));
        assert!(!units::bytes(n).is_empty() && !units::time(n).is_empty());
    }
}

/// Files of the kernel's whose lines have names of tasks, which are anybody's words.
pub fn kernel(text: &str) {
    let _listed = (host::field(text, "MemTotal"), doctor::listed(text));
    for line in text.lines() {
        let _thread = libhuvm::threads::purpose(line, 0);
    }
}

/// A tape of a workload, from its file. What is one is written again as it was.
pub fn recorded_passes(bytes: &[u8]) {
    if let Some(passes) = tape::decode(bytes) {
        assert_eq!(tape::encode(&passes).as_deref(), Some(bytes));
    }
}
