//! Tuples of one to six keys, and their prefixes.

use crate::buffer::Buffer;
use crate::key::{AsKey, Key, KeyPrefix};
use crate::reader::{DecodeError, KeyReader};

macro_rules! tuples {
    ($([$($k:ident $q:ident $n:tt),*])*) => {$(
        impl<$($k, $q: AsKey<$k>),*> AsKey<($($k,)*)> for ($($q,)*) {
            #[inline]
            fn write_part(&self, out: &mut Buffer) {
                $(self.$n.write_part(out);)*
            }
        }

        impl<$($k: Key),*> Key for ($($k,)*) {
            type View<'a> = ($($k::View<'a>,)*);

            #[inline]
            fn view_part<'a>(from: &mut KeyReader<'a>) -> Result<Self::View<'a>, DecodeError> {
                Ok(($($k::view_part(from)?,)*))
            }

            #[inline]
            fn from_view(view: Self::View<'_>) -> Self {
                ($($k::from_view(view.$n),)*)
            }
        }
    )*};
}

tuples! {
    [A QA 0]
    [A QA 0, B QB 1]
    [A QA 0, B QB 1, C QC 2]
    [A QA 0, B QB 1, C QC 2, D QD 3]
    [A QA 0, B QB 1, C QC 2, D QD 3, E QE 4]
    [A QA 0, B QB 1, C QC 2, D QD 3, E QE 4, F QF 5]
}

macro_rules! prefixes {
    ($([$($k:ident $q:ident $n:tt),*] of $(($($rest:ident),*))*;)*) => {$(
        prefixes! { @ [$($k $q $n),*] $(($($rest),*))* }
    )*};
    (@ $parts:tt $($rest:tt)*) => { $(prefixes! { = $parts $rest })* };
    (= [$($k:ident $q:ident $n:tt),*] ($($rest:ident),*)) => {
        impl<$($k, $q: AsKey<$k>,)* $($rest),*> KeyPrefix<($($k,)* $($rest,)*)> for ($($q,)*) {
            #[inline]
            fn write_prefix(&self, out: &mut Buffer) {
                $(self.$n.write_part(out);)*
            }
        }
    };
}

prefixes! {
    [A QA 0] of (B) (B, C) (B, C, D) (B, C, D, E) (B, C, D, E, F);
    [A QA 0, B QB 1] of (C) (C, D) (C, D, E) (C, D, E, F);
    [A QA 0, B QB 1, C QC 2] of (D) (D, E) (D, E, F);
    [A QA 0, B QB 1, C QC 2, D QD 3] of (E) (E, F);
    [A QA 0, B QB 1, C QC 2, D QD 3, E QE 4] of (F);
}
