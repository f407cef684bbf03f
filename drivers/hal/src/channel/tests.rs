// SPDX-License-Identifier: GPL-2.0
//! Pushes and rings over plain memory. That the GPU understands them is for tests/loopback.

use super::tracker::{is_complete, is_possible};
use super::*;
use crate::fake::{FakeMem, FakeRegs};
use crate::ids::*;
use crate::pagetable::{Invalidate, Level};
use crate::seam::{Bar, DmaMem};
use crate::Error;
use std::vec::Vec;

const LAYOUT: Layout = Layout {
    gpfifo_log2: 3,
    pushbuf_bytes: 4096,
};
const VA: u64 = 0x2_0040_0000;
const PIPELINED: CopyFlags = CopyFlags { pipelined: true };

fn channel() -> (Channel<FakeMem>, FakeMem, FakeRegs) {
    let mem = FakeMem::new(0x7000, LAYOUT.bytes());
    let ch = Channel::new(
        ChannelId(9),
        Chid(5),
        0x30005,
        LAYOUT,
        mem.clone(),
        GpuVa(VA),
    )
    .unwrap();
    (ch, mem, FakeRegs::default())
}

/// (method, data) pairs of push `value`, by the rules of hw-interface 6.1 and 6.2.
fn decode(mem: &FakeMem, value: u32) -> Vec<(u32, u32)> {
    let e = mem.read64(0x1000 + 8 * ((value - 1) % 8) as usize);
    assert_eq!(e & 3, 0, "unconditional fetch");
    let addr = e & 0xff_ffff_fffc;
    let len = (e >> 42 & 0x1f_ffff) as usize;
    assert!(len > 0 && addr >= VA + 0x2000 && addr + 4 * len as u64 <= VA + LAYOUT.bytes() as u64);
    let at = (addr - VA) as usize;
    let mut words = (0..len).map(|i| mem.read32(at + 4 * i));
    let mut out = Vec::new();
    while let Some(h) = words.next() {
        assert_eq!(h >> 29, 1, "INC_METHOD");
        assert_eq!(h >> 13 & 7, 0, "subchannel");
        for i in 0..h >> 16 & 0x1fff {
            out.push(((h & 0xfff) * 4 + 4 * i, words.next().expect("data word")));
        }
    }
    out
}

#[test]
fn first_push_binds_copies_releases_and_rings() {
    let (mut ch, mem, regs) = channel();
    let mut p = ch.begin(64).unwrap();
    let src = Loc::Sys(SysAddr(0x12_3456_7000));
    let dst = Loc::Peer {
        id: 3,
        addr: VidAddr(0x1_0020_0000),
    };
    p.copy(src, dst, 0x20_0000, PIPELINED).unwrap();
    p.copy(src, dst, 0x1000, CopyFlags { pipelined: false })
        .unwrap();
    assert_eq!(
        p.submit(
            &regs,
            SubmitFlags {
                interrupt: Some(Interrupt::Host),
                no_flush: false
            }
        ),
        1
    );
    let offsets = [
        (0x400, 0x12),
        (0x404, 0x3456_7000),
        (0x408, 1),
        (0x40c, 0x0020_0000),
    ];
    let mut want = vec![(0, 0xc6b5), (0x260, 1), (0x264, 3 | 3 << 6)];
    want.extend(offsets);
    want.extend([(0x418, 0x20_0000), (0x300, 0x3181)]);
    want.extend(offsets);
    want.extend([(0x418, 0x1000), (0x300, 0x3182)]);
    want.extend([(0x240, 2), (0x244, 0x0040_0400), (0x248, 1), (0x300, 0xc)]);
    want.extend([(0x78, 0), (0x20, 0)]);
    assert_eq!(decode(&mem, 1), want);
    assert_eq!(mem.read32(0x8c), 1, "GP_PUT");
    assert_eq!(
        regs.writes.borrow().last(),
        Some(&(Bar::Regs, 0xbb_0090, 0x30005))
    );
    assert!(!ch.is_idle());
    mem.write32(0x400, 1);
    assert!(ch.is_idle());

    let mut p = ch.begin(64).unwrap();
    p.fill(
        Loc::Vid(VidAddr(0x1000)),
        Fill::U64(0x1_0000_0002),
        0x800,
        PIPELINED,
    )
    .unwrap();
    p.submit(&regs, SubmitFlags::default());
    let d = decode(&mem, 2);
    assert_eq!(
        d[2..5],
        [
            (0x700, 2),
            (0x704, 1),
            (0x708, 4 | 5 << 4 | 6 << 8 | 6 << 12 | 3 << 16 | 1 << 24)
        ]
    );
    assert_eq!(
        d[5..9],
        [(0x408, 0), (0x40c, 0x1000), (0x418, 0x100), (0x300, 0x2581)]
    );
}

