// SPDX-License-Identifier: GPL-2.0
//! Workload programs: the descriptor, built or checked (device.md 2.3).
//!
//! [`check`] takes a descriptor from anywhere, also one that a user handed to the kernel: it has to lie in memory that
//! nobody else writes from then on. It refuses everything that the device would refuse, so that a launch that starts
//! does not end as "bad descriptor".

use crate::ids::GpuVa;
use crate::seam::DmaMem;
use crate::{Error, Result};
use huvm_hw::ext::desc::{self, header, instr, Op};

/// What a checked descriptor asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Blocks.
    pub blocks: u32,
    /// Instructions.
    pub ninstr: u32,
    /// Iterations.
    pub iterations: u32,
    /// Bytes of an element, 4 or 8.
    pub elem_bytes: u32,
    /// Bytes of the descriptor.
    pub bytes: usize,
}

/// Header fields that a builder chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Blocks, 1..2^20.
    pub blocks: u32,
    /// Iterations of the whole program, per block, 1..2^20.
    pub iterations: u32,
    /// Bytes of an element, 4 or 8.
    pub elem_bytes: u32,
    /// Blocks resident at once; 0 = the device's.
    pub max_resident: u32,
}

/// One instruction. What its operation does not use stays 0 ([`Instr::new`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instr {
    /// Operation.
    pub op: Op,
    /// Elements per step.
    pub count: u64,
    /// Steps per block.
    pub steps: u64,
    /// Destination.
    pub dst: GpuVa,
    /// First source.
    pub a: GpuVa,
    /// Second source.
    pub b: GpuVa,
    /// Index array.
    pub idx: GpuVa,
    /// From one block to the next, bytes.
    pub block_stride_bytes: u64,
    /// From one step to the next, bytes.
    pub step_stride_bytes: u64,
    /// From one element to the next, bytes; 0 = elem_bytes.
    pub elem_stride_bytes: u64,
    /// First immediate.
    pub imm0: u64,
    /// Second immediate.
    pub imm1: u64,
}

impl Instr {
    /// `op` over `steps` steps of `count` elements, everything else 0.
    pub const fn new(op: Op, count: u64, steps: u64) -> Instr {
        Instr {
            op,
            count,
            steps,
            dst: GpuVa(0),
            a: GpuVa(0),
            b: GpuVa(0),
            idx: GpuVa(0),
            block_stride_bytes: 0,
            step_stride_bytes: 0,
            elem_stride_bytes: 0,
            imm0: 0,
            imm1: 0,
        }
    }
}

/// Checks a program by the rules of [`check`], before there is a descriptor for it.
///
/// # Errors
/// [`Error::BadProgram`].
pub fn verify(h: &Header, program: &[Instr]) -> Result<()> {
    let n = program.len() as u64;
    let (blocks, elem_bytes) = (h.blocks.into(), h.elem_bytes.into());
    // First, as where a descriptor is built.
    must("ninstr", n, 1..=desc::MAX_INSTR as u64)?;
    check_header(blocks, n, h.iterations.into(), elem_bytes)?;
    let each = |i| check_instr(i, blocks, elem_bytes);
    program.iter().try_for_each(each)
}

