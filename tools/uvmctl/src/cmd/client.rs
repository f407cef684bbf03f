// SPDX-License-Identifier: GPL-2.0
//! `client list|show`, `range show`.

use super::gpu;
use crate::cli::{ClientVerb, RangeVerb};
use crate::exit::{Failure, Result};
use crate::out::Out;
use crate::row::{extra, field, Cell, Field, Row};
use crate::units::BLOCK;
use libhuvm::{uapi, Device};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A client: an open file. Figures are `None` to whom the driver does not tell them.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Client {
    pub(crate) client: u64,
    pub(crate) pid: u32,
    pub(crate) name: String,
    pub(crate) gpus: Option<Vec<u32>>,
    pub(crate) managed_bytes: Option<u64>,
    pub(crate) host_bytes: Option<u64>,
    pub(crate) gpu_bytes: Option<Vec<u64>>,
    pub(crate) faults: Option<u64>,
    pub(crate) evictions: Option<u64>,
    pub(crate) launches: Option<u64>,
}

impl Client {
    /// From what the driver says, to one who may see its figures or not.
    fn new(c: &uapi::huvm_client_info, seen: bool) -> Self {
        let figure = |n| seen.then_some(n);
        let gpus = (0..uapi::HUVM_MAX_GPUS).filter(|i| c.gpu_mask & (1 << i) != 0);
        Client {
            client: c.client,
            pid: c.pid,
            name: Device::client_name(c),
            gpus: seen.then(|| gpus.collect()),
            managed_bytes: figure(c.managed_bytes),
            host_bytes: figure(c.host_bytes),
            gpu_bytes: seen.then(|| c.gpu_bytes.to_vec()),
            faults: figure(c.faults),
            evictions: figure(c.evictions),
            launches: figure(c.launches),
        }
    }

    /// Bytes on all GPUs.
    pub(crate) fn on_gpus(&self) -> Option<u64> {
        let each = self.gpu_bytes.as_ref()?.iter();
        Some(each.fold(0, |a, b| a.saturating_add(*b)))
    }
}

/// Says that figures are missing, if some are. A saved document has that among its warnings.
pub(crate) fn told<'a>(out: &Out, mut clients: impl Iterator<Item = &'a Client>) {
    if !out.offline() && clients.any(|c| c.managed_bytes.is_none()) {
        out.warn("figures of other processes need root");
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
        let bytes = |n: Option<u64>| n.map_or(Cell::None, Cell::Bytes);
        let count = |n: Option<u64>| n.map_or(Cell::None, Cell::Count);
        vec![
            extra("client", Cell::Count(self.client)),
            field("pid", "PID", Cell::count(self.pid)),
            field("name", "NAME", Cell::text(&self.name)),
            field("gpus", "GPUS", joined(self.gpus.iter().flatten(), " ")),
            field("managed_bytes", "MANAGED", bytes(self.managed_bytes)),
            field("gpu_total_bytes", "ON-GPU", bytes(self.on_gpus())),
            extra("gpu_bytes", joined(self.gpu_bytes.iter().flatten(), " ")),
            field("host_bytes", "ON-HOST", bytes(self.host_bytes)),
            field("faults", "FAULTS", count(self.faults)),
            field("evictions", "EVICTIONS", count(self.evictions)),
            field("launches", "LAUNCHES", count(self.launches)),
        ]
    }
}

