//! What a reduction copies, counted: bytes of large allocations, and the addresses of gradients.

use crate::counting::{LARGE, counted};
use candle_core::{DType, Device, Storage, Tensor, Var};
use fascicle_candle::{
    AxisGroup, GradStoreReducer, NamedVars, ReducerOptions, Result, TensorParallel, library::job,
};

/// Elements of a parameter, each of four bytes.
const ELEMENTS: usize = LARGE / 4;

fn address(tensor: &Tensor) -> usize {
    match &*tensor.storage_and_layout().0 {
        Storage::Cpu(storage) => storage.as_slice::<f32>().expect("f32").as_ptr().addr(),
        _ => unreachable!("on the CPU"),
    }
}

fn parameters() -> Result<NamedVars> {
    let var = |_| Var::zeros(ELEMENTS, DType::F32, &Device::Cpu);
    let vars = (0..3).map(var).collect::<candle_core::Result<Vec<Var>>>()?;
    NamedVars::new((0..3).map(|index| format!("p{index}")).zip(vars))
}

#[test]
fn gradients_are_reduced_in_their_own_memory() -> Result<()> {
    let job = job().grid("data=4").expect("a grid");
    let ran = job.run(|context| {
        let group = AxisGroup::named(context, "data")?;
        let rank = group.rank() as f64 + 1.0;
        for sharded in [false, true] {
            let vars = parameters()?;
            let (_, made) = counted(|| vars.broadcast(&group));
            assert_eq!(made, 0, "broadcast");
            let shards = sharded.then(|| vars.shards(&group)).transpose()?;
            let options = ReducerOptions {
                shards,
                ..ReducerOptions::default()
            };
            let mut reducer = GradStoreReducer::new(&group, vars.clone(), options)?;
            let (_, made) = counted(|| reducer.gather());
            assert_eq!(made, 0, "gather");
            let mut loss = Tensor::zeros((), DType::F32, &Device::Cpu)?;
            for (index, (_, var)) in vars.iter().enumerate() {
                loss = (loss + (var.as_tensor() * (rank + index as f64))?.sum_all()?)?;
            }
            let mut gradients = loss.backward()?;
            let of = |store: &candle_core::backprop::GradStore| -> Vec<Option<Tensor>> {
                vars.iter()
                    .map(|(_, var)| store.get(var).cloned())
                    .collect()
            };
            let before = of(&gradients);
            let places: Vec<usize> = before.iter().flatten().map(address).collect();
            drop(before);
            let (outcome, made) = counted(|| reducer.reduce(&mut gradients));
            outcome?;
            let after = of(&gradients);
            let owned = after.iter().flatten().count();
            // Where a gradient is not this rank's, its tensor gets zeros instead, in memory that nothing touches.
            assert_eq!(made, 3 - owned, "reduce with shards: {sharded}");
            assert_eq!(owned == 3, !sharded);
            for (index, gradient) in after.iter().enumerate() {
                if let Some(gradient) = gradient {
                    assert_eq!(address(gradient), places[index], "the same memory");
                    assert_eq!(
                        gradient.to_vec1::<f32>()?,
                        vec![2.5 + index as f32; ELEMENTS]
                    );
                }
            }
        }
        Ok::<_, fascicle_candle::Error>(())
    });
    ran.map(drop)
}

#[test]
fn gradients_that_share_memory_or_view_a_part_are_copied_once() -> Result<()> {
    let job = job().grid("data=4").expect("a grid");
    let ran = job.run(|context| {
        let group = AxisGroup::named(context, "data")?;
        let vars = parameters()?;
        let mut reducer = GradStoreReducer::new(&group, vars.clone(), ReducerOptions::default())?;
        let one = Tensor::full(group.rank() as f32, ELEMENTS, &Device::Cpu)?;
        let repeated = Tensor::full(1f32, 1, &Device::Cpu)?.broadcast_as(ELEMENTS)?;
        // A store has no public constructor.
        let mut gradients = Tensor::zeros(1, DType::F32, &Device::Cpu)?.backward()?;
        for ((_, var), gradient) in vars.iter().zip([&one, &one, &repeated]) {
            gradients.insert(var, gradient.clone());
        }
        let (outcome, made) = counted(|| reducer.reduce(&mut gradients));
        outcome?;
        assert_eq!(
            made, 2,
            "the second of the shared ones, and the repeated number"
        );
        for ((_, var), wanted) in vars.iter().zip([1.5f32, 1.5, 1.0]) {
            let found = gradients.get(var).expect("reduced").to_vec1::<f32>()?;
            assert_eq!(found, vec![wanted; ELEMENTS]);
        }
        Ok::<_, fascicle_candle::Error>(())
    });
    ran.map(drop)
}

#[test]
fn operations_of_tensor_parallelism_copy_once_per_pass() -> Result<()> {
    let job = job().grid("x=4").expect("a grid");
    let ran = job.run(|context| {
        let parallel = TensorParallel::new(&AxisGroup::named(context, "x")?);
        let x = Var::ones(ELEMENTS, DType::F32, &Device::Cpu)?;
        let (entered, made) = counted(|| parallel.all_reduce_gradient(&x));
        assert_eq!(made, 1);
        let (left, made) = counted(|| parallel.all_reduce(&x));
        assert_eq!(made, 1);
        assert_eq!(left?.get(5)?.to_scalar::<f32>()?, 4.0, "summed forward");
        let gradients = entered?.sum_all()?.backward()?;
        let gradient = gradients.get(&x).expect("a gradient");
        assert_eq!(gradient.get(5)?.to_scalar::<f32>()?, 4.0, "summed backward");
        let gradients = parallel.all_reduce(&x)?.sum_all()?.backward()?;
        let gradient = gradients.get(&x).expect("a gradient");
        assert_eq!(gradient.get(5)?.to_scalar::<f32>()?, 1.0, "passed through");
        // Elements in another order than their memory.
        let turned = x.reshape((256, 256))?.t()?;
        assert_eq!(
            parallel
                .all_reduce(&turned)?
                .sum_all()?
                .to_scalar::<f32>()?,
            4.0 * 65536.0
        );
        Ok::<_, fascicle_candle::Error>(())
    });
    ran.map(drop)
}
