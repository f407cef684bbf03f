// SPDX-License-Identifier: GPL-2.0
//! Ways from the host: the choice for a prefetch, and the division of a batch under every interleaving.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that panics is a test that fails"
)]

use huvm_policy::path::{
    choose_path, LenderPath, Path, Split, SplitError, Take, Worker, LENDER_QUEUE_MAX, WORKERS_MAX,
};
use huvm_policy::spare::LinkFacts;
use huvm_policy::types::GpuId;
use proptest::prelude::*;

fn gpu(i: u8) -> GpuId {
    GpuId::new(i).unwrap()
}

/// The links of the profile v100-p3.
const HOST: LinkFacts = LinkFacts {
    mb_per_s: 12_300,
    queued: 0,
};
const PEER: LinkFacts = LinkFacts {
    mb_per_s: 40_100,
    queued: 0,
};
const LENDER: LenderPath = LenderPath {
    has_spare: true,
    borrowers: 1,
    host: HOST,
    peer: PEER,
};

fn busy(link: LinkFacts, queued: u32) -> LinkFacts {
    LinkFacts { queued, ..link }
}

#[test]
fn an_idle_link_of_ones_own_is_best() {
    assert_eq!(choose_path(gpu(0), &HOST, &[LENDER; 4]), Path::Local);
    assert_eq!(choose_path(gpu(0), &HOST, &[]), Path::Local);
    assert_eq!(
        choose_path(gpu(0), &busy(HOST, 1), &[LENDER; 4]),
        Path::Via(gpu(1))
    );
    assert_eq!(
        choose_path(gpu(1), &busy(HOST, 1), &[LENDER; 4]),
        Path::Via(gpu(0))
    );
}

#[test]
fn a_lender_is_left_alone_for_each_reason_there_is() {
    let cases = [
        (
            "no spare",
            LenderPath {
                has_spare: false,
                ..LENDER
            },
        ),
        (
            "host link down",
            LenderPath {
                host: LinkFacts::DOWN,
                ..LENDER
            },
        ),
        (
            "peer link down",
            LenderPath {
                peer: LinkFacts::DOWN,
                ..LENDER
            },
        ),
        (
            "host link busy",
            LenderPath {
                host: busy(HOST, LENDER_QUEUE_MAX + 1),
                ..LENDER
            },
        ),
        (
            "host link as busy",
            LenderPath {
                host: busy(HOST, 3),
                ..LENDER
            },
        ),
        (
            "peer link busy",
            LenderPath {
                peer: busy(PEER, 20),
                ..LENDER
            },
        ),
        (
            "borrowers",
            LenderPath {
                borrowers: 4,
                ..LENDER
            },
        ),
    ];
    let local = busy(HOST, 3);
    for (why, bad) in cases {
        assert_eq!(
            choose_path(gpu(0), &local, &[LENDER, bad]),
            Path::Local,
            "{why}"
        );
        let good = [LENDER, bad, LENDER];
        assert_eq!(
            choose_path(gpu(0), &local, &good),
            Path::Via(gpu(2)),
            "{why}"
        );
    }
    // Without a link of its own even a slow way is a way; without any it is local, where the error will be.
    let slow = LenderPath {
        borrowers: 9,
        ..LENDER
    };
    assert_eq!(
        choose_path(gpu(0), &LinkFacts::DOWN, &[LENDER, slow]),
        Path::Via(gpu(1))
    );
    assert_eq!(
        choose_path(gpu(0), &LinkFacts::DOWN, &[LENDER]),
        Path::Local
    );
}

#[test]
fn a_run_of_blocks_spreads_over_all_links() {
    let mut local = HOST;
    let mut lenders = [LENDER; 4];
    lenders[3].borrowers = 2;
    let mut sent = [0; 4];
    for _ in 0..14 {
        match choose_path(gpu(0), &local, &lenders) {
            Path::Local => {
                local.queued += 1;
                sent[0] += 1;
            }
            Path::Via(g) => {
                lenders[g.as_usize()].host.queued += 1;
                sent[g.as_usize()] += 1;
            }
        }
    }
    // The shared one gets half.
    assert_eq!(sent, [4, 4, 4, 2]);
}

fn worker(i: usize) -> Worker {
    match i {
        0 => Worker::LOCAL,
        i => Worker::lender(i as u8 - 1).unwrap(),
    }
}

