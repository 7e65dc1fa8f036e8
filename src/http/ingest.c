/* ingest.c -- one OTLP request as a state machine:
 *
 *   RECEIVED --admit, inflate, decode--> DECODED --writer_submit--> QUEUED --done--> REPLIED
 *       |                                   |
 *       +-- refused: 4xx, 503               +-- nothing storable: 200 without the writer
 *
 * I1  A 200 for a batch with storable points leaves only after the writer said OTL_OK.
 * I2  Each job's done runs exactly once, on the loop of its exchange.
 * I3  While QUEUED only the writer touches job, batch and arena; the loop may lose the client
 *     meanwhile, which touches the exchange alone.
 * I4  What a loop keeps for its requests (the pool, the cache of known series) only that loop
 *     touches.
 *
 * The body, the inflated copy, the arena and what is held of the cache live until REPLIED, since
 * the batch borrows them. In steady state a request allocates nothing. */
#include "otlite/ingest.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "otlite/clock.h"
#include "otlite/known.h"
#include "otlite/log.h"
#include "otlite/reply.h"
#include "otlite/stats.h"

/* Requests that a loop keeps for reuse, the largest inflate buffer that one of them keeps, and how
 * much of a name goes into a log line. */
enum { POOL_MAX = 64, KEEP_INFLATED = 4 * 1024 * 1024, MAX_LOGGED_NAME = 128 };

/* Loops with a pool and a cache of their own; http.loops is 256 at most. On a machine with more
 * cores and no setting, the loops beyond have neither. */
enum { MAX_LOOPS = 256 };

/* Senders whose rejections were logged lately: "once per reason and sender" in bounded memory. */
enum { SEEN_SLOTS = 1024 };
#define SEEN_PERIOD (3600 * NS_PER_S)

struct ingest_request {
    struct ingest_request *next; /* pool */
    struct ingest *ingest;
    struct ingest_loop *loop; /* the exchange's; NULL beyond MAX_LOOPS */
    struct http_exchange *x;
    struct write_job job;
    struct arena arena;
    struct buf inflated; /* the decompressed body, or a copy that outlives the exchange */
    struct buf reply;
    struct batch batch;
    struct known_hold *hold; /* of the loop's cache, while the batch borrows from it */
    enum encoding encoding;
    size_t inflight; /* what this request added to the gauge */
};

struct seen {
    uint64_t key;
    int64_t at_ns;
};

struct ingest_loop {
    _Alignas(64) struct ingest_request *pool; /* a cache line of its own: see I4 */
    unsigned pool_n;
    struct known *known; /* made with the first request that can use it */
};

struct ingest {
    struct ingest_loop loops[MAX_LOOPS];
    struct ingest_opts opts;
    pthread_mutex_t mu; /* guards what follows */
    struct seen seen[SEEN_SLOTS];
};

struct ingest *ingest_new(const struct ingest_opts *o)
{
    struct ingest *g = aligned_alloc(_Alignof(struct ingest), sizeof(*g));

    if (g == NULL)
        return NULL;
    memset(g, 0, sizeof(*g));
    g->opts = *o;
    if (pthread_mutex_init(&g->mu, NULL) != 0) {
        free(g);
        return NULL;
    }
    return g;
}

static void request_free(struct ingest_request *r)
{
    arena_fini(&r->arena);
    buf_fini(&r->inflated);
    buf_fini(&r->reply);
    free(r);
}

void ingest_free(struct ingest *g)
{
    if (g == NULL)
        return;
    for (unsigned i = 0; i < MAX_LOOPS; i++) {
        struct ingest_loop *l = &g->loops[i];

        while (l->pool != NULL) {
            struct ingest_request *r = l->pool;

            l->pool = r->next;
            request_free(r);
        }
        known_free(l->known);
    }
    (void)pthread_mutex_destroy(&g->mu);
    free(g);
}

static struct ingest_request *request_take(struct ingest *g, struct http_exchange *x)
{
    unsigned i = http_loop_index(http_exchange_loop(x));
    struct ingest_loop *l = i < MAX_LOOPS ? &g->loops[i] : NULL;
    struct ingest_request *r = NULL;

    if (l != NULL && l->pool != NULL) {
        r = l->pool;
        l->pool = r->next;
        l->pool_n--;
    } else {
        r = calloc(1, sizeof(*r));
    }
    if (r != NULL) {
        r->ingest = g;
        r->loop = l;
        r->x = x;
    }
    return r;
}

