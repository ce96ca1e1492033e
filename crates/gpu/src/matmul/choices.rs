//! How each GEMM runs: read from a file, or timed in the first step, agreed by all ranks and written to that file.

use super::{named::Named, variant::Variant};
use hal::{Error, Gemm, Result, lock};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Mutex,
};

/// The choices of one device.
#[derive(Debug)]
pub(crate) struct Choices {
    path: PathBuf,
    state: Mutex<ChoicesState>,
}

#[derive(Debug, Default)]
struct ChoicesState {
    // Whether to time GEMMs that the file does not list. No choice takes effect before all ranks have agreed on it, so
    // the result of a step depends on the agreement alone.
    is_timing: bool,
    by_gemm: BTreeMap<Named, Variant>,
}

/// What to do with a GEMM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// Run it as this variant.
    Go(Variant),
    /// Time its variants, and run it as stored.
    Time,
}

impl Choices {
    /// The choices of a file. Where the file does not exist yet, they will be timed.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a file that cannot be read or does not hold choices.
    pub(crate) fn open(path: &Path) -> Result<Choices> {
        let state = match hal::files::read_text(path) {
            Ok(text) => ChoicesState {
                is_timing: false,
                by_gemm: parse(&text, &path.display().to_string())?,
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => ChoicesState {
                is_timing: true,
                ..ChoicesState::default()
            },
            Err(error) => return Err(unusable(path, &error)),
        };
        Ok(Choices {
            path: path.into(),
            state: Mutex::new(state),
        })
    }

    /// What to do with this GEMM.
    pub(super) fn of(&self, gemm: &Gemm) -> Choice {
        let state = lock(&self.state);
        match state.by_gemm.get(&Named::of(gemm)) {
            Some(variant) if !state.is_timing => Choice::Go(*variant),
            None if state.is_timing => Choice::Time,
            _ => Choice::Go(Variant::AsStored),
        }
    }

    /// Records the fastest variant of a GEMM.
    pub(super) fn note(&self, gemm: &Gemm, fastest: Variant) {
        lock(&self.state).by_gemm.insert(Named::of(gemm), fastest);
    }

    /// All choices, one per line.
    pub(super) fn text(&self) -> String {
        let state = lock(&self.state);
        let lines = state
            .by_gemm
            .iter()
            .map(|(gemm, variant)| format!("{gemm} {}\n", variant.name()));
        lines.collect()
    }

    /// Uses these choices from now on. If several lines name one GEMM, the first counts. With `save`, choices that were
    /// timed are written to the file.
    ///
    /// # Errors
    /// [`Error::Invalid`] for lines that are no choices, or a file that cannot be written.
    pub(super) fn agree(&self, text: &str, save: bool) -> Result<()> {
        let agreed = parse(text, "the choices of the ranks")?;
        let was_timing = {
            let mut state = lock(&self.state);
            state.by_gemm = agreed;
            std::mem::replace(&mut state.is_timing, false)
        };
        if !(save && was_timing) {
            return Ok(());
        }
        // Written in full or not at all, because a run that starts meanwhile reads it.
        let unfinished = self.path.with_extension("unfinished");
        let written =
            fs::write(&unfinished, self.text()).and_then(|()| fs::rename(&unfinished, &self.path));
        written.map_err(|error| unusable(&self.path, &error))
    }
}

fn unusable(path: &Path, error: &std::io::Error) -> Error {
    let found = format!("{}: {error}", path.display());
    Error::invalid(
        "device.matmul_choices",
        found,
        "a file that can be read, or made",
    )
}

fn parse(text: &str, place: &str) -> Result<BTreeMap<Named, Variant>> {
    let mut by_gemm = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let parts = line.rsplit_once(' ');
        let Some((gemm, variant)) =
            parts.and_then(|(gemm, name)| Named::parse(gemm).zip(Variant::named(name)))
        else {
            let found = format!("`{line}` in line {} of {place}", number + 1);
            let needed = "types, transposes, three sizes and a variant: `bf16 bf16 tn 1024 4096 2048 turn-a`";
            return Err(Error::invalid("device.matmul_choices", found, needed));
        };
        by_gemm.entry(gemm).or_insert(variant);
    }
    Ok(by_gemm)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hal::{Batch, DType, Epilogue, Matrix, RawSlice};

    fn gemm_of(m: usize) -> Gemm {
        let data = RawSlice {
            addr: 0,
            len: 0,
            dtype: DType::Bf16,
        };
        let matrix = Matrix {
            data,
            leading: 8,
            transposed: false,
        };
        let a = Matrix {
            transposed: true,
            ..matrix
        };
        Gemm {
            m,
            n: 8,
            k: 8,
            leaf: hal::sums::leaf(8),
            a,
            b: matrix,
            c: matrix,
            alpha: 1.0,
            beta: 0.0,
            batch: Batch::ONE,
            epilogue: Epilogue::None,
        }
    }

    #[test]
    fn what_was_timed_counts_once_all_agree_and_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("matmuls.txt");
        let choices = Choices::open(&path).unwrap();
        assert_eq!(choices.of(&gemm_of(1)), Choice::Time);
        choices.note(&gemm_of(1), Variant::TurnA);
        assert_eq!(choices.of(&gemm_of(1)), Choice::Go(Variant::AsStored));
        // Rank 0 timed the first GEMM too, and found another way.
        let all = format!(
            "bf16 bf16 tn 1 8 8 turn-b\n{}bf16 bf16 tn 2 8 8 turn-a\n",
            choices.text()
        );
        choices.agree(&all, true).unwrap();
        for choices in [choices, Choices::open(&path).unwrap()] {
            assert_eq!(choices.of(&gemm_of(1)), Choice::Go(Variant::TurnB));
            assert_eq!(choices.of(&gemm_of(2)), Choice::Go(Variant::TurnA));
            assert_eq!(choices.of(&gemm_of(3)), Choice::Go(Variant::AsStored));
        }
    }

    #[test]
    fn a_file_of_something_else_is_refused_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("matmuls.txt");
        fs::write(&path, "bf16 bf16 tn 1 8 8 turn-a\nhello\n").unwrap();
        let error = Choices::open(&path).unwrap_err().to_string();
        assert!(
            error.starts_with("device.matmul_choices: `hello` in line 2 of "),
            "{error}"
        );
    }
}
