//! `fascicle checkpoint audit` through the program: true checkpoints are confirmed on any grid, forged ones are refuted.
//!
//! `FASCICLE_FORGED=N` makes N forgeries instead of two of each kind, and `FASCICLE_SEED` other ones.

mod forgeries;
mod program;
mod statements;

use forgeries::{Forger, KINDS};
use program::{Ended, Runs, fascicle};
use statements::NUM_STATEMENTS;
use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

const RUN_BITS: &[&str] = &["--set", "training.reproducible=\"run\""];
const GRID_BITS: &[&str] = &["--set", "training.reproducible=\"grid\""];

fn audit(a: &Path, b: &Path, flags: &[&str]) -> Ended {
    let paths = [a, b].map(|path| path.to_str().unwrap());
    fascicle(&[&["checkpoint", "audit"], &paths[..], flags].concat())
}

/// Every file below a folder, with its length and the time of its last change.
fn files(dir: &Path) -> Vec<(PathBuf, u64, SystemTime)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        if metadata.is_dir() {
            found.extend(files(&entry.path()));
        }
        found.push((entry.path(), metadata.len(), metadata.modified().unwrap()));
    }
    found.sort();
    found
}

#[test]
fn a_true_checkpoint_is_confirmed_on_any_grid() {
    let runs = Runs::new();
    let flags = ["--grid", "x=2,z=2", "--micro-batches", "4"];
    let run = runs.train("run", 6, &[GRID_BITS, &flags].concat());
    let [three, six] = [3, 6].map(|step| runs.checkpoint("run", step));
    let before = files(&run);
    let digest = fascicle(&["checkpoint", "digest", six.to_str().unwrap()]);
    let digest = digest.stdout.trim();
    for flags in [
        &[][..],
        &["--grid", "y=2,data=2"],
        &["--grid", "data=4", "--threads", "2"],
        &["--grid", "pipeline=2,z=2", "--micro-batches", "1"],
        &["--ranks", "2"],
    ] {
        let confirmed = audit(&three, &six, flags);
        assert_eq!(confirmed.status, 0, "{flags:?}: {confirmed:?}");
        let sentence = format!("SHA-256 {digest}, executed again from step 3");
        assert!(
            confirmed.stdout.starts_with("confirmed: step 6"),
            "{confirmed:?}"
        );
        assert!(confirmed.stdout.contains(&sentence), "{confirmed:?}");
    }
    // A run directory stands for its newest checkpoint. Four micro-batches on each of four replicas are more
    // than a batch of 8 has: the audit takes two.
    let kept = runs.path("kept");
    let flags = [
        "--json",
        "--grid",
        "data=4",
        "--keep",
        kept.to_str().unwrap(),
    ];
    let confirmed = audit(&three, &run, &flags);
    let verdict: serde_json::Value = serde_json::from_str(&confirmed.stdout).unwrap();
    assert_eq!(verdict["confirmed"], true, "{confirmed:?}");
    assert_eq!(verdict["digest"], digest);
    assert_eq!(verdict["grid"], "x=1,y=1,z=1,data=4,pipeline=1");
    assert!(kept.join("checkpoints/step-00000006").is_dir());
    assert_eq!(files(&run), before, "an audit writes nothing into the run");
}

#[test]
fn other_bits_are_refuted_with_the_first_tensor() {
    let runs = Runs::new();
    runs.train("run", 6, &[RUN_BITS, &["--grid", "x=2"]].concat());
    let [three, six] = [3, 6].map(|step| runs.checkpoint("run", step));
    // Without reproducible sums only the grid of the run gives its bits.
    let confirmed = audit(&three, &six, &[]);
    assert_eq!(confirmed.status, 0, "{confirmed:?}");
    assert!(confirmed.stdout.contains("on grid x=2,"), "{confirmed:?}");
    for (flags, refusal) in [
        (["--grid", "y=2"], "parallel.grid: found x=1,y=2,"),
        (["--ranks", "1"], "parallel.grid: found x=1,y=1,"),
        (
            ["--micro-batches", "1"],
            "training.micro_batches: found 1, needs 2",
        ),
        (
            ["--schedule", "gpipe"],
            "parallel.schedule: found \"gpipe\"",
        ),
    ] {
        let refused = audit(&three, &six, &flags);
        assert_eq!(refused.status, 2, "{refused:?}");
        assert!(refused.stderr.contains(refusal), "{refused:?}");
        assert!(
            refused.stderr.contains("no other gives the same bits"),
            "{refused:?}"
        );
    }
    let other = runs.resume("run", "other", 3, &["--steps", "6", "--grid", "y=2"]);
    let confirmed = audit(&three, &other, &[]);
    assert!(
        confirmed.stdout.contains("on grid x=1,y=2,"),
        "{confirmed:?}"
    );
    // Its state, under the name of another grid.
    let forged = Forger::new(&runs, 1).relabelled(&six, &other);
    let refuted = audit(&three, &forged, &[]);
    assert_eq!(refuted.status, 1, "{refuted:?}");
    assert!(
        refuted
            .stderr
            .contains("tensors in their elements, the first in state0/"),
        "{refuted:?}"
    );
    assert!(refuted.stdout.contains("first at"), "{refuted:?}");
}

