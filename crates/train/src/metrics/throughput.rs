//! Speed and remaining time, smoothed for readability.

use std::time::Duration;

/// The fraction of the past that remains after a new step: about the last twenty steps count.
const KEPT_SHARE: f64 = 0.95;

/// Smoothed tokens per second, and the remaining time.
///
/// Both are ratios of sums that forget the past at the same rate, so the first step counts fully and a slow
/// step has the weight of its time.
#[derive(Debug, Clone)]
pub struct Throughput {
    steps_left: u64,
    steps: f64,
    tokens: f64,
    seconds: f64,
}

impl Throughput {
    /// Before the first of `num_steps` steps.
    pub fn new(num_steps: u64) -> Throughput {
        Throughput {
            steps_left: num_steps,
            steps: 0.0,
            tokens: 0.0,
            seconds: 0.0,
        }
    }

    /// Adds a step of `tokens` tokens, over all ranks, that took `elapsed`.
    pub fn update(&mut self, tokens: u64, elapsed: Duration) {
        self.steps_left = self.steps_left.saturating_sub(1);
        self.steps = self.steps * KEPT_SHARE + 1.0;
        self.tokens = self.tokens * KEPT_SHARE + tokens as f64;
        self.seconds = self.seconds * KEPT_SHARE + elapsed.as_secs_f64();
    }

    /// Tokens per second over the last steps; 0 before the first.
    pub fn tokens_per_s(&self) -> f64 {
        if self.seconds > 0.0 {
            self.tokens / self.seconds
        } else {
            0.0
        }
    }

    /// The duration of the remaining steps at this speed; unknown before the first.
    pub fn time_left(&self) -> Option<Duration> {
        if self.steps == 0.0 {
            return None;
        }
        Duration::try_from_secs_f64(self.seconds / self.steps * self.steps_left as f64).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn nothing_is_known_before_the_first_step() {
        let throughput = Throughput::new(10);
        assert_eq!(
            (throughput.tokens_per_s(), throughput.time_left()),
            (0.0, None)
        );
    }

    #[test]
    fn even_steps_are_exact_from_the_first() {
        let mut throughput = Throughput::new(10);
        for step in 1..=10u32 {
            throughput.update(500, SECOND / 2);
            assert!((throughput.tokens_per_s() - 1000.0).abs() < 1e-9);
            let left = throughput.time_left().unwrap().as_secs_f64();
            assert!((left - 0.5 * f64::from(10 - step)).abs() < 1e-6, "{left}");
        }
        throughput.update(500, SECOND);
        assert_eq!(
            throughput.time_left(),
            Some(Duration::ZERO),
            "more steps than announced"
        );
    }

    #[test]
    fn a_slow_step_fades() {
        let mut throughput = Throughput::new(1000);
        throughput.update(100, SECOND * 100);
        (0..20).for_each(|_| throughput.update(100, SECOND));
        let after_twenty = throughput.tokens_per_s();
        (0..200).for_each(|_| throughput.update(100, SECOND));
        assert!(after_twenty < 50.0, "{after_twenty}");
        assert!(
            (throughput.tokens_per_s() - 100.0).abs() < 0.1,
            "{}",
            throughput.tokens_per_s()
        );
    }

    #[test]
    fn steps_without_time_are_no_division_by_zero() {
        let mut throughput = Throughput::new(u64::MAX);
        throughput.update(5, Duration::ZERO);
        assert_eq!(throughput.tokens_per_s(), 0.0);
        assert_eq!(throughput.time_left(), Some(Duration::ZERO));
    }
}
