//! Attention with a streaming softmax: `shaders/sdpa.comp` and `shaders/sdpa_combine.comp`.

use crate::push::Push;
use crate::table::{SDPA, SDPA_COMBINE};
use crate::{Launch, Limits, Storage, Strided, Tier};

/// Vectors of four that the query tile holds in shared memory.
const QUERY_QUADS: u32 = 512;
/// Keys that the kernel for few queries takes at a time.
const FEW_KEYS: u32 = 16;
/// Most queries of a tile.
const MOST_ROWS: u32 = 8;
/// Workgroups below which the keys are split.
const ENOUGH_GROUPS: u64 = 128;

/// Largest D the kernel takes.
pub const MAX_WIDTH: u32 = QUERY_QUADS * 4;

/// Words of scratch that suffice for every S, whatever the number of heads and keys.
#[must_use]
pub fn scratch_bound(width: u32) -> u64 {
    ENOUGH_GROUPS * u64::from(MOST_ROWS) * (u64::from(width) + 2)
}

/// Attention of q over k and v; everything is f32 but for k and v, which may be stored as halves.
#[derive(Clone, Debug)]
pub struct Sdpa<'a> {
    /// q \[B, H, S, D\], D contiguous.
    pub q: &'a Strided,
    /// k \[B, Hkv, C, D\], D contiguous; H is a multiple of Hkv.
    pub k: &'a Strided,
    /// v \[B, Hkv, C, D\], D contiguous.
    pub v: &'a Strided,
    /// How k is stored: words or halves.
    pub k_storage: Storage,
    /// How v is stored: words or halves.
    pub v_storage: Storage,
    /// Added to the scaled products: \[B, H, S, W\], stride 0 where broadcast; W is at least the keys attended to.
    pub mask: Option<&'a Strided>,
    /// Factor of q · k.
    pub scale: f32,
    /// score → cap · tanh(score / cap), after the mask was added.
    pub softcap: Option<f32>,
    /// Query s does not see keys beyond start + s.
    pub causal: bool,
    /// Attend over the first start + S keys instead of all C.
    pub cached: bool,
    /// Position of the first query.
    pub start: u32,
    /// Word of the dynamic buffer with a further addend of the position.
    pub start_dynamic: Option<u32>,
    /// Elements between batches, heads and queries of out; D is contiguous.
    pub out_strides: [u32; 3],
    /// Whether the keys may be split over workgroups, which needs a second launch and scratch memory.
    pub may_split: bool,
}

/// The launches of one attention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SdpaLaunches {
    /// Bindings: q, k, v, mask, out (or scratch if there is a second launch), dyn.
    pub attend: Launch,
    /// Bindings: scratch, out.
    pub combine: Option<Launch>,
    /// Words of scratch between the two.
    pub scratch_words: u64,
}

/// What the kernel cannot take: the operand must be copied to a contiguous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsupported {
    /// The rank of q, k, v or mask is not 4, or H is no multiple of Hkv.
    Shape,
    /// The last dimension of q, k or v is not contiguous.
    LastStride,
    /// The offset of q, k or v changes between executions.
    DynamicOffset,
    /// D is larger than `most`.
    Width {
        /// D.
        found: u32,
        /// Largest D.
        most: u32,
    },
}

