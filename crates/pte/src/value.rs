//! Values of a method.

use flatbuffers::{ForwardsUOffset, Vector};

use crate::error::ValueFault;
use crate::generated::program as fb;
use crate::layout::Layout;
use crate::list::{List, OptionalValueIds, ValueIds};
use crate::program::Data;

/// One entry of a method's value table.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Value<'a> {
    /// None.
    Null,
    /// An integer, possibly written by instructions.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// A floating-point number.
    Double(f64),
    /// A string.
    String(&'a str),
    /// A tensor.
    Tensor(Tensor<'a>),
    /// Integers, each held by an [`Int`](Self::Int) value, so that it may change at run time.
    IntList(ValueIds<'a, i64>),
    /// Floating-point numbers.
    DoubleList(List<'a, f64>),
    /// Truth values.
    BoolList(List<'a, bool>),
    /// Tensors, each held by a [`Tensor`](Self::Tensor) value.
    TensorList(ValueIds<'a>),
    /// Tensors or nothing: an item is absent, or names a [`Tensor`](Self::Tensor) or a [`Null`](Self::Null).
    OptionalTensorList(OptionalValueIds<'a>),
}

/// A tensor: its upper-bound layout and where its data is.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    /// Element type, sizes (the upper bounds if dynamic) and dimension order.
    pub layout: Layout<'a>,
    /// True if the sizes may shrink at run time; its capacity is the layout's number of elements.
    pub dynamic: bool,
    /// Where the data is.
    pub storage: Storage<'a>,
    /// Name in the source model, for constants, mutable buffers and external data.
    pub name: Option<&'a str>,
}

/// Where a tensor's data is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Storage<'a> {
    /// Nowhere yet: set with an input, or by an instruction.
    None,
    /// Constant, exactly the bytes of the tensor.
    Constant(&'a [u8]),
    /// Constant in external data under this key.
    External(&'a str),
    /// Planned memory without initial contents.
    Planned(Region),
    /// Planned memory that starts with these bytes, exactly those of the tensor.
    Mutable(Region, &'a [u8]),
    /// Planned memory that starts with the external data of this key.
    MutableExternal(Region, &'a str),
}

/// Bytes by their number.
impl std::fmt::Debug for Storage<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Constant(bytes) => write!(f, "Constant({} bytes)", bytes.len()),
            Self::External(key) => write!(f, "External({key:?})"),
            Self::Planned(region) => write!(f, "Planned({region:?})"),
            Self::Mutable(region, bytes) => write!(f, "Mutable({region:?}, {} bytes)", bytes.len()),
            Self::MutableExternal(region, key) => write!(f, "MutableExternal({region:?}, {key:?})"),
        }
    }
}

/// A range of planned memory, known to lie inside its buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// Index into [`Method::planned_buffers`](crate::Method::planned_buffers).
    pub buffer: usize,
    /// Offset in bytes.
    pub offset: u64,
}

type Values<'a> = Vector<'a, ForwardsUOffset<fb::EValue<'a>>>;

impl<'a> Value<'a> {
    /// Name of the kind, as errors print it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
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
            Self::OptionalTensorList(_) => "OptionalTensorList",
        }
    }

    /// The tensor, if it is one.
    #[must_use]
    pub fn as_tensor(&self) -> Option<&Tensor<'a>> {
        match self {
            Self::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    fn parse(
        value: fb::EValue<'a>,
        count: usize,
        data: &Data<'a>,
        buffers: List<'a, i64>,
    ) -> Result<Self, ValueFault> {
        use fb::KernelTypes as K;
        let kind = value.val_type();
        // The verifier lets no kind but NONE pass without a body.
        let parsed = match kind {
            K::NONE => return Err(ValueFault::NoKind),
            K::Null => value.val_as_null().map(|_| Ok(Self::Null)),
            K::Int => value.val_as_int().map(|v| Ok(Self::Int(v.int_val()))),
            K::Bool => value.val_as_bool().map(|v| Ok(Self::Bool(v.bool_val()))),
            K::Double => value.val_as_double().map(|v| Ok(Self::Double(v.double_val()))),
            K::String => {
                value.val_as_string().map(|v| v.string_val().map(Self::String).ok_or(ValueFault::NoString))
            }
            K::Tensor => value.val_as_tensor().map(|v| Tensor::parse(v, data, buffers).map(Self::Tensor)),
            K::IntList => {
                value.val_as_int_list().map(|v| in_range(List::new(v.items()), count).map(Self::IntList))
            }
            K::DoubleList => value.val_as_double_list().map(|v| Ok(Self::DoubleList(List::new(v.items())))),
            K::BoolList => value.val_as_bool_list().map(|v| Ok(Self::BoolList(List::new(v.items())))),
            K::TensorList => value
                .val_as_tensor_list()
                .map(|v| in_range(List::new(v.items()), count).map(Self::TensorList)),
            K::OptionalTensorList => {
                value.val_as_optional_tensor_list().map(|v| optional(List::new(v.items()), count))
            }
            K(found) => return Err(ValueFault::UnknownKind { found }),
        };
        parsed.unwrap_or(Err(ValueFault::NoKind))
    }

    /// Checks that list items are values of the kind the list is for.
    fn check_items(&self, values: &[Self]) -> Result<(), ValueFault> {
        let check = |at: usize, index: usize, expected: &'static str, or_null: bool| {
            let found = values.get(index).map_or("nothing", Value::kind);
            if found == expected || (or_null && found == "Null") {
                return Ok(());
            }
            Err(ValueFault::ItemKind { at, index, expected, found })
        };
        match self {
            Self::IntList(ids) => {
                ids.iter().enumerate().try_for_each(|(at, id)| check(at, id.index(), "Int", false))
            }
            Self::TensorList(ids) => {
                ids.iter().enumerate().try_for_each(|(at, id)| check(at, id.index(), "Tensor", false))
            }
            Self::OptionalTensorList(ids) => ids
                .iter()
                .enumerate()
                .filter_map(|(at, id)| Some((at, id?)))
                .try_for_each(|(at, id)| check(at, id.index(), "Tensor", true)),
            _ => Ok(()),
        }
    }
}

/// Parses the value table; an error comes with the index of its value.
pub(crate) fn parse<'a>(
    values: Values<'a>,
    data: &Data<'a>,
    buffers: List<'a, i64>,
) -> Result<Vec<Value<'a>>, (usize, ValueFault)> {
    let count = values.len();
    let parsed: Vec<_> = values
        .iter()
        .enumerate()
        .map(|(at, value)| Value::parse(value, count, data, buffers).map_err(|fault| (at, fault)))
        .collect::<Result<_, _>>()?;
    for (at, value) in parsed.iter().enumerate() {
        value.check_items(&parsed).map_err(|fault| (at, fault))?;
    }
    Ok(parsed)
}

