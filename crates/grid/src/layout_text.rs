//! Layouts as text, `[x z | y]`, and as lists in a file.

use std::fmt;
use std::str::FromStr;

use crate::{Axis, Error, Layout, Result};

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.dims().iter().map(|axes| dim_text(axes)).collect();
        f.pad(&format!("[{}]", dims.join(" | ")))
    }
}

fn dim_text(axes: &[Axis]) -> String {
    if axes.is_empty() {
        return "-".to_owned();
    }
    axes.iter()
        .map(|axis| axis.name())
        .collect::<Vec<_>>()
        .join(" ")
}

impl FromStr for Layout {
    type Err = Error;

    /// Parses `[x z | y]`, where `-` or nothing stands for an uncut dim and `[]` for no dims.
    ///
    /// # Errors
    /// [`Error::LayoutText`] for missing brackets, [`Error::UnknownAxis`], [`Error::CutTwice`].
    fn from_str(text: &str) -> Result<Self> {
        let inner = text
            .trim()
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        let inner = inner
            .ok_or_else(|| Error::LayoutText {
                text: text.to_owned(),
            })?
            .trim();
        if inner.is_empty() {
            return Ok(Layout::replicated(0));
        }
        Layout::cut(inner.split('|').map(read_dim).collect::<Result<_>>()?)
    }
}

fn read_dim(text: &str) -> Result<Vec<Axis>> {
    match text.trim() {
        "-" => Ok(vec![]),
        axes => axes.split_whitespace().map(str::parse).collect(),
    }
}

impl TryFrom<Vec<Vec<Axis>>> for Layout {
    type Error = Error;

    fn try_from(dims: Vec<Vec<Axis>>) -> Result<Self> {
        Layout::cut(dims)
    }
}

impl From<Layout> for Vec<Vec<Axis>> {
    fn from(layout: Layout) -> Self {
        layout.dims().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_by_hand() {
        let layout = Layout::cut(vec![vec![Axis::X, Axis::Z], vec![Axis::Y]]).unwrap();
        assert_eq!(layout.to_string(), "[x z | y]");
        assert_eq!(Layout::replicated(2).to_string(), "[- | -]");
        assert_eq!(Layout::replicated(1).to_string(), "[-]");
        assert_eq!(Layout::replicated(0).to_string(), "[]");
        assert_eq!("[|x]".parse::<Layout>().unwrap().to_string(), "[- | x]");
    }

    #[test]
    fn unreadable_texts_are_refused() {
        assert_eq!(
            "x | y".parse::<Layout>().unwrap_err().to_string(),
            "layout `x | y`: found no brackets, needs dims between [ and ], as in [x z | y] or [- | x]"
        );
        assert!(matches!(
            "[x | yy y]".parse::<Layout>(),
            Err(Error::UnknownAxis { .. })
        ));
        assert!(matches!(
            "[x | x]".parse::<Layout>(),
            Err(Error::CutTwice { .. })
        ));
    }

    #[test]
    fn serde_writes_lists_and_checks_them() {
        let layout: Layout = "[x z | -]".parse().unwrap();
        let json = serde_json::to_string(&layout).unwrap();
        assert_eq!(json, r#"[["x","z"],[]]"#);
        assert_eq!(serde_json::from_str::<Layout>(&json).unwrap(), layout);
        assert!(serde_json::from_str::<Layout>(r#"[["x"],["x"]]"#).is_err());
    }
}
