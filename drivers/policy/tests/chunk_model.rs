// SPDX-License-Identifier: GPL-2.0
//! The chunk table against a model that keeps its lists as vectors, over random sequences of operations.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that panics is a test that fails"
)]

use huvm_policy::chunk::{
    ChunkEntry, ChunkError, ChunkLists, ChunkState, ChunkTable, EvictNeed, Reclaim, WriteBackEnd,
    ALL_STATES, PASSES_MAX,
};
use huvm_policy::evict::VictimOrder;
use huvm_policy::reuse::Reuse;
use huvm_policy::types::ChunkId;
use proptest::prelude::*;
use std::collections::BTreeMap;

const CHUNKS: u32 = 12;

use ChunkState::*;

/// Keys of the lists of chunks with a copy in flight: lent, and wanted by nobody.
const WRITING: u8 = 100;
const DRAINING: u8 = 101;
/// And of those in use that were passed over.
const DEFERRED: u8 = 102;

/// What the table should be: each list a vector, chunks on no list in a map.
struct Model {
    lists: BTreeMap<u8, Vec<u32>>,
    state: Vec<ChunkState>,
    before: Vec<ChunkState>,
    /// A copy out of the chunk is in flight.
    copying: Vec<bool>,
    /// The chunk's memory failed.
    condemned: Vec<bool>,
    /// The last of those in use, as many as the guard holds.
    young: Vec<u32>,
    guard: u32,
    keep_old: bool,
    /// Of the young, those that are to be kept; and how many of the oldest make way for such.
    kept: Vec<u32>,
    owed: u32,
    /// How soon each comes back, and in which cycle that was said.
    reuse: Vec<(Reuse, u16)>,
    cycle: u16,
}

impl Model {
    fn new() -> Self {
        let mut lists = BTreeMap::new();
        lists.insert(Free as u8, (0..CHUNKS).collect());
        Self {
            lists,
            state: vec![Free; CHUNKS as usize],
            before: vec![Unusable; CHUNKS as usize],
            copying: vec![false; CHUNKS as usize],
            condemned: vec![false; CHUNKS as usize],
            young: Vec::new(),
            guard: 0,
            keep_old: false,
            kept: Vec::new(),
            owed: 0,
            reuse: vec![(Reuse::UNKNOWN, 0); CHUNKS as usize],
            cycle: 0,
        }
    }

    /// All in use, in the order of the table's list.
    fn used(&self) -> Vec<u32> {
        [self.list(Used), self.keyed(DEFERRED)].concat()
    }

    /// The one that goes if all orders but the plain one have nobody.
    fn oldest(&self) -> Option<u32> {
        self.used().first().copied()
    }

    /// An order's choice was passed over.
    fn defer(&mut self, id: u32) {
        for list in self.lists.values_mut() {
            list.retain(|&c| c != id);
        }
        self.young.retain(|&c| c != id);
        self.kept.retain(|&c| c != id);
        self.lists.entry(DEFERRED).or_default().push(id);
    }

    /// The chunks in use that are neither young nor deferred, the oldest first.
    fn old(&self) -> Vec<u32> {
        let mut used = self.list(Used).to_vec();
        used.retain(|c| !self.young.contains(c));
        used
    }

    /// A chunk comes into use.
    fn come(&mut self, id: u32) {
        if self.guard > 0 || !self.young.is_empty() {
            self.young.push(id);
        }
        for _ in 0..2 {
            if self.young.len() > self.guard as usize {
                let old = self.young.remove(0);
                self.owed += u32::from(self.keep_old && self.kept.contains(&old));
                self.kept.retain(|&c| c != old);
            }
        }
    }

    fn touch(&mut self, id: u32) -> bool {
        if self.keep_old && self.old().contains(&id) && !self.is_copying(id) {
            return true;
        }
        self.go(id, &[Used, Unused, Discarded], Used)
    }

    fn list(&self, s: ChunkState) -> &[u32] {
        self.keyed(s as u8)
    }

    fn keyed(&self, key: u8) -> &[u32] {
        self.lists.get(&key).map_or(&[], Vec::as_slice)
    }

    fn is_copying(&self, id: u32) -> bool {
        self.copying.get(id as usize) == Some(&true)
    }

    /// For operations that a copy in flight forbids.
    fn go(&mut self, id: u32, from: &[ChunkState], to: ChunkState) -> bool {
        !self.is_copying(id) && self.go_any(id, from, to)
    }

    /// For operations that leave a copy in flight as it is.
    fn go_any(&mut self, id: u32, from: &[ChunkState], to: ChunkState) -> bool {
        let Some(&have) = self.state.get(id as usize) else {
            return false;
        };
        if !from.contains(&have) {
            return false;
        }
        let to = match to {
            Free if self.condemned[id as usize] => Retired,
            to => to,
        };
        let old = self.old();
        let makes_way = old.contains(&id) && (old.last() != Some(&id) || old.first() == Some(&id));
        self.owed -= u32::from(to == Evicting && makes_way).min(self.owed);
        for list in self.lists.values_mut() {
            list.retain(|&c| c != id);
        }
        let was_young = self.young.contains(&id);
        self.young.retain(|&c| c != id);
        if !(was_young && to == Used && (self.guard > 0 || !self.young.is_empty())) {
            self.kept.retain(|&c| c != id);
        }
        let key = match (to, self.copying[id as usize]) {
            (LentOnly, true) => Some(WRITING),
            (Pinned, true) => Some(DRAINING),
            (Unusable | Pinned | Evicting | Retired, _) => None,
            (listed, _) => Some(listed as u8),
        };
        if let Some(key) = key {
            self.lists.entry(key).or_default().push(id);
        }
        if to == Used {
            self.come(id);
        }
        if to == Evicting {
            self.before[id as usize] = have;
        }
        self.state[id as usize] = to;
        true
    }

    /// Free, or free when the copy ends.
    fn let_go(&mut self, id: u32, from: &[ChunkState]) -> bool {
        let to = if self.is_copying(id) { Pinned } else { Free };
        self.go_any(id, from, to)
    }
}

