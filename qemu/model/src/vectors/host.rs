// SPDX-License-Identifier: GPL-2.0
//! Channels: RAMFC, GPFIFO, pushbuffer, host methods, semaphores.

use super::reader::{bits, code, codes, num, reg, reg_at, reg_bits, structure, vector, Cases};
use super::{each_field, Bench};
use crate::ce::{End, Job, Release};
use crate::channel::{intr, Channel, Method, Outcome};
use crate::method::reduce;
use crate::mmu::Pdb;

pub(super) const CHID: u32 = 5;
/// Instance block and USERD of the bench's channel, and what its virtual addresses are mapped to.
const INST: u64 = 0x2000_0000;
pub(super) const USERD: u64 = 0x2100_0000;
pub(super) const DATA: u64 = 0x2200_0000;
/// What structs.csv says.
pub(super) const ROOT: u64 = 0x1_2345_6000;
pub(super) const GPFIFO: u64 = 0x98_7654_3210;
pub(super) const SEM: u64 = 0x98_7654_3210;

fn inst_bytes() -> usize {
    num("size", "INSTANCE_BLOCK") as usize
}

/// A loaded channel on runlist 0 with this instance block, not enabled: it executes what a test gives it, and launches stay
/// as they are.
pub(super) fn load(words: &[u32]) -> (Bench, bool) {
    let mut b = Bench::new();
    b.sys(INST, words);
    let c = Channel::new((2, INST), (2, USERD));
    b.gpu.runlists[0].channels.insert(CHID, c);
    let loaded = b.with(|g, cx| g.channel_load(0, CHID, cx));
    (b, loaded)
}

pub(super) fn rig() -> Bench {
    let (b, loaded) = load(&structure("channel", inst_bytes()));
    assert!(loaded);
    b
}

pub(super) fn channel(b: &mut Bench) -> &mut Channel {
    b.gpu.channel(0, CHID).unwrap()
}

pub(super) fn method(b: &mut Bench, addr: u32, data: u32) -> Outcome {
    let m = Method {
        subch: 0,
        addr,
        data,
    };
    b.with(|g, cx| g.method(0, CHID, m, cx))
}

/// Executes a push; the last method's outcome, all others are done.
fn push(b: &mut Bench, words: &[u32]) -> Outcome {
    let c = channel(b);
    c.words.extend(words);
    c.pb_left = 0;
    let mut last = Outcome::Done;
    while let Some(m) = channel(b).decode().unwrap() {
        assert_eq!(last, Outcome::Done, "before {m:x?}");
        last = b.with(|g, cx| g.method(0, CHID, m, cx));
    }
    last
}

pub(super) fn job(b: &mut Bench) -> Job {
    channel(b).jobs.back().unwrap().clone()
}

/// Maps the page of the semaphore.
pub(super) fn map_semaphore(b: &mut Bench) -> u64 {
    let f = |f| bits("pte", f);
    let sys = code("PteAperture", "SysCoherent").into();
    let e = f("VALID").of64(1) | f("APERTURE").of64(sys) | f("ADDRESS_SYS").of64(DATA >> 12);
    b.map(ROOT, SEM, "4K", e);
    DATA + (SEM & 0xfff)
}

#[test]
fn ramfc_words() {
    let mut b = rig();
    let c = channel(&mut b);
    assert_eq!((c.gp_base, c.gp_entries_log2), (GPFIFO, 9));
    assert!(c.privileged_ce && c.auth && c.ce_ctx && c.userd_writeback);
    assert_eq!(c.notify, 0x8000_0007);
    let pdb = Pdb {
        sys: true,
        addr: ROOT,
    };
    let instance = c.instance.unwrap();
    assert_eq!(instance.pdb, Some(pdb));
    assert_eq!(instance.method_buffer, 0x9_8765_4000);

    let (mut b, loaded) = load(&structure("plain_channel", inst_bytes()));
    assert!(loaded);
    let c = channel(&mut b);
    assert_eq!((c.gp_base, c.gp_entries_log2), (0xff_ffff_fff8, 31));
    assert!(!c.privileged_ce && !c.auth && !c.ce_ctx && !c.userd_writeback);
    assert_eq!(c.notify, 0);
    let pdb = Pdb {
        sys: false,
        addr: 0xab_c000,
    };
    assert_eq!(c.instance.unwrap().pdb, Some(pdb));
}

