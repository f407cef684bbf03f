// SPDX-License-Identifier: GPL-2.0
//! Event streams (`struct huvm_event`): a bounded ring per open file that asked for one.
//!
//! [`emit`] costs a load or two when nobody listens. It is where tracepoints come from, too. It never sleeps and never allocates: the ring was allocated when the
//! stream was turned on, and a full one drops the newest and counts them.

use super::counters::Counter;
use crate::kernel::ffi::uapi;
use crate::kernel::memcg::CHARGED;
use crate::kernel::time;
use crate::kernel::wait::WaitQueue;
use crate::memory::registry;
use crate::memory::space::Space;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_spinlock, Arc, SpinLock};

/// What happened. Fields as in `struct huvm_event`.
pub(crate) struct Event {
    pub(crate) kind: u32,
    pub(crate) cause: u32,
    pub(crate) gpu: u32,
    pub(crate) va: u64,
    pub(crate) length: u64,
    pub(crate) arg0: u64,
    pub(crate) arg1: u64,
}

struct Ring {
    records: KVVec<uapi::huvm_event>,
    /// Oldest record and how many there are.
    first: usize,
    len: usize,
    mask: u32,
    /// It was on, and was turned off.
    ended: bool,
    seq: u64,
    dropped: u32,
}

/// The event stream of one file.
#[pin_data]
pub(crate) struct Stream {
    mask: Atomic<u32>,
    #[pin]
    ring: SpinLock<Ring>,
    #[pin]
    wait: WaitQueue,
}

impl Stream {
    /// Off.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            mask: Atomic::new(0),
            ring <- new_spinlock!(Ring {
                records: KVVec::new(),
                first: 0,
                len: 0,
                mask: 0,
                ended: false,
                seq: 0,
                dropped: 0,
            }, "huvm_events"),
            wait <- WaitQueue::new(),
        })
    }

    /// Turns the stream of `space` on (or off, with an empty mask), with room for `records`. The caller says whom it is charged to.
    ///
    /// # Errors
    /// `ENOMEM`; it is as it was then.
    pub(crate) fn configure(space: &Arc<Space>, mask: u32, all: bool, records: usize) -> Result {
        let mut room = KVVec::new();
        if mask != 0 {
            room.resize(records, uapi::huvm_event::default(), CHARGED)?;
        }
        let stream = &space.events;
        registry::listens(space, all && mask != 0, || {
            let mut r = stream.ring.lock();
            r.ended = mask == 0 && (r.mask != 0 || r.ended);
            r.mask = mask;
            r.first = 0;
            r.len = 0;
            r.dropped = 0;
            stream.mask.store(mask, Relaxed);
            core::mem::swap(&mut r.records, &mut room);
        })?;
        // What it had room in is dropped without a lock.
        drop(room);
        stream.wait.wake_all();
        Ok(())
    }

    /// Writes an event of `space` to the stream of `listener`. Unless `at_once`, its readers are not woken before the stream is half full.
    fn push(listener: &Space, space: Option<&Space>, e: &Event, at_once: bool) {
        let stream = &listener.events;
        if stream.mask.load(Relaxed) & 1u32.checked_shl(e.kind).unwrap_or(0) == 0 {
            return;
        }
        let is_half_full = {
            let mut r = stream.ring.lock();
            let r = &mut *r;
            if r.mask & 1u32.checked_shl(e.kind).unwrap_or(0) == 0 {
                return;
            }
            r.seq = r.seq.wrapping_add(1);
            let room = r.records.len();
            if r.len >= room {
                r.dropped = r.dropped.saturating_add(1);
                super::count(None, Some(listener), Counter::EventsDropped, 1);
                return;
            }
            let at = (r.first + r.len) % room;
            let (seq, dropped) = (r.seq, r.dropped);
            if let Some(slot) = r.records.get_mut(at) {
                *slot = uapi::huvm_event {
                    seq,
                    time_ns: time::now_ns(),
                    va: e.va,
                    length: e.length,
                    // CAST: enums of the header, far below 2^16.
                    type_: e.kind as u16,
                    cause: e.cause as u16,
                    gpu: e.gpu,
                    pid: space.map_or(0, Space::pid),
                    dropped,
                    arg0: e.arg0,
                    arg1: e.arg1,
                };
                r.len += 1;
            }
            r.len >= room / 2
        };
        if at_once || is_half_full {
            stream.wait.wake_all();
        }
    }

    /// The oldest record, which stays until it is [taken](Self::take).
    pub(crate) fn oldest(&self) -> Option<uapi::huvm_event> {
        let r = self.ring.lock();
        if r.len == 0 {
            return None;
        }
        r.records.get(r.first).copied()
    }

    /// Takes the oldest record if it still is the one with this number. `false`: somebody else took it, or the stream
    /// began anew. Numbers never repeat.
    pub(crate) fn take(&self, seq: u64) -> bool {
        let mut r = self.ring.lock();
        let there = r.len != 0 && r.records.get(r.first).is_some_and(|e| e.seq == seq);
        if there {
            r.first = (r.first + 1) % r.records.len().max(1);
            r.len -= 1;
        }
        there
    }

    /// Whether a read would return something.
    pub(crate) fn has_some(&self) -> bool {
        self.ring.lock().len != 0
    }

    /// Whether the stream was on and was turned off: nothing comes before it is turned on again.
    pub(crate) fn has_ended(&self) -> bool {
        self.ring.lock().ended
    }

    /// Whether the stream is on.
    pub(crate) fn is_on(&self) -> bool {
        self.mask.load(Relaxed) != 0
    }

    /// Woken when events arrive, or when the stream is turned off.
    pub(crate) fn wait_queue(&self) -> &WaitQueue {
        &self.wait
    }
}

/// Tells whoever listens. `space`: whose event it is; events of no space reach only listeners to all.
///
/// Call it in process context when somebody may listen to all; events of no space from interrupts are not emitted.
pub(crate) fn emit(space: Option<&Space>, e: &Event) {
    tell(space, e, true);
}

/// As [`emit`], for one of many: who reads is woken by [`wake`], which must follow. A reader that is quick would be woken for each, which takes
/// microseconds.
pub(crate) fn emit_one_of_many(space: &Space, e: &Event) {
    tell(Some(space), e, false);
}

/// Wakes who reads events of `space`.
pub(crate) fn wake(space: &Space) {
    if space.events.is_on() {
        space.events.wait.wake_all();
    }
    registry::each_listener(|listener| listener.events.wait.wake_all());
}

fn tell(space: Option<&Space>, e: &Event, at_once: bool) {
    super::trace::event(space, e);
    if let Some(s) = space {
        if s.events.is_on() {
            Stream::push(s, Some(s), e, at_once);
        }
    }
    registry::each_listener(|listener| {
        if space.is_none_or(|s| s.id() != listener.id()) {
            Stream::push(listener, space, e, at_once);
        }
    });
}
