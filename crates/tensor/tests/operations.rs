//! Operations for model authors: each gradient against finite differences in f64, and errors for bad input.

use fascicle_tensor::{DType, Device, Result, Tensor, Var, autograd::backward, ops};

fn device() -> Device {
    Device::new(cpu::open(cpu::Options::default()).unwrap()).unwrap()
}

fn numbers(count: usize, seed: f64) -> Vec<f64> {
    let number = |i: usize| ((i as f64 + 1.0) * 1.37 + seed).sin() * 1.5;
    (0..count).map(number).collect()
}

type Function = fn(&[Var]) -> Result<Var>;

/// A weighted sum of the results of `function`, so that every element has its own gradient.
fn value(device: &Device, shapes: &[&[usize]], inputs: &[Vec<f64>], function: Function) -> f64 {
    let var = |(shape, numbers): (&&[usize], &Vec<f64>)| {
        Var::constant(Tensor::from_slice(device, shape, numbers).unwrap())
    };
    let vars: Vec<Var> = shapes.iter().zip(inputs).map(var).collect();
    let out = function(&vars).unwrap().tensor().to_f64().unwrap();
    let weights = numbers(out.len(), 0.5);
    out.iter().zip(weights).map(|(a, b)| a * b).sum()
}

fn check(name: &str, shapes: &[&[usize]], function: Function) {
    check_moved(name, shapes, 0.0, function);
}

fn check_moved(name: &str, shapes: &[&[usize]], by: f64, function: Function) {
    let device = device();
    let inputs: Vec<Vec<f64>> = shapes
        .iter()
        .enumerate()
        .map(|(i, shape)| {
            let numbers = numbers(shape.iter().product(), i as f64);
            numbers.iter().map(|x| x + by).collect()
        })
        .collect();
    let tracked = shapes
        .iter()
        .zip(&inputs)
        .map(|(shape, numbers)| Var::tracked(Tensor::from_slice(&device, shape, numbers).unwrap()));
    let (vars, gradients): (Vec<Var>, Vec<_>) = tracked.unzip();
    let out = function(&vars).unwrap();
    let weights = numbers(out.tensor().num_elements(), 0.5);
    let weights = Tensor::from_slice(&device, out.tensor().shape(), &weights).unwrap();
    backward(vec![(out, weights)]).unwrap();
    for (input, gradient) in gradients.iter().enumerate() {
        let gradient = gradient.take().unwrap();
        assert_eq!(
            gradient.shape(),
            shapes[input],
            "{name}: shape of the gradient"
        );
        for (index, found) in gradient.to_f64().unwrap().into_iter().enumerate() {
            let moved = |by: f64| {
                let mut inputs = inputs.clone();
                inputs[input][index] += by;
                value(&device, shapes, &inputs, function)
            };
            let expected = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            let allowed = 1e-7 * (1.0 + expected.abs());
            assert!(
                (found - expected).abs() < allowed,
                "{name}: element {index} of input {input} has {found}, not {expected}"
            );
        }
    }
}

#[test]
fn gradients_along_rows_are_those_of_finite_differences() {
    check("row_sum", &[&[2, 3, 4]], |x| x[0].row_sum());
    check("expand_columns", &[&[2, 3, 1]], |x| x[0].expand_columns(4));
    check("softmax", &[&[3, 5]], |x| x[0].softmax());
    check("log_softmax", &[&[3, 5]], |x| x[0].log_softmax());
    check("add_row", &[&[2, 3, 4], &[4]], |x| x[0].add_row(&x[1]));
    check("mul_row", &[&[2, 3, 4], &[4]], |x| x[0].mul_row(&x[1]));
    check("scale_by", &[&[2, 3, 4], &[1]], |x| x[0].scale_by(&x[1]));
    check("sum_dim", &[&[2, 3, 4]], |x| x[0].sum_dim(1));
    check("sum_dim", &[&[2, 3, 4]], |x| x[0].sum_dim(0));
}

#[test]
fn gradients_of_elementwise_operations_are_those_of_finite_differences() {
    use ops::UnaryOp::{Log, Sqrt};
    check_moved("div", &[&[2, 3], &[2, 3]], 2.0, |x| x[0].div(&x[1]));
    check_moved("log", &[&[7]], 2.0, |x| x[0].unary(Log));
    check_moved("sqrt", &[&[7]], 2.0, |x| x[0].unary(Sqrt));
    check("square", &[&[7]], |x| x[0].square());
}

#[test]
fn gradients_of_moves_and_products_are_those_of_finite_differences() {
    check("permute", &[&[2, 3, 4]], |x| x[0].permute(&[2, 0, 1]));
    check("permute", &[&[2, 3, 2, 2, 1]], |x| {
        x[0].permute(&[0, 2, 1, 3, 4])
    });
    check("slice", &[&[2, 5, 3]], |x| x[0].slice(1, 2, 2));
    check("slice", &[&[2, 5]], |x| x[0].slice(1, 1, 3));
    check("concat", &[&[2, 1, 3], &[2, 2, 3]], |x| {
        Var::concat(&[&x[0], &x[1]], 1)
    });
    check("concat", &[&[2, 3], &[2, 2], &[2, 3]], |x| {
        Var::concat(&[&x[0], &x[1], &x[2]], 1)
    });
    check("gather", &[&[4, 3]], |x| {
        let ids = Tensor::from_slice(x[0].tensor().device(), &[5], &[1u32, 3, 1, 9, 0])?;
        x[0].gather(&ids)
    });
    check("select", &[&[3, 2], &[3, 2]], |x| {
        let mask = Tensor::from_slice(x[0].tensor().device(), &[3], &[0u32, 1, 0])?;
        x[0].select(&mask, &x[1])
    });
    check("matmul", &[&[2, 3, 4], &[2, 4, 2]], |x| {
        x[0].matmul_batched(&x[1], false)
    });
    check("matmul", &[&[2, 3, 4], &[2, 2, 4]], |x| {
        x[0].matmul_batched(&x[1], true)
    });
}

