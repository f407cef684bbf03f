// SPDX-License-Identifier: GPL-2.0
//! Rows: what one record has in a table and in CSV, and how it is drawn. One line per field serves both.

use crate::units;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// A value, with what is needed to write it for people and for programs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    /// Not available.
    None,
    /// Words.
    Text(String),
    /// A word that says how well it is.
    State(String, Tone),
    /// A number of things.
    Count(u64),
    /// Bytes.
    Bytes(u64),
    /// Nanoseconds.
    Nanos(u64),
    /// Things a second.
    Rate(f64),
    /// Bytes a second.
    BytesRate(f64),
    /// A number with two decimals.
    Ratio(f64),
    /// A part of 1, shown in percent.
    Share(f64),
    /// Yes or no.
    Flag(bool),
}

/// How well it is: a colour, where there are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// As it should be.
    Good,
    /// It cannot be told, or needs a look.
    Odd,
    /// Something is wrong.
    Bad,
}

impl Tone {
    /// What makes a terminal show it.
    fn code(self) -> &'static str {
        match self {
            Tone::Good => "\x1b[32m",
            Tone::Odd => "\x1b[33m",
            Tone::Bad => "\x1b[31m",
        }
    }
}

/// What makes a terminal show titles.
const BOLD: &str = "\x1b[1m";
/// Back to what it was.
const PLAIN: &str = "\x1b[0m";

impl Cell {
    /// Good or bad.
    pub(crate) fn state(t: impl Into<String>, good: bool) -> Cell {
        let tone = if good { Tone::Good } else { Tone::Bad };
        Cell::State(t.into(), tone)
    }

    fn tone(&self) -> Option<Tone> {
        match self {
            Cell::State(_, tone) => Some(*tone),
            _ => None,
        }
    }

    /// Text.
    pub(crate) fn text(t: impl Into<String>) -> Cell {
        Cell::Text(t.into())
    }

    /// A number that may be unknown.
    pub(crate) fn known(n: Option<u32>) -> Cell {
        n.map_or(Cell::None, |n| Cell::Count(n.into()))
    }

    /// A number.
    pub(crate) fn count(n: impl Into<u64>) -> Cell {
        Cell::Count(n.into())
    }

    /// For people. `exact` writes bytes as they are.
    pub(crate) fn human(&self, exact: bool) -> String {
        match self {
            Cell::None => "-".into(),
            Cell::Text(t) | Cell::State(t, _) if t.is_empty() => "-".into(),
            Cell::Text(t) | Cell::State(t, _) => t.chars().map(shown).collect(),
            Cell::Count(n) => n.to_string(),
            Cell::Bytes(n) if exact => n.to_string(),
            Cell::Bytes(n) => units::bytes(*n),
            Cell::Nanos(n) => units::time(*n),
            Cell::Rate(r) => format!("{r:.0}"),
            Cell::BytesRate(r) if exact => format!("{r:.0}"),
            // CAST: a rate is positive; beyond 2^64 bytes a second it saturates.
            Cell::BytesRate(r) => units::bytes(*r as u64) + "/s",
            Cell::Ratio(r) => format!("{r:.2}"),
            Cell::Share(r) => format!("{:.1} %", r * 100.0),
            Cell::Flag(b) => if *b { "yes" } else { "no" }.into(),
        }
    }

    /// For programs: base units, empty for what is not available.
    pub(crate) fn plain(&self) -> String {
        match self {
            Cell::None => String::new(),
            Cell::Text(t) | Cell::State(t, _) => t.clone(),
            Cell::Count(n) | Cell::Bytes(n) | Cell::Nanos(n) => n.to_string(),
            Cell::Rate(r) | Cell::BytesRate(r) | Cell::Ratio(r) | Cell::Share(r) => r.to_string(),
            Cell::Flag(b) => b.to_string(),
        }
    }

    fn right(&self) -> bool {
        !matches!(
            self,
            Cell::Text(_) | Cell::State(..) | Cell::Flag(_) | Cell::None
        )
    }
}

/// Names of processes are theirs to choose: nothing in them may drive a terminal.
fn shown(c: char) -> char {
    if c.is_control() {
        '\u{fffd}'
    } else {
        c
    }
}

/// A field of a row.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// The key: as in JSON, where the row has it too.
    pub(crate) name: &'static str,
    /// Its column's title; empty if the usual table does not have it.
    pub(crate) head: &'static str,
    /// The value.
    pub(crate) cell: Cell,
    /// Where there is no room for its text it goes over several lines, and is not cut.
    pub(crate) wraps: bool,
}

/// A field with a column in the table.
pub(crate) fn field(name: &'static str, head: &'static str, cell: Cell) -> Field {
    Field {
        name,
        head,
        cell,
        wraps: false,
    }
}

