// SPDX-License-Identifier: GPL-2.0
//! huvm: one address space over several GPUs and the host.
//!
//! What the rooms are for and which way they depend is in Documentation/design.md.
#![deny(unsafe_code)]

#[forbid(unsafe_code)]
mod abi;
#[forbid(unsafe_code)]
mod account;
#[forbid(unsafe_code)]
mod channel;
#[forbid(unsafe_code)]
mod device;
#[expect(unsafe_code)]
mod kernel;
#[forbid(unsafe_code)]
mod memory;
#[forbid(unsafe_code)]
mod service;

use self::kernel::file::MiscDevice;
use self::kernel::sysfs::OnPciDevices;
use ::kernel::driver::Registration;
use ::kernel::prelude::*;
use ::kernel::{pci, InPlaceModule, ModuleMetadata};

module! {
    type: Huvm,
    name: "huvm",
    authors: ["The huvm authors"],
    description: "Hierarchical unified virtual memory over several GPUs",
    license: "GPL",
    params: {
        test: u32 {
            default: 0,
            description: "1: the calls of huvm_test.h exist (tests only)",
        },
    },
}

/// Version of the driver.
pub(crate) const VERSION: &str = "0.1.0";

/// Whether the module was loaded for tests.
pub(crate) fn is_test() -> bool {
    module_parameters::test.value() != 0
}

/// What the module registers. Dropped in this order: no views, no new files, then no GPUs (files keep the module, so none is open by
/// then), then what watches for GPUs, then what watches over waits, then what is kept beyond them.
#[pin_data]
struct Huvm {
    _views: abi::debugfs::Views,
    #[pin]
    device: MiscDevice<memory::space::Space>,
    #[pin]
    driver: Registration<pci::Adapter<device::driver::Driver>>,
    #[pin]
    _knobs: OnPciDevices,
    _watch: account::waits::Watch,
    _kept: Kept,
}

/// What outlives GPUs.
struct Kept;

impl Drop for Kept {
    fn drop(&mut self) {
        channel::forget_all();
        let left = kernel::hostpage::live();
        if left != 0 {
            pr_err!("leak: {left} pages of host memory\n");
        }
        let left = memory::registry::live();
        if left != 0 {
            pr_err!("leak: {left} spaces\n");
        }
    }
}

impl InPlaceModule for Huvm {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        account::policy::start();
        try_pin_init!(Self {
            _kept: Kept,
            _watch: account::waits::Watch::start()?,
            _knobs <- OnPciDevices::register(abi::sysfs::of_gpus()),
            driver <- Registration::new(<LocalModule as ModuleMetadata>::NAME, module),
            device <- MiscDevice::register(c"huvm", abi::sysfs::of_all()),
            _views: abi::debugfs::Views::new(),
        })
    }
}
