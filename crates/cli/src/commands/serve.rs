//! `fascicle serve`: the arguments. A program without the feature `serve` has them too, and says what it lacks.

#[cfg(feature = "serve")]
mod server;

use super::on_ranks::OnRanks;
use clap::Args;
use std::{net::IpAddr, path::PathBuf};

/// Arguments of `fascicle serve`.
#[derive(Args, Debug)]
#[cfg_attr(not(feature = "serve"), allow(dead_code))]
pub(crate) struct Serve {
    /// A checkpoint, or a run directory, whose newest checkpoint is used
    #[arg(long, value_name = "DIR")]
    checkpoint: PathBuf,
    /// The address at which clients are awaited; 0.0.0.0 is every address of this host
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    address: IpAddr,
    /// The port; 0 takes a free one, which is printed
    #[arg(long, value_name = "N", default_value_t = 8080)]
    port: u16,
    /// A file with keys, one on each line, of which clients have to send one; without it everyone is answered
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// The model's name for clients; defaults to that of the directory
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// How messages become text: a template in Jinja's language, or a tokenizer_config.json; defaults to that which lies in the
    /// checkpoint with its tokenizer
    #[arg(long, value_name = "FILE")]
    chat_template: Option<PathBuf>,
    /// The most tokens of a text, with its prompt; defaults to the model's context. Beyond that, texts lose their older half
    #[arg(long, value_name = "N")]
    most_tokens: Option<usize>,
    /// The most texts that are continued at a time
    #[arg(long, value_name = "N", default_value_t = 16)]
    sequences: usize,
    /// The most texts that wait; requests beyond that are refused with status 429
    #[arg(long, value_name = "N", default_value_t = 64)]
    queue: usize,
    /// The most tokens of prompts that a step runs
    #[arg(long, value_name = "N", default_value_t = 512)]
    prefill: usize,
    /// The most tokens whose keys and values are kept, of all texts; 0 leaves the limit to the device's memory
    #[arg(long, value_name = "N", default_value_t = 0)]
    kept_tokens: usize,
    /// The most tokens of ended texts whose keys and values stay, for texts that begin alike, such as the next turn of a chat; defaults
    /// to the model's context, 0 keeps none
    #[arg(long, value_name = "N")]
    prefixes: Option<usize>,
    /// The most bytes of a request
    #[arg(long, value_name = "N", default_value_t = 1 << 20)]
    body_bytes: usize,
    /// The most connections
    #[arg(long, value_name = "N", default_value_t = 256)]
    connections: usize,
    /// Seconds after which a request is given up
    #[arg(long, value_name = "S", default_value_t = 300, value_parser = seconds())]
    timeout: u64,
    /// Seconds in which a client has to send its request, and to read each piece of the answer
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = seconds())]
    client_timeout: u64,
    /// Seconds that requests have to end after SIGTERM or Ctrl-C
    #[arg(long, value_name = "S", default_value_t = 30)]
    grace: u32,
    #[command(flatten)]
    ranks: OnRanks,
}

// A day at most: longer is no limit.
fn seconds() -> clap::builder::RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(1..=86400)
}

#[cfg(not(feature = "serve"))]
impl Serve {
    /// Refuses.
    pub(crate) fn run(&self, _: &crate::Registry) -> crate::failure::Outcome {
        Err(crate::failure::Failure::usage(
            "serve: found a build without the feature `serve`, needs one with it: cargo build --release --features serve",
        ))
    }
}
