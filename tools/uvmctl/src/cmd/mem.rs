// SPDX-License-Identifier: GPL-2.0
//! `mem show`.

use crate::exit::Result;
use crate::out::{Out, Table};
use libhuvm::Device;
use serde::Serialize;

/// Chunks of a GPU by state.
#[derive(Serialize)]
pub(crate) struct Mem {
    pub(crate) gpu: u32,
    pub(crate) free_chunks: u64,
    pub(crate) used_chunks: u64,
    pub(crate) evicting_chunks: u64,
    pub(crate) lent_only_chunks: u64,
    pub(crate) lent_removable_chunks: u64,
    pub(crate) pinned_chunks: u64,
    pub(crate) unusable_chunks: u64,
}

/// Memory of all GPUs.
pub(crate) fn all(device: &Device) -> Result<Vec<Mem>> {
    let mut all = Vec::new();
    for g in device.gpus()? {
        let m = device.mem_info(g.gpu)?;
        all.push(Mem {
            gpu: g.gpu,
            free_chunks: m.free,
            used_chunks: m.used,
            evicting_chunks: m.evicting,
            lent_only_chunks: m.lent_only,
            lent_removable_chunks: m.lent_removable,
            pinned_chunks: m.pinned,
            unusable_chunks: m.unusable,
        });
    }
    Ok(all)
}

pub(super) fn show(out: &Out) -> Result<()> {
    let mem = all(&Device::open()?)?;
    out.table("mem.show", &mem, || {
        let mut t = Table::new(&[
            "GPU",
            "FREE",
            "USED",
            "EVICTING",
            "LENT",
            "REMOVABLE",
            "PINNED",
            "UNUSABLE",
        ]);
        for m in &mem {
            t.row(
                [
                    m.gpu.into(),
                    m.free_chunks,
                    m.used_chunks,
                    m.evicting_chunks,
                    m.lent_only_chunks,
                    m.lent_removable_chunks,
                    m.pinned_chunks,
                    m.unusable_chunks,
                ]
                .map(|n| n.to_string())
                .to_vec(),
            );
        }
        t
    });
    Ok(())
}
