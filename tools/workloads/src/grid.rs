// SPDX-License-Identifier: GPL-2.0
//! Launches that cover an array once, in grid order: block k handles the k-th piece with all instructions, and the blocks that
//! are resident together walk through the array as one front.

use crate::{Instr, Op, Program, Step, MAX_BLOCKS, PIECE, WORD};

/// Launches over `words` elements: pieces of 64 KiB, then what is left. `ops` has the operations whose operands are so many
/// bytes behind the start.
pub(crate) fn sweep(words: u64, ops: impl Fn(u64) -> Vec<Op>) -> Vec<Step> {
    let each = PIECE / WORD;
    let mut steps = Vec::new();
    let mut done = 0;
    while done < words {
        let left = words - done;
        let (blocks, count) = match left / each {
            0 => (1, left),
            full => (full.min(MAX_BLOCKS), each),
        };
        let instrs = ops(done * WORD)
            .into_iter()
            .map(|op| Instr {
                op,
                count,
                steps: 1,
                block_stride: PIECE,
                step_stride: 0,
            })
            .collect();
        steps.push(Step::Launch(Program {
            blocks: blocks as u32,
            instrs,
        }));
        done += blocks * count;
    }
    steps
}

/// One launch in which each block does its share of arrays of different sizes: of each operation, so many elements a block.
pub(crate) fn shares(blocks: u64, ops: &[(Op, u64)]) -> Step {
    Step::Launch(Program {
        blocks: blocks as u32,
        instrs: ops
            .iter()
            .map(|(op, count)| Instr {
                op: *op,
                count: *count,
                steps: 1,
                block_stride: count * WORD,
                step_stride: 0,
            })
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::At;

    #[test]
    fn a_sweep_covers_each_word_once() {
        for words in [1u64, 8191, 8192, 8193, 100_000] {
            let mut next = 0;
            for step in sweep(words, |o| {
                let x = At::start(0).plus(o);
                vec![Op::Copy { dst: x, a: x }]
            }) {
                let Step::Launch(p) = step else {
                    panic!("no launch");
                };
                let i = p.instrs[0];
                assert_eq!(i.op.writes().unwrap().offset, next);
                assert!(p.blocks == 1 || i.block_stride == i.count * WORD);
                next += u64::from(p.blocks) * i.count * WORD;
            }
            assert_eq!(next, words * WORD);
        }
    }
}
