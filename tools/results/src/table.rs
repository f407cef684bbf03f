// SPDX-License-Identifier: GPL-2.0
//! A table, for a terminal and as Markdown.

/// Rows of text under a head. The columns `left` are set to the left, the rest (numbers) to the right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    head: Vec<String>,
    left: usize,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty one, whose first `left` columns hold words.
    pub fn new(left: usize, head: &[&str]) -> Table {
        Table {
            head: head.iter().map(|h| (*h).to_owned()).collect(),
            left,
            rows: Vec::new(),
        }
    }

    /// One row more. Missing cells are empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Without rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.head.iter().map(|h| h.chars().count()).collect();
        for row in &self.rows {
            for (w, cell) in widths.iter_mut().zip(row) {
                *w = (*w).max(cell.chars().count());
            }
        }
        widths
    }

    fn line(&self, cells: &[String], widths: &[usize], between: &str) -> String {
        let mut text = String::new();
        for (i, width) in widths.iter().enumerate() {
            let cell = cells.get(i).map_or("", String::as_str);
            let room = " ".repeat(width.saturating_sub(cell.chars().count()));
            if i != 0 {
                text.push_str(between);
            }
            if i < self.left {
                text.push_str(cell);
                text.push_str(&room);
            } else {
                text.push_str(&room);
                text.push_str(cell);
            }
        }
        text
    }

    /// For a terminal: head in capitals, two blanks between columns.
    pub fn text(&self) -> String {
        let widths = self.widths();
        let head: Vec<String> = self.head.iter().map(|h| h.to_uppercase()).collect();
        let mut text = String::new();
        for cells in std::iter::once(&head).chain(&self.rows) {
            text.push_str(self.line(cells, &widths, "  ").trim_end());
            text.push('\n');
        }
        text
    }

    /// As Markdown, with the columns of the source in line.
    pub fn markdown(&self) -> String {
        let widths: Vec<usize> = self.widths().into_iter().map(|w| w.max(3)).collect();
        let mut text = format!("| {} |\n|", self.line(&self.head, &widths, " | "));
        for (i, width) in widths.iter().enumerate() {
            let end = if i < self.left { '-' } else { ':' };
            text.push_str(&format!(" {}{end} |", "-".repeat(width.saturating_sub(1))));
        }
        text.push('\n');
        for row in &self.rows {
            // A bar would end the cell.
            let row: Vec<String> = row.iter().map(|c| c.replace('|', "/")).collect();
            text.push_str(&format!("| {} |\n", self.line(&row, &widths, " | ")));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut t = Table::new(1, &["name", "n"]);
        t.row(["a|b".into(), "1".into()]);
        t.row(["long name".into(), "1000".into()]);
        t.row(["short".into()]);
        t
    }

    #[test]
    fn columns_stand_in_line() {
        assert_eq!(
            sample().text(),
            "NAME          N\na|b           1\nlong name  1000\nshort\n"
        );
    }

    #[test]
    fn markdown_has_its_bars() {
        let expected = "| name      |    n |\n| --------- | ---: |\n| a/b       |    1 |\n\
                        | long name | 1000 |\n| short     |      |\n";
        assert_eq!(sample().markdown(), expected);
    }
}
