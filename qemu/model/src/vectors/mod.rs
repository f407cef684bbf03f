// SPDX-License-Identifier: GPL-2.0
//! The model against the golden vectors of `tests/vectors`: the same rows as the driver's tests read.
//!
//! - `entries`: page tables, instance blocks
//! - `packets`: fault and access-counter packets, interrupt vectors
//! - `memop`: invalidate, replay, cancel, counter clear, by method and by register
//! - `host`, `engine`, `runlist`: RAMFC, GPFIFO, pushbuffer and semaphores; launches; entries, channel RAM and doorbell
//! - `registers`: every field of every register, and the numbers that have none
//!
//! What this device does not have is skipped by name, with the reason; a row that no test names fails.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::precedence
)]

mod engine;
mod entries;
mod host;
mod memop;
mod packets;
#[path = "../../../../tests/vectors/reader.rs"]
mod reader;
mod registers;
mod runlist;

use crate::config::{GpuConfig, Profile};
use crate::fabric::Fabric;
use crate::gpu::{Cx, Gpu};
use crate::mem_host::MemHost;
use crate::queue::Queue;
use reader::{bits, code};

/// VRAM as large as the format allows, so that every address in the vectors exists.
const VRAM: u64 = 1 << 37;
/// System memory likewise.
const SYS: u64 = 1 << 48;
/// Copy engines of the bench.
const CES: u32 = 10;
/// Page-table pages that [`Bench::map`] takes, in system memory.
const TABLES: u64 = 0x4000_0000;

/// One GPU, at rest, without delays.
struct Bench {
    gpu: Gpu,
    host: MemHost,
    fabric: Fabric,
    queue: Queue,
    now: u64,
    moved: u64,
    tables: u64,
}

impl Bench {
    fn new() -> Bench {
        let config = GpuConfig {
            vram_bytes: VRAM,
            timing: false,
            realism: false,
            ..GpuConfig::default()
        };
        let mut fabric = Fabric::new(Profile::default());
        fabric.add(0, VRAM);
        Bench {
            gpu: Gpu::new(config, CES, 0, [48, 64]),
            host: MemHost::new(SYS, &[VRAM]),
            fabric,
            queue: Queue::default(),
            now: 0,
            moved: 0,
            tables: TABLES,
        }
    }

