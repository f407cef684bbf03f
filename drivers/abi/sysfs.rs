// SPDX-License-Identifier: GPL-2.0
//! The knobs of the policy as files: `/sys/class/misc/huvm/policy/<knob>` for all, `huvm/<knob>` in the folder of a GPU's
//! PCI device for that GPU. One file per row of the policy's table.
//!
//! Reading gives the value in force: the word of a choice, else the number. Writing takes either, and needs what the
//! call POLICY_SET needs.

use super::policy::Scope;
use crate::device::registry;
use crate::kernel::sysfs::{Folder, Handle, Rows};
use core::fmt::Write;
use huvm_policy::config::{Knob, KnobError, KNOBS, KNOB_COUNT};
use kernel::prelude::*;
use kernel::str::Formatter;

static ALL: Folder<KNOB_COUNT> = Folder::new::<OfAll>(&ALL, c"policy", names());
static GPUS: Folder<KNOB_COUNT> = Folder::new::<OfGpu>(&GPUS, c"huvm", names());

/// The folder for the values of all.
pub(crate) fn of_all() -> Handle {
    ALL.handle()
}

/// The folder for the values of a GPU.
pub(crate) fn of_gpus() -> Handle {
    GPUS.handle()
}

const fn names() -> [&'static str; KNOB_COUNT] {
    let mut names = [""; KNOB_COUNT];
    let mut i = 0;
    while i < KNOB_COUNT {
        names[i] = KNOBS[i].name;
        i += 1;
    }
    names
}

struct OfAll;

impl Rows for OfAll {
    fn show(_: &str, row: usize, to: &mut Formatter<'_>) -> Result {
        show(&Scope::Global, row, to)
    }

    fn store(_: &str, row: usize, text: &str) -> Result {
        store(&Scope::Global, row, text)
    }
}

struct OfGpu;

impl OfGpu {
    /// The GPU at this PCI address: it may have left the others already.
    fn scope(device: &str) -> Result<Scope<'static>> {
        (0..registry::count())
            .find_map(|i| registry::gpu(i).filter(|g| g.name() == device))
            .map(Scope::Gpu)
            .ok_or(ENODEV)
    }
}

impl Rows for OfGpu {
    fn show(device: &str, row: usize, to: &mut Formatter<'_>) -> Result {
        show(&Self::scope(device)?, row, to)
    }

    fn store(device: &str, row: usize, text: &str) -> Result {
        store(&Self::scope(device)?, row, text)
    }
}

fn knob(row: usize) -> Result<&'static Knob> {
    KNOBS.get(row).ok_or(ENOENT)
}

fn show(scope: &Scope<'_>, row: usize, to: &mut Formatter<'_>) -> Result {
    let knob = knob(row)?;
    let value = scope.get(knob.id)?;
    writeln!(to, "{}", knob.show(value)).map_err(|_| EIO)
}

fn store(scope: &Scope<'_>, row: usize, text: &str) -> Result {
    let knob = knob(row)?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    let value = knob.parse(text).map_err(|e| match e {
        KnobError::BadText { .. } => EINVAL,
        KnobError::OutOfRange { .. } => ERANGE,
    })?;
    scope.set(knob.id, value)
}
