// SPDX-License-Identifier: GPL-2.0
//! Calls about policy.

use super::ioctl::{argument, get_text, gpu, owner_only, put_text, zero};
use crate::account::policy as store;
use crate::device::Gpu;
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

/// Where a policy is looked at or changed. Every door to the policy goes through here.
pub(super) enum Scope<'a> {
    /// What holds where nothing else was set.
    Global,
    /// A GPU.
    Gpu(Arc<Gpu>),
    /// An open file.
    Space(&'a Space),
}

impl<'a> Scope<'a> {
    /// The scope that the fields of a call name; `space` is the caller's.
    fn of(space: &'a Space, scope: u32, index: u32) -> Result<Self> {
        match scope {
            uapi::HUVM_SCOPE_GLOBAL => zero(index).map(|()| Scope::Global),
            uapi::HUVM_SCOPE_GPU => Ok(Scope::Gpu(gpu(index)?)),
            uapi::HUVM_SCOPE_SPACE => zero(index).map(|()| Scope::Space(space)),
            _ => Err(EINVAL),
        }
    }

    fn may_set(&self) -> Result {
        match self {
            Scope::Space(space) => owner_only(space),
            _ if task::is_admin() => Ok(()),
            _ => Err(EPERM),
        }
    }

    fn may_get(&self) -> Result {
        match self {
            Scope::Space(space) => owner_only(space),
            _ => Ok(()),
        }
    }

    fn in_force(&self) -> Policy {
        match self {
            Scope::Global => store::global(),
            Scope::Gpu(g) => *store::of_gpu(g),
            Scope::Space(space) => *store::in_force(space, None),
        }
    }

    fn origin(&self, id: KnobId) -> u32 {
        match self {
            Scope::Gpu(g) if g.policy().has(id) => uapi::HUVM_SCOPE_GPU,
            Scope::Space(space) if space.policy.has(id) => uapi::HUVM_SCOPE_SPACE,
            _ => uapi::HUVM_SCOPE_GLOBAL,
        }
    }

    /// The value in force.
    ///
    /// # Errors
    /// `EPERM` for the space of another process.
    pub(super) fn get(&self, id: KnobId) -> Result<u64> {
        self.may_get()?;
        Ok(self.in_force().get(id))
    }

    /// Sets a value.
    ///
    /// # Errors
    /// `EPERM` for who may not; `ERANGE`.
    pub(super) fn set(&self, id: KnobId, value: u64) -> Result {
        self.may_set()?;
        match self {
            Scope::Global => store::set_global(id, value),
            Scope::Gpu(g) => g.policy().set(id, value),
            Scope::Space(space) => space.policy.set(id, value),
        }
    }

    fn set_all(&self, policy: &Policy) -> Result {
        self.may_set()?;
        match self {
            Scope::Global => store::set_global_all(*policy),
            Scope::Gpu(g) => g.policy().set_all(policy),
            Scope::Space(space) => space.policy.set_all(policy),
        }
        Ok(())
    }
}

fn knob_id(index: u32) -> Result<&'static Knob> {
    knob_by_index(index).ok_or(ENOENT)
}

pub(super) fn get(space: &Arc<Space>, arg: usize) -> Result {
    let mut a: uapi::huvm_policy = argument(arg, 0)?;
    let scope = Scope::of(space, a.scope, a.gpu)?;
    scope.may_get()?;
    let id = knob_id(a.knob)?.id;
    a.value = scope.get(id)?;
    a.origin = scope.origin(id);
    user::copy_out(arg, &a)
}

pub(super) fn set(space: &Arc<Space>, arg: usize) -> Result {
    let a: uapi::huvm_policy = argument(arg, 0)?;
    let scope = Scope::of(space, a.scope, a.gpu)?;
    scope.may_set()?;
    scope.set(knob_id(a.knob)?.id, a.value)
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
        let scope = Scope::of(space, a.scope, a.gpu)?;
        scope.may_get()?;
        let policy = scope.in_force();
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
    let scope = Scope::of(space, a.scope, a.gpu)?;
    scope.may_set()?;
    let mut buf = [0; 32];
    let name = get_text(&a.name, &mut buf).ok_or(EINVAL)?;
    let policy = preset_by_name(name).ok_or(ENOENT)?.policy();
    scope.set_all(&policy)
}
