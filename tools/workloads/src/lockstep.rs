// SPDX-License-Identifier: GPL-2.0
//! Several runs of pages that advance together.

use crate::{Touch, PAGE};

/// Several runs that advance together, each by its share: a kernel whose blocks read some arrays and write others.
pub(crate) fn lockstep(runs: Vec<(u32, u64, u64, bool)>) -> impl Iterator<Item = Touch> + Send {
    let longest = runs.iter().map(|r| r.2.div_ceil(PAGE)).max().unwrap_or(0);
    (0..longest).flat_map(move |i| {
        let mut out = Vec::new();
        for (alloc, from, bytes, write) in &runs {
            let first = from / PAGE;
            let pages = if *bytes == 0 {
                0
            } else {
                (from + bytes).div_ceil(PAGE) - first
            };
            // Pages that this array is due after i of `longest` rounds.
            let due = |i: u64| (u128::from(i) * u128::from(pages) / u128::from(longest)) as u64;
            for page in due(i)..due(i + 1) {
                out.push(Touch {
                    alloc: *alloc,
                    page: (first + page) as u32,
                    write: *write,
                });
            }
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lockstep_touches_all_of_each() {
        let mut all: Vec<Touch> = lockstep(vec![
            (0, 0, 40_960, false),
            (1, 100, 12_288, true),
            (2, 0, 0, false),
        ])
        .collect();
        // The second array's third page comes in the last third.
        let last = all.iter().position(|t| t.alloc == 1 && t.page == 3);
        assert_eq!(last, Some(all.len() - 1));
        all.sort_unstable();
        assert_eq!(all.len(), 14);
        all.dedup();
        assert_eq!(all.len(), 14);
    }
}
