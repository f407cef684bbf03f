// SPDX-License-Identifier: GPL-2.0
//! Invented registers and formats: PCI identity, BAR5 and the workload engine's descriptor.
//!
//! Specified in `Documentation/device.md`; nothing here comes from a public manual, and nothing
//! documented depends on it. A driver works as a plain GA100-class driver when the device has no
//! extension (no vendor-specific capability).

/// PCI vendor id: QEMU's and virtio's range (device.md section 1).
pub const PCI_VENDOR: u16 = 0x1af4;
/// PCI device id, from the experimental part of that range.
pub const PCI_DEVICE: u16 = 0x10f7;
/// PCI class code: processing accelerator.
pub const PCI_CLASS: u32 = 0x12_0000;
/// MSI-X vectors.
pub const MSIX_VECTORS: u32 = 6;
/// BAR that holds the extension.
pub const BAR: u32 = 5;
/// Size of BAR5 in bytes.
pub const BAR_BYTES: u32 = 0x10_0000;
/// Size of BAR0 in bytes.
pub const BAR0_BYTES: u32 = 0x100_0000;
/// Size of the second VRAM aperture (BAR3) in bytes.
pub const BAR3_BYTES: u32 = 0x200_0000;
/// MSI-X table offset in BAR0.
pub const MSIX_TABLE: u32 = 0xb9_0000;
/// MSI-X pending bit array offset in BAR0.
pub const MSIX_PBA: u32 = 0xba_0000;
/// GPUs in a machine, at most.
pub const MAX_GPUS: usize = 16;

/// Vendor-specific extended capability that announces BAR5.
pub mod vsec {
    /// PCIe extended capability id: vendor specific.
    pub const CAP_ID: u16 = 0x000b;
    /// VSEC id.
    pub const ID: u16 = 0x4855;
    /// VSEC revision.
    pub const REV: u8 = 1;
    /// Length in bytes, header included.
    pub const LEN: u16 = 0x20;
    /// Offset of the magic word.
    pub const MAGIC_AT: u16 = 0x08;
    /// "HUVM", little-endian.
    pub const MAGIC: u32 = 0x4d56_5548;
    /// Offset of version 15:0 and BAR 18:16.
    pub const VERSION_AT: u16 = 0x0c;
    /// Version of the extension.
    pub const VERSION: u32 = 1;
    /// Offset of the block's offset in the BAR.
    pub const OFFSET_AT: u16 = 0x10;
    /// Offset of the block's length.
    pub const LENGTH_AT: u16 = 0x14;
    /// Offset of the feature bits.
    pub const FEATURES_AT: u16 = 0x18;
}

/// Bytes from one block to the next.
pub const BLOCK_STRIDE: u32 = 0x1_0000;

/// Header word of a block.
pub const fn block_header(id: u16) -> u32 {
    ((id as u32) << 16) | 1
}

/// Identity.
pub mod ident {
    /// Block offset in BAR5.
    pub const BASE: u32 = 0x0_0000;
    /// Block id.
    pub const ID: u16 = 1;
    /// Feature bits.
    pub const FEATURES: u32 = BASE + 0x04;
    /// Index of this GPU.
    pub const GPU_INDEX: u32 = BASE + 0x08;
    /// GPUs in the machine.
    pub const GPU_COUNT: u32 = BASE + 0x0c;
    /// Logical copy engines.
    pub const CE_COUNT: u32 = BASE + 0x10;
    /// `FLAG_*` bits.
    pub const FLAGS: u32 = BASE + 0x14;
    /// VRAM in MiB.
    pub const VRAM_MIB: u32 = BASE + 0x18;
    /// Hash of the timing profile.
    pub const PROFILE_ID: u32 = BASE + 0x1c;
    /// First of four UUID words.
    pub const UUID0: u32 = BASE + 0x20;
    /// Capabilities of copy engine `i` (see `ce_cap`).
    pub const CE_CAP0: u32 = BASE + 0x40;
    /// Entries of the CE_CAP table.
    pub const CE_CAP_MAX: u32 = 16;

