//! Configurations that name a model: what is read, written and rejected.

use fascicle_families::{GptConfig, GptFamily, families};
use grid::factorisations;
use train::{Config, config::OverlapNames};

fn parse(text: &str) -> train::Result<Config> {
    Config::parse(text, &families())
}

#[test]
fn the_name_of_an_earlier_release_is_read_and_not_offered() {
    use parallel::data::Sharding;
    for (value, expected) in [("true", Sharding::Optimiser), ("false", Sharding::None)] {
        let config = parse(&format!("[parallel]\nsharded_optimiser = {value}\n")).unwrap();
        assert_eq!(config.parallel.sharding, expected);
        assert!(
            config
                .to_toml()
                .unwrap()
                .contains(&format!("sharding = \"{expected}\""))
        );
    }
    let message = parse("[parallel]\nzzzzzzzz = 1\n").unwrap_err().to_string();
    assert!(!message.contains("sharded_optimiser"), "{message}");
}

#[test]
fn what_is_valid_and_odd_is_told() {
    let doubts = |text: &str| parse(text).unwrap().doubts();
    for fine in [
        "",
        "[training]\nlearning_rate = 1e-5\nrate_schedule = \"constant\"\n",
        "[training]\nsteps = 51\n",
        "[tuning]\nfrozen = [\"blocks.*\"]\n",
    ] {
        assert_eq!(doubts(fine), [""; 0], "{fine}");
    }
    for (odd, told) in [
        (
            "[training]\nlearning_rate = 1e-5\n",
            "training.lowest_rate is 2e-4, above training.learning_rate, 1e-5: the rate never falls",
        ),
        (
            "[training]\nsteps = 50\n",
            "training.warmup_steps is 50, training.steps 50: the rate never reaches training.learning_rate",
        ),
        (
            "[tuning]\nfrozen = [\"*\"]\n",
            "tuning.frozen is `*`: nothing is trained",
        ),
    ] {
        assert_eq!(doubts(odd), [told], "{odd}");
    }
}

#[test]
fn a_configuration_survives_writing_and_reading() {
    let mut written = parse("").unwrap();
    written.parallel.overlap = OverlapNames(parallel::Overlap::NONE);
    let llama = |model: &mut GptConfig| model.family = GptFamily::Llama;
    written.model.edit(llama).unwrap();
    assert_eq!(parse(&written.to_toml().unwrap()).unwrap(), written);
    let json = serde_json::to_value(&written).unwrap();
    assert_eq!(Config::from_json(json, &families()).unwrap(), written);
}

#[test]
fn the_default_model_fits_every_grid_of_up_to_8_ranks() {
    for degrees in [1, 2, 4, 8].into_iter().flat_map(factorisations) {
        let mut config = parse("[model]\nvocabulary = 256\n").unwrap();
        config.parallel.grid = degrees;
        config
            .check()
            .unwrap_or_else(|error| panic!("{degrees}: {error}"));
    }
}

#[test]
fn the_counted_work_is_that_of_the_sizes() {
    for (family, keys) in [
        ("gpt2", ""),
        ("llama", ""),
        ("llama", "qk_norm = true\nqkv_bias = true\nhead_size = 6"),
        ("gemma", ""),
        (
            "gemma",
            "qk_norm = true\npost_norms = true\nlocal_blocks = 1\nsliding_window = 40\nscore_size = 12",
        ),
        ("llama", "sliding_window = 1000"),
        ("gpt_neox", "parallel_residual = true\nrotary_size = 4"),
    ] {
        let text =
            format!("[model]\nfamily = \"{family}\"\nvocabulary = 256\nkv_heads = 4\n{keys}\n");
        let config = parse(&text).unwrap();
        let (work, model) = (
            config.work().unwrap(),
            config.model.get::<GptConfig>().unwrap(),
        );
        assert_eq!(work.num_parameters(), model.num_parameters(), "{family}");
        assert_eq!(work.segments.len(), model.num_segments());
        let counted = model.flop_per_token() * model.context as f64;
        assert!(
            (work.flop_per_row() / counted - 1.0).abs() < 1e-12,
            "{family}"
        );
    }
}

#[test]
fn choices_about_the_device_are_recorded_and_checked() {
    let text = "[device]\ncollectives = \"staged\"\nepilogues = \"separate\"\nmatmul_choices = \"runs/m.txt\"\n";
    let config = parse(text).unwrap();
    let settings = config.device_settings();
    assert_eq!(settings.collectives.name(), "staged");
    assert_eq!(settings.epilogues.name(), "separate");
    assert_eq!(settings.matmul_choices, Some("runs/m.txt".into()));
    assert_eq!(settings.sums.name(), "device");
    let on_any_grid = format!("[training]\nreproducible = \"grid\"\n{text}");
    let settings = parse(&on_any_grid).unwrap().device_settings();
    assert_eq!(settings.sums.name(), "canonical");
    let written = config.to_toml().unwrap();
    let lines: Vec<&str> = written.lines().collect();
    for line in text.lines() {
        assert!(lines.contains(&line), "{line} in:\n{written}");
    }
    let json = serde_json::to_value(&config).unwrap();
    assert_eq!(Config::from_json(json, &families()).unwrap(), config);

    let nameless = parse("[device]\nmatmul_choices = \"\"\n[model]\nvocabulary = 256\n").unwrap();
    assert_eq!(
        nameless.check().unwrap_err().to_string(),
        "device.matmul_choices: found ``, needs the name of a file"
    );
}

