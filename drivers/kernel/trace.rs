// SPDX-License-Identifier: GPL-2.0
//! The tracepoints of `trace.h`.
//!
//! Each function is a patched-out branch while nobody listens, so it costs one `nop`. They may be called from anywhere
//! that RCU watches, interrupts included; arguments and fields are explained in `trace.h`.

use super::ffi::c;

macro_rules! tracepoints {
    ($( $(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?); )*) => { $(
        $(#[$doc])*
        #[inline(always)]
        pub(crate) fn $name($($arg: $ty),*) {
            ::kernel::macros::paste! {
                #[cfg(CONFIG_TRACEPOINTS)]
                // SAFETY: the key of a tracepoint that trace.c defines.
                if unsafe {
                    ::kernel::jump_label::static_branch_unlikely!(
                        c::[<__tracepoint_huvm_ $name>],
                        c::tracepoint,
                        key
                    )
                } {
                    // SAFETY: takes integers by value and has no precondition.
                    unsafe { c::[<rust_do_trace_huvm_ $name>]($($arg),*) }
                }
                #[cfg(not(CONFIG_TRACEPOINTS))]
                {
                    let _ = ($($arg),*);
                }
            }
        }
    )* };
}

tracepoints! {
    /// `huvm_gpu_fault`.
    fn gpu_fault(gpu: i32, pid: u32, va: u64, access: u32, packets: u32);
    /// `huvm_fault_batch`.
    fn fault_batch(gpu: i32, packets: u64, pages: u64);
    /// `huvm_fault_fatal`.
    fn fault_fatal(gpu: i32, pid: u32, va: u64, fault: u32, access: u32);
    /// `huvm_cpu_fault`.
    fn cpu_fault(pid: u32, va: u64, bytes: u64, write: bool);
    /// `huvm_migrate`.
    fn migrate(pid: u32, va: u64, bytes: u64, src: i32, dst: i32, cause: u32);
    /// `huvm_evict`.
    fn evict(gpu: i32, pid: u32, va: u64, bytes: u64, chunk: u32, in_fault: bool);
    /// `huvm_gpu_lost`.
    fn gpu_lost(gpu: i32, why: u32, named: u32);
    /// `huvm_launch_end`.
    fn launch_end(gpu: i32, pid: u32, launch: u64, status: u32);
    /// `huvm_reclaim`.
    fn reclaim(gpu: i32, copied: bool, ns: u64);
    /// `huvm_lend`.
    fn lend(gpu: i32, pid: u32, va: u64, borrower: i32, chunk: u32);
    /// `huvm_write_back`.
    fn write_back(gpu: i32, pid: u32, va: u64, bytes: u64, ns: u64);
    /// `huvm_prefetch`.
    fn prefetch(gpu: i32, pid: u32, va: u64, step: u32);
    /// `huvm_retired`.
    fn retired(gpu: i32, pid: u32, va: u64, page: u64, lost: u64);
    /// `huvm_channel_lost`.
    fn channel_lost(gpu: i32, copies: u32, why: u32);
    /// `huvm_link`.
    fn link(gpu: i32, peer: i32, up: bool);
    /// `huvm_forfeit`.
    fn forfeit(gpu: i32, borrower: i32, chunks: u64);
    /// `huvm_copy`.
    fn copy(gpu: i32, engine: u32, copies: u32, began: u64, ns: u64);
    /// `huvm_count`.
    fn count(gpu: i32, pid: u32, counter: u32, n: u64);
}
