// SPDX-License-Identifier: GPL-2.0
//! One channel: its ring, its progress, and those who wait for it.

use super::watch::Attendant;
use super::{poison, table, Engine, Fence, Tracker};
use crate::account::events;
use crate::account::latency::{Kind, Latencies};
use crate::account::trace;
use crate::account::waits::{self, Listed, Waiting, What};
use crate::kernel::dma::{read_barrier, DmaBuf};
use crate::kernel::ffi::uapi;
use crate::kernel::mmio::Bars;
use crate::kernel::pci::OUTAGE_NS;
use crate::kernel::time;
use crate::kernel::wait::WaitQueue;
use huvm_hal::channel::{Channel, Interrupt, Layout, PushId, SubmitFlags};
use huvm_hal::ext::ecc;
use huvm_hal::ga100::bringup::{self, CopyEngine};
use huvm_hal::ids::{ChannelId, Chid, GpuVa, SysAddr, Vector};
use huvm_hal::seam::{DmaMem, Wait};
use huvm_lockless::claim::{Begun, Lie};
use huvm_lockless::stamps::Stamps;
use huvm_lockless::standing::Standing;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_mutex, new_spinlock, Arc, Mutex, SpinLock};

/// A channel's memory: the ring's owner writes it, waiters look at the semaphore.
#[derive(Clone)]
pub(crate) struct SharedBuf(pub(super) Arc<DmaBuf>);

