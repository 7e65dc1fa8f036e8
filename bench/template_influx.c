/* template_influx.c -- InfluxDB line protocol. The texts need no escapes: no blank, comma or equals
 * sign is in them. */
#include "template_encode.h"

void encode_influx(struct buf *out, struct encoder *e, struct texts *text)
{
    for (unsigned i = 0; i < e->n_fields; i++) {
        texts_of_series(text, e->opts, encoder_series(e, i));
        e->fields[i].patch = e->n;
        buf_printf(out,
                   "%s,service.name=%s,http.route=%s,http.request.method=%s,server.address=%s "
                   "value=",
                   text->metric, text->service, text->route, text->method, text->node);
        encoder_patch(e, out->n, sum_value, FORM_DIGITS, VALUE_DIGITS);
        buf_printf(out, "%0*di ", VALUE_DIGITS, 0);
        encoder_patch(e, out->n, point_time, FORM_DIGITS, TIME_DIGITS);
        buf_printf(out, "%0*d\n", TIME_DIGITS, 0);
        e->fields[i].patches = e->n - e->fields[i].patch;
    }
}
