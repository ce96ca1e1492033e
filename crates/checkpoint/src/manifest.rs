//! `manifest.json`: the contents of a checkpoint and their location.
//!
//! The first line carries the CRC-32 of everything after it, so that a flipped bit in a shape or an offset is
//! found too.

use crate::{
    Fault,
    boxes::{fits, num_bytes},
    element,
    tiling::{self, Tile, Tiling},
};
use grid::{IndexBox, Layout};
use hal::DType;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path},
};

/// The format number; a manifest with another number is refused.
pub(crate) const FORMAT: u64 = 1;

/// The longest manifest. What is read of it takes a multiple of that memory; it describes some million pieces.
pub(crate) const MOST_MANIFEST_BYTES: u64 = 256 << 20;

/// The contents of a checkpoint besides tensors: free JSON, stored as given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sections {
    /// The model's configuration.
    pub model: Value,
    /// The trainer's position in the data, its seeds, loss scale, and whatever else it needs to resume.
    pub trainer: Value,
    /// How text becomes tokens.
    pub tokenizer: Value,
    /// The grid that wrote it.
    pub grid: Value,
    /// The loss on data that no step trains on, if it was computed after this step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation_loss: Option<f64>,
    /// The digest of its last step, the same on every grid, if that step was hashed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_digest: Option<String>,
}

/// The description of a tensor, over all ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TensorInfo {
    /// The type of its elements as stored.
    #[serde(with = "element::by_name")]
    pub dtype: DType,
    /// Its shape.
    pub global_shape: Vec<usize>,
    /// The axes that cut it, on any grid.
    pub layout: Layout,
}

impl TensorInfo {
    /// One that no axis cuts.
    pub(crate) fn whole(dtype: DType, shape: &[usize]) -> TensorInfo {
        TensorInfo {
            dtype,
            global_shape: shape.to_vec(),
            layout: Layout::replicated(shape.len()),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) format: u64,
    pub(crate) step: u64,
    pub(crate) files: Vec<FileEntry>,
    pub(crate) tensors: BTreeMap<String, TensorEntry>,
    pub(crate) sections: Sections,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FileEntry {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) crc32: u32,
}

impl FileEntry {
    /// That a file found under the name, if there is one, has the file's length.
    pub(crate) fn check_length(&self, found: Option<u64>) -> Result<(), Fault> {
        let (file, needed) = (self.name.clone(), self.bytes);
        match found {
            Some(found) if found == needed => Ok(()),
            Some(found) => Err(Fault::Length {
                file,
                found,
                needed,
            }),
            None => Err(Fault::NoFile { file, needed }),
        }
    }

