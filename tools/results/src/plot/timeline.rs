// SPDX-License-Identifier: GPL-2.0
//! What each direction of each link was given to carry over time, when each copy engine had work, and what the driver did meanwhile.
//!
//! | lane | what its bars are |
//! | --- | --- |
//! | `gpu0 to host` … | bytes handed to that direction of a link: a copy where it begins, a write-back over the time that it took |
//! | `gpu0 CE17 to host` … | the share of the time in which a copy engine had something to do that was not over: at work, or behind others, or for something to wait for |
//! | `faults` … | how many |
//!
//! A lane's full height is its own largest value, which stands beside it; that of an engine is all of the time.

use super::span::Span;
use super::EDGE;
use crate::draw::{self, palette, Anchor, Scene, BLACK, GREY, LIGHT, LINE};
use crate::events::{Event, Place, Traffic, What};
use crate::units;
use std::collections::{BTreeMap, BTreeSet};

/// Pixels of a lane.
const HIGH: i32 = 40;
/// Pixels of a lane's bars to the right: a copy of 2 MiB takes several columns, and begins in one.
const BAR: i32 = 4;

/// In order of the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    Link(Place, Place),
    Engine(Place, u64),
    WriteBacks,
    Faults,
    Batches,
    EvictionsInFaults,
    EvictionsAhead,
    Launches,
}

/// What is in a lane.
#[derive(Default)]
struct Content {
    /// By bar.
    amounts: BTreeMap<i32, u64>,
    /// Of an engine: from when to when it had something, and what it copies.
    busy: Vec<(u64, u64)>,
    traffic: BTreeSet<Traffic>,
}

impl Content {
    fn add(&mut self, bar: i32, amount: u64) {
        let sum = self.amounts.entry(bar).or_default();
        *sum = sum.saturating_add(amount);
    }
}

type Lanes = BTreeMap<Lane, Content>;

fn bar(span: &Span, time_ns: u64) -> i32 {
    span.column(time_ns) / BAR
}

fn put(lanes: &mut Lanes, span: &Span, e: &Event) {
    let mut count = |lane, amount| {
        let lane = lanes.entry(lane).or_default();
        lane.add(bar(span, e.time_ns), amount);
    };
    match e.what {
        What::Migrate { from, to } if from != to && from != Place::Nowhere => {
            count(Lane::Link(from, to), e.bytes);
        }
        What::Fault => count(Lane::Faults, 1),
        What::Replay => count(Lane::Batches, 1),
        What::Evict { in_fault: true } => count(Lane::EvictionsInFaults, 1),
        What::Evict { in_fault: false } => count(Lane::EvictionsAhead, 1),
        What::LaunchEnd => count(Lane::Launches, 1),
        What::WriteBack(ns) => {
            count(Lane::WriteBacks, 1);
            let link = lanes.entry(Lane::Link(e.place, Place::Host)).or_default();
            let (first, last) = (
                bar(span, e.time_ns.saturating_sub(ns)),
                bar(span, e.time_ns),
            );
            // CAST: 1 to the bars of a picture.
            let bars = (last - first).max(0) as u64 + 1;
            for b in first..last {
                link.add(b, e.bytes / bars);
            }
            link.add(last, e.bytes - e.bytes / bars * (bars - 1));
        }
        What::Copy {
            engine,
            traffic,
            ns,
        } => {
            let lane = lanes.entry(Lane::Engine(e.place, engine)).or_default();
            lane.busy.push((e.time_ns.saturating_sub(ns), e.time_ns));
            lane.traffic.insert(traffic);
        }
        _ => {}
    }
}

/// Stretches of time that touch or overlap are one.
fn joined(mut busy: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    busy.sort_unstable();
    let mut all: Vec<(u64, u64)> = Vec::new();
    for (from, to) in busy {
        match all.last_mut() {
            Some((_, end)) if *end >= from => *end = to.max(*end),
            _ => all.push((from, to)),
        }
    }
    all
}

