// SPDX-License-Identifier: GPL-2.0
//! Drawings of rectangles and text, as SVG and as PNG.
//!
//! All places are whole pixels, so both show the same and the bytes are the same on every machine. A library for charts would
//! draw its letters with a font, which would have to come with this repository or differ from machine to machine; what is drawn
//! here needs rectangles and one size of text.

mod raster;
mod svg;

/// Red, green, blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Colour(pub u8, pub u8, pub u8);

/// Text, frames.
pub const BLACK: Colour = Colour(0x22, 0x22, 0x22);
/// Helping lines, text of less weight.
pub const GREY: Colour = Colour(0x77, 0x77, 0x77);
/// Lines behind everything.
pub const LIGHT: Colour = Colour(0xdd, 0xdd, 0xdd);
/// The paper.
pub const WHITE: Colour = Colour(0xff, 0xff, 0xff);

/// Height of a line of text, pixels.
pub const LINE: i32 = 16;

/// Which end of a text its place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Shape {
    Rect {
        x: i32,
        y: i32,
        w: i32,
        h: i32,
        colour: Colour,
    },
    /// `x`, `y`: the upper left corner of its box, whatever the anchor was.
    Text {
        x: i32,
        y: i32,
        text: String,
        colour: Colour,
    },
}

/// A drawing. What comes later covers what came earlier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scene {
    width: i32,
    height: i32,
    shapes: Vec<Shape>,
}

impl Scene {
    /// An empty one.
    pub fn new() -> Scene {
        Scene::default()
    }

    /// A rectangle. The drawing grows with it; what is left of or above its corner is not seen.
    pub fn rect(&mut self, x: i32, y: i32, w: i32, h: i32, colour: Colour) {
        if w > 0 && h > 0 {
            self.reach(x.saturating_add(w), y.saturating_add(h));
            self.shapes.push(Shape::Rect { x, y, w, h, colour });
        }
    }

    /// A line of text with its upper edge at `y`. Characters outside of ASCII are shown as `?`.
    pub fn text(&mut self, x: i32, y: i32, anchor: Anchor, colour: Colour, text: &str) {
        let plain = |c: char| if (' '..='~').contains(&c) { c } else { '?' };
        let text: String = text.chars().map(plain).collect();
        let x = match anchor {
            Anchor::Start => x,
            Anchor::Middle => x - width(&text) / 2,
            Anchor::End => x - width(&text),
        };
        self.reach(x.saturating_add(width(&text)), y.saturating_add(LINE));
        self.shapes.push(Shape::Text { x, y, text, colour });
    }

    fn reach(&mut self, x: i32, y: i32) {
        self.width = self.width.max(x);
        self.height = self.height.max(y);
    }

    /// Adds a margin to the right and below.
    pub fn margin(&mut self, pixels: i32) {
        self.width = self.width.saturating_add(pixels);
        self.height = self.height.saturating_add(pixels);
    }

    /// Pixels to the right and down.
    pub fn size(&self) -> (i32, i32) {
        (self.width, self.height)
    }
}

/// Pixels that a text takes.
pub fn width(text: &str) -> i32 {
    let letters = i32::try_from(text.chars().count()).unwrap_or(i32::MAX);
    letters.saturating_mul(raster::letter_width())
}

/// Colours that are told apart, in an order in which neighbours differ.
const PALETTE: [Colour; 12] = [
    Colour(0x1f, 0x5f, 0xa8),
    Colour(0xe0, 0x7b, 0x1a),
    Colour(0x2e, 0x8b, 0x57),
    Colour(0xb8, 0x30, 0x3a),
    Colour(0x7a, 0x52, 0xa8),
    Colour(0x3a, 0xa6, 0xb5),
    Colour(0xc8, 0x5a, 0x9c),
    Colour(0x8a, 0x8f, 0x2a),
    Colour(0x6b, 0x4a, 0x36),
    Colour(0x7f, 0xa8, 0xd8),
    Colour(0xe8, 0xb8, 0x7a),
    Colour(0x8c, 0xc8, 0x9c),
];

/// The n-th of the colours that are told apart; they repeat.
pub fn palette(n: usize) -> Colour {
    PALETTE.get(n % PALETTE.len()).copied().unwrap_or(BLACK)
}

/// Between two colours: 0 is the first, 255 the second.
pub fn blend(a: Colour, b: Colour, share: u8) -> Colour {
    let mix = |a: u8, b: u8| {
        let (a, b, s) = (u32::from(a), u32::from(b), u32::from(share));
        // CAST: a mean of two bytes.
        ((a * (255 - s) + b * s) / 255) as u8
    };
    Colour(mix(a.0, b.0), mix(a.1, b.1), mix(a.2, b.2))
}
