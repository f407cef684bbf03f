// SPDX-License-Identifier: GPL-2.0
//! The page of results, and Belady's bytes for rows.

use crate::common::{golden, path};
use huvm_results::doc::{notes, page, Notes, Paper};
use huvm_results::fill::fill;
use huvm_results::rows::{self, File};

fn sources() -> (Vec<File>, Notes, Paper) {
    (
        rows::read(&path("data/a")).unwrap(),
        notes::read(&path("data/doc/notes.toml")).unwrap(),
        notes::read(&path("data/doc/paper.toml")).unwrap(),
    )
}

#[test]
fn a_page_has_it_all() {
    let (files, notes, paper) = sources();
    golden("page.md", &page(&files, &notes, &paper).unwrap());
}

/// Catches prose that was changed, or rows that were taken in, without the page.
#[test]
fn the_page_is_of_its_sources() {
    let root = path("../../..");
    let page = page(
        &rows::read(&root.join("Documentation/results")).unwrap(),
        &notes::read(&root.join("Documentation/results-notes.toml")).unwrap(),
        &notes::read(&root.join("tools/results/paper.toml")).unwrap(),
    );
    let there = std::fs::read_to_string(root.join("Documentation/results.md")).unwrap();
    assert!(
        page.unwrap() == there,
        "Documentation/results.md is old: run 'tools/build/results.sh doc Documentation/results'"
    );
}

/// Catches a page that hides what it should say.
#[test]
fn what_is_missing_is_told() {
    let (files, notes, paper) = sources();
    let refused =
        |files: &[File], notes: &Notes| page(files, notes, &paper).unwrap_err().to_string();
    let mut silent = notes.clone();
    silent.explanations.clear();
    let e = refused(&files, &silent);
    // 97.5 / 18.4 = 5.3 of at least 7.
    assert!(
        e.contains("figure = \"less\"") && e.contains("5.30x (-24 %)"),
        "{e}"
    );
    assert!(!e.contains("enough") && !e.contains("never run"), "{e}");
    // A figure whose baseline is lost is not left out without a word.
    let first = &paper.figures[0];
    let mut less = files.clone();
    for f in &mut less {
        f.rows.retain(|r| {
            r.experiment != first.experiment || Some(&r.preset) != first.baseline.as_ref()
        });
    }
    let e = refused(&less, &notes);
    assert!(e.contains(&format!("'{}': a row", first.id)), "{e}");
    let mut wrong = notes.clone();
    wrong.explanations[0].figure = "lesss".into();
    assert!(refused(&files, &wrong).contains("no figure 'lesss'"));
    assert!(refused(&files[..1], &notes).contains("run 'make bench EXP=harvest'"));
    let mut short = notes.clone();
    short.experiments.pop();
    assert!(refused(&files, &short).contains("'demo' has no section"));
}

/// Catches pictures without a word about them, and words about pictures that are not there.
#[test]
fn recordings_are_explained() {
    let (files, notes, paper) = sources();
    let harvest = files.iter().find(|f| f.name == "harvest").unwrap();
    assert_eq!(harvest.recordings, ["harvest-steady-huvm"]);
    let text = page(&files, &notes, &paper).unwrap();
    for end in ["timeline", "residency", "access"] {
        let picture = format!("(plots/harvest-steady-huvm-{end}.svg)");
        assert!(text.contains(&picture), "{picture}");
    }
    let refused = |notes: &Notes| page(&files, notes, &paper).unwrap_err().to_string();
    let mut other = notes.clone();
    other.experiments[0].recordings[0].name = "steady-stock".into();
    let e = refused(&other);
    assert!(e.contains("'harvest-steady-huvm' has no text"), "{e}");
    assert!(e.contains("no recording 'harvest-steady-stock'"), "{e}");
}

/// Catches tables of before that stand where there are rows, and none where there are not.
#[test]
fn tables_are_kept_where_the_rows_are_lost() {
    let (files, mut notes, paper) = sources();
    let of = |files: &[File], notes: &Notes| page(files, notes, &paper).unwrap();
    for s in &mut notes.experiments {
        s.kept = format!("As it was: {}", s.name);
    }
    assert!(!of(&files, &notes).contains("As it was"));
    let without = of(&files[..1], &notes);
    let lost = &files[1].name;
    assert!(without.contains(&format!("As it was: {lost}")));
    assert!(!without.contains(&format!("As it was: {}", files[0].name)));
}

