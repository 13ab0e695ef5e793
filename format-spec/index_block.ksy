meta:
  id: index_block
  title: Firn table, the content of the index block
  license: MIT OR Apache-2.0
  ks-version: "0.11"
  endian: le
  imports:
    - common
doc: |
  Where the data blocks are and which keys are in which. See "Index block" in README.md. A block begins where the one before ends.
seq:
  - id: num_blocks
    type: common::varint
  - id: prefix
    type: common::blob
    doc: What all separators begin with.
  - id: rows
    type: row
    repeat: expr
    repeat-expr: num_blocks.value
  - id: no_rest
    size-eos: true
    valid: "[].as<bytes>"
types:
  row:
    seq:
      - id: separator
        type: common::blob
        doc: At or above the block's last key and below the first key of the next block, without the prefix.
      - id: len_block
        type: common::varint
        doc: Length of the physical block, header included.
      - id: num_entries
        type: common::varint
      - id: flags
        type: u1
        valid:
          expr: (_ & ~15) == 0
        doc: 1 PLAIN, 2 DENSE, 4 CONTINUES, 8 RAW.
