// SPDX-License-Identifier: GPL-2.0
//! Named policies: rows of what differs from the knobs' defaults.
//!
//! The defaults of [`KNOBS`](crate::config::KNOBS) are the preset `demand`; what a user gets who sets nothing is the preset
//! [`DEFAULT_PRESET`]. The recipe of the stock presets is
//! `nvidia-uvm.md` section 11; what of it is no number (one service thread per GPU, victims to the host only, every
//! resident page copied) is how the driver works and has no knob.

use crate::config::{KnobId, Policy};

/// A named policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Name, as a user types it. Below 32 bytes.
    pub name: &'static str,
    /// What it stands for, one sentence below 128 bytes.
    pub doc: &'static str,
    /// Knobs that are not at their default, each once, in range.
    pub changes: &'static [(KnobId, u64)],
}

/// The default preset's name.
pub const DEFAULT_PRESET: &str = "huvm";

/// Every preset.
pub static PRESETS: &[Preset] = &[
    Preset {
        name: DEFAULT_PRESET,
        doc: "The default: memharvester that keeps what fits and part of what does not, spares lenders, and has no runaway thrashing window.",
        changes: &[
            (KnobId::HarvestBorrow, 1),
            (KnobId::HarvestLend, 1),
            (KnobId::PreEvict, 1),
            (KnobId::LargePageEvict, 1),
            (KnobId::ParallelFetch, 1),
            (KnobId::StreamMode, 2),
            (KnobId::MultiPath, 1),
            (KnobId::EvictOrder, 3),
            (KnobId::PreEvictHold, 1),
            (KnobId::WriteBackSkip, 16),
            (KnobId::StreamCycles, 1),
            (KnobId::EvictGuardFit, 1),
            (KnobId::EvictKeepSoon, 25),
            (KnobId::CopyOverlap, 1),
            (KnobId::FairMemory, 1),
            (KnobId::KeepHostCopy, 1),
            (KnobId::ReturnWhole, 1),
            (KnobId::FetchApart, 1),
            (KnobId::FetchWhole, 1),
            (KnobId::EvictByReuse, 1),
        ],
    },
    Preset {
        name: "demand",
        doc: "Fetches and evicts on demand alone: stock-595 without its runaway thrashing window, and one copy at a time on an engine.",
        changes: &[],
    },
    Preset {
        name: "stock-460",
        doc: "NVIDIA UVM as the HUVM paper measured it: host memory in 4 KiB pages.",
        changes: &[
            (KnobId::HostChunkSizes, 0),
            (KnobId::ThrashWindowMode, 0),
            (KnobId::CopyOverlap, 1),
        ],
    },
    Preset {
        name: "stock-595",
        doc: "NVIDIA UVM 595.45.04: host memory in 2 MiB, 64 KiB and 4 KiB pieces, thrashing window as it really behaves.",
        changes: STOCK_595,
    },
    Preset {
        name: "random",
        doc: "stock-595 that evicts any chunk in use.",
        changes: &[
            (KnobId::ThrashWindowMode, 1),
            (KnobId::CopyOverlap, 1),
            (KnobId::EvictOrder, 1),
        ],
    },
    Preset {
        name: "zero-copy",
        doc: "stock-595 that maps host memory on a GPU fault and never moves a page.",
        changes: &[
            (KnobId::ThrashWindowMode, 1),
            (KnobId::CopyOverlap, 1),
            (KnobId::ZeroCopy, 1),
        ],
    },
    Preset {
        name: "preef-host",
        doc: "The HUVM paper's prior art: stock-460, whole blocks, pre-eviction and next-line prefetch, to and from the host only.",
        changes: &[
            (KnobId::HostChunkSizes, 0),
            (KnobId::PrefetchThreshold, WHOLE_BLOCKS),
            (KnobId::ThrashWindowMode, 0),
            (KnobId::CopyOverlap, 1),
            (KnobId::PreEvict, 1),
            (KnobId::StreamMode, 1),
        ],
    },
    Preset {
        name: "memharvester",
        doc: "The HUVM paper: harvesting, pre-eviction, large pages, parallel fetch, multi-path prefetch.",
        changes: &[
            (KnobId::PrefetchThreshold, WHOLE_BLOCKS),
            (KnobId::ThrashWindowMode, 0),
            (KnobId::CopyOverlap, 1),
            (KnobId::HarvestBorrow, 1),
            (KnobId::HarvestLend, 1),
            (KnobId::PreEvict, 1),
            (KnobId::LargePageEvict, 1),
            (KnobId::ParallelFetch, 1),
            (KnobId::StreamMode, 2),
            (KnobId::MultiPath, 1),
            // A lender's pace is not the paper's.
            (KnobId::LendSlowdown, 100),
        ],
    },
];

