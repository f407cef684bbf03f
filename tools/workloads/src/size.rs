// SPDX-License-Identifier: GPL-2.0
//! Footprints to sizes of arrays.

use crate::{Alloc, First, Init, PAGE, WORD};

/// Bytes of so many words, up to a whole page.
pub(crate) fn bytes_of(words: u64) -> u64 {
    (words * WORD).next_multiple_of(PAGE)
}

/// An array that the CPU fills with a series. `nr` tells arrays apart.
pub(crate) fn filled(name: &'static str, words: u64, nr: u64) -> Alloc {
    let init = Init::Series {
        first: 7 + 1000 * nr,
        add: 3 + 2 * nr,
    };
    Alloc {
        name,
        bytes: bytes_of(words),
        first: First::Cpu(init),
    }
}

/// An array that the GPU touches first.
pub(crate) fn empty(name: &'static str, words: u64) -> Alloc {
    Alloc {
        name,
        bytes: bytes_of(words),
        first: First::Gpu,
    }
}

/// Integer square root, rounded down.
pub(crate) fn isqrt(x: u64) -> u64 {
    x.isqrt()
}

/// Largest side of a square matrix of words, `matrices` of them with `vectors` of a side each, in so many bytes.
pub(crate) fn side(bytes: u64, matrices: u64, vectors: u64) -> u64 {
    let words = bytes / WORD;
    let mut n = isqrt(words / matrices.max(1));
    while n > 1 && matrices * n * n + vectors * n > words {
        n -= 1;
    }
    n.max(1)
}

/// Blocks and words a unit such that `blocks · unit · Σ parts` words are nearly `bytes`: for arrays of fixed proportions. A
/// unit is at least one word, and the largest share of a block at most a piece.
pub(crate) fn proportional(bytes: u64, parts: &[u64]) -> (u64, u64) {
    let sum: u64 = parts.iter().sum::<u64>().max(1);
    let most = parts.iter().copied().max().unwrap_or(1).max(1);
    let words = bytes / WORD;
    let unit = (words / sum / 4096).clamp(1, (8192 / most).max(1));
    ((words / (sum * unit)).max(1), unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proportions_fill_the_footprint() {
        for bytes in [8u64 << 20, 100_000_000, 24 << 30] {
            for parts in [&[17u64, 17, 1, 1][..], &[1, 1], &[100, 1]] {
                let (blocks, unit) = proportional(bytes, parts);
                let got = blocks * unit * parts.iter().sum::<u64>() * WORD;
                assert!(
                    got <= bytes && got * 1000 > bytes * 998,
                    "{bytes} {parts:?}"
                );
                assert!(blocks < crate::MAX_BLOCKS);
            }
        }
    }

    #[test]
    fn a_side_is_the_largest() {
        let n = side(8 << 20, 2, 3);
        assert!(2 * n * n + 3 * n <= 1 << 20);
        assert!(2 * (n + 1) * (n + 1) + 3 * (n + 1) > 1 << 20);
    }
}
