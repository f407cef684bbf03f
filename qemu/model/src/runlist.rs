// SPDX-License-Identifier: GPL-2.0
//! Runlists: register block, channel RAM, submission, doorbells (hw-interface.md 6.5, 6.7).
//!
//! Reduced as section 10.2 allows: every enabled channel of the list runs, copy engines share by
//! pieces in turn, time slices are not kept; submit and preempt complete at once, except that a
//! preempt is pending while a piece of a channel that may not run any more is in flight, or a
//! semaphore of it is still to be written. A channel that leaves the list saves GP_GET into its
//! RAMFC and loads it from there when it comes back. What it had in flight goes on.

use std::collections::BTreeMap;

use crate::bar0::{self, vector};
use crate::channel::Channel;
use crate::gpu::{ram_place, Cx, Gpu};
use crate::regs::within;

/// Channel RAM bits.
pub(crate) mod chram {
    pub(crate) const CLEAR: u32 = 1 << 0;
    pub(crate) const ENABLE: u32 = 1 << 1;
    pub(crate) const PBDMA_FAULTED: u32 = 1 << 4;
    pub(crate) const ENG_FAULTED: u32 = 1 << 5;
    pub(crate) const PENDING: u32 = 1 << 8;
    pub(crate) const CTX_RELOAD: u32 = 1 << 9;
    pub(crate) const ACQUIRE_FAIL: u32 = 1 << 12;
    /// Bits that software keeps in the word.
    pub(crate) const STORED: u32 = ENABLE | PBDMA_FAULTED | ENG_FAULTED | PENDING;
}

/// Doorbell id of runlist 0; DOORBELL_CONFIG announces it.
const DOORBELL_ID0: u32 = 16;
/// Entries that one submission may have.
const MAX_ENTRIES: u32 = 8192;
/// Channels that a TSG may have.
const TSG_CHANNELS: u32 = 128;
/// INTR_0: bad TSG entry.
const INTR_BAD_TSG: u32 = 1 << 12;
/// INTR_0: PBDMA 0 has an interrupt, tree 0.
const INTR_PBDMA: u32 = 1 << 16;

/// State of one PBDMA's registers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pbdma {
    intr_0: u32,
    intr_1: u32,
    enable: u32,
    method: u32,
    data: u32,
    channel: u32,
}

/// One runlist.
#[derive(Default)]
pub(crate) struct Runlist {
    base_lo: u32,
    base_hi: u32,
    submit: u32,
    sched_disable: u32,
    intr_0: u32,
    intr_en: [u32; 2],
    intr_vector: [u32; 2],
    bad_tsg: u32,
    pending_enable: u32,
    preempt: u32,
    pub(crate) pbdma: Pbdma,
    pub(crate) channels: BTreeMap<u32, Channel>,
    words: BTreeMap<u32, u32>,
}

impl Runlist {
    /// Channel-RAM word of a channel.
    pub(crate) fn word(&self, chid: u32) -> u32 {
        self.words.get(&chid).copied().unwrap_or(0)
    }

    /// Sets bits of a channel-RAM word.
    pub(crate) fn set(&mut self, chid: u32, bits: u32) {
        *self.words.entry(chid).or_insert(0) |= bits;
    }

    /// The doorbell was seen.
    pub(crate) fn clear_pending(&mut self, chid: u32) {
        if let Some(w) = self.words.get_mut(&chid) {
            *w &= !chram::PENDING;
        }
    }

    /// The channel may run: in the list, enabled, not faulted, scheduling not disabled.
    pub(crate) fn runnable(&self, chid: u32) -> bool {
        let w = self.word(chid);
        self.sched_disable & 1 == 0
            && w & chram::ENABLE != 0
            && w & chram::PBDMA_FAULTED == 0
            && !self.engine_faulted(chid)
    }

    /// The engine stopped in the channel, whether its flag says so already or not.
    pub(crate) fn engine_faulted(&self, chid: u32) -> bool {
        self.word(chid) & chram::ENG_FAULTED != 0
            || self.channels.get(&chid).is_some_and(|c| c.leaves)
    }

    /// The channel has launches whose data has arrived, and that will complete: a fault holds them up.
    fn completes(&self, chid: u32, c: &Channel) -> bool {
        !self.engine_faulted(chid) && c.jobs.front().is_some_and(|j| j.data_done)
    }
}

