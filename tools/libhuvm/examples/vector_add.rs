// SPDX-License-Identifier: GPL-2.0
//! `z = x + y` on GPU 0, checked by the CPU: `cargo run -p libhuvm --example vector_add`.
#![forbid(unsafe_code)]

use libhuvm::{Device, Program, Result};

const BYTES: u64 = 8 << 20;

fn add() -> Result<usize> {
    let device = Device::open()?;
    device.register(0)?;
    let mut x = device.alloc(BYTES)?;
    let mut y = device.alloc(BYTES)?;
    let mut z = device.alloc(BYTES)?;
    for (i, (x, y)) in (0..).zip(x.as_mut_slice().iter_mut().zip(y.as_mut_slice())) {
        *x = i;
        *y = 2 * i + 1;
    }
    device
        .launch(0, &Program::add(&mut z, &x, &y, 32)?)?
        .wait_done()?;
    let sums = (0..).zip(z.as_slice());
    Ok(sums.filter(|(i, sum)| **sum != 3 * i + 1).count())
}

fn main() -> std::process::ExitCode {
    match add() {
        Ok(wrong) => {
            println!("{} words added, {wrong} wrong", BYTES / 8);
            std::process::ExitCode::from(u8::from(wrong != 0))
        }
        Err(e) => {
            let hint = e.hint().unwrap_or("see the kernel's log");
            eprintln!("vector_add: {e}; hint: {hint}");
            std::process::ExitCode::FAILURE
        }
    }
}
