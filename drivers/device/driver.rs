// SPDX-License-Identifier: GPL-2.0
//! The PCI driver: in which order a GPU starts and stops.
//!
//! | start | stop |
//! | --- | --- |
//! | 1 enable the function, claim BARs | 12 release and disable, give the index back |
//! | 2 set the DMA mask | 11 nothing more can be mapped; see that nothing is |
//! | 3 see which BAR has the extension, map BARs | 10 bus mastering off, reset if it was lost, registers end |
//! | 4 identify; silence interrupts and what runs; bus mastering on | 9 silence interrupts, free the vectors |
//! | 5 take an index, make the [`Gpu`] | 7 mark it lost: whoever still refers to it fails |
//! | 6 channels | 6 refuse submissions, drain and stop channels |
//! | 7 vectors and handlers | |
//! | 8 enable interrupts, self check | |
//! | 9 fault rings, service thread | 8 stop it (it disables the rings) |
//! | 10 register, join peers | 5 what user space started ends |
//! | | 4 every space lets go of the GPU; its peers forget it |
//! | | 3 launches end; everything it holds goes to the host, while it answers |
//! | | 2 no new copies to or from peers |
//! | | 1 unregister: nobody new finds it |
//!
//! When the machine ends ([`AtEnd::shut_down`]), only what the device does by itself stops: stops 3 (launches), 6, 7 and 9, the
//! rings and bus mastering. Threads, mappings and the binding stay.
//!
//! The service thread outlasts the channels, since a copy engine that faults waits for it.
//! [`Started`] has what each start step made; stopping goes by what is there, so a failed start stops the same way.

use super::faults::{self, FaultState};
use super::gpu::Parts;
use super::registry::{self, Place};
use super::{peer, selftest, Gpu, Loss};
use crate::account::waits::{Listed, Waiting, What};
use crate::channel::{poison, Disobeys};
use crate::kernel::dma::DmaDev;
use crate::kernel::irq::Irqs;
use crate::kernel::mmio::{Bars, ExtAt};
use crate::kernel::pci::{
    add_callbacks, config32, has_extended_config, keep_off_bus, AtEnd, Function,
};
use crate::kernel::thread::KThread;
use crate::kernel::time;
use crate::memory::clients::SUBCONTEXTS;
use crate::service::gpu_fault::Service;
use crate::service::harvest::{self, Lend};
use crate::service::pre_evict::PreEvict;
use crate::service::prefetch::Prefetch;
use crate::service::{launch, pool, rescue, teardown};
use huvm_hal::ext::announce::{announced, Announced};
use huvm_hal::ext::discover::{self, Extension};
use huvm_hal::ext::throttle;
use huvm_hal::ga100::{bringup, fault, irq};
use huvm_hal::ids::ChannelId;
use huvm_hw::ext::ident::FEATURE_THROTTLE;
use kernel::device::Core;
use kernel::pci;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::{new_mutex, Arc, Mutex};

/// QEMU's experimental range (Documentation/device.md 1).
const DEVICE: u32 = 0x10f7;
/// MSI-X entries: four of the interrupt tree, two that are not used.
const ENTRIES: u32 = 6;
/// How long what still ran when the GPU was taken may take to end.
const SILENCE_NS: u64 = 1_000_000_000;
/// The number of a GPU that has none yet, in the list of waits.
const NO_INDEX: u8 = u8::MAX;
/// How long others may take to let go of DMA mappings when the GPU leaves.
const RELEASE_NS: u64 = 5_000_000_000;
/// How long a thread may take to end: it may wait for copies, for a channel that is given up, and for host memory, one after the other.
const END_NS: u64 = 30_000_000_000;

/// A bound GPU.
#[pin_data]
pub(crate) struct Bound {
    /// `None` once it was unbound. The driver core drops this after the device was let go of: power management may have
    /// switched it off by then, and its IOMMU group may have another owner.
    #[pin]
    started: Mutex<Option<Started>>,
}

/// What the driver owns of a GPU.
struct Started {
    service: Option<KThread>,
    /// Pre-eviction, lending, prefetch, host memory.
    keepers: [Option<KThread>; 4],
    /// Look after what goes to neighbours, and to the host.
    rescuers: [Option<KThread>; 2],
    irqs: Option<Irqs<Gpu>>,
    gpu: Arc<Gpu>,
    registered: bool,
    function: Function,
    place: Place,
}

/// The PCI driver.
pub(crate) struct Driver;

