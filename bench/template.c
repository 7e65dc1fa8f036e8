#include "template.h"

#include <assert.h>
#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>

#include "template_encode.h"

enum {
    MAX_POINTS = 100000,
    MAX_SERIES = 10000000,
    LENGTH_DIGITS = 10 /* of Content-Length where it changes; blanks in front */
};

/* All templates of a set, at most. */
#define MAX_SET_BYTES (UINT64_C(2) << 30)

void write_le32(uint8_t *at, uint32_t v)
{
    uint32_t le = htole32(v);

    memcpy(at, &le, sizeof(le));
}

void write_digits(uint8_t *at, unsigned width, uint64_t v)
{
    while (width > 0) {
        at[--width] = (uint8_t)('0' + v % 10);
        v /= 10;
    }
}

static void write_hex(uint8_t *at, uint64_t v)
{
    for (int i = 15; i >= 0; i--, v >>= 4)
        at[i] = (uint8_t) "0123456789abcdef"[v & 15];
}

static void write_varint5(uint8_t *at, uint64_t v)
{
    for (int i = 0; i < 5; i++, v >>= 7)
        at[i] = (uint8_t)((v & 0x7f) | (i < 4 ? 0x80 : 0));
}

static void write_fixed64(uint8_t *at, uint64_t v)
{
    uint64_t le = htole64(v);

    memcpy(at, &le, sizeof(le));
}

static void write_patch(uint8_t *at, const struct template_patch *p, uint64_t v)
{
    uint64_t bits;
    double d;

    switch ((enum patch_form)p->form) {
    case FORM_FIXED64:
        write_fixed64(at, v);
        break;
    case FORM_BIG64:
        bits = htobe64(v);
        memcpy(at, &bits, sizeof(bits));
        break;
    case FORM_VARINT5:
        write_varint5(at, v);
        break;
    case FORM_DOUBLE:
    case FORM_DOUBLE_QUARTERS:
        d = (double)v / (p->form == FORM_DOUBLE ? 1 : 4);
        memcpy(&bits, &d, sizeof(bits));
        write_fixed64(at, bits);
        break;
    case FORM_DIGITS:
        write_digits(at, p->width, v);
        break;
    case FORM_QUARTERS:
        write_digits(at, p->width, v / 4);
        write_digits(at + p->width + 1, 2, v % 4 * 25);
        break;
    case FORM_HEX:
        write_hex(at, v);
        break;
    }
}

/* Which sending of its series a point is now. */
static uint64_t sending_of(const struct template *t, const struct template_field *f)
{
    return (t->pass - 1) * t->turns + f->turn + 1;
}

/* The value after that sending, which the first occurrence of the series keeps. */
static int64_t next_total(struct template *t, unsigned i, int64_t step)
{
    struct template_field *first = &t->fields[i - t->fields[i].turn * t->distinct];

    first->value += step;
    return first->value;
}

/* MIX_NUMBER: what change_body does, at a third of its cost, for the loads that have to be
 * cheapest. A point has two patches, a time and a value; in line protocol the value comes first. */
static void change_numbers(struct template *t, uint8_t *body, int64_t time)
{
    bool text = t->opts->json || t->opts->influx;
    unsigned time_of = t->opts->influx ? 1 : 0;
    uint8_t digits[TIME_DIGITS];
    uint32_t turn = UINT32_MAX; /* whose time the digits are */

    for (unsigned i = 0; i < t->n_fields; i++) {
        const struct template_field *f = &t->fields[i];
        const struct template_patch *p = &t->patches[f->patch];
        uint8_t *time_at = body + p[time_of].at, *value_at = body + p[1 - time_of].at;
        int64_t total = next_total(t, i, template_increment(f->series, sending_of(t, f)));

        if (!text) {
            write_fixed64(time_at, (uint64_t)time + f->turn);
            write_fixed64(value_at, (uint64_t)total);
            continue;
        }
        if (f->turn != turn)
            write_digits(digits, TIME_DIGITS, (uint64_t)time + f->turn);
        turn = f->turn;
        memcpy(time_at, digits, TIME_DIGITS);
        write_digits(value_at, VALUE_DIGITS, (uint64_t)total);
    }
}

/* Bring all points of the body to the pass that t has come to. */
static void change_body(struct template *t, uint8_t *body, int64_t time)
{
    if (t->opts->mix == MIX_NUMBER) {
        change_numbers(t, body, time);
        return;
    }
    for (unsigned i = 0; i < t->n_fields; i++) {
        const struct template_field *f = &t->fields[i];
        const struct template_patch *p = &t->patches[f->patch];
        uint64_t k = sending_of(t, f);
        int64_t step = template_increment(f->series, k);
        const uint64_t sources[SOURCES] = {
            [SOURCE_TIME] = (uint64_t)time + f->turn,
            [SOURCE_TOTAL] = (uint64_t)next_total(t, i, step),
            [SOURCE_STEP] = (uint64_t)step,
            [SOURCE_COUNT] = k * (1 + f->series % 4),
            [SOURCE_ID] = (uint64_t)f->series << 40 | k,
        };

        for (unsigned j = 0; j < f->patches; j++, p++)
            write_patch(body + p->at, p,
                        (uint64_t)p->base + (uint64_t)p->factor * sources[p->source]);
    }
}

