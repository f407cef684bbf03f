// SPDX-License-Identifier: GPL-2.0
//! Programs of the workload engine (Documentation/device.md 2.3): build, launch, wait.

use crate::device::Device;
use crate::error::{Error, Result};
use crate::list::List;
use crate::managed::Managed;
use crate::ops::{self, At, Instr, Op};
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
            elem_bytes,
            ..Program::of(blocks, instrs, Vec::new())
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
            self.instrs.push(delay(last.steps, ns));
        }
        self
    }

    /// So many blocks resident at once; 0, as at first, is as many as the device can have.
    #[must_use]
    pub fn max_resident(mut self, blocks: u32) -> Self {
        self.max_resident = blocks;
        self
    }
}

impl<'m> Program<'m> {
    /// Instructions over ranges that it borrows as a whole: 1 to 16, which each of the blocks runs in their order.
    ///
    /// # Errors
    /// [`Error::Argument`] if an operand reaches outside its range, is not aligned, or a rule of [`Instr`] is broken.
    pub fn over(ranges: &'m mut [Managed], blocks: u32, instrs: &[Instr]) -> Result<Program<'m>> {
        let uses = ranges.iter().map(|m| m.uses(false)).collect();
        Self::checked(uses, blocks, instrs)
    }

    /// Makes the touches of a list, which was written for these ranges. Meanwhile each block computes for `compute_ns`, spread
    /// over its touches in up to 8 parts.
    ///
    /// # Errors
    /// [`Error::Argument`] if the list was not written, or for other ranges.
    pub fn replay(
        ranges: &'m mut [Managed],
        list: &'m List,
        compute_ns: u64,
    ) -> Result<Program<'m>> {
        let rows = list.rows_for(ranges)?;
        let parts = u64::from(uapi::HUVM_MAX_INSTR / 2).min(rows);
        let mut instrs = Vec::new();
        for (first, end) in (0..parts).map(|k| (k * rows / parts, (k + 1) * rows / parts)) {
            instrs.push(list.instr(first, end - first));
            // CAST: a part of `compute_ns`.
            let ns = (u128::from(compute_ns) * u128::from(end - first) / u128::from(rows)) as u64;
            if ns != 0 {
                instrs.push(delay(1, ns));
            }
        }
        let ranges = ranges.iter().map(|m| m.uses(true));
        let uses = ranges.chain([list.uses()]).collect();
        Ok(Self::of(list.blocks(), instrs, uses))
    }

    /// Makes the touches of a list that names its own pages.
    pub(crate) fn reading(list: &'m List) -> Program<'m> {
        let all = list.instr(0, list.rows());
        Self::of(list.blocks(), vec![all], vec![list.uses()])
    }

    /// The lifetimes of the callers' borrows end up in `'m`.
    fn of(blocks: u32, instrs: Vec<uapi::huvm_instr>, uses: Vec<Use>) -> Program<'m> {
        Program {
            blocks,
            iterations: 1,
            elem_bytes: 8,
            max_resident: 0,
            instrs,
            uses,
            memory: PhantomData,
        }
    }

