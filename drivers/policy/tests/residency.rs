// SPDX-License-Identifier: GPL-2.0
//! Residency: one test per rule of nvidia-uvm.md 5.4, and what holds for every fault.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that panics is a test that fails"
)]

use huvm_policy::config::{KnobId, Policy};
use huvm_policy::preset::preset_by_name;
use huvm_policy::residency::*;
use huvm_policy::types::{Access, GpuId, Processor, ProcessorMask};
use proptest::prelude::*;

const CPU: Processor = Processor::Cpu;

fn gpu(i: u8) -> Processor {
    Processor::Gpu(GpuId::new(i).unwrap())
}

fn set(ps: &[Processor]) -> ProcessorMask {
    ps.iter().fold(ProcessorMask::EMPTY, |m, &p| m.with(p))
}

/// Host, and GPUs 0 to 2. All GPUs map host memory; 0 and 1 map each other over NVLink; 2 has no peer. The host maps no
/// GPU memory.
struct Machine {
    map: [ProcessorMask; 4],
    fast: [ProcessorMask; 4],
    atomics: [ProcessorMask; 4],
}

impl Machine {
    fn new() -> Self {
        let pair = [
            ProcessorMask::EMPTY,
            set(&[gpu(1)]),
            set(&[gpu(0)]),
            ProcessorMask::EMPTY,
        ];
        let mut map = pair;
        map[0] = set(&[gpu(0), gpu(1), gpu(2)]);
        Self {
            map,
            fast: pair,
            atomics: pair,
        }
    }

    fn reach(&self) -> Reach<'_> {
        Reach {
            mappable_by: &self.map,
            fast_from: &self.fast,
            atomics_from: &self.atomics,
        }
    }
}

/// A plain fault without advice.
fn fault(requester: Processor, access: Access, resident: &[Processor]) -> PageFault {
    PageFault {
        requester,
        access,
        protection: Protection::ReadWrite,
        resident: set(resident),
        advice: Advice::default(),
        pinned_at: None,
        foreign: false,
    }
}

fn ask(f: &PageFault) -> Decision {
    decide(f, &Machine::new().reach(), &ResidencyConfig::default())
}

use Access::{AtomicStrong, Prefetch, Read, Write};
use Decision::{Duplicate, Fatal, InvalidPrefetch, MapRemote, Migrate};

#[test]
fn without_advice_the_requester_gets_the_page() {
    for access in [Prefetch, Read, Write, AtomicStrong] {
        assert_eq!(ask(&fault(gpu(0), access, &[])), Migrate(gpu(0)));
        assert_eq!(ask(&fault(gpu(0), access, &[CPU])), Migrate(gpu(0)));
        assert_eq!(ask(&fault(CPU, access, &[gpu(0)])), Migrate(CPU));
        // Peer mapping alone never stops it.
        assert_eq!(ask(&fault(gpu(0), access, &[gpu(1)])), Migrate(gpu(0)));
    }
}

#[test]
fn a_forbidden_access_is_fatal_and_a_forbidden_prefetch_is_not() {
    let ro = |access| PageFault {
        protection: Protection::ReadOnly,
        ..fault(gpu(0), access, &[CPU])
    };
    assert_eq!(ask(&ro(Read)), Migrate(gpu(0)));
    assert_eq!(ask(&ro(Write)), Fatal(FatalReason::Permissions));
    assert_eq!(ask(&ro(AtomicStrong)), Fatal(FatalReason::Permissions));
    let none = |access| PageFault {
        protection: Protection::None,
        ..fault(gpu(0), access, &[])
    };
    assert_eq!(ask(&none(Read)), Fatal(FatalReason::Permissions));
    assert_eq!(ask(&none(Prefetch)), InvalidPrefetch);
}

#[test]
fn rule_2_read_mostly_pages_are_duplicated_until_a_write() {
    let rm = |requester, access, resident: &[Processor]| {
        let mut f = fault(requester, access, resident);
        f.advice.read_mostly = true;
        ask(&f)
    };
    assert_eq!(rm(gpu(0), Read, &[]), Migrate(gpu(0)));
    assert_eq!(rm(gpu(0), Read, &[CPU]), Duplicate);
    assert_eq!(rm(gpu(0), Prefetch, &[CPU, gpu(1)]), Duplicate);
    assert_eq!(rm(gpu(0), Write, &[CPU, gpu(0)]), Migrate(gpu(0)));
    assert_eq!(rm(CPU, Read, &[gpu(2)]), Duplicate);
}