    /// Operations take time.
    pub const FLAG_TIMING: u32 = 1 << 0;
    /// Page-sized copies move no bytes.
    pub const FLAG_PHANTOM: u32 = 1 << 1;
    /// Realism switches are on.
    pub const FLAG_REALISM: u32 = 1 << 2;

    /// Feature: topology block.
    pub const FEATURE_TOPOLOGY: u32 = 1 << 0;
    /// Feature: workload engine.
    pub const FEATURE_WORKLOAD: u32 = 1 << 1;
    /// Feature: throttle.
    pub const FEATURE_THROTTLE: u32 = 1 << 2;
    /// Feature: statistics.
    pub const FEATURE_STATS: u32 = 1 << 3;
    /// Feature: fault injection.
    pub const FEATURE_INJECT: u32 = 1 << 4;
    /// Feature: time.
    pub const FEATURE_TIME: u32 = 1 << 5;
    /// All of the above.
    pub const FEATURES_ALL: u32 = 0x3f;

    /// CE_CAP: reads system memory.
    pub const CE_SYS_READ: u32 = 1 << 0;
    /// CE_CAP: writes system memory.
    pub const CE_SYS_WRITE: u32 = 1 << 1;
    /// CE_CAP: reaches peers.
    pub const CE_PEER: u32 = 1 << 2;
    /// CE_CAP: copies within local memory.
    pub const CE_LOCAL: u32 = 1 << 3;
    /// CE_CAP: shift of the runlist index (bits 15:8).
    pub const CE_RUNLIST_SHIFT: u32 = 8;
}

/// Topology: links and the peer-id map.
pub mod topology {
    /// Block offset in BAR5.
    pub const BASE: u32 = 0x1_0000;
    /// Block id.
    pub const ID: u16 = 2;
    /// Entries of the link table.
    pub const LINK_COUNT: u32 = BASE + 0x04;
    /// Host link towards the GPU, MB/s.
    pub const HOST_H2D_MBPS: u32 = BASE + 0x08;
    /// Host link towards the host, MB/s.
    pub const HOST_D2H_MBPS: u32 = BASE + 0x0c;
    /// Host link latency, ns.
    pub const HOST_LATENCY_NS: u32 = BASE + 0x10;
    /// Local memory, MB/s.
    pub const VRAM_MBPS: u32 = BASE + 0x14;
    /// First entry of the peer-id map; entry `p` at +4p.
    pub const PEER_MAP0: u32 = BASE + 0x20;
    /// Entries of the peer-id map.
    pub const PEER_IDS: u32 = 8;
    /// PEER_MAP: entry is in use.
    pub const PEER_VALID: u32 = 1 << 31;
    /// First link entry; entry `i` at + LINK_STRIDE·i.
    pub const LINK0: u32 = BASE + 0x100;
    /// Bytes of a link entry.
    pub const LINK_STRIDE: u32 = 0x20;
    /// Link entries, at most.
    pub const LINK_MAX: u32 = 32;
    /// Link entry: peer GPU index.
    pub const LINK_PEER: u32 = 0x00;
    /// Link entry: type, `LINK_TYPE_*`.
    pub const LINK_TYPE: u32 = 0x04;
    /// Link entry: MB/s.
    pub const LINK_MBPS: u32 = 0x08;
    /// Link entry: latency, ns.
    pub const LINK_LATENCY_NS: u32 = 0x0c;
    /// Link entry: state, bit 0 up.
    pub const LINK_STATE: u32 = 0x10;
    /// Link entry: capabilities, bit 0 read, 1 write, 2 atomics.
    pub const LINK_CAPS: u32 = 0x14;
    /// Peer traffic crosses PCIe.
    pub const LINK_TYPE_PCIE: u32 = 1;
    /// A fast link between GPUs.
    pub const LINK_TYPE_NVLINK: u32 = 2;
}

