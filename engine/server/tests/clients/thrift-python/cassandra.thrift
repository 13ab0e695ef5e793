// What the client beside this file uses of Cassandra's interface 20.1.0: names and numbers as there.

namespace py firn_cassandra

enum ConsistencyLevel { ONE = 1, QUORUM = 2, ALL = 5, ANY = 6, SERIAL = 9 }
enum IndexOperator { EQ, GTE, GT, LTE, LT }
enum IndexType { KEYS }
enum Compression { GZIP = 1, NONE = 2 }
enum CqlResultType { ROWS = 1, VOID = 2, INT = 3 }

struct Column { 1: required binary name, 2: optional binary value, 3: optional i64 timestamp, 4: optional i32 ttl }
struct SuperColumn { 1: required binary name, 2: required list<Column> columns }
struct CounterColumn { 1: required binary name, 2: required i64 value }
struct ColumnOrSuperColumn { 1: optional Column column, 2: optional SuperColumn super_column, 3: optional CounterColumn counter_column }
struct ColumnParent { 3: required string column_family, 4: optional binary super_column }
struct ColumnPath { 3: required string column_family, 4: optional binary super_column, 5: optional binary column }
struct SliceRange { 1: required binary start, 2: required binary finish, 3: required bool reversed = 0, 4: required i32 count = 100 }
struct SlicePredicate { 1: optional list<binary> column_names, 2: optional SliceRange slice_range }
struct IndexExpression { 1: required binary column_name, 2: required IndexOperator op, 3: required binary value }
struct IndexClause { 1: required list<IndexExpression> expressions, 2: required binary start_key, 3: required i32 count = 100 }
struct KeyRange { 1: optional binary start_key, 2: optional binary end_key, 3: optional string start_token, 4: optional string end_token, 5: required i32 count = 100 }
struct KeySlice { 1: required binary key, 2: required list<ColumnOrSuperColumn> columns }
struct Deletion { 1: optional i64 timestamp, 2: optional binary super_column, 3: optional SlicePredicate predicate }
struct Mutation { 1: optional ColumnOrSuperColumn column_or_supercolumn, 2: optional Deletion deletion }
struct CASResult { 1: required bool success, 2: optional list<Column> current_values }
struct ColumnDef { 1: required binary name, 2: required string validation_class, 3: optional IndexType index_type, 4: optional string index_name }
struct CfDef {
  1: required string keyspace, 2: required string name, 3: optional string column_type = "Standard",
  5: optional string comparator_type = "BytesType", 6: optional string subcomparator_type, 8: optional string comment,
  13: optional list<ColumnDef> column_metadata, 15: optional string default_validation_class, 26: optional string key_validation_class
}
struct KsDef { 1: required string name, 2: required string strategy_class, 3: optional map<string, string> strategy_options, 5: required list<CfDef> cf_defs }
struct CqlRow { 1: required binary key, 2: required list<Column> columns }
struct CqlMetadata {
  1: required map<binary, string> name_types, 2: required map<binary, string> value_types,
  3: required string default_name_type, 4: required string default_value_type
}
struct CqlResult { 1: required CqlResultType type, 2: optional list<CqlRow> rows, 3: optional i32 num, 4: optional CqlMetadata schema }

exception NotFoundException {}
exception InvalidRequestException { 1: required string why }
exception UnavailableException {}
exception TimedOutException {}
exception SchemaDisagreementException {}

