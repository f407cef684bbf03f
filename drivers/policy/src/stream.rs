// SPDX-License-Identifier: GPL-2.0
//! Streams of faulted blocks, and which blocks to fetch ahead of them.
//!
//! One [`StreamTable`] per VA space, under its lock. The memory manager tells it of every 2 MiB block that a GPU's demand
//! fault reached ([`StreamTable::fault`]); the [`Advice`] says which blocks to fetch ahead, if any, and whether to give
//! up the prefetch under way.
//!
//! - **Find.** Faults that belong to no stream go to a history of 64 blocks. If the newest has enough predecessors there
//!   at equal steps, a stream begins; of several steps the shortest wins, so arrays walked in lock-step are told apart
//!   as soon as each has a few faults of its own. Next-line mode allows one length of step, stride mode any up to a
//!   limit; both directions in both modes.
//! - **Follow.** A stream knows its last fault and how far it has been fetched ahead. A fault up to four steps past that
//!   continues it: what is resident already does not fault. So do faults on blocks fetched ahead but not there yet. Within a batch, which
//!   is sorted, it reaches no further than it did before, but for blocks side by side, or closer than touches by chance are to each other:
//!   any touches would be the next of it, one by one.
//! - **Fetch.** After each fault, up to the amount ahead of it, within the VA range, nothing twice. Where that is bounded by the
//!   memory, the streams of late share in it ([`StreamConfig::on`]). What the driver gave
//!   up it reports ([`StreamTable::abandoned`]), and is advised again with the next fault of that stream.
//! - **Bridge.** A row of blocks that is on the GPU already needs no fetching, and is gone over in no time; a caller who says so gets as
//!   many blocks beyond ([`StreamTable::beyond`]). So a stream goes on behind the part of a cycle that stays.
//! - **Again.** Where streams of cycles are followed, one that has come to the end of its range begins anew with the range's next fault
//!   of no stream: the next pass, from where something is missing.
//! - **Round.** One that did so, without a fault of another range in between, is taken to do so again: its steps go on from the end of
//!   the range to the beginning, so that the next pass is fetched ahead while this one ends. Where the program goes elsewhere first, what
//!   is fetched so early would leave again before it is used: its stream ends with the range, as all others.
//! - **Forget.** There are sixteen streams at most, eight on a small memory; a new one replaces the one confirmed longest ago.
//!   And one ends that faults of no stream just ahead of it show to be no better than chance ([`CREDIT`]): what a phase leaves behind.
//! - **Cancel.** A fault of no stream means that the GPU waits for something else: the prefetch under way is to stop at
//!   the next chunk boundary. Of a stream that has proven itself ([`Advice::proven`]) it need not, if the two have not to share an engine.
//!
//! **The hard case** is order. Faults of a batch arrive sorted by address and those of many SMs jumbled, so a block just
//! behind a stream's last fault is a straggler, not a new direction, until enough of them run the other way; and a run
//! found entirely in the wrong order of time (the leftover of a scan that went the other way) is no stream.
//!
//! The history has no time in it: whatever the pace, it holds the last 64 faults that are not explained, which are four steps of each
//! of sixteen streams that begin in lock-step. In a short range so many of them are equal steps by chance: of a range only as many
//! count as an eighth of its blocks. The chance that the four predecessors of a random fault at a given step are among those is 1/8
//! to the fourth, for the 64 steps that are tried 1.6 %. With more of them, of two batches of random faults much is in order, since
//! each is sorted: steps that go back further than 32 faults have to be in strict order, and of three batches.
//! And a batch is sorted, so it has an order whatever it is of: a stream has blocks of more than one. A block that faults again
//! while it counts came up with the first of its batches. (`tests/stream_trust.rs` has what that costs, pattern by pattern.)
//! What is left: in a memory of some 50 chunks, a handful of SMs that touch single pages by chance are still taken for streams
//! now and then, and whole blocks are fetched for them. Steps in strict order would cure that, but lose the streams of short
//! arrays walked in lock-step by many SMs (triad at 1.5 times 128 MiB: 30 ms, then 40).
//!
//! Rejected: a state machine per unconfirmed pair of faults, which takes three interleaved arrays for one stream with a
//! step of their distance and never finds out; a table by faulting SM, which the fault packet names too coarsely.

mod history;

use self::history::{History, Unexplained};
use crate::config::{KnobId, Policy};
use crate::types::BLOCK_SHIFT;

/// No more than this part of the memory is fetched ahead, by all streams together.
const STREAM_PART: u32 = 8;
/// But so many blocks by each: one on its way, and one to go on with. (With three, ATAX at 1.5 times 72 chunks gained 7 %, and stream-triad
/// and MVT lost 14 and 20.)
const EACH_LEAST: u32 = 2;
/// A stream shares in that if it was confirmed within so many faults.
const LIVELY: u64 = 64;
/// Streams followed at most.
pub const STREAMS_MAX: usize = 16;
/// And where they share in what is less than the whole amount for each: more of them would each have less. (`make bench EXP=inter-job`,
/// louvain of case 3 on 352 chunks: 16 streams take 16 % longer.)
const STREAMS_SMALL: u32 = 8;
/// Batches with a fault that followed it prove a stream.
const PROVEN: u32 = 4;
/// Steps past what was fetched ahead within which a fault still belongs to the stream. Chosen for this project, not measured
/// yet.
const GAP_STEPS: u64 = 4;
/// Blocks in a row that are there already, from which on a stream is followed beyond them. What is there by chance lies scattered:
/// with two thirds of the data on the GPU so many in a row are one case of five.
const BRIDGE_LEAST: u32 = 4;
/// Steps behind the last fault within which a fault is a straggler, but no more than a quarter of the range: what is far
/// behind in a short one is the next pass over it. A launch walks on a front as wide as all that runs at
/// once, here 80 blocks of 192 KiB, and what is on its way to the back of it faults again with every batch: taken for no part
/// of the stream, that gave up the prefetch behind it.
const STRAGGLER_STEPS: u64 = 16;
/// Steps of a range for each step that a stream takes within a batch where it no longer reaches; what is in view at most. A batch of
/// 80 faults by chance has one for each 80th of the range. (With side by side alone wcc of case 4, `make bench EXP=inter-job`, takes 264 ms
/// for 202, with 84 % of the link in use for 96: the front of it is wider than what is ahead, and has holes. With three everywhere, 1.5
/// times of what is wanted moved after a scan of a short range: `tests/stream_trust.rs`.)
const APART: u64 = 64;
/// Blocks past what belongs to a stream in which a fault of no stream speaks against it, and what it takes of the stream's credit.
/// A stream has [`CREDIT`] when it begins and one more for each fault that it foresaw, up to twice as much: the end of a phase
/// costs no more than some batches, however long it was.
const BESIDE: u64 = 32;
const BESIDE_COST: u32 = 4;
const CREDIT: u32 = 32;

