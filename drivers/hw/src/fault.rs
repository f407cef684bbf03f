// SPDX-License-Identifier: GPL-2.0
//! MMU fault packet, class C369 (hw-interface 1.2 to 1.5). FAULT_INFO has the layout of its word 7.

use crate::aperture::MemTarget;
use crate::bits::{codes, fields32, join, split};

/// Bytes of a packet.
pub const PACKET_BYTES: usize = 32;

fields32! {
    INST_APERTURE = (0, 9, 8);
    INST_LO = (0, 31, 12);
    INST_HI = (1, 31, 0);
    ADDR_PHYS_APERTURE = (2, 1, 0);
    ADDR_LO = (2, 31, 12);
    ADDR_HI = (3, 31, 0);
    TIMESTAMP_LO = (4, 31, 0);
    TIMESTAMP_HI = (5, 31, 0);
    ENGINE_ID = (6, 8, 0);
    FAULT_TYPE = (7, 4, 0);
    REPLAYABLE_FAULT = (7, 7, 7);
    CLIENT = (7, 14, 8);
    ACCESS_TYPE = (7, 19, 16);
    MMU_CLIENT_TYPE = (7, 20, 20);
    GPC_ID = (7, 28, 24);
    PROTECTED_MODE = (7, 29, 29);
    REPLAYABLE_FAULT_EN = (7, 30, 30);
    VALID = (7, 31, 31);
}

codes! {
    /// What was wrong (1.3).
    FaultType {
        /// Invalid directory entry.
        Pde = 0x0,
        /// Directory entry of a wrong size.
        PdeSize = 0x1,
        /// Invalid page entry.
        Pte = 0x2,
        /// Beyond the address limit.
        VaLimitViolation = 0x3,
        /// No instance block is bound.
        UnboundInstBlock = 0x4,
        /// Privileged page.
        PrivViolation = 0x5,
        /// Write or atomic to a read-only page.
        RoViolation = 0x6,
        /// Read of a write-only page (ATS only).
        WoViolation = 0x7,
        /// Pitch mask.
        PitchMaskViolation = 0x8,
        /// Work creation.
        WorkCreation = 0x9,
        /// Aperture that the client cannot use.
        UnsupportedAperture = 0xa,
        /// Compression.
        CompressionFailure = 0xb,
        /// Kind that the aperture does not support.
        UnsupportedKind = 0xc,
        /// Region.
        RegionViolation = 0xd,
        /// Poisoned memory.
        Poisoned = 0xe,
        /// Strong atomic to a page with ATOMIC_DISABLE.
        AtomicViolation = 0xf,
    }
}

impl FaultType {
    /// Whether no mapping can make the access succeed (1.3, column "UVM treatment"). WO_VIOLATION is fatal without ATS.
    pub const fn is_fatal(self) -> bool {
        !matches!(
            self,
            FaultType::Pde | FaultType::Pte | FaultType::RoViolation | FaultType::AtomicViolation
        )
    }
}

codes! {
    /// What the client wanted (1.3).
    AccessType {
        /// Virtual load.
        VirtRead = 0x0,
        /// Virtual store.
        VirtWrite = 0x1,
        /// Virtual atomic that needs atomic permission.
        VirtAtomicStrong = 0x2,
        /// Virtual prefetch.
        VirtPrefetch = 0x3,
        /// Virtual atomic for which write permission is enough.
        VirtAtomicWeak = 0x4,
        /// Physical load.
        PhysRead = 0x8,
        /// Physical store.
        PhysWrite = 0x9,
        /// Physical atomic.
        PhysAtomic = 0xa,
        /// Physical prefetch.
        PhysPrefetch = 0xb,
    }
}

/// MMU engine ids of GA100 (1.4): the first of each group.
pub mod engine {
    /// CE0; CE `n` is this plus `n`, up to 9.
    pub const CE0: u32 = 15;
    /// Requests with no virtual translation.
    pub const PHYSICAL: u32 = 31;
    /// PBDMA 0.
    pub const HOST0: u32 = 32;
    /// Graphics and compute, subcontext 0; up to 63.
    pub const GRAPHICS0: u32 = 64;
    /// BAR1 of function 0.
    pub const BAR1: u32 = 128;
    /// BAR2 of function 0.
    pub const BAR2: u32 = 192;
}

/// Client numbers (1.5): those that the model reports.
pub mod client {
    /// GPC: first texture (T1) client, up to 7 in this group.
    pub const GPC_T1_0: u32 = 0x00;
    /// GPC: constant cache.
    pub const GPC_GCC: u32 = 0x11;
    /// GPC: T1 client 8.
    pub const GPC_T1_8: u32 = 0x21;
    /// HUB: CE0.
    pub const HUB_CE0: u32 = 0x01;
    /// HUB: CE1.
    pub const HUB_CE1: u32 = 0x02;
    /// HUB: host.
    pub const HUB_HOST: u32 = 0x06;
    /// HUB: host, CPU accesses.
    pub const HUB_HOST_CPU: u32 = 0x07;
    /// HUB: the MMU itself.
    pub const HUB_MMU: u32 = 0x0a;
    /// HUB: CE2 (GRCOPY).
    pub const HUB_CE2: u32 = 0x18;
    /// HUB: first HSCE, up to 9 in this group.
    pub const HUB_HSCE0: u32 = 0x20;
}

