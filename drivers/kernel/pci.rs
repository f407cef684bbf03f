// SPDX-License-Identifier: GPL-2.0
//! Enabling and claiming a PCI function.

use super::ffi::c;
use kernel::device::Core;
use kernel::error::to_result;
use kernel::pci;
use kernel::prelude::*;
use kernel::sync::aref::ARef;

/// The C side of a device. `pci::Device` is a transparent wrapper of it, but keeps the way there private.
pub(super) fn raw(pdev: &pci::Device) -> *mut c::pci_dev {
    core::ptr::from_ref(pdev).cast::<c::pci_dev>().cast_mut()
}

/// Whether the kernel reaches the extended configuration space of the device (PCI Express with MMCONFIG).
pub(crate) fn has_extended_config(pdev: &pci::Device) -> bool {
    // SAFETY: a valid device; the field is set before a driver sees it.
    unsafe { (*raw(pdev)).cfg_size >= 4096 }
}

/// Reads the word at `at` of configuration space; all ones when that is not there.
pub(crate) fn config32(pdev: &pci::Device, at: u16) -> u32 {
    let mut word = !0;
    // SAFETY: a valid device, and a place for the word. An offset that is not there is an error, and leaves all ones.
    let _ones_then = unsafe { c::pci_read_config_dword(raw(pdev), at.into(), &mut word) };
    word
}

/// Memory decoding and bus mastering are on and the BARs are ours, until dropped.
///
/// Drop it before the driver is unbound, and after everything that reaches the device or lets it reach memory.
pub(crate) struct Function {
    pdev: ARef<pci::Device>,
}

impl Function {
    /// Enables the device and claims its BARs. Bus mastering is still off.
    ///
    /// # Errors
    /// `EBUSY` if somebody else has a BAR; what the PCI core says otherwise.
    pub(crate) fn enable(pdev: &pci::Device<Core<'_>>) -> Result<Function> {
        pdev.enable_device_mem()?;
        let pdev: ARef<pci::Device> = (&***pdev).into();
        let p = raw(&pdev);
        // SAFETY: `p` is a device that is being probed; the name is static.
        let claimed = to_result(unsafe { c::pci_request_regions(p, c"huvm".as_char_ptr()) });
        if let Err(e) = claimed {
            // SAFETY: balances `enable_device_mem`.
            unsafe { c::pci_disable_device(p) };
            return Err(e);
        }
        Ok(Function { pdev })
    }

    /// Lets the device read and write memory and send messages.
    pub(crate) fn set_master(&self) {
        // SAFETY: valid device, enabled by us.
        unsafe { c::pci_set_master(raw(&self.pdev)) }
    }

    /// The device can no longer read or write memory, nor send messages.
    pub(crate) fn clear_master(&self) {
        // SAFETY: valid device, enabled by us.
        unsafe { c::pci_clear_master(raw(&self.pdev)) }
    }

    /// The device.
    pub(crate) fn device(&self) -> &ARef<pci::Device> {
        &self.pdev
    }

    /// "0000:00:02.0".
    pub(crate) fn name(&self) -> &CStr {
        // SAFETY: the name of a registered device lives as long as the device, which we hold.
        unsafe { CStr::from_char_ptr(c::huvm_pci_name(raw(&self.pdev))) }
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        let p = raw(&self.pdev);
        // SAFETY: undoes `enable` and `set_master` (clearing what is clear does nothing).
        unsafe {
            c::pci_clear_master(p);
            c::pci_release_regions(p);
            c::pci_disable_device(p);
        }
    }
}
