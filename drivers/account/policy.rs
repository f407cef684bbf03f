// SPDX-License-Identifier: GPL-2.0
//! The policy in force: a space's own values, else the GPU's, else the global ones.

use crate::device::Gpu;
use crate::kernel::global::{Global, Which};
use crate::memory::space::Space;
use huvm_policy::config::{KnobId, Policy, KNOBS};
use huvm_policy::preset::{preset_by_name, DEFAULT_PRESET};
use kernel::prelude::*;
use kernel::sync::{new_mutex, Mutex};

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

static GLOBAL: Global<Option<Policy>> = Global::new(Which::Other, None);

/// The global values, under their lock. Before anybody set one they are those of the default preset.
fn with_global<R>(f: impl FnOnce(&mut Policy) -> R) -> R {
    let mut g = GLOBAL.lock();
    f(
        g.get_or_insert_with(|| match preset_by_name(DEFAULT_PRESET) {
            Some(p) => p.policy(),
            None => Policy::new(),
        }),
    )
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
    with_global(|p| p.set(id, value)).map_err(|_| ERANGE)
}

/// Sets all global values.
pub(crate) fn set_global_all(p: Policy) {
    with_global(|global| *global = p);
}

/// Values of a GPU or of a space.
#[pin_data]
pub(crate) struct ScopePolicy {
    #[pin]
    own: Mutex<Overrides>,
}

/// Values of a GPU.
pub(crate) type GpuPolicy = ScopePolicy;
/// Values of a space.
pub(crate) type SpacePolicy = ScopePolicy;

impl ScopePolicy {
    /// Nothing set.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            own <- new_mutex!(Overrides::none(), "huvm_policy"),
        })
    }

    /// Sets one value.
    ///
    /// # Errors
    /// `ERANGE`.
    pub(crate) fn set(&self, id: KnobId, value: u64) -> Result {
        self.own.lock().put(id, value)
    }

    /// Sets all values.
    pub(crate) fn set_all(&self, p: &Policy) {
        *self.own.lock() = Overrides {
            values: *p,
            set: u64::MAX,
        };
    }

    /// Whether a value was set here.
    pub(crate) fn has(&self, id: KnobId) -> bool {
        self.own.lock().set & Overrides::bit(id) != 0
    }

    fn snapshot(&self) -> Overrides {
        *self.own.lock()
    }
}

/// What holds for a GPU as a whole.
pub(crate) fn of_gpu(gpu: &Gpu) -> Policy {
    let mut p = global();
    gpu.policy().snapshot().apply(&mut p);
    p
}

/// What holds for a space on a GPU (or apart from any).
pub(crate) fn in_force(space: &Space, gpu: Option<&Gpu>) -> Policy {
    let own = space.policy.snapshot();
    if own.set == u64::MAX {
        return own.values;
    }
    let mut p = match gpu {
        Some(g) => of_gpu(g),
        None => global(),
    };
    own.apply(&mut p);
    p
}
