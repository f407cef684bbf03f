// SPDX-License-Identifier: GPL-2.0
//! INJECT block: failures on demand, and the realism switches.

use huvm_hw::ext::inject as reg;
use huvm_hw::ext::stats::Counter;

use crate::fault::NON_REPLAYABLE;
use crate::gpu::{Cx, Gpu};
use crate::host::Host;
use crate::queue::Event;

/// How long after PUT the flag of a fault comes that is late, ns.
const FLAG_LATE_NS: core::ops::RangeInclusive<u32> = 1_000..=64_000;

/// The registers of the block.
#[derive(Clone, Debug)]
pub(crate) struct Inject {
    pub(crate) valid_delay_ns: u32,
    pub(crate) reorder_permille: u32,
    pub(crate) duplicate_permille: u32,
    flag_late_permille: u32,
    pub(crate) invalidate_late_ns: u32,
    pub(crate) overflow_count: u32,
    pub(crate) ce_fault: u32,
    pub(crate) ce_hang: u32,
    pub(crate) command_hang: u32,
    pub(crate) ce_stall: u32,
    pub(crate) link_down: u32,
    pub(crate) drop_intr: u32,
    pub(crate) neg_tlb: bool,
    pub(crate) seed: u32,
    pub(crate) latency_ns: u32,
    pub(crate) packet_lost: u32,
    pub(crate) packet_bad: u32,
    pub(crate) packet_never_valid: u32,
    pub(crate) other_overflow: u32,
    pub(crate) get_corrupt: u32,
    pub(crate) sem_lost: u32,
    pub(crate) sem_wrong: u32,
    pub(crate) sem_back: u32,
    intr_storm: u32,
    pub(crate) ce_fault_each: u32,
    put_wrong: u32,
    reads_ones: u32,
    writes_lost: u32,
    status_wrong: u32,
    pub(crate) stands_says: u32,
    rng: u64,
    /// What happens at no certain moment does so at one chosen by chance.
    moments: bool,
    /// State of the generator behind those: they are not to change what else chance decides.
    moments_rng: u64,
}

impl Inject {
    pub(crate) fn new(realism: bool, seed: u32) -> Self {
        let pick = |on: u32| if realism { on } else { 0 };
        Inject {
            valid_delay_ns: pick(200),
            reorder_permille: pick(50),
            duplicate_permille: pick(50),
            flag_late_permille: pick(250),
            invalidate_late_ns: 0,
            overflow_count: 0,
            ce_fault: 0,
            ce_hang: 0,
            command_hang: 0,
            ce_stall: 0,
            link_down: 0,
            drop_intr: 0,
            neg_tlb: realism,
            seed,
            latency_ns: 0,
            packet_lost: 0,
            packet_bad: 0,
            packet_never_valid: 0,
            other_overflow: 0,
            get_corrupt: 0,
            sem_lost: 0,
            sem_wrong: 0,
            sem_back: 0,
            intr_storm: 0,
            ce_fault_each: 0,
            put_wrong: 0,
            reads_ones: 0,
            writes_lost: 0,
            status_wrong: 0,
            stands_says: 0,
            rng: scramble(seed),
            moments: realism,
            moments_rng: scramble(!seed),
        }
    }

    fn random(&mut self) -> u32 {
        next_word(&mut self.rng)
    }

    /// One of `0..=last`, for a moment between two: `None` when all happens at its usual moment.
    pub(crate) fn moment(&mut self, last: u64) -> Option<u64> {
        if !self.moments {
            return None;
        }
        let word = u64::from(next_word(&mut self.moments_rng));
        Some(last.checked_add(1).map_or(word, |n| word % n))
    }

    /// True with a chance of `permille` in 1000.
    pub(crate) fn chance(&mut self, permille: u32) -> bool {
        permille != 0 && self.random() % 1000 < permille
    }

    /// How long after PUT the ENG_FAULTED of this fault comes, ns; `None`: before.
    pub(crate) fn flag_late(&mut self) -> Option<u64> {
        let (least, most) = FLAG_LATE_NS.into_inner();
        let late = self.chance(self.flag_late_permille);
        late.then(|| u64::from(least + self.random() % (most - least + 1)))
    }

    /// Counts down a "the next n of a ring" register; true when `ring` is the one, and one was left.
    pub(crate) fn next_of(counter: &mut u32, ring: usize) -> bool {
        let other = *counter & reg::OTHER_RING != 0;
        let left = *counter & reg::PACKETS;
        if left == 0 || other != (ring == NON_REPLAYABLE) {
            return false;
        }
        *counter = if left == 1 { 0 } else { *counter - 1 };
        true
    }

