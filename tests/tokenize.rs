//! `fascicle data tokenize` as a user runs it: what it prints, what it refuses, and what is left when it is stopped or killed.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

fn fascicle(dir: &Path, words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fascicle"));
    command.args(words.split_whitespace()).current_dir(dir);
    command
}

fn output(dir: &Path, words: &str) -> (i32, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = fascicle(dir, words).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

fn place(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

#[test]
fn texts_become_a_folder_that_trains_in_a_mixture() {
    let poem = "to be or not to be, that is the question\n".repeat(200);
    let lines =
        "{\"text\": \"a quick brown fox\"}\n{\"body\": 1, \"text\": \"jumps over a lazy dog\"}\n"
            .repeat(2);
    let dir = place(&[("poem/1.txt", &poem), ("lines.jsonl", &lines)]);
    let (status, stdout, stderr) = output(
        dir.path(),
        "data tokenize poem lines.jsonl --out tokens --shard-tokens 5000 --threads 2",
    );
    assert_eq!((status, stdout.as_str()), (0, "tokens\n"), "{stderr}");
    for needed in [
        "8,241 tokens (u16) of 3 documents, 8.0 KiB of text, in 2 shards; tokenizer bytes; ",
        "left out: 2 duplicates\n",
        "hashes to find duplicates took 136 B of memory\n",
        "read back: checksums of all shards, and 2 samples, of which all decode to their text\n",
    ] {
        assert!(stderr.contains(needed), "{stderr}, needs {needed}");
    }
    let (status, stdout, _) = output(dir.path(), "data verify tokens");
    let whole =
        "tokens is whole: 8,241 tokens of 3 documents in 2 shards, tokenizer bytes of 256 tokens\n";
    assert_eq!((status, stdout.as_str()), (0, whole));

    let config = "[data]\nmixture = [{ path = \"tokens\", weight = 3 }, { path = \"poem\", weight = 1.0 }]\n";
    fs::write(dir.path().join("run.toml"), config).unwrap();
    let small = "--steps 2 --batch 4 --micro-batches 1 --grid x=1 --set model.hidden=16 --set model.layers=1 --set model.heads=2 \
        --set model.context=16 --set training.validation_batches=1";
    let (status, _, stderr) = output(dir.path(), &format!("train run.toml {small} --out run"));
    assert_eq!(status, 0, "{stderr}");
    for needed in [
        "data       mixture of 2 sources: 14,797 tokens to train on, 1,644 to validate, tokenizer bytes\n",
        "75 % ",
        "/tokens: 7,417 tokens, 0.013 epochs\n",
        "/poem: 7,380 tokens, 0.00434 epochs\n",
    ] {
        assert!(stderr.contains(needed), "{stderr}, needs {needed}");
    }
    // A resumed run reads the mixture from its checkpoint.
    let (status, _, stderr) = output(dir.path(), "train --resume run --steps 4");
    assert!(
        status == 0 && stderr.contains("mixture of 2 sources"),
        "{stderr}"
    );
    let (status, _, stderr) = output(dir.path(), "train --resume run --steps 6 --data tokens");
    assert!(
        status == 2 && stderr.contains("mixture of 0.75 of 7417 tokens"),
        "{status} {stderr}"
    );
}

#[test]
fn wrong_use_is_refused_in_a_sentence() {
    let dir = place(&[
        ("a.txt", "a text"),
        ("out/x", ""),
        ("b.jsonl", "{\"body\": 1}"),
        ("c.jsonl", "{\"text\": \"a\"}"),
    ]);
    let cases = [
        (
            "data tokenize a.txt --out out",
            2,
            "--out out: exists already, needs a new name",
        ),
        (
            "data tokenize a.txt --out none/new",
            1,
            "data: none does not exist",
        ),
        (
            "data tokenize gone.txt --out new",
            1,
            "data: gone.txt does not exist",
        ),
        (
            "data tokenize b.jsonl --out new",
            1,
            "data: b.jsonl, line 1: found no `text`, needs one; --field names another key",
        ),
        (
            "data tokenize a.txt --out new --tokenizer no.json",
            1,
            "data: no.json does not exist",
        ),
        (
            "data tokenize a.txt --out new --document-end 256",
            1,
            "data: document end is 256, needs a token below 256, the vocabulary",
        ),
        (
            "data tokenize a.txt --out new --document-end x",
            2,
            "needs auto, none or the number of a token",
        ),
        (
            "data tokenize a.txt --out new --threads 0",
            2,
            "needs a whole number from 1 to 4096",
        ),
        (
            "data tokenize a.txt --out new --shard-tokens 0",
            2,
            "needs a whole number from 1 to 4294967296",
        ),
        (
            "data tokenize --out new",
            2,
            "which `fascicle data tokenize` needs",
        ),
        (
            "data verify out",
            2,
            "data verify: out is no token folder, needs one with an index",
        ),
        ("data verify none", 1, "data: none does not exist"),
        (
            "train --set data.mixture=[{path=\"a.txt\",weight=nan}]",
            2,
            "data.mixture: found with weight NaN for source 1, needs weights that are finite and above 0",
        ),
        (
            "train --set data.mixture=[{path=\"a.txt\",weight=-1}]",
            2,
            "data.mixture: found with weight -1 for source 1",
        ),
        (
            "train --set data.mixture=[{path=\"a.txt\",weight=1},{path=\"a.txt\",weight=1e-9}]",
            2,
            "needs shares of at least 1e-6",
        ),
        (
            "train --set data.mixture=[{path=\"\",weight=1}]",
            2,
            "data.mixture: ",
        ),
        (
            "train --set data.mixture=[{path=\"a.txt\",weight=1}] --set data.path=a.txt",
            2,
            "data.path: found a.txt, beside data.mixture, needs one of the two",
        ),
        (
            "train --set data.mixture=[{path=\"c.jsonl\",weight=1}]",
            1,
            "samples, needs text or tokens",
        ),
        (
            "train --set data.mixture=[{path=\"a.txt\",weight=1}] --set data.tokenizer=characters",
            1,
            "tokenizer is characters without a text",
        ),
    ];
    for (words, needed_status, needed) in cases {
        let (status, stdout, stderr) = output(dir.path(), words);
        assert!(stderr.contains(needed), "{words}: {stderr}");
        assert_eq!(
            (status, stdout.as_str()),
            (needed_status, ""),
            "{words}: {stderr}"
        );
        assert!(!dir.path().join("new").exists() && !dir.path().join("new.partial").exists());
    }
}

/// Starts on a text of 30 MB, and waits until shards are being written.
fn started(dir: &Path) -> std::process::Child {
    let words = "data tokenize long.txt --out new --shard-tokens 100000 --threads 1";
    let child = fascicle(dir, words).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while !dir.join("new.partial/tokens-00002.u16").exists() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "nothing is written"
        );
        thread::sleep(Duration::from_millis(2));
    }
    child
}