/// A 2 MiB block: virtual address / 2 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockNo(pub u64);

impl BlockNo {
    /// The block that a virtual address lies in.
    pub const fn of_va(va: u64) -> Self {
        Self(va >> BLOCK_SHIFT)
    }

    /// `to - self` in blocks; `None` if that is no `i64`.
    fn distance(self, to: Self) -> Option<i64> {
        let length = i64::try_from(self.0.abs_diff(to.0)).ok()?;
        Some(if to < self { -length } else { length })
    }

    /// The block `steps` steps further.
    fn step(self, step: i64, steps: u64) -> Option<Self> {
        let far = step.checked_mul(i64::try_from(steps).ok()?)?;
        self.0.checked_add_signed(far).map(Self)
    }
}

/// The blocks of a VA range: `first` up to, not including, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSpan {
    /// First block.
    pub first: BlockNo,
    /// Block after the last.
    pub end: BlockNo,
}

impl BlockSpan {
    /// True if `block` is one of them.
    pub fn contains(&self, block: BlockNo) -> bool {
        self.first <= block && block < self.end
    }

    /// Number of blocks.
    const fn len(&self) -> u64 {
        self.end.0.saturating_sub(self.first.0)
    }

    /// Steps that can be taken from `block`, which is in the span, without leaving it.
    fn steps_left(&self, block: BlockNo, step: i64) -> u64 {
        let room = if step < 0 {
            block.0.saturating_sub(self.first.0)
        } else {
            self.end.0.saturating_sub(1).saturating_sub(block.0)
        };
        room.checked_div(step.unsigned_abs()).unwrap_or(0)
    }
}

/// How streams are recognised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum StreamMode {
    /// Not at all.
    #[default]
    Off = 0,
    /// By steps of one length, up or down.
    NextLine = 1,
    /// By equal steps of any length up to a limit.
    Stride = 2,
}

/// The knobs of stream prefetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamConfig {
    /// How streams are recognised.
    pub mode: StreamMode,
    /// Blocks fetched ahead of the last fault.
    pub amount: u32,
    /// Blocks that all streams share in, but for a few each.
    pub together: u32,
    /// Step of [`StreamMode::NextLine`], in blocks; zero is taken for one.
    pub stride: u32,
    /// Longest step of [`StreamMode::Stride`], in blocks.
    pub stride_max: u32,
    /// Streams followed at once, 1 to [`STREAMS_MAX`]; clipped.
    pub streams: u32,
    /// Equal steps in a row that make a stream; zero is taken for one.
    pub confirm: u32,
    /// A stream that came to the end of its range begins anew with the next fault there that is of no stream.
    pub cycles: bool,
}

impl StreamConfig {
    /// As a policy has them.
    pub fn of(policy: &Policy) -> Self {
        let blocks = |id| policy.get_u32(id) >> (BLOCK_SHIFT - 20);
        Self {
            mode: match policy.get(KnobId::StreamMode) {
                1 => StreamMode::NextLine,
                2 => StreamMode::Stride,
                _ => StreamMode::Off,
            },
            amount: blocks(KnobId::StreamAmount),
            together: u32::MAX,
            stride: blocks(KnobId::StreamStride),
            stride_max: blocks(KnobId::StreamStrideMax),
            streams: policy.get_u32(KnobId::StreamCount),
            confirm: policy.get_u32(KnobId::StreamConfirm),
            cycles: policy.is_on(KnobId::StreamCycles),
        }
    }

    /// The same on a GPU of so many chunks: all streams together have an eighth of it ahead. That is no bound on 4 GiB or more, where 16
    /// streams of 32 MiB are less. On a small one half of 16 blocks ahead in 64 chunks left before they were used; and where a part of a
    /// cycle is kept, what is ahead takes room from that: three streams that each had an eighth left a third of 64 to keep.
    pub fn on(self, chunks: u32) -> Self {
        let most = (chunks / STREAM_PART).max(1);
        let whole = most.checked_div(self.amount).unwrap_or(most);
        Self {
            amount: self.amount.min(most),
            together: most,
            streams: self.streams.min(whole.max(STREAMS_SMALL)),
            ..self
        }
    }

    /// Blocks that all streams together may have fetched ahead, at most.
    pub fn ahead_max(&self) -> u32 {
        if self.mode == StreamMode::Off {
            return 0;
        }
        // CAST: narrowing of 16.
        let streams = self.streams.min(STREAMS_MAX as u32);
        let all = self.amount.saturating_mul(streams);
        all.min(self.together.max(EACH_LEAST.saturating_mul(streams)))
    }

    /// How far ahead each of so many streams is fetched.
    fn each(&self, streams: u32) -> u32 {
        let share = self.together.checked_div(streams).unwrap_or(u32::MAX);
        self.amount.min(share.max(EACH_LEAST))
    }

    /// Equal steps that make a stream.
    fn length(&self) -> u32 {
        self.confirm.max(1)
    }

    /// Longest step that a stream may have, in blocks.
    fn step_max(&self) -> u64 {
        match self.mode {
            StreamMode::Off => 0,
            StreamMode::NextLine => self.stride.max(1).into(),
            StreamMode::Stride => self.stride_max.into(),
        }
    }

    /// True if a stream may have this step.
    fn allows(&self, step: i64) -> bool {
        let length = step.unsigned_abs();
        match self.mode {
            StreamMode::Off => false,
            StreamMode::NextLine => length == self.step_max(),
            StreamMode::Stride => length != 0 && length <= self.step_max(),
        }
    }
}

/// Names a stream in reports. One that has been replaced meanwhile is known to be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamId {
    slot: u8,
    born: u64,
}

