/* answer_json.c -- series and samples as the HTTP API shows them. */
#include <math.h>

#include "answer.h"
#include "format_number.h"

void answer_metric(struct buf *out, struct labels l)
{
    buf_add_char(out, '{');
    for (size_t i = 0; i < l.n; i++) {
        if (i > 0)
            buf_add_char(out, ',');
        buf_add_json_string(out, l.l[i].name);
        buf_add_char(out, ':');
        buf_add_json_string(out, l.l[i].value);
    }
    buf_add_char(out, '}');
}

/* A sample's value: plain digits, but for the very large and small an exponent, as Go's encoder of
 * Prometheus has it. */
void answer_value(struct buf *out, double d)
{
    double size = fabs(d);

    if (d != 0 && isfinite(d) && (size < 1e-6 || size >= 1e21)) {
        struct buf text = {0};

        format_general(&text, d);
        /* e-09 becomes e-9. */
        if (text.n >= 4 && text.p[text.n - 4] == 'e' && text.p[text.n - 3] == '-' &&
            text.p[text.n - 2] == '0') {
            text.p[text.n - 2] = text.p[text.n - 1];
            text.n--;
        }
        buf_add_bytes(out, buf_bytes(&text));
        out->failed = out->failed || text.failed;
        buf_fini(&text);
        return;
    }
    format_float(out, d);
}

void answer_sample(struct buf *out, int64_t t_ms, double v)
{
    buf_add_char(out, '[');
    format_ms(out, t_ms);
    buf_add_str(out, ",\"");
    answer_value(out, v);
    buf_add_str(out, "\"]");
}

struct bucket_list {
    struct buf *out;
    bool any;
};

static bool add_bucket(void *arg, int boundaries, double lower, double upper, double count)
{
    struct bucket_list *l = arg;

    buf_add_str(l->out, l->any ? "," : ",\"buckets\":[");
    l->any = true;
    buf_printf(l->out, "[%d,\"", boundaries);
    answer_value(l->out, lower);
    buf_add_str(l->out, "\",\"");
    answer_value(l->out, upper);
    buf_add_str(l->out, "\",\"");
    answer_value(l->out, count);
    buf_add_str(l->out, "\"]");
    return true;
}

void answer_histogram(struct buf *out, int64_t t_ms, const struct prom_histogram *h)
{
    struct bucket_list l = {out, false};

    buf_add_char(out, '[');
    format_ms(out, t_ms);
    buf_add_str(out, ",{\"count\":\"");
    answer_value(out, h->count);
    buf_add_str(out, "\",\"sum\":\"");
    answer_value(out, h->sum);
    buf_add_char(out, '"');
    histogram_walk(h, add_bucket, &l);
    if (l.any)
        buf_add_char(out, ']');
    buf_add_str(out, "}]");
}

static void add_texts(struct buf *out, const char *name, const struct annotations *a)
{
    for (size_t i = 0; i < a->n; i++) {
        if (i == 0)
            buf_printf(out, ",\"%s\":[", name);
        else
            buf_add_char(out, ',');
        buf_add_json_string(out, a->texts[i]);
    }
    if (a->n > 0)
        buf_add_char(out, ']');
}

void answer_annotations(struct buf *out, const struct eval *v)
{
    add_texts(out, "warnings", &v->warnings);
    add_texts(out, "infos", &v->infos);
}
