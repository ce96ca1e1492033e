//! Other programs read our files, and we read theirs.

use super::{
    super::{Error, PlainFile, Reader, element, export_safetensors},
    Dying, Whole, grid, model, save,
};
use grid::IndexBox;
use hal::DType;
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde_json::Value;
use std::{collections::HashMap, fs};

fn saved(degrees: &str, wholes: &[Whole]) -> (tempfile::TempDir, Reader) {
    let dir = tempfile::tempdir().unwrap();
    let path = save(&Dying::never(), dir.path(), 12, &grid(degrees), wholes).unwrap();
    (dir, Reader::open(path).unwrap())
}

#[test]
fn the_safetensors_crate_reads_shards() {
    let wholes = model(3);
    let (_dir, reader) = saved("x=2,z=2", &wholes);
    let mut num_elements = 0;
    for file in 0..4 {
        let bytes = fs::read(reader.file_path(file)).unwrap();
        let shard = SafeTensors::deserialize(&bytes).unwrap();
        let (header_bytes, header) = SafeTensors::read_metadata(&bytes).unwrap();
        assert_eq!(header_bytes % 8, 0);
        let described: Value =
            serde_json::from_str(&header.metadata().as_ref().unwrap()["fascicle"]).unwrap();
        assert_eq!(described["rank"], file);
        for (key, tensor) in shard.iter() {
            let piece = &described["pieces"][key];
            let whole = wholes
                .iter()
                .find(|whole| piece["name"] == whole.name.as_str())
                .unwrap();
            let start: Vec<usize> = serde_json::from_value(piece["start"].clone()).unwrap();
            let starts: Vec<_> = start.iter().map(usize::to_string).collect();
            assert_eq!(key, format!("{}@{}", whole.name, starts.join(",")));
            assert_eq!(
                piece["global_shape"],
                serde_json::to_value(&whole.shape).unwrap()
            );
            assert_eq!(element::from_header(tensor.dtype()), Some(whole.dtype));
            let index = IndexBox {
                start,
                shape: tensor.shape().to_vec(),
            };
            assert_eq!(tensor.data(), whole.cut(&index));
            num_elements += index.num_elements();
        }
    }
    assert_eq!(num_elements, 12);
}

#[test]
fn wide_elements_come_first() {
    let wholes = [
        Whole::new("a", DType::F16, &[3], "[-]", 1),
        Whole::new("b", DType::F64, &[2], "[-]", 2),
    ];
    let (_dir, reader) = saved("x=1", &wholes);
    for whole in &wholes {
        let offset = reader.tensor(&whole.name).unwrap().pieces[0].offset;
        assert_eq!(offset % whole.dtype.bytes() as u64, 0);
    }
}

#[test]
fn an_export_is_a_plain_file_of_whole_tensors() {
    let wholes = model(3);
    let (dir, reader) = saved("x=2,z=2", &wholes);
    let path = dir.path().join("model.safetensors");
    let bytes = export_safetensors(&reader, &path, false, &|name| {
        (name != "count").then(|| name.to_owned())
    })
    .unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), bytes);
    let file = fs::read(&path).unwrap();
    let tensors = SafeTensors::deserialize(&file).unwrap();
    assert_eq!(tensors.tensor("w").unwrap().data(), wholes[0].bytes);
    assert_eq!(tensors.tensor("b").unwrap().data(), wholes[1].bytes);
    let plain = PlainFile::open(&path).unwrap();
    assert_eq!(plain.names(), ["b", "w"]);
    let index = IndexBox {
        start: vec![1, 1],
        shape: vec![2, 1],
    };
    let (found, needed) = (
        plain.read_f64("w", &[3, 2], &index).unwrap(),
        reader.read_f64("w", &[3, 2], &index).unwrap(),
    );
    assert_eq!(
        found.iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
        needed.iter().map(|x| x.to_bits()).collect::<Vec<_>>()
    );
    // Exported again over the same file while it is open.
    assert_eq!(
        export_safetensors(&reader, &path, true, &|name| Some(name.to_owned())).unwrap(),
        fs::metadata(&path).unwrap().len()
    );
    assert_eq!(plain.read_f64("w", &[3, 2], &index).unwrap().len(), 2);
    let none = export_safetensors(&reader, &path, true, &|_| None)
        .unwrap_err()
        .to_string();
    assert!(
        none.ends_with("none of its 3 tensors is selected for export"),
        "{none}"
    );
}

#[test]
fn files_of_other_programs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("theirs.safetensors");
    let floats: Vec<u8> = [1.0_f32, -2.5, 3.0, 4.0]
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    let views = HashMap::from([
        (
            "w",
            TensorView::new(Dtype::F32, vec![2, 2], &floats).unwrap(),
        ),
        (
            "ids",
            TensorView::new(Dtype::U32, vec![2], &[7, 0, 0, 0, 0, 1, 0, 0]).unwrap(),
        ),
        (
            "long",
            TensorView::new(Dtype::I64, vec![1], &[0; 8]).unwrap(),
        ),
    ]);
    safetensors::serialize_to_file(views, None, &path).unwrap();
    let file = PlainFile::open(&path).unwrap();
    assert_eq!(
        (file.names().len(), file.shape("w").unwrap()),
        (3, &[2, 2][..])
    );
    assert_eq!(
        file.read_f64(
            "w",
            &[2, 2],
            &IndexBox {
                start: vec![0, 1],
                shape: vec![2, 1]
            }
        )
        .unwrap(),
        [-2.5, 4.0]
    );
    assert_eq!(file.read_u32("ids").unwrap(), [7, 256]);
    assert!(file.contains("ids") && file.info("v").is_err());
    let corner = file.read_f64("w", &[1, 2], &IndexBox::full(&[1, 2]));
    assert_eq!(
        corner.unwrap_err().to_string(),
        "checkpoint: reading tensor w: found shape [2, 2], needs [1, 2]"
    );
    let whole = IndexBox::full(&[1]);
    let said = [
        file.read_f64("long", &[1], &whole),
        file.read_f64("w", &[2, 2], &whole),
        file.read_f64("v", &[1], &whole),
    ];
    let needed = [
        "checkpoint: reading tensor long: found elements of I64, needs f64, f32, bf16, f16, i32 or u32"
            .to_owned(),
        "checkpoint: reading tensor w: found box [0..1], needs one within shape [2, 2]".to_owned(),
        format!("checkpoint {}: found no tensor v among its 3", path.display()),
    ];
    assert_eq!(said.map(|result| result.unwrap_err().to_string()), needed);
}

#[test]
fn files_that_are_no_safetensors() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cut.safetensors");
    let (_checkpoint, reader) = saved("x=1", &model(3));
    export_safetensors(&reader, &path, true, &|name| Some(name.to_owned())).unwrap();
    let bytes = fs::read(&path).unwrap();
    for len in [0, 7, 20, bytes.len() - 1] {
        fs::write(&path, &bytes[..len]).unwrap();
        let error = PlainFile::open(&path).unwrap_err();
        assert!(
            matches!(error, Error::NotSafetensors { bytes, .. } if bytes == len as u64),
            "{error}"
        );
    }
    assert!(matches!(
        PlainFile::open(dir.path().join("gone")),
        Err(Error::Missing { .. })
    ));
}
