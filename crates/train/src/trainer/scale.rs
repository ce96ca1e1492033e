//! The loss scale in f16: it keeps gradients above the smallest half-precision number, and steps that overflow
//! are skipped.

/// A scale that halves when gradients overflow, and doubles after a long run without overflow.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct LossScale {
    pub(crate) value: f64,
    pub(super) good_steps: u32,
    adapts: bool,
}

const GROWTH_INTERVAL: u32 = 2000;

impl LossScale {
    /// A scale that starts at `value` and adapts.
    pub(crate) fn dynamic(value: f64) -> LossScale {
        LossScale {
            value,
            good_steps: 0,
            adapts: true,
        }
    }

    /// No scale.
    pub(crate) fn none() -> LossScale {
        LossScale {
            value: 1.0,
            good_steps: 0,
            adapts: false,
        }
    }

    /// The scale with which a run resumes from a checkpoint: the stored one, unless the run changes to or from f16.
    pub(crate) fn resumed(self, stored: LossScale) -> LossScale {
        match self.adapts == stored.adapts {
            true => stored,
            false => self,
        }
    }

    pub(crate) fn adapts(&self) -> bool {
        self.adapts
    }

    /// Records whether a step's gradients were finite; every rank knows the same norm, so all agree.
    pub(crate) fn update(&mut self, finite: bool) {
        if !self.adapts {
            return;
        }
        self.good_steps = if finite { self.good_steps + 1 } else { 0 };
        if !finite {
            self.value = (self.value / 2.0).max(1.0);
        } else if self.good_steps == GROWTH_INTERVAL {
            self.value *= 2.0;
            self.good_steps = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_changes_to_or_from_f16_keeps_its_own_scale() {
        let (half, other) = (LossScale::dynamic(1024.0), LossScale::none());
        let stored = LossScale::dynamic(64.0);
        assert_eq!(half.resumed(stored), stored);
        assert_eq!(half.resumed(other), half);
        assert_eq!(other.resumed(stored), other);
    }

    #[test]
    fn halves_on_overflow_and_doubles_after_a_long_run() {
        let mut scale = LossScale::dynamic(1024.0);
        scale.update(false);
        assert_eq!(scale.value, 512.0);
        (0..GROWTH_INTERVAL).for_each(|_| scale.update(true));
        assert_eq!(scale.value, 1024.0);
        (0..20).for_each(|_| scale.update(false));
        assert_eq!(scale.value, 1.0);
    }
}
