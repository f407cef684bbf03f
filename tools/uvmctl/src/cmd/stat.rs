// SPDX-License-Identifier: GPL-2.0
//! `stat`: counters, or what was added to them since.

use super::counters::NAMES;
use crate::cli::Stat;
use crate::exit::{Failure, Result};
use crate::out::{Out, Table};
use libhuvm::device::Counters;
use libhuvm::{Device, Scope};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Serialize)]
struct Sample {
    scope: String,
    time_ns: u64,
    interval_ns: Option<u64>,
    counters: BTreeMap<&'static str, u64>,
}

fn sample(scope: &str, now: &Counters, before: Option<&Counters>) -> Sample {
    let counters = NAMES
        .iter()
        .zip(&now.values)
        .enumerate()
        .map(|(i, (name, v))| {
            let old = before.and_then(|b| b.values.get(i)).copied().unwrap_or(0);
            (*name, v.wrapping_sub(old))
        })
        .collect();
    Sample {
        scope: scope.into(),
        time_ns: now.time_ns,
        interval_ns: before.map(|b| now.time_ns.saturating_sub(b.time_ns)),
        counters,
    }
}

pub(super) fn run(out: &Out, s: &Stat) -> Result<()> {
    let device = Device::open()?;
    let scope = s.gpu.map_or(Scope::Global, Scope::Gpu);
    let name = s.gpu.map_or("global".into(), |g| format!("gpu{g}"));
    let pause = match s.r#loop {
        Some(p) if !(0.01..=86400.0).contains(&p) => {
            return Err(Failure::Usage(format!(
                "{p} s is no interval: 0.01 to 86400"
            )))
        }
        other => other.map(Duration::from_secs_f64),
    };
    let mut before: Option<Counters> = None;
    for turn in 0..s.count {
        let now = device.counters(scope)?;
        let shown = sample(&name, &now, before.as_ref());
        out.table("stat", &shown, || {
            let title = if before.is_some() { "ADDED" } else { "TOTAL" };
            let mut t = Table::new(&["COUNTER", title]);
            for n in NAMES {
                if let Some(v) = shown.counters.get(n).filter(|v| s.all || **v != 0) {
                    let text = if n.starts_with("bytes") || n.ends_with("bytes") {
                        out.bytes(*v)
                    } else {
                        v.to_string()
                    };
                    t.row(vec![(*n).into(), text]);
                }
            }
            t
        });
        let Some(pause) = pause else {
            break;
        };
        if turn + 1 < s.count {
            std::thread::sleep(pause);
        }
        before = Some(now);
    }
    Ok(())
}
