//! Programs of the fixtures, opened, checked and executed without a device.
#![expect(clippy::unwrap_used, reason = "test code")]

use std::path::{Path, PathBuf};

use etvk::{
    DeviceChoice, DeviceOptions, Error, Module, ModuleOptions, Problem, Runtime, ScalarType, Tensor, Value,
    ValueInfo,
};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name)
}

/// The `.ptd` files of a program.
fn data_of(name: &str) -> Vec<PathBuf> {
    let path = fixture(name);
    let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
    let entries = std::fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let belongs = |path: &PathBuf| {
        path.extension().is_some_and(|found| found == "ptd")
            && path.file_name().unwrap().to_str().unwrap().starts_with(&format!("{stem}."))
    };
    entries.filter(belongs).collect()
}

/// A changed copy of a fixture; the file is removed with the value.
struct Changed(PathBuf);

impl Changed {
    fn new(name: &str, from: &[u8], to: &[u8]) -> Self {
        let mut bytes = std::fs::read(fixture(name)).unwrap();
        assert_eq!(from.len(), to.len());
        let places: Vec<usize> =
            (0..bytes.len() - from.len()).filter(|&at| bytes[at..].starts_with(from)).collect();
        assert!(!places.is_empty());
        for at in places {
            bytes[at..at + to.len()].copy_from_slice(to);
        }
        let unique =
            format!("etvk-{}-{}", std::process::id(), String::from_utf8_lossy(to).replace([':', '.'], "-"));
        let path = std::env::temp_dir().join(unique);
        std::fs::write(&path, bytes).unwrap();
        Self(path)
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_program_without_delegate_runs_without_a_device() {
    let choice = DeviceChoice::Name("no such device".to_owned());
    let runtime = Runtime::new(DeviceOptions { choice, ..DeviceOptions::default() });
    let options = ModuleOptions { runtime: runtime.clone(), ..ModuleOptions::default() };
    let module = Module::open_with(fixture("format/no_vulkan_delegate.pte"), options).unwrap();
    let mut method = module.load("forward", None).unwrap();
    let input = Tensor::from_slice(&[3, 5], &[0.5_f32; 15]).unwrap();
    for _ in 0..2 {
        let outputs = method.execute(&[input.clone().into()]).unwrap();
        let sums = outputs[0].as_tensor().unwrap().to_vec::<f32>().unwrap();
        assert_eq!(sums[..5], [0.5, 1.0, 1.5, 2.0, 2.5]);
        assert_eq!(sums[10..], [0.5, 1.0, 1.5, 2.0, 2.5]);
    }
    assert!(runtime.opened().is_none());
}

#[test]
fn inputs_that_do_not_fit_are_refused() {
    let module = Module::open(fixture("format/no_vulkan_delegate.pte")).unwrap();
    let mut method = module.load("forward", None).unwrap();
    assert!(matches!(method.execute(&[]), Err(Error::InputCount { expected: 1, found: 0, .. })));
    let refused = |method: &mut etvk::Method, value: Value| match method.execute(&[value]) {
        Err(Error::Input { index: 0, what, expected, found }) => (what, expected, found),
        other => panic!("not refused: {other:?}"),
    };
    let kind = refused(&mut method, Value::Int(1));
    assert_eq!(kind, ("kind", "Tensor".to_owned(), "Int".to_owned()));
    let integers = Tensor::from_slice(&[3, 5], &[1_i32; 15]).unwrap();
    let scalar_type = refused(&mut method, integers.into());
    assert_eq!(scalar_type, ("element type", "float32".to_owned(), "int32".to_owned()));
    let turned = Tensor::from_slice(&[5, 3], &[1.0_f32; 15]).unwrap();
    let sizes = refused(&mut method, turned.into());
    assert_eq!(sizes, ("sizes", "[3, 5]".to_owned(), "[5, 3]".to_owned()));
}

#[test]
fn methods_say_what_they_take() {
    let module = Module::open(fixture("format/bundled_multi_method.bpte")).unwrap();
    assert_eq!(module.method_names(), ["encode", "score"]);
    let info = module.method_info("score").unwrap();
    let tensor = |sizes: &[usize]| ValueInfo::Tensor {
        scalar_type: ScalarType::Float32,
        sizes: sizes.to_vec(),
        dynamic: false,
    };
    assert_eq!(info.inputs, [tensor(&[2, 16]), tensor(&[24])]);
    assert_eq!(info.outputs, [tensor(&[2, 24]), tensor(&[2, 16])]);
    assert!(matches!(module.method_info("forward"), Err(Error::Program(_))));
    assert!(matches!(module.load("forward", None), Err(Error::Program(_))));
}

#[test]
fn external_data_is_needed_and_unique() {
    let name = "format/external_constants_shards_fp16.pte";
    let data = data_of(name);
    assert_eq!(data.len(), 2);
    let open = |data: Vec<PathBuf>| {
        Module::open_with(fixture(name), ModuleOptions { data, ..ModuleOptions::default() })
    };
    assert!(open(data.clone()).unwrap().check().unwrap().runs());
    let report = open(vec![data[0].clone()]).unwrap().check().unwrap();
    let problems = &report.methods[0].problems;
    assert!(
        !problems.is_empty() && problems.iter().all(|p| matches!(p, Problem::Payload { delegate: 0, .. }))
    );
    let twice = open(vec![data[0].clone(), data[1].clone(), data[0].clone()]);
    assert!(matches!(twice, Err(Error::DuplicateKey { first, second, .. }) if first == second));
    let program = open(vec![fixture(name)]);
    assert!(matches!(program, Err(Error::FileKind { .. })));
    assert!(matches!(Module::open(&data[0]), Err(Error::FileKind { .. })));
}

#[test]
fn missing_kernels_are_named_at_load() {
    let changed = Changed::new("format/no_vulkan_delegate.pte", b"aten::cumsum", b"aten::cumxyz");
    let module = Module::open(&changed.0).unwrap();
    let Err(Error::Unsupported { method, problems }) = module.load("forward", None) else { panic!("loaded") };
    assert_eq!(method, "forward");
    assert!(
        matches!(problems.as_slice(), [Problem::Kernel { operator, calls: 1 }] if operator == "aten::cumxyz.out")
    );
    assert_eq!(problems[0].to_string(), "no CPU kernel for aten::cumxyz.out (1 call)");
}

#[test]
fn other_backends_are_refused_by_name() {
    let changed = Changed::new("format/delegate_inline.pte", b"VulkanBackend", b"XnnpckBackend");
    let report = etvk::check(&changed.0).unwrap();
    let problems = &report.methods[0].problems;
    assert!(matches!(problems.as_slice(), [Problem::Backend { delegate: 0, id }] if id == "XnnpckBackend"));
}

#[test]
fn every_program_of_the_fixtures_runs() {
    let mut count = 0;
    for group in ["fork", "format", "llm", "models", "ops"] {
        for entry in std::fs::read_dir(fixture(group)).unwrap() {
            let path = entry.unwrap().path();
            if !path.extension().is_some_and(|found| found == "pte" || found == "bpte") {
                continue;
            }
            let name = format!("{group}/{}", path.file_name().unwrap().to_str().unwrap());
            let report = etvk::check_with(&path, &data_of(&name)).unwrap();
            assert!(report.runs(), "{name}: {report:?}");
            count += 1;
        }
    }
    assert!(count > 400, "{count}");
}
