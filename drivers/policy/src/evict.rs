// SPDX-License-Identifier: GPL-2.0
//! The order in which chunks become victims.

/// How the next victim is chosen among the chunks in use. Whatever the order, a chunk without resident pages and then
/// one with discarded pages only go first, as they cost no copy (`nvidia-uvm.md` 4.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum VictimOrder {
    /// The chunk that a migration touched longest ago (`nvidia-uvm.md` 4.5): what NVIDIA's driver does.
    #[default]
    LeastRecentlyMigrated = 0,
    /// Any chunk in use, each as likely as the others; as far as one knows how soon they come back ([`Reuse`](crate::reuse::Reuse)), of
    /// some the one that comes last.
    Random = 1,
    /// The chunk migrated to last, behind a guard of younger ones; now and then the oldest, so that what stays is replaced in
    /// time. What does not fit is gone over through the guard, and the rest stays: bimodal insertion (Qureshi et al., ISCA'07). One of these
    /// goes instead if it is known to come back later.
    Recent = 2,
    /// [`Self::Recent`] while [`Refaults`](crate::refault::Refaults) says that what is evicted comes back, [`Self::Random`] while that
    /// comes back at once, else the least recently migrated.
    Adaptive = 3,
}

impl VictimOrder {
    /// The order with this number (the value of the `evict_order` knob).
    pub const fn from_u64(value: u64) -> Option<Self> {
        match value {
            0 => Some(Self::LeastRecentlyMigrated),
            1 => Some(Self::Random),
            2 => Some(Self::Recent),
            3 => Some(Self::Adaptive),
            _ => None,
        }
    }
}

/// A small pseudo-random generator (SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
/// 2014). Good enough to pick victims; no secret depends on it. The same seed gives the same victims, which makes runs
/// repeatable.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator that starts at `seed`; every seed is fine.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number; also a fit seed for [`ChunkTable::pick_victim`](crate::chunk::ChunkTable::pick_victim).
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, each about as likely; zero if `bound` is zero.
    pub fn below(&mut self, bound: u32) -> u32 {
        // The high half of a 32 x 32 bit product: no division, and a bias below bound / 2^32.
        // CAST: keeps the high 32 bits of the generator, then of the product, which is below `bound`.
        (((self.next_u64() >> 32) * u64::from(bound)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_splitmix64() {
        // First outputs for seed 1234567, as published with the reference implementation.
        let mut rng = SplitMix64::new(1_234_567);
        assert_eq!(rng.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(rng.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn below_reaches_every_number_and_no_other() {
        let mut rng = SplitMix64::new(7);
        let mut seen = [0u32; 5];
        for _ in 0..5_000 {
            seen[rng.below(5) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (800..1_200).contains(&n)), "{seen:?}");
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.below(1), 0);
    }

    #[test]
    fn orders_have_the_numbers_of_the_knob() {
        use VictimOrder::*;
        for v in [LeastRecentlyMigrated, Random, Recent, Adaptive] {
            assert_eq!(VictimOrder::from_u64(v as u64), Some(v));
        }
        assert_eq!(VictimOrder::from_u64(4), None);
    }
}
