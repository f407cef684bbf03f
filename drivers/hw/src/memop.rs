// SPDX-License-Identifier: GPL-2.0
//! MEM_OP_A to D: invalidate, replay, cancel, barrier, counter clear (hw-interface 2.1). D triggers; send all four.

use crate::aperture::MemTarget;
use crate::bits::{codes, join, split};

/// The words, by method: 0 is A.
pub mod field {
    crate::bits::fields32! {
        A_INVALIDATION_SIZE = (0, 5, 0);
        A_CANCEL_TARGET_CLIENT_UNIT_ID = (0, 5, 0);
        A_CANCEL_TARGET_GPC_ID = (0, 10, 6);
        A_INVAL_SCOPE = (0, 7, 6);
        A_CANCEL_MMU_ENGINE_ID = (0, 6, 0);
        A_SYSMEMBAR = (0, 11, 11);
        A_TARGET_ADDR_LO = (0, 31, 12);
        B_TARGET_ADDR_HI = (1, 31, 0);
        C_MEMBAR_TYPE = (2, 2, 0);
        C_PDB = (2, 0, 0);
        C_GPC = (2, 1, 1);
        C_REPLAY = (2, 4, 2);
        C_ACK_TYPE = (2, 6, 5);
        C_PAGE_TABLE_LEVEL = (2, 9, 7);
        C_ACCESS_TYPE = (2, 9, 7);
        C_PDB_APERTURE = (2, 11, 10);
        C_PDB_ADDR_LO = (2, 31, 12);
        C_NOTIFY_TAG = (2, 19, 0);
        D_PDB_ADDR_HI = (3, 26, 0);
        D_CLR_TYPE = (3, 1, 0);
        D_CLR_TARGETED_TYPE = (3, 2, 2);
        D_CLR_TARGETED_BANK = (3, 6, 3);
        D_OPERATION = (3, 31, 27);
    }
}

codes! {
    /// OPERATION of MEM_OP_D.
    Operation {
        /// Memory barrier.
        Membar = 0x05,
        /// Invalidate everything of a page directory, or of all.
        TlbInvalidate = 0x09,
        /// Invalidate an address range.
        TlbInvalidateTargeted = 0x0a,
        /// Drop peer lines from L2.
        L2PeermemInvalidate = 0x0d,
        /// Drop system lines from L2.
        L2SysmemInvalidate = 0x0e,
        /// Clean compression tags.
        L2CleanComptags = 0x0f,
        /// Write dirty lines back.
        L2FlushDirty = 0x10,
        /// Wait for system reads.
        L2WaitForSysPendingReads = 0x15,
        /// Clear access counters.
        AccessCounterClr = 0x16,
    }
}

codes! {
    /// REPLAY of an invalidate.
    Replay {
        /// No replay.
        None = 0,
        /// Retry queued requests.
        Start = 1,
        /// The same, acknowledged when all were translated.
        StartAckAll = 2,
        /// Retry one client's; those that fault again become non-replayable.
        CancelTargeted = 3,
        /// The same for all clients.
        CancelGlobal = 4,
        /// Fail those of an engine, access and page.
        CancelVaGlobal = 5,
    }
}

codes! {
    /// ACK_TYPE of an invalidate.
    Ack {
        /// Not waited for.
        None = 0,
        /// By everybody.
        Globally = 1,
        /// Within the node.
        Intranode = 2,
    }
}

codes! {
    /// PAGE_TABLE_LEVEL: which levels are dropped. A 2 MiB entry lives in PDE0, a 512 MiB one in PDE1.
    InvalidateLevel {
        /// All.
        All = 0,
        /// Page entries only.
        PteOnly = 1,
        /// Up to PDE0.
        UpToPde0 = 2,
        /// Up to PDE1.
        UpToPde1 = 3,
        /// Up to PDE2.
        UpToPde2 = 4,
        /// Up to PDE3.
        UpToPde3 = 5,
        /// Up to PDE4.
        UpToPde4 = 6,
        /// Up to PDE5.
        UpToPde5 = 7,
    }
}

codes! {
    /// ACCESS_TYPE of CANCEL_VA_GLOBAL.
    CancelAccess {
        /// Loads.
        VirtRead = 0,
        /// Stores.
        VirtWrite = 1,
        /// Strong atomics.
        VirtAtomicStrong = 2,
        /// Weak atomics.
        VirtAtomicWeak = 4,
        /// Atomics of both sorts.
        VirtAtomicAll = 5,
        /// Stores and atomics.
        VirtWriteAndAtomic = 6,
        /// Everything.
        VirtAll = 7,
    }
}

codes! {
    /// MEMBAR_TYPE.
    MembarType {
        /// CPU and peers see earlier writes.
        System = 0,
        /// This GPU's engines see them.
        Gpu = 1,
    }
}

codes! {
    /// Which access counters a clear is for.
    ClearType {
        /// All MIMC.
        Mimc = 0,
        /// All MOMC.
        Momc = 1,
        /// All.
        All = 2,
        /// One, by bank and tag.
        Targeted = 3,
    }
}

