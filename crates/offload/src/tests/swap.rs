use super::{Broken, places};
use crate::*;
use hal::{Error, Result, dry};
use std::sync::{Arc, atomic::AtomicUsize};

const PIECE: usize = 16;

fn bytes(run: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (run * 31 + at) as u8).collect()
}

fn park(swap: &mut Swap, run: &[u8]) -> Result<Parked> {
    swap.park(run.len(), &mut |range, buffer| {
        buffer.copy_from_slice(&run[range]);
        Ok(())
    })
}

fn read(swap: &mut Swap, parked: &mut Parked) -> Result<Vec<u8>> {
    let mut run = Vec::new();
    swap.read(parked, &mut |range, bytes| {
        assert_eq!((range.start, range.len()), (run.len(), bytes.len()));
        run.extend_from_slice(bytes);
        Ok(())
    })?;
    Ok(run)
}

fn unpark(swap: &mut Swap, mut parked: Parked) -> Result<Vec<u8>> {
    let run = read(swap, &mut parked)?;
    swap.discard(parked);
    Ok(run)
}

#[test]
fn runs_come_back_as_they_left_in_any_order() {
    for place in places() {
        let mut swap = Swap::new("rank 3", &place, PIECE).unwrap();
        for step in 0..3 {
            let runs = [0, 1, 15, 16, 17, 100].map(|len| bytes(step + len, len));
            let mut parked = runs.each_ref().map(|run| park(&mut swap, run).ok());
            swap.fetch(parked[2].as_mut().unwrap()).unwrap();
            swap.discard(parked[4].take().unwrap());
            for run in [3, 0, 5, 1, 2] {
                let parked = parked[run].take().unwrap();
                assert_eq!(unpark(&mut swap, parked).unwrap(), runs[run], "{place:?}");
            }
        }
    }
}

#[test]
fn runs_are_read_and_rewritten_where_they_are() {
    let disk = Arc::new(broken(400, usize::MAX));
    let folder = "/scratch".into();
    let bounded = Place::Files { disk, folder };
    for place in places().into_iter().chain([bounded]) {
        let mut swap = Swap::new("rank 3", &place, PIECE).unwrap();
        let runs = [17, 100, 283];
        let mut parked = runs.map(|len| park(&mut swap, &bytes(0, len)).unwrap());
        for step in 1..4 {
            for (&len, parked) in runs.iter().zip(&mut parked) {
                let (before, after) = (bytes(step - 1, len), bytes(step, len));
                for _ in 0..2 {
                    assert_eq!(read(&mut swap, parked).unwrap(), before, "{place:?}");
                }
                swap.fetch(parked).unwrap();
                swap.rewrite(parked, &mut |range, buffer| {
                    buffer.copy_from_slice(&after[range]);
                    Ok(())
                })
                .unwrap();
                assert_eq!(read(&mut swap, parked).unwrap(), after, "{place:?}");
            }
        }
        for (len, parked) in runs.into_iter().zip(parked) {
            assert_eq!(unpark(&mut swap, parked).unwrap(), bytes(3, len));
        }
    }
}

fn on(disk: &Broken) -> Swap {
    let place = Place::Files {
        disk: Arc::new(disk.clone()),
        folder: "/scratch".into(),
    };
    Swap::new("rank 3", &place, PIECE).unwrap()
}

fn broken(room: u64, writes: usize) -> Broken {
    Broken {
        room,
        writes: Arc::new(AtomicUsize::new(writes)),
        ..Broken::default()
    }
}

#[test]
fn a_file_is_as_long_as_the_most_that_is_away_at_a_time() {
    let disk = broken(100, usize::MAX);
    let mut swap = on(&disk);
    for step in 0..5 {
        let runs = [40, 60].map(|len| bytes(step, len));
        let parked = runs.each_ref().map(|run| park(&mut swap, run).unwrap());
        let back = parked.map(|parked| unpark(&mut swap, parked).unwrap());
        assert_eq!(back, runs);
    }
    assert_eq!(disk.bytes.lock().unwrap().len(), 100);
}

// The write is behind its owner, who learns of it from the next call that needs the disk.
#[test]
fn a_full_disk_is_told_with_the_bytes_that_the_file_needs() {
    let mut swap = on(&broken(40, usize::MAX));
    let parked = park(&mut swap, &bytes(0, 41)).unwrap();
    let error = unpark(&mut swap, parked).unwrap_err();
    assert_eq!(
        error.to_string(),
        "file of rank 3 in /scratch: no storage space, needs room for 41 bytes (41 B)"
    );
    // Nor does a later call wait for ever.
    for _ in 0..3 {
        let parked = park(&mut swap, &bytes(1, 10));
        let later = parked.and_then(|parked| unpark(&mut swap, parked));
        assert_eq!(later.unwrap_err(), error);
    }
}

