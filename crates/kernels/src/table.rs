//! The embedded modules. Written by `cargo xtask shaders` from `shaders/variants.toml`; not edited by hand.

use crate::{Family, Shader};

/// `shaders/fill.comp`.
pub static FILL: Family = Family {
    plain: Shader {
        name: "fill",
        spirv: include_bytes!("../spirv/fill.spv"),
        bindings: 2,
        push_words: 21,
    },
    middle: None,
    full: None,
};

/// Every family by name.
pub static FAMILIES: &[(&str, &Family)] = &[
    ("fill", &FILL),
];
