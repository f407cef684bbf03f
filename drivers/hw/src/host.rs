// SPDX-License-Identifier: GPL-2.0
//! Host: methods, pushbuffer headers, GPFIFO entries, USERD, semaphores, doorbell (hw-interface 5.5, 6.1 to 6.5).

use crate::bits::codes;

/// Byte offsets of the host methods (6.3). From 0x100 on methods belong to the engine.
pub mod method {
    /// Class of a subchannel.
    pub const SET_OBJECT: u32 = 0x00;
    /// Does nothing.
    pub const NOP: u32 = 0x08;
    /// Raises the runlist's non-stall vector.
    pub const NON_STALL_INT: u32 = 0x20;
    /// Flushes.
    pub const FB_FLUSH: u32 = 0x24;
    /// First of four (`memop`).
    pub const MEM_OP_A: u32 = 0x28;
    /// Second.
    pub const MEM_OP_B: u32 = 0x2c;
    /// Third.
    pub const MEM_OP_C: u32 = 0x30;
    /// Fourth; starts.
    pub const MEM_OP_D: u32 = 0x34;
    /// Reference count.
    pub const SET_REFERENCE: u32 = 0x50;
    /// Semaphore address, low.
    pub const SEM_ADDR_LO: u32 = 0x5c;
    /// Semaphore address, high.
    pub const SEM_ADDR_HI: u32 = 0x60;
    /// Semaphore payload, low.
    pub const SEM_PAYLOAD_LO: u32 = 0x64;
    /// Semaphore payload, high.
    pub const SEM_PAYLOAD_HI: u32 = 0x68;
    /// Semaphore operation.
    pub const SEM_EXECUTE: u32 = 0x6c;
    /// Waits for the engine.
    pub const WFI: u32 = 0x78;
    /// Gives the engine up.
    pub const YIELD: u32 = 0x80;
    /// Clears a faulted channel (a software trap on Ampere).
    pub const CLEAR_FAULTED: u32 = 0x84;
    /// First method of the engine.
    pub const FIRST_ENGINE: u32 = 0x100;
}

/// SET_OBJECT.
pub mod set_object {
    crate::bits::fields32! {
        NVCLASS = (0, 15, 0);
        ENGINE = (0, 20, 16);
    }
}

/// SEM_ADDR_LO and SEM_ADDR_HI.
pub mod sem_addr {
    crate::bits::fields32! {
        LO = (0, 31, 2);
        HI = (1, 7, 0);
    }
}

/// SEM_EXECUTE.
pub mod sem_execute {
    crate::bits::fields32! {
        OPERATION = (0, 2, 0);
        ACQUIRE_SWITCH_TSG = (0, 12, 12);
        RELEASE_WFI = (0, 20, 20);
        PAYLOAD_SIZE = (0, 24, 24);
        RELEASE_TIMESTAMP = (0, 25, 25);
        REDUCTION = (0, 30, 27);
        REDUCTION_FORMAT = (0, 31, 31);
    }
}

/// WFI.
pub mod wfi {
    crate::bits::fields32! {
        SCOPE = (0, 0, 0);
    }
}

/// YIELD.
pub mod yield_ {
    crate::bits::fields32! {
        OP = (0, 1, 0);
    }
}

codes! {
    /// OPERATION of SEM_EXECUTE.
    SemOperation {
        /// Waits until equal.
        Acquire = 0,
        /// Writes.
        Release = 1,
        /// Waits until greater or equal.
        AcqStrictGeq = 2,
        /// Waits until greater or equal, modulo 2^n.
        AcqCircGeq = 3,
        /// Waits until a common bit.
        AcqAnd = 4,
        /// Waits until the NOR with the payload holds; not used here.
        AcqNor = 5,
        /// Read, modify, write.
        Reduction = 6,
    }
}

