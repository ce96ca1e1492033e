//! The customary plot: time per batch over devices, with the percent of peak at every point.

use crate::{
    Result,
    point::{Point, PointKind},
};
use plotters::{
    coord::types::RangedCoordf64,
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};
use resvg::{tiny_skia, usvg};
use std::{collections::BTreeSet, ops::Range, sync::Arc};

/// Pixels of the SVG; the PNG has twice as many each way.
const SIZE: (u32, u32) = (960, 600);
const SCALE: f32 = 2.0;

/// The points of one origin and settings, and their style.
struct Series<'a> {
    title: &'static str,
    colour: RGBColor,
    joined: bool,
    label: Label,
    points: Vec<&'a Point>,
}

/// The position of a point's label: pixels to the right of its mark and below it, and which end of the text is
/// there. Series that lie close together have their labels on different sides.
type Label = (i32, i32, HPos);

/// Title, origin, settings, colour (readable for the colour-blind), whether a line joins the points, label
/// position.
type Style = (&'static str, PointKind, &'static str, RGBColor, bool, Label);

const STYLES: [Style; 4] = [
    (
        "simulated, published settings",
        PointKind::Simulated,
        "published-axonn",
        RGBColor(0x00, 0x72, 0xB2),
        true,
        (-4, -14, HPos::Right),
    ),
    (
        "simulated, our settings",
        PointKind::Simulated,
        "ours",
        RGBColor(0x00, 0x9E, 0x73),
        true,
        (0, 14, HPos::Center),
    ),
    (
        "published (AxoNN)",
        PointKind::Published,
        "published-axonn",
        RGBColor(0xD5, 0x5E, 0x00),
        false,
        (11, 10, HPos::Left),
    ),
    (
        "measured",
        PointKind::Measured,
        "ours",
        RGBColor(0xCC, 0x79, 0xA7),
        true,
        (11, -8, HPos::Left),
    ),
];

fn series(points: &[Point]) -> Vec<Series<'_>> {
    let all = STYLES
        .iter()
        .map(|&(title, kind, settings, colour, joined, label)| {
            let belongs = |point: &&Point| point.kind == kind && point.settings == settings;
            Series {
                title,
                colour,
                joined,
                label,
                points: points.iter().filter(belongs).collect(),
            }
        });
    all.filter(|series| !series.points.is_empty()).collect()
}

/// The plot of a machine as SVG.
///
/// # Errors
/// No points at all; those of the drawing library.
pub fn svg(machine: &str, points: &[Point]) -> Result<String> {
    if points.is_empty() {
        return Err(format!("plot of {machine}: found 0 points, needs at least 1").into());
    }
    let mut svg = String::new();
    draw(&mut svg, machine, points)?;
    Ok(svg)
}

// Devices as exponents of 2 against seconds.
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

fn draw(svg: &mut String, machine: &str, points: &[Point]) -> Result<()> {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (exponents, seconds) = frame(points);
    let ticks = (exponents.end - exponents.start).floor() as usize + 2;
    let caption = format!("Weak scaling on {machine}: time of a batch, and percent of peak");
    let mut chart = ChartBuilder::on(&root)
        .caption(caption, ("sans-serif", 24))
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(64)
        .build_cartesian_2d(exponents, seconds)?;
    axes(&mut chart, ticks, points)?;
    for series in series(points) {
        draw_series(&mut chart, series)?;
    }
    let mut legend = chart.configure_series_labels();
    legend
        .position(SeriesLabelPosition::LowerRight)
        .label_font(("sans-serif", 16))
        .margin(14);
    legend
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    root.present()?;
    Ok(())
}

fn axes(chart: &mut Chart<'_, '_>, ticks: usize, points: &[Point]) -> Result<()> {
    let mut mesh = chart.configure_mesh();
    mesh.x_desc("devices")
        .y_desc("seconds per batch")
        .axis_desc_style(("sans-serif", 18));
    mesh.label_style(("sans-serif", 16))
        .light_line_style(WHITE)
        .bold_line_style(BLACK.mix(0.12));
    mesh.y_label_formatter(&|seconds| format!("{}", (seconds * 1e4).round() / 1e4));
    mesh.x_labels(ticks)
        .x_label_formatter(&|exponent| devices(*exponent))
        .draw()?;
    // Counts between the ticks have their own label below the axis.
    let style = ("sans-serif", 16)
        .into_font()
        .color(&BLACK)
        .pos(Pos::new(HPos::Center, VPos::Center));
    let label = |count: usize| {
        let text = Text::new(count.to_string(), (0, 16), style.clone());
        EmptyElement::at(((count as f64).log2(), 0.0)) + text
    };
    let between: BTreeSet<_> = points
        .iter()
        .map(|point| point.devices)
        .filter(|count| !count.is_power_of_two())
        .collect();
    chart.draw_series(between.into_iter().map(label))?;
    Ok(())
}