impl DmaMem for SharedBuf {
    fn dma_addr(&self) -> u64 {
        self.0.dma_addr()
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    #[inline]
    fn read32(&self, off: usize) -> u32 {
        self.0.read32(off)
    }
    #[inline]
    fn write32(&self, off: usize, val: u32) {
        self.0.write32(off, val)
    }
    #[inline]
    fn read64(&self, off: usize) -> u64 {
        self.0.read64(off)
    }
    #[inline]
    fn write64(&self, off: usize, val: u64) {
        self.0.write64(off, val)
    }
}

/// A push that is being built; its methods append commands.
pub(crate) type Push<'a> = huvm_hal::channel::Push<'a, SharedBuf>;

/// Dwords of a push: 64 copies or fills and a full tracker. The pushbuffer has room for 32 of them.
const PUSH_DWORDS: u32 = 1000;
/// A sleeper looks again this often, so that a lost interrupt costs time and never a hang.
const LOOK_NS: u64 = 10_000_000;
/// A channel that completes nothing for so long, while somebody waits, is broken. Device time: thousands of 2 MiB copies.
pub(super) const STALL_NS: u64 = 10_000_000_000;
/// And was seen to stand so often: the machine may have stood still for all that time. No more, as a look may take a fifth of a second on
/// one that is short of CPUs.
const STALL_LOOKS: u32 = 10;
/// What a channel was copying that was given up is seen to in less, but for copies of another channel (`service/rescue.rs`).
const RESCUE_NS: u64 = 12_000_000_000;
/// The same with those copies: the other channel stands, is given up, and is seen to.
const SEEN_TO_NS: u64 = 3 * STALL_NS;
/// How long taking a channel off its engine may take.
pub(super) const STOP_NS: u64 = 1_000_000_000;
/// Faults that a channel may restart from without completing anything in between.
const RESTARTS_MAX: u32 = 8;

/// Pages that one push leaves out at most: those of a block.
const LEFT_OUT_MAX: u32 = 512;
/// Who waits so long for a channel looks after the other ones of its GPU too: it may wait behind one that stands.
const OTHERS_NS: u64 = 100_000_000;

/// Pushes whose beginning is remembered.
const STAMPS: usize = 64;
/// A stamp is the time in ns, times this, plus the place of the engine in [`Engine::ALL`].
const KINDS: u64 = 8;
const _: () = assert!(Engine::COUNT <= KINDS as usize);

/// Pushes that are not over are fewer.
const ENTRIES: u32 = Layout::DEFAULT.entries();

/// Other channels of the GPU that a push may wait for.
const AHEAD: usize = Engine::COUNT - 1;

/// Where a channel's semaphore is, while it has memory.
enum Semaphore {
    /// The last word is what it said when it was read last: who reads it has this lock, and it goes on from there.
    At(SharedBuf, usize, u64),
    /// It had a value that cannot be; the last that was known. The GPU may still write it, and nobody looks any more.
    Lies(u64),
    /// The channel was given up: its memory, which stays while the ring has it, since others may still look there; and the last value.
    Stopped(SharedBuf, usize, u64),
    /// The last value, when the memory was given back.
    Was(u64),
}

/// Restarts after faults.
struct Restarts {
    at: u64,
    times: u32,
    /// Of these, behind a page that failed; they are not among `times`.
    left_out: u32,
}

/// How far a channel was, as one who waits for it saw it.
#[derive(Clone, Copy)]
struct Seen {
    /// What is complete, and whether it leaves.
    at: (u64, bool),
    /// The channel that it stands behind on the GPU, and the same of that.
    behind: Option<(ChannelId, (u64, bool))>,
    /// Since when it is there, ns.
    since: u64,
    /// Looks since then.
    looks: u32,
}

/// What a lane is made from.
pub(super) struct Parts {
    pub(super) gpu: u8,
    pub(super) engine: Engine,
    pub(super) bars: Arc<Bars>,
    pub(super) ce: CopyEngine,
    pub(super) vector: Vector,
    pub(super) refusal: Vector,
    pub(super) channel: Channel<SharedBuf>,
    pub(super) mem: SharedBuf,
    pub(super) latencies: Arc<Latencies>,
    pub(super) disobeyed: Disobeyed,
}

/// What nobody can copy beside.
pub(crate) enum Disobeys {
    /// A channel does not leave its engine: what it was copying may arrive at any time.
    Stays,
    /// A channel lies about what is over.
    Lies,
    /// The GPU reads as one that is gone, if only for a moment: what a channel copies may go on.
    Gone,
}

/// Told, with the index of its GPU, what the channel of this number does. The caller may hold any lock but those of memory and of registries. The GPU may
/// have left meanwhile.
pub(crate) type Disobeyed = fn(u8, ChannelId, Disobeys);

/// One channel.
#[pin_data]
pub(crate) struct Lane {
    id: ChannelId,
    gpu: u8,
    engine: Engine,
    bars: Arc<Bars>,
    ce: CopyEngine,
    chid: Chid,
    /// Raised at the end of each push.
    vector: Vector,
    /// Raised when its engine refuses to go on. It did so, which was told.
    refusal: Vector,
    refused: Atomic<bool>,
    /// Address of the semaphore in this GPU's channel space.
    va: GpuVa,
    /// When and for what kind of traffic the last pushes were handed over: ns times [`KINDS`], and the kind.
    stamps: Stamps<STAMPS>,
    /// For each push that may not be over, by its number modulo [`ENTRIES`]: pushes of channels of this GPU that it waits for, as
    /// [`PushId::word`].
    ahead: KVec<[Atomic<u64>; AHEAD]>,
    /// The last push that the GPU may know of: a semaphore that says more lies.
    begun: Begun,
    /// It did.
    lies: Atomic<bool>,
    /// It was told to leave its engine when its GPU was lost, and did not: what it copies it may copy at any time.
    stays: Atomic<bool>,
    latencies: Arc<Latencies>,
    disobeyed: Disobeyed,
    /// While it leaves it is being taken off its engine, and what it was copying may be rescued ([`super::watch`]).
    standing: Standing,
    /// Who sees to what it was copying when it is given up.
    #[pin]
    pub(super) attendant: Attendant,
    /// Nothing more is submitted.
    closing: Atomic<bool>,
    #[pin]
    ring: Mutex<Option<Channel<SharedBuf>>>,
    #[pin]
    semaphore: SpinLock<Semaphore>,
    #[pin]
    restarts: Mutex<Restarts>,
    #[pin]
    moved: WaitQueue,
}

impl Lane {
    pub(super) fn new(p: Parts) -> Result<Arc<Lane>> {
        let Parts {
            gpu,
            engine,
            bars,
            ce,
            vector,
            refusal,
            channel,
            mem,
            latencies,
            disobeyed,
        } = p;
        // CAST: below a page.
        let off = channel.semaphore_page().1 as usize;
        let first = channel.submitted().into();
        // CAST: some hundred.
        let mut ahead = KVec::with_capacity(ENTRIES as usize, GFP_KERNEL)?;
        for _ in 0..ENTRIES {
            ahead.push([const { Atomic::new(0) }; AHEAD], GFP_KERNEL)?;
        }
        Arc::pin_init(
            pin_init!(Lane {
                id: channel.id(),
                gpu,
                engine,
                bars,
                ce,
                chid: channel.chid(),
                vector,
                refusal,
                refused: Atomic::new(false),
                va: channel.semaphore(),
                stamps: Stamps::new(first),
                ahead,
                begun: Begun::new(first),
                lies: Atomic::new(false),
                stays: Atomic::new(false),
                latencies,
                disobeyed,
                standing: Standing::new(),
                attendant <- Attendant::new(),
                closing: Atomic::new(false),
                ring <- new_mutex!(Some(channel), "huvm_channel"),
                semaphore <- new_spinlock!(Semaphore::At(mem, off, first), "huvm_semaphore"),
                restarts <- new_mutex!(Restarts { at: 0, times: 0, left_out: 0 }, "huvm_restarts"),
                moved <- WaitQueue::new(),
            }),
            GFP_KERNEL,
        )
    }

