meta:
  id: operations
  title: Firn operations, the payload of a log record
  license: MIT OR Apache-2.0
  ks-version: "0.11"
  endian: le
  imports:
    - common
doc: |
  What one record of the log does, all of it or none. See "Operations" in README.md. Operations are numbered consecutively from the
  record's sequence number on.
seq:
  - id: operations
    type: operation
    repeat: eos
types:
  operation:
    seq:
      - id: op
        type: u1
        enum: op
        valid:
          in-enum: true
      - id: tree
        type: common::varint
        doc: The tree's id, 32 bits.
      - id: key
        type: common::blob
        doc: For a range deletion the first key covered.
      - id: value
        type: common::blob
        if: op != op::delete
        doc: The value or operand; for a range deletion the first key no longer covered.
enums:
  op:
    1: put
    2: delete
    3: merge
    4: delete_range
