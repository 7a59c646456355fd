//! Options of the process and of one delegate. Their table is at `EtvkOption`.

use std::ffi::c_char;
use std::sync::{Mutex, PoisonError};

use crate::abi::{ETVK_OPTION_TEXT, EtvkOption, EtvkOptionKind};
use crate::error::Error;
use crate::text;

/// Where delegates run: those that agree in it share a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) device: String,
    pub(crate) pipeline_cache_path: String,
    pub(crate) submit_budget_us: u32,
}

/// Values of all options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) place: Place,
    pub(crate) profile: bool,
}

static OPTIONS: Mutex<Options> = Mutex::new(Options {
    place: Place { device: String::new(), pipeline_cache_path: String::new(), submit_budget_us: 0 },
    profile: false,
});

/// The options of the process.
pub(crate) fn current() -> Options {
    OPTIONS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    Device,
    PipelineCachePath,
    Profile,
    SubmitBudget,
}

const KEYS: [(&str, Key); 4] = [
    ("device", Key::Device),
    ("pipeline_cache_path", Key::PipelineCachePath),
    ("profile", Key::Profile),
    ("submit_budget_us", Key::SubmitBudget),
];

fn find(key: &str) -> Result<(&'static str, Key), Error> {
    let found = KEYS.iter().copied().find(|(name, _)| *name == key);
    found.ok_or_else(|| Error::OptionKey { key: key.to_owned() })
}

/// A value as given.
enum Given<'a> {
    Bool(bool),
    Int(i64),
    Text(&'a str),
    Other(u32),
}

impl Given<'_> {
    fn describe(&self) -> String {
        match self {
            Self::Bool(value) => format!("bool {value}"),
            Self::Int(value) => format!("int {value}"),
            Self::Text(text) => format!("text of {} bytes", text.len()),
            Self::Other(kind) => format!("kind {kind}"),
        }
    }
}

/// # Safety
/// The texts of `option` are NUL-terminated and live for `'a`.
unsafe fn given<'a>(option: &EtvkOption) -> Result<Given<'a>, Error> {
    Ok(match option.kind {
        kind if kind == EtvkOptionKind::Bool as u32 => match option.int_value {
            0 => Given::Bool(false),
            1 => Given::Bool(true),
            value => Given::Int(value),
        },
        kind if kind == EtvkOptionKind::Int as u32 => Given::Int(option.int_value),
        kind if kind == EtvkOptionKind::Text as u32 => {
            // SAFETY: as this function's.
            let text = unsafe { text::read("text_value of an option", option.text_value) };
            Given::Text(text?)
        }
        kind => Given::Other(kind),
    })
}

impl Options {
    /// Takes one option over.
    ///
    /// # Safety
    /// The key and texts of `option` are NUL-terminated or null.
    unsafe fn take(&mut self, option: &EtvkOption) -> Result<(), Error> {
        // SAFETY: as this function's.
        let (key, which) = find(unsafe { text::read("key of an option", option.key) }?)?;
        // SAFETY: as this function's.
        let value = unsafe { given(option) }?;
        let refuse = |expected| Err(Error::OptionValue { key, expected, found: value.describe() });
        let place = &mut self.place;
        match (which, &value) {
            (Key::Device | Key::PipelineCachePath, Given::Text(text)) if text.len() >= ETVK_OPTION_TEXT => {
                return refuse("text of at most 4095 bytes");
            }
            (Key::Device, Given::Text(text)) => (*text).clone_into(&mut place.device),
            (Key::Device, Given::Int(index)) => match u32::try_from(*index) {
                Ok(index) => place.device = index.to_string(),
                Err(_) => return refuse("a name, or an index of at most 32 bits"),
            },
            (Key::Device, _) => return refuse("a name or an index"),
            (Key::PipelineCachePath, Given::Text(text)) => (*text).clone_into(&mut place.pipeline_cache_path),
            (Key::PipelineCachePath, _) => return refuse("a text"),
            (Key::Profile, Given::Bool(value)) => self.profile = *value,
            (Key::Profile, _) => return refuse("a bool"),
            (Key::SubmitBudget, Given::Int(budget)) => match u32::try_from(*budget) {
                Ok(budget) => place.submit_budget_us = budget,
                Err(_) => return refuse("microseconds of at most 32 bits"),
            },
            (Key::SubmitBudget, _) => return refuse("an int"),
        }
        Ok(())
    }

    /// The options of the process with those of one delegate, whose unknown keys do not matter.
    ///
    /// # Safety
    /// The keys and texts of `specs` are NUL-terminated or null.
    pub(crate) unsafe fn with(specs: &[EtvkOption]) -> Result<Self, Error> {
        let mut options = current();
        for spec in specs {
            // SAFETY: as this function's.
            match unsafe { options.take(spec) } {
                Ok(()) | Err(Error::OptionKey { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(options)
    }
}

/// A slice of the caller.
///
/// # Safety
/// `first` is null or points at `count` values that live for `'a`.
pub(crate) unsafe fn slice<'a, T>(
    what: &'static str,
    first: *const T,
    count: usize,
) -> Result<&'a [T], Error> {
    match count {
        0 => Ok(&[]),
        _ if first.is_null() => Err(Error::Null { what }),
        // SAFETY: as this function's.
        _ => Ok(unsafe { std::slice::from_raw_parts(first, count) }),
    }
}

/// # Safety
/// As `etvk_option_set`.
pub(crate) unsafe fn set(options: *const EtvkOption, count: usize) -> Result<(), Error> {
    // SAFETY: as this function's.
    let options = unsafe { slice("options", options, count) }?;
    let mut known = OPTIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut next = known.clone();
    for option in options {
        // SAFETY: as this function's.
        unsafe { next.take(option) }?;
    }
    *known = next;
    Ok(())
}

/// # Safety
/// As `etvk_option_get`.
pub(crate) unsafe fn get(option: *mut EtvkOption, room: *mut c_char, capacity: usize) -> Result<(), Error> {
    // SAFETY: not null, and as this function's.
    let option = unsafe { option.as_mut() }.ok_or(Error::Null { what: "option" })?;
    // SAFETY: as this function's.
    let (key, which) = find(unsafe { text::read("key of an option", option.key) }?)?;
    let options = current();
    let text = match which {
        Key::Device => options.place.device,
        Key::PipelineCachePath => options.place.pipeline_cache_path,
        Key::Profile => {
            (option.kind, option.int_value) = (EtvkOptionKind::Bool as u32, options.profile.into());
            return Ok(());
        }
        Key::SubmitBudget => {
            let value = options.place.submit_budget_us.into();
            (option.kind, option.int_value) = (EtvkOptionKind::Int as u32, value);
            return Ok(());
        }
    };
    let bytes = text::c_string(&text).into_bytes_with_nul();
    if bytes.len() > capacity {
        return Err(Error::OptionRoom { key, expected: bytes.len(), found: capacity });
    }
    if room.is_null() {
        return Err(Error::Null { what: "text" });
    }
    // SAFETY: `room` has `capacity` bytes, which are enough, and nobody else's.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), room, bytes.len()) };
    (option.kind, option.text_value) = (EtvkOptionKind::Text as u32, room);
    Ok(())
}
