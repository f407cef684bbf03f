// SPDX-License-Identifier: GPL-2.0
//! A hostile guest: random registers, page tables, pushbuffers and descriptors. The model never
//! panics, does a bounded amount of work per call, and makes no access outside VRAM.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::precedence
)]

mod common;
use common::*;
use huvm_hw::ext;
use huvm_model::bar0;
use huvm_model::config::{GpuConfig, Profile};
use huvm_model::host::{DmaError, Host};
use huvm_model::machine::Machine;
use huvm_model::mem_host::MemHost;
use proptest::prelude::*;

/// Wraps the memory host and counts the work of one call.
struct Meter {
    h: MemHost,
    work: u64,
}

impl Host for Meter {
    fn now_ns(&mut self) -> u64 {
        self.h.now_ns()
    }
    fn dma_read(&mut self, gpu: usize, addr: u64, buf: &mut [u8]) -> Result<(), DmaError> {
        self.work += 1 + buf.len() as u64 / 64;
        self.h.dma_read(gpu, addr, buf)
    }
    fn dma_write(&mut self, gpu: usize, addr: u64, buf: &[u8]) -> Result<(), DmaError> {
        self.work += 1 + buf.len() as u64 / 64;
        self.h.dma_write(gpu, addr, buf)
    }
    fn vram_read(&mut self, gpu: usize, offset: u64, buf: &mut [u8]) -> Result<(), DmaError> {
        self.work += 1 + buf.len() as u64 / 64;
        self.h.vram_read(gpu, offset, buf)
    }
    fn vram_write(&mut self, gpu: usize, offset: u64, buf: &[u8]) -> Result<(), DmaError> {
        self.work += 1 + buf.len() as u64 / 64;
        self.h.vram_write(gpu, offset, buf)
    }
    fn msix(&mut self, gpu: usize, vector: u32) {
        assert!(vector < ext::MSIX_VECTORS);
        self.h.messages.clear();
        self.h.msix(gpu, vector);
    }
}

/// Most work that one call may do: each event moves at most 2 MiB in and out (64 bytes a unit).
const LIMIT: u64 = (huvm_model::machine::TIMER.events as u64) * 4 * (2 << 20) / 64;

/// Registers worth hitting: those that mean something, and their neighbours.
fn register() -> impl Strategy<Value = u32> {
    let block = |base: u32, bytes: u32| (0..bytes / 4).prop_map(move |i| base + 4 * i);
    prop_oneof![
        block(bar0::FAULT_LO, 0x120),
        block(bar0::LEAF, 0x700),
        block(0x1700, 0x20),
        block(bar0::RUNLIST, 0xc00),
        block(bar0::CHRAM, 0x40),
        block(bar0::CHRAM + bar0::CHRAM_STRIDE, 0x40),
        block(bar0::PBDMA, 0x200),
        block(bar0::CE_STATUS, 0x100),
        block(0x10_0c80, 0x80),
        block(bar0::USERMODE, 0x100),
        block(bar0::PRAMIN, 0x1000),
        block(0, ext::BAR0_BYTES),
    ]
}

fn ext_register() -> impl Strategy<Value = u32> {
    let block = |base: u32, bytes: u32| (0..bytes / 4).prop_map(move |i| base + 4 * i);
    prop_oneof![
        block(ext::workload::SLOT0, 0x200),
        block(ext::topology::BASE, 0x200),
        block(ext::throttle::BASE, 0x200),
        // Not GONE: it would end the run.
        block(ext::inject::BASE, 0x20),
        block(ext::inject::DROP_INTR, 0x10),
        block(0, ext::BAR_BYTES),
    ]
}

