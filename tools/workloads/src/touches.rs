// SPDX-License-Identifier: GPL-2.0
//! Any step as touches of pages, in the order of an engine whose resident blocks advance at the same pace: for offline tools
//! (optimal replacement, heat maps) and tests.

use crate::{At, Instr, Op, Program, Step, Touch, PAGE, WORD};

/// Blocks that run at once: a V100 has 80 multiprocessors (the engine's default as well, device.md 2.3).
pub const RESIDENT: u64 = 80;

/// Calls `each` for the pages of a step. What a block touches twice in a row within an instruction is one touch.
pub fn visit(step: &Step, each: &mut impl FnMut(Touch)) {
    match step {
        Step::Launch(p) => launch(p, each),
        Step::Trace(t) => t.touches.iter().copied().for_each(each),
        // The CPU's, not a GPU's; and nobody's.
        Step::Cpu { .. } | Step::Discard { .. } => {}
    }
}

fn launch(p: &Program, each: &mut impl FnMut(Touch)) {
    let blocks = u64::from(p.blocks);
    let mut wave = 0;
    while wave < blocks {
        let end = blocks.min(wave + RESIDENT);
        for i in &p.instrs {
            instr(i, wave..end, each);
        }
        wave = end;
    }
}

fn instr(i: &Instr, wave: std::ops::Range<u64>, each: &mut impl FnMut(Touch)) {
    let bytes = i.count * WORD;
    for step in 0..i.steps {
        // Piece by piece, all blocks of the wave in turn.
        let mut piece = 0;
        while piece < bytes {
            let end = bytes.min(piece + PAGE);
            for k in wave.clone() {
                let base = k * i.block_stride + step * i.step_stride;
                for at in i.op.reads().into_iter().flatten() {
                    pages(at.plus(base), piece, end, false, each);
                }
                if let Some(at) = i.op.writes() {
                    pages(at.plus(base), piece, end, true, each);
                }
            }
            piece += PAGE;
        }
    }
    if let Op::Reduce { dst, .. } = i.op {
        for k in wave {
            pages(dst.plus(k * WORD), 0, WORD, true, each);
        }
    }
}

/// Pages of the bytes `from .. to` behind `at`; not the page that the piece before reached already.
fn pages(at: At, from: u64, to: u64, write: bool, each: &mut impl FnMut(Touch)) {
    let first = match from {
        0 => at.offset / PAGE,
        _ => (at.offset + from).div_ceil(PAGE),
    };
    for page in first..(at.offset + to).div_ceil(PAGE) {
        each(Touch {
            alloc: at.alloc,
            page: page as u32,
            write,
        });
    }
}
