//! Models of other programs: a `config.json` beside safetensors files, as the library transformers writes them, and checkpoints of
//! Megatron-LM.
//!
//! A family says how it is stored there ([`Format`]): which settings describe it, and where each parameter lies.
//! [`ForeignModel`] opens such a folder, perhaps with the adapters of another, whose weights a trainer can load
//! ([`Weights`](crate::trainer::Weights)).
//! [`prove`] compares the outputs of every segment with those that the family computes from the folder's own tensors, and
//! [`import`](fn@import) and [`export`](fn@export) convert what was proved.

mod adapter;
mod export;
mod folder;
mod format;
mod import;
mod merged;
mod model;
mod peft;
mod proof;
mod settings;
mod stored;

pub use adapter::{ADAPTER_CONFIG, export_adapter};
pub use export::{ExportOptions, export};
pub use format::{Format, Place, Spare};
pub use import::import;
pub use merged::Merged;
pub use model::{CONFIG_FILE, ForeignModel, TOKENIZER_FILE, model_at};
pub use nn::is_of_adapter;
pub use proof::{Proof, prove};
pub use settings::Settings;
