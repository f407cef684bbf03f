// SPDX-License-Identifier: GPL-2.0
//! Goal (c): replayable faults, replay, cancel, overflow, duplicates, late VALID, negative TLB.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::precedence
)]

mod common;
use common::*;
use huvm_hw::ext::{self, inject, stats::Counter, workload as w};
use huvm_model::bar0;

const VA: u64 = 0x10_0000_0000;

fn rig(entries: u32) -> Rig {
    let mut r = Rig::new(1);
    r.instance(0, true);
    r.rings(0, entries);
    r.interrupts(0);
    r
}

/// FILL of one page by each block.
fn fill() -> Ins {
    Ins {
        op: 1,
        count: 512,
        steps: 1,
        dst: VA,
        bs: 4096,
        imm0: 5,
        imm1: 3,
        ..Ins::default()
    }
}

fn map(r: &mut Rig, va: u64) {
    let page = (va - VA) >> 12;
    r.map4k(0, va, pte_vid(0x200_0000 + page * 4096));
}

/// Serves faults as a driver does, by interrupt only, until the slot is no longer running.
fn serve(r: &mut Rig, entries: u32, slot: u32) -> usize {
    let mut served = 0;
    for _ in 0..10_000 {
        let woken = r.run_until(SEC, |r| !r.h.messages.is_empty());
        if !woken {
            return served;
        }
        // A processor takes a message that came twice once.
        if r.h.take_messages().contains(&(0, 1)) {
            r.w0(0, bar0::LEAF + 8, 1);
            loop {
                let packets = r.drain(0, 1, entries);
                if packets.is_empty() {
                    break;
                }
                served += packets.len();
                for p in packets {
                    map(r, p.va);
                }
                // A late VALID: look again a little later, as a driver that polls it.
                r.run(1_000);
            }
            // Two-step recovery from an overflow.
            let get = r.r0(0, bar0::FAULT_LO + 0x28);
            if get >> 31 != 0 {
                r.w0(0, bar0::FAULT_LO + 0x28, get & 0xf_ffff);
                r.w0(0, bar0::FAULT_LO + 0x28, get & 0xf_ffff | 3 << 30);
            }
            r.replay(0, 1);
            // Re-arm.
            r.w0(0, bar0::TOP_EN_CLEAR, 0xf);
            r.w0(0, bar0::TOP_EN_SET, 0xf);
        }
        if r.slot(0, slot, w::STATUS) != w::STATUS_RUNNING {
            return served;
        }
    }
    panic!("faults without end");
}

fn check(r: &mut Rig, pages: u64) {
    let ins = Ins {
        op: 2,
        a: VA,
        ..fill()
    };
    r.launch(0, 1, pages as u32, 8, &[Ins { count: 512, ..ins }]);
    r.run(SEC);
    assert_eq!(r.slot(0, 1, w::STATUS), w::STATUS_DONE);
    assert_eq!(r.slot(0, 1, w::MISMATCHES_LO), 0);
}

#[test]
fn a_fault_stalls_its_block_alone() {
    let mut r = rig(64);
    for p in [0, 2, 3] {
        map(&mut r, VA + p * 4096);
    }
    r.launch(0, 0, 4, 8, &[fill()]);
    r.run(1_000_000);
    assert_eq!(r.slot(0, 0, w::STATUS), w::STATUS_RUNNING);
    assert_eq!(
        (
            r.slot(0, 0, w::BLOCKS_DONE),
            r.slot(0, 0, w::BLOCKS_STALLED)
        ),
        (3, 1)
    );
    assert_eq!(r.h.take_messages(), [(0, 1)]);
    assert_eq!(r.r0(0, bar0::LEAF + 8), 1, "vector 64");
    let p = r.drain(0, 1, 64);
    assert_eq!(p.len(), 1);
    assert_eq!(
        (p[0].va, p[0].kind, p[0].access, p[0].engine),
        (VA + 4096, 2, 1, 64)
    );
    assert_eq!(
        (p[0].replayable, p[0].hub, p[0].gpc, p[0].client, p[0].inst),
        (true, false, 1, 0, INST)
    );
    map(&mut r, VA + 4096);
    r.replay(0, 1);
    r.run(1_000_000);
    assert_eq!(r.slot(0, 0, w::STATUS), w::STATUS_DONE);
    assert_eq!(r.r5(0, w::DONE_LO), 1);
    assert_eq!(r.r0(0, bar0::LEAF), 1 << 16);
    check(&mut r, 4);
}

