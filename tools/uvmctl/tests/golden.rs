// SPDX-License-Identifier: GPL-2.0
//! Every table, CSV and JSON output, from saved documents, against what is recorded in `tests/golden`.
//! `UPDATE_GOLDEN=1` records it anew; look at the difference before it is committed.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use std::path::PathBuf;
use std::process::{Command, Output};

fn tests() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// The command with a document of `tests/data`.
fn from(document: &str, args: &str) -> Output {
    let file = tests().join(format!("data/{document}.json"));
    Command::new(env!("CARGO_BIN_EXE_uvmctl"))
        .args(args.split_whitespace())
        .arg("--from")
        .arg(file)
        .output()
        .unwrap()
}

/// All that a command gives: text, and what went wrong.
fn whole(o: &Output) -> String {
    let mut text = String::from_utf8(o.stdout.clone()).unwrap();
    if o.status.code() != Some(0) {
        text.push_str(&format!(
            "(exit {})\n{}",
            o.status.code().unwrap(),
            String::from_utf8(o.stderr.clone()).unwrap()
        ));
    }
    let version = concat!("\"tool_version\":\"", env!("CARGO_PKG_VERSION"), "\"");
    text.replace(version, "\"tool_version\":\"VERSION\"")
}

/// Document, command: each is recorded as a table, with exact bytes, as CSV and as JSON.
const READERS: &[(&str, &str)] = &[
    ("status", ""),
    ("empty-status", "status"),
    ("gpu-list", "gpu list"),
    ("empty-gpu-list", "gpu list"),
    ("gpu-show", "gpu show 0"),
    ("topo", "topo"),
    ("empty-topo", "topo"),
    ("mem", "mem show"),
    ("empty-mem", "mem show"),
    ("client-list", "client list"),
    ("empty-client-list", "client list"),
    ("client-list-others", "client list"),
    ("client-show", "client show 71"),
    ("range", "range show 71"),
    ("empty-range", "range show 71"),
    ("policy-list", "policy list"),
    ("empty-policy-list", "policy list"),
    ("policy-show", "policy show"),
    ("empty-policy-show", "policy show"),
    ("stat", "stat"),
    ("empty-stat", "stat"),
    ("stat-loop", "stat -l 1"),
    ("latency", "stat --latency"),
    ("latency-loop", "stat --latency -l 1"),
    ("empty-latency", "stat --latency"),
    ("quota", "quota show"),
    ("empty-quota", "quota show"),
    ("events", "events"),
    ("trace-report", "trace report"),
    ("empty-trace-report", "trace report"),
    ("top", "top -b"),
    ("empty-top", "top"),
    ("run", "run random"),
    ("run-list", "run --list"),
    ("demo", "demo"),
    ("empty-demo", "demo"),
    ("bench", "bench harvest"),
    ("empty-bench", "bench harvest"),
    ("doctor", "doctor"),
    ("doctor-ok", "doctor"),
    ("empty-doctor", "doctor"),
    ("version", "version"),
];

