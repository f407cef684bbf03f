// SPDX-License-Identifier: GPL-2.0
//! Timing profiles: TOML files (`qemu/profiles/`) into the model's [`Profile`].
//!
//! A key that is missing takes the built-in value; a key that is unknown is an error.

use std::path::Path;

use huvm_model::config::{LinkKind, Profile, ProfileLink};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct File {
    name: String,
    #[serde(default)]
    host_link: HostLink,
    #[serde(default)]
    memory: Memory,
    #[serde(default)]
    copy_engine: CopyEngine,
    #[serde(default)]
    latency: Latency,
    #[serde(default)]
    cpu: Cpu,
    #[serde(default)]
    workload: Workload,
    #[serde(default)]
    fault_buffer: FaultBuffer,
    #[serde(default)]
    link: Vec<Link>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct HostLink {
    h2d_mbps: Option<u32>,
    d2h_mbps: Option<u32>,
    latency_ns: Option<u32>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct Memory {
    mbps: Option<u32>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct CopyEngine {
    count: Option<u32>,
    mbps: Option<u32>,
    launch_ns: Option<u32>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct Latency {
    doorbell_ns: Option<u32>,
    fault_ns: Option<u32>,
    interrupt_ns: Option<u32>,
    replay_ns: Option<u32>,
    invalidate_ns: Option<u32>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct Cpu {
    mips: Option<u32>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct Workload {
    max_resident: Option<u32>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct FaultBuffer {
    non_replayable_entries: Option<u32>,
    replayable_entries: Option<u32>,
}

/// One link, or with `all = n` one between each pair of GPUs 0..n.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Link {
    a: Option<usize>,
    b: Option<usize>,
    all: Option<usize>,
    #[serde(rename = "type")]
    kind: Kind,
    mbps: u32,
    latency_ns: u32,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Pcie,
    Nvlink,
}

/// Reads a profile.
///
/// # Errors
///
/// One line that names the file and what is wrong with it.
pub(crate) fn load(path: &Path) -> Result<Profile, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| format!("timing profile {}: {e}", path.display()))?;
    parse(&text).map_err(|e| format!("timing profile {}: {e}", path.display()))
}

/// Parses a profile's text.
///
/// # Errors
///
/// One line that says what is wrong with it.
pub fn parse(text: &str) -> Result<Profile, String> {
    let f: File = toml::from_str(text).map_err(|e| one_line(&e, text))?;
    let mut p = Profile {
        id: Profile::hash(text.as_bytes()),
        name: f.name,
        links: links(&f.link)?,
        ..Profile::default()
    };
    let set = |to: &mut u32, from: Option<u32>| {
        if let Some(v) = from {
            *to = v;
        }
    };
    set(&mut p.host_h2d_mbps, f.host_link.h2d_mbps);
    set(&mut p.host_d2h_mbps, f.host_link.d2h_mbps);
    set(&mut p.host_latency_ns, f.host_link.latency_ns);
    set(&mut p.vram_mbps, f.memory.mbps);
    set(&mut p.ce_count, f.copy_engine.count);
    set(&mut p.ce_mbps, f.copy_engine.mbps);
    set(&mut p.launch_ns, f.copy_engine.launch_ns);
    set(&mut p.doorbell_ns, f.latency.doorbell_ns);
    set(&mut p.fault_ns, f.latency.fault_ns);
    set(&mut p.intr_ns, f.latency.interrupt_ns);
    set(&mut p.replay_ns, f.latency.replay_ns);
    set(&mut p.invalidate_ns, f.latency.invalidate_ns);
    set(&mut p.cpu_mips, f.cpu.mips);
    set(&mut p.max_resident, f.workload.max_resident);
    let [non_replayable, replayable] = &mut p.fault_entries;
    set(non_replayable, f.fault_buffer.non_replayable_entries);
    set(replayable, f.fault_buffer.replayable_entries);
    p.check()?;
    Ok(p)
}

fn links(entries: &[Link]) -> Result<Vec<ProfileLink>, String> {
    let mut out = Vec::new();
    for (i, l) in entries.iter().enumerate() {
        let kind = match l.kind {
            Kind::Pcie => LinkKind::Pcie,
            Kind::Nvlink => LinkKind::Nvlink,
        };
        match (l.a, l.b, l.all) {
            (Some(a), Some(b), None) => out.push(ProfileLink {
                a,
                b,
                kind,
                mbps: l.mbps,
                latency_ns: l.latency_ns,
            }),
            (None, None, Some(n)) if n <= huvm_model::MAX_GPUS => {
                out.extend(Profile::all_to_all(n, kind, l.mbps, l.latency_ns));
            }
            (None, None, Some(n)) => {
                return Err(format!(
                    "link {i}: all = {n} is above {}",
                    huvm_model::MAX_GPUS
                ))
            }
            _ => return Err(format!("link {i}: give a and b, or all")),
        }
    }
    Ok(out)
}

/// The parser's message on one line, with the line number.
fn one_line(e: &toml::de::Error, text: &str) -> String {
    let line = e
        .span()
        .and_then(|s| text.get(..s.start))
        .map_or(1, |before| before.matches('\n').count() + 1);
    format!("line {line}: {}", e.message().replace('\n', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_profiles_parse() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../profiles");
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "toml") {
                names.push(load(&path).unwrap().name);
            }
        }
        names.sort();
        let shipped = [
            "full16",
            "functional",
            "narrow",
            "pcie-only",
            "pcie4-nvlink3",
            "pcie5-nvlink4",
            "ring8",
            "v100-p3",
        ];
        assert_eq!(names, shipped);
    }

    #[test]
    fn the_built_in_profile_is_the_file() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../profiles/v100-p3.toml");
        let mut p = load(&path).unwrap();
        p.id = Profile::default().id;
        assert_eq!(p, Profile::default());
    }

    #[test]
    fn mistakes_give_one_line() {
        for (text, want) in [
            ("name = 1", "line 1: "),
            ("name = \"x\"\nspeed = 3", "unknown field `speed`"),
            (
                "name = \"x\"\n[memory]\nmbps = 0",
                "memory mbps must not be 0",
            ),
            ("name = \"x\"\n[cpu]\nmips = 0", "cpu mips must not be 0"),
            (
                "name = \"x\"\n[cpu]\nmips = 100001",
                "cpu mips 100001 is above 100000",
            ),
            (
                "name = \"x\"\n[[link]]\ntype = \"nvlink\"\nmbps = 1\nlatency-ns = 1",
                "give a and b, or all",
            ),
            (
                "name = \"x\"\n[[link]]\na=1\nb=1\ntype = \"nvlink\"\nmbps = 1\nlatency-ns = 1",
                "no pair of GPUs",
            ),
        ] {
            let e = parse(text).unwrap_err();
            assert!(e.contains(want) && !e.contains('\n'), "{e:?}");
        }
    }
}
