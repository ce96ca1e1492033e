//! Operations for model authors: values and gradients on every grid equal those of one rank, and gradients on
//! one rank match finite differences.

use bootstrap::{World, local};
use fascicle_parallel::{
    Context, DTensor, Error, Init, Parameter, Pass, Result, Scope, Settings,
    data::{ParameterSet, SetOptions},
    layers::Loss,
};
use grid::{Axis, AxisOrder, Grid, Layout, shard_range};
use std::ops::Range;
use tensor::{DType, Device, Tensor, Var, autograd::backward};

const ROWS: usize = 4;

/// The inputs of an operation.
struct Given {
    x: DTensor,
    y: DTensor,
    parameters: Vec<Parameter>,
    ids: Tensor,
    mask: Tensor,
}

/// An operation, with the shape of a row of its inputs, their layout, and shapes and layouts of its parameters.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    x: &'static [usize],
    y: &'static [usize],
    cut: Option<Axis>,
    parameters: &'static [(usize, Option<Axis>)],
    run: fn(&Given) -> Result<DTensor>,
}

const PLAIN: Case = Case {
    name: "",
    x: &[3, 5],
    y: &[3, 5],
    cut: None,
    parameters: &[],
    run: |given| Ok(given.x.clone()),
};

macro_rules! cases {
    ($($name:literal { $($field:ident: $value:expr),* $(,)? })*) => {
        &[$(Case { name: $name, $($field: $value,)* ..PLAIN }),*]
    };
}

const X: Option<Axis> = Some(Axis::X);
const Y: Option<Axis> = Some(Axis::Y);

const CASES: &[Case] = cases! {
    "sum_features" { cut: X, run: |g| g.x.sum_features() }
    "sum_features whole" { run: |g| g.x.sum_features() }
    "mean_features" { cut: Y, run: |g| g.x.mean_features() }
    "unit_features" { cut: X, run: |g| g.x.unit_features(1e-3) }
    "expand_features" { x: &[3, 1], run: |g| g.x.expand_features(5, X) }
    "expand_like" { x: &[3, 1], cut: Y, run: |g| g.x.expand_like(&g.y) }
    "standardised" { cut: X, run: |g| {
        let centred = g.x.sub(&g.x.mean_features()?.expand_like(&g.x)?)?;
        centred.mul(&g.y)?.add(&centred.square()?.mean_features()?.expand_like(&centred)?)
    } }
    "softmax" { cut: X, run: |g| g.x.softmax() }
    "log_softmax" { run: |g| g.x.log_softmax() }
    "softmax_runs in place" { x: &[3, 8], cut: X, run: |g| g.x.softmax_runs(4) }
    "softmax_runs" { x: &[3, 6], cut: Y, run: |g| g.x.softmax_runs(2) }
    "add_row" { cut: X, parameters: &[(5, None)], run: |g| g.x.add_row(&g.parameters[0]) }
    "add_row, cut" { cut: X, parameters: &[(5, Y)], run: |g| g.x.add_row(&g.parameters[0]) }
    "add_row, whole" { parameters: &[(5, None)], run: |g| g.x.add_row(&g.parameters[0]) }
    "mul_row" { cut: Y, parameters: &[(5, None)], run: |g| g.x.mul_row(&g.parameters[0]) }
    "mul_row, cut" { cut: Y, parameters: &[(5, Y)], run: |g| g.x.mul_row(&g.parameters[0]) }
    "scale_by" { cut: X, parameters: &[(1, None)], run: |g| g.x.scale_by(&g.parameters[0]) }
    "scale_by, whole" { parameters: &[(1, None)], run: |g| g.x.scale_by(&g.parameters[0]) }
    "arithmetic" { cut: Y, run: |g| {
        let positive = g.y.square()?.add(&g.x.exp()?)?;
        g.x.div(&positive)?.add(&positive.log()?.neg()?.shift(0.5)?)?.mul(&positive.sqrt()?.sigmoid()?)
    } }
    "reshape" { x: &[2, 3, 5], cut: X, run: |g| g.x.reshape(&[6, 5]) }
    "reshape of features" { x: &[2, 6], cut: Y, run: |g| g.x.reshape(&[4, 3]) }
    "permute" { x: &[2, 3, 5], cut: X, run: |g| g.x.permute(&[0, 2, 1, 3]) }
    "permute of features" { x: &[2, 3, 4], cut: X, run: |g| g.x.permute(&[0, 3, 1, 2]) }
    "slice" { cut: Y, run: |g| g.x.slice(1, 1, 2) }
    "slice of features" { cut: Y, run: |g| g.x.slice(2, 1, 3) }
    "concat" { cut: X, run: |g| DTensor::concat(&[&g.x, &g.y.whole("test")?], 1) }
    "concat of features" { cut: X, run: |g| DTensor::concat(&[&g.x, &g.y, &g.x], 2) }
    "sum_dim" { cut: X, run: |g| g.x.sum_dim(1) }
    "mean_dim" { x: &[2, 3, 4], run: |g| g.x.mean_dim(2) }
    "select" { cut: X, run: |g| g.x.select(&g.mask, &g.y.whole("test")?) }
    "gather" { cut: Y, run: |g| g.x.gather(&g.ids) }
    "one_hot" { x: &[2, 3], run: |g| g.x.one_hot(&g.ids)?.mul(&g.x.softmax()?) }
    "one_hot of a cut" { x: &[2, 3], cut: X, run: |g| {
        g.x.one_hot(&g.ids)?.mul(&g.x.square()?)
    } }
    "matmul" { x: &[2, 3], y: &[3, 5], cut: X, run: |g| g.x.matmul(&g.y, 1) }
    "matmul_transposed" { x: &[2, 5], cut: Y, run: |g| g.x.matmul_transposed(&g.y, 1) }
    "matmul of heads" { x: &[2, 12], y: &[3, 8], cut: X, run: |g| g.x.matmul(&g.y, 4) }
    "attention" { x: &[3, 6], y: &[3, 6], cut: X, run: |g| {
        g.x.matmul_transposed(&g.y, 2)?.softmax_runs(3)?.matmul(&g.y, 2)
    } }
};

