use super::documents::Part;
use super::pieces::Cutter;
use super::*;
use crate::data::Error;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

type Made = Result<Option<(TokenFolder, TokenizeReport)>>;

struct Place(tempfile::TempDir);

impl Place {
    fn new(files: &[(&str, &[u8])]) -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        for (name, bytes) in files {
            let path = place.0.path().join("in").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        place
    }

    fn inputs(&self, names: &[&str]) -> Result<Vec<TokenizeInput>> {
        let path = |name: &&str| self.0.path().join("in").join(name);
        let paths: Vec<PathBuf> = names.iter().map(path).collect();
        let extensions = ["txt", "jsonl", "parquet"].map(str::to_owned);
        TokenizeInput::find(&paths, &extensions)
    }

    /// Tokenises into the folder `out`, which is then read.
    fn made(&self, names: &[&str], tokenizer: &Tokenizer, options: &TokenizeOptions) -> Made {
        let target = self.0.path().join("out");
        fs::remove_dir_all(&target).ok();
        let watch: (&Stop, TokenizeProgress<'_>) = (&Stop::default(), &|_, _| ());
        tokenize(&self.inputs(names)?, tokenizer, &target, options, watch)
    }

    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let entries = fs::read_dir(self.0.path().join("out")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths
            .map(|path| (path.clone(), fs::read(path).unwrap()))
            .collect()
    }
}

fn done(made: Made) -> (Vec<u32>, TokenizeReport) {
    let (folder, report) = made.unwrap().unwrap();
    let tokens = folder.into_tokens();
    let mut out = Vec::new();
    tokens.extend_into(0..tokens.len(), &mut out).unwrap();
    (out, report)
}

fn bytes(text: &str) -> Vec<u32> {
    text.bytes().map(u32::from).collect()
}

fn options() -> TokenizeOptions {
    TokenizeOptions {
        shard_tokens: 100_003,
        ..TokenizeOptions::default()
    }
}

/// A text of lines of many lengths, some of them blank or indented.
fn long_text(bytes: usize) -> String {
    let mut text = String::new();
    for number in 0u64.. {
        if text.len() >= bytes {
            break;
        }
        let word = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        match word % 7 {
            0 => text += "\n",
            1 => text += "  indented \u{e9}t\u{e9}\n",
            2 => text += &format!("Line {number} is not like others.\n\n\n"),
            _ => text += &format!("word{word} and {number}, it's {}\n", word % 90),
        }
    }
    text
}

/// A tokenizer of bytes with the merges and the pattern of GPT-2, and its end of text.
#[cfg(feature = "tokenizers")]
fn gpt2_like(prefix: bool) -> Tokenizer {
    let is_plain = |byte: &u32| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let plain = (0..256u32).filter(is_plain);
    let others = 256..256 + (0..256u32).filter(|byte| !is_plain(byte)).count() as u32;
    let letters: Vec<char> = plain.chain(others).filter_map(char::from_u32).collect();
    let merges = [
        ("w", "o"),
        ("r", "d"),
        ("wo", "rd"),
        ("\u{120}", "a"),
        ("\u{10a}", "\u{10a}"),
    ];
    let names = letters.iter().map(char::to_string);
    let names = names.chain(merges.iter().map(|(one, other)| format!("{one}{other}")));
    let vocab: BTreeMap<String, usize> = names.enumerate().map(|(id, name)| (name, id)).collect();
    let end = serde_json::json!({"id": 300, "content": "<|endoftext|>", "single_word": false, "lstrip": false,
        "rstrip": false, "normalized": false, "special": true});
    let level = serde_json::json!({"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": true, "use_regex": true});
    let merges: Vec<[&str; 2]> = merges.map(|(one, other)| [one, other]).to_vec();
    let json = serde_json::json!({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [end],
        "normalizer": null, "pre_tokenizer": level, "post_processor": null, "decoder": level,
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocab, "merges": merges}});
    Tokenizer::json("small.json", &json.to_string()).unwrap()
}

#[cfg(feature = "tokenizers")]
proptest::proptest! {
    #[test]
    fn the_fast_encoder_has_the_tokens_of_the_library(
        text in "([a-z]{1,3}| {1,3}|'(s|t|re|ve|m|ll|d|x)|[0-9]{1,3}|\\PC|[\\n\\t\u{a0}\u{3000}]{1,2}|\u{bd}|\u{301}|<\\|endoftext\\|>|'|!){0,40}",
    ) {
        let tokenizer = gpt2_like(false);
        let mut encoder = tokenizer.encoder();
        for text in [text.clone(), text.to_uppercase(), text] {
            let needed = tokenizer.encode_piece(&text).unwrap();
            proptest::prop_assert_eq!(encoder.encode(&text).unwrap(), needed, "{}", text);
        }
    }
}

