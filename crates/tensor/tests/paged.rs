//! Memory that is beyond the device while nothing uses it.

use fascicle_tensor::{Beyond, DType, Device, MemoryKind, Paged, Result, StreamKind, Tensor, ops};
use offload::{Disk, FileSystem, Place, Scratch};
use std::{
    io,
    ops::Range,
    path::Path,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

const LEN: usize = 1000;
const BYTES: usize = 4 * LEN;

/// A disk that counts its transfers, and refuses them where it is told to.
#[derive(Clone, Debug, Default)]
struct Counting {
    reads: Arc<AtomicUsize>,
    writes: Arc<AtomicUsize>,
    refuses: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Counted(Counting, Box<dyn Scratch>);

impl Disk for Counting {
    fn create(&self, folder: &Path) -> io::Result<Box<dyn Scratch>> {
        Ok(Box::new(Counted(self.clone(), FileSystem.create(folder)?)))
    }
}

impl Scratch for Counted {
    fn reserve(&self, range: Range<u64>) -> io::Result<()> {
        self.1.reserve(range)
    }

    fn read(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.reads.fetch_add(1, Relaxed);
        match self.0.refuses.load(Relaxed) {
            0 => self.1.read(bytes, offset),
            _ => Err(io::Error::other("the disk is gone")),
        }
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.writes.fetch_add(1, Relaxed);
        self.1.write(bytes, offset)
    }
}

fn device(memory_bytes: usize) -> Result<Device> {
    Device::new(cpu::open(cpu::Options {
        memory_bytes: Some(memory_bytes),
        ..cpu::Options::default()
    })?)
}

fn room(device: &Device, content: &str, place: &Place, piece_bytes: usize) -> Result<Rc<Beyond>> {
    let link = |name| device.create_stream(StreamKind::Host, name);
    let links = [link("there")?, link("back")?];
    Beyond::new(device, (content, "rank 3"), (place, piece_bytes), links)
}

fn files(disk: &Counting) -> Place {
    let folder = std::env::temp_dir();
    let disk = Arc::new(disk.clone());
    Place::Files { disk, folder }
}

/// A tensor of zeros beyond the device.
fn paged(device: &Device, beyond: &Rc<Beyond>) -> Result<(Tensor, Rc<Paged>)> {
    let new = || Tensor::empty(device, DType::F32, &[LEN]);
    let tensor = device.allocating(MemoryKind::Weights, new)?;
    let paged = Paged::zeros(&tensor, beyond);
    Ok((tensor, paged))
}

fn in_use(device: &Device) -> usize {
    device.memory_use().of(MemoryKind::Weights).in_use
}

#[test]
fn tensors_that_need_more_than_the_device_keep_their_elements() -> Result<()> {
    for place in [Place::Host, files(&Counting::default())] {
        // Room for three of eight; pieces that end within a tensor, and one for all.
        for piece_bytes in [999, 1 << 20] {
            let device = device(3 * 4096 + 1024)?;
            let beyond = room(&device, "weights", &place, piece_bytes)?;
            let all = (0..8).map(|_| paged(&device, &beyond));
            let all = all.collect::<Result<Vec<_>>>()?;
            assert_eq!(in_use(&device), 0);
            for step in 0..3 {
                for (index, (tensor, paged)) in all.iter().enumerate() {
                    let before = if step == 0 {
                        0.0
                    } else {
                        (index + step - 1) as f32
                    };
                    // A view reads what its tensor holds.
                    assert_eq!(tensor.rows(7, 2)?.to_vec::<f32>()?, [before; 2]);
                    assert!(paged.is_here());
                    tensor.fill((index + step) as f64)?;
                    paged.leave()?;
                    assert_eq!(in_use(&device), 0);
                }
            }
            let (first, second) = (&all[0].0, &all[5].0);
            ops::axpby(1.0, first, 2.0, second)?;
            assert_eq!(second.to_vec::<f32>()?, [16.0; LEN]);
        }
    }
    Ok(())
}

#[test]
fn what_was_only_read_leaves_without_being_written() -> Result<()> {
    let (disk, device) = (Counting::default(), device(1 << 20)?);
    let beyond = room(&device, "weights", &files(&disk), BYTES)?;
    let (tensor, paged) = paged(&device, &beyond)?;
    let transfers = || [&disk.reads, &disk.writes].map(|count| count.load(Relaxed));
    tensor.fill(3.0)?;
    let version = tensor.version();
    assert_eq!(transfers(), [0, 0]);
    for step in 1..5 {
        paged.leave()?;
        paged.fetch()?;
        paged.arrive()?;
        assert_eq!(tensor.to_vec::<f32>()?, [3.0; LEN]);
        assert_eq!(transfers(), [step, 1]);
    }
    assert_eq!(tensor.version(), version, "to come back is no write");
    // A write on another stream counts too.
    let stream = device.create_stream(StreamKind::Communication, "another")?;
    ops::copy_on(
        &stream,
        &Tensor::full(&device, DType::F32, &[1], 5.0)?,
        &tensor.rows(9, 1)?,
    )?;
    assert_ne!(tensor.version(), version);
    paged.leave()?;
    assert_eq!(tensor.rows(8, 2)?.to_vec::<f32>()?, [3.0, 5.0]);
    assert_eq!(transfers(), [5, 2]);
    Ok(())
}

#[test]
fn forgotten_elements_are_zeros_and_are_not_read() -> Result<()> {
    let (disk, device) = (Counting::default(), device(1 << 20)?);
    let beyond = room(&device, "gradients", &files(&disk), BYTES)?;
    let (tensor, paged) = paged(&device, &beyond)?;
    for _ in 0..3 {
        tensor.fill(3.0)?;
        // Those on the device stay.
        paged.forget();
        assert_eq!(tensor.rows(0, 1)?.to_vec::<f32>()?, [3.0]);
        paged.leave()?;
        paged.forget();
        assert_eq!(tensor.to_vec::<f32>()?, [0.0; LEN]);
    }
    assert_eq!(disk.reads.load(Relaxed), 0);
    assert_eq!(beyond.num_bytes(), BYTES as u64);
    Ok(())
}

#[test]
fn a_device_without_room_says_so_and_loses_nothing() -> Result<()> {
    let device = device(BYTES + 2048)?;
    let beyond = room(&device, "weights", &Place::Host, BYTES)?;
    let (tensor, paged) = paged(&device, &beyond)?;
    tensor.fill(7.0)?;
    paged.leave()?;
    let other = Tensor::empty(&device, DType::F32, &[LEN])?;
    let refused = tensor.to_vec::<f32>().unwrap_err().to_string();
    assert!(refused.contains("out of memory"), "{refused}");
    assert!(paged.arrive().is_err());
    drop(other);
    assert_eq!(tensor.to_vec::<f32>()?, [7.0; LEN]);
    Ok(())
}

#[test]
fn a_disk_that_fails_leaves_nothing_to_read() -> Result<()> {
    let (disk, device) = (Counting::default(), device(1 << 20)?);
    let beyond = room(&device, "weights", &files(&disk), BYTES)?;
    let (tensor, paged) = paged(&device, &beyond)?;
    tensor.fill(7.0)?;
    paged.leave()?;
    disk.refuses.store(1, Relaxed);
    let folder = std::env::temp_dir();
    let expected = format!(
        "file of the weights of rank 3 in {}, piece 0 of 0 to 0: the disk is gone, needs a disk that reads it",
        folder.display()
    );
    assert_eq!(paged.arrive().unwrap_err().to_string(), expected);
    disk.refuses.store(0, Relaxed);
    for _ in 0..2 {
        assert_eq!(tensor.to_vec::<f32>().unwrap_err().to_string(), expected);
        assert_eq!(tensor.fill(1.0).unwrap_err().to_string(), expected);
    }
    assert_eq!(in_use(&device), 0);
    Ok(())
}

#[test]
fn recorded_and_foreign_memory_stays() -> Result<()> {
    let device = device(1 << 20)?;
    let beyond = room(&device, "weights", &Place::Host, BYTES)?;
    let tensor = Tensor::from_vec(&device, &[LEN], vec![2.0f32; LEN])?;
    let paged = Paged::zeros(&tensor, &beyond);
    paged.leave()?;
    assert!(paged.is_here());
    assert_eq!(tensor.to_vec::<f32>()?, [2.0; LEN]);
    Ok(())
}