    pub(super) fn id(&self) -> ChannelId {
        self.id
    }

    pub(super) fn chid(&self) -> Chid {
        self.chid
    }

    /// Bus address of USERD; `None` when the memory was given back.
    pub(super) fn userd(&self) -> Option<SysAddr> {
        self.ring.lock().as_ref().map(|c| c.userd())
    }

    /// What is measured of its GPU.
    pub(super) fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// Index of its GPU.
    pub(super) fn gpu(&self) -> u8 {
        self.gpu
    }

    pub(super) fn vector(&self) -> Vector {
        self.vector
    }

    pub(super) fn refusal(&self) -> Vector {
        self.refusal
    }

    /// MMU engine id of its copy engine, in fault packets.
    pub(super) fn fault_id(&self) -> u16 {
        self.ce.fault_id
    }

    /// Whether it can reach no memory any more, although not all of it is over.
    pub(super) fn is_off(&self) -> bool {
        let semaphore = self.semaphore.lock();
        let runs = matches!(*semaphore, Semaphore::At(..) | Semaphore::Lies(_));
        drop(semaphore);
        !runs || (self.goes_on().is_none() && self.is_gone())
    }

    /// Whether it was given up, and it is not yet settled what has failed by that.
    fn leaves(&self) -> bool {
        self.standing.leaves()
    }

    /// Whether it was given up and somebody sees to what it was copying: it is off its engine, reads and writes nothing any more.
    pub(super) fn is_stopped(&self) -> bool {
        self.attendant.was_called()
    }

    /// Whether it takes pushes.
    pub(super) fn works(&self) -> bool {
        self.standing.works()
    }

    /// As not [`Self::works`], for one that has read in its memory what says so.
    #[cold]
    fn was_given_up(&self) -> bool {
        read_barrier();
        !self.works()
    }

    /// The push that the semaphore names, which never goes back. From when it says what cannot be, the last that was known.
    pub(super) fn completed(&self) -> u64 {
        self.read(&mut self.semaphore.lock())
    }

    fn read(&self, semaphore: &mut Semaphore) -> u64 {
        let said = match semaphore {
            Semaphore::At(mem, off, said) => {
                let look = || mem.read32(*off);
                let now = self.begun.read(ENTRIES, *said, look, read_barrier);
                now.inspect(|now| *said = *now)
            }
            Semaphore::Lies(v) | Semaphore::Stopped(_, _, v) | Semaphore::Was(v) => return *v,
        };
        said.unwrap_or_else(|lie| self.is_lied_to(semaphore, lie))
    }

    /// The semaphore says what cannot be. The last value that was known. Any context.
    #[cold]
    fn is_lied_to(&self, semaphore: &mut Semaphore, lie: Lie) -> u64 {
        pr_err!(
            "gpu {} channel {} ({:?}): says that it completed {}, and has {} of {} or more\n",
            self.gpu,
            self.id.0,
            self.engine,
            lie.says,
            // CAST: as it says it.
            lie.said as u32,
            lie.begun as u32,
        );
        // Its memory stays: the ring has it.
        *semaphore = Semaphore::Lies(lie.said);
        self.lies.store(true, Relaxed);
        lie.said
    }

    /// Whether its semaphore said what cannot be, when somebody looked last.
    fn lies(&self) -> bool {
        self.lies.load(Relaxed)
    }

    /// Whether it does by now.
    fn has_lied(&self) -> bool {
        self.completed();
        self.lies()
    }

