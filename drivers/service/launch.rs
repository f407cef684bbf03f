// SPDX-License-Identifier: GPL-2.0
//! Launches of the workload engine.
//!
//! A GPU has slots; each slot has a descriptor buffer made once. A launch holds its slot until somebody took its
//! result, or its space went. The thread that waits reads the result; the interrupt only wakes.

use crate::account::waits::{Listed, Waiting, What};
use crate::account::{self, counters::Counter, events};
use crate::device::{Gpu, Loss};
use crate::kernel::dma::DmaBuf;
use crate::kernel::ffi::uapi;
use crate::kernel::pci::insist;
use crate::kernel::wait::WaitQueue;
use crate::kernel::{task, time};
use crate::memory::clients::SUBCONTEXTS;
use crate::memory::space::Space;
use huvm_hal::ext::program::{self, Header, Instr};
use huvm_hal::ext::throttle;
use huvm_hal::ext::workload::{Engine, Report, Status};
use huvm_hal::ids::{SysAddr, Veid};
use huvm_hal::seam::DmaMem;
use huvm_hw::ext::desc;
use huvm_hw::ext::ident::FEATURE_THROTTLE;
use huvm_policy::share::{self, Runner, Runners};
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_mutex, new_spinlock, Arc, Mutex, SpinLock};

/// Slots of a GPU, at most.
const SLOTS: usize = 64;
/// How long an abort may take; the device ends a launch at once.
const ABORT_NS: u64 = 2_000_000_000;
/// A waiter looks this often without an interrupt, so that a lost one costs time only.
const LOOK_NS: u64 = 10_000_000;
/// Longest wait that a caller may ask for.
pub(crate) const WAIT_MAX_NS: u64 = 600_000_000_000;

/// Why the driver ended a launch.
#[derive(Clone, Copy)]
pub(crate) struct LaunchFailure {
    pub(crate) error: u32,
    pub(crate) va: u64,
    pub(crate) fault_type: u32,
    pub(crate) access_type: u32,
}

#[derive(Clone, Copy)]
struct Busy {
    space: u64,
    id: u64,
    /// Whose it is, by subcontext.
    runner: Runner,
    /// Set by the fault service when it cancels: why this launch failed, if it is one that fails of that.
    failure: Option<LaunchFailure>,
    /// The fault service ended it, for want of a channel to cancel with.
    stopped: bool,
    /// The device was told to start it.
    started: bool,
    /// Somebody is handing its result to user space. It holds the slot till that went well.
    claimed: bool,
}

/// The next launch's number, of all GPUs: one that is bound again does not begin anew, so that nobody takes the result of another
/// launch than was asked for.
static NEXT_ID: Atomic<u64> = Atomic::new(1);
/// Bits of an id that are the launch's number.
const ID_BITS: u64 = (1 << 56) - 1;

struct Table {
    /// Of each slot; in memory of its own, as whoever makes a GPU has a small stack.
    busy: KVec<Option<Busy>>,
    /// Of each slot, the launch whose result was claimed last; 0: none.
    handed: KVec<u64>,
}

/// What the device was given for its slots.
struct Buffers {
    /// Descriptors, made on first use.
    made: KVec<Option<DmaBuf>>,
    /// Blocks of each subcontext that may run at once; 0: no limit.
    limits: [u32; SUBCONTEXTS],
}

/// The slots of a GPU.
#[pin_data]
pub(crate) struct Slots {
    #[pin]
    table: SpinLock<Table>,
    /// Held while a slot is started or stopped, so that nobody stops a slot that is still being started, or one that has a new
    /// owner meanwhile.
    #[pin]
    buffers: Mutex<Buffers>,
    /// The blocks that run at once are divided: some space has a limit.
    shared: Atomic<bool>,
    /// They are to be divided anew by whoever has the buffers: an end found them taken.
    owed: Atomic<bool>,
    /// When they were divided for an end, ns.
    divided_ns: Atomic<u64>,
    #[pin]
    wait: WaitQueue,
    /// Slots that are held. To be read without the lock.
    held: Atomic<u32>,
}

