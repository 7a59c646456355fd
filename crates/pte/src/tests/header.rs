//! Container, extended header and program-wide tables.

use super::build::{Val, pte, tensor};
use super::load;
use crate::generated::program as fb;
use crate::{BundledProgram, Container, Error, FlatTensor, Program};

/// The default program with `bytes` put at `offset`.
fn patched(offset: usize, bytes: &[u8]) -> Vec<u8> {
    let mut file = pte(|_| ());
    file[offset..offset + bytes.len()].copy_from_slice(bytes);
    file
}

#[test]
fn the_default_program_is_accepted_at_any_alignment() {
    let file = pte(|_| ());
    let program = Program::parse(&file).unwrap();
    assert_eq!(program.named_data().get("weight"), Some(&b"blob"[..]));
    let header = program.header().unwrap();
    assert_eq!((header.length, header.segment_size), (32, Some(71)));
    for shift in 1..16 {
        let mut shifted = vec![0; shift];
        shifted.extend(&file);
        load(&shifted[shift..]).unwrap();
    }
}

#[test]
fn kinds_are_told_apart() {
    let kind = |id: &[u8]| Container::detect(&[&[0; 4], id].concat());
    assert_eq!(kind(b"ET12"), Container::Program);
    assert_eq!(kind(b"ET99"), Container::Program);
    assert_eq!(kind(b"FT01"), Container::FlatTensor);
    assert_eq!(kind(b"BP08"), Container::BundledProgram);
    assert_eq!(kind(b"XX12"), Container::Unknown);
    assert_eq!(kind(b"ET1"), Container::Unknown);
    assert_eq!(Container::detect(&[]), Container::Unknown);
}

#[test]
fn identifiers() {
    assert!(matches!(
        load(&patched(4, b"XX00")),
        Err(Error::Identifier { found: [b'X', b'X', b'0', b'0'], .. })
    ));
    assert!(matches!(
        load(&patched(4, b"ET13")),
        Err(Error::ProgramVersion { found: [b'E', b'T', b'1', b'3'] })
    ));
    let other = pte(|_| ());
    assert!(matches!(FlatTensor::parse(&other), Err(Error::Identifier { .. })));
    assert!(matches!(BundledProgram::parse(&other), Err(Error::Identifier { .. })));
    assert!(matches!(load(&other[..63]), Err(Error::TooShort { needed: 64, found: 63, .. })));
}

#[test]
fn header_lengths() {
    assert!(matches!(load(&patched(12, &[23, 0, 0, 0])), Err(Error::HeaderLength { needed: 24, found: 23 })));
    // A longer header is one with fields we do not know.
    load(&patched(12, &[0xff; 4])).unwrap();
    // The header of older releases: the size at byte 32 is no part of it.
    let mut old = patched(12, &[24, 0, 0, 0]);
    old[32..40].fill(0xff);
    let program = Program::parse(&old).unwrap();
    assert_eq!(program.header().unwrap().segment_size, None);
    program.method("forward").unwrap();
    // It has no size to check, but each segment must lie in the file.
    assert!(matches!(load(&old[..old.len() - 1]), Err(Error::SegmentRange { index: 3, size: 4, .. })));
}

#[test]
fn header_sizes() {
    let file = pte(|_| ());
    let short = load(&file[..file.len() - 1]);
    assert!(matches!(short, Err(Error::FileTruncated { what: "segment data", end, file: found })
        if end == file.len() as u64 && found == end - 1));
    let end = (file.len() as u64 + 1).to_le_bytes();
    assert!(matches!(load(&patched(16, &end)), Err(Error::FileTruncated { what: "FlatBuffer", .. })));
    assert!(matches!(load(&patched(32, &[0xff; 8])), Err(Error::HeaderOverflow { right: u64::MAX, .. })));
    assert!(matches!(load(&patched(24, &[0; 16])), Err(Error::NoSegmentBase { index: 0, size: 32 })));
    let size = file.len() as u32;
    assert!(
        matches!(load(&patched(0, &size.to_le_bytes())), Err(Error::RootOffset { offset, .. }) if offset == size)
    );
    assert!(matches!(load(&patched(0, &[3, 0, 0, 0])), Err(Error::FlatBuffer { .. })));
    // Without the magic there is no header, and the root offset is what it was with it.
    assert!(matches!(load(&patched(8, b"zz")), Err(Error::NoSegmentBase { .. })));
}

