// SPDX-License-Identifier: GPL-2.0
//! Making the channels of a GPU: address space, instance blocks, runlists.

use super::lane::{Disobeyed, Lane, Parts, SharedBuf};
use super::pool::Ce;
use super::{table, Engine};
use crate::account::latency::Latencies;
use crate::account::waits::{Listed, What};
use crate::kernel::dma::{DmaBuf, DmaDev};
use crate::kernel::mmio::Bars;
use huvm_hal::channel::{Channel, Layout, Window};
use huvm_hal::ga100::bringup;
use huvm_hal::ga100::instance::{self, INSTANCE_BYTES};
use huvm_hal::ga100::invalidate;
use huvm_hal::ga100::runlist::{runlist_bytes, Entry, Runlist};
use huvm_hal::ids::{Chid, GpuVa, SysAddr};
use huvm_hal::pagetable::{self, Block, Invalidate, TableKey, Tree};
use huvm_hal::seam::DmaMem;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Where channels see their rings and semaphores: any 2 MiB below 1 TiB.
const WINDOW_VA: GpuVa = GpuVa(0x4000_0000);
/// How long the device may take for one step of the set-up.
const STEP_NS: u64 = 1_000_000_000;
/// What a channel counts its pushes from. The semaphore has 32 bits of their numbers, which wrap soon this way, in every run, and not after
/// days; as the kernel's jiffies do.
const BEFORE_FIRST: u32 = 0u32.wrapping_sub(Layout::DEFAULT.entries());
/// Bytes of a table page.
const TABLE_BYTES: usize = 4096;

/// The few tables of the channels' address space.
pub(super) struct Store(KVec<(TableKey, DmaBuf)>);

impl pagetable::Store for Store {
    type Page = DmaBuf;
    fn get(&self, key: TableKey) -> Option<&DmaBuf> {
        self.0.iter().find(|(k, _)| *k == key).map(|(_, p)| p)
    }
    fn put(&mut self, key: TableKey, page: DmaBuf) -> core::result::Result<(), DmaBuf> {
        if self.0.reserve(1, GFP_KERNEL).is_err() {
            return Err(page);
        }
        match self.0.push_within_capacity((key, page)) {
            Ok(()) => Ok(()),
            Err(e) => Err(e.0 .1),
        }
    }
    fn take(&mut self, key: TableKey) -> Option<DmaBuf> {
        let at = self.0.iter().position(|(k, _)| *k == key)?;
        self.0.remove(at).ok().map(|(_, p)| p)
    }
}

/// What was mapped into the channels' address space. Usable once the GPU has dropped what is stale.
pub(crate) struct Mapped {
    pub(crate) va: GpuVa,
    /// Of the space.
    pub(crate) root: SysAddr,
    pub(crate) stale: Invalidate,
}

/// Everything of the channels that the device reaches but the rings themselves.
pub(super) struct Space {
    /// Index of the GPU.
    gpu: u8,
    bars: Arc<Bars>,
    tree: Tree<Store>,
    window: Window<DmaBuf>,
    /// Instance blocks.
    instances: KVec<DmaBuf>,
    /// Runlists with their lists.
    lists: KVec<(Runlist, DmaBuf)>,
    /// A page that all channels see, for self tests, and its address.
    scratch: Option<(GpuVa, SharedBuf)>,
    /// Buffers that were mapped for good.
    kept: KVec<Arc<DmaBuf>>,
}

impl Space {
    fn new(gpu: u8, bars: &Arc<Bars>, dma: &Arc<DmaDev>) -> Result<Space> {
        let store = Store(KVec::new());
        let mut tree = Tree::new(&**bars, store, DmaBuf::new(dma, TABLE_BYTES)?).map_err(errno)?;
        // Three levels below the root.
        for _ in 0..tree.missing(WINDOW_VA) {
            let page = DmaBuf::new(dma, TABLE_BYTES)?;
            tree.supply(&**bars, WINDOW_VA, page)
                .map_err(|(e, _page)| errno(e))?;
        }
        let window = Window::new(
            WINDOW_VA,
            DmaBuf::new(dma, Block::<DmaBuf>::SMALL_BYTES)?,
            DmaBuf::new(dma, Block::<DmaBuf>::BIG_BYTES)?,
        )
        .map_err(errno)?;
        let space = Space {
            gpu,
            bars: bars.clone(),
            tree,
            window,
            instances: KVec::new(),
            lists: KVec::new(),
            scratch: None,
            kept: KVec::new(),
        };
        space.forget().map_err(errno)?;
        Ok(space)
    }

    /// For one step.
    fn patience(&self) -> Listed {
        Listed::new(What::Step, self.gpu, 0, STEP_NS)
    }

    /// Drops every cached translation of this space. The page that its root is in may have been another space's root, and
    /// will be: the device tells spaces apart by that address alone.
    fn forget(&self) -> huvm_hal::Result<()> {
        let mut patience = self.patience();
        invalidate::invalidate_pdb(&*self.bars, self.tree.root(), &mut || patience.again())
    }

