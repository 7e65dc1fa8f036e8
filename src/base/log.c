#include "otlite/log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "otlite/clock.h"

static _Atomic int log_least = LOG_INFO;
static _Atomic int log_form = LOG_LOGFMT;
/* One line is one write, so lines of threads do not mix. */
static pthread_mutex_t log_mu = PTHREAD_MUTEX_INITIALIZER;

static const char *const level_names[] = {"debug", "info", "warn", "error"};
static const char *const format_names[] = {"logfmt", "json"};

void log_init(enum log_level level, enum log_format format)
{
    atomic_store(&log_least, (int)level);
    atomic_store(&log_form, (int)format);
}

bool log_level_parse(const char *s, enum log_level *out)
{
    for (int i = 0; i <= LOG_ERROR; i++) {
        if (strcmp(s, level_names[i]) == 0) {
            *out = (enum log_level)i;
            return true;
        }
    }
    return false;
}

bool log_format_parse(const char *s, enum log_format *out)
{
    for (int i = 0; i <= LOG_JSON; i++) {
        if (strcmp(s, format_names[i]) == 0) {
            *out = (enum log_format)i;
            return true;
        }
    }
    return false;
}

static bool is_bare(struct bytes s)
{
    if (s.n == 0)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        uint8_t c = s.p[i];

        if (c <= ' ' || c >= 0x7f || c == '"' || c == '=' || c == '\\')
            return false;
    }
    return true;
}

static void add_text(struct buf *b, bool json, struct bytes s)
{
    if (!json && is_bare(s))
        buf_add_bytes(b, s);
    else
        buf_add_json_string(b, s);
}

static void add_key(struct buf *b, bool json, const char *key)
{
    if (b->n > (json ? 1u : 0u))
        buf_add_char(b, json ? ',' : ' ');
    if (json)
        buf_printf(b, "\"%s\":", key);
    else
        buf_printf(b, "%s=", key);
}

static void add_value(struct buf *b, bool json, const struct log_kv *kv)
{
    switch (kv->kind) {
    case LOG_KV_STR:
        add_text(b, json, bytes_str(kv->u.s != NULL ? kv->u.s : ""));
        break;
    case LOG_KV_BYTES:
        add_text(b, json, kv->u.b);
        break;
    case LOG_KV_INT:
        buf_printf(b, "%lld", (long long)kv->u.i);
        break;
    case LOG_KV_DOUBLE:
        buf_printf(b, "%.6g", kv->u.d);
        break;
    }
}

void log_emit(enum log_level level, const char *module, const char *msg, const struct log_kv *kv)
{
    struct buf b = {0};
    bool json = atomic_load(&log_form) == LOG_JSON;
    int64_t now;
    time_t secs;
    struct tm tm;
    char ts[40], stamp[64];
    size_t done = 0;

    if ((int)level < atomic_load(&log_least))
        return;
    now = clock_wall_ns();
    secs = (time_t)(now / NS_PER_S);
    if (gmtime_r(&secs, &tm) == NULL || strftime(ts, sizeof(ts), "%Y-%m-%dT%H:%M:%S", &tm) == 0)
        ts[0] = '\0';
    (void)snprintf(stamp, sizeof(stamp), "%s.%03dZ", ts, (int)(now % NS_PER_S / NS_PER_MS));

    if (json)
        buf_add_char(&b, '{');
    add_key(&b, json, "ts");
    add_text(&b, json, bytes_str(stamp));
    add_key(&b, json, "level");
    add_text(&b, json, bytes_str(level_names[level]));
    add_key(&b, json, "module");
    add_text(&b, json, bytes_str(module));
    add_key(&b, json, "msg");
    add_text(&b, json, bytes_str(msg));
    for (; kv != NULL && kv->key != NULL; kv++) {
        add_key(&b, json, kv->key);
        add_value(&b, json, kv);
    }
    buf_add_str(&b, json ? "}\n" : "\n");
    (void)pthread_mutex_lock(&log_mu);
    while (!b.failed && done < b.n) {
        ssize_t w = write(STDERR_FILENO, b.p + done, b.n - done);

        /* A log that cannot be written must not stop the daemon. */
        if (w <= 0)
            break;
        done += (size_t)w;
    }
    (void)pthread_mutex_unlock(&log_mu);
    buf_fini(&b);
}

bool log_gate_open(struct log_gate *g, int64_t period_ns, uint64_t *held)
{
    int64_t now = clock_mono_ns();
    int64_t next = atomic_load(&g->next_ns);

    if (now < next || !atomic_compare_exchange_strong(&g->next_ns, &next, now + period_ns)) {
        atomic_fetch_add(&g->held, 1);
        return false;
    }
    *held = atomic_exchange(&g->held, 0);
    return true;
}
