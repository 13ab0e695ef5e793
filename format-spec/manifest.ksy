meta:
  id: manifest
  title: Firn manifest
  license: MIT OR Apache-2.0
  ks-version: "0.11"
  endian: le
doc: |
  What makes up a store. See "Manifest" in README.md. A manifest only grows, a header and frames. The last frame may be torn; `torn` has
  what is left of it. Checksums are for the program to check. A frame's payload is in edits.
seq:
  - id: header
    type: header
  - id: frames
    type: frame
    repeat: until
    repeat-until: not _.is_whole or _io.size - _io.pos < 8
    if: _io.size - _io.pos >= 8
  - id: torn
    size-eos: true
types:
  header:
    seq:
      - id: magic
        contents: ["FIRNMAN", 0x0a]
      - id: version
        type: u4
        valid: 1
      - id: checksum
        type: u4
        doc: CRC-32 of the manifest's number (u64), 0 (u64), and bytes 0 to 11.
  frame:
    seq:
      - id: len_payload
        type: u4
      - id: checksum
        type: u4
        doc: CRC-32 of the manifest's number (u64), the offset of the frame in the file (u64), bytes 0 to 3, and the payload.
      - id: payload
        size: len_payload
        if: is_whole
        doc: Edits; nothing in a mark.
    instances:
      is_whole:
        value: len_payload <= _io.size - _io.pos