#[derive(Clone, Debug)]
enum Op {
    Alloc,
    Activate(u32),
    Pin(u32),
    Touch(u32),
    Unused(u32),
    Discarded(u32),
    BeginVictim(VictimOrder, u64),
    /// With a bit for each chunk that is not to go.
    BeginFair(VictimOrder, u64, u32),
    Begin(u32),
    Finish(u32),
    HandOver(u32),
    Abort(u32),
    Free(u32),
    Lend(u32),
    Prefetched(u32),
    Removable(u32, bool),
    BeginCopy(u32),
    EndCopy(u32, bool),
    WriteBackNext,
    ReclaimNext,
    Retire(u32),
    Usable(u32),
    Condemn(u32),
    Steer(u32, bool),
    Keep(u32),
    Reuse(u32, u64),
    Cycle(u16),
}

fn op() -> impl Strategy<Value = Op> {
    // One past the table, so that ids that do not exist are tried too.
    let id = || 0..=CHUNKS;
    let order = || {
        prop_oneof![
            Just(VictimOrder::LeastRecentlyMigrated),
            Just(VictimOrder::Random),
            Just(VictimOrder::Recent),
            Just(VictimOrder::Adaptive)
        ]
    };
    prop_oneof![
        8 => Just(Op::Alloc),
        8 => id().prop_map(Op::Activate),
        2 => id().prop_map(Op::Pin),
        4 => id().prop_map(Op::Touch),
        1 => id().prop_map(Op::Unused),
        1 => id().prop_map(Op::Discarded),
        4 => (order(), any::<u64>()).prop_map(|(o, s)| Op::BeginVictim(o, s)),
        4 => (order(), any::<u64>(), any::<u32>()).prop_map(|(o, s, k)| Op::BeginFair(o, s, k)),
        2 => id().prop_map(Op::Begin),
        3 => id().prop_map(Op::Finish),
        2 => id().prop_map(Op::HandOver),
        2 => id().prop_map(Op::Abort),
        2 => id().prop_map(Op::Free),
        4 => id().prop_map(Op::Lend),
        1 => id().prop_map(Op::Prefetched),
        2 => (id(), any::<bool>()).prop_map(|(i, c)| Op::Removable(i, c)),
        2 => id().prop_map(Op::BeginCopy),
        4 => (id(), any::<bool>()).prop_map(|(i, c)| Op::EndCopy(i, c)),
        3 => Just(Op::WriteBackNext),
        3 => Just(Op::ReclaimNext),
        1 => id().prop_map(Op::Retire),
        1 => id().prop_map(Op::Usable),
        1 => id().prop_map(Op::Condemn),
        1 => (0..6u32, any::<bool>()).prop_map(|(n, k)| Op::Steer(n, k)),
        2 => id().prop_map(Op::Keep),
        4 => (id(), 0..300u64).prop_map(|(i, d)| Op::Reuse(i, d)),
        1 => prop_oneof![0..300_u16, any::<u16>()].prop_map(Op::Cycle),
    ]
}

/// True for the error of a table whose links are not in order.
fn is_corrupt(r: &Result<(), ChunkError>) -> bool {
    matches!(r, Err(ChunkError::Corrupt { .. }))
}

