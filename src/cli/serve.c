/* serve.c -- the daemon: settings into modules, start, signals, stop. Wiring only.
 *
 * Stop order (I6): no new connections, open exchanges finish, the readers end, maintenance ends
 * after the task under way, the writer drains and checkpoints, the loops end, state.db closes. Each
 * step needs the later ones still standing.
 */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data_dir.h"
#include "maintain_opts.h"
#include "options.h"
#include "otlite/admin.h"
#include "otlite/cli.h"
#include "otlite/clock.h"
#include "otlite/ingest.h"
#include "otlite/log.h"
#include "otlite/maintain.h"
#include "otlite/prom_api.h"
#include "otlite/reader.h"
#include "otlite/sql_api.h"
#include "otlite/state.h"
#include "otlite/stats.h"
#include "otlite/writer.h"
#include "query_opts.h"
#include "units.h"

/* How long open requests may take to finish after SIGTERM; the writer's queue is drained in any
 * case. */
enum { DRAIN_MS = 20000, READ_QUEUE = 256 };

/* What malloc keeps of freed memory, in each thread's heap, and what it maps and unmaps each time.
 */
enum { KEPT_BYTES = 16 << 20, MAPPED_BYTES = 8 << 20 };

struct daemon {
    struct config config;
    int lock_fd;
    struct state *state;
    struct state *_Atomic ticking; /* the same, once it is open; for the writer thread */
    struct writer *writer;
    struct maintain_opts maintain; /* with the rules that the maintainer borrows */
    struct maintainer *maintainer;
    struct read_shared *shared; /* of all readers: mirror of the head, cache, index of labels */
    struct reader_pool *readers;
    struct http_server *http;
    struct ingest *ingest;
    struct auth auth;
    struct admin admin;
    struct sql_api sql;
    struct query_engine *engine;
    char *config_text; /* what status/config shows */
    struct prom_api prom;
    struct http_route *routes;
    char **route_paths; /* what the routes' paths point to */
};

static const struct cli_spec spec = {
    .command = "serve",
    .synopsis = "[--listen ADDR:PORT] [--data DIR] [--config FILE] [--set KEY=VALUE]...",
    .about = "Take OTLP metrics over HTTP and commit every point to DIR/telemetry.db before the\n"
             "answer. SIGTERM stops it (everything queued is finished first); SIGHUP reads tokens\n"
             "and the log settings again.",
    .common = CLI_CONFIG | CLI_DATA | CLI_LISTEN,
};

/* Once a second, on the writer thread. */
static void tick(void *arg)
{
    struct daemon *d = arg;
    static struct log_gate gate;
    struct otl_error err;
    char path[4096];
    struct state *state = atomic_load(&d->ticking);
    struct stat st;
    uint64_t held;

    if (state == NULL)
        return;
    (void)snprintf(path, sizeof(path), "%s/state.db", d->config.data);
    if (stat(path, &st) == 0)
        STATS_SET(state_bytes, (int64_t)st.st_size);
    if (state_refresh(state, &err) != OTL_OK && log_gate_open(&gate, 10 * NS_PER_S, &held))
        LOG(LOG_WARN, "state", "cannot read tokens again", LOG_S("error", err.msg));
}

static int64_t project_id(void *arg, const char *name)
{
    struct daemon *d = arg;
    struct otl_error err;
    int64_t id = 0;

    return state_project(d->state, name, &id, &err) == OTL_OK ? id : 0;
}

/* The state.db part of a request, before its telemetry transaction. */
static enum otl_err before_batch(void *arg, int64_t project_id, const struct batch *b,
                                 struct otl_error *err)
{
    struct daemon *d = arg;

    return state_note_batch(d->state, project_id, b, err);
}

static enum otl_err start_storage(struct daemon *d, struct otl_error *err)
{
    const struct config *c = &d->config;
    struct writer_opts w = {
        .max_queue_bytes = (size_t)c->queue_max_bytes,
        .max_queue_jobs = (size_t)c->queue_max_requests,
        .max_age_ms = c->queue_max_age,
        .before_batch = before_batch,
        .tick = tick,
        .max_bytes = c->retention_max_bytes,
    };
    enum otl_err rc;

