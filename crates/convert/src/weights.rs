//! Tensors of the file on their way to constants of the graph.

use std::collections::HashSet;
use std::io;
use std::ops::Range;

use etvk_gguf::{Gguf, Tensor, TensorType};
use etvk_vkgraph::{DType, ValueId};
use half::f16;

use crate::constants::{Constants, Kept, Region};
use crate::graph::{Graph, Lookup, Matrix};
use crate::quantise::{self, Codes, Scales};
use crate::{Error, Options, Progress, Quantisation, Result};

/// Weights that are worked on at a time.
const CHUNK: u64 = 1 << 22;
/// Elements of a float table that upstream's partitioner takes at most, and bytes that every device can bind.
const MAX_TABLE: u64 = 1 << 27;

/// The weights of a file.
pub(crate) struct Weights<'a> {
    gguf: &'a Gguf,
    options: &'a Options,
    pub(crate) constants: Constants,
    used: HashSet<&'a str>,
    progress: &'a mut dyn FnMut(Progress),
    done: Progress,
    /// Failures of the file beside the program; what it stands for is known where they are reported.
    failed: Box<dyn Fn(io::Error) -> Error + 'a>,
}

/// The table of the vocabulary, or one like it.
pub(crate) enum Table {
    /// Rows of one table.
    One(Lookup),
    /// Sums of rows of two.
    Two(Lookup, Lookup),
}

/// A chunk of rows, and what it is made from.
struct Rows<'t> {
    tensor: Tensor<'t>,
    first: u64,
    count: u64,
}

impl Rows<'_> {
    fn floats(&self) -> Result<Vec<f32>> {
        let count = usize::try_from(self.count * self.tensor.columns()).unwrap_or(usize::MAX);
        let mut floats = vec![0.0; count];
        self.tensor.read_rows(self.first, &mut floats)?;
        Ok(floats)
    }
}

impl<'a> Weights<'a> {
    pub(crate) fn new(
        gguf: &'a Gguf,
        options: &'a Options,
        constants: Constants,
        progress: &'a mut dyn FnMut(Progress),
        failed: Box<dyn Fn(io::Error) -> Error + 'a>,
    ) -> Self {
        let total = gguf.tensors().map(|tensor| tensor.bytes.len() as u64).sum();
        let done = Progress { done: 0, total };
        Self { gguf, options, constants, used: HashSet::new(), progress, done, failed }
    }

    /// What floats of the program are.
    pub(crate) fn dtype(&self) -> DType {
        if self.options.half { DType::Float16 } else { DType::Float32 }
    }