/// Blocks to fetch ahead, the nearest first: `count` of them, each `step` after the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRun {
    /// The stream that they are ahead of.
    pub stream: StreamId,
    /// First block.
    pub first: BlockNo,
    /// Distance in blocks; negative for a stream that runs down. Not zero.
    pub step: i64,
    /// Number of blocks, one or more.
    pub count: u32,
}

impl BlockRun {
    /// The blocks in order.
    pub fn blocks(&self) -> impl Iterator<Item = BlockNo> {
        let Self {
            first, step, count, ..
        } = *self;
        (0..u64::from(count)).filter_map(move |i| first.step(step, i))
    }
}

/// What follows from a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Advice {
    /// Blocks to fetch ahead.
    pub run: Option<BlockRun>,
    /// The fault belongs to no stream: give up the prefetch under way at the next chunk boundary.
    pub cancel: bool,
    /// The block had been advised for prefetch: it came late, or was lost before it was used.
    pub expected: bool,
    /// Blocks that the stream went over since its last fault, without a fault there; some may not have been advised. The second
    /// run is of the next pass.
    pub passed: [Option<BlockRun>; 2],
    /// The stream writes what it goes over.
    pub writes: bool,
    /// What is fetched ahead is not by chance: its stream has been followed, for the most part. The next fault of no stream says nothing
    /// about it.
    pub proven: bool,
}

/// What became of a block that was fetched ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was there when it was first used.
    Useful,
    /// It was asked for while it was on its way.
    Late,
    /// It was evicted or freed before it was used.
    Wasted,
}

/// Blocks, counted since the table was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// Advised for prefetch.
    pub advised: u64,
    /// Given up before the copy began.
    pub abandoned: u64,
    /// There when first used.
    pub useful: u64,
    /// Asked for while on the way.
    pub late: u64,
    /// Evicted or freed before use.
    pub wasted: u64,
    /// Streams found.
    pub streams: u64,
}

impl StreamCounts {
    /// Blocks advised that nobody has reported on yet.
    pub const fn open(&self) -> u64 {
        self.advised
            .saturating_sub(self.abandoned)
            .saturating_sub(self.useful)
            .saturating_sub(self.late)
            .saturating_sub(self.wasted)
    }
}

/// One stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stream {
    span: BlockSpan,
    /// The fault furthest along.
    last: BlockNo,
    /// Not zero.
    step: i64,
    /// Steps past `last` advised for prefetch.
    ahead: u32,
    /// Of the furthest of these, how many in a row were on the GPU already, and beyond how many of them it was followed.
    there: u32,
    bridged: u32,
    /// The last such row: how long it is, and how many steps past `last` it ends. What is in it needs no fetching, so that as much more
    /// is ahead.
    row: u32,
    row_end: u32,
    /// How far ahead it is to be fetched, as its last fault had it.
    amount: u32,
    /// Of the next pass, blocks that are advised and not handed out yet: a run does not go round.
    owed: u32,
    /// Its passes follow each other: steps past the end of the range go on from its beginning.
    round: bool,
    /// Faults of other ranges since its last. With any, its next pass does not follow this one: where several arrays are walked in
    /// lock-step, the next pass is often over others of them, and all would be fetched ahead at once.
    elsewhere: u32,
    /// Of this pass, a block was written.
    writes: bool,
    /// Where it was found, or this pass began.
    begun: BlockNo,
    /// Faults in its range since that were of no stream.
    strays: u32,
    /// Faults since that were of this one, stragglers among them.
    followed: u32,
    /// For what it foresaw, less what else was around it. None is left of a stream that is no better than chance.
    credit: u32,
    /// Steps past `last` that are its own, for the batch that was last seen; and that batch. A batch is sorted: what moved on with each
    /// fault of it would find all of them in reach, whatever they are of.
    reach: u64,
    seen: u64,
    /// Of so many batches a fault followed it, counted up to [`PROVEN`], since it was last not trusted; and the last of them.
    proof: u32,
    batch: u64,
    /// Value of the table's clock when the stream began.
    born: u64,
    /// The same for its last fault.
    confirmed: u64,
}

/// Where a fault is, as a stream sees it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// So many steps past the last fault, 1 or more, and near enough.
    Ahead(u64),
    /// The last fault again, or a little behind it.
    Behind,
    /// Elsewhere.
    Elsewhere,
}

impl Stream {
    /// One that begins at `block`, with nothing fetched ahead.
    fn new(span: &BlockSpan, block: BlockNo, step: i64, now: u64) -> Self {
        Stream {
            span: *span,
            last: block,
            step,
            ahead: 0,
            there: 0,
            bridged: 0,
            row: 0,
            row_end: 0,
            amount: 0,
            owed: 0,
            round: false,
            elsewhere: 0,
            writes: false,
            begun: block,
            strays: 0,
            followed: 0,
            credit: CREDIT,
            reach: GAP_STEPS,
            seen: 0,
            proof: 0,
            batch: 0,
            born: now,
            confirmed: now,
        }
    }

    /// How many steps past the last fault a block is, which is a whole number of them away; less than none: behind it.
    fn steps_to(&self, block: BlockNo) -> Option<i64> {
        let distance = self.last.distance(block)?;
        // The step is not zero; -1 and the smallest number, whose quotient does not exist, give no answer.
        let whole = distance.checked_rem(self.step) == Some(0);
        distance.checked_div(self.step).filter(|_| whole)
    }

    /// The first block of its passes, and how many blocks each has.
    fn cycle(&self) -> (BlockNo, u64) {
        let back = self.step.saturating_neg();
        let before = self.span.steps_left(self.last, back);
        let first = self.last.step(back, before).unwrap_or(self.last);
        let blocks = before.saturating_add(self.left()).saturating_add(1);
        (first, blocks)
    }

    /// How far from the last fault it looks ahead, at most, where it goes round: not so far that what is ahead is behind as well.
    fn horizon(&self) -> u64 {
        let (_, blocks) = self.cycle();
        blocks.saturating_sub(self.front().saturating_add(GAP_STEPS).saturating_add(1))
    }

    /// As [`Self::steps_to`], round the end of the range if it goes round and that is nearer.
    fn steps_round(&self, block: BlockNo) -> Option<i64> {
        let steps = self.steps_to(block)?;
        if !self.round || !self.span.contains(block) {
            return Some(steps);
        }
        let blocks = i64::try_from(self.cycle().1).ok()?;
        let other = if steps < 0 {
            steps.saturating_add(blocks)
        } else {
            steps.saturating_sub(blocks)
        };
        Some(if !self.is_near(steps) && self.is_near(other) {
            other
        } else {
            steps
        })
    }