impl Slots {
    /// All free.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<impl PinInit<Self>> {
        let mut busy = KVec::with_capacity(SLOTS, GFP_KERNEL)?;
        let mut handed = KVec::with_capacity(SLOTS, GFP_KERNEL)?;
        for _ in 0..SLOTS {
            busy.push(None, GFP_KERNEL)?;
            handed.push(0, GFP_KERNEL)?;
        }
        Ok(pin_init!(Self {
            table <- new_spinlock!(Table { busy, handed }, "huvm_launches"),
            buffers <- new_mutex!(Buffers {
                made: KVec::new(),
                limits: [0; SUBCONTEXTS],
            }, "huvm_descriptors"),
            shared: Atomic::new(false),
            owed: Atomic::new(false),
            divided_ns: Atomic::new(0),
            wait <- WaitQueue::new(),
            held: Atomic::new(0),
        }))
    }

    /// Something ended, or the GPU is lost: waiters look again. Any context.
    pub(crate) fn wake_all(&self) {
        self.wait.wake_all();
    }

    /// Whether the blocks that run at once are divided.
    fn is_shared(&self) -> bool {
        self.shared.load(Relaxed)
    }

    fn reserve(&self, space: u64, runner: Runner, slots: usize) -> Option<(usize, u64)> {
        let mut t = self.table.lock();
        let held = t.busy.iter().flatten().map(|b| b.runner.owner);
        if !share::may_take(&runner.owner, slots, held) {
            return None;
        }
        let at = t.busy.iter().take(slots).position(Option::is_none)?;
        let id = NEXT_ID.fetch_add(1, Relaxed) & ID_BITS;
        *t.busy.get_mut(at)? = Some(Busy {
            space,
            id,
            runner,
            failure: None,
            stopped: false,
            started: false,
            claimed: false,
        });
        self.held.add(1, Relaxed);
        Some((at, id))
    }

    /// Frees the slot if it still holds this launch, and says what was known of it: its number may name another launch,
    /// of another space, by now.
    fn free(&self, slot: usize, space: u64, id: u64) -> Option<Busy> {
        let mut t = self.table.lock();
        let held = t.busy.get_mut(slot)?;
        let was = held.take_if(|b| b.space == space && b.id == id)?;
        self.held.fetch_sub(1, Relaxed);
        Some(was)
    }

    /// Whether a launch's result was handed out, or is about to be, and none of its slot's later ones.
    fn was_handed_out(&self, slot: usize, id: u64) -> bool {
        self.table.lock().handed.get(slot) == Some(&id)
    }

    /// Whether there are launches that run, or whose result nobody has taken.
    pub(crate) fn are_there(&self) -> bool {
        self.held.load(Relaxed) != 0
    }

    /// Lets one caller hand out the result of a launch. `None`: it is not in the slot any more, or somebody else is
    /// doing that.
    fn claim(&self, slot: usize, space: u64, id: u64) -> Option<Busy> {
        let mut t = self.table.lock();
        let held = t.busy.get_mut(slot)?.as_mut();
        let b = held.filter(|b| b.space == space && b.id == id && !b.claimed)?;
        b.claimed = true;
        let busy = *b;
        // By now, as its slot may be taken away in the middle of that.
        if let Some(last) = t.handed.get_mut(slot) {
            *last = id;
        }
        Some(busy)
    }

    /// The result could not be handed out: the next caller gets it.
    fn unclaim(&self, slot: usize, space: u64, id: u64) {
        let mut t = self.table.lock();
        if let Some(Some(b)) = t.busy.get_mut(slot) {
            if b.space == space && b.id == id {
                b.claimed = false;
            }
        }
        if let Some(last) = t.handed.get_mut(slot).filter(|last| **last == id) {
            *last = 0;
        }
        drop(t);
        self.wait.wake_all();
    }

    fn find(&self, space: u64, id: u64) -> Option<(usize, Busy)> {
        let t = self.table.lock();
        t.busy.iter().enumerate().find_map(|(i, b)| {
            b.filter(|b| b.space == space && b.id == id && b.started)
                .map(|b| (i, b))
        })
    }

    fn first_of(&self, space: u64) -> Option<(usize, u64)> {
        let t = self.table.lock();
        t.busy
            .iter()
            .enumerate()
            .find_map(|(i, b)| b.filter(|b| b.space == space).map(|b| (i, b.id)))
    }
}

