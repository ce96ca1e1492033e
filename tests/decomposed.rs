//! A linear layer with a decomposed adapter against its definition, written out in plain loops: what it outputs, and every gradient,
//! on grids that cut inputs, outputs and rows.

use grid::{Axis, AxisOrder, Grid, shard_range};
use nn::{Adapters, Builder, LinearOptions, Pattern, Tuning};
use parallel::{
    Context, DTensor, Parameter, Settings,
    data::{ParameterSet, SetOptions},
    layers::{LinearKind, Loss},
};
use std::collections::BTreeMap;
use tensor::{DType, Tensor, Var, autograd::backward};

const ROWS: usize = 4;
const INPUTS: usize = 6;
const OUTPUTS: usize = 5;
const RANK: usize = 3;
const SCALE: f64 = 0.7;

/// Values, or gradients, by the names of what they are of.
type Numbers = BTreeMap<&'static str, Vec<f64>>;

const SHAPES: [(&str, [usize; 2]); 7] = [
    ("x", [ROWS, INPUTS]),
    ("d_y", [ROWS, OUTPUTS]),
    ("weight", [INPUTS, OUTPUTS]),
    ("bias", [1, OUTPUTS]),
    ("lora_a.weight", [INPUTS, RANK]),
    ("lora_b.weight", [RANK, OUTPUTS]),
    ("lora_magnitude", [1, OUTPUTS]),
];

fn given() -> Numbers {
    let shapes = SHAPES.into_iter().enumerate();
    let numbers = shapes.map(|(seed, (name, [rows, columns]))| {
        let number = |at: usize| ((at as f64 + 1.0) * 1.37 + seed as f64).sin();
        (name, (0..rows * columns).map(number).collect())
    });
    numbers.collect()
}

/// A B, of which A has `inner` columns.
fn product(a: &[f64], b: &[f64], inner: usize) -> Vec<f64> {
    let columns = b.len() / inner;
    let element = |at: usize| {
        let (row, column) = (at / columns, at % columns);
        let terms = (0..inner).map(|k| a[row * inner + k] * b[k * columns + column]);
        terms.sum()
    };
    (0..a.len() / inner * columns).map(element).collect()
}

fn transposed(a: &[f64], columns: usize) -> Vec<f64> {
    let rows = a.len() / columns;
    let element = |at: usize| a[at % rows * columns + at / rows];
    (0..a.len()).map(element).collect()
}

fn column_sums(a: &[f64]) -> Vec<f64> {
    let of_column = |column: usize| a.iter().skip(column).step_by(OUTPUTS).sum();
    (0..OUTPUTS).map(of_column).collect()
}

/// Y = m X V / |V| + b with V = W + scale A B, and the gradients with |V| held constant.
fn expected(given: &Numbers) -> Numbers {
    let of = |name: &str| given[name].clone();
    let (x, d_y, a, b) = (of("x"), of("d_y"), of("lora_a.weight"), of("lora_b.weight"));
    let change = product(&a, &b, RANK);
    let v: Vec<f64> = of("weight")
        .iter()
        .zip(&change)
        .map(|(weight, change)| weight + SCALE * change)
        .collect();
    let squares: Vec<f64> = v.iter().map(|number| number * number).collect();
    let norms: Vec<f64> = column_sums(&squares).into_iter().map(f64::sqrt).collect();
    let (magnitude, bias) = (of("lora_magnitude"), of("bias"));
    let column = |at: usize| at % OUTPUTS;
    let sum = product(&x, &v, INPUTS);
    let factor = |at: usize| magnitude[column(at)] / norms[column(at)];
    let each = |numbers: &[f64], by: &dyn Fn(usize) -> f64| -> Vec<f64> {
        let scaled = numbers.iter().enumerate();
        scaled.map(|(at, number)| number * by(at)).collect()
    };
    let y = each(&sum, &factor).into_iter().enumerate();
    let y = y.map(|(at, number)| number + bias[column(at)]).collect();
    let d_sum = each(&d_y, &factor);
    let scaled = each(&d_sum, &|_| SCALE);
    let d_inner = product(&scaled, &transposed(&b, OUTPUTS), OUTPUTS);
    let inner = product(&x, &a, INPUTS);
    let of_magnitude = each(&d_y, &|at| sum[at] / norms[column(at)]);
    Numbers::from([
        ("y", y),
        ("x", product(&d_sum, &transposed(&v, OUTPUTS), OUTPUTS)),
        ("bias", column_sums(&d_y)),
        (
            "lora_a.weight",
            product(&transposed(&x, INPUTS), &d_inner, ROWS),
        ),
        (
            "lora_b.weight",
            product(&transposed(&inner, RANK), &scaled, ROWS),
        ),
        ("lora_magnitude", column_sums(&of_magnitude)),
    ])
}

fn layer(builder: &Builder, kind: LinearKind) -> parallel::Result<nn::Linear> {
    let tuned = builder.tuned(Tuning {
        frozen: Vec::new(),
        adapters: Some(Adapters {
            rank: RANK,
            scale: SCALE,
            decomposed: true,
            targets: vec![Pattern::new("layer")],
            trained: vec![Pattern::new("bias")],
        }),
        quantised: None,
    });
    let options = LinearOptions {
        kind,
        ..LinearOptions::default()
    };
    tuned.linear_with("layer", INPUTS, OUTPUTS, options)
}

