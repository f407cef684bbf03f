// SPDX-License-Identifier: GPL-2.0
//! Heat maps: time to the right, blocks of 2 MiB downwards in order of process and address. One shows where each block is, one
//! how often it faulted.
//!
//! A block is shown where its pages were last sent, from the beginning of that copy on: memory of its own GPU and memory that
//! another GPU lent for it are both a GPU's. One that is evicted without a copy is at the host, which had it too; so is one whose
//! lent chunk was lent anew for another block. Of a page that is used and does not fault the driver knows nothing, so neither does
//! the picture.

use super::span::Span;
use super::EDGE;
use crate::draw::{blend, palette, Anchor, Colour, Scene, BLACK, GREY, LINE, WHITE};
use crate::events::{Event, Place, What};
use crate::units::CHUNK;
use std::collections::BTreeMap;

/// Rows of a picture at most; more blocks share one.
const ROWS: usize = 320;
/// Columns of a dot of faults: one is hardly seen.
const DOT: usize = 4;
/// Of the host's blocks.
const HOST: Colour = Colour(0xd4, 0xd0, 0xc8);
/// Of the blocks with most faults.
const HOT: Colour = Colour(0x9c, 0x10, 0x10);

/// Blocks in rows.
struct Blocks {
    rows: BTreeMap<(u32, u64), usize>,
    /// Blocks a row.
    each: usize,
    /// Pixels a row.
    high: i32,
}

impl Blocks {
    fn of(events: &[Event]) -> Blocks {
        let seen = events
            .iter()
            .filter(|e| matches!(e.what, What::Fault | What::Migrate { .. }) && e.bytes != 0);
        let mut rows: BTreeMap<(u32, u64), usize> =
            seen.flat_map(blocks_of).map(|b| (b, 0)).collect();
        let each = rows.len().div_ceil(ROWS).max(1);
        for (n, row) in rows.values_mut().enumerate() {
            *row = n / each;
        }
        // CAST: 1 to 8.
        let high = (ROWS / rows.len().div_ceil(each).max(1)).clamp(1, 8) as i32;
        Blocks { rows, each, high }
    }

    fn count(&self) -> usize {
        self.rows.len().div_ceil(self.each)
    }

    /// The rows that an event is about.
    fn rows<'a>(&'a self, e: &'a Event) -> impl Iterator<Item = usize> + 'a {
        blocks_of(e).filter_map(|b| self.rows.get(&b).copied())
    }
}

/// Most blocks of one event, 8 GiB: a wrong length must not take all memory.
const LONGEST: u64 = 1 << 12;

fn blocks_of(e: &Event) -> impl Iterator<Item = (u32, u64)> {
    let first = e.va / CHUNK;
    let last = e.va.saturating_add(e.bytes.saturating_sub(1)) / CHUNK;
    let pid = e.pid;
    (first..=last.min(first.saturating_add(LONGEST))).map(move |b| (pid, b))
}

/// A map: rows of colours, one a column; `None` where nothing is known.
type Map = Vec<Vec<Option<Colour>>>;

fn colour_of(place: Place) -> Colour {
    match place {
        Place::Host | Place::Nowhere => HOST,
        Place::Gpu(n) => palette(n as usize),
    }
}

/// Draws where blocks were.
pub fn residency(title: &str, events: &[Event]) -> Scene {
    let (span, blocks) = (Span::of(events), Blocks::of(events));
    // CAST: positive.
    let columns = span.columns as usize;
    let mut map: Map = vec![vec![None; columns]; blocks.count()];
    // Of each block its place and since when.
    let mut at: BTreeMap<(u32, u64), Place> = BTreeMap::new();
    let mut in_row: Vec<BTreeMap<Place, u32>> = vec![BTreeMap::new(); blocks.count()];
    let mut places: BTreeMap<Place, ()> = BTreeMap::new();
    let mut done = 0;
    let mut settle = |in_row: &[BTreeMap<Place, u32>], until: usize| {
        for (row, there) in map.iter_mut().zip(in_row) {
            // The most common; of as many the first.
            let most = there.iter().rev().max_by_key(|(_, n)| **n);
            let colour = most.filter(|(_, n)| **n > 0).map(|(p, _)| colour_of(*p));
            for cell in row.iter_mut().take(until).skip(done) {
                *cell = colour;
            }
        }
        done = until.max(done);
    };
    // Of each lent chunk the block that it was lent for last, and of each block the chunk that it was lent last.
    let mut lent: BTreeMap<(Place, u64), (u32, u64)> = BTreeMap::new();
    let mut borrowed: BTreeMap<(u32, u64), (Place, u64)> = BTreeMap::new();
    let mut order: Vec<&Event> = events.iter().collect();
    order.sort_by_key(|e| (e.time_ns, e.seq));
    for e in order {
        let is_at = |b: &(u32, u64), place| at.get(b) == Some(&place);
        let (to, which): (Place, Vec<(u32, u64)>) = match e.what {
            What::Migrate { to, .. } => (to, blocks_of(e).collect()),
            What::Evict { .. } => {
                let there = blocks_of(e).filter(|b| is_at(b, e.place));
                (Place::Host, there.collect())
            }
            What::Lend { chunk } => {
                let now = (e.pid, e.va / CHUNK);
                let chunk = (e.place, chunk);
                borrowed.insert(now, chunk);
                let before = lent.insert(chunk, now);
                // Or it was fetched back since, and is in another one now.
                let there = before
                    .filter(|b| is_at(b, e.place) && *b != now && borrowed.get(b) == Some(&chunk));
                (Place::Host, there.into_iter().collect())
            }
            _ => continue,
        };
        // CAST: not negative.
        settle(&in_row, span.column(e.time_ns) as usize);
        for b in which {
            places.insert(to, ());
            let Some(counts) = blocks.rows.get(&b).and_then(|r| in_row.get_mut(*r)) else {
                continue;
            };
            if let Some(old) = at.insert(b, to) {
                if let Some(n) = counts.get_mut(&old) {
                    *n = n.saturating_sub(1);
                }
            }
            *counts.entry(to).or_default() += 1;
        }
    }
    settle(&in_row, columns);
    let legend: Vec<(String, Colour)> = places
        .keys()
        .map(|p| (p.to_string(), colour_of(*p)))
        .collect();
    paint(title, &map, &span, &blocks, &legend)
}

