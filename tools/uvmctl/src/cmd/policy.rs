// SPDX-License-Identifier: GPL-2.0
//! `policy list|show|set`.

use super::gpu::{self, Named};
use crate::cli::{PolicyScope, PolicyVerb};
use crate::exit::{Failure, Result};
use crate::out::Out;
use crate::row::{extra, field, wrapped, Cell, Field, Row};
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
    /// Who can have a value of its own: `global`, `gpu`, `process`; empty if the driver does not say.
    #[serde(default)]
    scopes: Vec<String>,
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
            wrapped("range", "RANGE", Cell::Text(range)),
            extra("min", Cell::Count(self.min)),
            extra("max", Cell::Count(self.max)),
            field(
                "default",
                "DEFAULT",
                default.map_or(Cell::Count(self.default), Cell::text),
            ),
            extra("scopes", Cell::text(self.scopes.join("|"))),
            wrapped("doc", "WHAT IT DOES", Cell::text(&self.doc)),
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
            wrapped("doc", "WHAT IT IS", Cell::text(&self.doc)),
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
    /// `global`, or of which GPU or process. Documents of an older uvmctl do not say.
    #[serde(default)]
    scope: Option<String>,
    preset: String,
    values: Vec<Value>,
}

/// What was changed.
#[derive(Default, Serialize)]
pub(super) struct Change {
    /// `global`, or which GPU or process.
    pub(super) scope: String,
    pub(super) name: String,
    pub(super) from: String,
    pub(super) to: String,
    /// `false` with `--dry-run`.
    pub(super) done: bool,
}

impl Row for Change {
    fn fields(&self) -> Vec<Field> {
        vec![
            field("scope", "SCOPE", Cell::text(&self.scope)),
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
        PolicyVerb::Show(s) => show(out, s),
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
            set(out, scope, &wanted)
        }
        PolicyVerb::Reset {
            scope,
            dry_run,
            knobs,
        } => reset(out, scope, knobs, !dry_run),
    }
}

/// The scope that the options name.
fn scope(device: &Device, s: &PolicyScope) -> Result<Named> {
    match s.pid {
        Some(pid) => Ok(gpu::of_process(pid)),
        None => gpu::scope(device, s.gpu.as_deref()),
    }
}

/// Words for the scopes of a knob.
fn scopes(k: &Knob) -> Vec<String> {
    [
        (uapi::HUVM_SCOPE_GLOBAL, "global"),
        (uapi::HUVM_SCOPE_GPU, "gpu"),
        (uapi::HUVM_SCOPE_PROCESS, "process"),
    ]
    .iter()
    .filter(|(bit, _)| k.scopes & (1 << bit) != 0)
    .map(|(_, word)| (*word).to_owned())
    .collect()
}

/// A process has no value of a knob that is of a GPU as a whole.
fn allowed(knob: &Knob, scope: Scope) -> Result<()> {
    let of_gpu = knob.scopes != 0 && knob.scopes & (1 << uapi::HUVM_SCOPE_PROCESS) == 0;
    if of_gpu && matches!(scope, Scope::Process(_) | Scope::Space) {
        return Err(Failure::NotSupported(
            format!("{} is of a GPU as a whole, a process has none", knob.name),
            format!(
                "set it for the GPU: 'uvmctl policy set --gpu ID {}=...'",
                knob.name
            ),
        ));
    }
    Ok(())
}

fn list(out: &Out) -> Result<()> {
    let l: List = out.read("policy.list", |device| {
        let preset = |(name, doc)| Preset { name, doc };
        let knob = |k: Knob| Described {
            scopes: scopes(&k),
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
                uapi::HUVM_SCOPE_SPACE => "process",
                _ => "global",
            }
            .into(),
        });
    }
    Ok(values)
}

fn show(out: &Out, of: &PolicyScope) -> Result<()> {
    let s: Show = out.read("policy.show", |device| {
        let (scope, name) = scope(device, of)?;
        Ok(Show {
            scope: Some(name),
            preset: device.preset(scope)?,
            values: values(device, scope)?,
        })
    })?;
    if out.offline() {
        let has = s.scope.iter().cloned().collect();
        gpu::saved(of.gpu.as_deref(), of.pid, &has)?;
    }
    out.show("policy.show", &s, &s.values, || {
        format!("preset {}\n\n{}", s.preset, out.render(&s.values))
    })
}