/// `stock-595`: batch 256, 20 and 5 batches a run, 50 % duplicates, flush after each batch, tree at 51 %, thrashing
/// 3 / 500 us / 10 / 1 / 2000 / 300 / 4, least recently migrated and host chunks of all sizes are the defaults. The thrashing
/// window that only grows (nvidia-uvm.md 5.2, 10.2) is a slip of the driver that it stands for. That driver has two channels for each
/// kind of copy (nvidia-uvm.md 6.4), so that a push waits for none before it but in its own channel: here a copy overlaps the next.
const STOCK_595: &[(KnobId, u64)] = &[(KnobId::ThrashWindowMode, 1), (KnobId::CopyOverlap, 1)];

/// Any fault brings its whole block: `uvm_perf_prefetch_threshold` of the HUVM paper's driver, of all its policies but the stock one
/// (github.com/casys-kaist/HUVM, docs/README-parameters.md; what `preef-host` is: scripts/fig6, "pre-ef-host").
const WHOLE_BLOCKS: u64 = 1;

impl Preset {
    /// The preset's value of every knob.
    pub fn policy(&self) -> Policy {
        let mut policy = Policy::new();
        for &(id, value) in self.changes {
            // A value out of range would leave the default; a test sees to it that there is none.
            let _ = policy.set(id, value);
        }
        policy
    }
}

/// The preset of this name.
pub fn preset_by_name(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|p| p.name == name)
}

