//! A job until its last token: at once, or as events while they come.

use super::places::Taken;
use crate::{
    engine::Update,
    metrics::Metrics,
    protocol::{Answer, Refusal},
};
use axum::body::{Body, Bytes};
use serde_json::Value;
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::{sync::mpsc::UnboundedReceiver, time::Instant};

/// The tokens of a job on their way to its client. Dropping it, as when the client leaves, cancels the job.
pub(super) struct Answers {
    answer: Answer,
    updates: UnboundedReceiver<Update>,
    metrics: Arc<Metrics>,
    begun: Instant,
    limit: Duration,
    has_begun: bool,
    // Held until the end.
    _taken: Taken,
}

impl Answers {
    pub(super) fn new(
        answer: Answer,
        updates: UnboundedReceiver<Update>,
        (metrics, limit): (Arc<Metrics>, Duration),
        taken: Taken,
    ) -> Answers {
        Answers {
            answer,
            updates,
            metrics,
            begun: Instant::now(),
            limit,
            has_begun: false,
            _taken: taken,
        }
    }

    /// The complete answer.
    pub(super) async fn whole(mut self) -> Result<Value, Refusal> {
        while !self.answer.is_complete() {
            self.next().await?;
        }
        Ok(self.answer.whole())
    }

    /// A body of events. It exists once there is a first token, so that a job that fails before has a status of its own.
    pub(super) async fn events(mut self) -> Result<Body, Refusal> {
        let first = self.next().await?;
        let stage = Stage::Opening(first);
        let events = futures_util::stream::unfold((self, stage), |(mut answers, stage)| async {
            let (text, stage) = answers.event(stage).await?;
            Some((Ok::<_, Infallible>(Bytes::from(text)), (answers, stage)))
        });
        Ok(Body::from_stream(events))
    }

    // The next events as text, and what comes after them.
    async fn event(&mut self, stage: Stage) -> Option<(String, Stage)> {
        match stage {
            Stage::Opening(first) => {
                let mut pieces = self.answer.opening();
                pieces.extend(self.answer.piece(first));
                Some((pieces.iter().map(written).collect(), Stage::Running))
            }
            Stage::Running => loop {
                if self.answer.is_complete() {
                    let counts = self.answer.closing();
                    let text = counts.iter().map(written).collect::<String>();
                    return Some((text + "data: [DONE]\n\n", Stage::Ended));
                }
                match self.next().await {
                    Ok(index) => {
                        if let Some(piece) = self.answer.piece(index) {
                            return Some((written(&piece), Stage::Running));
                        }
                    }
                    Err(refusal) => return Some((written(&refusal.json()), Stage::Ended)),
                }
            },
            Stage::Ended => None,
        }
    }

    // Waits for a token; returns whose it is.
    async fn next(&mut self) -> Result<usize, Refusal> {
        let update = tokio::time::timeout_at(self.begun + self.limit, self.updates.recv());
        match update.await {
            Ok(Some(Update::Token(index, token))) => {
                if !self.has_begun {
                    self.has_begun = true;
                    self.metrics.first_token.add(self.begun.elapsed());
                }
                self.answer.add(index, token);
                Ok(index)
            }
            Ok(Some(Update::Failed(refusal))) => Err(refusal),
            Ok(None) => Err(Refusal::ending()),
            Err(_) => {
                let limit = self.limit.as_secs_f64();
                let message = format!("the request took longer than {limit} s, the server's limit");
                Err(Refusal::new(504, message).code("timeout"))
            }
        }
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.metrics.request.add(self.begun.elapsed());
    }
}

// What comes next in a body of events.
enum Stage {
    // The pieces before any token, and the first token, which is of this sequence.
    Opening(usize),
    Running,
    Ended,
}

fn written(event: &Value) -> String {
    format!("data: {event}\n\n")
}