#[test]
fn host_methods() {
    let (mut ch, mem, regs) = channel();
    let mut p = ch.begin(100).unwrap();
    p.acquire(GpuVa(0x40_0000_0404), 77).unwrap();
    let inv = Invalidate::cover(
        GpuVa(0x1_2345_6000),
        GpuVa(0x1_2345_6fff),
        Level::Pde0,
        true,
    );
    p.invalidate(SysAddr(0x2_0000_3000), &inv).unwrap();
    p.replay(ReplayKind::StartAckAll).unwrap();
    p.cancel_va(
        SysAddr(0x3000),
        Veid(2),
        GpuVa(0x5_6000),
        CancelAccess::WriteAndAtomic,
    )
    .unwrap();
    p.submit(&regs, SubmitFlags::default());
    let d = decode(&mem, 1);
    assert_eq!(
        d[1..6],
        [
            (0x5c, 0x404),
            (0x60, 0x40),
            (0x64, 77),
            (0x68, 0),
            (0x6c, 3 | 1 << 12)
        ]
    );
    let mem_op = |i: usize| [d[i].1, d[i + 1].1, d[i + 2].1, d[i + 3].1];
    assert_eq!(d[6].0, 0x28);
    assert_eq!(
        mem_op(6),
        [
            0x2345_6000 | 1 << 11,
            1,
            1 << 5 | 2 << 7 | 2 << 10 | 0x3000,
            2 | 0xa << 27
        ]
    );
    assert_eq!(mem_op(10), [0, 0, 2 << 2 | 1 << 5 | 1 << 7, 0xa << 27]);
    assert_eq!(
        mem_op(14),
        [
            66 | 0x5_6000,
            0,
            5 << 2 | 1 << 5 | 6 << 7 | 2 << 10 | 0x3000,
            0xa << 27
        ]
    );
}

#[test]
fn illegal_values_append_nothing() {
    let (mut ch, _, _) = channel();
    let mut p = ch.begin(9).unwrap();
    let v = |a| Loc::Vid(VidAddr(a));
    assert_eq!(
        p.copy(v(0), v(0), 0, PIPELINED),
        Err(Error::OutOfRange("bytes", 0))
    );
    assert_eq!(
        p.copy(v(u64::MAX), v(0), 1, PIPELINED),
        Err(Error::BadAddress(u64::MAX))
    );
    let peer = Loc::Peer {
        id: 8,
        addr: VidAddr(0),
    };
    assert_eq!(
        p.copy(peer, v(0), 1, PIPELINED),
        Err(Error::OutOfRange("peer id", 8))
    );
    assert_eq!(
        p.fill(v(2), Fill::U32(0), 4, PIPELINED),
        Err(Error::BadAddress(2))
    );
    assert_eq!(
        p.fill(v(0), Fill::U64(0), 12, PIPELINED),
        Err(Error::OutOfRange("fill bytes", 12))
    );
    assert_eq!(
        p.acquire(GpuVa(1 << 40), 0),
        Err(Error::BadAddress(1 << 40))
    );
    assert_eq!(p.timestamp(GpuVa(8), 0), Err(Error::BadAddress(8)));
    assert_eq!(p.room(), 9);
    assert_eq!(
        p.copy(v(0), v(0), 1, PIPELINED),
        Err(Error::Busy(12)),
        "three more for the modes"
    );
    assert_eq!(p.room(), 9);
}

#[test]
fn a_long_copy_is_split() {
    let (mut ch, mem, regs) = channel();
    let mut p = ch.begin(64).unwrap();
    p.copy(
        Loc::Vid(VidAddr(0)),
        Loc::Vid(VidAddr(1 << 36)),
        10 << 30,
        PIPELINED,
    )
    .unwrap();
    p.submit(&regs, SubmitFlags::default());
    let lens: Vec<u64> = decode(&mem, 1)
        .iter()
        .filter(|(m, _)| *m == 0x418)
        .map(|(_, l)| u64::from(*l))
        .collect();
    assert_eq!((lens.len(), lens.iter().sum::<u64>()), (3, 10 << 30));
}