    fn checked(mut uses: Vec<Use>, blocks: u32, instrs: &[Instr]) -> Result<Program<'m>> {
        ops::fits(blocks, instrs.len())?;
        let resolved = instrs.iter().map(|i| i.resolve(blocks, &mut uses));
        let resolved = resolved.collect::<Result<_>>()?;
        Ok(Self::of(blocks, resolved, uses))
    }

    /// Operations over all of range 0, piece by piece.
    fn sweep(ranges: &[&Managed], blocks: u32, all: &[Op]) -> Result<Program<'m>> {
        let bytes = ranges.first().map_or(0, |z| z.bytes());
        let instrs = all.iter().map(|op| Instr::pieces(*op, bytes, blocks));
        let instrs = instrs.collect::<Result<Vec<_>>>()?;
        let uses = ranges.iter().map(|m| m.uses(false)).collect();
        Self::checked(uses, blocks, &instrs)
    }

    /// `x = mul · x + add`, in place: a streaming pass that reads and writes everything once.
    ///
    /// # Errors
    /// [`Error::Argument`] unless `x` is a multiple of `blocks` pieces ([`PIECE`]).
    pub fn scale(x: &'m mut Managed, mul: u64, add: u64, blocks: u32) -> Result<Program<'m>> {
        let [dst, a] = [At::start(0); 2];
        Self::sweep(&[x], blocks, &[Op::Scale { dst, a, mul, add }])
    }

    /// `z = x + y`.
    ///
    /// # Errors
    /// As [`Self::scale`], of `z`; [`Error::Argument`] if one of the others is smaller.
    pub fn add(
        z: &'m mut Managed,
        x: &'m Managed,
        y: &'m Managed,
        blocks: u32,
    ) -> Result<Program<'m>> {
        let [dst, a, b] = [0, 1, 2].map(At::start);
        Self::sweep(&[z, x, y], blocks, &[Op::Add { dst, a, b }])
    }

    /// `z = x + mul · y`.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn triad(
        z: &'m mut Managed,
        x: &'m Managed,
        y: &'m Managed,
        mul: u64,
        blocks: u32,
    ) -> Result<Program<'m>> {
        let [dst, a, b] = [0, 1, 2].map(At::start);
        Self::sweep(&[z, x, y], blocks, &[Op::Triad { dst, a, b, mul }])
    }

    /// `z[i] = x[i] + 2·x[i+1] + x[i+2]`: a one-dimensional stencil of three points.
    ///
    /// # Errors
    /// As [`Self::scale`], of `z`; [`Error::Argument`] unless `x` has two elements more than `z`, or further.
    pub fn stencil(z: &'m mut Managed, x: &'m Managed, blocks: u32) -> Result<Program<'m>> {
        let [dst, a] = [0, 1].map(At::start);
        let outer = Op::Add {
            dst,
            a,
            b: a.plus(16),
        };
        let middle = Op::Triad {
            dst,
            a: dst,
            b: a.plus(8),
            mul: 2,
        };
        Self::sweep(&[z, x], blocks, &[outer, middle])
    }

    /// `z[i] = x[idx[i]]`.
    ///
    /// # Errors
    /// As [`Self::scale`], of `z`; [`Error::Argument`] if `idx` is smaller. An index beyond `x` may fault at run time.
    pub fn gather(
        z: &'m mut Managed,
        x: &'m Managed,
        idx: &'m Managed,
        blocks: u32,
    ) -> Result<Program<'m>> {
        let [dst, idx_at] = [0, 2].map(At::start);
        let op = Op::Gather {
            dst,
            table: 1,
            idx: idx_at,
        };
        Self::sweep(&[z, x, idx], blocks, &[op])
    }
}

/// Computing for `ns` a step.
fn delay(steps: u64, ns: u64) -> uapi::huvm_instr {
    uapi::huvm_instr {
        op: uapi::HUVM_OP_DELAY,
        // The device refuses an instruction without elements.
        count: 1,
        steps,
        imm0: ns,
        ..Default::default()
    }
}

