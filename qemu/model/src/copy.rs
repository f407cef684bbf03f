// SPDX-License-Identifier: GPL-2.0
//! Copy engine: how a launch runs, piece by piece.
//!
//! A piece is at most 2 MiB between one source memory and one destination memory. It is translated
//! when it is issued, holds the engine until its data has arrived, and writes its bytes at that
//! moment; an acknowledged TLB invalidate waits for it. With realism its source is read at any moment
//! until then, or some of it sooner than the rest. Between pieces, engines change channels.
//! The link's latency comes after the data and holds nothing, so pipelined launches overlap it. What a launch costs by itself comes
//! before its data, and runs beside that of the launch before it where they are pipelined: the longer of the two counts.
//! Launches of a channel complete in order.

use huvm_hw::ext::stats::Counter;

use crate::ce::{End, Job};
use crate::ext::ecc::{self, Page};
use crate::fabric::Side;
use crate::fault::Client;
use crate::flight::{Name, Space};
use crate::gpu::{Cx, Gpu};
use crate::host::{DmaError, Place};
use crate::method::reduce;
use crate::mmu::{Access, FaultType, Target, TlbKind};
use crate::queue::Event;
use crate::regs::ENGINE_CE0;
use crate::runlist::chram;

/// Bytes of a piece, at most.
const PIECE_BYTES: u64 = 2 << 20;
/// Translations of a piece, at most.
const PIECE_SEGMENTS: usize = 512;
/// With phantom data, launches from this size on move nothing, bytes.
const PHANTOM_BYTES: u64 = 4096;
/// From a virtual to the physical access code of the fault packet.
const ACCESS_PHYS: u32 = 8;

/// A run of contiguous bytes on both sides.
#[derive(Clone, Copy, Debug)]
struct Segment {
    src: Option<Target>,
    dst: Target,
    len: u64,
}

/// What an engine is doing.
pub(crate) struct Piece {
    pub(crate) chid: u32,
    run: u64,
    segments: Vec<Segment>,
    bytes: u64,
    src: Option<Side>,
    dst: Option<Side>,
    /// Bytes from its start that are read before it ends, and memory for them.
    early: usize,
    ahead: Vec<u8>,
    /// How many of those were read.
    read: usize,
    /// The launch.
    serial: u64,
    /// The first byte of the launch that is its, and what a fill repeats.
    start: u64,
    pattern: Vec<u8>,
    /// It moves no bytes.
    phantom: bool,
    /// Its channel is gone.
    pub(crate) orphan: bool,
}

/// Why a piece cannot be issued.
struct Refused {
    va: u64,
    kind: FaultType,
    access: u32,
    /// The page that failed, if that is why.
    bad: Option<Page>,
}

/// Client number of copy engine `ce` (hw-interface.md 1.5).
fn client(ce: usize) -> u32 {
    match ce {
        0 => 1,
        1 => 2,
        2 => 0x18,
        n => 0x20 + (n as u32 - 3),
    }
}

impl Gpu {
    /// Issues what a channel's launches have ready.
    pub(crate) fn ce_pump(&mut self, runlist: usize, chid: u32, cx: &mut Cx<'_>) {
        loop {
            let Some(r) = self.runlists.get_mut(runlist) else {
                return;
            };
            let runnable = r.runnable(chid);
            let Some(c) = r.channels.get_mut(&chid) else {
                return;
            };
            if !runnable || c.dead {
                return;
            }
            if c.saved.is_some() {
                if !self.ce_restore(runlist, chid, cx) {
                    return;
                }
                continue;
            }
            let Some(i) = c.jobs.iter().position(|j| !j.data_done) else {
                // A completion that a fault held up is tried again.
                if c.jobs.front().is_some_and(|j| j.complete_at <= cx.now) {
                    cx.at(cx.now, Event::CopyComplete { runlist, chid });
                }
                return;
            };
            let Some(job) = c.jobs.get_mut(i) else {
                return;
            };
            if job.dst.is_none() {
                job.data_done = true;
                job.complete_at = cx.now;
                cx.at(cx.now, Event::CopyComplete { runlist, chid });
                continue;
            }
            if job.hung || (!job.pipelined && i > 0) {
                return;
            }
            let Some(e) = self.engines.get_mut(runlist) else {
                return;
            };
            if e.piece.is_some() {
                if !e.queue.contains(&chid) {
                    e.queue.push_back(chid);
                }
                return;
            }
            return self.ce_issue(runlist, chid, i, cx);
        }
    }

