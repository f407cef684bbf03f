// SPDX-License-Identifier: GPL-2.0
//! Output: one model per command, rendered as a table for people, as rows for scripts or as a JSON document.

use crate::cli::{Cli, When};
use crate::exit::{Failure, Result};
use crate::row::{csv_line, Cell, Row, Table};
use libhuvm::Device;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::io::{ErrorKind, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Number behind the slash of a schema. It rises when a key changes meaning or goes; new keys leave it.
fn number(schema: &str) -> u32 {
    match schema {
        // 1 was a list of links.
        "topo" => 2,
        _ => 1,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Human,
    Json,
    Csv,
}

/// The envelope around every document.
#[derive(Serialize)]
struct Envelope<'a, M: Serialize> {
    schema: String,
    tool_version: &'static str,
    /// Of the driver that answered; `null` without one.
    driver_version: Option<&'a str>,
    /// When the data was taken, CLOCK_REALTIME in ns.
    time_ns: u64,
    data: Option<&'a M>,
    warnings: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Trouble>,
}

/// The `error` of a document.
#[derive(Serialize)]
struct Trouble {
    code: u8,
    name: &'static str,
    message: String,
    hint: Option<String>,
}

impl Trouble {
    fn new(e: &Failure, command: &str) -> Self {
        Trouble {
            code: e.code(),
            name: e.name(),
            message: e.to_string(),
            hint: e.hint(command),
        }
    }
}

/// A saved document, as `--json` wrote it.
#[derive(Deserialize)]
struct Saved {
    schema: String,
    #[serde(default)]
    driver_version: Option<String>,
    #[serde(default)]
    time_ns: u64,
    #[serde(default)]
    data: serde_json::Value,
    #[serde(default)]
    warnings: Vec<String>,
}

/// Where the data comes from: noted with each reading, printed with each document.
#[derive(Clone, Default)]
struct Origin {
    driver_version: Option<String>,
    /// Only known of saved documents; else it is now.
    time_ns: Option<u64>,
    warnings: Vec<String>,
}

/// A model from a saved document, with where that was from.
pub(crate) struct Loaded<M> {
    origin: Origin,
    /// The model.
    pub(crate) model: M,
}

#[derive(Default)]
struct State {
    origin: Origin,
    /// The header of a stream was printed.
    headed: bool,
    /// The failure is part of a document already.
    told: bool,
}

/// What `--from` named.
enum From {
    /// A file, or standard input.
    File(PathBuf),
    /// The text of one.
    Text(String),
}

impl From {
    fn path(&self) -> &Path {
        match self {
            From::File(path) => path,
            From::Text(_) => Path::new("-"),
        }
    }

    fn text(&self) -> std::io::Result<String> {
        let mut text = String::new();
        match self {
            From::Text(given) => text.clone_from(given),
            From::File(path) if path.as_os_str() == "-" => {
                std::io::stdin().read_to_string(&mut text)?;
            }
            From::File(path) => {
                std::fs::File::open(path)?.read_to_string(&mut text)?;
            }
        }
        Ok(text)
    }
}

/// How to print, and where data comes from.
pub(crate) struct Out {
    mode: Mode,
    fields: Option<Vec<String>>,
    /// Exact numbers in tables.
    pub(crate) exact: bool,
    /// Tables have titles.
    pub(crate) header: bool,
    pub(crate) color: bool,
    /// No more than what was asked for.
    pub(crate) quiet: bool,
    /// Every column.
    pub(crate) verbose: bool,
    from: Option<From>,
    /// The command's words, for hints.
    command: String,
    /// What would be on standard output and stderr is put here instead.
    kept: Option<RefCell<String>>,
    state: RefCell<State>,
}

/// CLOCK_REALTIME in ns.
fn now_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|d| u64::try_from(d.as_nanos()).ok())
        .unwrap_or(0)
}

/// Writes all of it at once. A reader that went away ends the command, and is no failure of ours.
fn write(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Err(Failure::Closed),
        Err(e) => Err(Failure::Failed(
            format!("standard output: {e}"),
            "see that it has room and can be written to".into(),
        )),
    }
}