    pub(super) fn scratch(&self) -> Option<(GpuVa, SharedBuf)> {
        self.scratch.clone()
    }

    /// Maps a buffer for good, and keeps it.
    pub(super) fn keep(&mut self, bars: &Bars, mem: &Arc<DmaBuf>) -> Result<Mapped> {
        self.kept.reserve(1, GFP_KERNEL)?;
        let mapped = self.enter(bars, &**mem)?;
        self.kept.push(mem.clone(), GFP_KERNEL)?;
        Ok(mapped)
    }

    pub(super) fn root(&self) -> SysAddr {
        self.tree.root()
    }

    fn enter(&mut self, bars: &Bars, mem: &impl DmaMem) -> Result<Mapped> {
        let pde0 = self.tree.pde0(WINDOW_VA).ok_or(EIO)?;
        let (va, stale) = self.window.map(bars, pde0, mem).map_err(errno)?;
        Ok(Mapped {
            va,
            root: self.tree.root(),
            stale,
        })
    }

    /// Maps a buffer while the GPU starts: nobody else gives commands to it.
    fn map(&mut self, bars: &Bars, mem: &impl DmaMem) -> Result<GpuVa> {
        let m = self.enter(bars, mem)?;
        let mut patience = self.patience();
        invalidate::invalidate_va(bars, m.root, &m.stale, &mut || patience.again())
            .map_err(errno)?;
        Ok(m.va)
    }

    /// Empties the runlists: the host schedules nothing of ours any more, and forgets our translations. Whether it did all of that.
    pub(super) fn stop(&self) -> bool {
        let mut did_all = true;
        for (runlist, list) in self.lists.iter() {
            let mut patience = self.patience();
            match runlist.submit(&*self.bars, list, &[], &mut || patience.again()) {
                Ok(()) | Err(huvm_hal::Error::Gone) => {}
                Err(e) => {
                    pr_err!("runlist {:#x}: {:?}\n", runlist.base, e);
                    did_all = false;
                }
            }
        }
        match self.forget() {
            Ok(()) | Err(huvm_hal::Error::Gone) => {}
            Err(e) => {
                pr_err!("channel space: {:?}\n", e);
                did_all = false;
            }
        }
        did_all
    }
}

/// The kernel's error for one of the hardware crate. A device that does not do as told is `EIO` to who meets it first, as it is to all
/// who come later; `ETIMEDOUT` is for limits that callers set.
pub(crate) fn errno(e: huvm_hal::Error) -> Error {
    match e {
        huvm_hal::Error::Busy(_) => EBUSY,
        huvm_hal::Error::NoRoom => ENOMEM,
        huvm_hal::Error::Absent(_) => EOPNOTSUPP,
        _ => EIO,
    }
}

/// Whether a copy engine can serve a kind of traffic.
fn fits(ce: &Ce, engine: Engine) -> bool {
    ce.caps.is_none_or(|c| match engine {
        Engine::HostToDevice | Engine::Ahead => c.sys_read,
        Engine::DeviceToHost => c.sys_write,
        Engine::Peer | Engine::PeerIn => c.peer,
        Engine::Local => c.local,
    })
}

/// A copy engine for each kind of traffic: one of its own if there is one that can, else one that is shared, else any. What is fetched
/// ahead shares that of what is needed.
fn choose(engines: &[Ce]) -> [usize; Engine::COUNT] {
    let mut of = [0usize; Engine::COUNT];
    let mut taken = 0u32;
    let mut needed = None;
    for (slot, kind) in of.iter_mut().zip(Engine::ALL) {
        let shared = needed.filter(|_| kind == Engine::Ahead);
        let able = |i: &usize| engines.get(*i).is_some_and(|c| fits(c, kind));
        let free = |i: &usize| taken & (1 << (*i & 31)) == 0;
        let best = (0..engines.len())
            .find(|i| able(i) && free(i))
            .or(shared)
            .or_else(|| (0..engines.len()).find(able))
            .unwrap_or(0);
        taken |= 1 << (best & 31);
        needed.get_or_insert(best);
        *slot = best;
    }
    of
}

/// What [`make`] made.
pub(super) struct Made {
    pub(super) lanes: KVec<Arc<Lane>>,
    /// The lane of each engine.
    pub(super) of: [usize; Engine::COUNT],
    /// What they stand on.
    pub(super) space: Space,
    /// The copy engine of each lane.
    used: KVec<usize>,
}

