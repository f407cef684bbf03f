// SPDX-License-Identifier: GPL-2.0
//! `gpu list`, `gpu show`.

use crate::exit::{Failure, Result};
use crate::out::Out;
use crate::row::{extra, field, Cell, Field, Row};
use libhuvm::{uapi, Device, Scope};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A GPU.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Gpu {
    pub(crate) index: u32,
    pub(crate) pci: String,
    pub(crate) uuid: String,
    pub(crate) state: String,
    pub(crate) chip_id: String,
    pub(crate) vram_bytes: u64,
    pub(crate) chunks: u32,
    /// Of these, out of service because their memory failed.
    #[serde(default)]
    pub(crate) retired_chunks: Option<u32>,
    pub(crate) copy_engines: u32,
    pub(crate) links: u32,
    pub(crate) host_h2d_mbps: Option<u32>,
    pub(crate) host_d2h_mbps: Option<u32>,
    pub(crate) host_latency_ns: Option<u32>,
    pub(crate) clients: u32,
    pub(crate) emulated: Option<Emulated>,
}

/// How an emulated GPU behaves.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Emulated {
    pub(crate) timing: bool,
    pub(crate) phantom_data: bool,
    pub(crate) realism: bool,
    pub(crate) profile_id: String,
}

impl Row for Gpu {
    fn fields(&self) -> Vec<Field> {
        let e = self.emulated.as_ref();
        let flag = |of: fn(&Emulated) -> bool| e.map_or(Cell::None, |e| Cell::Flag(of(e)));
        vec![
            field("index", "GPU", Cell::count(self.index)),
            field("pci", "PCI", Cell::text(&self.pci)),
            extra("uuid", Cell::text(&self.uuid)),
            field(
                "state",
                "STATE",
                Cell::state(&self.state, self.state == "ok"),
            ),
            field("chip_id", "CHIP", Cell::text(&self.chip_id)),
            field("vram_bytes", "VRAM", Cell::Bytes(self.vram_bytes)),
            extra("chunks", Cell::count(self.chunks)),
            extra("retired_chunks", Cell::known(self.retired_chunks)),
            field("copy_engines", "ENGINES", Cell::count(self.copy_engines)),
            field("links", "LINKS", Cell::count(self.links)),
            extra("host_h2d_mbps", Cell::known(self.host_h2d_mbps)),
            extra("host_d2h_mbps", Cell::known(self.host_d2h_mbps)),
            extra("host_latency_ns", Cell::known(self.host_latency_ns)),
            field("clients", "CLIENTS", Cell::count(self.clients)),
            extra("timing", flag(|e| e.timing)),
            extra("phantom_data", flag(|e| e.phantom_data)),
            extra("realism", flag(|e| e.realism)),
            extra(
                "profile_id",
                e.map_or(Cell::None, |e| Cell::text(&e.profile_id)),
            ),
        ]
    }
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
            state: state(g).into(),
            chip_id: format!("{:#x}", g.chip_id),
            vram_bytes: g.vram_bytes,
            chunks: g.chunk_count,
            retired_chunks: None,
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
    let with_memory = |g: &uapi::huvm_gpu_info| Gpu {
        // One that leaves meanwhile has none.
        retired_chunks: device.mem_info(g.gpu).ok().map(|m| m.retired),
        ..Gpu::new(g)
    };
    Ok(device.gpus()?.iter().map(with_memory).collect())
}

pub(super) fn list(out: &Out) -> Result<()> {
    let gpus: Vec<Gpu> = out.read("gpu.list", all)?;
    out.list("gpu.list", &gpus)
}

/// The GPU that an index, a PCI address or a UUID names.
fn find<'a>(gpus: &'a [Gpu], id: &str) -> Result<&'a Gpu> {
    let named = |g: &&Gpu| {
        g.index.to_string() == id
            || g.pci.eq_ignore_ascii_case(id)
            || g.uuid.eq_ignore_ascii_case(id)
    };
    gpus.iter().find(named).ok_or_else(|| {
        let known: Vec<String> = gpus
            .iter()
            .map(|g| format!("{} ({})", g.index, g.pci))
            .collect();
        let hint = if known.is_empty() {
            "the driver sees no GPU; see 'uvmctl doctor'".into()
        } else {
            format!("there are: {}", known.join(", "))
        };
        Failure::NotFound(format!("there is no GPU '{id}'"), hint)
    })
}

