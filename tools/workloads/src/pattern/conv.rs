// SPDX-License-Identifier: GPL-2.0
//! Convolutions: a row or plane from itself and its two neighbours. Only the three taps across rows (planes) are computed; those
//! along a row are in the same pages.

use super::starts;
use crate::grid::sweep;
use crate::size::{empty, filled, isqrt};
use crate::{Ask, At, Op, Step, Workload, WORD};

/// `b[i] = a[i-1] + 2·a[i] + a[i+1]` for units of `unit` bytes, of all `units` but the first and the last.
fn taps(a: At, b: At, unit: u64, units: u64) -> Vec<Step> {
    let inner = units.saturating_sub(2) * unit / WORD;
    sweep(inner, |o| {
        let (up, mid, down) = (a.plus(o), a.plus(o + unit), a.plus(o + 2 * unit));
        let dst = b.plus(o + unit);
        let first = Op::Add {
            dst,
            a: up,
            b: down,
        };
        let then = Op::Triad {
            dst,
            a: dst,
            b: mid,
            mul: 2,
        };
        vec![first, then]
    })
}

/// PolyBench's 2DCONV: a square image, read and written once.
pub(crate) fn conv2d(ask: &Ask) -> Workload {
    let n = isqrt(ask.bytes / WORD / 2);
    let allocs = vec![filled("A", n * n, 0), empty("B", n * n)];
    Workload::new("2dconv", allocs, ask.passes_or(1), move |_| {
        let [a, b] = starts();
        Box::new(taps(a, b, n * WORD, n).into_iter())
    })
}

/// A 3-D stencil of 64 planes, source and destination changing places each iteration: UVMSmart's 512 × 512 × 64, 10 times.
pub(crate) fn conv3d(ask: &Ask) -> Workload {
    const PLANES: u64 = 64;
    let plane = ask.bytes / WORD / 2 / PLANES;
    let allocs = vec![
        filled("A0", plane * PLANES, 0),
        empty("Anext", plane * PLANES),
    ];
    Workload::new("3dconv", allocs, ask.passes_or(10), move |pass| {
        let [mut a, mut b] = starts();
        if pass % 2 == 1 {
            (a, b) = (b, a);
        }
        Box::new(taps(a, b, plane * WORD, PLANES).into_iter())
    })
}