/* Compress plain behind the head, and tell its length there. */
static bool compress_anew(struct template *t)
{
    uint8_t *length;

    t->wire.n = t->body_at;
    if (!template_deflate_add(t->deflate, &t->wire, &t->plain))
        return false;
    length = t->wire.p + t->body_at - 4 - LENGTH_DIGITS;
    write_digits(length, LENGTH_DIGITS, t->wire.n - t->body_at);
    for (int i = 0; i < LENGTH_DIGITS - 1 && length[i] == '0'; i++)
        length[i] = ' ';
    return true;
}

struct bytes template_next(struct template *t, int64_t wall_ns)
{
    int64_t time = wall_ns;

    t->pass++;
    if (t->opts->interval_ns > 0)
        time = t->opts->start_ns + (int64_t)t->pass * t->opts->interval_ns;
    if (time <= t->last_ns)
        time = t->last_ns + 1;
    t->last_ns = time + t->turns - 1;
    if (t->deflate != NULL) {
        bool ok;

        change_body(t, t->plain.p, time);
        ok = compress_anew(t);
        /* The worst case was reserved when the template was made. */
        assert(ok);
        (void)ok;
    } else if (t->opts->gzip) {
        template_gzip_change(t, time, t->pass);
    } else {
        change_body(t, t->wire.p + t->body_at, time);
    }
    return buf_bytes(&t->wire);
}

struct bytes template_body(const struct template *t)
{
    return bytes_of(t->wire.p + t->body_at, t->wire.n - t->body_at);
}

/* --- sets --- */

static enum otl_err make_fields(struct template *t, unsigned service, unsigned first,
                                struct otl_error *err)
{
    const struct template_opts *o = t->opts;
    unsigned of_service = o->series / o->services;

    t->fields = calloc(o->points, sizeof(*t->fields));
    if (t->fields == NULL)
        return otl_fail(err, OTL_ENOMEM, "no memory for the requests");
    t->n_fields = o->points;
    t->distinct = of_service < o->points ? of_service : o->points;
    t->turns = (o->points - 1) / t->distinct + 1;
    for (unsigned i = 0; i < o->points; i++) {
        t->fields[i].series = service * of_service + (first + i) % of_service;
        t->fields[i].turn = i / t->distinct;
        t->fields[i].value = TEMPLATE_FIRST_VALUE + t->fields[i].series;
    }
    return OTL_OK;
}

/* The body as encoded, before any sending, and what changes in it. */
static enum otl_err encode(struct template *t, struct buf *body, unsigned service, unsigned first,
                           struct otl_error *err)
{
    struct encoder e = {
        .opts = t->opts, .fields = t->fields, .n_fields = t->n_fields, .first = first};
    struct texts text;

    texts_of_service(&text, service);
    if (t->opts->influx)
        encode_influx(body, &e, &text);
    else if (t->opts->json)
        encode_json(body, &e, &text);
    else
        encode_proto(body, &e, &text);
    t->patches = e.patches;
    if (e.failed || body->failed)
        return otl_fail(err, OTL_ENOMEM, "no memory for the requests");
    if (body->n > UINT32_MAX)
        return otl_fail(err, OTL_ECONFIG, "a request has more than 4 GiB; lower the points");
    return OTL_OK;
}

static void put_head(struct template *t, size_t body_n)
{
    const struct template_opts *o = t->opts;
    const char *type = "application/x-protobuf";

    if (o->json)
        type = "application/json";
    else if (o->influx)
        type = "text/plain; charset=utf-8";
    buf_printf(&t->wire,
               "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: otlite-bench/" OTLITE_VERSION "\r\n"
               "Content-Type: %s\r\n%s%sContent-Length: %*zu\r\n\r\n",
               o->path, o->host, type, o->gzip ? "Content-Encoding: gzip\r\n" : "", o->headers,
               t->deflate != NULL ? LENGTH_DIGITS : 1, body_n);
    t->body_at = t->wire.n;
}

/* gzip: what plain becomes when it is compressed once and changed in place. */
static enum otl_err init_in_place(struct template *t, struct otl_error *err)
{
    struct buf body = {0};
    size_t stored_at = 0;
    enum otl_err rc = template_gzip_init(t, &body, &stored_at, err);

    if (rc == OTL_OK) {
        put_head(t, body.n);
        t->stored_at = t->body_at + stored_at;
        buf_add_bytes(&t->wire, buf_bytes(&body));
        if (body.failed || t->wire.failed)
            rc = otl_fail(err, OTL_ENOMEM, "no memory for the requests");
    }
    buf_fini(&body);
    if (rc != OTL_OK)
        return rc;
    /* Any pass will do that shares no byte with the marks. */
    template_gzip_change(t, t->opts->start_ns + 1, 1);
    if (!template_gzip_is_plain(t))
        rc = otl_fail(err, OTL_EINTERNAL,
                      "the compressed request cannot be changed in place; leave out --gzip");
    return rc;
}

