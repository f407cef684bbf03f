// SPDX-License-Identifier: GPL-2.0
//! A device that answers anything: random registers, random memory. No duty may panic, and none may go on without bound.

use crate::channel::*;
use crate::ext::{announce, discover, ecc, program, stats, throttle, time, topology};
use crate::fake::FakeMem;
use crate::ga100::counter::{CounterRing, Notice};
use crate::ga100::fault::{Fault, FaultRing, RingKind};
use crate::ga100::{bringup, fault, invalidate, irq, runlist};
use crate::ids::*;
use crate::pagetable::{Block, MapFlags, Prot};
use crate::seam::{Bar, DmaMem, Fence, Mmio};
use huvm_hw::ext::desc::{Op, MAX_INSTR};
use std::cell::Cell;

/// Answers each read with a random word, often a likely one.
pub(crate) struct Chaos {
    /// What it says first, four bytes a time.
    tape: Vec<u8>,
    at: Cell<usize>,
    seed: Cell<u64>,
    reads: Cell<u64>,
}

impl Chaos {
    /// A device that says `tape`, and then what comes of `seed`.
    pub(crate) fn new(tape: &[u8], seed: u64) -> Self {
        Chaos {
            tape: tape.to_vec(),
            at: Cell::new(0),
            seed: Cell::new(seed),
            reads: Cell::new(0),
        }
    }

