//! A choice for each segment, in words.

use parallel::{
    memory::{PlaceKind, SegmentMemory, SegmentName, Segments},
    work::Work,
};

/// What the segments of this work do, as in `attention recomputed, mlp in files`; those that stay as they are have no word.
pub fn in_words(work: &Work, segments: &[SegmentMemory]) -> String {
    let kinds = work.kinds();
    let mut words = Vec::new();
    for place in PlaceKind::ALL {
        for recompute in [true, false] {
            let choice = SegmentMemory { recompute, place };
            let those: Vec<bool> = segments.iter().map(|segment| *segment == choice).collect();
            let how = match (recompute, place) {
                (false, PlaceKind::Device) => continue,
                (true, PlaceKind::Device) => "recomputed",
                (true, PlaceKind::Host) => "recomputed with inputs on the host",
                (true, PlaceKind::Files) => "recomputed with inputs in files",
                (false, PlaceKind::Host) => "on the host",
                (false, PlaceKind::Files) => "in files",
            };
            if let Segments::Named(names) = Segments::of(&those, &kinds) {
                words.push(format!("{} {how}", list(&names)));
            }
        }
    }
    match words.is_empty() {
        true => "all segments stay".into(),
        false => words.join(", "),
    }
}

// Kinds, and then numbers.
fn list(names: &[SegmentName]) -> String {
    let mut words = Vec::new();
    let mut numbered = false;
    for name in names {
        let is_number = matches!(name, SegmentName::Numbers(_));
        let is_first = is_number && !std::mem::replace(&mut numbered, is_number);
        words.push(match is_first {
            true => format!("segments {name}"),
            false => name.to_string(),
        });
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use train::Config;

    #[test]
    fn kinds_stand_for_numbers_where_they_can() {
        let model = families::gpt::published(2, 64, 8).into();
        let work = Config::new(model).work().unwrap();
        let mut segments = vec![SegmentMemory::STAYS; 6];
        assert_eq!(in_words(&work, &segments), "all segments stay");
        (segments[1], segments[3]) = (SegmentMemory::RECOMPUTED, SegmentMemory::RECOMPUTED);
        segments[4].place = PlaceKind::Files;
        assert_eq!(
            in_words(&work, &segments),
            "attention recomputed, segments 4 in files"
        );
        segments[0] = SegmentMemory::RECOMPUTED;
        assert_eq!(
            in_words(&work, &segments),
            "attention, segments 0 recomputed, segments 4 in files"
        );
    }
}