/// Makes one channel for each copy engine that is needed. The GPU runs none of them yet.
pub(super) fn make(
    gpu: u8,
    bars: &Arc<Bars>,
    dma: &Arc<DmaDev>,
    engines: &[Ce],
    (latencies, disobeyed): (&Arc<Latencies>, Disobeyed),
) -> Result<Made> {
    if engines.is_empty() {
        return Err(ENODEV);
    }
    let chosen = choose(engines);
    let mut space = Space::new(gpu, bars, dma)?;
    let mut lanes: KVec<Arc<Lane>> = KVec::new();
    let mut used: KVec<usize> = KVec::new();
    let mut of = [0usize; Engine::COUNT];
    for ((slot, ce), kind) in of.iter_mut().zip(chosen).zip(Engine::ALL) {
        if let Some(at) = used.iter().position(|u| *u == ce) {
            *slot = at;
            continue;
        }
        *slot = lanes.len();
        used.push(ce, GFP_KERNEL)?;
        let ce = engines.get(ce).ok_or(ENODEV)?;
        lanes.push(
            lane(
                (gpu, latencies, disobeyed),
                kind,
                lanes.len(),
                &mut space,
                bars,
                dma,
                ce,
            )?,
            GFP_KERNEL,
        )?;
    }
    let page = SharedBuf(Arc::new(DmaBuf::new(dma, TABLE_BYTES)?, GFP_KERNEL)?);
    let va = space.map(bars, &page)?;
    space.scratch = Some((va, page));
    Ok(Made {
        lanes,
        of,
        space,
        used,
    })
}

/// Lets the GPU run the channels. After an error it may run some.
pub(super) fn run(made: &mut Made, engines: &[Ce], dma: &Arc<DmaDev>) -> Result {
    for l in made.lanes.iter() {
        table::add(l.clone())?;
    }
    schedule(&mut made.space, &made.lanes, &made.used, engines, dma)
}

fn lane(
    (gpu, latencies, disobeyed): (u8, &Arc<Latencies>, Disobeyed),
    kind: Engine,
    n: usize,
    space: &mut Space,
    bars: &Arc<Bars>,
    dma: &Arc<DmaDev>,
    ce: &Ce,
) -> Result<Arc<Lane>> {
    let layout = Layout::DEFAULT;
    let mem = SharedBuf(Arc::new(DmaBuf::new(dma, layout.bytes())?, GFP_KERNEL)?);
    let va = space.map(bars, &mem)?;
    let runlist = ce.engine.runlist;
    // Each copy engine has a runlist of its own, or shares one: then the numbers differ.
    let chid = Chid(u16::try_from(n)?);
    let channel = Channel::new(
        table::next_id(),
        chid,
        runlist.token(chid),
        layout,
        mem.clone(),
        va,
    )
    .map_err(errno)?
    .counting_from(BEFORE_FIRST);
    // The engine's own, so that it does not matter which of the two interrupts.
    let vector = bringup::copy_vector(&**bars, &ce.engine).map_err(errno)?;
    let inst = DmaBuf::new(dma, INSTANCE_BYTES)?;
    let refusal = bringup::refusal_vector(&**bars, &ce.engine).map_err(errno)?;
    let says = channel.instance(space.root(), Some(vector), ce.method_buffer);
    instance::fill_channel(&inst, &says).map_err(errno)?;
    space.instances.push(inst, GFP_KERNEL)?;
    Lane::new(Parts {
        gpu,
        engine: kind,
        bars: bars.clone(),
        ce: ce.engine,
        vector,
        refusal,
        channel,
        mem,
        latencies: latencies.clone(),
        disobeyed,
    })
}

/// Gives the channels to the runlists of their engines, and enables them.
fn schedule(
    space: &mut Space,
    lanes: &[Arc<Lane>],
    used: &[usize],
    engines: &[Ce],
    dma: &Arc<DmaDev>,
) -> Result {
    let bars = space.bars.clone();
    for ce in used.iter().filter_map(|u| engines.get(*u)) {
        bringup::ready_copy_engine(&*bars, &ce.engine).map_err(errno)?;
        let runlist = ce.engine.runlist;
        if space.lists.iter().any(|(r, _)| *r == runlist) {
            continue;
        }
        let list = DmaBuf::new(dma, runlist_bytes(used.len()).max(TABLE_BYTES))?;
        let mut patience = space.patience();
        runlist
            .init(&*bars, &mut || patience.again())
            .map_err(errno)?;
        space.lists.push((runlist, list), GFP_KERNEL)?;
    }
    for (runlist, list) in space.lists.iter() {
        let mut entries: KVec<Entry> = KVec::new();
        for (n, (l, inst)) in lanes.iter().zip(space.instances.iter()).enumerate() {
            let on = used.get(n).and_then(|u| engines.get(*u));
            if on.is_some_and(|ce| ce.engine.runlist == *runlist) {
                entries.push(
                    Entry {
                        chid: l.chid(),
                        instance: SysAddr(inst.dma_addr()),
                        userd: l.userd().ok_or(EIO)?,
                    },
                    GFP_KERNEL,
                )?;
            }
        }
        // What an earlier owner's channels of these numbers left, such as a fault.
        for e in entries.iter() {
            runlist.reset_channel(&*bars, e.chid).map_err(errno)?;
        }
        let mut patience = space.patience();
        runlist
            .submit(&*bars, list, &entries, &mut || patience.again())
            .map_err(errno)?;
        for e in entries.iter() {
            runlist.enable(&*bars, e.chid).map_err(errno)?;
        }
    }
    Ok(())
}
