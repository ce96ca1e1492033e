use super::columns::NO_TARGET;
use super::*;
use crate::{batches::Values, data::Sample};
use proptest::prelude::*;

fn content(samples: &[(&str, &str)]) -> Content {
    let sample = |(prompt, completion): &(&str, &str)| Sample::Completion {
        prompt: (*prompt).to_owned(),
        completion: (*completion).to_owned(),
    };
    Content::Samples {
        name: "a.jsonl".into(),
        samples: samples.iter().map(sample).collect(),
    }
}

fn settings(context: usize, global_batch: usize) -> Settings {
    Settings {
        context,
        global_batch,
        validation_batches: 2,
        ..Settings::default()
    }
}

fn open(samples: &[(&str, &str)], settings: &Settings, loss: LossOn) -> Result<Samples> {
    let held_out = content(&[("v", "al"), ("i", "dation")]);
    Samples::new(
        content(samples),
        Some(held_out),
        &Tokenizer::bytes(),
        (settings, loss),
    )
}

fn ids(rows: &Rows, name: &str) -> Vec<u32> {
    match rows.column(name) {
        Some(Values::Ids(ids)) => ids.clone(),
        _ => panic!("bug: no ids called {name}"),
    }
}

fn weight(rows: &Rows) -> f64 {
    match rows.column("loss_weight") {
        Some(Values::Weights(weights)) => weights[0],
        _ => panic!("bug: no weights"),
    }
}

const NONE: u32 = NO_TARGET;

#[test]
fn a_row_holds_samples_side_by_side() {
    let samples = open(
        &[("ab", "c"), ("x", "yz")],
        &settings(8, 1),
        LossOn::Answers,
    )
    .unwrap();
    let rows = samples.training(0, 0..1).unwrap();
    // Both have four tokens with the line end that ends them, of which three are read.
    assert_eq!(ids(&rows, "inputs"), [97, 98, 99, 120, 121, 122, 0, 0]);
    assert_eq!(
        ids(&rows, "targets"),
        [NONE, 99, 10, 121, 122, 10, NONE, NONE]
    );
    assert_eq!(ids(&rows, "documents"), [0, 0, 0, 3, 3, 3, 6, 7]);
    assert_eq!(ids(&rows, "places"), [0, 1, 2, 0, 1, 2, 0, 0]);
    assert_eq!(weight(&rows), 8.0 / 5.0);
    let all = open(&[("ab", "c"), ("x", "yz")], &settings(8, 1), LossOn::All).unwrap();
    let rows = all.training(0, 0..1).unwrap();
    assert_eq!(
        ids(&rows, "targets"),
        [98, 99, 10, 121, 122, 10, NONE, NONE]
    );
}

#[test]
fn what_is_too_long_is_cut_and_what_has_no_answer_left_out() {
    let given = [("abcdefgh", "i"), ("abc", "defgh"), ("a", "b")];
    let samples = open(&given, &settings(4, 1), LossOn::Answers).unwrap();
    let needed = Packed {
        samples: 2,
        counted: 4,
        rows: 2,
        padding: 2,
        cut: 1,
        dropped: 1,
    };
    assert_eq!(samples.packed()[0], needed);
    let error = open(&given[..1], &settings(4, 1), LossOn::Answers)
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "data: a.jsonl: none of 1 samples for training has an answer within 4 tokens, needs at least 1 that has"
    );
}

#[test]
fn a_validation_weighs_all_its_tokens_alike() {
    let samples = open(&[("a", "b")], &settings(8, 3), LossOn::Answers).unwrap();
    // Two samples fill two rows of the one batch; the third row is empty.
    assert_eq!(samples.num_validation_batches(), 1);
    let rows = samples.validation(0, 0..3).unwrap();
    let targets = ids(&rows, "targets");
    let counted = targets.iter().filter(|target| **target != NONE).count();
    assert_eq!((counted, weight(&rows)), (10, 24.0 / 10.0));
    assert_eq!(targets[16..], [NONE; 8]);
    assert_eq!(
        samples.validation(0, 1..3).unwrap(),
        samples.validation(0, 1..3).unwrap()
    );
}