fn numbers(count: usize, seed: f64) -> Vec<f64> {
    let number = |i: usize| ((i as f64 + 1.0) * 1.37 + seed).sin();
    (0..count).map(number).collect()
}

/// Values of the inputs and parameters of a case.
fn given_numbers(case: &Case) -> Vec<Vec<f64>> {
    let of_row = |shape: &[usize]| ROWS * shape.iter().product::<usize>();
    let parameters = case.parameters.iter().map(|(features, _)| *features);
    let counts = [of_row(case.x), of_row(case.y)].into_iter();
    let counts = counts.chain(parameters).enumerate();
    counts.map(|(i, count)| numbers(count, i as f64)).collect()
}

/// The results of a rank: its loss, its rows of the result and of the inputs' gradients, its pieces of the
/// parameters' gradients.
#[derive(Debug)]
struct Seen {
    rows: Range<usize>,
    loss: f64,
    out: Vec<f64>,
    inputs: [Vec<f64>; 2],
    parameters: Vec<Vec<(usize, Vec<f64>)>>,
}

fn piece(all: &[f64], rows: &Range<usize>) -> Vec<f64> {
    let of_row = all.len() / ROWS;
    all[rows.start * of_row..rows.end * of_row].to_vec()
}

fn local_rows(pass: &Pass, shape: &[usize], all: &[f64]) -> Result<Tensor> {
    let shape = [&[pass.rows().len()], shape].concat();
    Tensor::from_slice(pass.context().device(), &shape, &piece(all, &pass.rows()))
}

fn declare(context: &Context, case: &Case) -> Result<Vec<Parameter>> {
    let declare = |(index, (features, cut)): (usize, &(usize, Option<Axis>))| {
        let layout = Layout::cut(vec![cut.iter().copied().collect()]).unwrap();
        let (scope, name) = (Scope::new(context), format!("p{index}"));
        Parameter::declare(
            &scope,
            &name,
            &[*features],
            layout,
            Init::Constant(0.0),
            false,
        )
    };
    case.parameters.iter().enumerate().map(declare).collect()
}