/// Pushbuffer header (6.2).
pub mod header {
    crate::bits::fields32! {
        ADDRESS = (0, 11, 0);
        SUBCHANNEL = (0, 15, 13);
        COUNT = (0, 28, 16);
        IMMD_DATA = (0, 28, 16);
        TERT_OP = (0, 17, 16);
        SEC_OP = (0, 31, 29);
    }
}

codes! {
    /// SEC_OP of a header.
    SecOp {
        /// 0 is a NOP; else subdevice masks, by TERT_OP.
        Grp0 = 0,
        /// Data words for a method and those after it.
        IncMethod = 1,
        /// All data words for one method.
        NonIncMethod = 3,
        /// The data is in the header.
        ImmdDataMethod = 4,
        /// The first word for the method, the others for the next.
        OneInc = 5,
        /// Ends the segment.
        EndPbSegment = 7,
    }
}

/// A pushbuffer header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// Does nothing, no data words.
    Nop,
    /// Subdevice mask operation; raw TERT_OP. No data words, no meaning with one GPU.
    Subdevice(u8),
    /// `count` data words; how they are spread is `op`: one of the three method operations.
    Method {
        /// Operation with data words.
        op: SecOp,
        /// Subchannel, 3 bits.
        subchannel: u8,
        /// Byte offset of the method, a multiple of 4 below 0x4000.
        method: u32,
        /// Data words, 13 bits.
        count: u32,
    },
    /// A method with its data in the header.
    Immediate {
        /// Subchannel, 3 bits.
        subchannel: u8,
        /// Byte offset of the method, a multiple of 4 below 0x4000.
        method: u32,
        /// Data, 13 bits.
        data: u32,
    },
    /// Ends the segment.
    EndSegment,
}

impl Header {
    /// The word; `None` if a value does not fit its field.
    pub fn pack(&self) -> Option<u32> {
        let place = |op: SecOp, subchannel: u8, method: u32, rest: u32| {
            if method % 4 != 0 {
                return None;
            }
            Some(
                header::SEC_OP.of(op.raw())
                    | header::SUBCHANNEL.checked(u32::from(subchannel))?
                    | header::ADDRESS.checked(method >> 2)?
                    | header::COUNT.checked(rest)?,
            )
        };
        match *self {
            Header::Nop => Some(0),
            Header::Subdevice(op) if op != 0 => header::TERT_OP.checked(u32::from(op)),
            Header::Subdevice(_) => None,
            Header::Method {
                op: op @ (SecOp::IncMethod | SecOp::NonIncMethod | SecOp::OneInc),
                subchannel,
                method,
                count,
            } => place(op, subchannel, method, count),
            Header::Method { .. } => None,
            Header::Immediate {
                subchannel,
                method,
                data,
            } => place(SecOp::ImmdDataMethod, subchannel, method, data),
            Header::EndSegment => Some(header::SEC_OP.of(SecOp::EndPbSegment.raw())),
        }
    }

    /// The meaning of a word; `None` for SEC_OP 2 and 6.
    pub fn unpack(w: u32) -> Option<Header> {
        // CAST: three bits and two.
        let subchannel = header::SUBCHANNEL.get(w) as u8;
        let method = header::ADDRESS.get(w) << 2;
        let rest = header::COUNT.get(w);
        Some(match SecOp::from_raw(header::SEC_OP.get(w))? {
            SecOp::Grp0 if header::TERT_OP.is_set(w) => {
                Header::Subdevice(header::TERT_OP.get(w) as u8)
            }
            SecOp::Grp0 => Header::Nop,
            SecOp::EndPbSegment => Header::EndSegment,
            SecOp::ImmdDataMethod => Header::Immediate {
                subchannel,
                method,
                data: rest,
            },
            op => Header::Method {
                op,
                subchannel,
                method,
                count: rest,
            },
        })
    }
}