#[test]
fn a_row_that_is_not_selected_spoils_nothing() {
    let device = device();
    let vector = |numbers: &[f64]| Tensor::from_slice(&device, &[2, 1], numbers).unwrap();
    let (x, gradient) = Var::tracked(vector(&[f64::NAN, 2.0]));
    let mask = Tensor::from_slice(&device, &[2], &[0u32, 1]).unwrap();
    let other = Var::constant(vector(&[1.0, 1.0]));
    let out = x.unary(ops::UnaryOp::Exp).unwrap();
    let out = out.select(&mask, &other).unwrap();
    assert_eq!(out.tensor().to_f64().unwrap(), [1.0, 2f64.exp()]);
    let (picked, d_picked) = Var::tracked(vector(&[f64::NAN, 2.0]));
    let picked = picked.select(&mask, &other).unwrap();
    backward(vec![(picked, vector(&[3.0, 4.0]))]).unwrap();
    assert_eq!(d_picked.take().unwrap().to_f64().unwrap(), [0.0, 4.0]);
    drop(gradient);
}

#[test]
fn a_row_or_a_number_meets_every_row() {
    let device = device();
    for (rows, columns) in [(2, 1), (5, 3), (4, 31), (3, 33), (900, 50), (0, 4)] {
        let (a, b) = (numbers(rows * columns, 0.0), numbers(columns, 1.0));
        let x = Tensor::from_slice(&device, &[rows, columns], &a).unwrap();
        let row = Tensor::from_slice(&device, &[columns], &b).unwrap();
        let found = ops::binary_row(ops::BinaryOp::Div, &x, &row).unwrap();
        let expected: Vec<f64> = (0..a.len()).map(|i| a[i] / b[i % columns]).collect();
        assert_eq!(found.to_f64().unwrap(), expected);
        let number = Tensor::from_slice(&device, &[1], &[0.3]).unwrap();
        let found = ops::binary_row(ops::BinaryOp::Sub, &x, &number).unwrap();
        let expected: Vec<f64> = a.iter().map(|a| a - 0.3).collect();
        assert_eq!(found.to_f64().unwrap(), expected);
    }
}

#[test]
fn operands_of_other_shapes_are_refused_with_both() {
    let device = device();
    let zeros = |shape: &[usize]| Tensor::zeros(&device, DType::F32, shape).unwrap();
    let text = |result: Result<Tensor>| result.unwrap_err().to_string();
    let said = text(ops::add(&zeros(&[2, 6]), &zeros(&[3, 4])));
    assert!(said.contains("[2, 6]") && said.contains("[3, 4]"), "{said}");
    let said = text(ops::swiglu(&zeros(&[6]), &zeros(&[3, 2])));
    assert!(said.contains("[6]") && said.contains("[3, 2]"), "{said}");
    let row = ops::binary_row(ops::BinaryOp::Mul, &zeros(&[4, 6]), &zeros(&[4]));
    let said = text(row);
    assert!(said.contains("[4, 6]") && said.contains("[4]"), "{said}");
}

#[test]
fn one_hot_rows_follow_their_ids() {
    let device = device();
    let ids = Tensor::from_slice(&device, &[2, 2], &[2u32, 0, 7, 1]).unwrap();
    let hot = ops::one_hot(&ids, 3, DType::F32).unwrap();
    assert_eq!(hot.shape(), [2, 2, 3]);
    let expected = [0., 0., 1., 1., 0., 0., 0., 0., 0., 0., 1., 0.];
    assert_eq!(hot.to_f64().unwrap(), expected);
}

#[test]
fn bad_input_is_refused_with_the_numbers() {
    let device = device();
    let x = Var::constant(Tensor::zeros(&device, DType::F64, &[2, 3, 4]).unwrap());
    let says = |result: Result<Var>, words: &str| {
        let text = result.unwrap_err().to_string();
        assert!(text.contains(words), "{text}");
    };
    says(x.permute(&[0, 1]), "each of the 3 dims");
    says(x.permute(&[0, 1, 1]), "each of the 3 dims");
    says(x.slice(1, 2, 2), "at most 3");
    says(x.slice(3, 0, 1), "a dim of the tensor");
    says(x.slice(1, usize::MAX, 2), "at most 3");
    says(Var::concat(&[], 0), "at least one");
    says(
        Var::concat(&[&x, &x.row_sum().unwrap()], 1),
        "all other dims",
    );
    says(Var::concat(&[&x], 3), "a dim of the tensor");
    says(x.expand_columns(2), "a last dim of 1");
    says(x.sum_dim(2), "before the last");
    says(x.sum_dim(9), "before the last");
    let row = Var::constant(Tensor::zeros(&device, DType::F64, &[3]).unwrap());
    says(x.add_row(&row), "4 elements");
    says(x.mul_row(&row), "4 elements");
    says(x.scale_by(&row), "1 elements");
    says(x.select(row.tensor(), &x), "6 elements of u32");
    says(x.gather(row.tensor()), "u32");
    says(x.matmul_batched(&x, false), "equal leading dims");
    let none = Var::constant(Tensor::zeros(&device, DType::F64, &[]).unwrap());
    says(none.row_sum(), "a last dim");
}
