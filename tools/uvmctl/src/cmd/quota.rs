// SPDX-License-Identifier: GPL-2.0
//! `quota show|set`: what GPUs lend, by the knobs of lending.

use super::{gpu, policy};
use crate::cli::{QuotaSet, QuotaVerb};
use crate::exit::{Failure, Result};
use crate::out::Out;
use crate::row::{extra, field, Cell, Field, Row};
use crate::units::{bytes, parse_bytes};
use libhuvm::device::Knob;
use libhuvm::{uapi, Device, Scope};
use serde::{Deserialize, Serialize};

/// What a GPU lends at most, and now.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Quota {
    gpu: u32,
    /// Documents of an older uvmctl do not say.
    state: Option<String>,
    vram_bytes: u64,
    /// `null` of a GPU that is lost, as the limit: nothing can be had of it.
    lends: Option<bool>,
    /// The smaller of the two limits below.
    limit_bytes: Option<u64>,
    limit_percent: u64,
    /// `null`: no limit but the share.
    limit_mib: Option<u64>,
    keep_bytes: u64,
    lent_bytes: u64,
}

impl Row for Quota {
    fn fields(&self) -> Vec<Field> {
        let mib = self.limit_mib.map_or(Cell::None, Cell::Count);
        let limit = self.limit_bytes.map_or(Cell::None, Cell::Bytes);
        vec![
            field("gpu", "GPU", Cell::count(self.gpu)),
            field("state", "STATE", gpu::known_state(self.state.as_deref())),
            field("vram_bytes", "VRAM", Cell::Bytes(self.vram_bytes)),
            field("lends", "LENDS", self.lends.map_or(Cell::None, Cell::Flag)),
            field("limit_bytes", "LIMIT", limit),
            extra("limit_percent", Cell::Count(self.limit_percent)),
            extra("limit_mib", mib),
            field("keep_bytes", "KEEPS", Cell::Bytes(self.keep_bytes)),
            field("lent_bytes", "LENT", Cell::Bytes(self.lent_bytes)),
        ]
    }
}

/// The knobs of a limit: of a share, and of MiB.
const LIMIT: [&str; 2] = ["lend_limit_percent", "lend_limit_mib"];

fn of(device: &Device, g: &uapi::huvm_gpu_info, chunk: u64, limit: [&Knob; 2]) -> Result<Quota> {
    let info = device.lend_info(g.gpu)?;
    let value = |knob: &Knob| device.policy(Scope::Gpu(g.gpu), knob.index);
    let [percent, mib] = limit;
    let limit = [value(percent)?.0, value(mib)?.0];
    Ok(quota(g, &info, chunk, limit))
}

/// `limit`: the values of the knobs of [`LIMIT`].
fn quota(
    g: &uapi::huvm_gpu_info,
    info: &uapi::huvm_lend_info,
    chunk: u64,
    limit: [u64; 2],
) -> Quota {
    let bytes = |chunks: u64| chunks.saturating_mul(chunk);
    let ok = g.state == uapi::HUVM_GPU_OK;
    let [limit_percent, mib] = limit;
    Quota {
        gpu: g.gpu,
        state: Some(gpu::state(g).into()),
        vram_bytes: g.vram_bytes,
        lends: ok.then_some(info.lends != 0),
        limit_bytes: ok.then(|| bytes(info.limit_chunks)),
        limit_percent,
        limit_mib: Some(mib).filter(|n| *n != 0),
        keep_bytes: bytes(info.keep_chunks),
        lent_bytes: bytes(info.lent_chunks.into_iter().fold(0, u64::saturating_add)),
    }
}

fn show(out: &Out, id: Option<&str>) -> Result<()> {
    let mut quotas: Vec<Quota> = out.read("quota.show", |device| {
        let only = id.map(|id| gpu::index(device, id)).transpose()?;
        let chunk = device.version()?.chunk_bytes;
        let knobs = device.knobs()?;
        let [percent, mib] = LIMIT.map(|name| policy::find(&knobs, name));
        let limit = [percent?, mib?];
        let gpus = device.gpus()?;
        let mut quotas = Vec::with_capacity(gpus.len());
        for g in gpus.iter().filter(|g| only.is_none_or(|i| i == g.gpu)) {
            match of(device, g, chunk, limit) {
                Ok(quota) => quotas.push(quota),
                // It left meanwhile.
                Err(Failure::Huvm(e)) if e.gpu_gone() && only.is_none() => continue,
                Err(e) => return Err(e),
            }
        }
        Ok(quotas)
    })?;
    if out.offline() {
        let name = |q: &Quota| gpu::of_gpu(q.gpu).1;
        let wanted = gpu::saved(id, None, &quotas.iter().map(name).collect())?;
        quotas.retain(|q| wanted.contains(&name(q)));
    }
    out.list("quota.show", &quotas)
}

