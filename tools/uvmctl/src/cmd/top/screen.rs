// SPDX-License-Identifier: GPL-2.0
//! The full screen: what keys change ([`Screen::key`]) and how a frame is painted. No terminal in here.

use super::keys::Key;
use super::{Faults, Frame, Gpu, Totals};
use crate::out::Out;
use crate::row::{cut, names, Cell, Row, Table};
use crate::units;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};
use std::cmp::Ordering;

/// What the table shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    Clients,
    Gpus,
    Links,
    Faults,
    Policy,
}

/// The views by their digits.
const VIEWS: [(char, View, &str); 5] = [
    ('1', View::Clients, "clients"),
    ('2', View::Gpus, "GPUs"),
    ('3', View::Links, "links"),
    ('4', View::Faults, "faults"),
    ('5', View::Policy, "policy"),
];

const KEYS: &[(&str, &str)] = &[
    ("1 to 5", "clients, GPUs, links, faults, policy"),
    (
        "up, down",
        "choose a line; with Home, End, PageUp, PageDown",
    ),
    ("left, right, s, F6", "choose the column to sort by"),
    ("+, -", "largest first, smallest first"),
    ("/", "show lines with a text; Enter keeps it, Esc drops it"),
    ("p", "stop and go on"),
    ("d", "twice as slow, up to 8 s, then from 1 s again"),
    ("?, h", "this"),
    ("q, Esc, F10, Ctrl-C", "end"),
];

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Paint again.
    Paint,
    /// The end.
    Quit,
}

/// What the global options say of how it looks.
#[derive(Clone, Copy, Default)]
pub(super) struct Look {
    /// Exact bytes.
    exact: bool,
    /// Every column.
    verbose: bool,
    /// Tables have titles.
    header: bool,
    color: bool,
}

impl Look {
    pub(super) fn new(out: &Out) -> Self {
        Look {
            exact: out.exact,
            verbose: out.verbose,
            header: out.header,
            color: out.color,
        }
    }

    /// In this colour, where there are colours.
    fn fg(self, color: Color) -> Style {
        if self.color {
            Style::new().fg(color)
        } else {
            Style::new()
        }
    }

    /// Of titles: as those of tables, without colours they are as the rest.
    fn title(self, modifier: Modifier) -> Style {
        if self.color {
            Style::new().add_modifier(modifier)
        } else {
            Style::new()
        }
    }
}

/// What the user chose to see.
pub(super) struct Screen {
    look: Look,
    view: View,
    /// Column to sort by; `None` is the usual order.
    sort: Option<usize>,
    ascending: bool,
    selected: usize,
    filter: String,
    typing: bool,
    help: bool,
    /// No new frames.
    pub(super) paused: bool,
    /// Seconds between frames.
    pub(super) period: f64,
    /// Columns and lines of the view when it was painted last.
    columns: usize,
    lines: usize,
    /// The driver's version.
    pub(super) driver: String,
}

impl Screen {
    pub(super) fn new(look: Look, period: f64, driver: String) -> Self {
        Screen {
            look,
            view: View::Clients,
            sort: None,
            ascending: false,
            selected: 0,
            filter: String::new(),
            typing: false,
            help: false,
            paused: false,
            period,
            columns: 0,
            lines: 0,
            driver,
        }
    }

    fn select(&mut self, down: bool, by: usize) {
        self.selected = if down {
            self.selected.saturating_add(by)
        } else {
            self.selected.saturating_sub(by)
        }
        .min(self.lines.saturating_sub(1));
    }

    fn sort_by(&mut self, right: bool) {
        let last = self.columns.saturating_sub(1);
        self.sort = Some(match (self.sort, right) {
            (None, true) => 0,
            (None, false) => last,
            (Some(c), true) if c >= last => 0,
            (Some(c), true) => c.saturating_add(1),
            (Some(0), false) => last,
            (Some(c), false) => c.saturating_sub(1),
        });
    }

