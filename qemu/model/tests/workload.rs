// SPDX-License-Identifier: GPL-2.0
//! The workload engine: every operation on real bytes, and descriptors that break a rule.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::precedence
)]

mod common;
use common::*;
use huvm_hw::ext::{stats, stats::Counter, workload as w};

/// 2 MiB of VRAM at 32 MiB, and the same again.
const A: u64 = 0x10_0000_0000;
const B: u64 = 0x10_0020_0000;
const C: u64 = 0x10_0040_0000;

fn rig() -> Rig {
    let mut r = Rig::new(1);
    r.instance(0, true);
    r.rings(0, 64);
    r.interrupts(0);
    for (va, at) in [(A, 0x200_0000), (B, 0x220_0000), (C, 0x240_0000)] {
        r.map2m(0, va, pte_vid(at));
    }
    r
}

fn go(r: &mut Rig, blocks: u32, elem: u32, ins: &[Ins]) -> u32 {
    r.launch(0, 0, blocks, elem, ins);
    r.run(SEC);
    r.slot(0, 0, w::STATUS)
}

fn get(r: &Rig, at: u64, n: usize, elem: usize) -> Vec<u64> {
    r.get_vram(0, at, n * elem)
        .chunks(elem)
        .map(|b| b.iter().rev().fold(0, |v, &x| v << 8 | u64::from(x)))
        .collect()
}

#[test]
fn arithmetic() {
    let mut r = rig();
    let base = Ins {
        count: 1000,
        steps: 3,
        bs: 0x8000,
        ss: 4000,
        ..Ins::default()
    };
    let ok = go(
        &mut r,
        4,
        4,
        &[
            Ins {
                op: 1,
                dst: A,
                imm0: 0xffff_fff0,
                imm1: 3,
                ..base
            },
            Ins {
                op: 1,
                dst: B,
                imm0: 7,
                imm1: 1,
                ..base
            },
            Ins {
                op: 4,
                dst: C,
                a: A,
                b: B,
                ..base
            },
            Ins {
                op: 5,
                dst: C,
                a: C,
                b: B,
                imm0: 2,
                ..base
            },
            Ins {
                op: 6,
                dst: C,
                a: C,
                imm0: 5,
                imm1: 1,
                ..base
            },
            Ins {
                op: 3,
                dst: B,
                a: C,
                ..base
            },
        ],
    );
    assert_eq!(ok, w::STATUS_DONE);
    for k in 0..4u64 {
        let got = get(&r, 0x220_0000 + k * 0x8000, 3000, 4);
        for (e, &v) in got.iter().enumerate() {
            // All arithmetic is modulo 2^32.
            let i = k * 0x2000 + e as u64;
            let a = (0xffff_fff0 + 3 * i) as u32;
            let b = (7 + i) as u32;
            let want = a
                .wrapping_add(b)
                .wrapping_add(b.wrapping_mul(2))
                .wrapping_mul(5)
                .wrapping_add(1);
            assert_eq!(v, u64::from(want), "block {k} element {e}");
        }
    }
    let bytes = u64::from(r.slot(0, 0, w::BYTES_LO));
    assert_eq!(bytes, 4 * 3000 * 4 * (1 + 1 + 3 + 3 + 2 + 2));
    assert_eq!(r.stat(0, Counter::WorkBytesLocal), bytes);
    // What a driver reads beside others that read counters.
    assert_eq!(r.r5(0, stats::WORK_LOCAL_KIB), (bytes >> 10) as u32);
}

#[test]
fn check_counts_and_names_the_first() {
    let mut r = rig();
    let base = Ins {
        count: 20_000,
        steps: 1,
        imm0: 9,
        imm1: 2,
        ..Ins::default()
    };
    assert_eq!(
        go(
            &mut r,
            1,
            8,
            &[Ins {
                op: 1,
                dst: A,
                ..base
            }]
        ),
        w::STATUS_DONE
    );
    r.vram(0, 0x200_0000 + 8 * 12_345, &[0xff; 24]);
    assert_eq!(
        go(
            &mut r,
            1,
            8,
            &[Ins {
                op: 2,
                a: A,
                ..base
            }]
        ),
        w::STATUS_DONE
    );
    assert_eq!(r.slot(0, 0, w::MISMATCHES_LO), 3);
    let va = u64::from(r.slot(0, 0, w::MISMATCH_VA_LO))
        | u64::from(r.slot(0, 0, w::MISMATCH_VA_HI)) << 32;
    assert_eq!(va, A + 8 * 12_345);
}