/// An entry of a submission that names a channel.
struct Entry {
    chid: u32,
    tsgid: u32,
    inst: (u32, u64),
    userd: (u32, u64),
}

impl Gpu {
    /// The engine has a piece of a channel that may not run.
    fn flies_off_list(&self, runlist: usize) -> bool {
        let piece = self.engines.get(runlist).and_then(|e| e.piece.as_ref());
        piece.is_some_and(|p| {
            let may = |r: &Runlist| r.runnable(p.chid);
            p.orphan || !self.runlists.get(runlist).is_some_and(may)
        })
    }

    /// Reads a register of runlists, channel RAM, PBDMAs or copy engines.
    pub(crate) fn host_read(&self, at: u32) -> u32 {
        let n = self.ce_count();
        if within(at, bar0::RUNLIST, bar0::RUNLIST_STRIDE * n) {
            let rel = at - bar0::RUNLIST;
            return self.runlist_read(
                (rel / bar0::RUNLIST_STRIDE) as usize,
                rel % bar0::RUNLIST_STRIDE,
            );
        }
        if within(at, bar0::CHRAM, bar0::CHRAM_STRIDE * n) {
            let rel = at - bar0::CHRAM;
            let chid = rel % bar0::CHRAM_STRIDE / 4;
            return self
                .runlists
                .get((rel / bar0::CHRAM_STRIDE) as usize)
                .map_or(0, |r| {
                    let status = r.channels.get(&chid).map_or(0, Channel::chram_status);
                    r.word(chid) | status
                });
        }
        if within(at, bar0::PBDMA, bar0::PBDMA_STRIDE * n) {
            let rel = at - bar0::PBDMA;
            let Some(p) = self
                .runlists
                .get((rel / bar0::PBDMA_STRIDE) as usize)
                .map(|r| &r.pbdma)
            else {
                return 0;
            };
            return match rel % bar0::PBDMA_STRIDE {
                0x0c0 => p.method,
                0x0c4 => p.data,
                0x108 => p.intr_0,
                0x148 => p.intr_1,
                0x120 => p.channel,
                0x170 => p.enable,
                _ => 0,
            };
        }
        self.ce_register_read(at)
    }

    /// Writes a register of runlists, channel RAM, PBDMAs or copy engines.
    pub(crate) fn host_write(&mut self, at: u32, value: u32, cx: &mut Cx<'_>) {
        let n = self.ce_count();
        if within(at, bar0::RUNLIST, bar0::RUNLIST_STRIDE * n) {
            let rel = at - bar0::RUNLIST;
            self.runlist_write(
                (rel / bar0::RUNLIST_STRIDE) as usize,
                rel % bar0::RUNLIST_STRIDE,
                value,
                cx,
            );
        } else if within(at, bar0::CHRAM, bar0::CHRAM_STRIDE * n) {
            let rel = at - bar0::CHRAM;
            let chid = rel % bar0::CHRAM_STRIDE / 4;
            self.chram_write((rel / bar0::CHRAM_STRIDE) as usize, chid, value, cx);
        } else if within(at, bar0::PBDMA, bar0::PBDMA_STRIDE * n) {
            let rel = at - bar0::PBDMA;
            let runlist = (rel / bar0::PBDMA_STRIDE) as usize;
            if let Some(r) = self.runlists.get_mut(runlist) {
                match rel % bar0::PBDMA_STRIDE {
                    at @ (0x108 | 0x148) => {
                        let p = &mut r.pbdma;
                        let intr = if at == 0x108 {
                            &mut p.intr_0
                        } else {
                            &mut p.intr_1
                        };
                        *intr &= !value;
                        let chid = p.channel;
                        if p.intr_0 | p.intr_1 == 0 {
                            r.intr_0 &= !INTR_PBDMA;
                            self.channel_skip_error(runlist, chid, cx);
                        }
                    }
                    0x170 => r.pbdma.enable |= value,
                    0x180 => r.pbdma.enable &= !value,
                    _ => {}
                }
            }
            self.runlist_level(runlist, cx);
        } else {
            self.ce_register_write(at, value, cx);
        }
    }