/// An atomic access says what it is, whatever it lacks: a page, the right to write, the right to be atomic.
#[test]
fn an_atomic_access_faults_as_one() {
    for (pte, kind) in [
        (None, 2),
        (Some(READ_ONLY), 6),
        (Some(READ_ONLY | ATOMIC_DISABLE), 6),
        (Some(ATOMIC_DISABLE), 0xf),
    ] {
        let mut r = rig(64);
        map(&mut r, VA + 4096);
        if let Some(flags) = pte {
            r.map4k(0, VA, pte_vid(0x200_0000) | flags);
        }
        let add = Ins {
            op: 12,
            imm0: 7,
            ..fill()
        };
        r.launch(0, 0, 1, 8, &[add]);
        r.run(1_000_000);
        let p = r.drain(0, 1, 64);
        assert_eq!(p.len(), 1);
        assert_eq!(
            (p[0].va, p[0].kind, p[0].access, p[0].replayable),
            (VA, kind, 2, true)
        );
        assert_eq!(r.get_vram64(0, 0x200_0000), 0, "nothing was added yet");
        map(&mut r, VA);
        r.replay(0, 1);
        r.run(1_000_000);
        assert_eq!(r.slot(0, 0, w::STATUS), w::STATUS_DONE);
        assert_eq!(r.get_vram64(0, 0x200_0000 + 511 * 8), 7);
        // A page that may be written, and no more, takes stores.
        r.map4k(0, VA, pte_vid(0x200_0000) | ATOMIC_DISABLE);
        r.replay(0, 0);
        r.launch(0, 1, 1, 8, &[fill()]);
        r.run(1_000_000);
        assert_eq!(r.slot(0, 1, w::STATUS), w::STATUS_DONE);
    }
}

#[test]
fn storm_on_a_small_ring_with_realism() {
    for seed in 1..=5 {
        let mut r = Rig::with(
            vec![huvm_model::config::GpuConfig {
                realism: true,
                seed,
                ..quiet()
            }],
            huvm_model::config::Profile::default(),
        );
        r.instance(0, true);
        r.rings(0, 8);
        r.interrupts(0);
        // More of everything than the defaults.
        r.w5(0, inject::DUPLICATE_PERMILLE, 300);
        r.w5(0, inject::REORDER_PERMILLE, 300);
        r.w5(0, inject::VALID_DELAY_NS, 3_000);
        r.w5(0, inject::OVERFLOW_COUNT, 2);
        r.launch(0, 0, 300, 8, &[fill()]);
        let served = serve(&mut r, 8, 0);
        assert_eq!(
            r.slot(0, 0, w::STATUS),
            w::STATUS_DONE,
            "seed {seed}: {served} served"
        );
        assert!(r.stat(0, Counter::Overflows) > 0);
        assert!(r.stat(0, Counter::DuplicatePackets) > 0);
        check(&mut r, 300);
    }
}

