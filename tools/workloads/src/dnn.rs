// SPDX-License-Identifier: GPL-2.0
//! Training of neural networks, from layer tables in 32-bit floats: forward R weights, R input, W output; backward R weights,
//! R input, R output's gradient, W input's gradient, RW weights' gradient; then the optimiser over all weights. Walked forward
//! and back over activations, in a cycle over weights.
//!
//! What a network's weights are of its footprint, and how much it computes a byte, go with its batch, so with the footprint. One that
//! stands for a larger one ([`crate::Ask::full`]) has the batch of that.

pub(crate) mod gnmt;
pub mod mobilenet;
pub mod resnet;
pub(crate) mod train;
pub mod vgg;

use crate::lockstep::lockstep;
use crate::trace::{steps, PAGE_PS};
use crate::{Step, PAGE};

/// Bytes of a value.
pub(crate) const FLOAT: u64 = 4;

/// Multiply-adds a nanosecond of a V100 in 32-bit floats: half of 15.7 TFLOPS (NVIDIA, Tesla V100 data sheet, 2018).
const MACS_PER_NS: u64 = 7850;

/// A run of bytes of an allocation, and whether it is written.
type Run = (u32, u64, u64, bool);

/// A kernel: the runs that it goes over, its multiply-adds.
fn kernel(runs: Vec<Run>, macs: u64) -> impl Iterator<Item = Step> + Send {
    let touches: u64 = runs.iter().map(|r| r.2.div_ceil(PAGE)).sum();
    // Computing and memory overlap: the longer of the two.
    let ps = (macs.saturating_mul(1000) / MACS_PER_NS / touches.max(1)).max(PAGE_PS);
    steps(lockstep(runs), ps)
}

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
