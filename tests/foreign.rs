//! Models of the library transformers, both ways: conversions that prove themselves, and folders that are refused by name.

use grid::IndexBox;
use serde_json::{Map, Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};
use testkit::ranks;
use train::{
    Config, Result,
    checkpoint::{Reader, foreign::PlainFolder},
    config::Precision,
    data::Tokenizer,
    foreign::{ExportOptions, ForeignModel, Proof, export, import, prove},
    generate::described,
    trainer::Weights,
};

const MODELS: [&str; 11] = [
    "gpt2",
    "llama",
    "llama3",
    "mistral",
    "qwen2",
    "qwen3",
    "gemma",
    "gemma2",
    "gemma3",
    "gpt_neox",
    "gpt_neox_sequential",
];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

fn open(path: &Path) -> Result<ForeignModel> {
    ForeignModel::open(path, &families::families(), Ok)
}

// With this key of the model changed.
fn open_with(path: &Path, key: &'static str, value: i64) -> Result<ForeignModel> {
    ForeignModel::open(path, &families::families(), |model| {
        families::families().edited(Some(&model), [(key, toml::Value::Integer(value))])
    })
}

fn proved(foreign: &ForeignModel) -> std::result::Result<Proof, String> {
    let foreign = foreign.clone();
    let results = testkit::try_ranks(1, move |world, device| {
        prove((&world, &device), &foreign.model, &foreign, &foreign)
    });
    results.map(|mut results| results.swap_remove(0))
}

// A checkpoint of the folder, in another one.
fn imported(foreign: &ForeignModel, dir: &Path) -> Reader {
    let mut config = Config::new(foreign.model.clone());
    config.training.precision = foreign.precision();
    let tokenizer = Tokenizer::ids(67);
    Reader::open(import(foreign, &config, &tokenizer, dir).unwrap()).unwrap()
}

fn exported(
    reader: &Reader,
    out: &Path,
    options: ExportOptions,
) -> std::result::Result<(), String> {
    let (from, to) = (reader.path().to_owned(), out.to_owned());
    let results = testkit::try_ranks(1, move |world, device| {
        let reader = Reader::open(&from)?;
        let families = families::families();
        let (config, tokenizer) = described(&reader, &families)?;
        let run = (&config, &tokenizer);
        export(
            (&world, &device),
            &reader,
            run,
            &families,
            (&to, options, true),
        )
        .map(drop)
    });
    results.map(drop)
}

const PLAIN: ExportOptions = ExportOptions {
    precision: Precision::F32,
    most_file_bytes: u64::MAX,
};

fn whole(folder: &PlainFolder, name: &str) -> Vec<f64> {
    let shape = folder.info(name).unwrap().global_shape;
    folder
        .read_f64(name, &shape, &IndexBox::full(&shape))
        .unwrap()
}

#[test]
fn conversions_are_proved_and_lead_back() {
    for name in MODELS {
        let temporary = tempfile::tempdir().unwrap();
        let foreign = open(&fixture(name)).unwrap();
        let proof = proved(&foreign).unwrap();
        let segments = if matches!(name, "gemma2" | "gemma3") {
            8
        } else {
            6
        };
        assert!(
            proof.difference < 1e-12 && proof.segments == segments,
            "{name}: {proof:?}"
        );
        let reader = imported(&foreign, &temporary.path().join("checkpoints"));
        // In one file, and in as many as there are tensors.
        for most_file_bytes in [u64::MAX, 1] {
            let out = temporary.path().join(format!("back-{most_file_bytes}"));
            let options = ExportOptions {
                most_file_bytes,
                ..PLAIN
            };
            exported(&reader, &out, options).unwrap();
            let [old, new] = [&fixture(name), &out].map(|path| PlainFolder::open(path).unwrap());
            assert!(old.names().eq(new.names()), "{name}: other tensors");
            for tensor in old.names() {
                assert_eq!(old.info(tensor).unwrap(), new.info(tensor).unwrap());
                assert!(
                    whole(&old, tensor) == whole(&new, tensor),
                    "{name}: {tensor}"
                );
            }
            assert_eq!(
                open(&out).unwrap().model.describe(),
                foreign.model.describe()
            );
        }
        let again = exported(&reader, &temporary.path().join("back-1"), PLAIN).unwrap_err();
        assert!(
            again.contains("is there already; needs the name of a new folder"),
            "{again}"
        );
    }
}

