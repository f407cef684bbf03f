// SPDX-License-Identifier: GPL-2.0
//! Random access: RA of the SDK, and the two distributions by themselves.

use crate::math::Zipf;
use crate::rng::{Rng, Shuffle};
use crate::size::{empty, filled};
use crate::trace::{steps, touch, PAGE_PS, PAGE_WORDS};
use crate::{Ask, Touch, Workload, PAGE, WORD};

/// Pages of 2 MiB.
const CHUNK_PAGES: u64 = 512;

/// UVMSmart's RA: a sweep over the input, of which 1 % of the elements count; each reads the table and writes the output at
/// random places.
pub(crate) fn ra(ask: &Ask) -> Workload {
    let words = ask.bytes / WORD / 3;
    let seed = ask.seed;
    let allocs = vec![
        filled("input", words, 0),
        filled("table", words, 1),
        empty("output", words),
    ];
    Workload::new("ra", allocs, ask.passes_or(1), move |pass| {
        let mut rng = Rng::new(seed, u64::from(pass));
        let pages = (words * WORD).div_ceil(PAGE);
        Box::new(steps(
            (0..pages).flat_map(move |p| {
                let mut out = vec![touch(0, p * PAGE, false)];
                for _ in 0..PAGE_WORDS / 100 {
                    out.push(touch(1, rng.below(words) * WORD, false));
                    out.push(touch(2, rng.below(words) * WORD, true));
                }
                out
            }),
            PAGE_PS,
        ))
    })
}

/// As many reads as there are pages, each anywhere.
pub(crate) fn uniform(ask: &Ask) -> Workload {
    let pages = ask.bytes / PAGE;
    reads("uniform", ask, move |rng| rng.below(pages))
}

/// As many reads as there are pages: a chunk of 2 MiB by Zipf's law, popular ones anywhere, then a page of it.
pub(crate) fn zipf(ask: &Ask) -> Workload {
    let pages = ask.bytes / PAGE;
    let chunks = pages.div_ceil(CHUNK_PAGES);
    let law = Zipf::new(chunks, 0.9);
    let places = Shuffle::new(chunks, ask.seed);
    reads("zipf", ask, move |rng| {
        let chunk = places.of(law.rank(rng.next()));
        let first = chunk * CHUNK_PAGES;
        first + rng.below(CHUNK_PAGES.min(pages - first))
    })
}

fn reads(
    name: &'static str,
    ask: &Ask,
    page: impl Fn(&mut Rng) -> u64 + Send + Sync + 'static,
) -> Workload {
    let pages = ask.bytes / PAGE;
    let seed = ask.seed;
    let allocs = vec![filled("data", pages * PAGE_WORDS, 0)];
    let page = std::sync::Arc::new(page);
    Workload::new(name, allocs, ask.passes_or(4), move |pass| {
        let mut rng = Rng::new(seed, u64::from(pass));
        let page = page.clone();
        let all = (0..pages).map(move |_| Touch {
            alloc: 0,
            page: page(&mut rng) as u32,
            write: false,
        });
        Box::new(steps(all, PAGE_PS))
    })
}