    fn runlist_read(&self, runlist: usize, at: u32) -> u32 {
        let Some(r) = self.runlists.get(runlist) else {
            return 0;
        };
        let id = runlist as u32;
        match at {
            0x004 => bar0::CHANNELS_LOG2 | (bar0::CHRAM + bar0::CHRAM_STRIDE * id),
            0x008 => (DOORBELL_ID0 + id) << 16,
            0x010 => (bar0::PBDMA + bar0::PBDMA_STRIDE * id) | (1 << 31),
            0x080 => r.base_lo,
            0x084 => r.base_hi,
            0x088 => r.submit,
            0x094 => r.sched_disable,
            0x098 => {
                // Pending while something of a channel that may not run any more is in flight.
                let draining = self.flies_off_list(runlist)
                    || r.channels
                        .iter()
                        .any(|(chid, c)| !r.runnable(*chid) && r.completes(*chid, c));
                let kind = if r.preempt & (3 << 24) == 0 { 21 } else { 20 };
                r.preempt | (u32::from(draining) << kind)
            }
            0x100 => r.intr_0,
            0x120 | 0x140 => r.intr_en.first().copied().unwrap_or(0),
            0x128 | 0x148 => r.intr_en.get(1).copied().unwrap_or(0),
            0x160 => r.intr_vector.first().copied().unwrap_or(0),
            0x164 => r.intr_vector.get(1).copied().unwrap_or(0),
            0x174 => r.bad_tsg,
            0x200 => {
                let busy = self
                    .engines
                    .get(runlist)
                    .is_some_and(|e| e.in_flight_channel().is_some());
                u32::from(busy) << 31
            }
            0x300 => r.pending_enable,
            _ => 0,
        }
    }

    fn runlist_write(&mut self, runlist: usize, at: u32, value: u32, cx: &mut Cx<'_>) {
        let Some(r) = self.runlists.get_mut(runlist) else {
            return;
        };
        let id = runlist as u32;
        match at {
            0x080 => r.base_lo = value & 0xffff_f003,
            0x084 => r.base_hi = value & 0xff,
            0x088 => {
                r.submit = value;
                self.runlist_submit(runlist, value & 0xffff, cx);
            }
            0x090 => self.ring(runlist, value & 0xfff, cx),
            0x094 => {
                r.sched_disable = value & 1;
                if value & 1 == 0 {
                    let all: Vec<u32> = r.channels.keys().copied().collect();
                    for chid in all {
                        self.channel_wake(runlist, chid, cx);
                    }
                }
            }
            0x098 => {
                r.preempt = value & 0x0300_0fff;
                let tsg = (value & (3 << 24) != 0).then_some(value & 0xfff);
                for c in r.channels.values_mut() {
                    c.preempted |= tsg.is_none_or(|t| t == c.tsgid);
                }
                // RUNLIST_PREEMPT_COMPLETE or TSG_PREEMPT_COMPLETE.
                r.intr_0 |= if value & (3 << 24) == 0 {
                    1 << 9
                } else {
                    1 << 8
                };
                self.runlist_level(runlist, cx);
            }
            0x100 => {
                // The PBDMA's bit follows the PBDMA.
                r.intr_0 &= !(value & !INTR_PBDMA);
                self.runlist_level(runlist, cx);
            }
            0x120 | 0x128 | 0x140 | 0x148 => {
                if let Some(en) = r.intr_en.get_mut(usize::from(at & 8 != 0)) {
                    if at < 0x140 {
                        *en |= value;
                    } else {
                        *en &= !value;
                    }
                }
                self.runlist_level(runlist, cx);
            }
            0x160 | 0x164 => {
                // Drop the level of the old vector before it moves.
                let old = r.intr_vector.first().copied().unwrap_or(0) & 0xfff;
                if let Some(v) = r.intr_vector.get_mut(usize::from(at == 0x164)) {
                    *v = value & 0xc000_0fff;
                }
                self.level(if old == 0 { vector::RUNLIST + id } else { old }, false, cx);
                self.runlist_level(runlist, cx);
            }
            0x300 => {
                r.pending_enable = value;
                let pending: Vec<u32> = r
                    .words
                    .iter()
                    .filter(|(_, w)| **w & chram::PENDING != 0)
                    .map(|(c, _)| *c)
                    .collect();
                for chid in pending {
                    self.channel_wake(runlist, chid, cx);
                }
            }
            _ => {}
        }
    }