/// The knob of this name.
pub(super) fn find<'a>(knobs: &'a [Knob], name: &str) -> Result<&'a Knob> {
    knobs.iter().find(|k| k.name == name).ok_or_else(|| {
        Failure::NotFound(
            format!("there is no knob '{name}'"),
            "'uvmctl policy list' shows them".into(),
        )
    })
}

/// The value that `text` stands for, if the knob can have it.
pub(super) fn within(knob: &Knob, value: Option<u64>, text: &str) -> Result<u64> {
    let range = knob.min..=knob.max;
    value.filter(|v| range.contains(v)).ok_or_else(|| {
        let choices = if knob.choices.is_empty() {
            format!("{} to {}", knob.min, knob.max)
        } else {
            knob.choices.join(", ")
        };
        Failure::Advised(
            format!("'{text}' is no value of {}: {choices}", knob.name),
            "'uvmctl policy list' shows the values of each knob".into(),
        )
    })
}

/// Reads KNOB=VALUE.
pub(crate) fn assignment<'a>(knobs: &'a [Knob], text: &str) -> Result<(&'a Knob, u64)> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| Failure::Usage(format!("'{text}' is not KNOB=VALUE")))?;
    let knob = find(knobs, name)?;
    Ok((knob, within(knob, knob.parse(value), value)?))
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

/// Puts a preset in force in a scope.
pub(super) fn choose(device: &Device, scope: Scope, preset: &str) -> Result<()> {
    device
        .set_preset(scope, preset)
        .map_err(|e| match e.errno() {
            Some(2) => no_preset(preset), // ENOENT
            _ => e.into(),
        })
}

/// Makes the changes, and notes each that was made.
fn change(
    device: &Device,
    to: &Named,
    wanted: &Wanted<'_>,
    values: &[(&Knob, u64)],
    changes: &mut Vec<Change>,
) -> Result<()> {
    let done = wanted.done;
    if let Some(name) = wanted.preset {
        let (scope, of) = to;
        let from = device.preset(*scope)?;
        if done {
            choose(device, *scope, name)?;
        } else if !device.presets()?.iter().any(|(n, _)| n == name) {
            return Err(no_preset(name));
        }
        changes.push(Change {
            scope: of.clone(),
            name: "preset".into(),
            from,
            to: name.into(),
            done,
        });
    }
    for (knob, value) in values {
        put(device, to, knob, *value, done, changes)?;
    }
    Ok(())
}

/// Sets one knob (`done`), or only says what would change.
pub(super) fn put(
    device: &Device,
    (scope, of): &Named,
    knob: &Knob,
    value: u64,
    done: bool,
    changes: &mut Vec<Change>,
) -> Result<()> {
    let (old, _) = device.policy(*scope, knob.index)?;
    if done {
        device.set_policy(*scope, knob.index, value)?;
    }
    changes.push(Change {
        scope: of.clone(),
        name: knob.name.clone(),
        from: knob.show(old),
        to: knob.show(value),
        done,
    });
    Ok(())
}

/// Prints what was changed, with what ended it.
pub(super) fn tell(
    out: &Out,
    schema: &str,
    changes: &[Change],
    done: bool,
    result: Result<()>,
) -> Result<()> {
    let failure = match result {
        Err(e) if changes.is_empty() || !done => return Err(e),
        Err(e) => Some(Failure::Partly(Box::new(e))),
        Ok(()) => None,
    };
    let would = match (done, schema) {
        (true, _) => "",
        (false, "policy.reset") => "would reset ",
        (false, _) => "would set ",
    };
    out.list_failed_as(schema, changes, failure, || {
        if out.quiet {
            return String::new();
        }
        let line = |c: &Change| {
            let of = match c.scope.as_str() {
                "global" => String::new(),
                scope => format!("{scope} "),
            };
            format!("{would}{of}{}: {} -> {}\n", c.name, c.from, c.to)
        };
        changes.iter().map(line).collect()
    })
}

/// Forgets what was set for knobs in a scope.
fn reset(out: &Out, of: &PolicyScope, names: &[String], done: bool) -> Result<()> {
    let device = out.device()?;
    let (scope, of) = scope(&device, of)?;
    let knobs = device.knobs()?;
    let some = names
        .iter()
        .map(|n| find(&knobs, n))
        .collect::<Result<Vec<_>>>()?;
    for knob in &some {
        allowed(knob, scope)?;
    }
    let read = |k: &Knob| Ok::<_, Failure>(device.policy(scope, k.index)?.0);
    let all: Vec<&Knob> = if some.is_empty() {
        knobs.iter().collect()
    } else {
        some.clone()
    };
    let before = all.iter().map(|k| read(k)).collect::<Result<Vec<_>>>()?;
    let mut changes = Vec::new();
    let mut act = || {
        if done && some.is_empty() {
            device.reset_policy(scope, None)?;
        }
        for (k, old) in all.iter().zip(&before) {
            if done && !some.is_empty() {
                device.reset_policy(scope, Some(k.index))?;
            }
            let to = match (done, scope) {
                (true, _) => read(k)?,
                (false, Scope::Global) => k.default,
                // Without a value of its own: of a process, as on a GPU that has none either.
                (false, _) => device.policy(Scope::Global, k.index)?.0,
            };
            let to = k.show(to);
            if !some.is_empty() || to != k.show(*old) {
                changes.push(Change {
                    scope: of.clone(),
                    name: k.name.clone(),
                    from: k.show(*old),
                    to,
                    done,
                });
            }
        }
        Ok(())
    };
    let result = act();
    tell(out, "policy.reset", &changes, done, result)
}

fn set(out: &Out, of: &PolicyScope, wanted: &Wanted<'_>) -> Result<()> {
    let device = out.device()?;
    let to = scope(&device, of)?;
    let knobs = device.knobs()?;
    // All is read before anything is changed.
    let values = wanted
        .values
        .iter()
        .map(|v| assignment(&knobs, v))
        .collect::<Result<Vec<_>>>()?;
    for (knob, _) in &values {
        allowed(knob, to.0)?;
    }
    let mut changes = Vec::new();
    let result = change(&device, &to, wanted, &values, &mut changes);
    tell(out, "policy.set", &changes, wanted.done, result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Table;

    /// The knobs that do nothing yet say so at their very end.
    #[test]
    fn a_knob_is_told_whole_on_a_narrow_terminal() {
        let knob = |name: &str, choices: &[&str], doc: &str| Described {
            name: name.into(),
            choices: choices.iter().map(|c| (*c).into()).collect(),
            doc: doc.into(),
            ..Described::default()
        };
        let knobs = [
            knob(
                "thrash_pin_threshold_periods",
                &["round-robin", "most-spare", "least-busy"],
                "Merge a fault with the last one, or the last of its uTLB, while fetching (no effect yet).",
            ),
            knob("prefetch", &[], "Short."),
        ];
        let text = Table::of(&knobs, None, false).render(true, Some(80));
        assert!(!text.contains('…'), "{text}");
        assert!(text.lines().all(|l| l.len() <= 80), "{text}");
        for word in [
            "thrash_pin_threshold_periods",
            "most-spare|",
            "least-busy",
            "yet).",
        ] {
            assert!(text.contains(word), "{word}\n{text}");
        }
    }

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
            scopes: match name {
                "lend" => 1 << uapi::HUVM_SCOPE_GLOBAL | 1 << uapi::HUVM_SCOPE_GPU,
                _ => 0b11110,
            },
        };
        vec![
            knob(0, "threshold", &[], 1, 100),
            knob(1, "prefetch", &["off", "tree"], 0, 1),
            knob(2, "lend", &["off", "on"], 0, 1),
        ]
    }

    #[test]
    fn a_process_has_no_value_of_what_is_of_a_gpu() {
        let knobs = knobs();
        for (name, process) in [("threshold", true), ("lend", false)] {
            let k = find(&knobs, name).unwrap();
            assert!(allowed(k, Scope::Global).is_ok() && allowed(k, Scope::Gpu(1)).is_ok());
            let refused = allowed(k, Scope::Process(7)).map_err(|e| e.code());
            assert_eq!(refused, if process { Ok(()) } else { Err(3) }, "{name}");
            assert_eq!(scopes(k).contains(&"process".to_owned()), process);
        }
        // A driver that does not say is asked.
        let mut old = find(&knobs, "lend").unwrap().clone();
        old.scopes = 0;
        assert!(allowed(&old, Scope::Process(7)).is_ok());
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
