// SPDX-License-Identifier: GPL-2.0
//! MMU fault buffers: packets, both rings, overflow, the info fault (hw-interface.md 1).
//!
//! A fault takes three steps: it is reported (the failed access), it arrives (PUT moves, the slot
//! is claimed, the vector pulses), its packet becomes VALID (32 bytes in memory). The last two can
//! be delayed, swapped and doubled by INJECT.

use std::collections::BTreeMap;

use huvm_hw::ext::stats::Counter;

use crate::bar0::{self, vector};
use crate::ext::inject::Inject;
use crate::gpu::{ram_place, Cx, Gpu};
use crate::mmu::{Access, FaultType, Instance};
use crate::queue::Event;
use crate::window::Aperture;

/// Index of the non-replayable ring.
pub(crate) const NON_REPLAYABLE: usize = 0;
/// Index of the replayable ring.
pub(crate) const REPLAYABLE: usize = 1;

const PTR_MASK: u32 = 0xf_ffff;
const CORRUPTED: u32 = 1 << 30;
const OVERFLOW: u32 = 1 << 31;
const SET_DEFAULT: u32 = 1 << 30;
const OVERFLOW_INTR: u32 = 1 << 29;
const ENABLE: u32 = 1 << 31;
/// How much later a reordered packet becomes VALID, ns.
const REORDER_NS: u64 = 400;

/// Who faulted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Client {
    pub(crate) engine_id: u32,
    pub(crate) client: u32,
    /// `Some`: a GPC client of that GPC; `None`: a hub client.
    pub(crate) gpc: Option<u32>,
}

/// A fault as it is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) inst_target: u32,
    pub(crate) inst_addr: u64,
    pub(crate) va: u64,
    pub(crate) kind: FaultType,
    /// Access code, PHYS_* codes included.
    pub(crate) access: u32,
    pub(crate) who: Client,
    pub(crate) replayable: bool,
    /// The instance has replay enabled.
    pub(crate) replay_enabled: bool,
    pub(crate) time_ns: u64,
    /// Slot of the workload engine, if it is one of its.
    pub(crate) slot: Option<usize>,
}

impl Fault {
    /// Dword 7 without VALID.
    fn info(&self) -> u32 {
        (self.kind as u32)
            | (u32::from(self.replayable) << 7)
            | ((self.who.client & 0x7f) << 8)
            | ((self.access & 0xf) << 16)
            | (u32::from(self.who.gpc.is_none()) << 20)
            | ((self.who.gpc.unwrap_or(0) & 0x1f) << 24)
            | (u32::from(self.replay_enabled) << 30)
    }

    /// The packet of class C369.
    fn packet(&self) -> [u8; 32] {
        let dw = [
            ((self.inst_target & 3) << 8) | (self.inst_addr as u32 & 0xffff_f000),
            (self.inst_addr >> 32) as u32,
            self.va as u32 & 0xffff_f000,
            (self.va >> 32) as u32,
            self.time_ns as u32,
            (self.time_ns >> 32) as u32,
            self.who.engine_id & 0x1ff,
            self.info() | (1 << 31),
        ];
        let mut out = [0; 32];
        for (to, from) in out.chunks_exact_mut(4).zip(dw) {
            to.copy_from_slice(&from.to_le_bytes());
        }
        out
    }
}

/// A fault on its way into the ring.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    fault: Fault,
    /// Claimed slot, once it has arrived.
    slot: Option<u32>,
}

/// One ring.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    index: usize,
    default_entries: u32,
    lo: u32,
    hi: u32,
    get: u32,
    put: u32,
    size: u32,
    overflow_intr: bool,
    enable: bool,
    overflow: bool,
    corrupted: bool,
    /// The next packet pulses. One pulse for each write of GET.
    armed: bool,
    in_flight: BTreeMap<u64, InFlight>,
    next: u64,
}

impl Ring {
    pub(crate) fn new(index: usize, default_entries: u32) -> Self {
        Ring {
            index,
            default_entries,
            lo: 0,
            hi: 0,
            get: 0,
            put: 0,
            size: 0,
            overflow_intr: false,
            enable: false,
            overflow: false,
            corrupted: false,
            armed: true,
            in_flight: BTreeMap::new(),
            next: 0,
        }
    }

    fn step(&self, ptr: u32) -> u32 {
        if ptr + 1 >= self.size {
            0
        } else {
            ptr + 1
        }
    }

    fn full(&self) -> bool {
        self.step(self.put) == self.get
    }

    fn flags(&self) -> u32 {
        (if self.overflow { OVERFLOW } else { 0 }) | (if self.corrupted { CORRUPTED } else { 0 })
    }

