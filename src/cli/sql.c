/* sql.c -- otlite sql: ask the database, without any way to change it.
 *
 * Three locks, each enough by itself for most statements: the connection is opened read-only, it
 * has PRAGMA query_only, and an authorizer lets through only what reads. The last one is what keeps
 * ATTACH and VACUUM INTO from making files, and the pragmas from being switched back. */
#include <errno.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "otlite/cli.h"
#include "otlite/sql.h"

#include "cli/open_reader.h"
#include "cli/options.h"

enum { EXIT_INTERRUPTED = 130 /* 128 + SIGINT, as shells report it */ };

enum form { FORM_LIST, FORM_CSV, FORM_JSON };

struct query {
    struct db db;
    const char *text; /* the whole input */
    enum form form;
    bool header;
    struct sql_guard guard;
};

/* For the signal handler; sqlite3_interrupt only sets a flag. */
static sqlite3 *interruptible;

static void on_interrupt(int sig)
{
    (void)sig;
    sqlite3_interrupt(interruptible);
}

/* ---- output ---- */

static void add_row(struct buf *b, const struct query *q, sqlite3_stmt *st)
{
    int n = sqlite3_column_count(st);

    for (int i = 0; i < n; i++) {
        if (q->form == FORM_JSON) {
            buf_add_char(b, i == 0 ? '{' : ',');
            buf_add_json_string(b, bytes_str(sqlite3_column_name(st, i)));
            buf_add_char(b, ':');
            sql_add_json(b, st, i);
            continue;
        }
        if (i > 0)
            buf_add_char(b, q->form == FORM_CSV ? ',' : '|');
        if (sqlite3_column_type(st, i) == SQLITE_NULL)
            continue;
        if (q->form == FORM_CSV)
            sql_add_csv(b, st, i);
        else
            buf_add_bytes(b, sql_column(st, i));
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
    size_t line, col, start, end;

    sql_place(text, at, &line, &col);
    start = at - (col - 1);
    end = start + strcspn(text + start, "\n");
    fprintf(stderr, "  line %zu, column %zu\n", line, col);
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
    if (q->guard.what[0] != '\0' || (rc & 0xff) == SQLITE_READONLY)
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

        q->guard.what[0] = '\0';
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
    sql_guard(&q->db, &q->guard);
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
