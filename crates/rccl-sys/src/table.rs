//! A table of C functions, filled from a [`Library`](crate::Library).

use std::any::type_name;

/// How a type is passed in C: `p` for a pointer, or else its size in bytes.
///
/// That is what a declaration must have in common with the vendor's header for calls to work.
pub fn passing<T>() -> String {
    let pointer = type_name::<T>().starts_with('*');
    if pointer {
        "p".into()
    } else {
        size_of::<T>().to_string()
    }
}

/// Declares a struct of function pointers whose fields are the C names, and how to fill it.
///
/// Functions under `required` must be there; those under `optional` came with a later version and are `Option`s.
/// `load` takes a [`Library`](crate::Library) and gives [`Missing`](crate::Missing) for a required one that is not.
#[macro_export]
macro_rules! function_table {
    (
        $(#[$meta:meta])*
        pub struct $table:ident;
        required { $( fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty; )* }
        optional { $( fn $option:ident($($option_argument:ident: $option_type:ty),* $(,)?) -> $option_result:ty; )* }
    ) => {
        $(#[$meta])*
        #[allow(non_snake_case, reason = "the fields are the C names")]
        #[derive(Clone, Copy, Debug)]
        pub struct $table {
            $(
                #[doc = concat!("`", stringify!($name), "`")]
                pub $name: unsafe extern "C" fn($($argument: $type),*) -> $result,
            )*
            $(
                #[doc = concat!("`", stringify!($option), "`, where the version has it")]
                pub $option: Option<unsafe extern "C" fn($($option_argument: $option_type),*) -> $option_result>,
            )*
        }

        impl $table {
            /// Every function's name, and how its arguments and then its result are passed
            /// ([`passing`]($crate::table::passing)), to be compared with the vendor's header.
            pub fn declarations() -> Vec<(&'static str, Vec<String>)> {
                vec![
                    $((
                        stringify!($name),
                        vec![$($crate::table::passing::<$type>(),)* $crate::table::passing::<$result>()],
                    ),)*
                    $((
                        stringify!($option),
                        vec![
                            $($crate::table::passing::<$option_type>(),)*
                            $crate::table::passing::<$option_result>(),
                        ],
                    ),)*
                ]
            }

            /// Looks every function up.
            ///
            /// # Errors
            /// [`Missing`]($crate::Missing) naming the first required function that is not there.
            pub fn load(library: &$crate::Library) -> Result<$table, $crate::Missing> {
                Ok($table {
                    $($name: {
                        let address = library.symbol(stringify!($name));
                        let address = address.ok_or_else(|| library.lacks(stringify!($name)))?;
                        // SAFETY: the address is that of the C function of this name, whose signature the table states
                        // after the vendor's header; both are thin pointers.
                        unsafe {
                            std::mem::transmute::<
                                *mut std::ffi::c_void,
                                unsafe extern "C" fn($($argument: $type),*) -> $result,
                            >(address)
                        }
                    },)*
                    $($option: library.symbol(stringify!($option)).map(|address| {
                        // SAFETY: as for the required functions.
                        unsafe {
                            std::mem::transmute::<
                                *mut std::ffi::c_void,
                                unsafe extern "C" fn($($option_argument: $option_type),*) -> $option_result,
                            >(address)
                        }
                    }),)*
                })
            }
        }
    };
}
