// SPDX-License-Identifier: GPL-2.0
//! Instructions of the workload engine over several ranges, and the bounds within which they become addresses.

use crate::error::{Error, Result};
use crate::space::Use;
use crate::uapi;
use crate::work::PIECE;

/// Bytes of an element.
pub(crate) const WORD: u64 = 8;
/// Most blocks of a launch (Documentation/device.md 2.3).
const MAX_BLOCKS: u32 = 1 << 20;
/// Most elements of a step, and most steps of a block.
const MAX_COUNT: u64 = 1 << 32;

/// A place in one of a program's ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// Number of the range.
    pub range: usize,
    /// Bytes from its start, a multiple of 8.
    pub offset: u64,
}

impl At {
    /// The start of a range.
    pub const fn start(range: usize) -> At {
        At { range, offset: 0 }
    }

    /// So many bytes further.
    #[must_use]
    pub const fn plus(self, bytes: u64) -> At {
        At {
            range: self.range,
            offset: self.offset.saturating_add(bytes),
        }
    }
}

/// What an instruction does with 64-bit words. Arithmetic wraps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `dst = a`
    Copy {
        /// Written.
        dst: At,
        /// Read.
        a: At,
    },
    /// `dst = a + b`
    Add {
        /// Written.
        dst: At,
        /// Read.
        a: At,
        /// Read.
        b: At,
    },
    /// `dst = a + mul · b`
    Triad {
        /// Written.
        dst: At,
        /// Read.
        a: At,
        /// Read.
        b: At,
        /// Factor.
        mul: u64,
    },
    /// `dst = mul · a + add`
    Scale {
        /// Written.
        dst: At,
        /// Read.
        a: At,
        /// Factor.
        mul: u64,
        /// Summand.
        add: u64,
    },
    /// The sum of a block's `a`, to word k of `dst`.
    Reduce {
        /// Written, one word a block.
        dst: At,
        /// Read.
        a: At,
    },
    /// `dst = table[idx]`. An index beyond the table is found by the GPU alone: it reads what is there, or the launch fails.
    Gather {
        /// Written.
        dst: At,
        /// Number of the range that is the table.
        table: usize,
        /// Read.
        idx: At,
    },
    /// Compute that touches nothing.
    Delay {
        /// Nanoseconds a step.
        ns: u64,
    },
}

/// An instruction. Element e of step s of block k of an operand at X is at `X + k·block_stride + s·step_stride + 8·e`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instr {
    /// What it does.
    pub op: Op,
    /// Elements a step, 1 to 2^32.
    pub count: u64,
    /// Steps a block, 1 to 2^32.
    pub steps: u64,
    /// Bytes from a block to the next, a multiple of 8.
    pub block_stride: u64,
    /// Bytes from a step to the next, a multiple of 8.
    pub step_stride: u64,
}

/// Whether a launch may have so many blocks and instructions.
pub(crate) fn fits(blocks: u32, instrs: usize) -> Result<()> {
    if blocks == 0 || blocks > MAX_BLOCKS {
        return Err(Error::Argument(format!(
            "{blocks} blocks: there must be 1 to {MAX_BLOCKS}"
        )));
    }
    let most = uapi::HUVM_MAX_INSTR as usize;
    if instrs == 0 || instrs > most {
        return Err(Error::Argument(format!(
            "{instrs} instructions: there must be 1 to {most}"
        )));
    }
    Ok(())
}

/// The address of `bytes` from a place on, all of them inside its range, which is noted as written where it is.
fn address(ranges: &mut [Use], at: At, bytes: u64, writes: bool) -> Result<u64> {
    let outside = || Error::Argument(format!("{bytes} bytes from {at:?} on are not inside"));
    let range = ranges.get_mut(at.range).ok_or_else(outside)?;
    let va = range.start.checked_add(at.offset).ok_or_else(outside)?;
    let end = va.checked_add(bytes).ok_or_else(outside)?;
    if at.offset % WORD != 0 || end > range.end {
        return Err(outside());
    }
    range.writes |= writes;
    Ok(va)
}

impl Instr {
    /// An operation over `bytes` of 64-bit words in grid-stride order: block k handles pieces ([`PIECE`]) k, k + blocks, …
    ///
    /// # Errors
    /// [`Error::Argument`] unless `bytes` is a multiple of `blocks` pieces.
    pub fn pieces(op: Op, bytes: u64, blocks: u32) -> Result<Instr> {
        let row = PIECE * u64::from(blocks);
        if row == 0 || bytes == 0 || bytes % row != 0 {
            return Err(Error::Argument(format!(
                "{bytes} bytes are not a multiple of {blocks} pieces of 64 KiB"
            )));
        }
        Ok(Instr {
            op,
            count: PIECE / WORD,
            steps: bytes / row,
            block_stride: PIECE,
            step_stride: row,
        })
    }

