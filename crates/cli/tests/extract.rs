//! `etvk extract`
#![expect(clippy::unwrap_used, reason = "test code")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn etvk(args: &[&str]) -> Output {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    Command::new(env!("CARGO_BIN_EXE_etvk")).args(args).current_dir(fixtures).output().unwrap()
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn payloads_arguments_and_constants_become_files() {
    let folder = scratch("extract-norm");
    let _ = std::fs::remove_dir_all(&folder);
    let output = etvk(&["extract", "fork/aten_rms_norm_fp32.pte", folder.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let args = std::fs::read_to_string(folder.join("forward.0.args")).unwrap();
    assert_eq!(args, "in tensor 6 1 16 72\nout tensor 6 1 16 72\nout tensor 6 1 16 72\n");
    let payload = std::fs::read(folder.join("forward.0.vk")).unwrap();
    let graph = etvk_vkgraph::Payload::parse(&payload).unwrap().into_graph();
    for constant in graph.constants {
        let etvk_vkgraph::ConstantSource::Named(key) = constant.source else { continue };
        assert_eq!(std::fs::metadata(folder.join(key)).unwrap().len(), constant.length);
    }
}

#[test]
fn constants_come_from_external_data() {
    let folder = scratch("extract-external");
    let folder = folder.to_str().unwrap();
    let program = "format/external_constants_one_fp32.pte";
    let data = "format/external_constants_one_fp32.vulkan_constants_\
                02d62094ece6471c83bd8fc0c1fee545e698c0d6d86459bdf2e71859cc7d9d17.ptd";
    assert_eq!(etvk(&["extract", program, folder]).status.code(), Some(2));
    assert!(etvk(&["extract", program, folder, "--data", data]).status.success());
}
