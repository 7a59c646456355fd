//! What a model is made of, from the metadata of its file.

use etvk_gguf::Metadata;

use crate::{Error, Options, Result};

/// Tokens that caches hold, and those of one execution, unless the caller says otherwise.
const MAX_CONTEXT: u32 = 2048;
const MAX_SEQ: u32 = 512;

/// A decoder.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) architecture: Architecture,
    pub(crate) hidden: u32,
    pub(crate) layers: Vec<Layer>,
    pub(crate) eps: f64,
    /// Rotary tables that layers refer to.
    pub(crate) ropes: Vec<Rope>,
    /// Logits are `softcap · tanh(logits / softcap)`.
    pub(crate) softcap: Option<f64>,
    /// Width of the embeddings that each layer has for itself.
    pub(crate) per_layer: Option<u32>,
    pub(crate) max_context: u32,
    pub(crate) max_seq: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Architecture {
    Gemma3,
    Gemma4,
    Llama,
    Qwen3,
}

/// A layer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Layer {
    pub(crate) heads: u32,
    pub(crate) kv_heads: u32,
    pub(crate) head_dim: u32,
    pub(crate) ffn: u32,
    /// Latest tokens that a token sees, itself included; all without.
    pub(crate) window: Option<u32>,
    /// Which of [`Config::ropes`].
    pub(crate) rope: usize,
    /// The layer whose keys and values it reads, if not its own.
    pub(crate) donor: Option<usize>,
}

/// How heads are rotated.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rope {
    pub(crate) base: f64,
    /// Width of a head.
    pub(crate) head_dim: u32,
    /// Positions are divided by this.
    pub(crate) divisor: f64,
    /// Whether frequencies are divided by the tensor `rope_freqs.weight`.
    pub(crate) factors: bool,
    /// Whether neighbours are rotated rather than halves.
    pub(crate) neighbours: bool,
}

impl Architecture {
    /// The prefix of its keys.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Gemma3 => "gemma3",
            Self::Gemma4 => "gemma4",
            Self::Llama => "llama",
            Self::Qwen3 => "qwen3",
        }
    }
}

impl Config {
    /// Reads and checks the metadata.
    ///
    /// # Errors
    /// [`Error::Architecture`], [`Error::MissingKey`], [`Error::Value`] and [`Error::Option`].
    pub(crate) fn read(metadata: &Metadata, options: &Options) -> Result<Self> {
        let keys = Keys::new(metadata)?;
        let count = keys.u32("block_count")?;
        let hidden = keys.u32("embedding_length")?;
        let (layers, ropes) = match keys.architecture {
            Architecture::Gemma3 => gemma3(&keys, count)?,
            Architecture::Gemma4 => gemma4(&keys, count)?,
            Architecture::Llama | Architecture::Qwen3 => plain(&keys, count, hidden)?,
        };
        for (name, [low, high]) in [("block_count", [1, 1024]), ("embedding_length", [8, 1 << 16])] {
            keys.within(name, low, high)?;
        }
        let trained = keys.u32("context_length")?;
        let max_context = options.max_context.unwrap_or(trained.min(MAX_CONTEXT));
        if max_context == 0 || max_context > trained {
            return Err(Error::Option {
                option: "max-context",
                found: max_context.to_string(),
                expected: format!("1 to {trained}, for which the model was trained,"),
            });
        }
        let windowed = layers.iter().any(|layer| layer.window.is_some_and(|window| window < max_context));
        if windowed && max_context > MAX_WINDOWED {
            return Err(Error::Option {
                option: "max-context",
                found: max_context.to_string(),
                expected: format!(
                    "at most {MAX_WINDOWED} in a model with sliding windows, whose mask is a table,"
                ),
            });
        }
        let max_seq = options.max_seq.unwrap_or(max_context.min(MAX_SEQ));
        if max_seq == 0 || max_seq > max_context {
            return Err(Error::Option {
                option: "max-seq",
                found: max_seq.to_string(),
                expected: format!("1 to {max_context} (max-context)"),
            });
        }
        Ok(Self {
            architecture: keys.architecture,
            hidden,
            layers,
            eps: keys.f64("attention.layer_norm_rms_epsilon")?,
            ropes,
            softcap: keys.maybe_f64("final_logit_softcapping")?.filter(|&cap| cap != 0.0),
            per_layer: keys.maybe_u32("embedding_length_per_layer_input")?.filter(|&width| width != 0),
            max_context,
            max_seq,
        })
    }
}

/// Most tokens of a context whose sliding windows are a table of halves: 128 MiB.
const MAX_WINDOWED: u32 = 8192;

