//! The fastest choices of a stage's segments for every number of bytes that they may keep on the device.
//!
//! A choice adds seconds by itself and with the choice of the segment behind it, beside which its bytes move. So dynamic programming
//! over segments, with the last choice as the state, finds the fastest choices for all numbers of bytes at once.

use super::costs::{Links, SegmentCost, copy_seconds};
use parallel::memory::{PlaceKind, SegmentMemory};
use std::rc::Rc;

/// Choices with the same last choice that are kept per step: where there are more, those of about as many bytes are one.
const MOST_POINTS: usize = 400;

/// Choices for the first segments of a stage, in the order of time.
#[derive(Clone, Debug)]
pub(super) struct Point {
    /// Bytes that they keep on the device.
    pub(super) bytes: f64,
    /// Seconds that they add to a micro-batch.
    pub(super) seconds: f64,
    chosen: Option<Rc<Chosen>>,
}

#[derive(Debug)]
struct Chosen {
    last: SegmentMemory,
    // Bytes of the last segment's, wherever they are.
    keeps: f64,
    before: Option<Rc<Chosen>>,
}

impl Point {
    const NOTHING: Point = Point {
        bytes: 0.0,
        seconds: 0.0,
        chosen: None,
    };

    /// The choices, segment by segment.
    pub(super) fn choices(&self) -> Vec<SegmentMemory> {
        let mut choices = Vec::new();
        let mut next = self.chosen.as_ref();
        while let Some(chosen) = next {
            choices.push(chosen.last);
            next = chosen.before.as_ref();
        }
        choices.reverse();
        choices
    }

    /// These choices for the segments of a stage.
    pub(super) fn of(links: &Links, stage: &[SegmentCost], choices: &[SegmentMemory]) -> Point {
        let mut point = Point::NOTHING;
        for (index, (segment, own)) in stage.iter().zip(choices).enumerate() {
            point = point.with(links, segment, *own, before(stage, index));
        }
        point
    }

    // Whether the last segment is part of a run that was begun before it.
    fn keeps_nothing(&self) -> bool {
        self.chosen
            .as_ref()
            .is_some_and(|chosen| chosen.keeps == 0.0)
    }

    // With one more segment, behind `before` if they are in one part.
    fn with(
        &self,
        links: &Links,
        segment: &SegmentCost,
        own: SegmentMemory,
        before: Option<&SegmentCost>,
    ) -> Point {
        let before = before.zip(self.chosen.as_deref());
        let earlier = before.map(|(segment, chosen)| (segment, chosen.last));
        let keeps = segment.keeps(own, earlier);
        let mut seconds = self.seconds + segment.own_seconds(own);
        if let Some((_, chosen)) = before {
            let copy = copy_seconds(links, chosen.keeps, chosen.last);
            seconds += segment.waits(own, copy);
        }
        if !segment.is_followed {
            // Nothing of this micro-batch hides the return of the last one.
            seconds += copy_seconds(links, keeps, own);
        }
        let stays = own.place == PlaceKind::Device;
        Point {
            bytes: self.bytes
                + if stays {
                    keeps * segment.in_flight
                } else {
                    0.0
                },
            seconds,
            chosen: Some(Rc::new(Chosen {
                last: own,
                keeps,
                before: self.chosen.clone(),
            })),
        }
    }
}

// The segment that runs before one in the same part.
fn before(stage: &[SegmentCost], index: usize) -> Option<&SegmentCost> {
    let before = index.checked_sub(1).map(|index| &stage[index]);
    before.filter(|before| before.is_followed)
}

/// Seconds for which the slowest stage's micro-batch waits for bytes that move, with these choices for all segments of the model.
pub(crate) fn waits(links: &Links, stages: &[Vec<SegmentCost>], segments: &[SegmentMemory]) -> f64 {
    let of_stage = |stage: &Vec<SegmentCost>| {
        let choices: Vec<_> = stage
            .iter()
            .map(|segment| segments[segment.number])
            .collect();
        let own = stage.iter().zip(&choices);
        let own = own.map(|(segment, choice)| segment.own_seconds(*choice));
        Point::of(links, stage, &choices).seconds - own.sum::<f64>()
    };
    stages.iter().map(of_stage).fold(0.0, f64::max)
}

/// The choices among `allowed` of which no others are faster with as few bytes, the fewest bytes first.
pub(super) fn frontier(
    links: &Links,
    stage: &[SegmentCost],
    allowed: &[SegmentMemory],
) -> Vec<Point> {
    let mut states: Vec<Vec<Point>> = vec![vec![Point::NOTHING]];
    for (index, segment) in stage.iter().enumerate() {
        let before = before(stage, index);
        let may = |own: &&SegmentMemory| !own.recompute || segment.run.is_some();
        let mut next = Vec::new();
        for own in allowed.iter().filter(may) {
            let earlier = states.iter().flatten();
            let with = earlier.map(|point| point.with(links, segment, *own, before));
            // What the last one keeps decides how long the next one waits for it.
            let (none, some): (Vec<_>, Vec<_>) = with.partition(Point::keeps_nothing);
            next.extend([fastest(none), fastest(some)]);
        }
        states = next;
    }
    fastest(states.into_iter().flatten().collect())
}