fn draw_series(chart: &mut Chart<'_, '_>, series: Series<'_>) -> Result<()> {
    let Series {
        title,
        colour,
        joined,
        label: (right, down, side),
        points,
    } = series;
    let places = || points.iter().map(|point| place(point));
    let line = LineSeries::new(places().filter(|_| joined), colour.stroke_width(2));
    let mark = if joined {
        colour.filled()
    } else {
        colour.stroke_width(3)
    };
    let marks = places().map(|at| Circle::new(at, 6, mark));
    let line = chart.draw_series(line)?.label(title);
    line.legend(move |(x, y)| Circle::new((x + 10, y), 6, mark));
    chart.draw_series(marks)?;
    let style = ("sans-serif", 15)
        .into_font()
        .color(&colour)
        .pos(Pos::new(side, VPos::Center));
    let label = |point: &&Point| {
        let text = Text::new(
            format!("{:.0} %", point.percent_of_peak),
            (right, down),
            style.clone(),
        );
        EmptyElement::at(place(point)) + text
    };
    chart.draw_series(points.iter().map(label))?;
    Ok(())
}

// The axis of devices shows exponents of 2, so that each doubling has the same width.
fn place(point: &Point) -> (f64, f64) {
    ((point.devices as f64).log2(), point.step_s)
}

fn devices(exponent: f64) -> String {
    let whole = exponent.round();
    if (exponent - whole).abs() < 1e-6 {
        format!("{}", whole.exp2())
    } else {
        String::new()
    }
}

// From 0 seconds, with room for labels beside the outermost points.
fn frame(points: &[Point]) -> (Range<f64>, Range<f64>) {
    let exponents = points.iter().map(|point| place(point).0);
    let (low, high) = exponents.fold((f64::INFINITY, 0.0_f64), |(low, high), x| {
        (low.min(x), high.max(x))
    });
    let longest = points.iter().map(|point| point.step_s).fold(0.0, f64::max);
    (low - 0.4..high + 0.4, 0.0..longest * 1.2)
}

/// Renders an SVG as PNG. Its text uses a font that the program carries, because a compute node may have none.
///
/// # Errors
/// Those of the renderer.
pub fn png(svg: &str) -> Result<Vec<u8>> {
    let mut options = usvg::Options::default();
    let fonts = Arc::make_mut(&mut options.fontdb);
    fonts.load_font_data(epaint_default_fonts::UBUNTU_LIGHT.to_vec());
    let family = fonts
        .faces()
        .find_map(|face| Some(face.families.first()?.0.clone()));
    fonts.set_sans_serif_family(family.unwrap_or_default());
    let tree = usvg::Tree::from_str(svg, &options)?;
    let (width, height) = (SIZE.0 * SCALE as u32, SIZE.1 * SCALE as u32);
    let mut picture =
        tiny_skia::Pixmap::new(width, height).ok_or("plot: no memory for the picture")?;
    resvg::render(
        &tree,
        tiny_skia::Transform::from_scale(SCALE, SCALE),
        &mut picture.as_mut(),
    );
    Ok(picture.encode_png()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::points::tests::point;

    #[test]
    fn a_plot_has_its_words_labels_and_marks() {
        let points = [512, 1024, 1536]
            .map(|devices| point(devices, PointKind::Simulated, 8.0 + devices as f64 / 1e3));
        let svg = svg("perlmutter", &points).unwrap();
        for word in [
            "Weak scaling on perlmutter",
            "devices",
            "seconds per batch",
            "45 %",
            "512",
            "1024",
            "1536",
        ] {
            assert!(svg.contains(word), "{word} is missing");
        }
        assert!(
            !svg.contains("published (AxoNN)"),
            "a series without points has no legend"
        );
    }

    #[test]
    fn text_is_drawn_in_the_png() {
        let dark = |svg: &str| {
            let picture = tiny_skia::Pixmap::decode_png(&png(svg).unwrap()).unwrap();
            picture
                .pixels()
                .iter()
                .filter(|pixel| pixel.red() < 128 && pixel.alpha() > 128)
                .count()
        };
        let word = |text: &str| {
            format!(
                r#"<svg width="960" height="600" xmlns="http://www.w3.org/2000/svg">
                <text x="20" y="200" font-family="sans-serif" font-size="80">{text}</text></svg>"#
            )
        };
        assert!(dark(&word("620 Pflop/s")) > dark(&word("")) + 1000);
    }

    #[test]
    fn no_points_are_an_error() {
        assert!(
            svg("frontier", &[])
                .unwrap_err()
                .to_string()
                .contains("0 points")
        );
    }
}