#[test]
fn every_format_gives_the_same_documents_in_order() {
    let lines =
        "{\"text\": \"first\\nof all\", \"more\": [1]}\n\n{\"id\": 3, \"text\": \"second\"}";
    let packed = |text: &str| {
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        ruzstd::encoding::compress_to_vec(text.as_bytes(), level)
    };
    // Frames one behind the other, and between them one for other programs.
    let frames = [
        packed("{\"text\": \"first\\nof "),
        vec![0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3],
        packed("all\"}\n{\"text\": \"second\"}\n"),
    ]
    .concat();
    let place = Place::new(&[
        ("a.jsonl", lines.as_bytes()),
        ("b.jsonl.zst", &frames),
        ("c/1.txt", b"first\nof all"),
        ("c/2.txt.zst", &packed("second")),
        ("c/3.md", b"not read"),
        ("d.txt", b"first\r\n\nsecond\nthird"),
    ]);
    let needed = bytes("first\nof all\nsecond\n");
    for name in ["a.jsonl", "b.jsonl.zst", "c"] {
        let (tokens, report) = done(place.made(&[name], &Tokenizer::bytes(), &options()));
        assert_eq!(tokens, needed, "{name}");
        assert_eq!((report.documents, report.text_bytes), (2, 18), "{name}");
        assert_eq!((report.samples, report.decoded), (2, 2));
    }
    let split = TokenizeOptions {
        splits_lines: true,
        document_end: DocumentEnd::None,
        ..options()
    };
    let (tokens, report) = done(place.made(&["d.txt"], &Tokenizer::bytes(), &split));
    assert_eq!((tokens, report.empty), (bytes("firstsecondthird"), 1));
    let ended = TokenizeOptions {
        document_end: DocumentEnd::Token(0),
        ..options()
    };
    let (tokens, _) = done(place.made(&["a.jsonl"], &Tokenizer::bytes(), &ended));
    assert_eq!(tokens, bytes("first\nof all\0second\0"));
}

#[test]
fn duplicates_are_left_out_wherever_they_are() {
    let long = long_text(700_000);
    let same =
        serde_json::json!({ "text": long }).to_string() + "\n{\"text\": \"b\"}\n{\"text\": \"\"}\n";
    let place = Place::new(&[
        ("1.txt", long.as_bytes()),
        ("2.txt", long.as_bytes()),
        ("3.jsonl", same.as_bytes()),
        ("4.txt", b"b"),
        ("5.txt", b""),
    ]);
    let once = done(place.made(&["", "4.txt"], &Tokenizer::bytes(), &options()));
    assert_eq!(once.0, bytes(&(long.clone() + "\nb\n")));
    let (documents, duplicates, empty) = (once.1.documents, once.1.duplicates, once.1.empty);
    assert_eq!((documents, duplicates, empty), (2, 4, 2));
    let keeps = TokenizeOptions {
        keeps_duplicates: true,
        ..options()
    };
    let (tokens, report) = done(place.made(&["", "4.txt"], &Tokenizer::bytes(), &keeps));
    let all = [&long, "\n", &long, "\n", &long, "\nb\nb\nb\n"].concat();
    assert_eq!(
        (tokens, report.duplicates, report.hash_bytes),
        (bytes(&all), 0, 0)
    );
}

#[test]
#[cfg(feature = "tokenizers")]
fn the_number_of_threads_changes_no_byte_and_cuts_change_no_token() {
    let (long, short) = (long_text(600_000), long_text(3_000));
    let mut lines = String::new();
    for (index, line) in long.lines().take(2_000).enumerate() {
        lines += &serde_json::json!({ "text": format!("{line} of {index}") }).to_string();
        lines += "\n";
    }
    let place = Place::new(&[
        ("1.txt", long.as_bytes()),
        ("2.jsonl", lines.as_bytes()),
        ("3.txt", short.as_bytes()),
    ]);
    let tokenizer = gpt2_like(false);
    let made = |threads| {
        let options = TokenizeOptions {
            threads,
            ..options()
        };
        let (tokens, report) = done(place.made(&[""], &tokenizer, &options));
        assert_eq!(report.inexact_cuts, 0);
        assert_eq!(report.samples, report.decoded);
        (tokens, place.files())
    };
    let one = made(1);
    for threads in [2, 3] {
        assert!(made(threads) == one, "{threads} threads");
    }
    // The whole text at once, as no part of it was cut.
    let mut first = tokenizer.encode_piece(&long).unwrap();
    first.extend(tokenizer.document_end());
    assert!(one.0.starts_with(&first));
    // A run on the texts themselves reads the same tokens.
    assert_eq!(tokenizer.encode(&long).unwrap(), first[..first.len() - 1]);
}

