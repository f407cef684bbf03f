// SPDX-License-Identifier: GPL-2.0
//! The channels of one GPU.

use super::lane::{Disobeyed, Lane, Push, SharedBuf, STOP_NS};
use super::setup::{self, Mapped, Space};
use super::{table, Engine, Fence, Tracker};
use crate::account::latency::{Kind, Latencies};
use crate::account::waits::{Listed, What};
use crate::kernel::dma::{DmaBuf, DmaDev};
use crate::kernel::inject::Point;
use crate::kernel::mmio::Bars;
use crate::kernel::time;
use huvm_hal::channel::Interrupt;
use huvm_hal::ext::discover::CeCaps;
use huvm_hal::ga100::bringup::CopyEngine;
use huvm_hal::ids::{ChannelId, GpuVa, Vector, VidAddr};
use huvm_hal::seam::Wait;
use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex, SetOnce};

/// A copy engine and what it can reach.
#[derive(Clone, Copy)]
pub(crate) struct Ce {
    pub(crate) engine: CopyEngine,
    /// Unknown without the extension: then it is taken to reach everything.
    pub(crate) caps: Option<CeCaps>,
    /// Memory of the GPU for its channel alone.
    pub(crate) method_buffer: VidAddr,
}

/// The channels of one GPU.
#[pin_data]
pub(crate) struct Pool {
    /// From [`Self::start`] on.
    started: SetOnce<Lanes>,
    #[pin]
    space: Mutex<Option<Space>>,
}

/// The lanes, and the lane of each engine by position in [`Engine::ALL`].
struct Lanes {
    all: KVec<Arc<Lane>>,
    of: [usize; Engine::COUNT],
}

impl Pool {
    /// No channels yet: submissions fail.
    pub(crate) fn new() -> impl PinInit<Pool> {
        pin_init!(Pool {
            started: SetOnce::new(),
            space <- new_mutex!(None, "huvm_channel_space"),
        })
    }

    /// Makes the channels and lets the GPU run them. Once.
    ///
    /// # Errors
    /// `ENOMEM`; `ENODEV` without a copy engine; `EIO` when the device does not do as told. What there is then it may have begun to
    /// use: [`Self::shut_down`].
    pub(crate) fn start(
        &self,
        gpu: u8,
        bars: &Arc<Bars>,
        dma: &Arc<DmaDev>,
        engines: &[Ce],
        latencies: &Arc<Latencies>,
        disobeyed: Disobeyed,
    ) -> Result {
        let mut space = self.space.lock();
        if self.started.as_ref().is_some() {
            return Err(EBUSY);
        }
        let mut made = setup::make(gpu, bars, dma, engines, (latencies, disobeyed))?;
        let did = setup::run(&mut made, engines, dma);
        *space = Some(made.space);
        self.started.populate(Lanes {
            all: made.lanes,
            of: made.of,
        });
        did
    }

    fn lanes(&self) -> &[Arc<Lane>] {
        self.started.as_ref().map_or(&[], |l| &l.all)
    }

    pub(super) fn lane(&self, engine: Engine) -> Result<&Arc<Lane>> {
        let lanes = self.started.as_ref().ok_or(EIO)?;
        let at = lanes.of.get(engine as usize).ok_or(EIO)?;
        lanes.all.get(*at).ok_or(EIO)
    }

    /// Whether a push for `engine` after `after` waits for another one of its own channel.
    pub(crate) fn waits_for_itself(&self, engine: Engine, after: &Tracker) -> bool {
        self.lane(engine).is_ok_and(|lane| {
            after
                .iter()
                .any(|(id, number)| id == lane.id() && lane.poll(number).is_none())
        })
    }

    /// Whether some of `tracker` was copied by another GPU's engines.
    pub(crate) fn was_pushed(&self, tracker: &Tracker) -> bool {
        tracker.iter().any(|(id, _)| !self.has(id))
    }

    /// Whether some of `tracker` was copied by this GPU's engine for what comes from neighbours.
    pub(crate) fn pulled(&self, tracker: &Tracker) -> bool {
        self.lane(Engine::PeerIn)
            .is_ok_and(|lane| tracker.iter().any(|(id, _)| id == lane.id()))
    }

