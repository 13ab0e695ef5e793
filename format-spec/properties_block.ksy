meta:
  id: properties_block
  title: Firn table, the content of the properties block
  license: MIT OR Apache-2.0
  ks-version: "0.11"
  endian: le
  imports:
    - common
doc: |
  What a table knows about itself, as pairs of a name and a value, names strictly ascending. See "Properties block" in README.md. A
  reader skips names that it does not know.
seq:
  - id: pairs
    type: pair
    repeat: eos
types:
  pair:
    seq:
      - id: len_name
        type: common::varint
      - id: name
        type: str
        encoding: ISO-8859-1
        size: len_name.value
      - id: len_value
        type: common::varint
      - id: value
        size: len_value.value
        type:
          switch-on: name
          cases:
            '"block.size"': number
            '"compression"': number
            '"created.micros"': number
            '"data.blocks"': number
            '"deletes"': number
            '"entries"': number
            '"entry.largest"': number
            '"filter"': number
            '"filter.dropped"': number
            '"filter.keys"': number
            '"hook.filter_prefix"': text
            '"hook.merge_operator"': text
            '"hook.compaction_filter"': text
            '"hook.summary"': text
            '"level"': number
            '"merges"': number
            '"oldest.tombstone"': number
            '"range.deletes"': number
            '"raw.keys"': number
            '"raw.values"': number
            '"seq.max"': number
            '"seq.min"': number
            '"tree"': number
            '"tree.name"': text
            '"writer"': text
        doc: A number, a text, or bytes (`keys.first`, `keys.last`, `log.end`, `log.writer`, `summary`, and names not known).
  number:
    seq:
      - id: number
        type: common::varint
      - id: no_rest
        size-eos: true
        valid: "[].as<bytes>"
  text:
    seq:
      - id: text
        type: str
        encoding: UTF-8
        size-eos: true