    /// Whether a block so many steps past the last fault, or behind it, is this stream's.
    fn is_near(&self, steps: i64) -> bool {
        let reach = if steps > 0 {
            self.reach.max(self.apart())
        } else {
            self.front()
        };
        steps.unsigned_abs() <= reach
    }

    /// So many steps past the last fault it has fetched ahead, and a little more.
    fn in_view(&self) -> u64 {
        GAP_STEPS.saturating_add(self.ahead.into())
    }

    /// A fault of `batch` is looked at. With the first one of each it reaches as far as is in view by then; not with one of a batch before,
    /// as when another GPU's comes in between.
    fn look(&mut self, batch: u64) {
        if self.seen < batch {
            (self.seen, self.reach) = (batch, self.in_view());
        }
    }

    /// Whether `block`, which is not its own, is a little further on than it reaches.
    fn is_beside(&self, block: BlockNo) -> bool {
        let Some(distance) = self.last.distance(block) else {
            return false;
        };
        let own = self.reach.saturating_mul(self.step.unsigned_abs());
        (distance < 0) == (self.step < 0) && distance.unsigned_abs() <= own.saturating_add(BESIDE)
    }

    /// A fault of no stream was at `block`. Whether what this one follows is what is around it anyway.
    fn is_chance(&mut self, block: BlockNo) -> bool {
        if self.is_beside(block) {
            self.credit = self.credit.saturating_sub(BESIDE_COST);
        }
        self.credit == 0
    }

    /// Where `block` is.
    fn see(&self, block: BlockNo, span: &BlockSpan) -> Seen {
        let steps = self.steps_round(block).filter(|_| self.span == *span);
        match steps.filter(|n| self.is_near(*n)) {
            Some(n) if n > 0 => Seen::Ahead(n.unsigned_abs()),
            Some(_) => Seen::Behind,
            None => Seen::Elsewhere,
        }
    }

    /// Whether it comes to `block` within `more` steps of what is advised, or was there lately.
    fn comes_to(&self, block: BlockNo, more: u32) -> bool {
        let Some(steps) = self
            .steps_round(block)
            .filter(|_| self.span.contains(block))
        else {
            return false;
        };
        let reach = u64::from(self.ahead).saturating_add(more.into());
        let bound = if steps > 0 { reach } else { self.front() };
        steps.unsigned_abs() <= bound
    }

    /// The blocks between the last fault and one `steps` past it: of this pass, and of the next.
    fn between(&self, slot: usize, steps: u64) -> [Option<BlockRun>; 2] {
        let left = self.left();
        let all = u64::from(u32::try_from(steps).unwrap_or(0)).saturating_sub(1);
        let this = all.min(left);
        let part = |nearest, count| {
            let (slot, count) = (u8::try_from(slot).ok()?, u32::try_from(count).ok()?);
            self.run(slot, nearest, count)
        };
        [
            part(1, this),
            part(left.saturating_add(1), all.saturating_sub(this)),
        ]
    }

    /// Steps to the end of the range.
    fn left(&self) -> u64 {
        self.span.steps_left(self.last, self.step)
    }

    /// `count` blocks from the one `nearest` steps past the last fault on; `None` if that is none. All of them are on this side of the
    /// range's end, or all on the other.
    fn run(&self, slot: u8, nearest: u64, count: u32) -> Option<BlockRun> {
        let first = match nearest.checked_sub(self.left().saturating_add(1)) {
            Some(over) if self.round => self.cycle().0.step(self.step, over),
            _ => self.last.step(self.step, nearest),
        };
        let first = first.filter(|_| count != 0)?;
        Some(BlockRun {
            stream: StreamId {
                slot,
                born: self.born,
            },
            first,
            step: self.step,
            count,
        })
    }

    /// How far behind the last fault a straggler can be, in steps.
    fn front(&self) -> u64 {
        (self.steps() / 4).clamp(GAP_STEPS, STRAGGLER_STEPS)
    }

    /// How far apart blocks of one batch are its own, in steps.
    fn apart(&self) -> u64 {
        (self.steps() / APART).clamp(1, self.in_view())
    }

    /// Steps of its range.
    fn steps(&self) -> u64 {
        let steps = self.span.len().checked_div(self.step.unsigned_abs());
        steps.unwrap_or(0)
    }

    /// Takes the fault `steps` past the last one. True if that block had been advised.
    fn advance(&mut self, block: BlockNo, steps: u64, now: u64) -> bool {
        let expected = steps <= u64::from(self.ahead);
        if steps > self.left() {
            // The next pass, unless this one looked like chance.
            self.round = self.elsewhere == 0 && self.is_trusted();
            (self.begun, self.strays, self.followed) = (self.cycle().0, 0, 0);
            self.writes = false;
        }
        if steps <= self.reach {
            self.credit = self.credit.saturating_add(1).min(2 * CREDIT);
        }
        self.reach = self.reach.saturating_sub(steps);
        self.elsewhere = 0;
        self.last = block;
        self.followed = self.followed.saturating_add(1);
        self.confirmed = now;
        let less = |n: u32| u32::try_from(u64::from(n).saturating_sub(steps)).unwrap_or(0);
        self.ahead = less(self.ahead);
        self.row_end = less(self.row_end);
        self.row = self.row.min(self.row_end);
        expected
    }

    /// A fault of `batch` followed it. Those of one batch are sorted, and prove nothing together.
    fn prove(&mut self, batch: u64) {
        if !self.is_trusted() {
            self.proof = 0;
        } else if self.batch < batch {
            self.proof = self.proof.saturating_add(1).min(PROVEN);
        }
        self.batch = self.batch.max(batch);
    }

    /// Whether it is one, and not there by chance.
    fn is_proven(&self) -> bool {
        self.proof == PROVEN
    }

    /// At most half as many faults of its range were of no stream as were its own.
    fn is_trusted(&self) -> bool {
        self.strays.saturating_mul(2) <= self.followed
    }

