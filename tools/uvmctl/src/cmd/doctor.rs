// SPDX-License-Identifier: GPL-2.0
//! `doctor`: what is wrong with this machine's set-up, and what to do.

use super::{gpu, latency, loss};
use crate::exit::{Failure, Result};
use crate::out::Out;
use crate::row::{field, wrapped, Cell, Field, Row, Tone};
use libhuvm::{uapi, Device, Scope};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// A check and what came of it.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Check {
    name: String,
    /// `ok`, `failed`, or `unknown` when it cannot be found out here.
    result: String,
    found: String,
    remedy: Option<String>,
}

impl Row for Check {
    fn fields(&self) -> Vec<Field> {
        let result = if self.failed() {
            "FAILED"
        } else {
            &self.result
        };
        let tone = match self.result.as_str() {
            "ok" => Tone::Good,
            "failed" => Tone::Bad,
            _ => Tone::Odd,
        };
        let remedy = self.remedy.as_ref();
        vec![
            field("name", "CHECK", Cell::text(&self.name)),
            field("result", "RESULT", Cell::State(result.into(), tone)),
            wrapped("found", "FOUND", Cell::text(&self.found)),
            wrapped(
                "remedy",
                "WHAT TO DO",
                remedy.map_or(Cell::None, Cell::text),
            ),
        ]
    }
}

impl Check {
    fn failed(&self) -> bool {
        self.result == "failed"
    }
}

fn check(name: &str, ok: bool, found: impl Into<String>, remedy: &str) -> Check {
    Check {
        name: name.into(),
        result: if ok { "ok" } else { "failed" }.into(),
        found: found.into(),
        remedy: (!ok).then(|| remedy.into()),
    }
}

fn first_line(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.lines().next()?.to_owned())
}

/// Options that the module and its memory handling need.
const OPTIONS: [&str; 5] = [
    "CONFIG_RUST",
    "CONFIG_MODULES",
    "CONFIG_PCI_MSI",
    "CONFIG_TRANSPARENT_HUGEPAGE",
    "CONFIG_MIGRATION",
];

/// The text of a compressed file, if there is one and gzip to read it with.
fn unpacked(path: &Path) -> Option<String> {
    if !path.exists() {
        return None;
    }
    let out = std::process::Command::new("gzip")
        .arg("-dc")
        .arg(path)
        .output()
        .ok()?;
    let text = String::from_utf8(out.stdout).ok()?;
    (out.status.success() && !text.is_empty()).then_some(text)
}

/// The running kernel's configuration, where distributions put it.
fn options(root: &Path, release: &str) -> Check {
    let places = [
        format!("boot/config-{release}"),
        format!("lib/modules/{release}/config"),
    ];
    let config = places
        .iter()
        .find_map(|p| std::fs::read_to_string(root.join(p)).ok())
        .or_else(|| unpacked(&root.join("proc/config.gz")));
    let Some(config) = config else {
        return Check {
            name: "kernel options".into(),
            result: "unknown".into(),
            found: format!(
                "cannot tell: there is neither /boot/config-{release} nor /proc/config.gz"
            ),
            remedy: None,
        };
    };
    let missing: Vec<&str> = OPTIONS
        .into_iter()
        .filter(|o| !config.lines().any(|l| l.strip_prefix(o) == Some("=y")))
        .collect();
    let found = if missing.is_empty() {
        "all there".into()
    } else {
        format!("without {}", missing.join(", "))
    };
    check(
        "kernel options",
        missing.is_empty(),
        found,
        "build the kernel with them ('make kernel' does), and boot it",
    )
}

