//! Any bytes as a delegate payload: parse it and fetch every constant.
#![no_main]

use etvk_vkgraph::{ConstantId, Payload, Value};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(payload) = Payload::parse(bytes) else { return };
    for id in 0..payload.graph().constants.len() as u32 {
        let _ = payload.constant(ConstantId(id), None);
    }
    for value in &payload.graph().values {
        if let Value::Tensor(info) = value {
            let _ = payload.tensor_constant(info, None);
        }
    }
});