/// Draws how often blocks faulted, in powers of two.
pub fn access(title: &str, events: &[Event]) -> Scene {
    let (span, blocks) = (Span::of(events), Blocks::of(events));
    // CAST: positive.
    let mut counts = vec![vec![0u64; span.columns as usize]; blocks.count()];
    for e in events.iter().filter(|e| e.what == What::Fault) {
        // CAST: not negative.
        let column = span.column(e.time_ns) as usize / DOT;
        for row in blocks.rows(e) {
            if let Some(n) = counts.get_mut(row).and_then(|r| r.get_mut(column)) {
                *n += 1;
            }
        }
    }
    let most = counts.iter().flatten().copied().max().unwrap_or(0);
    let levels = 64 - most.leading_zeros();
    let colour = |n: u64| {
        let level = 64 - n.leading_zeros();
        // CAST: at most 255.
        let share = (255 * level / levels.max(1)) as u8;
        (n != 0).then(|| blend(WHITE, HOT, share))
    };
    let map: Map = counts
        .iter()
        .map(|row| {
            let dots = row.iter().flat_map(|n| [colour(*n); DOT]);
            dots.take(row.len()).collect()
        })
        .collect();
    let mut legend = Vec::new();
    if let Some(c) = colour(1) {
        legend.push(("1 fault".to_owned(), c));
    }
    if let (true, Some(c)) = (most > 1, colour(most)) {
        legend.push((format!("{most} faults"), c));
    }
    paint(title, &map, &span, &blocks, &legend)
}

fn paint(
    title: &str,
    map: &Map,
    span: &Span,
    blocks: &Blocks,
    legend: &[(String, Colour)],
) -> Scene {
    let mut s = Scene::new();
    s.text(EDGE, EDGE, Anchor::Start, BLACK, title);
    let what = format!(
        "{} blocks of 2 MiB downwards, {} a row; time to the right",
        blocks.rows.len(),
        blocks.each
    );
    s.text(EDGE, EDGE + LINE, Anchor::Start, GREY, &what);
    let mut x = EDGE;
    for (name, colour) in legend {
        s.rect(x, EDGE + 2 * LINE + 2, 12, 12, *colour);
        let at = x + 18;
        s.text(at, EDGE + 2 * LINE, Anchor::Start, BLACK, name);
        x = at + crate::draw::width(name) + 16;
    }
    let (left, top) = (EDGE * 2, EDGE + 4 * LINE);
    let rows = i32::try_from(map.len()).unwrap_or(0);
    span.scale(&mut s, left, top, top + rows * blocks.high);
    // Colour after colour: the SVG names each once.
    let mut bars: BTreeMap<Colour, Vec<(i32, i32, i32)>> = BTreeMap::new();
    for (y, row) in (0i32..).zip(map) {
        // Neighbours of one colour are one rectangle.
        let mut cells = (0i32..).zip(row).peekable();
        while let Some((from, colour)) = cells.next() {
            let mut to = from + 1;
            while cells.next_if(|(_, c)| *c == colour).is_some() {
                to += 1;
            }
            if let Some(c) = colour {
                bars.entry(*c).or_default().push((y, from, to));
            }
        }
    }
    for (colour, bars) in bars {
        for (y, from, to) in bars {
            let y = top + y * blocks.high;
            s.rect(left + from, y, to - from, blocks.high, colour);
        }
    }
    s.margin(EDGE * 2);
    s
}