#[test]
fn room_may_be_reserved_before_the_first_piece() {
    let disk = broken(100, usize::MAX);
    let mut swap = on(&disk);
    let refused = swap.reserve(101, &*dry::open()).unwrap_err().to_string();
    let text = "file of rank 3 in /scratch: no storage space, needs room for 101 bytes (101 B)";
    assert_eq!(refused, text);
    swap.reserve(100, &*dry::open()).unwrap();
    assert_eq!(
        (disk.bytes.lock().unwrap().len(), swap.num_bytes()),
        (100, 0)
    );
    // Where nothing is stored, the file would be as long as it is.
    let [mut nowhere, mut host] =
        [Place::Nowhere, Place::Host].map(|place| Swap::new("rank 3", &place, PIECE).unwrap());
    host.reserve(90, &*dry::open()).unwrap();
    for swap in [&mut swap, &mut nowhere, &mut host] {
        for _ in 0..2 {
            let parked = [40, 60].map(|len| park(swap, &bytes(0, len)).unwrap());
            let [short, long] = parked;
            swap.discard(long);
            swap.unpark(short, &mut |_, _| Ok(())).unwrap();
        }
        assert_eq!(swap.num_bytes(), 100);
    }
    assert_eq!(disk.bytes.lock().unwrap().len(), 100);
}

#[test]
fn a_disk_that_fails_is_an_error_of_the_next_call() {
    let mut swap = on(&broken(400, 1));
    let parked = park(&mut swap, &bytes(0, 32)).unwrap();
    let error = unpark(&mut swap, parked).unwrap_err();
    assert_eq!(
        error.to_string(),
        "file of rank 3 in /scratch, piece 1 of 0 to 1: the disk is gone, needs a disk that writes it"
    );
}

#[test]
fn damage_is_named_with_both_checksums() {
    let disk = broken(400, usize::MAX);
    let mut swap = on(&disk);
    let (run, other) = (bytes(0, 16), bytes(1, 16));
    let parked = [&run, &other].map(|run| park(&mut swap, run).unwrap());
    // Once the second has been read, both are written.
    let [first, second] = parked;
    assert_eq!(unpark(&mut swap, second).unwrap(), other);
    disk.bytes.lock().unwrap()[3] ^= 0x10;
    let mut damaged = run.clone();
    damaged[3] ^= 0x10;
    let [found, written] = [&damaged, &run].map(|bytes| crc32fast::hash(bytes));
    let text = format!(
        "file of rank 3 in /scratch, piece 0 of 0 to 1: bytes with checksum {found:08x}, \
         needs checksum {written:08x}, that of what was written"
    );
    assert_eq!(unpark(&mut swap, first).unwrap_err().to_string(), text);
}

#[test]
fn an_owner_that_fails_keeps_no_buffer_from_later_ones() {
    for place in places() {
        let mut swap = Swap::new("rank 3", &place, PIECE).unwrap();
        for _ in 0..4 {
            let fault = Error::invalid("owner", "a fault", "none");
            let parked = swap.park(20, &mut |_, _| Err(fault.clone()));
            assert_eq!(parked.unwrap_err(), fault);
        }
        let run = bytes(5, 50);
        let parked = park(&mut swap, &run).unwrap();
        assert_eq!(unpark(&mut swap, parked).unwrap(), run);
    }
}

#[test]
fn runs_in_reserved_memory_and_behind_it_come_back() {
    let swap = || Swap::new("rank 3", &Place::Host, PIECE).unwrap();
    for reserved in [0, 15, 16, 40, 100, 1000] {
        let mut swap = swap();
        swap.reserve(reserved, &*dry::open()).unwrap();
        for step in 0..3 {
            let runs = [33, 16, 51].map(|len| bytes(step, len));
            let parked = runs.each_ref().map(|run| park(&mut swap, run).unwrap());
            // What is away keeps its place.
            swap.reserve(1 << 20, &*dry::open()).unwrap();
            for (parked, run) in parked.into_iter().zip(&runs) {
                assert_eq!(unpark(&mut swap, parked).unwrap(), *run, "{reserved}");
            }
            assert_eq!(swap.num_bytes(), 100, "{reserved}");
        }
    }
    let error = swap().reserve(u64::MAX, &*dry::open()).unwrap_err();
    let text = "memory of rank 3: a host without room for 18446744073709551615 bytes, needs ";
    assert!(error.to_string().starts_with(text), "{error}");
}
