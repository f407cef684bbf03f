// SPDX-License-Identifier: GPL-2.0
//! Replacement policies, each in a few lines.

use super::order::Order;
use huvm_workloads::rng::Rng;
use std::collections::VecDeque;

/// Never used again.
pub const NEVER: u32 = u32::MAX;

/// When something happens.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// Number of the act.
    pub now: u32,
    /// Number of the act that uses the chunk next; [`NEVER`]. Only [`Min`] may look.
    pub next: u32,
    /// It was written since it came.
    pub dirty: bool,
}

/// Who leaves. It is told of all that happens to the chunks in memory.
pub trait Policy {
    /// A chunk came.
    fn brought(&mut self, chunk: u32, at: At);
    /// A chunk that is there was touched.
    fn touched(&mut self, chunk: u32, at: At);
    /// Chooses one of those that are there; it is gone then.
    fn victim(&mut self) -> Option<u32>;
    /// A chunk went for another reason.
    fn gone(&mut self, chunk: u32);
}

/// What makes a policy, from a seed.
pub type Make = fn(u64) -> Box<dyn Policy>;

/// Name, what it does, and how it is made.
pub const POLICIES: &[(&str, &str, Make)] = &[
    ("min", "Belady's MIN: whose next use is furthest", |_| {
        Box::<Min>::default()
    }),
    ("lru", "least recently used: sees every access", |_| {
        Box::<Lru>::default()
    }),
    ("lrm", "least recently migrated: sees faults alone", |_| {
        Box::<Lrm>::default()
    }),
    ("random", "any, each as likely", |seed| {
        Box::new(Random::new(seed))
    }),
    (
        "bip",
        "bimodal: the latest behind a guard of 16, 1 of 32 stays",
        |seed| Box::new(Bip::new(seed)),
    ),
];

/// The policy of a name.
pub fn by_name(name: &str, seed: u64) -> Option<Box<dyn Policy>> {
    let found = POLICIES.iter().find(|(n, ..)| *n == name);
    found.map(|(.., make)| make(seed))
}

/// Belady's MIN: the chunk whose next use is furthest; of those never used again the clean ones first.
#[derive(Default)]
pub struct Min(Order);

impl Policy for Min {
    fn brought(&mut self, chunk: u32, at: At) {
        let soon = i64::from(NEVER - at.next);
        self.0.put(chunk, soon << 1 | i64::from(at.dirty));
    }
    fn touched(&mut self, chunk: u32, at: At) {
        self.brought(chunk, at);
    }
    fn victim(&mut self) -> Option<u32> {
        self.0.pop()
    }
    fn gone(&mut self, chunk: u32) {
        self.0.remove(chunk);
    }
}

/// Least recently used.
#[derive(Default)]
pub struct Lru(Order);

impl Policy for Lru {
    fn brought(&mut self, chunk: u32, at: At) {
        self.0.put(chunk, i64::from(at.now));
    }
    fn touched(&mut self, chunk: u32, at: At) {
        self.brought(chunk, at);
    }
    fn victim(&mut self) -> Option<u32> {
        self.0.pop()
    }
    fn gone(&mut self, chunk: u32) {
        self.0.remove(chunk);
    }
}

/// Least recently migrated, NVIDIA UVM's: a touch without a fault is not seen.
#[derive(Default)]
pub struct Lrm(Order);

impl Policy for Lrm {
    fn brought(&mut self, chunk: u32, at: At) {
        self.0.put(chunk, i64::from(at.now));
    }
    fn touched(&mut self, _: u32, _: At) {}
    fn victim(&mut self) -> Option<u32> {
        self.0.pop()
    }
    fn gone(&mut self, chunk: u32) {
        self.0.remove(chunk);
    }
}

/// Any.
pub struct Random {
    rng: Rng,
    there: Vec<u32>,
}

impl Random {
    /// By seed.
    pub fn new(seed: u64) -> Random {
        Random {
            rng: Rng::new(seed, 0x72),
            there: Vec::new(),
        }
    }
}

impl Policy for Random {
    fn brought(&mut self, chunk: u32, _: At) {
        self.there.push(chunk);
    }
    fn touched(&mut self, _: u32, _: At) {}
    fn victim(&mut self) -> Option<u32> {
        let n = self.there.len();
        // CAST: below `n`.
        let at = self.rng.below(n as u64) as usize;
        (at < n).then(|| self.there.swap_remove(at))
    }
    fn gone(&mut self, chunk: u32) {
        // Rare: only what the CPU writes, and what is discarded.
        self.there.retain(|c| *c != chunk);
    }
}

/// Chunks behind which an evict-recent policy looks: what came last is still being worked on.
const GUARD: usize = 16;
/// One of so many stays as if it were old.
const STAYS: u64 = 32;

/// Bimodal insertion (BIP): what leaves the guard is the next to be evicted, but for one of 32. Sees faults alone.
pub struct Bip {
    rng: Rng,
    guard: VecDeque<u32>,
    order: Order,
    count: i64,
}

impl Bip {
    /// By seed.
    pub fn new(seed: u64) -> Bip {
        Bip {
            rng: Rng::new(seed, 0x62),
            guard: VecDeque::new(),
            order: Order::default(),
            count: 0,
        }
    }
}

impl Policy for Bip {
    fn brought(&mut self, chunk: u32, _: At) {
        self.guard.push_back(chunk);
        if self.guard.len() <= GUARD {
            return;
        }
        if let Some(old) = self.guard.pop_front() {
            self.count += 1;
            let stays = self.rng.below(STAYS) == 0;
            let key = if stays { self.count } else { -self.count };
            self.order.put(old, key);
        }
    }
    fn touched(&mut self, _: u32, _: At) {}
    fn victim(&mut self) -> Option<u32> {
        self.order.pop().or_else(|| self.guard.pop_front())
    }
    fn gone(&mut self, chunk: u32) {
        self.guard.retain(|c| *c != chunk);
        self.order.remove(chunk);
    }
}