/// Writes `h` and `program` to `mem` and checks the result.
///
/// # Errors
/// [`Error::TooSmall`], [`Error::BadProgram`].
pub fn build<D: DmaMem + ?Sized>(mem: &D, h: &Header, program: &[Instr]) -> Result<Program> {
    let n = program.len();
    if n == 0 || n > desc::MAX_INSTR {
        return Err(Error::BadProgram("ninstr", n as u64));
    }
    let bytes = desc::HEADER_BYTES + n * desc::INSTR_BYTES;
    if mem.len() < bytes {
        return Err(Error::TooSmall("descriptor", bytes));
    }
    crate::seam::zero(mem, bytes);
    mem.write32(header::MAGIC, desc::MAGIC);
    mem.write32(header::VERSION, desc::VERSION);
    mem.write32(header::BLOCKS, h.blocks);
    // CAST: at most MAX_INSTR.
    mem.write32(header::NINSTR, n as u32);
    mem.write32(header::ITERATIONS, h.iterations);
    mem.write32(header::ELEM_BYTES, h.elem_bytes);
    mem.write32(header::MAX_RESIDENT, h.max_resident);
    for (i, at) in program
        .iter()
        .zip((desc::HEADER_BYTES..).step_by(desc::INSTR_BYTES))
    {
        // CAST: the operation's code.
        mem.write32(at + instr::OP, i.op as u32);
        mem.write64(at + instr::COUNT, i.count);
        mem.write64(at + instr::STEPS, i.steps);
        mem.write64(at + instr::DST, i.dst.0);
        mem.write64(at + instr::A, i.a.0);
        mem.write64(at + instr::B, i.b.0);
        mem.write64(at + instr::IDX, i.idx.0);
        mem.write64(at + instr::BLOCK_STRIDE, i.block_stride_bytes);
        mem.write64(at + instr::STEP_STRIDE, i.step_stride_bytes);
        mem.write64(at + instr::ELEM_STRIDE, i.elem_stride_bytes);
        mem.write64(at + instr::IMM0, i.imm0);
        mem.write64(at + instr::IMM1, i.imm1);
    }
    check(mem)
}

/// Checks a descriptor in `mem` (not writable by the user any more) against every rule of device.md section 2.3.
///
/// # Errors
/// [`Error::BadProgram`] with the field, [`Error::TooSmall`].
pub fn check<D: DmaMem + ?Sized>(mem: &D) -> Result<Program> {
    if mem.len() < desc::HEADER_BYTES {
        return Err(Error::TooSmall("descriptor", desc::HEADER_BYTES));
    }
    let field = |off| u64::from(mem.read32(off));
    must(
        "magic",
        field(header::MAGIC),
        desc::MAGIC.into()..=desc::MAGIC.into(),
    )?;
    must(
        "version",
        field(header::VERSION),
        desc::VERSION.into()..=desc::VERSION.into(),
    )?;
    let blocks = field(header::BLOCKS);
    let ninstr = field(header::NINSTR);
    let iterations = field(header::ITERATIONS);
    let elem_bytes = field(header::ELEM_BYTES);
    check_header(blocks, ninstr, iterations, elem_bytes)?;
    must("flags", field(header::FLAGS), 0..=0)?;
    for off in (header::RESERVED..desc::HEADER_BYTES).step_by(8) {
        must("reserved", mem.read64(off), 0..=0)?;
    }
    // CAST: at most MAX_INSTR.
    let bytes = desc::HEADER_BYTES + ninstr as usize * desc::INSTR_BYTES;
    if mem.len() < bytes {
        return Err(Error::TooSmall("descriptor", bytes));
    }
    for at in (desc::HEADER_BYTES..bytes).step_by(desc::INSTR_BYTES) {
        check_instr(&read_instr(mem, at)?, blocks, elem_bytes)?;
    }
    // CAST: all checked to be 32-bit values.
    Ok(Program {
        blocks: blocks as u32,
        ninstr: ninstr as u32,
        iterations: iterations as u32,
        elem_bytes: elem_bytes as u32,
        bytes,
    })
}

/// The instruction at `at`.
fn read_instr<D: DmaMem + ?Sized>(mem: &D, at: usize) -> Result<Instr> {
    let raw = mem.read32(at + instr::OP);
    let op = Op::from_raw(raw).ok_or(Error::BadProgram("op", raw.into()))?;
    must(
        "instruction flags",
        mem.read32(at + instr::FLAGS).into(),
        0..=0,
    )?;
    let field = |off| mem.read64(at + off);
    Ok(Instr {
        op,
        count: field(instr::COUNT),
        steps: field(instr::STEPS),
        dst: GpuVa(field(instr::DST)),
        a: GpuVa(field(instr::A)),
        b: GpuVa(field(instr::B)),
        idx: GpuVa(field(instr::IDX)),
        block_stride_bytes: field(instr::BLOCK_STRIDE),
        step_stride_bytes: field(instr::STEP_STRIDE),
        elem_stride_bytes: field(instr::ELEM_STRIDE),
        imm0: field(instr::IMM0),
        imm1: field(instr::IMM1),
    })
}

