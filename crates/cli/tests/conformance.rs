//! Every fixture on this machine's Vulkan device, through the command: one test a case.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    let path = std::env::temp_dir().join(format!("etvk-{}-suite.json", std::process::id()));
    // Rows are told by the tests; what drivers and layers say is passed on.
    let status = Command::new(env!("CARGO_BIN_EXE_etvk"))
        .arg("conformance")
        .arg(fixtures)
        .arg("--json")
        .arg(&path)
        .stdout(if arguments.list { Stdio::null() } else { Stdio::inherit() })
        .status()
        .unwrap();
    let json = std::fs::read_to_string(&path).expect("the command writes its results unless it cannot start");
    std::fs::remove_file(&path).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let text = |case: &serde_json::Value, key: &str| case[key].as_str().unwrap_or_default().to_owned();
    let trial = |case: &serde_json::Value| {
        let (pass, error) = (case["pass"] == true, text(case, "error"));
        let name = format!("{}/{}", text(case, "group"), text(case, "name"));
        Trial::test(name, move || if pass { Ok(()) } else { Err(error.into()) })
    };
    let trials: Vec<Trial> = json["cases"].as_array().unwrap().iter().map(trial).collect();
    let agrees =
        status.success() == json["cases"].as_array().unwrap().iter().all(|case| case["pass"] == true);
    let exit =
        Trial::test("exit code", move || if agrees { Ok(()) } else { Err(format!("{status}").into()) });
    libtest_mimic::run(&arguments, trials.into_iter().chain([exit]).collect()).exit_code()
}
