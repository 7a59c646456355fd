//! Text to tokens and back.

use std::path::Path;

use crate::error::Result;
use crate::text::Fault;

/// A vocabulary with its rules: a `tokenizer.json`.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
}

impl Tokenizer {
    /// Opens a `tokenizer.json`. Truncation and padding that it asks for are left out.
    ///
    /// # Errors
    /// [`Fault::TokenizerFile`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let fault = |reason| Fault::TokenizerFile { path: path.to_owned(), reason };
        let bytes = std::fs::read(path).map_err(|error| fault(error.to_string()))?;
        Ok(Self::parse(&bytes).map_err(fault)?)
    }

    /// As [`open`](Self::open), with the bytes of the file; `Err` says what is wrong with them.
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let text = |error: tokenizers::Error| error.to_string();
        let mut inner = tokenizers::Tokenizer::from_bytes(bytes).map_err(text)?;
        inner.with_truncation(None).map_err(text)?;
        inner.with_padding(None);
        Ok(Self { inner })
    }

    /// The tokens of a text. Special tokens in the text are found; with `special`, those that the file says belong
    /// around a text (such as `<bos>`) are added.
    ///
    /// # Errors
    /// [`Fault::Encode`].
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>> {
        let encoding = self.inner.encode_fast(text, special);
        let fault = |error: tokenizers::Error| Fault::Encode { bytes: text.len(), reason: error.to_string() };
        Ok(encoding.map_err(fault)?.get_ids().to_vec())
    }

    /// The text of tokens without the special ones. Bytes that are no UTF-8 become U+FFFD. Tokens that are not in the
    /// vocabulary are left out.
    ///
    /// # Errors
    /// [`Fault::Decode`].
    pub fn decode(&self, tokens: &[u32]) -> Result<String> {
        let fault =
            |error: tokenizers::Error| Fault::Decode { tokens: tokens.len(), reason: error.to_string() };
        Ok(self.inner.decode(tokens, true).map_err(fault)?)
    }

    /// A decoder of tokens that follow `before`, one after the other.
    #[must_use]
    pub fn stream(&self, before: &[u32]) -> TextStream<'_> {
        let start = before.len().saturating_sub(CONTEXT);
        let context = before.get(start..).unwrap_or_default().to_vec();
        TextStream { tokenizer: self, context, pending: Vec::new() }
    }

    /// The token that is spelt like this, such as `<bos>`.
    #[must_use]
    pub fn token(&self, spelling: &str) -> Option<u32> {
        self.inner.token_to_id(spelling)
    }

    /// How a token is spelt in the vocabulary.
    #[must_use]
    pub fn spelling(&self, token: u32) -> Option<String> {
        self.inner.id_to_token(token)
    }

    /// Number of tokens, added ones and all.
    #[must_use]
    pub fn vocabulary(&self) -> usize {
        self.inner.get_vocab_size(true)
    }
}

/// So many tokens in front are enough to decode what follows: decoders look at the first token (whose space is dropped)
/// and at the rest of a character.
const CONTEXT: usize = 8;

/// After so many tokens without a whole character there is none: it takes four bytes at most.
const MOST_PENDING: usize = 16;

/// Decodes tokens one after the other into text: as soon as there is one, the text that a token completes. A character
/// whose bytes are several tokens comes with the last of them.
#[derive(Clone, Debug)]
pub struct TextStream<'a> {
    tokenizer: &'a Tokenizer,
    /// Tokens whose text was given, as far as what follows depends on them.
    context: Vec<u32>,
    /// Tokens whose text was not given yet.
    pending: Vec<u32>,
}

