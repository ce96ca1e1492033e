//! For tests of the vendor crates: a C++ compiler compares our declarations with the vendor's headers.

use gpu::table::{
    EPILOGUE_BIAS, EPILOGUE_GELU, EPILOGUE_GELU_BIAS,
    lt::{LtNames, LtValues, MAX_WORKSPACE},
};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Functions, each with how C passes its arguments and result.
pub type Declarations = Vec<(&'static str, Vec<String>)>;

/// How the headers pass a function's arguments and result: -1 for a pointer, otherwise the size.
const PRELUDE: &str = r#"
#include <cstddef>
#include <type_traits>
template <class T> constexpr int code() { return std::is_pointer<T>::value ? -1 : (int)sizeof(T); }
template <int... C> struct Codes {};
template <class F> struct Of;
template <class R, class... A> struct Of<R (*)(A...)> { using type = Codes<code<A>()..., code<R>()>; };
"#;

/// A header's part: what to include, its functions, its values.
pub struct Part {
    /// As the C++ program includes it.
    pub include: &'static str,
    /// From the `declarations` of tables.
    pub functions: Declarations,
    /// C names with our values.
    pub values: Vec<(String, i64)>,
    /// Functions that the header overloads for C++, each with the type that is meant.
    pub overloaded: &'static [(&'static str, &'static str)],
    /// Expressions that must be true: about sizes and offsets in structs, and about differences between generations.
    pub truths: Vec<String>,
}

impl Part {
    /// A part whose values are C integers.
    pub fn new(
        include: &'static str,
        functions: Declarations,
        values: &[(impl ToString, i32)],
    ) -> Part {
        let values = values
            .iter()
            .map(|(name, value)| (name.to_string(), (*value).into()))
            .collect();
        Part {
            include,
            functions,
            values,
            overloaded: &[],
            truths: Vec::new(),
        }
    }
}

/// NCCL's or RCCL's part: both have the same names.
pub fn collectives(include: &'static str) -> Part {
    use rccl_sys::{Nccl, REDUCE_MAX, REDUCE_MIN, REDUCE_SUM, data_type, status};
    let values = [
        ("ncclInProgress", status::IN_PROGRESS),
        ("ncclUint8", data_type::UINT8),
        ("ncclInt32", data_type::INT32),
        ("ncclUint32", data_type::UINT32),
        ("ncclFloat16", data_type::FLOAT16),
        ("ncclFloat32", data_type::FLOAT32),
        ("ncclFloat64", data_type::FLOAT64),
        ("ncclBfloat16", data_type::BFLOAT16),
        ("ncclSum", REDUCE_SUM),
        ("ncclMax", REDUCE_MAX),
        ("ncclMin", REDUCE_MIN),
    ];
    Part::new(include, Nccl::declarations(), &values)
}

/// cuBLASLt's or hipBLASLt's part. Their names differ in the prefix, given here in capitals and as in the name of a
/// type.
pub fn epilogues(
    include: &'static str,
    [capitals, lower]: [&str; 2],
    own: Declarations,
    names: &LtNames,
    values: &LtValues,
) -> Part {
    let mut numbers = vec![
        ("MATMUL_DESC_TRANSA", values.transposed[0]),
        ("MATMUL_DESC_TRANSB", values.transposed[1]),
        ("MATMUL_DESC_EPILOGUE", values.epilogue),
        ("MATMUL_DESC_BIAS_POINTER", values.bias),
        ("MATMUL_DESC_BIAS_DATA_TYPE", values.bias_type),
        ("MATMUL_DESC_EPILOGUE_AUX_POINTER", values.sum),
        ("MATMUL_DESC_EPILOGUE_AUX_LD", values.sum_leading),
        ("MATMUL_PREF_MAX_WORKSPACE_BYTES", MAX_WORKSPACE),
        ("EPILOGUE_BIAS", EPILOGUE_BIAS as i32),
        ("EPILOGUE_GELU_AUX", EPILOGUE_GELU as i32),
        ("EPILOGUE_GELU_AUX_BIAS", EPILOGUE_GELU_BIAS as i32),
    ];
    if let Some([of_a, of_b, of_c, of_d]) = values.alignments {
        numbers.extend([
            ("MATMUL_PREF_MIN_ALIGNMENT_A_BYTES", of_a),
            ("MATMUL_PREF_MIN_ALIGNMENT_B_BYTES", of_b),
            ("MATMUL_PREF_MIN_ALIGNMENT_C_BYTES", of_c),
            ("MATMUL_PREF_MIN_ALIGNMENT_D_BYTES", of_d),
        ]);
    }
    if let Some((mask, scheme)) = values.reduction {
        numbers.extend([
            ("MATMUL_PREF_REDUCTION_SCHEME_MASK", mask),
            ("REDUCTION_SCHEME_COMPUTE_TYPE", scheme as i32),
        ]);
    }
    let numbers: Vec<(String, i32)> = numbers
        .into_iter()
        .map(|(name, value)| (format!("{capitals}_{name}"), value))
        .collect();
    let result = format!("{lower}MatmulHeuristicResult_t");
    let truths = vec![
        format!("offsetof({result}, state) == {}", values.status_offset),
        format!("offsetof({result}, algo) == 0"),
        format!("sizeof({result}) <= 256"),
    ];
    Part {
        truths,
        ..Part::new(include, [own, names.declarations()].concat(), &numbers)
    }
}

/// One assertion for each of our names that the headers have; the others came with a later version.
fn assertions(part: &Part, text: &str) -> Vec<String> {
    let has = |name: &str| {
        text.split(|c: char| !c.is_alphanumeric() && c != '_')
            .any(|word| word == name)
    };
    let codes = |passing: &[String]| passing.join(", ").replace('p', "-1");
    let functions = part
        .functions
        .iter()
        .filter(|(name, _)| has(name))
        .map(|(name, passing)| {
            let meant = part
                .overloaded
                .iter()
                .find(|(overloaded, _)| overloaded == name);
            let address = match meant {
                Some((_, meant)) => format!("static_cast<{meant}>(&{name})"),
                None => format!("&{name}"),
            };
            let same = format!(
                "std::is_same<Of<decltype({address})>::type, Codes<{}>>::value",
                codes(passing)
            );
            format!("static_assert({same}, \"{name}\");")
        });
    let values = part.values.iter().filter(|(name, _)| has(name));
    let values = values
        .map(|(name, value)| format!("static_assert((long long){name} == {value}, \"{name}\");"));
    let truths = part
        .truths
        .iter()
        .map(|truth| format!("static_assert({truth}, \"{truth}\");"));
    functions.chain(values).chain(truths).collect()
}

fn check(headers: &Path, defines: &[&str], part: &Part) {
    let header = headers.join(part.include);
    let text = std::fs::read_to_string(&header).unwrap();
    let assertions = assertions(part, &text);
    assert!(
        assertions.len() > 10,
        "{}: only {} of our names",
        header.display(),
        assertions.len()
    );
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("declarations.cpp");
    let program = format!(
        "#include <{}>\n{PRELUDE}{}\n",
        part.include,
        assertions.join("\n")
    );
    std::fs::write(&source, program).unwrap();
    let flags = ["-std=c++17", "-w", "-fsyntax-only"];
    let checked = Command::new("c++")
        .args(flags)
        .args(defines)
        .arg("-I")
        .arg(headers)
        .arg(&source)
        .output();
    let checked = checked.expect("a C++ compiler");
    assert!(
        checked.status.success(),
        "{}: {}",
        header.display(),
        String::from_utf8_lossy(&checked.stderr)
    );
    eprintln!(
        "{}: {} declarations agree",
        header.display(),
        assertions.len()
    );
}

/// Compares every part whose header is in a folder of the list in `variable`. Prints a line if there is no list.
pub fn compare(variable: &str, defines: &[&str], parts: &[Part]) {
    let Some(list) = std::env::var_os(variable) else {
        eprintln!("skipped: {variable} names no include folders");
        return;
    };
    let folders: Vec<PathBuf> = std::env::split_paths(&list).collect();
    for folder in &folders {
        let there: Vec<&Part> = parts
            .iter()
            .filter(|part| folder.join(part.include).exists())
            .collect();
        assert!(
            !there.is_empty(),
            "{variable}: {} has none of the headers",
            folder.display()
        );
        there.iter().for_each(|part| check(folder, defines, part));
    }
}