#[test]
fn strided_fill_touches_its_elements_only() {
    let mut r = rig();
    let i = Ins {
        op: 1,
        count: 5,
        steps: 1,
        dst: A,
        es: 4096,
        imm0: 1,
        ..Ins::default()
    };
    assert_eq!(go(&mut r, 1, 4, &[i]), w::STATUS_DONE);
    for page in 0..6u64 {
        let want = u32::from(page < 5);
        assert_eq!(
            get(&r, 0x200_0000 + 4096 * page, 2, 4),
            [u64::from(want), 0]
        );
    }
}

#[test]
fn reduce_sums_a_block() {
    let mut r = rig();
    let base = Ins {
        count: 100,
        steps: 10,
        bs: 8000,
        ss: 800,
        ..Ins::default()
    };
    let ok = go(
        &mut r,
        3,
        8,
        &[
            Ins {
                op: 1,
                dst: A,
                imm0: 0,
                imm1: 1,
                ..base
            },
            Ins {
                op: 7,
                dst: B,
                a: A,
                ..base
            },
        ],
    );
    assert_eq!(ok, w::STATUS_DONE);
    let want: Vec<u64> = (0..3u64)
        .map(|k| (k * 1000..(k + 1) * 1000).sum())
        .collect();
    assert_eq!(get(&r, 0x220_0000, 4, 8), [want[0], want[1], want[2], 0]);
}

#[test]
fn gather_and_scatter() {
    let mut r = rig();
    let n = 300u64;
    for i in 0..n {
        r.vram(0, 0x200_0000 + 4 * i, &(1000 + i as u32).to_le_bytes());
        // A permutation.
        r.vram(0, 0x220_0000 + 4 * i, &((i * 7 % n) as u32).to_le_bytes());
    }
    let base = Ins {
        count: n,
        steps: 1,
        ..Ins::default()
    };
    let ok = go(
        &mut r,
        1,
        4,
        &[
            Ins {
                op: 8,
                dst: C,
                a: A,
                idx: B,
                ..base
            },
            Ins {
                op: 9,
                dst: C + 0x10_0000,
                a: C,
                idx: B,
                ..base
            },
        ],
    );
    assert_eq!(ok, w::STATUS_DONE);
    let gathered = get(&r, 0x240_0000, n as usize, 4);
    assert!((0..n).all(|i| gathered[i as usize] == 1000 + i * 7 % n));
    let back = get(&r, 0x250_0000, n as usize, 4);
    assert!((0..n).all(|i| back[i as usize] == 1000 + i));
}

#[test]
fn gather_faults_on_the_pages_that_its_index_names() {
    let mut r = rig();
    for (i, page) in [3u64, 900, 3, 17].into_iter().enumerate() {
        r.vram(0, 0x220_0000 + 8 * i as u64, &(page * 512).to_le_bytes());
    }
    let far = 0x20_0000_0000u64;
    r.launch(
        0,
        0,
        1,
        8,
        &[Ins {
            op: 8,
            count: 4,
            steps: 1,
            dst: C,
            a: far,
            idx: B,
            ..Ins::default()
        }],
    );
    r.run(SEC);
    let mut vas: Vec<u64> = r.drain(0, 1, 64).iter().map(|p| p.va).collect();
    vas.sort();
    assert_eq!(
        vas,
        [far + 3 * 4096, far + 17 * 4096, far + 900 * 4096],
        "one packet a page"
    );
    for va in vas {
        r.map4k(0, va, pte_vid(0x300_0000));
    }
    r.replay(0, 1);
    r.run(SEC);
    assert_eq!(r.slot(0, 0, w::STATUS), w::STATUS_DONE);
    // An index past the address space is fatal.
    r.vram(0, 0x220_0000, &[0xff; 8]);
    r.launch(
        0,
        0,
        1,
        8,
        &[Ins {
            op: 8,
            count: 1,
            steps: 1,
            dst: C,
            a: far,
            idx: B,
            ..Ins::default()
        }],
    );
    r.run(SEC);
    assert_eq!((r.slot(0, 0, w::STATUS), r.slot(0, 0, w::ERR_INFO)), (3, 3));
}