    /* telemetry.db first: it is the one more likely to be refused, and then state.db stays as it
     * is. The writer has nothing to do before HTTP is served. */
    cli_store_opts(c, &w.store);
    w.arg = d;
    rc = writer_start(&w, &d->writer, err);
    if (rc == OTL_OK)
        rc = state_open(c->data, &d->state, err);
    if (rc != OTL_OK)
        return rc;
    state_sync_notes(d->state, w.store.durability == DURABILITY_FULL);
    atomic_store(&d->ticking, d->state);
    rc = cli_maintain_opts(c, &d->maintain, err);
    if (rc == OTL_OK) {
        d->maintain.store = w.store;
        d->maintain.project_id = project_id;
        d->maintain.project_arg = d;
        rc = maintainer_start(&d->maintain, d->writer, &d->maintainer, err);
    }
    if (rc != OTL_OK)
        return rc;
    rc = read_shared_new(writer_mirror(d->writer), (size_t)c->query_cache_size, &d->shared, err);
    return rc == OTL_OK ? reader_pool_start(&w.store, READ_QUEUE, d->shared, &d->readers, err) : rc;
}

/* Without a token nobody could be kept out, so only this machine is served then, unless the
 * operator says by name that everyone may come in. */
static enum otl_err check_exposure(struct daemon *d, struct otl_error *err)
{
    const struct config *c = &d->config;

    d->auth = (struct auth){
        .state = d->state, .none = strcmp(c->auth, "none") == 0, .loopback_only = true};
    for (char **l = c->listen; *l != NULL; l++) {
        if (listen_is_loopback(*l))
            continue;
        d->auth.loopback_only = false;
        if (!d->auth.none && state_token_count(d->state) == 0)
            return otl_fail(err, OTL_ECONFIG,
                            "listen: %s can be reached from other machines and there is no token; "
                            "make one with `otlite token create --project NAME --scope write "
                            "--data %s`, or allow everyone with --set auth=none",
                            *l, c->data);
    }
    return OTL_OK;
}

static size_t list_length(char *const *list)
{
    size_t n = 0;

    while (list[n] != NULL)
        n++;
    return n;
}

/* prefix + path, without a trailing slash except for "/" itself. */
static char *join_path(const char *prefix, const char *path)
{
    size_t a = strlen(prefix), b = strlen(path);
    char *s = malloc(a + b + 2);

    if (s == NULL)
        return NULL;
    (void)snprintf(s, a + b + 2, "%s%s", prefix, path);
    if (a + b > 1 && s[a + b - 1] == '/')
        s[a + b - 1] = '\0';
    return s;
}

static enum otl_err make_routes(struct daemon *d, struct otl_error *err)
{
    const struct config *c = &d->config;
    const struct http_route own[] = {
        {"/healthz", "GET, HEAD", HTTP_GET | HTTP_HEAD, NULL, admin_healthz, &d->admin},
        {"/readyz", "GET, HEAD", HTTP_GET | HTTP_HEAD, NULL, admin_readyz, &d->admin},
        {"/metrics", "GET, HEAD", HTTP_GET | HTTP_HEAD, NULL, admin_metrics, &d->admin},
        {"/api/v1/sql", "POST", HTTP_POST, sql_api_admit, sql_api_handle, &d->sql},
    };
    size_t n_own = sizeof(own) / sizeof(own[0]), n_ingest = list_length(c->http_paths), n_prom = 0,
           n;

