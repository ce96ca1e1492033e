//! What reads from outside, each on arbitrary bytes. No input may cause a panic, and what is written back is read as the same.

use grid::{AxisOrder, Degrees, IndexBox, machine::Machine};
use parallel::{ContextAttention, pipeline::ScheduleKind};
use std::{fmt::Display, fs, path::Path, str::FromStr};
use train::{
    Config, Stop,
    batches::Batches,
    checkpoint::{PlainFile, Reader, foreign::Distributed},
    data::{
        Chat, ChatTemplate, Content, Corpus, FinishedShards, FolderWriter, LossOn, Samples,
        Settings, Source, TokenType, TokenizeInput, TokenizeOptions, TokenizeProgress, Tokenizer,
        TokenizerChoice, tokenize,
    },
    foreign::ForeignModel,
    metrics::{self, Record},
    trainer::Weights,
};

// The messages of processes, whose crate is empty without an MPI library.
#[allow(dead_code, reason = "only the decoders are wanted")]
#[path = "../../crates/mpi/src/introduction.rs"]
mod introduction;
#[allow(dead_code, reason = "only the decoders are wanted")]
#[path = "../../crates/mpi/src/notice.rs"]
mod notice_of_mpi;

/// A target's name, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
#[allow(dead_code, reason = "each program of the fuzzer runs one")]
pub const TARGETS: [Target; 20] = [
    ("arguments", arguments),
    ("checkpoint", checkpoint),
    ("compressed", compressed),
    ("config", config),
    ("distributed", distributed),
    ("foreign", foreign),
    ("index", index),
    ("machine", machine),
    ("metrics", metrics),
    ("notice", notice),
    ("safetensors", safetensors),
    ("samples", samples),
    ("shard", shard),
    ("tape", tape),
    ("template", template),
    ("text", text),
    ("token_index", token_index),
    ("tokenizer", tokenizer),
    ("tokens", tokens),
    ("words", words),
];

// The longest text or tensor that is read whole.
const MOST: usize = 1 << 20;

fn with_folder(read: impl FnOnce(&Path)) {
    let folder = tempfile::tempdir().expect("a folder for the input");
    read(folder.path());
}

fn with_file(bytes: &[u8], read: impl FnOnce(&Path)) {
    with_folder(|folder| {
        let path = folder.join("input");
        fs::write(&path, bytes).expect("the input's file");
        read(&path);
    });
}

/// A checkpoint's manifest, beside a whole shard.
pub fn checkpoint(bytes: &[u8]) {
    read_checkpoint(bytes, include_bytes!("fixture/shard-00000.safetensors"));
}

/// A checkpoint's shard, beside a whole manifest.
pub fn shard(bytes: &[u8]) {
    read_checkpoint(include_bytes!("fixture/manifest.json"), bytes);
}

fn read_checkpoint(manifest: &[u8], shard: &[u8]) {
    with_folder(|folder| {
        let folder = folder.join("step-00000002");
        fs::create_dir(&folder).expect("the checkpoint's folder");
        fs::write(folder.join("manifest.json"), manifest).expect("its manifest");
        fs::write(folder.join("shard-00000.safetensors"), shard).expect("its shard");
        let Ok(reader) = Reader::open(&folder) else {
            return;
        };
        // What a damaged checkpoint is said to hold is checked before it is used.
        let verified = reader.verify();
        let names: Vec<String> = reader.names().map(str::to_owned).collect();
        for name in names {
            let Ok(info) = reader.info(&name) else {
                continue;
            };
            let shape = info.global_shape.clone();
            if shape
                .iter()
                .try_fold(1usize, |all, dim| all.checked_mul(*dim))
                .is_none_or(|all| all > MOST)
            {
                continue;
            }
            let whole = IndexBox::full(&shape);
            let read = reader.read(&name, &shape, &whole);
            assert!(
                read.is_ok() || verified.is_err(),
                "{name}: {read:?} after {verified:?}"
            );
        }
    });
}

/// The settings of another program's model, beside its whole weights.
pub fn foreign(bytes: &[u8]) {
    read_foreign(&[("config.json", bytes), ("model.safetensors", WEIGHTS)]);
}

/// The list of the files of another program's model, beside its whole settings and weights.
pub fn index(bytes: &[u8]) {
    let settings = include_bytes!("../fixtures/qwen2/config.json");
    read_foreign(&[
        ("config.json", settings),
        ("model.safetensors.index.json", bytes),
        ("part.safetensors", WEIGHTS),
    ]);
}

const WEIGHTS: &[u8] = include_bytes!("../fixtures/qwen2/model.safetensors");

