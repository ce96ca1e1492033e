//! The tape: gradients against finite differences, sums over several uses, and which operations are recorded.

use fascicle_tensor::{
    DType, Device, Result, Tensor, Var,
    autograd::backward,
    ops::{self, UnaryOp},
};

fn device() -> Device {
    Device::new(cpu::open(cpu::Options::default()).unwrap()).unwrap()
}

fn vector(device: &Device, numbers: &[f64]) -> Tensor {
    Tensor::from_slice(device, &[numbers.len()], numbers).unwrap()
}

/// sum of tanh(x y) * (x - y) + silu(x) y / 3, by the tape.
fn function(x: &Var, y: &Var) -> Result<Var> {
    let first = x.mul(y)?.unary(UnaryOp::Tanh)?.mul(&x.sub(y)?)?;
    first.add(&x.swiglu(y)?.scale(1.0 / 3.0)?)
}

fn value(x: &[f64], y: &[f64]) -> f64 {
    let term = |(x, y): (&f64, &f64)| (x * y).tanh() * (x - y) + x / (1.0 + (-x).exp()) * y / 3.0;
    x.iter().zip(y).map(term).sum()
}

#[test]
fn gradients_agree_with_finite_differences() {
    let device = device();
    let (x, y) = ([0.3, -1.2, 0.7], [1.1, 0.4, -0.6]);
    let (x_var, x_gradient) = Var::tracked(vector(&device, &x));
    let (y_var, y_gradient) = Var::tracked(vector(&device, &y));
    let out = function(&x_var, &y_var).unwrap();
    backward(vec![(
        out,
        Tensor::full(&device, DType::F64, &[3], 1.0).unwrap(),
    )])
    .unwrap();
    let found = [x_gradient, y_gradient].map(|gradient| gradient.take().unwrap().to_f64().unwrap());
    for index in 0..3 {
        let moved = |numbers: &[f64; 3], by: f64| {
            let mut numbers = *numbers;
            numbers[index] += by;
            numbers
        };
        let by_x = (value(&moved(&x, 1e-6), &y) - value(&moved(&x, -1e-6), &y)) / 2e-6;
        let by_y = (value(&x, &moved(&y, 1e-6)) - value(&x, &moved(&y, -1e-6))) / 2e-6;
        assert!(
            (found[0][index] - by_x).abs() < 1e-8,
            "{} against {by_x}",
            found[0][index]
        );
        assert!(
            (found[1][index] - by_y).abs() < 1e-8,
            "{} against {by_y}",
            found[1][index]
        );
    }
}

#[test]
fn a_value_used_three_times_gets_the_sum_and_shared_gradients_stay_whole() {
    let device = device();
    let (x, gradient) = Var::tracked(vector(&device, &[2.0]));
    // x + x passes one gradient to both uses; adding the third in place must not corrupt it.
    let out = x.add(&x).unwrap().add(&x).unwrap();
    let seed = vector(&device, &[1.0]);
    backward(vec![(out, seed.clone())]).unwrap();
    assert_eq!(gradient.take().unwrap().to_f64().unwrap(), [3.0]);
    assert_eq!(
        seed.to_f64().unwrap(),
        [1.0],
        "the caller's gradient is not overwritten"
    );
}

#[test]
fn nothing_is_recorded_without_gradients_or_for_constants() {
    let device = device();
    let (x, gradient) = Var::tracked(vector(&device, &[2.0]));
    let out = device.without_gradients(|| x.mul(&x)).unwrap();
    assert!(!out.wants_gradient());
    let again = device
        .without_gradients(|| device.with_gradients(|| x.mul(&x)))
        .unwrap();
    assert!(again.wants_gradient());
    let constant = Var::constant(vector(&device, &[2.0]));
    assert!(!constant.mul(&constant).unwrap().wants_gradient());
    assert!(!x.detach().wants_gradient());
    assert!(gradient.take().is_none());
}

#[test]
fn a_tape_runs_back_once_and_refuses_a_gradient_of_another_size() {
    let device = device();
    let (x, _gradient) = Var::tracked(vector(&device, &[2.0, 3.0]));
    let out = x.mul(&x).unwrap();
    let ones = Tensor::full(&device, DType::F64, &[2], 1.0).unwrap();
    let short = ones.rows(0, 1).unwrap();
    assert!(
        backward(vec![(out.clone(), short)])
            .unwrap_err()
            .to_string()
            .contains("as many elements")
    );
    backward(vec![(out.clone(), ones.clone())]).unwrap();
    assert!(
        backward(vec![(out, ones)])
            .unwrap_err()
            .to_string()
            .contains("a second time")
    );
}

#[test]
fn what_a_node_saved_is_freed_as_the_pass_goes_by() {
    let device = device();
    let (x, gradient) = Var::tracked(Tensor::full(&device, DType::F32, &[1 << 20], 0.5).unwrap());
    let mut out = x.clone();
    for _ in 0..10 {
        out = out.unary(UnaryOp::Tanh).unwrap();
    }
    let before = device.memory_use().in_use;
    let seed = Tensor::full(&device, DType::F32, &[1 << 20], 1.0).unwrap();
    backward(vec![(out, seed)]).unwrap();
    drop(gradient.take());
    drop(x);
    let after = device.memory_use().in_use;
    assert!(
        before >= 10 << 22 && after == 0,
        "{before} bytes before, {after} after"
    );
    assert!(ops::add(&vector(&device, &[1.0]), &vector(&device, &[2.0])).is_ok());
}

/// x + x * 3, whose product adds to what has arrived for x.
#[test]
fn an_operation_may_add_what_has_arrived_for_its_input() {
    let device = device();
    let ones = vector(&device, &[1.0, 1.0]);
    for takes in [true, false] {
        let (x, gradient) = Var::tracked(vector(&device, &[2.0, 5.0]));
        // A leaf may keep its sums in more bits; what is added is summed in the type of an operation.
        let x = x.scale(1.0).unwrap();
        let tripled = x.scale(3.0).unwrap().into_tensor();
        let product = Var::record_adding("triple", &x, tripled, false, move |d_out, arrived| {
            let own = ops::add(&d_out, &ops::add(&d_out, &d_out)?)?;
            assert_eq!(arrived.as_ref().unwrap().to_f64()?, [10.0, 10.0]);
            match takes {
                true => ops::add(&own, &arrived.take().unwrap()),
                false => Ok(own),
            }
        });
        let ten = x.scale(10.0).unwrap();
        let out = product.add(&ten).unwrap();
        backward(vec![(out, ones.clone())]).unwrap();
        let found = gradient.take().unwrap().to_f64().unwrap();
        assert_eq!(found, [13.0, 13.0], "{takes}");
    }
    // Alone, and beside an operation whose gradient comes later, there is nothing to add.
    let (x, gradient) = Var::tracked(vector(&device, &[2.0, 5.0]));
    let x = x.scale(1.0).unwrap();
    let later = x.scale(2.0).unwrap();
    let same = Var::record_adding("same", &x, x.tensor().clone(), false, |d_out, arrived| {
        assert!(arrived.is_none());
        Ok(d_out)
    });
    backward(vec![(same, ones.clone()), (later, ones)]).unwrap();
    assert_eq!(gradient.take().unwrap().to_f64().unwrap(), [3.0, 3.0]);
}
