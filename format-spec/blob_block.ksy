meta:
  id: blob_block
  title: Firn blob file, the content of a value's block
  license: MIT OR Apache-2.0
  ks-version: "0.11"
  endian: le
  imports:
    - common
doc: |
  A value that tables refer to. See "Blob files" in README.md.
seq:
  - id: len_key
    type: u4
  - id: trailer
    type: u8
    valid:
      expr: "(_ & 0xff) == 1"
    doc: "Of the put as it was written first: seq << 8 | 1."
  - id: key
    size: len_key
  - id: value
    size-eos: true
types:
  reference:
    doc: What an entry of the kind blob has in place of its value.
    seq:
      - id: file
        type: common::varint
        doc: Number of the blob file.
      - id: number
        type: common::varint
        doc: Number of the value in it, from 0.
      - id: ofs_block
        type: common::varint
      - id: len_block
        type: common::varint
        doc: Header included.
      - id: len_value
        type: common::varint
      - id: no_rest
        size-eos: true
        valid: "[].as<bytes>"
