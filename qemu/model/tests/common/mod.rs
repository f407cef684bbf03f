// SPDX-License-Identifier: GPL-2.0
//! A small driver for the tests of the model: just enough to reach each unit by documented means.
//!
//! Formats are written out here once more, from the manuals' tables, so that a mistake of the
//! model meets an independent reading.
#![allow(dead_code, unreachable_pub)]

pub mod hostile;
pub mod steps;

use huvm_hw::ext;
use huvm_model::bar0;
use huvm_model::config::{GpuConfig, Profile};
use huvm_model::machine::Machine;
use huvm_model::mem_host::MemHost;

pub const VRAM: u64 = 128 << 20;
pub const SYS: u64 = 1 << 30;

/// Fixed places in VRAM.
pub const PDE3: u64 = 0x10_0000;
pub const INST: u64 = 0x20_0000;
pub const RUNLIST: u64 = 0x21_0000;
/// Fixed places in system memory.
pub const USERD: u64 = 0x1_0000;
pub const GPFIFO: u64 = 0x2_0000;
pub const SEM: u64 = 0x3_0000;
pub const PB: u64 = 0x4_0000;
pub const RING0: u64 = 0x10_0000;
pub const RING1: u64 = 0x12_0000;
pub const DESC: u64 = 0x14_0000;
/// Virtual address at which system memory 0..2 MiB is mapped.
pub const SYS_VA: u64 = 0x40_0000_0000 - (1 << 30);
/// Semaphores live here, inside the mapped 2 MiB.
pub const SEM_VA: u64 = SYS_VA + SEM;
/// A second, in nanoseconds.
pub const SEC: u64 = 1_000_000_000;

pub struct Rig {
    pub m: Machine,
    pub h: MemHost,
    /// Next free page-table page in VRAM, by GPU.
    pub next_table: Vec<u64>,
    pub pb_at: u64,
    pub gp_put: u32,
}

pub fn quiet() -> GpuConfig {
    GpuConfig {
        vram_bytes: VRAM,
        realism: false,
        ..GpuConfig::default()
    }
}

impl Rig {
    pub fn new(gpus: usize) -> Rig {
        Rig::with(vec![quiet(); gpus], Profile::default())
    }

    pub fn with(configs: Vec<GpuConfig>, profile: Profile) -> Rig {
        let sizes: Vec<u64> = configs.iter().map(|c| c.vram_bytes).collect();
        let mut m = Machine::new(profile).unwrap();
        for c in configs {
            m.add_gpu(c).unwrap();
        }
        let n = sizes.len();
        Rig {
            m,
            h: MemHost::new(SYS, &sizes),
            next_table: vec![PDE3 + 0x1000; n],
            pb_at: PB,
            gp_put: 0,
        }
    }

    // Registers.

    pub fn r0(&mut self, gpu: usize, at: u32) -> u32 {
        self.m.mmio_read(gpu, 0, at.into(), 4, &mut self.h) as u32
    }
    pub fn w0(&mut self, gpu: usize, at: u32, v: u32) {
        self.m
            .mmio_write(gpu, 0, at.into(), v.into(), 4, &mut self.h);
    }
    pub fn r5(&mut self, gpu: usize, at: u32) -> u32 {
        self.m.mmio_read(gpu, 5, at.into(), 4, &mut self.h) as u32
    }
    pub fn w5(&mut self, gpu: usize, at: u32, v: u32) {
        self.m
            .mmio_write(gpu, 5, at.into(), v.into(), 4, &mut self.h);
    }
    pub fn stat(&mut self, gpu: usize, c: ext::stats::Counter) -> u64 {
        let at = ext::stats::COUNTER0 + 8 * c as u32;
        let lo = self.r5(gpu, at);
        u64::from(lo) | u64::from(self.r5(gpu, at + 4)) << 32
    }

    // Memory.