#[test]
#[cfg(feature = "tokenizers")]
fn a_tokenizer_that_begins_each_text_with_a_space_does_not_cut_in_silence() {
    let text = "a line that begins with a word\n".repeat(300_000);
    let place = Place::new(&[("1.txt", text.as_bytes())]);
    let tokenizer = gpt2_like(true);
    let refused = place.made(&["1.txt"], &tokenizer, &options());
    let refused = refused.map(drop).unwrap_err();
    assert!(
        matches!(
            refused,
            Error::Inexact {
                position: 0,
                bytes: 8_388_608,
                ..
            }
        ),
        "{refused}"
    );
    let part = Part::whole(&text);
    let mut cutter = Cutter::new(&tokenizer, true);
    let mut pieces = Vec::new();
    let sink = &mut |piece: Piece| {
        pieces.push(piece.text);
        Ok(())
    };
    cutter.push(&part, "1.txt", sink).unwrap();
    assert_eq!((pieces.concat() == text, pieces.len()), (true, 2));
    assert_eq!(cutter.inexact_cuts, 1);
}

#[test]
fn characters_are_those_of_all_documents() {
    let place = Place::new(&[
        ("1.txt", "h\u{e9}".as_bytes()),
        ("2.jsonl", b"{\"text\": \"ab\"}"),
    ]);
    let inputs = place.inputs(&["1.txt", "2.jsonl"]).unwrap();
    let watch: (&Stop, TokenizeProgress<'_>) = (&Stop::default(), &|_, _| ());
    let made = tokenizer_for(&TokenizerChoice::Characters, &inputs, &options(), watch);
    let tokenizer = made.unwrap().unwrap();
    assert_eq!(tokenizer.decode(&[0, 1, 2, 3, 4]), "\nabh\u{e9}");
    let (tokens, _) = done(place.made(&["1.txt", "2.jsonl"], &tokenizer, &options()));
    assert_eq!(tokens, [3, 4, 0, 1, 2, 0]);
}

#[test]
fn inputs_that_cannot_be_read_are_refused_in_a_sentence() {
    let zst = |bytes: &[u8]| {
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        ruzstd::encoding::compress_to_vec(bytes, level)
    };
    let whole = zst(b"a text of some length, of some length, of some length");
    let spoilt = {
        let mut bytes = whole.clone();
        *bytes.last_mut().unwrap() ^= 1;
        bytes
    };
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        (
            "a.jsonl",
            b"{\"text\": \"a\"}\n{\"body\": \"b\"}".into(),
            "a.jsonl, line 2: found no `text`, needs one; --field names another key",
        ),
        (
            "a.jsonl",
            b"{\"text\": 3}".into(),
            "line 1: invalid type: integer `3`, expected a string",
        ),
        (
            "a.jsonl",
            b"{\"text\": null}".into(),
            "line 1: invalid type: null, expected a string",
        ),
        (
            "a.jsonl",
            b"[1]".into(),
            "line 1: invalid type: sequence, expected an object with a text under `text`",
        ),
        (
            "a.jsonl",
            b"{\"text\": \"a\"".into(),
            "line 1: EOF while parsing an object",
        ),
        (
            "a.jsonl",
            b"{\"text\": \"a\"} 3".into(),
            "line 1: trailing characters",
        ),
        (
            "a.jsonl",
            b"{\"text\": \"\xff\"}".into(),
            "line 1: not UTF-8 at byte 10 of the line",
        ),
        ("a.jsonl", b"\n\n".into(), "a.jsonl is empty"),
        (
            "a.jsonl",
            [b"{\"text\": ".as_slice(), &b"[".repeat(100_000)].concat(),
            "line 1: invalid type: sequence",
        ),
        (
            "a.jsonl",
            [b"{\"x\": ".as_slice(), &b"[".repeat(100_000)].concat(),
            "line 1: EOF while parsing a list",
        ),
        ("a.txt", b"ab\xff".into(), "a.txt is not UTF-8 at byte 2"),
        (
            "a.txt",
            [vec![b'a'; 400_000], vec![0xc3]].concat(),
            "a.txt is not UTF-8 at byte 400000",
        ),
        ("a.txt", Vec::new(), "a.txt is empty"),
        ("a.u16", b"ab".into(), "a.u16: found tokens, needs text"),
        ("a.bin", b"ab".into(), "a.bin: found tokens, needs text"),
        ("a.txt.zst", b"no frame".into(), "a.txt.zst: zstd: "),
        (
            "a.txt.zst",
            whole[..whole.len() - 6].into(),
            "a.txt.zst: zstd: ",
        ),
        ("a.txt.zst", spoilt, "a frame has the checksum"),
        ("a.txt.zst", Vec::new(), "a.txt.zst is empty"),
        (
            "a.parquet.zst",
            b"ab".into(),
            "a.parquet.zst: found a compressed table",
        ),
        #[cfg(not(feature = "parquet"))]
        (
            "a.parquet",
            b"PAR1".into(),
            "needs one with it: cargo build --release --features parquet",
        ),
        #[cfg(feature = "parquet")]
        (
            "a.parquet",
            b"PAR1".into(),
            "a.parquet: no table that can be read: ",
        ),
    ];
    for (name, content, needed) in cases {
        let place = Place::new(&[(name, &content)]);
        let refused = place.made(&[name], &Tokenizer::bytes(), &options());
        let found = refused.map(drop).unwrap_err().to_string();
        assert!(found.contains(needed), "{name}: {found}, needs {needed}");
        assert!(
            found.starts_with("data: ") && !found.contains('\n'),
            "{found}"
        );
        let left: Vec<_> = fs::read_dir(place.0.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "{name}: only the inputs are left");
    }
    let place = Place::new(&[("a.txt", b"a"), ("b/c.md", b"a")]);
    let missing = place.inputs(&["none"]).unwrap_err().to_string();
    assert!(missing.ends_with("none does not exist"), "{missing}");
    let bare = place.inputs(&["b"]).unwrap_err().to_string();
    assert!(
        bare.contains("holds no text file with extension txt, jsonl, parquet"),
        "{bare}"
    );
    let outside = TokenizeOptions {
        document_end: DocumentEnd::Token(256),
        ..options()
    };
    let refused = place.made(&["a.txt"], &Tokenizer::bytes(), &outside);
    let found = refused.map(drop).unwrap_err().to_string();
    assert_eq!(
        found,
        "data: document end is 256, needs a token below 256, the vocabulary"
    );
    let unknown = place.made(
        &["a.txt"],
        &Tokenizer::characters(&["b\n".into()]),
        &options(),
    );
    assert!(matches!(
        unknown,
        Err(Error::UnknownCharacter { character: 'a', .. })
    ));
}