#[test]
fn ramfc_fields() {
    type Check = fn(&Channel) -> bool;
    let plain = |c: &Channel| {
        c.gp_base == 0
            && c.gp_entries_log2 == 0
            && !(c.privileged_ce || c.auth || c.ce_ctx || c.userd_writeback)
    };
    // Another signature than the two is an error; everything else changes one thing.
    let ignored: Check = |c| {
        c.gp_base == 0
            && c.gp_entries_log2 == 0
            && !(c.privileged_ce || c.auth || c.ce_ctx || c.userd_writeback)
            && c.notify == 0
    };
    let table: [(&str, Option<Check>); 20] = [
        ("SIGNATURE", None),
        // No time-outs; nothing is saved; one engine, which does not split; no subcontexts of channels.
        ("ACQUIRE", Some(ignored)),
        ("GP_BASE_OFFSET", Some(|c| c.gp_base == 0xffff_fff8)),
        ("GP_BASE_HI_OFFSET", Some(|c| c.gp_base == 0xff_0000_0000)),
        ("GP_BASE_HI_LIMIT2", Some(|c| c.gp_entries_log2 == 31)),
        ("PB_HEADER", Some(ignored)),
        ("SUBDEVICE", Some(ignored)),
        // Of an engine that is none of these.
        ("TARGET_ENG_CTX_VALID", Some(ignored)),
        ("TARGET_CE_CTX_VALID", Some(|c| c.ce_ctx)),
        ("HCE_CTRL_PRIVILEGED", Some(|c| c.privileged_ce)),
        ("CHANNEL_ID", Some(ignored)),
        ("CONFIG_CE_SPLIT", Some(ignored)),
        ("CONFIG_CE_THROTTLE", Some(ignored)),
        ("CONFIG_AUTH_LEVEL", Some(|c| c.auth && !c.privileged_ce)),
        ("CONFIG_USERD_WRITEBACK", Some(|c| c.userd_writeback)),
        ("INTR_NOTIFY_VECTOR", Some(|c| c.notify == 0xfff)),
        ("INTR_NOTIFY_GSP", Some(|c| c.notify == 1 << 30)),
        ("INTR_NOTIFY_CPU", Some(|c| c.notify == 1 << 31)),
        ("SET_CHANNEL_INFO_SCG", Some(ignored)),
        ("SET_CHANNEL_INFO_VEID", Some(ignored)),
    ];
    let mut base = vec![0; inst_bytes() / 4];
    let whole = structure("channel", inst_bytes());
    for name in ["PAGE_DIR_BASE_LO", "PAGE_DIR_BASE_HI"] {
        let at = bits("ramin", name).word;
        base[at] = whole[at];
    }
    let at = bits("ramfc", "SIGNATURE").word;
    base[at] = whole[at];
    let (mut b, loaded) = load(&base);
    assert!(loaded && plain(channel(&mut b)));
    each_field("ramfc", &table, |name, f, check| {
        let mut words = base.clone();
        words[f.word] |= f.mask as u32;
        let (mut b, loaded) = load(&words);
        match check {
            Some(check) => assert!(loaded && check(channel(&mut b)), "{name}"),
            None => {
                assert!(!loaded, "{name}");
                let pbdma = b.r(num("bar0", "PBDMA") + reg("host", "pbdma_intr_0"));
                let want = reg_bits("host", "pbdma_intr_0", "SIGNATURE").of(1);
                assert_eq!(pbdma, want, "{name}");
            }
        }
    });
}

/// NON_STALL_INT of a channel with a vector of its own, and of one without.
#[test]
fn non_stall_vectors() {
    let v = Cases::of(&["push"]);
    let words = v.words("push", "non_stall_interrupt");
    let rest = [
        "bind",
        "acquire",
        "copy_sys_to_vid",
        "copy_peer_to_sys",
        "copy_virtual",
        "fill_1",
        "fill_4",
        "fill_8",
        "wait_idle",
        "release",
        "release_no_flush",
        "timestamp",
    ];
    v.skip("push", &rest);
    let mut b = rig();
    assert_eq!(push(&mut b, &words), Outcome::Done);
    assert_eq!(b.r(reg_at("vf", "leaf", 0, 8)), 1 << 7);
    channel(&mut b).notify = 0;
    assert_eq!(push(&mut b, &words), Outcome::Done);
    let engine = vector("non_stall_first");
    assert_eq!(b.r(reg_at("vf", "leaf", 0, 8)), 1 << 7 | 1 << engine);
}

