//! Borrowed lists of little-endian scalars and of checked value indices.

use std::marker::PhantomData;

/// A scalar that a [`List`] can hold.
pub trait Element: Copy + private::Sealed {
    /// Bytes of one element.
    const SIZE: usize;
    /// Decodes one element from `SIZE` little-endian bytes.
    fn decode(bytes: &[u8]) -> Self;
}

mod private {
    pub trait Sealed {}
}

macro_rules! element {
    ($($t:ty),*) => {$(
        impl private::Sealed for $t {}
        impl Element for $t {
            const SIZE: usize = size_of::<$t>();
            fn decode(bytes: &[u8]) -> Self {
                bytes.try_into().map_or(Self::default(), Self::from_le_bytes)
            }
        }
    )*};
}
element!(i32, i64, u64, f64);

impl private::Sealed for bool {}
impl Element for bool {
    const SIZE: usize = 1;
    fn decode(bytes: &[u8]) -> Self {
        bytes.first().is_some_and(|&b| b != 0)
    }
}

/// A list of scalars inside the file, read in place whatever its alignment.
pub struct List<'a, T> {
    bytes: &'a [u8],
    element: PhantomData<T>,
}

impl<T> Clone for List<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for List<'_, T> {}

impl<T> Default for List<'_, T> {
    fn default() -> Self {
        Self { bytes: &[], element: PhantomData }
    }
}

impl<'a, T: Element> List<'a, T> {
    /// An absent vector is an empty list.
    pub(crate) fn new(vector: Option<flatbuffers::Vector<'a, T>>) -> Self {
        Self { bytes: vector.map_or(&[], |v| v.bytes()), element: PhantomData }
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() / T::SIZE
    }

    /// True without elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Element `index`, or `None` beyond the end.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<T> {
        let start = index.checked_mul(T::SIZE)?;
        self.bytes.get(start..start.checked_add(T::SIZE)?).map(T::decode)
    }

    /// The elements in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = T> + DoubleEndedIterator + Clone + use<'a, T> {
        self.bytes.chunks_exact(T::SIZE).map(T::decode)
    }
}

impl<T: Element + std::fmt::Debug> std::fmt::Debug for List<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Index of a value in its method; always in range for the method it came from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ValueId(u32);

impl ValueId {
    /// `raw` as an index below `count`.
    pub(crate) fn checked(raw: i64, count: usize) -> Option<Self> {
        let id = u32::try_from(raw).ok()?;
        (usize::try_from(id).ok()? < count).then_some(Self(id))
    }

    /// Position in [`Method::values`](crate::Method::values).
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl std::fmt::Display for ValueId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A list of value indices, each in range. `T` is the width in the file: `i32`, or `i64` for `IntList`.
pub struct ValueIds<'a, T = i32>(List<'a, T>);

impl<T> Clone for ValueIds<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ValueIds<'_, T> {}

impl<T: Element + Into<i64>> std::fmt::Debug for ValueIds<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter().map(ValueId::index)).finish()
    }
}

impl<'a, T: Element + Into<i64>> ValueIds<'a, T> {
    /// `list` with every item below `count`, or the position and value of the first that is not.
    pub(crate) fn checked(list: List<'a, T>, count: usize) -> Result<Self, (usize, i64)> {
        for (at, raw) in list.iter().enumerate() {
            let raw: i64 = raw.into();
            ValueId::checked(raw, count).ok_or((at, raw))?;
        }
        Ok(Self(list))
    }

    /// Number of ids.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True without ids.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Id `index`, or `None` beyond the end.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<ValueId> {
        self.0.get(index).map(known)
    }

    /// The ids in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = ValueId> + DoubleEndedIterator + Clone + use<'a, T> {
        self.0.iter().map(known)
    }
}

/// A list of optional value indices: those present are in range and name a tensor.
#[derive(Clone, Copy)]
pub struct OptionalValueIds<'a> {
    raw: List<'a, i32>,
}

impl<'a> OptionalValueIds<'a> {
    /// `raw` must hold -1 or indices in range.
    pub(crate) fn known(raw: List<'a, i32>) -> Self {
        Self { raw }
    }

    /// Number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.raw.len()
    }

    /// True without items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// The items in order. An item may also be absent by naming a [`Value::Null`](crate::Value::Null).
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<ValueId>> + use<'a> {
        self.raw.iter().map(|raw| u32::try_from(raw).ok().map(ValueId))
    }
}

impl std::fmt::Debug for OptionalValueIds<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// An index that was checked when its list was made.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be below a u32 count"
)]
fn known<T: Into<i64>>(raw: T) -> ValueId {
    ValueId(raw.into() as u32)
}