    /// Starts the next piece of launch `i`.
    fn ce_issue(&mut self, runlist: usize, chid: u32, i: usize, cx: &mut Cx<'_>) {
        let each = self.inject.ce_fault_each;
        let Some(c) = self.channel(runlist, chid) else {
            return;
        };
        c.preempted = false;
        let Some(job) = c.jobs.get_mut(i) else {
            return;
        };
        let inject = core::mem::take(&mut job.inject_fault)
            || u32::try_from(runlist).is_ok_and(|n| each.checked_shr(n).unwrap_or(0) & 1 != 0);
        let stalls = core::mem::take(&mut job.stalls);
        job.stands_at = None;
        let first = job.done == 0;
        // Cheap: a launch is a few words and at most 16 bytes of pattern.
        let job = job.clone();
        let named = first && job.pipelined && self.ce_clashes(runlist, chid, i, &job);
        if named {
            // Here all goes in order; hardware may begin with it before the earlier one is done.
            cx.guest_error("pipelined launch on memory of an earlier one");
        }
        let mut piece = match self.ce_translate(runlist, chid, &job, inject, cx) {
            Ok(p) => p,
            Err(refused) => {
                if let Some(job) = self.channel(runlist, chid).and_then(|c| c.jobs.get_mut(i)) {
                    job.stands_at = refused.bad;
                }
                return self.ce_fault(runlist, chid, &refused, cx);
            }
        };
        let mut end = cx.now;
        if cx.timing {
            end = cx
                .fabric
                .transfer(cx.gpu, true, piece.src, piece.dst, piece.bytes, cx.now);
            let launch_ns = u64::from(cx.fabric.profile.launch_ns);
            if first && job.pipelined {
                // Its methods are decoded while what goes before it moves.
                end = end.max(cx.now.saturating_add(launch_ns));
            } else if first {
                end = end.saturating_add(launch_ns);
            }
        }
        let name = Name {
            gpu: cx.gpu,
            runlist,
            chid,
            serial: job.serial,
        };
        if piece.flies(name, cx) && !named {
            cx.guest_error("copies clash: one in flight has memory that another writes");
        }
        // A physical address uses no translation, so no invalidate waits for it (hw-interface.md 2.2).
        let translated = |e: Option<End>| matches!(e, Some(End::Virt(_)));
        if translated(job.src) || translated(job.dst) {
            self.mmu.in_use_until = self.mmu.in_use_until.max(end);
        }
        let ahead = match job.src {
            Some(_) if !piece.phantom => self.ce_read_moment(piece.bytes, end, cx.now),
            _ => None,
        };
        if let Some(e) = self.engines.get_mut(runlist) {
            e.runs = e.runs.wrapping_add(1);
            let run = e.runs;
            if let Some((at, early)) = ahead {
                piece.early = early;
                piece.ahead = core::mem::take(&mut e.spare);
                cx.at(at, Event::CopyRead { runlist, run });
            }
            e.piece = Some(Piece { run, ..piece });
            e.stalled = stalls;
            if !stalls {
                cx.at(end, Event::CopyPiece { runlist, chid, run });
            }
        }
    }

    /// When a piece that ends at `end` reads how many bytes of its source ahead of that, if it does.
    fn ce_read_moment(&mut self, bytes: u64, end: u64, now: u64) -> Option<(u64, usize)> {
        let all = usize::try_from(bytes).ok()?;
        match self.inject.moment(3)? {
            0 => Some((now, all)),
            1 => None,
            // Some at once, the rest at the end.
            2 => {
                let some = self.inject.moment(bytes)?;
                Some((now, usize::try_from(some).ok()?))
            }
            _ => {
                let later = self.inject.moment(end.saturating_sub(now))?;
                Some((now.saturating_add(later), all))
            }
        }
    }

    /// A piece reads ahead.
    pub(crate) fn copy_piece_reads(&mut self, runlist: usize, run: u64, cx: &mut Cx<'_>) {
        let piece = self.engines.get_mut(runlist).and_then(|e| e.piece.as_mut());
        if let Some(piece) = piece.filter(|p| p.run == run) {
            piece.read_ahead(cx);
        }
    }

    /// Whether a launch before the `i`th, not complete, has memory of this one.
    fn ce_clashes(&mut self, runlist: usize, chid: u32, i: usize, job: &Job) -> bool {
        self.channel(runlist, chid)
            .is_some_and(|c| c.jobs.iter().take(i).any(|earlier| job.clashes(earlier)))
    }

