// SPDX-License-Identifier: GPL-2.0
//! What users write: timing profiles, values of knobs, files of results, recorded events, notes, sizes. The first byte says which.

use huvm_policy::config::{knob_by_name, text_in, KNOBS};
use huvm_policy::preset::preset_by_name;
use huvm_results::doc::{notes, paper::Paper};
use huvm_results::plot::{bars, heat, timeline};
use huvm_results::rows::{self, File, Row};
use huvm_results::units;

/// Rows that were read are compared, shown and drawn.
fn results(rows: Vec<Row>) {
    let file = File {
        name: "fuzz".into(),
        path: "fuzz.json".into(),
        rows,
        meta: None,
        targets: None,
        recordings: Vec::new(),
    };
    let baseline = file
        .rows
        .first()
        .map_or("", |r| r.preset.as_str())
        .to_owned();
    let files = [file];
    // The same twice: the rows in common are all.
    if let Ok(c) = huvm_results::compare::compare(&files, &files) {
        assert!(c.slower(0.0).is_empty() && !c.text().is_empty());
    }
    for file in &files {
        let groups = bars::groups(file, &baseline);
        assert!(!bars::draw("fuzz", &groups).svg().is_empty());
    }
}

pub(crate) fn body(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(rest) else {
        return;
    };
    match kind % 6 {
        0 => {
            // What is refused is refused in one line.
            if let Err(e) = huvm_model_ffi::profile::parse(text) {
                assert!(!e.contains('\n'), "{e}");
            }
        }
        1 => {
            for knob in KNOBS {
                if let Ok(v) = knob.parse(text) {
                    assert_eq!(knob.check(v), Ok(v));
                    assert_eq!(knob.parse(&knob.show(v).to_string()), Ok(v));
                }
            }
            // A name as the call PRESET_SET has it.
            let mut field = [0; 32];
            field
                .iter_mut()
                .zip(text.bytes())
                .for_each(|(to, c)| *to = c);
            if let Some(name) = text_in(&field) {
                assert!(name.len() < field.len() && !name.contains('\0'));
                let _ = (preset_by_name(name), knob_by_name(name));
            }
        }
        2 => {
            if let Ok(rows) = rows::parse(text) {
                results(rows);
            }
            let _ = rows::parse_meta(text);
        }
        3 => {
            let events = text.lines().take(200).map(huvm_results::events::parse);
            let events: Vec<_> = events.filter_map(Result::ok).collect();
            for scene in [
                timeline::draw("fuzz", &events),
                heat::residency("fuzz", &events),
                heat::access("fuzz", &events),
            ] {
                assert!(scene.svg().ends_with("</svg>\n"));
            }
        }
        4 => {
            let _ = notes::parse::<notes::Notes>(text);
            if let Ok(paper) = notes::parse::<Paper>(text) {
                for f in &paper.figures {
                    assert!(!f.theirs().is_empty() && f.ours(&[]).is_none());
                }
            }
        }
        _ => {
            let n = units::parse_bytes(text);
            if let Ok(n) = n {
                assert_eq!(units::parse_bytes(&n.to_string()), Ok(n));
                assert!(!units::bytes(n).is_empty() && !units::time(n).is_empty());
            }
        }
    }
}
