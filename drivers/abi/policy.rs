// SPDX-License-Identifier: GPL-2.0
//! Calls about policy.

use super::ioctl::{argument, gpu, owner_only, put_text, zero};
use crate::account::policy as store;
use crate::device::Gpu;
use crate::kernel::ffi::uapi;
use crate::kernel::{task, user};
use crate::memory::registry as spaces;
use crate::memory::space::Space;
use huvm_policy::config::{knob_by_index, text_in, Knob, KnobId, KnobKind, Policy};
use huvm_policy::preset::{preset_by_name, preset_of, PRESETS};
use kernel::prelude::*;
use kernel::sync::Arc;

#[inline(never)] // stack
pub(super) fn knob(arg: usize) -> Result {
    let mut a: uapi::huvm_knob = argument(arg, 0)?;
    zero(a.scopes)?;
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
    a.scopes = 1 << uapi::HUVM_SCOPE_GLOBAL | 1 << uapi::HUVM_SCOPE_GPU;
    if !k.id.is_of_gpu() {
        a.scopes |= 1 << uapi::HUVM_SCOPE_SPACE | 1 << uapi::HUVM_SCOPE_PROCESS;
    }
    a.min = k.min;
    a.max = k.max;
    a.def = store::original().get(k.id);
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
    /// The open files of a process; at least one.
    Process(KVVec<Arc<Space>>),
}

impl<'a> Scope<'a> {
    /// The scope that the fields of a call name; `space` is the caller's.
    fn of(space: &'a Space, scope: u32, index: u32) -> Result<Self> {
        match scope {
            uapi::HUVM_SCOPE_GLOBAL => zero(index).map(|()| Scope::Global),
            uapi::HUVM_SCOPE_GPU => Ok(Scope::Gpu(gpu(index)?)),
            uapi::HUVM_SCOPE_SPACE => zero(index).map(|()| Scope::Space(space)),
            uapi::HUVM_SCOPE_PROCESS => Ok(Scope::Process(spaces::of_process(index)?)),
            _ => Err(EINVAL),
        }
    }

    fn may_set(&self) -> Result {
        match self {
            Scope::Space(space) => owner_only(space),
            _ if task::is_admin() => Ok(()),
            Scope::Process(all) => all.iter().try_for_each(|s| owner_only(s)),
            _ => Err(EPERM),
        }
    }

    fn may_get(&self) -> Result {
        match self {
            Scope::Global | Scope::Gpu(_) => Ok(()),
            _ => self.may_set(),
        }
    }

    /// The open file that is looked at, if it is one or several.
    fn first(&self) -> Option<&Space> {
        match self {
            Scope::Space(space) => Some(space),
            Scope::Process(all) => all.first().map(|s| &**s),
            _ => None,
        }
    }

    fn in_force(&self) -> Policy {
        match self {
            Scope::Global => store::global(),
            Scope::Gpu(g) => *store::of_gpu(g),
            Scope::Space(_) | Scope::Process(_) => match self.first() {
                Some(space) => *store::in_force(space, None),
                None => store::global(),
            },
        }
    }

    fn origin(&self, id: KnobId) -> u32 {
        match self {
            Scope::Gpu(g) if g.policy().has(id) => uapi::HUVM_SCOPE_GPU,
            _ => match self.first() {
                Some(space) if !id.is_of_gpu() && space.policy.has(id) => uapi::HUVM_SCOPE_SPACE,
                _ => uapi::HUVM_SCOPE_GLOBAL,
            },
        }
    }

    /// The value in force.
    ///
    /// # Errors
    /// `EPERM` for the space of another process.
    pub(super) fn get(&self, id: KnobId) -> Result<u64> {
        self.may_get()?;
        // What a preset put there for a knob of a GPU as a whole is nobody's.
        if self.first().is_some() && id.is_of_gpu() {
            return Ok(store::global().get(id));
        }
        Ok(self.in_force().get(id))
    }

    /// Sets a value.
    ///
    /// # Errors
    /// `EPERM` for who may not; `ERANGE`; `EOPNOTSUPP` for a knob of a GPU as a whole where there is none; `ENOMEM`, after
    /// which some of a process's files may have the value.
    pub(super) fn set(&self, id: KnobId, value: u64) -> Result {
        self.may_set()?;
        if self.first().is_some() && id.is_of_gpu() {
            return Err(EOPNOTSUPP);
        }
        match self {
            Scope::Global => store::set_global(id, value),
            Scope::Gpu(g) => g.policy().set(id, value),
            Scope::Space(space) => space.policy.set(id, value),
            Scope::Process(all) => all.iter().try_for_each(|s| s.policy.set(id, value)),
        }
    }

    /// Forgets the values of a knob, or (`None`) of all, in this scope.
    ///
    /// # Errors
    /// As [`Self::set`].
    fn reset(&self, id: Option<KnobId>) -> Result {
        self.may_set()?;
        match self {
            Scope::Global => {
                store::reset_global(id);
                Ok(())
            }
            Scope::Gpu(g) => g.policy().reset(id),
            Scope::Space(space) => space.policy.reset(id),
            Scope::Process(all) => all.iter().try_for_each(|s| s.policy.reset(id)),
        }
    }

    fn set_all(&self, policy: &Policy) -> Result {
        self.may_set()?;
        match self {
            Scope::Global => {
                store::set_global_all(*policy);
                Ok(())
            }
            Scope::Gpu(g) => g.policy().set_all(policy),
            Scope::Space(space) => space.policy.set_all(policy),
            Scope::Process(all) => all.iter().try_for_each(|s| s.policy.set_all(policy)),
        }
    }
}

fn knob_id(index: u32) -> Result<&'static Knob> {
    knob_by_index(index).ok_or(ENOENT)
}

#[inline(never)] // stack
pub(super) fn get(space: &Arc<Space>, arg: usize) -> Result {
    let mut a: uapi::huvm_policy = argument(arg, 0)?;
    let scope = Scope::of(space, a.scope, a.gpu)?;
    scope.may_get()?;
    let id = knob_id(a.knob)?.id;
    a.value = scope.get(id)?;
    a.origin = scope.origin(id);
    user::copy_out(arg, &a)
}

#[inline(never)] // stack
pub(super) fn set(space: &Arc<Space>, arg: usize) -> Result {
    let a: uapi::huvm_policy = argument(arg, uapi::HUVM_POLICY_RESET)?;
    let scope = Scope::of(space, a.scope, a.gpu)?;
    scope.may_set()?;
    if a.flags & uapi::HUVM_POLICY_RESET != 0 {
        if a.value != 0 {
            return Err(EINVAL);
        }
        return scope.reset(Some(knob_id(a.knob)?.id));
    }
    scope.set(knob_id(a.knob)?.id, a.value)
}

#[inline(never)] // stack
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

#[inline(never)] // stack
pub(super) fn preset_set(space: &Arc<Space>, arg: usize) -> Result {
    let a: uapi::huvm_preset = argument(arg, uapi::HUVM_POLICY_RESET)?;
    zero(a.reserved)?;
    let scope = Scope::of(space, a.scope, a.gpu)?;
    scope.may_set()?;
    if a.flags & uapi::HUVM_POLICY_RESET != 0 {
        if a.name.iter().any(|c| *c != 0) {
            return Err(EINVAL);
        }
        return scope.reset(None);
    }
    let name = text_in(&a.name).ok_or(EINVAL)?;
    let policy = preset_by_name(name).ok_or(ENOENT)?.policy();
    scope.set_all(&policy)
}
