/* reply.c -- what a sender reads: ExportMetricsServiceResponse and google.rpc.Status. */
#include "otlite/reply.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "otlp.pb-c.h"
#include "status.pb-c.h"

enum {
    MAX_MESSAGE = 1024,   /* bytes of a partial success's message (H-62) */
    MAX_EXAMPLE = 80,     /* of a metric's name within it */
    MESSAGE_RESERVE = 64, /* kept free for the sentence that counts what did not fit */
};

#define BAD_REQUEST_URL "type.googleapis.com/google.rpc.BadRequest"

const char *reply_content_type(enum encoding encoding)
{
    return encoding == ENCODING_PROTOBUF ? "application/x-protobuf" : "application/json";
}

/* --- text for people ------------------------------------------------------------------------ */

struct text {
    char s[MAX_MESSAGE + 1];
    size_t n;
};

/* Length of the character at p, which starts one of a well-formed text. */
static size_t character_length(uint8_t first)
{
    if (first < 0x80)
        return 1;
    if (first < 0xe0)
        return 2;
    return first < 0xf0 ? 3 : 4;
}

static bool is_control(const uint8_t *p)
{
    return p[0] < 0x20 || p[0] == 0x7f || (p[0] == 0xc2 && p[1] < 0xa0);
}

/* s as UTF-8 without control characters, at most max bytes (of a buffer of max + 1), cut between
 * characters. A name comes from the network and goes to terminals and logs. */
static size_t clean(struct bytes s, size_t max, char *out)
{
    struct buf repaired = {0};
    size_t n = 0, i = 0;

    /* Repair never shortens a text to less than half, so more than this is cut away anyhow. */
    if (s.n > max * 2 + 8)
        s.n = max * 2 + 8;
    utf8_repair(&repaired, s);
    while (!repaired.failed && i < repaired.n) {
        const uint8_t *p = repaired.p + i;
        size_t step = character_length(p[0]);
        bool control = is_control(p);

        if ((control ? 1 : step) > max - n) {
            /* Say that it was cut: drop whole characters until three dots fit. */
            while (n > 0 && n + 3 > max) {
                do
                    n--;
                while (n > 0 && ((uint8_t)out[n] & 0xc0) == 0x80);
            }
            if (n + 3 <= max) {
                memcpy(out + n, "...", 3);
                n += 3;
            }
            break;
        }
        if (control) {
            out[n++] = '?';
        } else {
            memcpy(out + n, p, step);
            n += step;
        }
        i += step;
    }
    out[n] = '\0';
    buf_fini(&repaired);
    return n;
}

/* Add one sentence if it fits whole, leaving the reserve. */
OTL_PRINTF(2, 3)
static bool text_add(struct text *t, const char *fmt, ...)
{
    char part[512];
    va_list ap;
    size_t n;
    int r;

    va_start(ap, fmt);
    r = vsnprintf(part, sizeof(part), fmt, ap);
    va_end(ap);
    if (r < 0 || (size_t)r >= sizeof(part))
        return false;
    n = (size_t)r + (t->n > 0);
    if (n > MAX_MESSAGE - MESSAGE_RESERVE - t->n)
        return false;
    if (t->n > 0)
        t->s[t->n++] = ' ';
    memcpy(t->s + t->n, part, (size_t)r + 1);
    t->n += (size_t)r;
    return true;
}

/* The one with the highest count not yet told, or -1. */
static int next_largest(const uint64_t *count, const bool *told, int n)
{
    int best = -1;

    for (int i = 0; i < n; i++) {
        if (count[i] > 0 && !told[i] && (best < 0 || count[i] > count[best]))
            best = i;
    }
    return best;
}

/* " (for example NAME)" or nothing. */
static void example_of(struct bytes name, const char *what, char *out, size_t size)
{
    char shown[MAX_EXAMPLE + 1];

    out[0] = '\0';
    if (clean(name, MAX_EXAMPLE, shown) > 0)
        (void)snprintf(out, size, " (for example %s\"%s\")", what, shown);
}

/* Why points were refused, most first; then what was odd with what was taken. */
static void describe(const struct batch *b, struct text *t)
{
    bool rejected[REJECT_COUNT_OF_REASONS] = {false};
    /* A metric without data refuses no point and is common in honest requests (S13, M-26): it is
     * counted in the self-metrics, not told to the sender. */
    bool warned[WARN_COUNT_OF_WARNINGS] = {[WARN_NO_DATA] = true};
    char example[MAX_EXAMPLE + 48];
    unsigned left_out = 0;
    int i;

    while ((i = next_largest(b->rejected, rejected, REJECT_COUNT_OF_REASONS)) >= 0) {
        uint64_t n = b->rejected[i];

        rejected[i] = true;
        example_of(b->reject_example[i], "metric ", example, sizeof(example));
        left_out += !text_add(t, "%" PRIu64 " point%s rejected: %s%s.", n, n == 1 ? "" : "s",
                              reject_text((enum reject_reason)i), example);
    }
    while ((i = next_largest(b->warnings, warned, WARN_COUNT_OF_WARNINGS)) >= 0) {
        uint64_t n = b->warnings[i];

        warned[i] = true;
        example_of(b->warning_example[i], "", example, sizeof(example));
        left_out += !text_add(t, "Warning, %" PRIu64 " time%s: %s%s.", n, n == 1 ? "" : "s",
                              warning_text((enum warning)i), example);
    }
    if (left_out > 0) {
        int r = snprintf(t->s + t->n, sizeof(t->s) - t->n, "%s%u more kind%s not listed.",
                         t->n > 0 ? " " : "", left_out, left_out == 1 ? " is" : "s are");

        if (r > 0)
            t->n += (size_t)r; /* within MESSAGE_RESERVE by its widest form */
    }
}

