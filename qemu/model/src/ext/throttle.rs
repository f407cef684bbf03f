// SPDX-License-Identifier: GPL-2.0
//! THROTTLE block: how many blocks may run.

use huvm_hw::ext::throttle as reg;

use crate::gpu::{Cx, Gpu};

/// Limits; 0 is no limit.
#[derive(Clone, Debug)]
pub(crate) struct Throttle {
    pub(crate) active_limit: u32,
    pub(crate) veid_limit: [u32; reg::VEIDS as usize],
}

impl Default for Throttle {
    fn default() -> Self {
        Throttle {
            active_limit: 0,
            veid_limit: [0; reg::VEIDS as usize],
        }
    }
}

impl Throttle {
    /// Blocks of subcontext `veid` that may run at once.
    pub(crate) fn veid(&self, veid: u32) -> u32 {
        match self.veid_limit.get(veid as usize) {
            Some(0) | None => u32::MAX,
            Some(&n) => n,
        }
    }

    /// Blocks that may run at once.
    pub(crate) fn all(&self) -> u32 {
        match self.active_limit {
            0 => u32::MAX,
            n => n,
        }
    }
}

impl Gpu {
    /// Reads a register of the block.
    pub(crate) fn throttle_read(&self, offset: u32) -> u32 {
        if offset == reg::ACTIVE_LIMIT {
            return self.throttle.active_limit;
        }
        offset
            .checked_sub(reg::VEID_LIMIT0)
            .and_then(|rel| self.throttle.veid_limit.get((rel / 4) as usize))
            .copied()
            .unwrap_or(0)
    }

    /// Writes a register of the block. Blocks look at the limits at their next piece.
    pub(crate) fn throttle_write(&mut self, offset: u32, value: u32, cx: &mut Cx<'_>) {
        if offset == reg::ACTIVE_LIMIT {
            self.throttle.active_limit = value;
        } else if let Some(limit) = offset
            .checked_sub(reg::VEID_LIMIT0)
            .and_then(|rel| self.throttle.veid_limit.get_mut((rel / 4) as usize))
        {
            *limit = value;
        } else {
            return;
        }
        self.work_dispatch_soon(cx);
    }
}
