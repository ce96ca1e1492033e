//! Which parameters of a model are trained, without a change of its code: layers are frozen or adapted by name.

use parallel::{Error, Parameter, Quantised, Result};
use std::{cell::RefCell, collections::BTreeSet, fmt};

/// Names of layers or parameters: the whole name, or its end behind a dot. `*` stands for any characters.
///
/// `attention.query` selects the layer `blocks.3.attention.query`, `blocks.0.*` the first block.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pattern(String);

impl Pattern {
    /// The pattern with this text.
    pub fn new(text: impl Into<String>) -> Pattern {
        Pattern(text.into())
    }

    /// Whether it selects a name.
    pub fn selects(&self, name: &str) -> bool {
        let ends = name.match_indices('.').map(|(dot, _)| &name[dot + 1..]);
        std::iter::once(name)
            .chain(ends)
            .any(|end| matches(&self.0, end))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// Of the texts between the stars, the first begins the name, the last ends it, and the others follow each other.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut name) = name.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match name.find(part) {
            Some(at) => name = &name[at + part.len()..],
            None => return false,
        }
    }
    name.ends_with(last)
}

/// Adapters of low rank: a linear layer Y = X W + b becomes Y = X W + b + scale (X A) B, of which only A and B are trained.
///
/// If they are decomposed, it becomes Y = m X V / |V| + b with V = W + scale A B, where |V| has the norm of each column of V, and m is
/// trained too.
///
/// # Source
/// Hu et al., LoRA (arXiv 2106.09685); Liu et al., DoRA (arXiv 2402.09353).
#[derive(Clone, Debug, PartialEq)]
pub struct Adapters {
    /// Columns of A and rows of B.
    pub rank: usize,
    /// The factor of what they add.
    pub scale: f64,
    /// Whether the lengths of the columns of the weights are trained by themselves.
    pub decomposed: bool,
    /// The layers that have one.
    pub targets: Vec<Pattern>,
    /// Parameters that are trained besides.
    pub trained: Vec<Pattern>,
}

/// What is frozen, and what is adapted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tuning {
    /// Parameters that are not trained.
    pub frozen: Vec<Pattern>,
    /// With adapters, only these are trained.
    pub adapters: Option<Adapters>,
    /// How frozen weights of [hidden layers](Parameter::is_hidden_matrix) are stored, if as codes.
    pub quantised: Option<Quantised>,
}

/// The names of an adapter's two layers, below that of the layer that it adapts.
pub const ADAPTER_LAYERS: [&str; 2] = ["lora_a", "lora_b"];

/// The name of the parameter m of a decomposed adapter, below that of the layer.
pub const ADAPTER_MAGNITUDE: &str = "lora_magnitude";

/// Whether a parameter belongs to an adapter.
pub fn is_of_adapter(parameter: &str) -> bool {
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    match parameter.strip_suffix(".weight") {
        Some(layer) => ADAPTER_LAYERS.contains(&&*last(layer)),
        None => last(parameter) == ADAPTER_MAGNITUDE,
    }
}

/// A tuning, with a note of the patterns that have selected something.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    tuning: Tuning,
    used: RefCell<BTreeSet<Pattern>>,
}

impl Selection {
    pub(crate) fn new(tuning: Tuning) -> Selection {
        Selection {
            tuning,
            used: RefCell::default(),
        }
    }

    /// Freezes a parameter, and has its weights stored as codes, if that is asked for.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a parameter that is part of a set.
    pub(crate) fn apply(&self, parameter: &Parameter) -> Result<()> {
        if self.freezes(parameter.name()) {
            parameter.freeze()?;
        }
        let is_stored = parameter.is_frozen() && parameter.is_hidden_matrix();
        match self.tuning.quantised.filter(|_| is_stored) {
            Some(format) => parameter.quantise(format),
            None => Ok(()),
        }
    }

    // Whether a parameter is frozen.
    fn freezes(&self, parameter: &str) -> bool {
        let is_frozen = self.any(&self.tuning.frozen, parameter);
        let Some(adapters) = &self.tuning.adapters else {
            return is_frozen;
        };
        let is_trained = self.any(&adapters.trained, parameter) || is_of_adapter(parameter);
        is_frozen || !is_trained
    }

    /// The adapters, if a layer has one.
    pub(crate) fn adapts(&self, layer: &str) -> Option<&Adapters> {
        let adapters = self.tuning.adapters.as_ref();
        adapters.filter(|adapters| self.any(&adapters.targets, layer))
    }

    /// That every pattern has selected something: one that has not is a mistake in a name.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the first that has not.
    pub(crate) fn check(&self) -> Result<()> {
        let adapters = self.tuning.adapters.iter();
        let of_adapters =
            adapters.flat_map(|adapters| adapters.targets.iter().chain(&adapters.trained));
        let used = self.used.borrow();
        let mut all = self.tuning.frozen.iter().chain(of_adapters);
        match all.find(|pattern| !used.contains(*pattern)) {
            None => Ok(()),
            Some(pattern) => Err(Error::invalid(
                "tuning",
                format!("the pattern `{pattern}`, which selects nothing"),
                "names of the model's layers and parameters, or their ends behind a dot; * stands for any characters",
            )),
        }
    }

    fn any(&self, patterns: &[Pattern], name: &str) -> bool {
        let selecting = patterns.iter().filter(|pattern| pattern.selects(name));
        let mut found = false;
        for pattern in selecting {
            found = true;
            self.used.borrow_mut().insert(pattern.clone());
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_select_names_and_their_ends() {
        let cases = [
            ("attention.query", "blocks.3.attention.query", true),
            ("query", "blocks.3.attention.query", true),
            ("uery", "blocks.3.attention.query", false),
            ("blocks.0.*", "blocks.0.mlp.up.weight", true),
            ("blocks.0.*", "blocks.10.mlp.up.weight", false),
            ("blocks.*.up.weight", "blocks.10.mlp.up.weight", true),
            ("*norm*.gain", "blocks.1.norm2.gain", true),
            ("*norm*.gain", "blocks.1.norm2.bias", false),
            ("*", "anything", true),
            ("a*a", "a", false),
        ];
        for (pattern, name, selects) in cases {
            assert_eq!(
                Pattern::new(pattern).selects(name),
                selects,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn with_adapters_only_they_are_trained() {
        let selection = Selection::new(Tuning {
            frozen: Vec::new(),
            adapters: Some(Adapters {
                rank: 2,
                scale: 1.0,
                decomposed: true,
                targets: vec![Pattern::new("query")],
                trained: vec![Pattern::new("head.*")],
            }),
            quantised: None,
        });
        assert!(selection.adapts("blocks.0.attention.query").is_some());
        assert!(selection.adapts("blocks.0.attention.key").is_none());
        assert!(selection.freezes("blocks.0.attention.query.weight"));
        assert!(!selection.freezes("blocks.0.attention.query.lora_a.weight"));
        assert!(!selection.freezes("blocks.0.attention.query.lora_magnitude"));
        assert!(
            selection
                .check()
                .unwrap_err()
                .to_string()
                .contains("`head.*`")
        );
        assert!(!selection.freezes("head.weight"));
        selection.check().unwrap();
    }
}
