//! Adapters and the library PEFT: out of a checkpoint, and into one beside the model that they adapt, proved.

use grid::IndexBox;
use serde_json::{Map, Value, json};
use std::{fs, path::Path};
use testkit::{fixed_batch, on, ranks};
use train::{
    Config, Error,
    checkpoint::{
        PlainFile, Reader,
        foreign::{Exported, View, export as write_tensors},
    },
    config::Precision,
    data::Tokenizer,
    foreign::{ADAPTER_CONFIG, ForeignModel, Proof, export_adapter, import, prove},
    trainer::Attached,
};

fn open(name: &str) -> ForeignModel {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR"));
    let fixture = fixture.join("tests/fixtures").join(name);
    ForeignModel::open(&fixture, &families::families(), Ok::<_, Error>).unwrap()
}

/// What the adapted model `judge` says of a model with these weights.
fn proved(weights: &ForeignModel, judge: &ForeignModel) -> Result<Proof, String> {
    let (weights, judge) = (weights.clone(), judge.clone());
    let results = testkit::try_ranks(1, move |world, device| {
        prove((&world, &device), &weights.model, &weights, &judge)
    });
    results.map(|mut results| results.swap_remove(0))
}

// A checkpoint of adapted random weights of a folder, on one rank.
fn adapted_checkpoint(
    name: &str,
    targets: &[&str],
    decomposed: bool,
    dir: &Path,
) -> (Reader, Config) {
    let foreign = open(name);
    let mut config = on(
        &Config::new(foreign.model.clone()),
        grid::Degrees::default(),
    );
    config.training.batch = 2;
    config.training.micro_batches = 1;
    config.tuning.adapter_rank = 3;
    config.tuning.adapter_decomposed = decomposed;
    config.tuning.adapter_targets = targets.iter().map(|name| (*name).to_owned()).collect();
    let (shared, to) = (config.clone(), dir.to_owned());
    ranks(1, move |world, device| {
        let context = shared.context(&world, &device)?;
        let mut trainer = shared.trainer(&context)?;
        trainer.load_weights(&foreign, &[])?;
        for step in 0..2 {
            trainer.step(&fixed_batch(&trainer, &shared, step)?)?;
        }
        let attached = Attached {
            config: serde_json::to_value(&shared).unwrap(),
            ..Attached::default()
        };
        trainer.save_with(&to, train::checkpoint::Retention::newest(1), &attached)?;
        Ok(())
    });
    (Reader::open(dir).unwrap(), config)
}

#[test]
fn adapters_leave_by_themselves() {
    let temporary = tempfile::tempdir().unwrap();
    let families = families::families();
    let targets = ["attention.query", "mlp.down"];
    let dir = temporary.path().join("run");
    let (reader, config) = adapted_checkpoint("mistral", &targets, true, &dir);
    let out = temporary.path().join("adapter");
    export_adapter(&reader, &config, &families, (&out, Precision::F32)).unwrap();
    let file = PlainFile::open(out.join("adapter_model.safetensors")).unwrap();
    assert_eq!(file.names().len(), 12);
    let name = "base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight";
    // The width of the model is 16, that of its heads 32.
    assert_eq!(file.shape(name).unwrap(), [3, 16]);
    assert_eq!(
        file.shape(&name.replace("lora_A", "lora_B")).unwrap(),
        [32, 3]
    );
    let lengths = name.replace("lora_A.weight", "lora_magnitude_vector");
    assert_eq!(file.shape(&lengths).unwrap(), [32]);
    let turned = file
        .read_f64(name, &[3, 16], &IndexBox::full(&[3, 16]))
        .unwrap();
    let ours = "weights/blocks.1.attention.query.lora_a.weight";
    let ours = reader
        .read_f64(ours, &[16, 3], &IndexBox::full(&[16, 3]))
        .unwrap();
    for (place, number) in turned.iter().enumerate() {
        assert_eq!(*number, ours[place % 16 * 3 + place / 16]);
    }
    let settings = std::fs::read(out.join("adapter_config.json")).unwrap();
    let settings: serde_json::Value = serde_json::from_slice(&settings).unwrap();
    assert_eq!(
        (&settings["r"], &settings["peft_type"]),
        (&3.into(), &"LORA".into())
    );
    assert_eq!(settings["use_dora"], true);
    assert_eq!(settings["target_modules"].as_array().unwrap().len(), 4);
}

