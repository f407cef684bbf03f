// SPDX-License-Identifier: GPL-2.0
//! Safe types over the kernel's C interfaces: the only room of the driver with hand-written unsafe code.
//!
//! | module | what it wraps |
//! | --- | --- |
//! | [`debugfs`] | a folder of texts that keep the module while one is open |
//! | [`dma`] | coherent buffers, streaming mappings |
//! | [`file`] | character device, one address space per open file |
//! | [`global`] | values that the module has one of |
//! | [`hostpage`] | compound pages of 4 KiB, 64 KiB, 2 MiB |
//! | [`inject`] | failures on request, for tests |
//! | [`irq`] | MSI-X vectors |
//! | [`memcg`] | whom host memory is charged to |
//! | [`mmio`] | BARs that may vanish under their users |
//! | [`pci`] | enabling and claiming a PCI function |
//! | [`rwsem`] | reader-writer semaphore |
//! | [`shrinker`] | caches that give memory back |
//! | [`sysfs`] | folders of small text files |
//! | [`task`] | who is calling |
//! | [`thread`] | kernel threads |
//! | [`time`] | clock and short sleeps |
//! | [`trace`] | tracepoints |
//! | [`user`] | structs to and from user space |
//! | [`vma`] | page faults of managed ranges |
//! | [`wait`] | wait queues |
//!
//! Nothing here knows a GPU, a block or a policy.

pub(crate) mod debugfs;
pub(crate) mod dma;
pub(crate) mod ffi;
pub(crate) mod file;
pub(crate) mod global;
pub(crate) mod hostpage;
pub(crate) mod inject;
pub(crate) mod irq;
pub(crate) mod memcg;
pub(crate) mod mmio;
pub(crate) mod pci;
pub(crate) mod rwsem;
pub(crate) mod shrinker;
pub(crate) mod sysfs;
pub(crate) mod task;
pub(crate) mod thread;
pub(crate) mod time;
pub(crate) mod trace;
pub(crate) mod user;
pub(crate) mod vma;
pub(crate) mod wait;
