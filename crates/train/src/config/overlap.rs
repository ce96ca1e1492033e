//! Which collectives overlap, by name.

use parallel::Overlap;
use serde::{Deserialize, Serialize};

/// The names of collectives that can run beside compute, each with what it stands for.
pub const OVERLAP_MEANINGS: [(&str, &str); 5] = [
    ("oar", "all-reduces of gradients of inputs"),
    ("ors", "reduce-scatters of gradients of weights"),
    ("oag", "all-gathers of weights"),
    ("oag-backward", "all-gathers of weights in backward alone"),
    ("data", "sums of gradients over replicas"),
];

/// [`Overlap`] as a list of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct OverlapNames(pub Overlap);

impl TryFrom<Vec<String>> for OverlapNames {
    type Error = String;

    fn try_from(names: Vec<String>) -> std::result::Result<Self, String> {
        overlap_from_names(&names).map(OverlapNames)
    }
}

impl OverlapNames {
    /// The names with what they stand for, as in `oag (all-gathers of weights)`; `none` if nothing overlaps.
    pub fn explained(self) -> String {
        let names = Vec::<String>::from(self);
        let chosen = OVERLAP_MEANINGS.iter();
        let chosen = chosen.filter(|(name, _)| names.iter().any(|chosen| chosen == name));
        match names.is_empty() {
            true => "none".into(),
            false => in_words(chosen),
        }
    }
}

fn in_words<'a>(names: impl Iterator<Item = &'a (&'static str, &'static str)>) -> String {
    let words: Vec<String> = names
        .map(|(name, meaning)| format!("{name} ({meaning})"))
        .collect();
    words.join(", ")
}

impl From<OverlapNames> for Vec<String> {
    fn from(OverlapNames(overlap): OverlapNames) -> Vec<String> {
        let Overlap {
            all_reduce,
            reduce_scatter,
            all_gather,
            all_gather_forward,
            data,
        } = overlap;
        let all = [
            ("oar", all_reduce),
            ("ors", reduce_scatter),
            ("oag", all_gather && all_gather_forward),
            ("oag-backward", all_gather && !all_gather_forward),
            ("data", data),
        ];
        all.into_iter()
            .filter(|(_, on)| *on)
            .map(|(name, _)| name.to_owned())
            .collect()
    }
}

/// The overlap that a list of names stands for.
///
/// # Errors
/// One sentence with the name that is none of `oar`, `ors`, `oag`, `oag-backward`, `data`, `all`, `none`.
pub fn overlap_from_names(names: &[String]) -> std::result::Result<Overlap, String> {
    let mut overlap = Overlap::NONE;
    for name in names {
        match name.as_str() {
            "oar" => overlap.all_reduce = true,
            "ors" => overlap.reduce_scatter = true,
            "oag" => (overlap.all_gather, overlap.all_gather_forward) = (true, true),
            "oag-backward" => overlap.all_gather = true,
            "data" => overlap.data = true,
            "all" => overlap = Overlap::ALL,
            "none" => overlap = Overlap::NONE,
            other => {
                return Err(format!(
                    "overlap: found `{other}`, needs all, none, or any of {}",
                    in_words(OVERLAP_MEANINGS.iter())
                ));
            }
        }
    }
    Ok(overlap)
}
