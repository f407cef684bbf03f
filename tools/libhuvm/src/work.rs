// SPDX-License-Identifier: GPL-2.0
//! Programs of the workload engine (Documentation/device.md 2.3): build, launch, wait.

use crate::device::Device;
use crate::error::{Error, Result};
use crate::managed::Managed;
use crate::space::{Space, Use, ABORT, ABORT_NS, WAIT};
use crate::{sys, uapi};
use std::marker::PhantomData;
use std::sync::Arc;

/// Bytes that a block handles per step in the ready-made programs: neighbouring blocks touch neighbouring pieces.
pub const PIECE: u64 = 65536;
/// Longest wait for one launch, ns.
const WAIT_NS: u64 = 600_000_000_000;

/// What a GPU shall do. Borrows the memory that it does it with, for as long as it or a launch of it lives.
#[derive(Clone, Debug)]
pub struct Program<'m> {
    pub(crate) blocks: u32,
    iterations: u32,
    pub(crate) elem_bytes: u32,
    max_resident: u32,
    instrs: Vec<uapi::huvm_instr>,
    uses: Vec<Use>,
    memory: PhantomData<&'m mut [u64]>,
}

impl Program<'_> {
    /// A program of one's own: `blocks` blocks run the instructions (1 to 16, Documentation/device.md 2.3) once over elements
    /// of `elem_bytes`.
    ///
    /// # Safety
    /// The instructions' addresses are not checked, and no memory is borrowed. While a launch of it runs, memory that it
    /// writes must not be looked at by Rust code, memory that it uses must not be changed or unmapped.
    pub unsafe fn raw(blocks: u32, elem_bytes: u32, instrs: Vec<uapi::huvm_instr>) -> Self {
        Program {
            blocks,
            iterations: 1,
            elem_bytes,
            max_resident: 0,
            instrs,
            uses: Vec::new(),
            memory: PhantomData,
        }
    }

    /// All instructions so many times (1 at first).
    #[must_use]
    pub fn iterations(mut self, n: u32) -> Self {
        self.iterations = n;
        self
    }

    /// After each step of what it does so far a block computes for `ns` and touches no memory.
    #[must_use]
    pub fn computing(mut self, ns: u64) -> Self {
        if let Some(last) = self.instrs.last().filter(|_| ns != 0) {
            self.instrs.push(uapi::huvm_instr {
                op: uapi::HUVM_OP_DELAY,
                count: 1,
                steps: last.steps,
                imm0: ns,
                ..Default::default()
            });
        }
        self
    }

    /// So many blocks resident at once; 0, as at first, is as many as the device can have.
    #[must_use]
    pub fn max_resident(mut self, blocks: u32) -> Self {
        self.max_resident = blocks;
        self
    }

    /// One instruction over `bytes` of 64-bit words in grid-stride order: block k handles pieces k, k + blocks, …
    ///
    /// # Errors
    /// [`Error::Argument`] unless `bytes` is a multiple of `blocks` pieces.
    pub(crate) fn over(op: u32, bytes: u64, blocks: u32) -> Result<(Self, uapi::huvm_instr)> {
        let row = PIECE * u64::from(blocks);
        if blocks == 0 || bytes == 0 || bytes % row != 0 {
            return Err(Error::Argument(format!(
                "{bytes} bytes are not a multiple of {blocks} pieces of 64 KiB"
            )));
        }
        let instr = uapi::huvm_instr {
            op,
            count: PIECE / 8,
            steps: bytes / row,
            block_stride: PIECE,
            step_stride: row,
            ..Default::default()
        };
        let program = Program {
            blocks,
            iterations: 1,
            elem_bytes: 8,
            max_resident: 0,
            instrs: Vec::new(),
            uses: Vec::new(),
            memory: PhantomData,
        };
        Ok((program, instr))
    }
}