/// Applies an operation to both and compares the answers.
fn apply(op: &Op, t: &mut ChunkTable<'_>, m: &mut Model) -> Result<(), TestCaseError> {
    let evictable = [Used, Unused, Discarded];
    let lent = [LentOnly, LentRemovable];
    let (got, want) = match *op {
        Op::Alloc => {
            let want = m.list(Free).first().copied();
            prop_assert_eq!(t.alloc(), want.map(ChunkId));
            if let Some(id) = want {
                m.go(id, &[Free], Pinned);
            }
            return Ok(());
        }
        Op::BeginVictim(order, seed) => {
            let pick = t.pick_victim(order, seed);
            let free_of_copy = m.list(Unused).first().or(m.list(Discarded).first());
            match (free_of_copy, order) {
                (Some(&id), _) => prop_assert_eq!(pick, Some(ChunkId(id))),
                (None, VictimOrder::LeastRecentlyMigrated | VictimOrder::Adaptive) => {
                    prop_assert_eq!(pick, m.oldest().map(ChunkId));
                }
                (None, VictimOrder::Random) => match pick {
                    Some(id) => {
                        prop_assert!(m.list(Used).contains(&id.0) || m.oldest() == Some(id.0))
                    }
                    None => prop_assert!(m.used().is_empty()),
                },
                (None, VictimOrder::Recent) => {
                    let oldest = m.oldest().map(ChunkId);
                    let recent = m.old().last().map(|&c| ChunkId(c)).or(oldest);
                    let reuse = |id: ChunkId| {
                        let (reuse, said_in) = m.reuse[id.as_usize()];
                        reuse.after(m.cycle.wrapping_sub(said_in))
                    };
                    let later = match (pick, recent) {
                        (Some(p), Some(r)) => {
                            m.old().contains(&p.0) && reuse(p).is_later_than(reuse(r))
                        }
                        _ => false,
                    };
                    prop_assert!(later || pick == recent || pick == oldest, "{:?}", pick);
                    if m.owed != 0 && !later {
                        prop_assert_eq!(pick, oldest, "of {} that make way", m.owed);
                    }
                }
            }
            let Some(id) = pick else { return Ok(()) };
            (t.begin_evict(id), m.go(id.0, &evictable, Evicting))
        }
        Op::BeginFair(order, seed, keeps) => {
            let Some(id) = fair(t, m, order, seed, keeps)? else {
                return Ok(());
            };
            (t.begin_evict(ChunkId(id)), m.go(id, &evictable, Evicting))
        }
        Op::Activate(i) => (t.activate(ChunkId(i)), m.go(i, &[Pinned], Used)),
        Op::Pin(i) => (t.pin(ChunkId(i)), m.go(i, &evictable, Pinned)),
        Op::Touch(i) => (t.touch(ChunkId(i)), m.touch(i)),
        Op::Unused(i) => (
            t.mark_unused(ChunkId(i)),
            m.go(i, &[Used, Discarded], Unused),
        ),
        Op::Discarded(i) => (t.mark_discarded(ChunkId(i)), m.go(i, &[Used], Discarded)),
        Op::Begin(i) => (
            t.begin_evict(ChunkId(i)),
            m.go_any(i, &[evictable.as_slice(), &lent].concat(), Evicting),
        ),
        Op::Finish(i) => (t.finish_evict(ChunkId(i)), m.let_go(i, &[Evicting])),
        Op::HandOver(i) => (t.hand_over(ChunkId(i)), m.go(i, &[Evicting], Pinned)),
        Op::Abort(i) => {
            let back = m.before.get(i as usize).copied().unwrap_or(Used);
            (t.abort_evict(ChunkId(i)), m.go_any(i, &[Evicting], back))
        }
        Op::Free(i) => {
            let pinned: &[_] = if m.is_copying(i) { &[] } else { &[Pinned] };
            (
                t.free(ChunkId(i)),
                m.let_go(i, &[evictable.as_slice(), &lent, pinned].concat()),
            )
        }
        Op::Lend(i) => (t.lend(ChunkId(i)), m.go(i, &[Pinned], LentOnly)),
        Op::Prefetched(i) => (
            t.lend_prefetched(ChunkId(i)),
            m.go(i, &[Pinned], LentRemovable),
        ),
        Op::BeginCopy(i) => (t.begin_write_back(ChunkId(i)), begin_copy(m, i)),
        Op::WriteBackNext => {
            let next = m.list(LentOnly).first().copied();
            prop_assert_eq!(t.pick_write_back(), next.map(ChunkId));
            let Some(i) = next else { return Ok(()) };
            (t.begin_write_back(ChunkId(i)), begin_copy(m, i))
        }
        Op::EndCopy(i, copied) => {
            let want = end_copy(m, i, copied);
            let got = t.end_write_back(ChunkId(i), copied);
            prop_assert_eq!(got.ok(), want);
            (got.map(|_| ()), want.is_some())
        }
        Op::ReclaimNext => {
            let first = |key: u8| m.keyed(key).first().map(|&c| ChunkId(c));
            let want = first(LentRemovable as u8)
                .map(Reclaim::Removable)
                .or(first(DRAINING).map(Reclaim::Draining))
                .or(first(WRITING).map(Reclaim::WritingBack))
                .or(first(LentOnly as u8).map(Reclaim::Only));
            prop_assert_eq!(t.pick_reclaim(), want);
            let Some(Reclaim::Removable(id) | Reclaim::WritingBack(id) | Reclaim::Only(id)) = want
            else {
                return Ok(());
            };
            (t.begin_evict(id), m.go_any(id.0, &lent, Evicting))
        }
        Op::Removable(i, copied) => (
            t.set_removable(ChunkId(i), copied),
            m.go(i, &lent, if copied { LentRemovable } else { LentOnly }),
        ),
        Op::Retire(i) => (t.retire(ChunkId(i)), m.go(i, &[Pinned, Free], Unusable)),
        Op::Steer(guard, keep_old) => {
            t.steer(guard, keep_old);
            (m.guard, m.keep_old) = (guard, keep_old);
            return Ok(());
        }
        Op::Keep(i) => {
            if m.young.contains(&i) && !m.kept.contains(&i) {
                m.kept.push(i);
            }
            (t.keep(ChunkId(i)), i < CHUNKS)
        }
        Op::Reuse(i, distance) => {
            let reuse = t.reuse(ChunkId(i)).comes_back(distance, 100);
            if let Some(r) = m.reuse.get_mut(i as usize) {
                *r = (r.0.comes_back(distance, 100), m.cycle);
                prop_assert_eq!(r.0, reuse);
            }
            (t.set_reuse(ChunkId(i), reuse), i < CHUNKS)
        }
        Op::Cycle(cycle) => {
            t.set_cycle(cycle);
            m.cycle = cycle;
            return Ok(());
        }
        Op::Usable(i) => (t.make_usable(ChunkId(i)), m.go(i, &[Unusable], Free)),
        Op::Condemn(i) => {
            let is_new = m.condemned.get(i as usize).map(|c| !c);
            if let Some(c) = m.condemned.get_mut(i as usize) {
                *c = true;
                m.go(i, &[Free], Free);
            }
            let did = t.condemn(ChunkId(i));
            prop_assert_eq!(did.ok(), is_new);
            (did.map(|_| ()), is_new.is_some())
        }
    };
    prop_assert_eq!(got.is_ok(), want, "{:?} gave {:?}", op, got);
    if let Err(ChunkError::WrongState { id, have, want }) = got {
        prop_assert_eq!(m.state[id.as_usize()], have);
        prop_assert!(!want.contains(have));
    }
    match got {
        Err(ChunkError::CopyInFlight { id }) => prop_assert!(m.is_copying(id.0)),
        Err(ChunkError::NoCopy { id }) => prop_assert!(!m.is_copying(id.0)),
        _ => (),
    }
    prop_assert!(!is_corrupt(&got));
    Ok(())
}

/// A victim that is not among those kept, as long as there are others; both pass over the same ones.
fn fair(
    t: &mut ChunkTable<'_>,
    m: &mut Model,
    order: VictimOrder,
    seed: u64,
    keeps: u32,
) -> Result<Option<u32>, TestCaseError> {
    let asked = std::cell::RefCell::new(Vec::new());
    let plain = t.pick_victim(order, seed);
    let defers = |id: ChunkId| {
        asked.borrow_mut().push(id.0);
        keeps & (1 << id.0) != 0
    };
    let Some((ChunkId(id), passed)) = t.pick_fair_victim(order, seed, defers) else {
        prop_assert_eq!(plain, None);
        return Ok(None);
    };
    let asked = asked.into_inner();
    prop_assert!(asked.len() <= 2 + PASSES_MAX as usize + 1);
    prop_assert!(passed <= PASSES_MAX);
    if m.state[id as usize] != Used {
        prop_assert_eq!(plain, Some(ChunkId(id)));
        prop_assert!(asked.is_empty());
        return Ok(Some(id));
    }
    // Whoever was asked for and kept is deferred now, in that order.
    for &a in asked.iter().filter(|&&a| keeps & (1 << a) != 0) {
        m.defer(a);
    }
    let kept = |c: &u32| keeps & (1 << c) != 0;
    if kept(&id) {
        prop_assert!(m.list(Used).is_empty(), "others were there");
    }
    if keeps == 0 && m.keyed(DEFERRED).is_empty() {
        prop_assert_eq!((Some(ChunkId(id)), passed), (plain, 0));
    }
    Ok(Some(id))
}

