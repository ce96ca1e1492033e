//! `loss.svg`, and other charts of runs over their steps.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use plotters::prelude::*;

use super::{Error, Record, Result, growing::GrowingLine};
use crate::checkpoint::replace_file;

/// Pixels of the full plot.
const SIZE: (u32, u32) = (960, 540);

/// Points of a thin line; a longer run is averaged, because more points would only enlarge the file.
const MAX_POINTS: usize = 1500;

/// Marks of a line; if there are more, only some are drawn.
const MAX_MARKS: usize = 150;

/// Readable for the colour-blind, and in greyscale. Source: Okabe and Ito, "Color universal design", 2008.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0x56, 0xB4, 0xE9),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xCC, 0x79, 0xA7),
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xE6, 0x9F, 0x00),
    RGBColor(0x00, 0x00, 0x00),
];

/// A step and its number.
pub type Point = (f64, f64);

/// A line of a chart.
#[derive(Clone, Debug)]
pub struct Line<'a> {
    /// Its words in the legend.
    pub name: String,
    /// Steps and numbers in the order of steps. Numbers that are not finite are left out, and break a line without marks.
    pub points: Cow<'a, [Point]>,
    /// The number of its colour: lines of one number look alike, but for their width.
    pub colour: usize,
    /// Whether it is thick and each point has a mark, as validations have.
    pub is_marked: bool,
}

impl Line<'_> {
    // The unbroken pieces that are drawn.
    fn pieces(&self) -> Vec<Vec<Point>> {
        match self.is_marked {
            true => vec![thinned(&self.points)],
            false => {
                let per_point = self.points.len().div_ceil(MAX_POINTS).max(1);
                self.points
                    .split(|point| !point.1.is_finite())
                    .filter(|piece| !piece.is_empty())
                    .map(|piece| piece.chunks(per_point).map(mean).collect())
                    .collect()
            }
        }
    }
}

/// The losses of a run, in bounded memory, however many steps there are.
#[derive(Clone, Debug)]
pub struct Losses {
    training: GrowingLine,
    validation: GrowingLine,
}

impl Default for Losses {
    fn default() -> Losses {
        Losses {
            training: GrowingLine::new(|one, other, weight| {
                let mean = |one: f64, other: f64| one + (other - one) * weight;
                (mean(one.0, other.0), mean(one.1, other.1))
            }),
            // A mark is a validation, and the last one is always there.
            validation: GrowingLine::new(|_, other, _| other),
        }
    }
}

impl Losses {
    /// Adds the losses of a step. It replaces those of the same step and of all later ones: a run that is resumed writes them
    /// again.
    pub fn add(&mut self, record: &Record) {
        let step = record.step as f64;
        self.training.forget_from(step);
        self.validation.forget_from(step);
        self.training.add((step, record.loss));
        if let Some(loss) = record.val_loss {
            self.validation.add((step, loss));
        }
    }

    /// Draws training loss (thin) and validation loss (thick, with marks) over the steps.
    ///
    /// A browser never finds half of the file.
    ///
    /// # Errors
    /// [`Error::NothingToPlot`] without a finite loss; [`Error::Plot`] from the library; [`Error::Io`].
    pub fn plot(&self, path: &Path, title: &str) -> Result<()> {
        let chart = chart(title, "loss (nats per token)", &self.lines());
        let svg = chart.map_err(|reason| Error::Plot {
            path: path.to_path_buf(),
            reason,
        })?;
        let svg = svg.ok_or_else(|| Error::NothingToPlot {
            path: path.to_path_buf(),
            num_records: self.training.count(),
        })?;
        replace_file(path, svg.as_bytes()).map_err(|error| Error::io("writing", path, error))
    }

    fn lines(&self) -> [Line<'static>; 2] {
        let line = |name: &str, held: &GrowingLine, colour, is_marked| Line {
            name: name.into(),
            points: Cow::Owned(held.points()),
            colour,
            is_marked,
        };
        [
            line("training", &self.training, 0, false),
            line("validation", &self.validation, 1, true),
        ]
    }
}

