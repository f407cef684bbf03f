// SPDX-License-Identifier: GPL-2.0
//! Figures of what ran on a GPU.

use crate::exit::Result;
use crate::row::{extra, field, Cell, Field, Row};
use crate::units::CHUNK;
use libhuvm::device::Counters;
use libhuvm::{uapi, Device, Spent};
use serde::{Deserialize, Serialize};

/// Figures of the measured passes.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Figures {
    pub(crate) workload: String,
    /// Where it ran. All figures below but the first three are this GPU's, whoever else used it meanwhile.
    #[serde(default)]
    pub(crate) gpu: u32,
    pub(crate) preset: String,
    pub(crate) ratio: f64,
    pub(crate) time_ns: u64,
    pub(crate) faults: u64,
    pub(crate) h2d_bytes: u64,
    pub(crate) d2h_bytes: u64,
    pub(crate) evictions: u64,
    /// Time that the moved bytes need on the busiest direction of the GPU's busiest link (to the host, or those to lending
    /// neighbours together, whether these had anything to lend or not) at its full bandwidth, over the time taken, of a job's up to
    /// where they had all landed.
    pub(crate) link_efficiency: Option<f64>,
    /// Elements that the CPU found wrong; unknown without verification.
    pub(crate) mismatches: Option<u64>,
    pub(crate) bytes: u64,
    pub(crate) passes: u32,
    pub(crate) service_ns: u64,
    pub(crate) fault_batches: u64,
    pub(crate) data: String,
    /// Bytes over links between GPUs, both directions.
    #[serde(default)]
    pub(crate) p2p_bytes: u64,
    /// Of these, bytes fetched back from neighbours' memory.
    #[serde(default)]
    pub(crate) spare_hit_bytes: u64,
    /// As `link_efficiency`, for the bytes fetched back from neighbours alone.
    #[serde(default)]
    pub(crate) peer_efficiency: Option<f64>,
    /// CPU time of the driver's threads for the GPU: its instructions, where the machine executes one in a nanosecond.
    #[serde(default)]
    pub(crate) driver_ns: Option<u64>,
    /// CPU time of the thread that serves faults, over the time taken; copies go on meanwhile.
    #[serde(default)]
    pub(crate) driver_share: Option<f64>,
    /// Time in which a fault waited for the driver alone: nothing was on its way to the GPU. Unknown of an older driver.
    #[serde(default)]
    pub(crate) exposed_ns: Option<u64>,
    /// The preset of the GPU as a whole, whose knobs `preset`, that of the job, leaves alone.
    #[serde(default)]
    pub(crate) gpu_preset: String,
}

impl Figures {
    /// What a GPU's counters gained between two readings, in the time between them.
    pub(crate) fn between(before: &Counters, after: &Counters) -> Self {
        let added = after.since(before);
        let p2p_bytes = added.get(uapi::HUVM_CNT_BYTES_P2P);
        Figures {
            time_ns: added.time_ns,
            faults: added.get(uapi::HUVM_CNT_FAULTS),
            h2d_bytes: added.get(uapi::HUVM_CNT_BYTES_H2D),
            d2h_bytes: added.get(uapi::HUVM_CNT_BYTES_D2H),
            evictions: added.get(uapi::HUVM_CNT_EVICTIONS),
            service_ns: added.get(uapi::HUVM_CNT_SERVICE_NS),
            fault_batches: added.get(uapi::HUVM_CNT_FAULT_BATCHES),
            p2p_bytes,
            exposed_ns: added.known(uapi::HUVM_CNT_EXPOSED_NS),
            // A part of them; the counters are not read all at one moment.
            spare_hit_bytes: added.get(uapi::HUVM_CNT_SPARE_HIT_BYTES).min(p2p_bytes),
            ..Figures::default()
        }
    }

    /// Sums of `made` passes as those of `wanted`.
    pub(crate) fn scale(&mut self, made: u32, wanted: u32) {
        self.passes = wanted;
        for n in [
            &mut self.time_ns,
            &mut self.faults,
            &mut self.h2d_bytes,
            &mut self.d2h_bytes,
            &mut self.evictions,
            &mut self.service_ns,
            &mut self.fault_batches,
            &mut self.p2p_bytes,
            &mut self.spare_hit_bytes,
        ]
        .into_iter()
        .chain(&mut self.driver_ns)
        .chain(&mut self.exposed_ns)
        {
            let all = u128::from(*n) * u128::from(wanted) / u128::from(made.max(1));
            *n = u64::try_from(all).unwrap_or(u64::MAX);
        }
    }

