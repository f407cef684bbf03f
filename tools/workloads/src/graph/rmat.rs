// SPDX-License-Identifier: GPL-2.0
//! The R-MAT generator (Chakrabarti, Zhan, Faloutsos, SDM 2004) with Graph500's parameters (Graph500 specification 2.0, section
//! 3.1: A = 0.57, B = C = 0.19, D = 0.05, edge factor 16).

use crate::rng::{mix, Rng, Shuffle};

/// A, of 2^32.
const A: u32 = share(57);
/// A + B.
const AB: u32 = share(76);
/// A + B + C.
const ABC: u32 = share(95);

const fn share(percent: u64) -> u32 {
    ((percent << 32) / 100) as u32
}

/// Order of the vertices' numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// As a social network: numbers permuted, as Graph500 does; neighbours are anywhere.
    Social,
    /// As a web graph in the order of its crawl: numbers as generated, and 75 % of the edges redrawn to end within 1000 numbers,
    /// for most links stay on their host. The share is this project's choice, not a measurement.
    Web,
}

/// Of 100 edges of a web graph, those that stay near.
const NEAR_PERCENT: u64 = 75;
/// How near.
const NEAR: u64 = 1000;

/// Draws edges of a graph of 2^scale vertices.
pub struct Edges {
    rng: Rng,
    scale: u32,
    kind: Kind,
    places: Shuffle,
}

/// The permutation of a social graph's vertices.
fn places(scale: u32, seed: u64) -> Shuffle {
    Shuffle::new(1 << scale, mix(seed ^ 0x7065_726d))
}

impl Edges {
    /// The edges of a seed.
    pub fn new(scale: u32, kind: Kind, seed: u64) -> Edges {
        Edges {
            rng: Rng::new(seed, 0x726d_6174),
            scale,
            kind,
            places: places(scale, seed),
        }
    }

    /// An edge: a quarter of the matrix in each step.
    pub fn draw(&mut self) -> (u64, u64) {
        let (mut u, mut v) = (0, 0);
        for _ in 0..self.scale {
            let x = self.rng.next_u32();
            let (down, right) = if x < A {
                (0, 0)
            } else if x < AB {
                (0, 1)
            } else if x < ABC {
                (1, 0)
            } else {
                (1, 1)
            };
            u = 2 * u + down;
            v = 2 * v + right;
        }
        match self.kind {
            Kind::Social => (self.places.of(u), self.places.of(v)),
            Kind::Web if self.rng.below(100) < NEAR_PERCENT => {
                (u, near(self.scale, u, self.rng.next()))
            }
            Kind::Web => (u, v),
        }
    }
}

/// A vertex within 1000 of `u`, from random bits.
fn near(scale: u32, u: u64, random: u64) -> u64 {
    let last = (1u64 << scale) - 1;
    let from = u.saturating_sub(NEAR);
    let to = u.saturating_add(NEAR).min(last);
    from + random % (to - from + 1)
}

/// The other end of an edge of `from`, drawn with the popularity that vertices have in such a graph: each bit of a number is 1
/// with probability B + D. From random bits.
pub fn end(scale: u32, kind: Kind, seed: u64, from: u64, random: u64) -> u64 {
    if kind == Kind::Web && random % 100 < NEAR_PERCENT {
        return near(scale, from, mix(random));
    }
    let mut r = Rng::new(seed, random);
    // B + D = C + D: the graph has both directions of each edge.
    let v = (0..scale).fold(0, |v, _| 2 * v + u64::from(r.next_u32() >= AB));
    match kind {
        Kind::Social => places(scale, seed).of(v),
        Kind::Web => v,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quarters_are_as_likely_as_they_should_be() {
        let mut edges = Edges::new(10, Kind::Web, 7);
        // The top bits of an edge that was not redrawn; those that were have an end near their start.
        let mut seen = [0u32; 4];
        let mut n = 0u32;
        for _ in 0..200_000 {
            let mut e = Edges {
                kind: Kind::Social,
                places: Shuffle::new(0, 0),
                rng: edges.rng.clone(),
                scale: 10,
            };
            // A permutation of nothing leaves all in place.
            let (u, v) = e.draw();
            edges.rng = e.rng;
            seen[(2 * (u >> 9) + (v >> 9)) as usize] += 1;
            n += 1;
        }
        for (got, want) in seen.iter().zip([0.57, 0.19, 0.19, 0.05]) {
            let got = f64::from(*got) / f64::from(n);
            assert!((got - want).abs() < 0.005, "{seen:?}");
        }
    }

    #[test]
    fn drawn_ends_are_as_popular_as_generated_ones() {
        // Share of the ends among the 1 % of vertices that are most popular.
        let top = |ends: &mut dyn FnMut(u64) -> u64| {
            let mut n = vec![0u32; 1 << 12];
            for i in 0..200_000 {
                n[ends(i) as usize] += 1;
            }
            n.sort_unstable_by(|a, b| b.cmp(a));
            f64::from(n[..41].iter().sum::<u32>()) / 200_000.0
        };
        let mut edges = Edges::new(12, Kind::Social, 5);
        let made = top(&mut |_| edges.draw().1);
        let drawn = top(&mut |i| end(12, Kind::Social, 5, 0, mix(i)));
        assert!((made - drawn).abs() < 0.01, "{made} {drawn}");
        assert!(made > 0.15, "{made}");
    }

    #[test]
    fn webs_are_local_and_social_networks_are_not() {
        let near = |kind| {
            let mut edges = Edges::new(18, kind, 3);
            let n = (0..20_000).filter(|_| {
                let (u, v) = edges.draw();
                u.abs_diff(v) <= NEAR
            });
            let drawn = (0..20_000).filter(|i| {
                let u = mix(*i) >> 46;
                u.abs_diff(end(18, kind, 3, u, mix(i + 20_000))) <= NEAR
            });
            let (n, drawn) = (n.count() / 200, drawn.count() / 200);
            assert!(n.abs_diff(drawn) < 15, "{n} {drawn}");
            n
        };
        assert!((72..90).contains(&near(Kind::Web)), "{}", near(Kind::Web));
        assert!(near(Kind::Social) < 5);
    }
}