/// Draws lines over steps, as SVG, under a title if it is not empty; nothing if no number is finite.
///
/// # Errors
/// The drawing library's word.
pub fn chart(
    title: &str,
    quantity: &str,
    lines: &[Line<'_>],
) -> std::result::Result<Option<String>, String> {
    let lines: Vec<(&Line<'_>, Vec<Vec<Point>>)> =
        lines.iter().map(|line| (line, line.pieces())).collect();
    let Some(frame) = frame(&lines) else {
        return Ok(None);
    };
    let mut svg = String::new();
    draw(&mut svg, &lines, frame, [title, quantity]).map_err(|error| error.to_string())?;
    Ok(Some(svg))
}

/// The ranges of steps and numbers that contain every point; `None` if there are none.
fn frame(lines: &[(&Line<'_>, Vec<Vec<Point>>)]) -> Option<(Range<f64>, Range<f64>)> {
    let points = || lines.iter().flat_map(|(_, pieces)| pieces).flatten();
    let steps = range(points().map(|point| point.0))?;
    let numbers = range(points().map(|point| point.1))?;
    // Space above and below, so that no line coincides with the frame.
    let room = (numbers.end - numbers.start) * 0.05;
    Some((steps, numbers.start - room..numbers.end + room))
}

/// The finite points, thinned from the end so that the last one always remains.
fn thinned(points: &[Point]) -> Vec<Point> {
    let finite = || points.iter().filter(|point| point.1.is_finite());
    let count = finite().count();
    let per_point = count.div_ceil(MAX_MARKS).max(1);
    let kept = finite()
        .enumerate()
        .filter(|(index, _)| (count - 1 - index).is_multiple_of(per_point));
    kept.map(|(_, point)| *point).collect()
}

/// The mean of a few points.
fn mean(points: &[Point]) -> Point {
    let count = points.len() as f64;
    (
        points[points.len() / 2].0,
        points.iter().map(|point| point.1 / count).sum(),
    )
}

/// From the smallest to the largest; never empty, because an axis cannot be.
fn range(values: impl Iterator<Item = f64>) -> Option<Range<f64>> {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    match low <= high {
        true if high - low > f64::EPSILON * high.abs() => Some(low..high),
        true => Some(low - 0.5..high + 0.5),
        false => None,
    }
}

type DrawResult = std::result::Result<(), Box<dyn std::error::Error>>;

fn draw(
    svg: &mut String,
    lines: &[(&Line<'_>, Vec<Vec<Point>>)],
    frame: (Range<f64>, Range<f64>),
    [title, quantity]: [&str; 2],
) -> DrawResult {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut builder = ChartBuilder::on(&root);
    if !title.is_empty() {
        builder.caption(title, ("sans-serif", 26));
    }
    let mut chart = builder
        .margin(16)
        .x_label_area_size(46)
        .y_label_area_size(80)
        .build_cartesian_2d(frame.0, frame.1)?;
    let mut mesh = chart.configure_mesh();
    mesh.x_desc("step")
        .y_desc(quantity)
        .axis_desc_style(("sans-serif", 19));
    mesh.label_style(("sans-serif", 17))
        .light_line_style(WHITE)
        .bold_line_style(BLACK.mix(0.12));
    mesh.x_label_formatter(&|step| format!("{step:.0}"))
        .y_label_formatter(&|number| label(*number))
        .draw()?;
    for (line, pieces) in lines {
        let colour = COLOURS[line.colour % COLOURS.len()];
        let (width, mark) = if line.is_marked { (3, 4) } else { (1, 0) };
        let style = colour.stroke_width(width);
        for (index, piece) in pieces.iter().filter(|piece| !piece.is_empty()).enumerate() {
            let series = LineSeries::new(piece.iter().copied(), style).point_size(mark);
            let drawn = chart.draw_series(series)?;
            if index == 0 {
                drawn
                    .label(line.name.as_str())
                    .legend(move |place| legend(place, style));
            }
        }
    }
    let mut labels = chart.configure_series_labels();
    labels
        .position(SeriesLabelPosition::UpperRight)
        .label_font(("sans-serif", 18));
    labels
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    root.present()?;
    Ok(())
}

/// A stroke in the legend.
fn legend((x, y): (i32, i32), style: ShapeStyle) -> PathElement<(i32, i32)> {
    PathElement::new(vec![(x, y), (x + 20, y)], style)
}

/// As many digits as needed to distinguish labels.
fn label(number: f64) -> String {
    let rounded = |number: f64, digits: usize, unit: &str| {
        let text = format!("{number:.digits$}");
        let text = match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.'),
            false => &text,
        };
        format!("{text}{unit}")
    };
    match number.abs() {
        size if size == 0.0 || (0.01..1e4).contains(&size) => rounded(number, 3, ""),
        size if (1e-4..0.01).contains(&size) => rounded(number, 5, ""),
        size if (1e4..1e7).contains(&size) => rounded(number / 1e3, 1, "k"),
        size if (1e7..1e10).contains(&size) => rounded(number / 1e6, 1, "M"),
        _ => format!("{number:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{growing::MOST_HELD, record::sample};
    use super::*;
    use std::fs;

    fn falling(steps: u64) -> Vec<Record> {
        let record = |step: u64| {
            let loss = 1.5 + 3.0 / (1.0 + step as f64 / 50.0);
            Record {
                val_loss: step.is_multiple_of(100).then_some(loss + 0.1),
                ..sample(step, loss)
            }
        };
        (1..=steps).map(record).collect()
    }

    fn losses(records: &[Record]) -> Losses {
        let mut losses = Losses::default();
        records.iter().for_each(|record| losses.add(record));
        losses
    }

    fn plot(records: &[Record]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("loss.svg");
        losses(records).plot(&path, "a run <1>").unwrap();
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "nothing is left aside"
        );
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_plot_has_its_words_and_lines() {
        let svg = plot(&falling(500));
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for word in [
            "a run &lt;1&gt;",
            "step",
            "loss (nats per token)",
            "training",
            "validation",
        ] {
            assert!(svg.contains(word), "{word} is missing");
        }
        assert!(
            svg.matches("<circle").count() >= 5,
            "one mark for each validation"
        );
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn long_runs_make_small_files() {
        assert!(plot(&falling(100_000)).len() < 120_000);
        assert!(losses(&falling(100_000)).lines()[0].pieces()[0].len() <= MAX_POINTS);
    }

    #[test]
    fn what_is_held_of_a_long_run_is_bounded() {
        let (mut losses, steps) = (Losses::default(), 10 * MOST_HELD as u64 + 5);
        for step in 1..=steps {
            losses.add(&Record {
                val_loss: Some(-(step as f64)),
                ..sample(step, step as f64)
            });
        }
        assert_eq!(losses.training.count() as u64, steps);
        // A mean of neighbours, at the middle of their steps.
        let [training, validation] = losses.lines().map(|line| line.points);
        assert_eq!(training[..2], [(8.5, 8.5), (24.5, 24.5)]);
        assert!(
            training
                .iter()
                .all(|(step, loss)| (step - loss).abs() < 1e-6)
        );
        assert_eq!(validation[..2], [(16.0, -16.0), (32.0, -32.0)]);
        let last = steps as f64;
        assert_eq!(validation.last(), Some(&(last, -last)));
        // A run that is resumed writes its last steps again. The point of 993 to 1008 stays: most of its steps do.
        losses.add(&sample(1001, 5.0));
        let points = losses.lines()[0].points.to_vec();
        assert_eq!(
            points[points.len() - 2..],
            [(1000.5, 1000.5), (1001.0, 5.0)]
        );
    }

    #[test]
    fn the_last_validation_is_always_drawn() {
        for steps in [1, 149, 150, 151, 1000, 1001] {
            let records: Vec<Record> = (1..=steps)
                .map(|step| Record {
                    val_loss: Some(2.0),
                    ..sample(step, 2.0)
                })
                .collect();
            let validation = losses(&records).lines()[1].pieces().swap_remove(0);
            assert!(validation.len() <= MAX_MARKS);
            assert_eq!(validation.last(), Some(&(steps as f64, 2.0)));
        }
    }

    #[test]
    fn steps_that_are_written_again_replace_the_earlier_ones() {
        let mut losses = losses(&falling(300));
        let again = |step, val_loss| Record {
            val_loss,
            ..sample(step, 9.0)
        };
        losses.add(&again(150, None));
        losses.add(&again(151, Some(8.0)));
        let [training, validation] = losses.lines().map(|line| line.points);
        assert_eq!(training.len(), 151);
        assert_eq!(training[149..], [(150.0, 9.0), (151.0, 9.0)]);
        assert_eq!(validation.len(), 2);
        assert_eq!(validation[1], (151.0, 8.0));
    }

    #[test]
    fn one_step_and_a_flat_line_have_a_frame() {
        plot(&[sample(1, 2.0)]);
        plot(&[sample(1, 2.0), sample(2, 2.0)]);
        assert!(!plot(&falling(50)).contains("validation"));
    }

    #[test]
    fn spoilt_losses_break_the_line() {
        let mut records = falling(100);
        records[40].loss = f64::NAN;
        records[41].val_loss = Some(f64::INFINITY);
        assert_eq!(losses(&records).lines()[0].pieces().len(), 2);
        assert!(!plot(&records).contains("NaN"));
    }

    #[test]
    fn nothing_finite_is_an_error() {
        for records in [vec![], vec![sample(1, f64::NAN)]] {
            let error = losses(&records)
                .plot(Path::new("loss.svg"), "run")
                .unwrap_err()
                .to_string();
            let expected = format!(
                "metrics: loss plot loss.svg: none of {} records has a finite loss",
                records.len()
            );
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn labels_stay_short() {
        assert_eq!(
            [
                2.5, 3.0, 0.125, 0.0, 1.0e-5, 0.0025, 10_000.0, 25_500.0, 1.2e7, 1e12
            ]
            .map(label),
            [
                "2.5", "3", "0.125", "0", "1.00e-5", "0.0025", "10k", "25.5k", "12M", "1.00e12"
            ]
        );
    }
}
