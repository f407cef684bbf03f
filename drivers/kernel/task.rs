// SPDX-License-Identifier: GPL-2.0
//! Who is calling.

use super::ffi::c;
use core::ptr::NonNull;

/// Names one address space (`mm_struct`) for as long as the token lives: the kernel cannot reuse its address.
pub(crate) struct MmToken(NonNull<c::mm_struct>);

// SAFETY: the token only compares and at last drops a counted reference, which any thread may do.
unsafe impl Send for MmToken {}
// SAFETY: as above; all methods take `&self` and read only the pointer.
unsafe impl Sync for MmToken {}

impl MmToken {
    /// The caller's address space; `None` in a kernel thread.
    pub(crate) fn current() -> Option<MmToken> {
        // SAFETY: no preconditions.
        let mm = NonNull::new(unsafe { c::huvm_current_mm() })?;
        // SAFETY: current's mm is alive while current runs.
        unsafe { c::huvm_mmgrab(mm.as_ptr()) };
        Some(MmToken(mm))
    }

    /// A number that no other address space has while the token lives.
    pub(crate) fn number(&self) -> u64 {
        self.0.as_ptr() as u64
    }

    /// Whether the caller runs in this address space.
    pub(crate) fn is_current(&self) -> bool {
        // SAFETY: no preconditions.
        unsafe { c::huvm_current_mm() == self.0.as_ptr() }
    }

    /// Whether nobody runs in this address space any more, and nobody ever will: each of its processes has ended, or runs another program.
    pub(crate) fn is_over(&self) -> bool {
        // SAFETY: the token's reference keeps the record, in which one word is read; that is 0 for good once it is.
        unsafe { c::huvm_mm_is_over(self.0.as_ptr()) }
    }
}

impl Drop for MmToken {
    fn drop(&mut self) {
        // SAFETY: gives back the reference that `current` took.
        unsafe { c::huvm_mmdrop(self.0.as_ptr()) }
    }
}

/// Process id (thread group) of the caller, in the initial namespace.
pub(crate) fn pid() -> u32 {
    // SAFETY: no preconditions.
    unsafe { c::huvm_current_tgid() }
}

/// Name of the caller's process, padded with NUL.
pub(crate) fn comm() -> [u8; 32] {
    let mut name = [0u8; 32];
    // SAFETY: the buffer has the given length.
    unsafe { c::huvm_current_comm(name.as_mut_ptr().cast(), name.len()) };
    name
}

/// User id of the caller, in the initial namespace.
pub(crate) fn uid() -> u32 {
    // SAFETY: no preconditions.
    unsafe { c::huvm_current_uid() }
}

/// As [`is_admin`], for what is given to administrators and refused to nobody else but for a bound.
pub(crate) fn may_have_more() -> bool {
    // SAFETY: no preconditions.
    unsafe { c::huvm_is_admin() }
}

/// Whether the caller has CAP_SYS_ADMIN.
pub(crate) fn is_admin() -> bool {
    // SAFETY: no preconditions.
    unsafe { c::huvm_capable_admin() }
}

/// Lets others have this CPU, should the kernel not take it away by itself. For walks that a client makes long.
pub(crate) fn give_way() {
    // SAFETY: process context, as every caller of this room.
    unsafe { c::huvm_cond_resched() };
}

/// Whether the caller is being killed.
pub(crate) fn fatal_signal_pending() -> bool {
    // SAFETY: no preconditions.
    unsafe { c::huvm_fatal_signal_pending() }
}

/// Whether the caller has any signal to take.
pub(crate) fn signal_pending() -> bool {
    // SAFETY: no preconditions.
    unsafe { c::huvm_signal_pending() }
}