/// Who made the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// A client of a GPC.
    Gpc {
        /// GPC number, 5 bits.
        gpc: u8,
        /// Client number, 7 bits.
        client: u8,
    },
    /// A client of the hub, 7 bits.
    Hub(u8),
}

/// A packet. Reserved bits are zero when packed and ignored when unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Where the instance block is.
    pub inst_target: MemTarget,
    /// Address of the instance block, 4 KiB aligned.
    pub inst: u64,
    /// Raw aperture of the address; meaningful for physical accesses.
    pub addr_aperture: u8,
    /// Faulting page, 4 KiB aligned.
    pub addr: u64,
    /// PTIMER, ns.
    pub timestamp_ns: u64,
    /// MMU engine id, 9 bits.
    pub engine: u16,
    /// What was wrong.
    pub kind: FaultType,
    /// What the client wanted.
    pub access: AccessType,
    /// Who wanted it.
    pub client: Client,
    /// The request waits for a replay.
    pub replayable: bool,
    /// The instance has replay enabled for a client class.
    pub replay_enabled: bool,
    /// Protected mode; always false here.
    pub protected: bool,
    /// The packet is complete.
    pub valid: bool,
}

/// A field of a packet has a value that the reference does not list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPacket {
    /// INST_APERTURE.
    InstAperture(u32),
    /// FAULT_TYPE.
    FaultType(u32),
    /// ACCESS_TYPE.
    AccessType(u32),
}

impl Packet {
    /// The eight words. Bits beyond a field's width are dropped.
    pub const fn pack(&self) -> [u32; 8] {
        let (inst_lo, inst_hi) = split(self.inst);
        let (addr_lo, addr_hi) = split(self.addr);
        let (ts_lo, ts_hi) = split(self.timestamp_ns);
        let client = match self.client {
            Client::Gpc { gpc, client } => GPC_ID.of(gpc as u32) | CLIENT.of(client as u32),
            Client::Hub(client) => MMU_CLIENT_TYPE.of(1) | CLIENT.of(client as u32),
        };
        [
            INST_APERTURE.of(self.inst_target.raw()) | inst_lo & INST_LO.of(u32::MAX),
            inst_hi,
            ADDR_PHYS_APERTURE.of(self.addr_aperture as u32) | addr_lo & ADDR_LO.of(u32::MAX),
            addr_hi,
            ts_lo,
            ts_hi,
            ENGINE_ID.of(self.engine as u32),
            FAULT_TYPE.of(self.kind.raw())
                | REPLAYABLE_FAULT.of(self.replayable as u32)
                | ACCESS_TYPE.of(self.access.raw())
                | client
                | PROTECTED_MODE.of(self.protected as u32)
                | REPLAYABLE_FAULT_EN.of(self.replay_enabled as u32)
                | VALID.of(self.valid as u32),
        ]
    }

    /// The packet of eight words; check VALID (bit 31 of the last) and a read barrier come before.
    ///
    /// # Errors
    /// [`BadPacket`] with the raw value.
    pub const fn unpack(w: [u32; 8]) -> Result<Packet, BadPacket> {
        let [w0, w1, w2, w3, w4, w5, w6, w7] = w;
        let Some(inst_target) = MemTarget::from_raw(INST_APERTURE.get(w0)) else {
            return Err(BadPacket::InstAperture(INST_APERTURE.get(w0)));
        };
        let Some(kind) = FaultType::from_raw(FAULT_TYPE.get(w7)) else {
            return Err(BadPacket::FaultType(FAULT_TYPE.get(w7)));
        };
        let Some(access) = AccessType::from_raw(ACCESS_TYPE.get(w7)) else {
            return Err(BadPacket::AccessType(ACCESS_TYPE.get(w7)));
        };
        // CAST: each field is narrower than its type.
        let client = CLIENT.get(w7) as u8;
        Ok(Packet {
            inst_target,
            inst: join(w0 & INST_LO.of(u32::MAX), w1),
            addr_aperture: ADDR_PHYS_APERTURE.get(w2) as u8,
            addr: join(w2 & ADDR_LO.of(u32::MAX), w3),
            timestamp_ns: join(w4, w5),
            engine: ENGINE_ID.get(w6) as u16,
            kind,
            access,
            client: if MMU_CLIENT_TYPE.is_set(w7) {
                Client::Hub(client)
            } else {
                Client::Gpc {
                    gpc: GPC_ID.get(w7) as u8,
                    client,
                }
            },
            replayable: REPLAYABLE_FAULT.is_set(w7),
            replay_enabled: REPLAYABLE_FAULT_EN.is_set(w7),
            protected: PROTECTED_MODE.is_set(w7),
            valid: VALID.is_set(w7),
        })
    }
}
