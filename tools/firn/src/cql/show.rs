//! Prints results: as tables like cqlsh, rows as lists of their columns, rows as JSON objects,
//! definitions as text.
//!
//! Invariant: values are shortened only for a terminal, and the output says so.

use std::borrow::Cow;
use std::io::{self, Write};

use firn_cql::internals::values::exported_json;
use firn_cql::{ResultKind, Row, Rows};
use firn_tools::output::Style;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::cell::cell;

/// Format of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShowStyle {
    /// One line per row, with a header.
    Table,
    /// One list of columns per row.
    Expanded,
    /// One JSON object per row.
    Json,
}

/// Prints the pages of one result.
pub struct RowPrinter {
    look: ShowStyle,
    style: Style,
    rows: u64,
    /// Columns of the terminal; `None` without a terminal.
    room: Option<usize>,
    /// Width of the widest value so far, for each column of the table.
    widths: Vec<usize>,
    /// Whether values were shortened.
    is_cut: bool,
    /// Whether the result is the text of `DESCRIBE`.
    is_text: bool,
    /// Whether the result is that of a conditional change.
    is_condition: bool,
}

/// Pads a text to a width in terminal columns.
fn pad(text: &str, width: usize, left: bool) -> String {
    let blanks = " ".repeat(width.saturating_sub(text.width()));
    if left { format!("{text}{blanks}") } else { format!("{blanks}{text}") }
}

/// Minimum width of a column with shortened values.
const NARROWEST: usize = 10;

/// Returns the widths of columns with which a line fits: the widest columns shrink first, down to
/// [`NARROWEST`]. `None` if this is not enough.
fn fit(widths: &[usize], room: Option<usize>) -> Option<Vec<usize>> {
    let Some(room) = room else { return Some(widths.to_vec()) };
    // A blank before the line, and " | " between its columns.
    let room = room.saturating_sub(1 + 3 * widths.len().saturating_sub(1));
    let taken = |most: usize| widths.iter().map(|w| *w.min(&most)).sum::<usize>();
    let widest = widths.iter().copied().max().unwrap_or(0);
    if taken(widest) <= room {
        return Some(widths.to_vec());
    }
    let most = (NARROWEST..widest).rev().find(|most| taken(*most) <= room)?;
    Some(widths.iter().map(|w| *w.min(&most)).collect())
}

/// Shortens a text to this width, with an ellipsis at the end.
fn cut(text: &str, width: usize) -> Cow<'_, str> {
    if text.width() <= width {
        return text.into();
    }
    let (mut out, mut left) = (String::new(), width.saturating_sub(1));
    for c in text.chars() {
        match left.checked_sub(c.width().unwrap_or(0)) {
            Some(less) => left = less,
            None => break,
        }
        out.push(c);
    }
    out.push('…');
    out.into()
}

fn cells(row: Row<'_>) -> Vec<String> {
    row.columns()
        .iter()
        .enumerate()
        .map(|(i, c)| cell(&c.column_type.value_type, row.bytes(i)))
        .collect()
}

/// Formats a row as one line of JSON, in the order of its columns, which `COPY FROM` reads.
pub fn object(row: Row<'_>) -> String {
    let member = |(i, c): (usize, &firn_cql::ColumnSpec)| {
        format!(
            "{}: {}",
            serde_json::json!(c.name),
            exported_json(&c.column_type.value_type, row.bytes(i))
        )
    };
    format!("{{{}}}", row.columns().iter().enumerate().map(member).collect::<Vec<_>>().join(", "))
}

impl RowPrinter {
    /// Creates the printer of one result.
    pub fn new(look: ShowStyle, style: Style, room: Option<usize>) -> RowPrinter {
        RowPrinter {
            look,
            style,
            rows: 0,
            room,
            widths: vec![],
            is_cut: false,
            is_text: false,
            is_condition: false,
        }
    }

