//! A `.pte` file.

use flatbuffers::{ForwardsUOffset, Vector};

use crate::container::{self, ExtendedHeader};
use crate::error::{DelegateFault, ValueFault};
use crate::generated::{program as fb, verified_root};
use crate::list::List;
use crate::method::Method;
use crate::named_data::NamedData;
use crate::segments::Segments;
use crate::{Error, Result};

/// A program: methods, their constants and payloads, and named blobs. Borrows from the file it was parsed from.
#[derive(Clone)]
pub struct Program<'a> {
    header: Option<ExtendedHeader>,
    methods: Vec<(&'a str, fb::ExecutionPlan<'a>)>,
    data: Data<'a>,
    named_data: NamedData<'a>,
}

/// What methods refer to outside themselves.
#[derive(Clone)]
pub(crate) struct Data<'a> {
    pub(crate) segments: Segments<'a>,
    pub(crate) constants: Store<'a>,
    /// Initial bytes of mutable buffers.
    pub(crate) initial: Store<'a>,
    inline: Option<Vector<'a, ForwardsUOffset<fb::BackendDelegateInlineData<'a>>>>,
}

/// Where the bytes of tensors are.
#[derive(Clone, Copy)]
pub(crate) enum Store<'a> {
    None(&'static str),
    /// At offsets of one segment; the first entry stands for no data.
    Segment {
        name: &'static str,
        bytes: &'a [u8],
        offsets: List<'a, u64>,
    },
    /// Inside the FlatBuffer, as releases before 0.4 did.
    Inline(Vector<'a, ForwardsUOffset<fb::Buffer<'a>>>),
}

impl<'a> Program<'a> {
    /// Parses a whole `.pte` file, of any alignment in memory.
    ///
    /// Checks the header, the FlatBuffer and everything shared by methods; [`method`](Self::method) checks a method.
    ///
    /// # Errors
    /// An [`Error`] that names what is wrong with the file.
    pub fn parse(file: &'a [u8]) -> Result<Self> {
        let header = ExtendedHeader::of_program(file)?;
        let end = header.map_or(file.len() as u64, |header| header.flatbuffer_end);
        let buffer = container::flatbuffer(file, end)?;
        let root = verified_root::<fb::Program<'a>>(buffer)
            .map_err(|source| Error::FlatBuffer { kind: "program", source })?;
        let table = root.segments().into_iter().flatten().map(|s| (s.offset(), s.size_()));
        let segments = Segments::resolve(file, header.map_or(0, |header| header.segment_base), table)?;
        let named_data = named_data(root, &segments)?;
        let constants = constants(root, &segments)?;
        let initial = initial(root, &segments)?;
        let inline = root.backend_delegate_data();
        let methods = methods(root)?;
        Ok(Self { header, methods, data: Data { segments, constants, initial, inline }, named_data })
    }

    /// The extended header; `None` for a program without segments.
    #[must_use]
    pub fn header(&self) -> Option<ExtendedHeader> {
        self.header
    }

    /// Names of the methods in file order.
    pub fn method_names(&self) -> impl ExactSizeIterator<Item = &'a str> {
        self.methods.iter().map(|(name, _)| *name)
    }

    /// Every method in file order, each checked as in [`method`](Self::method).
    pub fn methods(&self) -> impl ExactSizeIterator<Item = Result<Method<'a>>> {
        self.methods.iter().map(|(name, plan)| self.check(name, *plan))
    }

    /// The method named `name`, with everything in it checked.
    ///
    /// # Errors
    /// [`Error::NoMethod`] without such a method, [`Error::Method`] if something in it is wrong.
    pub fn method(&self, name: &str) -> Result<Method<'a>> {
        let Some((name, plan)) = self.methods.iter().find(|(known, _)| *known == name) else {
            let known = self.method_names().map(str::to_owned).collect();
            return Err(Error::NoMethod { name: name.to_owned(), known });
        };
        self.check(name, *plan)
    }

    fn check(&self, name: &str, plan: fb::ExecutionPlan<'a>) -> Result<Method<'a>> {
        Method::parse(plan, &self.data).map_err(|fault| Error::Method { method: name.to_owned(), fault })
    }

    /// Blobs that delegates look up by name.
    #[must_use]
    pub fn named_data(&self) -> &NamedData<'a> {
        &self.named_data
    }
}