/// Launches of one space: nothing but the way to all of them.
pub(crate) struct SpaceLaunches;

impl SpaceLaunches {
    /// For a new space.
    pub(crate) const fn new() -> Self {
        SpaceLaunches
    }

    /// Ends every launch of the space on a GPU; their results stay to be taken. Bounded.
    pub(crate) fn stop(&self, space: &Space, gpu: &Arc<Gpu>) {
        let slots = gpu.launches();
        let steady = slots.buffers.lock();
        each_of(gpu, space, |slot| stop_slot(gpu, slot));
        drop(steady);
        slots.wake_all();
    }

    /// Ends and forgets every launch of the space on a GPU. Bounded.
    pub(crate) fn abort_gpu(&self, space: &Space, gpu: &Arc<Gpu>) {
        let slots = gpu.launches();
        for _ in 0..SLOTS {
            let _steady = slots.buffers.lock();
            let Some((slot, id)) = slots.first_of(space.id()) else {
                break;
            };
            stop_slot(gpu, slot);
            slots.free(slot, space.id(), id);
        }
        // Before the subcontext is somebody else's.
        divide_anew(gpu);
        slots.wake_all();
    }
}

fn engine(gpu: &Gpu) -> Result<Engine> {
    gpu.ext().and_then(|e| e.workload).ok_or(EOPNOTSUPP)
}

/// Ids name the GPU too, so that a wait finds it: GPU in the top byte.
fn public_id(gpu: u8, id: u64) -> u64 {
    (u64::from(gpu) << 56) | (id & ID_BITS)
}

/// Which GPU, and which launch there, an id names.
pub(crate) fn split_id(public: u64) -> (u32, u64) {
    // CAST: one byte is left.
    ((public >> 56) as u32, public & ID_BITS)
}

/// Starts a program. Returns the launch's id.
///
/// # Errors
/// As `struct huvm_launch` says.
pub(crate) fn launch(
    space: &Arc<Space>,
    gpu: &Arc<Gpu>,
    header: &Header,
    instrs: &[Instr],
) -> Result<u64> {
    gpu.check()?;
    let engine = engine(gpu)?;
    // Before anything is taken that others may want: a program that is none costs its client alone.
    program::verify(header, instrs).map_err(refused)?;
    let slots = gpu.launches();
    let mut buffers = slots.buffers.lock();
    divide_owed(gpu, &mut buffers);
    // Looked up under the lock: who lets go of the GPU first stops its use, or takes it away, then aborts under this lock. So it
    // either finds this launch, or this launch finds that. No fault would be served any more.
    let sg = space.on_gpu(gpu.index()).ok_or(ENOENT)?;
    if sg.is_stopped() {
        return Err(ENODEV);
    }
    // CAST: at most 64.
    let usable = (engine.slots as usize).min(SLOTS);
    let runner = Runner {
        owner: space.owner(),
        veid: sg.veid,
    };
    let (slot, id) = slots.reserve(space.id(), runner, usable).ok_or(EBUSY)?;
    let started = start(
        gpu,
        &mut buffers.made,
        &engine,
        slot,
        header,
        instrs,
        (sg.instance(), sg.veid),
    );
    if let Err(e) = started {
        // It may run for all that.
        stop_slot(gpu, slot);
        slots.free(slot, space.id(), id);
        return Err(e);
    }
    if let Some(Some(b)) = slots.table.lock().busy.get_mut(slot) {
        b.started = true;
    }
    gpu.activity.note(runner.veid);
    // One launch alone shares with nobody.
    if slots.held.load(Relaxed) > 1 || slots.is_shared() {
        share_out(gpu, &mut buffers);
    }
    account::count(Some(gpu), Some(space), Counter::Launches, 1);
    Ok(public_id(gpu.index(), id))
}