/// As [`field`], with a text of which nothing may be cut.
pub(crate) fn wrapped(name: &'static str, head: &'static str, cell: Cell) -> Field {
    Field {
        wraps: true,
        ..field(name, head, cell)
    }
}

/// A field without one.
pub(crate) fn extra(name: &'static str, cell: Cell) -> Field {
    field(name, "", cell)
}

/// A record that can be a row. The default one lends its fields to the header.
pub(crate) trait Row: Default {
    /// Its fields, always the same ones in the same order.
    fn fields(&self) -> Vec<Field>;
}

/// Names of a row's fields.
pub(crate) fn names<R: Row>() -> Vec<&'static str> {
    R::default().fields().iter().map(|f| f.name).collect()
}

/// A line of CSV (RFC 4180, but lines end as here everywhere).
pub(crate) fn csv_line<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = cells
        .map(|c| {
            if c.contains(['"', ',', '\n', '\r']) {
                format!("\"{}\"", c.replace('"', "\"\""))
            } else {
                c.to_owned()
            }
        })
        .collect();
    quoted.join(",") + "\n"
}

/// A table as text: titles, and rows of cells.
pub(crate) struct Table {
    head: Vec<String>,
    right: Vec<bool>,
    wraps: Vec<bool>,
    rows: Vec<Vec<(String, Option<Tone>)>>,
    least: usize,
    color: bool,
}

/// Between two columns.
const GAP: usize = 2;
/// A column that wraps is not made narrower than this for the sake of the others...
const WRAPPED: usize = 12;
/// ...and no text column narrower than this.
const NARROWEST: usize = 8;

impl Table {
    /// Of rows, with these fields or the usual ones.
    pub(crate) fn of<R: Row>(rows: &[R], wanted: Option<&[String]>, exact: bool) -> Table {
        Self::of_refs(rows.iter(), wanted, exact)
    }

    /// As [`Self::of`], of rows in another order.
    pub(crate) fn of_refs<'a, R: Row + 'a>(
        rows: impl Iterator<Item = &'a R>,
        wanted: Option<&[String]>,
        exact: bool,
    ) -> Table {
        let all = R::default().fields();
        let chosen: Vec<&Field> = match wanted {
            None => all.iter().filter(|f| !f.head.is_empty()).collect(),
            Some(w) => w
                .iter()
                .filter_map(|w| all.iter().find(|f| f.name == *w))
                .collect(),
        };
        let mut table = Table {
            head: chosen
                .iter()
                .map(|f| match f.head {
                    "" => f.name.to_uppercase().replace('_', "-"),
                    h => h.to_owned(),
                })
                .collect(),
            right: vec![false; chosen.len()],
            wraps: chosen.iter().map(|f| f.wraps).collect(),
            rows: Vec::new(),
            least: 0,
            color: false,
        };
        for row in rows {
            let fields = row.fields();
            let cells = chosen.iter().map(|c| {
                let field = fields.iter().find(|f| f.name == c.name);
                field.map_or(Cell::None, |f| f.cell.clone())
            });
            let mut line = Vec::new();
            for (cell, right) in cells.zip(&mut table.right) {
                *right |= cell.right();
                line.push((cell.human(exact), cell.tone()));
            }
            table.rows.push(line);
        }
        table
    }

    /// Of cells, below these titles.
    pub(crate) fn raw(head: Vec<String>, rows: Vec<Vec<Cell>>, exact: bool) -> Table {
        // A column of nothing but "-" stands as one of numbers does.
        let right = (0..head.len())
            .map(|c| {
                let mut cells = rows.iter().filter_map(|r| r.get(c));
                cells.all(|cell| cell.right() || *cell == Cell::None) && !rows.is_empty()
            })
            .collect();
        let rows = rows
            .iter()
            .map(|line| line.iter().map(|c| (c.human(exact), c.tone())).collect())
            .collect();
        Table {
            wraps: vec![false; head.len()],
            head,
            right,
            rows,
            least: 0,
            color: false,
        }
    }

    /// With or without colours.
    pub(crate) fn colored(mut self, color: bool) -> Table {
        self.color = color;
        self
    }

    /// With columns wide enough for most values, so that rows printed one after the other stay below each other.
    pub(crate) fn steady(mut self) -> Table {
        self.least = 11;
        self
    }

    /// With a mark at the column that it is sorted by.
    pub(crate) fn marked(mut self, column: Option<usize>, ascending: bool) -> Table {
        if let Some(head) = column.and_then(|c| self.head.get_mut(c)) {
            head.push(if ascending { '^' } else { 'v' });
        }
        self
    }

