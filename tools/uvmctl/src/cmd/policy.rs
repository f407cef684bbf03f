// SPDX-License-Identifier: GPL-2.0
//! `policy list|show|set`.

use super::gpu;
use crate::cli::PolicyVerb;
use crate::exit::{Failure, Result};
use crate::out::Out;
use crate::row::{extra, field, Cell, Field, Row};
use libhuvm::device::Knob;
use libhuvm::{uapi, Device, Scope};
use serde::{Deserialize, Serialize};

/// A knob.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Described {
    name: String,
    unit: Option<String>,
    min: u64,
    max: u64,
    default: u64,
    choices: Vec<String>,
    doc: String,
}

impl Row for Described {
    fn fields(&self) -> Vec<Field> {
        let range = if self.choices.is_empty() {
            format!("{} to {}", self.min, self.max)
        } else {
            self.choices.join("|")
        };
        let default = usize::try_from(self.default.saturating_sub(self.min))
            .ok()
            .and_then(|i| self.choices.get(i));
        vec![
            field("name", "KNOB", Cell::text(&self.name)),
            field(
                "unit",
                "UNIT",
                self.unit.as_ref().map_or(Cell::None, Cell::text),
            ),
            field("range", "RANGE", Cell::Text(range)),
            extra("min", Cell::Count(self.min)),
            extra("max", Cell::Count(self.max)),
            field(
                "default",
                "DEFAULT",
                default.map_or(Cell::Count(self.default), Cell::text),
            ),
            field("doc", "WHAT IT DOES", Cell::text(&self.doc)),
        ]
    }
}

#[derive(Default, Serialize, Deserialize)]
struct Preset {
    name: String,
    doc: String,
}

impl Row for Preset {
    fn fields(&self) -> Vec<Field> {
        vec![
            field("name", "PRESET", Cell::text(&self.name)),
            field("doc", "WHAT IT IS", Cell::text(&self.doc)),
        ]
    }
}

#[derive(Serialize, Deserialize)]
struct List {
    presets: Vec<Preset>,
    knobs: Vec<Described>,
}

/// A knob's value in force.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Value {
    name: String,
    value: u64,
    text: String,
    origin: String,
}

impl Row for Value {
    fn fields(&self) -> Vec<Field> {
        vec![
            field("name", "KNOB", Cell::text(&self.name)),
            field("text", "VALUE", Cell::text(&self.text)),
            extra("value", Cell::Count(self.value)),
            field("origin", "FROM", Cell::text(&self.origin)),
        ]
    }
}

#[derive(Serialize, Deserialize)]
struct Show {
    preset: String,
    values: Vec<Value>,
}

/// What was changed.
#[derive(Default, Serialize)]
pub(super) struct Change {
    name: String,
    from: String,
    to: String,
    /// `false` with `--dry-run`.
    done: bool,
}

impl Row for Change {
    fn fields(&self) -> Vec<Field> {
        vec![
            field("name", "KNOB", Cell::text(&self.name)),
            field("from", "FROM", Cell::text(&self.from)),
            field("to", "TO", Cell::text(&self.to)),
            field("done", "DONE", Cell::Flag(self.done)),
        ]
    }
}

pub(super) fn run(out: &Out, verb: &PolicyVerb) -> Result<()> {
    match verb {
        PolicyVerb::List => list(out),
        PolicyVerb::Show(s) => show(out, s.gpu.as_deref()),
        PolicyVerb::Set {
            scope,
            preset,
            dry_run,
            values,
        } => {
            let wanted = Wanted {
                preset: preset.as_deref(),
                values,
                done: !dry_run,
            };
            set(out, scope.gpu.as_deref(), &wanted)
        }
    }
}

fn list(out: &Out) -> Result<()> {
    let l: List = out.read("policy.list", |device| {
        let preset = |(name, doc)| Preset { name, doc };
        let knob = |k: Knob| Described {
            unit: (!k.unit.is_empty()).then_some(k.unit),
            name: k.name,
            min: k.min,
            max: k.max,
            default: k.default,
            choices: k.choices,
            doc: k.doc,
        };
        Ok(List {
            presets: device.presets()?.into_iter().map(preset).collect(),
            knobs: device.knobs()?.into_iter().map(knob).collect(),
        })
    })?;
    out.show("policy.list", &l, &l.knobs, || {
        format!("{}\n{}", out.render(&l.presets), out.render(&l.knobs))
    })
}