#[test]
fn both_ends_meet() {
    let mut s = Split::new(5, 1);
    let (local, lender) = (worker(0), worker(1));
    assert_eq!(s.take(local), Ok(Take::Block(0)));
    assert_eq!(s.take(local), Err(SplitError::Holds { block: 0 }));
    assert_eq!(s.take(lender), Ok(Take::Block(4)));
    for block in [1, 2, 3] {
        s.done(local).unwrap();
        assert_eq!(s.take(local), Ok(Take::Block(block)));
    }
    s.done(local).unwrap();
    assert_eq!(s.done(local), Err(SplitError::Idle));
    assert_eq!(
        s.take(local),
        Ok(Take::Wait),
        "the lender may still give it back"
    );
    assert!(!s.is_over());
    s.done(lender).unwrap();
    assert_eq!(s.take(lender), Ok(Take::Over));
    assert_eq!(s.take(local), Ok(Take::Over));
    assert!(s.is_over());
    assert_eq!(s.counts(), (5, 0));
}

#[test]
fn a_lender_that_drops_out_leaves_its_block_to_the_local_worker() {
    let mut s = Split::new(2, 2);
    let (local, a, b) = (worker(0), worker(1), worker(2));
    assert_eq!(s.take(a), Ok(Take::Block(1)));
    assert_eq!(s.take(b), Ok(Take::Block(0)));
    assert_eq!(s.take(local), Ok(Take::Wait));
    s.fail(b).unwrap();
    assert_eq!(s.left(), 1);
    assert_eq!(s.take(b), Err(SplitError::NotIn));
    assert_eq!(s.fail(b), Err(SplitError::NotIn));
    s.done(a).unwrap();
    assert_eq!(
        s.take(a),
        Ok(Take::Over),
        "what came back is not for lenders"
    );
    assert_eq!(s.take(local), Ok(Take::Block(0)));
    s.fail(local).unwrap();
    assert_eq!((s.is_over(), s.counts()), (true, (1, 1)));
    assert_eq!(s.fail(local), Err(SplitError::Idle));
}

#[test]
fn no_lenders_and_no_blocks_are_batches_too() {
    let mut s = Split::new(1, 0);
    assert_eq!(s.take(worker(1)), Err(SplitError::NotIn));
    assert_eq!(s.take(worker(0)), Ok(Take::Block(0)));
    s.done(worker(0)).unwrap();
    assert_eq!(s.take(worker(0)), Ok(Take::Over));
    let mut s = Split::new(0, 255);
    assert!(s.is_over());
    assert_eq!(s.take(worker(WORKERS_MAX - 1)), Ok(Take::Over));
    assert_eq!(Worker::lender(16), None);
}

