// SPDX-License-Identifier: GPL-2.0
//! Copy-engine class C6B5 (hw-interface 5.2, 5.3): the methods that a UVM-type driver uses.

use crate::aperture::CeTarget;
use crate::bits::codes;

/// The class of GA100.
pub const CLASS: u32 = 0xc6b5;

/// Byte offsets of the methods.
pub mod method {
    /// Class id in 15:0 (a host method).
    pub const SET_OBJECT: u32 = 0x000;
    /// Semaphore address, upper.
    pub const SET_SEMAPHORE_A: u32 = 0x240;
    /// Semaphore address, lower.
    pub const SET_SEMAPHORE_B: u32 = 0x244;
    /// Semaphore payload.
    pub const SET_SEMAPHORE_PAYLOAD: u32 = 0x248;
    /// Memory of a physical source.
    pub const SET_SRC_PHYS_MODE: u32 = 0x260;
    /// Memory of a physical destination.
    pub const SET_DST_PHYS_MODE: u32 = 0x264;
    /// Starts.
    pub const LAUNCH_DMA: u32 = 0x300;
    /// Source, upper.
    pub const OFFSET_IN_UPPER: u32 = 0x400;
    /// Source, lower.
    pub const OFFSET_IN_LOWER: u32 = 0x404;
    /// Destination, upper.
    pub const OFFSET_OUT_UPPER: u32 = 0x408;
    /// Destination, lower.
    pub const OFFSET_OUT_LOWER: u32 = 0x40c;
    /// Bytes between source lines.
    pub const PITCH_IN: u32 = 0x410;
    /// Bytes between destination lines.
    pub const PITCH_OUT: u32 = 0x414;
    /// Bytes, or elements with REMAP.
    pub const LINE_LENGTH_IN: u32 = 0x418;
    /// Lines.
    pub const LINE_COUNT: u32 = 0x41c;
    /// Remap constant A.
    pub const SET_REMAP_CONST_A: u32 = 0x700;
    /// Remap constant B.
    pub const SET_REMAP_CONST_B: u32 = 0x704;
    /// Remap components.
    pub const SET_REMAP_COMPONENTS: u32 = 0x708;
}

/// SET_SEMAPHORE_A, OFFSET_IN_UPPER and OFFSET_OUT_UPPER.
pub mod upper {
    crate::bits::fields32! {
        UPPER = (0, 16, 0);
    }
}

/// SET_SRC_PHYS_MODE and SET_DST_PHYS_MODE.
pub mod phys_mode {
    crate::bits::fields32! {
        TARGET = (0, 1, 0);
        BASIC_KIND = (0, 5, 2);
        PEER_ID = (0, 8, 6);
        FLA = (0, 9, 9);
    }
}

/// LAUNCH_DMA.
pub mod launch {
    crate::bits::fields32! {
        DATA_TRANSFER_TYPE = (0, 1, 0);
        FLUSH_ENABLE = (0, 2, 2);
        SEMAPHORE_TYPE = (0, 4, 3);
        INTERRUPT_TYPE = (0, 6, 5);
        SRC_MEMORY_LAYOUT = (0, 7, 7);
        DST_MEMORY_LAYOUT = (0, 8, 8);
        MULTI_LINE_ENABLE = (0, 9, 9);
        REMAP_ENABLE = (0, 10, 10);
        FORCE_RMWDISABLE = (0, 11, 11);
        SRC_TYPE = (0, 12, 12);
        DST_TYPE = (0, 13, 13);
        SEMAPHORE_REDUCTION = (0, 17, 14);
        SEMAPHORE_REDUCTION_SIGN = (0, 18, 18);
        SEMAPHORE_REDUCTION_ENABLE = (0, 19, 19);
        VPRMODE = (0, 23, 22);
        FLUSH_TYPE = (0, 25, 25);
        DISABLE_PLC = (0, 26, 26);
    }
}

/// SET_REMAP_COMPONENTS.
pub mod remap {
    crate::bits::fields32! {
        DST_X = (0, 2, 0);
        DST_Y = (0, 6, 4);
        DST_Z = (0, 10, 8);
        DST_W = (0, 14, 12);
        COMPONENT_SIZE = (0, 17, 16);
        NUM_SRC_COMPONENTS = (0, 21, 20);
        NUM_DST_COMPONENTS = (0, 25, 24);
    }
}

