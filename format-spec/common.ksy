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
        type: group(_index)
        repeat: until
        repeat-until: not _.goes_on
    types:
      group:
        params:
          - id: place
            type: s4
        seq:
          - id: byte
            type: u1
            valid:
              expr: "place < 9 or _ <= 1"
        instances:
          goes_on:
            value: (byte & 0x80) != 0
          bits:
            value: byte & 0x7f
    instances:
      len:
        value: groups.size
      value:
        doc: The number, 64 bits.
        value: >-
          groups[0].bits
          + (len > 1 ? groups[1].bits << 7 : 0)
          + (len > 2 ? groups[2].bits << 14 : 0)
          + (len > 3 ? groups[3].bits << 21 : 0)
          + (len > 4 ? groups[4].bits << 28 : 0)
          + (len > 5 ? groups[5].bits << 35 : 0)
          + (len > 6 ? groups[6].bits << 42 : 0)
          + (len > 7 ? groups[7].bits << 49 : 0)
          + (len > 8 ? groups[8].bits << 56 : 0)
          + (len > 9 ? groups[9].bits << 63 : 0)
  blob:
    doc: What the prose calls `bytes`, a varint length and that many bytes.
    seq:
      - id: len
        type: varint
      - id: content
        size: len.value
