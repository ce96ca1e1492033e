//! The checkpoints of one run in a store.

use crate::{
    attempts::{Failure, attempted, refused},
    download::download,
    place::{self, Place},
    upload::{Source, upload},
    worker::Worker,
};
use checkpoint::{CheckpointStore, Error, FileCopy, Inventory, Limit, Result};
use futures_util::StreamExt;
use object_store::{Error as StoreError, ObjectMeta, ObjectStore, ObjectStoreExt, path::Path};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    future::Future,
    path::{Path as FilePath, PathBuf},
    sync::{Arc, mpsc::sync_channel},
};

const MANIFEST: &str = "manifest.json";

/// The longest manifest that a checkpoint's reader accepts.
const MOST_MANIFEST_BYTES: u64 = 256 << 20;

/// The checkpoints of a run below one prefix of a store. Every call waits for the store, within its limit.
///
/// A copy to the store holds 40 MiB in memory, and one from it 48 MiB, whatever the length of files up to 78 GiB; above that, up to
/// five pieces of a 10,000th of the file.
pub struct StoreFolder {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    url: String,
    worker: Worker,
}

impl StoreFolder {
    /// Opens `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`, `https://host/path` or `file:///folder`, with the
    /// credentials in the environment: `AWS_*`, `GOOGLE_*`, `AZURE_*`. Asks the store nothing yet.
    ///
    /// # Errors
    /// [`Error::Store`] for another URL, for one with a secret in it, and for settings that are missing.
    pub fn open(url: &str) -> Result<StoreFolder> {
        let Place { store, prefix, url } = place::open(url)?;
        StoreFolder::over(store, prefix, &url)
    }

    /// The folder at `prefix` of any store, which messages call `url`.
    ///
    /// # Errors
    /// [`Error::Store`] if no thread can be started.
    pub fn over(store: Arc<dyn ObjectStore>, prefix: Path, url: &str) -> Result<StoreFolder> {
        let worker = Worker::start();
        Ok(StoreFolder {
            store,
            prefix,
            url: url.to_owned(),
            worker: worker.map_err(|error| refused(url, "opening", error.to_string()))?,
        })
    }

    fn dir(&self, step: u64) -> Path {
        self.prefix.clone().join(format!("step-{step:08}"))
    }

    // Runs an operation on the thread until it succeeds, fails for good or reaches the limit.
    fn run<T: Send + 'static, F: Future<Output = Result<T, Failure>> + Send>(
        &self,
        operation: &str,
        limit: &Limit,
        attempt: impl Fn(Arc<dyn ObjectStore>) -> F + Send + Sync + 'static,
    ) -> Result<T> {
        let (url, what, limit) = (self.url.clone(), operation.to_owned(), limit.clone());
        let store = self.store.clone();
        let done = self
            .worker
            .run(async move { attempted(&url, &what, &limit, || attempt(store.clone())).await });
        done.unwrap_or_else(|| Err(self.ended(operation)))
    }

    fn ended(&self, operation: &str) -> Error {
        refused(&self.url, operation, "a bug: its thread has ended".into())
    }

    // All objects below a path, by their paths, with their lengths.
    fn objects(&self, below: Path, limit: &Limit) -> Result<BTreeMap<Path, u64>> {
        self.run("listing", limit, move |store| {
            let below = below.clone();
            async move {
                let found: Vec<object_store::Result<ObjectMeta>> =
                    store.list(Some(&below)).collect().await;
                let found = found.into_iter().map(|object| {
                    let object = object?;
                    Ok((object.location, object.size))
                });
                found.collect::<Result<_, Failure>>()
            }
        })
    }

    fn manifest(&self, step: u64, limit: &Limit) -> Result<Option<Vec<u8>>> {
        let path = self.dir(step).join(MANIFEST);
        self.run(&format!("reading {path}"), limit, move |store| {
            let path = path.clone();
            async move {
                let found = match store.get(&path).await {
                    Err(StoreError::NotFound { .. }) => return Ok(None),
                    found => found?,
                };
                if found.meta.size > MOST_MANIFEST_BYTES {
                    let bytes = found.meta.size;
                    let reason =
                        format!("found {bytes} bytes, needs at most {MOST_MANIFEST_BYTES}");
                    return Err(Failure::Here(refused(path.as_ref(), "reading", reason)));
                }
                Ok(Some(found.bytes().await?.to_vec()))
            }
        })
    }

    fn delete(&self, path: Path, limit: &Limit) -> Result<()> {
        self.run(&format!("removing {path}"), limit, move |store| {
            let path = path.clone();
            async move {
                match store.delete(&path).await {
                    Err(StoreError::NotFound { .. }) => Ok(()),
                    deleted => Ok(deleted?),
                }
            }
        })
    }

    // Whether all files of a manifest are among these objects, with their lengths.
    fn is_whole(&self, inventory: &Inventory, objects: &BTreeMap<Path, u64>) -> bool {
        let dir = self.dir(inventory.step());
        (0..inventory.num_files()).all(|file| {
            let path = dir.clone().join(inventory.file_name(file));
            objects.get(&path) == Some(&inventory.file_bytes(file))
        })
    }

    // The step of a path, if that is the manifest of one here.
    fn step_of(&self, path: &Path) -> Option<u64> {
        let dir = path.as_ref().strip_suffix(MANIFEST)?.strip_suffix('/')?;
        let step = dir
            .rsplit('/')
            .next()?
            .strip_prefix("step-")?
            .parse()
            .ok()?;
        (self.dir(step).as_ref() == dir).then_some(step)
    }

    fn push_file(&self, to: Path, from: PathBuf, bytes: u64, checked: Checked) -> Result<()> {
        let Checked { limit, check } = checked;
        self.run(&format!("writing {to}"), &limit, move |store| {
            let (to, from, check) = (to.clone(), from.clone(), check.clone());
            async move {
                let source = Source {
                    path: from,
                    bytes,
                    check: &*check,
                };
                upload(&*store, &to, &source).await
            }
        })
    }
}