/* --- the two encodings ---------------------------------------------------------------------- */

static ProtobufCBinaryData binary(char *s, size_t n)
{
    return (ProtobufCBinaryData){n, (uint8_t *)s};
}

static void add_packed(struct buf *out, const ProtobufCMessage *m)
{
    size_t n = protobuf_c_message_get_packed_size(m);

    if (!buf_reserve(out, n))
        return;
    out->n += protobuf_c_message_pack(m, out->p + out->n);
}

void reply_success(enum encoding encoding, const struct batch *batch, struct buf *out)
{
    uint64_t rejected = batch_rejected(batch);
    struct text t = {.n = 0};

    describe(batch, &t);
    if (t.n == 0) {
        if (encoding == ENCODING_JSON)
            buf_add_str(out, "{}");
        return;
    }
    if (encoding == ENCODING_PROTOBUF) {
        Otlp__ExportMetricsPartialSuccess partial = OTLP__EXPORT_METRICS_PARTIAL_SUCCESS__INIT;
        Otlp__ExportMetricsServiceResponse response = OTLP__EXPORT_METRICS_SERVICE_RESPONSE__INIT;

        partial.rejected_data_points = (int64_t)rejected;
        partial.error_message = binary(t.s, t.n);
        response.partial_success = &partial;
        add_packed(out, &response.base);
        return;
    }
    buf_add_str(out, "{\"partialSuccess\":{");
    if (rejected > 0)
        buf_printf(out, "\"rejectedDataPoints\":\"%" PRIu64 "\",", rejected);
    buf_add_str(out, "\"errorMessage\":");
    buf_add_json_string(out, bytes_of(t.s, t.n));
    buf_add_str(out, "}}");
}

/* google.rpc.Code for the HTTP status that a code stands for (otlp.md G-4, G-5, H-75). */
static int rpc_code(enum otl_err code)
{
    switch (otl_err_http(code)) {
    case 200:
        return 0; /* OK */
    case 400:
    case 415:
    case 417:
    case 431:
        return 3; /* INVALID_ARGUMENT */
    case 401:
        return 16; /* UNAUTHENTICATED */
    case 403:
        return 7; /* PERMISSION_DENIED */
    case 404:
        return 5; /* NOT_FOUND */
    case 405:
    case 501:
        return 12; /* UNIMPLEMENTED */
    case 413:
    case 429:
        return 8; /* RESOURCE_EXHAUSTED */
    case 503:
        return 14; /* UNAVAILABLE */
    default:
        return 13; /* INTERNAL */
    }
}

static void status_protobuf(int code, char *msg, size_t msg_n, char *field, size_t field_n,
                            struct buf *out)
{
    Rpc__Status status = RPC__STATUS__INIT;
    Rpc__Any any = RPC__ANY__INIT, *anys = &any;
    Rpc__BadRequest detail = RPC__BAD_REQUEST__INIT;
    Rpc__FieldViolation violation = RPC__FIELD_VIOLATION__INIT, *violations = &violation;
    struct buf packed = {0};
    char url[] = BAD_REQUEST_URL;

    status.code = code;
    status.message = binary(msg, msg_n);
    if (field_n > 0) {
        violation.field = binary(field, field_n);
        violation.description = binary(msg, msg_n);
        detail.n_field_violations = 1;
        detail.field_violations = &violations;
        add_packed(&packed, &detail.base);
        any.type_url = binary(url, sizeof(url) - 1);
        any.value = (ProtobufCBinaryData){packed.n, packed.p};
        /* Without memory for the detail the Status goes without it. */
        status.n_details = packed.failed ? 0 : 1;
        status.details = &anys;
    }
    add_packed(out, &status.base);
    buf_fini(&packed);
}

static void status_json(int code, struct bytes msg, struct bytes field, struct buf *out)
{
    buf_printf(out, "{\"code\":%d,\"message\":", code);
    buf_add_json_string(out, msg);
    if (field.n > 0) {
        buf_add_str(out, ",\"details\":[{\"@type\":\"" BAD_REQUEST_URL
                         "\",\"fieldViolations\":[{\"field\":");
        buf_add_json_string(out, field);
        buf_add_str(out, ",\"description\":");
        buf_add_json_string(out, msg);
        buf_add_str(out, "}]}]");
    }
    buf_add_char(out, '}');
}

void reply_status(enum encoding encoding, const struct otl_error *err, struct buf *out)
{
    char msg[sizeof(err->msg)], field[sizeof(err->field)];
    int code = rpc_code(err->code);
    size_t msg_n, field_n;

    /* A message may quote the request and may have been cut within a character. */
    msg_n = clean(bytes_str(err->msg), sizeof(msg) - 1, msg);
    field_n = clean(bytes_str(err->field), sizeof(field) - 1, field);
    if (msg_n == 0)
        msg_n = clean(bytes_str(otl_err_text(err->code)), sizeof(msg) - 1, msg);
    if (encoding == ENCODING_PROTOBUF)
        status_protobuf(code, msg, msg_n, field, field_n, out);
    else
        status_json(code, bytes_of(msg, msg_n), bytes_of(field, field_n), out);
}
