// SPDX-License-Identifier: GPL-2.0
//! A hostile guest, step by step: what each does, and what must hold after it.

use super::*;
use huvm_model::host::{DmaError, Host};

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

/// Registers worth hitting, as blocks of so many bytes: those that mean something, and their neighbours.
pub const REGISTERS: [(u32, u32); 12] = [
    (bar0::FAULT_LO, 0x120),
    (bar0::LEAF, 0x700),
    (0x1700, 0x20),
    (bar0::RUNLIST, 0xc00),
    (bar0::CHRAM, 0x40),
    (bar0::CHRAM + bar0::CHRAM_STRIDE, 0x40),
    (bar0::PBDMA, 0x200),
    (bar0::CE_STATUS, 0x100),
    (0x10_0c80, 0x80),
    (bar0::USERMODE, 0x100),
    (bar0::PRAMIN, 0x1000),
    (0, ext::BAR0_BYTES),
];

/// The same of the extension. Not GONE: it would end the run.
pub const EXT_REGISTERS: [(u32, u32); 7] = [
    (ext::workload::SLOT0, 0x200),
    (ext::topology::BASE, 0x200),
    (ext::throttle::BASE, 0x200),
    (ext::inject::BASE, 0x20),
    (ext::inject::DROP_INTR, 0x20),
    (ext::ecc::BASE, 0x200),
    (0, ext::BAR_BYTES),
];

#[derive(Clone, Debug)]
pub enum Step {
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

/// Drives a machine of two GPUs by `steps`.
pub fn drive(steps: impl IntoIterator<Item = Step>, timing: bool, seed: u32) {
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
