// SPDX-License-Identifier: GPL-2.0
//! The last faults of no stream, and what steps are among them.
//!
//! A fault of no stream looks for a step at which it has predecessors. It may have as many steps as there are faults, and the
//! predecessors of each have to be found: those near enough are put into a table by block first, so that all of it takes a time
//! proportional to [`HISTORY`], not to its square. (`make bench EXP=scaling`, blocks touched by chance, `full-1` under `huvm`: 44.9 us of the
//! driver's time for a fault, 48.6 without the table.)

use super::{BlockNo, BlockSpan, StreamConfig};

/// Unexplained faults remembered.
pub(super) const HISTORY: usize = 64;
/// Of a range's blocks, one of so many faulted lately enough to be a step of a new stream.
const LATELY: u64 = 8;
/// The last faults of a range, among which steps may be in nearly any order. Further back they have to be in the right one, from so many
/// batches. (`tests/stream_trust.rs`, 3200 blocks: with nearly any order among 64, Zipf touches move 1.24 times as much.)
const JUMBLED: usize = 32;
const BATCHES: u32 = 3;
/// Places of the table by block: half of them are empty at least. A power of two.
const PLACES: usize = 2 * HISTORY;
const PLACE_BITS: u32 = PLACES.trailing_zeros();
const _: () = assert!(PLACES.is_power_of_two() && HISTORY < u8::MAX as usize);

/// A fault of no stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unexplained {
    pub(super) block: BlockNo,
    /// The batch that it came with.
    pub(super) batch: u64,
}

/// Faults of no stream, each block once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct History {
    /// A ring; the place before `next` has the newest.
    faults: [Option<Unexplained>; HISTORY],
    next: usize,
}

impl History {
    /// None.
    pub(super) const fn new() -> Self {
        History {
            faults: [None; HISTORY],
            next: 0,
        }
    }

    /// The step of a stream that `newest`, of the range `span`, makes with faults before it, and remembers it. `behind` is the step of the
    /// stream that it may be a straggler of.
    pub(super) fn find_step(
        &mut self,
        newest: Unexplained,
        span: &BlockSpan,
        config: &StreamConfig,
        behind: Option<i64>,
    ) -> Option<i64> {
        let lately = Lately::of(self, newest.block, span, config);
        let found = lately.find_step(newest, config, behind);
        // One that faults again and again came up with the first of these batches.
        let before = lately.find(newest.block);
        let before = before.filter(|(age, _)| *age < JUMBLED).map(|(_, u)| u);
        self.remember(before.unwrap_or(newest));
        found
    }

    /// Puts a fault into the history, as the newest.
    fn remember(&mut self, newest: Unexplained) {
        let same = |h: &&mut Option<Unexplained>| h.is_some_and(|u| u.block == newest.block);
        if let Some(h) = self.faults.iter_mut().find(same) {
            *h = None;
        }
        if let Some(h) = self.faults.get_mut(self.next) {
            *h = Some(newest);
        }
        self.next = self
            .next
            .saturating_add(1)
            .checked_rem(HISTORY)
            .unwrap_or(0);
    }
}

/// A fault of a range that counts for a new stream.
#[derive(Clone, Copy, Default)]
struct Place {
    /// Where it is in the history.
    at: u8,
    /// Faults of the range since.
    age: u8,
}

/// Those of them that are near enough to a new fault to be on its way, the newest first.
struct Lately<'a> {
    faults: &'a [Option<Unexplained>; HISTORY],
    near: [Place; HISTORY],
    count: usize,
    /// Where each is in `near`, plus one, in the first of [`places`] that was free; 0: free.
    by_block: [u8; PLACES],
}

/// Where a block may be in a table by block, in order.
fn places(block: BlockNo) -> impl Iterator<Item = usize> {
    // The upper bits of a product with 2^64 over the golden ratio: numbers that follow one another come far apart (Knuth, vol. 3, 6.4).
    let hash = block.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PLACE_BITS);
    // CAST: below PLACES.
    let first = hash as usize;
    (0..PLACES).map(move |i| first.wrapping_add(i) & (PLACES - 1))
}

