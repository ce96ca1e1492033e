//! Jinja's language as the library transformers sets it up.

use minijinja::{Environment, Error, ErrorKind, syntax::SyntaxConfig, value::Serde};
use serde_json::Value;

/// Instructions of a template before it is stopped: a few hundred for each message are usual.
const MOST_INSTRUCTIONS: u64 = 10_000_000;

/// The name of the one template.
const CHAT: &str = "chat";

/// A template, compiled.
pub(super) struct Compiled(Environment<'static>);

impl Compiled {
    pub(super) fn new(template: &str) -> Result<Compiled, String> {
        let compiled = environment().and_then(|mut environment| {
            environment.add_template_owned(CHAT, template.to_owned())?;
            Ok(environment)
        });
        compiled.map(Compiled).map_err(|error| sentence(&error))
    }

    pub(super) fn render(&self, known: Value) -> Result<String, String> {
        let rendered = self.0.get_template(CHAT);
        let rendered = rendered.and_then(|template| template.render(Serde(known)));
        rendered.map_err(|error| sentence(&error))
    }
}

fn environment() -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    let mut syntax = SyntaxConfig::builder();
    environment.set_syntax(syntax.trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_fuel(Some(MOST_INSTRUCTIONS));
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_function("raise_exception", |reason: String| {
        Err::<(), _>(Error::new(ErrorKind::InvalidOperation, reason))
    });
    Ok(environment)
}

fn sentence(error: &Error) -> String {
    let line = error.line();
    let place = line.map_or(String::new(), |line| format!(" (line {line})"));
    match error.detail() {
        Some(detail) => format!("{detail}{place}"),
        None => format!("{}{place}", error.kind()),
    }
}
