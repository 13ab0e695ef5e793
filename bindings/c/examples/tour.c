/* A tour of Firn from C: trees, batches, iterators, snapshots, transactions, changes, CQL. Exits with 1 if a check fails. */
#include <firn.h>
#include <stdio.h>
#include <stdlib.h>

static int failures = 0;

/* Reports the line of a call that did not return the expected code. */
static void expect_at(int line, FirnCode got, FirnCode want) {
    if (got != want) {
        fprintf(stderr, "line %d: %d instead of %d: %s\n", line, (int)got, (int)want, firn_error_message());
        failures++;
    }
}
#define EXPECT(call, code) expect_at(__LINE__, (call), (code))
#define OK(call) EXPECT((call), FIRN_CODE_OK)

static void expect_true_at(int line, bool holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "line %d: check failed: %s\n", line, what);
        failures++;
    }
}
#define HOLDS(what) expect_true_at(__LINE__, (what), #what)

static bool is(const uint8_t *data, size_t len, const char *text) {
    return len == strlen(text) && memcmp(data, text, len) == 0;
}

static bool has(const FirnTree *tree, const char *key, const char *value) {
    FirnBytes found;
    FirnCode code = firn_tree_get(tree, firn_str(key), &found);
    if (code == FIRN_CODE_NONE) {
        return value == NULL;
    }
    EXPECT(code, FIRN_CODE_OK);
    bool same = value != NULL && is(found.data, found.len, value);
    firn_bytes_free(found);
    return same;
}

