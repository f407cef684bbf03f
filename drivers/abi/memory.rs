// SPDX-License-Identifier: GPL-2.0
//! Calls about memory: register, migrate, advise.

use super::ioctl::{argument, gpu, owner_only, zero};
use crate::kernel::ffi::uapi;
use crate::kernel::user;
use crate::memory::space::Space;
use crate::memory::Place;
use kernel::prelude::*;
use kernel::sync::Arc;

#[inline(never)] // stack
pub(super) fn register(space: &Arc<Space>, arg: usize) -> Result {
    let a: uapi::huvm_gpu_register = argument(arg, 0)?;
    owner_only(space)?;
    zero(a.reserved)?;
    space.register_gpu(&gpu(a.gpu)?)
}

#[inline(never)] // stack
pub(super) fn unregister(space: &Arc<Space>, arg: usize) -> Result {
    let a: uapi::huvm_gpu_register = argument(arg, 0)?;
    owner_only(space)?;
    zero(a.reserved)?;
    gpu(a.gpu)?;
    space.unregister_gpu(u8::try_from(a.gpu).map_err(|_| ENODEV)?)
}

#[inline(never)] // stack
pub(super) fn migrate(space: &Arc<Space>, arg: usize) -> Result {
    let mut a: uapi::huvm_migrate = argument(arg, 0)?;
    owner_only(space)?;
    zero(a.reserved)?;
    let dst = Place::from_uapi(a.dst)?;
    if let Place::Gpu(g) = dst {
        gpu(g.into())?.check()?;
    }
    let mut moved = 0;
    let did = space.migrate(a.va, a.length, dst, &mut moved);
    a.moved_bytes = moved;
    let out = user::copy_out(arg, &a);
    did.and(out)
}

#[inline(never)] // stack
pub(super) fn advise(space: &Arc<Space>, arg: usize) -> Result {
    let a: uapi::huvm_advise = argument(arg, 0)?;
    owner_only(space)?;
    space.advise(a.va, a.length, a.advice, a.place)
}
