// SPDX-License-Identifier: GPL-2.0
//! The system calls: the only place of the tools with unsafe code, beside [`crate::managed`].

use crate::error::{Error, Result};
use crate::uapi;
use std::fs::File;
use std::os::fd::AsRawFd;

/// An argument struct of a call: begins with its size.
///
/// # Safety
/// A `repr(C)` struct of integers whose first field is a `u32` size, and which the driver reads and writes as the call with
/// number [`Self::NR`] and nothing else, but for memory that a field points to (see [`call`]).
pub(crate) unsafe trait Argument: Default {
    /// Number of the call.
    const NR: u32;
}

macro_rules! arguments {
    ($($name:ident = $nr:literal),* $(,)?) => { $(
        // SAFETY: generated from uapi/huvm.h, where each call's struct begins with `__u32 size`.
        unsafe impl Argument for uapi::$name {
            const NR: u32 = $nr;
        }
    )* };
}

arguments! {
    huvm_version = 0x00, huvm_gpu_info = 0x01, huvm_link_info = 0x02, huvm_mem_info = 0x03,
    huvm_lend_info = 0x04, huvm_gpu_health = 0x05,
    huvm_migrate = 0x12, huvm_advise = 0x13, huvm_launch = 0x14, huvm_wait = 0x15, huvm_knob = 0x20,
    huvm_counters = 0x30, huvm_latency = 0x34, huvm_events = 0x31, huvm_client_info = 0x32, huvm_range_info = 0x33,
    huvm_test_reg = 0xe0, huvm_test_limits = 0xe3, huvm_gpu_register = 0x10, huvm_policy = 0x21, huvm_preset = 0x23,
}

/// `_IOWR(HUVM_IOC_TYPE, nr, size)`.
const fn number(nr: u32, size: usize) -> libc::c_ulong {
    // CAST: sizes of the header's structs are far below 2^14.
    ((3 << 30) | ((size as u32) << 16) | (0xc8 << 8) | nr) as libc::c_ulong
}

/// Makes the call of `T`, or the one with number `nr` that takes the same struct.
///
/// # Safety
/// Fields of `arg` that are addresses must be 0 or name memory of this process that the call may read and write as its
/// documentation says.
pub(crate) unsafe fn call_nr<T: Argument>(
    file: &File,
    nr: u32,
    arg: &mut T,
    what: &str,
) -> Result<()> {
    let size = std::mem::size_of::<T>();
    let ptr = std::ptr::from_mut(arg);
    loop {
        // SAFETY: by the trait's contract the first field is the size; the struct is valid and ours alone.
        unsafe { ptr.cast::<u32>().write(size as u32) };
        // SAFETY: `arg` is a struct of the size that the number says; other memory by this function's contract.
        let r = unsafe { libc::ioctl(file.as_raw_fd(), number(nr, size) as _, ptr) };
        if r >= 0 {
            return Ok(());
        }
        let errno = std::io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO);
        if errno != libc::EINTR {
            return Err(Error::Os {
                what: what.to_owned(),
                errno,
            });
        }
    }
}

/// [`call_nr`] with the struct's own number.
///
/// # Safety
/// As [`call_nr`].
pub(crate) unsafe fn call<T: Argument>(file: &File, arg: &mut T, what: &str) -> Result<()> {
    // SAFETY: passed on.
    unsafe { call_nr(file, T::NR, arg, what) }
}

/// The text in a fixed field.
pub(crate) fn text(field: &[libc::c_char]) -> String {
    let bytes: Vec<u8> = field
        .iter()
        .take_while(|c| **c != 0)
        .map(|c| *c as u8)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Puts a text into a fixed field; `false` if it does not fit.
pub(crate) fn put_text(field: &mut [libc::c_char], text: &str) -> bool {
    if text.len() >= field.len() {
        return false;
    }
    for (slot, byte) in field.iter_mut().zip(text.bytes()) {
        *slot = byte as libc::c_char;
    }
    true
}

/// Waits until `file` has something to read; `false` when `timeout_ms` passed without.
pub(crate) fn readable(file: &File, timeout_ms: u32) -> Result<bool> {
    let mut fd = libc::pollfd {
        fd: file.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let timeout = i32::try_from(timeout_ms).unwrap_or(i32::MAX);
    // SAFETY: one valid pollfd, as the count says.
    let n = unsafe { libc::poll(&mut fd, 1, timeout) };
    if n < 0 {
        let errno = std::io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO);
        if errno != libc::EINTR {
            return Err(Error::Os {
                what: "waiting for events".into(),
                errno,
            });
        }
    }
    Ok(n > 0)
}

/// Reads whole records of the event stream.
pub(crate) fn read_events(file: &File, max: usize) -> Result<Vec<uapi::huvm_event>> {
    let mut events = vec![uapi::huvm_event::default(); max];
    let bytes = max * std::mem::size_of::<uapi::huvm_event>();
    // SAFETY: the buffer has `bytes` bytes, and any bytes are a valid event (integers).
    let n = unsafe { libc::read(file.as_raw_fd(), events.as_mut_ptr().cast(), bytes) };
    if n < 0 {
        let errno = std::io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO);
        return match errno {
            libc::EAGAIN | libc::EINTR => Ok(Vec::new()),
            _ => Err(Error::Os {
                what: "reading events".into(),
                errno,
            }),
        };
    }
    events.truncate(n as usize / std::mem::size_of::<uapi::huvm_event>());
    Ok(events)
}