#[test]
fn adapters_that_no_folder_can_hold_are_refused() {
    let temporary = tempfile::tempdir().unwrap();
    let families = families::families();
    let out = temporary.path().join("adapter");
    let dir = temporary.path().join("run");
    let (reader, config) = adapted_checkpoint("gpt2", &["attention.query"], false, &dir);
    let refusal = |config: &Config| {
        let refused = export_adapter(&reader, config, &families, (&out, Precision::F32));
        refused.unwrap_err().to_string()
    };
    let found = refusal(&config);
    assert!(
        found.contains("blocks.0.attention.query is a part of transformer.h.0.attn.c_attn.weight"),
        "{found}"
    );
    let mut besides = config.clone();
    besides.tuning.adapter_trained = vec!["head.weight".into()];
    assert!(refusal(&besides).contains("head.weight is trained beside the adapters"));
    let mut plain = config.clone();
    plain.tuning.adapter_rank = 0;
    assert!(refusal(&plain).contains("found a checkpoint without adapters"));
    assert!(!out.exists());
}

/// Into a checkpoint and out again, an adapter is the same, bit for bit; what the model computes with it is proved before.
#[test]
fn adapters_return_as_they_left() {
    let temporary = tempfile::tempdir().unwrap();
    let path = |name: &str| temporary.path().join(name);
    let families = families::families();
    for (name, targets, decomposed) in [
        ("mistral", &["attention.query", "mlp.down"][..], false),
        ("llama", &["attention.*", "blocks.1.mlp.up"], false),
        ("qwen2", &["mlp.*"], false),
        // With biases of queries, keys and values, which no length scales.
        ("qwen2", &["attention.*", "blocks.0.mlp.up"], true),
        ("gpt2", &["attention.output", "mlp.*"], true),
    ] {
        let path = |what: &str| path(&format!("{name}-{decomposed}-{what}"));
        let (reader, config) = adapted_checkpoint(name, targets, decomposed, &path("run"));
        let out = path("adapter");
        export_adapter(&reader, &config, &families, (&out, Precision::F32)).unwrap();
        let base = open(name);
        let adapted = base.adapted(&out).unwrap();
        let proof = proved(&adapted, &adapted).unwrap();
        assert!(proof.difference < 1e-12, "{name}: {proof:?}");
        // The adapters do something, which the proof sees.
        let mut without = adapted.clone();
        without.tuning.adapter_alpha = 1e-9;
        assert_eq!(adapted.tuning.adapter_decomposed, decomposed);
        let report = proved(&adapted, &without).unwrap_err();
        assert!(report.contains("not proved: segment"), "{name}: {report}");

        let mut back = Config::new(adapted.model.clone());
        back.tuning = adapted.tuning.clone();
        let scale = config.tuning.scale();
        assert_eq!((back.tuning.adapter_rank, back.tuning.scale()), (3, scale));
        let checkpoints = path("back");
        let imported = import(&adapted, &back, &Tokenizer::ids(67), &checkpoints).unwrap();
        let imported = Reader::open(imported).unwrap();
        let mut adapters = reader
            .names()
            .filter(|name| train::foreign::is_of_adapter(name));
        let adapters: Vec<&str> = adapters
            .by_ref()
            .filter(|name| name.starts_with("weights/"))
            .collect();
        assert!(!adapters.is_empty());
        for tensor in adapters {
            let shape = reader.info(tensor).unwrap().global_shape.clone();
            let [old, new] = [&reader, &imported].map(|reader| {
                reader
                    .read_f64(tensor, &shape, &IndexBox::full(&shape))
                    .unwrap()
            });
            assert_eq!(old, new, "{name}: {tensor}");
        }
        let again = path("again");
        export_adapter(&imported, &back, &families, (&again, Precision::F32)).unwrap();
        let [old, new] = [&out, &again]
            .map(|folder| fs::read(folder.join("adapter_model.safetensors")).unwrap());
        assert!(old == new, "{name}: another file");
    }
}