static void request_give(struct ingest_request *r)
{
    struct ingest_loop *l = r->loop;

    STATS_SUB(inflight_bytes, (int64_t)r->inflight);
    r->inflight = 0;
    if (r->hold != NULL)
        known_release(l->known, r->hold);
    r->hold = NULL;
    arena_reset(&r->arena, 0);
    if (r->inflated.cap > KEEP_INFLATED)
        buf_fini(&r->inflated);
    buf_reset(&r->inflated);
    r->x = NULL;
    if (l == NULL || l->pool_n >= POOL_MAX) {
        request_free(r);
        return;
    }
    r->next = l->pool;
    l->pool = r;
    l->pool_n++;
}

/* The cache of the request's loop, or NULL. */
static struct known *known_of(const struct ingest_request *r)
{
    size_t bytes = r->ingest->opts.known_bytes;

    if (r->loop == NULL || r->encoding != ENCODING_PROTOBUF || bytes == 0)
        return NULL;
    if (r->loop->known == NULL)
        r->loop->known = known_new(bytes / http_loop_count(http_exchange_loop(r->x)));
    return r->loop->known;
}

/* True when a sender's rejections for this reason were not logged within the last hour. */
static bool first_seen(struct ingest *g, const char *peer, int64_t project, enum reject_reason why)
{
    uint64_t key = bytes_hash(bytes_str(peer), (uint64_t)project * 64 + (uint64_t)why) | 1;
    struct seen *s = &g->seen[key / 2 % SEEN_SLOTS];
    int64_t now = clock_mono_ns();
    bool first;

    (void)pthread_mutex_lock(&g->mu);
    first = s->key != key || now - s->at_ns > SEEN_PERIOD;
    if (first)
        *s = (struct seen){key, now};
    (void)pthread_mutex_unlock(&g->mu);
    return first;
}

/* Every point is accounted for: received = stored + merged + replaced + rejected. */
static void account(struct ingest_request *r)
{
    const struct batch *b = &r->batch;

    STATS_ADD(points_received, b->received);
    for (int i = 0; i < REJECT_COUNT_OF_REASONS; i++) {
        enum reject_reason why = (enum reject_reason)i;
        struct bytes name = b->reject_example[i];

        if (b->rejected[i] == 0)
            continue;
        STATS_ADD(rejected[i], b->rejected[i]);
        if (name.n > MAX_LOGGED_NAME) /* it may be rejected for its length */
            name.n = MAX_LOGGED_NAME;
        if (first_seen(r->ingest, http_peer(r->x), r->job.project_id, why))
            LOG(LOG_WARN, "ingest", "points rejected", LOG_S("reason", reject_label(why)),
                LOG_S("why", reject_text(why)), LOG_I("points", b->rejected[i]),
                LOG_B("metric", name), LOG_S("peer", http_peer(r->x)),
                LOG_I("project", r->job.project_id));
    }
    for (int i = 0; i < WARN_COUNT_OF_WARNINGS; i++) {
        if (b->warnings[i] > 0)
            STATS_ADD(warnings[i], b->warnings[i]);
    }
}

/* Whether the answered batch holds something for the cache. Its body then outlives the exchange. */
static bool keep_to_learn(struct ingest_request *r)
{
    const struct batch *b = &r->batch;
    uint32_t i = 0;

    if (r->hold != NULL || known_of(r) == NULL)
        return false;
    while (i < b->n_series && b->series[i].number == 0)
        i++;
    if (i == b->n_series)
        return false;
    if (r->inflated.n == 0)
        buf_add_bytes(&r->inflated, http_body(r->x));
    return !r->inflated.failed;
}

static void finish_ok(struct ingest_request *r)
{
    bool learn = keep_to_learn(r);

    account(r);
    buf_reset(&r->reply);
    reply_success(r->encoding, &r->batch, &r->reply);
    if (r->reply.failed) {
        /* Stored, but there is no memory to say what was rejected: a retryable answer would be
         * merged as a resend, a bare 200 would hide the rejections. */
        struct otl_error err;

        (void)otl_fail(&err, OTL_ENOMEM, "no memory for the answer; send again");
        http_reply_error(r->x, r->encoding, &err);
    } else {
        http_reply(r->x, 200, reply_content_type(r->encoding), buf_bytes(&r->reply));
    }
    r->x = NULL;
    /* After the answer, so that the sender does not wait. The batch still stands: protobuf-c has
     * copied all its texts into the arena. */
    if (learn)
        known_learn(r->loop->known, r->job.project_id, buf_bytes(&r->inflated),
                    &r->ingest->opts.limits, &r->batch);
    request_give(r);
}

