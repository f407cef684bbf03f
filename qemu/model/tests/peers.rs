// SPDX-License-Identifier: GPL-2.0
//! Goal (d): peer memory, and the time that links take.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::precedence
)]

mod common;
use common::*;
use huvm_hw::ext::{inject, stats::Counter, topology, workload as w};
use huvm_model::config::{LinkKind, Profile};

const MIB2: u32 = 2 << 20;

/// Two GPUs; peer id 3 of GPU 0 is GPU 1, peer id 5 of GPU 1 is GPU 0. Channels on runlists 0 and 1.
fn rig_with(profile: Profile) -> Rig {
    let mut r = Rig::with(vec![quiet(), quiet()], profile);
    r.channel(0, 0);
    second_channel(&mut r);
    r.rings(0, 32);
    r.w5(0, topology::PEER_MAP0 + 4 * 3, 1 << 31 | 1);
    r.w5(1, topology::PEER_MAP0 + 4 * 5, 1 << 31);
    r.run(100_000);
    r
}

fn rig() -> Rig {
    rig_with(Profile::default())
}

fn second_channel(r: &mut Rig) {
    let inst2 = INST + 0x4000;
    let image = r.get_vram(0, INST, 4096);
    r.vram(0, inst2, &image);
    r.channel_at(
        0,
        1,
        2,
        inst2,
        USERD + 0x200,
        SYS_VA + 0x2_8000,
        RUNLIST + 0x1000,
    );
}

/// Submits on the second channel.
fn submit2(r: &mut Rig, words: &[u32]) {
    r.submit_on(0, 1, 2, USERD + 0x200, 0x2_8000, words);
}

fn phys(src: u32, dst: u32, a: u64, b: u64, len: u32, launch: u32) -> Vec<u32> {
    let mut p = inc(0x260, &[src, dst]);
    p.extend(copy(a, b, len, launch | PHYS));
    p
}

const LOCAL: u32 = 0;
const HOST: u32 = 1;
/// PEERMEM with peer id 3.
const PEER3: u32 = 3 | 3 << 6;

/// Time until the semaphore has this value.
fn until(r: &mut Rig, at: u64, v: u32) -> u64 {
    let t0 = r.h.now;
    assert!(
        r.run_until(SEC, |r| r.h.sys_u32(at) == v),
        "semaphore never came"
    );
    r.h.now - t0
}

#[test]
fn copies_to_and_from_a_peer() {
    let mut r = rig();
    r.vram(0, 0x200_0000, b"there");
    r.map2m(0, 0x8000_0000, pte_peer(3, 0x400_0000));
    // Physical out, virtual back.
    let mut p = phys(LOCAL, PEER3, 0x200_0000, 0x400_0010, 5, NON_PIPELINED);
    p.extend(copy(0x8000_0010, SYS_VA + 0x18_0000, 5, NON_PIPELINED));
    p.extend(ce_release(SEM_VA, 1, false));
    r.submit(&p);
    until(&mut r, SEM, 1);
    assert_eq!(r.get_vram(1, 0x400_0010, 5), b"there");
    assert_eq!(r.get_sys(0x18_0000, 5), b"there");
    assert_eq!(
        (
            r.stat(0, Counter::BytesToPeers),
            r.stat(1, Counter::BytesFromPeers)
        ),
        (5, 5)
    );
    assert_eq!(
        (
            r.stat(1, Counter::BytesToPeers),
            r.stat(0, Counter::BytesFromPeers)
        ),
        (5, 5)
    );
}

#[test]
fn workload_works_in_a_peers_memory() {
    let mut r = rig();
    r.map2m(0, 0x8000_0000, pte_peer(3, 0x400_0000));
    let i = Ins {
        count: 1 << 18,
        steps: 1,
        imm0: 11,
        imm1: 1,
        ..Ins::default()
    };
    r.launch(
        0,
        0,
        1,
        8,
        &[Ins {
            op: 1,
            dst: 0x8000_0000,
            ..i
        }],
    );
    r.run(SEC);
    assert_eq!(r.slot(0, 0, w::STATUS), w::STATUS_DONE);
    assert_eq!(r.get_vram64(1, 0x400_0000 + 8 * 1000), 1011);
    let t = u64::from(r.slot(0, 0, w::END_NS_LO) - r.slot(0, 0, w::START_NS_LO));
    // 2 MiB at 40.1 GB/s.
    assert!((52_000..54_000).contains(&t), "{t}");
    assert_eq!(r.stat(0, Counter::WorkBytesPeer), 2 << 20);
}