/// Catches a least taken for a most, and ranges of ours of which only one end is looked at.
#[test]
fn off_is_measured_from_the_range() {
    let (.., paper) = sources();
    let mut f = paper.figures[0].clone();
    for (low, high, ours, off) in [
        (Some(2.0), Some(4.0), (2.0, 4.0), 0.0),
        (Some(2.0), Some(4.0), (1.0, 3.0), -0.5),
        (Some(2.0), Some(4.0), (3.0, 5.0), 0.25),
        (Some(2.0), Some(4.0), (1.0, 5.0), -0.5),
        (Some(2.0), None, (1.5, 9.0), -0.25),
        (Some(2.0), None, (2.0, 9.0), 0.0),
        (None, Some(4.0), (1.0, 5.0), 0.25),
        (None, Some(4.0), (1.0, 4.0), 0.0),
        (None, None, (1.0, 4.0), 0.0),
    ] {
        (f.low, f.high) = (low, high);
        assert!(
            (f.off(ours) - off).abs() < 1e-12,
            "{low:?} {high:?} {ours:?}"
        );
    }
}

/// The repository's own notes and figures can be read, and each explanation is of a figure.
#[test]
fn the_sources_of_the_page_are_sound() {
    let root = path("..");
    let paper: Paper = notes::read(&root.join("paper.toml")).unwrap();
    let notes: Notes = notes::read(&root.join("../../Documentation/results-notes.toml")).unwrap();
    let mut ids: Vec<&str> = paper.figures.iter().map(|f| f.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), paper.figures.len());
    assert!(paper.figures.iter().all(|f| f.low.or(f.high).is_some()));
    assert!(notes
        .explanations
        .iter()
        .all(|e| ids.contains(&e.figure.as_str())));
}

/// A scan of 100 chunks, three passes after one, through 64: MIN misses 36 of 99 touches, and what it wrote goes out again.
#[test]
fn rows_get_belady_s_bytes() {
    let mut file = rows::read_file(&path("data/a/harvest.json")).unwrap();
    assert_eq!(fill(&mut file).unwrap(), 4);
    let bytes = file.rows[0].belady_bytes.unwrap();
    let misses = bytes / (2 << 20) / 2;
    assert!(misses.abs_diff(300 * 36 / 99) <= 2, "{misses}");
    // What is there stays, and an owner's rows are left alone.
    assert_eq!(file.rows[4].belady_bytes, Some(500 << 20));
    assert_eq!(file.rows[5].belady_bytes, None);
    assert_eq!(fill(&mut file).unwrap(), 0);
}

/// Catches a page of thousands of lines, and presets in the wrong column of one with a line for each job.
#[test]
fn many_rows_stand_by_job_and_ratio() {
    let (files, mut notes, ..) = sources();
    let mut many = files[0].clone();
    let one = many.rows[0].clone();
    many.rows.clear();
    for job in 0..40u32 {
        for (preset, time_ns) in [
            ("stock-595", 8_000_000),
            ("random", 4_000_000),
            ("huvm", 2_000_000),
        ] {
            for ratio in [1.5, 2.0] {
                let mut row = one.clone();
                row.workload = format!("job-{job}");
                row.preset = preset.into();
                row.ratio = ratio;
                // The last job has a row that differs.
                row.time_ns = time_ns
                    / if job == 39 && ratio == 2.0 && preset == "huvm" {
                        4
                    } else {
                        1
                    };
                row.link_efficiency = Some(0.5);
                many.rows.push(row);
            }
        }
    }
    notes.experiments.retain(|s| s.name == many.name);
    notes.explanations.clear();
    let paper = Paper {
        figures: Vec::new(),
    };
    let text = page(&[many.clone()], &notes, &paper).unwrap();
    let lines = |of: &str| -> Vec<Vec<String>> {
        let is = |l: &&str| l.starts_with(&format!("| {of} "));
        let cells = |l: &str| l.split('|').map(|c| c.trim().to_owned()).collect();
        text.lines().filter(is).map(cells).collect()
    };
    assert_eq!(lines("workload")[0][4..7], ["stock-595", "random", "huvm"]);
    assert_eq!(lines("job-0").len(), 2);
    assert_eq!(lines("job-0")[0][4..7], ["8.0 ms", "2.00", "4.00"]);
    assert_eq!(lines("job-39")[1][4..7], ["8.0 ms", "2.00", "16.00"]);
    assert!(lines("job-39")[1].contains(&"50.0 %".to_owned()));
    // Its picture has a group for each job: means of the two ratios.
    let groups = huvm_results::plot::bars::groups(&many, "stock-595");
    assert_eq!(groups.len(), 40);
    let of_huvm = |g: usize| groups[g].bars.iter().find(|b| b.0 == "huvm").unwrap().1;
    assert!((of_huvm(0) - 4.0).abs() < 1e-9 && (of_huvm(39) - 8.0).abs() < 1e-9);
}
