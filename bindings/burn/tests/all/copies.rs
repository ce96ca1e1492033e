//! What a reduction copies, counted: bytes of large allocations.

use crate::counting::{LARGE, counted};
use burn::{
    module::{Module, Param, ParamId},
    optim::GradientsParams,
    tensor::{DType, Device, Tensor, TensorData, f16},
};
use fascicle_burn::{
    AxisGroup, Error, GradientsReducer, ReducerOptions, Result, library::job, shards,
};

/// Elements of a parameter, each of four bytes.
const ELEMENTS: usize = LARGE / 4;

#[derive(Module, Debug)]
struct Three {
    parameters: [Param<Tensor<1>>; 3],
}

fn model(device: &Device) -> Three {
    let parameter = |_| {
        let data = TensorData::new(vec![1f32; ELEMENTS], [ELEMENTS]);
        let tensor = Tensor::from_data(data, device).require_grad();
        Param::initialized(ParamId::new(), tensor)
    };
    Three {
        parameters: [0, 1, 2].map(parameter),
    }
}

#[test]
fn gradients_are_reduced_in_their_own_memory() -> Result<()> {
    let job = job().grid("data=4").expect("a grid");
    let ran = job.run(|context| {
        let group = AxisGroup::named(context, "data")?;
        let device = Device::flex().autodiff();
        for sharded in [false, true] {
            let model = model(&device);
            let shards = sharded.then(|| shards(&group, &model)).transpose()?;
            let options = ReducerOptions {
                shards,
                ..ReducerOptions::default()
            };
            let mut reducer = GradientsReducer::new(&group, options)?;
            let rank = group.rank() as f32;
            let mut loss = Tensor::<1>::zeros([1], &device);
            for (index, parameter) in model.parameters.iter().enumerate() {
                loss = loss + (parameter.val() * (rank + index as f32)).sum();
            }
            let gradients = GradientsParams::from_grads(loss.backward(), &model);
            let (gradients, made) = counted(|| reducer.reduce(&model, gradients));
            let gradients = gradients?;
            assert_eq!(made, 0, "reduce with shards: {sharded}");
            assert_eq!(gradients.len() == 3, !sharded);
            for (index, parameter) in model.parameters.iter().enumerate() {
                if let Some(gradient) = gradients.get::<1>(parameter.id) {
                    let found = gradient.into_data().try_into_vec::<f32>().expect("f32");
                    assert_eq!(found, vec![1.5 + index as f32; ELEMENTS]);
                }
            }
            // The graph is gone, so the parameters are the model's alone.
            let (model, made) = counted(|| reducer.gather(model));
            assert_eq!(made, 0, "gather with shards: {sharded}");
            assert!(
                model?
                    .parameters
                    .iter()
                    .all(|parameter| parameter.val().is_require_grad())
            );
        }
        Ok::<_, Error>(())
    });
    ran.map(drop)
}

#[test]
fn halves_keep_their_type() -> Result<()> {
    let job = job().grid("data=4").expect("a grid");
    let ran = job.run(|context| {
        let group = AxisGroup::named(context, "data")?;
        let device = Device::flex().autodiff();
        let model = model(&device);
        let mut reducer = GradientsReducer::new(&group, ReducerOptions::default())?;
        let mut gradients = GradientsParams::new();
        let half = Tensor::<1>::full([3], group.rank() as f32, &device.inner());
        let id = model.parameters[1].id;
        gradients.register(id, half.cast(DType::F16));
        let reduced = reducer
            .reduce(&model, gradients)?
            .get::<1>(id)
            .expect("reduced");
        let found = reduced.into_data().try_into_vec::<f16>().expect("f16");
        assert_eq!(found, [f16::from_f32(1.5); 3]);
        Ok::<_, Error>(())
    });
    ran.map(drop)
}
