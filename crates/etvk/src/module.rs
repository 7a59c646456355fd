//! An opened program.

use std::path::{Path, PathBuf};

use etvk_engine::{Executor, LoadOptions, Passes, Surplus};
use etvk_pte::{BundledProgram, Container, Program, ValueId};

use crate::bytes::Bytes;
use crate::check::{self, CheckReport, Examined, MethodReport, Problem};
use crate::delegate::Delegate;
use crate::error::{Error, Result};
use crate::external::{self, ExternalFiles, Names};
use crate::foreign;
use crate::frame::Frame;
use crate::info::MethodInfo;
use crate::interpreter::Code;
use crate::method::Method;
use crate::runtime::Runtime;

/// How to open a program.
#[derive(Clone, Debug, Default)]
pub struct ModuleOptions {
    /// External data files (`.ptd`). They are looked into before the program's own data.
    pub data: Vec<PathBuf>,
    /// Where delegated parts run.
    pub runtime: Runtime,
    /// Take the GPU time of every dispatch, for [`Method::timings`]. It costs some speed.
    pub timestamps: bool,
    /// Which passes rewrite the delegated graphs; all of them unless said otherwise.
    pub passes: Passes,
}

/// How far loading is: constants of one delegate after the other go to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadProgress {
    /// The delegate that is being loaded, from 0.
    pub delegate: usize,
    /// Number of delegates of the method.
    pub delegates: usize,
    /// Bytes of its constants that are on the device.
    pub done: u64,
    /// Bytes of its constants.
    pub total: u64,
}

/// An opened program: files that are mapped and checked. Constants stay in the files until a method is loaded, are
/// streamed to the device from there, and are shared by the methods of a runtime.
pub struct Module {
    path: PathBuf,
    program: Bytes,
    external: ExternalFiles,
    names: Vec<String>,
    runtime: Runtime,
    timestamps: bool,
    passes: Passes,
}

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Module({}, {:?})", self.path.display(), self.names)
    }
}

