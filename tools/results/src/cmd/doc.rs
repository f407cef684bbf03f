// SPDX-License-Identifier: GPL-2.0
//! `doc`, `fill`.

use crate::cli::{Doc, Fill};
use huvm_results::doc::{notes, page};
use huvm_results::failure::{Failure, Result};
use huvm_results::fill::fill;
use huvm_results::plot::bars;
use huvm_results::rows;
use std::path::Path;

fn write(path: &Path, text: impl AsRef<[u8]>) -> Result<()> {
    if let Some(dir) = path.parent().filter(|d| !d.as_os_str().is_empty()) {
        std::fs::create_dir_all(dir).map_err(|e| Failure::file(dir, e))?;
    }
    // All of it or nothing: a page that is cut off looks like one.
    let part = path.with_extension("part");
    std::fs::write(&part, text).map_err(|e| Failure::file(&part, e))?;
    std::fs::rename(&part, path).map_err(|e| Failure::file(path, e))
}

pub(super) fn doc(args: &Doc) -> Result<String> {
    let files = rows::read(&args.results)?;
    let text = page(
        &files,
        &notes::read(&args.notes)?,
        &notes::read(&args.paper)?,
    )?;
    write(&args.out, &text)?;
    for file in &files {
        let groups = bars::groups(file, bars::BASELINE);
        let picture = args.out.with_file_name("plots").join(&file.name);
        let scene = bars::draw(&file.name, &groups);
        write(&picture.with_extension("svg"), scene.svg())?;
        write(&picture.with_extension("png"), scene.png()?)?;
    }
    Ok(format!("{}\n", args.out.display()))
}

pub(super) fn run_fill(args: &Fill) -> Result<String> {
    let mut text = String::new();
    for mut file in rows::read(&args.results)? {
        let filled = fill(&mut file)?;
        if filled != 0 {
            write(&file.path, &super::json(&file.rows)?)?;
        }
        let (path, all) = (file.path.display(), file.rows.len());
        text.push_str(&format!("{path}: belady_bytes in {filled} of {all} rows\n"));
    }
    Ok(text)
}
