//! A server from its arguments to its end.

use super::Serve;
use crate::{
    Registry,
    commands::checkpoint,
    device,
    failure::{Failure, Outcome},
    interrupt, launcher, output,
};
use serve::{Front, Keys, Limits, Served};
use std::{
    net::{SocketAddr, TcpListener},
    sync::Mutex,
    time::Duration,
};
use train::{
    data::{ChatTemplate, Tokenizer},
    generate::{Generator, GeneratorOptions, described, load, text},
};

impl Serve {
    /// Serves until it is asked to stop.
    pub(crate) fn run(&self, registry: &Registry) -> Outcome {
        let driver = device::preferred(&registry.drivers)?;
        let reader = checkpoint::open(&self.checkpoint)?;
        let path = reader.path().to_owned();
        let (mut config, tokenizer) =
            described(&reader, &registry.families).map_err(Failure::run)?;
        let reads = text(&config).map_err(Failure::run)?;
        let served = Served {
            name: self.name(),
            template: self.template(&tokenizer)?,
            tokenizer: tokenizer.clone(),
            vocabulary: reads.vocabulary,
        };
        let (keys, limits) = (self.keys()?, self.limits(reads.context)?);
        let team = self.ranks.team(&mut config)?;
        let stop = interrupt::watch_plainly("answering the requests that came", || {});
        let asked = stop.clone();
        // Of processes, the first one listens: a port that is taken is found before the model is read.
        let listener = Mutex::new(is_first()?.then(|| self.listen()).transpose()?);
        let options = GeneratorOptions {
            sequences: self.sequences,
            prefill: self.prefill,
            kept_tokens: self.kept_tokens,
            prefixes: self.prefixes.unwrap_or(reads.context),
        };
        let stored_as = self.ranks.frozen_weights;
        team.run(driver, move |world, device| {
            let reader = train::checkpoint::Reader::open(&path)?;
            train::trainer::verify(world, &reader)?;
            let pipeline = load(world, device, &config, &reader, stored_as)?;
            let mut generator =
                Generator::new(&pipeline, text(&config)?, &tokenizer, options.clone())?;
            let listener = match (world.rank(), listener.lock()) {
                (0, Ok(mut listener)) => listener.take(),
                _ => None,
            };
            let open = |listener| {
                let limits = (limits.clone(), asked.clone());
                let front = Front::open(listener, served.clone(), keys.clone(), limits)?;
                tell(&front, &served, &keys)?;
                Ok::<_, train::Error>(front)
            };
            serve::run(world, &mut generator, listener.map(open).transpose()?)
        })?;
        // From now on a signal ends the program at once.
        stop.ask();
        Ok(())
    }

    fn name(&self) -> String {
        let path = self.checkpoint.canonicalize();
        let path = path.as_ref().unwrap_or(&self.checkpoint);
        let last = path.file_name().map(|name| name.to_string_lossy());
        let name = self.name.clone().or(last.map(Into::into));
        name.unwrap_or_else(|| "fascicle".into())
    }

    fn template(&self, tokenizer: &Tokenizer) -> Outcome<Option<ChatTemplate>> {
        match &self.chat_template {
            Some(path) => ChatTemplate::read(path).map(Some).map_err(Failure::usage),
            None => Ok(tokenizer.chat().cloned()),
        }
    }

    fn keys(&self) -> Outcome<Keys> {
        let Some(path) = &self.keys else {
            return Ok(Keys::none());
        };
        let refuse = |error| Failure::usage(format!("--keys {}: {error}", path.display()));
        Keys::read(path).map_err(refuse)
    }

    fn limits(&self, context: usize) -> Outcome<Limits> {
        let tokens = self.most_tokens.unwrap_or(context);
        let least = [
            ("most-tokens", tokens, 2),
            ("body-bytes", self.body_bytes, 1),
            ("connections", self.connections, 1),
        ];
        for (name, found, least) in least {
            if found < least {
                let sentence = format!("--{name}: found {found}, needs at least {least}");
                return Err(Failure::usage(sentence));
            }
        }
        Ok(Limits {
            body_bytes: self.body_bytes,
            tokens,
            running: self.sequences,
            waiting: self.queue,
            connections: self.connections,
            request: Duration::from_secs(self.timeout),
            client: Duration::from_secs(self.client_timeout),
            grace: Duration::from_secs(self.grace.into()),
        })
    }

    fn listen(&self) -> Outcome<TcpListener> {
        let address = SocketAddr::from((self.address, self.port));
        TcpListener::bind(address)
            .map_err(|error| Failure::run(format!("listening at {address}: {error}")))
    }
}

// Whether this process has the first rank.
fn is_first() -> Outcome<bool> {
    match launcher::processes() {
        Some(processes) => Ok(processes.join().map_err(Failure::run)?.rank == 0),
        None => Ok(true),
    }
}

// Where clients find it: for a person, and on stdout for a program.
fn tell(front: &Front, served: &Served, keys: &Keys) -> std::io::Result<()> {
    let address = front.address();
    if keys.is_none() && !address.ip().is_loopback() {
        output::note(
            "anyone who reaches this address is answered; --keys FILE asks clients for a key",
        );
    }
    output::note(&format!("serving {}; Ctrl-C ends it", served.name));
    let told = output::result(&format!("http://{address}"));
    // The server does not depend on whether anybody reads this.
    match told {
        Ok(()) | Err(Failure::PipeClosed) => Ok(()),
        Err(failure) => Err(std::io::Error::other(
            failure.sentence().unwrap_or("stdout").to_owned(),
        )),
    }
}