#[test]
fn what_cannot_be_audited_is_refused() {
    let runs = Runs::new();
    let run = runs.train("run", 6, GRID_BITS);
    let [three, six] = [3, 6].map(|step| runs.checkpoint("run", step));
    let other = runs.text("other.txt", "a lazy dog jumps over the quick brown fox\n");
    let refusals: [(&Path, &Path, &[&str], u8, &str); 6] = [
        (&six, &three, &[], 2, "found step 3, needs a step above 6"),
        (&six, &run, &[], 2, "found step 6, needs a step above 6"),
        (&three, &six, &["--data", "nowhere.txt"], 1, "nowhere.txt"),
        (
            &three,
            &six,
            &["--data", other.to_str().unwrap()],
            2,
            "was made with other data",
        ),
        (
            &three,
            &six,
            &["--keep", run.to_str().unwrap()],
            2,
            "needs a new folder",
        ),
        (&three, &six, &["--grid", "x=3"], 2, "hidden"),
    ];
    for (a, b, flags, status, sentence) in refusals {
        let refused = audit(a, b, flags);
        assert_eq!(refused.status, status, "{flags:?}: {refused:?}");
        assert!(refused.stderr.contains(sentence), "{flags:?}: {refused:?}");
    }
}

#[test]
fn a_run_resumed_with_other_settings_is_audited_with_its_flags() {
    let runs = Runs::new();
    runs.train("run", 6, GRID_BITS);
    let longer = runs.resume("run", "longer", 6, &["--steps", "9", "--grid", "z=2"]);
    let six = runs.checkpoint("run", 6);
    let refuted = audit(&six, &longer, &[]);
    assert_eq!(refuted.status, 1, "{refuted:?}");
    assert!(
        refuted.stderr.contains("training.steps: found 9, needs 6"),
        "{refuted:?}"
    );
    let confirmed = audit(&six, &longer, &["--steps", "9"]);
    assert_eq!(confirmed.status, 0, "{confirmed:?}");
}

#[test]
fn every_other_statement_is_refuted() {
    let runs = Runs::new();
    runs.train("run", 6, GRID_BITS);
    let three = runs.checkpoint("run", 3);
    let mut forger = Forger::new(&runs, 1);
    for statement in 0..NUM_STATEMENTS {
        let (place, forged) = forger.state_otherwise(statement);
        let refuted = audit(&three, &forged, &[]);
        assert_eq!(refuted.status, 1, "{place}: {refuted:?}");
        assert!(
            refuted.stderr.contains("does not follow from step 3"),
            "{place}: {refuted:?}"
        );
    }
    // No step leads there, so none is executed.
    let later = forger.of_step(1_000_000_000);
    let refuted = audit(&three, &later, &[]);
    assert!(
        refuted
            .stderr
            .contains("step: found 1000000000, needs at most 6"),
        "{refuted:?}"
    );
}

#[test]
fn forgeries_are_refuted() {
    let number =
        |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (forged, seed) = (
        number("FASCICLE_FORGED", 2 * KINDS.len()),
        number("FASCICLE_SEED", 1),
    );
    let runs = Runs::new();
    runs.train("run", 6, &[GRID_BITS, &["--grid", "x=2,data=2"]].concat());
    let three = runs.checkpoint("run", 3);
    let mut forger = Forger::new(&runs, seed as u64);
    let copied = forger.copy();
    assert_eq!(
        audit(&three, &copied, &[]).status,
        0,
        "a copy without a forgery is confirmed"
    );
    let mut missed = Vec::new();
    for index in 0..forged {
        let (what, forgery) = forger.forge(index);
        let grid = ["x=1", "x=2", "y=2", "z=2", "data=2", "pipeline=2"][index % 6];
        let ended = audit(&three, &forgery, &["--grid", grid]);
        let verdict = ended
            .stderr
            .lines()
            .find(|line| line.starts_with("fascicle: "));
        println!(
            "{index}: {what}, on {grid}: {}",
            verdict.unwrap_or("confirmed")
        );
        if ended.status != 1 || !ended.stderr.contains("fascicle: refuted: ") {
            missed.push(format!("{what}: {ended:?}"));
        }
        fs::remove_dir_all(forgery.parent().unwrap()).unwrap();
    }
    println!(
        "seed {seed}: {} of {forged} forgeries refuted",
        forged - missed.len()
    );
    assert!(missed.is_empty(), "missed:\n{}", missed.join("\n"));
}
