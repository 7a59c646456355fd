//! A `.ptd` file.

use crate::container::{self, ExtendedHeader};
use crate::error::LayoutFault;
use crate::generated::{flat_tensor as fb, verified_root};
use crate::layout::Layout;
use crate::named_data::NamedData;
use crate::segments::Segments;
use crate::{Error, Result};

/// External data: named blobs, some with a tensor layout. Borrows from the file it was parsed from.
#[derive(Clone, Debug)]
pub struct FlatTensor<'a> {
    header: ExtendedHeader,
    blobs: NamedData<'a, Blob<'a>>,
}

/// One entry of external data.
#[derive(Clone, Copy)]
pub struct Blob<'a> {
    /// Its bytes; at least those of the layout.
    pub bytes: &'a [u8],
    /// Type and shape, if it is a tensor and not a delegate's blob.
    pub layout: Option<Layout<'a>>,
}

/// Bytes by their number.
impl std::fmt::Debug for Blob<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Blob({} bytes, {:?})", self.bytes.len(), self.layout)
    }
}

impl<'a> FlatTensor<'a> {
    /// Parses a whole `.ptd` file, of any alignment in memory, written by release 0.6 or any later one.
    ///
    /// # Errors
    /// An [`Error`] that names what is wrong with the file.
    pub fn parse(file: &'a [u8]) -> Result<Self> {
        let header = ExtendedHeader::of_flat_tensor(file)?;
        let buffer = container::flatbuffer(file, header.flatbuffer_end)?;
        let malformed = |source| Error::FlatBuffer { kind: "external data", source };
        let probe = verified_root::<fb::LayoutProbe<'a>>(buffer).map_err(malformed)?;
        // Both layouts carry the same identifier and version, but only that of 0.6 has more than three slots.
        let blobs = if probe.slot3() != 0 || probe.slot4() != 0 {
            blobs_06(file, header, verified_root::<fb::FlatTensor06<'a>>(buffer).map_err(malformed)?)?
        } else {
            blobs(file, header, verified_root::<fb::FlatTensor<'a>>(buffer).map_err(malformed)?)?
        };
        Ok(Self { header, blobs })
    }

    /// The extended header.
    #[must_use]
    pub fn header(&self) -> ExtendedHeader {
        self.header
    }

    /// The entry named `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Blob<'a>> {
        self.blobs.get(key)
    }

    /// Every entry by name.
    #[must_use]
    pub fn blobs(&self) -> &NamedData<'a, Blob<'a>> {
        &self.blobs
    }
}

fn blobs<'a>(
    file: &'a [u8],
    header: ExtendedHeader,
    root: fb::FlatTensor<'a>,
) -> Result<NamedData<'a, Blob<'a>>> {
    let segments = root.segments().ok_or(Error::Missing { field: "FlatTensor.segments" })?;
    let segments = resolve(file, header, segments)?;
    let mut blobs = NamedData::default();
    for entry in root.named_data().ok_or(Error::Missing { field: "FlatTensor.named_data" })? {
        let key = entry.key().ok_or(Error::Missing { field: "NamedData.key" })?;
        let bytes = segments.of("named data", entry.segment_index())?;
        let layout = entry
            .tensor_layout()
            .map(|layout| {
                let layout = Layout::checked(layout.scalar_type(), layout.sizes(), layout.dim_order())?;
                layout.take(bytes).map(|_| layout)
            })
            .transpose()
            .map_err(|fault| Error::ExternalTensor { key: key.to_owned(), fault })?;
        blobs.insert(key, Blob { bytes, layout })?;
    }
    Ok(blobs)
}

fn blobs_06<'a>(
    file: &'a [u8],
    header: ExtendedHeader,
    root: fb::FlatTensor06<'a>,
) -> Result<NamedData<'a, Blob<'a>>> {
    let segments = root.segments().ok_or(Error::Missing { field: "FlatTensor.segments" })?;
    let segments = resolve(file, header, segments)?;
    let mut blobs = NamedData::default();
    for tensor in root.tensors().into_iter().flatten() {
        let key = tensor.name().ok_or(Error::Missing { field: "TensorMetadata.name" })?;
        let segment = segments.of("an external tensor", tensor.segment_index())?;
        let blob = tensor_06(tensor, segment)
            .map_err(|fault| Error::ExternalTensor { key: key.to_owned(), fault })?;
        blobs.insert(key, blob)?;
    }
    for entry in root.named_data().into_iter().flatten() {
        let key = entry.key().ok_or(Error::Missing { field: "NamedData.key" })?;
        let bytes = segments.of("named data", entry.segment_index())?;
        blobs.insert(key, Blob { bytes, layout: None })?;
    }
    Ok(blobs)
}

fn tensor_06<'a>(tensor: fb::TensorMetadata06<'a>, segment: &'a [u8]) -> Result<Blob<'a>, LayoutFault> {
    let layout = Layout::checked(tensor.scalar_type(), tensor.sizes(), tensor.dim_order())?;
    let start = usize::try_from(tensor.offset()).unwrap_or(usize::MAX);
    let bytes = layout.take(segment.get(start..).unwrap_or_default())?;
    Ok(Blob { bytes, layout: Some(layout) })
}

fn resolve<'a>(
    file: &'a [u8],
    header: ExtendedHeader,
    table: flatbuffers::Vector<'a, flatbuffers::ForwardsUOffset<fb::DataSegment<'a>>>,
) -> Result<Segments<'a>> {
    Segments::resolve(file, header.segment_base, table.iter().map(|s| (s.offset(), s.size_())))
}