/// Workload engine registers.
pub mod workload {
    /// Block offset in BAR5.
    pub const BASE: u32 = 0x2_0000;
    /// Block id.
    pub const ID: u16 = 3;
    /// Slots.
    pub const SLOT_COUNT: u32 = BASE + 0x04;
    /// Blocks resident at once.
    pub const MAX_RESIDENT: u32 = BASE + 0x08;
    /// Non-stall vector pulsed at the end of a launch.
    pub const INTR_VECTOR: u32 = BASE + 0x0c;
    /// Finished slots 31:0, write 1 to clear.
    pub const DONE_LO: u32 = BASE + 0x10;
    /// Finished slots 63:32, write 1 to clear.
    pub const DONE_HI: u32 = BASE + 0x14;
    /// First slot; slot `s` at + SLOT_STRIDE·s.
    pub const SLOT0: u32 = BASE + 0x1000;
    /// Bytes of a slot.
    pub const SLOT_STRIDE: u32 = 0x80;
    /// Slots of this version.
    pub const SLOTS: u32 = 64;
    /// Value of INTR_VECTOR in this version.
    pub const VECTOR: u32 = 16;

    /// Slot: descriptor address, low.
    pub const DESC_LO: u32 = 0x00;
    /// Slot: descriptor address, high.
    pub const DESC_HI: u32 = 0x04;
    /// Slot: instance block target 1:0 and address 31:12.
    pub const INST_LO: u32 = 0x08;
    /// Slot: instance block address 63:32.
    pub const INST_HI: u32 = 0x0c;
    /// Slot: subcontext.
    pub const VEID: u32 = 0x10;
    /// Slot: control.
    pub const CTRL: u32 = 0x14;
    /// Slot: status, `STATUS_*`.
    pub const STATUS: u32 = 0x18;
    /// Slot: error, `ERROR_*`.
    pub const ERROR: u32 = 0x1c;
    /// Slot: failing address, low.
    pub const ERR_VA_LO: u32 = 0x20;
    /// Slot: failing address, high.
    pub const ERR_VA_HI: u32 = 0x24;
    /// Slot: fault type 4:0, access type 19:16.
    pub const ERR_INFO: u32 = 0x28;
    /// Slot: mismatches, low.
    pub const MISMATCHES_LO: u32 = 0x30;
    /// Slot: mismatches, high.
    pub const MISMATCHES_HI: u32 = 0x34;
    /// Slot: first mismatch, low.
    pub const MISMATCH_VA_LO: u32 = 0x38;
    /// Slot: first mismatch, high.
    pub const MISMATCH_VA_HI: u32 = 0x3c;
    /// Slot: blocks finished.
    pub const BLOCKS_DONE: u32 = 0x40;
    /// Slot: blocks waiting for a replay.
    pub const BLOCKS_STALLED: u32 = 0x44;
    /// Slot: fault packets, low.
    pub const FAULTS_LO: u32 = 0x48;
    /// Slot: fault packets, high.
    pub const FAULTS_HI: u32 = 0x4c;
    /// Slot: bytes, low.
    pub const BYTES_LO: u32 = 0x50;
    /// Slot: bytes, high.
    pub const BYTES_HI: u32 = 0x54;
    /// Slot: start time, low.
    pub const START_NS_LO: u32 = 0x58;
    /// Slot: start time, high.
    pub const START_NS_HI: u32 = 0x5c;
    /// Slot: end time, low.
    pub const END_NS_LO: u32 = 0x60;
    /// Slot: end time, high.
    pub const END_NS_HI: u32 = 0x64;

    /// CTRL: start the launch.
    pub const CTRL_START: u32 = 1;
    /// CTRL: abort the launch.
    pub const CTRL_ABORT: u32 = 2;

    /// STATUS: never used.
    pub const STATUS_IDLE: u32 = 0;
    /// STATUS: running.
    pub const STATUS_RUNNING: u32 = 1;
    /// STATUS: ended well.
    pub const STATUS_DONE: u32 = 2;
    /// STATUS: ended by an error.
    pub const STATUS_FAILED: u32 = 3;
    /// STATUS: ended by ABORT.
    pub const STATUS_ABORTED: u32 = 4;