    /// Hands the commands that `f` appends to the GPU, to be done when `after` is over, or its channel off its engine. May
    /// wait for room in the ring, and for other GPUs' part of `after`.
    ///
    /// # Errors
    /// `EIO` when the channel is broken, or breaks now, or its GPU is gone, or when one in `after` failed and may still reach memory;
    /// `EINVAL` when `f` appended something illegal. Nothing was submitted.
    pub(crate) fn submit(
        &self,
        engine: Engine,
        after: &Tracker,
        f: impl FnOnce(&mut Push<'_>) -> huvm_hal::Result<()>,
    ) -> Result<Fence> {
        self.submit_ending(engine, after, Interrupt::Host, f)
    }

    /// As [`Self::submit`]. With [`Interrupt::Engine`], what is submitted next may begin before this is over; its first copy, if it is
    /// not pipelined, does not.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub(crate) fn submit_ending(
        &self,
        engine: Engine,
        after: &Tracker,
        interrupt: Interrupt,
        f: impl FnOnce(&mut Push<'_>) -> huvm_hal::Result<()>,
    ) -> Result<Fence> {
        if Point::Submit.fails() {
            return Err(EIO);
        }
        let lane = self.lane(engine)?;
        for (id, number) in after.iter() {
            if !self.has(id) {
                let other = table::find(id);
                if other.wait(number).is_err() && !other.is_off() {
                    return Err(EIO);
                }
            }
        }
        let exposed = &lane.latencies().exposed;
        let idle = engine.is_inward() && exposed.is_serving() && self.fetches_nothing();
        let fence = lane.submit(engine, after, self.lanes(), interrupt, f)?;
        if idle {
            exposed.idle_until(time::now_ns());
        }
        Ok(fence)
    }

    /// Whether nothing is on its way into the GPU's memory. What a broken channel did not end is not.
    pub(crate) fn fetches_nothing(&self) -> bool {
        Engine::ALL
            .iter()
            .filter(|e| e.is_inward())
            .filter_map(|e| self.lane(*e).ok())
            .all(|l| !l.works() || l.pending() == 0)
    }

    /// Whether a channel is one of these.
    pub(crate) fn has(&self, channel: ChannelId) -> bool {
        self.lanes().iter().any(|lane| lane.id() == channel)
    }

    /// Whether copies of a kind can still be made: their channel was not given up.
    pub(crate) fn works(&self, engine: Engine) -> bool {
        self.lane(engine).is_ok_and(|l| l.works())
    }

    /// Kinds of copies whose channel was given up: bits by `enum huvm_latency_kind`. All of them once the GPU is lost.
    pub(crate) fn given_up(&self) -> u32 {
        // Without the one for what is fetched ahead, the other one does it.
        Engine::ALL
            .iter()
            .filter(|e| **e != Engine::Ahead && !self.works(**e))
            .fold(0, |all, e| all | 1 << Kind::from(*e) as u32)
    }

    /// Pushes that an engine has not ended yet: what a new one waits for.
    pub(crate) fn pending(&self, engine: Engine) -> u32 {
        self.lane(engine).map_or(0, |l| l.pending())
    }

    /// As [`Self::pending`], of all that comes from the host.
    pub(crate) fn pending_from_host(&self) -> u32 {
        let more = match self.are_two_from_host() {
            true => self.pending(Engine::Ahead),
            false => 0,
        };
        self.pending(Engine::HostToDevice).saturating_add(more)
    }

    /// Whether what is fetched ahead has a channel of its own.
    fn are_two_from_host(&self) -> bool {
        let (needed, ahead) = (self.lane(Engine::HostToDevice), self.lane(Engine::Ahead));
        let apart = |(n, a): (&Arc<Lane>, &Arc<Lane>)| n.id() != a.id();
        needed.ok().zip(ahead.ok()).is_some_and(apart)
    }

    /// And it was not given up: nothing that is needed waits behind what is ahead.
    pub(crate) fn fetches_apart(&self) -> bool {
        self.are_two_from_host() && self.works(Engine::Ahead)
    }

    /// An interrupt came: pushes of a channel ended, or its engine refuses to go on. `false` if it is not of a channel. Any context.
    pub(crate) fn interrupt(&self, vector: Vector) -> bool {
        let mut ours = false;
        for lane in self.lanes() {
            if lane.vector() == vector {
                lane.wake();
            } else if lane.refusal() == vector {
                lane.hear_refusal();
            } else {
                continue;
            }
            ours = true;
        }
        ours
    }

    /// The interrupt vectors of all channels and their engines.
    pub(crate) fn vectors(&self) -> impl Iterator<Item = Vector> + '_ {
        let lanes = self.lanes().iter();
        lanes.flat_map(|l| [l.vector(), l.refusal()])
    }