#[test]
fn overflow_stops_the_ring_until_the_second_write_of_get() {
    let mut r = rig(8);
    r.launch(0, 0, 20, 8, &[fill()]);
    r.run(1_000_000);
    let get = bar0::FAULT_LO + 0x28;
    let put = bar0::FAULT_LO + 0x2c;
    assert_eq!(r.r0(0, put), 7 | 1 << 31);
    assert_eq!(
        r.r0(0, bar0::FAULT_STATUS) & (1 << 12 | 1 << 8),
        1 << 12 | 1 << 8
    );
    assert_eq!(r.r0(0, bar0::LEAF + 16) >> 3 & 1, 1, "vector 131");
    // Nothing is reported while the flag is up, not even into room.
    assert_eq!(r.drain(0, 1, 8).len(), 7);
    assert_eq!(
        r.r0(0, get),
        7 | 1 << 31,
        "writing zero to the flag does nothing"
    );
    r.replay(0, 1);
    r.run(1_000_000);
    assert_eq!(r.r0(0, put), 7 | 1 << 31);
    // GET is already new: the flag goes with one more write.
    r.w0(0, get, 7 | 1 << 31);
    assert_eq!(r.r0(0, put), 7);
    // The stalled requests come again with a replay.
    r.replay(0, 1);
    r.run(1_000_000);
    assert_eq!(r.r0(0, put), 6 | 1 << 31);
    // In one write with the new GET, the ring is still full by the old one: set again.
    r.w0(0, get, 6 | 1 << 31);
    assert_eq!(r.r0(0, get), 6 | 1 << 31);
    r.w0(0, get, 6 | 1 << 31);
    assert_eq!(r.r0(0, get), 6);
}

#[test]
fn get_out_of_range_is_corrupted() {
    let mut r = rig(8);
    let get = bar0::FAULT_LO + 0x28;
    r.w0(0, get, 8);
    assert_eq!(r.r0(0, get), 1 << 30);
    r.launch(0, 0, 1, 8, &[fill()]);
    r.run(1_000_000);
    assert_eq!(r.r0(0, get + 4), 1 << 30, "nothing is reported");
    r.w0(0, get, 1 << 30);
    assert_eq!(r.r0(0, get), 0);
}

#[test]
fn writing_get_without_draining_pulses_again() {
    let mut r = rig(64);
    r.launch(0, 0, 2, 8, &[fill()]);
    r.run(1_000_000);
    assert_eq!(r.h.take_messages(), [(0, 1)]);
    r.w0(0, bar0::LEAF + 8, 1);
    r.run(1_000_000);
    assert!(
        r.h.take_messages().is_empty(),
        "clearing the leaf alone gives nothing"
    );
    r.w0(0, bar0::FAULT_LO + 0x28, 0);
    r.run(1_000_000);
    assert_eq!(r.h.take_messages(), [(0, 1)]);
    assert_eq!(r.r0(0, bar0::LEAF + 8), 1);
}

#[test]
fn late_and_reordered_valid() {
    let mut r = rig(64);
    r.w5(0, inject::VALID_DELAY_NS, 100_000);
    r.launch(0, 0, 1, 8, &[fill()]);
    r.run(50_000);
    assert_eq!(r.r0(0, bar0::FAULT_LO + 0x2c), 1, "PUT is there");
    assert_eq!(r.h.sys_u32(RING1 + 28), 0, "the packet is not");
    assert_eq!(r.r0(0, bar0::FAULT_STATUS) >> 30 & 1, 1, "BUSY");
    r.run(100_000);
    assert_eq!(r.h.sys_u32(RING1 + 28) >> 31, 1);
    assert_eq!(r.r0(0, bar0::FAULT_STATUS) >> 30 & 1, 0);
    assert!(r.m.next_deadline().is_none());

    // Reordered: somewhere in a storm a slot is VALID before the one in front of it.
    let mut r = rig(64);
    r.w5(0, inject::VALID_DELAY_NS, 1_000);
    r.w5(0, inject::REORDER_PERMILLE, 500);
    r.launch(0, 0, 40, 8, &[fill()]);
    let out_of_order = r.run_until(SEC, |r| {
        let valid = |i: u64| r.h.sys_u32(RING1 + 32 * i + 28) >> 31 == 1;
        (0..39).any(|i| !valid(i) && valid(i + 1))
    });
    assert!(out_of_order);
    assert!((1..40).contains(&r.stat(0, Counter::ReorderedPackets)));
}

