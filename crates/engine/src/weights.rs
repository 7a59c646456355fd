//! Constants on their way from the mapped file into device memory.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use etvk_kernels::numel;
use etvk_vkgraph::{ConstantId, ConstantSource, DType, NamedData, Payload};
use etvk_vulkan::{Buffer, Uploader};

use crate::convert::{self, copy_padded, widen};
use crate::error::Error;
use crate::ir::{Content, Form, Program, Weight};
use crate::limits::DeviceLimits;
use crate::passes::Constants;

/// A range of device memory that holds one constant.
#[derive(Debug)]
pub(crate) struct WeightMemory {
    pub(crate) buffer: Buffer,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// Constants already on the device, by content key, device form and type: methods and executors of one
/// context share them while any of them lives.
#[derive(Debug, Default)]
pub(crate) struct WeightStore {
    shared: Mutex<HashMap<WeightKey, Weak<WeightMemory>>>,
}

/// What makes two constants the same: the exporter's content hash, the device form, and, since a file may claim any
/// hash, a fingerprint of the bytes themselves.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct WeightKey {
    name: String,
    form: Form,
    dtype: DType,
    device_bytes: u64,
    fingerprint: u64,
}

/// Called with (bytes done, bytes in all) while constants are uploaded.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// Slabs are at most this large, so that one failed allocation does not need the whole model at once.
const SLAB_BYTES: u64 = 256 << 20;

/// Where constants come from.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) payload: &'a Payload<'a>,
    pub(crate) named: Option<&'a dyn NamedData>,
}

impl Constants for Source<'_> {
    fn scalar(&self, weight: &Weight) -> Option<f32> {
        let constant = match &weight.content {
            Content::Constant(constant) => constant,
            Content::Literal(word) if weight.dtype.is_float() => return Some(f32::from_bits(*word)),
            _ => return None,
        };
        let bytes = self.payload.constant(*constant, self.named).ok()?;
        let mut word = [0; 4];
        if !weight.dtype.is_float() || bytes.len() < weight.dtype.size() {
            return None;
        }
        widen(weight.dtype, bytes, 0, &mut word);
        Some(f32::from_le_bytes(word))
    }

    fn bytes(&self, weight: &Weight) -> Option<&[u8]> {
        self.payload.constant(constant_of(weight)?, self.named).ok()
    }
}

/// Bytes of a constant on the device.
pub(crate) fn device_bytes(weight: &Weight) -> u64 {
    if weight.content == Content::Nothing {
        return 0;
    }
    let count = numel(&weight.dims).map_or(u64::MAX / 16, u64::from);
    match weight.form {
        Form::Words => count * 4,
        Form::Raw => (count * weight.dtype.size() as u64).next_multiple_of(4),
    }
}

