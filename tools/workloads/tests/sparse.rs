// SPDX-License-Identifier: GPL-2.0
//! What is known of patterns that are traces: visits, order, distribution.

mod common;

use common::order::{furthest_back, order, shares, typical};
use common::{counts, make, touched, MIB};
use huvm_workloads::Touch;
use std::collections::BTreeSet;

#[test]
fn nw_comes_back_to_pages_on_neighbouring_diagonals() {
    let w = make("nw", 8 * MIB);
    let list = touched(&w, 0);
    let (r, wr) = shares(&list);
    assert_eq!(r, wr);
    // At this size a matrix row is about a page and has 64 tiles: about 64 visits (edges of rows make it more).
    let mean = wr as f64 / w.allocs[1].pages() as f64;
    assert!((60.0..140.0).contains(&mean), "{mean}");
    // The first diagonal is one tile, the middle one 64.
    let first: BTreeSet<u32> = list[..32].iter().map(|t| t.page).collect();
    assert!(first.iter().all(|p| *p <= 17), "{first:?}");
}

#[test]
fn matrices_are_walked_by_columns_and_by_rows() {
    let w = make("atax", 8 * MIB);
    let list = touched(&w, 0);
    let visits = typical(&counts(&w, 0, &list));
    // Rows of 8 KiB cut at any byte: four visits by columns, one by rows.
    assert_eq!(visits, (5, 0));
    // By columns the first thousand touches are of a thousand rows: far apart. By rows the last are near.
    let jump = |a: &Touch, b: &Touch| a.page.abs_diff(b.page);
    let on_a: Vec<&Touch> = list.iter().filter(|t| t.alloc == 0).collect();
    let (head, tail) = (&on_a[..1000], &on_a[on_a.len() - 1000..]);
    assert!(head.windows(2).all(|p| jump(p[0], p[1]) >= 1));
    assert!(head.iter().map(|t| t.page).max() > Some(1900));
    assert!(tail.windows(2).all(|p| jump(p[0], p[1]) == 1));

    let of = |name| {
        let w = make(name, 8 * MIB);
        let list = touched(&w, 0);
        let first: Vec<u32> = list
            .iter()
            .filter(|t| t.alloc == 0)
            .take(1000)
            .map(|t| t.page)
            .collect();
        (
            typical(&counts(&w, 0, &list)),
            furthest_back(&first),
            first[999],
        )
    };
    assert_eq!(of("mvt").0, (5, 0));
    // Rows first: in order, and not far after a thousand.
    assert_eq!(of("bicg"), ((5, 0), 0, 999));
    // Both matrices by columns alone.
    assert_eq!(of("gesummv").0, (4, 0));
}

#[test]
fn lud_shrinks_by_a_tile_each_step() {
    let w = make("lud", 8 * MIB);
    let list = touched(&w, 0);
    let n = counts(&w, 0, &list);
    // The first rows are done after the first step, the last ones swept in each.
    let writes = |c: &[(u32, u32)]| c.iter().map(|c| c.1).sum::<u32>() / c.len() as u32;
    let (head, tail) = (writes(&n[..50]), writes(&n[n.len() - 50..]));
    assert!(tail > 5 * head, "{head} {tail}");
}

#[test]
fn lavamd_does_not_come_back() {
    let w = make("lavamd", 40 * MIB);
    let list = touched(&w, 0);
    // Nine rows of boxes come by each position, once; forces are written once.
    assert_eq!(typical(&counts(&w, 0, &list)), (9, 0));
    assert!(counts(&w, 2, &list).iter().all(|c| *c == (0, 1)));
    // After two planes of boxes a page is over.
    let boxes = w.allocs[0].bytes / 3200;
    let plane = (boxes as f64).cbrt().powi(2) as u64;
    let window = (2 * plane + 300) * 3200 / 4096;
    let positions: Vec<u32> = list
        .iter()
        .filter(|t| t.alloc == 0)
        .map(|t| t.page)
        .collect();
    assert!(u64::from(furthest_back(&positions)) <= window);
}

#[test]
fn ra_reads_the_table_as_often_as_it_writes_the_output() {
    let w = make("ra", 12 * MIB);
    let list = touched(&w, 0);
    let sum = |alloc| {
        counts(&w, alloc, &list)
            .iter()
            .fold((0, 0), |s, c| (s.0 + c.0, s.1 + c.1))
    };
    let input = sum(0);
    assert_eq!(u64::from(input.0), w.allocs[0].pages());
    // 1 % of 512 elements a page.
    assert_eq!((sum(1), sum(2)), ((5 * input.0, 0), (0, 5 * input.0)));
    assert_eq!(order(0, &list), (0..input.0).collect::<Vec<u32>>());
}

#[test]
fn uniform_is_even_and_zipf_is_not() {
    let top = |name: &str| {
        let w = make(name, 512 * MIB);
        let mut chunks = vec![0u32; 256];
        let list = touched(&w, 0);
        for t in &list {
            chunks[t.page as usize / 512] += 1;
        }
        chunks.sort_unstable_by(|a, b| b.cmp(a));
        let of = |n: usize| f64::from(chunks[..n].iter().sum::<u32>()) / list.len() as f64;
        (of(1), of(26))
    };
    let (one, tenth) = top("uniform");
    assert!(one < 0.006 && tenth < 0.13, "{one} {tenth}");
    // Of Zipf's law with exponent 0.9 over 256: the first has 1 / Σ k^-0.9 = 0.121, the first tenth 0.50.
    let all: f64 = (1..=256).map(|k| f64::from(k).powf(-0.9)).sum();
    let tenths: f64 = (1..=26).map(|k| f64::from(k).powf(-0.9)).sum();
    let (one, tenth) = top("zipf");
    assert!((one * all - 1.0).abs() < 0.05, "{one}");
    assert!((tenth * all / tenths - 1.0).abs() < 0.05, "{tenth}");
}