    /// ERROR: none.
    pub const ERROR_NONE: u32 = 0;
    /// ERROR: descriptor breaks a rule.
    pub const ERROR_DESCRIPTOR: u32 = 1;
    /// ERROR: fatal fault.
    pub const ERROR_FAULT: u32 = 2;
    /// ERROR: cancelled by software.
    pub const ERROR_CANCELLED: u32 = 3;
    /// ERROR: instance block unusable.
    pub const ERROR_INSTANCE: u32 = 4;
    /// ERROR: DMA failed.
    pub const ERROR_DMA: u32 = 5;
}

/// Workload descriptor in system memory.
pub mod desc {
    /// "WORK", little-endian.
    pub const MAGIC: u32 = 0x4b52_4f57;
    /// Version of the format.
    pub const VERSION: u32 = 1;
    /// Bytes of the header.
    pub const HEADER_BYTES: usize = 64;
    /// Bytes of an instruction.
    pub const INSTR_BYTES: usize = 96;
    /// Instructions, at most.
    pub const MAX_INSTR: usize = 16;
    /// Blocks, at most.
    pub const MAX_BLOCKS: u32 = 1 << 20;
    /// Iterations, at most.
    pub const MAX_ITERATIONS: u32 = 1 << 20;
    /// Count and steps, at most.
    pub const MAX_COUNT: u64 = 1 << 32;
    /// Bytes of the largest descriptor.
    pub const MAX_BYTES: usize = HEADER_BYTES + MAX_INSTR * INSTR_BYTES;

    /// Offsets in the header.
    pub mod header {
        /// u32 magic.
        pub const MAGIC: usize = 0;
        /// u32 version.
        pub const VERSION: usize = 4;
        /// u32 blocks.
        pub const BLOCKS: usize = 8;
        /// u32 instructions.
        pub const NINSTR: usize = 12;
        /// u32 iterations.
        pub const ITERATIONS: usize = 16;
        /// u32 bytes of an element.
        pub const ELEM_BYTES: usize = 20;
        /// u32 resident blocks.
        pub const MAX_RESIDENT: usize = 24;
        /// u32 flags, zero.
        pub const FLAGS: usize = 28;
        /// u64 reserved[4], zero.
        pub const RESERVED: usize = 32;
    }
    /// Offsets in an instruction.
    pub mod instr {
        /// u32 operation.
        pub const OP: usize = 0;
        /// u32 flags, zero.
        pub const FLAGS: usize = 4;
        /// u64 elements per step.
        pub const COUNT: usize = 8;
        /// u64 steps per block.
        pub const STEPS: usize = 16;
        /// u64 destination.
        pub const DST: usize = 24;
        /// u64 first source.
        pub const A: usize = 32;
        /// u64 second source.
        pub const B: usize = 40;
        /// u64 index array.
        pub const IDX: usize = 48;
        /// u64 block stride.
        pub const BLOCK_STRIDE: usize = 56;
        /// u64 step stride.
        pub const STEP_STRIDE: usize = 64;
        /// u64 element stride.
        pub const ELEM_STRIDE: usize = 72;
        /// u64 first immediate.
        pub const IMM0: usize = 80;
        /// u64 second immediate.
        pub const IMM1: usize = 88;
    }

    /// Operation of an instruction.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(u32)]
    pub enum Op {
        /// dst = imm0 + imm1·i.
        Fill = 1,
        /// Counts elements of a that differ from imm0 + imm1·i.
        Check = 2,
        /// dst = a.
        Copy = 3,
        /// dst = a + b.
        Add = 4,
        /// dst = a + imm0·b.
        Triad = 5,
        /// dst = imm0·a + imm1.
        Scale = 6,
        /// Sum of a into one element per block.
        Reduce = 7,
        /// dst = A\[idx\].
        Gather = 8,
        /// D\[idx\] = a.
        Scatter = 9,
        /// imm0 ns of compute per step.
        Delay = 10,
        /// Replay of page records.
        Trace = 11,
        /// dst = dst + imm0, atomically.
        AtomicAdd = 12,
    }