#[test]
fn rounded_weights_are_proved_as_they_are_written() {
    let temporary = tempfile::tempdir().unwrap();
    let reader = imported(
        &open(&fixture("llama3")).unwrap(),
        &temporary.path().join("checkpoints"),
    );
    for precision in [Precision::Bf16, Precision::F16] {
        let out = temporary.path().join(format!("{precision:?}"));
        exported(&reader, &out, ExportOptions { precision, ..PLAIN }).unwrap();
        assert_eq!(open(&out).unwrap().precision(), precision);
    }
}

#[test]
fn a_padded_vocabulary_and_a_shorter_context_are_proved_too() {
    let temporary = tempfile::tempdir().unwrap();
    let padded = open_with(&fixture("gpt2"), "pad_vocabulary_to", 16).unwrap();
    assert!(proved(&padded).is_ok());
    let reader = imported(&padded, &temporary.path().join("checkpoints"));
    let table = &reader.info("weights/embedding.token").unwrap().global_shape;
    assert_eq!(*table, [80, 32]);
    let out = temporary.path().join("back");
    exported(&reader, &out, PLAIN).unwrap();
    let [old, new] = [&fixture("gpt2"), &out].map(|path| PlainFolder::open(path).unwrap());
    assert_eq!(
        whole(&old, "transformer.wte.weight"),
        whole(&new, "transformer.wte.weight")
    );
    let short = open_with(&fixture("gpt2"), "context", 8).unwrap();
    assert!(proved(&short).is_ok());
    let long = open_with(&fixture("gpt2"), "context", 25)
        .unwrap_err()
        .to_string();
    assert!(
        long.contains("found n_positions = 24, needs at least model.context = 25"),
        "{long}"
    );
    // Rotary positions have no end, and windows leave the rest out.
    let beyond = open_with(&fixture("mistral"), "context", 30).unwrap();
    assert!(proved(&beyond).is_ok());
}

// A copy of a folder with its settings changed.
fn changed(name: &str, change: impl FnOnce(&mut Map<String, Value>)) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors"] {
        fs::copy(fixture(name).join(file), copy.path().join(file)).unwrap();
    }
    let path = copy.path().join("config.json");
    let mut keys = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut keys);
    fs::write(&path, Value::Object(keys).to_string()).unwrap();
    copy
}

