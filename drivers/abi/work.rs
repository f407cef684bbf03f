// SPDX-License-Identifier: GPL-2.0
//! Calls about launches.

use super::ioctl::{argument, gpu, owner_only, zero};
use crate::kernel::ffi::uapi;
use crate::kernel::user;
use crate::memory::space::Space;
use crate::service::launch;
use huvm_hal::ext::program::{Header, Instr};
use huvm_hal::ids::GpuVa;
use huvm_hw::ext::desc::Op;
use kernel::prelude::*;
use kernel::sync::Arc;

fn instruction(i: &uapi::huvm_instr) -> Result<Instr> {
    if i.flags != 0 {
        return Err(EINVAL);
    }
    Ok(Instr {
        op: Op::from_raw(i.op).ok_or(EINVAL)?,
        count: i.count,
        steps: i.steps,
        dst: GpuVa(i.dst),
        a: GpuVa(i.a),
        b: GpuVa(i.b),
        idx: GpuVa(i.idx),
        block_stride_bytes: i.block_stride,
        step_stride_bytes: i.step_stride,
        elem_stride_bytes: i.elem_stride,
        imm0: i.imm0,
        imm1: i.imm1,
    })
}

#[inline(never)] // stack
pub(super) fn launch(space: &Arc<Space>, arg: usize) -> Result {
    let mut a: uapi::huvm_launch = argument(arg, 0)?;
    owner_only(space)?;
    let gpu = gpu(a.gpu)?;
    if a.nr_instr == 0 || a.nr_instr > uapi::HUVM_MAX_INSTR {
        return Err(EINVAL);
    }
    // CAST: at most 16.
    let raw: KVVec<uapi::huvm_instr> = user::read_array(a.instrs, a.nr_instr as usize)?;
    let mut instrs = KVec::with_capacity(raw.len(), GFP_KERNEL)?;
    for i in raw.iter() {
        instrs.push(instruction(i)?, GFP_KERNEL)?;
    }
    let header = Header {
        blocks: a.blocks,
        iterations: a.iterations,
        elem_bytes: a.elem_bytes,
        max_resident: a.max_resident,
    };
    a.launch = launch::launch(space, &gpu, &header, &instrs)?;
    user::copy_out(arg, &a).inspect_err(|_| {
        // The caller will never know the id: end it, so that nothing is left behind.
        let mut w = uapi::huvm_wait {
            launch: a.launch,
            timeout_ns: 1_000_000_000,
            ..Default::default()
        };
        let _ended = launch::wait(space, &mut w, true, |_| Ok(()));
    })
}

#[inline(never)] // stack
pub(super) fn wait(space: &Arc<Space>, arg: usize, abort: bool) -> Result {
    let a: uapi::huvm_wait = argument(arg, 0)?;
    owner_only(space)?;
    zero(a.reserved)?;
    // What the caller had in fields that are the driver's to fill is not a result.
    let mut w = uapi::huvm_wait {
        size: a.size,
        launch: a.launch,
        timeout_ns: a.timeout_ns,
        ..Default::default()
    };
    launch::wait(space, &mut w, abort, |w| user::copy_out(arg, w))
}
