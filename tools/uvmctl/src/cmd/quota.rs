// SPDX-License-Identifier: GPL-2.0
//! `quota show|set`: what GPUs lend, by the knobs of lending.

use super::{gpu, policy};
use crate::cli::{QuotaSet, QuotaVerb};
use crate::exit::{Failure, Result};
use crate::out::Out;
use crate::row::{extra, field, Cell, Field, Row};
use crate::units::parse_bytes;
use libhuvm::{Device, Scope};
use serde::{Deserialize, Serialize};

/// What a GPU lends at most, and now.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Quota {
    gpu: u32,
    vram_bytes: u64,
    lends: bool,
    /// The smaller of the two limits below.
    limit_bytes: u64,
    limit_percent: u64,
    /// `null`: no limit but the share.
    limit_mib: Option<u64>,
    keep_bytes: u64,
    lent_bytes: u64,
}

impl Row for Quota {
    fn fields(&self) -> Vec<Field> {
        let mib = self.limit_mib.map_or(Cell::None, Cell::Count);
        vec![
            field("gpu", "GPU", Cell::count(self.gpu)),
            field("vram_bytes", "VRAM", Cell::Bytes(self.vram_bytes)),
            field("lends", "LENDS", Cell::Flag(self.lends)),
            field("limit_bytes", "LIMIT", Cell::Bytes(self.limit_bytes)),
            extra("limit_percent", Cell::Count(self.limit_percent)),
            extra("limit_mib", mib),
            field("keep_bytes", "KEEPS", Cell::Bytes(self.keep_bytes)),
            field("lent_bytes", "LENT", Cell::Bytes(self.lent_bytes)),
        ]
    }
}

fn of(device: &Device, gpu: u32, vram_bytes: u64, chunk: u64) -> Result<Quota> {
    let info = device.lend_info(gpu)?;
    let knobs = device.knobs()?;
    let value = |name| -> Result<u64> {
        let knob = policy::find(&knobs, name)?;
        Ok(device.policy(Scope::Gpu(gpu), knob.index)?.0)
    };
    let bytes = |chunks: u64| chunks.saturating_mul(chunk);
    Ok(Quota {
        gpu,
        vram_bytes,
        lends: info.lends != 0,
        limit_bytes: bytes(info.limit_chunks),
        limit_percent: value("lend_limit_percent")?,
        limit_mib: Some(value("lend_limit_mib")?).filter(|n| *n != 0),
        keep_bytes: bytes(info.keep_chunks),
        lent_bytes: bytes(info.lent_chunks.iter().sum()),
    })
}

fn show(out: &Out, id: Option<&str>) -> Result<()> {
    let quotas: Vec<Quota> = out.read("quota.show", |device| {
        let only = id.map(|id| gpu::index(device, id)).transpose()?;
        let chunk = device.version()?.chunk_bytes;
        let gpus = device.gpus()?;
        gpus.iter()
            .filter(|g| only.is_none_or(|i| i == g.gpu))
            .map(|g| of(device, g.gpu, g.vram_bytes, chunk))
            .collect()
    })?;
    out.list("quota.show", &quotas)
}

/// Values of knobs, by name.
type Values = Vec<(&'static str, u64)>;

/// The knobs that a limit stands for.
fn limit(text: &str) -> Result<Values> {
    let bad = |why: &str| Failure::Usage(format!("'{text}' is no limit: {why}"));
    let (percent, mib) = if text == "none" {
        (100, 0)
    } else if let Some(share) = text.strip_suffix('%') {
        let n: u64 = share
            .parse()
            .map_err(|_| bad("a share is a whole number and '%'"))?;
        if n > 100 {
            return Err(bad("more than 100 %"));
        }
        (n, 0)
    } else {
        match parse_bytes(text).map_err(|e| bad(&e))? >> 20 {
            // No size is no limit to the driver; nothing at all is a share.
            0 if text.trim_matches('0').is_empty() => (0, 0),
            0 => return Err(bad("less than 1 MiB")),
            mib => (100, mib),
        }
    };
    Ok(vec![
        ("lend_limit_percent", percent),
        ("lend_limit_mib", mib),
    ])
}

/// All that is to be set.
fn wanted(q: &QuotaSet, chunk: u64) -> Result<Values> {
    let mut values = Vec::new();
    if let Some(l) = &q.limit {
        values.extend(limit(l)?);
    }
    if let Some(bytes) = q.keep {
        values.push(("lend_reserve_chunks", bytes.div_ceil(chunk.max(1))));
    }
    if let Some(word) = &q.lend {
        values.push(("harvest_lend", u64::from(word == "on")));
    }
    Ok(values)
}

fn set(out: &Out, q: &QuotaSet) -> Result<()> {
    let device = out.device()?;
    let values = wanted(q, device.version()?.chunk_bytes)?;
    let gpus = match q.gpu.as_str() {
        "all" => device.gpus()?.iter().map(|g| g.gpu).collect(),
        ids => ids
            .split(',')
            .map(|id| gpu::index(&device, id))
            .collect::<Result<Vec<u32>>>()?,
    };
    let knobs = device.knobs()?;
    let mut changes = Vec::new();
    let mut act = || {
        for g in &gpus {
            for (name, value) in &values {
                let knob = policy::find(&knobs, name)?;
                if !(knob.min..=knob.max).contains(value) {
                    return Err(Failure::Usage(format!(
                        "{value} is no value of {name}: {} to {}",
                        knob.min, knob.max
                    )));
                }
                let scope = (Scope::Gpu(*g), &*format!("gpu{g}"));
                policy::put(&device, scope, knob, *value, !q.dry_run, &mut changes)?;
            }
        }
        Ok(())
    };
    let result = act();
    policy::tell(out, "quota.set", &changes, !q.dry_run, result)
}

pub(super) fn run(out: &Out, verb: &QuotaVerb) -> Result<()> {
    match verb {
        QuotaVerb::Show { gpu } => show(out, gpu.as_deref()),
        QuotaVerb::Set(q) => set(out, q),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_size_a_share_or_none() {
        let of = |text| {
            let knobs = limit(text).map_err(|e| e.code())?;
            Ok((knobs[0].1, knobs[1].1))
        };
        for (text, percent, mib) in [
            ("none", 100, 0),
            ("25%", 25, 0),
            ("0%", 0, 0),
            ("0", 0, 0),
            ("1M", 100, 1),
            ("16G", 100, 16384),
            ("2097152", 100, 2),
        ] {
            assert_eq!(of(text), Ok((percent, mib)), "{text}");
        }
        for text in ["", "101%", "-1%", "x%", "many", "1K", "-1", "1.5G"] {
            assert_eq!(of(text), Err(2), "{text}");
        }
    }
}