static void trees(const char *dir) {
    FirnOptions options = {0};
    options.memory_budget = 16 << 20;
    FirnDb *db;
    FirnTree *fruit;
    OK(firn_db_open(firn_str(dir), &options, &db));
    OK(firn_db_tree(db, firn_str("fruit"), &fruit));
    OK(firn_tree_put(fruit, firn_str("apple"), firn_str("red"), FIRN_DURABILITY_POWER));
    OK(firn_tree_put(fruit, firn_str("pear"), firn_str("green"), FIRN_DURABILITY_DEFAULT));
    OK(firn_tree_put(fruit, firn_str("empty"), firn_str(""), FIRN_DURABILITY_DEFAULT));
    HOLDS(has(fruit, "apple", "red"));
    HOLDS(has(fruit, "empty", ""));
    HOLDS(has(fruit, "plum", NULL));
    EXPECT(firn_tree_insert_if_absent(fruit, firn_str("pear"), firn_str("x"), 0), FIRN_CODE_NONE);
    OK(firn_tree_compare_and_swap(fruit, firn_str("plum"), firn_str(NULL), firn_str("blue"), 0));
    EXPECT(firn_tree_compare_and_swap(fruit, firn_str("plum"), firn_str("green"), firn_str("x"), 0), FIRN_CODE_NONE);
    OK(firn_tree_compare_and_swap(fruit, firn_str("plum"), firn_str("blue"), firn_str(NULL), 0));

    FirnSnapshot *before;
    OK(firn_db_snapshot(db, &before));
    FirnBatch *batch;
    OK(firn_batch_new(&batch));
    OK(firn_batch_put(batch, fruit, firn_str("fig"), firn_str("brown")));
    OK(firn_batch_delete(batch, fruit, firn_str("empty")));
    OK(firn_batch_delete_range(batch, fruit, firn_str("p"), firn_str(NULL)));
    OK(firn_db_write(db, batch, FIRN_DURABILITY_PROCESS));
    /* A batch is empty after the write, even if the write failed. */
    OK(firn_batch_put(batch, fruit, firn_str("lost"), firn_str("")));
    EXPECT(firn_db_write(db, batch, 7), FIRN_CODE_INVALID_ARGUMENT);
    OK(firn_db_write(db, batch, FIRN_DURABILITY_PROCESS));
    HOLDS(has(fruit, "lost", NULL));
    firn_batch_free(batch);
    HOLDS(has(fruit, "pear", NULL) && has(fruit, "fig", "brown"));
    FirnBytes pear;
    OK(firn_snapshot_get(before, fruit, firn_str("pear"), &pear));
    HOLDS(is(pear.data, pear.len, "green"));
    firn_bytes_free(pear);

    FirnIter *iter;
    FirnSlice key, value;
    OK(firn_snapshot_iter(before, fruit, firn_str("b"), firn_str(NULL), &iter));
    OK(firn_iter_next(iter, &key, &value));
    HOLDS(is(key.data, key.len, "empty") && value.len == 0);
    OK(firn_iter_next_back(iter, &key, NULL));
    HOLDS(is(key.data, key.len, "pear"));
    EXPECT(firn_iter_next(iter, &key, &value), FIRN_CODE_NONE);
    firn_iter_free(iter);

    /* A cursor lends each entry until its next move, in both directions. */
    FirnCursor *cursor;
    OK(firn_snapshot_cursor(before, fruit, firn_str("b"), firn_str(NULL), &cursor));
    EXPECT(firn_cursor_next(cursor, &key, &value), FIRN_CODE_NONE);
    OK(firn_cursor_first(cursor, &key, &value));
    HOLDS(is(key.data, key.len, "empty") && value.len == 0);
    OK(firn_cursor_seek(cursor, firn_str("g"), &key, &value));
    HOLDS(is(key.data, key.len, "pear") && is(value.data, value.len, "green"));
    EXPECT(firn_cursor_next(cursor, NULL, NULL), FIRN_CODE_NONE);
    OK(firn_cursor_last(cursor, &key, NULL));
    HOLDS(is(key.data, key.len, "pear"));
    OK(firn_cursor_prev(cursor, &key, NULL));
    OK(firn_cursor_seek_before(cursor, firn_str("pear"), NULL, &value));
    EXPECT(firn_cursor_seek_before(cursor, firn_str("b"), &key, &value), FIRN_CODE_NONE);
    firn_cursor_free(cursor);
    OK(firn_tree_cursor(fruit, firn_str("p"), firn_str("q"), &cursor));
    EXPECT(firn_cursor_first(cursor, &key, &value), FIRN_CODE_NONE);
    firn_cursor_free(cursor);
    firn_snapshot_free(before);

    FirnTransaction *one, *two;
    OK(firn_db_transaction(db, &one));
    OK(firn_db_transaction(db, &two));
    FirnBytes found;
    OK(firn_transaction_get(one, fruit, firn_str("fig"), &found));
    firn_bytes_free(found);
    OK(firn_transaction_put(one, fruit, firn_str("kiwi"), firn_str("1")));
    OK(firn_transaction_put(two, fruit, firn_str("fig"), firn_str("2")));
    OK(firn_transaction_iter(one, fruit, firn_str("k"), firn_str(NULL), &iter));
    OK(firn_iter_next(iter, &key, &value));
    HOLDS(is(key.data, key.len, "kiwi") && is(value.data, value.len, "1"));
    firn_iter_free(iter);
    OK(firn_transaction_commit(two));
    EXPECT(firn_transaction_commit(one), FIRN_CODE_CONFLICT);
    OK(firn_db_transaction(db, &one));
    OK(firn_transaction_delete(one, fruit, firn_str("fig")));
    OK(firn_transaction_delete_range(one, fruit, firn_str("a"), firn_str("b")));
    firn_transaction_free(one);
    HOLDS(has(fruit, "kiwi", NULL) && has(fruit, "fig", "2") && has(fruit, "apple", "red"));

    FirnSavepoint *savepoint;
    OK(firn_db_transaction(db, &one));
    OK(firn_db_transaction(db, &two));
    OK(firn_transaction_lock(one, fruit, firn_str("fig"), 0));
    EXPECT(firn_transaction_lock(two, fruit, firn_str("fig"), 1000), FIRN_CODE_LOCKED);
    OK(firn_transaction_put(one, fruit, firn_str("fig"), firn_str("3")));
    OK(firn_transaction_savepoint(one, &savepoint));
    OK(firn_transaction_put(one, fruit, firn_str("kiwi"), firn_str("3")));
    EXPECT(firn_transaction_rollback_to(two, savepoint), FIRN_CODE_INVALID_ARGUMENT);
    OK(firn_transaction_rollback_to(one, savepoint));
    firn_savepoint_free(savepoint);
    firn_transaction_free(two);
    OK(firn_transaction_commit(one));
    HOLDS(has(fruit, "kiwi", NULL) && has(fruit, "fig", "3"));

    OK(firn_tree_delete_range(fruit, firn_str(NULL), firn_str(NULL), FIRN_DURABILITY_DEFAULT));
    OK(firn_tree_iter(fruit, firn_str(NULL), firn_str(NULL), &iter));
    EXPECT(firn_iter_next(iter, &key, &value), FIRN_CODE_NONE);
    firn_iter_free(iter);
    FirnBytes json;
    OK(firn_db_stats(db, &json));
    HOLDS(json.len > 100 && json.data[0] == '{');
    firn_bytes_free(json);
    OK(firn_db_tree_names(db, &json));
    HOLDS(is(json.data, json.len, "[\"fruit\"]"));
    firn_bytes_free(json);
    OK(firn_tree_put(fruit, firn_str("kept"), firn_str("1"), FIRN_DURABILITY_DEFAULT));
    OK(firn_db_sync(db));

    /* Handles may be freed in any order: the store is open until the last one is freed. */
    firn_db_free(db);
    EXPECT(firn_db_open(firn_str(dir), NULL, &db), FIRN_CODE_LOCKED);
    firn_tree_free(fruit);
    OK(firn_db_open(firn_str(dir), NULL, &db));
    OK(firn_db_tree(db, firn_str("fruit"), &fruit));
    HOLDS(has(fruit, "kept", "1"));
    OK(firn_db_drop_tree(db, firn_str("fruit")));
    EXPECT(firn_tree_put(fruit, firn_str("x"), firn_str("1"), FIRN_DURABILITY_DEFAULT), FIRN_CODE_CLOSED);
    OK(firn_db_close(db));
    firn_tree_free(fruit);
    EXPECT(firn_db_tree(db, firn_str("new"), &fruit), FIRN_CODE_CLOSED);
    firn_db_free(db);
}

