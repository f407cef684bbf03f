// SPDX-License-Identifier: GPL-2.0
//! The doors: file operations, ioctls, page faults, debugfs. They check, call, and copy out; nothing else.

pub(crate) mod chrdev;
pub(crate) mod debugfs;
mod ioctl;
mod memory;
mod observe;
mod policy;
mod testing;
mod work;
