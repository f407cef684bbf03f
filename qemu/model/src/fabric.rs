// SPDX-License-Identifier: GPL-2.0
//! Links and copy engines as resources that queue, memories as resources that are shared ([`Memory`]).
//!
//! A resource serves one request after another. A transfer queues at every resource on its route
//! at once, and ends when the last of them is done with it; nothing is reserved for a later time,
//! so a fast resource is never held up by a slow one's queue. Two directions of a link are two
//! resources. A copy engine is held by its piece from start to end; that queue is in `ce.rs`.
//! Time inside is picoseconds, so that a four-byte access has a cost too.

use huvm_hw::ext::{self, stats::Counter};

use crate::config::{LinkKind, Profile};
use crate::ext::ecc::Ecc;
use crate::ext::stats::Stats;
use crate::flight::Flights;

/// Something with a bandwidth.
#[derive(Clone, Debug, Default)]
struct Resource {
    mbps: u32,
    free_ps: u64,
}

impl Resource {
    fn new(mbps: u32) -> Self {
        Resource { mbps, free_ps: 0 }
    }

    /// Time that `bytes` take, ps.
    fn cost_ps(&self, bytes: u64) -> u64 {
        // bytes / (mbps * 10^6 B/s) seconds = bytes * 10^6 / mbps ps.
        bytes.saturating_mul(1_000_000) / u64::from(self.mbps.max(1))
    }
}

/// A GPU's memory: shared by everything that moves data at the same time.
///
/// A copy that a link or an engine limits takes the memory's bandwidth only at its own pace, beside others; a queue would make
/// everybody wait for 2 MiB at once. What the memory itself limits queues for what those copies leave.
#[derive(Clone, Debug, Default)]
struct Memory {
    queue: Resource,
    /// Copies under way that something else limits: until when, ps, and their share of the bandwidth, parts of [`WHOLE`].
    beside: Vec<(u64, u64)>,
}

/// All of a memory's bandwidth.
const WHOLE: u64 = 1 << 20;

/// Copies that a memory keeps account of at once; one more queues. Engines and resident blocks are fewer, but a guest can start
/// and abort launches behind a link whose queue is long.
const BESIDE_MAX: usize = 4096;

impl Memory {
    fn new(mbps: u32) -> Self {
        Memory {
            queue: Resource::new(mbps),
            beside: Vec::new(),
        }
    }

    /// Moves `bytes` from `now_ps` on, which would take until `other_ps` if the memory had no limit. When it is done, ps.
    fn reserve(&mut self, bytes: u64, now_ps: u64, other_ps: u64) -> u64 {
        self.beside.retain(|(until, _)| *until > now_ps);
        let taken = self
            .beside
            .iter()
            .fold(0u64, |n, (_, s)| n.saturating_add(*s));
        // However many there are, half is left for who queues.
        let left = WHOLE.saturating_sub(taken).max(WHOLE / 2);
        let cost = self.queue.cost_ps(bytes);
        let share = cost
            .saturating_mul(WHOLE)
            .checked_div(other_ps.saturating_sub(now_ps))
            .unwrap_or(u64::MAX);
        let fits = share.saturating_add(taken) <= WHOLE / 2 && self.beside.len() < BESIDE_MAX;
        if fits || share == 0 {
            // What is too little to count is not kept.
            if share != 0 {
                self.beside.push((other_ps, share));
            }
            return other_ps;
        }
        let cost = cost.saturating_mul(WHOLE) / left;
        let end = self.queue.free_ps.max(now_ps).saturating_add(cost);
        self.queue.free_ps = end;
        end.max(other_ps)
    }
}

/// A directed link as its owner sees it.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) peer: usize,
    pub(crate) kind: LinkKind,
    pub(crate) mbps: u32,
    pub(crate) latency_ns: u32,
    forced_down: bool,
    out: Resource,
}

/// A GPU's ports.
#[derive(Clone, Debug, Default)]
struct Port {
    present: bool,
    /// It fell off the bus, by INJECT.GONE or as the model failed: all of it reads ones, for neighbours too.
    gone: bool,
    vram_bytes: u64,
    h2d: Resource,
    d2h: Resource,
    vram: Memory,
    links: Vec<Link>,
    stats: Stats,
    ecc: Ecc,
}

/// Where one side of a transfer lies, seen from the GPU that makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// System memory.
    Sys,
    /// Memory of this GPU (itself or a peer).
    Gpu(usize),
}

/// Everything that GPUs share.
#[derive(Debug)]
pub(crate) struct Fabric {
    pub(crate) profile: Profile,
    ports: Vec<Port>,
    /// Channels that wait for a semaphore: (GPU, epoch, runlist, channel).
    waiters: Vec<(usize, u64, usize, u32)>,
    /// Copies of all GPUs.
    pub(crate) flights: Flights,
}

