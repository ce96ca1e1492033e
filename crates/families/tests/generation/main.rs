//! Generation with kept keys and values gives the tokens, and on the CPU the log-probabilities to the bit, that complete windows
//! give: on every grid, in batches and alone, beyond the window.

mod batches;
mod memory;
mod parity;
mod prefixes;
mod refusals;

use bootstrap::local::{Options, run};
use nn::Builder;
use parallel::{
    Input, Model, Pipeline, Route, Wires,
    data::SetOptions,
    layers::Loss,
    memory::ActivationMemory,
    pipeline::{Built, ScheduleKind, SchedulePlan},
};
use std::{collections::BTreeMap, rc::Rc};
use train::{
    Config,
    data::Tokenizer,
    generate::{
        Finish, Generator, GeneratorOptions, Request, RequestId, Sampling, inference, text,
    },
};

/// Attention that matters, from weights that are not trained.
const CONFIG: &str = r#"
    [model]
    layers = 3
    hidden = 32
    heads = 8
    context = 8
    vocabulary = 37
    init_deviation = 0.4
    [training]
    reproducible = "run"
    [parallel]
    grid = "x=1"
"#;

/// The configuration with these keys, each `table.key = value`.
fn config(edits: &[&str]) -> Config {
    testkit::edited(CONFIG, edits)
}

/// Keys of a Llama: rotary positions, and query heads that share a key.
const LLAMA: [&str; 3] = [
    "model.family = \"llama\"",
    "model.kv_heads = 4",
    "model.tied_head = false",
];

/// A model that does not declare that it can run on new tokens alone.
struct Complete(Box<dyn Model>);

impl Model for Complete {
    fn num_segments(&self) -> usize {
        self.0.num_segments()
    }

    fn cost(&self, segment: usize) -> Option<f64> {
        self.0.cost(segment)
    }

    fn routes(&self) -> Vec<Route> {
        self.0.routes()
    }

    fn forward(&self, segment: usize, input: &Input<'_>, wires: Wires) -> parallel::Result<Wires> {
        self.0.forward(segment, input, wires)
    }

    fn objective(&self, input: &Input<'_>, wires: Wires) -> parallel::Result<Loss> {
        self.0.objective(input, wires)
    }
}

/// Whether keys and values are kept, or each token runs its complete window.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Keys {
    Kept,
    Recomputed,
}

fn pipeline(context: &parallel::Context, config: &Config, keys: Keys) -> train::Result<Pipeline> {
    if keys == Keys::Kept {
        return inference(context, config);
    }
    let build = || -> parallel::Result<Built> {
        let builder = Builder::new(context);
        let model = Rc::new(Complete(config.model.build(&builder)?));
        Ok((model, builder.parameters()))
    };
    let stages = context.degree(grid::Axis::Pipeline);
    let schedule = SchedulePlan::new(ScheduleKind::default(), stages, 1)?;
    let options = parallel::pipeline::Options {
        set: SetOptions::inference(config.training.precision.dtype()),
        memory: ActivationMemory::default(),
        depths: None,
    };
    Ok(Pipeline::new(context, build, schedule, options)?)
}

/// What became of a request.
#[derive(Clone, Debug, Default, PartialEq)]
struct Answer {
    tokens: Vec<u32>,
    /// Bits of the log-probabilities: of each token, and of the two most likely ones.
    log_probabilities: Vec<[u64; 3]>,
    text: String,
    finish: Option<&'static str>,
}

/// A request, and the step before which it is added.
type Timed = (usize, Request);

/// Runs the requests on the configuration's grid; every rank returns the same.
fn answers(
    config: &Config,
    keys: Keys,
    options: &GeneratorOptions,
    requests: &[Timed],
) -> Vec<Answer> {
    on_ranks(config, keys, options, requests).unwrap_or_else(|report| panic!("{report}"))
}

fn on_ranks(
    config: &Config,
    keys: Keys,
    options: &GeneratorOptions,
    requests: &[Timed],
) -> Result<Vec<Answer>, String> {
    let (config, options, requests) = (config.clone(), options.clone(), requests.to_vec());
    let ranks = config.grid().unwrap().world_size();
    let answers = run(Options::new(ranks), move |world| {
        let device = testkit::device(&config, world.rank())?;
        let context = config.context(&world, &device)?;
        let pipeline = pipeline(&context, &config, keys)?;
        let text = text(&config)?;
        let tokenizer = Tokenizer::ids(text.vocabulary);
        let mut generator = Generator::new(&pipeline, text, &tokenizer, options.clone())?;
        let mut requests = requests.clone();
        let mut all = BTreeMap::<RequestId, Answer>::new();
        let mut step = 0;
        while !requests.is_empty() || !generator.is_idle() {
            let later = requests.partition_point(|(from, _)| *from <= step);
            for (_, request) in requests.drain(..later) {
                generator.add(request)?;
            }
            note(&mut all, &mut generator)?;
            step += 1;
        }
        Ok::<_, train::Error>(all.into_values().collect::<Vec<_>>())
    });
    let answers = answers.map_err(|failure| failure.report())?;
    for (rank, other) in answers.iter().enumerate() {
        assert_eq!(other, &answers[0], "rank {rank}");
    }
    Ok(answers.into_iter().next().unwrap())
}

/// Runs a step.
fn note(all: &mut BTreeMap<RequestId, Answer>, generator: &mut Generator) -> train::Result<()> {
    for token in generator.step()? {
        let answer = all.entry(token.request).or_default();
        answer.tokens.push(token.token);
        answer.text += &token.text;
        if let Some(own) = token.log_probability {
            let [first, second] = [0, 1].map(|place| token.likeliest[place].1.to_bits());
            answer
                .log_probabilities
                .push([own.to_bits(), first, second]);
        }
        answer.finish = token.finish.map(|finish| match finish {
            Finish::Length => "length",
            Finish::Stop => "stop",
            Finish::End => "end",
        });
    }
    Ok(())
}

/// Requests of unequal prompts (one longer than the context of 8, two of one length) that go beyond the window, greedy and seeded; the last one
/// comes late.
fn requests() -> Vec<Timed> {
    let request = |prompt: &[u32], tokens, sampling| Request {
        prompt: prompt.to_vec(),
        tokens,
        sampling,
        log_probabilities: Some(2),
        ..Request::default()
    };
    let seeded = |seed| Sampling {
        temperature: 1.3,
        top_k: 20,
        top_p: 0.95,
        min_p: 0.01,
        repetition_penalty: 1.2,
        seed,
    };
    vec![
        (0, request(&[5], 19, Sampling::greedy())),
        (0, request(&[1, 2, 3, 4], 7, seeded(1))),
        (
            0,
            request(&[9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 36], 12, seeded(2)),
        ),
        (0, request(&[30, 31, 32, 33], 4, Sampling::greedy())),
        (3, request(&[11, 12, 13, 14, 15, 16, 17], 9, seeded(3))),
    ]
}

/// Prompts come in pieces, and not all requests run at a time.
fn in_pieces() -> GeneratorOptions {
    GeneratorOptions {
        sequences: 3,
        prefill: 3,
        kept_tokens: 0,
        prefixes: 0,
    }
}
