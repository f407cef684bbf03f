// SPDX-License-Identifier: GPL-2.0
//! Offsets of the documented registers in BAR0 (GA100 manuals; collected in
//! `reference/hw-interface.md`, section numbers below), and where this device puts the blocks
//! that PTOP announces.
//!
//! The model keeps its own copy of these numbers on purpose: driver and model then cannot share a
//! typing mistake. `tests/loopback` runs the driver, with its own numbers, against this model.

/// PMC_BOOT_0 (7.3).
pub const PMC_BOOT_0: u32 = 0x0000;
/// PMC_BOOT_1.
pub const PMC_BOOT_1: u32 = 0x0004;
/// PMC_BOOT_42.
pub const PMC_BOOT_42: u32 = 0x0a00;
/// PMC_ENABLE, DEVICE_ENABLE.
pub const PMC_ENABLE: u32 = 0x0200;
/// DEVICE_ENABLE.
pub const PMC_DEVICE_ENABLE: u32 = 0x0600;
/// BAR0 window (7.2).
pub const BAR0_WINDOW: u32 = 0x1700;
/// BAR1 block.
pub const BAR1_BLOCK: u32 = 0x1704;
/// Bind status.
pub const BIND_STATUS: u32 = 0x1710;
/// BAR2 block.
pub const BAR2_BLOCK: u32 = 0x1714;
/// VF aliases of the three above.
pub const VF_BAR1_BLOCK: u32 = 0xb8_0f40;
/// BAR2 block, VF alias.
pub const VF_BAR2_BLOCK: u32 = 0xb8_0f48;
/// Bind status, VF alias.
pub const VF_BIND_STATUS: u32 = 0xb8_0f50;
/// L2 sysmem invalidate (7.6).
pub const VF_L2_SYSMEM_INVALIDATE: u32 = 0xb8_0f00;
/// L2 peermem invalidate.
pub const VF_L2_PEERMEM_INVALIDATE: u32 = 0xb8_0f04;
/// PRAMIN window.
pub const PRAMIN: u32 = 0x70_0000;
/// Size of the PRAMIN window.
pub const PRAMIN_BYTES: u32 = 0x10_0000;

/// PTIMER (7.5).
pub const PTIMER_NUMERATOR: u32 = 0x9200;
/// PTIMER denominator.
pub const PTIMER_DENOMINATOR: u32 = 0x9210;
/// PTIMER time, low.
pub const PTIMER_TIME_0: u32 = 0x9400;
/// PTIMER time, high.
pub const PTIMER_TIME_1: u32 = 0x9410;

/// LOCAL_MEMORY_RANGE (7.3).
pub const LOCAL_MEMORY_RANGE: u32 = 0x10_0ce0;
/// Vector of the info fault (1.6).
pub const FAULT_INFO_VECTOR: u32 = 0x10_0ee0;
/// Error and notify vectors of the fault buffers.
pub const FAULT_VECTORS: u32 = 0x10_0ee4;

/// PF-only invalidate (2.4).
pub const PF_INVALIDATE_VADDR: u32 = 0x10_0cb4;
/// Page directory, low.
pub const PF_INVALIDATE_PDB: u32 = 0x10_0cb8;
/// Trigger.
pub const PF_INVALIDATE: u32 = 0x10_0cbc;
/// Address, upper part.
pub const PF_INVALIDATE_UPPER_VADDR: u32 = 0x10_0ce8;
/// Page directory, upper part.
pub const PF_INVALIDATE_UPPER_PDB: u32 = 0x10_0cec;
/// Log2 of the range in 4 KiB pages.
pub const PF_INVALIDATE_SIZE: u32 = 0x10_0e68;

/// Copy-engine block (5.6), stride [`CE_STRIDE`].
pub const CE_STATUS: u32 = 0x10_4400;
/// Interrupt enable.
pub const CE_INTR_EN: u32 = 0x10_440c;
/// Interrupt status.
pub const CE_INTR_STATUS: u32 = 0x10_4410;
/// Launch error code.
pub const CE_LAUNCHERR: u32 = 0x10_4418;
/// Non-stall vector.
pub const CE_NONSTALL_VECTOR: u32 = 0x10_4424;
/// Stall vector.
pub const CE_STALL_VECTOR: u32 = 0x10_442c;
/// From one engine's block to the next.
pub const CE_STRIDE: u32 = 0x80;

/// Device info (7.7).
pub const DEVICE_INFO_CFG: u32 = 0x02_24fc;
/// First row.
pub const DEVICE_INFO2: u32 = 0x02_2800;

