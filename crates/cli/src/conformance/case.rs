//! A program with inputs and the outputs it should give.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use etvk::{Method, Module, ModuleOptions, Passes, Runtime, Value};

use crate::conformance::compare::Tolerance;
use crate::conformance::{bundle, goldens, manifest};

/// A program with inputs and the outputs it should give. Files are read when the case runs.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) group: String,
    pub(crate) name: String,
    pub(crate) program: PathBuf,
    /// External data of the program.
    pub(crate) data: Vec<PathBuf>,
    pub(crate) tolerance: Tolerance,
    pub(crate) source: Source,
}

/// Where the steps of a case come from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Manifest(manifest::Runs),
    Bundle(bundle::Suite),
    Goldens(goldens::Decode),
}

/// One execution.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) method: String,
    pub(crate) inputs: Vec<Value>,
    /// One value an output; empty if the outputs do not matter.
    pub(crate) expected: Vec<Value>,
}

impl Case {
    /// `group/name`.
    pub(crate) fn full_name(&self) -> String {
        format!("{}/{}", self.group, self.name)
    }

    /// The executions in order.
    pub(crate) fn steps(&self, module: &Module) -> anyhow::Result<Vec<Step>> {
        match &self.source {
            Source::Manifest(runs) => runs.steps(module),
            Source::Bundle(suite) => suite.steps(&self.program),
            Source::Goldens(decode) => decode.steps(module),
        }
    }
}

/// The program of a case with the methods that were executed so far.
pub(crate) struct Session {
    pub(crate) module: Module,
    methods: HashMap<String, Method>,
}

impl Session {
    /// Opens the program of a case.
    pub(crate) fn open(case: &Case, runtime: &Runtime, passes: Passes) -> anyhow::Result<Self> {
        let data = case.data.clone();
        let options = ModuleOptions { data, runtime: runtime.clone(), passes, ..ModuleOptions::default() };
        Ok(Self { module: Module::open_with(&case.program, options)?, methods: HashMap::new() })
    }

    /// Executes a step on the one instance of its method, and says how long that took.
    pub(crate) fn execute(&mut self, step: &Step) -> anyhow::Result<(Vec<Value>, Duration)> {
        if !self.methods.contains_key(&step.method) {
            let method = self.module.load(&step.method, None)?;
            self.methods.insert(step.method.clone(), method);
        }
        let method = self.methods.get_mut(&step.method).context("a method that was just loaded is gone")?;
        let start = Instant::now();
        let outputs = method.execute(&step.inputs)?;
        Ok((outputs, start.elapsed()))
    }
}
