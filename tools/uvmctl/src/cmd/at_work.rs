// SPDX-License-Identifier: GPL-2.0
//! What each GPU of a recording did, and for how long its copy engines had work.

use super::copies;
use super::events::Event;
use crate::row::{field, Cell, Field, Row};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One GPU.
#[derive(Clone, Default, Serialize, Deserialize, Debug, PartialEq)]
pub(super) struct AtWork {
    gpu: String,
    /// Batches of faults that were served, and the faults that are recorded.
    batches: u64,
    faults: u64,
    /// Chunks emptied, and those of them that an access waited for.
    evictions: u64,
    in_fault: u64,
    /// Share of the recording in which there was at least one such copy that was not over: under way, behind others, or before what it
    /// has to follow.
    h2d: f64,
    d2h: f64,
    peer_in: f64,
    peer_out: f64,
    local: f64,
}

impl Row for AtWork {
    fn fields(&self) -> Vec<Field> {
        let shares = [
            ("h2d", "H2D", self.h2d),
            ("d2h", "D2H", self.d2h),
            ("peer_in", "PEER-IN", self.peer_in),
            ("peer_out", "PEER-OUT", self.peer_out),
            ("local", "LOCAL", self.local),
        ];
        let mut all = vec![
            field("gpu", "GPU", Cell::text(&self.gpu)),
            field("batches", "BATCHES", Cell::Count(self.batches)),
            field("faults", "FAULTS", Cell::Count(self.faults)),
            field("evictions", "EVICTIONS", Cell::Count(self.evictions)),
            field("in_fault", "IN-FAULT", Cell::Count(self.in_fault)),
        ];
        all.extend(shares.map(|(name, head, share)| field(name, head, Cell::Share(share))));
        all
    }
}

/// The GPUs of a recording of `span_ns` that served faults, in the order of their names.
pub(super) fn of(events: &[Event], span_ns: u64) -> Vec<AtWork> {
    let mut gpus: BTreeMap<&str, AtWork> = BTreeMap::new();
    let mut copied: BTreeMap<(&str, &str), Vec<(u64, u64)>> = BTreeMap::new();
    for e in events.iter().filter(|e| e.place.starts_with("gpu")) {
        let (of, at) = (e.place.as_str(), e.time_ns);
        if e.r#type == copies::TYPE {
            let began = at.saturating_sub(e.arg1);
            copied.entry((of, &e.cause)).or_default().push((began, at));
            continue;
        }
        let g = gpus.entry(of).or_default();
        match e.r#type.as_str() {
            "replay" => g.batches += 1,
            "fault" => g.faults += 1,
            "evict" => {
                g.evictions += 1;
                g.in_fault += u64::from(e.arg1 != 0);
            }
            _ => {}
        }
    }
    for ((of, what), times) in copied {
        let Some(g) = gpus.get_mut(of) else { continue };
        let share = covered(times) as f64 / span_ns.max(1) as f64;
        let to = match what {
            "h2d" => &mut g.h2d,
            "d2h" => &mut g.d2h,
            "peer-in" => &mut g.peer_in,
            "peer-out" => &mut g.peer_out,
            "local" => &mut g.local,
            _ => continue,
        };
        *to = (share * 1e4).round() / 1e4;
    }
    let named = gpus.into_iter().map(|(gpu, g)| AtWork {
        gpu: gpu.into(),
        ..g
    });
    named.filter(|g| g.batches != 0).collect()
}

/// Nanoseconds in at least one of some times, each from its begin to its end.
fn covered(mut times: Vec<(u64, u64)>) -> u64 {
    times.sort_unstable();
    let (mut sum, mut to) = (0u64, 0);
    for (began, ended) in times {
        sum = sum.saturating_add(ended.saturating_sub(began.max(to)));
        to = to.max(ended);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, cause: &str, place: &str, time_ns: u64, arg1: u64) -> Event {
        Event {
            r#type: kind.into(),
            cause: cause.into(),
            place: place.into(),
            time_ns,
            arg1,
            ..Event::default()
        }
    }

    /// Catches two copies at a time that count twice, another GPU's, and evictions ahead of demand taken for those that a fault waits for.
    #[test]
    fn engines_are_at_work_while_they_have_something() {
        let all = [
            event("copy", "h2d", "gpu0", 30, 20),
            event("copy", "h2d", "gpu0", 40, 20),
            event("copy", "h2d", "gpu0", 35, 2),
            event("copy", "h2d", "gpu0", 90, 10),
            event("copy", "d2h", "gpu0", 15, 5),
            event("copy", "h2d", "gpu1", 100, 100),
            event("replay", "gpu-fault", "gpu0", 50, 1),
            event("fault", "gpu-fault", "gpu0", 50, 1),
            event("evict", "eviction", "gpu0", 60, 1),
            event("evict", "eviction", "gpu0", 61, 0),
            event("cpu-fault", "cpu-fault", "host", 62, 0),
        ];
        let want = AtWork {
            gpu: "gpu0".into(),
            batches: 1,
            faults: 1,
            evictions: 2,
            in_fault: 1,
            h2d: 0.4,
            d2h: 0.05,
            ..AtWork::default()
        };
        // GPU 1 only lends.
        assert_eq!(of(&all, 100), [want]);
        assert!(of(&all, 0).iter().all(|g| g.h2d.is_finite()));
        assert_eq!(of(&[], 5), []);
    }

    /// A file may say anything.
    #[test]
    fn times_at_their_ends_are_survived() {
        assert_eq!(
            covered(vec![(u64::MAX, 0), (0, u64::MAX), (5, 9)]),
            u64::MAX
        );
        let e = event("copy", "h2d", "gpu0", 3, u64::MAX);
        assert!(of(&[e, event("replay", "", "gpu0", 1, 0)], 3)[0].h2d == 1.0);
    }
}
