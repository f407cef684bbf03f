// SPDX-License-Identifier: GPL-2.0
//! Goal (a): ids, VRAM size, test interrupt, all windows, PTOP, timer, BAR5 identity.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::precedence
)]

mod common;
use common::*;
use huvm_hw::ext;

#[test]
fn ids_and_memory_size() {
    let mut r = Rig::new(1);
    assert_eq!(r.r0(0, 0xa00) >> 20 & 0x1ff, 0x170, "GA100");
    assert_eq!(r.r0(0, 0) >> 24 & 0x1f, 0x17, "Ampere");
    let range = r.r0(0, 0x10_0ce0);
    assert_eq!((range >> 4 & 0x3f) << (range & 0xf), 128);
    assert_eq!(r.r0(0, 0xb6_6880), 192);
}

#[test]
fn ptop_lists_the_copy_engines() {
    let mut r = Rig::new(1);
    let cfg = r.r0(0, 0x2_24fc);
    assert_eq!((cfg & 0xf, cfg >> 4 & 0xfff, cfg >> 16 & 0xf), (2, 6, 3));
    for i in 0..6 {
        let rows: Vec<u32> = (0..3).map(|j| r.r0(0, 0x2_2800 + 12 * i + 4 * j)).collect();
        assert_eq!(rows[0] >> 24 & 0x7f, 0x13, "LCE");
        assert_eq!((rows[0] & 0x7ff, rows[0] >> 16 & 0xff), (15 + i, i));
        assert_eq!((rows[0] >> 31, rows[1] >> 31, rows[2] >> 31), (1, 1, 0));
        let b = rows[2] & 0x03ff_fc00;
        assert_eq!(r.r0(0, b + 4) & 0xf, 11);
        assert_eq!(r.r0(0, b + 0x10) >> 31, 1);
    }
    assert_eq!(r.r0(0, 0x2_2800 + 12 * 6), 0);
}

#[test]
fn test_interrupt_arrives_on_its_message() {
    let mut r = Rig::new(1);
    r.interrupts(0);
    for (vector, message) in [(3, 0), (64, 1), (148, 2), (200, 3)] {
        r.w0(0, 0xb8_1640, vector);
        r.run(10_000);
        assert_eq!(r.h.take_messages(), [(0, message)]);
        assert_eq!(r.r0(0, 0xb8_1000 + 4 * (vector / 32)), 1 << (vector % 32));
        r.w0(0, 0xb8_1000 + 4 * (vector / 32), 1 << (vector % 32));
        r.w0(0, 0xb8_1610, 0xf);
        r.w0(0, 0xb8_1608, 0xf);
        r.run(10_000);
        assert!(r.h.take_messages().is_empty());
    }
}

#[test]
fn vram_by_three_windows() {
    let mut r = Rig::new(1);
    r.m.mmio_write(0, 1, 0x12_3458, 0x1122_3344_5566_7788, 8, &mut r.h);
    assert_eq!(r.m.mmio_read(0, 3, 0x12_3458, 4, &mut r.h), 0x5566_7788);
    r.w0(0, 0x1700, 0x12);
    assert_eq!(r.r0(0, 0x70_345c), 0x1122_3344);
    assert_eq!(r.m.mmio_read(0, 0, 0x70_3458, 1, &mut r.h), 0x88);
    // The window into system memory.
    r.sys32(0x5_0004, 77);
    r.w0(0, 0x1700, 5 | 2 << 24);
    assert_eq!(r.r0(0, 0x70_0004), 77);
}

#[test]
fn virtual_bar_walks_page_tables() {
    let mut r = Rig::new(1);
    r.instance(0, false);
    r.map4k(0, 0x3000, pte_vid(0x70_0000));
    r.vram32(0, 0x70_0010, 99);
    r.w0(0, 0x1704, (INST >> 12) as u32 | 1 << 31);
    assert_eq!(r.h.bar_modes, [(0, 1, true)]);
    assert_eq!(r.m.mmio_read(0, 1, 0x3010, 4, &mut r.h), 99);
    // Unmapped: an info fault of BAR1 (engine 128).
    r.interrupts(0);
    assert_eq!(r.m.mmio_read(0, 1, 0x9000, 4, &mut r.h), 0);
    assert_eq!(r.r0(0, 0xb8_3094) >> 31, 1);
    assert_eq!(r.r0(0, 0xb8_3088) & 0x1ff, 128);
    assert_eq!(r.r0(0, 0xb8_3080), 0x9000);
    r.run(10_000);
    assert_eq!(r.h.take_messages(), [(0, 2)]);
    r.w0(0, 0xb8_3094, 1 << 31);
    assert_eq!(r.r0(0, 0xb8_3094) >> 31, 0);
}

#[test]
fn timer_counts_nanoseconds() {
    let mut r = Rig::new(1);
    r.h.now = 0x1_2345_6789;
    assert_eq!(r.r0(0, 0x9400), 0x2345_6780);
    assert_eq!(r.r0(0, 0x9410), 1);
    assert_eq!(r.r0(0, 0xbb_0084), 1);
    assert_eq!(
        (r.r5(0, ext::time::NOW_LO), r.r5(0, ext::time::NOW_HI)),
        (0x2345_6789, 1)
    );
}

