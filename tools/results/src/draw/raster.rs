// SPDX-License-Identifier: GPL-2.0
//! Pixels, and PNG.

use super::{blend, Colour, Scene, Shape, WHITE};
use crate::failure::{Failure, Result};
use noto_sans_mono_bitmap::{get_raster, get_raster_width, FontWeight, RasterHeight};

const WEIGHT: FontWeight = FontWeight::Regular;
const SIZE: RasterHeight = RasterHeight::Size16;
/// Largest side of a picture, pixels.
const MOST: i32 = 1 << 14;

/// Pixels that a letter takes.
pub(super) fn letter_width() -> i32 {
    // CAST: below 16.
    get_raster_width(WEIGHT, SIZE) as i32
}

/// A picture, row by row.
struct Canvas {
    width: usize,
    pixels: Vec<Colour>,
}

impl Canvas {
    fn at(&mut self, x: i32, y: i32) -> Option<&mut Colour> {
        let (x, y) = (usize::try_from(x).ok()?, usize::try_from(y).ok()?);
        if x >= self.width {
            return None;
        }
        self.pixels.get_mut(y.checked_mul(self.width)? + x)
    }

    fn text(&mut self, x: i32, y: i32, text: &str, colour: Colour) {
        for (i, c) in (0i32..).zip(text.chars()) {
            let Some(letter) = get_raster(c, WEIGHT, SIZE) else {
                continue;
            };
            for (dy, row) in (0i32..).zip(letter.raster()) {
                for (dx, share) in (0i32..).zip(*row) {
                    if let Some(p) = self.at(x + i * letter_width() + dx, y + dy) {
                        *p = blend(*p, colour, *share);
                    }
                }
            }
        }
    }
}

impl Scene {
    /// As PNG.
    ///
    /// # Errors
    /// A drawing with a side of no or more than 16384 pixels.
    pub fn png(&self) -> Result<Vec<u8>> {
        let (w, h) = self.size();
        if w <= 0 || h <= 0 || w > MOST || h > MOST {
            return Err(Failure::Check(format!("a picture of {w} x {h} pixels")));
        }
        // CAST: in 1 to 16384.
        let (width, height) = (w as usize, h as usize);
        let mut canvas = Canvas {
            width,
            pixels: vec![WHITE; width * height],
        };
        for shape in &self.shapes {
            match shape {
                Shape::Rect { x, y, w, h, colour } => {
                    for py in *y..y.saturating_add(*h).min(MOST) {
                        for px in *x..x.saturating_add(*w).min(MOST) {
                            if let Some(p) = canvas.at(px, py) {
                                *p = *colour;
                            }
                        }
                    }
                }
                Shape::Text { x, y, text, colour } => canvas.text(*x, *y, text, *colour),
            }
        }
        let bytes: Vec<u8> = canvas.pixels.iter().flat_map(|c| [c.0, c.1, c.2]).collect();
        // CAST: as above.
        encode(w as u32, h as u32, &bytes).map_err(|e| Failure::Check(format!("PNG: {e}")))
    }
}

fn encode(w: u32, h: u32, rgb: &[u8]) -> std::result::Result<Vec<u8>, png::EncodingError> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, w, h);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(rgb)?;
    writer.finish()?;
    Ok(file)
}
