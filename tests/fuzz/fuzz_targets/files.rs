// SPDX-License-Identifier: GPL-2.0
//! What users write: timing profiles, values of knobs, files of results, recorded events. The first byte says which.
#![no_main]

use huvm_policy::config::{knob_by_name, KNOBS};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((kind, rest)) = bytes.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(rest) else {
        return;
    };
    match kind % 4 {
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
        _ => {
            for line in text.lines() {
                let _ = huvm_results::events::parse(line);
            }
        }
    }
});
