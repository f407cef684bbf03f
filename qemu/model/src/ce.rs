// SPDX-License-Identifier: GPL-2.0
//! Copy engine: methods of class C6B5 and what a launch is (hw-interface.md 5.1 to 5.5).
//!
//! Left out, and refused with LAUNCHERR: block-linear layouts, multi-line copies, remap with a
//! source, conditional interrupts.

use std::collections::VecDeque;

use huvm_hw::ext::stats::Counter;

use crate::bar0::{self, vector};
use crate::channel::{intr, Method, Outcome};
use crate::copy::Piece;
use crate::ext::ecc::Page;
use crate::ext::inject::Inject;
use crate::gpu::{Cx, Gpu};
use crate::regs::within;

/// Launches of one channel that may be outstanding.
const MAX_JOBS: usize = 64;
/// INTR_STATUS bits.
const BLOCKPIPE: u32 = 1 << 0;
const NONBLOCKPIPE: u32 = 1 << 1;
const LAUNCHERR: u32 = 1 << 2;
pub(crate) const MTHD_BUFFER_FAULT: u32 = 1 << 4;
/// Our LAUNCHERR codes; the manual's are not published.
const ERR_UNSUPPORTED: u32 = 1;
const ERR_PRIVILEGE: u32 = 2;

/// Method state of a channel.
#[derive(Clone, Debug, Default)]
pub(crate) struct CeRegs {
    semaphore: [u32; 3],
    phys_mode: [u32; 2],
    offset_in: [u32; 2],
    offset_out: [u32; 2],
    length: u32,
    remap_const: [u32; 2],
    remap: u32,
}

/// One side of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Virtual address.
    Virt(u64),
    /// Physical: TARGET (0 local, 1 and 2 system memory, 3 peer), peer id, address.
    Phys { target: u32, peer: u32, addr: u64 },
}

impl End {
    /// Whether `bytes` from here and `more` from `other` are, in part, the same memory, as far as the addresses say.
    fn meets(self, bytes: u64, other: End, more: u64) -> bool {
        let (a, b) = match (self, other) {
            (End::Virt(a), End::Virt(b)) => (a, b),
            (
                End::Phys {
                    target: t,
                    peer: p,
                    addr: a,
                },
                End::Phys {
                    target: u,
                    peer: q,
                    addr: b,
                },
            ) if (t, p) == (u, q) || (matches!(t, 1 | 2) && matches!(u, 1 | 2)) => (a, b),
            _ => return false,
        };
        a < b.saturating_add(more) && b < a.saturating_add(bytes)
    }
}

/// A semaphore at the end of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Release {
    pub(crate) va: u64,
    pub(crate) payload: u32,
    /// Four words: with a timestamp.
    pub(crate) timestamp: bool,
    /// (operation, signed).
    pub(crate) reduction: Option<(u32, bool)>,
}

/// A launch.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// Source of a copy; `None` for a fill or a launch without data.
    pub(crate) src: Option<End>,
    /// Destination; `None` for a launch without data.
    pub(crate) dst: Option<End>,
    pub(crate) bytes: u64,
    /// What a fill repeats.
    pub(crate) pattern: Vec<u8>,
    pub(crate) pipelined: bool,
    /// Its name among those in flight.
    pub(crate) serial: u64,
    /// Bytes that arrived.
    pub(crate) done: u64,
    /// All data has arrived; the launch is complete at `complete_at`.
    pub(crate) data_done: bool,
    pub(crate) complete_at: u64,
    pub(crate) release: Option<Release>,
    /// FLUSH_ENABLE with a system flush: what was written is seen before the semaphore.
    flushes: bool,
    /// A piece of it wrote to the host's or a neighbour's memory.
    pub(crate) goes_out: bool,
    /// INTERRUPT_TYPE.
    pub(crate) interrupt: u32,
    /// INJECT: faults once.
    pub(crate) inject_fault: bool,
    /// INJECT: stands still.
    pub(crate) hung: bool,
    /// INJECT: its first piece stays on its way.
    pub(crate) stalls: bool,
    /// It faulted at this page, which failed.
    pub(crate) stands_at: Option<Page>,
    /// It goes on behind this one.
    pub(crate) left_out: Option<Page>,
}