/// Page directory that an invalidate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pdb {
    /// Where it is.
    pub target: MemTarget,
    /// Its address, 4 KiB aligned, below 2^59.
    pub addr: u64,
}

/// What an invalidate does with queued faults; each with the fields that only it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayOp {
    /// Nothing.
    None,
    /// Retry.
    Start,
    /// Retry, acknowledged when all were translated.
    StartAckAll,
    /// Retry one client's.
    CancelTargeted {
        /// GPC, 5 bits.
        gpc: u8,
        /// Client, 6 bits.
        client: u8,
    },
    /// Retry all; those that fault again become non-replayable.
    CancelGlobal,
    /// Fail those of an engine, access and the page of `range`.
    CancelVaGlobal {
        /// MMU engine id, 7 bits.
        engine: u8,
        /// Accesses.
        access: CancelAccess,
    },
}

/// A TLB invalidate. Without a replay of CANCEL_VA_GLOBAL, `level` applies; with it, `level` is [`InvalidateLevel::All`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalidate {
    /// The page directory; `None`: all.
    pub pdb: Option<Pdb>,
    /// Address (4 KiB aligned) and log2 of the number of 4 KiB pages; `None`: everything. The size is 0 with a cancel.
    pub range: Option<(u64, u8)>,
    /// Hub TLBs only.
    pub hub_only: bool,
    /// Levels.
    pub level: InvalidateLevel,
    /// Acknowledgement.
    pub ack: Ack,
    /// System barrier after it.
    pub sysmembar: bool,
    /// Queued faults.
    pub replay: ReplayOp,
}

/// A MEM_OP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemOp {
    /// Barrier.
    Membar(MembarType),
    /// TLB invalidate with or without a replay.
    Invalidate(Invalidate),
    /// Clear all counters of a type. `Targeted` is no type here.
    ClearCounters(ClearType),
    /// Clear one counter.
    ClearCounter {
        /// MOMC, else MIMC.
        momc: bool,
        /// Bank, 4 bits.
        bank: u8,
        /// Tag, 20 bits.
        tag: u32,
    },
    /// One of the L2_* operations, which have no fields.
    L2(Operation),
}

impl MemOp {
    /// The four data words; `None` if a value does not fit or the combination has no encoding.
    pub fn pack(&self) -> Option<[u32; 4]> {
        use field as f;
        let op = |o: Operation| f::D_OPERATION.of(o.raw());
        Some(match *self {
            MemOp::Membar(t) => [0, 0, f::C_MEMBAR_TYPE.of(t.raw()), op(Operation::Membar)],
            MemOp::ClearCounters(ClearType::Targeted) => return None,
            MemOp::ClearCounters(t) => [
                0,
                0,
                0,
                f::D_CLR_TYPE.of(t.raw()) | op(Operation::AccessCounterClr),
            ],
            MemOp::ClearCounter { momc, bank, tag } => [
                0,
                0,
                f::C_NOTIFY_TAG.checked(tag)?,
                f::D_CLR_TYPE.of(ClearType::Targeted.raw())
                    | f::D_CLR_TARGETED_TYPE.of(u32::from(momc))
                    | f::D_CLR_TARGETED_BANK.checked(u32::from(bank))?
                    | op(Operation::AccessCounterClr),
            ],
            MemOp::L2(
                o @ (Operation::L2PeermemInvalidate
                | Operation::L2SysmemInvalidate
                | Operation::L2CleanComptags
                | Operation::L2FlushDirty
                | Operation::L2WaitForSysPendingReads),
            ) => [0, 0, 0, op(o)],
            MemOp::L2(_) => return None,
            MemOp::Invalidate(ref i) => i.pack()?,
        })
    }

    /// The operation of four data words; `None` for codes that the reference does not list.
    pub fn unpack(w: [u32; 4]) -> Option<MemOp> {
        use field as f;
        let [_, _, c, d] = w;
        let o = Operation::from_raw(f::D_OPERATION.get(d))?;
        Some(match o {
            Operation::Membar => MemOp::Membar(MembarType::from_raw(f::C_MEMBAR_TYPE.get(c))?),
            Operation::TlbInvalidate | Operation::TlbInvalidateTargeted => {
                MemOp::Invalidate(Invalidate::unpack(w, o)?)
            }
            Operation::AccessCounterClr => match ClearType::from_raw(f::D_CLR_TYPE.get(d))? {
                ClearType::Targeted => MemOp::ClearCounter {
                    momc: f::D_CLR_TARGETED_TYPE.is_set(d),
                    // CAST: four bits.
                    bank: f::D_CLR_TARGETED_BANK.get(d) as u8,
                    tag: f::C_NOTIFY_TAG.get(c),
                },
                t => MemOp::ClearCounters(t),
            },
            l2 => MemOp::L2(l2),
        })
    }
}

