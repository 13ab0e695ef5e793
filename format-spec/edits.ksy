meta:
  id: edits
  title: Firn manifest, the content of a frame
  license: MIT OR Apache-2.0
  ks-version: "0.11"
  endian: le
  imports:
    - common
doc: |
  Edits of a store's state, as messages of tagged fields. See "Messages" in README.md, which has all tags in one table. A reader refuses
  an unknown even tag and skips an unknown odd one.
seq:
  - id: fields
    type: field
    repeat: eos
types:
  field:
    seq:
      - id: tag
        type: common::varint
      - id: len
        type: common::varint
      - id: value
        size: len.value
        type:
          switch-on: tag.value
          cases:
            2: state
            4: create_tree
            6: drop_tree
            8: set_options
            10: tables
            12: counters
            14: log_writers
            16: subscription
            18: drop_subscription
            _: unknown(tag.value)
    instances:
      name:
        value: tag.value
        enum: edit_tag
  state:
    doc: 'All of the state, in place of what was before.'
    seq:
      - id: fields
        type: state_field
        repeat: eos
  state_field:
    seq:
      - id: tag
        type: common::varint
      - id: len
        type: common::varint
      - id: value
        size: len.value
        type:
          switch-on: tag.value
          cases:
            2: number
            4: number
            6: number
            8: number
            10: number
            12: number
            14: tree
            16: log_writer
            18: number
            20: subscription
            _: unknown(tag.value)
    instances:
      name:
        value: tag.value
        enum: state_tag
  log_writer:
    doc: 'The writer of the segments of the log from one on and before the first of the next writer.'
    seq:
      - id: fields
        type: log_writer_field
        repeat: eos
  log_writer_field:
    seq:
      - id: tag
        type: common::varint
      - id: len
        type: common::varint
      - id: value
        size: len.value
        type:
          switch-on: tag.value
          cases:
            2: number
            4: number
            6: fixed
            _: unknown(tag.value)
    instances:
      name:
        value: tag.value
        enum: log_writer_tag
  tree:
    doc: 'A tree and its runs, newest first.'
    seq:
      - id: fields
        type: tree_field
        repeat: eos
  tree_field:
    seq:
      - id: tag
        type: common::varint
      - id: len
        type: common::varint
      - id: value
        size: len.value
        type:
          switch-on: tag.value
          cases:
            2: number
            4: text
            6: options
            8: number
            10: run
            12: blob_file
            _: unknown(tag.value)
    instances:
      name:
        value: tag.value
        enum: tree_tag
  run:
    doc: 'Tables that do not overlap, by first key.'
    seq:
      - id: fields
        type: run_field
        repeat: eos
  run_field:
    seq:
      - id: tag
        type: common::varint
      - id: len
        type: common::varint
      - id: value
        size: len.value
        type:
          switch-on: tag.value
          cases:
            2: number
            4: number
            6: table
            _: unknown(tag.value)
    instances:
      name:
        value: tag.value
        enum: run_tag
  table:
    doc: 'A table file.'
    seq:
      - id: fields
        type: table_field
        repeat: eos
  table_field:
    seq:
      - id: tag
        type: common::varint
      - id: len
        type: common::varint
      - id: value
        size: len.value
        type:
          switch-on: tag.value
          cases:
            2: number
            4: number
            6: number
            8: number
            10: number
            12: number
            14: number
            16: raw
            18: raw
            20: number
            22: number
            24: number
            26: number
            28: number
            30: number
            32: identity
            34: raw
            _: unknown(tag.value)
    instances:
      name:
        value: tag.value
        enum: table_tag
  blob_file:
    doc: 'A file of values that tables refer to.'
    seq:
      - id: fields
        type: blob_file_field
        repeat: eos
  blob_file_field:
    seq:
      - id: tag
        type: common::varint
      - id: len
        type: common::varint
      - id: value
        size: len.value
        type:
          switch-on: tag.value
          cases:
            2: number
            4: number
            6: number
            8: number
            10: number
            12: identity
            _: unknown(tag.value)
    instances:
      name:
        value: tag.value
        enum: blob_file_tag
  create_tree:
    doc: 'A new, empty tree.'
    seq:
      - id: fields
        type: create_tree_field
        repeat: eos
  create_tree_field:
    seq:
      - id: tag
        type: common::varint
      - id: len
        type: common::varint
      - id: value
        size: len.value
        type:
          switch-on: tag.value
          cases:
            2: number
            4: text
            6: options
            8: number
            _: unknown(tag.value)
    instances:
      name:
        value: tag.value
        enum: create_tree_tag
  drop_tree:
    doc: 'A tree goes, with all its tables.'
    seq:
      - id: fields
        type: drop_tree_field
        repeat: eos
  drop_tree_field:
    seq:
      - id: tag
        type: common::varint
      - id: len
        type: common::varint
      - id: value
        size: len.value
        type:
          switch-on: tag.value
          cases:
            2: number
            _: unknown(tag.value)
    instances:
      name:
        value: tag.value
        enum: drop_tree_tag
  set_options:
    doc: "A tree's options are others from now on."
    seq:
      - id: fields
        type: set_options_field
        repeat: eos
  set_options_field:
    seq:
      - id: tag
        type: common::varint
      - id: len
        type: common::varint
      - id: value
        size: len.value
        type:
          switch-on: tag.value
          cases:
            2: number
            4: options
            _: unknown(tag.value)
    instances:
      name:
        value: tag.value
        enum: set_options_tag
  tables:
    doc: 'What a flush or a compaction does.'
    seq:
      - id: fields
        type: tables_field
        repeat: eos
  tables_field:
    seq:
      - id: tag
        type: common::varint
      - id: len
        type: common::varint
      - id: value
        size: len.value
        type:
          switch-on: tag.value
          cases:
            2: number
            4: number
            6: added
            8: number
            10: blob_file
            _: unknown(tag.value)
    instances:
      name:
        value: tag.value
        enum: tables_tag
  added:
    doc: 'A table and the run that it joins.'
    seq:
      - id: fields
        type: added_field
        repeat: eos
  added_field:
    seq:
      - id: tag
        type: common::varint
      - id: len
        type: common::varint
      - id: value
        size: len.value
        type:
          switch-on: tag.value
          cases:
            2: number
            4: number
            6: table
            _: unknown(tag.value)
    instances:
      name:
        value: tag.value
        enum: added_tag
  counters:
    doc: 'Counters rise to these values, never lower.'
    seq:
      - id: fields
        type: counters_field
        repeat: eos
  counters_field:
    seq:
      - id: tag
        type: common::varint
      - id: len
        type: common::varint
      - id: value
        size: len.value
        type:
          switch-on: tag.value
          cases:
            2: number
            4: number
            6: number
            _: unknown(tag.value)
    instances:
      name:
        value: tag.value
        enum: counters_tag
  log_writers:
    doc: 'The store has been opened for writing again: these are the writers of its log from now on, the last one is the new one.'
    seq:
      - id: fields
        type: log_writers_field
        repeat: eos
  log_writers_field:
    seq:
      - id: tag
        type: common::varint
      - id: len
        type: common::varint
      - id: value
        size: len.value
        type:
          switch-on: tag.value
          cases:
            2: log_writer
            _: unknown(tag.value)
    instances:
      name:
        value: tag.value
        enum: log_writers_tag
  subscription:
    doc: 'A consumer of the changes, which has acknowledged them up to a sequence number; the log is retained from the position on.'
    seq:
      - id: fields
        type: subscription_field
        repeat: eos
  subscription_field:
    seq:
      - id: tag
        type: common::varint
      - id: len
        type: common::varint
      - id: value
        size: len.value
        type:
          switch-on: tag.value
          cases:
            2: text
            4: number
            6: number
            8: number
            10: number
            _: unknown(tag.value)
    instances:
      name:
        value: tag.value
        enum: subscription_tag
  drop_subscription:
    doc: 'The subscription of this name is removed.'
    seq:
      - id: fields
        type: drop_subscription_field
        repeat: eos
  drop_subscription_field:
    seq:
      - id: tag
        type: common::varint
      - id: len
        type: common::varint
      - id: value
        size: len.value
        type:
          switch-on: tag.value
          cases:
            2: text
            _: unknown(tag.value)
    instances:
      name:
        value: tag.value
        enum: drop_subscription_tag
  options:
    doc: "What belongs to a tree's files."
    seq:
      - id: fields
        type: options_field
        repeat: eos
  options_field:
    seq:
      - id: tag
        type: common::varint
      - id: len
        type: common::varint
      - id: value
        size: len.value
        type:
          switch-on: tag.value
          cases:
            2: raw
            4: raw
            6: number
            8: number
            10: number
            12: policy
            14: number
            16: text
            18: text
            20: text
            22: text
            24: number
            26: number
            28: number
            _: unknown(tag.value)
    instances:
      name:
        value: tag.value
        enum: options_tag
  policy:
    doc: 'A compaction policy.'
    seq:
      - id: fields
        type: policy_field
        repeat: eos
  policy_field:
    seq:
      - id: tag
        type: common::varint
      - id: len
        type: common::varint
      - id: value
        size: len.value
        type:
          switch-on: tag.value
          cases:
            2: text
            4: parameter
            _: unknown(tag.value)
    instances:
      name:
        value: tag.value
        enum: policy_tag
  parameter:
    doc: "A policy's parameter; its value is of the type number, double or zigzags, as the table of policies in README.md says."
    seq:
      - id: fields
        type: parameter_field
        repeat: eos
  parameter_field:
    seq:
      - id: tag
        type: common::varint
      - id: len
        type: common::varint
      - id: value
        size: len.value
        type:
          switch-on: tag.value
          cases:
            2: text
            4: raw
            _: unknown(tag.value)
    instances:
      name:
        value: tag.value
        enum: parameter_tag
  number:
    doc: One varint that fills the field.
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
  raw:
    doc: Bytes, a key or what a table refers to in blob files; of options one byte per level, compression 0 none, 1 LZ4 and 2 Zstandard, filter 0 none, 1 and 2 bytes of a fingerprint.
    seq:
      - id: raw
        size-eos: true
  fixed:
    doc: A number of 8 bytes that fills the field.
    seq:
      - id: number
        type: u8
      - id: no_rest
        size-eos: true
        valid: "[].as<bytes>"
  identity:
    doc: What the table's own footer says of whose it is.
    seq:
      - id: store
        type: u8
      - id: unique
        type: u8
      - id: no_rest
        size-eos: true
        valid: "[].as<bytes>"
  double:
    doc: What fills the value of a policy's parameter that is a double, as `bucket`.
    seq:
      - id: number
        type: f8
      - id: no_rest
        size-eos: true
        valid: "[].as<bytes>"
  zigzags:
    doc: What fills the value of a policy's parameter that is a list, as `scaling`.
    seq:
      - id: numbers
        type: common::varint
        repeat: eos
  unknown:
    params:
      - id: tag
        type: u8
    seq:
      - id: skipped
        size-eos: true
        valid:
          expr: tag % 2 == 1
