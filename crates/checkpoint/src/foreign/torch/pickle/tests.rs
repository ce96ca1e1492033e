use super::*;
use proptest::prelude::*;

fn read(data: &[u8]) -> Result<Pickle, String> {
    Pickle::read(data.to_vec())
}

// `pickle.dumps(OrderedDict(a=[1, -2, 2.5, None, True], b=(300, "x")), 2)` of Python 3.11, and its protocol 4.
#[test]
fn two_protocols_hold_the_same_dict() {
    let second = b"\x80\x02ccollections\nOrderedDict\nq\x00)Rq\x01(X\x01\x00\x00\x00aq\x02]q\x03(K\x01J\xfe\xff\xff\xff\
        G@\x04\x00\x00\x00\x00\x00\x00N\x88eX\x01\x00\x00\x00bq\x04M,\x01X\x01\x00\x00\x00xq\x05\x86q\x06u.";
    let fourth = b"\x80\x04\x95J\x00\x00\x00\x00\x00\x00\x00\x8c\x0bcollections\x94\x8c\x0bOrderedDict\x94\x93\x94)R\x94(\
        \x8c\x01a\x94]\x94(K\x01J\xfe\xff\xff\xffG@\x04\x00\x00\x00\x00\x00\x00N\x88e\x8c\x01b\x94M,\x01\x8c\x01x\x94\x86\x94u.";
    for data in [&second[..], fourth] {
        let pickle = read(data).unwrap();
        let top = pickle.top();
        assert!(top.made_by("collections", "OrderedDict").is_some());
        let json = |key| top.value(key).unwrap().json();
        assert_eq!(json("a"), serde_json::json!([1, -2, 2.5, null, true]));
        assert_eq!(json("b"), serde_json::json!([300, "x"]));
        assert!(top.value("c").is_none());
        assert_eq!(top.value("b").unwrap().item(0).unwrap().size(), Some(300));
        assert_eq!(top.value("a").unwrap().item(1).unwrap().size(), None);
    }
}

#[test]
fn objects_have_arguments_and_attributes() {
    let data = b"\x80\x02cmodule\nClass\n)\x81}X\x01\x00\x00\x00kcos\nsystem\nsbX\x03\x00\x00\x00keyQ\x86.";
    let pickle = read(data).unwrap();
    let object = pickle.top().item(0).unwrap();
    assert_eq!(
        object
            .made_by("module", "Class")
            .unwrap()
            .items()
            .unwrap()
            .len(),
        0
    );
    assert!(object.made_by("module", "Other").is_none());
    // A function is a name, and is not called.
    let function = object.attribute("k").unwrap().global();
    assert_eq!(function, Some(("os", "system")));
    let stored = pickle.top().item(1).unwrap();
    assert_eq!(stored.persistent().unwrap().text(), Some("key"));
}

// A list in itself, and a long integer of each length.
#[test]
fn circles_and_long_integers_are_read() {
    let pickle = read(b"]q\x00h\x00a.").unwrap();
    let inner = pickle.top().item(0).unwrap().item(0).unwrap();
    assert_eq!(inner.json(), serde_json::json!(["a list of 1"]));
    let size = |data: &[u8]| read(data).unwrap().top().size();
    assert_eq!(size(b"\x8a\x00."), Some(0));
    assert_eq!(size(b"\x8a\x05\x00\x00\x00\x00\x01."), Some(1 << 32));
    assert_eq!(size(b"\x8a\x01\xff."), None);
    assert_eq!(size(b"\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01."), None);
}

#[test]
fn what_is_no_data_is_refused_with_its_place() {
    let cases: [(&[u8], &str); 11] = [
        (b"", "the end of the data at byte 0"),
        (b".", "too few objects on the stack at byte 1"),
        (b"X\xff\xff\xff\xffx.", "the end of the data at byte 5"),
        (
            b"X\x01\x00\x00\x00\xff.",
            "bytes that are no text at byte 6",
        ),
        (b"h\x00.", "what was never memorised at byte 2"),
        (
            b"Nr\xff\xff\xff\x0f.",
            "a place in the memory out of turn at byte 6",
        ),
        (b"(Nu.", "a key without a value at byte 3"),
        (b"NNs.", "too few objects on the stack at byte 3"),
        (b"(0.", "too few objects on the stack at byte 2"),
        // What lies below a mark belongs to nobody above it.
        (b"NN(\x86t.", "too few objects on the stack at byte 4"),
        (b"I1\n.", "an operation that is not for data at byte 1"),
    ];
    for (data, needed) in cases {
        assert_eq!(read(data).unwrap_err(), needed, "{data:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(pickle) = read(&data) {
            let top = pickle.top();
            let _ = (top.json(), top.text(), top.size(), top.attribute("a").is_some());
        }
    }

    // Of operations alone, which reach further than bytes that are mostly none. Marks and objects in front keep most from ending at once.
    #[test]
    fn any_operations_are_read_or_refused(data in proptest::collection::vec(proptest::sample::select(&OPERATIONS[..]), 0..60)) {
        let _ = read(&[b"NN(NN(N(", &data.concat()[..]].concat());
    }
}

const OPERATIONS: [&[u8]; 33] = [
    b"(",
    b"0",
    b"1",
    b"2",
    b"N",
    b"\x88",
    b"J\x01\x00\x00\x00",
    b"K\x02",
    b"\x8a\x01\x07",
    b"\x8c\x01k",
    b"C\x01b",
    b"]",
    b")",
    b"\x8f",
    b"\x85",
    b"\x86",
    b"\x87",
    b"t",
    b"l",
    b"a",
    b"e",
    b"}",
    b"d",
    b"s",
    b"u",
    b"\x94",
    b"h\x00",
    b"cm\nn\n",
    b"\x93",
    b"R",
    b"b",
    b"Q",
    b".",
];
