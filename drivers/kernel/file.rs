// SPDX-License-Identifier: GPL-2.0
//! Character device whose open files have an address space each.
//!
//! The pages of a character device usually belong to its inode, so that taking mappings away would hit every process that
//! has it open. Here each open file gets an `address_space` of its own: `f_mapping` points to it from `open` to `release`.
//! The kernel reaches it through the file or a VMA of the file alone, and each VMA holds the file, so at `release` none is
//! left. It has no pages and no operations; its host is the device's inode, which the file holds.

use super::ffi::c;
use super::memcg::CHARGED_IN_OPEN;
use super::sysfs::Handle;
use super::vma::NewVma;
use super::wait::WaitQueue;
use core::ffi::c_void;
use core::marker::PhantomData;
use kernel::error::{from_result, to_result};
use kernel::prelude::*;
use kernel::seq_file::SeqFile;
use kernel::sync::Arc;
use kernel::types::Opaque;

#[pin_data]
struct Pages {
    #[pin]
    raw: Opaque<c::address_space>,
}

// SAFETY: an address space has its own locks and may be used from any thread.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

/// The address space of one open file: finds and removes CPU mappings by virtual address.
#[derive(Clone)]
pub(crate) struct Mapping(Arc<Pages>);

impl Mapping {
    fn new(host: *mut c::inode) -> Result<Mapping> {
        Ok(Mapping(Arc::pin_init(
            pin_init!(Pages {
                raw <- Opaque::ffi_init(|slot| {
                    // SAFETY: `slot` is valid memory for an address space; the file that is being opened holds `host`.
                    unsafe { c::huvm_mapping_init(slot, host) }
                }),
            }),
            CHARGED_IN_OPEN,
        )?))
    }

    /// Takes away every CPU mapping of `len` bytes from `va` on, and flushes TLBs. May sleep; takes the mapping's
    /// `i_mmap_rwsem`.
    pub(crate) fn zap(&self, va: u64, len: u64) {
        if len == 0 || va.checked_add(len).is_none_or(|e| e > i64::MAX as u64) {
            return;
        }
        // SAFETY: initialised and pinned; the range does not overflow. File offset equals address (see `vma`).
        unsafe { c::unmap_mapping_range(self.0.raw.get(), va as i64, len as i64, 1) }
    }
}

/// An open file of the device.
pub(crate) trait FileHandler: Send + Sync + Sized + 'static {
    /// Opens. `mapping` is the file's own.
    ///
    /// # Errors
    /// What open(2) shall say.
    fn open(mapping: Mapping) -> Result<Arc<Self>>;
    /// The last descriptor and the last VMA are gone.
    fn release(this: Arc<Self>);
    /// mmap(2): checks, and [`NewVma::install`].
    ///
    /// # Errors
    /// What mmap(2) shall say.
    fn mmap(this: &Arc<Self>, vma: &mut NewVma<'_>) -> Result;
    /// ioctl(2), also from 32-bit processes.
    ///
    /// # Errors
    /// What ioctl(2) shall say.
    fn ioctl(this: &Arc<Self>, cmd: u32, arg: usize) -> Result<isize>;
    /// read(2). Returns the bytes written to `len` bytes of user space from `to` on (`user::write_slice`).
    ///
    /// # Errors
    /// What read(2) shall say; `EAGAIN` when it would wait and `nonblock`.
    fn read(this: &Arc<Self>, to: u64, len: usize, nonblock: bool) -> Result<usize>;
    /// Woken when [`Self::ready`] may have changed.
    fn wait_queue(&self) -> &WaitQueue;
    /// What poll(2) shall say now, `POLL*` bits.
    fn ready(&self) -> u32;
    /// More lines for `/proc/pid/fdinfo/n`.
    fn show_fdinfo(this: &Arc<Self>, m: &SeqFile);
}

/// Private data of an open file.
struct Open<H> {
    handler: Arc<H>,
    mapping: Mapping,
}

struct Fops<H>(PhantomData<H>);

impl<H: FileHandler> Fops<H> {
    const TABLE: c::file_operations = c::file_operations {
        owner: kernel::module::this_module::<crate::LocalModule>().as_ptr(),
        open: Some(Self::open),
        release: Some(Self::release),
        mmap: Some(Self::mmap),
        unlocked_ioctl: Some(Self::ioctl),
        compat_ioctl: c::compat_ptr_ioctl,
        read: Some(Self::read),
        poll: Some(Self::poll),
        show_fdinfo: Some(Self::show_fdinfo),
        #[cfg(CONFIG_TRANSPARENT_HUGEPAGE)]
        get_unmapped_area: Some(c::thp_get_unmapped_area),
        ..pin_init::zeroed()
    };

