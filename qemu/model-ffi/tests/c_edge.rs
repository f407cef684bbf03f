// SPDX-License-Identifier: GPL-2.0
//! The C edge as the glue uses it, in one process-wide machine. Also runs under Miri:
//! `cargo +nightly miri test -p huvm_model_ffi --test c_edge`.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use core::ffi::{c_char, c_int, c_void};
use std::cell::RefCell;

use huvm_model_ffi::*;

/// What a device of the C side is: memory of its own and a log.
#[derive(Default)]
struct Dev {
    now: u64,
    sys: Vec<u8>,
    messages: Vec<u32>,
    timers: Vec<u64>,
    errors: Vec<String>,
    reenter: bool,
    reentered: Option<u64>,
    removes: Option<c_int>,
}

type Cell = RefCell<Dev>;

fn dev<'a>(opaque: *mut c_void) -> &'a Cell {
    // SAFETY: each test passes a pointer to a Cell that outlives its device.
    unsafe { &*opaque.cast::<Cell>() }
}

unsafe extern "C" fn now_ns(o: *mut c_void) -> u64 {
    dev(o).borrow().now
}
unsafe extern "C" fn dma_read(o: *mut c_void, addr: u64, buf: *mut c_void, len: u64) -> c_int {
    let d = dev(o);
    if d.borrow().reenter {
        // As a DMA does that reaches a register of a sibling.
        let v = huvm_model_read(0, 0, 0, 4);
        d.borrow_mut().reentered = Some(v);
    }
    let removes = d.borrow_mut().removes.take();
    if let Some(gpu) = removes {
        // As a DMA does that reaches the port of a slot, and has its device removed.
        huvm_model_remove(gpu);
    }
    let d = d.borrow();
    match d.sys.get(addr as usize..(addr + len) as usize) {
        Some(from) => {
            // SAFETY: the model passes a buffer of `len` bytes.
            unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), buf.cast(), from.len()) };
            0
        }
        None => -1,
    }
}
unsafe extern "C" fn dma_write(o: *mut c_void, addr: u64, buf: *const c_void, len: u64) -> c_int {
    let mut d = dev(o).borrow_mut();
    match d.sys.get_mut(addr as usize..(addr + len) as usize) {
        Some(to) => {
            // SAFETY: the model passes a buffer of `len` bytes.
            unsafe { core::ptr::copy_nonoverlapping(buf.cast(), to.as_mut_ptr(), to.len()) };
            0
        }
        None => -1,
    }
}
unsafe extern "C" fn msix(o: *mut c_void, vector: u32) {
    dev(o).borrow_mut().messages.push(vector);
}
unsafe extern "C" fn bar_virtual(_: *mut c_void, _: u32, _: c_int) {}
unsafe extern "C" fn bus_translated(_: *mut c_void) -> c_int {
    0
}
unsafe extern "C" fn guest_error(o: *mut c_void, text: *const c_char, len: usize) {
    // SAFETY: the model passes `len` bytes of text.
    let b = unsafe { core::slice::from_raw_parts(text.cast::<u8>(), len) };
    let text = String::from_utf8_lossy(b).into_owned();
    dev(o).borrow_mut().errors.push(text);
}
unsafe extern "C" fn set_timer(o: *mut c_void, at: u64) {
    dev(o).borrow_mut().timers.push(at);
}

const OPS: HostOps = HostOps {
    now_ns,
    dma_read,
    dma_write,
    msix,
    bar_virtual,
    bus_translated,
    guest_error,
    set_timer,
};

fn add(
    cell: &Cell,
    vram: &mut Vec<u8>,
    index: i32,
    profile: Option<&std::ffi::CStr>,
) -> Result<i32, String> {
    let config = CConfig {
        index,
        vram_mb: 64,
        ces: 0,
        seed: 1,
        timing: 1,
        phantom: 0,
        realism: 0,
        reserved: 0,
        profile: profile.map_or(core::ptr::null(), |p| p.as_ptr()),
    };
    let mut err = [0 as c_char; 64];
    let opaque = core::ptr::from_ref(cell).cast_mut().cast();
    // SAFETY: all pointers are to live objects of the sizes named; `vram` has 64 MiB.
    let n = unsafe {
        huvm_model_add(
            &config,
            &OPS,
            opaque,
            vram.as_mut_ptr().cast(),
            err.as_mut_ptr(),
            err.len(),
        )
    };
    if n >= 0 {
        return Ok(n);
    }
    let text = err
        .iter()
        .take_while(|c| **c != 0)
        .map(|&c| c as u8 as char)
        .collect();
    Err(text)
}