kernel::pci_device_table!(
    PCI_TABLE,
    <Driver as pci::Driver>::IdInfo,
    [(
        pci::DeviceId::from_id(pci::Vendor::REDHAT_QUMRANET, DEVICE),
        ()
    )]
);

impl pci::Driver for Driver {
    type IdInfo = ();
    type Data<'bound> = Bound;
    const ID_TABLE: pci::IdTable<Self::IdInfo> = &PCI_TABLE;

    fn probe<'bound>(
        pdev: &'bound pci::Device<Core<'_>>,
        _info: Option<&'bound Self::IdInfo>,
    ) -> impl PinInit<Bound, Error> + 'bound {
        let started = Started::start(pdev).inspect_err(|e| {
            dev_err!(pdev, "not usable: {:?}\n", e);
        });
        try_pin_init!(Bound {
            started <- new_mutex!(Some(started?), "huvm_bound"),
        }? Error)
    }

    fn unbind<'bound>(_pdev: &'bound pci::Device<Core<'_>>, this: Pin<&Bound>) {
        let started = this.started.lock().take();
        drop(started);
    }
}

impl AtEnd for Driver {
    /// Nothing comes home: what is in the GPU's memory ends with the machine. Processes may still run; they find the GPU
    /// lost.
    fn shut_down(pdev: &pci::Device) {
        let Some(gpu) = registry::of_pci(pdev) else {
            // Not registered: probe failed on the way, and has stopped what it had started.
            return;
        };
        let start = time::now_ns();
        quiet(&gpu);
        gpu.channels().shut_down();
        gpu.retire();
        match fault::disable_all(&*gpu) {
            Ok(()) | Err(huvm_hal::Error::Gone) => {}
            Err(e) => pr_err!("gpu {}: a ring stays on: {:?}\n", gpu.index(), e),
        }
        irq::quiesce(&*gpu);
        keep_off_bus(pdev);
        pr_info!(
            "gpu {}: silent after {} us\n",
            gpu.index(),
            time::now_ns().saturating_sub(start) / 1000
        );
    }

    /// Its page tables, channels and jobs go; so does whatever of its memory nobody can tell from older data.
    fn prepare_reset(pdev: &pci::Device) {
        // Not there if it is on its way from the driver, which resets it itself.
        if let Some(gpu) = registry::of_pci(pdev) {
            gpu.mark_lost(Loss::Reset);
        }
    }

    /// VRAM would be gone, and nobody would know.
    fn prepare_sleep(pdev: &pci::Device) -> Result {
        dev_err!(
            pdev,
            "no suspend or hibernation with GPUs: unload huvm first\n"
        );
        Err(EBUSY)
    }
}

impl Started {
    fn start(pdev: &pci::Device<Core<'_>>) -> Result<Started> {
        add_callbacks::<Driver>(pdev);
        let function = Function::enable(pdev)?;
        // Whatever an earlier owner, or kernel, left it doing.
        function.clear_master();
        let dma = DmaDev::new(&function)?;
        let refused = |e: huvm_hal::Error| {
            dev_err!(pdev, "bring-up: {:?}\n", e);
            crate::channel::errno(e)
        };
        let at = extension(function.device()).map_err(refused)?;
        let bars = Bars::map(&function, &at).inspect_err(|e| {
            dev_err!(
                pdev,
                "BARs, or the extension, not where they should be: {:?}\n",
                e
            );
        })?;
        let bars = Arc::new(bars, GFP_KERNEL)?;
        irq::quiesce(&*bars);
        let identity = bringup::identify(&*bars).map_err(refused)?;
        let ext = match at {
            ExtAt::Nowhere => None,
            _ => discover::discover(&*bars).map_err(refused)?,
        };
        if let ExtAt::Announced(a) = &at {
            check_announced(a, ext.as_ref()).map_err(refused)?;
        }
        fault::disable_all(&*bars).map_err(refused)?;
        if ext.as_ref().is_some_and(|e| e.has(FEATURE_THROTTLE)) {
            throttle::lift_all(&*bars).map_err(refused)?;
        }
        // What another driver, or kernel, started there knows addresses that are no longer its own.
        let empty = || {
            if let Some(engine) = ext.as_ref().and_then(|e| e.workload) {
                let mut patience = Listed::new(What::Step, NO_INDEX, 0, SILENCE_NS);
                engine.silence(&*bars, &mut || patience.again())?;
            }
            identity.engines.iter().flatten().try_for_each(|ce| {
                let mut patience = Listed::new(What::Step, NO_INDEX, 0, SILENCE_NS);
                let mut wait = || patience.again();
                ce.runlist.init(&*bars, &mut wait)?;
                ce.runlist.preempt(&*bars, &mut wait)
            })
        };
        empty()
            .or_else(|e| match function.reset() {
                Ok(()) => empty(),
                Err(_) => Err(e),
            })
            .map_err(refused)?;
        function.set_master();
        let index = ext.as_ref().map(|e| u8::try_from(e.gpu_index));
        let place = Place::take(index.transpose()?)?;
        let mut name = [0u8; 32];
        let text = function.name().to_bytes();
        for (to, from) in name.iter_mut().take(31).zip(text) {
            *to = *from;
        }
        let gpu = Gpu::new(Parts {
            index: place.index(),
            name,
            identity,
            ext,
            pdev: function.device().clone(),
            bars: bars.clone(),
            dma: dma.clone(),
        })?;
        // From here on, dropping it stops what was started.
        place.hide(&gpu);
        let mut started = Started {
            service: None,
            keepers: [const { None }; 4],
            rescuers: [None, None],
            irqs: None,
            gpu,
            registered: false,
            function,
            place,
        };
        started.bring_up(&bars, &dma)?;
        Ok(started)
    }

