//! What an operator sees of its call.

use std::sync::Arc;

use etvk_vkgraph::{DType, Graph, TensorInfo, Value, ValueId};

use crate::Fault;
use crate::tensor::{Tensor, truncate};

/// The current contents of a value.
#[derive(Clone, Debug, Default)]
pub(crate) enum Held {
    /// Not written yet, or a literal.
    #[default]
    Nothing,
    Tensor(Arc<Tensor>),
    Int(i64),
}

/// A scalar argument. Payloads pool numbers by value, so that every kind may stand in every numeric slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Int(i64),
    Double(f64),
}

impl Number {
    pub(crate) fn float(self) -> f64 {
        match self {
            Number::Int(int) => int as f64,
            Number::Double(double) => double,
        }
    }

    pub(crate) fn int(self) -> Option<i64> {
        match self {
            Number::Int(int) => Some(int),
            Number::Double(double) => (truncate(double) as f64 == double).then(|| truncate(double)),
        }
    }
}

/// One call while it is executed: arguments by slot, and the outputs to write.
#[derive(Debug)]
pub struct Frame<'a> {
    graph: &'a Graph,
    args: &'a [ValueId],
    held: &'a mut [Held],
}

impl<'a> Frame<'a> {
    pub(crate) fn new(graph: &'a Graph, args: &'a [ValueId], held: &'a mut [Held]) -> Self {
        Self { graph, args, held }
    }

    /// Number of arguments, outputs included.
    pub(crate) fn len(&self) -> usize {
        self.args.len()
    }

    /// The value id of an argument.
    pub(crate) fn id(&self, slot: usize) -> Result<ValueId, Fault> {
        self.args.get(slot).copied().ok_or(Fault::Missing { slot, found: self.args.len() })
    }

