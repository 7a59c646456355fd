//! The C interface, loaded as a C program would: `libetvk.so` by its path. Everything outside the delegates is executed
//! by the Rust API, which is the same on both sides of the door.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use etvk::foreign::{Backend, Delegate, Fault, Source};
use etvk::{Method, Module, ModuleOptions, Tensor, Value, ValueInfo};
use libloading::{Library, Symbol};

use crate::conformance::case::{Case, Step};
use crate::conformance::door::{Door, Seat, status_name};

#[path = "../../../../capi/src/abi.rs"]
#[expect(dead_code, unreachable_pub, reason = "the interface's own text, of which this is one user")]
mod abi;

use abi::{
    EtvkArg, EtvkBlob, EtvkCompileSpec, EtvkCreateInfo, EtvkDelegate, EtvkNamedData, EtvkOption, EtvkTensor,
};

type LastError = unsafe extern "C" fn() -> *const c_char;
type OptionSet = unsafe extern "C" fn(*const EtvkOption, usize) -> u32;
type Create = unsafe extern "C" fn(*const EtvkCreateInfo, *mut *mut EtvkDelegate) -> u32;
type Ports = unsafe extern "C" fn(*mut EtvkDelegate, *mut usize, *mut usize) -> u32;
type Execute = unsafe extern "C" fn(*mut EtvkDelegate, *mut EtvkArg, usize, *const c_void) -> u32;
type Destroy = unsafe extern "C" fn(*mut EtvkDelegate) -> u32;

/// The functions of a loaded library.
struct Functions {
    last_error: LastError,
    option_set: OptionSet,
    create: Create,
    ports: Ports,
    execute: Execute,
    destroy: Destroy,
    /// Keeps the functions where they are.
    _library: Library,
}

impl Functions {
    fn load(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        // SAFETY: loading runs the library's initialisers; the path was given for just that.
        let library = unsafe { Library::new(path) }.with_context(|| format!("{shown}"))?;
        // SAFETY: the types above are those of abi.rs, and the version is compared before anything else is called.
        unsafe {
            let version: Symbol<'_, unsafe extern "C" fn() -> u32> = library.get(b"etvk_abi_version")?;
            if version() != abi::ETVK_ABI_VERSION {
                bail!(
                    "{shown}: expected version {} of the C interface, found {}",
                    abi::ETVK_ABI_VERSION,
                    version()
                );
            }
            Ok(Self {
                last_error: *library.get(b"etvk_last_error")?,
                option_set: *library.get(b"etvk_option_set")?,
                create: *library.get(b"etvk_delegate_create")?,
                ports: *library.get(b"etvk_delegate_ports")?,
                execute: *library.get(b"etvk_delegate_execute")?,
                destroy: *library.get(b"etvk_delegate_destroy")?,
                _library: library,
            })
        }
    }

    /// An error for every status but OK.
    fn check(&self, status: u32) -> Result<(), Fault> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the text is NUL-terminated and valid until the next call on this thread.
        let text = unsafe { CStr::from_ptr((self.last_error)()) }.to_string_lossy().into_owned();
        Err(format!("{} ({status:#04x}): {text}", status_name(status)).into())
    }
}

/// The C interface.
pub(crate) struct CApi(Arc<Functions>);

impl CApi {
    /// Loads the library; its delegates are to use `device`, a name or place.
    pub(crate) fn open(library: &Path, options: &[(&str, String)]) -> anyhow::Result<Self> {
        let functions = Functions::load(library)?;
        for (key, value) in options {
            let (key, value) = (CString::new(*key)?, CString::new(value.as_str())?);
            let kind = abi::EtvkOptionKind::Text as u32;
            let option = EtvkOption { key: key.as_ptr(), kind, int_value: 0, text_value: value.as_ptr() };
            // SAFETY: one option, whose texts live until the call returns.
            let status = unsafe { (functions.option_set)(&raw const option, 1) };
            functions.check(status).map_err(|fault| anyhow::anyhow!(fault))?;
        }
        Ok(Self(Arc::new(functions)))
    }
}

impl Door for CApi {
    fn name(&self) -> &str {
        "capi"
    }

    fn open(&self, case: &Case) -> anyhow::Result<Box<dyn Seat + '_>> {
        let options = ModuleOptions { data: case.data.clone(), ..ModuleOptions::default() };
        let module = Module::open_with(&case.program, options)?;
        Ok(Box::new(Program { module, methods: HashMap::new(), functions: &self.0 }))
    }
}

struct Program<'a> {
    module: Module,
    methods: HashMap<String, Method>,
    functions: &'a Arc<Functions>,
}

