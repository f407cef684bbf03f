// SPDX-License-Identifier: GPL-2.0
//! The descriptor of a launch: parsed and checked once, at START.

use huvm_hw::ext::desc::{self, header, instr, Op};

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instr {
    pub(crate) op: Op,
    pub(crate) count: u64,
    pub(crate) steps: u64,
    pub(crate) dst: u64,
    pub(crate) a: u64,
    pub(crate) b: u64,
    pub(crate) idx: u64,
    pub(crate) block_stride: u64,
    pub(crate) step_stride: u64,
    pub(crate) elem_stride: u64,
    pub(crate) imm0: u64,
    pub(crate) imm1: u64,
}

/// A launch's program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) blocks: u32,
    pub(crate) iterations: u32,
    pub(crate) elem_bytes: u64,
    /// 0: the device's.
    pub(crate) max_resident: u32,
    pub(crate) instrs: Vec<Instr>,
}

fn u32_at(b: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(b.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(b: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(b.get(at..at + 8)?.try_into().ok()?))
}

/// Instructions that a header announces, if it is a header at all.
pub(crate) fn instr_count(head: &[u8]) -> Option<usize> {
    let n = u32_at(head, header::NINSTR)?;
    let good = u32_at(head, header::MAGIC)? == desc::MAGIC
        && u32_at(head, header::VERSION)? == desc::VERSION
        && (1..=desc::MAX_INSTR as u32).contains(&n);
    good.then_some(n as usize)
}

/// Parses a descriptor; `None` when it breaks a rule (device.md section 2.3).
pub(crate) fn parse(b: &[u8]) -> Option<Program> {
    let n = instr_count(b)?;
    let blocks = u32_at(b, header::BLOCKS)?;
    let iterations = u32_at(b, header::ITERATIONS)?;
    let elem = u32_at(b, header::ELEM_BYTES)?;
    let reserved = b.get(header::RESERVED..desc::HEADER_BYTES)?;
    let good = (1..=desc::MAX_BLOCKS).contains(&blocks)
        && (1..=desc::MAX_ITERATIONS).contains(&iterations)
        && (elem == 4 || elem == 8)
        && u32_at(b, header::FLAGS)? == 0
        && reserved.iter().all(|&x| x == 0);
    if !good {
        return None;
    }
    let mut p = Program {
        blocks,
        iterations,
        elem_bytes: u64::from(elem),
        max_resident: u32_at(b, header::MAX_RESIDENT)?,
        instrs: Vec::with_capacity(n),
    };
    let body = b.get(desc::HEADER_BYTES..)?;
    for raw in body.chunks_exact(desc::INSTR_BYTES).take(n) {
        p.instrs.push(parse_instr(raw, &p)?);
    }
    (p.instrs.len() == n).then_some(p)
}

fn parse_instr(raw: &[u8], p: &Program) -> Option<Instr> {
    let op = Op::from_raw(u32_at(raw, instr::OP)?)?;
    let stride = u64_at(raw, instr::ELEM_STRIDE)?;
    let i = Instr {
        op,
        count: u64_at(raw, instr::COUNT)?,
        steps: u64_at(raw, instr::STEPS)?,
        dst: u64_at(raw, instr::DST)?,
        a: u64_at(raw, instr::A)?,
        b: u64_at(raw, instr::B)?,
        idx: u64_at(raw, instr::IDX)?,
        block_stride: u64_at(raw, instr::BLOCK_STRIDE)?,
        step_stride: u64_at(raw, instr::STEP_STRIDE)?,
        elem_stride: if stride == 0 { p.elem_bytes } else { stride },
        imm0: u64_at(raw, instr::IMM0)?,
        imm1: u64_at(raw, instr::IMM1)?,
    };
    let counts = 1..=desc::MAX_COUNT;
    let good = u32_at(raw, instr::FLAGS)? == 0
        && counts.contains(&i.count)
        && counts.contains(&i.steps)
        && (op != Op::Trace || p.elem_bytes == 8);
    if !good {
        return None;
    }
    // The last byte of the last element of each strided operand must not wrap.
    let last = i
        .block_stride
        .checked_mul(u64::from(p.blocks) - 1)?
        .checked_add(i.step_stride.checked_mul(i.steps - 1)?)?
        .checked_add(i.elem_stride.checked_mul(i.count - 1)?)?
        .checked_add(p.elem_bytes - 1)?;
    for base in i.strided().into_iter().flatten() {
        base.checked_add(last)?;
    }
    if op == Op::Reduce {
        i.dst
            .checked_add(u64::from(p.blocks).checked_mul(p.elem_bytes)?)?;
    }
    Some(i)
}

impl Instr {
    /// Bases of the strided operands: (destination, first, second and third source).
    pub(crate) fn strided(&self) -> [Option<u64>; 4] {
        let (dst, a, b, idx) = (Some(self.dst), Some(self.a), Some(self.b), Some(self.idx));
        match self.op {
            Op::Fill | Op::AtomicAdd => [dst, None, None, None],
            Op::Check | Op::Reduce | Op::Trace => [None, a, None, None],
            Op::Copy | Op::Scale => [dst, a, None, None],
            Op::Add | Op::Triad => [dst, a, b, None],
            Op::Gather => [dst, None, None, idx],
            Op::Scatter => [None, a, None, idx],
            Op::Delay => [None; 4],
        }
    }

    /// Offset of element `elem` of step `step` of block `block`. Checked at START not to wrap.
    pub(crate) fn offset(&self, block: u32, step: u64, elem: u64) -> u64 {
        u64::from(block)
            .wrapping_mul(self.block_stride)
            .wrapping_add(step.wrapping_mul(self.step_stride))
            .wrapping_add(elem.wrapping_mul(self.elem_stride))
    }
}