    /// Whether it went over at least half of its range, all up to the end is fetched ahead, and `block` is about where this pass began:
    /// not further on than a quarter of the range. Accesses by chance make such a pass too, on a small memory; but two of three of
    /// their faults are of no stream.
    fn begins_again(&self, block: BlockNo, span: &BlockSpan) -> bool {
        let blocks = |steps: u64| steps.saturating_mul(self.step.unsigned_abs());
        let ended = self.left() <= self.ahead.into();
        let begun = self.span.steps_left(self.begun, self.step);
        let now = self.span.steps_left(block, self.step);
        let length = span.len();
        self.span == *span
            && ended
            && self.is_trusted()
            && blocks(begun) >= length / 2
            && blocks(now) >= blocks(begun).saturating_sub(length / 4)
    }

    /// The blocks that are missing up to `amount` ahead; of the next pass only where `round`. Those beyond the end of the range are
    /// handed out after those before it: [`Self::owed`].
    fn extend(&mut self, slot: u8, amount: u32, round: bool) -> Option<BlockRun> {
        let left = self.left();
        let most = if round && self.round && self.is_trusted() {
            left.max(self.horizon())
        } else {
            left
        };
        let ahead = u64::from(self.ahead);
        let missing = most.min(amount.into()).checked_sub(ahead);
        let missing = missing.unwrap_or(0);
        let count = match left.checked_sub(ahead) {
            Some(before) if before != 0 => missing.min(before),
            _ => missing,
        };
        self.owed = u32::try_from(missing.saturating_sub(count)).ok()?;
        let count = u32::try_from(count).ok()?;
        let run = self.run(slot, ahead.saturating_add(1), count)?;
        self.ahead = self.ahead.saturating_add(count);
        Some(run)
    }
}

/// Streams, history and counts of one VA space. About 3 KiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamTable {
    streams: [Option<Stream>; STREAMS_MAX],
    /// Faults of no stream.
    history: History,
    /// Faults so far.
    clock: u64,
    counts: StreamCounts,
}

impl StreamTable {
    /// No streams.
    pub const fn new() -> Self {
        Self {
            streams: [None; STREAMS_MAX],
            history: History::new(),
            clock: 0,
            counts: StreamCounts {
                advised: 0,
                abandoned: 0,
                useful: 0,
                late: 0,
                wasted: 0,
                streams: 0,
            },
        }
    }

    /// A demand fault reached `block` of the range `span`, with others of the same `batch`: a number that
    /// grows from batch to batch. A block outside its span changes nothing. `writes`: some of the faults there were of writes.
    pub fn fault(
        &mut self,
        block: BlockNo,
        span: &BlockSpan,
        batch: u64,
        writes: bool,
        config: &StreamConfig,
    ) -> Advice {
        if config.mode == StreamMode::Off || !span.contains(block) {
            return Advice::default();
        }
        self.clock = self.clock.saturating_add(1);
        let now = self.clock;
        let slots = usize::try_from(config.streams).unwrap_or(STREAMS_MAX);
        let slots = slots.clamp(1, STREAMS_MAX);
        for gone in self.streams.iter_mut().skip(slots) {
            *gone = None;
        }

        let mut nearest: Option<(u64, usize)> = None;
        let mut behind: Option<i64> = None;
        for (i, s) in self.streams.iter_mut().enumerate() {
            let Some(s) = s else { continue };
            s.look(batch);
            s.elsewhere = s.elsewhere.saturating_add(u32::from(s.span != *span));
            match s.see(block, span) {
                Seen::Ahead(steps) if nearest.is_none_or(|(best, _)| steps < best) => {
                    nearest = Some((steps, i));
                }
                Seen::Behind => {
                    behind = Some(s.step);
                    s.writes |= writes;
                }
                _ => (),
            }
        }
        if let Some((steps, i)) = nearest {
            if let Some(s) = self.streams.get_mut(i).and_then(Option::as_mut) {
                let passed = s.between(i, steps);
                let expected = s.advance(block, steps, now);
                s.prove(batch);
                s.writes |= writes;
                return Advice {
                    writes: s.writes,
                    proven: s.is_proven(),
                    run: self.advise(i, config),
                    cancel: false,
                    expected,
                    passed,
                };
            }
        }

        if let Some(i) = self
            .again(block, span)
            .filter(|_| config.cycles && behind.is_none())
        {
            if let Some(Some(s)) = self.streams.get(i) {
                let next = Stream {
                    round: s.elsewhere == 0,
                    proof: s.proof,
                    seen: batch,
                    writes,
                    ..Stream::new(span, block, s.step, now)
                };
                return self.begin(i, next, config);
            }
        }

        for slot in &mut self.streams {
            let Some(s) = slot.as_mut().filter(|s| s.span == *span) else {
                continue;
            };
            if behind.is_none() {
                s.strays = s.strays.saturating_add(1);
                if s.is_chance(block) {
                    *slot = None;
                }
            } else {
                s.followed = s.followed.saturating_add(1);
            }
        }
        let newest = Unexplained { block, batch };
        let found = self.history.find_step(newest, span, config, behind);
        let Some(step) = found else {
            return Advice {
                run: None,
                cancel: behind.is_none(),
                ..Advice::default()
            };
        };
        let i = self.slot_for_new(slots);
        let stream = Stream {
            seen: batch,
            writes,
            ..Stream::new(span, block, step, now)
        };
        self.begin(i, stream, config)
    }

    /// The `left` furthest blocks advised for this stream were not fetched. They may be advised again.
    pub fn abandoned(&mut self, id: StreamId, left: u32) {
        let n = u64::from(left).min(self.counts.open());
        self.counts.abandoned = self.counts.abandoned.saturating_add(n);
        if let Some(Some(s)) = self.streams.get_mut(usize::from(id.slot)) {
            if s.born == id.born {
                s.ahead = s.ahead.saturating_sub(left);
            }
        }
    }

