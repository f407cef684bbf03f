// SPDX-License-Identifier: GPL-2.0
//! Matrix times vector, two ways. A thread a row: all threads are in the same column at the same time, so every row's page is in
//! use at once, and a page again and again until its columns are over. A thread a column: rows are read one after the other.

use super::starts;
use crate::size::{empty, filled, side};
use crate::trace::{run, steps, touch, PAGE_PS};
use crate::{Alloc, Ask, Touch, Workload, PAGE, WORD};

/// Times that a page of a row comes around while the threads walk through its columns. It is 128 on a GPU, once a sector of 32
/// bytes; 4, once a KiB, keeps the pattern and a trace of a length that can be replayed.
pub(crate) const VISITS: u64 = 4;

/// Matrix `m`, side n, a thread a row: reads vector `v`, and writes vector `w` at the end.
fn by_column(m: u32, v: u32, w: u32, n: u64) -> impl Iterator<Item = Touch> + Send {
    let part = PAGE / VISITS;
    (0..(n * WORD).div_ceil(part))
        .flat_map(move |c| {
            let column = c * part;
            std::iter::once(touch(v, column, false)).chain(
                (0..n).map(move |r| touch(m, r * n * WORD + column.min(n * WORD - 1), false)),
            )
        })
        .chain(run(w, 0, n * WORD, true))
}

/// Matrix `m`, a thread a column: reads vector `v`, and writes vector `w` at the end.
fn by_row(m: u32, v: u32, w: u32, n: u64) -> impl Iterator<Item = Touch> + Send {
    run(m, 0, n * n * WORD, false)
        .flat_map(move |t| {
            let row = u64::from(t.page) * PAGE / (n * WORD);
            // The vector's page, when the row is its first of a page.
            let fresh = u64::from(t.page) % (n * WORD).div_ceil(PAGE) == 0;
            let element = touch(v, row.min(n - 1) * WORD, false);
            fresh.then_some(element).into_iter().chain([t])
        })
        .chain(run(w, 0, n * WORD, true))
}

fn arrays(n: u64, matrices: &[&'static str], vectors: &[&'static str]) -> Vec<Alloc> {
    let m = (0..).zip(matrices).map(|(i, name)| filled(name, n * n, i));
    let v = (9..).zip(vectors).map(|(i, name)| filled(name, n, i));
    m.chain(v).collect()
}

/// `y = Aᵀ(A x)`: both kernels on one matrix.
pub(crate) fn atax(ask: &Ask) -> Workload {
    let n = side(ask.bytes, 1, 3);
    let mut allocs = arrays(n, &["A"], &["x"]);
    allocs.extend([empty("tmp", n), empty("y", n)]);
    Workload::new("atax", allocs, ask.passes_or(1), move |_| {
        Box::new(steps(
            by_column(0, 1, 2, n).chain(by_row(0, 2, 3, n)),
            PAGE_PS,
        ))
    })
}

/// `x1 += A y1`, `x2 += Aᵀ y2`.
pub(crate) fn mvt(ask: &Ask) -> Workload {
    let n = side(ask.bytes, 1, 4);
    let allocs = arrays(n, &["A"], &["y1", "y2", "x1", "x2"]);
    Workload::new("mvt", allocs, ask.passes_or(1), move |_| {
        Box::new(steps(
            by_column(0, 1, 3, n).chain(by_row(0, 2, 4, n)),
            PAGE_PS,
        ))
    })
}

/// `s = Aᵀ r`, then `q = A p`.
pub(crate) fn bicg(ask: &Ask) -> Workload {
    let n = side(ask.bytes, 1, 4);
    let mut allocs = arrays(n, &["A"], &["r", "p"]);
    allocs.extend([empty("s", n), empty("q", n)]);
    Workload::new("bicg", allocs, ask.passes_or(1), move |_| {
        Box::new(steps(
            by_row(0, 1, 3, n).chain(by_column(0, 2, 4, n)),
            PAGE_PS,
        ))
    })
}

/// `y = A x + B x`: two matrices at once, a thread a row.
pub(crate) fn gesummv(ask: &Ask) -> Workload {
    let n = side(ask.bytes, 2, 2);
    let mut allocs = arrays(n, &["A", "B"], &["x"]);
    allocs.push(empty("y", n));
    Workload::new("gesummv", allocs, ask.passes_or(1), move |_| {
        let [a, b, x, y] = starts().map(|at| at.alloc);
        let both = by_column(a, x, y, n).zip(by_column(b, x, y, n));
        // The vectors' touches come twice from the two; once is enough.
        Box::new(steps(
            both.flat_map(|(t, u)| [Some(t), (t != u).then_some(u)].into_iter().flatten()),
            PAGE_PS,
        ))
    })
}