static void log_refusal(const struct http_exchange *x, const struct otl_error *err)
{
    static struct log_gate gate;
    uint64_t held;

    if (otl_err_http(err->code) != 503 && log_gate_open(&gate, NS_PER_S, &held))
        LOG(LOG_WARN, "ingest", "request refused", LOG_I("status", otl_err_http(err->code)),
            LOG_S("error", err->msg), LOG_S("field", err->field), LOG_S("peer", http_peer(x)),
            LOG_I("suppressed", held));
}

static void finish_error(struct ingest_request *r, const struct otl_error *err)
{
    log_refusal(r->x, err);
    http_reply_error(r->x, r->encoding, err);
    request_give(r);
}

static void on_done(struct handoff_item *item)
{
    struct write_job *job =
        (struct write_job *)(void *)((char *)item - offsetof(struct write_job, done));
    struct ingest_request *r =
        (struct ingest_request *)(void *)((char *)job - offsetof(struct ingest_request, job));

    if (job->rc == OTL_OK)
        finish_ok(r);
    else
        finish_error(r, &job->err);
}

/* Codings are tokens, compared without case; empty, "identity" and "none" mean none (H-21, H-22).
 */
static enum otl_err find_coding(struct http_exchange *x, enum coding *out, struct otl_error *err)
{
    static const struct {
        const char *name;
        enum coding coding;
    } codings[] = {{"", CODING_IDENTITY},     {"identity", CODING_IDENTITY},
                   {"none", CODING_IDENTITY}, {"gzip", CODING_GZIP},
                   {"x-gzip", CODING_GZIP},   {"deflate", CODING_DEFLATE}};
    const char *v = http_header(x, "Content-Encoding");
    size_t n;

    if (v == NULL)
        v = "";
    v += strspn(v, " \t");
    n = strlen(v);
    while (n > 0 && (v[n - 1] == ' ' || v[n - 1] == '\t'))
        n--;
    /* Several lines are a list, like "gzip, gzip" in one: not taken (H-25). */
    for (size_t i = 0;
         http_header_count(x, "Content-Encoding") <= 1 && i < sizeof(codings) / sizeof(codings[0]);
         i++) {
        if (strlen(codings[i].name) == n && strncasecmp(codings[i].name, v, n) == 0) {
            *out = codings[i].coding;
            return OTL_OK;
        }
    }
    http_add_header(x, "Accept-Encoding", "gzip, deflate");
    return otl_fail(err, OTL_EMEDIATYPE,
                    "Content-Encoding '%.60s' is not taken; send gzip, deflate or none", v);
}

/* What decoding may take. Real bodies grow 3 to 8 times, those of many tiny points up to 30; an
 * attack grows more than 100 times (H-51). Small bodies get room, large ones a tighter ratio. */
static size_t decode_budget(const struct ingest *g, size_t n)
{
    const size_t floor_bytes = 4u << 20, small = 8u << 20;
    size_t budget = n > SIZE_MAX / 32 ? SIZE_MAX : n * 8 + (n < small ? n : small) * 24;

    if (budget < floor_bytes)
        budget = floor_bytes;
    return budget < g->opts.max_decode_bytes ? budget : g->opts.max_decode_bytes;
}

/* Count n more bytes in flight; false when that is over the limit. */
static bool take_inflight(struct ingest_request *r, size_t n)
{
    int64_t now = STATS_ADD(inflight_bytes, (int64_t)n) + (int64_t)n;

    r->inflight += n;
    return now <= (int64_t)r->ingest->opts.max_inflight_bytes;
}

/* What the head alone decides: whether this sender may send this here, now. */
static enum otl_err check_head(const struct ingest *g, struct http_exchange *x,
                               struct principal *who, enum encoding *encoding, enum coding *coding,
                               struct otl_error *err)
{
    enum otl_err rc;

    if (http_stopping(x))
        return otl_fail(err, OTL_ESTOPPING, "the daemon is stopping; send again");
    rc = auth_check(g->opts.auth, x, SCOPE_WRITE, who, err);
    if (rc != OTL_OK)
        return rc;
    if (!http_encoding(x, encoding))
        return otl_fail(err, OTL_EMEDIATYPE,
                        "Content-Type must be application/x-protobuf or application/json");
    return find_coding(x, coding, err);
}

static enum otl_err no_room_in_flight(struct otl_error *err)
{
    return otl_fail(err, OTL_EBUSY, "too many bytes in flight (http.max_inflight); send again");
}

/* What is refused here costs no receiving and no decoding, so that the refused leave the machine to
 * those that are stored. */
