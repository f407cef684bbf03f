// SPDX-License-Identifier: GPL-2.0
//! A space on one GPU: page tables and the instance block that names them.

use crate::channel::errno;
use crate::device::faults::next_packet;
use crate::device::Gpu;
use crate::kernel::dma::DmaBuf;
use crate::kernel::memcg::{For, MemCg, CHARGED};
use crate::kernel::time;
use huvm_hal::ga100::instance;
use huvm_hal::ids::{GpuVa, SysAddr, Veid};
use huvm_hal::pagetable::{self, Invalidate, Level, Need, TableKey, Tree};
use huvm_lockless::prepared::Prepared;
use huvm_policy::grain::Grain;
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNodeReservation};
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_mutex, Arc, Mutex};

/// Keeps the directory tables of one tree.
pub(crate) struct Store {
    tables: RBTree<u64, DmaBuf>,
    /// For the table that comes next.
    room: Option<Room>,
}

/// Room for one table more.
type Room = RBTreeNodeReservation<u64, DmaBuf>;

/// A key as one number: level in the top byte (an index has at most 28 bits).
fn key(k: TableKey) -> u64 {
    ((k.level as u64) << 56) | k.index
}

impl pagetable::Store for Store {
    type Page = DmaBuf;

    fn get(&self, k: TableKey) -> Option<&DmaBuf> {
        self.tables.get(&key(k))
    }

    fn put(&mut self, k: TableKey, page: DmaBuf) -> core::result::Result<(), DmaBuf> {
        match self.room.take() {
            Some(room) => {
                self.tables.insert(room.into_node(key(k), page));
                Ok(())
            }
            None => Err(page),
        }
    }

    fn take(&mut self, k: TableKey) -> Option<DmaBuf> {
        self.tables.remove(&key(k))
    }
}

/// Tables that were made for a tree; what it has no need of is given back.
struct Spares {
    /// From the first on.
    tables: [Option<(DmaBuf, Room)>; BELOW_ROOT],
    /// Why there are no more.
    end: Error,
}

impl Spares {
    const fn none() -> Self {
        Spares {
            tables: [const { None }; BELOW_ROOT],
            end: EIO,
        }
    }

    fn take(&mut self) -> Option<(DmaBuf, Room)> {
        self.tables.iter_mut().find_map(Option::take)
    }
}

/// Levels of directory tables below the root.
const BELOW_ROOT: usize = 3;

/// Page tables of one block on one GPU.
pub(crate) type BlockTables = pagetable::Block<DmaBuf>;

/// A space on one GPU. Lives as long as the space has the GPU registered or a block has state there.
#[pin_data]
pub(crate) struct SpaceGpu {
    /// The GPU.
    pub(crate) gpu: Arc<Gpu>,
    /// Whom its tables are charged to.
    pub(crate) memory: Arc<MemCg>,
    /// Subcontext of this space's launches.
    pub(crate) veid: u8,
    /// Whether blocks may take new state here: [`OPEN`], [`LEAVING`], [`STOPPED`].
    state: Atomic<u32>,
    /// When it was made, ns: what was raised at an instance block of this address before is somebody else's.
    made_ns: u64,
    /// The number of the first packet of faults that is its own, likewise.
    first_packet: u64,
    inst: DmaBuf,
    root: SysAddr,
    /// How often what is fetched ahead for it was given up.
    pub(crate) prefetch_abandon: Atomic<u32>,
    /// [`Grain`] of its ranges, by [`Self::grain_of`].
    grains: [Atomic<u32>; GRAINS],
    /// The last 512 MiB that [`Self::prepare`] was called for. Tables stay as long as the space.
    prepared: Prepared,
    #[pin]
    tree: Mutex<Tree<Store>>,
}

/// Of so many ranges is known whether their blocks are fetched whole.
const GRAINS: usize = 16;

/// Blocks take new state.
const OPEN: u32 = 0;
/// They do not, while what they have is brought home: then it is stopped, or open again.
const LEAVING: u32 = 1;
/// They never will again.
const STOPPED: u32 = 2;

/// log2 of the bytes that one table of block entries (PDE0) covers.
const PDE0_SHIFT: u32 = 29;

