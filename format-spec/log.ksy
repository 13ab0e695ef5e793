meta:
  id: log
  title: Firn log segment
  file-extension: wal
  license: MIT OR Apache-2.0
  ks-version: "0.11"
  endian: le
doc: |
  A segment of the write-ahead log. See "Write-ahead log" in README.md. A segment has a fixed capacity and may hold bytes of an earlier
  life behind its last record; `slots` ends with the first one that is no record of this segment. A slot that looks like a record is one
  only if its checksum says so, which is for the program to check. The operations of a payload are in operations.
seq:
  - id: header
    type: header
  - id: slots
    type: slot
    repeat: until
    repeat-until: not _.is_record or _io.size - _io.pos < 32
    if: _io.size - _io.pos >= 32
  - id: stale
    size-eos: true
    doc: Bytes that were never used, or of an earlier life of the file.
types:
  header:
    doc: 80 bytes.
    seq:
      - id: magic
        contents: ["FIRNWAL", 0x0a]
      - id: version
        type: u4
        valid: 1
      - id: len_header
        type: u4
        valid: 80
      - id: number
        type: u8
        valid:
          min: 1
        doc: The number in the file's name.
      - id: base
        type: u8
        valid:
          expr: _ % 8 == 0 and _ < 0x4000000000000000
        doc: Position of the first record in the log.
      - id: synced
        type: u8
        doc: Position below which the log was durable when the segment was started.
      - id: previous
        type: u8
        doc: Number of the segment that the same writer filled before; 0 in a writer's first.
      - id: capacity
        type: u8
        doc: Length of the file when the segment was started; it may be longer later, and is shorter once the log has been closed.
      - id: store
        type: u8
        doc: Id of the store.
      - id: writer
        type: u8
        doc: A random number that was drawn when the store was opened; the manifest tells which writers' segments count.
      - id: reserved
        type: u4
        doc: Written as 0; readers do not look at it.
      - id: checksum
        type: u4
        doc: CRC-32 of the segment's number (u64), 0 (u64), and bytes 0 to 75.
  slot:
    seq:
      - id: checksum
        type: u4
        doc: CRC-32 of the segment's number (u64), the offset of the record in the file (u64), bytes 4 to 31, and the payload.
      - id: len_payload
        type: u4
      - id: generation
        type: u4
        doc: The low 32 bits of the header's writer + number; something else in bytes of an earlier life, or of another writer.
      - id: kind
        type: u4
        doc: 1 data, 2 mark, which is the end of the file where the log was closed; 0 where nothing was written.
      - id: seq_number
        type: u8
        doc: Number of the first operation; 0 in a mark.
      - id: synced
        type: u8
        doc: Position below which the log was known durable when this was written.
      - id: payload
        size: len_payload
        if: is_record
      - id: padding
        size: (8 - len_payload % 8) % 8
        if: is_record
    instances:
      is_record:
        value: >-
          generation == (((_root.header.number & 0xffffffff) + (_root.header.writer & 0xffffffff)) & 0xffffffff) and kind != 0
          and len_payload <= 0x20000000 and (len_payload + 7) / 8 * 8 <= _io.size - _io.pos
