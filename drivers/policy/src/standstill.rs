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
//! faults ([`Turns`]); the others' faults are left, and come again. What it needs comes within a few rounds, and least-recently-migrated
//! does not take what came with these. So each access ends that fits into the memory beside what those take who do get on.
//!
//! A unit of the GPU may stand for several warps, which its packets do not tell apart. Its turn is by chance in its second half: what one of
//! them needs is there sooner or later.
//!
//! **The hard case** is a job that does get further and looks the same: it goes over a little more than the memory again and again, and
//! touches the same page of each block first. Hence the short time within which a block must come back, and the many times; and on a
//! memory of a usual size all that is in a batch is served beside the one whose turn it is ([`beside`]).
//!
//! Only those clients have turns whose own blocks come back, and their turns go from client to client: who needs more at a time than there
//! is, be it on purpose, and has others do so too, costs these the rounds of its turns. Rejected: victims chosen by chance alone, until all that one needs is
//! there. With two that need three of four chunks each it takes a few rounds, with eight that need three of three some 250 for each access.
//!
//! A *round* is what is served between two replays: until the next one nobody gets further, whatever comes.

use crate::batch::Fault;

/// Rounds within which what nobody got further with comes back. A warp touches no more blocks at a time than it has lanes, and four
/// more (Documentation/device.md 2.3); if it lacks one of them with each round it has lacked all of them after so many.
const SPAN: u64 = 40;
/// Votes for the same page, less those for others, from which it is believed.
const OFTEN: u8 = 64;
/// Turns are taken for so many rounds: to find out that they must be took between twice and forty times [`OFTEN`].
const LASTS: u64 = 512;
/// And no longer than so many without a fault of those who take them.
const LASTS_UNUSED: u64 = 64;
/// A turn lasts for so many rounds at most. What is missing comes with the first, what made way for that with the second; it may take longer
/// where others bring something in meanwhile, or a part of the packets is late.
const TURN: u64 = 16;
/// It ends before with so many rounds in a row that have no fault of it: one may just be late.
const ABSENT: u64 = 2;
/// Subcontexts of a GPU, as [`LeftOut`](crate::batch::LeftOut) has them.
const CLIENTS: usize = 64;

/// How one block comes back to one GPU: for which page first, by the majority vote of Boyer and Moore (1981).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comings {
    /// With which round it came last.
    round: u64,
    page: u16,
    votes: u8,
}

impl Comings {
    /// It never came back.
    pub const NONE: Self = Self {
        round: 0,
        page: 0,
        votes: 0,
    };