    pub fn sys(&mut self, at: u64, b: &[u8]) {
        self.h.sys.write(at, b).unwrap();
    }
    pub fn sys32(&mut self, at: u64, v: u32) {
        self.sys(at, &v.to_le_bytes());
    }
    pub fn sys64(&mut self, at: u64, v: u64) {
        self.sys(at, &v.to_le_bytes());
    }
    pub fn vram(&mut self, gpu: usize, at: u64, b: &[u8]) {
        self.h.vram[gpu].write(at, b).unwrap();
    }
    pub fn vram32(&mut self, gpu: usize, at: u64, v: u32) {
        self.vram(gpu, at, &v.to_le_bytes());
    }
    pub fn vram64(&mut self, gpu: usize, at: u64, v: u64) {
        self.vram(gpu, at, &v.to_le_bytes());
    }
    pub fn get_vram(&self, gpu: usize, at: u64, n: usize) -> Vec<u8> {
        let mut b = vec![0; n];
        self.h.vram[gpu].read(at, &mut b).unwrap();
        b
    }
    pub fn get_vram64(&self, gpu: usize, at: u64) -> u64 {
        u64::from_le_bytes(self.get_vram(gpu, at, 8).try_into().unwrap())
    }
    pub fn get_sys(&self, at: u64, n: usize) -> Vec<u8> {
        let mut b = vec![0; n];
        self.h.sys.read(at, &mut b).unwrap();
        b
    }

    // Time.

    /// Runs events until `done`, or until there is none left within `limit_ns` from now.
    pub fn run_until(&mut self, limit_ns: u64, mut done: impl FnMut(&mut Rig) -> bool) -> bool {
        let end = self.h.now + limit_ns;
        for _ in 0..1_000_000 {
            if done(self) {
                return true;
            }
            match self.m.next_deadline() {
                Some(t) if t <= end => {
                    self.h.now = self.h.now.max(t);
                    self.m.timer(&mut self.h);
                }
                _ => return done(self),
            }
        }
        panic!("the model does not come to rest");
    }

    /// Runs for this long.
    pub fn run(&mut self, ns: u64) {
        let end = self.h.now + ns;
        self.run_until(ns, |_| false);
        self.h.now = end;
    }

    // Page tables: 4 KiB and 2 MiB pages, tables in VRAM.

    fn table(&mut self, gpu: usize) -> u64 {
        let t = self.next_table[gpu];
        self.next_table[gpu] += 0x1000;
        t
    }

    /// Directory entry at `at`; makes the table if there is none.
    fn descend(&mut self, gpu: usize, at: u64, small: bool) -> u64 {
        let e = self.get_vram64(gpu, at);
        // PDE: aperture 2:1 = 1 (vidmem), address 32:8 = address >> 12; the small half of a dual
        // entry has the same fields in its own quadword.
        let _ = small;
        if e & 6 == 0 {
            let t = self.table(gpu);
            self.vram64(gpu, at, 2 | ((t >> 12) << 8));
            return t;
        }
        ((e >> 8) & 0x1ff_ffff) << 12
    }

    fn pde0(&mut self, gpu: usize, root: u64, va: u64) -> u64 {
        let t = self.descend(gpu, root + 8 * (va >> 47 & 3), false);
        let t = self.descend(gpu, t + 8 * (va >> 38 & 0x1ff), false);
        let t = self.descend(gpu, t + 8 * (va >> 29 & 0x1ff), false);
        t + 16 * (va >> 21 & 0xff)
    }

    /// Address of the 4 KiB PTE of `va`.
    pub fn pte_at(&mut self, gpu: usize, root: u64, va: u64) -> u64 {
        let pde0 = self.pde0(gpu, root, va);
        let t = self.descend(gpu, pde0 + 8, true);
        t + 8 * (va >> 12 & 0x1ff)
    }

    pub fn map4k(&mut self, gpu: usize, va: u64, pte: u64) {
        let at = self.pte_at(gpu, PDE3, va);
        self.vram64(gpu, at, pte);
    }

    pub fn map2m(&mut self, gpu: usize, va: u64, pte: u64) {
        let at = self.pde0(gpu, PDE3, va);
        self.vram64(gpu, at, pte);
    }

    // Instance block, channel 1 of runlist 0, rings.

