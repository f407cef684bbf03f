// SPDX-License-Identifier: GPL-2.0
//! Who waits for what, now.
//!
//! Whoever is about to sleep until a device or another task has done something says so first ([`Waiting::on`]), with the
//! time within which it is to be over. The list is what a person looks at when something seems to hang
//! (`/sys/kernel/debug/huvm/waits`), and it goes to the kernel's log when a bound has passed: with the wait that broke its
//! bound, those that go on beside it, which is the chain (once a second at most). Ending the wait is the business of the code that waits; a wait that
//! did not end although its bound is over is found by [`Watch`], a thread that looks again and again as long as the module is there.
//!
//! Not here: threads with nothing to do, readers of events, who may wait for ever, those that wait for a lock, whose holders are here,
//! and what the kernel waits for in its own calls (a grace period, an interrupt's handler, the end of a reset).
//!
//! The list is a table of slots without a lock, so that it can be written and read anywhere ([`huvm_lockless::listing`]). A reader sees a
//! wait whole or not at all: what is complained about is one wait with the bound of that wait.

use crate::kernel::task;
use crate::kernel::thread::{self, KThread};
use crate::kernel::time::{self, Patience};
use crate::kernel::wait::WaitQueue;
use core::fmt::Write;
use huvm_lockless::listing::{self, Place};
use huvm_lockless::pause::Pause;
use kernel::fmt;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::Arc;

/// Waits that are listed at once, of clients for their launches, and of all others: however many the former are, they hide none of
/// the latter. What is more is counted ([`UNLISTED`]).
const SLOTS: usize = 64;
/// How late a wait may end: whoever waits has to run first, on a machine that may be busy, ns.
const LATE_NS: u64 = 10_000_000_000;

/// The watch looks this often.
const LOOK_NS: u64 = 1_000_000_000;

/// All waits are put into the log so often at most; what has a longer bound is in the list by then,
const TELL_NS: u64 = 1_000_000_000;
/// and for packets so often: a device can let the driver wait in vain for one after the other, as long as others are good.
pub(crate) const TELL_PACKETS_NS: u64 = 60_000_000_000;

/// What is waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum What {
    /// A channel's copies; the number is the channel's.
    Copy,
    /// Room in a channel's ring; the number is the channel's.
    Room,
    /// A channel that is taken off its engine; the number is the channel's.
    Stop,
    /// An invalidate or a replay.
    Command,
    /// A launch, by its client; the number is the launch's.
    Launch,
    /// A launch that is aborted; the number is its slot.
    Abort,
    /// A chunk that can be evicted.
    Chunk,
    /// Clients that let go of a GPU, which leaves.
    Clients,
    /// Others to give up their DMA mappings; the number is how many there were.
    Mappings,
    /// A step of set-up, of the end, or of a self test; the number is the channel's, or 0.
    Step,
    /// Host memory, for what would be lost without it.
    Memory,
    /// A thread of the driver that was asked to end.
    Thread,
    /// A fault packet to become valid, or a ring to be idle.
    Packet,
}

impl What {
    const ALL: [What; 13] = [
        What::Copy,
        What::Room,
        What::Stop,
        What::Command,
        What::Launch,
        What::Abort,
        What::Chunk,
        What::Clients,
        What::Mappings,
        What::Step,
        What::Memory,
        What::Thread,
        What::Packet,
    ];

    fn text(self) -> &'static str {
        match self {
            What::Copy => "copy",
            What::Room => "ring-room",
            What::Stop => "channel-stop",
            What::Command => "command",
            What::Launch => "launch",
            What::Abort => "launch-abort",
            What::Chunk => "chunk",
            What::Clients => "clients",
            What::Mappings => "dma-mappings",
            What::Step => "step",
            What::Memory => "host-memory",
            What::Thread => "thread",
            What::Packet => "fault-packet",
        }
    }
}

/// A place in the list.
///
/// Its words: the bound, ns; [`What`], the GPU, and the task's process id, 8, 8 and 32 bits; the number; the task's name.
type Slot = Place<5>;

static LAUNCHES: [Slot; SLOTS] = [const { Slot::new() }; SLOTS];
static OTHERS: [Slot; SLOTS] = [const { Slot::new() }; SLOTS];
/// Waits so far that found no place.
static UNLISTED: Atomic<u64> = Atomic::new(0);
/// When all were told, and when for a packet's sake.
static TOLD: Pause = Pause::new();
static TOLD_PACKETS: Pause = Pause::new();

/// Both tables.
fn slots() -> impl Iterator<Item = &'static Slot> {
    [&OTHERS, &LAUNCHES].into_iter().flatten()
}

