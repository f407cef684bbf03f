// SPDX-License-Identifier: GPL-2.0
//! Rodinia's pathfinder: 20 kernels, each adds 10 rows of a wall to a row of results; two such rows change places.

use super::starts;
use crate::grid::sweep;
use crate::size::{empty, filled};
use crate::{Ask, Op, Workload, WORD};

/// Kernels of UVMSmart's input.
const KERNELS: u64 = 20;
/// Rows a kernel: the pyramid's height.
const ROWS: u64 = 10;

pub(crate) fn make(ask: &Ask) -> Workload {
    let cols = ask.bytes / WORD / (KERNELS * ROWS + 2);
    let allocs = vec![
        filled("wall", cols * KERNELS * ROWS, 0),
        filled("result0", cols, 1),
        empty("result1", cols),
    ];
    Workload::new("pathfinder", allocs, ask.passes_or(1), move |_| {
        let [wall, one, two] = starts();
        Box::new((0..KERNELS).flat_map(move |k| {
            let (src, dst) = if k % 2 == 0 { (one, two) } else { (two, one) };
            sweep(cols, |o| {
                let row = |r: u64| wall.plus((k * ROWS + r) * cols * WORD + o);
                (0..ROWS)
                    .map(|r| Op::Add {
                        dst: dst.plus(o),
                        a: if r == 0 { src.plus(o) } else { dst.plus(o) },
                        b: row(r),
                    })
                    .collect()
            })
        }))
    })
}