    /// A packet tells of a fault of the copy engine with MMU id `engine`: lets its channels try again, whose flag may come while `late`
    /// says so. `None` if there is no such engine, `Some(false)` when they gave up. May sleep.
    pub(crate) fn restart(&self, engine: u16, late: &mut Wait<'_>) -> Option<bool> {
        let mut did = None;
        for lane in self.lanes().iter().filter(|l| l.fault_id() == engine) {
            did = Some(did.unwrap_or(true) & lane.restart(late));
        }
        did
    }

    /// Maps a buffer into the channels' address space for good, for self tests.
    ///
    /// # Errors
    /// `EIO` when the space is full or gone.
    pub(crate) fn map(&self, bars: &Bars, mem: &Arc<DmaBuf>) -> Result<Mapped> {
        let mut space = self.space.lock();
        (*space).as_mut().ok_or(EIO)?.keep(bars, mem)
    }

    /// A page that all channels see, for self tests, and its address.
    pub(crate) fn scratch(&self) -> Option<(GpuVa, SharedBuf)> {
        self.space.lock().as_ref().and_then(Space::scratch)
    }

    /// Begins to take every channel off its engine: soon they copy nothing any more. Any context.
    pub(crate) fn silence(&self) {
        for lane in self.lanes().iter() {
            lane.silence();
        }
    }

    /// Waits until what [`Self::silence`] began is done, for [`STOP_NS`] in all. Whether no channel reaches memory any more. May sleep.
    pub(crate) fn are_silent(&self, gpu: u8) -> bool {
        let mut patience = Listed::new(What::Stop, gpu, 0, STOP_NS);
        let mut outage = None;
        // Each is asked, for which of them is not is not known before.
        let silent = |lane: &Arc<Lane>| lane.is_silent(&mut patience, &mut outage);
        self.lanes().iter().map(silent).fold(true, |all, s| all & s)
    }

    /// The GPU is lost: everything that is not complete has failed. Any context that may take spin locks.
    pub(crate) fn fail(&self) {
        for lane in self.lanes().iter() {
            lane.fail();
        }
    }

    /// Waits for everything submitted and takes the channels off their engines. Whether all left them, and the host knows none any more:
    /// what goes on reaches host memory until the GPU is kept from the bus, so the channels have theirs until [`Self::free`], or the
    /// pool's end.
    pub(crate) fn shut_down(&self) -> bool {
        for lane in self.lanes().iter() {
            // What failed is in the lane for whoever waits.
            let _known_there = lane.drain();
        }
        // Each is told, whatever others do.
        let left = self.lanes().iter().map(|lane| lane.stop().is_ok());
        let mut all_left = left.fold(true, |all, left| all & left);
        if let Some(space) = self.space.lock().as_ref() {
            all_left &= space.stop();
        }
        for lane in self.lanes().iter() {
            lane.fail();
            table::retire(lane.id(), lane.completed());
        }
        all_left
    }

    /// Gives the memory of channels back that were shut down. The GPU must be kept from the bus.
    pub(crate) fn free(&self) {
        for lane in self.lanes().iter() {
            lane.close();
        }
        let space = self.space.lock().take();
        drop(space);
    }
}