/// Others: name, document, command.
const MORE: &[(&str, &str, &str)] = &[
    (
        "client-fields",
        "client-list",
        "client list --fields name,pid,gpu_bytes",
    ),
    (
        "client-fields-csv",
        "client-list",
        "client list --csv --fields name,managed_bytes",
    ),
    (
        "client-fields-csv-bare",
        "client-list",
        "client list --csv --no-header --fields pid",
    ),
    ("client-bare", "client-list", "client list --no-header"),
    ("status-others", "status-others", "status"),
    ("top-others", "top-others", "top"),
    ("stat-all", "stat", "stat --all"),
    ("latency-all", "latency", "stat --latency --all"),
    ("latency-bars", "latency", "stat --latency -v"),
    ("topo-color", "topo", "topo --color always"),
    ("doctor-color", "doctor", "doctor --color always"),
    ("doctor-quiet", "doctor", "doctor -q"),
    ("topo-verbose", "topo", "topo -v"),
    ("json-verbose", "topo", "topo -v --color always --json"),
    ("from-acts-quiet", "mem", "quota set -g 0 --lend on -q"),
    (
        "stat-fields",
        "stat-loop",
        "stat -l --fields interval_ns,faults,evictions,bytes_h2d",
    ),
    (
        "stat-count",
        "stat-loop",
        "stat -l -c 1 --csv --fields faults",
    ),
    (
        "events-fields",
        "events",
        "events --fields seq,type,length_bytes -c 2",
    ),
    ("fields-help", "mem", "mem show --fields help"),
    ("fields-unknown", "mem", "mem show --fields gpu,fre"),
    ("from-other", "mem", "gpu list"),
    ("from-acts", "mem", "policy set a=1"),
    ("gpu-show-other", "gpu-show", "gpu show 7"),
    ("client-show-other", "client-show", "client show 72"),
    ("policy-show-pid", "policy-show", "policy show --pid 71"),
    ("policy-show-other", "policy-show", "policy show --gpu 0"),
    ("quota-gpu", "quota", "quota show --gpu 1"),
    ("quota-other", "quota", "quota show --gpu 0000:00:02.0"),
    (
        "stat-gpu",
        "stat-loop",
        "stat --gpu 0 --csv --fields scope,faults",
    ),
    ("stat-other", "stat-loop", "stat --gpu 0,1"),
    ("stat-other-pid", "stat", "stat --pid 71"),
    ("latency-other", "latency", "stat --latency --gpu 0"),
    (
        "range-some",
        "range",
        "range show 71 7f0000200000-7f0000400000",
    ),
    ("range-other", "range", "range show 72"),
];