/// PCI functions that are the emulated GPU: their addresses, and whether the driver has them.
fn devices(root: &Path) -> Vec<(String, bool)> {
    let Ok(all) = std::fs::read_dir(root.join("sys/bus/pci/devices")) else {
        return Vec::new();
    };
    let mut found: Vec<(String, bool)> = all
        .flatten()
        .filter(|d| {
            let read = |f: &str| std::fs::read_to_string(d.path().join(f)).unwrap_or_default();
            read("vendor").trim() == "0x1af4" && read("device").trim() == "0x10f7"
        })
        .map(|d| {
            let driver = std::fs::read_link(d.path().join("driver")).ok();
            let ours = driver.is_some_and(|l| l.file_name().is_some_and(|n| n == "huvm"));
            (d.file_name().to_string_lossy().into_owned(), ours)
        })
        .collect();
    found.sort();
    found
}

/// What the driver's threads and clients wait for, if the caller may read that: a wait that is longer than its bound is a hang.
fn waits(root: &Path) -> Check {
    match std::fs::read_to_string(root.join("sys/kernel/debug/huvm/waits")) {
        Ok(text) => listed(&text),
        Err(e) => Check {
            name: "waits".into(),
            result: "unknown".into(),
            found: format!("cannot tell: /sys/kernel/debug/huvm/waits: {e}"),
            remedy: Some("run it as root, with debugfs on /sys/kernel/debug".into()),
        },
    }
}

/// What a list of waits says.
pub(crate) fn listed(text: &str) -> Check {
    // `ms bound_ms pid name what gpu number`; names may have spaces, but nothing before them.
    let waits: Vec<(u64, u64, &str)> = text
        .lines()
        .skip(1)
        .filter_map(|line| {
            let mut words = line.splitn(3, ' ');
            let waited = words.next()?.parse().ok()?;
            Some((waited, words.next()?.parse().ok()?, words.next()?))
        })
        .collect();
    let late = waits.iter().filter(|(waited, bound, _)| waited > bound);
    let longest = late.max_by_key(|(waited, ..)| *waited);
    let found = match longest {
        Some((waited, _, who)) => format!("{waited} ms: {who}"),
        None => format!("{}, none too long", waits.len()),
    };
    check(
        "waits",
        longest.is_none(),
        found,
        "see dmesg for who waits beside it; 'cat /sys/kernel/debug/huvm/waits' has all",
    )
}

/// What files tell, below `root`.
fn files(root: &Path) -> Vec<Check> {
    let mut checks = Vec::new();
    let release = first_line(&root.join("proc/sys/kernel/osrelease")).unwrap_or_default();
    checks.push(check(
        "kernel",
        release
            .strip_prefix("7.3")
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit())),
        release.clone(),
        "boot the 7.3 kernel that the module was built for ('make run' does)",
    ));
    checks.push(options(root, &release));
    let thp = first_line(&root.join("sys/kernel/mm/transparent_hugepage/enabled"))
        .unwrap_or_else(|| "not in this kernel".into());
    checks.push(check(
        "2 MiB pages",
        thp.contains('['),
        thp,
        "build the kernel with CONFIG_TRANSPARENT_HUGEPAGE",
    ));
    let gpus = devices(root);
    checks.push(check(
        "devices",
        !gpus.is_empty(),
        format!("{} on the PCI bus", gpus.len()),
        "start QEMU with -device huvm-gpu ('make run' does)",
    ));
    let modules = std::fs::read_to_string(root.join("proc/modules")).unwrap_or_default();
    let loaded = modules.lines().any(|l| l.starts_with("huvm "));
    checks.push(check(
        "module",
        loaded,
        if loaded { "loaded" } else { "not loaded" },
        "insmod huvm.ko (in the guest: /lib/huvm.ko)",
    ));
    if loaded {
        for (address, ours) in gpus {
            checks.push(check(
                &format!("device {address}"),
                ours,
                if ours {
                    "bound to huvm"
                } else {
                    "not bound to huvm"
                },
                &format!(
                    "see dmesg for the reason, then 'echo {address} > /sys/bus/pci/drivers/huvm/bind'"
                ),
            ));
        }
        checks.push(waits(root));
    }
    checks
}

/// How long a counter is watched that should not grow.
const WATCHED: Duration = Duration::from_millis(200);

