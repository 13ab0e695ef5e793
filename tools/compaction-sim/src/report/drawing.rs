//! Draws figures: panels with a legend, axes, and the style of each case, which is the same in all
//! figures. A case is recognised by its marker first, then by its colour.

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

type Pixel = (i32, i32);
pub(crate) type DrawError = Box<dyn std::error::Error>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'b, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Style of the nth case. Colours differ in lightness too; shapes come before colours.
#[derive(Clone, Copy)]
pub(crate) struct CurveLook(pub(crate) usize);

const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 90, 160),
    RGBColor(200, 80, 0),
    RGBColor(0, 120, 90),
    RGBColor(150, 50, 140),
    RGBColor(120, 90, 0),
    RGBColor(50, 60, 70),
];
const SHAPES: usize = 6;
/// Filled, open, pale.
const FILLS: usize = 3;
const RADIUS: i32 = 5;
pub(crate) const INK: RGBColor = RGBColor(30, 34, 40);

impl CurveLook {
    pub(crate) fn colour(self) -> RGBColor {
        COLOURS[self.0 % COLOURS.len()]
    }

    pub(crate) fn line(self) -> ShapeStyle {
        self.colour().stroke_width(2)
    }

    /// Returns the outline of its marker around (0, 0), in pixels.
    fn outline(self) -> Vec<Pixel> {
        let r = RADIUS;
        match self.0 % SHAPES {
            0 => (0..16)
                .map(|i| (f64::from(i) / 8.0 * std::f64::consts::PI).sin_cos())
                .map(|(y, x)| ((x * 5.2).round() as i32, (y * 5.2).round() as i32))
                .collect(),
            1 => vec![(-r, -r), (r, -r), (r, r), (-r, r)],
            2 => vec![(0, -r - 1), (r + 1, r), (-r - 1, r)],
            3 => vec![(0, -r - 2), (r + 2, 0), (0, r + 2), (-r - 2, 0)],
            4 => vec![(0, r + 1), (r + 1, -r), (-r - 1, -r)],
            _ => vec![
                (-2, -r - 1),
                (2, -r - 1),
                (2, -2),
                (r + 1, -2),
                (r + 1, 2),
                (2, 2),
                (2, r + 1),
                (-2, r + 1),
                (-2, 2),
                (-r - 1, 2),
                (-r - 1, -2),
                (-2, -2),
            ],
        }
    }

    /// Returns its marker: the filled area and its edge.
    pub(crate) fn marker(self) -> (Polygon<Pixel>, PathElement<Pixel>) {
        let outline = self.outline();
        let fill = match self.0 / SHAPES % FILLS {
            0 => self.colour().to_rgba(),
            1 => WHITE.to_rgba(),
            _ => self.colour().mix(0.35),
        };
        let closed: Vec<_> = outline.iter().chain(outline.first()).copied().collect();
        (
            Polygon::new(outline, fill.filled()),
            PathElement::new(closed, self.colour().stroke_width(1)),
        )
    }
}

const WIDE: u32 = 900;
const LETTERS: (&str, u32) = ("sans-serif", 13);
/// Pixels of a line of the legend.
const LINE: i32 = 19;

/// Maximum number of characters of a name in the legend.
const MOST_LETTERS: usize = 32;

/// Returns the width of a legend with these names.
fn legend_wide(names: &[&str]) -> u32 {
    let letters = names.iter().map(|n| n.chars().count()).max().unwrap_or(0).min(MOST_LETTERS);
    40 + 7 * letters as u32
}

