// SPDX-License-Identifier: GPL-2.0
//! What is known of patterns that are programs: passes, shares of reads and writes, reuse, order, results.

mod common;

use common::order::{furthest_back, order, shares, typical};
use common::{counts, make, touched, MIB};
use huvm_workloads::shadow::Shadow;
use huvm_workloads::Step;
use std::collections::BTreeSet;

/// Pages of the 80 resident blocks' pieces: how far a sweep is out of order at most.
const FRONT: u32 = 80 * 16 + 16;

#[test]
fn streams_touch_each_page_once_and_in_order() {
    for name in ["stream-triad", "add-vectors"] {
        let w = make(name, 30 * MIB);
        let list = touched(&w, 0);
        let (r, wr) = shares(&list);
        assert_eq!(w.passes, 1);
        assert!(r.abs_diff(2 * wr) < 8, "{r} {wr}");
        for (alloc, want) in [(0, (1, 0)), (1, (1, 0)), (2, (0, 1))] {
            let n = counts(&w, alloc, &list);
            let off = n.iter().filter(|c| **c != want).count();
            assert!(off <= 1, "{name}: {off}");
            assert!(furthest_back(&order(alloc, &list)) <= FRONT);
        }
        // All three advance together.
        let half = &list[..list.len() / 2];
        let (x, z) = (order(0, half).len(), order(2, half).len());
        assert!(x.abs_diff(z) <= FRONT as usize, "{x} {z}");
    }
}

#[test]
fn triad_computes_a_triad() {
    let w = make("stream-triad", 4 * MIB);
    let mut m = Shadow::new(&w.allocs).unwrap();
    w.steps().for_each(|s| m.step(&s));
    let n = m.words(0).len() - 512;
    for i in 0..n {
        let want = m.words(0)[i].wrapping_add(3 * m.words(1)[i]);
        assert_eq!(m.words(2)[i], want, "{i}");
    }
}

#[test]
fn a_convolution_is_one_of_its_image() {
    let w = make("2dconv", 4 * MIB);
    let n = 512;
    let mut m = Shadow::new(&w.allocs).unwrap();
    w.steps().for_each(|s| m.step(&s));
    let (a, b) = (m.words(0), m.words(1));
    for i in n..(n - 1) * n {
        let want = a[i - n] + 2 * a[i] + a[i + n];
        assert_eq!(b[i], want, "{i}");
    }
    assert!(b[..n].iter().all(|v| *v == 0));
    assert!(b[(n - 1) * n..].iter().all(|v| *v == 0));
}

#[test]
fn a_3d_stencil_is_a_cycle_of_two_arrays() {
    let w = make("3dconv", 16 * MIB);
    assert_eq!(w.passes, 10);
    // The three taps are three sweeps, a plane apart.
    for (pass, src, dst) in [(0, 0, 1), (1, 1, 0), (2, 0, 1)] {
        let list = touched(&w, pass);
        assert_eq!(typical(&counts(&w, src, &list)), (3, 0));
        assert_eq!(typical(&counts(&w, dst, &list)).1, 2);
    }
}

#[test]
fn hotspot_reads_power_in_each_of_four_kernels() {
    let w = make("hotspot", 12 * MIB);
    assert_eq!(w.passes, 4);
    for pass in 0..4 {
        let list = touched(&w, pass);
        let power = counts(&w, 2, &list);
        assert!(power.iter().all(|c| c.1 == 0));
        assert_eq!(
            order(2, &list).len(),
            power.iter().filter(|c| c.0 > 0).count()
        );
        assert!(power.iter().filter(|c| c.0 > 0).count() * 100 > power.len() * 98);
        let (src, dst) = (pass % 2, 1 - pass % 2);
        assert!(counts(&w, src, &list).iter().all(|c| c.1 == 0));
        assert!(typical(&counts(&w, dst, &list)).1 > 0);
    }
}

#[test]
fn srad_lets_the_cpu_look_first() {
    let w = make("srad", 12 * MIB);
    assert_eq!(w.passes, 4);
    let steps: Vec<Step> = w.pass(1).collect();
    let Step::Cpu { at, bytes, write } = steps[0] else {
        panic!("{:?}", steps[0]);
    };
    assert_eq!((at.alloc, at.offset, write), (0, 0, false));
    assert!(bytes.abs_diff(2 * MIB) < MIB / 20, "{bytes}");
    assert!(steps[1..].iter().all(|s| matches!(s, Step::Launch(_))));
    let list = touched(&w, 0);
    // Five arrays are written once by the first kernel and read by the second, the image written by the second.
    for alloc in 1..5 {
        let c = typical(&counts(&w, alloc, &list));
        assert!(c.0 >= 1 && c.1 == 1, "{alloc}: {c:?}");
    }
}

#[test]
fn fdtd_has_two_fields_at_a_time() {
    let w = make("fdtd", 12 * MIB);
    assert_eq!(w.passes, 5);
    let mut fields: Vec<BTreeSet<u32>> = Vec::new();
    for step in w.pass(0) {
        let mut of = BTreeSet::new();
        huvm_workloads::touches::visit(&step, &mut |t| {
            of.insert(t.alloc);
        });
        if fields.last() != Some(&of) {
            fields.push(of);
        }
    }
    let want = [vec![1, 2], vec![0, 2], vec![0, 1, 2]];
    assert_eq!(
        fields,
        want.map(|v| v.into_iter().collect::<BTreeSet<u32>>())
    );
}

#[test]
fn pathfinder_streams_its_wall_once() {
    let w = make("pathfinder", 38 * MIB);
    // UVMSmart: a wall of 38 MB, rows of 256 KB at most.
    assert!(w.allocs[0].bytes * 100 > w.footprint() * 98);
    assert!(w.allocs[1].bytes < 260_000);
    let list = touched(&w, 0);
    let wall = counts(&w, 0, &list);
    // Rows do not end at pages.
    let once = wall.iter().filter(|c| **c == (1, 0)).count();
    assert!(once * 100 > wall.len() * 85, "{once} of {}", wall.len());
    assert!(wall.iter().all(|c| c.1 == 0 && c.0 <= 3));
    // Each result row is written by ten kernels, ten times each.
    assert_eq!(typical(&counts(&w, 1, &list)).1, 100);
}

#[test]
fn backprop_sweeps_weights_twice_in_the_same_order() {
    let w = make("backprop", 18 * MIB);
    assert!(w.allocs[0].bytes.abs_diff(17 * MIB / 2) < MIB / 10);
    assert!(w.allocs[2].bytes.abs_diff(MIB / 2) < MIB / 40);
    let passes: Vec<Vec<u32>> = w
        .pass(0)
        .map(|s| {
            let mut list = Vec::new();
            huvm_workloads::touches::visit(&s, &mut |t| list.push(t));
            order(0, &list)
        })
        .collect();
    assert_eq!(passes.len(), 2);
    assert!(passes.iter().all(|p| furthest_back(p) <= FRONT));
    let list = touched(&w, 0);
    let written = |alloc| counts(&w, alloc, &list).iter().filter(|c| c.1 > 0).count();
    for alloc in [0, 1, 3] {
        assert_eq!(written(alloc) as u64, w.allocs[alloc as usize].pages());
    }
    assert_eq!(written(2), 0);
}
