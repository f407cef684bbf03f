// SPDX-License-Identifier: GPL-2.0
//! `plot`, `timeline`: pictures into files.

use crate::cli::{Plot, Timeline};
use huvm_results::draw::Scene;
use huvm_results::failure::{Failure, Result};
use huvm_results::plot::{bars, heat, timeline};
use huvm_results::{events, rows};
use std::path::Path;

/// Writes a picture as SVG and as PNG; a line that says so.
fn write(dir: &Path, name: &str, scene: &Scene) -> Result<String> {
    std::fs::create_dir_all(dir).map_err(|e| Failure::file(dir, e))?;
    let put = |end: &str, bytes: &[u8]| {
        let path = dir.join(format!("{name}.{end}"));
        std::fs::write(&path, bytes).map_err(|e| Failure::file(&path, e))
    };
    put("svg", scene.svg().as_bytes())?;
    put("png", &scene.png()?)?;
    let (w, h) = scene.size();
    let path = dir.join(name);
    Ok(format!("{}.svg, .png: {w} x {h}\n", path.display()))
}

pub(super) fn plot(args: &Plot) -> Result<String> {
    let mut text = String::new();
    for file in rows::read(&args.results)? {
        let groups = bars::groups(&file, &args.baseline);
        let commit = file.commit().map_or(String::new(), |c| format!(", {c}"));
        let scene = bars::draw(&format!("{}{commit}", file.name), &groups);
        text.push_str(&write(&args.out, &file.name, &scene)?);
    }
    Ok(text)
}

pub(super) fn timeline(args: &Timeline) -> Result<String> {
    let list = events::read(&args.recording)?;
    let stem = args.recording.file_stem().unwrap_or_default();
    let stem = stem.to_string_lossy();
    let mut text = String::new();
    for (what, title, draw) in [
        (
            "timeline",
            "links and driver",
            timeline::draw as fn(&str, &[events::Event]) -> Scene,
        ),
        ("residency", "where blocks are", heat::residency),
        ("access", "faults of blocks", heat::access),
    ] {
        let scene = draw(&format!("{stem}: {title}"), &list);
        text.push_str(&write(&args.out, &format!("{stem}-{what}"), &scene)?);
    }
    Ok(text)
}
