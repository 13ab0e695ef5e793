meta:
  id: data_block
  title: Firn table, the content of a data block
  license: MIT OR Apache-2.0
  ks-version: "0.11"
  endian: le
  imports:
    - common
doc: |
  Entries, laid out so that they are searched without being parsed. See "Data block" in README.md. The key of an entry is the block's
  prefix, the first min(8, len_suffix) bytes of its head from the top, and `rest`.
seq:
  - id: num_entries
    type: u4
    valid:
      min: 1
  - id: len_prefix
    type: u2
    doc: Of a prefix that all keys share; they may share more.
  - id: flags
    type: u1
    valid:
      expr: (_ & ~7) == 0
    doc: 1 UNIFORM, 2 PLAIN, 4 WIDE.
  - id: width
    type: u1
    valid:
      expr: "(flags & 1) != 0 ? _ == 0 : (_ >= 1 and _ <= 8)"
    doc: Bytes of the trailer code in each entry.
  - id: base
    type: u8
    valid:
      expr: "(flags & 1) != 0 ? ((_ & 0xff) >= 1 and (_ & 0xff) <= 4) : _ < 0x100000000000000"
    doc: With UNIFORM the trailer of every entry, otherwise the smallest sequence number.
  - id: heads
    type: u8
    repeat: expr
    repeat-expr: num_entries
    doc: Of each entry the first 8 bytes of its key after the prefix, as a big-endian number.
  - id: offsets
    type:
      switch-on: is_wide
      cases:
        false: u2
        true: u4
    repeat: expr
    repeat-expr: num_entries + 1
    doc: Where the entries begin and where the last one ends, from the start of the entries.
  - id: prefix
    size: len_prefix
  - id: no_gap
    size: offsets[0]
    valid: "[].as<bytes>"
    doc: Nothing, the first entry begins directly here.
  - id: entries
    type: entry(_index)
    size: offsets[_index + 1] - offsets[_index]
    repeat: expr
    repeat-expr: num_entries
  - id: no_rest
    size-eos: true
    valid: "[].as<bytes>"
    doc: Nothing, the last offset fills the block.
instances:
  is_uniform:
    value: (flags & 1) != 0
  is_plain:
    value: (flags & 2) != 0
    doc: All are puts, no key is there twice, none goes on in a neighbouring block.
  is_wide:
    value: (flags & 4) != 0
    doc: The entries take more than 65,535 bytes, offsets have 4.
types:
  entry:
    params:
      - id: i
        type: s4
    seq:
      - id: code
        type: u1
        repeat: expr
        repeat-expr: _parent.width
        doc: Little-endian (seq - base) << 2 | (kind - 1); not there in UNIFORM blocks.
      - id: len_suffix
        type: common::varint
        doc: Length of the key after the prefix.
      - id: rest
        size: "len_suffix.value > 8 ? len_suffix.value - 8 : 0"
        doc: The key's bytes after prefix and head.
      - id: value
        size-eos: true
        doc: Of an entry of the kind blob a reference, see reference in blob_block.
    instances:
      code_number:
        value: >-
          (_parent.width > 0 ? code[0] : 0)
          + (_parent.width > 1 ? code[1] << 8 : 0)
          + (_parent.width > 2 ? code[2] << 16 : 0)
          + (_parent.width > 3 ? code[3] << 24 : 0)
          + (_parent.width > 4 ? code[4] << 32 : 0)
          + (_parent.width > 5 ? code[5] << 40 : 0)
          + (_parent.width > 6 ? code[6] << 48 : 0)
          + (_parent.width > 7 ? code[7] << 56 : 0)
      seq_number:
        doc: 0 in a table that a compaction wrote says that every reader sees the entry.
        value: "_parent.is_uniform ? _parent.base >> 8 : _parent.base + (code_number >> 2)"
      kind:
        value: "_parent.is_uniform ? _parent.base & 0xff : (code_number & 3) + 1"
        enum: kind
enums:
  kind:
    1: put
    2: delete
    3: merge
    4:
      id: blob
      doc: A put whose value lies in a blob file; the value here is a reference to it.