/// All knobs' values in a scope.
pub(super) fn values(device: &Device, scope: Scope) -> Result<Vec<Value>> {
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
            }
            .into(),
        });
    }
    Ok(values)
}

fn show(out: &Out, id: Option<&str>) -> Result<()> {
    let s: Show = out.read("policy.show", |device| {
        let (scope, _) = gpu::scope(device, id)?;
        Ok(Show {
            preset: device.preset(scope)?,
            values: values(device, scope)?,
        })
    })?;
    out.show("policy.show", &s, &s.values, || {
        format!("preset {}\n\n{}", s.preset, out.render(&s.values))
    })
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

/// What `set` shall do.
struct Wanted<'a> {
    preset: Option<&'a str>,
    values: &'a [String],
    /// Change something, not only say so.
    done: bool,
}

fn no_preset(name: &str) -> Failure {
    Failure::NotFound(
        format!("there is no preset '{name}'"),
        "'uvmctl policy list' shows them".into(),
    )
}

/// Makes the changes, and notes each that was made.
fn change(
    device: &Device,
    scope: Scope,
    wanted: &Wanted<'_>,
    values: Vec<(&Knob, u64)>,
    changes: &mut Vec<Change>,
) -> Result<()> {
    let done = wanted.done;
    if let Some(name) = wanted.preset {
        let from = device.preset(scope)?;
        if done {
            device
                .set_preset(scope, name)
                .map_err(|e| match e.errno() {
                    Some(2) => no_preset(name),
                    _ => e.into(),
                })?;
        } else if !device.presets()?.iter().any(|(n, _)| n == name) {
            return Err(no_preset(name));
        }
        changes.push(Change {
            name: "preset".into(),
            from,
            to: name.into(),
            done,
        });
    }
    for (knob, value) in values {
        let (old, _) = device.policy(scope, knob.index)?;
        if done {
            device.set_policy(scope, knob.index, value)?;
        }
        changes.push(Change {
            name: knob.name.clone(),
            from: knob.show(old),
            to: knob.show(value),
            done,
        });
    }
    Ok(())
}

fn set(out: &Out, id: Option<&str>, wanted: &Wanted<'_>) -> Result<()> {
    let device = out.device()?;
    let (scope, _) = gpu::scope(&device, id)?;
    let knobs = device.knobs()?;
    // All is read before anything is changed.
    let values = wanted
        .values
        .iter()
        .map(|v| assignment(&knobs, v))
        .collect::<Result<Vec<_>>>()?;
    let mut changes = Vec::new();
    let failure = match change(&device, scope, wanted, values, &mut changes) {
        Err(e) if changes.is_empty() || !wanted.done => return Err(e),
        Err(e) => Some(Failure::Partly(Box::new(e))),
        Ok(()) => None,
    };
    let would = if wanted.done { "" } else { "would set " };
    out.list_failed_as("policy.set", &changes, failure, || {
        changes
            .iter()
            .map(|c| format!("{would}{}: {} -> {}\n", c.name, c.from, c.to))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knobs() -> Vec<Knob> {
        let knob = |index, name: &str, choices: &[&str], min, max| Knob {
            index,
            name: name.into(),
            unit: String::new(),
            doc: String::new(),
            choices: choices.iter().map(|c| (*c).into()).collect(),
            min,
            max,
            default: min,
        };
        vec![
            knob(0, "threshold", &[], 1, 100),
            knob(1, "prefetch", &["off", "tree"], 0, 1),
        ]
    }

    #[test]
    fn assignments_are_checked_before_anything_changes() {
        let knobs = knobs();
        let read = |text: &str| assignment(&knobs, text).map(|(k, v)| (k.index, v));
        assert_eq!(read("threshold=51").ok(), Some((0, 51)));
        assert_eq!(read("prefetch=tree").ok(), Some((1, 1)));
        for (text, code) in [
            ("threshold", 2),
            ("threshold=", 2),
            ("threshold=0", 2),
            ("threshold=101", 2),
            ("threshold=-1", 2),
            ("prefetch=all", 2),
            ("other=1", 6),
        ] {
            assert_eq!(read(text).map_err(|e| e.code()), Err(code), "{text}");
        }
    }
}
