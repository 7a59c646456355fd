//! Operations that a shader's specialisation constant chooses.

/// Declares an enum whose values are those of the constants `OP_<NAME>` in the shader's include: 0, 1, … in order.
macro_rules! operations {
    ($(#[$doc:meta])* pub enum $name:ident { $($(#[$item_doc:meta])* $item:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum $name {
            $($(#[$item_doc])* $item,)*
        }

        impl $name {
            /// All operations, in the order of their values.
            pub const ALL: &[Self] = &[$(Self::$item,)*];
        }
    };
}

pub(crate) use operations;
