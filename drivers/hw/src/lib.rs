// SPDX-License-Identifier: GPL-2.0
//! Formats of the hardware, pure pack and unpack: no device access, no allocation, no panic.
//!
//! Everything but `ext` is documented by the manufacturer (GA100 class); section numbers are those of the project's
//! hardware-interface reference. `tests/vectors/` has values worked out by hand from its tables; the tests of this
//! crate check every field of every format against them. A format's field constants take precedence over the typed
//! structs where a value has to survive unknown codes.
#![cfg_attr(not(any(test, MODULE)), no_std)]
#![forbid(unsafe_code)]

pub mod aperture;
pub mod bits;
pub mod ce;
pub mod counter;
pub mod ext;
pub mod fault;
pub mod host;
pub mod instance;
pub mod irq;
pub mod memop;
pub mod pte;
pub mod regs;
pub mod runlist;
