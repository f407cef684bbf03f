// SPDX-License-Identifier: GPL-2.0
//! The C edge of the device model: what `qemu/glue/huvm-model.h` declares.
//!
//! One machine per process. Every entry catches panics: the model is large, its input is a
//! hostile guest, and a bug in it must cost that guest its GPU, not the host its QEMU.

mod host;
pub mod profile;

use core::ffi::{c_char, c_int, c_void, CStr};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, TryLockError};

use huvm_model::config::{GpuConfig, Profile};
use huvm_model::machine::Machine;

pub use host::HostOps;
use host::{Device, FfiHost};

/// `HuvmGpuConfig` of `huvm-model.h`.
#[repr(C)]
#[allow(missing_docs)]
pub struct CConfig {
    pub index: i32,
    pub vram_mb: u32,
    pub ces: u32,
    pub seed: u32,
    pub timing: u8,
    pub phantom: u8,
    pub realism: u8,
    pub reserved: u8,
    pub profile: *const c_char,
}

/// The machine and the C side of its devices.
struct World {
    machine: Machine,
    host: FfiHost,
    /// Where the profile came from; all devices must name the same.
    profile_path: Option<String>,
    armed: Option<u64>,
}

static WORLD: Mutex<Option<World>> = Mutex::new(None);

/// The world, unless a call is running already (see `huvm-model.h`).
fn world() -> Option<MutexGuard<'static, Option<World>>> {
    match WORLD.try_lock() {
        Ok(g) => Some(g),
        Err(TryLockError::Poisoned(p)) => Some(p.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Runs `f` on the world, then arms the timer. A panic marks `gpu` (or, without one, all) as gone.
fn enter<R>(gpu: Option<c_int>, absent: R, f: impl FnOnce(&mut World) -> R) -> R {
    let Some(mut guard) = world() else {
        return absent;
    };
    let Some(w) = guard.as_mut() else {
        return absent;
    };
    let result = catch_unwind(AssertUnwindSafe(|| f(w)));
    forget_taken_out(w);
    if result.is_err() {
        eprintln!("huvm-gpu: the device model failed; the device is gone until reset");
        match gpu.and_then(|g| usize::try_from(g).ok()) {
            Some(g) => w.machine.mark_gone(g, &mut w.host),
            None => (0..huvm_model::MAX_GPUS).for_each(|g| w.machine.mark_gone(g, &mut w.host)),
        }
    }
    arm(w);
    result.unwrap_or(absent)
}

/// Forgets GPUs that went while a call ran.
fn forget_taken_out(w: &mut World) {
    for g in host::taken_out() {
        w.machine.remove_gpu(g);
        if let Some(slot) = w.host.devices.get_mut(g) {
            *slot = None;
        }
        // The timer may have been that device's.
        w.armed = None;
    }
}

/// Least distance of a deadline that has passed already, ns. Under `-icount` the guest's processors
/// stand still while a timer is due, so work that is left over must let them run between.
const BACKLOG_NS: u64 = 1000;

fn arm(w: &mut World) {
    let Some(d) = w.host.timer_device() else {
        w.armed = None;
        return;
    };
    // SAFETY: the device is present (invariant of Device).
    let now = unsafe { (d.ops.now_ns)(d.opaque) };
    let deadline = match w.machine.next_deadline() {
        Some(t) if t <= now => now.saturating_add(BACKLOG_NS),
        Some(t) => t,
        None => u64::MAX,
    };
    if w.armed != Some(deadline) {
        w.armed = Some(deadline);
        // SAFETY: the device is present (invariant of Device).
        unsafe { (d.ops.set_timer)(d.opaque, deadline) }
    }
}

fn add(c: &CConfig, path: Option<String>, device: Device) -> Result<c_int, String> {
    let mut guard = world().ok_or("the device model is busy")?;
    match guard.as_mut() {
        Some(w) => forget_taken_out(w),
        None => host::taken_out().for_each(drop),
    }
    let w = match guard.as_mut() {
        // A machine that lost its last GPU starts over, with whatever profile comes.
        Some(w) if w.host.timer_device().is_some() => w,
        _ => {
            let profile = match &path {
                Some(p) => profile::load(Path::new(p))?,
                None => Profile::default(),
            };
            guard.insert(World {
                machine: Machine::new(profile)?,
                host: FfiHost::default(),
                profile_path: path.clone(),
                armed: None,
            })
        }
    };
    if w.profile_path != path {
        return Err("all GPUs of a machine must name the same profile".to_owned());
    }
    let index = w.machine.add_gpu(GpuConfig {
        index: usize::try_from(c.index).ok(),
        vram_bytes: u64::from(c.vram_mb) << 20,
        timing: c.timing != 0,
        phantom: c.phantom != 0,
        ces: (c.ces != 0).then_some(c.ces),
        realism: c.realism != 0,
        seed: c.seed,
    })?;
    if let Some(slot) = w.host.devices.get_mut(index) {
        *slot = Some(device);
    }
    // The timer may have moved to this device.
    w.armed = None;
    arm(w);
    c_int::try_from(index).map_err(|e| e.to_string())
}

/// Adds a GPU; see `huvm-model.h`.
///
/// # Safety
///
/// `config` and `ops` point to their structures, `config.profile` is null or a C string, `vram`
/// points to `config.vram_mb` MiB that stay valid, and may be read and written, until
/// `huvm_model_remove`; so do the callbacks. `err` points to `err_len` writable bytes.
#[no_mangle]
pub unsafe extern "C" fn huvm_model_add(
    config: *const CConfig,
    ops: *const HostOps,
    opaque: *mut c_void,
    vram: *mut c_void,
    err: *mut c_char,
    err_len: usize,
) -> c_int {
    let result = catch_unwind(|| {
        // SAFETY: the caller says that both point to their structures.
        let (c, ops) = unsafe { (&*config, *ops) };
        let path = if c.profile.is_null() {
            None
        } else {
            // SAFETY: not null, so a C string by the caller's word.
            let s = unsafe { CStr::from_ptr(c.profile) };
            Some(s.to_string_lossy().into_owned())
        };
        let device = Device {
            ops,
            opaque,
            vram: vram.cast(),
            vram_bytes: u64::from(c.vram_mb) << 20,
        };
        add(c, path, device)
    });
    let message = match result {
        Ok(Ok(index)) => return index,
        Ok(Err(message)) => message,
        Err(_) => "the device model failed".to_owned(),
    };
    let n = message.len().min(err_len.saturating_sub(1));
    if err_len > 0 && !err.is_null() {
        // SAFETY: n < err_len, `err` has err_len bytes, and `message` is ours.
        unsafe {
            core::ptr::copy_nonoverlapping(message.as_ptr().cast(), err, n);
            *err.add(n) = 0;
        }
    }
    -1
}

/// Instructions that a CPU of the machine executes in a microsecond, by its profile; 0 without a GPU.
#[no_mangle]
pub extern "C" fn huvm_model_cpu_mips() -> u32 {
    enter(None, 0, |w| w.machine.profile().cpu_mips)
}

/// Takes a GPU out, from inside a call too. Its callbacks and VRAM are not used again.
#[no_mangle]
pub extern "C" fn huvm_model_remove(gpu: c_int) {
    let Ok(g) = usize::try_from(gpu) else {
        return;
    };
    let stopped = enter(Some(gpu), false, |w| {
        if let Some(d) = w.host.timer_device() {
            // The timer may be this device's: stop it, `arm` picks the next device.
            // SAFETY: the device is present (invariant of Device).
            unsafe { (d.ops.set_timer)(d.opaque, u64::MAX) }
        }
        host::take_out(g);
        true
    });
    // A call runs, and ends with it; or there is no machine, and the next one forgets it.
    if !stopped {
        host::take_out(g);
    }
}

/// Resets a GPU.
#[no_mangle]
pub extern "C" fn huvm_model_reset(gpu: c_int) {
    enter(Some(gpu), (), |w| {
        if let Ok(g) = usize::try_from(gpu) {
            w.machine.reset(g, &mut w.host);
        }
    });
}

/// 1 if a GPU fell off the bus, or was never on it, else 0.
#[no_mangle]
pub extern "C" fn huvm_model_is_gone(gpu: c_int) -> c_int {
    enter(Some(gpu), 1, |w| {
        c_int::from(usize::try_from(gpu).map_or(true, |g| w.machine.is_gone(g)))
    })
}

/// Reads a BAR.
#[no_mangle]
pub extern "C" fn huvm_model_read(gpu: c_int, bar: u32, offset: u64, size: u32) -> u64 {
    enter(Some(gpu), u64::MAX, |w| match usize::try_from(gpu) {
        Ok(g) => w.machine.mmio_read(g, bar, offset, size, &mut w.host),
        Err(_) => u64::MAX,
    })
}

/// Writes a BAR.
#[no_mangle]
pub extern "C" fn huvm_model_write(gpu: c_int, bar: u32, offset: u64, value: u64, size: u32) {
    enter(Some(gpu), (), |w| {
        if let Ok(g) = usize::try_from(gpu) {
            w.machine
                .mmio_write(g, bar, offset, value, size, &mut w.host);
        }
    });
}

/// Runs what is due; the device calls it when the timer fires.
#[no_mangle]
pub extern "C" fn huvm_model_timer() {
    enter(None, (), |w| {
        w.armed = None;
        w.machine.timer(&mut w.host);
    });
}
