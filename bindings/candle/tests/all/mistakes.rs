//! Mistakes end in a sentence, on every rank where ranks differ; none waits for ever.

use candle_core::{DType, Device, Tensor, Var};
use candle_nn::{VarMap, init::ZERO};
use fascicle_candle::{
    AxisGroup, GradStoreReducer, NamedVars, ReducerOptions, Result, ShardedVarBuilder,
    TensorParallel,
    library::{job, parallel::Context},
};

fn on<T>(grid: &str, body: impl Fn(&Context) -> Result<T> + Send + Sync + 'static) -> Vec<T>
where
    T: serde::Serialize + serde::de::DeserializeOwned + Send + 'static,
{
    let ran = job().grid(grid).expect("a grid").run(body);
    ran.unwrap_or_else(|error| panic!("{error}"))
}

fn var(elements: usize) -> Result<Var> {
    Ok(Var::ones(elements, DType::F32, &Device::Cpu)?)
}

fn named(vars: &[(&str, &Var)]) -> Result<NamedVars> {
    NamedVars::new(
        vars.iter()
            .map(|&(name, var)| (name.to_owned(), var.clone())),
    )
}

#[test]
fn ranks_with_other_names_or_gradients_are_told_so() {
    let sentences = on("data=4", |context| {
        let group = AxisGroup::named(context, "data")?;
        let (a, b) = (var(2)?, var(3)?);
        let other = if group.rank() == 3 { "c" } else { "b" };
        let vars = named(&[("a", &a), (other, &b)])?;
        let mut reducer = GradStoreReducer::new(&group, vars, ReducerOptions::default())?;
        let mut gradients = (a.sum_all()? + b.sum_all()?)?.backward()?;
        let kept = gradients.get(&a).expect("a gradient").clone();
        let names = reducer.reduce(&mut gradients).unwrap_err().to_string();
        assert!(gradients.get(&a).is_none());
        assert_eq!(
            kept.to_vec1::<f32>()?,
            [0.0; 2],
            "a clone can still be read"
        );
        Ok(names)
    });
    let wanted = "gradient 2 of a step: b (3 of f32) on rank 0 and c (3 of f32) on rank 3 of the group, needs the same on \
                  every rank: all push the same gradients in the same order";
    assert_eq!(sentences[0], wanted);
    for sentence in &sentences {
        assert!(sentence.contains("b (3 of f32)") && sentence.contains("c (3 of f32)"));
    }
}

#[test]
fn a_variable_that_one_rank_does_not_use_is_named() {
    let ran = job().grid("data=4").expect("a grid").run(|context| {
        let group = AxisGroup::named(context, "data")?;
        let (a, b) = (var(2)?, var(3)?);
        let vars = named(&[("a", &a), ("b", &b)])?;
        let mut reducer = GradStoreReducer::new(&group, vars, ReducerOptions::default())?;
        let loss = match group.rank() {
            0 => a.sum_all()?,
            _ => (a.sum_all()? + b.sum_all()?)?,
        };
        reducer.reduce(&mut loss.backward()?)
    });
    let sentence = ran.unwrap_err().to_string();
    assert!(sentence.contains("gradient 2 of a step"), "{sentence}");
    assert!(
        sentence.contains("b (3 of f32) on rank")
            && sentence.contains("the end of the step on rank"),
        "{sentence}"
    );
}

#[test]
fn tensors_that_cannot_be_reduced_are_refused() {
    let sentences = on("data=1", |context| {
        let group = AxisGroup::named(context, "data")?;
        let ids = Var::zeros(2, DType::U32, &Device::Cpu)?;
        let of_ids = named(&[("ids", &ids)]).unwrap_err().to_string();
        let one = var(1)?;
        let twice = named(&[("a", &one), ("a", &one)]).unwrap_err().to_string();
        let vars = named(&[("a", &one)])?;
        let shards = Some(vars.shards(&group)?);
        let options = ReducerOptions {
            shards,
            ..ReducerOptions::default()
        };
        let other = named(&[("z", &one)])?;
        let mut reducer = GradStoreReducer::new(&group, other, options)?;
        let stranger = reducer.reduce(&mut one.sum_all()?.backward()?).unwrap_err();
        let parallel = TensorParallel::new(&group);
        let integers = parallel.all_reduce(&ids).unwrap_err().to_string();
        let entered = parallel.all_reduce_gradient(&one)?;
        drop(parallel);
        let late = entered.backward().unwrap_err().to_string();
        // candle adds a backtrace where one is asked for.
        let first = |sentence: String| sentence.lines().next().unwrap_or_default().to_owned();
        Ok(vec![
            of_ids,
            twice,
            stranger.to_string(),
            first(integers),
            first(late),
        ])
    });
    assert_eq!(
        sentences[0],
        [
            "ids: elements of U32, needs floats on candle's CPU device",
            "variables: two named a, needs a name for each",
            "ParameterShards: parameter z, needs one of those that were divided",
            "all_reduce: integers, needs a float type",
            "all_reduce: another thread, or a TensorParallel that was dropped, needs the thread of the rank, with its \
             TensorParallel",
        ]
    );
}

#[test]
fn slices_that_do_not_exist_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("one.safetensors");
    let numbers: Vec<f32> = (0..12).map(|index| index as f32).collect();
    let whole = Tensor::from_vec(numbers, (3, 4), &Device::Cpu).expect("3 x 4");
    candle_core::safetensors::save(&[("a.w", whole)].into(), &path).expect("written");
    let found = on("x=4", move |context| {
        let (group, map) = (AxisGroup::named(context, "x")?, VarMap::new());
        let drawn = ShardedVarBuilder::new(&group, &map, DType::F32).pp("up");
        let uneven = drawn.sharded((6, 4), "w", 0, ZERO).unwrap_err().to_string();
        let no_dim = drawn.sharded((6, 4), "w", 2, ZERO).unwrap_err().to_string();
        drawn.sharded((6, 4), "w", 1, ZERO)?;
        let known = drawn.sharded((4, 4), "w", 1, ZERO).unwrap_err().to_string();
        let read = ShardedVarBuilder::from_safetensors(&group, &map, DType::F64, &[&path])?.pp("a");
        let shape = read.sharded((4, 4), "w", 1, ZERO).unwrap_err().to_string();
        let name = read.sharded((3, 4), "v", 1, ZERO).unwrap_err().to_string();
        let column = read
            .sharded((3, 4), "w", 1, ZERO)?
            .flatten_all()?
            .to_vec1::<f64>()?;
        assert_eq!(
            column,
            [0.0, 4.0, 8.0].map(|first| first + group.rank() as f64)
        );
        // Drawn by one rank and given to all.
        let init = candle_nn::init::DEFAULT_KAIMING_NORMAL;
        let same = drawn
            .replicated((4, 100), "same", init)?
            .flatten_all()?
            .to_vec1::<f32>()?;
        let mut sums = same.clone();
        group.all_reduce(&mut sums, fascicle_candle::library::tensor::ReduceOp::Max)?;
        assert_eq!(sums, same);
        // The spread follows from the complete shape: sqrt(2 / 400), and not sqrt(2 / 100).
        let cut = drawn.sharded((400, 400), "spread", 1, init)?;
        let spread = cut.sqr()?.mean_all()?.to_scalar::<f32>()?;
        assert!((spread - 2.0 / 400.0).abs() < 4e-4, "{spread}");
        Ok(vec![uneven, no_dim, known, shape, name])
    });
    assert_eq!(found[1][0], "up.w: 6 on dim 0, needs a multiple of 4 ranks");
    assert_eq!(
        found[1][1],
        "up.w: a cut of dim 2 of [6, 4], needs a dim below 2"
    );
    assert_eq!(found[1][2], "up.w: shape [6, 1] in the map, needs [4, 1]");
    assert!(found[1][3].contains("[3, 4]"), "{}", found[1][3]);
    assert_eq!(
        found[1][4],
        "ShardedVarBuilder: no tensor a.v in 1 files, needs one that has it"
    );
}

#[test]
fn a_rank_that_leaves_ends_the_others() {
    let ran = job().grid("data=4").expect("a grid").run(|context| {
        let group = AxisGroup::named(context, "data")?;
        let one = var(1)?;
        let mut reducer =
            GradStoreReducer::new(&group, named(&[("a", &one)])?, ReducerOptions::default())?;
        if group.rank() == 2 {
            return Err(candle_core::Error::msg("rank 2 has no rows").into());
        }
        reducer.reduce(&mut one.sum_all()?.backward()?)
    });
    assert!(ran.unwrap_err().to_string().contains("rank 2 has no rows"));
}