/// A line on stderr. Nobody may be there to read it: that is no failure.
fn aside(line: &str) {
    let _lost = writeln!(std::io::stderr().lock(), "{line}");
}

/// Writes the rows to the file of `--output`, as a JSON array; why it could not.
pub(crate) fn save<R: Serialize>(path: Option<&Path>, rows: &[R]) -> Option<Failure> {
    let path = path?;
    let text = serde_json::to_string_pretty(rows).map_err(|e| Failure::file(path, e));
    text.and_then(|t| std::fs::write(path, t + "\n").map_err(|e| Failure::file(path, e)))
        .err()
}

/// Whether the file of `--output` can be written. Nothing is in it that was not; one that was not there is not there afterwards.
///
/// # Errors
/// It cannot.
pub(crate) fn can_save(path: Option<&Path>) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let failed = |e| Failure::file(path, e);
    let mut file = std::fs::OpenOptions::new();
    match std::fs::metadata(path) {
        Ok(m) if m.is_file() || m.is_dir() => {
            file.append(true).open(path).map(drop).map_err(failed)
        }
        // Who reads a pipe would take a look for the end of it.
        Ok(_) => Ok(()),
        // Its file is made when there is something to write.
        Err(_) if path.is_symlink() => Ok(()),
        Err(_) => {
            let new = file.write(true).create_new(true).open(path);
            new.and_then(|_| std::fs::remove_file(path)).map_err(failed)
        }
    }
}

/// Columns and lines of the terminal; a serial line does not know them.
pub(crate) fn terminal_size() -> Option<(u16, u16)> {
    ratatui::crossterm::terminal::size()
        .ok()
        .filter(|(w, h)| *w != 0 && *h != 0)
}

/// Whether to use colours: the option counts before the environment.
fn colors(when: When, terminal: bool) -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
    match when {
        When::Always => true,
        When::Never => false,
        When::Auto => {
            terminal && set("NO_COLOR").is_none() && set("TERM").is_none_or(|t| t != "dumb")
        }
    }
}

/// Schema with its number.
fn full(schema: &str) -> String {
    format!("uvmctl.{schema}/{}", number(schema))
}

/// Who reads a document of schema `found`, which a command was given that reads `wanted`.
fn reader_of(found: &str, wanted: &str) -> String {
    let name = found.split('/').next().unwrap_or_default();
    let words = match name.strip_prefix("uvmctl.") {
        Some(n) if n == wanted => return "another version of uvmctl wrote it: use that".into(),
        Some("event") => "events".into(),
        Some("stat.latency") => "stat --latency".into(),
        Some("run.list") => "run --list".into(),
        Some("error") => return "a command failed there: its 'error' says why".into(),
        Some(
            "policy.set" | "policy.reset" | "quota.set" | "inject" | "trace.record"
            | "trace.replay",
        ) => return "it tells what a command did, and none reads that again".into(),
        Some(n) => n.replace('.', " "),
        None => return "no uvmctl wrote it".into(),
    };
    format!("'uvmctl {words}' reads it")
}

impl Out {
    /// As the global options say.
    pub(crate) fn new(args: &Cli) -> Self {
        Out {
            mode: match (args.json, args.csv) {
                (true, _) => Mode::Json,
                (_, true) => Mode::Csv,
                _ => Mode::Human,
            },
            fields: args.fields.clone(),
            exact: args.bytes,
            header: !args.no_header,
            color: colors(args.color, std::io::stdout().is_terminal()),
            quiet: args.quiet,
            verbose: args.verbose,
            from: args.from.clone().map(From::File),
            command: "uvmctl".into(),
            kept: None,
            state: RefCell::default(),
        }
    }

