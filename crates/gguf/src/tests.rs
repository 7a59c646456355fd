//! Files that come back as they were written, and files made to be wrong in one way.

use std::path::PathBuf;

use crate::metadata::{Array, Value};
use crate::parse::parse;
use crate::{Error, Gguf, GgufWriter, Result, TensorType, blocks};

fn writer() -> GgufWriter {
    let mut writer = GgufWriter::new();
    writer
        .key("general.architecture", Value::String("llama".into()))
        .key("a.unsigned", Value::Unsigned(7))
        .key("a.long", Value::Unsigned(1 << 40))
        .key("a.signed", Value::Signed(-3))
        .key("a.float", Value::Float(0.5))
        .key("a.bool", Value::Bool(true))
        .key("a.texts", Value::Array(Array::String(vec!["x".into(), "é".into()])))
        .key("a.bools", Value::Array(Array::Bool(vec![true, false])))
        .key("a.floats", Value::Array(Array::Float(vec![1.0, -2.0])))
        .key("a.ints", Value::Array(Array::Signed(vec![1, 2])))
        .tensor("one", TensorType::F32, &[2, 3])
        .tensor("two", TensorType::Q8_0, &[3, 32]);
    writer
}

fn file() -> Vec<u8> {
    let mut file = Vec::new();
    writer()
        .write(&mut file, |index, out| match index {
            0 => out.write_all(&(0..6).flat_map(|x| (x as f32).to_le_bytes()).collect::<Vec<_>>()),
            _ => (1..4_u8).try_for_each(|row| out.write_all(&[&[0, 0x3C], &[row; 32][..]].concat())),
        })
        .unwrap();
    file
}