/* Adds up numbers of one digit. Fails for an operand that is not a digit. */
static int add_up(void *context, FirnSlice key, FirnSlice base, const FirnSlice *operands, size_t count, FirnFold *result) {
    (void)key;
    int sum = base.data == NULL ? 0 : base.data[0] - '0';
    for (size_t i = 0; i < count; i++) {
        if (operands[i].len != 1 || operands[i].data[0] < '0' || operands[i].data[0] > '9') {
            return FIRN_CODE_INVALID_ARGUMENT;
        }
        sum += operands[i].data[0] - '0';
    }
    /* The program chooses the context: here the largest sum. */
    if (sum > *(const int *)context) {
        return FIRN_CODE_OK; /* without a result the key has no value */
    }
    char digit = (char)('0' + sum);
    FirnSlice value = {(const uint8_t *)&digit, 1};
    return firn_fold_give(result, value);
}

/* Pairs of an ingestion: numbers as text, in ascending order. The ingestion fails at `fails_at`. */
struct numbers {
    int next, end, fails_at;
    char text[8];
};

static int next_number(void *context, FirnSlice *key, FirnSlice *value) {
    struct numbers *n = context;
    if (n->next == n->fails_at) {
        return FIRN_CODE_IO;
    }
    if (n->next == n->end) {
        return FIRN_CODE_NONE;
    }
    snprintf(n->text, sizeof n->text, "%05d", n->next++);
    *key = *value = firn_str(n->text);
    return FIRN_CODE_OK;
}

