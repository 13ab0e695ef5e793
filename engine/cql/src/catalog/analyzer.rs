//! Text analyzers of indexes, applied to values and search terms: unchanged, in one case, or in
//! words.

/// Transformation of a text before comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextAnalyzer {
    /// How it is split into terms.
    pub split: TextSplit,
    /// The case to which it is converted.
    pub case: TextCase,
}

/// How a text is split into terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextSplit {
    /// Not split: the text is one term.
    #[default]
    Whole,
    /// Into words, which are sequences of letters and digits.
    Words,
    /// At each occurrence of this character.
    At(char),
}

/// Case conversion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextCase {
    /// Unchanged.
    #[default]
    Unchanged,
    /// Lower case.
    Lower,
    /// Upper case.
    Upper,
}

impl TextAnalyzer {
    /// Reports whether texts are compared unchanged.
    pub fn is_plain(self) -> bool {
        self == TextAnalyzer::default()
    }

    /// Reports whether a text may have several terms.
    pub fn is_tokenizing(self) -> bool {
        self.split != TextSplit::Whole
    }

    /// Returns the terms of a text. None is empty, unless it is the whole text. Bytes that are not
    /// UTF-8 form one term, unchanged.
    pub fn terms(self, text: &[u8]) -> Vec<Vec<u8>> {
        let Ok(text) = std::str::from_utf8(text) else { return vec![text.to_vec()] };
        let cased = |term: &str| match self.case {
            TextCase::Unchanged => term.to_owned(),
            TextCase::Lower => term.to_lowercase(),
            TextCase::Upper => term.to_uppercase(),
        };
        let is_end = |c: char| match self.split {
            TextSplit::Whole => false,
            TextSplit::Words => !c.is_alphanumeric(),
            TextSplit::At(delimiter) => c == delimiter,
        };
        let terms = text.split(is_end).filter(|term| !term.is_empty() || !self.is_tokenizing());
        terms.map(|term| cased(term).into_bytes()).collect()
    }
}

/// Where a term must occur in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextMatch {
    /// The term equals the text.
    Whole,
    /// `term%`
    Prefix,
    /// `%term`
    Suffix,
    /// `%term%`
    Inside,
}

impl TextMatch {
    /// Parses a pattern of `LIKE` into the kind of match and the term. Only a `%` at its ends is a
    /// wildcard.
    pub fn of_pattern(pattern: &[u8]) -> (TextMatch, &[u8]) {
        match pattern {
            [b'%', term @ .., b'%'] => (TextMatch::Inside, term),
            [b'%', term @ ..] => (TextMatch::Suffix, term),
            [term @ .., b'%'] => (TextMatch::Prefix, term),
            term => (TextMatch::Whole, term),
        }
    }

    /// Returns the pattern for messages.
    pub fn shown(self) -> &'static str {
        match self {
            TextMatch::Whole => "<term>",
            TextMatch::Prefix => "<term>%",
            TextMatch::Suffix => "%<term>",
            TextMatch::Inside => "%<term>%",
        }
    }

    fn finds(self, term: &[u8], text: &[u8]) -> bool {
        match self {
            TextMatch::Whole => text == term,
            TextMatch::Prefix => text.starts_with(term),
            TextMatch::Suffix => text.ends_with(term),
            TextMatch::Inside => {
                term.is_empty() || text.windows(term.len()).any(|part| part == term)
            }
        }
    }
}

/// A condition on a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextTest {
    analyzer: TextAnalyzer,
    place: TextMatch,
    /// Terms of which any must occur.
    terms: Vec<Vec<u8>>,
}

impl TextTest {
    /// Creates the test for this term, which the analyzer splits in the same way as values.
    pub fn new(analyzer: TextAnalyzer, place: TextMatch, term: &[u8]) -> TextTest {
        TextTest { analyzer, place, terms: analyzer.terms(term) }
    }

    /// Reports whether a value matches.
    pub fn holds(&self, value: &[u8]) -> bool {
        if self.analyzer.is_plain() {
            return self.terms.iter().any(|term| self.place.finds(term, value));
        }
        let there = self.analyzer.terms(value);
        self.terms.iter().any(|term| there.iter().any(|t| self.place.finds(term, t)))
    }

    /// Returns a prefix of all matching values, if one is known.
    pub fn prefix(&self) -> Option<&[u8]> {
        match (self.place, &self.terms[..]) {
            (TextMatch::Whole | TextMatch::Prefix, [term]) if self.analyzer.is_plain() => {
                Some(term)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_looked_for_where_their_signs_say() {
        for (pattern, place, term) in [
            ("a%", TextMatch::Prefix, "a"),
            ("%a", TextMatch::Suffix, "a"),
            ("%a%", TextMatch::Inside, "a"),
            ("a%b", TextMatch::Whole, "a%b"),
            ("%", TextMatch::Suffix, ""),
            ("%%", TextMatch::Inside, ""),
            ("", TextMatch::Whole, ""),
        ] {
            assert_eq!(TextMatch::of_pattern(pattern.as_bytes()), (place, term.as_bytes()));
        }
        let holds = |pattern: &str, analyzer, text: &str| {
            let (place, term) = TextMatch::of_pattern(pattern.as_bytes());
            TextTest::new(analyzer, place, term).holds(text.as_bytes())
        };
        let plain = TextAnalyzer::default();
        assert!(holds("ab%", plain, "abc") && !holds("ab%", plain, "Abc"));
        assert!(
            holds("%bc", plain, "abc") && holds("%b%", plain, "abc") && holds("abc", plain, "abc")
        );
        let small = TextAnalyzer { case: TextCase::Lower, ..plain };
        assert!(holds("AB%", small, "aBc") && !holds("b%", small, "aBc"));
        let words = TextAnalyzer { split: TextSplit::Words, case: TextCase::Lower };
        assert!(holds("fox", words, "The quick Fox!") && !holds("fo", words, "The quick Fox!"));
        assert!(holds("%qui% %fo%", words, "lazy dog, foxes"));
        let cut = TextAnalyzer { split: TextSplit::At('░'), ..plain };
        let text = "░http.method=GET░error░";
        assert!(holds("error", cut, text) && holds("http.method=%", cut, text));
        assert!(holds("░error░", cut, text) && holds("other░error", cut, text));
        for other in ["Error", "erro", "GET", "", "░"] {
            assert!(!holds(other, cut, text), "{other}");
        }
    }
}
