// SPDX-License-Identifier: GPL-2.0
//! `mem show`.

use super::gpu;
use crate::exit::Result;
use crate::out::Out;
use crate::row::{extra, field, Cell, Field, Row};
use crate::units::CHUNK;
use libhuvm::{uapi, Device};
use serde::{Deserialize, Serialize};

/// Chunks of a GPU by state. For programs they are counted, for people they are [`Sizes`].
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Mem {
    pub(crate) gpu: u32,
    /// Documents of an older uvmctl do not say.
    pub(crate) state: Option<String>,
    /// `null` of a GPU that is lost: what it holds nothing in is of no use to anybody.
    pub(crate) free_chunks: Option<u64>,
    pub(crate) used_chunks: u64,
    pub(crate) evicting_chunks: u64,
    pub(crate) lent_only_chunks: u64,
    pub(crate) lent_removable_chunks: u64,
    pub(crate) pinned_chunks: u64,
    pub(crate) unusable_chunks: u64,
    /// Out of service because their memory failed.
    #[serde(default)]
    pub(crate) retired_chunks: u64,
}

impl Row for Mem {
    fn fields(&self) -> Vec<Field> {
        let chunks = |name, n| extra(name, Cell::Count(n));
        vec![
            field("gpu", "GPU", Cell::count(self.gpu)),
            field("state", "STATE", gpu::known_state(self.state.as_deref())),
            extra(
                "free_chunks",
                self.free_chunks.map_or(Cell::None, Cell::Count),
            ),
            chunks("used_chunks", self.used_chunks),
            chunks("evicting_chunks", self.evicting_chunks),
            chunks("lent_only_chunks", self.lent_only_chunks),
            chunks("lent_removable_chunks", self.lent_removable_chunks),
            chunks("pinned_chunks", self.pinned_chunks),
            chunks("unusable_chunks", self.unusable_chunks),
            chunks("retired_chunks", self.retired_chunks),
        ]
    }
}

impl Mem {
    fn new(g: &uapi::huvm_gpu_info, m: &uapi::huvm_mem_info) -> Self {
        Mem {
            gpu: g.gpu,
            state: Some(gpu::state(g).into()),
            free_chunks: (g.state == uapi::HUVM_GPU_OK).then_some(m.free),
            used_chunks: m.used,
            evicting_chunks: m.evicting,
            lent_only_chunks: m.lent_only,
            lent_removable_chunks: m.lent_removable,
            pinned_chunks: m.pinned,
            unusable_chunks: m.unusable,
            retired_chunks: m.retired.into(),
        }
    }

    /// Chunks that are lent.
    pub(crate) fn lent(&self) -> u64 {
        self.lent_only_chunks
            .saturating_add(self.lent_removable_chunks)
    }

    /// Chunks that are neither used nor lent nor free.
    pub(crate) fn other(&self) -> u64 {
        let all = [
            self.evicting_chunks,
            self.pinned_chunks,
            self.unusable_chunks,
            self.retired_chunks,
        ];
        all.into_iter().fold(0, u64::saturating_add)
    }
}

/// The table of it, in bytes.
#[derive(Default)]
struct Sizes<'a>(Option<&'a Mem>);

impl Row for Sizes<'_> {
    fn fields(&self) -> Vec<Field> {
        let none = Mem::default();
        let m = self.0.unwrap_or(&none);
        let size = |n: u64| Cell::Bytes(n.saturating_mul(CHUNK));
        vec![
            field("gpu", "GPU", Cell::count(m.gpu)),
            field("state", "STATE", gpu::known_state(m.state.as_deref())),
            field("free", "FREE", m.free_chunks.map_or(Cell::None, size)),
            field("used", "USED", size(m.used_chunks)),
            field("evicting", "EVICTING", size(m.evicting_chunks)),
            field("lent_only", "LENT", size(m.lent_only_chunks)),
            field("lent_removable", "REMOVABLE", size(m.lent_removable_chunks)),
            field("pinned", "PINNED", size(m.pinned_chunks)),
            field("unusable", "UNUSABLE", size(m.unusable_chunks)),
            field("retired", "RETIRED", size(m.retired_chunks)),
        ]
    }
}

/// All GPUs with their memory. One that leaves meanwhile has none.
pub(crate) fn read(device: &Device) -> Result<Vec<(uapi::huvm_gpu_info, Mem)>> {
    let mut all = Vec::new();
    for g in device.gpus()? {
        match device.mem_info(g.gpu) {
            Ok(m) => all.push((g, Mem::new(&g, &m))),
            Err(e) if e.gpu_gone() => continue,
            Err(e) => return Err(e.into()),
        }
    }
    Ok(all)
}

/// Memory of all GPUs.
pub(crate) fn all(device: &Device) -> Result<Vec<Mem>> {
    Ok(read(device)?.into_iter().map(|(_, m)| m).collect())
}

pub(super) fn show(out: &Out) -> Result<()> {
    let mem: Vec<Mem> = out.read("mem.show", all)?;
    out.show("mem.show", &mem, &mem, || {
        let sizes: Vec<Sizes<'_>> = mem.iter().map(|m| Sizes(Some(m))).collect();
        out.render(&sizes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_gpu_has_nothing_free() {
        let m = uapi::huvm_mem_info {
            free: 31,
            pinned: 1,
            ..Default::default()
        };
        for (state, word, free) in [
            (uapi::HUVM_GPU_OK, "ok", Some(31)),
            (uapi::HUVM_GPU_LOST, "lost", None),
        ] {
            let g = uapi::huvm_gpu_info {
                state,
                ..Default::default()
            };
            let m = Mem::new(&g, &m);
            assert_eq!((m.state.as_deref(), m.free_chunks), (Some(word), free));
            assert_eq!(m.pinned_chunks, 1);
        }
    }
}
