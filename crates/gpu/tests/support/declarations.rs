//! For tests of the vendor crates: a C++ compiler compares our declarations with the vendor's headers.

use gpu::table::{
    EPILOGUE_BIAS, EPILOGUE_GELU, EPILOGUE_GELU_BIAS, EPILOGUE_NONE,
    lt::{LtNames, LtValues, MAX_WORKSPACE},
};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Functions, each with how C passes its arguments and result.
pub type Declarations = Vec<(&'static str, Vec<usize>)>;

/// How the headers pass a function's arguments and result, in the numbers of `rccl_sys::table::passing`.
const PRELUDE: &str = r#"
#include <cstddef>
#include <type_traits>
template <class T> constexpr int pointee() {
  using Bare = typename std::remove_cv<T>::type;
  if constexpr (std::is_pointer<Bare>::value) return 8;
  else if constexpr (std::is_floating_point<Bare>::value) return 100 + (int)sizeof(Bare);
  else if constexpr (std::is_integral<Bare>::value || std::is_enum<Bare>::value) return (int)sizeof(Bare);
  else return 0;
}
template <class T> constexpr int code() {
  if constexpr (std::is_class<T>::value || std::is_union<T>::value) return 1000 + (int)sizeof(T);
  else if constexpr (std::is_pointer<T>::value) return 10000 + pointee<typename std::remove_pointer<T>::type>();
  else return pointee<T>();
}
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
    /// Lines before the assertions.
    pub before: &'static str,
    /// The name without which a header is older than these lines and expressions.
    pub since: Option<&'static str>,
    /// Our names that some generation of the header lacks.
    pub absent: &'static [&'static str],
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
            before: "",
            since: None,
            absent: &[],
        }
    }
}

/// NCCL's or RCCL's part: both have the same names.
pub fn collectives(include: &'static str) -> Part {
    use rccl_sys::{
        Config, Nccl, REDUCE_AVG, REDUCE_MAX, REDUCE_MIN, REDUCE_SUM, UniqueId, data_type, status,
    };
    use std::mem::offset_of;
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
        ("ncclAvg", REDUCE_AVG),
    ];
    let fields = [
        ("size", offset_of!(Config, size)),
        ("magic", offset_of!(Config, magic)),
        ("version", offset_of!(Config, version)),
        ("blocking", offset_of!(Config, blocking)),
        ("cgaClusterSize", offset_of!(Config, cga_cluster_size)),
        ("minCTAs", offset_of!(Config, min_ctas)),
        ("maxCTAs", offset_of!(Config, max_ctas)),
        ("netName", offset_of!(Config, net_name)),
        ("splitShare", offset_of!(Config, split_share)),
    ];
    let mut truths: Vec<String> = fields
        .map(|(field, offset)| format!("offsetof(ncclConfig_t, {field}) == {offset}"))
        .into();
    let ours = Config::with_blocking(false);
    truths.extend([
        format!("initial.magic == {}u", ours.magic),
        format!("initial.version >= {}u", ours.version),
        format!("initial.minCTAs == {}", ours.min_ctas),
        format!("initial.splitShare == {}", ours.split_share),
        format!("sizeof(ncclConfig_t) >= {}", ours.size),
        format!("sizeof(ncclUniqueId) == {}", size_of::<UniqueId>()),
    ]);
    Part {
        truths,
        before: "constexpr ncclConfig_t initial = NCCL_CONFIG_INITIALIZER;",
        since: Some("ncclCommInitRankConfig"),
        // RCCL 2.13 lacks what came with NCCL 2.14 and later.
        absent: &[
            "ncclCommInitRankConfig",
            "ncclCommFinalize",
            "ncclCommSplit",
            "ncclMemAlloc",
            "ncclMemFree",
            "ncclCommRegister",
            "ncclCommDeregister",
            "ncclCommInitRankScalable",
            "ncclInProgress",
        ],
        ..Part::new(include, Nccl::declarations(), &values)
    }
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
        ("EPILOGUE_DEFAULT", EPILOGUE_NONE as i32),
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
        format!("sizeof({result}) == {}", values.result_bytes),
    ];
    Part {
        truths,
        ..Part::new(include, [own, names.declarations()].concat(), &numbers)
    }
}

/// Whether the text has this name.
fn has(text: &str, name: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .any(|word| word == name)
}

/// Our names that the text lacks.
fn missing<'a>(part: &'a Part, text: &str) -> Vec<&'a str> {
    let functions = part.functions.iter().map(|(name, _)| *name);
    let values = part.values.iter().map(|(name, _)| &name[..]);
    functions
        .chain(values)
        .filter(|name| !has(text, name))
        .collect()
}

/// One assertion for each of our names that the header has.
fn assertions(part: &Part, text: &str) -> Vec<String> {
    let has = |name: &str| has(text, name);
    let codes = |passing: &[usize]| {
        let codes: Vec<String> = passing.iter().map(usize::to_string).collect();
        codes.join(", ")
    };
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
        .filter(|_| part.since.is_none_or(has))
        .map(|truth| format!("static_assert({truth}, \"{truth}\");"));
    functions.chain(values).chain(truths).collect()
}

fn compiler(headers: &Path, defines: &[&str]) -> Command {
    let mut compiler = Command::new("c++");
    let flags = ["-std=c++17", "-w"];
    compiler.args(flags).args(defines).arg("-I").arg(headers);
    compiler
}

/// The header with what it includes, and the macros of all of it.
fn whole(headers: &Path, defines: &[&str], part: &Part) -> String {
    let mut compiler = compiler(headers, defines);
    let expanded = compiler
        .args(["-E", "-dD", "-P", "-x", "c++"])
        .arg(headers.join(part.include))
        .output();
    let expanded = expanded.expect("a C++ compiler");
    let said = String::from_utf8_lossy(&expanded.stderr);
    assert!(expanded.status.success(), "{}: {said}", part.include);
    String::from_utf8_lossy(&expanded.stdout).into_owned()
}

fn check(headers: &Path, defines: &[&str], part: &Part) {
    let header = headers.join(part.include);
    let text = whole(headers, defines, part);
    let mut missing = missing(part, &text);
    missing.retain(|name| !part.absent.contains(name));
    assert!(
        missing.is_empty(),
        "{}: lacks {missing:?}",
        header.display()
    );
    let assertions = assertions(part, &text);
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("declarations.cpp");
    let program = format!(
        "#include <{}>\n{PRELUDE}{}\n{}\n",
        part.include,
        part.since
            .filter(|name| has(&text, name))
            .map_or("", |_| part.before),
        assertions.join("\n")
    );
    std::fs::write(&source, program).unwrap();
    let checked = compiler(headers, defines)
        .arg("-fsyntax-only")
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
    for part in parts {
        let there = folders
            .iter()
            .filter(|folder| folder.join(part.include).exists());
        let texts = there.map(|folder| whole(folder, defines, part));
        let texts: Vec<String> = texts.collect();
        let nowhere = |name: &&&str| !texts.iter().any(|text| has(text, name));
        // A name that no generation has is a mistake of ours, not a matter of generations.
        let nowhere: Vec<_> = part.absent.iter().filter(nowhere).collect();
        assert!(
            texts.is_empty() || nowhere.is_empty(),
            "{}: no header has {nowhere:?}",
            part.include
        );
    }
}
