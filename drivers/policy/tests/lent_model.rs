// SPDX-License-Identifier: GPL-2.0
//! Every interleaving of evict, prefetch, write back, fetch, reclaim and exit on a small machine: a lender with two chunks,
//! a borrower with three blocks. All states that can be reached are visited; in each one no block has lost its last copy
//! and no chunk belongs to two.
//!
//! The model is also the protocol: it does with the chunk table what the driver is to do.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that panics is a test that fails"
)]

use huvm_policy::chunk::{
    ChunkEntry, ChunkLists, ChunkState, ChunkTable, EvictNeed, Reclaim, WriteBackEnd,
};
use huvm_policy::types::ChunkId;
use std::collections::{BTreeSet, HashSet};

const CHUNKS: usize = 2;
const BLOCKS: usize = 3;

/// Where the copies of a block are. All that exist are equal: what is written to makes the others go first.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Block {
    alive: bool,
    local: bool,
    host: bool,
    spare: Option<usize>,
}

/// Who empties a chunk.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Claim {
    /// The borrower, which copies it to its own memory.
    Fetch,
    /// The owner, who wants the memory.
    Owner,
}

#[derive(Clone, Debug)]
struct World {
    entries: Vec<ChunkEntry>,
    lists: ChunkLists,
    blocks: [Block; BLOCKS],
    /// Write-backs under way.
    writing: [bool; CHUNKS],
    claims: [Option<Claim>; CHUNKS],
    /// Chunks that the owner's own job has.
    owned: [bool; CHUNKS],
}

#[derive(Clone, Copy, Debug)]
enum Act {
    /// The borrower evicts a block to spare memory.
    Evict(usize),
    /// The borrower's job writes to a block in its own memory.
    Write(usize),
    /// A block on the host is fetched ahead, to spare memory.
    Prefetch(usize),
    /// The borrower drops a local copy that the host has too.
    DropLocal(usize),
    BeginWriteBack,
    EndWriteBack(usize, bool),
    BeginFetch(usize),
    EndFetch(usize, bool),
    BeginReclaim,
    EndReclaim(usize),
    AbortReclaim(usize),
    OwnerFrees(usize),
    Exit(usize),
}

impl World {
    fn new() -> Self {
        let mut w = Self {
            entries: vec![ChunkEntry::new(); CHUNKS],
            lists: ChunkLists::new(),
            blocks: [Block {
                alive: true,
                local: true,
                host: false,
                spare: None,
            }; BLOCKS],
            writing: [false; CHUNKS],
            claims: [None; CHUNKS],
            owned: [false; CHUNKS],
        };
        w.table().format();
        w
    }