fn run(context: &Context, case: &Case, given: &[Vec<f64>]) -> Result<Seen> {
    let parameters = declare(context, case)?;
    let options = SetOptions {
        trains: true,
        ..SetOptions::inference(DType::F64)
    };
    let set = ParameterSet::allocate(context, parameters.clone(), &[], options)?;
    for (parameter, numbers) in parameters.iter().zip(&given[2..]) {
        let runs = parameter.index().contiguous_runs(parameter.global_shape());
        let own: Vec<f64> = runs
            .flat_map(|(start, len)| numbers[start..start + len].to_vec())
            .collect();
        parameter.value()?.upload(&own)?;
    }
    let rows = shard_range(ROWS, context.degree(Axis::Z), context.index(Axis::Z));
    let step = set.begin_step(0, ROWS)?;
    let pass = step.pass(rows.clone())?;
    let input = |shape: &[usize], all: &[f64]| {
        let (var, gradient) = Var::tracked(local_rows(&pass, shape, all)?);
        let whole = DTensor::new(&pass, var, *shape.last().unwrap(), None)?;
        let features = whole.features();
        let cut = case.cut.filter(|_| features > 1);
        Ok::<_, Error>((whole.redistribute(cut, "test")?, gradient))
    };
    let ((x, d_x), (y, d_y)) = (input(case.x, &given[0])?, input(case.y, &given[1])?);
    let device = context.device();
    let ids: Vec<u32> = rows.clone().flat_map(|row| [row as u32 % 3, 2]).collect();
    let inner: usize = case.x[..case.x.len() - 1].iter().product();
    let mask: Vec<u32> = (rows.start * inner..rows.end * inner)
        .map(|i| i as u32 % 2)
        .collect();
    let given = Given {
        x,
        y,
        parameters: parameters.clone(),
        ids: Tensor::from_slice(device, &[rows.len(), 2], &ids)?,
        mask: Tensor::from_slice(device, &[mask.len()], &mask)?,
    };
    let out = (case.run)(&given)?;
    let mut shape = out.shape()[1..].to_vec();
    *shape.last_mut().unwrap() = out.features();
    let weights = numbers(ROWS * shape.iter().product::<usize>(), 0.5);
    let weights = DTensor::input(&pass, local_rows(&pass, &shape, &weights)?)?;
    let loss = Loss::sum(&out.mul(&weights)?, 1.0)?;
    let seed = Tensor::full(device, DType::F64, &[1], 1.0)?;
    backward(vec![(loss.var().clone(), seed)])?;
    let whole = out.whole("test")?.tensor()?.to_f64()?;
    let loss = loss.var().tensor().item()?;
    drop((pass, out, given, weights));
    step.finish()?;
    // An input that the operation does not read has no gradient.
    let read = |gradient: tensor::autograd::Gradient| {
        gradient
            .take()
            .map_or(Ok(Vec::new()), |gradient| gradient.to_f64())
    };
    let shard = |parameter: &Parameter| {
        let numbers = parameter.gradient()?.to_f64()?;
        let runs = parameter.index().contiguous_runs(parameter.global_shape());
        let mut next = 0;
        Ok(runs
            .map(|(start, len)| {
                next += len;
                (start, numbers[next - len..next].to_vec())
            })
            .collect())
    };
    Ok(Seen {
        rows,
        loss,
        out: whole,
        inputs: [read(d_x)?, read(d_y)?],
        parameters: parameters.iter().map(shard).collect::<Result<_>>()?,
    })
}

fn context(world: &World, degrees: &str) -> Result<Context> {
    let invalid = |error: String| Error::invalid("test", error, "a grid");
    let degrees = degrees
        .parse()
        .map_err(|error| invalid(format!("{error}")))?;
    let grid = Grid::new(degrees, AxisOrder::default());
    let grid = grid.map_err(|error| invalid(error.to_string()))?;
    let options = cpu::Options {
        ordinal: world.local_rank(),
        ..cpu::Options::default()
    };
    let device = Device::new(cpu::open(options)?)?;
    Context::new(world.clone(), grid, device, Settings::default())
}