    /// It lies: what is over nobody knows, nor what other channels of the GPU copied that waited for this one by the same word. The
    /// GPU is lost, before anybody takes any of it for done.
    fn denounce(&self) {
        (self.disobeyed)(self.gpu, self.id, Disobeys::Lies);
        self.fail();
    }

    /// Its GPU does not answer. One read says no more than that: the GPU is lost, and kept from the bus, before anybody takes for free
    /// what this was copying to.
    fn miss(&self) {
        (self.disobeyed)(self.gpu, self.id, Disobeys::Gone);
        self.fail();
    }

    /// Pushes submitted and not over.
    pub(super) fn pending(&self) -> u32 {
        let is_over = !self.works() && !self.leaves();
        if is_over {
            return 0;
        }
        // A push may be over before its number is stored.
        let done = self.completed();
        let pending = self.stamps.submitted().saturating_sub(done);
        u32::try_from(pending).unwrap_or(u32::MAX)
    }

    /// Whether push `number` is over: `None` not yet, `Some(false)` never.
    pub(super) fn poll(&self, number: u64) -> Option<bool> {
        self.standing.judge(|| {
            let completed = self.completed();
            self.count_up_to(completed);
            completed >= number
        })
    }

    /// Counts the latency of every push up to `completed` that was not counted yet. Each is counted by one alone, whoever
    /// looks; one whose stamp was overwritten by a later push is not.
    fn count_up_to(&self, completed: u64) {
        let mut now = 0;
        // Bounded by the pushes that there are.
        while let Some(stamp) = self.stamps.count(|push| completed >= push) {
            let Some((stamp, engine)) = stamp.and_then(|stamp| {
                let at = usize::try_from(stamp % KINDS).ok()?;
                Some((stamp, Engine::ALL.get(at)?))
            }) else {
                continue;
            };
            if now == 0 {
                now = time::now_ns();
            }
            let began = stamp / KINDS;
            let took = now.saturating_sub(began);
            self.latencies.add((*engine).into(), took);
            trace::copy(self.gpu, self.ce.fault_id, (*engine).into(), began, took);
            if engine.is_inward() {
                self.latencies.exposed.fetched(now);
            }
        }
    }

    /// Waits for push `number`: while the channel gets on, then [`STALL_NS`], then for the rescue of what it was copying, which has a
    /// bound of its own.
    ///
    /// # Errors
    /// `EIO` when the channel is broken, or broke under this wait.
    pub(super) fn wait(&self, number: u64) -> Result {
        self.wait_as(number, false)
    }

    /// As [`Self::wait`], for one who holds a lock that a rescue may want.
    ///
    /// # Errors
    /// As there; `EAGAIN` when the channel is given up: let go of the lock, then wait.
    pub(super) fn wait_holding(&self, number: u64) -> Result {
        self.wait_as(number, true)
    }

    fn wait_as(&self, number: u64, holding: bool) -> Result {
        // No spinning: no copy is over in the time that going to sleep takes.
        if let Some(ok) = self.poll(number) {
            return if ok { Ok(()) } else { Err(EIO) };
        }
        // Most copies are over before anybody could read the list, or would look how far they are.
        let mut listed = None;
        let mut seen = None;
        loop {
            self.moved.wait_timeout(LOOK_NS, || {
                self.poll(number).is_some() || (holding && self.leaves())
            });
            if let Some(ok) = self.poll(number) {
                return if ok { Ok(()) } else { Err(EIO) };
            }
            let listed = listed.get_or_insert_with(|| self.waiting(What::Copy, STALL_NS));
            if holding && self.leaves() {
                return Err(EAGAIN);
            }
            self.look_after(number, &mut seen, listed);
        }
    }

    /// How far it is now, and the channel that it stands behind on the GPU, if it is not the first that stands.
    fn look(&self) -> (Seen, Option<Arc<Lane>>) {
        let mut first = self.waits_for();
        // None waits for itself, but by way of pushes that were over meanwhile it may look so.
        for _ in 0..Engine::COUNT {
            match first.as_ref().and_then(|lane| lane.waits_for()) {
                Some(lane) => first = Some(lane),
                None => break,
            }
        }
        let at = |lane: &Lane| (lane.completed(), lane.leaves());
        let seen = Seen {
            at: at(self),
            behind: first.as_ref().map(|lane| (lane.id, at(lane))),
            since: time::now_ns(),
            looks: 0,
        };
        (seen, first)
    }