fn in_range<'a, T>(list: List<'a, T>, count: usize) -> Result<ValueIds<'a, T>, ValueFault>
where
    T: crate::list::Element + Into<i64>,
{
    ValueIds::checked(list, count).map_err(|(at, index)| ValueFault::Item { at, index, count })
}

fn optional<'a>(list: List<'a, i32>, count: usize) -> Result<Value<'a>, ValueFault> {
    for (at, raw) in list.iter().enumerate() {
        if raw != -1 && usize::try_from(raw).map_or(true, |index| index >= count) {
            return Err(ValueFault::Item { at, index: raw.into(), count });
        }
    }
    Ok(Value::OptionalTensorList(OptionalValueIds::known(list)))
}

impl<'a> Tensor<'a> {
    fn parse(tensor: fb::Tensor<'a>, data: &Data<'a>, buffers: List<'a, i64>) -> Result<Self, ValueFault> {
        if tensor.storage_offset() != 0 {
            return Err(ValueFault::StorageOffset { found: tensor.storage_offset() });
        }
        let layout = Layout::checked(tensor.scalar_type().0, tensor.sizes(), tensor.dim_order())?;
        let dynamic = match tensor.shape_dynamism() {
            fb::TensorShapeDynamism::Static => false,
            fb::TensorShapeDynamism::DynamicBound => true,
            fb::TensorShapeDynamism(found) => return Err(ValueFault::Dynamism { found }),
        };
        let extra = tensor.extra_tensor_info();
        if let Some(extra) = extra
            && extra.device_type() != fb::DeviceType::Cpu
        {
            return Err(ValueFault::Device { found: extra.device_type().0 });
        }
        let name = extra.and_then(|extra| extra.fully_qualified_name());
        let nbytes = layout.nbytes();
        let region = tensor
            .allocation_info()
            .map(|allocation| Region::parse(allocation, nbytes, buffers))
            .transpose()?;
        let location = extra.map_or(fb::TensorDataLocation::Segment, |extra| extra.location());
        let storage = match (location, tensor.data_buffer_idx(), region) {
            (fb::TensorDataLocation::External, _, region) => {
                let key = name.ok_or(ValueFault::NoExternalName)?;
                region.map_or(Storage::External(key), |region| Storage::MutableExternal(region, key))
            }
            (fb::TensorDataLocation::Segment, 0, None) => Storage::None,
            (fb::TensorDataLocation::Segment, 0, Some(region)) => Storage::Planned(region),
            (fb::TensorDataLocation::Segment, index, None) => {
                Storage::Constant(data.constants.get(index, nbytes)?)
            }
            (fb::TensorDataLocation::Segment, index, Some(region)) => {
                Storage::Mutable(region, data.initial.get(index, nbytes)?)
            }
            (fb::TensorDataLocation(found), ..) => return Err(ValueFault::Location { found }),
        };
        Ok(Self { layout, dynamic, storage, name })
    }
}

impl Region {
    fn parse(
        allocation: fb::AllocationDetails<'_>,
        needed: usize,
        buffers: List<'_, i64>,
    ) -> Result<Self, ValueFault> {
        let id = allocation.memory_id();
        let offset =
            u64::from(allocation.memory_offset_low()) | u64::from(allocation.memory_offset_high()) << 32;
        // Entry 0 of the size list stands for no buffer; sizes were checked not to be negative.
        let available = match id {
            0 => None,
            _ => buffers.get(id as usize).map(i64::unsigned_abs),
        };
        let available =
            available.ok_or(ValueFault::MemoryId { id, last: buffers.len().saturating_sub(1) })?;
        if offset.checked_add(needed as u64).is_none_or(|end| end > available) {
            return Err(ValueFault::MemoryRange { id, offset, needed, available });
        }
        Ok(Self { buffer: (id - 1) as usize, offset })
    }
}
