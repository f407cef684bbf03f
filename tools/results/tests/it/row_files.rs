// SPDX-License-Identifier: GPL-2.0
//! Files of results, and two sets of them side by side.

use crate::common::{golden, path, scratch};
use huvm_results::compare::compare;
use huvm_results::failure::Failure;
use huvm_results::rows::{read, read_file, File, Row};
use proptest::prelude::*;

fn of(name: &str) -> Vec<File> {
    read(&path("data").join(name)).unwrap()
}

#[test]
fn a_folder_is_read_in_order_of_names() {
    let files = of("a");
    let names: Vec<&str> = files.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["demo", "harvest"]);
    // A file that does not say is of its name.
    assert_eq!(files[0].rows[0].experiment, "demo");
    assert_eq!(files[1].commit().as_deref(), Some("08d5812c0ffe"));
    assert!(files[1].targets.is_some() && files[0].targets.is_none());
    assert_eq!(files[1].rows[4].belady_bytes, Some(500 << 20));
    assert_eq!(files[1].rows[0].count("evictions"), Some(288));
}

/// Each of these would otherwise become a table.
#[test]
fn what_is_no_result_is_refused() {
    let dir = scratch("refused");
    let good = r#"{"workload":"scan","preset":"huvm","ratio":1.5,"time_ns":5,"h2d_bytes":0,"d2h_bytes":0,"p2p_bytes":0,"faults":0"#;
    for (nr, (text, why)) in [
        ("".to_owned(), "no JSON"),
        (format!("[{good}}}"), "no JSON"),
        ("[]".into(), "no rows"),
        (format!("{good}}}"), "array"),
        ("[1]".into(), "row 1"),
        (format!("[{good}}},{{}}]"), "row 2: missing field"),
        (format!(r#"[{good},"mismatches":3}}]"#), "3 elements"),
        (
            format!(r#"[{good},"link_efficiency":7}}]"#),
            "link_efficiency is 7",
        ),
        // Copies that took no time.
        (
            format!(r#"[{good},"link_efficiency":1.0319}}]"#),
            "link_efficiency is 1.0319",
        ),
        (
            format!("[{}}}]", good.replace("\":5", "\":0")),
            "time_ns is 0",
        ),
        (format!("[{}}}]", good.replace("\":5", "\":-5")), "row 1"),
        (format!("[{}}}]", good.replace("1.5", "-1")), "ratio is -1"),
    ]
    .into_iter()
    .enumerate()
    {
        let file = dir.join(format!("{nr}.json"));
        std::fs::write(&file, text).unwrap();
        let e = read_file(&file).unwrap_err().to_string();
        assert!(e.contains(why) && e.contains(".json"), "{why}: {e}");
    }
    let file = dir.join("x.json");
    std::fs::write(&file, format!("[{good}}}]")).unwrap();
    assert_eq!(read_file(&file).unwrap().rows.len(), 1);
    let meta = r#"{"schema":"huvm.results/1","experiment":"x","warnings":["odd"]}"#;
    for (text, why) in [
        (meta.replace("/1", "/9"), "schema"),
        (meta.into(), "odd"),
        ("{}".into(), "missing field"),
    ] {
        std::fs::write(dir.join("x.meta.json"), text).unwrap();
        let e = read_file(&file).unwrap_err().to_string();
        assert!(e.contains(why) && e.contains("x.meta.json"), "{why}: {e}");
    }
    assert!(matches!(read(&scratch("empty")), Err(Failure::File(_))));
    assert!(matches!(
        read(&dir.join("none.json")),
        Err(Failure::File(_))
    ));
}

/// Rows of before are kept as they are, and never taken for the same as new ones.
#[test]
fn times_of_before_are_told_from_those_of_now() {
    let dir = scratch("schemas");
    let row = r#"[{"workload":"pagerank","preset":"huvm","ratio":1.5,"time_ns":5,"h2d_bytes":0,"d2h_bytes":0,"p2p_bytes":0,"faults":0,"link_efficiency":1.0319}]"#;
    let file = |schema: &str, row: &str| {
        let name = dir.join("x.json");
        std::fs::write(&name, row).unwrap();
        let meta = format!(r#"{{"schema":"{schema}","experiment":"x"}}"#);
        std::fs::write(dir.join("x.meta.json"), meta).unwrap();
        read_file(&name)
    };
    let old = file("huvm.results/1", row).unwrap();
    let row_of_now = row.replace("1.0319", "1.0019");
    for schema in ["huvm.results/2", "huvm.results/3"] {
        assert!(file(schema, row).is_err(), "{schema}");
    }
    let middle = file("huvm.results/2", &row_of_now).unwrap();
    let new = file("huvm.results/3", &row_of_now).unwrap();
    assert!(file("huvm.results/4", &row_of_now).is_err());
    let text = |a: &File, b: &File| {
        compare(std::slice::from_ref(a), std::slice::from_ref(b))
            .unwrap()
            .text()
    };
    let judged = |a: &File, b: &File| {
        let found = compare(std::slice::from_ref(a), std::slice::from_ref(b)).unwrap();
        found.cannot_be_judged().is_none()
    };
    assert!(judged(&new, &new) && !judged(&old, &new) && !judged(&new, &middle));
    for (a, b, lacks) in [
        (
            &old,
            &new,
            "results/1, without what passes between launches",
        ),
        (
            &new,
            &middle,
            "results/2, without what passes between passes",
        ),
    ] {
        assert!(text(a, b).contains(lacks), "{}", text(a, b));
        assert!(!text(a, a).contains("do not mean the same"));
        assert!(!text(b, b).contains("do not mean the same"));
    }
    assert_eq!(
        text(&old, &middle).matches("do not mean the same").count(),
        2
    );
}

#[test]
fn two_sets_stand_side_by_side() {
    let c = compare(&of("a"), &of("b")).unwrap();
    golden("compare.txt", &c.text());
    assert_eq!(c.slower(5.0).len(), 1);
    assert_eq!(c.slower(10.0).len(), 0);
    assert_eq!(c.only_in_a.len(), 4);
    assert_eq!(c.only_in_b.len(), 1);
    // A threshold says nothing of rows that are not there.
    assert!(c.cannot_be_judged().unwrap().contains(&c.lost[0]));
    let same = compare(&of("a"), &of("a")).unwrap();
    assert_eq!(same.cannot_be_judged(), None);
    // What was not run again at all is not compared.
    let one = compare(&of("a"), &of("a")[..1]).unwrap();
    assert!(!one.only_in_a.is_empty() && one.cannot_be_judged().is_none());
    // 1.1, 0.5 and 1: their product's third root.
    let mean = c.means.iter().find(|m| m.preset == "memharvester").unwrap();
    assert_eq!((mean.rows, mean.ratio), (3, 0.8193));
}

/// Catches the sums of three passes beside those of one, and jobs of two sizes beside each other.
#[test]
fn rows_of_other_passes_or_sizes_are_other_rows() {
    let set = |field: &str, n: u64| {
        let mut row = Row {
            time_ns: 1,
            ..Row::default()
        };
        row.more.insert(field.into(), n.into());
        vec![File {
            rows: vec![row],
            ..File::default()
        }]
    };
    for field in ["passes", "bytes", "memory_bytes"] {
        assert!(compare(&set(field, 3), &set(field, 3)).is_ok());
        let other = compare(&set(field, 3), &set(field, 1));
        assert!(matches!(other, Err(Failure::Check(_))), "{field}");
    }
}

#[test]
fn sets_without_a_common_row_do_not_compare() {
    let other = vec![File {
        rows: vec![Row {
            time_ns: 1,
            ..Row::default()
        }],
        ..File::default()
    }];
    assert!(matches!(compare(&of("a"), &other), Err(Failure::Check(_))));
}

proptest! {
    /// Whatever the times: a set against itself is 1, and swapped sides are the inverse. Catches rows matched crosswise.
    #[test]
    fn sides_are_inverse(times in proptest::collection::vec((1u64..1 << 40, 1u64..1 << 40), 1..20)) {
        let set = |side: fn(&(u64, u64)) -> u64| vec![File {
            rows: times.iter().map(|t| Row { time_ns: side(t), ..Row::default() }).collect(),
            ..File::default()
        }];
        let (a, b) = (set(|t| t.0), set(|t| t.1));
        let same = compare(&a, &a).unwrap();
        prop_assert!(same.rows.iter().all(|p| p.ratio == 1.0) && same.means[0].ratio == 1.0);
        let there = compare(&a, &b).unwrap();
        prop_assert_eq!(there.rows.len(), times.len());
        for (p, t) in there.rows.iter().zip(&times) {
            prop_assert_eq!((p.a_time_ns, p.b_time_ns), *t);
        }
        let logs: f64 = times.iter().map(|t| (t.1 as f64 / t.0 as f64).ln()).sum();
        let mean = (logs / times.len() as f64).exp();
        prop_assert!((there.means[0].ratio - mean).abs() <= 1e-4 + mean * 1e-9);
    }
}
