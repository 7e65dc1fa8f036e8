/* reference_r4.c -- a sync service that turned WAL on: the same load with each pragma of the DSN
 * taken away in turn, which leaves SQLite's (that is, Debian's) own value.
 *
 * The daemon refuses to run without its pragmas, so this is the storage alone, in this process: the
 * daemon's schema and rows, opened by the daemon's DSN less what is taken away. Upload: one
 * connection, 100 rows a transaction, checkpoints on it as in the daemon. Download: two connections
 * that read one row, then a range of 100, and so on. Crossed: both at once. */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "otlite/clock.h"
#include "reference.h"
#include "store/schema.h"

enum {
    ROWS = 100,       /* a transaction, and a range */
    A_STATEMENT = 20, /* rows inserted by one */
    READERS = 2,
    FILL = 1000, /* times ROWS before the first load */
    CHECKPOINT_PAGES = 1000,
    MAX_PRAGMAS = 32,
    MAX_VARIANTS = MAX_PRAGMAS + 3,
    SERIES = 10000
};

#define COLUMNS "id, series_id, time, start_time, flags, value"

enum load_kind { UPLOAD, DOWNLOAD, CROSSED, LOADS };

static const char *const load_names[LOADS] = {"upload", "download", "crossed"};

/* The pragmas of the daemon's DSN, as "name(value)". */
struct pragmas {
    char text[MAX_PRAGMAS][64];
    unsigned n;
};

struct variant {
    char name[96];
    const char *pragmas[MAX_PRAGMAS + 1]; /* ends with NULL */
    bool own_checkpoints;      /* wal_autocheckpoint(0) is among them: as the daemon, we do it */
    double *per_second[LOADS]; /* operations, for each round */
    double *upload_p99_ms;
    uint64_t errors;
};

struct r4 {
    struct reference_run *run;
    struct pragmas pragmas;
    struct variant variants[MAX_VARIANTS];
    unsigned n_variants;
    char dir[4096];
};

/* One thread and its connection. */
struct user {
    struct db db;
    bool has_thread, writes, own_checkpoints;
    pthread_t thread;
    struct sqlite3_stmt *begin, *commit, *insert, *one, *range;
    int wal_pages;
    int64_t next_id;  /* to insert */
    int64_t readable; /* ids 1 to this can be read */
    int64_t until_ns;
    uint64_t random;
    uint64_t done, errors;
    struct latencies took;
};

/* --- variants --- */

/* The _pragma parameters of a DSN, which holds no escapes but in its path. */
static enum otl_err parse_pragmas(const char *dsn, struct pragmas *out, struct otl_error *err)
{
    static const char key[] = "_pragma=";
    const char *at = strstr(dsn, key);

    for (; at != NULL; at = strstr(at, key)) {
        size_t n;

        at += sizeof(key) - 1;
        n = strcspn(at, "&");
        if (out->n == MAX_PRAGMAS || n >= sizeof(out->text[0]))
            return otl_fail(err, OTL_EINTERNAL, "the DSN has more pragmas than there is room for");
        memcpy(out->text[out->n], at, n);
        out->text[out->n++][n] = '\0';
    }
    return OTL_OK;
}

static bool is_pragma(const char *text, const char *name)
{
    size_t n = strlen(name);

    return strncmp(text, name, n) == 0 && text[n] == '(';
}

/* All pragmas but the one of index `without`, or (only not NULL) just the one of that name. */
static void add_variant(struct r4 *r4, const char *name, unsigned without, const char *only)
{
    struct variant *v = &r4->variants[r4->n_variants++];
    unsigned n = 0;

    snprintf(v->name, sizeof(v->name), "%s", name);
    for (unsigned i = 0; i < r4->pragmas.n; i++) {
        const char *text = r4->pragmas.text[i];

        if (i == without || (only != NULL && !is_pragma(text, only)))
            continue;
        v->pragmas[n++] = text;
        v->own_checkpoints = v->own_checkpoints || strcmp(text, "wal_autocheckpoint(0)") == 0;
    }
}

