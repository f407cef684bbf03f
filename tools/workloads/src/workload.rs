// SPDX-License-Identifier: GPL-2.0
//! A workload: allocations and lazy steps.

use crate::alloc::{Alloc, At};
use crate::program::Program;

/// An access to a page of 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Touch {
    /// Number of the allocation.
    pub alloc: u32,
    /// Page of it.
    pub page: u32,
    /// A write: the replay adds 1 to the page's first word.
    pub write: bool,
}

/// A chunk of a page trace: blocks take the touches in turn.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Trace {
    /// In order.
    pub touches: Vec<Touch>,
    /// Time that the GPU computes for this chunk were all pages there, ns.
    pub compute_ns: u64,
}

/// What happens next. Steps follow each other: each waits for the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A launch.
    Launch(Program),
    /// A launch that replays a trace.
    Trace(Trace),
    /// The CPU reads these bytes, or writes them (adds 1 to the first word of each page, as a trace does).
    Cpu {
        /// From here.
        at: At,
        /// So many bytes.
        bytes: u64,
        /// A write.
        write: bool,
    },
    /// What the allocation holds is dead.
    Discard {
        /// Its number.
        alloc: u32,
    },
}

/// A lazy sequence of steps.
pub type Steps = Box<dyn Iterator<Item = Step> + Send>;

/// A workload.
pub struct Workload {
    /// Its name in the catalog.
    pub name: &'static str,
    /// What it allocates.
    pub allocs: Vec<Alloc>,
    /// Its passes.
    pub passes: u32,
    body: Box<dyn Fn(u32) -> Steps + Send + Sync>,
}

impl Workload {
    /// One whose pass p has the steps `body(p)`.
    pub(crate) fn new(
        name: &'static str,
        allocs: Vec<Alloc>,
        passes: u32,
        body: impl Fn(u32) -> Steps + Send + Sync + 'static,
    ) -> Workload {
        Workload {
            name,
            allocs,
            passes,
            body: Box::new(body),
        }
    }

    /// Bytes of all allocations.
    pub fn footprint(&self) -> u64 {
        self.allocs.iter().map(|a| a.bytes).sum()
    }

    /// Steps of a pass.
    pub fn pass(&self, pass: u32) -> Steps {
        (self.body)(pass)
    }

    /// Steps of all passes.
    pub fn steps(&self) -> impl Iterator<Item = Step> + '_ {
        (0..self.passes).flat_map(|p| self.pass(p))
    }
}
