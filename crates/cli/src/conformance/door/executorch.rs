//! ExecuTorch's own runtime in another process: `ffi/runner` says what goes over its pipes. One runner a case, so that a
//! delegate that aborts takes nothing else with it.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use etvk::{ScalarType, Tensor, Value};
use etvk_pte::{BundledProgram, Map};

use crate::conformance::case::{Case, Step};
use crate::conformance::door::{Door, Seat, status_name};

const LOAD: u32 = 1;
const EXECUTE: u32 = 2;
const NONE: u32 = 0;
const TENSOR: u32 = 1;
const INT: u32 = 2;
const DOUBLE: u32 = 3;
const BOOL: u32 = 4;

/// ExecuTorch's runtime with a delegate.
pub(crate) struct ExecuTorch {
    /// What reports call it.
    pub(crate) name: String,
    /// The runner's program.
    pub(crate) runner: PathBuf,
    /// The delegate's library.
    pub(crate) delegate: PathBuf,
    /// Runtime specs for it.
    pub(crate) specs: Vec<(&'static str, String)>,
    /// Where ETDumps go.
    pub(crate) etdump: Option<PathBuf>,
}

impl Door for ExecuTorch {
    fn name(&self) -> &str {
        &self.name
    }

    fn open(&self, case: &Case) -> anyhow::Result<Box<dyn Seat + '_>> {
        Ok(Box::new(Runner::start(self, &case.program, &case.data, &case.full_name())?))
    }
}

/// A file that is gone when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(ending: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("etvk-{}-{number}.{ending}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // There may be nothing left to remove.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A running runner with a program.
pub(crate) struct Runner {
    child: Child,
    /// Closed to end it.
    requests: Option<BufWriter<ChildStdin>>,
    answers: BufReader<ChildStdout>,
    log: Log,
    /// The program out of a bundle.
    _program: Option<Scratch>,
}

