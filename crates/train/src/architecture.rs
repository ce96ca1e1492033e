//! The description of a model before it is built, and the registry of families that a configuration can name.
//!
//! An [`Architecture`] is sizes and choices; it builds the model anywhere, on devices or for the planner. A
//! [`Family`] reads one from the table `[model]` of a configuration. [`Families`] finds the family by the
//! table's key `family`. Programs add their own families to those of the library.

use crate::{
    Error, Result,
    batches::{Batches, Rows, Values},
    config::Key,
    foreign::Format,
};
use grid::Demands;
use nn::Builder;
use parallel::Model;
use serde::{Serialize, Serializer, de::DeserializeOwned};
use std::{any::Any, fmt, ops::Deref, sync::Arc};

/// A model before it is built: its sizes and choices.
pub trait Architecture: fmt::Debug + Send + Sync {
    /// The name of its family, as in a configuration.
    fn family(&self) -> &str;

    /// The table `[model]` of a configuration, with every key.
    ///
    /// # Errors
    /// [`Error::Setting`] for what TOML cannot hold.
    fn table(&self) -> Result<toml::Table>;

    /// The keys of that table, for the comments in a configuration: [`Section::keys`](crate::config::Section::keys).
    fn documented_keys(&self) -> Vec<Key> {
        Vec::new()
    }

    /// Sizes and choices in one line, for people.
    fn describe(&self) -> String;

    /// Builds the model: the same function for every grid.
    ///
    /// # Errors
    /// Those of its layers.
    fn build(&self, builder: &Builder) -> parallel::Result<Box<dyn Model>>;

    /// The columns of one row of its batches, with zeros for values; the planner needs their shapes.
    fn columns(&self) -> Vec<(String, Vec<usize>, Values)>;

    /// The demands of its sizes on a grid, without batch, micro-batches and stages.
    fn demands(&self) -> Demands {
        Demands::default()
    }

    /// Checks the sizes.
    ///
    /// # Errors
    /// [`Error::Setting`] for the first size that cannot be.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Flop per row, forward and backward, by the family's own count; `None` uses that of its matmuls and
    /// attention.
    fn flop_per_row(&self) -> Option<f64> {
        None
    }

    /// Flop per row and iteration as published speeds count them: with recomputation, the second forward counts
    /// as work.
    fn published_flop_per_row(&self, recompute: bool) -> Option<f64> {
        Some(self.flop_per_row()? * if recompute { 4.0 / 3.0 } else { 1.0 })
    }

    /// Whether passes draw random masks, which recorded work would repeat.
    fn draws_masks(&self) -> bool {
        false
    }

    /// How it reads text, if it does.
    fn text(&self) -> Option<Text> {
        None
    }

    /// Whether it also reads the columns of [`Samples`](crate::data::Samples), which keep the samples of a row apart.
    fn separates_samples(&self) -> bool {
        false
    }

    /// The same architecture for a vocabulary of this many tokens, if its own was left open.
    fn with_vocabulary(&self, _vocabulary: usize) -> Option<ModelConfig> {
        None
    }

    /// Its own batches, for a model that does not read text.
    fn batches(&self) -> Option<Arc<dyn Batches>> {
        None
    }

    /// Itself, for callers that know its type.
    fn as_any(&self) -> &dyn Any;
}

/// Sizes of a model that reads sequences of tokens from columns `inputs` and `targets`, and outputs a wire
/// `logits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    /// Tokens per sequence.
    pub context: usize,
    /// Vocabulary size; 0 leaves it to the tokenizer.
    pub vocabulary: usize,
}

/// The model of a configuration. Cloning clones the handle.
#[derive(Clone)]
pub struct ModelConfig(Arc<dyn Architecture>);

impl ModelConfig {
    /// The model of this architecture.
    pub fn new(architecture: impl Architecture + 'static) -> ModelConfig {
        ModelConfig(Arc::new(architecture))
    }

