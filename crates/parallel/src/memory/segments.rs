//! A selection of a model's segments, by kind or number.

use serde::{Deserialize, Serialize};
use std::{fmt, ops::Range, str::FromStr};
use tensor::{Error, Result};

/// Some segments of a model: written as `false`, `true`, or a list of names, as in `["attention", "3-8"]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "WrittenSegments", into = "WrittenSegments")]
pub enum Segments {
    /// None of them.
    #[default]
    None,
    /// All of them.
    All,
    /// Those that one of these names selects.
    Named(Vec<SegmentName>),
}

/// The name of some segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SegmentName {
    /// All of this [kind](crate::Model::kind).
    Kind(String),
    /// Those with these numbers, counted from 0: written as `3`, or as `3-8` with the last one.
    Numbers(Range<usize>),
}

// As it stands in a file. A number alone may be written without quotes.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum WrittenSegments {
    All(bool),
    Named(Vec<WrittenName>),
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum WrittenName {
    Number(u64),
    Text(String),
}

impl From<bool> for Segments {
    fn from(all: bool) -> Segments {
        match all {
            true => Segments::All,
            false => Segments::None,
        }
    }
}

impl Segments {
    /// Those with one of these names.
    ///
    /// # Errors
    /// As [`SegmentName`]'s `from_str`.
    pub fn named(names: &[&str]) -> Result<Segments> {
        let names = names.iter().map(|name| name.parse());
        Ok(Segments::Named(names.collect::<Result<_>>()?))
    }

    /// Those that are `selected`, of a model whose segments have these kinds: by kind where all of one are, otherwise by number.
    pub fn of<K: AsRef<str>>(selected: &[bool], kinds: &[K]) -> Segments {
        let all_of = |kind: &str| {
            let mut own = kinds
                .iter()
                .zip(selected)
                .filter(|(other, _)| other.as_ref() == kind);
            own.all(|(_, selected)| *selected)
        };
        // A kind of one segment, and one whose name would be read as a number, is not shorter.
        let is_plain = |kind: &str| {
            let own = kinds.iter().filter(|other| other.as_ref() == kind);
            own.count() > 1
                && kind
                    .parse()
                    .is_ok_and(|name| matches!(name, SegmentName::Kind(_)))
        };
        let mut names = Vec::new();
        for kind in distinct(kinds) {
            if is_plain(kind) && all_of(kind) {
                names.push(SegmentName::Kind(kind.to_owned()));
            }
        }
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for (segment, kind) in kinds.iter().enumerate().filter(|(at, _)| selected[*at]) {
            if names
                .iter()
                .any(|name| name.selects(segment, kind.as_ref()))
            {
                continue;
            }
            match ranges.last_mut() {
                Some(range) if range.end == segment => range.end += 1,
                _ => ranges.push(segment..segment + 1),
            }
        }
        names.extend(ranges.into_iter().map(SegmentName::Numbers));
        match names.is_empty() {
            true => Segments::None,
            false => Segments::Named(names),
        }
    }

    /// Whether each segment, of these kinds, is selected.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name that selects none of them, or more than there are; `setting` names the selection in it.
    pub fn selected<K: AsRef<str>>(&self, setting: &str, kinds: &[K]) -> Result<Vec<bool>> {
        let names = match self {
            Segments::None => return Ok(vec![false; kinds.len()]),
            Segments::All => return Ok(vec![true; kinds.len()]),
            Segments::Named(names) => names,
        };
        let mut selected = vec![false; kinds.len()];
        for name in names {
            let is_known = match name {
                SegmentName::Kind(kind) => kinds.iter().any(|known| known.as_ref() == kind),
                SegmentName::Numbers(numbers) => numbers.end <= kinds.len(),
            };
            if !is_known {
                let last = kinds.len().saturating_sub(1);
                let needed = format!(
                    "a kind of segment ({}) or numbers from 0 to {last}",
                    distinct(kinds).join(", ")
                );
                return Err(Error::invalid(setting, format!("found `{name}`"), needed));
            }
            for (segment, kind) in kinds.iter().enumerate() {
                selected[segment] |= name.selects(segment, kind.as_ref());
            }
        }
        Ok(selected)
    }

    /// Refuses a name of which no segment may be selected.
    pub(super) fn check_selects<K: AsRef<str>>(
        &self,
        setting: &str,
        kinds: &[K],
        may: impl Fn(usize) -> bool,
    ) -> Result<()> {
        let Segments::Named(names) = self else {
            return Ok(());
        };
        for name in names {
            let mut segments = kinds.iter().enumerate();
            if !segments.any(|(segment, kind)| name.selects(segment, kind.as_ref()) && may(segment))
            {
                let those: Vec<bool> = (0..kinds.len()).map(&may).collect();
                let those = Segments::of(&those, kinds);
                let needed = match those {
                    Segments::None => "false: the model recomputes no segment".to_owned(),
                    those => format!("segments that the model recomputes ({those})"),
                };
                return Err(Error::invalid(setting, format!("found `{name}`"), needed));
            }
        }
        Ok(())
    }
}

