//! The vendors' releases that the libraries emulate.

use std::{env, fmt, str::FromStr};

/// A release of CUDA: it decides the names of cuBLAS's libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cuda {
    /// 12.8.
    V12,
    /// 13.0.
    V13,
}

/// A release of ROCm: it decides names, symbols, structures and enumerations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hip {
    /// 5.7: hipBLAS with its own data types, RCCL 2.17.
    V5_7,
    /// 6.4: `hipblasGemmEx_v2` beside the older function, RCCL 2.22.
    V6_4,
    /// 7.1: hipBLAS 3, whose functions take HIP's data types, RCCL 2.27.
    V7_1,
}

/// One release of each vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation {
    /// NVIDIA's.
    pub cuda: Cuda,
    /// AMD's.
    pub hip: Hip,
}

impl Generation {
    /// CUDA 13.0 and HIP 6.4, unless `FASCICLE_EMULATOR_CUDA` (12, 13) or `FASCICLE_EMULATOR_HIP` (5.7, 6.4, 7.1) is
    /// set.
    ///
    /// # Errors
    /// A sentence that names the variable with an unknown value, and the values that are known.
    pub fn from_environment() -> Result<Self, String> {
        let cuda = variable("FASCICLE_EMULATOR_CUDA", Cuda::V13)?;
        let hip = variable("FASCICLE_EMULATOR_HIP", Hip::V6_4)?;
        Ok(Self { cuda, hip })
    }
}

fn variable<T: FromStr<Err = String>>(name: &str, standard: T) -> Result<T, String> {
    match env::var(name) {
        Ok(value) if !value.is_empty() => value
            .parse()
            .map_err(|problem| format!("{name}: {problem}")),
        _ => Ok(standard),
    }
}

impl FromStr for Cuda {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "12" => Ok(Self::V12),
            "13" => Ok(Self::V13),
            other => Err(format!("found `{other}`, known are 12 and 13")),
        }
    }
}

impl FromStr for Hip {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "5.7" => Ok(Self::V5_7),
            "6.4" => Ok(Self::V6_4),
            "7.1" => Ok(Self::V7_1),
            other => Err(format!("found `{other}`, known are 5.7, 6.4 and 7.1")),
        }
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cuda = match self.cuda {
            Cuda::V12 => "12",
            Cuda::V13 => "13",
        };
        let hip = match self.hip {
            Hip::V5_7 => "5.7",
            Hip::V6_4 => "6.4",
            Hip::V7_1 => "7.1",
        };
        write!(f, "cuda-{cuda}-hip-{hip}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        assert_eq!("5.7".parse(), Ok(Hip::V5_7));
        assert_eq!("13".parse(), Ok(Cuda::V13));
        let generation = Generation {
            cuda: Cuda::V12,
            hip: Hip::V7_1,
        };
        assert_eq!(generation.to_string(), "cuda-12-hip-7.1");
    }

    #[test]
    fn an_unknown_release_is_named() {
        assert_eq!(
            "6.0".parse::<Hip>(),
            Err("found `6.0`, known are 5.7, 6.4 and 7.1".to_string())
        );
    }
}
