// SPDX-License-Identifier: GPL-2.0
//! Lloyd's K-Means as in Rodinia: each iteration reads all points and updates a small set of centroids.

use crate::size::filled;
use crate::trace::{run, steps, touch, PAGE_PS};
use crate::{Ask, Workload, PAGE, WORD};

/// Most bytes of centroids.
const CENTROIDS: u64 = 1 << 20;
/// Pages of points to a touch of a page of centroids.
const EVERY: u64 = 16;

pub(crate) fn make(ask: &Ask) -> Workload {
    // A 64th of the footprint where that is less.
    let centroids = CENTROIDS.min(ask.bytes / 64) / PAGE * PAGE;
    let words = (ask.bytes - centroids) / WORD;
    let allocs = vec![
        filled("points", words, 0),
        filled("centroids", centroids / WORD, 1),
    ];
    Workload::new("kmeans", allocs, ask.passes_or(10), move |_| {
        let hot = centroids / PAGE;
        let points = run(0, 0, words * WORD, false).flat_map(move |t| {
            let p = u64::from(t.page);
            let page = p / EVERY % hot.max(1) * PAGE;
            let turn = (p % EVERY == 0).then_some(());
            let both = turn.map(|()| [touch(1, page, false), touch(1, page, true)]);
            [t].into_iter().chain(both.into_iter().flatten())
        });
        Box::new(steps(points, PAGE_PS))
    })
}