impl<'m> Program<'m> {
    /// One instruction over all of `z`, with what it reads. The lifetimes of the callers' borrows end up in `'m`.
    fn one(
        op: u32,
        z: &Managed,
        reads: &[&Managed],
        blocks: u32,
        set: impl FnOnce(&mut uapi::huvm_instr),
    ) -> Result<Program<'m>> {
        let (mut program, mut instr) = Self::over(op, z.bytes(), blocks)?;
        set(&mut instr);
        program.instrs.push(instr);
        program.uses.push(z.uses(true));
        program.uses.extend(reads.iter().map(|m| m.uses(false)));
        Ok(program)
    }

    /// `x = mul · x + add`, in place: a streaming pass that reads and writes everything once.
    ///
    /// # Errors
    /// [`Error::Argument`] unless `x` is a multiple of `blocks` pieces ([`PIECE`]).
    pub fn scale(x: &'m mut Managed, mul: u64, add: u64, blocks: u32) -> Result<Program<'m>> {
        Self::one(uapi::HUVM_OP_SCALE, x, &[], blocks, |i| {
            i.dst = x.va();
            i.a = x.va();
            i.imm0 = mul;
            i.imm1 = add;
        })
    }

    /// `z = x + y`.
    ///
    /// # Errors
    /// As [`Self::scale`], of `z`; the three must have one size.
    pub fn add(
        z: &'m mut Managed,
        x: &'m Managed,
        y: &'m Managed,
        blocks: u32,
    ) -> Result<Program<'m>> {
        same_size(&[z, x, y])?;
        Self::one(uapi::HUVM_OP_ADD, z, &[x, y], blocks, |i| {
            i.dst = z.va();
            i.a = x.va();
            i.b = y.va();
        })
    }

    /// `z = x + scalar · y`.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn triad(
        z: &'m mut Managed,
        x: &'m Managed,
        y: &'m Managed,
        scalar: u64,
        blocks: u32,
    ) -> Result<Program<'m>> {
        same_size(&[z, x, y])?;
        Self::one(uapi::HUVM_OP_TRIAD, z, &[x, y], blocks, |i| {
            i.dst = z.va();
            i.a = x.va();
            i.b = y.va();
            i.imm0 = scalar;
        })
    }

    /// `z[i] = x[i] + 2·x[i+1] + x[i+2]`: a one-dimensional stencil of three points.
    ///
    /// # Errors
    /// As [`Self::scale`], of `z`; [`Error::Argument`] unless `x` has two elements more than `z`, or further.
    pub fn stencil(z: &'m mut Managed, x: &'m Managed, blocks: u32) -> Result<Program<'m>> {
        if x.bytes() < z.bytes().saturating_add(16) {
            return Err(Error::Argument(
                "a stencil reads two elements beyond the end of its result".into(),
            ));
        }
        let mut program = Self::one(uapi::HUVM_OP_ADD, z, &[x], blocks, |i| {
            i.dst = z.va();
            i.a = x.va();
            i.b = x.va() + 16;
        })?;
        let (_, mut middle) = Self::over(uapi::HUVM_OP_TRIAD, z.bytes(), blocks)?;
        middle.dst = z.va();
        middle.a = z.va();
        middle.b = x.va() + 8;
        middle.imm0 = 2;
        program.instrs.push(middle);
        Ok(program)
    }

    /// Touches the pages that `records` names, in its order, by one block: a record is the address of a page in `on`, and
    /// bit 0 set for a write (which adds 1 to the page's first word).
    ///
    /// # Errors
    /// [`Error::Argument`] if there are no records, more than `list` holds, or one of them is outside `on`.
    pub fn trace(
        on: &'m mut Managed,
        list: &'m mut Managed,
        records: &[u64],
    ) -> Result<Program<'m>> {
        let end = on.va() + on.bytes();
        if records.is_empty()
            || records
                .iter()
                .any(|r| !(on.va()..end).contains(&(r & !0xfff)))
        {
            return Err(Error::Argument(
                "the records of a trace must lie in its range".into(),
            ));
        }
        let words = list.as_mut_slice();
        if words.len() < records.len() {
            return Err(Error::Argument("the list is too small".into()));
        }
        for (word, record) in words.iter_mut().zip(records) {
            *word = *record;
        }
        Ok(Program {
            blocks: 1,
            iterations: 1,
            elem_bytes: 8,
            max_resident: 0,
            instrs: vec![uapi::huvm_instr {
                op: uapi::HUVM_OP_TRACE,
                count: records.len() as u64,
                steps: 1,
                a: list.va(),
                ..Default::default()
            }],
            uses: vec![on.uses(true), list.uses(false)],
            memory: PhantomData,
        })
    }

    /// `z[i] = x[idx[i]]`.
    ///
    /// # Errors
    /// As [`Self::add`]. An index beyond `x` may fault at run time.
    pub fn gather(
        z: &'m mut Managed,
        x: &'m Managed,
        idx: &'m Managed,
        blocks: u32,
    ) -> Result<Program<'m>> {
        same_size(&[z, idx])?;
        Self::one(uapi::HUVM_OP_GATHER, z, &[x, idx], blocks, |i| {
            i.dst = z.va();
            i.a = x.va();
            i.idx = idx.va();
        })
    }
}

fn same_size(all: &[&Managed]) -> Result<()> {
    let first = all.first().map(|m| m.bytes());
    if all.iter().all(|m| Some(m.bytes()) == first) {
        Ok(())
    } else {
        Err(Error::Argument("the arrays differ in size".into()))
    }
}

/// What a launch did.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// `HUVM_LAUNCH_*`.
    pub status: u32,
    /// `HUVM_ERROR_*`.
    pub error: u32,
    /// Address of a failure.
    pub fault_va: u64,
    /// Elements that a check found different.
    pub mismatches: u64,
    /// Fault packets raised.
    pub faults: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Device clock at start, ns.
    pub start_ns: u64,
    /// Device clock at the end, ns.
    pub end_ns: u64,
}

impl Report {
    /// Time taken, ns of the device's clock.
    pub fn time_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// A launch under way. Borrows its program's memory; ended when dropped.
#[derive(Debug)]
#[must_use = "dropping a launch ends it; wait for it"]
pub struct Launch<'m> {
    space: Arc<Space>,
    id: u64,
    over: bool,
    memory: PhantomData<&'m mut [u64]>,
}

