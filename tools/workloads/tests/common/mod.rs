// SPDX-License-Identifier: GPL-2.0
//! What the tests share.
// Helpers of tests: not each test file uses all, and clippy sees tests only in functions marked so.
#![allow(dead_code, clippy::unwrap_used, clippy::indexing_slicing)]

pub(crate) mod order;

use huvm_workloads::{find, touches, Ask, First, Step, Touch, Workload, PAGE};

pub(crate) const MIB: u64 = 1 << 20;

pub(crate) fn make(name: &str, bytes: u64) -> Workload {
    find(name).unwrap().make(&Ask::bytes(bytes)).unwrap()
}

/// On so many bytes, in place of so many.
pub(crate) fn in_place_of(name: &str, bytes: u64, full: u64) -> Workload {
    let ask = Ask {
        full: Some(full),
        ..Ask::bytes(bytes)
    };
    find(name).unwrap().make(&ask).unwrap()
}

/// Touches of a pass.
pub(crate) fn touched(w: &Workload, pass: u32) -> Vec<Touch> {
    let mut all = Vec::new();
    for step in w.pass(pass) {
        touches::visit(&step, &mut |t| all.push(t));
    }
    all
}

/// How often each page of an allocation is touched in a list: (reads, writes).
pub(crate) fn counts(w: &Workload, alloc: u32, list: &[Touch]) -> Vec<(u32, u32)> {
    let mut n = vec![(0, 0); w.allocs[alloc as usize].pages() as usize];
    for t in list.iter().filter(|t| t.alloc == alloc) {
        let page = &mut n[t.page as usize];
        if t.write {
            page.1 += 1;
        } else {
            page.0 += 1;
        }
    }
    n
}

/// Fails unless a step stays inside the allocations and obeys the engine's rules.
pub(crate) fn inside(w: &Workload, step: &Step) {
    let bytes_of = |alloc: u32| w.allocs.get(alloc as usize).map_or(0, |a| a.bytes);
    match step {
        Step::Launch(p) => p.check(&w.allocs).unwrap(),
        Step::Trace(t) => {
            assert!(!t.touches.is_empty(), "{}: an empty trace", w.name);
            for t in &t.touches {
                let end = (u64::from(t.page) + 1) * PAGE;
                assert!(end <= bytes_of(t.alloc), "{}: {t:?}", w.name);
            }
        }
        Step::Cpu { at, bytes, .. } => {
            assert!(at.offset + bytes <= bytes_of(at.alloc), "{}", w.name);
        }
        Step::Discard { alloc } => assert!(bytes_of(*alloc) > 0, "{}", w.name),
    }
}

/// FNV-1a (Fowler, Noll, Vo) over all that a workload is.
pub(crate) fn digest(w: &Workload) -> u64 {
    let mut h = 0xcbf2_9ce4_8422_2325u64;
    let mut eat = |text: &str| {
        for b in text.bytes() {
            h = (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for a in &w.allocs {
        eat(&format!("{} {}", a.name, a.bytes));
        if let First::Cpu(init) = &a.first {
            let words = a.bytes / 8;
            for i in (0..words).step_by((words / 997).max(1) as usize) {
                eat(&format!("{:x}", init.word(i)));
            }
        }
    }
    for step in w.steps() {
        match &step {
            Step::Trace(t) => {
                let mut sum = 0u64;
                for t in &t.touches {
                    let word = (u64::from(t.alloc) << 33) | (u64::from(t.page) << 1);
                    sum = (sum.rotate_left(5) ^ word ^ u64::from(t.write))
                        .wrapping_mul(0x100_0000_01b3);
                }
                eat(&sum.to_string());
                eat(&t.compute_ns.to_string());
            }
            other => eat(&format!("{other:?}")),
        }
    }
    h
}