    pub fn instance(&mut self, gpu: usize, replay: bool) {
        let lo = PDE3 as u32 | 3 << 10 | if replay { 1 << 4 } else { 0 };
        self.vram32(gpu, INST + 0x200, lo);
        self.vram32(gpu, INST + 0x204, 0);
    }

    /// Channel 1 on runlist `rl`, privileged; 1024 GPFIFO entries. The first 2 MiB of system memory are
    /// mapped at SYS_VA.
    pub fn channel(&mut self, gpu: usize, rl: u32) {
        self.instance(gpu, true);
        self.map2m(gpu, SYS_VA, pte_sys(0));
        self.channel_at(
            gpu,
            rl,
            1,
            INST,
            USERD,
            SYS_VA + GPFIFO,
            RUNLIST + u64::from(rl) * 0x1000,
        );
    }

    #[allow(clippy::too_many_arguments)]
    pub fn channel_at(
        &mut self,
        gpu: usize,
        rl: u32,
        chid: u32,
        inst: u64,
        userd: u64,
        gpfifo_va: u64,
        list: u64,
    ) {
        self.vram32(gpu, inst + 0x10, 0xface);
        self.vram32(gpu, inst + 0x48, gpfifo_va as u32);
        self.vram32(gpu, inst + 0x4c, (gpfifo_va >> 32) as u32 | 10 << 16);
        self.vram32(gpu, inst + 0xac, 1 << 17);
        self.vram32(gpu, inst + 0xe4, 1 << 5);
        self.vram32(gpu, inst + 0xf4, 1 << 8 | 1 << 12);
        // The method buffer is the page behind.
        self.vram32(gpu, inst + 0x220, inst as u32 + 0x1000);
        // TSG of one channel.
        self.vram32(gpu, list, 1 | 3 << 16 | 128 << 24);
        self.vram32(gpu, list + 4, 1);
        self.vram32(gpu, list + 8, 7);
        self.vram32(gpu, list + 16, 2 << 6 | userd as u32);
        self.vram32(gpu, list + 20, 0);
        self.vram32(gpu, list + 24, chid | inst as u32);
        self.vram32(gpu, list + 28, 0);
        let b = self.runlist(gpu, rl);
        self.w0(gpu, b + 0x300, 1 << 31);
        self.w0(gpu, b + 0x80, list as u32);
        self.w0(gpu, b + 0x84, 0);
        self.w0(gpu, b + 0x88, 2);
        let ram = self.chram(gpu, rl, chid);
        self.w0(gpu, ram, 2);
    }

    /// Runlist block `rl`, as PTOP tells.
    pub fn runlist(&mut self, gpu: usize, rl: u32) -> u32 {
        self.r0(gpu, 0x22800 + 12 * rl + 8) & 0x03ff_fc00
    }

    pub fn chram(&mut self, gpu: usize, rl: u32, chid: u32) -> u32 {
        let b = self.runlist(gpu, rl);
        (self.r0(gpu, b + 4) & 0xffff_fff0) + 4 * chid
    }

    pub fn doorbell(&mut self, gpu: usize, rl: u32, chid: u32) {
        let b = self.runlist(gpu, rl);
        let id = self.r0(gpu, b + 8) >> 16;
        self.w0(gpu, 0xbb_0090, id << 16 | chid);
    }

    /// Submits words on channel 1 of GPU 0's runlist 0.
    pub fn submit(&mut self, words: &[u32]) {
        self.submit_on(0, 0, 1, USERD, GPFIFO, words);
    }

    pub fn submit_on(
        &mut self,
        gpu: usize,
        rl: u32,
        chid: u32,
        userd: u64,
        gpfifo: u64,
        words: &[u32],
    ) {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let at = self.pb_at;
        self.pb_at += (bytes.len() as u64).div_ceil(16) * 16;
        assert!(self.pb_at < RING0);
        self.sys(at, &bytes);
        let va = SYS_VA + at;
        let put = self.h.sys_u32(userd + 0x8c);
        let entry = (va & 0xffff_fffc) | ((va >> 32) << 32) | ((words.len() as u64) << 42);
        self.sys64(gpfifo + 8 * u64::from(put), entry);
        self.sys32(userd + 0x8c, put + 1);
        self.doorbell(gpu, rl, chid);
    }

