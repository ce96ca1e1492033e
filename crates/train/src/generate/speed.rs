//! Tokens per second.

use std::time::Duration;

/// What a generator has run, and how long it took.
///
/// A step that runs tokens of a prompt counts as prefill, and any other as decode: so a decoded token bears its part of the
/// windows that are computed anew.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Speed {
    /// Tokens of prompts.
    pub prefill_tokens: usize,
    /// The time of their steps.
    pub prefill: Duration,
    /// New tokens of steps without tokens of prompts.
    pub decode_tokens: usize,
    /// The time of these steps.
    pub decode: Duration,
    /// Tokens of prompts that were not run, because another text had run them.
    pub reused_tokens: usize,
}

impl Speed {
    pub(super) fn add(&mut self, prompts: usize, generated: usize, time: Duration) {
        match prompts {
            0 => {
                self.decode_tokens += generated;
                self.decode += time;
            }
            _ => {
                self.prefill_tokens += prompts;
                self.prefill += time;
            }
        }
    }

    /// Tokens of prompts per second; 0 if there were none.
    pub fn prefill_per_second(&self) -> f64 {
        rate(self.prefill_tokens, self.prefill)
    }

    /// New tokens per second; 0 if there were none.
    pub fn decode_per_second(&self) -> f64 {
        rate(self.decode_tokens, self.decode)
    }
}

fn rate(tokens: usize, time: Duration) -> f64 {
    match tokens {
        0 => 0.0,
        _ => tokens as f64 / time.as_secs_f64(),
    }
}