impl TextStream<'_> {
    /// Takes the next token, and gives the text that is complete now; it may be empty.
    ///
    /// # Errors
    /// [`Fault::Decode`].
    pub fn push(&mut self, token: u32) -> Result<String> {
        self.pending.push(token);
        let (text, whole) = self.text()?;
        if !whole && self.pending.len() < MOST_PENDING {
            return Ok(String::new());
        }
        let pending = std::mem::take(&mut self.pending);
        // Tokens without text stay beside those with one: the first of a text can be a space that is dropped. Bytes that
        // are no character are forgotten, since decoders make whole runs of bytes unreadable with them.
        if whole && text.is_empty() {
            self.context.extend(pending);
            let surplus = self.context.len().saturating_sub(CONTEXT);
            self.context.drain(..surplus);
        } else if whole {
            self.context = pending;
        }
        Ok(text)
    }

    /// The text of what is pending, at the end of all tokens: bytes that are no character become U+FFFD.
    ///
    /// # Errors
    /// [`Fault::Decode`].
    pub fn finish(&mut self) -> Result<String> {
        let text = if self.pending.is_empty() { String::new() } else { self.text()?.0 };
        self.pending.clear();
        Ok(text)
    }

    /// The text of the pending tokens, and whether it ends with a whole character.
    fn text(&self) -> Result<(String, bool)> {
        let before = self.tokenizer.decode(&self.context)?;
        let all = [self.context.as_slice(), &self.pending].concat();
        let all = self.tokenizer.decode(&all)?;
        let text = match all.strip_prefix(&before) {
            Some(text) => text.to_owned(),
            // Together with bytes that are no character, those of the context are none either.
            None => self.tokenizer.decode(&self.pending)?,
        };
        let whole = !text.ends_with(char::REPLACEMENT_CHARACTER);
        Ok((text, whole))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::error::Error;

    /// A tokenizer of bytes (`<0x00>` is token 0), with whole tokens from 256 on.
    pub(crate) fn bytes_and(words: &[&str], special: &[&str]) -> Tokenizer {
        let bytes = (0..256).map(|byte| format!("<0x{byte:02X}>"));
        let pieces = bytes.chain(words.iter().chain(special).map(|&word| word.to_owned()));
        let quoted = |text: &str| format!("{text:?}");
        let vocabulary: Vec<String> =
            pieces.enumerate().map(|(id, piece)| format!("{}: {id}", quoted(&piece))).collect();
        let first = 256 + words.len();
        let added = |(at, word): (usize, &&str)| {
            format!(
                r#"{{"id": {}, "content": {}, "single_word": false, "lstrip": false, "rstrip": false,
                    "normalized": false, "special": true}}"#,
                first + at,
                quoted(word)
            )
        };
        let added: Vec<String> = special.iter().enumerate().map(added).collect();
        let json = format!(
            r#"{{"version": "1.0", "added_tokens": [{}],
            "normalizer": {{"type": "Replace", "pattern": {{"String": " "}}, "content": "▁"}},
            "decoder": {{"type": "Sequence", "decoders": [
                {{"type": "Replace", "pattern": {{"String": "▁"}}, "content": " "}},
                {{"type": "ByteFallback"}}, {{"type": "Fuse"}},
                {{"type": "Strip", "content": " ", "start": 1, "stop": 0}}]}},
            "model": {{"type": "BPE", "byte_fallback": true, "fuse_unk": true, "vocab": {{{}}}, "merges": []}}}}"#,
            added.join(", "),
            vocabulary.join(", ")
        );
        Tokenizer::parse(json.as_bytes()).unwrap()
    }

    /// What a stream gives for each token, and at the end.
    fn pieces(tokenizer: &Tokenizer, before: &[u32], tokens: &[u32]) -> (Vec<String>, String) {
        let mut stream = tokenizer.stream(before);
        let pieces = tokens.iter().map(|&token| stream.push(token).unwrap()).collect();
        (pieces, stream.finish().unwrap())
    }

    #[test]
    fn characters_come_when_all_their_bytes_are_there() {
        let tokenizer = bytes_and(&["a", "▁b"], &["<s>"]);
        let text = "a b🙂é";
        let tokens = tokenizer.encode(text, true).unwrap();
        assert_eq!(tokens, [256, 226, 150, 129, 98, 240, 159, 153, 130, 195, 169]);
        let (got, rest) = pieces(&tokenizer, &[], &tokens[4..]);
        assert_eq!((got, rest.as_str()), (["b", "", "", "", "🙂", "", "é"].map(String::from).to_vec(), ""));
    }

    #[test]
    fn the_first_space_is_kept_after_a_prompt() {
        let tokenizer = bytes_and(&["a", "▁b"], &["<s>"]);
        assert_eq!(pieces(&tokenizer, &[258, 256], &[257, 257]).0, [" b", " b"]);
        assert_eq!(pieces(&tokenizer, &[], &[257, 257]).0, ["b", " b"]);
        // Special tokens have no text, and what follows them is no beginning.
        assert_eq!(pieces(&tokenizer, &[256], &[258, 257]).0, ["", " b"]);
    }

    #[test]
    fn bytes_that_are_no_character_end_somewhere() {
        let tokenizer = bytes_and(&["a"], &[]);
        let (got, rest) = pieces(&tokenizer, &[], &[256, 65, 195, 256, 66, 195]);
        assert_eq!(got.concat() + &rest, "aA\u{fffd}aB\u{fffd}");
        let (got, rest) = pieces(&tokenizer, &[256], &[[0xff; 40].as_slice(), &[195, 169]].concat());
        let text = got.concat() + &rest;
        assert!(text.starts_with(&"\u{fffd}".repeat(32)), "{text}");
        assert_eq!(text.chars().count(), 42);
        let after = pieces(&tokenizer, &[256], &[[0xff; 16].as_slice(), &[195, 169]].concat());
        assert_eq!(after.0.last().unwrap(), "é");
    }

    #[test]
    fn streams_of_valid_text_add_up() {
        let tokenizer = bytes_and(&["a", "▁"], &[]);
        for text in ["a b é\n\n漢字 👨‍👩‍👧  a", " b", "\u{fffd}", "x\u{fffd}"] {
            let tokens = tokenizer.encode(text, false).unwrap();
            let (got, rest) = pieces(&tokenizer, &[256], &tokens);
            assert_eq!(got.concat() + &rest, text);
        }
    }

    #[test]
    fn bad_files_are_told() {
        let Err(Error::Text(fault)) = Tokenizer::open("no/such.json") else { panic!() };
        assert!(
            matches!(&fault, Fault::TokenizerFile { path, .. } if path.ends_with("such.json")),
            "{fault}"
        );
        assert!(Tokenizer::parse(b"{}").is_err() && Tokenizer::parse(b"\xff").is_err());
    }

    #[test]
    fn tokens_have_names() {
        let tokenizer = bytes_and(&["a"], &["<s>"]);
        assert_eq!((tokenizer.token("<s>"), tokenizer.token("<t>")), (Some(257), None));
        assert_eq!((tokenizer.spelling(256).as_deref(), tokenizer.vocabulary()), (Some("a"), 258));
        assert_eq!(tokenizer.encode("a<s>a", true).unwrap(), [256, 257, 256]);
        assert_eq!(tokenizer.decode(&[256, 257, 256]).unwrap(), "aa");
    }
}