impl Runner {
    /// Starts one; `name` names the ETDump.
    pub(crate) fn start(
        door: &ExecuTorch,
        program: &Path,
        data: &[PathBuf],
        name: &str,
    ) -> anyhow::Result<Self> {
        let extracted = extract(program)?;
        let log = Log::new()?;
        let mut command = Command::new(&door.runner);
        command.arg("--load").arg(&door.delegate);
        for (key, value) in &door.specs {
            command.arg("--spec").arg(format!("{key}={value}"));
        }
        if let Some(folder) = &door.etdump {
            command.arg("--etdump").arg(folder.join(format!("{}.etdp", name.replace('/', "."))));
        }
        command.arg(extracted.as_ref().map_or(program, |scratch| &scratch.0)).args(data);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log.file.try_clone()?);
        let mut child = command.spawn().with_context(|| format!("starting {}", door.runner.display()))?;
        let requests = child.stdin.take().map(BufWriter::new);
        let answers = child.stdout.take().map(BufReader::new).context("the runner has no output")?;
        let mut runner = Self { child, requests, answers, log, _program: extracted };
        let greeting = runner.greeting();
        let (status, text) = greeting.map_err(|error| runner.died(&error))?;
        if status != 0 {
            bail!("{}: {text}", door.delegate.display());
        }
        Ok(runner)
    }

    /// Loads a method, and says how long that took.
    pub(crate) fn load(&mut self, method: &str) -> anyhow::Result<Duration> {
        let answer = self.request_load(method).and_then(|()| Ok((self.u32()?, self.u64()?)));
        let (status, nanoseconds) = answer.map_err(|error| self.died(&error))?;
        self.refuse(status)?;
        Ok(Duration::from_nanos(nanoseconds))
    }

    /// The process's id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    fn request_load(&mut self, method: &str) -> anyhow::Result<()> {
        let out = self.requests.as_mut().context("the runner has ended")?;
        put(out, LOAD)?;
        put_text(out, method)?;
        Ok(out.flush()?)
    }

    /// An error for a status that is one.
    fn refuse(&mut self, status: u32) -> anyhow::Result<()> {
        if status != 0 {
            let reason = self.log.reason().unwrap_or_default();
            bail!("{} ({status:#04x}): {reason}", status_name(status));
        }
        Ok(())
    }

    fn greeting(&mut self) -> anyhow::Result<(u32, String)> {
        let status = self.u32()?;
        let text = self.text()?;
        let _backends = self.text()?;
        Ok((status, text))
    }

    fn send(&mut self, step: &Step) -> anyhow::Result<()> {
        let out = self.requests.as_mut().context("the runner has ended")?;
        put(out, EXECUTE)?;
        put_text(out, &step.method)?;
        put(out, u32::try_from(step.inputs.len())?)?;
        for input in &step.inputs {
            put_value(out, input)?;
        }
        Ok(out.flush()?)
    }

    fn receive(&mut self) -> anyhow::Result<(u32, Duration, Vec<Value>)> {
        let status = self.u32()?;
        let time = Duration::from_nanos(self.u64()?);
        let count = self.u32()?;
        let values = (0..count).map(|_| self.value()).collect::<anyhow::Result<_>>()?;
        Ok((status, time, values))
    }

    fn value(&mut self) -> anyhow::Result<Value> {
        Ok(match self.u32()? {
            NONE => Value::None,
            TENSOR => Value::Tensor(self.tensor()?),
            INT => Value::Int(i64::from_le_bytes(self.array()?)),
            DOUBLE => Value::Double(f64::from_le_bytes(self.array()?)),
            BOOL => Value::Bool(self.u32()? != 0),
            other => bail!("the runner sent a value of the unknown kind {other}"),
        })
    }

    fn tensor(&mut self) -> anyhow::Result<Tensor> {
        let raw = self.u32()?;
        let scalar_type = i8::try_from(raw).ok().and_then(ScalarType::from_raw);
        let scalar_type = scalar_type.with_context(|| format!("element type {raw} is unknown"))?;
        let rank = self.u32()?;
        let sizes =
            (0..rank).map(|_| Ok(usize::try_from(self.u32()?)?)).collect::<anyhow::Result<Vec<_>>>()?;
        let length = self.u64()?;
        let mut data = Vec::new();
        (&mut self.answers).take(length).read_to_end(&mut data)?;
        Ok(Tensor::new(scalar_type, &sizes, data)?)
    }

    fn text(&mut self) -> anyhow::Result<String> {
        let length = self.u32()?;
        let mut text = String::new();
        (&mut self.answers).take(length.into()).read_to_string(&mut text)?;
        Ok(text)
    }

    fn u32(&mut self) -> anyhow::Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> anyhow::Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn array<const N: usize>(&mut self) -> anyhow::Result<[u8; N]> {
        let mut array = [0; N];
        self.answers.read_exact(&mut array)?;
        Ok(array)
    }

    /// Why nothing comes any more.
    fn died(&mut self, error: &anyhow::Error) -> anyhow::Error {
        self.requests = None;
        let last = self.log.reason().unwrap_or_else(|| error.to_string());
        match self.child.wait() {
            Ok(status) => anyhow!("the runner ended with {status}: {last}"),
            Err(wait) => anyhow!("the runner: {wait}: {last}"),
        }
    }
}

impl Seat for Runner {
    fn execute(&mut self, step: &Step) -> anyhow::Result<(Vec<Value>, Duration)> {
        let answer = self.send(step).and_then(|()| self.receive());
        let (status, time, values) = answer.map_err(|error| self.died(&error))?;
        self.refuse(status)?;
        Ok((values, time))
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // It ends with its input; what it says then is of no interest any more.
        self.requests = None;
        let _ = self.child.wait();
        self.log.pass_on();
    }
}

/// The runner's standard error: ExecuTorch's log, and what drivers and layers say.
struct Log {
    file: File,
    _path: Scratch,
}

impl Log {
    fn new() -> anyhow::Result<Self> {
        let path = Scratch::new("log");
        let file = File::options().read(true).append(true).create_new(true).open(&path.0);
        Ok(Self { file: file.with_context(|| path.0.display().to_string())?, _path: path })
    }