    fn value(&self, slot: usize) -> Result<&'a Value, Fault> {
        let id = self.id(slot)?;
        self.graph.value(id).ok_or(Fault::Unset { id })
    }

    fn kind<T>(&self, slot: usize, expected: &'static str, found: &Value) -> Result<T, Fault> {
        Err(Fault::Kind { slot, expected, found: found.kind() })
    }

    pub(crate) fn is_null(&self, slot: usize) -> Result<bool, Fault> {
        Ok(matches!(self.value(slot)?, Value::Null))
    }

    fn tensor_of(&self, slot: usize, id: ValueId) -> Result<Arc<Tensor>, Fault> {
        match (self.held.get(id.index()), self.graph.value(id)) {
            (Some(Held::Tensor(tensor)), _) => Ok(Arc::clone(tensor)),
            (_, Some(Value::Tensor(_)) | None) => Err(Fault::Unset { id }),
            (_, Some(other)) => self.kind(slot, "Tensor", other),
        }
    }

    pub(crate) fn tensor(&self, slot: usize) -> Result<Arc<Tensor>, Fault> {
        self.tensor_of(slot, self.id(slot)?)
    }

    /// A tensor of this rank.
    pub(crate) fn ranked(&self, slot: usize, rank: usize) -> Result<Arc<Tensor>, Fault> {
        let tensor = self.tensor(slot)?;
        match tensor.rank() {
            found if found != rank => Err(Fault::Rank { slot, expected: rank, found }),
            _ => Ok(tensor),
        }
    }

    /// A tensor of these sizes.
    pub(crate) fn sized(&self, slot: usize, dims: &[usize]) -> Result<Arc<Tensor>, Fault> {
        let tensor = self.tensor(slot)?;
        if tensor.dims() != dims {
            return Err(Fault::Dims { slot, expected: dims.to_vec(), found: tensor.dims().to_vec() });
        }
        Ok(tensor)
    }

    pub(crate) fn optional_tensor(&self, slot: usize) -> Result<Option<Arc<Tensor>>, Fault> {
        if self.is_null(slot)? { Ok(None) } else { self.tensor(slot).map(Some) }
    }

    /// The elements of a tensor of at least `count` elements.
    pub(crate) fn elements(&self, slot: usize, count: usize) -> Result<Vec<f64>, Fault> {
        let tensor = self.tensor(slot)?;
        let found = tensor.count();
        if found < count {
            return Err(Fault::Length { slot, expected: count, found });
        }
        Ok(tensor.floats().into_owned())
    }

    pub(crate) fn optional_elements(&self, slot: usize, count: usize) -> Result<Option<Vec<f64>>, Fault> {
        if self.is_null(slot)? { Ok(None) } else { self.elements(slot, count).map(Some) }
    }

    pub(crate) fn optional_tensors(&self, slot: usize) -> Result<Vec<Option<Arc<Tensor>>>, Fault> {
        match self.value(slot)? {
            Value::ValueList(ids) => ids
                .iter()
                .map(|&id| match self.graph.value(id) {
                    Some(Value::Null) => Ok(None),
                    _ => self.tensor_of(slot, id).map(Some),
                })
                .collect(),
            Value::IntList(items) if items.is_empty() => Ok(Vec::new()),
            other => self.kind(slot, "list of tensors", other),
        }
    }

    pub(crate) fn tensors(&self, slot: usize) -> Result<Vec<Arc<Tensor>>, Fault> {
        let absent = Fault::Kind { slot, expected: "list of tensors", found: "list with Null" };
        self.optional_tensors(slot)?.into_iter().map(|tensor| tensor.ok_or(absent.clone())).collect()
    }

    fn number_of(&self, slot: usize, id: ValueId) -> Result<Number, Fault> {
        match self.graph.value(id) {
            Some(Value::Int(int)) => Ok(Number::Int(*int)),
            Some(Value::Bool(truth)) => Ok(Number::Int((*truth).into())),
            Some(Value::Double(double)) => Ok(Number::Double(*double)),
            Some(Value::SymInt) => match self.held.get(id.index()) {
                Some(Held::Int(int)) => Ok(Number::Int(*int)),
                _ => Err(Fault::Unset { id }),
            },
            Some(other) => self.kind(slot, "number", other),
            None => Err(Fault::Unset { id }),
        }
    }

    pub(crate) fn number(&self, slot: usize) -> Result<Number, Fault> {
        self.number_of(slot, self.id(slot)?)
    }

    pub(crate) fn optional_number(&self, slot: usize) -> Result<Option<Number>, Fault> {
        if self.is_null(slot)? { Ok(None) } else { self.number(slot).map(Some) }
    }

    pub(crate) fn float(&self, slot: usize) -> Result<f64, Fault> {
        Ok(self.number(slot)?.float())
    }

    pub(crate) fn optional_float(&self, slot: usize) -> Result<Option<f64>, Fault> {
        Ok(self.optional_number(slot)?.map(Number::float))
    }

    pub(crate) fn int(&self, slot: usize) -> Result<i64, Fault> {
        integral(slot, self.number(slot)?)
    }

    pub(crate) fn optional_int(&self, slot: usize) -> Result<Option<i64>, Fault> {
        self.optional_number(slot)?.map(|number| integral(slot, number)).transpose()
    }

    /// A positive integer.
    pub(crate) fn extent(&self, slot: usize) -> Result<usize, Fault> {
        let found = self.int(slot)?;
        usize::try_from(found).ok().filter(|&extent| extent > 0).ok_or_else(|| Fault::Value {
            slot,
            expected: "a positive integer",
            found: found.to_string(),
        })
    }

    /// A start position from which `rows` rows fit in `capacity`.
    pub(crate) fn start(&self, slot: usize, rows: usize, capacity: usize) -> Result<usize, Fault> {
        let found = self.int(slot)?;
        let fits = |start: &usize| start.checked_add(rows).is_some_and(|end| end <= capacity);
        let start = usize::try_from(found).ok().filter(fits);
        start.ok_or(Fault::StartPosition { slot, found, rows, capacity })
    }

    pub(crate) fn truth(&self, slot: usize) -> Result<bool, Fault> {
        Ok(self.number(slot)? != Number::Int(0))
    }

    pub(crate) fn text(&self, slot: usize) -> Result<&'a str, Fault> {
        match self.value(slot)? {
            Value::String(text) => Ok(text),
            other => self.kind(slot, "String", other),
        }
    }

    fn numbers(&self, slot: usize) -> Result<Vec<Number>, Fault> {
        match self.value(slot)? {
            Value::IntList(items) => Ok(items.iter().map(|&item| Number::Int(item)).collect()),
            Value::DoubleList(items) => Ok(items.iter().map(|&item| Number::Double(item)).collect()),
            Value::BoolList(items) => Ok(items.iter().map(|&item| Number::Int(item.into())).collect()),
            Value::ValueList(ids) => ids.iter().map(|&id| self.number_of(slot, id)).collect(),
            other => self.kind(slot, "list of numbers", other),
        }
    }

    pub(crate) fn ints(&self, slot: usize) -> Result<Vec<i64>, Fault> {
        self.numbers(slot)?.into_iter().map(|number| integral(slot, number)).collect()
    }

    pub(crate) fn optional_ints(&self, slot: usize) -> Result<Option<Vec<i64>>, Fault> {
        if self.is_null(slot)? { Ok(None) } else { self.ints(slot).map(Some) }
    }

    pub(crate) fn optional_floats(&self, slot: usize) -> Result<Option<Vec<f64>>, Fault> {
        if self.is_null(slot)? {
            return Ok(None);
        }
        Ok(Some(self.numbers(slot)?.into_iter().map(Number::float).collect()))
    }

    /// Sizes: integers that are not negative.
    pub(crate) fn sizes(&self, slot: usize) -> Result<Vec<usize>, Fault> {
        self.ints(slot)?.into_iter().map(|item| size(slot, item)).collect()
    }

    /// A dimension of a tensor of rank `rank`, from its end where negative. Rank 0 has dimension 0.
    pub(crate) fn dimension(&self, slot: usize, rank: usize) -> Result<usize, Fault> {
        dimension(slot, self.int(slot)?, rank)
    }

    /// Dimensions of a tensor of rank `rank`.
    pub(crate) fn dimensions(&self, slot: usize, rank: usize) -> Result<Vec<usize>, Fault> {
        self.ints(slot)?.into_iter().map(|found| dimension(slot, found, rank)).collect()
    }

    fn info(&self, id: ValueId) -> Result<&'a TensorInfo, Fault> {
        let slot = self.args.len().saturating_sub(1);
        match self.graph.value(id) {
            Some(Value::Tensor(info)) => Ok(info),
            Some(other) => self.kind(slot, "Tensor", other),
            None => Err(Fault::Unset { id }),
        }
    }

    fn output(&self) -> Result<ValueId, Fault> {
        self.args.last().copied().ok_or(Fault::Missing { slot: 0, found: 0 })
    }

    /// Element type of the output.
    pub(crate) fn output_dtype(&self) -> Result<DType, Fault> {
        Ok(self.info(self.output()?)?.dtype)
    }

    /// Whether the output is a half in the source model too, not only by `force_fp16`, which leaves the host's type.
    pub(crate) fn output_is_half(&self) -> Result<bool, Fault> {
        let info = self.info(self.output()?)?;
        Ok(info.dtype == DType::Float16 && info.staging_dtype == DType::Float16)
    }

    /// Largest sizes of the output.
    pub(crate) fn output_bounds(&self) -> Result<Vec<usize>, Fault> {
        Ok(self.info(self.output()?)?.dims.iter().map(|&dim| dim as usize).collect())
    }

    /// Whether the output has been written, by this execution or an earlier one.
    pub(crate) fn is_written(&self) -> Result<bool, Fault> {
        let id = self.output()?;
        Ok(matches!(self.held.get(id.index()), Some(Held::Tensor(_))))
    }

    /// Writes the output, converted to its element type.
    pub(crate) fn set(&mut self, tensor: Tensor) -> Result<(), Fault> {
        self.write(self.output()?, tensor)
    }

    /// Writes a list of outputs.
    pub(crate) fn set_list(&mut self, tensors: Vec<Tensor>) -> Result<(), Fault> {
        let slot = self.args.len().saturating_sub(1);
        let ids = match self.value(slot)? {
            Value::ValueList(ids) => ids,
            other => return self.kind(slot, "list of tensors", other),
        };
        if ids.len() != tensors.len() {
            return Err(Fault::Outputs { expected: tensors.len(), found: ids.len() });
        }
        ids.iter().zip(tensors).try_for_each(|(&id, tensor)| self.write(id, tensor))
    }

    /// Writes the output integer.
    pub(crate) fn set_int(&mut self, int: i64) -> Result<(), Fault> {
        let id = self.output()?;
        match (self.graph.value(id), self.held.get_mut(id.index())) {
            (Some(Value::SymInt), Some(held)) => {
                *held = Held::Int(int);
                Ok(())
            }
            (Some(other), _) => self.kind(self.args.len().saturating_sub(1), "SymInt", other),
            (None, _) => Err(Fault::Unset { id }),
        }
    }

    /// Writes a tensor value, an output or an argument that the operator mutates.
    pub(crate) fn write(&mut self, id: ValueId, tensor: Tensor) -> Result<(), Fault> {
        let info = self.info(id)?;
        // An output that nothing reads may be declared without elements.
        if !info.dims.contains(&0) && !within(tensor.dims(), &info.dims) {
            return Err(Fault::Bounds { id, bounds: info.dims.clone(), found: tensor.dims().to_vec() });
        }
        if let Some(held) = self.held.get_mut(id.index()) {
            *held = Held::Tensor(Arc::new(tensor.to(info.dtype)));
        }
        Ok(())
    }
}