#[test]
fn files_of_folders_that_are_not_text_are_counted() {
    let late = [vec![b'a'; 400_000], vec![0xff]].concat();
    let place = Place::new(&[("1.txt", &late), ("2.txt", b"b"), ("3.txt", b"\xff")]);
    let (tokens, report) = done(place.made(&[""], &Tokenizer::bytes(), &options()));
    assert_eq!((tokens, report.skipped_files), (bytes("b\n"), 2));
}

#[test]
fn a_stop_leaves_nothing() {
    let place = Place::new(&[("1.txt", long_text(2_000_000).as_bytes())]);
    for stops_late in [false, true] {
        let (stop, target) = (Stop::default(), place.0.path().join("out"));
        let seen = AtomicU64::new(0);
        let progress = |phase, bytes| {
            let is_late = matches!(phase, TokenizePhase::Verifying { .. });
            if is_late == stops_late && seen.fetch_add(bytes, Ordering::Relaxed) > 500_000 {
                stop.ask();
            }
        };
        let inputs = place.inputs(&["1.txt"]).unwrap();
        let watch: (&Stop, TokenizeProgress<'_>) = (&stop, &progress);
        let made = tokenize(&inputs, &Tokenizer::bytes(), &target, &options(), watch);
        assert!(made.unwrap().is_none());
        assert_eq!(fs::read_dir(place.0.path()).unwrap().count(), 1);
    }
}

#[test]
fn tokens_that_are_not_those_of_their_text_are_found() {
    let place = tempfile::tempdir().unwrap();
    let target = place.path().join("out");
    let mut writer = FolderWriter::create(&target, &Tokenizer::bytes(), None, 100).unwrap();
    let encoded = Encoded {
        piece: Piece {
            text: "abc".into(),
            ends_document: true,
        },
        tokens: vec![97, 98, 99],
        ends_document: true,
    };
    let mut samples = Samples::default();
    samples.keep(&encoded, 0);
    // Another token, whose file is whole.
    writer.push(&[97, 98, 100]).unwrap();
    let finished = writer.finish().unwrap();
    finished.verify(|_| Ok(())).unwrap();
    let checked = samples.check(
        &finished,
        &Tokenizer::bytes(),
        &mut TokenizeReport::default(),
    );
    assert!(matches!(
        checked,
        Err(Error::Unequal {
            first: 0,
            num_tokens: 3
        })
    ));
}
