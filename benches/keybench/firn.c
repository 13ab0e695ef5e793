/*
 * Firn as a backend of keybench, through its C library.
 *
 * Options of the section [firn]: memory_budget (bytes of memtables and cache together),
 * background_threads, durability (process or power), and tree (options of the tree, as of
 * `firn set-options`). keybench frees a value with free(), so a get copies it.
 */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE
#include <firn.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "backend_registry.h"
#include "bench.h"

typedef struct {
    FirnDb *db;
    FirnTree *tree;
    char path[256];
} firn_store;

/* Read after the store is closed. */
static char version[64];

static FirnSlice slice(const char *data, size_t len) {
    FirnSlice s = {(const uint8_t *)data, len};
    return s;
}

/* Returns `done` for success; prints the reason of a failure and returns `failed`. */
static int checked(const char *call, FirnCode code, int done, int failed) {
    if (code == FIRN_CODE_OK) return done;
    fprintf(stderr, "firn %s: %s\n", call, firn_error_message());
    return failed;
}

static void must(const char *call, FirnCode code) {
    if (checked(call, code, 0, -1) != 0) abort();
}

static void *allocated(void *memory) {
    if (!memory) {
        fprintf(stderr, "firn: out of memory\n");
        abort();
    }
    return memory;
}

static int firn_kv_put(void *ctx, const char *k, size_t klen, const char *v, size_t vlen) {
    firn_store *s = ctx;
    FirnCode code = firn_tree_put(s->tree, slice(k, klen), slice(v, vlen), FIRN_DURABILITY_DEFAULT);
    return checked("put", code, 0, -1);
}

static int firn_kv_del(void *ctx, const char *k, size_t klen) {
    firn_store *s = ctx;
    FirnCode code = firn_tree_delete(s->tree, slice(k, klen), FIRN_DURABILITY_DEFAULT);
    return checked("del", code, 1, 0);
}

/* Writes a batch, of puts or, without values, of deletes. */
static int write_batch(firn_store *s, const char *const *keys, const size_t *klens,
                       const char *const *vals, const size_t *vlens, int n) {
    FirnBatch *batch = NULL;
    FirnCode code = firn_batch_new(&batch);
    for (int i = 0; i < n && code == FIRN_CODE_OK; i++) {
        FirnSlice key = slice(keys[i], klens[i]);
        code = vals ? firn_batch_put(batch, s->tree, key, slice(vals[i], vlens[i]))
                    : firn_batch_delete(batch, s->tree, key);
    }
    if (code == FIRN_CODE_OK) code = firn_db_write(s->db, batch, FIRN_DURABILITY_DEFAULT);
    int result = checked("batch", code, 0, -1);
    firn_batch_free(batch);
    return result;
}

static int firn_kv_putbatch(void *ctx, const char *const *keys, const size_t *klens,
                            const char *const *vals, const size_t *vlens, int n) {
    return write_batch(ctx, keys, klens, vals, vlens, n);
}

static int firn_kv_delbatch(void *ctx, const char *const *keys, const size_t *klens, int n) {
    return write_batch(ctx, keys, klens, NULL, NULL, n);
}

/* Copies into memory of the size of the thread's last value, and once more into larger memory if
 * the value is longer. That is cheaper than to obtain a value of the library and copy that. */
static int firn_kv_get(void *ctx, const char *k, size_t klen, const char **vp, size_t *vlen) {
    static _Thread_local size_t capacity = 64;
    firn_store *s = ctx;
    char *copy = allocated(malloc(capacity));
    for (;;) {
        uint8_t *buffer = (uint8_t *)copy;
        FirnCode code = firn_tree_get_into(s->tree, slice(k, klen), buffer, capacity, vlen);
        if (code != FIRN_CODE_OK) {
            free(copy);
            return code == FIRN_CODE_NONE ? 0 : checked("get", code, 1, -1);
        }
        if (*vlen <= capacity) {
            *vp = copy;
            return 1;
        }
        capacity = *vlen;
        copy = allocated(realloc(copy, capacity));
    }
}

static int firn_kv_range(void *ctx, const char *lo, size_t lolen, const char *hi, size_t hilen,
                         int limit, kv_range_cb cb, void *arg) {
    firn_store *s = ctx;
    FirnCursor *cursor = NULL;
    FirnSlice key, value;
    FirnCode code = firn_tree_cursor(s->tree, slice(lo, lolen), slice(hi, hilen), &cursor);
    if (code == FIRN_CODE_OK) code = firn_cursor_first(cursor, &key, &value);
    int n = 0;
    while (code == FIRN_CODE_OK) {
        n++;
        const char *k = (const char *)key.data, *v = (const char *)value.data;
        if (cb && cb(arg, k, key.len, v, value.len)) break;
        if (n == limit) break;
        code = firn_cursor_next(cursor, &key, &value);
    }
    if (code != FIRN_CODE_NONE) checked("range", code, 0, 0);
    firn_cursor_free(cursor);
    return n;
}

static const char *firn_kv_version(void *ctx) {
    (void)ctx;
    return version;
}

static const char *firn_kv_datadir(void *ctx) {
    return ((firn_store *)ctx)->path;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void firn_kv_close(void *ctx) {
    firn_store *s = ctx;
    firn_tree_free(s->tree);
    checked("close", firn_db_close(s->db), 0, 0);
    firn_db_free(s->db);
    nftw(s->path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(s);
}

kv_backend *firn_backend_open(unsigned seed, const char *data_dir, const kv_options *opts) {
    (void)seed;
    firn_store *s = allocated(calloc(1, sizeof *s));
    snprintf(version, sizeof version, "firn %s", firn_version());
    const char *base = kv_opt_str(opts, "data_dir", data_dir);
    if (!base || !*base) base = "/tmp";
    int len = snprintf(s->path, sizeof s->path, "%s/keybench-firn-XXXXXX", base);
    if (len < 0 || (size_t)len >= sizeof s->path || !mkdtemp(s->path)) {
        perror("firn: no directory for the store");
        abort();
    }

    FirnOptions options = {0};
    options.memory_budget = (uint64_t)kv_opt_int(opts, "memory_budget", 0);
    options.background_threads = (int32_t)kv_opt_int(opts, "background_threads", 0);
    const char *durability = kv_opt_str(opts, "durability", "process");
    options.durability = strcmp(durability, "power") == 0 ? FIRN_DURABILITY_POWER
                                                          : FIRN_DURABILITY_PROCESS;
    must("open", firn_db_open(firn_str(s->path), &options, &s->db));
    const char *tree = kv_opt_str(opts, "tree", "");
    must("tree", firn_db_tree_with(s->db, firn_str("keybench"), firn_str(tree), NULL, &s->tree));

    kv_backend *be = allocated(calloc(1, sizeof *be));
    be->name = "firn";
    be->ctx = s;
    be->put = firn_kv_put;
    be->putbatch = firn_kv_putbatch;
    be->get = firn_kv_get;
    be->del = firn_kv_del;
    be->delbatch = firn_kv_delbatch;
    be->range = firn_kv_range;
    be->close = firn_kv_close;
    be->version = firn_kv_version;
    be->datadir = firn_kv_datadir;
    return be;
}

KV_REGISTER_BACKEND("firn", firn_backend_open, 1)