static enum otl_err make_variants(struct r4 *r4, struct otl_error *err)
{
    const struct store_opts o = {
        .data_dir = r4->dir,
        .durability = DURABILITY_NORMAL,
        .cache_bytes = INT64_C(512) << 20,
        .mmap_bytes = INT64_C(1) << 30,
        .busy_timeout_ms = 5000,
        .checkpoint_pages = CHECKPOINT_PAGES,
    };
    unsigned rounds = r4->run->o->rounds;
    struct buf dsn = {0};
    enum otl_err rc;

    store_dsn(&dsn, &o);
    if (dsn.failed)
        return otl_fail(err, OTL_ENOMEM, "no memory for the DSN");
    rc = parse_pragmas(buf_cstr(&dsn), &r4->pragmas, err);
    buf_fini(&dsn);
    if (rc != OTL_OK)
        return rc;
    add_variant(r4, "all pragmas", MAX_PRAGMAS, NULL);
    for (unsigned i = 0; i < r4->pragmas.n; i++) {
        char name[96];

        snprintf(name, sizeof(name), "without %s", r4->pragmas.text[i]);
        add_variant(r4, name, i, NULL);
    }
    add_variant(r4, "journal_mode(WAL) alone", MAX_PRAGMAS, "journal_mode");
    add_variant(r4, "no pragma", MAX_PRAGMAS, "");
    for (unsigned i = 0; i < r4->n_variants; i++) {
        struct variant *v = &r4->variants[i];

        for (int k = 0; k < LOADS; k++) {
            v->per_second[k] = calloc(rounds, sizeof(double));
            if (v->per_second[k] == NULL)
                return otl_fail(err, OTL_ENOMEM, "no memory for the figures");
        }
        v->upload_p99_ms = calloc(rounds, sizeof(double));
        if (v->upload_p99_ms == NULL)
            return otl_fail(err, OTL_ENOMEM, "no memory for the figures");
    }
    return OTL_OK;
}

static void free_variants(struct r4 *r4)
{
    for (unsigned i = 0; i < r4->n_variants; i++) {
        for (int k = 0; k < LOADS; k++)
            free(r4->variants[i].per_second[k]);
        free(r4->variants[i].upload_p99_ms);
    }
}

/* --- one connection --- */

static int on_wal(void *arg, sqlite3 *sql, const char *name, int pages)
{
    struct user *u = arg;

    (void)sql;
    (void)name;
    u->wal_pages = pages;
    return SQLITE_OK;
}

static enum otl_err prepare_writer(struct user *u, struct otl_error *err)
{
    struct buf sql = {0};
    enum otl_err rc;

    buf_add_str(&sql, "INSERT INTO number_head_0(" COLUMNS ") VALUES ");
    for (int i = 0; i < A_STATEMENT; i++)
        buf_add_str(&sql, i > 0 ? ",(?,?,?,?,?,?)" : "(?,?,?,?,?,?)");
    rc = sql.failed ? otl_fail(err, OTL_ENOMEM, "no memory for a statement")
                    : db_prepare(&u->db, buf_cstr(&sql), &u->insert, err);
    buf_fini(&sql);
    if (rc == OTL_OK)
        rc = db_prepare(&u->db, "BEGIN IMMEDIATE", &u->begin, err);
    if (rc == OTL_OK)
        rc = db_prepare(&u->db, "COMMIT", &u->commit, err);
    return rc;
}

static enum otl_err prepare_reader(struct user *u, struct otl_error *err)
{
    enum otl_err rc =
        db_prepare(&u->db, "SELECT " COLUMNS " FROM number_head_0 WHERE id = ?1", &u->one, err);

    if (rc == OTL_OK)
        rc = db_prepare(&u->db,
                        "SELECT " COLUMNS " FROM number_head_0 WHERE id >= ?1 AND id < ?1 + ?2",
                        &u->range, err);
    return rc;
}

/* The writer makes the file. */
static enum otl_err user_open(struct user *u, const char *dir, const struct variant *v, bool writes,
                              struct otl_error *err)
{
    struct buf path = {0}, dsn = {0};
    enum otl_err rc;

