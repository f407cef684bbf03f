// SPDX-License-Identifier: GPL-2.0
//! Generated bindings: the kernel's own, our shim's, and the user interface.

/// What bindgen made of `bindings.h`.
#[allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    unused_imports
)]
mod generated {
    use kernel::bindings::*;
    include!(concat!(
        env!("HUVM_OBJ"),
        "/drivers/kernel/bindings_generated.rs"
    ));
}

/// The kernel's bindings and the functions of `shim.h`, for this folder.
pub(super) mod c {
    pub(crate) use super::generated::*;
    pub(crate) use kernel::bindings::*;
}

/// `uapi/huvm.h` and `uapi/huvm_test.h`: plain structs and constants. Command numbers are `HUVM_CMD_<name>`.
pub(crate) mod uapi {
    pub(crate) use super::generated::*;
}
