//! A store that fails at one of its operations, in one of several ways.

use async_trait::async_trait;
use futures_util::{FutureExt, StreamExt, stream::BoxStream};
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
    UploadPart, memory::InMemory, path::Path,
};
use std::{
    fmt,
    sync::{Arc, Mutex},
};

/// How an operation fails, and all after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    /// They are refused.
    Refuse,
    /// It takes half of what it is given, and they are refused.
    Tear,
    /// Those that write are refused.
    Full,
    /// They do not answer.
    Hang,
    /// It alone fails, in a way that may pass.
    Once,
}

#[derive(Debug)]
pub(super) struct FaultyStore {
    inner: InMemory,
    // Operations until the fault.
    left: Arc<Mutex<Option<(usize, Fault)>>>,
}

/// What an operation has to do.
enum Verdict {
    Works,
    Tears,
    Fails(Error),
    Hangs,
}

fn next(left: &Mutex<Option<(usize, Fault)>>, writes: bool) -> Verdict {
    let mut left = left.lock().unwrap();
    let Some((operations, fault)) = *left else {
        return Verdict::Works;
    };
    if operations > 0 {
        *left = Some((operations - 1, fault));
        return Verdict::Works;
    }
    let refused = || Error::PermissionDenied {
        path: "test".into(),
        source: "a fault was planted".into(),
    };
    match fault {
        Fault::Full if !writes => Verdict::Works,
        Fault::Refuse | Fault::Full => Verdict::Fails(refused()),
        Fault::Tear => {
            *left = Some((0, Fault::Refuse));
            Verdict::Tears
        }
        Fault::Hang => Verdict::Hangs,
        Fault::Once => {
            *left = None;
            Verdict::Fails(Error::Generic {
                store: "test",
                source: "a fault that passes was planted".into(),
            })
        }
    }
}

impl FaultyStore {
    pub(super) fn over(inner: InMemory) -> FaultyStore {
        FaultyStore {
            inner,
            left: Arc::default(),
        }
    }

    /// Makes the operation after this many others fail.
    pub(super) fn fail_at(&self, operation: usize, fault: Fault) {
        *self.left.lock().unwrap() = Some((operation, fault));
    }

    /// Lets all work again; returns after how many operations one would have failed.
    pub(super) fn heal(&self) -> Option<usize> {
        self.left.lock().unwrap().take().map(|(left, _)| left)
    }

    pub(super) fn num_objects(&self) -> usize {
        let all = self.inner.list(None).collect::<Vec<_>>().now_or_never();
        all.unwrap().len()
    }

    /// Flips a bit of an object's last byte.
    pub(super) fn flip(&self, path: &str) {
        let path = Path::from(path);
        let read = async { self.inner.get(&path).await?.bytes().await };
        let mut bytes = read.now_or_never().unwrap().unwrap().to_vec();
        *bytes.last_mut().unwrap() ^= 1;
        let written = self.inner.put(&path, bytes.into()).now_or_never();
        written.unwrap().unwrap();
    }

    pub(super) fn clear(&self) {
        let all = self.inner.list(None).collect::<Vec<_>>().now_or_never();
        for object in all.unwrap() {
            let deleted = self.inner.delete(&object.unwrap().location).now_or_never();
            deleted.unwrap().unwrap();
        }
    }

    async fn passes(&self, writes: bool) -> Result<()> {
        match next(&self.left, writes) {
            Verdict::Works => Ok(()),
            Verdict::Tears => Err(Error::PermissionDenied {
                path: "test".into(),
                source: "torn".into(),
            }),
            Verdict::Fails(error) => Err(error),
            Verdict::Hangs => std::future::pending().await,
        }
    }
}

fn half(payload: PutPayload) -> PutPayload {
    let bytes: Vec<u8> = payload.iter().flat_map(|part| part.to_vec()).collect();
    bytes[..bytes.len() / 2].to_vec().into()
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FaultyStore")
    }
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        match next(&self.left, true) {
            Verdict::Works => self.inner.put_opts(location, payload, options).await,
            Verdict::Tears => {
                self.inner
                    .put_opts(location, half(payload), options)
                    .await?;
                Err(Error::PermissionDenied {
                    path: location.to_string(),
                    source: "torn".into(),
                })
            }
            Verdict::Fails(error) => Err(error),
            Verdict::Hangs => std::future::pending().await,
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.passes(true).await?;
        let upload = self.inner.put_multipart_opts(location, options).await?;
        Ok(Box::new(FaultyUpload {
            upload,
            left: self.left.clone(),
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.passes(false).await?;
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        match next(&self.left, false) {
            Verdict::Works => self.inner.delete_stream(locations),
            Verdict::Fails(error) => futures_util::stream::iter([Err(error)]).boxed(),
            Verdict::Tears | Verdict::Hangs => {
                let refused = Error::PermissionDenied {
                    path: "test".into(),
                    source: "torn".into(),
                };
                futures_util::stream::iter([Err(refused)]).boxed()
            }
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match next(&self.left, false) {
            Verdict::Works => self.inner.list(prefix),
            Verdict::Hangs => futures_util::stream::pending().boxed(),
            Verdict::Fails(error) => futures_util::stream::iter([Err(error)]).boxed(),
            Verdict::Tears => {
                let refused = Error::PermissionDenied {
                    path: "test".into(),
                    source: "torn".into(),
                };
                futures_util::stream::iter([Err(refused)]).boxed()
            }
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[derive(Debug)]
struct FaultyUpload {
    upload: Box<dyn MultipartUpload>,
    left: Arc<Mutex<Option<(usize, Fault)>>>,
}

#[async_trait]
impl MultipartUpload for FaultyUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        match next(&self.left, true) {
            Verdict::Works => self.upload.put_part(data),
            Verdict::Hangs => std::future::pending().boxed(),
            Verdict::Fails(error) => async { Err(error) }.boxed(),
            Verdict::Tears => {
                let part = self.upload.put_part(half(data));
                async move {
                    part.await?;
                    Err(Error::PermissionDenied {
                        path: "test".into(),
                        source: "torn".into(),
                    })
                }
                .boxed()
            }
        }
    }

    async fn complete(&mut self) -> Result<PutResult> {
        match next(&self.left, true) {
            Verdict::Works => self.upload.complete().await,
            Verdict::Hangs => std::future::pending().await,
            Verdict::Fails(error) => Err(error),
            Verdict::Tears => {
                self.upload.complete().await?;
                Err(Error::PermissionDenied {
                    path: "test".into(),
                    source: "torn".into(),
                })
            }
        }
    }

    async fn abort(&mut self) -> Result<()> {
        self.upload.abort().await
    }
}