    u->writes = writes;
    store_path(&path, dir);
    db_dsn(&dsn, buf_cstr(&path), v->pragmas);
    if (path.failed || dsn.failed)
        rc = otl_fail(err, OTL_ENOMEM, "no memory for a DSN");
    else
        rc = db_open(&u->db, buf_cstr(&dsn), writes ? DB_READ_WRITE_CREATE : DB_READ_ONLY, err);
    buf_fini(&path);
    buf_fini(&dsn);
    if (rc == OTL_OK && writes)
        rc = db_migrate(&u->db, TELEMETRY_APPLICATION_ID, telemetry_migrations,
                        telemetry_migration_count, err);
    if (rc == OTL_OK)
        rc = writes ? prepare_writer(u, err) : prepare_reader(u, err);
    if (rc == OTL_OK && writes && v->own_checkpoints) {
        u->own_checkpoints = true;
        (void)sqlite3_wal_hook(u->db.sql, on_wal, u);
    }
    return rc;
}

static void user_close(struct user *u)
{
    sqlite3_stmt *statements[] = {u->begin, u->commit, u->insert, u->one, u->range};

    for (unsigned i = 0; i < sizeof(statements) / sizeof(statements[0]); i++)
        (void)sqlite3_finalize(statements[i]);
    db_close(&u->db);
}

static bool run_statement(sqlite3_stmt *st)
{
    int step = sqlite3_step(st);

    (void)sqlite3_reset(st);
    return step == SQLITE_DONE;
}

static bool insert_rows(struct user *u, int64_t first_id)
{
    int64_t now_ns = clock_wall_ns();

    for (int i = 0; i < ROWS; i += A_STATEMENT) {
        int at = 1, rc = SQLITE_OK;

        for (int k = 0; k < A_STATEMENT; k++) {
            int64_t id = first_id + i + k;

            rc |= sqlite3_bind_int64(u->insert, at++, id);
            rc |= sqlite3_bind_int64(u->insert, at++, 1 + id % SERIES);
            rc |= sqlite3_bind_int64(u->insert, at++, now_ns);
            rc |= sqlite3_bind_int64(u->insert, at++, now_ns - now_ns % NS_PER_S);
            rc |= sqlite3_bind_int64(u->insert, at++, 0);
            rc |= sqlite3_bind_int64(u->insert, at++, INT64_C(1000000000000000) + id);
        }
        if (rc != SQLITE_OK || !run_statement(u->insert))
            return false;
    }
    return true;
}

/* False: it was not committed. */
static bool upload(struct user *u)
{
    bool ok = run_statement(u->begin) && insert_rows(u, u->next_id) && run_statement(u->commit);

    if (!ok && sqlite3_get_autocommit(u->db.sql) == 0)
        (void)sqlite3_exec(u->db.sql, "ROLLBACK", NULL, NULL, NULL);
    if (!ok)
        return false;
    u->next_id += ROWS;
    if (u->own_checkpoints && u->wal_pages >= CHECKPOINT_PAGES) {
        int pages = 0;

        (void)sqlite3_wal_checkpoint_v2(u->db.sql, NULL, SQLITE_CHECKPOINT_PASSIVE, &pages, NULL);
        u->wal_pages = 0;
    }
    return true;
}

/* Rows to read; one transaction, as only the loads are to pay for each. */
static bool fill(struct user *u)
{
    bool ok = run_statement(u->begin);

    for (int i = 0; i < FILL && ok; i++, u->next_id += ROWS)
        ok = insert_rows(u, u->next_id);
    return ok && run_statement(u->commit);
}

static bool download(struct user *u)
{
    sqlite3_stmt *st = u->done % 2 == 0 ? u->one : u->range;
    int64_t wanted = st == u->one ? 1 : ROWS, got = 0;
    int rc, step;

    u->random ^= u->random << 13; /* xorshift64 */
    u->random ^= u->random >> 7;
    u->random ^= u->random << 17;
    rc = sqlite3_bind_int64(st, 1, 1 + (int64_t)(u->random % (uint64_t)(u->readable - ROWS)));
    if (st == u->range)
        rc |= sqlite3_bind_int64(st, 2, ROWS);
    if (rc != SQLITE_OK)
        return false;
    while ((step = sqlite3_step(st)) == SQLITE_ROW) {
        for (int i = 0; i < 6; i++)
            (void)sqlite3_column_int64(st, i);
        got++;
    }
    (void)sqlite3_reset(st);
    return step == SQLITE_DONE && got == wanted;
}

