//! What is served, and how much of it a client may ask for.

use std::time::Duration;
use train::data::{ChatTemplate, Tokenizer};

/// The model that answers.
#[derive(Clone, Debug)]
pub struct Served {
    /// Its name in requests and answers.
    pub name: String,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// How messages become a prompt; without one, chats are refused.
    pub template: Option<ChatTemplate>,
    /// Number of tokens that the model knows.
    pub vocabulary: usize,
}

/// What the server grants at most.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of a request's body.
    pub body_bytes: usize,
    /// Tokens of a sequence: its prompt and what is generated.
    pub tokens: usize,
    /// Sequences that run at a time, which are those of the generator.
    pub running: usize,
    /// Sequences that wait for others to end. Further requests are refused with status 429.
    pub waiting: usize,
    /// Open connections.
    pub connections: usize,
    /// Time of a request, from its last byte to the last byte of its answer.
    pub request: Duration,
    /// Time in which a client has to send a request, and to read a piece of its answer.
    pub client: Duration,
    /// Time that requests have to end after the server was asked to stop.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            body_bytes: 1 << 20,
            tokens: 4096,
            running: 16,
            waiting: 64,
            connections: 256,
            request: Duration::from_secs(300),
            client: Duration::from_secs(30),
            grace: Duration::from_secs(30),
        }
    }
}
