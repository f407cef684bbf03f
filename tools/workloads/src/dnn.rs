// SPDX-License-Identifier: GPL-2.0
//! Training of neural networks, from layer tables in 32-bit floats: forward R weights, R input, W output; backward R weights,
//! R input, R output's gradient, W input's gradient, RW weights' gradient; then the optimiser over all weights. Walked forward
//! and back over activations, in a cycle over weights.

pub(crate) mod gnmt;
pub mod mobilenet;
pub mod resnet;
pub(crate) mod train;
pub mod vgg;

/// Bytes of a value.
pub(crate) const FLOAT: u64 = 4;

/// A layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Trained values.
    pub weights: u64,
    /// Values that it hands on, for one image.
    pub output: u64,
    /// Multiplications and additions for one image forward, counted as one.
    pub macs: u64,
}

impl Layer {
    /// A convolution of `k` × `k` from `from` to `to` channels (in `groups`), whose output is `side` × `side`, with so many
    /// trained values a channel beside the kernel (a bias: 1, a batch normalisation: 2).
    pub(crate) const fn conv(
        k: u64,
        from: u64,
        to: u64,
        side: u64,
        groups: u64,
        per: u64,
    ) -> Layer {
        let kernel = k * k * (from / groups) * to;
        Layer {
            weights: kernel + per * to,
            output: side * side * to,
            macs: kernel * side * side,
        }
    }

    /// A fully connected layer with bias.
    pub(crate) const fn full(from: u64, to: u64) -> Layer {
        Layer {
            weights: from * to + to,
            output: to,
            macs: from * to,
        }
    }

    /// One without weights: pooling.
    pub(crate) const fn plain(output: u64) -> Layer {
        Layer {
            weights: 0,
            output,
            macs: 0,
        }
    }
}
