//! An error as clients read it.

use serde_json::{Value, json};

/// Why a request is not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The status of HTTP.
    pub(crate) status: u16,
    message: String,
    param: Option<String>,
    code: Option<&'static str>,
}

impl Refusal {
    /// A request that is wrong as it stands.
    pub(crate) fn invalid(message: impl Into<String>) -> Refusal {
        Refusal::new(400, message)
    }

    /// Any other status.
    pub(crate) fn new(status: u16, message: impl Into<String>) -> Refusal {
        Refusal {
            status,
            message: message.into(),
            param: None,
            code: None,
        }
    }

    /// A field with a value that cannot be.
    pub(crate) fn field(name: &str, found: impl std::fmt::Display, needed: &str) -> Refusal {
        Refusal::invalid(format!("{name}: found {found}, needs {needed}")).about(name)
    }

    /// The server ends, or has ended.
    pub(crate) fn ending() -> Refusal {
        Refusal::new(503, "the server is stopping, and answers no more requests").code("stopping")
    }

    /// The same, about this field.
    pub(crate) fn about(mut self, param: &str) -> Refusal {
        self.param = Some(param.to_owned());
        self
    }

    /// The same, with a word that programs read.
    pub(crate) fn code(mut self, code: &'static str) -> Refusal {
        self.code = Some(code);
        self
    }

    /// The document that clients get.
    pub(crate) fn json(&self) -> Value {
        let kind = match self.status {
            401 => "authentication_error",
            404 => "not_found_error",
            429 => "rate_limit_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        };
        let (message, param, code) = (&self.message, &self.param, self.code);
        json!({"error": {"message": message, "type": kind, "param": param, "code": code}})
    }
}

// What the generator refuses, under the names that clients use.
impl From<train::Error> for Refusal {
    fn from(error: train::Error) -> Refusal {
        match error {
            train::Error::Setting { key, found, needed } => {
                let param = match key.split(':').next().unwrap_or_default() {
                    "tokens" | "kept_tokens" => "max_tokens",
                    "log_probabilities" => "logprobs",
                    key => key,
                };
                Refusal::invalid(format!("{param}: found {found}, needs {needed}")).about(param)
            }
            error => Refusal::invalid(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_the_shape_that_clients_read() {
        let refusal = Refusal::from(train::Error::setting("tokens", 0, "at least 1"));
        let needed = json!({"error": {
            "message": "max_tokens: found 0, needs at least 1",
            "type": "invalid_request_error",
            "param": "max_tokens",
            "code": null,
        }});
        assert_eq!((refusal.status, refusal.json()), (400, needed));
        let kind = |status| Refusal::new(status, "").json()["error"]["type"].clone();
        assert_eq!(kind(429), "rate_limit_error");
        assert_eq!(kind(503), "server_error");
    }
}