// What the refusal advises.
#[cfg(feature = "tokenizers")]
#[test]
fn a_template_that_rewrites_messages_trains_on_all_tokens() {
    use crate::data::{Chat, ChatTemplate};

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("forgets.jinja");
    std::fs::write(
        &path,
        "{% for m in messages %}{{ m.content if loop.last else '-' }}{% endfor %}",
    )
    .unwrap();
    let tokenizer = Tokenizer::bytes().with_chat(Some(ChatTemplate::read(&path).unwrap()));
    let messages = ["user", "assistant", "user", "assistant"];
    let chat = Sample::Chat(Chat {
        messages: messages.map(|role| Chat::message(role, "ab")).to_vec(),
        tools: None,
    });
    let open = |loss| {
        let content = Content::Samples {
            name: "a.jsonl".into(),
            samples: vec![chat.clone(); 2],
        };
        Samples::new(content, None, &tokenizer, (&settings(8, 1), loss))
    };
    let refused = open(LossOn::Answers).unwrap_err().to_string();
    assert!(
        refused.ends_with("needs data.loss_on = \"all\""),
        "{refused}"
    );
    let rows = open(LossOn::All).unwrap().training(0, 0..1).unwrap();
    assert_eq!(ids(&rows, "targets")[..5], [45, 45, 97, 98, NONE]);
}

#[test]
fn nothing_is_no_data() {
    let settings = settings(8, 1);
    let refused = Samples::new(
        content(&[]),
        None,
        &Tokenizer::bytes(),
        (&settings, LossOn::All),
    );
    assert_eq!(
        refused.unwrap_err().to_string(),
        "data: a.jsonl: found no sample for validation, needs at least 1"
    );
}

#[test]
fn chats_need_a_template() {
    let chat = Sample::Chat(crate::data::Chat::default());
    let content = Content::Samples {
        name: "a.jsonl".into(),
        samples: vec![chat; 20],
    };
    let refused = Samples::new(
        content,
        None,
        &Tokenizer::bytes(),
        (&settings(8, 1), LossOn::Answers),
    );
    assert_eq!(
        refused.unwrap_err().to_string(),
        "data: a.jsonl: sample 1 is a chat, and the tokenizer bytes has no template for chats, needs data.chat_template = \"FILE\""
    );
}

proptest! {
    #[test]
    fn an_epoch_holds_every_sample_once_whatever_the_pieces(
        lengths in prop::collection::vec(1usize..12, 1..26), batch in 1usize..6, seed: u64,
    ) {
        let texts: Vec<String> = lengths.iter().zip(b'a'..).map(|(length, letter)| char::from(letter).to_string().repeat(*length)).collect();
        let given: Vec<(&str, &str)> = texts.iter().map(|text| ("", text.as_str())).collect();
        let settings = Settings { seed, ..settings(16, batch) };
        // A sample of one letter has only its end to predict.
        let samples = open(&given, &settings, LossOn::Answers).unwrap();
        let rows = samples.packed()[0].rows;
        let mut seen = Vec::new();
        for place in 0..rows {
            let (step, index) = (place / batch, place % batch);
            let row = samples.training(step as u64, index..index + 1).unwrap();
            let (inputs, places) = (ids(&row, "inputs"), ids(&row, "places"));
            let starts = inputs.iter().zip(&places).filter(|(token, place)| **place == 0 && **token != 0);
            seen.extend(starts.map(|(token, _)| *token));
        }
        seen.sort_unstable();
        prop_assert_eq!(seen, (97..).take(lengths.len()).collect::<Vec<u32>>());
        // The mean of a batch divides by what counts in all of it.
        let whole = samples.training(0, 0..batch).unwrap();
        let counted = ids(&whole, "targets").iter().filter(|target| **target != NONE).count();
        prop_assert_eq!(weight(&whole), (16 * batch) as f64 / counted as f64);
        prop_assert_eq!(weight(&samples.training(0, 0..1).unwrap()), weight(&whole));
    }
}
