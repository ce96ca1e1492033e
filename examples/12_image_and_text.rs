//! Two inputs and two outputs: an image tower and a text tower that learn which of several captions fits an image, and a
//! class of the image besides. Towers are segments in sequence, joined by wires; the objective adds two losses.
//!
//! `cargo run --release --example 12_image_and_text`

mod on_grids;

use fascicle::{prelude::*, train};
use std::{array::from_fn, ops::Range};

const PIXELS: usize = 6;
const CAPTIONS: usize = 3;
const TOKENS: usize = 5;
const CLASSES: usize = 4;
const WORDS: usize = 6;
const HIDDEN: usize = 16;

pub(crate) struct Pair {
    patches: Linear,
    image: Linear,
    words: Embedding,
    text: Linear,
    temperature: Parameter,
    class: Linear,
}

impl Pair {
    pub(crate) fn new(builder: &Builder) -> Result<Pair> {
        let [image, text, last] = [0, 1, 2].map(|segment| builder.segment(segment));
        Ok(Pair {
            patches: image.linear_transposed("patches", PIXELS, HIDDEN)?,
            image: image.linear("image", HIDDEN, HIDDEN)?,
            words: text.embedding("words", CLASSES * WORDS, HIDDEN, Init::Normal(0.5))?,
            text: text.linear("text", HIDDEN, HIDDEN)?,
            temperature: last.scalar("temperature", 4.0)?,
            class: last.linear("class", HIDDEN, CLASSES)?,
        })
    }
}

impl Model for Pair {
    fn num_segments(&self) -> usize {
        3
    }

    fn routes(&self) -> Vec<Route> {
        let towers = [Route::new("image", 0, 2), Route::new("text", 1, 2)];
        let outputs = [Route::new("scores", 2, 3), Route::new("classes", 2, 3)];
        [towers, outputs].concat()
    }

    fn forward(&self, segment: usize, input: &Input<'_>, mut wires: Wires) -> Result<Wires> {
        Ok(match segment {
            0 => {
                let patches = self.patches.forward(&input.activation("image")?)?;
                let mean = patches.tanh()?.mean_dim(1)?;
                Wires::of("image", self.image.forward(&mean)?)
            }
            1 => {
                let (pass, ids) = (input.pass(), input.tensor("captions")?);
                let mean = self.words.forward(pass, ids)?.mean_dim(2)?;
                Wires::of("text", self.text.forward(&mean)?)
            }
            _ => {
                let (image, text) = (wires.take("image")?, wires.take("text")?);
                let query = image.unit_features(1e-6)?.reshape(&[1, HIDDEN])?;
                let scores = query.matmul_transposed(&text.unit_features(1e-6)?, 1)?;
                let scores = scores.reshape(&[CAPTIONS])?.scale_by(&self.temperature)?;
                Wires::of("scores", scores).with("classes", self.class.forward(&image.tanh()?)?)
            }
        })
    }

    fn objective(&self, input: &Input<'_>, mut wires: Wires) -> Result<Loss> {
        let (scores, classes) = (wires.take("scores")?, wires.take("classes")?);
        let class = classes.cross_entropy(input.tensor("class")?, CLASSES)?;
        let fits = scores.cross_entropy(input.tensor("fits")?, CAPTIONS)?;
        fits.add(&class.scale(0.5)?)
    }
}

/// Images of a class with noise, each with captions of which one is of that class; the same for every grid.
pub(crate) fn pairs(step: u64, rows: Range<usize>) -> train::Result<Rows> {
    let key = Key::new(5, "pairs", step);
    let draw = |row: usize, place: usize| key.word((row * 1000 + place) as u64) as usize;
    let (class, fits) = (|row| draw(row, 0) % CLASSES, |row| draw(row, 1) % CAPTIONS);
    let image = |row: usize| -> [[f64; PIXELS]; 4] {
        let wave = |i: usize| ((i + 1) as f64 * (1.0 + class(row) as f64) * 0.7).sin();
        let pixel = |i: usize| wave(i) + 0.2 * key.normal((row * 1000 + 100 + i) as u64);
        from_fn(|patch| from_fn(|place| pixel(patch * PIXELS + place)))
    };
    // The caption that fits has words of the image's class, each other one those of another class.
    let captions = |row: usize| -> [[u32; TOKENS]; CAPTIONS] {
        let turned = |of: usize| class(row) + (of + CAPTIONS - fits(row)) % CAPTIONS;
        let word = |i: usize| draw(row, 500 + i) % WORDS;
        let token = |of, i| turned(of) % CLASSES * WORDS + word(of * TOKENS + i);
        from_fn(|caption| from_fn(|i| token(caption, i) as u32))
    };
    Ok(Rows::new()
        .each("image", rows.clone(), image)
        .each("captions", rows.clone(), captions)
        .each("fits", rows.clone(), |row| fits(row) as u32)
        .each("class", rows, |row| class(row) as u32))
}

fn trainer(context: &Context) -> train::Result<Trainer> {
    let options = Options::new(16, 2).precision(Precision::F64);
    Trainer::new(context, Pair::new, AdamW::new(0.03), options)
}

fn main() -> train::Result<()> {
    let serial = on_grids::serial(trainer, pairs, 60)?;
    // By chance it would be ln 3 + ln 4 / 2.
    assert!(serial[0] > 1.0 && serial[59] < 0.15, "{serial:?}");
    for grid in ["x=2", "z=2,data=2", "y=2,pipeline=2", "pipeline=3"] {
        on_grids::same(grid, trainer, pairs, &serial)?;
    }
    on_grids::resumed(["y=2,pipeline=2", "x=2,data=2"], trainer, pairs, &serial)
}
