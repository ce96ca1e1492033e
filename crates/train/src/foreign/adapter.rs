//! The adapters of a checkpoint by themselves, as the library PEFT reads them.

use super::{
    Format,
    folder::{create, write_json},
    peft::MAGNITUDE,
};
use crate::{
    Config, Error, Families, Result,
    checkpoint::{
        Reader,
        foreign::{Exported, ExportedFile, View, export as write_tensors},
    },
    config::Precision,
};
use grid::IndexBox;
use serde_json::json;
use std::path::Path;

/// The file of an adapter's settings.
pub const ADAPTER_CONFIG: &str = "adapter_config.json";
/// The name of an adapter's file without its ending.
const ADAPTER_FILE: &str = "adapter_model";

/// Writes a checkpoint's adapters into a new folder that the library PEFT reads beside the model of the library transformers.
///
/// # Errors
/// [`Error::Foreign`] for a checkpoint without adapters, for a family that no other program knows, for an adapter of a layer that is a
/// part of another program's, for parameters that are trained besides, and if there is something of that name already;
/// [`Error::Checkpoint`] and [`Error::File`] if something cannot be read or written.
pub fn export_adapter(
    reader: &Reader,
    config: &Config,
    families: &Families,
    (out, precision): (&Path, Precision),
) -> Result<Vec<ExportedFile>> {
    let refuse = |reason: String| Err(Error::foreign(out, reason));
    let tuning = &config.tuning;
    if tuning.adapter_rank == 0 {
        return refuse("found a checkpoint without adapters".into());
    }
    if let Some(name) = tuning.adapter_trained.first() {
        return refuse(format!(
            "{name} is trained beside the adapters, which such a folder cannot hold; --format transformers merges all"
        ));
    }
    let family = config.model.family();
    let Some(format) = families.format_of(family) else {
        return refuse(format!("the family {family} has no such form"));
    };
    let layers = layers(reader, config, &*format, out)?;
    let dtype = precision.dtype();
    let mut tensors = Vec::new();
    for layer in &layers {
        for (theirs, ours) in ["A", "B"].into_iter().zip(nn::ADAPTER_LAYERS) {
            let stored = format!("weights/{}.{ours}.weight", layer.ours);
            let shape = &reader.info(&stored)?.global_shape;
            let turned = [shape[1], shape[0]];
            let name = format!("base_model.model.{}.lora_{theirs}.weight", layer.theirs);
            let view = View::of(&name, &turned).transposed();
            tensors.push(Exported {
                name,
                shape: turned.to_vec(),
                dtype,
                parts: vec![(stored, view)],
            });
        }
        if tuning.adapter_decomposed {
            let stored = format!("weights/{}.{}", layer.ours, nn::ADAPTER_MAGNITUDE);
            let shape = reader.info(&stored)?.global_shape.clone();
            let name = format!("base_model.model.{}.{MAGNITUDE}", layer.theirs);
            let view = View::of(&name, &shape);
            tensors.push(Exported {
                name,
                shape,
                dtype,
                parts: vec![(stored, view)],
            });
        }
    }
    let modules: Vec<&str> = layers.iter().map(|layer| layer.theirs.as_str()).collect();
    let settings = json!({
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": null,
        "r": tuning.adapter_rank,
        "lora_alpha": tuning.adapter_alpha,
        "use_rslora": tuning.adapter_stabilised,
        "use_dora": tuning.adapter_decomposed,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": layers.iter().any(|layer| layer.is_in_out),
        "inference_mode": true,
        "target_modules": modules,
    });
    create(out, |writing| {
        let read =
            |name: &str, shape: &[usize], index: &IndexBox| reader.read_f64(name, shape, index);
        let files = write_tensors(writing, ADAPTER_FILE, &tensors, u64::MAX, &read)?;
        write_json(&writing.join(ADAPTER_CONFIG), &settings)?;
        Ok(files)
    })
}

/// A layer with an adapter.
struct Layer {
    ours: String,
    theirs: String,
    // Whether the other program stores its weight as in x out.
    is_in_out: bool,
}

fn layers(reader: &Reader, config: &Config, format: &dyn Format, out: &Path) -> Result<Vec<Layer>> {
    let settings = super::Settings::new(out, format.settings(&config.model)?);
    let mut layers = Vec::new();
    for place in format.places(&config.model, &settings, &|_| false)? {
        let Some(ours) = place.parameter.strip_suffix(".weight") else {
            continue;
        };
        if reader
            .info(&format!("weights/{ours}.{}.weight", nn::ADAPTER_LAYERS[0]))
            .is_err()
        {
            continue;
        }
        let tensor = place.view.tensor();
        if !place.view.is_whole() {
            let reason =
                format!("{ours} is a part of {tensor}, which has one adapter for all of its parts");
            return Err(Error::foreign(out, reason));
        }
        layers.push(Layer {
            ours: ours.to_owned(),
            theirs: tensor.strip_suffix(".weight").unwrap_or(tensor).to_owned(),
            is_in_out: !place.view.is_transposed(),
        });
    }
    Ok(layers)
}
