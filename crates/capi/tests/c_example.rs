//! The C example, built with the C compiler against the header and the library, gives what it must and does not grow.
#![expect(clippy::unwrap_used, reason = "test code")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use etvk_pte::Program;
use safetensors::SafeTensors;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn succeed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{command:?}: {status}\n{text}\n{}", String::from_utf8_lossy(&stderr));
    text
}

/// Builds the library, as Cargo builds none for tests, then the example.
static EXAMPLE: LazyLock<PathBuf> = LazyLock::new(|| {
    let messages = succeed(
        Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", "etvk-capi", "--message-format", "json"])
            .current_dir(root()),
    );
    let library = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default())
        .filter_map(|name| name.as_str().map(PathBuf::from))
        .find(|path| path.file_name().is_some_and(|name| name == "libetvk.so"))
        .unwrap();
    let folder = library.parent().unwrap();
    let example = scratch("run_payload");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    succeed(
        Command::new(compiler)
            .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-D_DEFAULT_SOURCE"])
            .arg(root().join("ffi/examples/c/run_payload.c"))
            .arg(format!("-I{}", root().join("ffi/include").display()))
            .arg(format!("-L{}", folder.display()))
            .arg("-letvk")
            .arg(format!("-Wl,-rpath,{}", folder.display()))
            .arg("-o")
            .arg(&example),
    );
    example
});

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::create_dir_all(folder).unwrap();
    folder.join(name)
}

/// What `etvk extract` writes, for a program whose delegate takes and gives tensors.
fn extract(pte: &str, folder: &Path) {
    let file = std::fs::read(root().join("tests/fixtures").join(pte)).unwrap();
    let program = Program::parse(&file).unwrap();
    let method = program.method("forward").unwrap();
    let graph = etvk_vkgraph::Payload::parse(method.delegates()[0].payload).unwrap().into_graph();
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("forward.0.vk"), method.delegates()[0].payload).unwrap();
    for (key, bytes) in program.named_data().iter() {
        std::fs::write(folder.join(key), bytes).unwrap();
    }
    let line = |direction: &str, id: etvk_vkgraph::ValueId| {
        let tensor = graph.tensor(id).unwrap();
        let sizes: String = tensor.dims.iter().map(|size| format!(" {size}")).collect();
        format!("{direction} tensor 6{sizes}\n")
    };
    let inputs = graph.inputs.iter().map(|&id| line("in", id));
    let lines: String = inputs.chain(graph.outputs.iter().map(|&id| line("out", id))).collect();
    std::fs::write(folder.join("forward.0.args"), lines).unwrap();
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|raw| f32::from_le_bytes(*raw)).collect()
}

/// Runs the example on run 0 of the RMS norm and gives what it printed.
fn run(name: &str, repeat: Option<u32>) -> String {
    let folder = scratch(name);
    extract("fork/aten_rms_norm_fp32.pte", &folder);
    let data = std::fs::read(root().join("tests/fixtures/fork/aten_rms_norm_fp32.safetensors")).unwrap();
    let data = SafeTensors::deserialize(&data).unwrap();
    std::fs::write(folder.join("x"), data.tensor("r0.in0").unwrap().data()).unwrap();
    let mut command = Command::new(&*EXAMPLE);
    command.current_dir(&folder).args(["./forward.0", "x:1x5x72", "y", "z"]);
    if let Some(repeat) = repeat {
        command.env("ETVK_REPEAT", repeat.to_string());
    }
    let printed = succeed(&mut command);
    for (file, key) in [("y", "r0.out0"), ("z", "r0.out1")] {
        let (found, want) = (std::fs::read(folder.join(file)).unwrap(), data.tensor(key).unwrap());
        assert_eq!(found.len(), want.data().len());
        for (found, want) in floats(&found).into_iter().zip(floats(want.data())) {
            assert!((found - want).abs() <= 5e-5 + 1e-4 * want.abs(), "{found}, expected {want}");
        }
    }
    printed
}

#[test]
fn c_example_gives_the_goldens() {
    assert!(run("norm", None).contains("y: 1 5 72"));
}

#[test]
fn two_hundred_loads_do_not_grow_the_process() {
    let printed = run("norm-200", Some(200));
    let grown = printed.lines().find_map(|line| line.strip_prefix("grown by ")?.strip_suffix(" KiB"));
    let grown: i64 = grown.unwrap().parse().unwrap();
    // The allocator keeps some; a leak of the graph or of its buffers would be 150 times 100 KiB.
    assert!(grown < 4096, "150 loads grew the process by {grown} KiB");
}

#[test]
fn c_example_tells_what_is_wrong() {
    let folder = scratch("norm-bad");
    extract("fork/aten_rms_norm_fp32.pte", &folder);
    std::fs::write(folder.join("x"), [0; 72 * 4]).unwrap();
    let bad = |args: &[&str]| {
        let output = Command::new(&*EXAMPLE).current_dir(&folder).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(bad(&["./forward.0", "x:1x17x72", "y", "z"]).contains("INVALID_ARGUMENT"));
    let payload = std::fs::read(folder.join("forward.0.vk")).unwrap();
    std::fs::write(folder.join("forward.0.vk"), &payload[..payload.len() / 2]).unwrap();
    assert!(bad(&["./forward.0", "x:1x1x72", "y", "z"]).contains("DELEGATE_INVALID_COMPATIBILITY"));
}