impl SpaceGpu {
    /// Empty tables and an instance block with fault replay on, charged to `memory`.
    ///
    /// # Errors
    /// `ENOMEM`, `EIO`.
    pub(crate) fn new(gpu: Arc<Gpu>, veid: u8, memory: Arc<MemCg>) -> Result<Arc<Self>> {
        let inst = gpu.dma_alloc_for(&memory, instance::INSTANCE_BYTES)?;
        let store = Store {
            tables: RBTree::new(),
            room: Some(Room::new(CHARGED)?),
        };
        let tree = Tree::new(&*gpu, store, gpu.dma_alloc_for(&memory, 4096)?).map_err(errno)?;
        let root = tree.root();
        instance::fill_workload(&inst, root).map_err(|_| EIO)?;
        // The root may have been a table before, of a space that the GPU still remembers.
        let whole = Invalidate::cover(GpuVa(0), GpuVa(super::VA_LIMIT - 1), Level::Pde3, true);
        gpu.tlb_invalidate(root, &whole)?;
        let first_packet = next_packet(&gpu);
        Arc::pin_init(
            pin_init!(Self {
                gpu,
                memory,
                veid,
                state: Atomic::new(OPEN),
                made_ns: time::now_ns(),
                first_packet,
                inst,
                root,
                prefetch_abandon: Atomic::new(0),
                grains: [const { Atomic::new(Grain::UNKNOWN.word()) }; GRAINS],
                prepared: Prepared::new(),
                tree <- new_mutex!(tree, "huvm_tree"),
            }),
            GFP_KERNEL,
        )
    }