impl WeightStore {
    /// Brings all constants of `program` onto the device and returns them by weight id.
    pub(crate) fn load(
        &self,
        program: &Program,
        source: Source<'_>,
        uploader: &mut Uploader,
        allocate: &mut dyn FnMut(u64) -> Result<Buffer, Error>,
        limits: DeviceLimits,
        progress: Option<Progress<'_>>,
    ) -> Result<Vec<Arc<WeightMemory>>, Error> {
        let keys: Vec<Option<WeightKey>> = program.weights.iter().map(|w| key(source, w)).collect();
        let mut found: Vec<Option<Arc<WeightMemory>>> = keys.iter().map(|key| self.shared(key)).collect();
        // Two weights of one program may share a key, too.
        let mut first_of: HashMap<&WeightKey, usize> = HashMap::new();
        let mut missing = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            let weight = &program.weights[index];
            limits.check(device_bytes(weight), || format!("{:?} of {:?}", weight.content, weight.dims))?;
            let repeated = key.as_ref().is_some_and(|key| first_of.contains_key(key));
            if found[index].is_none() && !repeated {
                missing.push(index);
                if let Some(key) = key {
                    first_of.insert(key, index);
                }
            }
        }
        let slabs = place(program, &missing, limits);
        let buffers = slabs.sizes.iter().map(|&bytes| allocate(bytes)).collect::<Result<Vec<_>, _>>()?;
        let total: u64 = missing.iter().map(|&i| device_bytes(&program.weights[i])).sum();
        let (mut done, mut progress) = (0, progress);
        for (&index, &(slab, offset)) in missing.iter().zip(&slabs.places) {
            let weight = &program.weights[index];
            let bytes = device_bytes(weight).max(4);
            upload(source, weight, uploader, &buffers[slab], offset)?;
            done += device_bytes(weight);
            if let Some(progress) = progress.as_mut() {
                progress(done, total);
            }
            let memory = Arc::new(WeightMemory { buffer: buffers[slab].clone(), offset, bytes });
            found[index] = Some(memory);
        }
        uploader.finish()?;
        // Only now may other threads use them.
        self.publish(&missing, &keys, &found);
        let resolve = |index: usize| {
            let first = keys[index].as_ref().and_then(|key| first_of.get(key).copied());
            found[index].clone().or_else(|| first.and_then(|first| found[first].clone()))
        };
        Ok((0..found.len()).filter_map(resolve).collect())
    }

    fn publish(&self, missing: &[usize], keys: &[Option<WeightKey>], found: &[Option<Arc<WeightMemory>>]) {
        let mut shared = self.lock();
        shared.retain(|_, memory| memory.strong_count() > 0);
        for &index in missing {
            if let (Some(key), Some(memory)) = (&keys[index], &found[index]) {
                shared.insert(key.clone(), Arc::downgrade(memory));
            }
        }
    }

    fn shared(&self, key: &Option<WeightKey>) -> Option<Arc<WeightMemory>> {
        self.lock().get(key.as_ref()?)?.upgrade()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<WeightKey, Weak<WeightMemory>>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Only constants named by the SHA-256 of their contents can be recognised across payloads.
fn key(source: Source<'_>, weight: &Weight) -> Option<WeightKey> {
    let (form, dtype, device_bytes) = (weight.form, weight.dtype, device_bytes(weight));
    let constant = match &weight.content {
        Content::Constant(constant) => *constant,
        Content::Joined { parts, rows } => {
            let keys = parts.iter().map(|part| key(source, part)).collect::<Option<Vec<_>>>()?;
            let names: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
            let fingerprint = keys.iter().fold(0u64, |all, key| all.rotate_left(1) ^ key.fingerprint);
            let name = format!("{rows} rows of {}", names.join(" and "));
            return Some(WeightKey { name, form, dtype, device_bytes, fingerprint });
        }
        Content::Literal(_) | Content::Nothing => return None,
    };
    let ConstantSource::Named(name) = &source.payload.graph().constants.get(constant.index())?.source else {
        return None;
    };
    if name.len() != 64 || !name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    // A constant that is missing is reported by the upload.
    let bytes = source.payload.constant(constant, source.named).ok()?;
    Some(WeightKey { name: name.clone(), form, dtype, device_bytes, fingerprint: fingerprint(bytes) })
}

/// A hash of up to 512 words spread evenly over the bytes: the whole of a small constant, a sample of a large one.
fn fingerprint(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.len().hash(&mut hasher);
    let (words, rest) = bytes.as_chunks::<8>();
    words.iter().step_by(words.len() / 512 + 1).for_each(|word| word.hash(&mut hasher));
    rest.hash(&mut hasher);
    hasher.finish()
}

struct Slabs {
    sizes: Vec<u64>,
    places: Vec<(usize, u64)>,
}

fn place(program: &Program, missing: &[usize], limits: DeviceLimits) -> Slabs {
    let mut slabs = Slabs { sizes: Vec::new(), places: Vec::new() };
    let most = SLAB_BYTES.min(limits.max_block);
    for &index in missing {
        let bytes = device_bytes(&program.weights[index]).max(4).next_multiple_of(limits.alignment);
        match slabs.sizes.last_mut() {
            Some(size) if *size + bytes <= most => {
                slabs.places.push((slabs.sizes.len() - 1, slabs.sizes[slabs.sizes.len() - 1]));
                if let Some(size) = slabs.sizes.last_mut() {
                    *size += bytes;
                }
            }
            _ => {
                slabs.places.push((slabs.sizes.len(), 0));
                slabs.sizes.push(bytes);
            }
        }
    }
    slabs
}

/// Streams one constant through the uploader's ring, converted on the way.
pub(crate) fn upload(
    source: Source<'_>,
    weight: &Weight,
    uploader: &mut Uploader,
    buffer: &Buffer,
    offset: u64,
) -> Result<(), Error> {
    match &weight.content {
        Content::Nothing => return Ok(()),
        Content::Constant(_) => {}
        Content::Joined { parts, rows } => {
            return upload_joined(source, parts, *rows, uploader, (buffer, offset));
        }
        Content::Literal(word) => {
            let word = word.to_le_bytes();
            uploader.upload(buffer, offset, 4, |_, out| copy_padded(&word, out))?;
            return Ok(());
        }
    }
    let Some(bytes) = serialised(source, weight)? else { return Ok(()) };
    if weight.form == Form::Words && weight.dtype == DType::Int64 {
        convert::check_narrowing(&bytes).map_err(|(element, value)| Error::ConstantRange {
            constant: constant_of(weight).map_or(u32::MAX as usize, ConstantId::index),
            element,
            value,
        })?;
    }
    uploader.upload(buffer, offset, device_bytes(weight), |at, out| {
        // Chunks start at multiples of four bytes.
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        match weight.form {
            Form::Raw => copy_padded(bytes.get(at..).unwrap_or(&[]), out),
            Form::Words => widen(weight.dtype, &bytes, at / 4, out),
        }
    })?;
    Ok(())
}

/// Streams constants whose bytes are interleaved row by row.
fn upload_joined(
    source: Source<'_>,
    parts: &[Weight],
    rows: u32,
    uploader: &mut Uploader,
    (buffer, offset): (&Buffer, u64),
) -> Result<(), Error> {
    let mut all = Vec::with_capacity(parts.len());
    for part in parts {
        all.extend(serialised(source, part)?);
    }
    let bytes = all.iter().map(|part| part.len() as u64).sum();
    uploader.upload(buffer, offset, bytes, |at, out| {
        interleave(&all, rows.max(1) as usize, usize::try_from(at).unwrap_or(usize::MAX), out);
    })?;
    Ok(())
}

/// Fills `out` with what lies from byte `at` on when each of `parts` is cut into `rows` and the first rows of all come
/// first.
fn interleave(parts: &[Cow<'_, [u8]>], rows: usize, at: usize, mut out: &mut [u8]) {
    let line: usize = parts.iter().map(|part| part.len() / rows).sum();
    let (mut row, mut skip) = (at.checked_div(line).unwrap_or(rows), at.checked_rem(line).unwrap_or(0));
    while row < rows && !out.is_empty() {
        for part in parts {
            let length = part.len() / rows;
            let piece = part.get(row * length + skip.min(length)..(row + 1) * length).unwrap_or(&[]);
            let (now, rest) = out.split_at_mut(piece.len().min(out.len()));
            now.copy_from_slice(&piece[..now.len()]);
            (out, skip) = (rest, skip.saturating_sub(length));
        }
        row += 1;
    }
}

fn constant_of(weight: &Weight) -> Option<ConstantId> {
    if let Content::Constant(constant) = weight.content { Some(constant) } else { None }
}

/// The bytes of a constant as the payload has them.
fn serialised<'a>(source: Source<'a>, weight: &Weight) -> Result<Option<Cow<'a, [u8]>>, Error> {
    let info = source.payload.graph().values.iter().find_map(|value| match value {
        etvk_vkgraph::Value::Tensor(info)
            if info.constant.is_some()
                && info.constant == constant_of(weight)
                && info.dtype == weight.dtype
                && *info.dims == *weight.dims =>
        {
            Some(info)
        }
        _ => None,
    });
    let Some(info) = info else { return Ok(None) };
    Ok(Some(source.payload.tensor_constant(info, source.named)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_joined_constants_lie_side_by_side_wherever_a_chunk_begins() {
        let parts: [Cow<'_, [u8]>; 3] = [b"aabbcc".into(), b"ABC".into(), b"000111222".into()];
        let whole = b"aaA000bbB111ccC222";
        for at in 0..whole.len() {
            for end in at..=whole.len() {
                let mut out = vec![0; end - at];
                interleave(&parts, 3, at, &mut out);
                assert_eq!(out, whole[at..end], "{at}..{end}");
            }
        }
    }
}
