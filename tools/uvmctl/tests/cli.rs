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
        &["status"],
        &["topo"],
        &["mem", "show"],
        &["client", "list"],
        &["range", "show", "1"],
        &["policy", "list"],
        &["policy", "show"],
        &["policy", "set", "--preset", "stock-595"],
        &["stat"],
        &["stat", "--latency"],
        &["stat", "--pid", "1"],
        &["policy", "show", "--pid", "1"],
        &["policy", "reset"],
        &["quota", "show"],
        &["quota", "set", "-g", "all", "--limit", "25%"],
        &["inject", "copy-hang", "-g", "0"],
        &["events"],
        &["top", "-l", "0.1", "-c", "1"],
        &["run", "scan"],
        &["run", "pagerank:0", "stream-triad:1"],
        &["demo"],
        &["demo", "--neighbours"],
        &["bench", "harvest"],
    ] {
        let o = uvmctl(args);
        assert_eq!(o.status.code(), Some(9), "{args:?}");
        assert_eq!(
            text(&o.stderr).lines().last(),
            Some(
                "uvmctl: cannot open /dev/huvm: the driver is not loaded; \
                 hint: load it with 'insmod huvm.ko' (in the guest: /lib/huvm.ko), then look at 'uvmctl doctor'"
            ),
            "{args:?}"
        );
        assert!(o.stdout.is_empty(), "{args:?}");
    }
}

/// The one document of a failed command, and its exit code.
fn failed_json(args: &[&str]) -> (serde_json::Value, i32) {
    let o = uvmctl(args);
    let doc = serde_json::from_slice(&o.stdout).unwrap();
    assert!(text(&o.stderr).starts_with("uvmctl: "), "{args:?}");
    (doc, o.status.code().unwrap())
}

#[test]
fn json_errors_are_documents() {
    if Path::new("/dev/huvm").exists() {
        return;
    }
    let (doc, code) = failed_json(&["gpu", "list", "--json"]);
    assert_eq!(doc["schema"], "uvmctl.error/1");
    assert_eq!(doc["error"]["code"], 9);
    assert_eq!(doc["error"]["name"], "not-loaded");
    assert_eq!(code, 9);
    assert!(doc["driver_version"].is_null() && doc["data"].is_null());
    assert!(doc["time_ns"].as_u64().unwrap() > 1_700_000_000_000_000_000);
    assert!(doc["tool_version"].is_string() && doc["warnings"].is_array());
}

#[test]
fn bad_usage_is_a_document_too() {
    for args in [
        &["-j", "nonsense"][..],
        &["gpu", "lisst", "--json"],
        &["stat", "-aj", "--nope"],
        &["policy", "set", "-j"],
        &["policy", "set", "-nj"],
        &["quota", "set", "-g", "0", "--limit", "101%", "-j"],
        &["stat", "-qj", "--nope"],
        &["quota", "set", "-g", "0", "-j"],
        &["topo", "-q", "-v", "-j"],
        &["topo", "--color", "blue", "-j"],
        &["policy", "show", "--pid", "1", "--gpu", "0", "-j"],
        &["stat", "--latency", "--pid", "1", "-j"],
        &["inject", "gpu-gone", "7", "-g", "0", "-j"],
        &["inject", "fault-reorder-permille", "1001", "-g", "0", "-j"],
        &["run", "scan", "--size", "many", "-j"],
        &["run", "-j"],
        &["run", "scan", "--list", "-j"],
        &["top", "-l", "0", "-j"],
        // None of what says nothing of the rest of the line, and no end before the begin.
        &["run", "scan:0", "pagerank:1", "--gpu", "2", "-j"],
        &["run", "scan", "gather", "--seed", "7", "-j"],
        &["run", "pagerank", "--blocks", "7", "-j"],
        &["bench", "inter-job", "--blocks", "7", "-j"],
        &[
            "bench",
            "inter-job",
            "--record",
            "--tapes",
            "/x",
            "--chunks",
            "40",
            "--workloads",
            "zipf",
            "-j",
        ],
        &["stat", "-c", "0", "-j"],
        &["events", "-c", "0", "-j"],
        &["top", "-c", "0", "-j"],
        &["gpu", "list", "-j", "--csv"],
        &["gpu", "list", "-j", "--fields", "pci"],
        &["completion", "bash", "-j", "--from", "x"],
        &["range", "show", "1", "xyz", "-j"],
        &["gpu", "list", "-j", "--from", &data("mem.json")],
    ] {
        let (doc, code) = failed_json(args);
        assert_eq!((code, &doc["error"]["code"]), (2, &2.into()), "{args:?}");
        assert_eq!(doc["error"]["name"], "usage", "{args:?}");
        assert_ne!(doc["error"]["message"], "", "{args:?}");
    }
    // What stands behind "--" is another program's.
    let o = uvmctl(&["nonsense", "--", "--json"]);
    assert_eq!((o.status.code(), o.stdout.len()), (Some(2), 0));
}

