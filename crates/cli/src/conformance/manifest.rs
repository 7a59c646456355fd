//! Fixture folders: a manifest.json that lists programs, and data in safetensors files.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use etvk::{Module, Value};
use serde::Deserialize;

use crate::conformance::bundle;
use crate::conformance::case::{Case, Source, Step};
use crate::conformance::compare::Tolerance;
use crate::tensors;

/// Name of the file.
pub(crate) const NAME: &str = "manifest.json";

#[derive(Debug, Deserialize)]
struct Manifest {
    format: u32,
    cases: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    group: String,
    name: String,
    pte: PathBuf,
    #[serde(default)]
    ptd: Vec<PathBuf>,
    data: PathBuf,
    #[serde(default)]
    files: Vec<PathBuf>,
    tolerance: Tolerance,
    runs: Vec<Run>,
}

/// One execution of a method.
#[derive(Clone, Debug, Deserialize)]
struct Run {
    method: String,
    inputs: Vec<Key>,
    outputs: Vec<Key>,
}

/// A tensor in the data file.
#[derive(Clone, Debug, Deserialize)]
struct Key {
    key: String,
}

/// The executions of a case and the file that their tensors are in.
#[derive(Clone, Debug)]
pub(crate) struct Runs {
    data: PathBuf,
    runs: Vec<Run>,
}

/// Every case of a manifest whose program is there, and the bundles beside them. A manifest may list more than a folder
/// holds a part of.
pub(crate) fn cases(path: &Path) -> anyhow::Result<Vec<Case>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let manifest: Manifest = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
    if manifest.format != 1 {
        bail!("{}: format {} is not supported, expected 1", path.display(), manifest.format);
    }
    let root = path.parent().unwrap_or(Path::new(""));
    let mut cases = Vec::new();
    for entry in manifest.cases {
        if root.join(&entry.pte).exists() {
            entry.into_cases(root, &mut cases)?;
        }
    }
    Ok(cases)
}

/// The case of the program `prefix` + `.pte` in the nearest manifest above it.
pub(crate) fn find(prefix: &Path) -> anyhow::Result<Case> {
    let program = prefix.with_extension("pte");
    let program = program.canonicalize().with_context(|| program.display().to_string())?;
    for folder in program.ancestors().skip(1) {
        let manifest = folder.join(NAME);
        if manifest.exists() {
            let case = cases(&manifest)?.into_iter().find(|case| case.program == program);
            return case
                .with_context(|| format!("{} has no case for {}", manifest.display(), program.display()));
        }
    }
    bail!("there is no {NAME} in the folders above {}", program.display())
}

impl Entry {
    fn into_cases(self, root: &Path, cases: &mut Vec<Case>) -> anyhow::Result<()> {
        let Self { group, name, pte, ptd, data, files, tolerance, runs } = self;
        let source = Source::Manifest(Runs { data: root.join(data), runs });
        let data = ptd.iter().map(|path| root.join(path)).collect();
        cases.push(Case { group: group.clone(), name, program: root.join(pte), data, tolerance, source });
        let bundles =
            files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "bpte"));
        for bundle in bundles.map(|file| root.join(file)).filter(|file| file.exists()) {
            let in_group = |case| Case { group: group.clone(), tolerance, ..case };
            cases.extend(bundle::cases(&bundle)?.into_iter().map(in_group));
        }
        Ok(())
    }
}

impl Runs {
    /// The executions, with their tensors read.
    pub(crate) fn steps(&self, module: &Module) -> anyhow::Result<Vec<Step>> {
        let named = tensors::read(&self.data)?;
        let tensor = |key: &Key| {
            named
                .get(&key.key)
                .cloned()
                .with_context(|| format!("{}: no tensor {}", self.data.display(), key.key))
        };
        let step = |run: &Run| {
            let info = module.method_info(&run.method)?;
            if info.inputs.len() != run.inputs.len() {
                bail!("{} takes {} inputs, the case has {}", run.method, info.inputs.len(), run.inputs.len());
            }
            let inputs = run.inputs.iter().zip(&info.inputs);
            let inputs = inputs.map(|(key, info)| tensors::to_input(tensor(key)?, info));
            let expected = run.outputs.iter().zip(&info.outputs);
            let expected = expected.map(|(key, info)| tensors::to_input(tensor(key)?, info));
            Ok(Step {
                method: run.method.clone(),
                inputs: inputs.collect::<anyhow::Result<Vec<Value>>>()?,
                expected: expected.collect::<anyhow::Result<Vec<Value>>>()?,
            })
        };
        self.runs.iter().map(step).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixtures() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
    }

    #[test]
    fn every_program_of_the_folder_is_a_case() {
        let cases = cases(&fixtures().join(NAME)).unwrap();
        assert!(cases.iter().all(|case| case.program.exists() && case.data.iter().all(|data| data.exists())));
        let names: Vec<String> = cases.iter().map(Case::full_name).collect();
        for name in [
            "models/gemma4_tiny_4w_fp16",
            "format/bundled_multi_method",
            "format/bundled_multi_method.bpte/encode",
        ] {
            assert!(names.iter().any(|known| known == name), "{name}");
        }
    }

    #[test]
    fn a_case_is_found_by_its_program() {
        let case = find(&fixtures().join("format/external_constants_shards_fp16")).unwrap();
        assert_eq!(
            (case.full_name().as_str(), case.data.len()),
            ("format/external_constants_shards_fp16", 2)
        );
        assert!(find(&fixtures().join("format/none")).is_err());
    }
}
