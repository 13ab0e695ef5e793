//! Floor 0: the types of names and values: validation, order, byte-comparable encoding, text.