#[test]
fn settings_that_the_model_cannot_follow_are_refused_by_name() {
    let cases: [(&str, &str, Value, &str); 47] = [
        (
            "gpt2",
            "model_type",
            json!("mamba"),
            "found model_type = \"mamba\", needs one of gpt2, llama, mistral, qwen2, qwen3, gemma, gemma2, gemma3_text, gpt_neox",
        ),
        ("gpt2", "model_type", Value::Null, "found model_type = \"\""),
        (
            "gpt2",
            "activation_function",
            json!("relu"),
            "found activation_function = \"relu\", needs \"gelu_new\"",
        ),
        (
            "gpt2",
            "n_layer",
            json!("two"),
            "found n_layer = \"two\", needs a whole number",
        ),
        (
            "gpt2",
            "n_layer",
            json!(3),
            "found no tensor transformer.h.2.",
        ),
        (
            "gpt2",
            "n_layer",
            json!(1),
            "found the tensor transformer.h.1.attn.c_attn.bias, which the model lacks",
        ),
        (
            "gpt2",
            "n_embd",
            json!(64),
            "has shape [96], its settings need [192]",
        ),
        (
            "gpt2",
            "n_inner",
            json!(96),
            "has shape [128, 32], its settings need [96, 32]",
        ),
        (
            "gpt2",
            "n_positions",
            json!(1024),
            "has shape [24, 32], its settings need [1024, 32]",
        ),
        ("gpt2", "vocab_size", json!(0), "model.vocabulary: found 0"),
        (
            "gpt2",
            "n_head",
            json!(5),
            "model.hidden: found 32 with heads = 5",
        ),
        (
            "gpt2",
            "tie_word_embeddings",
            json!(false),
            "found no tensor lm_head.weight",
        ),
        (
            "gpt2",
            "scale_attn_by_inverse_layer_idx",
            json!(true),
            "found scale_attn_by_inverse_layer_idx = true",
        ),
        (
            "gpt2",
            "attn_pdrop",
            json!(0.5),
            "found attn_pdrop = 0.5, needs that of resid_pdrop = 0",
        ),
        (
            "gpt2",
            "new_setting",
            json!(3),
            "found new_setting = 3, a setting that this program does not know",
        ),
        (
            "llama",
            "hidden_act",
            json!("relu2"),
            "found hidden_act = \"relu2\", needs \"gelu_new\"",
        ),
        (
            "llama",
            "attention_bias",
            json!(true),
            "found attention_bias = true, needs false",
        ),
        (
            "llama",
            "mlp_bias",
            json!(true),
            "found mlp_bias = true, needs false",
        ),
        (
            "llama",
            "rms_norm_eps",
            json!("small"),
            "found rms_norm_eps = \"small\", needs a number",
        ),
        (
            "llama",
            "num_key_value_heads",
            json!(3),
            "model.heads: found 4 with kv_heads = 3",
        ),
        (
            "llama3",
            "rope_parameters",
            json!({"rope_type": "yarn", "factor": 4.0}),
            "rope_type = \"yarn\", needs default, linear or llama3",
        ),
        (
            "llama3",
            "rope_parameters",
            json!({"rope_type": "llama3", "factor": 4.0}),
            "no numbers factor, low_freq_factor",
        ),
        (
            "llama3",
            "rope_parameters",
            json!({"rope_theta": 1e4, "partial_rotary_factor": 0.5}),
            "partial_rotary_factor = 0.5",
        ),
        (
            "qwen2",
            "layer_types",
            json!(["full_attention", "linear_attention"]),
            "found \"linear_attention\" among layer_types",
        ),
        (
            "qwen2",
            "layer_types",
            json!(["full_attention", "sliding_attention"]),
            "found \"sliding_attention\" among layer_types, needs \"full_attention\"",
        ),
        (
            "mistral",
            "layer_types",
            json!(["full_attention", "sliding_attention"]),
            "found windows in 1 of 2 blocks, needs them in all or in none",
        ),
        (
            "mistral",
            "sliding_window",
            json!(0),
            "found sliding_window = 0, needs null, or at least 1",
        ),
        (
            "llama",
            "use_sliding_window",
            json!(true),
            "found use_sliding_window = true, needs false",
        ),
        (
            "gemma3",
            "layer_types",
            json!(["sliding_attention", "full_attention", "linear_attention"]),
            "found \"linear_attention\" among layer_types",
        ),
        (
            "qwen3",
            "attention_bias",
            json!(true),
            "found attention_bias = true, needs false",
        ),
        (
            "qwen3",
            "head_dim",
            Value::Null,
            "has shape [16, 16], its settings need [256, 16]",
        ),
        (
            "qwen3",
            "model_type",
            json!("llama"),
            "found the tensor model.layers.0.self_attn.k_norm.weight, which the model lacks",
        ),
        (
            "gemma",
            "use_bidirectional_attention",
            json!(true),
            "found use_bidirectional_attention = true, needs false",
        ),
        (
            "gemma",
            "hidden_activation",
            json!("gelu"),
            "found hidden_activation = \"gelu\", needs \"gelu_pytorch_tanh\"",
        ),
        (
            "gemma",
            "final_logit_softcapping",
            json!(30.0),
            "found final_logit_softcapping = 30.0, a setting that this program does not know",
        ),
        (
            "gemma2",
            "final_logit_softcapping",
            json!(-1.0),
            "found final_logit_softcapping = -1, needs null, or more than 0",
        ),
        (
            "gemma2",
            "rope_parameters",
            json!({"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}),
            "found stretched rotary positions of sliding_attention, needs rope_type = \"default\"",
        ),
        (
            "gemma3",
            "model_type",
            json!("gemma3"),
            "found model_type = \"gemma3\", needs one of gpt2",
        ),
        (
            "gemma3",
            "attn_logit_softcapping",
            json!(50.0),
            "found attn_logit_softcapping = 50.0, needs null",
        ),
        (
            "gemma3",
            "layer_types",
            json!(["sliding_attention", "full_attention", "full_attention"]),
            "found layer_types that do not repeat, needs 1 of \"sliding_attention\" in front of each \"full_attention\"",
        ),
        (
            "gemma3",
            "rope_parameters",
            json!({"sliding_attention": {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}}),
            "found stretched rotary positions of sliding_attention, needs rope_type = \"default\"",
        ),
        (
            "gemma3",
            "query_pre_attn_scalar",
            json!("head"),
            "found query_pre_attn_scalar = \"head\", needs a whole number",
        ),
        (
            "gemma3",
            "hidden_activation",
            json!("relu"),
            "found hidden_activation = \"relu\", needs",
        ),
        (
            "gpt_neox",
            "attention_bias",
            json!(false),
            "found attention_bias = false, needs true",
        ),
        (
            "gpt_neox",
            "attention_dropout",
            json!(0.1),
            "found attention_dropout = 0.1, needs that of hidden_dropout = 0",
        ),
        (
            "gpt_neox",
            "rope_parameters",
            json!({"rope_theta": 1e4, "partial_rotary_factor": 0.1}),
            "found a share of 0.1 of heads of 8 elements that turn, needs two elements at least",
        ),
        (
            "gpt_neox",
            "rope_parameters",
            json!({"rope_theta": 1e4, "partial_rotary_factor": 0.375}),
            "model.rotary_size: found 3",
        ),
    ];
    for (name, key, value, sentence) in cases {
        let folder = changed(name, |keys| drop(keys.insert(key.into(), value.clone())));
        let error = open(folder.path()).unwrap_err();
        let said = error.to_string();
        assert!(said.contains(sentence), "{key} = {value}: {said}");
        assert!(error.is_usage(), "{said}");
    }
}

#[test]
fn broken_folders_are_refused_by_name() {
    let refusal = |folder: &tempfile::TempDir| open(folder.path()).unwrap_err().to_string();
    let intact = || changed("llama", |_| {});
    let folder = intact();
    fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    assert!(refusal(&folder).contains("model.safetensors does not exist"));
    fs::write(folder.path().join("config.json"), "{").unwrap();
    assert!(refusal(&folder).contains("found no JSON object"));

    let folder = intact();
    let path = folder.path().join("model.safetensors");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 4]).unwrap();
    assert!(refusal(&folder).contains("is not a complete safetensors file"));

    let index = |map: Value| {
        let folder = intact();
        fs::rename(
            folder.path().join("model.safetensors"),
            folder.path().join("part.safetensors"),
        )
        .unwrap();
        let index = json!({"weight_map": map}).to_string();
        fs::write(folder.path().join("model.safetensors.index.json"), index).unwrap();
        refusal(&folder)
    };
    let found = index(json!({"lm_head.weight": "../part.safetensors"}));
    assert!(
        found.contains("needs the name of a file in this folder"),
        "{found}"
    );
    let found = index(json!({"lm_head.weight": "gone.safetensors"}));
    assert!(found.contains("gone.safetensors does not exist"), "{found}");
    let found = index(json!({"lm_head.weight": "part.safetensors"}));
    assert!(
        found.contains("it lacks model.embed_tokens.weight, which part.safetensors holds"),
        "{found}"
    );
}

