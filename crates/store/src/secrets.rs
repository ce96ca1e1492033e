//! What no message says.

use object_store::Error;
use std::error::Error as _;

/// The longest reason, in characters: servers answer with pages.
const MOST_CHARACTERS: usize = 400;

/// Parts of the names of environment variables whose values are secrets.
const SECRET: [&str; 7] = [
    "KEY",
    "SECRET",
    "TOKEN",
    "PASSWORD",
    "SAS",
    "CREDENTIAL",
    "SERVICE_ACCOUNT",
];

/// Why a store refused, in one line, without secrets.
pub(crate) fn reason(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let more = inner.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = inner.source();
    }
    clean(&text, &of_environment(std::env::vars_os()))
}

// The values of variables that may be secrets.
fn of_environment(
    variables: impl Iterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
) -> Vec<String> {
    let is_secret = |name: &str| {
        let is_ours = ["AWS_", "AZURE_", "GOOGLE_"]
            .iter()
            .any(|start| name.starts_with(start));
        is_ours && SECRET.iter().any(|part| name.contains(part))
    };
    variables
        .filter(|(name, _)| is_secret(&name.to_string_lossy().to_uppercase()))
        .map(|(_, value)| value.to_string_lossy().into_owned())
        .filter(|value| value.len() >= 4)
        .collect()
}

fn clean(text: &str, secrets: &[String]) -> String {
    let mut text = text.to_owned();
    for secret in secrets {
        text = text.replace(secret.as_str(), "***");
    }
    let words = text.split_whitespace().map(without_query);
    let line = words.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MOST_CHARACTERS) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

// Queries of URLs hold signatures.
fn without_query(word: &str) -> String {
    let query = word
        .find("://")
        .and_then(|start| Some(start + word[start..].find('?')?));
    match query {
        Some(query) => {
            let rest = &word[query + 1..];
            let end = rest
                .find(['"', ')', ',', '>', '<', '\''])
                .unwrap_or(rest.len());
            format!("{}?***{}", &word[..query], &rest[end..])
        }
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_holds_no_secret_and_one_line() {
        let variables = [
            ("AWS_SECRET_ACCESS_KEY", "wJalrXUtn"),
            ("AWS_REGION", "eu-west"),
            ("AZURE_STORAGE_SAS_KEY", "sv=2022&sig=abc"),
            ("HOME", "/root"),
        ];
        let secrets = of_environment(
            variables
                .iter()
                .map(|(name, value)| (name.into(), value.into())),
        );
        assert_eq!(secrets, ["wJalrXUtn", "sv=2022&sig=abc"]);
        let text = "refused wJalrXUtn\n  by (https://a.net/b?sig=xyz&se=1) in eu-west";
        let said = "refused *** by (https://a.net/b?***) in eu-west";
        assert_eq!(clean(text, &secrets), said);
        assert_eq!(clean(&"x".repeat(900), &[]).len(), MOST_CHARACTERS + 3);
    }
}
