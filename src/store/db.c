#include "otlite/db.h"

#include <ctype.h>
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MAX_PRAGMAS = 32,
    PRAGMA_NAME = 40,
    PRAGMA_VALUE = 40,
    /* The upper three bytes of every application_id of otlite, "otl". */
    OTLITE_ID_PREFIX = 0x6f746c
};

struct pragma {
    char name[PRAGMA_NAME];
    char value[PRAGMA_VALUE];
};

struct dsn {
    char path[4096];
    struct pragma pragmas[MAX_PRAGMAS];
    int n;
};

/* ---- the DSN ---- */

static bool plain_in_uri(uint8_t c)
{
    return isalnum(c) || c == '-' || c == '_' || c == '.' || c == '~' || c == '/' || c == '(' ||
           c == ')' || c == '=';
}

static void add_encoded(struct buf *out, const char *s)
{
    for (size_t i = 0; s[i] != '\0'; i++) {
        uint8_t c = (uint8_t)s[i];

        /* A second slash at the start would begin a host name. */
        if (plain_in_uri(c) && !(i == 1 && c == '/' && s[0] == '/'))
            buf_add_char(out, (char)c);
        else
            buf_printf(out, "%%%02X", c);
    }
}

void db_dsn(struct buf *out, const char *path, const char *const *pragmas)
{
    char sep = '?';

    buf_add_str(out, "file:");
    add_encoded(out, path);
    for (; pragmas != NULL && *pragmas != NULL; pragmas++) {
        buf_add_char(out, sep);
        buf_add_str(out, "_pragma=");
        add_encoded(out, *pragmas);
        sep = '&';
    }
}

/* Decode up to one of the characters in ends (or the end) into out. Gives where it stopped, or NULL
 * when out is too small or an escape is not valid. */
static const char *decode_part(const char *s, const char *ends, char *out, size_t room)
{
    size_t n = 0;

    while (*s != '\0' && strchr(ends, *s) == NULL) {
        uint8_t c = (uint8_t)*s;

        if (c == '%') {
            if (s[1] == '\0' || s[2] == '\0' || !hex_decode(bytes_of(s + 1, 2), &c) || c == 0)
                return NULL;
            s += 2;
        }
        if (n + 1 >= room)
            return NULL;
        out[n++] = (char)c;
        s++;
    }
    out[n] = '\0';
    return s;
}

/* "name(value)", both of harmless characters only, so that they may stand in SQL as they are. */
static bool parse_pragma(const char *text, struct pragma *out)
{
    const char *open = strchr(text, '(');
    size_t name_n, value_n;

    if (open == NULL)
        return false;
    name_n = (size_t)(open - text);
    value_n = strlen(open + 1);
    if (name_n == 0 || name_n >= sizeof(out->name) || value_n < 2 || value_n > sizeof(out->value) ||
        open[value_n] != ')')
        return false;
    memcpy(out->name, text, name_n);
    out->name[name_n] = '\0';
    memcpy(out->value, open + 1, value_n - 1);
    out->value[value_n - 1] = '\0';
    for (const char *c = out->name; *c != '\0'; c++) {
        if (!islower((uint8_t)*c) && *c != '_')
            return false;
    }
    for (const char *c = out->value; *c != '\0'; c++) {
        if (!isalnum((uint8_t)*c) && *c != '_' && *c != '-')
            return false;
    }
    return true;
}

static enum otl_err parse_dsn(const char *text, struct dsn *out, struct otl_error *err)
{
    const char *s;

    out->n = 0;
    if (strncmp(text, "file:", 5) != 0)
        return otl_fail(err, OTL_EINTERNAL, "the DSN %s does not begin with file:", text);
    s = decode_part(text + 5, "?", out->path, sizeof(out->path));
    if (s == NULL || out->path[0] == '\0')
        return otl_fail(err, OTL_ECONFIG, "the database path in %s is empty, too long or malformed",
                        text);
    while (*s != '\0') {
        char part[PRAGMA_NAME + PRAGMA_VALUE + 16];

        s = decode_part(s + 1, "&", part, sizeof(part));
        if (s != NULL && strncmp(part, "vfs=", 4) == 0)
            continue; /* SQLite's own parameter */
        if (s == NULL || strncmp(part, "_pragma=", 8) != 0 || out->n == MAX_PRAGMAS ||
            !parse_pragma(part + 8, &out->pragmas[out->n]))
            return otl_fail(err, OTL_EINTERNAL,
                            "the DSN %s holds something other than "
                            "_pragma=name(value)",
                            text);
        out->n++;
    }
    return OTL_OK;
}

