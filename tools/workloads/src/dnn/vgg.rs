// SPDX-License-Identifier: GPL-2.0
//! VGG16: configuration D of Simonyan and Zisserman, "Very deep convolutional networks", ICLR 2015, table 1; 224 × 224 × 3.

use super::Layer;

/// Its layers.
pub fn vgg16() -> Vec<Layer> {
    let mut out = Vec::new();
    let (mut side, mut from) = (224, 3);
    for (convs, to) in [(2, 64), (2, 128), (3, 256), (3, 512), (3, 512)] {
        for _ in 0..convs {
            out.push(Layer::conv(3, from, to, side, 1, 1));
            from = to;
        }
        side /= 2;
        out.push(Layer::plain(side * side * to));
    }
    out.extend([
        Layer::full(7 * 7 * 512, 4096),
        Layer::full(4096, 4096),
        Layer::full(4096, 1000),
    ]);
    out
}