    while (prom_api_paths[n_prom].path != NULL)
        n_prom++;
    n = n_own + n_ingest + n_prom;
    d->routes = calloc(n + 1, sizeof(*d->routes));
    d->route_paths = calloc(n + 1, sizeof(char *));
    if (d->routes == NULL || d->route_paths == NULL)
        return otl_fail(err, OTL_ENOMEM, "serve: no memory");
    for (size_t i = 0; i < n_own + n_ingest; i++) {
        bool is_own = i < n_own;
        char *path = join_path(c->http_prefix, is_own ? own[i].path : c->http_paths[i - n_own]);

        if (path == NULL)
            return otl_fail(err, OTL_ENOMEM, "serve: no memory");
        d->route_paths[i] = path;
        d->routes[i] = is_own ? own[i]
                              : (struct http_route){.allow = "POST",
                                                    .methods = HTTP_POST,
                                                    .admit = ingest_admit,
                                                    .handle = ingest_handle,
                                                    .arg = d->ingest};
        d->routes[i].path = path;
    }
    for (size_t i = 0; i < n_prom; i++) {
        const struct prom_api_path *api = &prom_api_paths[i];
        char *path = join_path(c->http_prefix, api->path);

        if (path == NULL)
            return otl_fail(err, OTL_ENOMEM, "serve: no memory");
        d->route_paths[n_own + n_ingest + i] = path;
        d->routes[n_own + n_ingest + i] = (struct http_route){.path = path,
                                                              .allow = api->allow,
                                                              .methods = api->methods,
                                                              .admit = prom_api_admit,
                                                              .handle = prom_api_handle,
                                                              .arg = &d->prom};
    }
    return OTL_OK;
}

static enum otl_err start_queries(struct daemon *d, struct otl_error *err)
{
    struct query_opts o;
    size_t n = 0;
    FILE *text = open_memstream(&d->config_text, &n);
    enum otl_err rc;

    cli_query_opts(&d->config, &o);
    if (text != NULL)
        config_print_yaml(&d->config, text);
    if (text == NULL || fclose(text) != 0)
        return otl_fail(err, OTL_ENOMEM, "serve: no memory");
    o.config = d->config_text;
    rc = query_engine_new(&o, &d->engine, err);
    d->prom = (struct prom_api){.auth = &d->auth, .readers = d->readers, .engine = d->engine};
    return rc;
}

static enum otl_err start_http(struct daemon *d, struct otl_error *err)
{
    const struct config *c = &d->config;
    struct ingest_opts in = {
        .auth = &d->auth,
        .writer = d->writer,
        .max_body_bytes = (size_t)c->http_max_body,
        .max_inflight_bytes = (size_t)c->http_max_inflight,
        .max_decode_bytes = (size_t)c->otlp_decode_memory,
        .known_bytes = (size_t)c->otlp_known_bytes,
    };
    struct http_opts o = {
        .listen = (const char *const *)c->listen,
        .loops = (unsigned)c->http_loops,
        .max_body_bytes = (size_t)c->http_max_body,
        .max_header_bytes = (size_t)c->http_max_header,
        .max_reading_bytes = (size_t)c->http_max_inflight,
        .max_connections = (unsigned)c->http_max_connections,
        .idle_timeout_ms = c->http_idle_timeout,
        .request_timeout_ms = c->http_request_timeout,
        .cors = {.origins = (const char *const *)c->cors_origins,
                 .headers = (const char *const *)c->cors_headers,
                 .credentials = c->cors_credentials,
                 .max_age_s = c->cors_max_age / 1000},
    };
    enum otl_err rc;

    cli_decode_limits(c, &in.limits);
    arena_set_process_limit((size_t)c->otlp_decode_memory);
    d->admin.auth = &d->auth;
    d->admin.writer = d->writer;
    d->admin.readers = d->readers;
    d->sql = (struct sql_api){
        .auth = &d->auth,
        .readers = d->readers,
        .timeout_ms = c->query_timeout,
        .max_rows = (uint64_t)c->query_max_rows,
        .max_bytes = (size_t)c->query_max_bytes,
        .max_memory = (size_t)c->query_max_memory,
    };
    d->ingest = ingest_new(&in);
    if (d->ingest == NULL)
        return otl_fail(err, OTL_ENOMEM, "serve: no memory");
    rc = start_queries(d, err);
    if (rc == OTL_OK)
        rc = make_routes(d, err);
    if (rc != OTL_OK)
        return rc;
    o.routes = d->routes;
    return http_start(&o, &d->http, err);
}

