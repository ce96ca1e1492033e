//! A mean and its standard error.

use serde::Serialize;

/// The mean of a sample of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Mean {
    /// The mean; NaN of no number.
    pub mean: f64,
    /// The standard deviation of the sample, with `n - 1` in its denominator, by the square root of `n`; `None` for fewer than
    /// two numbers.
    pub standard_error: Option<f64>,
}

impl Mean {
    /// The mean of these numbers.
    pub fn of(numbers: impl IntoIterator<Item = f64>) -> Mean {
        let numbers: Vec<f64> = numbers.into_iter().collect();
        let count = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / count;
        let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
        let standard_error = (numbers.len() > 1).then(|| (squares / (count - 1.0) / count).sqrt());
        Mean {
            mean,
            standard_error,
        }
    }

    /// The share of these that are true.
    pub fn share(truths: impl IntoIterator<Item = bool>) -> Mean {
        Mean::of(truths.into_iter().map(|truth| f64::from(u8::from(truth))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_that_of_a_sample() {
        let mean = Mean::share([true, false, false, true]);
        assert_eq!(mean.mean, 0.5);
        // Squares of four halves, by 3, by 4.
        let error = mean.standard_error.unwrap();
        assert!((error - (1.0_f64 / 12.0).sqrt()).abs() < 1e-15);
        assert_eq!(Mean::of([3.0]).standard_error, None);
        assert_eq!(Mean::of([2.0, 2.0]).standard_error, Some(0.0));
        assert!(Mean::of([]).mean.is_nan());
    }
}