const LAYER: &str = "base_model.model.transformer.h.1.attn.c_attn";

/// A folder with an adapter of GPT-2's one layer for queries, keys and values, of which each part gets its own.
fn of_gpt2(dir: &Path, edit: impl Fn(&mut Map<String, Value>)) {
    fs::create_dir_all(dir).unwrap();
    let tensor = |name: &str, end: &str, shape: &[usize]| Exported {
        name: format!("{LAYER}.{end}"),
        shape: shape.to_vec(),
        dtype: hal::DType::F32,
        parts: vec![(name.to_owned(), View::of(name, shape))],
    };
    let mut tensors = vec![
        tensor("A", "lora_A.weight", &[2, 32]),
        tensor("B", "lora_B.weight", &[96, 2]),
    ];
    let read = |name: &str, _: &[usize], index: &IndexBox| {
        let columns = index.shape.get(1).copied().unwrap_or(1);
        let first = index.start[0] * columns + name.len();
        Ok((first..first + index.num_elements())
            .map(|at| ((at * 7919 + usize::from(name == "A") * 31) % 97) as f64 / 97.0 - 0.5)
            .collect())
    };
    // What PEFT 0.18 writes of a `LoraConfig`.
    let settings = json!({
        "alora_invocation_tokens": null, "alpha_pattern": {}, "arrow_config": null, "auto_mapping": null,
        "base_model_name_or_path": "gpt2", "bias": "none", "corda_config": null, "ensure_weight_tying": false,
        "eva_config": null, "exclude_modules": null, "fan_in_fan_out": true, "inference_mode": true,
        "init_lora_weights": true, "layer_replication": null, "layers_pattern": null, "layers_to_transform": [1],
        "loftq_config": {}, "lora_alpha": 6, "lora_bias": false, "lora_dropout": 0.1, "megatron_config": null,
        "megatron_core": "megatron.core", "modules_to_save": null, "peft_type": "LORA", "peft_version": "0.18.0",
        "qalora_group_size": 16, "r": 2, "rank_pattern": {}, "revision": null, "target_modules": ["c_attn"],
        "target_parameters": null, "task_type": "CAUSAL_LM", "trainable_token_indices": null, "use_dora": false,
        "use_qalora": false, "use_rslora": false, "velora_config": null
    });
    let Value::Object(mut settings) = settings else {
        unreachable!("an object")
    };
    edit(&mut settings);
    if settings["use_dora"] == true {
        tensors.push(tensor("lengths", "lora_magnitude_vector", &[96]));
    }
    write_tensors(dir, "adapter_model", &tensors, u64::MAX, &read).unwrap();
    fs::write(
        dir.join(ADAPTER_CONFIG),
        Value::Object(settings).to_string(),
    )
    .unwrap();
}

#[test]
fn an_adapter_of_a_fused_layer_becomes_one_of_each_part() {
    let temporary = tempfile::tempdir().unwrap();
    of_gpt2(temporary.path(), |_| {});
    let base = open("gpt2");
    let adapted = base.adapted(temporary.path()).unwrap();
    assert_eq!(
        adapted.tuning.adapter_targets,
        ["key", "query", "value"].map(|part| format!("blocks.1.attention.{part}"))
    );
    let proof = proved(&adapted, &adapted).unwrap();
    assert!(proof.difference < 1e-12, "{proof:?}");
    // A scale that is not the folder's.
    let mut other = adapted.clone();
    other.tuning.adapter_alpha = 6.0001;
    let report = proved(&adapted, &other).unwrap_err();
    assert!(
        report.contains("not proved: segment 3 (attention)"),
        "{report}"
    );
}