    /// What comes after the `count` blocks advised for this stream last, of which the `tail` furthest were there already: those of the
    /// next pass that were advised with them; else, where that makes [`BRIDGE_LEAST`] or more in a row, as many blocks behind them, as
    /// far as the range goes; and behind the row what is still missing of the amount.
    pub fn beyond(&mut self, id: StreamId, count: u32, tail: u32) -> Option<BlockRun> {
        let stream = self.streams.get_mut(usize::from(id.slot));
        let s = stream
            .and_then(Option::as_mut)
            .filter(|s| s.born == id.born)?;
        if tail < count {
            (s.there, s.bridged) = (0, 0);
        }
        s.there = s.there.saturating_add(tail);
        if s.owed != 0 {
            // These are counted.
            return s.extend(id.slot, s.ahead.saturating_add(s.owed), true);
        }
        if s.there < BRIDGE_LEAST && (s.row == 0 || !s.is_trusted()) {
            return None;
        }
        if s.there < BRIDGE_LEAST {
            // The row is over: beyond it as much is fetched ahead as without one.
            let run = s.extend(id.slot, s.amount.saturating_add(s.row), true);
            let more = run.map_or(0, |r| r.count).saturating_add(s.owed);
            self.counts.advised = self.counts.advised.saturating_add(more.into());
            return run;
        }
        (s.row, s.row_end) = (s.there, s.ahead);
        let more = s.there.saturating_sub(s.bridged);
        s.bridged = s.there;
        let amount = s.ahead.saturating_add(more);
        let run = s.extend(id.slot, amount, true);
        let found = run.map_or(0, |r| r.count).saturating_add(s.owed);
        let fewer = more.saturating_sub(found);
        let fewer = u64::from(fewer).min(self.counts.open());
        self.counts.advised = self.counts.advised.saturating_sub(fewer);
        run
    }

    /// What became of `blocks` blocks that had been advised. More than were advised are not counted.
    pub fn report(&mut self, outcome: Outcome, blocks: u64) {
        let n = blocks.min(self.counts.open());
        let count = match outcome {
            Outcome::Useful => &mut self.counts.useful,
            Outcome::Late => &mut self.counts.late,
            Outcome::Wasted => &mut self.counts.wasted,
        };
        *count = count.saturating_add(n);
    }

    /// What happened so far.
    pub const fn counts(&self) -> StreamCounts {
        self.counts
    }

    /// Whether a stream comes to `block` within `steps` steps of what it has fetched ahead, or is about there.
    pub fn comes_to(&self, block: BlockNo, steps: u32) -> bool {
        self.streams
            .iter()
            .flatten()
            .any(|s| s.comes_to(block, steps))
    }

    /// Number of streams followed now.
    pub fn len(&self) -> usize {
        self.streams.iter().flatten().count()
    }

    /// True if no stream is followed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The slot of the stream whose next pass begins at `block`; of several the one followed last.
    fn again(&self, block: BlockNo, span: &BlockSpan) -> Option<usize> {
        let streams = self.streams.iter().enumerate();
        streams
            .filter_map(|(i, s)| Some((i, s.filter(|s| s.begins_again(block, span))?)))
            .max_by_key(|(_, s)| s.confirmed)
            .map(|(i, _)| i)
    }

    /// A stream begins, in slot `i`.
    fn begin(&mut self, i: usize, stream: Stream, config: &StreamConfig) -> Advice {
        if let Some(s) = self.streams.get_mut(i) {
            *s = Some(stream);
        }
        self.counts.streams = self.counts.streams.saturating_add(1);
        Advice {
            writes: stream.writes,
            proven: stream.is_proven(),
            run: self.advise(i, config),
            ..Advice::default()
        }
    }

    /// Extends the stream in slot `i`.
    fn advise(&mut self, i: usize, config: &StreamConfig) -> Option<BlockRun> {
        let lively = |s: &&Stream| self.clock.saturating_sub(s.confirmed) < LIVELY;
        let lively = self.streams.iter().flatten().filter(lively).count();
        let s = self.streams.get_mut(i)?.as_mut()?;
        let before = s.owed;
        s.amount = config.each(u32::try_from(lively).unwrap_or(u32::MAX));
        let row = if s.is_trusted() { s.row } else { 0 };
        let amount = s.amount.saturating_add(row);
        let run = s.extend(u8::try_from(i).ok()?, amount, config.cycles);
        let now = run.map_or(0, |r| r.count).saturating_add(s.owed);
        let advised = self.counts.advised.saturating_add(now.into());
        self.counts.advised = advised.saturating_sub(before.into());
        run
    }

    /// The slot for a new stream: a free one of the first `slots`, else that of the one confirmed longest ago.
    fn slot_for_new(&self, slots: usize) -> usize {
        let key = |s: &Option<Stream>| s.map_or(0, |s| s.confirmed);
        let slots = self.streams.iter().take(slots).enumerate();
        slots.min_by_key(|(_, s)| key(s)).map_or(0, |(i, _)| i)
    }
}

impl Default for StreamTable {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_memory_is_fetched_ahead_of_by_less() {
        let amount = |chunks| StreamConfig::of(&Policy::new()).on(chunks).amount;
        assert_eq!([3, 64, 127, 128, 8192].map(amount), [1, 8, 15, 16, 16]);
    }

    /// Catches three streams that each have as much ahead as one alone, and a share for one that is over.
    #[test]
    fn streams_share_what_the_memory_has_room_for() {
        let mut p = Policy::new();
        p.set(KnobId::StreamMode, 2).unwrap();
        let small = StreamConfig::of(&p).on(64);
        assert_eq!((small.amount, small.together), (8, 8));
        assert_eq!([1, 2, 3, 8].map(|n| small.each(n)), [8, 4, 2, 2]);
        assert_eq!((small.streams, small.ahead_max()), (8, 16));
        let large = StreamConfig::of(&p).on(8192);
        assert_eq!([1, 16].map(|n| large.each(n)), [16, 16]);
        assert_eq!((large.streams, large.ahead_max()), (16, 256));
        let of = |chunks| StreamConfig::of(&p).on(chunks).streams;
        assert_eq!([1, 1151, 1152, 2047, 2048].map(of), [8, 8, 9, 15, 16]);
        // Three thirds of a range in lock-step, then one of them alone.
        let span = BlockSpan {
            first: BlockNo(0),
            end: BlockNo(3000),
        };
        let mut t = StreamTable::new();
        for b in 0..20 {
            for third in 0..3 {
                t.fault(BlockNo(1000 * third + b), &span, b, false, &small);
            }
        }
        let amounts = |t: &StreamTable| {
            let all: Vec<_> = t.streams.iter().flatten().collect();
            all.iter().map(|s| (s.amount, s.ahead)).collect::<Vec<_>>()
        };
        assert_eq!(t.len(), 3);
        assert_eq!(amounts(&t)[1..], [(2, 2), (2, 2)]);
        for b in 20..100 {
            t.fault(BlockNo(b), &span, b, false, &small);
        }
        assert_eq!(amounts(&t)[0], (8, 8));
    }

