// SPDX-License-Identifier: GPL-2.0
//! Page faults of managed ranges.
//!
//! A managed VMA is `VM_PFNMAP`: its page tables hold frame numbers without references, so what they name must stay
//! until the mapping was zapped ([`super::file::Mapping::zap`]). Its file offset equals its address, so that the file's own
//! address space names each page once; a VMA for which that does not hold is one that mremap is moving, which we refuse.
//!
//! # Who may insert
//! Entries appear only through [`Inserter`], under the lock of the block that they belong to, and go only by a zap. So
//! the state of an entry cannot change under the holder of that lock but for the worse (a zap). Three traps of the C side
//! are met here:
//! - inserting where an entry is keeps the old one silently: an upgrade zaps first;
//! - inserting a 2 MiB entry over a page table, or a 4 KiB entry under a 2 MiB one, is a kernel BUG or WARN: looked at
//!   first ([`c::huvm_pmd_state`]), which the block's lock makes good for the insert that follows;
//! - private mappings are a kernel BUG: `mmap` refuses them.

use super::ffi::c;
use super::memcg;
use core::ffi::c_void;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use kernel::prelude::*;
use kernel::sync::Arc;

const PAGE: u64 = 4096;
const BLOCK: u64 = 2 << 20;
/// Order of a 2 MiB fault.
const BLOCK_ORDER: u32 = 9;

/// How a fault ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The page is mapped; the access goes on.
    Done,
    /// Not by a 2 MiB entry: try 4 KiB. From `fault` it is as `Sigbus`.
    Fallback,
    /// The access cannot be served.
    Sigbus,
    /// No memory; the process gets SIGBUS (`uapi/huvm.h`).
    Oom,
    /// Nothing was mapped; the access is made again.
    Retry,
}

impl Outcome {
    /// Whether the page is mapped now.
    pub(crate) fn is_mapped(self) -> bool {
        self == Outcome::Done
    }
}

/// Serves the faults of managed ranges. All calls are in process context and may sleep.
pub(crate) trait VmHandler: Send + Sync + Sized + 'static {
    /// The CPU touched `va` (4 KiB aligned), which has no entry, or a read-only one and `write`.
    fn fault(this: &Arc<Self>, va: u64, write: bool, ins: &mut Inserter<'_>) -> Outcome;
    /// As [`Self::fault`], for all 2 MiB at `va`, which lie inside the VMA. May run under the VMA's lock alone. It is
    /// asked first, and again, so it should be cheap until it succeeds.
    fn huge_fault(this: &Arc<Self>, va: u64, write: bool, ins: &mut Inserter<'_>) -> Outcome;
    /// `start..end` left the address space; the page tables are zapped.
    fn closed(this: &Arc<Self>, start: u64, end: u64);
    /// Debugger access (ptrace, `/proc/pid/mem`) at `va`, inside one VMA: copies `buf` there if `write`, else from there.
    /// `write` only if the VMA may be written now.
    /// Returns the bytes done, at least one.
    ///
    /// # Errors
    /// Any; the debugger sees EIO.
    fn access(this: &Arc<Self>, va: u64, buf: &mut [u8], write: bool) -> Result<usize>;
}

/// Puts entries into the page tables during a fault. Only under the lock of the block that the fault is in.
pub(crate) struct Inserter<'a> {
    vmf: *mut c::vm_fault,
    vma: *mut c::vm_area_struct,
    va: u64,
    /// There is a read-only entry at `va` that must go first.
    upgrade: bool,
    _fault: PhantomData<&'a mut c::vm_fault>,
}

