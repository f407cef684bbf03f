// SPDX-License-Identifier: GPL-2.0
//! The nouns of the policy: ids, amounts, times, processors, accesses.
//!
//! Each is a type of its own, so that a page count is never added to a byte count and a chunk id never used as a page
//! index. [`PageMask`] and [`PageRegion`], the two types about the pages of one block, have files of their own and are
//! re-exported here.

pub use crate::page_mask::{PageMask, PageRuns, SetPages};
pub use crate::page_region::PageRegion;

/// Pages of 4 KiB in a block (2 MiB).
pub const PAGES_PER_BLOCK: u16 = 512;
/// log2 of the page size in bytes.
pub const PAGE_SHIFT: u32 = 12;
/// Page size in bytes: the granularity of faults and masks (`nvidia-uvm.md` 3.1).
pub const PAGE_BYTES: u64 = 1 << PAGE_SHIFT;
/// log2 of the block size in bytes.
pub const BLOCK_SHIFT: u32 = 21;
/// Block and chunk size in bytes.
pub const BLOCK_BYTES: u64 = 1 << BLOCK_SHIFT;
/// Pages of a big page (64 KiB): the unit in which a fault grows (`nvidia-uvm.md` 5.1 step 5).
pub const PAGES_PER_BIG_PAGE: u16 = 16;
/// Highest number of GPUs in one machine: with the host they fill the 32 bits of a [`ProcessorMask`].
pub const MAX_GPUS: u8 = 31;

/// A GPU of this machine, 0 to [`MAX_GPUS`] - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuId(u8);

impl GpuId {
    /// The GPU with this index; `None` from [`MAX_GPUS`] on.
    pub const fn new(index: u8) -> Option<Self> {
        if index < MAX_GPUS {
            Some(Self(index))
        } else {
            None
        }
    }

    /// The index, 0 to [`MAX_GPUS`] - 1.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The index as a subscript.
    pub const fn as_usize(self) -> usize {
        // CAST: widening.
        self.0 as usize
    }
}

/// A 2 MiB chunk of one GPU's memory: its physical address / 2 MiB. Any value is allowed; the chunk table refuses
/// those it does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkId(pub u32);

impl ChunkId {
    /// The id as a subscript.
    pub const fn as_usize(self) -> usize {
        // CAST: usize has at least 32 bits on every machine the driver runs on.
        self.0 as usize
    }

    /// Offset of the chunk in the GPU's memory.
    pub const fn byte_offset(self) -> Bytes {
        // CAST: widening; 32 + 21 bits fit.
        Bytes((self.0 as u64) << BLOCK_SHIFT)
    }
}

/// A page within its block, 0 to 511.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageIndex(u16);

impl PageIndex {
    /// The first page of a block.
    pub const FIRST: Self = Self(0);
    /// The last page of a block.
    pub const LAST: Self = Self(PAGES_PER_BLOCK - 1);

    /// The page with this index; `None` from 512 on.
    pub const fn new(index: u16) -> Option<Self> {
        if index < PAGES_PER_BLOCK {
            Some(Self(index))
        } else {
            None
        }
    }

    /// The page that a virtual address lies in, within the address's 2 MiB block.
    pub const fn of_va(va: u64) -> Self {
        // CAST: nine bits are left by the mask.
        Self(((va >> PAGE_SHIFT) & (PAGES_PER_BLOCK as u64 - 1)) as u16)
    }

    /// The index, 0 to 511.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The index as a subscript.
    pub const fn as_usize(self) -> usize {
        // CAST: widening.
        self.0 as usize
    }

    /// Offset of the page in its block.
    pub const fn byte_offset(self) -> Bytes {
        // CAST: widening; 9 + 12 bits fit.
        Bytes((self.0 as u64) << PAGE_SHIFT)
    }

    /// The next page, `None` after the last.
    pub const fn next(self) -> Option<Self> {
        Self::new(self.0.saturating_add(1))
    }
}

/// A number of 4 KiB pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pages(pub u32);

