//! The grid that an option names: ranks along each axis, or a file that has them.

use grid::Degrees;
use std::{io::ErrorKind, path::Path};

/// The degrees in `x=2,z=2`, or in a JSON file whose keys are axes. AxoNN's `axonn.json`, with `tp_dimensions`, is one.
///
/// # Errors
/// A sentence for a text or a file that names no grid.
pub(crate) fn named(text: &str) -> Result<Degrees, String> {
    if !text.ends_with(".json") {
        return text.parse().map_err(|error: grid::Error| error.to_string());
    }
    let read = hal::files::read_text(Path::new(text)).map_err(|error| match error.kind() {
        ErrorKind::NotFound => "found no such file".to_owned(),
        _ => error.to_string(),
    });
    let parsed =
        read.and_then(|read| serde_json::from_str(&read).map_err(|error| error.to_string()));
    parsed.map_err(|reason| format!("{text}: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_degrees_by_axis_or_as_axonn_writes_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("axonn.json");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            named(path.to_str().unwrap()).map(|degrees| degrees.to_string())
        };
        assert_eq!(
            named("gone.json").unwrap_err(),
            "gone.json: found no such file"
        );
        assert_eq!(named("x=2,z=3").unwrap(), "x=2,z=3".parse().unwrap());
        let found = read(r#"{"tp_dimensions": [2, 1, 4], "data": 2}"#).unwrap();
        assert_eq!(found, "x=2,y=1,z=4,data=2,pipeline=1");
        for (text, reason) in [
            (r#"{"tp_dimensions": [2, 1]}"#, "invalid length 2"),
            (r#"{"tp_dimension": [2, 1, 4]}"#, "found `tp_dimension`"),
            (
                r#"{"x": 2, "tp_dimensions": [2, 1, 4]}"#,
                "found axis x twice",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(
                error.contains(reason) && error.contains("axonn.json"),
                "{error}"
            );
        }
    }
}