    /// As for a command line that could not be read: JSON or text.
    pub(crate) fn bare(json: bool) -> Self {
        Out {
            mode: if json { Mode::Json } else { Mode::Human },
            fields: None,
            exact: false,
            header: true,
            color: false,
            quiet: false,
            verbose: false,
            from: None,
            command: "uvmctl".into(),
            kept: None,
            state: RefCell::default(),
        }
    }

    /// For this command, which hints name.
    pub(crate) fn of(self, command: String) -> Self {
        Out { command, ..self }
    }

    /// As [`Self::new`], but `text` is the document of `--from`, and what is printed is kept.
    pub(crate) fn given(args: &Cli, text: &str) -> Self {
        Out {
            from: Some(From::Text(text.into())),
            kept: Some(RefCell::default()),
            ..Out::new(args)
        }
    }

    /// What was printed, of one that keeps it.
    pub(crate) fn into_kept(self) -> String {
        self.kept.map(RefCell::into_inner).unwrap_or_default()
    }

    fn terminal(&self) -> bool {
        self.kept.is_none() && std::io::stdout().is_terminal()
    }

    fn write(&self, text: &str) -> Result<()> {
        match &self.kept {
            Some(kept) => kept.borrow_mut().push_str(text),
            None => write(text)?,
        }
        Ok(())
    }

    fn aside(&self, line: &str) {
        match &self.kept {
            Some(kept) => kept.borrow_mut().push_str(line),
            None => aside(line),
        }
    }

    /// Bytes, exact if asked for.
    pub(crate) fn bytes(&self, n: u64) -> String {
        Cell::Bytes(n).human(self.exact)
    }

    /// Whether a person sits at a terminal, and neither programs nor rows are asked for.
    pub(crate) fn on_terminal(&self) -> bool {
        self.mode == Mode::Human
            && self.fields.is_none()
            && self.terminal()
            && std::io::stdin().is_terminal()
    }

    /// Whether people read along on stderr.
    pub(crate) fn talks(&self) -> bool {
        !self.quiet && std::io::stderr().is_terminal()
    }

    /// The fields asked for with `--fields`.
    pub(crate) fn fields(&self) -> Option<&[String]> {
        self.fields.as_deref()
    }

    /// Whether data comes from a file.
    pub(crate) fn offline(&self) -> bool {
        self.from.is_some()
    }

    /// Version of the driver that the data is from, if it is known.
    pub(crate) fn driver_version(&self) -> Option<String> {
        self.state.borrow().origin.driver_version.clone()
    }

    /// Opens the driver, and notes its version for the documents to come.
    pub(crate) fn device(&self) -> Result<Device> {
        let device = Device::open()?;
        self.state.borrow_mut().origin.driver_version = Some(device.driver_version()?);
        Ok(device)
    }

    /// The documents of `--from` that have this schema, in their order; `None` without `--from`.
    pub(crate) fn saved<M: DeserializeOwned>(
        &self,
        schema: &str,
    ) -> Result<Option<Vec<Loaded<M>>>> {
        let Some(from) = &self.from else {
            return Ok(None);
        };
        let path = from.path();
        let failed = |e: &dyn std::fmt::Display| Failure::file(path, e);
        let text = from.text().map_err(|e| failed(&e))?;
        let mut all = Vec::new();
        for document in serde_json::Deserializer::from_str(&text).into_iter::<Saved>() {
            let d = document.map_err(|e| failed(&e))?;
            if d.schema != full(schema) {
                return Err(Failure::Advised(
                    format!(
                        "{} holds '{}', this command reads '{}'",
                        path.display(),
                        d.schema,
                        full(schema)
                    ),
                    reader_of(&d.schema, schema),
                ));
            }
            all.push(Loaded {
                model: serde_json::from_value(d.data).map_err(|e| failed(&e))?,
                origin: Origin {
                    driver_version: d.driver_version,
                    time_ns: Some(d.time_ns),
                    warnings: d.warnings,
                },
            });
        }
        if all.is_empty() {
            return Err(failed(&"there is no document in it"));
        }
        Ok(Some(all))
    }