codes! {
    /// DATA_TRANSFER_TYPE.
    Transfer {
        /// No data.
        None = 0,
        /// May overlap earlier copies of the channel.
        Pipelined = 1,
        /// Waits for earlier copies of the channel.
        NonPipelined = 2,
    }
}

codes! {
    /// SEMAPHORE_TYPE.
    SemaphoreType {
        /// None.
        None = 0,
        /// Four bytes.
        OneWord = 1,
        /// Sixteen bytes, with a timestamp.
        FourWords = 2,
        /// Conditional interrupt.
        ConditionalInterrupt = 3,
    }
}

codes! {
    /// INTERRUPT_TYPE.
    InterruptType {
        /// None.
        None = 0,
        /// Blocking.
        Blocking = 1,
        /// Non-blocking.
        NonBlocking = 2,
    }
}

codes! {
    /// SEMAPHORE_REDUCTION.
    Reduction {
        /// Minimum.
        Imin = 0x0,
        /// Maximum.
        Imax = 0x1,
        /// Exclusive or.
        Ixor = 0x2,
        /// And.
        Iand = 0x3,
        /// Or.
        Ior = 0x4,
        /// Sum.
        Iadd = 0x5,
        /// Increment, to 0 above the payload.
        Inc = 0x6,
        /// Decrement, to the payload below 0.
        Dec = 0x7,
        /// Sum of floats.
        Fadd = 0xa,
    }
}

codes! {
    /// DST_X to DST_W of the remap: what goes there.
    Component {
        /// Source component X.
        SrcX = 0,
        /// Source component Y.
        SrcY = 1,
        /// Source component Z.
        SrcZ = 2,
        /// Source component W.
        SrcW = 3,
        /// Constant A.
        ConstA = 4,
        /// Constant B.
        ConstB = 5,
        /// Nothing is written.
        NoWrite = 6,
    }
}

/// A LAUNCH_DMA word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Data.
    pub transfer: Transfer,
    /// Flush writes before the semaphore.
    pub flush: bool,
    /// The flush is GPU-local, else system.
    pub flush_gpu: bool,
    /// Semaphore.
    pub semaphore: SemaphoreType,
    /// Reduction instead of a release; `true`: unsigned.
    pub reduction: Option<(Reduction, bool)>,
    /// Interrupt.
    pub interrupt: InterruptType,
    /// The source is linear (pitch), else block-linear.
    pub src_pitch: bool,
    /// The destination is linear (pitch), else block-linear.
    pub dst_pitch: bool,
    /// LINE_COUNT lines, else one.
    pub multi_line: bool,
    /// Remap.
    pub remap: bool,
    /// No read-modify-write.
    pub force_rmw_disable: bool,
    /// The source is a physical address.
    pub src_physical: bool,
    /// The destination is a physical address.
    pub dst_physical: bool,
    /// No post-L2 compression.
    pub disable_plc: bool,
}

impl Launch {
    /// The data word.
    pub fn pack(&self) -> u32 {
        use launch as f;
        let reduction = self.reduction.map_or(0, |(r, unsigned)| {
            f::SEMAPHORE_REDUCTION.of(r.raw())
                | f::SEMAPHORE_REDUCTION_SIGN.of(u32::from(unsigned))
                | f::SEMAPHORE_REDUCTION_ENABLE.of(1)
        });
        f::DATA_TRANSFER_TYPE.of(self.transfer.raw())
            | f::FLUSH_ENABLE.of(u32::from(self.flush))
            | f::FLUSH_TYPE.of(u32::from(self.flush_gpu))
            | f::SEMAPHORE_TYPE.of(self.semaphore.raw())
            | reduction
            | f::INTERRUPT_TYPE.of(self.interrupt.raw())
            | f::SRC_MEMORY_LAYOUT.of(u32::from(self.src_pitch))
            | f::DST_MEMORY_LAYOUT.of(u32::from(self.dst_pitch))
            | f::MULTI_LINE_ENABLE.of(u32::from(self.multi_line))
            | f::REMAP_ENABLE.of(u32::from(self.remap))
            | f::FORCE_RMWDISABLE.of(u32::from(self.force_rmw_disable))
            | f::SRC_TYPE.of(u32::from(self.src_physical))
            | f::DST_TYPE.of(u32::from(self.dst_physical))
            | f::DISABLE_PLC.of(u32::from(self.disable_plc))
    }