static void merges_and_loads(const char *dir) {
    char path[4096], copy[4096];
    snprintf(path, sizeof path, "%s-merges", dir);
    snprintf(copy, sizeof copy, "%s-copy", dir);
    static int largest = 9;
    FirnMerge merge = {firn_str("add digits"), &largest, add_up};
    FirnDb *db;
    FirnTree *sums, *plain;
    FirnBytes found;
    OK(firn_db_open(firn_str(path), NULL, &db));
    OK(firn_db_tree_with(db, firn_str("sums"), firn_str("policy=lazy-leveled:4 memtable_size=1m"), &merge, &sums));
    OK(firn_tree_merge(sums, firn_str("k"), firn_str("1"), FIRN_DURABILITY_DEFAULT));
    OK(firn_tree_flush(sums));
    OK(firn_tree_put(sums, firn_str("p"), firn_str("4"), FIRN_DURABILITY_DEFAULT));
    FirnBatch *batch;
    OK(firn_batch_new(&batch));
    OK(firn_batch_merge(batch, sums, firn_str("k"), firn_str("2")));
    OK(firn_batch_merge(batch, sums, firn_str("p"), firn_str("3")));
    OK(firn_db_write(db, batch, FIRN_DURABILITY_DEFAULT));
    firn_batch_free(batch);
    HOLDS(has(sums, "k", "3") && has(sums, "p", "7"));
    OK(firn_tree_compact(sums, firn_str(NULL), firn_str(NULL)));
    OK(firn_db_wait_idle(db));
    HOLDS(has(sums, "k", "3") && has(sums, "p", "7"));
    OK(firn_tree_merge(sums, firn_str("p"), firn_str("5"), FIRN_DURABILITY_DEFAULT));
    HOLDS(has(sums, "p", NULL));
    OK(firn_tree_merge(sums, firn_str("k"), firn_str("many"), FIRN_DURABILITY_DEFAULT));
    EXPECT(firn_tree_get(sums, firn_str("k"), &found), FIRN_CODE_INVALID_ARGUMENT);
    HOLDS(strstr(firn_error_message(), "add digits") != NULL);
    OK(firn_tree_delete(sums, firn_str("k"), FIRN_DURABILITY_DEFAULT));

    EXPECT(firn_db_tree_with(db, firn_str("x"), firn_str("policy=none"), NULL, &plain), FIRN_CODE_INVALID_ARGUMENT);
    EXPECT(firn_db_tree_with(db, firn_str("x"), firn_str("policy"), NULL, &plain), FIRN_CODE_INVALID_ARGUMENT);
    OK(firn_db_tree(db, firn_str("plain"), &plain));
    EXPECT(firn_tree_merge(plain, firn_str("k"), firn_str("1"), FIRN_DURABILITY_DEFAULT), FIRN_CODE_INVALID_ARGUMENT);
    struct numbers n = {0, 5000, 4000, ""};
    uint64_t count = 0;
    EXPECT(firn_tree_ingest(plain, next_number, &n, &count), FIRN_CODE_INVALID_ARGUMENT);
    HOLDS(count == 0 && has(plain, "00001", NULL));
    n = (struct numbers){0, 5000, -1, ""};
    OK(firn_tree_ingest(plain, next_number, &n, &count));
    HOLDS(count == 5000 && has(plain, "00000", "00000") && has(plain, "04999", "04999"));
    EXPECT(firn_tree_ingest(plain, NULL, NULL, NULL), FIRN_CODE_INVALID_ARGUMENT);

    OK(firn_db_checkpoint(db, firn_str(copy)));
    EXPECT(firn_db_checkpoint(db, firn_str(copy)), FIRN_CODE_INVALID_ARGUMENT);
    firn_tree_free(sums);
    firn_tree_free(plain);
    firn_db_free(db);
    OK(firn_db_open(firn_str(copy), NULL, &db));
    OK(firn_db_tree(db, firn_str("plain"), &plain));
    HOLDS(has(plain, "04999", "04999"));
    firn_tree_free(plain);
    /* A tree stores the name of its merge function. */
    FirnMerge other = {firn_str("another"), &largest, add_up};
    EXPECT(firn_db_tree_with(db, firn_str("sums"), firn_str(NULL), &other, &sums), FIRN_CODE_INCOMPATIBLE);
    OK(firn_db_tree_with(db, firn_str("sums"), firn_str(NULL), &merge, &sums));
    OK(firn_tree_merge(sums, firn_str("new"), firn_str("8"), FIRN_DURABILITY_DEFAULT));
    HOLDS(has(sums, "new", "8") && has(sums, "k", NULL));
    firn_tree_free(sums);
    firn_db_free(db);
}