    /// Counts down a "the next n" register; true while there are some.
    pub(crate) fn next(counter: &mut u32) -> bool {
        let hit = *counter != 0;
        *counter -= u32::from(hit);
        hit
    }

    /// Makes the packet of a ring wrong if PACKET_BAD says so. It stays VALID.
    pub(crate) fn spoil(&mut self, ring: usize, packet: &mut [u8; 32]) {
        let what = self.packet_bad >> reg::BAD_WHAT_SHIFT & 3;
        if !Inject::next_of(&mut self.packet_bad, ring) {
            return;
        }
        for (i, dword) in packet.chunks_exact_mut(4).enumerate() {
            let wrong = match (what, i) {
                (0, 7) => self.random() | 1 << 31,
                (0, _) | (1, 0 | 1) | (2, 2 | 3) => self.random(),
                // No such type; all else as it was.
                (3, 7) => {
                    let mut b = [0; 4];
                    b.copy_from_slice(dword);
                    u32::from_le_bytes(b) | 0x1f
                }
                _ => continue,
            };
            dword.copy_from_slice(&wrong.to_le_bytes());
        }
    }

    /// What a read of a ring's PUT says instead, if PUT_WRONG says so.
    pub(crate) fn wrong_put(&mut self, ring: usize, get: u32, size: u32) -> Option<u32> {
        let what = self.put_wrong >> reg::PUT_WRONG_SHIFT & 3;
        if !Inject::next_of(&mut self.put_wrong, ring) {
            return None;
        }
        Some(match what {
            0 => u32::MAX,
            1 => size,
            2 => get.checked_sub(1).unwrap_or(size.saturating_sub(1)),
            _ => get,
        })
    }

    /// Counts down a "so many pass, then the next n" register; true when this is one of the n.
    fn next_after(counter: &mut u32) -> bool {
        let pass = *counter >> reg::ONES_PASS_SHIFT;
        if pass != 0 {
            *counter -= 1 << reg::ONES_PASS_SHIFT;
            return false;
        }
        Inject::next(counter)
    }

    /// Whether this read of a register says all ones, as READS_ONES has it.
    pub(crate) fn is_unread(&mut self) -> bool {
        Inject::next_after(&mut self.reads_ones)
    }

    /// Whether this write of a register is lost, as WRITES_LOST has it.
    pub(crate) fn is_unheard(&mut self) -> bool {
        Inject::next_after(&mut self.writes_lost)
    }

    /// Whether this read of a slot's STATUS says nothing that there is, as STATUS_WRONG has it.
    pub(crate) fn is_wrong_status(&mut self) -> bool {
        Inject::next(&mut self.status_wrong)
    }

    /// Counts down a "the n-th from now" register; true when this is the one.
    pub(crate) fn countdown(counter: &mut u32) -> bool {
        match *counter {
            0 => false,
            n => {
                *counter = n - 1;
                n == 1
            }
        }
    }
}

/// The next random word (xorshift64*; its state depends on the seed only).
fn next_word(state: &mut u64) -> u32 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    // CAST: the upper half.
    (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
}

/// The memory behind the BARs of a GPU is out of reach: what is not mapped there is answered by the model, with ones.
pub(crate) fn fall(gpu: usize, host: &mut dyn Host) {
    host.bar_virtual(gpu, 1, true);
    host.bar_virtual(gpu, 3, true);
}