#[test]
fn a_model_that_computes_something_else_is_not_proved() {
    let cases: [(&str, &str, Value); 7] = [
        ("gpt2", "layer_norm_epsilon", json!(1e-5)),
        ("llama", "rms_norm_eps", json!(1e-5)),
        ("mistral", "rms_norm_eps", json!(1e-5)),
        ("qwen3", "rms_norm_eps", json!(1e-5)),
        ("gemma", "rms_norm_eps", json!(1e-5)),
        ("gemma3", "rms_norm_eps", json!(1e-5)),
        ("gpt_neox", "layer_norm_eps", json!(1e-5)),
    ];
    for (name, key, value) in cases {
        let folder = changed(name, |keys| drop(keys.insert(key.into(), value)));
        let foreign = open(folder.path()).unwrap();
        // The model of the settings, with a value that differs a little from theirs.
        let epsilon = toml::Value::Float(1.001e-5);
        let model = families::families()
            .edited(Some(&foreign.model), [("norm_epsilon", epsilon)])
            .unwrap();
        let model = Arc::new(model);
        let report = testkit::try_ranks(1, move |world, device| {
            prove((&world, &device), &model, &foreign, &foreign)
        });
        let report = report.unwrap_err();
        assert!(
            report.contains("not proved: segment 1 (attention) differs by"),
            "{report}"
        );
        assert!(report.contains("its tensors are"), "{report}");
    }
}

