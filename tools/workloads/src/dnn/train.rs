// SPDX-License-Identifier: GPL-2.0
//! Iterations of training with a batch that fills the footprint, or the one that it stands for: then all arrays and all that is
//! computed are made smaller alike, so that weights are the same share of it, and a byte costs the same arithmetic.

use super::{Layer, FLOAT};
use crate::size::{empty, filled};
use crate::{Alloc, Ask, Step, Workload, WORD};
use std::sync::Arc;

/// Allocations: weights, their gradients, both moments of Adam (Kingma, Ba, ICLR 2015), activations, their gradients, the images.
const WEIGHTS: u32 = 0;
const DELTAS: u32 = 1;
const MOMENTS: [u32; 2] = [2, 3];
const ACTIVATIONS: u32 = 4;
const GRADIENTS: u32 = 5;
const IMAGES: u32 = 6;

/// 1 of the fractions.
const ONE: u128 = 1 << 32;

/// Values of an image.
const IMAGE: u64 = 224 * 224 * 3;

/// A run of bytes of an allocation.
type Run = (u32, u64, u64);

/// Where a layer's data is.
#[derive(Clone, Copy)]
struct Place {
    weights: u64,
    weight_bytes: u64,
    output: u64,
    output_bytes: u64,
    macs: u64,
}

/// A kernel: what it reads, what it writes, its multiply-adds.
fn kernel(reads: &[Run], writes: &[Run], macs: u64) -> impl Iterator<Item = Step> + Send {
    let with =
        |runs: &[Run], write| -> Vec<_> { runs.iter().map(|r| (r.0, r.1, r.2, write)).collect() };
    let mut runs = with(reads, false);
    runs.extend(with(writes, true));
    super::kernel(runs, macs)
}

/// What training of some layers has in memory, and where.
struct Plan {
    places: Vec<Place>,
    /// Bytes of the weights, of the activations, of the images.
    weights: u64,
    activations: u64,
    images: u64,
}

fn plan(layers: &[Layer], ask: &Ask) -> Plan {
    let weights: u64 = layers.iter().map(|l| l.weights).sum();
    let each: u64 = layers.iter().map(|l| l.output).sum();
    // A batch of whole images does not meet a footprint to 1 %. A full footprint that does not hold the weights and an image is taken for
    // the least that does. All are fractions of 2^32.
    let fixed = 4 * weights * FLOAT;
    let image = (2 * each + IMAGE) * FLOAT;
    let full = ask.full().max(fixed + image);
    let batch = u128::from(full - fixed) * ONE / u128::from(image);
    let scale = u128::from(ask.bytes) * ONE / u128::from(full);
    let per_image = batch * scale / ONE;
    let shrunk = move |values: u64| (u128::from(values) * scale / ONE) as u64 * FLOAT;
    let batched = move |values: u64| {
        let bytes = (u128::from(values * FLOAT) * per_image / ONE) as u64;
        // What shrinks has whole values, as its weights.
        match scale < ONE {
            true => bytes / FLOAT * FLOAT,
            false => bytes,
        }
    };
    let (mut w, mut a) = (0, 0);
    let places: Vec<Place> = layers
        .iter()
        .map(|l| {
            let p = Place {
                weights: w,
                weight_bytes: shrunk(l.weights),
                output: a,
                output_bytes: batched(l.output),
                macs: batched(l.macs) / FLOAT,
            };
            w += p.weight_bytes;
            a += p.output_bytes;
            p
        })
        .collect();
    Plan {
        places,
        weights: w,
        activations: a,
        images: batched(IMAGE),
    }
}

/// Training of these layers.
pub(crate) fn make(name: &'static str, layers: Vec<Layer>, ask: &Ask) -> Workload {
    let plan = plan(&layers, ask);
    let (w, a, images) = (plan.weights, plan.activations, plan.images);
    let words = |bytes: u64| bytes.div_ceil(WORD);
    let allocs: Vec<Alloc> = vec![
        filled("weights", words(w), 0),
        empty("weight-gradients", words(w)),
        empty("moment1", words(w)),
        empty("moment2", words(w)),
        empty("activations", words(a)),
        empty("gradients", words(a)),
        filled("images", words(images), 1),
    ];
    let places: Arc<[Place]> = plan.places.into();
    Workload::new(name, allocs, ask.passes_or(3), move |_| {
        let places = places.clone();
        Box::new((0..=2 * places.len()).flat_map(move |i| kernel_of(&places, i, images, w)))
    })
}

/// Kernel `i` of an iteration over n layers: n forward, n backward, the optimiser.
fn kernel_of(
    places: &[Place],
    i: usize,
    images: u64,
    all: u64,
) -> Box<dyn Iterator<Item = Step> + Send> {
    let n = places.len();
    let backward = i >= n;
    let l = if backward {
        (2 * n).wrapping_sub(i + 1)
    } else {
        i
    };
    let Some(p) = places.get(l) else {
        let whole = |alloc| (alloc, 0, all);
        let state = [WEIGHTS, MOMENTS[0], MOMENTS[1]].map(whole);
        return Box::new(kernel(&[whole(DELTAS)], &state, 0));
    };
    let before = l.checked_sub(1).and_then(|b| places.get(b));
    let input = before.map_or((IMAGES, 0, images), |b| {
        (ACTIVATIONS, b.output, b.output_bytes)
    });
    let weights = (WEIGHTS, p.weights, p.weight_bytes);
    if !backward {
        let output = (ACTIVATIONS, p.output, p.output_bytes);
        return Box::new(kernel(&[weights, input], &[output], p.macs));
    }
    let mut writes = vec![(DELTAS, p.weights, p.weight_bytes)];
    writes.extend(before.map(|b| (GRADIENTS, b.output, b.output_bytes)));
    // Backward is two products of the size of the one forward. The last layer's gradient comes from its output.
    let above = (GRADIENTS, p.output, p.output_bytes);
    let mut steps: Vec<Step> = Vec::new();
    if l + 1 == n {
        let output = (ACTIVATIONS, p.output, p.output_bytes);
        steps.extend(kernel(&[output], &[above], 0));
    }
    steps.extend(kernel(&[weights, input, above], &writes, 2 * p.macs));
    Box::new(steps.into_iter())
}

#[cfg(test)]
mod tests {
    use super::super::{mobilenet, resnet, vgg};
    use super::*;

    /// Catches multiply-adds that are made smaller by more than the arrays, or not at all.
    #[test]
    fn a_byte_costs_the_same_arithmetic() {
        let macs = |layers: &[Layer], bytes: u64, full: Option<u64>| {
            let ask = Ask {
                full,
                ..Ask::bytes(bytes)
            };
            let macs: u64 = plan(layers, &ask).places.iter().map(|p| p.macs).sum();
            macs as f64 / bytes as f64
        };
        for layers in [vgg::vgg16(), resnet::resnet101(), mobilenet::mobilenet()] {
            let large = macs(&layers, 24 << 30, None);
            for bytes in [8 << 20, 1 << 30, 3 << 30] {
                let small = macs(&layers, bytes, Some(24 << 30));
                assert!((small / large - 1.0).abs() < 0.02, "{small} {large}");
            }
            assert_eq!(
                macs(&layers, 1 << 30, Some(1)),
                macs(&layers, 1 << 30, None)
            );
        }
        let vgg = vgg::vgg16();
        assert!(macs(&vgg, 1 << 30, None) * 10.0 < macs(&vgg, 1 << 30, Some(24 << 30)));
    }
}
