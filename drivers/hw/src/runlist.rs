// SPDX-License-Identifier: GPL-2.0
//! Runlist entries, 16 bytes (hw-interface 6.7).

use crate::aperture::MemTarget;
use crate::bits::{join, split};

/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 16;

/// Channel entry, TYPE 0.
pub mod channel {
    crate::bits::fields32! {
        TYPE = (0, 0, 0);
        RUNQUEUE = (0, 1, 1);
        INST_TARGET = (0, 5, 4);
        USERD_TARGET = (0, 7, 6);
        USERD_PTR_LO = (0, 31, 8);
        USERD_PTR_HI = (1, 7, 0);
        CHID = (2, 11, 0);
        INST_PTR_LO = (2, 31, 12);
        INST_PTR_HI = (3, 31, 0);
    }
}

/// TSG header, TYPE 1.
pub mod tsg {
    crate::bits::fields32! {
        TYPE = (0, 0, 0);
        GFID = (0, 11, 4);
        TIMESLICE_SCALE = (0, 19, 16);
        TIMESLICE_TIMEOUT = (0, 31, 24);
        LENGTH = (1, 7, 0);
        TSGID = (2, 11, 0);
    }
}

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A channel of the TSG before it.
    Channel {
        /// Run queue.
        runqueue: bool,
        /// Channel number, 12 bits.
        chid: u16,
        /// Where the instance block is.
        inst_target: MemTarget,
        /// Its address, 4 KiB aligned.
        inst: u64,
        /// Where USERD is.
        userd_target: MemTarget,
        /// Its address, 512-byte aligned, 40 bits.
        userd: u64,
    },
    /// A TSG; `length` channels follow. Timeslice = (timeout << scale) × 1024 ns.
    Tsg {
        /// Function, 8 bits; 0 is the physical one.
        gfid: u8,
        /// TSG number, 12 bits.
        tsgid: u16,
        /// Channels, 1 to 128.
        length: u8,
        /// Timeslice scale, 4 bits.
        scale: u8,
        /// Timeslice.
        timeout: u8,
    },
}

impl Entry {
    /// The four words; `None` if a value does not fit or is unaligned.
    pub fn pack(&self) -> Option<[u32; 4]> {
        match *self {
            Entry::Channel {
                runqueue,
                chid,
                inst_target,
                inst,
                userd_target,
                userd,
            } => {
                if inst % 4096 != 0 || userd % 512 != 0 {
                    return None;
                }
                let (userd_lo, userd_hi) = split(userd);
                let (inst_lo, inst_hi) = split(inst);
                Some([
                    channel::RUNQUEUE.of(u32::from(runqueue))
                        | channel::INST_TARGET.of(inst_target.raw())
                        | channel::USERD_TARGET.of(userd_target.raw())
                        | userd_lo,
                    channel::USERD_PTR_HI.checked(userd_hi)?,
                    channel::CHID.checked(u32::from(chid))? | inst_lo,
                    inst_hi,
                ])
            }
            Entry::Tsg {
                gfid,
                tsgid,
                length,
                scale,
                timeout,
            } => {
                if length == 0 || length > 128 {
                    return None;
                }
                Some([
                    tsg::TYPE.of(1)
                        | tsg::GFID.of(u32::from(gfid))
                        | tsg::TIMESLICE_SCALE.checked(u32::from(scale))?
                        | tsg::TIMESLICE_TIMEOUT.of(u32::from(timeout)),
                    tsg::LENGTH.of(u32::from(length)),
                    tsg::TSGID.checked(u32::from(tsgid))?,
                    0,
                ])
            }
        }
    }

    /// The meaning of four words; `None` for a bad target, length or USERD alignment.
    pub fn unpack(w: [u32; 4]) -> Option<Entry> {
        let [a, b, c, d] = w;
        // CAST: each field is narrower than its type.
        if tsg::TYPE.is_set(a) {
            let length = tsg::LENGTH.get(b);
            return (1..=128).contains(&length).then_some(Entry::Tsg {
                gfid: tsg::GFID.get(a) as u8,
                tsgid: tsg::TSGID.get(c) as u16,
                length: length as u8,
                scale: tsg::TIMESLICE_SCALE.get(a) as u8,
                timeout: tsg::TIMESLICE_TIMEOUT.get(a) as u8,
            });
        }
        let userd = join(
            a & channel::USERD_PTR_LO.of(u32::MAX),
            channel::USERD_PTR_HI.get(b),
        );
        (userd % 512 == 0).then_some(Entry::Channel {
            runqueue: channel::RUNQUEUE.is_set(a),
            chid: channel::CHID.get(c) as u16,
            inst_target: MemTarget::from_raw(channel::INST_TARGET.get(a))?,
            inst: join(c & channel::INST_PTR_LO.of(u32::MAX), d),
            userd_target: MemTarget::from_raw(channel::USERD_TARGET.get(a))?,
            userd,
        })
    }
}
