// SPDX-License-Identifier: GPL-2.0
//! Access counters (hw-interface.md 3): documented packet and registers, our own counting policy.
//!
//! Policy: the workload engine's accesses that leave the GPU (MIMC) count one for each 128 bytes,
//! by region of MIMC_GRANULARITY in the address space of the instance block. There are 4096
//! counters; a new region takes the one that was hit longest ago. At THRESHOLD a counter notifies
//! once and stays silent until it is cleared. Accesses from outside (MOMC) are not counted. A
//! notification that meets a full ring is dropped: only a hint is lost.

use std::collections::BTreeMap;

use huvm_hw::ext::stats::Counter;

use crate::bar0::{self, vector};
use crate::gpu::{Cx, Gpu};
use crate::mmu::Instance;
use crate::window::Aperture;

/// Entries of the notification ring.
const ENTRIES: u32 = 4096;
/// Counters.
const COUNTERS: usize = 4096;
/// Bytes of one count.
const GRAIN_BYTES: u64 = 128;

/// A counter.
#[derive(Clone, Copy, Debug)]
struct Count {
    tag: u32,
    value: u32,
    notified: bool,
    last: u64,
}

/// The unit.
#[derive(Clone, Debug)]
pub(crate) struct AccessCounters {
    config: u32,
    lo: u32,
    hi: u32,
    get: u32,
    put: u32,
    full: bool,
    nack: bool,
    armed: bool,
    clock: u64,
    counts: BTreeMap<(u64, u64), Count>,
}

impl Default for AccessCounters {
    fn default() -> Self {
        AccessCounters {
            // THRESHOLD 0x80, GVA_NOTIFY 1.
            config: 0x80 | (1 << 20),
            lo: 0,
            hi: 0,
            get: 0,
            put: 0,
            full: false,
            nack: false,
            armed: true,
            clock: 0,
            counts: BTreeMap::new(),
        }
    }
}

/// What a targeted clear names, and what else a clear can mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clear {
    /// MIMC counters, or all.
    All,
    /// One counter: its tag.
    Tag(u32),
    /// MOMC counters: this device has none.
    Nothing,
}

impl AccessCounters {
    /// Log2 of the bytes of a region.
    fn region_shift(&self) -> u32 {
        match (self.config >> 16) & 3 {
            0 => 16,
            1 => 21,
            2 => 24,
            _ => 34,
        }
    }

    /// Reads a register; `None` when it is none.
    pub(crate) fn read(&self, at: u32) -> Option<u32> {
        Some(match at {
            bar0::COUNTER_CONFIG => self.config,
            bar0::COUNTER_LO => self.lo,
            bar0::COUNTER_HI => self.hi,
            bar0::COUNTER_SIZE => ENTRIES,
            bar0::COUNTER_GET => self.get,
            bar0::COUNTER_PUT => self.put,
            // PUSHED is always 1: notifications are written at once.
            bar0::COUNTER_INFO => u32::from(self.full) | 2 | (u32::from(self.nack) << 24),
            _ => return None,
        })
    }

    /// Clears counters.
    pub(crate) fn clear(&mut self, what: Clear) {
        match what {
            Clear::All => self.counts.clear(),
            Clear::Tag(tag) => self.counts.retain(|_, c| c.tag != tag),
            Clear::Nothing => {}
        }
    }

    /// Adds to a region's counter; returns (tag, value) when it is to notify.
    fn hit(&mut self, key: (u64, u64), n: u32) -> Option<(u32, u32)> {
        self.clock += 1;
        let threshold = self.config & 0xffff;
        if !self.counts.contains_key(&key) {
            let tag = if self.counts.len() < COUNTERS {
                // Lowest tag that is free: the length, unless a targeted clear made a hole.
                let len = self.counts.len() as u32;
                if self.counts.values().any(|c| c.tag == len) {
                    let used: std::collections::BTreeSet<u32> =
                        self.counts.values().map(|c| c.tag).collect();
                    (0..=len).find(|t| !used.contains(t)).unwrap_or(len)
                } else {
                    len
                }
            } else {
                let oldest = self
                    .counts
                    .iter()
                    .min_by_key(|(_, c)| c.last)
                    .map(|(k, _)| *k)?;
                self.counts.remove(&oldest)?.tag
            };
            self.counts.insert(
                key,
                Count {
                    tag,
                    value: 0,
                    notified: false,
                    last: 0,
                },
            );
        }
        let c = self.counts.get_mut(&key)?;
        c.last = self.clock;
        c.value = c.value.saturating_add(n).min(0xffff);
        if c.notified || c.value < threshold.max(1) {
            return None;
        }
        c.notified = true;
        Some((c.tag, c.value))
    }
}

