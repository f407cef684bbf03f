// SPDX-License-Identifier: GPL-2.0
//! `policy list|show|set`.

use crate::cli::{PolicyScope, PolicyVerb};
use crate::exit::{Failure, Result};
use crate::out::{Out, Table};
use libhuvm::device::Knob;
use libhuvm::{uapi, Device, Scope};
use serde::Serialize;

fn scope(s: &PolicyScope) -> Scope {
    s.gpu.map_or(Scope::Global, Scope::Gpu)
}

#[derive(Serialize)]
struct Described {
    name: String,
    unit: Option<String>,
    min: u64,
    max: u64,
    default: u64,
    choices: Vec<String>,
    doc: String,
}

#[derive(Serialize)]
struct Preset {
    name: String,
    doc: String,
}

#[derive(Serialize)]
struct List {
    presets: Vec<Preset>,
    knobs: Vec<Described>,
}

#[derive(Serialize)]
struct Value {
    name: String,
    value: u64,
    text: String,
    origin: &'static str,
}

#[derive(Serialize)]
struct Show {
    preset: String,
    values: Vec<Value>,
}

#[derive(Serialize)]
struct Change {
    name: String,
    from: String,
    to: String,
}

pub(super) fn run(out: &Out, verb: &PolicyVerb) -> Result<()> {
    let device = Device::open()?;
    match verb {
        PolicyVerb::List => list(out, &device),
        PolicyVerb::Show(s) => show(out, &device, scope(s)),
        PolicyVerb::Set {
            scope: s,
            preset,
            values,
        } => set(out, &device, scope(s), preset.as_deref(), values),
    }
}

fn list(out: &Out, device: &Device) -> Result<()> {
    let l = List {
        presets: device
            .presets()?
            .into_iter()
            .map(|(name, doc)| Preset { name, doc })
            .collect(),
        knobs: device
            .knobs()?
            .into_iter()
            .map(|k| Described {
                unit: (!k.unit.is_empty()).then_some(k.unit),
                name: k.name,
                min: k.min,
                max: k.max,
                default: k.default,
                choices: k.choices,
                doc: k.doc,
            })
            .collect(),
    };
    out.show("policy.list", &l, || {
        let mut p = Table::new(&["PRESET", "WHAT IT IS"]);
        for preset in &l.presets {
            p.row(vec![preset.name.clone(), preset.doc.clone()]);
        }
        let mut t = Table::new(&["KNOB", "UNIT", "RANGE", "DEFAULT", "WHAT IT DOES"]);
        for k in &l.knobs {
            let range = if k.choices.is_empty() {
                format!("{} to {}", k.min, k.max)
            } else {
                k.choices.join("|")
            };
            let default = usize::try_from(k.default - k.min)
                .ok()
                .and_then(|i| k.choices.get(i))
                .cloned();
            t.row(vec![
                k.name.clone(),
                k.unit.clone().unwrap_or_else(|| "-".into()),
                range,
                default.unwrap_or_else(|| k.default.to_string()),
                k.doc.clone(),
            ]);
        }
        format!("{}\n{}", p.render(true), t.render(true))
    });
    Ok(())
}

fn show(out: &Out, device: &Device, scope: Scope) -> Result<()> {
    let mut values = Vec::new();
    for k in device.knobs()? {
        let (value, origin) = device.policy(scope, k.index)?;
        values.push(Value {
            text: k.show(value),
            name: k.name,
            value,
            origin: match origin {
                uapi::HUVM_SCOPE_GPU => "gpu",
                uapi::HUVM_SCOPE_SPACE => "space",
                _ => "global",
            },
        });
    }
    let s = Show {
        preset: device.preset(scope)?,
        values,
    };
    out.show("policy.show", &s, || {
        let mut t = Table::new(&["KNOB", "VALUE", "FROM"]);
        for v in &s.values {
            t.row(vec![v.name.clone(), v.text.clone(), v.origin.into()]);
        }
        format!("preset {}\n\n{}", s.preset, t.render(true))
    });
    Ok(())
}

/// Reads KNOB=VALUE.
fn assignment<'a>(knobs: &'a [Knob], text: &str) -> Result<(&'a Knob, u64)> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| Failure::Usage(format!("'{text}' is not KNOB=VALUE")))?;
    let knob = knobs.iter().find(|k| k.name == name).ok_or_else(|| {
        Failure::NotFound(
            format!("there is no knob '{name}'"),
            "'uvmctl policy list' shows them".into(),
        )
    })?;
    let choices = if knob.choices.is_empty() {
        format!("{} to {}", knob.min, knob.max)
    } else {
        knob.choices.join(", ")
    };
    let value = knob
        .parse(value)
        .filter(|v| (knob.min..=knob.max).contains(v))
        .ok_or_else(|| Failure::Usage(format!("'{value}' is no value of {name}: {choices}")))?;
    Ok((knob, value))
}

fn set(
    out: &Out,
    device: &Device,
    scope: Scope,
    preset: Option<&str>,
    values: &[String],
) -> Result<()> {
    let knobs = device.knobs()?;
    // All is read before anything is changed.
    let wanted = values
        .iter()
        .map(|v| assignment(&knobs, v))
        .collect::<Result<Vec<_>>>()?;
    let mut changes = Vec::new();
    if let Some(name) = preset {
        let from = device.preset(scope)?;
        device
            .set_preset(scope, name)
            .map_err(|e| match e.errno() {
                Some(2) => Failure::NotFound(
                    format!("there is no preset '{name}'"),
                    "'uvmctl policy list' shows them".into(),
                ),
                _ => e.into(),
            })?;
        changes.push(Change {
            name: "preset".into(),
            from,
            to: name.into(),
        });
    }
    for (knob, value) in wanted {
        let (old, _) = device.policy(scope, knob.index)?;
        device.set_policy(scope, knob.index, value)?;
        changes.push(Change {
            name: knob.name.clone(),
            from: knob.show(old),
            to: knob.show(value),
        });
    }
    out.show("policy.set", &changes, || {
        changes
            .iter()
            .map(|c| format!("{}: {} -> {}\n", c.name, c.from, c.to))
            .collect()
    });
    Ok(())
}
