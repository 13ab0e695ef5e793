meta:
  id: table
  title: Firn table file
  file-extension: sst
  license: MIT OR Apache-2.0
  ks-version: "0.11"
  endian: le
doc: |
  A table, or (where it has no index) a blob file, whose data blocks are values. Written once: data blocks in key order, filter block, tombstone block, index block, properties block, footer, without gaps.
  See "Tables" in README.md. What is inside the blocks is in data_block, index_block, filter_block, tombstone_block and
  properties_block, of blob files in blob_block; they apply to a block's bytes after its checksum has been checked and it has been decompressed, both of which
  Kaitai Struct leaves to the program.
seq:
  - id: data
    type: data_blocks
    size: tail.len_data
    doc: All data blocks, in key order.
  - id: filter
    type: block
    size: tail.len_filter
    if: tail.len_filter != 0
  - id: tombstones
    type: block
    size: tail.len_tombstones
    if: tail.len_tombstones != 0
  - id: index
    type: block
    size: tail.len_index
    if: tail.len_index != 0
  - id: properties
    type: block
    size: tail.len_properties
  - id: footer
    type: footer(_io.size - 72)
instances:
  tail:
    pos: _io.size - 72
    type: footer(_io.size - 72)
    doc: The footer, which says how long the parts before it are.
types:
  data_blocks:
    seq:
      - id: blocks
        type: block
        repeat: eos
  block:
    doc: A physical block, a header of 24 bytes and the stored bytes.
    seq:
      - id: magic
        contents: FnB1
      - id: kind
        type: u1
        enum: block_kind
        valid:
          in-enum: true
      - id: codec
        type: u1
        enum: codec
        valid:
          in-enum: true
      - id: reserved1
        type: u2
        valid: 0
      - id: len_stored
        type: u4
        doc: Bytes that follow the header.
      - id: len_raw
        type: u4
        valid:
          expr: >-
            (codec == codec::none ? _ == len_stored : kind != block_kind::filter and _ <= len_stored * 255)
            and _ <= (kind == block_kind::data or kind == block_kind::blob ? 269488126 : kind == block_kind::properties ? 16777216 : 4294967271)
        doc: Bytes after decompression. A filter is never compressed.
      - id: reserved2
        type: u4
        valid: 0
      - id: checksum
        type: u4
        doc: CRC-32 of the file id (u64), the offset of the block in the file (u64), bytes 0 to 19 of the header, and the stored bytes.
      - id: stored
        size: len_stored
        doc: The content, as it is or compressed.
  footer:
    doc: The last 72 bytes. Version and magic stay the last 12 bytes in every later version.
    params:
      - id: ofs
        type: u8
    seq:
      - id: file_id
        type: u8
        doc: The number in the file's name; 0 in an exported table.
      - id: len_data
        type: u8
        valid:
          max: ofs
        doc: Length of all data blocks together, with their headers.
      - id: len_filter
        type: u4
        doc: Length of the filter block with its header; 0 for none.
      - id: len_tombstones
        type: u4
        doc: Length of the tombstone block with its header; 0 for none.
      - id: len_index
        type: u4
        doc: Length of the index block with its header; 0 in blob files only.
      - id: len_properties
        type: u4
        valid:
          expr: len_data + len_filter + len_tombstones + len_index + _ == ofs
        doc: Length of the properties block with its header.
      - id: len_file
        type: u8
        valid: ofs + 72
        doc: Length of the file, footer included.
      - id: store
        type: u8
        doc: Id of the store that wrote the table; 0 when no store did.
      - id: unique
        type: u8
        doc: A random number of the table's own; 0 when no store wrote it.
      - id: checksum
        type: u4
        doc: CRC-32 of the file id (u64), the offset of the footer (u64), bytes 0 to 55 and 60 to 71.
      - id: version
        type: u4
        valid: 1
      - id: magic
        contents: ["FirnSST", 0x0a]
enums:
  block_kind:
    1: data
    2: index
    3: filter
    4: tombstones
    5: properties
    6: blob
  codec:
    0:
      id: none
      doc: Stored as it is.
    1:
      id: lz4
      doc: LZ4 block format, no frame, no length prefix.
    2:
      id: zstd
      doc: One Zstandard frame (RFC 8878), without a dictionary, which states its content size, the raw length.