impl std::fmt::Debug for Program<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Program({:?}, {:?})", self.header, self.method_names().collect::<Vec<_>>())
    }
}

fn methods<'a>(root: fb::Program<'a>) -> Result<Vec<(&'a str, fb::ExecutionPlan<'a>)>> {
    let plans = root.execution_plan().ok_or(Error::Missing { field: "Program.execution_plan" })?;
    let mut known = NamedData::<()>::default();
    plans
        .iter()
        .map(|plan| {
            let name = plan.name().ok_or(Error::Missing { field: "ExecutionPlan.name" })?;
            known.insert(name, ()).map_err(|_| Error::DuplicateMethod { name: name.to_owned() })?;
            Ok((name, plan))
        })
        .collect()
}

fn named_data<'a>(root: fb::Program<'a>, segments: &Segments<'a>) -> Result<NamedData<'a>> {
    let mut named = NamedData::default();
    let Some(entries) = root.named_data() else { return Ok(named) };
    if root.segments().is_none() {
        return Err(Error::NamedDataWithoutSegments { count: entries.len() });
    }
    for entry in entries {
        let key = entry.key().ok_or(Error::Missing { field: "NamedData.key" })?;
        named.insert(key, segments.of("named data", entry.segment_index())?)?;
    }
    Ok(named)
}

fn constants<'a>(root: fb::Program<'a>, segments: &Segments<'a>) -> Result<Store<'a>> {
    let inline = root.constant_buffer().filter(|buffers| !buffers.is_empty());
    let segment =
        root.constant_segment().and_then(|s| Some((s.segment_index(), List::new(Some(s.offsets()?)))));
    match (segment, inline) {
        // The first offset stands for no data.
        (Some((_, offsets)), Some(buffers)) if offsets.len() > 1 => {
            Err(Error::TwoConstantStores { buffers: buffers.len(), offsets: offsets.len() })
        }
        (Some((index, offsets)), _) if offsets.len() > 1 => {
            let bytes = segments.of("the constant segment", index)?;
            Ok(Store::Segment { name: "the constant segment", bytes, offsets })
        }
        (_, Some(buffers)) => Ok(Store::Inline(buffers)),
        (_, None) => Ok(Store::None("the constant segment")),
    }
}

fn initial<'a>(root: fb::Program<'a>, segments: &Segments<'a>) -> Result<Store<'a>> {
    let name = "the mutable data segment";
    // A runtime uses the first entry, whatever tensors say.
    let Some(entry) = root.mutable_data_segments().and_then(|entries| entries.iter().next()) else {
        return Ok(Store::None(name));
    };
    let bytes = segments.of(name, entry.segment_index())?;
    Ok(Store::Segment { name, bytes, offsets: List::new(entry.offsets()) })
}

impl<'a> Store<'a> {
    /// The `needed` bytes of entry `index`.
    pub(crate) fn get(&self, index: u32, needed: usize) -> Result<&'a [u8], ValueFault> {
        let (store, bytes, offset) = match *self {
            Store::None(store) => return Err(ValueFault::Constant { store, index, count: 0 }),
            Store::Segment { name, bytes, offsets } => {
                let count = offsets.len();
                let absent = ValueFault::Constant { store: name, index, count };
                (name, bytes, offsets.get(index as usize).ok_or(absent)?)
            }
            Store::Inline(buffers) => {
                let (store, count) = ("the inline constants", buffers.len());
                let buffer = ((index as usize) < count).then(|| buffers.get(index as usize));
                let buffer = buffer.ok_or(ValueFault::Constant { store, index, count })?;
                (store, buffer.storage().map_or(&[][..], |storage| storage.bytes()), 0)
            }
        };
        let range = usize::try_from(offset).ok().and_then(|start| Some(start..start.checked_add(needed)?));
        range.and_then(|range| bytes.get(range)).ok_or(ValueFault::ConstantRange {
            store,
            offset,
            needed,
            available: bytes.len(),
        })
    }
}

impl<'a> Data<'a> {
    pub(crate) fn inline_payload(&self, index: u32) -> Result<&'a [u8], DelegateFault> {
        let count = self.inline.map_or(0, |list| list.len());
        let entry = self.inline.filter(|_| (index as usize) < count).map(|list| list.get(index as usize));
        let entry = entry.ok_or(DelegateFault::InlineData { index, count })?;
        Ok(entry.data().map_or(&[][..], |data| data.bytes()))
    }
}
