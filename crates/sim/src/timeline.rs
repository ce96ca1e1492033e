//! The intervals in which a shared resource is busy.

/// Intervals of time, disjoint and in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Timeline {
    busy: Vec<(f64, f64)>,
}

impl Timeline {
    /// Marks the interval as busy, as far as it is still free.
    pub(crate) fn insert(&mut self, start: f64, end: f64) {
        if end <= start {
            return;
        }
        let first = self.busy.partition_point(|taken| taken.1 < start);
        let last = first + self.busy[first..].partition_point(|taken| taken.0 <= end);
        if first == last {
            self.busy.insert(first, (start, end));
            return;
        }
        self.busy[first] = (
            start.min(self.busy[first].0),
            end.max(self.busy[last - 1].1),
        );
        self.busy.drain(first + 1..last);
    }

    /// The first time from `at` on at which the resource is free.
    pub(crate) fn free_from(&self, at: f64) -> f64 {
        self.busy
            .get(self.ending_after(at))
            .filter(|taken| taken.0 <= at)
            .map_or(at, |taken| taken.1)
    }

    /// The first time from `at` on at which the resource is taken.
    pub(crate) fn taken_from(&self, at: f64) -> f64 {
        self.busy
            .get(self.ending_after(at))
            .map_or(f64::INFINITY, |taken| taken.0.max(at))
    }

    /// The end of `work` that starts at `start` and progresses at `rate`, 0 to 1, while the resource is busy
    /// and at 1 otherwise.
    pub(crate) fn finish(&self, start: f64, work: f64, rate: f64) -> f64 {
        let (mut at, mut left) = (start, work);
        for &(from, to) in &self.busy[self.ending_after(start)..] {
            let free = (from - at).max(0.0);
            if left <= free {
                break;
            }
            (at, left) = (at.max(from), left - free);
            let beside = (to - at) * rate;
            if left <= beside {
                return at + left / rate;
            }
            (at, left) = (to, left - beside);
        }
        at + left
    }

    /// Drops everything before `horizon`.
    pub(crate) fn prune(&mut self, horizon: f64) {
        let past = self.ending_after(horizon);
        self.busy.drain(..past);
    }

    /// Number of intervals.
    pub(crate) fn len(&self) -> usize {
        self.busy.len()
    }

    fn ending_after(&self, at: f64) -> usize {
        // New work mostly lies after all existing intervals.
        match self.busy.last() {
            Some(last) if last.1 > at => self.busy.partition_point(|taken| taken.1 <= at),
            _ => self.busy.len(),
        }
    }
}

#[cfg(test)]
mod tests;
