// SPDX-License-Identifier: GPL-2.0
//! Bare `uvmctl`: one screen, read-only.

use super::{client, gpu, mem};
use crate::exit::Result;
use crate::out::{Out, Table};
use libhuvm::{uapi, Device, Scope};
use serde::Serialize;

#[derive(Serialize)]
struct Overview {
    driver_version: String,
    preset: String,
    gpus: Vec<gpu::Gpu>,
    memory: Vec<mem::Mem>,
    clients: Vec<client::Client>,
    faults: u64,
    evictions: u64,
    bytes_h2d: u64,
    bytes_d2h: u64,
}

pub(super) fn show(out: &Out) -> Result<()> {
    let device = Device::open()?;
    let c = device.counters(Scope::Global)?;
    let o = Overview {
        driver_version: device.driver_version()?,
        preset: device.preset(Scope::Global)?,
        gpus: gpu::all(&device)?,
        memory: mem::all(&device)?,
        clients: client::all(&device)?,
        faults: c.get(uapi::HUVM_CNT_FAULTS),
        evictions: c.get(uapi::HUVM_CNT_EVICTIONS),
        bytes_h2d: c.get(uapi::HUVM_CNT_BYTES_H2D),
        bytes_d2h: c.get(uapi::HUVM_CNT_BYTES_D2H),
    };
    out.show("status", &o, || {
        let mut text = format!("huvm {}   policy {}\n\n", o.driver_version, o.preset);
        let mut t = Table::new(&[
            "GPU", "PCI", "STATE", "MEMORY", "USED", "LENT", "FREE", "CLIENTS",
        ]);
        for (g, m) in o.gpus.iter().zip(&o.memory) {
            let mib = |chunks: u64| out.bytes(chunks << 21);
            t.row(vec![
                g.index.to_string(),
                g.pci.clone(),
                g.state.into(),
                out.bytes(g.vram_bytes),
                mib(m.used_chunks),
                mib(m.lent_only_chunks + m.lent_removable_chunks),
                mib(m.free_chunks),
                g.clients.to_string(),
            ]);
        }
        text.push_str(&t.render(true));
        text.push_str(&format!(
            "\nfaults {}   evictions {}   to GPUs {}   to host {}\n",
            o.faults,
            o.evictions,
            out.bytes(o.bytes_h2d),
            out.bytes(o.bytes_d2h)
        ));
        if o.clients.is_empty() {
            text.push_str("\nno clients\n");
        } else {
            text.push('\n');
            text.push_str(&client::table(out, &o.clients).render(true));
        }
        text
    });
    Ok(())
}
