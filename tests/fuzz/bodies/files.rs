// SPDX-License-Identifier: GPL-2.0
//! What users write: timing profiles, values of knobs, files of results, recorded events, notes, sizes. The first byte says which.

use huvm_policy::config::{knob_by_name, KNOBS};
use huvm_results::doc::notes;

/// Sizes as `uvmctl` reads them.
#[allow(dead_code)]
#[path = "../../../tools/uvmctl/src/units.rs"]
mod units;

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
            let _ = (
                knob_by_name(text),
                huvm_policy::preset::preset_by_name(text),
            );
        }
        2 => {
            let _ = huvm_results::rows::parse(text);
        }
        3 => {
            for line in text.lines() {
                let _ = huvm_results::events::parse(line);
            }
        }
        4 => {
            let _ = notes::parse::<notes::Notes>(text);
        }
        _ => {
            let n = units::parse_bytes(text);
            assert_eq!(huvm_results::units::parse_bytes(text), n);
            if let Ok(n) = n {
                assert_eq!(units::parse_bytes(&n.to_string()), Ok(n));
                assert!(!units::bytes(n).is_empty() && !units::time(n).is_empty());
            }
        }
    }
}