impl Invalidate {
    fn pack(&self) -> Option<[u32; 4]> {
        use field as f;
        let (addr, size) = self.range.unwrap_or((0, 0));
        let pdb = self.pdb.map_or(0, |p| p.addr);
        if addr & 0xfff != 0 || pdb & 0xfff != 0 {
            return None;
        }
        let (addr_lo, addr_hi) = split(addr);
        let (pdb_lo, pdb_hi) = split(pdb);
        let (code, who, level) = match self.replay {
            ReplayOp::None => (Replay::None, None, self.level.raw()),
            ReplayOp::Start => (Replay::Start, None, self.level.raw()),
            ReplayOp::StartAckAll => (Replay::StartAckAll, None, self.level.raw()),
            ReplayOp::CancelGlobal => (Replay::CancelGlobal, None, self.level.raw()),
            ReplayOp::CancelTargeted { gpc, client } => (
                Replay::CancelTargeted,
                Some(
                    f::A_CANCEL_TARGET_GPC_ID.checked(u32::from(gpc))?
                        | f::A_CANCEL_TARGET_CLIENT_UNIT_ID.checked(u32::from(client))?,
                ),
                self.level.raw(),
            ),
            ReplayOp::CancelVaGlobal { engine, access } => {
                if self.level != InvalidateLevel::All {
                    return None;
                }
                (
                    Replay::CancelVaGlobal,
                    Some(f::A_CANCEL_MMU_ENGINE_ID.checked(u32::from(engine))?),
                    access.raw(),
                )
            }
        };
        // The size and the client or engine of a cancel are the same bits.
        let low = match who {
            Some(_) if size != 0 => return None,
            Some(bits) => bits,
            None => f::A_INVALIDATION_SIZE.checked(u32::from(size))?,
        };
        let operation = match self.range {
            None => Operation::TlbInvalidate,
            Some(_) => Operation::TlbInvalidateTargeted,
        };
        Some([
            low | f::A_SYSMEMBAR.of(u32::from(self.sysmembar)) | addr_lo,
            addr_hi,
            f::C_PDB.of(u32::from(self.pdb.is_none()))
                | f::C_GPC.of(u32::from(self.hub_only))
                | f::C_REPLAY.of(code.raw())
                | f::C_ACK_TYPE.of(self.ack.raw())
                | f::C_PAGE_TABLE_LEVEL.of(level)
                | f::C_PDB_APERTURE.of(self.pdb.map_or(0, |p| p.target.raw()))
                | pdb_lo,
            f::D_PDB_ADDR_HI.checked(pdb_hi)? | f::D_OPERATION.of(operation.raw()),
        ])
    }

    fn unpack(w: [u32; 4], o: Operation) -> Option<Invalidate> {
        use field as f;
        let [a, b, c, d] = w;
        // CAST: every field below is at most seven bits.
        let replay = match Replay::from_raw(f::C_REPLAY.get(c))? {
            Replay::None => ReplayOp::None,
            Replay::Start => ReplayOp::Start,
            Replay::StartAckAll => ReplayOp::StartAckAll,
            Replay::CancelGlobal => ReplayOp::CancelGlobal,
            Replay::CancelTargeted => ReplayOp::CancelTargeted {
                gpc: f::A_CANCEL_TARGET_GPC_ID.get(a) as u8,
                client: f::A_CANCEL_TARGET_CLIENT_UNIT_ID.get(a) as u8,
            },
            Replay::CancelVaGlobal => ReplayOp::CancelVaGlobal {
                engine: f::A_CANCEL_MMU_ENGINE_ID.get(a) as u8,
                access: CancelAccess::from_raw(f::C_ACCESS_TYPE.get(c))?,
            },
        };
        let size = match replay {
            ReplayOp::CancelTargeted { .. } | ReplayOp::CancelVaGlobal { .. } => 0,
            _ => f::A_INVALIDATION_SIZE.get(a) as u8,
        };
        let level = match replay {
            ReplayOp::CancelVaGlobal { .. } => InvalidateLevel::All,
            _ => InvalidateLevel::from_raw(f::C_PAGE_TABLE_LEVEL.get(c))?,
        };
        let pdb = if f::C_PDB.is_set(c) {
            None
        } else {
            let lo = c & f::C_PDB_ADDR_LO.of(u32::MAX);
            Some(Pdb {
                target: MemTarget::from_raw(f::C_PDB_APERTURE.get(c))?,
                addr: join(lo, f::D_PDB_ADDR_HI.get(d)),
            })
        };
        let addr = join(a & f::A_TARGET_ADDR_LO.of(u32::MAX), b);
        Some(Invalidate {
            pdb,
            range: (o == Operation::TlbInvalidateTargeted).then_some((addr, size)),
            hub_only: f::C_GPC.is_set(c),
            level,
            ack: Ack::from_raw(f::C_ACK_TYPE.get(c))?,
            sysmembar: f::A_SYSMEMBAR.is_set(a),
            replay,
        })
    }
}
