//! A line over the steps of a run, which may have millions.

use super::Point;

/// The most points that are held: sixteen for each one that is drawn.
pub(super) const MOST_HELD: usize = 24_000;

/// A line that grows: each of its points stands for equally many, twice as many whenever there would be too many.
#[derive(Clone, Debug)]
pub(super) struct GrowingLine {
    points: Vec<Point>,
    /// How many a point stands for.
    each: usize,
    // What the next point stands for so far, and their number.
    next: Option<(Point, usize)>,
    // Makes one point of two; the second one is this share of both.
    merge: fn(Point, Point, f64) -> Point,
}

impl GrowingLine {
    /// A line without points.
    pub(super) fn new(merge: fn(Point, Point, f64) -> Point) -> GrowingLine {
        GrowingLine {
            points: Vec::new(),
            each: 1,
            next: None,
            merge,
        }
    }

    /// Adds a point behind the others.
    pub(super) fn add(&mut self, point: Point) {
        let (next, count) = match self.next.take() {
            None => (point, 1),
            Some((next, count)) => {
                let count = count + 1;
                ((self.merge)(next, point, 1.0 / count as f64), count)
            }
        };
        if count < self.each {
            self.next = Some((next, count));
            return;
        }
        self.points.push(next);
        if self.points.len() == MOST_HELD {
            let pairs = self.points.as_chunks::<2>().0.iter();
            self.points = pairs
                .map(|[one, other]| (self.merge)(*one, *other, 0.5))
                .collect();
            self.each *= 2;
        }
    }

    /// Drops the points of this step and of all later ones.
    pub(super) fn forget_from(&mut self, step: f64) {
        let kept = self.points.partition_point(|point| point.0 < step);
        let is_next_later = self.next.is_some_and(|(next, _)| next.0 >= step);
        if kept < self.points.len() || is_next_later {
            self.points.truncate(kept);
            self.next = None;
        }
    }

    /// The points, of which the last one may stand for fewer.
    pub(super) fn points(&self) -> Vec<Point> {
        let next = self.next.iter().map(|(next, _)| *next);
        self.points.iter().copied().chain(next).collect()
    }

    /// How many were added and are not dropped.
    pub(super) fn count(&self) -> usize {
        self.points.len() * self.each + self.next.map_or(0, |(_, count)| count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_points_are_held_however_many_are_added() {
        let mut line = GrowingLine::new(|_, other, _| other);
        let steps = 10 * MOST_HELD + 5;
        for step in 1..=steps {
            line.add((step as f64, 0.0));
            assert!(line.points.len() < MOST_HELD);
            assert_eq!(line.count(), step);
        }
        assert_eq!(line.each, 16);
        assert_eq!(line.points()[..2], [(16.0, 0.0), (32.0, 0.0)]);
        assert_eq!(line.points().last(), Some(&(steps as f64, 0.0)));
    }
}
