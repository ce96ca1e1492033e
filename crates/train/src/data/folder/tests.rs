use super::*;
use crate::data::{Corpus, Settings, Source, TokenizerChoice};
use crate::data::{ReadOptions, RunData};
use serde_json::{Value, json};
use std::fs;

const SHARD: u64 = 40;

/// A folder of the numbers 0, 1, 2 ... below 250, over and over.
fn folder(parent: &Path, num_tokens: u32) -> PathBuf {
    let path = parent.join("tokens");
    let mut writer = FolderWriter::create(&path, &Tokenizer::bytes(), None, SHARD).unwrap();
    let tokens: Vec<u32> = (0..num_tokens).map(|index| index % 250).collect();
    tokens.chunks(7).for_each(|some| writer.push(some).unwrap());
    writer.end_document();
    let finished = writer.finish().unwrap();
    finished.verify(|_| Ok(())).unwrap();
    finished.publish().unwrap();
    path
}

fn sentence(path: &Path) -> String {
    match Source::detect(path, &[], None).unwrap().read() {
        Ok(_) => "it is read".into(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn tokens_are_those_written_wherever_shards_meet() {
    let parent = tempfile::tempdir().unwrap();
    let opened = TokenFolder::open(&folder(parent.path(), 333)).unwrap();
    let shards: Vec<u64> = opened
        .index()
        .shards
        .iter()
        .map(|shard| shard.tokens)
        .collect();
    assert_eq!(shards, [40, 40, 40, 40, 40, 40, 40, 40, 13]);
    assert_eq!((opened.index().documents, opened.index().tokens), (1, 333));
    let tokens = opened.into_tokens();
    for (start, end) in [(0, 333), (39, 41), (40, 80), (79, 201), (333, 333), (5, 5)] {
        let mut out = Vec::new();
        tokens.extend_into(start..end, &mut out).unwrap();
        let needed: Vec<u32> = (start..end).map(|index| index as u32 % 250).collect();
        assert_eq!(out, needed);
    }
    let others = fs::read_dir(parent.path()).unwrap().count();
    assert_eq!(others, 1, "nothing is left beside it");
}

#[test]
fn shards_are_files_of_tokens() {
    let parent = tempfile::tempdir().unwrap();
    let path = folder(parent.path(), 333);
    let file = Source::detect(&path.join("tokens-00001.u16"), &[], None).unwrap();
    let corpus = Corpus::new(file.read().unwrap(), &Tokenizer::bytes()).unwrap();
    let mut out = Vec::new();
    corpus.extend_into(0..3, &mut out).unwrap();
    assert_eq!((corpus.len(), out), (40, vec![40, 41, 42]));
}

#[test]
fn a_folder_has_the_fingerprint_of_its_tokens_and_its_own_tokenizer() {
    let parent = tempfile::tempdir().unwrap();
    let path = folder(parent.path(), 900);
    let settings = Settings {
        context: 8,
        ..Settings::default()
    };
    let data = |path: &Path, choice: TokenizerChoice| {
        let source = Source::detect(path, &[], None).unwrap();
        let options = ReadOptions {
            tokenizer: choice,
            ..ReadOptions::default()
        };
        RunData::new(&source, None, &options, &settings)
    };
    let whole: Vec<u8> = (0..900u32)
        .flat_map(|index| ((index % 250) as u16).to_le_bytes())
        .collect();
    let file = parent.path().join("whole.u16");
    fs::write(&file, whole).unwrap();
    let of_folder = data(&path, TokenizerChoice::default()).unwrap();
    let of_file = data(&file, TokenizerChoice::default()).unwrap();
    assert_eq!(
        of_folder.batches.fingerprint(),
        of_file.batches.fingerprint()
    );
    assert_eq!(
        of_folder.batches.training(3, 0..4).unwrap(),
        of_file.batches.training(3, 0..4).unwrap()
    );
    for (other, name) in [
        (TokenizerChoice::Ids(256), "ids"),
        (TokenizerChoice::Characters, "characters"),
    ] {
        let error = data(&path, other).err().unwrap().to_string();
        let needed = format!(
            "was made with the tokenizer bytes, found {name}; data.tokenizer may be left out"
        );
        assert!(error.ends_with(&needed), "{error}");
    }
}

#[test]
fn a_writer_that_is_dropped_leaves_nothing_and_names_that_are_taken_are_refused() {
    let parent = tempfile::tempdir().unwrap();
    let target = parent.path().join("new");
    let create = || FolderWriter::create(&target, &Tokenizer::bytes(), None, SHARD);
    let mut writer = create().unwrap();
    writer.push(&[1; 100]).unwrap();
    let second = create().unwrap_err().to_string();
    assert!(
        second.contains("new.partial: exists: another program is writing it"),
        "{second}"
    );
    assert!(!TokenFolder::is_at(&parent.path().join("new.partial")));
    drop(writer);
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    let empty = create()
        .unwrap()
        .finish()
        .map(drop)
        .unwrap_err()
        .to_string();
    assert!(empty.ends_with("new is empty"), "{empty}");
    fs::create_dir(&target).unwrap();
    let taken = create().unwrap_err().to_string();
    assert!(
        taken.ends_with("new: exists already, needs a new name"),
        "{taken}"
    );
    let outside = parent.path().join("none/new");
    let refused = FolderWriter::create(&outside, &Tokenizer::bytes(), None, SHARD);
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .ends_with("none does not exist")
    );
}

#[test]
fn a_token_outside_the_vocabulary_is_not_written() {
    let parent = tempfile::tempdir().unwrap();
    let target = parent.path().join("new");
    let mut writer = FolderWriter::create(&target, &Tokenizer::ids(5), None, SHARD).unwrap();
    writer.push(&[4, 4]).unwrap();
    let error = writer.push(&[1, 5]).unwrap_err().to_string();
    assert!(
        error.contains("token 5 at position 3 is outside the vocabulary of 5"),
        "{error}"
    );
}

/// Changes one value of an index.
type Edit = fn(&mut Value);

#[test]
fn an_index_that_does_not_describe_its_folder_is_refused() {
    let cases: [(Edit, &str); 22] = [
        (
            |index| *index = json!([]),
            "found the format null, needs \"fascicle-tokens\"",
        ),
        (
            |index| index["format"] = json!("other"),
            "found the format \"other\"",
        ),
        (
            |index| index["version"] = json!(2),
            "found version 2, needs 1 to 1",
        ),
        (
            |index| index["version"] = json!("1"),
            "found version \"1\", needs 1 to 1",
        ),
        (|index| index["more"] = json!(1), "unknown field `more`"),
        (
            |index| index["token_type"] = json!("u8"),
            "unknown variant `u8`",
        ),
        (
            |index| index["vocabulary_size"] = json!(0),
            "vocabulary_size is 0, needs 1 to 65536",
        ),
        (
            |index| index["vocabulary_size"] = json!(70_000),
            "vocabulary_size is 70000, needs 1 to 65536",
        ),
        (
            |index| index["vocabulary_size"] = json!(200),
            "holds a tokenizer",
        ),
        (
            |index| index["tokenizer"]["fingerprint"] = json!("ab"),
            "the index names ab of 256",
        ),
        (
            |index| index["document_end"] = json!(256),
            "document_end is 256, needs 0 to 255",
        ),
        (
            |index| index["documents"] = json!(-1),
            "invalid value: integer `-1`",
        ),
        (
            |index| index["tokens"] = json!(u64::MAX),
            "tokens is 18446744073709551615, needs 1 to 1125899906842624",
        ),
        (
            |index| index["tokens"] = json!(334),
            "its shards hold 333 tokens, needs 334",
        ),
        (
            |index| index["shards"] = json!([]),
            "the number of shards is 0, needs 1 to 65536",
        ),
        (
            |index| index["shards"][0]["file"] = json!("../x.u16"),
            "found a shard named \"../x.u16\"",
        ),
        (
            |index| index["shards"][0]["file"] = json!(""),
            "found a shard named \"\"",
        ),
        (
            |index| index["shards"][1]["file"] = json!("tokens-00000.u16"),
            "it lists tokens-00000.u16 twice",
        ),
        (
            |index| index["shards"][0]["tokens"] = json!(1u64 << 60),
            "tokens of tokens-00000.u16 is 1152921504606846976",
        ),
        (
            |index| index["shards"][0]["bytes"] = json!(81),
            "tokens-00000.u16 has 81 bytes, needs 80 for 40 tokens of 2",
        ),
        (
            |index| index["shards"][0]["crc32"] = json!("xyz"),
            "found the CRC-32 \"xyz\", needs 8 hexadecimal digits",
        ),
        (
            |index| index["shards"][8]["crc32"] = json!("00000000"),
            "tokens-00008.u16 has the CRC-32",
        ),
    ];
    let parent = tempfile::tempdir().unwrap();
    let path = folder(parent.path(), 333);
    let file = path.join(INDEX_FILE);
    let whole: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(sentence(&path), "it is read");
    for (edit, needed) in cases {
        let mut index = whole.clone();
        edit(&mut index);
        fs::write(&file, index.to_string()).unwrap();
        let found = sentence(&path);
        assert!(found.contains(needed), "{found}, needs {needed}");
        assert!(
            found.starts_with("data: ") && !found.contains('\n'),
            "{found}"
        );
    }
    fs::write(&file, "{\"format\"").unwrap();
    assert!(sentence(&path).contains("EOF while parsing"));
}

#[test]
fn files_that_do_not_fit_the_index_are_refused() {
    type Harm = fn(&Path);
    let cases: [(Harm, &str); 7] = [
        (
            |path| fs::remove_file(path.join("tokens-00002.u16")).unwrap(),
            "tokens-00002.u16 does not exist, needs 80 bytes",
        ),
        (
            |path| fs::write(path.join("tokens-00002.u16"), [0; 78]).unwrap(),
            "tokens-00002.u16 holds 78 bytes, needs 80 bytes",
        ),
        (
            |path| fs::write(path.join("tokens-00002.u16"), [0; 79]).unwrap(),
            "tokens-00002.u16 holds 79 bytes, needs 80 bytes",
        ),
        (
            |path| fs::write(path.join("tokens-00002.u16"), []).unwrap(),
            "tokens-00002.u16 holds 0 bytes, needs 80 bytes",
        ),
        (
            |path| fs::write(path.join("tokens-00002.u16"), [0; 80]).unwrap(),
            "tokens-00002.u16 has the CRC-32",
        ),
        (
            |path| fs::write(path.join("tokens-00002.u16"), [1; 80]).unwrap(),
            "tokens-00002.u16: token 257 at position 0 is outside the vocabulary of 256",
        ),
        (
            |path| fs::remove_file(path.join(TOKENIZER_FILE)).unwrap(),
            "tokenizer-saved.json does not exist",
        ),
    ];
    for (harm, needed) in cases {
        let parent = tempfile::tempdir().unwrap();
        let path = folder(parent.path(), 333);
        harm(&path);
        let found = sentence(&path);
        assert!(found.contains(needed), "{found}, needs {needed}");
    }
}

#[test]
fn a_shard_that_shrinks_while_it_is_open_is_an_error() {
    let parent = tempfile::tempdir().unwrap();
    let path = folder(parent.path(), 333);
    let tokens = TokenFolder::open(&path).unwrap().into_tokens();
    let shard = File::options()
        .write(true)
        .open(path.join("tokens-00001.u16"))
        .unwrap();
    shard.set_len(10).unwrap();
    let error = tokens
        .extend_into(30..60, &mut Vec::new())
        .unwrap_err()
        .to_string();
    assert!(
        error.ends_with("holds 10 bytes, needs the 80 that it had when it was opened"),
        "{error}"
    );
}

#[test]
fn more_shards_than_stay_open_are_read_alike() {
    let parent = tempfile::tempdir().unwrap();
    let path = folder(parent.path(), 40 * 300);
    let tokens = TokenFolder::open(&path).unwrap().into_tokens();
    let mut out = Vec::new();
    tokens.extend_into(11_950..12_000, &mut out).unwrap();
    assert!(
        out.iter()
            .copied()
            .eq((11_950..12_000).map(|index| index % 250))
    );
    fs::write(path.join("tokens-00299.u16"), [0; 10]).unwrap();
    let error = tokens
        .extend_into(11_990..12_000, &mut out)
        .unwrap_err()
        .to_string();
    assert!(error.contains("holds 10 bytes, needs the 80"), "{error}");
}