fn long() -> tempfile::TempDir {
    place(&[(
        "long.txt",
        &"a line of a text that is long\n".repeat(1_000_000),
    )])
}

#[test]
fn a_killed_run_leaves_nothing_that_reads_as_complete() {
    let dir = long();
    let mut child = started(dir.path());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!dir.path().join("new").exists());
    let partial = dir.path().join("new.partial");
    assert!(partial.exists() && !partial.join("token-index.json").exists());
    let (status, _, stderr) = output(dir.path(), "data verify new.partial");
    assert!(
        status == 2 && stderr.contains("is no token folder"),
        "{stderr}"
    );
    let (status, _, stderr) = output(dir.path(), "data tokenize long.txt --out new");
    let needed = "data: new.partial: exists: another program is writing it, or was killed before its end; remove it in that case";
    assert!(status == 1 && stderr.contains(needed), "{stderr}");
    fs::remove_dir_all(partial).unwrap();
    let (status, ..) = output(dir.path(), "data tokenize long.txt --out new");
    assert_eq!(status, 0);
}

#[test]
fn a_signal_ends_it_cleanly() {
    let dir = long();
    let child = started(dir.path());
    let sent = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
    let ended = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(
        stderr,
        "stopping; nothing is kept; press Ctrl-C again to end at once\n"
    );
    assert_eq!(ended.status.code(), Some(3));
    let left: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["long.txt"]);
}