    /// With what the driver's threads spent between two readings, in the time taken. Before [`Self::scale`].
    pub(crate) fn driven(self, before: Option<Spent>, after: Option<Spent>) -> Self {
        let spent = before.zip(after).map(|(b, a)| a.since(b));
        let of_time = |s: Spent| {
            let share = s.faults_ns as f64 / self.time_ns as f64;
            (self.time_ns != 0).then(|| (share * 1e4).round() / 1e4)
        };
        Figures {
            driver_ns: spent.map(|s| s.all_ns),
            driver_share: spent.and_then(of_time),
            ..self
        }
    }

    /// With how well the GPU's links were used in the time of `moved`, of the same run.
    pub(crate) fn on_links(
        self,
        device: &Device,
        gpu: &uapi::huvm_gpu_info,
        moved: &Figures,
    ) -> Result<Self> {
        let time_ns = moved.time_ns;
        let peers_mbps = lenders_mbps(device, gpu.gpu)?;
        let host = efficiency(
            (moved.h2d_bytes, gpu.host_h2d_mbps),
            (moved.d2h_bytes, gpu.host_d2h_mbps),
            time_ns,
        );
        let back = moved.spare_hit_bytes;
        let away = moved.p2p_bytes.saturating_sub(back);
        let peer_in = efficiency((back, peers_mbps), (0, 0), time_ns);
        let peer_out = efficiency((0, 0), (away, peers_mbps), time_ns);
        let busiest = [host, peer_in, peer_out].into_iter().flatten();
        Ok(Figures {
            link_efficiency: busiest.max_by(f64::total_cmp),
            peer_efficiency: peer_in,
            ..self
        })
    }
}

/// Times faster than a first run, to three decimals.
pub(crate) fn speedup(first_ns: u64, ns: u64) -> Option<f64> {
    (ns != 0).then(|| (first_ns as f64 / ns as f64 * 1e3).round() / 1e3)
}

impl Row for Figures {
    fn fields(&self) -> Vec<Field> {
        vec![
            field("workload", "WORKLOAD", Cell::text(&self.workload)),
            field("gpu", "GPU", Cell::count(self.gpu)),
            field("preset", "PRESET", Cell::text(&self.preset)),
            field("ratio", "RATIO", Cell::Ratio(self.ratio)),
            field("bytes", "SIZE", Cell::Bytes(self.bytes)),
            field("time_ns", "TIME", Cell::Nanos(self.time_ns)),
            field("faults", "FAULTS", Cell::Count(self.faults)),
            field("h2d_bytes", "TO-GPU", Cell::Bytes(self.h2d_bytes)),
            field("d2h_bytes", "TO-HOST", Cell::Bytes(self.d2h_bytes)),
            field("evictions", "EVICTIONS", Cell::Count(self.evictions)),
            field(
                "link_efficiency",
                "LINK-EFF",
                self.link_efficiency.map_or(Cell::None, Cell::Share),
            ),
            field(
                "mismatches",
                "MISMATCHES",
                self.mismatches.map_or(Cell::None, Cell::Count),
            ),
            extra("passes", Cell::count(self.passes)),
            extra("service_ns", Cell::Nanos(self.service_ns)),
            extra("fault_batches", Cell::Count(self.fault_batches)),
            extra("data", Cell::text(&self.data)),
            extra("p2p_bytes", Cell::Bytes(self.p2p_bytes)),
            extra("spare_hit_bytes", Cell::Bytes(self.spare_hit_bytes)),
            extra(
                "peer_efficiency",
                self.peer_efficiency.map_or(Cell::None, Cell::Share),
            ),
            extra("driver_ns", self.driver_ns.map_or(Cell::None, Cell::Nanos)),
            extra(
                "driver_share",
                self.driver_share.map_or(Cell::None, Cell::Share),
            ),
            extra(
                "exposed_ns",
                self.exposed_ns.map_or(Cell::None, Cell::Nanos),
            ),
            extra("gpu_preset", Cell::text(&self.gpu_preset)),
        ]
    }
}

/// Bytes of the GPU's chunks.
pub(crate) fn memory_of(device: &Device, gpu: u32) -> Result<u64> {
    Ok(u64::from(device.gpu_info(gpu)?.chunk_count) * CHUNK)
}

/// Chunks that a GPU has lent to another one.
pub(crate) fn lent_to(lender: &uapi::huvm_lend_info, borrower: u32) -> u64 {
    let borrower = usize::try_from(borrower).ok();
    let chunks = borrower.and_then(|b| lender.lent_chunks.get(b));
    chunks.copied().unwrap_or(0)
}

/// Bandwidth of the links to the GPUs that may lend to this one by their policy, MB/s: who has lent at the moment of reading is chance.
fn lenders_mbps(device: &Device, gpu: u32) -> Result<u32> {
    // A link may lead to a GPU that this machine does not have, and a driver older than interface 1.1 does not tell.
    let lends = |peer| device.lend_info(peer).is_ok_and(|l| l.lends != 0);
    Ok(mbps_to(&device.links(gpu)?, lends))
}

