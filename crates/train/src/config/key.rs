//! The keys of a configuration: the values that each takes, its default and its meaning.
//!
//! A section is a structure inside [`section!`](crate::section). The parser fills that structure, and the table of
//! settings in the manual is made from it, so neither can have a key that the other lacks.

use super::{BitsChoice, OrderChoice, OverlapNames};
use crate::{
    config::{
        ActivationPlaces, EvaluationEntry, FrozenWeights, MemoryMode, MixtureEntry, ObjectiveKind,
        OptimiserKind, PlaceKind, Precision,
    },
    data::{LossOn, OrderMode, TokenType, TokenizerChoice},
    optimiser::RateSchedule,
};
use grid::Degrees;
use hal::{CollectiveBackend, EpiloguePlacement};
use parallel::{
    ContextAttention, GradientWire, Hierarchical, Positions,
    data::{Sharding, UpdatePlace},
    memory::Segments,
    pipeline::ScheduleKind,
};
use serde::Serialize;
use std::path::PathBuf;

/// One key of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name within its section.
    pub name: &'static str,
    /// The values that it takes, in words.
    pub values: String,
    /// Its default in TOML; `None` where the key is absent by default.
    pub default: Option<String>,
    /// Its meaning: the doc comment of its field.
    pub meaning: String,
}

impl Key {
    // The default is read from a section that serde has written.
    #[doc(hidden)]
    pub fn of<T: KeyType>(name: &'static str, meaning: &str, defaults: &impl Serialize) -> Key {
        let defaults = toml::Table::try_from(defaults).unwrap_or_default();
        Key {
            name,
            values: T::values(),
            default: defaults.get(name).map(ToString::to_string),
            meaning: meaning.trim().to_owned(),
        }
    }
}

/// A table of a configuration.
pub trait Section: Default + Serialize {
    /// Its keys, in the order of the fields.
    fn keys() -> Vec<Key>;
}

/// A type that a key can hold.
pub trait KeyType {
    /// The values that it takes, in words and in Markdown.
    fn values() -> String;
}

impl<T: KeyType> KeyType for Option<T> {
    fn values() -> String {
        T::values()
    }
}

/// Says for each type the values that it takes.
macro_rules! values {
    ($($values:ty => $words:literal,)*) => {
        $(impl KeyType for $values {
            fn values() -> String {
                $words.to_owned()
            }
        })*
    };
}

values! {
    bool => "`true` or `false`",
    u64 => "whole number",
    usize => "whole number",
    f64 => "number",
    String => "text",
    PathBuf => "path",
    Vec<String> => "list of texts",
    Vec<MixtureEntry> => "list of `{ path = PATH, weight = NUMBER }`",
    Vec<EvaluationEntry> => "list of `{ name = NAME, path = PATH }`",
    Vec<usize> => "list of whole numbers",
    Degrees => "axes and degrees, as in `\"x=2,z=4\"`",
    OrderChoice => "`auto`, or all six axes as in `x,y,z,context,pipeline,data`",
    Positions => "`by-node` or `by-rank`",
    Hierarchical => "`auto`, `on` or `off`",
    ContextAttention => "`gather`, `heads`, `ring` or `ring:EXCHANGE`",
    GradientWire => "`mixed`, `narrow` or `wide`",
    Sharding => "`none`, `optimiser` or `gradients`",
    BitsChoice => "`auto`, `run` or `grid`",
    ScheduleKind => "`gpipe`, `1f1b`, `interleaved:CHUNKS`, `zb-h1`, `zb-v`, `pipedream`, `pipedream-2bw`, `message-driven` or `message-driven:LIMIT`",
    OverlapNames => "list of `oar`, `ors`, `oag`, `oag-backward`, `data`, `all`, `none`",
    Precision => "`f64`, `f32`, `bf16` or `f16`",
    ObjectiveKind => "`model` or `dpo`",
    FrozenWeights => "`compute`, `int8` or `nf4`",
    OptimiserKind => "`adamw`, `adamw8bit`, `adafactor`, `sgd`, `lion` or `muon`",
    PlaceKind => "`device`, `host` or `files`",
    UpdatePlace => "`device` or `host`",
    ActivationPlaces => "`device`, `host`, `files` or `{ host = SEGMENTS, files = SEGMENTS }`, with `SEGMENTS` as for `training.recompute`",
    MemoryMode => "`stated` or `auto`",
    Segments => "`true`, `false`, or a list of kinds and numbers of segments as in `[\"attention\", \"3-8\"]`",
    RateSchedule => "`cosine`, `linear` or `constant`",
    OrderMode => "`random` or `epoch`",
    LossOn => "`answers` or `all`",
    TokenType => "`u16` or `u32`",
    CollectiveBackend => "`library` or `staged`",
    EpiloguePlacement => "`fused` or `separate`",
    TokenizerChoice => "`bytes`, `characters`, `{ file = PATH }`, `{ ids = NUMBER }` or `{ checkpoint = PATH }`",
}

