//! How a turn of a conversation is written, and which tokens end one.

use crate::error::Result;
use crate::text::{Fault, Metadata, Tokenizer};

/// How a family of models writes the turns of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChatFormat {
    /// Gemma 2 and 3: `<start_of_turn>user`.
    Gemma,
    /// Gemma 4: `<|turn>user`.
    Gemma4,
    /// Llama 3: headers between `<|start_header_id|>` and `<|end_header_id|>`.
    Llama3,
    /// ChatML, as Qwen uses it: `<|im_start|>user`.
    ChatMl,
}

impl ChatFormat {
    const ALL: [Self; 4] = [Self::Gemma, Self::Gemma4, Self::Llama3, Self::ChatMl];

    /// The format whose tokens the tokenizer has.
    ///
    /// # Errors
    /// [`Fault::ChatFormat`] if it has those of none.
    pub fn of(tokenizer: &Tokenizer) -> Result<Self> {
        let has = |format: &Self| {
            tokenizer.token(format.begin()).is_some() && tokenizer.token(format.end()).is_some()
        };
        Self::ALL.into_iter().find(has).ok_or_else(|| {
            let looked_for: Vec<String> =
                Self::ALL.iter().map(|format| format!("{} and {}", format.begin(), format.end())).collect();
            Fault::ChatFormat { looked_for: looked_for.join(", ") }.into()
        })
    }

    /// What the user says as one turn, and the beginning of the model's. White space around it is dropped. Special tokens
    /// in the text stay what they are: it is the caller's.
    #[must_use]
    pub fn turn(self, text: &str) -> String {
        let (begin, end, text) = (self.begin(), self.end(), text.trim());
        match self {
            Self::Gemma | Self::Gemma4 => format!("{begin}user\n{text}{end}\n{begin}model\n"),
            Self::Llama3 => {
                let header = |role| format!("{begin}{role}<|end_header_id|>\n\n");
                format!("{}{text}{end}{}", header("user"), header("assistant"))
            }
            Self::ChatMl => format!("{begin}user\n{text}{end}\n{begin}assistant\n"),
        }
    }

    /// The token that begins a turn.
    #[must_use]
    pub fn begin(self) -> &'static str {
        match self {
            Self::Gemma => "<start_of_turn>",
            Self::Gemma4 => "<|turn>",
            Self::Llama3 => "<|start_header_id|>",
            Self::ChatMl => "<|im_start|>",
        }
    }

    /// The token that ends a turn.
    #[must_use]
    pub fn end(self) -> &'static str {
        match self {
            Self::Gemma => "<end_of_turn>",
            Self::Gemma4 => "<turn|>",
            Self::Llama3 => "<|eot_id|>",
            Self::ChatMl => "<|im_end|>",
        }
    }
}

/// Spellings of the token that ends a text, for programs that do not tell it.
const END_OF_TEXT: [&str; 4] = ["<eos>", "</s>", "<|end_of_text|>", "<|endoftext|>"];

/// Tokens that end what a model writes: those that the program tells, else the tokenizer's `<eos>` and the like, and the
/// ends of turns of known chat formats.
#[must_use]
pub fn end_tokens(metadata: &Metadata, tokenizer: &Tokenizer) -> Vec<u32> {
    let mut tokens = metadata.eos.clone();
    if tokens.is_empty() {
        tokens.extend(END_OF_TEXT.iter().filter_map(|spelling| tokenizer.token(spelling)));
    }
    let turns = ChatFormat::ALL.iter().filter_map(|format| tokenizer.token(format.end()));
    tokens.extend(turns);
    tokens.sort_unstable();
    tokens.dedup();
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::text::tokenizer::tests::bytes_and;

    #[test]
    fn formats_are_told_by_their_tokens() {
        let cases = [
            (
                ["<start_of_turn>", "<end_of_turn>"],
                ChatFormat::Gemma,
                "<start_of_turn>user\nHi!<end_of_turn>\n<start_of_turn>model\n",
            ),
            (["<|turn>", "<turn|>"], ChatFormat::Gemma4, "<|turn>user\nHi!<turn|>\n<|turn>model\n"),
            (
                ["<|start_header_id|>", "<|eot_id|>"],
                ChatFormat::Llama3,
                "<|start_header_id|>user<|end_header_id|>\n\nHi!<|eot_id|>\
                 <|start_header_id|>assistant<|end_header_id|>\n\n",
            ),
            (
                ["<|im_start|>", "<|im_end|>"],
                ChatFormat::ChatMl,
                "<|im_start|>user\nHi!<|im_end|>\n<|im_start|>assistant\n",
            ),
        ];
        for (special, format, turn) in cases {
            let tokenizer = bytes_and(&[], &special);
            assert_eq!(ChatFormat::of(&tokenizer).unwrap(), format);
            assert_eq!(format.turn(" Hi!\n"), turn);
            assert_eq!(end_tokens(&Metadata::default(), &tokenizer), [257]);
        }
    }

    #[test]
    fn an_unknown_format_is_told() {
        let Err(Error::Text(fault)) = ChatFormat::of(&bytes_and(&[], &["<|im_start|>"])) else { panic!() };
        assert_eq!(
            fault.to_string(),
            "the tokenizer has no tokens of a known chat format; looked for <start_of_turn> and <end_of_turn>, <|turn> \
             and <turn|>, <|start_header_id|> and <|eot_id|>, <|im_start|> and <|im_end|>"
        );
    }

    #[test]
    fn the_program_tells_the_end_or_else_the_tokenizer() {
        let tokenizer = bytes_and(&[], &["<eos>", "<|im_end|>"]);
        assert_eq!(end_tokens(&Metadata::default(), &tokenizer), [256, 257]);
        let metadata = Metadata { eos: vec![7, 257], ..Metadata::default() };
        assert_eq!(end_tokens(&metadata, &tokenizer), [7, 257]);
    }
}