    /// Catches blocks ahead of a stream that writes, kept on the host for nothing; and one that does so for ever.
    #[test]
    fn a_stream_that_writes_says_so_for_the_rest_of_its_pass() {
        let (span, mut p) = by_stride(64);
        p.set(KnobId::StreamCycles, 1).unwrap();
        let config = StreamConfig::of(&p);
        let mut t = StreamTable::new();
        let pass = |t: &mut StreamTable, writes: Option<u64>| -> Vec<bool> {
            let fault = |b| t.fault(BlockNo(b), &span, b, Some(b) == writes, &config);
            (0..64).map(fault).map(|a| a.writes).collect()
        };
        assert!(pass(&mut t, None).iter().all(|w| !w));
        let told = pass(&mut t, Some(20));
        assert!(told[..20].iter().all(|w| !w));
        assert!(told[20..].iter().all(|w| *w));
        assert!(pass(&mut t, None).iter().all(|w| !w));
        // A straggler counts as well.
        t.fault(BlockNo(0), &span, 99, false, &config);
        t.fault(BlockNo(20), &span, 100, false, &config);
        let behind = t.fault(BlockNo(18), &span, 101, true, &config);
        assert!(!behind.writes);
        assert!(t.fault(BlockNo(21), &span, 102, false, &config).writes);
    }

    #[test]
    fn a_stream_comes_to_what_lies_ahead_of_it() {
        let span = BlockSpan {
            first: BlockNo(100),
            end: BlockNo(200),
        };
        let stream = |last, step| StreamTable {
            streams: {
                let mut all = [None; STREAMS_MAX];
                all[1] = Some(Stream {
                    ahead: 4,
                    ..Stream::new(&span, BlockNo(last), step, 1)
                });
                all
            },
            ..StreamTable::new()
        };
        assert!(!StreamTable::new().comes_to(BlockNo(150), 8));
        let up = stream(150, 1);
        assert!(up.comes_to(BlockNo(154), 0) && up.comes_to(BlockNo(162), 8));
        assert!(!up.comes_to(BlockNo(163), 8) && up.comes_to(BlockNo(150), 0));
        // Not out of its range, and of what is behind it the stragglers alone.
        assert!(!stream(199, 1).comes_to(BlockNo(200), 8));
        assert!(up.comes_to(BlockNo(149), 0) && !up.comes_to(BlockNo(100), 99));
        let down = stream(150, -3);
        assert!(down.comes_to(BlockNo(138), 0) && !down.comes_to(BlockNo(137), 9));
        assert!(!down.comes_to(BlockNo(135), 0) && down.comes_to(BlockNo(135), 1));
        // The quotient of these does not exist.
        let odd = stream(u64::MAX, -1);
        assert!(!odd.comes_to(BlockNo(150), u32::MAX));
    }

    /// A range of so many blocks, and a policy that follows streams in it.
    fn by_stride(blocks: u64) -> (BlockSpan, Policy) {
        let span = BlockSpan {
            first: BlockNo(0),
            end: BlockNo(blocks),
        };
        let mut p = Policy::new();
        p.set(KnobId::StreamMode, 2).unwrap();
        (span, p)
    }

    /// Catches a batch of touches anywhere, each taken for the next of a stream as the one before it was; and one of a front of many
    /// blocks that is not.
    #[test]
    fn a_stream_reaches_no_further_in_a_batch_than_it_did_before_it() {
        let (span, p) = by_stride(100);
        let config = StreamConfig::of(&p).on(64);
        let after_20 = |span: &BlockSpan| {
            let mut t = StreamTable::new();
            for b in 0..20 {
                t.fault(BlockNo(b), span, b, false, &config);
            }
            t
        };
        let own_in = |span: &BlockSpan, t: &StreamTable, blocks: &[u64]| -> Vec<bool> {
            let (mut t, batch) = (t.clone(), 100);
            let fault = |b: &u64| t.fault(BlockNo(*b), span, batch, false, &config);
            blocks.iter().map(fault).map(|a| !a.cancel).collect()
        };
        let own = |t: &StreamTable, blocks: &[u64]| own_in(&span, t, blocks);
        let mut t = after_20(&span);
        // Eight are ahead of 19, and four may be left out.
        assert_eq!(own(&t, &[31]), [true]);
        assert_eq!(own(&t, &[32]), [false]);
        assert_eq!(
            own(&t, &[21, 26, 31, 33, 36]),
            [true, true, true, false, false]
        );
        // Nor where those of another GPU's batch come in between.
        let mut two = t.clone();
        let in_turn = [(21, 101), (26, 100), (31, 101), (33, 100), (36, 101)]
            .map(|(b, batch)| !two.fault(BlockNo(b), &span, batch, false, &config).cancel);
        assert_eq!(in_turn, [true, true, true, false, false]);
        // What lies side by side is one front.
        assert!(own(&t, &(20..60).collect::<Vec<_>>()).iter().all(|b| *b));
        // With the next batch it reaches as far again.
        t.fault(BlockNo(31), &span, 99, false, &config);
        assert_eq!(own(&t, &[43]), [true]);
        // In a long range, what touches by chance would leave further apart.
        for (blocks, apart) in [(127, 1u64), (128, 2), (640, 10), (768, 12), (10_000, 12)] {
            let (span, _) = by_stride(blocks);
            let own = |more: u64| own_in(&span, &after_20(&span), &[31, 31 + apart + more]);
            assert_eq!(own(0), [true, true]);
            assert_eq!(own(1), [true, false]);
        }
    }

