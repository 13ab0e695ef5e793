//! Draws figures for papers, as SVG and PDF, each with its data as CSV: trade-offs of writes, space
//! and reads; the same over the size ratio, with bands over seeds; and runs, space, writes and rate
//! over time.
//!
//! A case is recognised by its marker, filled or open, before its colour; the legend is next to the
//! figure. Consecutive outcomes with the same name are the seeds of one case.

use firn_tools::output::{Done, Failure};
use plotters::prelude::*;

use crate::model::meter::{MeterPoint, SimOutcome};
use crate::report::by_case;
use crate::report::drawing::{CurveLook, DrawError, INK, chart, drawing};
use crate::report::metric::{METRICS, Metric, MetricFigure};

/// A figure: its file name without extension, the drawing, its data.
pub struct Figure {
    /// Name of the figure.
    pub name: &'static str,
    /// The drawing.
    pub svg: String,
    /// The data in the drawing.
    pub csv: Vec<u8>,
}

/// Returns the metrics that figures of this kind show.
fn measures(is_drawn: fn(MetricFigure) -> bool) -> Vec<&'static Metric> {
    METRICS.iter().filter(|m| is_drawn(m.figure)).collect()
}

fn traded() -> Vec<&'static Metric> {
    measures(|f| f == MetricFigure::Traded)
}

fn over_ratios() -> Vec<&'static Metric> {
    measures(|f| f != MetricFigure::None)
}

/// A curve over time: file name, axis, value, and maximum since the previous point.
struct Course(&'static str, &'static str, fn(&MeterPoint) -> f64, Option<fn(&MeterPoint) -> f64>);

const COURSES: [Course; 4] = [
    Course("runs", "runs a read looks into", |p| p.runs as f64, None),
    Course(
        "space",
        "space amplification",
        |p| if p.live_bytes > 0.0 { p.bytes as f64 / p.live_bytes } else { 0.0 },
        Some(|p| p.peak_space),
    ),
    Course(
        "written",
        "written for each byte flushed",
        |p| (p.flushed + p.merged) as f64 / p.flushed.max(1) as f64,
        None,
    ),
    Course("rate", "writes a second", |p| p.rate, None),
];

/// A case with the outcome of each of its seeds.
struct PlottedCase<'a> {
    name: &'a str,
    /// Name without the size ratio, and the ratio, if it has one.
    series: String,
    ratio: Option<f64>,
    seeds: Vec<&'a SimOutcome>,
}

impl PlottedCase<'_> {
    /// Returns mean, minimum and maximum over the seeds.
    fn of(&self, metric: &Metric) -> [f64; 3] {
        let values: Vec<f64> =
            self.seeds.iter().map(|o| (metric.of)(o).unwrap_or_default()).collect();
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        [
            mean,
            values.iter().copied().fold(mean, f64::min),
            values.iter().copied().fold(mean, f64::max),
        ]
    }
}

/// Cases of one policy over its size ratios.
struct PlottedSeries<'a> {
    name: String,
    cases: Vec<&'a PlottedCase<'a>>,
}

/// Returns all figures.
///
/// # Errors
/// Errors of the plotting library.
pub fn all(outcomes: &[(String, SimOutcome)]) -> Done<Vec<Figure>> {
    let cases: Vec<PlottedCase<'_>> = by_case(outcomes)
        .into_iter()
        .map(|(name, seeds)| {
            let (series, ratio) = split(name);
            PlottedCase { name, series, ratio, seeds }
        })
        .collect();
    let mut series: Vec<PlottedSeries<'_>> = vec![];
    for case in &cases {
        match series.iter_mut().find(|s| s.name == case.series) {
            Some(s) if case.ratio.is_some() => s.cases.push(case),
            _ => series.push(PlottedSeries { name: case.series.clone(), cases: vec![case] }),
        }
    }
    for s in &mut series {
        s.cases.sort_by(|a, b| a.ratio.unwrap_or(0.0).total_cmp(&b.ratio.unwrap_or(0.0)));
        if let [only] = s.cases[..] {
            s.name = only.name.to_owned();
        }
    }
    let wrong = |name: &str, e: DrawError| Failure::new(format!("cannot draw {name}: {e}"));
    let table = numbers(&cases)
        .map_err(|e| Failure::new(format!("cannot write the numbers of a figure: {e}")))?;
    let mut figures = vec![Figure {
        name: "trade-off",
        svg: trade_off(&series).map_err(|e| wrong("trade-off", e))?,
        csv: table.clone(),
    }];
    if series.iter().any(|s| s.cases.len() > 1) {
        figures.push(Figure {
            name: "over-ratio",
            svg: over_ratio(&series).map_err(|e| wrong("over-ratio", e))?,
            csv: table,
        });
    }
    for c in &COURSES {
        let csv = points(&cases, c)
            .map_err(|e| Failure::new(format!("cannot write the numbers of {}: {e}", c.0)))?;
        figures.push(Figure { name: c.0, svg: course(&cases, c).map_err(|e| wrong(c.0, e))?, csv });
    }
    Ok(figures)
}