static enum otl_err template_init(struct template *t, const struct template_opts *o,
                                  struct template_deflate *deflate, unsigned service,
                                  unsigned request, struct otl_error *err)
{
    unsigned of_service = o->series / o->services;
    unsigned first = request * o->points % of_service;
    struct buf body = {0};
    enum otl_err rc;

    memset(t, 0, sizeof(*t));
    t->opts = o;
    t->deflate = deflate;
    t->last_ns = o->start_ns;
    rc = make_fields(t, service, first, err);
    if (rc == OTL_OK)
        rc = encode(t, o->gzip ? &t->plain : &body, service, first, err);
    if (rc == OTL_OK && o->gzip && deflate == NULL) {
        rc = init_in_place(t, err);
    } else if (rc == OTL_OK) {
        put_head(t, body.n);
        buf_add_bytes(&t->wire, buf_bytes(&body));
        if (t->wire.failed || (deflate != NULL && !compress_anew(t)))
            rc = otl_fail(err, OTL_ENOMEM, "no memory for the requests");
    }
    buf_fini(&body);
    return rc;
}

/* What a point takes at most, about: its bytes and what is kept about them. */
static unsigned point_bytes(const struct template_opts *o)
{
    unsigned n = o->json ? 450 : 240;

    if (o->mix == MIX_ALL)
        n = o->json ? 1400 : 900;
    return o->gzip ? 2 * n : n;
}

static bool compresses_anew(const struct template_opts *o)
{
    return o->gzip && (o->influx || o->mix != MIX_NUMBER);
}

static enum otl_err check_numbers(const struct template_opts *o, struct otl_error *err)
{
    bool in_place = o->gzip && !compresses_anew(o);
    unsigned of_service;

    if (o->influx && (o->json || o->mix != MIX_NUMBER))
        return otl_fail(err, OTL_ECONFIG, "line protocol has numbers only: --metric-mix number");
    if (o->points < 1 || o->points > MAX_POINTS || o->services < 1 || o->series < 1 ||
        o->series > MAX_SERIES)
        return otl_fail(err, OTL_ECONFIG,
                        "points a request must be 1 to %d, services at least 1, series 1 to %d",
                        MAX_POINTS, MAX_SERIES);
    if (o->series % o->services != 0)
        return otl_fail(err, OTL_ECONFIG,
                        "%u series do not spread evenly over %u services; make --series a multiple "
                        "of --services",
                        o->series, o->services);
    of_service = o->series / o->services;
    if (of_service > o->points ? of_service % o->points != 0 : in_place && of_service < o->points)
        return otl_fail(err, OTL_ECONFIG,
                        "a service has %u series and a request %u points; make --series %u times a "
                        "multiple of %u%s",
                        of_service, o->points, o->services, o->points,
                        in_place ? "" : ", or smaller");
    if ((uint64_t)(of_service < o->points ? o->points : of_service) * o->services * point_bytes(o) >
        MAX_SET_BYTES)
        return otl_fail(err, OTL_ECONFIG,
                        "the encoded requests would take more than 2 GiB; lower --series");
    return OTL_OK;
}

enum otl_err template_set_init(struct template_set *set, const struct template_opts *o,
                               struct otl_error *err)
{
    bool anew = compresses_anew(o);
    unsigned of_service, a_service;
    enum otl_err rc = check_numbers(o, err);

    memset(set, 0, sizeof(*set));
    if (rc != OTL_OK)
        return rc;
    set->opts = *o;
    of_service = o->series / o->services;
    a_service = of_service > o->points ? of_service / o->points : 1;
    set->templates = calloc((size_t)a_service * o->services, sizeof(*set->templates));
    if (anew)
        set->deflate = template_deflate_new();
    if (set->templates == NULL || (anew && set->deflate == NULL)) {
        template_set_fini(set);
        return otl_fail(err, OTL_ENOMEM, "no memory for the requests");
    }
    for (unsigned v = 0; v < o->services; v++) {
        for (unsigned r = 0; r < a_service; r++) {
            rc = template_init(&set->templates[set->n++], &set->opts, set->deflate, v, r, err);
            if (rc != OTL_OK) {
                template_set_fini(set);
                return rc;
            }
        }
    }
    return OTL_OK;
}

void template_set_fini(struct template_set *set)
{
    for (unsigned i = 0; i < set->n; i++) {
        buf_fini(&set->templates[i].wire);
        buf_fini(&set->templates[i].plain);
        free(set->templates[i].fields);
        free(set->templates[i].patches);
    }
    free(set->templates);
    template_deflate_free(set->deflate);
    memset(set, 0, sizeof(*set));
}
