//! The body of a request.

use crate::{Limits, protocol::Refusal};
use axum::{
    extract::Request,
    http::{HeaderMap, header},
};
use futures_util::StreamExt;

/// The complete body, within its limits.
///
/// # Errors
/// For another type than JSON, too many bytes, and too much time.
pub(super) async fn read(request: Request, limits: &Limits) -> Result<Vec<u8>, Refusal> {
    let (parts, body) = request.into_parts();
    check_type(&parts.headers)?;
    let most = limits.body_bytes;
    let too_long = || {
        let message = format!("the body: found more than {most} bytes, needs at most as many");
        Refusal::new(413, message).code("body_too_long")
    };
    let told = parts.headers.get(header::CONTENT_LENGTH);
    let told = told.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if told.is_some_and(|length| length > most) {
        return Err(too_long());
    }
    let read = async {
        let (mut stream, mut bytes) = (body.into_data_stream(), Vec::new());
        while let Some(piece) = stream.next().await {
            let piece =
                piece.map_err(|_| Refusal::invalid("the body does not end as it should"))?;
            if bytes.len() + piece.len() > most {
                return Err(too_long());
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    };
    let read = tokio::time::timeout(limits.client, read).await;
    read.unwrap_or_else(|_| Err(Refusal::new(408, "the body did not come in time")))
}

// A page of another site can send other types without asking, and so use a server that only its user can reach.
fn check_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let found = headers.get(header::CONTENT_TYPE);
    let found = found
        .and_then(|value| value.to_str().ok())
        .unwrap_or("none");
    let kind = found.split(';').next().unwrap_or_default().trim();
    match kind.eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false => {
            let message = format!("Content-Type: found {found}, needs application/json");
            Err(Refusal::new(415, message))
        }
    }
}