    /// Both fault rings: physical, in system memory, `entries` each.
    pub fn rings(&mut self, gpu: usize, entries: u32) {
        for (i, at) in [(0u32, RING0), (1, RING1)] {
            self.w0(gpu, bar0::FAULT_LO + 0x20 * i, at as u32 | 1 | 2 << 1);
            self.w0(gpu, bar0::FAULT_LO + 0x20 * i + 4, 0);
            self.w0(
                gpu,
                bar0::FAULT_LO + 0x20 * i + 0x10,
                entries | 1 << 31 | 1 << 29,
            );
        }
    }

    pub fn interrupts(&mut self, gpu: usize) {
        for i in 0..8 {
            self.w0(gpu, bar0::LEAF_EN_SET + 4 * i, u32::MAX);
        }
        self.w0(gpu, bar0::TOP_EN_SET, 0xf);
    }

    /// Takes all VALID packets of a ring as a driver does; `entries` is its size.
    pub fn drain(&mut self, gpu: usize, ring: u32, entries: u32) -> Vec<Packet> {
        let base = if ring == 0 { RING0 } else { RING1 };
        let regs = bar0::FAULT_LO + 0x20 * ring;
        let put = self.r0(gpu, regs + 0xc) & 0xf_ffff;
        let mut get = self.r0(gpu, regs + 8) & 0xf_ffff;
        let mut out = Vec::new();
        while get != put {
            let at = base + 32 * u64::from(get);
            if self.h.sys_u32(at + 28) >> 31 == 0 {
                break;
            }
            let dw: Vec<u32> = (0..8).map(|i| self.h.sys_u32(at + 4 * i)).collect();
            self.sys32(at + 28, 0);
            out.push(Packet::new(&dw));
            get = (get + 1) % entries;
        }
        self.w0(gpu, regs + 8, get);
        out
    }

    // Workload engine.

    /// Starts a launch in a slot: header fields, then instructions of 12 u64 as in the descriptor.
    pub fn launch(&mut self, gpu: usize, slot: u32, blocks: u32, elem: u32, instrs: &[Ins]) {
        self.launch_with(gpu, slot, blocks, elem, 0, instrs);
    }

    pub fn launch_with(
        &mut self,
        gpu: usize,
        slot: u32,
        blocks: u32,
        elem: u32,
        resident: u32,
        instrs: &[Ins],
    ) {
        let at = DESC + 0x1000 * u64::from(slot);
        let mut b = Vec::new();
        for v in [
            0x4b52_4f57,
            1,
            blocks,
            instrs.len() as u32,
            1,
            elem,
            resident,
            0,
        ] {
            b.extend_from_slice(&v.to_le_bytes());
        }
        b.resize(64, 0);
        for i in instrs {
            b.extend_from_slice(&i.op.to_le_bytes());
            b.extend_from_slice(&0u32.to_le_bytes());
            for v in [
                i.count, i.steps, i.dst, i.a, i.b, i.idx, i.bs, i.ss, i.es, i.imm0, i.imm1,
            ] {
                b.extend_from_slice(&v.to_le_bytes());
            }
        }
        self.sys(at, &b);
        let s = slot_at(slot);
        self.w5(gpu, s, at as u32);
        self.w5(gpu, s + 4, 0);
        self.w5(gpu, s + 8, INST as u32);
        self.w5(gpu, s + 12, 0);
        self.w5(gpu, s + 0x10, 0);
        self.w5(gpu, s + 0x14, 1);
    }

    pub fn slot(&mut self, gpu: usize, slot: u32, reg: u32) -> u32 {
        self.r5(gpu, slot_at(slot) + reg)
    }

    /// MMU_INVALIDATE of everything with a replay code.
    pub fn replay(&mut self, gpu: usize, code: u32) {
        self.w0(gpu, bar0::INVALIDATE, 1 << 31 | 3 | code << 3 | 1 << 7);
    }
}

pub fn slot_at(slot: u32) -> u32 {
    0x2_1000 + 0x80 * slot
}