fn on_grid(degrees: &'static str, ranks: usize) -> Vec<Vec<Seen>> {
    let options = local::Options::new(ranks);
    let run = local::run(options, move |world| -> Result<Vec<Seen>> {
        let context = context(&world, degrees)?;
        let of_case = |case: &Case| {
            run(&context, case, &given_numbers(case))
                .map_err(|error| Error::invalid(case.name, error.to_string(), "no error"))
        };
        CASES.iter().map(of_case).collect()
    });
    run.unwrap_or_else(|failure| panic!("{degrees}: {}", failure.report()))
}

fn close(what: &str, found: &[f64], expected: &[f64], allowed: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (index, (a, b)) in found.iter().zip(expected).enumerate() {
        let near = (a - b).abs() <= allowed * (1.0 + b.abs());
        assert!(near, "{what}: element {index} is {a}, not {b}");
    }
}

#[test]
fn gradients_on_one_rank_are_those_of_finite_differences() {
    let context = context(&World::alone(), "x=1").unwrap();
    for case in CASES {
        let given = given_numbers(case);
        let seen = run(&context, case, &given).unwrap();
        let parameters = seen.parameters.iter().map(|runs| runs[0].1.clone());
        let gradients: Vec<Vec<f64>> = seen.inputs.iter().cloned().chain(parameters).collect();
        for (input, found) in gradients.iter().enumerate() {
            let slope = |index: usize| {
                let moved = |by: f64| {
                    let mut given = given.clone();
                    given[input][index] += by;
                    run(&context, case, &given).unwrap().loss
                };
                (moved(1e-5) - moved(-1e-5)) / 2e-5
            };
            let expected: Vec<f64> = (0..given[input].len()).map(slope).collect();
            let what = format!("{}, input {input}", case.name);
            match found.is_empty() {
                true => close(&what, &expected, &vec![0.0; expected.len()], 1e-9),
                false => close(&what, found, &expected, 1e-8),
            }
        }
    }
}

#[test]
fn every_grid_gives_what_one_rank_gives() {
    let serial = on_grid("x=1", 1).swap_remove(0);
    for (degrees, ranks) in [
        ("x=2", 2),
        ("y=2", 2),
        ("x=2,y=2", 4),
        ("z=2", 2),
        ("y=3", 3),
    ] {
        for seen in on_grid(degrees, ranks) {
            for ((case, seen), serial) in CASES.iter().zip(seen).zip(&serial) {
                let what = |part: &str| format!("{} on {degrees}: {part}", case.name);
                let rows = &seen.rows;
                close(&what("result"), &seen.out, &piece(&serial.out, rows), 1e-12);
                for (found, expected) in seen.inputs.iter().zip(&serial.inputs) {
                    close(&what("gradient"), found, &piece(expected, rows), 1e-12);
                }
                for (found, expected) in seen.parameters.iter().zip(&serial.parameters) {
                    for (start, found) in found {
                        let expected = &expected[0].1[*start..start + found.len()];
                        close(&what("gradient of a parameter"), found, expected, 1e-12);
                    }
                }
            }
        }
    }
}

