// SPDX-License-Identifier: GPL-2.0
//! VF PRIV of the physical function, BAR0 + 0xB80000: interrupts, fault rings, invalidate, access counters, BAR blocks
//! (hw-interface 1.6, 2.4, 3.3, 7.2, 7.4, 7.6), and the usermode block (6.5).

/// Base of the region.
pub const VF: u32 = 0xb8_0000;
/// Base of the usermode block.
pub const USERMODE: u32 = 0xbb_0000;
/// Index of the non-replayable ring.
pub const NON_REPLAYABLE: u32 = 0;
/// Index of the replayable ring.
pub const REPLAYABLE: u32 = 1;

crate::bits::registers! {
    /// BAR1 block, alias.
    bar1_block @ 0xb8_0f40 {
        PTR = (27, 0);
        TARGET = (29, 28);
        MODE = (31, 31);
    }
    /// BAR2 block, alias.
    bar2_block @ 0xb8_0f48 {
        PTR = (27, 0);
        TARGET = (29, 28);
        MODE = (31, 31);
    }
    /// L2: drop system lines.
    l2_sysmem_invalidate @ 0xb8_0f00 {
        PENDING = (0, 0);
        OUTSTANDING = (1, 1);
    }
    /// L2: drop peer lines.
    l2_peermem_invalidate @ 0xb8_0f04 {
        PENDING = (0, 0);
        OUTSTANDING = (1, 1);
    }
    /// Pending vectors; write 1 to clear.
    leaf @ 0xb8_1000 [8; 4] {
        VECTORS = (31, 0);
    }
    /// Enable vectors.
    leaf_en_set @ 0xb8_1200 [8; 4] {
        VECTORS = (31, 0);
    }
    /// Disable vectors.
    leaf_en_clear @ 0xb8_1400 [8; 4] {
        VECTORS = (31, 0);
    }
    /// Subtrees with something pending and enabled.
    top @ 0xb8_1600 {
        SUBTREES = (31, 0);
    }
    /// Enable subtrees.
    top_en_set @ 0xb8_1608 {
        SUBTREES = (31, 0);
    }
    /// Disable subtrees.
    top_en_clear @ 0xb8_1610 {
        SUBTREES = (31, 0);
    }
    /// Software trigger.
    leaf_trigger @ 0xb8_1640 {
        VECTOR = (11, 0);
    }
    /// Fault ring: place, low.
    fault_buffer_lo @ 0xb8_3000 [2; 0x20] {
        ADDR_MODE = (0, 0);
        PHYS_APERTURE = (2, 1);
        PHYS_VOL = (3, 3);
        ADDR = (31, 12);
    }
    /// Fault ring: place, high.
    fault_buffer_hi @ 0xb8_3004 [2; 0x20] {
        ADDR = (31, 0);
    }
    /// Fault ring: GET. Bits 30 and 31: write 1 to clear.
    fault_buffer_get @ 0xb8_3008 [2; 0x20] {
        PTR = (19, 0);
        GETPTR_CORRUPTED = (30, 30);
        OVERFLOW = (31, 31);
    }
    /// Fault ring: PUT, read only.
    fault_buffer_put @ 0xb8_300c [2; 0x20] {
        PTR = (19, 0);
        GETPTR_CORRUPTED = (30, 30);
        OVERFLOW = (31, 31);
    }
    /// Fault ring: entries.
    fault_buffer_size @ 0xb8_3010 [2; 0x20] {
        VAL = (19, 0);
        OVERFLOW_INTR = (29, 29);
        SET_DEFAULT = (30, 30);
        ENABLE = (31, 31);
    }
    /// Prefetch faults.
    page_fault_ctrl @ 0xb8_3070 {
        PRF_FILTER = (1, 0);
    }
    /// Info fault: address, low.
    fault_addr_lo @ 0xb8_3080 {
        PHYS_APERTURE = (1, 0);
        ADDR = (31, 12);
    }
    /// Info fault: address, high.
    fault_addr_hi @ 0xb8_3084 {
        ADDR = (31, 0);
    }
    /// Info fault: instance, low.
    fault_inst_lo @ 0xb8_3088 {
        ENGINE_ID = (8, 0);
        APERTURE = (11, 10);
        ADDR = (31, 12);
    }
    /// Info fault: instance, high.
    fault_inst_hi @ 0xb8_308c {
        ADDR = (31, 0);
    }
    /// Info fault: as word 7 of a packet.
    fault_info @ 0xb8_3090 {
        FAULT_TYPE = (4, 0);
        REPLAYABLE_FAULT = (7, 7);
        CLIENT = (14, 8);
        ACCESS_TYPE = (19, 16);
        MMU_CLIENT_TYPE = (20, 20);
        GPC_ID = (28, 24);
        PROTECTED_MODE = (29, 29);
        REPLAYABLE_FAULT_EN = (30, 30);
        VALID = (31, 31);
    }
    /// Fault status.
    fault_status @ 0xb8_3094 {
        DROPPED = (7, 0);
        REPLAYABLE = (8, 8);
        NON_REPLAYABLE = (9, 9);
        REPLAYABLE_ERROR = (10, 10);
        NON_REPLAYABLE_ERROR = (11, 11);
        REPLAYABLE_OVERFLOW = (12, 12);
        NON_REPLAYABLE_OVERFLOW = (13, 13);
        REPLAYABLE_GETPTR_CORRUPTED = (14, 14);
        NON_REPLAYABLE_GETPTR_CORRUPTED = (15, 15);
        BUSY_TYPE = (29, 28);
        BUSY = (30, 30);
        VALID = (31, 31);
    }
    /// Invalidate: page directory >> 12, and whether it is in system memory.
    invalidate_pdb @ 0xb8_30a0 {
        APERTURE = (1, 1);
        ADDR = (31, 4);
    }
    /// Invalidate: page directory, upper bits.
    invalidate_upper_pdb @ 0xb8_30a4 {
        ADDR = (19, 0);
    }
    /// Invalidate: starts; TRIGGER reads 1 while it runs.
    invalidate @ 0xb8_30b0 {
        ALL_VA = (0, 0);
        ALL_PDB = (1, 1);
        HUBTLB_ONLY = (2, 2);
        REPLAY = (5, 3);
        SYS_MEMBAR = (6, 6);
        ACK = (8, 7);
        CANCEL_CLIENT_ID = (14, 9);
        CANCEL_GPC_ID = (19, 15);
        CANCEL_CLIENT_TYPE = (20, 20);
        USE_PASID = (21, 21);
        USE_SIZE = (22, 22);
        PROP_FLUSH = (23, 23);
        CACHE_LEVEL = (26, 24);
        TRIGGER = (31, 31);
    }
    /// Access counters: configuration.
    counter_config @ 0xb8_3100 {
        THRESHOLD = (15, 0);
        MIMC_GRANULARITY = (17, 16);
        MOMC_GRANULARITY = (19, 18);
        GVA_NOTIFY = (20, 20);
        COUNT_PD = (30, 30);
        COUNT_PCIE = (31, 31);
    }
    /// Access counters: ring, low.
    counter_buffer_lo @ 0xb8_3108 {
        EN = (0, 0);
        BASE = (31, 12);
    }
    /// Access counters: ring, high.
    counter_buffer_hi @ 0xb8_310c {
        BASE = (31, 0);
    }
    /// Access counters: entries, read only.
    counter_buffer_size @ 0xb8_3110 {
        SIZE = (31, 0);
    }
    /// Access counters: GET.
    counter_buffer_get @ 0xb8_3114 {
        PTR = (11, 0);
    }
    /// Access counters: PUT, read only.
    counter_buffer_put @ 0xb8_3118 {
        PTR = (11, 0);
    }
    /// Access counters: state.
    counter_buffer_info @ 0xb8_311c {
        FULL = (0, 0);
        PUSHED = (1, 1);
        WRITE_NACK = (24, 24);
    }
    /// Usermode: class id.
    usermode_cfg0 @ 0xbb_0000 {
        CLASS_ID = (15, 0);
    }
    /// Usermode: time, low.
    usermode_time_0 @ 0xbb_0080 {
        NSEC = (31, 5);
    }
    /// Usermode: time, high.
    usermode_time_1 @ 0xbb_0084 {
        NSEC = (28, 0);
    }
    /// Usermode: doorbell; the token of `host::doorbell`.
    usermode_doorbell @ 0xbb_0090 {
        CHID = (11, 0);
        RUNLIST = (22, 16);
    }
}