/// Checks what a header says.
fn check_header(blocks: u64, ninstr: u64, iterations: u64, elem_bytes: u64) -> Result<()> {
    must("blocks", blocks, 1..=desc::MAX_BLOCKS.into())?;
    must("ninstr", ninstr, 1..=desc::MAX_INSTR as u64)?;
    must("iterations", iterations, 1..=desc::MAX_ITERATIONS.into())?;
    if elem_bytes != 4 && elem_bytes != 8 {
        return Err(Error::BadProgram("elem_bytes", elem_bytes));
    }
    Ok(())
}

/// Checks an instruction.
fn check_instr(i: &Instr, blocks: u64, elem_bytes: u64) -> Result<()> {
    let (op, count, steps) = (i.op, i.count, i.steps);
    must("count", count, 1..=desc::MAX_COUNT)?;
    must("steps", steps, 1..=desc::MAX_COUNT)?;
    if op == Op::Trace && elem_bytes != 8 {
        return Err(Error::BadProgram("elem_bytes of TRACE", elem_bytes));
    }
    let elem_stride = match i.elem_stride_bytes {
        0 => elem_bytes,
        s => s,
    };
    // Distance of the last element's last byte from the base; a wrap of 64 bits is a bad descriptor.
    let last = (|| {
        let block = (blocks - 1).checked_mul(i.block_stride_bytes)?;
        let step = (steps - 1).checked_mul(i.step_stride_bytes)?;
        let elem = (count - 1).checked_mul(elem_stride)?;
        let first = block.checked_add(step)?.checked_add(elem)?;
        first.checked_add(elem_bytes - 1)
    })()
    .ok_or(Error::BadProgram("strides", elem_stride))?;
    let (plain, strided) = operands(i);
    for (name, GpuVa(base)) in strided.into_iter().flatten() {
        if base.checked_add(last).is_none() {
            return Err(Error::BadProgram(name, base));
        }
    }
    if let Some((name, GpuVa(base))) = plain {
        // REDUCE writes one element a block.
        let end = blocks
            .checked_mul(elem_bytes)
            .and_then(|s| base.checked_add(s));
        if op == Op::Reduce && end.is_none() {
            return Err(Error::BadProgram(name, base));
        }
    }
    Ok(())
}

/// A named operand.
type Operand = (&'static str, GpuVa);

/// The plain operand and the strided ones of an instruction.
fn operands(i: &Instr) -> (Option<Operand>, [Option<Operand>; 3]) {
    let dst = Some(("dst", i.dst));
    let a = Some(("a", i.a));
    let b = Some(("b", i.b));
    let idx = Some(("idx", i.idx));
    match i.op {
        Op::Fill | Op::AtomicAdd => (None, [dst, None, None]),
        Op::Check | Op::Trace => (None, [a, None, None]),
        Op::Copy | Op::Scale => (None, [dst, a, None]),
        Op::Add | Op::Triad => (None, [dst, a, b]),
        Op::Reduce => (dst, [a, None, None]),
        Op::Gather => (a, [dst, idx, None]),
        Op::Scatter => (dst, [a, idx, None]),
        Op::Delay => (None, [None; 3]),
    }
}

fn must(name: &'static str, val: u64, range: core::ops::RangeInclusive<u64>) -> Result<()> {
    if range.contains(&val) {
        Ok(())
    } else {
        Err(Error::BadProgram(name, val))
    }
}
