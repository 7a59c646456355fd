//! What a program says of itself: the methods without inputs that exporters of language models add.

use crate::error::{Error, Result};
use crate::module::Module;
use crate::text::Fault;
use crate::value::Value;

/// What a program says of itself. What it does not say is `None`, or empty.
///
/// The names are those that ExecuTorch's runners read: `get_bos_id`, `get_eos_ids` (or `get_eos_id`), `get_vocab_size`,
/// `get_n_layers`, `get_max_seq_len`, `get_max_context_len`, `use_kv_cache`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metadata {
    /// The token that a text begins with.
    pub bos: Option<u32>,
    /// Tokens that end a text.
    pub eos: Vec<u32>,
    /// Number of tokens.
    pub vocabulary: Option<usize>,
    /// Number of decoder layers.
    pub layers: Option<usize>,
    /// Most tokens of an execution.
    pub max_tokens: Option<usize>,
    /// Most tokens that the caches hold; the most of an execution where only that is told.
    pub max_context: Option<usize>,
    /// Whether the program has caches and goes on from a position.
    pub kv_cache: Option<bool>,
}

impl Metadata {
    /// Executes the metadata methods that there are. They need no device.
    ///
    /// # Errors
    /// [`Fault::Metadata`] if one gives something that makes no sense; as [`Module::load`] and
    /// [`Method::execute`](crate::Method::execute) if one cannot be executed.
    pub fn read(module: &Module) -> Result<Self> {
        let eos = match ids(module, "get_eos_ids")? {
            Some(ids) => ids,
            None => ids(module, "get_eos_id")?.unwrap_or_default(),
        };
        let max_tokens = count(module, "get_max_seq_len")?;
        Ok(Self {
            bos: ids(module, "get_bos_id")?.and_then(|ids| ids.first().copied()),
            eos,
            vocabulary: count(module, "get_vocab_size")?,
            layers: count(module, "get_n_layers")?,
            max_tokens,
            max_context: count(module, "get_max_context_len")?.or(max_tokens),
            kv_cache: numbers(module, "use_kv_cache")?.and_then(|flags| flags.first().map(|&flag| flag != 0)),
        })
    }
}

/// Token ids that a method gives.
fn ids(module: &Module, method: &str) -> Result<Option<Vec<u32>>> {
    let Some(numbers) = numbers(module, method)? else { return Ok(None) };
    let id =
        |&number: &i64| u32::try_from(number).map_err(|_| fault(method, "token ids", &number.to_string()));
    // Exporters write -1 where there is no such token.
    Ok(Some(numbers.iter().filter(|&&number| number != -1).map(id).collect::<Result<_>>()?))
}

/// The size that a method gives.
fn count(module: &Module, method: &str) -> Result<Option<usize>> {
    let Some(numbers) = numbers(module, method)? else { return Ok(None) };
    match *numbers.as_slice() {
        [number] if number > 0 => Ok(usize::try_from(number).ok()),
        _ => Err(fault(method, "one number above 0", &format!("{numbers:?}"))),
    }
}

/// Everything that a method gives, as integers; `None` without such a method.
fn numbers(module: &Module, method: &str) -> Result<Option<Vec<i64>>> {
    if !module.method_names().iter().any(|name| name == method) {
        return Ok(None);
    }
    let outputs = module.load(method, None)?.execute(&[])?;
    let mut all = Vec::with_capacity(outputs.len());
    for output in &outputs {
        match output {
            Value::Int(number) => all.push(*number),
            Value::Bool(flag) => all.push(i64::from(*flag)),
            Value::IntList(numbers) => all.extend(numbers),
            Value::Tensor(tensor) => match tensor.to_vec::<i64>() {
                Ok(numbers) => all.extend(numbers),
                Err(_) => return Err(fault(method, "integers", &format!("{tensor:?}"))),
            },
            other => return Err(fault(method, "integers", other.kind())),
        }
    }
    Ok(Some(all))
}

fn fault(method: &str, expected: &'static str, found: &str) -> Error {
    Fault::Metadata { method: method.to_owned(), expected, found: found.to_owned() }.into()
}