#[test]
fn bar5_tells_who_it_is() {
    let mut r = Rig::new(3);
    for (page, id) in (0u32..7).zip(1u32..) {
        assert_eq!(r.r5(0, page << 16), id << 16 | 1);
    }
    assert_eq!(r.r5(1, ext::ident::GPU_INDEX), 1);
    assert_eq!(r.r5(1, ext::ident::GPU_COUNT), 3);
    assert_eq!(r.r5(1, ext::ident::CE_COUNT), 6);
    assert_eq!(r.r5(1, ext::ident::VRAM_MIB), 128);
    assert_eq!(r.r5(0, ext::ident::CE_CAP0 + 4 * 5), 0xf | 5 << 8);
    assert_eq!(r.r5(0, ext::ident::CE_CAP0 + 4 * 6), 0);
    assert_ne!(
        r.r5(0, ext::ident::UUID0 + 12),
        r.r5(1, ext::ident::UUID0 + 12)
    );
    // Three links, those to GPUs 1 and 2 up, that to the absent GPU 3 not.
    assert_eq!(r.r5(0, ext::topology::LINK_COUNT), 3);
    let state: Vec<u32> = (0..3)
        .map(|i| r.r5(0, ext::topology::LINK0 + 0x20 * i + 0x10))
        .collect();
    assert_eq!(state, [1, 1, 0]);
}

#[test]
fn peer_map_takes_reachable_gpus_only() {
    let mut r = Rig::new(2);
    let at = ext::topology::PEER_MAP0;
    for (value, reads) in [
        (1 << 31 | 1, 1 << 31 | 1),
        (1 << 31, 0),
        (1 << 31 | 3, 0),
        (1, 0),
    ] {
        r.w5(0, at + 8, value);
        assert_eq!(r.r5(0, at + 8), reads, "{value:#x}");
    }
}

#[test]
fn wrong_width_is_a_counted_error() {
    let mut r = Rig::new(1);
    assert_eq!(r.m.mmio_read(0, 5, 0, 2, &mut r.h), 0);
    r.m.mmio_write(0, 0, 0xb8_1609, 0xf, 4, &mut r.h);
    assert_eq!(r.stat(0, ext::stats::Counter::GuestErrors), 2);
    assert_eq!(r.h.errors.len(), 2);
}

#[test]
fn all_ones_now_and_then() {
    let mut r = Rig::new(1);
    let was = (r.r0(0, 0), r.r5(0, 0));
    r.w5(0, ext::inject::READS_ONES, 2);
    assert_eq!((r.r0(0, 0), r.r5(0, 0)), (u32::MAX, u32::MAX));
    assert_eq!((r.r0(0, 0), r.r5(0, 0)), was);
    assert_eq!(r.r5(0, ext::inject::READS_ONES), 0);
    // After those that pass.
    r.w5(0, ext::inject::READS_ONES, 2 << 16 | 1);
    assert_eq!((r.r0(0, 0), r.r5(0, 0)), was);
    assert_eq!((r.r0(0, 0), r.r5(0, 0)), (u32::MAX, was.1));
    r.w5(0, ext::inject::READS_ONES, 2 << 16 | 3);
    assert_eq!(r.r5(0, ext::inject::READS_ONES), 1 << 16 | 3);
    r.w5(0, ext::inject::READS_ONES, 0);
    // Reset, it answers again.
    r.w5(0, ext::inject::READS_ONES, 2);
    r.m.reset(0, &mut r.h);
    assert_eq!((r.r0(0, 0), r.r5(0, 0)), was);
}

#[test]
fn writes_that_do_not_arrive() {
    let (lost, seed) = (ext::inject::WRITES_LOST, ext::inject::SEED);
    let mut r = Rig::new(1);
    r.w5(0, seed, 1);
    r.w5(0, lost, 1 << 16 | 2);
    for (wrote, is) in [(2, 2), (3, 2), (4, 2), (5, 5)] {
        r.w5(0, seed, wrote);
        assert_eq!(r.r5(0, seed), is, "{wrote}");
    }
    // It can be taken back, and a reset does.
    r.w5(0, lost, 2);
    r.w5(0, lost, 0);
    r.w5(0, seed, 6);
    assert_eq!(r.r5(0, seed), 6);
    r.w5(0, lost, 2);
    r.m.reset(0, &mut r.h);
    r.w5(0, seed, 7);
    assert_eq!(r.r5(0, seed), 7);
}

#[test]
fn a_status_that_means_nothing() {
    let status = ext::workload::SLOT0 + ext::workload::STATUS;
    let mut r = Rig::new(1);
    r.w5(0, ext::inject::STATUS_WRONG, 2);
    let seen = [0; 3].map(|_| r.r5(0, status));
    assert_eq!(seen, [7, 7, 0]);
}

#[test]
fn gone_until_reset() {
    let mut r = Rig::new(1);
    r.w5(0, ext::inject::GONE, 0xdead);
    assert_eq!((r.r0(0, 0), r.r5(0, 0)), (u32::MAX, u32::MAX));
    r.m.reset(0, &mut r.h);
    assert_eq!(r.r5(0, 0), 1 << 16 | 1);
}
