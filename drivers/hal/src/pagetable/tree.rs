// SPDX-License-Identifier: GPL-2.0
//! The upper levels of a VA space's page tables.

use super::{Invalidate, Level};
use crate::ids::{GpuVa, SysAddr};
use crate::seam::{DmaMem, Fence};
use crate::{Error, Result};

/// Names a directory table: its level and the addresses it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableKey {
    /// [`Level::Pde3`] for the root, down to [`Level::Pde0`].
    pub level: Level,
    /// First address covered ÷ bytes covered.
    pub index: u64,
}

/// Where the caller keeps the tables of one tree: a map from key to page (a red-black tree in the kernel, a `BTreeMap`
/// in tests).
pub trait Store {
    /// A zeroed 4 KiB page of coherent memory, 4 KiB aligned.
    type Page: DmaMem;
    /// The table with this key.
    fn get(&self, key: TableKey) -> Option<&Self::Page>;
    /// Keeps a table.
    ///
    /// # Errors
    /// Gives the page back when there is no room.
    fn put(&mut self, key: TableKey, page: Self::Page) -> core::result::Result<(), Self::Page>;
    /// Takes a table out.
    fn take(&mut self, key: TableKey) -> Option<Self::Page>;
}

/// Root, PDE2, PDE1 and PDE0 tables of one VA space on one GPU.
#[derive(Debug)]
pub struct Tree<S: Store> {
    store: S,
}

impl<S: Store> Tree<S> {
    /// An empty tree. `root` is a zeroed page.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] when the store has no room, [`Error::BadAddress`].
    pub fn new(store: S, root: S::Page) -> Result<Self> {
        let _ = root;
        Ok(Tree { store })
    }

    /// Bus address of the root: what an instance block and an invalidate name.
    pub fn root(&self) -> SysAddr {
        SysAddr(0)
    }

    /// Tables (0..=3) to supply before `va`'s PDE0 table exists.
    pub fn missing(&self, va: GpuVa) -> usize {
        let _ = va;
        0
    }

    /// Adds one zeroed table on the way to `va`'s PDE0 table, from the top. Returns the invalidate for cached misses.
    ///
    /// # Errors
    /// [`Error::Exists`] when nothing is missing, [`Error::OutOfRange`] when the store has no room, [`Error::BadAddress`];
    /// the page comes back in each case.
    pub fn supply<F: Fence + ?Sized>(
        &mut self,
        fence: &F,
        va: GpuVa,
        page: S::Page,
    ) -> core::result::Result<Invalidate, (Error, S::Page)> {
        let _ = (fence, va);
        Err((Error::Gone, page))
    }

    /// The PDE0 table that covers `va` (512 MiB), for [`super::Block`]. It stays until [`Self::release`].
    pub fn pde0(&self, va: GpuVa) -> Option<&S::Page> {
        let _ = va;
        None
    }

    /// Takes the PDE0 table that covers `va` out of the tree if it is empty. The page may be freed only after
    /// the invalidate is done.
    pub fn release<F: Fence + ?Sized>(
        &mut self,
        fence: &F,
        va: GpuVa,
    ) -> Option<(S::Page, Invalidate)> {
        let _ = (fence, va);
        None
    }

    /// The store, to free all tables when the space is gone.
    pub fn into_store(self) -> S {
        self.store
    }
}