fn scramble(seed: u32) -> u64 {
    // Any odd constant does: it only keeps the state away from zero.
    (u64::from(seed) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

impl Gpu {
    /// Reads a register of the block.
    pub(crate) fn inject_read(&self, offset: u32, cx: &Cx<'_>) -> u32 {
        let i = &self.inject;
        match offset {
            reg::VALID_DELAY_NS => i.valid_delay_ns,
            reg::REORDER_PERMILLE => i.reorder_permille,
            reg::DUPLICATE_PERMILLE => i.duplicate_permille,
            reg::FLAG_LATE_PERMILLE => i.flag_late_permille,
            reg::INVALIDATE_LATE_NS => i.invalidate_late_ns,
            reg::OVERFLOW_COUNT => i.overflow_count,
            reg::CE_FAULT => i.ce_fault,
            reg::CE_HANG => i.ce_hang,
            reg::COMMAND_HANG => i.command_hang,
            reg::CE_STALL => i.ce_stall,
            reg::LINK_DOWN => i.link_down,
            reg::DROP_INTR => i.drop_intr,
            reg::NEG_TLB => u32::from(i.neg_tlb),
            reg::SEED => i.seed,
            reg::LATENCY_NS => i.latency_ns,
            reg::ECC_POISON => self.poisoned(cx),
            reg::PACKET_LOST => i.packet_lost,
            reg::PACKET_BAD => i.packet_bad,
            reg::PACKET_NEVER_VALID => i.packet_never_valid,
            reg::OTHER_OVERFLOW => i.other_overflow,
            reg::GET_CORRUPT => i.get_corrupt,
            reg::SEM_LOST => i.sem_lost,
            reg::SEM_WRONG => i.sem_wrong,
            reg::SEM_BACK => i.sem_back,
            reg::INTR_STORM => i.intr_storm,
            reg::CE_FAULT_EACH => i.ce_fault_each,
            reg::PUT_WRONG => i.put_wrong,
            reg::READS_ONES => i.reads_ones,
            reg::WRITES_LOST => i.writes_lost,
            reg::STATUS_WRONG => i.status_wrong,
            reg::STANDS_SAYS => i.stands_says,
            _ => 0,
        }
    }

    /// Writes a register of the block.
    pub(crate) fn inject_write(&mut self, offset: u32, value: u32, cx: &mut Cx<'_>) {
        let i = &mut self.inject;
        match offset {
            reg::VALID_DELAY_NS => i.valid_delay_ns = value.min(reg::VALID_DELAY_MAX_NS),
            reg::REORDER_PERMILLE => i.reorder_permille = value.min(1000),
            reg::DUPLICATE_PERMILLE => i.duplicate_permille = value.min(1000),
            reg::FLAG_LATE_PERMILLE => i.flag_late_permille = value.min(1000),
            reg::INVALIDATE_LATE_NS => {
                i.invalidate_late_ns = value.min(reg::INVALIDATE_LATE_MAX_NS);
            }
            reg::OVERFLOW_COUNT => i.overflow_count = value,
            reg::CE_FAULT => i.ce_fault = value,
            reg::CE_HANG => {
                i.ce_hang = value;
                if value == 0 {
                    self.ce_unhang(cx);
                }
            }
            reg::COMMAND_HANG => {
                i.command_hang = value;
                if value == 0 {
                    self.command_unhang(cx);
                }
            }
            reg::CE_STALL => {
                i.ce_stall = value;
                if value == 0 {
                    self.ce_unstall(cx);
                }
            }
            reg::LINK_DOWN => {
                i.link_down = value;
                cx.fabric.force_down(cx.gpu, value);
            }
            reg::GONE if value == reg::GONE_KEY => {
                cx.fabric.fall(cx.gpu);
                fall(cx.gpu, cx.host);
            }
            reg::DROP_INTR => i.drop_intr = value,
            reg::NEG_TLB => {
                i.neg_tlb = value & 1 != 0;
                if !i.neg_tlb {
                    self.mmu.drop_negative();
                }
            }
            reg::SEED => {
                i.seed = value;
                i.rng = scramble(value);
                i.moments_rng = scramble(!value);
            }
            reg::LATENCY_NS => i.latency_ns = value,
            reg::ECC_POISON => self.poison(value, cx),
            reg::ECC_REPORT => self.report_bad(value, cx),
            reg::PACKET_LOST => i.packet_lost = value,
            reg::PACKET_BAD => i.packet_bad = value,
            reg::PACKET_NEVER_VALID => i.packet_never_valid = value,
            reg::OTHER_OVERFLOW => i.other_overflow = value,
            reg::GET_CORRUPT => i.get_corrupt = value,
            reg::SEM_LOST => i.sem_lost = value,
            reg::SEM_WRONG => i.sem_wrong = value,
            reg::SEM_BACK => i.sem_back = value,
            reg::INTR_STORM => {
                i.intr_storm = value;
                cx.queue.forget(cx.gpu, |e| matches!(e, Event::Storm));
                self.storm_goes_on(cx);
            }
            reg::CE_FAULT_EACH => i.ce_fault_each = value,
            reg::PUT_WRONG => i.put_wrong = value,
            reg::READS_ONES => i.reads_ones = value,
            reg::WRITES_LOST => i.writes_lost = value,
            reg::STATUS_WRONG => i.status_wrong = value,
            reg::STANDS_SAYS => i.stands_says = value,
            _ => {}
        }
    }

    /// The next message of the storm, if there is one.
    fn storm_goes_on(&self, cx: &mut Cx<'_>) {
        let period = self.inject.intr_storm & reg::STORM_NS;
        if period != 0 {
            let ns = period.max(reg::STORM_MIN_NS);
            cx.at(cx.now.saturating_add(ns.into()), Event::Storm);
        }
    }

    /// A message that nothing asked for.
    pub(crate) fn storm(&mut self, cx: &mut Cx<'_>) {
        let vector = self.inject.intr_storm >> 28 & 3;
        cx.count(Counter::Interrupts, 1);
        cx.host.msix(cx.gpu, vector);
        self.storm_goes_on(cx);
    }
}