    /// What a key does.
    pub(super) fn key(&mut self, key: Key) -> Act {
        if key == Key::Interrupt {
            return Act::Quit;
        }
        if self.typing {
            match key {
                Key::Enter => self.typing = false,
                Key::Esc => {
                    self.typing = false;
                    self.filter.clear();
                }
                Key::Backspace => {
                    self.filter.pop();
                }
                Key::Char(c) => self.filter.push(c),
                _ => {}
            }
            return Act::Paint;
        }
        if self.help {
            self.help = false;
            return match key {
                Key::Char('q') | Key::F(10) => Act::Quit,
                _ => Act::Paint,
            };
        }
        match key {
            Key::Char('q') | Key::Esc | Key::F(10) => return Act::Quit,
            Key::Up => self.select(false, 1),
            Key::Down => self.select(true, 1),
            Key::PageUp => self.select(false, 10),
            Key::PageDown => self.select(true, 10),
            Key::Home => self.selected = 0,
            Key::End => self.select(true, usize::MAX),
            Key::Left => self.sort_by(false),
            Key::Right | Key::Char('s') | Key::F(6) => self.sort_by(true),
            Key::Char('+') => self.ascending = false,
            Key::Char('-') => self.ascending = true,
            Key::Char('/') => {
                self.typing = true;
                self.filter.clear();
            }
            Key::Char('p') => self.paused = !self.paused,
            Key::Char('d') => {
                self.period = if self.period >= 8.0 {
                    1.0
                } else {
                    (self.period * 2.0).min(8.0)
                };
            }
            Key::Char('?' | 'h') => self.help = true,
            Key::Char(c) => {
                if let Some((_, view, _)) = VIEWS.iter().find(|(digit, ..)| *digit == c) {
                    self.view = *view;
                    self.sort = None;
                    self.selected = 0;
                }
            }
            _ => {}
        }
        Act::Paint
    }

    /// Paints a frame.
    pub(super) fn paint(&mut self, to: &mut ratatui::Frame<'_>, f: &Frame) {
        let area = to.area();
        let (width, height) = (usize::from(area.width), usize::from(area.height));
        if height == 0 {
            return;
        }
        let mut lines = vec![Line::from(self.title(f)), Line::default()];
        // GPUs take half of the screen at most; view 2 has them all.
        let room = (height / 2).saturating_sub(2).max(1);
        for g in f.gpus.iter().take(room) {
            lines.push(bar(self.look, g, f.totals(), width));
        }
        if f.gpus.len() > room {
            lines.push(Line::from(format!(
                "  and {} more: press 2",
                f.gpus.len() - room
            )));
        }
        if f.gpus.is_empty() {
            lines.push(Line::from("no GPUs"));
        }
        lines.push(Line::default());
        let left = height.saturating_sub(lines.len() + 1);
        lines.extend(self.table(f, width, left));
        lines.resize(height.saturating_sub(1), Line::default());
        lines.push(self.foot());
        to.render_widget(Paragraph::new(lines), area);
        if self.help {
            help(self.look, to, area);
        }
    }

    fn title(&self, f: &Frame) -> String {
        let over = f.interval_ns.map_or("totals".into(), |ns| {
            format!("a second, over {}", units::time(ns))
        });
        let paused = if self.paused { "STOPPED   " } else { "" };
        format!(
            "{paused}huvm {}   policy {}   figures: {over}   every {} s",
            self.driver, f.preset, self.period
        )
    }

