//! The values of a loaded method and the memory of its tensors.

use std::borrow::Cow;

use etvk_pte::{Method, ScalarType, Storage, ValueId};

use crate::bytes::Bytes;
use crate::error::KernelFault;
use crate::external::Names;
use crate::order;
use crate::tensor::{Tensor, nbytes};
use crate::value::Value;

type Fault<T> = Result<T, KernelFault>;

/// One value of a loaded method.
#[derive(Clone, Debug)]
pub(crate) enum Slot {
    Null,
    Int(i64),
    Bool(bool),
    Double(f64),
    String(String),
    Tensor(TensorSlot),
    /// Ids of integers.
    IntList(Vec<usize>),
    DoubleList(Vec<f64>),
    BoolList(Vec<bool>),
    /// Ids of tensors; an absent one has no id or that of a [`Slot::Null`].
    TensorList(Vec<Option<usize>>),
}

impl Slot {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "Null",
            Self::Int(_) => "Int",
            Self::Bool(_) => "Bool",
            Self::Double(_) => "Double",
            Self::String(_) => "String",
            Self::Tensor(_) => "Tensor",
            Self::IntList(_) => "IntList",
            Self::DoubleList(_) => "DoubleList",
            Self::BoolList(_) => "BoolList",
            Self::TensorList(_) => "TensorList",
        }
    }
}

/// A tensor of a loaded method.
#[derive(Clone, Debug)]
pub(crate) struct TensorSlot {
    pub(crate) scalar_type: ScalarType,
    pub(crate) sizes: Vec<usize>,
    /// Dimensions from slowest to fastest, unless memory order is row-major.
    order: Option<Vec<u8>>,
    /// Whether the sizes may change.
    dynamic: bool,
    /// Elements that the memory has room for.
    capacity: usize,
    data: Data,
    /// The memory that the tensor's own writes go to.
    home: Option<Place>,
    /// A named buffer starts as zeros where the program gives no contents.
    starts_as_zeros: bool,
}

#[derive(Clone, Debug)]
enum Data {
    None,
    Constant(Bytes),
    Memory(Place),
}

/// A place in one of the frame's buffers. Buffers grow when they are written, so a size in a file allocates nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    buffer: usize,
    offset: usize,
}

/// The values of a loaded method and the memory of its tensors.
#[derive(Debug)]
pub(crate) struct Frame {
    slots: Vec<Slot>,
    buffers: Vec<Vec<u8>>,
}

impl Frame {
    /// The values as the program has them, mutable buffers filled. External data is known to be there and to fit.
    pub(crate) fn new(method: &Method<'_>, names: Names<'_>, file: &Bytes) -> Fault<Self> {
        let buffers = vec![Vec::new(); method.planned_buffers().len()];
        let mut frame = Self { slots: Vec::with_capacity(method.values().len()), buffers };
        for value in method.values() {
            let slot = frame.slot_of(value, names, file)?;
            frame.slots.push(slot);
        }
        Ok(frame)
    }

    fn slot_of(&mut self, value: &etvk_pte::Value<'_>, names: Names<'_>, file: &Bytes) -> Fault<Slot> {
        use etvk_pte::Value as V;
        Ok(match value {
            V::Null => Slot::Null,
            V::Int(value) => Slot::Int(*value),
            V::Bool(value) => Slot::Bool(*value),
            V::Double(value) => Slot::Double(*value),
            V::String(text) => Slot::String((*text).to_owned()),
            V::IntList(ids) => Slot::IntList(ids.iter().map(ValueId::index).collect()),
            V::DoubleList(items) => Slot::DoubleList(items.iter().collect()),
            V::BoolList(items) => Slot::BoolList(items.iter().collect()),
            V::TensorList(ids) => Slot::TensorList(ids.iter().map(|id| Some(id.index())).collect()),
            V::OptionalTensorList(ids) => {
                Slot::TensorList(ids.iter().map(|id| id.map(ValueId::index)).collect())
            }
            V::Tensor(tensor) => Slot::Tensor(self.tensor_of(tensor, names, file)?),
            _ => Slot::Null,
        })
    }

