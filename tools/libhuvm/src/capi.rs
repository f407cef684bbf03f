// SPDX-License-Identifier: GPL-2.0
//! The C interface, `include/libhuvm.h`: thin covers of the safe calls. Only with the feature `capi`.
//!
//! Every function that takes a handle requires one that [`libhuvm_open`] gave and [`libhuvm_close`] has not taken, and
//! every other pointer to be what the header says; that is the caller's part, as always in C.

use crate::device::Device;
use crate::error::{hint_of, Error, Result};
use crate::ops::{At, Instr, Op};
use crate::space::Use;
use crate::work::Program;
use crate::{sys, uapi};
use std::ffi::{c_char, c_int, c_void};
use std::os::fd::AsRawFd;

/// Handle of an open `/dev/huvm`.
#[allow(non_camel_case_types)]
pub struct libhuvm(Device);

/// A negative errno for C.
fn code(e: &Error) -> c_int {
    -match e {
        Error::NotLoaded => libc::ENOENT,
        Error::NotPermitted => libc::EACCES,
        Error::Abi { .. } => libc::EPROTO,
        Error::Os { errno, .. } => *errno,
        Error::Argument(_) => libc::EINVAL,
        Error::Launch(_) | Error::Fatal(_) | Error::Ecc(_) | Error::NoRoom | Error::GpuLost => {
            libc::EIO
        }
    }
}

fn status(r: Result<()>) -> c_int {
    match r {
        Ok(()) => 0,
        Err(e) => code(&e),
    }
}

/// The device behind a handle.
///
/// # Safety
/// `h` is null or a live handle.
unsafe fn device<'a>(h: *const libhuvm) -> Option<&'a Device> {
    // SAFETY: by this function's contract.
    unsafe { h.as_ref() }.map(|h| &h.0)
}

/// Opens `/dev/huvm`.
///
/// # Safety
/// `out` is null or may be written.
#[no_mangle]
pub unsafe extern "C" fn libhuvm_open(out: *mut *mut libhuvm) -> c_int {
    if out.is_null() {
        return -libc::EINVAL;
    }
    match Device::open() {
        Ok(d) => {
            // SAFETY: not null, and the caller lets us write it.
            unsafe { out.write(Box::into_raw(Box::new(libhuvm(d)))) };
            0
        }
        Err(e) => code(&e),
    }
}

/// Closes a handle.
///
/// # Safety
/// `h` is null or a live handle that nothing uses any more.
#[no_mangle]
pub unsafe extern "C" fn libhuvm_close(h: *mut libhuvm) {
    if !h.is_null() {
        // SAFETY: made by `Box::into_raw` in `libhuvm_open`, and given back once.
        drop(unsafe { Box::from_raw(h) });
    }
}

/// The descriptor.
///
/// # Safety
/// `h` is null or a live handle.
#[no_mangle]
pub unsafe extern "C" fn libhuvm_fd(h: *const libhuvm) -> c_int {
    // SAFETY: the same contract.
    unsafe { device(h) }.map_or(-libc::EINVAL, |d| d.space.file.as_raw_fd())
}

/// Highest GPU index plus one.
///
/// # Safety
/// `h` is null or a live handle.
#[no_mangle]
pub unsafe extern "C" fn libhuvm_gpu_count(h: *const libhuvm) -> c_int {
    // SAFETY: the same contract.
    let Some(d) = (unsafe { device(h) }) else {
        return -libc::EINVAL;
    };
    match d.version() {
        Ok(v) => c_int::try_from(v.gpu_count).unwrap_or(c_int::MAX),
        Err(e) => code(&e),
    }
}

/// Registers a GPU.
///
/// # Safety
/// `h` is null or a live handle.
#[no_mangle]
pub unsafe extern "C" fn libhuvm_register(h: *mut libhuvm, gpu: u32) -> c_int {
    // SAFETY: the same contract.
    unsafe { device(h) }.map_or(-libc::EINVAL, |d| status(d.register(gpu)))
}

/// Maps managed memory.
///
/// # Safety
/// `h` is null or a live handle; `out` is null or may be written.
#[no_mangle]
pub unsafe extern "C" fn libhuvm_alloc(
    h: *mut libhuvm,
    bytes: u64,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: the same contract.
    let Some(d) = (unsafe { device(h) }).filter(|_| !out.is_null()) else {
        return -libc::EINVAL;
    };
    match d.alloc(bytes) {
        Ok(m) => {
            // C owns the mapping from here on; it keeps the file open in the kernel by itself.
            // SAFETY: not null, and the caller lets us write it.
            unsafe { out.write(m.into_raw().cast()) };
            0
        }
        Err(e) => code(&e),
    }
}

/// Unmaps managed memory.
///
/// # Safety
/// `memory` and `bytes` are those of one [`libhuvm_alloc`], and nothing uses that memory any more.
#[no_mangle]
pub unsafe extern "C" fn libhuvm_free(memory: *mut c_void, bytes: u64) -> c_int {
    let Ok(len) = usize::try_from(bytes) else {
        return -libc::EINVAL;
    };
    // SAFETY: by this function's contract, a mapping of ours that nothing uses.
    match unsafe { libc::munmap(memory, len) } {
        0 => 0,
        _ => -std::io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EINVAL),
    }
}