bool ingest_admit(struct http_exchange *x, void *arg)
{
    const struct ingest *g = arg;
    enum encoding encoding = ENCODING_JSON;
    enum coding coding;
    struct principal who;
    struct otl_error err;
    uint64_t length = 0;
    enum otl_err rc;

    (void)http_encoding(x, &encoding); /* for the refusal, whatever is looked at first */
    rc = check_head(g, x, &who, &encoding, &coding, &err);
    (void)http_content_length(x, &length);
    if (rc == OTL_OK && length <= g->opts.max_body_bytes) {
        int64_t in_flight = STATS_GET(inflight_bytes);

        rc = writer_room(g->opts.writer, (size_t)length, &err);
        if (rc == OTL_OK && in_flight + (int64_t)length > (int64_t)g->opts.max_inflight_bytes)
            rc = no_room_in_flight(&err);
    }
    if (rc == OTL_OK)
        return true; /* too long a body is refused by the server, with the same limit */
    log_refusal(x, &err);
    http_reply_error(x, encoding, &err);
    return false;
}

static enum otl_err admit(struct ingest_request *r, enum coding *coding, struct otl_error *err)
{
    struct ingest *g = r->ingest;
    struct bytes body = http_body(r->x);
    struct principal who;
    enum otl_err rc = check_head(g, r->x, &who, &r->encoding, coding, err);

    if (rc != OTL_OK)
        return rc;
    r->job.project_id = who.project_id;
    if (body.n > g->opts.max_body_bytes)
        return otl_fail(err, OTL_ETOOBIG,
                        "the body is larger than %zu bytes (http.max_body); send smaller batches",
                        g->opts.max_body_bytes);
    return take_inflight(r, body.n) ? OTL_OK : no_room_in_flight(err);
}

/* The short way, when all of the request's series are known. */
static bool decode_known(struct ingest_request *r, struct bytes body, int64_t now_ns)
{
    struct known *k = known_of(r);

    if (k == NULL)
        return false;
    if (known_decode(k, r->job.project_id, body, &r->ingest->opts.limits, now_ns, &r->arena,
                     &r->batch, &r->hold)) {
        STATS_ADD(known_hits, 1);
        return true;
    }
    STATS_ADD(known_misses, 1);
    return false;
}

static enum otl_err decode(struct ingest_request *r, enum coding coding, struct otl_error *err)
{
    struct ingest *g = r->ingest;
    struct bytes body = http_body(r->x);
    int64_t now_ns = clock_wall_ns();

    STATS_ADD(bytes_received, body.n);
    if (coding != CODING_IDENTITY) {
        enum otl_err rc = inflate_body(coding, body, g->opts.max_body_bytes, &r->inflated, err);

        if (rc != OTL_OK)
            return rc;
        body = buf_bytes(&r->inflated);
        if (!take_inflight(r, body.n))
            return no_room_in_flight(err);
    }
    STATS_ADD(bytes_decoded, body.n);
    arena_reset(&r->arena, decode_budget(g, body.n));
    if (decode_known(r, body, now_ns))
        return OTL_OK;
    arena_reset(&r->arena, decode_budget(g, body.n));
    return decode_body(r->encoding, body, &g->opts.limits, now_ns, &r->arena, &r->batch, err);
}

void ingest_handle(struct http_exchange *x, void *arg)
{
    struct ingest *g = arg;
    struct ingest_request *r = request_take(g, x);
    enum coding coding = CODING_IDENTITY;
    struct otl_error err;
    enum otl_err rc;

    if (r == NULL) {
        (void)otl_fail(&err, OTL_ENOMEM, "out of memory; send again");
        http_reply_error(x, ENCODING_JSON, &err);
        return;
    }
    r->encoding = ENCODING_JSON; /* until the request says otherwise */
    (void)http_encoding(x, &r->encoding);
    memset(&r->job, 0, sizeof(r->job));
    rc = admit(r, &coding, &err);
    if (rc == OTL_OK)
        rc = decode(r, coding, &err);
    if (rc != OTL_OK) {
        finish_error(r, &err);
        return;
    }
    if (batch_storable(&r->batch) == 0) {
        finish_ok(r);
        return;
    }
    r->job.batch = &r->batch;
    r->job.bytes = r->arena.reserved + r->inflated.n + http_body(x).n;
    r->job.reply_to = http_loop_handoff(http_exchange_loop(x));
    r->job.done.run = on_done;
    rc = writer_submit(g->opts.writer, &r->job, &err);
    if (rc != OTL_OK)
        finish_error(r, &err);
}
