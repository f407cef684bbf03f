// SPDX-License-Identifier: GPL-2.0
//! How long things take: histograms with a bucket per power of two of nanoseconds, per GPU and of all GPUs.
//!
//! `enum huvm_latency_kind` says what each measures. Recording takes no lock and allocates nothing; from any context.

use super::exposed::Exposed;
use crate::channel::Engine;
use crate::kernel::ffi::uapi;
use huvm_lockless::peak::Peak;
use kernel::sync::atomic::{Atomic, Relaxed};

/// Kinds of latencies.
pub(crate) const KINDS: usize = uapi::HUVM_LATENCY_COUNT as usize;
/// Buckets of a histogram. Bucket `i` counts what took 2^i to 2^(i+1) - 1 ns, the first also 0, the last all beyond.
pub(crate) const BUCKETS: usize = uapi::HUVM_LATENCY_BUCKETS as usize;

/// What took the time; each stands for `HUVM_LATENCY_` and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    /// `HUVM_LATENCY_H2D`.
    H2d = uapi::HUVM_LATENCY_H2D,
    /// `HUVM_LATENCY_D2H`.
    D2h = uapi::HUVM_LATENCY_D2H,
    /// `HUVM_LATENCY_PEER_OUT`.
    PeerOut = uapi::HUVM_LATENCY_PEER_OUT,
    /// `HUVM_LATENCY_PEER_IN`.
    PeerIn = uapi::HUVM_LATENCY_PEER_IN,
    /// `HUVM_LATENCY_LOCAL`.
    Local = uapi::HUVM_LATENCY_LOCAL,
    /// `HUVM_LATENCY_WRITE_BACK`.
    WriteBack = uapi::HUVM_LATENCY_WRITE_BACK,
    /// `HUVM_LATENCY_RECLAIM`.
    Reclaim = uapi::HUVM_LATENCY_RECLAIM,
    /// `HUVM_LATENCY_FAULT`.
    Fault = uapi::HUVM_LATENCY_FAULT,
}

impl From<Engine> for Kind {
    fn from(e: Engine) -> Self {
        match e {
            Engine::HostToDevice | Engine::Ahead => Kind::H2d,
            Engine::DeviceToHost => Kind::D2h,
            Engine::Peer => Kind::PeerOut,
            Engine::PeerIn => Kind::PeerIn,
            Engine::Local => Kind::Local,
        }
    }
}

/// One histogram.
struct Histogram {
    buckets: [Atomic<u64>; BUCKETS],
    sum_ns: Atomic<u64>,
    max_ns: Peak,
}

/// The figures of a histogram, each read by itself.
pub(crate) struct Figures {
    /// How many there were: the sum of the buckets.
    pub(crate) count: u64,
    /// All of them together.
    pub(crate) sum_ns: u64,
    /// The longest.
    pub(crate) max_ns: u64,
    /// By length.
    pub(crate) buckets: [u64; BUCKETS],
}

impl Histogram {
    const fn new() -> Self {
        Histogram {
            buckets: [const { Atomic::new(0) }; BUCKETS],
            sum_ns: Atomic::new(0),
            max_ns: Peak::new(),
        }
    }

    fn add(&self, ns: u64) {
        let bit = ns.checked_ilog2().unwrap_or(0);
        // CAST: below 64.
        let at = (bit as usize).min(BUCKETS - 1);
        if let Some(b) = self.buckets.get(at) {
            b.add(1, Relaxed);
        }
        self.sum_ns.add(ns, Relaxed);
        self.max_ns.raise(ns);
    }

    fn read(&self) -> Figures {
        let mut buckets = [0; BUCKETS];
        for (to, from) in buckets.iter_mut().zip(&self.buckets) {
            *to = from.load(Relaxed);
        }
        Figures {
            count: buckets.iter().fold(0, |sum, n| n.saturating_add(sum)),
            sum_ns: self.sum_ns.load(Relaxed),
            max_ns: self.max_ns.get(),
            buckets,
        }
    }
}

/// A histogram for each kind, and what else is measured at both ends of a push.
pub(crate) struct Latencies {
    kinds: [Histogram; KINDS],
    pub(crate) exposed: Exposed,
}

static ALL_GPUS: Latencies = Latencies::new();

impl Latencies {
    /// Nothing counted.
    pub(crate) const fn new() -> Self {
        Latencies {
            kinds: [const { Histogram::new() }; KINDS],
            exposed: Exposed::new(),
        }
    }

    /// Counts one, of this GPU and of all.
    pub(crate) fn add(&self, kind: Kind, ns: u64) {
        for scope in [self, &ALL_GPUS] {
            // CAST: a discriminant.
            if let Some(h) = scope.kinds.get(kind as usize) {
                h.add(ns);
            }
        }
    }

    /// The figures of a kind (`HUVM_LATENCY_*`); `None` if there is no such kind.
    pub(crate) fn read(&self, kind: u32) -> Option<Figures> {
        let at = usize::try_from(kind).ok()?;
        Some(self.kinds.get(at)?.read())
    }
}

/// Those of all GPUs, gone ones included.
pub(crate) fn global() -> &'static Latencies {
    &ALL_GPUS
}
