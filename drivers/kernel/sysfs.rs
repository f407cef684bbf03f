// SPDX-License-Identifier: GPL-2.0
//! Folders of sysfs whose files are the rows of a table.
//!
//! A [`Folder`] is a static: its files, their names and the lists that the kernel walks live as long as the module, so
//! that no file can outlast what it refers to. Removing a folder waits for who reads or writes one of its files; after
//! that nobody comes in.

use super::ffi::c;
use core::ffi::c_void;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::str::Formatter;
use kernel::types::Opaque;

/// Room for a file's name, its NUL included.
const NAME_LEN: usize = 32;

/// What the files of a folder do. `device`: the name of the device that the folder is of.
pub(crate) trait Rows: 'static {
    /// Says what is in the file of this row.
    ///
    /// # Errors
    /// What read(2) shall say.
    fn show(device: &str, row: usize, to: &mut Formatter<'_>) -> Result;
    /// Takes what was written to the file of this row: all of it, the newline included.
    ///
    /// # Errors
    /// What write(2) shall say.
    fn store(device: &str, row: usize, text: &str) -> Result;
}

/// A file. The kernel hands out pointers to its first field.
#[repr(C)]
struct File {
    attr: c::device_attribute,
    row: usize,
}

/// A folder of `N` files, each readable by all and writable by root.
///
/// # Invariants
/// All pointers are into the same static, or to `'static` data. `list` is followed by a null pointer.
#[repr(C)]
pub(crate) struct Folder<const N: usize> {
    list: [*mut c::attribute; N],
    end_of_list: *mut c::attribute,
    groups: [*const c::attribute_group; 2],
    group: c::attribute_group,
    files: [File; N],
    names: [[u8; NAME_LEN]; N],
}

// SAFETY: nothing in it changes.
unsafe impl<const N: usize> Sync for Folder<N> {}

