//! Four ranks train candle's models to the losses and weights of one rank. As threads, and under `mpirun -n 4`.

use crate::models::{
    ConvNet, Deep, Llama, Mlp, Model, ROWS, Regression, Transformer, fill, images,
};
use candle_core::{DType, Device, IndexOp, Module, Tensor};
use candle_nn::{AdamW, Linear, Optimizer, SGD, VarBuilder, VarMap, loss};
use fascicle_candle::{
    AxisGroup, Error, GradStoreReducer, NamedVars, ReducerOptions, Result, ShardedVarBuilder,
    TensorParallel,
    library::{job, parallel::Context},
};

/// Losses of steps, and all weights at the end, by name.
type Outcome = (Vec<f64>, Vec<(String, Vec<f64>)>);

#[derive(Clone, Copy)]
struct Case {
    dtype: DType,
    sharded: bool,
    average: bool,
    bucket_bytes: usize,
}

fn train<M: Model, O: Optimizer>(
    context: &Context,
    case: Case,
    optimiser: fn(Vec<candle_core::Var>) -> candle_core::Result<O>,
) -> Result<Outcome> {
    let map = VarMap::new();
    let model = M::new(VarBuilder::from_varmap(&map, case.dtype, &Device::Cpu))?;
    let vars = NamedVars::of_map(&map)?;
    let group = AxisGroup::named(context, "data")?;
    let (rank, ranks) = (group.rank(), group.size());
    // The others receive what rank 0 has.
    if rank == 0 {
        fill(&vars)?;
    }
    vars.broadcast(&group)?;
    let shards = case.sharded.then(|| vars.shards(&group)).transpose()?;
    let options = ReducerOptions {
        bucket_bytes: case.bucket_bytes,
        average: case.average,
        shards,
    };
    let mut reducer = GradStoreReducer::new(&group, vars.clone(), options)?;
    let mut optimiser = optimiser(reducer.own_vars())?;
    assert_eq!(
        reducer.own_vars().len() < vars.iter().count(),
        case.sharded && ranks > 1
    );
    let rows = ROWS * rank / ranks..ROWS * (rank + 1) / ranks;
    let mut losses = Vec::new();
    for _step in 0..8 {
        let mean = model.loss(rows.clone())?;
        let share = if case.average {
            mean.clone()
        } else {
            (&mean / ranks as f64)?
        };
        let mut gradients = share.backward()?;
        reducer.reduce(&mut gradients)?;
        optimiser.step(&gradients)?;
        reducer.gather()?;
        let mut loss = [mean.to_dtype(DType::F64)?.to_scalar::<f64>()? / ranks as f64];
        group.all_reduce(&mut loss, fascicle_candle::library::tensor::ReduceOp::Sum)?;
        losses.push(loss[0]);
    }
    Ok((losses, weights(&vars)?))
}

fn weights(vars: &NamedVars) -> Result<Vec<(String, Vec<f64>)>> {
    let of = |(name, var): (&str, &candle_core::Var)| {
        Ok((
            name.to_owned(),
            var.flatten_all()?.to_dtype(DType::F64)?.to_vec1()?,
        ))
    };
    vars.iter().map(of).collect()
}

fn on(
    grid: &str,
    body: impl Fn(&Context) -> Result<Outcome> + Send + Sync + 'static,
) -> Vec<Outcome> {
    let ran = job().grid(grid).expect("a grid").run(body);
    ran.unwrap_or_else(|error| panic!("{grid}: {error}"))
}

/// The largest difference of two trainings, relative to the loss or to the largest element of the parameter.
fn difference(one: &Outcome, other: &Outcome) -> f64 {
    let losses = |(losses, _): &Outcome| losses.iter().map(|&loss| vec![loss]).collect::<Vec<_>>();
    let numbers = |outcome: &Outcome| {
        let weights = outcome.1.iter().map(|(_, values)| values.clone());
        losses(outcome)
            .into_iter()
            .chain(weights)
            .collect::<Vec<_>>()
    };
    let (one, other) = (numbers(one), numbers(other));
    assert_eq!(one.len(), other.len());
    let pairs = one.iter().zip(&other);
    pairs
        .map(|(one, other)| relative(one, other))
        .fold(0.0, f64::max)
}

fn relative(one: &[f64], other: &[f64]) -> f64 {
    assert_eq!(one.len(), other.len());
    assert!(other.iter().all(|value| value.is_finite()));
    let differences = one.iter().zip(other).map(|(a, b)| (a - b).abs());
    let size = one.iter().fold(0.0, |size: f64, it| size.max(it.abs()));
    differences.fold(0.0, f64::max) / size
}

fn compare(body: impl Fn(&Context) -> Result<Outcome> + Clone + Send + Sync + 'static) {
    let alone = &on("data=1", body.clone())[0];
    assert!(alone.0[7] < 0.97 * alone.0[0], "it learns: {:?}", alone.0);
    for other in on("data=4", body) {
        let difference = difference(alone, &other);
        assert!(difference < 1e-6, "differs by {difference}");
    }
}

const CASES: [Case; 3] = [
    Case {
        dtype: DType::F32,
        sharded: false,
        average: true,
        bucket_bytes: 25 << 20,
    },
    Case {
        dtype: DType::F32,
        sharded: false,
        average: false,
        bucket_bytes: 1000,
    },
    Case {
        dtype: DType::F32,
        sharded: true,
        average: true,
        bucket_bytes: 1000,
    },
];

