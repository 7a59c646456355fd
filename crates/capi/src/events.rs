//! Events of an execution, as upstream's delegate names them.

use std::ffi::CStr;

use etvk::payload::{Call, Graph, Timing, Value, ValueId};
use serde_json::{Map, json};

use crate::abi::EtvkEvents;
use crate::text::c_string;

pub(crate) const EXECUTE: &CStr = c"ETVK_EXECUTE";
pub(crate) const COPY_INPUTS: &CStr = c"ETVK_COPY_INPUTS";
pub(crate) const RESIZE: &CStr = c"ETVK_RESIZE";
pub(crate) const COMPUTE: &CStr = c"ETVK_COMPUTE_GRAPH_EXECUTE";
pub(crate) const COPY_OUTPUTS: &CStr = c"ETVK_COPY_OUTPUTS";

/// The caller's callbacks, if there are any.
#[derive(Clone, Copy)]
pub(crate) struct Events(Option<EtvkEvents>);

impl Events {
    /// # Safety
    /// `events` is null or its functions may be called as long as the result is used.
    pub(crate) unsafe fn new(events: *const EtvkEvents) -> Self {
        // SAFETY: as this function's.
        Self(unsafe { events.as_ref() }.copied())
    }

    /// Something starts.
    pub(crate) fn start(&self, name: &CStr) {
        if let Some(EtvkEvents { context, start: Some(start), .. }) = self.0 {
            // SAFETY: the caller gave them together; the name lives during the call.
            unsafe { start(context, name.as_ptr()) }
        }
    }

    /// It ends.
    pub(crate) fn end(&self, name: &CStr) {
        if let Some(EtvkEvents { context, end: Some(end), .. }) = self.0 {
            // SAFETY: the caller gave them together; the name lives during the call.
            unsafe { end(context, name.as_ptr()) }
        }
    }

    /// Does `work` between a start and its end, also where it panics.
    pub(crate) fn during<T>(self, name: &CStr, work: impl FnOnce() -> T) -> T {
        struct End<'a>(Events, &'a CStr);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.end(self.1);
            }
        }
        self.start(name);
        let _end = End(self, name);
        work()
    }

    /// Whether anybody wants to know of dispatches.
    pub(crate) fn wants_dispatches(&self) -> bool {
        self.0.is_some_and(|events| events.log.is_some())
    }

    /// Tells of the dispatches of an execution.
    pub(crate) fn dispatches(&self, timings: &[Timing], operators: &Operators) {
        let Some(EtvkEvents { context, log: Some(log), .. }) = self.0 else { return };
        let mut clock: u64 = 0;
        for (index, timing) in timings.iter().enumerate() {
            let end = clock.saturating_add(timing.nanoseconds);
            let name = c_string(&operators.dispatch(index, timing));
            // SAFETY: the caller gave them together; the name lives during the call.
            unsafe { log(context, name.as_ptr(), clock, end) };
            clock = end;
        }
    }
}

/// What events say of the calls of a graph.
pub(crate) struct Operators(Vec<serde_json::Value>);

impl Operators {
    /// Of all calls of `graph`.
    pub(crate) fn new(graph: &Graph) -> Self {
        Self(graph.calls.iter().map(|call| operator(graph, call)).collect())
    }

    fn dispatch(&self, index: usize, timing: &Timing) -> String {
        let mut event = Map::new();
        if let Some(operator) = self.0.get(timing.call as usize) {
            event.insert("operator".to_owned(), operator.clone());
        }
        event.insert("kernel_name".to_owned(), timing.kernel.into());
        event.insert("operator_id".to_owned(), timing.call.into());
        event.insert("dispatch_id".to_owned(), index.into());
        serde_json::Value::Object(event).to_string()
    }
}

fn operator(graph: &Graph, call: &Call) -> serde_json::Value {
    let args: Vec<_> = call.args.iter().map(|&id| argument(graph, id)).collect();
    json!({ "name": call.name, "delegate_node_id": call.node_id, "args": args })
}

fn argument(graph: &Graph, id: ValueId) -> serde_json::Value {
    let Some(value) = graph.value(id) else { return serde_json::Value::Null };
    let mut object = Map::new();
    object.insert("type".to_owned(), value.kind().into());
    object.insert("value_ref".to_owned(), id.0.into());
    match value {
        Value::Tensor(info) => {
            object.insert("dtype".to_owned(), format!("{:?}", info.dtype).to_uppercase().into());
            object.insert("sizes".to_owned(), info.dims.clone().into());
        }
        Value::Int(value) => drop(object.insert("value".to_owned(), (*value).into())),
        Value::Double(value) => drop(object.insert("value".to_owned(), (*value).into())),
        Value::Bool(value) => drop(object.insert("value".to_owned(), (*value).into())),
        Value::String(value) => drop(object.insert("value".to_owned(), value.clone().into())),
        Value::IntList(values) => drop(object.insert("values".to_owned(), values.clone().into())),
        Value::DoubleList(values) => drop(object.insert("values".to_owned(), values.clone().into())),
        Value::BoolList(values) => drop(object.insert("values".to_owned(), values.clone().into())),
        Value::ValueList(ids) => {
            let ids: Vec<_> = ids.iter().map(|id| id.0).collect();
            object.insert("values".to_owned(), ids.into());
        }
        Value::Null | Value::SymInt => {}
    }
    object.into()
}