    fn widths(&self, terminal: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = self
            .head
            .iter()
            .enumerate()
            .map(|(c, h)| {
                let cells = self
                    .rows
                    .iter()
                    .filter_map(|r| r.get(c))
                    .map(|(s, _)| s.width());
                cells
                    .chain([h.width(), self.least])
                    .max()
                    .unwrap_or(self.least)
            })
            .collect();
        let Some(limit) = terminal else {
            return widths;
        };
        let gaps = GAP * widths.len().saturating_sub(1);
        let mut over = (widths.iter().sum::<usize>() + gaps).saturating_sub(limit);
        // The widest column that wraps gives way, as nothing of it is lost; then the widest text column; numbers never do.
        let texts: Vec<bool> = self.right.iter().map(|r| !r).collect();
        for (may, least) in [(&self.wraps, WRAPPED), (&texts, NARROWEST)] {
            while over != 0 {
                let those = widths.iter_mut().zip(may).filter(|(_, may)| **may);
                match those.map(|(w, _)| w).max() {
                    Some(w) if *w > least => *w -= 1,
                    _ => break,
                }
                over -= 1;
            }
        }
        widths
    }

    /// A line of a row: of each cell the line with this number, if its text has so many.
    fn line(&self, cells: &[(Vec<String>, Option<Tone>)], at: usize, widths: &[usize]) -> String {
        let mut text = String::new();
        for (c, (((lines, tone), width), right)) in
            cells.iter().zip(widths).zip(&self.right).enumerate()
        {
            if c != 0 {
                text.push_str("  ");
            }
            let cell = lines.get(at).cloned().unwrap_or_default();
            let pad = " ".repeat(width.saturating_sub(cell.width()));
            let cell = match tone.filter(|_| self.color && !cell.is_empty()) {
                Some(t) => format!("{}{cell}{PLAIN}", t.code()),
                None => cell,
            };
            if *right {
                text.push_str(&pad);
                text.push_str(&cell);
            } else {
                text.push_str(&cell);
                text.push_str(&pad);
            }
        }
        text.trim_end().to_owned()
    }

    /// The lines; no wider than the terminal, if there is one and text columns can be cut. A row has one, unless a column
    /// wraps there.
    pub(crate) fn render(&self, header: bool, terminal: Option<usize>) -> String {
        let widths = self.widths(terminal);
        let mut all = String::new();
        let head = self.head.iter().map(|h| (h.clone(), None)).collect();
        let titles = header.then_some(&head);
        for (n, cells) in titles.into_iter().chain(&self.rows).enumerate() {
            let title = header && n == 0;
            let mut fitted = Vec::new();
            for (((text, tone), width), wraps) in cells.iter().zip(&widths).zip(&self.wraps) {
                let lines = if *wraps {
                    wrap(text, *width)
                } else {
                    vec![cut(text, *width)]
                };
                fitted.push((lines, *tone));
            }
            for at in 0..fitted.iter().map(|(l, _)| l.len()).max().unwrap_or(1) {
                let text = self.line(&fitted, at, &widths);
                if title && self.color {
                    all.push_str(&format!("{BOLD}{text}{PLAIN}\n"));
                } else {
                    all.push_str(&text);
                    all.push('\n');
                }
            }
        }
        all
    }
}

/// The text in lines of so many columns: broken behind words and choices, and inside of what is longer.
fn wrap(text: &str, width: usize) -> Vec<String> {
    if text.width() <= width {
        return vec![text.to_owned()];
    }
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_inclusive([' ', '|']) {
        let seen = word.trim_end().width();
        if seen != 0 && !line.is_empty() && line.width() + seen > width {
            lines.push(std::mem::take(&mut line));
        }
        for c in word.chars() {
            // A space at the end is not seen.
            let full = c != ' ' && line.width() + c.width().unwrap_or(0) > width;
            if full && !line.is_empty() {
                lines.push(std::mem::take(&mut line));
            }
            line.push(c);
        }
    }
    lines.push(line);
    lines.iter().map(|l| l.trim_end().to_owned()).collect()
}

