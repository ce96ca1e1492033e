//! A table of C functions, filled from a [`Library`](crate::Library).

use std::any::type_name;

/// How C passes a type: `p` for a pointer, otherwise its size in bytes.
///
/// Calls work only if a declaration agrees with the vendor's header in this.
pub fn passing<T>() -> String {
    let pointer = type_name::<T>().starts_with('*');
    if pointer {
        "p".into()
    } else {
        size_of::<T>().to_string()
    }
}

/// Declares a struct of function pointers whose fields have the C names, and its `load` function.
///
/// `load` takes a [`Library`](crate::Library). It fails with [`Missing`](crate::Missing) if a function under `required`
/// is not there. Functions under `optional`, which came with a later version, are `Option`s.
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
            /// [`Missing`]($crate::Missing) naming the first required function that the library lacks.
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
