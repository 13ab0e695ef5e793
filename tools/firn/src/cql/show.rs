//! Results as the shell prints them: a table as cqlsh draws it, rows as lists of their columns, a JSON object a row, definitions as text.

use std::io::{self, Write};

use firn_cql::exec::Kind;
use firn_cql::values::json;
use firn_cql::{Row, Rows};
use firn_tools::output::Style;
use unicode_width::UnicodeWidthStr;

use super::cell::cell;

/// How rows look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// A line each, with a head.
    Table,
    /// A list of columns each.
    Expanded,
    /// A JSON object each.
    Json,
}

/// Prints the pages of one result.
pub struct Printer {
    look: Look,
    style: Style,
    rows: u64,
    widths: Vec<usize>,
    /// What `DESCRIBE` answers is text.
    is_text: bool,
    /// A conditional change says whether it was applied.
    is_condition: bool,
}

/// Where a row of the table has its place, in columns of a terminal.
fn pad(text: &str, width: usize, left: bool) -> String {
    let blanks = " ".repeat(width.saturating_sub(text.width()));
    if left { format!("{text}{blanks}") } else { format!("{blanks}{text}") }
}

fn cells(row: Row<'_>) -> Vec<String> {
    row.columns().iter().enumerate().map(|(i, c)| cell(&c.of.of, row.bytes(i))).collect()
}

/// A row as one line of JSON, in the order of its columns.
pub fn object(row: Row<'_>) -> String {
    let member = |(i, c): (usize, &firn_cql::values::ColumnSpec)| {
        format!("{}: {}", serde_json::json!(c.name), json(&c.of.of, row.bytes(i)))
    };
    format!("{{{}}}", row.columns().iter().enumerate().map(member).collect::<Vec<_>>().join(", "))
}

impl Printer {
    /// For one result.
    pub fn new(look: Look, style: Style) -> Printer {
        Printer { look, style, rows: 0, widths: vec![], is_text: false, is_condition: false }
    }

    /// Prints a page.
    pub fn page(&mut self, page: &Rows, out: &mut dyn Write) -> io::Result<()> {
        if *page.kind() != Kind::Rows {
            return Ok(());
        }
        self.is_text = page.columns().first().is_some_and(|c| c.keyspace == "system" && c.table == "describe");
        self.is_condition = page.columns().first().is_some_and(|c| c.name == "[applied]");
        match self.look {
            Look::Json => page.iter().try_for_each(|row| writeln!(out, "{}", object(row)))?,
            _ if self.is_text => described(page, out)?,
            Look::Expanded => self.expanded(page, out)?,
            Look::Table => self.table(page, out)?,
        }
        self.rows += page.len() as u64;
        Ok(())
    }

    fn table(&mut self, page: &Rows, out: &mut dyn Write) -> io::Result<()> {
        let names: Vec<&str> = page.columns().iter().map(|c| &*c.name).collect();
        let lines: Vec<Vec<String>> = page.iter().map(cells).collect();
        let first = self.widths.is_empty();
        if first {
            self.widths = names.iter().map(|n| n.width()).collect();
        }
        for line in &lines {
            for (width, text) in self.widths.iter_mut().zip(line) {
                *width = (*width).max(text.width());
            }
        }
        if first {
            let head: Vec<_> = names.iter().zip(&self.widths).map(|(n, w)| pad(n, *w, true)).collect();
            let rule: Vec<_> = self.widths.iter().map(|w| "-".repeat(w + 2)).collect();
            writeln!(out, "\n {}\n{}", self.style.heading(head.join(" | ").trim_end()), rule.join("+"))?;
        }
        for line in &lines {
            let line: Vec<_> = line.iter().zip(&self.widths).map(|(t, w)| pad(t, *w, false)).collect();
            writeln!(out, " {}", line.join(" | "))?;
        }
        Ok(())
    }

    fn expanded(&mut self, page: &Rows, out: &mut dyn Write) -> io::Result<()> {
        let names = page.columns().iter().map(|c| c.name.width()).max().unwrap_or(0);
        for (i, row) in page.iter().enumerate() {
            let texts = cells(row);
            let values = texts.iter().map(|t| t.width()).max().unwrap_or(0);
            writeln!(out, "\n{}", self.style.heading(format!("@ Row {}", self.rows + i as u64 + 1)))?;
            writeln!(out, "{}+{}", "-".repeat(names + 2), "-".repeat(values + 2))?;
            for (column, text) in page.columns().iter().zip(&texts) {
                writeln!(out, " {} | {text}", pad(&column.name, names, true))?;
            }
        }
        Ok(())
    }

    /// Prints what stands below a result, once all its pages are there.
    pub fn end(&self, page: &Rows, out: &mut dyn Write) -> io::Result<()> {
        match (page.kind(), self.look) {
            (Kind::Rows, Look::Table | Look::Expanded) if self.is_text => Ok(()),
            (Kind::Rows, Look::Table | Look::Expanded) if self.is_condition => writeln!(out),
            (Kind::Rows, Look::Table | Look::Expanded) => writeln!(out, "\n({} rows)", self.rows),
            _ => Ok(()),
        }
    }
}

/// Definitions as the statements that make them; names by their keyspace.
fn described(page: &Rows, out: &mut dyn Write) -> io::Result<()> {
    let text = |row: Row<'_>, name: &str| row.get::<String>(name).unwrap_or_default();
    let has = |name: &str| page.columns().iter().any(|c| c.name == name);
    if has("create_statement") {
        return page.iter().try_for_each(|row| writeln!(out, "\n{}", text(row, "create_statement")));
    }
    if !has("keyspace_name") {
        let line = |(c, t): (&firn_cql::values::ColumnSpec, String)| format!("{}: {t}", c.name);
        return page.iter().try_for_each(|row| {
            writeln!(out, "\n{}", row.columns().iter().zip(cells(row)).map(line).collect::<Vec<_>>().join("\n"))
        });
    }
    let mut keyspace = String::new();
    for row in page.iter() {
        let (home, kind, name) = (text(row, "keyspace_name"), text(row, "type"), text(row, "name"));
        if kind != "keyspace" && home != keyspace {
            writeln!(out, "\nKeyspace {home}\n---------{}", "-".repeat(home.width()))?;
            keyspace = home;
        }
        writeln!(out, "{name}")?;
    }
    Ok(())
}
