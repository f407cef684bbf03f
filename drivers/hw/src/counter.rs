// SPDX-License-Identifier: GPL-2.0
//! Access-counter notification packet, class C365 (hw-interface 3.2).

use crate::aperture::{MemTarget, PhysAperture};
use crate::bits::{fields32, join, split};

/// Bytes of a packet.
pub const PACKET_BYTES: usize = 32;

fields32! {
    TYPE = (0, 0, 0);
    ADDR_TYPE = (0, 1, 1);
    BANK = (0, 5, 2);
    APERTURE = (0, 9, 8);
    INST_APERTURE = (0, 11, 10);
    INST_LO = (0, 31, 12);
    INST_HI = (1, 31, 0);
    ADDR_LO = (2, 31, 0);
    ADDR_HI = (3, 31, 0);
    SUB_GRANULARITY = (4, 31, 0);
    NOTIFY_TAG = (5, 19, 0);
    COUNTER_VAL = (6, 15, 0);
    PEER_ID = (7, 2, 0);
    MMU_ENGINE_ID = (7, 28, 20);
    VALID = (7, 31, 31);
}

/// A notification. Reserved bits are zero when packed and ignored when unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// This GPU's accesses to memory elsewhere (MIMC); else accesses from outside to this GPU's memory (MOMC).
    pub mimc: bool,
    /// The address is physical.
    pub physical: bool,
    /// Bank of the counter, 4 bits.
    pub bank: u8,
    /// Where the counted memory is.
    pub aperture: PhysAperture,
    /// Where the instance block is.
    pub inst_target: MemTarget,
    /// Address of the instance block, 4 KiB aligned.
    pub inst: u64,
    /// Address of the counted region.
    pub addr: u64,
    /// One bit per 1/32 of the region; meaningful above 64 KiB granularity.
    pub sub_granularity: u32,
    /// Tag of the counter, 20 bits.
    pub tag: u32,
    /// Accesses, saturating.
    pub value: u16,
    /// Peer of the memory, 3 bits.
    pub peer: u8,
    /// MMU engine id, 9 bits.
    pub engine: u16,
    /// The packet is complete.
    pub valid: bool,
}

impl Packet {
    /// The eight words. Bits beyond a field's width are dropped.
    pub const fn pack(&self) -> [u32; 8] {
        let (inst_lo, inst_hi) = split(self.inst);
        let (addr_lo, addr_hi) = split(self.addr);
        [
            TYPE.of(self.mimc as u32)
                | ADDR_TYPE.of(self.physical as u32)
                | BANK.of(self.bank as u32)
                | APERTURE.of(self.aperture.raw())
                | INST_APERTURE.of(self.inst_target.raw())
                | inst_lo & INST_LO.of(u32::MAX),
            inst_hi,
            addr_lo,
            addr_hi,
            self.sub_granularity,
            NOTIFY_TAG.of(self.tag),
            self.value as u32,
            PEER_ID.of(self.peer as u32)
                | MMU_ENGINE_ID.of(self.engine as u32)
                | VALID.of(self.valid as u32),
        ]
    }

    /// The packet of eight words; `None` for an instance aperture that is not listed.
    pub const fn unpack(w: [u32; 8]) -> Option<Packet> {
        let [w0, w1, w2, w3, w4, w5, w6, w7] = w;
        let (Some(aperture), Some(inst_target)) = (
            PhysAperture::from_raw(APERTURE.get(w0)),
            MemTarget::from_raw(INST_APERTURE.get(w0)),
        ) else {
            return None;
        };
        // CAST: each field is narrower than its type.
        Some(Packet {
            mimc: TYPE.is_set(w0),
            physical: ADDR_TYPE.is_set(w0),
            bank: BANK.get(w0) as u8,
            aperture,
            inst_target,
            inst: join(w0 & INST_LO.of(u32::MAX), w1),
            addr: join(w2, w3),
            sub_granularity: w4,
            tag: NOTIFY_TAG.get(w5),
            value: COUNTER_VAL.get(w6) as u16,
            peer: PEER_ID.get(w7) as u8,
            engine: MMU_ENGINE_ID.get(w7) as u16,
            valid: VALID.is_set(w7),
        })
    }
}
