// SPDX-License-Identifier: GPL-2.0
//! Page tables of one GPU VA space, version 2 format, tables in coherent system memory.
//!
//! [`Tree`] has the levels above a block: root (PDE3), PDE2, PDE1, PDE0. [`Block`] has what a PDE0 entry points to,
//! for one 2 MiB block: nothing, one 2 MiB entry, or a table of 64 KiB entries beside a table of 4 KiB entries.
//! A caller guards a `Tree` with the space's lock and a `Block` with the block's; two blocks of one tree can change
//! at the same time, since each writes its own PDE0 entry alone.
//!
//! Nothing here allocates. An operation that needs a table says so ([`crate::Error::NeedTables`], nothing changed);
//! the caller allocates outside its locks, supplies and calls again.

mod block;
mod invalidate;
mod pte;
mod tree;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;

pub use block::{Block, Need};
pub use invalidate::{Invalidate, Level};
pub use pte::{MapFlags, Prot};
pub use tree::{Store, TableKey, Tree};
