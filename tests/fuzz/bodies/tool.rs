// SPDX-License-Identifier: GPL-2.0
//! What `uvmctl` reads: saved documents (`--from`), recordings, tapes, arguments, lists of the kernel's. The first byte says which. What a
//! file says is printed in every form: sums of what it says, too, must not break.

use serde_json::Value;

/// Documents as they should be, and the commands that read them: the search need not find JSON.
const DOCUMENTS: &[(&str, &str)] = &[
    (
        "status",
        include_str!("../../../tools/uvmctl/tests/data/status.json"),
    ),
    (
        "gpu list",
        include_str!("../../../tools/uvmctl/tests/data/gpu-list.json"),
    ),
    (
        "gpu show 0",
        include_str!("../../../tools/uvmctl/tests/data/gpu-show.json"),
    ),
    (
        "topo",
        include_str!("../../../tools/uvmctl/tests/data/topo.json"),
    ),
    (
        "mem show",
        include_str!("../../../tools/uvmctl/tests/data/mem.json"),
    ),
    (
        "client list",
        include_str!("../../../tools/uvmctl/tests/data/client-list.json"),
    ),
    (
        "client show 71",
        include_str!("../../../tools/uvmctl/tests/data/client-show.json"),
    ),
    (
        "range show 71",
        include_str!("../../../tools/uvmctl/tests/data/range.json"),
    ),
    (
        "policy list",
        include_str!("../../../tools/uvmctl/tests/data/policy-list.json"),
    ),
    (
        "policy show",
        include_str!("../../../tools/uvmctl/tests/data/policy-show.json"),
    ),
    (
        "stat",
        include_str!("../../../tools/uvmctl/tests/data/stat.json"),
    ),
    (
        "stat -a -l 1",
        include_str!("../../../tools/uvmctl/tests/data/stat-loop.json"),
    ),
    (
        "stat --latency",
        include_str!("../../../tools/uvmctl/tests/data/latency.json"),
    ),
    (
        "stat --latency -l 1",
        include_str!("../../../tools/uvmctl/tests/data/latency-loop.json"),
    ),
    (
        "quota show",
        include_str!("../../../tools/uvmctl/tests/data/quota.json"),
    ),
    (
        "events",
        include_str!("../../../tools/uvmctl/tests/data/events.json"),
    ),
    (
        "trace report",
        include_str!("../../../tools/uvmctl/tests/data/trace-report.json"),
    ),
    (
        "top -b",
        include_str!("../../../tools/uvmctl/tests/data/top.json"),
    ),
    (
        "run random",
        include_str!("../../../tools/uvmctl/tests/data/run.json"),
    ),
    (
        "run --list",
        include_str!("../../../tools/uvmctl/tests/data/run-list.json"),
    ),
    (
        "demo",
        include_str!("../../../tools/uvmctl/tests/data/demo.json"),
    ),
    (
        "bench harvest",
        include_str!("../../../tools/uvmctl/tests/data/bench.json"),
    ),
    (
        "doctor",
        include_str!("../../../tools/uvmctl/tests/data/doctor.json"),
    ),
    (
        "version",
        include_str!("../../../tools/uvmctl/tests/data/version.json"),
    ),
];

const RECORDING: &str = include_str!("../../../tools/uvmctl/tests/data/trace.jsonl");

/// The exit codes of what reads a file: done, failed, usage, and nothing of that name in it.
fn check((code, text): (u8, String)) {
    assert!(matches!(code, 0 | 1 | 2 | 6), "{code}: {text}");
    assert!(!text.is_empty() || code == 0);
}

/// A document, in the three forms.
fn printed(line: &str, text: &str) {
    for form in ["", " -v", " --bytes", " --csv", " --json"] {
        check(uvmctl::given::document(&format!("{line}{form}"), text));
    }
}

/// Changes what the tape says of a document: its numbers, words, lists, and whether they are there.
struct Change<'a> {
    tape: &'a [u8],
}

impl Change<'_> {
    fn next(&mut self) -> u8 {
        let Some((first, rest)) = self.tape.split_first() else {
            return 0;
        };
        self.tape = rest;
        *first
    }

    fn number(&mut self) -> Value {
        let kind = self.next();
        let bits = u64::from_le_bytes([0; 8].map(|_| self.next()));
        match kind % 8 {
            0 => 0u64.into(),
            1 => u64::MAX.into(),
            2 => bits.into(),
            3 => (1u64 << (bits % 64)).into(),
            4 => i64::MIN.into(),
            5 => (u32::MAX as u64).into(),
            6 => f64::from_bits(bits).into(),
            _ => (bits % 1000).into(),
        }
    }

    fn of(&mut self, v: &mut Value) {
        let how = self.next();
        match v {
            // Most stay as they are, so that all of a document is read.
            Value::Number(_) if how % 4 == 1 => *v = self.number(),
            Value::String(s) if how % 8 == 1 => {
                let n = usize::from(self.next() % 12);
                let word: Vec<u8> = (0..n).map(|_| self.next()).collect();
                *s = String::from_utf8_lossy(&word).into_owned();
            }
            Value::Null if how % 2 == 1 => *v = self.number(),
            Value::Array(list) => {
                match (how % 16, list.first().cloned()) {
                    (1, _) => list.clear(),
                    (2, Some(first)) => list.insert(0, first),
                    (3, _) => {
                        list.pop();
                    }
                    _ => {}
                }
                list.iter_mut().for_each(|v| self.of(v));
            }
            Value::Object(map) => {
                let gone = map.keys().nth(usize::from(how / 8)).cloned();
                if let (1, Some(key)) = (how % 8, gone) {
                    map.remove(&key);
                }
                map.values_mut().for_each(|v| self.of(v));
            }
            _ if how == 255 => *v = Value::Null,
            _ => {}
        }
    }

    fn of_text(&mut self, text: &str) -> String {
        let mut out = String::new();
        for d in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
            let Ok(mut d) = d else { break };
            match d.get_mut("data") {
                Some(data) => self.of(data),
                None => self.of(&mut d),
            }
            out.push_str(&d.to_string());
            out.push('\n');
        }
        out
    }
}

pub(crate) fn body(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else {
        return;
    };
    if kind % 6 == 5 {
        return uvmctl::given::recorded_passes(rest);
    }
    if let (0 | 1, Some((which, tape))) = (kind % 6, rest.split_first()) {
        let (line, as_is) = DOCUMENTS[usize::from(*which) % DOCUMENTS.len()];
        return match (kind % 6, std::str::from_utf8(tape)) {
            (0, Ok(text)) => printed(line, text),
            (0, Err(_)) => {}
            _ => printed(line, &Change { tape }.of_text(as_is)),
        };
    }
    let changed = kind % 6 == 2 && kind / 6 % 2 == 1;
    if changed {
        let text = Change { tape: rest }.of_text(RECORDING);
        return check(uvmctl::given::recording(&text));
    }
    let Ok(text) = std::str::from_utf8(rest) else {
        return;
    };
    match kind % 6 {
        2 => check(uvmctl::given::recording(text)),
        3 => uvmctl::given::arguments(text),
        _ => uvmctl::given::kernel(text),
    }
}
