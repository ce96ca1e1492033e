//! A table of C functions, filled from a [`Library`](crate::Library).

use std::any::type_name;

/// How C passes a type, as a number: the size in bytes of an integer, 100 more for a floating-point number, 1,000 more for a
/// struct. A pointer is 10,000 and the number of what it points to: 0 where only the library knows that, and 8 for another pointer,
/// because addresses are numbers in one vendor's functions and pointers in the other's.
///
/// Calls work only if a declaration agrees with the vendor's header in this.
pub fn passing<T>() -> usize {
    passing_of(type_name::<T>()).unwrap_or(1_000 + size_of::<T>())
}

// Nothing for a struct.
fn passing_of(name: &str) -> Option<usize> {
    let pointee = name
        .strip_prefix("*mut ")
        .or_else(|| name.strip_prefix("*const "));
    if let Some(pointee) = pointee {
        let pointee = match pointee.starts_with('*') {
            true => Some(8),
            false => passing_of(pointee),
        };
        return Some(10_000 + pointee.unwrap_or(0));
    }
    match name {
        "i8" | "u8" | "bool" => Some(1),
        "i16" | "u16" => Some(2),
        "i32" | "u32" => Some(4),
        "i64" | "u64" | "isize" | "usize" => Some(8),
        "f32" => Some(104),
        "f64" => Some(108),
        _ if name.contains("extern \"C\" fn") => Some(10_000),
        _ => None,
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
            pub fn declarations() -> Vec<(&'static str, Vec<usize>)> {
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

#[cfg(test)]
mod tests {
    use super::passing;
    use std::ffi::{c_char, c_int, c_void};

    #[test]
    fn types_that_c_passes_in_other_ways_have_other_numbers() {
        #[repr(C)]
        struct Pair([u64; 2]);
        let found = [
            passing::<c_int>(),
            passing::<f32>(),
            passing::<usize>(),
            passing::<f64>(),
            passing::<Pair>(),
            passing::<*const Pair>(),
            passing::<*mut c_void>(),
            passing::<*mut *mut c_void>(),
            passing::<*const c_char>(),
            passing::<*const f32>(),
            passing::<Option<unsafe extern "C" fn(c_int)>>(),
        ];
        let needed = [
            4, 104, 8, 108, 1_016, 10_000, 10_000, 10_008, 10_001, 10_104, 10_000,
        ];
        assert_eq!(found, needed);
    }
}
