//! Forged checkpoints: other states and other statements in the place of a true checkpoint, with intact checksums.

use super::{
    program::Runs,
    statements::{self, NUM_STATEMENTS},
};
use grid::IndexBox;
use hal::random::Key;
use serde_json::json;
use std::path::{Path, PathBuf};
use train::checkpoint::{Piece, Reader, Sections, Writer, write_shard};

/// The kinds of forgeries.
pub const KINDS: [&str; 8] = [
    "one bit of one element",
    "two elements exchanged",
    "a number of the trainer",
    "another learning rate",
    "a step left out",
    "another order of the data",
    "other data",
    "a setting that it states",
];

/// Forges the checkpoint of step 6 of the run `run`.
pub struct Forger<'a> {
    runs: &'a Runs,
    seed: u64,
    draws: u64,
    made: u64,
}

/// A tensor's name and its elements, four bytes each.
type Elements = (String, Vec<u8>);

impl Forger<'_> {
    pub fn new(runs: &Runs, seed: u64) -> Forger<'_> {
        Forger {
            runs,
            seed,
            draws: 0,
            made: 0,
        }
    }

    // A number below `end`.
    fn draw(&mut self, end: usize) -> usize {
        self.draws += 1;
        Key::new(self.seed, "forgeries", 0).word(self.draws) as usize % end
    }

    fn one<'b, T: ?Sized>(&mut self, of: &[&'b T]) -> &'b T {
        of[self.draw(of.len())]
    }

    /// A copy of the true checkpoint, made as forgeries are.
    pub fn copy(&mut self) -> PathBuf {
        let truth = self.truth();
        self.write(&truth, truth.sections().clone(), |_| {})
    }

    /// A checkpoint with the state of one and the statements of another.
    pub fn relabelled(&mut self, state: &Path, statements: &Path) -> PathBuf {
        let sections = Reader::open(statements).unwrap().sections().clone();
        self.write(&Reader::open(state).unwrap(), sections, |_| {})
    }

    /// A forgery, and what it is.
    pub fn forge(&mut self, index: usize) -> (String, PathBuf) {
        let kind = KINDS[index % KINDS.len()];
        let (what, path) = match index % KINDS.len() {
            0 => self.one_bit(),
            1 => self.exchanged(),
            2 => self.number(),
            3 => {
                let rate = 2e-3 * (1.0 + (1 + self.draw(5000)) as f64 / 10_000.0);
                self.trained(&format!("training.learning_rate={rate}"), &[])
            }
            4 => self.step_left_out(),
            5 => {
                let seed = 2 + self.draw(1 << 30);
                self.trained(&format!("seed={seed}"), &["--allow-changes"])
            }
            6 => {
                let words = ["quick", "brown", "jumps", "over", "lazy"];
                let line = format!(
                    "the quick brown fox jumps over the lazy {} dog\n",
                    self.one(&words)
                );
                let path = self.runs.text("forged.txt", &line);
                self.trained(
                    &format!("data.path={}", path.display()),
                    &["--allow-changes"],
                )
            }
            _ => {
                let drawn = self.draw(NUM_STATEMENTS);
                self.state_otherwise(drawn)
            }
        };
        (format!("{kind}: {what}"), path)
    }

    fn truth(&self) -> Reader {
        Reader::open(self.runs.checkpoint("run", 6)).unwrap()
    }

    // The elements of any tensor that are not all equal, and the number of two of them that differ.
    fn place(&mut self, truth: &Reader) -> (String, usize, usize) {
        let names: Vec<&str> = truth.names().collect();
        loop {
            let name = self.one(&names);
            let info = truth.info(name).unwrap();
            let full = IndexBox::full(&info.global_shape);
            let bytes = truth.read(name, &info.global_shape, &full).unwrap();
            let count = bytes.len() / 4;
            let (one, other) = (self.draw(count), self.draw(count));
            if bytes[4 * one..][..4] != bytes[4 * other..][..4] {
                return (name.to_owned(), one, other);
            }
        }
    }

    fn one_bit(&mut self) -> (String, PathBuf) {
        let truth = self.truth();
        let (name, element, _) = self.place(&truth);
        // No bit of the exponent: the number stays finite.
        let bit = self.draw(23);
        let path = self.write(&truth, truth.sections().clone(), |(own, bytes)| {
            if *own == name {
                bytes[4 * element + bit / 8] ^= 1 << (bit % 8);
            }
        });
        (format!("{name}, element {element}, bit {bit}"), path)
    }

    fn exchanged(&mut self) -> (String, PathBuf) {
        let truth = self.truth();
        let (name, one, other) = self.place(&truth);
        let path = self.write(&truth, truth.sections().clone(), |(own, bytes)| {
            if *own == name {
                (0..4).for_each(|byte| bytes.swap(4 * one + byte, 4 * other + byte));
            }
        });
        (format!("{name}, elements {one} and {other}"), path)
    }

    fn number(&mut self) -> (String, PathBuf) {
        let truth = self.truth();
        let mut sections = truth.sections().clone();
        let by = 1 + self.draw(5);
        let scale = &mut sections.trainer["loss_scale"].clone();
        let what = match self.draw(4) {
            0 => {
                sections.trainer["num_updates"] = json!(6 - by);
                format!("num_updates - {by}")
            }
            1 => {
                scale["value"] = json!(1 << by);
                format!("loss_scale {}", 1 << by)
            }
            2 => {
                scale["good_steps"] = json!(by);
                format!("loss_scale.good_steps {by}")
            }
            _ => {
                scale["adapts"] = json!(true);
                "loss_scale.adapts".to_owned()
            }
        };
        sections.trainer["loss_scale"] = scale.take();
        (what, self.write(&truth, sections, |_| {}))
    }

    // The state of step 5, as if it were that of step 6.
    fn step_left_out(&mut self) -> (String, PathBuf) {
        let skipped = 4 + self.draw(2) as u64;
        let state = Reader::open(self.runs.checkpoint("run", skipped)).unwrap();
        let path = self.write(&state, self.truth().sections().clone(), |_| {});
        (format!("the state of step {skipped}"), path)
    }

    // Three steps with another setting, stated as those of the run.
    fn trained(&mut self, setting: &str, flags: &[&str]) -> (String, PathBuf) {
        let name = format!("trained-{}", self.made);
        let own = ["--steps", "6", "--set", setting];
        self.runs
            .resume("run", &name, 3, &[&own[..], flags].concat());
        let state = Reader::open(self.runs.checkpoint(&name, 6)).unwrap();
        let path = self.write(&state, self.truth().sections().clone(), |_| {});
        std::fs::remove_dir_all(self.runs.path(&name)).unwrap();
        (setting.to_owned(), path)
    }

    /// The true state with another of its [`NUM_STATEMENTS`] statements about how it came to be.
    pub fn state_otherwise(&mut self, statement: usize) -> (String, PathBuf) {
        let truth = self.truth();
        let mut sections = truth.sections().clone();
        let place = statements::change(&mut sections, statement);
        (place.to_owned(), self.write(&truth, sections, |_| {}))
    }

    /// The true checkpoint, as that of another step.
    pub fn of_step(&mut self, step: u64) -> PathBuf {
        let truth = self.truth();
        self.write_as(step, &truth, truth.sections().clone(), |_| {})
    }

    // Writes a state, edited, as the checkpoint of step 6 that states this.
    fn write(
        &mut self,
        state: &Reader,
        sections: Sections,
        edit: impl Fn(&mut Elements),
    ) -> PathBuf {
        self.write_as(6, state, sections, edit)
    }

    fn write_as(
        &mut self,
        step: u64,
        state: &Reader,
        sections: Sections,
        edit: impl Fn(&mut Elements),
    ) -> PathBuf {
        self.made += 1;
        let dir = self.runs.root().join(format!("forged-{}", self.made));
        let writer = Writer::begin(&dir, step).unwrap();
        let tensors = state.names().map(|name| {
            let info = state.info(name).unwrap();
            let full = IndexBox::full(&info.global_shape);
            let mut elements = (
                name.to_owned(),
                state.read(name, &info.global_shape, &full).unwrap(),
            );
            edit(&mut elements);
            (elements, info)
        });
        let tensors: Vec<_> = tensors.collect();
        let pieces = tensors.iter().map(|((name, bytes), info)| Piece {
            name,
            dtype: info.dtype,
            global_shape: &info.global_shape,
            layout: &info.layout,
            index: IndexBox::full(&info.global_shape),
            bytes,
        });
        let record = write_shard(writer.dir(), 0, &pieces.collect::<Vec<_>>()).unwrap();
        writer.commit(vec![record], sections).unwrap()
    }
}
