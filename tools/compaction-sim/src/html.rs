//! One page, complete in one file: the levels over time, which can be scrubbed and played, with the numbers of the moment.

use serde_json::json;

use crate::meter::Outcome;
use crate::report;

const TEMPLATE: &str = include_str!("page.html");

/// The page. Outcomes without frames show their numbers only.
pub fn page(all: &[(String, Outcome)]) -> String {
    let mut data = report::to_json(all);
    for (v, (_, o)) in data.as_array_mut().into_iter().flatten().zip(all) {
        v["frames"] = json!(o.frames);
    }
    // Inside a script element only a "</" could end it early.
    TEMPLATE.replace("/*DATA*/null", &data.to_string().replace("</", "<\\/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::Frame;

    #[test]
    fn the_page_holds_its_data_and_nothing_from_elsewhere() {
        let frame =
            Frame { t: 1.0, ops: 2, written: [3, 4], did: "</script>".into(), runs: vec![(0, 5, 1, vec![[0, 999, 1]])] };
        let o = Outcome { frames: vec![frame], ..Outcome::default() };
        let page = page(&[("a".into(), o)]);
        assert!(page.contains("\"frames\":[{") && !page.contains("/*DATA*/"));
        assert_eq!(page.matches("</script>").count(), 1);
        assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("src="));
    }
}
