// SPDX-License-Identifier: GPL-2.0
//! The policy in force: a space's own values, else the GPU's, else the global ones.
//!
//! What is in force somewhere is put together once, and again after a change there or in a wider scope: faults and evictions ask for it
//! several times each. A space's own changes are nobody else's business.

use crate::device::registry::MAX_GPUS;
use crate::device::Gpu;
use crate::kernel::global::{Global, Which};
use crate::kernel::memcg::{self, CHARGED};
use crate::memory::space::Space;
use core::mem::MaybeUninit;
use huvm_lockless::changes::Changes;
use huvm_policy::config::{KnobId, Policy};
use huvm_policy::preset::{preset_by_name, DEFAULT_PRESET};
use huvm_policy::scope::{Overrides, Scope};
use kernel::alloc::{AllocError, Flags};
use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex, UniqueArc};

/// Changes of the global values and of GPUs'. What was put together before the last one counts no more.
static CHANGES: Changes = Changes::new();

/// How many changes there were so far.
pub(crate) fn changes() -> u64 {
    CHANGES.now()
}

/// What was put together so far counts no more.
pub(crate) fn note_change() {
    CHANGES.note();
}

/// The values in force, as they were when they were asked for.
pub(crate) type InForce = Arc<Policy>;

/// Those of the default preset from [`start`] on.
static GLOBAL: Global<Policy> = Global::new(Which::Other, Policy::new());

/// The global values, under their lock.
fn with_global<R>(f: impl FnOnce(&mut Policy) -> R) -> R {
    f(&mut GLOBAL.lock())
}

/// Before anything else of the module: nobody has set a global value yet.
pub(crate) fn start() {
    reset_global(None);
}

/// The global values that hold when nobody set one.
pub(crate) fn original() -> Policy {
    preset_by_name(DEFAULT_PRESET).map_or_else(Policy::new, |p| p.policy())
}

/// The global values.
pub(crate) fn global() -> Policy {
    with_global(|p| *p)
}

/// Memory for a policy, which is too large to be put together on the stack of one who evicts.
fn room(flags: Flags) -> Result<UniqueArc<MaybeUninit<Policy>>, AllocError> {
    memcg::at_once(|| UniqueArc::new_uninit(flags))
}

/// The global values, in memory of their own, to be covered there.
fn below(flags: Flags) -> Result<UniqueArc<Policy>, AllocError> {
    let room = room(flags)?;
    Ok(with_global(|p| room.write(*p)))
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
    /// Put together for no GPU in particular, and for each one. A GPU uses the first alone.
    #[pin]
    values: Mutex<KBox<Scope<InForce, { MAX_GPUS + 1 }>>>,
    /// Others lie over these.
    is_wide: bool,
}

/// Values of a GPU.
pub(crate) type GpuPolicy = ScopePolicy;
/// Values of a space.
pub(crate) type SpacePolicy = ScopePolicy;