    /// The channel that the first push which is not over waits for on the GPU.
    fn waits_for(&self) -> Option<Arc<Lane>> {
        let push = self.completed().wrapping_add(1);
        if push > self.stamps.submitted() {
            return None;
        }
        let ahead = self.ahead_of(push)?.iter().map(|of| of.load(Relaxed));
        ahead
            .filter_map(PushId::of_word)
            .find_map(|of| match table::find(of.channel()) {
                table::Found::Live(lane) if lane.poll(of.number()).is_none() => Some(lane),
                _ => None,
            })
    }

    fn ahead_of(&self, push: u64) -> Option<&[Atomic<u64>; AHEAD]> {
        self.ahead
            .get(usize::try_from(push % u64::from(ENTRIES)).ok()?)
    }

    /// It stands, and others stand behind it.
    fn is_stalled(&self) {
        if self.lies() {
            self.denounce();
        } else if self.is_gone() {
            self.miss();
        } else {
            let next = self.completed().wrapping_add(1);
            self.give_up(next, uapi::HUVM_CHANNEL_STALLED);
        }
    }

    /// What everybody does now and then who waits for it, here for push `number`. The fault service thread restarts a faulted engine;
    /// but that thread may be who waits, for this channel or for one that waits for it.
    fn look_after(&self, number: u64, seen: &mut Option<Seen>, listed: &Waiting) {
        let (now, before) = self.look();
        let (_, leaves) = now.at;
        let last = seen.get_or_insert(now);
        last.looks = last.looks.saturating_add(1);
        let stood = now.since.saturating_sub(last.since);
        // A machine that stood still has not looked.
        let stands = stood >= STALL_NS && last.looks >= STALL_LOOKS;
        if leaves && stood < SEEN_TO_NS {
            listed.got_on();
        }
        if self.lies() {
            self.denounce();
        } else if (now.at, now.behind) != (last.at, last.behind) {
            *last = now;
            listed.got_on();
        } else if self.is_gone() {
            self.miss();
        } else if !leaves && stands {
            match before {
                // It is seen to. Where that does not end, who does so waits for this one, which waits for that.
                Some(first) if first.leaves() => {
                    listed.got_on();
                    if stood >= RESCUE_NS && self.attendant.is_there() {
                        self.give_up(number, uapi::HUVM_CHANNEL_STALLED);
                    }
                }
                Some(first) => {
                    first.is_stalled();
                    // It is this one's turn when that one is out of the way.
                    *last = now;
                    listed.got_on();
                }
                None => self.give_up(number, uapi::HUVM_CHANNEL_STALLED),
            }
        } else if !leaves && self.has_faulted() {
            let _gave_up_said_so = self.restart(&mut || false);
        } else if stood >= OTHERS_NS {
            // The engine may not have heard of the push.
            self.ce.runlist.ring(&*self.bars, self.chid);
            table::see_to_all(self.gpu);
        }
    }

    /// Lists the caller as one who waits for this channel.
    fn waiting(&self, what: What, bound_ns: u64) -> Waiting {
        Waiting::on(what, self.gpu, self.id.0.into(), bound_ns)
    }

    /// Whether the GPU does not answer any more: then nothing will complete.
    fn is_gone(&self) -> bool {
        self.ce.runlist.state(&*self.bars, self.chid) == Err(huvm_hal::Error::Gone)
    }

    /// Whether the copy engine stopped in this channel.
    fn has_faulted(&self) -> bool {
        let state = self.ce.runlist.state(&*self.bars, self.chid);
        state.is_ok_and(|s| s.engine_faulted)
    }

    /// Waits until the ring, which is locked and full, has more room than when `completed` pushes were over, or takes no more.
    fn wait_for_room(&self, completed: u64) {
        let moved = || self.completed() != completed || !self.works();
        let mut seen = None;
        let listed = self.waiting(What::Room, STALL_NS);
        while !moved() {
            self.moved.wait_timeout(LOOK_NS, moved);
            if !moved() {
                self.look_after(completed.wrapping_add(1), &mut seen, &listed);
            }
        }
    }