    /// Where the ranges that begin at this block have theirs. Two may share one.
    pub(crate) fn grain_of(range: u64) -> u8 {
        // CAST: the number of slots.
        (range.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u8 % GRAINS as u8
    }

    /// Asks or tells how its blocks are fetched. Of two who do so at once one may not be heard: it is statistics.
    pub(crate) fn grain<T: Default>(&self, slot: u8, f: impl FnOnce(&mut Grain) -> T) -> T {
        let Some(word) = self.grains.get(usize::from(slot)) else {
            return T::default();
        };
        let mut grain = Grain::of_word(word.load(Relaxed));
        let did = f(&mut grain);
        word.store(grain.word(), Relaxed);
        did
    }

    /// No block takes new state on this GPU from here on. Set before the blocks are walked, read under their locks.
    pub(crate) fn stop(&self) {
        self.state.store(STOPPED, Relaxed);
    }

    /// The same for one who may have to [`stay`](Self::stay).
    ///
    /// # Errors
    /// `EBUSY`: somebody else is about to leave; `ENOENT`: it was stopped.
    pub(crate) fn leave(&self) -> Result {
        match self.state.cmpxchg(OPEN, LEAVING, Relaxed) {
            Ok(_) => Ok(()),
            Err(LEAVING) => Err(EBUSY),
            Err(_) => Err(ENOENT),
        }
    }

    /// Who called [`leave`](Self::leave) stays. If it was stopped meanwhile it stays so.
    pub(crate) fn stay(&self) {
        let _stopped = self.state.cmpxchg(LEAVING, OPEN, Relaxed);
    }

    /// Whether no block may take new state on this GPU.
    pub(crate) fn is_stopped(&self) -> bool {
        self.state.load(Relaxed) != OPEN
    }

    /// When it was made, ns.
    pub(crate) fn made_ns(&self) -> u64 {
        self.made_ns
    }

    /// The number of the first packet of faults that is its own, as [`next_packet`] said when it was made.
    pub(crate) fn first_packet(&self) -> u64 {
        self.first_packet
    }

    /// Bus address of the instance block: what fault packets carry.
    pub(crate) fn instance(&self) -> u64 {
        use huvm_hal::seam::DmaMem;
        self.inst.dma_addr()
    }

    /// The root of the page tables: what an invalidate or a cancel names.
    pub(crate) fn root(&self) -> SysAddr {
        self.root
    }

    /// Subcontext as the hardware crate has it.
    pub(crate) fn veid(&self) -> Veid {
        Veid(self.veid)
    }

    /// Directory tables down to the one that covers `va`. Allocates; call it before changing anything.
    ///
    /// # Errors
    /// `ENOMEM`, `EIO`.
    pub(crate) fn prepare(&self, va: u64) -> Result {
        self.prepared.prepare(
            va >> PDE0_SHIFT,
            || {
                let tree = self.tree.lock();
                match tree.missing(GpuVa(va)) {
                    0 => (tree, Spares::none()),
                    n => {
                        drop(tree);
                        let spares = self.spares(n);
                        (self.tree.lock(), spares)
                    }
                }
            },
            |(tree, spares)| self.supply_directories(tree, va, spares),
            |(done, failed)| {
                // Tables above one that failed stay. Whoever comes next finds them there and does not invalidate what the GPU
                // knows of their absence.
                if let Some(inv) = done {
                    self.gpu.tlb_invalidate(self.root, &inv)?;
                }
                failed
            },
        )
    }

    /// Up to `n` tables, made with the tree unlocked: where the client's cgroup is at its limit the kernel looks for memory for long, and
    /// threads that serve everybody want the lock.
    fn spares(&self, n: usize) -> Spares {
        let mut spares = Spares::none();
        for spare in spares.tables.iter_mut().take(n) {
            match self.spare() {
                Ok(table) => *spare = Some(table),
                Err(e) => {
                    spares.end = e;
                    break;
                }
            }
        }
        spares
    }

    fn spare(&self) -> Result<(DmaBuf, Room)> {
        let page = self.buffer(4096)?;
        let room = || Room::new(CHARGED);
        Ok((page, self.memory.asked(For::Records, room)?))
    }

    /// Directory tables down to the one that covers `va`, as far as there are spares for them. What is to be invalidated.
    fn supply_directories(
        &self,
        tree: &mut Tree<Store>,
        va: u64,
        spares: &mut Spares,
    ) -> (Option<Invalidate>, Result) {
        let mut done: Option<Invalidate> = None;
        // Somebody else may have made some meanwhile.
        for _ in 0..tree.missing(GpuVa(va)) {
            let Some((page, room)) = spares.take() else {
                return (done, Err(spares.end));
            };
            tree.store_mut().room = Some(room);
            match tree.supply(&*self.gpu, GpuVa(va), page) {
                Ok(inv) => done = Some(done.map_or(inv, |d| d.merge(&inv))),
                Err(_) => return (done, Err(EIO)),
            }
        }
        (done, Ok(()))
    }

    /// Runs `f` on the PDE0 table that covers `va`, supplying block tables it asks for, and does the invalidate that it
    /// returns. `tables` is the block's, under the block's lock.
    ///
    /// # Errors
    /// `ENOMEM` (nothing was changed), `EIO`.
    pub(crate) fn change(
        &self,
        tables: &mut BlockTables,
        mut f: impl FnMut(&mut BlockTables, &Gpu, &DmaBuf) -> huvm_hal::Result<Option<Invalidate>>,
    ) -> Result {
        // A block needs at most its two tables, so the third turn succeeds.
        for _ in 0..3 {
            let did = {
                let tree = self.tree.lock();
                let pde0 = tree.pde0(tables.va()).ok_or(EIO)?;
                f(tables, &self.gpu, pde0)
            };
            match did {
                Ok(Some(inv)) => return self.gpu.tlb_invalidate(self.root, &inv),
                Ok(None) => return Ok(()),
                Err(huvm_hal::Error::NeedTables(need)) => self.supply(tables, need)?,
                Err(_) => return Err(EIO),
            }
        }
        Err(EIO)
    }

    fn buffer(&self, bytes: usize) -> Result<DmaBuf> {
        self.gpu.dma_alloc_for(&self.memory, bytes)
    }

    fn supply(&self, tables: &mut BlockTables, need: Need) -> Result {
        if need.small {
            let page = self.buffer(BlockTables::SMALL_BYTES)?;
            tables.supply_small(page).map_err(|_| EIO)?;
        }
        if need.big {
            let page = self.buffer(BlockTables::BIG_BYTES)?;
            tables.supply_big(page).map_err(|_| EIO)?;
        }
        Ok(())
    }

    /// Drops every cached translation of this space.
    ///
    /// # Errors
    /// `EIO`.
    pub(crate) fn invalidate_all(&self) -> Result {
        let whole = Invalidate::cover(GpuVa(0), GpuVa(super::VA_LIMIT - 1), Level::Pde3, true);
        self.gpu.tlb_invalidate(self.root, &whole)
    }

    /// New tables for a block.
    ///
    /// # Errors
    /// `EINVAL` for an address that the GPU cannot name.
    pub(crate) fn block_tables(va: u64) -> Result<BlockTables> {
        BlockTables::new(GpuVa(va)).map_err(|_| EINVAL)
    }
}
