/* sql.c -- otlite sql: ask the database, without any way to change it.
 *
 * Three locks, each enough by itself for most statements: the connection is opened read-only, it
 * has PRAGMA query_only, and an authorizer lets through only what reads. The last one is what keeps
 * ATTACH and VACUUM INTO from making files, and the pragmas from being switched back. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "otlite/cli.h"

#include "cli/open_reader.h"
#include "cli/options.h"

enum { EXIT_INTERRUPTED = 130 /* 128 + SIGINT, as shells report it */ };

enum form { FORM_LIST, FORM_CSV, FORM_JSON };

struct query {
    struct db db;
    const char *text; /* the whole input */
    enum form form;
    bool header;
    bool denied; /* the authorizer refused a part of the statement */
};

/* For the signal handler; sqlite3_interrupt only sets a flag. */
static sqlite3 *interruptible;

static void on_interrupt(int sig)
{
    (void)sig;
    sqlite3_interrupt(interruptible);
}

/* ---- what may be run ---- */

static bool is_one_of(const char *s, const char *const *words)
{
    for (; *words != NULL; words++)
        if (strcasecmp(s, *words) == 0)
            return true;
    return false;
}

/* Pragmas that only tell something. The first list takes an argument (a table's name), the second
 * must not have one, since with it they would set. */
static bool pragma_reads(const char *name, const char *argument)
{
    static const char *const asking[] = {
        "table_info",  "table_xinfo",      "table_list",      "index_list",  "index_info",
        "index_xinfo", "foreign_key_list", "integrity_check", "quick_check", "foreign_key_check",
        NULL};
    static const char *const plain[] = {"application_id",     "auto_vacuum",
                                        "busy_timeout",       "cache_size",
                                        "collation_list",     "compile_options",
                                        "data_version",       "database_list",
                                        "encoding",           "foreign_keys",
                                        "freelist_count",     "function_list",
                                        "journal_mode",       "mmap_size",
                                        "module_list",        "page_count",
                                        "page_size",          "pragma_list",
                                        "query_only",         "schema_version",
                                        "secure_delete",      "synchronous",
                                        "temp_store",         "user_version",
                                        "wal_autocheckpoint", NULL};

    return is_one_of(name, asking) || (argument == NULL && is_one_of(name, plain));
}

static int authorize(void *arg, int action, const char *a, const char *b, const char *schema,
                     const char *trigger)
{
    static const char *const unsafe[] = {"load_extension", "fts3_tokenizer", NULL};
    struct query *q = arg;
    bool ok = false;

    (void)trigger;
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_RECURSIVE:
    case SQLITE_TRANSACTION:
    case SQLITE_SAVEPOINT:
        ok = true;
        break;
    case SQLITE_FUNCTION:
        ok = b != NULL && !is_one_of(b, unsafe);
        break;
    case SQLITE_PRAGMA:
        ok = a != NULL && pragma_reads(a, b);
        break;
    case SQLITE_UPDATE:
        /* What SQLite asks when a table-valued function (json_each and the like) declares its
         * columns. A real UPDATE of that table is refused by SQLite itself. */
        ok = a != NULL && strcasecmp(a, "sqlite_master") == 0 && schema != NULL &&
             strcasecmp(schema, "main") == 0;
        break;
    case SQLITE_READ:
        /* Nobody needs the hash of a token to read metrics: it reads as NULL. */
        if (schema != NULL && strcasecmp(schema, "state") == 0 && a != NULL && b != NULL &&
            strcasecmp(a, "token") == 0 && strcasecmp(b, "hash") == 0)
            return SQLITE_IGNORE;
        ok = a == NULL || strcasecmp(a, "sqlite_dbpage") != 0;
        break;
    default:
        break;
    }
    if (ok)
        return SQLITE_OK;
    q->denied = true;
    return SQLITE_DENY;
}

/* ---- output ---- */

static struct bytes column(sqlite3_stmt *st, int col)
{
    const void *p = sqlite3_column_blob(st, col);
    int n = sqlite3_column_bytes(st, col);

    return p == NULL || n <= 0 ? (struct bytes){NULL, 0} : bytes_of(p, (size_t)n);
}