/// What the driver says of one GPU.
#[derive(Default)]
struct Readings {
    info: uapi::huvm_gpu_info,
    address: String,
    health: uapi::huvm_gpu_health,
    links: Vec<uapi::huvm_link_info>,
    memory: uapi::huvm_mem_info,
    /// Overflows of its fault ring, read twice.
    overflows: Option<(u64, u64)>,
}

/// An older driver knows no reasons.
fn health(device: &Device, g: &uapi::huvm_gpu_info) -> uapi::huvm_gpu_health {
    device.gpu_health(g.gpu).unwrap_or_default()
}

fn overflows(device: &Device, gpu: u32) -> Option<u64> {
    let counters = device.counters(Scope::Gpu(gpu)).ok()?;
    counters.known(uapi::HUVM_CNT_OVERFLOWS)
}

/// Those that have a GPU at the other end that is there and not lost: the others are down for its sake.
fn between(
    links: Vec<uapi::huvm_link_info>,
    gpus: &[uapi::huvm_gpu_info],
) -> Vec<uapi::huvm_link_info> {
    let there = |l: &uapi::huvm_link_info| gpu::there(gpus, l.peer);
    links.into_iter().filter(there).collect()
}

/// What is wrong with a GPU. A line for all of it if it is as it should be, or is lost; else one for each part.
fn of_gpu(r: &Readings) -> Vec<Check> {
    let (gpu, health) = (r.info.gpu, &r.health);
    let again = format!("unbind gpu {gpu} ({}) and bind it again", r.address);
    let mut found = r.address.clone();
    let lost = r.info.state != uapi::HUVM_GPU_OK;
    if lost {
        let why = loss::why(health.lost.into(), health.lost_named.into());
        found = format!("{found}, lost: {why}");
    }
    let remedy = loss::remedy(health.lost, &r.address);
    let mut checks = vec![check(&format!("gpu {gpu}"), !lost, found, &remedy)];

    let kinds = uapi::HUVM_LATENCY_H2D..=uapi::HUVM_LATENCY_LOCAL;
    let given_up: Vec<&str> = kinds
        .filter(|k| health.given_up & 1 << k != 0)
        .map(|k| latency::kind(k.into()))
        .collect();
    if !given_up.is_empty() {
        let home = health.given_up & 1 << uapi::HUVM_LATENCY_D2H != 0;
        let instead = match home && !lost {
            true => ", the CPU makes those to the host",
            false => "",
        };
        checks.push(check(
            &format!("gpu {gpu} channels"),
            false,
            format!(
                "given up: {}; such copies fail{instead}",
                given_up.join(", ")
            ),
            &format!("see dmesg for what it waited for; {again}"),
        ));
    }

    let down: Vec<String> = r
        .links
        .iter()
        .filter(|l| l.up == 0)
        .map(|l| format!("gpu {}", l.peer))
        .collect();
    if !down.is_empty() {
        checks.push(check(
            &format!("gpu {gpu} links"),
            false,
            format!("down: to {}; copies go over the host", down.join(", ")),
            "see to the link; when it is up again it is used again",
        ));
    }

    let failed = r.memory.retired.saturating_sub(health.forfeited);
    if failed != 0 {
        checks.push(check(
            &format!("gpu {gpu} memory"),
            false,
            format!(
                "{failed} of {} chunks of 2 MiB retired: memory failed (ECC)",
                r.info.chunk_count
            ),
            "what was there alone is lost, the rest goes on; replace the GPU if they get more",
        ));
    }
    if health.forfeited != 0 {
        checks.push(check(
            &format!("gpu {gpu} lent memory"),
            false,
            format!(
                "{} of {} chunks of 2 MiB retired: the GPU that borrowed them is lost and may still write them",
                health.forfeited, r.info.chunk_count
            ),
            &format!("mend the GPU that is lost first; then {again}"),
        ));
    }

    if let Some((before, now)) = r.overflows.filter(|(_, now)| *now != 0) {
        let grows = now > before;
        let found = match now - before.min(now) {
            0 => format!("overflowed {now} times, not now; nothing was lost by it"),
            n => format!("overflowed {now} times, {n} of them just now"),
        };
        checks.push(check(
            &format!("gpu {gpu} fault ring"),
            !grows,
            found,
            "more faults at once than the ring holds: run fewer blocks, or see 'uvmctl stat' for why so many fault",
        ));
    }
    checks
}