// Older configurations state rotary positions of GPT-NeoX and Gemma 3 under names of their own, the kinds of Gemma 3's blocks as the
// distance between two of one, and Gemma's function by another's name.
#[test]
fn older_settings_are_the_same_model() {
    let neox = changed("gpt_neox", |keys| {
        keys.remove("rope_parameters");
        keys.insert("rotary_pct".into(), json!(0.5));
        keys.insert("rotary_emb_base".into(), json!(10_000));
    });
    let gemma = changed("gemma", |keys| {
        keys.insert("hidden_act".into(), json!("gelu"));
        keys.insert("hidden_activation".into(), Value::Null);
    });
    let gemma3 = changed("gemma3", |keys| {
        keys.remove("rope_parameters");
        keys.remove("layer_types");
        keys.insert("sliding_window_pattern".into(), json!(2));
        keys.insert("rope_theta".into(), json!(10_000));
        keys.insert("rope_local_base_freq".into(), json!(100));
        let stretched = json!({"rope_type": "linear", "factor": 8.0});
        keys.insert("rope_scaling".into(), stretched);
    });
    let gemma2 = changed("gemma2", |keys| {
        keys.remove("rope_parameters");
        keys.remove("layer_types");
        keys.insert("rope_theta".into(), json!(10_000));
    });
    let cases = [
        ("gpt_neox", neox),
        ("gemma", gemma),
        ("gemma2", gemma2),
        ("gemma3", gemma3),
    ];
    for (name, folder) in cases {
        let [old, new] = [folder.path(), &fixture(name)].map(|path| open(path).unwrap());
        assert_eq!(old.model.table().unwrap(), new.model.table().unwrap());
        let proof = proved(&old).unwrap();
        assert!(proof.difference < 1e-12, "{name}: {proof:?}");
    }
}

// What a kind of model cannot state is refused when it is written.
#[test]
fn keys_that_no_setting_states_are_refused() {
    let edits = [
        ("gpt2", "qk_norm", toml::Value::Boolean(true)),
        ("qwen2", "qk_norm", toml::Value::Boolean(true)),
        ("llama", "rotary_size", toml::Value::Integer(4)),
        ("llama", "parallel_residual", toml::Value::Boolean(true)),
        ("gemma", "qkv_bias", toml::Value::Boolean(true)),
        ("gemma", "local_blocks", toml::Value::Integer(1)),
        ("gemma", "sliding_window", toml::Value::Integer(9)),
        ("gemma", "logit_cap", toml::Value::Float(30.0)),
        // Its local blocks have the base of the others.
        ("gemma2", "local_rope_base", toml::Value::Float(100.0)),
        ("gemma3", "score_cap", toml::Value::Float(50.0)),
        // Only its local blocks can have windows.
        ("gemma3", "local_blocks", toml::Value::Integer(0)),
        ("qwen3", "score_size", toml::Value::Integer(12)),
        ("qwen3", "post_norms", toml::Value::Boolean(true)),
        ("gpt_neox", "kv_heads", toml::Value::Integer(2)),
    ];
    for (name, key, value) in edits {
        let families = families::families();
        let model = open(&fixture(name)).unwrap().model;
        let model = families.edited(Some(&model), [(key, value)]).unwrap();
        let temporary = tempfile::tempdir().unwrap();
        let (dir, out) = (temporary.path().join("run"), temporary.path().join("out"));
        let results = testkit::try_ranks(1, move |world, device| {
            let families = families::families();
            let mut config = Config::new(model.clone());
            config.training.batch = 1;
            config.training.micro_batches = 1;
            config.parallel.grid = grid::Degrees::default();
            let trainer = config.trainer(&config.context(&world, &device)?)?;
            let reader = Reader::open(trainer.save(&dir)?)?;
            let run = (&config, &Tokenizer::ids(67));
            export(
                (&world, &device),
                &reader,
                run,
                &families,
                (&out, PLAIN, true),
            )
            .map(drop)
        });
        let report = results.unwrap_err();
        assert!(report.contains(&format!("model.{key}")), "{key}: {report}");
        assert!(!temporary.path().join("out").exists());
    }
}