    /// Translates as much of a launch as makes a piece.
    fn ce_translate(
        &mut self,
        runlist: usize,
        chid: u32,
        job: &Job,
        inject: bool,
        cx: &mut Cx<'_>,
    ) -> Result<Piece, Refused> {
        let mut piece = Piece {
            chid,
            run: 0,
            segments: Vec::new(),
            bytes: 0,
            src: None,
            dst: None,
            early: 0,
            ahead: Vec::new(),
            read: 0,
            serial: job.serial,
            start: job.done,
            pattern: job.pattern.clone(),
            phantom: self.config.phantom && job.bytes >= PHANTOM_BYTES,
            orphan: false,
        };
        let Some(dst_end) = job.dst else {
            return Ok(piece);
        };
        if inject {
            let (va, access) = match dst_end {
                End::Virt(va) => (va, Access::Write as u32),
                End::Phys { addr, .. } => (addr, Access::Write as u32 + ACCESS_PHYS),
            };
            let kind = FaultType::Pte;
            return Err(Refused {
                va,
                kind,
                access,
                bad: None,
            });
        }
        while piece.bytes < PIECE_BYTES && piece.segments.len() < PIECE_SEGMENTS {
            let at = job.done + piece.bytes;
            let left = (job.bytes - at).min(PIECE_BYTES - piece.bytes);
            if left == 0 {
                break;
            }
            let both = self.ce_segment(runlist, chid, job, dst_end, at, left, cx);
            let segment = match both {
                Ok(s) => s,
                // What is translated already goes first; the fault comes with the next piece.
                Err(_) if piece.bytes > 0 => break,
                Err(e) => return Err(e),
            };
            let sides = (segment.src.and_then(Target::side), segment.dst.side());
            if piece.bytes == 0 {
                (piece.src, piece.dst) = sides;
            } else if sides != (piece.src, piece.dst) {
                break;
            }
            piece.bytes += segment.len;
            piece.segments.push(segment);
        }
        Ok(piece)
    }

    #[allow(clippy::too_many_arguments)]
    fn ce_segment(
        &mut self,
        runlist: usize,
        chid: u32,
        job: &Job,
        dst: End,
        at: u64,
        left: u64,
        cx: &mut Cx<'_>,
    ) -> Result<Segment, Refused> {
        let (dst, len) = self.ce_end(runlist, chid, dst, at, left, Access::Write, cx)?;
        let Some(from) = job.src else {
            let src = None;
            return Ok(Segment { src, dst, len });
        };
        let (src, n) = self.ce_end(runlist, chid, from, at, left, Access::Read, cx)?;
        let len = len.min(n);
        let whole = Segment {
            src: Some(src),
            dst,
            len,
        };
        let Some(place) = src.place() else {
            return Ok(whole);
        };
        match cx.until_bad(place, len) {
            None => Ok(whole),
            Some(0) => Self::ce_at_bad(job, from, at, place, whole, cx),
            Some(len) => Ok(Segment { len, ..whole }),
        }
    }

    /// The source at `place` lies in a page that failed: its bytes are left out, if the driver knows of it, or the launch faults.
    fn ce_at_bad(
        job: &Job,
        from: End,
        at: u64,
        place: Place,
        whole: Segment,
        cx: &mut Cx<'_>,
    ) -> Result<Segment, Refused> {
        let bad = cx.found_bad(place);
        if bad.is_some() && bad == job.left_out {
            let offset = match place {
                Place::Vram { offset, .. } => offset % ecc::PAGE_BYTES,
                Place::Sys { .. } => 0,
            };
            // What goes to sparse memory is not moved.
            return Ok(Segment {
                dst: Target::Sparse,
                len: whole.len.min(ecc::PAGE_BYTES - offset),
                ..whole
            });
        }
        let read = Access::Read as u32;
        let (va, access) = match from {
            End::Virt(base) => (base.saturating_add(at), read),
            End::Phys { addr, .. } => (addr.saturating_add(at), read + ACCESS_PHYS),
        };
        let kind = FaultType::Poisoned;
        Err(Refused {
            va,
            kind,
            access,
            bad,
        })
    }