/// A limit that is none: nobody knows which one the GPU has.
const UNKNOWN: u32 = u32::MAX;

/// Divides the blocks that the GPU runs at once among the spaces whose launches run, as [`share::blocks_of`] says: one that has
/// as many as it can does not keep the others from starting any. One space alone has no limit.
fn share_out(gpu: &Gpu, buffers: &mut Buffers) {
    let divides = gpu.ext().is_some_and(|e| e.has(FEATURE_THROTTLE));
    let (Ok(engine), true) = (engine(gpu), divides) else {
        return;
    };
    let slots = gpu.launches();
    let mut running = Runners::new();
    each_started(gpu, |slot, b| {
        if running.find(b.runner.veid).is_none() && runs(gpu, slot) {
            running.add(b.runner);
        }
    });
    let mut shared = false;
    for (veid, limit) in (0u8..).zip(buffers.limits.iter_mut()) {
        let me = running.find(veid);
        let blocks = me.and_then(|me| share::blocks_of(me, &running, engine.max_resident));
        shared |= blocks.is_some();
        if blocks.unwrap_or(0) != *limit {
            // Where it did not say that it heard it may have, or not: it is told again the next time, whatever is wanted then.
            let told = throttle::set_veid_limit(gpu, Veid(veid), blocks);
            *limit = told.map_or(UNKNOWN, |()| blocks.unwrap_or(0));
        }
        // One that could not be lifted, as the last of two is alone now, would stay for as long as it is so.
        shared |= *limit != 0;
    }
    slots.shared.store(shared, Relaxed);
}

/// The subcontext of each launch that runs.
pub(super) fn each_running(gpu: &Gpu, mut f: impl FnMut(u8)) {
    if !gpu.launches().are_there() || gpu.is_lost() {
        return;
    }
    each_started(gpu, |slot, b| {
        if runs(gpu, slot) {
            f(b.runner.veid);
        }
    });
}

/// Each launch that was started, and its slot. One that has ended and waits to be collected does not run ([`runs`]).
fn each_started(gpu: &Gpu, mut f: impl FnMut(usize, &Busy)) {
    for slot in 0..SLOTS {
        let held = gpu
            .launches()
            .table
            .lock()
            .busy
            .get(slot)
            .copied()
            .flatten();
        if let Some(b) = held.filter(|b| b.started) {
            f(slot, &b);
        }
    }
}

/// A launch has ended: what it had is the others'. Costs nothing where nobody shares.
fn divide_anew(gpu: &Gpu) {
    let slots = gpu.launches();
    if slots.is_shared() && !gpu.is_lost() {
        // Before it is tried: who has it now may be the last one for a while.
        slots.owed.store(true, Relaxed);
        if let Some(mut buffers) = slots.buffers.try_lock() {
            divide_owed(gpu, &mut buffers);
        }
    }
}

/// Divides what an end left to be divided, by one who has the buffers: callers in a loop may have them all the time. The fault service
/// looks again, too.
fn divide_owed(gpu: &Gpu, buffers: &mut Buffers) {
    let slots = gpu.launches();
    if slots.owed.load(Relaxed) && slots.owed.xchg(false, Relaxed) {
        slots.divided_ns.store(time::now_ns(), Relaxed);
        share_out(gpu, buffers);
    }
}

/// As [`divide_anew`], for the fault service, since nobody may wait for the end of a launch. Each 10 ms at most.
pub(crate) fn look_again(gpu: &Gpu) {
    let slots = gpu.launches();
    let now = || time::now_ns().saturating_sub(slots.divided_ns.load(Relaxed));
    if slots.is_shared() && now() >= LOOK_NS {
        divide_anew(gpu);
    }
}

