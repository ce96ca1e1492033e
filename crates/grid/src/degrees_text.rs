//! Degrees as text and as a configuration table.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::axis::NUM_AXES;
use crate::{Axis, Degrees, Error, Result};

impl fmt::Display for Degrees {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&per_axis(1, |axis| self.get(axis)))
    }
}

/// Formats one number per axis, as in `x=2,y=1,z=1,data=1,pipeline=4`; that of Context only if it is not the `usual` one,
/// since most grids do not cut sequences.
pub(crate) fn per_axis(usual: usize, value: impl Fn(Axis) -> usize) -> String {
    let written = |axis: &Axis| *axis != Axis::Context || value(*axis) != usual;
    let entries = Axis::ALL.into_iter().filter(written);
    let entries: Vec<String> = entries
        .map(|axis| format!("{axis}={}", value(axis)))
        .collect();
    entries.join(",")
}

impl FromStr for Degrees {
    type Err = Error;

    /// Parses `x=2,pipeline=4`. Axes may have any spelling that [`Axis`] accepts; unnamed axes have degree 1.
    ///
    /// # Errors
    /// [`Error::Entry`] for an entry that is not `axis=degree`; [`Error::EntryAxis`] for an unknown axis;
    /// [`Error::EntryDegree`] for a degree below 1; [`Error::EntryTwice`] for an axis given twice.
    fn from_str(text: &str) -> Result<Self> {
        let mut entries = Entries::new(text);
        for entry in text.split(',') {
            entries.add(entry)?;
        }
        Ok(entries.degrees())
    }
}

/// The degrees read so far, and the text that messages quote.
struct Entries<'a> {
    text: &'a str,
    found: [Option<usize>; NUM_AXES],
}

impl<'a> Entries<'a> {
    fn new(text: &'a str) -> Self {
        Entries {
            text,
            found: [None; NUM_AXES],
        }
    }

    fn add(&mut self, entry: &str) -> Result<()> {
        let Some((axis, degree)) = entry.split_once('=') else {
            return Err(Error::Entry {
                found: entry.trim().to_owned(),
                text: self.text.to_owned(),
            });
        };
        let axis = self.axis(axis)?;
        let degree = degree.trim();
        let parsed = degree.parse().ok().filter(|degree| *degree >= 1);
        let invalid = || Error::EntryDegree {
            axis,
            found: degree.to_owned(),
            text: self.text.to_owned(),
        };
        let degree = parsed.ok_or_else(invalid)?;
        self.set(axis, degree)
    }

    fn axis(&self, name: &str) -> Result<Axis> {
        name.parse().map_err(|unknown| Error::EntryAxis {
            unknown: Box::new(unknown),
            text: self.text.to_owned(),
        })
    }

    fn set(&mut self, axis: Axis, degree: usize) -> Result<()> {
        match self.found[axis.index()].replace(degree) {
            None => Ok(()),
            Some(first) => Err(Error::EntryTwice {
                axis,
                first,
                second: degree,
                text: self.text.to_owned(),
            }),
        }
    }

    fn degrees(&self) -> Degrees {
        Axis::ALL
            .into_iter()
            .fold(Degrees::default(), |degrees, axis| {
                degrees.with(axis, self.found[axis.index()].unwrap_or(1))
            })
    }
}

impl Serialize for Degrees {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut table = serializer.serialize_struct("Degrees", NUM_AXES)?;
        for (axis, degree) in self.iter() {
            // As in the text.
            match axis == Axis::Context && degree == 1 {
                true => table.skip_field(axis.name())?,
                false => table.serialize_field(axis.name(), &degree)?,
            }
        }
        table.end()
    }
}

impl<'de> Deserialize<'de> for Degrees {
    /// Accepts a text, or a table whose keys are axes; AxoNN's `tp_dimensions = [x, y, z]` is also a valid key.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(DegreesVisitor)
    }
}

struct DegreesVisitor;

impl<'de> Visitor<'de> for DegreesVisitor {
    type Value = Degrees;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string such as \"x=2,pipeline=4\", or a table of degrees by axis")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<Degrees, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> std::result::Result<Degrees, M::Error> {
        let mut entries = Entries::new("{ }");
        while let Some(key) = map.next_key::<String>()? {
            for (axis, degree) in table_entry(&entries, &key, &mut map)? {
                entries.set(axis, degree).map_err(de::Error::custom)?;
            }
        }
        let degrees = entries.degrees();
        degrees.world_size().map_err(de::Error::custom)?;
        Ok(degrees)
    }
}