type Check = dyn Fn(u64, u32) -> Result<()> + Send + Sync;

struct Checked {
    limit: Limit,
    check: Arc<Check>,
}

impl CheckpointStore for StoreFolder {
    fn url(&self) -> &str {
        &self.url
    }

    fn steps(&self, limit: &Limit) -> Result<Vec<u64>> {
        let found = self.objects(self.prefix.clone(), limit)?;
        let mut steps = BTreeSet::new();
        for step in found.keys().filter_map(|path| self.step_of(path)) {
            // A store that tears what it is given has half a manifest.
            let inventory = match self.inventory(step, limit) {
                Err(Error::Damaged { .. } | Error::NotStored { .. }) => continue,
                inventory => inventory?,
            };
            if inventory.step() == step && self.is_whole(&inventory, &found) {
                steps.insert(step);
            }
        }
        Ok(steps.into_iter().collect())
    }

    fn inventory(&self, step: u64, limit: &Limit) -> Result<Inventory> {
        let text = self
            .manifest(step, limit)?
            .ok_or_else(|| Error::NotStored {
                url: self.url.clone(),
                step: Some(step),
                newest: None,
            })?;
        Inventory::decode(&text).map_err(|error| error.at(self.url.as_ref()))
    }

    fn push(&self, checkpoint: &FilePath, limit: &Limit) -> Result<u64> {
        let inventory = Inventory::read(checkpoint)?;
        let (step, text) = (inventory.step(), inventory.text());
        match self.manifest(step, limit)? {
            Some(there)
                if there == text
                    && self.is_whole(&inventory, &self.objects(self.dir(step), limit)?) =>
            {
                return Ok(0);
            }
            // From here on, what is there is no checkpoint.
            Some(_) => self.delete(self.dir(step).join(MANIFEST), limit)?,
            None => {}
        }
        let shared = Arc::new(inventory);
        for file in 0..shared.num_files() {
            let (name, place) = (shared.file_name(file).to_owned(), checkpoint.to_owned());
            let (bytes, inventory) = (shared.file_bytes(file), shared.clone());
            let check: Arc<Check> =
                Arc::new(move |bytes, sum| inventory.check(file, (bytes, sum), &place));
            let limit = limit.clone();
            let checked = Checked { limit, check };
            let to = self.dir(step).join(name.as_str());
            self.push_file(to, checkpoint.join(&name), bytes, checked)?;
        }
        let to = self.dir(step).join(MANIFEST);
        self.run(&format!("writing {to}"), limit, move |store| {
            let (to, text) = (to.clone(), text.clone());
            async move { Ok(store.put(&to, text.into()).await.map(drop)?) }
        })?;
        Ok(shared.num_bytes())
    }

    fn read(&self, step: u64, copy: &mut FileCopy<'_>, limit: &Limit) -> Result<()> {
        let from = self.dir(step).join(copy.name());
        let operation = format!("reading {from}");
        let (sender, receiver) = sync_channel(0);
        let place = (self.url.clone(), from);
        let (store, bytes) = (self.store.clone(), copy.num_bytes());
        let started = self
            .worker
            .start_job(download(store, place, bytes, limit.clone(), sender));
        if !started {
            return Err(self.ended(&operation));
        }
        let mut left = bytes;
        for piece in receiver {
            let piece = piece?;
            copy.write(&piece)?;
            left = left.saturating_sub(piece.len() as u64);
        }
        match left {
            0 => Ok(()),
            _ => Err(refused(
                &self.url,
                &operation,
                format!("{left} of {bytes} bytes did not arrive"),
            )),
        }
    }

    fn remove(&self, step: u64, limit: &Limit) -> Result<()> {
        let dir = self.dir(step);
        self.delete(dir.clone().join(MANIFEST), limit)?;
        let mut files = self.objects(dir, limit)?.into_keys();
        files.try_for_each(|path| self.delete(path, limit))
    }
}

impl fmt::Debug for StoreFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreFolder({})", self.url)
    }
}