/* ---- opening ---- */

/* Causes that SQLite would report as "unable to open database file" without saying why. */
static enum otl_err check_path(const char *path, enum db_mode mode, struct otl_error *err)
{
    struct stat st;
    char dir[4096];
    char *slash;
    bool exists = stat(path, &st) == 0;

    if (!exists && errno != ENOENT)
        return otl_fail(err, OTL_ESYSTEM, "%s: %s", path, strerror(errno));
    if (exists && S_ISDIR(st.st_mode))
        return otl_fail(err, OTL_EDB, "%s: is a directory, not a database; move it away", path);
    if (exists && !S_ISREG(st.st_mode))
        return otl_fail(err, OTL_EDB, "%s: is not a regular file", path);
    if (!exists && mode != DB_READ_WRITE_CREATE)
        return otl_fail(err, OTL_ENOTFOUND,
                        "%s: does not exist; otlite serve creates it, or name another --data",
                        path);
    if (exists && access(path, R_OK) != 0)
        return otl_fail(err, OTL_EDB, "%s: cannot be read: %s", path, strerror(errno));
    if (mode == DB_READ_ONLY)
        return OTL_OK;
    if (exists && access(path, W_OK) != 0)
        return otl_fail(err, OTL_EDB, "%s: cannot be written: %s; give otlite's user the right to",
                        path, strerror(errno));
    (void)snprintf(dir, sizeof(dir), "%s", path);
    slash = strrchr(dir, '/');
    if (slash == NULL)
        (void)snprintf(dir, sizeof(dir), ".");
    else
        slash[slash == dir ? 1 : 0] = '\0';
    if (access(dir, W_OK | X_OK) != 0)
        return otl_fail(err, OTL_EDB,
                        "%s: cannot be opened: directory %s is not writable (%s), and SQLite keeps "
                        "its log there; give otlite's user the right to, or name another --data",
                        path, dir, strerror(errno));
    return OTL_OK;
}

static bool pragma_writes(const char *name)
{
    return strcmp(name, "journal_mode") == 0 || strcmp(name, "auto_vacuum") == 0;
}

/* What SQLite answers for a value that was set by word. */
static const char *pragma_readback(const struct pragma *p)
{
    static const struct {
        const char *name, *word, *answer;
    } words[] = {
        {"synchronous", "OFF", "0"},    {"synchronous", "NORMAL", "1"},
        {"synchronous", "FULL", "2"},   {"synchronous", "EXTRA", "3"},
        {"temp_store", "DEFAULT", "0"}, {"temp_store", "FILE", "1"},
        {"temp_store", "MEMORY", "2"},  {"auto_vacuum", "NONE", "0"},
        {"auto_vacuum", "FULL", "1"},   {"auto_vacuum", "INCREMENTAL", "2"},
        {"secure_delete", "OFF", "0"},  {"secure_delete", "ON", "1"},
        {"secure_delete", "FAST", "2"}, {"foreign_keys", "OFF", "0"},
        {"foreign_keys", "ON", "1"},    {"query_only", "OFF", "0"},
        {"query_only", "ON", "1"},
    };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(words[i].name, p->name) == 0 && strcasecmp(words[i].word, p->value) == 0)
            return words[i].answer;
    }
    return p->value;
}

static enum otl_err pragma_apply(struct db *db, const struct pragma *p, struct otl_error *err)
{
    char sql[PRAGMA_NAME + PRAGMA_VALUE + 16];
    char what[PRAGMA_NAME + PRAGMA_VALUE + 16];
    int rc;

    (void)snprintf(sql, sizeof(sql), "PRAGMA %s = %s", p->name, p->value);
    rc = sqlite3_exec(db->sql, sql, NULL, NULL, NULL);
    if (rc != SQLITE_OK) {
        (void)snprintf(what, sizeof(what), "set %s(%s)", p->name, p->value);
        return db_fail(db, rc, what, err);
    }
    return OTL_OK;
}

