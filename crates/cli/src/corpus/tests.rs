use super::*;
use nn::Builder;
use parallel::Model;
use std::any::Any;
use train::{Architecture, ModelConfig, architecture::Text, batches::Values};

#[test]
fn the_repository_around_is_found_and_written_down() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("crates/one/src");
    std::fs::create_dir_all(&inner).unwrap();
    std::fs::write(folder.path().join("Cargo.toml"), "").unwrap();
    let mut config = crate::testing::config(0);
    let found = source(&mut config, false, &inner).unwrap();
    assert_eq!(
        found,
        Origin::One(Source::Directory {
            path: folder.path().into(),
            extensions: vec!["rs".into()]
        })
    );
    assert_eq!(config.data.path.as_deref(), Some(folder.path()));
    assert!(matches!(
        source(&mut crate::testing::config(0), true, &inner),
        Ok(Origin::One(Source::Embedded(_)))
    ));
}

#[test]
fn without_one_the_built_in_text_trains_the_default_model() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = crate::testing::config(0);
    let found = source(&mut config, false, folder.path()).unwrap();
    let opened = open(&mut config, &found).unwrap();
    let [training, _] = opened.num_tokens.unwrap();
    assert!(training > 20_000, "{training}");
    let vocabulary = config.model.text().unwrap().vocabulary;
    assert_eq!((vocabulary, config.data.path), (256, None));
}

#[test]
fn a_vocabulary_below_the_tokenizers_is_refused() {
    let mut config = crate::testing::config(100);
    let refusal = open(
        &mut config,
        &Origin::One(Source::Embedded(vec![b'a'; 10_000])),
    );
    let sentence = "model.vocabulary: found 100, needs at least 256, the tokenizer's";
    assert_eq!(refusal.err(), Some(Failure::Usage(sentence.into())));
}

/// A model that reads text, and nothing that keeps the samples of a row apart.
#[derive(Debug)]
struct Plain(ModelConfig);

impl Architecture for Plain {
    fn family(&self) -> &str {
        "plain"
    }

    fn table(&self) -> train::Result<toml::Table> {
        self.0.table()
    }

    fn describe(&self) -> String {
        self.0.describe()
    }

    fn build(&self, builder: &Builder) -> parallel::Result<Box<dyn Model>> {
        self.0.build(builder)
    }

    fn columns(&self) -> Vec<(String, Vec<usize>, Values)> {
        self.0.columns()
    }

    fn text(&self) -> Option<Text> {
        self.0.text()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[test]
fn samples_need_a_model_that_keeps_them_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    let line = "{\"prompt\": \"a\", \"completion\": \"b\"}\n";
    std::fs::write(&path, line.repeat(20)).unwrap();
    let mut config = crate::testing::config(256);
    let source = Origin::One(Source::Lines(path.clone()));
    let opened = open(&mut config, &source).unwrap();
    let needed = "(18 samples in 1 row of 128, 28 % filled; to validate 2 samples in 1 row of 128, 3 % filled)";
    assert!(opened.name.ends_with(needed), "{}", opened.name);
    config.model = ModelConfig::new(Plain(config.model));
    let refusal = open(&mut config, &source).err().unwrap();
    assert_eq!(
        refusal.sentence().unwrap(),
        format!(
            "model.family: in plain, samples in one row see each other; {} needs a family that keeps them apart",
            path.display()
        )
    );
}