/// Defines the structure of a section, and implements [`Section`] for it.
///
/// The structure derives `Serialize` and implements `Default`; each field has a doc comment, which becomes the meaning of
/// the key, and a type that implements [`KeyType`].
///
/// ```
/// use fascicle_train::{config::Section, section};
///
/// section! {
///     /// Sizes of a residual network.
///     #[derive(serde::Serialize)]
///     pub struct Sizes {
///         /// Number of residual blocks.
///         pub blocks: usize,
///     }
/// }
///
/// impl Default for Sizes {
///     fn default() -> Self {
///         Sizes { blocks: 6 }
///     }
/// }
///
/// let keys = Sizes::keys();
/// assert_eq!((keys[0].name, keys[0].default.as_deref()), ("blocks", Some("6")));
/// assert_eq!(keys[0].meaning, "Number of residual blocks.");
/// ```
#[macro_export]
macro_rules! section {
    (
        $(#[$attribute:meta])*
        pub struct $section:ident {
            $(
                $(#[doc = $meaning:literal])+
                $(#[serde($($serde:tt)*)])*
                $visibility:vis $field:ident: $values:ty,
            )*
        }
    ) => {
        $(#[$attribute])*
        pub struct $section {
            $(
                $(#[doc = $meaning])+
                $(#[serde($($serde)*)])*
                $visibility $field: $values,
            )*
        }

        impl $crate::config::Section for $section {
            fn keys() -> Vec<$crate::config::Key> {
                let defaults = <$section>::default();
                vec![$($crate::config::Key::of::<$values>(
                    stringify!($field),
                    concat!($($meaning),+),
                    &defaults,
                )),*]
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::DeserializeOwned;

    // Each word in back quotes that is a whole value is one that the parser takes; capitals stand for a value.
    fn read<T: KeyType + DeserializeOwned>() {
        #[derive(serde::Deserialize)]
        struct Document<T> {
            #[allow(dead_code, reason = "only whether it can be read counts")]
            key: T,
        }
        for word in T::values().split('`').skip(1).step_by(2) {
            let word = word
                .replace("CHUNKS", "2")
                .replace("LIMIT", "4")
                .replace("EXCHANGE", "4")
                .replace("PATH", "\"a\"")
                .replace("NUMBER", "9");
            let value = match word.starts_with(['{', '"']) || word == "true" || word == "false" {
                true => word,
                false => format!("\"{word}\""),
            };
            let (plain, listed) = (format!("key = {value}"), format!("key = [{value}]"));
            let read = |text: &str| toml::from_str::<Document<T>>(text).map(drop);
            assert!(
                read(&plain).or(read(&listed)).is_ok(),
                "{plain}: {:?}",
                read(&plain)
            );
        }
    }

    // Types of the seam, which know no serde.
    fn read_word<T: KeyType + std::str::FromStr>() {
        for word in T::values().split('`').skip(1).step_by(2) {
            assert!(word.parse::<T>().is_ok(), "{word}");
        }
    }

    #[test]
    fn the_parser_takes_the_values_that_the_table_names() {
        read::<bool>();
        read::<Degrees>();
        read::<OrderChoice>();
        read::<Positions>();
        read::<Hierarchical>();
        read::<ContextAttention>();
        read::<GradientWire>();
        read::<Sharding>();
        read::<BitsChoice>();
        read::<ScheduleKind>();
        read::<OverlapNames>();
        read::<MemoryMode>();
        read::<Precision>();
        read::<ObjectiveKind>();
        read::<OptimiserKind>();
        read::<RateSchedule>();
        read::<OrderMode>();
        read::<TokenType>();
        read::<Vec<MixtureEntry>>();
        read::<TokenizerChoice>();
        read_word::<CollectiveBackend>();
        read_word::<EpiloguePlacement>();
    }
}
