// SPDX-License-Identifier: GPL-2.0
//! The upper levels of a VA space's page tables.

use super::{pte, Invalidate, Level};
use crate::ids::{GpuVa, SysAddr};
use crate::seam::{zero, DmaMem, Fence};
use crate::{Error, Result};

/// Bytes of a directory table.
const TABLE_BYTES: usize = 4096;
/// First address past the 49 bits of version 2.
pub(super) const VA_LIMIT: u64 = 1 << 49;

/// Names a directory table: its level and the addresses it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableKey {
    /// [`Level::Pde3`] for the root, down to [`Level::Pde0`].
    pub level: Level,
    /// First address covered ÷ bytes covered.
    pub index: u64,
}

impl TableKey {
    /// The table of `level` that covers `va` (hw-interface 4.1).
    pub const fn of(level: Level, va: GpuVa) -> TableKey {
        TableKey {
            level,
            index: va.0 >> covers_log2(level),
        }
    }

    /// The key as one number, unique in a tree: for maps that want an integer.
    pub const fn to_u64(self) -> u64 {
        (self.level as u64) << 56 | self.index
    }
}

/// log2 of the bytes that a table of `level` covers.
const fn covers_log2(level: Level) -> u32 {
    match level {
        Level::Pde3 => 49,
        Level::Pde2 => 47,
        Level::Pde1 => 38,
        Level::Pde0 | Level::Pte => 29,
    }
}

/// Offset of `va`'s entry in a table of `level` (8-byte entries; PDE0 has 16-byte entries).
pub(super) const fn entry_offset(level: Level, va: GpuVa) -> usize {
    let (shift, entries, bytes) = match level {
        Level::Pde3 => (47, 4, 8),
        Level::Pde2 => (38, 512, 8),
        Level::Pde1 => (29, 512, 8),
        Level::Pde0 | Level::Pte => (21, 256, 16),
    };
    // CAST: the value is below 4096.
    ((va.0 >> shift) % entries * bytes) as usize
}

/// Tables below the root on the way down, each with the level of the table that points to it.
const WAY_DOWN: [(Level, Level); 3] = [
    (Level::Pde3, Level::Pde2),
    (Level::Pde2, Level::Pde1),
    (Level::Pde1, Level::Pde0),
];

/// Where the caller keeps the tables of one tree: a map from key to page (a red-black tree in the kernel, a `BTreeMap`
/// in tests).
pub trait Store {
    /// A 4 KiB page of coherent memory, 4 KiB aligned.
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
///
/// Tables are only added while the space lives, but for [`Tree::release`]. An entry is one aligned 64-bit store, made
/// after its table is zero: the device sees no table or an empty one.
#[derive(Debug)]
pub struct Tree<S: Store> {
    store: S,
    root: SysAddr,
}

impl<S: Store> Tree<S> {
    /// An empty tree with `root` as its root table; the page is zeroed.
    ///
    /// # Errors
    /// [`Error::NoRoom`] when the store has none, [`Error::TooSmall`], [`Error::BadAddress`].
    pub fn new<F: Fence + ?Sized>(fence: &F, mut store: S, root: S::Page) -> Result<Self> {
        let addr = check_page(&root)?;
        zero(&root, TABLE_BYTES);
        fence.wmb();
        store
            .put(TableKey::of(Level::Pde3, GpuVa(0)), root)
            .map_err(|_| Error::NoRoom)?;
        Ok(Tree { store, root: addr })
    }

    /// Bus address of the root: what an instance block and an invalidate name.
    pub fn root(&self) -> SysAddr {
        self.root
    }

    /// Where the tables are kept, for what else the caller keeps there.
    pub fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    /// Tables (0..=3) to supply before `va`'s PDE0 table exists.
    pub fn missing(&self, va: GpuVa) -> usize {
        WAY_DOWN
            .iter()
            .filter(|(_, level)| self.store.get(TableKey::of(*level, va)).is_none())
            .count()
    }

    /// Adds one table on the way to `va`'s PDE0 table, from the top; the page is zeroed. Returns the invalidate for
    /// cached misses.
    ///
    /// # Errors
    /// [`Error::Exists`] when nothing is missing, [`Error::NoRoom`] when the store has none, [`Error::TooSmall`],
    /// [`Error::BadAddress`]; the page comes back in each case.
    pub fn supply<F: Fence + ?Sized>(
        &mut self,
        fence: &F,
        va: GpuVa,
        page: S::Page,
    ) -> core::result::Result<Invalidate, (Error, S::Page)> {
        if va.0 >= VA_LIMIT {
            return Err((Error::BadAddress(va.0), page));
        }
        let entry = match check_page(&page).and_then(pte::pde) {
            Ok(e) => e,
            Err(e) => return Err((e, page)),
        };
        let Some(&(parent, level)) = WAY_DOWN
            .iter()
            .find(|(_, level)| self.store.get(TableKey::of(*level, va)).is_none())
        else {
            return Err((Error::Exists(va.0), page));
        };
        zero(&page, TABLE_BYTES);
        fence.wmb();
        if let Err(page) = self.store.put(TableKey::of(level, va), page) {
            return Err((Error::NoRoom, page));
        }
        if let Some(p) = self.store.get(TableKey::of(parent, va)) {
            p.write64(entry_offset(parent, va), entry);
        }
        fence.wmb();
        Ok(range(level, parent, va, false))
    }

    /// The PDE0 table that covers `va` (512 MiB), for [`super::Block`]. It stays until [`Self::release`].
    pub fn pde0(&self, va: GpuVa) -> Option<&S::Page> {
        self.store.get(TableKey::of(Level::Pde0, va))
    }

    /// Takes the PDE0 table that covers `va` out of the tree if it is empty. The page may be freed only after
    /// the invalidate is done.
    pub fn release<F: Fence + ?Sized>(
        &mut self,
        fence: &F,
        va: GpuVa,
    ) -> Option<(S::Page, Invalidate)> {
        let table = self.pde0(va)?;
        if (0..TABLE_BYTES).step_by(8).any(|o| table.read64(o) != 0) {
            return None;
        }
        let parent = self.store.get(TableKey::of(Level::Pde1, va))?;
        parent.write64(entry_offset(Level::Pde1, va), 0);
        fence.wmb();
        let page = self.store.take(TableKey::of(Level::Pde0, va))?;
        Some((page, range(Level::Pde0, Level::Pde1, va, true)))
    }

    /// The store, to look at.
    pub fn store_ref(&self) -> &S {
        &self.store
    }

    /// The store, to free all tables when the space is gone.
    pub fn into_store(self) -> S {
        self.store
    }
}

/// A directory table's address, if its page can hold one.
fn check_page<P: DmaMem>(page: &P) -> Result<SysAddr> {
    if page.len() < TABLE_BYTES {
        return Err(Error::TooSmall("page table", TABLE_BYTES));
    }
    let addr = SysAddr(page.dma_addr());
    pte::pde(addr).map(|_| addr)
}

/// The invalidate for everything that a table of `level` covers, when an entry in a table of `parent` changed.
fn range(level: Level, parent: Level, va: GpuVa, downgrade: bool) -> Invalidate {
    let bytes = 1u64 << covers_log2(level);
    let first = va.0 & !(bytes - 1);
    Invalidate::cover(GpuVa(first), GpuVa(first | (bytes - 1)), parent, downgrade)
}