/// Launches an attention.
///
/// # Errors
/// [`Unsupported`] when an operand's layout or D is beyond the kernel.
pub fn sdpa(op: &Sdpa<'_>, limits: &Limits) -> Result<SdpaLaunches, Unsupported> {
    let ([batch, heads, s, width], q) = operand(op.q)?;
    let ([_, key_heads, context, _], k) = operand(op.k)?;
    let (_, v) = operand(op.v)?;
    let nothing = Strided::default();
    let mask = op.mask.unwrap_or(&nothing);
    let mask_strides = match op.mask {
        None => [0; 4],
        Some(mask) => broadcast(mask)?,
    };
    if key_heads == 0 || heads % key_heads != 0 {
        return Err(Unsupported::Shape);
    }
    let quads = width.div_ceil(4);
    if quads > QUERY_QUADS {
        return Err(Unsupported::Width { found: width, most: QUERY_QUADS * 4 });
    }

    let per_key_head = heads / key_heads;
    let queries = u64::from(s) * u64::from(per_key_head);
    let few = suits_few(op, [&q, &k, &v], width, queries, limits);
    let keys = if width >= 128 || few { 128 } else { 64 };
    let rows = if few { few_rows(queries) } else { tile_rows(queries, quads) };
    let tiles = u64::from(batch) * u64::from(key_heads) * queries.div_ceil(u64::from(rows));
    let splits = if op.may_split { splits(tiles, context, if few { FEW_KEYS } else { keys }) } else { 1 };

    let push = Push::new()
        .words([batch, s, per_key_head, key_heads, width, context])
        .word(op.start)
        .dynamic(op.start_dynamic)
        .float(op.scale)
        .float(op.softcap.unwrap_or(0.0))
        .word(splits | flags(op))
        .words(q)
        .words(k)
        .words(v)
        .word(mask.offset)
        .dynamic(mask.dynamic_offset)
        .words(mask_strides)
        .words(op.out_strides);
    let vectors = width % 4 == 0 && k.iter().all(|stride| stride % 4 == 0);
    let specialization = [
        keys,
        rows,
        if few { 1 } else { width.div_ceil(keys).max(1) },
        op.k_storage as u32,
        op.v_storage as u32,
        vectors.into(),
    ];
    let shader = SDPA.pick(if few { limits.tier } else { Tier::Plain });
    let attend = push.launch(shader, &specialization, tiles * u64::from(splits), limits);
    if splits == 1 {
        return Ok(SdpaLaunches { attend, combine: None, scratch_words: 0 });
    }
    let all = u64::from(batch) * u64::from(key_heads) * queries;
    let combine = Push::new()
        .word(u32::try_from(all).map_err(|_| Unsupported::Shape)?)
        .words([s, per_key_head, key_heads, width, splits])
        .words(op.out_strides)
        .launch(SDPA_COMBINE.pick(limits.tier), &[keys], all, limits);
    let scratch_words = all * u64::from(splits) * (u64::from(width) + 2);
    Ok(SdpaLaunches { attend, combine: Some(combine), scratch_words })
}

/// The high half of the push constant that counts the splits.
fn flags(op: &Sdpa<'_>) -> u32 {
    let softcap = op.softcap.is_some_and(|cap| cap > 0.0);
    [op.mask.is_some(), op.causal, softcap, op.cached]
        .into_iter()
        .zip(16..)
        .fold(0, |flags, (set, bit)| flags | (u32::from(set) << bit))
}

/// Whether the kernel for few queries can take the operands.
fn suits_few(op: &Sdpa<'_>, operands: [&[u32; 4]; 3], width: u32, queries: u64, limits: &Limits) -> bool {
    const FEW_QUERIES: u64 = 32;
    const WIDE: u32 = 256;
    const MOST_WIDTH: u32 = 512;
    let aligned = operands.into_iter().flatten().all(|number| number.is_multiple_of(4));
    limits.tier >= Tier::Middle
        && limits.subgroup_size >= 8
        && limits.max_shared_bytes >= 24 << 10
        && (op.k_storage, op.v_storage) == (Storage::Word, Storage::Word)
        && aligned
        && width.is_multiple_of(4)
        && width <= MOST_WIDTH
        // Whole lines pay for wide heads however many queries there are.
        && (queries <= FEW_QUERIES || width >= WIDE)
}

/// Rows of a tile of the kernel for few queries.
fn few_rows(queries: u64) -> u32 {
    u32::try_from(queries).map_or(MOST_ROWS, |queries| queries.clamp(1, MOST_ROWS).next_power_of_two())
}

/// Sizes of a rank-4 operand, and its offset and first three strides.
fn operand(operand: &Strided) -> Result<([u32; 4], [u32; 4]), Unsupported> {
    let (&[a, b, c, d], &[sa, sb, sc, sd]) = (operand.sizes.as_slice(), operand.strides.as_slice()) else {
        return Err(Unsupported::Shape);
    };
    if sd != 1 && d > 1 {
        return Err(Unsupported::LastStride);
    }
    if operand.dynamic_offset.is_some() {
        return Err(Unsupported::DynamicOffset);
    }
    // The stride of a dimension of one element says nothing; 0 keeps it from spoiling the alignment.
    let stride = |size: u32, stride: i32| if size == 1 { 0 } else { stride.cast_unsigned() };
    Ok(([a, b, c, d], [operand.offset, stride(a, sa), stride(b, sb), stride(c, sc)]))
}