/// Five sliding layers, then one that sees everything, unless the file says otherwise.
fn gemma3(keys: &Keys<'_>, count: u32) -> Result<(Vec<Layer>, Vec<Rope>)> {
    let head_dim = keys.u32("attention.key_length")?;
    keys.same("attention.value_length", head_dim)?;
    let window = keys.maybe_u32("attention.sliding_window")?.filter(|&window| window != 0);
    let period = match keys.maybe_u32s("attention.sliding_window_pattern")?.as_deref() {
        None => 6,
        Some(&[period]) => period,
        Some(found) => {
            let key = keys.key("attention.sliding_window_pattern");
            return Err(Error::Value { key, found: format!("{found:?}"), expected: "one number".into() });
        }
    };
    let rope = |base, divisor| Rope { base, head_dim, divisor, factors: false, neighbours: false };
    // Local layers keep the base and the positions of the models before.
    let local = keys.maybe_f64("rope.freq_base_swa")?.or(keys.maybe_f64("rope.local.freq_base")?);
    let ropes = vec![
        rope(keys.f64_or("rope.freq_base", 1e6)?, keys.rope_divisor()?),
        rope(local.unwrap_or(1e4), 1.0),
    ];
    let layer = |index: u32| {
        let local = window.is_some() && period > 1 && !(index + 1).is_multiple_of(period);
        Ok(Layer {
            heads: keys.at("attention.head_count", index)?,
            kv_heads: keys.at("attention.head_count_kv", index)?,
            head_dim,
            ffn: keys.at("feed_forward_length", index)?,
            window: window.filter(|_| local),
            rope: usize::from(local),
            donor: None,
        })
    };
    Ok(((0..count).map(layer).collect::<Result<_>>()?, ropes))
}

/// Sliding layers have heads of their own size; the last layers read the keys and values of earlier ones.
fn gemma4(keys: &Keys<'_>, count: u32) -> Result<(Vec<Layer>, Vec<Rope>)> {
    let [full, local] = ["attention.key_length", "attention.key_length_swa"].map(|name| keys.u32(name));
    let (full, local) = (full?, local?);
    keys.same("attention.value_length", full)?;
    keys.same("attention.value_length_swa", local)?;
    let window = keys.u32("attention.sliding_window")?;
    let name = "attention.sliding_window_pattern";
    let pattern = keys.bools(name)?;
    if pattern.len() != count as usize {
        let expected = format!("{count}, one for each layer,");
        return Err(Error::Value {
            key: keys.key(name),
            found: format!("{} values", pattern.len()),
            expected,
        });
    }
    let shared = keys.maybe_u32("attention.shared_kv_layers")?.unwrap_or(0);
    let owners = count.saturating_sub(shared);
    let rope = |base, head_dim, factors| Rope { base, head_dim, divisor: 1.0, factors, neighbours: false };
    let ropes = vec![
        rope(keys.f64_or("rope.freq_base", 1e6)?, full, true),
        rope(keys.f64_or("rope.freq_base_swa", 1e4)?, local, false),
    ];
    let layer = |(index, &sliding): (u32, &bool)| {
        let donor = if index < owners {
            None
        } else {
            // The last layer of its kind that has keys of its own.
            let donor = pattern.iter().take(owners as usize).rposition(|&other| other == sliding);
            Some(donor.ok_or_else(|| Error::Value {
                key: keys.key("attention.shared_kv_layers"),
                found: shared.to_string(),
                expected: "fewer than leave no layer to share with".to_owned(),
            })?)
        };
        Ok(Layer {
            heads: keys.at("attention.head_count", index)?,
            kv_heads: keys.at("attention.head_count_kv", index)?,
            head_dim: if sliding { local } else { full },
            ffn: keys.at("feed_forward_length", index)?,
            window: sliding.then_some(window),
            rope: usize::from(sliding),
            donor,
        })
    };
    Ok(((0..).zip(&pattern).map(layer).collect::<Result<_>>()?, ropes))
}

/// Layers that are all alike.
fn plain(keys: &Keys<'_>, count: u32, hidden: u32) -> Result<(Vec<Layer>, Vec<Rope>)> {
    let heads = keys.u32("attention.head_count")?;
    let head_dim = match keys.maybe_u32("attention.key_length")? {
        Some(head_dim) => head_dim,
        None => hidden.checked_div(heads).unwrap_or(0),
    };
    keys.same("attention.value_length", head_dim)?;
    keys.same("rope.dimension_count", head_dim)?;
    for name in ["expert_count", "attention.sliding_window"] {
        keys.same(name, 0)?;
    }
    let rope = Rope {
        base: keys.f64_or("rope.freq_base", 1e4)?,
        head_dim,
        divisor: keys.rope_divisor()?,
        factors: keys.architecture == Architecture::Llama,
        // Files of this architecture have the rows of q and k in that order.
        neighbours: keys.architecture == Architecture::Llama,
    };
    let layer = |index: u32| {
        Ok(Layer {
            heads,
            kv_heads: keys.at("attention.head_count_kv", index)?,
            head_dim,
            ffn: keys.at("feed_forward_length", index)?,
            window: None,
            rope: 0,
            donor: None,
        })
    };
    Ok(((0..count).map(layer).collect::<Result<_>>()?, vec![rope]))
}

