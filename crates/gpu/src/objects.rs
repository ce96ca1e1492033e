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
    let mut image = hal::files::read(path, MOST_BYTES)
        .map_err(|error| format!("{}={}: {error}", variable.name, path.display()))?;
    // PTX is a text, which the driver reads up to a zero.
    image.push(0);
    Ok(vec![(ANY.into(), Cow::Owned(image))])
}

// The longest code object.
const MOST_BYTES: u64 = 1 << 30;

// The architecture of the user's file: the driver decides whether it fits.
const ANY: &str = "any";

/// The object for this device: that of its architecture, or for NVIDIA otherwise the latest one of the same generation, or
/// the latest code that the driver can compile for it. A later device of a generation also runs the generation's earlier
/// code.
pub(crate) fn choose<'a>(objects: &'a [Object], properties: &Properties) -> Option<&'a Object> {
    let exact = |(architecture, _): &&Object| {
        architecture == ANY || plain(architecture) == plain(&properties.architecture)
    };
    // Code for the device alone has all that code for its generation has, and more.
    let own = objects
        .iter()
        .filter(exact)
        .max_by_key(|(architecture, _)| is_for_one(architecture));
    let earlier = || {
        objects
            .iter()
            .filter(|object| !is_for_one(&object.0) && earlier(&object.0, properties))
            .max_by_key(|object| &object.0)
    };
    let compiled = || {
        objects
            .iter()
            .filter(|object| virtual_of(&object.0).is_some_and(|least| least <= number(properties)))
            .max_by_key(|object| virtual_of(&object.0))
    };
    own.or_else(earlier).or_else(compiled)
}

/// Whether an object that was chosen for this device has the kernels of warpgroups (`group.h`): those for sm_90a have.
pub(crate) fn has_warpgroups((architecture, image): &Object, properties: &Properties) -> bool {
    let named = |image: &[u8]| image.windows(WARPGROUPS.len()).any(|at| at == WARPGROUPS);
    number(properties) == 90 && (is_for_one(architecture) || architecture == ANY && named(image))
}

// How the names of these kernels begin, which an object's table of symbols holds.
const WARPGROUPS: &[u8] = b"fascicle_attention_forward_hopper_";

// `90a`: code that uses what no later device has.
fn is_for_one(architecture: &str) -> bool {
    !architecture.starts_with("gfx") && architecture.ends_with('a')
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

// The least capability of a device that can run PTX: 90 for `compute_90`.
fn virtual_of(architecture: &str) -> Option<u32> {
    architecture.strip_prefix("compute_")?.parse().ok()
}

// NVIDIA's capability as one number, 90 for 9.0; 0 for AMD.
fn number(properties: &Properties) -> u32 {
    let (major, minor) = properties.capability;
    match properties.architecture.starts_with("sm_") {
        true => 10 * major + minor,
        false => 0,
    }
}

fn earlier(architecture: &str, properties: &Properties) -> bool {
    let device = number(properties);
    let object = plain(architecture).parse::<u32>();
    object.is_ok_and(|object| object / 10 == device / 10 && object <= device)
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

    fn chosen<'a>(objects: &'a [Object], properties: &Properties) -> Option<&'a str> {
        choose(objects, properties).map(|(architecture, _)| &architecture[..])
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
        assert_eq!(chosen(&objects, &device("sm_90", (9, 0))), Some("90"));
        assert_eq!(chosen(&objects, &device("sm_86", (8, 6))), Some("80"));
        assert_eq!(chosen(&objects, &device("sm_100", (10, 0))), None);
        for names in [
            &["sm_80", "sm_90a"][..],
            &["sm_90a", "90"],
            &["90", "sm_90a"],
        ] {
            let found = embedded(names);
            assert_eq!(chosen(&found, &device("sm_90", (9, 0))), Some("sm_90a"));
        }
        let alone = embedded(&["90a"]);
        assert_eq!(chosen(&alone, &device("sm_93", (9, 3))), None);
    }

    #[test]
    fn warpgroups_are_in_code_for_their_architecture_alone() {
        let [capable, earlier] = [device("sm_90", (9, 0)), device("sm_86", (8, 6))];
        let object = |name: &str, image: &[u8]| (name.to_string(), Cow::Owned(image.to_vec()));
        assert!(has_warpgroups(&object("90a", b""), &capable));
        assert!(!has_warpgroups(&object("90", b""), &capable));
        assert!(!has_warpgroups(&object("80", b""), &earlier));
        let theirs = object(ANY, b"..fascicle_attention_forward_hopper_bf16_64..");
        assert!(has_warpgroups(&theirs, &capable));
        assert!(!has_warpgroups(&theirs, &earlier));
        assert!(!has_warpgroups(&object(ANY, b".fascicle_fill_4"), &capable));
    }

    #[test]
    fn a_newer_generation_gets_code_that_its_driver_compiles() {
        let objects = embedded(&["80", "90", "compute_80", "compute_90"]);
        let chosen = |architecture, capability| chosen(&objects, &device(architecture, capability));
        assert_eq!(chosen("sm_120", (12, 0)), Some("compute_90"));
        assert_eq!(chosen("sm_90", (9, 0)), Some("90"));
        assert_eq!(chosen("sm_75", (7, 5)), None);
        assert_eq!(chosen("gfx942", (9, 4)), None);
    }

    #[test]
    fn amds_architectures_are_never_mixed() {
        let objects = embedded(&["gfx90a"]);
        assert_eq!(chosen(&objects, &device("gfx90a", (9, 0))), Some("gfx90a"));
        assert_eq!(chosen(&objects, &device("gfx942", (9, 4))), None);
        assert!(!has_warpgroups(&objects[0], &device("gfx90a", (9, 0))));
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
