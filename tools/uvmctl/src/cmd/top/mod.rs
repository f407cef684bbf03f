// SPDX-License-Identifier: GPL-2.0
//! `top`: rates per GPU and the clients, again and again. Sampler, frame (pure data), painter.

mod keys;
mod live;
mod screen;

use super::client::{self, Client};
use super::gpu::known_state;
use super::mem::{self, Mem};
use super::policy;
use super::topo::Link;
use crate::cli;
use crate::exit::{Failure, Result};
use crate::out::{Loaded, Out};
use crate::row::{extra, field, Cell, Field, Row};
use crate::units::CHUNK;
use libhuvm::device::Counters;
use libhuvm::{uapi, Device, Scope};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::Duration;

/// A counter: its total, and what was added a second since the frame before (`null` in the first).
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Figure {
    total: u64,
    per_s: Option<f64>,
}

impl Figure {
    fn new(now: &Counters, before: Option<&Counters>, counter: u32) -> Self {
        let total = now.get(counter);
        let per_s = before.map(|b| {
            let ns = now.time_ns.saturating_sub(b.time_ns).max(1);
            total.saturating_sub(b.get(counter)) as f64 * 1e9 / ns as f64
        });
        Figure { total, per_s }
    }

    /// The total, or the rate, which is not known without a reading before.
    fn count(self, totals: bool) -> Cell {
        match self.per_s {
            _ if totals => Cell::Count(self.total),
            rate => rate.map_or(Cell::None, Cell::Rate),
        }
    }

    /// As [`Self::count`], of bytes.
    fn bytes(self, totals: bool) -> Cell {
        match self.per_s {
            _ if totals => Cell::Bytes(self.total),
            rate => rate.map_or(Cell::None, Cell::BytesRate),
        }
    }
}

/// A GPU.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Gpu {
    gpu: u32,
    /// Documents of an older uvmctl do not say; so of the times.
    state: Option<String>,
    /// When its counters were read, CLOCK_MONOTONIC.
    time_ns: Option<u64>,
    /// Since the reading before, if there was one.
    interval_ns: Option<u64>,
    total_bytes: u64,
    used_bytes: u64,
    lent_bytes: u64,
    /// `null` of one that is lost.
    free_bytes: Option<u64>,
    faults: Figure,
    fault_batches: Figure,
    duplicates: Figure,
    fatal: Figure,
    replays: Figure,
    evictions: Figure,
    h2d_bytes: Figure,
    d2h_bytes: Figure,
    p2p_bytes: Figure,
}

impl Gpu {
    /// The table shows rates, or totals.
    fn columns(&self, totals: bool) -> Vec<Field> {
        let known = |n: Option<u64>, cell: fn(u64) -> Cell| n.map_or(Cell::None, cell);
        let head = |of: bool, head: &'static str| if of { head } else { "" };
        let counts = |name, per_s, title, f: Figure| {
            [
                field(name, head(totals, title), f.count(true)),
                field(per_s, head(!totals, title), f.count(false)),
            ]
        };
        let bytes = |name, per_s, title, f: Figure| {
            [
                field(name, head(totals, title), f.bytes(true)),
                field(per_s, head(!totals, title), f.bytes(false)),
            ]
        };
        let mut all = vec![
            field("gpu", "GPU", Cell::count(self.gpu)),
            field("state", "STATE", known_state(self.state.as_deref())),
            extra("time_ns", known(self.time_ns, Cell::Count)),
            extra("interval_ns", known(self.interval_ns, Cell::Count)),
            extra("total_bytes", Cell::Bytes(self.total_bytes)),
            field("used_bytes", "USED", Cell::Bytes(self.used_bytes)),
            field("lent_bytes", "LENT", Cell::Bytes(self.lent_bytes)),
            field("free_bytes", "FREE", known(self.free_bytes, Cell::Bytes)),
        ];
        all.extend(
            [
                counts("faults", "faults_per_s", "FAULTS", self.faults),
                counts(
                    "fault_batches",
                    "fault_batches_per_s",
                    "",
                    self.fault_batches,
                ),
                counts("duplicates", "duplicates_per_s", "", self.duplicates),
                counts("fatal", "fatal_per_s", "", self.fatal),
                counts("replays", "replays_per_s", "", self.replays),
                counts("evictions", "evictions_per_s", "EVICTIONS", self.evictions),
                bytes("h2d_bytes", "h2d_bytes_per_s", "TO-GPU", self.h2d_bytes),
                bytes("d2h_bytes", "d2h_bytes_per_s", "TO-HOST", self.d2h_bytes),
                bytes("p2p_bytes", "p2p_bytes_per_s", "PEERS", self.p2p_bytes),
            ]
            .into_iter()
            .flatten(),
        );
        all
    }

