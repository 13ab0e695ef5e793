//! Estimates of the heap memory of compiled statements, for caches with a limit in bytes.
//!
//! Invariants: shared parts of catalogs (schemas, column types) are not counted. An estimate is
//! linear in the length of the statement's text.

use std::sync::Arc;

use super::function::Function;
use super::{BoundTerm, ColumnSpec};
use crate::catalog::Resource;
use crate::syntax::ast::Permission;

/// Bytes of a function's description in a call.
const FUNCTION: usize = 512;

/// A value with an estimate of its heap memory.
pub trait HeapBytes {
    /// Returns the bytes, without those of the value itself.
    fn heap_bytes(&self) -> usize;
}

/// Returns the bytes that an allocator takes for an allocation of this length: its header, and
/// rounding to 16.
fn allocation(len: usize) -> usize {
    if len == 0 { 0 } else { (len + 8).next_multiple_of(16).max(32) }
}

macro_rules! without_heap {
    ($($of:ty),*) => {
        $(impl HeapBytes for $of {
            fn heap_bytes(&self) -> usize {
                0
            }
        })*
    };
}

without_heap!(u8, u16, usize, i64, bool, &'static str, firn_wide::Type, Permission);

impl<T: HeapBytes> HeapBytes for Vec<T> {
    fn heap_bytes(&self) -> usize {
        let inside: usize = self.iter().map(T::heap_bytes).sum();
        allocation(self.capacity() * size_of::<T>()) + inside
    }
}

impl<T: HeapBytes> HeapBytes for Option<T> {
    fn heap_bytes(&self) -> usize {
        self.as_ref().map_or(0, T::heap_bytes)
    }
}

impl<T: HeapBytes> HeapBytes for Box<T> {
    fn heap_bytes(&self) -> usize {
        allocation(size_of::<T>()) + (**self).heap_bytes()
    }
}

impl<A: HeapBytes, B: HeapBytes> HeapBytes for (A, B) {
    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes() + self.1.heap_bytes()
    }
}

impl HeapBytes for String {
    fn heap_bytes(&self) -> usize {
        allocation(self.capacity())
    }
}

/// Declares the sum of the fields that own memory.
macro_rules! heap_bytes {
    ($of:ty { $($field:tt),+ }) => {
        impl $crate::values::HeapBytes for $of {
            fn heap_bytes(&self) -> usize {
                0 $(+ self.$field.heap_bytes())+
            }
        }
    };
}
pub(crate) use heap_bytes;

heap_bytes!(ColumnSpec { keyspace, table, name });

impl HeapBytes for Resource {
    fn heap_bytes(&self) -> usize {
        // At most two names; functions are longer, but rare.
        allocation(self.path().len()) + 32
    }
}

impl HeapBytes for Function {
    fn heap_bytes(&self) -> usize {
        FUNCTION
    }
}

impl HeapBytes for Arc<Function> {
    fn heap_bytes(&self) -> usize {
        FUNCTION
    }
}

impl HeapBytes for BoundTerm {
    fn heap_bytes(&self) -> usize {
        match self {
            BoundTerm::Constant(value) => value.heap_bytes(),
            BoundTerm::Marker(..) => 0,
            BoundTerm::Many(_, parts) | BoundTerm::Fields(parts) => parts.heap_bytes(),
            BoundTerm::Call(function, arguments) => function.heap_bytes() + arguments.heap_bytes(),
        }
    }
}