    /// Catches a stream that its past keeps alive, and one that touches far away or behind it end.
    #[test]
    fn what_is_around_a_stream_ends_it_and_nothing_else_does() {
        let (span, p) = by_stride(10_000);
        let config = StreamConfig::of(&p).on(64);
        let after = |faults: u64| {
            let mut t = StreamTable::new();
            for b in 0..faults {
                t.fault(BlockNo(b), &span, b, false, &config);
            }
            t
        };
        // Strays `at` steps past the last fault, until it is gone.
        let ends = |mut t: StreamTable, last: u64, at: u64| {
            let block = BlockNo(last + at);
            (1..100).find(|n| {
                t.fault(block, &span, 20_000 + n, false, &config);
                t.is_empty()
            })
        };
        // Eight blocks are ahead, four may be left out.
        let reach = u64::from(config.amount) + GAP_STEPS;
        assert_eq!(
            ends(after(5), 4, reach + 1),
            Some(u64::from(CREDIT / BESIDE_COST))
        );
        assert_eq!(ends(after(5), 4, reach + BESIDE), Some(8));
        assert_eq!(ends(after(5), 4, reach + BESIDE + 1), None);
        // A long one, sixteen.
        for faults in [40, 5000] {
            assert_eq!(ends(after(faults), faults - 1, reach + 1), Some(16));
        }
        // Far behind.
        let mut t = after(5000);
        for n in 0..100 {
            t.fault(BlockNo(100), &span, 20_000 + n, false, &config);
        }
        assert_eq!(t.len(), 1);
        // What it foresees in between makes up for it.
        let mut t = after(40);
        for b in 40..400 {
            assert!(!t.fault(BlockNo(b), &span, b, false, &config).cancel);
            if b % u64::from(BESIDE_COST) == 0 {
                let stray = BlockNo(b + reach + 1 + b * b % 23);
                t.fault(stray, &span, b, false, &config);
            }
        }
    }

    /// Catches a bridge that leaves the range, one of a stream that was replaced, and blocks counted that were never fetched.
    #[test]
    fn what_is_there_is_gone_beyond() {
        let (span, p) = by_stride(40);
        let config = StreamConfig::of(&p);
        let mut t = StreamTable::new();
        let mut run = None;
        for b in 0..5 {
            run = t.fault(BlockNo(b), &span, b, false, &config).run;
        }
        let run = run.unwrap();
        assert_eq!((run.first, run.count), (BlockNo(5), 16));
        // Three in a row are chance, and so are more with a gap.
        assert_eq!(t.beyond(run.stream, 16, 3), None);
        assert_eq!(t.beyond(run.stream, 16, 3), None);
        let more = t.beyond(run.stream, 7, 7).unwrap();
        assert_eq!((more.first, more.count, more.step), (BlockNo(21), 10, 1));
        assert_eq!(t.counts().advised, 16);
        // Nine are left.
        let last = t.beyond(run.stream, 10, 10).unwrap();
        assert_eq!((last.first, last.count), (BlockNo(31), 9));
        assert_eq!(t.counts().advised, 15);
        assert_eq!(t.beyond(run.stream, 9, 9), None);
        assert_eq!(t.counts().advised, 6);
        // Far beyond the amount it is still the same stream, and nothing is advised twice.
        let at = t.fault(BlockNo(38), &span, 9, false, &config);
        assert!(at.expected && !at.cancel && at.run.is_none());
        let gone = StreamId {
            born: run.stream.born + 1,
            ..run.stream
        };
        assert_eq!(t.beyond(gone, 9, 9), None);
    }

    /// Catches a pass that has to be found out anew, one that begins while the last is not over, and chance taken for a pass where
    /// cycles are not followed.
    #[test]
    fn the_next_pass_goes_on_with_its_first_fault() {
        let (span, mut p) = by_stride(40);
        let off = StreamConfig::of(&p);
        p.set(KnobId::StreamCycles, 1).unwrap();
        let on = StreamConfig::of(&p);
        let up_to = |end| {
            let mut t = StreamTable::new();
            for b in 0..end {
                t.fault(BlockNo(b), &span, b, false, &on);
            }
            t
        };
        // Fetched ahead to 39, the last one.
        let ended = up_to(24);
        let next = ended.clone().fault(BlockNo(7), &span, 99, false, &on);
        let run = next.run.unwrap();
        assert_eq!((run.first, run.count, run.step), (BlockNo(8), 16, 1));
        assert!(!next.cancel && !next.expected);
        assert!(
            ended
                .clone()
                .fault(BlockNo(7), &span, 99, false, &off)
                .cancel
        );
        // Stragglers are none, nor is another range's fault.
        assert!(ended
            .clone()
            .fault(BlockNo(20), &span, 99, false, &on)
            .run
            .is_none());
        let other = BlockSpan {
            first: BlockNo(50),
            end: BlockNo(90),
        };
        assert!(
            ended
                .clone()
                .fault(BlockNo(57), &other, 99, false, &on)
                .cancel
        );
        assert!(up_to(23).fault(BlockNo(7), &span, 99, false, &on).cancel);
    }

    #[test]
    fn the_knobs_are_in_blocks() {
        let mut p = Policy::new();
        assert_eq!(StreamConfig::of(&p).mode, StreamMode::Off);
        for (word, mode) in [
            ("next-line", StreamMode::NextLine),
            ("stride", StreamMode::Stride),
        ] {
            let value = KnobId::StreamMode.knob().parse(word).unwrap();
            p.set(KnobId::StreamMode, value).unwrap();
            assert_eq!(StreamConfig::of(&p).mode, mode);
        }
        let c = StreamConfig::of(&p);
        assert_eq!((c.amount, c.stride, c.stride_max), (16, 1, 32));
        assert_eq!((c.streams, c.confirm), (16, 4));
        assert_eq!(KnobId::StreamCount.knob().max, STREAMS_MAX as u64);
        // A run and its block must fit the history, with all streams in lock-step.
        assert!(KnobId::StreamConfirm.knob().max * STREAMS_MAX as u64 <= history::HISTORY as u64);
    }

    #[test]
    fn distances_and_steps_do_not_overflow() {
        let (low, high) = (BlockNo(0), BlockNo(u64::MAX));
        assert_eq!(low.distance(high), None);
        assert_eq!(BlockNo(7).distance(BlockNo(4)), Some(-3));
        assert_eq!(high.step(1, 1), None);
        assert_eq!(low.step(-1, 1), None);
        assert_eq!(BlockNo(9).step(-3, 3), Some(low));
        assert_eq!(BlockNo(9).step(i64::MAX, 2), None);
        let span = BlockSpan {
            first: low,
            end: high,
        };
        assert_eq!(span.steps_left(BlockNo(5), -2), 2);
        assert_eq!(span.steps_left(BlockNo(u64::MAX - 4), 3), 1);
        assert_eq!(span.steps_left(BlockNo(5), 0), 0);
    }
}