    /// Builds one push with `f` and hands it to the GPU, after `acquire` (semaphores of this GPU, and values).
    pub(super) fn submit(
        &self,
        engine: Engine,
        acquire: &Tracker,
        lanes: &[Arc<Lane>],
        interrupt: Interrupt,
        f: impl FnOnce(&mut Push<'_>) -> huvm_hal::Result<()>,
    ) -> Result<Fence> {
        let mut ring = self.ring.lock();
        let ring = (*ring).as_mut().ok_or(EIO)?;
        // Until there is room; `begin` does not say so and give the push, which would keep the ring borrowed.
        loop {
            if !self.works() || self.closing.load(Relaxed) {
                return Err(EIO);
            }
            // As it is waited for: one that lies says something else in its ring.
            let completed = self.completed();
            match ring.begin(PUSH_DWORDS).map(drop) {
                Ok(()) => break,
                Err(huvm_hal::Error::Busy(_)) => self.wait_for_room(completed),
                // It was given up since, and its semaphore let go.
                Err(_) if self.was_given_up() => return Err(EIO),
                Err(e @ huvm_hal::Error::BadDevice(..)) => {
                    pr_err!("gpu {} {:?}: {:?}\n", self.gpu, self.engine, e);
                    self.denounce();
                    return Err(EIO);
                }
                Err(e) => {
                    pr_err!("gpu {} {:?}: {:?}\n", self.gpu, self.engine, e);
                    return Err(EIO);
                }
            }
        }
        let mut push = ring.begin(PUSH_DWORDS).map_err(|_| EIO)?;
        let mut ahead = [0u64; AHEAD];
        let mut places = ahead.iter_mut();
        for (id, number) in acquire.iter() {
            let Some(other) = lanes.iter().find(|l| l.id == id && l.id != self.id) else {
                continue;
            };
            match other.poll(number) {
                Some(true) => {}
                Some(false) if other.is_off() => {}
                Some(false) => return Err(EIO),
                // The engine would not wait. The GPU is lost before anybody hears of this copy.
                None if other.lies() => {
                    other.denounce();
                    return Err(EIO);
                }
                None => {
                    // CAST: the bits that the semaphore has.
                    push.acquire(other.va, number as u32).map_err(|_| EINVAL)?;
                    if let Some(place) = places.next() {
                        *place = PushId::new(id, number).word();
                    }
                }
            }
        }
        f(&mut push).map_err(|e| {
            pr_err!(
                "gpu {} {:?}: push refused: {:?}\n",
                self.gpu,
                self.engine,
                e
            );
            EINVAL
        })?;
        // The doorbell is rung below; nobody looks at the stamp before the push is over.
        let next = self.stamps.begin(time::now_ns() * KINDS + engine as u64);
        for (at, of) in self.ahead_of(next).into_iter().flatten().zip(ahead) {
            at.store(of, Relaxed);
        }
        // Before the doorbell: from there on it may be over.
        self.begun.begin(next);
        let value = push.submit(
            &*self.bars,
            SubmitFlags {
                interrupt: Some(interrupt),
                no_flush: false,
            },
        );
        // CAST: the bits that the semaphore has.
        debug_assert!(value == next as u32);
        self.stamps.submit(next);
        Ok(Fence::new(self.id, next))
    }

    /// The non-stall interrupt came, or the lane changed otherwise. Any context.
    pub(super) fn wake(&self) {
        // In an interrupt the lock may be held by what was interrupted: then the next one who looks counts.
        let completed = match self.semaphore.try_lock().as_deref_mut() {
            Some(semaphore @ Semaphore::At(..)) => Some(self.read(semaphore)),
            _ => None,
        };
        if let Some(completed) = completed {
            self.count_up_to(completed);
        }
        self.moved.wake_all();
    }

    /// If the copy engine stopped in this channel and serves it no more: lets it try again. Nobody stands behind one that was given up.
    pub(super) fn see_to_it(&self) {
        if !self.works() {
            self.release_again();
        } else if self.has_faulted() {
            let _gave_up_said_so = self.restart(&mut || false);
        }
    }

    /// Its engine refuses to go on with it. Says why, the first time: who waits for it gives it up as one that stands. Any context.
    pub(super) fn hear_refusal(&self) {
        let Ok(Some(why)) = bringup::take_refusal(&*self.bars, &self.ce) else {
            return;
        };
        if !self.refused.xchg(true, Relaxed) {
            pr_err!(
                "gpu {} channel {} ({:?}): its engine refuses: {:x?}\n",
                self.gpu,
                self.id.0,
                self.engine,
                why
            );
        }
    }

    /// The copy engine faulted in this channel, it is said: the flag of that may come later, while `late` says so. Lets it try again, a
    /// bounded number of times at the same place; or go on behind a page that failed. Returns whether it did, or somebody else had done.
    pub(super) fn restart(&self, late: &mut Wait<'_>) -> bool {
        // Until the fault is cleared: who comes then must not take the next one for this one.
        let mut r = self.restarts.lock();
        if !self.works() {
            return false;
        }
        let faulted = self.ce.runlist.engine_faulted(&*self.bars, self.chid, late);
        if faulted != Ok(true) {
            return true;
        }
        let at = self.completed();
        if r.at != at {
            *r = Restarts {
                at,
                times: 0,
                left_out: 0,
            };
        }
        if r.left_out < LEFT_OUT_MAX && self.leaves_out(at.wrapping_add(1)) {
            r.left_out = r.left_out.saturating_add(1);
        } else {
            r.times = r.times.saturating_add(1);
        }
        if r.times > RESTARTS_MAX {
            drop(r);
            self.give_up(at.wrapping_add(1), uapi::HUVM_CHANNEL_FAULTED);
            return false;
        }
        match self.ce.runlist.clear_faulted(&*self.bars, self.chid) {
            Ok(_) => true,
            Err(e) => {
                pr_err!("gpu {} {:?}: restart: {:?}\n", self.gpu, self.engine, e);
                false
            }
        }
    }

    /// Whether it stands at a page that failed, in push `number`, which goes on without it.
    fn leaves_out(&self, number: u64) -> bool {
        if !poison::is_told_by(self.gpu) {
            return false;
        }
        let Ok(Some(at)) = ecc::stands(&*self.bars, self.ce.fault_id, self.chid) else {
            return false;
        };
        let noted = poison::note(self.gpu, (at.gpu, at.page), self.id, number);
        if noted {
            ecc::leave_out(&*self.bars, self.ce.fault_id, self.chid, at);
        }
        noted
    }

    /// Gives the channel up, once, and says who waited for what, and `why` (`enum huvm_channel_end`). It is broken then, at once
    /// or when what it was copying is rescued; nothing is waited for here but that it is off its engine, as callers may hold any
    /// lock.
    fn give_up(&self, number: u64, why: u32) {
        if !self.standing.give_up() {
            return;
        }
        // Who waits with a lock lets go of it.
        self.wake();
        let state = self.ce.runlist.state(&*self.bars, self.chid);
        pr_err!(
            "gpu {} channel {} ({:?}): waited for {}, has completed {} of {}; {:?}. Taken off its engine\n",
            self.gpu,
            self.id.0,
            self.engine,
            number,
            self.completed(),
            self.stamps.submitted(),
            state,
        );
        waits::tell();
        self.announce_end(why);
        match self.stop() {
            // Nobody has looked since it said so, or nothing of it can be rescued: what it copied from may have another owner by now.
            Ok(()) if self.has_lied() => self.denounce(),
            Ok(()) if self.attendant.call() => {}
            Ok(()) => self.let_go(),
            Err(what) => {
                // Before anybody takes the memory that it copies to for free. Those that wait for this channel are taken off
                // their engines too: none goes on behind it.
                (self.disobeyed)(self.gpu, self.id, what);
                self.fail();
            }
        }
    }

    fn announce_end(&self, why: u32) {
        events::emit(
            None,
            &events::Event {
                kind: uapi::HUVM_EVENT_CHANNEL_LOST,
                cause: uapi::HUVM_CAUSE_NONE,
                gpu: self.gpu.into(),
                va: 0,
                length: 0,
                arg0: Kind::from(self.engine) as u64,
                arg1: why.into(),
            },
        );
    }

    /// It was given up, is off its engine, and what can be rescued is: from here on it is broken.
    pub(super) fn let_go(&self) {
        self.release();
        if self.lies() {
            self.denounce();
        } else {
            self.fail();
        }
    }

    /// Waits until whoever was submitting when the channel was given up has done so, or was refused.
    pub(super) fn refuses(&self) {
        drop(self.ring.lock());
    }

    /// Channels that wait for this one on the GPU go on: it writes nothing any more. What it had completed is kept.
    fn release(&self) {
        let mut semaphore = self.semaphore.lock();
        let last = self.read(&mut semaphore);
        if let Semaphore::At(mem, off, _) = &*semaphore {
            let mem = mem.clone();
            *semaphore = Semaphore::Stopped(mem, *off, last);
        }
        Self::lets_pass(&semaphore);
    }

    /// Whoever waits for a channel that was given up, on the GPU, goes on.
    fn lets_pass(semaphore: &Semaphore) {
        if let Semaphore::Stopped(mem, off, last) = semaphore {
            // Beyond all that there can be: whoever is building one now may have seen it work a moment ago.
            // CAST: the bits that the semaphore has.
            mem.write32(*off, (*last as u32).wrapping_add(ENTRIES));
        }
    }

    /// What an engine had on its way may have been written after the channel was given up, and stop others again.
    fn release_again(&self) {
        Self::lets_pass(&self.semaphore.lock());
    }

    /// Takes the channel off its engine: it reaches no memory from here on.
    ///
    /// # Errors
    /// What it does instead, as far as anybody knows.
    pub(super) fn stop(&self) -> core::result::Result<(), Disobeys> {
        let mut patience = Listed::new(What::Stop, self.gpu, self.id.0.into(), STOP_NS);
        let off = self.ce.runlist.disable(&*self.bars, self.chid);
        let off = off.and(
            self.ce
                .runlist
                .preempt(&*self.bars, &mut || patience.again()),
        );
        // It may have heard nothing of it.
        let off = off.and_then(|()| self.ce.runlist.state(&*self.bars, self.chid));
        let off = off.and_then(|state| match state.enabled {
            true => Err(huvm_hal::Error::Timeout("channel to be disabled")),
            false => Ok(()),
        });
        off.map_err(|e| match e {
            huvm_hal::Error::Gone => Disobeys::Gone,
            e => {
                pr_err!("gpu {} {:?}: preempt: {:?}\n", self.gpu, self.engine, e);
                Disobeys::Stays
            }
        })
    }

    /// Begins what [`Self::stop`] does, without waiting for its end.
    pub(super) fn silence(&self) {
        // Its number was good when it was made.
        let _in_range = self.ce.runlist.disable(&*self.bars, self.chid);
        self.ce.runlist.begin_preempt(&*self.bars);
    }

    /// Waits until what [`Self::silence`] began is done. Whether it reaches no memory. A GPU that does not answer has not stopped
    /// for that, and may not have heard what it was told: it is told again. It is gone when it does not answer for [`OUTAGE_NS`], since when
    /// `outage` says, if it does not.
    pub(super) fn is_silent(
        &self,
        patience: &mut Listed,
        outage: &mut Option<time::Patience>,
    ) -> bool {
        let is_off = loop {
            let off = self.ce.runlist.preempted(&*self.bars, &mut || {
                *outage = None;
                patience.again()
            });
            match off.and_then(|()| self.ce.runlist.state(&*self.bars, self.chid)) {
                Ok(_) if outage.take().is_some() && patience.again() => {}
                Ok(state) if !state.enabled => break true,
                Ok(_) if patience.again() => {}
                Err(huvm_hal::Error::Gone)
                    if outage
                        .get_or_insert_with(|| time::Patience::new(OUTAGE_NS))
                        .again() => {}
                // Whoever looks may not have run since it did not answer: once more.
                Err(huvm_hal::Error::Gone) if self.is_gone() => break true,
                Err(huvm_hal::Error::Gone) if patience.again() => *outage = None,
                Ok(_) | Err(_) => break false,
            }
            self.silence();
        };
        if !is_off {
            self.stays.store(true, Relaxed);
        }
        is_off
    }

    /// The GPU, if its engine may go on with this channel. Known before the channel is broken.
    pub(super) fn goes_on(&self) -> Option<u8> {
        self.stays.load(Relaxed).then_some(self.gpu)
    }

    /// Refuses submissions from now on, and waits until everything submitted is over.
    pub(super) fn drain(&self) -> Result {
        self.closing.store(true, Relaxed);
        // Whoever is submitting has the lock, and is counted when it is free.
        drop(self.ring.lock());
        self.wait(self.stamps.submitted())
    }

    /// Whoever waits from now on gets an error, but for what is complete.
    pub(super) fn fail(&self) {
        self.standing.fail();
        self.wake();
    }

    /// Gives the memory back; the lane keeps its last value. The channel must be off its engine, or its GPU kept from the bus.
    pub(super) fn close(&self) {
        self.fail();
        let ring = self.ring.lock().take();
        let last = self.completed();
        let old = core::mem::replace(&mut *self.semaphore.lock(), Semaphore::Was(last));
        drop((ring, old));
    }
}
