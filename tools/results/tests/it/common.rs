// SPDX-License-Identifier: GPL-2.0
//! What the tests share.

use std::path::PathBuf;

/// A file of the tests.
pub(crate) fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(name)
}

/// An empty folder of a test's own.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _there = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// Compares with what is recorded; `UPDATE_GOLDEN=1` records it anew.
pub(crate) fn golden(name: &str, text: &str) {
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