#[test]
fn every_packet_twice() {
    let mut r = rig(64);
    r.w5(0, inject::DUPLICATE_PERMILLE, 1000);
    r.launch(0, 0, 3, 8, &[fill()]);
    r.run(1_000_000);
    let p = r.drain(0, 1, 64);
    assert_eq!(p.len(), 6);
    assert_eq!(p[0], p[1]);
    assert_eq!(r.slot(0, 0, w::FAULTS_LO), 6);
    assert_eq!(r.stat(0, Counter::DuplicatePackets), 3);
}

#[test]
fn negative_entries_need_an_invalidate_before_the_replay() {
    let mut r = rig(64);
    r.w5(0, inject::NEG_TLB, 1);
    r.launch(0, 0, 1, 8, &[fill()]);
    r.run(1_000_000);
    assert_eq!(r.drain(0, 1, 64).len(), 1);
    map(&mut r, VA);
    // Replay alone, on a PDB that nobody uses: the cached entry is still invalid.
    r.w0(0, bar0::INVALIDATE_PDB, 0x7777 << 4);
    r.w0(0, bar0::INVALIDATE, 1 << 31 | 1 | 1 << 3);
    r.run(1_000_000);
    assert_eq!(r.slot(0, 0, w::STATUS), w::STATUS_RUNNING);
    assert_eq!(r.drain(0, 1, 64).len(), 1, "faults again");
    assert!(r.stat(0, Counter::TlbNegativeHits) > 0);
    // PTE-only does not reach the directory entry that was missing.
    let pdb = (PDE3 >> 12) as u32;
    r.w0(0, bar0::INVALIDATE_PDB, pdb << 4);
    r.w0(0, bar0::INVALIDATE, 1 << 31 | 1 | 1 << 3 | 1 << 24);
    r.run(1_000_000);
    assert_eq!(r.slot(0, 0, w::STATUS), w::STATUS_RUNNING);
    r.w0(0, bar0::INVALIDATE, 1 << 31 | 1 | 1 << 3);
    r.run(1_000_000);
    assert_eq!(r.slot(0, 0, w::STATUS), w::STATUS_DONE);
}

#[test]
fn a_command_that_hangs_does_nothing_until_it_is_released() {
    let pending = |r: &mut Rig| r.r0(0, bar0::INVALIDATE) >> 31;
    let replay = 1 << 31 | 1 | 1 << 3;
    let mut r = rig(64);
    r.launch(0, 0, 1, 8, &[fill()]);
    r.run(1_000_000);
    map(&mut r, VA);
    r.w0(0, bar0::INVALIDATE_PDB, ((PDE3 >> 12) as u32) << 4);
    r.w5(0, inject::COMMAND_HANG, 2);
    r.w0(0, bar0::INVALIDATE, 1 << 31 | 1);
    r.run(1_000_000);
    assert_eq!(pending(&mut r), 0, "the first is carried out");
    let (invalidates, replays) = (
        r.stat(0, Counter::TlbInvalidates),
        r.stat(0, Counter::Replays),
    );
    r.w0(0, bar0::INVALIDATE, replay);
    r.w0(0, bar0::INVALIDATE, replay);
    r.run(SEC);
    assert_eq!(pending(&mut r), 1);
    assert_eq!(r.r5(0, inject::COMMAND_HANG), 0);
    assert_eq!(r.m.next_deadline(), None, "a hang costs nothing");
    assert_eq!(r.stat(0, Counter::TlbInvalidates), invalidates);
    assert_eq!(r.slot(0, 0, w::STATUS), w::STATUS_RUNNING);
    r.w5(0, inject::COMMAND_HANG, 0);
    r.run(1_000_000);
    assert_eq!(pending(&mut r), 0);
    assert_eq!(
        r.stat(0, Counter::Replays),
        replays + 1,
        "the one behind it is lost"
    );
    assert_eq!(r.slot(0, 0, w::STATUS), w::STATUS_DONE);
}