#[test]
fn trace_replays_reads_and_writes() {
    let mut r = rig();
    let pages = [A, A + 4096, B, A + 4096, A + 4096];
    for (i, (p, wr)) in pages.iter().zip([0u64, 1, 1, 1, 0]).enumerate() {
        r.vram(0, 0x240_0000 + 8 * i as u64, &(p | wr).to_le_bytes());
    }
    let i = Ins {
        op: 11,
        count: 5,
        steps: 1,
        a: C,
        ..Ins::default()
    };
    assert_eq!(go(&mut r, 1, 8, &[i]), w::STATUS_DONE);
    assert_eq!(r.get_vram64(0, 0x200_0000), 0);
    assert_eq!(r.get_vram64(0, 0x200_1000), 2);
    assert_eq!(r.get_vram64(0, 0x220_0000), 1);
}

/// Catches records of a trace that wait for what else is on the host's link, or that count as bytes of the job.
#[test]
fn records_of_a_trace_are_no_traffic() {
    let mut r = rig();
    let (list, n) = (0x5_0000u64, 256u64);
    r.map4k(0, C + (2 << 20), pte_sys(list));
    for i in 0..n {
        r.sys64(list + 8 * i, A + i % 512 * 4096);
    }
    let i = Ins {
        op: 11,
        count: n,
        steps: 1,
        a: C + (2 << 20),
        ..Ins::default()
    };
    assert_eq!(go(&mut r, 1, 8, &[i]), w::STATUS_DONE);
    assert_eq!(r.stat(0, Counter::WorkBytesHost), 0);
    assert_eq!(r.stat(0, Counter::BusyHostToDeviceNs), 0);
    assert_eq!(r.stat(0, Counter::WorkBytesLocal), 8 * n);
    assert_eq!(u64::from(r.slot(0, 0, w::BYTES_LO)), 8 * n);
    // What is read as data from there is carried.
    let i = Ins { op: 7, dst: B, ..i };
    assert_eq!(go(&mut r, 1, 8, &[i]), w::STATUS_DONE);
    assert_eq!(r.stat(0, Counter::WorkBytesHost), 8 * n);
    assert!(r.stat(0, Counter::BusyHostToDeviceNs) > 0);
}

/// All blocks, steps and iterations add to the same words: none is lost, in either size, at the bytes of a read and a write.
#[test]
fn atomic_additions_add_up() {
    for (elem, start, add) in [(4, 0xffff_fff0u64, 3u64), (8, u64::MAX - 5, 1 << 33)] {
        let mut r = rig();
        for k in 0..1000u64 {
            r.vram(
                0,
                0x200_0000 + k * elem,
                &(start + k % 2).to_le_bytes()[..elem as usize],
            );
        }
        let i = Ins {
            op: 12,
            count: 1000,
            steps: 3,
            dst: A,
            imm0: add,
            ..Ins::default()
        };
        assert_eq!(go(&mut r, 4, elem as u32, &[i, i]), w::STATUS_DONE);
        let mask = u64::MAX >> (64 - 8 * elem);
        for (k, v) in get(&r, 0x200_0000, 1000, elem as usize)
            .into_iter()
            .enumerate()
        {
            let want = (start + k as u64 % 2).wrapping_add(24 * add) & mask;
            assert_eq!(v, want, "element {k} of {elem} bytes");
        }
        assert_eq!(get(&r, 0x200_0000 + 1000 * elem, 1, elem as usize), [0]);
        assert_eq!(u64::from(r.slot(0, 0, w::BYTES_LO)), 24 * 1000 * elem * 2);
    }
}

