// SPDX-License-Identifier: GPL-2.0
//! Pushbuffers and GPFIFO entries against the golden vectors of `tests/vectors`, word by word.

use super::*;
use crate::fake::{FakeMem, FakeRegs};
use crate::ga100::counter::Notice;
use crate::ids::*;
use crate::pagetable::{Invalidate, Level};
use crate::seam::{Bar, DmaMem};
use crate::vectors::{bits, code, num, reg, Cases};
use crate::Result;
use std::vec::Vec;

const LAYOUT: Layout = Layout {
    gpfifo_log2: 3,
    pushbuf_bytes: 8192,
};
/// The tracking semaphore lies 0x400 behind it, the GPFIFO 0x1000, the pushbuffer 0x2000.
const VA: u64 = 0x98_7654_3000;
const SEM: GpuVa = GpuVa(0x98_7654_3210);
const PAGE_DIR: SysAddr = SysAddr(0x1_2345_6000);

struct Bench {
    ch: Channel<FakeMem>,
    mem: FakeMem,
    regs: FakeRegs,
    va: u64,
}

impl Bench {
    fn at(va: u64) -> Bench {
        let mem = FakeMem::new(0x10_0000, LAYOUT.bytes());
        let va_ = GpuVa(va);
        let token = 0x5_0007;
        let ch = Channel::new(ChannelId(9), Chid(7), token, LAYOUT, mem.clone(), va_).unwrap();
        Bench {
            ch,
            mem,
            regs: FakeRegs::default(),
            va,
        }
    }

    /// The words of push `value`, through its GPFIFO entry.
    fn words(&self, value: u32) -> Vec<u32> {
        let [lo, hi] = self.entry(value);
        let f = |f| bits("host.gp_entry", f);
        let addr = u64::from(f("GET_HI").get(hi)) << 32 | u64::from(f("GET").get(lo)) << 2;
        let n = f("LENGTH").get(hi) as usize;
        let at = (addr - self.va) as usize;
        (0..n).map(|i| self.mem.read32(at + 4 * i)).collect()
    }

    fn entry(&self, value: u32) -> [u32; 2] {
        let at = 0x1000 + 8 * ((value - 1) % 8) as usize;
        [self.mem.read32(at), self.mem.read32(at + 4)]
    }