    impl Op {
        /// The operation with this code, if there is one.
        pub const fn from_raw(raw: u32) -> Option<Op> {
            Some(match raw {
                1 => Op::Fill,
                2 => Op::Check,
                3 => Op::Copy,
                4 => Op::Add,
                5 => Op::Triad,
                6 => Op::Scale,
                7 => Op::Reduce,
                8 => Op::Gather,
                9 => Op::Scatter,
                10 => Op::Delay,
                11 => Op::Trace,
                12 => Op::AtomicAdd,
                _ => return None,
            })
        }
    }

    /// TRACE record: the access is a write.
    pub const TRACE_WRITE: u64 = 1;
    /// TRACE record: page address, bits 48:12.
    pub const TRACE_PAGE_MASK: u64 = 0x0001_ffff_ffff_f000;
}

/// Throttle.
pub mod throttle {
    /// Block offset in BAR5.
    pub const BASE: u32 = 0x3_0000;
    /// Block id.
    pub const ID: u16 = 4;
    /// Blocks that may run at once; 0 = MAX_RESIDENT.
    pub const ACTIVE_LIMIT: u32 = BASE + 0x04;
    /// First per-subcontext limit; entry `v` at +4v.
    pub const VEID_LIMIT0: u32 = BASE + 0x100;
    /// Subcontexts.
    pub const VEIDS: u32 = 64;
}

/// Statistics.
pub mod stats {
    /// Block offset in BAR5.
    pub const BASE: u32 = 0x4_0000;
    /// Block id.
    pub const ID: u16 = 5;
    /// Write 1 to zero all counters.
    pub const CLEAR: u32 = BASE + 0x04;
    /// Bytes that the workload engine moved in local memory, ÷ 1024: low word, no latch.
    pub const WORK_LOCAL_KIB: u32 = BASE + 0x08;
    /// First counter; counter `i` at +8i, low word first.
    pub const COUNTER0: u32 = BASE + 0x100;

    /// A counter of the STATS block (device.md section 2.5).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(u8)]
    #[allow(missing_docs)]
    pub enum Counter {
        BytesHostToDevice = 0,
        BytesDeviceToHost = 1,
        BytesLocal = 2,
        BytesToPeers = 3,
        BytesFromPeers = 4,
        BytesSet = 5,
        CopyLaunches = 6,
        SemaphoreReleases = 7,
        ReplayablePackets = 8,
        DuplicatePackets = 9,
        NonReplayablePackets = 10,
        Overflows = 11,
        Replays = 12,
        Cancels = 13,
        TlbInvalidates = 14,
        TlbHits = 15,
        TlbMisses = 16,
        TlbNegativeHits = 17,
        Interrupts = 18,
        GuestErrors = 19,
        BusyHostToDeviceNs = 20,
        BusyDeviceToHostNs = 21,
        BusyPeerOutNs = 22,
        BusyCopyEnginesNs = 23,
        BusyLocalNs = 24,
        WorkBytesLocal = 25,
        WorkBytesHost = 26,
        WorkBytesPeer = 27,
        Launches = 28,
        AccessCounterPackets = 29,
        ReorderedPackets = 30,
    }
    /// Counters of this version.
    pub const COUNT: usize = 31;
}

