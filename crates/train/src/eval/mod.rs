//! How well a model predicts texts and answers, on any grid.
//!
//! A [`Scorer`] returns the log-likelihood of the last tokens of sequences. Two measures use it: [`perplexity`] of documents, and
//! the accuracy of [multiple choice](score_questions). Both follow the definitions of the program lm-evaluation-harness. Read in
//! this order: `sequence` (what is scored), `scorer` (how), `beginnings` (what sequences share), `rows` (what one pass of the model runs),
//! `windows` and `documents` (texts), `question`, `form`, `split` and `choices` (multiple choice), `mean` (a mean and its standard error).
//!
//! ```
//! use fascicle_train::{
//!     Config, Result,
//!     data::Tokenizer,
//!     eval::{Document, Scorer, perplexity, prefix_token},
//!     generate::text,
//! };
//!
//! // On each rank, with a pipeline from `generate::load`; every rank gets the same number.
//! fn bits_per_byte(
//!     pipeline: &parallel::Pipeline,
//!     config: &Config,
//!     tokenizer: &Tokenizer,
//!     held_out: &str,
//! ) -> Result<f64> {
//!     let form = text(config)?;
//!     let scorer = Scorer::new(pipeline, form, 8)?;
//!     let documents = [Document::new(held_out, tokenizer, form)?];
//!     let manner = (prefix_token(tokenizer)?, form.context);
//!     Ok(perplexity(&scorer, &documents, manner, &mut |_| {})?.bits_per_byte())
//! }
//! ```

mod beginnings;
mod choices;
mod documents;
mod form;
mod mean;
mod question;
mod rows;
mod scorer;
mod sequence;
mod split;
mod windows;

pub use choices::{ChoiceSummary, EncodedQuestion, QuestionScore, score_questions};
pub use documents::{Document, DocumentSums, num_words, perplexity, prefix_token};
pub use mean::Mean;
pub use question::{MOST_CHOICES, Question, QuestionFile};
pub use scorer::{MOST_BATCH, Scorer};
pub use sequence::{ScoredSequence, SequenceScore};
pub use split::split;
pub use windows::rolling_windows;