fn saved(name: &str, bytes: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("etvk-gguf-{name}-{}", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn what_is_written_comes_back() {
    let path = saved("back", &file());
    let gguf = Gguf::open(&path).unwrap();
    let metadata = gguf.metadata();
    assert_eq!(metadata.str("general.architecture").unwrap(), Some("llama"));
    assert_eq!(metadata.u64("a.unsigned").unwrap(), Some(7));
    assert_eq!(metadata.u64("a.long").unwrap(), Some(1 << 40));
    assert_eq!(metadata.get("a.signed"), Some(&Value::Signed(-3)));
    assert_eq!(metadata.f64("a.float").unwrap(), Some(0.5));
    assert_eq!(metadata.bool("a.bool").unwrap(), Some(true));
    assert_eq!(metadata.strings("a.texts").unwrap().unwrap(), ["x", "é"]);
    assert_eq!(metadata.bools("a.bools").unwrap().unwrap(), [true, false]);
    assert_eq!(metadata.f64s("a.floats").unwrap().unwrap(), [1.0, -2.0]);
    assert_eq!(metadata.u64s("a.ints").unwrap().unwrap(), [1, 2]);
    assert_eq!(metadata.u64s("a.unsigned").unwrap().unwrap(), [7]);
    assert_eq!(metadata.u64("none").unwrap(), None);
    let error = metadata.u64("a.signed").unwrap_err().to_string();
    assert_eq!(error, "key \"a.signed\" is an integer, expected an integer that is not negative");

    let names: Vec<_> = gguf.tensors().map(|tensor| tensor.name).collect();
    assert_eq!(names, ["one", "two"]);
    let (one, two) = (gguf.tensor("one").unwrap(), gguf.tensor("two").unwrap());
    assert_eq!((one.dims, one.rows(), one.columns()), (&[2, 3][..], 2, 3));
    let mut out = [0.0; 3];
    one.read_rows(1, &mut out).unwrap();
    assert_eq!(out, [3.0, 4.0, 5.0]);
    let mut out = [0.0; 64];
    two.read_rows(1, &mut out).unwrap();
    assert_eq!((out[0], out[63]), (2.0, 3.0));
    assert!(matches!(two.read_rows(2, &mut out), Err(Error::Rows { rows: 3, first: 2, .. })));
    assert!(matches!(two.read_rows(0, &mut out[..33]), Err(Error::Rows { count: 33, .. })));
    assert!(gguf.tensor("three").is_none());
    std::fs::remove_file(path).unwrap();
}

/// Of `tests/goldens/make.py`.
#[test]
fn blocks_mean_what_the_reference_says() {
    let mut rest = &include_bytes!("../tests/goldens/blocks.bin")[..];
    let mut seen = 0;
    while !rest.is_empty() {
        let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
        let (kind, bytes, count) =
            (TensorType::from_raw(word(0)).unwrap(), word(4) as usize, word(8) as usize);
        let (codes, values) = rest[12..].split_at(bytes);
        let expected: Vec<f32> =
            values[..count * 4].as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        let mut out = vec![0.0; count];
        blocks::decode(kind, codes, &mut out).unwrap();
        for (at, (found, expected)) in out.iter().zip(&expected).enumerate() {
            assert!(
                (found - expected).abs() <= 1e-6 * expected.abs().max(0.1),
                "{kind:?} {at}: {found} {expected}"
            );
        }
        rest = &values[count * 4..];
        seen += 1;
    }
    assert_eq!(seen, 12);
}

#[test]
fn types_that_are_not_decoded_are_refused_by_name() {
    let mut file = Vec::new();
    let mut writer = GgufWriter::new();
    writer.tensor("odd", TensorType::IQ2_S, &[256]);
    writer.write(&mut file, |_, out| out.write_all(&[0; 82])).unwrap();
    let path = saved("odd", &file);
    let gguf = Gguf::open(&path).unwrap();
    let error = gguf.tensor("odd").unwrap().read_rows(0, &mut [0.0; 256]).unwrap_err().to_string();
    assert!(error.starts_with("tensor \"odd\" is IQ2_S, whose codes cannot be read"), "{error}");
    std::fs::remove_file(path).unwrap();
}

fn failed(edit: impl FnOnce(&mut Vec<u8>)) -> Error {
    let mut file = file();
    edit(&mut file);
    parse(&file).map(drop).unwrap_err()
}

fn place(file: &[u8], needle: &[u8]) -> usize {
    file.windows(needle.len()).position(|bytes| bytes == needle).unwrap()
}

fn put(file: &mut [u8], at: usize, bytes: &[u8]) {
    file[at..at + bytes.len()].copy_from_slice(bytes);
}

#[test]
fn each_fault_has_its_error() {
    assert!(matches!(failed(|file| put(file, 0, b"GGML")), Error::Magic { found } if found == *b"GGML"));
    assert!(matches!(failed(|file| put(file, 4, &[1])), Error::Version { found: 1 }));
    assert!(matches!(failed(|file| put(file, 4, &[0, 0, 0, 3])), Error::Version { found: 0x300_0000 }));
    assert!(matches!(
        failed(|file| put(file, 8, &[0xFF; 8])),
        Error::Count { what: "tensors", found: u64::MAX, .. }
    ));
    assert!(matches!(failed(|file| put(file, 16, &[0xFF; 8])), Error::Count { what: "keys", .. }));
    assert!(matches!(failed(|file| put(file, 24, &[0xFF; 8])), Error::Truncated { what: "a key", .. }));
    assert!(matches!(failed(|file| put(file, 32, &[0xFF])), Error::Utf8 { what: "a key", offset: 32 }));
    let after = |needle: &'static [u8]| move |file: &[u8]| place(file, needle) + needle.len();
    let value = after(b"a.unsigned");
    assert!(matches!(
        failed(|file| { let at = value(file); put(file, at, &[13]); }),
        Error::ValueType { key, found: 13 } if key == "a.unsigned"
    ));
    let texts = after(b"a.texts");
    assert!(matches!(
        failed(|file| { let at = texts(file) + 4; put(file, at, &[9]); }),
        Error::Nested { key } if key == "a.texts"
    ));
    assert!(matches!(
        failed(|file| {
            let at = texts(file) + 8;
            put(file, at, &[0xFF; 8]);
        }),
        Error::Count { what: "texts", .. }
    ));
    assert!(matches!(
        failed(|file| { let at = place(file, b"a.float"); put(file, at, b"a.bools"); }),
        Error::Duplicate { what: "key", name } if name == "a.bools"
    ));
    assert!(matches!(
        failed(|file| { let at = place(file, b"two"); put(file, at, b"one"); }),
        Error::Duplicate { what: "tensor", name } if name == "one"
    ));
    let tensor = after(b"two");
    assert!(matches!(
        failed(|file| { let at = tensor(file); put(file, at, &[5]); }),
        Error::Rank { name, found: 5 } if name == "two"
    ));
    assert!(matches!(
        failed(|file| { let at = tensor(file) + 4; put(file, at, &[33]); }),
        Error::Sizes { name, block: 32, .. } if name == "two"
    ));
    assert!(matches!(
        failed(|file| {
            let at = tensor(file) + 12;
            put(file, at, &[0xFF; 8]);
        }),
        Error::Sizes { .. }
    ));
    assert!(matches!(
        failed(|file| { let at = tensor(file) + 20; put(file, at, &[200]); }),
        Error::TensorType { name, found: 200 } if name == "two"
    ));
    for offset in [8, u64::MAX - 31, 1 << 20] {
        assert!(matches!(
            failed(|file| { let at = tensor(file) + 24; put(file, at, &offset.to_le_bytes()); }),
            Error::Place { name, alignment: 32, .. } if name == "two"
        ));
    }
    let error = |file: &[u8]| -> Result<()> { parse(file).map(drop) };
    let whole = file();
    assert!(matches!(error(&whole[..whole.len() - 40]), Err(Error::Place { .. })));
}

/// Every beginning of a file, and every byte changed, is read or refused.
#[test]
fn damage_never_panics() {
    let whole = file();
    for end in 0..whole.len() {
        let _ = parse(&whole[..end]);
    }
    for at in 0..whole.len() {
        for value in [0, 1, 0x7F, 0x80, 0xFF] {
            let mut file = whole.clone();
            file[at] = value;
            let _ = parse(&file);
        }
    }
}

#[test]
fn alignments_are_powers_of_two() {
    for (found, good) in [(64, true), (1, true), (0, false), (48, false), (1 << 21, false)] {
        let mut file = Vec::new();
        let mut writer = GgufWriter::new();
        writer.key("general.alignment", Value::Unsigned(found));
        writer.write(&mut file, |_, _| Ok(())).unwrap();
        match parse(&file) {
            Ok(_) => assert!(good, "{found}"),
            Err(Error::Alignment { found: refused }) => assert!(!good && refused == found),
            Err(other) => panic!("{other}"),
        }
    }
}