    /// The launch at which a channel of an engine is.
    fn ce_job(&mut self, runlist: usize, chid: u32) -> Option<&mut Job> {
        let c = self.channel(runlist, chid)?;
        c.jobs.iter_mut().find(|j| !j.data_done)
    }

    /// The page that failed at which a channel of an engine stands.
    pub(crate) fn ce_stands_at(&mut self, runlist: usize, chid: u32) -> Option<Page> {
        self.ce_job(runlist, chid)?.stands_at
    }

    /// The launch that stands at `page` goes on behind it, once its channel's fault is cleared.
    pub(crate) fn ce_leave_out(&mut self, runlist: usize, chid: u32, page: Page) {
        if let Some(job) = self.ce_job(runlist, chid) {
            job.stands_at = None;
            job.left_out = Some(page);
        }
    }

    /// Where byte `at` of one side lies, and for how long that goes on.
    #[allow(clippy::too_many_arguments)]
    fn ce_end(
        &mut self,
        runlist: usize,
        chid: u32,
        end: End,
        at: u64,
        left: u64,
        access: Access,
        cx: &mut Cx<'_>,
    ) -> Result<(Target, u64), Refused> {
        match end {
            End::Virt(base) => {
                let va = base.saturating_add(at);
                let refuse = |kind| Refused {
                    va,
                    kind,
                    access: access as u32,
                    bad: None,
                };
                let pdb = self
                    .channel(runlist, chid)
                    .and_then(|c| c.instance)
                    .and_then(|i| i.pdb)
                    .ok_or(refuse(FaultType::UnboundInst))?;
                let span = self
                    .translate(TlbKind::Hub, pdb, va, access, true, cx)
                    .map_err(refuse)?;
                Ok((span.target, span.run_bytes.min(left)))
            }
            End::Phys { target, peer, addr } => {
                let addr = addr.saturating_add(at);
                let refuse = |kind| Refused {
                    va: addr,
                    kind,
                    access: access as u32 + ACCESS_PHYS,
                    bad: None,
                };
                let gpu = match target {
                    0 => cx.gpu,
                    3 => self
                        .peer(peer, cx)
                        .ok_or(refuse(FaultType::UnsupportedAperture))?,
                    _ => {
                        let place = Place::Sys { gpu: cx.gpu, addr };
                        return Ok((Target::Mem(place, Side::Sys), left));
                    }
                };
                let place = Place::Vram { gpu, offset: addr };
                if !cx.inside(place, left) {
                    return Err(refuse(FaultType::Region));
                }
                Ok((Target::Mem(place, Side::Gpu(gpu)), left))
            }
        }
    }

    /// The channel is switched out with a fault.
    fn ce_fault(&mut self, runlist: usize, chid: u32, refused: &Refused, cx: &mut Cx<'_>) {
        self.ce_save(runlist, chid, cx);
        let late = self.inject.flag_late();
        if let Some(r) = self.runlists.get_mut(runlist) {
            match (late, r.channels.get_mut(&chid)) {
                (Some(ns), Some(c)) => {
                    c.leaves = true;
                    // From when PUT says that there is a packet.
                    let put = cx.now.saturating_add(cx.delay(cx.fabric.profile.fault_ns));
                    cx.at(put.saturating_add(ns), Event::Faulted { runlist, chid });
                }
                _ => r.set(chid, chram::ENG_FAULTED),
            }
        }
        let who = Client {
            engine_id: ENGINE_CE0 + runlist as u32,
            client: client(runlist),
            gpc: None,
        };
        let &Refused {
            va, kind, access, ..
        } = refused;
        self.channel_fault(runlist, chid, who, va, kind, access, cx);
    }

    /// A channel that was being switched out on a fault is.
    pub(crate) fn ce_faulted(&mut self, runlist: usize, chid: u32) {
        if let Some(r) = self.runlists.get_mut(runlist) {
            let left = r.channels.get_mut(&chid);
            if left.is_some_and(|c| core::mem::take(&mut c.leaves)) {
                r.set(chid, chram::ENG_FAULTED);
            }
        }
    }

