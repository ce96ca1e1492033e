//! Any grid reads what another grid wrote.

use super::{
    super::{Error, Reader, element, inspect, reshard::reshard_on},
    Dying, Whole, grid, holds, model, save,
};
use grid::{Axis, AxisOrder, Degrees, Grid, IndexBox, Layout, factorisations};
use hal::DType;
use proptest::prelude::*;

fn any_grid() -> impl Strategy<Value = Grid> {
    (1_usize..13)
        .prop_flat_map(|world| prop::sample::select(factorisations(world)))
        .prop_map(|degrees: Degrees| Grid::new(degrees, AxisOrder::default()).unwrap())
}

/// Every axis cuts one of the dims or none.
fn any_layout(num_dims: usize) -> impl Strategy<Value = Layout> {
    prop::collection::vec(0..=num_dims, Axis::ALL.len()).prop_map(move |cuts| {
        let axes = |dim| {
            Axis::ALL
                .into_iter()
                .zip(&cuts)
                .filter(move |(_, cut)| **cut == dim)
                .map(|(axis, _)| axis)
        };
        Layout::cut((0..num_dims).map(|dim| axes(dim).collect()).collect()).unwrap()
    })
}

fn any_tensor() -> impl Strategy<Value = Whole> {
    let shape = prop::collection::vec(0_usize..8, 0..4);
    (
        shape,
        prop::sample::select(DType::ALL.to_vec()),
        any::<u64>(),
    )
        .prop_flat_map(|(shape, dtype, seed)| {
            any_layout(shape.len())
                .prop_map(move |layout| Whole::new("", dtype, &shape, &layout.to_string(), seed))
        })
}

fn any_model() -> impl Strategy<Value = Vec<Whole>> {
    let numbered = |(at, whole): (usize, Whole)| Whole {
        name: format!("layer.{at}@w,ä \"1\""),
        ..whole
    };
    prop::collection::vec(any_tensor(), 1..5)
        .prop_map(move |wholes| wholes.into_iter().enumerate().map(numbered).collect())
}

