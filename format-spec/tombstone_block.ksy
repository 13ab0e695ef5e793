meta:
  id: tombstone_block
  title: Firn table, the content of the tombstone block
  license: MIT OR Apache-2.0
  ks-version: "0.11"
  endian: le
  imports:
    - common
doc: |
  Range deletions, cut into fragments that are sorted and disjoint. See "Tombstone block" in README.md.
seq:
  - id: num_fragments
    type: common::varint
  - id: fragments
    type: fragment
    repeat: expr
    repeat-expr: num_fragments.value
  - id: no_rest
    size-eos: true
    valid: "[].as<bytes>"
types:
  fragment:
    seq:
      - id: start
        type: common::blob
        doc: First key covered.
      - id: end
        type: common::blob
        doc: First key no longer covered.
      - id: num_seqs
        type: common::varint
      - id: newest
        type: common::varint
        doc: The newest sequence number of a deletion that covers the fragment.
      - id: distances
        type: common::varint
        repeat: expr
        repeat-expr: num_seqs.value - 1
        doc: How far each older one lies below the one before, at least 1.