/// Strides of a rank-4 mask, 0 for dimensions of one element (but for the keys).
fn broadcast(mask: &Strided) -> Result<[u32; 4], Unsupported> {
    let (&[a, b, c, _], &[sa, sb, sc, sd]) = (mask.sizes.as_slice(), mask.strides.as_slice()) else {
        return Err(Unsupported::Shape);
    };
    let stride = |size: u32, stride: i32| if size == 1 { 0 } else { stride.cast_unsigned() };
    Ok([stride(a, sa), stride(b, sb), stride(c, sc), sd.cast_unsigned()])
}

/// Queries of a tile: a power of two that fits in shared memory.
fn tile_rows(queries: u64, quads: u32) -> u32 {
    let mut rows = MOST_ROWS;
    while rows > 1 && (rows * quads > QUERY_QUADS || u64::from(rows / 2) >= queries) {
        rows /= 2;
    }
    rows
}

/// Workgroups that share one tile's keys: enough to fill a device, each with two steps of keys at least.
fn splits(tiles: u64, context: u32, keys: u32) -> u32 {
    let wanted = ENOUGH_GROUPS / tiles.clamp(1, ENOUGH_GROUPS);
    let most = u64::from(context.div_ceil(2 * keys)).max(1);
    u32::try_from(wanted.min(most)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::tests::PLAIN;

    fn strided(sizes: [u32; 4]) -> Strided {
        let sizes: crate::Dims = sizes.into_iter().collect();
        Strided { strides: crate::contiguous_strides(&sizes), sizes, ..Strided::default() }
    }

    fn launch(q: &Strided, k: &Strided, may_split: bool) -> Result<SdpaLaunches, Unsupported> {
        let op = Sdpa {
            q,
            k,
            v: k,
            k_storage: Storage::Word,
            v_storage: Storage::Word,
            mask: None,
            scale: 1.0,
            softcap: None,
            causal: true,
            cached: true,
            start: 0,
            start_dynamic: Some(3),
            out_strides: [0, 0, 0],
            may_split,
        };
        sdpa(&op, &PLAIN)
    }

    #[test]
    fn queries_of_a_key_head_share_tiles() {
        let (q, k) = (strided([2, 8, 5, 64]), strided([2, 2, 100, 64]));
        let launches = launch(&q, &k, false).unwrap();
        // 5 queries of 4 heads are 20 rows: three tiles of 8 for each of 2 · 2 key heads.
        assert_eq!(launches.attend.groups, [2 * 2 * 3, 1, 1]);
        assert_eq!(launches.combine, None);
    }

    #[test]
    fn a_decode_step_splits_the_keys() {
        let (q, k) = (strided([1, 8, 1, 256]), strided([1, 1, 2048, 256]));
        let launches = launch(&q, &k, true).unwrap();
        assert_eq!(launches.attend.groups, [8, 1, 1]);
        assert_eq!(launches.scratch_words, 8 * 8 * 258);
        assert_eq!(launches.combine.unwrap().groups, [8, 1, 1]);
    }

    #[test]
    fn tiles_fit_in_shared_memory() {
        for width in [1u32, 64, 256, 257, 512, 1024, 2048] {
            let rows = tile_rows(1000, width.div_ceil(4));
            assert!(rows >= 1 && rows * width.div_ceil(4) <= QUERY_QUADS);
        }
        assert_eq!(tile_rows(1, 64), 1);
        assert_eq!(tile_rows(3, 64), 4);
    }

    #[test]
    fn layouts_beyond_the_kernel_are_refused() {
        let k = strided([1, 1, 16, 8]);
        let mut q = strided([1, 1, 2, 8]);
        q.strides[3] = 2;
        assert_eq!(launch(&q, &k, false), Err(Unsupported::LastStride));
        let wide = strided([1, 1, 2, 2049]);
        assert_eq!(launch(&wide, &k, false), Err(Unsupported::Width { found: 2049, most: 2048 }));
        let three = strided([1, 3, 2, 8]);
        assert_eq!(launch(&three, &strided([1, 2, 16, 8]), false), Err(Unsupported::Shape));
    }
}