    /// Whether it is known to be out of service.
    fn lost(&self) -> bool {
        self.state.as_deref().is_some_and(|s| s != "ok")
    }
}

impl Row for Gpu {
    fn fields(&self) -> Vec<Field> {
        self.columns(false)
    }
}

/// A GPU where the table shows totals.
#[derive(Default)]
struct Totals<'a>(Option<&'a Gpu>);

impl Row for Totals<'_> {
    fn fields(&self) -> Vec<Field> {
        self.0.unwrap_or(&Gpu::default()).columns(true)
    }
}

/// The view of a GPU's faults: totals, or rates.
#[derive(Default)]
struct Faults<'a>(Option<&'a Gpu>, bool);

impl Row for Faults<'_> {
    fn fields(&self) -> Vec<Field> {
        let none = Gpu::default();
        let (g, totals) = (self.0.unwrap_or(&none), self.1);
        vec![
            field("gpu", "GPU", Cell::count(g.gpu)),
            field("faults", "FAULTS", g.faults.count(totals)),
            field("fault_batches", "BATCHES", g.fault_batches.count(totals)),
            field("duplicates", "DUPLICATES", g.duplicates.count(totals)),
            field("fatal", "FATAL", g.fatal.count(totals)),
            field("replays", "REPLAYS", g.replays.count(totals)),
        ]
    }
}

/// A client with its rates.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Process {
    #[serde(flatten)]
    client: Client,
    faults_per_s: Option<f64>,
    evictions_per_s: Option<f64>,
}

impl Row for Process {
    fn fields(&self) -> Vec<Field> {
        let c = &self.client;
        let rate = |r: Option<f64>| r.map_or(Cell::None, Cell::Rate);
        let bytes = |n: Option<u64>| n.map_or(Cell::None, Cell::Bytes);
        let gpus: Vec<String> = c.gpus.iter().flatten().map(u32::to_string).collect();
        vec![
            field("pid", "PID", Cell::count(c.pid)),
            field("name", "NAME", Cell::text(&c.name)),
            field("gpus", "GPUS", Cell::Text(gpus.join(" "))),
            field("managed_bytes", "MANAGED", bytes(c.managed_bytes)),
            field("gpu_total_bytes", "ON-GPU", bytes(c.on_gpus())),
            field("host_bytes", "ON-HOST", bytes(c.host_bytes)),
            extra("faults", c.faults.map_or(Cell::None, Cell::Count)),
            field("faults_per_s", "FAULTS/S", rate(self.faults_per_s)),
            field("evictions_per_s", "EVICT/S", rate(self.evictions_per_s)),
        ]
    }
}

/// A picture.
#[derive(Default, Serialize, Deserialize)]
struct Frame {
    preset: String,
    /// Time between the two readings; `null` in the first frame, whose figures are totals.
    interval_ns: Option<u64>,
    gpus: Vec<Gpu>,
    clients: Vec<Process>,
    /// For the view of links; only the live view asks for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    links: Vec<Link>,
    /// For the view of the policy, as `links`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    policy: Vec<policy::Value>,
}

fn gpu(chunks: u32, m: &Mem, now: &Counters, before: Option<&Counters>) -> Gpu {
    let of = |counter| Figure::new(now, before, counter);
    let bytes = |chunks: u64| chunks.saturating_mul(CHUNK);
    Gpu {
        gpu: m.gpu,
        state: m.state.clone(),
        time_ns: Some(now.time_ns),
        interval_ns: before.map(|b| now.time_ns.saturating_sub(b.time_ns)),
        total_bytes: bytes(chunks.into()),
        used_bytes: bytes(
            m.used_chunks
                .saturating_add(m.evicting_chunks)
                .saturating_add(m.pinned_chunks),
        ),
        lent_bytes: bytes(m.lent()),
        free_bytes: m.free_chunks.map(bytes),
        faults: of(uapi::HUVM_CNT_FAULTS),
        fault_batches: of(uapi::HUVM_CNT_FAULT_BATCHES),
        duplicates: of(uapi::HUVM_CNT_FAULT_DUPLICATES),
        fatal: of(uapi::HUVM_CNT_FAULTS_FATAL),
        replays: of(uapi::HUVM_CNT_REPLAYS),
        evictions: of(uapi::HUVM_CNT_EVICTIONS),
        h2d_bytes: of(uapi::HUVM_CNT_BYTES_H2D),
        d2h_bytes: of(uapi::HUVM_CNT_BYTES_D2H),
        p2p_bytes: of(uapi::HUVM_CNT_BYTES_P2P),
    }
}

