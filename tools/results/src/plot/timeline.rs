// SPDX-License-Identifier: GPL-2.0
//! What each direction of each link carried over time, and what the driver did meanwhile.
//!
//! An event says that a copy is over, not when it began, and not which copy engine made it: a lane is a direction between two
//! places, and its bars are what arrived in that time (a whole copy at its end). A lane's full height is its own largest value, which stands beside it.

use super::span::Span;
use super::EDGE;
use crate::draw::{self, palette, Anchor, Scene, BLACK, GREY, LINE};
use crate::events::{Event, Place, What};
use crate::units;
use std::collections::BTreeMap;

/// Pixels of a lane.
const HIGH: i32 = 40;

/// In order of the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    Link(Place, Place),
    WriteBacks,
    Faults,
    Evictions,
    Launches,
}

impl Lane {
    fn of(event: &Event) -> Option<(Lane, u64)> {
        match event.what {
            What::Migrate { from, to } if from != to => Some((Lane::Link(from, to), event.bytes)),
            What::WriteBack(_) => Some((Lane::WriteBacks, event.bytes)),
            What::Fault => Some((Lane::Faults, 1)),
            What::Evict => Some((Lane::Evictions, 1)),
            What::LaunchEnd => Some((Lane::Launches, 1)),
            _ => None,
        }
    }

    fn name(&self) -> String {
        match self {
            Lane::Link(from, to) => format!("{from} to {to}"),
            Lane::WriteBacks => "write-backs".into(),
            Lane::Faults => "faults".into(),
            Lane::Evictions => "evictions".into(),
            Lane::Launches => "launches end".into(),
        }
    }

    /// The sum, and the largest of a column.
    fn figures(&self, sum: u64, most: u64, span: &Span) -> String {
        let column = units::time(span.column_ns);
        match self {
            Lane::Link(..) | Lane::WriteBacks => {
                // Bytes a nanosecond are GB a second.
                let rate = sum as f64 / span.length_ns().max(1) as f64;
                let (sum, most) = (units::bytes(sum), units::bytes(most));
                format!("{sum}, {rate:.1} GB/s over all; at most {most} in {column}")
            }
            _ => format!("{sum}; at most {most} in {column}"),
        }
    }
}

/// Draws the lanes of a recording.
pub fn draw(title: &str, events: &[Event]) -> Scene {
    let span = Span::of(events);
    let mut lanes: BTreeMap<Lane, BTreeMap<i32, u64>> = BTreeMap::new();
    for e in events {
        if let Some((lane, amount)) = Lane::of(e) {
            let columns = lanes.entry(lane).or_default();
            let sum = columns.entry(span.column(e.time_ns)).or_default();
            *sum = sum.saturating_add(amount);
        }
    }
    let names = lanes.keys().map(|l| draw::width(&l.name())).max();
    let x = EDGE + names.unwrap_or(0) + 12;
    let top = EDGE + 2 * LINE;
    let mut s = Scene::new();
    s.text(EDGE, EDGE, Anchor::Start, BLACK, title);
    let bottom = lanes.keys().fold(top, |y, _| y + HIGH + 8);
    span.scale(&mut s, x, top, bottom);
    let mut y = top;
    for (nr, (lane, columns)) in lanes.iter().enumerate() {
        let most = columns.values().copied().max().unwrap_or(1).max(1);
        let sum = columns.values().fold(0u64, |a, b| a.saturating_add(*b));
        let middle = y + (HIGH - LINE) / 2;
        s.text(x - 8, middle, Anchor::End, BLACK, &lane.name());
        for (column, amount) in columns {
            // CAST: at most `HIGH`.
            let high = (*amount as f64 / most as f64 * f64::from(HIGH)).ceil() as i32;
            s.rect(x + column, y + HIGH - high, 1, high, palette(nr));
        }
        s.rect(x, y + HIGH, span.columns, 1, GREY);
        let figures = lane.figures(sum, most, &span);
        let right = x + span.columns + 8;
        s.text(right, middle, Anchor::Start, GREY, &figures);
        y += HIGH + 8;
    }
    s.margin(EDGE);
    s
}
