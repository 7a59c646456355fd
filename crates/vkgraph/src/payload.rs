//! A parsed payload and the bytes of its constants.

use std::borrow::Cow;

use crate::{
    ConstantFault, ConstantId, ConstantSource, DType, Error, Graph, NamedData, TensorInfo, header, read,
};

/// A parsed delegate payload: the checked graph, and the constant region it borrows.
#[derive(Clone, Debug)]
pub struct Payload<'a> {
    graph: Graph,
    region: &'a [u8],
}

impl<'a> Payload<'a> {
    /// Parses and checks the bytes of a delegate, from the header on. Trailing bytes are ignored.
    ///
    /// Accepts payloads of ExecuTorch 0.3 and later.
    ///
    /// # Errors
    /// The first fault found; what a [`Graph`] promises has been checked when there is none. Named data is
    /// looked at only by [`Payload::constant`] and [`Payload::tensor_constant`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let regions = header::split(bytes)?;
        if header::is_older_than_0_3(regions.flatbuffer) {
            return Err(Error::OlderThan03);
        }
        let graph = read::graph(regions.flatbuffer, regions.constants.len() as u64)?;
        Ok(Self { graph, region: regions.constants })
    }

    /// The graph.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The graph, without the payload.
    #[must_use]
    pub fn into_graph(self) -> Graph {
        self.graph
    }

    /// The bytes of a constant, exactly as long as the payload says.
    ///
    /// # Errors
    /// [`Error::Constant`] where the id is not of this graph, or the bytes are named and `named` is absent, lacks
    /// the key, or holds fewer bytes.
    pub fn constant<'s>(&self, id: ConstantId, named: Option<&'s dyn NamedData>) -> Result<&'s [u8], Error>
    where
        'a: 's,
    {
        let fail = |fault| Err(Error::Constant { id, fault });
        let Some(constant) = self.graph.constants.get(id.index()) else {
            return fail(ConstantFault::Id { constants: self.graph.constants.len() });
        };
        let length = constant.length;
        match &constant.source {
            ConstantSource::Inline { offset } => match header::range(self.region, *offset, length) {
                Some(bytes) => Ok(bytes),
                None => {
                    let region = self.region.len() as u64;
                    fail(ConstantFault::Range { offset: *offset, length, region })
                }
            },
            ConstantSource::Named(key) => {
                let Some(named) = named else {
                    return fail(ConstantFault::NoNamedData { key: key.clone() });
                };
                let Some(blob) = named.get(key) else {
                    return fail(ConstantFault::Key { key: key.clone() });
                };
                match header::range(blob, 0, length) {
                    Some(bytes) => Ok(bytes),
                    None => fail(ConstantFault::BlobLength {
                        key: key.clone(),
                        expected: length,
                        found: blob.len() as u64,
                    }),
                }
            }
        }
    }

    /// The elements of a constant tensor, row-major, `dtype.size()` little-endian bytes each.
    ///
    /// Payloads up to 0.7 label 64-bit integers `Int32`; those alone are narrowed, into an owned buffer. A
    /// constant longer than its tensor is cut.
    ///
    /// # Errors
    /// As [`Payload::constant`]; [`Error::NotConstant`] where `info` has no constant; [`Error::Constant`] where the
    /// bytes are too few, or a 64-bit element does not fit in 32 bits.
    pub fn tensor_constant<'s>(
        &self,
        info: &TensorInfo,
        named: Option<&'s dyn NamedData>,
    ) -> Result<Cow<'s, [u8]>, Error>
    where
        'a: 's,
    {
        let id = info.constant.ok_or(Error::NotConstant)?;
        let bytes = self.constant(id, named)?;
        let (expected, found) = (info.byte_size(), bytes.len() as u64);
        if info.dtype == DType::Int32 && expected > 0 && expected.checked_mul(2) == Some(found) {
            return match narrow(bytes) {
                Ok(narrowed) => Ok(Cow::Owned(narrowed)),
                Err(fault) => Err(Error::Constant { id, fault }),
            };
        }
        match header::range(bytes, 0, expected) {
            Some(bytes) => Ok(Cow::Borrowed(bytes)),
            None => Err(Error::Constant { id, fault: ConstantFault::Length { expected, found } }),
        }
    }
}

/// 64-bit integers as 32-bit ones.
fn narrow(bytes: &[u8]) -> Result<Vec<u8>, ConstantFault> {
    let (elements, _) = bytes.as_chunks::<8>();
    let mut narrowed = Vec::with_capacity(elements.len() * 4);
    for (index, element) in elements.iter().enumerate() {
        let found = i64::from_le_bytes(*element);
        let element = i32::try_from(found).map_err(|_| ConstantFault::Narrowing { index, found })?;
        narrowed.extend_from_slice(&element.to_le_bytes());
    }
    Ok(narrowed)
}