    fn foot(&self) -> Line<'static> {
        if self.typing || !self.filter.is_empty() {
            let end = if self.typing { "_" } else { "" };
            return Line::from(format!("with: {}{end}", self.filter));
        }
        let mut spans = Vec::new();
        for (digit, view, name) in VIEWS {
            let style = if view == self.view {
                Style::new().add_modifier(Modifier::REVERSED)
            } else {
                Style::new()
            };
            spans.push(Span::styled(format!("{digit} {name}"), style));
            spans.push(Span::raw("  "));
        }
        spans.push(Span::raw(" s sort  / find  ? help  q end"));
        Line::from(spans)
    }

    /// The view's table in so many lines.
    fn table(&mut self, f: &Frame, width: usize, height: usize) -> Vec<Line<'static>> {
        match self.view {
            View::Clients => self.rows(&f.clients, width, height),
            View::Gpus if f.totals() => {
                let all: Vec<Totals<'_>> = f.gpus.iter().map(|g| Totals(Some(g))).collect();
                self.rows(&all, width, height)
            }
            View::Gpus => self.rows(&f.gpus, width, height),
            View::Links => self.rows(&f.links, width, height),
            View::Faults => {
                let of = |g| Faults(Some(g), f.totals());
                let all: Vec<Faults<'_>> = f.gpus.iter().map(of).collect();
                self.rows(&all, width, height)
            }
            View::Policy => self.rows(&f.policy, width, height),
        }
    }

    fn rows<R: Row>(&mut self, rows: &[R], width: usize, height: usize) -> Vec<Line<'static>> {
        let look = self.look;
        let shown = |r: &R| -> Vec<Cell> {
            let fields = r.fields().into_iter();
            fields
                .filter(|f| look.verbose || !f.head.is_empty())
                .map(|f| f.cell)
                .collect()
        };
        let wanted = self.filter.to_lowercase();
        let mut order: Vec<(Vec<Cell>, &R)> = rows
            .iter()
            .map(|r| (shown(r), r))
            .filter(|(cells, _)| {
                wanted.is_empty()
                    || cells
                        .iter()
                        .any(|c| c.human(look.exact).to_lowercase().contains(&wanted))
            })
            .collect();
        if let Some(c) = self.sort {
            order.sort_by(|(a, _), (b, _)| {
                let by = compare(a.get(c), b.get(c));
                if self.ascending {
                    by
                } else {
                    by.reverse()
                }
            });
        }
        self.columns = shown(&R::default()).len();
        self.lines = order.len();
        self.selected = self.selected.min(self.lines.saturating_sub(1));

        let every: Vec<String> = names::<R>().into_iter().map(str::to_owned).collect();
        let wanted = look.verbose.then_some(&every[..]);
        let table = Table::of_refs(order.iter().map(|(_, r)| *r), wanted, look.exact);
        let text = table
            .marked(self.sort, self.ascending)
            .render(look.header, Some(width));
        let mut lines = text.lines().map(str::to_owned);
        let mut all = Vec::new();
        let head = if look.header { lines.next() } else { None };
        if let Some(head) = head {
            let style = look.title(Modifier::BOLD | Modifier::UNDERLINED);
            all.push(Line::styled(head, style));
        }
        if self.lines == 0 {
            all.push(Line::from("none"));
        }
        // The selected line stays in sight.
        let room = height.saturating_sub(all.len()).max(1);
        let first = (self.selected + 1).saturating_sub(room);
        for (i, line) in lines.enumerate().skip(first).take(room) {
            let style = if i == self.selected {
                Style::new().add_modifier(Modifier::REVERSED)
            } else {
                Style::new()
            };
            all.push(Line::styled(format!("{line:<width$}"), style));
        }
        all
    }
}

/// Numbers by size, words by letters, what is not available first.
fn compare(a: Option<&Cell>, b: Option<&Cell>) -> Ordering {
    let number = |c: Option<&Cell>| match c {
        Some(Cell::Count(n) | Cell::Bytes(n) | Cell::Nanos(n)) => Some(*n as f64),
        Some(Cell::Rate(r) | Cell::BytesRate(r) | Cell::Ratio(r) | Cell::Share(r)) => Some(*r),
        _ => None,
    };
    let words = |c: Option<&Cell>| c.map_or_else(String::new, Cell::plain);
    match (number(a), number(b)) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => words(a).cmp(&words(b)),
    }
}

/// Parts of a bar so many cells wide: used, lent. A part that is there has one cell at least.
fn parts(g: &Gpu, cells: usize) -> (usize, usize) {
    let all = g.total_bytes.max(1) as f64;
    let part = |bytes: u64, room: usize| {
        // CAST: at most `cells`, up to rounding.
        let n = (bytes as f64 / all * cells as f64).round() as usize;
        n.max(usize::from(bytes != 0)).min(room)
    };
    let used = part(g.used_bytes, cells);
    (used, part(g.lent_bytes, cells.saturating_sub(used)))
}

/// A GPU in one line: memory as a bar (of one that is lost, that word), rates.
fn bar(look: Look, g: &Gpu, totals: bool, width: usize) -> Line<'static> {
    let human = |cell: Cell| cell.human(look.exact);
    let text = format!(
        " {:>9}/{:<9}  faults {:>6}  in {:>10}  out {:>10}",
        human(Cell::Bytes(g.used_bytes)),
        human(Cell::Bytes(g.total_bytes)),
        human(g.faults.count(totals)),
        human(g.h2d_bytes.bytes(totals)),
        human(g.d2h_bytes.bytes(totals)),
    );
    let name = format!("{:>2} [", g.gpu);
    let cells = width
        .saturating_sub(name.len() + 1 + text.len())
        .clamp(6, 60);
    if let Some(state) = g.state.as_ref().filter(|_| g.lost()) {
        let state = cut(state, cells);
        return Line::from(vec![
            Span::raw(name),
            Span::styled(format!("{state:<cells$}"), look.fg(Color::Red)),
            Span::raw("]"),
            Span::raw(text),
        ]);
    }
    let (used, lent) = parts(g, cells);
    let free = cells.saturating_sub(used + lent);
    Line::from(vec![
        Span::raw(name),
        Span::styled("|".repeat(used), look.fg(Color::Green)),
        Span::styled("+".repeat(lent), look.fg(Color::Blue)),
        Span::raw(" ".repeat(free)),
        Span::raw("]"),
        Span::raw(text),
    ])
}

