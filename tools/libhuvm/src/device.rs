// SPDX-License-Identifier: GPL-2.0
//! An open `/dev/huvm`, and every call that looks or sets.

use crate::error::{Error, Result};
use crate::space::Space;
use crate::sys;
use crate::uapi;
use std::fs::File;
use std::sync::Arc;

/// A place for pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Host memory.
    Host,
    /// The memory of the GPU with this index.
    Gpu(u32),
}

impl Place {
    /// The value in `uapi/huvm.h`.
    pub fn raw(self) -> u32 {
        match self {
            Place::Host => uapi::HUVM_PLACE_HOST,
            Place::Gpu(i) => i,
        }
    }
}

/// Whose counters or policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Of the whole driver.
    Global,
    /// Of a GPU.
    Gpu(u32),
    /// Of this open file.
    Space,
    /// Of every open file of the process with this id.
    Process(u32),
}

impl Scope {
    fn raw(self) -> (u32, u32) {
        match self {
            Scope::Global => (uapi::HUVM_SCOPE_GLOBAL, 0),
            Scope::Gpu(i) => (uapi::HUVM_SCOPE_GPU, i),
            Scope::Space => (uapi::HUVM_SCOPE_SPACE, 0),
            Scope::Process(pid) => (uapi::HUVM_SCOPE_PROCESS, pid),
        }
    }
}

/// A policy knob.
#[derive(Clone, Debug)]
pub struct Knob {
    /// Number.
    pub index: u32,
    /// Name.
    pub name: String,
    /// Unit; empty for a switch or a choice.
    pub unit: String,
    /// What it does.
    pub doc: String,
    /// Names of the values from `min` on, for a choice.
    pub choices: Vec<String>,
    /// Smallest value.
    pub min: u64,
    /// Largest value.
    pub max: u64,
    /// Default.
    pub default: u64,
    /// Bit `1 << HUVM_SCOPE_*` for each scope that can have a value of its own; 0 if the driver does not say.
    pub scopes: u32,
}

impl Knob {
    /// The value as people write it.
    pub fn show(&self, value: u64) -> String {
        usize::try_from(value.saturating_sub(self.min))
            .ok()
            .and_then(|i| self.choices.get(i))
            .cloned()
            .unwrap_or_else(|| value.to_string())
    }

    /// Reads what people write.
    pub fn parse(&self, text: &str) -> Option<u64> {
        match self.choices.iter().position(|c| c == text) {
            Some(i) => self.min.checked_add(u64::try_from(i).ok()?),
            None => text.parse().ok(),
        }
    }
}

/// Counters of a scope, by `HUVM_CNT_*` index.
#[derive(Clone, Debug)]
pub struct Counters {
    /// Values; a driver older than this library has fewer.
    pub values: Vec<u64>,
    /// CLOCK_MONOTONIC at the reading.
    pub time_ns: u64,
}

impl Counters {
    /// The value of a counter; 0 if the driver lacks it.
    pub fn get(&self, counter: u32) -> u64 {
        self.known(counter).unwrap_or(0)
    }

    /// The value of a counter; `None` if the driver lacks it.
    pub fn known(&self, counter: u32) -> Option<u64> {
        let at = usize::try_from(counter).ok()?;
        self.values.get(at).copied()
    }

    /// What was added since `before`, an earlier reading of the same scope; `time_ns` is the time between the two. To a counter
    /// that has less than before, as the process closed a file, or the GPU was bound again, nothing was.
    #[must_use]
    pub fn since(&self, before: &Counters) -> Counters {
        let old = before.values.iter().copied().chain(std::iter::repeat(0));
        Counters {
            values: self
                .values
                .iter()
                .zip(old)
                .map(|(now, old)| now.saturating_sub(old))
                .collect(),
            time_ns: self.time_ns.saturating_sub(before.time_ns),
        }
    }
}

/// Whether a call was allowed, of its answer.
fn allowed<T>(answer: Result<T>) -> Result<bool> {
    match answer {
        Ok(_) => Ok(true),
        Err(e) if e.errno() == Some(libc::EPERM) => Ok(false),
        Err(e) => Err(e),
    }
}

/// An open `/dev/huvm`: one address space.
#[derive(Clone, Debug)]
pub struct Device {
    pub(crate) space: Arc<Space>,
}