/// A client's rates: of its totals, over the interval. A client that is new, or may not be seen, has none.
fn process(client: Client, before: &[Process], interval_ns: Option<u64>) -> Process {
    let old = before.iter().find(|p| p.client.client == client.client);
    let rate = |of: fn(&Client) -> Option<u64>| {
        let added = of(&client)?.saturating_sub(of(&old?.client)?);
        Some(added as f64 * 1e9 / interval_ns?.max(1) as f64)
    };
    Process {
        faults_per_s: rate(|c| c.faults),
        evictions_per_s: rate(|c| c.evictions),
        client,
    }
}

/// Takes readings, and makes frames of what changed between them.
struct Sampler {
    device: Device,
    counters: Vec<(u32, Counters)>,
    clients: Vec<Process>,
    /// Links and policy too.
    all: bool,
}

impl Sampler {
    fn next(&mut self) -> Result<Frame> {
        let mut now = Vec::new();
        let mut gpus = Vec::new();
        let mut interval_ns = None;
        for (g, m) in mem::read(&self.device)? {
            let c = match self.device.counters(Scope::Gpu(m.gpu)) {
                Ok(c) => c,
                // It left meanwhile.
                Err(e) if e.gpu_gone() => continue,
                Err(e) => return Err(e.into()),
            };
            let old = self.counters.iter().find(|(g, _)| *g == m.gpu);
            let shown = gpu(g.chunk_count, &m, &c, old.map(|(_, c)| c));
            interval_ns = interval_ns.or(shown.interval_ns);
            gpus.push(shown);
            now.push((m.gpu, c));
        }
        self.counters = now;
        let clients: Vec<Process> = client::all(&self.device)?
            .into_iter()
            .map(|c| process(c, &self.clients, interval_ns))
            .collect();
        self.clients.clone_from(&clients);
        let (links, policy) = if self.all {
            (
                super::topo::links(&self.device)?,
                policy::values(&self.device, Scope::Global)?,
            )
        } else {
            Default::default()
        };
        Ok(Frame {
            preset: self.device.preset(Scope::Global)?,
            interval_ns,
            gpus,
            clients,
            links,
            policy,
        })
    }
}

impl Frame {
    /// Says what is missing in it.
    fn told(&self, out: &Out) {
        client::told(out, self.clients.iter().map(|p| &p.client));
    }

    /// Whether its figures are totals, for want of a reading before.
    fn totals(&self) -> bool {
        self.interval_ns.is_none()
    }
}

/// Where frames come from.
enum Source {
    Device(Box<Sampler>),
    Saved(VecDeque<Loaded<Frame>>),
}

impl Source {
    /// The next frame; `None` after a file's last.
    fn next(&mut self, out: &Out) -> Result<Option<Frame>> {
        match self {
            Source::Device(s) => s.next().map(Some),
            Source::Saved(all) => Ok(all.pop_front().map(|one| out.adopt(one))),
        }
    }
}

/// The frame as text.
fn paint(out: &Out, f: &Frame) -> String {
    let what = f.interval_ns.map_or("totals".into(), |ns| {
        format!("a second, over {:.1} s", ns as f64 / 1e9)
    });
    let mut text = format!("policy {}   figures: {what}\n\n", f.preset);
    if f.gpus.is_empty() {
        text.push_str("no GPUs\n");
    } else if f.totals() {
        let totals: Vec<Totals<'_>> = f.gpus.iter().map(|g| Totals(Some(g))).collect();
        text.push_str(&out.render(&totals));
    } else {
        text.push_str(&out.render(&f.gpus));
    }
    text.push('\n');
    if f.clients.is_empty() {
        text.push_str("no clients\n");
    } else {
        text.push_str(&out.render(&f.clients));
    }
    text.push('\n');
    text
}