/// GPFIFO entry, two words (6.1).
pub mod gp_entry {
    crate::bits::fields32! {
        FETCH = (0, 0, 0);
        GET = (0, 31, 2);
        GET_HI = (1, 7, 0);
        OPCODE = (1, 7, 0);
        LEVEL = (1, 9, 9);
        LENGTH = (1, 30, 10);
        SYNC = (1, 31, 31);
    }
}

codes! {
    /// OPCODE of a GPFIFO entry without a segment.
    GpOpcode {
        /// Does nothing.
        Nop = 0,
        /// An error.
        Illegal = 1,
        /// Checks the GPFIFO's CRC.
        GpCrc = 2,
        /// Checks the pushbuffer's CRC.
        PbCrc = 3,
    }
}

/// A GPFIFO entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpEntry {
    /// A pushbuffer segment.
    Segment {
        /// Its address, 4-byte aligned, 40 bits.
        addr: u64,
        /// Its words, 1 to 2^21 − 1.
        words: u32,
        /// A subroutine.
        subroutine: bool,
        /// Wait for earlier data before fetching.
        sync: bool,
    },
    /// A control entry.
    Control(GpOpcode),
}

impl GpEntry {
    /// The two words; `None` if a value does not fit.
    pub fn pack(&self) -> Option<[u32; 2]> {
        use gp_entry as f;
        match *self {
            GpEntry::Control(op) => Some([0, f::OPCODE.of(op.raw())]),
            GpEntry::Segment {
                addr,
                words,
                subroutine,
                sync,
            } => {
                if addr % 4 != 0 || words == 0 {
                    return None;
                }
                let (lo, hi) = crate::bits::split(addr);
                Some([
                    lo,
                    f::GET_HI.checked(hi)?
                        | f::LENGTH.checked(words)?
                        | f::LEVEL.of(u32::from(subroutine))
                        | f::SYNC.of(u32::from(sync)),
                ])
            }
        }
    }

    /// The meaning of two words; `None` for an unknown opcode.
    pub fn unpack(w: [u32; 2]) -> Option<GpEntry> {
        use gp_entry as f;
        let [lo, hi] = w;
        let words = f::LENGTH.get(hi);
        if words == 0 {
            return GpOpcode::from_raw(f::OPCODE.get(hi)).map(GpEntry::Control);
        }
        Some(GpEntry::Segment {
            addr: crate::bits::join(lo & f::GET.of(u32::MAX), f::GET_HI.get(hi)),
            words,
            subroutine: f::LEVEL.is_set(hi),
            sync: f::SYNC.is_set(hi),
        })
    }
}

/// USERD (6.4), byte offsets.
pub mod userd {
    /// Bytes of a channel's USERD; also its alignment.
    pub const BYTES: usize = 512;
    /// Written back when CONFIG.USERD_WRITEBACK is set.
    pub const GP_GET: usize = 0x88;
    /// Written by software.
    pub const GP_PUT: usize = 0x8c;
}

/// Semaphores in memory (5.5), byte offsets. The timestamp is written before the payload.
pub mod semaphore {
    /// Bytes without a timestamp and with a 32-bit payload; also the alignment.
    pub const ONE_WORD_BYTES: usize = 4;
    /// Bytes with a timestamp; also the alignment.
    pub const TIMESTAMP_BYTES: usize = 16;
    /// Payload.
    pub const PAYLOAD: usize = 0;
    /// 64-bit timestamp, ns.
    pub const TIMESTAMP: usize = 8;
}

/// Doorbell token of Turing and later (6.5).
pub mod doorbell {
    crate::bits::fields32! {
        CHID = (0, 11, 0);
        RUNLIST = (0, 22, 16);
    }

    /// The token; `None` if a value does not fit.
    pub const fn token(chid: u32, runlist: u32) -> Option<u32> {
        match (CHID.checked(chid), RUNLIST.checked(runlist)) {
            (Some(c), Some(r)) => Some(c | r),
            _ => None,
        }
    }
}
