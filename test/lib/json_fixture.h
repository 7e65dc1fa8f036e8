/* json_fixture.h -- one JSON body after the other to a message tree. */
#ifndef JSON_FIXTURE_H
#define JSON_FIXTURE_H

#include "otlp/message.h"

/* Of the test at hand: 64 levels and 64 MiB unless it sets others; err and notes are those of the
 * last body. */
struct jfx {
    struct decode_limits limits;
    struct arena arena;
    struct decode_notes notes;
    struct otl_error err;
};

extern struct jfx jfx;

/* For cmocka. */
int jfx_setup(void **state);
int jfx_teardown(void **state);

/* *out is NULL when the body is refused. */
enum otl_err jfx_decode(struct bytes body, otlp_request **out);
/* How many warnings of any kind the last body gave. */
uint64_t jfx_warnings(void);

#endif