#[test]
fn pushes() {
    let v = Cases::of(&["push"]);
    v.skip("push", &["non_stall_interrupt"]);
    let run = |case| {
        let mut b = rig();
        let last = push(&mut b, &v.words("push", case));
        (b, last)
    };
    assert_eq!(run("bind").1, Outcome::Done);
    let (sys, vid, peer) = (1, 0, 3);
    let phys = |target, peer, addr| Some(End::Phys { target, peer, addr });
    let virt = |va| Some(End::Virt(va));
    let (s, d) = (0x1234_5678_9000, 0x1f_edc0_0000);
    for (case, src, dst, bytes, pipelined) in [
        (
            "copy_sys_to_vid",
            phys(sys, 0, s),
            phys(vid, 0, d),
            2 << 20,
            false,
        ),
        (
            "copy_peer_to_sys",
            phys(peer, 5, d),
            phys(sys, 0, s),
            4096,
            true,
        ),
        (
            "copy_virtual",
            virt(0x1_fedc_ba98_7000),
            virt(0x7f12_3456_7000),
            64 << 10,
            false,
        ),
    ] {
        let (mut b, last) = run(case);
        assert_eq!(last, Outcome::Done);
        let j = job(&mut b);
        assert_eq!((j.src, j.dst, j.bytes), (src, dst, bytes), "{case}");
        assert_eq!(
            (j.pipelined, j.release, j.pattern.len()),
            (pipelined, None, 0)
        );
    }
    for (case, bytes, pattern) in [
        ("fill_1", 4096, &[0x5a][..]),
        ("fill_4", 4096, &[0xef, 0xcd, 0xab, 0x89]),
        (
            "fill_8",
            4096,
            &[0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01],
        ),
    ] {
        let (mut b, last) = run(case);
        assert_eq!(last, Outcome::Done);
        let j = job(&mut b);
        assert_eq!(
            (j.src, j.dst, j.bytes),
            (None, phys(vid, 0, d), bytes),
            "{case}"
        );
        assert_eq!(
            (j.pattern.as_slice(), j.pipelined),
            (pattern, false),
            "{case}"
        );
    }
    let own = 0x98_7654_3400;
    for (case, va, payload, timestamp) in [
        ("release", own, 1, false),
        ("release_no_flush", own, 1, false),
        ("timestamp", SEM, 0x89ab_cdef, true),
    ] {
        let (mut b, _) = run(case);
        let j = job(&mut b);
        assert_eq!((j.src, j.dst, j.bytes), (None, None, 0), "{case}");
        let want = Release {
            va,
            payload,
            timestamp,
            reduction: None,
        };
        assert_eq!(j.release, Some(want), "{case}");
    }
    // WFI waits for launches, and for nothing else.
    let words = v.words("push", "wait_idle");
    let mut b = rig();
    assert_eq!(push(&mut b, &words), Outcome::Done);
    let launch = num("ce_method", "LAUNCH_DMA");
    method(&mut b, launch, bits("ce.launch", "SEMAPHORE_TYPE").of(1));
    assert_eq!(push(&mut b, &words), Outcome::WaitCopies);

    // An acquire that has to wait, one that wrapped, and one that fits.
    let words = v.words("push", "acquire");
    for (mem, want) in [
        (0x89ab_cdee, Outcome::WaitSemaphore),
        (0x89ab_cdef, Outcome::Done),
        (0x09ab_cdee, Outcome::Done),
        (0x09ab_cdf0, Outcome::WaitSemaphore),
    ] {
        let mut b = rig();
        let at = map_semaphore(&mut b);
        b.sys(at, &[mem, !0]);
        assert_eq!(push(&mut b, &words), want, "{mem:#x}");
    }
}