/// Index of the GPU that an index, a PCI address or a UUID names.
pub(crate) fn index(device: &Device, id: &str) -> Result<u32> {
    Ok(find(&all(device)?, id)?.index)
}

/// Indices of the GPUs that a list names, with commas between them, or `all`: each once, in the list's order.
fn listed(gpus: &[Gpu], ids: &str) -> Result<Vec<u32>> {
    if ids == "all" && gpus.is_empty() {
        let hint = "see 'uvmctl doctor'".into();
        return Err(Failure::NotFound("there is no GPU".into(), hint));
    }
    if ids == "all" {
        return Ok(gpus.iter().map(|g| g.index).collect());
    }
    let mut some = Vec::new();
    for id in ids.split(',') {
        let index = find(gpus, id)?.index;
        if !some.contains(&index) {
            some.push(index);
        }
    }
    Ok(some)
}

/// A scope, and its name in documents.
pub(crate) type Named = (Scope, String);

/// The scope of a GPU.
pub(crate) fn of_gpu(index: u32) -> Named {
    (Scope::Gpu(index), format!("gpu{index}"))
}

/// The scope of a process.
pub(crate) fn of_process(pid: u32) -> Named {
    (Scope::Process(pid), format!("pid{pid}"))
}

/// The scope that `--gpu` names; without it the global one.
pub(crate) fn scope(device: &Device, id: Option<&str>) -> Result<Named> {
    match id {
        None => Ok((Scope::Global, "global".into())),
        Some(id) => Ok(of_gpu(index(device, id)?)),
    }
}

/// The scopes of a `--gpu` that takes one GPU, several, or `all`; without it the global one.
pub(crate) fn scopes(device: &Device, ids: Option<&str>) -> Result<Vec<Named>> {
    match ids {
        None => Ok(vec![scope(device, None)?]),
        Some(ids) => Ok(listed(&all(device)?, ids)?
            .into_iter()
            .map(of_gpu)
            .collect()),
    }
}

/// The scopes of all GPUs that there are; none, if they have left.
pub(crate) fn every(device: &Device) -> Result<Vec<Named>> {
    let gpus = device.gpus()?;
    Ok(gpus.iter().map(|g| of_gpu(g.gpu)).collect())
}

/// The scopes that `--gpu` and `--pid` choose of a saved document, which has these; all without either. Of a GPU it knows the
/// index alone.
pub(crate) fn saved(
    gpus: Option<&str>,
    pid: Option<u32>,
    has: &BTreeSet<String>,
) -> Result<BTreeSet<String>> {
    let of_gpus = || has.iter().filter(|h| h.starts_with("gpu"));
    let wanted: Vec<(String, String)> = match (gpus, pid) {
        (None, None) => return Ok(has.clone()),
        (_, Some(pid)) => vec![(of_process(pid).1, format!("process {pid}"))],
        (Some("all"), _) if of_gpus().count() != 0 => return Ok(of_gpus().cloned().collect()),
        (Some(ids), _) => ids
            .split(',')
            .map(|id| (format!("gpu{id}"), format!("GPU '{id}'")))
            .collect(),
    };
    if let Some((_, what)) = wanted.iter().find(|(w, _)| !has.contains(w)) {
        let all: Vec<&str> = has.iter().map(String::as_str).collect();
        let all = all.join(", ");
        let hint = match pid {
            _ if has.is_empty() => "it does not say of what it is".into(),
            Some(_) => format!("it has: {all}"),
            None => format!("it has: {all}; GPUs go by their index there"),
        };
        let what = format!("the document has nothing of {what}");
        return Err(Failure::NotFound(what, hint));
    }
    Ok(wanted.into_iter().map(|(w, _)| w).collect())
}