    /// Whether the file has a tensor.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.gguf.tensor(name).is_some()
    }

    /// Sizes of a tensor.
    pub(crate) fn sizes(&self, name: &str) -> Result<&'a [u64]> {
        let tensor = self.gguf.tensor(name);
        tensor.map(|tensor| tensor.dims).ok_or_else(|| Error::MissingTensor { name: name.to_owned() })
    }

    /// Marks a tensor, if the file has it, as one that the model does without.
    pub(crate) fn ignore(&mut self, name: &str) {
        if let Some(tensor) = self.gguf.tensor(name) {
            self.used.insert(tensor.name);
        }
    }

    /// Tensors that nothing asked for.
    pub(crate) fn unused(&self) -> Vec<String> {
        let names = self.gguf.tensors().map(|tensor| tensor.name);
        names.filter(|name| !self.used.contains(name)).map(str::to_owned).collect()
    }

    fn tensor(&mut self, name: &str, expected: &[u64]) -> Result<Tensor<'a>> {
        let Some(tensor) = self.gguf.tensor(name) else {
            return Err(Error::MissingTensor { name: name.to_owned() });
        };
        if tensor.dims != expected {
            let (name, found) = (name.to_owned(), tensor.dims.to_vec());
            return Err(Error::Sizes { name, found, expected: expected.to_vec() });
        }
        if self.used.insert(tensor.name) {
            self.done.done += tensor.bytes.len() as u64;
        }
        Ok(tensor)
    }

    /// All elements of a small tensor.
    pub(crate) fn floats(&mut self, name: &str, length: u32) -> Result<Vec<f32>> {
        let tensor = self.tensor(name, &[length.into()])?;
        Rows { tensor, first: 0, count: 1 }.floats()
    }

    /// A constant of floats.
    pub(crate) fn keep(&mut self, floats: &[f32]) -> Result<Kept> {
        let bytes = float_bytes(floats, self.options.half);
        self.constants.add(&bytes).map_err(&self.failed)
    }

    /// A constant of zeros.
    pub(crate) fn zeros(&mut self, count: u64) -> Result<Kept> {
        let mut region = self.constants.reserve(count * self.dtype().size() as u64);
        let chunk = vec![0; 1 << 16];
        let mut left = count * self.dtype().size() as u64;
        while left > 0 {
            let part = chunk.get(..usize::try_from(left).unwrap_or(usize::MAX)).unwrap_or(&chunk);
            self.constants.append(&mut region, part).map_err(&self.failed)?;
            left -= part.len() as u64;
        }
        self.constants.finish(region).map_err(&self.failed)
    }

    /// Calls `each` with rows of the tensor chunk after chunk.
    fn chunks(
        &mut self,
        tensor: Tensor<'a>,
        range: Range<u64>,
        mut each: impl FnMut(&mut Self, Rows<'a>) -> Result<()>,
    ) -> Result<()> {
        let step = (CHUNK / tensor.columns().max(1)).max(1);
        let whole = tensor.bytes.len() as u64;
        let end = self.done.done;
        for first in range.clone().step_by(usize::try_from(step).unwrap_or(1)) {
            let count = step.min(range.end - first);
            each(self, Rows { tensor, first, count })?;
            let part = whole / tensor.rows().max(1) * (tensor.rows() - first - count);
            (self.progress)(Progress { done: end.saturating_sub(part), ..self.done });
        }
        Ok(())
    }

    fn append(&self, region: &mut Region, bytes: &[u8]) -> Result<()> {
        self.constants.append(region, bytes).map_err(&self.failed)
    }

    fn finish(&mut self, region: Region) -> Result<Kept> {
        self.constants.finish(region).map_err(&self.failed)
    }

    fn scales<'i>(&self, importance: Option<&'i [f32]>) -> Scales<'i> {
        Scales { search: self.options.search, importance, half: self.options.half }
    }

    /// How a matrix is stored, and in which groups.
    fn storage(&self, tensor: &Tensor<'_>, wanted: Quantisation) -> Result<Storage> {
        let group = self.options.group;
        let storage = match (wanted, tensor.kind) {
            (Quantisation::Keep, TensorType::Q4_0) => return Ok(Storage::Kept),
            (Quantisation::Keep, TensorType::F32 | TensorType::F16 | TensorType::BF16) => {
                return Ok(Storage::Float);
            }
            (Quantisation::Keep | Quantisation::Bits8, _) => return Ok(Storage::Bits8),
            (Quantisation::Bits4, _) => Storage::Bits4(group),
            (Quantisation::Dynamic8Bits4, _) => Storage::Dynamic(group),
        };
        divides(tensor, group)?;
        Ok(storage)
    }

    /// A matrix [`rows`, `columns`] for [`Graph::linear`]. `importance` is what errors of each column weigh.
    pub(crate) fn matrix(
        &mut self,
        graph: &mut Graph,
        name: &str,
        [rows, columns]: [u32; 2],
        wanted: Quantisation,
        importance: Option<&[f32]>,
    ) -> Result<Matrix> {
        let tensor = self.tensor(name, &[rows.into(), columns.into()])?;
        match self.storage(&tensor, wanted)? {
            Storage::Bits8 => self.bits8(graph, tensor, rows),
            Storage::Float => {
                let weight = self.float(graph, tensor, 1.0)?;
                Ok(Matrix::Float { weight, rows })
            }
            storage => {
                let uses = Uses { linear: true, table: None, sums: matches!(storage, Storage::Dynamic(_)) };
                let grouped = self.grouped(tensor, storage, importance, uses)?;
                Ok(grouped.linear(graph, self.dtype()))
            }
        }
    }

    /// A table [`rows`, `columns`] for [`Graph::embedding`], times `factor`.
    pub(crate) fn table(
        &mut self,
        graph: &mut Graph,
        name: &str,
        [rows, columns]: [u32; 2],
        wanted: Quantisation,
        factor: f64,
    ) -> Result<Table> {
        let tensor = self.tensor(name, &[rows.into(), columns.into()])?;
        match self.storage(&tensor, wanted)? {
            Storage::Float if tensor.rows() * tensor.columns() <= MAX_TABLE => {
                let weight = self.float(graph, tensor, factor)?;
                Ok(Table::One(Lookup::Float { weight }))
            }
            Storage::Bits8 | Storage::Float => {
                divides(&tensor, BYTES_GROUP)?;
                self.planes(graph, tensor, rows, factor)
            }
            storage => {
                let uses = Uses { linear: false, table: Some(factor), sums: false };
                let grouped = self.grouped(tensor, storage, None, uses)?;
                Ok(Table::One(grouped.table(graph, self.dtype())))
            }
        }
    }

    /// One tensor both as a table, times `factor`, and as a matrix. In 4 bits they share their codes.
    pub(crate) fn tied(
        &mut self,
        graph: &mut Graph,
        name: &str,
        sizes @ [rows, columns]: [u32; 2],
        wanted: Quantisation,
        factor: f64,
        importance: Option<&[f32]>,
    ) -> Result<(Table, Matrix)> {
        let tensor = self.tensor(name, &[rows.into(), columns.into()])?;
        match self.storage(&tensor, wanted)? {
            Storage::Bits8 | Storage::Float => Ok((
                self.table(graph, name, sizes, wanted, factor)?,
                self.matrix(graph, name, sizes, wanted, importance)?,
            )),
            storage => {
                let sums = matches!(storage, Storage::Dynamic(_));
                let uses = Uses { linear: true, table: Some(factor), sums };
                let grouped = self.grouped(tensor, storage, importance, uses)?;
                let dtype = self.dtype();
                Ok((Table::One(grouped.table(graph, dtype)), grouped.linear(graph, dtype)))
            }
        }
    }

    /// 4-bit codes in groups.
    fn grouped(
        &mut self,
        tensor: Tensor<'a>,
        storage: Storage,
        importance: Option<&[f32]>,
        uses: Uses,
    ) -> Result<Grouped> {
        let group = match storage {
            Storage::Bits4(group) | Storage::Dynamic(group) => group,
            Storage::Kept | Storage::Bits8 | Storage::Float => KEPT_GROUP,
        };
        let (rows, columns) = (tensor.rows(), tensor.columns());
        let groups = columns / u64::from(group);
        let half = self.options.half;
        let size = self.dtype().size() as u64;
        let mut codes = self.constants.reserve(rows * columns.next_multiple_of(8) / 2);
        let mut table = uses.table.map(|factor| (factor, self.constants.reserve(rows * groups * size)));
        let mut linear = uses.linear.then(|| Transposed::new(rows, groups, 4, size));
        let mut sums = uses.sums.then(|| Transposed::new(rows, groups, 8, 4));
        self.chunks(tensor, 0..tensor.rows(), |this, rows| {
            let encoded = match storage {
                Storage::Kept => quantise::q4_0(tensor.row_bytes(rows.first, rows.count).unwrap_or_default()),
                _ => {
                    let columns = usize::try_from(columns).unwrap_or(usize::MAX);
                    quantise::groups(&rows.floats()?, columns, group as usize, this.scales(importance))
                }
            };
            let Codes { codes: chunk, scales } = encoded;
            let packed = quantise::pack(&chunk, usize::try_from(columns).unwrap_or(usize::MAX));
            this.append(&mut codes, &packed)?;
            if let Some(linear) = &mut linear {
                linear.put(rows.first, &float_bytes(&scales, half));
            }
            if let Some(sums) = &mut sums {
                let all = quantise::sums(&chunk, group as usize);
                sums.put(rows.first, &all.iter().flat_map(|sum| sum.to_le_bytes()).collect::<Vec<_>>());
            }
            if let Some((factor, region)) = &mut table {
                #[expect(clippy::cast_possible_truncation, reason = "scales are f32")]
                let scaled: Vec<f32> =
                    scales.iter().map(|&scale| (f64::from(scale) * *factor) as f32).collect();
                this.append(region, &float_bytes(&scaled, half))?;
            }
            Ok(())
        })?;
        let narrow = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let failed = &self.failed;
        let mut add = |transposed: Transposed| {
            let dims = [narrow(groups), narrow(transposed.width)];
            self.constants.add(&transposed.bytes).map(|kept| (kept, dims)).map_err(failed)
        };
        let linear = linear.map(&mut add).transpose()?;
        let sums = sums.map(&mut add).transpose()?;
        Ok(Grouped {
            group,
            rows: narrow(rows),
            width: narrow(columns.next_multiple_of(8) / 2),
            groups: narrow(groups),
            codes: self.finish(codes)?,
            linear,
            sums,
            table: table.map(|(_, region)| self.finish(region)).transpose()?,
        })
    }

    /// 8-bit codes, one scale a row; in parts that any device can bind.
    fn bits8(&mut self, graph: &mut Graph, tensor: Tensor<'a>, rows: u32) -> Result<Matrix> {
        let most = u32::try_from(MAX_TABLE / tensor.columns().max(1)).unwrap_or(u32::MAX).max(1);
        let part = rows.div_ceil(rows.div_ceil(most).max(1)).max(1);
        let firsts = (0..rows).step_by(part as usize);
        let mut parts: Vec<Matrix> = firsts
            .map(|first| self.bits8_part(graph, tensor, first..rows.min(first + part)))
            .collect::<Result<_>>()?;
        Ok(match parts.pop() {
            Some(last) if parts.is_empty() => last,
            last => Matrix::Parts(parts.into_iter().chain(last).collect()),
        })
    }

    fn bits8_part(&mut self, graph: &mut Graph, tensor: Tensor<'a>, range: Range<u32>) -> Result<Matrix> {
        let columns = tensor.columns();
        let rows = range.len() as u64;
        let mut region = self.constants.reserve(rows * columns);
        let mut scales = Vec::new();
        self.chunks(tensor, range.start.into()..range.end.into(), |this, rows| {
            let columns = usize::try_from(columns).unwrap_or(usize::MAX);
            let encoded = quantise::rows(&rows.floats()?, columns, this.scales(None));
            scales.extend(float_bytes(&encoded.scales, this.options.half));
            let codes: Vec<u8> = encoded.codes.iter().map(|code| code.cast_unsigned()).collect();
            this.append(&mut region, &codes)
        })?;
        let codes = self.finish(region)?;
        let scales = self.constants.add(&scales).map_err(&self.failed)?;
        let rows = range.end - range.start;
        let dims = [rows, u32::try_from(columns).unwrap_or(u32::MAX)];
        Ok(Matrix::Bits8 {
            codes: graph.constant(DType::Int8, &dims, &codes),
            scales: graph.constant(self.dtype(), &[rows], &scales),
            rows,
        })
    }

    /// Two tables of 4-bit codes that add up to 8 bits.
    fn planes(&mut self, graph: &mut Graph, tensor: Tensor<'a>, rows: u32, factor: f64) -> Result<Table> {
        let columns = tensor.columns();
        let groups = columns / u64::from(BYTES_GROUP);
        let half = self.options.half;
        let mut codes =
            [0; 2].map(|_| self.constants.reserve(tensor.rows() * columns.next_multiple_of(8) / 2));
        let mut scales =
            [0; 2].map(|_| self.constants.reserve(tensor.rows() * groups * self.dtype().size() as u64));
        self.chunks(tensor, 0..tensor.rows(), |this, rows| {
            let columns = usize::try_from(columns).unwrap_or(usize::MAX);
            let mut floats = rows.floats()?;
            #[expect(clippy::cast_possible_truncation, reason = "weights are f32")]
            floats.iter_mut().for_each(|weight| *weight = (f64::from(*weight) * factor) as f32);
            let encoded = quantise::bytes(&floats, columns, BYTES_GROUP as usize, this.scales(None));
            let planes = quantise::planes(&encoded.codes);
            for ((plane, times), (codes, scales)) in
                planes.iter().zip([16.0, 1.0]).zip(codes.iter_mut().zip(&mut scales))
            {
                this.append(codes, &quantise::pack(plane, columns))?;
                let scaled: Vec<f32> = encoded.scales.iter().map(|scale| scale * times).collect();
                this.append(scales, &float_bytes(&scaled, half))?;
            }
            Ok(())
        })?;
        let narrow = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let mut plane = |codes: Region, scales: Region| -> Result<Lookup> {
            let (codes, scales) = (self.finish(codes)?, self.finish(scales)?);
            Ok(Lookup::Bits4 {
                codes: graph.constant(DType::UInt8, &[rows, narrow(columns.next_multiple_of(8) / 2)], &codes),
                scales: graph.constant(self.dtype(), &[rows, narrow(groups)], &scales),
                group: BYTES_GROUP,
            })
        };
        let ([high, low], [high_scales, low_scales]) = (codes, scales);
        Ok(Table::Two(plane(high, high_scales)?, plane(low, low_scales)?))
    }

    /// Floats, times `factor`.
    fn float(&mut self, graph: &mut Graph, tensor: Tensor<'a>, factor: f64) -> Result<ValueId> {
        let mut region =
            self.constants.reserve(tensor.rows() * tensor.columns() * self.dtype().size() as u64);
        self.chunks(tensor, 0..tensor.rows(), |this, rows| {
            let mut floats = rows.floats()?;
            #[expect(clippy::cast_possible_truncation, reason = "weights are f32")]
            floats.iter_mut().for_each(|weight| *weight = (f64::from(*weight) * factor) as f32);
            this.append(&mut region, &float_bytes(&floats, this.options.half))
        })?;
        let kept = self.finish(region)?;
        let dims: Vec<u32> = tensor.dims.iter().map(|&dim| u32::try_from(dim).unwrap_or(u32::MAX)).collect();
        Ok(graph.constant(self.dtype(), &dims, &kept))
    }
}