/// Refuses: PDF is a feature of the build.
///
/// # Errors
/// Always.
#[cfg(not(feature = "pdf"))]
pub fn pdf(_: &str) -> Done<Vec<u8>> {
    Err(Failure::with_next(
        "this build of compaction-sim writes no PDF",
        "`cargo install --path tools/compaction-sim --features pdf` builds one; --svg works in this one",
    ))
}

/// Returns a figure as PDF, with the characters that it needs from an installed font.
///
/// # Errors
/// If there is no font.
#[cfg(feature = "pdf")]
pub fn pdf(svg: &str) -> Done<Vec<u8>> {
    use svg2pdf::usvg::{Options, Tree};
    let mut options = Options::default();
    let fonts = options.fontdb_mut();
    fonts.load_system_fonts();
    let wanted = ["Helvetica", "Arial", "Liberation Sans", "DejaVu Sans", "Noto Sans"];
    let family = |name: &&str| fonts.faces().any(|f| f.families.iter().any(|(n, _)| n == name));
    let found = wanted.into_iter().find(family).map(str::to_owned).or_else(|| {
        fonts.faces().find(|f| !f.monospaced).and_then(|f| Some(f.families.first()?.0.clone()))
    });
    let Some(found) = found else {
        return Err(Failure::with_next(
            "a PDF holds the letters of its text, and there is no font here",
            "install one (Debian: fonts-dejavu-core), or take --svg",
        ));
    };
    fonts.set_sans_serif_family(found);
    let tree = Tree::from_str(svg, &options)
        .map_err(|e| Failure::new(format!("cannot make a PDF: {e}")))?;
    svg2pdf::to_pdf(&tree, Default::default(), Default::default())
        .map_err(|e| Failure::new(format!("cannot make a PDF: {e}")))
}

/// "leveled:8 m=64 MiB" is the series "leveled m=64 MiB" at 8.
fn split(name: &str) -> (String, Option<f64>) {
    let found = name.split_once(':').and_then(|(policy, rest)| {
        let end = rest.find([':', ' ']).unwrap_or(rest.len());
        Some((format!("{policy}{}", &rest[end..]), rest[..end].parse().ok()?))
    });
    found.map_or_else(|| (name.to_owned(), None), |(series, ratio)| (series, Some(ratio)))
}