impl Pages {
    /// As many bytes.
    pub const fn to_bytes(self) -> Bytes {
        // CAST: widening; 32 + 12 bits fit.
        Bytes((self.0 as u64) << PAGE_SHIFT)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl Bytes {
    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Nanoseconds: a point on the caller's monotonic clock, or a length of time, as the name beside it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// From microseconds; stays at the largest value instead of overflowing.
    pub const fn from_micros(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }

    /// From milliseconds; stays at the largest value instead of overflowing.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Time from `earlier` to `self`; zero if `earlier` is later (a clock read on another CPU may be).
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// The point `length` later; stays at the largest value instead of overflowing.
    pub const fn after(self, length: Self) -> Self {
        Self(self.0.saturating_add(length.0))
    }
}

/// Thousandths of a whole. 1000 is all of it; larger values are allowed and mean more than all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Permil(pub u32);

impl Permil {
    /// `part` out of `whole`, rounded down; zero of a zero whole.
    pub const fn of(part: u64, whole: u64) -> Self {
        match part.saturating_mul(1_000).checked_div(whole) {
            // CAST: clipped just before.
            Some(q) if q <= u32::MAX as u64 => Self(q as u32),
            Some(_) => Self(u32::MAX),
            None => Self(0),
        }
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// Something that executes and has memory: the host or a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Processor {
    /// The host's CPUs and memory, all NUMA nodes together.
    Cpu,
    /// One GPU and its memory.
    Gpu(GpuId),
}

impl Processor {
    /// Dense number: 0 for the host, 1 + index for a GPU. Subscript of tables with one row per processor.
    pub const fn index(self) -> u8 {
        match self {
            Self::Cpu => 0,
            // At most MAX_GPUS. Wrapping, as the compiler does not know that and would test for it in every mask.
            Self::Gpu(gpu) => gpu.0.wrapping_add(1),
        }
    }

    /// The processor with this dense number; `None` if there is none.
    pub const fn from_index(index: u8) -> Option<Self> {
        match index.checked_sub(1) {
            None => Some(Self::Cpu),
            Some(gpu) => match GpuId::new(gpu) {
                Some(gpu) => Some(Self::Gpu(gpu)),
                None => None,
            },
        }
    }

    /// True for a GPU.
    pub const fn is_gpu(self) -> bool {
        matches!(self, Self::Gpu(_))
    }
}

/// A set of processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProcessorMask(u32);

impl ProcessorMask {
    /// No processor.
    pub const EMPTY: Self = Self(0);
    /// The host alone.
    pub const CPU: Self = Self(1);

    /// One processor.
    pub const fn only(p: Processor) -> Self {
        // An index is below 32, so nothing wraps. CAST: widening.
        Self(1u32.wrapping_shl(p.index() as u32))
    }

    /// The set with these bits: bit 0 the host, bit 1 + i GPU i.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Bit 0 the host, bit 1 + i GPU i.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// This set and `p`.
    pub const fn with(self, p: Processor) -> Self {
        Self(self.0 | Self::only(p).0)
    }

    /// This set but for `p`.
    pub const fn without(self, p: Processor) -> Self {
        Self(self.0 & !Self::only(p).0)
    }

    /// True if `p` is in the set.
    pub const fn contains(self, p: Processor) -> bool {
        self.0 & Self::only(p).0 != 0
    }

    /// Members of either set.
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Members of both sets.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// True if every member is in `other` too.
    pub const fn is_subset_of(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// True without members.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Number of members.
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Member with the lowest number, the host first.
    pub const fn first(self) -> Option<Processor> {
        // CAST: at most 32; 32 (empty) is no processor's index.
        Processor::from_index(self.0.trailing_zeros() as u8)
    }

    /// Members in ascending order, the host first.
    pub fn iter(self) -> impl Iterator<Item = Processor> {
        (0..=MAX_GPUS)
            .filter_map(Processor::from_index)
            .filter(move |&p| self.contains(p))
    }
}

/// What a faulting access wanted, from least to most intrusive (`nvidia-uvm.md` 3.1); the order of the variants is
/// the order of intrusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Access {
    /// A prefetch instruction: may be dropped without harm.
    Prefetch = 0,
    /// A load.
    Read = 1,
    /// A store.
    Write = 2,
    /// A reduction: atomic, result not returned.
    AtomicWeak = 3,
    /// An atomic that returns a value, or a CPU's write fault, which may be one (`nvidia-uvm.md` table 1, row 4).
    AtomicStrong = 4,
}

impl Access {
    /// True if the access changes memory.
    pub const fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::AtomicWeak | Self::AtomicStrong)
    }

    /// True for both kinds of atomic.
    pub const fn is_atomic(self) -> bool {
        matches!(self, Self::AtomicWeak | Self::AtomicStrong)
    }
}

/// A set of accesses, kept by a fault that stands for several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AccessMask(u8);

impl AccessMask {
    /// One access.
    pub const fn only(access: Access) -> Self {
        // CAST: a discriminant of 0 to 4.
        Self(1 << access as u8)
    }

