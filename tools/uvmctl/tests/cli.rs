// SPDX-License-Identifier: GPL-2.0
//! The program as its users see it: exit codes, errors, JSON, the output that needs no device.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]

use std::path::Path;
use std::process::{Command, Output};

fn uvmctl(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_uvmctl"))
        .args(args)
        .output()
        .unwrap()
}

fn data(name: &str) -> String {
    format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn without_a_driver_every_command_says_so() {
    if Path::new("/dev/huvm").exists() {
        return;
    }
    for args in [
        &[][..],
        &["gpu", "list"],
        &["gpu", "show", "0"],
        &["topo"],
        &["mem", "show"],
        &["client", "list"],
        &["range", "show", "1"],
        &["policy", "list"],
        &["policy", "show"],
        &["policy", "set", "--preset", "stock-595"],
        &["stat"],
        &["events"],
        &["top", "-l", "0.1", "-c", "1"],
        &["run", "scan"],
        &["demo"],
    ] {
        let o = uvmctl(args);
        assert_eq!(o.status.code(), Some(9), "{args:?}");
        assert_eq!(
            text(&o.stderr).lines().last(),
            Some(
                "uvmctl: cannot open /dev/huvm: the driver is not loaded; \
                 hint: load it with 'insmod huvm.ko', then look at 'uvmctl doctor'"
            ),
            "{args:?}"
        );
        assert!(o.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn json_errors_are_documents() {
    if Path::new("/dev/huvm").exists() {
        return;
    }
    let o = uvmctl(&["gpu", "list", "--json"]);
    let doc: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
    assert_eq!(doc["schema"], "uvmctl.error/1");
    assert_eq!(doc["error"]["code"], 9);
    assert_eq!(doc["error"]["name"], "not-loaded");
}

#[test]
fn bad_usage_is_two() {
    for args in [
        &["nonsense"][..],
        &["policy", "set"],
        &["run", "scan", "--ratio", "1", "--size", "1M"],
        &["run", "scan", "--size", "many"],
        &["top", "-l", "0"],
        &["trace", "record"],
        &["trace", "record", "-o", "x", "-s", "0"],
    ] {
        assert_eq!(uvmctl(args).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn a_recording_is_summarised_offline() {
    let o = uvmctl(&["trace", "report", &data("trace.jsonl")]);
    assert_eq!(o.status.code(), Some(0));
    assert_eq!(
        text(&o.stdout),
        std::fs::read_to_string(data("trace-report.txt")).unwrap()
    );
    let o = uvmctl(&["trace", "report", "--json", &data("trace.jsonl")]);
    let doc: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
    assert_eq!(doc["schema"], "uvmctl.trace.report/1");
    assert_eq!(doc["data"]["events"], 6);
    assert_eq!(doc["data"]["lost"], 2);
    assert_eq!(doc["data"]["busiest"][0]["block"], "0x7f0000200000");
}

#[test]
fn a_broken_recording_is_named_with_its_line() {
    let path = std::env::temp_dir().join(format!("uvmctl-test-{}", std::process::id()));
    std::fs::write(&path, "{\"seq\":1}\n").unwrap();
    let o = uvmctl(&["trace", "report", path.to_str().unwrap()]);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(o.status.code(), Some(1));
    assert!(text(&o.stderr).contains(":1: missing field"));
    let o = uvmctl(&["trace", "report", "/nonexistent"]);
    assert_eq!(o.status.code(), Some(1));
}

#[test]
fn completion_and_man_pages_know_every_command() {
    let commands = [
        "gpu",
        "topo",
        "mem",
        "client",
        "range",
        "policy",
        "stat",
        "events",
        "top",
        "trace",
        "run",
        "demo",
        "doctor",
        "completion",
        "man",
    ];
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&uvmctl(&["completion", shell]).stdout);
        for c in commands {
            assert!(script.contains(c), "{shell}: {c}");
        }
    }
    let dir = std::env::temp_dir().join(format!("uvmctl-man-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    assert_eq!(
        uvmctl(&["man", dir.to_str().unwrap()]).status.code(),
        Some(0)
    );
    for c in commands {
        assert!(dir.join(format!("uvmctl-{c}.1")).exists(), "{c}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}
