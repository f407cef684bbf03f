// SPDX-License-Identifier: GPL-2.0
//! Programs of the workload engine, with operands in allocations instead of addresses.

use crate::alloc::{Alloc, At};
use crate::{MAX_BLOCKS, MAX_INSTR, WORD};

/// An operation of the workload engine (device.md 2.3) with its operands. Arithmetic wraps.
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
    /// Compute that touches nothing.
    Delay {
        /// Nanoseconds a step.
        ns: u64,
    },
}

impl Op {
    /// What it writes element by element. Not the one word a block of a reduction.
    pub fn writes(&self) -> Option<At> {
        match *self {
            Op::Copy { dst, .. }
            | Op::Add { dst, .. }
            | Op::Triad { dst, .. }
            | Op::Scale { dst, .. } => Some(dst),
            Op::Reduce { .. } | Op::Delay { .. } => None,
        }
    }

    /// What it reads.
    pub fn reads(&self) -> [Option<At>; 2] {
        match *self {
            Op::Copy { a, .. } | Op::Scale { a, .. } | Op::Reduce { a, .. } => [Some(a), None],
            Op::Add { a, b, .. } | Op::Triad { a, b, .. } => [Some(a), Some(b)],
            Op::Delay { .. } => [None; 2],
        }
    }
}

/// An instruction. Element e of step s of block k of an operand at X is at `X + k·block_stride + s·step_stride + 8·e`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instr {
    /// What it does.
    pub op: Op,
    /// Elements a step, at least 1.
    pub count: u64,
    /// Steps a block, at least 1.
    pub steps: u64,
    /// Bytes from a block to the next.
    pub block_stride: u64,
    /// Bytes from a step to the next.
    pub step_stride: u64,
}

impl Instr {
    /// Bytes from an operand's start to behind its last element, for so many blocks. `None`: more than 64 bits.
    fn reach(&self, blocks: u64) -> Option<u64> {
        let last_block = self.block_stride.checked_mul(blocks.checked_sub(1)?)?;
        let last_step = self.step_stride.checked_mul(self.steps.checked_sub(1)?)?;
        self.count
            .checked_mul(WORD)?
            .checked_add(last_step)?
            .checked_add(last_block)
    }
}

/// A launch: each block runs the instructions in order, blocks start in order of their number. Elements have 8 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Blocks.
    pub blocks: u32,
    /// At most 16.
    pub instrs: Vec<Instr>,
}

impl Program {
    /// Whether it obeys the engine's rules and stays inside the allocations. The error says what is wrong.
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn check(&self, allocs: &[Alloc]) -> Result<(), String> {
        let blocks = u64::from(self.blocks);
        if blocks == 0 || blocks > MAX_BLOCKS {
            return Err(format!("{blocks} blocks"));
        }
        if self.instrs.is_empty() || self.instrs.len() > MAX_INSTR {
            return Err(format!("{} instructions", self.instrs.len()));
        }
        for i in &self.instrs {
            let inside = |at: At, bytes: Option<u64>| {
                let room = allocs.get(at.alloc as usize).map(|a| a.bytes);
                let end = bytes.and_then(|b| at.offset.checked_add(b));
                match (room, end) {
                    (Some(room), Some(end)) if i.count > 0 && end <= room => Ok(()),
                    _ => Err(format!("{i:?} reaches {end:?} of {room:?} bytes")),
                }
            };
            for at in i.op.reads().into_iter().chain([i.op.writes()]).flatten() {
                inside(at, i.reach(blocks))?;
            }
            if let Op::Reduce { dst, .. } = i.op {
                inside(dst, blocks.checked_mul(WORD))?;
            }
        }
        Ok(())
    }
}
