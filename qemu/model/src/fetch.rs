// SPDX-License-Identifier: GPL-2.0
//! What a channel reads: RAMFC when it is loaded, GP_PUT, GPFIFO entries, pushbuffer words
//! (hw-interface.md 6.1, 6.4, 6.6). All but RAMFC and USERD lie at virtual addresses of the channel.

use crate::channel::{intr, Outcome};
use crate::gpu::{ram_place, Cx, Gpu};
use crate::mmu::{Access, FaultType, TlbKind};
use crate::runlist::chram;

/// Words that one fetch brings.
const FETCH_WORDS: u32 = 64;

impl Gpu {
    /// Reads RAMFC and the instance block.
    pub(crate) fn channel_load(&mut self, runlist: usize, chid: u32, cx: &mut Cx<'_>) -> bool {
        let Some((target, addr)) = self.channel(runlist, chid).map(|c| c.inst) else {
            return false;
        };
        let instance = self.instance(target, addr, None, cx);
        let mut b = [0u8; 0x100];
        let read = ram_place(cx.gpu, target, addr).is_some_and(|p| cx.read(p, &mut b).is_ok());
        let word = |at: usize| {
            b.get(at..at + 4)
                .and_then(|w| w.try_into().ok())
                .map_or(0, u32::from_le_bytes)
        };
        let signature = word(0x10) & 0xffff;
        let usable = read && instance.is_some_and(|i| i.pdb.is_some());
        let Some(c) = self.channel(runlist, chid) else {
            return false;
        };
        // 0xFACE, or the class of the engine.
        if !usable || (signature != 0xface && signature != 0xc6b5) {
            c.error = true;
            self.pbdma_error(runlist, chid, intr::SIGNATURE, 0, signature, cx);
            return false;
        }
        c.instance = instance;
        c.gp_base = (u64::from(word(0x4c) & 0xff) << 32) | u64::from(word(0x48) & !7);
        c.gp_entries_log2 = (word(0x4c) >> 16) & 0x1f;
        c.gp_get = word(4 * 5);
        c.gp_put = c.gp_get;
        c.privileged_ce = word(0xe4) & (1 << 5) != 0;
        c.auth = word(0xf4) & (1 << 8) != 0;
        c.ce_ctx = word(0xac) & (1 << 17) != 0;
        c.userd_writeback = word(0xf4) & (1 << 12) != 0;
        c.notify = word(0xf8);
        c.loaded = true;
        c.looks = true;
        true
    }

    /// Reads GP_PUT, if the doorbell rang, or the channel was loaded or enabled: nothing else tells the host of it.
    pub(crate) fn channel_poll_put(&mut self, runlist: usize, chid: u32, cx: &mut Cx<'_>) {
        let gpu = cx.gpu;
        let Some(r) = self.runlists.get_mut(runlist) else {
            return;
        };
        let rang = r.word(chid) & chram::PENDING != 0;
        let looks = r
            .channels
            .get_mut(&chid)
            .map(|c| core::mem::take(&mut c.looks));
        if !rang && looks != Some(true) {
            return;
        }
        let Some(at) = self
            .channel(runlist, chid)
            .and_then(|c| c.userd_at(gpu, 0x8c))
        else {
            return;
        };
        if let (Ok(put), Some(r)) = (cx.read_u32(at), self.runlists.get_mut(runlist)) {
            if let Some(c) = r.channels.get_mut(&chid) {
                let entries = 1u32.checked_shl(c.gp_entries_log2).unwrap_or(0);
                c.gp_put = put & entries.wrapping_sub(1);
            }
            r.clear_pending(chid);
        }
    }

    /// Fetches words of the segment, or the next GPFIFO entry. `None`: nothing to do.
    pub(crate) fn channel_fetch(
        &mut self,
        runlist: usize,
        chid: u32,
        cx: &mut Cx<'_>,
    ) -> Option<Outcome> {
        let c = self.channel(runlist, chid)?;
        let pdb = c.instance?.pdb?;
        if c.pb_left > 0 {
            let at = c.pb_addr;
            let want = u64::from(c.pb_left.min(FETCH_WORDS)) * 4;
            let span = match self.translate(TlbKind::Hub, pdb, at, Access::Read, true, cx) {
                Ok(s) => s,
                Err(kind) => return Some(Outcome::Fault(at, kind, Access::Read)),
            };
            let n = want.min(span.run_bytes) / 4;
            let mut b = [0u8; FETCH_WORDS as usize * 4];
            if let Some(part) = b.get_mut(..n as usize * 4) {
                let read = span.target.place().is_none_or(|p| cx.read(p, part).is_ok());
                if !read {
                    return Some(Outcome::Fault(at, FaultType::Region, Access::Read));
                }
            }
            let c = self.channel(runlist, chid)?;
            for w in b.chunks_exact(4).take(n as usize) {
                c.words
                    .push_back(w.try_into().map_or(0, u32::from_le_bytes));
            }
            c.pb_addr = at.wrapping_add(n * 4);
            c.pb_left -= n as u32;
            if n == 0 {
                c.pb_left = 0;
            }
            return Some(Outcome::Done);
        }
        if c.gp_get == c.gp_put {
            return None;
        }
        let at = c.gp_base.wrapping_add(u64::from(c.gp_get) * 8);
        let entry = match self.translate(TlbKind::Hub, pdb, at, Access::Read, true, cx) {
            Ok(span) => match span.target.place().map(|p| cx.read_u64(p)) {
                Some(Ok(e)) => e,
                Some(Err(_)) => return Some(Outcome::Fault(at, FaultType::Region, Access::Read)),
                None => 0,
            },
            Err(kind) => return Some(Outcome::Fault(at, kind, Access::Read)),
        };
        let (lo, hi) = (entry as u32, (entry >> 32) as u32);
        let c = self.channel(runlist, chid)?;
        let entries = 1u32.checked_shl(c.gp_entries_log2).unwrap_or(0);
        c.gp_get = c.gp_get.wrapping_add(1) & entries.wrapping_sub(1);
        let length = (hi >> 10) & 0x1f_ffff;
        let opcode = hi & 0xff;
        // A new segment starts with a header.
        c.count = 0;
        if length > 0 {
            c.pb_addr = (u64::from(hi & 0xff) << 32) | u64::from(lo & !3);
            c.pb_left = length;
        }
        let get = c.gp_get;
        let back = c
            .userd_writeback
            .then(|| c.userd_at(cx.gpu, 0x88))
            .flatten();
        if let Some(p) = back {
            if cx.write(p, &get.to_le_bytes()).is_err() {
                cx.guest_error("USERD lies in no memory");
            }
        }
        Some(if length == 0 && opcode == 1 {
            Outcome::Error(intr::GPENTRY)
        } else {
            Outcome::Done
        })
    }
}
