//! `loss.svg`: the losses of a run over its steps.

use std::ops::Range;
use std::path::Path;

use plotters::prelude::*;

use super::{Error, Record, Result};
use crate::checkpoint::replace_file;

/// Pixels of the full plot.
const SIZE: (u32, u32) = (960, 540);

/// Points of the training line; a longer run is averaged, because more points would only enlarge the file.
const MAX_POINTS: usize = 1500;

/// Marks of the validation line; if there are more, only some are drawn.
const MAX_MARKS: usize = 150;

/// Readable for the colour-blind, and in greyscale.
const TRAINING: RGBColor = RGBColor(0x56, 0xB4, 0xE9);
const VALIDATION: RGBColor = RGBColor(0xD5, 0x5E, 0x00);

/// A step and its loss.
type Point = (f64, f64);

/// Draws training loss (thin) and validation loss (thick, with marks) over the steps.
///
/// Losses that are not finite are left out, and break the training line. A browser never finds half of the
/// file.
///
/// # Errors
/// [`Error::NothingToPlot`] without a finite loss; [`Error::Plot`] from the library; [`Error::Io`].
pub fn loss_plot(path: &Path, records: &[Record], title: &str) -> Result<()> {
    let mut svg = String::new();
    let curves = Curves::of(records);
    let Some(frame) = curves.frame() else {
        return Err(Error::NothingToPlot {
            path: path.to_path_buf(),
            num_records: records.len(),
        });
    };
    draw(&mut svg, &curves, frame, title).map_err(|error| {
        let (path, reason) = (path.to_path_buf(), error.to_string());
        Error::Plot { path, reason }
    })?;
    replace_file(path, svg.as_bytes()).map_err(|error| Error::io("writing", path, error))
}

/// What is drawn.
struct Curves {
    /// Unbroken pieces.
    training: Vec<Vec<Point>>,
    validation: Vec<Point>,
}

impl Curves {
    fn of(records: &[Record]) -> Curves {
        let per_point = records.len().div_ceil(MAX_POINTS).max(1);
        let training = records
            .split(|record| !record.loss.is_finite())
            .filter(|piece| !piece.is_empty())
            .map(|piece| piece.chunks(per_point).map(mean).collect())
            .collect();
        Curves {
            training,
            validation: validation(records),
        }
    }

    /// The ranges of steps and losses that contain every point; `None` if there are none.
    fn frame(&self) -> Option<(Range<f64>, Range<f64>)> {
        let points = || self.training.iter().flatten().chain(&self.validation);
        let steps = range(points().map(|point| point.0))?;
        let losses = range(points().map(|point| point.1))?;
        // Space above and below, so that no line coincides with the frame.
        let room = (losses.end - losses.start) * 0.05;
        Some((steps, losses.start - room..losses.end + room))
    }
}

/// The validation losses, thinned from the end so that the last one always remains.
fn validation(records: &[Record]) -> Vec<Point> {
    let points = records
        .iter()
        .filter_map(|record| Some((record.step as f64, record.val_loss?)));
    let all: Vec<Point> = points.filter(|point| point.1.is_finite()).collect();
    all.rchunks(all.len().div_ceil(MAX_MARKS).max(1))
        .rev()
        .filter_map(|group| group.last().copied())
        .collect()
}

/// The mean of a few records.
fn mean(records: &[Record]) -> Point {
    let (count, middle) = (records.len() as f64, &records[records.len() / 2]);
    (
        middle.step as f64,
        records.iter().map(|record| record.loss / count).sum(),
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
    curves: &Curves,
    frame: (Range<f64>, Range<f64>),
    title: &str,
) -> DrawResult {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 26))
        .margin(16)
        .x_label_area_size(46)
        .y_label_area_size(64)
        .build_cartesian_2d(frame.0, frame.1)?;
    let mut mesh = chart.configure_mesh();
    mesh.x_desc("step")
        .y_desc("loss (nats per token)")
        .axis_desc_style(("sans-serif", 19));
    mesh.label_style(("sans-serif", 17))
        .light_line_style(WHITE)
        .bold_line_style(BLACK.mix(0.12));
    mesh.x_label_formatter(&|step| format!("{step:.0}"))
        .y_label_formatter(&|loss| label(*loss))
        .draw()?;
    for (index, piece) in curves.training.iter().enumerate() {
        let line = chart.draw_series(LineSeries::new(
            piece.iter().copied(),
            TRAINING.stroke_width(1),
        ))?;
        if index == 0 {
            line.label("training")
                .legend(|place| legend(place, TRAINING.stroke_width(1)));
        }
    }
    if !curves.validation.is_empty() {
        let style = VALIDATION.stroke_width(3);
        let line = LineSeries::new(curves.validation.iter().copied(), style).point_size(4);
        chart
            .draw_series(line)?
            .label("validation")
            .legend(move |place| legend(place, style));
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
fn label(loss: f64) -> String {
    match loss.abs() {
        size if size == 0.0 || (0.01..10_000.0).contains(&size) => format!("{loss:.3}")
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned(),
        _ => format!("{loss:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::sample;
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

    fn plot(records: &[Record]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("loss.svg");
        loss_plot(&path, records, "a run <1>").unwrap();
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
        assert!(Curves::of(&falling(100_000)).training[0].len() <= MAX_POINTS);
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
            let validation = validation(&records);
            assert!(validation.len() <= MAX_MARKS);
            assert_eq!(validation.last(), Some(&(steps as f64, 2.0)));
        }
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
        assert_eq!(Curves::of(&records).training.len(), 2);
        assert!(!plot(&records).contains("NaN"));
    }

    #[test]
    fn nothing_finite_is_an_error() {
        for records in [vec![], vec![sample(1, f64::NAN)]] {
            let error = loss_plot(Path::new("loss.svg"), &records, "run")
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
            [2.5, 3.0, 0.125, 0.0, 1.0e-5, 25_000.0].map(label),
            ["2.5", "3", "0.125", "0", "1.00e-5", "2.50e4"]
        );
    }
}
