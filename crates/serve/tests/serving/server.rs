//! A server on threads of this process, and the generator called directly.

use bootstrap::local::{Options, run};
use families::families;
use fascicle_serve::{Front, Keys, Limits, Served};
use std::{
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex, mpsc::channel},
    thread::JoinHandle,
};
use train::{
    Config, Stop,
    data::{ChatTemplate, Tokenizer},
    generate::{Generator, GeneratorOptions, Request, inference, text},
};

/// Attention that matters, from weights that are not trained.
const CONFIG: &str = r#"
    [model]
    layers = 2
    hidden = 32
    heads = 4
    context = 32
    vocabulary = 256
    init_deviation = 0.4
    [training]
    reproducible = "grid"
"#;

fn config(grid: &str, edit: &str) -> Config {
    let text = format!("{CONFIG}\n[parallel]\ngrid = \"{grid}\"\n");
    let (from, to) = edit.split_once(" -> ").unwrap_or_default();
    let text = text.replace(from, to);
    let config = Config::parse(&text, &families()).unwrap();
    config.check().unwrap();
    config
}

/// What a server differs in.
pub struct Given {
    pub grid: &'static str,
    pub limits: Limits,
    pub keys: Keys,
    pub template: Option<&'static str>,
    /// What is replaced in the configuration, and by what.
    pub edit: &'static str,
}

impl Default for Given {
    fn default() -> Self {
        Given {
            grid: "x=1",
            limits: Limits {
                tokens: 1 << 20,
                ..Limits::default()
            },
            keys: Keys::none(),
            template: None,
            edit: "32 -> 32",
        }
    }
}

/// A server that runs until it is dropped.
pub struct Server {
    pub address: SocketAddr,
    pub stop: Arc<Stop>,
    ranks: Option<JoinHandle<Result<(), String>>>,
}

impl Server {
    pub fn start(given: Given) -> Server {
        let Given {
            grid,
            limits,
            keys,
            template,
            edit,
        } = given;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (config, stop) = (config(grid, edit), Arc::new(Stop::default()));
        let served = Served {
            name: "tiny".into(),
            tokenizer: Tokenizer::bytes(),
            template: template.map(chat_template),
            vocabulary: 256,
        };
        let (opened, address) = channel();
        let (asked, listener) = (stop.clone(), Mutex::new(Some(listener)));
        let options = GeneratorOptions {
            sequences: limits.running,
            prefixes: 256,
            ..GeneratorOptions::default()
        };
        let ranks = config.grid().unwrap().world_size();
        let body = move |world: bootstrap::World| {
            let device = testkit::device(&config, world.rank())?;
            let context = config.context(&world, &device)?;
            let pipeline = inference(&context, &config)?;
            let tokenizer = Tokenizer::bytes();
            let reads = text(&config)?;
            let mut generator = Generator::new(&pipeline, reads, &tokenizer, options.clone())?;
            let mut front = None;
            if world.rank() == 0 {
                let listener = listener.lock().unwrap().take().unwrap();
                let limits = (limits.clone(), asked.clone());
                let opens = Front::open(listener, served.clone(), keys.clone(), limits)?;
                opened.send(opens.address()).unwrap();
                front = Some(opens);
            }
            fascicle_serve::run(&world, &mut generator, front)
        };
        let ranks = std::thread::spawn(move || {
            let done = run(Options::new(ranks), body);
            done.map(drop).map_err(|failure| failure.report())
        });
        Server {
            address: address.recv().expect("the server starts"),
            stop,
            ranks: Some(ranks),
        }
    }

    /// Waits for its end.
    pub fn ended(&mut self) -> Result<(), String> {
        let ranks = self.ranks.take().expect("it has not ended yet");
        ranks.join().expect("no rank panics")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.ask();
        if self.ranks.is_some() && !std::thread::panicking() {
            self.ended().unwrap();
        }
    }
}

fn chat_template(text: &str) -> ChatTemplate {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chat.jinja");
    std::fs::write(&file, text).unwrap();
    ChatTemplate::read(&file).unwrap()
}

/// What the generator alone makes of a request, on one rank: the text, and its log-probabilities.
pub fn direct(request: Request) -> (String, Vec<f64>) {
    let outputs = run(Options::new(1), move |world| {
        let config = config("x=1", "32 -> 32");
        let device = testkit::device(&config, 0)?;
        let context = config.context(&world, &device)?;
        let pipeline = inference(&context, &config)?;
        let tokenizer = Tokenizer::bytes();
        let options = GeneratorOptions::default();
        let mut generator = Generator::new(&pipeline, text(&config)?, &tokenizer, options)?;
        generator.add(request.clone())?;
        let (mut text, mut likelihoods) = (String::new(), Vec::new());
        generator.run(|token| {
            text += &token.text;
            likelihoods.extend(token.log_probability);
            Ok(())
        })?;
        Ok::<_, train::Error>((text, likelihoods))
    });
    let outputs = outputs.unwrap_or_else(|failure| panic!("{}", failure.report()));
    outputs.into_iter().next().unwrap()
}
