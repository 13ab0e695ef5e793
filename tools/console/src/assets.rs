//! The files of the pages: HTML, style and scripts.
//!
//! Invariant: they load nothing from elsewhere.

/// The page, in which [`TOKEN`] stands for the token of its POST requests.
const PAGE: &str = include_str!("assets/index.html");
const TOKEN: &str = "{{token}}";

/// Path, content type and content of the other files.
#[rustfmt::skip]
const FILES: [(&str, &str, &str); 9] = [
    ("/style.css", CSS, include_str!("assets/style.css")),
    ("/app.js", JS, include_str!("assets/app.js")),
    ("/util.js", JS, include_str!("assets/util.js")),
    ("/overview.js", JS, include_str!("assets/overview.js")),
    ("/shape.js", JS, include_str!("assets/shape.js")),
    ("/trees.js", JS, include_str!("assets/trees.js")),
    ("/reads.js", JS, include_str!("assets/reads.js")),
    ("/cql.js", JS, include_str!("assets/cql.js")),
    ("/simulate.js", JS, include_str!("assets/simulate.js")),
];

const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";

/// Returns the page with this token.
pub fn page(token: &str) -> String {
    PAGE.replace(TOKEN, token)
}

/// Returns the content type and the content of a file.
pub fn file(path: &str) -> Option<(&'static str, &'static str)> {
    FILES.iter().find(|(name, ..)| *name == path).map(|(_, kind, content)| (*kind, *content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_load_nothing_from_elsewhere() {
        let all = FILES.iter().map(|(path, _, text)| (*path, *text)).chain([("/", PAGE)]);
        for (path, text) in all {
            let text = text.replace("http://www.w3.org/2000/svg", "");
            for word in ["http://", "https://", "//cdn", "@import", "eval(", "innerHTML"] {
                assert!(!text.contains(word), "{path} has {word:?}");
            }
        }
    }

    #[test]
    fn the_page_has_its_token_and_no_inline_script_or_style() {
        let page = page("abc");
        assert!(page.contains("content=\"abc\"") && !page.contains(TOKEN));
        for word in ["style=", "onclick=", "<style", "<script>"] {
            assert!(!page.contains(word), "{word}");
        }
        for (path, ..) in FILES.iter().filter(|(path, ..)| !page.contains(path)) {
            // The other scripts are modules that the first one loads.
            assert!(file("/app.js").unwrap().1.contains(path), "nothing loads {path}");
        }
    }
}