/// Of the links that are up and lead to one of those.
fn mbps_to(links: &[uapi::huvm_link_info], lends: impl Fn(u32) -> bool) -> u32 {
    let used = links.iter().filter(|l| l.up != 0 && lends(l.peer));
    used.fold(0, |sum, l| sum.saturating_add(l.mbps))
}

/// Of one link: bytes and bandwidth of each direction. `None` when nothing moved or nothing is known.
fn efficiency(to: (u64, u32), from: (u64, u32), time_ns: u64) -> Option<f64> {
    // 10^6 bytes a second are 10^-3 bytes a nanosecond.
    let need = |(bytes, mbps): (u64, u32)| {
        if mbps == 0 {
            0.0
        } else {
            bytes as f64 * 1000.0 / f64::from(mbps)
        }
    };
    let busier = need(to).max(need(from));
    (busier > 0.0 && time_ns != 0).then(|| (busier / time_ns as f64 * 1e4).round() / 1e4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busier_direction_counts() {
        // 12.3 MB at 12300 MB/s are 1 ms.
        assert_eq!(
            efficiency((12_300_000, 12300), (1000, 12300), 2_000_000),
            Some(0.5)
        );
        assert_eq!(
            efficiency((0, 12300), (24_600_000, 12300), 2_000_000),
            Some(1.0)
        );
        assert_eq!(efficiency((0, 12300), (0, 12300), 5), None);
        assert_eq!(efficiency((5, 0), (5, 0), 5), None);
    }

    #[test]
    fn figures_are_what_was_added() {
        let reading = |time_ns, set: &[(u32, u64)]| {
            let mut values = vec![0; uapi::HUVM_CNT_COUNT as usize];
            for (counter, n) in set {
                values[*counter as usize] = *n;
            }
            Counters { values, time_ns }
        };
        let (faults, p2p, back) = (
            uapi::HUVM_CNT_FAULTS,
            uapi::HUVM_CNT_BYTES_P2P,
            uapi::HUVM_CNT_SPARE_HIT_BYTES,
        );
        let before = reading(100, &[(faults, 7), (p2p, 4096), (back, 0)]);
        let after = reading(350, &[(faults, 9), (p2p, 12288), (back, 65536)]);
        let f = Figures::between(&before, &after);
        assert_eq!((f.time_ns, f.faults, f.h2d_bytes), (250, 2, 0));
        // What came back is a part of what went over the links.
        assert_eq!((f.p2p_bytes, f.spare_hit_bytes), (8192, 8192));
    }

    /// Catches a sum that is left as it was, and one that overflows on the way.
    #[test]
    fn sums_are_scaled_to_the_passes_wanted() {
        let mut f = Figures {
            time_ns: 70,
            faults: u64::MAX,
            driver_ns: Some(21),
            ..Figures::default()
        };
        f.scale(7, 3);
        assert_eq!((f.time_ns, f.faults, f.passes), (30, u64::MAX / 7 * 3, 3));
        assert_eq!(f.driver_ns, Some(9));
    }

    /// Catches all threads' time taken for that of the critical path, and a share of no time.
    #[test]
    fn the_thread_of_faults_is_on_the_critical_path() {
        let spent = |all_ns, faults_ns| Some(Spent { all_ns, faults_ns });
        let f = Figures {
            time_ns: 1000,
            ..Figures::default()
        };
        let driven = f.clone().driven(spent(100, 50), spent(900, 300));
        assert_eq!(driven.driver_ns, Some(800));
        assert_eq!(driven.driver_share, Some(0.25));
        let unknown = f.driven(None, spent(900, 300));
        assert_eq!((unknown.driver_ns, unknown.driver_share), (None, None));
        let none = Figures::default().driven(spent(0, 0), spent(9, 3));
        assert_eq!(none.driver_share, None);
    }

    #[test]
    fn links_to_all_that_may_lend_count() {
        let link = |peer, mbps, up| uapi::huvm_link_info {
            peer,
            mbps,
            up,
            ..Default::default()
        };
        let links = [
            link(1, 40100, 1),
            link(2, 40100, 1),
            link(3, 40100, 0),
            link(9, 5, 1),
        ];
        assert_eq!(mbps_to(&links, |peer| peer < 4), 80200);
        assert_eq!(mbps_to(&links, |_| false), 0);
    }

    #[test]
    fn a_lender_counts_for_those_it_lends_to() {
        let mut l = uapi::huvm_lend_info::default();
        l.lent_chunks[2] = 5;
        assert_eq!([1, 2, 99].map(|g| lent_to(&l, g)), [0, 5, 0]);
    }

    #[test]
    fn a_run_without_time_has_no_speed_up() {
        assert_eq!(speedup(3000, 2000), Some(1.5));
        assert_eq!(speedup(1000, 3000), Some(0.333));
        assert_eq!(speedup(1000, 0), None);
    }
}
