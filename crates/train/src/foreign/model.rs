//! A folder of another program, with the model that it holds.

use super::{
    Format, Place, Settings, Spare,
    peft::ForeignAdapter,
    stored::{MEGATRON, Stored},
};
use crate::{
    Config, Error, Families, ModelConfig, Result,
    checkpoint::foreign::PlainFolder,
    config::{Precision, TuningConfig},
    trainer::Weights,
};
use grid::IndexBox;
use hal::DType;
use nn::Builder;
use parallel::work::dry_context;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The file of the settings.
pub const CONFIG_FILE: &str = "config.json";
/// The file of the tokenizer.
pub const TOKENIZER_FILE: &str = "tokenizer.json";

/// The most elements of two tensors that are compared at a time.
const COMPARED: usize = 1 << 22;

/// An open folder of another program.
#[derive(Clone)]
pub struct ForeignModel {
    pub(super) format: Arc<dyn Format>,
    pub(super) settings: Arc<Settings>,
    pub(super) tensors: Arc<PlainFolder>,
    /// The model that its settings describe.
    pub model: ModelConfig,
    /// The adapters beside it.
    pub tuning: TuningConfig,
    // The tensors with what adapters add to them by their definition, for the judge.
    pub(super) judged: Arc<PlainFolder>,
    places: Arc<BTreeMap<String, Place>>,
    precision: Precision,
}

impl ForeignModel {
    /// Whether a path is such a folder: of the library transformers, a checkpoint of Megatron-LM, or a folder of its run.
    pub fn is_one(path: &Path) -> bool {
        // One that is refused is one, so that its reader hears why.
        path.is_dir() && Stored::at(path).map_or(true, |stored| stored.exists())
    }

    /// Opens a folder: reads its settings and the headers of its files. `edit` may change what the settings leave open, such
    /// as the context.
    ///
    /// # Errors
    /// [`Error::Foreign`] for a kind of model that no family reads, for a setting that the family cannot follow or nobody
    /// knows, for a tensor that is missing, has another shape or should not be there; [`Error::Setting`] for sizes that
    /// cannot be; [`Error::Checkpoint`] for files that cannot be read; that of `edit`.
    pub fn open<E: From<Error>>(
        path: &Path,
        families: &Families,
        edit: impl FnOnce(ModelConfig) -> std::result::Result<ModelConfig, E>,
    ) -> std::result::Result<ForeignModel, E> {
        let stored = Stored::at(path)?;
        let (settings, format, model) = read(&stored, families)?;
        let tensors = Arc::new(stored.tensors()?);
        let model = edit(model)?;
        model.check()?;
        let contains = |name: &str| tensors.contains(name);
        let places = format.places(&model, &settings, &contains)?;
        let by_parameter = places
            .into_iter()
            .map(|place| (place.parameter.clone(), place));
        let mut opened = ForeignModel {
            format,
            settings: settings.into(),
            judged: tensors.clone(),
            tensors,
            model,
            tuning: TuningConfig::default(),
            places: Arc::new(by_parameter.collect()),
            precision: Precision::default(),
        };
        opened.check_tensors()?;
        opened.precision = opened.stored_precision()?;
        Ok(opened)
    }

    /// With the adapters of another folder, as the library PEFT writes it.
    ///
    /// # Errors
    /// [`Error::Foreign`] for settings that adapters here cannot follow, and for tensors that are missing, have another shape or
    /// belong to no layer; [`Error::Checkpoint`] for files that cannot be read.
    pub fn adapted(&self, path: &Path) -> Result<ForeignModel> {
        let adapter = ForeignAdapter::open(path, self)?;
        let joined = || -> Result<PlainFolder> {
            let folder = Stored::at(self.folder())?.tensors()?;
            Ok(folder.with_file(adapter.file())?)
        };
        let mut judged = joined()?;
        let mut places = (*self.places).clone();
        for layer in &adapter.layers {
            judged = judged.adding(&layer.matrix, layer.product.clone());
            let own = layer.places().into_iter();
            places.extend(own.map(|place| (place.parameter.clone(), place)));
        }
        let adapted = ForeignModel {
            tensors: joined()?.into(),
            judged: judged.into(),
            tuning: adapter.tuning,
            places: places.into(),
            ..self.clone()
        };
        adapted.check_tensors()?;
        Ok(adapted)
    }

    /// All places, by the names of their parameters.
    pub(super) fn places(&self) -> impl Iterator<Item = &Place> {
        self.places.values()
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.tensors.path()
    }

    /// The type of its elements, as a precision in which to train.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Its tokenizer, if the folder has one.
    pub fn tokenizer_file(&self) -> Option<PathBuf> {
        let path = self.folder().join(TOKENIZER_FILE);
        path.is_file().then_some(path)
    }

    /// Where a parameter lies.
    ///
    /// # Errors
    /// [`Error::Foreign`] for one that the format does not place.
    pub fn place(&self, parameter: &str) -> Result<&Place> {
        self.places.get(parameter).ok_or_else(|| {
            self.settings
                .refuse(format!("found no place for the parameter {parameter}"))
        })
    }

