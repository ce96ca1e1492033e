//! The report of errors: a prediction for every published step.

use crate::{
    Result,
    published::{self, Published},
};
use plan::{Outcome, search};
use std::{fmt::Write, time::Duration};

/// A published step and its prediction.
#[derive(Clone, Debug)]
pub struct Line {
    published: Published,
    predicted: f64,
    outcome: Outcome,
}

/// Predicts every published step; the planner may take `budget` for each grid that is not published.
///
/// # Errors
/// Those of the planner.
pub fn lines(budget: Duration) -> Result<Vec<Line>> {
    let line = |published: Published| {
        let request = published.request(budget)?;
        let outcome = search(&request)?
            .best
            .into_iter()
            .next()
            .ok_or("the planner found nothing")?;
        Ok(Line {
            predicted: published.predicted(&request, &outcome),
            published,
            outcome,
        })
    };
    published::all()?.into_iter().map(line).collect()
}

impl Line {
    /// The difference between the prediction and the published figure, in percent of the latter.
    pub fn error_percent(&self) -> f64 {
        100.0 * (self.predicted / self.published.value - 1.0)
    }

    /// Whether the prediction is as close as required.
    pub fn holds(&self) -> bool {
        self.published
            .within_percent
            .is_none_or(|bound| self.error_percent().abs() <= bound)
    }
}

/// The lines as a table in Markdown.
pub fn table(lines: &[Line]) -> String {
    let mut text = String::from(
        "| run | predicted | published | error | grid | source |\n|---|---:|---:|---:|---|---|\n",
    );
    for line in lines {
        let Line {
            published,
            predicted,
            outcome,
        } = line;
        let unit = published.unit.name();
        let bound = if line.holds() { "" } else { " (too far)" };
        let _ = writeln!(
            text,
            "| {} | {predicted:.4} {unit} | {} {unit} | {:+.1} %{bound} | {}, {} micro-batches | {} |",
            published.name,
            published.value,
            line.error_percent(),
            grid(outcome),
            outcome.candidate.micro_batches,
            published.source
        );
    }
    let _ = writeln!(text, "\n{}", summary(lines));
    text
}

/// The degrees above 1.
pub fn grid(outcome: &Outcome) -> String {
    let text = outcome.candidate.degrees.to_string();
    let many: Vec<_> = text
        .split(',')
        .filter(|part| !part.ends_with("=1"))
        .collect();
    if many.is_empty() {
        "one device".into()
    } else {
        many.join(",")
    }
}

fn summary(lines: &[Line]) -> String {
    let mut errors: Vec<_> = lines
        .iter()
        .map(|line| line.error_percent().abs())
        .collect();
    errors.sort_by(f64::total_cmp);
    let (median, worst) = (
        errors.get(errors.len() / 2).copied().unwrap_or(0.0),
        errors.last().copied().unwrap_or(0.0),
    );
    format!(
        "{} runs: median error {median:.1} %, largest {worst:.1} %.",
        lines.len()
    )
}

/// The names of the lines whose error is too large.
pub fn broken(lines: &[Line]) -> Vec<String> {
    let broken = lines.iter().filter(|line| !line.holds());
    broken
        .map(|line| format!("{} by {:+.1} %", line.published.name, line.error_percent()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prediction_that_is_too_far_off_is_told() {
        let published = published::all()
            .unwrap()
            .into_iter()
            .find(|published| published.devices == 256);
        let published = published.unwrap();
        let request = published.request(Duration::ZERO).unwrap();
        let outcome = search(&request).unwrap().best[0].clone();
        let predicted = published.predicted(&request, &outcome);
        let mut line = Line {
            published,
            predicted,
            outcome,
        };
        (line.published.value, line.published.within_percent) = (predicted * 2.0, Some(15.0));
        assert!((line.error_percent() + 50.0).abs() < 1e-9);
        assert_eq!(broken(std::slice::from_ref(&line)).len(), 1);
        assert!(table(std::slice::from_ref(&line)).contains("-50.0 % (too far)"));
        line.published.within_percent = None;
        assert!(line.holds());
    }
}
