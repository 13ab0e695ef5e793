//! The language CQL over the data model of `firn-wide`.