enums:
  edit_tag:
    2: snapshot
    4: create_tree
    6: drop_tree
    8: set_options
    10: tables
    12: counters
    14: log_writers
    16: set_subscription
    18: drop_subscription
  state_tag:
    2: store_id
    4: created
    6: next_file
    8: last_seq
    10: wal_floor
    12: next_tree
    14: trees
    16: writers
    18: parent
    20: subscriptions
  log_writer_tag:
    2: first_segment
    4: base
    6: id
  tree_tag:
    2: id
    4: name
    6: options
    8: flushed
    10: runs
    12: blob_files
  run_tag:
    2: level
    4: number
    6: tables
  table_tag:
    2: id
    4: size
    6: entries
    8: deletes
    10: merges
    12: range_deletes
    14: raw_bytes
    16: first_key
    18: last_key
    20: min_seq
    22: max_seq
    24: created
    26: newest
    28: oldest_tombstone
    30: ingested_seq
    32: identity
    34: blob_uses
  blob_file_tag:
    2: id
    4: size
    6: values
    8: bytes
    10: raw_bytes
    12: identity
  create_tree_tag:
    2: id
    4: name
    6: options
    8: flushed
  drop_tree_tag:
    2: id
  set_options_tag:
    2: id
    4: options
  tables_tag:
    2: tree
    4: removed
    6: added
    8: flushed
    10: blob_files
  added_tag:
    2: level
    4: run
    6: table
  counters_tag:
    2: next_file
    4: last_seq
    6: wal_floor
  log_writers_tag:
    2: writers
  subscription_tag:
    2: name
    4: seq
    6: position
    8: max_log_bytes
    10: snapshot_due
  drop_subscription_tag:
    2: name
  options_tag:
    2: compression
    4: filter
    6: block_size
    8: table_size
    10: memtable_size
    12: policy
    14: tombstone_age_secs
    16: merge_operator
    18: compaction_filter
    20: summary
    22: filter_prefix
    24: blob_threshold
    26: blob_gc_percent
    28: filter_allocation
  policy_tag:
    2: name
    4: parameters
  parameter_tag:
    2: name
    4: value