#[test]
fn semaphore_in_a_peers_memory_wakes_the_peer() {
    let mut r = rig();
    // GPU 1 has its own channel whose address space lives in its VRAM.
    r.instance(1, true);
    r.map2m(1, SYS_VA, pte_sys(0));
    r.map2m(1, 0x8000_0000, pte_vid(0x400_0000));
    r.channel_at(1, 0, 1, INST, USERD + 0x400, SYS_VA + 0x3_8000, RUNLIST);
    r.run(100_000);
    let mut p = sem(0x8000_0000, 7, 0);
    p.extend(sem(SEM_VA + 32, 1, 1));
    r.submit_on(1, 0, 1, USERD + 0x400, 0x3_8000, &p);
    r.run(10_000_000);
    assert_eq!(r.h.sys_u32(SEM + 32), 0);
    r.map2m(0, 0x8000_0000, pte_peer(3, 0x400_0000));
    r.submit(&sem(0x8000_0000, 7, 1));
    let t = until(&mut r, SEM + 32, 1);
    assert!(t <= 1_000, "{t}");
}

#[test]
fn bandwidth_and_latency_of_the_paper() {
    let mut r = rig();
    // The fixed costs besides the link: doorbell 1 us, launch 333 ns.
    let mut go = |src, dst| {
        let mut p = phys(src, dst, 0x400_0000, 0x500_0000, MIB2, NON_PIPELINED);
        p.extend(ce_release(SEM_VA, 1, false));
        r.sys32(SEM, 0);
        r.submit(&p);
        until(&mut r, SEM, 1) - 1_333
    };
    let h2d = go(HOST, LOCAL);
    let peer = go(LOCAL, PEER3);
    assert!(h2d.abs_diff(170_500 + 16_700) < 100, "{h2d}");
    assert!(peer.abs_diff(52_298 + 5_100) < 100, "{peer}");
}

/// Time that 256 launches of 4 KiB from the host take, latency of the last included.
fn small_copies(profile: Profile, first: u32, others: u32) -> u64 {
    let mut r = rig_with(profile);
    let mut p = Vec::new();
    for i in 0..256_u64 {
        let at = i * 4096;
        let launch = if i == 0 { first } else { others };
        p.extend(phys(
            HOST,
            LOCAL,
            0x1000_0000 + at,
            0x200_0000 + at,
            4096,
            launch,
        ));
    }
    p.extend(ce_release(SEM_VA, 1, false));
    r.sys32(SEM, 0);
    r.submit(&p);
    until(&mut r, SEM, 1) - 1_000
}

#[test]
fn pipelined_launches_hide_what_a_launch_costs() {
    let wire = 4096 * 1000 / 12_300;
    let slow = Profile {
        launch_ns: 700,
        ..Profile::default()
    };
    // As fast as the link, or as launches follow each other, whichever is slower; only the first one's cost is seen.
    let t = small_copies(Profile::default(), NON_PIPELINED, PIPELINED);
    assert!(t.abs_diff(333 + 256 * 334 + 16_700) < 400, "{t}");
    let t = small_copies(slow.clone(), NON_PIPELINED, PIPELINED);
    assert!(t.abs_diff(256 * 700 + 16_700) < 1_100, "{t}");
    // One after the other: each pays all of it.
    let t = small_copies(slow, NON_PIPELINED, NON_PIPELINED);
    assert!(t >= 256 * (700 + wire), "{t}");
}

#[test]
fn both_directions_of_the_host_link_overlap() {
    let mut r = rig();
    let one = |r: &mut Rig| {
        let mut p = phys(
            HOST,
            LOCAL,
            0x1000_0000,
            0x200_0000,
            8 * MIB2,
            NON_PIPELINED,
        );
        p.extend(ce_release(SEM_VA, 1, false));
        r.sys32(SEM, 0);
        r.submit(&p);
    };
    let back = |r: &mut Rig, src, dst| {
        let mut p = phys(src, dst, 0x400_0000, 0x1200_0000, 8 * MIB2, NON_PIPELINED);
        p.extend(ce_release(SEM_VA + 16, 1, false));
        r.sys32(SEM + 16, 0);
        submit2(r, &p);
    };
    one(&mut r);
    let alone = until(&mut r, SEM, 1);
    one(&mut r);
    back(&mut r, LOCAL, HOST);
    let t0 = r.h.now;
    until(&mut r, SEM, 1);
    until(&mut r, SEM + 16, 1);
    let both = r.h.now - t0;
    assert!(
        both < alone + alone / 20,
        "alone {alone}, both directions {both}"
    );
    // The same direction twice takes twice as long.
    one(&mut r);
    let mut p = phys(
        HOST,
        LOCAL,
        0x1200_0000,
        0x400_0000,
        8 * MIB2,
        NON_PIPELINED,
    );
    p.extend(ce_release(SEM_VA + 16, 2, false));
    submit2(&mut r, &p);
    let t0 = r.h.now;
    until(&mut r, SEM, 1);
    until(&mut r, SEM + 16, 2);
    let same = r.h.now - t0;
    assert!(
        same > alone * 19 / 10,
        "alone {alone}, same direction {same}"
    );
}

