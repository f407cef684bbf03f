// SPDX-License-Identifier: GPL-2.0
//! Structs to and from user space, by the size rules of `uapi/huvm.h`.

use super::ffi::{c, uapi};
use core::mem::size_of;
use kernel::prelude::*;
use kernel::transmute::{AsBytes, FromBytes};
use kernel::uaccess::{UserPtr, UserSlice, UserSliceWriter};

/// A struct whose bytes may come from and go to user space: integers without padding.
pub(crate) trait Plain: FromBytes + AsBytes + Copy {}

/// An argument struct: begins with its size and flags.
pub(crate) trait Uapi: Plain {
    /// Bytes of the first version.
    const MIN: usize = size_of::<Self>();
    /// The `flags` field.
    fn flags(&self) -> u32;
    /// The `size` field, as the caller gave it.
    fn set_size(&mut self, size: u32);
}

macro_rules! plain {
    ($($name:ident),* $(,)?) => { $(
        // SAFETY: a generated struct of integers (any bits are valid) in which the header leaves no padding.
        unsafe impl FromBytes for uapi::$name {}
        // SAFETY: as above.
        unsafe impl AsBytes for uapi::$name {}
        impl Plain for uapi::$name {}
    )* };
}

macro_rules! argument {
    ($($name:ident),* $(,)?) => { $(
        plain!($name);
        impl Uapi for uapi::$name {
            fn flags(&self) -> u32 {
                self.flags
            }
            fn set_size(&mut self, size: u32) {
                self.size = size;
            }
        }
    )* };
}

plain!(huvm_instr, huvm_block_info, huvm_event);
argument!(
    huvm_version,
    huvm_gpu_info,
    huvm_link_info,
    huvm_mem_info,
    huvm_lend_info,
    huvm_gpu_health,
    huvm_gpu_register,
    huvm_migrate,
    huvm_advise,
    huvm_knob,
    huvm_policy,
    huvm_preset,
    huvm_counters,
    huvm_latency,
    huvm_events,
    huvm_launch,
    huvm_wait,
    huvm_client_info,
    huvm_range_info,
    huvm_test_reg,
    huvm_selftest_arg,
    huvm_test_evict,
    huvm_test_limits,
    huvm_test_fail,
);

impl Plain for u64 {}

/// Largest struct that a caller may claim.
const MAX: usize = 4096;

/// Copies an argument struct in. `size` of the result is the caller's.
///
/// # Errors
/// `EINVAL` when smaller than its first version, `E2BIG` when larger than ours with something in the part that we do not
/// know, `EFAULT`.
pub(crate) fn copy_in<T: Uapi>(arg: usize) -> Result<T> {
    let size: u32 = reader(arg, 4).read()?;
    let theirs = size as usize;
    if theirs < T::MIN {
        return Err(EINVAL);
    }
    if theirs > MAX {
        return Err(E2BIG);
    }
    if let Some(more) = theirs.checked_sub(size_of::<T>()) {
        let tail = arg.wrapping_add(size_of::<T>()) as *const kernel::ffi::c_void;
        // SAFETY: a user address, checked by the function.
        match unsafe { c::huvm_check_zeroed_user(tail, more) } {
            0 => return Err(E2BIG),
            r if r < 0 => return Err(EFAULT),
            _ => {}
        }
    }
    // All of today's structs are at their first version, so the caller has every field.
    let mut t: T = reader(arg, size_of::<T>()).read()?;
    // The caller may have changed it since.
    t.set_size(size);
    Ok(t)
}

/// Copies an argument struct back out.
///
/// # Errors
/// `EFAULT`.
pub(crate) fn copy_out<T: Uapi>(arg: usize, t: &T) -> Result {
    writer(arg, size_of::<T>()).write(t)
}

/// Copies `n` elements in.
///
/// # Errors
/// `EFAULT`, `ENOMEM`, `EINVAL` when their bytes do not fit an address.
pub(crate) fn read_array<T: Plain>(ptr: u64, n: usize) -> Result<KVVec<T>> {
    let mut from = reader(address(ptr)?, n.checked_mul(size_of::<T>()).ok_or(EINVAL)?);
    let mut v = KVVec::with_capacity(n, GFP_KERNEL)?;
    for _ in 0..n {
        v.push(from.read()?, GFP_KERNEL)?;
    }
    Ok(v)
}

/// Copies elements out, from `ptr` on.
///
/// # Errors
/// `EFAULT`.
pub(crate) fn write_slice<T: Plain>(ptr: u64, from: &[T]) -> Result {
    let mut to = writer(address(ptr)?, size_of_val(from));
    for t in from {
        to.write(t)?;
    }
    Ok(())
}

fn address(ptr: u64) -> Result<usize> {
    usize::try_from(ptr).map_err(|_| EFAULT)
}

fn reader(at: usize, len: usize) -> kernel::uaccess::UserSliceReader {
    UserSlice::new(UserPtr::from_addr(at), len).reader()
}

fn writer(at: usize, len: usize) -> UserSliceWriter {
    UserSlice::new(UserPtr::from_addr(at), len).writer()
}
