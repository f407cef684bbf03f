// SPDX-License-Identifier: GPL-2.0
//! Inputs of the fuzz targets of `tests/fuzz`: those that once broke something (`found`), and those that together reach all that fuzzing has
//! reached (`corpus`). The tests give each to its target's body.
#![forbid(unsafe_code)]

use std::path::Path;

/// Gives every input of `target` to `body`. Returns how many there were.
///
/// # Errors
/// A folder or file that cannot be read.
pub fn each(target: &str, body: impl Fn(&[u8])) -> std::io::Result<usize> {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
    let mut n = 0;
    for kind in ["found", "corpus"] {
        let Ok(files) = fuzz.join(kind).join(target).read_dir() else {
            // Nothing of this target was found.
            continue;
        };
        for file in files {
            let path = file?.path();
            let bytes = std::fs::read(&path)?;
            // Which one it was, if it breaks something.
            println!("{}", path.display());
            body(&bytes);
            n += 1;
        }
    }
    Ok(n)
}