impl<'a> Lately<'a> {
    /// Those that count for a stream that comes to `block`.
    fn of(history: &'a History, block: BlockNo, span: &BlockSpan, config: &StreamConfig) -> Self {
        let length = config.length();
        let most = (span.len() / LATELY).max(length.into());
        let most = usize::try_from(most).unwrap_or(HISTORY);
        let reach = config.step_max().saturating_mul(length.into());
        let mut lately = Lately {
            faults: &history.faults,
            near: [Place::default(); HISTORY],
            count: 0,
            by_block: [0; PLACES],
        };
        let (newer, older) = history
            .faults
            .split_at_checked(history.next)
            .unwrap_or_default();
        let mut age = 0;
        for (faults, from) in [(newer, 0), (older, history.next)] {
            for (i, fault) in faults.iter().enumerate().rev() {
                let Some(u) = fault.filter(|u| span.contains(u.block)) else {
                    continue;
                };
                if age >= most {
                    return lately;
                }
                if u.block.0.abs_diff(block.0) <= reach {
                    lately.push(i.saturating_add(from), age, u.block);
                }
                age = age.saturating_add(1);
            }
        }
        lately
    }

    /// The next older one.
    fn push(&mut self, at: usize, age: usize, block: BlockNo) {
        let Some(to) = self.near.get_mut(self.count) else {
            return;
        };
        // CAST: both below HISTORY.
        (to.at, to.age) = (at as u8, age as u8);
        self.count = self.count.saturating_add(1);
        let free = places(block).find(|p| self.by_block.get(*p) == Some(&0));
        if let Some(n) = free.and_then(|p| self.by_block.get_mut(p)) {
            // CAST: HISTORY at most.
            *n = self.count as u8;
        }
    }

    /// One of them, and its age.
    fn get(&self, n: usize) -> Option<(usize, Unexplained)> {
        let place = self.near.get(n).filter(|_| n < self.count)?;
        let fault = self.faults.get(usize::from(place.at)).copied().flatten()?;
        Some((place.age.into(), fault))
    }

    /// The fault on a block, and its age.
    fn find(&self, block: BlockNo) -> Option<(usize, Unexplained)> {
        for p in places(block) {
            let n = usize::from(*self.by_block.get(p)?).checked_sub(1)?;
            let (age, u) = self.get(n)?;
            if u.block == block {
                return Some((age, u));
            }
        }
        None
    }

    /// The shortest step at which a fault has enough predecessors; of two the one upwards. `behind` is the step of the stream
    /// that it may be a straggler of, if there is one: only a step the other way counts then.
    fn find_step(
        &self,
        newest: Unexplained,
        config: &StreamConfig,
        behind: Option<i64>,
    ) -> Option<i64> {
        let length = config.length();
        let mut best: Option<i64> = None;
        for (_, u) in (0..self.count).map_while(|n| self.get(n)) {
            let step = u.block.distance(newest.block);
            let Some(step) = step.filter(|d| config.allows(*d)) else {
                continue;
            };
            let shorter =
                best.is_none_or(|b| (step.unsigned_abs(), step < 0) < (b.unsigned_abs(), b < 0));
            let other_way = behind.is_none_or(|s| (s < 0) != (step < 0));
            if shorter && other_way && self.has_run(newest, step, length) {
                best = Some(step);
            }
        }
        best
    }

