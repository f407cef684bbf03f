// SPDX-License-Identifier: GPL-2.0
//! `inject`: faults of an emulated GPU, through the driver's calls for tests.

use super::gpu;
use super::policy::{tell, Change};
use crate::cli::{Inject, Injection};
use crate::exit::{Failure, Result};
use crate::out::Out;
use clap::ValueEnum;
use libhuvm::{uapi, Device, Error};
use rustix::io::Errno;

/// Register of the INJECT block (Documentation/device.md 2.6), and its largest value.
fn register(kind: Injection) -> (u32, u32) {
    const INJECT: u32 = 0x50000;
    let (offset, max) = match kind {
        Injection::FaultDelayNs => (0x04, 1_000_000),
        Injection::FaultReorderPermille => (0x08, 1000),
        Injection::FaultDuplicatePermille => (0x0c, 1000),
        Injection::FaultOverflow => (0x10, u32::MAX),
        Injection::CopyFault => (0x14, u32::MAX),
        Injection::CopyHang => (0x18, u32::MAX),
        Injection::LinksDown => (0x1c, u32::MAX),
        Injection::GpuGone => (0x20, GONE),
        Injection::InterruptsLost => (0x24, u32::MAX),
        Injection::CacheMisses => (0x28, 1),
        Injection::Seed => (0x2c, u32::MAX),
        Injection::CopyDelayNs => (0x30, u32::MAX),
        Injection::PageFails => (0x34, u32::MAX),
        Injection::PageReported => (0x38, 0x3fff_ffff),
        Injection::CommandHang => (0x3c, u32::MAX),
        Injection::CopyStall => (0x40, u32::MAX),
        Injection::FaultLost => (0x44, u32::MAX),
        Injection::FaultBad => (0x48, u32::MAX),
        Injection::FaultNeverValid => (0x4c, u32::MAX),
        Injection::CopyFaultOverflow => (0x50, u32::MAX),
        Injection::FaultGetCorrupt => (0x54, u32::MAX),
        Injection::SemaphoreLost => (0x58, u32::MAX),
        Injection::SemaphoreWrong => (0x5c, u32::MAX),
        Injection::InterruptStorm => (0x60, 0x3fff_ffff),
        Injection::CopyFaultEach => (0x64, u32::MAX),
        Injection::FaultPutWrong => (0x68, u32::MAX),
        Injection::ReadsOnes => (0x6c, u32::MAX),
        Injection::WritesLost => (0x70, u32::MAX),
        Injection::StatusWrong => (0x74, u32::MAX),
        Injection::StandsSays => (0x78, u32::MAX),
        Injection::SemaphoreBack => (0x7c, u32::MAX),
        Injection::FlagLatePermille => (0x80, 1000),
        Injection::InvalidateLateNs => (0x84, 1_000_000),
    };
    (INJECT + offset, max)
}

/// What makes a GPU fall off the bus.
const GONE: u32 = 0xdead;

/// The value to write; `None` to look only.
fn wanted(kind: Injection, value: Option<u32>, max: u32) -> Result<Option<u32>> {
    match (kind, value) {
        (Injection::GpuGone, None) => Ok(Some(GONE)),
        (Injection::GpuGone, Some(_)) => Err(Failure::Usage("gpu-gone takes no value".into())),
        (_, Some(v)) if v > max => Err(Failure::Usage(format!("{v} is more than {max}"))),
        (_, v) => Ok(v),
    }
}

/// Whether the driver has its calls for tests.
///
/// # Errors
/// Not supported, if it has not.
pub(super) fn for_tests(device: &Device) -> Result<()> {
    has_tests(device.version()?.caps)
}

fn has_tests(caps: u64) -> Result<()> {
    if caps & u64::from(uapi::HUVM_CAP_TEST) != 0 {
        return Ok(());
    }
    Err(Failure::NotSupported(
        "the module was not loaded for tests".into(),
        "on a machine that may fail: 'rmmod huvm', then 'insmod huvm.ko test=1' (in the guest: /lib/huvm.ko)".into(),
    ))
}

pub(super) fn run(out: &Out, i: &Inject) -> Result<()> {
    let (offset, max) = register(i.kind);
    let value = wanted(i.kind, i.value, max)?;
    let device = out.device()?;
    for_tests(&device)?;
    let index = gpu::index(&device, &i.gpu)?;
    let old = device.test_register(index, offset, None)?;
    // What is off the bus reads as all ones, and hears nothing.
    if old == u32::MAX && device.gpu_info(index)?.state != uapi::HUVM_GPU_OK {
        return Err(Failure::Huvm(Error::Os {
            what: format!("gpu {index} does not answer"),
            errno: Errno::IO.raw_os_error(),
        }));
    }
    if let Some(v) = value.filter(|_| !i.dry_run) {
        device.test_register(index, offset, Some(v))?;
    }
    let name = i.kind.to_possible_value();
    let change = Change {
        scope: format!("gpu{index}"),
        name: name.map_or_else(String::new, |n| n.get_name().to_owned()),
        from: old.to_string(),
        to: value.unwrap_or(old).to_string(),
        done: value.is_some() && !i.dry_run,
    };
    if value.is_none() {
        let text = format!("{} {}: {old}\n", change.scope, change.name);
        let change = [change];
        return out.show("inject", &change, &change, || text);
    }
    tell(out, "inject", &[change], !i.dry_run, Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the driver and the model have the registers.
    const EXT: &str = include_str!("../../../../drivers/hw/src/ext.rs");

    /// The registers of the block.
    fn registers() -> Vec<u32> {
        let block = EXT.split("pub mod inject {").nth(1).unwrap();
        let block = block.split("\n}\n").next().unwrap();
        let offsets = block.lines().filter_map(|l| l.split_once("= BASE + 0x"));
        offsets
            .map(|(_, hex)| 0x50000 + u32::from_str_radix(hex.trim_end_matches(';'), 16).unwrap())
            .collect()
    }

    #[test]
    fn every_kind_has_a_register_of_its_own() {
        let mut all: Vec<u32> = Injection::value_variants()
            .iter()
            .map(|k| register(*k).0)
            .collect();
        all.sort_unstable();
        // Every register of the block, and each once.
        assert!(all.len() > 20);
        assert_eq!(all, registers());
    }

    #[test]
    fn a_module_without_tests_is_told_by_its_capabilities() {
        let test = u64::from(uapi::HUVM_CAP_TEST);
        assert!(has_tests(test).is_ok() && has_tests(u64::MAX).is_ok());
        for without in [0, !test] {
            let refused = has_tests(without).unwrap_err();
            assert_eq!(
                (refused.code(), refused.hint("inject").is_some()),
                (3, true)
            );
        }
    }

    #[test]
    fn values_are_checked() {
        let check = |k, v| wanted(k, v, register(k).1).map_err(|e| e.code());
        assert_eq!(check(Injection::GpuGone, None), Ok(Some(0xdead)));
        assert_eq!(check(Injection::GpuGone, Some(1)), Err(2));
        assert_eq!(check(Injection::CopyHang, None), Ok(None));
        assert_eq!(check(Injection::FaultReorderPermille, Some(1001)), Err(2));
        assert_eq!(
            check(Injection::FaultReorderPermille, Some(1000)),
            Ok(Some(1000))
        );
    }
}
