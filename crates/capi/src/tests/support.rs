//! Delegates and arguments as a C program would make them.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::null_mut;

use crate::abi::*;
use crate::api::*;

pub(super) const OK: EtvkStatus = EtvkStatus::Ok;

/// What `etvk_last_error` says.
pub(super) fn last_error() -> String {
    unsafe { CStr::from_ptr(etvk_last_error()) }.to_str().unwrap().to_owned()
}

/// Named data in memory, given out one blob at a time and counted.
#[derive(Default)]
pub(super) struct Names {
    pub(super) blobs: Vec<(String, Vec<u8>)>,
    /// Status for the key at this place instead of its bytes.
    pub(super) fail: Option<(usize, u32)>,
    /// Bytes that the blob at this place lacks.
    pub(super) short: Option<(usize, usize)>,
    pub(super) given: usize,
    pub(super) released: usize,
}

unsafe extern "C" fn release(owner: *mut c_void) {
    unsafe { *owner.cast::<usize>() += 1 }
}

unsafe extern "C" fn get(context: *mut c_void, key: *const c_char, len: usize, out: *mut EtvkBlob) -> u32 {
    let names = unsafe { &mut *context.cast::<Names>() };
    let key = unsafe { std::slice::from_raw_parts(key.cast::<u8>(), len) };
    let Some(place) = names.blobs.iter().position(|(known, _)| known.as_bytes() == key) else {
        return EtvkStatus::NotFound as u32;
    };
    if let Some((_, status)) = names.fail.filter(|(at, _)| *at == place) {
        return status;
    }
    let bytes = &names.blobs[place].1;
    let less = names.short.filter(|(at, _)| *at == place).map_or(0, |(_, less)| less);
    let (data, len) = (bytes.as_ptr().cast(), bytes.len() - less);
    names.given += 1;
    let owner = (&raw mut names.released).cast();
    unsafe { out.write(EtvkBlob { data, len, owner, release: Some(release) }) };
    EtvkStatus::Ok as u32
}

/// Everything that a delegate is made from.
pub(super) struct Source {
    pub(super) payload: Vec<u8>,
    pub(super) names: Names,
    pub(super) options: Vec<EtvkOption>,
    pub(super) specs: Vec<EtvkCompileSpec>,
}

impl Source {
    pub(super) fn new(payload: Vec<u8>, blobs: Vec<(String, Vec<u8>)>) -> Self {
        Self { payload, names: Names { blobs, ..Names::default() }, options: Vec::new(), specs: Vec::new() }
    }

    /// What C code would fill in.
    pub(super) fn info(&mut self) -> EtvkCreateInfo {
        EtvkCreateInfo {
            struct_size: size_of::<EtvkCreateInfo>(),
            payload: EtvkBlob {
                data: self.payload.as_ptr().cast(),
                len: self.payload.len(),
                owner: null_mut(),
                release: None,
            },
            compile_specs: self.specs.as_ptr(),
            compile_spec_count: self.specs.len(),
            runtime_specs: self.options.as_ptr(),
            runtime_spec_count: self.options.len(),
            method_name: c"forward".as_ptr(),
            named_data: EtvkNamedData { context: (&raw mut self.names).cast(), get: Some(get) },
        }
    }

    pub(super) fn create(&mut self) -> Result<Handle, EtvkStatus> {
        let info = self.info();
        let made = create(&info);
        assert_eq!(self.names.given, self.names.released, "blobs that were not released");
        made
    }

    /// The payload as in a real load: freed when the library says so.
    pub(super) fn create_and_release(mut self) -> Handle {
        unsafe extern "C" fn free(owner: *mut c_void) {
            let mut bytes = unsafe { Box::from_raw(owner.cast::<Vec<u8>>()) };
            // Whoever still reads it reads something else.
            bytes.fill(0xa5);
        }
        let mut info = self.info();
        let bytes = Box::new(self.payload.clone());
        info.payload.data = bytes.as_ptr().cast();
        info.payload.owner = Box::into_raw(bytes).cast();
        info.payload.release = Some(free);
        create(&info).unwrap()
    }
}

