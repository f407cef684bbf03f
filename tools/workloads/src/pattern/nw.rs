// SPDX-License-Identifier: GPL-2.0
//! Rodinia's Needleman-Wunsch: kernels walk over the anti-diagonals of 64 × 64 tiles of two matrices of 32-bit integers, first
//! towards the main one and then away. A row of a tile is a page of its own as soon as a matrix row is one.

use crate::size::{filled, isqrt};
use crate::trace::{kernels, touch, Kernel, PAGE_PS};
use crate::{Ask, Touch, Workload, PAGE};

/// Tiles a side: UVMSmart's 1024 × 1024 in tiles of 16 × 16, whatever the footprint. 127 kernels.
const TILES: u64 = 64;
/// Bytes of an element.
const INT: u64 = 4;

pub(crate) fn make(ask: &Ask) -> Workload {
    // (n + 1)², two times.
    let side = isqrt(ask.bytes / INT / 2);
    let words = (side * side).div_ceil(2);
    let allocs = vec![
        filled("reference", words, 0),
        filled("input_itemsets", words, 1),
    ];
    Workload::new("nw", allocs, ask.passes_or(1), move |_| {
        let diagonals = (0..2 * TILES - 1).map(move |d| {
            let from = d.saturating_sub(TILES - 1);
            let tiles = from..=d.min(TILES - 1);
            Box::new(tiles.flat_map(move |bx| tile(bx, d - bx, side))) as Kernel
        });
        Box::new(kernels(diagonals, PAGE_PS))
    })
}

/// A tile: its rows of the reference, read, and of the scores, read and written.
fn tile(bx: u64, by: u64, side: u64) -> impl Iterator<Item = Touch> + Send {
    // The matrix has one row and one column more than the tiles cover.
    let n = side - 1;
    let edge = |t: u64| 1 + t * n / TILES;
    let (left, right) = (edge(bx) * INT, edge(bx + 1) * INT);
    (edge(by)..edge(by + 1)).flat_map(move |row| {
        let start = row * side * INT;
        let (first, end) = ((start + left) / PAGE, (start + right).div_ceil(PAGE));
        (first..end).flat_map(|p| [touch(0, p * PAGE, false), touch(1, p * PAGE, true)])
    })
}
