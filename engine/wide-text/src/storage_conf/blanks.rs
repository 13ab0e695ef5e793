//! Repairs a fault of printed copies of `storage-conf.xml`: blanks after `<` and `</`, and between
//! `/` and `>`.
//!
//! It adds and loses nothing: such blanks move after the name or before the slash, so positions in
//! messages are off by a few columns at most. Comments, CDATA sections, processing instructions,
//! attribute values and text are unchanged. The input may be any text.

/// Returns the document with repaired tags.
pub fn tidy(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        rest = match opaque_end(rest) {
            Some(end) => {
                out.push_str(&rest[..end]);
                &rest[end..]
            }
            None => tidy_tag(&rest[1..], &mut out),
        };
    }
    out.push_str(rest);
    out
}

/// Returns the end of a comment, a CDATA section, a processing instruction or a declaration that
/// begins here; `None` for a tag.
fn opaque_end(rest: &str) -> Option<usize> {
    let closing = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>"), ("<!", ">")];
    let (opening, closing) = closing.into_iter().find(|(opening, _)| rest.starts_with(opening))?;
    let end = rest[opening.len()..].find(closing).map(|at| opening.len() + at + closing.len());
    Some(end.unwrap_or(rest.len()))
}

/// Writes a tag, whose `<` is before `rest`; returns the text after it.
fn tidy_tag<'a>(rest: &'a str, out: &mut String) -> &'a str {
    out.push('<');
    let mut moved = String::new();
    let mut rest = blanks(rest, &mut moved);
    if let Some(after) = rest.strip_prefix('/') {
        out.push('/');
        rest = blanks(after, &mut moved);
    }
    let name =
        rest.find(|c: char| c.is_ascii_whitespace() || "/>=<\"'".contains(c)).unwrap_or(rest.len());
    out.push_str(&rest[..name]);
    out.push_str(&moved);
    rest = &rest[name..];
    while let Some(c) = rest.chars().next() {
        let len = match c {
            '>' => 1,
            // Another tag begins before this one ends: the parser will report it.
            '<' => break,
            '"' | '\'' => rest[1..].find(c).map_or(rest.len(), |at| at + 2),
            '/' => {
                let after = rest[1..].trim_start_matches(|c: char| c.is_ascii_whitespace());
                if after.starts_with('>') {
                    out.push_str(&rest[1..rest.len() - after.len()]);
                    out.push('/');
                    rest = after;
                    continue;
                }
                1
            }
            _ => c.len_utf8(),
        };
        out.push_str(&rest[..len]);
        rest = &rest[len..];
        if c == '>' {
            break;
        }
    }
    rest
}

/// Moves the leading blanks of `rest` to `moved`.
fn blanks<'a>(rest: &'a str, moved: &mut String) -> &'a str {
    let after = rest.trim_start_matches(|c: char| c.is_ascii_whitespace());
    moved.push_str(&rest[..rest.len() - after.len()]);
    after
}

#[cfg(test)]
mod tests {
    use super::tidy;

    #[test]
    fn blanks_in_tags_move_and_nothing_else_changes() {
        for (from, to) in [
            ("< A B =\"c\" />", "<A  B =\"c\" />"),
            ("<\n A\nB='< c'/ >", "<A\n \nB='< c' />"),
            ("</ A >", "</A  >"),
            ("< / A>", "</A  >"),
            ("<A b=\"< x / >\">< /A>", "<A b=\"< x / >\"></A >"),
            ("<!-- < A / > --><A>a / > b</A>", "<!-- < A / > --><A>a / > b</A>"),
            ("<![CDATA[< A>]]><? b / >?>", "<![CDATA[< A>]]><? b / >?>"),
            ("< A", "<A "),
            ("<A b=\"", "<A b=\""),
            ("<!-- < A", "<!-- < A"),
            ("<", "<"),
            ("a < <", "a < <"),
            ("< \u{e4}\u{20ac} x = '\u{20ac}' / >", "<\u{e4}\u{20ac}  x = '\u{20ac}'  />"),
        ] {
            assert_eq!(tidy(from), to, "{from:?}");
        }
    }
}