static void wrong_arguments(void) {
    FirnDb *db;
    FirnTree *tree;
    EXPECT(firn_db_open(firn_str("/nowhere/at all"), NULL, NULL), FIRN_CODE_INVALID_ARGUMENT);
    EXPECT(firn_db_tree(NULL, firn_str("t"), &tree), FIRN_CODE_INVALID_ARGUMENT);
    HOLDS(strcmp(firn_error_message(), "the store is NULL") == 0);
    OK(firn_db_open_memory(&db));
    OK(firn_db_tree(db, firn_str("t"), &tree));
    FirnSlice bad = {NULL, 3};
    EXPECT(firn_tree_put(tree, bad, firn_str(""), FIRN_DURABILITY_DEFAULT), FIRN_CODE_INVALID_ARGUMENT);
    EXPECT(firn_tree_put(tree, firn_str("k"), firn_str(""), 7), FIRN_CODE_INVALID_ARGUMENT);
    FirnSlice huge = {(const uint8_t *)"", SIZE_MAX};
    EXPECT(firn_tree_delete(tree, huge, FIRN_DURABILITY_DEFAULT), FIRN_CODE_INVALID_ARGUMENT);
    EXPECT(firn_iter_next(NULL, NULL, NULL), FIRN_CODE_INVALID_ARGUMENT);
    EXPECT(firn_cursor_first(NULL, NULL, NULL), FIRN_CODE_INVALID_ARGUMENT);
    EXPECT(firn_tree_cursor(tree, bad, firn_str(NULL), NULL), FIRN_CODE_INVALID_ARGUMENT);
    firn_cursor_free(NULL);
    EXPECT(firn_transaction_commit(NULL), FIRN_CODE_INVALID_ARGUMENT);
    EXPECT(firn_transaction_rollback_to(NULL, NULL), FIRN_CODE_INVALID_ARGUMENT);
    firn_savepoint_free(NULL);
    firn_tree_free(NULL);
    firn_tree_free(tree);
    firn_db_free(db);
}

/* Reads a UUID and the time that a database in memory generated. */
static void uuid_and_time(uint8_t uuid[16], int64_t *millis) {
    FirnSession *session;
    FirnRows *rows;
    FirnSlice bytes;
    OK(firn_session_open_memory(&session));
    OK(firn_session_execute(session, firn_str("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")));
    OK(firn_session_execute(session, firn_str("CREATE TABLE k.t (id uuid PRIMARY KEY, at timestamp)")));
    OK(firn_session_execute(session, firn_str("INSERT INTO k.t (id, at) VALUES (uuid(), toTimestamp(now()))")));
    OK(firn_session_query(session, firn_str("SELECT id, at FROM k.t"), &rows));
    OK(firn_rows_next(rows));
    OK(firn_rows_bytes(rows, 0, &bytes));
    memcpy(uuid, bytes.data, 16);
    OK(firn_rows_int(rows, 1, millis));
    firn_rows_free(rows);
    firn_session_free(session);
}

static void time_and_chance(void) {
    uint8_t one[16], two[16];
    int64_t millis;
    uuid_and_time(one, &millis);
    HOLDS(millis > INT64_C(1735689600000)); /* 2025-01-01 */
    uuid_and_time(two, &millis);
    HOLDS(memcmp(one, two, 16) != 0);
}

static uint32_t number_at(const uint8_t *data) {
    return data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
}

