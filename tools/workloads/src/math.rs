// SPDX-License-Identifier: GPL-2.0
//! Logarithm and power from additions, multiplications and divisions alone: these are exact to the bit on every machine (IEEE
//! 754), those of C libraries are not.

/// Natural logarithm of a positive normal number.
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let exponent = (bits >> 52) as i64 - 1023;
    let m = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | 0x3ff0_0000_0000_0000);
    // 2 artanh((m - 1) / (m + 1)), m in 1 .. 2.
    let t = (m - 1.0) / (m + 1.0);
    let mut sum = 0.0;
    let mut k = 39.0;
    while k >= 1.0 {
        sum = sum * t * t + 1.0 / k;
        k -= 2.0;
    }
    2.0 * t * sum + exponent as f64 * std::f64::consts::LN_2
}

/// e to the power of `-x`, `x` in 0 .. 700.
fn exp_neg(x: f64) -> f64 {
    // 2^-n · e^-r.
    let n = (x / std::f64::consts::LN_2).floor();
    let r = x - n * std::f64::consts::LN_2;
    let mut sum = 1.0;
    let mut k = 20.0;
    while k >= 1.0 {
        sum = 1.0 - r / k * sum;
        k -= 1.0;
    }
    let scale = f64::from_bits((1023u64.saturating_sub(n as u64)) << 52);
    sum * scale
}

/// `k` to the power of `-s`, for `k` at least 1 and `s` from 0 to 2.
pub(crate) fn pow_neg(k: u64, s: f64) -> f64 {
    exp_neg(ln(k.max(1) as f64) * s)
}

/// Draws ranks 0 .. n - 1 with probability proportional to `(rank + 1)^-s`.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    /// Sums of the probabilities up to each rank, of 2^63.
    upto: Vec<u64>,
}

impl Zipf {
    /// Of `n` ranks.
    pub(crate) fn new(n: u64, s: f64) -> Zipf {
        let mut sum = 0.0;
        let sums: Vec<f64> = (1..=n.max(1))
            .map(|k| {
                sum += pow_neg(k, s);
                sum
            })
            .collect();
        let full = (1u64 << 63) as f64;
        Zipf {
            upto: sums.iter().map(|x| (x / sum * full) as u64).collect(),
        }
    }

    /// The rank of 64 random bits.
    pub(crate) fn rank(&self, random: u64) -> u64 {
        let x = random >> 1;
        let n = self.upto.partition_point(|u| *u <= x);
        n.min(self.upto.len() - 1) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn powers_are_right() {
        for k in [1u64, 2, 3, 10, 1000, 123_456_789] {
            for s in [0.0, 0.5, 0.9, 1.0, 1.2, 2.0] {
                let want = (k as f64).powf(-s);
                assert!((pow_neg(k, s) / want - 1.0).abs() < 1e-12, "{k}^-{s}");
            }
        }
    }

    #[test]
    fn ranks_are_drawn_as_often_as_they_should() {
        let n = 100u64;
        let zipf = Zipf::new(n, 0.9);
        let mut rng = Rng::new(5, 0);
        let mut seen = vec![0u64; n as usize];
        let draws = 200_000u64;
        for _ in 0..draws {
            seen[zipf.rank(rng.next()) as usize] += 1;
        }
        let all: f64 = (1..=n).map(|k| (k as f64).powf(-0.9)).sum();
        for k in [1u64, 2, 10, 100] {
            let want = draws as f64 * (k as f64).powf(-0.9) / all;
            let got = seen[k as usize - 1] as f64;
            assert!((got / want - 1.0).abs() < 0.1, "{k}: {got} of {want}");
        }
        assert_eq!(zipf.rank(u64::MAX), n - 1);
        assert_eq!(zipf.rank(0), 0);
    }
}