impl Lane {
    fn name(&self, content: &Content) -> String {
        match self {
            Lane::Link(from, to) => format!("{from} to {to}"),
            Lane::Engine(gpu, engine) => {
                let words: Vec<&str> = content.traffic.iter().map(|t| t.word()).collect();
                format!("{gpu} CE{engine} {}", words.join(", "))
            }
            Lane::WriteBacks => "write-backs".into(),
            Lane::Faults => "faults".into(),
            Lane::Batches => "fault batches".into(),
            Lane::EvictionsInFaults => "evictions in faults".into(),
            Lane::EvictionsAhead => "evictions ahead".into(),
            Lane::Launches => "launches end".into(),
        }
    }

    /// What stands beside it: of a lane with so many copies, if it is an engine's.
    fn figures(&self, content: &Content, copies: usize, span: &Span) -> String {
        let amounts = content.amounts.values();
        let sum = amounts.clone().fold(0u64, |a, b| a.saturating_add(*b));
        let most = amounts.copied().max().unwrap_or(0);
        // CAST: positive.
        let bar = units::time(span.column_ns.saturating_mul(BAR as u64));
        match self {
            Lane::Link(..) => {
                // Bytes a nanosecond are GB a second.
                let rate = sum as f64 / span.length_ns().max(1) as f64;
                let (sum, most) = (units::bytes(sum), units::bytes(most));
                format!("{sum}, {rate:.1} GB/s over all; at most {most} in {bar}")
            }
            Lane::Engine(..) => {
                let busy = content.busy.iter().map(|(from, to)| to - from);
                let busy = busy.fold(0u64, u64::saturating_add);
                let share = busy as f64 / span.length_ns().max(1) as f64 * 100.0;
                format!(
                    "has work {:.0} % of the time, {copies} copies",
                    share.min(100.0)
                )
            }
            _ => format!("{sum}; at most {most} in {bar}"),
        }
    }
}

/// Draws the lanes of a recording.
pub fn draw(title: &str, events: &[Event]) -> Scene {
    let span = Span::of(events);
    let mut lanes = Lanes::new();
    events.iter().for_each(|e| put(&mut lanes, &span, e));
    let names = lanes.iter().map(|(l, c)| draw::width(&l.name(c))).max();
    let x = EDGE + names.unwrap_or(0) + 12;
    let top = EDGE + 2 * LINE;
    let mut s = Scene::new();
    s.text(EDGE, EDGE, Anchor::Start, BLACK, title);
    let bottom = lanes.keys().fold(top, |y, _| y + HIGH + 8);
    span.scale(&mut s, x, top, bottom);
    let mut y = top;
    for (nr, (lane, mut content)) in lanes.into_iter().enumerate() {
        let copies = content.busy.len();
        content.busy = joined(std::mem::take(&mut content.busy));
        let middle = y + (HIGH - LINE) / 2;
        let name = lane.name(&content);
        s.text(x - 8, middle, Anchor::End, BLACK, &name);
        if let Lane::Engine(..) = lane {
            s.rect(x, y, span.columns, 1, LIGHT);
            for (column, share) in span.shares(&content.busy) {
                // CAST: at most `HIGH`.
                let high = (share * f64::from(HIGH)).ceil() as i32;
                s.rect(x + column, y + HIGH - high, 1, high, palette(nr));
            }
        }
        let most = content.amounts.values().copied().max().unwrap_or(1).max(1);
        for (bar, amount) in &content.amounts {
            // CAST: at most `HIGH`.
            let high = (*amount as f64 / most as f64 * f64::from(HIGH)).ceil() as i32;
            let wide = BAR.min(span.columns - bar * BAR);
            s.rect(x + bar * BAR, y + HIGH - high, wide, high, palette(nr));
        }
        s.rect(x, y + HIGH, span.columns, 1, GREY);
        let figures = lane.figures(&content, copies, &span);
        let right = x + span.columns + 8;
        s.text(right, middle, Anchor::Start, GREY, &figures);
        y += HIGH + 8;
    }
    s.margin(EDGE);
    s
}