// 257 rows, each with the gradient 1: their sum needs 9 bits, one more than bf16 has.
#[test]
fn sixteen_bit_parameters_sum_their_gradients_in_f32() {
    const MANY: usize = 257;
    const MICRO_BATCHES: usize = 64;
    let context = context(&World::alone(), "x=1").unwrap();
    let declare = |name: &str, features: usize, value: f64| {
        let (scope, layout) = (Scope::new(&context), Layout::replicated(1));
        let init = Init::Constant(value);
        Parameter::declare(&scope, name, &[features], layout, init, false).unwrap()
    };
    let shift = declare("shift", 3, 0.0);
    let (gain, factor) = (declare("gain", 3, 1.0), declare("factor", 1, 1.0));
    let options = SetOptions {
        trains: true,
        ..SetOptions::inference(DType::Bf16)
    };
    let all = vec![shift.clone(), gain.clone(), factor.clone()];
    let set = ParameterSet::allocate(&context, all, &[], options).unwrap();
    let step = set.begin_step(0, MANY * MICRO_BATCHES).unwrap();
    for index in 0..MICRO_BATCHES {
        let pass = step.pass(index * MANY..(index + 1) * MANY).unwrap();
        let ones = Tensor::full(context.device(), DType::Bf16, &[MANY, 3], 1.0).unwrap();
        let x = DTensor::input(&pass, ones).unwrap();
        let x = x.mul_row(&gain).unwrap().add_row(&shift).unwrap();
        let loss = Loss::sum(&x.scale_by(&factor).unwrap(), 1.0).unwrap();
        let seed = Tensor::full(context.device(), DType::F32, &[1], 1.0).unwrap();
        backward(vec![(loss.var().clone(), seed)]).unwrap();
    }
    let rows = (MANY * MICRO_BATCHES) as f64;
    for (parameter, expected) in [(shift, rows), (gain, rows), (factor, 3.0 * rows)] {
        let gradient = parameter.gradient().unwrap();
        assert_eq!(gradient.dtype(), DType::F32);
        let expected = vec![expected; parameter.num_elements()];
        assert_eq!(gradient.to_f64().unwrap(), expected, "{}", parameter.name());
    }
}

#[test]
fn bad_input_is_refused_with_the_numbers() {
    let context = context(&World::alone(), "x=1").unwrap();
    let pass = Pass::evaluation(&context, ROWS);
    let input = |shape: &[usize]| {
        let shape = [&[ROWS], shape].concat();
        DTensor::input(
            &pass,
            Tensor::zeros(context.device(), DType::F64, &shape).unwrap(),
        )
        .unwrap()
    };
    let (x, y) = (input(&[3, 6]), input(&[5]));
    let says = |result: Result<DTensor>, words: &str| {
        let text = result.unwrap_err().to_string();
        assert!(text.contains(words), "{text}");
    };
    says(x.expand_features(3, None), "6 features");
    says(x.add(&y), "add: [4, 3, 6] of layout");
    says(x.mul(&x.reshape(&[6, 3]).unwrap()), "[4, 6, 3] of layout");
    says(y.softmax_runs(2), "a multiple of 2");
    says(y.softmax_runs(0), "a multiple of 0");
    says(x.reshape(&[3, 5]), "18 elements");
    says(x.reshape(&[]), "18 elements");
    says(x.permute(&[1, 0, 2]), "rows stay");
    says(x.permute(&[0, 1]), "each of the 3 dims");
    says(x.slice(0, 0, 1), "rows stay");
    says(x.slice(1, 2, 2), "at most 3");
    says(DTensor::concat(&[], 1), "at least one");
    says(DTensor::concat(&[&x, &y], 1), "all other dims");
    says(x.sum_dim(2), "between rows and features");
    says(x.sum_dim(0), "rows stay");
    let ids = Tensor::zeros(context.device(), DType::U32, &[ROWS, 2]).unwrap();
    says(y.gather(&ids), "rows x k ids");
    says(x.gather(&ids.reshape(&[2, ROWS]).unwrap()), "4 rows");
    says(x.select(&ids, &x), "12 elements of u32");
    says(y.one_hot(&ids), "needs 4, one for each vector");
    says(x.matmul(&x, 1), "contract over");
    says(x.matmul(&x, 4), "multiple of 4 heads");
    says(x.matmul(&x, 0), "multiple of 0 heads");
    says(x.matmul(&y, 1), "rows x vectors x features");
    let cut = Layout::cut(vec![vec![Axis::X]]).unwrap();
    let parameter = |features: usize, layout: Layout| {
        let scope = Scope::new(&context);
        Parameter::declare(
            &scope,
            "row",
            &[features],
            layout,
            Init::Constant(1.0),
            false,
        )
        .unwrap()
    };
    says(
        x.add_row(&parameter(5, Layout::replicated(1))),
        "6 features",
    );
    says(x.mul_row(&parameter(6, Layout::replicated(1))), "no memory");
    says(
        x.scale_by(&parameter(2, Layout::replicated(1))),
        "one element",
    );
    says(x.scale_by(&parameter(1, cut)), "one element");
}