    /// Bytes from an operand's start to behind its last element.
    fn reach(&self, blocks: u32) -> Option<u64> {
        let last_block = self
            .block_stride
            .checked_mul(u64::from(blocks).checked_sub(1)?)?;
        let last_step = self.step_stride.checked_mul(self.steps.checked_sub(1)?)?;
        let one = self.count.checked_mul(WORD)?;
        one.checked_add(last_step)?.checked_add(last_block)
    }

    /// The instruction with addresses, if all that it touches is inside the ranges. Notes which of them it writes.
    pub(crate) fn resolve(&self, blocks: u32, ranges: &mut [Use]) -> Result<uapi::huvm_instr> {
        let counts = 1..=MAX_COUNT;
        let strides = [self.block_stride, self.step_stride];
        let bytes = self
            .reach(blocks)
            .filter(|_| counts.contains(&self.count) && counts.contains(&self.steps))
            .filter(|_| strides.iter().all(|s| s % WORD == 0))
            .ok_or_else(|| {
                Error::Argument(format!("{self:?} of {blocks} blocks is out of range"))
            })?;
        let mut i = uapi::huvm_instr {
            count: self.count,
            steps: self.steps,
            block_stride: self.block_stride,
            step_stride: self.step_stride,
            ..Default::default()
        };
        let mut read = |at| address(ranges, at, bytes, false);
        let written = match self.op {
            Op::Copy { dst, a } => {
                i.op = uapi::HUVM_OP_COPY;
                i.a = read(a)?;
                Some((dst, bytes))
            }
            Op::Add { dst, a, b } => {
                i.op = uapi::HUVM_OP_ADD;
                (i.a, i.b) = (read(a)?, read(b)?);
                Some((dst, bytes))
            }
            Op::Triad { dst, a, b, mul } => {
                i.op = uapi::HUVM_OP_TRIAD;
                (i.a, i.b, i.imm0) = (read(a)?, read(b)?, mul);
                Some((dst, bytes))
            }
            Op::Scale { dst, a, mul, add } => {
                i.op = uapi::HUVM_OP_SCALE;
                (i.a, i.imm0, i.imm1) = (read(a)?, mul, add);
                Some((dst, bytes))
            }
            Op::Reduce { dst, a } => {
                i.op = uapi::HUVM_OP_REDUCE;
                i.a = read(a)?;
                // One word a block, whatever the strides are.
                Some((dst, u64::from(blocks) * WORD))
            }
            Op::Gather { dst, table, idx } => {
                i.op = uapi::HUVM_OP_GATHER;
                i.idx = read(idx)?;
                i.a = address(ranges, At::start(table), WORD, false)?;
                Some((dst, bytes))
            }
            Op::Delay { ns } => {
                (i.op, i.imm0) = (uapi::HUVM_OP_DELAY, ns);
                None
            }
        };
        if let Some((dst, bytes)) = written {
            i.dst = address(ranges, dst, bytes, true)?;
        }
        Ok(i)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x7000_0000_0000;

    /// Two ranges of 64 words; the second has an address far away.
    fn ranges() -> [Use; 2] {
        [0, 1].map(|k| Use {
            start: BASE + (k << 40),
            end: BASE + (k << 40) + 512,
            writes: false,
        })
    }

    fn scale(dst: At, a: At) -> Op {
        Op::Scale {
            dst,
            a,
            mul: 3,
            add: 1,
        }
    }

    /// 4 blocks of 2 steps of 8 words: 64 words.
    fn full(op: Op) -> Instr {
        Instr {
            op,
            count: 8,
            steps: 2,
            block_stride: 128,
            step_stride: 64,
        }
    }

    fn refused(i: Instr, blocks: u32) -> bool {
        matches!(i.resolve(blocks, &mut ranges()), Err(Error::Argument(_)))
    }

    const X: At = At::start(0);
    const Y: At = At::start(1);

    #[test]
    fn what_fits_to_the_last_word_becomes_addresses() {
        let mut uses = ranges();
        let i = full(scale(Y, X)).resolve(4, &mut uses).unwrap();
        assert_eq!((i.a, i.dst), (BASE, BASE + (1 << 40)));
        assert_eq!((i.count, i.steps), (8, 2));
        assert_eq!((i.block_stride, i.step_stride), (128, 64));
        assert_eq!((i.op, i.imm0, i.imm1), (uapi::HUVM_OP_SCALE, 3, 1));
        // The CPU may read what is only read.
        assert_eq!(uses.map(|u| u.writes), [false, true]);
    }

    #[test]
    fn each_bound_is_kept() {
        let ok = full(scale(Y, X));
        for (what, i, blocks) in [
            ("a block too many", ok, 5),
            ("no block", ok, 0),
            ("an element too many", Instr { count: 9, ..ok }, 4),
            ("no element", Instr { count: 0, ..ok }, 4),
            ("a step too many", Instr { steps: 3, ..ok }, 4),
            ("no step", Instr { steps: 0, ..ok }, 4),
            (
                "a wide block",
                Instr {
                    block_stride: 136,
                    ..ok
                },
                4,
            ),
            (
                "a wide step",
                Instr {
                    step_stride: 72,
                    ..ok
                },
                4,
            ),
            (
                "an odd stride",
                Instr {
                    block_stride: 124,
                    ..ok
                },
                4,
            ),
            ("the destination", full(scale(Y.plus(8), X)), 4),
            ("the source", full(scale(Y, X.plus(8))), 4),
            ("half a word", full(scale(Y, X.plus(4))), 1),
            (
                "before the start",
                full(scale(Y, X.plus(u64::MAX - 511))),
                1,
            ),
            ("no such range", full(scale(At::start(2), X)), 1),
        ] {
            assert!(refused(i, blocks), "{what}");
        }
    }

    #[test]
    fn products_that_overflow_are_refused() {
        let ok = full(scale(Y, X));
        for i in [
            Instr {
                count: 1 << 61,
                ..ok
            },
            Instr {
                step_stride: 1 << 63,
                ..ok
            },
            Instr {
                block_stride: 1 << 63,
                ..ok
            },
            Instr {
                steps: u64::MAX,
                ..ok
            },
            // The sum alone is too large.
            Instr {
                block_stride: 1 << 62,
                step_stride: 3 << 62,
                ..ok
            },
            // The device takes no more steps, although they touch nothing.
            Instr {
                op: Op::Delay { ns: 1 },
                steps: (1 << 32) + 1,
                step_stride: 0,
                ..ok
            },
        ] {
            assert!(refused(i, 4), "{i:?}");
        }
    }

    #[test]
    fn operands_have_bounds_of_their_own() {
        let (end, last) = (X.plus(512), X.plus(504));
        for op in [
            Op::Copy { dst: Y, a: end },
            Op::Add {
                dst: Y,
                a: X,
                b: end,
            },
            Op::Triad {
                dst: end,
                a: X,
                b: X,
                mul: 2,
            },
            Op::Gather {
                dst: Y,
                table: 2,
                idx: X,
            },
            Op::Gather {
                dst: Y,
                table: 1,
                idx: end,
            },
            Op::Reduce { dst: Y, a: end },
            // One word a block: there is room for one of two.
            Op::Reduce { dst: last, a: Y },
        ] {
            let one = Instr {
                op,
                count: 1,
                steps: 1,
                block_stride: 0,
                step_stride: 0,
            };
            assert!(refused(one, 2), "{op:?}");
        }
        let sum = Op::Reduce { dst: last, a: Y };
        let one = Instr {
            op: sum,
            count: 64,
            steps: 1,
            block_stride: 0,
            step_stride: 0,
        };
        assert!(!refused(one, 1));
    }

    #[test]
    fn a_launch_has_so_much() {
        assert!(fits(1 << 20, 16).is_ok() && fits(1, 1).is_ok());
        for (blocks, instrs) in [(0, 1), ((1 << 20) + 1, 1), (1, 0), (1, 17)] {
            assert!(fits(blocks, instrs).is_err(), "{blocks} {instrs}");
        }
    }

    #[test]
    fn pieces_cover_the_range_once() {
        let i = Instr::pieces(Op::Copy { dst: X, a: X }, 6 * PIECE, 3).unwrap();
        let mut seen: Vec<u64> = (0..3)
            .flat_map(|k| (0..i.steps).map(move |s| k * i.block_stride + s * i.step_stride))
            .collect();
        seen.sort_unstable();
        assert!(seen.iter().copied().eq((0..6).map(|n| n * PIECE)));
        assert_eq!(i.count * WORD, PIECE);
    }

    #[test]
    fn uneven_sizes_are_refused() {
        for (bytes, blocks) in [(0, 1), (PIECE, 0), (PIECE + 8, 1), (3 * PIECE, 2)] {
            let i = Instr::pieces(Op::Delay { ns: 1 }, bytes, blocks);
            assert!(matches!(i, Err(Error::Argument(_))), "{bytes} {blocks}");
        }
    }
}