#[test]
fn output_is_as_recorded() {
    let mut wrong = Vec::new();
    let mut check = |name: String, document: &str, args: &str| {
        let file = tests().to_str().unwrap().to_owned();
        let text = whole(&from(document, args)).replace(&file, "TESTS");
        let path = tests().join(format!("golden/{name}.txt"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        let recorded = std::fs::read_to_string(&path).unwrap_or_default();
        if recorded != text {
            wrong.push(format!("{name}\n--- recorded\n{recorded}--- now\n{text}"));
        }
    };
    for (document, args) in READERS {
        for (kind, flags) in [
            ("table", ""),
            ("exact", "--bytes"),
            ("csv", "--csv"),
            ("json", "--json"),
        ] {
            // All counters are columns of stat: a new one must not change what is recorded.
            let flags = match (kind, args.split(' ').next()) {
                ("csv", Some("stat")) if !args.contains("latency") => {
                    "--csv --fields scope,time_ns,interval_ns,faults,bytes_h2d"
                }
                _ => flags,
            };
            check(
                format!("{kind}/{document}"),
                document,
                &format!("{args} {flags}"),
            );
        }
    }
    for (name, document, args) in MORE {
        check(format!("more/{name}"), document, args);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `--from FILE COMMAND` is `COMMAND --from FILE`.
#[test]
fn from_may_come_first() {
    for (document, args) in READERS.iter().chain([&("trace-report", "trace report")]) {
        let file = tests().join(format!("data/{document}.json"));
        let first = Command::new(env!("CARGO_BIN_EXE_uvmctl"))
            .arg("--from")
            .arg(file)
            .args(args.split_whitespace())
            .output()
            .unwrap();
        assert_eq!(whole(&first), whole(&from(document, args)), "{args}");
    }
    let none = Command::new(env!("CARGO_BIN_EXE_uvmctl"))
        .args(["trace", "report"])
        .output()
        .unwrap();
    assert_eq!(none.status.code(), Some(2));
    assert!(whole(&none).contains("a recording is wanted"));
}

/// Reading what a command wrote and writing it again changes nothing: no key is lost on the way.
#[test]
fn documents_survive_a_round_trip() {
    for (document, args) in READERS {
        let o = from(document, &format!("{args} --json"));
        let saved = std::fs::read_to_string(tests().join(format!("data/{document}.json"))).unwrap();
        let read = |text: &str| -> Vec<serde_json::Value> {
            serde_json::Deserializer::from_str(text)
                .into_iter()
                .map(|d| d.unwrap())
                .collect()
        };
        let strip = |mut v: serde_json::Value| {
            let map = v.as_object_mut().unwrap();
            // What was wrong is found again, by this version.
            map.remove("error");
            map.remove("tool_version");
            v
        };
        let now: Vec<_> = read(std::str::from_utf8(&o.stdout).unwrap())
            .into_iter()
            .map(strip)
            .collect();
        let was: Vec<_> = read(&saved).into_iter().map(strip).collect();
        assert_eq!(now, was, "{document}");
    }
}

/// The envelope is one and the same.
#[test]
fn every_document_has_the_whole_envelope() {
    for (document, args) in READERS {
        let o = from(document, &format!("{args} --json"));
        for line in std::str::from_utf8(&o.stdout).unwrap().lines() {
            let v: serde_json::Value = serde_json::from_str(line).unwrap();
            let (schema, number) = v["schema"].as_str().unwrap().split_once('/').unwrap();
            assert!(schema.starts_with("uvmctl."), "{document}");
            let now = if schema == "uvmctl.topo" { "2" } else { "1" };
            assert_eq!(number, now, "{document}");
            assert!(v["tool_version"].is_string(), "{document}");
            assert_eq!(v["driver_version"], "0.1.0", "{document}");
            assert!(
                v["time_ns"].as_u64().unwrap() >= 1_790_000_000_123_456_789,
                "{document}"
            );
            assert!(v["warnings"].is_array(), "{document}");
            assert!(!v["data"].is_null(), "{document}");
        }
    }
}

/// Scalars of a JSON row are fields of CSV too: adding one to the model and not to the row is found here.
#[test]
fn every_plain_key_of_a_row_is_a_field() {
    let inner = |v: &serde_json::Value, document: &str| match document.trim_start_matches("empty-")
    {
        "policy-list" => v["knobs"][0].clone(),
        "policy-show" => v["values"][0].clone(),
        "trace-report" => v["lines"][0].clone(),
        "topo" => v["links"][0].clone(),
        "latency" | "latency-loop" => v["paths"][0].clone(),
        "top" => v["gpus"][0].clone(),
        "status" => serde_json::Value::Null,
        _ if v.is_array() => v[0].clone(),
        _ => v.clone(),
    };
    for (document, args) in READERS {
        let o = from(document, &format!("{args} --json"));
        let line = std::str::from_utf8(&o.stdout)
            .unwrap()
            .lines()
            .next()
            .unwrap();
        let v: serde_json::Value = serde_json::from_str(line).unwrap();
        let help = from(document, &format!("{args} --fields help"));
        assert_eq!(help.status.code(), Some(0), "{document}");
        let fields = String::from_utf8(help.stdout).unwrap();
        let fields: Vec<&str> = fields.lines().collect();
        assert!(!fields.is_empty());
        let row = inner(&v["data"], document);
        for (key, value) in row.as_object().into_iter().flatten() {
            if !value.is_object() && !["choices", "buckets"].contains(&key.as_str()) {
                assert!(fields.contains(&key.as_str()), "{document}: {key}");
            }
        }
    }
}

#[test]
fn broken_files_are_named() {
    let dir = std::env::temp_dir().join(format!("uvmctl-broken-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    for (name, text, says) in [
        ("empty", "", "there is no document in it"),
        ("text", "hello", "expected value"),
        ("cut", r#"{"schema":"uvmctl.mem.show/1","data":["#, "EOF"),
        (
            "wrong",
            r#"{"schema":"uvmctl.mem.show/1","data":[{"gpu":"x"}]}"#,
            "invalid type",
        ),
        ("bare", "[1,2]", "invalid"),
    ] {
        let file = dir.join(name);
        std::fs::write(&file, text).unwrap();
        let o = Command::new(env!("CARGO_BIN_EXE_uvmctl"))
            .args(["mem", "show", "--from"])
            .arg(&file)
            .output()
            .unwrap();
        let err = String::from_utf8(o.stderr).unwrap();
        assert_eq!(o.status.code(), Some(1), "{name}: {err}");
        assert!(err.contains(says) && err.contains(name), "{name}: {err}");
        assert!(o.stdout.is_empty());
    }
    std::fs::remove_dir_all(&dir).unwrap();
    let o = Command::new(env!("CARGO_BIN_EXE_uvmctl"))
        .args(["mem", "show", "--from", "/nonexistent"])
        .output()
        .unwrap();
    assert_eq!(o.status.code(), Some(1));
}
