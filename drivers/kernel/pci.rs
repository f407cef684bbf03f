// SPDX-License-Identifier: GPL-2.0
//! Enabling and claiming a PCI function.

use super::ffi::c;
use super::time;
use core::marker::PhantomData;
use huvm_hal::seam::poll;
use kernel::device::Core;
use kernel::error::{from_result, to_result};
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

/// Whether a BAR is one of memory, which can be mapped, and not of I/O ports.
pub(super) fn is_memory(pdev: &pci::Device, bar: u32) -> bool {
    // SAFETY: a valid device; which BARs there are is looked at there.
    unsafe { c::huvm_pci_bar_is_memory(raw(pdev), bar) }
}

/// What a bound driver is asked when the machine ends or sleeps, or somebody resets the device.
pub(crate) trait AtEnd {
    /// The machine ends (reboot, halt, power off, kexec): when this returns, the device must do nothing any more by
    /// itself. It stays bound. May sleep; the device is locked. Bounded.
    fn shut_down(pdev: &pci::Device);
    /// Whether the machine may sleep (suspend, hibernate) with the device bound. May sleep.
    ///
    /// # Errors
    /// Why not.
    fn prepare_sleep(pdev: &pci::Device) -> Result;
    /// The device is about to be reset under the driver (by sysfs, or by its bus). May sleep; the device is locked.
    fn prepare_reset(pdev: &pci::Device);
}

struct Callbacks<T>(PhantomData<T>);

impl<T: AtEnd> Callbacks<T> {
    const PM: c::dev_pm_ops = c::dev_pm_ops {
        prepare: Some(Self::prepare),
        ..pin_init::zeroed()
    };
    const ERRORS: c::pci_error_handlers = c::pci_error_handlers {
        reset_prepare: Some(Self::prepare_reset),
        ..pin_init::zeroed()
    };

    const fn errors() -> &'static c::pci_error_handlers {
        &Self::ERRORS
    }

    const fn pm() -> &'static c::dev_pm_ops {
        &Self::PM
    }

    /// # Safety
    /// For the PCI core to call with a device that is bound to the driver.
    unsafe extern "C" fn shutdown(p: *mut c::pci_dev) {
        // SAFETY: a valid device; `pci::Device` is a transparent wrapper.
        T::shut_down(unsafe { &*p.cast::<pci::Device>() });
    }

    /// # Safety
    /// For the PCI core to call with a device that is bound to the driver, or on its way from it.
    unsafe extern "C" fn prepare_reset(p: *mut c::pci_dev) {
        // SAFETY: as in `shutdown`.
        T::prepare_reset(unsafe { &*p.cast::<pci::Device>() });
    }

    /// # Safety
    /// For the PM core to call with a device that is bound to the driver.
    unsafe extern "C" fn prepare(dev: *mut c::device) -> kernel::ffi::c_int {
        // SAFETY: the device is part of a PCI device, since a PCI driver is bound to it.
        let p = unsafe { kernel::container_of!(dev, c::pci_dev, dev) };
        from_result(|| {
            // SAFETY: as in `shutdown`.
            T::prepare_sleep(unsafe { &*p.cast::<pci::Device>() })?;
            Ok(0)
        })
    }
}

/// Adds what `pci::Adapter` of Linux 7.3 has no way to say to the driver that is probing the device. Each probe does it,
/// with the same values.
pub(crate) fn add_callbacks<T: AtEnd>(pdev: &pci::Device<Core<'_>>) {
    let p = raw(pdev);
    // SAFETY: the PCI core sets `driver` before it calls probe: it is ours, made by `pci::Adapter` in our module, and lives
    // until the module unregisters it. Nobody else writes these fields; who reads one at the same time sees the old value,
    // none, or the new one, which holds as long as the module is there.
    unsafe {
        let driver = (*p).driver;
        (&raw mut (*driver).shutdown).write_volatile(Some(Callbacks::<T>::shutdown));
        (&raw mut (*driver).err_handler).write_volatile(Callbacks::<T>::errors());
        (&raw mut (*driver).driver.pm).write_volatile(Callbacks::<T>::pm());
    }
}

/// A device that does not answer for so long does so no more.
pub(crate) const OUTAGE_NS: u64 = 100_000_000;

/// Offset of the word with the command in configuration space, and its bit for bus mastering.
const COMMAND: u16 = 4;
const COMMAND_MASTER: u32 = 1 << 2;

/// The device can no longer read or write memory, nor send messages. `false` if it does not say so: it may not have heard it.
///
/// For anybody at any time, without the device's lock: `pci_clear_master` notes it in a word of bit fields too, others of which
/// the PCI core changes under that lock, in a reset, say (KCSAN found two threads there that gave up one GPU).
pub(crate) fn clear_master(pdev: &pci::Device) -> bool {
    let is_off = |command| command & COMMAND_MASTER == 0;
    let command = config32(pdev, COMMAND);
    if is_off(command) {
        return true;
    }
    // CAST: the command is the lower half of the word; to the upper one, the status, nothing is written.
    let off = (command & !COMMAND_MASTER) as u16;
    // SAFETY: a valid device; one that is not there takes no write, as the next line finds.
    let _looked_at_next = unsafe { c::pci_write_config_word(raw(pdev), COMMAND.into(), off) };
    is_off(config32(pdev, COMMAND))
}

/// Calls `heard` until it says that the device answered, for [`OUTAGE_NS`]. Whether it did. May sleep.
pub(crate) fn insist(mut heard: impl FnMut() -> bool) -> bool {
    let mut outage = time::Patience::new(OUTAGE_NS);
    poll(&mut || outage.again(), "answer", || heard().then_some(())).is_ok()
}

/// As [`clear_master`], again if it does not answer ([`insist`]).
pub(crate) fn keep_off_bus(pdev: &pci::Device) {
    let _gone_else = insist(|| clear_master(pdev));
}

/// Memory decoding and bus mastering are on and the BARs are ours, until dropped.
///
/// Drop it before the driver is unbound, and after everything that reaches the device or lets it reach memory.
pub(crate) struct Function {
    pdev: ARef<pci::Device>,
}

impl Function {
    /// Enables the device and claims its BARs. Bus mastering is as an earlier owner left it ([`Self::clear_master`]).
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

    /// The device can no longer read or write memory, nor send messages. May sleep, for [`OUTAGE_NS`].
    pub(crate) fn clear_master(&self) {
        keep_off_bus(&self.pdev);
    }

    /// Puts the device back into its state after power-on, with what it was doing forgotten; its memory may keep its contents.
    /// Bus mastering is off then, as it must be before. Sleeps for a tenth of a second. To be called from the driver's probe
    /// or remove, where the device is locked.
    ///
    /// # Errors
    /// `ENODEV` if it does not answer; `ENOTTY` if it cannot be reset, or what the PCI core says.
    pub(crate) fn reset(&self) -> Result {
        if !insist(|| config32(&self.pdev, 0) != !0) {
            return Err(ENODEV);
        }
        // SAFETY: a device that we enabled; its lock is held, as callers promise.
        to_result(unsafe { c::pci_reset_function_locked(raw(&self.pdev)) })
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
