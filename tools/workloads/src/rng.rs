// SPDX-License-Identifier: GPL-2.0
//! Random numbers: SplitMix64 for seeds and hashes (Steele, Lea, Flood, OOPSLA 2014), xoshiro256** for streams (Blackman, Vigna,
//! "Scrambled linear pseudorandom number generators", 2018), a Feistel network with cycle walking for permutations of any size
//! (Black, Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002).

/// What SplitMix64 adds each time.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bijection of 64 bits that spreads: SplitMix64's output function, after one increment.
pub fn mix(x: u64) -> u64 {
    let mut z = x.wrapping_add(GOLDEN);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

impl Rng {
    /// The stream of a seed. `stream` tells streams of one seed apart.
    pub fn new(seed: u64, stream: u64) -> Rng {
        let mut s = mix(seed ^ mix(stream));
        Rng([(); 4].map(|()| {
            s = s.wrapping_add(GOLDEN);
            mix(s)
        }))
    }

    /// The next 64 bits.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        let [a, b, c, d] = self.0;
        let out = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let (c, d) = (c ^ a, d ^ b);
        self.0 = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        out
    }

    /// The next 32 bits.
    pub fn next_u32(&mut self) -> u32 {
        (self.next() >> 32) as u32
    }

    /// Below `n`; 0 for `n` = 0. The upper half of a product, as good as even for `n` far below 2^64.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
}

/// A permutation of 0 .. n - 1 that needs no table.
#[derive(Clone, Copy, Debug)]
pub struct Shuffle {
    n: u64,
    half: u32,
    seed: u64,
}

impl Shuffle {
    /// A permutation of `n` numbers, by seed.
    pub fn new(n: u64, seed: u64) -> Shuffle {
        let bits = 64 - n.saturating_sub(1).leading_zeros();
        Shuffle {
            n,
            half: bits.div_ceil(2).max(1),
            seed,
        }
    }

    /// Where `i` goes. `i` itself if it is not below n.
    pub fn of(&self, i: u64) -> u64 {
        if i >= self.n {
            return i;
        }
        let mut x = i;
        // Walks the cycle of the larger domain until it is inside; less than four steps on average, and it comes back to `i`
        // at the latest.
        loop {
            x = self.feistel(x);
            if x < self.n {
                return x;
            }
        }
    }

    fn feistel(&self, x: u64) -> u64 {
        let mask = (1u64 << self.half) - 1;
        let (mut l, mut r) = (x >> self.half, x & mask);
        for round in 0..4u64 {
            let f = mix(self.seed ^ mix(r ^ (round << 48))) & mask;
            (l, r) = (r, l ^ f);
        }
        (l << self.half) | r
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffles_are_permutations() {
        for n in [1u64, 2, 3, 7, 64, 1000, 4097] {
            let s = Shuffle::new(n, 9);
            let mut all: Vec<u64> = (0..n).map(|i| s.of(i)).collect();
            all.sort_unstable();
            assert!(all.iter().copied().eq(0..n), "{n}");
        }
    }

    #[test]
    fn a_shuffle_leaves_little_in_place() {
        let s = Shuffle::new(1 << 16, 3);
        let near = (0..1u64 << 16).filter(|i| s.of(*i).abs_diff(*i) < 64);
        // 128 of 65536 places are near: about 128 of 65536 numbers.
        assert!(near.count() < 300);
    }

    #[test]
    fn below_is_even() {
        let mut r = Rng::new(1, 2);
        let mut seen = [0u32; 10];
        for _ in 0..100_000 {
            seen[r.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|n| (9_500..10_500).contains(n)), "{seen:?}");
        assert_eq!(r.below(0), 0);
    }

    #[test]
    fn streams_of_a_seed_differ() {
        assert_ne!(Rng::new(1, 0).next(), Rng::new(1, 1).next());
        assert_ne!(Rng::new(1, 0).next(), Rng::new(2, 0).next());
        assert_eq!(Rng::new(1, 0).next(), Rng::new(1, 0).next());
    }

    /// First numbers of SplitMix64 for state 0, from the reference in C of its authors.
    #[test]
    fn mix_is_splitmix64() {
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix(GOLDEN), 0x6e78_9e6a_a1b9_65f4);
    }
}
