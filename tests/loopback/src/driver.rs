// SPDX-License-Identifier: GPL-2.0
//! A driver of a few lines: bring-up, channels, one VA space, faults. It shows how the duties fit together, as the
//! kernel module uses them, without policy and without locks.

use crate::{Gpu, Loop, Mem};
use huvm_hal::channel::{Channel, Layout, SubmitFlags, Window};
use huvm_hal::ext::discover::{discover, Extension};
use huvm_hal::ext::program::{build, Header, Instr};
use huvm_hal::ext::workload::{Report, Status};
use huvm_hal::ga100::bringup::{identify, ready_copy_engine, CopyEngine, Identity};
use huvm_hal::ga100::fault::{Fault, FaultRing, RingKind};
use huvm_hal::ga100::instance::{fill_channel, fill_workload, INSTANCE_BYTES, METHOD_BUFFER_BYTES};
use huvm_hal::ga100::invalidate::{invalidate_va, replay, ReplayKind};
use huvm_hal::ga100::irq;
use huvm_hal::ga100::runlist::{self, runlist_bytes};
use huvm_hal::ids::*;
use huvm_hal::pagetable::{Block, Invalidate, MapFlags, Prot, Store, TableKey, Tree};
use huvm_hal::seam::{poll, DmaMem};
use huvm_hal::{Error, Result};
use std::collections::btree_map::{BTreeMap, Entry};

/// Directory tables of a tree.
#[derive(Default)]
pub struct Tables(BTreeMap<TableKey, Mem>);

impl Store for Tables {
    type Page = Mem;
    fn get(&self, key: TableKey) -> Option<&Mem> {
        self.0.get(&key)
    }
    fn put(&mut self, key: TableKey, page: Mem) -> core::result::Result<(), Mem> {
        self.0.insert(key, page).map_or(Ok(()), Err)
    }
    fn take(&mut self, key: TableKey) -> Option<Mem> {
        self.0.remove(&key)
    }
}

/// Read, write, no atomics.
pub const RW: MapFlags = MapFlags {
    prot: Prot::ReadWrite,
    cached: false,
};
/// Read only.
pub const RO: MapFlags = MapFlags {
    prot: Prot::Read,
    cached: false,
};

/// A VA space on one GPU.
pub struct Space {
    /// Upper levels.
    pub tree: Tree<Tables>,
    /// Blocks that were ever mapped.
    pub blocks: BTreeMap<u64, Block<Mem>>,
    gpu: Gpu,
}

impl Space {
    /// An empty space.
    ///
    /// # Errors
    /// Those of [`Tree::new`].
    pub fn new(gpu: &Gpu) -> Result<Space> {
        let root = gpu.machine().alloc(4096);
        Ok(Space {
            tree: Tree::new(gpu, Tables::default(), root)?,
            blocks: BTreeMap::new(),
            gpu: gpu.clone(),
        })
    }

    /// Makes sure that `va`'s PDE0 table exists.
    ///
    /// # Errors
    /// Those of [`Tree::supply`].
    pub fn reach(&mut self, va: GpuVa) -> Result<Option<Invalidate>> {
        let mut inv: Option<Invalidate> = None;
        while self.tree.missing(va) > 0 {
            let page = self.gpu.machine().alloc(4096);
            let i = self.tree.supply(&self.gpu, va, page).map_err(|(e, _)| e)?;
            inv = Some(inv.map_or(i, |o| o.merge(&i)));
        }
        Ok(inv)
    }

