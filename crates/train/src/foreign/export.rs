//! A folder for another program, from a checkpoint.

use super::{
    CONFIG_FILE, ForeignModel, Format, Merged, Proof, Settings, TOKENIZER_FILE,
    folder::{create, write_json},
    prove,
};
use crate::{
    Config, Error, Families, ModelConfig, Result,
    checkpoint::{
        Reader,
        foreign::{Exported, ExportedFile, View, WEIGHTS_STEM, export as write_tensors, rounded},
        replace_file,
    },
    config::Precision,
    data::{ChatTemplate, Tokenizer},
    trainer::Weights,
};
use bootstrap::World;
use grid::IndexBox;
use hal::DType;
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::Path};
use tensor::Device;

/// How a folder is written.
#[derive(Clone, Copy, Debug)]
pub struct ExportOptions {
    /// The type of the elements.
    pub precision: Precision,
    /// The most bytes of a file.
    pub most_file_bytes: u64,
}

/// Writes a checkpoint's weights, with what adapters add to them, settings and tokenizer into a new folder that the library
/// transformers reads.
///
/// The folder has another name until it is complete and its tensors are proved: [`prove`] compares every segment of the
/// checkpoint's model with what the written tensors say. On one rank; `proves` may leave the comparison out.
///
/// # Errors
/// [`Error::Foreign`] for a family that no other program knows, for a key of the model that no setting states, and if
/// there is something of that name already; [`Error::Unproved`]; [`Error::Checkpoint`] and [`Error::File`] if something
/// cannot be read or written.
pub fn export(
    ranks: (&World, &Device),
    reader: &Reader,
    (config, tokenizer): (&Config, &Tokenizer),
    families: &Families,
    (out, options, proves): (&Path, ExportOptions, bool),
) -> Result<(Vec<ExportedFile>, Option<Proof>)> {
    let model = &config.model;
    let format = families.format_of(model.family()).ok_or_else(|| {
        let family = model.family();
        Error::foreign(out, format!("the family {family} has no such form"))
    })?;
    create(out, |writing| {
        let merged = Merged::new(reader, config);
        let written = write(&merged, (config, tokenizer), &*format, (writing, options))?;
        let foreign = ForeignModel::open(writing, families, Ok::<_, Error>)?;
        check_stated(model, &foreign, &*format)?;
        let weights = Rounded {
            weights: &merged,
            dtype: options.precision.dtype(),
        };
        let proof = proves.then(|| prove(ranks, model, &weights, &foreign));
        Ok((written, proof.transpose()?))
    })
}

fn write(
    merged: &Merged<&Reader>,
    (config, tokenizer): (&Config, &Tokenizer),
    format: &dyn Format,
    (dir, options): (&Path, ExportOptions),
) -> Result<Vec<ExportedFile>> {
    let dtype = options.precision.dtype();
    let mut keys = format.settings(&config.model)?;
    keys.insert("torch_dtype".into(), json!(torch_name(dtype)));
    if let Some(end) = tokenizer.document_end() {
        keys.insert("eos_token_id".into(), json!(end));
    }
    let settings = Settings::new(&dir.join(CONFIG_FILE), keys.clone());
    let tensors = tensors(&config.model, format, &settings, dtype)?;
    let read = |name: &str, shape: &[usize], index: &IndexBox| merged.numbers(name, shape, index);
    let files = write_tensors(dir, WEIGHTS_STEM, &tensors, options.most_file_bytes, &read)?;
    write_json(settings.path(), &Value::Object(keys))?;
    if let Some(end) = tokenizer.document_end() {
        write_json(
            &dir.join("generation_config.json"),
            &json!({"eos_token_id": end}),
        )?;
    }
    if let Some(text) = tokenizer.file_text() {
        let path = dir.join(TOKENIZER_FILE);
        replace_file(&path, text.as_bytes())?;
    }
    for (name, text) in tokenizer.chat().into_iter().flat_map(ChatTemplate::files) {
        replace_file(&dir.join(name), text.as_bytes())?;
    }
    Ok(files)
}

// The other program's tensors in the order in which the format names them, with all that lies in each.
fn tensors(
    model: &ModelConfig,
    format: &dyn Format,
    settings: &Settings,
    dtype: DType,
) -> Result<Vec<Exported>> {
    let mut tensors: Vec<Exported> = Vec::new();
    let mut known = BTreeMap::<String, usize>::new();
    for place in format.places(model, settings, &|_| false)? {
        let view: View = place.view;
        let index = *known.entry(view.tensor().to_owned()).or_insert_with(|| {
            tensors.push(Exported {
                name: view.tensor().to_owned(),
                shape: view.whole().to_vec(),
                dtype,
                parts: Vec::new(),
            });
            tensors.len() - 1
        });
        tensors[index].parts.push((place.parameter, view));
    }
    Ok(tensors)
}

// That the settings lead back to the model.
fn check_stated(model: &ModelConfig, foreign: &ForeignModel, format: &dyn Format) -> Result<()> {
    let (needed, found) = (model.table()?, foreign.model.table()?);
    let differs = |key: &&String| {
        !format.unstated().contains(&key.as_str()) && needed.get(*key) != found.get(*key)
    };
    match needed.keys().find(differs) {
        None => Ok(()),
        Some(key) => Err(foreign.settings.refuse(format!(
            "model.{key} is {}, which its settings state as {}",
            needed[key],
            found
                .get(key)
                .map_or_else(|| "nothing".into(), toml::Value::to_string)
        ))),
    }
}

fn torch_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "float64",
        DType::Bf16 => "bfloat16",
        DType::F16 => "float16",
        _ => "float32",
    }
}

/// Weights as an export writes them.
struct Rounded<'a> {
    weights: &'a dyn Weights,
    dtype: DType,
}

impl Weights for Rounded<'_> {
    fn path(&self) -> &Path {
        self.weights.path()
    }

    fn names(&self) -> Vec<String> {
        self.weights.names()
    }

    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.weights.shape(name)
    }

    fn read(&self, name: &str, shape: &[usize], index: &IndexBox) -> Result<Vec<f64>> {
        Ok(rounded(self.dtype, &self.weights.read(name, shape, index)?))
    }
}
