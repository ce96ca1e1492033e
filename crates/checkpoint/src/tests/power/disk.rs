//! A disk whose process dies, which refuses, or which becomes full, and of which a power cut leaves what was synced.

use super::{
    model::{Model, Node},
    random::Random,
};
use crate::{
    disk::{Disk, Stored},
    tests::names,
};
use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
};

/// What becomes of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    None,
    /// The process is dead from then on.
    Dies,
    /// This one operation fails.
    Refused,
    /// This one, and all that need room, fail.
    Full,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    TakesRoom,
    SyncsNames,
    Other,
}

/// The living view is a real folder, where readers find it; the model mirrors it.
#[derive(Clone, Debug)]
pub struct CutDisk(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    root: PathBuf,
    model: Model,
    random: Random,
    trouble: Trouble,
    /// Operations until it comes, of this kind or of all.
    left: usize,
    only: Option<Operation>,
    num_operations: u64,
}

impl CutDisk {
    /// The disk of a machine that has just started.
    pub fn new(root: &Path, random: Random) -> CutDisk {
        CutDisk(Arc::new(Mutex::new(State {
            root: root.to_owned(),
            model: Model::of(root),
            random,
            trouble: Trouble::None,
            left: 0,
            only: None,
            num_operations: 0,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Another process writes, and meets trouble after this many operations, of this kind or of all.
    pub fn restart(&self, trouble: Trouble, left: usize, only: Option<Operation>) {
        let mut state = self.lock();
        (state.trouble, state.left, state.only) = (trouble, left, only);
    }

    /// Whether the trouble has come.
    pub fn is_in_trouble(&self) -> bool {
        let state = self.lock();
        state.trouble != Trouble::None && state.only.is_none() && state.left == 0
    }

    pub fn num_operations(&self) -> u64 {
        self.lock().num_operations
    }

    /// Writes what a power cut could leave into an empty folder.
    pub fn after_cut(&self, into: &Path) {
        let State { model, random, .. } = &mut *self.lock();
        model.after_cut(random, into);
    }
}

impl State {
    fn meet(&mut self, operation: Operation) -> io::Result<()> {
        self.num_operations += 1;
        if self.only.is_some_and(|only| only != operation) {
            return Ok(());
        }
        if self.left > 0 {
            self.left -= 1;
            return Ok(());
        }
        // From now on it concerns all.
        self.only = None;
        match self.trouble {
            Trouble::None => Ok(()),
            Trouble::Dies => Err(io::Error::other("killed")),
            Trouble::Refused => {
                self.trouble = Trouble::None;
                Err(io::Error::other("refused"))
            }
            Trouble::Full if operation == Operation::TakesRoom => {
                Err(io::ErrorKind::StorageFull.into())
            }
            Trouble::Full => Ok(()),
        }
    }

    fn relative(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.root).unwrap().to_owned()
    }

    fn create_dir(&mut self, path: &Path) -> io::Result<()> {
        if path.exists() {
            return Ok(());
        }
        self.create_dir(path.parent().unwrap())?;
        self.meet(Operation::TakesRoom)?;
        fs::create_dir(path)?;
        self.model.add_folder(&self.relative(path));
        Ok(())
    }

    // Files in any order: none is promised.
    fn remove(&mut self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            let mut inside = names(path);
            while !inside.is_empty() {
                let name = inside.swap_remove(self.random.below(inside.len()));
                self.remove(&path.join(name))?;
            }
        }
        if !path.exists() {
            return Ok(());
        }
        self.meet(Operation::Other)?;
        match path.is_dir() {
            true => fs::remove_dir(path)?,
            false => fs::remove_file(path)?,
        }
        self.model.remove(&self.relative(path));
        Ok(())
    }
}

impl Disk for CutDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.lock().create_dir(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Stored>> {
        let mut state = self.lock();
        state.meet(Operation::TakesRoom)?;
        let file = File::create_new(path)?;
        let relative = state.relative(path);
        let node = state.model.add_file(&relative);
        Ok(Box::new(CutFile {
            disk: self.clone(),
            file,
            node,
        }))
    }

    fn link(&self, file: &Path, name: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.meet(Operation::TakesRoom)?;
        fs::hard_link(file, name)?;
        let (file, name) = (state.relative(file), state.relative(name));
        state.model.link(&file, &name);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.meet(Operation::Other)?;
        fs::rename(from, to)?;
        let (from, to) = (state.relative(from), state.relative(to));
        state.model.rename(&from, &to);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.lock().remove(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.meet(Operation::SyncsNames)?;
        // What holds the root has always been there.
        if path.starts_with(&state.root) {
            let path = state.relative(path);
            state.model.sync_folder(&path);
        }
        Ok(())
    }
}

struct CutFile {
    disk: CutDisk,
    file: File,
    node: Node,
}

impl Write for CutFile {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let mut state = self.disk.lock();
        let allowed = state.meet(Operation::TakesRoom);
        let taken = match &allowed {
            Ok(()) => buffer.len(),
            // What came before the trouble is in the file.
            Err(_) => state.random.below(buffer.len().max(1)),
        };
        self.file.write_all(&buffer[..taken])?;
        state.model.append(self.node, &buffer[..taken]);
        allowed.map(|()| taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stored for CutFile {
    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.lock();
        let allowed = state.meet(Operation::Other);
        match &allowed {
            Ok(()) => state.model.sync_file(self.node),
            Err(_) => state.model.spoil(self.node),
        }
        allowed
    }
}