impl Fabric {
    /// A channel waits for a semaphore to change.
    pub(crate) fn wait_for_release(&mut self, gpu: usize, epoch: u64, runlist: usize, chid: u32) {
        let w = (gpu, epoch, runlist, chid);
        if !self.waiters.contains(&w) {
            self.waiters.push(w);
        }
    }

    /// A semaphore changed: takes all that wait for one.
    pub(crate) fn take_waiters(&mut self) -> Vec<(usize, u64, usize, u32)> {
        core::mem::take(&mut self.waiters)
    }

    pub(crate) fn new(profile: Profile) -> Self {
        Fabric {
            profile,
            ports: vec![Port::default(); ext::MAX_GPUS],
            waiters: Vec::new(),
            flights: Flights::default(),
        }
    }

    /// Adds the ports of GPU `gpu`.
    pub(crate) fn add(&mut self, gpu: usize, vram_bytes: u64) {
        let p = &self.profile;
        let links = p
            .links
            .iter()
            .filter_map(|l| {
                let peer = if l.a == gpu {
                    l.b
                } else if l.b == gpu {
                    l.a
                } else {
                    return None;
                };
                Some(Link {
                    peer,
                    kind: l.kind,
                    mbps: l.mbps,
                    latency_ns: l.latency_ns,
                    forced_down: false,
                    out: Resource::new(l.mbps),
                })
            })
            .take(ext::topology::LINK_MAX as usize)
            .collect();
        let port = Port {
            present: true,
            gone: false,
            vram_bytes,
            h2d: Resource::new(p.host_h2d_mbps),
            d2h: Resource::new(p.host_d2h_mbps),
            vram: Memory::new(p.vram_mbps),
            links,
            stats: Stats::default(),
            ecc: Ecc::default(),
        };
        if let Some(slot) = self.ports.get_mut(gpu) {
            *slot = port;
        }
    }

    /// A GPU falls off the bus.
    pub(crate) fn fall(&mut self, gpu: usize) {
        self.silence(gpu);
        if let Some(p) = self.ports.get_mut(gpu) {
            p.gone = true;
        }
    }

    /// Whether it fell off the bus.
    pub(crate) fn is_gone(&self, gpu: usize) -> bool {
        self.ports.get(gpu).is_some_and(|p| p.gone)
    }

    /// A GPU does nothing more.
    pub(crate) fn silence(&mut self, gpu: usize) {
        self.waiters.retain(|w| w.0 != gpu);
        self.flights.end(|f| f.gpu == gpu);
    }

    pub(crate) fn remove(&mut self, gpu: usize) {
        self.silence(gpu);
        if let Some(slot) = self.ports.get_mut(gpu) {
            *slot = Port::default();
        }
    }

    /// Frees the resources that a reset stops, and forgets injected failures.
    pub(crate) fn reset(&mut self, gpu: usize) {
        self.silence(gpu);
        if let Some(p) = self.ports.get_mut(gpu) {
            p.gone = false;
            p.vram = Memory::new(self.profile.vram_mbps);
            for l in &mut p.links {
                l.forced_down = false;
            }
            p.stats = Stats::default();
            p.ecc = Ecc::default();
        }
    }

    pub(crate) fn gpu_count(&self) -> u32 {
        self.ports.iter().filter(|p| p.present).count() as u32
    }

    pub(crate) fn present(&self, gpu: usize) -> bool {
        self.ports.get(gpu).is_some_and(|p| p.present)
    }

    /// VRAM of a GPU, bytes; 0 when it is absent.
    pub(crate) fn vram_bytes(&self, gpu: usize) -> u64 {
        self.ports.get(gpu).map_or(0, |p| p.vram_bytes)
    }

    pub(crate) fn stats_mut(&mut self, gpu: usize) -> Option<&mut Stats> {
        self.ports.get_mut(gpu).map(|p| &mut p.stats)
    }

    /// What failed of a GPU's memory.
    pub(crate) fn ecc(&self, gpu: usize) -> Option<&Ecc> {
        self.ports.get(gpu).map(|p| &p.ecc)
    }

    pub(crate) fn ecc_mut(&mut self, gpu: usize) -> Option<&mut Ecc> {
        self.ports.get_mut(gpu).map(|p| &mut p.ecc)
    }

    pub(crate) fn count(&mut self, gpu: usize, counter: Counter, n: u64) {
        if let Some(s) = self.stats_mut(gpu) {
            s.add(counter, n);
        }
    }

    /// Links of a GPU, in the order of the TOPOLOGY table.
    pub(crate) fn links(&self, gpu: usize) -> &[Link] {
        self.ports.get(gpu).map_or(&[], |p| &p.links)
    }

    fn link_index(&self, from: usize, to: usize) -> Option<usize> {
        self.links(from).iter().position(|l| l.peer == to)
    }