impl Inserter<'_> {
    /// First address of the VMA.
    pub(crate) fn vma_start(&self) -> u64 {
        // SAFETY: the VMA of the fault, which is locked.
        unsafe { c::huvm_vma_start(self.vma) as u64 }
    }

    /// Address after the VMA.
    pub(crate) fn vma_end(&self) -> u64 {
        // SAFETY: as `vma_start`.
        unsafe { c::huvm_vma_end(self.vma) as u64 }
    }

    /// Maps the page of the fault to frame `pfn`, writable if asked and the VMA allows.
    pub(crate) fn page(&mut self, pfn: usize, writable: bool) -> Outcome {
        self.page_at(self.va, pfn, writable)
    }

    /// As [`Self::page`] for any page of the fault's block and VMA, so that neighbours can be mapped in one go. Of entries
    /// that are there already only the one at the fault's own page is raised to writable.
    pub(crate) fn page_at(&mut self, va: u64, pfn: usize, writable: bool) -> Outcome {
        let va = va & !(PAGE - 1);
        if va & !(BLOCK - 1) != self.va & !(BLOCK - 1)
            || va < self.vma_start()
            || va >= self.vma_end()
        {
            return Outcome::Sigbus;
        }
        // SAFETY: a fault under way; `pmd` of it is set, and is the one of the block.
        match unsafe { c::huvm_pmd_state(self.vmf, pfn) } {
            c::HUVM_PMD_NONE | c::HUVM_PMD_TABLE => {}
            // Another thread mapped the whole block meanwhile. The access finds it, or faults for writing.
            _ => return Outcome::Retry,
        }
        if self.upgrade && va == self.va {
            // SAFETY: a locked VMA of ours (PFNMAP), and a page inside it.
            unsafe { c::zap_special_vma_range(self.vma, va as usize, PAGE as usize) };
            self.upgrade = false;
        }
        // A page table that is missing is charged. SAFETY: a locked VMA that is shared and PFNMAP (see `NewVma::install`), a
        // page inside it, not under a 2 MiB entry (looked at above, under the block's lock).
        let insert = || unsafe { c::huvm_insert_pfn(self.vma, va as usize, pfn, writable) };
        outcome(memcg::at_once(insert))
    }

    /// Maps the fault's block by one entry to 512 frames from `pfn` (a multiple of 512) on.
    pub(crate) fn huge(&mut self, pfn: usize, writable: bool) -> Outcome {
        if pfn & 511 != 0 || !covers_block(self.vma, self.va) {
            return Outcome::Fallback;
        }
        // SAFETY: a fault under way; `pmd` of it is set.
        match unsafe { c::huvm_pmd_state(self.vmf, pfn) } {
            c::HUVM_PMD_NONE => {}
            c::HUVM_PMD_SAME if writable => {}
            c::HUVM_PMD_SAME => return Outcome::Done,
            // A page table stays until munmap; another frame is stale and its zap under way.
            _ => return Outcome::Fallback,
        }
        // SAFETY: a locked VMA that is shared and PFNMAP and covers the block; the entry is empty or for this frame
        // (looked at above, under the block's lock).
        let insert = || unsafe { c::vmf_insert_pfn_pmd(self.vmf, pfn, writable) };
        outcome(memcg::at_once(insert))
    }
}

/// Whether the VMA covers the 2 MiB block that `va` lies in.
fn covers_block(vma: *mut c::vm_area_struct, va: u64) -> bool {
    let base = va & !(BLOCK - 1);
    // SAFETY: called in a fault, with its locked VMA.
    let (start, end) = unsafe { (c::huvm_vma_start(vma) as u64, c::huvm_vma_end(vma) as u64) };
    start <= base && base.checked_add(BLOCK).is_some_and(|e| e <= end)
}

/// What an insert returned.
fn outcome(code: c::vm_fault_t) -> Outcome {
    if code & c::vm_fault_reason_VM_FAULT_OOM != 0 {
        Outcome::Oom
    } else if code & c::vm_fault_reason_VM_FAULT_SIGBUS != 0 {
        Outcome::Sigbus
    } else {
        Outcome::Done
    }
}

/// What the fault path wants to hear. `Oom` must not be VM_FAULT_OOM: the access would be made again for ever.
fn code(o: Outcome) -> c::vm_fault_t {
    match o {
        Outcome::Done | Outcome::Retry => c::vm_fault_reason_VM_FAULT_NOPAGE,
        Outcome::Fallback => c::vm_fault_reason_VM_FAULT_FALLBACK,
        Outcome::Sigbus | Outcome::Oom => c::vm_fault_reason_VM_FAULT_SIGBUS,
    }
}

/// Whether file offset and address agree: not so for the copy that mremap makes before we refuse it.
///
/// # Safety
/// `vma` is valid and locked, or not visible to others.
unsafe fn in_place(vma: *mut c::vm_area_struct) -> bool {
    // SAFETY: by the contract above.
    unsafe { c::huvm_vma_pgoff(vma) == c::huvm_vma_start(vma) >> 12 }
}

struct Ops<H>(PhantomData<H>);

impl<H: VmHandler> Ops<H> {
    const TABLE: c::vm_operations_struct = c::vm_operations_struct {
        open: Some(Self::open),
        close: Some(Self::close),
        mremap: Some(Self::mremap),
        fault: Some(Self::fault),
        huge_fault: Some(Self::huge_fault),
        pfn_mkwrite: Some(Self::pfn_mkwrite),
        access: Some(Self::access),
        ..pin_init::zeroed()
    };