static enum otl_err pragma_verify(struct db *db, const struct pragma *p, struct otl_error *err)
{
    char sql[PRAGMA_NAME + 16];
    const char *want = pragma_readback(p);
    struct sqlite3_stmt *st;
    enum otl_err rc;
    int step;

    (void)snprintf(sql, sizeof(sql), "PRAGMA %s", p->name);
    rc = db_prepare(db, sql, &st, err);
    if (rc != OTL_OK)
        return rc;
    step = sqlite3_step(st);
    if (step == SQLITE_ROW) {
        const char *is = (const char *)sqlite3_column_text(st, 0);

        if (is == NULL || strcasecmp(is, want) != 0)
            rc = otl_fail(err, OTL_EDB,
                          "%s: pragma %s did not take: wanted %s (%s), it is %s; this SQLite, the "
                          "file system or the file does not allow the setting",
                          db->path, p->name, p->value, want, is == NULL ? "nothing" : is);
    } else if (step == SQLITE_DONE) {
        rc =
            otl_fail(err, OTL_EDB, "%s: pragma %s did not take: wanted %s, SQLite does not know it",
                     db->path, p->name, p->value);
    } else {
        rc = db_fail(db, step, "read a pragma back", err);
    }
    (void)sqlite3_finalize(st);
    return rc;
}

/* The file is what it should be, as far as a look at header and schema tells; nothing was written
 * to it so far. ours_only: also refuse other programs' databases. */
static enum otl_err check_content(struct db *db, enum db_mode mode, bool ours_only,
                                  struct otl_error *err)
{
    int64_t objects, id;
    enum otl_err rc = db_query_int(db, "SELECT count(*) FROM sqlite_schema", &objects, err);

    if (rc == OTL_OK)
        rc = db_query_int(db, "PRAGMA application_id", &id, err);
    if (rc != OTL_OK)
        return rc;
    if (objects == 0 && mode == DB_READ_ONLY && ours_only)
        return otl_fail(err, OTL_EDB, "the database is empty; otlite serve creates its tables");
    if (objects > 0 && ours_only && (id >> 8) != OTLITE_ID_PREFIX)
        return otl_fail(err, OTL_EDB,
                        "this is the database of another program (application_id %lld); otlite "
                        "leaves it alone, name another --data",
                        (long long)id);
    return OTL_OK;
}

static enum otl_err apply_all(struct db *db, const struct dsn *dsn, enum db_mode mode,
                              struct otl_error *err)
{
    bool ours_only = false;
    enum otl_err rc;

    for (int i = 0; i < dsn->n; i++) {
        if (strcmp(dsn->pragmas[i].name, "busy_timeout") == 0)
            (void)sqlite3_busy_timeout(db->sql, atoi(dsn->pragmas[i].value));
        ours_only = ours_only || pragma_writes(dsn->pragmas[i].name);
    }
    rc = check_content(db, mode, ours_only, err);
    for (int i = 0; i < dsn->n && rc == OTL_OK; i++) {
        if (mode != DB_READ_ONLY || !pragma_writes(dsn->pragmas[i].name))
            rc = pragma_apply(db, &dsn->pragmas[i], err);
    }
    for (int i = 0; i < dsn->n && rc == OTL_OK; i++)
        rc = pragma_verify(db, &dsn->pragmas[i], err);
    return rc;
}

static void set_checkpoint_on_close(struct db *db, bool on)
{
    (void)sqlite3_db_config(db->sql, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, on ? 0 : 1, NULL);
}

enum otl_err db_open(struct db *db, const char *dsn, enum db_mode mode, struct otl_error *err)
{
    struct otl_error mine = {0};
    struct dsn *d = malloc(sizeof(*d));
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI;
    enum otl_err rc;
    int src;

    memset(db, 0, sizeof(*db));
    if (d == NULL)
        return otl_fail(err, OTL_ENOMEM, "open a database: no memory");
    rc = parse_dsn(dsn, d, err);
    if (rc == OTL_OK)
        rc = check_path(d->path, mode, err);
    if (rc != OTL_OK)
        goto out;
    memcpy(db->path, d->path, sizeof(db->path));
    if (mode == DB_READ_ONLY)
        flags |= SQLITE_OPEN_READONLY;
    else if (mode == DB_READ_WRITE)
        flags |= SQLITE_OPEN_READWRITE;
    else
        flags |= SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;