/// Whether the GPU of this index is there, and not lost. What leads to any other leads nowhere.
pub(crate) fn there(gpus: &[uapi::huvm_gpu_info], index: u32) -> bool {
    let mut all = gpus.iter();
    all.any(|g| g.gpu == index && g.state == uapi::HUVM_GPU_OK)
}

/// A word for how a GPU is.
pub(crate) fn state(g: &uapi::huvm_gpu_info) -> &'static str {
    if g.state == uapi::HUVM_GPU_OK {
        "ok"
    } else {
        "lost"
    }
}

/// The cell of such a word, which documents of an older uvmctl lack.
pub(crate) fn known_state(word: Option<&str>) -> Cell {
    word.map_or(Cell::None, |w| Cell::state(w, w == "ok"))
}

pub(super) fn show(out: &Out, id: &str) -> Result<()> {
    let g: Gpu = out.read("gpu.show", |device| find(&all(device)?, id).cloned())?;
    // A saved document has one GPU: it must be the one that is asked for.
    find(std::slice::from_ref(&g), id)?;
    out.show("gpu.show", &g, std::slice::from_ref(&g), || {
        let or = |n: Option<u32>, unit: &str| n.map_or("-".into(), |n| format!("{n} {unit}"));
        let mut lines = vec![
            ("Index", g.index.to_string()),
            ("PCI address", g.pci.clone()),
            ("UUID", g.uuid.clone()),
            ("State", g.state.clone()),
            ("Chip", g.chip_id.clone()),
            ("VRAM", out.bytes(g.vram_bytes)),
            ("Chunks of 2 MiB", g.chunks.to_string()),
            (
                "Chunks retired (ECC)",
                g.retired_chunks.map_or("-".into(), |n| n.to_string()),
            ),
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
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_document_has_what_is_chosen_of_it() {
        let set = |words: &[&str]| -> BTreeSet<String> {
            words.iter().map(|w| (*w).to_owned()).collect()
        };
        let has = set(&["global", "gpu0", "gpu2", "pid71"]);
        let of = |gpus, pid| saved(gpus, pid, &has).map_err(|e| e.code());
        assert_eq!(of(None, None), Ok(has.clone()));
        assert_eq!(of(Some("all"), None), Ok(set(&["gpu0", "gpu2"])));
        assert_eq!(of(Some("2"), None), Ok(set(&["gpu2"])));
        assert_eq!(of(Some("2,0,2"), None), Ok(set(&["gpu0", "gpu2"])));
        assert_eq!(of(None, Some(71)), Ok(set(&["pid71"])));
        for ids in ["1", "0,1", "", "0000:00:02.0"] {
            assert_eq!(of(Some(ids), None), Err(6), "{ids}");
        }
        assert_eq!(of(None, Some(7)), Err(6));
        assert!(saved(Some("all"), None, &set(&["global"])).is_err());
        assert!(saved(Some("0"), None, &set(&[])).is_err());
    }

    #[test]
    fn a_list_names_each_gpu_once_and_in_its_order() {
        let gpu = |index, pci: &str, uuid: &str| Gpu {
            index,
            pci: pci.into(),
            uuid: uuid.into(),
            ..Gpu::default()
        };
        // GPU 1 has left.
        let gpus = [
            gpu(0, "0000:00:02.0", "GPU-a"),
            gpu(2, "0000:00:04.0", "GPU-c"),
        ];
        for (ids, some) in [
            ("all", &[0, 2][..]),
            ("2", &[2]),
            ("2,0", &[2, 0]),
            ("0,0,0000:00:02.0,gpu-A", &[0]),
            ("GPU-c,0", &[2, 0]),
        ] {
            assert_eq!(listed(&gpus, ids).ok().as_deref(), Some(some), "{ids}");
        }
        for ids in ["", "1", "0,", "0,1", "0 2", "ALL", "0,all"] {
            assert_eq!(listed(&gpus, ids).map_err(|e| e.code()), Err(6), "{ids}");
        }
        // Nothing done to none of them is no success.
        assert_eq!(listed(&[], "all").map_err(|e| e.code()), Err(6));
    }
}
