// SPDX-License-Identifier: GPL-2.0
//! Any words: unpacking never panics, and what it accepts packs to words that unpack to the same.

use huvm_hw::ce::{Launch, Remap};
use huvm_hw::fault::Packet;
use huvm_hw::host::{GpEntry, Header};
use huvm_hw::instance::PageDirBase;
use huvm_hw::memop::MemOp;
use huvm_hw::pte::{Level, Pde, Pte};
use huvm_hw::{counter, irq, runlist};
use proptest::prelude::*;

proptest! {
    #[test]
    fn fault(w: [u32; 8]) {
        if let Ok(p) = Packet::unpack(w) {
            let packed = p.pack();
            prop_assert_eq!(Packet::unpack(packed), Ok(p));
            prop_assert_eq!(packed[6], w[6] & 0x1ff);
            // A hub client has no GPC; bits 6:5, 15 and 23:21 are reserved.
            let gpc = if w[7] & (1 << 20) != 0 { 0 } else { 0x1f00_0000 };
            prop_assert_eq!(packed[7], w[7] & (0xe01f_7f9f | gpc));
        }
    }

    #[test]
    fn counter_packet(w: [u32; 8]) {
        if let Some(p) = counter::Packet::unpack(w) {
            prop_assert_eq!(counter::Packet::unpack(p.pack()), Some(p));
        }
    }

    #[test]
    fn leaf(e: u64, level in 0u32..6) {
        let Some(level) = Level::from_raw(level) else { return Ok(()) };
        match Pte::unpack(e, level) {
            Pte::Leaf(l) => {
                prop_assert!(e & 1 == 1);
                if let Some(packed) = l.pack() {
                    prop_assert_eq!(Pte::unpack(packed, level), Pte::Leaf(l));
                }
            }
            _ => prop_assert!(e & 1 == 0),
        }
    }

    #[test]
    fn directory(lo: u64, hi: u64) {
        let single = Pde::unpack(lo);
        if let Some(packed) = single.pack() {
            prop_assert_eq!(Pde::unpack(packed), single);
        }
        let (big, small) = Pde::unpack_dual(lo, hi);
        if let (Some(b), Some(s)) = (big.pack_big(), small.pack()) {
            prop_assert_eq!(Pde::unpack_dual(b, s), (big, small));
        }
    }

    #[test]
    fn mem_op(a: u32, b: u32, c: u32, d: u32, op in 0u32..32) {
        let w = [a, b, c, (d & 0x07ff_ffff) | op << 27];
        if let Some(m) = MemOp::unpack(w) {
            if let Some(packed) = m.pack() {
                prop_assert_eq!(MemOp::unpack(packed), Some(m));
            } else {
                prop_assert!(false, "{:?} was read but cannot be written", m);
            }
        }
    }

    #[test]
    fn copy_engine(w: u32) {
        if let Some(l) = Launch::unpack(w) {
            prop_assert_eq!(Launch::unpack(l.pack()), Some(l));
        }
        if let Some(r) = Remap::unpack(w) {
            prop_assert_eq!(r.pack().map(Remap::unpack), Some(Some(r)));
        }
    }

    #[test]
    fn pushbuffer(w: u32, hi: u32) {
        if let Some(h) = Header::unpack(w) {
            prop_assert_eq!(h.pack().map(Header::unpack), Some(Some(h)));
        }
        if let Some(e) = GpEntry::unpack([w, hi]) {
            prop_assert_eq!(e.pack().map(GpEntry::unpack), Some(Some(e)));
        }
    }

    #[test]
    fn instance_and_runlist(w: [u32; 4]) {
        if let Ok(p) = PageDirBase::unpack([w[0], w[1]]) {
            prop_assert_eq!(p.pack().map(PageDirBase::unpack), Some(Ok(p)));
        }
        if let Some(e) = runlist::Entry::unpack(w) {
            prop_assert_eq!(e.pack().map(runlist::Entry::unpack), Some(Some(e)));
        }
    }

    #[test]
    fn vector(v: u32) {
        match irq::place(v) {
            Some(p) => {
                prop_assert_eq!(p.leaf * 32 + p.bit, v);
                prop_assert_eq!(p.subtree, p.leaf / 2);
            }
            None => prop_assert!(v >= irq::VECTORS),
        }
    }
}
