// SPDX-License-Identifier: GPL-2.0
//! Whether a GPU's jobs get any further, and what is done if they do not.
//!
//! An access may need several chunks at a time: one to read and one to write, or one for each lane of a warp. Where all accesses of a
//! moment need a few more than there are, what comes for one of them takes the place of what another one has, or the same, and under
//! least-recently-migrated that may go on for ever: two that need three chunks each, of four, have two each, brought in by turns, and
//! the third always takes the place of the first. Pre-eviction does it with one chunk more, the one that it keeps free.
//!
//! No single batch shows that: each may be about fewer blocks than there are chunks. But over several the same blocks come back, each for
//! the same page, as nobody got as far as another one ([`Comings`]). Then for a while one unit of those clients has its turn, as long as it
//! faults ([`Turns`]); the others' faults are left, and come again. What it needs comes with no more than a few batches, the youngest
//! last, and least-recently-migrated does not take what came with these. So each access that fits into the memory by itself ends,
//! and nothing is left to chance.
//!
//! **The hard case** is a job that does get further and looks the same: it goes over a little more than the memory again and again, and
//! touches the same page of each block first. Hence the short time within which a block must come back, and the many times; and on a
//! memory of a usual size all that is in a batch is served beside the one whose turn it is ([`beside`]).
//!
//! Only those clients have turns whose own blocks come back: who needs more at a time than there is, be it on purpose, costs nobody else
//! any. Rejected: victims chosen by chance until sooner or later all that one needs is there. With two that need three of four chunks each
//! it takes a few batches, with six that need two of three it took longer than anybody waits.

use crate::batch::Fault;

/// Batches within which what nobody got further with comes back. A warp touches no more blocks at a time than it has lanes, and four
/// more (Documentation/device.md 2.3); if it lacks one of them with each batch it has lacked all of them after so many.
const SPAN: u64 = 40;
/// Votes for the same page, less those for others, from which it is believed.
const OFTEN: u8 = 64;
/// Turns are taken for so many batches: to find out that they must be took between twice and forty times [`OFTEN`].
const LASTS: u64 = 512;
/// A turn ends with the first batch that it has no fault in, or after so many: of one that never has what it needs.
const TURN: u64 = 2 * SPAN;
/// Subcontexts of a GPU, as [`LeftOut`](crate::batch::LeftOut) has them.
const CLIENTS: usize = 64;

/// How one block comes back to one GPU: for which page first, by the majority vote of Boyer and Moore (1981).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comings {
    /// With which batch it came last.
    batch: u64,
    page: u16,
    votes: u8,
}

impl Comings {
    /// It never came back.
    pub const NONE: Self = Self {
        batch: 0,
        page: 0,
        votes: 0,
    };

    /// It was evicted, and is wanted by faults of `batch`, the first of them on `page`. Whether that was so too often; then it is
    /// counted anew.
    pub fn comes(&mut self, batch: u64, page: u16) -> bool {
        let before = core::mem::replace(&mut self.batch, batch);
        if batch.saturating_sub(before) > SPAN || self.votes == 0 {
            (self.page, self.votes) = (page, 1);
        } else if page == self.page {
            self.votes = self.votes.saturating_add(1);
        } else {
            self.votes = self.votes.saturating_sub(1);
        }
        let often = self.votes >= OFTEN;
        if often {
            self.votes = 0;
        }
        often
    }
}

/// Faults that are served beside those of the one whose turn it is: no more chunks than leave what it gets over [`SPAN`] batches in
/// a memory of `chunks`.
pub const fn beside(chunks: u32) -> u32 {
    // CAST: a small constant.
    (chunks / SPAN as u32).saturating_sub(1)
}

/// A client of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Client {
    /// Since when it has its subcontext, ns: another one may come to have it.
    made_ns: u64,
    /// With this batch its turns are over.
    until: u64,
}

/// Who faults: a client, and a unit of the GPU, which may stand for several warps.
type Unit = (u32, u16, u8, u8);

fn unit_of(f: &Fault) -> Unit {
    let c = f.client;
    (f.space, c.engine, c.gpc, c.client)
}

/// The turns of those who got no further, on one GPU.
#[derive(Clone, Debug)]
pub struct Turns {
    clients: [Client; CLIENTS],
    /// With this batch all of them are over.
    until: u64,
    /// Whose turn it is, and since which batch.
    turn: Option<(Unit, u64)>,
    /// Faults that may be served beside it in this batch.
    beside: u32,
}

impl Default for Turns {
    fn default() -> Self {
        Self::new()
    }
}

impl Turns {
    /// All get on.
    pub const fn new() -> Self {
        let nobody = Client {
            made_ns: 0,
            until: 0,
        };
        Self {
            clients: [nobody; CLIENTS],
            until: 0,
            turn: None,
            beside: 0,
        }
    }

