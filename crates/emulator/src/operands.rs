//! The pointers in the kernels' arguments, read from the declarations: where each lies, and whether the kernel writes
//! through it. The compiler supplies the offsets.

use std::{collections::BTreeMap, fs, path::PathBuf};

/// A pointer of a struct, or an array of structs that hold pointers.
#[derive(Debug, PartialEq)]
enum Field {
    Pointer { name: String, is_written: bool },
    Entries { name: String, kind: String },
}

type Structs = BTreeMap<String, Vec<Field>>;

/// The C++ table of all operands of the structs in these files.
///
/// # Errors
/// A file that cannot be read.
pub fn table(headers: &[PathBuf]) -> Result<String, String> {
    let mut structs = Structs::new();
    for header in headers {
        let text = fs::read_to_string(header)
            .map_err(|problem| format!("{}: {problem}", header.display()))?;
        read(&text, &mut structs);
    }
    Ok(written(&structs))
}

fn read(text: &str, structs: &mut Structs) {
    let mut current: Option<(String, Vec<Field>)> = None;
    for line in text.lines() {
        let code = line.split("//").next().unwrap_or_default().trim_end();
        if let Some(name) = opened(code) {
            current = Some((name.into(), Vec::new()));
        } else if code == "};" {
            structs.extend(current.take());
        } else if let Some((_, fields)) = &mut current {
            fields.extend(field(code.trim()));
        }
    }
}

// Structs that launches pass begin at the margin and end with a line of their own.
fn opened(code: &str) -> Option<&str> {
    let name = code.strip_prefix("struct ")?.strip_suffix(" {")?;
    (name.ends_with("Params") || name.ends_with("Entry")).then_some(name)
}

fn field(code: &str) -> Option<Field> {
    let (kind, name) = code.strip_suffix(';')?.rsplit_once(' ')?;
    if let Some((name, _)) = name.split_once('[') {
        let (name, kind) = (name.into(), kind.into());
        return Some(Field::Entries { name, kind });
    }
    kind.ends_with('*').then(|| Field::Pointer {
        name: name.into(),
        is_written: !kind.starts_with("const "),
    })
}

fn written(structs: &Structs) -> String {
    let mut rows = Vec::new();
    for (owner, fields) in structs.iter().filter(|(name, _)| name.ends_with("Params")) {
        for field in fields {
            let at = |name: &str| format!("\"{owner}\", offsetof(fascicle::{owner}, {name})");
            match field {
                Field::Pointer { name, is_written } => {
                    rows.push(format!("{{{}, 1, 0, {is_written}}}", at(name)));
                }
                Field::Entries { name, kind } => {
                    let step = format!("sizeof(fascicle::{kind})");
                    let count = format!("sizeof(fascicle::{owner}::{name}) / {step}");
                    for inner in structs.get(kind).into_iter().flatten() {
                        let Field::Pointer {
                            name: inner,
                            is_written,
                        } = inner
                        else {
                            continue;
                        };
                        let at = format!("{} + offsetof(fascicle::{kind}, {inner})", at(name));
                        rows.push(format!("{{{at}, {count}, {step}, {is_written}}}"));
                    }
                }
            }
        }
    }
    let rows = rows.join(",\n    ");
    format!("const simt::Operands operands({{\n    {rows},\n}});\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "struct SumEntry {\n    void* out;  // or null\n    u64 len;\n};\n
struct SumParams {\n    const void* x;\n    double exponent;  // -2 * log2\n    SumEntry tensors[MANY];\n};\n";

    #[test]
    fn pointers_are_found_with_their_access() {
        let mut structs = Structs::new();
        read(TEXT, &mut structs);
        let x = Field::Pointer {
            name: "x".into(),
            is_written: false,
        };
        let tensors = Field::Entries {
            name: "tensors".into(),
            kind: "SumEntry".into(),
        };
        assert_eq!(structs["SumParams"], [x, tensors]);
        let table = written(&structs);
        assert_eq!(table.matches("\"SumParams\"").count(), 2, "{table}");
        assert!(
            table.contains("sizeof(fascicle::SumEntry), true}"),
            "{table}"
        );
    }
}