pub(super) fn run(out: &Out, t: &cli::Top) -> Result<()> {
    if !(0.05..=86400.0).contains(&t.period) {
        return Err(Failure::Usage(format!(
            "{} s is no interval: 0.05 to 86400",
            t.period
        )));
    }
    let live = out.on_terminal() && !t.batch;
    let count = t.count.unwrap_or(u64::MAX);
    let mut source = match out.saved("top")? {
        Some(all) => Source::Saved(all.into()),
        None => Source::Device(Box::new(Sampler {
            device: out.device()?,
            counters: Vec::new(),
            clients: Vec::new(),
            all: live,
        })),
    };
    if live {
        return live::run(out, &mut source, t.period, count);
    }
    for turn in 0..count {
        // A file's frames need no waiting for.
        if turn != 0 && matches!(source, Source::Device(_)) {
            std::thread::sleep(Duration::from_secs_f64(t.period));
        }
        let Some(frame) = source.next(out)? else {
            break;
        };
        frame.told(out);
        out.stream("top", &frame, &frame.gpus, || paint(out, &frame))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(time_ns: u64, faults: u64) -> Counters {
        let mut values = vec![0; uapi::HUVM_CNT_COUNT as usize];
        values[uapi::HUVM_CNT_FAULTS as usize] = faults;
        Counters { values, time_ns }
    }

    #[test]
    fn rates_use_the_measured_interval() {
        let (a, b) = (counters(1_000_000_000, 10), counters(1_500_000_000, 60));
        let of = |now, before| Figure::new(now, before, uapi::HUVM_CNT_FAULTS);
        assert_eq!((of(&a, None).total, of(&a, None).per_s), (10, None));
        assert_eq!(of(&b, Some(&a)).per_s, Some(100.0));
        // A counter that went back, as after a reload, is no rate below zero.
        assert_eq!(of(&a, Some(&b)).per_s, Some(0.0));
        assert_eq!(of(&a, Some(&a)).per_s, Some(0.0));
    }

    #[test]
    fn a_rate_without_a_reading_before_is_not_known() {
        let mem = Mem::default();
        let (a, b) = (counters(1_000_000_000, 10), counters(1_500_000_000, 60));
        let cell = |row: &dyn Fn() -> Vec<Field>, name: &str| {
            let fields = row();
            fields.into_iter().find(|f| f.name == name).unwrap()
        };
        let first = gpu(4, &mem, &a, None);
        assert_eq!((first.time_ns, first.interval_ns), (Some(a.time_ns), None));
        assert_eq!(first.total_bytes, 4 * CHUNK);
        let rate = cell(&|| first.fields(), "faults_per_s");
        assert_eq!((rate.head, rate.cell), ("FAULTS", Cell::None));
        // The first picture has totals.
        let total = cell(&|| Totals(Some(&first)).fields(), "faults");
        assert_eq!((total.head, total.cell), ("FAULTS", Cell::Count(10)));

        let then = gpu(4, &mem, &b, Some(&a));
        assert_eq!(then.interval_ns, Some(500_000_000));
        let rate = cell(&|| then.fields(), "faults_per_s");
        assert_eq!(rate.cell, Cell::Rate(100.0));
        assert_eq!(cell(&|| then.fields(), "faults").head, "");
    }

    #[test]
    fn a_lost_gpu_is_not_shown_as_free() {
        let lost = Mem {
            state: Some("lost".into()),
            ..Mem::default()
        };
        let g = gpu(32, &lost, &counters(1, 0), None);
        assert_eq!((g.state.as_deref(), g.free_bytes), (Some("lost"), None));
        assert_eq!(g.total_bytes, 32 * CHUNK);
        assert!(g.lost() && !Gpu::default().lost());
    }

    #[test]
    fn a_new_client_has_no_rate_yet() {
        let client = |client, faults| Client {
            client,
            faults: Some(faults),
            ..Client::default()
        };
        let old = [process(client(1, 10), &[], None)];
        assert_eq!(old[0].faults_per_s, None);
        let rate = |c| process(c, &old, Some(500_000_000)).faults_per_s;
        assert_eq!(rate(client(1, 30)), Some(40.0));
        assert_eq!(rate(client(2, 30)), None);
        let hidden = Client {
            client: 1,
            ..Client::default()
        };
        assert_eq!(rate(hidden), None);
    }
}