    /// Forces links down: bit i is entry i.
    pub(crate) fn force_down(&mut self, gpu: usize, bitmap: u32) {
        if let Some(p) = self.ports.get_mut(gpu) {
            for (i, l) in p.links.iter_mut().enumerate() {
                l.forced_down = bitmap.checked_shr(i as u32).unwrap_or(0) & 1 != 0;
            }
        }
    }

    /// A link exists between the two (it may be down).
    pub(crate) fn linked(&self, a: usize, b: usize) -> bool {
        self.present(b) && self.link_index(a, b).is_some()
    }

    /// The link between the two can carry an access now. Either end can force it down.
    pub(crate) fn link_up(&self, a: usize, b: usize) -> bool {
        let half = |x: usize, y: usize| self.links(x).iter().any(|l| l.peer == y && !l.forced_down);
        self.present(a) && self.present(b) && half(a, b) && half(b, a)
    }

    /// Latency between GPU `gpu` and a side, ns; local memory has none.
    pub(crate) fn latency_ns(&self, gpu: usize, side: Side) -> u64 {
        match side {
            Side::Sys => u64::from(self.profile.host_latency_ns),
            Side::Gpu(p) if p == gpu => 0,
            Side::Gpu(p) => self
                .links(gpu)
                .iter()
                .find(|l| l.peer == p)
                .map_or(0, |l| u64::from(l.latency_ns)),
        }
    }

    /// Moves `bytes` from `src` to `dst` on behalf of GPU `gpu` at `now_ns`. Either side may be
    /// missing (a fill has no source, a check no destination). `ce`: a copy engine does it.
    /// Returns when the data has arrived, without latency, ns.
    pub(crate) fn transfer(
        &mut self,
        gpu: usize,
        ce: bool,
        src: Option<Side>,
        dst: Option<Side>,
        bytes: u64,
        now_ns: u64,
    ) -> u64 {
        let now_ps = now_ns.saturating_mul(1000);
        let mut end = now_ps;
        let route = self.route(gpu, src, dst);
        for step in &route {
            let Some(r) = self.link_of(*step) else {
                continue;
            };
            let cost = r.cost_ps(bytes);
            r.free_ps = r.free_ps.max(now_ps).saturating_add(cost);
            end = end.max(r.free_ps);
            self.add_busy(*step, cost);
        }
        if ce {
            let own = Resource::new(self.profile.ce_mbps).cost_ps(bytes);
            end = end.max(now_ps.saturating_add(own));
        }
        // Last: how fast the rest is says how much of a memory it takes.
        let other = end;
        for step in &route {
            let Step::Vram(g) = *step else {
                continue;
            };
            let Some(p) = self.ports.get_mut(g) else {
                continue;
            };
            end = end.max(p.vram.reserve(bytes, now_ps, other));
            let cost = p.vram.queue.cost_ps(bytes);
            self.add_busy(*step, cost);
        }
        if ce {
            if let Some(s) = self.stats_mut(gpu) {
                s.add_busy_ps(Counter::BusyCopyEnginesNs, end - now_ps);
            }
        }
        end.div_ceil(1000)
    }

    fn add_busy(&mut self, step: Step, cost_ps: u64) {
        let (owner, counter) = match step {
            Step::H2d(g) => (g, Counter::BusyHostToDeviceNs),
            Step::D2h(g) => (g, Counter::BusyDeviceToHostNs),
            Step::Link(g, _) => (g, Counter::BusyPeerOutNs),
            Step::Vram(g) => (g, Counter::BusyLocalNs),
        };
        if let Some(s) = self.stats_mut(owner) {
            s.add_busy_ps(counter, cost_ps);
        }
    }

    fn route(&self, gpu: usize, src: Option<Side>, dst: Option<Side>) -> Vec<Step> {
        let mut route = Vec::with_capacity(6);
        match src {
            Some(Side::Sys) => route.push(Step::H2d(gpu)),
            Some(Side::Gpu(g)) => {
                route.push(Step::Vram(g));
                self.hop(g, gpu, &mut route);
            }
            None => {}
        }
        match dst {
            Some(Side::Sys) => route.push(Step::D2h(gpu)),
            Some(Side::Gpu(g)) => {
                self.hop(gpu, g, &mut route);
                route.push(Step::Vram(g));
            }
            None => {}
        }
        route
    }

    fn hop(&self, from: usize, to: usize, route: &mut Vec<Step>) {
        if from == to {
            return;
        }
        if let Some(i) = self.link_index(from, to) {
            match self.links(from).get(i).map(|l| l.kind) {
                Some(LinkKind::Nvlink) => route.push(Step::Link(from, i)),
                Some(LinkKind::Pcie) => {
                    route.push(Step::Link(from, i));
                    route.push(Step::D2h(from));
                    route.push(Step::H2d(to));
                }
                None => {}
            }
        }
    }