impl Gpu {
    /// Counts an access of the workload engine that left the GPU. `peer`: (peer id is not known
    /// here, so 0) whether it went to a peer.
    pub(crate) fn count_remote(
        &mut self,
        inst: &Instance,
        engine_id: u32,
        va: u64,
        bytes: u64,
        peer: bool,
        cx: &mut Cx<'_>,
    ) {
        if self.counters.lo & 1 == 0 {
            return;
        }
        let shift = self.counters.region_shift();
        let n = bytes.div_ceil(GRAIN_BYTES).min(0xffff) as u32;
        let Some((tag, value)) = self.counters.hit((inst.addr, va >> shift), n) else {
            return;
        };
        let region = va >> shift << shift;
        let sub = if shift > 16 {
            1u32 << ((va - region) >> (shift - 5)).min(31)
        } else {
            0
        };
        let aperture = if peer { 1u32 } else { 2 };
        let dw = [
            1 | (aperture << 8) | ((inst.target & 3) << 10) | (inst.addr as u32 & 0xffff_f000),
            (inst.addr >> 32) as u32,
            region as u32,
            (region >> 32) as u32,
            sub,
            tag & 0xf_ffff,
            value,
            ((engine_id & 0x1ff) << 20) | (1 << 31),
        ];
        self.counter_push(dw, cx);
    }

    fn counter_push(&mut self, dw: [u32; 8], cx: &mut Cx<'_>) {
        let c = &mut self.counters;
        let next = (c.put + 1) % ENTRIES;
        if next == c.get {
            c.full = true;
            return;
        }
        let base = (u64::from(c.hi) << 32) | u64::from(c.lo & 0xffff_f000);
        let addr = base.saturating_add(u64::from(c.put) * 32);
        c.put = next;
        let pulse = core::mem::take(&mut c.armed);
        let mut bytes = [0u8; 32];
        for (to, from) in bytes.chunks_exact_mut(4).zip(dw) {
            to.copy_from_slice(&from.to_le_bytes());
        }
        let place = self.aperture_place(Aperture::Bar2, addr, 32, true, cx);
        let written = place.is_some_and(|p| cx.write(p, &bytes).is_ok());
        if !written {
            self.counters.nack = true;
        }
        cx.count(Counter::AccessCounterPackets, 1);
        if pulse {
            self.pulse(vector::ACCESS_COUNTER, cx);
        }
    }

    /// Writes a register; false when it is none.
    pub(crate) fn counter_write(&mut self, at: u32, value: u32, cx: &mut Cx<'_>) -> bool {
        let c = &mut self.counters;
        match at {
            bar0::COUNTER_CONFIG => c.config = value,
            bar0::COUNTER_LO => {
                if value & 1 != 0 && c.lo & 1 == 0 {
                    c.get = 0;
                    c.put = 0;
                    c.full = false;
                    c.nack = false;
                    c.armed = true;
                }
                c.lo = value & 0xffff_f001;
            }
            bar0::COUNTER_HI => c.hi = value,
            bar0::COUNTER_GET => {
                c.get = value & 0xfff;
                c.full = (c.put + 1) % ENTRIES == c.get;
                c.armed = c.get == c.put;
                if !c.armed && c.lo & 1 != 0 {
                    self.pulse(vector::ACCESS_COUNTER, cx);
                }
            }
            bar0::COUNTER_SIZE | bar0::COUNTER_PUT | bar0::COUNTER_INFO => {}
            _ => return false,
        }
        true
    }
}
