// SPDX-License-Identifier: GPL-2.0
//! Rodinia's backprop: forward over the weights, then an update of the weights and of their previous change, in the same order.

use super::{starts, MINUS};
use crate::grid::shares;
use crate::size::{empty, filled, proportional};
use crate::{Ask, Op, Workload, WORD};

/// Weights to an input: 16 hidden units and a bias, as in UVMSmart's 8.5 MB of weights for 0.5 MB of inputs.
const HIDDEN: u64 = 17;

pub(crate) fn make(ask: &Ask) -> Workload {
    let (_, unit) = proportional(ask.bytes, &[HIDDEN, HIDDEN, 1, 1]);
    let (many, few) = (unit * HIDDEN, unit);
    // Behind the partial results lies the sum of each block.
    let blocks = (ask.bytes / WORD / (2 * many + 2 * few + 1)).max(1);
    let allocs = vec![
        filled("weights", blocks * many, 0),
        filled("previous", blocks * many, 1),
        filled("inputs", blocks * few, 2),
        empty("partial", blocks * (few + 1)),
    ];
    Workload::new("backprop", allocs, ask.passes_or(1), move |_| {
        let [weights, previous, inputs, partial] = starts();
        let sums = Op::Reduce {
            dst: partial.plus(blocks * few * WORD),
            a: weights,
        };
        let scale = Op::Scale {
            dst: partial,
            a: inputs,
            mul: 3,
            add: 1,
        };
        let update = |dst, b, mul| Op::Triad {
            dst,
            a: dst,
            b,
            mul,
        };
        let steps = vec![
            shares(blocks, &[(scale, few), (sums, many)]),
            shares(
                blocks,
                &[
                    (update(weights, previous, 3), many),
                    (update(previous, weights, MINUS), many),
                ],
            ),
        ];
        Box::new(steps.into_iter())
    })
}