    /// Whether anybody has turns with `batch`.
    pub const fn are_taken(&self, batch: u64) -> bool {
        batch < self.until
    }

    /// A block of subcontext `veid`, which somebody has since `made_ns`, came back too often, with `batch`. Whether that is new.
    pub fn begin(&mut self, veid: u8, made_ns: u64, batch: u64) -> bool {
        let until = batch.saturating_add(LASTS);
        let Some(client) = self.clients.get_mut(usize::from(veid)) else {
            return false;
        };
        let new = client.made_ns != made_ns || client.until <= batch;
        *client = Client { made_ns, until };
        self.until = until;
        new
    }

    /// There is a fault of subcontext `veid`, which somebody has since `made_ns`.
    pub fn met(&mut self, veid: u8, made_ns: u64) {
        if let Some(client) = self.clients.get_mut(usize::from(veid)) {
            if client.made_ns != made_ns {
                client.until = 0;
            }
        }
    }

    /// Whether a fault's client has turns.
    fn stands(&self, f: &Fault, batch: u64) -> bool {
        let client = usize::try_from(f.space).ok();
        let client = client.and_then(|at| self.clients.get(at));
        client.is_some_and(|c| batch < c.until)
    }

    /// Says whose turn it is with `batch`, whose faults these are, on a memory of `chunks`.
    pub fn choose(&mut self, batch: u64, faults: &[Fault], chunks: u32) {
        self.beside = beside(chunks);
        let (now, since) = self.turn.unwrap_or(((0, 0, 0, 0), batch));
        let goes_on = batch.saturating_sub(since) < TURN;
        // The next one in order, or else the first.
        let (mut first, mut next) = (None::<Unit>, None::<Unit>);
        for f in faults.iter().filter(|f| self.stands(f, batch)) {
            let unit = unit_of(f);
            if unit == now && goes_on && self.turn.is_some() {
                return;
            }
            first = Some(first.map_or(unit, |u| u.min(unit)));
            if unit > now {
                next = Some(next.map_or(unit, |u| u.min(unit)));
            }
        }
        self.turn = next.or(first).map(|unit| (unit, batch));
    }

    /// Whether a fault is served with `batch`. One that is not comes again behind the replay.
    pub fn serves(&mut self, batch: u64, f: &Fault) -> bool {
        let has_turn = |(unit, _)| unit == unit_of(f);
        if f.is_fatal || !self.stands(f, batch) || self.turn.is_some_and(has_turn) {
            return true;
        }
        let left = self.beside.checked_sub(1);
        self.beside = left.unwrap_or(0);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Access;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, VecDeque};
    use std::vec;
    use std::vec::Vec;

    /// The first time that it is so in `comings`, each the batch and the page.
    fn first_time(comings: impl IntoIterator<Item = (u64, u16)>) -> Option<usize> {
        let mut c = Comings::NONE;
        comings.into_iter().position(|(b, p)| c.comes(b, p))
    }

    #[test]
    fn the_same_page_again_and_again_is_seen() {
        let n = usize::from(OFTEN);
        assert_eq!(first_time((1..).map(|i| (i, 7))), Some(n - 1));
        assert_eq!(first_time((1..).map(|i| (i * SPAN, 0))), Some(n - 1));
        assert_eq!(first_time((1..1000).map(|i| (i * (SPAN + 1), 7))), None);
    }

    #[test]
    fn pages_one_after_the_other_are_not() {
        assert_eq!(first_time((1..5000).map(|i| (i, (i % 512) as u16))), None);
        // Nor each of them a few times, as accesses that were served and came late are.
        let slowly = (1..20_000).map(|i| (i, (i / 32 % 512) as u16));
        assert_eq!(first_time(slowly), None);
    }

    #[test]
    fn one_that_is_another_now_and_then_is_seen_later() {
        let mixed = (1..).map(|i| (i, if i % 4 == 0 { 300 } else { 7 }));
        // Two votes in four batches: 62 after 124, and two more.
        assert_eq!(first_time(mixed), Some(125));
    }

    #[test]
    fn it_is_counted_anew() {
        let mut c = Comings::NONE;
        let n = u64::from(OFTEN);
        let seen: Vec<u64> = (1..=3 * n).filter(|&i| c.comes(i, 3)).collect();
        assert_eq!(seen, [n, 2 * n, 3 * n]);
    }

    fn fault(space: u32, unit: u8, block: u64) -> Fault {
        let mut f = Fault::new(space, block << 21, Access::Write);
        f.client.client = unit;
        f
    }

