// SPDX-License-Identifier: GPL-2.0
//! Identification, windows, timer, discovery, frame buffer, copy-engine block (hw-interface 2.4, 5.6, 7.2, 7.3, 7.5, 7.7).

crate::bits::registers! {
    /// Chip id, old form.
    pmc_boot_0 @ 0x0000 {
        MINOR = (3, 0);
        MAJOR = (7, 4);
        ARCH_1 = (8, 8);
        IMPLEMENTATION = (23, 20);
        ARCHITECTURE = (28, 24);
    }
    /// vGPU state.
    pmc_boot_1 @ 0x0004 {
        VGPU = (17, 16);
    }
    /// Chip id.
    pmc_boot_42 @ 0x0a00 {
        EXT_MINOR = (11, 8);
        MINOR = (15, 12);
        MAJOR = (19, 16);
        IMPLEMENTATION = (23, 20);
        ARCHITECTURE = (29, 24);
        CHIP_ID = (28, 20);
    }
    /// Window of 1 MiB at 0x700000.
    bar0_window @ 0x1700 {
        BASE = (23, 0);
        TARGET = (25, 24);
    }
    /// Instance block of BAR1.
    bar1_block @ 0x1704 {
        PTR = (27, 0);
        TARGET = (29, 28);
        MODE = (31, 31);
    }
    /// Instance block of BAR2.
    bar2_block @ 0x1714 {
        PTR = (27, 0);
        TARGET = (29, 28);
        MODE = (31, 31);
    }
    /// Time, low: 31:5 are the nanoseconds' bits 31:5.
    ptimer_time_0 @ 0x9400 {
        NSEC = (31, 5);
    }
    /// Time, high: ns bits 60:32.
    ptimer_time_1 @ 0x9410 {
        NSEC = (28, 0);
    }
    /// Shape of the device-info table.
    device_info_cfg @ 0x2_24fc {
        VERSION = (3, 0);
        MAX_DEVICES = (15, 4);
        ROWS_PER_DEVICE = (19, 16);
        NUM_ROWS = (31, 20);
    }
    /// Memory size: MiB = MAG << SCALE.
    local_memory_range @ 0x10_0ce0 {
        LOWER_SCALE = (3, 0);
        LOWER_MAG = (9, 4);
        ECC = (30, 30);
    }
    /// Vector of the info fault.
    fault_info_vector @ 0x10_0ee0 {
        VECTOR = (15, 0);
    }
    /// Vectors of the fault rings.
    fault_vectors @ 0x10_0ee4 [2; 4] {
        ERROR = (15, 0);
        NOTIFY = (31, 16);
    }
    /// PF-only invalidate: address bits 39:12.
    pf_invalidate_vaddr @ 0x10_0cb4 {
        ADDR = (31, 4);
    }
    /// PF-only invalidate: page directory.
    pf_invalidate_pdb @ 0x10_0cb8 {
        APERTURE = (1, 1);
        ADDR = (31, 4);
    }
    /// PF-only invalidate: log2 of the 4 KiB pages.
    pf_invalidate_size @ 0x10_0e68 {
        SIZE = (5, 0);
    }
    /// Interrupt status of a copy engine.
    ce_intr_status @ 0x10_4410 [16; 0x80] {
        BLOCKPIPE = (0, 0);
        NONBLOCKPIPE = (1, 1);
        LAUNCHERR = (2, 2);
        INVALID_CONFIG = (3, 3);
        MTHD_BUFFER_FAULT = (4, 4);
    }
}

/// Rows of the device-info table, 0x22800 + 4i; bit 31 says that more rows of the device follow. The word is the row.
pub mod device_info {
    crate::bits::fields32! {
        ROW0_FAULT_ID = (0, 10, 0);
        ROW0_GROUP_ID = (0, 15, 11);
        ROW0_INSTANCE = (0, 23, 16);
        ROW0_TYPE = (0, 30, 24);
        ROW0_MORE = (0, 31, 31);
        ROW1_RESET_ID = (1, 7, 0);
        ROW1_DEVICE_PRI_BASE = (1, 25, 8);
        ROW1_IS_ENGINE = (1, 30, 30);
        ROW1_MORE = (1, 31, 31);
        ROW2_RLENG_ID = (2, 1, 0);
        ROW2_RUNLIST_PRI_BASE = (2, 25, 10);
        ROW2_MORE = (2, 31, 31);
    }
    /// Offset of row 0.
    pub const OFFSET: u32 = 0x2_2800;
    /// TYPE: graphics.
    pub const TYPE_GR: u32 = 0x00;
    /// TYPE: logical copy engine.
    pub const TYPE_LCE: u32 = 0x13;
}
