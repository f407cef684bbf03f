// SPDX-License-Identifier: GPL-2.0
//! Layer tables beside published totals, and the order of training, decoding, searching, clustering.
#![allow(clippy::indexing_slicing)] // Of helpers; clippy lets tests do so.

mod common;

use common::order::{furthest_back, order, typical};
use common::{counts, in_place_of, make, touched, MIB};
use huvm_workloads::dnn::{mobilenet, resnet, vgg, Layer};
use huvm_workloads::{Step, Touch, Workload};

fn totals(layers: &[Layer]) -> (u64, u64) {
    let sum = |f: fn(&Layer) -> u64| layers.iter().map(f).sum();
    (sum(|l| l.weights), sum(|l| l.macs))
}

/// Trained values as torchvision's models (VGG16, ResNets) and Keras's MobileNet have them; multiply-adds as published, in millions.
#[test]
fn layer_tables_have_the_published_totals() {
    for (layers, weights, macs) in [
        (vgg::vgg16(), 138_357_544, 15_470),
        (resnet::resnet50(), 25_557_032, 4_089),
        (resnet::resnet101(), 44_549_160, 7_801),
        (mobilenet::mobilenet(), 4_231_976, 569),
    ] {
        let (w, m) = totals(&layers);
        assert_eq!(w, weights);
        assert!(
            (m / 1_000_000).abs_diff(macs) * 100 <= macs,
            "{m} for {macs}"
        );
    }
    // FC6 of VGG16: 392 MiB in floats.
    let fc6 = vgg::vgg16().iter().map(|l| l.weights).max();
    assert_eq!(fc6.map(|w| (w * 4) >> 20), Some(392));
}

/// Pages of an allocation that are written (or read), in order of their first such touch.
fn of(list: &[Touch], alloc: u32, write: bool) -> Vec<u32> {
    let some: Vec<Touch> = list.iter().copied().filter(|t| t.write == write).collect();
    order(alloc, &some)
}

#[test]
fn training_goes_forward_and_back() {
    for name in ["vgg16", "resnet50", "resnet101", "mobilenet"] {
        let w = make(name, 64 * MIB);
        assert_eq!(w.passes, 3);
        let list = touched(&w, 0);
        // Activations are made in order; their gradients from the last to the first.
        let pages = w.allocs[4].pages() as u32;
        let (made, back) = (of(&list, 4, true), of(&list, 5, true));
        assert!(furthest_back(&made) <= 1, "{name}");
        assert_eq!((made.len() as u32, made[0]), (pages, 0), "{name}");
        assert!(back[0] > pages * 9 / 10, "{name}: {} of {pages}", back[0]);
        assert!(back[back.len() - 1] < pages / 2, "{name}");
        // All gradients are used; each weight forward, backward and by the optimiser, which writes it.
        assert_eq!(of(&list, 3, true).len() as u64, w.allocs[3].pages());
        let weights = counts(&w, 0, &list);
        assert!(weights.iter().all(|c| c.0 >= 2 && c.1 == 1), "{name}");
        // The first pass back touches what was touched last.
        let first_back = list.iter().position(|t| t.alloc == 5).unwrap();
        let near = list[first_back..].iter().find(|t| t.alloc == 4).unwrap();
        assert!(near.page * 10 > pages * 9, "{name}");
    }
}

/// Weights, their gradients and the moments, as a share of all.
fn fixed(w: &Workload) -> f64 {
    let bytes: u64 = w.allocs.iter().take(4).map(|a| a.bytes).sum();
    bytes as f64 / w.footprint() as f64
}

/// Computing of a pass, ns a byte.
fn computing(w: &Workload) -> f64 {
    let ns = w.pass(0).map(|s| match s {
        Step::Trace(t) => t.compute_ns,
        _ => 0,
    });
    ns.sum::<u64>() as f64 / w.footprint() as f64
}

/// Catches a small VGG16 that is weights alone: at the paper's size they are 9 %.
#[test]
fn a_small_network_is_the_large_one() {
    let large = 24 << 30;
    let small = in_place_of("vgg16", 1024 * MIB, large);
    let own = make("vgg16", 1024 * MIB);
    assert!((fixed(&small) - 0.09).abs() < 0.01, "{}", fixed(&small));
    assert!(fixed(&own) > 0.9, "{}", fixed(&own));
    for name in ["vgg16", "resnet101", "mobilenet", "gnmt16-0", "gnmt8-3"] {
        let (small, large) = (in_place_of(name, 1024 * MIB, large), make(name, large));
        let (a, b) = (fixed(&small), fixed(&large));
        assert!((a - b).abs() < 0.001, "{name}: {a} of {b}");
        let arrays = small.allocs.iter().zip(&large.allocs);
        for (a, b) in arrays {
            let share = |a: u64, of: &Workload| a as f64 / of.footprint() as f64;
            let (a, b) = (share(a.bytes, &small), share(b.bytes, &large));
            assert!((a - b).abs() < 0.001, "{name}: {a} of {b}");
        }
    }
    let (a, b) = (computing(&small), computing(&make("vgg16", large)));
    assert!((a / b - 1.0).abs() < 0.02, "{a} {b}");
    let own = computing(&own);
    assert!(a > 5.0 * own, "{a} {own}");
}

