//! The kernels' code objects, embedded or from a file that the user names, and which of them a device can run.

use crate::table::{Object, Properties};
use hal::environment::Variable;
use std::{borrow::Cow, path::Path};

/// The code objects to choose from: the file that `variable` names, or otherwise the `embedded` ones.
///
/// # Errors
/// A sentence, when the file cannot be read.
pub fn objects(
    variable: Variable,
    embedded: impl Iterator<Item = (&'static str, &'static [u8])>,
) -> Result<Vec<Object>, String> {
    let Some(path) = variable.read_os() else {
        let embedded =
            embedded.map(|(architecture, image)| (architecture.into(), Cow::Borrowed(image)));
        return Ok(embedded.collect());
    };
    let path = Path::new(&path);
    let image = std::fs::read(path)
        .map_err(|error| format!("{}={}: {error}", variable.name, path.display()))?;
    Ok(vec![(ANY.into(), Cow::Owned(image))])
}

// The architecture of the user's file: the driver decides whether it fits.
const ANY: &str = "any";

/// The object for this device: that of its architecture, or for NVIDIA otherwise the latest one of the same generation.
/// A later device of a generation also runs the generation's earlier code.
pub(crate) fn choose<'a>(objects: &'a [Object], properties: &Properties) -> Option<&'a [u8]> {
    let exact = |(architecture, _): &&Object| {
        architecture == ANY || plain(architecture) == plain(&properties.architecture)
    };
    let own = objects.iter().find(exact);
    let earlier = || {
        objects
            .iter()
            .filter(|object| earlier(&object.0, properties))
            .max_by_key(|object| &object.0)
    };
    own.or_else(earlier).map(|(_, image)| &image[..])
}

// `sm_90a` and `90` both mean 90; AMD's names stay as they are.
fn plain(architecture: &str) -> &str {
    let digits = architecture.trim_start_matches("sm_");
    if architecture.starts_with("gfx") {
        architecture
    } else {
        digits.trim_end_matches('a')
    }
}

fn earlier(architecture: &str, properties: &Properties) -> bool {
    let (major, minor) = properties.capability;
    let nvidia = properties.architecture.starts_with("sm_");
    let number = plain(architecture).parse::<u32>();
    nvidia && number.is_ok_and(|number| number / 10 == major && number % 10 <= minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(architecture: &str, capability: (u32, u32)) -> Properties {
        let architecture = architecture.into();
        let name = "device".into();
        Properties {
            name,
            architecture,
            capability,
            warp: 32,
            multiprocessors: 1,
            shared_bytes_per_block: 1,
        }
    }

    fn embedded(names: &[&str]) -> Vec<Object> {
        names
            .iter()
            .map(|name| (name.to_string(), Cow::Owned(name.as_bytes().to_vec())))
            .collect()
    }

    #[test]
    fn a_device_gets_its_own_code_or_its_generations() {
        let objects = embedded(&["80", "90"]);
        assert_eq!(choose(&objects, &device("sm_90", (9, 0))), Some(&b"90"[..]));
        assert_eq!(choose(&objects, &device("sm_86", (8, 6))), Some(&b"80"[..]));
        assert_eq!(choose(&objects, &device("sm_100", (10, 0))), None);
        let named = embedded(&["sm_80", "sm_90a"]);
        assert_eq!(
            choose(&named, &device("sm_90", (9, 0))),
            Some(&b"sm_90a"[..])
        );
    }

    #[test]
    fn amds_architectures_are_never_mixed() {
        let objects = embedded(&["gfx90a"]);
        assert_eq!(
            choose(&objects, &device("gfx90a", (9, 0))),
            Some(&b"gfx90a"[..])
        );
        assert_eq!(choose(&objects, &device("gfx942", (9, 4))), None);
    }

    #[test]
    fn a_file_that_is_not_there_says_so() {
        // SAFETY: no other test of this crate reads or writes this variable.
        unsafe { std::env::set_var("FASCICLE_TEST_OBJECT", "/nowhere/kernels.fatbin") };
        let reason = objects(
            Variable {
                name: "FASCICLE_TEST_OBJECT",
                ..hal::environment::table::CUDA_KERNELS
            },
            std::iter::empty(),
        )
        .unwrap_err();
        assert!(
            reason.starts_with("FASCICLE_TEST_OBJECT=/nowhere/kernels.fatbin: "),
            "{reason}"
        );
    }
}
