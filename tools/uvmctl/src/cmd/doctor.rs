// SPDX-License-Identifier: GPL-2.0
//! `doctor`: what is wrong with this machine's set-up, and what to do.

use crate::exit::{Failure, Result};
use crate::out::{Out, Table};
use libhuvm::Device;
use serde::Serialize;

#[derive(Serialize)]
struct Check {
    name: String,
    ok: bool,
    found: String,
    remedy: Option<&'static str>,
}

fn check(name: &str, ok: bool, found: impl Into<String>, remedy: &'static str) -> Check {
    Check {
        name: name.into(),
        ok,
        found: found.into(),
        remedy: (!ok).then_some(remedy),
    }
}

fn first_line(path: &str) -> Option<String> {
    Some(
        std::fs::read_to_string(path)
            .ok()?
            .lines()
            .next()?
            .to_owned(),
    )
}

/// PCI functions that are the emulated GPU.
fn devices() -> usize {
    let Ok(all) = std::fs::read_dir("/sys/bus/pci/devices") else {
        return 0;
    };
    all.flatten()
        .filter(|d| {
            let read = |f: &str| std::fs::read_to_string(d.path().join(f)).unwrap_or_default();
            read("vendor").trim() == "0x1af4" && read("device").trim() == "0x10f7"
        })
        .count()
}

pub(super) fn run(out: &Out) -> Result<()> {
    let mut checks = Vec::new();
    let release = first_line("/proc/sys/kernel/osrelease").unwrap_or_default();
    checks.push(check(
        "kernel",
        release.starts_with("7.3"),
        release.clone(),
        "boot the 7.3 kernel that the module was built for",
    ));
    let n = devices();
    checks.push(check(
        "devices",
        n != 0,
        format!("{n} GPUs on the PCI bus"),
        "start QEMU with -device huvm-gpu (make run does)",
    ));
    let modules = std::fs::read_to_string("/proc/modules").unwrap_or_default();
    let loaded = modules.lines().any(|l| l.starts_with("huvm "));
    checks.push(check(
        "module",
        loaded,
        if loaded { "loaded" } else { "not loaded" },
        "insmod huvm.ko",
    ));
    let thp = first_line("/sys/kernel/mm/transparent_hugepage/enabled")
        .unwrap_or_else(|| "not in this kernel".into());
    checks.push(check(
        "2 MiB pages",
        thp.contains('['),
        thp,
        "build the kernel with CONFIG_TRANSPARENT_HUGEPAGE",
    ));
    match Device::open() {
        Ok(d) => {
            checks.push(check(
                "/dev/huvm",
                true,
                format!("driver {}", d.driver_version()?),
                "",
            ));
            for g in d.gpus()? {
                let ok = g.state == libhuvm::uapi::HUVM_GPU_OK;
                let name = format!("gpu {}", g.gpu);
                checks.push(check(
                    &name,
                    ok,
                    Device::pci_name(&g),
                    "the GPU was lost: see dmesg, then remove and rescan it",
                ));
            }
        }
        Err(e) => checks.push(check(
            "/dev/huvm",
            false,
            e.to_string(),
            "load the module; check the node's permissions",
        )),
    }
    out.table("doctor", &checks, || {
        let mut t = Table::new(&["CHECK", "RESULT", "FOUND", "WHAT TO DO"]);
        for c in &checks {
            t.row(vec![
                c.name.clone(),
                if c.ok { "ok" } else { "FAILED" }.into(),
                c.found.clone(),
                c.remedy.unwrap_or("-").into(),
            ]);
        }
        t
    });
    match checks.iter().filter(|c| !c.ok).count() {
        0 => Ok(()),
        n => Err(Failure::Wrong(format!("{n} checks failed"))),
    }
}
