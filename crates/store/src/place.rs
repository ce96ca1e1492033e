//! From a URL to a store, with credentials from the environment.

use checkpoint::{Error, Result};
use object_store::{
    BackoffConfig, ClientConfigKey, ObjectStore, ObjectStoreScheme, RetryConfig,
    aws::{AmazonS3Builder, AmazonS3ConfigKey},
    azure::{AzureConfigKey, MicrosoftAzureBuilder},
    gcp::{GoogleCloudStorageBuilder, GoogleConfigKey},
    http::HttpBuilder,
    local::LocalFileSystem,
    path::Path,
};
use std::{fs, sync::Arc, time::Duration};
use url::Url;

/// One request, with its answer. A piece of a file has this time too.
const REQUEST: &str = "60s";

/// What URLs may begin with.
pub(crate) const NEEDED: &str = "s3://bucket/prefix, gs://bucket/prefix, az://container/prefix, https://host/path or file:///folder";

/// A store, where in it a run's checkpoints lie, and how messages name that.
pub(crate) struct Place {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) prefix: Path,
    pub(crate) url: String,
}

/// Opens the store of a URL; asks it nothing yet.
///
/// # Errors
/// [`Error::Store`] for a URL that is none, or holds a secret, and for settings in the environment that are missing.
pub(crate) fn open(text: &str) -> Result<Place> {
    let refused = |reason: String| Error::Store {
        url: without_secrets(text),
        operation: "opening".into(),
        reason,
    };
    let url =
        Url::parse(text).map_err(|error| refused(format!("found {error}, needs {NEEDED}")))?;
    let has_secret = url.password().is_some() || url.query().is_some() || url.fragment().is_some();
    if has_secret {
        let needed = "found a password or a query in the URL, needs credentials in the environment (AWS_*, AZURE_*, GOOGLE_*)";
        return Err(refused(needed.into()));
    }
    let (scheme, prefix) =
        ObjectStoreScheme::parse(&url).map_err(|_| refused(format!("needs {NEEDED}")))?;
    let store = build(&scheme, &url).map_err(|error| refused(crate::secrets::reason(&error)))?;
    Ok(Place {
        store: store.ok_or_else(|| refused(format!("needs {NEEDED}")))?,
        prefix,
        url: text.trim_end_matches('/').to_owned(),
    })
}

// A URL as far as it holds no secret.
fn without_secrets(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    match (text.split_once("://"), text.rsplit_once('@')) {
        (Some((scheme, rest)), Some((_, host))) if rest.contains('@') => {
            format!("{scheme}://***@{host}")
        }
        _ => text.to_owned(),
    }
}

fn build(
    scheme: &ObjectStoreScheme,
    url: &Url,
) -> object_store::Result<Option<Arc<dyn ObjectStore>>> {
    // If the program has chosen one, that stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let timeout = ClientConfigKey::Timeout;
    Ok(Some(match scheme {
        ObjectStoreScheme::AmazonS3 => Arc::new(
            AmazonS3Builder::from_env()
                .with_url(url.as_str())
                .with_config(AmazonS3ConfigKey::Client(timeout), REQUEST)
                .with_retry(retries())
                .build()?,
        ),
        ObjectStoreScheme::GoogleCloudStorage => Arc::new(
            GoogleCloudStorageBuilder::from_env()
                .with_url(url.as_str())
                .with_config(GoogleConfigKey::Client(timeout), REQUEST)
                .with_retry(retries())
                .build()?,
        ),
        ObjectStoreScheme::MicrosoftAzure => Arc::new(
            MicrosoftAzureBuilder::from_env()
                .with_url(url.as_str())
                .with_config(AzureConfigKey::Client(timeout), REQUEST)
                .with_retry(retries())
                .build()?,
        ),
        ObjectStoreScheme::Http => {
            // All but the host is the prefix.
            let mut host = url.clone();
            host.set_path("");
            let allows = (url.scheme() == "http").to_string();
            let builder = HttpBuilder::new().with_url(host.as_str());
            let builder = builder.with_config(ClientConfigKey::AllowHttp, allows);
            let builder = builder.with_config(timeout, REQUEST);
            Arc::new(builder.with_retry(retries()).build()?)
        }
        ObjectStoreScheme::Local => {
            if let Ok(path) = url.to_file_path() {
                fs::create_dir_all(&path).map_err(|error| object_store::Error::Generic {
                    store: "file",
                    source: Box::new(error),
                })?;
            }
            Arc::new(LocalFileSystem::new().with_fsync(true))
        }
        _ => return Ok(None),
    }))
}

/// Of a request. Whole files are tried again by `attempts`.
fn retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(200),
            max_backoff: Duration::from_secs(10),
            base: 2.0,
        },
        max_retries: 6,
        retry_timeout: Duration::from_secs(120),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> String {
        match open(url) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{url} was opened"),
        }
    }

    #[test]
    fn what_is_no_store_is_refused_in_a_sentence() {
        for url in ["bucket/run", "ftp://host/run", "memory:///run"] {
            let said = refused(url);
            assert!(
                said.contains("s3://bucket/prefix") && !said.contains('\n'),
                "{said}"
            );
        }
    }

    #[test]
    fn a_secret_in_a_url_is_refused_and_not_repeated() {
        for url in [
            "s3://key:hunter2@bucket/run",
            "https://host/run?sig=hunter2",
        ] {
            let said = refused(url);
            assert!(
                said.contains("in the environment") && !said.contains("hunter2"),
                "{said}"
            );
        }
    }
}