    const fn table() -> &'static c::vm_operations_struct {
        &Self::TABLE
    }

    /// # Safety
    /// `vma` has this table, so its private data is an `Arc<H>` turned into a pointer.
    unsafe fn handler(vma: *mut c::vm_area_struct) -> ManuallyDrop<Arc<H>> {
        // SAFETY: by the contract above; the count is the VMA's, and stays so since it is not dropped here.
        ManuallyDrop::new(unsafe {
            Arc::from_raw(c::huvm_vma_private(vma).cast::<H>().cast_const())
        })
    }

    /// # Safety
    /// For the kernel to call, as `vm_operations_struct` says.
    unsafe extern "C" fn open(vma: *mut c::vm_area_struct) {
        // SAFETY: called for a VMA with this table; the copy has its original's private data.
        let h = unsafe { Self::handler(vma) };
        // The new VMA has a count of its own.
        let _ = Arc::into_raw(Arc::clone(&h));
    }

    /// # Safety
    /// For the kernel to call, as `vm_operations_struct` says.
    unsafe extern "C" fn close(vma: *mut c::vm_area_struct) {
        // SAFETY: called once for a VMA with this table; takes over the VMA's count.
        let h = unsafe { Arc::from_raw(c::huvm_vma_private(vma).cast::<H>().cast_const()) };
        // SAFETY: the VMA is valid, and no longer reachable by others.
        unsafe {
            if in_place(vma) {
                H::closed(
                    &h,
                    c::huvm_vma_start(vma) as u64,
                    c::huvm_vma_end(vma) as u64,
                );
            }
        }
    }

    /// # Safety
    /// For the kernel to call, as `vm_operations_struct` says.
    unsafe extern "C" fn mremap(_vma: *mut c::vm_area_struct) -> kernel::ffi::c_int {
        EINVAL.to_errno()
    }

    /// # Safety
    /// `vmf` is a fault under way on a VMA with this table.
    unsafe fn serve(vmf: *mut c::vm_fault, huge: bool, upgrade: bool) -> Outcome {
        // SAFETY: by the contract above.
        let (vma, va, write) = unsafe {
            (
                c::huvm_vmf_vma(vmf),
                c::huvm_vmf_address(vmf) as u64,
                c::huvm_vmf_write(vmf) || upgrade,
            )
        };
        // SAFETY: the fault's VMA is locked.
        if !unsafe { in_place(vma) } {
            return Outcome::Sigbus;
        }
        // SAFETY: a VMA with this table.
        let h = unsafe { Self::handler(vma) };
        let va = va & !(PAGE - 1);
        let mut ins = Inserter {
            vmf,
            vma,
            va,
            upgrade,
            _fault: PhantomData,
        };
        if !huge {
            return match H::fault(&h, va, write, &mut ins) {
                Outcome::Fallback => Outcome::Sigbus,
                o => o,
            };
        }
        if !covers_block(vma, va) {
            return Outcome::Fallback;
        }
        H::huge_fault(&h, va & !(BLOCK - 1), write, &mut ins)
    }

    /// # Safety
    /// For the kernel to call, as `vm_operations_struct` says.
    unsafe extern "C" fn fault(vmf: *mut c::vm_fault) -> c::vm_fault_t {
        // SAFETY: called by the fault path.
        code(unsafe { Self::serve(vmf, false, false) })
    }

    /// # Safety
    /// For the kernel to call, as `vm_operations_struct` says.
    unsafe extern "C" fn huge_fault(
        vmf: *mut c::vm_fault,
        order: kernel::ffi::c_uint,
    ) -> c::vm_fault_t {
        if order != BLOCK_ORDER {
            return c::vm_fault_reason_VM_FAULT_FALLBACK;
        }
        // SAFETY: called by the fault path, with `pmd` set as the order says.
        code(unsafe { Self::serve(vmf, true, false) })
    }

    /// # Safety
    /// For the kernel to call, as `vm_operations_struct` says.
    unsafe extern "C" fn pfn_mkwrite(vmf: *mut c::vm_fault) -> c::vm_fault_t {
        // SAFETY: called by the fault path for a write to a read-only entry, whose lock is dropped. NOPAGE (never 0) is
        // returned, so that the C side does not make the old entry writable behind the handler's back.
        code(unsafe { Self::serve(vmf, false, true) })
    }

    /// # Safety
    /// For the kernel to call, as `vm_operations_struct` says.
    unsafe extern "C" fn access(
        vma: *mut c::vm_area_struct,
        addr: kernel::ffi::c_ulong,
        buf: *mut c_void,
        len: kernel::ffi::c_int,
        write: kernel::ffi::c_int,
    ) -> kernel::ffi::c_int {
        let va = addr as u64;
        // SAFETY: called with a VMA of this table, its mmap_lock held.
        let (h, end, ok, kind) = unsafe {
            (
                Self::handler(vma),
                c::huvm_vma_end(vma) as u64,
                in_place(vma),
                c::huvm_vma_kind(vma),
            )
        };
        // The caller has not looked: such a mapping has no pages that it could ask about.
        if write != 0 && kind & 2 == 0 {
            return EIO.to_errno();
        }
        let inside = end.saturating_sub(va).min(u64::from(len.unsigned_abs()));
        if len <= 0 || !ok || inside == 0 {
            return EIO.to_errno();
        }
        // CAST: at most `len`.
        let n = inside as usize;
        // SAFETY: the caller's kernel buffer of `len` bytes, which nobody else uses meanwhile.
        let buf = unsafe { core::slice::from_raw_parts_mut(buf.cast::<u8>(), n) };
        let did = H::access(&h, va, buf, write != 0);
        match did {
            // CAST: at most `len`.
            Ok(done) => done.min(n) as kernel::ffi::c_int,
            Err(e) => e.to_errno(),
        }
    }
}