/// Faster links take more: the batch ends within one block's time of the ideal.
#[test]
fn the_batch_takes_as_long_as_all_links_together_need() {
    // Time per block of each worker.
    for speeds in [
        &[10u64, 10, 10, 10][..],
        &[10, 10],
        &[10, 30, 15],
        &[40, 10, 10],
    ] {
        let blocks = 120;
        let mut s = Split::new(blocks, speeds.len() as u8 - 1);
        // When each worker has finished what it holds; `None` if it is done for good.
        let mut busy_until: Vec<Option<u64>> = vec![Some(0); speeds.len()];
        let mut holds = vec![false; speeds.len()];
        let mut end = 0;
        while let Some((w, now)) = (0..speeds.len())
            .filter_map(|w| busy_until[w].map(|t| (w, t)))
            .min_by_key(|&(w, t)| (t, std::cmp::Reverse(w)))
        {
            if std::mem::take(&mut holds[w]) {
                s.done(worker(w)).unwrap();
                end = now;
            }
            busy_until[w] = match s.take(worker(w)).unwrap() {
                Take::Block(_) => {
                    holds[w] = true;
                    Some(now + speeds[w])
                }
                Take::Wait => Some(now + 1),
                Take::Over => None,
            };
        }
        assert!(s.is_over());
        let rate: f64 = speeds.iter().map(|&t| 1.0 / t as f64).sum();
        let ideal = f64::from(blocks) / rate;
        let slowest = *speeds.iter().max().unwrap() as f64;
        assert!(
            end as f64 <= ideal + slowest,
            "{speeds:?}: {end} for {ideal}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// Every interleaving of taking, serving and dropping out: no block twice, none lost, and the ends do not cross.
    #[test]
    fn every_block_is_served_once(
        blocks in 0..40u32,
        lenders in 0..=18u8,
        acts in proptest::collection::vec((0..WORKERS_MAX, 0..8u8), 0..300),
    ) {
        let mut s = Split::new(blocks, lenders);
        let mut holds: Vec<Option<u32>> = vec![None; WORKERS_MAX];
        let mut inside: Vec<bool> = (0..WORKERS_MAX).map(|w| w <= usize::from(lenders)).collect();
        let mut served = vec![0; blocks as usize];
        // Blocks taken from the head, and from the tail.
        let (mut head, mut tail) = (Vec::new(), Vec::new());
        let mut given_back = Vec::new();
        // In the end the local worker does what is left, and the lenders end what they hold.
        let finish = (0..WORKERS_MAX).map(|w| (w, 1)).chain((0..2 * blocks + 2).map(|i| (0, (i % 2) as u8)));
        for (w, act) in acts.into_iter().chain(finish) {
            let me = worker(w);
            match act {
                // Serve what one holds.
                1..=3 => {
                    let want = match (inside[w], holds[w]) {
                        (false, _) => Err(SplitError::NotIn),
                        (true, None) => Err(SplitError::Idle),
                        (true, Some(_)) => Ok(()),
                    };
                    prop_assert_eq!(s.done(me), want);
                    if let Some(b) = holds[w].take() {
                        served[b as usize] += 1;
                    }
                }
                // Drop out.
                7 if w != 0 => {
                    let want = if inside[w] { Ok(()) } else { Err(SplitError::NotIn) };
                    prop_assert_eq!(s.fail(me), want);
                    given_back.extend(holds[w].take());
                    inside[w] = false;
                }
                _ => match s.take(me) {
                    Ok(Take::Block(b)) => {
                        prop_assert!(inside[w] && holds[w].is_none());
                        prop_assert!(b < blocks && served[b as usize] == 0 && !holds.contains(&Some(b)));
                        if let Some(i) = given_back.iter().position(|&x| x == b) {
                            prop_assert_eq!(w, 0);
                            given_back.remove(i);
                        } else if w == 0 {
                            prop_assert_eq!(b, head.len() as u32);
                            head.push(b);
                        } else {
                            prop_assert_eq!(b, blocks - 1 - tail.len() as u32);
                            tail.push(b);
                        }
                        holds[w] = Some(b);
                    }
                    Ok(answer) => {
                        prop_assert_eq!(head.len() + tail.len(), blocks as usize);
                        let waits = w == 0 && holds.iter().any(Option::is_some);
                        prop_assert_eq!(answer == Take::Wait, waits);
                        prop_assert!(w != 0 || given_back.is_empty());
                    }
                    Err(SplitError::Holds { block }) => prop_assert_eq!(holds[w], Some(block)),
                    Err(e) => prop_assert_eq!((e, inside[w]), (SplitError::NotIn, false)),
                },
            }
            prop_assert!(head.len() + tail.len() <= blocks as usize);
            prop_assert_eq!(s.is_over(), served.iter().all(|&n| n == 1));
            prop_assert_eq!(s.counts().0, served.iter().sum::<u32>());
            prop_assert_eq!(
                s.left() as usize,
                blocks as usize - head.len() - tail.len() + given_back.len()
            );
        }
        prop_assert!(s.is_over());
        prop_assert!(served.iter().all(|&n| n == 1));
        prop_assert_eq!(s.take(Worker::LOCAL), Ok(Take::Over));
    }

    /// Nothing else is faster than the way chosen.
    #[test]
    fn the_way_chosen_is_the_first_to_arrive(
        local in (0..3u32, 0..6u32),
        table in proptest::collection::vec(
            ((any::<bool>(), 0..4u32), (0..3u32, 0..7u32), (0..3u32, 0..6u32)), 0..=16),
        borrower in 0..16u8,
    ) {
        let link = |(class, queued): (u32, u32)| LinkFacts { mb_per_s: class * 12_000, queued };
        let lenders: Vec<LenderPath> = table
            .into_iter()
            .map(|((has_spare, borrowers), host, peer)| LenderPath {
                has_spare,
                borrowers,
                host: link(host),
                peer: link(peer),
            })
            .collect();
        let ns = |l: &LinkFacts| u64::from(l.queued + 1) * 2_097_152_000 / u64::from(l.mb_per_s);
        let local = link(local);
        let mut ways: Vec<(u64, u8, Path)> = Vec::new();
        if local.mb_per_s != 0 {
            ways.push((ns(&local), 0, Path::Local));
        }
        for (i, l) in lenders.iter().enumerate() {
            let open = l.has_spare && l.host.mb_per_s != 0 && l.peer.mb_per_s != 0 && l.host.queued <= 4;
            if open && i != usize::from(borrower) {
                let time = ns(&l.host) * u64::from(l.borrowers.max(1)) + ns(&l.peer);
                ways.push((time, i as u8 + 1, Path::Via(gpu(i as u8))));
            }
        }
        let want = ways.iter().min_by_key(|w| (w.0, w.1)).map_or(Path::Local, |w| w.2);
        prop_assert_eq!(choose_path(gpu(borrower), &local, &lenders), want);
    }
}