#[test]
fn lengths_of_a_fused_layer_become_those_of_each_part() {
    let temporary = tempfile::tempdir().unwrap();
    of_gpt2(temporary.path(), |settings| {
        drop(settings.insert("use_dora".into(), json!(true)))
    });
    let adapted = open("gpt2").adapted(temporary.path()).unwrap();
    assert!(adapted.tuning.adapter_decomposed);
    let proof = proved(&adapted, &adapted).unwrap();
    assert!(proof.difference < 1e-12, "{proof:?}");
    // The lengths do something, which the proof sees.
    let plain = tempfile::tempdir().unwrap();
    of_gpt2(plain.path(), |_| {});
    let plain = open("gpt2").adapted(plain.path()).unwrap();
    let report = proved(&adapted, &plain).unwrap_err();
    assert!(report.contains("lora_magnitude"), "{report}");
}

#[test]
fn adapters_that_the_model_cannot_follow_are_refused_by_name() {
    let base = open("gpt2");
    let cases = [
        (
            "peft_type",
            json!("IA3"),
            "found peft_type = \"IA3\", needs \"LORA\"",
        ),
        (
            "use_dora",
            json!("yes"),
            "found use_dora = \"yes\", needs true or false",
        ),
        ("bias", json!("all"), "found bias = \"all\", needs \"none\""),
        (
            "modules_to_save",
            json!(["lm_head"]),
            "found modules_to_save = [\"lm_head\"], needs none",
        ),
        (
            "rank_pattern",
            json!({"c_attn": 4}),
            "found rank_pattern = {\"c_attn\":4}, needs none",
        ),
        (
            "alpha_pattern",
            json!({"c_attn": 4}),
            "found alpha_pattern = {\"c_attn\":4}, needs none",
        ),
        (
            "target_parameters",
            json!(["w"]),
            "found target_parameters = [\"w\"], needs none",
        ),
        (
            "r",
            json!(3),
            "base_model.model.transformer.h.1.attn.c_attn.lora_A.weight has shape [2, 32], its settings need [3, 32]",
        ),
        ("r", json!(0), "found r = 0, needs at least 1"),
        ("r", json!("two"), "found r = \"two\", needs a whole number"),
        (
            "lora_alpha",
            json!(-1),
            "tuning.adapter_alpha: found -1, needs a number above 0",
        ),
        (
            "new_setting",
            json!(3),
            "found new_setting = 3, a setting that this program does not know",
        ),
    ];
    for (key, value, sentence) in cases {
        let folder = tempfile::tempdir().unwrap();
        of_gpt2(folder.path(), |settings| {
            drop(settings.insert(key.into(), value.clone()))
        });
        let error = base.adapted(folder.path()).unwrap_err().to_string();
        let path = folder.path().join(ADAPTER_CONFIG);
        assert_eq!(error, format!("{}: {sentence}", path.display()));
    }
    // Settings without their tensor, and a tensor without its setting.
    for (stored, read, sentence) in [
        (
            false,
            true,
            format!("found no tensor {LAYER}.lora_magnitude_vector"),
        ),
        (
            true,
            false,
            format!(
                "found the tensor {LAYER}.lora_magnitude_vector, which adapts no layer of the model"
            ),
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        of_gpt2(folder.path(), |settings| {
            drop(settings.insert("use_dora".into(), json!(stored)))
        });
        let path = folder.path().join(ADAPTER_CONFIG);
        let text = fs::read_to_string(&path).unwrap();
        let [from, to] = [stored, read].map(|flag| format!("\"use_dora\":{flag}"));
        fs::write(&path, text.replace(&from, &to)).unwrap();
        let error = base.adapted(folder.path()).unwrap_err().to_string();
        assert_eq!(error, format!("{}: {sentence}", path.display()));
    }
    // An adapter of another model, and one without tensors.
    let folder = tempfile::tempdir().unwrap();
    of_gpt2(folder.path(), |_| {});
    let error = open("llama")
        .adapted(folder.path())
        .unwrap_err()
        .to_string();
    assert!(
        error.ends_with("found the tensor base_model.model.transformer.h.1.attn.c_attn.lora_A.weight, which adapts no layer of the model"),
        "{error}"
    );
    fs::remove_file(folder.path().join("adapter_model.safetensors")).unwrap();
    let error = base.adapted(folder.path()).unwrap_err().to_string();
    assert!(
        error.contains("adapter_model.safetensors does not exist"),
        "{error}"
    );
}