/* Many entries, keys and rows with one call. */
static void packed(void) {
    FirnDb *db;
    FirnTree *tree;
    OK(firn_db_open_memory(&db));
    OK(firn_db_tree(db, firn_str("t"), &tree));
    for (char c = 'a'; c <= 'e'; c++) {
        char key[2] = {c, 0};
        OK(firn_tree_put(tree, firn_str(key), firn_str("value"), 0));
    }
    uint8_t buffer[5];
    size_t len = 99;
    OK(firn_tree_get_into(tree, firn_str("a"), buffer, sizeof buffer, &len));
    HOLDS(is(buffer, len, "value"));
    buffer[0] = 'x';
    OK(firn_tree_get_into(tree, firn_str("a"), buffer, 4, &len));
    HOLDS(len == 5 && buffer[0] == 'x');
    OK(firn_tree_get_into(tree, firn_str("a"), NULL, 0, &len));
    EXPECT(firn_tree_get_into(tree, firn_str("z"), buffer, sizeof buffer, &len), FIRN_CODE_NONE);
    EXPECT(firn_tree_get_into(tree, firn_str("a"), NULL, 5, &len), FIRN_CODE_INVALID_ARGUMENT);

    FirnSlice keys = {(const uint8_t *)"\1\0\0\0a\1\0\0\0z", 10};
    FirnBytes values;
    OK(firn_tree_get_many(tree, keys, &values));
    HOLDS(values.len == 13 && number_at(values.data) == 5 && number_at(values.data + 9) == UINT32_MAX);
    firn_bytes_free(values);
    keys.len = 9;
    EXPECT(firn_tree_get_many(tree, keys, &values), FIRN_CODE_INVALID_REQUEST);

    FirnIter *iter;
    FirnSlice entries, key;
    OK(firn_tree_iter(tree, firn_str(NULL), firn_str(NULL), &iter));
    OK(firn_iter_next_many(iter, false, 2, 1000, &entries));
    HOLDS(entries.len == 28 && number_at(entries.data) == 1 && number_at(entries.data + 4) == 5);
    HOLDS(is(entries.data + 8, 6, "avalue") && is(entries.data + 22, 6, "bvalue"));
    OK(firn_iter_next_many(iter, true, 1000, 0, &entries));
    HOLDS(entries.len == 14 && is(entries.data + 8, 6, "evalue"));
    OK(firn_iter_next(iter, &key, NULL));
    HOLDS(is(key.data, key.len, "c"));
    OK(firn_iter_next_many(iter, false, 1000, 1000, &entries));
    EXPECT(firn_iter_next_many(iter, false, 1000, 1000, &entries), FIRN_CODE_NONE);
    firn_iter_free(iter);

    FirnTransaction *transaction;
    OK(firn_db_transaction(db, &transaction));
    OK(firn_transaction_put(transaction, tree, firn_str("f"), firn_str("1")));
    OK(firn_transaction_set_durability(transaction, FIRN_DURABILITY_POWER));
    EXPECT(firn_transaction_set_durability(transaction, 7), FIRN_CODE_INVALID_ARGUMENT);
    OK(firn_transaction_commit(transaction));
    HOLDS(has(tree, "f", "1"));
    firn_tree_free(tree);
    firn_db_free(db);

    FirnSession *session;
    FirnStatement *insert;
    FirnRows *rows;
    FirnBytes type;
    FirnSlice chunk, none = {NULL, 0};
    OK(firn_session_open_memory(&session));
    OK(firn_session_execute(session, firn_str("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")));
    OK(firn_session_execute(session, firn_str("CREATE TABLE k.t (id int PRIMARY KEY, v text)")));
    OK(firn_session_prepare(session, firn_str("INSERT INTO k.t (id, v) VALUES (?, :v)"), &insert));
    OK(firn_statement_marker_name(insert, 1, &key));
    HOLDS(is(key.data, key.len, "v"));
    OK(firn_statement_marker_type(insert, 0, &type));
    HOLDS(is(type.data, type.len, "int"));
    firn_bytes_free(type);
    EXPECT(firn_statement_marker_name(insert, 2, &key), FIRN_CODE_INVALID_ARGUMENT);
    /* In order: an int and a text. */
    FirnSlice parameters = {(const uint8_t *)"\0\2\0\0\0\5\7\0\0\0\13\1\0\0\0x", 16};
    OK(firn_statement_query_packed(insert, parameters, 0, &rows));
    firn_rows_free(rows);
    EXPECT(firn_statement_query_packed(insert, none, 0, &rows), FIRN_CODE_INVALID_REQUEST);
    firn_statement_free(insert);
    /* By name. */
    FirnSlice named = {(const uint8_t *)"\1\1\0\0\0\2\0\0\0id\5\7\0\0\0", 16};
    OK(firn_session_query_packed(session, firn_str("SELECT id, v FROM k.t WHERE id = :id"), named, 0, &rows));
    OK(firn_rows_next_many(rows, 10, 1000, &chunk));
    /* The header has 30 bytes; then the mark of the last chunk, the number of rows, an int, a text. */
    HOLDS(number_at(chunk.data) == 30 && number_at(chunk.data + 4) == 2 && is(chunk.data + 12, 2, "id"));
    HOLDS(chunk.len == 50 && chunk.data[34] == 1 && number_at(chunk.data + 35) == 1);
    HOLDS(chunk.data[39] == 5 && number_at(chunk.data + 40) == 7 && chunk.data[44] == 11 && chunk.data[49] == 'x');
    EXPECT(firn_rows_next(rows), FIRN_CODE_NONE);
    firn_rows_free(rows);
    firn_session_free(session);
}