    /// That bytes of its length have the file's CRC-32.
    pub(crate) fn check_sum(&self, found: u32) -> Result<(), Fault> {
        match found == self.crc32 {
            true => Ok(()),
            false => Err(Fault::Crc {
                file: self.name.clone(),
                bytes: self.bytes,
                found,
                needed: self.crc32,
            }),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TensorEntry {
    pub(crate) info: TensorInfo,
    pub(crate) pieces: Vec<Placed>,
}

/// A piece and its location.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Placed {
    /// Index of the file in the list of files.
    pub(crate) file: usize,
    /// Offset of its bytes in the file.
    pub(crate) offset: u64,
    pub(crate) index: IndexBox,
}

impl Manifest {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let body = serde_json::to_string(self).expect("a bug: a manifest is plain values");
        let rest = &body[1..];
        format!("{}{rest}", first_line(rest)).into_bytes()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Manifest, Fault> {
        let damaged = |reason: String| Fault::Manifest { reason };
        let text = std::str::from_utf8(bytes).map_err(|error| damaged(error.to_string()))?;
        let rest = text.split_once('\n').map_or("", |(_, rest)| rest);
        let is_whole = text.strip_suffix(rest) == Some(&first_line(rest));
        let format = serde_json::from_str(text).map(|Format { format }| format);
        match format {
            // A later format may store its checksum elsewhere, so only its format number is read.
            Ok(found) if found != FORMAT => {
                return Err(Fault::Format {
                    found,
                    needed: FORMAT,
                });
            }
            Err(error) => return Err(damaged(error.to_string())),
            Ok(_) if !is_whole => return Err(damaged("its CRC-32 does not match its text".into())),
            Ok(_) => {}
        }
        let manifest: Manifest =
            serde_json::from_str(text).map_err(|error| damaged(error.to_string()))?;
        manifest.check().map_err(damaged)?;
        Ok(manifest)
    }

    /// Checks that everything it refers to can exist, so that reading need not check again. Pieces that share no byte
    /// of their files bound the tensors by the files, whose lengths are real.
    fn check(&self) -> Result<(), String> {
        let mut names = BTreeSet::new();
        for file in &self.files {
            let mut parts = Path::new(&file.name).components();
            if !matches!(
                (parts.next(), parts.next()),
                (Some(Component::Normal(_)), None)
            ) {
                return Err(format!("file {:?} is not in its folder", file.name));
            }
            if !names.insert(&file.name) {
                return Err(format!("file {:?} is listed twice", file.name));
            }
        }
        let mut left: Vec<u64> = self.files.iter().map(|file| file.bytes).collect();
        self.tensors.iter().try_for_each(|(name, tensor)| {
            self.check_tensor(tensor, &mut left)
                .map_err(|reason| format!("tensor {name}: {reason}"))
        })
    }

    /// `left` holds the bytes of each file that no piece has claimed so far.
    fn check_tensor(
        &self,
        TensorEntry { info, pieces }: &TensorEntry,
        left: &mut [u64],
    ) -> Result<(), String> {
        info.layout
            .check(&info.global_shape)
            .map_err(|error| error.to_string())?;
        num_bytes(&info.global_shape, info.dtype).ok_or("its bytes cannot be counted")?;
        for Placed {
            file: number,
            offset,
            index,
        } in pieces
        {
            let file = self
                .files
                .get(*number)
                .ok_or("a piece lies in a file that is not listed")?;
            let bytes =
                num_bytes(&index.shape, info.dtype).and_then(|bytes| u64::try_from(bytes).ok());
            let end = bytes.and_then(|bytes| offset.checked_add(bytes));
            if !fits(index, &info.global_shape) || end.is_none_or(|end| end > file.bytes) {
                return Err(format!(
                    "a piece leaves the tensor or {} ({} bytes)",
                    file.name, file.bytes
                ));
            }
            let unclaimed = left[*number].checked_sub(bytes.unwrap_or(0));
            left[*number] = unclaimed.ok_or_else(|| {
                let (name, bytes) = (&file.name, file.bytes);
                format!("pieces share bytes of {name} ({bytes} bytes)")
            })?;
        }
        Ok(())
    }

    /// Checks that every tensor is covered exactly once.
    pub(crate) fn check_tiling<'a>(&'a self) -> Result<(), (&'a str, Box<Tiling>)> {
        self.tensors.iter().try_for_each(|(name, tensor)| {
            let tile = |piece: &'a Placed| Tile {
                index: &piece.index,
                file: &self.files[piece.file].name,
            };
            let tiles: Vec<_> = tensor.pieces.iter().map(tile).collect();
            tiling::check(&tensor.info.global_shape, &tiles).map_err(|fault| (name.as_str(), fault))
        })
    }
}

/// The only part read from a manifest of an unknown format.
#[derive(Deserialize)]
struct Format {
    format: u64,
}

fn first_line(rest: &str) -> String {
    format!(
        "{{\"crc32\":\"{:08x}\",\n",
        crc32fast::hash(rest.as_bytes())
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn manifest() -> Manifest {
        let info = TensorInfo {
            dtype: DType::Bf16,
            global_shape: vec![4, 2],
            layout: "[x | -]".parse().unwrap(),
        };
        let whole = Placed {
            file: 0,
            offset: 64,
            index: IndexBox::full(&[4, 2]),
        };
        Manifest {
            format: FORMAT,
            step: 7,
            files: vec![FileEntry {
                name: "shard-00000.safetensors".into(),
                bytes: 80,
                crc32: 1,
            }],
            tensors: BTreeMap::from([(
                "w".into(),
                TensorEntry {
                    info,
                    pieces: vec![whole],
                },
            )]),
            sections: Sections {
                trainer: json!({"seed": 3}),
                ..Sections::default()
            },
        }
    }

    fn said(manifest: &Manifest) -> String {
        Manifest::decode(&manifest.encode())
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn it_comes_back_and_is_json() {
        let bytes = manifest().encode();
        assert_eq!(Manifest::decode(&bytes).unwrap(), manifest());
        let json: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(
            (&json["step"], &json["tensors"]["w"]["info"]["dtype"]),
            (&json!(7), &json!("bf16"))
        );
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let bytes = manifest().encode();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Manifest::decode(&flipped).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(Manifest::decode(&bytes[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let changed = |change: &dyn Fn(&mut Manifest)| {
            let mut manifest = manifest();
            change(&mut manifest);
            said(&manifest)
        };
        assert_eq!(
            changed(&|m| m.format = 2),
            "manifest.json has format 2, this program reads 1"
        );
        let beside = "manifest.json is damaged: file \"../a\" is not in its folder";
        assert_eq!(changed(&|m| m.files[0].name = "../a".into()), beside);
        let leaves = "manifest.json is damaged: tensor w: a piece leaves the tensor or shard-00000.safetensors (79 bytes)";
        assert_eq!(changed(&|m| m.files[0].bytes = 79), leaves);
        let piece = |change: fn(&mut Placed)| {
            changed(&|m| change(&mut m.tensors.get_mut("w").unwrap().pieces[0]))
        };
        assert!(piece(|piece| piece.index.start[0] = 1).contains("leaves the tensor"));
        assert!(piece(|piece| piece.offset = u64::MAX).contains("leaves the tensor"));
        assert!(piece(|piece| piece.file = 1).contains("a file that is not listed"));
        let twice = changed(&|m| m.files.push(m.files[0].clone()));
        assert!(twice.contains("is listed twice"), "{twice}");
        let shared = changed(&|m| {
            let pieces = &mut m.tensors.get_mut("w").unwrap().pieces;
            *pieces = vec![pieces[0].clone(); 6];
        });
        let needed = "manifest.json is damaged: tensor w: pieces share bytes of shard-00000.safetensors (80 bytes)";
        assert_eq!(shared, needed);
    }
}