static void add_list(struct buf *b, char *const *list)
{
    for (size_t i = 0; list[i] != NULL; i++) {
        if (i > 0)
            buf_add_char(b, ',');
        buf_add_str(b, list[i]);
    }
}

/* The listen addresses with the ports that were taken. */
static void add_listen(struct buf *b, const struct daemon *d)
{
    for (unsigned i = 0; d->config.listen[i] != NULL; i++) {
        const char *l = d->config.listen[i];

        buf_printf(b, "%s%.*s:%u", i > 0 ? "," : "", (int)(strrchr(l, ':') - l), l,
                   http_port(d->http, i));
    }
}

/* The pairs of the "serving" line and the texts that they point to. */
enum {
#define X(kind, field, key, def, min, max, help) SETTING_##field,
    OTL_OPTIONS(X)
#undef X
        SETTINGS,
    SETTINGS_ROOM = SETTINGS + 5 /* four that are no options, and the end */
};
struct settings {
    struct log_kv kv[SETTINGS_ROOM];
    unsigned n;
    char durations[SETTINGS_ROOM][UNITS_TEXT];
    struct buf lists[SETTINGS_ROOM];
};

#define ADD_STRING(s, key, v) (s)->kv[(s)->n] = LOG_S(key, v)
#define ADD_ENUM(s, key, v)   (s)->kv[(s)->n] = LOG_S(key, v)
#define ADD_BOOL(s, key, v)   (s)->kv[(s)->n] = LOG_S(key, (v) ? "true" : "false")
#define ADD_INT(s, key, v)    (s)->kv[(s)->n] = LOG_I(key, v)
#define ADD_SIZE(s, key, v)   (s)->kv[(s)->n] = LOG_I(key, v)
#define ADD_DURATION(s, key, v)                 \
    duration_text((v), (s)->durations[(s)->n]); \
    (s)->kv[(s)->n] = LOG_S(key, (s)->durations[(s)->n])
#define ADD_LIST(s, key, v)             \
    add_list(&(s)->lists[(s)->n], (v)); \
    (s)->kv[(s)->n] = LOG_S(key, buf_cstr(&(s)->lists[(s)->n]))

/* One line a start, with everything that is in force. */
static void log_serving(const struct daemon *d)
{
    const struct config *c = &d->config;
    struct settings s = {.n = 4};
    struct buf listen = {0};

    add_listen(&listen, d);
    s.kv[0] = LOG_S("listen", buf_cstr(&listen));
    s.kv[1] = LOG_S("version", OTLITE_VERSION);
    s.kv[2] = LOG_I("pid", getpid());
    s.kv[3] = LOG_I("tokens", state_token_count(d->state));
    /* The option "listen" is said above, with the port that was taken. */
#define X(kind, field, key, def, min, max, help) \
    if (strcmp(key, "listen") != 0) {            \
        ADD_##kind(&s, key, c->field);           \
        s.n++;                                   \
    }
    OTL_OPTIONS(X)
#undef X
    log_emit(LOG_INFO, "serve", "serving", s.kv);
    buf_fini(&listen);
    for (unsigned i = 0; i < s.n; i++)
        buf_fini(&s.lists[i]);
}

static void apply_log_settings(const struct config *c)
{
    enum log_level level = LOG_INFO;
    enum log_format format = LOG_LOGFMT;

    /* Both are ENUM options, so they parse. */
    (void)log_level_parse(c->log_level, &level);
    (void)log_format_parse(c->log_format, &format);
    log_init(level, format);
}

static void reload(struct daemon *d, int argc, char **argv)
{
    struct config fresh;
    struct cli_args args;
    struct otl_error err;

    if (cli_parse(&spec, argc, argv, &fresh, &args) == CLI_GO) {
        apply_log_settings(&fresh);
        config_fini(&fresh);
    } else {
        LOG0(LOG_ERROR, "serve", "the configuration is wrong now; the settings stay as they were");
    }
    if (state_reload(d->state, &err) != OTL_OK)
        LOG(LOG_ERROR, "serve", "cannot read tokens again", LOG_S("error", err.msg));
    else
        LOG(LOG_INFO, "serve", "reloaded", LOG_I("tokens", state_token_count(d->state)));
}

