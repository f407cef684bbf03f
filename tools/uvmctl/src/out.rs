// SPDX-License-Identifier: GPL-2.0
//! Output: one model, rendered as a table for people or as JSON for programs.

use crate::cli::Cli;
use crate::exit::Failure;
use serde::Serialize;
use serde_json::{json, Value};
use std::io::{IsTerminal, Write};

/// How to print.
pub(crate) struct Out {
    json: bool,
    /// Exact numbers in tables.
    pub(crate) exact: bool,
    header: bool,
}

/// A table: header, and rows of cells. Numbers are right-aligned.
pub(crate) struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(head: &[&'static str]) -> Self {
        Table {
            head: head.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The lines of the table.
    pub(crate) fn render(&self, header: bool) -> String {
        let columns = self.head.len();
        let width = |c: usize| {
            let cells = self
                .rows
                .iter()
                .filter_map(|r| r.get(c))
                .map(|s| s.chars().count());
            cells
                .chain(self.head.get(c).map(|h| h.len()))
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let numeric: Vec<bool> = (0..columns)
            .map(|c| {
                let mut cells = self
                    .rows
                    .iter()
                    .filter_map(|r| r.get(c))
                    .filter(|s| *s != "-")
                    .peekable();
                cells.peek().is_some()
                    && cells
                        .all(|s| s.starts_with(|ch: char| ch.is_ascii_digit()) && !s.contains(':'))
            })
            .collect();
        let line = |cells: &[String]| {
            let mut text = String::new();
            for (c, (w, right)) in widths.iter().zip(&numeric).enumerate() {
                let cell = cells.get(c).map_or("", String::as_str);
                if c != 0 {
                    text.push_str("  ");
                }
                let pad = " ".repeat(w.saturating_sub(cell.chars().count()));
                if *right {
                    text.push_str(&pad);
                    text.push_str(cell);
                } else {
                    text.push_str(cell);
                    text.push_str(&pad);
                }
            }
            text.trim_end().to_owned() + "\n"
        };
        let mut all = String::new();
        if header {
            all.push_str(&line(
                &self
                    .head
                    .iter()
                    .map(|h| (*h).to_owned())
                    .collect::<Vec<_>>(),
            ));
        }
        for r in &self.rows {
            all.push_str(&line(r));
        }
        all
    }
}

impl Out {
    /// As the global options say.
    pub(crate) fn new(args: &Cli) -> Self {
        Out {
            json: args.json,
            exact: args.bytes,
            header: !args.no_header,
        }
    }

    /// Bytes, exact if asked for.
    pub(crate) fn bytes(&self, n: u64) -> String {
        if self.exact {
            n.to_string()
        } else {
            crate::units::bytes(n)
        }
    }

    /// Prints `model`: as JSON under `schema`, or as what `table` makes.
    pub(crate) fn show<T: Serialize>(
        &self,
        schema: &str,
        model: &T,
        table: impl FnOnce() -> String,
    ) {
        let text = if self.json {
            self.document(schema, serde_json::to_value(model).unwrap_or(Value::Null))
        } else {
            table()
        };
        // A reader that went away is no failure of ours.
        let _closed = std::io::stdout().write_all(text.as_bytes());
    }

    /// As [`Self::show`] with a [`Table`].
    pub(crate) fn table<T: Serialize>(
        &self,
        schema: &str,
        model: &T,
        table: impl FnOnce() -> Table,
    ) {
        self.show(schema, model, || table().render(self.header));
    }

    fn document(&self, schema: &str, data: Value) -> String {
        let doc = json!({
            "schema": format!("uvmctl.{schema}/1"),
            "tool_version": env!("CARGO_PKG_VERSION"),
            "data": data,
            "warnings": [],
        });
        self.to_text(&doc)
    }

    fn to_text(&self, doc: &Value) -> String {
        let text = if std::io::stdout().is_terminal() {
            serde_json::to_string_pretty(doc)
        } else {
            serde_json::to_string(doc)
        };
        text.unwrap_or_default() + "\n"
    }

    /// Says what failed: a line for people on stderr, and in JSON mode a document on stdout.
    pub(crate) fn error(&self, e: &Failure) {
        let hint = e.hint();
        if self.json {
            let doc = json!({
                "schema": "uvmctl.error/1",
                "tool_version": env!("CARGO_PKG_VERSION"),
                "error": { "code": e.code(), "name": e.name(), "message": e.to_string(), "hint": hint },
            });
            let _closed = std::io::stdout().write_all(self.to_text(&doc).as_bytes());
        }
        match hint {
            Some(h) => eprintln!("uvmctl: {e}; hint: {h}"),
            None => eprintln!("uvmctl: {e}"),
        }
    }

    /// Whether people read along on stderr.
    pub(crate) fn talks(&self) -> bool {
        std::io::stderr().is_terminal()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_align_right_and_text_left() {
        let mut t = Table::new(&["NAME", "N"]);
        t.row(vec!["a".into(), "5".into()]);
        t.row(vec!["long".into(), "1234".into()]);
        t.row(vec!["b".into(), "-".into()]);
        assert_eq!(
            t.render(true),
            "NAME     N\na        5\nlong  1234\nb        -\n"
        );
        assert_eq!(t.render(false).lines().count(), 3);
    }
}
