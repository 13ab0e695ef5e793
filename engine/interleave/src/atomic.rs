//! Atomics of `std` with a scheduling point before each operation.

use crate::run::point;

pub use std::sync::atomic::Ordering;

/// A fence: only a scheduling point, since memory is sequentially consistent here.
#[track_caller]
pub fn fence(_: Ordering) {
    point();
}

macro_rules! basics {
    ($name:ident, $value:ty) => {
        /// The atomic of the same name.
        #[derive(Debug, Default)]
        pub struct $name(std::sync::atomic::$name);

        #[allow(missing_docs)] // as in `std`
        impl $name {
            pub const fn new(value: $value) -> $name {
                $name(std::sync::atomic::$name::new(value))
            }

            #[inline]
            #[track_caller]
            pub fn load(&self, order: Ordering) -> $value {
                point();
                self.0.load(order)
            }

            #[inline]
            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                point();
                self.0.store(value, order);
            }

            #[inline]
            #[track_caller]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.swap(value, order)
            }

            /// # Errors The current value, if it differs from `now`.
            #[inline]
            #[track_caller]
            pub fn compare_exchange(
                &self,
                now: $value,
                new: $value,
                ok: Ordering,
                no: Ordering,
            ) -> Result<$value, $value> {
                point();
                self.0.compare_exchange(now, new, ok, no)
            }

            /// # Errors The current value, if it differs from `now`.
            #[inline]
            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                now: $value,
                new: $value,
                ok: Ordering,
                no: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(now, new, ok, no)
            }

            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }
        }
    };
}

macro_rules! number {
    ($name:ident, $value:ty) => {
        basics!($name, $value);

        #[allow(missing_docs)] // as in `std`
        impl $name {
            #[inline]
            #[track_caller]
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.fetch_add(value, order)
            }

            #[inline]
            #[track_caller]
            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.fetch_sub(value, order)
            }

            #[inline]
            #[track_caller]
            pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.fetch_max(value, order)
            }

            #[inline]
            #[track_caller]
            pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.fetch_or(value, order)
            }

            #[inline]
            #[track_caller]
            pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.fetch_and(value, order)
            }

            /// # Errors The current value, if `f` returns `None`.
            #[inline]
            #[track_caller]
            pub fn fetch_update(
                &self,
                ok: Ordering,
                no: Ordering,
                f: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                point();
                self.0.fetch_update(ok, no, f)
            }
        }
    };
}

basics!(AtomicBool, bool);
number!(AtomicU32, u32);
number!(AtomicU64, u64);
number!(AtomicUsize, usize);

/// The atomic of the same name.
#[derive(Debug)]
pub struct AtomicPtr<T>(std::sync::atomic::AtomicPtr<T>);

#[allow(missing_docs)] // as in `std`
impl<T> AtomicPtr<T> {
    pub const fn new(value: *mut T) -> AtomicPtr<T> {
        AtomicPtr(std::sync::atomic::AtomicPtr::new(value))
    }

    #[inline]
    #[track_caller]
    pub fn load(&self, order: Ordering) -> *mut T {
        point();
        self.0.load(order)
    }

    #[inline]
    #[track_caller]
    pub fn store(&self, value: *mut T, order: Ordering) {
        point();
        self.0.store(value, order);
    }

    #[inline]
    #[track_caller]
    pub fn swap(&self, value: *mut T, order: Ordering) -> *mut T {
        point();
        self.0.swap(value, order)
    }

    /// # Errors The current value, if it differs from `now`.
    #[inline]
    #[track_caller]
    pub fn compare_exchange(
        &self,
        now: *mut T,
        new: *mut T,
        ok: Ordering,
        no: Ordering,
    ) -> Result<*mut T, *mut T> {
        point();
        self.0.compare_exchange(now, new, ok, no)
    }
}
