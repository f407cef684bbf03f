// SPDX-License-Identifier: GPL-2.0
//! Bare `uvmctl`, `status`: one screen, read-only. `version`.

use super::{client, gpu, mem};
use crate::exit::{Failure, Result};
use crate::out::Out;
use crate::row::{extra, field, Cell, Field, Row};
use crate::units::CHUNK;
use libhuvm::{uapi, Device, Scope};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
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

/// A GPU with its memory.
#[derive(Default)]
pub(super) struct Line {
    gpu: gpu::Gpu,
    /// `None`: it came or left between the two readings.
    mem: Option<mem::Mem>,
}

impl Row for Line {
    fn fields(&self) -> Vec<Field> {
        let g = &self.gpu;
        let size = |of: fn(&mem::Mem) -> Option<u64>| {
            let chunks = self.mem.as_ref().and_then(of);
            chunks.map_or(Cell::None, |n| Cell::Bytes(n.saturating_mul(CHUNK)))
        };
        vec![
            field("index", "GPU", Cell::count(g.index)),
            field("pci", "PCI", Cell::text(&g.pci)),
            extra("uuid", Cell::text(&g.uuid)),
            field("state", "STATE", Cell::state(&g.state, g.state == "ok")),
            field("vram_bytes", "MEMORY", Cell::Bytes(g.vram_bytes)),
            field("used_bytes", "USED", size(|m| Some(m.used_chunks))),
            field("lent_bytes", "LENT", size(|m| Some(m.lent()))),
            field("free_bytes", "FREE", size(|m| m.free_chunks)),
            field("other_bytes", "OTHER", size(|m| Some(m.other()))),
            field("clients", "CLIENTS", Cell::count(g.clients)),
        ]
    }
}

/// What is said of a GPU whose memory failed in places.
fn retired(m: &mem::Mem) -> Option<String> {
    let chunks = match m.retired_chunks {
        0 => return None,
        1 => "1 chunk".into(),
        n => format!("{n} chunks"),
    };
    Some(format!(
        "gpu {}: {chunks} retired, see 'uvmctl doctor'\n",
        m.gpu
    ))
}

fn gather(device: &Device) -> Result<Overview> {
    let c = device.counters(Scope::Global)?;
    Ok(Overview {
        driver_version: device.driver_version()?,
        preset: device.preset(Scope::Global)?,
        gpus: gpu::all(device)?,
        memory: mem::all(device)?,
        clients: client::all(device)?,
        faults: c.get(uapi::HUVM_CNT_FAULTS),
        evictions: c.get(uapi::HUVM_CNT_EVICTIONS),
        bytes_h2d: c.get(uapi::HUVM_CNT_BYTES_H2D),
        bytes_d2h: c.get(uapi::HUVM_CNT_BYTES_D2H),
    })
}

pub(super) fn show(out: &Out) -> Result<()> {
    let o: Overview = out.read("status", gather)?;
    client::told(out, o.clients.iter());
    let lines: Vec<Line> = o
        .gpus
        .iter()
        .map(|g| Line {
            gpu: g.clone(),
            mem: o.memory.iter().find(|m| m.gpu == g.index).cloned(),
        })
        .collect();
    out.show("status", &o, &lines, || {
        let mut text = format!("huvm {}   policy {}\n\n", o.driver_version, o.preset);
        if lines.is_empty() {
            text.push_str("no GPUs\n");
        } else {
            text.push_str(&out.render(&lines));
            text.extend(o.memory.iter().filter_map(retired));
        }
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
            text.push_str(&out.render(&o.clients));
        }
        text
    })
}

/// What `version` says.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Versions {
    tool: String,
    abi: String,
    driver: Option<String>,
    driver_abi: Option<String>,
}

impl Row for Versions {
    fn fields(&self) -> Vec<Field> {
        let or = |t: &Option<String>| t.as_ref().map_or(Cell::None, Cell::text);
        vec![
            field("tool", "UVMCTL", Cell::text(&self.tool)),
            field("abi", "INTERFACE", Cell::text(&self.abi)),
            field("driver", "DRIVER", or(&self.driver)),
            field("driver_abi", "ITS-INTERFACE", or(&self.driver_abi)),
        ]
    }
}

/// Works without a driver too: that it is not there is not what was asked.
pub(super) fn version(out: &Out) -> Result<()> {
    let saved = out.saved::<Vec<Versions>>("version")?;
    let versions = match saved.and_then(|mut all| all.pop()) {
        Some(last) => return out.list("version", &out.adopt(last)),
        None => {
            let driver_abi = match out.device() {
                Ok(d) => (d.version().ok()).map(|v| format!("{}.{}", v.abi_major, v.abi_minor)),
                Err(Failure::Huvm(libhuvm::Error::Abi { driver, .. })) => Some(driver.to_string()),
                Err(Failure::Huvm(libhuvm::Error::NotLoaded)) => None,
                Err(e) => {
                    out.warn(&e.to_string());
                    None
                }
            };
            Versions {
                tool: env!("CARGO_PKG_VERSION").into(),
                abi: format!("{}.{}", uapi::HUVM_ABI_MAJOR, uapi::HUVM_ABI_MINOR),
                driver: out.driver_version(),
                driver_abi,
            }
        }
    };
    out.list("version", &[versions])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(line: &Line, name: &str) -> Cell {
        let fields = line.fields();
        fields.into_iter().find(|f| f.name == name).unwrap().cell
    }

    /// What is not to be told is not told as nothing.
    #[test]
    fn a_gpu_that_left_meanwhile_has_no_figures() {
        let line = Line::default();
        for name in ["used_bytes", "lent_bytes", "free_bytes", "other_bytes"] {
            assert_eq!(cell(&line, name), Cell::None, "{name}");
        }
    }

    #[test]
    fn every_chunk_is_in_a_column() {
        let mem = mem::Mem {
            free_chunks: Some(1),
            used_chunks: 2,
            evicting_chunks: 4,
            lent_only_chunks: 8,
            lent_removable_chunks: 16,
            pinned_chunks: 32,
            unusable_chunks: 64,
            retired_chunks: 128,
            ..Default::default()
        };
        let line = Line {
            mem: Some(mem),
            ..Line::default()
        };
        for (name, chunks) in [
            ("free_bytes", 1),
            ("used_bytes", 2),
            ("lent_bytes", 24),
            ("other_bytes", 228),
        ] {
            assert_eq!(cell(&line, name), Cell::Bytes(chunks * CHUNK), "{name}");
        }
    }

    #[test]
    fn retired_chunks_are_told() {
        let told = |retired_chunks| {
            retired(&mem::Mem {
                retired_chunks,
                ..Default::default()
            })
        };
        assert_eq!(told(0), None);
        let one = "gpu 0: 1 chunk retired, see 'uvmctl doctor'\n";
        assert_eq!(told(1).as_deref(), Some(one));
        assert!(told(2).unwrap().contains("2 chunks retired"));
    }
}
