// SPDX-License-Identifier: GPL-2.0
//! huvm_hw: see Documentation/design.md.
#![cfg_attr(not(any(test, MODULE)), no_std)]
#![forbid(unsafe_code)]

pub mod ext;