#[test]
fn headers() {
    let v = Cases::of(&["host.header"]);
    let decode = |words: &[u32]| {
        let mut b = rig();
        let c = channel(&mut b);
        c.words.extend(words);
        let mut out = Vec::new();
        while let Some(m) = c.decode().unwrap() {
            out.push((m.subch, m.addr, m.data));
        }
        (out, c.words.len())
    };
    let with = |case, n: u32| {
        let mut w = vec![v.word("host.header", case)];
        w.extend(0..n);
        w
    };
    let inc = with("inc", 4);
    let want = [(4, 0x400, 0), (4, 0x404, 1), (4, 0x408, 2), (4, 0x40c, 3)];
    assert_eq!(decode(&inc), (want.to_vec(), 0));
    let non_inc = with("non_inc", 8191);
    let want: Vec<_> = (0..8191).map(|i| (0, 0x100, i)).collect();
    assert_eq!(decode(&non_inc), (want, 0));
    assert_eq!(decode(&with("immediate", 0)).0, [(0, 0x78, 1)]);
    let one_inc = with("one_inc", 1);
    assert_eq!(decode(&one_inc).0, [(7, 0x3ffc, 0)]);
    let mut three = one_inc;
    let f = |f| bits("host.header", f);
    three[0] = f("SEC_OP").of(code("SecOp", "OneInc")) | f("COUNT").of(3) | f("ADDRESS").of(0x40);
    three.extend([1, 2]);
    assert_eq!(
        decode(&three).0,
        [(0, 0x100, 0), (0, 0x104, 1), (0, 0x104, 2)]
    );
    let end = with("end", 0);
    assert_eq!(decode(&[end[0], inc[0], 0, 0, 0, 0]), (vec![], 0));
    let nop = with("nop", 0);
    assert_eq!(decode(&[nop[0], inc[0], 0, 1, 2, 3]).0.len(), 4);
    // Subdevice masks mean nothing with one GPU.
    assert_eq!(decode(&[f("TERT_OP").of(3), inc[0], 0, 1, 2, 3]).0.len(), 4);
    let known: Vec<u32> = codes("SecOp").iter().map(|c| c.1).collect();
    for op in (0..8).filter(|o| !known.contains(o)) {
        let mut b = rig();
        channel(&mut b).words.push_back(f("SEC_OP").of(op));
        assert!(channel(&mut b).decode().is_err(), "{op}");
    }
    let imm = f("SEC_OP").of(code("SecOp", "ImmdDataMethod"));
    for (name, b) in super::reader::fields("host.header") {
        let want = match name {
            "ADDRESS" => (0, 0x3ffc, 0),
            "SUBCHANNEL" => (7, 0, 0),
            "COUNT" | "IMMD_DATA" => (0, 0, 0x1fff),
            // Of another operation, above.
            "TERT_OP" | "SEC_OP" => continue,
            _ => panic!("{name}"),
        };
        assert_eq!(decode(&[imm | b.mask as u32]).0, [want], "{name}");
    }
}

/// A channel whose GPFIFO and pushbuffer are mapped, with this entry as its next.
fn fetch(entry: [u32; 2]) -> (Option<Outcome>, u64, u32) {
    let mut b = rig();
    let at = map_semaphore(&mut b);
    assert_eq!(GPFIFO, SEM, "one page has both");
    b.sys(at, &entry);
    channel(&mut b).gp_put = 1;
    let got = b.with(|g, cx| g.channel_fetch(0, CHID, cx));
    let c = channel(&mut b);
    (got, c.pb_addr, c.pb_left)
}

#[test]
fn gpfifo_entries() {
    let v = Cases::of(&["host.gp_entry"]);
    for (case, want) in [
        ("segment", (Outcome::Done, 0x12_3456_789c, 100)),
        ("driver_segment", (Outcome::Done, 0x12_3456_789c, 100)),
        ("subroutine", (Outcome::Done, 0xff_ffff_fffc, 0x1f_ffff)),
        ("nop", (Outcome::Done, 0, 0)),
        ("illegal", (Outcome::Error(intr::GPENTRY), 0, 0)),
    ] {
        let (o, addr, left) = fetch(v.take("host.gp_entry", case));
        assert_eq!((o, addr, left), (Some(want.0), want.1, want.2), "{case}");
    }
    let one = bits("host.gp_entry", "LENGTH").of(1);
    for (name, f) in super::reader::fields("host.gp_entry") {
        let mut w = [0, one];
        w[f.word] |= f.mask as u32;
        let want = match name {
            "GET" => (0xffff_fffc, 1),
            "GET_HI" => (0xff_0000_0000, 1),
            "LENGTH" => (0, 0x1f_ffff),
            // Unconditional; of a control entry, above; no stack; fetches are in order.
            "FETCH" | "LEVEL" | "SYNC" => (0, 1),
            "OPCODE" => continue,
            _ => panic!("{name}"),
        };
        let (_, addr, left) = fetch(w);
        assert_eq!((addr, left), want, "{name}");
    }
    // The entry after this one, and USERD.
    let mut b = rig();
    let at = map_semaphore(&mut b);
    b.sys(USERD + u64::from(num("userd", "GP_PUT")), &[2]);
    b.sys(at + 8, &v_segment());
    b.with(|g, cx| g.channel_poll_put(0, CHID, cx));
    for left in [0, 100] {
        b.with(|g, cx| g.channel_fetch(0, CHID, cx));
        assert_eq!(channel(&mut b).pb_left, left);
    }
    let get: [u32; 1] = b.sys_words(USERD + u64::from(num("userd", "GP_GET")));
    assert_eq!(get, [2]);
}