    /// The data of a piece has arrived.
    pub(crate) fn copy_piece_done(&mut self, runlist: usize, chid: u32, run: u64, cx: &mut Cx<'_>) {
        let Some(e) = self.engines.get_mut(runlist) else {
            return;
        };
        let Some(mut piece) = e.piece.take_if(|p| p.run == run) else {
            return;
        };
        if piece.orphan {
            return self.ce_orphan_ends(runlist, piece, cx);
        }
        let Some(c) = self.channel(runlist, chid) else {
            return self.ce_next(runlist, None, cx);
        };
        let previous = c
            .jobs
            .iter()
            .take_while(|j| j.data_done)
            .last()
            .map_or(0, |j| j.complete_at);
        if !piece.phantom {
            let moved = move_bytes(&piece, cx);
            if let Some(e) = self.engines.get_mut(runlist) {
                e.spare = core::mem::take(&mut piece.ahead);
            }
            if let Err(done) = moved {
                let va = match self
                    .channel(runlist, chid)
                    .and_then(|c| c.jobs.iter().find(|j| !j.data_done))
                    .and_then(|j| j.dst)
                {
                    Some(End::Virt(a) | End::Phys { addr: a, .. }) => {
                        a.saturating_add(piece.start + done)
                    }
                    None => 0,
                };
                let refused = Refused {
                    va,
                    kind: FaultType::Region,
                    access: Access::Write as u32,
                    bad: None,
                };
                self.ce_fault(runlist, chid, &refused, cx);
                return self.ce_next(runlist, None, cx);
            }
        }
        count_bytes(&piece, cx);
        let latency = cx
            .fabric
            .latency_ns(cx.gpu, piece.src.unwrap_or(Side::Gpu(cx.gpu)))
            .max(
                cx.fabric
                    .latency_ns(cx.gpu, piece.dst.unwrap_or(Side::Gpu(cx.gpu))),
            );
        let latency = if cx.timing { latency } else { 0 };
        let extra = u64::from(self.inject.latency_ns);
        if let Some(job) = self
            .channel(runlist, chid)
            .and_then(|c| c.jobs.iter_mut().find(|j| !j.data_done))
        {
            job.done += piece.bytes;
            job.goes_out |= piece.dst.is_some_and(|s| s != Side::Gpu(cx.gpu));
            if job.done >= job.bytes {
                job.data_done = true;
                job.complete_at = cx
                    .now
                    .saturating_add(latency)
                    .saturating_add(extra)
                    .max(previous);
                let at = job.complete_at;
                cx.at(at, Event::CopyComplete { runlist, chid });
            }
        }
        self.ce_next(runlist, Some(chid), cx);
    }

    /// The engine is free: channels take turns.
    fn ce_next(&mut self, runlist: usize, last: Option<u32>, cx: &mut Cx<'_>) {
        let Some(e) = self.engines.get_mut(runlist) else {
            return;
        };
        if let Some(chid) = last {
            if !e.queue.contains(&chid) {
                e.queue.push_back(chid);
            }
        }
        // Each channel is looked at once: one that has nothing ready leaves the queue.
        for _ in 0..e.queue.len() {
            let Some(e) = self.engines.get_mut(runlist) else {
                return;
            };
            if e.piece.is_some() {
                return;
            }
            let Some(chid) = e.queue.pop_front() else {
                return;
            };
            self.ce_pump(runlist, chid, cx);
        }
    }

    /// Launches at the head of a channel that are complete: semaphore, interrupt.
    pub(crate) fn copy_complete(&mut self, runlist: usize, chid: u32, cx: &mut Cx<'_>) {
        loop {
            let Some(r) = self.runlists.get_mut(runlist) else {
                return;
            };
            let faulted = r.engine_faulted(chid);
            let Some(c) = r.channels.get_mut(&chid) else {
                return;
            };
            let Some(job) = c.jobs.front() else {
                break;
            };
            if faulted || !job.data_done || job.complete_at > cx.now {
                break;
            }
            let (release, interrupt) = (job.release, job.interrupt);
            if let Some(rel) = release {
                let refused = match self.ce_release(runlist, chid, &rel, cx) {
                    Ok(()) => None,
                    Err((kind, access)) => Some(Refused {
                        va: rel.va,
                        kind,
                        access: access as u32,
                        bad: None,
                    }),
                };
                if let Some(refused) = refused {
                    return self.ce_fault(runlist, chid, &refused, cx);
                }
            }
            let over = match self.channel(runlist, chid) {
                Some(c) => c.jobs.pop_front().inspect(|job| {
                    if job.tells_too_soon(&mut c.unflushed) {
                        cx.guest_error(
                            "semaphore released without a flush behind writes to other memory",
                        );
                    }
                }),
                None => None,
            };
            if let Some(job) = over.filter(|j| j.dst.is_some()) {
                cx.fabric.flights.end(|f| f.serial == job.serial);
            }
            self.ce_interrupt(runlist, interrupt, cx);
        }
        self.ce_pump(runlist, chid, cx);
        // A method may have waited for this.
        self.channel_schedule(runlist, chid, cx.now, cx);
    }