    /// True if the `length` blocks at this step before `newest` are all here, not all of its batch, and not in the wrong order
    /// throughout; if they go back further than [`JUMBLED`], in strict order, from [`BATCHES`] batches at least.
    fn has_run(&self, newest: Unexplained, step: i64, length: u32) -> bool {
        let (mut in_order, mut strict) = (length == 1, true);
        let (mut newer, mut batch, mut batches) = (None, newest.batch, 1_u32);
        let mut oldest = 0;
        for i in 1..=u64::from(length) {
            let before = step
                .checked_neg()
                .and_then(|back| newest.block.step(back, i));
            let Some((age, u)) = before.and_then(|b| self.find(b)) else {
                return false;
            };
            in_order |= newer.is_some_and(|n| n < age);
            strict &= newer.is_none_or(|n| n < age);
            batches = batches.saturating_add(u32::from(u.batch != batch));
            (newer, batch, oldest) = (Some(age), u.batch, age.max(oldest));
        }
        if oldest < JUMBLED {
            in_order && batches > 1
        } else {
            strict && batches >= BATCHES
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::StreamMode;
    use super::*;
    use proptest::prelude::*;

    /// What a history says, by looking through all of it for each question.
    #[derive(Default)]
    struct Model(Vec<Unexplained>);

    impl Model {
        fn find_step(
            &mut self,
            newest: Unexplained,
            span: &BlockSpan,
            config: &StreamConfig,
            behind: Option<i64>,
        ) -> Option<i64> {
            let most = (span.len() / LATELY).max(config.confirm.into()) as usize;
            let here = self.0.iter().filter(|u| span.contains(u.block));
            let lately: Vec<Unexplained> = here.take(most).copied().collect();
            let find = |block| lately.iter().position(|u| u.block == block);
            let is_run = |step: i64| {
                let back = (1..=u64::from(config.confirm)).map(|i| newest.block.step(-step, i));
                let ages: Option<Vec<usize>> = back.map(|b| find(b?)).collect();
                let Some(ages) = ages else { return false };
                let batches = ages.iter().map(|a| lately[*a].batch);
                let batches: Vec<u64> = [newest.batch].into_iter().chain(batches).collect();
                let changes = batches.windows(2).filter(|b| b[0] != b[1]).count();
                let rises = ages.windows(2).filter(|a| a[0] < a[1]).count();
                if ages.iter().all(|a| *a < JUMBLED) {
                    (ages.len() == 1 || rises > 0) && changes > 0
                } else {
                    rises + 1 == ages.len() && changes + 1 >= BATCHES as usize
                }
            };
            let steps = lately
                .iter()
                .map(|u| u.block.distance(newest.block).unwrap());
            let steps = steps.filter(|s| config.allows(*s));
            let steps = steps.filter(|s| behind.is_none_or(|b| (b < 0) != (*s < 0)));
            let found = steps
                .filter(|s| is_run(*s))
                .min_by_key(|s| (s.unsigned_abs(), *s < 0));
            let before = find(newest.block).filter(|age| *age < JUMBLED);
            let newest = before.map_or(newest, |age| lately[age]);
            // A place that is taken out stays empty until the ring comes round.
            self.0.retain(|u| u.block != newest.block);
            self.0.insert(0, newest);
            found
        }
    }

    fn config(mode: StreamMode, step: u32, confirm: u32) -> StreamConfig {
        StreamConfig {
            mode,
            amount: 16,
            together: u32::MAX,
            stride: step,
            stride_max: step,
            streams: 16,
            confirm,
            cycles: false,
        }
    }

    /// Faults: fronts that go on at their own steps, and touches by chance.
    fn faults() -> impl Strategy<Value = Vec<(u8, u64)>> {
        prop::collection::vec((0u8..8, 0u64..200), 1..HISTORY)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]

        /// Catches a fault that the table by block loses, one of another age, and a step that is further than what is put there.
        #[test]
        fn the_table_by_block_and_a_search_agree(
            faults in faults(),
            next_line in any::<bool>(),
            step in 1u32..70,
            confirm in 1u32..5,
            batch in 1u64..12,
            behind in prop::option::of(-3i64..=3),
        ) {
            let mode = if next_line { StreamMode::NextLine } else { StreamMode::Stride };
            let config = config(mode, step, confirm);
            let spans = [(1000, 1600), (5000, 5200)].map(|(first, end)| BlockSpan {
                first: BlockNo(first),
                end: BlockNo(end),
            });
            let (mut history, mut model) = (History::new(), Model::default());
            let mut fronts = [0u64, 100, 190, 50];
            for (n, (who, at)) in (0u64..).zip(faults) {
                let at = match fronts.get_mut(usize::from(who)) {
                    Some(front) => {
                        *front += u64::from(who) + 1;
                        *front
                    }
                    None => at,
                };
                let span = spans[usize::from(who == 7)];
                let newest = Unexplained {
                    block: BlockNo(span.first.0 + at % span.len()),
                    batch: n / batch,
                };
                let behind = behind.filter(|_| who == 5);
                let found = history.find_step(newest, &span, &config, behind);
                prop_assert_eq!(found, model.find_step(newest, &span, &config, behind));
                let (newer, older) = history.faults.split_at(history.next);
                let all = newer.iter().rev().chain(older.iter().rev());
                prop_assert!(all.flatten().eq(model.0.iter()));
            }
        }
    }

    /// Catches an older fault that is not found since the table is full there, and one that goes on counting once it was overwritten.
    #[test]
    fn all_of_a_full_history_is_found_and_nothing_else() {
        let span = BlockSpan {
            first: BlockNo(0),
            end: BlockNo(1 << 20),
        };
        let config = config(StreamMode::Stride, u32::MAX, 3);
        // All of them have the same first place in the table.
        let first = |b: &BlockNo| places(*b).next();
        let crowd = (0..1 << 20)
            .map(BlockNo)
            .filter(|b| first(b) == Some(PLACES - 2));
        let crowd: Vec<BlockNo> = crowd.take(HISTORY + 1).collect();
        let mut history = History::new();
        for block in &crowd {
            let newest = Unexplained {
                block: *block,
                batch: 1,
            };
            let _step = history.find_step(newest, &span, &config, None);
        }
        let lately = Lately::of(&history, crowd[0], &span, &config);
        assert_eq!(lately.find(crowd[0]).map(|f| f.0), None);
        for (age, block) in crowd.iter().skip(1).rev().enumerate() {
            assert_eq!(lately.find(*block).map(|f| f.0), Some(age));
        }
    }
}