fn start(
    gpu: &Gpu,
    buffers: &mut KVec<Option<DmaBuf>>,
    engine: &Engine,
    slot: usize,
    header: &Header,
    instrs: &[Instr],
    (inst, veid): (u64, u8),
) -> Result {
    while buffers.len() < SLOTS {
        buffers.push(None, GFP_KERNEL)?;
    }
    let buf = buffers.get_mut(slot).ok_or(EIO)?;
    let mem = match buf {
        Some(mem) => mem,
        None => buf.insert(gpu.dma_alloc(desc::MAX_BYTES.next_multiple_of(4096))?),
    };
    program::build(mem, header, instrs).map_err(refused)?;
    // CAST: below 64.
    gpu.hal(engine.start(
        gpu,
        slot as u32,
        SysAddr(mem.dma_addr()),
        SysAddr(inst),
        Veid(veid),
    ))
}

/// Why a program is not started.
fn refused(e: huvm_hal::Error) -> Error {
    match e {
        huvm_hal::Error::BadProgram(..) => EINVAL,
        other => crate::channel::errno(other),
    }
}

/// Whether the slot runs, or may: the device does not say that it does not.
fn runs(gpu: &Gpu, slot: usize) -> bool {
    // CAST: below 64.
    engine(gpu).is_ok_and(|e| !is_over(&e.status(gpu, slot as u32)))
}

/// Whether a slot with this status runs nothing.
fn is_over(status: &huvm_hal::Result<Status>) -> bool {
    use Status::{Aborted, Done, Failed, Idle};
    matches!(
        status,
        Ok(Idle | Done | Aborted | Failed(_)) | Err(huvm_hal::Error::OutOfRange(..))
    )
}

/// Makes sure that the device does not run the slot any more. Bounded; a device that does not obey is lost.
fn stop_slot(gpu: &Arc<Gpu>, slot: usize) {
    let Ok(engine) = engine(gpu) else {
        return;
    };
    // CAST: below 64.
    let n = slot as u32;
    // One that does not answer may run it still: then it is lost.
    let runs = || {
        let status = engine.status(&**gpu, n);
        let over = is_over(&status);
        let _lost_if_gone = gpu.hal(status);
        !over && !gpu.is_lost()
    };
    if !runs() {
        return;
    }
    let mut patience = Listed::new(What::Abort, gpu.index(), slot as u64, ABORT_NS);
    loop {
        // Again each time, as it may not have been heard.
        let _in_range = engine.abort(&**gpu, n);
        if !runs() {
            break;
        }
        if !patience.again() {
            // It may have ended while nobody looked.
            if runs() {
                gpu.mark_lost(Loss::Launch(n));
            }
            break;
        }
    }
}

/// As [`SpaceLaunches::stop`], for the fault service: those for which a reason was noted ([`fail_space`]) fail for that. What was started
/// since has nothing to do with it.
pub(crate) fn stop_space(gpu: &Arc<Gpu>, space: &Space) {
    let slots = gpu.launches();
    let _steady = slots.buffers.lock();
    each_of(gpu, space, |slot| {
        let is_running = runs(gpu, slot);
        let meant = match slots.table.lock().busy.get_mut(slot) {
            Some(Some(b)) if b.failure.is_some() => {
                // Before it ends, so that who sees it ended sees this.
                b.stopped |= is_running;
                true
            }
            _ => false,
        };
        if meant {
            stop_slot(gpu, slot);
        }
    });
}

/// The slots of a space's launches, by one who holds the buffers.
fn each_of(gpu: &Gpu, space: &Space, mut f: impl FnMut(usize)) {
    each_started(gpu, |slot, b| {
        if b.space == space.id() {
            f(slot);
        }
    });
}