// Drops points that another one beats in both numbers.
fn fastest(mut points: Vec<Point>) -> Vec<Point> {
    let order = |one: &Point, other: &Point| {
        let bytes = one.bytes.total_cmp(&other.bytes);
        bytes.then(one.seconds.total_cmp(&other.seconds))
    };
    points.sort_by(order);
    let mut kept: Vec<Point> = Vec::new();
    for point in points {
        if kept.last().is_none_or(|last| point.seconds < last.seconds) {
            kept.push(point);
        }
    }
    thinned(kept)
}

// Of points with about as many bytes, the one with the most is the fastest.
fn thinned(points: Vec<Point>) -> Vec<Point> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return points;
    };
    if points.len() <= MOST_POINTS {
        return points;
    }
    let (least, width) = (first.bytes, (last.bytes - first.bytes) / MOST_POINTS as f64);
    let cell = |point: &Point| ((point.bytes - least) / width) as usize;
    let mut kept: Vec<Point> = Vec::with_capacity(MOST_POINTS + 1);
    for point in points {
        let same = kept.last().is_some_and(|last| cell(last) == cell(&point));
        // The leanest one stays.
        if same && kept.len() > 1 {
            kept.pop();
        }
        kept.push(point);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALLOWED: [SegmentMemory; 4] = [
        SegmentMemory::STAYS,
        SegmentMemory::RECOMPUTED,
        SegmentMemory {
            recompute: false,
            place: PlaceKind::Host,
        },
        SegmentMemory {
            recompute: true,
            place: PlaceKind::Files,
        },
    ];

    // All choices of a stage's segments.
    fn all(stage: &[SegmentCost]) -> Vec<Vec<SegmentMemory>> {
        let mut all = vec![Vec::new()];
        for segment in stage {
            let longer = |choices: Vec<SegmentMemory>| {
                let may = |own: &&SegmentMemory| !own.recompute || segment.run.is_some();
                let with = move |own: &SegmentMemory| [&choices[..], &[*own]].concat();
                ALLOWED.iter().filter(may).map(with).collect::<Vec<_>>()
            };
            all = all.into_iter().flat_map(longer).collect();
        }
        all
    }

    fn segment() -> impl Strategy<Value = SegmentCost> {
        let times = (1..5u32, 1..5u32, 1..9u32, 1..9u32);
        (times, 0..2usize, 1..3u32, 0..4u32).prop_map(|(times, run, in_flight, followed)| {
            let (forward, backward, kept, input) = times;
            SegmentCost {
                number: 0,
                forward_s: forward.into(),
                backward_s: backward.into(),
                kept: kept.into(),
                input: input.into(),
                run: run.checked_sub(1),
                in_flight: in_flight.into(),
                // Most segments are in one part.
                is_followed: followed > 0,
            }
        })
    }

    proptest! {
        #[test]
        fn no_choice_is_faster_with_as_few_bytes(
            stage in proptest::collection::vec(segment(), 1..6),
            host in 1..17u32,
        ) {
            let links = Links { host: f64::from(host) / 2.0, files: 0.5 };
            let frontier = frontier(&links, &stage, &ALLOWED);
            for point in &frontier {
                let again = Point::of(&links, &stage, &point.choices());
                prop_assert_eq!((again.bytes, again.seconds), (point.bytes, point.seconds));
            }
            for choices in all(&stage) {
                let any = Point::of(&links, &stage, &choices);
                let best = frontier.iter().rfind(|point| point.bytes <= any.bytes).unwrap();
                prop_assert!(best.seconds <= any.seconds, "{choices:?}: {any:?}, {best:?}");
            }
        }
    }

    // A point that is slower so far may have less to move beside the next segment.
    #[test]
    fn what_the_last_segment_keeps_decides_what_the_next_one_waits() {
        let segment = |kept: f64, input: f64, is_followed: bool| SegmentCost {
            number: 0,
            forward_s: 1.0,
            backward_s: 1.0,
            kept,
            input,
            run: Some(0),
            in_flight: 1.0,
            is_followed,
        };
        let stage = [
            segment(0.1, 0.5, true),
            segment(9.0, 9.0, true),
            segment(0.0, 0.0, false),
        ];
        let links = Links {
            host: 0.5,
            files: 0.5,
        };
        let [_, _, _, again] = ALLOWED;
        let frontier = frontier(&links, &stage, &ALLOWED);
        assert_eq!(frontier[0].bytes, 0.0);
        assert_eq!(frontier[0].choices()[..2], [again; 2]);
    }

    #[test]
    fn a_long_stage_has_few_points_and_both_ends() {
        let segment = |number: usize| SegmentCost {
            number,
            forward_s: 1.0 + number as f64 / 7.0,
            backward_s: 2.0,
            kept: 5.0 + (number % 13) as f64 / 3.0,
            input: 1.0,
            run: Some(number / 2),
            in_flight: 1.0,
            is_followed: number < 99,
        };
        let stage: Vec<SegmentCost> = (0..100).map(segment).collect();
        let links = Links {
            host: 2.0,
            files: 0.5,
        };
        let frontier = frontier(&links, &stage, &ALLOWED);
        assert!(frontier.len() <= MOST_POINTS + 1, "{}", frontier.len());
        assert_eq!(frontier[0].bytes, 0.0);
        let all: f64 = stage.iter().map(|segment| segment.kept).sum();
        let last = frontier.last().unwrap();
        assert_eq!(last.seconds, 0.0);
        assert!(last.choices().iter().all(|choice| *choice == ALLOWED[0]));
        assert!((last.bytes - all).abs() < 1e-9);
    }
}