    fn ce_release(
        &mut self,
        runlist: usize,
        chid: u32,
        rel: &crate::ce::Release,
        cx: &mut Cx<'_>,
    ) -> Result<(), (FaultType, Access)> {
        let align = if rel.timestamp { 16 } else { 4 };
        if rel.va % align != 0 {
            cx.guest_error("copy-engine semaphore is not aligned");
            return Err((FaultType::Region, Access::Write));
        }
        let Some(place) = self.semaphore_place(runlist, chid, rel.va, true, cx)? else {
            return Ok(());
        };
        let region = (FaultType::Region, Access::Write);
        let value = match rel.reduction {
            Some((op, signed)) => {
                let old = cx.read_u32(place).map_err(|_| region)?;
                reduce(op, u64::from(old), u64::from(rel.payload), signed, false).ok_or(region)?
            }
            None => u64::from(rel.payload),
        };
        if self.release(place, value, false, rel.timestamp, cx) {
            Ok(())
        } else {
            Err(region)
        }
    }

    /// A channel goes away: what is to be issued is not, and what is in flight goes on.
    pub(crate) fn ce_forget(&mut self, runlist: usize, chid: u32, cx: &mut Cx<'_>) {
        let Some(e) = self.engines.get_mut(runlist) else {
            return;
        };
        e.queue.retain(|&c| c != chid);
        let piece = e.piece.as_mut().filter(|p| p.chid == chid);
        let serial = piece.map(|p| {
            p.orphan = true;
            p.serial
        });
        let gpu = cx.gpu;
        cx.fabric.flights.end(|f| {
            (f.gpu, f.runlist, f.chid) == (gpu, runlist, chid) && Some(f.serial) != serial
        });
    }

    /// The data of a piece has arrived whose channel is gone: all of it, or, with realism, a part.
    fn ce_orphan_ends(&mut self, runlist: usize, mut piece: Piece, cx: &mut Cx<'_>) {
        let all = piece.segments.len() as u64;
        let some = self.inject.moment(all).unwrap_or(all);
        piece
            .segments
            .truncate(usize::try_from(some).unwrap_or(usize::MAX));
        // Nobody is there who could be told of what is refused.
        if piece.phantom || move_bytes(&piece, cx).is_ok() {
            count_bytes(&piece, cx);
        }
        cx.fabric.flights.end(|f| f.serial == piece.serial);
        if let Some(e) = self.engines.get_mut(runlist) {
            e.spare = core::mem::take(&mut piece.ahead);
        }
        self.ce_next(runlist, None, cx);
    }

    /// INJECT.CE_HANG was written 0: what stood still goes on.
    pub(crate) fn ce_unhang(&mut self, cx: &mut Cx<'_>) {
        for runlist in 0..self.runlists.len() {
            let Some(r) = self.runlists.get_mut(runlist) else {
                return;
            };
            let mut woken = Vec::new();
            for (&chid, c) in &mut r.channels {
                for job in c.jobs.iter_mut().filter(|j| j.hung) {
                    job.hung = false;
                    woken.push(chid);
                }
            }
            for chid in woken {
                self.ce_pump(runlist, chid, cx);
            }
        }
    }

    /// INJECT.CE_STALL was written 0: what was on its way arrives.
    pub(crate) fn ce_unstall(&mut self, cx: &mut Cx<'_>) {
        for (runlist, e) in self.engines.iter_mut().enumerate() {
            let stalled = e.piece.as_ref().filter(|_| core::mem::take(&mut e.stalled));
            if let Some(&Piece { chid, run, .. }) = stalled {
                cx.at(cx.now, Event::CopyPiece { runlist, chid, run });
            }
        }
    }
}

