meta:
  id: common
  title: Firn, what all file kinds share
  license: MIT OR Apache-2.0
  ks-version: "0.11"
  endian: le
doc: |
  Variable-length integers and length-prefixed bytes. See "Conventions" in README.md, which is normative: these files follow it.
types:
  varint:
    doc: |
      LEB128: seven bits a byte, lowest first, the high bit set in all bytes but the last; at most 10 bytes, and the tenth is 0 or 1.
    seq:
      - id: groups
        type: u1
        repeat: until
        repeat-until: (_ & 0x80) == 0
        valid:
          expr: _index < 9 or _ <= 1
    instances:
      len:
        value: groups.size
      value:
        doc: The number, 64 bits.
        value: >-
          (groups[0] & 0x7f)
          + (len > 1 ? (groups[1] & 0x7f) << 7 : 0)
          + (len > 2 ? (groups[2] & 0x7f) << 14 : 0)
          + (len > 3 ? (groups[3] & 0x7f) << 21 : 0)
          + (len > 4 ? (groups[4] & 0x7f) << 28 : 0)
          + (len > 5 ? (groups[5] & 0x7f) << 35 : 0)
          + (len > 6 ? (groups[6] & 0x7f) << 42 : 0)
          + (len > 7 ? (groups[7] & 0x7f) << 49 : 0)
          + (len > 8 ? (groups[8] & 0x7f) << 56 : 0)
          + (len > 9 ? (groups[9] & 0x7f) << 63 : 0)
  blob:
    doc: What the prose calls `bytes`, a varint length and that many bytes.
    seq:
      - id: len
        type: varint
      - id: content
        size: len.value
