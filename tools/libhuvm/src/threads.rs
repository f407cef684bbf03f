// SPDX-License-Identifier: GPL-2.0
//! CPU time of the threads that the driver has for a GPU.
//!
//! What the driver does in a process's calls, and in interrupts, is not in it.

use crate::sys;
use std::path::Path;

/// Parent of all kernel threads.
const KTHREADD: u32 = 2;

/// The driver's threads of one GPU, found once: to read their times is then a few system calls.
#[derive(Clone, Debug)]
pub struct Threads {
    /// The one that serves faults.
    faults: u32,
    others: Vec<u32>,
}

/// CPU time, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Of all threads.
    pub all_ns: u64,
    /// Of the one that serves faults.
    pub faults_ns: u64,
}

impl Spent {
    /// What was added since `before`.
    #[must_use]
    pub fn since(self, before: Spent) -> Spent {
        Spent {
            all_ns: self.all_ns.saturating_sub(before.all_ns),
            faults_ns: self.faults_ns.saturating_sub(before.faults_ns),
        }
    }
}

impl Threads {
    /// Those of a GPU. `None`: the driver has none that can be seen from here.
    pub fn of(gpu: u32) -> Option<Threads> {
        Self::listed(Path::new("/proc"), gpu)
    }

    fn listed(proc: &Path, gpu: u32) -> Option<Threads> {
        let (mut faults, mut others) = (None, Vec::new());
        for entry in std::fs::read_dir(proc).ok()?.flatten() {
            let name = entry.file_name();
            let Some(pid) = name.to_str().and_then(|n| n.parse::<u32>().ok()) else {
                continue;
            };
            let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else {
                continue;
            };
            match purpose(&stat, gpu) {
                Some("fault") => faults = Some(pid),
                Some(_) => others.push(pid),
                None => {}
            }
        }
        Some(Threads {
            faults: faults?,
            others,
        })
    }

    /// What they have spent so far. `None`: one of them is gone.
    pub fn spent(&self) -> Option<Spent> {
        let faults_ns = sys::cpu_time_ns(self.faults)?;
        let mut all_ns = faults_ns;
        for pid in &self.others {
            all_ns = all_ns.saturating_add(sys::cpu_time_ns(*pid)?);
        }
        Some(Spent { all_ns, faults_ns })
    }
}

/// What a thread does for a GPU, by a line of `/proc/PID/stat`: `PID (huvm-WHAT/GPU) STATE PARENT ...`. Any process can have such
/// a name; only kernel threads have their parent.
pub fn purpose(stat: &str, gpu: u32) -> Option<&str> {
    let (head, tail) = stat.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let (what, of) = name.strip_prefix("huvm-")?.split_once('/')?;
    let parent = tail.split_whitespace().nth(1)?;
    (of.parse() == Ok(gpu) && parent.parse() == Ok(KTHREADD)).then_some(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches GPU 1's threads taken for GPU 11's, and a process that calls itself one.
    #[test]
    fn threads_are_known_by_name_and_parent() {
        let stat = "812 (huvm-fault/11) S 2 0 0 0 -1 2129984";
        assert_eq!(purpose(stat, 11), Some("fault"));
        assert_eq!(purpose(stat, 1), None);
        assert_eq!(purpose("9 (huvm-evict/1) I 2 0", 1), Some("evict"));
        assert_eq!(purpose("9 (huvm-evict/1) S 734 9 734", 1), None);
        assert_eq!(purpose("9 (a) S 2 (huvm-evict/1) S 5", 1), None);
        assert_eq!(purpose("9 (kworker/0:1) I 2 0", 0), None);
    }

    #[test]
    fn a_machine_without_the_driver_has_none() {
        let here = std::env::temp_dir().join(format!("huvm-threads-{}", std::process::id()));
        std::fs::create_dir_all(here.join("41")).unwrap();
        std::fs::write(here.join("41/stat"), "41 (huvm-lend/0) S 2 0").unwrap();
        let found = Threads::listed(&here, 0);
        std::fs::remove_dir_all(&here).unwrap();
        // Without the one that serves faults there is nothing to say.
        assert!(found.is_none());
    }

    /// Our own process spends time while it computes, and the clock says so.
    #[test]
    fn time_is_spent_by_working() {
        let me = Threads {
            faults: std::process::id(),
            others: vec![std::process::id()],
        };
        let before = me.spent().unwrap();
        let mut x = 1u64;
        while me.spent().unwrap().since(before).faults_ns < 1_000_000 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        let spent = me.spent().unwrap().since(before);
        assert!(spent.all_ns > spent.faults_ns, "{spent:?}");
        let nobody = Threads {
            faults: u32::MAX >> 4,
            others: Vec::new(),
        };
        assert_eq!(nobody.spent(), None);
    }
}