#[test]
fn a_program_can_match_on_what_is_wrong() {
    use train::{Error, Meant, config::ConfigLocation};
    let line = |line| ConfigLocation {
        file: None,
        line: Some(line),
    };
    match parse("[training]\nstpes = 1\n").unwrap_err() {
        Error::UnknownKey {
            location,
            table,
            found,
            meant,
            known,
        } => {
            assert_eq!(
                (location, &table[..], &found[..]),
                (line(2), "training", "stpes")
            );
            assert_eq!(meant, Some(Meant::Near("steps".into())));
            assert!(known.contains(&"learning_rate".into()));
        }
        other => panic!("{other}"),
    }
    let moved = parse("[model]\nrecompute = true\n").unwrap_err();
    assert!(matches!(
        moved,
        Error::UnknownKey {
            meant: Some(Meant::Moved("training.recompute")),
            ..
        }
    ));
    let family = parse("[model]\nfamily = \"mamba\"\n").unwrap_err();
    assert!(
        matches!(family, Error::UnknownFamily { found, known } if found == "mamba" && known.len() == 4)
    );
    let word = parse("[training]\nsteps = \"many\"\n").unwrap_err();
    assert!(
        matches!(word, Error::Syntax { location, key, .. } if location == line(2) && key == "training.steps")
    );
    let mut config = parse("[model]\nvocabulary = 256\n").unwrap();
    config.training.beta1 = 1.5;
    let refused = config.check().unwrap_err();
    assert!(
        matches!(&refused, Error::Setting { key, found, .. } if key == "training.beta1" && found == "1.5"),
        "{refused}"
    );
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.toml");
    std::fs::write(&file, "seed = 1\nsede = 2\n").unwrap();
    let error = Config::read(&file, &families()).unwrap_err();
    let text = format!("{}: line 2: found `sede`", file.display());
    assert!(error.to_string().starts_with(&text), "{error}");
    assert!(error.is_usage());
}

#[test]
fn a_written_configuration_says_what_each_key_means() {
    let written = parse("").unwrap().to_toml().unwrap();
    // Comments are wrapped.
    let words: Vec<&str> = written
        .split_whitespace()
        .filter(|word| *word != "#")
        .collect();
    let words = words.join(" ");
    let families = families();
    let (_, model) = families.keys().swap_remove(0);
    let tables = Config::keys().into_iter().chain([("model", model)]);
    let mut seen = 0;
    for key in tables.flat_map(|(_, keys)| keys) {
        let meaning: Vec<&str> = key.meaning.split_whitespace().collect();
        let expected = format!("{} Values: ", meaning.join(" "));
        assert!(words.contains(&expected), "{expected}");
        let value = key
            .default
            .map_or(String::new(), |value| format!(" {value}"));
        assert!(
            written.contains(&format!("{} ={value}\n", key.name)),
            "{}",
            key.name
        );
        seen += 1;
    }
    assert!(seen > 50, "{seen} keys");
    assert!(written.lines().all(|line| line.chars().count() <= 100));
}

// Halves of 136 features end within a leaf of the sums' tree, and those of 128 do not.
#[test]
fn a_model_generates_where_its_sums_cannot_be_the_same_on_every_grid() {
    use parallel::Reproducible;
    let settled = |mlp_hidden: usize, grid: &str, reproducible: &str| {
        let mut config = parse(&format!(
            "[model]\nlayers = 2\nhidden = 64\nheads = 2\nmlp_hidden = {mlp_hidden}\nvocabulary = 64\ncontext = 8\n\
             [training]\nbatch = 1\nmicro_batches = 1\nreproducible = \"{reproducible}\"\n[parallel]\ngrid = \"{grid}\"\n"
        ))
        .unwrap();
        train::run::settle_generation(&mut config);
        config.training.reproducible.or_run()
    };
    let [held, not] = [Reproducible::Grid, Reproducible::Run];
    for (mlp_hidden, grid, expected) in [
        (136, "x=1", held),
        (136, "x=2", not),
        (136, "pipeline=2", held),
        (128, "x=2", held),
        // A batch of one row is of the run alone.
        (128, "z=2,data=2,pipeline=2", held),
        (136, "x=2,z=2,pipeline=2", not),
    ] {
        let found = settled(mlp_hidden, grid, "grid");
        assert_eq!(found, expected, "{mlp_hidden} features on {grid}");
    }
    assert_eq!(settled(128, "x=2", "run"), not);
}