/// Whether sizes are no larger than declared ones.
pub(crate) fn within(dims: &[usize], bounds: &[u32]) -> bool {
    dims.len() == bounds.len() && dims.iter().zip(bounds).all(|(&dim, &bound)| dim <= bound as usize)
}

/// A dimension of a tensor of rank `rank`, from its end where negative.
pub(crate) fn dimension(slot: usize, found: i64, rank: usize) -> Result<usize, Fault> {
    wrapped(found, rank.max(1)).ok_or(Fault::Dimension { slot, found, rank })
}

/// An index into a dimension, from its end where negative.
pub(crate) fn index(slot: usize, found: i64, size: usize) -> Result<usize, Fault> {
    wrapped(found, size).ok_or(Fault::Index { slot, found, size })
}

/// A size.
pub(crate) fn size(slot: usize, found: i64) -> Result<usize, Fault> {
    usize::try_from(found).map_err(|_| Fault::Value {
        slot,
        expected: "sizes of at least 0",
        found: found.to_string(),
    })
}

fn wrapped(found: i64, size: usize) -> Option<usize> {
    let size = i64::try_from(size).ok()?;
    let found = if found < 0 { found.checked_add(size)? } else { found };
    usize::try_from(found).ok().filter(|_| found < size)
}

fn integral(slot: usize, number: Number) -> Result<i64, Fault> {
    number.int().ok_or_else(|| Fault::Value {
        slot,
        expected: "an integer",
        found: number.float().to_string(),
    })
}
