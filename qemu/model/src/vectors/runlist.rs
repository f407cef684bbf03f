// SPDX-License-Identifier: GPL-2.0
//! Runlists, channel RAM, doorbell.

use super::engine::launch;
use super::host::{channel, map_semaphore, rig, CHID, DATA, GPFIFO, SEM, USERD};
use super::reader::{bits, code, num, reg, reg_bits, Cases};
use super::Bench;
use crate::host::Place;

/// Registers of runlist `i`, as PTOP says.
fn block(b: &mut Bench, i: u32) -> u32 {
    let row = b.r(num("bar0", "DEVICE_INFO2") + 4 * (3 * i + 2));
    row & bits("device_info", "ROW2_RUNLIST_PRI_BASE").mask as u32
}

fn submit(b: &mut Bench, list: &[u32]) -> u32 {
    let at = block(b, 0);
    b.sys(DATA, list);
    let f = |f| reg_bits("host", "submit_base_lo", f);
    let lo = f("TARGET").of(code("MemTarget", "SysCoherent")) | f("PTR").of((DATA >> 12) as u32);
    b.w(at + reg("host", "submit_base_lo"), lo);
    b.w(at + reg("host", "submit_base_hi"), 0);
    let n = (list.len() as u32) * 4 / num("size", "RUNLIST_ENTRY");
    b.w(
        at + reg("host", "submit"),
        reg_bits("host", "submit", "LENGTH").of(n),
    );
    let intr = b.r(at + reg("host", "intr_0"));
    reg_bits("host", "intr_0", "BAD_TSG").get(intr)
}

#[test]
fn runlist_entries() {
    let v = Cases::of(&["runlist"]);
    let w = |case| v.take::<4>("runlist", case);
    let sys = |addr| Some(Place::Sys { gpu: 0, addr });
    let check = |b: &Bench, chid, tsg, userd| {
        let c = &b.gpu.runlists[0].channels[&chid];
        assert_eq!(c.inst, (2, 0x1_2345_6000));
        assert_eq!((c.tsgid, c.userd_at(0, 0)), (tsg, userd));
    };
    let (tsg, chan) = (w("driver_tsg"), w("driver_channel"));
    let mut b = Bench::new();
    assert_eq!(submit(&mut b, &[tsg, chan].concat()), 0);
    assert_eq!(b.gpu.runlists[0].channels.len(), 1);
    check(&b, 5, 5, sys(0x12_3456_7800));

    let (pair, first) = (w("tsg"), w("channel"));
    let mut second = first;
    let f = |f| bits("runlist.channel", f);
    second[2] = second[2] & !(f("CHID").mask as u32) | f("CHID").of(0x7ff);
    let mut b = Bench::new();
    assert_eq!(submit(&mut b, &[pair, first, second].concat()), 0);
    assert_eq!(b.gpu.runlists[0].channels.len(), 2);
    check(&b, 5, 7, sys(0x12_3456_7800));
    check(&b, 0x7ff, 7, sys(0x12_3456_7800));
    // Too few entries for LENGTH; the register says which group.
    let mut b = Bench::new();
    assert_eq!(submit(&mut b, &[pair, first].concat()), 1);
    let at = block(&mut b, 0) + num("runlist", "INTR_BAD_TSG");
    assert_eq!(b.r(at), 7);
    assert_eq!(
        submit(&mut Bench::new(), &first),
        1,
        "a channel without a group"
    );

    // Fields, one at its largest; the others zero but for a group of one.
    let one = [bits("runlist.tsg", "TYPE").of(1), 1, 0, 0];
    let place = |offset| Some(Place::Vram { gpu: 0, offset });
    for (name, f) in super::reader::fields("runlist.channel") {
        let mut e = [0u32; 4];
        e[f.word] = f.mask as u32;
        let mut b = Bench::new();
        let bad = submit(&mut b, &[one, e].concat());
        let c = b.gpu.runlists[0].channels.iter().next();
        let got = c.map(|(i, c)| (*i, c.inst, c.userd_at(0, 0)));
        let want = match name {
            // A group in a group, and a number that no channel has.
            "TYPE" | "CHID" => None,
            // One queue.
            "RUNQUEUE" => Some((0, (0, 0), place(0))),
            "INST_TARGET" => Some((0, (3, 0), place(0))),
            "USERD_TARGET" => Some((0, (0, 0), sys(0))),
            "USERD_PTR_LO" => Some((0, (0, 0), place(0xffff_ff00))),
            "USERD_PTR_HI" => Some((0, (0, 0), place(0xff_0000_0000))),
            "INST_PTR_LO" => Some((0, (0, 0xffff_f000), place(0))),
            "INST_PTR_HI" => Some((0, (0, 0xffff_ffff_0000_0000), place(0))),
            _ => panic!("{name}"),
        };
        assert_eq!((got, bad), (want, u32::from(want.is_none())), "{name}");
    }
    for (name, f) in super::reader::fields("runlist.tsg") {
        let mut e = one;
        e[f.word] |= f.mask as u32;
        let mut b = Bench::new();
        let bad = submit(&mut b, &[e, [0; 4]].concat());
        let tsg = b.gpu.runlists[0].channels.get(&0).map(|c| c.tsgid);
        let want = match name {
            // Time slices are not kept, nor virtual functions.
            "TYPE" | "GFID" | "TIMESLICE_SCALE" | "TIMESLICE_TIMEOUT" => Some(0),
            "LENGTH" => None,
            "TSGID" => Some(0xfff),
            _ => panic!("{name}"),
        };
        assert_eq!((tsg, bad), (want, u32::from(want.is_none())), "{name}");
    }
}

