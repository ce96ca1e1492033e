//! Numbers formatted for people.

use hal::error::{Counted, Grouped};
use std::time::Duration;
use train::speed::median;

/// The most of any size of a tensor.
pub(crate) const MOST_SIZE: usize = 1 << 24;

/// The most threads of a rank, and ranks of a process.
pub(crate) const MOST_THREADS: usize = 1 << 12;

/// Parses the value of a flag that takes a whole number from 1 to `MOST`.
pub(crate) fn count<const MOST: usize>(text: &str) -> Result<usize, String> {
    let count = text.parse().ok();
    count
        .filter(|count| (1..=MOST).contains(count))
        .ok_or_else(|| format!("needs a whole number from 1 to {MOST}"))
}

/// `1234567` as `1,234,567`.
pub(crate) fn grouped(number: impl TryInto<u64>) -> String {
    Grouped(number.try_into().unwrap_or(u64::MAX)).to_string()
}

/// A count and its noun: `1 rank`, `8 ranks`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    Counted(count, noun).to_string()
}

/// A time as `0.8 s`, `42 s`, `3 min 05 s` or `2 h 07 min`.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// A speed in flop/s with three significant digits, as `340 Gflop/s` or `1.25 Tflop/s`.
pub(crate) fn flop_rate(flop_per_s: f64) -> String {
    let units = [(1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G")];
    let unit = units.iter().find(|(size, _)| flop_per_s >= *size);
    let (size, letter) = unit.unwrap_or(&(1e6, "M"));
    format!("{} {letter}flop/s", figures(flop_per_s / size))
}

/// A number with three significant digits.
pub(crate) fn figures(number: f64) -> String {
    let digits = 2 - number.abs().max(1e-9).log10().floor() as i32;
    match digits {
        ..=0 => fixed(number, 0),
        _ => rounded(number, digits).to_string(),
    }
}

/// A number with `digits` digits after the decimal point, and those before it in groups of three, as `12,345.7`.
pub(crate) fn fixed(number: f64, digits: usize) -> String {
    let text = format!("{number:.digits$}");
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", &text[..]),
    };
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    match whole.parse::<u64>() {
        Ok(whole) => format!("{sign}{}{rest}", grouped(whole)),
        // NaN, infinity and what no u64 holds.
        Err(_) => format!("{sign}{text}"),
    }
}

/// Median, smallest and largest of several measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    /// The middle one.
    pub(crate) median: f64,
    /// The smallest.
    pub(crate) min: f64,
    /// The largest.
    pub(crate) max: f64,
}

impl Spread {
    /// The spread of these values; NaN and infinities if there are none.
    pub(crate) fn of(values: &[f64]) -> Spread {
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Spread {
            median: median(values),
            min,
            max,
        }
    }
}

/// A number rounded to `digits` digits after the decimal point, for JSON.
pub(crate) fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_figures() {
        let texts = [0.0512345, 1.2345, 12.345, 123.45, 12345.6].map(figures);
        assert_eq!(texts, ["0.0512", "1.23", "12.3", "123", "12,346"]);
        let texts = [12345.678, -1234.5, 0.25, f64::NAN, f64::NEG_INFINITY];
        assert_eq!(
            texts.map(|number| fixed(number, 1)),
            ["12,345.7", "-1,234.5", "0.2", "NaN", "-inf"]
        );
    }

    #[test]
    fn speeds_have_the_unit_of_their_size() {
        let texts = [2.5e7, 3.4e11, 1.25e12, 4.2714e15].map(flop_rate);
        assert_eq!(
            texts,
            ["25 Mflop/s", "340 Gflop/s", "1.25 Tflop/s", "4.27 Pflop/s"]
        );
    }

    #[test]
    fn digits_come_in_groups_of_three() {
        let cases = [
            (0u64, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ];
        cases
            .into_iter()
            .for_each(|(number, text)| assert_eq!(grouped(number), text));
        assert_eq!(
            (counted(1, "rank"), counted(1024, "rank")),
            ("1 rank".into(), "1,024 ranks".into())
        );
        assert_eq!(
            (counted(2, "batch"), counted(0, "process")),
            ("2 batches".into(), "0 processes".into())
        );
    }

    #[test]
    fn times_keep_two_units() {
        let cases = [
            (0.84, "0.8 s"),
            (42.7, "42 s"),
            (185.0, "3 min 05 s"),
            (7630.0, "2 h 07 min"),
        ];
        cases
            .into_iter()
            .for_each(|(s, text)| assert_eq!(duration(Duration::from_secs_f64(s)), text));
    }

    #[test]
    fn the_median_does_not_ask_for_order() {
        assert_eq!(
            (median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0, 2.0, 3.0])),
            (2.0, 2.5)
        );
        assert!(median(&[]).is_nan());
        assert_eq!(
            Spread::of(&[3.0, 1.0, 2.0]),
            Spread {
                median: 2.0,
                min: 1.0,
                max: 3.0
            }
        );
        assert_eq!(rounded(0.123456, 3), 0.123);
    }
}