#[test]
fn hub_only_invalidate_leaves_the_gpc_tlb_and_replays_nothing() {
    let mut r = rig(64);
    map(&mut r, VA);
    r.launch(0, 0, 1, 8, &[fill()]);
    r.run(1_000_000);
    r.map4k(0, VA, 0);
    r.w0(0, bar0::INVALIDATE, 1 << 31 | 3 | 4);
    r.launch(0, 0, 1, 8, &[fill()]);
    r.run(1_000_000);
    assert_eq!(
        r.slot(0, 0, w::STATUS),
        w::STATUS_DONE,
        "stale but in force"
    );
    r.w0(0, bar0::INVALIDATE, 1 << 31 | 3);
    r.launch(0, 0, 1, 8, &[fill()]);
    r.run(1_000_000);
    assert_eq!(r.slot(0, 0, w::STATUS), w::STATUS_RUNNING);
    map(&mut r, VA);
    r.w0(0, bar0::INVALIDATE, 1 << 31 | 3 | 4 | 1 << 3);
    r.run(1_000_000);
    assert_eq!(
        r.slot(0, 0, w::STATUS),
        w::STATUS_RUNNING,
        "hub only: the replay is ignored"
    );
}

#[test]
fn read_only_page_faults_on_a_write() {
    let mut r = rig(64);
    r.map4k(0, VA, pte_vid(0x200_0000) | READ_ONLY);
    r.launch(
        0,
        0,
        1,
        8,
        &[Ins {
            op: 2,
            a: VA,
            ..fill()
        }],
    );
    r.run(1_000_000);
    assert_eq!(r.slot(0, 0, w::STATUS), w::STATUS_DONE);
    r.launch(0, 0, 1, 8, &[fill()]);
    r.run(1_000_000);
    assert_eq!(r.drain(0, 1, 64)[0].kind, 6, "RO_VIOLATION");
    map(&mut r, VA);
    r.replay(0, 1);
    r.run(1_000_000);
    assert_eq!(r.slot(0, 0, w::STATUS), w::STATUS_DONE);
}

#[test]
fn cancel_global() {
    let mut r = rig(64);
    r.launch(0, 0, 2, 8, &[fill()]);
    r.run(1_000_000);
    map(&mut r, VA);
    r.replay(0, 4);
    r.run(1_000_000);
    assert_eq!(
        (r.slot(0, 0, w::STATUS), r.slot(0, 0, w::ERROR)),
        (3, w::ERROR_CANCELLED)
    );
    assert_eq!(r.slot(0, 0, w::ERR_VA_LO), (VA + 4096) as u32);
    let p = r.drain(0, 0, 64);
    assert_eq!((p.len(), p[0].va, p[0].replayable), (1, VA + 4096, false));
    assert_eq!(r.stat(0, Counter::Cancels), 1);
    assert_eq!(r.r5(0, w::DONE_LO), 1);
}

#[test]
fn cancel_targeted_hits_one_client_of_one_gpc() {
    let mut r = rig(64);
    r.launch(0, 0, 1, 8, &[fill()]);
    r.launch(
        0,
        1,
        2,
        8,
        &[Ins {
            dst: VA + 0x10_0000,
            ..fill()
        }],
    );
    r.run(1_000_000);
    // Block 1 of slot 1 is the only one on GPC 1.
    r.w0(0, bar0::INVALIDATE, 1 << 31 | 3 | 3 << 3 | 1 << 15);
    r.run(1_000_000);
    assert_eq!(r.slot(0, 0, w::STATUS), w::STATUS_RUNNING);
    assert_eq!(
        (r.slot(0, 1, w::STATUS), r.slot(0, 1, w::ERROR)),
        (3, w::ERROR_CANCELLED)
    );
}