/// Interrupt constants (7.4).
pub const INTR_STALL_BASE: u32 = 0xb6_6880;
/// Non-stall base vector.
pub const INTR_NONSTALL_BASE: u32 = 0xb6_6884;

/// VF PRIV region.
pub const VF: u32 = 0xb8_0000;
/// Interrupt tree (7.4): pending.
pub const LEAF: u32 = VF + 0x1000;
/// Enable, set.
pub const LEAF_EN_SET: u32 = VF + 0x1200;
/// Enable, clear.
pub const LEAF_EN_CLEAR: u32 = VF + 0x1400;
/// Leaves.
pub const LEAVES: u32 = 8;
/// Top.
pub const TOP: u32 = VF + 0x1600;
/// Top enable, set.
pub const TOP_EN_SET: u32 = VF + 0x1608;
/// Top enable, clear.
pub const TOP_EN_CLEAR: u32 = VF + 0x1610;
/// Software trigger.
pub const LEAF_TRIGGER: u32 = VF + 0x1640;
/// Scratch words.
pub const SCRATCH: u32 = VF + 0x2100;

/// Fault buffers (1.6), stride [`FAULT_STRIDE`].
pub const FAULT_LO: u32 = VF + 0x3000;
/// From one buffer's registers to the next.
pub const FAULT_STRIDE: u32 = 0x20;
/// Prefetch filter.
pub const PAGE_FAULT_CTRL: u32 = VF + 0x3070;
/// Info fault address.
pub const FAULT_ADDR_LO: u32 = VF + 0x3080;
/// Info fault address, high.
pub const FAULT_ADDR_HI: u32 = VF + 0x3084;
/// Info fault instance.
pub const FAULT_INST_LO: u32 = VF + 0x3088;
/// Info fault instance, high.
pub const FAULT_INST_HI: u32 = VF + 0x308c;
/// Info fault details.
pub const FAULT_INFO: u32 = VF + 0x3090;
/// Fault status.
pub const FAULT_STATUS: u32 = VF + 0x3094;
/// Register invalidate (2.4).
pub const INVALIDATE_PDB: u32 = VF + 0x30a0;
/// Page directory, upper part.
pub const INVALIDATE_UPPER_PDB: u32 = VF + 0x30a4;
/// Trigger.
pub const INVALIDATE: u32 = VF + 0x30b0;

/// Access counters (3.3).
pub const COUNTER_CONFIG: u32 = VF + 0x3100;
/// Buffer, low and enable.
pub const COUNTER_LO: u32 = VF + 0x3108;
/// Buffer, high.
pub const COUNTER_HI: u32 = VF + 0x310c;
/// Entries.
pub const COUNTER_SIZE: u32 = VF + 0x3110;
/// Get.
pub const COUNTER_GET: u32 = VF + 0x3114;
/// Put.
pub const COUNTER_PUT: u32 = VF + 0x3118;
/// Info.
pub const COUNTER_INFO: u32 = VF + 0x311c;

/// Usermode block (6.5).
pub const USERMODE: u32 = 0xbb_0000;
/// Its size.
pub const USERMODE_BYTES: u32 = 0x1_0000;

/// PBDMA blocks (6.7), stride [`PBDMA_STRIDE`].
pub const PBDMA: u32 = 0x04_0000;
/// From one PBDMA to the next.
pub const PBDMA_STRIDE: u32 = 0x800;

/// This device: first runlist block; announced by PTOP.
pub const RUNLIST: u32 = 0x60_0000;
/// From one runlist block to the next.
pub const RUNLIST_STRIDE: u32 = 0x400;
/// This device: first channel RAM; announced by CHANNEL_CONFIG.
pub const CHRAM: u32 = 0x62_0000;
/// Log2 of the channels of a runlist.
pub const CHANNELS_LOG2: u32 = 11;
/// From one channel RAM to the next: 2048 words.
pub const CHRAM_STRIDE: u32 = 4 << CHANNELS_LOG2;

/// Vectors (7.4).
pub mod vector {
    /// Replayable fault.
    pub const REPLAYABLE: u32 = 64;
    /// Access counter.
    pub const ACCESS_COUNTER: u32 = 72;
    /// Replayable error.
    pub const REPLAYABLE_ERROR: u32 = 131;
    /// Non-replayable fault.
    pub const NON_REPLAYABLE: u32 = 132;
    /// Non-replayable error.
    pub const NON_REPLAYABLE_ERROR: u32 = 133;
    /// Info fault.
    pub const INFO: u32 = 134;
    /// Runlist `r`: this plus `r`.
    pub const RUNLIST: u32 = 160;
    /// First stalling engine vector; copy engine `i` uses this plus `i`.
    pub const STALL: u32 = 192;
}