/// Keys of one architecture.
struct Keys<'a> {
    metadata: &'a Metadata,
    architecture: Architecture,
}

impl<'a> Keys<'a> {
    fn new(metadata: &'a Metadata) -> Result<Self> {
        let key = "general.architecture";
        let found = metadata.str(key)?.ok_or_else(|| Error::MissingKey { key: key.to_owned() })?;
        let all = [Architecture::Gemma3, Architecture::Gemma4, Architecture::Llama, Architecture::Qwen3];
        let architecture = all
            .into_iter()
            .find(|architecture| architecture.name() == found)
            .ok_or_else(|| Error::Architecture { found: found.to_owned() })?;
        Ok(Self { metadata, architecture })
    }

    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture.name())
    }

    fn missing(&self, name: &str) -> Error {
        Error::MissingKey { key: self.key(name) }
    }

    fn maybe_u32(&self, name: &str) -> Result<Option<u32>> {
        let key = self.key(name);
        let convert = |found: u64| {
            u32::try_from(found).map_err(|_| Error::Value {
                key: key.clone(),
                found: found.to_string(),
                expected: "less than 2^32".to_owned(),
            })
        };
        self.metadata.u64(&key)?.map(convert).transpose()
    }

    fn u32(&self, name: &str) -> Result<u32> {
        self.maybe_u32(name)?.ok_or_else(|| self.missing(name))
    }

    fn maybe_f64(&self, name: &str) -> Result<Option<f64>> {
        Ok(self.metadata.f64(&self.key(name))?)
    }

    fn f64(&self, name: &str) -> Result<f64> {
        self.maybe_f64(name)?.ok_or_else(|| self.missing(name))
    }

    fn f64_or(&self, name: &str, default: f64) -> Result<f64> {
        Ok(self.maybe_f64(name)?.unwrap_or(default))
    }

    fn maybe_u32s(&self, name: &str) -> Result<Option<Vec<u32>>> {
        let key = self.key(name);
        let Some(found) = self.metadata.u64s(&key)? else { return Ok(None) };
        let convert = |&item: &u64| u32::try_from(item);
        found.iter().map(convert).collect::<Result<_, _>>().map(Some).map_err(|_| Error::Value {
            key,
            found: format!("{found:?}"),
            expected: "less than 2^32".to_owned(),
        })
    }

    fn bools(&self, name: &str) -> Result<Vec<bool>> {
        self.metadata.bools(&self.key(name))?.ok_or_else(|| self.missing(name))
    }

    /// A number of layer `index`, of a key that has one for all or one for each. Such keys are never zero.
    fn at(&self, name: &str, index: u32) -> Result<u32> {
        let all = self.maybe_u32s(name)?.ok_or_else(|| self.missing(name))?;
        let found = if let [one] = *all { Some(one) } else { all.get(index as usize).copied() };
        found.filter(|&found| found != 0).ok_or_else(|| Error::Value {
            key: self.key(name),
            found: format!("{all:?}"),
            expected: format!("a number for layer {index}"),
        })
    }

    /// Fails if there is such a key with another number.
    fn same(&self, name: &str, expected: u32) -> Result<()> {
        match self.maybe_u32(name)? {
            Some(found) if found != expected => Err(Error::Value {
                key: self.key(name),
                found: found.to_string(),
                expected: expected.to_string(),
            }),
            _ => Ok(()),
        }
    }

    fn within(&self, name: &str, low: u32, high: u32) -> Result<()> {
        let found = self.u32(name)?;
        if (low..=high).contains(&found) {
            return Ok(());
        }
        Err(Error::Value {
            key: self.key(name),
            found: found.to_string(),
            expected: format!("{low} to {high}"),
        })
    }

    /// What positions are divided by.
    fn rope_divisor(&self) -> Result<f64> {
        let key = self.key("rope.scaling.type");
        match self.metadata.str(&key)? {
            None | Some("none") => Ok(1.0),
            Some("linear") => self.f64_or("rope.scaling.factor", 1.0),
            Some(found) => Err(Error::Value {
                key,
                found: found.to_owned(),
                expected: "\"none\" or \"linear\"".to_owned(),
            }),
        }
    }
}