#[test]
fn peer_traffic_leaves_the_host_link_alone_unless_it_is_pcie() {
    let time = |kind: LinkKind| {
        let links = Profile::all_to_all(2, kind, 12_300, 5_100);
        let mut r = rig_with(Profile {
            links,
            ..Profile::default()
        });
        let mut p = phys(
            LOCAL,
            HOST,
            0x200_0000,
            0x1000_0000,
            8 * MIB2,
            NON_PIPELINED,
        );
        p.extend(ce_release(SEM_VA, 1, false));
        r.submit(&p);
        submit2(
            &mut r,
            &phys(
                LOCAL,
                PEER3,
                0x200_0000,
                0x400_0000,
                8 * MIB2,
                NON_PIPELINED,
            ),
        );
        until(&mut r, SEM, 1)
    };
    let (nvlink, pcie) = (time(LinkKind::Nvlink), time(LinkKind::Pcie));
    assert!(pcie > nvlink * 18 / 10, "nvlink {nvlink}, pcie {pcie}");
}

#[test]
fn pipelined_launches_overlap_the_latency() {
    let mut r = rig();
    let mut go = |launch| {
        let mut p = Vec::new();
        for i in 0..8 {
            p.extend(phys(
                HOST,
                LOCAL,
                0x1000_0000,
                0x200_0000 + (i << 16),
                4096,
                launch,
            ));
        }
        p.extend(ce_release(SEM_VA, 1, false));
        r.sys32(SEM, 0);
        r.submit(&p);
        until(&mut r, SEM, 1)
    };
    let (apart, together) = (go(NON_PIPELINED), go(PIPELINED));
    assert!(apart > 8 * 16_700, "{apart}");
    assert!(together < 16_700 + 8 * 1_000 + 2_000, "{together}");
}

#[test]
fn a_pipelined_launch_on_memory_of_an_earlier_one_is_an_error() {
    let at = |n: u64| 0x200_0000 + (n << 16);
    let (host, other) = (0x1000_0000, 0x1100_0000);
    for (what, first, second, errors) in [
        ("apart", (host, at(0)), (other, at(1)), 0),
        ("read twice", (host, at(0)), (host, at(1)), 0),
        ("side by side", (host, at(0)), (other, at(0) + 4096), 0),
        ("written twice", (host, at(0)), (other, at(0) + 4095), 1),
    ] {
        let mut r = rig();
        let mut p = phys(HOST, LOCAL, first.0, first.1, 4096, NON_PIPELINED);
        p.extend(phys(HOST, LOCAL, second.0, second.1, 4096, PIPELINED));
        p.extend(ce_release(SEM_VA, 1, false));
        r.submit(&p);
        until(&mut r, SEM, 1);
        assert_eq!(r.h.errors.len(), errors, "{what}");
    }
    for (launch, errors) in [(PIPELINED, 2), (NON_PIPELINED, 0)] {
        let mut r = rig();
        let mut p = phys(HOST, LOCAL, host, at(0), 4096, NON_PIPELINED);
        // What was just written is read, then what is read is written.
        p.extend(phys(LOCAL, HOST, at(0), other, 4096, launch));
        p.extend(phys(HOST, LOCAL, host, at(0) + 8, 8, launch));
        p.extend(ce_release(SEM_VA, 1, false));
        r.submit(&p);
        until(&mut r, SEM, 1);
        assert_eq!(r.h.errors.len(), errors, "{launch}");
    }
}