/// What the driver tells.
fn driver(opened: std::result::Result<Device, Failure>) -> Vec<Check> {
    let device = match opened {
        Ok(d) => d,
        Err(e) => {
            let hint = match &e {
                // Its hint is to look here.
                Failure::Huvm(libhuvm::Error::NotLoaded) => {
                    Some("load it with 'insmod huvm.ko' (in the guest: /lib/huvm.ko)".into())
                }
                e => e.hint("uvmctl doctor"),
            };
            let remedy = hint.unwrap_or_else(|| "see dmesg, and load the module again".into());
            return vec![check("/dev/huvm", false, e.to_string(), &remedy)];
        }
    };
    let version = device.driver_version().unwrap_or_default();
    let mut checks = vec![check("/dev/huvm", true, format!("driver {version}"), "")];
    match device.gpus() {
        Ok(gpus) => {
            let first: Vec<_> = gpus.iter().map(|g| overflows(&device, g.gpu)).collect();
            // What goes wrong all the time does so now.
            std::thread::sleep(WATCHED);
            for (g, first) in gpus.iter().zip(first) {
                checks.extend(of_gpu(&Readings {
                    address: Device::pci_name(g),
                    health: health(&device, g),
                    links: between(device.links(g.gpu).unwrap_or_default(), &gpus),
                    memory: device.mem_info(g.gpu).unwrap_or_default(),
                    overflows: first.zip(overflows(&device, g.gpu)),
                    info: *g,
                }));
            }
        }
        Err(e) => checks.push(check(
            "gpus",
            false,
            e.to_string(),
            "see dmesg, then unload the module and load it again",
        )),
    }
    checks
}