/// Values of knobs, by name.
pub(crate) type Values = Vec<(&'static str, u64)>;

/// The knobs that a limit stands for.
pub(crate) fn limit(text: &str) -> Result<Values> {
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
    Ok(LIMIT.into_iter().zip([percent, mib]).collect())
}

/// All that is to be set; `limit` is what [`limit`] made of the option.
fn wanted(q: &QuotaSet, limit: Option<Values>, chunk: u64) -> Values {
    let mut values = limit.unwrap_or_default();
    if let Some(bytes) = q.keep {
        values.push((KEEP, bytes.div_ceil(chunk.max(1))));
    }
    if let Some(word) = &q.lend {
        values.push(("harvest_lend", u64::from(word == "on")));
    }
    values
}

/// The knobs with their values; not one of them if another cannot have its value.
fn checked(knobs: &[Knob], values: Values) -> Result<Vec<(&Knob, u64)>> {
    let check = |(name, value): (&str, u64)| {
        let knob = policy::find(knobs, name)?;
        Ok((knob, policy::within(knob, Some(value), &value.to_string())?))
    };
    values.into_iter().map(check).collect()
}

/// The knob of what a GPU is to keep...
const KEEP: &str = "lend_reserve_chunks";
/// ...and that of the share of its memory up to which what a GPU is to keep counts.
const SHARE: &str = "pre_evict_share_percent";

/// What is said if a GPU keeps less than it was told to.
fn keeps_less(gpu: u32, asked: u64, kept: u64, chunk: u64, percent: u64) -> Option<String> {
    let size = |chunks: u64| bytes(chunks.saturating_mul(chunk));
    (kept < asked).then(|| {
        format!(
            "GPU {gpu} keeps {} of the {}: {SHARE} is {percent}",
            size(kept),
            size(asked)
        )
    })
}

/// The same, as the driver has it. It was set: whether this can be read is no part of that.
fn less_kept(
    device: &Device,
    knobs: &[Knob],
    scope: Scope,
    asked: u64,
    chunk: u64,
) -> Option<String> {
    let Scope::Gpu(gpu) = scope else {
        return None;
    };
    let share = policy::find(knobs, SHARE).ok()?;
    let (percent, _) = device.policy(scope, share.index).ok()?;
    let kept = device.lend_info(gpu).ok()?.keep_chunks;
    keeps_less(gpu, asked, kept, chunk, percent)
}

fn set(out: &Out, q: &QuotaSet) -> Result<()> {
    let limit = q.limit.as_deref().map(limit).transpose()?;
    let device = out.device()?;
    let knobs = device.knobs()?;
    let chunk = device.version()?.chunk_bytes;
    // All is checked before anything is changed.
    let values = checked(&knobs, wanted(q, limit, chunk))?;
    let scopes = gpu::scopes(&device, Some(&q.gpu))?;
    let mut changes = Vec::new();
    let mut act = || {
        for scope in &scopes {
            for (knob, value) in &values {
                policy::put(&device, scope, knob, *value, !q.dry_run, &mut changes)?;
            }
        }
        Ok(())
    };
    let result = act();
    for (knob, asked) in values.iter().filter(|(k, _)| k.name == KEEP && !q.dry_run) {
        for (scope, of) in &scopes {
            let set = |c: &policy::Change| c.scope == *of && c.name == knob.name;
            if changes.iter().any(set) {
                let less = less_kept(&device, &knobs, *scope, *asked, chunk);
                less.iter().for_each(|w| out.warn(w));
            }
        }
    }
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

    fn knob(index: u32, name: &str, max: u64) -> Knob {
        Knob {
            index,
            name: name.into(),
            unit: String::new(),
            doc: String::new(),
            choices: Vec::new(),
            min: 0,
            max,
            default: 0,
            scopes: 0,
        }
    }

    #[test]
    fn one_value_that_cannot_be_leaves_none_to_set() {
        let knobs = [
            knob(0, "lend_limit_mib", 1 << 20),
            knob(1, "lend_limit_percent", 100),
            knob(2, "lend_reserve_chunks", 1024),
        ];
        let set = |keep: Option<u64>, text| {
            let q = QuotaSet {
                gpu: "all".into(),
                limit: None,
                keep,
                lend: None,
                dry_run: false,
            };
            let values = wanted(&q, Some(limit(text)?), 2 << 20);
            let all = checked(&knobs, values)?;
            Ok(all.iter().map(|(k, v)| (k.index, *v)).collect::<Vec<_>>())
        };
        let code = |r: Result<Vec<(u32, u64)>>| r.map_err(|e: Failure| e.code());
        assert_eq!(code(set(None, "1T")), Ok(vec![(1, 100), (0, 1 << 20)]));
        // A keep of 2 GiB and a byte is 1025 chunks.
        assert_eq!(
            code(set(Some(2 << 30), "5%")),
            Ok(vec![(1, 5), (0, 0), (2, 1024)])
        );
        assert_eq!(code(set(Some((2 << 30) + 1), "5%")), Err(2));
        assert_eq!(code(set(None, "2T")), Err(2));
        assert_eq!(
            checked(&knobs, vec![("x", 1)]).map_err(|e| e.code()).err(),
            Some(6)
        );
    }

    #[test]
    fn a_lost_gpu_has_nothing_to_lend() {
        let info = uapi::huvm_lend_info {
            lends: 1,
            limit_chunks: 31,
            keep_chunks: 1,
            ..Default::default()
        };
        for (state, word, lends, limit) in [
            (uapi::HUVM_GPU_OK, "ok", Some(true), Some(62)),
            (uapi::HUVM_GPU_LOST, "lost", None, None),
        ] {
            let g = uapi::huvm_gpu_info {
                state,
                ..Default::default()
            };
            let q = quota(&g, &info, 2, [100, 0]);
            assert_eq!((q.lends, q.limit_bytes), (lends, limit), "{word}");
            assert_eq!((q.state.as_deref(), q.keep_bytes), (Some(word), 2));
            // The knobs are as they were set.
            assert_eq!((q.limit_percent, q.limit_mib), (100, None));
        }
    }

    #[test]
    fn what_is_not_kept_is_told() {
        let told = |kept| keeps_less(0, 32, kept, 2 << 20, 5);
        let less = "GPU 0 keeps 6.0 MiB of the 64.0 MiB: pre_evict_share_percent is 5";
        assert_eq!(told(3).as_deref(), Some(less));
        assert_eq!((told(32), told(33)), (None, None));
    }

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