/// The degrees that one key of a table sets: three for `tp_dimensions`, otherwise one.
fn table_entry<'de, M: MapAccess<'de>>(
    entries: &Entries<'_>,
    key: &str,
    map: &mut M,
) -> std::result::Result<Vec<(Axis, usize)>, M::Error> {
    if key == "tp_dimensions" {
        let degrees = map.next_value::<[usize; 3]>()?;
        return Ok(Axis::tensor().into_iter().zip(degrees).collect());
    }
    let axis = entries.axis(key).map_err(de::Error::custom)?;
    Ok(vec![(axis, map.next_value()?)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        text.parse::<Degrees>().unwrap_err().to_string()
    }

    #[test]
    fn unnamed_axes_are_one() {
        let degrees: Degrees = "x=2, pipeline = 2".parse().unwrap();
        assert_eq!(
            degrees,
            Degrees {
                x: 2,
                pipeline: 2,
                ..Degrees::default()
            }
        );
        assert_eq!(degrees.to_string(), "x=2,y=1,z=1,data=1,pipeline=2");
        assert_eq!(degrees.to_string().parse(), Ok(degrees));
    }

    #[test]
    fn axonn_and_megatron_spellings_are_read() {
        let axonn: Degrees = "G_intra_x=2,G_intra_y=3,G_intra_z=4,G_data=5,G_inter=6"
            .parse()
            .unwrap();
        assert_eq!(
            axonn,
            Degrees {
                x: 2,
                y: 3,
                z: 4,
                data: 5,
                pipeline: 6,
                ..Degrees::default()
            }
        );
        let megatron: Degrees = "tp=8,pp=4,dp=2".parse().unwrap();
        assert_eq!(
            megatron,
            Degrees {
                x: 8,
                pipeline: 4,
                data: 2,
                ..Degrees::default()
            }
        );
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        assert_eq!(
            error("x=2,pipline=2"),
            "grid `x=2,pipline=2`: axis: found `pipline`, needs one of x, y, z, context, data, pipeline; \
             did you mean `pipeline`?"
        );
        assert_eq!(
            error("x=2,y"),
            "grid `x=2,y`: found `y`, needs axis=degree, as in x=2,pipeline=4"
        );
        assert_eq!(
            error(""),
            "grid ``: found ``, needs axis=degree, as in x=2,pipeline=4"
        );
        assert_eq!(
            error("z=0"),
            "grid `z=0`: found z=0, needs a whole number of at least 1"
        );
        assert_eq!(
            error("z=-1"),
            "grid `z=-1`: found z=-1, needs a whole number of at least 1"
        );
        assert_eq!(
            error("z=two"),
            "grid `z=two`: found z=two, needs a whole number of at least 1"
        );
        assert_eq!(
            error("x=2,tp=4"),
            "grid `x=2,tp=4`: found axis x twice, as 2 and as 4, needs it once"
        );
    }

    #[test]
    fn serde_reads_tables_and_texts() {
        let degrees = Degrees {
            x: 2,
            z: 3,
            ..Degrees::default()
        };
        let json = serde_json::to_string(&degrees).unwrap();
        assert_eq!(json, r#"{"x":2,"y":1,"z":3,"data":1,"pipeline":1}"#);
        for text in [
            &json,
            r#"{"x":2,"z":3}"#,
            r#""x=2,z=3""#,
            r#"{"tp_dimensions":[2,1,3]}"#,
        ] {
            assert_eq!(
                serde_json::from_str::<Degrees>(text).unwrap(),
                degrees,
                "{text}"
            );
        }
    }

    #[test]
    fn serde_refuses_what_the_text_refuses() {
        for (text, part) in [
            (r#"{"pipelin":2}"#, "did you mean `pipeline`?"),
            (r#"{"x":0}"#, "found degree 0 on axis x"),
            (r#"{"x":2,"tp_dimensions":[2,1,3]}"#, "found axis x twice"),
            (r#"[2,1]"#, "a table of degrees by axis"),
        ] {
            let message = serde_json::from_str::<Degrees>(text)
                .unwrap_err()
                .to_string();
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
