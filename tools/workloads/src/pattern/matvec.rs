// SPDX-License-Identifier: GPL-2.0
//! Matrix times vector, two ways. A thread a row: all threads are in the same column at the same time, so every row's page is in
//! use at once, and a page again and again until its columns are over. A thread a column: rows are read one after the other.

use super::starts;
use crate::size::{empty, filled, side};
use crate::trace::{kernels, run, steps, touch, Kernel, PAGE_PS};
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

/// A kernel on one matrix: by columns of pages or by rows; the vectors that it reads and writes.
type Sweep = (bool, u32, u32);

/// Two kernels on matrix A, which they read one after the other: with vectors that the CPU fills and vectors that it does not.
fn two(
    name: &'static str,
    ask: &Ask,
    filled: &[&'static str],
    others: &[&'static str],
    sweeps: [Sweep; 2],
) -> Workload {
    let n = side(ask.bytes, 1, (filled.len() + others.len()) as u64);
    let mut allocs = arrays(n, &["A"], filled);
    allocs.extend(others.iter().map(|name| empty(name, n)));
    Workload::new(name, allocs, ask.passes_or(1), move |_| {
        let each = sweeps.into_iter().map(move |(columns, v, w)| -> Kernel {
            if columns {
                Box::new(by_column(0, v, w, n))
            } else {
                Box::new(by_row(0, v, w, n))
            }
        });
        Box::new(kernels(each, PAGE_PS))
    })
}

/// `y = Aᵀ(A x)`: both kernels on one matrix.
pub(crate) fn atax(ask: &Ask) -> Workload {
    let sweeps = [(true, 1, 2), (false, 2, 3)];
    two("atax", ask, &["x"], &["tmp", "y"], sweeps)
}

/// `x1 += A y1`, `x2 += Aᵀ y2`.
pub(crate) fn mvt(ask: &Ask) -> Workload {
    let sweeps = [(true, 1, 3), (false, 2, 4)];
    two("mvt", ask, &["y1", "y2", "x1", "x2"], &[], sweeps)
}

/// `s = Aᵀ r`, then `q = A p`.
pub(crate) fn bicg(ask: &Ask) -> Workload {
    let sweeps = [(false, 1, 3), (true, 2, 4)];
    two("bicg", ask, &["r", "p"], &["s", "q"], sweeps)
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