impl Module {
    /// Opens a `.pte` file, or the program in a `.bpte`, on the best device there is.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::FileKind`]. Methods are checked when they are loaded.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, ModuleOptions::default())
    }

    /// As [`open`](Self::open), with external data or a device of choice.
    ///
    /// # Errors
    /// As [`open`](Self::open), and [`Error::DuplicateKey`] for `.ptd` files with a key in common.
    pub fn open_with(path: impl AsRef<Path>, options: ModuleOptions) -> Result<Self> {
        let path = path.as_ref();
        let file = Bytes::whole(external::open(path)?);
        let program = match Container::detect(file.get()) {
            Container::BundledProgram => {
                let bundle = BundledProgram::parse(file.get()).map_err(external::failed(path))?;
                file.part(bundle.program_bytes()).unwrap_or_else(|| file.clone())
            }
            found @ Container::FlatTensor => {
                return Err(Error::FileKind {
                    path: path.to_owned(),
                    expected: "program (.pte, .bpte)",
                    found,
                });
            }
            _ => file,
        };
        let parsed = Program::parse(program.get()).map_err(external::failed(path))?;
        let names = parsed.method_names().map(str::to_owned).collect();
        let external = ExternalFiles::open(&options.data)?;
        tracing::debug!(target: "etvk::load", path = %path.display(), ?names, "program opened");
        let ModuleOptions { runtime, timestamps, passes, .. } = options;
        Ok(Self { path: path.to_owned(), program, external, names, runtime, timestamps, passes })
    }

    /// The file it was opened from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Names of the methods in file order.
    #[must_use]
    pub fn method_names(&self) -> &[String] {
        &self.names
    }

    /// What a method takes and gives.
    ///
    /// # Errors
    /// [`Error::Program`] without such a method, or if something in it is malformed.
    pub fn method_info(&self, name: &str) -> Result<MethodInfo> {
        let program = self.parse()?;
        Ok(MethodInfo::new(&program.method(name).map_err(Error::Program)?))
    }

    /// Finds out without a device whether this build runs the program, and every reason why not.
    ///
    /// # Errors
    /// [`Error::File`] if a file was changed since it was opened.
    pub fn check(&self) -> Result<CheckReport> {
        let program = self.parse()?;
        let files = self.external.parse()?;
        let names = Names { external: &files, program: program.named_data() };
        let methods = program.method_names().zip(program.methods()).map(|(name, method)| match method {
            Ok(method) => check::examine(&method, names).report,
            Err(error) => MethodReport {
                name: name.to_owned(),
                delegates: Vec::new(),
                operators: Vec::new(),
                problems: vec![Problem::Malformed(error)],
            },
        });
        Ok(CheckReport { methods: methods.collect() })
    }

    /// Loads a method: its constants go to the device, and `progress` is told how far that is. The device is opened if
    /// the method has a delegate and nothing has opened it before.
    ///
    /// # Errors
    /// [`Error::Program`] without such a method; [`Error::Unsupported`] with every reason why this build does not run
    /// it; [`Error::Device`] without a device; [`Error::Delegate`] if loading a delegated part fails.
    pub fn load(&self, name: &str, mut progress: Option<&mut dyn FnMut(LoadProgress)>) -> Result<Method> {
        self.load_with(name, |examined, names, _| {
            let count = examined.payloads.len();
            let mut delegates = Vec::with_capacity(count);
            for (delegate, (payload, &surplus)) in examined.payloads.iter().zip(&examined.surplus).enumerate()
            {
                let context = self.runtime.context()?;
                let mut report = |done, total| {
                    if let Some(progress) = &mut progress {
                        progress(LoadProgress { delegate, delegates: count, done, total });
                    }
                };
                let options = LoadOptions {
                    named: Some(&names),
                    progress: Some(&mut report),
                    timestamps: self.timestamps,
                    surplus: Surplus::Known(surplus),
                    passes: self.passes,
                };
                let executor = Executor::load(&context, payload, options)
                    .map_err(|source| Error::Delegate { delegate, source })?;
                delegates.push(Delegate::Own(Box::new(executor)));
            }
            Ok(delegates)
        })
    }

    /// As [`load`](Self::load), with the delegated parts on a backend of another make.
    ///
    /// # Errors
    /// As [`load`](Self::load), and [`Error::Foreign`] if that backend fails.
    #[doc(hidden)]
    pub fn load_foreign(&self, name: &str, backend: &dyn foreign::Backend) -> Result<Method> {
        self.load_with(name, |_, names, method| {
            let load = |(index, delegate): (usize, &etvk_pte::Delegate<'_>)| {
                let compile_specs =
                    delegate.compile_specs.iter().map(|spec| (spec.key, spec.value)).collect();
                let payload = delegate.payload;
                let source = foreign::Source { method: name, payload, compile_specs, named: &names };
                let loaded = backend.load(&source);
                loaded.map(Delegate::Foreign).map_err(|source| Error::Foreign { delegate: index, source })
            };
            method.delegates().iter().enumerate().map(load).collect()
        })
    }

    /// Loads a method; `delegates` makes its delegates ready.
    fn load_with(
        &self,
        name: &str,
        delegates: impl FnOnce(&Examined<'_>, Names<'_>, &etvk_pte::Method<'_>) -> Result<Vec<Delegate>>,
    ) -> Result<Method> {
        let program = self.parse()?;
        let files = self.external.parse()?;
        let names = Names { external: &files, program: program.named_data() };
        let method = program.method(name).map_err(Error::Program)?;
        let examined = check::examine(&method, names);
        if !examined.report.problems.is_empty() {
            let problems = examined.report.problems;
            return Err(Error::Unsupported { method: name.to_owned(), problems });
        }
        let frame = Frame::new(&method, names, &self.program).map_err(|source| Error::Instruction {
            chain: 0,
            instruction: 0,
            name: "load".to_owned(),
            source,
        })?;
        let delegates = delegates(&examined, names, &method)?;
        tracing::debug!(target: "etvk::load", method = name, delegates = delegates.len(), "method loaded");
        Ok(Method {
            info: MethodInfo::new(&method),
            code: Code::new(&method),
            frame,
            delegates,
            inputs: method.inputs().iter().map(ValueId::index).collect(),
            outputs: method.outputs().iter().map(ValueId::index).collect(),
        })
    }

    fn parse(&self) -> Result<Program<'_>> {
        Program::parse(self.program.get()).map_err(external::failed(&self.path))
    }
}