    #[test]
    fn turns_end_and_are_new_after_that() {
        let mut t = Turns::new();
        let f = [fault(3, 0, 1), fault(3, 1, 2), fault(4, 0, 1)];
        let served = |t: &mut Turns, batch| {
            t.choose(batch, &f, 4);
            f.map(|f| t.serves(batch, &f))
        };
        assert!(!t.are_taken(0) && !t.are_taken(5));
        assert_eq!(served(&mut t, 5), [true; 3]);
        assert!(t.begin(3, 9, 5) && !t.begin(3, 9, 6));
        assert!(t.are_taken(5 + LASTS) && !t.are_taken(6 + LASTS));
        assert_eq!(served(&mut t, 5 + LASTS), [true, false, true]);
        assert_eq!(served(&mut t, 6 + LASTS), [true; 3]);
        assert!(t.begin(3, 9, 6 + LASTS));
        // Somebody else, who did nothing.
        t.met(3, 9);
        assert_eq!(served(&mut t, 7 + LASTS), [true, false, true]);
        t.met(3, 10);
        assert_eq!(served(&mut t, 8 + LASTS), [true; 3]);
        assert!(t.begin(3, 10, 8 + LASTS));
        // No such subcontext.
        assert!(!t.begin(64, 0, 8 + LASTS));
        t.met(64, 0);
        assert!(t.serves(8 + LASTS, &fault(64, 0, 0)));
    }

    #[test]
    fn a_turn_lasts_as_long_as_there_are_faults_but_not_for_ever() {
        let mut t = Turns::new();
        t.begin(0, 1, 1);
        let all = [fault(0, 2, 1), fault(0, 0, 2), fault(0, 1, 3)];
        let whose = |t: &mut Turns, batch, faults: &[Fault]| {
            t.choose(batch, faults, 4);
            let served: Vec<u8> = faults
                .iter()
                .filter(|f| t.serves(batch, f))
                .map(|f| f.client.client)
                .collect();
            served
        };
        for batch in 2..2 + TURN {
            assert_eq!(whose(&mut t, batch, &all), [1]);
        }
        for batch in 2 + TURN..2 + 2 * TURN {
            assert_eq!(whose(&mut t, batch, &all), [2]);
        }
        assert_eq!(whose(&mut t, 2 + 2 * TURN, &all), [0]);
        // Whoever has none lets the next one have it; of one that is alone it begins again.
        assert_eq!(whose(&mut t, 3 + 2 * TURN, &all[..1]), [2]);
        for batch in 4 + 2 * TURN..4 + 4 * TURN {
            assert_eq!(whose(&mut t, batch, &all[..1]), [2]);
        }
        let mut lethal = fault(0, 1, 9);
        lethal.is_fatal = true;
        assert!(t.serves(5, &lethal));
    }

    #[test]
    fn on_a_usual_memory_what_is_in_a_batch_is_served() {
        // 16 GiB, and a batch of NVIDIA's driver, nearly; and what one gets over SPAN batches fits whatever the size.
        assert_eq!(beside(8192), 203);
        for chunks in 0..20_000 {
            assert!(beside(chunks) == 0 || (beside(chunks) + 1) * 40 <= chunks);
        }
        let mut t = Turns::new();
        t.begin(0, 1, 1);
        let f: Vec<Fault> = (0..9).map(|i| fault(0, i, i.into())).collect();
        t.choose(2, &f, 160);
        let n = f.iter().filter(|f| t.serves(2, f)).count();
        assert_eq!(n, 1 + 3);
    }

    /// Accesses one after the other, each of which needs all of its blocks at a time.
    #[derive(Clone, Debug)]
    struct Warp {
        space: u32,
        unit: u8,
        accesses: VecDeque<Vec<u64>>,
    }

    /// Serves warps on a memory of `chunks`, with turns or without, until all are done. The batches that it takes, up to `most`; and
    /// what was served of those of nobody's turns.
    fn run(mut warps: Vec<Warp>, chunks: usize, turns: bool, most: u64) -> Option<u64> {
        let mut there: VecDeque<(u32, u64)> = VecDeque::new();
        let mut comings: BTreeMap<(u32, u64), Comings> = BTreeMap::new();
        let mut t = Turns::new();
        for batch in 1..=most {
            let mut faults = Vec::new();
            for w in &warps {
                for block in w.accesses.front().into_iter().flatten() {
                    if !there.contains(&(w.space, *block)) {
                        // The page tells one access from the next.
                        let mut f = fault(w.space, w.unit, *block);
                        f.va += (w.accesses.len() as u64 % 512) << 12;
                        faults.push(f);
                    }
                }
            }
            if turns && t.are_taken(batch) {
                t.choose(batch, &faults, chunks as u32);
                faults.retain(|f| t.serves(batch, f));
            }
            faults.sort_by_key(|f| (f.space, f.va));
            for f in faults {
                let block = (f.space, f.va >> 21);
                if there.contains(&block) {
                    continue;
                }
                if there.len() == chunks {
                    there.pop_front();
                }
                there.push_back(block);
                let c = comings.entry(block).or_insert(Comings::NONE);
                if c.comes(batch, (f.va >> 12 & 511) as u16) {
                    t.begin(f.space as u8, 1, batch);
                }
            }
            for w in &mut warps {
                let has = |b: &u64| there.contains(&(w.space, *b));
                if w.accesses.front().is_some_and(|a| a.iter().all(has)) {
                    w.accesses.pop_front();
                }
            }
            warps.retain(|w| !w.accesses.is_empty());
            if warps.is_empty() {
                return Some(batch);
            }
        }
        None
    }

