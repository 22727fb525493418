//! Settings that are one of several names: the names and what each stands for, written once.

/// A name, and what it stands for.
pub type Name = (&'static str, &'static str);

/// A type whose values have names, in settings, in files and on the command line.
pub trait Choice: Copy + 'static {
    /// All of them, in the order of the documentation.
    const NAMES: &'static [Name];
}

/// Declare an enumeration whose variants have names; the documentation of a variant is its help.
macro_rules! choices {
    ($(#[$about:meta])* pub enum $Kind:ident {
        $($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum $Kind {
            $($(#[doc = $doc])+ #[serde(rename = $name)] $variant,)+
        }

        impl $Kind {
            /// The name in settings, in files and on the command line.
            pub fn name(self) -> &'static str {
                match self {
                    $($Kind::$variant => $name,)+
                }
            }
        }

        impl $crate::choice::Choice for $Kind {
            const NAMES: &'static [$crate::choice::Name] = &[$(($name, concat!($($doc),+))),+];
        }
    };
}

pub(crate) use choices;