/// The preset whose values these are; `None` for a policy of the user's own.
pub fn preset_of(policy: &Policy) -> Option<&'static Preset> {
    PRESETS.iter().find(|p| p.policy() == *policy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::KNOBS;
    use KnobId::*;

    fn policy(name: &str) -> Policy {
        preset_by_name(name).unwrap().policy()
    }

    #[test]
    fn every_row_is_sound() {
        for p in PRESETS {
            assert!(p.name.len() < 32 && p.doc.len() < 128 && p.doc.ends_with('.'));
            let twins = PRESETS.iter();
            let twins = twins.filter(|q| q.name == p.name || q.policy() == p.policy());
            assert_eq!(twins.count(), 1, "{} has a twin", p.name);
            for (i, &(id, value)) in p.changes.iter().enumerate() {
                assert_eq!(id.knob().check(value), Ok(value), "{}", p.name);
                assert_eq!(p.policy().get(id), value);
                assert!(p.changes[..i].iter().all(|c| c.0 != id), "{} twice", p.name);
            }
        }
        for p in PRESETS {
            assert_eq!(preset_by_name(p.name), Some(p));
            assert_eq!(preset_of(&p.policy()), Some(p));
        }
    }

    #[test]
    fn a_preset_sets_nothing_that_has_no_effect() {
        for p in PRESETS {
            let dead = p.changes.iter().find(|(id, _)| !id.knob().live);
            assert_eq!(dead, None, "{}", p.name);
        }
    }

    #[test]
    fn harvesters_are_stock_460_and_their_techniques() {
        let base = policy("stock-460");
        let switches = [
            HarvestBorrow,
            HarvestLend,
            PreEvict,
            LargePageEvict,
            ParallelFetch,
            StreamMode,
            MultiPath,
        ];
        let preef = policy("preef-host");
        let memharvester = policy("memharvester");
        for k in KNOBS {
            if switches.contains(&k.id) || k.id == PrefetchThreshold {
                continue;
            }
            assert_eq!(preef.get(k.id), base.get(k.id), "{}", k.name);
            // Large pages of the host are one of its techniques; a lender's pace is none.
            if ![HostChunkSizes, LendSlowdown].contains(&k.id) {
                assert_eq!(memharvester.get(k.id), base.get(k.id), "{}", k.name);
            }
        }
        for p in [preef, memharvester] {
            assert_eq!(p.get(PrefetchThreshold), WHOLE_BLOCKS);
        }
        assert_eq!(memharvester.get(LendSlowdown), LendSlowdown.knob().max);
        for id in switches {
            assert!(!base.is_on(id), "{}", id.knob().name);
            assert!(memharvester.is_on(id), "{}", id.knob().name);
            let prior = matches!(id, PreEvict | StreamMode);
            assert_eq!(preef.is_on(id), prior, "{}", id.knob().name);
        }
        let mode = StreamMode.knob();
        assert_eq!(mode.word(preef.get(StreamMode)), Some("next-line"));
        assert_eq!(mode.word(memharvester.get(StreamMode)), Some("stride"));
    }

    /// The list at the end of nvidia-uvm.md section 11, in its order, and what the recipe says beside it.
    #[test]
    fn stock_595_is_the_recipe() {
        let p = policy("stock-595");
        let want = [
            (FaultBatchMax, 256),
            (FaultBatchesPerRun, 20),
            (FaultThrottledPerRun, 5),
            (FaultDuplicatePercent, 50),
            (PrefetchThreshold, 51),
            (PrefetchFaultLapse, 1000),
            (PrefetchMinFaults, 1),
            (ThrashThreshold, 3),
            (ThrashWindow, 500),
            (ThrashPinThreshold, 10),
            (ThrashNap, 1),
            (ThrashEpoch, 2000),
            (ThrashPin, 300),
            (ThrashMaxResets, 4),
            (AccessCounterThreshold, 256),
            (AccessCounterBatchMax, 256),
            (ChunkBatch, 64),
            (FaultCoalesce, 1),
            (ThrashEnable, 1),
            (EvictEnable, 1),
        ];
        for (id, value) in want {
            assert_eq!(p.get(id), value, "{}", id.knob().name);
        }
        let words = [
            (ReplayPolicy, "batch-flush"),
            (PrefetchMode, "tree"),
            (EvictOrder, "lrm"),
            (HostChunkSizes, "4k+64k+2m"),
            (AccessCounterRegion, "2m"),
            (ThrashWindowMode, "as-shipped"),
        ];
        for (id, word) in words {
            assert_eq!(id.knob().word(p.get(id)), Some(word));
        }
        // "Nothing more".
        for off in [
            AccessCounters,
            ZeroCopy,
            RemoteAtomics,
            PreEvict,
            ReserveChunks,
            HarvestBorrow,
            HarvestLend,
            ParallelFetch,
            LargePageEvict,
            StreamMode,
            MultiPath,
            WriteBackSkip,
            StreamCycles,
            EvictGuardFit,
            EvictKeepSoon,
            FairMemory,
            KeepHostCopy,
            ReturnWhole,
            FetchApart,
            FetchWhole,
            EvictByReuse,
        ] {
            assert_eq!(p.get(off), 0, "{}", off.knob().name);
        }
    }

    #[test]
    fn the_others_differ_from_stock_595_as_their_names_say() {
        let base = policy("stock-595");
        let differs = |name: &str| -> std::vec::Vec<KnobId> {
            let p = policy(name);
            KNOBS
                .iter()
                .map(|k| k.id)
                .filter(|&id| p.get(id) != base.get(id))
                .collect()
        };
        // The default finds out which blocks are wanted whole, and has a lender take in no more than it can spare.
        let memharvester = differs("memharvester").into_iter();
        let mut huvm: std::vec::Vec<_> = memharvester
            .filter(|id| ![PrefetchThreshold, LendSlowdown].contains(id))
            .chain([
                EvictOrder,
                PreEvictHold,
                WriteBackSkip,
                StreamCycles,
                EvictGuardFit,
                EvictKeepSoon,
                FairMemory,
                KeepHostCopy,
                ReturnWhole,
                FetchApart,
                FetchWhole,
                EvictByReuse,
            ])
            .collect();
        huvm.sort();
        assert_eq!(differs("huvm"), huvm);
        assert_eq!(differs("demand"), [ThrashWindowMode, CopyOverlap]);
        assert_eq!(policy("demand"), Policy::new());
        assert_eq!(differs("stock-460"), [ThrashWindowMode, HostChunkSizes]);
        assert_eq!(differs("random"), [EvictOrder]);
        assert_eq!(differs("zero-copy"), [ZeroCopy]);
        assert_eq!(
            HostChunkSizes
                .knob()
                .word(policy("stock-460").get(HostChunkSizes)),
            Some("4k")
        );
    }

    #[test]
    fn a_policy_of_ones_own_has_no_preset() {
        let mut p = Policy::new();
        p.set(FaultBatchMax, 255).unwrap();
        assert_eq!(preset_of(&p), None);
    }
}
