//! Nodes: the engine's own form of a graph, between the payload's calls and the plan.

use etvk_kernels::Dims;
use etvk_vkgraph::{ConstantId, DType, ValueId};

use crate::buffers::BufferError;
use crate::ops::Op;

/// Index into [`Program::tensors`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TensorId(pub(crate) u32);

impl TensorId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Index into [`Program::syms`]; also the word of the dynamic buffer that holds the integer's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SymId(pub(crate) u32);

impl SymId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Index into [`Program::weights`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WeightId(pub(crate) u32);

impl WeightId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a 32-bit device word of a tensor holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Elem {
    /// FLOAT16 (kept wide: real residual streams exceed its range), FLOAT32 and FLOAT64 tensors.
    F32,
    /// BOOL (0 or 1) and integer tensors.
    I32,
}

impl Elem {
    /// The device element of a payload dtype.
    #[must_use]
    pub fn of(dtype: DType) -> Self {
        if dtype.is_float() { Elem::F32 } else { Elem::I32 }
    }
}

/// An integer known at load or computed by the host at every execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// Known at load.
    Const(i64),
    /// Computed at every execution.
    Sym(SymId),
}

impl Index {
    /// The symbolic integer, if it is one.
    pub(crate) fn sym(self) -> Option<SymId> {
        match self {
            Index::Const(_) => None,
            Index::Sym(sym) => Some(sym),
        }
    }
}

/// How the host computes a symbolic integer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SymDef {
    /// A literal that a kernel wants to read from the dynamic buffer.
    Const(i64),
    /// The integer passed as this delegate input.
    Input(u32),
    /// Element `index` of dimension `dim` of an integer graph input, all earlier indices 0.
    Select {
        /// Which delegate input.
        input: u32,
        /// Dimension; may be negative.
        dim: i64,
        /// Index; may be negative.
        index: i64,
    },
    /// The current size of a dimension (negative counts from the end).
    Size {
        /// Whose size.
        tensor: TensorId,
        /// Dimension.
        dim: i64,
    },
    /// `a + b`
    Add(Index, Index),
    /// `a - b`
    Sub(Index, Index),
    /// `a * b`
    Mul(Index, Index),
    /// `a / b` rounded toward −∞
    FloorDiv(Index, Index),
    /// 1 where `a < b`, else 0
    Less(Index, Index),
    /// 1 where `a ≤ b`, else 0
    AtMost(Index, Index),
    /// 1 where `a = b`, else 0
    Equal(Index, Index),
}

/// A strided reading of another tensor; costs nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum View {
    /// Row-major reinterpretation of a contiguous base; one size may be −1.
    Reshape(Vec<Index>),
    /// Output dimension `i` is base dimension `order[i]`.
    Permute(Vec<usize>),
    /// Python slice of one dimension.
    Slice {
        /// Sliced dimension.
        dim: usize,
        /// First index; negative counts from the current end.
        start: Index,
        /// One past the last index; `None` is to the end.
        end: Option<Index>,
        /// Positive step.
        step: u32,
    },
    /// One index of a dimension, which disappears.
    Select {
        /// Selected dimension.
        dim: usize,
        /// Index; negative counts from the current end.
        index: Index,
    },
    /// A new dimension of size 1 before base dimension `dim`.
    Unsqueeze {
        /// Position in the output.
        dim: usize,
    },
    /// Drops those of the listed dimensions whose size is 1.
    Squeeze(Vec<usize>),
    /// Broadcast to the given sizes, −1 keeping the base's.
    Expand(Vec<Index>),
    /// Reverses the listed dimensions.
    Flip(Vec<usize>),
    /// Windows of a dimension, which then counts them; their elements are a new last dimension.
    Unfold {
        /// Dimension the windows slide along.
        dim: usize,
        /// Elements of a window.
        size: u32,
        /// Positive distance of neighbouring windows.
        step: u32,
    },
}

/// Where a tensor's words live.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// Written by the host before every execution: delegate input of this index.
    Input(u32),
    /// A constant, widened to words at load.
    Weight(WeightId),
    /// A constant that some call mutates: initialised at load, then kept for the executor's life.
    State(u32),
    /// Word of the dynamic buffer that holds a symbolic integer, read as a rank-0 tensor.
    Sym(SymId),
    /// Produced by a node, in planned memory.
    Node,
    /// A strided reading of `base`.
    View {
        /// What is read.
        base: TensorId,
        /// How.
        view: View,
        /// Word of the dynamic buffer with the element offset, for views that start at a symbolic integer.
        dynamic: Option<u32>,
    },
}