    /// The architecture, if it has that type.
    pub fn get<A: Architecture + 'static>(&self) -> Option<&A> {
        self.0.as_any().downcast_ref()
    }

    /// The same after `edit`, if the architecture has that type.
    ///
    /// # Errors
    /// [`Error::Setting`] for an architecture of another type.
    pub fn edit<A: Architecture + Clone + 'static>(
        &mut self,
        edit: impl FnOnce(&mut A),
    ) -> Result<()> {
        let Some(known) = self.get::<A>() else {
            let family = self.family();
            return Err(Error::setting(
                "model",
                format_args!("family {family}"),
                "another type of architecture",
            ));
        };
        let mut edited = known.clone();
        edit(&mut edited);
        *self = ModelConfig::new(edited);
        Ok(())
    }
}

impl ModelConfig {
    /// Rows of its batches without values, where only their shapes matter.
    pub fn blank_rows(&self, rows: usize) -> Rows {
        let columns = self.columns().into_iter();
        columns.fold(Rows::new(), |blank, (name, shape, values)| {
            blank.with(&name, &shape, values.repeated(rows))
        })
    }
}

impl Deref for ModelConfig {
    type Target = dyn Architecture;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Debug for ModelConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PartialEq for ModelConfig {
    fn eq(&self, other: &ModelConfig) -> bool {
        self.family() == other.family() && self.table().ok() == other.table().ok()
    }
}

impl Serialize for ModelConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let table = self.table().map_err(serde::ser::Error::custom)?;
        table.serialize(serializer)
    }
}

/// A family of architectures, which reads one from a configuration.
pub trait Family: Send + Sync {
    /// Its name, as the key `family` of the table `[model]` spells it.
    fn name(&self) -> &str;

    /// Reads the table `[model]` of a complete configuration in TOML, whose keys all have defaults: [`model_of`] does that
    /// for a type that serde can read.
    ///
    /// # Errors
    /// Those of the reader.
    fn read(&self, document: &str) -> std::result::Result<ModelConfig, toml::de::Error>;

    /// The keys that the table `[model]` takes for this family, for a reference of settings: [`Section::keys`] of a
    /// structure inside [`section!`](crate::section).
    ///
    /// [`Section::keys`]: crate::config::Section::keys
    fn keys(&self) -> Vec<Key> {
        Vec::new()
    }

    /// The keys of the table `[model]` that the tensors of a file of weights determine, with their values. `shape` gives the
    /// shape of the parameter with that name, if the file has it; `given` holds the keys that are known already, since
    /// others may follow only from them.
    fn keys_of(
        &self,
        _shape: &dyn Fn(&str) -> Option<Vec<usize>>,
        _given: &toml::Table,
    ) -> Vec<(&'static str, toml::Value)> {
        Vec::new()
    }

    /// Names of well-known models, such as those of published runs.
    fn models(&self) -> Vec<String> {
        Vec::new()
    }

    /// The model with one of these names.
    fn model(&self, _name: &str) -> Option<ModelConfig> {
        None
    }

    /// How other programs store its models. The first is written too, as the library transformers does it.
    fn formats(&self) -> Vec<Arc<dyn Format>> {
        Vec::new()
    }
}

/// The table `[model]` of a configuration as a value of that type; the default if there is no such table.
///
/// # Errors
/// [`toml::de::Error`] for a table that is not a `T`, with the position in the full document.
pub fn model_of<T: DeserializeOwned + Default>(
    document: &str,
) -> std::result::Result<T, toml::de::Error> {
    #[derive(serde::Deserialize)]
    struct Document<T> {
        model: Option<T>,
    }
    let document: Document<T> = toml::from_str(document)?;
    Ok(document.model.unwrap_or_default())
}

/// The families of a program, the default one first.
#[derive(Clone)]
pub struct Families(Arc<[Arc<dyn Family>]>);

impl Families {
    /// These families; the first is used by a configuration that names none.
    pub fn new(families: impl IntoIterator<Item = Arc<dyn Family>>) -> Families {
        Families(families.into_iter().collect())
    }

    /// Adds your own family.
    pub fn with(&self, family: impl Family + 'static) -> Families {
        let family: Arc<dyn Family> = Arc::new(family);
        Families(self.0.iter().cloned().chain([family]).collect())
    }