static void add_json_value(struct buf *b, sqlite3_stmt *st, int col)
{
    double d;

    switch (sqlite3_column_type(st, col)) {
    case SQLITE_NULL:
        buf_add_str(b, "null");
        break;
    case SQLITE_INTEGER:
        buf_add_bytes(b, column(st, col));
        break;
    case SQLITE_FLOAT:
        d = sqlite3_column_double(st, col);
        if (isinf(d))
            buf_add_str(b, d > 0 ? "9.0e+999" : "-9.0e+999");
        else
            buf_add_double(b, d);
        break;
    case SQLITE_BLOB:
        buf_add_char(b, '"');
        buf_add_base64(b, column(st, col));
        buf_add_char(b, '"');
        break;
    default:
        buf_add_json_string(b, column(st, col));
        break;
    }
}

static void add_row(struct buf *b, const struct query *q, sqlite3_stmt *st)
{
    int n = sqlite3_column_count(st);

    for (int i = 0; i < n; i++) {
        if (q->form == FORM_JSON) {
            buf_add_char(b, i == 0 ? '{' : ',');
            buf_add_json_string(b, bytes_str(sqlite3_column_name(st, i)));
            buf_add_char(b, ':');
            add_json_value(b, st, i);
            continue;
        }
        if (i > 0)
            buf_add_char(b, q->form == FORM_CSV ? ',' : '|');
        if (sqlite3_column_type(st, i) == SQLITE_NULL)
            continue;
        if (q->form == FORM_CSV)
            buf_add_csv_field(b, column(st, i));
        else
            buf_add_bytes(b, column(st, i));
    }
    buf_add_char(b, q->form == FORM_JSON ? '}' : '\n');
}

static void add_header(struct buf *b, const struct query *q, sqlite3_stmt *st)
{
    int n = sqlite3_column_count(st);

    for (int i = 0; i < n; i++) {
        if (i > 0)
            buf_add_char(b, q->form == FORM_CSV ? ',' : '|');
        if (q->form == FORM_CSV)
            buf_add_csv_field(b, bytes_str(sqlite3_column_name(st, i)));
        else
            buf_add_str(b, sqlite3_column_name(st, i));
    }
    buf_add_char(b, '\n');
}

/* ---- errors ---- */

/* Line, column (both from 1, the latter in bytes) and the line itself with a mark below. */
static void show_place(const char *text, size_t at)
{
    size_t start = 0, line = 1, end;

    for (size_t i = 0; i < at; i++) {
        if (text[i] == '\n') {
            line++;
            start = i + 1;
        }
    }
    end = start + strcspn(text + start, "\n");
    fprintf(stderr, "  line %zu, column %zu\n", line, at - start + 1);
    if (end - start <= 160)
        fprintf(stderr, "  %.*s\n  %*s^\n", (int)(end - start), text + start, (int)(at - start),
                "");
}

/* statement: where the failing one begins in q->text. */
static int report(struct query *q, int rc, const char *statement)
{
    int offset = sqlite3_error_offset(q->db.sql);
    struct otl_error err = {0};

    switch (rc & 0xff) {
    case SQLITE_INTERRUPT:
        fprintf(stderr, "otlite sql: interrupted\n");
        return EXIT_INTERRUPTED;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_IOERR:
    case SQLITE_FULL:
    case SQLITE_NOMEM:
        (void)db_fail(&q->db, rc, "run the query", &err);
        return cli_error("sql", &err);
    default:
        break;
    }
    if (q->denied || (rc & 0xff) == SQLITE_READONLY)
        fprintf(stderr,
                "otlite sql: refused (%s); otlite sql only reads: SELECT, EXPLAIN and "
                "pragmas that tell something\n",
                sqlite3_errmsg(q->db.sql));
    else
        fprintf(stderr, "otlite sql: %s\n", sqlite3_errmsg(q->db.sql));
    show_place(q->text, (size_t)(statement - q->text) + (offset > 0 ? (size_t)offset : 0));
    return EX_DATAERR;
}

static bool flush_rows(struct buf *b)
{
    bool ok = !b->failed && fwrite(b->p, 1, b->n, stdout) == b->n;

    buf_reset(b);
    return ok;
}

/* Where the statement's first word is; comments are for SQLite to skip. */
static const char *skip_blanks(const char *s)
{
    return s + strspn(s, " \t\r\n\f;");
}

