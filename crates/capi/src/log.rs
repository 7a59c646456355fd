//! Log messages on their way to the caller's callback.

use std::ffi::c_void;
use std::fmt::Write;
use std::sync::{Once, PoisonError, RwLock};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

use crate::abi::{EtvkLog, EtvkLogLevel};
use crate::text::c_string;

#[derive(Clone, Copy)]
struct Sink {
    log: EtvkLog,
    context: *mut c_void,
    max_level: u32,
}

// SAFETY: the header says that the callback is called from any thread with its context.
unsafe impl Send for Sink {}
// SAFETY: as for `Send`.
unsafe impl Sync for Sink {}

static SINK: RwLock<Sink> = RwLock::new(Sink { log: None, context: std::ptr::null_mut(), max_level: 0 });

fn sink() -> Sink {
    *SINK.read().unwrap_or_else(PoisonError::into_inner)
}

/// Sends messages to `log` from now on.
pub(crate) fn set(log: EtvkLog, context: *mut c_void, max_level: u32) {
    static INSTALL: Once = Once::new();
    *SINK.write().unwrap_or_else(PoisonError::into_inner) = Sink { log, context, max_level };
    // In a Rust program that has a subscriber already, messages go there instead.
    INSTALL.call_once(|| drop(tracing::subscriber::set_global_default(Forward)));
}

fn level(level: &Level) -> EtvkLogLevel {
    match *level {
        Level::ERROR => EtvkLogLevel::Error,
        Level::WARN => EtvkLogLevel::Warn,
        Level::INFO => EtvkLogLevel::Info,
        Level::DEBUG => EtvkLogLevel::Debug,
        Level::TRACE => EtvkLogLevel::Trace,
    }
}

struct Forward;

impl Subscriber for Forward {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let sink = sink();
        sink.log.is_some() && level(metadata.level()) as u32 <= sink.max_level
    }

    fn event(&self, event: &Event<'_>) {
        let sink = sink();
        let Some(log) = sink.log else { return };
        let mut line = Line(format!("{}:", event.metadata().target()));
        event.record(&mut line);
        let level = level(event.metadata().level()) as u32;
        // SAFETY: the callback was given with this context; the text lives until the end of the statement.
        unsafe { log(sink.context, level, c_string(&line.0).as_ptr()) }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// An event as one line.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let name = field.name();
        // Writing to a `String` does not fail.
        let _ = if name == "message" {
            write!(self.0, " {value:?}")
        } else {
            write!(self.0, " {name}={value:?}")
        };
    }
}
