// SPDX-License-Identifier: GPL-2.0
//! ResNets of bottlenecks: He, Zhang, Ren, Sun, "Deep residual learning", CVPR 2016, table 1; 224 × 224 × 3. The stride is in
//! the 3 × 3 convolution, as in torchvision. Batch normalisation has two trained values a channel.

use super::Layer;

/// ResNet-50.
pub fn resnet50() -> Vec<Layer> {
    net([3, 4, 6, 3])
}

/// ResNet-101.
pub fn resnet101() -> Vec<Layer> {
    net([3, 4, 23, 3])
}

fn net(blocks: [u64; 4]) -> Vec<Layer> {
    let mut out = vec![Layer::conv(7, 3, 64, 112, 1, 2), Layer::plain(56 * 56 * 64)];
    let (mut from, mut side) = (64, 56);
    for (stage, n) in (0u32..).zip(blocks) {
        let width = 64 << stage;
        for block in 0..n {
            // The first block of a later stage halves the sides.
            let input = side;
            if block == 0 && stage > 0 {
                side /= 2;
            }
            out.push(Layer::conv(1, from, width, input, 1, 2));
            out.push(Layer::conv(3, width, width, side, 1, 2));
            out.push(Layer::conv(1, width, 4 * width, side, 1, 2));
            if block == 0 {
                out.push(Layer::conv(1, from, 4 * width, side, 1, 2));
            }
            from = 4 * width;
        }
    }
    out.push(Layer::plain(from));
    out.push(Layer::full(from, 1000));
    out
}
