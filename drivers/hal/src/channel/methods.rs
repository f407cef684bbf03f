// SPDX-License-Identifier: GPL-2.0
//! Methods and their fields, as pushes use them (hw-interface 2.1, 5.2, 5.3, 6.2, 6.3).

/// Copy-engine class of GA100.
pub(super) const CLASS_CE: u32 = 0xc6b5;

// Host methods, byte offsets.
pub(super) const SET_OBJECT: u32 = 0x00;
pub(super) const NON_STALL_INT: u32 = 0x20;
pub(super) const MEM_OP_A: u32 = 0x28;
pub(super) const SEM_ADDR_LO: u32 = 0x5c;
pub(super) const WFI: u32 = 0x78;

pub(super) const SEM_ACQ_CIRC_GEQ: u32 = 3;
pub(super) const SEM_SWITCH_TSG: u32 = 1 << 12;

// Copy-engine methods.
pub(super) const SET_SEMAPHORE_A: u32 = 0x240;
pub(super) const SET_SRC_PHYS_MODE: u32 = 0x260;
pub(super) const LAUNCH_DMA: u32 = 0x300;
pub(super) const OFFSET_IN_UPPER: u32 = 0x400;
pub(super) const OFFSET_OUT_UPPER: u32 = 0x408;
pub(super) const LINE_LENGTH_IN: u32 = 0x418;
pub(super) const SET_REMAP_CONST_A: u32 = 0x700;

pub(super) const LAUNCH_PIPELINED: u32 = 1;
pub(super) const LAUNCH_NON_PIPELINED: u32 = 2;
pub(super) const LAUNCH_FLUSH: u32 = 1 << 2;
pub(super) const LAUNCH_SEM_ONE_WORD: u32 = 1 << 3;
pub(super) const LAUNCH_SEM_FOUR_WORDS: u32 = 2 << 3;
pub(super) const LAUNCH_INTERRUPT: u32 = 2 << 5;
pub(super) const LAUNCH_PITCH: u32 = 1 << 7 | 1 << 8;
pub(super) const LAUNCH_REMAP: u32 = 1 << 10;
pub(super) const LAUNCH_SRC_PHYS: u32 = 1 << 12;
pub(super) const LAUNCH_DST_PHYS: u32 = 1 << 13;

pub(super) const PHYS_LOCAL: u32 = 0;
pub(super) const PHYS_SYS: u32 = 1;
pub(super) const PHYS_PEER: u32 = 3;
pub(super) const PHYS_PEER_SHIFT: u32 = 6;

pub(super) const REMAP_CONST_A: u32 = 4;
pub(super) const REMAP_CONST_B: u32 = 5;
pub(super) const REMAP_NONE: u32 = 6;

// MEM_OP fields.
pub(super) const A_SYSMEMBAR: u32 = 1 << 11;
pub(super) const C_REPLAY_SHIFT: u32 = 2;
pub(super) const C_ACK_GLOBALLY: u32 = 1 << 5;
pub(super) const C_LEVEL_SHIFT: u32 = 7;
pub(super) const C_PDB_SYS: u32 = 2 << 10;
pub(super) const D_OP_SHIFT: u32 = 27;
pub(super) const OP_MEMBAR: u32 = 0x05;
pub(super) const OP_INVALIDATE: u32 = 0x09;
pub(super) const OP_INVALIDATE_TARGETED: u32 = 0x0a;
pub(super) const OP_COUNTER_CLR: u32 = 0x16;
pub(super) const COUNTER_MIMC: u32 = 0;
pub(super) const COUNTER_TARGETED: u32 = 3;
pub(super) const COUNTER_TARGET_MOMC: u32 = 1 << 2;
pub(super) const COUNTER_BANK_SHIFT: u32 = 3;
pub(super) const REPLAY_START: u32 = 1;
pub(super) const REPLAY_START_ACK_ALL: u32 = 2;
pub(super) const REPLAY_CANCEL_VA_GLOBAL: u32 = 5;
pub(super) const LEVEL_PTE_ONLY: u32 = 1;
pub(super) const ACCESS_WRITE_AND_ATOMIC: u32 = 6;
pub(super) const ACCESS_ALL: u32 = 7;

/// INC_METHOD header: `count` data words for `method` and the following ones, subchannel 0.
pub(super) const fn inc(method: u32, count: u32) -> u32 {
    1 << 29 | (count & 0x1fff) << 16 | (method >> 2 & 0xfff)
}
