//! The settings in a `config.json`, each of which is read or refused.

use crate::{Error, Result};
use hal::{files, sync::Mutex};
use serde_json::{Map, Value};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// Settings that do not change what a model computes.
const NEUTRAL: [&str; 19] = [
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_name_or_path",
    "architectures",
    "bos_token_id",
    "decoder_start_token_id",
    "dtype",
    "eos_token_id",
    "id2label",
    "label2id",
    "model_type",
    "output_attentions",
    "output_hidden_states",
    "pad_token_id",
    "return_dict",
    "task_specific_params",
    "torch_dtype",
    "transformers_version",
    "use_cache",
];

/// The settings of a model, with a note of those that were read.
#[derive(Debug)]
pub struct Settings {
    path: PathBuf,
    keys: Map<String, Value>,
    read: Mutex<BTreeSet<String>>,
}

impl Settings {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be read; [`Error::Foreign`] if it is no JSON object.
    pub fn open(path: &Path) -> Result<Settings> {
        let text = files::read(path, files::MOST_TEXT_BYTES).map_err(Error::file(path))?;
        let keys = serde_json::from_slice(&text)
            .map_err(|error| Error::foreign(path, format!("found no JSON object: {error}")))?;
        Ok(Settings::new(path, keys))
    }

    /// Those of a file that is to be written.
    pub fn new(path: &Path, keys: Map<String, Value>) -> Settings {
        Settings {
            path: path.to_owned(),
            keys,
            read: Mutex::default(),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All of them.
    pub fn keys(&self) -> &Map<String, Value> {
        &self.keys
    }

    /// A setting; `None` if it is absent or null.
    pub fn get(&self, key: &str) -> Option<&Value> {
        hal::lock(&self.read).insert(key.to_owned());
        self.keys.get(key).filter(|value| !value.is_null())
    }

    /// Whether there is a setting, even if its value is null.
    pub fn states(&self, key: &str) -> bool {
        self.keys.contains_key(key)
    }

    /// Notes settings that do not decide outputs, for which nothing is to be read.
    pub fn skip(&self, keys: &[&str]) {
        hal::lock(&self.read).extend(keys.iter().map(|key| (*key).to_owned()));
    }

    /// A size.
    ///
    /// # Errors
    /// [`Error::Foreign`] if it is absent or no whole number.
    pub fn size(&self, key: &str) -> Result<usize> {
        let missing = || self.refuse(format!("found no {key}, needs a whole number"));
        self.size_or_none(key)?.ok_or_else(missing)
    }

    /// A size, if it is there.
    ///
    /// # Errors
    /// [`Error::Foreign`] if it is no whole number.
    pub fn size_or_none(&self, key: &str) -> Result<Option<usize>> {
        let whole = |value: &Value| value.as_u64().and_then(|size| usize::try_from(size).ok());
        self.typed(key, whole, "a whole number")
    }

    /// A number, or what an absent one means.
    ///
    /// # Errors
    /// [`Error::Foreign`] if it is no number.
    pub fn number_or(&self, key: &str, absent: f64) -> Result<f64> {
        Ok(self
            .typed(key, Value::as_f64, "a number")?
            .unwrap_or(absent))
    }

    /// A flag, or what an absent one means.
    ///
    /// # Errors
    /// [`Error::Foreign`] if it is neither true nor false.
    pub fn flag_or(&self, key: &str, absent: bool) -> Result<bool> {
        let flag = self.typed(key, Value::as_bool, "true or false")?;
        Ok(flag.unwrap_or(absent))
    }

    /// Refuses every value of a setting but these; an absent one is accepted.
    ///
    /// # Errors
    /// [`Error::Foreign`] for another value.
    pub fn only(&self, key: &str, accepted: &[Value]) -> Result<()> {
        match self.get(key).filter(|value| !accepted.contains(value)) {
            None => Ok(()),
            Some(other) => {
                let accepted: Vec<String> = accepted.iter().map(Value::to_string).collect();
                Err(self.refuse(format!(
                    "found {key} = {other}, needs {}",
                    accepted.join(" or ")
                )))
            }
        }
    }

    /// Refuses settings that nobody has read and that are not known to be neutral.
    ///
    /// # Errors
    /// [`Error::Foreign`] with the first of them.
    pub fn check_all_read(&self) -> Result<()> {
        let read = hal::lock(&self.read);
        let is_known = |key: &str| NEUTRAL.contains(&key) || read.contains(key);
        let mut others = self.keys.iter().filter(|(key, _)| !is_known(key));
        match others.next() {
            None => Ok(()),
            Some((key, value)) => Err(self.refuse(format!(
                "found {key} = {value}, a setting that this program does not know"
            ))),
        }
    }

    /// An error about these settings.
    pub fn refuse(&self, reason: impl Into<String>) -> Error {
        Error::foreign(&self.path, reason)
    }

    fn typed<T>(
        &self,
        key: &str,
        read: impl FnOnce(&Value) -> Option<T>,
        needed: &str,
    ) -> Result<Option<T>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let wrong = || self.refuse(format!("found {key} = {value}, needs {needed}"));
        read(value).map(Some).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn settings(keys: Value) -> Settings {
        let Value::Object(keys) = keys else {
            panic!("needs an object")
        };
        Settings::new(Path::new("config.json"), keys)
    }

    #[test]
    fn each_is_read_or_refused_by_name() {
        let of = settings(json!({
            "layers": 3, "base": 1e4, "tied": true, "gate": "silu", "absent": null, "torch_dtype": "float32",
            "odd": -1, "other": {"a": 1}
        }));
        assert_eq!(of.size("layers").unwrap(), 3);
        assert_eq!(of.number_or("base", 0.0).unwrap(), 1e4);
        assert_eq!(of.number_or("absent", 2.5).unwrap(), 2.5);
        assert!(of.flag_or("tied", false).unwrap());
        of.only("gate", &[json!("silu"), json!("swish")]).unwrap();
        let refused = [
            (
                of.size("absent").unwrap_err(),
                "found no absent, needs a whole number",
            ),
            (
                of.size("odd").unwrap_err(),
                "found odd = -1, needs a whole number",
            ),
            (
                of.flag_or("gate", true).unwrap_err(),
                "found gate = \"silu\", needs true or false",
            ),
            (
                of.only("gate", &[json!("gelu")]).unwrap_err(),
                "found gate = \"silu\", needs \"gelu\"",
            ),
            (
                of.check_all_read().unwrap_err(),
                "found other = {\"a\":1}, a setting that this program does not know",
            ),
        ];
        for (error, sentence) in refused {
            assert_eq!(error.to_string(), format!("config.json: {sentence}"));
        }
        of.skip(&["other"]);
        of.check_all_read().unwrap();
    }
}