    fn tensor_of(
        &mut self,
        tensor: &etvk_pte::Tensor<'_>,
        names: Names<'_>,
        file: &Bytes,
    ) -> Fault<TensorSlot> {
        let layout = tensor.layout;
        let external = |key| {
            let (file, blob) = names.external(key)?;
            file.part(blob.bytes.get(..layout.nbytes())?)
        };
        let place = |region: etvk_pte::Region| Place {
            buffer: region.buffer,
            offset: usize::try_from(region.offset).unwrap_or(usize::MAX),
        };
        let constant = |bytes: Option<Bytes>| (bytes.map_or(Data::None, Data::Constant), None, None);
        let (data, home, initial) = match tensor.storage {
            Storage::None => (Data::None, None, None),
            Storage::Constant(bytes) => constant(file.part(bytes)),
            Storage::External(key) => constant(external(key)),
            Storage::Planned(region) => (Data::Memory(place(region)), Some(place(region)), None),
            Storage::Mutable(region, bytes) => {
                (Data::Memory(place(region)), Some(place(region)), file.part(bytes))
            }
            Storage::MutableExternal(region, key) => {
                (Data::Memory(place(region)), Some(place(region)), external(key))
            }
        };
        if let (Some(place), Some(initial)) = (home, initial) {
            self.memory(place, initial.get().len())?.copy_from_slice(initial.get());
        }
        Ok(TensorSlot {
            scalar_type: layout.scalar_type(),
            sizes: layout.sizes().collect(),
            order: (!layout.is_contiguous()).then(|| layout.dim_order().to_vec()),
            dynamic: tensor.dynamic,
            capacity: layout.numel(),
            data,
            home,
            starts_as_zeros: tensor.name.is_some(),
        })
    }

    /// A value.
    pub(crate) fn slot(&self, id: usize) -> &Slot {
        self.slots.get(id).unwrap_or(&Slot::Null)
    }

    /// Replaces a value that is no tensor.
    pub(crate) fn set(&mut self, id: usize, slot: Slot) {
        if let Some(place) = self.slots.get_mut(id) {
            *place = slot;
        }
    }

    /// The tensor `id`, argument `at` of a call.
    pub(crate) fn tensor(&self, at: usize, id: usize) -> Fault<&TensorSlot> {
        match self.slot(id) {
            Slot::Tensor(tensor) => Ok(tensor),
            other => Err(argument(at, "Tensor", other)),
        }
    }

    fn tensor_mut(&mut self, at: usize, id: usize) -> Fault<&mut TensorSlot> {
        match self.slots.get_mut(id) {
            Some(Slot::Tensor(tensor)) => Ok(tensor),
            Some(other) => Err(argument(at, "Tensor", other)),
            None => Err(argument(at, "Tensor", &Slot::Null)),
        }
    }