#[test]
fn a_run_begins_with_the_weights_of_a_folder_on_any_grid() {
    let losses = |ranks_: usize, grid: &str| {
        let foreign = open(&fixture("mistral")).unwrap();
        let mut config = Config::new(foreign.model.clone());
        config.parallel.grid = grid.parse().unwrap();
        config.training.batch = 2;
        config.training.micro_batches = 1;
        let results = ranks(ranks_, move |world, device| {
            let context = config.context(&world, &device)?;
            let mut trainer = config.trainer(&context)?;
            trainer.load_weights(&foreign, &[])?;
            let tokens = |range: std::ops::Range<usize>| {
                let ids = range
                    .flat_map(|row| (0..24).map(move |place| (row * 24 + place) as u32 * 7 % 67));
                let ids: Vec<u32> = ids.collect();
                let targets = ids.iter().map(|id| (id + 1) % 67).collect();
                Ok(train::data::Batch {
                    inputs: ids,
                    targets,
                }
                .into_rows(24))
            };
            let batch = trainer.batch_of(0, tokens)?;
            Ok(trainer.step(&batch)?.loss)
        });
        results[0]
    };
    let serial = losses(1, "x=1");
    for (count, grid) in [
        (2, "x=2"),
        (2, "y=2"),
        (2, "data=2"),
        (2, "pipeline=2"),
        (2, "context=2"),
    ] {
        let found = losses(count, grid);
        assert!(
            (found - serial).abs() < 1e-5 * serial,
            "{grid}: {found}, needs {serial}"
        );
    }
}

#[test]
fn weights_of_another_model_are_refused() {
    let foreign = open(&fixture("llama")).unwrap();
    let mut config = Config::new(open(&fixture("llama3")).unwrap().model);
    config.parallel.grid = grid::Degrees::default();
    let report = testkit::try_ranks(1, move |world, device| {
        let mut trainer = config.trainer(&config.context(&world, &device)?)?;
        trainer.load_weights(&foreign, &[])
    });
    let report = report.unwrap_err();
    assert!(
        report.contains("has shape [67, 32], the model needs [67, 16]"),
        "{report}"
    );
}

// What an export says, or nothing if it succeeds.
const MEGATRON: [(&str, &str); 4] = [
    ("megatron_llama", ""),
    ("megatron_gpt", ""),
    // No kind of model there has norms of heads and biases of queries, keys and values, or heads that together are wider than itself.
    ("megatron_rope", "model.qk_norm"),
    ("megatron_newer", "model.head_size"),
];

#[test]
fn a_checkpoint_of_megatron_becomes_a_folder_of_transformers() {
    for (name, refused) in MEGATRON {
        let temporary = tempfile::tempdir().unwrap();
        let foreign = open(&fixture(name)).unwrap();
        let proof = proved(&foreign).unwrap();
        assert!(
            proof.difference < 1e-12 && proof.segments == 6,
            "{name}: {proof:?}"
        );
        // The run's folder names its newest checkpoint.
        assert!(foreign.folder().ends_with("iter_0000007"));
        let reader = imported(&foreign, &temporary.path().join("checkpoints"));
        let out = temporary.path().join("transformers");
        if !refused.is_empty() {
            let report = exported(&reader, &out, PLAIN).unwrap_err();
            assert!(report.contains(refused), "{report}");
            continue;
        }
        exported(&reader, &out, PLAIN).unwrap();
        let other = open(&out).unwrap();
        for parameter in foreign.names() {
            let shape = foreign.shape(&parameter).unwrap();
            let read = |model: &ForeignModel| {
                let whole = IndexBox::full(&shape);
                model.read(&parameter, &shape, &whole).unwrap()
            };
            assert!(read(&foreign) == read(&other), "{name}: {parameter}");
        }
    }
}

// Bytes, and others in their place.
type Patch = (&'static [u8], &'static [u8]);

// A copy of a checkpoint of Megatron, with some bytes replaced by as many others wherever they are in a file.
fn patched(name: &str, file: &str, (old, new): Patch) -> tempfile::TempDir {
    assert_eq!(old.len(), new.len());
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(fixture(name).join("iter_0000007")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        if path.file_name().is_some_and(|name| name == file) {
            let places = 0..(bytes.len() + 1).saturating_sub(old.len());
            let places: Vec<usize> = places.filter(|at| bytes[*at..].starts_with(old)).collect();
            assert!(!places.is_empty());
            for at in places {
                bytes[at..at + new.len()].copy_from_slice(new);
            }
        }
        fs::write(copy.path().join(path.file_name().unwrap()), bytes).unwrap();
    }
    copy
}