    /// The names, the default first.
    pub fn names(&self) -> Vec<&str> {
        self.0.iter().map(|family| family.name()).collect()
    }

    /// The keys that each family's table `[model]` takes, with the name of the family, the default family first.
    pub fn keys(&self) -> Vec<(&str, Vec<Key>)> {
        self.0
            .iter()
            .map(|family| (family.name(), family.keys()))
            .collect()
    }

    /// The names of models in all families.
    pub fn models(&self) -> Vec<String> {
        self.0.iter().flat_map(|family| family.models()).collect()
    }

    /// The model with that name.
    pub fn model(&self, name: &str) -> Option<ModelConfig> {
        self.0.iter().find_map(|family| family.model(name))
    }

    /// How models with that `model_type` are stored, if a family says so.
    pub fn format(&self, model_type: &str) -> Option<Arc<dyn Format>> {
        let mut formats = self.0.iter().flat_map(|family| family.formats());
        formats.find(|format| format.model_types().contains(&model_type))
    }

    /// How the models of a family are written for other programs, if it says so.
    pub fn format_of(&self, family: &str) -> Option<Arc<dyn Format>> {
        let formats = self.find(Some(family)).ok()?.formats();
        formats.into_iter().next()
    }

    /// All values of `model_type` that can be read.
    pub fn model_types(&self) -> Vec<&'static str> {
        let formats = self.0.iter().flat_map(|family| family.formats());
        formats
            .flat_map(|format| format.model_types().to_vec())
            .collect()
    }

    /// A model with these keys replaced; if there is no model, the default of its family.
    ///
    /// # Errors
    /// [`Error::UnknownKey`] for a key that its family does not have; [`Error::Syntax`] for a value that it does not accept;
    /// [`Error::UnknownFamily`] for a key `family` with another name; [`Error::Setting`] for a model that TOML cannot hold.
    pub fn edited<K: Into<String>>(
        &self,
        model: Option<&ModelConfig>,
        keys: impl IntoIterator<Item = (K, toml::Value)>,
    ) -> Result<ModelConfig> {
        let mut table = model.map_or(Ok(toml::Table::new()), |model| model.table())?;
        table.extend(keys.into_iter().map(|(key, value)| (key.into(), value)));
        let document = toml::Table::from_iter([("model".to_owned(), toml::Value::Table(table))]);
        self.read(&document.to_string())
    }

    /// The keys of `[model]` that the tensors of a file determine for the family that `given` names: [`Family::keys_of`].
    ///
    /// # Errors
    /// [`Error::UnknownFamily`] if `given` names a family that is not among these.
    pub fn keys_of(
        &self,
        shape: &dyn Fn(&str) -> Option<Vec<usize>>,
        given: &toml::Table,
    ) -> Result<Vec<(&'static str, toml::Value)>> {
        let named = given.get("family").and_then(toml::Value::as_str);
        Ok(self.find(named)?.keys_of(shape, given))
    }

    // The family of that name, or the default one.
    fn find(&self, name: Option<&str>) -> Result<&dyn Family> {
        let found = match name {
            None => self.0.first(),
            Some(name) => self.0.iter().find(|family| family.name() == name),
        };
        let unknown = || Error::UnknownFamily {
            found: name.unwrap_or_default().to_owned(),
            known: self.names().into_iter().map(str::to_owned).collect(),
        };
        found.map(|family| &**family).ok_or_else(unknown)
    }

    /// Reads the model of a configuration in TOML.
    ///
    /// # Errors
    /// [`Error::UnknownKey`] or [`Error::Syntax`] from the family's reader; [`Error::UnknownFamily`].
    pub(crate) fn read(&self, document: &str) -> Result<ModelConfig> {
        #[derive(Default, serde::Deserialize)]
        #[serde(default)]
        struct Named {
            family: Option<String>,
        }
        let as_config = |error: toml::de::Error| crate::config::refusal(document, &error);
        let named: Named = model_of(document).map_err(as_config)?;
        let family = self.find(named.family.as_deref())?;
        family.read(document).map_err(as_config)
    }
}

impl fmt::Debug for Families {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Families({:?})", self.names())
    }
}
