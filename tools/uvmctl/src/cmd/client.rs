// SPDX-License-Identifier: GPL-2.0
//! `client list|show`, `range show`.

use crate::cli::{ClientVerb, RangeVerb};
use crate::exit::{Failure, Result};
use crate::out::Out;
use crate::row::{extra, field, Cell, Field, Row};
use crate::units::BLOCK;
use libhuvm::{uapi, Device};
use serde::{Deserialize, Serialize};

/// A client: an open file.
#[derive(Clone, Default, Serialize, Deserialize)]
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

impl Client {
    /// Bytes on all GPUs.
    pub(crate) fn on_gpus(&self) -> u64 {
        self.gpu_bytes.iter().fold(0, |a, b| a.saturating_add(*b))
    }
}

/// Numbers behind each other; nothing if there are none.
fn joined<T: ToString>(all: impl IntoIterator<Item = T>, between: &str) -> Cell {
    let all: Vec<String> = all.into_iter().map(|n| n.to_string()).collect();
    if all.is_empty() {
        Cell::None
    } else {
        Cell::Text(all.join(between))
    }
}

impl Row for Client {
    fn fields(&self) -> Vec<Field> {
        vec![
            extra("client", Cell::Count(self.client)),
            field("pid", "PID", Cell::count(self.pid)),
            field("name", "NAME", Cell::text(&self.name)),
            field("gpus", "GPUS", joined(&self.gpus, " ")),
            field("managed_bytes", "MANAGED", Cell::Bytes(self.managed_bytes)),
            field("gpu_total_bytes", "ON-GPU", Cell::Bytes(self.on_gpus())),
            extra("gpu_bytes", joined(&self.gpu_bytes, " ")),
            field("host_bytes", "ON-HOST", Cell::Bytes(self.host_bytes)),
            field("faults", "FAULTS", Cell::Count(self.faults)),
            field("evictions", "EVICTIONS", Cell::Count(self.evictions)),
            field("launches", "LAUNCHES", Cell::Count(self.launches)),
        ]
    }
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

fn of_pid(mut clients: Vec<Client>, pid: u32) -> Result<Vec<Client>> {
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
    match verb {
        ClientVerb::List => {
            let clients: Vec<Client> = out.read("client.list", all)?;
            out.list("client.list", &clients)
        }
        ClientVerb::Show { pid } => {
            let clients = of_pid(out.read("client.show", all)?, *pid)?;
            out.list("client.show", &clients)
        }
    }
}

/// Where the pages of a block are.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Block {
    va: String,
    managed_pages: u32,
    host_pages: u32,
    gpu_pages: Vec<u16>,
    gpu_mapped_pages: Vec<u16>,
    cpu_mapped: bool,
    host_piece_kib: u32,
    last_cause: String,
    preferred: Option<String>,
    read_mostly: bool,
}

/// `GPU:pages` for each GPU that has some.
fn by_gpu(pages: &[u16]) -> Cell {
    let some = pages.iter().enumerate().filter(|(_, n)| **n != 0);
    joined(some.map(|(g, n)| format!("{g}:{n}")), " ")
}

impl Row for Block {
    fn fields(&self) -> Vec<Field> {
        let preferred = self.preferred.as_ref().map_or(Cell::None, Cell::text);
        vec![
            field("va", "BLOCK", Cell::text(&self.va)),
            field("managed_pages", "PAGES", Cell::count(self.managed_pages)),
            field("host_pages", "HOST", Cell::count(self.host_pages)),
            field("gpu_pages", "GPUS", by_gpu(&self.gpu_pages)),
            extra("gpu_mapped_pages", by_gpu(&self.gpu_mapped_pages)),
            field("cpu_mapped", "CPU-MAPPED", Cell::Flag(self.cpu_mapped)),
            field(
                "host_piece_kib",
                "HOST-KIB",
                Cell::count(self.host_piece_kib),
            ),
            field("last_cause", "LAST-CAUSE", Cell::text(&self.last_cause)),
            field("preferred", "PREFERRED", preferred),
            extra("read_mostly", Cell::Flag(self.read_mostly)),
        ]
    }
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

/// Name of a place that pages can be at.
pub(crate) fn place(p: u32) -> String {
    match p {
        uapi::HUVM_PLACE_HOST => "host".into(),
        g => format!("gpu{g}"),
    }
}

fn hex(text: &str) -> Option<u64> {
    let digits = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))
        .unwrap_or(text);
    u64::from_str_radix(digits, 16).ok()
}

/// Reads ADDR or ADDR-ADDR; the second value is the first address behind.
pub(crate) fn addresses(text: &str) -> Result<(u64, u64)> {
    let (from, to) = text.split_once('-').unwrap_or((text, ""));
    let bad = |what: &str| Failure::Usage(format!("'{what}' is no hexadecimal address"));
    let start = hex(from).ok_or_else(|| bad(from))?;
    let end = match to {
        "" if !text.contains('-') => u64::MAX,
        to => hex(to).ok_or_else(|| bad(to))?,
    };
    if start >= end {
        return Err(Failure::Usage(format!("'{text}' is an empty range")));
    }
    Ok((start, end))
}

fn block(b: &uapi::huvm_block_info) -> Block {
    Block {
        va: format!("{:#x}", b.va),
        managed_pages: b.managed_pages,
        host_pages: b.host_pages,
        gpu_pages: b.gpu_pages.to_vec(),
        gpu_mapped_pages: b.gpu_mapped.to_vec(),
        cpu_mapped: b.cpu_mapped != 0,
        host_piece_kib: b.host_piece_kib,
        last_cause: cause(b.last_cause).into(),
        preferred: match b.preferred {
            uapi::HUVM_PLACE_NONE => None,
            uapi::HUVM_PLACE_MIXED => Some("mixed".into()),
            p => Some(place(p)),
        },
        read_mostly: b.read_mostly != 0,
    }
}

/// Blocks of a client between two addresses.
fn blocks(device: &Device, client: u64, start: u64, end: u64) -> Result<Vec<Block>> {
    let mut all = Vec::new();
    let mut next = start;
    loop {
        let some = device.blocks(client, next, 4096)?;
        let Some(last) = some.last().map(|b| b.va) else {
            return Ok(all);
        };
        all.extend(some.iter().filter(|b| b.va < end).map(block));
        // A driver that does not go forward must not keep us here.
        match last.checked_add(BLOCK).filter(|n| *n > next && *n < end) {
            Some(n) => next = n,
            None => return Ok(all),
        }
    }
}

pub(super) fn range(out: &Out, verb: &RangeVerb) -> Result<()> {
    let RangeVerb::Show { pid, addr } = verb;
    let (start, end) = addresses(addr)?;
    let blocks: Vec<Block> = out.read("range.show", |device| {
        let mut found = Vec::new();
        for c in of_pid(all(device)?, *pid)? {
            found.extend(blocks(device, c.client, start, end)?);
        }
        Ok(found)
    })?;
    out.list("range.show", &blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_hexadecimal_and_in_order() {
        assert_eq!(addresses("0").ok(), Some((0, u64::MAX)));
        assert_eq!(addresses("0x7f00").ok(), Some((0x7f00, u64::MAX)));
        assert_eq!(addresses("1000-0x3000").ok(), Some((0x1000, 0x3000)));
        for bad in [
            "",
            "x",
            "1-",
            "-1",
            "3000-1000",
            "1-1",
            "0x",
            "1-2-3",
            "0x0x1",
        ] {
            assert!(addresses(bad).is_err(), "{bad}");
        }
    }
}
