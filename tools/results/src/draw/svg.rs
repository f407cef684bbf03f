// SPDX-License-Identifier: GPL-2.0
//! SVG.
//!
//! Many rectangles of one colour, one right after the other, are one path: a heat map has ten thousand, and a path takes a fifth of
//! the bytes.

use super::{width, Colour, Scene, Shape, LINE, WHITE};
use std::fmt::Write;

fn hex(c: Colour) -> String {
    format!("#{:02x}{:02x}{:02x}", c.0, c.1, c.2)
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;")
}

/// So many are a path.
const MANY: usize = 8;

/// The rectangles that these shapes begin with, while they are of one colour: the colour, how many, and how a path goes around them.
fn path(shapes: &[Shape]) -> Option<(Colour, usize, String)> {
    let Some(Shape::Rect { colour: first, .. }) = shapes.first() else {
        return None;
    };
    let (mut count, mut text) = (0, String::new());
    // Where the path is: at the upper left corner of the last one.
    let mut at = (0i64, 0i64);
    for shape in shapes {
        match shape {
            Shape::Rect { x, y, w, h, colour } if colour == first => {
                let (x, y) = (i64::from(*x), i64::from(*y));
                let (right, down) = (x - at.0, y - at.1);
                // Writing to a string does not fail.
                let _done = write!(text, "m{right} {down}h{w}v{h}h-{w}z");
                at = (x, y);
                count += 1;
            }
            _ => break,
        }
    }
    (count >= MANY).then_some((*first, count, text))
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
        let mut left = self.shapes.as_slice();
        while let Some((shape, others)) = left.split_first() {
            if let Some((colour, count, path)) = path(left) {
                out.push_str(&format!("<path fill=\"{}\" d=\"{path}\"/>\n", hex(colour)));
                left = left.get(count..).unwrap_or_default();
                continue;
            }
            left = others;
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