    /// Recomputes the runlist's level interrupt.
    fn runlist_level(&mut self, runlist: usize, cx: &mut Cx<'_>) {
        let Some(r) = self.runlists.get(runlist) else {
            return;
        };
        let on = r.intr_0 & r.intr_en.first().copied().unwrap_or(0) != 0;
        let set = r.intr_vector.first().copied().unwrap_or(0) & 0xfff;
        let v = if set == 0 {
            vector::RUNLIST + runlist as u32
        } else {
            set
        };
        self.level(v, on, cx);
    }

    /// A PBDMA stops on an error, `bit` of [`crate::channel::intr`].
    pub(crate) fn pbdma_error(
        &mut self,
        runlist: usize,
        chid: u32,
        bit: u32,
        method: u32,
        data: u32,
        cx: &mut Cx<'_>,
    ) {
        cx.guest_error("PBDMA error: bad method or pushbuffer");
        if let Some(r) = self.runlists.get_mut(runlist) {
            match bit.checked_sub(32) {
                None => r.pbdma.intr_0 |= 1 << bit,
                Some(bit) => r.pbdma.intr_1 |= 1 << (bit & 31),
            }
            r.pbdma.method = method;
            r.pbdma.data = data;
            r.pbdma.channel = chid;
            r.intr_0 |= INTR_PBDMA;
        }
        self.runlist_level(runlist, cx);
    }

    fn chram_write(&mut self, runlist: usize, chid: u32, value: u32, cx: &mut Cx<'_>) {
        let Some(r) = self.runlists.get_mut(runlist) else {
            return;
        };
        if value == u32::MAX {
            // Reset: the word and whatever state the channel had.
            self.channel_leaves(runlist, chid, cx);
            if let Some(r) = self.runlists.get_mut(runlist) {
                r.words.remove(&chid);
                if let Some(c) = r.channels.get_mut(&chid) {
                    c.forget();
                }
            }
            return;
        }
        let word = r.words.entry(chid).or_insert(0);
        if value & chram::CLEAR != 0 {
            *word &= !(value & chram::STORED);
        } else {
            *word |= value & chram::STORED;
            if value & chram::CTX_RELOAD != 0 {
                if let Some(c) = r.channels.get_mut(&chid) {
                    c.reload();
                }
            }
            if value & chram::ENABLE != 0 {
                if let Some(c) = r.channels.get_mut(&chid) {
                    c.looks = true;
                }
                self.channel_wake(runlist, chid, cx);
            }
        }
    }

    /// The usermode doorbell: CHID 11:0, runlist's doorbell id 22:16.
    pub(crate) fn doorbell(&mut self, token: u32, cx: &mut Cx<'_>) {
        let id = (token >> 16) & 0x7f;
        match id.checked_sub(DOORBELL_ID0) {
            Some(r) if r < self.ce_count() => self.ring(r as usize, token & 0xfff, cx),
            _ => cx.guest_error("doorbell of no runlist"),
        }
    }

    /// Software says that a channel has new work.
    fn ring(&mut self, runlist: usize, chid: u32, cx: &mut Cx<'_>) {
        let Some(r) = self.runlists.get_mut(runlist) else {
            return;
        };
        r.set(chid, chram::PENDING);
        if r.pending_enable & (1 << 31) == 0 {
            cx.guest_error("doorbell while PENDING_ENABLE is off");
            return;
        }
        self.channel_wake(runlist, chid, cx);
    }

    /// Schedules a channel if it may run.
    pub(crate) fn channel_wake(&mut self, runlist: usize, chid: u32, cx: &mut Cx<'_>) {
        let Some(r) = self.runlists.get(runlist) else {
            return;
        };
        if !r.runnable(chid) {
            return;
        }
        let at = cx
            .now
            .saturating_add(cx.delay(cx.fabric.profile.doorbell_ns));
        self.channel_schedule(runlist, chid, at, cx);
    }

