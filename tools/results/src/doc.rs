// SPDX-License-Identifier: GPL-2.0
//! `Documentation/results.md`, made of results, of the papers' figures and of what people wrote about both.
//!
//! Three sources, so that nothing is written twice: `Documentation/results/*.json` have our figures, `tools/results/paper.toml` the
//! papers', `Documentation/results-notes.toml` the prose. Where ours differ from a paper's by more than a fifth the notes
//! must say why, or there is no page.

pub mod notes;
mod page;
pub mod paper;

pub use notes::Notes;
pub use page::page;
pub use paper::Paper;