#[test]
fn rule_3_the_preferred_location_gets_its_page() {
    let mut f = fault(gpu(0), Read, &[CPU]);
    f.advice.preferred = Some(gpu(0));
    // Before a pin elsewhere.
    f.pinned_at = Some(CPU);
    assert_eq!(ask(&f), Migrate(gpu(0)));
}

#[test]
fn rule_5_a_pinned_page_is_mapped_where_it_is_pinned() {
    let mut f = fault(gpu(0), Write, &[CPU]);
    f.pinned_at = Some(CPU);
    assert_eq!(ask(&f), MapRemote(CPU));
    f.resident = set(&[gpu(1)]);
    assert_eq!(ask(&f), Migrate(CPU));
    f.pinned_at = Some(gpu(0));
    assert_eq!(ask(&f), Migrate(gpu(0)));
    // The host cannot map a GPU's memory: the pin does not hold for it.
    let mut f = fault(CPU, Read, &[gpu(0)]);
    f.pinned_at = Some(gpu(0));
    assert_eq!(ask(&f), Migrate(CPU));
}

#[test]
fn rule_6_a_first_touch_goes_to_the_preferred_location_if_it_can_be_reached() {
    let mut f = fault(gpu(0), Write, &[]);
    f.advice.preferred = Some(CPU);
    assert_eq!(ask(&f), Migrate(CPU));
    f.advice.preferred = Some(gpu(2));
    assert_eq!(ask(&f), Migrate(gpu(0)));
}

#[test]
fn rule_7_accessed_by_maps_the_page_where_it_is() {
    let mut f = fault(gpu(0), Write, &[CPU]);
    f.advice.accessed_by = set(&[gpu(0)]);
    assert_eq!(ask(&f), MapRemote(CPU));
    f.resident = set(&[gpu(2)]);
    assert_eq!(ask(&f), Migrate(gpu(0)), "gpu2 cannot be reached");
    f.resident = set(&[CPU, gpu(1)]);
    f.access = Read;
    assert_eq!(ask(&f), MapRemote(gpu(1)), "the nearer copy");
    f.access = Write;
    assert_eq!(ask(&f), Migrate(gpu(1)), "a write leaves one copy");
}

#[test]
fn rule_8_atomics_stay_if_switched_on_and_the_link_can() {
    let on = ResidencyConfig {
        remote_atomics: true,
        ..ResidencyConfig::default()
    };
    let m = Machine::new();
    let f = fault(gpu(0), AtomicStrong, &[gpu(1)]);
    assert_eq!(decide(&f, &m.reach(), &on), MapRemote(gpu(1)));
    assert_eq!(ask(&f), Migrate(gpu(0)));
    let write = PageFault { access: Write, ..f };
    assert_eq!(decide(&write, &m.reach(), &on), Migrate(gpu(0)));
    // The host's link has no atomics here.
    let host = fault(gpu(0), AtomicStrong, &[CPU]);
    assert_eq!(decide(&host, &m.reach(), &on), Migrate(gpu(0)));
}

#[test]
fn rule_9_a_page_elsewhere_moves_to_the_preferred_location() {
    let mut f = fault(gpu(0), Read, &[gpu(1)]);
    f.advice.preferred = Some(CPU);
    assert_eq!(ask(&f), Migrate(CPU));
    f.resident = set(&[CPU]);
    assert_eq!(ask(&f), MapRemote(CPU));
    // Already at the requester: it stays.
    f.resident = set(&[gpu(0)]);
    assert_eq!(ask(&f), Migrate(gpu(0)));
}

#[test]
fn rule_10_a_foreign_cpu_leaves_the_page_if_it_can_reach_it() {
    let mut m = Machine::new();
    let mut f = fault(CPU, Read, &[gpu(0)]);
    f.foreign = true;
    assert_eq!(ask(&f), Migrate(CPU));
    m.map[1] = m.map[1].with(CPU);
    let c = ResidencyConfig::default();
    assert_eq!(decide(&f, &m.reach(), &c), MapRemote(gpu(0)));
    f.foreign = false;
    assert_eq!(decide(&f, &m.reach(), &c), Migrate(CPU));
}

#[test]
fn zero_copy_maps_host_memory_and_moves_nothing_to_a_gpu() {
    let c = ResidencyConfig::of(&preset_by_name("zero-copy").unwrap().policy());
    assert!(c.zero_copy);
    let m = Machine::new();
    let ask = |f: &PageFault| decide(f, &m.reach(), &c);
    assert_eq!(ask(&fault(gpu(0), Write, &[])), Migrate(CPU));
    assert_eq!(ask(&fault(gpu(0), Write, &[CPU])), MapRemote(CPU));
    // What the user moved to a GPU is used there.
    assert_eq!(ask(&fault(gpu(0), Write, &[gpu(1)])), MapRemote(gpu(1)));
    assert_eq!(ask(&fault(gpu(0), Write, &[gpu(0)])), Migrate(gpu(0)));
    // Out of reach: it has to move.
    assert_eq!(ask(&fault(gpu(2), Write, &[gpu(0)])), Migrate(gpu(2)));
    assert_eq!(ask(&fault(CPU, Read, &[gpu(0)])), Migrate(CPU));
}

