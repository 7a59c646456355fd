//! Attention with a streaming softmax: `shaders/sdpa.comp`.

use crate::push::Push;
use crate::table::SDPA;
use crate::{Launch, Limits, Storage, Strided, Tier};

/// Vectors of four that the query tile holds in shared memory.
const QUERY_QUADS: u32 = 512;
/// Invocations of the kernel for few queries, and keys that it takes at a time.
const FEW_THREADS: u32 = 256;
const FEW_KEYS: u32 = FEW_THREADS / 8;
/// Most queries of a tile, and of one of the kernel for few queries.
const MOST_ROWS: u32 = 8;
const FEW_ROWS: u32 = 4;
/// Tiles from which on the keys are not shared out.
const ENOUGH_TILES: u64 = 128;
/// Results of shares that are joined: of one tile, and of all.
const MOST_TILE_RESULTS: u32 = 256;
const MOST_RESULTS: u32 = 1024;
/// A window that closes nothing. Far enough below 2³² that kernels can add a position.
const NO_WINDOW: u32 = i32::MAX.cast_unsigned();

/// Largest D the kernel takes.
pub const MAX_WIDTH: u32 = QUERY_QUADS * 4;

/// Words of counters that suffice for every launch.
pub const COUNTERS: u32 = MOST_RESULTS;

/// Words of scratch that suffice for every launch with this D.
#[must_use]
pub fn scratch_bound(width: u32) -> u64 {
    u64::from(MOST_RESULTS) * result_words(width)
}

/// Words that a share of the keys leaves for one query.
fn result_words(width: u32) -> u64 {
    (u64::from(width.div_ceil(4)) + 1) * 4
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
    /// Of a causal attention: a query sees this many keys at most, the one at its own position included.
    pub window: Option<u32>,
    /// Attend over the first start + S keys instead of all C.
    pub cached: bool,
    /// Word of the dynamic buffer with the position of the first query; `None` is 0.
    pub start_dynamic: Option<u32>,
    /// Elements between batches, heads and queries of out; D is contiguous.
    pub out_strides: [u32; 3],
    /// Whether the keys may be shared out to several workgroups, which needs scratch memory and counters.
    pub may_split: bool,
    /// Whether q, k and v may be rounded to halves, which matrix hardware wants.
    pub halves: bool,
}

/// The launch of one attention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SdpaLaunch {
    /// Bindings: q, k, v, mask, out, dyn, scratch, counters. The counters are [`COUNTERS`] words, zeros before and
    /// after; scratch may be one word where `scratch_words` is 0.
    pub attend: Launch,
    /// Words of scratch.
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

/// What one workgroup takes.
struct Shape {
    tier: Tier,
    threads: u32,
    /// Queries of a tile.
    rows: u32,
    /// Constant 2 of the module.
    columns: u32,
    /// Keys at a time.
    keys: u32,
    /// Whether the keys can be shared out.
    splits: bool,
}

impl Shape {
    /// Of the kernel on cooperative matrices, for `key_heads` of all batches: subgroups of 32 have 16 rows and one of
    /// `slices` slices of D each. More rows read keys less often, if that leaves enough workgroups.
    fn matrices(width: u32, key_heads: u64, queries: u64) -> Self {
        const ENOUGH_GROUPS: u64 = 100;
        let enough = |rows: u64| key_heads * queries.div_ceil(rows) >= ENOUGH_GROUPS;
        let (rows, slices, keys) = match width {
            ..65 if enough(128) => (128, 1, 32),
            ..129 => (64, 1, 32),
            129..257 if enough(64) => (64, 2, 16),
            129..257 => (32, 2, 16),
            _ => (32, 4, 16),
        };
        Self { tier: Tier::Full, threads: 2 * rows * slices, rows, columns: slices, keys, splits: false }
    }

    /// Of the kernel for few queries.
    fn few(queries: u64, quads: u32) -> Self {
        let rows = u32::try_from(queries).map_or(FEW_ROWS, |queries| queries.clamp(1, FEW_ROWS));
        Self {
            tier: Tier::Middle,
            threads: FEW_THREADS,
            rows: rows.next_power_of_two(),
            columns: quads,
            keys: FEW_KEYS,
            splits: true,
        }
    }

    /// Of the kernel for everything.
    fn plain(queries: u64, width: u32) -> Self {
        let keys = if width >= 128 { 128 } else { 64 };
        Self {
            tier: Tier::Plain,
            threads: keys,
            rows: tile_rows(queries, width.div_ceil(4)),
            columns: width.div_ceil(keys).max(1),
            keys,
            splits: true,
        }
    }
}