    // That the folder's tensors are those of the model, each with its shape.
    fn check_tensors(&self) -> Result<()> {
        let refuse = |reason: String| Err(Error::foreign(self.folder(), reason));
        let mut used = BTreeSet::new();
        for place in self.places.values() {
            let (name, needed) = (place.view.tensor(), place.view.whole());
            if !self.tensors.contains(name) {
                return refuse(format!("found no tensor {name}, which the model has"));
            }
            let found = self.tensors.info(name)?.global_shape;
            if found != needed {
                return refuse(format!(
                    "{name} has shape {found:?}, its settings need {needed:?}"
                ));
            }
            used.insert(name);
        }
        for name in self.tensors.names().filter(|name| !used.contains(name)) {
            match self.format.spare(&self.model, name) {
                Some(Spare::Constant) => {}
                Some(Spare::CopyOf(other)) if self.are_equal(name, &other)? => {}
                Some(Spare::CopyOf(other)) => {
                    return refuse(format!(
                        "{name} differs from {other}, with which its settings tie it"
                    ));
                }
                None => {
                    return refuse(format!("found the tensor {name}, which the model lacks"));
                }
            }
        }
        // A parameter without a place would keep its random values.
        let builder = Builder::new(&dry_context()?);
        self.config().build(&builder)?;
        for parameter in builder.parameters() {
            let (found, needed) = (
                self.place(parameter.name())?.view.shape(),
                parameter.global_shape(),
            );
            if found != needed {
                let name = parameter.name();
                return refuse(format!(
                    "{name} has shape {found:?}, the model needs {needed:?}"
                ));
            }
        }
        Ok(())
    }

    // The model with its adapters.
    pub(super) fn config(&self) -> Config {
        Config {
            tuning: self.tuning.clone(),
            ..Config::new(self.model.clone())
        }
    }

    fn are_equal(&self, one: &str, other: &str) -> Result<bool> {
        let shape = self.tensors.info(one)?.global_shape;
        if self.tensors.info(other)?.global_shape != shape {
            return Ok(false);
        }
        let rows = shape.first().copied().unwrap_or(1);
        let each = shape.iter().skip(1).product::<usize>().max(1);
        let step = (COMPARED / each).max(1);
        for start in (0..rows).step_by(step) {
            let mut index = IndexBox::full(&shape);
            if let (Some(from), Some(len)) = (index.start.first_mut(), index.shape.first_mut()) {
                (*from, *len) = (start, step.min(rows - start));
            }
            let [one, other] = [one, other].map(|name| self.tensors.read_f64(name, &shape, &index));
            if one? != other? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    // The narrowest type that holds all of its matrices: a few norms in f32 do not make a model of f32.
    fn stored_precision(&self) -> Result<Precision> {
        let mut bytes = BTreeMap::<_, u64>::new();
        for place in self.places.values() {
            let info = self.tensors.info(place.view.tensor())?;
            let elements: u64 = info.global_shape.iter().map(|len| *len as u64).product();
            *bytes.entry(info.dtype.name()).or_default() += elements;
        }
        let most = bytes.into_iter().max_by_key(|(_, elements)| *elements);
        Ok(match most.and_then(|(name, _)| DType::from_name(name)) {
            Some(DType::Bf16) => Precision::Bf16,
            Some(DType::F16) => Precision::F16,
            Some(DType::F64) => Precision::F64,
            _ => Precision::F32,
        })
    }
}

/// The model that a `config.json` describes, in that file or in a folder with or without weights; or that of a checkpoint of Megatron-LM.
///
/// # Errors
/// As [`ForeignModel::open`], for the settings alone.
pub fn model_at(path: &Path, families: &Families) -> Result<ModelConfig> {
    let (_, _, model) = read(&Stored::at(path)?, families)?;
    model.check()?;
    Ok(model)
}

// The settings of a model, with the format that reads them and the model that they describe.
fn read(stored: &Stored, families: &Families) -> Result<(Settings, Arc<dyn Format>, ModelConfig)> {
    let settings = stored.settings()?;
    let kind = settings.get("model_type").and_then(|kind| kind.as_str());
    let kind = kind.unwrap_or_default().to_owned();
    // A configuration of the library transformers has no arguments of Megatron.
    let is_megatron = matches!(stored, Stored::Megatron(..));
    let format = families.format(&kind);
    let format = format.filter(|_| (kind == MEGATRON) == is_megatron);
    let format = format.ok_or_else(|| {
        let known = families.model_types().into_iter();
        let known: Vec<_> = known.filter(|kind| *kind != MEGATRON).collect();
        let known = known.join(", ");
        settings.refuse(format!("found model_type = {kind:?}, needs one of {known}"))
    })?;
    let model = format.model(&settings)?;
    settings.check_all_read()?;
    Ok((settings, format, model))
}

impl fmt::Debug for ForeignModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ForeignModel({})", self.folder().display())
    }
}

impl Weights for ForeignModel {
    fn path(&self) -> &Path {
        self.folder()
    }

    fn names(&self) -> Vec<String> {
        self.places.keys().cloned().collect()
    }

    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        Some(self.places.get(name)?.view.shape())
    }

    fn read(&self, name: &str, _shape: &[usize], index: &IndexBox) -> Result<Vec<f64>> {
        let read = |name: &str, whole: &[usize], index: &IndexBox| {
            self.tensors.read_f64(name, whole, index)
        };
        Ok(self.place(name)?.view.read(read, index)?)
    }
}