static void cql(void) {
    FirnSession *session, *other;
    OK(firn_session_open_memory(&session));
    OK(firn_session_execute(session, firn_str("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")));
    OK(firn_session_execute(session, firn_str("USE k")));
    OK(firn_session_clone(session, &other));
    OK(firn_session_execute(other, firn_str("CREATE TABLE songs (id int PRIMARY KEY, title text, tags set<text>, length double, live boolean, raw blob, u uuid)")));
    EXPECT(firn_session_execute(other, firn_str("CREATE TABLE songs (id int PRIMARY KEY)")), FIRN_CODE_ALREADY_EXISTS);
    EXPECT(firn_session_execute(other, firn_str("SELEC")), FIRN_CODE_SYNTAX);
    EXPECT(firn_session_execute(other, firn_str("SELECT * FROM songs WHERE title = 'x'")), FIRN_CODE_INVALID_REQUEST);
    HOLDS(strstr(firn_error_message(), "CREATE INDEX ON k.songs (title)") != NULL);
    firn_session_free(session);

    FirnStatement *insert;
    OK(firn_session_prepare(other, firn_str("INSERT INTO songs (id, title, tags, length, live, raw, u) VALUES (?, ?, ?, ?, ?, ?, ?)"), &insert));
    HOLDS(firn_statement_markers(insert) == 7);
    uint8_t uuid[16] = {7};
    FirnSlice uuid_bytes = {uuid, 16};
    for (int i = 0; i < 25; i++) {
        OK(firn_statement_bind_int(insert, 0, i));
        OK(firn_statement_bind_text(insert, 1, firn_str(i % 2 ? "odd" : "even")));
        OK(firn_statement_bind_json(insert, 2, firn_str("[\"b\", \"a\"]")));
        OK(firn_statement_bind_double(insert, 3, 2.5));
        OK(firn_statement_bind_bool(insert, 4, i == 3));
        OK(firn_statement_bind_blob(insert, 5, firn_str("\x01\x02")));
        OK(firn_statement_bind_uuid(insert, 6, uuid_bytes));
        OK(firn_statement_execute(insert));
    }
    EXPECT(firn_statement_bind_int(insert, 7, 1), FIRN_CODE_INVALID_ARGUMENT);
    EXPECT(firn_statement_bind_uuid(insert, 6, firn_str("x")), FIRN_CODE_INVALID_ARGUMENT);
    OK(firn_statement_bind_text(insert, 0, firn_str("no number")));
    EXPECT(firn_statement_execute(insert), FIRN_CODE_INVALID_REQUEST);
    HOLDS(strstr(firn_error_message(), "bind marker 1, id int: ") != NULL);
    firn_statement_free(insert);

    FirnStatement *select;
    FirnRows *rows;
    OK(firn_session_prepare(other, firn_str("SELECT id, title, tags, length, live, raw, u FROM songs WHERE id IN (3, 4, 5, 99)"), &select));
    OK(firn_statement_query(select, 2, &rows));
    HOLDS(firn_rows_columns(rows) == 7);
    FirnSlice name;
    OK(firn_rows_column_name(rows, 1, &name));
    HOLDS(is(name.data, name.len, "title"));
    FirnBytes text;
    OK(firn_rows_column_type(rows, 2, &text));
    HOLDS(is(text.data, text.len, "set<text>"));
    firn_bytes_free(text);
    int64_t id;
    EXPECT(firn_rows_int(rows, 0, &id), FIRN_CODE_INVALID_ARGUMENT);
    int count = 0, sum = 0;
    FirnCode code;
    while ((code = firn_rows_next(rows)) == FIRN_CODE_OK) {
        double length;
        bool live;
        FirnSlice bytes;
        OK(firn_rows_int(rows, 0, &id));
        OK(firn_rows_double(rows, 3, &length));
        OK(firn_rows_bool(rows, 4, &live));
        HOLDS(length == 2.5 && live == (id == 3));
        OK(firn_rows_bytes(rows, 1, &bytes));
        HOLDS(is(bytes.data, bytes.len, id % 2 ? "odd" : "even"));
        OK(firn_rows_bytes(rows, 6, &bytes));
        HOLDS(bytes.len == 16 && bytes.data[0] == 7);
        OK(firn_rows_json(rows, 2, &text));
        HOLDS(is(text.data, text.len, "[\"a\", \"b\"]"));
        firn_bytes_free(text);
        EXPECT(firn_rows_int(rows, 1, &id), FIRN_CODE_INVALID_REQUEST);
        EXPECT(firn_rows_int(rows, 9, &id), FIRN_CODE_INVALID_REQUEST);
        OK(firn_rows_int(rows, 0, &id));
        sum += (int)id;
        count++;
    }
    EXPECT(code, FIRN_CODE_NONE);
    HOLDS(count == 3 && sum == 12);
    firn_rows_free(rows);
    firn_statement_free(select);

    OK(firn_session_query(other, firn_str("SELECT title FROM songs WHERE id = 200"), &rows));
    EXPECT(firn_rows_next(rows), FIRN_CODE_NONE);
    firn_rows_free(rows);
    OK(firn_session_execute(other, firn_str("INSERT INTO songs (id) VALUES (200)")));
    OK(firn_session_query(other, firn_str("SELECT title FROM songs WHERE id = 200"), &rows));
    OK(firn_rows_next(rows));
    FirnSlice none;
    EXPECT(firn_rows_bytes(rows, 0, &none), FIRN_CODE_NONE);
    firn_rows_free(rows);
    OK(firn_session_close(other));
    EXPECT(firn_session_execute(other, firn_str("INSERT INTO songs (id) VALUES (201)")), FIRN_CODE_CLOSED);
    firn_session_free(other);
}

