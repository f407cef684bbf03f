// SPDX-License-Identifier: GPL-2.0
//! Calls of `uapi/huvm_test.h`: there when the module was loaded with `test=1`, for CAP_SYS_ADMIN.

use super::ioctl::{argument, gpu, zero};
use crate::device::selftest;
use crate::kernel::ffi::uapi;
use crate::kernel::{inject::Point, task, user};
use crate::service::evict;
use huvm_hal::seam::{Bar, Mmio};
use huvm_hw::ext::{inject, stats, time, BLOCK_STRIDE};
use kernel::prelude::*;

/// Whether the module was loaded for tests.
pub(super) fn enabled() -> bool {
    crate::is_test()
}

fn admin() -> Result {
    if task::is_admin() {
        Ok(())
    } else {
        Err(EPERM)
    }
}

#[inline(never)] // stack
pub(super) fn reg(arg: usize) -> Result {
    let mut a: uapi::huvm_test_reg = argument(arg, 0)?;
    admin()?;
    let gpu = gpu(a.gpu)?;
    let block = a.offset & !(BLOCK_STRIDE - 1);
    let known = [inject::BASE, stats::BASE, time::BASE].contains(&block);
    if !known || a.offset % 4 != 0 || a.write > 1 || gpu.ext().is_none() {
        return Err(EINVAL);
    }
    if a.write == 1 {
        gpu.write32(Bar::Ext, a.offset, a.value);
    } else {
        a.value = gpu.read32(Bar::Ext, a.offset);
    }
    user::copy_out(arg, &a)
}

#[inline(never)] // stack
pub(super) fn selftest(arg: usize) -> Result {
    let mut a: uapi::huvm_selftest_arg = argument(arg, 0)?;
    admin()?;
    let gpu = gpu(a.gpu)?;
    gpu.check()?;
    let (did, result) = selftest::run(&gpu, a.test, a.arg);
    a.result = result;
    let out = user::copy_out(arg, &a);
    did.and(out)
}

#[inline(never)] // stack
pub(super) fn evict(arg: usize) -> Result {
    let mut a: uapi::huvm_test_evict = argument(arg, 0)?;
    admin()?;
    zero(a.reserved)?;
    let gpu = gpu(a.gpu)?;
    gpu.check()?;
    a.evicted = evict::some(&gpu, a.chunks)?;
    user::copy_out(arg, &a)
}

#[inline(never)] // stack
pub(super) fn limits(arg: usize) -> Result {
    let a: uapi::huvm_test_limits = argument(arg, 0)?;
    admin()?;
    let gpu = gpu(a.gpu)?;
    gpu.check()?;
    evict::limit(&gpu, a.chunks)
}

#[inline(never)] // stack
pub(super) fn fail(arg: usize) -> Result {
    let mut a: uapi::huvm_test_fail = argument(arg, 0)?;
    admin()?;
    a.left = Point::from_u32(a.what).ok_or(EINVAL)?.set(a.after, a.times);
    user::copy_out(arg, &a)
}