impl Seat for Program<'_> {
    fn execute(&mut self, step: &Step) -> anyhow::Result<(Vec<Value>, Duration)> {
        if !self.methods.contains_key(&step.method) {
            let method = self.module.load_foreign(&step.method, &Loader(self.functions))?;
            self.methods.insert(step.method.clone(), method);
        }
        let method = self.methods.get_mut(&step.method).context("a method that was just loaded is gone")?;
        let start = Instant::now();
        let outputs = method.execute(&step.inputs)?;
        Ok((outputs, start.elapsed()))
    }
}

struct Loader<'a>(&'a Arc<Functions>);

impl Backend for Loader<'_> {
    fn load(&self, source: &Source<'_>) -> Result<Box<dyn Delegate>, Fault> {
        let keys = source.compile_specs.iter().map(|(key, _)| CString::new(*key));
        let keys = keys.collect::<Result<Vec<CString>, _>>()?;
        let specs: Vec<EtvkCompileSpec> = keys
            .iter()
            .zip(&source.compile_specs)
            .map(|(key, (_, value))| EtvkCompileSpec {
                key: key.as_ptr(),
                value: value.as_ptr().cast(),
                value_len: value.len(),
            })
            .collect();
        let method_name = CString::new(source.method)?;
        let info = EtvkCreateInfo {
            struct_size: size_of::<EtvkCreateInfo>(),
            payload: blob(source.payload),
            compile_specs: specs.as_ptr(),
            compile_spec_count: specs.len(),
            runtime_specs: std::ptr::null(),
            runtime_spec_count: 0,
            method_name: method_name.as_ptr(),
            named_data: EtvkNamedData {
                context: std::ptr::from_ref(source).cast_mut().cast(),
                get: Some(find),
            },
        };
        let mut delegate = std::ptr::null_mut();
        // SAFETY: all that `info` points to lives until the call returns.
        self.0.check(unsafe { (self.0.create)(&raw const info, &raw mut delegate) })?;
        let mut loaded = Loaded { functions: self.0.clone(), delegate, inputs: 0 };
        // SAFETY: the delegate was just made; the number may be written, and the other one is not asked for.
        self.0.check(unsafe { (self.0.ports)(delegate, &raw mut loaded.inputs, std::ptr::null_mut()) })?;
        Ok(Box::new(loaded))
    }
}

fn blob(bytes: &[u8]) -> EtvkBlob {
    EtvkBlob { data: bytes.as_ptr().cast(), len: bytes.len(), owner: std::ptr::null_mut(), release: None }
}

/// Looks up a constant; `context` is the `Source`.
unsafe extern "C" fn find(context: *mut c_void, key: *const c_char, len: usize, out: *mut EtvkBlob) -> u32 {
    // SAFETY: `load` passed its source, which lives as long as the call that this is called from.
    let source = unsafe { &*context.cast::<Source<'_>>() };
    // SAFETY: the library passes `len` bytes.
    let key = unsafe { std::slice::from_raw_parts(key.cast::<u8>(), len) };
    match std::str::from_utf8(key).ok().and_then(|key| source.named.get(key)) {
        Some(bytes) => {
            // SAFETY: the library passes room for a blob.
            unsafe { out.write(blob(bytes)) };
            abi::EtvkStatus::Ok as u32
        }
        None => abi::EtvkStatus::NotFound as u32,
    }
}

/// A delegate of the library.
struct Loaded {
    functions: Arc<Functions>,
    delegate: *mut EtvkDelegate,
    inputs: usize,
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: it was made by this library and is destroyed once.
        unsafe { (self.functions.destroy)(self.delegate) };
    }
}

impl Delegate for Loaded {
    fn inputs(&self) -> usize {
        self.inputs
    }

    fn execute(&mut self, inputs: &[Value], outputs: &[ValueInfo]) -> Result<Vec<Value>, Fault> {
        let inputs = inputs.iter().map(Port::input);
        let mut ports =
            inputs.chain(outputs.iter().map(Port::output)).collect::<Result<Vec<Port>, Fault>>()?;
        let mut args: Vec<EtvkArg> = ports.iter_mut().map(Port::arg).collect();
        // SAFETY: the arguments point into `ports`, which nothing else touches until the call returns.
        let status = unsafe {
            (self.functions.execute)(self.delegate, args.as_mut_ptr(), args.len(), std::ptr::null())
        };
        self.functions.check(status)?;
        ports.into_iter().zip(&args).skip(self.inputs).map(|(port, arg)| port.value(arg)).collect()
    }
}