/// Weights that share a scale in `Q4_0`, and in tables of two planes.
const KEPT_GROUP: u32 = 32;
const BYTES_GROUP: u32 = 32;

/// How one matrix is stored.
#[derive(Clone, Copy)]
enum Storage {
    Bits4(u32),
    Dynamic(u32),
    Kept,
    Bits8,
    Float,
}

/// What 4-bit codes are needed for.
struct Uses {
    linear: bool,
    /// As a table, times this.
    table: Option<f64>,
    sums: bool,
}

/// 4-bit codes, and their scales as they are needed.
struct Grouped {
    group: u32,
    rows: u32,
    /// Bytes of a row of codes.
    width: u32,
    groups: u32,
    codes: Kept,
    linear: Option<(Kept, [u32; 2])>,
    sums: Option<(Kept, [u32; 2])>,
    table: Option<Kept>,
}

impl Grouped {
    fn codes(&self, graph: &mut Graph) -> ValueId {
        graph.constant(DType::UInt8, &[self.rows, self.width], &self.codes)
    }

    fn linear(&self, graph: &mut Graph, dtype: DType) -> Matrix {
        let (group, rows, codes) = (self.group, self.rows, self.codes(graph));
        let mut constant = |dtype, part: &Option<(Kept, [u32; 2])>| {
            part.as_ref().map(|(kept, dims)| graph.constant(dtype, dims, kept))
        };
        let scales = constant(dtype, &self.linear).unwrap_or(codes);
        match constant(DType::Int32, &self.sums) {
            Some(sums) => Matrix::Dynamic8Bits4 { codes, sums, scales, group, rows },
            None => Matrix::Bits4 { codes, scales, group, rows },
        }
    }