    fn text(&mut self) -> String {
        let mut bytes = Vec::new();
        // A log that cannot be read is one that says nothing.
        let _ = self.file.rewind();
        let _ = self.file.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// What ended the process, or else its first complaint, which is the one that the others follow from; without time
    /// and place.
    fn reason(&mut self) -> Option<String> {
        let text = self.text();
        let first = |level: char| text.lines().find(|line| is_log(line) && line.starts_with(level));
        let line = first('F').or_else(|| first('E'))?;
        Some(line.split_once("] ").map_or(line, |(_, message)| message).to_owned())
    }

    /// Passes on everything that is not ExecuTorch's log.
    fn pass_on(&mut self) {
        for line in self.text().lines().filter(|line| !is_log(line)) {
            eprintln!("{line}");
        }
    }
}

/// Whether a line is of ExecuTorch's log, such as `E 00:00:00.004210 executorch:program.cpp:72] …`.
fn is_log(line: &str) -> bool {
    let mut words = line.split(' ');
    let level = words.next().is_some_and(|word| matches!(word, "D" | "I" | "E" | "F" | "?"));
    level && words.nth(1).is_some_and(|word| word.starts_with("executorch:"))
}

/// The program of a bundle in a file of its own; ExecuTorch opens no bundles.
fn extract(path: &Path) -> anyhow::Result<Option<Scratch>> {
    if path.extension().is_none_or(|extension| extension != "bpte") {
        return Ok(None);
    }
    let file = Map::open(path).with_context(|| path.display().to_string())?;
    let bundle = BundledProgram::parse(&file).with_context(|| path.display().to_string())?;
    let program = Scratch::new("pte");
    std::fs::write(&program.0, bundle.program_bytes()).with_context(|| program.0.display().to_string())?;
    Ok(Some(program))
}

fn put(out: &mut impl Write, value: u32) -> std::io::Result<()> {
    out.write_all(&value.to_le_bytes())
}

fn put_text(out: &mut impl Write, text: &str) -> anyhow::Result<()> {
    put(out, u32::try_from(text.len())?)?;
    Ok(out.write_all(text.as_bytes())?)
}

fn put_value(out: &mut impl Write, value: &Value) -> anyhow::Result<()> {
    match value {
        Value::None => put(out, NONE)?,
        Value::Int(value) => {
            put(out, INT)?;
            out.write_all(&value.to_le_bytes())?;
        }
        Value::Double(value) => {
            put(out, DOUBLE)?;
            out.write_all(&value.to_le_bytes())?;
        }
        Value::Bool(value) => {
            put(out, BOOL)?;
            put(out, u32::from(*value))?;
        }
        Value::Tensor(tensor) => {
            put(out, TENSOR)?;
            put(out, u32::try_from(tensor.scalar_type() as i8)?)?;
            put(out, u32::try_from(tensor.sizes().len())?)?;
            for &size in tensor.sizes() {
                put(out, u32::try_from(size)?)?;
            }
            out.write_all(&u64::try_from(tensor.data().len())?.to_le_bytes())?;
            out.write_all(tensor.data())?;
        }
        other => bail!("a value of kind {} cannot be sent to the runner", other.kind()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_log_are_known() {
        assert!(is_log("E 00:00:00.004210 executorch:program.cpp:72] Program::load failed"));
        assert!(!is_log("Validation Error: [ VUID-vkCmdDispatch-None-08600 ] executorch: no"));
        assert!(!is_log(""));
    }

    #[test]
    fn values_are_written_as_the_runner_reads_them() {
        let mut out = Vec::new();
        put_value(&mut out, &Tensor::from_slice(&[2], &[1_i32, -1]).unwrap().into()).unwrap();
        put_value(&mut out, &Value::Bool(true)).unwrap();
        let words: Vec<u32> =
            out.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
        assert_eq!(words, [1, 3, 1, 2, 8, 0, 1, u32::MAX, 4, 1]);
        assert!(put_value(&mut out, &Value::IntList(Vec::new())).is_err());
    }
}
