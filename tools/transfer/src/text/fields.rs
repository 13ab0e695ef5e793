//! Records of named fields from TSV, CSV, JSON lines and deb822 (Debian's `Field: value` stanzas).
//!
//! | format | names of fields | a field is missing when |
//! |---|---|---|
//! | TSV | the first line, or `column1`, … | it is empty |
//! | CSV | the first line, or `column1`, … | it is the text for null, which is empty by default |
//! | JSON lines | the object's members | it is `null` |
//! | deb822 | before the colon | its line is missing |
//!
//! A JSON text is its characters; other JSON values are their JSON text. A deb822 value is the text
//! after the colon and one blank. Its further lines are unchanged, including their first blank, so
//! a stanza can be written again byte for byte.

use std::collections::BTreeMap;
use std::io::Read;
use std::ops::Range;

use csv::ByteRecord;
use firn_tools::escape;
use serde_json::value::RawValue;

use super::record::{Format, RecordLines, RecordTrouble, csv_trouble, not_an_object};

/// One record.
#[derive(Debug, Default)]
pub struct Fields {
    /// Number of its first line, from 1.
    pub line: u64,
    bytes: Vec<u8>,
    spans: Vec<FieldSpan>,
}

/// A field of [`Fields::bytes`].
#[derive(Clone, Debug)]
struct FieldSpan {
    name: Range<usize>,
    value: Range<usize>,
    /// Whether it is a JSON value other than a string.
    is_json: bool,
}

impl Fields {
    fn clear(&mut self, line: u64) {
        self.line = line;
        self.bytes.clear();
        self.spans.clear();
    }

    fn push(&mut self, name: &[u8], value: &[u8]) {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(name);
        let middle = self.bytes.len();
        self.bytes.extend_from_slice(value);
        let value = middle..self.bytes.len();
        self.spans.push(FieldSpan { name: at..middle, value, is_json: false });
    }

    /// Adds a JSON value other than a string.
    fn push_json(&mut self, name: &[u8], json: &[u8]) {
        self.push(name, json);
        self.spans.last_mut().into_iter().for_each(|span| span.is_json = true);
    }

    /// Appends to the last value.
    fn go_on(&mut self, more: &[u8]) {
        self.bytes.extend_from_slice(more);
        if let Some(span) = self.spans.last_mut() {
            span.value.end = self.bytes.len();
        }
    }

    /// Iterates over names and values, in the order of the record.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.spans.iter().map(|s| (&self.bytes[s.name.clone()], &self.bytes[s.value.clone()]))
    }

    /// Reports for each field whether it is a JSON value other than a string.
    pub fn are_json(&self) -> impl Iterator<Item = bool> {
        self.spans.iter().map(|s| s.is_json)
    }

    /// Returns the value of a field.
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.iter().find(|(n, _)| *n == name).map(|(_, v)| v)
    }

    /// Sorts the fields by name.
    pub fn sort(&mut self) {
        let Fields { bytes, spans, .. } = self;
        spans.sort_by(|a, b| bytes[a.name.clone()].cmp(&bytes[b.name.clone()]));
    }
}

/// Reader of records.
pub enum FieldReader<R: Read> {
    /// TSV: the names of columns, and whether escapes are decoded.
    Tsv(RecordLines<R>, Vec<Vec<u8>>, bool),
    /// CSV: the names of columns, and the text for null.
    Csv(Box<csv::Reader<R>>, ByteRecord, Vec<Vec<u8>>, Vec<u8>),
    /// JSON lines.
    Json(RecordLines<R>),
    /// deb822.
    Deb822(RecordLines<R>),
}

fn name_of(names: &[Vec<u8>], i: usize) -> Vec<u8> {
    names.get(i).cloned().unwrap_or_else(|| format!("column{}", i + 1).into_bytes())
}