fn distinct<K: AsRef<str>>(kinds: &[K]) -> Vec<&str> {
    let mut distinct: Vec<&str> = Vec::new();
    for kind in kinds {
        if !distinct.contains(&kind.as_ref()) {
            distinct.push(kind.as_ref());
        }
    }
    distinct
}

impl SegmentName {
    fn selects(&self, segment: usize, kind: &str) -> bool {
        match self {
            SegmentName::Kind(own) => own == kind,
            SegmentName::Numbers(numbers) => numbers.contains(&segment),
        }
    }
}

impl fmt::Display for Segments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Segments::None => f.write_str("none"),
            Segments::All => f.write_str("all"),
            Segments::Named(names) => {
                let names: Vec<String> = names.iter().map(ToString::to_string).collect();
                f.write_str(&names.join(", "))
            }
        }
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SegmentName::Kind(kind) => f.write_str(kind),
            SegmentName::Numbers(numbers) if numbers.len() == 1 => write!(f, "{}", numbers.start),
            SegmentName::Numbers(numbers) => {
                write!(f, "{}-{}", numbers.start, numbers.end.saturating_sub(1))
            }
        }
    }
}

impl FromStr for SegmentName {
    type Err = Error;

    /// Digits are a number, two numbers with a dash a range, and everything else a kind.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty name, and for a range that ends before it starts or exceeds the machine's numbers.
    fn from_str(text: &str) -> Result<SegmentName> {
        let refuse = || {
            let needed = "a kind, a number, or numbers as in 3-8";
            Error::invalid("segment", format!("found `{text}`"), needed)
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if text.trim().is_empty() {
            return Err(refuse());
        }
        if !is_number(first) || !is_number(last) {
            return Ok(SegmentName::Kind(text.to_owned()));
        }
        let (first, last): (usize, usize) = (
            first.parse().map_err(|_| refuse())?,
            last.parse().map_err(|_| refuse())?,
        );
        let end = last.checked_add(1).filter(|end| *end > first);
        Ok(SegmentName::Numbers(first..end.ok_or_else(refuse)?))
    }
}

impl TryFrom<WrittenSegments> for Segments {
    type Error = Error;

    fn try_from(written: WrittenSegments) -> Result<Segments> {
        let names = match written {
            WrittenSegments::All(all) => return Ok(all.into()),
            WrittenSegments::Named(names) => names,
        };
        let name = |name: WrittenName| match name {
            WrittenName::Number(number) => number.to_string().parse(),
            WrittenName::Text(text) => text.parse(),
        };
        let names = names.into_iter().map(name).collect::<Result<Vec<_>>>()?;
        Ok(match names.is_empty() {
            true => Segments::None,
            false => Segments::Named(names),
        })
    }
}

impl From<Segments> for WrittenSegments {
    fn from(segments: Segments) -> WrittenSegments {
        match segments {
            Segments::None => WrittenSegments::All(false),
            Segments::All => WrittenSegments::All(true),
            Segments::Named(names) => {
                let text = |name: &SegmentName| WrittenName::Text(name.to_string());
                WrittenSegments::Named(names.iter().map(text).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_kinds_numbers_or_ranges() {
        let parsed = |text: &str| text.parse::<SegmentName>();
        assert_eq!(parsed("mlp").unwrap(), SegmentName::Kind("mlp".into()));
        assert_eq!(parsed("7").unwrap(), SegmentName::Numbers(7..8));
        assert_eq!(parsed("3-8").unwrap(), SegmentName::Numbers(3..9));
        // A dash does not make a range.
        assert_eq!(
            parsed("cross-attention").unwrap().to_string(),
            "cross-attention"
        );
        for refused in ["", " ", "8-3", "99999999999999999999999"] {
            let text = parsed(refused).unwrap_err().to_string();
            assert_eq!(
                text,
                format!("segment: found `{refused}`, needs a kind, a number, or numbers as in 3-8")
            );
        }
    }

    proptest! {
        #[test]
        fn a_selection_comes_back_from_its_names(chosen: Vec<(bool, usize)>) {
            let kinds: Vec<&str> = chosen.iter().map(|(_, kind)| ["a", "b", "3-4"][kind % 3]).collect();
            let selected: Vec<bool> = chosen.iter().map(|(selected, _)| *selected).collect();
            let segments = Segments::of(&selected, &kinds);
            prop_assert_eq!(segments.selected("these", &kinds).unwrap(), selected);
            if let Segments::Named(names) = &segments {
                for name in names {
                    prop_assert_eq!(&name.to_string().parse::<SegmentName>().unwrap(), name);
                }
            }
        }
    }
}