#[test]
fn cancel_va_fails_one_page_and_retries_the_rest() {
    let mut r = rig(64);
    // The channel's own system-memory mapping carries MEM_OP.
    r.channel(0, 0);
    r.launch(0, 0, 1, 8, &[fill()]);
    r.launch(
        0,
        1,
        1,
        8,
        &[Ins {
            dst: VA + 0x10_0000,
            ..fill()
        }],
    );
    r.run(1_000_000);
    map(&mut r, VA + 0x10_0000);
    let op = |engine: u32, access: u32, va: u64| {
        mem_op(
            va as u32 | engine,
            hi(va),
            PDE3 as u32 | 5 << 2 | access << 7 | 1 << 5,
            9 << 27,
        )
    };
    // Wrong access type and wrong engine: it acts as START.
    r.submit(&op(64, 0, VA));
    r.submit(&op(65, 7, VA));
    r.run(1_000_000);
    assert_eq!((r.slot(0, 0, w::STATUS), r.slot(0, 1, w::STATUS)), (1, 2));
    r.submit(&op(64, 6, VA));
    r.run(1_000_000);
    assert_eq!(
        (r.slot(0, 0, w::STATUS), r.slot(0, 0, w::ERROR)),
        (3, w::ERROR_CANCELLED)
    );
    let p = r.drain(0, 0, 64);
    assert_eq!(
        (p.len(), p[0].va, p[0].engine, p[0].replayable),
        (1, VA, 64, false)
    );
}

#[test]
fn without_replay_a_fault_is_fatal() {
    let mut r = rig(64);
    r.instance(0, false);
    r.launch(0, 0, 1, 8, &[fill()]);
    r.run(1_000_000);
    assert_eq!(
        (r.slot(0, 0, w::STATUS), r.slot(0, 0, w::ERROR)),
        (3, w::ERROR_FAULT)
    );
    assert_eq!(r.drain(0, 0, 64).len(), 1);
    assert_eq!(r.drain(0, 1, 64).len(), 0);
}

#[test]
fn fatal_kinds_fail_the_launch_even_with_replay() {
    let mut r = rig(64);
    for (va, kind) in [(1u64 << 49, 3u32), (VA + 2, 3)] {
        r.launch(0, 0, 1, 8, &[Ins { dst: va, ..fill() }]);
        r.run(1_000_000);
        assert_eq!(
            (r.slot(0, 0, w::STATUS), r.slot(0, 0, w::ERROR)),
            (3, w::ERROR_FAULT)
        );
        assert_eq!(r.slot(0, 0, w::ERR_INFO), kind | 1 << 16);
    }
    // Beyond VRAM: REGION_VIOLATION.
    r.map4k(0, VA, pte_vid(VRAM));
    r.launch(0, 0, 1, 8, &[fill()]);
    r.run(1_000_000);
    assert_eq!(r.slot(0, 0, w::ERR_INFO), 0xd | 1 << 16);
    assert_eq!(r.h.out_of_bounds, 0);
}

#[test]
fn replay_while_the_packet_is_on_its_way_loses_no_wakeup() {
    // The request is stalled, its packet not yet in the ring: a replay that comes in between must
    // retry it, for the driver that maps by other means will not be told again.
    let mut r = rig(64);
    r.launch(0, 0, 1, 8, &[fill()]);
    assert_eq!(r.r0(0, bar0::FAULT_LO + 0x2c), 0, "still on its way");
    map(&mut r, VA);
    r.replay(0, 1);
    r.run(1_000_000);
    assert_eq!(r.slot(0, 0, w::STATUS), w::STATUS_DONE);
    assert_eq!(r.drain(0, 1, 64).len(), 1, "the packet comes all the same");
}