impl<R: Read> FieldReader<R> {
    /// Creates a reader of this format. `header`: the first line of TSV or CSV contains names.
    /// `raw`: a backslash in TSV is a backslash.
    pub fn new(source: R, format: Format, header: bool, raw: bool) -> Result<Self, RecordTrouble> {
        Ok(match format {
            Format::Json => FieldReader::Json(RecordLines::new(source)),
            Format::Deb822 => FieldReader::Deb822(RecordLines::new(source)),
            Format::Tsv => {
                let mut lines = RecordLines::new(source);
                let mut names = vec![];
                if header && lines.advance()? {
                    names = lines.text().split(|b| *b == b'\t').map(<[u8]>::to_vec).collect();
                }
                FieldReader::Tsv(lines, names, !raw)
            }
            Format::Csv => {
                let mut reader = csv::ReaderBuilder::new().has_headers(header).from_reader(source);
                let names = if header {
                    reader.byte_headers().map_err(csv_trouble)?.clone()
                } else {
                    ByteRecord::new()
                };
                FieldReader::Csv(
                    Box::new(reader),
                    ByteRecord::new(),
                    names.iter().map(<[u8]>::to_vec).collect(),
                    vec![],
                )
            }
        })
    }

    /// Sets the text for null in CSV.
    pub fn with_null(mut self, text: &str) -> Self {
        if let FieldReader::Csv(.., null) = &mut self {
            *null = text.as_bytes().to_vec();
        }
        self
    }

    /// Returns the names of the columns that the first line contains.
    pub fn head(&self) -> &[Vec<u8>] {
        match self {
            FieldReader::Tsv(_, names, _) | FieldReader::Csv(_, _, names, _) => names,
            FieldReader::Json(_) | FieldReader::Deb822(_) => &[],
        }
    }

    /// Returns the name of the first column, if columns have an order.
    pub fn first_name(&self) -> Option<Vec<u8>> {
        match self {
            FieldReader::Tsv(_, names, _) | FieldReader::Csv(_, _, names, _) => {
                Some(name_of(names, 0))
            }
            FieldReader::Json(_) | FieldReader::Deb822(_) => None,
        }
    }