/// The pushbuffer is a ring: pieces in use are never handed out again, and all room comes back.
#[test]
fn pushes_never_overlap_and_never_starve() {
    let (ch, mem, regs) = channel();
    let mut ch = ch.counting_from(u32::MAX - 50);
    assert_eq!(
        ch.submitted(),
        0u32.wrapping_sub(56),
        "the ring's first entry is the first push's"
    );
    let mut seed = 1u64;
    let mut rnd = move |n: u64| {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (seed >> 33) % n
    };
    // In flight: value, first dword, end.
    let mut live: Vec<(u32, u32, u32)> = Vec::new();
    let (mut busy, mut wraps) = (0, 0);
    for _ in 0..4000 {
        let dwords = 1 + rnd(400) as u32;
        match ch.begin(dwords) {
            Ok(mut p) => {
                while p.room() >= 5 && rnd(60) != 0 {
                    p.replay(ReplayKind::Start).unwrap();
                }
                let value = p.submit(&regs, SubmitFlags::default());
                let index = value.wrapping_sub(1) % 8;
                let e = mem.read64(0x1000 + 8 * index as usize);
                let first = ((e & 0xff_ffff_fffc) - VA - 0x2000) as u32 / 4;
                let end = first + (e >> 42) as u32;
                assert!(end <= 1024);
                for (v, f, e) in &live {
                    assert!(end <= *f || first >= *e, "{value} overlaps {v}");
                }
                wraps += u32::from(first == 0);
                live.push((value, first, end));
                assert!(live.len() < 8);
            }
            Err(Error::Busy(_)) => {
                busy += 1;
                let (value, ..) = live.remove(0);
                mem.write32(0x400, value);
            }
            Err(e) => panic!("{e:?}"),
        }
    }
    assert!(busy > 100 && wraps > 100);
}

#[test]
fn a_semaphore_out_of_range_is_an_error() {
    let (mut ch, mem, regs) = channel();
    ch.begin(4).unwrap().submit(&regs, SubmitFlags::default());
    mem.write32(0x400, 2);
    assert_eq!(
        ch.begin(4).unwrap_err(),
        Error::BadDevice("tracking semaphore", 2)
    );
    mem.write32(0x400, 1);
    assert!(ch.begin(2000).is_err() && ch.begin(0).is_err() && ch.begin(u32::MAX).is_err());
    ch.begin(4).unwrap().submit(&regs, SubmitFlags::default());
    ch.abandon();
    assert!(ch.is_idle());
}

#[test]
fn trackers() {
    assert!(
        is_possible(5, 5, 8) && is_possible(0xffff_fffe, 5, 8) && !is_possible(0xffff_fffd, 5, 8)
    );
    assert!(!is_possible(6, 5, 8) && !is_possible(5 + 0x40, 5, 8));
    assert!(is_complete(5, 5) && is_complete(6, 5) && !is_complete(4, 5));
    assert!(is_complete(3, u32::MAX - 3) && !is_complete(u32::MAX - 3, 3));
    let mut t = Tracker::EMPTY;
    // Days may lie between two pushes.
    let long = 1u64 << 40;
    for c in 1..=TRACKER_SLOTS as u16 {
        assert_eq!(t.add(PushId::new(ChannelId(c), long)), None);
        assert_eq!(t.add(PushId::new(ChannelId(c), 9)), None, "older value");
        assert_eq!(t.add(PushId::new(ChannelId(c), long + 1)), None);
    }
    assert!(t.iter().all(|(_, v)| v == long + 1) && t.iter().count() == TRACKER_SLOTS);
    let extra = PushId::new(ChannelId(u16::MAX), (1 << 48) - 1);
    assert_eq!(t.add(extra), Some(extra));
    let mut o = Tracker::EMPTY;
    o.add(extra);
    o.add(PushId::new(ChannelId(1), long + 2));
    let rest = t.merge(&o);
    assert_eq!(rest.pushes().collect::<Vec<_>>(), [extra]);
    assert_eq!(
        (extra.channel().0, extra.number()),
        (u16::MAX, (1 << 48) - 1)
    );
    assert!(!t.prune(|_, number| number <= long + 1));
    assert_eq!(t.iter().collect::<Vec<_>>(), [(ChannelId(1), long + 2)]);
    assert!(t.prune(|c, _| c == ChannelId(1)) && t.is_empty());
    let push = PushId::new(ChannelId(7), 5);
    assert_eq!(PushId::of_word(push.word()), Some(push));
    assert_eq!(PushId::of_word(0), None);
}