/// A tensor of the lowered program.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// The payload's element type.
    pub dtype: DType,
    /// Upper bound of every size.
    pub bound: Dims,
    /// Where its words are.
    pub origin: Origin,
    /// Whether the words are row-major without gaps for every permitted shape.
    pub contiguous: bool,
    /// Whether it is contiguous and starts at the first word of its memory.
    pub dense: bool,
}

impl Tensor {
    /// What a device word holds.
    #[must_use]
    pub fn elem(&self) -> Elem {
        Elem::of(self.dtype)
    }
}

/// How a constant's bytes lie on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// One 32-bit word an element: halves widened to f32, bytes and bools to i32, 64-bit narrowed.
    Words,
    /// The serialised bytes, zero-padded to whole words.
    Raw,
}

/// What a weight holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// A constant of the payload.
    Constant(ConstantId),
    /// One word that the lowering chose.
    Literal(u32),
    /// Constants of the payload, each cut into `rows` equal parts: part 0 of each, one after the other, then part 1 …
    Joined {
        /// The constants in order.
        parts: Vec<Weight>,
        /// How many parts.
        rows: u32,
    },
    /// Nothing any more: a pass put its constant elsewhere.
    Nothing,
}

/// A constant in a device form.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Weight {
    /// Which bytes.
    pub content: Content,
    /// Its element type.
    pub dtype: DType,
    /// Its serialised sizes.
    pub dims: Dims,
    /// The device form.
    pub form: Form,
}

/// A mutable constant.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// The value that names the variable: caches of equal contents share a key but not a value.
    pub value: ValueId,
    /// The constant that gives the initial contents.
    pub constant: ConstantId,
    /// The tensor that reads and writes it.
    pub tensor: TensorId,
}

/// One step of device work.
#[derive(Clone, Debug)]
pub struct Node {
    /// What is computed.
    pub op: Op,
    /// Operands in the order the op documents.
    pub inputs: Vec<TensorId>,
    /// Results; states written in place are listed here too.
    pub outputs: Vec<TensorId>,
    /// Index in the payload's chain of the call it came from.
    pub call: u32,
}

/// One step of what the host works out before an execution, in chain order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostStep {
    /// Compute a symbolic integer.
    Sym(SymId),
    /// Work out the layout of a view.
    View(TensorId),
    /// Work out the sizes of a node's outputs and check its operands.
    Node(u32),
}

/// What a delegate input or output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// A tensor.
    Tensor(TensorId),
    /// An integer.
    Sym(SymId),
}

/// A lowered graph: everything that can be decided without a device.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// All tensors.
    pub tensors: Vec<Tensor>,
    /// Device work in execution order.
    pub nodes: Vec<Node>,
    /// Host work in execution order, each with the index of the call it came from.
    pub steps: Vec<(HostStep, u32)>,
    /// Symbolic integers; each also has the dynamic word of its index.
    pub syms: Vec<SymDef>,
    /// Words of the dynamic buffer: one a symbolic integer, then one a dynamic view.
    pub dynamic_words: u32,
    /// Constants by device form.
    pub weights: Vec<Weight>,
    /// Mutable constants.
    pub states: Vec<State>,
    /// Delegate inputs.
    pub inputs: Vec<Port>,
    /// Delegate outputs.
    pub outputs: Vec<Port>,
    /// For the outputs, from the first on, that may be the new values of states: the index of the state.
    pub carried: Vec<u32>,
    /// Why the output after those is not one.
    pub not_carried: Option<BufferError>,
    /// Operator names by chain index, for messages.
    pub call_names: Vec<String>,
}

impl Program {
    /// The tensor of an id.
    #[must_use]
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.index()]
    }

    /// The serialised name of a call.
    #[must_use]
    pub fn call_name(&self, call: u32) -> &str {
        self.call_names.get(call as usize).map_or("?", String::as_str)
    }

    /// The constants that the first outputs may be the new values of.
    pub fn replaced(&self) -> impl Iterator<Item = ConstantId> {
        self.carried.iter().filter_map(|&state| Some(self.states.get(state as usize)?.constant))
    }

    /// The tensor whose memory `id` reads: itself, or what its views lead to.
    #[must_use]
    pub fn base(&self, mut id: TensorId) -> TensorId {
        while let Origin::View { base, .. } = &self.tensor(id).origin {
            id = *base;
        }
        id
    }
}