    /// Accesses of either set.
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if `access` is in the set.
    pub const fn contains(self, access: Access) -> bool {
        self.0 & Self::only(access).0 != 0
    }

    /// True if the set has a load or a prefetch.
    pub const fn has_read(self) -> bool {
        self.contains(Access::Read) || self.contains(Access::Prefetch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_numbers_are_dense_and_round_trip() {
        for i in 0..=MAX_GPUS {
            assert_eq!(Processor::from_index(i).map(Processor::index), Some(i));
        }
        assert_eq!(Processor::from_index(MAX_GPUS + 1), None);
        assert_eq!(Processor::from_index(255), None);
        assert_eq!(GpuId::new(MAX_GPUS), None);
    }

    #[test]
    fn processor_mask_is_a_set() {
        let g3 = Processor::Gpu(GpuId::new(3).unwrap());
        let m = ProcessorMask::CPU.with(g3);
        assert_eq!(m.bits(), 0b1_0001);
        assert_eq!(m.count(), 2);
        assert_eq!(m.iter().collect::<std::vec::Vec<_>>(), [Processor::Cpu, g3]);
        assert_eq!(m.without(Processor::Cpu).first(), Some(g3));
        assert_eq!(ProcessorMask::EMPTY.first(), None);
        assert!(ProcessorMask::only(g3).is_subset_of(m));
        assert!(!m.is_subset_of(ProcessorMask::only(g3)));
    }

    #[test]
    fn page_index_of_an_address() {
        assert_eq!(PageIndex::of_va(0x7f00_0020_0000).get(), 0);
        assert_eq!(PageIndex::of_va(0x7f00_003f_ffff).get(), 511);
        assert_eq!(PageIndex::of_va(0x7f00_0020_1001).get(), 1);
        assert_eq!(PageIndex::FIRST.next(), PageIndex::new(1));
        assert_eq!(PageIndex::LAST.next(), None);
    }

    #[test]
    fn times_and_shares_do_not_overflow() {
        assert_eq!(Nanos::from_millis(u64::MAX), Nanos(u64::MAX));
        assert_eq!(Nanos(5).since(Nanos(7)), Nanos(0));
        assert_eq!(Permil::of(1, 3), Permil(333));
        assert_eq!(Permil::of(1, 0), Permil(0));
        assert_eq!(Permil::of(u64::MAX, 1), Permil(u32::MAX));
    }

    #[test]
    fn accesses_are_ordered_by_intrusion() {
        assert!(Access::Prefetch < Access::Read && Access::Read < Access::Write);
        assert!(Access::Write < Access::AtomicWeak && Access::AtomicWeak < Access::AtomicStrong);
        let m = AccessMask::only(Access::Read).or(AccessMask::only(Access::AtomicStrong));
        assert!(m.has_read() && m.contains(Access::AtomicStrong) && !m.contains(Access::Write));
    }
}