impl Job {
    /// The launch is complete: whether its semaphore tells of writes that nobody need see yet. `unflushed` is whether the channel has such.
    pub(crate) fn tells_too_soon(&self, unflushed: &mut bool) -> bool {
        *unflushed |= self.goes_out;
        if self.flushes {
            *unflushed = false;
        }
        *unflushed && self.release.is_some()
    }

    /// Whether one of the two writes what the other reads or writes.
    pub(crate) fn clashes(&self, with: &Job) -> bool {
        let meet = |a: Option<End>, b: Option<End>| {
            a.zip(b)
                .is_some_and(|(a, b)| a.meets(self.bytes, b, with.bytes))
        };
        meet(self.dst, with.dst) || meet(self.dst, with.src) || meet(self.src, with.dst)
    }
}

/// An engine.
#[derive(Default)]
pub(crate) struct CopyEngine {
    pub(crate) piece: Option<Piece>,
    pub(crate) runs: u64,
    /// INJECT: the piece does not arrive.
    pub(crate) stalled: bool,
    /// Channels that have a piece to issue.
    pub(crate) queue: VecDeque<u32>,
    /// Memory for what a piece reads ahead.
    pub(crate) spare: Vec<u8>,
    /// Nothing is enabled after a reset: what it is then is not published, and so a driver that does not enable shows.
    intr_en: u32,
    intr_status: u32,
    launch_error: u32,
}

impl CopyEngine {
    /// Channel whose piece is in flight.
    pub(crate) fn in_flight_channel(&self) -> Option<u32> {
        self.piece.as_ref().map(|p| p.chid)
    }
}

fn join(w: [u32; 2]) -> u64 {
    let [upper, lower] = w;
    (u64::from(upper & 0x1_ffff) << 32) | u64::from(lower)
}

impl CeRegs {
    fn end(&self, side: usize, offset: [u32; 2], physical: bool) -> End {
        let addr = join(offset);
        let mode = self.phys_mode.get(side).copied().unwrap_or(0);
        if physical {
            End::Phys {
                target: mode & 3,
                peer: (mode >> 6) & 7,
                addr,
            }
        } else {
            End::Virt(addr)
        }
    }

    /// Bytes that a fill repeats, if REMAP asks for constants only.
    fn pattern(&self) -> Option<Vec<u8>> {
        let size = ((self.remap >> 16) & 3) as usize + 1;
        let dsts = (self.remap >> 24) & 3;
        let mut out = Vec::with_capacity(16);
        for i in 0..=dsts {
            let select = (self.remap >> (4 * i)) & 7;
            let value = match select {
                4 => self.remap_const.first(),
                5 => self.remap_const.get(1),
                _ => None,
            }?;
            out.extend_from_slice(value.to_le_bytes().get(..size)?);
        }
        Some(out)
    }

    /// Decodes LAUNCH_DMA; the error is a LAUNCHERR code.
    fn launch(&self, v: u32, privileged: bool) -> Result<Job, u32> {
        let transfer = v & 3;
        let sem = (v >> 3) & 3;
        let [upper, lower, payload] = self.semaphore;
        if transfer == 3 || sem == 3 {
            return Err(ERR_UNSUPPORTED);
        }
        let mut job = Job {
            src: None,
            dst: None,
            bytes: 0,
            pattern: Vec::new(),
            pipelined: transfer == 1,
            serial: 0,
            done: 0,
            data_done: false,
            complete_at: 0,
            release: (sem != 0).then_some(Release {
                va: join([upper, lower]),
                payload,
                timestamp: sem == 2,
                reduction: (v & (1 << 19) != 0).then_some(((v >> 14) & 0xf, v & (1 << 18) == 0)),
            }),
            flushes: v & (1 << 2) != 0 && v & (1 << 25) == 0,
            goes_out: false,
            interrupt: (v >> 5) & 3,
            inject_fault: false,
            hung: false,
            stalls: false,
            stands_at: None,
            left_out: None,
        };
        if transfer == 0 {
            return Ok(job);
        }
        let remap = v & (1 << 10) != 0;
        // Layouts must be pitch (bits 7 and 8), one line (bit 9); a fill has no source layout.
        if v & (1 << 9) != 0 || v & (1 << 8) == 0 || (!remap && v & (1 << 7) == 0) {
            return Err(ERR_UNSUPPORTED);
        }
        let (src_phys, dst_phys) = (v & (1 << 12) != 0, v & (1 << 13) != 0);
        if (dst_phys || (src_phys && !remap)) && !privileged {
            return Err(ERR_PRIVILEGE);
        }
        job.dst = Some(self.end(1, self.offset_out, dst_phys));
        job.bytes = u64::from(self.length);
        if remap {
            job.pattern = self.pattern().ok_or(ERR_UNSUPPORTED)?;
            job.bytes *= job.pattern.len() as u64;
        } else {
            job.src = Some(self.end(0, self.offset_in, src_phys));
        }
        Ok(job)
    }
}

