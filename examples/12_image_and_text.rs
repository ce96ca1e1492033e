//! Two inputs and two outputs: an image tower and a text tower learn which of several captions fits an image, and
//! also the class of the image. The towers are segments in sequence, connected by wires; the objective adds two
//! losses.
//!
//! `cargo run --release --example 12_image_and_text`

mod on_grids;

use fascicle::hal::random::Key;
use fascicle::nn::{Embedding, Linear};
use fascicle::prelude::*;
use fascicle::train::{self, batches::FromFn, config::Precision};
use on_grids::{on, same};

const PATCHES: usize = 4;
const PIXELS: usize = 6;
const CAPTIONS: usize = 3;
const TOKENS: usize = 5;
const VOCABULARY: usize = 24;
const CLASSES: usize = 4;
const HIDDEN: usize = 16;
const STEPS: usize = 60;

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
        Ok(Pair {
            patches: builder.linear_transposed("patches", PIXELS, HIDDEN)?,
            image: builder.segment(1).linear("image", HIDDEN, HIDDEN)?,
            words: builder
                .segment(2)
                .embedding("words", VOCABULARY, HIDDEN, Init::Normal(0.5))?,
            text: builder.segment(3).linear("text", HIDDEN, HIDDEN)?,
            temperature: builder.segment(4).scalar("temperature", 4.0)?,
            class: builder.segment(4).linear("class", HIDDEN, CLASSES)?,
        })
    }
}

/// Scales every vector to length 1.
fn unit(x: &DTensor) -> Result<DTensor> {
    x.div(
        &x.square()?
            .sum_features()?
            .shift(1e-6)?
            .sqrt()?
            .expand_like(x)?,
    )
}

impl Model for Pair {
    fn num_segments(&self) -> usize {
        5
    }

    fn routes(&self) -> Vec<Route> {
        vec![
            Route::new("patches", 0, 1),
            Route::new("image", 1, 4),
            Route::new("words", 2, 3),
            Route::new("text", 3, 4),
            Route::new("scores", 4, 5),
            Route::new("classes", 4, 5),
        ]
    }

    fn forward(
        &self,
        segment: usize,
        pass: &Pass,
        batch: &MicroBatch,
        mut wires: Wires,
    ) -> Result<Wires> {
        Ok(match segment {
            0 => {
                let patches = self.patches.forward(&batch.input(pass, "image")?)?;
                Wires::of("patches", patches.tanh()?)
            }
            1 => {
                let mean = wires.take("patches")?.mean_dim(1)?;
                Wires::of("image", self.image.forward(&mean)?)
            }
            2 => {
                let words = self.words.forward(pass, batch.tensor("captions")?)?;
                Wires::of("words", words.mean_dim(2)?)
            }
            3 => Wires::of("text", self.text.forward(&wires.take("words")?)?),
            _ => {
                let image = wires.take("image")?;
                let (query, keys) = (unit(&image)?, unit(&wires.take("text")?)?);
                let scores = query.reshape(&[1, HIDDEN])?.matmul_transposed(&keys, 1)?;
                Wires::of(
                    "scores",
                    scores.reshape(&[CAPTIONS])?.scale_by(&self.temperature)?,
                )
                .with("classes", self.class.forward(&image.tanh()?)?)
            }
        })
    }

    fn objective(&self, _pass: &Pass, batch: &MicroBatch, mut wires: Wires) -> Result<Loss> {
        let fits = wires
            .take("scores")?
            .cross_entropy(batch.tensor("fits")?, CAPTIONS)?;
        let class = wires
            .take("classes")?
            .cross_entropy(batch.tensor("class")?, CLASSES)?;
        fits.add(&class.scale(0.5)?)
    }
}

/// Images of a class with noise, each with captions of which one belongs to that class; the same for every grid.
pub(crate) fn pairs(step: u64, rows: std::ops::Range<usize>) -> train::Result<Rows> {
    let key = Key::new(5, "pairs", step);
    let draw = |row: usize, place: usize| key.word((row * 1000 + place) as u64) as usize;
    let class = |row: usize| draw(row, 0) % CLASSES;
    let fits = |row: usize| draw(row, 1) % CAPTIONS;
    let pixel = |row: usize, i: usize| {
        let shape = ((i + 1) as f64 * (1.0 + class(row) as f64) * 0.7).sin();
        shape + 0.2 * key.normal((row * 1000 + 100 + i) as u64)
    };
    let token = |row: usize, i: usize| {
        // The matching caption has words of its class, and each other caption has those of another class.
        let other = (i / TOKENS + CAPTIONS - fits(row)) % CAPTIONS;
        let of_class = (class(row) + other) % CLASSES;
        (of_class * (VOCABULARY / CLASSES) + draw(row, 500 + i) % (VOCABULARY / CLASSES)) as u32
    };
    let each = |count: usize| {
        rows.clone()
            .flat_map(move |row| (0..count).map(move |i| (row, i)))
    };
    let image: Vec<f64> = each(PATCHES * PIXELS)
        .map(|(row, i)| pixel(row, i))
        .collect();
    let captions: Vec<u32> = each(CAPTIONS * TOKENS)
        .map(|(row, i)| token(row, i))
        .collect();
    Ok(Rows::new()
        .with("image", &[PATCHES, PIXELS], image)
        .with("captions", &[CAPTIONS, TOKENS], captions)
        .with(
            "fits",
            &[],
            rows.clone().map(|row| fits(row) as u32).collect::<Vec<_>>(),
        )
        .with(
            "class",
            &[],
            rows.clone()
                .map(|row| class(row) as u32)
                .collect::<Vec<_>>(),
        ))
}

fn train(context: &Context) -> train::Result<Vec<f64>> {
    let options = Options {
        batch: 16,
        micro_batches: 2,
        precision: Precision::F64,
        ..Options::default()
    };
    let mut trainer = Trainer::new(context, Pair::new, AdamW::new(0.03), options)?;
    let step = |_| Ok(trainer.step(&trainer.batch(&FromFn(pairs))?)?.loss);
    (0..STEPS).map(step).collect()
}

fn main() -> train::Result<()> {
    let serial = on("x=1", train)?.expect("one rank").swap_remove(0);
    same("serial", &serial, &serial);
    // Chance level is ln 3 + ln 4 / 2.
    assert!(
        serial[0] > 1.0 && serial[STEPS - 1] < 0.15,
        "it learns: {serial:?}"
    );
    for grid in [
        "x=2",
        "y=2",
        "z=2,data=2",
        "pipeline=3",
        "x=2,pipeline=2",
        "y=2,pipeline=2",
        "pipeline=5",
    ] {
        if let Some(seen) = on(grid, train)? {
            same(grid, &seen[0], &serial);
        }
    }
    Ok(())
}
