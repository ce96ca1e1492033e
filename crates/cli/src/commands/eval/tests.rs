//! The command on a small checkpoint that it has trained, and what it refuses.

use crate::{Arguments, Registry, commands::Command, failure::Failure, help};
use clap::FromArgMatches;
use serde_json::Value;
use std::{fs, path::Path};

const CONFIG: &str = "
    [model]
    layers = 1
    hidden = 32
    heads = 4
    context = 16
    [training]
    steps = 40
    batch = 8
    micro_batches = 1
    learning_rate = 1e-2
    warmup_steps = 0
    validation_batches = 1
    reproducible = \"grid\"
";

const QUESTIONS: &str = concat!(
    r#"{"context": "the cat", "choices": ["sat", "qzx"], "answer": "sat"}"#,
    "\n\n",
    r#"{"question": "Who?", "choices": {"text": ["the cat", "é"], "label": ["A", "B"]}, "answerKey": "B"}"#,
    "\n",
    r#"{"query": "", "choices": ["the cat sat", "the cat sat on"], "gold": 1}"#,
    "\n",
);

fn registry() -> Registry {
    Registry {
        drivers: vec![cpu::driver()],
        processes: None,
        families: families::families(),
    }
}

fn parsed(line: &[&str]) -> Result<Command, String> {
    let matches = help::command().try_get_matches_from([&["fascicle"], line].concat());
    let arguments = matches.and_then(|matches| Arguments::from_arg_matches(&matches));
    arguments
        .map(|found| found.command)
        .map_err(|error| error.to_string())
}

/// A folder with a trained model in `run`, and texts and questions.
fn place() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let text = "the cat sat on the mat. ".repeat(200);
    fs::write(dir.path().join("c.toml"), CONFIG).unwrap();
    fs::write(dir.path().join("a.txt"), &text).unwrap();
    fs::write(
        dir.path().join("b.jsonl"),
        "{\"text\": \"the cat\"}\n{\"text\": \"sat on\"}\n",
    )
    .unwrap();
    fs::write(dir.path().join("q.jsonl"), QUESTIONS).unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (config, data, out) = (at("c.toml"), at("a.txt"), at("run"));
    let command = parsed(&["train", &config, "--data", &data, "--out", &out]).unwrap();
    command.run(&registry()).unwrap();
    dir
}

/// The results of `fascicle eval` in a folder, whose files are named after `@`; and the lines of its questions.
fn eval(dir: &Path, line: &[&str]) -> Result<(Value, Vec<Value>), Failure> {
    let path = |word: &&str| match word.strip_prefix('@') {
        Some(name) => dir.join(name).display().to_string(),
        None => (*word).to_owned(),
    };
    let words: Vec<String> = ["eval", "--checkpoint", "@run"]
        .iter()
        .chain(line)
        .map(path)
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Command::Eval(eval) = parsed(&words).map_err(Failure::Usage)? else {
        panic!("bug: another command")
    };
    let (found, samples) = eval.evaluated(&registry())?;
    assert!(found.table().lines().count() > 1 && found.speed().starts_with("predicted "));
    let samples = samples
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    Ok((serde_json::to_value(&found).unwrap(), samples.collect()))
}