    /// Takes the model of a saved document, whose origin goes into the documents printed from here on.
    pub(crate) fn adopt<M>(&self, loaded: Loaded<M>) -> M {
        self.state.borrow_mut().origin = loaded.origin;
        loaded.model
    }

    /// The model: from the file of `--from`, else from the driver.
    pub(crate) fn read<M: DeserializeOwned>(
        &self,
        schema: &str,
        gather: impl FnOnce(&Device) -> Result<M>,
    ) -> Result<M> {
        match self.saved(schema)? {
            Some(all) => match all.into_iter().next_back() {
                Some(last) => Ok(self.adopt(last)),
                None => Err(Failure::File("there is no document".into())),
            },
            None => gather(&self.device()?),
        }
    }

    /// A table of rows, with the fields asked for or the usual ones, as wide as the terminal at most.
    pub(crate) fn render<R: Row>(&self, rows: &[R]) -> String {
        self.draw(self.table(rows))
    }

    /// A table of rows, with the fields asked for, all of them, or the usual ones.
    fn table<R: Row>(&self, rows: &[R]) -> Table {
        let every = || {
            let fields = R::default().fields();
            fields.iter().map(|f| f.name.to_owned()).collect()
        };
        let wanted: Option<Vec<String>> = match &self.fields {
            Some(f) => Some(f.clone()),
            None => self.verbose.then(every),
        };
        Table::of(rows, wanted.as_deref(), self.exact)
    }

    /// A table as text, as wide as the terminal at most.
    pub(crate) fn draw(&self, table: Table) -> String {
        let width = if self.terminal() {
            terminal_size().map(|(w, _)| usize::from(w))
        } else {
            None
        };
        table.colored(self.color).render(self.header, width)
    }

    /// Prints `model`: as JSON under `schema`, as its rows (`--csv`, `--fields`), or as the text that `human` makes.
    pub(crate) fn show<M: Serialize, R: Row>(
        &self,
        schema: &str,
        model: &M,
        rows: &[R],
        human: impl FnOnce() -> String,
    ) -> Result<()> {
        match self.mode {
            Mode::Json => self.write(&self.document(schema, Some(model), None, false)?),
            Mode::Csv => self.write(&self.csv(rows, self.header)),
            Mode::Human if self.fields.is_some() => self.write(&self.render(rows)),
            Mode::Human => self.write(&human()),
        }
    }

    /// As [`Self::show`] where the rows are the model and the table.
    pub(crate) fn list<R: Row + Serialize>(&self, schema: &str, rows: &[R]) -> Result<()> {
        self.show(schema, &rows, rows, || self.render(rows))
    }

    /// As [`Self::list`], for a result that shows a failure: both are in one document.
    pub(crate) fn list_failed<R: Row + Serialize>(
        &self,
        schema: &str,
        rows: &[R],
        failure: Option<Failure>,
    ) -> Result<()> {
        self.list_failed_as(schema, rows, failure, || self.render(rows))
    }

    /// As [`Self::list_failed`], with other text than a table.
    pub(crate) fn list_failed_as<R: Row + Serialize>(
        &self,
        schema: &str,
        rows: &[R],
        failure: Option<Failure>,
        human: impl FnOnce() -> String,
    ) -> Result<()> {
        if self.mode == Mode::Json {
            self.write(&self.document(schema, Some(&rows), failure.as_ref(), false)?)?;
            self.state.borrow_mut().told = true;
        } else {
            self.show(schema, &rows, rows, human)?;
        }
        failure.map_or(Ok(()), Err)
    }

    /// As [`Self::show`], for one of many: one line a document, one header for all rows.
    pub(crate) fn stream<M: Serialize, R: Row>(
        &self,
        schema: &str,
        model: &M,
        rows: &[R],
        human: impl FnOnce() -> String,
    ) -> Result<()> {
        let header = self.header && !std::mem::replace(&mut self.state.borrow_mut().headed, true);
        match self.mode {
            Mode::Json => self.write(&self.document(schema, Some(model), None, true)?),
            Mode::Csv => self.write(&self.csv(rows, header)),
            Mode::Human if self.fields.is_some() => {
                let table = Table::of(rows, self.fields.as_deref(), self.exact);
                self.write(&table.steady().render(header, None))
            }
            Mode::Human => self.write(&human()),
        }
    }