#[test]
fn what_megatron_cannot_have_written_is_refused_by_name() {
    type Case = (&'static str, &'static str, Patch, &'static str);
    let cases: [Case; 10] = [
        (
            "megatron_llama",
            "common.pt",
            (b"RMSNorm", b"BIGNorm"),
            "found position_embedding_type = rope, normalization = BIGNorm, swiglu = true, add_bias_linear = false",
        ),
        (
            "megatron_llama",
            "common.pt",
            (b"vanilla", b"learnt_"),
            "found softmax_type = \"learnt_\", needs \"vanilla\"",
        ),
        // The object of a class, which JSON does not hold, is not nothing.
        (
            "megatron_gpt",
            "common.pt",
            (b"model_type", b"qk_l2_norm"),
            "found qk_l2_norm = \"an object\", needs false",
        ),
        (
            "megatron_gpt",
            "common.pt",
            (b"kv_channels", b"kv_chanelss"),
            "found no kv_channels, needs a whole number",
        ),
        (
            "megatron_gpt",
            "common.pt",
            (b"argparse\nNamespace", b"argparse\tNamespace"),
            "data.pkl is no pickle of data",
        ),
        (
            "megatron_gpt",
            ".metadata",
            (b"__0_1.distcp", b"../1x.distcp"),
            "found the file \"../1x.distcp\", needs the name of a file in this folder",
        ),
        (
            "megatron_gpt",
            ".metadata",
            (b"__0_1.distcp", b"__9_9.distcp"),
            "__9_9.distcp does not exist",
        ),
        (
            "megatron_gpt",
            ".metadata",
            (b"linear_proj.bias", b"linear_prof.bias"),
            "found no tensor decoder.layers.0.self_attention.linear_proj.bias, which the model has",
        ),
        (
            "megatron_gpt",
            ".metadata",
            (b"TensorStorageMetadata", b"TensorStoredMetadatas"),
            "found no tensor",
        ),
        (
            "megatron_rope",
            ".metadata",
            (b"bfloat16", b"bfloat17"),
            "found elements of torch.bfloat17",
        ),
    ];
    for (name, file, bytes, needed) in cases {
        let folder = patched(name, file, bytes);
        let found = open(folder.path()).err().map(|error| error.to_string());
        let found = found.unwrap_or_default();
        assert!(found.contains(needed), "{file}: {found}, needs {needed}");
    }
    // A chunk that says otherwise than the list is found when it is read.
    let folder = patched(
        "megatron_gpt",
        "__0_0.distcp",
        (b"_rebuild_tensor_v2", b"_rebuild_tensor_v9"),
    );
    let foreign = open(folder.path()).unwrap();
    let faults = foreign.names().into_iter().filter_map(|name| {
        let shape = foreign.shape(&name)?;
        foreign.read(&name, &shape, &IndexBox::full(&shape)).err()
    });
    let faults: Vec<String> = faults.map(|fault| fault.to_string()).collect();
    assert!(
        faults.len() > 1 && faults[0].contains("found an object that is no plain tensor"),
        "{faults:?}"
    );
    // A checkpoint in the older format, by its own folder and by that of its run.
    let run = tempfile::tempdir().unwrap();
    fs::create_dir_all(run.path().join("iter_0000009/mp_rank_00")).unwrap();
    fs::write(run.path().join("latest_checkpointed_iteration.txt"), "9").unwrap();
    for path in [run.path().to_owned(), run.path().join("iter_0000009")] {
        let report = open(&path).unwrap_err().to_string();
        assert!(report.contains("iter_0000009: found mp_rank_00, a checkpoint of Megatron-LM in its format torch, needs torch_dist"), "{report}");
    }
    // And one that is cut short at once.
    let folder = patched("megatron_gpt", "__0_0.distcp", (b"", b""));
    let path = folder.path().join("__0_0.distcp");
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(60_000).unwrap();
    let report = open(folder.path()).unwrap_err().to_string();
    assert!(
        report.contains("found 60000 bytes, needs the chunk of"),
        "{report}"
    );
}