impl Device {
    /// Opens `/dev/huvm` and checks that it speaks this library's interface.
    ///
    /// # Errors
    /// [`Error::NotLoaded`], [`Error::NotPermitted`], [`Error::Abi`], [`Error::Os`].
    pub fn open() -> Result<Device> {
        Self::open_at("/dev/huvm")
    }

    /// As [`Self::open`], for a node elsewhere.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_at(path: &str) -> Result<Device> {
        let file = File::options()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|e| match e.raw_os_error() {
                Some(libc::ENOENT | libc::ENXIO) => Error::NotLoaded,
                Some(libc::EACCES | libc::EPERM) => Error::NotPermitted,
                other => Error::Os {
                    what: format!("opening {path}"),
                    errno: other.unwrap_or(libc::EIO),
                },
            })?;
        let device = Device {
            space: Arc::new(Space::new(file)),
        };
        let v = device.version()?;
        if v.abi_major != uapi::HUVM_ABI_MAJOR {
            return Err(Error::Abi {
                driver: v.abi_major,
                library: uapi::HUVM_ABI_MAJOR,
            });
        }
        Ok(device)
    }

    fn ask<T: sys::Argument>(&self, mut arg: T, what: &str) -> Result<T> {
        // SAFETY: the structs that come this way have no address in them.
        unsafe { sys::call(&self.space.file, &mut arg, what) }?;
        Ok(arg)
    }

    /// Versions and counts.
    ///
    /// # Errors
    /// [`Error::Os`], as for every call below.
    pub fn version(&self) -> Result<uapi::huvm_version> {
        self.ask(uapi::huvm_version::default(), "asking for the version")
    }

    /// Driver version as text.
    ///
    /// # Errors
    /// As [`Self::version`].
    pub fn driver_version(&self) -> Result<String> {
        Ok(sys::text(&self.version()?.driver))
    }

    /// A GPU's properties.
    ///
    /// # Errors
    /// `ENODEV`.
    pub fn gpu_info(&self, gpu: u32) -> Result<uapi::huvm_gpu_info> {
        let arg = uapi::huvm_gpu_info {
            gpu,
            ..Default::default()
        };
        self.ask(arg, &format!("asking for GPU {gpu}"))
    }

    /// PCI address of a GPU.
    pub fn pci_name(info: &uapi::huvm_gpu_info) -> String {
        sys::text(&info.pci)
    }

    /// All GPUs, in order of index.
    ///
    /// # Errors
    /// As [`Self::gpu_info`].
    pub fn gpus(&self) -> Result<Vec<uapi::huvm_gpu_info>> {
        let n = self.version()?.gpu_count;
        let mut all = Vec::new();
        for i in 0..n {
            match self.gpu_info(i) {
                Ok(g) => all.push(g),
                Err(e) if e.errno() == Some(libc::ENODEV) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(all)
    }

    /// The links of a GPU.
    ///
    /// # Errors
    /// `ENODEV`, `EIO`.
    pub fn links(&self, gpu: u32) -> Result<Vec<uapi::huvm_link_info>> {
        let n = self.gpu_info(gpu)?.link_count;
        (0..n)
            .map(|index| {
                let arg = uapi::huvm_link_info {
                    gpu,
                    index,
                    ..Default::default()
                };
                self.ask(arg, &format!("asking for link {index} of GPU {gpu}"))
            })
            .collect()
    }

    /// Chunks of a GPU by state.
    ///
    /// # Errors
    /// `ENODEV`.
    pub fn mem_info(&self, gpu: u32) -> Result<uapi::huvm_mem_info> {
        let arg = uapi::huvm_mem_info {
            gpu,
            ..Default::default()
        };
        self.ask(arg, &format!("asking for the memory of GPU {gpu}"))
    }

    /// What a GPU lends, and to whom.
    ///
    /// # Errors
    /// `ENODEV`; `ENOTTY` from a driver older than interface 1.1.
    pub fn lend_info(&self, gpu: u32) -> Result<uapi::huvm_lend_info> {
        let arg = uapi::huvm_lend_info {
            gpu,
            ..Default::default()
        };
        self.ask(arg, &format!("asking what GPU {gpu} lends"))
    }

    /// What of a GPU is out of service, and why.
    ///
    /// # Errors
    /// `ENODEV`; `ENOTTY` from a driver older than interface 1.3.
    pub fn gpu_health(&self, gpu: u32) -> Result<uapi::huvm_gpu_health> {
        let arg = uapi::huvm_gpu_health {
            gpu,
            ..Default::default()
        };
        self.ask(arg, &format!("asking how GPU {gpu} is"))
    }

    /// Registers a GPU with this space.
    ///
    /// # Errors
    /// `ENODEV`, `EEXIST`, `EIO`, `ENOSPC`.
    pub fn register(&self, gpu: u32) -> Result<()> {
        let arg = uapi::huvm_gpu_register {
            gpu,
            ..Default::default()
        };
        self.ask(arg, &format!("registering GPU {gpu}")).map(|_| ())
    }

    /// Takes a GPU out of this space again.
    ///
    /// # Errors
    /// `ENOENT`, `ENOMEM`.
    pub fn unregister(&self, gpu: u32) -> Result<()> {
        let mut arg = uapi::huvm_gpu_register {
            gpu,
            ..Default::default()
        };
        // SAFETY: no address in the struct.
        unsafe {
            sys::call_nr(
                &self.space.file,
                0x11,
                &mut arg,
                &format!("unregistering GPU {gpu}"),
            )
        }
    }

    /// Reads the counters of a scope.
    ///
    /// # Errors
    /// `ENODEV`, `EPERM`.
    pub fn counters(&self, scope: Scope) -> Result<Counters> {
        let (scope, gpu) = scope.raw();
        let mut values = vec![0u64; uapi::HUVM_CNT_COUNT as usize];
        let mut arg = uapi::huvm_counters {
            scope,
            gpu,
            nr: uapi::HUVM_CNT_COUNT,
            values: values.as_mut_ptr() as u64,
            ..Default::default()
        };
        // SAFETY: `values` names a buffer of `nr` counters that lives through the call.
        unsafe { sys::call(&self.space.file, &mut arg, "reading counters") }?;
        values.truncate(arg.nr as usize);
        Ok(Counters {
            values,
            time_ns: arg.time_ns,
        })
    }

    /// How long things of a kind (`HUVM_LATENCY_*`) took, of all GPUs or of one.
    ///
    /// # Errors
    /// `ENODEV`; `ENOENT` for a kind that the driver does not know; `EINVAL` for [`Scope::Space`]; `ENOTTY` from a driver
    /// older than interface 1.1.
    pub fn latency(&self, scope: Scope, kind: u32) -> Result<uapi::huvm_latency> {
        let (scope, gpu) = scope.raw();
        let arg = uapi::huvm_latency {
            scope,
            gpu,
            kind,
            ..Default::default()
        };
        self.ask(arg, "reading latencies")
    }

    /// All knobs.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn knobs(&self) -> Result<Vec<Knob>> {
        let n = self.version()?.nr_knobs;
        (0..n)
            .map(|index| {
                let k = self.ask(
                    uapi::huvm_knob {
                        index,
                        ..Default::default()
                    },
                    "listing knobs",
                )?;
                let choices = sys::text(&k.value_names);
                Ok(Knob {
                    index,
                    name: sys::text(&k.name),
                    unit: sys::text(&k.unit),
                    doc: sys::text(&k.doc),
                    choices: choices
                        .split(',')
                        .filter(|c| !c.is_empty())
                        .map(str::to_owned)
                        .collect(),
                    min: k.min,
                    max: k.max,
                    default: k.def,
                    scopes: k.scopes,
                })
            })
            .collect()
    }

    /// A knob's value in force in a scope (of a process: in its first open file), and the scope it comes from (`HUVM_SCOPE_*`).
    ///
    /// # Errors
    /// `ENOENT`, `ENODEV`.
    pub fn policy(&self, scope: Scope, knob: u32) -> Result<(u64, u32)> {
        let (scope, gpu) = scope.raw();
        let arg = uapi::huvm_policy {
            scope,
            gpu,
            knob,
            ..Default::default()
        };
        let p = self.ask(arg, "reading a knob")?;
        Ok((p.value, p.origin))
    }

    /// Sets a knob.
    ///
    /// # Errors
    /// `ENOENT`, `ERANGE`, `EPERM`, `ESRCH`; `EOPNOTSUPP` for a knob of a GPU as a whole in a process.
    pub fn set_policy(&self, scope: Scope, knob: u32, value: u64) -> Result<()> {
        let (scope, gpu) = scope.raw();
        let mut arg = uapi::huvm_policy {
            scope,
            gpu,
            knob,
            value,
            ..Default::default()
        };
        // SAFETY: no address in the struct.
        unsafe { sys::call_nr(&self.space.file, 0x22, &mut arg, "setting a knob") }
    }

    /// Forgets a knob's value in a scope, or (`None`) those of all knobs: then the wider scope's counts.
    ///
    /// # Errors
    /// As [`Self::set_policy`]; `EINVAL` from a driver older than interface 1.1.
    pub fn reset_policy(&self, scope: Scope, knob: Option<u32>) -> Result<()> {
        let (scope, gpu) = scope.raw();
        let flags = uapi::HUVM_POLICY_RESET;
        match knob {
            Some(knob) => {
                let mut arg = uapi::huvm_policy {
                    flags,
                    scope,
                    gpu,
                    knob,
                    ..Default::default()
                };
                // SAFETY: no address in the struct.
                unsafe { sys::call_nr(&self.space.file, 0x22, &mut arg, "resetting a knob") }
            }
            None => {
                let mut arg = uapi::huvm_preset {
                    flags,
                    scope,
                    gpu,
                    ..Default::default()
                };
                // SAFETY: no address in the struct.
                unsafe { sys::call_nr(&self.space.file, 0x24, &mut arg, "resetting the policy") }
            }
        }
    }

    /// The presets: name and what each stands for.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn presets(&self) -> Result<Vec<(String, String)>> {
        let mut all = Vec::new();
        for index in 0.. {
            let arg = uapi::huvm_preset {
                flags: uapi::HUVM_PRESET_LIST,
                index,
                ..Default::default()
            };
            match self.ask(arg, "listing presets") {
                Ok(p) => all.push((sys::text(&p.name), sys::text(&p.doc))),
                Err(e) if e.errno() == Some(libc::ENOENT) => break,
                Err(e) => return Err(e),
            }
        }
        Ok(all)
    }

    /// Name of the preset in force in a scope, "custom" if knobs were changed.
    ///
    /// # Errors
    /// `ENODEV`.
    pub fn preset(&self, scope: Scope) -> Result<String> {
        let (scope, gpu) = scope.raw();
        let p = self.ask(
            uapi::huvm_preset {
                scope,
                gpu,
                ..Default::default()
            },
            "asking for the preset",
        )?;
        Ok(sys::text(&p.name))
    }

    /// Sets all knobs to a preset's.
    ///
    /// # Errors
    /// `ENOENT`, `EPERM`.
    pub fn set_preset(&self, scope: Scope, name: &str) -> Result<()> {
        let (scope, gpu) = scope.raw();
        let mut arg = uapi::huvm_preset {
            scope,
            gpu,
            ..Default::default()
        };
        if !sys::put_text(&mut arg.name, name) {
            return Err(Error::Argument(format!(
                "'{name}' is too long for a preset's name"
            )));
        }
        // SAFETY: no address in the struct.
        unsafe {
            sys::call_nr(
                &self.space.file,
                0x24,
                &mut arg,
                &format!("choosing the preset '{name}'"),
            )
        }
    }

    /// All clients: open files of all processes.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn clients(&self) -> Result<Vec<uapi::huvm_client_info>> {
        let mut all = Vec::new();
        let mut client = 0;
        loop {
            match self.ask(
                uapi::huvm_client_info {
                    client,
                    ..Default::default()
                },
                "listing clients",
            ) {
                Ok(c) => {
                    client = c.client + 1;
                    all.push(c);
                }
                Err(e) if e.errno() == Some(libc::ENOENT) => return Ok(all),
                Err(e) => return Err(e),
            }
        }
    }

    /// Whether the caller may see a client's blocks, and its figures: those of others are 0 without CAP_SYS_ADMIN.
    ///
    /// # Errors
    /// `ENOENT`.
    pub fn may_see(&self, client: u64) -> Result<bool> {
        // The driver has one rule for both, and only here says so. For no blocks it looks at nothing.
        allowed(self.blocks(client, 0, 0))
    }

    /// Name of a client's process.
    pub fn client_name(c: &uapi::huvm_client_info) -> String {
        sys::text(&c.comm)
    }

    /// Where the blocks of a client are, from `va` on, `max` at most.
    ///
    /// # Errors
    /// `ENOENT`, `EPERM`.
    pub fn blocks(&self, client: u64, va: u64, max: u32) -> Result<Vec<uapi::huvm_block_info>> {
        let mut blocks = vec![uapi::huvm_block_info::default(); max.min(4096) as usize];
        let mut arg = uapi::huvm_range_info {
            client,
            va,
            nr: blocks.len() as u32,
            blocks: blocks.as_mut_ptr() as u64,
            ..Default::default()
        };
        // SAFETY: `blocks` names a buffer of `nr` records that lives through the call.
        unsafe { sys::call(&self.space.file, &mut arg, "asking for blocks") }?;
        blocks.truncate(arg.nr as usize);
        Ok(blocks)
    }

    /// For tests: reads a register of a GPU's INJECT, STATS or TIME block (`Documentation/device.md`), or writes it.
    /// Returns its value.
    ///
    /// # Errors
    /// `ENOTTY` unless the module was loaded with `test=1`; `EPERM` without CAP_SYS_ADMIN; `ENODEV`; `EINVAL` for any other
    /// register, or without the extension.
    pub fn test_register(&self, gpu: u32, offset: u32, write: Option<u32>) -> Result<u32> {
        let arg = uapi::huvm_test_reg {
            gpu,
            offset,
            value: write.unwrap_or(0),
            write: write.is_some().into(),
            ..Default::default()
        };
        Ok(self.ask(arg, "reaching a register for tests")?.value)
    }

    /// For tests and measurements: leaves so many chunks of a GPU usable, 0 for all. What was in the others is evicted.
    ///
    /// # Errors
    /// `ENOTTY` unless the module was loaded with `test=1`; `EPERM` without CAP_SYS_ADMIN; `ENODEV`; `EINVAL` for more than there
    /// are; `EBUSY` if others keep the chunks too busy.
    pub fn limit_chunks(&self, gpu: u32, chunks: u32) -> Result<()> {
        let arg = uapi::huvm_test_limits {
            gpu,
            chunks,
            ..Default::default()
        };
        self.ask(arg, "limiting a GPU's memory").map(|_| ())
    }

    /// Turns the event stream on: `mask` has bit `1 << HUVM_EVENT_*` for each type; 0 turns it off.
    ///
    /// # Errors
    /// `EPERM` for `all` without CAP_SYS_ADMIN.
    pub fn listen(&self, mask: u32, all: bool) -> Result<()> {
        let flags = if all { uapi::HUVM_EVENTS_ALL } else { 0 };
        self.ask(
            uapi::huvm_events {
                flags,
                mask,
                ..Default::default()
            },
            "listening to events",
        )
        .map(|_| ())
    }

    /// Whether events are there, or come within `timeout_ms`.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn has_events(&self, timeout_ms: u32) -> Result<bool> {
        sys::readable(&self.space.file, timeout_ms)
    }

    /// Waits for events and returns up to `max` of them.
    ///
    /// # Errors
    /// `EINVAL` when the stream is off.
    pub fn events(&self, max: usize) -> Result<Vec<uapi::huvm_event>> {
        sys::read_events(&self.space.file, max.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_not_be_seen_is_told_from_what_failed() {
        let failed = |errno| {
            allowed::<()>(Err(Error::Os {
                what: "asking".into(),
                errno,
            }))
        };
        assert!(allowed(Ok(())).unwrap());
        assert!(!failed(libc::EPERM).unwrap());
        // The client has left.
        assert_eq!(
            failed(libc::ENOENT).unwrap_err().errno(),
            Some(libc::ENOENT)
        );
    }

    #[test]
    fn what_was_added_survives_a_counter_that_begins_anew() {
        let of = |time_ns, values: &[u64]| Counters {
            values: values.to_vec(),
            time_ns,
        };
        let added = of(50, &[7, 1, 9]).since(&of(20, &[5, 3]));
        assert_eq!((added.values, added.time_ns), (vec![2, 0, 9], 30));
        // Of a driver that had more before it was loaded again.
        let added = of(10, &[3]).since(&of(20, &[3, 4]));
        assert_eq!((added.values, added.time_ns), (vec![0], 0));
    }
}