    /// The meaning of a data word; `None` for codes that the reference does not list. VPRMODE is ignored.
    pub fn unpack(w: u32) -> Option<Launch> {
        use launch as f;
        let reduction = if f::SEMAPHORE_REDUCTION_ENABLE.is_set(w) {
            let unsigned = f::SEMAPHORE_REDUCTION_SIGN.is_set(w);
            Some((
                Reduction::from_raw(f::SEMAPHORE_REDUCTION.get(w))?,
                unsigned,
            ))
        } else {
            None
        };
        Some(Launch {
            transfer: Transfer::from_raw(f::DATA_TRANSFER_TYPE.get(w))?,
            flush: f::FLUSH_ENABLE.is_set(w),
            flush_gpu: f::FLUSH_TYPE.is_set(w),
            semaphore: SemaphoreType::from_raw(f::SEMAPHORE_TYPE.get(w))?,
            reduction,
            interrupt: InterruptType::from_raw(f::INTERRUPT_TYPE.get(w))?,
            src_pitch: f::SRC_MEMORY_LAYOUT.is_set(w),
            dst_pitch: f::DST_MEMORY_LAYOUT.is_set(w),
            multi_line: f::MULTI_LINE_ENABLE.is_set(w),
            remap: f::REMAP_ENABLE.is_set(w),
            force_rmw_disable: f::FORCE_RMWDISABLE.is_set(w),
            src_physical: f::SRC_TYPE.is_set(w),
            dst_physical: f::DST_TYPE.is_set(w),
            disable_plc: f::DISABLE_PLC.is_set(w),
        })
    }
}

/// The PHYS_MODE word for `target`; `None` for a peer id above 7. The peer id is zero for other targets.
pub fn pack_phys_mode(target: CeTarget, peer: u8) -> Option<u32> {
    let peer = match target {
        CeTarget::Peer => phys_mode::PEER_ID.checked(u32::from(peer))?,
        _ => 0,
    };
    Some(phys_mode::TARGET.of(target.raw()) | peer)
}

/// A SET_REMAP_COMPONENTS word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remap {
    /// What goes to X, Y, Z, W.
    pub dst: [Component; 4],
    /// Bytes of a component, 1 to 4.
    pub component_bytes: u8,
    /// Source components, 1 to 4.
    pub num_src: u8,
    /// Destination components, 1 to 4.
    pub num_dst: u8,
}

impl Remap {
    /// The data word; `None` for a count or size that is not 1 to 4.
    pub fn pack(&self) -> Option<u32> {
        use remap as f;
        let minus_one = |n: u8| u32::from(n).checked_sub(1);
        let [x, y, z, w] = self.dst;
        Some(
            f::DST_X.of(x.raw())
                | f::DST_Y.of(y.raw())
                | f::DST_Z.of(z.raw())
                | f::DST_W.of(w.raw())
                | f::COMPONENT_SIZE.checked(minus_one(self.component_bytes)?)?
                | f::NUM_SRC_COMPONENTS.checked(minus_one(self.num_src)?)?
                | f::NUM_DST_COMPONENTS.checked(minus_one(self.num_dst)?)?,
        )
    }

    /// The meaning of a data word; `None` for a component code 7.
    pub fn unpack(w: u32) -> Option<Remap> {
        use remap as f;
        // CAST: two bits and one.
        let plus_one = |v: u32| (v as u8).wrapping_add(1);
        Some(Remap {
            dst: [
                Component::from_raw(f::DST_X.get(w))?,
                Component::from_raw(f::DST_Y.get(w))?,
                Component::from_raw(f::DST_Z.get(w))?,
                Component::from_raw(f::DST_W.get(w))?,
            ],
            component_bytes: plus_one(f::COMPONENT_SIZE.get(w)),
            num_src: plus_one(f::NUM_SRC_COMPONENTS.get(w)),
            num_dst: plus_one(f::NUM_DST_COMPONENTS.get(w)),
        })
    }
}