impl<const N: usize> Folder<N> {
    /// For a `static`, which `this` must be: `static F: Folder<2> = Folder::new::<H>(&F, c"x", ["a", "b"]);`.
    ///
    /// Names are unique and shorter than [`NAME_LEN`]; that is checked when it is compiled.
    pub(crate) const fn new<H: Rows>(
        this: &'static Folder<N>,
        name: &'static CStr,
        rows: [&'static str; N],
    ) -> Self {
        let mut group: c::attribute_group = pin_init::zeroed();
        group.name = name.as_ptr().cast();
        group.__bindgen_anon_2.attrs = core::ptr::addr_of!(this.list)
            .cast::<*mut c::attribute>()
            .cast_mut();
        let mut folder = Folder {
            list: [core::ptr::null_mut(); N],
            end_of_list: core::ptr::null_mut(),
            groups: [core::ptr::addr_of!(this.group), core::ptr::null()],
            group,
            files: [const {
                File {
                    attr: pin_init::zeroed(),
                    row: 0,
                }
            }; N],
            names: [[0; NAME_LEN]; N],
        };
        let mut i = 0;
        while i < N {
            let text = rows[i].as_bytes();
            assert!(text.len() < NAME_LEN, "the name of a file is too long");
            let mut k = 0;
            while k < text.len() {
                folder.names[i][k] = text[k];
                k += 1;
            }
            let attr = &mut folder.files[i].attr;
            attr.attr.name = core::ptr::addr_of!(this.names[i]).cast();
            attr.attr.mode = 0o644;
            // Only its address counts. One class for the files of a folder: nothing is locked from one to another.
            #[cfg(CONFIG_DEBUG_LOCK_ALLOC)]
            {
                attr.attr.key = core::ptr::addr_of!(this.files[0].attr.attr.skey).cast_mut();
            }
            attr.__bindgen_anon_1.show = Some(show::<H>);
            attr.__bindgen_anon_2.store = Some(store::<H>);
            folder.files[i].row = i;
            folder.list[i] = core::ptr::addr_of!(this.files[i].attr.attr).cast_mut();
            i += 1;
        }
        folder
    }

    /// The folder, whatever the number of its files.
    pub(crate) const fn handle(&'static self) -> Handle {
        Handle(&self.groups)
    }
}

/// A [`Folder`], for who puts it somewhere.
#[derive(Clone, Copy)]
pub(crate) struct Handle(&'static [*const c::attribute_group; 2]);

// SAFETY: nothing behind it changes.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    /// As a null-terminated list of one group, for structs that take such a list.
    pub(super) fn list(self) -> *mut *const c::attribute_group {
        self.0.as_ptr().cast_mut()
    }

    fn group(self) -> *const c::attribute_group {
        let [group, _end] = *self.0;
        group
    }
}

/// # Safety
/// `dev` is a device that stays registered during the call.
unsafe fn name<'a>(dev: *mut c::device) -> Result<&'a str> {
    // SAFETY: the name of a registered device is a C string and does not change.
    let name = unsafe { CStr::from_char_ptr(c::huvm_dev_name(dev)) };
    name.to_str().map_err(|_| EINVAL)
}

/// # Safety
/// For the kernel to call with a file of a [`Folder`], as `device_attribute` says.
unsafe extern "C" fn show<H: Rows>(
    dev: *mut c::device,
    attr: *mut c::device_attribute,
    buf: *mut kernel::ffi::c_char,
) -> isize {
    // SAFETY: the attribute is the first field of a `File`.
    let row = unsafe { (*attr.cast::<File>()).row };
    // SAFETY: the kernel gives a zeroed page, ours during the call.
    let page =
        unsafe { core::slice::from_raw_parts_mut(buf.cast::<u8>(), kernel::page::PAGE_SIZE) };
    let mut to = Formatter::new(page);
    // SAFETY: a device has to be registered for its files to be there, and removing them waits for us.
    match unsafe { name(dev) }.and_then(|n| H::show(n, row, &mut to)) {
        // CAST: at most a page.
        Ok(()) => to.bytes_written().min(kernel::page::PAGE_SIZE) as isize,
        Err(e) => e.to_errno() as isize,
    }
}

/// # Safety
/// For the kernel to call with a file of a [`Folder`], as `device_attribute` says.
unsafe extern "C" fn store<H: Rows>(
    dev: *mut c::device,
    attr: *mut c::device_attribute,
    buf: *const kernel::ffi::c_char,
    len: usize,
) -> isize {
    // SAFETY: the attribute is the first field of a `File`.
    let row = unsafe { (*attr.cast::<File>()).row };
    // SAFETY: the kernel gives `len` bytes, at most a page, and keeps them during the call.
    let text = unsafe { core::slice::from_raw_parts(buf.cast::<u8>(), len) };
    let text = core::str::from_utf8(text).map_err(|_| EINVAL);
    // SAFETY: as in `show`.
    let did = unsafe { name(dev) }.and_then(|n| H::store(n, row, text?));
    match did {
        // CAST: at most a page.
        Ok(()) => len as isize,
        Err(e) => e.to_errno() as isize,
    }
}

/// A folder for every PCI device that a driver of this module is bound to, until dropped.
///
/// The kernel calls us at the end of binding and at the beginning of unbinding, so that the folder comes when the device
/// is ready and goes before the driver's `remove` is called. (The list of groups in `struct device_driver` would do the same, but
/// Rust's PCI registration does not let us at it.)
///
/// Make it before the driver is registered and drop it after.
#[pin_data(PinnedDrop)]
pub(crate) struct OnPciDevices {
    #[pin]
    watch: Opaque<Watch>,
}

/// # Invariants
/// `block` is the first field: the kernel hands out a pointer to it.
#[repr(C)]
struct Watch {
    block: c::notifier_block,
    folder: Handle,
}

// SAFETY: registering and taking back may be done from any thread.
unsafe impl Send for OnPciDevices {}
// SAFETY: no method takes `&self`; the kernel only reads what is in it, under its own lock.
unsafe impl Sync for OnPciDevices {}

impl OnPciDevices {
    /// From here on, devices that are bound get the folder.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn register(folder: Handle) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            watch <- Opaque::try_ffi_init(move |slot: *mut Watch| {
                let mut block: c::notifier_block = pin_init::zeroed();
                block.notifier_call = Some(changed);
                // SAFETY: `slot` is valid for writing.
                unsafe { slot.write(Watch { block, folder }) };
                // SAFETY: a static bus; the block is initialised, and pinned until `drop` takes it back.
                to_result(unsafe {
                    c::bus_register_notifier(&raw const c::pci_bus_type, slot.cast())
                })
            }),
        })
    }
}

#[pinned_drop]
impl PinnedDrop for OnPciDevices {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: registered by `register`. Waits for who is in the callback.
        let _was_there = unsafe {
            c::bus_unregister_notifier(&raw const c::pci_bus_type, self.watch.get().cast())
        };
    }
}

/// # Safety
/// For the kernel to call with the block of a [`Watch`], as `bus_register_notifier` says.
unsafe extern "C" fn changed(
    block: *mut c::notifier_block,
    event: kernel::ffi::c_ulong,
    dev: *mut c_void,
) -> kernel::ffi::c_int {
    // SAFETY: the block is the first field of a `Watch`, which stays while it is registered.
    let group = unsafe { (*block.cast::<Watch>()).folder }.group();
    let dev = dev.cast::<c::device>();
    let event = c::bus_notifier_event::try_from(event).unwrap_or(c::bus_notifier_event::MAX);
    let bound = event == c::bus_notifier_event_BUS_NOTIFY_BOUND_DRIVER;
    let leaves = event == c::bus_notifier_event_BUS_NOTIFY_UNBIND_DRIVER;
    // SAFETY: in both events the device is locked and has a driver.
    if (bound || leaves) && unsafe { (*(*dev).driver).owner } == this_module() {
        // SAFETY: the device is registered, the group static.
        let did = to_result(unsafe { c::huvm_sysfs_folder(dev, group, bound) });
        if did.is_err() {
            pr_warn!("a device has no folder in sysfs: {:?}\n", did);
        }
    }
    // CAST: NOTIFY_DONE, 0.
    c::NOTIFY_DONE as kernel::ffi::c_int
}

fn this_module() -> *mut c::module {
    kernel::module::this_module::<crate::LocalModule>().as_ptr()
}
