// SPDX-License-Identifier: GPL-2.0
//! SIGINT, SIGTERM and SIGHUP, for who has something to put in order before it ends. The first one is only noted, to be asked for where
//! it is easy to stop. A second SIGINT or SIGTERM ends the program at once; not a second SIGHUP, which a terminal that goes
//! away sends by way of its shell as well.

use crate::exit::{Failure, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::{emulate_default_handler, signal_name};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// What is caught.
const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

static WATCH: OnceLock<Watch> = OnceLock::new();

/// From now on a signal is noted.
///
/// # Errors
/// The kernel refuses it.
pub(crate) fn catch() -> Result<()> {
    if WATCH.get().is_none() {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let heard = ENDING.into_iter().filter(|s| !ignored(&status, *s));
        let watch = Watch::on(heard).map_err(|e| Failure::File(format!("signals: {e}")))?;
        let _twice = WATCH.set(watch);
    }
    Ok(())
}

/// Whether one came.
pub(crate) fn came() -> bool {
    WATCH.get().is_some_and(|w| w.came().is_some())
}

/// For between two steps of something long.
///
/// # Errors
/// One came.
pub(crate) fn check() -> Result<()> {
    WATCH.get().map_or(Ok(()), Watch::check)
}

/// Ends the program by the signal that came, if one did: all is in order now.
pub(crate) fn obey() {
    if let Some(watch) = WATCH.get() {
        watch.obey();
    }
}

/// Whether this process was started to ignore a signal, as `nohup` and the background jobs of scripts are.
fn ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|l| l.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok());
    let bit = u32::try_from(signal).ok().and_then(|s| s.checked_sub(1));
    let shifted = mask.zip(bit).and_then(|(m, b)| m.checked_shr(b));
    shifted.is_some_and(|m| m & 1 != 0)
}

/// The signal that came, 0 before.
struct Watch(Arc<AtomicUsize>);

impl Watch {
    fn on(signals: impl Iterator<Item = i32>) -> std::io::Result<Watch> {
        let (watch, second) = (Watch(Arc::default()), Arc::new(AtomicBool::new(false)));
        for signal in signals {
            // In this order: the first one only sets what is asked for the second.
            if signal != SIGHUP {
                flag::register_conditional_default(signal, second.clone())?;
            }
            let number = usize::try_from(signal).unwrap_or(0);
            flag::register_usize(signal, watch.0.clone(), number)?;
            flag::register(signal, second.clone())?;
        }
        Ok(watch)
    }

    fn came(&self) -> Option<i32> {
        let number = self.0.load(Ordering::Relaxed);
        i32::try_from(number).ok().filter(|n| *n != 0)
    }

    fn check(&self) -> Result<()> {
        match self.came() {
            None => Ok(()),
            Some(signal) => {
                let name = signal_name(signal).unwrap_or("a signal");
                Err(Failure::Failed(
                    format!("ended by {name}"),
                    "GPUs have their memory and their policy again; nothing is to be done".into(),
                ))
            }
        }
    }

    fn obey(&self) {
        if let Some(signal) = self.came() {
            let _still_here = emulate_default_handler(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signal_hook::low_level::raise;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, ExitStatus};

    /// How a process ends that does this: the test called `name` again, in a process of its own.
    fn end_of(name: &str, act: impl FnOnce(&Watch)) -> ExitStatus {
        const AGAIN: &str = "UVMCTL_TEST_ENDS";
        if std::env::var_os(AGAIN).is_some_and(|n| n == name) {
            act(&Watch::on(ENDING.into_iter()).unwrap());
            std::process::exit(0);
        }
        let mut again = Command::new(std::env::current_exe().unwrap());
        let again = again.args(["--exact", &format!("signals::tests::{name}")]);
        again.env(AGAIN, name).output().unwrap().status
    }

    /// Catches a first signal that ends it before all is in order, and an end that the shell takes for a good one.
    #[test]
    fn the_first_signal_is_obeyed_in_the_end() {
        let end = end_of("the_first_signal_is_obeyed_in_the_end", |watch| {
            assert!(watch.check().is_ok());
            watch.obey();
            raise(SIGTERM).unwrap();
            let told = watch.check().map_err(|e| e.to_string());
            assert_eq!(told, Err("ended by SIGTERM".into()));
            watch.obey();
        });
        assert_eq!(end.signal(), Some(SIGTERM));
    }

    #[test]
    fn a_second_signal_ends_it_at_once() {
        let end = end_of("a_second_signal_ends_it_at_once", |_| {
            raise(SIGTERM).unwrap();
            raise(SIGINT).unwrap();
        });
        assert_eq!(end.signal(), Some(SIGINT));
    }

    #[test]
    fn a_second_hangup_does_not() {
        let end = end_of("a_second_hangup_does_not", |watch| {
            raise(SIGHUP).unwrap();
            raise(SIGHUP).unwrap();
            assert_eq!(watch.came(), Some(SIGHUP));
        });
        assert_eq!(end.code(), Some(0));
    }

    #[test]
    fn what_is_ignored_stays_so() {
        // SIGHUP is 1, SIGINT 2, SIGTERM 15.
        let status = "SigBlk:\t0000000000004003\nSigIgn:\t0000000000004001\nSigCgt:\t0\n";
        let all = ENDING.map(|s| ignored(status, s));
        assert_eq!(all, [false, true, true]);
        assert!(!ignored("", SIGHUP) && !ignored(status, 0) && !ignored(status, 77));
    }
}
