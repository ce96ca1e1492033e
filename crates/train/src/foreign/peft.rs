//! Adapters that the library PEFT has written, beside the model that they adapt.

use super::{ADAPTER_CONFIG, ForeignModel, Place, Settings};
use crate::{
    Result,
    checkpoint::{
        PlainFile,
        foreign::{LowRank, View},
    },
    config::TuningConfig,
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// The tensors of an adapter.
const ADAPTER_TENSORS: &str = "adapter_model.safetensors";
/// What PEFT writes in front of the names of a model's layers.
const PREFIX: &str = "base_model.model.";
/// The end of the name of the lengths of a layer's columns. PEFT's own parameter ends with `.weight`, which it leaves out in files.
pub(super) const MAGNITUDE: &str = "lora_magnitude_vector";

/// Settings that do not change what an adapted model computes, whatever their values: how adapters were begun and trained, and
/// names of files.
const NEUTRAL: [&str; 19] = [
    "auto_mapping",
    "base_model_name_or_path",
    "corda_config",
    "eva_config",
    "exclude_modules",
    "inference_mode",
    "init_lora_weights",
    "layers_pattern",
    "layers_to_transform",
    "loftq_config",
    "lora_dropout",
    "megatron_config",
    "megatron_core",
    "peft_version",
    "revision",
    "runtime_config",
    "target_modules",
    "task_type",
    "ensure_weight_tying",
];

/// Settings that must be as if they were absent, because they change the adapters or what they are of.
const UNSUPPORTED: [&str; 12] = [
    "alora_invocation_tokens",
    "alpha_pattern",
    "arrow_config",
    "layer_replication",
    "lora_bias",
    "modules_to_save",
    "qalora_group_size",
    "rank_pattern",
    "target_parameters",
    "trainable_token_indices",
    "use_bdlora",
    "use_qalora",
];

/// The adapters of a folder, for the layers of a model.
pub(super) struct ForeignAdapter {
    file: PathBuf,
    /// What they are here.
    pub(super) tuning: TuningConfig,
    /// The layers that have one.
    pub(super) layers: Vec<AdaptedLayer>,
}

/// A layer with an adapter.
pub(super) struct AdaptedLayer {
    // The layer here.
    ours: String,
    /// The other program's tensor of its matrix.
    pub(super) matrix: String,
    /// What the adapter adds to it.
    pub(super) product: LowRank,
    // Its own parts of the tensors: a layer here may be a part of one there, which has some of the rows of B, and some of the lengths.
    down: View,
    up: View,
    lengths: Option<View>,
}

impl AdaptedLayer {
    /// Where its parameters lie.
    pub(super) fn places(&self) -> Vec<Place> {
        let matrices = nn::ADAPTER_LAYERS.iter().zip([&self.down, &self.up]);
        let matrices = matrices.map(|(layer, view)| Place {
            parameter: format!("{}.{layer}.weight", self.ours),
            view: view.clone().transposed(),
        });
        let lengths = self.lengths.iter().map(|view| Place {
            parameter: format!("{}.{}", self.ours, nn::ADAPTER_MAGNITUDE),
            view: view.clone(),
        });
        matrices.chain(lengths).collect()
    }
}

impl ForeignAdapter {
    /// Opens a folder beside a model.
    ///
    /// # Errors
    /// As [`ForeignModel::adapted`].
    pub(super) fn open(path: &Path, model: &ForeignModel) -> Result<ForeignAdapter> {
        let settings = Settings::open(&path.join(ADAPTER_CONFIG))?;
        let (rank, mut tuning) = read(&settings)?;
        let file = path.join(ADAPTER_TENSORS);
        let tensors = PlainFile::open(&file)?;
        let names: BTreeSet<String> = tensors.names().into_iter().collect();
        let (mut layers, mut used) = (Vec::new(), BTreeSet::new());
        for place in model.places() {
            let Some(ours) = place.parameter.strip_suffix(".weight") else {
                continue;
            };
            let matrix = place.view.tensor();
            let theirs = matrix.strip_suffix(".weight").unwrap_or(matrix);
            let [a, b] = ["A", "B"].map(|part| format!("{PREFIX}{theirs}.lora_{part}.weight"));
            if !names.contains(&a) && !names.contains(&b) {
                continue;
            }
            let magnitude = format!("{PREFIX}{theirs}.{MAGNITUDE}");
            let of_outputs = |tensor: &str, row: &[usize]| place.view.rows_for_outputs(tensor, row);
            let (Some(up), Some(lengths)) = (of_outputs(&b, &[rank]), of_outputs(&magnitude, &[]))
            else {
                return Err(settings.refuse(format!(
                    "found an adapter of {theirs}, of which {ours} has a part of the inputs; needs a layer with all of them"
                )));
            };
            // As many inputs as the layer here.
            let inputs = place.view.shape()[0];
            let down = View::of(&a, &[rank, inputs]);
            let lengths = tuning.adapter_decomposed.then_some(lengths);
            for view in [&down, &up].into_iter().chain(&lengths) {
                let (name, needed) = (view.tensor(), view.whole());
                used.insert(name.to_owned());
                if !names.contains(name) {
                    return Err(settings.refuse(format!("found no tensor {name}")));
                }
                let found = tensors.shape(name)?;
                if found != needed {
                    return Err(settings.refuse(format!(
                        "{name} has shape {found:?}, its settings need {needed:?}"
                    )));
                }
            }
            layers.push(AdaptedLayer {
                ours: ours.to_owned(),
                matrix: matrix.to_owned(),
                product: LowRank {
                    rows: b,
                    columns: a,
                    scale: tuning.scale(),
                    lengths: tuning.adapter_decomposed.then_some(magnitude),
                    is_turned: !place.view.is_transposed(),
                },
                down,
                up,
                lengths,
            });
        }
        if let Some(name) = names.difference(&used).next() {
            return Err(settings.refuse(format!(
                "found the tensor {name}, which adapts no layer of the model"
            )));
        }
        if layers.is_empty() {
            return Err(settings.refuse("found no adapter"));
        }
        tuning.adapter_targets = targets(&layers, model);
        Ok(ForeignAdapter {
            file,
            tuning,
            layers,
        })
    }

    /// The file of the tensors.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }
}

// The rank, and the keys of `[tuning]` but for the targets.
fn read(settings: &Settings) -> Result<(usize, TuningConfig)> {
    settings.only("peft_type", &[json!("LORA")])?;
    settings.only("bias", &[json!("none")])?;
    settings.skip(&NEUTRAL);
    // The tensors say what is stored how. PEFT writes every kind of adapter that is not used as null.
    let unused = settings.keys().iter().filter(|(_, value)| value.is_null());
    let unused: Vec<&str> = unused.map(|(key, _)| key.as_str()).collect();
    settings.skip(&unused);
    settings.skip(&["fan_in_fan_out"]);
    for key in UNSUPPORTED {
        let is_empty = |value: &Value| match value {
            Value::Bool(value) => !value,
            Value::Array(values) => values.is_empty(),
            Value::Object(values) => values.is_empty(),
            // The size of groups that the setting `use_qalora` turns on.
            Value::Number(_) => key == "qalora_group_size",
            _ => false,
        };
        if let Some(value) = settings.get(key).filter(|value| !is_empty(value)) {
            return Err(settings.refuse(format!("found {key} = {value}, needs none")));
        }
    }
    let tuning = TuningConfig {
        adapter_rank: settings.size("r")?,
        adapter_alpha: settings.number_or("lora_alpha", 8.0)?,
        adapter_stabilised: settings.flag_or("use_rslora", false)?,
        adapter_decomposed: settings.flag_or("use_dora", false)?,
        ..TuningConfig::default()
    };
    settings.check_all_read()?;
    tuning
        .check()
        .map_err(|error| settings.refuse(error.to_string()))?;
    match tuning.adapter_rank {
        0 => Err(settings.refuse("found r = 0, needs at least 1")),
        rank => Ok((rank, tuning)),
    }
}

// As few patterns as say which layers have an adapter: the end of a name where all layers with that end have one.
fn targets(layers: &[AdaptedLayer], model: &ForeignModel) -> Vec<String> {
    let end = |name: &str| {
        let parts: Vec<&str> = name.split('.').collect();
        parts[parts.len().saturating_sub(2)..].join(".")
    };
    let mut all = BTreeMap::<String, usize>::new();
    let parameters = model.places().map(|place| &place.parameter);
    for layer in parameters.filter_map(|name| name.strip_suffix(".weight")) {
        *all.entry(end(layer)).or_default() += 1;
    }
    let mut adapted = BTreeMap::<String, Vec<String>>::new();
    for layer in layers {
        adapted
            .entry(end(&layer.ours))
            .or_default()
            .push(layer.ours.clone());
    }
    let patterns =
        adapted
            .into_iter()
            .flat_map(|(end, names)| match all.get(&end) == Some(&names.len()) {
                true => vec![end],
                false => names,
            });
    patterns.collect()
}