/// All clients but this tool's own file.
pub(crate) fn all(device: &Device) -> Result<Vec<Client>> {
    let own = std::process::id();
    let mut all = Vec::new();
    for c in device.clients()?.iter().filter(|c| c.pid != own) {
        match device.may_see(c.client) {
            Ok(seen) => all.push(Client::new(c, seen)),
            // It left meanwhile.
            Err(e) if e.errno() == Some(2) => {} // ENOENT
            Err(e) => return Err(e.into()),
        }
    }
    Ok(all)
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
            told(out, clients.iter());
            out.list("client.list", &clients)
        }
        ClientVerb::Show { pid } => {
            let clients = of_pid(out.read("client.show", all)?, *pid)?;
            told(out, clients.iter());
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
    /// Whose it is. Documents of an older uvmctl do not say.
    #[serde(default)]
    pid: Option<u32>,
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
            extra("pid", Cell::known(self.pid)),
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

fn block(b: &uapi::huvm_block_info, pid: u32) -> Block {
    Block {
        pid: Some(pid),
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
fn blocks(device: &Device, c: &Client, start: u64, end: u64) -> Result<Vec<Block>> {
    let mut all = Vec::new();
    let mut next = start;
    loop {
        let some = device.blocks(c.client, next, 4096)?;
        let Some(last) = some.last().map(|b| b.va) else {
            return Ok(all);
        };
        let inside = some.iter().filter(|b| b.va < end);
        all.extend(inside.map(|b| block(b, c.pid)));
        // A driver that does not go forward must not keep us here.
        match last.checked_add(BLOCK).filter(|n| *n > next && *n < end) {
            Some(n) => next = n,
            None => return Ok(all),
        }
    }
}

/// Blocks of a saved document that are of this process and between two addresses.
fn chosen(mut blocks: Vec<Block>, pid: u32, start: u64, end: u64) -> Result<Vec<Block>> {
    let has: BTreeSet<String> = blocks
        .iter()
        .filter_map(|b| Some(gpu::of_process(b.pid?).1))
        .collect();
    if !has.is_empty() {
        gpu::saved(None, Some(pid), &has)?;
    }
    // As the driver: with the one that the first address is in.
    let inside = |va: u64| va < end && va.saturating_add(BLOCK) > start;
    blocks.retain(|b| b.pid.is_none_or(|p| p == pid) && hex(&b.va).is_none_or(inside));
    Ok(blocks)
}

pub(super) fn range(out: &Out, verb: &RangeVerb) -> Result<()> {
    let RangeVerb::Show { pid, addr } = verb;
    let (start, end) = addresses(addr)?;
    let mut blocks: Vec<Block> = out.read("range.show", |device| {
        let mut found = Vec::new();
        for c in of_pid(all(device)?, *pid)? {
            found.extend(blocks(device, &c, start, end)?);
        }
        Ok(found)
    })?;
    if out.offline() {
        blocks = chosen(blocks, *pid, start, end)?;
    }
    out.list("range.show", &blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The driver's zeros of a client that may not be seen are no figures.
    #[test]
    fn what_may_not_be_seen_is_not_zero() {
        let mut info = uapi::huvm_client_info {
            client: 3,
            pid: 71,
            ..Default::default()
        };
        let hidden = Client::new(&info, false);
        assert_eq!((hidden.client, hidden.pid), (3, 71));
        let shown = |c: &Client| -> Vec<String> {
            let fields = c.fields().into_iter().skip(3);
            fields.map(|f| f.cell.human(false)).collect()
        };
        assert!(shown(&hidden).iter().all(|t| t == "-"));
        let json = serde_json::to_value(&hidden).unwrap();
        let null = json.as_object().unwrap().values().filter(|v| v.is_null());
        assert_eq!(null.count(), 7);

        // What has nothing yet is another matter.
        let idle = Client::new(&info, true);
        assert_eq!(idle.on_gpus(), Some(0));
        assert_eq!(idle.gpus, Some(vec![]));
        info.gpu_mask = 0b101;
        (info.gpu_bytes[2], info.faults) = (4096, 9);
        let used = Client::new(&info, true);
        assert_eq!((used.on_gpus(), used.faults), (Some(4096), Some(9)));
        assert_eq!(used.gpus, Some(vec![0, 2]));
    }

    #[test]
    fn a_saved_document_has_the_blocks_that_are_asked_for() {
        let block = |va: u64, pid| Block {
            va: format!("{va:#x}"),
            pid,
            ..Block::default()
        };
        let of = |pid, start, end| {
            let all = [BLOCK, 2 * BLOCK, 3 * BLOCK].map(|va| block(va, Some(71)));
            let found = chosen(all.into(), pid, start, end).map_err(|e| e.code());
            found.map(|all| -> Vec<u64> { all.iter().filter_map(|b| hex(&b.va)).collect() })
        };
        assert_eq!(of(71, 0, u64::MAX), Ok(vec![BLOCK, 2 * BLOCK, 3 * BLOCK]));
        assert_eq!(of(71, 2 * BLOCK + 4096, 3 * BLOCK), Ok(vec![2 * BLOCK]));
        assert_eq!(of(71, 0, 4096), Ok(vec![]));
        assert_eq!(of(72, 0, u64::MAX), Err(6));
        // One that does not say whose they are, and one without any.
        let old = chosen(vec![block(0, None)], 72, 0, u64::MAX);
        assert_eq!(old.map(|b| b.len()).ok(), Some(1));
        assert!(chosen(Vec::new(), 72, 0, u64::MAX).is_ok());
    }

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