    const fn table() -> &'static c::file_operations {
        &Self::TABLE
    }

    /// # Safety
    /// `file` was opened by [`Self::open`] and not released yet.
    unsafe fn data<'a>(file: *mut c::file) -> &'a Open<H> {
        // SAFETY: by the contract above, and `private_data` does not change in between.
        unsafe { &*(*file).private_data.cast::<Open<H>>() }
    }

    /// # Safety
    /// For the kernel to call, as `file_operations` says.
    unsafe extern "C" fn open(inode: *mut c::inode, file: *mut c::file) -> kernel::ffi::c_int {
        from_result(|| {
            let mapping = Mapping::new(inode)?;
            // Before the handler, who may be known to others from then on.
            let room = KBox::<Open<H>>::new_uninit(CHARGED_IN_OPEN)?;
            let data = room.write(Open {
                handler: H::open(mapping.clone())?,
                mapping,
            });
            // SAFETY: the file is being opened, so nobody else uses it; its private data is the opener's to set.
            unsafe {
                (*file).f_mapping = data.mapping.0.raw.get();
                (*file).private_data = KBox::into_raw(data).cast::<c_void>();
            }
            Ok(0)
        })
    }

    /// # Safety
    /// For the kernel to call, as `file_operations` says.
    unsafe extern "C" fn release(inode: *mut c::inode, file: *mut c::file) -> kernel::ffi::c_int {
        // SAFETY: the last call for a file that `open` opened.
        let data = unsafe { KBox::from_raw((*file).private_data.cast::<Open<H>>()) };
        // SAFETY: nobody else uses the file; from here on nobody finds our mapping.
        unsafe {
            (*file).private_data = core::ptr::null_mut();
            (*file).f_mapping = (*inode).i_mapping;
        }
        let Open { handler, mapping } = KBox::into_inner(data);
        // SAFETY: initialised and pinned.
        if unsafe { c::huvm_mapping_mapped(mapping.0.raw.get()) } {
            pr_err!("BUG: a released file is still mapped\n");
        }
        // SAFETY: the inode may go now; nobody looks at the host of a mapping without VMAs.
        unsafe { (*mapping.0.raw.get()).host = core::ptr::null_mut() };
        H::release(handler);
        0
    }

    /// # Safety
    /// For the kernel to call, as `file_operations` says.
    unsafe extern "C" fn mmap(
        file: *mut c::file,
        vma: *mut c::vm_area_struct,
    ) -> kernel::ffi::c_int {
        // SAFETY: an open file of ours.
        let data = unsafe { Self::data(file) };
        // SAFETY: passed to us by mmap.
        let mut new = unsafe { NewVma::from_raw(vma) };
        from_result(|| {
            H::mmap(&data.handler, &mut new)?;
            // Without operations the VMA would become anonymous memory. Nothing was installed, so nothing is left behind.
            if !new.is_installed() {
                return Err(EINVAL);
            }
            Ok(0)
        })
    }

    /// # Safety
    /// For the kernel to call, as `file_operations` says.
    unsafe extern "C" fn ioctl(
        file: *mut c::file,
        cmd: kernel::ffi::c_uint,
        arg: kernel::ffi::c_ulong,
    ) -> kernel::ffi::c_long {
        // SAFETY: an open file of ours.
        let data = unsafe { Self::data(file) };
        match H::ioctl(&data.handler, cmd, arg) {
            Ok(n) => n as kernel::ffi::c_long,
            Err(e) => e.to_errno() as kernel::ffi::c_long,
        }
    }

    /// # Safety
    /// For the kernel to call, as `file_operations` says.
    unsafe extern "C" fn read(
        file: *mut c::file,
        buf: *mut kernel::ffi::c_char,
        len: usize,
        _pos: *mut c::loff_t,
    ) -> isize {
        // SAFETY: an open file of ours.
        let (data, flags) = unsafe { (Self::data(file), (*file).f_flags) };
        let to = buf.addr() as u64;
        match H::read(&data.handler, to, len, flags & c::O_NONBLOCK != 0) {
            // CAST: at most `len`, which is at most isize::MAX.
            Ok(n) => n as isize,
            Err(e) => e.to_errno() as isize,
        }
    }

    /// # Safety
    /// For the kernel to call, as `file_operations` says.
    unsafe extern "C" fn poll(file: *mut c::file, pt: *mut c::poll_table_struct) -> c::__poll_t {
        // SAFETY: an open file of ours.
        let data = unsafe { Self::data(file) };
        // SAFETY: valid file and table. The queue is borrowed from the handler, which lives until `release`, and pollers
        // leave before that.
        unsafe { c::huvm_poll_wait(file, data.handler.wait_queue().raw(), pt) };
        data.handler.ready()
    }

    /// # Safety
    /// For the kernel to call, as `file_operations` says.
    unsafe extern "C" fn show_fdinfo(m: *mut c::seq_file, file: *mut c::file) {
        // SAFETY: an open file of ours, and a seq file valid during the call.
        let (data, m) = unsafe { (Self::data(file), SeqFile::from_raw(m)) };
        H::show_fdinfo(&data.handler, m);
    }
}

/// The device node, until dropped. Files keep the module, so none is open then.
#[pin_data(PinnedDrop)]
pub(crate) struct MiscDevice<H: FileHandler> {
    #[pin]
    misc: Opaque<c::miscdevice>,
    _handler: PhantomData<H>,
}

// SAFETY: registering and deregistering may be done from any thread.
unsafe impl<H: FileHandler> Send for MiscDevice<H> {}
// SAFETY: no method takes `&self`.
unsafe impl<H: FileHandler> Sync for MiscDevice<H> {}

impl<H: FileHandler> MiscDevice<H> {
    /// Makes `/dev/<name>`, for everybody to open, with a folder of files in `/sys/class/misc/<name>`.
    pub(crate) fn register(name: &'static CStr, folder: Handle) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            misc <- Opaque::try_ffi_init(move |slot: *mut c::miscdevice| {
                let mut misc: c::miscdevice = pin_init::zeroed();
                misc.minor = c::MISC_DYNAMIC_MINOR as kernel::ffi::c_int;
                misc.name = name.as_char_ptr();
                misc.fops = Fops::<H>::table();
                misc.mode = 0o666;
                misc.groups = folder.list();
                // SAFETY: `slot` is valid for writing.
                unsafe { slot.write(misc) };
                // SAFETY: initialised, and pinned until `drop` takes it back.
                to_result(unsafe { c::misc_register(slot) })
            }),
            _handler: PhantomData,
        })
    }
}

#[pinned_drop]
impl<H: FileHandler> PinnedDrop for MiscDevice<H> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: registered by `register`.
        unsafe { c::misc_deregister(self.misc.get()) };
    }
}