/* A consumer that follows the changes of a store. */
static void changes(void) {
    FirnDb *db;
    FirnTree *fruit;
    OK(firn_db_open_memory(&db));
    OK(firn_db_tree(db, firn_str("fruit"), &fruit));
    OK(firn_tree_put(fruit, firn_str("apple"), firn_str("red"), FIRN_DURABILITY_DEFAULT));
    FirnSubscription *consumer;
    OK(firn_db_subscribe(db, firn_str("index"), 1 << 20, &consumer));
    bool due = false;
    OK(firn_subscription_snapshot_due(consumer, &due));
    HOLDS(due);
    FirnSnapshot *contents;
    OK(firn_subscription_snapshot(consumer, &contents));
    FirnBytes value;
    OK(firn_snapshot_get(contents, fruit, firn_str("apple"), &value));
    firn_bytes_free(value);
    firn_snapshot_free(contents);
    OK(firn_subscription_acknowledge(consumer));
    FirnBytes position;
    OK(firn_subscription_position(consumer, &position));

    OK(firn_tree_put(fruit, firn_str("cherry"), firn_str("black"), FIRN_DURABILITY_DEFAULT));
    OK(firn_tree_delete_range(fruit, firn_str("a"), firn_str("b"), FIRN_DURABILITY_DEFAULT));
    /* The second time after it resumes behind the stored position. */
    for (int round = 0; round < 2; round++) {
        FirnChange *change;
        FirnChangeOp op;
        bool loaded = true;
        OK(firn_subscription_next(consumer, 0, &change));
        OK(firn_change_is_loaded(change, &loaded));
        HOLDS(!loaded);
        OK(firn_change_next(change, &op));
        HOLDS(op.kind == FIRN_CHANGE_PUT && is(op.tree.data, op.tree.len, "fruit") && op.expires_micros == 0);
        HOLDS(is(op.key.data, op.key.len, "cherry") && is(op.value.data, op.value.len, "black"));
        EXPECT(firn_change_next(change, &op), FIRN_CODE_NONE);
        firn_change_free(change);
        OK(firn_subscription_next(consumer, 1000, &change));
        OK(firn_change_next(change, &op));
        HOLDS(op.kind == FIRN_CHANGE_DELETE_RANGE && is(op.key.data, op.key.len, "a") && is(op.value.data, op.value.len, "b"));
        firn_change_free(change);
        EXPECT(firn_subscription_next(consumer, 0, &change), FIRN_CODE_NONE);
        if (round == 0) {
            FirnSlice stored = {position.data, position.len};
            OK(firn_subscription_resume(consumer, stored));
        }
    }
    OK(firn_subscription_acknowledge(consumer));
    FirnSubscription *second;
    EXPECT(firn_db_subscribe(db, firn_str("index"), 1 << 20, &second), FIRN_CODE_LOCKED);
    OK(firn_db_drop_subscription(db, firn_str("index")));
    EXPECT(firn_subscription_acknowledge(consumer), FIRN_CODE_NOT_FOUND);
    EXPECT(firn_subscription_resume(consumer, firn_str("x")), FIRN_CODE_INVALID_ARGUMENT);
    firn_bytes_free(position);
    firn_subscription_free(consumer);
    firn_tree_free(fruit);
    firn_db_free(db);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: tour DIR\n");
        return 2;
    }
    trees(argv[1]);
    merges_and_loads(argv[1]);
    changes();
    wrong_arguments();
    cql();
    packed();
    time_and_chance();
    if (failures == 0) {
        printf("firn %s: all is as it should be\n", firn_version());
    }
    return failures != 0;
}