/// A write-back begins.
fn begin_copy(m: &mut Model, id: u32) -> bool {
    if m.is_copying(id) || m.state.get(id as usize) != Some(&LentOnly) {
        return false;
    }
    m.copying[id as usize] = true;
    m.go_any(id, &[LentOnly], LentOnly)
}

/// A write-back ends; `None` if there was none.
fn end_copy(m: &mut Model, id: u32, copied: bool) -> Option<WriteBackEnd> {
    if !m.is_copying(id) {
        return None;
    }
    m.copying[id as usize] = false;
    let lent = if copied { LentRemovable } else { LentOnly };
    Some(match m.state[id as usize] {
        Evicting => {
            m.before[id as usize] = lent;
            WriteBackEnd::Claimed
        }
        Pinned => {
            m.go(id, &[Pinned], Free);
            WriteBackEnd::Freed
        }
        _ => {
            m.go(id, &[LentOnly], lent);
            if copied {
                WriteBackEnd::Removable
            } else {
                WriteBackEnd::StillOnly
            }
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn table_and_model_agree(ops in proptest::collection::vec(op(), 1..120)) {
        let mut entries = vec![ChunkEntry::new(); CHUNKS as usize];
        let mut lists = ChunkLists::new();
        ChunkTable::new(&mut entries, &mut lists).format();
        let mut model = Model::new();
        for op in &ops {
            let mut table = ChunkTable::new(&mut entries, &mut lists);
            apply(op, &mut table, &mut model)?;
            // Lists in order, counts right, every chunk in the state that the model says.
            for s in ALL_STATES {
                let got: Vec<u32> = table.iter(s).map(|c| c.0).collect();
                let want = if s == Used { model.used() } else { model.list(s).to_vec() };
                prop_assert_eq!(got, want, "list of {:?}", s);
                let n = model.state.iter().filter(|&&have| have == s).count();
                prop_assert_eq!(table.count(s), n as u32);
            }
            let got: [Vec<u32>; 2] = [table.iter_writing_back(), table.iter_draining()]
                .map(|list| list.map(|c| c.0).collect());
            prop_assert_eq!(&got, &[WRITING, DRAINING].map(|key| model.keyed(key).to_vec()));
            for i in 0..CHUNKS {
                prop_assert_eq!(table.is_copying(ChunkId(i)), model.is_copying(i));
                let before = model.before[i as usize];
                let need = match model.state[i as usize] {
                    Evicting if model.is_copying(i) => Some(EvictNeed::Wait),
                    Evicting if matches!(before, Used | LentOnly) => Some(EvictNeed::Copy),
                    Evicting => Some(EvictNeed::Nothing),
                    _ => None,
                };
                prop_assert_eq!(table.evict_need(ChunkId(i)).ok(), need);
            }
            prop_assert_eq!(lists.writing_back() as usize, got[0].len());
            prop_assert_eq!(lists.draining() as usize, got[1].len());
            prop_assert_eq!(lists.young() as usize, model.young.len());
            prop_assert_eq!(lists.deferred() as usize, model.keyed(DEFERRED).len());
            // Backward links: what the iterator walks forward must be there backward too. Freeing a chunk checks both
            // neighbours, so try every one of them on a copy.
            for i in 0..CHUNKS {
                let (mut e, mut l) = (entries.clone(), lists.clone());
                let r = ChunkTable::new(&mut e, &mut l).begin_evict(ChunkId(i));
                prop_assert!(!is_corrupt(&r));
                if r.is_err() {
                    prop_assert_eq!((&e, &l), (&entries, &lists), "an error changed the table");
                }
            }
        }
    }

    /// Whatever is in the slices, no operation panics, hangs or leaves the table's memory.
    #[test]
    fn a_mixed_up_table_is_survived(
        ops in proptest::collection::vec(op(), 1..60),
        keep in 0..CHUNKS as usize,
        swaps in proptest::collection::vec((0..CHUNKS as usize, 0..CHUNKS as usize), 0..8),
    ) {
        let mut entries = vec![ChunkEntry::new(); CHUNKS as usize];
        let mut lists = ChunkLists::new();
        ChunkTable::new(&mut entries, &mut lists).format();
        let mut model = Model::new();
        for op in &ops {
            apply(op, &mut ChunkTable::new(&mut entries, &mut lists), &mut model)?;
        }
        // Entries exchanged and the end of the slice missing: links now lead to strangers and past the end.
        for (a, b) in swaps {
            entries.swap(a, b);
        }
        let entries = &mut entries[..keep];
        for op in &ops {
            let before = (entries.to_vec(), lists.clone());
            let mut t = ChunkTable::new(entries, &mut lists);
            let r = match *op {
                Op::Alloc => { let _ = t.alloc(); Ok(()) }
                Op::BeginVictim(o, s) => t.take_victim(o, s).map_or(Ok(()), |v| v.abort(&mut t).map_err(|e| e.1)),
                Op::BeginFair(o, s, k) => t
                    .take_fair_victim(o, s, |id| k.checked_shr(id.0).unwrap_or(0) & 1 != 0)
                    .map_or(Ok(()), |v| v.chunk.abort(&mut t).map_err(|e| e.1)),
                Op::Activate(i) => t.activate(ChunkId(i)),
                Op::Keep(i) => t.keep(ChunkId(i)),
                Op::Reuse(i, d) => t.set_reuse(ChunkId(i), Reuse::UNKNOWN.comes_back(d, 100)),
                Op::Pin(i) => t.pin(ChunkId(i)),
                Op::Touch(i) => t.touch(ChunkId(i)),
                Op::Begin(i) => t.begin_evict(ChunkId(i)),
                Op::Abort(i) => t.abort_evict(ChunkId(i)),
                Op::Finish(i) => t.finish_evict(ChunkId(i)),
                Op::BeginCopy(i) => t.begin_write_back(ChunkId(i)),
                Op::EndCopy(i, c) => t.end_write_back(ChunkId(i), c).map(|_| ()),
                Op::WriteBackNext => t.pick_write_back().map_or(Ok(()), |id| t.begin_write_back(id)),
                Op::ReclaimNext => { let _ = t.pick_reclaim(); Ok(()) }
                Op::Prefetched(i) => t.lend_prefetched(ChunkId(i)),
                Op::Unused(i) | Op::Discarded(i) | Op::HandOver(i) | Op::Free(i) | Op::Lend(i)
                | Op::Removable(i, _) | Op::Retire(i) | Op::Usable(i) | Op::Condemn(i) => t.free(ChunkId(i)),
                Op::Cycle(cycle) => {
                    t.set_cycle(cycle);
                    Ok(())
                }
                Op::Steer(guard, keep_old) => {
                    t.steer(guard, keep_old);
                    Ok(())
                }
            };
            for s in ALL_STATES {
                prop_assert!(t.iter(s).count() <= keep);
            }
            if r.is_err() && !matches!(op, Op::BeginVictim(..) | Op::BeginFair(..)) {
                prop_assert_eq!((before.0.as_slice(), &before.1), (&*entries, &lists));
            }
        }
    }
}

/// A table of `n` chunks, all free.
fn table_of(n: usize) -> (Vec<ChunkEntry>, ChunkLists) {
    let (mut e, mut l) = (vec![ChunkEntry::new(); n], ChunkLists::new());
    ChunkTable::new(&mut e, &mut l).format();
    (e, l)
}

#[test]
fn victims_come_in_the_order_of_the_last_migration() {
    let (mut e, mut l) = table_of(4);
    let mut t = ChunkTable::new(&mut e, &mut l);
    for _ in 0..4 {
        let id = t.alloc().unwrap();
        t.activate(id).unwrap();
    }
    assert_eq!(t.alloc(), None);
    t.touch(ChunkId(0)).unwrap();
    t.touch(ChunkId(2)).unwrap();
    let order: Vec<u32> = std::iter::from_fn(|| {
        let v = t.take_victim(VictimOrder::LeastRecentlyMigrated, 0)?;
        let id = v.id().0;
        v.finish(&mut t).unwrap();
        Some(id)
    })
    .collect();
    assert_eq!(order, [1, 3, 0, 2]);
    assert_eq!(t.count(Free), 4);
}

#[test]
fn unused_goes_before_discarded_before_used() {
    let (mut e, mut l) = table_of(3);
    let mut t = ChunkTable::new(&mut e, &mut l);
    for _ in 0..3 {
        let id = t.alloc().unwrap();
        t.activate(id).unwrap();
    }
    t.mark_discarded(ChunkId(1)).unwrap();
    t.mark_unused(ChunkId(2)).unwrap();
    for (order, seed) in [
        (VictimOrder::LeastRecentlyMigrated, 0),
        (VictimOrder::Random, 99),
    ] {
        assert_eq!(t.pick_victim(order, seed), Some(ChunkId(2)));
    }
    t.begin_evict(ChunkId(2)).unwrap();
    assert_eq!(t.pick_victim(VictimOrder::Random, 1), Some(ChunkId(1)));
    t.begin_evict(ChunkId(1)).unwrap();
    assert_eq!(t.pick_victim(VictimOrder::Random, 1), Some(ChunkId(0)));
    t.begin_evict(ChunkId(0)).unwrap();
    assert_eq!(t.pick_victim(VictimOrder::Random, 1), None);
}

#[test]
fn a_victim_that_cannot_be_evicted_is_not_the_next_victim_again() {
    let (mut e, mut l) = table_of(2);
    let mut t = ChunkTable::new(&mut e, &mut l);
    for _ in 0..2 {
        let c = t.take_free().unwrap();
        c.activate(&mut t).unwrap();
    }
    let v = t.take_victim(VictimOrder::default(), 0).unwrap();
    assert_eq!(v.id(), ChunkId(0));
    v.abort(&mut t).unwrap();
    let v = t.take_victim(VictimOrder::default(), 0).unwrap();
    assert_eq!(v.id(), ChunkId(1));
    let mine = v.hand_over(&mut t).unwrap();
    assert_eq!(t.state(ChunkId(1)), Some(Pinned));
    assert_eq!(
        t.count(Free),
        0,
        "a handed-over chunk passes the free list by"
    );
    mine.give_back(&mut t).unwrap();
    assert_eq!(t.alloc(), Some(ChunkId(1)));
}

#[test]
fn random_victims_are_spread_over_the_chunks_in_use() {
    let (mut e, mut l) = table_of(64);
    let mut t = ChunkTable::new(&mut e, &mut l);
    for _ in 0..64 {
        let id = t.alloc().unwrap();
        t.activate(id).unwrap();
    }
    // Half of the chunks are busy elsewhere.
    for i in 0..32 {
        t.pin(ChunkId(i)).unwrap();
    }
    let mut hits = [0; 64];
    for seed in 0..6_400 {
        hits[t.pick_victim(VictimOrder::Random, seed).unwrap().as_usize()] += 1;
    }
    assert!(hits[..32].iter().all(|&n| n == 0));
    assert!(
        hits[32..].iter().all(|&n| (100..300).contains(&n)),
        "{hits:?}"
    );
    // The same seed gives the same victim.
    assert_eq!(
        t.pick_victim(VictimOrder::Random, 5),
        t.pick_victim(VictimOrder::Random, 5)
    );
}

#[test]
fn random_finds_the_only_chunk_in_use_of_a_large_table() {
    let (mut e, mut l) = table_of(100_000);
    let mut t = ChunkTable::new(&mut e, &mut l);
    let id = t.alloc().unwrap();
    t.activate(id).unwrap();
    assert_eq!(t.pick_victim(VictimOrder::Random, 3), Some(id));
}

#[test]
fn an_error_says_what_was_wrong() {
    let (mut e, mut l) = table_of(1);
    let mut t = ChunkTable::new(&mut e, &mut l);
    assert_eq!(
        t.touch(ChunkId(7)),
        Err(ChunkError::NoSuchChunk { id: ChunkId(7) })
    );
    let Err(ChunkError::WrongState { id, have, want }) = t.touch(ChunkId(0)) else {
        panic!("a free chunk was touched");
    };
    assert_eq!((id, have), (ChunkId(0), Free));
    assert_eq!(format!("{want:?}"), "{Used, Unused, Discarded}");
}

#[test]
fn a_failed_token_comes_back() {
    let (mut e, mut l) = table_of(1);
    let mut t = ChunkTable::new(&mut e, &mut l);
    let c = t.take_free().unwrap();
    let (mut e2, mut l2) = table_of(1);
    let mut other_gpu = ChunkTable::new(&mut e2, &mut l2);
    let (c, err) = c.activate(&mut other_gpu).unwrap_err();
    assert!(matches!(err, ChunkError::WrongState { have: Free, .. }));
    c.give_back(&mut t).unwrap();
    assert_eq!(t.count(Free), 1);
}

#[test]
fn a_retired_chunk_is_never_handed_out() {
    let (mut e, mut l) = table_of(2);
    let mut t = ChunkTable::new(&mut e, &mut l);
    t.retire(ChunkId(0)).unwrap();
    assert_eq!(t.alloc(), Some(ChunkId(1)));
    assert_eq!(t.alloc(), None);
    assert_eq!(t.count(Unusable), 1);
    t.make_usable(ChunkId(0)).unwrap();
    assert_eq!(t.alloc(), Some(ChunkId(0)));
}

#[test]
fn a_condemned_chunk_is_free_on_no_road() {
    let (mut e, mut l) = table_of(5);
    let mut t = ChunkTable::new(&mut e, &mut l);
    let ids: Vec<_> = (0..4).map(|_| t.alloc().unwrap()).collect();
    t.activate(ids[0]).unwrap();
    t.begin_evict(ids[0]).unwrap();
    t.lend(ids[1]).unwrap();
    t.begin_write_back(ids[1]).unwrap();
    t.retire(ids[2]).unwrap();
    for id in (0..5).map(ChunkId) {
        assert_eq!(t.condemn(id), Ok(true));
        assert_eq!(t.condemn(id), Ok(false));
    }
    assert_eq!(t.count(Retired), 1, "the free one, at once");
    t.hand_over(ids[0]).unwrap();
    t.free(ids[0]).unwrap();
    t.free(ids[1]).unwrap();
    assert_eq!(t.end_write_back(ids[1], true), Ok(WriteBackEnd::Freed));
    t.make_usable(ids[2]).unwrap();
    t.free(ids[3]).unwrap();
    assert_eq!(t.count(Retired), 5);
    assert_eq!((t.count(Free), t.alloc()), (0, None));
    assert!(t.make_usable(ids[0]).is_err());
}

#[test]
fn an_entry_stays_small() {
    assert_eq!(core::mem::size_of::<ChunkEntry>(), 20);
}

/// `n` chunks lent, in ascending order.
fn lent_table(n: usize) -> (Vec<ChunkEntry>, ChunkLists) {
    let (mut e, mut l) = table_of(n);
    let mut t = ChunkTable::new(&mut e, &mut l);
    while let Some(c) = t.take_free() {
        c.lend(&mut t, false).unwrap();
    }
    (e, l)
}

#[test]
fn lent_chunks_are_written_back_and_reclaimed_first_come_first() {
    let (mut e, mut l) = lent_table(4);
    let mut t = ChunkTable::new(&mut e, &mut l);
    assert_eq!(t.pick_reclaim(), Some(Reclaim::Only(ChunkId(0))));
    let a = t.take_write_back().unwrap();
    let b = t.take_write_back().unwrap();
    assert_eq!((a.id(), b.id()), (ChunkId(0), ChunkId(1)));
    assert_eq!(t.pick_reclaim(), Some(Reclaim::WritingBack(ChunkId(0))));
    // The second one is faster: it is there first.
    assert_eq!(b.end(&mut t, true), Ok(WriteBackEnd::Removable));
    assert_eq!(a.end(&mut t, true), Ok(WriteBackEnd::Removable));
    assert_eq!(t.pick_reclaim(), Some(Reclaim::Removable(ChunkId(1))));
    let mine = t.evict_chunk(ChunkId(1)).unwrap();
    assert_eq!(mine.need(&t), Ok(EvictNeed::Nothing));
    let mine = mine.hand_over(&mut t).unwrap();
    assert_eq!(t.pick_reclaim(), Some(Reclaim::Removable(ChunkId(0))));
    // A copy that fails does not hold up the next one.
    let c = t.take_write_back().unwrap();
    assert_eq!(c.id(), ChunkId(2));
    assert_eq!(c.end(&mut t, false), Ok(WriteBackEnd::StillOnly));
    assert_eq!(t.pick_write_back(), Some(ChunkId(3)));
    mine.give_back(&mut t).unwrap();
}

#[test]
fn two_reclaimers_wait_for_two_write_backs() {
    let (mut e, mut l) = lent_table(2);
    let mut t = ChunkTable::new(&mut e, &mut l);
    let writers = [t.take_write_back().unwrap(), t.take_write_back().unwrap()];
    let mut claims = Vec::new();
    while let Some(Reclaim::WritingBack(id)) = t.pick_reclaim() {
        claims.push(t.evict_chunk(id).unwrap());
    }
    assert_eq!(claims.len(), 2);
    let [good, bad] = writers;
    assert_eq!(good.end(&mut t, true), Ok(WriteBackEnd::Claimed));
    let claim = claims.remove(0);
    assert_eq!(claim.need(&t), Ok(EvictNeed::Nothing));
    let _mine = claim.hand_over(&mut t).unwrap();

    let claim = claims.remove(0);
    assert_eq!(claim.need(&t), Ok(EvictNeed::Wait));
    let (claim, err) = claim.hand_over(&mut t).unwrap_err();
    assert_eq!(err, ChunkError::CopyInFlight { id: ChunkId(1) });
    assert_eq!(bad.end(&mut t, false), Ok(WriteBackEnd::Claimed));
    assert_eq!(claim.need(&t), Ok(EvictNeed::Copy), "the reclaimer copies");
    let _mine = claim.hand_over(&mut t).unwrap();
}

#[test]
fn a_fetch_does_not_wait_for_the_write_back_but_the_next_owner_does() {
    let (mut e, mut l) = lent_table(1);
    let mut t = ChunkTable::new(&mut e, &mut l);
    let writer = t.take_write_back().unwrap();
    let fetch = t.evict_chunk(ChunkId(0)).unwrap();
    fetch.finish(&mut t).unwrap();
    assert_eq!(t.alloc(), None, "the copy still reads the chunk");
    assert_eq!(t.pick_reclaim(), Some(Reclaim::Draining(ChunkId(0))));
    assert_eq!(
        t.free(ChunkId(0)),
        Err(ChunkError::CopyInFlight { id: ChunkId(0) })
    );
    assert_eq!(
        t.activate(ChunkId(0)),
        Err(ChunkError::CopyInFlight { id: ChunkId(0) })
    );
    assert_eq!(writer.end(&mut t, true), Ok(WriteBackEnd::Freed));
    assert_eq!(t.pick_reclaim(), None);
    assert_eq!(t.alloc(), Some(ChunkId(0)));
}

#[test]
fn a_borrower_that_exits_under_write_back_leaves_the_chunk_to_the_writer() {
    let (mut e, mut l) = lent_table(1);
    let mut t = ChunkTable::new(&mut e, &mut l);
    let writer = t.take_write_back().unwrap();
    t.free(ChunkId(0)).unwrap();
    assert_eq!((t.count(Free), t.count(LentOnly)), (0, 0));
    assert_eq!(writer.end(&mut t, false), Ok(WriteBackEnd::Freed));
    assert_eq!(t.count(Free), 1);
}

#[test]
fn a_claim_given_up_puts_the_chunk_where_the_write_back_left_it() {
    let (mut e, mut l) = lent_table(2);
    let mut t = ChunkTable::new(&mut e, &mut l);
    let writer = t.take_write_back().unwrap();
    // Given up while the copy runs: under write-back again.
    t.evict_chunk(ChunkId(0)).unwrap().abort(&mut t).unwrap();
    assert_eq!(t.pick_reclaim(), Some(Reclaim::WritingBack(ChunkId(0))));
    let claim = t.evict_chunk(ChunkId(0)).unwrap();
    assert_eq!(writer.end(&mut t, true), Ok(WriteBackEnd::Claimed));
    claim.abort(&mut t).unwrap();
    assert_eq!(t.state(ChunkId(0)), Some(LentRemovable));
    assert_eq!(
        t.end_write_back(ChunkId(0), true),
        Err(ChunkError::NoCopy { id: ChunkId(0) })
    );
}

#[test]
fn a_prefetched_chunk_is_removable_from_the_start() {
    let (mut e, mut l) = table_of(1);
    let mut t = ChunkTable::new(&mut e, &mut l);
    t.take_free().unwrap().lend(&mut t, true).unwrap();
    assert_eq!(t.pick_write_back(), None);
    assert_eq!(t.pick_reclaim(), Some(Reclaim::Removable(ChunkId(0))));
}

/// Catches victims that count as recent ones, but were the oldest in whose turn it came, passed over before, or empty.
#[test]
fn recent_is_who_was_chosen_as_the_youngest() {
    let recent = VictimOrder::Recent;
    // 0 is the oldest; 6 and 7 are in the guard, so that 5 is the youngest of the others.
    let full = |prepare: &dyn Fn(&mut ChunkTable<'_>), order, seed| {
        let (mut e, mut l) = table_of(8);
        let mut t = ChunkTable::new(&mut e, &mut l);
        t.steer(2, true);
        for _ in 0..8 {
            t.take_free().unwrap().activate(&mut t).unwrap();
        }
        prepare(&mut t);
        let v = t.take_fair_victim(order, seed, |_| false).unwrap();
        (v.chunk.id().0, v.recent)
    };
    let mut turns = [0; 2];
    for seed in 0..256 {
        match full(&|_| (), recent, seed) {
            (5, true) => turns[0] += 1,
            (0, false) => turns[1] += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(turns[0] > turns[1] && turns[1] > 0, "{turns:?}");
    let seed = (0..).find(|&s| full(&|_| (), recent, s).1).unwrap();
    let lrm = VictimOrder::LeastRecentlyMigrated;
    assert_eq!(full(&|_| (), lrm, seed), (0, false));
    let passes_over = |t: &mut ChunkTable<'_>| {
        let v = t.take_fair_victim(recent, seed, |id| id.0 == 5).unwrap();
        assert_eq!((v.chunk.id().0, v.recent, v.passed), (4, true, 1));
        v.chunk.abort(t).unwrap();
    };
    assert_eq!(full(&passes_over, recent, seed), (5, false));
    let empties = |t: &mut ChunkTable<'_>| t.mark_unused(ChunkId(3)).unwrap();
    assert_eq!(full(&empties, recent, seed), (3, false));
}

/// Catches a chunk that is wanted often, and is forgotten to be with the next of its faults.
#[test]
fn what_is_touched_in_the_guard_is_still_kept() {
    let goes = |keeps: bool, touches: bool, seed| {
        let (mut e, mut l) = table_of(16);
        let mut t = ChunkTable::new(&mut e, &mut l);
        t.steer(2, true);
        let comes = |t: &mut ChunkTable<'_>| t.take_free().unwrap().activate(t).unwrap();
        let id = (0..10).map(|_| comes(&mut t)).last().unwrap();
        if keeps {
            t.keep(id).unwrap();
        }
        if touches {
            t.touch(id).unwrap();
        }
        comes(&mut t);
        comes(&mut t);
        // It is the youngest past the guard now.
        t.take_victim(VictimOrder::Recent, seed).unwrap().id().0
    };
    for touches in [false, true] {
        assert!((0..256).all(|s| goes(true, touches, s * 1000) == 0));
        let passes = (0..256).filter(|s| goes(false, touches, s * 1000) == 9);
        assert!(passes.count() > 230);
    }
}

/// Catches a chunk that was passed over once, and whose use nobody sees from then on.
#[test]
fn what_was_passed_over_and_is_touched_is_in_sight_again() {
    let recent = VictimOrder::Recent;
    let next = |touches: bool| {
        let (mut e, mut l) = table_of(8);
        let mut t = ChunkTable::new(&mut e, &mut l);
        t.steer(2, true);
        for _ in 0..8 {
            t.take_free().unwrap().activate(&mut t).unwrap();
        }
        // The youngest past the guard, unless it is the turn of the oldest.
        let passed = (0..8).any(|s| {
            let v = t.take_fair_victim(recent, s, |id| id.0 == 5).unwrap();
            v.chunk.abort(&mut t).unwrap();
            v.passed == 1
        });
        assert!(passed);
        if touches {
            t.touch(ChunkId(5)).unwrap();
        }
        let v = t.take_fair_victim(recent, 1, |_| false).unwrap();
        v.chunk.id().0
    };
    // It was chosen already: it goes first, until it is used.
    assert_eq!(next(false), 5);
    assert_ne!(next(true), 5);
}

/// How long a chunk that was away for so many evictions of 100 takes.
fn away(distance: u64) -> Reuse {
    Reuse::UNKNOWN.comes_back(distance, 100)
}

/// Of 16 in use, the last two in the guard, who goes; `reuse` of each, and so many that are owed.
fn goes(order: VictimOrder, reuse: &dyn Fn(u32) -> Reuse, owed: u32, seed: u64) -> (u32, u32) {
    let (mut e, mut l) = table_of(16);
    let mut t = ChunkTable::new(&mut e, &mut l);
    t.steer(2, true);
    for i in 0..16 {
        let id = t.take_free().unwrap().activate(&mut t).unwrap();
        t.set_reuse(id, reuse(i)).unwrap();
        assert_eq!(t.reuse(id), reuse(i));
        // It leaves the guard before the end.
        if (4..4 + owed).contains(&i) {
            t.keep(id).unwrap();
        }
    }
    let mut victims = (0..2).map(|n| {
        let v = t.take_victim(order, seed + n).unwrap();
        v.id().0
    });
    (victims.next().unwrap(), victims.next().unwrap())
}

#[test]
fn who_comes_back_later_makes_way() {
    let recent = VictimOrder::Recent;
    // 13 is the youngest past the guard. The turn of the oldest apart, which comes for one seed in 32.
    let victims = |reuse: &dyn Fn(u32) -> Reuse, owed| -> BTreeMap<u32, u32> {
        let mut n = BTreeMap::new();
        for seed in 0..256 {
            *n.entry(goes(recent, reuse, owed, seed * 1000).0)
                .or_default() += 1;
        }
        n
    };
    // As long as nobody knows, nor for a quarter or less.
    for same in
        [&|_| Reuse::UNKNOWN, &|i: u32| away(100 + u64::from(i))] as [&dyn Fn(u32) -> Reuse; 2]
    {
        let n = victims(same, 0);
        assert!(
            n[&13] > 230 && n.keys().all(|v| [0, 13].contains(v)),
            "{n:?}"
        );
    }
    // Three that come later; none of the young, which do too.
    let later = |i: u32| {
        away(if [3, 7, 9].contains(&i) || i > 13 {
            200
        } else {
            100
        })
    };
    let n = victims(&later, 0);
    assert!(n.keys().all(|v| [0, 3, 7, 9, 13].contains(v)), "{n:?}");
    assert!(n[&3] + n[&7] + n[&9] > 120 && n[&13] > 20, "{n:?}");
    // The latest of those that were looked at.
    let one = |i: u32| {
        away(if i == 7 {
            300
        } else if i < 13 {
            200
        } else {
            100
        })
    };
    let n = victims(&one, 0);
    assert!(n[&7] > 60 && !n.contains_key(&13), "{n:?}");
    // Who is kept, with nobody that comes later: the oldest goes instead; and it is paid by whoever makes way.
    let n = victims(&|_| Reuse::UNKNOWN, 1);
    assert_eq!(n.keys().copied().collect::<Vec<_>>(), [0]);
    let turn = |seed| goes(recent, &|_| Reuse::UNKNOWN, 0, seed).0 == 0;
    let seed = (0..1000).find(|&s| !turn(s) && !turn(s + 1)).unwrap();
    assert_eq!(goes(recent, &|_| Reuse::UNKNOWN, 1, seed), (0, 13));
    let paid = |seed| goes(recent, &later, 1, seed);
    let (first, second) = (0..1000)
        .map(|n| paid(n * 10))
        .find(|v| v.0 == 3 && ![0, 7, 9].contains(&v.1))
        .unwrap();
    assert_eq!((first, second), (3, 13));
}

#[test]
fn by_chance_too_who_comes_back_later_makes_way() {
    let later = |i: u32| away(if i < 2 { 200 } else { 100 });
    let hits = (0..256).filter(|s| goes(VictimOrder::Random, &later, 0, s * 1000).0 < 2);
    // An eighth of the chunks; six are looked at.
    let hits = hits.count();
    assert!((110..170).contains(&hits), "{hits}");
}

#[test]
fn who_stays_for_long_comes_back_as_is_usual() {
    let goes = |cycles: u16, seed| {
        let (mut e, mut l) = table_of(16);
        let mut t = ChunkTable::new(&mut e, &mut l);
        t.steer(2, true);
        t.set_cycle(250);
        for i in 0..16 {
            let id = t.take_free().unwrap().activate(&mut t).unwrap();
            // The youngest past the guard, and those in it, came just now.
            t.set_cycle(if i < 13 {
                250
            } else {
                cycles.wrapping_add(250)
            });
            t.set_reuse(id, away(if i < 13 { 50 } else { 70 })).unwrap();
        }
        t.take_victim(VictimOrder::Recent, seed).unwrap().id().0
    };
    let youngest = |cycles| (0..256).filter(|s| goes(cycles, s * 1000) == 13).count();
    // Until they are a quarter later than it.
    assert!([0, 1, 11].iter().all(|&n| youngest(n) > 230));
    assert!([12, 50, 255, 256, u16::MAX]
        .iter()
        .all(|&n| youngest(n) < 10));
}