    /// Reads the next record into `to`; returns `false` at the end.
    pub fn next(&mut self, to: &mut Fields) -> Result<bool, RecordTrouble> {
        match self {
            FieldReader::Tsv(lines, names, decode) => {
                if !lines.advance()? {
                    return Ok(false);
                }
                to.clear(lines.number());
                tsv(lines.text(), names, *decode, to)
                    .map_err(|why| RecordTrouble::Bad { line: lines.number(), why })?;
                Ok(true)
            }
            FieldReader::Csv(reader, record, names, null) => {
                if !reader.read_byte_record(record).map_err(csv_trouble)? {
                    return Ok(false);
                }
                to.clear(record.position().map_or(0, csv::Position::line));
                for (i, field) in record.iter().enumerate().filter(|(_, f)| f != null) {
                    to.push(&name_of(names, i), field);
                }
                Ok(true)
            }
            FieldReader::Json(lines) => {
                while lines.advance()? {
                    let text = lines.text().trim_ascii();
                    if !text.is_empty() {
                        to.clear(lines.number());
                        json(text, to)
                            .map_err(|why| RecordTrouble::Bad { line: lines.number(), why })?;
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            FieldReader::Deb822(lines) => stanza(lines, to),
        }
    }
}

fn tsv(line: &[u8], names: &[Vec<u8>], decode: bool, to: &mut Fields) -> Result<(), String> {
    let mut decoded = vec![];
    for (i, field) in line.split(|b| *b == b'\t').enumerate().filter(|(_, f)| !f.is_empty()) {
        if decode {
            decoded.clear();
            escape::decode(field, &mut decoded)?;
        }
        to.push(&name_of(names, i), if decode { &decoded } else { field });
    }
    Ok(())
}

fn json(text: &[u8], to: &mut Fields) -> Result<(), String> {
    let wrong = |e: serde_json::Error| not_an_object(text, &e);
    let object: BTreeMap<String, &RawValue> = serde_json::from_slice(text).map_err(wrong)?;
    for (name, value) in &object {
        match value.get() {
            "null" => {}
            text if text.starts_with('"') => {
                let text: String = serde_json::from_str(text).map_err(wrong)?;
                to.push(name.as_bytes(), text.as_bytes());
            }
            // Copied as written, so that a number keeps its digits.
            other => to.push_json(name.as_bytes(), other.as_bytes()),
        }
    }
    Ok(())
}

/// Reads a stanza up to an empty line. After a bad line, skips the rest of the stanza.
fn stanza<R: Read>(lines: &mut RecordLines<R>, to: &mut Fields) -> Result<bool, RecordTrouble> {
    to.clear(0);
    let mut bad = None;
    while lines.advance()? {
        let text = lines.text();
        if text.trim_ascii().is_empty() {
            if to.line > 0 {
                break;
            }
            continue;
        }
        if to.line == 0 {
            to.line = lines.number();
        }
        if text.starts_with(b"#") || bad.is_some() {
            continue;
        }
        let wrong =
            |why: &str| Some(RecordTrouble::Bad { line: lines.number(), why: why.to_owned() });
        if matches!(text[0], b' ' | b'\t') {
            if to.spans.is_empty() {
                bad = wrong("a continuation line without a field before it");
            } else {
                to.go_on(b"\n");
                to.go_on(lines.text());
            }
        } else if let Some(colon) = text.iter().position(|b| *b == b':').filter(|&at| at > 0) {
            let value = &text[colon + 1..];
            to.push(&text[..colon], value.strip_prefix(b" ").unwrap_or(value));
        } else {
            bad = wrong("a line without a colon after the field's name");
        }
    }
    bad.map_or(Ok(to.line > 0), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns each record as `name=value;…`, and each bad line as `line!why`.
    fn read(text: &[u8], format: Format, header: bool) -> Vec<String> {
        let mut reader =
            FieldReader::new(text, format, header, false).unwrap_or_else(|e| panic!("{e:?}"));
        let (mut to, mut out) = (Fields::default(), vec![]);
        loop {
            match reader.next(&mut to) {
                Ok(false) => return out,
                Ok(true) => {
                    let pairs = to
                        .iter()
                        .map(|(n, v)| format!("{}={}", n.escape_ascii(), v.escape_ascii()));
                    out.push(format!("{}:{}", to.line, pairs.collect::<Vec<_>>().join(";")));
                }
                Err(RecordTrouble::Bad { line, why }) => out.push(format!("{line}!{why}")),
                Err(RecordTrouble::Io(e)) => panic!("{e}"),
            }
        }
    }

    #[test]
    fn records_have_named_fields() {
        assert_eq!(
            read(b"id\tname\n1\ta\\tb\n2\t\tx\n3\t\\q\n", Format::Tsv, true),
            ["2:id=1;name=a\\tb", "3:id=2;column3=x", "4!the unknown escape \\q"]
        );
        assert_eq!(
            read(b"1,\"a,b\"\n2,\n", Format::Csv, false),
            ["1:column1=1;column2=a,b", "2:column1=2"]
        );
        let lines = b"{\"b\":\"x\\n\",\"a\":1.50,\"n\":null,\"l\":[1]}\n\n[]\n";
        let got = read(lines, Format::Json, false);
        assert_eq!(got[0].split_once(':').map(|(_, f)| f.split(';').count()), Some(3), "{got:?}");
        assert!(
            got[0].contains("b=x\\n") && got[0].contains("a=1.50") && got[0].contains("l=[1]"),
            "{got:?}"
        );
        assert!(got[1].starts_with("3!it is no JSON object"), "{got:?}");
    }

    #[test]
    fn stanzas_keep_their_lines() {
        let text = b"\n\nPackage: a\nDescription: short\n long\n .\n\tmore\nEmpty:\nTwo:  blanks\n\n# talk\nPackage: b\n\n x\n\nno colon\nPackage: c\n\nPackage: d";
        assert_eq!(
            read(text, Format::Deb822, false),
            [
                "3:Package=a;Description=short\\n long\\n .\\n\\tmore;Empty=;Two= blanks",
                "11:Package=b",
                "14!a continuation line without a field before it",
                "16!a line without a colon after the field's name",
                "19:Package=d",
            ]
        );
    }

    #[test]
    fn fields_can_be_put_in_order() {
        let mut f = Fields::default();
        for name in ["b", "a", "ab"] {
            f.push(name.as_bytes(), b"x");
        }
        f.sort();
        assert_eq!(f.iter().map(|(n, _)| n).collect::<Vec<_>>(), [&b"a"[..], b"ab", b"b"]);
        assert_eq!((f.get(b"ab"), f.get(b"c")), (Some(&b"x"[..]), None));
    }
}
