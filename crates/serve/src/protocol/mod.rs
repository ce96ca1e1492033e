//! What clients ask for and get, as OpenAI defines it, without a word of HTTP but its status codes.
//!
//! Read in this order: `refusal` (an error as clients read it), `fields` (a body, field by field), `options` and `messages` (those of a
//! chat), `asked` (a body as requests of the generator), `answer` (tokens as an answer or its pieces), `likelihoods`.

mod answer;
mod asked;
mod fields;
mod likelihoods;
mod messages;
mod options;
mod refusal;

pub(crate) use answer::{Answer, Identity};
pub(crate) use asked::{Asked, Endpoint};
pub(crate) use refusal::Refusal;