/// One wait, until dropped.
pub(crate) struct Waiting(Option<&'static Slot>);

impl Waiting {
    /// The caller waits from now on for something of GPU `gpu`, for at most `bound_ns`.
    pub(crate) fn on(what: What, gpu: u8, number: u64, bound_ns: u64) -> Self {
        let now = time::now_ns();
        let who = u64::from(task::pid()) << 16 | u64::from(gpu) << 8 | u64::from(what as u8);
        let comm = task::comm();
        let mut name = comm.chunks_exact(8).map(|bytes| {
            let bytes = <[u8; 8]>::try_from(bytes).unwrap_or_default();
            u64::from_ne_bytes(bytes)
        });
        let (first, last) = (name.next(), name.next());
        let words = [bound_ns, who, number, first.unwrap_or(0), last.unwrap_or(0)];
        let table = match what {
            What::Launch => &LAUNCHES,
            _ => &OTHERS,
        };
        let slot = table.iter().find(|slot| slot.take(now, words));
        if slot.is_none() {
            UNLISTED.fetch_add(1, Relaxed);
        }
        Waiting(slot)
    }

    /// What it waits for got on: the bound counts from now.
    pub(crate) fn got_on(&self) {
        if let Some(slot) = self.0 {
            slot.renew(time::now_ns());
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(slot) = self.0 {
            slot.leave();
        }
    }
}

/// A [`Patience`] that is listed once it sleeps, and tells who waits when it is at its end.
pub(crate) struct Listed {
    patience: Patience,
    what: What,
    gpu: u8,
    number: u64,
    bound_ns: u64,
    waiting: Option<Waiting>,
}

impl Listed {
    /// Starts now.
    pub(crate) fn new(what: What, gpu: u8, number: u64, bound_ns: u64) -> Self {
        Listed {
            patience: Patience::new(bound_ns),
            what,
            gpu,
            number,
            bound_ns,
            waiting: None,
        }
    }

    /// Waits a little. `false` when time is up. May sleep.
    pub(crate) fn again(&mut self) -> bool {
        if self.waiting.is_none() && self.patience.sleeps() {
            self.waiting = Some(Waiting::on(self.what, self.gpu, self.number, self.bound_ns));
        }
        let more = self.patience.again();
        if !more && (self.what != What::Packet || is_due(&TOLD_PACKETS, TELL_PACKETS_NS)) {
            tell();
        }
        more
    }
}

/// A wait as it was seen.
struct Seen {
    waited_ns: u64,
    bound_ns: u64,
    who: u64,
    number: u64,
    name: [u8; 16],
    entry: listing::Seen<5>,
}

impl Seen {
    fn of(slot: &Slot, now: u64) -> Option<Self> {
        let entry = slot.read()?;
        let [bound_ns, who, number, names @ ..] = entry.words;
        let mut name = [0; 16];
        for (bytes, word) in name.chunks_exact_mut(8).zip(names) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        Some(Seen {
            waited_ns: now.saturating_sub(entry.since),
            bound_ns,
            who,
            number,
            name,
            entry,
        })
    }
}

/// `ms bound_ms pid name what gpu number`.
impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [what, gpu, ..] = self.who.to_le_bytes();
        let what = What::ALL.iter().find(|w| **w as u8 == what);
        let name = self.name.split(|b| *b == 0).next().unwrap_or_default();
        let (ms, bound) = (self.waited_ns / 1_000_000, self.bound_ns / 1_000_000);
        write!(f, "{ms} {bound} {} ", self.who >> 16)?;
        // A process chooses its name: none makes a line of its own, in a file or the log, or words that are the driver's.
        for byte in name {
            let shown = if byte.is_ascii_graphic() { *byte } else { b'?' };
            f.write_char(char::from(shown))?;
        }
        write!(
            f,
            " {} {gpu} {}",
            what.map_or("?", |w| w.text()),
            self.number
        )
    }
}

/// All waits, a line each.
pub(crate) fn show(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "ms bound_ms pid name what gpu number")?;
    let now = time::now_ns();
    for seen in slots().filter_map(|s| Seen::of(s, now)) {
        fmt::Display::fmt(&seen, f)?;
        writeln!(f)?;
    }
    match UNLISTED.load(Relaxed) {
        0 => Ok(()),
        n => writeln!(f, "unlisted {n}"),
    }
}

fn is_due(told: &Pause, pause_ns: u64) -> bool {
    told.is_over(time::now_ns(), pause_ns)
}

/// Puts all waits into the kernel's log: something that was waited for did not come. Not again within [`TELL_NS`].
pub(crate) fn tell() {
    if !is_due(&TOLD, TELL_NS) {
        return;
    }
    let now = time::now_ns();
    for seen in slots().filter_map(|s| Seen::of(s, now)) {
        pr_err!("waiting (ms bound_ms pid name what gpu number): {seen}\n");
    }
}

/// Looks for waits that go on although their bound is over, and puts each into the kernel's log once, with all that wait beside it.
fn look() {
    let now = time::now_ns();
    for slot in slots() {
        let Some(seen) = Seen::of(slot, now) else {
            continue;
        };
        let late = seen.waited_ns > seen.bound_ns.saturating_add(LATE_NS);
        if late && slot.is_first_to_tell(&seen.entry) {
            pr_err!("BUG: a wait is longer than its bound: {seen}\n");
            tell();
        }
    }
}

/// Looks for such waits as long as it lives: longer than any GPU, so that the end of the last one is watched too.
pub(crate) struct Watch(#[expect(dead_code, reason = "dropped")] KThread);

impl Watch {
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn start() -> Result<Self> {
        let nobody = Arc::pin_init(WaitQueue::new(), GFP_KERNEL)?;
        let watch = move || {
            while !thread::should_stop() {
                nobody.wait_idle(LOOK_NS, thread::should_stop);
                look();
            }
        };
        Ok(Watch(KThread::spawn(c"huvm-watch", watch)?))
    }
}