/// CPU time of a process or kernel thread, ns; `None` if there is none by that number.
pub(crate) fn cpu_time_ns(pid: u32) -> Option<u64> {
    let pid = libc::pid_t::try_from(pid).ok()?;
    let mut clock = 0;
    // SAFETY: one valid clock id to write to.
    if unsafe { libc::clock_getcpuclockid(pid, &mut clock) } != 0 {
        return None;
    }
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: one valid timespec to write to.
    if unsafe { libc::clock_gettime(clock, &mut time) } != 0 {
        return None;
    }
    let (s, ns) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    s.ok()?.checked_mul(1_000_000_000)?.checked_add(ns.ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::size_of;

    /// What a C compiler makes of the header's HUVM_IOC_* on x86-64.
    #[test]
    fn numbers_are_those_of_the_c_header() {
        let table: &[(u32, usize, libc::c_ulong)] = &[
            (
                <uapi::huvm_version as Argument>::NR,
                size_of::<uapi::huvm_version>(),
                0xc050c800,
            ),
            (
                <uapi::huvm_gpu_info as Argument>::NR,
                size_of::<uapi::huvm_gpu_info>(),
                0xc070c801,
            ),
            (
                <uapi::huvm_link_info as Argument>::NR,
                size_of::<uapi::huvm_link_info>(),
                0xc028c802,
            ),
            (
                <uapi::huvm_mem_info as Argument>::NR,
                size_of::<uapi::huvm_mem_info>(),
                0xc048c803,
            ),
            (
                <uapi::huvm_gpu_register as Argument>::NR,
                size_of::<uapi::huvm_gpu_register>(),
                0xc010c810,
            ),
            (
                <uapi::huvm_migrate as Argument>::NR,
                size_of::<uapi::huvm_migrate>(),
                0xc028c812,
            ),
            (
                <uapi::huvm_advise as Argument>::NR,
                size_of::<uapi::huvm_advise>(),
                0xc020c813,
            ),
            (
                <uapi::huvm_launch as Argument>::NR,
                size_of::<uapi::huvm_launch>(),
                0xc030c814,
            ),
            (
                <uapi::huvm_wait as Argument>::NR,
                size_of::<uapi::huvm_wait>(),
                0xc068c815,
            ),
            (
                <uapi::huvm_knob as Argument>::NR,
                size_of::<uapi::huvm_knob>(),
                0xc168c820,
            ),
            (
                <uapi::huvm_policy as Argument>::NR,
                size_of::<uapi::huvm_policy>(),
                0xc020c821,
            ),
            (
                <uapi::huvm_preset as Argument>::NR,
                size_of::<uapi::huvm_preset>(),
                0xc0b8c823,
            ),
            (
                <uapi::huvm_counters as Argument>::NR,
                size_of::<uapi::huvm_counters>(),
                0xc028c830,
            ),
            (
                <uapi::huvm_events as Argument>::NR,
                size_of::<uapi::huvm_events>(),
                0xc010c831,
            ),
            (
                <uapi::huvm_client_info as Argument>::NR,
                size_of::<uapi::huvm_client_info>(),
                0xc0e0c832,
            ),
            (
                <uapi::huvm_range_info as Argument>::NR,
                size_of::<uapi::huvm_range_info>(),
                0xc028c833,
            ),
        ];
        for (nr, size, want) in table {
            assert_eq!(number(*nr, *size), *want, "call {nr:#x}");
        }
    }

    #[test]
    fn fixed_fields_hold_texts_that_fit() {
        let mut field = [0 as libc::c_char; 8];
        assert!(put_text(&mut field, "seven77"));
        assert_eq!(text(&field), "seven77");
        assert!(!put_text(&mut field, "eight888"));
        assert_eq!(text(&[b'x' as libc::c_char; 3]), "xxx");
    }
}
