// SPDX-License-Identifier: GPL-2.0
//! Recorded output for tests, in `tests/golden`. `UPDATE_GOLDEN=1` records it anew; look at the difference before it is
//! committed.

use std::path::PathBuf;

/// A file of the tests.
pub(crate) fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(name)
}

/// Compares with what is recorded.
pub(crate) fn check(name: &str, text: &str) {
    let path = path("golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let recorded = std::fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("{}: {e}; UPDATE_GOLDEN=1 records it", path.display()));
    assert!(
        recorded == text,
        "{name} differs\n--- recorded\n{recorded}\n--- now\n{text}"
    );
}
