// SPDX-License-Identifier: GPL-2.0
//! Algorithms whose vertices have a value that only falls.

use super::csr::Csr;

/// Rounds until no value falls any more: each active vertex u offers a neighbour v the value `offer(value of u, u, v)`, and a vertex that
/// takes a lower one is active in the next round. Values at the end, and for each round which vertices were active.
pub(crate) fn rounds(
    g: &Csr,
    mut value: Vec<u64>,
    mut active: Vec<bool>,
    offer: impl Fn(u64, usize, usize) -> u64,
) -> (Vec<u64>, Vec<Vec<bool>>) {
    let mut history = Vec::new();
    while active.contains(&true) {
        let mut next = vec![false; value.len()];
        // Of the round before, as blocks that run side by side would see it.
        let old = value.clone();
        let those = old.iter().enumerate().zip(&active).filter(|(_, a)| **a);
        for ((u, mine), _) in those {
            for v in g.neighbours(u) {
                let offered = offer(*mine, u, v);
                if let (Some(have), Some(changed)) = (value.get_mut(v), next.get_mut(v)) {
                    if offered < *have {
                        *have = offered;
                        *changed = true;
                    }
                }
            }
        }
        history.push(std::mem::replace(&mut active, next));
    }
    (value, history)
}
