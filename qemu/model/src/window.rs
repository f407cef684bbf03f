// SPDX-License-Identifier: GPL-2.0
//! The four roads into VRAM: PRAMIN, BAR1, BAR3 ("BAR2" in the manuals), each physical or, for the
//! BARs, through page tables (hw-interface.md 7.2).

use crate::bar0;
use crate::gpu::{ram_place, Cx, Gpu};
use crate::host::Place;
use crate::mmu::{Access, TlbKind};

/// MODE bit of a BAR block register: virtual.
const MODE_VIRTUAL: u32 = 1 << 31;

/// Window registers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Windows {
    /// BASE 23:0 (address >> 16), TARGET 25:24.
    pramin: u32,
    /// PTR 27:0 (address >> 12), TARGET 29:28, MODE 31.
    bar1: u32,
    bar2: u32,
}

/// The aperture BARs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aperture {
    /// BAR1.
    Bar1,
    /// BAR3, "BAR2" in the manuals.
    Bar2,
}

impl Windows {
    fn block(&self, which: Aperture) -> u32 {
        match which {
            Aperture::Bar1 => self.bar1,
            Aperture::Bar2 => self.bar2,
        }
    }
}

impl Gpu {
    /// Reads a window register.
    pub(crate) fn window_read(&self, offset: u32) -> Option<u32> {
        Some(match offset {
            bar0::BAR0_WINDOW => self.windows.pramin,
            bar0::BAR1_BLOCK | bar0::VF_BAR1_BLOCK => self.windows.bar1,
            bar0::BAR2_BLOCK | bar0::VF_BAR2_BLOCK => self.windows.bar2,
            // Binding completes at once.
            bar0::BIND_STATUS | bar0::VF_BIND_STATUS => 0,
            _ => return None,
        })
    }

    /// Writes a window register; false when it is none.
    pub(crate) fn window_write(&mut self, offset: u32, value: u32, cx: &mut Cx<'_>) -> bool {
        match offset {
            bar0::BAR0_WINDOW => self.windows.pramin = value & 0x03ff_ffff,
            bar0::BAR1_BLOCK | bar0::VF_BAR1_BLOCK => {
                self.windows.bar1 = value;
                cx.host.bar_virtual(cx.gpu, 1, value & MODE_VIRTUAL != 0);
            }
            bar0::BAR2_BLOCK | bar0::VF_BAR2_BLOCK => {
                self.windows.bar2 = value;
                cx.host.bar_virtual(cx.gpu, 3, value & MODE_VIRTUAL != 0);
            }
            bar0::BIND_STATUS | bar0::VF_BIND_STATUS => {}
            _ => return false,
        }
        true
    }

    /// Where byte `at` of the PRAMIN window lies.
    pub(crate) fn pramin_place(&self, at: u32, cx: &Cx<'_>) -> Option<Place> {
        let base = u64::from(self.windows.pramin & 0x00ff_ffff) << 16;
        let target = (self.windows.pramin >> 24) & 3;
        ram_place(cx.gpu, target, base.saturating_add(u64::from(at)))
    }

    /// Where address `va` of an aperture BAR lies, for an access of `len` bytes. `None` when nothing
    /// is mapped there or the access would cross a page.
    pub(crate) fn aperture_place(
        &mut self,
        which: Aperture,
        va: u64,
        len: u64,
        write: bool,
        cx: &mut Cx<'_>,
    ) -> Option<Place> {
        let block = self.windows.block(which);
        if block & MODE_VIRTUAL == 0 {
            return Some(Place::Vram {
                gpu: cx.gpu,
                offset: va,
            });
        }
        let target = (block >> 28) & 3;
        let inst = self.instance(target, u64::from(block & 0x0fff_ffff) << 12, None, cx)?;
        let access = if write { Access::Write } else { Access::Read };
        match self.translate(TlbKind::Hub, inst.pdb?, va, access, true, cx) {
            Ok(span) if span.run_bytes >= len => span.target.place(),
            Ok(_) => None,
            Err(kind) => {
                self.info_fault_bar(which, &inst, va, access, kind, cx);
                None
            }
        }
    }

    /// Reads from a memory window.
    pub(crate) fn memory_read(place: Option<Place>, size: u32, cx: &mut Cx<'_>) -> u64 {
        let mut b = [0u8; 8];
        let n = (size as usize).min(8);
        let read = place.and_then(|p| b.get_mut(..n).and_then(|part| cx.read(p, part).ok()));
        if read.is_none() {
            cx.guest_error("window access that reaches no memory");
        }
        u64::from_le_bytes(b)
    }

    /// Writes to a memory window.
    pub(crate) fn memory_write(place: Option<Place>, value: u64, size: u32, cx: &mut Cx<'_>) {
        let b = value.to_le_bytes();
        let n = (size as usize).min(8);
        let written = place.and_then(|p| b.get(..n).and_then(|part| cx.write(p, part).ok()));
        if written.is_none() {
            cx.guest_error("window access that reaches no memory");
        }
    }
}