/// hw-interface 6.7: 1 to 128 channels in a group.
#[test]
fn group_lengths() {
    let f = |f| bits("runlist.tsg", f);
    for (n, bad) in [(0, 1), (1, 0), (128, 0), (129, 1), (255, 1)] {
        let mut list = vec![f("TYPE").of(1), f("LENGTH").of(n), 0, 0];
        for chid in 0..n {
            list.extend([0, 0, bits("runlist.channel", "CHID").of(chid), 0]);
        }
        assert_eq!(submit(&mut Bench::new(), &list), bad, "{n}");
    }
}

#[test]
fn channel_ram() {
    let v = Cases::of(&["channel_ram.write"]);
    let w = |case| v.word("channel_ram.write", case);
    let f = |name| bits("channel_ram", name).of(1);
    let mut b = Bench::new();
    let config = b.r(0x60_0000 + reg("host", "channel_config"));
    let chram = config & reg_bits("host", "channel_config", "CHRAM_BAR0_OFFSET").mask as u32;
    let at = chram + 4 * CHID;
    b.w(at, w("enable"));
    assert_eq!(b.r(at), f("ENABLE"));
    b.w(at, w("disable"));
    assert_eq!(b.r(at), 0);
    b.w(at, f("ENABLE") | f("PBDMA_FAULTED") | f("ENG_FAULTED"));
    b.w(at, w("clear_pbdma_fault"));
    assert_eq!(b.r(at), f("ENABLE") | f("ENG_FAULTED"));
    b.w(at, f("PBDMA_FAULTED"));
    b.w(at, w("clear_engine_fault"));
    assert_eq!(b.r(at), f("ENABLE") | f("PBDMA_FAULTED"));
    b.w(at, w("reset"));
    assert_eq!(b.r(at), 0);
    // Reload: RAMFC is read again.
    let mut b = rig();
    assert!(channel(&mut b).loaded);
    b.w(at, w("reload"));
    assert!(!channel(&mut b).loaded);
    assert_eq!(b.r(at), 0, "not a bit that stays");

    for (name, f) in super::reader::fields("channel_ram") {
        let mut b = Bench::new();
        b.w(at, f.mask as u32);
        let stays = ["ENABLE", "PBDMA_FAULTED", "ENG_FAULTED", "PENDING"].contains(&name);
        assert_eq!(b.r(at), if stays { f.mask as u32 } else { 0 }, "{name}");
    }
    // What the device says of itself: a method in force, a launch.
    let mut b = rig();
    channel(&mut b).pb_left = 1;
    assert_eq!(b.r(at), f("BUSY") | f("PBDMA_BUSY"));
    let mut b = rig();
    launch(&mut b, &[], bits("ce.launch", "SEMAPHORE_TYPE").of(1));
    assert_eq!(b.r(at), f("BUSY") | f("ENG_BUSY"));
    let mut b = rig();
    let sem = map_semaphore(&mut b);
    b.sys(sem, &[0, 0]);
    wait_for_semaphore(&mut b);
    let enabled = f("ENABLE") | f("BUSY") | f("PBDMA_BUSY");
    assert_eq!(b.r(at), enabled | f("ACQUIRE_FAIL"));
}