static void *user_main(void *arg)
{
    struct user *u = arg;
    int64_t now_ns = clock_mono_ns();

    while (now_ns < u->until_ns && !reference_interrupted()) {
        bool ok = u->writes ? upload(u) : download(u);
        int64_t done_ns = clock_mono_ns();

        if (ok) {
            u->done++;
            latencies_add(&u->took, done_ns - now_ns);
        } else {
            u->errors++;
        }
        now_ns = done_ns;
    }
    return NULL;
}

/* --- loads --- */

/* users[0] writes, the others read. */
static enum otl_err run_load(struct r4 *r4, struct variant *v, struct user *users,
                             enum load_kind kind, unsigned round, struct otl_error *err)
{
    int64_t step_ns = r4->run->o->step_ms * NS_PER_MS;
    int64_t begin_ns = clock_mono_ns();
    uint64_t done = 0;
    enum otl_err rc = OTL_OK;

    for (int i = 0; i <= READERS && rc == OTL_OK; i++) {
        struct user *u = &users[i];

        if ((u->writes && kind == DOWNLOAD) || (!u->writes && kind == UPLOAD))
            continue;
        u->done = u->errors = 0;
        latencies_reset(&u->took);
        u->until_ns = begin_ns + step_ns;
        u->has_thread = pthread_create(&u->thread, NULL, user_main, u) == 0;
        if (!u->has_thread)
            rc = otl_fail(err, OTL_ESYSTEM, "cannot start a thread");
    }
    for (int i = 0; i <= READERS; i++) {
        struct user *u = &users[i];

        if (!u->has_thread)
            continue;
        (void)pthread_join(u->thread, NULL);
        u->has_thread = false;
        done += u->done;
        v->errors += u->errors;
    }
    v->per_second[kind][round] = (double)done * 1e9 / (double)(clock_mono_ns() - begin_ns);
    if (kind == UPLOAD)
        v->upload_p99_ms[round] = (double)latencies_quantile(&users[0].took, 0.99) / 1e6;
    return rc;
}

/* All three loads on a database of the variant's own. */
static enum otl_err run_variant(struct r4 *r4, struct variant *v, unsigned round,
                                struct otl_error *err)
{
    struct user *users = calloc(1 + READERS, sizeof(*users));
    char dir[4096] = "";
    enum otl_err rc;

    if (users == NULL)
        return otl_fail(err, OTL_ENOMEM, "no memory for the connections");
    rc = scratch_make(dir, sizeof(dir), err);
    if (rc != OTL_OK)
        goto out;
    rc = user_open(&users[0], dir, v, true, err);
    if (rc != OTL_OK)
        goto out;
    users[0].next_id = 1;
    if (!fill(&users[0])) {
        rc = db_fail(&users[0].db, sqlite3_errcode(users[0].db.sql), "fill the database", err);
        goto out;
    }
    for (int i = 1; i <= READERS && rc == OTL_OK; i++) {
        rc = user_open(&users[i], dir, v, false, err);
        users[i].readable = (int64_t)FILL * ROWS;
        users[i].random = UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)i;
    }
    for (int k = 0; k < LOADS && rc == OTL_OK && !reference_interrupted(); k++)
        rc = run_load(r4, v, users, (enum load_kind)k, round, err);
out:
    if (rc != OTL_OK)
        (void)otl_wrap(err, "%s", v->name);
    for (int i = READERS; i >= 0; i--)
        user_close(&users[i]);
    free(users);
    if (dir[0] != '\0')
        scratch_remove(dir);
    return rc;
}

/* Of operations a second to those with all pragmas in the same round; noise that lasts longer than
 * a round so cancels out. */
static double median_ratio(const double *over, const double *under, unsigned rounds,
                           double *scratch)
{
    for (unsigned i = 0; i < rounds; i++)
        scratch[i] = over[i] / under[i];
    return median(scratch, rounds);
}

static double median_copy(const double *v, unsigned rounds, double *scratch)
{
    memcpy(scratch, v, rounds * sizeof(*v));
    return median(scratch, rounds);
}

static const struct variant *find_variant(const struct r4 *r4, const char *start)
{
    for (unsigned i = 0; i < r4->n_variants; i++) {
        if (strncmp(r4->variants[i].name, start, strlen(start)) == 0)
            return &r4->variants[i];
    }
    return NULL;
}