/// Catches an experiment that runs for an hour, and cannot write its rows then.
#[test]
fn rows_that_cannot_be_written_are_told_before() {
    for command in [&["demo"][..], &["bench", "harvest"]] {
        let there = std::env::temp_dir().join(format!("huvm-rows-{}", std::process::id()));
        let path = there.to_str().unwrap();
        let refused = uvmctl(&[command, &["-o", "/nonexistent/rows"]].concat());
        assert_eq!(refused.status.code(), Some(1), "{command:?}");
        assert!(text(&refused.stderr).contains("/nonexistent/rows"));
        if !Path::new("/dev/huvm").exists() {
            // What was there is still, and nothing else.
            assert_eq!(
                uvmctl(&[command, &["-o", path]].concat()).status.code(),
                Some(9)
            );
            assert!(!there.exists());
            std::fs::write(&there, "before").unwrap();
            assert_eq!(
                uvmctl(&[command, &["-o", path]].concat()).status.code(),
                Some(9)
            );
            assert_eq!(std::fs::read_to_string(&there).unwrap(), "before");
            std::fs::remove_file(&there).unwrap();
            // A pipe is not opened before there are rows: it would stand until somebody reads.
            assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
            let mut limited = Command::new("timeout");
            limited.args(["20", env!("CARGO_BIN_EXE_uvmctl")]);
            let ended = limited.args(command).args(["-o", path]).status();
            assert_eq!(ended.unwrap().code(), Some(9));
            std::fs::remove_file(&there).unwrap();
        }
    }
}

#[test]
fn bad_usage_points_to_the_help_of_its_command() {
    for (args, command) in [
        (
            &["range", "show", "1", "xyz", "-j"][..],
            "uvmctl range show",
        ),
        (&["gpu", "lisst", "-j"], "uvmctl gpu"),
        (&["bench", "--iterations", "many", "-j"], "uvmctl bench"),
        (&["nonsense", "-j"], "uvmctl"),
    ] {
        let (doc, _) = failed_json(args);
        let hint = format!("see '{command} --help'");
        assert_eq!(doc["error"]["hint"], hint, "{args:?}");
    }
}

#[test]
fn doctor_is_one_document_with_its_failure() {
    if Path::new("/dev/huvm").exists() {
        return;
    }
    let (doc, code) = failed_json(&["doctor", "-j"]);
    assert_eq!(code, 1);
    assert_eq!(doc["schema"], "uvmctl.doctor/1");
    assert_eq!(doc["error"]["name"], "failed");
    for check in doc["data"].as_array().unwrap() {
        let failed = check["result"] == "failed";
        assert_eq!(failed, check["remedy"].is_string(), "{check}");
    }
}

