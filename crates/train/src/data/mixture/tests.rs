use super::*;
use crate::data::{Content, Tokenizer, Tokens};
use std::collections::BTreeMap;

const CONTEXT: usize = 4;

/// A corpus whose tokens tell its number and their window.
fn corpus(number: u32, windows: u32) -> Corpus {
    let ids = (0..windows * CONTEXT as u32 + 1).map(|at| number * 1000 + at / CONTEXT as u32);
    let content = Content::Tokens {
        name: format!("{number}.u32"),
        tokens: Tokens::from_ids(ids.collect()),
    };
    Corpus::new(content, &Tokenizer::ids(10_000)).unwrap()
}

fn settings(global_batch: usize) -> Settings {
    Settings {
        context: CONTEXT,
        global_batch,
        validation_batches: 3,
        validation_fraction: 0.2,
        seed: 5,
        ..Settings::default()
    }
}

fn mixture(global_batch: usize) -> Mixture {
    let corpora = vec![
        (corpus(1, 7), 2.0),
        (corpus(2, 50), 5.0),
        (corpus(3, 11), 1.0),
    ];
    let validation = Some(corpus(4, 30));
    Mixture::new(corpora, validation, &settings(global_batch)).unwrap()
}

/// The corpus and the window of each row.
fn drawn(batch: &Batch) -> Vec<(u32, u32)> {
    let rows = batch.inputs.chunks(CONTEXT);
    rows.map(|row| (row[0] / 1000, row[0] % 1000)).collect()
}

#[test]
fn rows_do_not_depend_on_ranks() {
    for step in [0, 1, 77, 1 << 40] {
        let mixture = mixture(24);
        let whole = mixture.batch(step, 0..24).unwrap();
        for ranks in [2, 3, 8] {
            let share = 24 / ranks;
            let mut all = Batch::of(24, CONTEXT);
            for rank in 0..ranks {
                let own = mixture
                    .batch(step, rank * share..(rank + 1) * share)
                    .unwrap();
                all.inputs.extend(own.inputs);
                all.targets.extend(own.targets);
            }
            assert_eq!(all, whole, "{ranks} ranks in step {step}");
        }
    }
}

#[test]
fn each_source_has_its_share_and_repeats_nothing_within_an_epoch() {
    let mixture = mixture(8);
    let mut seen: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let rows = (0..100).flat_map(|step| drawn(&mixture.batch(step, 0..8).unwrap()));
    rows.for_each(|(source, window)| seen.entry(source).or_default().push(window));
    let counts: Vec<usize> = seen.values().map(Vec::len).collect();
    assert_eq!(counts, [200, 500, 100]);
    for (source, windows) in [(1, 7), (2, 50), (3, 11)] {
        let mut orders = Vec::new();
        for epoch in seen[&source].chunks_exact(windows) {
            let mut sorted = epoch.to_vec();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..windows as u32), "source {source}");
            orders.push(epoch);
        }
        assert_ne!(orders[0], orders[1], "epochs have orders of their own");
    }
    let shares = mixture.shares(100);
    let epochs: Vec<f64> = shares.iter().map(|share| share.epochs).collect();
    assert_eq!(epochs, [200.0 / 7.0, 10.0, 100.0 / 11.0]);
    assert_eq!((shares[1].name.as_str(), shares[1].share), ("2.u32", 0.625));
}

#[test]
fn a_validation_has_a_set_for_each_source_and_is_the_same_each_time() {
    let corpora = || vec![(corpus(1, 20), 1.0), (corpus(2, 40), 3.0)];
    let mixture = Mixture::new(corpora(), None, &settings(8)).unwrap();
    let all = |mixture: &Mixture| -> Vec<(u32, u32)> {
        let batches = 0..mixture.num_validation_batches();
        let batches = batches.map(|index| mixture.validation_batch(index, 0..8).unwrap());
        batches.flat_map(|batch| drawn(&batch)).collect()
    };
    let rows = all(&mixture);
    assert_eq!(rows, all(&mixture));
    let of_first = rows.iter().filter(|(source, _)| *source == 1).count();
    // Three batches by shares of 0.25 and 0.75: one and two.
    assert_eq!((of_first, rows.len()), (8, 24));
    let set = |name: &str, batches, weight| ValidationSet {
        name: name.into(),
        batches,
        weight,
    };
    let needed = [set("1.u32", 0..1, 0.25), set("2.u32", 1..3, 0.75)];
    assert_eq!(mixture.validation_sets(), needed);
    let trained = (0..500).flat_map(|step| drawn(&mixture.batch(step, 0..8).unwrap()));
    let last: BTreeMap<u32, u32> = trained.collect();
    assert_eq!(last.len(), 2);
    for (source, window) in rows {
        let least = [16, 32][source as usize - 1];
        assert!(window >= least - 1, "{window} of {source} is held back");
    }
    let other = Mixture::new(corpora(), Some(corpus(4, 30)), &settings(8)).unwrap();
    assert!(all(&other).iter().all(|(source, _)| *source == 4));
    assert_eq!(other.validation_sets(), [set("4.u32", 0..3, 1.0)]);
    // However small its share, a source has a batch.
    let corpora = vec![(corpus(1, 20), 1.0), (corpus(2, 40), 99.0)];
    let uneven = Mixture::new(corpora, None, &settings(8)).unwrap();
    let sets = uneven.validation_sets();
    assert_eq!(
        [sets[0].batches.clone(), sets[1].batches.clone()],
        [0..1, 1..4]
    );
}

#[test]
fn fingerprints_tell_shares_and_content_apart() {
    let of = |corpora| {
        Mixture::new(corpora, None, &settings(8))
            .unwrap()
            .fingerprint()
    };
    let one = of(vec![(corpus(1, 20), 1.0), (corpus(2, 40), 3.0)]);
    assert_eq!(one, of(vec![(corpus(1, 20), 2.0), (corpus(2, 40), 6.0)]));
    assert_ne!(one, of(vec![(corpus(1, 20), 1.0), (corpus(2, 40), 2.0)]));
    assert_ne!(one, of(vec![(corpus(1, 20), 1.0), (corpus(3, 40), 3.0)]));
    assert!(one.unwrap().starts_with("mixture of 0.25 of 65 tokens of "));
}

#[test]
fn a_source_that_holds_no_sequence_is_named() {
    let corpora = vec![(corpus(1, 20), 1.0), (corpus(2, 1), 3.0)];
    let error = Mixture::new(corpora, None, &settings(8))
        .unwrap_err()
        .to_string();
    let needed =
        "data: 2.u32 holds 5 tokens (4 training, 1 validation), needs at least 5 (context 4 + 1)";
    assert!(error.starts_with(needed), "{error}");
    let error = mixture(8).batch(0, 3..9).unwrap_err().to_string();
    assert_eq!(
        error,
        "data: batch: found sequences 3..9, the global batch holds 8"
    );
}