    fn notify_vector(&self) -> u32 {
        if self.index == REPLAYABLE {
            vector::REPLAYABLE
        } else {
            vector::NON_REPLAYABLE
        }
    }

    fn error_vector(&self) -> u32 {
        if self.index == REPLAYABLE {
            vector::REPLAYABLE_ERROR
        } else {
            vector::NON_REPLAYABLE_ERROR
        }
    }

    /// Address of a slot before translation: (mode physical, target, address).
    fn slot_addr(&self, slot: u32) -> (bool, u32, u64) {
        let base = (u64::from(self.hi) << 32) | u64::from(self.lo & 0xffff_f000);
        let at = base.saturating_add(u64::from(slot) * 32);
        (self.lo & 1 != 0, (self.lo >> 1) & 3, at)
    }
}

/// FAULT_ADDR, FAULT_INST, FAULT_INFO: the last fault that no ring took.
#[derive(Clone, Debug, Default)]
pub(crate) struct InfoFault {
    addr_lo: u32,
    addr_hi: u32,
    inst_lo: u32,
    inst_hi: u32,
    info: u32,
    /// FAULT_STATUS.VALID, and the DROPPED bits.
    valid: bool,
    dropped: u32,
    page_fault_ctrl: u32,
}

impl Gpu {
    /// Reports a fault; it reaches ring `ring` after the fault latency.
    pub(crate) fn report(&mut self, ring: usize, mut fault: Fault, cx: &mut Cx<'_>) {
        fault.time_ns = cx.now;
        let Some(r) = self.rings.get_mut(ring) else {
            return;
        };
        let packet = r.next;
        r.next = r.next.wrapping_add(1);
        r.in_flight.insert(packet, InFlight { fault, slot: None });
        let at = cx.now.saturating_add(cx.delay(cx.fabric.profile.fault_ns));
        cx.at(at, Event::FaultArrives { ring, packet });
    }

    /// A fault arrives: claims a slot or meets a full ring.
    pub(crate) fn fault_arrives(&mut self, ring: usize, packet: u64, cx: &mut Cx<'_>) {
        let forced = match ring {
            REPLAYABLE => self.inject.overflow_count > 0,
            _ => self.inject.other_overflow > 0,
        };
        let Some(r) = self.rings.get_mut(ring) else {
            return;
        };
        let Some(&InFlight { fault, .. }) = r.in_flight.get(&packet) else {
            return;
        };
        if !r.enable || r.size < 2 {
            r.in_flight.remove(&packet);
            return self.info_fault(&fault, cx);
        }
        if r.overflow || r.corrupted {
            r.in_flight.remove(&packet);
            return;
        }
        if Inject::next_of(&mut self.inject.packet_lost, ring) {
            r.in_flight.remove(&packet);
            return;
        }
        if forced || r.full() {
            if forced {
                match ring {
                    REPLAYABLE => self.inject.overflow_count -= 1,
                    _ => self.inject.other_overflow -= 1,
                }
            }
            r.overflow = true;
            r.in_flight.remove(&packet);
            // A full ring has always been announced; one that INJECT calls full must be too.
            let notify = core::mem::take(&mut r.armed).then(|| r.notify_vector());
            let error = r.overflow_intr.then(|| r.error_vector());
            cx.count(Counter::Overflows, 1);
            for v in notify.into_iter().chain(error) {
                self.pulse(v, cx);
            }
            return;
        }
        self.claim(ring, packet, cx);
        if self.inject.chance(self.inject.duplicate_permille) {
            self.duplicate(ring, fault, cx);
        }
    }

    fn duplicate(&mut self, ring: usize, fault: Fault, cx: &mut Cx<'_>) {
        let Some(r) = self.rings.get_mut(ring) else {
            return;
        };
        // A duplicate never causes an overflow by itself.
        if r.full() {
            return;
        }
        let packet = r.next;
        r.next = r.next.wrapping_add(1);
        r.in_flight.insert(packet, InFlight { fault, slot: None });
        cx.count(Counter::DuplicatePackets, 1);
        self.work_count_duplicate(&fault);
        self.claim(ring, packet, cx);
    }

