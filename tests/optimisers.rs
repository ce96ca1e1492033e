//! Optimisers against their formulas, and on every grid against one rank: losses, norms, gradients and weights with the same
//! bits, also after a resumption on another grid.

mod formulas {
    use train::{Config, Result, Trainer};

    /// A serial run's weights after each step, and those that `rule` computes from the gradients of the step before.
    pub struct Compared {
        pub names: Vec<String>,
        pub found: Vec<Vec<f64>>,
        pub expected: Vec<Vec<f64>>,
    }

    /// One parameter before an update, in plain numbers.
    pub struct Plain<'a> {
        pub name: &'a str,
        pub shape: &'a [usize],
        pub number: i32,
        pub weights: &'a [f64],
        /// Clipped.
        pub gradients: &'a [f64],
        /// Of the rule's own, from 0.
        pub state: &'a mut [Vec<f64>; 2],
        pub decay: f64,
        pub rate: f64,
    }

    pub fn compare(config: &Config, rule: fn(Plain<'_>) -> Vec<f64>) -> Compared {
        let shared = config.clone();
        testkit::ranks(1, move |world, device| run(&shared, &world, &device, rule)).remove(0)
    }

    fn run(
        config: &Config,
        world: &bootstrap::World,
        device: &tensor::Device,
        rule: fn(Plain<'_>) -> Vec<f64>,
    ) -> Result<Compared> {
        let context = config.context(world, device)?;
        let mut trainer = config.trainer(&context)?;
        let mut states = std::collections::BTreeMap::<String, [Vec<f64>; 2]>::new();
        let (mut names, mut found, mut expected) = (Vec::new(), Vec::new(), Vec::new());
        for step in 0..config.training.steps {
            let batch = testkit::fixed_batch(&trainer, config, step)?;
            trainer.gradients(&batch)?;
            let (weights, gradients) = (
                read(&trainer, Part::Weights)?,
                read(&trainer, Part::Gradient)?,
            );
            let norm = gradients
                .iter()
                .map(|(_, g)| g.iter().map(|x| x * x).sum::<f64>())
                .sum::<f64>();
            let factor = (config.training.clip_norm / (norm.sqrt() + 1e-6)).min(1.0);
            let rate = config.training.optimiser().rate(step);
            for ((parameter, weights), (_, gradients)) in weights.iter().zip(&gradients) {
                let clipped: Vec<f64> = gradients.iter().map(|g| g * factor).collect();
                let zeros = || [(); 2].map(|()| vec![0.0; weights.len()]);
                names.push(format!("{} after step {step}", parameter.name()));
                expected.push(rule(Plain {
                    name: parameter.name(),
                    shape: parameter.global_shape(),
                    number: step as i32 + 1,
                    weights,
                    gradients: &clipped,
                    state: states
                        .entry(parameter.name().to_owned())
                        .or_insert_with(zeros),
                    decay: if parameter.decays() {
                        config.training.weight_decay
                    } else {
                        0.0
                    },
                    rate,
                }));
            }
            trainer.step(&batch)?;
            found.extend(
                read(&trainer, Part::Weights)?
                    .into_iter()
                    .map(|(_, weights)| weights),
            );
        }
        Ok(Compared {
            names,
            found,
            expected,
        })
    }

    use parallel::{Parameter, data::Part};

    fn read(trainer: &Trainer, part: Part) -> Result<Vec<(Parameter, Vec<f64>)>> {
        let mut all = Vec::new();
        trainer
            .parameters()
            .read::<train::Error>(part, |parameter, numbers| {
                all.push((parameter.clone(), numbers));
                Ok(())
            })?;
        Ok(all)
    }
}

use families::GptFamily;
use formulas::{Plain, compare};
use grid::Degrees;
use parallel::{Reproducible, data::Sharding};
use testkit::{bits::check, config, edit_gpt, in_turn, on, train, train_steps};
use train::{
    Config,
    checkpoint::{Reader, diff},
    config::{OptimiserKind, Precision},
    trainer::scalars,
};

fn with(optimiser: OptimiserKind, precision: Precision) -> Config {
    let mut config = config(precision);
    config.training.optimiser = optimiser;
    config.training.reproducible = Reproducible::Grid.into();
    config.training.steps = 4;
    config.training.learning_rate = 3e-3;
    config.training.muon_rate = 0.01;
    config
}

/// Learns with the formula, to this relative difference of the largest weight.
fn follows(config: &Config, rule: fn(Plain<'_>) -> Vec<f64>, tolerance: f64) {
    let compared = compare(&on(config, Degrees::default()), rule);
    assert!(
        compared.found.len() > 40,
        "{} parameters and steps",
        compared.found.len()
    );
    for (index, (found, expected)) in compared.found.iter().zip(&compared.expected).enumerate() {
        let largest = expected
            .iter()
            .fold(0.0f64, |largest, x| largest.max(x.abs()));
        let apart = found
            .iter()
            .zip(expected)
            .fold(0.0f64, |apart, (a, b)| apart.max((a - b).abs()));
        assert!(
            apart <= tolerance * largest.max(1e-3),
            "{}: {apart} of {largest}",
            compared.names[index]
        );
    }
}

fn lion(plain: Plain<'_>) -> Vec<f64> {
    let Plain {
        weights,
        gradients,
        state: [momentum, _],
        decay,
        rate,
        ..
    } = plain;
    let elements = weights.iter().zip(gradients).zip(momentum);
    elements
        .map(|((w, g), m)| {
            let direction = 0.9 * *m + 0.1 * g;
            *m = 0.99 * *m + 0.01 * g;
            let sign = f64::from(i8::from(direction > 0.0) - i8::from(direction < 0.0));
            w - rate * (sign + decay * w)
        })
        .collect()
}

#[test]
fn lion_is_the_published_formula() {
    follows(&with(OptimiserKind::Lion, Precision::F64), lion, 1e-13);
}

/// The product of an m x k and a k x n matrix.
fn product(a: &[f64], b: &[f64], [m, k, n]: [usize; 3]) -> Vec<f64> {
    let mut product = vec![0.0; m * n];
    for i in 0..m {
        for j in 0..n {
            product[i * n + j] = (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum();
        }
    }
    product
}

/// As published: rows are outputs, of at most as many as columns, or transposed.
fn newton_schulz(gradient: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    if rows > columns {
        let turned = newton_schulz(&transposed(gradient, rows, columns), columns, rows);
        return transposed(&turned, columns, rows);
    }
    let norm = gradient.iter().map(|x| x * x).sum::<f64>().sqrt();
    let mut x: Vec<f64> = gradient.iter().map(|g| g / (norm + 1e-7)).collect();
    for _ in 0..5 {
        let gram = product(&x, &transposed(&x, rows, columns), [rows, columns, rows]);
        let square = product(&gram, &gram, [rows, rows, rows]);
        let both: Vec<f64> = gram
            .iter()
            .zip(&square)
            .map(|(a, aa)| -4.775 * a + 2.0315 * aa)
            .collect();
        let added = product(&both, &x, [rows, rows, columns]);
        x.iter_mut()
            .zip(&added)
            .for_each(|(x, added)| *x = 3.4445 * *x + added);
    }
    x
}

fn transposed(x: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    (0..rows * columns)
        .map(|i| x[i % rows * columns + i / rows])
        .collect()
}

fn adamw(plain: Plain<'_>) -> Vec<f64> {
    let Plain {
        weights,
        gradients,
        state: [first, second],
        decay,
        rate,
        number,
        ..
    } = plain;
    let corrections = [0.9f64, 0.99].map(|beta| 1.0 - beta.powi(number));
    let elements = weights
        .iter()
        .zip(gradients)
        .zip(first.iter_mut().zip(second));
    elements
        .map(|((w, g), (m, v))| {
            *m = 0.9 * *m + 0.1 * g;
            *v = 0.99 * *v + 0.01 * g * g;
            let step = *m / corrections[0] / ((*v / corrections[1]).sqrt() + 1e-8);
            w - rate * (step + decay * w)
        })
        .collect()
}

/// The rule by name and shape: weights of linear layers are in x out, and their matrices as published out x in.
fn muon(plain: Plain<'_>) -> Vec<f64> {
    let is_hidden = plain.name.ends_with(".weight")
        && plain.name.starts_with("blocks.")
        && plain.shape.len() == 2;
    if !is_hidden {
        return adamw(plain);
    }
    let Plain {
        weights,
        gradients,
        state: [momentum, _],
        decay,
        rate,
        shape: &[inputs, outputs],
        ..
    } = plain
    else {
        panic!("two dims");
    };
    let direction: Vec<f64> = momentum
        .iter_mut()
        .zip(gradients)
        .map(|(m, g)| {
            *m = 0.95 * *m + 0.05 * g;
            0.05 * g + 0.95 * *m
        })
        .collect();
    let published = newton_schulz(&transposed(&direction, inputs, outputs), outputs, inputs);
    let scale = (outputs as f64 / inputs as f64).max(1.0).sqrt();
    // The configuration's highest rates: 0.01 for matrices, 3e-3 for all else.
    let rate = rate * 0.01 / 3e-3;
    let steps = transposed(&published, outputs, inputs);
    weights
        .iter()
        .zip(steps)
        .map(|(w, step)| w - rate * (scale * step + decay * w))
        .collect()
}

/// The shares of a scale for which bytes stand, as their authors' program makes them: the middles of a linear spacing from 0.1
/// to 1 for each power of 10, and 0 and 1.
fn published_map(is_signed: bool) -> Vec<f64> {
    let mut map = vec![0.0, 1.0];
    for decade in 0..7 {
        let cells = 1 << (decade + i32::from(!is_signed));
        for cell in 0..cells {
            let middle = 0.1 + 0.9 * (f64::from(cell) + 0.5) / f64::from(cells);
            let share = 10f64.powi(decade - 6) * middle;
            map.extend([share].into_iter().chain(is_signed.then_some(-share)));
        }
    }
    assert_eq!(map.len(), 256);
    map
}

/// What becomes of moments that are kept as bytes, in blocks of 256 elements of a row.
fn as_bytes(moments: &mut [f64], columns: usize, is_signed: bool) {
    let map = published_map(is_signed);
    for row in moments.chunks_mut(columns) {
        for block in row.chunks_mut(256) {
            let scale = block.iter().fold(0.0f64, |scale, x| scale.max(x.abs()));
            for moment in block.iter_mut().filter(|moment| **moment != 0.0) {
                let share = *moment / scale;
                // A positive second moment does not become 0.
                let may_be = map.iter().filter(|other| is_signed || **other > 0.0);
                let apart = |other: &&f64| (**other - share).abs();
                let nearest = may_be.min_by(|a, b| apart(a).total_cmp(&apart(b)));
                *moment = nearest.unwrap() * scale;
            }
        }
    }
}

fn adamw8bit(plain: Plain<'_>) -> Vec<f64> {
    let (shape, state) = (plain.shape, plain.state);
    let weights = adamw(Plain {
        state: &mut *state,
        ..plain
    });
    let columns = shape[shape.len() - 1];
    if weights.len() >= 4096 && columns >= 16 {
        let [first, second] = state;
        as_bytes(first, columns, true);
        as_bytes(second, columns, false);
    }
    weights
}

#[test]
fn adamw8bit_is_the_published_formula() {
    let mut config = with(OptimiserKind::AdamW8bit, Precision::F64);
    // Rows of more than a block, and of no whole number of them.
    edit_gpt(&mut config, |model| {
        model.family = GptFamily::Llama;
        model.kv_heads = 4;
        model.mlp_hidden = 600;
    });
    follows(&config, adamw8bit, 1e-11);
    config.training.reproducible = Reproducible::Run.into();
    follows(&config, adamw8bit, 1e-11);
}

#[test]
fn muon_is_the_published_formula() {
    let mut config = with(OptimiserKind::Muon, Precision::F64);
    edit_gpt(&mut config, |model| {
        model.family = GptFamily::Llama;
        model.kv_heads = 4;
        model.mlp_hidden = 40;
    });
    follows(&config, muon, 1e-9);
    config.training.reproducible = Reproducible::Run.into();
    follows(&config, muon, 1e-9);
}

/// As published, with the second moments of matrices from the means of their rows and columns, and those of vectors in full.
fn adafactor(plain: Plain<'_>) -> Vec<f64> {
    let Plain {
        shape,
        number,
        weights,
        gradients,
        state: [first, second],
        decay,
        rate,
        ..
    } = plain;
    let beta = 1.0 - f64::from(number).powf(-0.8);
    let moved = |old: &mut f64, square: f64| *old = beta * *old + (1.0 - beta) * square;
    let squares: Vec<f64> = gradients.iter().map(|g| g * g + 1e-30).collect();
    let moments: Vec<f64> = match *shape {
        [rows, columns] => {
            for (of_row, old) in squares.chunks(columns).zip(&mut *first) {
                moved(old, of_row.iter().sum::<f64>() / columns as f64);
            }
            for (column, old) in second.iter_mut().enumerate().take(columns) {
                let of_column: f64 = squares.iter().skip(column).step_by(columns).sum();
                moved(old, of_column / rows as f64);
            }
            let mean = first[..rows].iter().sum::<f64>() / rows as f64;
            let elements = 0..rows * columns;
            let moment = |at: usize| first[at / columns] * second[at % columns] / mean;
            elements.map(moment).collect()
        }
        _ => {
            first
                .iter_mut()
                .zip(&squares)
                .for_each(|(old, square)| moved(old, *square));
            first.clone()
        }
    };
    let directions = gradients.iter().zip(&moments).map(|(g, v)| g / v.sqrt());
    let directions: Vec<f64> = directions.collect();
    let squares: f64 = directions.iter().map(|u| u * u).sum();
    let size = (squares / directions.len() as f64).sqrt();
    let steps = directions.iter().map(|u| u / size.max(1.0));
    let steps = weights.iter().zip(steps);
    steps.map(|(w, u)| w - rate * (u + decay * w)).collect()
}

#[test]
fn adafactor_is_the_published_formula() {
    let mut config = with(OptimiserKind::Adafactor, Precision::F64);
    follows(&config, adafactor, 1e-9);
    config.training.reproducible = Reproducible::Run.into();
    edit_gpt(&mut config, |model| {
        model.family = GptFamily::Llama;
        model.kv_heads = 4;
        model.mlp_hidden = 40;
    });
    follows(&config, adafactor, 1e-9);
}

const GRIDS: &str = "x=2 y=2 z=2 data=2 pipeline=2 x=2,y=2,z=2 y=2,data=2,pipeline=2";

/// The bits of one rank on these grids, with the state of replicas sharded and not.
fn same_bits(config: &Config, grids: &str) {
    let expected = train(&on(config, Degrees::default()));
    assert!(
        expected.losses.last() < expected.losses.first(),
        "the model learns: {:?}",
        expected.losses
    );
    for grid in grids.split_whitespace() {
        for sharding in Sharding::ALL {
            let mut config = on(config, grid.parse().unwrap());
            if sharding != Sharding::None && config.parallel.grid.data == 1 {
                continue;
            }
            config.parallel.sharding = sharding;
            check(
                &train(&config),
                &expected,
                &format!("{grid}, sharding {sharding}"),
            );
        }
    }
}

fn on_all_grids(optimiser: OptimiserKind) {
    for (number, precision) in [Precision::F32, Precision::Bf16].into_iter().enumerate() {
        let grids = GRIDS.split_whitespace().enumerate();
        let grids = grids.filter(|(index, _)| in_turn(*index, [0, 1]).contains(&number));
        let grids: Vec<&str> = grids.map(|(_, grid)| grid).collect();
        same_bits(&with(optimiser, precision), &grids.join(" "));
    }
    let mut llama = with(optimiser, Precision::F32);
    edit_gpt(&mut llama, |model| {
        model.family = GptFamily::Llama;
        model.hidden = 64;
        model.kv_heads = 4;
        model.mlp_hidden = 80;
        model.tied_head = false;
        model.vocabulary = 160;
    });
    same_bits(&llama, "x=2,data=2 y=2,z=2 data=4");
    let mut three = with(optimiser, Precision::F32);
    edit_gpt(&mut three, |model| {
        (model.hidden, model.heads, model.context) = (96, 12, 16);
    });
    (three.training.batch, three.training.micro_batches) = (12, 1);
    same_bits(&three, "x=3 y=3 z=3 data=3 pipeline=3 x=3,data=2");
}

/// A run stopped on one grid and resumed on another ends with the losses and the state of the serial run.
fn resumes(optimiser: OptimiserKind) {
    let config = with(optimiser, Precision::F32);
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    let expected = train_steps(&on(&config, Degrees::default()), 0..4, None, Some(&whole));
    for (first, second) in [
        ("x=1", "x=2,y=2,z=2"),
        ("z=2,data=2", "y=2,pipeline=2"),
        ("x=2,pipeline=2", "data=4"),
    ] {
        let [stopped, ended] = ["stopped", "ended"]
            .map(|part| folder.path().join(format!("{first}, {second}, {part}")));
        let mut one = on(&config, first.parse().unwrap());
        one.parallel.sharding = Sharding::Optimiser;
        let losses = train_steps(&one, 0..2, None, Some(&stopped));
        assert_eq!(losses, expected[..2], "{first}, {second}");
        let mut other = on(&config, second.parse().unwrap());
        other.parallel.sharding = Sharding::Optimiser;
        let losses = train_steps(&other, 2..4, Some(&stopped), Some(&ended));
        assert_eq!(losses, expected[2..], "{first}, {second}");
        let [found, whole] = [&ended, &whole].map(|path| Reader::open(path).unwrap());
        let numbers = [&found, &whole].map(|reader| scalars(reader).unwrap());
        let report = diff([&found, &whole], [&numbers[0], &numbers[1]]).unwrap();
        assert!(report.equal, "{first}, {second}: {report}");
    }
}

#[test]
fn lion_has_the_same_bits_on_every_grid() {
    on_all_grids(OptimiserKind::Lion);
}

#[test]
fn lion_resumes_on_another_grid() {
    resumes(OptimiserKind::Lion);
}

#[test]
fn adafactor_has_the_same_bits_on_every_grid() {
    on_all_grids(OptimiserKind::Adafactor);
}

#[test]
fn adafactor_resumes_on_another_grid() {
    resumes(OptimiserKind::Adafactor);
}

#[test]
fn adamw8bit_has_the_same_bits_on_every_grid() {
    on_all_grids(OptimiserKind::AdamW8bit);
}

#[test]
fn adamw8bit_has_the_same_bits_where_cuts_are_those_of_blocks() {
    let mut config = with(OptimiserKind::AdamW8bit, Precision::F32);
    edit_gpt(&mut config, |model| (model.hidden, model.heads) = (128, 8));
    same_bits(&config, "x=2 y=2,data=2");
}

#[test]
fn adamw8bit_resumes_on_another_grid() {
    resumes(OptimiserKind::AdamW8bit);
}

#[test]
fn muon_has_the_same_bits_on_every_grid() {
    on_all_grids(OptimiserKind::Muon);
}

#[test]
fn muon_resumes_on_another_grid() {
    resumes(OptimiserKind::Muon);
}