    fn push(
        &mut self,
        flags: SubmitFlags,
        f: impl FnOnce(&mut Push<'_, FakeMem>) -> Result<()>,
    ) -> Vec<u32> {
        let mut p = self.ch.begin(1000).unwrap();
        f(&mut p).unwrap();
        let value = p.submit(&self.regs, flags);
        // Done at once.
        self.mem.write32(0x400, value);
        self.words(value)
    }
}

/// What a push appends, without the bind before it and the release behind it.
fn commands(f: impl FnOnce(&mut Push<'_, FakeMem>) -> Result<()>) -> Vec<u32> {
    let mut b = Bench::at(VA);
    let mut words = b.push(SubmitFlags::default(), f);
    // Two words of bind, six of release: compared in `pushes`.
    words.truncate(words.len() - 6);
    words.split_off(2)
}

/// The header of four MEM_OP methods.
fn mem_op(words: [u32; 4]) -> Vec<u32> {
    let f = |f| bits("host.header", f);
    let first = num("host_method", "MEM_OP_A");
    assert_eq!(num("host_method", "MEM_OP_D"), first + 12);
    let mut out = vec![
        f("SEC_OP").of(code("SecOp", "IncMethod")) | f("COUNT").of(4) | f("ADDRESS").of(first / 4),
    ];
    out.extend(words);
    out
}

#[test]
fn pushes() {
    let v = Cases::of(&["push"]);
    let w = |case| v.words("push", case);
    let sys = |a| Loc::Sys(SysAddr(a));
    let vid = |a| Loc::Vid(VidAddr(a));
    let peer = |id, a| Loc::Peer {
        id,
        addr: VidAddr(a),
    };
    let (s, d) = (0x1234_5678_9000, 0x1f_edc0_0000);
    let after = CopyFlags { pipelined: false };
    let beside = CopyFlags { pipelined: true };
    let got = commands(|p| p.acquire(SEM, 0x89ab_cdef));
    assert_eq!(got, w("acquire"));
    let got = commands(|p| p.copy(sys(s), vid(d), 2 << 20, after));
    assert_eq!(got, w("copy_sys_to_vid"));
    let got = commands(|p| p.copy(peer(5, d), sys(s), 4096, beside));
    assert_eq!(got, w("copy_peer_to_sys"));
    let (from, to) = (GpuVa(0x1_fedc_ba98_7000), GpuVa(0x7f12_3456_7000));
    let got = commands(|p| p.copy_virtual(from, to, 64 << 10, after));
    assert_eq!(got, w("copy_virtual"));
    for (case, fill) in [
        ("fill_1", Fill::U8(0x5a)),
        ("fill_4", Fill::U32(0x89ab_cdef)),
        ("fill_8", Fill::U64(0x0123_4567_89ab_cdef)),
    ] {
        assert_eq!(
            commands(|p| p.fill(vid(d), fill, 4096, after)),
            w(case),
            "{case}"
        );
    }
    let wait = w("wait_idle");
    assert_eq!(commands(|p| p.wait_idle()), wait);
    let got = commands(|p| p.timestamp(SEM, 0x89ab_cdef));
    assert_eq!(got, w("timestamp"));

    // A whole push: bind, command, release, interrupt.
    let (bind, intr) = (w("bind"), w("non_stall_interrupt"));
    let (flushed, plain) = (w("release"), w("release_no_flush"));
    for interrupt in [None, Some(Interrupt::Host), Some(Interrupt::Engine)] {
        for no_flush in [false, true] {
            let flags = SubmitFlags {
                interrupt,
                no_flush,
            };
            let got = Bench::at(VA).push(flags, |p| p.wait_idle());
            let mut want = [&bind[..], &wait].concat();
            want.extend(if no_flush { &plain } else { &flushed });
            match interrupt {
                None => (),
                Some(Interrupt::Host) => want.extend([&wait[..], &intr].concat()),
                // INTERRUPT_TYPE of the launch is non-blocking (hw-interface.md 5.3).
                Some(Interrupt::Engine) => *want.last_mut().unwrap() |= 2 << 5,
            }
            assert_eq!(got, want, "{flags:?}");
        }
    }
}

#[test]
fn mem_ops() {
    let v = Cases::of(&["memop"]);
    let mut wait = Vec::new();
    let pushes = Cases::of(&["push"]);
    wait.extend(pushes.words("push", "wait_idle"));
    let other = [
        "bind",
        "acquire",
        "copy_sys_to_vid",
        "copy_peer_to_sys",
        "copy_virtual",
        "fill_1",
        "fill_4",
        "fill_8",
        "release",
        "release_no_flush",
        "timestamp",
        "non_stall_interrupt",
    ];
    pushes.skip("push", &other);
    let check = |case, got: Vec<u32>| {
        assert_eq!(got, mem_op(v.take("memop", case)), "{case}");
    };
    let inv = |va, log2_pages, level, downgrade| Invalidate {
        va: GpuVa(va),
        log2_pages,
        level,
        downgrade,
    };
    for (case, i) in [
        (
            "invalidate_range",
            inv(0x7f12_3440_0000, 9, Level::Pde0, false),
        ),
        (
            "invalidate_range_membar",
            inv(0x7f12_3456_0000, 4, Level::Pte, true),
        ),
        ("invalidate_pde1", inv(0, 37, Level::Pde1, false)),
        ("invalidate_pde2", inv(0, 37, Level::Pde2, false)),
        ("invalidate_pde3", inv(0, 37, Level::Pde3, false)),
    ] {
        check(case, commands(|p| p.invalidate(PAGE_DIR, &i)));
    }
    check(
        "invalidate_all_membar",
        commands(|p| p.invalidate_all(PAGE_DIR)),
    );
    check("replay_start", commands(|p| p.replay(ReplayKind::Start)));
    check(
        "replay_start_ack_all",
        commands(|p| p.replay(ReplayKind::StartAckAll)),
    );
    let va = GpuVa(0x7f12_3456_7000);
    check(
        "cancel_va_all",
        commands(|p| p.cancel_va(PAGE_DIR, Veid(5), va, CancelAccess::All)),
    );
    check(
        "cancel_va_write",
        commands(|p| p.cancel_va(PAGE_DIR, Veid(63), va, CancelAccess::WriteAndAtomic)),
    );
    for (case, bar) in [
        ("membar_gpu", MemBar::Gpu),
        ("membar_system", MemBar::System),
    ] {
        let mut want = wait.clone();
        want.extend(mem_op(v.take("memop", case)));
        assert_eq!(commands(|p| p.membar(bar)), want, "{case}");
    }
    check("clear_mimc", commands(|p| p.clear_counters()));
    let momc = Notice {
        outbound: false,
        bank: 5,
        tag: 0x1_2345,
        ..Notice::default()
    };
    check("clear_one", commands(|p| p.clear_counter(&momc)));
    let mimc = Notice {
        outbound: true,
        bank: 15,
        tag: 0x5_4321,
        ..Notice::default()
    };
    check("clear_mimc_one", commands(|p| p.clear_counter(&mimc)));
    // Page directories are in coherent memory, every invalidate is acknowledged, cancels are by address; there are no
    // clears of inbound counters, and no cache maintenance by hand.
    let never = [
        "invalidate_pdb",
        "invalidate_2m",
        "replay_dummy",
        "cancel_va",
        "cancel_targeted",
        "invalidate_hub",
        "invalidate_pdb_high",
        "cancel_global",
        "clear_momc",
        "clear_all",
        "l2_sysmem",
        "l2_peermem",
        "l2_clean_comptags",
        "l2_flush_dirty",
        "l2_wait_reads",
    ];
    v.skip("memop", &never);
}

/// A push of exactly the length and at exactly the address of the case.
#[test]
fn gpfifo_entries() {
    let v = Cases::of(&["host.gp_entry"]);
    // One level, no control entries, nothing to synchronise.
    v.skip(
        "host.gp_entry",
        &["segment", "nop", "subroutine", "illegal"],
    );
    let mut b = Bench::at(0x12_3456_5000);
    // 0x89c bytes of pushbuffer: bind 2, membar 7, release 6, the rest in pairs.
    let first = b.push(SubmitFlags::default(), |p| {
        p.membar(MemBar::Gpu)?;
        (0..268).try_for_each(|_| p.wait_idle())
    });
    assert_eq!(first.len() * 4, 0x89c);
    b.regs.writes.borrow_mut().clear();
    b.push(SubmitFlags::default(), |p| {
        (0..47).try_for_each(|_| p.wait_idle())
    });
    assert_eq!(b.entry(2), v.take::<2>("host.gp_entry", "driver_segment"));
    let put = b.mem.read32(num("userd", "GP_PUT") as usize);
    assert_eq!(put, 2);
    let doorbell = (Bar::Regs, reg("vf", "usermode_doorbell"), 0x5_0007);
    assert_eq!(*b.regs.writes.borrow(), [doorbell]);
}
