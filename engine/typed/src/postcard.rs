//! [`Postcard`], values of `serde`.

use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::buffer::Buffer;
use crate::error::EncodeError;
use crate::reader::DecodeError;
use crate::value::{AsValue, Value};

/// Values of a type of `serde`, in the [postcard](https://postcard.jamesmunns.com/) format. It names
/// a format and has no values: reads return `T`, writes take `&T`.
///
/// The format has no field names. A new field at the end of `T` makes old values unreadable, unless
/// `T` is an enum of versions, to which variants are added at the end.
///
/// ```
/// use firn_kv::Db;
/// use firn_typed::{Postcard, TypedTree};
/// use serde::{Deserialize, Serialize};
/// #[derive(Debug, PartialEq, Serialize, Deserialize)]
/// struct User {
///     name: String,
///     mails: Vec<String>,
/// }
/// let users: TypedTree<u64, Postcard<User>> = TypedTree::open(&Db::in_memory()?, "users")?;
/// let ann = User { name: "Ann".into(), mails: vec!["ann@example.org".into()] };
/// users.put(&7, &ann)?;
/// assert_eq!(users.get(&7)?, Some(ann));
/// # Ok::<(), firn_typed::Error>(())
/// ```
#[derive(Debug)]
pub struct Postcard<T>(PhantomData<fn() -> T>);

impl<T: Serialize + DeserializeOwned + 'static> Value for Postcard<T> {
    type Owned = T;
    type View<'a> = T;

    fn view_value(bytes: &[u8]) -> Result<T, DecodeError> {
        let wrong = |at, reason| DecodeError::new(std::any::type_name::<T>(), at, reason);
        match postcard::take_from_bytes(bytes) {
            Ok((value, [])) => Ok(value),
            Ok((_, rest)) => {
                Err(wrong(bytes.len() - rest.len(), "bytes remain after the end".to_owned()))
            }
            Err(e) => Err(wrong(0, e.to_string())),
        }
    }

    fn value_from_view(view: T) -> T {
        view
    }
}

impl<T: Serialize> AsValue<Postcard<T>> for T {
    fn encode_value<'a>(&'a self, buffer: &'a mut Buffer) -> Result<&'a [u8], EncodeError> {
        *buffer = postcard::to_extend(self, std::mem::take(buffer))
            .map_err(|e| EncodeError(e.to_string()))?;
        Ok(buffer)
    }
}