service Cassandra {
  void set_keyspace(1: required string keyspace) throws (1: InvalidRequestException ire)
  ColumnOrSuperColumn get(1: required binary key, 2: required ColumnPath column_path, 3: required ConsistencyLevel consistency_level = 1)
    throws (1: InvalidRequestException ire, 2: NotFoundException nfe, 3: UnavailableException ue, 4: TimedOutException te)
  list<ColumnOrSuperColumn> get_slice(1: required binary key, 2: required ColumnParent column_parent, 3: required SlicePredicate predicate, 4: required ConsistencyLevel consistency_level = 1)
    throws (1: InvalidRequestException ire, 2: UnavailableException ue, 3: TimedOutException te)
  i32 get_count(1: required binary key, 2: required ColumnParent column_parent, 3: required SlicePredicate predicate, 4: required ConsistencyLevel consistency_level = 1)
    throws (1: InvalidRequestException ire, 2: UnavailableException ue, 3: TimedOutException te)
  map<binary, list<ColumnOrSuperColumn>> multiget_slice(1: required list<binary> keys, 2: required ColumnParent column_parent, 3: required SlicePredicate predicate, 4: required ConsistencyLevel consistency_level = 1)
    throws (1: InvalidRequestException ire, 2: UnavailableException ue, 3: TimedOutException te)
  list<KeySlice> get_range_slices(1: required ColumnParent column_parent, 2: required SlicePredicate predicate, 3: required KeyRange range, 4: required ConsistencyLevel consistency_level = 1)
    throws (1: InvalidRequestException ire, 2: UnavailableException ue, 3: TimedOutException te)
  list<KeySlice> get_indexed_slices(1: required ColumnParent column_parent, 2: required IndexClause index_clause, 3: required SlicePredicate column_predicate, 4: required ConsistencyLevel consistency_level = 1)
    throws (1: InvalidRequestException ire, 2: UnavailableException ue, 3: TimedOutException te)
  void insert(1: required binary key, 2: required ColumnParent column_parent, 3: required Column column, 4: required ConsistencyLevel consistency_level = 1)
    throws (1: InvalidRequestException ire, 2: UnavailableException ue, 3: TimedOutException te)
  void add(1: required binary key, 2: required ColumnParent column_parent, 3: required CounterColumn column, 4: required ConsistencyLevel consistency_level = 1)
    throws (1: InvalidRequestException ire, 2: UnavailableException ue, 3: TimedOutException te)
  CASResult cas(1: required binary key, 2: required string column_family, 3: list<Column> expected, 4: list<Column> updates, 5: required ConsistencyLevel serial_consistency_level = 9, 6: required ConsistencyLevel commit_consistency_level = 2)
    throws (1: InvalidRequestException ire, 2: UnavailableException ue, 3: TimedOutException te)
  void remove(1: required binary key, 2: required ColumnPath column_path, 3: required i64 timestamp, 4: ConsistencyLevel consistency_level = 1)
    throws (1: InvalidRequestException ire, 2: UnavailableException ue, 3: TimedOutException te)
  void batch_mutate(1: required map<binary, map<string, list<Mutation>>> mutation_map, 2: required ConsistencyLevel consistency_level = 1)
    throws (1: InvalidRequestException ire, 2: UnavailableException ue, 3: TimedOutException te)
  void truncate(1: required string cfname) throws (1: InvalidRequestException ire, 2: UnavailableException ue, 3: TimedOutException te)
  map<string, list<string>> describe_schema_versions() throws (1: InvalidRequestException ire)
  string describe_version()
  string describe_cluster_name()
  list<KsDef> describe_keyspaces() throws (1: InvalidRequestException ire)
  KsDef describe_keyspace(1: required string keyspace) throws (1: NotFoundException nfe, 2: InvalidRequestException ire)
  string system_add_keyspace(1: required KsDef ks_def) throws (1: InvalidRequestException ire, 2: SchemaDisagreementException sde)
  string system_drop_keyspace(1: required string keyspace) throws (1: InvalidRequestException ire, 2: SchemaDisagreementException sde)
  string system_add_column_family(1: required CfDef cf_def) throws (1: InvalidRequestException ire, 2: SchemaDisagreementException sde)
  string system_update_column_family(1: required CfDef cf_def) throws (1: InvalidRequestException ire, 2: SchemaDisagreementException sde)
  CqlResult execute_cql3_query(1: required binary query, 2: required Compression compression, 3: required ConsistencyLevel consistency)
    throws (1: InvalidRequestException ire, 2: UnavailableException ue, 3: TimedOutException te, 4: SchemaDisagreementException sde)
}
