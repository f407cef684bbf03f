// SPDX-License-Identifier: GPL-2.0
//! ioctl: which call is which. Each copies its struct in once, checks, acts, copies out.

use super::{memory, observe, policy, testing, work};
use crate::device::{registry, Gpu};
use crate::kernel::ffi::uapi;
use crate::kernel::user::{self, Uapi};
use crate::memory::space::Space;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Dispatches a call, by its type and number. The rest of `cmd` is its direction, and how large the caller's struct is: that the struct
/// says too, and there it counts, so that a program built with another version of the header makes the same call.
///
/// # Errors
/// `ENOTTY` for a number that is no call; else what the call says.
pub(super) fn dispatch(space: &Arc<Space>, cmd: u32, arg: usize) -> Result {
    match cmd & uapi::HUVM_CMD_BITS {
        uapi::HUVM_CMD_VERSION => observe::version(arg),
        uapi::HUVM_CMD_GPU_INFO => observe::gpu_info(arg),
        uapi::HUVM_CMD_LINK_INFO => observe::link_info(arg),
        uapi::HUVM_CMD_MEM_INFO => observe::mem_info(arg),
        uapi::HUVM_CMD_LEND_INFO => observe::lend_info(arg),
        uapi::HUVM_CMD_GPU_HEALTH => observe::gpu_health(arg),
        uapi::HUVM_CMD_COUNTERS => observe::counters(space, arg),
        uapi::HUVM_CMD_LATENCY => observe::latency(arg),
        uapi::HUVM_CMD_EVENTS => observe::events(space, arg),
        uapi::HUVM_CMD_CLIENT_INFO => observe::client_info(arg),
        uapi::HUVM_CMD_RANGE_INFO => observe::range_info(space, arg),
        uapi::HUVM_CMD_KNOB => policy::knob(arg),
        uapi::HUVM_CMD_POLICY_GET => policy::get(space, arg),
        uapi::HUVM_CMD_POLICY_SET => policy::set(space, arg),
        uapi::HUVM_CMD_PRESET_GET => policy::preset_get(space, arg),
        uapi::HUVM_CMD_PRESET_SET => policy::preset_set(space, arg),
        uapi::HUVM_CMD_GPU_REGISTER => memory::register(space, arg),
        uapi::HUVM_CMD_GPU_UNREGISTER => memory::unregister(space, arg),
        uapi::HUVM_CMD_MIGRATE => memory::migrate(space, arg),
        uapi::HUVM_CMD_ADVISE => memory::advise(space, arg),
        uapi::HUVM_CMD_LAUNCH => work::launch(space, arg),
        uapi::HUVM_CMD_WAIT => work::wait(space, arg, false),
        uapi::HUVM_CMD_ABORT => work::wait(space, arg, true),
        uapi::HUVM_CMD_TEST_REG if testing::enabled() => testing::reg(arg),
        uapi::HUVM_CMD_TEST_SELFTEST if testing::enabled() => testing::selftest(arg),
        uapi::HUVM_CMD_TEST_EVICT if testing::enabled() => testing::evict(arg),
        uapi::HUVM_CMD_TEST_LIMITS if testing::enabled() => testing::limits(arg),
        uapi::HUVM_CMD_TEST_FAIL if testing::enabled() => testing::fail(arg),
        _ => Err(ENOTTY),
    }
}

/// Copies an argument struct in, whose flags must lie in `flags`.
///
/// # Errors
/// As [`user::copy_in`]; `EINVAL` for other flags.
pub(super) fn argument<T: Uapi>(arg: usize, flags: u32) -> Result<T> {
    let t: T = user::copy_in(arg)?;
    if t.flags() & !flags != 0 {
        return Err(EINVAL);
    }
    Ok(t)
}

/// For calls that act on the memory of the process that opened the file.
///
/// # Errors
/// `EPERM` for any other process.
pub(super) fn owner_only(space: &Space) -> Result {
    if space.is_owner() {
        Ok(())
    } else {
        Err(EPERM)
    }
}

/// The GPU with this index.
///
/// # Errors
/// `ENODEV`.
pub(super) fn gpu(index: u32) -> Result<Arc<Gpu>> {
    registry::gpu(index).ok_or(ENODEV)
}

/// Reserved fields must be zero.
///
/// # Errors
/// `EINVAL`.
pub(super) fn zero(reserved: u32) -> Result {
    if reserved == 0 {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

/// Fills a fixed C string field with `text`, cut to fit.
pub(super) fn put_text(to: &mut [kernel::ffi::c_char], text: &str) {
    let room = to.len().saturating_sub(1);
    for slot in to.iter_mut() {
        *slot = 0;
    }
    for (slot, byte) in to.iter_mut().take(room).zip(text.bytes()) {
        // CAST: bytes of text.
        *slot = byte as kernel::ffi::c_char;
    }
}