    /// Claims the slot at PUT, pulses, and lets the packet become VALID later.
    fn claim(&mut self, ring: usize, packet: u64, cx: &mut Cx<'_>) {
        let mut delay = u64::from(self.inject.valid_delay_ns);
        if self.inject.chance(self.inject.reorder_permille) {
            delay += REORDER_NS;
            cx.count(Counter::ReorderedPackets, 1);
        }
        let Some(r) = self.rings.get_mut(ring) else {
            return;
        };
        let slot = r.put;
        r.put = r.step(slot);
        if Inject::next_of(&mut self.inject.packet_never_valid, ring) {
            r.in_flight.remove(&packet);
        } else if let Some(p) = r.in_flight.get_mut(&packet) {
            p.slot = Some(slot);
        }
        let pulse = r.armed.then(|| r.notify_vector());
        r.armed = false;
        cx.count(
            if ring == REPLAYABLE {
                Counter::ReplayablePackets
            } else {
                Counter::NonReplayablePackets
            },
            1,
        );
        cx.at(
            cx.now.saturating_add(delay),
            Event::FaultValid { ring, packet },
        );
        if let Some(v) = pulse {
            self.pulse(v, cx);
        }
    }

    /// Writes a packet into memory.
    pub(crate) fn fault_valid(&mut self, ring: usize, packet: u64, cx: &mut Cx<'_>) {
        let Some(r) = self.rings.get_mut(ring) else {
            return;
        };
        let Some(p) = r.in_flight.remove(&packet) else {
            return;
        };
        let (Some(slot), true) = (p.slot, r.enable) else {
            return;
        };
        let (physical, target, addr) = r.slot_addr(slot);
        let place = if physical {
            ram_place(cx.gpu, target, addr)
        } else {
            self.aperture_place(Aperture::Bar2, addr, 32, true, cx)
        };
        let mut bytes = p.fault.packet();
        self.inject.spoil(ring, &mut bytes);
        let (head, valid) = bytes.split_at(28);
        // VALID is in the last dword: it goes last.
        let written = place.is_some_and(|at| {
            cx.write(at, head).is_ok()
                && at
                    .checked_add(28)
                    .is_some_and(|end| cx.write(end, valid).is_ok())
        });
        if !written {
            cx.guest_error("fault buffer lies in no memory");
        }
    }

    /// A fault that no ring takes goes into registers.
    fn info_fault(&mut self, fault: &Fault, cx: &mut Cx<'_>) {
        if self.info.valid {
            return;
        }
        self.info = InfoFault {
            addr_lo: fault.va as u32 & 0xffff_f000,
            addr_hi: (fault.va >> 32) as u32,
            inst_lo: (fault.who.engine_id & 0x1ff)
                | ((fault.inst_target & 3) << 10)
                | (fault.inst_addr as u32 & 0xffff_f000),
            inst_hi: (fault.inst_addr >> 32) as u32,
            info: fault.info() | (1 << 31),
            valid: true,
            dropped: self.info.dropped,
            page_fault_ctrl: self.info.page_fault_ctrl,
        };
        self.pulse(vector::INFO, cx);
    }

    /// A fault of an aperture BAR: it has no ring.
    pub(crate) fn info_fault_bar(
        &mut self,
        which: Aperture,
        inst: &Instance,
        va: u64,
        access: Access,
        kind: FaultType,
        cx: &mut Cx<'_>,
    ) {
        // MMU engine ids: 128 BAR1, 192 BAR2, function 0. DROPPED_*_VIRT: bit 1 BAR1, bit 3 BAR2.
        let (engine_id, dropped) = match which {
            Aperture::Bar1 => (128, 1 << 1),
            Aperture::Bar2 => (192, 1 << 3),
        };
        if self.info.valid {
            self.info.dropped |= dropped;
            return;
        }
        let fault = Fault {
            inst_target: inst.target,
            inst_addr: inst.addr,
            va,
            kind,
            access: access as u32,
            who: Client {
                engine_id,
                client: 7, // HOST_CPU
                gpc: None,
            },
            replayable: false,
            replay_enabled: false,
            time_ns: cx.now,
            slot: None,
        };
        self.info_fault(&fault, cx);
    }