pub(super) fn create(info: &EtvkCreateInfo) -> Result<Handle, EtvkStatus> {
    let mut handle = null_mut();
    match unsafe { etvk_delegate_create(info, &mut handle) } {
        EtvkStatus::Ok => {
            assert!(!handle.is_null());
            Ok(Handle(handle))
        }
        status => {
            assert!(handle.is_null());
            assert!(!last_error().is_empty());
            Err(status)
        }
    }
}

/// A delegate, destroyed at the end.
pub(super) struct Handle(pub(super) *mut EtvkDelegate);

// Handles may be used from any thread, which is what tests are about.
unsafe impl Send for Handle {}
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        assert_eq!(etvk_delegate_destroy(self.0), OK);
    }
}

impl Handle {
    pub(super) fn execute(&self, args: &mut Args) -> EtvkStatus {
        args.execute(self.0, std::ptr::null())
    }
}

/// A tensor's memory and description, at an address that does not change.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    pub(super) scalar_type: i32,
    pub(super) sizes: Vec<i32>,
    pub(super) dim_order: Vec<u8>,
    pub(super) strides: Vec<i32>,
    pub(super) data: Vec<u8>,
    /// What the resize callback returns, and whether it does its work before.
    pub(super) resize: (u32, bool),
    pub(super) resized: usize,
}

impl Tensor {
    pub(super) fn new(scalar_type: EtvkScalarType, sizes: &[usize], data: Vec<u8>) -> Self {
        let order: Vec<u8> = (0..sizes.len() as u8).collect();
        Self::ordered(scalar_type as i32, sizes, &order, data)
    }

    pub(super) fn ordered(scalar_type: i32, sizes: &[usize], order: &[u8], data: Vec<u8>) -> Self {
        let sizes = sizes.iter().map(|&size| size as i32).collect();
        let mut tensor = Self {
            scalar_type,
            sizes,
            dim_order: order.to_vec(),
            strides: Vec::new(),
            data,
            resize: (0, true),
            resized: 0,
        };
        tensor.set_strides();
        tensor
    }

    /// As ExecuTorch has them, too.
    fn set_strides(&mut self) {
        let mut next = 1;
        self.strides = vec![0; self.sizes.len()];
        for &dim in self.dim_order.iter().rev() {
            self.strides[usize::from(dim)] = next;
            next *= self.sizes[usize::from(dim)].max(1);
        }
    }

    pub(super) fn floats(sizes: &[usize], data: &[f32]) -> Self {
        Self::new(EtvkScalarType::Float, sizes, data.iter().flat_map(|x| x.to_le_bytes()).collect())
    }

    pub(super) fn longs(sizes: &[usize], data: &[i64]) -> Self {
        Self::new(EtvkScalarType::Long, sizes, data.iter().flat_map(|x| x.to_le_bytes()).collect())
    }

    pub(super) fn ints(sizes: &[usize], data: &[i32]) -> Self {
        Self::new(EtvkScalarType::Int, sizes, data.iter().flat_map(|x| x.to_le_bytes()).collect())
    }

    pub(super) fn doubles(sizes: &[usize], data: &[f64]) -> Self {
        Self::new(EtvkScalarType::Double, sizes, data.iter().flat_map(|x| x.to_le_bytes()).collect())
    }

    pub(super) fn to_floats(&self) -> Vec<f32> {
        self.data.as_chunks::<4>().0.iter().map(|raw| f32::from_le_bytes(*raw)).collect()
    }

    fn describe(&mut self) -> EtvkTensor {
        EtvkTensor {
            scalar_type: self.scalar_type,
            rank: self.sizes.len() as u32,
            sizes: self.sizes.as_ptr(),
            dim_order: self.dim_order.as_ptr(),
            strides: self.strides.as_ptr(),
            data: self.data.as_mut_ptr().cast(),
            nbytes: self.data.len(),
            dynamism: EtvkDynamism::Bound as u32,
            resize_context: std::ptr::from_mut(self).cast(),
            resize: Some(resize),
        }
    }
}