#[test]
fn no_ring_is_an_info_fault() {
    let mut r = Rig::new(1);
    r.instance(0, true);
    r.interrupts(0);
    r.launch(0, 0, 1, 8, &[fill()]);
    r.run(1_000_000);
    assert_eq!(r.r0(0, bar0::FAULT_STATUS) >> 31, 1);
    assert_eq!(r.r0(0, bar0::FAULT_INST_LO) & 0x1ff, 64);
    assert_eq!(r.r0(0, bar0::LEAF + 16) >> 6 & 1, 1, "vector 134");
    map(&mut r, VA);
    r.replay(0, 1);
    r.run(1_000_000);
    assert_eq!(r.slot(0, 0, w::STATUS), w::STATUS_DONE);
}

#[test]
fn ring_in_vram_through_bar2() {
    let mut r = rig(64);
    // Virtual mode of the ring: BAR2 physical means VRAM offset.
    r.w0(0, bar0::FAULT_LO + 0x20, 0x300_0000);
    r.launch(0, 0, 1, 8, &[fill()]);
    r.run(1_000_000);
    assert_eq!(r.get_vram64(0, 0x300_0000 + 8), VA);
    assert_eq!(r.get_vram64(0, 0x300_0000 + 24) >> 63, 1);
}

#[test]
fn dropped_message() {
    let mut r = rig(64);
    r.w5(0, inject::DROP_INTR, 1);
    r.launch(0, 0, 1, 8, &[fill()]);
    r.run(1_000_000);
    assert!(r.h.take_messages().is_empty());
    assert_eq!(r.r0(0, bar0::LEAF + 8), 1, "pending all the same");
    let _ = ext::BAR;
}

/// A launch of one block that faults, after `what` was written to an INJECT register.
fn inject_and_fault(at: u32, what: u32) -> Rig {
    let mut r = rig(64);
    r.w5(0, at, what);
    r.launch(0, 0, 1, 8, &[fill()]);
    r.run(1_000_000);
    r
}

/// The same access faults again, and is served.
fn ends_well(r: &mut Rig) {
    r.replay(0, 1);
    r.run(1_000_000);
    let p = r.drain(0, 1, 64);
    assert_eq!((p.len(), p[0].va), (1, VA));
    map(r, VA);
    r.replay(0, 1);
    r.run(1_000_000);
    assert_eq!(r.slot(0, 0, w::STATUS), w::STATUS_DONE);
}

#[test]
fn a_lost_packet_leaves_no_trace() {
    let mut r = inject_and_fault(inject::PACKET_LOST, 1);
    let put = bar0::FAULT_LO + 0x2c;
    assert_eq!(r.r0(0, put), 0, "no packet, no overflow");
    assert!(r.h.take_messages().is_empty());
    assert_eq!(r.slot(0, 0, w::BLOCKS_STALLED), 1);
    assert_eq!(r.r5(0, inject::PACKET_LOST), 0);
    ends_well(&mut r);
    // Those of the other ring are not meant.
    let mut r = inject_and_fault(inject::PACKET_LOST, inject::OTHER_RING | 1);
    assert_eq!(r.drain(0, 1, 64).len(), 1);
    assert_eq!(r.r5(0, inject::PACKET_LOST), inject::OTHER_RING | 1);
}

#[test]
fn a_packet_that_is_never_valid_takes_its_place() {
    let mut r = inject_and_fault(inject::PACKET_NEVER_VALID, 1);
    let get = bar0::FAULT_LO + 0x28;
    assert_eq!(r.h.take_messages(), [(0, 1)]);
    r.run(SEC);
    assert_eq!(r.r0(0, get + 4), 1, "PUT is there");
    assert_eq!(r.h.sys_u32(RING1 + 28), 0, "the packet never is");
    assert_eq!(
        r.r0(0, bar0::FAULT_STATUS) >> 30 & 1,
        0,
        "nothing is on its way"
    );
    // A driver that goes past it.
    r.w0(0, get, 1);
    ends_well(&mut r);
}