fn help(look: Look, to: &mut ratatui::Frame<'_>, area: Rect) {
    let mut lines = vec![Line::styled(" Keys", look.title(Modifier::BOLD))];
    for (keys, what) in KEYS {
        lines.push(Line::from(format!("  {keys:<20} {what}")));
    }
    lines.push(Line::default());
    lines.push(Line::from(
        "  Bars: | own memory, + lent to others. Any key goes back.",
    ));
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    let inside = Rect {
        y: area.y.saturating_add(2),
        height: height.min(area.height.saturating_sub(2)),
        ..area
    };
    to.render_widget(Clear, inside);
    to.render_widget(Paragraph::new(lines), inside);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden;
    use ratatui::backend::TestBackend;
    use ratatui::buffer::Buffer;
    use ratatui::Terminal;

    fn frame(name: &str) -> Frame {
        let text = std::fs::read_to_string(golden::path(&format!("data/{name}.json"))).unwrap();
        let last = serde_json::Deserializer::from_str(&text)
            .into_iter::<serde_json::Value>()
            .map(|d| d.unwrap())
            .last()
            .unwrap();
        serde_json::from_value(last["data"].clone()).unwrap()
    }

    const USUAL: Look = Look {
        exact: false,
        verbose: false,
        header: true,
        color: true,
    };

    /// The screen as text, after these keys.
    fn picture(f: &Frame, keys: &str, width: u16, height: u16) -> String {
        text(&painted(USUAL, f, keys, width, height))
    }

    fn painted(look: Look, f: &Frame, keys: &str, width: u16, height: u16) -> Buffer {
        let mut screen = Screen::new(look, 1.0, "0.1.0".into());
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|to| screen.paint(to, f)).unwrap();
        for word in keys.split_whitespace() {
            press(&mut screen, word);
            terminal.draw(|to| screen.paint(to, f)).unwrap();
        }
        terminal.backend().buffer().clone()
    }

    fn text(buffer: &Buffer) -> String {
        let (width, height) = (buffer.area.width, buffer.area.height);
        let mut text = String::new();
        for y in 0..height {
            let mut line = String::new();
            let mut x = 0;
            while x < width {
                let symbol = buffer[(x, y)].symbol();
                line.push_str(symbol);
                // What is under the second half of a wide character is not seen.
                x += if unicode_width::UnicodeWidthStr::width(symbol) == 2 {
                    2
                } else {
                    1
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    fn press(screen: &mut Screen, word: &str) -> Act {
        let code = match word {
            "up" => Key::Up,
            "down" => Key::Down,
            "left" => Key::Left,
            "right" => Key::Right,
            "enter" => Key::Enter,
            "esc" => Key::Esc,
            "end" => Key::End,
            "f10" => Key::F(10),
            c => Key::Char(c.chars().next().unwrap()),
        };
        screen.key(code)
    }

    #[test]
    fn frames_are_painted() {
        let (f, empty) = (frame("top"), Frame::default());
        for (name, f, keys, w, h) in [
            ("clients-80x24", &f, "", 80, 24),
            ("clients-120x40", &f, "", 120, 40),
            ("clients-sorted-80x24", &f, "s s s s down", 80, 24),
            ("clients-found-80x24", &f, "/ t r a i n enter", 80, 24),
            ("gpus-120x40", &f, "2 s +", 120, 40),
            ("links-80x24", &f, "3", 80, 24),
            ("faults-80x24", &f, "4 s -", 80, 24),
            ("policy-80x24", &f, "5 end", 80, 24),
            ("help-80x24", &f, "p ?", 80, 24),
            ("small-40x8", &f, "end", 40, 8),
            ("empty-80x24", &empty, "", 80, 24),
        ] {
            golden::check(&format!("top/{name}.txt"), &picture(f, keys, w, h));
        }
    }

    #[test]
    fn the_screen_looks_as_the_options_say() {
        let f = frame("top");
        let colored = |look| {
            let buffer = painted(look, &f, "", 120, 24);
            let mut cells = buffer.content.iter();
            cells.any(|c| c.fg != Color::Reset || c.modifier.contains(Modifier::BOLD))
        };
        let of = |look, keys| text(&painted(look, &f, keys, 200, 24));
        assert!(colored(USUAL));
        let plain = Look {
            color: false,
            ..USUAL
        };
        assert!(!colored(plain));
        assert_eq!(of(plain, ""), of(USUAL, ""));

        let exact = of(
            Look {
                exact: true,
                ..USUAL
            },
            "",
        );
        assert!(exact.contains(" 234881024/268435456 "), "{exact}");
        assert!(exact.contains(" 805306368 "), "{exact}");

        let every = of(
            Look {
                verbose: true,
                ..USUAL
            },
            "4 1",
        );
        assert!(every.contains("  FAULTS  FAULTS/S"), "{every}");
        assert!(every.contains(" 123456 "), "{every}");

        let bare = of(
            Look {
                header: false,
                ..USUAL
            },
            "",
        );
        assert!(!bare.contains("MANAGED"), "{bare}");
        assert!(bare.contains(" train "), "{bare}");
    }

    #[test]
    fn a_lost_gpu_is_told_in_its_bar() {
        let mut f = frame("top");
        f.gpus[1].state = Some("lost".into());
        f.gpus[1].free_bytes = None;
        let text = picture(&f, "2", 80, 24);
        assert!(text.contains("\n 1 [lost "), "{text}");
        assert!(text.contains("\n  1  lost "), "{text}");
        // There are six cells at least.
        assert!(picture(&f, "2", 20, 24).contains("[lost  ]"));
    }

    #[test]
    fn many_gpus_leave_room_for_clients() {
        let mut f = frame("top");
        let one = f.gpus[0].clone();
        f.gpus = (0..16).map(|gpu| Gpu { gpu, ..one.clone() }).collect();
        golden::check("top/many-80x24.txt", &picture(&f, "", 80, 24));
    }

    #[test]
    fn no_size_is_too_small() {
        let f = frame("top");
        for (w, h) in [(1, 1), (1, 30), (200, 1), (7, 3), (12, 5)] {
            for keys in ["", "?", "2", "end"] {
                picture(&f, keys, w, h);
            }
        }
    }

    #[test]
    fn keys_end_it_and_only_those() {
        let quits = |keys: &str| {
            let mut s = Screen::new(USUAL, 1.0, String::new());
            keys.split(' ').map(|k| press(&mut s, k)).last() == Some(Act::Quit)
        };
        for yes in ["q", "esc", "f10", "? q", "/ x enter q", "/ esc q"] {
            assert!(quits(yes), "{yes}");
        }
        for no in ["p", "/ q", "? x", "k", "/ esc", "down", "?"] {
            assert!(!quits(no), "{no}");
        }
        let mut s = Screen::new(USUAL, 1.0, String::new());
        press(&mut s, "/");
        assert_eq!(s.key(Key::Interrupt), Act::Quit);
    }

    #[test]
    fn the_delay_doubles_and_starts_again() {
        let mut s = Screen::new(USUAL, 0.5, String::new());
        let mut seen = Vec::new();
        for _ in 0..6 {
            press(&mut s, "d");
            seen.push(s.period);
        }
        assert_eq!(seen, [1.0, 2.0, 4.0, 8.0, 1.0, 2.0]);
    }

    #[test]
    fn a_bar_never_overflows_and_shows_the_least_part() {
        let g = |used_bytes, lent_bytes, total_bytes| Gpu {
            used_bytes,
            lent_bytes,
            total_bytes,
            ..Gpu::default()
        };
        assert_eq!(parts(&g(50, 25, 100), 20), (10, 5));
        assert_eq!(parts(&g(1, 1, 1_000_000), 20), (1, 1));
        assert_eq!(parts(&g(100, 100, 100), 20), (20, 0));
        assert_eq!(parts(&g(u64::MAX, 5, 1), 20), (20, 0));
        assert_eq!(parts(&g(0, 0, 0), 20), (0, 0));
        assert_eq!(parts(&g(5, 5, 10), 0), (0, 0));
    }
}