    /// The elements of a tensor, row-major.
    pub(crate) fn elements(&self, at: usize, id: usize) -> Fault<Cow<'_, [u8]>> {
        let tensor = self.tensor(at, id)?;
        let needed = nbytes(tensor.scalar_type, &tensor.sizes).ok_or(KernelFault::Overflow)?;
        let bytes = match &tensor.data {
            _ if needed == 0 => &[],
            Data::None => return Err(KernelFault::NoData { value: id }),
            Data::Constant(bytes) => bytes.get().get(..needed).ok_or(KernelFault::NoData { value: id })?,
            Data::Memory(place) => {
                let buffer = self.buffers.get(place.buffer).map_or(&[][..], Vec::as_slice);
                match place.offset.checked_add(needed).and_then(|end| buffer.get(place.offset..end)) {
                    Some(bytes) => bytes,
                    None if tensor.starts_as_zeros => return Ok(Cow::Owned(zeros(needed)?)),
                    None => return Err(KernelFault::NoData { value: id }),
                }
            }
        };
        Ok(match &tensor.order {
            Some(order) => {
                Cow::Owned(order::to_row_major(bytes, &tensor.sizes, order, tensor.scalar_type.size()))
            }
            None => Cow::Borrowed(bytes),
        })
    }

    /// Gives a tensor new sizes.
    pub(crate) fn resize(&mut self, at: usize, id: usize, sizes: &[usize]) -> Fault<()> {
        let tensor = self.tensor_mut(at, id)?;
        if tensor.sizes == sizes {
            return Ok(());
        }
        if !tensor.dynamic || tensor.sizes.len() != sizes.len() {
            let (expected, found) = (format!("{:?}", tensor.sizes), format!("{sizes:?}"));
            let what = if tensor.dynamic { "rank of a tensor" } else { "sizes of a tensor that is static" };
            return Err(KernelFault::Shape { what, expected, found });
        }
        // Strides count an empty dimension as one, so that product may not overflow either.
        let extent = sizes.iter().try_fold(1_usize, |n, &size| n.checked_mul(size.max(1)));
        if extent.is_none() || sizes.iter().product::<usize>() > tensor.capacity {
            return Err(KernelFault::Capacity {
                value: id,
                capacity: tensor.capacity,
                found: sizes.to_vec(),
            });
        }
        tensor.sizes.clear();
        tensor.sizes.extend_from_slice(sizes);
        Ok(())
    }

    /// Gives a tensor new sizes and row-major elements.
    pub(crate) fn write(&mut self, at: usize, id: usize, sizes: &[usize], elements: &[u8]) -> Fault<()> {
        self.write_with(at, id, sizes, |out| {
            out.copy_from_slice(elements);
            Ok(())
        })
    }

    /// Gives a tensor new sizes, and lets `fill` write its row-major elements.
    pub(crate) fn write_with<E: From<KernelFault>>(
        &mut self,
        at: usize,
        id: usize,
        sizes: &[usize],
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.resize(at, id, sizes)?;
        let place = self.place(at, id)?;
        let tensor = self.tensor(at, id)?;
        let bytes = nbytes(tensor.scalar_type, sizes).ok_or(KernelFault::Overflow)?;
        let (order, element) = (tensor.order.clone(), tensor.scalar_type.size());
        match order {
            Some(order) => {
                // What is not filled keeps its elements, if there are any yet.
                let mut row_major = match self.elements(at, id) {
                    Ok(elements) => elements.into_owned(),
                    Err(_) => zeros(bytes)?,
                };
                fill(&mut row_major)?;
                order::from_row_major(&row_major, sizes, &order, element, self.memory(place, bytes)?);
                Ok(())
            }
            None => fill(self.memory(place, bytes)?),
        }
    }

    /// Where a tensor's elements are to be written.
    fn place(&mut self, at: usize, id: usize) -> Fault<Place> {
        let fresh = Place { buffer: self.buffers.len(), offset: 0 };
        let tensor = self.tensor_mut(at, id)?;
        let place = match &tensor.data {
            Data::Memory(place) => *place,
            Data::Constant(_) => return Err(argument_text(at, "a tensor that can be written", "a constant")),
            Data::None => tensor.home.unwrap_or(fresh),
        };
        tensor.data = Data::Memory(place);
        tensor.home.get_or_insert(place);
        if place == fresh {
            self.buffers.push(Vec::new());
        }
        Ok(place)
    }

    fn memory(&mut self, place: Place, bytes: usize) -> Fault<&mut [u8]> {
        let out_of_memory = KernelFault::OutOfMemory { bytes };
        let Some(buffer) = self.buffers.get_mut(place.buffer) else { return Err(out_of_memory) };
        let end = place.offset.checked_add(bytes).ok_or(out_of_memory.clone())?;
        if buffer.len() < end {
            buffer.try_reserve_exact(end - buffer.len()).map_err(|_| out_of_memory.clone())?;
            buffer.resize(end, 0);
        }
        buffer.get_mut(place.offset..end).ok_or(out_of_memory)
    }

    /// Makes `to` a copy of `from`; tensors share their data.
    pub(crate) fn copy_value(&mut self, from: usize, to: usize) {
        let mut copy = self.slot(from).clone();
        if let (Slot::Tensor(copy), Slot::Tensor(old)) = (&mut copy, self.slot(to)) {
            copy.home = old.home;
        }
        self.set(to, copy);
    }

    /// Forgets where a tensor's data is.
    pub(crate) fn free(&mut self, id: usize) -> Fault<()> {
        self.tensor_mut(0, id)?.data = Data::None;
        Ok(())
    }

    /// Makes `to` another reading of the elements of `from`, with these sizes.
    pub(crate) fn alias(&mut self, from: usize, to: usize, sizes: &[usize]) -> Fault<()> {
        self.resize(2, to, sizes)?;
        let (source, target) = (self.tensor(0, from)?, self.tensor(2, to)?);
        if source.order.is_some() || target.order.is_some() {
            return Err(argument_text(0, "a row-major tensor", "another memory order"));
        }
        if source.scalar_type != target.scalar_type {
            return Err(argument_text(2, source.scalar_type.name(), target.scalar_type.name()));
        }
        let data = source.data.clone();
        self.tensor_mut(2, to)?.data = data;
        Ok(())
    }

    /// A value as callers get it.
    pub(crate) fn get(&self, id: usize) -> Fault<Value> {
        Ok(match self.slot(id) {
            Slot::Null => Value::None,
            Slot::Int(value) => Value::Int(*value),
            Slot::Bool(value) => Value::Bool(*value),
            Slot::Double(value) => Value::Double(*value),
            Slot::String(text) => Value::String(text.clone()),
            Slot::Tensor(_) => Value::Tensor(self.owned(id)?),
            Slot::IntList(ids) => {
                Value::IntList(ids.iter().map(|&id| self.int(0, id)).collect::<Fault<_>>()?)
            }
            Slot::DoubleList(items) => Value::DoubleList(items.clone()),
            Slot::BoolList(items) => Value::BoolList(items.clone()),
            Slot::TensorList(ids) => {
                let item = |id: &Option<usize>| match id {
                    Some(id) if matches!(self.slot(*id), Slot::Tensor(_)) => self.owned(*id).map(Some),
                    _ => Ok(None),
                };
                Value::TensorList(ids.iter().map(item).collect::<Fault<_>>()?)
            }
        })
    }

    fn owned(&self, id: usize) -> Fault<Tensor> {
        let tensor = self.tensor(0, id)?;
        let data = self.elements(0, id)?.into_owned();
        Tensor::new(tensor.scalar_type, &tensor.sizes, data).map_err(|_| KernelFault::NoData { value: id })
    }

    /// The integer `id`, argument `at` of a call.
    pub(crate) fn int(&self, at: usize, id: usize) -> Fault<i64> {
        match self.slot(id) {
            Slot::Int(value) => Ok(*value),
            other => Err(argument(at, "Int", other)),
        }
    }
}

