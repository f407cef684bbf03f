// SPDX-License-Identifier: GPL-2.0
//! Rodinia's LU decomposition in place, by tiles: step k factors the diagonal tile, then the pivot row and column of tiles, then
//! sweeps the trailing matrix, which reads both pivots. The active area shrinks by a tile each step.

use crate::size::{filled, side};
use crate::trace::{kernels, run, Kernel, PAGE_PS};
use crate::{Ask, Touch, Workload, WORD};

/// Tiles a side.
const TILES: u64 = 16;

pub(crate) fn make(ask: &Ask) -> Workload {
    let n = side(ask.bytes, 1, 0);
    let allocs = vec![filled("m", n * n, 0)];
    Workload::new("lud", allocs, ask.passes_or(1), move |_| {
        Box::new(kernels((0..TILES).flat_map(move |k| step(k, n)), PAGE_PS))
    })
}

/// The three kernels of a step: the diagonal, the perimeter and the rest.
fn step(k: u64, n: u64) -> [Kernel; 3] {
    let diagonal = tile(k, k, n, true);
    let row = (k + 1..TILES).flat_map(move |t| tile(k, t, n, true));
    let column = (k + 1..TILES).flat_map(move |t| tile(t, k, n, true));
    let trailing = (k + 1..TILES).flat_map(move |r| {
        (k + 1..TILES).flat_map(move |c| {
            tile(r, k, n, false)
                .chain(tile(k, c, n, false))
                .chain(tile(r, c, n, true))
        })
    });
    [
        Box::new(diagonal),
        Box::new(row.chain(column)),
        Box::new(trailing),
    ]
}

/// Pages of tile (r, c), row by row.
fn tile(r: u64, c: u64, n: u64, write: bool) -> impl Iterator<Item = Touch> + Send {
    let edge = move |t: u64| t * n / TILES;
    (edge(r)..edge(r + 1)).flat_map(move |row| {
        let from = (row * n + edge(c)) * WORD;
        run(0, from, (edge(c + 1) - edge(c)) * WORD, write)
    })
}