#[test]
fn a_trained_model_is_measured_alike_on_every_grid() {
    let dir = place();
    let line = ["--text", "@a.txt", "@b.jsonl", "--tasks", "@q.jsonl"];
    let (found, samples) = eval(dir.path(), &line).unwrap();
    let [text, lines] = [&found["texts"][0], &found["texts"][1]];
    assert_eq!(
        (&text["tokens"], &text["bytes"], &text["words"]),
        (&4800.into(), &4800.into(), &1201.into())
    );
    assert_eq!(
        (&lines["documents"], &lines["tokens"], &lines["words"]),
        (&2.into(), &13.into(), &4.into())
    );
    let of = |key: &str| text[key].as_f64().unwrap();
    // It has learnt the text: far fewer than the 8 bits of a uniform model.
    assert!(of("bits_per_byte") < 4.0, "{text}");
    assert_eq!(of("token_perplexity"), of("byte_perplexity"));
    assert!((of("word_perplexity").ln() - 4800.0 / 1201.0 * of("loss")).abs() < 1e-9);
    assert_eq!(
        (&found["prefix"], &found["stride"]),
        (&10.into(), &16.into())
    );
    let task = &found["tasks"][0];
    assert_eq!(task["questions"], 3);
    assert_eq!(samples.len(), 3);
    let lines: Vec<&Value> = samples.iter().map(|sample| &sample["line"]).collect();
    assert_eq!(lines, [1, 3, 4]);
    assert_eq!(samples[0]["chosen"], 0, "{samples:?}");
    // The longer of two texts, of which one begins the other, is never the likelier one.
    assert_eq!(
        (&samples[2]["chosen"], &samples[2]["answer"]),
        (&0.into(), &1.into())
    );
    for grid in ["x=2", "pipeline=2", "data=2", "x=2,z=2"] {
        let (other, same) = eval(
            dir.path(),
            &[&line[..], &["--grid", grid, "--batch", "3"]].concat(),
        )
        .unwrap();
        assert_eq!(same, samples, "{grid}");
        assert_eq!(
            (&other["texts"], &other["tasks"]),
            (&found["texts"], &found["tasks"]),
            "{grid}"
        );
    }
    // Tokens then have other contexts, and are as many.
    let (closer, _) = eval(dir.path(), &["--text", "@a.txt", "--stride", "4"]).unwrap();
    assert_eq!(closer["texts"][0]["tokens"], 4800);
    assert_ne!(closer["texts"][0]["loss"], text["loss"]);
    refusals(dir.path());
}

fn refusals(dir: &Path) {
    let write = |name: &str, text: &[u8]| fs::write(dir.join(name), text).unwrap();
    write("empty.txt", b"");
    write("latin.txt", b"caf\xe9");
    write(
        "chat.jsonl",
        b"{\"prompt\": \"a\", \"completion\": \"b\"}\n",
    );
    write("bad.jsonl", b"\n{\"context\": \n");
    write(
        "none.jsonl",
        b"{\"context\": \"a\", \"choices\": [], \"answer\": 0}\n",
    );
    write(
        "far.jsonl",
        b"{\"context\": \"a\", \"choices\": [\"b\", \"c\"], \"answer\": 2}\n",
    );
    write(
        "long.jsonl",
        b"{\"context\": \"a\", \"choices\": [\"b\", \"a choice of more than 16\"], \"answer\": 0}\n",
    );
    let cases: [(&[&str], &str); 16] = [
        (&["--text", "@gone.txt"], "gone.txt does not exist"),
        (&["--text", "@empty.txt"], "empty.txt is empty"),
        (
            &["--text", "@latin.txt"],
            "latin.txt is not UTF-8 at byte 3",
        ),
        (&["--text", "@run"], "run: found a folder, needs a file"),
        (
            &["--text", "@chat.jsonl"],
            "chat.jsonl: sample 1 has no `text`, needs one",
        ),
        (
            &["--text", "/dev/null"],
            "found a device, needs a regular file",
        ),
        (&["--tasks", "@gone.jsonl"], "gone.jsonl does not exist"),
        (&["--tasks", "@empty.txt"], "empty.txt is empty"),
        (
            &["--tasks", "@bad.jsonl"],
            "bad.jsonl, line 2: EOF while parsing",
        ),
        (
            &["--tasks", "@none.jsonl"],
            "line 1: found 0 choices, needs 2 to 256",
        ),
        (
            &["--tasks", "@far.jsonl"],
            "line 1: `answer` is 2, needs an index from 0 to 1",
        ),
        (
            &["--tasks", "@long.jsonl"],
            "line 1: choice 1: tokens to predict: found 25, needs at most 16, the context of the model",
        ),
        (
            &["--text", "@a.txt", "--stride", "17"],
            "--stride: found 17, needs a number from 1 to 16",
        ),
        (
            &["--text", "@a.txt", "--prefix", "256"],
            "--prefix: found token 256, needs one below the vocabulary of 256",
        ),
        (
            &["--tasks", "@q.jsonl", "--samples", "@gone/s.jsonl"],
            "found no folder",
        ),
        (&["--batch", "0"], "needs a whole number from 1 to 4096"),
    ];
    for (line, needed) in cases {
        let Err(Failure::Usage(sentence)) = eval(dir, line) else {
            panic!("{line:?} is accepted")
        };
        assert!(sentence.contains(needed), "{line:?}: {sentence}");
    }
    let none = eval(dir, &[]).unwrap_err();
    assert!(
        none.sentence()
            .unwrap()
            .contains("<--text <FILE>...|--tasks <FILE>...>"),
        "{none:?}"
    );
}
