// SPDX-License-Identifier: GPL-2.0
//! Calls about policy.

use super::ioctl::{argument, get_text, gpu, owner_only, put_text, zero};
use crate::account::policy as store;
use crate::kernel::ffi::uapi;
use crate::kernel::{task, user};
use crate::memory::space::Space;
use huvm_policy::config::{knob_by_index, Knob, KnobId, KnobKind, Policy};
use huvm_policy::preset::{preset_by_name, preset_of, PRESETS};
use kernel::prelude::*;
use kernel::sync::Arc;

pub(super) fn knob(arg: usize) -> Result {
    let mut a: uapi::huvm_knob = argument(arg, 0)?;
    zero(a.reserved)?;
    let k = knob_by_index(a.index).ok_or(ENOENT)?;
    put_text(&mut a.name, k.name);
    put_text(&mut a.unit, k.unit);
    put_text(&mut a.doc, k.doc);
    put_text(&mut a.value_names, "");
    if let KnobKind::Choice(words) = k.kind {
        let mut at = 0;
        for (i, word) in words.iter().enumerate() {
            let sep = if i == 0 { "" } else { "," };
            for part in [sep, word] {
                if let Some(rest) = a.value_names.get_mut(at..) {
                    put_text(rest, part);
                    at += part.len();
                }
            }
        }
    }
    a.min = k.min;
    a.max = k.max;
    a.def = k.default;
    user::copy_out(arg, &a)
}

enum Scope {
    Global,
    Gpu(Arc<crate::device::Gpu>),
    Space,
}

impl Scope {
    fn of(scope: u32, index: u32) -> Result<Scope> {
        match scope {
            uapi::HUVM_SCOPE_GLOBAL => zero(index).map(|()| Scope::Global),
            uapi::HUVM_SCOPE_GPU => Ok(Scope::Gpu(gpu(index)?)),
            uapi::HUVM_SCOPE_SPACE => zero(index).map(|()| Scope::Space),
            _ => Err(EINVAL),
        }
    }

    fn may_set(&self, space: &Space) -> Result {
        match self {
            Scope::Space => owner_only(space),
            _ if task::is_admin() => Ok(()),
            _ => Err(EPERM),
        }
    }

    fn may_get(&self, space: &Space) -> Result {
        match self {
            Scope::Space => owner_only(space),
            _ => Ok(()),
        }
    }

    fn in_force(&self, space: &Space) -> Policy {
        match self {
            Scope::Global => store::global(),
            Scope::Gpu(g) => store::of_gpu(g),
            Scope::Space => store::in_force(space, None),
        }
    }

    fn origin(&self, space: &Space, id: KnobId) -> u32 {
        match self {
            Scope::Gpu(g) if g.policy().has(id) => uapi::HUVM_SCOPE_GPU,
            Scope::Space if space.policy.has(id) => uapi::HUVM_SCOPE_SPACE,
            _ => uapi::HUVM_SCOPE_GLOBAL,
        }
    }
}

fn knob_id(index: u32) -> Result<&'static Knob> {
    knob_by_index(index).ok_or(ENOENT)
}

pub(super) fn get(space: &Arc<Space>, arg: usize) -> Result {
    let mut a: uapi::huvm_policy = argument(arg, 0)?;
    let scope = Scope::of(a.scope, a.gpu)?;
    scope.may_get(space)?;
    let id = knob_id(a.knob)?.id;
    a.value = scope.in_force(space).get(id);
    a.origin = scope.origin(space, id);
    user::copy_out(arg, &a)
}

pub(super) fn set(space: &Arc<Space>, arg: usize) -> Result {
    let a: uapi::huvm_policy = argument(arg, 0)?;
    let scope = Scope::of(a.scope, a.gpu)?;
    scope.may_set(space)?;
    let id = knob_id(a.knob)?.id;
    match scope {
        Scope::Global => store::set_global(id, a.value),
        Scope::Gpu(g) => g.policy().set(id, a.value),
        Scope::Space => space.policy.set(id, a.value),
    }
}

pub(super) fn preset_get(space: &Arc<Space>, arg: usize) -> Result {
    let mut a: uapi::huvm_preset = argument(arg, uapi::HUVM_PRESET_LIST)?;
    zero(a.reserved)?;
    if a.flags & uapi::HUVM_PRESET_LIST != 0 {
        let at = usize::try_from(a.index)?;
        let p = PRESETS.get(at).ok_or(ENOENT)?;
        put_text(&mut a.name, p.name);
        put_text(&mut a.doc, p.doc);
    } else {
        let scope = Scope::of(a.scope, a.gpu)?;
        scope.may_get(space)?;
        let policy = scope.in_force(space);
        match preset_of(&policy) {
            Some(p) => {
                put_text(&mut a.name, p.name);
                put_text(&mut a.doc, p.doc);
            }
            None => {
                put_text(&mut a.name, "custom");
                put_text(&mut a.doc, "a preset with some knobs changed");
            }
        }
    }
    user::copy_out(arg, &a)
}

pub(super) fn preset_set(space: &Arc<Space>, arg: usize) -> Result {
    let a: uapi::huvm_preset = argument(arg, 0)?;
    zero(a.reserved)?;
    let scope = Scope::of(a.scope, a.gpu)?;
    scope.may_set(space)?;
    let mut buf = [0; 32];
    let name = get_text(&a.name, &mut buf).ok_or(EINVAL)?;
    let policy = preset_by_name(name).ok_or(ENOENT)?.policy();
    match scope {
        Scope::Global => store::set_global_all(policy),
        Scope::Gpu(g) => g.policy().set_all(&policy),
        Scope::Space => space.policy.set_all(&policy),
    }
    Ok(())
}
