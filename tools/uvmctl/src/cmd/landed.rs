// SPDX-License-Identifier: GPL-2.0
//! When what a GPU's copy engines were given has landed.
//!
//! The driver counts a copy's bytes as it hands them to an engine. Where the second reading of a short run comes, much of what
//! was counted may still be on its way: over the time up to there, a link seems to have carried more than it can.

use crate::exit::Result;
use libhuvm::device::Counters;
use libhuvm::{uapi, Device, Scope};
use std::time::Duration;

/// Copies of a GPU that are over: of the histograms, those which count one for each.
const KINDS: [u32; 4] = [
    uapi::HUVM_LATENCY_H2D,
    uapi::HUVM_LATENCY_D2H,
    uapi::HUVM_LATENCY_PEER_OUT,
    uapi::HUVM_LATENCY_PEER_IN,
];
/// An engine at work ends a copy more often than that: one has 2 MiB at the most, and takes 0.2 ms on the slowest link to a host that there is
/// a profile of.
const QUIET_NS: u64 = 2_000_000;
/// No longer, for a driver may have something to copy for a long time yet, such as what it lent.
const AT_MOST_NS: u64 = 50_000_000;
/// Between two looks.
const PAUSE: Duration = Duration::from_micros(20);

/// What is seen of a GPU's copies.
struct Watch {
    begun_ns: u64,
    /// Copies that are over.
    over: u64,
    /// When that was seen to change.
    changed_ns: u64,
}

impl Watch {
    /// Sees how many are over; whether there is nothing more to wait for.
    fn sees(&mut self, over: u64, now_ns: u64) -> bool {
        if over != self.over {
            self.over = over;
            self.changed_ns = now_ns;
        }
        now_ns.saturating_sub(self.changed_ns) >= QUIET_NS
            || now_ns.saturating_sub(self.begun_ns) >= AT_MOST_NS
    }
}

/// Waits, 50 ms at most, until a GPU's engines are quiet, and reads its counters; with the time at which the last copy was seen to end,
/// or that of `at`, an earlier reading, if none ended since.
///
/// # Errors
/// The driver's.
pub(crate) fn landed(device: &Device, gpu: u32, at: &Counters) -> Result<Counters> {
    let of = Scope::Gpu(gpu);
    // Without histograms, as from a driver older than interface 1.1, nothing can be seen to end.
    let Ok((over, _)) = over_by(device, of) else {
        return Ok(at.clone());
    };
    let mut watch = Watch {
        begun_ns: at.time_ns,
        over,
        changed_ns: at.time_ns,
    };
    loop {
        std::thread::sleep(PAUSE);
        let (over, now_ns) = over_by(device, of)?;
        if watch.sees(over, now_ns) {
            break;
        }
    }
    let values = device.counters(of)?.values;
    Ok(Counters {
        values,
        time_ns: watch.changed_ns,
    })
}

/// How many copies of a GPU are over, and when that was read.
fn over_by(device: &Device, of: Scope) -> Result<(u64, u64)> {
    let (mut over, mut now_ns) = (0u64, 0);
    for kind in KINDS {
        let l = device.latency(of, kind)?;
        over = over.saturating_add(l.count);
        now_ns = l.time_ns;
    }
    Ok((over, now_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a wait that ends while copies do, one that does not, and an end that is taken for later than it was.
    #[test]
    fn engines_are_quiet_when_no_copy_ended_for_a_while() {
        let mut w = Watch {
            begun_ns: 1_000,
            over: 7,
            changed_ns: 1_000,
        };
        assert!(!w.sees(7, 1_000_000));
        assert!(!w.sees(8, 1_500_000));
        assert!(!w.sees(9, 3_400_000));
        assert!(!w.sees(9, 5_399_999));
        assert!(w.sees(9, 5_400_000));
        assert_eq!((w.over, w.changed_ns), (9, 3_400_000));
        assert!(w.sees(10, AT_MOST_NS + 1_000));
    }
}
