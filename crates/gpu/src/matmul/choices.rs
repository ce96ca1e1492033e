//! How each GEMM runs: read from a file, or timed in the first step, agreed by all ranks and written to that file.

use super::{listing, named::Named, variant::Variant};
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
    // The library and the device for which the choices hold: with another, an algorithm's number may mean another algorithm.
    library: String,
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
    /// Run it as its default variant.
    Default,
    /// Run it as this variant.
    Chosen(Variant),
    /// Time its variants, and run it as its default variant.
    Time,
}

impl Choice {
    /// The variant that a GEMM runs as.
    pub(super) fn variant(self, gemm: &Gemm) -> Variant {
        match self {
            Choice::Chosen(variant) => variant,
            Choice::Default | Choice::Time => Variant::default_of(gemm),
        }
    }
}

impl Choices {
    /// The choices of a file, for that library and device. Where the file does not exist yet, they will be timed.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a file that cannot be read, does not hold choices, or was written for another library or
    /// device.
    pub(super) fn open(path: &Path, library: String) -> Result<Choices> {
        let state = match hal::files::read_text(path) {
            Ok(text) => ChoicesState {
                is_timing: false,
                by_gemm: listing::parse_file(&text, path, &library)?,
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => ChoicesState {
                is_timing: true,
                ..ChoicesState::default()
            },
            Err(error) => return Err(unusable(path, &error)),
        };
        Ok(Choices {
            path: path.into(),
            library,
            state: Mutex::new(state),
        })
    }

    /// What to do with this GEMM.
    pub(super) fn of(&self, gemm: &Gemm) -> Choice {
        let state = lock(&self.state);
        match state.by_gemm.get(&Named::of(gemm)) {
            Some(variant) if !state.is_timing => Choice::Chosen(*variant),
            None if state.is_timing => Choice::Time,
            _ => Choice::Default,
        }
    }

    /// Records the fastest variant of a GEMM.
    pub(super) fn note(&self, gemm: &Gemm, fastest: Variant) {
        lock(&self.state).by_gemm.insert(Named::of(gemm), fastest);
    }

    /// The library, and all choices, one per line.
    pub(super) fn text(&self) -> String {
        listing::of(&lock(&self.state).by_gemm, &self.library)
    }

    /// Uses these choices from now on. If several lines name one GEMM, the first counts. With `save`, choices that were
    /// timed are written to the file.
    ///
    /// # Errors
    /// [`Error::Invalid`] for lines that are no choices or those of another library, or a file that cannot be written.
    pub(super) fn agree(&self, text: &str, save: bool) -> Result<()> {
        let needed = format!("{} on every rank, as on this one", self.library);
        let agreed = listing::parse(text, "the choices of the ranks", &self.library, &needed)?;
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

    const HERE: &str = "cuBLASLt 13.1.0 on NVIDIA H200";
    const LINE: &str = "bf16 bf16 tn 1 8 8 8 8 8 plain sets";

    #[test]
    fn what_was_timed_counts_once_all_agree_and_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("matmuls.txt");
        let open = || Choices::open(&path, HERE.into()).unwrap();
        let choices = open();
        assert_eq!(choices.of(&gemm_of(1)), Choice::Time);
        choices.note(&gemm_of(1), Variant::TurnA);
        assert_eq!(choices.of(&gemm_of(1)), Choice::Default);
        // Rank 0 timed the first GEMM too, and found another way.
        let all = format!(
            "algorithms of {HERE}\n{LINE} algorithm-3\n{}bf16 bf16 tn 2 8 8 8 8 8 plain sets turn-a\n",
            choices.text()
        );
        choices.agree(&all, true).unwrap();
        let adds = Gemm {
            beta: 1.0,
            ..gemm_of(1)
        };
        for choices in [choices, open()] {
            let algorithm = Choice::Chosen(Variant::Algorithm(2));
            assert_eq!(choices.of(&gemm_of(1)), algorithm);
            assert_eq!(choices.of(&gemm_of(2)), Choice::Chosen(Variant::TurnA));
            assert_eq!(choices.of(&gemm_of(3)), Choice::Default);
            assert_eq!(choices.of(&adds), Choice::Default);
        }
    }

    #[test]
    fn ranks_with_another_library_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let choices = Choices::open(&folder.path().join("matmuls.txt"), HERE.into()).unwrap();
        let other = "algorithms of cuBLASLt 12.8.4 on NVIDIA H200\n";
        let error = choices.agree(&(choices.text() + other), true).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "device.matmul_choices: the choices of the ranks with algorithms of cuBLASLt 12.8.4 on NVIDIA H200, needs {HERE} on every rank, as on this one"
            )
        );
    }
}