/// Launches an attention.
///
/// # Errors
/// [`Unsupported`] when an operand's layout or D is beyond the kernel.
pub fn sdpa(op: &Sdpa<'_>, limits: &Limits) -> Result<SdpaLaunch, Unsupported> {
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
    let shape = if suits_matrices(op, [&q, &k, &v], width, queries, limits) {
        Shape::matrices(width, u64::from(batch) * u64::from(key_heads), queries)
    } else if suits_few(op, [&q, &k, &v], width, queries, limits) {
        Shape::few(queries, quads)
    } else {
        Shape::plain(queries, width)
    };
    let tiles = u64::from(batch) * u64::from(key_heads) * queries.div_ceil(u64::from(shape.rows));
    let visible = op.window.map_or(context, |window| context.min(window.saturating_add(shape.rows)));
    let splits = if op.may_split && shape.splits { splits(tiles, visible, &shape) } else { 1 };

    let push = Push::new()
        .words([batch, s, per_key_head, key_heads, width, context])
        .word(op.window.map_or(NO_WINDOW, |window| window.min(NO_WINDOW)))
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
        shape.threads,
        shape.rows,
        shape.columns,
        op.k_storage as u32,
        op.v_storage as u32,
        vectors.into(),
        width,
        shape.keys,
    ];
    // Only the kernel on matrices knows the last two.
    let specialization = &specialization[..if shape.tier == Tier::Full { 8 } else { 6 }];
    let attend = push.launch(SDPA.pick(shape.tier), specialization, tiles * u64::from(splits), limits);
    let shares = if splits == 1 { 0 } else { tiles * u64::from(splits) };
    Ok(SdpaLaunch { attend, scratch_words: shares * u64::from(shape.rows) * result_words(width) })
}

/// The high half of the push constant that counts the splits.
fn flags(op: &Sdpa<'_>) -> u32 {
    let softcap = op.softcap.is_some_and(|cap| cap > 0.0);
    [op.mask.is_some(), op.causal, softcap, op.cached]
        .into_iter()
        .zip(16..)
        .fold(0, |flags, (set, bit)| flags | (u32::from(set) << bit))
}

/// Whether operands are words whose offsets and strides are multiples of four.
fn has_vectors(op: &Sdpa<'_>, operands: [&[u32; 4]; 3]) -> bool {
    (op.k_storage, op.v_storage) == (Storage::Word, Storage::Word)
        && operands.into_iter().flatten().all(|number| number.is_multiple_of(4))
}

/// Whether the kernel on cooperative matrices can take the operands, and pays.
fn suits_matrices(
    op: &Sdpa<'_>,
    operands: [&[u32; 4]; 3],
    width: u32,
    queries: u64,
    limits: &Limits,
) -> bool {
    // Below this the keys had better be shared out.
    let many = if width <= 128 { 128 } else { 512 };
    let fits = match width {
        1..129 => width.is_multiple_of(32),
        129..257 => width.is_multiple_of(64),
        _ => width.is_multiple_of(128) && (257..513).contains(&width),
    };
    fits && op.halves
        && limits.tier >= Tier::Full
        && limits.max_shared_bytes >= 48 << 10
        && limits.max_invocations >= 256
        && op.softcap.is_none_or(|cap| cap <= 0.0)
        && has_vectors(op, operands)
        && op.out_strides.iter().all(|stride| stride.is_multiple_of(4))
        && queries >= many
}

