// SPDX-License-Identifier: GPL-2.0
//! Host: a runlist's block, its channel RAM, PBDMA (hw-interface 6.7). Offsets are in the block; its base comes from the
//! device-info table, CHANNEL_CONFIG, or PBDMA_CONFIG.

crate::bits::registers! {
    /// Channels and channel RAM, read only.
    channel_config @ 0x004 {
        NUM_CHANNELS_LOG2 = (3, 0);
        CHRAM_BAR0_OFFSET = (31, 4);
    }
    /// Runlist id of doorbell tokens, read only.
    doorbell_config @ 0x008 {
        ID = (31, 16);
    }
    /// PBDMAs, read only.
    pbdma_config @ 0x010 [2; 4] {
        PBDMA_BAR0_OFFSET = (25, 10);
        VALID = (31, 31);
    }
    /// Runlist, low.
    submit_base_lo @ 0x080 {
        TARGET = (1, 0);
        PTR = (31, 12);
    }
    /// Runlist, high.
    submit_base_hi @ 0x084 {
        PTR = (7, 0);
    }
    /// Submits.
    submit @ 0x088 {
        LENGTH = (15, 0);
        OFFSET_ = (31, 16);
    }
    /// State of the submission, read only.
    submit_info @ 0x08c {
        PREEMPTED_TSGID = (13, 0);
        PREEMPTED_TSGID_VALID = (14, 14);
        PENDING = (15, 15);
        PREEMPTED_OFFSET = (31, 16);
    }
    /// Doorbell of the block's own channels.
    internal_doorbell @ 0x090 {
        CHID = (11, 0);
        GFID = (21, 16);
    }
    /// Stops scheduling.
    sched_disable @ 0x094 {
        RUNLIST = (0, 0);
    }
    /// Preempts.
    preempt @ 0x098 {
        ID = (11, 0);
        TSG_PENDING = (20, 20);
        RUNLIST_PENDING = (21, 21);
        TYPE = (25, 24);
    }
    /// Interrupts; write 1 to clear.
    intr_0 @ 0x100 {
        CTXSW_TIMEOUT_ENG = (2, 0);
        RUNLIST_IDLE = (4, 4);
        TSG_PREEMPT_COMPLETE = (8, 8);
        RUNLIST_PREEMPT_COMPLETE = (9, 9);
        BAD_TSG = (12, 12);
        PBDMA = (19, 16);
    }
    /// Enables, by tree.
    intr_0_en_set @ 0x120 [2; 8] {
        BITS = (31, 0);
    }
    /// Disables, by tree.
    intr_0_en_clear @ 0x140 [2; 8] {
        BITS = (31, 0);
    }
    /// Vectors, by tree.
    intr_vectorid @ 0x160 [2; 4] {
        VECTOR = (11, 0);
        GSP = (30, 30);
        CPU = (31, 31);
    }
    /// State of an engine, read only.
    engine_status0 @ 0x200 [4; 0x40] {
        TSGID = (11, 0);
        CTX_STATUS = (15, 13);
        NEXT_TSGID = (27, 16);
        ENG_RELOAD = (29, 29);
        FAULTED = (30, 30);
        BUSY = (31, 31);
    }
    /// Doorbells of a function.
    virtual_channel_cfg @ 0x300 [64; 4] {
        MASK = (11, 0);
        SET = (27, 16);
        PENDING_ENABLE = (31, 31);
    }
    /// PBDMA block, +0x108: errors; write 1 to clear.
    pbdma_intr_0 @ 0x108 {
        GPFIFO = (13, 13);
        GPPTR = (14, 14);
        GPENTRY = (15, 15);
        GPCRC = (16, 16);
        PBPTR = (17, 17);
        PBENTRY = (18, 18);
        PBCRC = (19, 19);
        METHOD = (21, 21);
        DEVICE = (23, 23);
        ENG_RESET = (24, 24);
        SEMAPHORE = (25, 25);
        ACQUIRE = (26, 26);
        PRI = (27, 27);
        PBSEG = (30, 30);
        SIGNATURE = (31, 31);
    }
    /// PBDMA block, +0x148.
    pbdma_intr_1 @ 0x148 {
        CTXNOTVALID = (31, 31);
    }
}

/// Word of channel RAM, base + 4 × CHID.
pub mod channel_ram {
    crate::bits::fields32! {
        WRITE_CONTROL = (0, 0, 0);
        ENABLE = (0, 1, 1);
        NEXT = (0, 2, 2);
        BUSY = (0, 3, 3);
        PBDMA_FAULTED = (0, 4, 4);
        ENG_FAULTED = (0, 5, 5);
        ON_PBDMA = (0, 6, 6);
        ON_ENG = (0, 7, 7);
        PENDING = (0, 8, 8);
        CTX_RELOAD = (0, 9, 9);
        PBDMA_BUSY = (0, 10, 10);
        ENG_BUSY = (0, 11, 11);
        ACQUIRE_FAIL = (0, 12, 12);
    }
    /// Write: enables.
    pub const WRITE_ENABLE: u32 = 0x2;
    /// Write: disables.
    pub const WRITE_DISABLE: u32 = 0x3;
    /// Write: reloads the context.
    pub const WRITE_RELOAD: u32 = 0x200;
    /// Write: clears PBDMA_FAULTED.
    pub const WRITE_CLEAR_PBDMA_FAULT: u32 = 0x11;
    /// Write: clears ENG_FAULTED.
    pub const WRITE_CLEAR_ENG_FAULT: u32 = 0x21;
    /// Write: resets.
    pub const WRITE_RESET: u32 = 0xffff_ffff;
}