#[test]
fn two_channels_share_an_engine_in_turn() {
    let mut r = rig();
    // A second channel on runlist 0: both in one list.
    let inst3 = INST + 0x8000;
    let image = r.get_vram(0, INST, 4096);
    r.vram(0, inst3, &image);
    let va = SYS_VA + 0x3_8000;
    r.vram32(0, inst3 + 0x48, va as u32);
    r.vram32(0, RUNLIST + 4, 2);
    for (i, v) in [2 << 6 | (USERD as u32 + 0x400), 0, 9 | inst3 as u32, 0]
        .into_iter()
        .enumerate()
    {
        r.vram32(0, RUNLIST + 32 + 4 * i as u64, v);
    }
    let b = r.runlist(0, 0);
    r.w0(0, b + 0x88, 3);
    let ram = r.chram(0, 0, 9);
    r.w0(0, ram, 2);
    let mut long = phys(
        HOST,
        LOCAL,
        0x1000_0000,
        0x200_0000,
        20 * MIB2,
        NON_PIPELINED,
    );
    long.extend(ce_release(SEM_VA, 1, false));
    r.submit(&long);
    r.run(10_000);
    let mut short = phys(HOST, LOCAL, 0x1000_0000, 0x600_0000, 4096, NON_PIPELINED);
    short.extend(ce_release(SEM_VA + 16, 1, false));
    r.submit_on(0, 0, 9, USERD + 0x400, 0x3_8000, &short);
    let t = until(&mut r, SEM + 16, 1);
    assert!(
        t < 400_000,
        "the short copy waits for a piece, not for 40 MiB: {t}"
    );
    assert_eq!(r.h.sys_u32(SEM), 0);
    until(&mut r, SEM, 1);
}

#[test]
fn a_link_that_is_down() {
    let mut r = rig();
    r.map2m(0, 0x8000_0000, pte_peer(3, 0x400_0000));
    r.w5(0, inject::LINK_DOWN, 1);
    assert_eq!(r.r5(0, topology::LINK0 + topology::LINK_STATE), 0);
    let mut p = copy(SYS_VA, 0x8000_0000, 64, NON_PIPELINED);
    p.extend(ce_release(SEM_VA, 1, false));
    r.submit(&p);
    r.run(SEC);
    let f = r.drain(0, 0, 32).remove(0);
    assert_eq!(
        (f.va, f.kind, f.access),
        (0x8000_0000, 0xa, 1),
        "UNSUPPORTED_APERTURE"
    );
    r.launch(
        0,
        0,
        1,
        8,
        &[Ins {
            op: 2,
            count: 1,
            steps: 1,
            a: 0x8000_0000,
            ..Ins::default()
        }],
    );
    r.run(SEC);
    assert_eq!(
        (
            r.slot(0, 0, w::STATUS),
            r.slot(0, 0, w::ERROR),
            r.slot(0, 0, w::ERR_INFO)
        ),
        (3, 2, 0xa)
    );
    // Up again: the copy restarts.
    r.w5(0, inject::LINK_DOWN, 0);
    let ram = r.chram(0, 0, 1);
    r.w0(0, ram, 0x21);
    r.doorbell(0, 0, 1);
    until(&mut r, SEM, 1);
}

/// What a neighbour copies from a GPU that fell off the bus are ones, and what it copies there is nowhere, without a word.
#[test]
fn a_peer_that_is_gone() {
    let mut r = rig();
    r.vram(0, 0x200_0000, b"there");
    r.vram(1, 0x400_0000, b"here!");
    r.w5(1, inject::GONE, 0xdead);
    let mut p = phys(LOCAL, PEER3, 0x200_0000, 0x500_0000, 5, NON_PIPELINED);
    p.extend(phys(PEER3, LOCAL, 0x400_0000, 0x210_0000, 5, NON_PIPELINED));
    p.extend(ce_release(SEM_VA, 1, false));
    r.submit(&p);
    until(&mut r, SEM, 1);
    assert_eq!(r.get_vram(0, 0x210_0000, 5), [0xff; 5]);
    assert_eq!(r.get_vram(1, 0x500_0000, 5), [0; 5]);
}

#[test]
fn a_peer_that_is_unplugged() {
    let mut r = rig();
    r.map2m(0, 0x8000_0000, pte_peer(3, 0x400_0000));
    r.submit(&copy(SYS_VA, 0x8000_0000, MIB2, NON_PIPELINED));
    r.run(5_000);
    // In flight: the bytes have nowhere to go, the channel faults, nothing else happens.
    r.m.remove_gpu(1);
    r.run(SEC);
    assert_eq!(r.drain(0, 0, 32).len(), 1);
    assert_eq!(r.r5(0, topology::PEER_MAP0 + 12), 0);
    assert_eq!(r.h.out_of_bounds, 0);
    assert_eq!(r.m.mmio_read(1, 0, 0, 4, &mut r.h), 0xffff_ffff);
}