    fn table(&mut self) -> ChunkTable<'_> {
        ChunkTable::new(&mut self.entries, &mut self.lists)
    }

    /// The living block whose pages are in a chunk.
    fn block_in(&mut self, c: usize) -> Option<&mut Block> {
        self.blocks.iter_mut().find(|b| b.spare == Some(c))
    }

    /// Does something, if it can be done now. `seen` collects what the table answered.
    fn act(&mut self, act: Act, seen: &mut BTreeSet<String>) -> bool {
        let id = |c: usize| ChunkId(c as u32);
        let mut note = |what: String| {
            seen.insert(what);
        };
        match act {
            Act::Evict(b) if self.blocks[b].alive && self.blocks[b].local => {
                let Some(chunk) = self.table().take_free() else {
                    return false;
                };
                let copied = self.blocks[b].host;
                let c = chunk.lend(&mut self.table(), copied).unwrap();
                self.blocks[b].spare = Some(c.as_usize());
                self.blocks[b].local = false;
            }
            Act::Write(b) if self.blocks[b].local => self.blocks[b].host = false,
            Act::DropLocal(b) if self.blocks[b].local && self.blocks[b].host => {
                self.blocks[b].local = false;
            }
            Act::Prefetch(b) => {
                let Block {
                    alive,
                    local,
                    host,
                    spare,
                } = self.blocks[b];
                if !alive || local || !host || spare.is_some() {
                    return false;
                }
                let Some(chunk) = self.table().take_free() else {
                    return false;
                };
                let c = chunk.lend(&mut self.table(), true).unwrap();
                self.blocks[b].spare = Some(c.as_usize());
            }
            Act::BeginWriteBack => {
                let Some(c) = self.table().take_write_back() else {
                    return false;
                };
                assert!(!self.writing[c.id().as_usize()]);
                self.writing[c.id().as_usize()] = true;
            }
            Act::EndWriteBack(c, copied) if self.writing[c] => {
                self.writing[c] = false;
                let end = self.table().end_write_back(id(c), copied).unwrap();
                note(format!("{end:?}"));
                let published = matches!(end, WriteBackEnd::Removable | WriteBackEnd::Claimed);
                if let Some(b) = self.block_in(c).filter(|_| copied && published) {
                    b.host = true;
                }
            }
            Act::BeginFetch(b) => {
                let Some(c) = self.blocks[b].spare.filter(|&c| self.claims[c].is_none()) else {
                    return false;
                };
                self.table().begin_evict(id(c)).unwrap();
                self.claims[c] = Some(Claim::Fetch);
            }
            Act::EndFetch(c, good) if self.claims[c] == Some(Claim::Fetch) => {
                self.claims[c] = None;
                if good || self.block_in(c).is_none() {
                    if let Some(b) = self.block_in(c) {
                        (b.local, b.spare) = (true, None);
                    }
                    self.table().finish_evict(id(c)).unwrap();
                } else {
                    self.table().abort_evict(id(c)).unwrap();
                }
            }
            Act::BeginReclaim => {
                let Some(how) = self.table().pick_reclaim() else {
                    return false;
                };
                let (c, name) = match how {
                    Reclaim::Removable(c) => (c, "Reclaim::Removable"),
                    Reclaim::WritingBack(c) => (c, "Reclaim::WritingBack"),
                    Reclaim::Only(c) => (c, "Reclaim::Only"),
                    Reclaim::Draining(c) => {
                        assert!(self.writing[c.as_usize()], "nothing to wait for");
                        note("Reclaim::Draining".into());
                        return false;
                    }
                };
                note(name.into());
                self.table().begin_evict(c).unwrap();
                assert_eq!(self.claims[c.as_usize()].replace(Claim::Owner), None);
            }
            Act::EndReclaim(c) if self.claims[c] == Some(Claim::Owner) => {
                let need = self.table().evict_need(id(c)).unwrap();
                note(format!("EvictNeed::{need:?}"));
                match need {
                    EvictNeed::Wait => {
                        assert!(self.table().hand_over(id(c)).is_err());
                        return false;
                    }
                    // The owner copies it to the host itself.
                    EvictNeed::Copy => {
                        if let Some(b) = self.block_in(c) {
                            b.host = true;
                        }
                    }
                    EvictNeed::Nothing => (),
                }
                if let Some(b) = self.block_in(c) {
                    b.spare = None;
                }
                self.table().hand_over(id(c)).unwrap();
                (self.claims[c], self.owned[c]) = (None, true);
            }
            // It got memory elsewhere.
            Act::AbortReclaim(c) if self.claims[c] == Some(Claim::Owner) => {
                self.claims[c] = None;
                if self.block_in(c).is_some() {
                    self.table().abort_evict(id(c)).unwrap();
                } else {
                    self.table().finish_evict(id(c)).unwrap();
                }
            }
            Act::OwnerFrees(c) if self.owned[c] => {
                self.owned[c] = false;
                self.table().free(id(c)).unwrap();
            }
            Act::Exit(b) if self.blocks[b].alive => {
                let spare = self.blocks[b].spare;
                self.blocks[b] = Block {
                    alive: false,
                    local: false,
                    host: false,
                    spare: None,
                };
                // What somebody else is emptying is his to finish.
                if let Some(c) = spare.filter(|&c| self.claims[c].is_none()) {
                    self.table().free(id(c)).unwrap();
                }
            }
            _ => return false,
        }
        true
    }

    /// What must hold at every instant.
    fn check(&mut self) {
        for b in self.blocks {
            assert!(
                !b.alive || b.local || b.host || b.spare.is_some(),
                "the last copy is gone"
            );
            assert!(b.alive || b.spare.is_none());
        }
        for c in 0..CHUNKS {
            let id = ChunkId(c as u32);
            let copying = self.table().is_copying(id);
            assert_eq!(
                copying, self.writing[c],
                "a write-back is forgotten, or invented"
            );
            let tenants: Vec<Block> = self
                .blocks
                .iter()
                .copied()
                .filter(|b| b.spare == Some(c))
                .collect();
            assert!(tenants.len() <= 1, "two blocks in one chunk");
            let state = self.table().state(id).unwrap();
            let (claimed, owned) = (self.claims[c].is_some(), self.owned[c]);
            match state {
                ChunkState::Free => assert!(!copying && !claimed && !owned && tenants.is_empty()),
                ChunkState::Pinned => {
                    assert!(!claimed && tenants.is_empty());
                    // Its owner's, or drained: never both.
                    assert_ne!(owned, copying);
                }
                ChunkState::LentOnly => assert!(tenants.len() == 1 && !claimed && !owned),
                ChunkState::LentRemovable => {
                    assert!(tenants.len() == 1 && !claimed && !owned && !copying);
                    assert!(tenants[0].host, "removable, and the host has no copy");
                }
                ChunkState::Evicting => assert!(claimed && !owned),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn no_interleaving_loses_a_block_or_a_chunk() {
    let mut acts = vec![Act::BeginWriteBack, Act::BeginReclaim];
    for b in 0..BLOCKS {
        acts.extend([
            Act::Evict(b),
            Act::Write(b),
            Act::Prefetch(b),
            Act::DropLocal(b),
        ]);
        acts.extend([Act::BeginFetch(b), Act::Exit(b)]);
    }
    for c in 0..CHUNKS {
        acts.extend([true, false].map(|ok| Act::EndWriteBack(c, ok)));
        acts.extend([true, false].map(|ok| Act::EndFetch(c, ok)));
        acts.extend([Act::EndReclaim(c), Act::AbortReclaim(c), Act::OwnerFrees(c)]);
    }
    let mut seen = BTreeSet::new();
    let mut known = HashSet::new();
    let mut todo = vec![World::new()];
    while let Some(world) = todo.pop() {
        if !known.insert(format!("{world:?}")) {
            continue;
        }
        for &act in &acts {
            let mut next = world.clone();
            if next.act(act, &mut seen) {
                next.check();
                todo.push(next);
            }
        }
        // Whatever the state, all that is under way can end, and every chunk is then free or somebody's.
        let mut end = world.clone();
        for c in 0..CHUNKS {
            end.act(Act::EndWriteBack(c, true), &mut seen);
            end.act(Act::EndFetch(c, true), &mut seen);
            end.act(Act::EndReclaim(c), &mut seen);
            end.act(Act::OwnerFrees(c), &mut seen);
        }
        for b in 0..BLOCKS {
            end.act(Act::Exit(b), &mut seen);
        }
        end.check();
        assert_eq!(
            end.table().count(ChunkState::Free),
            CHUNKS as u32,
            "{world:?}"
        );
    }
    assert!(known.len() > 20_000, "only {} states", known.len());
    let want = [
        "Claimed",
        "EvictNeed::Copy",
        "EvictNeed::Nothing",
        "EvictNeed::Wait",
        "Freed",
        "Reclaim::Draining",
        "Reclaim::Only",
        "Reclaim::Removable",
        "Reclaim::WritingBack",
        "Removable",
        "StillOnly",
    ];
    assert_eq!(seen.iter().map(String::as_str).collect::<Vec<_>>(), want);
    println!("{} states", known.len());
}