    fn bring_up(&mut self, bars: &Arc<Bars>, dma: &Arc<DmaDev>) -> Result {
        let gpu = self.gpu.clone();
        if gpu.ext().is_some_and(|e| e.ecc) {
            poison::arrives(gpu.index(), u32::try_from(gpu.identity().vram_bytes >> 12)?);
        }
        let engines = gpu.copy_engines()?;
        gpu.channels()
            .start(gpu.index(), bars, dma, &engines, gpu.latencies(), disobeyed)?;
        self.irqs = Some(Irqs::new(&self.function, 4, ENTRIES, &gpu)?);
        gpu.enable_interrupts();
        selftest::check(&gpu)?;

        let mut rings = FaultState::new(&gpu)?;
        let mut service = Service::new()?;
        self.service = Some(spawn(&gpu, "fault", move |gpu| {
            faults::serve(gpu, &mut rings, &mut service)
        })?);
        let (mut evictor, mut lender) = (PreEvict::new()?, Lend::new()?);
        let mut fetcher = Prefetch::new()?;
        let [evicts, lends, fetches, refills] = &mut self.keepers;
        *evicts = Some(spawn(&gpu, "evict", move |gpu| evictor.serve(gpu))?);
        *lends = Some(spawn(&gpu, "lend", move |gpu| lender.serve(gpu))?);
        *fetches = Some(spawn(&gpu, "fetch", move |gpu| fetcher.serve(gpu))?);
        *refills = Some(spawn(&gpu, "pool", pool::serve)?);
        let [to_peers, to_host] = &mut self.rescuers;
        *to_peers = Some(spawn(&gpu, "rescue", rescue::serve_peers)?);
        *to_host = Some(spawn(&gpu, "home", rescue::serve_host)?);

        self.place.show(&gpu);
        self.registered = true;
        peer::connect(&gpu)?;

        let id = gpu.identity();
        pr_info!(
            "gpu {} at {}: chip {:#x}, {} MiB, {} copy engines{}\n",
            gpu.index(),
            gpu.name(),
            id.chip,
            id.vram_bytes >> 20,
            engines.len(),
            if gpu.ext().is_some() {
                ""
            } else {
                ", without extension"
            },
        );
        Ok(())
    }
}

/// Where the extension is: by the capability that announces it. Without extended configuration space BAR5 may tell by
/// what it begins with.
fn extension(pdev: &pci::Device) -> huvm_hal::Result<ExtAt> {
    if !has_extended_config(pdev) {
        return Ok(ExtAt::Unknown);
    }
    let found = announced(|at| config32(pdev, at))?;
    Ok(found.map_or(ExtAt::Nowhere, ExtAt::Announced))
}

/// The registers and the capability must say the same.
fn check_announced(a: &Announced, ext: Option<&Extension>) -> huvm_hal::Result<()> {
    match ext {
        Some(e) if e.features == a.features => Ok(()),
        Some(e) => Err(huvm_hal::Error::BadDevice("features", e.features)),
        None => Err(huvm_hal::Error::Absent(huvm_hw::ext::ident::ID)),
    }
}

/// Whether the capability announces what the driver found (a self test).
pub(super) fn is_announced(gpu: &Gpu) -> bool {
    match extension(&gpu.pdev) {
        Ok(ExtAt::Announced(a)) => check_announced(&a, gpu.ext()).is_ok(),
        Ok(ExtAt::Nowhere) => gpu.ext().is_none(),
        Ok(ExtAt::Unknown) | Err(_) => false,
    }
}

