// SPDX-License-Identifier: GPL-2.0
//! SVG.

use super::{width, Colour, Scene, Shape, LINE, WHITE};
use std::fmt::Write;

fn hex(c: Colour) -> String {
    format!("#{:02x}{:02x}{:02x}", c.0, c.1, c.2)
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;")
}

impl Scene {
    /// As SVG.
    pub fn svg(&self) -> String {
        let (w, h) = self.size();
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\" \
             font-family=\"Noto Sans Mono, DejaVu Sans Mono, monospace\" font-size=\"12\">\n\
             <rect width=\"{w}\" height=\"{h}\" fill=\"{}\"/>\n",
            hex(WHITE)
        );
        for shape in &self.shapes {
            // Writing to a string does not fail.
            let _done = match shape {
                Shape::Rect { x, y, w, h, colour } => writeln!(
                    out,
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" fill=\"{}\"/>",
                    hex(*colour)
                ),
                Shape::Text { text, .. } if text.trim().is_empty() => Ok(()),
                Shape::Text { x, y, text, colour } => writeln!(
                    out,
                    "<text x=\"{x}\" y=\"{}\" textLength=\"{}\" xml:space=\"preserve\" fill=\"{}\">{}</text>",
                    y + LINE * 3 / 4,
                    width(text),
                    hex(*colour),
                    escaped(text)
                ),
            };
        }
        out.push_str("</svg>\n");
        out
    }
}