/// The text in so many columns, its end marked if it was cut.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut left = width.saturating_sub(1);
    let mut short: String = text
        .chars()
        .take_while(|c| {
            let w = c.width().unwrap_or(0);
            let fits = w <= left;
            left = left.saturating_sub(w);
            fits
        })
        .collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Pet {
        name: String,
        legs: Option<u32>,
        weight: u64,
    }

    impl Row for Pet {
        fn fields(&self) -> Vec<Field> {
            vec![
                field("name", "NAME", Cell::text(&self.name)),
                field("legs", "LEGS", Cell::known(self.legs)),
                extra("weight_bytes", Cell::Bytes(self.weight)),
            ]
        }
    }

    fn pets() -> Vec<Pet> {
        let pet = |name: &str, legs, weight| Pet {
            name: name.into(),
            legs,
            weight,
        };
        vec![
            pet("a", Some(4), 1),
            pet("a long name", None, 2048),
            pet("", Some(1000), 0),
        ]
    }

    #[test]
    fn numbers_align_right_and_text_left() {
        assert_eq!(
            Table::of(&pets(), None, false).render(true, None),
            "NAME         LEGS\na               4\na long name     -\n-            1000\n"
        );
        let none: &[Pet] = &[];
        assert_eq!(
            Table::of(none, None, false).render(true, None),
            "NAME  LEGS\n"
        );
        assert_eq!(Table::of(none, None, false).render(false, None), "");
    }

    #[test]
    fn fields_choose_and_order_columns() {
        let wanted = ["weight_bytes".to_owned(), "name".to_owned()];
        let t = Table::of(&pets(), Some(&wanted), false);
        assert_eq!(
            t.render(true, None),
            "WEIGHT-BYTES  NAME\n         1 B  a\n     2.0 KiB  a long name\n         0 B  -\n"
        );
    }

    #[test]
    fn only_text_gives_way_on_a_terminal() {
        let t = Table::of(&pets(), None, false);
        assert_eq!(
            t.render(true, Some(14)),
            "NAME      LEGS\na            4\na long …     -\n-         1000\n"
        );
        // Narrower than the narrowest: the terminal folds the lines, nothing is lost.
        assert_eq!(t.render(true, Some(3)), t.render(true, Some(14)));
    }

    #[derive(Default)]
    struct Note(u32, &'static str);

    impl Row for Note {
        fn fields(&self) -> Vec<Field> {
            vec![
                wrapped("text", "TEXT", Cell::text(self.1)),
                field("n", "N", Cell::count(self.0)),
            ]
        }
    }

    #[test]
    fn a_text_that_wraps_is_whole_on_a_terminal() {
        let notes = [Note(7, "a few words and averylongword"), Note(8, "short")];
        let t = Table::of(&notes, None, false);
        assert_eq!(
            t.render(false, Some(14)),
            "a few words  7\nand\naverylongwo\nrd\nshort        8\n"
        );
        // Without a terminal a row is a line.
        assert_eq!(
            t.render(false, None),
            "a few words and averylongword  7\nshort                          8\n"
        );
    }

    #[test]
    fn lines_are_broken_where_a_person_would() {
        for (text, width, lines) in [
            ("one two", 7, "one two"),
            ("one two", 6, "one~two"),
            ("one  two ", 3, "one~two"),
            ("off|tree|all", 9, "off|tree|~all"),
            ("see /sys/huvm", 9, "see~/sys/huvm"),
            ("see longer", 4, "see~long~er"),
            ("汉字 汉字汉", 4, "汉字~汉字~汉"),
            ("ab", 0, "a~b"),
        ] {
            assert_eq!(wrap(text, width).join("~"), lines, "{text}");
        }
    }

    #[test]
    fn colours_change_no_width() {
        let cell = |t: &str, good| vec![Cell::state(t, good), Cell::Count(7)];
        let table = |color| {
            let rows = vec![cell("ok", true), cell("lost", false)];
            Table::raw(vec!["STATE".into(), "N".into()], rows, false)
                .colored(color)
                .render(true, None)
        };
        let plain = table(false);
        assert_eq!(plain, "STATE  N\nok     7\nlost   7\n");
        let colored = table(true);
        assert!(colored.contains("\x1b[31mlost\x1b[0m"), "{colored:?}");
        let mut stripped = colored;
        for code in ["\x1b[31m", "\x1b[32m", BOLD, PLAIN] {
            stripped = stripped.replace(code, "");
        }
        assert_eq!(stripped, plain);
    }

    #[test]
    fn wide_characters_count_as_two() {
        let mut all = pets();
        all[0].name = "汉字".into();
        let text = Table::of(&all, None, false).render(false, None);
        assert!(text.starts_with("汉字            4\n"), "{text}");
        assert_eq!(cut("汉字汉字", 5), "汉字…");
        assert_eq!(cut("汉字汉字", 4), "汉…");
        assert_eq!(cut("abc", 0), "…");
    }

    #[test]
    fn nothing_in_a_name_drives_the_terminal() {
        assert_eq!(
            Cell::text("a\x1b[2Jb\n").human(false),
            "a\u{fffd}[2Jb\u{fffd}"
        );
    }

    #[test]
    fn csv_quotes_what_must_be() {
        assert_eq!(
            csv_line(["a", "b,c", "d\"e", "f\ng", ""].into_iter()),
            "a,\"b,c\",\"d\"\"e\",\"f\ng\",\n"
        );
    }
}