/// What a launch did.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// `HUVM_LAUNCH_*`.
    pub status: u32,
    /// `HUVM_ERROR_*`.
    pub error: u32,
    /// Address of a failure,
    pub fault_va: u64,
    /// and the codes of its packet.
    pub fault_type: u32,
    /// See [`Self::fault_type`].
    pub access_type: u32,
    /// Elements that a check found different.
    pub mismatches: u64,
    /// Address of the first of them.
    pub mismatch_va: u64,
    /// Blocks that ran to their end.
    pub blocks_done: u32,
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

    /// The report of a launch that ended well; why it did not.
    fn done(self) -> Result<Report> {
        let why = match (self.status, self.error) {
            (uapi::HUVM_LAUNCH_DONE, _) => return Ok(self),
            (uapi::HUVM_LAUNCH_ABORTED, _) => "was aborted".into(),
            (_, uapi::HUVM_ERROR_GPU_LOST) => return Err(Error::GpuLost),
            (_, uapi::HUVM_ERROR_FAULT) => return Err(Error::Fatal(self.fault_va)),
            (_, uapi::HUVM_ERROR_NO_MEMORY) => return Err(Error::NoRoom),
            (_, uapi::HUVM_ERROR_ECC) => return Err(Error::Ecc(self.fault_va)),
            (_, e) => {
                let what = match e {
                    uapi::HUVM_ERROR_DESCRIPTOR => "the device refused its program",
                    uapi::HUVM_ERROR_CANCELLED => "the driver cancelled it",
                    uapi::HUVM_ERROR_INSTANCE => "the device knows no such address space",
                    uapi::HUVM_ERROR_DMA => "the device could not read its program",
                    _ => "for a reason that this library does not know",
                };
                format!("failed: {what} (error {e}, at {:#x})", self.fault_va)
            }
        };
        Err(Error::Launch(why))
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
            fault_type: w.fault_type,
            access_type: w.access_type,
            mismatches: w.mismatches,
            mismatch_va: w.mismatch_va,
            blocks_done: w.blocks_done,
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
    /// As [`Self::wait`]; [`Error::Launch`], [`Error::NoRoom`], [`Error::GpuLost`] when it failed or was aborted.
    pub fn wait_done(self) -> Result<Report> {
        self.wait()?.done()
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
    use crate::list::{Places, Touch};
    use crate::managed::tests::device;

    /// A sweep over 6 pieces by 3 blocks.
    fn six_pieces(device: &Device) -> Program<'static> {
        let x = device.alloc(6 * PIECE).unwrap();
        let [dst, a] = [At::start(0); 2];
        Program::sweep(&[&x], 3, &[Op::Copy { dst, a }]).unwrap()
    }

    #[test]
    fn a_launch_says_how_it_ended() {
        let end = |status, error| {
            let report = Report {
                status,
                error,
                fault_va: 0x7000,
                fault_type: 0,
                access_type: 0,
                mismatches: 0,
                mismatch_va: 0,
                blocks_done: 0,
                faults: 0,
                bytes: 0,
                start_ns: 0,
                end_ns: 0,
            };
            report.done().map_err(|e| (e.errno(), e.to_string())).err()
        };
        assert_eq!(end(uapi::HUVM_LAUNCH_DONE, 0), None);
        for (status, error, errno, says) in [
            (uapi::HUVM_LAUNCH_ABORTED, 0, None, "was aborted"),
            (
                uapi::HUVM_LAUNCH_FAILED,
                uapi::HUVM_ERROR_GPU_LOST,
                Some(libc::EIO),
                "failed: the GPU was lost",
            ),
            (
                uapi::HUVM_LAUNCH_FAILED,
                uapi::HUVM_ERROR_NO_MEMORY,
                None,
                "failed: no room could be made on the GPU",
            ),
            (
                uapi::HUVM_LAUNCH_FAILED,
                uapi::HUVM_ERROR_FAULT,
                None,
                "failed: fatal fault at 0x7000",
            ),
            (
                uapi::HUVM_LAUNCH_FAILED,
                uapi::HUVM_ERROR_ECC,
                None,
                "failed: the only copy of 0x7000 was in GPU memory that failed (ECC)",
            ),
            (
                uapi::HUVM_LAUNCH_FAILED,
                uapi::HUVM_ERROR_CANCELLED,
                None,
                "failed: the driver cancelled it (error 3, at 0x7000)",
            ),
        ] {
            let whole = format!("the launch {says}");
            assert_eq!(end(status, error), Some((errno, whole)));
        }
    }

    #[test]
    fn a_block_computes_after_each_step() {
        let p = six_pieces(&device());
        assert_eq!(p.clone().computing(0).instrs.len(), 1);
        let p = p.computing(70);
        let last = p.instrs.last().unwrap();
        // The device refuses an instruction without elements or steps.
        assert_eq!((last.op, last.count), (uapi::HUVM_OP_DELAY, 1));
        assert_eq!((last.steps, last.imm0), (2, 70));
    }

    #[test]
    fn a_program_over_ranges_uses_them_all() {
        let device = device();
        let mut ranges = [PIECE, PIECE].map(|b| device.alloc(b).unwrap());
        let op = Op::Copy {
            dst: At::start(1),
            a: At::start(0),
        };
        let one = Instr::pieces(op, PIECE, 1).unwrap();
        let [x, z] = [0, 1].map(|k: usize| ranges[k].uses(k == 1));
        let p = Program::over(&mut ranges, 1, &[one, one]).unwrap();
        assert_eq!((p.uses, p.instrs.len(), p.elem_bytes), (vec![x, z], 2, 8));
        let refused = |blocks, instrs: &[Instr]| {
            let mut ranges = [device.alloc(PIECE).unwrap()];
            Program::over(&mut ranges, blocks, instrs).is_err()
        };
        // There is no range 1; no instructions; no blocks.
        assert!(refused(1, &[one]) && refused(1, &[]) && refused(0, &[one]));
    }

    #[test]
    fn arrays_that_are_too_small_are_refused() {
        let device = device();
        let of = |pieces| device.alloc(pieces * PIECE).unwrap();
        let (mut z, x, small) = (of(2), of(2), of(1));
        assert!(Program::add(&mut z, &x, &x, 2).is_ok());
        assert!(Program::add(&mut z, &small, &x, 2).is_err());
        assert!(Program::triad(&mut z, &x, &small, 3, 2).is_err());
        assert!(Program::gather(&mut z, &small, &x, 2).is_ok());
        assert!(Program::gather(&mut z, &x, &small, 2).is_err());
        // A stencil reads two elements beyond the end of its result.
        assert!(Program::stencil(&mut z, &x, 2).is_err());
        assert!(Program::stencil(&mut z, &of(3), 2).is_ok());
    }

    #[test]
    fn a_replay_makes_all_touches_and_computes_the_time() {
        let device = device();
        let mut ranges = [device.alloc(1 << 20).unwrap()];
        let touches: Vec<Touch> = (0..200)
            .map(|page| Touch {
                range: 0,
                page,
                write: true,
            })
            .collect();
        let mut list = List::room(&device, 200, 10, 1).unwrap();
        assert!(Program::replay(&mut ranges, &list, 0).is_err());
        // 1, 3, and 20 rows.
        for (n, parts) in [(10, 1), (30, 3), (200, 8)] {
            let places = Places::of(&ranges);
            list.fill(&places, &touches[..n]).unwrap();
            let p = Program::replay(&mut ranges, &list, 1000).unwrap();
            assert_eq!((p.blocks, p.instrs.len()), (10, 2 * parts));
            let sum = |op, of: fn(&uapi::huvm_instr) -> u64| -> u64 {
                p.instrs.iter().filter(|i| i.op == op).map(of).sum()
            };
            assert_eq!(sum(uapi::HUVM_OP_TRACE, |i| i.steps), n as u64 / 10);
            let time = sum(uapi::HUVM_OP_DELAY, |i| i.steps * i.imm0);
            assert!((990..=1000).contains(&time), "{time}");
            // Each row once.
            let mut next = p.instrs[0].a;
            for i in p.instrs.iter().filter(|i| i.op == uapi::HUVM_OP_TRACE) {
                assert_eq!(i.a, next);
                next += i.steps * i.step_stride;
            }
            let p = Program::replay(&mut ranges, &list, 0).unwrap();
            assert_eq!(p.instrs.len(), parts);
        }
    }
}