#[test]
fn a_program_without_segments_needs_no_header() {
    let file = pte(|spec| {
        spec.segments = None;
        spec.constant_segment = None;
        spec.mutable_segment = None;
        spec.named = None;
        spec.constant_buffer = vec![vec![], vec![9; 32]];
        spec.inline = vec![b"inline".to_vec()];
        spec.delegates.as_mut().unwrap()[0].processed = Some((0, 0));
        spec.values.as_mut().unwrap()[4] = Val::Tensor(tensor());
    });
    let program = Program::parse(&file).unwrap();
    assert!(program.header().is_none());
    assert_eq!(program.method("forward").unwrap().delegates()[0].payload, b"inline");
}

#[test]
fn program_wide_tables() {
    let error = |edit: fn(&mut super::build::Spec)| load(&pte(edit)).unwrap_err();
    assert!(matches!(
        error(|s| s.constant_buffer = vec![vec![]]),
        Error::TwoConstantStores { buffers: 1, offsets: 2 }
    ));
    assert!(matches!(
        error(|s| s.constant_segment = Some((4, vec![0, 0]))),
        Error::SegmentIndex { user: "the constant segment", index: 4, count: 4 }
    ));
    assert!(matches!(
        error(|s| s.mutable_segment = Some((9, vec![0, 0]))),
        Error::SegmentIndex { user: "the mutable data segment", index: 9, count: 4 }
    ));
    assert!(matches!(
        error(|s| s.named = Some(vec![(Some("a"), 4)])),
        Error::SegmentIndex { user: "named data", index: 4, count: 4 }
    ));
    assert!(matches!(error(|s| s.named = Some(vec![(None, 0)])), Error::Missing { field: "NamedData.key" }));
    assert!(matches!(
        error(|s| s.named = Some(vec![(Some("a"), 0), (Some("a"), 1)])),
        Error::DuplicateKey { key } if key == "a"
    ));
    assert!(matches!(error(|s| s.segments = None), Error::NamedDataWithoutSegments { count: 1 }));
    assert!(matches!(
        error(|s| s.names = vec![Some("forward"); 2]),
        Error::DuplicateMethod { name } if name == "forward"
    ));
    assert!(matches!(error(|s| s.names = vec![None]), Error::Missing { field: "ExecutionPlan.name" }));
}

#[test]
fn an_unknown_method_is_named_with_those_there_are() {
    let file = pte(|_| ());
    let error = Program::parse(&file).unwrap().method("backward").unwrap_err();
    assert_eq!(error.to_string(), r#"no method "backward"; the program has ["forward"]"#);
}

#[test]
fn one_long_string_named_by_all_costs_no_time() {
    let mut b = flatbuffers::FlatBufferBuilder::new();
    let key = Some(b.create_string(&"k".repeat(1 << 18)));
    let entry = fb::NamedData::create(&mut b, &fb::NamedDataArgs { key, segment_index: 0 });
    let named_data = Some(b.create_vector(&vec![entry; 1 << 16]));
    let root = fb::Program::create(&mut b, &fb::ProgramArgs { named_data, ..Default::default() });
    b.finish(root, Some("ET12"));
    let source = match load(b.finished_data()) {
        Err(Error::FlatBuffer { source, .. }) => source,
        other => panic!("{other:?}"),
    };
    assert_eq!(source, flatbuffers::InvalidFlatbuffer::ApparentSizeTooLarge);
}
