//! Reads a file from a store, in pieces of 8 MiB. Four are on their way at a time, so a copy holds 32 MiB.

use crate::{
    attempts::attempted,
    upload::{AT_A_TIME, PIECE_BYTES},
};
use bytes::Bytes;
use checkpoint::{Error, Limit};
use futures_util::{StreamExt, stream};
use object_store::{ObjectStore, ObjectStoreExt, path::Path};
use std::sync::{Arc, mpsc::SyncSender};

/// Sends the pieces of an object in their order, until one fails or nobody takes them.
pub(crate) async fn download(
    store: Arc<dyn ObjectStore>,
    (url, from): (String, Path),
    bytes: u64,
    limit: Limit,
    sender: SyncSender<Result<Bytes, Error>>,
) {
    let operation = format!("reading {from}");
    let starts = (0..bytes.div_ceil(PIECE_BYTES)).map(|piece| piece * PIECE_BYTES);
    let piece = |start: u64| {
        let range = start..bytes.min(start + PIECE_BYTES);
        let (store, from, url, operation, limit) = (&store, &from, &url, &operation, &limit);
        async move {
            let read = || async { Ok(store.get_range(from, range.clone()).await?) };
            attempted(url, operation, limit, read).await
        }
    };
    let mut pieces = stream::iter(starts).map(piece).buffered(AT_A_TIME);
    while let Some(piece) = pieces.next().await {
        let is_last = piece.is_err();
        if sender.send(piece).is_err() || is_last {
            return;
        }
    }
}
