// SPDX-License-Identifier: GPL-2.0
//! One stage of a pipeline that trains GNMT (Wu et al., arXiv 1609.08144): LSTM layers of 1024 units, one forward, one backward
//! (PipeDream's 1F1B, Narayanan et al., SOSP 2019). Stage s of S keeps the activations of S - s batches: early stages need more.
//!
//! A token's multiply-adds are those of the layer's matrices, forward once, backward twice. How many tokens a batch has follows
//! from its activations: of each token we take a layer to keep the four gates, the cell and the output. That is our assumption;
//! what cuDNN keeps is not published.
//!
//! By these a token computes 3.2 us a layer on a V100, five times as long as what is kept of it takes over the host's link. A V100 takes
//! longer yet: in 32-bit floats 21,346 tokens a second through four layers each (NVIDIA, DeepLearningExamples, PyTorch/Translation/GNMT,
//! README.md, one GPU of a DGX-1), 11.7 us a layer, attention and vocabulary included; with tensor cores 66,050.

use super::{kernel, FLOAT};
use crate::size::{empty, filled};
use crate::{Ask, Step, Workload, WORD};

/// Stages, each on its own GPU.
const STAGES: u64 = 4;
/// Units of a layer.
const UNITS: u64 = 1024;
/// Batches of a pass.
const BATCHES: u64 = 16;

/// Trained values of an LSTM layer: four gates, from input and state, two biases each (as cuDNN has them).
const LAYER: u64 = 4 * (UNITS * UNITS + UNITS * UNITS + 2 * UNITS);
/// Values of a token that a layer keeps from forward to backward.
const KEPT: u64 = 6 * UNITS;

/// Multiply-adds forward of a layer whose activations are so many bytes. One a trained value and token: biases, a thousandth of
/// them, are only added.
fn macs(activations: u64) -> u64 {
    (activations / FLOAT).saturating_mul(LAYER) / KEPT
}

/// Stage `stage` of GNMT with so many LSTM layers in all. The batch fills the footprint, or the one that it stands for: then all arrays
/// are made smaller alike, and multiply-adds with the activations.
pub(crate) fn make(name: &'static str, layers: u64, stage: u64, ask: &Ask) -> Workload {
    let mine = layers / STAGES;
    let versions = STAGES - stage;
    // Weights, gradients, two moments; what is left is for the activations in flight and one gradient of them. Where weights of
    // their true size would be more than half of it, with gradients and moments, they are half.
    let weights = ask.share((mine * LAYER * FLOAT).min(ask.full() / 8)) / mine * mine;
    let left = ask.bytes - 4 * weights;
    let set = left / (versions + 1) / mine / WORD * WORD * mine;
    let words = |bytes: u64| bytes.div_ceil(WORD);
    let allocs = vec![
        filled("weights", words(weights), 0),
        empty("weight-gradients", words(weights)),
        empty("moment1", words(weights)),
        empty("moment2", words(weights)),
        empty("activations", words(set * versions)),
        empty("gradients", words(set)),
    ];
    let (w, a) = (weights / mine, set / mine);
    let macs = macs(a);
    Workload::new(name, allocs, ask.passes_or(2), move |_| {
        let forward = move |batch: u64| {
            let base = batch % versions * set;
            (0..mine).map(move |l| {
                let input = l.checked_sub(1).map(|b| (4, base + b * a, a, false));
                let mut runs = vec![(0, l * w, w, false), (4, base + l * a, a, true)];
                runs.extend(input);
                (runs, macs)
            })
        };
        let backward = move |batch: u64| {
            let base = batch % versions * set;
            let layers = (0..mine).rev().map(move |l| {
                let mut runs = vec![
                    (0, l * w, w, false),
                    (4, base + l * a, a, false),
                    (5, l * a, a, l + 1 == mine),
                    (1, l * w, w, true),
                ];
                runs.extend(l.checked_sub(1).map(|b| (5, b * a, a, true)));
                (runs, 2 * macs)
            });
            let state = [
                (1, 0, weights, false),
                (0, 0, weights, true),
                (2, 0, weights, true),
                (3, 0, weights, true),
            ];
            layers.chain([(state.to_vec(), 0)])
        };
        // Warm-up fills the versions; then one forward, one backward.
        let kernels = (0..BATCHES + versions - 1).flat_map(move |t| {
            let f = (t < BATCHES).then(|| forward(t)).into_iter().flatten();
            let b = t
                .checked_sub(versions - 1)
                .map(backward)
                .into_iter()
                .flatten();
            f.chain(b)
        });
        let all = kernels.flat_map(|(runs, macs)| -> Box<dyn Iterator<Item = Step> + Send> {
            Box::new(kernel(runs, macs))
        });
        Box::new(all)
    })
}