fn v_segment() -> [u32; 2] {
    let f = |f| bits("host.gp_entry", f);
    [0, f("LENGTH").of(100)]
}

/// Executes SEM_EXECUTE with a payload on 16 bytes of memory: what comes of it and what is there then.
fn semaphore(execute: u32, payload: u64, memory: [u32; 4]) -> (Outcome, [u32; 4]) {
    let mut b = rig();
    b.now = 0x1_0000_0020;
    let at = map_semaphore(&mut b);
    b.sys(at, &memory);
    let m = |name| num("host_method", name);
    for (name, data) in [
        ("SEM_ADDR_LO", SEM as u32),
        ("SEM_ADDR_HI", (SEM >> 32) as u32),
        ("SEM_PAYLOAD_LO", payload as u32),
        ("SEM_PAYLOAD_HI", (payload >> 32) as u32),
    ] {
        assert_eq!(method(&mut b, m(name), data), Outcome::Done);
    }
    let o = method(&mut b, m("SEM_EXECUTE"), execute);
    (o, b.sys_words(at))
}

#[test]
fn semaphores() {
    let v = Cases::of(&["host.sem_execute"]);
    let w = |case| v.word("host.sem_execute", case);
    const OLD: [u32; 4] = [5, 6, 7, 8];
    let wide = 0x1234_5678_0000_0009;
    use Outcome::{Done, WaitSemaphore};
    // (payload that passes, payload that waits); memory is 5, or 6 << 32 | 5.
    for (case, pass, wait) in [
        ("acquire", 5, 4),
        ("acquire_circular_switch", 0xffff_ffff, 6),
        ("acquire_strict_64", 0x6_0000_0005, 0x6_0000_0006),
        ("acquire_and", 1, 2),
        ("acquire_nor", 0, 0xffff_fffa),
    ] {
        let e = w(case);
        assert_eq!(semaphore(e, pass, OLD), (Done, OLD), "{case}");
        assert_eq!(semaphore(e, wait, OLD), (WaitSemaphore, OLD), "{case}");
    }
    let strict = bits("host.sem_execute", "OPERATION").of(code("SemOperation", "AcqStrictGeq"));
    assert_eq!(semaphore(strict, 0xffff_ffff, OLD).0, WaitSemaphore);
    for (case, payload, new) in [
        ("release", wide, [9, 6, 7, 8]),
        ("release_wfi", wide, [9, 6, 7, 8]),
        ("release_64", wide, [9, 0x1234_5678, 7, 8]),
        ("release_timestamp", wide, [9, 0, 0x20, 1]),
        ("release_everything", wide, [9, 0x1234_5678, 0x20, 1]),
        ("reduction_inc_unsigned", 9, [6, 6, 7, 8]),
        ("reduction_dec_unsigned", 9, [4, 6, 7, 8]),
        ("reduction_imin_signed", 0xffff_ffff, [0xffff_ffff, 6, 7, 8]),
        (
            "reduction_imax_unsigned",
            0xffff_ffff,
            [0xffff_ffff, 6, 7, 8],
        ),
        ("reduction_iadd_signed", 9, [14, 6, 7, 8]),
    ] {
        assert_eq!(semaphore(w(case), payload, OLD), (Done, new), "{case}");
    }
    // Addresses: 40 bits; the rest of the high word, and bits 1:0, are none of it.
    let (lo, hi) = (bits("host.sem_addr", "LO"), bits("host.sem_addr", "HI"));
    assert_eq!((lo.word, hi.word), (0, 1));
    for extra in [!hi.mask as u32, 0] {
        let mut b = rig();
        let at = map_semaphore(&mut b);
        let m = |name| num("host_method", name);
        let high = (SEM >> 32) as u32 | extra;
        method(&mut b, m("SEM_ADDR_HI"), high);
        method(&mut b, m("SEM_ADDR_LO"), SEM as u32 | !lo.mask as u32);
        method(&mut b, m("SEM_PAYLOAD_LO"), 1);
        let release = bits("host.sem_execute", "OPERATION").of(code("SemOperation", "Release"));
        assert_eq!(method(&mut b, m("SEM_EXECUTE"), release), Done);
        assert_eq!(b.sys_words::<1>(at), [1]);
    }
    // Each code of REDUCTION, signed where a format is given.
    for (name, op) in codes("Reduction") {
        let got = reduce(op, 12, 10, false, false);
        let want = match name {
            "Imin" => Some(10),
            "Imax" => Some(12),
            "Ixor" => Some(6),
            "Iand" => Some(8),
            "Ior" => Some(14),
            "Iadd" => Some(22),
            "Inc" => Some(0),
            "Dec" => Some(10),
            // No floats here.
            "Fadd" => None,
            _ => panic!("{name}"),
        };
        assert_eq!(got, want, "{name}");
    }
    let f = |f| bits("host.sem_execute", f);
    let signed = f("OPERATION").of(code("SemOperation", "Reduction"));
    let unsigned = signed | f("REDUCTION_FORMAT").of(1);
    let all = |e| semaphore(e, 0xffff_ffff, OLD).1[0];
    assert_eq!((all(signed), all(unsigned)), (0xffff_ffff, 5), "IMIN of -1");
    // WFI waits for launches; without it a release does not.
    let wfi = f("RELEASE_WFI").of(1);
    let release = f("OPERATION").of(code("SemOperation", "Release"));
    let mut b = rig();
    map_semaphore(&mut b);
    let m = |name| num("host_method", name);
    method(&mut b, m("SEM_ADDR_LO"), SEM as u32);
    method(&mut b, m("SEM_ADDR_HI"), (SEM >> 32) as u32);
    let launch = bits("ce.launch", "SEMAPHORE_TYPE").of(1);
    method(&mut b, num("ce_method", "LAUNCH_DMA"), launch);
    let execute = m("SEM_EXECUTE");
    assert_eq!(method(&mut b, execute, release | wfi), Outcome::WaitCopies);
    assert_eq!(method(&mut b, execute, release), Done);
    assert_eq!(super::reader::fields("host.sem_execute").len(), 7);
}

