//! Functions that both vendors export under different names: declared once, and loaded by each vendor's names.

use super::{Fault, Outcome};
use std::ffi::{CStr, c_char, c_int, c_void};

/// The status that a C function returns. Zero is success in every library of both vendors.
pub type Status = c_int;

/// A pointer that only the vendor's library dereferences.
pub type Opaque = *mut c_void;

/// A function with its C name, which errors report.
#[derive(Clone, Copy, Debug)]
pub struct Named<F> {
    /// As the library exports it.
    pub name: &'static str,
    /// Its address.
    pub function: F,
}

/// Declares the functions that two libraries have in common: a struct of them, and one of their C names, which each
/// vendor crate fills. Every function returns a [`Status`].
macro_rules! functions {
    (
        $(#[$meta:meta])*
        pub struct $functions:ident, named by $names:ident;
        $( fn $field:ident($($argument:ident: $type:ty),* $(,)?); )*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        pub struct $functions {
            $( pub(crate) $field: $crate::table::Named<unsafe extern "C" fn($($type),*) -> $crate::table::Status>, )*
        }

        #[doc = concat!("The C names of [`", stringify!($functions), "`] in one vendor's library.")]
        #[derive(Clone, Copy, Debug)]
        pub struct $names {
            $(
                #[doc = concat!("`", stringify!($field($($argument: $type),*)), "`.")]
                pub $field: &'static str,
            )*
        }

        impl $functions {
            /// Looks every function up.
            ///
            /// # Errors
            /// [`Missing`](rccl_sys::Missing) naming the first function that the library lacks.
            ///
            /// # Safety
            /// Each name is that of a C function with the signature of its field.
            pub unsafe fn load(library: &rccl_sys::Library, names: &$names) -> Result<$functions, rccl_sys::Missing> {
                Ok($functions {
                    $($field: {
                        let address = library.symbol(names.$field);
                        let address = address.ok_or_else(|| library.lacks(names.$field))?;
                        // SAFETY: the caller vouches for the signature; both are thin pointers.
                        let function = unsafe {
                            std::mem::transmute::<
                                *mut std::ffi::c_void,
                                unsafe extern "C" fn($($type),*) -> $crate::table::Status,
                            >(address)
                        };
                        $crate::table::Named { name: names.$field, function }
                    },)*
                })
            }
        }

        impl $names {
            /// Every function's name, and how its arguments and then its result are passed
            /// ([`passing`](rccl_sys::table::passing)), to be compared with the vendor's header.
            pub fn declarations(&self) -> Vec<(&'static str, Vec<usize>)> {
                use rccl_sys::table::passing;
                vec![$((self.$field, vec![$(passing::<$type>(),)* passing::<$crate::table::Status>()]),)*]
            }
        }
    };
}

/// One call through a table of `functions`: the function's C name, and the status that it returned.
macro_rules! status {
    ($table:expr, $function:ident($($argument:expr),* $(,)?)) => {{
        let named = $table.functions.$function;
        // SAFETY: the arguments fit the function's documentation; what must be live, the caller of this method answers
        // for.
        (named.name, unsafe { (named.function)($($argument),*) })
    }};
}

/// As [`status!`], for a table with `statuses` too: any status but success becomes a fault.
macro_rules! call {
    ($table:expr, $function:ident $arguments:tt) => {{
        let (name, status) = $crate::table::functions::status!($table, $function $arguments);
        $table.statuses.check(name, status)
    }};
}

pub(crate) use {call, functions, status};

/// Turns a library's statuses into outcomes.
#[derive(Clone, Copy, Debug)]
pub struct Statuses {
    out_of_memory: Status,
    text: Text,
}

/// A function that returns a status in words.
pub type Describe = unsafe extern "C" fn(Status) -> *const c_char;
/// A function that stores a status in words; it fails for a status that it does not know.
pub type StoreText = unsafe extern "C" fn(Status, *mut *const c_char) -> Status;

#[derive(Clone, Copy, Debug)]
enum Text {
    Returned(Option<Describe>),
    Stored(StoreText),
}

impl Statuses {
    /// The statuses of a library whose function returns their text, where it has such a function.
    ///
    /// # Safety
    /// The function takes any status; what it returns is null, or a text that ends with a zero and is never freed.
    pub unsafe fn returned(out_of_memory: Status, describe: Option<Describe>) -> Statuses {
        let text = Text::Returned(describe);
        Statuses {
            out_of_memory,
            text,
        }
    }

    /// The statuses of a library whose function stores their text.
    ///
    /// # Safety
    /// As for [`returned`](Statuses::returned).
    pub unsafe fn stored(out_of_memory: Status, store: StoreText) -> Statuses {
        let text = Text::Stored(store);
        Statuses {
            out_of_memory,
            text,
        }
    }

    /// A status as an outcome.
    ///
    /// # Errors
    /// Any status but success.
    pub fn check(&self, call: &'static str, status: Status) -> Outcome<()> {
        if status == 0 {
            return Ok(());
        }
        Err(Fault {
            call,
            code: status.into(),
            reason: self.text(status).unwrap_or_else(|| "unknown".into()),
            out_of_memory: status == self.out_of_memory,
        })
    }

    fn text(&self, status: Status) -> Option<String> {
        let mut stored = std::ptr::null();
        let text = match self.text {
            // SAFETY: the function takes any status, as the constructor's caller vouched.
            Text::Returned(describe) => unsafe { describe?(status) },
            Text::Stored(store) => {
                // SAFETY: as above; the pointer is that of a live variable.
                let known = unsafe { store(status, &mut stored) };
                if known == 0 { stored } else { return None }
            }
        };
        if text.is_null() {
            return None;
        }
        // SAFETY: as above; it ends with a zero.
        let text = unsafe { CStr::from_ptr(text) };
        Some(text.to_string_lossy().into())
    }
}