    fn table(&self, graph: &mut Graph, dtype: DType) -> Lookup {
        let codes = self.codes(graph);
        let dims = [self.rows, self.groups];
        let scales = self.table.as_ref().map_or(codes, |kept| graph.constant(dtype, &dims, kept));
        Lookup::Bits4 { codes, scales, group: self.group }
    }
}

/// Numbers that come by rows and are stored by columns, of which there are a multiple of 4 or 8.
struct Transposed {
    bytes: Vec<u8>,
    width: u64,
    groups: u64,
    size: u64,
}

impl Transposed {
    fn new(rows: u64, groups: u64, multiple: u64, size: u64) -> Self {
        let width = rows.next_multiple_of(multiple);
        let length = usize::try_from(width * groups * size).unwrap_or(usize::MAX);
        Self { bytes: vec![0; length], width, groups, size }
    }

    /// The numbers of rows from `first` on.
    fn put(&mut self, first: u64, bytes: &[u8]) {
        let size = usize::try_from(self.size).unwrap_or(1);
        let numbers = bytes.chunks_exact(size).enumerate();
        for (index, number) in numbers {
            let (row, group) = (first + index as u64 / self.groups, index as u64 % self.groups);
            let at = usize::try_from((group * self.width + row) * self.size).unwrap_or(usize::MAX);
            if let Some(place) = self.bytes.get_mut(at..).and_then(|rest| rest.get_mut(..size)) {
                place.copy_from_slice(number);
            }
        }
    }
}

/// Floats as they are stored. Those beyond the range of halves become the greatest, as upstream's exporter stores them.
fn float_bytes(floats: &[f32], half: bool) -> Vec<u8> {
    if half {
        let bound = f16::MAX.to_f32();
        floats.iter().flat_map(|float| f16::from_f32(float.clamp(-bound, bound)).to_le_bytes()).collect()
    } else {
        floats.iter().flat_map(|float| float.to_le_bytes()).collect()
    }
}

fn divides(tensor: &Tensor<'_>, group: u32) -> Result<()> {
    let columns = tensor.columns();
    if group > 0 && columns.is_multiple_of(group.into()) {
        return Ok(());
    }
    Err(Error::Group { name: tensor.name.to_owned(), columns, group })
}
