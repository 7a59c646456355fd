//! What is written can be read back.

use crate::write::{BodySpec, ConstantSpec, DelegateSpec, MethodSpec, ProgramSpec, TensorSpec};
use crate::{Instruction, Program, ScalarType, Storage, Value};

fn spec() -> ProgramSpec {
    let tensor =
        |scalar_type, sizes: &[i32], dynamic| TensorSpec { scalar_type, sizes: sizes.to_vec(), dynamic };
    let forward = DelegateSpec {
        id: "VulkanBackend".to_owned(),
        payload: b"payload".to_vec(),
        compile_specs: vec![("force_fp16".to_owned(), vec![1])],
        inputs: vec![tensor(ScalarType::Int64, &[1, 8], true), tensor(ScalarType::Int64, &[1], false)],
        outputs: vec![tensor(ScalarType::Float32, &[1, 5], false), tensor(ScalarType::Float32, &[3], false)],
    };
    let method = |name: &str, body| MethodSpec { name: name.to_owned(), body };
    ProgramSpec {
        methods: vec![
            method("forward", BodySpec::Delegate(forward)),
            method("get_bos_id", BodySpec::Constant(ConstantSpec::Int(2))),
            method("get_eos_ids", BodySpec::Constant(ConstantSpec::Ints(vec![1, 106]))),
            method("use_kv_cache", BodySpec::Constant(ConstantSpec::Bool(true))),
        ],
        named_data: vec![("one".to_owned(), 200), ("two".to_owned(), 3)],
    }
}

fn written(spec: &ProgramSpec) -> Vec<u8> {
    let mut file = Vec::new();
    let blobs = [vec![1; 200], vec![2; 3]];
    spec.write(&mut file, |index, out| out.write_all(&blobs[index])).unwrap();
    file
}

#[test]
fn a_program_comes_back() {
    let file = written(&spec());
    let program = Program::parse(&file).unwrap();
    let names: Vec<_> = program.method_names().collect();
    assert_eq!(names, ["forward", "get_bos_id", "get_eos_ids", "use_kv_cache"]);
    assert_eq!(program.named_data().get("one").unwrap(), [1; 200]);
    assert_eq!(program.named_data().get("two").unwrap(), [2; 3]);

    let forward = program.method("forward").unwrap();
    let delegate = &forward.delegates()[0];
    assert_eq!((delegate.id, delegate.payload), ("VulkanBackend", &b"payload"[..]));
    assert_eq!((delegate.compile_specs[0].key, delegate.compile_specs[0].value), ("force_fp16", &[1][..]));
    let instructions = &forward.chains()[0].instructions;
    assert!(
        matches!(&instructions[..], [Instruction::DelegateCall { delegate: 0, args }] if args.len() == 4)
    );
    let storage = |index: usize| match &forward.values()[index] {
        Value::Tensor(tensor) => tensor.storage,
        other => panic!("{other:?}"),
    };
    assert!(matches!(storage(0), Storage::None));
    assert!(matches!(storage(3), Storage::Planned(region) if region.offset == 32));
    assert_eq!(forward.planned_buffers().collect::<Vec<_>>(), [44]);
}

#[test]
fn segments_are_aligned_and_as_long_as_announced() {
    let file = written(&spec());
    let at = |needle: &[u8]| file.windows(needle.len()).position(|bytes| bytes == needle).unwrap();
    assert_eq!((at(b"payload") % 128, at(&[1; 200]) % 128, at(&[2; 3]) % 128), (0, 0, 0));
    let error = spec().write(&mut Vec::new(), |_, out| out.write_all(&[0; 4])).unwrap_err();
    assert_eq!(error.to_string(), "segment 1 has 4 bytes, 200 were announced");
}

#[test]
fn constants_are_outputs_of_methods_without_instructions() {
    let file = written(&spec());
    let program = Program::parse(&file).unwrap();
    for (name, expected) in
        [("get_bos_id", "[Int(2)]"), ("get_eos_ids", "[Int(1), Int(106)]"), ("use_kv_cache", "[Bool(true)]")]
    {
        let method = program.method(name).unwrap();
        let outputs: Vec<_> = method.outputs().iter().filter_map(|id| method.value(id)).collect();
        assert_eq!(format!("{outputs:?}"), expected, "{name}");
        assert_eq!(method.chains()[0].instructions.len(), 0);
    }
}