// The elements of a matrix or row that this rank holds.
fn own(parameter: &Parameter, all: &[f64]) -> Vec<f64> {
    let runs = parameter.index().contiguous_runs(parameter.global_shape());
    runs.flat_map(|(start, len)| all[start..start + len].to_vec())
        .collect()
}

// What a rank finds, with what it should be.
fn compared(context: &Context, kind: LinearKind) -> parallel::Result<Vec<(String, [Vec<f64>; 2])>> {
    let (given, expected) = (given(), expected(&given()));
    let builder = Builder::new(context);
    let layer = layer(&builder, kind)?;
    let options = SetOptions {
        trains: true,
        ..SetOptions::inference(DType::F64)
    };
    let set = ParameterSet::allocate(context, builder.parameters(), &[], options)?;
    let parameters = builder.parameters();
    let name = |parameter: &Parameter| {
        let name = parameter.name().strip_prefix("layer.");
        name.unwrap_or_default().to_owned()
    };
    for parameter in &parameters {
        let numbers = own(parameter, &given[&*name(parameter)]);
        parameter.value()?.upload(&numbers)?;
    }
    let rows = shard_range(ROWS, context.degree(Axis::Z), context.index(Axis::Z));
    let of_rows = |numbers: &[f64]| {
        let columns = numbers.len() / ROWS;
        numbers[rows.start * columns..rows.end * columns].to_vec()
    };
    let local = |name: &str, columns: usize| {
        let shape = [rows.len(), columns];
        Tensor::from_slice(context.device(), &shape, &of_rows(&given[name]))
    };
    let step = set.begin_step(0, ROWS)?;
    let pass = step.pass(rows.clone())?;
    let (x, d_x) = Var::tracked(local("x", INPUTS)?);
    let y = layer.forward(&DTensor::new(&pass, x, INPUTS, None)?)?;
    let d_y = DTensor::input(&pass, local("d_y", OUTPUTS)?)?;
    let loss = Loss::sum(&y.mul(&d_y)?, 1.0)?;
    let seed = Tensor::full(context.device(), DType::F64, &[1], 1.0)?;
    backward(vec![(loss.var().clone(), seed)])?;
    let y = y.whole("test")?.tensor()?.to_f64()?;
    drop((pass, d_y, loss));
    step.finish()?;
    let d_x = d_x.take().expect("the layer reads it").to_f64()?;
    let mut all = vec![
        ("y".to_owned(), [y, of_rows(&expected["y"])]),
        ("gradient of x".to_owned(), [d_x, of_rows(&expected["x"])]),
    ];
    for parameter in parameters.iter().filter(|one| !one.is_frozen()) {
        let needed = own(parameter, &expected[&*name(parameter)]);
        let found = parameter.gradient()?.to_f64()?;
        all.push((format!("gradient of {}", name(parameter)), [found, needed]));
    }
    Ok(all)
}

#[test]
fn the_layer_and_its_gradients_are_those_of_the_definition() {
    for (degrees, ranks) in [
        ("x=1", 1),
        ("x=2", 2),
        ("y=2", 2),
        ("z=2", 2),
        ("x=2,y=2,z=2", 8),
    ] {
        for kind in [LinearKind::Normal, LinearKind::Transposed] {
            let results = testkit::ranks(ranks, move |world, device| {
                let grid = Grid::new(degrees.parse().unwrap(), AxisOrder::default()).unwrap();
                let context = Context::new(world, grid, device, Settings::default())?;
                Ok(compared(&context, kind)?)
            });
            for compared in results {
                // What is trained, and no frozen weight: A, B, m and the bias, besides Y and the gradient of X.
                assert_eq!(compared.len(), 6);
                for (what, [found, needed]) in compared {
                    let what = format!("{degrees}, {kind:?}: {what}");
                    assert_eq!(found.len(), needed.len(), "{what}");
                    for (found, needed) in found.iter().zip(&needed) {
                        let near = (found - needed).abs() <= 1e-12 * (1.0 + needed.abs());
                        assert!(near, "{what}: {found}, not {needed}");
                    }
                }
            }
        }
    }
}

#[test]
fn lengths_begin_as_the_norms_of_the_drawn_weight() {
    let grid = |degrees: &str| Grid::new(degrees.parse().unwrap(), AxisOrder::default()).unwrap();
    for degrees in ["x=1", "x=2", "y=2", "z=2"] {
        let ranks = grid(degrees).world_size();
        testkit::ranks(ranks, move |world, device| {
            let context = Context::new(world, grid(degrees), device, Settings::default())?;
            let builder = Builder::new(&context);
            layer(&builder, LinearKind::Normal)?;
            // The weight of one rank, whole.
            let serial = Builder::new(&parallel::work::dry_context()?);
            layer(&serial, LinearKind::Normal)?;
            let of = |builder: &Builder, name: &str| {
                let mut all = builder.parameters().into_iter();
                all.find(|one| one.name() == format!("layer.{name}"))
                    .unwrap()
            };
            let weight = of(&serial, "weight").initial_values(7);
            let squares: Vec<f64> = weight.iter().map(|number| number * number).collect();
            let norms: Vec<f64> = column_sums(&squares).into_iter().map(f64::sqrt).collect();
            let lengths = of(&builder, "lora_magnitude");
            assert_eq!(lengths.initial_values(7), own(&lengths, &norms));
            Ok(())
        });
    }
}