fn read_foreign(files: &[(&str, &[u8])]) {
    with_folder(|folder| {
        for (name, bytes) in files {
            fs::write(folder.join(name), bytes).expect("the model's file");
        }
        let opened = ForeignModel::open(folder, &families::families(), Ok::<_, train::Error>);
        // What is opened can be read: every parameter, with its shape.
        let Ok(foreign) = opened else { return };
        for name in foreign.names() {
            let shape = foreign.shape(&name).expect("a parameter's shape");
            let read = foreign.read(&name, &shape, &IndexBox::full(&shape));
            assert!(read.is_ok(), "{name}: {read:?}");
        }
    });
}

/// The list of the chunks of a Megatron checkpoint, beside whole chunks.
pub fn distributed(bytes: &[u8]) {
    with_megatron(".metadata", bytes, |folder| {
        let Ok(opened) = Distributed::open(folder, "decoder.layers.", &["optimizer."]) else {
            return;
        };
        drop(opened.saved_attributes("common_state/shard_0_1", "args"));
        for name in opened.names() {
            let Ok(info) = opened.info(name) else {
                continue;
            };
            let whole = IndexBox::full(&info.global_shape);
            drop(opened.read_f64(name, &info.global_shape, &whole));
        }
    });
}

/// The arguments of a Megatron checkpoint, beside a whole list and chunks.
pub fn arguments(bytes: &[u8]) {
    with_megatron("common.pt", bytes, |folder| {
        let opened = ForeignModel::open(folder, &families::families(), Ok::<_, train::Error>);
        let Ok(foreign) = opened else { return };
        // Chunks are looked at when they are read.
        for name in foreign.names() {
            let shape = foreign.shape(&name).expect("a parameter's shape");
            let _ = foreign.read(&name, &shape, &IndexBox::full(&shape));
        }
    });
}

// A Megatron checkpoint, in which a file is this.
fn with_megatron(name: &str, bytes: &[u8], read: impl FnOnce(&Path)) {
    macro_rules! whole {
        ($($name:literal)*) => {
            [$(($name, &include_bytes!(concat!("../fixtures/megatron_llama/iter_0000007/", $name))[..])),*]
        };
    }
    with_folder(|folder| {
        for (file, whole) in whole!(
            ".metadata" "common.pt" "__0_0.distcp" "__0_1.distcp" "__1_0.distcp" "__1_1.distcp"
        ) {
            let bytes = if file == name { bytes } else { whole };
            fs::write(folder.join(file), bytes).expect("a file of the checkpoint");
        }
        read(folder);
    });
}

/// A file of weights of any program.
pub fn safetensors(bytes: &[u8]) {
    with_file(bytes, |path| {
        let Ok(file) = PlainFile::open(path) else {
            return;
        };
        for name in file.names() {
            let Ok(info) = file.info(&name) else { continue };
            let whole = IndexBox::full(&info.global_shape);
            drop(file.read_f64(&name, &info.global_shape, &whole));
        }
    });
}

/// A run's configuration.
pub fn config(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    let families = families::families();
    let Ok(config) = Config::parse(text, &families) else {
        return;
    };
    if config.check().is_ok() {
        let json = serde_json::to_value(&config).expect("a configuration is JSON");
        let again = Config::from_json(json, &families).expect("what it wrote");
        assert_eq!(config, again);
    }
}

/// The description of a machine.
pub fn machine(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    let Ok(machine) = Machine::parse(text, "input") else {
        return;
    };
    let placement = machine.placement(machine.devices_per_node);
    let route = grid::machine::Route::strided(1, machine.devices_per_node, placement);
    let cost = machine.collective(grid::machine::Operation::AllReduce, 1 << 20, route);
    assert!(
        cost.seconds() >= 0.0 && cost.seconds().is_finite(),
        "{cost:?}"
    );
}

/// The records of a run's steps.
pub fn metrics(bytes: &[u8]) {
    with_file(bytes, |path| drop(metrics::read::<Record>(path)));
}

/// Messages of processes about a failure and themselves.
pub fn notice(bytes: &[u8]) {
    introduction::Introduction::decode(bytes);
    if let Some(notice) = notice_of_mpi::Notice::decode(bytes) {
        let again = notice_of_mpi::Notice::decode(&notice.encode());
        assert_eq!(again.as_ref(), Some(&notice));
    }
}

/// A recorded rank.
pub fn tape(bytes: &[u8]) {
    with_file(bytes, |path| {
        let Ok(tape) = replay::Tape::open(path) else {
            return;
        };
        for name in ["world", "compute"] {
            let Ok(channel) = tape.channel(name) else {
                continue;
            };
            while tape.next(channel).is_ok() {}
        }
    });
}

/// A text to train on.
pub fn text(bytes: &[u8]) {
    with_file(bytes, |path| {
        let source = Source::TextFile(path.to_owned());
        let Ok(content) = source.read() else { return };
        let tokenizer = TokenizerChoice::Characters
            .build(&content)
            .expect("characters of a text");
        if let Content::Text(text) = &content {
            for document in &text.documents {
                let tokens = tokenizer.encode(document).expect("its own characters");
                assert_eq!(&tokenizer.decode(&tokens), document);
            }
        }
    });
}