#[test]
fn perceptrons_on_four_ranks_are_those_of_one() {
    for case in CASES {
        compare(move |context| train::<Mlp, SGD>(context, case, |vars| SGD::new(vars, 0.02)));
        compare(move |context| {
            train::<Regression, AdamW>(context, case, |vars| AdamW::new_lr(vars, 0.1))
        });
        compare(move |context| train::<ConvNet, SGD>(context, case, |vars| SGD::new(vars, 0.02)));
    }
}

#[test]
fn transformers_on_four_ranks_are_those_of_one() {
    for case in CASES {
        compare(move |context| {
            train::<Transformer, SGD>(context, case, |vars| SGD::new(vars, 0.1))
        });
        compare(move |context| train::<Llama, SGD>(context, case, |vars| SGD::new(vars, 0.5)));
        // Adam divides by the size of a gradient, so in f32 the last digits of one near 0 would decide a step.
        let case = Case {
            dtype: DType::F64,
            ..case
        };
        compare(move |context| {
            train::<Transformer, AdamW>(context, case, |vars| AdamW::new_lr(vars, 0.01))
        });
    }
}

/// The deep perceptron with the hidden units of its last two layers cut over X, and its rows over Data.
fn train_cut(context: &Context, path: &std::path::Path) -> Result<Outcome> {
    let (x, data) = (
        AxisGroup::named(context, "x")?,
        AxisGroup::named(context, "data")?,
    );
    let map = VarMap::new();
    let parallel = TensorParallel::new(&x);
    let builder = ShardedVarBuilder::from_safetensors(&x, &map, DType::F32, &[path])?;
    let (first, second) = (builder.pp("ln1"), builder.pp("ln2"));
    let zero = candle_nn::init::ZERO;
    let whole = builder.pp("ln0");
    let whole = Linear::new(
        whole.replicated((32, 784), "weight", zero)?,
        Some(whole.replicated(32, "bias", zero)?),
    );
    let up = Linear::new(
        first.sharded((100, 32), "weight", 0, zero)?,
        Some(first.sharded(100, "bias", 0, zero)?),
    );
    let down = Linear::new(second.sharded((10, 100), "weight", 1, zero)?, None);
    let bias = second.replicated(10, "bias", zero)?;
    let vars = NamedVars::of_map(&map)?;
    let mut reducer = GradStoreReducer::new(&data, vars.clone(), ReducerOptions::default())?;
    let mut optimiser = SGD::new(reducer.own_vars(), 0.02)?;
    let (rank, ranks) = (data.rank(), data.size());
    let mut losses = Vec::new();
    for _step in 0..8 {
        let rows = ROWS * rank / ranks..ROWS * (rank + 1) / ranks;
        let (images, labels) = images(rows, DType::F32)?;
        let x = parallel.all_reduce_gradient(&whole.forward(&images)?.relu()?)?;
        let hidden = up.forward(&x)?.relu()?;
        let logits = parallel
            .all_reduce(&down.forward(&hidden)?)?
            .broadcast_add(&bias)?;
        let mean = loss::cross_entropy(&logits, &labels)?;
        let mut gradients = mean.backward()?;
        reducer.reduce(&mut gradients)?;
        optimiser.step(&gradients)?;
        let mut loss = [mean.to_scalar::<f32>()? / ranks as f32];
        data.all_reduce(&mut loss, fascicle_candle::library::tensor::ReduceOp::Sum)?;
        losses.push(f64::from(loss[0]));
    }
    Ok((losses, weights(&vars)?))
}

#[test]
fn a_perceptron_cut_over_x_trains_as_the_complete_one() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("initial.safetensors");
    let map = VarMap::new();
    Deep::new(VarBuilder::from_varmap(&map, DType::F32, &Device::Cpu))?;
    let vars = NamedVars::of_map(&map)?;
    fill(&vars)?;
    map.save(&path)?;
    let case = Case {
        average: true,
        ..CASES[0]
    };
    let alone = on("x=1", move |context| {
        train::<Deep, SGD>(context, case, |vars| SGD::new(vars, 0.02))
    });
    for grid in ["x=2,data=2", "x=4"] {
        let path = path.clone();
        let all = on(grid, move |context| train_cut(context, &path));
        let ranks = if grid == "x=4" { 4 } else { 2 };
        for (index, (losses, found)) in all.into_iter().enumerate() {
            assert_eq!(losses.len(), 8);
            let part = index % ranks;
            let wanted = vars
                .iter()
                .zip(&alone[0].1)
                .map(|((name, var), (_, values))| {
                    let whole = Tensor::from_slice(values, var.shape(), &Device::Cpu)?;
                    let size = 100 / ranks;
                    let (from, to) = (part * size, (part + 1) * size);
                    let own = match name {
                        "ln1.weight" | "ln1.bias" => whole.i(from..to)?,
                        "ln2.weight" => whole.i((.., from..to))?,
                        _ => whole,
                    };
                    Ok((name.to_owned(), own.flatten_all()?.to_vec1::<f64>()?))
                });
            let wanted = wanted
                .collect::<candle_core::Result<Vec<_>>>()
                .map_err(Error::from)?;
            let difference = difference(&(alone[0].0.clone(), wanted), &(losses, found));
            assert!(
                difference < 1e-6,
                "{grid}, rank {index}: differs by {difference}"
            );
        }
    }
    Ok(())
}