    fn csv<R: Row>(&self, rows: &[R], header: bool) -> String {
        let mut text = String::new();
        let names = |r: &R| r.fields().iter().map(|f| f.name.to_owned()).collect();
        let wanted: Vec<String> = self.fields.clone().unwrap_or_else(|| names(&R::default()));
        if header {
            text.push_str(&csv_line(wanted.iter().map(String::as_str)));
        }
        for r in rows {
            let fields = r.fields();
            let cells: Vec<String> = wanted
                .iter()
                .map(|w| {
                    let field = fields.iter().find(|f| f.name == *w);
                    field.map_or_else(String::new, |f| f.cell.plain())
                })
                .collect();
            text.push_str(&csv_line(cells.iter().map(String::as_str)));
        }
        text
    }

    fn document<M: Serialize>(
        &self,
        schema: &str,
        data: Option<&M>,
        error: Option<&Failure>,
        one_line: bool,
    ) -> Result<String> {
        let state = self.state.borrow();
        let doc = Envelope {
            schema: full(schema),
            tool_version: env!("CARGO_PKG_VERSION"),
            driver_version: state.origin.driver_version.as_deref(),
            time_ns: state.origin.time_ns.unwrap_or_else(now_ns),
            data,
            warnings: &state.origin.warnings,
            error: error.map(|e| Trouble::new(e, &self.command)),
        };
        let text = if !one_line && self.terminal() {
            serde_json::to_string_pretty(&doc)
        } else {
            serde_json::to_string(&doc)
        };
        match text {
            Ok(t) => Ok(t + "\n"),
            Err(e) => Err(Failure::File(format!("cannot write {}: {e}", full(schema)))),
        }
    }

    /// Says what failed: a line for people on stderr, and in JSON mode a document on stdout unless one told it already.
    pub(crate) fn error(&self, e: &Failure) {
        if self.mode == Mode::Json && !self.state.borrow().told {
            // There is nobody left to tell if this fails too.
            let _closed = self
                .document::<()>("error", None, Some(e), false)
                .and_then(|text| self.write(&text));
        }
        match e.hint(&self.command).filter(|_| !self.quiet) {
            Some(h) => self.aside(&format!("uvmctl: {e}; hint: {h}")),
            None => self.aside(&format!("uvmctl: {e}")),
        }
    }

    /// Says on stderr what went wrong, and in the documents that are still to come. Once, though these may be many.
    pub(crate) fn warn(&self, what: &str) {
        let known = |s: &State| s.origin.warnings.iter().any(|w| w == what);
        if known(&self.state.borrow()) {
            return;
        }
        self.aside(&format!("uvmctl: {what}"));
        self.state.borrow_mut().origin.warnings.push(what.into());
    }

    /// Says on stderr what is going on; not with `--quiet`.
    pub(crate) fn note(&self, what: &str) {
        if !self.quiet {
            self.aside(what);
        }
    }

    /// Prints text as it is.
    pub(crate) fn text(&self, text: &str) -> Result<()> {
        self.write(text)
    }
}

#[cfg(test)]
mod tests {
    use super::reader_of;

    #[test]
    fn a_document_of_another_command_says_whose_it_is() {
        for (found, says) in [
            ("uvmctl.mem.show/1", "'uvmctl mem show' reads it"),
            ("uvmctl.event/1", "'uvmctl events' reads it"),
            ("uvmctl.stat.latency/1", "'uvmctl stat --latency' reads it"),
            (
                "uvmctl.gpu.list/9",
                "another version of uvmctl wrote it: use that",
            ),
            ("", "no uvmctl wrote it"),
        ] {
            assert_eq!(reader_of(found, "gpu.list"), says, "{found}");
        }
    }
}