static void note_wal_ratio(const struct r4 *r4, struct result *r, const char *what,
                           const char *with, const char *without, unsigned rounds, double *scratch)
{
    const struct variant *on = find_variant(r4, with), *off = find_variant(r4, without);
    double ratio[LOADS];

    if (on == NULL || off == NULL)
        return;
    for (int k = 0; k < LOADS; k++)
        ratio[k] = median_ratio(on->per_second[k], off->per_second[k], rounds, scratch);
    result_note(r, "WAL to rollback journal, %s: %s %.2f, %s %.2f, %s %.2f.", what, load_names[0],
                ratio[0], load_names[1], ratio[1], load_names[2], ratio[2]);
}

static enum otl_err report(const struct r4 *r4, unsigned rounds, struct otl_error *err)
{
    static const struct result_column columns[] = {
        {"pragmas", "pragmas", -1},
        {"upload_per_second", "upload/s", 0},
        {"upload_ratio", "of all pragmas", 2},
        {"upload_p99_ms", "upload p99 ms", 3},
        {"download_per_second", "download/s", 0},
        {"download_ratio", "of all pragmas", 2},
        {"crossed_per_second", "crossed/s", 0},
        {"crossed_ratio", "of all pragmas", 2},
        {"errors", "errors", 0},
        {NULL, NULL, 0},
    };
    const struct variant *all = &r4->variants[0];
    double *scratch = calloc(rounds, sizeof(*scratch));
    struct result *r;
    enum otl_err rc;

    if (scratch == NULL)
        return otl_fail(err, OTL_ENOMEM, "no memory for the figures");
    rc = result_open(r4->run->o->out, "reference-r4", "R4: each pragma taken away in turn",
                     r4->run->o->command, columns, &r, err);
    if (rc != OTL_OK) {
        free(scratch);
        return rc;
    }
    for (unsigned i = 0; i < r4->n_variants; i++) {
        const struct variant *v = &r4->variants[i];

        result_begin_row(r);
        result_text(r, v->name);
        for (int k = 0; k < LOADS; k++) {
            result_number(r, median_copy(v->per_second[k], rounds, scratch));
            result_number(r, median_ratio(v->per_second[k], all->per_second[k], rounds, scratch));
            if (k == UPLOAD)
                result_number(r, median_copy(v->upload_p99_ms, rounds, scratch));
        }
        result_number(r, (double)v->errors);
        result_end_row(r);
    }
    result_note(r,
                "Medians of %u rounds, each of all variants; ratios within a round. Upload: "
                "transactions of %d rows on one connection; download: reads of one row and of %d "
                "in turn on %d connections; crossed: both.",
                rounds, ROWS, ROWS, READERS);
    note_wal_ratio(r4, r, "all other pragmas as they are", "all pragmas", "without journal_mode",
                   rounds, scratch);
    note_wal_ratio(r4, r, "no other pragma", "journal_mode(WAL) alone", "no pragma", rounds,
                   scratch);
    result_note(r, "Published, WAL alone: upload 3.42, download 2.90, crossed 2.58.");
    free(scratch);
    return result_close(r, err);
}

static enum otl_err r4_run(struct reference_run *run, struct otl_error *err)
{
    struct r4 r4 = {.run = run, .dir = "."};
    unsigned rounds = 0;
    enum otl_err rc = make_variants(&r4, err);

    for (; rounds < run->o->rounds && rc == OTL_OK && !reference_interrupted(); rounds++) {
        for (unsigned i = 0; i < r4.n_variants && rc == OTL_OK && !reference_interrupted(); i++)
            rc = run_variant(&r4, &r4.variants[i], rounds, err);
    }
    if (reference_interrupted() && rounds > 0)
        rounds--; /* the last one is not whole */
    if (rc == OTL_OK && rounds > 0)
        rc = report(&r4, rounds, err);
    free_variants(&r4);
    return rc;
}

const struct reference_command reference_r4 = {
    .name = "r4",
    .summary = "each pragma of the DSN taken away in turn, as ratios",
    .help = "The storage alone, in this process, with the daemon's schema and pragmas, less one\n"
            "pragma at a time: uploads of 100 rows a transaction, reads on other connections, and\n"
            "both at once. Each round runs every variant.\n",
    .step_ms = 1000,
    .rounds = 3,
    .own_daemon_only = true,
    .run = r4_run,
};
