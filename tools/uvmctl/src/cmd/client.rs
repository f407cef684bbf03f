// SPDX-License-Identifier: GPL-2.0
//! `client list|show`, `range show`.

use crate::cli::{ClientVerb, RangeVerb};
use crate::exit::{Failure, Result};
use crate::out::{Out, Table};
use libhuvm::{uapi, Device};
use serde::Serialize;

/// A client: an open file.
#[derive(Serialize)]
pub(crate) struct Client {
    pub(crate) client: u64,
    pub(crate) pid: u32,
    pub(crate) name: String,
    pub(crate) gpus: Vec<u32>,
    pub(crate) managed_bytes: u64,
    pub(crate) host_bytes: u64,
    pub(crate) gpu_bytes: Vec<u64>,
    pub(crate) faults: u64,
    pub(crate) evictions: u64,
    pub(crate) launches: u64,
}

/// All clients but this tool's own file.
pub(crate) fn all(device: &Device) -> Result<Vec<Client>> {
    let own = std::process::id();
    let clients = device.clients()?;
    Ok(clients
        .iter()
        .filter(|c| c.pid != own)
        .map(|c| Client {
            client: c.client,
            pid: c.pid,
            name: Device::client_name(c),
            gpus: (0..uapi::HUVM_MAX_GPUS)
                .filter(|i| c.gpu_mask & (1 << i) != 0)
                .collect(),
            managed_bytes: c.managed_bytes,
            host_bytes: c.host_bytes,
            gpu_bytes: c.gpu_bytes.to_vec(),
            faults: c.faults,
            evictions: c.evictions,
            launches: c.launches,
        })
        .collect())
}

/// A table of clients.
pub(crate) fn table(out: &Out, clients: &[Client]) -> Table {
    let mut t = Table::new(&[
        "PID",
        "NAME",
        "GPUS",
        "MANAGED",
        "ON-GPU",
        "ON-HOST",
        "FAULTS",
        "EVICTIONS",
        "LAUNCHES",
    ]);
    for c in clients {
        let gpus: Vec<String> = c.gpus.iter().map(u32::to_string).collect();
        t.row(vec![
            c.pid.to_string(),
            c.name.clone(),
            if gpus.is_empty() {
                "-".into()
            } else {
                gpus.join(",")
            },
            out.bytes(c.managed_bytes),
            out.bytes(c.gpu_bytes.iter().sum()),
            out.bytes(c.host_bytes),
            c.faults.to_string(),
            c.evictions.to_string(),
            c.launches.to_string(),
        ]);
    }
    t
}

fn of_pid(device: &Device, pid: u32) -> Result<Vec<Client>> {
    let mut clients = all(device)?;
    clients.retain(|c| c.pid == pid);
    if clients.is_empty() {
        return Err(Failure::NotFound(
            format!("process {pid} has no open /dev/huvm"),
            "'uvmctl client list' shows who has".into(),
        ));
    }
    Ok(clients)
}

pub(super) fn run(out: &Out, verb: &ClientVerb) -> Result<()> {
    let device = Device::open()?;
    let clients = match verb {
        ClientVerb::List => all(&device)?,
        ClientVerb::Show { pid } => of_pid(&device, *pid)?,
    };
    let schema = match verb {
        ClientVerb::List => "client.list",
        ClientVerb::Show { .. } => "client.show",
    };
    out.table(schema, &clients, || table(out, &clients));
    Ok(())
}

#[derive(Serialize)]
struct Block {
    va: String,
    managed_pages: u32,
    host_pages: u32,
    gpu_pages: Vec<u16>,
    gpu_mapped_pages: Vec<u16>,
    cpu_mapped: bool,
    host_piece_kib: u32,
    last_cause: &'static str,
    preferred: Option<String>,
    read_mostly: bool,
}

/// Name of a `HUVM_CAUSE_*`.
pub(crate) fn cause(c: u32) -> &'static str {
    match c {
        uapi::HUVM_CAUSE_GPU_FAULT => "gpu-fault",
        uapi::HUVM_CAUSE_CPU_FAULT => "cpu-fault",
        uapi::HUVM_CAUSE_PREFETCH => "prefetch",
        uapi::HUVM_CAUSE_EVICTION => "eviction",
        uapi::HUVM_CAUSE_API => "call",
        uapi::HUVM_CAUSE_THRASHING => "thrashing",
        _ => "none",
    }
}

pub(super) fn range(out: &Out, verb: &RangeVerb) -> Result<()> {
    let RangeVerb::Show { pid, addr } = verb;
    let device = Device::open()?;
    let start = u64::from_str_radix(addr.trim_start_matches("0x"), 16)
        .map_err(|_| Failure::Usage(format!("'{addr}' is no hexadecimal address")))?;
    let mut blocks = Vec::new();
    for c in of_pid(&device, *pid)? {
        for b in device.blocks(c.client, start, 4096)? {
            blocks.push(Block {
                va: format!("{:#x}", b.va),
                managed_pages: b.managed_pages,
                host_pages: b.host_pages,
                gpu_pages: b.gpu_pages.to_vec(),
                gpu_mapped_pages: b.gpu_mapped.to_vec(),
                cpu_mapped: b.cpu_mapped != 0,
                host_piece_kib: b.host_piece_kib,
                last_cause: cause(b.last_cause),
                preferred: match b.preferred {
                    uapi::HUVM_PLACE_NONE => None,
                    uapi::HUVM_PLACE_HOST => Some("host".into()),
                    g => Some(format!("gpu{g}")),
                },
                read_mostly: b.read_mostly != 0,
            });
        }
    }
    out.table("range.show", &blocks, || {
        let mut t = Table::new(&[
            "BLOCK",
            "PAGES",
            "HOST",
            "GPUS",
            "CPU-MAPPED",
            "HOST-KIB",
            "LAST-CAUSE",
            "PREFERRED",
        ]);
        for b in &blocks {
            let gpus: Vec<String> = b
                .gpu_pages
                .iter()
                .enumerate()
                .filter(|(_, n)| **n != 0)
                .map(|(g, n)| format!("{g}:{n}"))
                .collect();
            t.row(vec![
                b.va.clone(),
                b.managed_pages.to_string(),
                b.host_pages.to_string(),
                if gpus.is_empty() {
                    "-".into()
                } else {
                    gpus.join(" ")
                },
                if b.cpu_mapped { "yes" } else { "no" }.into(),
                b.host_piece_kib.to_string(),
                b.last_cause.into(),
                b.preferred.clone().unwrap_or_else(|| "-".into()),
            ]);
        }
        t
    });
    Ok(())
}