/// An LSTM layer: 8.4 M multiply-adds a token forward, twice that backward, and 24 KiB of activations kept.
#[test]
fn stages_compute() {
    let w = in_place_of("gnmt8-0", 256 * MIB, 24 << 30);
    // A batch has a gradient of both layers.
    let tokens = w.allocs[5].bytes as f64 / 2.0 / (6.0 * 4096.0);
    let macs = 16.0 * 2.0 * tokens * 3.0 * 8_396_800.0;
    let ns = computing(&w) * w.footprint() as f64;
    // Beside them there is the optimiser.
    let over = ns * 7850.0 / macs;
    assert!((0.98..1.05).contains(&over), "{over}");
}

#[test]
fn early_stages_keep_more_batches() {
    let share = |name| {
        let w = make(name, 1024 * MIB);
        w.allocs[4].bytes as f64 / w.allocs[5].bytes as f64
    };
    for (stage, want) in ["gnmt8-0", "gnmt8-1", "gnmt8-2", "gnmt8-3"]
        .iter()
        .zip([4.0, 3.0, 2.0, 1.0])
    {
        assert!(
            (share(stage) - want).abs() < 0.01,
            "{stage}: {}",
            share(stage)
        );
    }
    // An LSTM layer of 1024 units: 32 MiB and a little of weights; of 8 layers a stage has 2, of 16 it has 4.
    assert_eq!(make("gnmt8-0", 1024 * MIB).allocs[0].bytes >> 20, 64);
    assert_eq!(make("gnmt16-0", 2048 * MIB).allocs[0].bytes >> 20, 128);
    // Stage 0 has all four versions written before any is read back for the backward pass of the first.
    let w = make("gnmt8-0", 64 * MIB);
    let list = touched(&w, 0);
    let gradient = list.iter().position(|t| t.alloc == 5).unwrap();
    let made = of(&list[..gradient + 1], 4, true);
    assert_eq!(made.len() as u64, w.allocs[4].pages());
}

#[test]
fn decoding_reads_all_weights_for_each_token() {
    let w = make("llm-decode", 64 * MIB);
    let (first, last) = (touched(&w, 0), touched(&w, w.passes - 1));
    let weights = counts(&w, 0, &first);
    assert!(weights.iter().all(|c| c.1 == 0));
    assert_eq!(typical(&weights), (8, 0));
    // Keys and values grow, and are full at the end.
    let used = |list: &[Touch]| order(1, list).len() as u64;
    assert!(used(&first) * 10 < w.allocs[1].pages() * 7);
    assert_eq!(used(&last), w.allocs[1].pages());
    // Of eight experts two: a quarter of the reads.
    let moe = make("llm-moe", 64 * MIB);
    let reads = touched(&moe, 0).iter().filter(|t| t.alloc == 0).count() as f64;
    let share = reads / 8.0 / moe.allocs[0].pages() as f64;
    assert!((0.24..0.28).contains(&share), "{share}");
}

#[test]
fn queries_read_whole_lists_anywhere() {
    let w = make("faiss", 256 * MIB);
    let list = touched(&w, 0);
    let lists = counts(&w, 1, &list);
    assert!(lists.chunks(512).all(|l| l.iter().all(|c| c == &l[0])));
    let mean = lists.iter().map(|c| c.0).sum::<u32>() as f64 / lists.len() as f64;
    assert!((0.9..1.1).contains(&mean), "{mean}");
    // Chances are even, so 1/e of the lists is not read in a pass.
    let none = lists.iter().filter(|c| c.0 == 0).count() as f64 / lists.len() as f64;
    assert!((0.2..0.5).contains(&none), "{none}");
}

#[test]
fn points_stream_past_hot_centroids() {
    let w = make("kmeans", 64 * MIB);
    assert_eq!(w.passes, 10);
    let list = touched(&w, 0);
    assert!(counts(&w, 0, &list).iter().all(|c| *c == (1, 0)));
    assert!(w.allocs[1].bytes <= MIB);
    assert!(counts(&w, 1, &list).iter().all(|c| c.0 > 1 && c.0 == c.1));
}