/// Whether the kernel for few queries can take the operands, and pays.
fn suits_few(op: &Sdpa<'_>, operands: [&[u32; 4]; 3], width: u32, queries: u64, limits: &Limits) -> bool {
    const FEW_QUERIES: u64 = 32;
    const WIDE: u32 = 256;
    const MOST_WIDTH: u32 = 512;
    limits.tier >= Tier::Middle
        && limits.subgroup_size >= 8
        && limits.max_shared_bytes >= 32 << 10
        && limits.max_invocations >= FEW_THREADS
        && has_vectors(op, operands)
        && width.is_multiple_of(4)
        && width <= MOST_WIDTH
        // Whole lines pay for wide heads however many queries there are.
        && (queries <= FEW_QUERIES || width >= WIDE)
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

/// Most workgroups that share one tile's keys: as many as kernels choose for `visible` keys (`take_share` in
/// `sdpa.glsl`), within what can be joined.
fn splits(tiles: u64, visible: u32, shape: &Shape) -> u32 {
    if tiles >= ENOUGH_TILES {
        return 1;
    }
    let share = (u64::from(visible) * u64::from(shape.rows) / 2).isqrt().max(1);
    let wanted = u64::from(visible).div_ceil(share.next_multiple_of(u64::from(shape.keys)));
    let most = u64::from(MOST_RESULTS) / (tiles.max(1) * u64::from(shape.rows));
    let most = most.min(u64::from(MOST_TILE_RESULTS / shape.rows));
    u32::try_from(wanted.clamp(1, most.max(1))).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::tests::{MIDDLE, PLAIN};

    fn strided(sizes: [u32; 4]) -> Strided {
        let sizes: crate::Dims = sizes.into_iter().collect();
        Strided { strides: crate::contiguous_strides(&sizes), sizes, ..Strided::default() }
    }

    fn op<'a>(q: &'a Strided, k: &'a Strided, may_split: bool) -> Sdpa<'a> {
        Sdpa {
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
            window: None,
            start_dynamic: Some(3),
            out_strides: [0, 0, 0],
            may_split,
            halves: false,
        }
    }

    fn launch(q: &Strided, k: &Strided, may_split: bool) -> Result<SdpaLaunch, Unsupported> {
        sdpa(&op(q, k, may_split), &PLAIN)
    }

    #[test]
    fn queries_of_a_key_head_share_tiles() {
        let (q, k) = (strided([2, 8, 5, 64]), strided([2, 2, 100, 64]));
        let launch = self::launch(&q, &k, false).unwrap();
        // 5 queries of 4 heads are 20 rows: three tiles of 8 for each of 2 · 2 key heads.
        assert_eq!(launch.attend.groups, [2 * 2 * 3, 1, 1]);
        assert_eq!(launch.scratch_words, 0);
    }

    #[test]
    fn a_decode_step_splits_the_keys() {
        let (q, k) = (strided([1, 8, 1, 256]), strided([1, 1, 2048, 256]));
        let launch = self::launch(&q, &k, true).unwrap();
        // √(2048 · 8 / 2) keys are 90, two steps of 128 invocations hold the whole of eight shares.
        assert_eq!(launch.attend.groups, [16, 1, 1]);
        assert_eq!(launch.scratch_words, 16 * 8 * 260);
    }

    #[test]
    fn scratch_and_counters_suffice() {
        for limits in [PLAIN, MIDDLE] {
            for (batch, heads, key_heads) in [(1, 8, 1), (1, 32, 8), (3, 40, 5), (1, 127, 127), (9, 9, 1)] {
                for (s, context, width) in [(1, 1, 64), (1, 100_000, 512), (2, 3000, 256), (9, 2048, 33)] {
                    let q = strided([batch, heads, s, width]);
                    let k = strided([batch, key_heads, context, width]);
                    let op = op(&q, &k, true);
                    let launch = sdpa(&op, &limits).unwrap();
                    assert!(launch.scratch_words <= scratch_bound(width));
                    let splits = launch.attend.push[10] & 0xFFFF;
                    let tiles = launch.attend.groups[0] / splits;
                    assert!(splits == 1 || tiles <= COUNTERS);
                    let rows = launch.attend.kernel.specialization[1];
                    assert!(splits * rows <= MOST_TILE_RESULTS);
                }
            }
        }
    }

    #[test]
    fn many_halves_go_to_matrices() {
        let full = Limits { tier: Tier::Full, max_invocations: 256, ..MIDDLE };
        for (heads, key_heads, width, groups) in
            [(8, 1, 512, 256), (8, 1, 256, 128), (16, 1, 256, 256), (32, 8, 64, 256)]
        {
            let (q, k) = (strided([1, heads, 1024, width]), strided([1, key_heads, 2048, width]));
            let mut op = op(&q, &k, true);
            op.halves = true;
            let launch = sdpa(&op, &full).unwrap();
            assert_eq!((launch.attend.kernel.shader.name, launch.scratch_words), ("sdpa.full", 0));
            assert_eq!(launch.attend.groups, [groups, 1, 1]);
            // Fits in 48 KiB of shared memory, and all of a tile is fetched.
            let [threads, rows, slices, _, _, _, _, keys] = launch.attend.kernel.specialization[..] else {
                panic!("eight constants")
            };
            let bytes = 2 * keys * (width / 4 + 2) * 8
                + slices * rows * (keys / 4 + 1) * 16
                + rows * (keys / 4 + 2) * 8
                + rows * 64;
            assert!(bytes <= 48 << 10 && threads <= 256, "{bytes}");
            assert_eq!(keys * width / 4 % threads, 0);
            op.softcap = Some(50.0);
            assert_ne!(sdpa(&op, &full).unwrap().attend.kernel.shader.name, "sdpa.full");
            op.softcap = None;
            op.halves = false;
            assert_ne!(sdpa(&op, &full).unwrap().attend.kernel.shader.name, "sdpa.full");
        }
    }

    #[test]
    fn a_window_needs_fewer_workgroups() {
        let (q, k) = (strided([1, 8, 1, 256]), strided([1, 1, 100_000, 256]));
        let mut op = op(&q, &k, true);
        let all = sdpa(&op, &MIDDLE).unwrap();
        op.window = Some(512);
        let some = sdpa(&op, &MIDDLE).unwrap();
        assert!(some.attend.groups[0] < all.attend.groups[0]);
        assert_eq!((some.attend.push[6], all.attend.push[6]), (512, NO_WINDOW));
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