/// Nobody knows what the copies of a GPU did, or still do.
fn disobeyed(index: u8, channel: ChannelId, what: Disobeys) {
    // Whoever has the index now may be the GPU's successor.
    let gpu = registry::bound(index).filter(|gpu| gpu.channels().has(channel));
    if let Some(gpu) = gpu {
        gpu.mark_lost(match what {
            Disobeys::Stays => Loss::Channel(channel),
            Disobeys::Lies => Loss::Semaphore(channel),
            Disobeys::Gone => Loss::Gone,
        });
    }
}

/// A service thread of a GPU: "huvm-WHAT/INDEX".
fn spawn(
    gpu: &Arc<Gpu>,
    what: &str,
    mut serve: impl FnMut(&Arc<Gpu>) + Send + 'static,
) -> Result<KThread> {
    let name = CString::try_from_fmt(fmt!("huvm-{}/{}", what, gpu.index()))?;
    let gpu = gpu.clone();
    KThread::spawn(&name, move || serve(&gpu))
}

/// Ends every launch and lets no new one begin: a GPU that computes takes back the pages that it is relieved of.
fn quiet(gpu: &Arc<Gpu>) {
    gpu.clients().close();
    for veid in 0..SUBCONTEXTS {
        let client = u8::try_from(veid).ok().and_then(|v| gpu.clients().get(v));
        if let Some(c) = client {
            c.sg.stop();
            c.space.launches.abort_gpu(&c.space, gpu);
        }
    }
}

/// Waits for the end of a thread of the GPU. Each wait of its own has a bound, and it looks whether it is to stop between two.
fn end(gpu: &Gpu, thread: &mut Option<KThread>) {
    if let Some(thread) = thread.take() {
        let _waits = Waiting::on(What::Thread, gpu.index(), 0, END_NS);
        drop(thread);
    }
}

fn end_all(gpu: &Gpu, threads: &mut [Option<KThread>]) {
    for thread in threads {
        end(gpu, thread);
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let gpu = &self.gpu;
        end_all(gpu, &mut self.keepers);
        gpu.host_pool().close();
        if self.registered {
            self.place.hide(gpu);
            peer::close(gpu);
            quiet(gpu);
            harvest::recall(gpu);
            if !gpu.is_lost() {
                let left = teardown::evacuate(gpu);
                if left != 0 {
                    pr_warn!("gpu {}: {} chunks not emptied\n", gpu.index(), left);
                }
            }
            teardown::release_clients(gpu);
            // It waits for every copy that has to do with the GPU. What somebody was about to bring home meanwhile, and could not, he has put back.
            teardown::unmap_host(gpu);
            harvest::recall(gpu);
            end_all(gpu, &mut self.rescuers);
            peer::disconnect(gpu);
            launch::gpu_removed(gpu);
        }
        end_all(gpu, &mut self.rescuers);
        let silent = gpu.channels().shut_down();
        // One that failed on its way here may stand somewhere, too.
        let died = gpu.is_lost() || !silent || !self.registered;
        gpu.retire();
        // What is told from here on is told by registers, and read there; the service thread's end frees what faults are written to.
        self.function.clear_master();
        end(gpu, &mut self.service);
        // What it asked for after the fetching thread had ended: each refers to this GPU.
        gpu.prefetch_queue.clear();
        irq::quiesce(&**gpu);
        drop(self.irqs.take());
        if died {
            match self.function.reset() {
                Ok(()) => pr_info!("gpu {}: reset\n", gpu.index()),
                Err(e) => {
                    self.place.leaves_writing(|lender| gpu.may_write(lender));
                    pr_err!("gpu {}: lost, and not reset: {:?}\n", gpu.index(), e);
                }
            }
        }
        // Not before: an engine that did not leave a channel would go on in it.
        gpu.channels().free();
        gpu.bars.revoke();
        gpu.dma.close();
        // Who was on his way the first time, and the rescuers, may have mapped something since: from here on nobody can. The last copies are
        // published by that.
        if self.registered {
            teardown::unmap_host(gpu);
        }
        poison::leaves(gpu.index());
        let left = gpu.dma.live();
        let mut wait = Listed::new(What::Mappings, gpu.index(), left as u64, RELEASE_NS);
        while gpu.dma.live() != 0 {
            if !wait.again() {
                let left = gpu.dma.live();
                pr_err!("gpu {}: {left} DMA mappings left\n", gpu.index());
                break;
            }
        }
    }
}
