//! Curves over time as SVG: runs, space, bytes written, rate, one curve for each outcome.

use firn_tools::output::{Done, Failure};
use plotters::prelude::*;

use crate::meter::{MeterPoint, SimOutcome};

/// What is drawn: file name, caption, axis, value.
type Curve = (&'static str, &'static str, &'static str, fn(&MeterPoint) -> f64);

const CURVES: [Curve; 4] = [
    ("runs.svg", "Runs that a read may look into", "runs", |p| p.runs as f64),
    ("space.svg", "Bytes of tables over one copy of what lives", "space amplification", |p| {
        if p.live_bytes > 0.0 { p.bytes as f64 / p.live_bytes } else { 0.0 }
    }),
    ("written.svg", "Bytes written to tables for each byte flushed", "rewrites", |p| {
        (p.flushed + p.merged) as f64 / p.flushed.max(1) as f64
    }),
    ("rate.svg", "Writes a second", "writes/s", |p| p.rate),
];

/// All plots: file names and contents.
///
/// # Errors
/// What the plotting library says.
pub fn all(outcomes: &[(String, SimOutcome)]) -> Done<Vec<(String, String)>> {
    CURVES.iter().map(|c| Ok((c.0.to_owned(), one(outcomes, c)?))).collect()
}

fn one(outcomes: &[(String, SimOutcome)], curve: &Curve) -> Done<String> {
    draw(outcomes, curve).map_err(|e| Failure::new(format!("cannot draw {}: {e}", curve.0)))
}

fn draw(
    outcomes: &[(String, SimOutcome)],
    (_, caption, axis, value): &Curve,
) -> Result<String, Box<dyn std::error::Error>> {
    let mut svg = String::new();
    {
        let points = || outcomes.iter().flat_map(|(_, o)| &o.points);
        let most = points().map(value).fold(1e-9, f64::max) * 1.05;
        // Operations, not seconds: policies that slow their writers are longer at the same work.
        let end = points().map(|p| p.ops as f64).fold(1.0, f64::max);
        let area = SVGBackend::with_string(&mut svg, (960, 480)).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(*caption, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(70)
            .build_cartesian_2d(0.0..end, 0.0..most)?;
        let short = |v: &f64| firn_tools::output::rate(*v);
        chart
            .configure_mesh()
            .x_desc("operations")
            .y_desc(*axis)
            .x_label_formatter(&short)
            .y_label_formatter(&short)
            .draw()?;
        for (i, (name, o)) in outcomes.iter().enumerate() {
            let color = Palette99::pick(i).to_rgba();
            let line = LineSeries::new(
                o.points.iter().map(|p| (p.ops as f64, value(p))),
                color.stroke_width(2),
            );
            chart.draw_series(line)?.label(name).legend(move |(x, y)| {
                PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2))
            });
        }
        let mut labels = chart.configure_series_labels();
        labels
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.2))
            .draw()?;
        area.present()?;
    }
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_a_curve_for_each_outcome() {
        let points = (1..50)
            .map(|i| MeterPoint { ops: i, runs: i as usize % 7, ..MeterPoint::default() })
            .collect();
        let o = SimOutcome { points, ..SimOutcome::default() };
        let plots = all(&[("one".to_owned(), o.clone()), ("two & more".to_owned(), o)]).unwrap();
        assert_eq!(plots.len(), CURVES.len());
        for (name, svg) in plots {
            assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{name}");
            assert!(
                svg.contains("one")
                    && svg.contains("two &amp; more")
                    && svg.matches("<polyline").count() >= 2,
                "{name}"
            );
        }
    }
}
