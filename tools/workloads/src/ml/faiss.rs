// SPDX-License-Identifier: GPL-2.0
//! Queries of an inverted index as FAISS has it (Johnson, Douze, Jégou, "Billion-scale similarity search", IEEE Trans. Big Data
//! 2021): each reads the centroids and then whole lists, evenly at random, a chunk of 2 MiB each.

use crate::rng::Rng;
use crate::size::filled;
use crate::trace::{run, steps, PAGE_PS};
use crate::{Ask, Workload, WORD};

/// Bytes of a list.
const LIST: u64 = 2 << 20;
/// Lists of a query: nprobe.
const PROBES: u64 = 16;
/// Bytes of centroids to one of a list: 128 floats.
const CENTROID: u64 = 512;

pub(crate) fn make(ask: &Ask) -> Workload {
    let lists = (ask.bytes / (LIST + CENTROID)).max(1);
    let left = ask.bytes - lists * CENTROID;
    let (words, centroids) = (left / WORD, lists * CENTROID);
    let seed = ask.seed;
    let allocs = vec![
        filled("centroids", centroids / WORD, 0),
        filled("lists", words, 1),
    ];
    Workload::new("faiss", allocs, ask.passes_or(4), move |pass| {
        let mut rng = Rng::new(seed, pass.into());
        // As many probes as lists.
        let queries = (0..lists.div_ceil(PROBES)).flat_map(move |_| {
            let probes: Vec<u64> = (0..PROBES).map(|_| rng.below(lists)).collect();
            run(0, 0, centroids, false).chain(probes.into_iter().flat_map(move |l| {
                // The last one has what is left.
                let to = if l + 1 == lists {
                    words * WORD
                } else {
                    (l + 1) * LIST
                };
                run(1, l * LIST, to - l * LIST, false)
            }))
        });
        Box::new(steps(queries, PAGE_PS))
    })
}
