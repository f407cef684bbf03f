// SPDX-License-Identifier: GPL-2.0
//! The full screen on a real terminal: keys, time, and the way back in every case.

use super::keys::Keys;
use super::screen::{Act, Look, Screen};
use super::Source;
use crate::exit::{Failure, Result};
use crate::out::{terminal_size, Out};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::EnterAlternateScreen;
use ratatui::layout::Rect;
use ratatui::{TerminalOptions, Viewport};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a signal may stay unseen.
const LOOK: Duration = Duration::from_millis(200);

fn failed(e: impl std::fmt::Display) -> Failure {
    Failure::Failed(
        format!("the terminal: {e}"),
        "'uvmctl top --batch' needs none".into(),
    )
}

/// Gives the terminal back, also when a failure ends the view. The drawing library's own hook does it in a panic.
struct Restore;

impl Drop for Restore {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// A flag that these signals set.
fn flag(signals: &[i32]) -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in signals {
        signal_hook::flag::register(*signal, flag.clone()).map_err(failed)?;
    }
    Ok(flag)
}

pub(super) fn run(out: &Out, source: &mut Source, period: f64, count: u64) -> Result<()> {
    let ended = flag(&[SIGTERM, SIGHUP, SIGINT])?;
    let resized = flag(&[SIGWINCH])?;
    // Before the screen is taken, so that what fails at once is said on the usual one.
    let Some(mut frame) = source.next(out)? else {
        return Ok(());
    };
    frame.told(out);
    let mut screen = Screen::new(
        Look::new(out),
        period,
        out.driver_version().unwrap_or_default(),
    );
    // A serial line does not say how large it is.
    let viewport = match terminal_size() {
        Some(_) => Viewport::Fullscreen,
        None => Viewport::Fixed(Rect::new(0, 0, 80, 24)),
    };
    let _restore = Restore;
    let mut terminal =
        ratatui::try_init_with_options(TerminalOptions { viewport }).map_err(failed)?;
    execute!(std::io::stdout(), EnterAlternateScreen).map_err(failed)?;
    terminal.clear().map_err(failed)?;
    let mut keys = Keys::new();
    let mut shown = 1;
    let mut last = Instant::now();
    loop {
        terminal
            .draw(|to| screen.paint(to, &frame))
            .map_err(failed)?;
        let key = loop {
            if ended.load(Ordering::Relaxed) {
                return Ok(());
            }
            let left = Duration::from_secs_f64(screen.period).saturating_sub(last.elapsed());
            if left.is_zero() && !screen.paused {
                break None;
            }
            let wait = if screen.paused { LOOK } else { left.min(LOOK) };
            if let Some(key) = keys.next(wait) {
                break Some(key);
            }
            if resized.swap(false, Ordering::Relaxed) {
                terminal
                    .draw(|to| screen.paint(to, &frame))
                    .map_err(failed)?;
            }
        };
        if let Some(key) = key {
            if screen.key(key) == Act::Quit {
                return Ok(());
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