    fn with<R>(&mut self, f: impl FnOnce(&mut Gpu, &mut Cx<'_>) -> R) -> R {
        let mut cx = Cx {
            host: &mut self.host,
            fabric: &mut self.fabric,
            queue: &mut self.queue,
            now: self.now,
            gpu: 0,
            epoch: 0,
            timing: false,
            moved: &mut self.moved,
        };
        f(&mut self.gpu, &mut cx)
    }

    /// Lets everything happen that is due.
    fn run(&mut self) {
        for _ in 0..10_000 {
            let Some((_, _, _, event)) = self.queue.pop_due(self.now) else {
                return;
            };
            self.with(|g, cx| g.event(event, cx));
        }
        panic!("the model does not come to rest");
    }

    /// Reads a register of BAR0.
    fn r(&mut self, at: u32) -> u32 {
        self.with(|g, cx| g.bar_read(0, at.into(), 4, cx)) as u32
    }

    /// Writes a register of BAR0, and lets happen what follows.
    fn w(&mut self, at: u32, value: u32) {
        self.with(|g, cx| g.bar_write(0, at.into(), value.into(), 4, cx));
        self.run();
    }

    fn sys(&mut self, at: u64, words: &[u32]) {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.host.sys.write(at, &bytes).unwrap();
    }

    fn sys_words<const N: usize>(&self, at: u64) -> [u32; N] {
        core::array::from_fn(|i| self.host.sys_u32(at + 4 * i as u64))
    }

    fn vram_words<const N: usize>(&self, at: u64) -> [u32; N] {
        core::array::from_fn(|i| {
            let mut b = [0; 4];
            self.host.vram[0].read(at + 4 * i as u64, &mut b).unwrap();
            u32::from_le_bytes(b)
        })
    }

    /// Puts a leaf entry at `va` under the root table at `root`, both in system memory. Tables by hw-interface 4.1.
    fn map(&mut self, root: u64, va: u64, size: &str, entry: u64) {
        let put = |b: &mut Bench, at: u64, e: u64| b.sys(at, &[e as u32, (e >> 32) as u32]);
        let mut table = root;
        for (shift, entries) in [(47, 4), (38, 512), (29, 512)] {
            let at = table + 8 * (va >> shift & (entries - 1));
            if size == "512M" && shift == 29 {
                return put(self, at, entry);
            }
            table = match self.host.sys_u64(at) {
                0 => self.table(at, "pde", "APERTURE", "ADDRESS_SYS", 12),
                e => table_of(e, "pde", "ADDRESS_SYS", 12),
            };
        }
        let pde0 = table + 16 * (va >> 21 & 255);
        let (at, fields, shift, index) = match size {
            "2M" => return put(self, pde0, entry),
            "64K" => (pde0, ("APERTURE_BIG", "ADDRESS_BIG_SYS"), 8, va >> 16 & 31),
            _ => (
                pde0 + 8,
                ("APERTURE_SMALL", "ADDRESS_SMALL_SYS"),
                12,
                va >> 12 & 511,
            ),
        };
        let table = match self.host.sys_u64(at) {
            0 => self.table(at, "pde0", fields.0, fields.1, shift),
            e => table_of(e, "pde0", fields.1, shift),
        };
        put(self, table + 8 * index, entry);
    }

    /// A new table, and the entry that points to it.
    fn table(&mut self, at: u64, format: &str, aperture: &str, address: &str, shift: u32) -> u64 {
        let table = self.tables;
        self.tables += 0x1000;
        let sys = code("PdeAperture", "SysCoherent");
        let e =
            bits(format, aperture).of64(sys.into()) | bits(format, address).of64(table >> shift);
        self.sys(at, &[e as u32, (e >> 32) as u32]);
        table
    }
}

fn table_of(e: u64, format: &str, address: &str, shift: u32) -> u64 {
    let b = bits(format, address);
    (e & b.mask) >> b.mask.trailing_zeros() << shift
}

/// A format of cases.csv, fields.csv, structs.csv or a group of numbers.csv that no test of the model names fails.
#[test]
fn every_format_has_a_test() {
    fn all(mut got: std::collections::BTreeSet<&'static str>, want: &[&'static str]) {
        for w in want {
            assert!(got.remove(w), "{w}");
        }
        assert!(got.is_empty(), "{got:?}");
    }
    let packets = ["fault", "counter"];
    let entries = ["pte", "pde", "pde0"];
    let host = ["host.header", "host.gp_entry", "host.sem_execute"];
    let host = [&host[..], &["host.set_object"]].concat();
    let engine = ["ce.launch", "ce.phys_mode", "ce.remap"];
    let cases = ["page_dir", "memop", "push", "runlist", "channel_ram.write"];
    let more = ["host.doorbell"];
    all(
        reader::case_formats(),
        &[&packets[..], &entries, &host, &engine, &cases, &more].concat(),
    );
    let fields = ["ramin", "ramfc", "memop", "ce.upper", "host.sem_addr"];
    let words = ["host.wfi", "host.yield", "runlist.channel", "runlist.tsg"];
    let more = ["host.doorbell", "channel_ram", "device_info"];
    all(
        reader::field_formats(),
        &[
            &packets[..],
            &entries,
            &host,
            &engine,
            &fields,
            &words,
            &more,
        ]
        .concat(),
    );
    all(
        reader::structures(),
        &["channel", "plain_channel", "workload"],
    );
    let methods = ["host_method", "ce_method", "class", "userd", "semaphore"];
    let ids = ["engine", "hub_client", "chip", "device_info"];
    let rest = ["size", "reset", "bar0", "pbdma", "runlist"];
    // Which clients blocks of a workload are is this device's own choice (tests/workload.rs).
    let own = ["gpc_client"];
    all(
        reader::number_groups(),
        &[&methods[..], &ids, &rest, &own].concat(),
    );
}

/// What a table of fields says about each field of a format: exactly the fields of fields.csv, once each.
fn each_field<T>(format: &str, table: &[(&str, T)], mut check: impl FnMut(&str, reader::Bits, &T)) {
    let mut left: Vec<_> = reader::fields(format);
    for (name, t) in table {
        let i = left.iter().position(|f| f.0 == *name);
        let i = i.unwrap_or_else(|| panic!("no field {format}.{name}"));
        let (name, b) = left.remove(i);
        check(name, b, t);
    }
    assert!(left.is_empty(), "{format}: {left:?}");
}