/// An address that is no multiple of the size of an element fails where it is, also inside of a piece.
#[test]
fn unaligned_addresses_fail() {
    let mut r = rig();
    let i = Ins {
        op: 1,
        count: 6,
        steps: 1,
        dst: A + 4096 - 8,
        imm0: 1,
        ..Ins::default()
    };
    for (op, off, es, elem, at) in [
        (1, 1, 0, 4, 4089),
        (1, 4, 0, 8, 4092),
        (12, 4, 0, 8, 4092),
        (1, 0, 12, 8, 4100),
        (12, 0, 6, 4, 4094),
    ] {
        let dst = i.dst + off;
        let bad = Ins { op, dst, es, ..i };
        assert_eq!(
            go(&mut r, 1, elem, &[bad]),
            w::STATUS_FAILED,
            "op {op} + {off}"
        );
        assert_eq!(r.slot(0, 0, w::ERROR), w::ERROR_FAULT);
        assert_eq!(r.slot(0, 0, w::ERR_INFO) & 0x1f, 3, "VA_LIMIT_VIOLATION");
        assert_eq!(
            u64::from(r.slot(0, 0, w::ERR_VA_LO)),
            (A + at) & 0xffff_ffff
        );
    }
    // Four bytes at 4 mod 8, over the edge of a page, are aligned.
    let good = Ins {
        dst: i.dst + 4,
        ..i
    };
    assert_eq!(go(&mut r, 1, 4, &[good]), w::STATUS_DONE);
    assert_eq!(get(&r, 0x200_0ffc, 7, 4), [1, 1, 1, 1, 1, 1, 0]);
}

#[test]
fn delay_takes_its_time() {
    let mut r = rig();
    let i = Ins {
        op: 10,
        count: 1,
        steps: 10,
        imm0: 1_000,
        ..Ins::default()
    };
    assert_eq!(go(&mut r, 1, 4, &[i]), w::STATUS_DONE);
    let t = |r: &mut Rig, lo| u64::from(r.slot(0, 0, lo)) | u64::from(r.slot(0, 0, lo + 4)) << 32;
    assert_eq!(t(&mut r, w::END_NS_LO) - t(&mut r, w::START_NS_LO), 10_000);
}

#[test]
fn bad_descriptors() {
    let mut r = rig();
    let good = Ins {
        op: 1,
        count: 1,
        steps: 1,
        dst: A,
        ..Ins::default()
    };
    let bad = [
        Ins { op: 0, ..good },
        Ins { op: 13, ..good },
        Ins { count: 0, ..good },
        Ins {
            steps: (1 << 32) + 1,
            ..good
        },
        Ins {
            dst: u64::MAX - 2,
            ..good
        },
        Ins {
            bs: u64::MAX,
            ..good
        },
        Ins { op: 11, ..good },
    ];
    for (n, i) in bad.into_iter().enumerate() {
        assert_eq!(go(&mut r, 2, 4, &[i]), w::STATUS_FAILED, "{n}");
        assert_eq!(r.slot(0, 0, w::ERROR), w::ERROR_DESCRIPTOR, "{n}");
        assert_eq!(r.r5(0, w::DONE_LO), 1);
        r.w5(0, w::DONE_LO, 1);
    }
    for (at, v) in [
        (0, 1u32),
        (4, 2),
        (8, 0),
        (12, 17),
        (16, 0),
        (20, 2),
        (28, 1),
        (40, 1),
    ] {
        r.launch(0, 1, 1, 4, &[good]);
        r.run(SEC);
        r.sys32(DESC + 0x1000 + at, v);
        r.w5(0, slot_at(1) + 0x14, 1);
        r.run(SEC);
        assert_eq!(r.slot(0, 1, w::ERROR), w::ERROR_DESCRIPTOR, "field {at}");
    }
    // Elsewhere than memory, and no instance block.
    r.w5(0, slot_at(1) + 4, 0xff);
    r.w5(0, slot_at(1) + 0x14, 1);
    assert_eq!(r.slot(0, 1, w::ERROR), w::ERROR_DMA);
    r.launch(0, 2, 1, 4, &[good]);
    r.run(SEC);
    r.w5(0, slot_at(2) + 8, 0x700_0000);
    r.w5(0, slot_at(2) + 0x14, 1);
    assert_eq!(r.slot(0, 2, w::ERROR), w::ERROR_INSTANCE);
}