impl ScopePolicy {
    /// Nothing set; in memory that is asked for by `flags`. `is_wide`: others lie over it, as spaces' do over a GPU's.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn new(flags: Flags, is_wide: bool) -> Result<impl PinInit<Self>> {
        let values = KBox::new(Scope::new(below(flags)?.into()), flags)?;
        Ok(pin_init!(Self {
            values <- new_mutex!(values, "huvm_policy"),
            is_wide,
        }))
    }

    /// Sets one value.
    ///
    /// # Errors
    /// `ERANGE`, `ENOMEM`.
    pub(crate) fn set(&self, id: KnobId, value: u64) -> Result {
        self.change(|own| own.put(id, value).map_err(|_| ERANGE))
    }

    /// Sets all values.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn set_all(&self, p: &Policy) -> Result {
        self.change(|own| {
            own.put_all(p);
            Ok(())
        })
    }

    /// Forgets what was set here for a knob, or (`None`) for all.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn reset(&self, id: Option<KnobId>) -> Result {
        self.change(|own| {
            match id {
                Some(id) => own.forget(id),
                None => *own = Overrides::none(),
            }
            Ok(())
        })
    }

    /// Changes what is set here, or fails and changes nothing.
    fn change(&self, f: impl FnOnce(&mut Overrides) -> Result) -> Result {
        let mut values = below(CHARGED)?;
        let old = {
            let mut v = self.values.lock();
            let mut own = *v.own();
            f(&mut own)?;
            own.cover(&mut values);
            // Under the lock: whoever has read the values before this change has counted no more.
            v.change(own, changes(), values.into())
        };
        drop(old);
        if self.is_wide {
            note_change();
        }
        Ok(())
    }

    /// Whether a value was set here.
    pub(crate) fn has(&self, id: KnobId) -> bool {
        self.values.lock().own().has(id)
    }

    /// What is in force at `place`: its own values over those of a wider scope, which `under` gives, told whether nothing is set
    /// here; `cover` puts them together. Without memory for that, see [`Scope::best`]. And whether it is that: nothing is to be kept that
    /// was made of what held before.
    fn in_force(
        &self,
        place: usize,
        under: impl FnOnce(bool) -> Result<Under, AllocError>,
        cover: impl FnOnce(&Overrides, &mut Policy),
    ) -> (InForce, bool) {
        // Before any value is read: a change meanwhile makes this one old.
        let after = changes();
        let is_plain = {
            let v = self.values.lock();
            if let Some(now) = v.current(place, after) {
                return (now, true);
            }
            v.own().is_empty()
        };
        let made = under(is_plain);
        let mut v = self.values.lock();
        let (now, is_now, old) = match made {
            Ok(Under::Mine(mut p)) => {
                cover(v.own(), &mut p);
                let now = InForce::from(p);
                (now.clone(), true, v.put(place, after, now))
            }
            // Something was set here meanwhile.
            Ok(Under::AsIs(p, _)) if !v.own().is_empty() => (v.best(place), false, Some(p)),
            Ok(Under::AsIs(p, true)) => (p.clone(), true, v.put(place, after, p)),
            Ok(Under::AsIs(p, false)) => (p, false, None),
            Err(AllocError) => (v.best(place), false, None),
        };
        drop(v);
        drop(old);
        (now, is_now)
    }
}

/// The values of a wider scope, under those of a narrower one.
enum Under {
    /// To be covered.
    Mine(UniqueArc<Policy>),
    /// To be used as they are: nothing is set in the narrower one. And whether they hold now; else they are not to be kept.
    AsIs(InForce, bool),
}

/// The global values, for whatever is set over them.
fn under_all(_is_plain: bool) -> Result<Under, AllocError> {
    below(CHARGED).map(Under::Mine)
}

/// What holds for a GPU as a whole.
pub(crate) fn of_gpu(gpu: &Gpu) -> InForce {
    of_gpu_now(gpu).0
}

/// The same, and whether it holds now: without memory it may be what held before the last change, and nothing that is made of it is to be
/// kept. The memory is charged to nobody: whoever asks first, it is for all.
pub(crate) fn of_gpu_now(gpu: &Gpu) -> (InForce, bool) {
    let under = |is_plain| memcg::uncharged(|| under_all(is_plain));
    gpu.policy().in_force(0, under, Overrides::cover)
}

/// What holds for a space on a GPU (or apart from any).
pub(crate) fn in_force(space: &Space, gpu: Option<&Gpu>) -> InForce {
    let Some(gpu) = gpu else {
        return space.policy.in_force(0, under_all, Overrides::cover).0;
    };
    let place = usize::from(gpu.index()).saturating_add(1);
    let under = |is_plain| match of_gpu_now(gpu) {
        // Another GPU may have the place of one that was lost.
        (p, is_now) if is_plain => Ok(Under::AsIs(p, is_now && !gpu.is_lost())),
        (p, true) if !gpu.is_lost() => Ok(Under::Mine(room(CHARGED)?.write(*p))),
        _ => Err(AllocError),
    };
    space.policy.in_force(place, under, Overrides::cover_gpu).0
}