impl Piece {
    /// The piece takes off. Whether a launch in flight is in its way.
    fn flies(&self, name: Name, cx: &mut Cx<'_>) -> bool {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for s in &self.segments {
            for (end, list) in [(s.src, &mut reads), (Some(s.dst), &mut writes)] {
                let range = match end.and_then(Target::place) {
                    Some(Place::Vram { gpu, offset }) => (Space::Vram(gpu), offset),
                    Some(Place::Sys { gpu, addr }) => (Space::Sys(cx.host.bus_domain(gpu)), addr),
                    None => continue,
                };
                list.push((range.0, range.1, range.1.saturating_add(s.len)));
            }
        }
        cx.fabric.flights.issue(name, reads, writes)
    }

    /// Reads what is read ahead. What the machine refuses is tried again at the end.
    fn read_ahead(&mut self, cx: &mut Cx<'_>) {
        if self.ahead.len() < self.early {
            self.ahead.resize(self.early, 0);
        }
        for s in &self.segments {
            let left = self.early.saturating_sub(self.read);
            let n = usize::try_from(s.len).map_or(left, |n| n.min(left));
            let Some(to) = self.ahead.get_mut(self.read..self.read + n) else {
                return;
            };
            match (s.src, s.dst) {
                // Not read at all.
                (_, Target::Sparse) => {}
                (Some(Target::Mem(place, _)), _) => {
                    if cx.read(place, to).is_err() {
                        return;
                    }
                }
                _ => to.fill(0),
            }
            self.read += n;
        }
    }

    /// Of `len` bytes from byte `from` on: those that were read ahead.
    fn ahead_of(&self, from: u64, len: u64) -> &[u8] {
        let read = self.ahead.get(..self.read).unwrap_or(&[]);
        let rest = usize::try_from(from).ok().and_then(|n| read.get(n..));
        let rest = rest.unwrap_or(&[]);
        let n = usize::try_from(len).map_or(rest.len(), |n| n.min(rest.len()));
        rest.get(..n).unwrap_or(&[])
    }
}

/// Moves bytes that were read ahead, and the rest from where they are.
fn move_part(
    src: Place,
    dst: Place,
    ahead: &[u8],
    len: u64,
    cx: &mut Cx<'_>,
) -> Result<(), DmaError> {
    let n = ahead.len() as u64;
    if n > 0 {
        cx.write(dst, ahead)?;
    }
    if n == len {
        return Ok(());
    }
    let src = src.checked_add(n).ok_or(DmaError)?;
    let dst = dst.checked_add(n).ok_or(DmaError)?;
    cx.copy(src, dst, len - n)
}

/// Moves the bytes of a piece; the error is how many were moved.
fn move_bytes(piece: &Piece, cx: &mut Cx<'_>) -> Result<(), u64> {
    let mut done = 0;
    for s in &piece.segments {
        let result = match (s.src, s.dst) {
            // Writes to sparse memory go nowhere.
            (_, Target::Sparse) => Ok(()),
            (Some(Target::Mem(src, _)), Target::Mem(dst, _)) => {
                move_part(src, dst, piece.ahead_of(done, s.len), s.len, cx)
            }
            (Some(Target::Sparse), Target::Mem(dst, _)) => cx.fill(dst, &[0], s.len),
            (None, Target::Mem(dst, _)) => {
                // The pattern counts from the start of the launch.
                let mut p = piece.pattern.clone();
                let phase = (piece.start.saturating_add(done) % p.len().max(1) as u64) as usize;
                p.rotate_left(phase);
                cx.fill(dst, &p, s.len)
            }
        };
        result.map_err(|_| done)?;
        done += s.len;
    }
    Ok(())
}

/// Counts the bytes of a piece by where they went.
fn count_bytes(piece: &Piece, cx: &mut Cx<'_>) {
    let n = piece.bytes;
    let me = cx.gpu;
    let (src, dst) = (piece.src, piece.dst);
    if src.is_none() {
        cx.count(Counter::BytesSet, n);
    }
    if src == Some(Side::Sys) {
        cx.count(Counter::BytesHostToDevice, n);
    }
    if dst == Some(Side::Sys) {
        cx.count(Counter::BytesDeviceToHost, n);
    }
    if let (Some(Side::Gpu(a)), Some(Side::Gpu(b))) = (src, dst) {
        if a == me && b == me {
            cx.count(Counter::BytesLocal, n);
        }
    }
    // Hops over peer links: source to this GPU, this GPU to destination.
    for (from, to) in [(src, Some(Side::Gpu(me))), (Some(Side::Gpu(me)), dst)] {
        if let (Some(Side::Gpu(a)), Some(Side::Gpu(b))) = (from, to) {
            if a != b {
                cx.fabric.count(a, Counter::BytesToPeers, n);
                cx.fabric.count(b, Counter::BytesFromPeers, n);
            }
        }
    }
}
