//! Shapes and strides as kernels see them: no buffers, no device.

use arrayvec::ArrayVec;

/// Highest rank of a tensor.
pub const MAX_RANK: usize = 8;

/// Sizes of a tensor, outermost first.
pub type Dims = ArrayVec<u32, MAX_RANK>;

/// How a tensor's elements lie in its buffer: element `[i0, i1, …]` is 32-bit word (or packed element)
/// `offset + dynamic + Σ i·stride`. Strides may be 0 (broadcast) or negative (flip).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strided {
    /// Current sizes.
    pub sizes: Dims,
    /// Elements between neighbours of each dimension.
    pub strides: ArrayVec<i32, MAX_RANK>,
    /// Elements before the first one, known when commands are recorded.
    pub offset: u32,
    /// Word of the executor's dynamic buffer that holds a further element offset, rewritten by the host
    /// at every execution (a slice that starts at a SymInt).
    pub dynamic_offset: Option<u32>,
}
