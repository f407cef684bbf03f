// SPDX-License-Identifier: GPL-2.0
//! One pass over arrays that advance together; no reuse.

use super::starts;
use crate::grid::sweep;
use crate::size::{empty, filled};
use crate::{Ask, At, Op, Workload, WORD};

/// `z = x + 3·y`.
pub(crate) fn triad(ask: &Ask) -> Workload {
    three("stream-triad", ask, |dst, a, b| Op::Triad {
        dst,
        a,
        b,
        mul: 3,
    })
}

/// `z = x + y`.
pub(crate) fn add(ask: &Ask) -> Workload {
    three("add-vectors", ask, |dst, a, b| Op::Add { dst, a, b })
}

fn three(name: &'static str, ask: &Ask, op: fn(At, At, At) -> Op) -> Workload {
    let words = ask.bytes / WORD / 3;
    let allocs = vec![
        filled("x", words, 0),
        filled("y", words, 1),
        empty("z", words),
    ];
    Workload::new(name, allocs, ask.passes_or(1), move |_| {
        let [x, y, z] = starts();
        Box::new(sweep(words, |o| vec![op(z.plus(o), x.plus(o), y.plus(o))]).into_iter())
    })
}
