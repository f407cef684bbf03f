// SPDX-License-Identifier: GPL-2.0
//! Register offsets of BAR0 that the duties use.

/// VF PRIV page of the physical function (hw-interface 1.6).
pub(super) const VF: u32 = 0xb8_0000;

// Identification (7.3), discovery (7.7), timer (7.5).
pub(super) const BOOT_0: u32 = 0x0;
pub(super) const BOOT_42: u32 = 0xa00;
pub(super) const LOCAL_MEMORY_RANGE: u32 = 0x10_0ce0;
pub(super) const DEVICE_INFO_CFG: u32 = 0x2_24fc;
pub(super) const DEVICE_INFO2: u32 = 0x2_2800;
pub(super) const TIME_0: u32 = 0x9400;
pub(super) const TIME_1: u32 = 0x9410;
pub(super) const INFO_FAULT_VECTOR: u32 = 0x10_0ee0;
pub(super) const FAULT_VECTORS: u32 = 0x10_0ee4;
pub(super) const BAR2_BLOCK: u32 = 0x1714;
/// Of the first copy engine; the others' follow.
pub(super) const CE_INTR_EN: u32 = 0x10_440c;
pub(super) const CE_INTR_STATUS: u32 = 0x10_4410;
pub(super) const CE_LAUNCHERR: u32 = 0x10_4418;
pub(super) const CE_NONSTALL_VECTOR: u32 = 0x10_4424;
pub(super) const CE_STALL_VECTOR: u32 = 0x10_442c;
pub(super) const CE_STRIDE: u32 = 0x80;

// Interrupt tree (7.4).
pub(super) const LEAF: u32 = VF + 0x1000;
pub(super) const LEAF_EN_SET: u32 = VF + 0x1200;
pub(super) const LEAF_EN_CLEAR: u32 = VF + 0x1400;
pub(super) const TOP_EN_SET: u32 = VF + 0x1608;
pub(super) const TOP_EN_CLEAR: u32 = VF + 0x1610;
pub(super) const LEAF_TRIGGER: u32 = VF + 0x1640;

// Fault rings (1.6).
pub(super) const FAULT_BUFFER: u32 = VF + 0x3000;
pub(super) const FAULT_STRIDE: u32 = 0x20;
pub(super) const FAULT_LO: u32 = 0x0;
pub(super) const FAULT_HI: u32 = 0x4;
pub(super) const FAULT_GET: u32 = 0x8;
pub(super) const FAULT_PUT: u32 = 0xc;
pub(super) const FAULT_SIZE: u32 = 0x10;
pub(super) const FAULT_ADDR_LO: u32 = VF + 0x3080;
pub(super) const FAULT_ADDR_HI: u32 = VF + 0x3084;
pub(super) const FAULT_INST_LO: u32 = VF + 0x3088;
pub(super) const FAULT_INST_HI: u32 = VF + 0x308c;
pub(super) const FAULT_INFO: u32 = VF + 0x3090;
pub(super) const FAULT_STATUS: u32 = VF + 0x3094;

// Access counters (3.3).
pub(super) const COUNTER_CONFIG: u32 = VF + 0x3100;
pub(super) const COUNTER_LO: u32 = VF + 0x3108;
pub(super) const COUNTER_HI: u32 = VF + 0x310c;
pub(super) const COUNTER_SIZE: u32 = VF + 0x3110;
pub(super) const COUNTER_GET: u32 = VF + 0x3114;
pub(super) const COUNTER_PUT: u32 = VF + 0x3118;
pub(super) const COUNTER_INFO: u32 = VF + 0x311c;

// Invalidate (2.4).
pub(super) const INVALIDATE_PDB: u32 = VF + 0x30a0;
pub(super) const INVALIDATE_UPPER_PDB: u32 = VF + 0x30a4;
pub(super) const INVALIDATE: u32 = VF + 0x30b0;
pub(super) const PF_VADDR: u32 = 0x10_0cb4;
pub(super) const PF_PDB: u32 = 0x10_0cb8;
pub(super) const PF_INVALIDATE: u32 = 0x10_0cbc;
pub(super) const PF_UPPER_VADDR: u32 = 0x10_0ce8;
pub(super) const PF_UPPER_PDB: u32 = 0x10_0cec;
pub(super) const PF_SIZE: u32 = 0x10_0e68;

/// Doorbell (6.5).
pub(crate) const DOORBELL: u32 = 0xbb_0090;