#[test]
fn a_bad_packet_is_valid() {
    for what in 0..4 {
        let mut r = inject_and_fault(inject::PACKET_BAD, what << inject::BAD_WHAT_SHIFT | 1);
        assert_eq!(r.r5(0, inject::PACKET_BAD), 0);
        let p = r.drain(0, 1, 64);
        assert_eq!(p.len(), 1, "{what}");
        assert_eq!(p[0].inst != INST, what < 2, "{what}");
        assert_eq!(p[0].va != VA, what == 0 || what == 2, "{what}");
        assert_eq!(p[0].kind == 0x1f, what == 3, "{what}");
        ends_well(&mut r);
    }
}

#[test]
fn a_get_that_is_taken_for_another() {
    let mut r = inject_and_fault(inject::GET_CORRUPT, 2);
    let get = bar0::FAULT_LO + 0x28;
    assert_eq!(r.drain(0, 1, 64).len(), 1);
    assert_eq!(r.r0(0, get), 1 << 30, "GET is as it was");
    assert_eq!(r.r0(0, bar0::LEAF + 16) >> 3 & 1, 1, "vector 131");
    r.replay(0, 1);
    r.run(1_000_000);
    assert_eq!(r.r0(0, get + 4), 1 | 1 << 30, "nothing is reported");
    r.w0(0, get, 1 | 1 << 30);
    assert_eq!(r.r0(0, get), 1 << 30, "again");
    r.w0(0, get, 1 | 1 << 30);
    assert_eq!(r.r0(0, get), 1);
    ends_well(&mut r);
}

#[test]
fn a_put_that_says_something_else() {
    for (what, says) in [(0, 0xf_ffff), (1, 64), (2, 63), (3, 0)] {
        let mut r = inject_and_fault(inject::PUT_WRONG, what << inject::PUT_WRONG_SHIFT | 2);
        let put = bar0::FAULT_LO + 0x2c;
        let other = bar0::FAULT_LO + 0xc;
        assert_eq!(r.r0(0, other), 0, "that of the other ring is not meant");
        assert_eq!(
            [r.r0(0, put), r.r0(0, put), r.r0(0, put)],
            [says, says, 1],
            "{what}"
        );
        assert_eq!(r.r5(0, inject::PUT_WRONG), 0);
        assert_eq!(r.drain(0, 1, 64).len(), 1, "the packet is there");
        // GET is 1 now, and the ring empty. An overflow is told all the same.
        r.w5(0, inject::OVERFLOW_COUNT, 1);
        r.w5(0, inject::PUT_WRONG, what << inject::PUT_WRONG_SHIFT | 1);
        assert_eq!(r.r0(0, bar0::FAULT_STATUS) >> 8 & 1, 0, "goes by the truth");
        r.replay(0, 1);
        r.run(1_000_000);
        let behind = if what == 2 { 0 } else { says | what / 3 };
        assert_eq!(r.r0(0, put), behind | 1 << 31, "{what}");
        r.w0(0, put - 4, 1 | 1 << 31);
        r.w0(0, put - 4, 1 | 1 << 31);
        ends_well(&mut r);
    }
}

#[test]
fn a_storm_of_messages() {
    let mut r = rig(64);
    r.w5(0, inject::INTR_STORM, 2 << 28 | 1);
    r.run(1_000_000);
    let n = r.h.take_messages().len();
    assert!(n > 400, "{n}");
    assert_eq!(r.r0(0, bar0::TOP), 0, "nothing is pending");
    // Another one takes its place; 0 ends it.
    r.w5(0, inject::INTR_STORM, 1 << 28 | 100_000);
    r.run(1_000_000);
    let got = r.h.take_messages();
    assert_eq!(got, [(0, 1); 10]);
    r.w5(0, inject::INTR_STORM, 0);
    assert!(r.m.next_deadline().is_none());
}