unsafe extern "C" fn resize(
    context: *mut c_void,
    _: usize,
    tensor: *mut EtvkTensor,
    sizes: *const i32,
    rank: usize,
) -> u32 {
    let owner = unsafe { &mut *context.cast::<Tensor>() };
    let (status, works) = owner.resize;
    if works {
        owner.resized += 1;
        let element = match owner.scalar_type {
            4 | 7 => 8,
            3 | 6 => 4,
            5 => 2,
            _ => 1,
        };
        owner.sizes = match rank {
            0 => Vec::new(),
            _ => unsafe { std::slice::from_raw_parts(sizes, rank) }.to_vec(),
        };
        let count: i32 = owner.sizes.iter().product();
        // A new place each time, as an unbounded tensor may get.
        owner.data = vec![0xee; count as usize * element];
        owner.set_strides();
        unsafe { *tensor = owner.describe() };
    }
    status
}

/// An argument and what it points at.
#[derive(Clone, Debug)]
pub(super) enum Arg {
    Int(i64),
    Tensor(Box<Tensor>),
}

impl From<Tensor> for Arg {
    fn from(tensor: Tensor) -> Self {
        Self::Tensor(Box::new(tensor))
    }
}

/// The arguments of an execution.
pub(super) struct Args {
    pub(super) given: Vec<Arg>,
    pub(super) raw: Vec<EtvkArg>,
}

pub(super) fn raw_tensor() -> EtvkTensor {
    EtvkTensor {
        scalar_type: 0,
        rank: 0,
        sizes: std::ptr::null(),
        dim_order: std::ptr::null(),
        strides: std::ptr::null(),
        data: null_mut(),
        nbytes: 0,
        dynamism: 0,
        resize_context: null_mut(),
        resize: None,
    }
}

impl Args {
    pub(super) fn new(given: Vec<Arg>) -> Self {
        let mut args = Self { given, raw: Vec::new() };
        args.raw = args
            .given
            .iter_mut()
            .map(|arg| match arg {
                Arg::Int(value) => {
                    EtvkArg { tag: EtvkArgTag::Int as u32, int_value: *value, tensor: raw_tensor() }
                }
                Arg::Tensor(tensor) => {
                    EtvkArg { tag: EtvkArgTag::Tensor as u32, int_value: 0, tensor: tensor.describe() }
                }
            })
            .collect();
        args
    }

    pub(super) fn tensor(&self, at: usize) -> &Tensor {
        match &self.given[at] {
            Arg::Tensor(tensor) => tensor,
            Arg::Int(_) => panic!("argument {at} is an integer"),
        }
    }

    pub(super) fn execute(&mut self, handle: *mut EtvkDelegate, events: *const EtvkEvents) -> EtvkStatus {
        unsafe { etvk_delegate_execute(handle, self.raw.as_mut_ptr(), self.raw.len(), events) }
    }
}

/// Options with the texts that they point at.
pub(super) struct Texts(Vec<CString>);

impl Texts {
    pub(super) fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn pointer(&mut self, text: &str) -> *const c_char {
        self.0.push(CString::new(text).unwrap());
        // The heap block of a `CString` stays where it is when the vector grows.
        self.0.last().map(|text| text.as_ptr()).unwrap()
    }

    pub(super) fn text(&mut self, key: &str, value: &str) -> EtvkOption {
        let (key, text_value) = (self.pointer(key), self.pointer(value));
        EtvkOption { key, kind: EtvkOptionKind::Text as u32, int_value: 0, text_value }
    }

    pub(super) fn int(&mut self, key: &str, int_value: i64) -> EtvkOption {
        let kind = EtvkOptionKind::Int as u32;
        EtvkOption { key: self.pointer(key), kind, int_value, text_value: std::ptr::null() }
    }

    pub(super) fn bool(&mut self, key: &str, value: bool) -> EtvkOption {
        EtvkOption { kind: EtvkOptionKind::Bool as u32, ..self.int(key, value.into()) }
    }
}