fn read_by(reader: &Reader, grid: &Grid, whole: &Whole) {
    for rank in 0..grid.world_size() {
        let index = whole
            .layout
            .local_box(&whole.shape, grid, &grid.coordinates(rank));
        let bytes = reader.read(&whole.name, &whole.shape, &index).unwrap();
        assert_eq!(bytes, whole.cut(&index), "{} {index:?}", whole.name);
        match (
            reader.read_f64(&whole.name, &whole.shape, &index),
            element::numbers(whole.dtype, &bytes),
        ) {
            (Ok(found), Some(needed)) => {
                assert!(
                    found
                        .iter()
                        .zip(needed)
                        .all(|(a, b)| a.to_bits() == b.to_bits())
                )
            }
            (found, needed) => {
                assert!(matches!(found, Err(Error::Dtype { .. })) && needed.is_none())
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_grid_reads_what_any_other_wrote(wholes in any_model(), one in any_grid(), other in any_grid()) {
        let dir = tempfile::tempdir().unwrap();
        let path = save(&Dying::never(), dir.path(), 120, &one, &wholes).unwrap();
        let reader = Reader::open(dir.path()).unwrap();
        prop_assert_eq!((reader.path(), reader.step()), (&*path, 120));
        prop_assert_eq!(reader.verify().unwrap().num_tensors, wholes.len());
        wholes.iter().for_each(|whole| read_by(&reader, &other, whole));
        let info = reader.info(&wholes[0].name).unwrap();
        prop_assert_eq!((&info.global_shape, &info.layout), (&wholes[0].shape, &wholes[0].layout));
    }

    #[test]
    fn resharding_keeps_every_tensor(wholes in any_model(), one in any_grid(), other in any_grid()) {
        let dir = tempfile::tempdir().unwrap();
        save(&Dying::never(), dir.path(), 120, &one, &wholes).unwrap();
        let reader = Reader::open(dir.path()).unwrap();
        let stage_of = |name: &str| name.len() % other.degree(Axis::Pipeline);
        // Into its own folder, so that the checkpoint being read is the one being replaced.
        reshard_on(Dying::never(), &reader, dir.path(), &other, &stage_of).unwrap();
        let resharded = Reader::open(dir.path()).unwrap();
        prop_assert!(holds(&resharded, &wholes));
        prop_assert_eq!(resharded.sections().grid.clone(), serde_json::to_value(other).unwrap());
        prop_assert_eq!(&resharded.sections().trainer, &reader.sections().trainer);
        for whole in &wholes {
            let needed: std::collections::HashSet<_> = (0..other.world_size())
                .map(|rank| whole.layout.local_box(&whole.shape, &other, &other.coordinates(rank)))
                .filter(|index| !index.is_empty())
                .collect();
            let pieces = &resharded.tensor(&whole.name).unwrap().pieces;
            let found: std::collections::HashSet<_> = pieces.iter().map(|piece| piece.index.clone()).collect();
            prop_assert_eq!((found, pieces.len()), (needed.clone(), needed.len()));
        }
    }
}

#[test]
fn pieces_lie_with_the_ranks_that_own_them() {
    let dir = tempfile::tempdir().unwrap();
    save(&Dying::never(), dir.path(), 3, &grid("x=1"), &model(5)).unwrap();
    let target = grid("x=2,data=2,pipeline=2");
    let reader = Reader::open(dir.path()).unwrap();
    let stage_of = |name: &str| usize::from(name == "b");
    reshard_on(Dying::never(), &reader, dir.path(), &target, &stage_of).unwrap();
    let summary = inspect(&Reader::open(dir.path()).unwrap());
    let owner = |x, stage| {
        let at = grid::Coordinates::default()
            .with(Axis::X, x)
            .with(Axis::Pipeline, stage);
        format!("shard-{:05}.safetensors", target.rank(&at))
    };
    let mut needed = [owner(0, 0), owner(1, 0), owner(0, 1), owner(1, 1)];
    needed.sort();
    assert_eq!(
        summary
            .files
            .iter()
            .map(|file| file.name.clone())
            .collect::<Vec<_>>(),
        needed
    );
    let error =
        reshard_on(Dying::never(), &reader, dir.path(), &grid("x=2"), &stage_of).unwrap_err();
    assert_eq!(
        error.to_string(),
        "checkpoint: tensor b: found stage 1, needs less than 1"
    );
}

#[test]
fn a_summary_says_what_is_there() {
    let dir = tempfile::tempdir().unwrap();
    save(&Dying::never(), dir.path(), 12, &grid("x=2,z=2"), &model(5)).unwrap();
    let summary = inspect(&Reader::open(dir.path()).unwrap());
    assert_eq!(
        (summary.step, summary.num_elements, summary.num_bytes),
        (12, 12, 38)
    );
    let text = summary.to_string();
    for line in [
        "step 12, written by grid x=2,y=1,z=2,data=1,pipeline=1 in order ",
        "3 tensors, 12 elements, 38 B\n",
        "tensor  type  shape  cut by   pieces  size\n",
        "w       f32   3 x 2  [z | x]  4       24 B\n",
        "shard-00003.safetensors  ",
    ] {
        assert!(text.contains(line), "{line:?} in {text}");
    }
    assert_eq!(
        serde_json::to_value(&summary).unwrap()["tensors"][0]["name"],
        "b"
    );
}

#[test]
fn what_is_not_there_is_said() {
    let dir = tempfile::tempdir().unwrap();
    save(&Dying::never(), dir.path(), 12, &grid("x=2"), &model(5)).unwrap();
    let reader = Reader::open(dir.path()).unwrap();
    let outside = IndexBox {
        start: vec![2, 0],
        shape: vec![2, 2],
    };
    assert_eq!(
        reader.read("w", &[3, 2], &outside).unwrap_err().to_string(),
        "checkpoint: reading tensor w: found box [2..4, 0..2], needs one within shape [3, 2]"
    );
    let corner = IndexBox::full(&[2, 2]);
    assert_eq!(
        reader
            .read_f64("w", &[2, 2], &corner)
            .unwrap_err()
            .to_string(),
        "checkpoint: reading tensor w: found shape [3, 2], needs [2, 2]"
    );
    let unknown = reader.info("v").unwrap_err().to_string();
    assert!(
        unknown.ends_with("step-00000012: found no tensor v among its 3"),
        "{unknown}"
    );
    let dtype = reader
        .read_f64("count", &[], &IndexBox::full(&[]))
        .unwrap_err()
        .to_string();
    assert_eq!(
        dtype,
        "checkpoint: reading tensor count: found elements of u32, needs f64, f32, bf16 or f16"
    );
}
