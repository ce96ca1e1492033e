use super::{Broken, places};
use crate::*;
use hal::{Error, Result, dry};
use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicUsize},
};

const SIZES: [usize; 5] = [100, 100, 40, 1, 100];

fn store(place: Place) -> Result<Store> {
    let mut store = Store::new("rank 3", place);
    for (piece, bytes) in SIZES.into_iter().enumerate() {
        assert_eq!(store.add(bytes), piece);
    }
    store.reserve(&*dry::open())?;
    Ok(store)
}

/// Adds its number to each byte, while it holds at most two pieces.
#[derive(Default)]
struct Adds {
    held: BTreeMap<usize, Vec<u8>>,
    calls: Vec<String>,
    fails_at: Option<usize>,
}

impl Visit<Error> for Adds {
    fn load(&mut self, piece: usize, bytes: &[u8]) -> Result<()> {
        if self.fails_at == Some(piece) {
            return Err(Error::invalid("visitor", "a fault", "none"));
        }
        self.calls.push(format!("load {piece}"));
        let work = bytes.iter().map(|byte| byte + piece as u8 + 1);
        self.held.insert(piece, work.collect());
        assert!(self.held.len() <= 2);
        Ok(())
    }

    fn unload(&mut self, piece: usize, bytes: &mut [u8]) -> Result<()> {
        self.calls.push(format!("unload {piece}"));
        bytes.copy_from_slice(&self.held.remove(&piece).expect("loaded before"));
        Ok(())
    }
}

#[test]
fn pieces_start_as_zeros_and_keep_what_a_walk_returns() {
    for place in places() {
        let mut store = store(place).unwrap();
        for _ in 0..3 {
            store.walk(&[0, 1, 2, 3, 4], &mut Adds::default()).unwrap();
        }
        store.walk(&[3, 1], &mut Adds::default()).unwrap();
        for (piece, sum) in [3, 8, 9, 16, 15].into_iter().enumerate() {
            assert_eq!(store.read(piece).unwrap(), vec![sum; SIZES[piece]]);
        }
        store.write(2, &[7; 40]).unwrap();
        assert_eq!(store.read(2).unwrap(), [7; 40]);
        assert_eq!(store.num_bytes(), 341);
        store.walk(&[], &mut Adds::default()).unwrap();
    }
}

#[test]
fn a_piece_is_returned_after_the_next_one_has_been_loaded() {
    for place in places() {
        let mut adds = Adds::default();
        store(place).unwrap().walk(&[4, 0, 2], &mut adds).unwrap();
        let expected = [
            "load 4", "load 0", "unload 4", "load 2", "unload 0", "unload 2",
        ];
        assert_eq!(adds.calls, expected);
    }
}

#[test]
fn a_visitor_that_fails_ends_the_walk() {
    for place in places() {
        for piece in 0..5 {
            let mut fails = Adds {
                fails_at: Some(piece),
                ..Adds::default()
            };
            let mut store = store(place.clone()).unwrap();
            let walked = store.walk(&[0, 1, 2, 3, 4], &mut fails);
            assert_eq!(
                walked.unwrap_err().to_string(),
                "visitor: a fault, needs none"
            );
            // And another one neither waits for ever nor goes on with a part of the changes.
            let again = store.walk(&[0, 1, 2, 3, 4], &mut Adds::default());
            assert_eq!(
                again.unwrap_err().to_string(),
                "rank 3: pieces of which an update that failed has changed a part, needs state loaded from a checkpoint \
                 into a new store"
            );
        }
    }
}

#[test]
fn a_file_has_no_name_and_stores_do_not_meet() {
    let folder = tempfile::tempdir().unwrap();
    let new = || {
        let (disk, folder) = (Arc::new(FileSystem), folder.path().join("new/one"));
        store(Place::Files { disk, folder }).unwrap()
    };
    let (mut one, other) = (new(), new());
    one.write(0, &[9; 100]).unwrap();
    assert_eq!(other.read(0).unwrap(), [0; 100]);
    assert_eq!(
        std::fs::read_dir(folder.path().join("new/one"))
            .unwrap()
            .count(),
        0
    );
}

#[test]
fn the_host_holds_a_fixed_number_of_buffers() {
    let [host, files] = places().map(|place| store(place).unwrap());
    assert_eq!((host.host_bytes(), files.host_bytes()), (341, 500));
    let mut files = files;
    for _ in 0..3 {
        files.walk(&[0, 1, 2, 3, 4], &mut Adds::default()).unwrap();
        assert_eq!(files.host_bytes(), 500);
    }
}

fn on(disk: &Broken) -> Result<Store> {
    store(Place::Files {
        disk: Arc::new(disk.clone()),
        folder: "/scratch".into(),
    })
}

#[test]
fn a_full_disk_is_refused_before_anything_is_stored() {
    let mut disk = Broken {
        room: 340,
        ..Broken::default()
    };
    assert_eq!(
        on(&disk).unwrap_err().to_string(),
        "file of rank 3 in /scratch: no storage space, needs room for 341 bytes (341 B)"
    );
    disk.room += 1;
    on(&disk).unwrap();
}

#[test]
fn a_damaged_piece_is_named_with_both_checksums() {
    let disk = Broken {
        room: 400,
        writes: Arc::new(AtomicUsize::new(100)),
        ..Broken::default()
    };
    let mut store = on(&disk).unwrap();
    store.walk(&[0, 1, 2, 3, 4], &mut Adds::default()).unwrap();
    disk.bytes.lock().unwrap()[239] ^= 0x10;
    let error = store.read(2).unwrap_err();
    let mut damaged = [3; 40];
    damaged[39] ^= 0x10;
    let [found, written] = [&damaged, &[3; 40]].map(|bytes| crc32fast::hash(bytes));
    let text = format!(
        "file of rank 3 in /scratch, piece 2 of 0 to 4: bytes with checksum {found:08x}, \
         needs checksum {written:08x}, that of what was written"
    );
    assert_eq!(error.to_string(), text);
    let walked = store.walk(&[0, 1, 2, 3, 4], &mut Adds::default());
    assert_eq!(walked.unwrap_err(), error);
    // A write that the disk has lost is damage, too.
    let before = disk.bytes.lock().unwrap().clone();
    store.write(4, &[1; 100]).unwrap();
    *disk.bytes.lock().unwrap() = before;
    assert!(store.read(4).is_err());
}

#[test]
fn a_disk_that_fails_within_a_walk_ends_it() {
    for writes in 0..5 {
        let disk = Broken {
            room: 400,
            writes: Arc::new(AtomicUsize::new(writes)),
            ..Broken::default()
        };
        let walked = on(&disk)
            .unwrap()
            .walk(&[0, 1, 2, 3, 4], &mut Adds::default());
        let text = format!(
            "file of rank 3 in /scratch, piece {writes} of 0 to 4: the disk is gone, needs a disk that writes it"
        );
        assert_eq!(walked.unwrap_err().to_string(), text);
    }
}
