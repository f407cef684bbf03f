// SPDX-License-Identifier: GPL-2.0
//! The workloads by name.

mod list;

use crate::Workload;
pub use list::CATALOG;

/// Smallest footprint, bytes: below it the sizes of arrays are too coarse to be within 1 % of what was asked.
pub const LEAST: u64 = 4 << 20;
/// Largest footprint, bytes.
pub const MOST: u64 = 1 << 40;

/// What is asked of a workload.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Bytes of all its allocations together.
    pub bytes: u64,
    /// Bytes of the footprint that this one stands for, as a memory made small stands for a large one; `None`, or less: itself. What
    /// trains has the batch of that footprint, and then all of it is made smaller alike. Others are the same at any size.
    pub full: Option<u64>,
    /// Decides all that is random.
    pub seed: u64,
    /// Passes; `None` for as many as its reference has.
    pub passes: Option<u32>,
}

impl Ask {
    /// So many bytes, seed 1, the reference's passes.
    pub fn bytes(bytes: u64) -> Ask {
        Ask {
            bytes,
            full: None,
            seed: 1,
            passes: None,
        }
    }

    /// Bytes of the footprint that it stands for.
    pub fn full(&self) -> u64 {
        self.full.map_or(self.bytes, |full| full.max(self.bytes))
    }

    /// A part of the full footprint's bytes, of which this one has its share.
    pub(crate) fn share(&self, of_full: u64) -> u64 {
        let of = u128::from(of_full) * u128::from(self.bytes);
        // CAST: no more than `of_full`.
        (of / u128::from(self.full().max(1))) as u64
    }

    /// The passes asked for, or else `usual`.
    pub(crate) fn passes_or(&self, usual: u32) -> u32 {
        self.passes.unwrap_or(usual).max(1)
    }
}

/// Why there is no such workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The footprint, or what it stands for, is below or above what is possible.
    Footprint(u64),
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Refused::Footprint(bytes) = self;
        write!(
            f,
            "a footprint of {bytes} bytes is out of range: {LEAST} to {MOST}"
        )
    }
}

impl std::error::Error for Refused {}

/// A workload of the catalog.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Its name, in small letters.
    pub name: &'static str,
    /// Which kind of workload it is: `kernel`, `random`, `graph`, `training` or `serving`.
    pub family: &'static str,
    /// What it does, in a line.
    pub doc: &'static str,
    /// Where its pattern is known from.
    pub source: &'static str,
    make: fn(&Ask) -> Workload,
}

impl Entry {
    /// The workload.
    ///
    /// # Errors
    /// [`Refused::Footprint`].
    pub fn make(&self, ask: &Ask) -> Result<Workload, Refused> {
        let mut sizes = [ask.bytes, ask.full()].into_iter();
        if let Some(wrong) = sizes.find(|bytes| !(LEAST..=MOST).contains(bytes)) {
            return Err(Refused::Footprint(wrong));
        }
        Ok((self.make)(ask))
    }
}

/// The workload of a name.
pub fn find(name: &str) -> Option<&'static Entry> {
    CATALOG.iter().find(|e| e.name == name)
}