pub(crate) fn argument(at: usize, expected: &'static str, found: &Slot) -> KernelFault {
    argument_text(at, expected, found.kind())
}

pub(crate) fn argument_text(at: usize, expected: &'static str, found: &str) -> KernelFault {
    KernelFault::Argument { at, expected, found: found.to_owned() }
}

fn zeros(bytes: usize) -> Fault<Vec<u8>> {
    let mut zeros = Vec::new();
    zeros.try_reserve_exact(bytes).map_err(|_| KernelFault::OutOfMemory { bytes })?;
    zeros.resize(bytes, 0);
    Ok(zeros)
}

#[cfg(test)]
impl Frame {
    /// A frame of these values, for tests of what uses frames.
    pub(crate) fn of(slots: Vec<Slot>) -> Self {
        Self { slots, buffers: Vec::new() }
    }
}

#[cfg(test)]
impl Slot {
    /// A tensor without data whose sizes may change within its elements.
    pub(crate) fn tensor(scalar_type: ScalarType, sizes: &[usize]) -> Self {
        Self::Tensor(TensorSlot {
            scalar_type,
            sizes: sizes.to_vec(),
            order: None,
            dynamic: true,
            capacity: sizes.iter().product(),
            data: Data::None,
            home: None,
            starts_as_zeros: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(change: impl FnOnce(&mut TensorSlot)) -> Frame {
        let mut slot = Slot::tensor(ScalarType::UInt8, &[1, 2, 1, 3]);
        if let Slot::Tensor(tensor) = &mut slot {
            change(tensor);
        }
        Frame::of(vec![slot, Slot::Int(4), Slot::tensor(ScalarType::UInt8, &[6])])
    }

    #[test]
    fn memory_order_is_kept_inside() {
        let mut frame = with(|tensor| tensor.order = Some(vec![0, 2, 3, 1]));
        frame.write(0, 0, &[1, 2, 1, 3], &[0, 1, 2, 10, 11, 12]).unwrap();
        assert_eq!(frame.buffers, [[0, 10, 1, 11, 2, 12]]);
        assert_eq!(*frame.elements(0, 0).unwrap(), [0, 1, 2, 10, 11, 12]);
        assert!(matches!(frame.alias(0, 2, &[6]), Err(KernelFault::Argument { at: 0, .. })));
    }

    #[test]
    fn sizes_change_within_the_capacity() {
        let mut frame = with(|_| {});
        assert_eq!(frame.resize(0, 0, &[1, 1, 2, 3]), Ok(()));
        let too_many = frame.resize(0, 0, &[1, 7, 1, 1]);
        assert_eq!(too_many, Err(KernelFault::Capacity { value: 0, capacity: 6, found: vec![1, 7, 1, 1] }));
        assert!(matches!(frame.resize(0, 0, &[6]), Err(KernelFault::Shape { .. })));
        assert!(frame.resize(0, 0, &[usize::MAX, 0, usize::MAX, 2]).is_err());
        let mut frame = with(|tensor| tensor.dynamic = false);
        assert!(matches!(frame.resize(0, 0, &[1, 1, 1, 3]), Err(KernelFault::Shape { .. })));
    }

    #[test]
    fn what_nothing_wrote_cannot_be_read() {
        let mut frame = with(|_| {});
        assert_eq!(frame.elements(0, 0), Err(KernelFault::NoData { value: 0 }));
        assert!(matches!(frame.elements(3, 1), Err(KernelFault::Argument { at: 3, .. })));
        frame.write(0, 0, &[1, 2, 1, 3], &[1; 6]).unwrap();
        frame.free(0).unwrap();
        assert_eq!(frame.elements(0, 0), Err(KernelFault::NoData { value: 0 }));
        frame.write(0, 0, &[1, 2, 1, 3], &[2; 6]).unwrap();
        assert_eq!((frame.buffers.len(), frame.elements(0, 0).unwrap().len()), (1, 6));
    }

    #[test]
    fn a_named_buffer_starts_as_zeros() {
        let frame = with(|tensor| {
            tensor.data = Data::Memory(Place { buffer: 0, offset: 0 });
            tensor.starts_as_zeros = true;
        });
        assert_eq!(*frame.elements(0, 0).unwrap(), [0; 6]);
    }

    #[test]
    fn an_alias_reads_the_same_memory() {
        let mut frame = with(|_| {});
        frame.write(0, 0, &[1, 2, 1, 3], &[1, 2, 3, 4, 5, 6]).unwrap();
        frame.alias(0, 2, &[6]).unwrap();
        frame.write(0, 0, &[1, 2, 1, 3], &[6, 5, 4, 3, 2, 1]).unwrap();
        assert_eq!(*frame.elements(0, 2).unwrap(), [6, 5, 4, 3, 2, 1]);
    }
}
