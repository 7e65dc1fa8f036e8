#include "series_gen.h"

#include <stdlib.h>
#include <string.h>

#include "otlite/clock.h"

enum {
    PLAIN_RESET = 50000, /* one in so many */
    REAL_RESET = 5000,
    PERCENT_TENTHS = 1000 /* 100.0 with one decimal */
};

/* Share of a latency histogram's measurements that falls into each bucket, in 256ths. */
static const unsigned bucket_share[GEN_INSTANCES] = {8, 20, 48, 64, 52, 32, 16, 10, 4, 2};

static uint64_t mix_bits(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t next_random(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    return mix_bits(*state);
}

/* 0 to n - 1, from 32 of the bits. */
static uint32_t below(uint64_t bits, uint32_t n)
{
    return (uint32_t)((bits & UINT32_MAX) * n >> 32);
}

/* -within to within. */
static int64_t step_of(uint64_t bits, uint32_t within)
{
    return (int64_t)below(bits, 2 * within + 1) - (int64_t)within;
}

/* What belongs to a series for good. */
static uint64_t nature(const struct series_gen *g, uint32_t s)
{
    return mix_bits(g->opts.seed ^ (s + UINT64_C(1)) * UINT64_C(0xd1b54a32d192ed03));
}

static bool is_counter(const struct series_gen *g, uint32_t s)
{
    return g->opts.mix != GEN_IDLE && gen_metric(s) < GEN_COUNTERS;
}

static void reset(struct series_gen *g, uint32_t s)
{
    g->values[s] = 0;
    g->starts_ns[s] = gen_time_ns(&g->opts, gen_service(s), g->interval) - NS_PER_MS;
}

static void plain_step(struct series_gen *g, uint32_t s)
{
    uint64_t bits = next_random(&g->random[s]);
    uint32_t metric = gen_metric(s);

    if (metric < GEN_COUNTERS) {
        if (below(bits >> 32, PLAIN_RESET) == 0)
            reset(g, s);
        g->values[s] += below(bits, 21);
    } else if (metric < 6) {
        g->values[s] += step_of(bits, 100);
    } else if (metric == 6) {
        g->values[s] += step_of(bits, 2);
    }
}

/* Did the process behind the series start anew? A histogram is of the whole service. */
static bool restarted(const struct series_gen *g, uint32_t s)
{
    uint32_t process = gen_metric(s) == 3 ? GEN_INSTANCES : gen_instance(s);
    uint64_t key = ((uint64_t)gen_service(s) << 36 ^ (uint64_t)process << 32) + g->interval;

    return below(mix_bits(key ^ g->opts.seed * UINT64_C(0x2545f4914f6cdd1d)), REAL_RESET) == 0;
}

/* The buckets of a service in turn: *below_ is what fell into those before. */
static void bucket_step(struct series_gen *g, uint32_t s, int64_t *below_)
{
    uint64_t rate = 20 + nature(g, s - gen_instance(s)) % 480;
    uint32_t most = (uint32_t)(rate * bucket_share[gen_instance(s)] / 128 + 1);

    if (gen_instance(s) == 0)
        *below_ = 0;
    if (restarted(g, s))
        reset(g, s);
    *below_ += below(next_random(&g->random[s]), most + 1);
    g->values[s] += *below_;
}

static void realistic_step(struct series_gen *g, uint32_t s)
{
    uint64_t bits, n = nature(g, s);
    uint32_t rate = 1U << n % 10;

    bits = next_random(&g->random[s]);
    switch (gen_metric(s)) {
    case 0:
    case 1:
    case 2:
        if (restarted(g, s))
            reset(g, s);
        rate += (uint32_t)(n >> 8) % rate;
        if ((n >> 32) % 10 != 0)
            g->values[s] += rate + step_of(bits, rate / 4);
        break;
    case 4:
        g->values[s] += step_of(bits, 20);
        if (g->values[s] < 0)
            g->values[s] = -g->values[s];
        if (g->values[s] > PERCENT_TENTHS)
            g->values[s] = 2 * PERCENT_TENTHS - g->values[s];
        break;
    case 5:
        g->values[s] += step_of(bits, 100);
        break;
    case 6:
        if (bits >> 63 != 0)
            g->values[s] += step_of(bits, 2);
        break;
    default:
        break;
    }
}

enum otl_err series_gen_init(struct series_gen *g, const struct series_gen_opts *o,
                             struct otl_error *err)
{
    memset(g, 0, sizeof(*g));
    if (o->series == 0 || o->series % (5 * GEN_OF_SERVICE) != 0 || o->series > 10000000)
        return otl_fail(err, OTL_ECONFIG, "the series must be a multiple of %d up to 10 million",
                        5 * GEN_OF_SERVICE);
    if (o->intervals == 0 || o->interval_ns < NS_PER_MS || o->interval_ns % NS_PER_MS != 0 ||
        o->jitter_ms * NS_PER_MS >= o->interval_ns)
        return otl_fail(err, OTL_ECONFIG,
                        "points need an interval of whole milliseconds that is longer than jitter");
    g->opts = *o;
    g->services = o->series / GEN_OF_SERVICE;
    g->values = calloc(o->series, sizeof(*g->values));
    g->starts_ns = calloc(o->series, sizeof(*g->starts_ns));
    g->random = calloc(o->series, sizeof(*g->random));
    if (g->values == NULL || g->starts_ns == NULL || g->random == NULL) {
        series_gen_fini(g);
        return otl_fail(err, OTL_ENOMEM, "no memory for %u series", o->series);
    }
    for (uint32_t s = 0; s < o->series; s++) {
        uint64_t n = nature(g, s);

        g->random[s] = n;
        g->starts_ns[s] = is_counter(g, s) ? o->start_ns - NS_PER_S : 0;
        if (o->mix == GEN_REALISTIC && gen_metric(s) == 4)
            g->values[s] = (int64_t)(n % PERCENT_TENTHS);
        else if (!is_counter(g, s))
            g->values[s] = 1000 + (int64_t)(n % 9000);
    }
    return OTL_OK;
}

void series_gen_fini(struct series_gen *g)
{
    free(g->values);
    free(g->starts_ns);
    free(g->random);
    memset(g, 0, sizeof(*g));
}

bool series_gen_next(struct series_gen *g)
{
    int64_t in_buckets = 0;

    if (g->interval + 1 >= g->opts.intervals)
        return false;
    g->interval++;
    for (uint32_t s = 0; s < g->opts.series; s++) {
        if (g->opts.mix == GEN_PLAIN)
            plain_step(g, s);
        else if (g->opts.mix == GEN_REALISTIC && gen_metric(s) == 3)
            bucket_step(g, s, &in_buckets);
        else if (g->opts.mix == GEN_REALISTIC)
            realistic_step(g, s);
    }
    return true;
}

unsigned gen_decimals(enum gen_mix mix, uint32_t metric)
{
    if (mix == GEN_REALISTIC && metric == 4)
        return 1;
    return metric == 4 || metric == 5 ? 2 : 0;
}

double gen_double(int64_t value, unsigned decimals)
{
    static const double scale[] = {1, 10, 100};

    return (double)value / scale[decimals];
}

unsigned gen_text(int64_t value, unsigned decimals, char out[24])
{
    uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
    char digits[24];
    unsigned n = 0, at = 0;

    do { /* from the last digit on, and at least one before the point */
        if (n == decimals && decimals > 0)
            digits[at++] = '.';
        digits[at++] = (char)('0' + rest % 10);
        rest /= 10;
        n++;
    } while (rest > 0 || n <= decimals);
    if (value < 0)
        digits[at++] = '-';
    for (unsigned i = 0; i < at; i++)
        out[i] = digits[at - 1 - i];
    out[at] = '\0';
    return at;
}

const char *gen_metric_name(uint32_t metric)
{
    static const char *const names[GEN_METRICS] = {
        "http.server.requests", "http.server.errors", "rpc.client.bytes", "http.server.latency",
        "process.cpu.usage",    "process.memory",     "queue.length",     "build.info",
    };

    return names[metric];
}

int64_t gen_time_ns(const struct series_gen_opts *o, uint32_t service, uint32_t interval)
{
    int64_t t = o->start_ns + interval * o->interval_ns;

    if (o->jitter_ms > 0) {
        uint64_t key = (uint64_t)service << 32 ^ interval ^ o->seed << 7;

        t += below(mix_bits(key), o->jitter_ms + 1) * NS_PER_MS;
    }
    return t;
}