pub(super) fn run(out: &Out) -> Result<()> {
    let checks = match out
        .saved::<Vec<Check>>("doctor")?
        .and_then(|mut all| all.pop())
    {
        Some(last) => out.adopt(last),
        None => {
            let mut checks = files(Path::new("/"));
            checks.extend(driver(out.device()));
            checks
        }
    };
    let failed = match checks.iter().filter(|c| c.failed()).count() {
        0 => None,
        n => Some(Failure::Checks(n)),
    };
    out.list_failed("doctor", &checks, failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Table;
    use std::path::PathBuf;

    /// A folder that is gone after the test.
    struct Root(PathBuf);

    impl Root {
        fn new(name: &str) -> Self {
            let dir =
                std::env::temp_dir().join(format!("uvmctl-doctor-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&dir).unwrap();
            Root(dir)
        }

        fn file(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn result<'a>(checks: &'a [Check], name: &str) -> &'a str {
        &checks.iter().find(|c| c.name == name).unwrap().result
    }

    #[test]
    fn each_failed_line_says_what_to_do() {
        let root = Root::new("empty");
        let mut checks = files(&root.0);
        checks.extend(driver(Err(Failure::Huvm(libhuvm::Error::NotLoaded))));
        checks.extend(driver(Err(Failure::File("odd".into()))));
        for name in ["kernel", "2 MiB pages", "devices", "module", "/dev/huvm"] {
            assert_eq!(result(&checks, name), "failed", "{name}");
        }
        for c in &checks {
            assert_eq!(c.failed(), c.remedy.is_some(), "{}", c.name);
            assert_ne!(c.remedy.as_deref(), Some(""), "{}", c.name);
            let here = c.remedy.as_ref().is_some_and(|r| r.contains("doctor"));
            assert!(!here, "{}: {:?}", c.name, c.remedy);
        }
    }

    /// What is to be typed is of no use if its end is cut off.
    #[test]
    fn remedies_are_whole_on_a_narrow_terminal() {
        let root = Root::new("narrow");
        let mut checks = files(&root.0);
        let mut lost = Readings {
            address: "0000:00:03.0".into(),
            ..Default::default()
        };
        for reason in [uapi::HUVM_LOST_GONE, uapi::HUVM_LOST_CHANNEL] {
            lost.health.lost = reason;
            checks.extend(of_gpu(&lost));
        }
        let whole = |columns: usize| {
            let text = Table::of(&checks, None, false).render(true, Some(columns));
            assert!(!text.contains('…'), "{text}");
            assert!(text.lines().all(|l| l.len() <= columns), "{text}");
            let at = text.find("WHAT TO DO").unwrap();
            let last: String = text.lines().skip(1).filter_map(|l| l.get(at..)).collect();
            let told = checks.iter().map(|c| c.remedy.as_deref().unwrap_or("-"));
            let bare = |t: String| t.replace(' ', "");
            assert_eq!(bare(last), bare(told.collect()), "{text}");
        };
        for columns in [60, 80, 120, 400] {
            whole(columns);
        }
    }

    #[test]
    fn a_wait_beyond_its_bound_is_a_failed_check() {
        let root = Root::new("waits");
        let file = |lines: &str| {
            let text = format!("ms bound_ms pid name what gpu number\n{lines}");
            root.file("sys/kernel/debug/huvm/waits", &text);
            waits(&root.0)
        };
        let none = file("");
        assert_eq!(
            (none.result.as_str(), none.found.as_str()),
            ("ok", "0, none too long")
        );
        let one = file("12 10000 77 huvm-fault/0 copy 0 3\n");
        assert_eq!(
            (one.result.as_str(), one.found.as_str()),
            ("ok", "1, none too long")
        );
        let late = file("12 10000 77 a b copy 0 3\n10001 10000 78 job launch 1 5\nodd\n");
        assert!(late.failed());
        assert_eq!(late.found, "10001 ms: 78 job launch 1 5");
        let unread = waits(Path::new("/nonexistent"));
        assert_eq!(unread.result, "unknown");
        assert!(
            unread.found.starts_with("cannot tell: "),
            "{}",
            unread.found
        );
    }

    /// The checks of a GPU that failed: what they found, and what to do.
    fn bad(r: &Readings) -> Vec<(String, String, String)> {
        of_gpu(r)
            .into_iter()
            .filter(Check::failed)
            .map(|c| (c.name, c.found, c.remedy.unwrap_or_default()))
            .collect()
    }

    #[test]
    fn a_link_that_leads_nowhere_is_not_down() {
        let gpu = |gpu, state| uapi::huvm_gpu_info {
            gpu,
            state,
            ..Default::default()
        };
        let gpus = [gpu(0, uapi::HUVM_GPU_OK), gpu(1, uapi::HUVM_GPU_LOST)];
        let links = (0..3).map(|peer| uapi::huvm_link_info {
            peer,
            ..Default::default()
        });
        let left = between(links.collect(), &gpus);
        assert_eq!(left.iter().map(|l| l.peer).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn what_failed_of_a_gpu_is_named_with_its_cause() {
        let mut r = Readings {
            address: "0000:00:03.0".into(),
            ..Default::default()
        };
        (r.info.gpu, r.info.state, r.info.chunk_count) = (1, uapi::HUVM_GPU_OK, 32);
        r.links.push(uapi::huvm_link_info {
            peer: 2,
            up: 1,
            ..Default::default()
        });
        r.overflows = Some((4, 4));
        assert!(bad(&r).is_empty());
        assert_eq!(result(&of_gpu(&r), "gpu 1"), "ok");
        let ring = of_gpu(&r).pop().unwrap();
        assert!(ring.found.contains("4 times, not now"), "{}", ring.found);

        r.health.given_up = 1 << uapi::HUVM_LATENCY_D2H | 1 << uapi::HUVM_LATENCY_LOCAL;
        r.links[0].up = 0;
        (r.memory.retired, r.health.forfeited) = (5, 2);
        r.overflows = Some((4, 6));
        let all = bad(&r);
        for ((name, found, remedy), (n, f, todo)) in all.iter().zip([
            (
                "gpu 1 channels",
                "gpu-to-host, local; such copies fail, the CPU makes",
                "bind it again",
            ),
            ("gpu 1 links", "to gpu 2;", "when it is up"),
            ("gpu 1 memory", "3 of 32 chunks", "replace the GPU"),
            (
                "gpu 1 lent memory",
                "2 of 32 chunks",
                "mend the GPU that is lost",
            ),
            (
                "gpu 1 fault ring",
                "6 times, 2 of them just now",
                "fewer blocks",
            ),
        ]) {
            assert_eq!(name, n);
            assert!(found.contains(f), "{found}");
            assert!(remedy.contains(todo), "{remedy}");
        }
        assert_eq!(all.len(), 5);

        let mut lost = Readings {
            address: "0000:00:03.0".into(),
            ..Default::default()
        };
        lost.info.state = uapi::HUVM_GPU_LOST;
        for (reason, cause, todo) in [
            (uapi::HUVM_LOST_NONE, "does not say why", "unbind"),
            (uapi::HUVM_LOST_GONE, "off the bus", "reset the machine"),
            (uapi::HUVM_LOST_REPLAY, "replay of faults", "huvm/bind"),
            (uapi::HUVM_LOST_CHANNEL, "with channel 9", "huvm/bind"),
        ] {
            (lost.health.lost, lost.health.lost_named) = (reason, 9);
            let all = bad(&lost);
            let [(name, found, remedy)] = &all[..] else {
                panic!("{} checks failed", all.len());
            };
            assert_eq!(name, "gpu 0");
            assert!(found.starts_with("0000:00:03.0, lost: "), "{found}");
            assert!(found.contains(cause), "{found}");
            assert!(remedy.contains(todo), "{remedy}");
            assert!(remedy.contains("0000:00:03.0"), "{remedy}");
        }
    }

    #[test]
    fn a_good_machine_passes_and_an_unbound_device_is_named() {
        let root = Root::new("good");
        root.file("proc/sys/kernel/osrelease", "7.3.4\n");
        root.file(
            "sys/kernel/mm/transparent_hugepage/enabled",
            "always [madvise] never\n",
        );
        root.file("proc/modules", "other 1\nhuvm 1 0 - Live\n");
        for (n, device) in [("0000:00:02.0", "0x10f7"), ("0000:00:03.0", "0x1000")] {
            root.file(&format!("sys/bus/pci/devices/{n}/vendor"), "0x1af4\n");
            root.file(&format!("sys/bus/pci/devices/{n}/device"), device);
        }
        let all: String = OPTIONS.iter().map(|o| format!("{o}=y\n")).collect();
        root.file("boot/config-7.3.4", &all);
        let checks = files(&root.0);
        for name in [
            "kernel",
            "kernel options",
            "2 MiB pages",
            "devices",
            "module",
        ] {
            assert_eq!(result(&checks, name), "ok", "{name}");
        }
        assert_eq!(result(&checks, "device 0000:00:02.0"), "failed");
        // Which nobody may read here.
        assert_eq!(result(&checks, "waits"), "unknown");
        assert_eq!(checks.len(), 7);

        std::os::unix::fs::symlink(
            "../../drivers/huvm",
            root.0.join("sys/bus/pci/devices/0000:00:02.0/driver"),
        )
        .unwrap();
        assert_eq!(result(&files(&root.0), "device 0000:00:02.0"), "ok");

        root.file(
            "boot/config-7.3.4",
            &all.replace("CONFIG_RUST=y", "# CONFIG_RUST is not set"),
        );
        let checks = files(&root.0);
        let options = checks.iter().find(|c| c.name == "kernel options").unwrap();
        assert_eq!(
            (options.result.as_str(), options.found.as_str()),
            ("failed", "without CONFIG_RUST")
        );
    }
}
