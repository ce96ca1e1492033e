//! What is at which address.

use super::{Keys, answers::Answers, body, connection::Phase, places::Places};
use crate::{
    Limits, Served,
    engine::Job,
    metrics::Metrics,
    protocol::{Answer, Asked, Endpoint, Identity, Refusal},
};
use axum::{
    Router,
    body::Body,
    extract::{Path, Request, State},
    http::{HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::Sender,
    },
    time::{SystemTime, UNIX_EPOCH},
};
use tokio::sync::{mpsc::unbounded_channel, watch};

/// What all routes read.
#[derive(Clone)]
pub(super) struct Shared(Arc<Parts>);

struct Parts {
    served: Served,
    keys: Keys,
    limits: Limits,
    jobs: Sender<Job>,
    metrics: Arc<Metrics>,
    phase: watch::Receiver<Phase>,
    places: Places,
    begun: u64,
    num_jobs: AtomicU64,
}

impl Shared {
    pub(super) fn new(
        (served, keys, limits): (Served, Keys, Limits),
        (jobs, metrics, phase): (Sender<Job>, Arc<Metrics>, watch::Receiver<Phase>),
    ) -> Shared {
        Shared(Arc::new(Parts {
            places: Places::new(limits.running + limits.waiting),
            served,
            keys,
            limits,
            jobs,
            metrics,
            phase,
            begun: now(),
            num_jobs: AtomicU64::new(0),
        }))
    }

    fn is_closing(&self) -> bool {
        *self.0.phase.borrow() > Phase::Open
    }

    fn model(&self) -> Value {
        let (name, begun) = (&self.0.served.name, self.0.begun);
        json!({"id": name, "object": "model", "created": begun, "owned_by": "fascicle"})
    }

    fn identity(&self, endpoint: Endpoint) -> Identity {
        let prefix = match endpoint {
            Endpoint::Completions => "cmpl",
            Endpoint::Chat => "chatcmpl",
        };
        let (begun, number) = (self.0.begun, self.0.num_jobs.fetch_add(1, Relaxed));
        Identity {
            id: format!("{prefix}-{begun:x}-{number:x}"),
            created: now(),
            model: self.0.served.name.clone(),
        }
    }
}

/// All routes. Those of the interface need a key, where there are keys.
pub(super) fn router(shared: Shared) -> Router {
    let interface = Router::new()
        .route("/v1/models", get(models))
        .route("/v1/models/{name}", get(model))
        .route("/v1/completions", post(completions))
        .route("/v1/chat/completions", post(chat))
        .layer(middleware::from_fn_with_state(shared.clone(), known));
    Router::new()
        .merge(interface)
        .route("/", get(page))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .fallback(nothing)
        .method_not_allowed_fallback(not_so)
        .layer(middleware::from_fn_with_state(shared.clone(), counted))
        .with_state(shared)
}

async fn known(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let header = request.headers().get(header::AUTHORIZATION);
    if shared
        .0
        .keys
        .accept(header.and_then(|value| value.to_str().ok()))
    {
        return next.run(request).await;
    }
    let message = "this server needs a key that it knows: Authorization: Bearer KEY";
    let refusal = Refusal::new(401, message).code("invalid_api_key");
    let mut response = refusal.into_response();
    let bearer = HeaderValue::from_static("Bearer");
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, bearer);
    response
}

async fn counted(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    shared.0.metrics.answered(response.status().as_u16());
    response
}

async fn page() -> Response {
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'";
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, policy),
    ];
    (headers, include_str!("page.html")).into_response()
}

async fn health(State(shared): State<Shared>) -> Response {
    match shared.is_closing() {
        true => Refusal::ending().into_response(),
        false => document(&json!({"status": "ok"})),
    }
}

async fn metrics(State(shared): State<Shared>) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    (kind, shared.0.metrics.page()).into_response()
}

async fn models(State(shared): State<Shared>) -> Response {
    document(&json!({"object": "list", "data": [shared.model()]}))
}

async fn model(State(shared): State<Shared>, Path(name): Path<String>) -> Response {
    match name == shared.0.served.name {
        true => document(&shared.model()),
        false => Refusal::new(404, "no such model")
            .about("model")
            .code("model_not_found")
            .into_response(),
    }
}

async fn nothing() -> Refusal {
    Refusal::new(404, "nothing is at this address").code("not_found")
}

async fn not_so() -> Refusal {
    Refusal::new(405, "this address does not take that method").code("method_not_allowed")
}

async fn completions(State(shared): State<Shared>, request: Request) -> Result<Response, Refusal> {
    answer(shared, Endpoint::Completions, request).await
}

async fn chat(State(shared): State<Shared>, request: Request) -> Result<Response, Refusal> {
    answer(shared, Endpoint::Chat, request).await
}

async fn answer(shared: Shared, endpoint: Endpoint, request: Request) -> Result<Response, Refusal> {
    if shared.is_closing() {
        return Err(Refusal::ending());
    }
    let body = body::read(request, &shared.0.limits).await?;
    let reading = shared.clone();
    let read = move || Asked::read(endpoint, &body, (&reading.0.served, &reading.0.limits));
    let mut asked = tokio::task::spawn_blocking(read)
        .await
        .map_err(|_| Refusal::new(500, "a bug of the server ended the request"))??;
    let taken = shared.0.places.take(asked.requests.len()).ok_or_else(|| {
        let most = shared.0.limits.running + shared.0.limits.waiting;
        let message = format!("the server has all {most} sequences that may run and wait");
        Refusal::new(429, message).code("queue_full")
    })?;
    let (sender, updates) = unbounded_channel();
    let tokenizer = &shared.0.served.tokenizer;
    let answer = Answer::new(shared.identity(endpoint), &asked, tokenizer);
    let limit = (shared.0.metrics.clone(), shared.0.limits.request);
    let answers = Answers::new(answer, updates, limit, taken);
    let job = Job {
        requests: std::mem::take(&mut asked.requests),
        answers: sender,
    };
    // Nobody takes jobs any more.
    shared.0.jobs.send(job).map_err(|_| Refusal::ending())?;
    if !asked.stream {
        return Ok(document(&answers.whole().await?));
    }
    let kind = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    Ok((kind, answers.events().await?).into_response())
}

fn document(value: &Value) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (kind, Body::from(value.to_string())).into_response()
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = document(&self.json());
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if matches!(self.status, 429 | 503) {
            let second = HeaderValue::from_static("1");
            response.headers_mut().insert(header::RETRY_AFTER, second);
        }
        response
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
