meta:
  id: filter_block
  title: Firn table, the content of the filter block
  license: MIT OR Apache-2.0
  ks-version: "0.11"
  endian: le
doc: |
  A binary fuse filter of XXH3-64 hashes of keys, or of their filter prefixes. See "Filter block" in README.md for how it is asked.
seq:
  - id: kind
    type: u1
    valid:
      any-of: [1, 2]
    doc: Bytes of a fingerprint, before bits are dropped.
  - id: dropped
    type: u1
    valid:
      max: 7
    doc: How many of its highest bits are dropped.
  - id: reserved
    contents: [0, 0]
  - id: len_segment
    type: u4
    valid:
      expr: _ > 0 and (_ & (_ - 1)) == 0
    doc: A power of two.
  - id: seed
    type: u8
  - id: len_segments
    type: u4
    valid:
      expr: _ >= len_segment and _ % len_segment == 0
    doc: Length of all segments but the last two, a multiple of the segment length.
  - id: num_fingerprints
    type: u4
    valid: len_segments + 2 * len_segment
  - id: fingerprints
    size: (num_fingerprints * (8 * kind - dropped) + 7) / 8
    doc: Of 8 * kind - dropped bits each, one behind the other from the lowest bit of the first byte on.
  - id: no_rest
    size-eos: true
    valid: "[].as<bytes>"