/// Runs the channel into an acquire that does not pass: one entry of its GPFIFO, in the page of the semaphore.
fn wait_for_semaphore(b: &mut Bench) {
    let f = |f| bits("host.header", f);
    let inc = f("SEC_OP").of(code("SecOp", "IncMethod"));
    let at = num("host_method", "SEM_ADDR_LO") / 4;
    let words = [
        inc | f("COUNT").of(5) | f("ADDRESS").of(at),
        SEM as u32,
        (SEM >> 32) as u32,
        1,
        0,
        0,
    ];
    let page = DATA;
    b.sys(page + 0x800, &words);
    let va = (SEM & !0xfff) + 0x800;
    let e = |f| bits("host.gp_entry", f);
    // The GPFIFO's first entry lies on the semaphore: the semaphore moves.
    let entry = [va as u32, (va >> 32) as u32 | e("LENGTH").of(6)];
    b.sys(DATA + (GPFIFO & 0xfff), &entry);
    b.sys(page + 0x800 + 4, &[(SEM as u32 & !0xfff) + 0x900]);
    b.sys(USERD + u64::from(num("userd", "GP_PUT")), &[1]);
    let enable = bits("channel_ram", "ENABLE").of(1);
    b.gpu.runlists[0].set(CHID, enable);
    let base = block(b, 0);
    let on = reg_bits("host", "virtual_channel_cfg", "PENDING_ENABLE").of(1);
    b.w(base + reg("host", "virtual_channel_cfg"), on);
    b.with(|g, cx| g.channel_wake(0, CHID, cx));
    // The poll for the semaphore comes later.
    b.run();
}

#[test]
fn doorbells() {
    let v = Cases::of(&["host.doorbell"]);
    let (id, chid) = (
        bits("host.doorbell", "RUNLIST"),
        bits("host.doorbell", "CHID"),
    );
    let ring = |token| {
        let mut b = Bench::new();
        b.w(reg("vf", "usermode_doorbell"), token);
        let pending = bits("channel_ram", "PENDING").of(1);
        let mut out = Vec::new();
        for (i, r) in b.gpu.runlists.iter().enumerate() {
            out.extend(
                (0..0x1000)
                    .filter(|c| r.word(*c) == pending)
                    .map(|c| (i, c)),
            );
        }
        out
    };
    // Ids as DOORBELL_CONFIG announces them.
    let mut b = Bench::new();
    let ids: Vec<u32> = (0..super::CES)
        .map(|i| {
            let at = block(&mut b, i) + reg("host", "doorbell_config");
            reg_bits("host", "doorbell_config", "ID").get(b.r(at))
        })
        .collect();
    let first = v.word("host.doorbell", "first");
    assert_eq!((id.get(first), chid.get(first)), (ids[0], 0));
    assert_eq!(ring(first), [(0, 0)]);
    assert_eq!(
        ring(v.word("host.doorbell", "small")),
        [],
        "no such runlist"
    );
    assert_eq!(
        ring(v.word("host.doorbell", "largest")),
        [],
        "no such runlist"
    );
    for (i, n) in ids.iter().enumerate() {
        assert_eq!(ring(id.of(*n) | chid.of(0xfff)), [(i, 0xfff)]);
    }
    // Bits of neither field.
    let other = !(id.mask | chid.mask) as u32;
    assert_eq!(ring(id.of(ids[1]) | chid.of(5) | other), [(1, 5)]);
    // The block's own doorbell.
    let mut b = Bench::new();
    let at = block(&mut b, 2) + reg("host", "internal_doorbell");
    b.w(at, reg_bits("host", "internal_doorbell", "CHID").of(0xfff));
    let pending = bits("channel_ram", "PENDING").of(1);
    assert_eq!(b.gpu.runlists[2].word(0xfff), pending);
}