    /// Prints a page.
    pub fn page(&mut self, page: &Rows, out: &mut dyn Write) -> io::Result<()> {
        if *page.kind() != ResultKind::Rows {
            return Ok(());
        }
        self.is_text =
            page.columns().first().is_some_and(|c| c.keyspace == "system" && c.table == "describe");
        self.is_condition = page.columns().first().is_some_and(|c| c.name == "[applied]");
        match self.look {
            ShowStyle::Json => page.iter().try_for_each(|row| writeln!(out, "{}", object(row)))?,
            _ if self.is_text => described(page, out)?,
            ShowStyle::Expanded => self.expanded(page, out)?,
            ShowStyle::Table => self.table(page, out)?,
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
        let Some(widths) = fit(&self.widths, self.room) else {
            self.look = ShowStyle::Expanded;
            return self.expanded(page, out);
        };
        self.is_cut |= widths != self.widths;
        if first {
            let head: Vec<_> =
                names.iter().zip(&widths).map(|(n, w)| pad(&cut(n, *w), *w, true)).collect();
            let rule: Vec<_> = widths.iter().map(|w| "-".repeat(w + 2)).collect();
            let rule = rule.join("+");
            let rule = &rule[..self.room.map_or(rule.len(), |room| room.min(rule.len()))];
            writeln!(out, "\n {}\n{rule}", self.style.heading(head.join(" | ").trim_end()))?;
        }
        for line in &lines {
            let line: Vec<_> =
                line.iter().zip(&widths).map(|(t, w)| pad(&cut(t, *w), *w, false)).collect();
            writeln!(out, " {}", line.join(" | "))?;
        }
        Ok(())
    }

    fn expanded(&mut self, page: &Rows, out: &mut dyn Write) -> io::Result<()> {
        let names = page.columns().iter().map(|c| c.name.width()).max().unwrap_or(0);
        for (i, row) in page.iter().enumerate() {
            let texts = cells(row);
            let values = texts.iter().map(|t| t.width()).max().unwrap_or(0);
            writeln!(
                out,
                "\n{}",
                self.style.heading(format!("@ Row {}", self.rows + i as u64 + 1))
            )?;
            let values = (values + 2)
                .min(self.room.map_or(usize::MAX, |room| room.saturating_sub(names + 3).max(1)));
            writeln!(out, "{}+{}", "-".repeat(names + 2), "-".repeat(values))?;
            for (column, text) in page.columns().iter().zip(&texts) {
                writeln!(out, " {} | {text}", pad(&column.name, names, true))?;
            }
        }
        Ok(())
    }

    /// Prints the footer of a result after its last page.
    pub fn end(&self, page: &Rows, out: &mut dyn Write) -> io::Result<()> {
        match (page.kind(), self.look) {
            (ResultKind::Rows, ShowStyle::Table | ShowStyle::Expanded) if self.is_text => Ok(()),
            (ResultKind::Rows, ShowStyle::Table | ShowStyle::Expanded) if self.is_condition => {
                writeln!(out)
            }
            (ResultKind::Rows, ShowStyle::Table | ShowStyle::Expanded) => {
                let cut = if self.is_cut {
                    ", cut to the terminal's width: EXPAND ON shows all of them"
                } else {
                    ""
                };
                writeln!(out, "\n({} rows{cut})", self.rows)
            }
            _ => Ok(()),
        }
    }
}

/// Prints definitions as statements, and names grouped by keyspace.
fn described(page: &Rows, out: &mut dyn Write) -> io::Result<()> {
    let text = |row: Row<'_>, name: &str| row.get::<String>(name).unwrap_or_default();
    let has = |name: &str| page.columns().iter().any(|c| c.name == name);
    if has("create_statement") {
        return page
            .iter()
            .try_for_each(|row| writeln!(out, "\n{}", text(row, "create_statement")));
    }
    if !has("keyspace_name") {
        let line = |(c, t): (&firn_cql::ColumnSpec, String)| format!("{}: {t}", c.name);
        return page.iter().try_for_each(|row| {
            writeln!(
                out,
                "\n{}",
                row.columns().iter().zip(cells(row)).map(line).collect::<Vec<_>>().join("\n")
            )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_columns_give_way_first() {
        assert_eq!(fit(&[5, 200], None), Some(vec![5, 200]));
        assert_eq!(fit(&[5, 20], Some(80)), Some(vec![5, 20]));
        assert_eq!(fit(&[5, 200], Some(80)), Some(vec![5, 71]));
        assert_eq!(fit(&[50, 3, 60], Some(80)), Some(vec![35, 3, 35]));
        assert_eq!(fit(&[20; 8], Some(80)), None);
        for room in 0..200 {
            let Some(widths) = fit(&[30, 8, 90, 12], Some(room)) else { continue };
            assert!(1 + widths.iter().sum::<usize>() + 9 <= room, "{room}: {widths:?}");
        }
    }

    #[test]
    fn what_is_cut_ends_with_an_ellipsis() {
        assert_eq!(
            (cut("short", 5), cut("longer", 5), cut("雪雪雪", 5), cut("雪雪雪", 4)),
            ("short".into(), "long…".into(), "雪雪…".into(), "雪…".into())
        );
    }
}