    src = sqlite3_open_v2(dsn, &db->sql, flags, NULL);
    if (src != SQLITE_OK) {
        rc = db_fail(db, src, "open it", &mine);
    } else {
        (void)sqlite3_extended_result_codes(db->sql, 1);
        /* Closing a file that turns out not to be ours must not move its log into it. */
        set_checkpoint_on_close(db, false);
        rc = apply_all(db, d, mode, &mine);
    }
    if (rc != OTL_OK) {
        size_t n = strlen(d->path);

        if (strncmp(mine.msg, d->path, n) != 0 || mine.msg[n] != ':')
            (void)otl_wrap(&mine, "%s", d->path);
        if (err != NULL)
            *err = mine;
        db_close(db);
    } else if (mode != DB_READ_ONLY) {
        set_checkpoint_on_close(db, true);
    }
out:
    free(d);
    return rc;
}

void db_close(struct db *db)
{
    if (db->sql != NULL)
        (void)sqlite3_close_v2(db->sql);
    db->sql = NULL;
}

/* ---- errors and statements ---- */

enum otl_err db_fail(struct db *db, int sqlite_rc, const char *what, struct otl_error *err)
{
    const char *slash = strrchr(db->path, '/');
    const char *name = slash != NULL ? slash + 1 : db->path;
    const char *detail = db->sql != NULL ? sqlite3_errmsg(db->sql) : sqlite3_errstr(sqlite_rc);
    const char *hint = "";
    enum otl_err code = OTL_EDB;

    switch (sqlite_rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
        code = OTL_ELOCKED;
        hint = "; another process holds it, try again";
        break;
    case SQLITE_FULL:
        code = OTL_EFULL;
        hint = "; make room on its disk";
        break;
    case SQLITE_IOERR:
        code = sqlite_rc == SQLITE_IOERR_NOMEM ? OTL_ENOMEM : OTL_EIO;
        hint = code == OTL_EIO ? "; look at the disk and the kernel's log" : "";
        break;
    case SQLITE_CORRUPT:
        code = OTL_ECORRUPT;
        hint = "; it is damaged: stop otlite, keep the files, restore a backup";
        break;
    case SQLITE_NOTADB:
        code = OTL_ECORRUPT;
        hint = "; move it away or name another --data";
        break;
    case SQLITE_NOMEM:
        code = OTL_ENOMEM;
        break;
    default:
        break;
    }
    return otl_fail(err, code, "%s: cannot %s: %s (SQLite code %d)%s", name, what, detail,
                    sqlite_rc, hint);
}

enum otl_err db_exec(struct db *db, const char *sql, struct otl_error *err)
{
    int rc = sqlite3_exec(db->sql, sql, NULL, NULL, NULL);
    char what[80];

    if (rc == SQLITE_OK)
        return OTL_OK;
    (void)snprintf(what, sizeof(what), "run \"%.60s\"", sql);
    return db_fail(db, rc, what, err);
}

enum otl_err db_prepare(struct db *db, const char *sql, struct sqlite3_stmt **out,
                        struct otl_error *err)
{
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v3(db->sql, sql, -1, SQLITE_PREPARE_PERSISTENT, &st, NULL);
    char what[80];

    if (rc == SQLITE_OK) {
        *out = st;
        return OTL_OK;
    }
    (void)snprintf(what, sizeof(what), "prepare \"%.60s\"", sql);
    return db_fail(db, rc, what, err);
}

enum otl_err db_run(struct db *db, struct sqlite3_stmt *st, const char *what, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;
    int step;

    do {
        step = sqlite3_step(st);
    } while (step == SQLITE_ROW);
    /* The message must be made before reset and clear_bindings change it. */
    if (step != SQLITE_DONE)
        rc = db_fail(db, step, what, err);
    (void)sqlite3_reset(st);
    (void)sqlite3_clear_bindings(st);
    return rc;
}