/// Every method of numbers.csv is one that this device takes, and every other word is refused.
#[test]
fn methods_are_known() {
    let v = Cases::of(&["host.set_object"]);
    let bind = v.word("host.set_object", "copy_engine");
    assert_eq!(bind, num("class", "COPY_ENGINE"));
    let set = num("host_method", "SET_OBJECT");
    assert_eq!(method(&mut rig(), set, bind), Outcome::Done);
    // ENGINE is not looked at; any other class is an error.
    let f = |f| bits("host.set_object", f);
    let engine = f("ENGINE").mask as u32;
    assert_eq!(method(&mut rig(), set, bind | engine), Outcome::Done);
    let other = bind ^ f("NVCLASS").of(1 << 15);
    let refused = Outcome::Error(intr::METHOD);
    assert_eq!(method(&mut rig(), set, other), refused);

    let mut known: Vec<u32> = Vec::new();
    for (name, at) in super::reader::nums("host_method") {
        let data = if name == "SET_OBJECT" { bind } else { 0 };
        let o = method(&mut rig(), at, data);
        match name {
            // A software trap on Ampere (2.3); a bound, no method.
            "CLEAR_FAULTED" => assert_eq!(o, refused, "{name}"),
            "FIRST_ENGINE" => continue,
            // All zero: OPERATION 0, which this device does not know; an acquire of address 0, which is not mapped.
            "MEM_OP_D" => assert_eq!(o, refused, "{name}"),
            "SEM_EXECUTE" => assert!(matches!(o, Outcome::Fault(0, ..)), "{name}"),
            _ => assert_eq!(o, Outcome::Done, "{name}"),
        }
        known.push(at);
    }
    for at in (0..0x100).step_by(4).filter(|a| !known.contains(a)) {
        assert_eq!(method(&mut rig(), at, 0), refused, "{at:#x}");
    }
    for (name, at) in super::reader::nums("ce_method") {
        assert!(at >= num("host_method", "FIRST_ENGINE"));
        assert_eq!(method(&mut rig(), at, 0), Outcome::Done, "{name}");
    }
    // WFI.SCOPE and YIELD.OP: all of it, and nothing.
    for (format, name) in [("host.wfi", "WFI"), ("host.yield", "YIELD")] {
        for (_, f) in super::reader::fields(format) {
            let o = method(&mut rig(), num("host_method", name), f.mask as u32);
            assert_eq!(o, Outcome::Done, "{name}");
        }
    }
}
