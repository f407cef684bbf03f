// SPDX-License-Identifier: GPL-2.0
//! The GMMU: instance blocks, the walker, the TLBs (hw-interface.md 2.2, 4).
//!
//! A TLB keeps raw entries of every level, so that an entry that software changes stays in
//! force, valid or not, until an invalidate that reaches its level. That is what the hardware
//! may do, and what a driver that forgets an invalidate must be seen to trip over. There are two:
//! one of the hub (copy engines, host, BARs) and one of the GPCs (workload engine).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use huvm_hw::ext::stats::Counter;

use crate::fabric::Side;
use crate::gpu::{ram_place, Cx, Gpu};
use crate::host::Place;
use crate::pte::{self, Dir, Leaf, LeafAperture, Level};

/// First address that does not exist: 49 bits.
pub(crate) const VA_END: u64 = 1 << 49;
/// Entries of a TLB; a full one is emptied.
const TLB_ENTRIES: usize = 1 << 16;

/// Kind of access (codes of the fault packet).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Access {
    Read = 0,
    Write = 1,
    /// Strong: a read and a write that nothing comes between.
    Atomic = 2,
}

/// Fault type (codes of the fault packet).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(dead_code)] // The whole table is here, though this device raises only some.
pub(crate) enum FaultType {
    Pde = 0,
    PdeSize = 1,
    Pte = 2,
    VaLimit = 3,
    UnboundInst = 4,
    Priv = 5,
    ReadOnly = 6,
    UnsupportedAperture = 0xa,
    UnsupportedKind = 0xc,
    Region = 0xd,
    Poisoned = 0xe,
    Atomic = 0xf,
}

impl FaultType {
    /// Software can cure it: nothing mapped, or not for this access, or memory that failed, when there is another copy.
    pub(crate) fn replayable(self) -> bool {
        matches!(
            self,
            FaultType::Pde
                | FaultType::Pte
                | FaultType::ReadOnly
                | FaultType::Poisoned
                | FaultType::Atomic
        )
    }
}

/// Page directory base: the identity of an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pdb {
    pub(crate) sys: bool,
    pub(crate) addr: u64,
}

/// What the MMU takes from an instance block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instance {
    /// 0 VRAM, 2 and 3 system memory.
    pub(crate) target: u32,
    pub(crate) addr: u64,
    /// `None`: PAGE_DIR_BASE is not usable.
    pub(crate) pdb: Option<Pdb>,
    pub(crate) replay_tex: bool,
    pub(crate) replay_gcc: bool,
    /// ENG_METHOD_BUFFER_ADDR, an address of BAR2.
    pub(crate) method_buffer: u64,
}

/// Which TLB an access goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlbKind {
    Hub,
    Gpc,
}

/// What is behind an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Memory, and whose.
    Mem(Place, Side),
    /// Sparse: reads zero, writes go nowhere.
    Sparse,
}

impl Target {
    /// The place, unless sparse.
    pub(crate) fn place(self) -> Option<Place> {
        match self {
            Target::Mem(p, _) => Some(p),
            Target::Sparse => None,
        }
    }

    /// Whose memory, unless sparse.
    pub(crate) fn side(self) -> Option<Side> {
        match self {
            Target::Mem(_, s) => Some(s),
            Target::Sparse => None,
        }
    }
}

/// A translated address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) target: Target,
    /// Bytes from the address to the end of its page.
    pub(crate) run_bytes: u64,
    /// Size of the page.
    pub(crate) page_bytes: u64,
}

