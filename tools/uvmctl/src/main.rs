// SPDX-License-Identifier: GPL-2.0
//! uvmctl: shows and drives huvm.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    uvmctl::main()
}
