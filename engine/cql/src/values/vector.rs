//! Vectors: literals and similarity functions.

use crate::syntax::text_enum;
use std::sync::Arc;

use firn_wide::Type;
use firn_wide::internals::types::{put_vector_element, vector_elements};

use crate::catalog::ColumnType;
use crate::error::{Error, Result, bail, invalid};
use crate::syntax::ast::QualifiedName;

/// Encodes a vector of these elements.
pub(super) fn put_vector(element: &Type, parts: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(parts.iter().map(|p| p.len() + 1).sum());
    parts.iter().for_each(|part| put_vector_element(element, part, &mut out));
    out
}

/// Returns the error for a null in a vector.
pub(super) fn null_inside() -> Error {
    invalid("null is not supported inside vectors")
}

/// Checks that a vector has the number of elements of its type.
///
/// # Errors
/// `Invalid` with Cassandra's text.
pub fn check_count(name: &str, of: &Type, given: usize) -> Result<()> {
    let Type::Vector(_, count) = of else { return Ok(()) };
    if usize::try_from(*count) == Ok(given) {
        return Ok(());
    }
    let of = ColumnType::frozen(of.clone());
    Err(invalid!(
        "Invalid vector literal for {name} of type {of}; expected {count} elements, but given {given}"
    ))
}

text_enum! {
    /// A similarity function: larger results mean nearer vectors. Results are between 0 and 1, except
    /// for dot products, which have no upper limit.
    Similarity, word {
        /// Angle between the vectors.
        Cosine "cosine",
        /// Distance of the vectors.
        Euclidean "euclidean",
        /// Dot product, intended for vectors of length 1.
        DotProduct "dot_product",
    }
}

impl Similarity {
    /// Returns the similarity for a function name.
    pub(super) fn of_function(name: &QualifiedName<'_>) -> Option<Similarity> {
        let own = name.keyspace.as_ref().is_none_or(|k| k.text == "system");
        let word = name.name.text.to_ascii_lowercase();
        let word = word.strip_prefix("similarity_").filter(|_| own)?;
        Similarity::named(word)
    }

    /// Returns the similarity for a name in index options, ignoring case.
    pub fn named(word: &str) -> Option<Similarity> {
        Similarity::ALL.into_iter().find(|s| s.word().eq_ignore_ascii_case(word))
    }

    /// Computes the similarity of two encoded vectors of floats with the same number of elements.
    ///
    /// # Errors
    /// `Invalid` for bytes that are not such vectors.
    pub fn of(self, a: &[u8], b: &[u8]) -> Result<f32> {
        if a.len() != b.len() || !a.len().is_multiple_of(4) {
            bail!("All arguments must have the same vector dimensions");
        }
        let float = |bytes: &[u8]| f32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let pairs = || a.chunks_exact(4).zip(b.chunks_exact(4)).map(|(a, b)| (float(a), float(b)));
        Ok(match self {
            Similarity::Euclidean => {
                let distance: f32 = pairs().map(|(a, b)| (a - b) * (a - b)).sum();
                1.0 / (1.0 + distance)
            }
            Similarity::DotProduct => {
                let product: f32 = pairs().map(|(a, b)| a * b).sum();
                (1.0 + product) / 2.0
            }
            Similarity::Cosine => {
                let (mut product, mut left, mut right) = (0f32, 0f32, 0f32);
                for (a, b) in pairs() {
                    product += a * b;
                    left += a * a;
                    right += b * b;
                }
                let cosine = f64::from(product) / (f64::from(left) * f64::from(right)).sqrt();
                (1.0 + cosine as f32) / 2.0
            }
        })
    }
}

/// Reports whether all elements of a vector of floats are zero.
pub fn is_zero(vector: &[u8]) -> bool {
    vector.chunks(4).all(|float| {
        float.iter().enumerate().all(|(i, b)| *b & if i == 0 { 0x7F } else { 0xFF } == 0)
    })
}

/// Returns the type of a list of this many elements as an argument of this function: vector
/// functions accept it as a vector of floats.
pub fn argument_of_list(function: &QualifiedName<'_>, elements: usize) -> Option<Type> {
    Similarity::of_function(function)?;
    Some(Type::Vector(Arc::new(Type::Float), u32::try_from(elements).ok()?))
}

/// Decodes the elements of a vector.
pub(super) fn split_vector<'b>(
    element: &Type,
    count: u32,
    bytes: &'b [u8],
) -> Result<Vec<Option<&'b [u8]>>> {
    let parts = vector_elements(element, count, bytes).map_err(|e| invalid(e.0))?;
    Ok(parts.into_iter().map(Some).collect())
}