    /// What transfers queue for, one after the other; a memory is shared instead.
    fn link_of(&mut self, step: Step) -> Option<&mut Resource> {
        match step {
            Step::H2d(g) => self.ports.get_mut(g).map(|p| &mut p.h2d),
            Step::D2h(g) => self.ports.get_mut(g).map(|p| &mut p.d2h),
            Step::Vram(_) => None,
            Step::Link(g, i) => self
                .ports
                .get_mut(g)
                .and_then(|p| p.links.get_mut(i))
                .map(|l| &mut l.out),
        }
    }
}

/// A resource on a route.
#[derive(Clone, Copy, Debug)]
enum Step {
    H2d(usize),
    D2h(usize),
    Vram(usize),
    Link(usize, usize),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fabric() -> Fabric {
        let mut f = Fabric::new(Profile {
            host_h2d_mbps: 10_000,
            host_d2h_mbps: 10_000,
            vram_mbps: 1_000_000,
            ce_mbps: 1_000_000,
            links: Profile::all_to_all(2, LinkKind::Nvlink, 20_000, 5_000),
            ..Profile::default()
        });
        f.add(0, 1 << 30);
        f.add(1, 1 << 30);
        f
    }

    const ME: Option<Side> = Some(Side::Gpu(0));
    const PEER: Option<Side> = Some(Side::Gpu(1));
    const SYS: Option<Side> = Some(Side::Sys);
    const ME_OF_1: Option<Side> = Some(Side::Gpu(1));

    #[test]
    fn one_link_direction_queues_and_the_other_does_not() {
        let mut f = fabric();
        // 1 MB over 10 GB/s takes 100 us.
        assert_eq!(f.transfer(0, true, SYS, ME, 1_000_000, 0), 100_000);
        assert_eq!(f.transfer(0, true, SYS, ME, 1_000_000, 0), 200_000);
        assert_eq!(f.transfer(0, true, ME, SYS, 1_000_000, 0), 100_000);
    }

    #[test]
    fn peers_have_their_own_link() {
        let mut f = fabric();
        assert_eq!(f.transfer(0, true, SYS, ME, 1_000_000, 0), 100_000);
        assert_eq!(f.transfer(0, true, ME, PEER, 1_000_000, 0), 50_000);
        assert_eq!(f.transfer(0, true, PEER, ME, 1_000_000, 0), 50_000);
        assert_eq!(f.transfer(0, true, ME, PEER, 1_000_000, 0), 100_000);
    }

    #[test]
    fn a_copy_over_a_link_leaves_the_memory_to_others() {
        let mut f = fabric();
        // 50 us on the link, at a fiftieth of either memory's bandwidth.
        assert_eq!(f.transfer(0, true, PEER, ME, 1_000_000, 0), 50_000);
        // 64 KB take 64 ns alone, 65.3 beside it; behind it they would take 1064.
        assert_eq!(f.transfer(1, false, ME_OF_1, None, 64_000, 0), 66);
        // When it is over they have all of it.
        assert_eq!(f.transfer(1, false, ME_OF_1, None, 64_000, 50_000), 50_064);
    }

    #[test]
    fn what_the_memory_limits_queues() {
        let mut f = fabric();
        assert_eq!(f.transfer(0, false, ME, None, 1_000_000, 0), 1_000);
        assert_eq!(f.transfer(0, false, ME, None, 1_000_000, 0), 2_000);
        // An engine as fast as the memory is limited by it too: read and written, behind those.
        assert_eq!(f.transfer(0, true, ME, ME, 1_000_000, 0), 4_000);
    }

    #[test]
    fn many_copies_leave_half_to_who_queues() {
        let mut f = fabric();
        for _ in 0..1000 {
            f.transfer(0, true, SYS, ME, 1_000_000, 0);
            f.transfer(0, true, PEER, ME, 1_000_000, 0);
        }
        let end = f.transfer(0, false, ME, None, 1_000_000, 0);
        assert!((1_000..=2_000).contains(&end), "{end}");
    }

    #[test]
    fn a_long_queue_is_not_kept_account_of_without_end() {
        let mut f = fabric();
        for bytes in [1, 1_000_000] {
            for _ in 0..3 * BESIDE_MAX {
                f.transfer(0, true, PEER, ME, bytes, 0);
            }
        }
        assert!(f.ports[0].vram.beside.len() <= BESIDE_MAX);
        assert!(f.ports[1].vram.beside.len() <= BESIDE_MAX);
    }

    #[test]
    fn either_end_takes_a_link_down() {
        let mut f = fabric();
        assert!(f.link_up(0, 1));
        f.force_down(1, 1);
        assert!(!f.link_up(0, 1));
        assert!(f.linked(0, 1));
    }
}