    /// It was evicted, and is wanted by faults of `round`, the first of them on `page`. Whether that was so too often; then it is
    /// counted anew.
    pub fn comes(&mut self, round: u64, page: u16) -> bool {
        let before = core::mem::replace(&mut self.round, round);
        if round.saturating_sub(before) > SPAN || self.votes == 0 {
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

/// Faults that are served beside those of the one whose turn it is: no more chunks than leave what it gets over [`SPAN`] rounds in
/// a memory of `chunks`.
pub const fn beside(chunks: u32) -> u32 {
    // CAST: a small constant.
    (chunks / SPAN as u32).saturating_sub(1)
}

/// A unit of the GPU: engine, GPC, client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Unit(u32);

impl Unit {
    const fn of(f: &Fault) -> Self {
        let [high, low] = f.client.engine.to_be_bytes();
        Unit(u32::from_be_bytes([
            high,
            low,
            f.client.gpc,
            f.client.client,
        ]))
    }
}

/// A client of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Client {
    /// With this round its turns are over.
    until: u64,
    /// Since when it has its subcontext, ns, the low bits: another one may come to have it.
    made: u32,
    /// The unit that had its turn last.
    unit: Unit,
}

const fn low(ns: u64) -> u32 {
    // CAST: that is what is wanted.
    ns as u32
}

/// A turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Turn {
    space: u32,
    unit: Unit,
    /// Rounds that it had.
    rounds: u64,
    /// Of these, the last ones without a fault of it.
    absent: u64,
}

/// The turns of those who got no further, on one GPU.
#[derive(Clone, Debug)]
pub struct Turns {
    clients: [Client; CLIENTS],
    /// With this round all of them are over.
    until: u64,
    turn: Option<Turn>,
    /// Rounds in a row without a fault of those clients.
    unused: u64,
    /// Faults that may be served beside it in this round.
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
            until: 0,
            made: 0,
            unit: Unit(0),
        };
        Self {
            clients: [nobody; CLIENTS],
            until: 0,
            turn: None,
            unused: 0,
            beside: 0,
        }
    }

    /// Whether anybody has turns with `round`.
    pub const fn are_taken(&self, round: u64) -> bool {
        round < self.until
    }

    /// Whether the turn that was chosen is by chance: it lasts longer than one that takes what came first should.
    pub fn by_chance(&self) -> bool {
        self.turn.is_some_and(|t| t.rounds > TURN / 2)
    }

    /// A block of subcontext `veid`, which somebody has since `made_ns`, came back too often, with `round`. Whether that is new.
    pub fn begin(&mut self, veid: u8, made_ns: u64, round: u64) -> bool {
        let until = round.saturating_add(LASTS);
        let Some(client) = self.clients.get_mut(usize::from(veid)) else {
            return false;
        };
        let made = low(made_ns);
        let new = client.made != made || client.until <= round;
        (client.made, client.until) = (made, until);
        (self.until, self.unused) = (until, 0);
        new
    }

    /// There is a fault of subcontext `veid`, which somebody has since `made_ns`.
    pub fn met(&mut self, veid: u8, made_ns: u64) {
        if let Some(client) = self.clients.get_mut(usize::from(veid)) {
            if client.made != low(made_ns) {
                client.until = 0;
            }
        }
    }

    /// Whether a fault's client has turns.
    fn stands(&self, f: &Fault, round: u64) -> bool {
        let client = usize::try_from(f.space).ok();
        let client = client.and_then(|at| self.clients.get(at));
        client.is_some_and(|c| round < c.until)
    }

    /// Says whose turn it is with `round`, whose first faults these are. The subcontext that has it.
    pub fn choose(&mut self, round: u64, faults: &[Fault]) -> Option<u32> {
        if self.goes_on(round, faults) {
            return self.turn.map(|t| t.space);
        }
        self.turn = self.next(round, faults);
        let Some(turn) = self.turn else {
            self.unused = self.unused.saturating_add(1);
            if self.unused >= LASTS_UNUSED {
                self.until = 0;
                for client in &mut self.clients {
                    client.until = 0;
                }
            }
            return None;
        };
        self.unused = 0;
        if let Some(client) = self.clients.get_mut(usize::try_from(turn.space).ok()?) {
            client.unit = turn.unit;
        }
        Some(turn.space)
    }

    /// The next turn: of the next client in order, or else the first, and so of its units.
    fn next(&self, round: u64, faults: &[Fault]) -> Option<Turn> {
        let theirs = || faults.iter().filter(|f| self.stands(f, round));
        let spaces = || theirs().map(|f| f.space);
        let now = self.turn.map(|t| t.space);
        let next = spaces().filter(|&s| now.is_some_and(|now| s > now)).min();
        let space = next.or_else(|| spaces().min())?;
        let last = self.clients.get(usize::try_from(space).ok()?)?.unit;
        let units = || theirs().filter(|f| f.space == space).map(Unit::of);
        let next = units().filter(|&u| u > last).min();
        let unit = next.or_else(|| units().min())?;
        Some(Turn {
            space,
            unit,
            rounds: 1,
            absent: 0,
        })
    }

    /// Whether the turn that is goes on.
    fn goes_on(&mut self, round: u64, faults: &[Fault]) -> bool {
        let Some(mut turn) = self.turn else {
            return false;
        };
        let is_its = |f: &&Fault| f.space == turn.space && Unit::of(f) == turn.unit;
        let its = faults.iter().find(is_its);
        if its.is_some_and(|f| !self.stands(f, round)) {
            return false;
        }
        turn.absent = match its {
            Some(_) => 0,
            None => turn.absent.saturating_add(1),
        };
        turn.rounds = turn.rounds.saturating_add(1);
        self.turn = Some(turn);
        turn.rounds <= TURN && turn.absent < ABSENT
    }

    /// So many faults may be served beside the one whose turn it is.
    pub fn leaves(&mut self, beside: u32) {
        self.beside = beside;
    }

    /// Whether a fault is served with `round`. One that is not comes again behind the replay.
    pub fn serves(&mut self, round: u64, f: &Fault) -> bool {
        let has_turn = |t: Turn| t.space == f.space && t.unit == Unit::of(f);
        if f.is_fatal || !self.stands(f, round) || self.turn.is_some_and(has_turn) {
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
        let served = |t: &mut Turns, round| {
            t.choose(round, &f);
            f.map(|f| t.serves(round, &f))
        };
        assert!(!t.are_taken(0) && !t.are_taken(5));
        assert_eq!(served(&mut t, 5), [true; 3]);
        assert!(t.begin(3, 9, 5) && !t.begin(3, 9, 6));
        assert!(t.are_taken(5 + LASTS) && !t.are_taken(6 + LASTS));
        assert_eq!(served(&mut t, 5 + LASTS), [false, true, true]);
        assert_eq!(served(&mut t, 6 + LASTS), [true; 3]);
        assert!(t.begin(3, 9, 6 + LASTS));
        t.met(3, 9);
        assert_eq!(served(&mut t, 7 + LASTS), [true, false, true]);
        // Somebody else, who did nothing.
        t.met(3, 10);
        assert_eq!(served(&mut t, 8 + LASTS), [true; 3]);
        assert!(t.begin(3, 10, 8 + LASTS));
        // No such subcontext.
        assert!(!t.begin(64, 0, 8 + LASTS));
        t.met(64, 0);
        assert!(t.serves(8 + LASTS, &fault(64, 0, 0)));
    }

    #[test]
    fn turns_that_nobody_uses_are_over() {
        let mut t = Turns::new();
        t.begin(0, 1, 1);
        for round in 2..2 + LASTS_UNUSED {
            assert!(t.are_taken(round));
            assert_eq!(t.choose(round, &[fault(1, 0, 1)]), None);
        }
        assert!(!t.are_taken(2 + LASTS_UNUSED));
        t.begin(0, 1, 100);
        for round in 101..100 + LASTS {
            t.choose(round, &[fault(1, 0, 1)]);
            t.choose(round, &[fault(0, 0, 1)]);
        }
        assert!(t.are_taken(99 + LASTS));
    }

    /// Whose faults are served in a round.
    fn whose(t: &mut Turns, round: u64, faults: &[Fault]) -> Vec<(u32, u8)> {
        t.choose(round, faults);
        let served = faults.iter().filter(|f| t.serves(round, f));
        served.map(|f| (f.space, f.client.client)).collect()
    }

    #[test]
    fn a_turn_lasts_as_long_as_there_are_faults_but_not_for_ever() {
        let mut t = Turns::new();
        t.begin(0, 1, 1);
        let all = [fault(0, 2, 1), fault(0, 0, 2), fault(0, 1, 3)];
        let mut round = 1;
        for unit in [1, 2, 0, 1] {
            for n in 1..=TURN {
                round += 1;
                assert_eq!(whose(&mut t, round, &all), [(0, unit)]);
                assert_eq!(t.by_chance(), n > TURN / 2);
            }
        }
        // Who has none for two rounds lets the next one have it; of one that is alone it begins again.
        for expected in [&[(0, 2)][..], &[], &[(0, 0)]] {
            round += 1;
            let some = if expected.is_empty() {
                &all[1..]
            } else {
                &all[..2]
            };
            assert_eq!(whose(&mut t, round, some), expected);
            if expected.is_empty() {
                round += 1;
                assert_eq!(whose(&mut t, round, some), [(0, 0)]);
            }
        }
        let mut lethal = fault(0, 1, 9);
        lethal.is_fatal = true;
        assert!(t.serves(round, &lethal));
    }

    #[test]
    fn turns_go_from_client_to_client() {
        let mut t = Turns::new();
        t.begin(0, 1, 1);
        t.begin(5, 1, 1);
        // One has many units, and the other's one is served as often.
        let all: Vec<Fault> = (0..9)
            .map(|u| fault(0, u, 1))
            .chain([fault(5, 0, 1)])
            .collect();
        let mut had = BTreeMap::new();
        for round in 2..2 + 18 * TURN {
            let served = whose(&mut t, round, &all);
            assert_eq!(served.len(), 1);
            *had.entry(served[0]).or_insert(0) += 1;
        }
        assert_eq!(had.remove(&(5, 0)), Some(9 * TURN));
        assert_eq!(had.len(), 9);
        assert!(had.values().all(|&n| n == TURN));
    }

    #[test]
    fn on_a_usual_memory_what_is_in_a_batch_is_served() {
        // 16 GiB, and a batch of NVIDIA's driver, nearly; and what one gets over SPAN rounds fits whatever the size.
        assert_eq!(beside(8192), 203);
        for chunks in 0..20_000 {
            assert!(beside(chunks) == 0 || (beside(chunks) + 1) * 40 <= chunks);
        }
        let mut t = Turns::new();
        t.begin(0, 1, 1);
        let f: Vec<Fault> = (0..9).map(|i| fault(0, i, i.into())).collect();
        t.choose(2, &f);
        t.leaves(beside(160));
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

    /// Serves warps on a memory of `chunks`, with turns or without, until all are done that fit there. The rounds that it takes, up to
    /// `most`.
    fn run(mut warps: Vec<Warp>, chunks: usize, turns: bool, most: u64) -> Option<u64> {
        let mut there: VecDeque<(u32, u64)> = VecDeque::new();
        let mut comings: BTreeMap<(u32, u64), Comings> = BTreeMap::new();
        let mut t = Turns::new();
        let mut chance = 1u64;
        for round in 1..=most {
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
            let taken = turns && t.are_taken(round);
            if taken {
                t.choose(round, &faults);
                t.leaves(beside(chunks as u32));
                faults.retain(|f| t.serves(round, f));
            }
            faults.sort_by_key(|f| (f.space, f.va));
            for f in faults {
                let block = (f.space, f.va >> 21);
                if there.contains(&block) {
                    continue;
                }
                if there.len() == chunks {
                    chance = chance
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    let by_chance = taken && t.by_chance();
                    let victim = if by_chance {
                        (chance >> 33) as usize % chunks
                    } else {
                        0
                    };
                    there.remove(victim);
                }
                there.push_back(block);
                let c = comings.entry(block).or_insert(Comings::NONE);
                if c.comes(round, (f.va >> 12 & 511) as u16) {
                    t.begin(f.space as u8, 1, round);
                }
            }
            for w in &mut warps {
                let has = |b: &u64| there.contains(&(w.space, *b));
                if w.accesses.front().is_some_and(|a| a.iter().all(has)) {
                    w.accesses.pop_front();
                }
            }
            warps.retain(|w| !w.accesses.is_empty());
            let fits = |w: &Warp| w.accesses.front().is_some_and(|a| a.len() <= chunks);
            if !warps.iter().any(fits) {
                return Some(round);
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
    fn beside_others_that_never_fit() {
        // One that needs seven of six chunks, and one with as many units as there are, each of which does.
        let never = |unit| warp(1, unit, 0..7, 1);
        let others = || (0..4).map(|u| warp(0, u, (0..3).map(|b| 3 * u64::from(u) + b), 5));
        let n = run(others().chain([never(0)]).collect(), 6, true, 20_000);
        assert!(n.is_some_and(|n| n < 2000), "{n:?}");
        let n = run(
            others().chain((0..64).map(never)).collect(),
            6,
            true,
            20_000,
        );
        assert!(n.is_some_and(|n| n < 2000), "{n:?}");
    }

    #[test]
    fn several_of_one_unit() {
        let same = |warps: Vec<Warp>| -> Vec<Warp> {
            warps.into_iter().map(|w| Warp { unit: 0, ..w }).collect()
        };
        assert_eq!(run(same(two(3, 1)), 4, false, 100_000), None);
        let n = run(same(two(3, 20)), 4, true, 20_000);
        assert!(n.is_some_and(|n| n < 2000), "{n:?}");
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