/// An instruction of the workload engine.
#[derive(Clone, Copy, Default)]
pub struct Ins {
    pub op: u32,
    pub count: u64,
    pub steps: u64,
    pub dst: u64,
    pub a: u64,
    pub b: u64,
    pub idx: u64,
    pub bs: u64,
    pub ss: u64,
    pub es: u64,
    pub imm0: u64,
    pub imm1: u64,
}

/// A fault packet, by the table of hw-interface.md 1.2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub inst: u64,
    pub va: u64,
    pub time: u64,
    pub engine: u32,
    pub kind: u32,
    pub replayable: bool,
    pub client: u32,
    pub access: u32,
    pub hub: bool,
    pub gpc: u32,
}

impl Packet {
    fn new(dw: &[u32]) -> Packet {
        Packet {
            inst: u64::from(dw[0] & 0xffff_f000) | u64::from(dw[1]) << 32,
            va: u64::from(dw[2] & 0xffff_f000) | u64::from(dw[3]) << 32,
            time: u64::from(dw[4]) | u64::from(dw[5]) << 32,
            engine: dw[6] & 0x1ff,
            kind: dw[7] & 0x1f,
            replayable: dw[7] & 1 << 7 != 0,
            client: dw[7] >> 8 & 0x7f,
            access: dw[7] >> 16 & 0xf,
            hub: dw[7] & 1 << 20 != 0,
            gpc: dw[7] >> 24 & 0x1f,
        }
    }
}

// PTEs: VALID 0, aperture 2:1 (0 vid, 1 peer, 2 sys), VOL 3, READ_ONLY 6, ATOMIC_DISABLE 7, address from 8, kind 6 in 63:56.

pub fn pte_vid(addr: u64) -> u64 {
    1 | (addr >> 12) << 8 | 6 << 56
}
pub fn pte_sys(addr: u64) -> u64 {
    1 | 2 << 1 | 1 << 3 | (addr >> 12) << 8 | 6 << 56
}
pub fn pte_peer(id: u64, addr: u64) -> u64 {
    1 | 1 << 1 | 1 << 3 | (addr >> 12) << 8 | id << 33 | 6 << 56
}
pub const READ_ONLY: u64 = 1 << 6;
pub const ATOMIC_DISABLE: u64 = 1 << 7;

// Pushbuffer: INC_METHOD header on subchannel 0.

pub fn inc(method: u32, data: &[u32]) -> Vec<u32> {
    let mut v = vec![1 << 29 | (data.len() as u32) << 16 | method / 4];
    v.extend_from_slice(data);
    v
}

pub fn hi(v: u64) -> u32 {
    (v >> 32) as u32
}

/// CE: copy of `len` bytes, then LAUNCH_DMA with these bits (layouts are pitch).
pub fn copy(src: u64, dst: u64, len: u32, launch: u32) -> Vec<u32> {
    let mut v = inc(0x400, &[hi(src), src as u32, hi(dst), dst as u32]);
    v.extend(inc(0x418, &[len]));
    v.extend(inc(0x300, &[launch | 3 << 7]));
    v
}

/// CE: semaphore release by a launch without data; `timestamp` for four words.
pub fn ce_release(va: u64, payload: u32, timestamp: bool) -> Vec<u32> {
    let mut v = inc(0x240, &[hi(va), va as u32, payload]);
    v.extend(inc(0x300, &[1 << 2 | if timestamp { 2 } else { 1 } << 3]));
    v
}

/// Host: SEM_EXECUTE with these bits.
pub fn sem(va: u64, payload: u64, execute: u32) -> Vec<u32> {
    inc(
        0x5c,
        &[va as u32, hi(va), payload as u32, hi(payload), execute],
    )
}

/// Host: MEM_OP_A..D.
pub fn mem_op(a: u32, b: u32, c: u32, d: u32) -> Vec<u32> {
    inc(0x28, &[a, b, c, d])
}

pub const PIPELINED: u32 = 1;
pub const NON_PIPELINED: u32 = 2;
pub const PHYS: u32 = 3 << 12;