#[test]
fn the_nearest_copy_is_found() {
    let m = Machine::new();
    let r = m.reach();
    let near = |copies: &[Processor], reader| nearest_copy(set(copies), reader, &r);
    assert_eq!(near(&[], gpu(0)), None);
    assert_eq!(near(&[CPU, gpu(0), gpu(1)], gpu(0)), Some(gpu(0)));
    assert_eq!(near(&[CPU, gpu(1)], gpu(0)), Some(gpu(1)));
    assert_eq!(near(&[CPU, gpu(2)], gpu(0)), Some(CPU));
    assert_eq!(near(&[gpu(1), gpu(2)], CPU), Some(gpu(1)));
    // A peer over PCIe before the host, a fast one before it.
    let mut m = Machine::new();
    m.map[3] = set(&[gpu(0)]);
    assert_eq!(
        nearest_copy(set(&[CPU, gpu(2)]), gpu(0), &m.reach()),
        Some(gpu(2))
    );
    m.map[2] = ProcessorMask::EMPTY;
    m.fast[2] = ProcessorMask::EMPTY;
    m.fast[3] = set(&[gpu(0)]);
    assert_eq!(
        nearest_copy(set(&[gpu(1), gpu(2)]), gpu(0), &m.reach()),
        Some(gpu(2))
    );
}

#[test]
fn knobs_reach_the_decision() {
    let mut p = Policy::new();
    assert_eq!(ResidencyConfig::of(&p), ResidencyConfig::default());
    p.set(KnobId::RemoteAtomics, 1).unwrap();
    assert!(ResidencyConfig::of(&p).remote_atomics);
}

fn processor() -> impl Strategy<Value = Processor> {
    (0u8..4).prop_map(|i| Processor::from_index(i).unwrap())
}

fn processors() -> impl Strategy<Value = ProcessorMask> {
    (0u32..16).prop_map(ProcessorMask::from_bits)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    /// Whatever the machine and the advice: the requester can use the place it is sent to, and do its atomics there, nothing is mapped
    /// where there is no copy, and a write never leaves two.
    #[test]
    fn every_decision_can_be_carried_out(
        who in processor(),
        access in prop_oneof![Just(Prefetch), Just(Read), Just(Write), Just(Access::AtomicWeak), Just(AtomicStrong)],
        protection in prop_oneof![4 => Just(Protection::ReadWrite), 1 => Just(Protection::ReadOnly)],
        resident in processors(),
        preferred in proptest::option::of(processor()),
        accessed_by in processors(),
        (read_mostly, foreign, zero_copy, remote_atomics) in any::<(bool, bool, bool, bool)>(),
        pinned_at in proptest::option::of(processor()),
        map in proptest::array::uniform4(processors()),
        fast in proptest::array::uniform4(processors()),
        atomics in proptest::array::uniform4(processors()),
    ) {
        let atomics: Vec<_> = atomics.iter().zip(&map).map(|(a, m)| a.and(*m)).collect();
        let reach = Reach { mappable_by: &map, fast_from: &fast, atomics_from: &atomics };
        let f = PageFault {
            requester: who, access, protection, resident, pinned_at, foreign,
            advice: Advice { preferred, accessed_by, read_mostly },
        };
        match decide(&f, &reach, &ResidencyConfig { zero_copy, remote_atomics }) {
            Migrate(to) => {
                prop_assert!(reach.can_map(who, to));
                prop_assert!(!access.is_atomic() || reach.can_do_atomics(who, to));
            }
            MapRemote(at) => {
                prop_assert!(!access.is_atomic() || reach.can_do_atomics(who, at));
                prop_assert!(at != who && reach.can_map(who, at));
                prop_assert!(resident.contains(at));
                prop_assert!(!access.is_write() || resident.count() <= 1);
            }
            Duplicate => prop_assert!(read_mostly && !access.is_write() && !resident.is_empty()),
            InvalidPrefetch => prop_assert!(access == Prefetch && !protection.allows(access)),
            Fatal(why) => {
                prop_assert_eq!(why, FatalReason::Permissions);
                prop_assert!(!protection.allows(access));
            }
        }
    }
}