    /// Runs `op` on the block of `va`, with all tables that it asks for. Does not invalidate.
    ///
    /// # Errors
    /// Those of `op`.
    pub fn with_block(
        &mut self,
        va: GpuVa,
        op: impl Fn(&mut Block<Mem>, &Gpu, &Mem) -> Result<Option<Invalidate>>,
    ) -> Result<Option<Invalidate>> {
        let base = GpuVa(va.0 & !(BLOCK_BYTES - 1));
        let reach = self.reach(base)?;
        let pde0 = self.tree.pde0(base).ok_or(Error::NoTable(base.0))?.clone();
        let block = match self.blocks.entry(base.0) {
            Entry::Vacant(e) => e.insert(Block::new(base)?),
            Entry::Occupied(e) => e.into_mut(),
        };
        loop {
            match op(block, &self.gpu, &pde0) {
                Err(Error::NeedTables(need)) => {
                    if need.small {
                        let t = self.gpu.machine().alloc(4096);
                        block.supply_small(t).map_err(|(e, _)| e)?;
                    }
                    if need.big {
                        let t = self.gpu.machine().alloc_aligned(256, 256);
                        block.supply_big(t).map_err(|(e, _)| e)?;
                    }
                }
                Ok(inv) => {
                    return Ok(match (inv, reach) {
                        (Some(a), Some(b)) => Some(a.merge(&b)),
                        (a, b) => a.or(b),
                    })
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Maps the pages of `mask` of the block at `va`, page `i` to `target(i)`, and invalidates by registers.
    ///
    /// # Errors
    /// Those of [`Block::map`].
    pub fn map(
        &mut self,
        va: GpuVa,
        mask: &PageMask,
        flags: MapFlags,
        target: impl Fn(u16) -> Loc,
    ) -> Result<()> {
        let inv = self.with_block(va, |b, f, p| b.map(f, p, mask, flags, &target))?;
        self.invalidate(inv)
    }

    /// Unmaps the pages of `mask` of the block at `va`, and invalidates.
    ///
    /// # Errors
    /// Those of [`Block::unmap`].
    pub fn unmap(&mut self, va: GpuVa, mask: &PageMask) -> Result<()> {
        let inv = self.with_block(va, |b, f, p| b.unmap(f, p, mask))?;
        self.invalidate(inv)
    }

    /// Takes write permission, and invalidates.
    ///
    /// # Errors
    /// Those of [`Block::revoke_write`].
    pub fn revoke_write(&mut self, va: GpuVa, mask: &PageMask) -> Result<()> {
        let inv = self.with_block(va, |b, f, p| b.revoke_write(f, p, mask))?;
        self.invalidate(inv)
    }

    fn invalidate(&self, inv: Option<Invalidate>) -> Result<()> {
        let machine = self.gpu.machine();
        match inv {
            Some(inv) => invalidate_va(&self.gpu, self.tree.root(), &inv, &mut machine.wait()),
            None => Ok(()),
        }
    }
}

/// A GPU that was brought up: channels on its copy engines, fault rings, a workload engine.
pub struct Driver {
    /// Registers.
    pub gpu: Gpu,
    /// What bring-up found.
    pub id: Identity,
    /// What BAR5 says.
    pub ext: Extension,
    /// Space of the channels.
    pub kernel: Space,
    /// Its window.
    pub window: Window<Mem>,
    /// Channels, one on each of the first copy engines.
    pub channels: Vec<Channel<Mem>>,
    /// Their engines.
    pub engines: Vec<CopyEngine>,
    /// Faults that wait for a replay.
    pub replayable: FaultRing<Mem>,
    /// Faults that do not.
    pub non_replayable: FaultRing<Mem>,
    instances: Vec<Mem>,
}

/// Address of the channels' window: below 1 TiB, above 4 GiB.
const WINDOW: GpuVa = GpuVa(0x12_0000_0000);

impl Driver {
    /// Brings GPU `index` up, with `channels` channels and a replayable ring of `ring` entries.
    ///
    /// # Errors
    /// Those of the duties.
    pub fn new(machine: &Loop, index: usize, channels: usize, ring: usize) -> Result<Driver> {
        let gpu = machine.gpu(index);
        irq::quiesce(&gpu);
        let id = identify(&gpu)?;
        let ext = discover(&gpu)?.ok_or(Error::Absent(1))?;
        let mut kernel = Space::new(&gpu)?;
        kernel.reach(WINDOW)?;
        let small = machine.alloc(4096);
        let big = machine.alloc_aligned(256, 256);
        let mut replayable = FaultRing::new(RingKind::Replayable, machine.alloc(32 * ring))?;
        let mut non_replayable = FaultRing::new(RingKind::NonReplayable, machine.alloc(32 * 64))?;
        replayable.enable(&gpu)?;
        non_replayable.enable(&gpu)?;
        let mut d = Driver {
            window: Window::new(WINDOW, small, big)?,
            engines: id.engines.iter().flatten().copied().collect(),
            channels: Vec::new(),
            instances: Vec::new(),
            replayable,
            non_replayable,
            kernel,
            gpu,
            id,
            ext,
        };
        for n in 0..channels {
            d.add_channel(n)?;
        }
        irq::enable_top(&d.gpu, 0xf);
        Ok(d)
    }

    /// Puts a channel on engine `n`, alone on its runlist.
    fn add_channel(&mut self, n: usize) -> Result<()> {
        let machine = self.gpu.machine().clone();
        let engine = self.engines.get(n).copied();
        let engine = engine.ok_or(Error::OutOfRange("engine", n as u64))?;
        ready_copy_engine(&self.gpu, &engine)?;
        let runlist = engine.runlist;
        let chid = Chid(3 + n as u16);
        let pde0 = self.kernel.tree.pde0(WINDOW).ok_or(Error::NoTable(0))?;
        let mem = machine.alloc(Layout::DEFAULT.bytes());
        let (va, _) = self.window.map(&self.gpu, pde0, &mem)?;
        let token = runlist.token(chid);
        let id = ChannelId((self.gpu.index() * 16 + n) as u16);
        // As the driver's: the semaphore wraps in every test that makes more pushes than a ring has entries.
        let ch = Channel::new(id, chid, token, Layout::DEFAULT, mem, va)?
            .counting_from(0u32.wrapping_sub(Layout::DEFAULT.entries()));
        let inst = machine.alloc(INSTANCE_BYTES);
        let notify = Some(Vector(n as u16));
        let says = ch.instance(self.kernel.tree.root(), notify, self.method_buffer(n));
        fill_channel(&inst, &says)?;
        let list = machine.alloc(runlist_bytes(1));
        let entry = runlist::Entry {
            chid,
            instance: SysAddr(inst.dma_addr()),
            userd: ch.userd(),
        };
        runlist.init(&self.gpu, &mut machine.wait())?;
        runlist.submit(&self.gpu, &list, &[entry], &mut machine.wait())?;
        runlist.enable(&self.gpu, chid)?;
        self.instances.push(inst);
        self.channels.push(ch);
        Ok(())
    }

    /// Method buffer `n`, of the last pages of VRAM.
    pub fn method_buffer(&self, n: usize) -> VidAddr {
        VidAddr(self.id.vram_bytes - METHOD_BUFFER_BYTES * (n as u64 + 1))
    }

    /// Channel `n`.
    ///
    /// # Panics
    /// When there is none.
    #[allow(clippy::indexing_slicing, reason = "a test harness")]
    pub fn channel(&mut self, n: usize) -> &mut Channel<Mem> {
        &mut self.channels[n]
    }

    /// Writes a push on channel `n`, submits it and returns its value.
    ///
    /// # Errors
    /// Those of `write` and of the channel.
    pub fn push(
        &mut self,
        n: usize,
        flags: SubmitFlags,
        write: impl FnOnce(&mut huvm_hal::channel::Push<'_, Mem>) -> Result<()>,
    ) -> Result<u32> {
        let gpu = self.gpu.clone();
        let mut push = self.channel(n).begin(2048)?;
        write(&mut push)?;
        Ok(push.submit(&gpu, flags))
    }

    /// Waits until channel `n` is idle.
    ///
    /// # Errors
    /// [`Error::Timeout`].
    pub fn finish(&mut self, n: usize) -> Result<()> {
        let machine = self.gpu.machine().clone();
        let ch = self.channel(n);
        let mut wait = machine.wait();
        poll(&mut wait, "channel idle", || ch.is_idle().then_some(()))
    }

    /// A push that is waited for.
    ///
    /// # Errors
    /// As [`Self::push`], and [`Error::Timeout`].
    pub fn run(
        &mut self,
        n: usize,
        write: impl FnOnce(&mut huvm_hal::channel::Push<'_, Mem>) -> Result<()>,
    ) -> Result<()> {
        self.push(n, SubmitFlags::default(), write)?;
        self.finish(n)
    }

    /// Starts `program` in `slot`, in the space with root `page_dir`.
    ///
    /// # Errors
    /// Those of the builder and of the engine.
    pub fn launch(
        &mut self,
        slot: u32,
        page_dir: SysAddr,
        header: &Header,
        program: &[Instr],
    ) -> Result<SysAddr> {
        let machine = self.gpu.machine();
        let desc = machine.alloc(4096);
        build(&desc, header, program)?;
        let inst = machine.alloc(INSTANCE_BYTES);
        fill_workload(&inst, page_dir)?;
        let instance = SysAddr(inst.dma_addr());
        let desc = SysAddr(desc.dma_addr());
        let engine = self.ext.workload.ok_or(Error::Absent(3))?;
        engine.start(&self.gpu, slot, desc, instance, Veid(0))?;
        Ok(instance)
    }

    /// A slot's registers.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn report(&self, slot: u32) -> Result<Report> {
        let engine = self.ext.workload.ok_or(Error::Absent(3))?;
        engine.report(&self.gpu, slot)
    }

    /// Serves faults until `slot` ends: `serve` maps what each fault needs, then a replay. Returns the report and how
    /// many packets came.
    ///
    /// # Errors
    /// Those of the duties and of `serve`; [`Error::Timeout`] when the launch does not end.
    pub fn serve_until_done(
        &mut self,
        slot: u32,
        mut serve: impl FnMut(&mut Driver, &Fault) -> Result<()>,
    ) -> Result<(Report, u32)> {
        let machine = self.gpu.machine().clone();
        let mut packets = 0;
        let mut batch = [Fault::default(); 256];
        for _ in 0..200_000 {
            let n = self
                .replayable
                .drain(&self.gpu, &mut batch, &mut machine.wait())?;
            for f in batch.iter().take(n) {
                serve(self, f)?;
            }
            packets += n as u32;
            if self.replayable.overflowed(&self.gpu)? {
                self.replayable.recover(&self.gpu)?;
                replay(&self.gpu, ReplayKind::Start, &mut machine.wait())?;
            } else if n > 0 {
                replay(&self.gpu, ReplayKind::Start, &mut machine.wait())?;
            }
            let report = self.report(slot)?;
            if report.status != Status::Running {
                return Ok((report, packets));
            }
            machine.step();
        }
        Err(Error::Timeout("launch"))
    }
}