/// Fault injection.
pub mod inject {
    /// Block offset in BAR5.
    pub const BASE: u32 = 0x5_0000;
    /// Block id.
    pub const ID: u16 = 6;
    /// Delay of VALID, ns.
    pub const VALID_DELAY_NS: u32 = BASE + 0x04;
    /// Largest VALID_DELAY_NS.
    pub const VALID_DELAY_MAX_NS: u32 = 1_000_000;
    /// Chance of two neighbours swapped, per mille.
    pub const REORDER_PERMILLE: u32 = BASE + 0x08;
    /// Chance of a packet written twice, per mille.
    pub const DUPLICATE_PERMILLE: u32 = BASE + 0x0c;
    /// Packets that meet a full ring.
    pub const OVERFLOW_COUNT: u32 = BASE + 0x10;
    /// Countdown to a copy-engine fault.
    pub const CE_FAULT: u32 = BASE + 0x14;
    /// Countdown to a copy that hangs.
    pub const CE_HANG: u32 = BASE + 0x18;
    /// Links forced down.
    pub const LINK_DOWN: u32 = BASE + 0x1c;
    /// Write GONE_KEY: the device disappears.
    pub const GONE: u32 = BASE + 0x20;
    /// Key for GONE.
    pub const GONE_KEY: u32 = 0xdead;
    /// Message interrupts to lose.
    pub const DROP_INTR: u32 = BASE + 0x24;
    /// Cache invalid translations.
    pub const NEG_TLB: u32 = BASE + 0x28;
    /// Seed of the generator.
    pub const SEED: u32 = BASE + 0x2c;
    /// Added to each copy-engine launch, ns.
    pub const LATENCY_NS: u32 = BASE + 0x30;
    /// Write a VRAM page number: the page fails. Reads how many have.
    pub const ECC_POISON: u32 = BASE + 0x34;
    /// Written to ECC_POISON: no page has failed.
    pub const ECC_CURE: u32 = u32::MAX;
    /// Pages that can have failed at once.
    pub const ECC_POISON_MAX: usize = 256;
    /// Write a number: it is reported as that of a page, whatever it is.
    pub const ECC_REPORT: u32 = BASE + 0x38;
    /// Countdown to an invalidate or replay by register that hangs.
    pub const COMMAND_HANG: u32 = BASE + 0x3c;
    /// Countdown to a copy-engine launch whose first piece stays on its way.
    pub const CE_STALL: u32 = BASE + 0x40;
    /// [`PACKETS`] to lose: neither a packet nor an overflow tells.
    pub const PACKET_LOST: u32 = BASE + 0x44;
    /// [`PACKETS`] to write wrong: which part is [`BAD_WHAT_SHIFT`].
    pub const PACKET_BAD: u32 = BASE + 0x48;
    /// [`PACKETS`] that take their place in the ring and never become VALID.
    pub const PACKET_NEVER_VALID: u32 = BASE + 0x4c;
    /// Non-replayable packets that meet a full ring.
    pub const OTHER_OVERFLOW: u32 = BASE + 0x50;
    /// [`PACKETS`], of writes of GET that are taken for one out of range.
    pub const GET_CORRUPT: u32 = BASE + 0x54;
    /// Semaphore releases that write nothing.
    pub const SEM_LOST: u32 = BASE + 0x58;
    /// Semaphore releases that write [`SEM_WRONG_ADD`] too much.
    pub const SEM_WRONG: u32 = BASE + 0x5c;
    /// A message each so many ns (27:0) of the MSI-X entry in 31:28, whatever is pending; 0 none.
    pub const INTR_STORM: u32 = BASE + 0x60;
    /// Bitmap of copy engines whose launches fault whenever they are tried.
    pub const CE_FAULT_EACH: u32 = BASE + 0x64;
    /// [`PACKETS`], of reads of PUT that say something else: what is [`PUT_WRONG_SHIFT`].
    pub const PUT_WRONG: u32 = BASE + 0x68;
    /// Reads of registers that say all ones: so many (15:0), after those that pass before ([`ONES_PASS_SHIFT`]).
    pub const READS_ONES: u32 = BASE + 0x6c;
    /// Writes of registers that are lost: so many (15:0), after those that pass before ([`ONES_PASS_SHIFT`]).
    pub const WRITES_LOST: u32 = BASE + 0x70;
    /// Reads of a slot's STATUS that say a number that means nothing.
    pub const STATUS_WRONG: u32 = BASE + 0x74;
    /// What the block ECC's STANDS registers say, whatever is true; 0 what is.
    pub const STANDS_SAYS: u32 = BASE + 0x78;
    /// Semaphore releases that write [`SEM_BACK_LESS`] too little: one less than was there.
    pub const SEM_BACK: u32 = BASE + 0x7c;
    /// Chance that ENG_FAULTED of a copy engine's fault comes after PUT, per mille.
    pub const FLAG_LATE_PERMILLE: u32 = BASE + 0x80;
    /// An invalidate takes effect, and completes, so much later, ns; at most [`INVALIDATE_LATE_MAX_NS`].
    pub const INVALIDATE_LATE_NS: u32 = BASE + 0x84;
    /// Most that INVALIDATE_LATE_NS can be.
    pub const INVALIDATE_LATE_MAX_NS: u32 = 1_000_000;
    /// SEM_BACK: by so much.
    pub const SEM_BACK_LESS: u32 = 2;
    /// PACKET_LOST, PACKET_BAD, PACKET_NEVER_VALID, GET_CORRUPT, PUT_WRONG: the next so many.
    pub const PACKETS: u32 = 0xffff;
    /// The same: those of the non-replayable ring.
    pub const OTHER_RING: u32 = 1 << 31;
    /// PACKET_BAD: what is wrong, in 17:16: 0 all of it, 1 the instance, 2 the address, 3 the type.
    pub const BAD_WHAT_SHIFT: u32 = 16;
    /// PUT_WRONG: what PUT says, in 17:16: 0 all ones, 1 the size, 2 one before GET, 3 GET.
    pub const PUT_WRONG_SHIFT: u32 = 16;
    /// READS_ONES, WRITES_LOST: how many pass first, in 31:16.
    pub const ONES_PASS_SHIFT: u32 = 16;
    /// SEM_WRONG: by so much.
    pub const SEM_WRONG_ADD: u32 = 0x40;
    /// INTR_STORM: the shortest period, ns.
    pub const STORM_MIN_NS: u32 = 2000;
    /// INTR_STORM: the period.
    pub const STORM_NS: u32 = 0x0fff_ffff;
}

