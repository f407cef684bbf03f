// SPDX-License-Identifier: GPL-2.0
//! The doors: file operations, ioctls, page faults, sysfs, debugfs. They check, call, and copy out; nothing else.

pub(crate) mod chrdev;
pub(crate) mod debugfs;
mod ioctl;
mod memory;
mod observe;
mod policy;
pub(crate) mod sysfs;
mod testing;
mod work;
