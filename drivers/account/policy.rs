// SPDX-License-Identifier: GPL-2.0
//! The policy in force: a space's own values, else the GPU's, else the global ones.
//!
//! What is in force somewhere is put together once, and again after a change anywhere: faults and evictions ask for it
//! several times each.

use crate::device::registry::MAX_GPUS;
use crate::device::Gpu;
use crate::kernel::global::{Global, Which};
use crate::memory::space::Space;
use core::ops::Deref;
use huvm_policy::config::{KnobId, Policy, KNOBS};
use huvm_policy::preset::{preset_by_name, DEFAULT_PRESET};
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full};
use kernel::sync::{new_mutex, Arc, Mutex};

/// Values set in one scope: a bit per knob that says whether the value counts here.
#[derive(Clone, Copy)]
pub(crate) struct Overrides {
    values: Policy,
    set: u64,
}

impl Overrides {
    const fn none() -> Self {
        Overrides {
            values: Policy::new(),
            set: 0,
        }
    }

    fn bit(id: KnobId) -> u64 {
        1u64.checked_shl(id.index()).unwrap_or(0)
    }

    fn put(&mut self, id: KnobId, value: u64) -> Result {
        self.values.set(id, value).map_err(|_| ERANGE)?;
        self.set |= Self::bit(id);
        Ok(())
    }

    fn forget(&mut self, id: KnobId) {
        self.set &= !Self::bit(id);
    }

    fn apply(&self, to: &mut Policy) {
        if self.set == 0 {
            return;
        }
        for k in KNOBS {
            if self.set & Self::bit(k.id) != 0 {
                // The value was checked when it was set.
                let _in_range = to.set(k.id, self.values.get(k.id));
            }
        }
    }
}

const _: () = assert!(huvm_policy::config::KNOB_COUNT <= 64);

/// Changes of any scope. What was put together before the last one counts no more.
static CHANGES: Atomic<u64> = Atomic::new(0);

fn note_change() {
    let _before = CHANGES.fetch_add(1, Full);
}

/// In force when there is no memory to put the values of a scope together for the first time; what was set is not heeded then.
static DEFAULTS: Policy = Policy::new();

/// The values in force, as they were when they were asked for.
pub(crate) enum InForce {
    Made(Arc<Policy>),
    Defaults,
}

impl Deref for InForce {
    type Target = Policy;
    fn deref(&self) -> &Policy {
        match self {
            InForce::Made(p) => p,
            InForce::Defaults => &DEFAULTS,
        }
    }
}

/// Values put together, and after how many changes.
struct Made {
    after: u64,
    policy: Arc<Policy>,
}

static GLOBAL: Global<Option<Policy>> = Global::new(Which::Other, None);

/// The global values, under their lock. Before anybody set one they are those of the default preset.
fn with_global<R>(f: impl FnOnce(&mut Policy) -> R) -> R {
    let mut g = GLOBAL.lock();
    f(g.get_or_insert_with(original))
}

/// The global values that hold when nobody set one.
fn original() -> Policy {
    preset_by_name(DEFAULT_PRESET).map_or_else(Policy::new, |p| p.policy())
}

/// The global values.
pub(crate) fn global() -> Policy {
    with_global(|p| *p)
}

/// Sets a global value.
///
/// # Errors
/// `ERANGE`.
pub(crate) fn set_global(id: KnobId, value: u64) -> Result {
    with_global(|p| p.set(id, value)).map_err(|_| ERANGE)?;
    note_change();
    Ok(())
}

/// Sets all global values.
pub(crate) fn set_global_all(p: Policy) {
    with_global(|global| *global = p);
    note_change();
}

struct Values {
    own: Overrides,
    /// In force on no GPU in particular, and on each one. A GPU uses the first alone.
    made: [Option<Made>; MAX_GPUS + 1],
}

/// Forgets what was set globally for a knob, or (`None`) for all.
pub(crate) fn reset_global(id: Option<KnobId>) {
    let p = original();
    match id {
        None => set_global_all(p),
        // A preset's values are in range.
        Some(id) => {
            let _in_range = set_global(id, p.get(id));
        }
    }
}

/// Values of a GPU or of a space.
#[pin_data]
pub(crate) struct ScopePolicy {
    #[pin]
    values: Mutex<Values>,
}

/// Values of a GPU.
pub(crate) type GpuPolicy = ScopePolicy;
/// Values of a space.
pub(crate) type SpacePolicy = ScopePolicy;

impl ScopePolicy {
    /// Nothing set.
    pub(crate) fn new() -> impl PinInit<Self> {
        let values = Values {
            own: Overrides::none(),
            made: [const { None }; MAX_GPUS + 1],
        };
        pin_init!(Self {
            values <- new_mutex!(values, "huvm_policy"),
        })
    }

    /// Sets one value.
    ///
    /// # Errors
    /// `ERANGE`.
    pub(crate) fn set(&self, id: KnobId, value: u64) -> Result {
        self.values.lock().own.put(id, value)?;
        note_change();
        Ok(())
    }

    /// Sets all values.
    pub(crate) fn set_all(&self, p: &Policy) {
        self.values.lock().own = Overrides {
            values: *p,
            set: u64::MAX,
        };
        note_change();
    }

    /// Forgets what was set here for a knob, or (`None`) for all.
    pub(crate) fn reset(&self, id: Option<KnobId>) {
        {
            let mut values = self.values.lock();
            match id {
                Some(id) => values.own.forget(id),
                None => values.own = Overrides::none(),
            }
        }
        note_change();
    }

    /// Whether a value was set here.
    pub(crate) fn has(&self, id: KnobId) -> bool {
        self.values.lock().own.set & Overrides::bit(id) != 0
    }

    /// What is in force at `slot`: over the values that `below` gives, its own. Without memory what was in force before the
    /// last change still is.
    fn in_force(&self, slot: usize, below: impl FnOnce() -> Policy) -> InForce {
        // Before any value is read: a change meanwhile makes this one old.
        let after = CHANGES.load(Acquire);
        let own = {
            let v = self.values.lock();
            match v.made.get(slot) {
                Some(Some(m)) if m.after == after => return InForce::Made(m.policy.clone()),
                _ => v.own,
            }
        };
        let policy = if own.set == u64::MAX {
            own.values
        } else {
            let mut p = below();
            own.apply(&mut p);
            p
        };
        let made = Arc::new(policy, GFP_KERNEL);
        let mut old = None;
        let mut v = self.values.lock();
        let now = match (made, v.made.get_mut(slot)) {
            (Ok(policy), Some(at)) => {
                old = at.replace(Made {
                    after,
                    policy: policy.clone(),
                });
                InForce::Made(policy)
            }
            (_, Some(Some(m))) => InForce::Made(m.policy.clone()),
            _ => InForce::Defaults,
        };
        drop(v);
        drop(old);
        now
    }
}

/// What holds for a GPU as a whole.
pub(crate) fn of_gpu(gpu: &Gpu) -> InForce {
    gpu.policy().in_force(0, global)
}

/// What holds for a space on a GPU (or apart from any).
pub(crate) fn in_force(space: &Space, gpu: Option<&Gpu>) -> InForce {
    match gpu {
        Some(gpu) => {
            let slot = usize::from(gpu.index()).saturating_add(1);
            space.policy.in_force(slot, || *of_gpu(gpu))
        }
        None => space.policy.in_force(0, global),
    }
}
