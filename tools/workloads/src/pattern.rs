// SPDX-License-Identifier: GPL-2.0
//! The kernels of Polybench, Rodinia and the CUDA SDK, by their accesses (`workloads.md` section 2 of the project's reference).
//! Dimensions are scaled equally to the footprint; numbers of kernels stay those of the reference inputs.

pub(crate) mod backprop;
pub(crate) mod conv;
pub(crate) mod lavamd;
pub(crate) mod lud;
pub(crate) mod matvec;
pub(crate) mod nw;
pub(crate) mod pathfinder;
pub(crate) mod random;
pub(crate) mod stencil;
pub(crate) mod stream;

use crate::At;

/// Minus 1, for factors of wrapping arithmetic.
pub(crate) const MINUS: u64 = u64::MAX;

/// Starts of the first `N` allocations.
pub(crate) fn starts<const N: usize>() -> [At; N] {
    let mut n = 0;
    [(); N].map(|()| {
        n += 1;
        At::start(n - 1)
    })
}
