// SPDX-License-Identifier: GPL-2.0
//! `gpu list`, `gpu show`, `topo`.

use crate::exit::{Failure, Result};
use crate::out::{Out, Table};
use libhuvm::{uapi, Device};
use serde::Serialize;

/// A GPU.
#[derive(Serialize)]
pub(crate) struct Gpu {
    pub(crate) index: u32,
    pub(crate) pci: String,
    pub(crate) uuid: String,
    pub(crate) state: &'static str,
    pub(crate) chip_id: String,
    pub(crate) vram_bytes: u64,
    pub(crate) chunks: u32,
    pub(crate) copy_engines: u32,
    pub(crate) links: u32,
    pub(crate) host_h2d_mbps: Option<u32>,
    pub(crate) host_d2h_mbps: Option<u32>,
    pub(crate) host_latency_ns: Option<u32>,
    pub(crate) clients: u32,
    pub(crate) emulated: Option<Emulated>,
}

/// How an emulated GPU behaves.
#[derive(Serialize)]
pub(crate) struct Emulated {
    pub(crate) timing: bool,
    pub(crate) phantom_data: bool,
    pub(crate) realism: bool,
    pub(crate) profile_id: String,
}

impl Gpu {
    /// From what the driver says.
    pub(crate) fn new(g: &uapi::huvm_gpu_info) -> Self {
        let [a, b, c, d] = g.uuid;
        let known = |n: u32| (n != 0).then_some(n);
        Gpu {
            index: g.gpu,
            pci: Device::pci_name(g),
            uuid: format!(
                "GPU-{a:08x}-{:04x}-{:04x}-{:04x}-{:04x}{d:08x}",
                b >> 16,
                b & 0xffff,
                c >> 16,
                c & 0xffff
            ),
            state: if g.state == uapi::HUVM_GPU_OK {
                "ok"
            } else {
                "lost"
            },
            chip_id: format!("{:#x}", g.chip_id),
            vram_bytes: g.vram_bytes,
            chunks: g.chunk_count,
            copy_engines: g.ce_count,
            links: g.link_count,
            host_h2d_mbps: known(g.host_h2d_mbps),
            host_d2h_mbps: known(g.host_d2h_mbps),
            host_latency_ns: known(g.host_latency_ns),
            clients: g.registered_clients,
            emulated: known(g.profile_id).map(|id| Emulated {
                timing: g.device_flags & 1 != 0,
                phantom_data: g.device_flags & 2 != 0,
                realism: g.device_flags & 4 != 0,
                profile_id: format!("{id:#010x}"),
            }),
        }
    }
}

/// All GPUs.
pub(crate) fn all(device: &Device) -> Result<Vec<Gpu>> {
    Ok(device.gpus()?.iter().map(Gpu::new).collect())
}

pub(super) fn list(out: &Out) -> Result<()> {
    let gpus = all(&Device::open()?)?;
    out.table("gpu.list", &gpus, || {
        let mut t = Table::new(&[
            "GPU", "PCI", "STATE", "CHIP", "VRAM", "ENGINES", "LINKS", "CLIENTS",
        ]);
        for g in &gpus {
            t.row(vec![
                g.index.to_string(),
                g.pci.clone(),
                g.state.into(),
                g.chip_id.clone(),
                out.bytes(g.vram_bytes),
                g.copy_engines.to_string(),
                g.links.to_string(),
                g.clients.to_string(),
            ]);
        }
        t
    });
    Ok(())
}

/// The GPU that an index, a PCI address or a UUID names.
fn find(gpus: Vec<Gpu>, id: &str) -> Result<Gpu> {
    let known: Vec<String> = gpus
        .iter()
        .map(|g| format!("{} ({})", g.index, g.pci))
        .collect();
    gpus.into_iter()
        .find(|g| g.index.to_string() == id || g.pci == id || g.uuid == id)
        .ok_or_else(|| {
            Failure::NotFound(
                format!("there is no GPU '{id}'"),
                format!("there are: {}", known.join(", ")),
            )
        })
}

pub(super) fn show(out: &Out, id: &str) -> Result<()> {
    let g = find(all(&Device::open()?)?, id)?;
    out.show("gpu.show", &g, || {
        let or = |n: Option<u32>, unit: &str| n.map_or("-".into(), |n| format!("{n} {unit}"));
        let mut lines = vec![
            ("Index", g.index.to_string()),
            ("PCI address", g.pci.clone()),
            ("UUID", g.uuid.clone()),
            ("State", g.state.into()),
            ("Chip", g.chip_id.clone()),
            ("VRAM", out.bytes(g.vram_bytes)),
            ("Chunks of 2 MiB", g.chunks.to_string()),
            ("Copy engines", g.copy_engines.to_string()),
            ("Links", g.links.to_string()),
            ("Host link, to GPU", or(g.host_h2d_mbps, "MB/s")),
            ("Host link, to host", or(g.host_d2h_mbps, "MB/s")),
            ("Host link latency", or(g.host_latency_ns, "ns")),
            ("Clients", g.clients.to_string()),
        ];
        if let Some(e) = &g.emulated {
            let on = |b: bool| if b { "on" } else { "off" };
            lines.push(("Emulated: timing", on(e.timing).into()));
            lines.push(("Emulated: phantom data", on(e.phantom_data).into()));
            lines.push(("Emulated: realism", on(e.realism).into()));
            lines.push(("Emulated: profile", e.profile_id.clone()));
        }
        lines.iter().map(|(k, v)| format!("{k:<24}{v}\n")).collect()
    });
    Ok(())
}

#[derive(Serialize)]
struct Link {
    gpu: u32,
    peer: u32,
    r#type: &'static str,
    mbps: u32,
    latency_ns: u32,
    up: bool,
}

pub(super) fn topo(out: &Out) -> Result<()> {
    let device = Device::open()?;
    let mut links = Vec::new();
    for g in device.gpus()? {
        for l in device.links(g.gpu)? {
            links.push(Link {
                gpu: g.gpu,
                peer: l.peer,
                r#type: if l.type_ == uapi::HUVM_LINK_NVLINK {
                    "nvlink"
                } else {
                    "pcie"
                },
                mbps: l.mbps,
                latency_ns: l.latency_ns,
                up: l.up != 0,
            });
        }
    }
    out.table("topo", &links, || {
        let mut t = Table::new(&["GPU", "PEER", "TYPE", "MB/S", "LATENCY_NS", "STATE"]);
        for l in &links {
            t.row(vec![
                l.gpu.to_string(),
                l.peer.to_string(),
                l.r#type.into(),
                l.mbps.to_string(),
                l.latency_ns.to_string(),
                if l.up { "up" } else { "down" }.into(),
            ]);
        }
        t
    });
    Ok(())
}