/// Moves pages.
///
/// # Safety
/// `h` is null or a live handle. The address is only looked up by the driver; contents stay as they are.
#[no_mangle]
pub unsafe extern "C" fn libhuvm_migrate(
    h: *mut libhuvm,
    memory: *const c_void,
    bytes: u64,
    place: u32,
) -> c_int {
    // SAFETY: the same contract.
    let Some(d) = (unsafe { device(h) }) else {
        return -libc::EINVAL;
    };
    let mut arg = uapi::huvm_migrate {
        va: memory as u64,
        length: bytes,
        dst: place,
        ..Default::default()
    };
    // SAFETY: the driver takes addresses of managed ranges alone, and moves pages without changing what they hold.
    status(unsafe { sys::call(&d.space.file, &mut arg, "migrating") })
}

fn run(
    d: &Device,
    gpu: u32,
    program: &Program<'_>,
    result: Option<&mut uapi::huvm_wait>,
) -> Result<()> {
    let r = d.launch(gpu, program)?.wait()?;
    if let Some(out) = result {
        *out = uapi::huvm_wait {
            size: std::mem::size_of::<uapi::huvm_wait>() as u32,
            status: r.status,
            error: r.error,
            fault_va: r.fault_va,
            fault_type: r.fault_type,
            access_type: r.access_type,
            mismatches: r.mismatches,
            mismatch_va: r.mismatch_va,
            blocks_done: r.blocks_done,
            faults: r.faults,
            bytes: r.bytes,
            start_ns: r.start_ns,
            end_ns: r.end_ns,
            ..Default::default()
        };
    }
    match r.status {
        uapi::HUVM_LAUNCH_DONE => Ok(()),
        s => Err(Error::Launch(format!("ended with status {s}"))),
    }
}

/// `z = x + y`.
///
/// # Safety
/// `h` is null or a live handle; the arrays are managed memory of it, `bytes` long, and used by nothing else meanwhile.
#[no_mangle]
pub unsafe extern "C" fn libhuvm_vector_add(
    h: *mut libhuvm,
    gpu: u32,
    blocks: u32,
    z: *mut u64,
    x: *const u64,
    y: *const u64,
    bytes: u64,
) -> c_int {
    // SAFETY: the same contract.
    let Some(d) = (unsafe { device(h) }) else {
        return -libc::EINVAL;
    };
    let [dst, a, b] = [0, 1, 2].map(At::start);
    let mut arrays = [z as u64, x as u64, y as u64].map(|start| Use {
        start,
        end: start.saturating_add(bytes),
        writes: false,
    });
    let instr = Instr::pieces(Op::Add { dst, a, b }, bytes, blocks)
        .and_then(|i| i.resolve(blocks, &mut arrays));
    let program = match instr {
        // SAFETY: by this function's contract nothing else uses the arrays, and the launch is over when we return.
        Ok(i) => unsafe { Program::raw(blocks, 8, vec![i]) },
        Err(e) => return code(&e),
    };
    status(run(d, gpu, &program, None))
}

/// Runs a program.
///
/// # Safety
/// `h` is null or a live handle; `program` names `instructions` instructions, whose addresses are managed memory that
/// nothing else uses meanwhile; `result` is null or may be written.
#[no_mangle]
pub unsafe extern "C" fn libhuvm_run(
    h: *mut libhuvm,
    gpu: u32,
    blocks: u32,
    elem_bytes: u32,
    program: *const uapi::huvm_instr,
    instructions: usize,
    result: *mut uapi::huvm_wait,
) -> c_int {
    // SAFETY: the same contract.
    let Some(d) = (unsafe { device(h) }) else {
        return -libc::EINVAL;
    };
    if program.is_null() || !(1..=uapi::HUVM_MAX_INSTR as usize).contains(&instructions) {
        return -libc::EINVAL;
    }
    // SAFETY: not null, and so many instructions by this function's contract.
    let instrs = unsafe { std::slice::from_raw_parts(program, instructions) }.to_vec();
    // SAFETY: by this function's contract nothing else uses that memory, and the launch is over when we return.
    let program = unsafe { Program::raw(blocks, elem_bytes, instrs) };
    // SAFETY: null, or ours to write by this function's contract.
    status(run(d, gpu, &program, unsafe { result.as_mut() }))
}

/// Text for an error.
#[no_mangle]
pub extern "C" fn libhuvm_hint(err: c_int) -> *const c_char {
    let errno = err.checked_neg().unwrap_or(0);
    let text = match errno {
        libc::ENOENT => c"register the GPU first; at libhuvm_open, load the module, then look at 'uvmctl doctor'",
        libc::EACCES => c"run as root, or give yourself access to /dev/huvm",
        libc::EPROTO => c"use the library that was built with the driver",
        libc::EIO => c"the launch failed or the GPU was lost; see the kernel's log",
        libc::EINVAL => c"sizes are multiples of 4 KiB, and of blocks times 64 KiB",
        _ => hint_of(errno).unwrap_or(c"see errno(3)"),
    };
    text.as_ptr()
}