/// Memory that failed.
pub mod ecc {
    /// Block offset in BAR5.
    pub const BASE: u32 = 0x7_0000;
    /// Block id.
    pub const ID: u16 = 8;
    /// Pages reported and not read yet, and [`STATUS_OVERFLOW`], which is cleared by writing 1.
    pub const STATUS: u32 = BASE + 0x04;
    /// STATUS: a page was found and not reported for want of room.
    pub const STATUS_OVERFLOW: u32 = 1 << 31;
    /// STATUS: how many there are.
    pub const STATUS_COUNT: u32 = 0xffff;
    /// Takes the oldest of them: [`PAGE_VALID`] and a number in [`PAGE_MASK`], or 0.
    pub const PAGE: u32 = BASE + 0x08;
    /// PAGE: there was one.
    pub const PAGE_VALID: u32 = 1 << 31;
    /// PAGE: VRAM page number, of 4 KiB.
    pub const PAGE_MASK: u32 = (1 << 30) - 1;
    /// Pages reported and not read, at most.
    pub const REPORTS_MAX: usize = 64;
    /// Where the launch of channel `c` of copy engine `n` stands: at +[`STANDS_STRIDE`]·n + 4c. Written back, the launch leaves
    /// that page out.
    pub const STANDS0: u32 = BASE + 0x1000;
    /// From one engine to the next.
    pub const STANDS_STRIDE: u32 = 0x1000;
    /// Channels of an engine that have the register.
    pub const STANDS_CHANNELS: u32 = 1024;
    /// STANDS: it stands at a page that failed.
    pub const STANDS_VALID: u32 = 1 << 31;
    /// STANDS: whose memory, in 30:27.
    pub const STANDS_GPU_SHIFT: u32 = 27;
    /// STANDS: VRAM page number.
    pub const STANDS_PAGE_MASK: u32 = (1 << 27) - 1;
}

/// Time.
pub mod time {
    /// Block offset in BAR5.
    pub const BASE: u32 = 0x6_0000;
    /// Block id.
    pub const ID: u16 = 7;
    /// Clock, low; latches the high word.
    pub const NOW_LO: u32 = BASE + 0x04;
    /// Clock, high.
    pub const NOW_HI: u32 = BASE + 0x08;
    /// 1 = operations take time.
    pub const TIMING: u32 = BASE + 0x0c;
}
