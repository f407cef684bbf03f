// SPDX-License-Identifier: GPL-2.0
//! Decoding of a large language model: for each token all layers in a cycle, each its weights and all keys and values so far, to
//! which one is added. With experts, 2 of 8 a layer are read (Jiang et al., "Mixtral of experts", arXiv 2401.04088), the popular
//! ones by Zipf's law with exponent 1 (chosen).

use crate::math::Zipf;
use crate::rng::{Rng, Shuffle};
use crate::size::filled;
use crate::trace::{kernels, run, Kernel, PAGE_PS};
use crate::{Ask, Touch, Workload, PAGE, WORD};

/// Layers: Llama 2 7B and Mixtral 8x7B have 32 (Touvron et al., arXiv 2307.09288, table 1 of Llama; Mixtral, table 1).
const LAYERS: u64 = 32;
/// Experts of a layer, and those that a token reads.
const EXPERTS: u64 = 8;
const CHOSEN: usize = 2;
/// Of 8 parts of the footprint, those that are keys and values (chosen): about 7B in 16 bits with a cache of 2 GB.
const CACHE: u64 = 1;
/// Tokens of a pass; the cache begins half full and is full after the last one of all passes.
const TOKENS: u64 = 8;

/// Dense layers.
pub(crate) fn dense(ask: &Ask) -> Workload {
    make("llm-decode", ask, 1, 1)
}

/// Layers with experts.
pub(crate) fn experts(ask: &Ask) -> Workload {
    make("llm-moe", ask, EXPERTS, CHOSEN)
}

fn make(name: &'static str, ask: &Ask, experts: u64, chosen: usize) -> Workload {
    let passes = ask.passes_or(4);
    let per = |bytes: u64, n: u64| bytes / n / WORD * WORD;
    let expert = per(ask.bytes / 8 * (8 - CACHE), LAYERS * experts);
    let cache = per(ask.bytes / 8 * CACHE, LAYERS);
    let allocs = vec![
        filled("weights", expert * experts * LAYERS / WORD, 0),
        filled("keys-values", cache * LAYERS / WORD, 1),
    ];
    let law = Zipf::new(experts, 1.0);
    let seed = ask.seed;
    Workload::new(name, allocs, passes, move |pass| {
        let law = law.clone();
        let mut rng = Rng::new(seed, pass.into());
        let all = TOKENS * u64::from(passes);
        let tokens = (0..TOKENS).flat_map(move |t| {
            let done = u64::from(pass) * TOKENS + t + 1;
            // Bytes of a layer's cache that are in use.
            let used = cache / 2
                + (u128::from(cache - cache / 2) * u128::from(done) / u128::from(all)) as u64;
            let law = law.clone();
            let mut draws: Vec<u64> = Vec::new();
            for _ in 0..LAYERS {
                draws.push(rng.next());
            }
            (0..LAYERS).zip(draws).map(move |(layer, draw)| {
                let mut rng = Rng::new(draw, 0);
                // Which expert is popular differs from layer to layer.
                let places = Shuffle::new(experts, seed ^ layer);
                let mut these: Vec<u64> = Vec::new();
                while these.len() < chosen.min(experts as usize) {
                    let e = places.of(law.rank(rng.next()));
                    if !these.contains(&e) {
                        these.push(e);
                    }
                }
                let weights = these
                    .into_iter()
                    .flat_map(move |e| run(0, (layer * experts + e) * expert, expert, false));
                let kv = run(1, layer * cache, used, false);
                let end = (layer * cache + used).saturating_sub(1) / PAGE;
                let layer = weights.chain(kv).chain([Touch {
                    alloc: 1,
                    page: end as u32,
                    write: true,
                }]);
                Box::new(layer) as Kernel
            })
        });
        Box::new(kernels(tokens, PAGE_PS))
    })
}