/// Looks at a launch, after waiting up to `timeout_ns` for its end (0: not at all), and gives what it saw to `deliver`.
/// An end is taken, and the id gone, once `deliver` succeeded: a result that did not reach its reader stays for the next
/// call. Meanwhile the launch has not ended for others.
///
/// # Errors
/// `ENOENT`, `ETIMEDOUT`, `EINTR`, `EINVAL`; those of `deliver`.
pub(crate) fn wait(
    space: &Arc<Space>,
    w: &mut uapi::huvm_wait,
    abort: bool,
    deliver: impl FnOnce(&uapi::huvm_wait) -> Result,
) -> Result {
    if w.timeout_ns > WAIT_MAX_NS {
        return Err(EINVAL);
    }
    let (index, id) = split_id(w.launch);
    // Before the launch is looked for: what is found was started with this, if that is there.
    let mut sg = u8::try_from(index).ok().and_then(|i| space.on_gpu(i));
    let gpu = crate::device::registry::gpu(index)
        .or_else(|| sg.as_ref().map(|sg| sg.gpu.clone()))
        .ok_or(ENOENT)?;
    let slots = gpu.launches();
    let (at, _) = slots.find(space.id(), id).ok_or(ENOENT)?;
    if abort {
        let mut steady = slots.buffers.lock();
        divide_owed(&gpu, &mut steady);
        if let Some((slot, _)) = slots.find(space.id(), id) {
            stop_slot(&gpu, slot);
        }
    }
    let started = time::now_ns();
    // Until there is something to deliver: that may take as long as user space likes.
    let mut listed =
        (w.timeout_ns != 0).then(|| Waiting::on(What::Launch, gpu.index(), id, w.timeout_ns));
    loop {
        let Some((slot, found)) = slots.find(space.id(), id) else {
            if slots.was_handed_out(at, id) {
                return Err(ENOENT);
            }
            // Not one that was bound in its place since.
            let there = crate::device::registry::gpu(index)
                .is_some_and(|g| Arc::ptr_eq(&g, &gpu) && !g.is_lost());
            if there && sg.as_ref().is_some_and(|sg| !sg.is_stopped()) {
                // Another waiter was quicker and has the result. Nothing is taken away before its use is stopped.
                return Err(ENOENT);
            }
            // Taken away under the wait: the space let go of the GPU, or the GPU of the machine.
            w.status = uapi::HUVM_LAUNCH_ABORTED;
            if !there {
                w.status = uapi::HUVM_LAUNCH_FAILED;
                w.error = uapi::HUVM_ERROR_GPU_LOST;
            }
            // What it has of the GPU's memory must go with the GPU, and user space may take for ever.
            drop((listed.take(), sg.take()));
            return deliver(w);
        };
        let report = look(&gpu, slot);
        let ended = !found.claimed
            && (gpu.is_lost()
                || report.is_some_and(|r| !matches!(r.status, Status::Running | Status::Idle)));
        if ended {
            // Not what was found above: why it failed is noted before the device is told to fail it, but maybe after that look.
            let Some(busy) = slots.claim(slot, space.id(), id) else {
                // Another waiter was quicker; the report may be of the slot's next launch.
                continue;
            };
            fill(w, &gpu, report, Some(&busy));
            drop((listed.take(), sg.take()));
            if let Err(e) = deliver(w) {
                slots.unclaim(slot, space.id(), id);
                return Err(e);
            }
            // Nothing is there to free if the space let go of the GPU meanwhile.
            let _busy = slots.free(slot, space.id(), id);
            gpu.activity.note(found.runner.veid);
            divide_anew(&gpu);
            slots.wake_all();
            events::emit(
                Some(space),
                &events::Event {
                    kind: uapi::HUVM_EVENT_LAUNCH_END,
                    cause: uapi::HUVM_CAUSE_NONE,
                    gpu: u32::from(gpu.index()),
                    va: 0,
                    length: 0,
                    arg0: w.launch,
                    arg1: w.status.into(),
                },
            );
            return Ok(());
        }
        let waited = time::now_ns().saturating_sub(started);
        if w.timeout_ns == 0 {
            // What was read is of the slot's next launch, maybe another client's, if this one went meanwhile.
            if slots.find(space.id(), id).is_none() {
                continue;
            }
            fill(w, &gpu, report, None);
            w.status = uapi::HUVM_LAUNCH_RUNNING;
            w.error = uapi::HUVM_ERROR_NONE;
            drop(sg.take());
            return deliver(w);
        }
        if waited >= w.timeout_ns {
            return Err(ETIMEDOUT);
        }
        let left = (w.timeout_ns - waited).min(LOOK_NS);
        let engine = engine(&gpu)?;
        // CAST: below 64.
        let n = slot as u32;
        slots.wait.wait_killable(left, || {
            // One that was just given to the device may still be to begin.
            let running = || match engine.status(&*gpu, n) {
                Ok(Status::Idle) => true,
                status => !is_over(&status),
            };
            slots
                .find(space.id(), id)
                .is_none_or(|(_, b)| !b.claimed && (gpu.is_lost() || !running()))
        })?;
        if task::signal_pending() {
            return Err(EINTR);
        }
    }
}