fn numbers(cases: &[PlottedCase<'_>]) -> Result<Vec<u8>, csv::Error> {
    let mut w = csv::Writer::from_writer(vec![]);
    let mut head = ["case", "policy", "ratio", "seeds"].map(str::to_owned).to_vec();
    let measures = over_ratios();
    for Metric { name, .. } in &measures {
        head.extend([(*name).to_owned(), format!("{name}_least"), format!("{name}_most")]);
    }
    w.write_record(&head)?;
    for case in cases {
        let ratio = case.ratio.map_or_else(String::new, |r| r.to_string());
        let mut line =
            vec![case.name.to_owned(), case.series.clone(), ratio, case.seeds.len().to_string()];
        line.extend(measures.iter().flat_map(|m| case.of(m)).map(|v| v.to_string()));
        w.write_record(&line)?;
    }
    w.into_inner().map_err(|e| e.into_error().into())
}

fn points(cases: &[PlottedCase<'_>], c: &Course) -> Result<Vec<u8>, csv::Error> {
    let Course(name, _, value, most) = c;
    let mut w = csv::Writer::from_writer(vec![]);
    let mut head = vec!["case", "operations", "seconds", name];
    let with_most = format!("{name}_most");
    head.extend(most.map(|_| with_most.as_str()));
    w.write_record(&head)?;
    for case in cases {
        for p in case.seeds.first().into_iter().flat_map(|o| &o.points) {
            let mut line = vec![
                case.name.to_owned(),
                p.ops.to_string(),
                p.seconds.to_string(),
                value(p).to_string(),
            ];
            line.extend(most.map(|most| most(p).to_string()));
            w.write_record(&line)?;
        }
    }
    w.into_inner().map_err(|e| e.into_error().into())
}

fn most(values: impl Iterator<Item = f64>) -> f64 {
    values.filter(|v| v.is_finite()).fold(0.0, f64::max)
}

/// Draws each traded metric against each other one, such as writes against space: a point for each
/// case, and a line through the cases of one policy. The smallest and largest size ratio label its
/// ends. A cross spans the values of the seeds of a case.
fn trade_off(series: &[PlottedSeries<'_>]) -> Result<String, DrawError> {
    let names: Vec<&str> = series.iter().map(|s| s.name.as_str()).collect();
    let traded = traded();
    let pairs: Vec<(&Metric, &Metric)> = (0..traded.len())
        .flat_map(|i| (i + 1..traded.len()).map(move |j| (i, j)))
        .map(|(i, j)| (traded[i], traded[j]))
        .collect();
    let rows = pairs.len().div_ceil(3).max(1);
    drawing(290 * rows as u32, &[names], |_, area| {
        let parts = area.split_evenly((rows, 3));
        for (part, &(x, y)) in parts.iter().zip(&pairs) {
            let cases = || series.iter().flat_map(|s| &s.cases);
            let (right, top) =
                (most(cases().map(|c| c.of(x)[2])), most(cases().map(|c| c.of(y)[2])));
            let mut chart = chart(part, (0.0, right, x.words), (top, y.words))?;
            for (i, s) in series.iter().enumerate() {
                let look = CurveLook(i);
                let line = s.cases.iter().map(|c| (c.of(x)[0], c.of(y)[0]));
                chart.draw_series(LineSeries::new(line, look.colour().stroke_width(1)))?;
                for (k, c) in s.cases.iter().enumerate() {
                    let ([at_x, left, right], [at_y, low, high]) = (c.of(x), c.of(y));
                    let spread = [
                        PathElement::new(vec![(left, at_y), (right, at_y)], look.colour()),
                        PathElement::new(vec![(at_x, low), (at_x, high)], look.colour()),
                    ];
                    chart.draw_series(spread)?;
                    let (fill, edge) = look.marker();
                    chart.draw_series([EmptyElement::at((at_x, at_y)) + fill + edge])?;
                    // Labels at the ends suffice; the others are in order between them.
                    let is_end = k == 0 || k + 1 == s.cases.len();
                    if let (Some(ratio), true) = (c.ratio, s.cases.len() > 1 && is_end) {
                        let style = TextStyle::from(("sans-serif", 10).into_font()).color(&INK);
                        let text = Text::new(ratio.to_string(), (7, -12), style);
                        chart.draw_series([EmptyElement::at((at_x, at_y)) + text])?;
                    }
                }
            }
        }
        Ok(())
    })
}

/// Draws the metrics over the size ratio: a line through the means, in a band from the minimum to
/// the maximum of the seeds.
fn over_ratio(series: &[PlottedSeries<'_>]) -> Result<String, DrawError> {
    // Cases without a ratio retain their index, so that a policy looks the same in all figures.
    let names: Vec<&str> = series.iter().map(|s| s.name.as_str()).collect();
    let measures = over_ratios();
    let rows = measures.len().div_ceil(2).max(1);
    drawing(260 * rows as u32, &[names], |_, area| {
        let parts = area.split_evenly((rows, 2));
        for (part, measure) in parts.iter().zip(&measures) {
            let cases = || series.iter().filter(|s| s.cases.len() > 1).flat_map(|s| &s.cases);
            let ratios = || cases().filter_map(|c| c.ratio);
            let first = ratios().fold(f64::INFINITY, f64::min);
            let top = most(cases().map(|c| c.of(measure)[2]));
            let x = ((first - 0.5).max(0.0), most(ratios()), "size ratio");
            let mut chart = chart(part, x, (top, measure.words))?;
            for (i, s) in series.iter().enumerate().filter(|(_, s)| s.cases.len() > 1) {
                let look = CurveLook(i);
                let at = |k: usize| {
                    s.cases.iter().filter_map(move |c| Some((c.ratio?, c.of(measure)[k])))
                };
                let band: Vec<(f64, f64)> =
                    at(1).chain(at(2).collect::<Vec<_>>().into_iter().rev()).collect();
                chart.draw_series([Polygon::new(band, look.colour().mix(0.2))])?;
                chart.draw_series(LineSeries::new(at(0), look.line()))?;
                chart.draw_series(at(0).map(|p| {
                    let (fill, edge) = look.marker();
                    EmptyElement::at(p) + fill + edge
                }))?;
            }
        }
        Ok(())
    })
}

/// Number of markers of a curve.
const MARKERS: usize = 9;
/// Maximum number of curves in one panel that a reader can distinguish.
const CURVES: usize = 6;

/// Draws a value over the operations, not over seconds: policies that slow their writers take
/// longer for the same work. With several seeds it shows the first one.
fn course(cases: &[PlottedCase<'_>], c: &Course) -> Result<String, DrawError> {
    let Course(_, axis, value, peak) = *c;
    let of = |c: &PlottedCase<'_>| c.seeds.first().map_or(&[][..], |o| &o.points[..]).to_vec();
    // Cases of one policy stay together.
    let mut panels: Vec<Vec<&PlottedCase<'_>>> = vec![];
    for part in cases.chunk_by(|a, b| a.series == b.series).flat_map(|group| group.chunks(CURVES)) {
        match panels.last_mut().filter(|panel| panel.len() + part.len() <= CURVES) {
            Some(panel) => panel.extend(part),
            None => panels.push(part.iter().collect()),
        }
    }
    let names: Vec<Vec<&str>> =
        panels.iter().map(|panel| panel.iter().map(|c| c.name).collect()).collect();
    // All panels have the same axes.
    let all = || cases.iter().flat_map(|c| c.seeds.first()).flat_map(|o| &o.points);
    let top = most(all().map(|p| value(p).max(peak.map_or(0.0, |peak| peak(p)))));
    let end = most(all().map(|p| p.ops as f64));
    drawing(300, &names, |k, area| {
        let curves: Vec<Vec<MeterPoint>> = panels[k].iter().map(|c| of(c)).collect();
        let axis = if peak.is_some() { format!("{axis} (pale: max)") } else { axis.to_owned() };
        let mut chart = chart(area, (0.0, end, "operations"), (top, &axis))?;
        for (i, points) in curves.iter().enumerate() {
            let look = CurveLook(i);
            if let Some(peak) = peak {
                // The maximum since the previous point spans that interval.
                let mut before = 0.0;
                let steps = points.iter().flat_map(|p| {
                    let (from, to) = (before, p.ops as f64);
                    before = to;
                    [(from, peak(p)), (to, peak(p))]
                });
                let style = look.colour().mix(0.45).stroke_width(1);
                chart.draw_series(LineSeries::new(steps.filter(|p| p.1 > 0.0), style))?;
            }
            let line = || points.iter().map(|p| (p.ops as f64, value(p)));
            chart.draw_series(LineSeries::new(line(), look.line()))?;
            // Markers of several cases do not overlap.
            let every = (points.len() / MARKERS).max(1);
            let first = every * (i + 1) / (curves.len() + 1);
            chart.draw_series(line().skip(first).step_by(every).map(|p| {
                let (fill, edge) = look.marker();
                EmptyElement::at(p) + fill + edge
            }))?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(write: f64, most: f64) -> SimOutcome {
        let point = |i: u64| MeterPoint {
            ops: i,
            runs: i as usize % 7,
            bytes: 140,
            live_bytes: 100.0,
            peak_space: if i == 30 { most } else { 1.4 },
            ..MeterPoint::default()
        };
        SimOutcome {
            points: (1..50).map(point).collect(),
            write_amplification: write,
            max_space_amplification: most,
            mean_runs: 3.0,
            ..SimOutcome::default()
        }
    }

    fn figures() -> Vec<Figure> {
        let case = |name: &str, write, most| (name.to_owned(), outcome(write, most));
        all(&[
            case("tiered:3", 5.0, 2.0),
            case("tiered:3", 6.0, 2.2),
            case("tiered:8", 3.0, 2.39),
            case("one & only", 9.0, 1.2),
        ])
        .unwrap()
    }

    #[test]
    fn figures_tell_cases_apart_without_colour_and_name_them_outside() {
        let figures = figures();
        let names: Vec<&str> = figures.iter().map(|f| f.name).collect();
        assert_eq!(names, ["trade-off", "over-ratio", "runs", "space", "written", "rate"]);
        for f in &figures {
            assert!(
                f.svg.starts_with("<svg") && f.svg.trim_end().ends_with("</svg>"),
                "{}",
                f.name
            );
            assert!(f.svg.contains("one &amp; only"), "{}", f.name);
            assert!(!f.svg.contains("<pattern"), "{}", f.name);
            assert!(f.svg.contains("<polygon"), "{}: no markers", f.name);
        }
        // More cases than fit one panel make several panels, each with its own legend.
        let many: Vec<_> =
            (0..CURVES + 1).map(|i| (format!("case {i}"), outcome(2.0, 2.0))).collect();
        let high = |svg: &str| {
            let (_, rest) = svg.split_once("height=\"").unwrap();
            rest.split_once('"').unwrap().0.parse::<u32>().unwrap()
        };
        let of = |n| high(&all(&many[..n]).unwrap()[1].svg);
        assert_eq!(of(CURVES + 1), 2 * of(CURVES));
    }

    #[test]
    #[cfg(feature = "pdf")]
    fn a_pdf_has_its_letters_with_it() {
        match pdf(&figures()[0].svg) {
            Ok(pdf) => {
                assert!(pdf.starts_with(b"%PDF-"));
                let holds = |word: &[u8]| pdf.windows(word.len()).any(|w| w == word);
                assert!(holds(b"/FontFile2") || holds(b"/FontFile3"));
            }
            Err(e) => {
                assert!(format!("{e:?}").contains("no font"), "{e:?}");
                eprintln!("skipped: there is no font here");
            }
        }
    }

    #[test]
    fn data_is_beside_and_has_what_the_table_has() {
        let figures = figures();
        let text = |i: usize| String::from_utf8(figures[i].csv.clone()).unwrap();
        let table = text(0);
        let line: Vec<&str> = table.lines().nth(1).unwrap().split(',').collect();
        assert_eq!(line[..7], ["tiered:3", "tiered", "3", "2", "5.5", "5", "6"]);
        assert_eq!(table, text(1));
        // The transient peak is in the course, and as high as in the table.
        let space = text(3);
        let peaks = space.lines().skip(1).filter(|l| l.starts_with("tiered:8"));
        let highest = peaks.map(|l| l.rsplit(',').next().unwrap().parse().unwrap());
        assert_eq!(highest.fold(0.0, f64::max), 2.39);
        assert_eq!(split("leveled:8 m=64 MiB"), ("leveled m=64 MiB".to_owned(), Some(8.0)));
        assert_eq!(split("fifo:1G"), ("fifo:1G".to_owned(), None));
        assert_eq!(split("tiered:4:max_runs=8"), ("tiered:max_runs=8".to_owned(), Some(4.0)));
    }
}
