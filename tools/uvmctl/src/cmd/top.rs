// SPDX-License-Identifier: GPL-2.0
//! `top`: rates per GPU and the clients, again and again. Sampler, frame (pure data), painter.

use super::client::{self, Client};
use super::mem::{self, Mem};
use crate::cli::Top;
use crate::exit::{Failure, Result};
use crate::out::{Out, Table};
use libhuvm::device::Counters;
use libhuvm::{uapi, Device, Scope};
use serde::Serialize;
use std::io::IsTerminal;
use std::time::Duration;

/// Rates of a GPU over the measured interval; totals in the first frame.
#[derive(Serialize)]
struct Rates {
    gpu: u32,
    used_bytes: u64,
    free_bytes: u64,
    faults: f64,
    evictions: f64,
    h2d_bytes: f64,
    d2h_bytes: f64,
}

#[derive(Serialize)]
struct Frame {
    preset: String,
    /// Time between the two readings; `null` in the first frame, whose figures are totals.
    interval_ns: Option<u64>,
    gpus: Vec<Rates>,
    clients: Vec<Client>,
}

/// What was added, a second; the total without an earlier reading.
fn rate(now: &Counters, before: Option<&Counters>, counter: u32) -> f64 {
    let total = now.get(counter);
    match before {
        None => total as f64,
        Some(b) => {
            let ns = now.time_ns.saturating_sub(b.time_ns).max(1);
            total.saturating_sub(b.get(counter)) as f64 * 1e9 / ns as f64
        }
    }
}

fn rates(m: &Mem, now: &Counters, before: Option<&Counters>) -> Rates {
    Rates {
        gpu: m.gpu,
        used_bytes: m.used_chunks << 21,
        free_bytes: m.free_chunks << 21,
        faults: rate(now, before, uapi::HUVM_CNT_FAULTS),
        evictions: rate(now, before, uapi::HUVM_CNT_EVICTIONS),
        h2d_bytes: rate(now, before, uapi::HUVM_CNT_BYTES_H2D),
        d2h_bytes: rate(now, before, uapi::HUVM_CNT_BYTES_D2H),
    }
}

/// The frame as text.
fn paint(out: &Out, f: &Frame) -> String {
    let what = f.interval_ns.map_or("totals".into(), |ns| {
        format!("a second, over {:.1} s", ns as f64 / 1e9)
    });
    let mut text = format!("policy {}   figures: {what}\n\n", f.preset);
    let mut t = Table::new(&[
        "GPU",
        "USED",
        "FREE",
        "FAULTS",
        "EVICTIONS",
        "TO-GPU",
        "TO-HOST",
    ]);
    for g in &f.gpus {
        t.row(vec![
            g.gpu.to_string(),
            out.bytes(g.used_bytes),
            out.bytes(g.free_bytes),
            format!("{:.0}", g.faults),
            format!("{:.0}", g.evictions),
            out.bytes(g.h2d_bytes as u64),
            out.bytes(g.d2h_bytes as u64),
        ]);
    }
    text.push_str(&t.render(true));
    text.push('\n');
    if f.clients.is_empty() {
        text.push_str("no clients\n");
    } else {
        text.push_str(&client::table(out, &f.clients).render(true));
    }
    text
}

pub(super) fn run(out: &Out, t: &Top) -> Result<()> {
    if !(0.05..=86400.0).contains(&t.period) {
        return Err(Failure::Usage(format!(
            "{} s is no interval: 0.05 to 86400",
            t.period
        )));
    }
    let device = Device::open()?;
    let clear = std::io::stdout().is_terminal();
    let mut before: Vec<(u32, Counters)> = Vec::new();
    for turn in 0..t.count {
        if turn != 0 {
            std::thread::sleep(Duration::from_secs_f64(t.period));
        }
        let mut now = Vec::new();
        let mut gpus = Vec::new();
        let mut interval_ns = None;
        for m in mem::all(&device)? {
            let c = device.counters(Scope::Gpu(m.gpu))?;
            let old = before.iter().find(|(g, _)| *g == m.gpu).map(|(_, c)| c);
            interval_ns = interval_ns.or(old.map(|o| c.time_ns.saturating_sub(o.time_ns)));
            gpus.push(rates(&m, &c, old));
            now.push((m.gpu, c));
        }
        let frame = Frame {
            preset: device.preset(Scope::Global)?,
            interval_ns,
            gpus,
            clients: client::all(&device)?,
        };
        out.show("top", &frame, || {
            let home = if clear { "\x1b[H\x1b[2J" } else { "" };
            format!("{home}{}\n", paint(out, &frame))
        });
        before = now;
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
        assert_eq!(rate(&a, None, uapi::HUVM_CNT_FAULTS), 10.0);
        assert_eq!(rate(&b, Some(&a), uapi::HUVM_CNT_FAULTS), 100.0);
        assert_eq!(rate(&a, Some(&a), uapi::HUVM_CNT_FAULTS), 0.0);
    }
}