enum otl_err db_query_int(struct db *db, const char *sql, int64_t *out, struct otl_error *err)
{
    struct sqlite3_stmt *st;
    char what[80];
    enum otl_err rc = db_prepare(db, sql, &st, err);
    int step;

    if (rc != OTL_OK)
        return rc;
    (void)snprintf(what, sizeof(what), "run \"%.60s\"", sql);
    step = sqlite3_step(st);
    if (step == SQLITE_ROW)
        *out = sqlite3_column_int64(st, 0);
    else if (step == SQLITE_DONE)
        rc = otl_fail(err, OTL_EDB, "\"%.60s\" gave no row", sql);
    else
        rc = db_fail(db, step, what, err);
    (void)sqlite3_finalize(st);
    return rc;
}

/* ---- versions ---- */

/* *version: of the file; 0 for one without tables. */
static enum otl_err read_version(struct db *db, int32_t application_id, int n, int *version,
                                 struct otl_error *err)
{
    int64_t objects, id, v;
    enum otl_err rc = db_query_int(db, "SELECT count(*) FROM sqlite_schema", &objects, err);

    if (rc == OTL_OK)
        rc = db_query_int(db, "PRAGMA application_id", &id, err);
    if (rc == OTL_OK)
        rc = db_query_int(db, "PRAGMA user_version", &v, err);
    if (rc != OTL_OK)
        return rc;
    if (id != application_id && (objects > 0 || id != 0 || v != 0))
        return otl_fail(err, OTL_EDB,
                        "%s: is another program's database or another one of otlite's "
                        "(application_id %lld, expected %ld); otlite leaves it alone",
                        db->path, (long long)id, (long)application_id);
    if (v > n)
        return otl_fail(err, OTL_EDB,
                        "%s: was written by a newer otlite: its schema version is %lld, this "
                        "program knows versions up to %d; run the newer otlite",
                        db->path, (long long)v, n);
    if (v < 0 || (v == 0 && objects > 0))
        return otl_fail(err, OTL_ECORRUPT,
                        "%s: has tables but schema version %lld; it was changed from outside, "
                        "restore a backup",
                        db->path, (long long)v);
    *version = (int)v;
    return OTL_OK;
}

static enum otl_err migrate_one(struct db *db, int32_t application_id, const char *sql, int to,
                                struct otl_error *err)
{
    char stamp[96];
    enum otl_err rc = db_exec(db, sql, err);

    (void)snprintf(stamp, sizeof(stamp), "PRAGMA application_id = %ld; PRAGMA user_version = %d",
                   (long)application_id, to);
    if (rc == OTL_OK)
        rc = db_exec(db, stamp, err);
    return rc;
}

enum otl_err db_migrate(struct db *db, int32_t application_id, const struct db_migration *steps,
                        int n, struct otl_error *err)
{
    int version = 0;
    enum otl_err rc = read_version(db, application_id, n, &version, err);

    if (rc != OTL_OK)
        set_checkpoint_on_close(db, false); /* not ours to change, not even by closing it */
    while (rc == OTL_OK && version < n) {
        rc = db_exec(db, "BEGIN IMMEDIATE", err);
        if (rc != OTL_OK)
            break;
        /* Another process may have been faster while we waited for the lock. */
        rc = read_version(db, application_id, n, &version, err);
        if (rc == OTL_OK && version < n)
            rc = migrate_one(db, application_id, steps[version].sql, version + 1, err);
        if (rc == OTL_OK)
            rc = db_exec(db, "COMMIT", err);
        if (rc == OTL_OK)
            version = version < n ? version + 1 : version;
        else if (!sqlite3_get_autocommit(db->sql))
            (void)sqlite3_exec(db->sql, "ROLLBACK", NULL, NULL, NULL);
    }
    return rc;
}

enum otl_err db_check_version(struct db *db, int32_t application_id, int n, struct otl_error *err)
{
    int version = 0;
    enum otl_err rc = read_version(db, application_id, n, &version, err);

    if (rc == OTL_OK && version < n)
        rc = otl_fail(err, OTL_EDB,
                      "%s: has schema version %d, this program needs %d; run otlite serve on it "
                      "once, which brings it up to date",
                      db->path, version, n);
    return rc;
}