static void wait_for_stop(struct daemon *d, const sigset_t *signals, int argc, char **argv)
{
    for (;;) {
        int sig = 0;

        if (sigwait(signals, &sig) != 0)
            continue;
        if (sig == SIGHUP) {
            reload(d, argc, argv);
            continue;
        }
        LOG(LOG_INFO, "serve", "stopping", LOG_S("signal", sig == SIGTERM ? "TERM" : "INT"),
            LOG_I("queued", STATS_GET(queue_jobs)));
        return;
    }
}

/* Takes a daemon in any half-built state. */
static void daemon_stop(struct daemon *d)
{
    if (d->http != NULL) {
        http_stop_accepting(d->http);
        if (!http_wait_idle(d->http, DRAIN_MS))
            LOG0(LOG_WARN, "serve", "some requests are still open; finishing what is queued");
    }
    /* The writer last: as the last connection it takes the -wal and -shm files away. */
    if (d->readers != NULL)
        reader_pool_stop(d->readers);
    read_shared_free(d->shared);
    if (d->maintainer != NULL)
        maintainer_stop(d->maintainer);
    maintainer_free(d->maintainer);
    if (d->writer != NULL)
        writer_stop(d->writer);
    if (d->http != NULL)
        http_stop(d->http, 2000);
    ingest_free(d->ingest);
    if (d->readers != NULL)
        reader_pool_free(d->readers);
    query_engine_free(d->engine);
    free(d->config_text);
    if (d->writer != NULL)
        writer_free(d->writer);
    if (d->state != NULL)
        state_close(d->state);
    for (size_t i = 0; d->route_paths != NULL && d->route_paths[i] != NULL; i++)
        free(d->route_paths[i]);
    free(d->route_paths);
    free(d->routes);
    if (d->lock_fd >= 0)
        (void)close(d->lock_fd);
    cli_maintain_opts_fini(&d->maintain);
    config_fini(&d->config);
}

/* Many connections need many descriptors; the hard limit is the operator's word. */
static void raise_descriptor_limit(void)
{
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &r);
    }
}

static enum otl_err daemon_start(struct daemon *d, struct otl_error *err)
{
    enum otl_err rc = cli_make_data_dir(d->config.data, err);

    if (rc == OTL_OK)
        rc = cli_lock_data_dir(d->config.data, &d->lock_fd, err);
    if (rc == OTL_OK)
        rc = start_storage(d, err);
    if (rc == OTL_OK)
        rc = check_exposure(d, err);
    if (rc == OTL_OK)
        rc = start_http(d, err);
    return rc;
}

/* Windows and answers of a query are some megabytes. By default malloc gives them back when they
 * are freed, and the next query takes a page fault for each 4 KiB: half the time of a panel by
 * service. That it cannot be set costs time and nothing else. */
static void keep_freed_memory(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
    (void)mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
}

static int serve(int argc, char **argv)
{
    struct daemon d = {.lock_fd = -1};
    struct cli_args args;
    struct otl_error err;
    sigset_t signals;
    int status = cli_parse(&spec, argc, argv, &d.config, &args);

    if (status != CLI_GO)
        return status;
    apply_log_settings(&d.config);
    raise_descriptor_limit();
    keep_freed_memory();
    (void)signal(SIGPIPE, SIG_IGN);
    /* Before any thread: they inherit the mask, and only sigwait takes these. */
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);

    status = EX_OK;
    if (daemon_start(&d, &err) == OTL_OK) {
        log_serving(&d);
        wait_for_stop(&d, &signals, argc, argv);
    } else {
        status = cli_error("serve", &err);
    }
    daemon_stop(&d);
    if (status == EX_OK)
        LOG0(LOG_INFO, "serve", "stopped");
    return status;
}

const struct cli_command cli_serve = {"serve", "Take metrics over HTTP and store them", serve};