static int run_statement(struct query *q, sqlite3_stmt *st, const char *begin)
{
    struct buf out = {0};
    size_t rows = 0;
    bool ok = true;
    int rc;

    if (q->header && q->form != FORM_JSON && sqlite3_column_count(st) > 0) {
        add_header(&out, q, st);
        ok = flush_rows(&out);
    }
    while (ok && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        if (q->form == FORM_JSON)
            buf_add_str(&out, rows == 0 ? "[" : ",\n");
        add_row(&out, q, st);
        ok = flush_rows(&out);
        rows++;
    }
    if (ok && rc == SQLITE_DONE && q->form == FORM_JSON && sqlite3_column_count(st) > 0)
        ok = fputs(rows == 0 ? "[]\n" : "]\n", stdout) != EOF;
    buf_fini(&out);
    if (!ok) {
        fprintf(stderr, "otlite sql: cannot write the output: %s\n", strerror(errno));
        return EX_IOERR;
    }
    return rc == SQLITE_DONE ? EX_OK : report(q, rc, begin);
}

static int run_all(struct query *q)
{
    const char *next = skip_blanks(q->text);
    int status = EX_OK;

    while (status == EX_OK && *next != '\0') {
        sqlite3_stmt *st = NULL;
        const char *begin = next;
        int rc;

        q->denied = false;
        rc = sqlite3_prepare_v2(q->db.sql, begin, -1, &st, &next);
        if (rc != SQLITE_OK)
            status = report(q, rc, begin);
        else if (st != NULL) /* NULL: nothing but a comment */
            status = run_statement(q, st, begin);
        sqlite3_finalize(st);
        next = skip_blanks(next);
    }
    return status;
}

/* ---- the subcommand ---- */

static bool read_stdin(struct buf *out)
{
    char part[16384];
    size_t n;

    while ((n = fread(part, 1, sizeof(part), stdin)) > 0)
        buf_add(out, part, n);
    return !ferror(stdin) && !out->failed;
}

static int ask(const struct config *config, struct query *q)
{
    struct sigaction sa = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    struct otl_error err = {0};
    bool state;
    enum otl_err rc = cli_open_reader(config, &q->db, &state, &err);
    int status;

    if (rc == OTL_OK)
        rc = db_exec(&q->db, "PRAGMA query_only = ON", &err);
    if (rc != OTL_OK) {
        db_close(&q->db);
        return cli_error("sql", &err);
    }
    (void)sqlite3_set_authorizer(q->db.sql, authorize, q);
    interruptible = q->db.sql;
    (void)sigaction(SIGINT, &sa, NULL); /* a second one ends the process at once */
    status = run_all(q);
    (void)signal(SIGINT, SIG_DFL); /* before the connection goes that the handler uses */
    db_close(&q->db);
    return status;
}

static int sql_run(int argc, char **argv)
{
    static const char *json, *csv, *header;
    static const struct cli_flag flags[] = {
        {"json", NULL, "an array of objects for each statement", &json},
        {"csv", NULL, "comma-separated, quoted where needed", &csv},
        {"header", NULL, "column names first (with --json they are there anyway)", &header},
        {0},
    };
    static const struct cli_spec spec = {
        .command = "sql",
        .synopsis = "[--json | --csv] [--header] [--data DIR] [QUERY]",
        .about =
            "Run SQL on the database, read-only, also beside a running daemon. QUERY is read from\n"
            "stdin when it is missing or \"-\"; it may hold several statements.\n"
            "Rows are printed as the sqlite3 shell prints them: columns separated by |, NULL as\n"
            "nothing. With --json, BLOBs are base64 and infinities 9.0e+999.\n"
            "Tables: docs/schema.md. The view points has the number points in plain columns;\n"
            "state.db is there as schema \"state\".\n\n"
            "  otlite sql --header \"SELECT * FROM points ORDER BY time DESC LIMIT 10\"",
        .common = CLI_DATA | CLI_CONFIG,
        .flags = flags,
        .max_args = 1,
    };
    struct query q = {0};
    struct buf input = {0};
    struct config config;
    struct cli_args args;
    int status = cli_parse(&spec, argc, argv, &config, &args);

    if (status != CLI_GO)
        return status;
    if (json != NULL && csv != NULL) {
        status = cli_usage_error("sql", "--json and --csv exclude each other");
    } else if (args.n == 1 && strcmp(args.v[0], "-") != 0) {
        q.text = args.v[0];
    } else if (read_stdin(&input)) {
        q.text = buf_cstr(&input);
    } else {
        fprintf(stderr, "otlite sql: cannot read the query from stdin\n");
        status = EX_IOERR;
    }
    if (status == CLI_GO) {
        q.form = json != NULL ? FORM_JSON : csv != NULL ? FORM_CSV : FORM_LIST;
        q.header = header != NULL;
        status = ask(&config, &q);
    }
    buf_fini(&input);
    config_fini(&config);
    return status;
}

const struct cli_command cli_sql = {"sql", "Ask the database with SQL, read-only", sql_run};
