//! Shell quoting of command line words.

use std::path::Path;

/// Quotes a word for a shell: unchanged if it has no special characters, else in quotes. Control
/// characters, which a terminal would not show, use the form `$'…'` of bash, zsh and ksh.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+,:@%=".contains(c);
    if word.chars().any(char::is_control) {
        let mut out = String::from("$'");
        for c in word.chars() {
            match c {
                '\'' | '\\' => out.extend(['\\', c]),
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                c if c.is_control() => {
                    let mut bytes = [0; 4];
                    c.encode_utf8(&mut bytes)
                        .bytes()
                        .for_each(|b| out.push_str(&format!("\\x{b:02x}")));
                }
                c => out.push(c),
            }
        }
        return out + "'";
    }
    match word {
        // A leading minus would be an option, a tilde a home directory.
        w if !w.is_empty() && w.chars().all(plain) && !w.starts_with('-') => w.to_owned(),
        w => format!("'{}'", w.replace('\'', "'\\''")),
    }
}

/// Quotes a path for a shell, never as an option.
pub fn path(path: &Path) -> String {
    let text = path.display().to_string();
    if text.starts_with('-') { quote(&format!("./{text}")) } else { quote(&text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_back_what_is_quoted() {
        assert_eq!(quote("data/00000016.sst"), "data/00000016.sst");
        assert_eq!(quote(""), "''");
        for word in [
            "a b",
            "00000016 (1).sst",
            "it's",
            "$HOME",
            "a\nb",
            "tab\there",
            "*",
            "~",
            "[x]",
            "ü ö",
            "a\\b'c\n",
            "-n",
            "\u{7f}",
        ] {
            let out = std::process::Command::new("bash")
                .args(["-c", &format!("printf %s {}", quote(word))])
                .output();
            let Ok(out) = out else { return };
            assert_eq!(String::from_utf8_lossy(&out.stdout), word, "{}", quote(word));
        }
        assert_eq!(path(Path::new("-rf")), "./-rf");
    }
}