    /// The host forgets what a channel is: what its engine has of it goes on.
    fn channel_leaves(&mut self, runlist: usize, chid: u32, cx: &mut Cx<'_>) {
        let flies = self
            .engines
            .get(runlist)
            .and_then(|e| e.piece.as_ref())
            .is_some_and(|p| p.chid == chid && !p.orphan);
        let preempted = self.runlists.get(runlist).is_some_and(|r| {
            let c = r.channels.get(&chid);
            c.is_none_or(|c| c.preempted || !(flies || r.completes(chid, c)))
        });
        if !preempted {
            cx.guest_error("channel removed without a preempt, with work in flight");
        }
        self.ce_forget(runlist, chid, cx);
    }

    fn runlist_submit(&mut self, runlist: usize, length: u32, cx: &mut Cx<'_>) {
        let Some(r) = self.runlists.get(runlist) else {
            return;
        };
        let base = (u64::from(r.base_hi) << 32) | u64::from(r.base_lo & 0xffff_f000);
        let target = r.base_lo & 3;
        let entries = match read_list(target, base, length, cx) {
            Ok(list) => list,
            Err(tsgid) => {
                cx.guest_error("runlist entry that makes no sense");
                if let Some(r) = self.runlists.get_mut(runlist) {
                    r.bad_tsg = tsgid;
                    r.intr_0 |= INTR_BAD_TSG;
                }
                return self.runlist_level(runlist, cx);
            }
        };
        let Some(r) = self.runlists.get_mut(runlist) else {
            return;
        };
        // Of two entries with one number the later one counts.
        let listed: BTreeMap<u32, Entry> = entries.into_iter().map(|e| (e.chid, e)).collect();
        let stays =
            |chid: &u32, c: &Channel| listed.get(chid).is_some_and(|e| c.same(e.inst, e.userd));
        let gone = |(chid, c): (&u32, &Channel)| (!stays(chid, c)).then_some(*chid);
        let gone: Vec<u32> = r.channels.iter().filter_map(gone).collect();
        for chid in gone {
            self.channel_leaves(runlist, chid, cx);
            let r = self.runlists.get_mut(runlist);
            if let Some(c) = r.and_then(|r| r.channels.remove(&chid)) {
                c.save(cx);
            }
        }
        for (chid, e) in listed {
            if let Some(r) = self.runlists.get_mut(runlist) {
                let c = r.channels.entry(chid);
                c.or_insert_with(|| Channel::new(e.inst, e.userd)).tsgid = e.tsgid;
            }
            self.channel_wake(runlist, chid, cx);
        }
    }
}

/// Reads a submission; the error is the TSG that is wrong.
fn read_list(target: u32, base: u64, length: u32, cx: &mut Cx<'_>) -> Result<Vec<Entry>, u32> {
    let place = ram_place(cx.gpu, target, base).ok_or(0u32)?;
    let mut out = Vec::new();
    let mut tsgid = 0;
    let mut left = 0;
    for i in 0..length.min(MAX_ENTRIES) {
        let mut b = [0u8; 16];
        place
            .checked_add(u64::from(i) * 16)
            .and_then(|p| cx.read(p, &mut b).ok())
            .ok_or(tsgid)?;
        let v = u128::from_le_bytes(b);
        let (d0, d1, d2, d3) = (
            v as u32,
            (v >> 32) as u32,
            (v >> 64) as u32,
            (v >> 96) as u32,
        );
        if d0 & 1 != 0 {
            tsgid = d2 & 0xfff;
            if left != 0 || !(1..=TSG_CHANNELS).contains(&(d1 & 0xff)) {
                return Err(tsgid);
            }
            left = d1 & 0xff;
            continue;
        }
        // Channels appear only inside a TSG.
        if left == 0 {
            return Err(tsgid);
        }
        left -= 1;
        let chid = d2 & 0xfff;
        if chid >= 1 << bar0::CHANNELS_LOG2 {
            return Err(tsgid);
        }
        out.push(Entry {
            chid,
            tsgid,
            inst: (
                (d0 >> 4) & 3,
                (u64::from(d3) << 32) | u64::from(d2 & 0xffff_f000),
            ),
            userd: (
                (d0 >> 6) & 3,
                (u64::from(d1 & 0xff) << 32) | u64::from(d0 & 0xffff_ff00),
            ),
        });
    }
    if left != 0 {
        return Err(tsgid);
    }
    Ok(out)
}