/// State and results of a slot, if the device says them. One that makes no sense of it for a while is lost: it would not say either
/// when the launch has ended.
fn look(gpu: &Gpu, slot: usize) -> Option<Report> {
    // CAST: below 64.
    let n = slot as u32;
    let engine = engine(gpu).ok()?;
    let mut report = None;
    let makes_sense = insist(|| {
        let read = engine.report(gpu, n);
        let makes_sense = !matches!(read, Err(huvm_hal::Error::BadDevice(..)));
        report = Some(read);
        makes_sense
    });
    if !makes_sense {
        gpu.mark_lost(Loss::Launch(n));
    }
    gpu.hal(report?).ok()
}

fn fill(w: &mut uapi::huvm_wait, gpu: &Gpu, report: Option<Report>, busy: Option<&Busy>) {
    w.error = uapi::HUVM_ERROR_NONE;
    let Some(r) = report.filter(|_| !gpu.is_lost()) else {
        w.status = uapi::HUVM_LAUNCH_FAILED;
        w.error = uapi::HUVM_ERROR_GPU_LOST;
        return;
    };
    w.status = match r.status {
        Status::Done => uapi::HUVM_LAUNCH_DONE,
        Status::Aborted => uapi::HUVM_LAUNCH_ABORTED,
        Status::Running | Status::Idle => uapi::HUVM_LAUNCH_RUNNING,
        Status::Failed(e) => {
            w.error = e;
            uapi::HUVM_LAUNCH_FAILED
        }
    };
    w.fault_va = r.error_va.0;
    w.fault_type = r.fault_type.into();
    w.access_type = r.access_type.into();
    // The device only knows that it was cancelled, or ended; the driver knows why. What ended otherwise was not meant.
    let meant = |b: &&Busy| match r.status {
        Status::Failed(e) => e == uapi::HUVM_ERROR_CANCELLED,
        Status::Aborted => b.stopped,
        _ => false,
    };
    if let Some(f) = busy.filter(meant).and_then(|b| b.failure) {
        w.status = uapi::HUVM_LAUNCH_FAILED;
        w.error = f.error;
        w.fault_va = f.va;
        w.fault_type = f.fault_type;
        w.access_type = f.access_type;
    }
    w.mismatches = r.mismatches;
    w.mismatch_va = r.mismatch_va.0;
    w.blocks_done = r.blocks_done;
    w.faults = r.faults;
    w.bytes = r.bytes;
    w.start_ns = r.start_ns;
    w.end_ns = r.end_ns;
}

/// The fault service is about to cancel an access of this space: its launches on the GPU that fail now fail for this
/// reason. One that an earlier reason was noted for and that goes on was not meant then.
pub(crate) fn fail_space(gpu: &Gpu, space: &Space, why: LaunchFailure) {
    let mut t = gpu.launches().table.lock();
    for (slot, b) in t.busy.iter_mut().enumerate() {
        let Some(b) = b.as_mut().filter(|b| b.space == space.id()) else {
            continue;
        };
        // Also where nobody knows yet that it was started: it may be the one that faulted.
        if b.failure.is_none() || runs(gpu, slot) {
            b.failure = Some(why);
        }
    }
}

/// The GPU leaves: waiters end, and descriptors go. Nothing runs by then, and nothing does behind it, whoever's it was.
pub(crate) fn gpu_removed(gpu: &Arc<Gpu>) {
    let mut buffers = gpu.launches().buffers.lock();
    if !gpu.is_lost() {
        for slot in 0..SLOTS {
            stop_slot(gpu, slot);
        }
    }
    let old = core::mem::take(&mut buffers.made);
    drop(buffers);
    gpu.launches().wake_all();
    drop(old);
}
