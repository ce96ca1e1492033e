//! A mistake on the command line, in one sentence.
//!
//! The reader of the arguments reports it in several lines with its usage. Whoever mistyped a flag needs the flag.

use crate::numbers::counted;
use clap::{
    Error,
    error::{ContextKind, ContextValue, ErrorKind},
};
use std::error::Error as _;

/// What is wrong with the arguments; `None` where they ask for help or the version.
pub(crate) fn sentence(error: &Error) -> Option<String> {
    let found = Found(error);
    Some(match error.kind() {
        ErrorKind::UnknownArgument => found.unknown_argument(),
        ErrorKind::InvalidSubcommand => found.unknown_command(),
        ErrorKind::InvalidValue => found.no_such_value(),
        ErrorKind::ValueValidation => found.wrong_value(),
        ErrorKind::MissingRequiredArgument => found.missing(),
        ErrorKind::ArgumentConflict => found.conflict(),
        ErrorKind::TooManyValues | ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => {
            found.wrong_number()
        }
        ErrorKind::InvalidUtf8 => "found an argument that is not UTF-8, needs text".into(),
        _ => return None,
    })
}

struct Found<'a>(&'a Error);

impl Found<'_> {
    // `--gird` for what the reader calls `--gird <N>`, and `RUN` for `<RUN>...`.
    fn argument(&self) -> String {
        let argument = self.text(ContextKind::InvalidArg).unwrap_or_default();
        bare(&argument)
    }

    fn value(&self) -> String {
        self.text(ContextKind::InvalidValue).unwrap_or_default()
    }

    fn text(&self, kind: ContextKind) -> Option<String> {
        match self.0.get(kind)? {
            ContextValue::String(text) => Some(text.clone()),
            ContextValue::Strings(texts) => texts.first().cloned(),
            ContextValue::Number(number) => Some(number.to_string()),
            ContextValue::StyledStr(text) => Some(text.to_string()),
            _ => None,
        }
    }

    fn texts(&self, kind: ContextKind) -> Vec<String> {
        match self.0.get(kind) {
            Some(ContextValue::Strings(texts)) => texts.clone(),
            Some(ContextValue::String(text)) => vec![text.clone()],
            _ => Vec::new(),
        }
    }

    // The word that is nearest to what was written: clap gives those that are near, the nearest last.
    fn suggestion(&self, kind: ContextKind) -> Option<String> {
        self.texts(kind).pop()
    }

    // The words with which the command begins, as its usage has them.
    fn command(&self) -> String {
        let usage = self.text(ContextKind::Usage).unwrap_or_default();
        let usage = usage.trim_start_matches("Usage:").trim_start();
        let words = usage.split_whitespace();
        let own: Vec<&str> = words
            .take_while(|word| !word.starts_with(['[', '<', '-']))
            .collect();
        match own.is_empty() {
            true => "fascicle".into(),
            false => own.join(" "),
        }
    }

    fn unknown_argument(&self) -> String {
        let (argument, command) = (self.argument(), self.command());
        let needed = match self.suggestion(ContextKind::SuggestedArg) {
            Some(near) => format!("did you mean `{}`?", bare(&near)),
            None => match &self.required()[..] {
                [option] if !argument.starts_with('-') => {
                    format!("did you mean `{option} {argument}`?")
                }
                _ => format!("`{command} --help` lists what it takes"),
            },
        };
        format!("found `{argument}`, which `{command}` does not take; {needed}")
    }

    fn unknown_command(&self) -> String {
        let command = self
            .text(ContextKind::InvalidSubcommand)
            .unwrap_or_default();
        let needed = match self.suggestion(ContextKind::SuggestedSubcommand) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("`{} --help` lists the commands", self.command()),
        };
        format!(
            "found `{command}`, which is no command of `{}`; {needed}",
            self.command()
        )
    }

    fn no_such_value(&self) -> String {
        let (argument, value) = (self.argument(), self.value());
        let known = self.texts(ContextKind::ValidValue);
        if value.is_empty() {
            let whole = self.text(ContextKind::InvalidArg).unwrap_or_default();
            return format!("{argument}: found no value, needs one, as in {whole}");
        }
        let meant = match self.suggestion(ContextKind::SuggestedValue) {
            Some(near) => format!("; did you mean `{near}`?"),
            None => String::new(),
        };
        format!(
            "{argument}: found `{value}`, needs one of {}{meant}",
            known.join(", ")
        )
    }

    fn wrong_value(&self) -> String {
        let (argument, value) = (self.argument(), self.value());
        let reason = self
            .0
            .source()
            .map_or_else(String::new, ToString::to_string);
        let name = argument.trim_start_matches('-').replace('-', "_");
        // Some name what they are, and the text in which they stand.
        let own = [format!("{name}: "), format!("{name} `{value}`: ")];
        let own = own.iter().find_map(|own| reason.strip_prefix(own.as_str()));
        let reason = own.unwrap_or(&reason);
        match needed(reason) {
            Some(needed) => format!("{argument}: found `{value}`, {needed}"),
            None => format!("{argument}: {reason}"),
        }
    }

    fn missing(&self) -> String {
        let missing = self.texts(ContextKind::InvalidArg);
        let by = self.only_used(&missing);
        let by = by.unwrap_or_else(|| self.command());
        let missing = match &missing[..] {
            [] => "an argument".into(),
            [one] => one.clone(),
            [first @ .., last] => format!("{} or {last}", first.join(", ")),
        };
        format!("found no {missing}, which `{by}` needs")
    }

    // The options without which the command does not run.
    fn required(&self) -> Vec<String> {
        let mut command = crate::help::plain();
        for word in self.command().split_whitespace().skip(1) {
            match command.find_subcommand(word) {
                Some(found) => command = found.clone(),
                None => break,
            }
        }
        let required = command.get_opts().filter(|option| option.is_required_set());
        required
            .filter_map(|option| Some(format!("--{}", option.get_long()?)))
            .collect()
    }

    // The only option in the usage that can need a missing one: neither missing itself, nor needed by the command.
    fn only_used(&self, missing: &[String]) -> Option<String> {
        let usage = self.text(ContextKind::Usage)?;
        let mut others = self.required();
        others.extend(missing.iter().map(|missing| bare(missing)));
        let words = usage.split_whitespace();
        let mut used = words
            .filter(|word| word.starts_with("--") && !others.iter().any(|other| other == word));
        match (used.next(), used.next()) {
            (Some(option), None) => Some(option.to_owned()),
            _ => None,
        }
    }

    fn conflict(&self) -> String {
        let argument = self.argument();
        let others: Vec<String> = self
            .texts(ContextKind::PriorArg)
            .iter()
            .map(|other| bare(other))
            .collect();
        match &others[..] {
            [] => format!("found {argument} beside a command, needs one of the two"),
            [other] if *other == argument => format!("found {argument} twice, needs it once"),
            [other] => format!("found {argument} beside {other}, needs one of the two"),
            several => format!(
                "found {argument} beside {}, needs one of them",
                several.join(" and ")
            ),
        }
    }

    fn wrong_number(&self) -> String {
        let argument = self.argument();
        let needed = self
            .text(ContextKind::MinValues)
            .map(|least| format!("at least {least}"))
            .or_else(|| self.text(ContextKind::ExpectedNumValues));
        let found = self.text(ContextKind::ActualNumValues);
        match (found, needed) {
            (Some(found), Some(needed)) => {
                let found = found.parse().unwrap_or(0);
                format!(
                    "{argument}: found {}, needs {needed}",
                    counted(found, "value")
                )
            }
            _ => format!(
                "{argument}: found another value, `{}`, needs no more",
                self.value()
            ),
        }
    }
}

// Without the names of its values.
fn bare(argument: &str) -> String {
    let first = argument.split([' ', '=']).next().unwrap_or(argument);
    first
        .trim_end_matches("...")
        .trim_matches(['<', '>', '[', ']'])
        .to_owned()
}

// What a value has to be, if the reason does not name the value.
fn needed(reason: &str) -> Option<String> {
    if reason.starts_with("needs ") {
        return Some(reason.to_owned());
    }
    let is_whole = [
        "invalid digit found in string",
        "cannot parse integer from empty string",
        "number too small to fit in target type",
    ];
    let is_number = [
        "invalid float literal",
        "cannot parse float from empty string",
    ];
    let range = || {
        let (_, range) = reason.split_once(" is not in ")?;
        let (least, most) = range.split_once("..=")?;
        Some(format!("needs a whole number from {least} to {most}"))
    };
    match reason {
        reason if is_whole.contains(&reason) => Some("needs a whole number of at least 0".into()),
        "number too large to fit in target type" => Some("needs a smaller whole number".into()),
        reason if is_number.contains(&reason) => Some("needs a number".into()),
        _ => range(),
    }
}