/// An argument with the memory that it points to.
enum Port {
    Int(i64),
    Tensor(Buffer),
}

/// A row-major tensor.
struct Buffer {
    scalar_type: etvk::ScalarType,
    sizes: Vec<i32>,
    data: Vec<u8>,
}

impl Port {
    fn input(value: &Value) -> Result<Self, Fault> {
        match value {
            Value::Int(value) => Ok(Self::Int(*value)),
            Value::Tensor(tensor) => {
                Ok(Self::Tensor(Buffer::new(tensor.scalar_type(), tensor.sizes(), tensor.data().to_vec())?))
            }
            other => Err(format!("a value of kind {} cannot go in", other.kind()).into()),
        }
    }

    fn output(info: &ValueInfo) -> Result<Self, Fault> {
        match info {
            ValueInfo::Int(value) => Ok(Self::Int(*value)),
            ValueInfo::Tensor { scalar_type, sizes, .. } => {
                let bytes = sizes.iter().product::<usize>() * scalar_type.size();
                Ok(Self::Tensor(Buffer::new(*scalar_type, sizes, vec![0; bytes])?))
            }
            other => Err(format!("{other} cannot come out").into()),
        }
    }

    fn arg(&mut self) -> EtvkArg {
        // SAFETY: numbers that may be zero, pointers that may be null, and functions that may be absent.
        let mut arg: EtvkArg = unsafe { std::mem::zeroed() };
        match self {
            Self::Int(value) => {
                arg.tag = abi::EtvkArgTag::Int as u32;
                arg.int_value = *value;
            }
            Self::Tensor(buffer) => {
                arg.tag = abi::EtvkArgTag::Tensor as u32;
                arg.tensor.scalar_type = i32::from(buffer.scalar_type as i8);
                arg.tensor.dynamism = abi::EtvkDynamism::Unbound as u32;
                arg.tensor.resize_context = std::ptr::from_mut(buffer).cast();
                arg.tensor.resize = Some(resize);
                buffer.describe(&mut arg.tensor);
            }
        }
        arg
    }

    fn value(self, arg: &EtvkArg) -> Result<Value, Fault> {
        match self {
            Self::Int(_) => Ok(Value::Int(arg.int_value)),
            Self::Tensor(buffer) => {
                let sizes = buffer.sizes.iter().map(|&size| usize::try_from(size));
                let sizes = sizes.collect::<Result<Vec<usize>, _>>()?;
                Ok(Value::Tensor(Tensor::new(buffer.scalar_type, &sizes, buffer.data)?))
            }
        }
    }
}

impl Buffer {
    fn new(scalar_type: etvk::ScalarType, sizes: &[usize], data: Vec<u8>) -> Result<Self, Fault> {
        let sizes = sizes.iter().map(|&size| i32::try_from(size)).collect::<Result<Vec<i32>, _>>()?;
        Ok(Self { scalar_type, sizes, data })
    }

    fn describe(&mut self, tensor: &mut EtvkTensor) {
        tensor.rank = u32::try_from(self.sizes.len()).unwrap_or(u32::MAX);
        tensor.sizes = self.sizes.as_ptr();
        tensor.data = self.data.as_mut_ptr().cast();
        tensor.nbytes = self.data.len();
    }
}

/// Gives an output its sizes; `context` is its `Buffer`.
unsafe extern "C" fn resize(
    context: *mut c_void,
    _arg: usize,
    tensor: *mut EtvkTensor,
    sizes: *const i32,
    rank: usize,
) -> u32 {
    // SAFETY: `arg` passed the buffer, which only this function touches while the delegate executes.
    let buffer = unsafe { &mut *context.cast::<Buffer>() };
    if rank != buffer.sizes.len() {
        return abi::EtvkStatus::InvalidArgument as u32;
    }
    if rank > 0 {
        // SAFETY: the library passes `rank` sizes, which are not those of the buffer.
        let sizes = unsafe { std::slice::from_raw_parts(sizes, rank) };
        buffer.sizes.copy_from_slice(sizes);
    }
    let elements = buffer
        .sizes
        .iter()
        .try_fold(buffer.scalar_type.size(), |bytes, &size| bytes.checked_mul(usize::try_from(size).ok()?));
    let Some(bytes) = elements else { return abi::EtvkStatus::InvalidArgument as u32 };
    buffer.data.resize(bytes, 0);
    // SAFETY: the library passes its argument's tensor.
    buffer.describe(unsafe { &mut *tensor });
    abi::EtvkStatus::Ok as u32
}