    fn next(&self) -> u64 {
        let at = self.at.get();
        if let Some(b) = self.tape.get(at..at + 4) {
            self.at.set(at + 4);
            // Bits far apart decide what kind of word it is, and which.
            let v = u64::from(u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            return v | v << 32;
        }
        self.at.set(self.tape.len());
        let mut s = self.seed.get();
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        self.seed.set(s);
        s >> 3
    }
    fn word(&self) -> u32 {
        let r = self.next();
        let v = (r >> 8) as u32;
        match r % 8 {
            0 => 0,
            1 => u32::MAX - 1,
            2 => 1 << (v % 32),
            3 => v & 0xff,
            4 => [0x1700_00a1, 0x1700_a100, 0x4855, 0x0001_0001, 0x3f][v as usize % 5],
            5 if r >> 40 & 31 == 0 => u32::MAX,
            _ => v,
        }
    }
    /// A wait of at most 50 looks.
    fn wait(&self) -> impl FnMut() -> bool {
        let mut left = 50;
        move || {
            left -= 1;
            left > 0
        }
    }
}

impl Fence for Chaos {
    fn wmb(&self) {}
    fn rmb(&self) {}
}

impl Mmio for Chaos {
    fn read32(&self, bar: Bar, off: u32) -> u32 {
        self.reads.set(self.reads.get() + 1);
        // Let bring-up and discovery get past their first look most times.
        if self.next() % 16 != 0 {
            let v = self.next() as u32;
            match (bar, off) {
                (Bar::Regs, 0xa00) => return 0x170 << 20,
                (Bar::Regs, 0x2_24fc) => return (v % 9) << 20 | 0x3_0002,
                (Bar::Regs, 0x10_0ee0..=0x10_0ee8) => return v & 0x00ff_00ff,
                (Bar::Ext, o) if o % 0x1_0000 == 0 => return (o >> 16 << 16) + 0x1_0001,
                (Bar::Ext, 0x08) => return v % 4,
                (Bar::Ext, 0x0c) => return 4 + v % 12,
                (Bar::Ext, 0x10 | 0x1_0004) => return v % 20,
                (Bar::Ext, 0x2_0004 | 0x2_000c) => return 1 + v % 64,
                _ => {}
            }
        }
        self.word()
    }
    fn write32(&self, _: Bar, _: u32, _: u32) {}
}

impl Chaos {
    /// Fills a buffer with what a broken device might write.
    fn scramble(&self, m: &FakeMem) {
        for w in m.words.borrow_mut().iter_mut() {
            *w = self.word();
        }
        m.journal.borrow_mut().clear();
    }
}

/// What got somewhere.
#[derive(Default, Debug)]
pub(crate) struct Reached {
    identified: u32,
    discovered: u32,
    drained: usize,
    built: u32,
}

#[test]
fn a_device_that_lies_breaks_nothing() {
    let c = Chaos::new(&[], 0x1234_5678_9abc_def1);
    let mut reached = Reached::default();
    for n in 0..3000u32 {
        round(&c, n, &mut reached);
    }
    assert!(
        reached.identified > 10
            && reached.discovered > 10
            && reached.drained > 1000
            && reached.built > 10,
        "{reached:?}"
    );
    assert!(c.reads.get() < 50_000_000);
}

/// Every duty once; those that take long in each sixteenth round.
#[cfg(test)]
fn round(c: &Chaos, n: u32, reached: &mut Reached) {
    registers(c, reached);
    rings(c, reached);
    descriptor(c);
    instructions(c, reached);
    if n % 16 == 0 {
        counters(c);
        channel(c);
        tables(c);
    }
}

/// What is read from registers alone: identity, extension, links, interrupts, runlist, failed memory, faults of no ring.
pub(crate) fn registers(c: &Chaos, reached: &mut Reached) {
    reached.identified += u32::from(bringup::identify(c).is_ok());
    let _ = bringup::ptimer_ns(c);
    reached.discovered += u32::from(matches!(discover::discover(c), Ok(Some(_))));
    let _ = announce::announced(|_| c.word());
    let _ = (stats::all(c), time::now_ns(c), throttle::active_limit(c));
    for i in 0..4 {
        let _ = topology::link(c, i);
        assert!(irq::pending(c, i as u8).count() <= 64);
    }
    let list = runlist::Runlist {
        base: c.word(),
        chram: c.word(),
        channels: 1 << (c.word() % 13),
        doorbell_id: c.word() as u16,
    };
    let mem = FakeMem::new(0x1_0000, 4096);
    let entry = runlist::Entry {
        chid: Chid(c.word() as u16),
        instance: SysAddr(c.next()),
        userd: SysAddr(c.next()),
    };
    let _ = list.submit(c, &mem, &[entry], &mut c.wait());
    let _ = (list.init(c, &mut c.wait()), list.preempt(c, &mut c.wait()));
    let _ = (list.state(c, entry.chid), list.clear_faulted(c, entry.chid));
    let _ = list.engine_faulted(c, entry.chid, &mut c.wait());
    let engine = bringup::CopyEngine {
        number: c.word() as u8,
        fault_id: c.word() as u16,
        runlist: list,
    };
    let _ = bringup::ready_copy_engine(c, &engine);
    let _ = (
        bringup::take_refusal(c, &engine),
        bringup::refusal_vector(c, &engine),
    );
    let _ = invalidate::replay(c, ReplayKind::Start, &mut c.wait());
    let _ = (ecc::take_report(c), ecc::look(c));
    let (engine, chid) = (c.word() as u16, Chid(c.word() as u16));
    if let Ok(Some(at)) = ecc::stands(c, engine, chid) {
        assert!(at.gpu < 16 && at.page < 1 << 27);
        ecc::leave_out(c, engine, chid, at);
    }
    if let Ok(Some(info)) = fault::take_info(c) {
        assert!(info.fault.is_some() || info.dropped != 0);
    }
}

/// Fault rings full of anything.
pub(crate) fn rings(c: &Chaos, reached: &mut Reached) {
    let mem = FakeMem::new(0x1_0000, 4096);
    for kind in [RingKind::Replayable, RingKind::NonReplayable] {
        let mut ring = FaultRing::new(kind, mem.clone()).unwrap();
        let _ = FaultRing::<FakeMem>::default_entries(c, kind);
        let _ = ring.enable(c);
        let mut out = [Fault::default(); 64];
        for _ in 0..4 {
            c.scramble(&mem);
            reached.drained += ring.drain(c, &mut out, &mut c.wait()).unwrap_or(0);
            let _ = (ring.overflowed(c), ring.recover(c));
        }
        let _ = ring.flush(c, &mut c.wait());
        let _ = ring.skip(c);
        let _ = ring.disable(c, &mut c.wait());
    }
}

/// The ring of access counters.
pub(crate) fn counters(c: &Chaos) {
    let big = FakeMem::new(0x1_0000, 4096 * 32);
    if let Ok(mut ring) = CounterRing::new(c, big.clone()) {
        let mut out = [Notice::default(); 16];
        let _ = ring.enable(c, 1);
        c.scramble(&big);
        let _ = ring.drain(c, &mut out);
        let _ = ring.disable(c, &mut c.wait());
    }
}

/// A launch descriptor that somebody wrote over.
pub(crate) fn descriptor(c: &Chaos) {
    let mem = FakeMem::new(0x1_0000, 4096);
    c.scramble(&mem);
    mem.write32(0, 0x4b52_4f57);
    mem.write32(4, 1);
    let _ = program::check(&mem);
}

/// A program that a user wrote: what is built of it is what the check of a descriptor lets through.
pub(crate) fn instructions(c: &Chaos, reached: &mut Reached) {
    let mem = FakeMem::new(0x1_0000, 4096);
    // Most are as they should be, so that all of a program is looked at.
    let number = |most: u64| match c.word() % 64 {
        0 => c.next(),
        1 => 0,
        2 => most,
        3 => most + 1,
        _ => 1 + c.next() % most,
    };
    let header = program::Header {
        blocks: number(1 << 20) as u32,
        iterations: number(1 << 20) as u32,
        elem_bytes: (number(2) as u32).wrapping_mul(4),
        max_resident: c.word(),
    };
    let mut list = Vec::new();
    for _ in 0..c.word() as usize % (MAX_INSTR + 2) {
        let op = Op::from_raw(c.word() % 16).unwrap_or(Op::Fill);
        list.push(program::Instr {
            dst: GpuVa(number(1 << 47) & !7),
            a: GpuVa(number(1 << 47) & !7),
            b: GpuVa(number(1 << 47) & !7),
            idx: GpuVa(number(1 << 47) & !7),
            block_stride_bytes: number(1 << 20) & !7,
            step_stride_bytes: number(1 << 20) & !7,
            elem_stride_bytes: number(1 << 9) & !7,
            imm0: c.next(),
            imm1: c.next(),
            ..program::Instr::new(op, number(1 << 16), number(1 << 10))
        });
    }
    let built = program::build(&mem, &header, &list);
    // What is said before there is a descriptor is what is said of that.
    assert_eq!(program::verify(&header, &list), built.map(drop));
    if let Ok(p) = built {
        reached.built += 1;
        assert_eq!((p.blocks, p.ninstr as usize), (header.blocks, list.len()));
        assert!(p.bytes <= mem.len());
        assert_eq!(program::check(&mem), Ok(p));
    }
}

/// Semaphore and GPFIFO scribbled over between pushes.
pub(crate) fn channel(c: &Chaos) {
    let layout = Layout {
        gpfifo_log2: 1 + (c.word() % 9) as u8,
        pushbuf_bytes: 8192,
    };
    let mem = FakeMem::new(0x10_0000, layout.bytes());
    let mut ch = Channel::new(ChannelId(0), Chid(0), 0, layout, mem.clone(), GpuVa(0)).unwrap();
    for _ in 0..40 {
        match c.word() % 4 {
            0 => c.scramble(&mem),
            1 => mem.write32(0x400, ch.submitted().wrapping_sub(c.word() % 8)),
            _ => {}
        }
        let Ok(mut p) = ch.begin(1 + c.word() % 300) else {
            continue;
        };
        while p
            .copy(
                Loc::Vid(VidAddr(c.next() % (1 << 50))),
                Loc::Sys(SysAddr(0)),
                c.next(),
                CopyFlags { pipelined: true },
            )
            .is_err()
            && p.replay(ReplayKind::Start).is_ok()
        {}
        p.submit(c, SubmitFlags::default());
    }
}

/// Page tables that somebody writes over: wrong mappings are the device's own loss, a panic would be ours.
pub(crate) fn tables(c: &Chaos) {
    let (pde0, small, big) = (
        FakeMem::new(0x1000, 4096),
        FakeMem::new(0x2000, 4096),
        FakeMem::new(0x3000, 256),
    );
    let mut b = Block::new(GpuVa(0)).unwrap();
    b.supply_small(small.clone()).unwrap();
    b.supply_big(big.clone()).unwrap();
    let flags = MapFlags {
        prot: Prot::ReadWrite,
        cached: true,
    };
    for _ in 0..20 {
        for m in [&pde0, &small, &big] {
            if c.word() % 3 == 0 {
                c.scramble(m);
            }
        }
        let mask = PageMask([0; 8].map(|_| c.next()));
        let at = c.next() % (1 << 38);
        let target = |i: u16| Loc::Vid(VidAddr((at & !0xfff) + u64::from(i) * 4096));
        let _ = b.map(c, &pde0, &mask, flags, &target);
        let _ = b.revoke_write(c, &pde0, &PageMask([0; 8].map(|_| c.next())));
        let _ = b.unmap(c, &pde0, &PageMask([0; 8].map(|_| c.next())));
    }
}