#[test]
fn help_and_version_are_no_failure() {
    for args in [
        &["--help"][..],
        &["-V"],
        &["gpu", "--help"],
        &["version"],
        &["version", "-j"],
    ] {
        let o = uvmctl(args);
        assert_eq!(o.status.code(), Some(0), "{args:?}");
        assert!(!o.stdout.is_empty() && o.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn a_reader_that_goes_away_ends_it() {
    use std::io::Read;
    let one = std::fs::read_to_string(data("events.json")).unwrap();
    let path = std::env::temp_dir().join(format!("uvmctl-many-{}", std::process::id()));
    std::fs::write(&path, one.repeat(20_000)).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_uvmctl"))
        .args(["events", "--from", path.to_str().unwrap()])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let o = child.wait_with_output().unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!((o.status.code(), text(&o.stderr)), (Some(0), String::new()));
}

/// The option counts before the environment; a pipe is no terminal.
#[test]
fn colours_are_asked_for() {
    for (when, no_color, colored) in [
        (&["--color", "always"][..], true, true),
        (&["--color", "always"], false, true),
        (&["--color", "never"], false, false),
        (&["--color", "auto"], false, false),
        (&[], true, false),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_uvmctl"));
        command
            .args(["topo", "--from", &data("topo.json")])
            .args(when);
        if no_color {
            command.env("NO_COLOR", "1");
        }
        let o = command.output().unwrap();
        assert_eq!(text(&o.stdout).contains('\x1b'), colored, "{when:?}");
    }
}

#[test]
fn quiet_leaves_the_failure_and_drops_the_hint() {
    if Path::new("/dev/huvm").exists() {
        return;
    }
    let o = uvmctl(&["topo", "-q"]);
    assert_eq!(o.status.code(), Some(9));
    assert_eq!(
        text(&o.stderr),
        "uvmctl: cannot open /dev/huvm: the driver is not loaded\n"
    );
}

#[test]
fn a_document_is_read_from_standard_input() {
    let o = Command::new(env!("CARGO_BIN_EXE_uvmctl"))
        .args(["mem", "show", "--from", "-", "--csv", "--fields", "gpu"])
        .stdin(std::fs::File::open(data("mem.json")).unwrap())
        .output()
        .unwrap();
    assert_eq!(
        (o.status.code(), text(&o.stdout)),
        (Some(0), "gpu\n0\n1\n2\n".into())
    );
}

#[test]
fn bad_usage_is_two() {
    for args in [
        &["nonsense"][..],
        &["policy", "set"],
        &["run", "scan", "--ratio", "1", "--size", "1M"],
        &["run", "scan", "--size", "many"],
        &["top", "-l", "0"],
        &["completion", "bash", "--fields", "gpu"],
        &["trace", "record"],
        &["trace", "record", "-o", "-", "--", "true"],
        &["trace", "record", "-o", "x", "-s", "0"],
        &["trace", "report", "x", "--from", &data("trace-report.json")],
        &["bench", "timeline", "--cases", "scan,scam"],
        &["bench", "inter-job", "--cases", "case-1,case-7"],
        &["bench", "spare-size", "--cases", "spare-7"],
        &["bench", "harvest", "--presets", "huvm"],
        &["bench", "oversub", "--cases", "steady"],
        &["bench", "scaling", "--ratios", "1.5"],
    ] {
        assert_eq!(uvmctl(args).status.code(), Some(2), "{args:?}");
    }
}

/// What has no tapes is refused, and leaves nothing behind.
#[test]
fn tapes_are_recorded_of_what_has_some() {
    let dir = std::env::temp_dir().join(format!("uvmctl-tapes-{}", std::process::id()));
    let to = [
        "--record",
        "--chunks",
        "64",
        "--tapes",
        dir.to_str().unwrap(),
    ];
    for name in ["harvest", "oversub", "streaming", "scaling", "timeline"] {
        let o = uvmctl(&[&["bench", name][..], &to].concat());
        assert_eq!(o.status.code(), Some(2), "{name}");
        assert!(text(&o.stderr).contains("inter-job, ladder"), "{name}");
        assert!(!dir.exists(), "{name}");
    }
}

/// An unknown name is found before the driver is asked, and the nearest one told.
#[test]
fn a_name_that_is_wrong_is_put_right() {
    let (doc, code) = failed_json(&["run", "stream-triad", "pagernk:1", "-j"]);
    assert_eq!((code, &doc["error"]["name"]), (6, &"not-found".into()));
    assert_eq!(doc["error"]["message"], "there is no workload 'pagernk'");
    let hint = doc["error"]["hint"].as_str().unwrap();
    assert!(hint.contains("'pagerank'"), "{hint}");
}

/// The list needs no driver; completion knows the names too, where a shell's completes arguments.
#[test]
fn workloads_are_listed_without_a_driver() {
    let o = uvmctl(&["run", "--list", "--csv", "--no-header", "--fields", "name"]);
    assert_eq!(o.status.code(), Some(0));
    let names = text(&o.stdout);
    assert!(names.lines().count() > 40);
    for shell in ["bash", "zsh"] {
        let script = text(&uvmctl(&["completion", shell]).stdout);
        for name in names.lines() {
            assert!(script.contains(name), "{shell}: {name}");
        }
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
    // What has no size is not of 0 bytes.
    assert_eq!(doc["data"]["lines"][2]["bytes"], 2_097_152);
    assert!(doc["data"]["lines"][3]["bytes"].is_null());
    assert_eq!(doc["data"]["busiest"][0]["block"], "0x7f0000200000");
}

/// Catches '-' taken for the name of a file.
#[test]
fn a_recording_is_read_from_standard_input() {
    let o = Command::new(env!("CARGO_BIN_EXE_uvmctl"))
        .args(["trace", "report", "-"])
        .stdin(std::fs::File::open(data("trace.jsonl")).unwrap())
        .output()
        .unwrap();
    assert_eq!(
        (o.status.code(), text(&o.stdout)),
        (
            Some(0),
            std::fs::read_to_string(data("trace-report.txt")).unwrap()
        )
    );
}

#[test]
fn what_events_wrote_is_a_recording_too() {
    let report = |file: &str| {
        let o = uvmctl(&["trace", "report", &data(file)]);
        assert_eq!(o.status.code(), Some(0), "{file}");
        text(&o.stdout)
    };
    let from_documents = report("events.json");
    assert!(
        from_documents.starts_with("9 events over 124.0 s, 2 lost\n"),
        "{from_documents}"
    );
    assert!(from_documents.contains("evict"));
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

/// Catches a recording that is lost for its last line, or for one without anything, and what is no recording taken for one.
#[test]
fn a_recording_that_is_cut_is_read_as_far_as_it_goes() {
    let path = std::env::temp_dir().join(format!("uvmctl-cut-{}", std::process::id()));
    let name = path.to_str().unwrap();
    let report = |text: &str| {
        std::fs::write(&path, text).unwrap();
        uvmctl(&["trace", "report", name, "-j"])
    };
    let whole = std::fs::read_to_string(data("trace.jsonl")).unwrap();
    let seen = |o: &Output| {
        let doc: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
        let warned = doc["warnings"].as_array().unwrap().len();
        (doc["data"]["events"].as_u64(), warned, o.status.code())
    };
    let cut = whole.trim_end().strip_suffix('}').unwrap();
    let o = report(cut);
    assert_eq!(seen(&o), (Some(5), 1, Some(0)));
    let told = format!("uvmctl: {name}:6: the last line is cut, and left out\n");
    assert_eq!(text(&o.stderr), told);
    // A last line that is only not ended is whole; what stands between others is not the end.
    assert_eq!(seen(&report(whole.trim_end())), (Some(6), 0, Some(0)));
    assert_eq!(
        seen(&report(&whole.replace('\n', "\n\n \r\n"))),
        (Some(6), 0, Some(0))
    );
    let middle = format!("{cut}\n{whole}");
    assert_eq!(seen(&report(&middle)), (None, 0, Some(1)));
    assert_eq!(seen(&report("hello")), (None, 0, Some(1)));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn completion_and_man_pages_know_every_command() {
    let commands = [
        "status",
        "version",
        "gpu",
        "topo",
        "mem",
        "client",
        "range",
        "policy",
        "quota",
        "inject",
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
        assert!(dir.join(format!("uvmctl-{c}.8")).exists(), "{c}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}