    /// A warp of `space` that goes over the same blocks so often.
    fn warp(space: u32, unit: u8, blocks: impl Iterator<Item = u64>, times: usize) -> Warp {
        Warp {
            space,
            unit,
            accesses: vec![blocks.collect(); times].into(),
        }
    }

    /// Two warps whose blocks are wanted by turns.
    fn two(each: u64, times: usize) -> Vec<Warp> {
        let mut warps = vec![
            warp(0, 0, (0..each).map(|b| 2 * b), times),
            warp(0, 1, (0..each).map(|b| 2 * b + 1), times),
        ];
        // One after the other until now, so that the oldest of each makes way.
        let mut before = Vec::new();
        for b in 0..each {
            before.push(vec![2 * b]);
            before.push(vec![2 * b + 1]);
        }
        for (i, b) in before.into_iter().enumerate().rev() {
            if let Some(w) = warps.get_mut(i % 2) {
                w.accesses.push_front(b);
            }
        }
        warps
    }

    #[test]
    fn two_that_need_three_of_four() {
        assert_eq!(run(two(3, 1), 4, false, 100_000), None);
        let n = run(two(3, 1), 4, true, 1000);
        assert!(n.is_some_and(|n| n < 4 * u64::from(OFTEN)), "{n:?}");
        // To be found out once is enough for many.
        let n = run(two(3, 100), 4, true, 10_000);
        assert!(n.is_some_and(|n| n < 1000), "{n:?}");
    }

    #[test]
    fn six_that_need_two_of_three() {
        let six =
            || (0..6).map(|u: u8| warp(0, u, [u64::from(u), 100 + u64::from(u)].into_iter(), 5));
        assert_eq!(run(six().collect(), 3, false, 100_000), None);
        let n = run(six().collect(), 3, true, 10_000);
        assert!(n.is_some_and(|n| n < 1000), "{n:?}");
        // And each a client of its own.
        let apart = || {
            six().map(|w| Warp {
                space: w.unit.into(),
                unit: 0,
                ..w
            })
        };
        let n = run(apart().collect(), 3, true, 10_000);
        assert!(n.is_some_and(|n| n < 1000), "{n:?}");
    }

    #[test]
    fn two_warps_whose_lanes_go_everywhere() {
        assert_eq!(run(two(36, 1), 60, false, 100_000), None);
        let n = run(two(36, 1), 60, true, 100_000);
        assert!(n.is_some_and(|n| n < 50 * u64::from(OFTEN)), "{n:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn what_fits_by_itself_ends(
            warps in proptest::collection::vec(
                (0u32..3, proptest::collection::vec(proptest::collection::btree_set(0u64..40, 1..9), 1..6)), 1..12),
            more in 0usize..12,
        ) {
            let warps: Vec<Warp> = (0u8..).zip(warps).map(|(unit, (space, accesses))| Warp {
                space,
                unit,
                accesses: accesses.into_iter().map(|a| a.into_iter().collect()).collect(),
            }).collect();
            let needs = warps.iter().flat_map(|w| &w.accesses).map(Vec::len).max().unwrap_or(1);
            let all: usize = warps.iter().map(|w| w.accesses.len()).sum();
            // Found out anew for each at the worst.
            let most = (all as u64 + 1) * SPAN * u64::from(OFTEN) * 2;
            prop_assert!(run(warps, needs + more, true, most).is_some());
        }

        #[test]
        fn no_sequence_is_believed_without_a_majority(
            pages in proptest::collection::vec((0u64..60, 0u16..4), 0..400)
        ) {
            let (mut c, mut batch) = (Comings::NONE, 0);
            let mut since: Vec<(u64, u16)> = Vec::new();
            for (step, page) in pages {
                batch += step;
                since.push((step, page));
                if c.comes(batch, page) {
                    let same = since.iter().filter(|(_, p)| *p == page).count();
                    prop_assert!(same >= usize::from(OFTEN));
                    let soon = since.iter().rev().take(usize::from(OFTEN) - 1);
                    prop_assert!(soon.into_iter().all(|(s, _)| *s <= SPAN));
                    since.clear();
                }
            }
        }
    }
}
