// SPDX-License-Identifier: GPL-2.0
//! `mem show`.

use crate::exit::Result;
use crate::out::Out;
use crate::row::{field, Cell, Field, Row};
use libhuvm::Device;
use serde::{Deserialize, Serialize};

/// Chunks of a GPU by state.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Mem {
    pub(crate) gpu: u32,
    pub(crate) free_chunks: u64,
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
        let chunks = |name, head, n| field(name, head, Cell::Count(n));
        vec![
            field("gpu", "GPU", Cell::count(self.gpu)),
            chunks("free_chunks", "FREE", self.free_chunks),
            chunks("used_chunks", "USED", self.used_chunks),
            chunks("evicting_chunks", "EVICTING", self.evicting_chunks),
            chunks("lent_only_chunks", "LENT", self.lent_only_chunks),
            chunks(
                "lent_removable_chunks",
                "REMOVABLE",
                self.lent_removable_chunks,
            ),
            chunks("pinned_chunks", "PINNED", self.pinned_chunks),
            chunks("unusable_chunks", "UNUSABLE", self.unusable_chunks),
            chunks("retired_chunks", "RETIRED", self.retired_chunks),
        ]
    }
}

/// Memory of all GPUs. One that leaves meanwhile has none.
pub(crate) fn all(device: &Device) -> Result<Vec<Mem>> {
    let mut all = Vec::new();
    for g in device.gpus()? {
        let m = match device.mem_info(g.gpu) {
            Ok(m) => m,
            Err(e) if e.gpu_gone() => continue,
            Err(e) => return Err(e.into()),
        };
        all.push(Mem {
            gpu: g.gpu,
            free_chunks: m.free,
            used_chunks: m.used,
            evicting_chunks: m.evicting,
            lent_only_chunks: m.lent_only,
            lent_removable_chunks: m.lent_removable,
            pinned_chunks: m.pinned,
            unusable_chunks: m.unusable,
            retired_chunks: m.retired.into(),
        });
    }
    Ok(all)
}

pub(super) fn show(out: &Out) -> Result<()> {
    let mem: Vec<Mem> = out.read("mem.show", all)?;
    out.list("mem.show", &mem)
}