/// Returns a drawing of panels below each other, each with its own legend; the page has a fixed
/// width.
pub(crate) fn drawing(
    high: u32,
    panels: &[Vec<&str>],
    draw: impl Fn(usize, &Area<'_>) -> Result<(), DrawError>,
) -> Result<String, DrawError> {
    let mut svg = String::new();
    {
        let longest = panels.iter().map(Vec::len).max().unwrap_or(0) as u32;
        let high = high.max(longest * LINE as u32 + 30);
        let all = high * panels.len() as u32;
        let area = SVGBackend::with_string(&mut svg, (WIDE, all)).into_drawing_area();
        area.fill(&WHITE)?;
        let beside = panels.iter().map(|names| legend_wide(names)).max().unwrap_or(0);
        for (k, (part, names)) in
            area.split_evenly((panels.len(), 1)).iter().zip(panels).enumerate()
        {
            let (figure, legend) = part.split_horizontally(WIDE - beside);
            draw(k, &figure)?;
            names.iter().enumerate().try_for_each(|(i, name)| entry(&legend, i, name))?;
        }
        area.present()?;
    }
    Ok(svg)
}

/// Draws the ith line of a legend.
fn entry(legend: &Area<'_>, i: usize, name: &str) -> Result<(), DrawError> {
    let (look, y) = (CurveLook(i), 22 + i as i32 * LINE);
    legend.draw(&PathElement::new(vec![(4, y), (28, y)], look.line()))?;
    let (fill, edge) = look.marker();
    legend.draw(&(EmptyElement::at((16, y)) + fill + edge))?;
    let mut short: String = name.chars().take(MOST_LETTERS).collect();
    if short.len() < name.len() {
        short.pop();
        short.push('…');
    }
    let style =
        TextStyle::from(LETTERS.into_font()).color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
    Ok(legend.draw(&Text::new(short, (36, y), style))?)
}

/// Formats a number at an axis: "2 M", not "2.00 M".
fn short(v: &f64) -> String {
    let small = v.abs() > 0.0 && v.abs() < 0.1;
    let text = if small {
        // Two significant digits, or the numbers of a small axis would look alike.
        let digits = (1.0 - v.abs().log10().floor()) as usize;
        format!("{v:.digits$}")
    } else {
        firn_tools::output::rate(*v)
    };
    let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
    let number = if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    };
    format!("{number} {unit}").trim_end().to_owned()
}

/// Returns the end of an axis that must show this value. An axis of zeros ends at 1, so that its
/// numbers differ.
fn end_of(most: f64, room: f64) -> f64 {
    if most > 0.0 { (most * room).max(1e-9) } else { 1.0 }
}

/// Creates an empty chart from zero to a little above these values.
pub(crate) fn chart<'a, 'b>(
    area: &'b Area<'a>,
    x: (f64, f64, &str),
    y: (f64, &str),
) -> Result<Chart<'a, 'b>, DrawError> {
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .margin_right(14)
        .x_label_area_size(38)
        .y_label_area_size(58)
        .build_cartesian_2d(x.0..end_of(x.1, 1.06).max(x.0 + 1e-9), 0.0..end_of(y.0, 1.08))?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .axis_style(INK)
        .x_labels(6)
        .y_labels(6)
        .label_style(LETTERS.into_font().color(&INK))
        .axis_desc_style(LETTERS.into_font().color(&INK))
        .x_desc(x.2)
        .y_desc(y.1)
        .x_label_formatter(&short)
        .y_label_formatter(&short)
        .draw()?;
    Ok(chart)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_differ_and_numbers_are_short() {
        let outlines: Vec<_> = (0..SHAPES).map(|i| CurveLook(i).outline()).collect();
        assert!((1..SHAPES).all(|i| !outlines[..i].contains(&outlines[i])));
        assert_eq!(short(&2e6), "2 M");
        assert_eq!(short(&10.0), "10");
        assert_eq!([0.002, 0.015, 0.05, 0.0].map(|v| short(&v)), ["0.002", "0.015", "0.05", "0"]);
    }

    /// If nothing was held up, the axis shows 0 once.
    #[test]
    fn the_numbers_of_an_axis_differ() {
        for top in [0.0, 0.004, 3.0, 2e6] {
            let svg = drawing(260, &[vec!["a"]], |_, area| {
                chart(area, (0.0, 1000.0, "x"), (top, "y")).map(|_| ())
            })
            .unwrap();
            let labels = svg.split("text-anchor=\"end\"").skip(1);
            let mut numbers: Vec<&str> = labels.filter_map(|l| l.lines().nth(1)).collect();
            let all = numbers.len();
            numbers.sort_unstable();
            numbers.dedup();
            assert!(all > 3, "{svg}");
            assert_eq!(numbers.len(), all, "{top}: {svg}");
        }
    }
}
