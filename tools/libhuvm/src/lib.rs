// SPDX-License-Identifier: GPL-2.0
//! libhuvm: the safe Rust interface of `/dev/huvm`.
//!
//! | module | what it has |
//! | --- | --- |
//! | [`device`] | [`Device`]: an open file, every call that looks or sets |
//! | [`managed`] | [`Managed`]: memory that GPUs and CPU share |
//! | [`work`] | [`Program`]: what a GPU shall do; launch, wait, abort |
//! | [`ops`] | [`Instr`]: what a program of one's own consists of, over several ranges |
//! | [`threads`] | [`Threads`]: CPU time of the driver's threads |
//! | [`list`] | [`List`]: pages that a GPU shall touch, in their order |
//! | [`error`] | [`Error`]: what failed, why, what to do |
//! | `capi` | the C interface (`include/libhuvm.h`), with the feature `capi` |
//! | [`uapi`] | the generated structs and constants of `uapi/huvm.h` |
//!
//! ```no_run
//! use libhuvm::{Device, Place, Program};
//! # fn main() -> libhuvm::Result<()> {
//! let device = Device::open()?;
//! device.register(0)?;
//! let mut data = device.alloc(64 << 20)?;
//! data.as_mut_slice().fill(7);
//! let launch = device.launch(0, &Program::scale(&mut data, 3, 1, 32)?)?;
//! // Here `data` is the GPU's: the compiler lets nobody look at it before the launch is waited for.
//! let report = launch.wait_done()?;
//! assert_eq!(data.as_slice()[0], 22);
//! println!("{} faults", report.faults);
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "capi")]
pub mod capi;
pub mod device;
pub mod error;
pub mod list;
pub mod managed;
pub mod ops;
mod space;
mod sys;
pub mod threads;
#[allow(missing_docs, non_camel_case_types, non_upper_case_globals, clippy::all, clippy::indexing_slicing, clippy::undocumented_unsafe_blocks)]
#[rustfmt::skip]
pub mod uapi;
pub mod work;

pub use device::{Device, Place, Scope};
pub use error::{Error, Result};
pub use list::{List, Places, Touch};
pub use managed::{Handle, Managed};
pub use ops::{At, Instr, Op};
pub use threads::{Spent, Threads};
pub use work::{Launch, Program, Report};