/// A VMA that mmap is making; nobody else sees it yet.
pub(crate) struct NewVma<'a> {
    vma: *mut c::vm_area_struct,
    installed: bool,
    _mmap: PhantomData<&'a mut c::vm_area_struct>,
}

impl NewVma<'_> {
    /// # Safety
    /// `vma` is being made, and passed to an `mmap` file operation.
    pub(super) unsafe fn from_raw<'a>(vma: *mut c::vm_area_struct) -> NewVma<'a> {
        NewVma {
            vma,
            installed: false,
            _mmap: PhantomData,
        }
    }

    /// First address.
    pub(crate) fn start(&self) -> u64 {
        // SAFETY: valid during the call of mmap, as for the methods below.
        unsafe { c::huvm_vma_start(self.vma) as u64 }
    }

    /// Address after the last.
    pub(crate) fn end(&self) -> u64 {
        // SAFETY: as `start`.
        unsafe { c::huvm_vma_end(self.vma) as u64 }
    }

    /// Whether the mapping may be written now.
    pub(crate) fn is_writable(&self) -> bool {
        // SAFETY: as `start`.
        unsafe { c::huvm_vma_kind(self.vma) & 2 != 0 }
    }

    /// Whether the mapping is one that can be installed.
    ///
    /// # Errors
    /// `EINVAL` for a private or executable mapping, an offset other than 0, or one that is installed.
    pub(crate) fn check(&mut self) -> Result<FitVma<'_>> {
        // SAFETY: as `start`.
        let (kind, pgoff) = unsafe { (c::huvm_vma_kind(self.vma), c::huvm_vma_pgoff(self.vma)) };
        if kind & 1 == 0 || kind & 4 != 0 || pgoff != 0 || self.installed {
            return Err(EINVAL);
        }
        Ok(FitVma {
            vma: self.vma,
            installed: &mut self.installed,
        })
    }

    pub(super) fn is_installed(&self) -> bool {
        self.installed
    }
}

/// A VMA that mmap is making, and that can be installed.
pub(crate) struct FitVma<'a> {
    vma: *mut c::vm_area_struct,
    installed: &'a mut bool,
}

impl FitVma<'_> {
    /// Gives the VMA's faults to `handler`, which it keeps alive. The mapping is not inherited, grown, moved or dumped. The last
    /// step of an mmap: should that fail behind it, the kernel forgets the VMA without `close`, and the count stays.
    pub(crate) fn install<H: VmHandler>(self, handler: Arc<H>) {
        *self.installed = true;
        let private = Arc::into_raw(handler).cast_mut().cast::<c_void>();
        // SAFETY: nobody else sees the VMA, which is being made as long as the `NewVma` that this was made from is borrowed; it is
        // shared, so PFNMAP is allowed; the table is static and for `H`, as is the pointer. `close` takes the count back.
        unsafe { c::huvm_vma_adopt(self.vma, Ops::<H>::table(), private) };
    }
}