/// A saved tokenizer.
pub fn tokenizer(bytes: &[u8]) {
    with_file(bytes, |path| {
        let Ok(tokenizer) = Tokenizer::load(path) else {
            return;
        };
        let most = tokenizer.vocabulary_size() as u64;
        if let Ok(tokens) = tokenizer.encode("To be, or not to be\u{2014}\n") {
            assert!(
                tokens.iter().all(|token| u64::from(*token) < most),
                "{tokens:?} of {most}"
            );
            tokenizer.decode(&tokens);
        }
        tokenizer.decode(&[0, 1, u32::MAX]);
    });
}

/// A file of tokens.
pub fn tokens(bytes: &[u8]) {
    with_file(bytes, |path| {
        for dtype in [TokenType::U16, TokenType::U32] {
            let source = Source::TokenFile {
                path: path.to_owned(),
                dtype,
            };
            if let Ok(Content::Tokens { tokens, .. }) = source.read() {
                let mut all = Vec::new();
                tokens
                    .extend_into(0..tokens.len(), &mut all)
                    .expect("the whole file");
                assert_eq!(all.len(), tokens.len());
            }
        }
    });
}

/// The index of a token folder, beside its shards and its tokenizer.
pub fn token_index(bytes: &[u8]) {
    with_folder(|folder| {
        let path = folder.join("folder");
        let mut writer =
            FolderWriter::create(&path, &Tokenizer::bytes(), None, 4).expect("a folder");
        writer.push(&[0, 1, 2, 3, 4, 5]).expect("its tokens");
        writer
            .finish()
            .and_then(FinishedShards::publish)
            .expect("its index");
        fs::write(path.join("token-index.json"), bytes).expect("the input's file");
        let source = Source::TokenFolder(path.clone());
        // What is opened is whole.
        let Ok(content) = source.read() else { return };
        let corpus = Corpus::new(content, &Tokenizer::bytes()).expect("tokens of its tokenizer");
        let mut all = Vec::new();
        corpus
            .extend_into(0..corpus.len(), &mut all)
            .expect("all tokens");
        assert!(all.iter().all(|token| *token < 6), "{all:?}");
    });
}

/// JSON lines, compressed, to be tokenised.
pub fn compressed(bytes: &[u8]) {
    with_folder(|folder| {
        let input = folder.join("input.jsonl.zst");
        fs::write(&input, bytes).expect("the input's file");
        let inputs = TokenizeInput::find(&[input], &[]).expect("the input");
        let (stop, options) = (Stop::default(), TokenizeOptions::default());
        let watch: (&Stop, TokenizeProgress<'_>) = (&stop, &|_, _| ());
        let out = folder.join("out");
        let made = tokenize(&inputs, &Tokenizer::bytes(), &out, &options, watch);
        assert_eq!(made.is_ok(), out.exists());
    });
}

/// Words of the command line.
pub fn words(bytes: &[u8]) {
    fn read_back<T: FromStr + Display + PartialEq + std::fmt::Debug>(text: &str) {
        if let Ok(word) = text.parse::<T>() {
            let again = word.to_string().parse::<T>().ok();
            assert_eq!(again.as_ref(), Some(&word));
        }
    }
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    read_back::<Degrees>(text);
    read_back::<AxisOrder>(text);
    read_back::<ScheduleKind>(text);
    read_back::<ContextAttention>(text);
}

/// A file of samples, as bytes: every row that it gives has its length.
pub fn samples(bytes: &[u8]) {
    with_file(bytes, |path| {
        let Ok(content) = Source::Lines(path.into()).read() else {
            return;
        };
        let settings = Settings {
            context: 16,
            global_batch: 3,
            ..Settings::default()
        };
        let tokenizer = Tokenizer::bytes();
        let options = (&settings, LossOn::Answers);
        let Ok(samples) = Samples::new(content, None, &tokenizer, options) else {
            return;
        };
        let rows = samples.training(5, 0..3).expect("a batch");
        let held = samples.validation(0, 0..3).expect("a batch to validate");
        for rows in [rows, held] {
            assert_eq!(rows.column("inputs").map(|values| values.len()), Some(48));
        }
    });
}

/// A chat template, and what it makes of a chat.
pub fn template(bytes: &[u8]) {
    with_folder(|folder| {
        let path = folder.join("chat_template.jinja");
        fs::write(&path, bytes).expect("the template's file");
        let Ok(template) = ChatTemplate::read(&path) else {
            return;
        };
        let chat = Chat {
            messages: ["user", "assistant"]
                .map(|role| Chat::message(role, "text"))
                .to_vec(),
            tools: None,
        };
        let _ = template.render(&chat, 2, false);
        let _ = template.after_answer();
    });
}
