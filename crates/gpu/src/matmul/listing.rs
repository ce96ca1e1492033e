//! Choices as lines: the library and the device for which they hold, then a GEMM and its variant in each.

use super::{named::Named, variant::Variant};
use hal::{Error, Result};
use std::{collections::BTreeMap, path::Path};

/// What a line begins with that names the library and the device.
const LIBRARY: &str = "algorithms of ";

/// The lines.
pub(super) fn of(by_gemm: &BTreeMap<Named, Variant>, library: &str) -> String {
    let lines = by_gemm
        .iter()
        .map(|(gemm, variant)| format!("{gemm} {variant}\n"));
    let lines: String = lines.collect();
    format!("{LIBRARY}{library}\n{lines}")
}

/// The choices of a file, which names its library in the first line.
///
/// # Errors
/// As [`parse`].
pub(super) fn parse_file(
    text: &str,
    path: &Path,
    library: &str,
) -> Result<BTreeMap<Named, Variant>> {
    let place = path.display().to_string();
    let needed = format!("{library}; without the file, the first step times every matmul anew");
    if !text.starts_with(LIBRARY) {
        let found = format!("{place} does not begin with `{LIBRARY}`");
        return Err(Error::invalid("device.matmul_choices", found, needed));
    }
    parse(text, &place, library, &needed)
}

/// Reads choices, one per line, from `place`. If several lines name one GEMM, the first counts. The error for another library says
/// that the user needs `needed`.
///
/// # Errors
/// [`Error::Invalid`] for lines that are no choices, or of another library.
pub(super) fn parse(
    text: &str,
    place: &str,
    library: &str,
    needed: &str,
) -> Result<BTreeMap<Named, Variant>> {
    let mut by_gemm = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        if let Some(found) = line.strip_prefix(LIBRARY) {
            if found != library {
                let found = format!("{place} with algorithms of {found}");
                return Err(Error::invalid("device.matmul_choices", found, needed));
            }
            continue;
        }
        let parts = line.rsplit_once(' ');
        let parts = parts.and_then(|(gemm, name)| Named::parse(gemm).zip(Variant::named(name)));
        let Some((gemm, variant)) = parts.filter(|(gemm, variant)| gemm.has(*variant)) else {
            let found = format!("`{line}` in line {} of {place}", number + 1);
            let needed = "types, transposes, three sizes, three leading dimensions, epilogue, result and variant: \
                          `bf16 bf16 tn 1024 4096 2048 1024 4096 4096 plain sets turn-a`";
            return Err(Error::invalid("device.matmul_choices", found, needed));
        };
        by_gemm.entry(gemm).or_insert(variant);
    }
    Ok(by_gemm)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "cuBLASLt 13.1.0 on NVIDIA H200";
    const LINE: &str = "bf16 bf16 tn 1 8 8 8 8 8 plain sets";

    fn refusal(text: &str) -> String {
        let error = parse_file(text, Path::new("F"), HERE).unwrap_err();
        error.to_string()
    }

    #[test]
    fn lines_read_back() {
        let text = format!("{LIBRARY}{HERE}\n{LINE} algorithm-3\n");
        let read = parse_file(&text, Path::new("F"), HERE).unwrap();
        assert_eq!(of(&read, HERE), text);
    }

    #[test]
    fn a_file_of_something_else_is_refused_with_its_line() {
        // Only algorithms have epilogues.
        for line in ["hello", "f32 f32 nn 8 8 8 8 8 8 bias sets as-stored"] {
            let error = refusal(&format!("{LIBRARY}{HERE}\n{LINE} turn-a\n{line}\n"));
            let start = format!("device.matmul_choices: `{line}` in line 3 of F, needs types");
            assert!(error.starts_with(&start), "{error}");
        }
    }

    #[test]
    fn a_file_of_no_library_or_another_one_is_refused() {
        let anew =
            format!("needs {HERE}; without the file, the first step times every matmul anew");
        assert_eq!(
            refusal(&format!("{LINE} turn-a\n")),
            format!("device.matmul_choices: F does not begin with `algorithms of `, {anew}")
        );
        let other = "algorithms of cuBLASLt 13.2.0 on NVIDIA H200";
        assert_eq!(
            refusal(&format!("{other}\n{LINE} turn-a\n")),
            format!("device.matmul_choices: F with {other}, {anew}")
        );
    }
}
