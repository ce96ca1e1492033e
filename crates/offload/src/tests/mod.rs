mod store;
mod swap;

use crate::{Disk, FileSystem, Place, Scratch};
use std::{
    io,
    ops::Range,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

fn places() -> [Place; 2] {
    let folder = std::env::temp_dir();
    let disk = Arc::new(FileSystem);
    [Place::Host, Place::Files { disk, folder }]
}

/// A disk in memory, with so much room, that is gone after so many writes.
#[derive(Clone, Debug, Default)]
struct Broken {
    bytes: Arc<Mutex<Vec<u8>>>,
    room: u64,
    // Writes that are done; later ones fail.
    writes: Arc<AtomicUsize>,
}

impl Disk for Broken {
    fn create(&self, _: &Path) -> io::Result<Box<dyn Scratch>> {
        Ok(Box::new(self.clone()))
    }
}

impl Scratch for Broken {
    fn reserve(&self, range: Range<u64>) -> io::Result<()> {
        if range.end > self.room {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.lock().unwrap().resize(range.end as usize, 0);
        Ok(())
    }

    fn read(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let all = self.bytes.lock().unwrap();
        bytes.copy_from_slice(&all[offset as usize..][..bytes.len()]);
        Ok(())
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self
            .writes
            .fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1))
            .is_err()
        {
            return Err(io::Error::other("the disk is gone"));
        }
        let mut all = self.bytes.lock().unwrap();
        all[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}
