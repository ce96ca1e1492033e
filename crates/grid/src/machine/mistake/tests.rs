use super::*;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "only whether it can be read counts")]
struct Outer {
    steps: Option<usize>,
    share: Option<f64>,
    inner: Option<Inner>,
    points: Option<Vec<[f64; 2]>>,
    many: Option<Vec<Inner>>,
    size: Option<Size>,
    form: Option<Form>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "only whether it can be read counts")]
struct Inner {
    flag: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Size {
    Narrow,
    Wide,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(dead_code, reason = "only whether it can be read counts")]
enum Form {
    Plain,
    Numbered(usize),
}

#[test]
fn a_mistake_has_its_line_its_key_and_the_words_of_toml() {
    for (text, sentence) in [
        (
            "steps = \"x\"",
            "line 1: steps: found \"x\", needs a whole number of at least 0",
        ),
        (
            "\nsteps = -1",
            "line 2: steps: found -1, needs a whole number of at least 0",
        ),
        (
            "steps = 1.5",
            "line 1: steps: found 1.5, needs a whole number of at least 0",
        ),
        (
            "share = [1]",
            "line 1: share: found an array, needs a number",
        ),
        ("inner = 3", "line 1: inner: found 3, needs a table"),
        (
            "[inner]\nflag = \"yes\"",
            "line 2: inner.flag: found \"yes\", needs true or false",
        ),
        (
            "inner = { flag = 1 }",
            "line 1: inner.flag: found 1, needs true or false",
        ),
        (
            "[[many]]\nflag = true\n[[many]]\nflag = 0",
            "line 4: many[1].flag: found 0, needs true or false",
        ),
        (
            "points = [[1, 2], [3, \"b\"]]",
            "line 1: points[1][1]: found \"b\", needs a number",
        ),
        (
            "points = [[1, 2], [3]]",
            "line 1: points[1]: found 1 value, needs an array of 2 values",
        ),
        (
            "many = [{ flag = true }, {}]",
            "line 1: many[1].flag: found no value, needs one",
        ),
        (
            "stops = 1",
            "line 1: found `stops`, which does not exist here; did you mean `steps`?",
        ),
        (
            "[inner]\nflag = true\nfalg = true",
            "line 3: inner: found `falg`, which does not exist here; did you mean `flag`?",
        ),
        (
            "[inner]\nother = true",
            "line 2: inner: found `other`, needs one of flag",
        ),
        (
            "size = \"widest\"",
            "line 1: size: found `widest`, needs one of narrow, wide; did you mean `wide`?",
        ),
        (
            "size = \"f8\"",
            "line 1: size: found `f8`, needs one of narrow, wide",
        ),
        ("form = 7", "line 1: form: found 7, needs another value"),
        (
            "form = { number = 7 }",
            "line 1: form: found `number`, needs one of plain, numbered; did you mean `numbered`?",
        ),
        (
            "steps = 1\nsteps = 2",
            "line 2: steps: found twice, needs it once",
        ),
        (
            "[inner]\nflag = true\nflag = true",
            "line 3: inner.flag: found twice, needs it once",
        ),
        (
            "[inner]\nflag = true\n[inner]\n",
            "line 3: inner: found twice, needs it once",
        ),
    ] {
        let error = toml::from_str::<Outer>(text).unwrap_err();
        assert_eq!(Mistake::of(text, &error).to_string(), sentence, "{text}");
    }
}

#[test]
fn what_is_no_toml_is_one_line_with_its_key() {
    for (text, begin) in [
        ("\n\nsteps", "line 3: steps: "),
        (
            "[inner]\nflag = yes",
            "line 2: inner.flag: found yes, needs quotes around a string",
        ),
        (
            "[inner]\nflag =",
            "line 2: inner.flag: found no value, needs one",
        ),
        (
            "share = fast # a comment",
            "line 1: share: found fast, needs quotes around a string",
        ),
        ("[inner\nflag = true", "line 1: "),
    ] {
        let error = toml::from_str::<Outer>(text).unwrap_err();
        let found = Mistake::of(text, &error).to_string();
        assert!(found.starts_with(begin), "{text:?}: {found}");
    }
    let error = toml::from_str::<Outer>("\0\0").unwrap_err();
    assert!(!Mistake::of("\0\0", &error).to_string().contains('\n'));
}
