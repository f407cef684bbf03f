// SPDX-License-Identifier: GPL-2.0
//! The full screen on a real terminal: keys, time, and the way back in every case.

use super::screen::{Act, Screen};
use super::Source;
use crate::exit::{Failure, Result};
use crate::out::Out;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a signal may stay unseen.
const LOOK: Duration = Duration::from_millis(200);

fn failed(e: impl std::fmt::Display) -> Failure {
    Failure::File(format!("the terminal: {e}"))
}

/// Gives the terminal back, also when a failure ends the view. The drawing library's own hook does it in a panic.
struct Restore;

impl Drop for Restore {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

pub(super) fn run(out: &Out, source: &mut Source, period: f64, count: u64) -> Result<()> {
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGHUP,
        signal_hook::consts::SIGINT,
    ] {
        signal_hook::flag::register(signal, ended.clone()).map_err(failed)?;
    }
    // Before the screen is taken, so that what fails at once is said on the usual one.
    let Some(mut frame) = source.next(out)? else {
        return Ok(());
    };
    let mut screen = Screen::new(period, out.driver_version().unwrap_or_default());
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let _restore = Restore;
    let mut shown = 1;
    let mut last = Instant::now();
    loop {
        terminal
            .draw(|to| screen.paint(to, &frame))
            .map_err(failed)?;
        let wait = loop {
            if ended.load(Ordering::Relaxed) {
                return Ok(());
            }
            let due = last + Duration::from_secs_f64(screen.period);
            let now = Instant::now();
            if now >= due && !screen.paused {
                break false;
            }
            let left = if screen.paused { LOOK } else { due - now };
            match event::poll(left.min(LOOK)) {
                Ok(true) => break true,
                Ok(false) => {}
                // A signal: the flag says which.
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(failed(e)),
            }
        };
        if wait {
            // Anything else, such as another size, is a reason to paint.
            if let Event::Key(key) = event::read().map_err(failed)? {
                if key.kind != KeyEventKind::Release && screen.key(key) == Act::Quit {
                    return Ok(());
                }
            }
            continue;
        }
        if shown >= count {
            return Ok(());
        }
        last = Instant::now();
        shown += 1;
        // A file's last frame stays until a key ends it.
        if let Some(next) = source.next(out)? {
            frame = next;
        }
    }
}