/// FNV-like hasher: keys are small integers, and the order of nothing depends on it.
#[derive(Default)]
pub(crate) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }
    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.write_u64(u64::from(b));
        }
    }
    fn write_u64(&mut self, v: u64) {
        self.0 = (self.0.rotate_left(23) ^ v).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn write_u8(&mut self, v: u8) {
        self.write_u64(u64::from(v));
    }
    fn write_isize(&mut self, v: isize) {
        self.write_u64(v as u64);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    pdb: Pdb,
    level: Level,
    /// VA >> level shift.
    page: u64,
}

/// A TLB.
#[derive(Default)]
pub(crate) struct Tlb {
    entries: HashMap<Key, (u64, u64), BuildHasherDefault<Mix>>,
}

impl Tlb {
    /// Drops entries of `pdb` (or all) in `range` (address, bytes; or all), at levels up to `level`
    /// (PAGE_TABLE_LEVEL code; 0 all).
    pub(crate) fn invalidate(&mut self, pdb: Option<Pdb>, range: Option<(u64, u64)>, level: u32) {
        self.entries.retain(|k, _| {
            let shift = k.level.shift();
            let hit = pdb.is_none_or(|p| p == k.pdb)
                && (level == 0 || k.level.invalidate_code() <= level)
                && range.is_none_or(|(start, bytes)| {
                    let first = start >> shift;
                    let last = start.saturating_add(bytes.saturating_sub(1)) >> shift;
                    (first..=last).contains(&k.page)
                });
            !hit
        });
    }

    fn drop_negative(&mut self) {
        self.entries.retain(|k, &mut (lo, hi)| match k.level {
            Level::Big | Level::Small => pte::valid(lo),
            Level::Pde0 => {
                pte::valid(lo)
                    || pte::dir_big(lo) != Dir::Invalid
                    || pte::dir_small(hi) != Dir::Invalid
            }
            _ => pte::valid(lo) || pte::dir(lo) != Dir::Invalid,
        });
    }
}

/// Both TLBs.
#[derive(Default)]
pub(crate) struct Mmu {
    pub(crate) hub: Tlb,
    pub(crate) gpc: Tlb,
    /// When the last piece that uses a translation ends, ns: an acknowledged invalidate waits for it.
    pub(crate) in_use_until: u64,
}

impl Mmu {
    /// Forgets cached invalid entries.
    pub(crate) fn drop_negative(&mut self) {
        self.hub.drop_negative();
        self.gpc.drop_negative();
    }
}

/// One walk: which entries came from memory.
struct Walk<'a, 'b> {
    tlb: &'a mut Tlb,
    cx: &'a mut Cx<'b>,
    pdb: Pdb,
    va: u64,
    negative: bool,
    missed: bool,
}

/// Result of a walk.
enum Found {
    Leaf(Leaf, Level),
    Sparse(Level),
}

impl Walk<'_, '_> {
    /// An entry of the table at `table`, from the TLB or from memory. `valid` says whether an entry
    /// counts as valid, for those that are not are cached only if the switch is on.
    fn entry(
        &mut self,
        table: (bool, u64),
        level: Level,
        valid: fn(u64, u64) -> bool,
    ) -> Result<(u64, u64), FaultType> {
        let key = Key {
            pdb: self.pdb,
            level,
            page: self.va >> level.shift(),
        };
        if let Some(&e) = self.tlb.entries.get(&key) {
            return Ok(e);
        }
        self.missed = true;
        let (sys, base) = table;
        let gpu = self.cx.gpu;
        let addr = base.saturating_add(level.index(self.va) * level.entry_bytes());
        let place = if sys {
            Place::Sys { gpu, addr }
        } else {
            Place::Vram { gpu, offset: addr }
        };
        let lo = self.cx.read_u64(place).map_err(|_| FaultType::Region)?;
        let hi = if level == Level::Pde0 {
            let upper = place.checked_add(8).ok_or(FaultType::Region)?;
            self.cx.read_u64(upper).map_err(|_| FaultType::Region)?
        } else {
            0
        };
        // Of a table's entries only leaves count, and of a dual one that is a leaf the upper half does not.
        let leaf = pte::valid(lo);
        let table = matches!(level, Level::Big | Level::Small);
        if (pte::cached_outside(lo) && (leaf || !table)) || (!leaf && pte::cached_outside(hi & !1))
        {
            self.cx
                .guest_error("entry of the host's or a neighbour's memory without VOL");
        }
        if self.negative || valid(lo, hi) {
            if self.tlb.entries.len() >= TLB_ENTRIES {
                self.tlb.entries.clear();
            }
            self.tlb.entries.insert(key, (lo, hi));
        }
        Ok((lo, hi))
    }

    fn run(&mut self) -> Result<Found, FaultType> {
        let single = |lo: u64, _: u64| pte::valid(lo) || pte::dir(lo) != Dir::Invalid;
        let dual = |lo: u64, hi: u64| {
            pte::valid(lo) || pte::dir_big(lo) != Dir::Invalid || pte::dir_small(hi) != Dir::Invalid
        };
        let last = |lo: u64, _: u64| pte::valid(lo);
        let mut table = (self.pdb.sys, self.pdb.addr);
        for level in [Level::Pde3, Level::Pde2, Level::Pde1] {
            let (e, _) = self.entry(table, level, single)?;
            if pte::valid(e) {
                // A leaf above 512 MiB does not exist.
                if level != Level::Pde1 {
                    return Err(FaultType::PdeSize);
                }
                return Ok(Found::Leaf(pte::leaf(e), level));
            }
            table = match pte::dir(e) {
                Dir::Invalid => return Err(FaultType::Pde),
                Dir::Sparse => return Ok(Found::Sparse(level)),
                Dir::Table { sys, addr } => (sys, addr),
            };
        }
        let (lo, hi) = self.entry(table, Level::Pde0, dual)?;
        if pte::valid(lo) {
            return Ok(Found::Leaf(pte::leaf(lo), Level::Pde0));
        }
        let (big, small) = (pte::dir_big(lo), pte::dir_small(hi));
        if let Dir::Table { sys, addr } = big {
            let (e, _) = self.entry((sys, addr), Level::Big, last)?;
            if pte::valid(e) {
                return Ok(Found::Leaf(pte::leaf(e), Level::Big));
            }
            if pte::leaf_unmapped(e) {
                return Err(FaultType::Pte);
            }
            if pte::leaf_sparse(e) {
                return Ok(Found::Sparse(Level::Big));
            }
        }
        match (big, small) {
            (_, Dir::Table { sys, addr }) => {
                let (e, _) = self.entry((sys, addr), Level::Small, last)?;
                if pte::valid(e) {
                    Ok(Found::Leaf(pte::leaf(e), Level::Small))
                } else if pte::leaf_sparse(e) {
                    Ok(Found::Sparse(Level::Small))
                } else {
                    Err(FaultType::Pte)
                }
            }
            (Dir::Table { .. }, _) => Err(FaultType::Pte),
            (Dir::Sparse, _) => Ok(Found::Sparse(Level::Pde0)),
            _ => Err(FaultType::Pde),
        }
    }
}

impl Gpu {
    /// Reads what the MMU needs of an instance block. `veid` picks a subcontext's page directory
    /// where SC_PDB_VALID names one. `None` when memory or target cannot be used.
    pub(crate) fn instance(
        &mut self,
        target: u32,
        addr: u64,
        veid: Option<u32>,
        cx: &mut Cx<'_>,
    ) -> Option<Instance> {
        let base = ram_place(cx.gpu, target, addr)?;
        let mut at = 0x200u64;
        if let Some(v) = veid {
            let valid = cx.read_u64(base.checked_add(0x298)?).ok()?;
            if v < 64 && valid & (1 << v) != 0 {
                at = 0x2a0 + 0x10 * u64::from(v);
            }
        }
        let place = base.checked_add(at)?;
        let lo = cx.read_u32(place).ok()?;
        let hi = cx.read_u32(place.checked_add(4)?).ok()?;
        let buffer = cx.read_u64(base.checked_add(0x220)?).ok()?;
        // Version 2 (bit 10) and 64 KiB big pages (bit 11) are the only formats.
        let usable = lo & 3 != 1 && lo & (3 << 10) == 3 << 10;
        let pdb = Pdb {
            sys: lo & 3 != 0,
            addr: (u64::from(hi) << 32) | u64::from(lo & 0xffff_f000),
        };
        Some(Instance {
            target,
            addr,
            pdb: usable.then_some(pdb),
            replay_tex: lo & (1 << 4) != 0,
            replay_gcc: lo & (1 << 5) != 0,
            method_buffer: buffer & ((1 << 49) - 1),
        })
    }

    /// Translates `va`. `privileged` accesses may use pages with PRIVILEGE.
    pub(crate) fn translate(
        &mut self,
        tlb: TlbKind,
        pdb: Pdb,
        va: u64,
        access: Access,
        privileged: bool,
        cx: &mut Cx<'_>,
    ) -> Result<Span, FaultType> {
        if va >= VA_END {
            return Err(FaultType::VaLimit);
        }
        let mut walk = Walk {
            tlb: match tlb {
                TlbKind::Hub => &mut self.mmu.hub,
                TlbKind::Gpc => &mut self.mmu.gpc,
            },
            cx,
            pdb,
            va,
            negative: self.inject.neg_tlb,
            missed: false,
        };
        let found = walk.run();
        let missed = walk.missed;
        cx.count(
            match (missed, &found) {
                (true, _) => Counter::TlbMisses,
                (false, Ok(_)) => Counter::TlbHits,
                (false, Err(_)) => Counter::TlbNegativeHits,
            },
            1,
        );
        let (target, level) = match found? {
            Found::Sparse(level) => (Target::Sparse, level),
            Found::Leaf(leaf, level) => {
                if leaf.privileged && !privileged {
                    return Err(FaultType::Priv);
                }
                if leaf.read_only && access != Access::Read {
                    return Err(FaultType::ReadOnly);
                }
                if leaf.atomic_disable && access == Access::Atomic {
                    return Err(FaultType::Atomic);
                }
                let within = va & ((1 << level.shift()) - 1);
                let page = 1u64 << level.shift();
                // Pages are aligned: low address bits inside a large page do not count.
                (
                    self.leaf_target(&leaf, leaf.addr & !(page - 1), within, page, cx)?,
                    level,
                )
            }
        };
        let page_bytes = 1u64 << level.shift();
        Ok(Span {
            target,
            run_bytes: page_bytes - (va & (page_bytes - 1)),
            page_bytes,
        })
    }

    fn leaf_target(
        &self,
        leaf: &Leaf,
        base: u64,
        within: u64,
        page: u64,
        cx: &Cx<'_>,
    ) -> Result<Target, FaultType> {
        // 0x07 is INVALID; 0x08 to 0x0e are compressible, which system memory cannot be.
        let sys = leaf.aperture == LeafAperture::Sys;
        if leaf.kind == 0x07 || leaf.kind > 0x0f || (sys && (0x08..=0x0e).contains(&leaf.kind)) {
            return Err(FaultType::UnsupportedKind);
        }
        let owner = match leaf.aperture {
            LeafAperture::Vid => cx.gpu,
            LeafAperture::Peer(id) => self.peer(id, cx).ok_or(FaultType::UnsupportedAperture)?,
            LeafAperture::Sys => {
                let place = Place::Sys {
                    gpu: cx.gpu,
                    addr: base.saturating_add(within),
                };
                return Ok(Target::Mem(place, Side::Sys));
            }
        };
        let place = Place::Vram {
            gpu: owner,
            offset: base,
        };
        if !cx.inside(place, page) {
            return Err(FaultType::Region);
        }
        Ok(Target::Mem(
            Place::Vram {
                gpu: owner,
                offset: base.saturating_add(within),
            },
            Side::Gpu(owner),
        ))
    }
}