impl Gpu {
    /// Executes a method of the engine.
    pub(crate) fn ce_method(
        &mut self,
        runlist: usize,
        chid: u32,
        m: Method,
        cx: &mut Cx<'_>,
    ) -> Outcome {
        let Some(c) = self.channel(runlist, chid) else {
            return Outcome::Dead;
        };
        let r = &mut c.ce;
        let word = match m.addr {
            0x240 | 0x244 | 0x248 => r.semaphore.get_mut((m.addr - 0x240) as usize / 4),
            0x260 | 0x264 => r.phys_mode.get_mut((m.addr - 0x260) as usize / 4),
            0x400 | 0x404 => r.offset_in.get_mut((m.addr - 0x400) as usize / 4),
            0x408 | 0x40c => r.offset_out.get_mut((m.addr - 0x408) as usize / 4),
            0x418 => Some(&mut r.length),
            0x700 | 0x704 => r.remap_const.get_mut((m.addr - 0x700) as usize / 4),
            0x708 => Some(&mut r.remap),
            0x300 => return self.ce_launch(runlist, chid, m.data, cx),
            // NOP, PM_TRIGGER, render enable, pitches, line count, block-linear state: kept by a
            // real engine, without effect on the launches that this one accepts.
            0x100
            | 0x140
            | 0x24c
            | 0x254..=0x25c
            | 0x410
            | 0x414
            | 0x41c
            | 0x70c..=0x750
            | 0x1114 => return Outcome::Done,
            _ => return Outcome::Error(intr::METHOD),
        };
        if let Some(w) = word {
            *w = m.data;
        }
        Outcome::Done
    }

    fn ce_launch(&mut self, runlist: usize, chid: u32, v: u32, cx: &mut Cx<'_>) -> Outcome {
        let Some(c) = self.channel(runlist, chid) else {
            return Outcome::Dead;
        };
        if c.jobs.len() >= MAX_JOBS {
            return Outcome::WaitCopies;
        }
        let mut job = match c.ce.launch(v, c.privileged_ce) {
            Ok(job) => job,
            Err(code) => {
                cx.guest_error("copy-engine launch refused");
                if let Some(e) = self.engines.get_mut(runlist) {
                    e.launch_error = code;
                }
                self.ce_status(runlist, LAUNCHERR, cx);
                return Outcome::Dead;
            }
        };
        job.serial = cx.fabric.flights.serial();
        if job.bytes == 0 {
            job.src = None;
            job.dst = None;
        } else {
            job.inject_fault = Inject::countdown(&mut self.inject.ce_fault);
            job.hung = Inject::countdown(&mut self.inject.ce_hang);
            job.stalls = Inject::countdown(&mut self.inject.ce_stall);
        }
        if let Some(c) = self.channel(runlist, chid) {
            c.jobs.push_back(job);
        }
        cx.count(Counter::CopyLaunches, 1);
        self.ce_pump(runlist, chid, cx);
        Outcome::Done
    }

    /// A launch with an interrupt completed. The non-stall vector pulses for each one, whether a driver cleared
    /// NONBLOCKPIPE since the last or not.
    pub(crate) fn ce_interrupt(&mut self, runlist: usize, kind: u32, cx: &mut Cx<'_>) {
        match kind {
            1 => self.ce_status(runlist, BLOCKPIPE, cx),
            2 => {
                self.ce_status(runlist, NONBLOCKPIPE, cx);
                let e = self.engines.get(runlist);
                if e.is_some_and(|e| e.intr_en & NONBLOCKPIPE != 0) {
                    self.pulse(runlist as u32, cx);
                }
            }
            _ => {}
        }
    }