fn value() -> impl Strategy<Value = u32> {
    prop_oneof![
        any::<u32>(),
        Just(0),
        Just(u32::MAX),
        (0u32..64),
        // Pages of the small memories below, with low bits.
        (0u32..0x400, 0u32..16).prop_map(|(p, low)| p << 12 | low),
        (0u32..32).prop_map(|b| 1 << b),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Write {
        bar: u32,
        at: u32,
        value: u32,
    },
    Read {
        bar: u32,
        at: u32,
    },
    Odd {
        bar: u32,
        at: u64,
        size: u32,
        value: u64,
    },
    Words {
        vram: bool,
        at: u32,
        words: Vec<u32>,
    },
    Pushbuffer {
        words: Vec<u32>,
    },
    /// A well-formed copy, fill or semaphore with odd operands.
    Copy {
        src: u64,
        dst: u64,
        len: u32,
        launch: u32,
        remap: u32,
        modes: [u32; 2],
    },
    Semaphore {
        va: u64,
        payload: u64,
        execute: u32,
    },
    MemOp {
        words: [u32; 4],
    },
    /// Clears faults of the channel.
    Recover,
    Launch {
        op: u32,
        fields: [u64; 11],
        blocks: u32,
        elem: u32,
    },
    Time {
        ns: u32,
    },
    Reset,
}

fn method() -> impl Strategy<Value = Vec<u32>> {
    let address = prop_oneof![
        (0u32..0x24).prop_map(|i| 4 * i),
        (0x240u32 / 4..0x304 / 4).prop_map(|i| 4 * i),
        (0x400u32 / 4..0x420 / 4).prop_map(|i| 4 * i),
        (0x700u32 / 4..0x70c / 4).prop_map(|i| 4 * i),
        (0u32..0x1000).prop_map(|i| 4 * i),
    ];
    (
        address,
        prop::collection::vec(value(), 1..6),
        0u32..8,
        0u32..8,
    )
        .prop_map(|(a, data, op, sub)| {
            // Mostly increasing methods on subchannel 0.
            let op = if op == 7 { sub } else { 1 };
            let sub = if sub < 6 { 0 } else { sub };
            let mut v = vec![op << 29 | (data.len() as u32) << 16 | sub << 13 | a / 4];
            v.extend(data);
            v
        })
}

fn address2() -> impl Strategy<Value = u64> {
    prop_oneof![
        (0u64..0x10_0000).prop_map(|x| SYS_VA + 0x10_0000 + x),
        (0u64..0x40_0000).prop_map(|x| 0x8000_0000 + x),
        (0u64..0xa000).prop_map(|x| 0x10_0000_0000 + x),
        (0u64..0x500_0000),
        any::<u64>(),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let address = prop_oneof![
        Just(0x10_0000_0000u64),
        (0u64..0x400).prop_map(|p| SYS_VA + (p << 12)),
        (0u64..0x8000).prop_map(|x| 0x8000_0000 + x * 8),
        any::<u64>(),
    ];
    let small = prop_oneof![0u64..5000, Just(1u64 << 32), any::<u64>()];
    prop_oneof![
        4 => (register(), value()).prop_map(|(at, value)| Step::Write { bar: 0, at, value }),
        2 => (ext_register(), value()).prop_map(|(at, value)| Step::Write { bar: 5, at, value }),
        1 => register().prop_map(|at| Step::Read { bar: 0, at }),
        1 => ext_register().prop_map(|at| Step::Read { bar: 5, at }),
        1 => (prop::sample::select(vec![0u32, 1, 2, 3, 5]), any::<u64>(),
              prop::sample::select(vec![1u32, 2, 4, 8]), any::<u64>())
            .prop_map(|(bar, at, size, value)| Step::Odd { bar, at: at >> (value & 63), size, value }),
        2 => (any::<bool>(), (0u32..0x400), prop::collection::vec(value(), 1..40))
            .prop_map(|(vram, page, words)| Step::Words { vram, at: page << 12, words }),
        1 => (0u32..0x10_0000, prop::collection::vec(value(), 1..8))
            .prop_map(|(at, words)| Step::Words { vram: true, at: PDE3 as u32 + (at & 0xfff8), words }),
        4 => prop::collection::vec(method(), 1..12)
            .prop_map(|m| Step::Pushbuffer { words: m.concat() }),
        3 => (0u32..13, prop::array::uniform11(prop_oneof![2 => address, 3 => small]), 1u32..200,
              prop::sample::select(vec![4u32, 8]))
            .prop_map(|(op, fields, blocks, elem)| Step::Launch { op, fields, blocks, elem }),
        4 => (address2(), address2(), prop_oneof![0u32..10_000, Just(5 << 20), any::<u32>()],
              any::<u32>(), any::<u32>(), [0u32..4, 0u32..4])
            .prop_map(|(src, dst, len, launch, remap, modes)| Step::Copy { src, dst, len, launch, remap, modes }),
        2 => (address2(), any::<u64>(), any::<u32>())
            .prop_map(|(va, payload, execute)| Step::Semaphore { va: va & !15, payload, execute }),
        2 => (value(), 0u32..64, value(), prop::sample::select(vec![5u32, 9, 10, 0x16, 3]), 0u32..4)
            .prop_map(|(a, b, c, op, d)| Step::MemOp { words: [a, b, c, op << 27 | d] }),
        2 => Just(Step::Recover),
        3 => (0u32..2_000_000).prop_map(|ns| Step::Time { ns }),
        1 => Just(Step::Reset),
    ]
}

/// Puts words into the channel's pushbuffer and rings its doorbell.
fn push(m: &mut Machine, host: &mut Meter, put: &mut u32, words: &[u32]) {
    let b: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let at = PB + u64::from(*put % 512) * 0x400;
    host.h.sys.write(at, &b).unwrap();
    let entry = (SYS_VA + at) | (words.len() as u64) << 42;
    let slot = GPFIFO + 8 * u64::from(*put % 1024);
    host.h.sys.write(slot, &entry.to_le_bytes()).unwrap();
    *put += 1;
    let next = (*put % 1024).to_le_bytes();
    host.h.sys.write(USERD + 0x8c, &next).unwrap();
    m.mmio_write(0, 0, 0xbb_0090, 16 << 16 | 1, 4, host);
}

fn drive(steps: Vec<Step>, timing: bool, seed: u32) {
    let config = GpuConfig {
        timing,
        seed,
        vram_bytes: 64 << 20,
        ..GpuConfig::default()
    };
    let mut r = Rig::with(vec![config.clone(), config], Profile::default());
    setup(&mut r);
    let Rig { m, h, .. } = r;
    let mut host = Meter { h, work: 0 };
    let mut m: Machine = m;
    let mut put = 0u32;
    for s in steps {
        host.work = 0;
        match s {
            Step::Write { bar, at, value } => {
                m.mmio_write(0, bar, at.into(), value.into(), 4, &mut host)
            }
            Step::Read { bar, at } => {
                let v = m.mmio_read(0, bar, at.into(), 4, &mut host);
                assert!(v <= u64::from(u32::MAX));
            }
            Step::Odd {
                bar,
                at,
                size,
                value,
            } => {
                m.mmio_write(0, bar, at, value, size, &mut host);
                m.mmio_read(0, bar, at, size, &mut host);
            }
            Step::Words { vram, at, words } => {
                let b: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
                if vram {
                    host.h.vram[0].write(at.into(), &b).unwrap();
                } else {
                    host.h.sys.write(at.into(), &b).unwrap();
                }
            }
            Step::Pushbuffer { words } => push(&mut m, &mut host, &mut put, &words),
            Step::Copy {
                src,
                dst,
                len,
                launch,
                remap,
                modes,
            } => {
                let mut p = inc(0x260, &modes);
                p.extend(inc(0x700, &[1, 2, remap]));
                // Mostly what the engine accepts: pitch, one line, no odd semaphore.
                let launch = if launch & 7 == 0 {
                    launch
                } else {
                    launch & 0x3467 | 1
                };
                p.extend(inc(0x240, &[hi(dst), dst as u32 & !15, len]));
                p.extend(copy(src, dst, len, launch));
                push(&mut m, &mut host, &mut put, &p);
            }
            Step::Semaphore {
                va,
                payload,
                execute,
            } => push(&mut m, &mut host, &mut put, &sem(va, payload, execute)),
            Step::MemOp {
                words: [a, b, c, d],
            } => push(&mut m, &mut host, &mut put, &mem_op(a, b, c, d)),
            Step::Recover => {
                let ram = u64::from(bar0::CHRAM + 4);
                for v in [0x11u64, 0x21, 2] {
                    m.mmio_write(0, 0, ram, v, 4, &mut host);
                }
                for at in [0x4_0108u64, u64::from(bar0::CE_INTR_STATUS)] {
                    m.mmio_write(0, 0, at, 0xffff_ffff, 4, &mut host);
                }
                let all = 1 << 31 | 3 | 1 << 3;
                m.mmio_write(0, 0, bar0::INVALIDATE.into(), all, 4, &mut host);
                push(&mut m, &mut host, &mut put, &[0]);
            }
            Step::Launch {
                op,
                fields,
                blocks,
                elem,
            } => {
                let mut b = Vec::new();
                for v in [
                    0x4b52_4f57u32,
                    1,
                    blocks,
                    1,
                    1 + (fields[10] as u32 & 3),
                    elem,
                    0,
                    0,
                ] {
                    b.extend_from_slice(&v.to_le_bytes());
                }
                b.resize(64, 0);
                b.extend_from_slice(&op.to_le_bytes());
                b.extend_from_slice(&0u32.to_le_bytes());
                for f in fields {
                    b.extend_from_slice(&f.to_le_bytes());
                }
                host.h.sys.write(DESC, &b).unwrap();
                for (reg, v) in [
                    (0, DESC as u32),
                    (4, 0),
                    (8, INST as u32),
                    (12, 0),
                    (0x14, 1),
                ] {
                    m.mmio_write(0, 5, (slot_at(1) + reg).into(), v.into(), 4, &mut host);
                }
            }
            Step::Time { ns } => {
                host.h.now += u64::from(ns);
                for _ in 0..3 {
                    host.work = 0;
                    m.timer(&mut host);
                    assert!(host.work < LIMIT, "{} units of work in one call", host.work);
                }
            }
            Step::Reset => {
                m.reset(0, &mut host);
                host.h.sys.write(USERD + 0x8c, &[0; 4]).unwrap();
                put = 0;
                // Fresh tables: the steps before may have written into them.
                host.h.vram[0].write(PDE3, &[0; 0x4_0000]).unwrap();
                let mut r = Rig {
                    m,
                    h: host.h,
                    next_table: vec![PDE3 + 0x1000; 2],
                    pb_at: PB,
                    gp_put: 0,
                };
                setup(&mut r);
                (m, host.h) = (r.m, r.h);
            }
        }
        assert!(host.work < LIMIT, "{} units of work in one call", host.work);
        assert_eq!(host.h.out_of_bounds, 0, "an access outside of VRAM");
    }
    // Reset stops everything.
    m.reset(0, &mut host);
    m.reset(1, &mut host);
    assert_eq!(m.next_deadline(), None, "work after a reset");
}

/// A GPU that works: channel, rings, mappings, peer. Random steps then break it.
fn setup(r: &mut Rig) {
    r.channel(0, 0);
    r.rings(0, 16);
    r.interrupts(0);
    r.w5(0, ext::topology::PEER_MAP0, 1 << 31 | 1);
    r.w0(0, bar0::COUNTER_CONFIG, 2);
    r.w0(0, bar0::COUNTER_LO, 0x3f0_0000 | 1);
    r.map2m(0, 0x8000_0000, pte_vid(0x200_0000));
    r.map2m(0, 0x8020_0000, pte_peer(0, 0x200_0000));
    for p in 0..8 {
        r.map4k(0, 0x10_0000_0000 + p * 4096, pte_vid(0x300_0000 + p * 4096));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8000, max_shrink_iters: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hostile_guest(steps in prop::collection::vec(step(), 1..60), timing: bool, seed: u32) {
        drive(steps, timing, seed);
    }
}