impl Device {
    /// Starts a program on a registered GPU.
    ///
    /// # Errors
    /// [`Error::Os`] as `struct huvm_launch` says.
    pub fn launch<'m>(&self, gpu: u32, p: &Program<'m>) -> Result<Launch<'m>> {
        let mut arg = uapi::huvm_launch {
            gpu,
            blocks: p.blocks,
            iterations: p.iterations,
            elem_bytes: p.elem_bytes,
            max_resident: p.max_resident,
            nr_instr: u32::try_from(p.instrs.len()).unwrap_or(u32::MAX),
            instrs: p.instrs.as_ptr() as u64,
            ..Default::default()
        };
        // SAFETY: `instrs` names `nr_instr` instructions that live through the call, which only reads them. The memory that
        // they name is borrowed by the launch that comes back, or the caller answers for it (`Program::raw`).
        unsafe {
            sys::call(
                &self.space.file,
                &mut arg,
                &format!("launching on GPU {gpu}"),
            )
        }?;
        Ok(Launch::noted(self, arg.launch, p))
    }
}

impl<'m> Launch<'m> {
    /// The launch that the driver knows by `id`.
    pub(crate) fn noted(device: &Device, id: u64, p: &Program<'m>) -> Self {
        device.space.started(id, p.uses.clone());
        Launch {
            space: device.space.clone(),
            id,
            over: false,
            memory: PhantomData,
        }
    }
}

impl Launch<'_> {
    fn end(&mut self, nr: u32, timeout_ns: u64) -> Result<Report> {
        let w = self.space.finish(self.id, nr, timeout_ns)?;
        self.over = w.status != uapi::HUVM_LAUNCH_RUNNING;
        Ok(Report {
            status: w.status,
            error: w.error,
            fault_va: w.fault_va,
            mismatches: w.mismatches,
            faults: w.faults,
            bytes: w.bytes,
            start_ns: w.start_ns,
            end_ns: w.end_ns,
        })
    }

    /// Waits for the end, whatever it is.
    ///
    /// # Errors
    /// [`Error::Os`], `ETIMEDOUT` after ten minutes.
    pub fn wait(mut self) -> Result<Report> {
        self.end(WAIT, WAIT_NS)
    }

    /// Waits for a good end.
    ///
    /// # Errors
    /// As [`Self::wait`]; [`Error::Launch`] when it failed or was aborted.
    pub fn wait_done(self) -> Result<Report> {
        let r = self.wait()?;
        match r.status {
            uapi::HUVM_LAUNCH_DONE => Ok(r),
            uapi::HUVM_LAUNCH_ABORTED => Err(Error::Launch("was aborted".into())),
            _ => Err(Error::Launch(match r.error {
                uapi::HUVM_ERROR_FAULT => format!("failed: fatal fault at {:#x}", r.fault_va),
                uapi::HUVM_ERROR_NO_MEMORY => "failed: no room could be made on the GPU".into(),
                uapi::HUVM_ERROR_GPU_LOST => "failed: the GPU was lost".into(),
                e => format!("failed with error {e} at {:#x}", r.fault_va),
            })),
        }
    }
}

impl Drop for Launch<'_> {
    fn drop(&mut self) {
        if !self.over {
            // The GPU must not go on writing memory that its owner looks at again. If it does not end in this time, it is
            // still in the space's list, and who looks at the memory waits for it.
            let _ended = self.end(ABORT, ABORT_NS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_the_range_once() {
        let (p, i) = Program::over(uapi::HUVM_OP_SCALE, 6 * PIECE, 3).unwrap();
        assert_eq!((p.blocks, p.elem_bytes), (3, 8));
        let mut seen: Vec<u64> = (0..3)
            .flat_map(|k| (0..i.steps).map(move |s| k * i.block_stride + s * i.step_stride))
            .collect();
        seen.sort_unstable();
        assert!(seen.iter().copied().eq((0..6).map(|n| n * PIECE)));
        assert_eq!(i.count * 8, PIECE);
    }

    #[test]
    fn a_block_computes_after_each_step() {
        let (mut p, i) = Program::over(uapi::HUVM_OP_SCALE, 6 * PIECE, 3).unwrap();
        p.instrs.push(i);
        assert_eq!(p.clone().computing(0).instrs.len(), 1);
        let p = p.computing(70);
        let last = p.instrs.last().unwrap();
        // The device refuses an instruction without elements or steps.
        assert_eq!((last.op, last.count), (uapi::HUVM_OP_DELAY, 1));
        assert_eq!((last.steps, last.imm0), (2, 70));
    }

    #[test]
    fn uneven_sizes_are_refused() {
        for (bytes, blocks) in [(0, 1), (PIECE, 0), (PIECE + 8, 1), (3 * PIECE, 2)] {
            assert!(matches!(
                Program::over(uapi::HUVM_OP_ADD, bytes, blocks),
                Err(Error::Argument(_))
            ));
        }
    }
}