    /// Sets a bit of INTR_STATUS: always, whatever is enabled.
    pub(crate) fn ce_status(&mut self, runlist: usize, bit: u32, cx: &mut Cx<'_>) {
        if let Some(e) = self.engines.get_mut(runlist) {
            e.intr_status |= bit;
        }
        self.ce_level(runlist, cx);
    }

    fn ce_level(&mut self, runlist: usize, cx: &mut Cx<'_>) {
        if let Some(e) = self.engines.get(runlist) {
            // NONBLOCKPIPE has the other vector.
            let on = e.intr_status & e.intr_en & !NONBLOCKPIPE != 0;
            self.level(vector::STALL + runlist as u32, on, cx);
        }
    }

    /// Reads a register of the engines' blocks; 0 when it is none.
    pub(crate) fn ce_register_read(&self, at: u32) -> u32 {
        if !within(at, bar0::CE_STATUS, bar0::CE_STRIDE * self.ce_count()) {
            return 0;
        }
        let rel = at - bar0::CE_STATUS;
        let i = rel / bar0::CE_STRIDE;
        let Some(e) = self.engines.get(i as usize) else {
            return 0;
        };
        match rel % bar0::CE_STRIDE + bar0::CE_STATUS {
            bar0::CE_INTR_EN => e.intr_en,
            bar0::CE_INTR_STATUS => e.intr_status,
            bar0::CE_LAUNCHERR => e.launch_error,
            bar0::CE_NONSTALL_VECTOR => i,
            bar0::CE_STALL_VECTOR => vector::STALL + i,
            _ => 0,
        }
    }

    /// Writes a register of the engines' blocks.
    pub(crate) fn ce_register_write(&mut self, at: u32, value: u32, cx: &mut Cx<'_>) {
        if !within(at, bar0::CE_STATUS, bar0::CE_STRIDE * self.ce_count()) {
            return;
        }
        let rel = at - bar0::CE_STATUS;
        let i = (rel / bar0::CE_STRIDE) as usize;
        if let Some(e) = self.engines.get_mut(i) {
            match rel % bar0::CE_STRIDE + bar0::CE_STATUS {
                bar0::CE_INTR_EN => e.intr_en = value,
                bar0::CE_INTR_STATUS => e.intr_status &= !value,
                _ => {}
            }
        }
        self.ce_level(i, cx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_of_one_four_and_eight_bytes() {
        let mut r = CeRegs {
            remap_const: [0x1122_3344, 0x5566_7788],
            length: 3,
            ..CeRegs::default()
        };
        let fill = 2 | (1 << 8) | (1 << 10);
        // 1 x 1 byte of CONST_B.
        r.remap = 5;
        let j = r.launch(fill, false).unwrap();
        assert_eq!((j.bytes, j.pattern.as_slice()), (3, [0x88].as_slice()));
        // 1 x 4 bytes of CONST_B.
        r.remap = 5 | (3 << 16);
        assert_eq!(
            r.launch(fill, false).unwrap().pattern,
            0x5566_7788u32.to_le_bytes()
        );
        // 2 x 4 bytes: A, B.
        r.remap = 4 | (5 << 4) | (3 << 16) | (1 << 24);
        let j = r.launch(fill, false).unwrap();
        assert_eq!((j.bytes, j.pattern.len()), (24, 8));
        assert_eq!(j.pattern, [0x44, 0x33, 0x22, 0x11, 0x88, 0x77, 0x66, 0x55]);
    }

    #[test]
    fn physical_needs_privilege() {
        let r = CeRegs::default();
        let v = 2 | (3 << 7) | (3 << 12);
        assert_eq!(r.launch(v, false).unwrap_err(), ERR_PRIVILEGE);
        assert!(r.launch(v, true).is_ok());
        assert_eq!(
            r.launch(2, true).unwrap_err(),
            ERR_UNSUPPORTED,
            "block-linear"
        );
    }
}