    /// Reads a fault register; `None` when it is none.
    pub(crate) fn fault_read(&mut self, at: u32) -> Option<u32> {
        if let Some(rel) = at.checked_sub(bar0::FAULT_LO) {
            if let Some(r) = self.rings.get((rel / bar0::FAULT_STRIDE) as usize) {
                return Some(match rel % bar0::FAULT_STRIDE {
                    0x00 => r.lo,
                    0x04 => r.hi,
                    0x08 => r.get | r.flags(),
                    0x0c => {
                        let wrong = self.inject.wrong_put(r.index, r.get, r.size);
                        wrong.map_or(r.put, |w| w & PTR_MASK) | r.flags()
                    }
                    0x10 => {
                        r.size
                            | (if r.overflow_intr { OVERFLOW_INTR } else { 0 })
                            | (if r.enable { ENABLE } else { 0 })
                    }
                    _ => 0,
                });
            }
        }
        Some(match at {
            // Reset value 3: send no prefetch faults.
            bar0::PAGE_FAULT_CTRL => self.info.page_fault_ctrl ^ 3,
            bar0::FAULT_ADDR_LO => self.info.addr_lo,
            bar0::FAULT_ADDR_HI => self.info.addr_hi,
            bar0::FAULT_INST_LO => self.info.inst_lo,
            bar0::FAULT_INST_HI => self.info.inst_hi,
            bar0::FAULT_INFO => self.info.info,
            bar0::FAULT_STATUS => self.fault_status(),
            _ => return None,
        })
    }

    fn fault_status(&self) -> u32 {
        let mut v = self.info.dropped | (u32::from(self.info.valid) << 31);
        for r in &self.rings {
            let replayable = r.index == REPLAYABLE;
            // REPLAYABLE is the even bit of each pair.
            let shift = u32::from(!replayable);
            v |= u32::from(r.get != r.put) << (8 + shift);
            v |= u32::from(r.overflow || r.corrupted) << (10 + shift);
            v |= u32::from(r.overflow) << (12 + shift);
            v |= u32::from(r.corrupted) << (14 + shift);
            v |= u32::from(!r.in_flight.is_empty()) << 30;
        }
        v
    }

    /// Writes a fault register; false when it is none.
    pub(crate) fn fault_write(&mut self, at: u32, value: u32, cx: &mut Cx<'_>) -> bool {
        if let Some(rel) = at.checked_sub(bar0::FAULT_LO) {
            let index = (rel / bar0::FAULT_STRIDE) as usize;
            if let Some(r) = self.rings.get_mut(index) {
                match rel % bar0::FAULT_STRIDE {
                    0x00 => r.lo = value & 0xffff_f00f,
                    0x04 => r.hi = value,
                    0x08 => self.fault_get_write(index, value, cx),
                    0x10 => fault_size_write(r, value),
                    _ => {}
                }
                return true;
            }
        }
        match at {
            bar0::PAGE_FAULT_CTRL => self.info.page_fault_ctrl = (value & 3) ^ 3,
            bar0::FAULT_STATUS => {
                self.info.dropped &= !(value & 0xff);
                if value & (1 << 31) != 0 {
                    self.info.valid = false;
                }
            }
            bar0::FAULT_ADDR_LO..=bar0::FAULT_INFO => {}
            _ => return false,
        }
        true
    }

    fn fault_get_write(&mut self, index: usize, value: u32, cx: &mut Cx<'_>) {
        let forced = Inject::next_of(&mut self.inject.get_corrupt, index);
        let Some(r) = self.rings.get_mut(index) else {
            return;
        };
        // The flag is cleared against the pointers as they were: a ring that is still full by the
        // old GET sets it again at once. Hence the two writes of the recovery.
        if value & OVERFLOW != 0 && !(r.enable && r.full()) {
            r.overflow = false;
        }
        if value & CORRUPTED != 0 {
            r.corrupted = false;
        }
        let ptr = value & PTR_MASK;
        let mut error = None;
        let mut passed_put = false;
        if !forced && (ptr < r.size || (r.size == 0 && ptr == 0)) {
            let ahead = |p: u32| (p + r.size - r.get) % r.size.max(1);
            passed_put =
                r.size > 0 && r.put < r.size && r.get < r.size && ahead(ptr) > ahead(r.put);
            r.get = ptr;
        } else {
            r.corrupted = true;
            error = Some(r.error_vector());
        }
        r.armed = r.get == r.put;
        let pulse = (r.enable && !r.armed).then(|| r.notify_vector());
        if passed_put {
            cx.guest_error("fault buffer GET passed PUT");
        }
        for v in pulse.into_iter().chain(error) {
            self.pulse(v, cx);
        }
    }
}

fn fault_size_write(r: &mut Ring, value: u32) {
    r.size = if value & SET_DEFAULT != 0 {
        r.default_entries
    } else {
        value & PTR_MASK
    };
    r.overflow_intr = value & OVERFLOW_INTR != 0;
    let enable = value & ENABLE != 0;
    if enable && !r.enable {
        // What pointers do here is not published; this device starts an enabled ring empty.
        r.get = 0;
        r.put = 0;
        r.overflow = false;
        r.corrupted = false;
        r.armed = true;
        r.in_flight.retain(|_, p| p.slot.is_none());
    }
    r.enable = enable;
}
