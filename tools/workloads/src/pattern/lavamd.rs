// SPDX-License-Identifier: GPL-2.0
//! Rodinia's lavaMD: each box of 100 particles with its 26 neighbours, boxes in space order. A front of nine rows of boxes moves
//! through positions and charges; forces are written once.

use crate::size::filled;
use crate::trace::{run, steps, PAGE_PS};
use crate::{Ask, Touch, Workload, PAGE, WORD};

/// Bytes of a box: 100 particles, each a position of four doubles, a charge, a force of four doubles.
const POSITION: u64 = 3200;
const CHARGE: u64 = 800;
const FORCE: u64 = 3200;

pub(crate) fn make(ask: &Ask) -> Workload {
    let boxes = ask.bytes / (POSITION + CHARGE + FORCE);
    let allocs = vec![
        filled("rv", boxes * POSITION / WORD, 0),
        filled("qv", boxes * CHARGE / WORD, 1),
        filled("fv", boxes * FORCE / WORD, 2),
    ];
    Workload::new("lavamd", allocs, ask.passes_or(1), move |_| {
        Box::new(steps(front(boxes), PAGE_PS))
    })
}

/// Largest number whose cube is at most x.
fn cube_root(x: u64) -> u64 {
    let mut n = 1;
    while (n + 1) * (n + 1) * (n + 1) <= x {
        n += 1;
    }
    n
}

/// Boxes in a cube, numbered x first. The front is the nine rows around a box; each touches a page when it comes to it.
fn front(boxes: u64) -> impl Iterator<Item = Touch> + Send {
    let side = cube_root(boxes) as i64;
    let mut streams: Vec<(i64, Option<u64>, Option<u64>)> = Vec::new();
    for dz in -1..=1 {
        for dy in -1..=1 {
            // One ahead: the neighbour in x.
            streams.push((dz * side * side + dy * side + 1, None, None));
        }
    }
    (0..boxes).flat_map(move |b| {
        let mut out = Vec::new();
        for (ahead, rv, qv) in &mut streams {
            let Some(n) = b.checked_add_signed(*ahead).filter(|n| *n < boxes) else {
                continue;
            };
            for (alloc, each, last) in [(0, POSITION, rv), (1, CHARGE, qv)] {
                for t in run(alloc, n * each, each, false) {
                    if last.is_none_or(|l| u64::from(t.page) > l) {
                        *last = Some(t.page.into());
                        out.push(t);
                    }
                }
            }
        }
        // The force, when its box begins a page; the first box begins one.
        let from = (b * FORCE).next_multiple_of(PAGE);
        let to = ((b + 1) * FORCE).next_multiple_of(PAGE);
        out.extend(run(2, from, to - from, true));
        out
    })
}