/// One test: the machine is global, and tests run side by side.
#[test]
fn life_of_two_devices() {
    let a = Cell::default();
    let b = Cell::default();
    a.borrow_mut().sys = vec![0; 1 << 16];
    let mut vram_a = vec![0u8; 64 << 20];
    let mut vram_b = vec![0u8; 64 << 20];
    // Nothing there yet.
    assert_eq!(huvm_model_read(0, 0, 0, 4), u64::MAX);
    huvm_model_timer();
    assert_eq!(huvm_model_cpu_mips(), 0);

    assert_eq!(add(&a, &mut vram_a, -1, None), Ok(0));
    assert_eq!(huvm_model_cpu_mips(), 2300, "of v100-p3");
    let e = add(&b, &mut vram_b, 0, None).unwrap_err();
    assert_eq!(e, "GPU index 0 is taken");
    let e = add(&b, &mut vram_b, -1, Some(c"/nowhere.toml")).unwrap_err();
    assert!(e.contains("same profile"), "{e}");
    assert_eq!(add(&b, &mut vram_b, 3, None), Ok(3));
    assert_eq!(huvm_model_read(3, 5, 8, 4), 3, "GPU_INDEX");
    assert_eq!(huvm_model_read(0, 5, 0xc, 4), 2, "GPU_COUNT");

    // A test interrupt: the timer is the first device's, the message the second's.
    for at in [0xb8_1200u64, 0xb8_1608] {
        huvm_model_write(3, 0, at, 0xf, 4);
    }
    huvm_model_write(3, 0, 0xb8_1640, 1, 4);
    let deadline = *a.borrow().timers.last().unwrap();
    assert_eq!(deadline, 1_500);
    a.borrow_mut().now = deadline;
    huvm_model_timer();
    assert_eq!(b.borrow().messages, [0]);
    assert_eq!(a.borrow().timers.last(), Some(&u64::MAX));

    // VRAM and system memory by the window of BAR0.
    huvm_model_write(0, 0, 0x70_0010, 0x1234_5678, 4);
    assert_eq!(vram_a[0x10..0x14], [0x78, 0x56, 0x34, 0x12]);
    huvm_model_write(0, 0, 0x1700, 2 << 24, 4);
    a.borrow_mut().sys[4] = 9;
    assert_eq!(huvm_model_read(0, 0, 0x70_0004, 4), 9);
    // Outside of both: an error, not a fault of this process.
    huvm_model_write(0, 0, 0x1700, 0x10, 4);
    huvm_model_write(0, 0, 0x70_0000, 1, 4);
    huvm_model_write(0, 0, 0x1700, 0x00ff_ffff, 4);
    assert_eq!(huvm_model_read(0, 0, 0x70_0000, 4), 0);
    assert!(!a.borrow().errors.is_empty());

    // A call from inside a call.
    huvm_model_write(0, 0, 0x1700, 2 << 24, 4);
    a.borrow_mut().reenter = true;
    assert_eq!(huvm_model_read(0, 0, 0x70_0004, 4), 9);
    assert_eq!(a.borrow().reentered, Some(u64::MAX));
    a.borrow_mut().reenter = false;

    // The first device goes: the timer moves to the other. Then the machine starts over.
    huvm_model_write(3, 0, 0xb8_1000, 2, 4);
    huvm_model_write(3, 0, 0xb8_1640, 1, 4);
    huvm_model_remove(0);
    assert_eq!(a.borrow().timers.last(), Some(&u64::MAX));
    assert_eq!(b.borrow().timers.last(), Some(&3_000));
    assert_eq!(huvm_model_read(0, 0, 0, 4), 0xffff_ffff);
    assert_eq!(huvm_model_is_gone(3), 0);
    huvm_model_write(3, 5, 0x5_0020, 0xdead, 4);
    assert_eq!(huvm_model_is_gone(3), 1);
    huvm_model_reset(3);
    assert_eq!(huvm_model_is_gone(3), 0);
    // One goes from inside a call of its own: nothing of it is used from there on, its timer neither.
    assert_eq!(add(&a, &mut vram_a, 0, None), Ok(0));
    huvm_model_write(0, 0, 0x1700, 2 << 24, 4);
    a.borrow_mut().removes = Some(0);
    let (of_a, of_b) = (a.borrow().timers.len(), b.borrow().timers.len());
    huvm_model_read(0, 0, 0x70_0004, 4);
    assert_eq!(a.borrow().removes, None);
    assert_eq!((huvm_model_is_gone(0), huvm_model_is_gone(3)), (1, 0));
    huvm_model_timer();
    assert_eq!(a.borrow().timers.len(), of_a);
    assert!(b.borrow().timers.len() > of_b, "the other's timer is armed");
    // Its place is free.
    assert_eq!(add(&a, &mut vram_a, 0, None), Ok(0));
    huvm_model_remove(0);
    huvm_model_remove(3);
    assert_eq!((huvm_model_is_gone(3), huvm_model_is_gone(-1)), (1, 1));
    let profile = std::ffi::CString::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../profiles/functional.toml"
    ));
    if cfg!(not(miri)) {
        assert_eq!(add(&b, &mut vram_b, -1, Some(&profile.unwrap())), Ok(0));
        assert_eq!(
            huvm_model_read(0, 5, 0x10, 4),
            4,
            "CE_COUNT of that profile"
        );
        huvm_model_remove(0);
    }
}
