// SPDX-License-Identifier: GPL-2.0
//! MobileNet 1.0-224: Howard et al., "MobileNets", arXiv 1704.04861, table 1. Batch normalisation has two trained values a
//! channel.

use super::Layer;

/// Its layers: a convolution, thirteen pairs of a depthwise and a pointwise one, a fully connected one.
pub fn mobilenet() -> Vec<Layer> {
    let mut out = vec![Layer::conv(3, 3, 32, 112, 1, 2)];
    let mut from = 32;
    // Channels and side of the output of each pair.
    let pairs = [
        (64, 112),
        (128, 56),
        (128, 56),
        (256, 28),
        (256, 28),
        (512, 14),
        (512, 14),
        (512, 14),
        (512, 14),
        (512, 14),
        (512, 14),
        (1024, 7),
        (1024, 7),
    ];
    for (to, side) in pairs {
        out.push(Layer::conv(3, from, from, side, from, 2));
        out.push(Layer::conv(1, from, to, side, 1, 2));
        from = to;
    }
    out.push(Layer::plain(from));
    out.push(Layer::full(from, 1000));
    out
}
